/* The table of values: equal expressions are one value and different ones never are, whatever their
 * hashes. And the trace: what is read, what arrives, and which bytes move.
 */
#include "compiler/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct arena *arena;
    struct sources *sources;
    struct diag *diag;
    struct flow *flow;
    struct values *values;
    struct flow_trace trace;
};

static struct world world_of(const char *body) {
    struct world w = {.arena = arena_new()};
    w.sources = sources_new(w.arena);
    w.diag = diag_new(w.arena, w.sources);
    char *text =
        arena_printf(w.arena, "flow test\nranks 4\ndtype f32\nop sum\ncount 1000\n%s", body);
    w.flow = flow_parse(w.arena, w.sources, w.diag, "test.flow", text, strlen(text));
    if (!w.flow)
        diag_print(w.diag, stdout, false);
    assert_non_null(w.flow);
    w.values = values_new(w.flow);
    return w;
}

static void world_free(struct world *w) {
    flow_trace_free(&w->trace, w->flow);
    values_free(w->values);
    flow_free(w->flow);
    arena_free(w->arena);
}

static loc_id loc(const struct world *w, size_t buffer, int32_t chunk, int32_t rank) {
    const struct flow_buffer *b = &w->flow->buffers.data[buffer];
    return b->first_loc + (uint32_t)b->position[rank] * (uint32_t)b->chunks + (uint32_t)chunk;
}

static uint32_t sum2(struct world *w, uint32_t a, uint32_t b) {
    uint32_t operands[2] = {a, b};
    return value_sum(w->values, operands, 2);
}

static uint32_t sum3(struct world *w, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t operands[3] = {a, b, c};
    return value_sum(w->values, operands, 3);
}

static void test_inputs_are_one_value_each(void **unused) {
    (void)unused;
    struct world w =
        world_of("input src[3] on 0..4\noutput dst[3] on 0..4\ninout data[2] on 1, 3\n");
    assert_int_equal(values_count(w.values), 16);
    for (int32_t r = 0; r < 4; r++)
        for (int32_t c = 0; c < 3; c++) {
            uint32_t v = value_input(w.values, loc(&w, 0, c, r));
            assert_int_equal(value_get(w.values, v)->kind, VALUE_INPUT);
            assert_int_equal(value_get(w.values, v)->a, loc(&w, 0, c, r));
        }
    uint32_t v = value_input(w.values, loc(&w, 2, 1, 3));
    assert_int_equal(value_get(w.values, v)->a, loc(&w, 2, 1, 3));
    world_free(&w);
}

static void test_only_the_first_two_operands_commute(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[4] on 0..4\n");
    assert_int_equal(sum2(&w, 1, 2), sum2(&w, 2, 1));
    assert_int_equal(sum3(&w, 1, 2, 3), sum3(&w, 2, 1, 3));
    assert_int_not_equal(sum3(&w, 1, 2, 3), sum3(&w, 1, 3, 2));
    assert_int_not_equal(sum3(&w, 1, 2, 3), sum2(&w, sum2(&w, 1, 2), 3));
    assert_int_not_equal(sum2(&w, sum2(&w, 1, 2), 3), sum2(&w, 1, sum2(&w, 2, 3)));
    assert_int_equal(value_get(w.values, sum3(&w, 1, 2, 2))->leaves, 3);
    world_free(&w);
}

static void test_codecs(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[1] on 0..4\n"
                              "copy data[0]@0 -> data[0]@1 via pack\n"
                              "copy data[0]@0 -> data[0]@1 via cast(bf16)\n"
                              "copy data[0]@0 -> data[0]@1 via quant(8)\n");
    assert_int_equal(value_coded(w.values, 1, 0, 0), 0); /* lossless */
    uint32_t cast = value_coded(w.values, 2, 0, 0), quant = value_coded(w.values, 3, 0, 0);
    assert_int_not_equal(cast, 0);
    assert_int_not_equal(cast, quant);
    assert_int_equal(cast, value_coded(w.values, 2, 0, 3)); /* whichever rank encodes */
    uint32_t both = value_coded(w.values, 3, cast, 0);
    assert_int_equal(value_get(w.values, both)->lossy, 2);
    assert_int_equal(value_get(w.values, both)->core, 0);
    assert_int_equal(value_get(w.values, sum2(&w, both, 1))->lossy, 2);
    world_free(&w);
}

/* Enough sums that many share all 32 bits of their hash. */
static void test_different_sums_are_different_values(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[200] on 0..4\n");
    uint32_t inputs = values_count(w.values);
    for (uint32_t a = 0; a < inputs; a++)
        for (uint32_t b = a; b < inputs; b++) {
            uint32_t count = values_count(w.values);
            assert_int_equal(sum2(&w, a, b), count);
        }
    for (uint32_t id = inputs; id < values_count(w.values); id += 101) {
        const uint32_t *operands = value_operands(w.values, id);
        assert_int_equal(sum2(&w, operands[1], operands[0]), id);
    }
    world_free(&w);
}

/* Doubled again and again, a sum has more inputs than can be counted: the count stops, it does not
 * wrap. */
static void test_leaves_saturate(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[1] on 0..4\n");
    uint32_t v = 0;
    for (int i = 0; i < 70; i++)
        v = sum2(&w, v, v);
    assert_int_equal(value_get(w.values, v)->leaves, UINT32_MAX);
    assert_true(strlen(value_text(w.arena, w.values, v)) < 300);
    world_free(&w);
}

static bool trace(struct world *w) {
    return values_trace(w->values, w->flow, w->diag, &w->trace);
}

static void test_reductions_nobody_reads_are_one_sum(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[1] on 0..4\n"
                              "reduce data[0]@1 -> data[0]@0\n"
                              "reduce data[0]@2 -> data[0]@0\n"
                              "copy data[0]@0 -> data[0]@0\n"
                              "reduce data[0]@3 -> data[0]@0\n");
    assert_true(trace(&w));
    uint32_t three = sum3(&w, 0, 1, 2);
    assert_int_equal(w.trace.read[2], three); /* a copy onto itself completes the sum */
    assert_int_equal(w.trace.final[0], sum2(&w, three, 3));
    world_free(&w);
}

static void test_a_step_reads_before_it_writes(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[1] on 0..4\n"
                              "step {\n"
                              "copy data[0]@0 -> data[0]@1\n"
                              "copy data[0]@1 -> data[0]@2\n"
                              "copy data[0]@2 -> data[0]@0\n"
                              "}\n");
    assert_true(trace(&w));
    assert_int_equal(w.trace.final[loc(&w, 0, 0, 0)], 2);
    assert_int_equal(w.trace.final[loc(&w, 0, 0, 1)], 0);
    assert_int_equal(w.trace.final[loc(&w, 0, 0, 2)], 1);
    world_free(&w);
}

static void test_received_bytes_are_sent_on(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[1] on 0..4\n"
                              "copy data[0]@0 -> data[0]@1 via quant(8)\n"
                              "copy data[0]@1 -> data[0]@2 via quant(8)\n"   /* the same bytes */
                              "copy data[0]@2 -> data[0]@3\n"                /* raw */
                              "copy data[0]@3 -> data[0]@0 via quant(8)\n"); /* encoded anew */
    assert_true(trace(&w));
    uint32_t coded = value_coded(w.values, 1, 0, 0);
    const uint32_t *e = w.trace.encoding;
    assert_int_equal(e[0], 0);
    assert_int_equal(e[1], 0);
    assert_int_equal(e[2], 1);
    assert_int_equal(e[3], 2);
    assert_int_equal(w.trace.encodings.count, 3);
    assert_int_equal(w.trace.encodings.data[2].rank, 3);
    assert_int_equal(w.trace.final[loc(&w, 0, 0, 2)], coded);
    assert_int_equal(w.trace.final[loc(&w, 0, 0, 0)], value_coded(w.values, 1, coded, 0));
    world_free(&w);
}

/* In a step nothing has been received yet, so nothing received is sent on. */
static void test_bytes_of_a_step_are_there_after_it(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[1] on 0..4\n"
                              "copy data[0]@0 -> data[0]@1\n"
                              "step {\n"
                              "copy data[0]@0 -> data[0]@1 via pack\n"
                              "copy data[0]@1 -> data[0]@0 via pack\n"
                              "}\n");
    assert_true(trace(&w));
    assert_int_equal(w.trace.encoding[1], 1);
    assert_int_equal(w.trace.encoding[2], 2);
    world_free(&w);
}

static void test_local_moves(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[2] on 0..4\nscratch tmp[1] on 0..4\n"
                              "copy data[0]@0 -> tmp[0]@0\n"
                              "copy data[0]@0 -> tmp[0]@0 via pack\n"
                              "copy data[0]@0 -> data[0]@0 via quant(8)\n"
                              "copy data[0]@0 -> data[0]@1 via quant(8)\n");
    assert_true(trace(&w));
    uint32_t coded = value_coded(w.values, 2, 0, 0);
    assert_int_equal(w.trace.encoding[0], NONE);
    assert_int_equal(w.trace.encoding[1], NONE);
    assert_int_equal(w.trace.encoding[2], 0);
    assert_int_equal(w.trace.encoding[3], 0); /* the bytes made for the copy onto itself */
    assert_int_equal(w.trace.final[loc(&w, 0, 0, 0)], coded);
    assert_int_equal(w.trace.final[loc(&w, 0, 0, 1)], coded);
    assert_int_equal(w.trace.final[loc(&w, 1, 0, 0)], 0);
    assert_int_equal(w.trace.final[loc(&w, 1, 0, 1)], NONE);
    world_free(&w);
}

static void test_find_addition(void **unused) {
    (void)unused;
    struct world w = world_of("inout data[1] on 0..4\nscratch tmp[1] on 0\n"
                              "copy data[0]@3 -> tmp[0]@0\n"
                              "reduce data[0]@2 -> tmp[0]@0\n"
                              "reduce data[0]@1 -> tmp[0]@0\n"
                              "reduce data[0]@2 -> tmp[0]@0\n");
    assert_true(trace(&w));
    uint32_t sum = w.trace.final[loc(&w, 1, 0, 0)];
    assert_int_equal(values_find_addition(w.values, w.flow, w.diag, sum, 0), 1); /* sorted: 2 + 3 */
    assert_int_equal(values_find_addition(w.values, w.flow, w.diag, sum, 1), NONE);
    assert_int_equal(values_find_addition(w.values, w.flow, w.diag, sum, 2), 2);
    assert_int_equal(values_find_addition(w.values, w.flow, w.diag, sum, 3), 3);
    world_free(&w);
}

/* The even split: whole units of 128 bytes, the remainder in the last chunks, the last unit
 * partial. */
static void test_split(void **unused) {
    (void)unused;
    struct world w = world_of("collective allreduce on 0..4\ninout data[3] on 0..4\n");
    /* 1000 f32: 32 units of 32 elements, the last holds 8; 10, 11, 11 units */
    assert_int_equal(flow_input_elems(w.flow, 0), 320);
    assert_int_equal(flow_input_elems(w.flow, 1), 352);
    assert_int_equal(flow_input_elems(w.flow, 2), 328);
    assert_int_equal(flow_size_class(w.flow, loc(&w, 0, 2, 3)), 2);
    w.flow->setup.count = 1; /* one partial unit: the last chunk has it */
    assert_int_equal(flow_input_elems(w.flow, 0), 0);
    assert_int_equal(flow_input_elems(w.flow, 2), 1);
    w.flow->setup.count = 0;
    assert_int_equal(flow_input_elems(w.flow, 2), 0);
    world_free(&w);
}

static void test_split_of_blocks(void **unused) {
    (void)unused;
    struct world w = world_of("collective allgather on 0..4\n"
                              "input src[2] on 0..4\noutput dst[8] on 0..4\n");
    /* 1000 a block: 16 and 16 units */
    for (int32_t c = 0; c < 8; c++) {
        assert_int_equal(flow_input_elems(w.flow, loc(&w, 1, c, 2)), c % 2 ? 488 : 512);
        assert_int_equal(flow_size_class(w.flow, loc(&w, 1, c, 2)), c % 2);
    }
    assert_int_equal(flow_input_elems(w.flow, loc(&w, 0, 1, 1)), 488);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs_are_one_value_each),
        cmocka_unit_test(test_only_the_first_two_operands_commute),
        cmocka_unit_test(test_codecs),
        cmocka_unit_test(test_different_sums_are_different_values),
        cmocka_unit_test(test_leaves_saturate),
        cmocka_unit_test(test_reductions_nobody_reads_are_one_sum),
        cmocka_unit_test(test_a_step_reads_before_it_writes),
        cmocka_unit_test(test_received_bytes_are_sent_on),
        cmocka_unit_test(test_bytes_of_a_step_are_there_after_it),
        cmocka_unit_test(test_local_moves),
        cmocka_unit_test(test_find_addition),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
