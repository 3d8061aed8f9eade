/* Task text: one small program with every field reads and prints back byte for byte; then each way
 * in which a line can be wrong is put in its place, and the whole message compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compiler/ir.h"

#include <stdlib.h>

struct reading {
    struct arena *arena;
    struct diag *diag;
    struct tasks *tasks;
};

static struct reading read_text(const char *text) {
    struct reading r = {.arena = arena_new()};
    struct sources *s = sources_new(r.arena);
    r.diag = diag_new(r.arena, s);
    r.tasks = tasks_parse(r.arena, s, r.diag, "t", text, strlen(text));
    return r;
}

static void finish(struct reading *r) {
    if (r->tasks) {
        struct flow *f = (struct flow *)r->tasks->flow;
        tasks_free(r->tasks);
        flow_free(f);
    }
    arena_free(r->arena);
}

static char *printed(const struct tasks *t, int32_t rank) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    tasks_print(t, rank, out);
    fclose(out);
    return text;
}

/* The first message, without the source line below it. */
static char *first_message(const struct reading *r) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    diag_print(r->diag, out, false);
    fclose(out);
    text[strcspn(text, "\n")] = 0;
    return text;
}

/* ---- all that there is -------------------------------------------------------------------- */

#define HEADER                       \
    "tasks all\n"                    \
    "ranks 2\n"                      \
    "dtype bf16\n"                   \
    "op avg\n"                       \
    "count 5000\n"                   \
    "collective allreduce on 0, 1\n" \
    "inout data[1] on 0, 1\n"        \
    "scratch tmp[3] on 1\n"          \
    "ensure identical data[0]@0, data[0]@1\n"
#define DECIDED            \
    "sliced 2 unit 1024\n" \
    "comms 2\n"            \
    "rounds 1 2\n"         \
    "lanes 4\n"            \
    "placed\n"
#define RANK_0                                                                              \
    "rank 0 arena 65536 unshared 131072 scratch 0\n"                                        \
    "  p0 pack(0.72) encoding 0 slice 1 elems 2952 bytes 4251 at 0\n"                       \
    "  p1 cast(f16) | pack encoding 1 slice 1 elems 2952 bytes 5984 at 4352\n"              \
    "  t0 encode data[0] -> p0 slice 1 stage rise op 3 tick 0 lane 2\n"                     \
    "  t1 send m0 p0 to 1 slice 1 stage rise op 3 comm 1 round 0 tick 1 lane 1 after t0\n"  \
    "  t2 recv m1 p1 from 1 slice 1 stage fall op 4 comm 1 round 1 index 1 tick 2 lane 1\n" \
    "  t3 decode data[0] = p1 slice 1 stage fall op 4 tick 2 lane 2 after t0 t2\n"
#define RANK_1                                                                               \
    "rank 1 accs 1 arena 65536 unshared 131072 scratch 24576\n"                              \
    "  scratch tmp[0] elems 5000 at 512\n"                                                   \
    "  scratch tmp[1] chunks 2 elems 2952 5000\n"                                            \
    "  acc0 at 16384\n"                                                                      \
    "  p0 pack(0.72) encoding 0 slice 1 elems 2952 bytes 4251 at 0\n"                        \
    "  p1 none slice 1 elems 2952 bytes 5904 at 10240\n"                                     \
    "  p2 cast(f16) | pack encoding 1 slice 1 elems 2952 bytes 5984 at 24576\n"              \
    "  t0 recv m0 p0 from 0 slice 1 stage rise op 3 comm 1 round 0 tick 1 lane 1\n"          \
    "  t1 copy data[0] -> p1 slice 1 tick 1 lane 2\n"                                        \
    "  t2 copy tmp[0] = p1 slice 1 tick 1 lane 2\n"                                          \
    "  t3 decode_reduce acc0 = tmp[0] + p0 slice 1 stage rise op 3 tick 1 lane 2 after t0\n" \
    "  t4 round_encode data[0] = acc0 / 2 -> p2 slice 1 stage rise op 3 tick 1 lane 2\n"     \
    "  t5 send m1 p2 to 0 slice 1 stage fall op 4 comm 1 round 1 index 1 tick 2 lane 1 after t4\n"

static void every_field_is_read_and_printed(void **state) {
    (void)state;
    const char *text = HEADER DECIDED RANK_0 RANK_1;
    struct reading r = read_text(text);
    char *message = first_message(&r), *again;
    assert_string_equal(message, "");
    assert_non_null(r.tasks);
    again = printed(r.tasks, -1);
    assert_string_equal(again, text);
    const struct tasks *t = r.tasks;
    assert_int_equal(t->slices, 2);
    assert_int_equal(t->messages.count, 2);
    assert_int_equal(t->messages.data[1].src, 1);
    assert_int_equal(t->messages.data[1].dst, 0);
    assert_int_equal(t->messages.data[1].bytes, 5984);
    assert_int_equal(t->messages.data[1].index, 1);
    assert_int_equal(t->messages.data[1].recv, 2);
    assert_int_equal(t->ranks.data[1].first, 4);
    assert_int_equal(t->acc_offsets.data[t->ranks.data[1].first_acc], 16384);
    free(again);
    free(message);
    finish(&r);
}

static void one_rank_is_printed_for_reading_only(void **state) {
    (void)state;
    struct reading r = read_text(HEADER DECIDED RANK_0 RANK_1);
    char *one = printed(r.tasks, 1);
    assert_string_equal(one, HEADER DECIDED "only 1\n" RANK_1);
    finish(&r);
    r = read_text(one);
    char *message = first_message(&r);
    assert_null(r.tasks);
    assert_string_equal(
        message, "t:15:1: error: these are the tasks of one rank only, printed to be looked at");
    free(message);
    free(one);
    finish(&r);
}

/* ---- sums, divisions, names --------------------------------------------------------------- */

#define BUFFERS            \
    "tasks small\n"        \
    "ranks 2\n"            \
    "dtype bf16\n"         \
    "op sum\n"             \
    "count 100\n"          \
    "inout data[2] on 0\n" \
    "input p0[1] on 0\n"   \
    "scratch tmp[2] on 0\n"
#define SMALL                          \
    BUFFERS                            \
    "rank 0 accs 2\n"                  \
    "  scratch tmp[0] elems 100\n"     \
    "  p0 pack encoding 0 elems 100\n" \
    "  p1 none elems 100\n"            \
    "  p2 quant(8) encoding 1 elems 100\n"

static void forms_of_computing(void **state) {
    (void)state;
    static const struct {
        const char *rank, *tasks;
    } form[] = {
        {"rank 0\n", "  t0 copy data[0] = data[1]\n"},
        {"rank 0\n", "  t0 copy data[0] = p0[0]\n"}, /* a buffer may be called like a piece */
        {"rank 0\n", "  t0 reduce data[0] = data[0] + data[1] + data[0]\n"},
        {"rank 0\n", "  t0 reduce data[0] = (data[0] + data[1]) / 3\n"},
        {"rank 0 accs 2\n",
         "  t0 reduce acc1 = data[0] + data[1]\n  t1 round data[0] = acc1 / 2\n"},
        {"rank 0 accs 1\n",
         "  t0 reduce acc0 = data[0] + data[1]\n  t1 reduce acc0 = acc0 + data[1]\n"},
        {"rank 0\n", "  p0 pack elems 100\n  p1 quant(8) elems 100\n  p2 none elems 100\n"
                     "  t0 encode data[0] -> p0\n  t1 recode data[0] = p0 -> p1 p2\n"},
        {"rank 0\n", "  p0 pack elems 100\n  p1 pack elems 100\n  p2 none elems 100\n"
                     "  t0 encode data[0] -> p0\n  t1 copy data[1] -> p2\n"
                     "  t2 decode_reduce_encode (p0 + p2) / 2 -> p1\n"},
        {"rank 0\n", "  p0 pack elems 100\n  t0 reduce_encode data[0] = data[0] + data[1] -> p0\n"},
    };
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s%srank 1\n", BUFFERS, form[i].rank, form[i].tasks);
        struct reading r = read_text(text);
        char *message = first_message(&r);
        assert_string_equal(message, "");
        char *again = printed(r.tasks, -1);
        assert_string_equal(again, text);
        free(again);
        free(message);
        finish(&r);
    }
}

/* ---- what is refused ---------------------------------------------------------------------- */

struct refusal {
    const char *lines; /* after SMALL, in line 14 */
    const char *message;
};

static const struct refusal refusals[] = {
    {"  t1 copy data[0] = data[1]\n", "t:14:3: error: expected 't0', found 't1'"},
    {"  t0 encode data[0] -> p1\n",
     "t:14:6: error: this is a 'copy' by its operands and pieces, not a 'encode'"},
    {"  t0 copy data[0] = p7\n", "t:14:21: error: rank 0 has no piece p7"},
    {"  t0 copy data[0] = acc7\n", "t:14:21: error: rank 0 has no acc7: it says 'accs 2'"},
    {"  t0 copy data[9] = data[0]\n", "t:14:15: error: 'data' has chunks 0..2"},
    {"  t0 copy none[0] = data[0]\n", "t:14:11: error: there is no buffer 'none'"},
    {"  t0 copy tmp[1] = data[0]\n", "t:14:11: error: the size of tmp[1]@0 is not given ('scratch "
                                     "... elems ...' before the tasks)"},
    {"  t0 copy data[0] = data[1] slice 1\n", "t:14:35: error: a slice is at most 0"},
    {"  t0 copy data[0] = data[1] lane 1\n",
     "t:14:29: error: expected the end of the line, found 'lane'"},
    {"  t0 copy data[0] = data[1] round 1\n",
     "t:14:29: error: expected the end of the line, found 'round'"},
    {"  t0 copy data[0] = data[1] after t0\n",
     "t:14:35: error: t0 can wait only for tasks before it in the list"},
    {"  t0 reduce data[0] = data[0] + data[1] / 2\n",
     "t:14:41: error: expected a sum in parentheses before '/', found '/'"},
    {"  t0 reduce data[0] = (data[0] + data[1])\n",
     "t:14:42: error: expected '/', found the end of the line"},
    {"  t0 send p1 to 1\n", "t:14:11: error: expected a message, found 'p1'"},
    {"  t0 send m0 to 1\n", "t:14:14: error: expected a piece, found 'to'"},
    {"  t0 send m0 p1 to 2\n", "t:14:20: error: a rank is at most 1"},
    {"  t0 send m0 p1 to 0\n", "t:14:20: error: rank 0 sends a message to itself"},
    /* of a rank; said at its end */
    {"  t0 decode data[0] = p0\n  t1 copy data[1] = data[0]\n",
     "t:14:3: error: t0 reads p0, and nothing is in it yet"},
    {"  t0 copy data[0] -> p1\n  t1 copy data[0] -> p1\n",
     "t:15:3: error: t1 fills p1 a second time"},
    {"  t0 copy data[0] = data[1]\n  t1 round data[0] = acc1\n",
     "t:15:3: error: t1 reads acc1, and nothing is in it yet"},
    {"  t0 copy data[0] = data[1]\n", "t:15:1: error: rank 0 has more accumulators than tasks"},
    {"  t0 copy data[0] = data[1]\n  t1 copy data[0]\n",
     "t:15:3: error: t1 stores nothing and encodes nothing"},
    {"  t0 copy data[0] = data[1] / 2\n  t1 copy data[0] = data[1]\n",
     "t:14:3: error: t0 divides what is no sum"},
    {"  t0 reduce data[0] = (data[0] + data[1]) / 0\n  t1 copy data[0] = data[1]\n",
     "t:14:3: error: t0 divides by 0"},
    {"  t0 copy acc0 = data[1]\n  t1 copy data[0] = data[1]\n",
     "t:14:3: error: t0: an accumulator takes an undivided sum, and nothing is encoded from it"},
    {"  t0 copy data[0] -> p1\n  t1 encode data[0] -> p2\n",
     "t:16:1: error: no task of rank 0 fills p0"},
    /* of messages; said at the end */
    {"  t0 encode data[0] -> p0 p2\n  t1 copy data[0] -> p1\n  t2 send m1 p0 to 1\n",
     "t:16:3: error: m1: 1 messages are sent, m0 is the first"},
    {"  t0 encode data[0] -> p0 p2\n  t1 copy data[0] -> p1\n  t2 send m0 p0 to 1\n"
     "  t3 send m0 p0 to 1\n",
     "t:17:3: error: m0 is sent twice"},
    {"  t0 encode data[0] -> p0 p2\n  t1 copy data[0] -> p1\n  t2 send m0 p0 to 1\n",
     "t:16:3: error: nobody receives m0"},
    {"  t0 encode data[0] -> p0 p2\n  t1 copy data[0] -> p1\n  t2 send m0 p0 to 1\n"
     "rank 1\n  p0 pack encoding 0 elems 100\n  p1 pack encoding 0 elems 100\n"
     "  t0 recv m0 p0 from 0\n  t1 recv m0 p1 from 0\n",
     "t:21:3: error: m0 is received twice"},
    {"  t0 encode data[0] -> p0 p2\n  t1 recv m0 p1 from 1\n",
     "t:15:3: error: m0: 0 messages are sent, m0 is the first"},
};

static void wrong_lines_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char text[2048];
        snprintf(text, sizeof text, SMALL "%s", refusals[i].lines);
        struct reading r = read_text(text);
        char *message = first_message(&r);
        assert_null(r.tasks);
        assert_string_equal(message, refusals[i].message);
        free(message);
        finish(&r);
    }
}

#define THREE                 \
    "tasks three\n"           \
    "ranks 3\n"               \
    "dtype i32\n"             \
    "op sum\n"                \
    "count 100\n"             \
    "inout data[1] on 0..3\n" \
    "scratch tmp[2] on 0\n"

static const struct refusal wrong_heads[] = {
    {"rank 1\nrank 1\n", "t:9:6: error: rank 1 stands after rank 1"},
    {"rank 3\n", "t:8:6: error: a rank is at most 2"},
    {"only 1\n", "t:8:1: error: these are the tasks of one rank only, printed to be looked at"},
    {"sliced 0 unit 4\n", "t:8:16: error: slices and their unit are at least 1"},
    {"sliced 2000 unit 4\n", "t:8:8: error: the number of slices is at most 1024"},
    {"lanes 300\n", "t:8:7: error: the number of lanes is at most 255"},
    {"comms 3\n", "t:8:7: error: the number of communicators is at most 2"},
    {"rounds 1 0\nrank 0\n", "t:10:1: error: more rounds than messages"},
    {"rank 0\n  scratch data[0] elems 4\n",
     "t:9:11: error: 'data' is no scratch buffer: its sizes are known"},
    {"rank 0\n  scratch tmp[1] chunks 2 elems 4\n",
     "t:9:25: error: the number of chunks is at most 1"},
    {"rank 0\n  scratch tmp[0] elems 4\n  scratch tmp[0] elems 4\n",
     "t:10:11: error: tmp[0]@0 has a size already"},
    {"rank 0\n  p1 none elems 4\n", "t:9:3: error: expected 'p0', found 'p1'"},
    {"rank 0\n  p0 pack elems 4\n", "t:9:6: error: 'pack' does not take i32"},
    {"rank 0\n  p0 none encoding 1\n",
     "t:9:21: error: expected 'elems', found the end of the line"},
    {"placed\nrank 0 accs 1\n", "t:9:14: error: expected 'arena', found the end of the line"},
    {"placed\nrank 0 accs 1 arena 8 unshared 8 scratch 0\n  t0 copy data[0] = data[0]\n",
     "t:10:3: error: expected 'acc0', found 't0'"},
    {"hello\n", "t:8:1: error: expected 'rank', found 'hello'"},
    {"scratch big[12000000] on 0..3\nrank 0\n",
     "t:9:1: error: more than 33554432 chunks on all ranks together"},
    /* m0 goes to 1, and 2 takes it */
    {"rank 0\n  p0 none elems 100\n  t0 copy data[0] -> p0\n  t1 send m0 p0 to 1\n"
     "rank 2\n  p0 none elems 100\n  t0 recv m0 p0 from 0\n",
     "t:14:3: error: m0 goes from rank 0 to rank 1, and here rank 2 receives it from rank 0"},
};

static void wrong_heads_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong_heads / sizeof *wrong_heads; i++) {
        char text[2048];
        snprintf(text, sizeof text, THREE "%s", wrong_heads[i].lines);
        struct reading r = read_text(text);
        char *message = first_message(&r);
        assert_null(r.tasks);
        assert_string_equal(message, wrong_heads[i].message);
        free(message);
        finish(&r);
    }
}

/* ---- sizes -------------------------------------------------------------------------------- */

static void slices_cover_a_chunk_and_start_at_units(void **state) {
    (void)state;
    for (uint64_t elems = 0; elems < 300; elems += 7)
        for (uint32_t unit = 1; unit < 70; unit += 13)
            for (uint32_t slices = 1; slices < 9; slices++) {
                uint64_t least = UINT64_MAX, most = 0, units = (elems + unit - 1) / unit;
                assert_int_equal(tasks_slice_start(elems, unit, slices, 0), 0);
                assert_int_equal(tasks_slice_start(elems, unit, slices, slices), elems);
                for (uint32_t s = 0; s < slices; s++) {
                    uint64_t from = tasks_slice_start(elems, unit, slices, s);
                    uint64_t to = tasks_slice_start(elems, unit, slices, s + 1);
                    uint64_t n = (to - from + unit - 1) / unit;
                    assert_true(from <= to && from % unit == 0);
                    least = n < least ? n : least;
                    most = n > most ? n : most;
                }
                assert_true(least == units / slices && most - least <= 1);
            }
}

static void rooms_of_scratch(void **state) {
    (void)state;
    struct reading r = read_text(HEADER DECIDED RANK_0 RANK_1);
    uint64_t first;
    loc_id tmp = 2;
    assert_int_equal(tasks_slice_elems(r.tasks, 0, 0, &first), 2048); /* data[0]@0: 5 units */
    assert_int_equal(tasks_slice_elems(r.tasks, 0, 1, &first), 2952);
    assert_int_equal(first, 2048);
    /* 2952 is 3 units, in slices of 1,024 and 1,928; 5000 as above */
    assert_int_equal(tasks_slice_elems(r.tasks, tmp + 1, 0, &first), 2048);
    assert_int_equal(tasks_slice_elems(r.tasks, tmp + 1, 1, &first), 2952);
    assert_int_equal(first, 2048);
    finish(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read_and_printed),
        cmocka_unit_test(one_rank_is_printed_for_reading_only),
        cmocka_unit_test(forms_of_computing),
        cmocka_unit_test(wrong_lines_are_refused),
        cmocka_unit_test(wrong_heads_are_refused),
        cmocka_unit_test(slices_cover_a_chunk_and_start_at_units),
        cmocka_unit_test(rooms_of_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
