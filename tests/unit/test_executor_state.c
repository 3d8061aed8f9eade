/*
 * test_executor_state.c: codecs that remember, over the runs of a plan. What they remember moves on
 * with a run that counts and with no other; it can be saved, restored and reset; slices, threads,
 * overflows and adaptations do not change bits.
 */
#include "runtime/sluice.h"
#include "tests/unit/run_test.h"

static const char *const codecs[] = {
    "wire=delta | pack",
    "wire=delta | sparse(0.2)",
    "wire=topk(0.05)",
    "wire=topk(0.4) | pack(0.8)",
    "wire=cast(bf16) | delta",
    "wire=quant(8, 64, stochastic)",
    "wire=quant(6, 96, stochastic)",
};
#define CODECS (sizeof codecs / sizeof *codecs)

/* The owners of a ring's chunks do not decode what they send, so what is lost would be lost on the
 * others only: there it goes back raw. */
static struct job job_of(const char *text, const char *define) {
    struct job j = {.text = text, .ranks = 4, .dtype = DTYPE_F32, .count = 50000};
    j.defines[0] = define;
    if (strcmp(text, RING) == 0 && strncmp(define, "wire=delta", 10) != 0)
        j.defines[1] = "back=none";
    j.kind = INPUT_NORMAL;
    return j;
}

static void run_on(struct world *w, enum input_kind kind, uint64_t seed) {
    world_fill(w, kind, seed);
    world_run(w);
    assert_int_equal(world_check(w).wrong, 0);
}

static void *save(const struct world *w) {
    void *saved = malloc(plan_state_bytes(w->plan) + 1);
    plan_state_save(w->plan, saved);
    return saved;
}

/* Inputs that change a little from run to run. */
static void drift(struct world *w, uint64_t step) {
    for (int32_t r = 0; r < w->job.ranks; r++)
        for (size_t i = step % 50; i < w->send_bytes[r] / 4; i += 50)
            ((float *)w->send[r])[i] += 0.25f;
}

static void runs_give_what_the_reference_says(void **state) {
    (void)state;
    static const char *const texts[] = {RING, TWOSHOT, ALLTOALL};
    for (size_t t = 0; t < 3; t++)
        for (size_t k = 0; k < CODECS; k++) {
            struct job j = job_of(texts[t], codecs[k]);
            struct world w = world_new(&j);
            assert_true(plan_state_bytes(w.plan) > 0);
            for (uint64_t run = 0; run < 4; run++)
                run_on(&w, INPUT_NORMAL, run / 2);
            world_free(&w);
        }
}

static void without_state_there_is_nothing_to_save(void **state) {
    (void)state;
    struct job j = job_of(RING, "wire=quant(8)");
    struct world w = world_new(&j);
    assert_int_equal(plan_state_bytes(w.plan), 0);
    plan_state_save(w.plan, NULL);
    assert_true(plan_state_restore(w.plan, NULL, 0));
    assert_false(plan_state_restore(w.plan, "x", 1));
    plan_state_reset(w.plan, 1);
    world_free(&w);
}

static void what_did_not_change_needs_no_room(void **state) {
    (void)state;
    struct job j = job_of(TWOSHOT, "wire=delta | pack");
    struct world w = world_new(&j);
    uint64_t first, second;
    run_on(&w, INPUT_NORMAL, 1);
    first = plan_last(w.plan)->total.needed_bytes;
    run_on(&w, INPUT_NORMAL, 1);
    second = plan_last(w.plan)->total.needed_bytes;
    assert_true(second < first / 20);
    run_on(&w, INPUT_NORMAL, 2);
    assert_true(plan_last(w.plan)->total.needed_bytes > first / 2);
    world_free(&w);
}

/* A copy of the plan that starts from what was saved gives the same bits from there on. */
static void saved_and_restored_runs_go_on_alike(void **state) {
    (void)state;
    for (size_t k = 0; k < CODECS; k++) {
        struct job j = job_of(RING, codecs[k]);
        struct world a = world_new(&j), b = world_new(&j);
        uint64_t bytes = plan_state_bytes(a.plan);
        plan_state_reset(a.plan, 77);
        run_on(&a, INPUT_NORMAL, 1);
        run_on(&a, INPUT_NORMAL, 2);
        char *saved = save(&a), *then, *there;
        run_on(&b, INPUT_NORMAL, 5);
        assert_true(plan_state_restore(b.plan, saved, bytes));
        for (uint64_t run = 3; run < 6; run++) {
            run_on(&a, INPUT_NORMAL, run);
            run_on(&b, INPUT_NORMAL, run);
            assert_true(world_hash(&a) == world_hash(&b));
        }
        then = save(&a);
        there = save(&b);
        assert_memory_equal(then, there, bytes);
        assert_true(memcmp(then, saved, bytes) != 0);
        free(there);
        free(then);
        free(saved);
        world_free(&a);
        world_free(&b);
    }
}

static void a_reset_plan_is_as_new(void **state) {
    (void)state;
    for (size_t k = 0; k < CODECS; k++) {
        struct job j = job_of(TWOSHOT, codecs[k]);
        struct world w = world_new(&j);
        char *begun = save(&w), *again;
        run_on(&w, INPUT_NORMAL, 1);
        uint64_t first = world_hash(&w);
        run_on(&w, INPUT_NORMAL, 2);
        plan_state_reset(w.plan, 0);
        again = save(&w);
        assert_memory_equal(begun, again, plan_state_bytes(w.plan));
        run_on(&w, INPUT_NORMAL, 1);
        assert_true(world_hash(&w) == first);
        free(again);
        free(begun);
        world_free(&w);
    }
}

static void what_another_plan_saved_is_refused(void **state) {
    (void)state;
    struct job j = job_of(TWOSHOT, "wire=delta | pack"), other = j;
    other.defines[0] = "wire=topk(0.1)";
    struct world a = world_new(&j), b = world_new(&other);
    char *saved = save(&a), *mine, *after;
    uint64_t bytes = plan_state_bytes(a.plan);
    run_on(&b, INPUT_NORMAL, 1);
    mine = save(&b);
    assert_false(plan_state_restore(b.plan, saved, bytes));
    assert_false(plan_state_restore(b.plan, saved, plan_state_bytes(b.plan)));
    assert_false(plan_state_restore(a.plan, saved, bytes - 1));
    saved[0] ^= 1;
    assert_false(plan_state_restore(a.plan, saved, bytes));
    saved[0] ^= 1;
    saved[8] ^= 1;
    assert_false(plan_state_restore(a.plan, saved, bytes));
    after = save(&b);
    assert_memory_equal(mine, after, plan_state_bytes(b.plan));
    other.defines[0] = "wire=delta | sparse(0.3)"; /* remembers the same */
    struct world c = world_new(&other);
    saved[8] ^= 1;
    assert_true(plan_state_restore(c.plan, saved, bytes));
    free(after);
    free(mine);
    free(saved);
    world_free(&a);
    world_free(&b);
    world_free(&c);
}

/* A plan saved, a plan that must refuse it though all its parts have the same sizes. */
static void refuses(struct job saver, struct job other) {
    struct world a = world_new(&saver), b = world_new(&other);
    uint64_t bytes = plan_state_bytes(a.plan);
    assert_true(bytes > 0);
    assert_int_equal(plan_state_bytes(b.plan), bytes);
    char *saved = save(&a);
    assert_true(plan_state_restore(a.plan, saved, bytes));
    assert_false(plan_state_restore(b.plan, saved, bytes));
    free(saved);
    world_free(&a);
    world_free(&b);
}

static void what_is_of_other_data_is_refused(void **state) {
    (void)state;
    static const char first[] = "schedule s() { inout a[2]; copy a[0]@0 -> a[0]@1 via delta;\n"
                                "ensure a[0]@1 == a[0]@0; }\n";
    static const char second[] = "schedule s() { inout a[2]; copy a[1]@0 -> a[1]@1 via delta;\n"
                                 "ensure a[1]@1 == a[1]@0; }\n";
    static const char both[] = "schedule s() { inout a[2];\n"
                               "copy a[0 +: 2]@0 -> a[0 +: 2]@1 via delta;\n"
                               "ensure a[1]@1 == a[1]@0; }\n";
    struct job one = {.text = first, .ranks = 2, .count = 16384, .slices = 1}, other = one;
    other.text = second;
    refuses(one, other);
    other = one; /* an encoding in two slices, two encodings in one */
    one.slices = 2;
    other.text = both;
    other.count = one.count / 2;
    refuses(one, other);
    other = one;
    other.ranks = 3;
    refuses(one, other);
}

/* Runs that overflow and are repaired: the same bits and the same state as where nothing can
 * overflow. */
static void an_overflowed_run_leaves_no_trace(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"wire=delta | sparse(0.1)", "wire=delta"},
        {"wire=topk(0.5) | pack(0.3)", "wire=topk(0.5)"},
        {"wire=cast(bf16) | delta | pack(0.05)", "wire=cast(bf16) | delta"},
    };
    static const char *const texts[] = {RING, TWOSHOT, ALLTOALL};
    for (size_t t = 0; t < 3; t++)
        for (size_t k = 0; k < 3; k++) {
            struct job tight = job_of(texts[t], pairs[k][0]), wide = job_of(texts[t], pairs[k][1]);
            tight.slices = wide.slices = 1 + (uint32_t)t;
            struct world a = world_new(&tight), b = world_new(&wide);
            assert_int_equal(plan_state_bytes(a.plan), plan_state_bytes(b.plan));
            for (uint64_t run = 0; run < 5; run++) {
                if (run == 0 || run == 3) {
                    world_fill(&a, INPUT_NORMAL, run);
                    world_fill(&b, INPUT_NORMAL, run);
                } else {
                    drift(&a, run);
                    drift(&b, run);
                }
                world_run(&a);
                world_run(&b);
                assert_true(world_hash(&a) == world_hash(&b));
                char *x = save(&a), *y = save(&b);
                assert_memory_equal(x + 32, y + 32, plan_state_bytes(a.plan) - 32);
                free(x);
                free(y);
            }
            assert_true(plan_stats(a.plan)->repairs > 0);
            if (k == 0 && t == 2) /* what changed little fits */
                assert_true(plan_stats(a.plan)->repairs < 5);
            world_free(&a);
            world_free(&b);
        }
}

/* One lossless codec that can overflow beside one with state of another block: the repair must cut
 * its slices alike. */
static void a_repair_is_cut_as_its_plan(void **state) {
    (void)state;
    struct job j = job_of(TWOSHOT, "wire=quant(8, 96, stochastic)");
    j.defines[1] = "back=pack(0.1)";
    j.slices = 3;
    struct job raw = j;
    raw.defines[1] = "back=pack"; /* the same cuts, and no overflow */
    struct world a = world_new(&j), b = world_new(&raw);
    for (uint64_t run = 0; run < 3; run++) {
        run_on(&a, INPUT_NORMAL, run);
        run_on(&b, INPUT_NORMAL, run);
        assert_int_equal(plan_last(a.plan)->repairs, 1);
        assert_int_equal(plan_last(b.plan)->repairs, 0);
        assert_true(world_hash(&a) == world_hash(&b));
    }
    world_free(&a);
    world_free(&b);
}

/* Codecs that differ only in what can overflow are one in the repair, but remember apart. */
static void encodings_stay_apart_in_the_repair(void **state) {
    (void)state;
    static const char text[] = "schedule twice() {\n"
                               "    collective broadcast(0); inout data[2]; scratch tmp[1];\n"
                               "    copy data[0]@0 -> tmp[0]@1 via delta | pack(0.05);\n"
                               "    copy data[0]@0 -> data[0]@1 via delta | lz(0.9);\n"
                               "    copy data[1]@0 -> data[1]@1 via quant(8, 32, stochastic);\n"
                               "    copy data[1]@0 -> data[1]@0 via quant(8, 32, stochastic);\n"
                               "    copy tmp[0]@1 -> tmp[0]@1;\n"
                               "}\n";
    struct job j = job_of(text, NULL);
    j.ranks = 2;
    struct world w = world_new(&j);
    for (uint64_t run = 0; run < 4; run++) {
        run_on(&w, INPUT_NORMAL, run / 2);
        assert_int_equal(plan_last(w.plan)->repairs, run % 2 == 0);
    }
    world_free(&w);
}

static void threads_and_slices_do_not_change_bits(void **state) {
    (void)state;
    for (size_t k = 0; k < CODECS; k++) {
        struct job one = job_of(RING, codecs[k]), more = one;
        one.threads = 1;
        one.slices = 1;
        more.threads = 4;
        more.slices = 1 + (uint32_t)(k % 2);
        struct world a = world_new(&one), b = world_new(&more);
        for (uint64_t run = 0; run < 3; run++) {
            run_on(&a, INPUT_NORMAL, run);
            run_on(&b, INPUT_NORMAL, run);
            assert_true(world_hash(&a) == world_hash(&b));
        }
        world_free(&a);
        world_free(&b);
    }
}

static void an_adaptation_keeps_the_state(void **state) {
    (void)state;
    static const char *const adaptive[] = {"wire=delta | pack", "wire=topk(0.4) | pack"};
    for (size_t k = 0; k < 2; k++) {
        struct job j = job_of(TWOSHOT, adaptive[k]);
        struct world a = world_new(&j), b = world_new(&j);
        for (uint64_t run = 0; run < 6; run++) {
            world_fill(&a, INPUT_NORMAL, 1);
            world_fill(&b, INPUT_NORMAL, 1);
            drift(&a, run);
            drift(&b, run);
            world_run(&a);
            world_run(&b);
            assert_true(world_hash(&a) == world_hash(&b));
            assert_int_equal(plan_adapt(a.plan), RUN_OK);
        }
        assert_true(plan_stats(a.plan)->adaptations > 0);
        world_free(&a);
        world_free(&b);
    }
}

/* A tight plan, a wide one that never overflows, and a copy of the tight one that is restored now
 * and then from either. */
struct three {
    struct world tight, wide, copy;
    bool copied;
};

static void run_three(struct three *w, enum input_kind kind, uint64_t seed) {
    struct world *all[] = {&w->tight, &w->wide, &w->copy};
    for (int i = 0; i < (w->copied ? 3 : 2); i++) {
        world_fill(all[i], kind, seed);
        world_run(all[i]);
        assert_true(world_hash(all[i]) == world_hash(&w->tight));
    }
    char *x = save(&w->tight), *y = save(&w->wide);
    uint64_t bytes = plan_state_bytes(w->tight.plan);
    assert_int_equal(plan_state_bytes(w->wide.plan), bytes);
    assert_memory_equal(x, y, bytes);
    if (seed % 2 == 0) {
        assert_true(plan_state_restore(w->copy.plan, seed % 4 ? x : y, bytes));
        w->copied = true;
    }
    free(x);
    free(y);
}

/* In place or not, in slices, with adaptations and restored states between, after any data. */
static void what_happens_between_runs_does_not_change_bits(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"wire=delta | sparse(0.1)", "wire=delta"},
        {"wire=topk(0.5) | pack(0.3)", "wire=topk(0.5)"},
        {"wire=cast(f16) | delta | lz(0.2)", "wire=cast(f16) | delta"},
    };
    static const char *const texts[] = {RING, TWOSHOT, ALLTOALL};
    static const uint64_t counts[] = {1, 4099, 40013};
    uint64_t repairs = 0, adaptations = 0;
    for (uint64_t i = 0; i < 27; i++) {
        struct job tight = job_of(texts[i % 3], pairs[i / 3 % 3][0]), wide;
        tight.count = counts[i / 9];
        tight.slices = 1 + (uint32_t)(i % 4);
        tight.in_place = i % 2 && i % 3 < 2;
        wide = tight;
        wide.defines[0] = pairs[i / 3 % 3][1];
        struct three w = {world_new(&tight), world_new(&wide), world_new(&tight), false};
        for (uint64_t run = 0; run < 5; run++) {
            static const enum input_kind kinds[] = {INPUT_NORMAL, INPUT_BITS, INPUT_ZEROS,
                                                    INPUT_EXTREMES};
            run_three(&w, kinds[(i + run / 2) % 4], i + run);
            assert_int_equal(plan_adapt(w.tight.plan), RUN_OK);
        }
        repairs += plan_stats(w.tight.plan)->repairs;
        adaptations += plan_stats(w.tight.plan)->adaptations;
        world_free(&w.tight);
        world_free(&w.wide);
        world_free(&w.copy);
    }
    assert_true(repairs > 0 && adaptations > 0);
}

/* Error feedback: what was not sent is sent later, so sums over many runs come near. */
static void error_feedback_catches_up(void **state) {
    (void)state;
    static const char text[] = "schedule s() {\n"
                               "    input src[1] on ranks(0..1); output out[1] on ranks(1..2);\n"
                               "    ensure out[0]@1 == src[0]@0;\n"
                               "    copy src[0]@0 -> out[0]@1 via topk(0.1);\n"
                               "}\n";
    struct job j = job_of(text, NULL);
    j.ranks = 2;
    j.count = 8192;
    struct world w = world_new(&j);
    double *sent = calloc(8192, sizeof *sent), worst = 0, largest = 0;
    const int runs = 100;
    for (int run = 0; run < runs; run++) {
        world_run(&w);
        for (size_t i = 0; i < 8192; i++)
            sent[i] += (double)((float *)w.recv[1])[i];
    }
    for (size_t i = 0; i < 8192; i++) {
        double value = (double)((float *)w.send[0])[i], gap = value * runs - sent[i];
        worst = gap > worst ? gap : (-gap > worst ? -gap : worst);
        largest = value > largest ? value : largest;
    }
    /* an element waits some tens of runs at most, however many there were */
    assert_true(worst < 40 * largest && worst > 0);
    free(sent);
    world_free(&w);
}

static void the_public_api(void **state) {
    (void)state;
    sluice_options o = SLUICE_OPTIONS_INIT;
    const char *defines[] = {"wire=quant(4, 32, stochastic)", NULL};
    static float in[2][3000], first[2][3000], second[2][3000];
    const void *send[] = {in[0], in[1]};
    void *recv[] = {first[0], first[1]}, *again[] = {second[0], second[1]};
    sluice_plan *plan;
    o.ranks = 2;
    o.count = 3000;
    o.defines = defines;
    for (int i = 0; i < 3000; i++)
        in[0][i] = in[1][i] = (float)i / 7;
    assert_int_equal(sluice_state_bytes(NULL), 0);
    assert_int_equal(sluice_state_reset(NULL, 0), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_state_save(NULL, in, 0), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_state_restore(NULL, in, 0), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_compile_text(&plan, "t.slc", TWOSHOT, strlen(TWOSHOT), &o), SLUICE_OK);
    size_t bytes = sluice_state_bytes(plan);
    char *saved = malloc(bytes);
    assert_int_equal(sluice_state_reset(plan, 9), SLUICE_OK);
    assert_int_equal(sluice_state_save(plan, saved, bytes - 1), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_state_save(plan, NULL, bytes), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_state_save(plan, saved, bytes), SLUICE_OK);
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_OK);
    assert_int_equal(sluice_run_cpu(plan, send, again), SLUICE_OK);
    assert_true(memcmp(first, second, sizeof first) != 0);
    assert_int_equal(sluice_state_restore(plan, saved, bytes - 1), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_state_restore(plan, NULL, bytes), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_state_restore(plan, saved, bytes), SLUICE_OK);
    assert_int_equal(sluice_run_cpu(plan, send, again), SLUICE_OK);
    assert_memory_equal(first, second, sizeof first);
    free(saved);
    sluice_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_give_what_the_reference_says),
        cmocka_unit_test(without_state_there_is_nothing_to_save),
        cmocka_unit_test(what_did_not_change_needs_no_room),
        cmocka_unit_test(saved_and_restored_runs_go_on_alike),
        cmocka_unit_test(a_reset_plan_is_as_new),
        cmocka_unit_test(what_another_plan_saved_is_refused),
        cmocka_unit_test(what_is_of_other_data_is_refused),
        cmocka_unit_test(an_overflowed_run_leaves_no_trace),
        cmocka_unit_test(a_repair_is_cut_as_its_plan),
        cmocka_unit_test(encodings_stay_apart_in_the_repair),
        cmocka_unit_test(threads_and_slices_do_not_change_bits),
        cmocka_unit_test(an_adaptation_keeps_the_state),
        cmocka_unit_test(what_happens_between_runs_does_not_change_bits),
        cmocka_unit_test(error_feedback_catches_up),
        cmocka_unit_test(the_public_api),
    };
    return cmocka_run_group_tests_name("executor_state", tests, NULL, NULL);
}
