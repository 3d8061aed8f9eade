/*
 * test_cuda_api.c: sizes before memory, limits, refusals, statistics with timestamps, and a handle
 * used by several threads.
 */
#include "tests/gpu/cuda_test.h"

#include <pthread.h>

static struct setting ring(void) {
    struct setting s = setting_of("schedules/allreduce_ring.slc", 4, 500000);
    s.defines[0] = "wire=pack(0.75)";
    s.slices = 4;
    return s;
}

static void test_sizes(struct cuda_test *t) {
    struct setting s = ring();
    struct world w;
    sluice_graph_sizes sizes, in_place;
    size_t before, after, total;
    if (!world_open(t, &w, &s))
        return;
    check(t, sluice_comm_local(&w.comm, 4) == SLUICE_OK, "comm");
    check(t,
          sluice_comm_ranks(w.comm) == 4 && sluice_comm_local_ranks(w.comm) == 4 &&
              sluice_comm_first_rank(w.comm) == 0,
          "ranks of the communicator");
    CUDA(cudaMemGetInfo(&before, &total));
    ok(t, &w, sluice_graph_get_sizes(w.plan, w.comm, NULL, NULL, &s.options, &sizes), "sizes");
    CUDA(cudaMemGetInfo(&after, &total));
    check(t, before == after, "asking for sizes took memory");
    check(t,
          sizes.arena_bytes > 1000000 && sizes.snapshot_bytes == 0 &&
              sizes.device_bytes >= sizes.arena_bytes + sizes.workspace_bytes,
          "sizes make no sense");
    ok(t, &w,
       sluice_graph_get_sizes(w.plan, w.comm, (const void *const *)w.recv_dev, w.recv_dev,
                              &s.options, &in_place),
       "sizes in place");
    check(t, in_place.snapshot_bytes >= 4 * w.send_bytes[0], "no copy of the input in place");
    s.options.device_limit_bytes = sizes.device_bytes - 1;
    check(t,
          sluice_graph_create(&w.graph, w.plan, w.comm, (const void *const *)w.send_dev, w.recv_dev,
                              &s.options) == SLUICE_OUT_OF_MEMORY,
          "more than the limit");
    check(t, strstr(sluice_graph_error(w.graph), "the limit is") != NULL, "the limit is not told");
    check(t, sluice_graph_launch(w.graph, w.stream, NULL) == SLUICE_OUT_OF_MEMORY,
          "launched what could not be made");
    sluice_graph_destroy(w.graph);
    s.options.device_limit_bytes = sizes.device_bytes;
    ok(t, &w,
       sluice_graph_create(&w.graph, w.plan, w.comm, (const void *const *)w.send_dev, w.recv_dev,
                           &s.options),
       "create within the limit");
    world_run(t, &w, DATA_FITS, 3, false);
    world_close(&w);
}

static void test_refusals(struct cuda_test *t) {
    struct setting s = ring();
    struct world w;
    sluice_graph *g = NULL;
    void *none[MOST_RANKS] = {NULL};
    if (!world_graph(t, &w, &s))
        return;
    const void *const *send = (const void *const *)w.send_dev;
    check(t, sluice_graph_rebind(w.graph, send, none) == SLUICE_INVALID_ARGUMENT, "no buffer");
    check(t, strstr(sluice_graph_error(w.graph), "rank 0 has no receive buffer") != NULL, "%s",
          sluice_graph_error(w.graph));
    check(t,
          sluice_graph_rebind(w.graph, (const void *const *)w.recv_dev, w.recv_dev) ==
              SLUICE_INVALID_ARGUMENT,
          "in place without a copy of the input");
    world_run(t, &w, DATA_FITS, 5, false); /* all as before */
    sluice_comm *three;
    check(t, sluice_comm_local(&three, 3) == SLUICE_OK, "comm");
    check(t,
          sluice_graph_create(&g, w.plan, three, send, w.recv_dev, NULL) == SLUICE_INVALID_ARGUMENT,
          "4 ranks on 3");
    check(t, strstr(sluice_graph_error(g), "the plan is for 4 ranks") != NULL, "%s",
          sluice_graph_error(g));
    sluice_graph_destroy(g);
    sluice_comm_destroy(three);
    check(t, sluice_comm_local(&three, 0) == SLUICE_INVALID_ARGUMENT, "no ranks");
    check(t, sluice_graph_launch(NULL, w.stream, NULL) == SLUICE_INVALID_ARGUMENT, "no graph");
    sluice_graph_destroy(NULL);
    sluice_comm_destroy(NULL);
    world_close(&w);
}

/* More memory than there is; the error of the call stays with the graph, and harms no other. */
static void test_no_memory(struct cuda_test *t) {
    struct setting s = ring(), fits = ring();
    struct world w;
    sluice_options o = SLUICE_OPTIONS_INIT;
    sluice_plan *plan;
    sluice_graph *g = NULL;
    void *dev[MOST_RANKS];
    o.ranks = 4, o.dtype = SLUICE_F32, o.count = UINT64_C(1) << 36, o.gpu_only = 1;
    if (!world_graph(t, &w, &fits))
        return;
    for (int r = 0; r < 4; r++)
        dev[r] = w.recv_dev[0]; /* never used */
    sluice_status status = sluice_compile_file(&plan, s.path, &o);
    check(t, status == SLUICE_OK, "%s", sluice_diagnostics(plan));
    check(t,
          sluice_graph_create(&g, plan, w.comm, (const void *const *)dev, dev, NULL) ==
              SLUICE_OUT_OF_MEMORY,
          "a quarter of a terabyte a rank");
    check(t, strstr(sluice_graph_error(g), "cudaMalloc of") != NULL, "%s", sluice_graph_error(g));
    world_run(t, &w, DATA_FITS, 21, true);
    sluice_graph_destroy(g);
    sluice_destroy(plan);
    void *none;
    check(t, cudaMalloc(&none, (size_t)1 << 50) != cudaSuccess, "a petabyte");
    world_run(t, &w, DATA_FITS, 22, true); /* the caller's error is not taken for ours */
    check(t, sluice_run_cpu(NULL, NULL, NULL) == SLUICE_INVALID_ARGUMENT, "no plan");
    world_close(&w);
}

/* Slices overlap: the timestamps show a compute of one beside the transfer of another. */
static void test_timestamps(struct cuda_test *t) {
    struct setting s = ring();
    struct world w;
    sluice_graph_span a, b;
    sluice_graph_stage stage;
    uint64_t spans = 0, overlaps = 0;
    s.options.timestamps = 1;
    s.count = t->emulated ? 1 << 18 : 8 << 20;
    if (!world_graph(t, &w, &s))
        return;
    world_run(t, &w, DATA_FITS, 1, false);
    for (size_t i = 0; sluice_graph_get_span(w.graph, i, &a) == SLUICE_OK; i++) {
        spans++;
        check(t, a.begin_ns > 0 && a.end_ns >= a.begin_ns, "span %zu runs backwards", i);
        for (size_t j = 0; a.rank < 0 && sluice_graph_get_span(w.graph, j, &b) == SLUICE_OK; j++)
            overlaps += b.rank >= 0 && b.begin_ns < a.end_ns && a.begin_ns < b.end_ns;
    }
    check(t, spans > 50 && (overlaps > 0 || t->emulated), "%llu spans, %llu overlap",
          (unsigned long long)spans, (unsigned long long)overlaps);
    double seconds = 0;
    for (size_t i = 0; sluice_graph_get_stage(w.graph, i, &stage) == SLUICE_OK; i++)
        seconds += stage.device_seconds;
    check(t, seconds > 0 && (seconds < 1 || t->emulated), "stages took %g s", seconds);
    world_close(&w);
}

struct caller {
    struct cuda_test t;
    struct world *w;
    int shared; /* 1: everyone launches the same graph, whose plan needs no waiting */
};

static void *call(void *arg) {
    struct caller *c = arg;
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t ticket;
        sluice_graph_stats stats;
        if (!c->shared) {
            world_run(&c->t, c->w, i % 4 == 3 ? DATA_BITS : DATA_FITS, i, i % 2);
            continue;
        }
        ok(&c->t, c->w, sluice_graph_launch(c->w->graph, c->w->stream, &ticket), "launch");
        ok(&c->t, c->w, sluice_graph_wait(c->w->graph, ticket), "wait");
        ok(&c->t, c->w, sluice_graph_get_stats(c->w->graph, &stats), "stats");
    }
    return NULL;
}

static void run_threads(struct cuda_test *t, struct world *w, int shared) {
    struct caller c[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        c[i] = (struct caller){.w = shared ? &w[0] : &w[i], .shared = shared};
        check(t, !pthread_create(&threads[i], NULL, call, &c[i]), "thread");
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        t->checks += c[i].t.checks;
        t->failures += c[i].t.failures;
    }
}

static void test_threads(struct cuda_test *t) {
    struct setting s = ring();
    struct world w[3];
    s.count = 20000;
    for (int i = 0; i < 3; i++)
        if (!world_graph(t, &w[i], &s))
            return;
    run_threads(t, w, 0);
    for (int i = 0; i < 3; i++)
        world_close(&w[i]);
    s.defines[0] = "wire=none";
    if (!world_graph(t, &w[0], &s))
        return;
    world_fill(t, &w[0], DATA_FITS, 9);
    run_threads(t, w, 1);
    world_check(t, &w[0], "shared", 9);
    sluice_graph_stats stats;
    ok(t, &w[0], sluice_graph_get_stats(w[0].graph, &stats), "stats");
    check(t, stats.runs == 60, "%llu runs", (unsigned long long)stats.runs);
    world_close(&w[0]);
}

void test_api(struct cuda_test *t) {
    test_sizes(t);
    test_refusals(t);
    test_no_memory(t);
    test_timestamps(t);
    if (!t->small)
        test_threads(t);
}
