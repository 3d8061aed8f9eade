/*
 * test_executor_overflow.c: data that does not fit its slots. The run is repaired, the result is
 * the same to the bit, the inputs stay, and slots learn.
 */
#include "tests/unit/run_test.h"

static void fill_rank(struct world *w, int32_t rank, enum input_kind kind) {
    input_generate(kind, w->job.dtype, 7, rank, 0, w->send_bytes[rank] / dtype_bytes(w->job.dtype),
                   w->send[rank]);
}

/* What raw messages give for the same inputs. */
static uint64_t raw_hash(const struct world *w, const char *define) {
    struct job j = w->job;
    j.defines[0] = define;
    j.defines[1] = NULL;
    struct world raw = world_new(&j);
    for (int32_t r = 0; r < j.ranks; r++)
        memcpy(raw.send[r], w->send[r], w->send_bytes[r]);
    world_run(&raw);
    uint64_t hash = world_hash(&raw);
    world_free(&raw);
    return hash;
}

static struct job small_slots(const char *text) {
    struct job j = {.text = text, .ranks = 4, .dtype = DTYPE_BF16, .count = 40000};
    j.defines[0] = "wire=pack(0.5)";
    j.kind = INPUT_ZEROS;
    return j;
}

static void data_that_fits_needs_no_repair(void **state) {
    (void)state;
    struct job j = small_slots(RING);
    struct world w = world_new(&j);
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    assert_int_equal(plan_stats(w.plan)->repairs, 0);
    assert_int_equal(plan_stats(w.plan)->total.overflows, 0);
    assert_true(plan_stats(w.plan)->total.wire_bytes < plan_stats(w.plan)->total.raw_bytes);
    world_free(&w);
}

/* One rank's data does not fit; ring and two-shot carry the mark in their own ways. */
static void one_rank_overflows(void **state) {
    (void)state;
    static const char *const texts[] = {RING, TWOSHOT, ALLTOALL};
    for (size_t t = 0; t < 3; t++)
        for (int32_t rank = 0; rank < 4; rank++)
            for (int in_place = 0; in_place < (t < 2 ? 2 : 1); in_place++) {
                struct job j = small_slots(texts[t]);
                j.in_place = in_place;
                struct world w = world_new(&j);
                fill_rank(&w, rank, INPUT_BITS);
                world_run(&w);
                assert_int_equal(world_check(&w).wrong, 0);
                assert_int_equal(plan_stats(w.plan)->repairs, 1);
                assert_true(plan_stats(w.plan)->total.overflows > 0);
                assert_true(plan_stats(w.plan)->repair_wire_bytes > 0);
                assert_true(world_hash(&w) == raw_hash(&w, "wire=none"));
                world_free(&w);
            }
}

/* Each chunk of the ring is encoded by four ranks in turn, the last time for the gather. From where
 * rank 0 adds what does not fit, all of them carry the mark: 4, 3, 2 and 1. */
static void the_mark_travels_with_the_data(void **state) {
    (void)state;
    struct job j = small_slots(RING);
    struct world w = world_new(&j);
    fill_rank(&w, 0, INPUT_BITS);
    world_run(&w);
    assert_int_equal(plan_stats(w.plan)->total.encodings, 16);
    assert_int_equal(plan_stats(w.plan)->total.overflows, 10);
    world_free(&w);
}

/* A chunk that lost its value is whole again when another one is stored in it. */
static void a_lost_chunk_can_be_stored_to_again(void **state) {
    (void)state;
    struct job j = small_slots("schedule reuse(codec wire = pack) {\n"
                               "    input src[1]; output out[1] on ranks(2..4);\n"
                               "    scratch tmp[1] on ranks(1..2);\n"
                               "    stage one via wire { copy src[0]@0 -> tmp[0]@1;\n"
                               "        copy tmp[0]@1 -> out[0]@2; }\n"
                               "    stage two via wire { copy src[0]@2 -> tmp[0]@1; }\n"
                               "    stage three { copy tmp[0]@1 -> tmp[0]@1 via wire;\n"
                               "        copy tmp[0]@1 -> out[0]@3 via pack(0.6); }\n"
                               "    ensure out[0]@2 == src[0]@0; ensure out[0]@3 == src[0]@2;\n"
                               "}\n");
    struct world w = world_new(&j);
    fill_rank(&w, 0, INPUT_BITS);
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    assert_int_equal(plan_stats(w.plan)->repairs, 1);
    assert_int_equal(plan_stats(w.plan)->stage[1].overflows, 1);
    assert_int_equal(plan_stats(w.plan)->stage[2].overflows, 0);
    assert_int_equal(plan_stats(w.plan)->stage[3].overflows, 0);
    assert_int_equal(plan_stats(w.plan)->stage[3].encodings, 1);
    world_free(&w);
}

static void all_ranks_overflow_on_any_number_of_threads(void **state) {
    (void)state;
    uint64_t first = 0, overflows = 0;
    for (int threads = 1; threads <= 4; threads++) {
        struct job j = small_slots(RING);
        j.kind = INPUT_NORMAL;
        j.threads = threads;
        struct world w = world_new(&j);
        world_run(&w);
        assert_int_equal(world_check(&w).wrong, 0);
        assert_int_equal(plan_stats(w.plan)->repairs, 1);
        first = threads == 1 ? world_hash(&w) : first;
        overflows = threads == 1 ? plan_stats(w.plan)->total.overflows : overflows;
        assert_true(world_hash(&w) == first);
        assert_int_equal(plan_stats(w.plan)->total.overflows, overflows);
        world_free(&w);
    }
}

/* Behind the overflow comes a message without a header: only the status word knows. */
static void a_mark_that_a_raw_message_cannot_carry(void **state) {
    (void)state;
    struct job j = small_slots(TWOSHOT);
    j.defines[1] = "back=none";
    struct world w = world_new(&j);
    fill_rank(&w, 2, INPUT_BITS);
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    assert_int_equal(plan_stats(w.plan)->repairs, 1);
    world_free(&w);
    j.defines[1] = "back=quant(8)";
    w = world_new(&j);
    fill_rank(&w, 2, INPUT_NORMAL);
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    assert_int_equal(plan_stats(w.plan)->repairs, 1);
    world_free(&w);
}

/* A lossy codec stays in the repair, so its bits do not depend on the overflow. */
static void the_repair_keeps_lossy_codecs(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 4, .dtype = DTYPE_F32, .count = 30000};
    j.defines[0] = "wire=cast(bf16) | pack(0.4)";
    struct world w = world_new(&j);
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    assert_int_equal(plan_stats(w.plan)->repairs, 1);
    assert_true(world_hash(&w) == raw_hash(&w, "wire=cast(bf16)"));
    world_free(&w);
}

/* A failed run leaves nothing behind: runs that fit, before and after, are as ever. */
static void overflows_come_and_go(void **state) {
    (void)state;
    struct job j = small_slots(RING);
    j.defines[0] = "wire=pack(0.65)";
    struct world w = world_new(&j);
    for (int run = 0; run < 6; run++) {
        for (int32_t r = 0; r < 4; r++)
            fill_rank(&w, r, run % 2 && r == run % 4 ? INPUT_BITS : INPUT_ONES);
        world_run(&w);
        assert_int_equal(world_check(&w).wrong, 0);
        assert_int_equal(plan_last(w.plan)->repairs, run % 2);
    }
    assert_int_equal(plan_stats(w.plan)->repairs, 3);
    world_free(&w);
}

/* ---- learned slots ---- */

static void plain_pack_starts_at_the_worst_case_and_shrinks(void **state) {
    (void)state;
    struct job j = {.text = RING, .ranks = 4, .dtype = DTYPE_BF16, .count = 200000};
    struct world w = world_new(&j);
    world_run(&w);
    uint64_t before = plan_last(w.plan)->total.wire_bytes, hash = world_hash(&w);
    uint64_t needed = plan_last(w.plan)->total.needed_bytes;
    assert_true(before >= plan_last(w.plan)->total.raw_bytes && needed < before);
    assert_int_equal(plan_adapt(w.plan), RUN_OK);
    world_run(&w);
    const struct run_stats *s = plan_last(w.plan);
    assert_int_equal(s->repairs, 0);
    assert_int_equal(s->total.needed_bytes, needed);
    assert_true(s->total.wire_bytes < before * 8 / 10);
    assert_true(s->total.wire_bytes < needed * 21 / 20); /* the margin */
    assert_true(world_hash(&w) == hash);
    assert_int_equal(plan_stats(w.plan)->adaptations, 1);
    uint64_t adapted = s->total.wire_bytes;
    assert_int_equal(plan_adapt(w.plan), RUN_OK); /* nothing to gain */
    assert_int_equal(plan_stats(w.plan)->adaptations, 1);

    fill_rank(&w, 1, INPUT_BITS); /* data changes its nature */
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    assert_int_equal(plan_last(w.plan)->repairs, 1);
    for (int i = 0; i < 2; i++) { /* larger at once, then as small as it goes */
        assert_int_equal(plan_adapt(w.plan), RUN_OK);
        world_run(&w);
        assert_int_equal(world_check(&w).wrong, 0);
        assert_int_equal(plan_last(w.plan)->repairs, 0);
    }
    assert_true(plan_last(w.plan)->total.wire_bytes <
                plan_last(w.plan)->total.needed_bytes * 21 / 20);
    assert_int_equal(plan_last(w.plan)->repairs, 0);
    assert_true(plan_last(w.plan)->total.wire_bytes > adapted);
    world_free(&w);
}

/* Slots that start too small: what fell to an overflow before its need was seen gets the worst
 * case, so that the second run fits, and the third is small. */
static void small_budgets_recover_at_once(void **state) {
    (void)state;
    struct job j = {.text = RING, .ranks = 4, .dtype = DTYPE_BF16, .count = 100000};
    j.defines[0] = "wire=pack(0.1)";
    struct world w = world_new(&j);
    world_run(&w);
    uint64_t hash = world_hash(&w);
    assert_int_equal(plan_last(w.plan)->repairs, 1);
    for (int run = 0; run < 2; run++) {
        assert_int_equal(plan_adapt(w.plan), RUN_OK);
        world_run(&w);
        assert_int_equal(plan_last(w.plan)->repairs, 0);
        assert_true(world_hash(&w) == hash);
    }
    const struct run_stage *total = &plan_last(w.plan)->total;
    assert_true(total->wire_bytes < total->needed_bytes * 21 / 20);
    world_free(&w);
}

/* One unusual run does not keep slots large for ever. */
static void needs_are_forgotten(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 2, .dtype = DTYPE_BF16, .count = 100000};
    struct world w = world_new(&j);
    const struct tasks *t = plan_compilation(w.plan)->tasks;
    struct learned *l = learned_new(t);
    size_t count, largest = 0;
    assert_null(learned_slots(l, &count));
    assert_int_equal(count, 0);
    uint64_t needs[64] = {0};
    for (size_t i = 0; i < t->pieces.count; i++) {
        size_t at = (size_t)t->pieces.data[i].encoding * t->slices + t->pieces.data[i].slice;
        largest = at > largest ? at : largest;
    }
    assert_true(largest < 64);
    needs[0] = 90000;
    learned_observe(l, needs, 64);
    uint64_t high = learned_slots(l, &count)[0];
    assert_true(high >= 90000 + 90000 / 64 + 128 && high % 64 == 0);
    needs[0] = 50000;
    for (int run = 1; run < LEARN_WINDOW; run++)
        learned_observe(l, needs, 64);
    assert_int_equal(learned_slots(l, &count)[0], high);
    for (int run = 0; run < LEARN_WINDOW + 1; run++)
        learned_observe(l, needs, 64);
    uint64_t low = learned_slots(l, &count)[0];
    assert_true(low >= 50000 && low < 52000);
    needs[0] = UINT64_C(1) << 40; /* never more than the worst case */
    learned_observe(l, needs, 64);
    size_t piece = 0;
    while (t->pieces.data[piece].encoding || t->pieces.data[piece].slice)
        piece++;
    const struct piece *p = &t->pieces.data[piece];
    assert_int_equal(learned_slots(l, &count)[0],
                     codec_worst_bytes(&t->flow->codecs.data[p->codec], DTYPE_BF16, p->elems));
    learned_free(l);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_that_fits_needs_no_repair),
        cmocka_unit_test(one_rank_overflows),
        cmocka_unit_test(the_mark_travels_with_the_data),
        cmocka_unit_test(a_lost_chunk_can_be_stored_to_again),
        cmocka_unit_test(all_ranks_overflow_on_any_number_of_threads),
        cmocka_unit_test(a_mark_that_a_raw_message_cannot_carry),
        cmocka_unit_test(the_repair_keeps_lossy_codecs),
        cmocka_unit_test(overflows_come_and_go),
        cmocka_unit_test(plain_pack_starts_at_the_worst_case_and_shrinks),
        cmocka_unit_test(small_budgets_recover_at_once),
        cmocka_unit_test(needs_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
