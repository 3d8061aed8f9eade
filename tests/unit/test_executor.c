/*
 * test_executor.c: schedules on the CPU executor, held to the reference: types, operators, counts,
 * in place, threads, codecs, and many ranks.
 *
 * For races: cmake -G Ninja -B build/tsan -DSLUICE_SANITIZE=thread, ninja -C build/tsan, and the
 * programs build/tsan/tests/unit/test_executor*.
 */
#include "tests/unit/run_test.h"

#include <errno.h>
#include <pthread.h>

static void every_type_and_operator(void **state) {
    (void)state;
    for (enum dtype t = 0; t < DTYPE_COUNT; t++)
        for (enum redop op = 0; op < REDOP_COUNT; op++) {
            struct job j = {.text = TWOSHOT, .ranks = 4, .dtype = t, .redop = op, .count = 1009};
            j.defines[0] = "wire=none";
            j.kind = INPUT_EXTREMES;
            run_job(&j);
            j.text = RING;
            j.kind = INPUT_BITS;
            run_job(&j);
        }
}

static void counts_that_do_not_divide(void **state) {
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 63, 64, 65, 127, 191, 193, 1009, 4099};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int32_t ranks = 1; ranks <= 5; ranks += 2) {
            struct job j = {.text = TWOSHOT, .ranks = ranks, .dtype = DTYPE_BF16};
            j.count = counts[i];
            run_job(&j);
            j.text = RING;
            j.in_place = true;
            run_job(&j);
            j.text = ALLTOALL;
            j.in_place = false;
            run_job(&j);
        }
}

/* Against plain arithmetic, in case executor and reference are wrong alike. */
static void exact_sums_are_the_sums(void **state) {
    (void)state;
    struct job j = {
        .text = RING, .ranks = 5, .dtype = DTYPE_F32, .count = 777, .kind = INPUT_EXACT};
    struct world w = world_new(&j);
    world_run(&w);
    for (size_t i = 0; i < 777; i++) {
        float sum = 0;
        for (int r = 0; r < 5; r++)
            sum += ((const float *)w.send[r])[i];
        for (int r = 0; r < 5; r++)
            assert_true(((const float *)w.recv[r])[i] == sum);
    }
    world_free(&w);
    j.text = ALLTOALL;
    j.kind = INPUT_BITS;
    w = world_new(&j);
    world_run(&w);
    for (int r = 0; r < 5; r++)
        for (int q = 0; q < 5; q++)
            assert_memory_equal((float *)w.recv[r] + 777 * q, (float *)w.send[q] + 777 * r,
                                777 * sizeof(float));
    world_free(&w);
}

/* 256 + 1 + 1 in bf16 is 258: one sum, rounded once. */
static void a_sum_is_rounded_once(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 3, .dtype = DTYPE_BF16, .count = 1};
    struct world w = world_new(&j);
    uint16_t one = 0x3f80, big = 0x4380, want = 0x4381;
    for (int r = 0; r < 3; r++)
        memcpy(w.send[r], r == 0 ? &big : &one, 2);
    world_run(&w);
    for (int r = 0; r < 3; r++)
        assert_memory_equal(w.recv[r], &want, 2);
    world_free(&w);
}

static void moved_data_keeps_every_bit(void **state) {
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static const enum input_kind kinds[] = {INPUT_EXTREMES, INPUT_BITS, INPUT_ZEROS, INPUT_NORMAL};
    for (size_t t = 0; t < 3; t++)
        for (size_t k = 0; k < 4; k++) {
            struct job j = {.text = ALLTOALL, .ranks = 3, .dtype = types[t], .count = 5000};
            j.kind = kinds[k];
            uint64_t packed = run_job(&j);
            j.defines[0] = "wire=none";
            assert_true(packed == run_job(&j));
        }
}

static void threads_do_not_change_bits(void **state) {
    (void)state;
    static const char *const texts[] = {TWOSHOT, RING};
    for (size_t t = 0; t < 2; t++)
        for (uint32_t slices = 1; slices <= 3; slices++) {
            struct job j = {.text = texts[t], .ranks = 8, .dtype = DTYPE_F16, .count = 20011};
            uint64_t first = 0;
            j.slices = slices;
            for (j.threads = 1; j.threads <= 8; j.threads++) {
                uint64_t hash = run_job(&j);
                first = j.threads == 1 ? hash : first;
                assert_true(hash == first);
            }
        }
}

static void many_ranks_on_few_threads(void **state) {
    (void)state;
    struct job j = {.text = RING, .ranks = 64, .dtype = DTYPE_F32, .count = 9999, .threads = 2};
    run_job(&j);
    j.text = TWOSHOT;
    j.ranks = 100;
    j.redop = REDOP_AVG;
    run_job(&j);
}

static void lossy_results_are_within_the_bound(void **state) {
    (void)state;
    static const char *const wires[] = {"wire=cast(bf16)", "wire=cast(f16) | pack", "wire=quant(8)",
                                        "wire=quant(4, 96)"};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < 4; i++)
        for (size_t t = 0; t < 3; t++) {
            struct job j = {.text = TWOSHOT, .ranks = 4, .dtype = types[t], .count = 3001};
            j.defines[0] = wires[i];
            j.redop = t == 1 ? REDOP_AVG : REDOP_SUM;
            run_job(&j);
            j.kind = INPUT_EXTREMES;
            run_job(&j);
        }
}

static void what_the_bound_allows_is_near_what_happens(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 4, .dtype = DTYPE_F32, .count = 100000};
    j.defines[0] = "wire=quant(8)";
    struct world w = world_new(&j);
    world_run(&w);
    struct reference_report r = world_check(&w);
    assert_int_equal(r.wrong + r.exact + r.unbounded, 0);
    assert_int_equal(r.bounded, 400000);
    assert_true(r.worst_fraction > 0.5 && r.worst_fraction <= 1);
    world_free(&w);
}

static void statistics_say_what_travelled(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 4, .dtype = DTYPE_BF16, .count = 1 << 16};
    j.defines[0] = "wire=none";
    j.slices = 2;
    struct world w = world_new(&j);
    world_run(&w);
    world_run(&w);
    const struct run_stats *s = plan_stats(w.plan);
    assert_int_equal(s->runs, 2);
    assert_int_equal(s->repairs, 0);
    assert_int_equal(s->stages, 3);
    assert_string_equal(s->stage[1].name, "scatter");
    /* 4 ranks x 3 messages x 2 slices, each an eighth of 128 KiB, twice */
    assert_int_equal(s->stage[1].messages, 2 * 24);
    assert_int_equal(s->stage[1].raw_bytes, 2 * 24 * 16384);
    assert_int_equal(s->stage[1].wire_bytes, s->stage[1].raw_bytes);
    assert_int_equal(s->stage[1].needed_bytes, s->stage[1].raw_bytes);
    assert_int_equal(s->total.messages, 2 * 48);
    assert_true(s->arena_bytes > 0 && s->arena_bytes <= s->arena_unshared_bytes);
    assert_int_equal(plan_last(w.plan)->total.messages, 48);
    world_free(&w);
}

struct progress {
    uint64_t calls, last, of;
};

static void note_progress(void *ctx, uint64_t done, uint64_t of) {
    struct progress *p = ctx;
    assert_true(done >= p->last && done <= of);
    p->calls++;
    p->last = done;
    p->of = of;
}

static void progress_counts_tasks(void **state) {
    (void)state;
    struct progress p = {0};
    struct job j = {.text = RING, .ranks = 4, .dtype = DTYPE_F32, .count = 1000};
    struct compile_options c = job_options(&j);
    struct run_options r = {.threads = 1, .progress = note_progress, .progress_ctx = &p};
    r.progress_seconds = 1e-9;
    struct world w = {.job = j, .plan = plan_new_text("test.slc", RING, strlen(RING), &c, &r)};
    assert_true(plan_ready(w.plan));
    world_allocate(&w);
    world_run(&w);
    assert_true(p.calls > 5);
    assert_int_equal(p.of, plan_compilation(w.plan)->tasks->tasks.count);
    assert_true(p.last > p.of / 2);
    world_free(&w);
}

/* ---- when things are missing ---- */

static int start_nothing(void *thread, void *(*body)(void *), void *arg) {
    (void)thread, (void)body, (void)arg;
    return EAGAIN;
}

static void without_workers_the_caller_does_it_all(void **state) {
    (void)state;
    struct job j = {.text = RING, .ranks = 6, .dtype = DTYPE_F32, .count = 999};
    j.threads = 4;
    j.start_thread = start_nothing;
    struct world w = world_new(&j);
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    assert_int_equal(plan_stats(w.plan)->threads, 1);
    world_free(&w);
}

/* Every second thread cannot be started. */
static int start_some(void *thread, void *(*body)(void *), void *arg) {
    static int calls;
    return calls++ % 2 ? EAGAIN : pthread_create(thread, NULL, body, arg);
}

static void those_that_start_do_the_work(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 6, .dtype = DTYPE_F32, .count = 999};
    j.threads = 5;
    j.start_thread = start_some;
    struct world w = world_new(&j);
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    assert_int_equal(plan_stats(w.plan)->threads, 3);
    world_free(&w);
    j.threads = 100; /* no more than ranks */
    j.start_thread = NULL;
    w = world_new(&j);
    world_run(&w);
    assert_int_equal(plan_stats(w.plan)->threads, 6);
    world_free(&w);
}

static void more_memory_than_allowed_is_refused(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 4, .dtype = DTYPE_F32};
    struct compile_options c = job_options(&j);
    struct run_options r = {.memory_limit_bytes = 1 << 20};
    c.setup.count = 1 << 20;
    struct plan *p = plan_new_text("test.slc", TWOSHOT, strlen(TWOSHOT), &c, &r);
    assert_false(plan_ready(p));
    assert_int_equal(plan_status(p), RUN_NO_MEMORY);
    assert_non_null(strstr(plan_error(p), " MiB of memory and may take 1.0 MiB"));
    plan_free(p);
    c.setup.count = UINT64_C(1) << 45; /* more than any machine has */
    p = plan_new_text("test.slc", TWOSHOT, strlen(TWOSHOT), &c, NULL);
    assert_false(plan_ready(p));
    plan_free(p);
}

/* Says no to the call of a certain number, and remembers what it was asked. */
struct asked {
    int calls, refuse;
    uint64_t bytes, elems;
};

static bool answer(void *ctx, const struct flow *f, uint64_t bytes) {
    struct asked *a = ctx;
    a->bytes = bytes;
    a->elems = io_send_elems(f, 0);
    return ++a->calls != a->refuse;
}

static void the_caller_is_asked_before_memory_is_taken(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 4, .dtype = DTYPE_F32, .count = 1 << 18};
    struct compile_options c = job_options(&j);
    struct asked a = {.refuse = 1};
    struct run_options r = {.may_take = answer, .may_take_ctx = &a};
    struct plan *p = plan_new_text("test.slc", TWOSHOT, strlen(TWOSHOT), &c, &r);
    assert_int_equal(plan_status(p), RUN_NO_MEMORY);
    assert_string_equal(plan_error(p), "the caller has no room for the run");
    plan_free(p);
    a.refuse = 0;
    p = plan_new_text("test.slc", TWOSHOT, strlen(TWOSHOT), &c, &r);
    assert_true(plan_ready(p));
    assert_int_equal(a.calls, 2);
    assert_int_equal(a.elems, c.setup.count);
    /* what was asked for is what is held, but for what does not grow with the data */
    assert_true(a.bytes <= plan_stats(p)->total_bytes);
    assert_true(plan_stats(p)->total_bytes - a.bytes < 64 << 10);
    plan_free(p);
}

static void a_missing_buffer_is_named(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 2, .dtype = DTYPE_F32, .count = 10};
    struct world w = world_new(&j);
    void *kept = w.send[1];
    w.send[1] = NULL;
    assert_int_equal(plan_run(w.plan, (const void *const *)w.send, w.recv), RUN_BAD_ARGUMENT);
    assert_string_equal(plan_error(w.plan), "rank 1 has no send buffer");
    w.send[1] = kept;
    world_run(&w);
    assert_int_equal(world_check(&w).wrong, 0);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operator),
        cmocka_unit_test(counts_that_do_not_divide),
        cmocka_unit_test(exact_sums_are_the_sums),
        cmocka_unit_test(a_sum_is_rounded_once),
        cmocka_unit_test(moved_data_keeps_every_bit),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(many_ranks_on_few_threads),
        cmocka_unit_test(lossy_results_are_within_the_bound),
        cmocka_unit_test(what_the_bound_allows_is_near_what_happens),
        cmocka_unit_test(statistics_say_what_travelled),
        cmocka_unit_test(progress_counts_tasks),
        cmocka_unit_test(without_workers_the_caller_does_it_all),
        cmocka_unit_test(those_that_start_do_the_work),
        cmocka_unit_test(more_memory_than_allowed_is_refused),
        cmocka_unit_test(the_caller_is_asked_before_memory_is_taken),
        cmocka_unit_test(a_missing_buffer_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
