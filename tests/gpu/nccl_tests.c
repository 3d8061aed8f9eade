/*
 * nccl_tests.c: starts the ranks, runs groups of tests in them.
 *
 * usage: nccl_tests SCHEDULE_FOLDER [GROUP...]
 *
 * Ranks share GPU 0 unless there are as many GPUs. Leaves with 77 (skipped) where there is no GPU
 * or no NCCL.
 */
#include "tests/gpu/nccl_test.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, WORDS = 64 };
#define PEER_TIMEOUT_S 10.0

void cuda_must(cudaError_t e, const char *call, const char *file, int line) {
    if (e == cudaSuccess)
        return;
    printf("%s:%d: %s: %s\n", file, line, call, cudaGetErrorString(e));
    fflush(stdout);
    _exit(2);
}

void nccl_must(const struct world *w, enum nccl_result e, const char *call, const char *file,
               int line) {
    if (e == NCCL_SUCCESS)
        return;
    printf("%s:%d: %s: %s; %s\n", file, line, call, w->nccl.GetErrorString(e),
           w->nccl.GetLastError(NULL));
    fflush(stdout);
    _exit(2);
}

bool expect(struct world *w, bool right, const char *format, ...) {
    va_list args;
    w->checks++;
    if (right)
        return true;
    if (++w->failures <= 20) {
        char text[512];
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        printf("wrong: rank %d: %s\n", w->rank, text);
        fflush(stdout);
    }
    return false;
}

bool expect_ok(struct world *w, sluice_status s, const sluice_graph *g, const char *call) {
    return expect(w, s == SLUICE_OK, "%s: %s; %s", call, sluice_status_text(s),
                  g ? sluice_graph_error(g) : "");
}

static uint64_t reduce(struct world *w, uint64_t value, enum nccl_op op) {
    unsigned long long mine = value, *dev = w->wrong_dev + 1;
    CUDA_MUST(cudaMemcpyAsync(dev, &mine, sizeof mine, cudaMemcpyHostToDevice, w->stream));
    NCCL_MUST(w, AllReduce(dev, dev, 1, NCCL_U64, op, w->comm, w->stream));
    CUDA_MUST(cudaMemcpyAsync(&mine, dev, sizeof mine, cudaMemcpyDeviceToHost, w->stream));
    CUDA_MUST(cudaStreamSynchronize(w->stream));
    return mine;
}

void world_barrier(struct world *w) {
    reduce(w, 0, NCCL_MAX);
}

uint64_t world_max(struct world *w, uint64_t value) {
    return reduce(w, value, NCCL_MAX);
}

uint64_t world_sum(struct world *w, uint64_t value) {
    return reduce(w, value, NCCL_SUM);
}

/* ---- groups ---- */

struct group {
    const char *name, *ranks; /* a digit each */
    const char *environment;  /* "NAME=VALUE", or NULL */
    bool dies;                /* one rank ends by a signal, the others must end well */
    test_function *tests[8];
};

static const struct group groups[] = {
    {"schedules", "248", NULL, false, {test_nccl_schedules}},
    {"overflow",
     "248",
     NULL,
     false,
     {test_nccl_overflow, test_nccl_alltoall_without_mark, test_nccl_two_graphs,
      test_nccl_flagged}},
    {"state", "248", NULL, false, {test_nccl_state}},
    {"launch", "4", NULL, false, {test_nccl_launch}},
    {"replays", "4", NULL, false, {test_nccl_many_replays}},
    {"connection",
     "4",
     "CUDA_DEVICE_MAX_CONNECTIONS=1",
     false,
     {test_nccl_overflow, test_nccl_two_graphs, test_nccl_many_replays}},
    {"disabled", "4", "SLUICE_DISABLE=1", false, {test_nccl_disabled}},
    {"agreement", "4", NULL, false, {test_nccl_disagreement}},
    {"killed-before", "4", NULL, true, {test_nccl_killed_before}},
    {"killed-during", "4", NULL, true, {test_nccl_killed_during}},
    {"killed-between", "4", NULL, true, {test_nccl_killed_between}},
};

/* What ranks tell this process, in memory that all share. */
struct outcome {
    _Atomic int done, failed; /* ranks that came to their end; checks that failed, on all of them */
};

struct start {
    const struct group *group;
    const char *schedules;
    struct outcome *outcome;
};

static bool make_id(void *ctx, void *id) {
    const struct world *w = ctx;
    return w->nccl.GetUniqueId(id) == NCCL_SUCCESS;
}

static void world_open(struct world *w, const struct launch *l) {
    struct nccl_id id;
    char err[256], words[256] = "";
    int devices;
    if (!nccl_open(&w->nccl, err, sizeof err)) {
        printf("%s\n", err);
        _exit(2);
    }
    CUDA_MUST(cudaGetDeviceCount(&devices));
    CUDA_MUST(cudaSetDevice(l->oversubscribe ? 0 : l->local_rank % devices));
    if (!launch_share_id(l, make_id, w, &id))
        _exit(2);
    NCCL_MUST(w, CommInitRank(&w->comm, l->ranks, id, l->rank));
    CUDA_MUST(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking));
    CUDA_MUST(cudaMalloc((void **)&w->wrong_dev, WORDS * sizeof *w->wrong_dev));
    CUDA_MUST(cudaMemset(w->wrong_dev, 0, WORDS * sizeof *w->wrong_dev));
    CUDA_MUST(cudaDeviceSynchronize());
    sluice_nccl_options o = SLUICE_NCCL_OPTIONS_INIT;
    o.timeout_seconds = PEER_TIMEOUT_S;
    o.words = words;
    o.words_bytes = sizeof words;
    sluice_status s = sluice_comm_nccl(&w->sluice, w->comm, &o);
    expect(w, s == SLUICE_OK, "sluice_comm_nccl: %s; %s", sluice_status_text(s), words);
    if (!w->sluice)
        _exit(2);
}

static int run_rank(const struct launch *l, void *ctx) {
    const struct start *s = ctx;
    struct world w = {.rank = l->rank, .ranks = l->ranks, .schedules = s->schedules};
    world_open(&w, l);
    for (size_t i = 0; i < 8 && s->group->tests[i]; i++)
        s->group->tests[i](&w);
    sluice_comm_destroy(w.sluice);
    if (s->group->dies)
        w.nccl.CommAbort(w.comm); /* the caller's own: its peer is gone */
    else
        w.nccl.CommDestroy(w.comm);
    if (l->rank == 0)
        printf("    %llu checks a rank\n", (unsigned long long)w.checks);
    atomic_fetch_add(&s->outcome->failed, (int)w.failures);
    atomic_fetch_add(&s->outcome->done, 1);
    return w.failures > 0;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool run_group(const struct group *g, int ranks, const char *schedules, int devices) {
    struct launch_options o = {.ranks = ranks,
                               .oversubscribe = devices < ranks,
                               .apart = g->dies,
                               .grace_s = 3 * PEER_TIMEOUT_S};
    struct outcome *outcome =
        mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct start s = {g, schedules, outcome};
    char name[64] = "";
    if (g->environment) {
        const char *equals = strchr(g->environment, '=');
        snprintf(name, sizeof name, "%.*s", (int)(equals - g->environment), g->environment);
        setenv(name, equals + 1, 1);
    }
    printf("%s, %d ranks\n", g->name, ranks);
    fflush(stdout);
    double start = now_s();
    int result = launch_ranks("nccl_tests", &o, run_rank, &s);
    /* Of a group in which a rank dies, all others must end by themselves, and be content. */
    bool ok = result == (g->dies ? LAUNCH_DIED : 0) && outcome->failed == 0 &&
              outcome->done == ranks - (g->dies ? 1 : 0);
    printf("    %s in %.1f s\n", ok ? "ok" : "FAILED", now_s() - start);
    if (g->environment)
        unsetenv(name);
    munmap(outcome, sizeof *outcome);
    return ok;
}

/* Asks in a process of its own: this one must not have called CUDA before it forks. */
static int count_devices(void) {
    fflush(stdout);
    pid_t pid = fork();
    int status = 0, devices = 0;
    if (pid == 0) {
        struct nccl n;
        char err[256];
        if (cudaGetDeviceCount(&devices) != cudaSuccess)
            _exit(0);
        if (!nccl_open(&n, err, sizeof err)) {
            printf("%s\n", err);
            fflush(stdout);
            _exit(0);
        }
        _exit(devices);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : 0;
}

static bool wanted(const char *name, int argc, char **argv) {
    bool found = argc <= 2;
    for (int i = 2; i < argc; i++)
        found |= strcmp(argv[i], name) == 0;
    return found;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        printf("usage: nccl_tests SCHEDULE_FOLDER [GROUP...]\n");
        return 2;
    }
    int devices = count_devices(), failed = 0;
    if (devices == 0) {
        printf("skipped: no CUDA device, or no NCCL\n");
        return SKIPPED;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        for (const char *n = groups[i].ranks; *n && wanted(groups[i].name, argc, argv); n++)
            failed += !run_group(&groups[i], *n - '0', argv[1], devices);
    printf("%s\n", failed ? "FAILED" : "all groups passed");
    return failed ? 1 : 0;
}
