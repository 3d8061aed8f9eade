/*
 * test_executor_faults.c: plans that no compiler should make. Each is refused or ends in an error
 * that says where; nothing crashes, hangs, or writes to the caller's memory.
 */
#include "tests/unit/run_test.h"

#include <stdio.h>

/* A good plan, to be spoilt. */
static struct compilation *good(const char *text, int32_t ranks) {
    struct job j = {.text = text, .ranks = ranks, .dtype = DTYPE_F32, .count = 1000};
    j.defines[0] = "wire=none";
    struct compile_options o = job_options(&j);
    struct compilation *c = compile_text("test.slc", text, strlen(text), &o);
    assert_true(compilation_ok(c));
    return c;
}

/* Making it ready must fail with these words. */
static void refused(struct compilation *c, const char *words) {
    enum run_status status;
    char err[200];
    struct executor *e = executor_new(c->tasks, NULL, NULL, &status, err, sizeof err);
    assert_null(e);
    assert_int_equal(status, RUN_INTERNAL);
    if (!strstr(err, words))
        print_error("'%s' is not in '%s'\n", words, err);
    assert_non_null(strstr(err, words));
    compilation_free(c);
}

static struct task *task_of_kind(struct compilation *c, enum task_kind kind, uint32_t skip) {
    for (size_t i = 0;; i++)
        if (c->tasks->tasks.data[i].kind == kind && skip-- == 0)
            return &c->tasks->tasks.data[i];
}

static struct piece *piece_of(struct compilation *c, const struct task *send) {
    return &c->tasks->pieces.data[c->tasks->operands.data[send->first_operand].index];
}

static void memory_outside_the_arena(void **state) {
    (void)state;
    struct compilation *c = good(TWOSHOT, 3);
    piece_of(c, task_of_kind(c, TASK_SEND, 0))->offset = UINT64_C(1) << 40;
    refused(c, "ends outside the arena");
    c = good(TWOSHOT, 3);
    piece_of(c, task_of_kind(c, TASK_SEND, 0))->bytes -= 4;
    refused(c, "is too small");
    c = good(TWOSHOT, 3);
    c->tasks->ranks.data[1].arena_bytes = 100;
    refused(c, "rank 1, task");
}

static void references_to_nothing(void **state) {
    (void)state;
    struct compilation *c = good(TWOSHOT, 3);
    c->tasks->operands.data[task_of_kind(c, TASK_SEND, 1)->first_operand].index = 1 << 30;
    refused(c, "there is no piece 1073741824");
    c = good(TWOSHOT, 3);
    task_of_kind(c, TASK_RECV, 1)->message = 12345;
    refused(c, "there is no message 12345");
    c = good(TWOSHOT, 3);
    struct task *k = task_of_kind(c, TASK_COMPUTE, 0);
    k->first_operand = 1 << 30;
    refused(c, "out of range");
    c = good(TWOSHOT, 3);
    task_of_kind(c, TASK_COMPUTE, 0)->operands = 0;
    refused(c, "from 0 operands");
    c = good(TWOSHOT, 3);
    c->tasks->ranks.data[2].n++;
    refused(c, "rank 2, task");
}

static void ends_that_differ(void **state) {
    (void)state;
    struct compilation *c = good(TWOSHOT, 3);
    struct task *send = task_of_kind(c, TASK_SEND, 0);
    const struct message *m = &c->tasks->messages.data[send->message];
    const struct task *recv = &c->tasks->tasks.data[m->recv];
    c->tasks->pieces.data[c->tasks->outs.data[recv->first_out]].bytes += 4;
    refused(c, "other sizes where it arrives");
}

static void a_store_to_an_input(void **state) {
    (void)state;
    struct compilation *c = good(ALLTOALL, 2);
    for (size_t i = 0; i < c->tasks->tasks.count; i++) {
        struct task *k = &c->tasks->tasks.data[i];
        struct operand *o = &c->tasks->operands.data[k->first_operand];
        if (k->kind == TASK_COMPUTE && o->kind == OPERAND_CHUNK && k->store.index != NONE) {
            k->store = *o;
            break;
        }
    }
    refused(c, "it stores to");
}

/* Two ranks that each want to receive before they send. */
static void ranks_that_wait_for_each_other(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        struct compilation *c = good(TWOSHOT, 2);
        struct tasks *t = c->tasks;
        c->tasks->rounds[0] += 10;
        c->tasks->rounds[1] += 10;
        uint32_t comm = NONE, swapped = 0;
        for (size_t i = 0; i < t->tasks.count; i++) {
            struct task *k = &t->tasks.data[i];
            if (k->kind != TASK_COMPUTE && comm == NONE)
                comm = k->comm;
            if (k->kind == TASK_COMPUTE || k->round != 0)
                continue;
            k->round = k->kind == TASK_RECV ? 8 : 9; /* one after the other, at both ends */
            swapped++;
        }
        assert_int_equal(swapped, 4);
        for (int r = 0; r < 2; r++) { /* the receive first */
            struct rank_tasks *rank = &t->ranks.data[r];
            for (uint32_t i = rank->first; i + 1 < rank->first + rank->n; i++) {
                struct task *a = &t->tasks.data[i], *b = a + 1;
                if (a->kind != TASK_SEND || b->kind != TASK_RECV || a->round != 9)
                    continue;
                t->messages.data[a->message].send = i + 1;
                t->messages.data[b->message].recv = i;
                struct task swap = *a;
                *a = *b;
                *b = swap;
                break;
            }
        }
        for (size_t i = 0; i < t->tasks.count; i++)
            t->tasks.data[i].deps = 0;
        enum run_status status;
        char err[200];
        struct run_options o = {.threads = threads};
        struct executor *e = executor_new(t, NULL, &o, &status, err, sizeof err);
        if (!e)
            print_error("%s\n", err);
        assert_non_null(e);
        float send[2][1000] = {{0}}, recv[2][1000], before[2][1000];
        memset(recv, 0x5a, sizeof recv);
        memcpy(before, recv, sizeof recv);
        const void *const sends[] = {send[0], send[1]};
        void *const recvs[] = {recv[0], recv[1]};
        for (int run = 0; run < 2; run++) {
            assert_int_equal(executor_run(e, sends, recvs), RUN_INTERNAL);
            assert_string_equal(executor_error(e), "the ranks wait for each other; rank 0 waits in "
                                                   "round 8 of comm 0 for rank 1");
            assert_memory_equal(recv, before, sizeof recv);
        }
        executor_free(e);
        compilation_free(c);
    }
}

static void swap_tasks(struct tasks *t, uint32_t i, uint32_t j) {
    struct task swap = t->tasks.data[i];
    t->tasks.data[i] = t->tasks.data[j];
    t->tasks.data[j] = swap;
    for (size_t d = 0; d < t->deps.count; d++)
        t->deps.data[d] = t->deps.data[d] == i ? j : t->deps.data[d] == j ? i : t->deps.data[d];
    for (uint32_t k = i;; k = j) {
        const struct task *moved = &t->tasks.data[k];
        if (moved->kind == TASK_SEND)
            t->messages.data[moved->message].send = k;
        if (moved->kind == TASK_RECV)
            t->messages.data[moved->message].recv = k;
        if (k == j)
            break;
    }
}

static bool waits_for(const struct tasks *t, uint32_t task, uint32_t other) {
    const struct task *k = &t->tasks.data[task];
    for (uint32_t d = 0; d < k->deps; d++)
        if (t->deps.data[k->first_dep + d] == other)
            return true;
    return k->lane == t->tasks.data[other].lane;
}

/* Members of a group that do not stand together are brought together: where a rank has "send,
 * receive, compute" of which the compute waits for neither, it gets "send, compute, receive". In a
 * ring no rank could go on behind the send alone. */
static void a_scattered_group_runs_as_one(void **state) {
    (void)state;
    struct job j = {.text = RING, .ranks = 3, .dtype = DTYPE_F32, .count = 1000, .slices = 2};
    struct compile_options o = job_options(&j);
    struct compilation *c = compile_text("test.slc", RING, strlen(RING), &o);
    assert_true(compilation_ok(c));
    struct tasks *t = c->tasks;
    unsigned swapped = 0;
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t i = t->ranks.data[r].first;
             i + 2 < t->ranks.data[r].first + t->ranks.data[r].n; i++) {
            const struct task *k = &t->tasks.data[i];
            if (k[0].kind == TASK_COMPUTE || k[1].kind == TASK_COMPUTE ||
                k[2].kind != TASK_COMPUTE || k[0].comm != k[1].comm || k[0].round != k[1].round ||
                waits_for(t, i + 2, i) || waits_for(t, i + 2, i + 1))
                continue;
            swap_tasks(t, i + 1, i + 2);
            swapped++;
        }
    assert_true(swapped >= 3);
    enum run_status status;
    char err[200];
    struct executor *e = executor_new(t, NULL, NULL, &status, err, sizeof err);
    if (!e)
        print_error("%s\n", err);
    assert_non_null(e);
    float send[3][1000], recv[3][1000];
    for (int r = 0; r < 3; r++)
        input_generate(INPUT_EXACT, DTYPE_F32, 1, r, 0, 1000, send[r]);
    const void *const sends[] = {send[0], send[1], send[2]};
    void *const recvs[] = {recv[0], recv[1], recv[2]};
    assert_int_equal(executor_run(e, sends, recvs), RUN_OK);
    for (int i = 0; i < 1000; i++)
        assert_true(recv[i % 3][i] == send[0][i] + send[1][i] + send[2][i]);
    executor_free(e);
    compilation_free(c);
}

/* A plan that can overflow must come with a repair, and that with the same memory. */
static void a_bounded_plan_needs_its_repair(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 2, .dtype = DTYPE_F32, .count = 100000};
    j.defines[0] = "wire=pack(0.5)";
    struct compile_options o = job_options(&j);
    struct compilation *c = compile_text("test.slc", TWOSHOT, strlen(TWOSHOT), &o);
    assert_true(compilation_ok(c) && tasks_can_overflow(c->tasks));
    struct compilation *other = good(RING, 2);
    enum run_status status;
    char err[200];
    assert_null(executor_new(c->tasks, c->tasks, NULL, &status, err, sizeof err));
    assert_string_equal(err, "the repair plan is not of the same schedule, or can overflow");
    compilation_free(other);
    refused(c, "can overflow and has no repair plan");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_outside_the_arena),
        cmocka_unit_test(references_to_nothing),
        cmocka_unit_test(ends_that_differ),
        cmocka_unit_test(a_store_to_an_input),
        cmocka_unit_test(ranks_that_wait_for_each_other),
        cmocka_unit_test(a_scattered_group_runs_as_one),
        cmocka_unit_test(a_bounded_plan_needs_its_repair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
