/* Ranks as processes: started, told who they are, and reported when they die. No GPU is needed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/launch.h"

enum { RANKS = 4 };

/* What ranks leave for the test to see. */
struct seen {
    _Atomic int ranks, ids_right, settings_right;
};

static struct seen *seen_new(void) {
    struct seen *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s, MAP_FAILED);
    return s;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool make_id(void *ctx, void *id) {
    memset(id, 0, 128);
    snprintf(id, 128, "made by process %ld", *(const long *)ctx);
    return true;
}

static int share_and_count(const struct launch *l, void *ctx) {
    struct seen *s = ctx;
    char id[128];
    long pid = l->rank; /* only rank 0's counts */
    bool ok = launch_share_id(l, make_id, &pid, id);
    atomic_fetch_add(&s->ids_right, ok && strcmp(id, "made by process 0") == 0);
    atomic_fetch_add(&s->ranks, 1 << (8 * l->rank));
    return l->ranks == RANKS ? 0 : 1;
}

static void each_rank_runs_once_and_gets_the_id(void **state) {
    (void)state;
    struct seen *s = seen_new();
    struct launch_options o = {.ranks = RANKS};
    assert_int_equal(launch_ranks("test", &o, share_and_count, s), 0);
    assert_int_equal(s->ranks, 0x01010101);
    assert_int_equal(s->ids_right, RANKS);
    munmap(s, sizeof *s);
}

static bool no_id(void *ctx, void *id) {
    (void)ctx, (void)id;
    return false;
}

static int want_id(const struct launch *l, void *ctx) {
    char id[128];
    return launch_share_id(l, no_id, ctx, id) ? 0 : 9;
}

static void nobody_waits_for_an_id_that_cannot_be_made(void **state) {
    (void)state;
    struct launch_options o = {.ranks = RANKS, .grace_s = 20};
    double start = now_s();
    assert_int_equal(launch_ranks("test", &o, want_id, NULL), 9);
    assert_true(now_s() - start < 10);
}

static int leave_with_7(const struct launch *l, void *ctx) {
    (void)ctx;
    return l->rank == 2 ? 7 : 0;
}

static void an_exit_status_is_passed_on(void **state) {
    (void)state;
    struct launch_options o = {.ranks = RANKS};
    assert_int_equal(launch_ranks("test", &o, leave_with_7, NULL), 7);
}

static int die_or_hang(const struct launch *l, void *ctx) {
    (void)ctx;
    if (l->rank == 1)
        raise(SIGKILL);
    signal(SIGTERM, SIG_IGN);
    while (l->ranks > 0)
        pause();
    return 0;
}

/* Ranks that hang are ended, those that do not listen as well. */
static void a_rank_that_is_killed_ends_the_others_in_time(void **state) {
    (void)state;
    struct launch_options o = {.ranks = RANKS, .grace_s = 0.5};
    double start = now_s();
    assert_int_equal(launch_ranks("test", &o, die_or_hang, NULL), LAUNCH_DIED);
    double took = now_s() - start;
    assert_true(took >= 0.5 && took < 15);
}

static int check_settings(const struct launch *l, void *ctx) {
    struct seen *s = ctx;
    char want[32], setting[64];
    bool found = false;
    snprintf(want, sizeof want, "node-%d", l->rank / 2);
    bool right = strcmp(getenv("SLUICE_HOSTID"), want) == 0 && getenv("NCCL_HOSTID") &&
                 strcmp(getenv("NCCL_SOCKET_IFNAME"), "lo") == 0 &&
                 strcmp(getenv("NCCL_SOCKET_NTHREADS"), "3") == 0;
    for (size_t i = 0; launch_setting(i, setting, sizeof setting); i++)
        found |= strcmp(setting, "NCCL_SOCKET_NTHREADS=3") == 0;
    atomic_fetch_add(&s->settings_right, right && found);
    return 0;
}

static void what_the_user_has_set_stays(void **state) {
    (void)state;
    struct seen *s = seen_new();
    struct launch_options o = {
        .ranks = RANKS, .oversubscribe = true, .apart = true, .ranks_per_node = 2};
    setenv("NCCL_SOCKET_NTHREADS", "3", 1);
    assert_int_equal(launch_ranks("test", &o, check_settings, s), 0);
    unsetenv("NCCL_SOCKET_NTHREADS");
    assert_int_equal(s->settings_right, RANKS);
    assert_null(getenv("NCCL_SOCKET_IFNAME")); /* only the ranks were given it */
    munmap(s, sizeof *s);
}

/* ---- ranks that somebody else started ---- */

static void set_torchrun(const char *rank, const char *world, const char *local_world) {
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", world, 1);
    setenv("LOCAL_RANK", "1", 1);
    setenv("LOCAL_WORLD_SIZE", local_world, 1);
    unsetenv("NCCL_COMM_ID");
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
}

static int forget_environment(void **state) {
    (void)state;
    static const char *const names[] = {
        "RANK",         "WORLD_SIZE",  "LOCAL_RANK", "LOCAL_WORLD_SIZE",
        "NCCL_COMM_ID", "MASTER_ADDR", "MASTER_PORT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

static int be_rank_5(const struct launch *l, void *ctx) {
    (void)ctx;
    return l->rank == 5 && l->ranks == 8 && l->local_rank == 1 && !l->shared ? 42 : 1;
}

static void a_started_rank_runs_where_it_is(void **state) {
    (void)state;
    struct launch_options any = {0}, eight = {.ranks = 8}, four = {.ranks = 4};
    set_torchrun("5", "8", "4");
    setenv("MASTER_ADDR", "10.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
    assert_int_equal(launch_ranks("test", &any, be_rank_5, NULL), 42);
    assert_string_equal(getenv("NCCL_COMM_ID"), "10.0.0.1:29501");
    assert_int_equal(launch_ranks("test", &eight, be_rank_5, NULL), 42);
    assert_int_equal(launch_ranks("test", &four, be_rank_5, NULL), LAUNCH_FAILED);
}

static void ranks_of_one_machine_find_a_place_to_meet(void **state) {
    (void)state;
    struct launch l;
    char err[256];
    set_torchrun("1", "2", "2");
    assert_true(launch_from_environment(&l, err, sizeof err));
    assert_memory_equal(getenv("NCCL_COMM_ID"), "127.0.0.1:", 10);
}

static void ranks_of_several_machines_must_be_told(void **state) {
    (void)state;
    struct launch l;
    char err[256];
    set_torchrun("5", "8", "4");
    assert_false(launch_from_environment(&l, err, sizeof err));
    assert_non_null(strstr(err, "NCCL_COMM_ID"));
    set_torchrun("8", "8", "4");
    assert_false(launch_from_environment(&l, err, sizeof err));
    assert_non_null(strstr(err, "RANK is 8, but WORLD_SIZE is 8"));
    set_torchrun("0", "1", "1"); /* one rank needs nobody */
    assert_false(launch_from_environment(&l, err, sizeof err));
    assert_string_equal(err, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_runs_once_and_gets_the_id),
        cmocka_unit_test(nobody_waits_for_an_id_that_cannot_be_made),
        cmocka_unit_test(an_exit_status_is_passed_on),
        cmocka_unit_test(a_rank_that_is_killed_ends_the_others_in_time),
        cmocka_unit_test(what_the_user_has_set_stays),
        cmocka_unit_test_teardown(a_started_rank_runs_where_it_is, forget_environment),
        cmocka_unit_test_teardown(ranks_of_one_machine_find_a_place_to_meet, forget_environment),
        cmocka_unit_test_teardown(ranks_of_several_machines_must_be_told, forget_environment),
    };
    return cmocka_run_group_tests(tests, forget_environment, NULL);
}
