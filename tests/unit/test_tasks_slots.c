/* Slots learned from a run: slice takes them for the pieces they were learned from, within what the
 * codec can work with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compiler/ir.h"

static const char flow_text[] = "flow f\n"
                                "ranks 2\n"
                                "dtype bf16\n"
                                "op sum\n"
                                "count 8192\n"
                                "slices 2\n"
                                "inout x[3] on 0..2\n"
                                "ensure x[0]@1 == x[0]@0\n"
                                "\n"
                                "copy x[0]@0 -> x[0]@1 via pack\n"
                                "copy x[1]@0 -> x[1]@1 via pack(0.8)\n"
                                "copy x[2]@0 -> x[2]@1 via cast(f16)\n";

static void learned_slots_are_used_within_bounds(void **state) {
    (void)state;
    /* [encoding * 2 + slice] */
    static const uint64_t learned[] = {5000, 0, UINT64_MAX, 1, 9, 9};
    struct compilation c = {.arena = arena_new(), .emit_rank = -1};
    c.sources = sources_new(c.arena);
    c.diag = diag_new(c.arena, c.sources);
    c.flow = flow_parse(c.arena, c.sources, c.diag, "f", flow_text, strlen(flow_text));
    assert_non_null(c.flow);
    c.setup = c.flow->setup;
    c.setup.slot_bytes = learned;
    c.setup.slot_count = sizeof learned / sizeof *learned;
    assert_true(pass_verify(&c) && pass_forward(&c) && pass_lower(&c) && pass_fuse(&c) &&
                pass_slice(&c));
    const struct tasks *t = c.tasks;
    assert_int_equal(t->pieces.count, 12); /* 3 encodings, 2 slices, at both ends */
    for (size_t i = 0; i < t->pieces.count; i++) {
        const struct piece *p = &t->pieces.data[i];
        const struct codec *codec = &c.flow->codecs.data[p->codec];
        const uint64_t wanted[] = {5000,
                                   codec_slot_bytes(codec, DTYPE_BF16, 4096),
                                   codec_worst_bytes(codec, DTYPE_BF16, 4096),
                                   codec_least_bytes(codec, DTYPE_BF16, 4096),
                                   8192, /* a fixed codec has one size */
                                   8192};
        assert_int_equal(p->elems, 4096);
        assert_int_equal(p->bytes, wanted[p->encoding * 2 + p->slice]);
    }
    for (size_t i = 0; i < t->messages.count; i++) {
        const struct task *send = &t->tasks.data[t->messages.data[i].send];
        assert_int_equal(t->messages.data[i].bytes,
                         t->pieces.data[t->operands.data[send->first_operand].index].bytes);
    }
    prover_free(&c);
    VEC_FREE(&c.proved);
    tasks_free(c.tasks);
    flow_trace_free(&c.trace, c.flow);
    values_free(c.values);
    flow_free(c.flow);
    arena_free(c.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(learned_slots_are_used_within_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
