/* What validate says of tasks that no text can hold, since the reader refuses them first: here they
 * are made by hand, from two ranks that swap a chunk. And it survives whatever numbers stand in
 * them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/compiler.h"

/* Rank 0: t0 encode, t1 send m0, t2 recv m1, t3 store. Rank 1: t4 recv m0, t5 reduce, t6 send m1.
 */
static const char pair_text[] = "tasks pair\n"
                                "ranks 2\n"
                                "dtype f32\n"
                                "op sum\n"
                                "count 64\n"
                                "collective allreduce on 0..2\n"
                                "inout data[1] on 0..2\n"
                                "sliced 1 unit 32\n"
                                "comms 1\n"
                                "rounds 2 0\n"
                                "lanes 2\n"
                                "placed\n"
                                "rank 0 arena 512 unshared 512 scratch 0\n"
                                "  p0 none encoding 0 elems 64 bytes 256 at 0\n"
                                "  p1 none encoding 1 elems 64 bytes 256 at 256\n"
                                "  t0 copy data[0] -> p0 lane 1\n"
                                "  t1 send m0 p0 to 1 round 0 lane 0 after t0\n"
                                "  t2 recv m1 p1 from 1 round 1 lane 0\n"
                                "  t3 copy data[0] = p1 lane 1 after t2\n"
                                "rank 1 arena 512 unshared 512 scratch 0\n"
                                "  p0 none encoding 0 elems 64 bytes 256 at 0\n"
                                "  p1 none encoding 1 elems 64 bytes 256 at 256\n"
                                "  t0 recv m0 p0 from 0 round 0 lane 0\n"
                                "  t1 reduce data[0] = data[0] + p0 -> p1 lane 1 after t0\n"
                                "  t2 send m1 p1 to 0 round 1 lane 0 after t1\n";

/* One rank adds two chunks, in two slices, through an accumulator each. */
static const char sliced_text[] = "tasks sliced\n"
                                  "ranks 1\n"
                                  "dtype f32\n"
                                  "op sum\n"
                                  "count 64\n"
                                  "input src[2] on 0\n"
                                  "output dst[1] on 0\n"
                                  "ensure dst[0]@0 == sum(src[0]@0, src[1]@0)\n"
                                  "sliced 2 unit 32\n"
                                  "comms 1\n"
                                  "rounds 0 0\n"
                                  "lanes 2\n"
                                  "placed\n"
                                  "rank 0 accs 2 arena 512 unshared 512 scratch 0\n"
                                  "  acc0 at 0\n"
                                  "  acc1 at 256\n"
                                  "  t0 reduce acc0 = src[0] + src[1] slice 0 lane 1\n"
                                  "  t1 reduce acc1 = src[0] + src[1] slice 1 lane 1\n"
                                  "  t2 round dst[0] = acc0 slice 0 lane 1\n"
                                  "  t3 round dst[0] = acc1 slice 1 lane 1\n";

struct fixture {
    struct compilation *c;
    struct tasks *t;
};

static struct fixture start_text(const char *text) {
    struct compile_options o = {.emit_rank = -1};
    struct fixture x;
    x.c = opt_text("by hand", text, strlen(text), "", &o);
    assert_true(compilation_ok(x.c));
    x.t = x.c->tasks;
    for (size_t i = 0; i < x.t->tasks.count; i++)
        x.t->tasks.data[i].at = 0; /* the text no longer says what they are */
    return x;
}

static struct fixture start(void) {
    return start_text(pair_text);
}

/* The messages of validate, without colour. */
static char *verdict(struct compilation *c) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct diag *before = c->diag;
    c->diag = diag_new(c->arena, c->sources);
    bool ok = pass_validate(c);
    assert_int_equal(ok, diag_errors(c->diag) == 0);
    diag_print(c->diag, out, false);
    c->diag = before;
    fclose(out);
    return text;
}

static void expect(struct fixture x, const char *wanted) {
    char *text = verdict(x.c);
    assert_string_equal(text, wanted);
    free(text);
    compilation_free(x.c);
}

static void accepts_the_pair(void **state) {
    (void)state;
    expect(start(), "");
}

static void rejects_a_send_without_a_receive(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->messages.data[0].recv = NONE;
    struct task *recv = &x.t->tasks.data[4]; /* becomes a copy that fills the piece */
    recv->kind = TASK_COMPUTE;
    recv->message = NONE;
    recv->lane = 1;
    recv->first_operand = x.t->tasks.data[5].first_operand;
    recv->operands = 1;
    expect(x, "error: message m0 is sent by rank 0 to rank 1, which never receives it\n");
}

static void rejects_a_receive_without_a_send(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->messages.data[1].send = NONE;
    x.t->ranks.data[1].n--; /* the send is the last task */
    x.t->tasks.count--;
    expect(x, "error: message m1 is received by rank 0 from rank 1, which never sends it\n");
}

static void rejects_a_message_that_names_another_task(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->messages.data[0].send = 0;
    expect(x, "error: rank 0, t1: another task sends this message\n");
}

static void rejects_a_message_of_other_bytes(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->messages.data[0].bytes = 512;
    expect(x, "error: message m0 from rank 0 to rank 1 is said to be 512 bytes and its pieces are "
              "256\n");
}

static void rejects_a_message_of_another_round(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->messages.data[1].round = 0;
    expect(x, "error: message m1 from rank 1 to rank 0 is in round 1 of comm 0 at its ends and in "
              "round 0 of comm 0 in the list of messages\n");
}

static void rejects_a_wait_for_a_later_task(void **state) {
    (void)state;
    struct fixture x = start();
    VEC_PUSH(&x.t->deps, 3); /* t0 of rank 0 waits for t3 */
    x.t->tasks.data[0].first_dep = (uint32_t)x.t->deps.count - 1;
    x.t->tasks.data[0].deps = 1;
    expect(x, "error: these tasks wait for each other and none of them can ever run: move a "
              "message to a later round, or take a wait away\n"
              "note: rank 0: t0 (copy of data[0]@0) waits for t3 (copy of data[0]@0): it depends "
              "on it\n"
              "note: rank 0: t3 (copy of data[0]@0) waits for t0 (copy of data[0]@0): it is behind "
              "it in its lane\n");
}

static void rejects_a_wait_for_itself(void **state) {
    (void)state;
    struct fixture x = start();
    VEC_PUSH(&x.t->deps, 5);
    x.t->tasks.data[5].first_dep = (uint32_t)x.t->deps.count - 1;
    x.t->tasks.data[5].deps = 1;
    expect(x, "error: these tasks wait for each other and none of them can ever run: move a "
              "message to a later round, or take a wait away\n"
              "note: rank 1: t1 (reduce of data[0]@1) waits for t1 (reduce of data[0]@1): it "
              "depends on it\n");
}

static void rejects_a_wait_for_another_rank(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->deps.data[x.t->tasks.data[5].first_dep] = 0;
    expect(x, "error: rank 1, t1: it waits for a task that is not on this rank\n");
}

static void rejects_a_piece_of_another_rank(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->outs.data[x.t->tasks.data[0].first_out] = 2;
    expect(x, "error: rank 0, t0: it uses a piece of another rank\n");
}

static void rejects_a_chunk_of_another_rank(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->tasks.data[3].store.index = 1;
    expect(x, "error: rank 0, t3: it uses a chunk that is not on this rank\n");
}

static void rejects_operands_out_of_bounds(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->tasks.data[3].first_operand = UINT32_MAX;
    expect(x, "error: rank 0, t3: its operands are out of bounds\n");
}

static void rejects_a_receive_into_what_the_round_sends(void **state) {
    (void)state;
    struct fixture x = start();
    x.t->outs.data[x.t->tasks.data[2].first_out] = 0; /* m1 into what m0 is sent from */
    x.t->operands.data[x.t->tasks.data[3].first_operand].index = 0;
    x.t->pieces.data[3].encoding = 0;
    x.t->tasks.data[1].round = x.t->tasks.data[4].round = x.t->messages.data[0].round = 1;
    x.t->tasks.data[5].operands = 1; /* m1 does not wait for m0 */
    x.t->tasks.data[5].deps = 0;
    expect(x, "error: rank 0: race on p0 (data[0]@0): t1 (send of data[0]@0 to rank 1) reads it "
              "and t2 (recv of data[0]@0 from rank 1) writes it; both are in one round, put one of "
              "them into another\n");
}

static void rejects_one_encoding_of_two_values(void **state) {
    (void)state;
    struct fixture x = start();
    for (size_t i = 0; i < x.t->pieces.count; i++)
        x.t->pieces.data[i].encoding = 0;
    expect(x, "error: rank 1: t1 (reduce of data[0]@1) fills p1 (data[0]@1), encoding 0, with "
              "data[0]@0 + data[0]@1; encoding 0 is data[0]@0\n");
}

/* ---- rubbish ---- */

/* Tasks of a schedule: at its statements, with the loop values; alike ones are told once. */
static void rejects_an_accumulator_of_another_slice(void **state) {
    (void)state;
    expect(start_text(sliced_text), "");
    struct fixture x = start_text(sliced_text);
    x.t->operands.data[x.t->tasks.data[3].first_operand].index = 0;
    expect(x, "error: rank 0: t3 (round of dst[0]@0) works on slice 1 and acc0 holds slice 0\n");
}

static void points_at_the_statements_of_a_schedule(void **state) {
    (void)state;
    static const char text[] = "schedule star() {\n"
                               "    collective allreduce;\n"
                               "    inout data[1];\n"
                               "    for r in 1..N { reduce data[0]@r -> data[0]@0; }\n"
                               "    copy data[0]@0 -> data[0]@ranks(0..N);\n"
                               "}\n";
#define STATEMENT                                            \
    "    for r in 1..N { reduce data[0]@r -> data[0]@0; }\n" \
    "                    ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
    struct compile_options o = {
        .setup = {.ranks = 4, .nodes = 1, .dtype = DTYPE_F32, .redop = REDOP_SUM, .count = 64},
        .emit_rank = -1};
    struct fixture x;
    x.c = compile_text("star.slc", text, sizeof text - 1, &o);
    assert_true(compilation_ok(x.c));
    x.t = x.c->tasks;
    x.t->tasks.data[3].deps = 0; /* rank 0 receives three times, then adds */
    expect(
        x,
        "star.slc:4:21: error: rank 0: race on p0 (data[0]@1): t0 (recv of data[0]@1 from rank "
        "1) writes it and t3 (reduce of data[0]@0) reads it; nothing orders them, let t3 wait "
        "for t0\n" STATEMENT "star.slc:4:21: note: with r = 3\n" STATEMENT
        "star.slc:4:21: note: written here\n" STATEMENT
        "star.slc:4:21: note: the same with t1 and t3 on rank 0; t2 and t3 on rank 0\n" STATEMENT);
#undef STATEMENT
}

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void corrupt(void *data, size_t bytes, uint64_t *seed) {
    if (bytes < 4)
        return;
    static const uint32_t odd[] = {0, 1, 2, 3, 7, 64, 255, 256, 0x7fffffff, 0xfffffffe, NONE};
    size_t at = (size_t)(next_random(seed) >> 8) % (bytes / 4) * 4;
    uint32_t value = odd[(next_random(seed) >> 8) % (sizeof odd / sizeof *odd)];
    if (next_random(seed) >> 60 == 0)
        value = (uint32_t)(next_random(seed) >> 16);
    memcpy((char *)data + at, &value, 4);
}

static void corrupt_something(struct tasks *t, uint64_t *seed) {
#define CORRUPT(field) corrupt(t->field.data, t->field.count * sizeof *t->field.data, seed)
    switch ((next_random(seed) >> 8) % 12) {
    case 0:
        CORRUPT(ranks);
        break;
    case 1:
        CORRUPT(operands);
        break;
    case 2:
        CORRUPT(outs);
        break;
    case 3:
        CORRUPT(deps);
        break;
    case 4:
    case 5:
        CORRUPT(pieces);
        break;
    case 6:
    case 7:
        CORRUPT(messages);
        break;
    case 8:
        CORRUPT(chunk_offsets);
        break;
    default:
        CORRUPT(tasks);
        break;
    }
#undef CORRUPT
}

static void survives_rubbish(void **state) {
    (void)state;
    uint64_t seed = UINT64_C(88172645463325252);
    unsigned accepted = 0;
    for (int i = 0; i < 4000; i++) {
        struct fixture x = start();
        for (uint64_t n = 1 + (next_random(&seed) >> 8) % 3; n > 0; n--)
            corrupt_something(x.t, &seed);
        char *text = verdict(x.c);
        accepted += !*text;
        free(text);
        compilation_free(x.c);
    }
    assert_in_range(accepted, 1, 2000); /* some fields mean nothing here; most do */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_the_pair),
        cmocka_unit_test(rejects_a_send_without_a_receive),
        cmocka_unit_test(rejects_a_receive_without_a_send),
        cmocka_unit_test(rejects_a_message_that_names_another_task),
        cmocka_unit_test(rejects_a_message_of_other_bytes),
        cmocka_unit_test(rejects_a_message_of_another_round),
        cmocka_unit_test(rejects_a_wait_for_a_later_task),
        cmocka_unit_test(rejects_a_wait_for_itself),
        cmocka_unit_test(rejects_a_wait_for_another_rank),
        cmocka_unit_test(rejects_a_piece_of_another_rank),
        cmocka_unit_test(rejects_a_chunk_of_another_rank),
        cmocka_unit_test(rejects_operands_out_of_bounds),
        cmocka_unit_test(rejects_a_receive_into_what_the_round_sends),
        cmocka_unit_test(rejects_one_encoding_of_two_values),
        cmocka_unit_test(rejects_an_accumulator_of_another_slice),
        cmocka_unit_test(points_at_the_statements_of_a_schedule),
        cmocka_unit_test(survives_rubbish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
