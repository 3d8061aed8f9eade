/* What a launch costs the host, beside the same sends and receives captured bare. */
#include "tests/gpu/nccl_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAUNCHES = 60 };
#define BOUND_US 20.0

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + 1e-3 * (double)t.tv_nsec;
}

/* Two rounds, everybody to everybody, and the all-reduce by which ranks agree on an overflow. */
static cudaGraphExec_t capture_bare(struct world *w, char *from, char *to, size_t bytes,
                                    bool agree) {
    cudaGraph_t graph;
    cudaGraphExec_t exec = NULL;
    CUDA_MUST(cudaStreamBeginCapture(w->stream, cudaStreamCaptureModeThreadLocal));
    for (int round = 0; round < 2; round++) {
        NCCL_MUST(w, GroupStart());
        for (int r = 0; r < w->ranks; r++) {
            if (r == w->rank)
                continue;
            NCCL_MUST(w, Send(from + bytes * (size_t)r, bytes, NCCL_U8, r, w->comm, w->stream));
            NCCL_MUST(w, Recv(to + bytes * (size_t)r, bytes, NCCL_U8, r, w->comm, w->stream));
        }
        NCCL_MUST(w, GroupEnd());
    }
    if (agree)
        NCCL_MUST(w, AllReduce(to, to, 16, NCCL_U32, NCCL_MAX, w->comm, w->stream));
    CUDA_MUST(cudaStreamEndCapture(w->stream, &graph));
    CUDA_MUST(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_MUST(cudaGraphDestroy(graph));
    return exec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *us) {
    qsort(us, LAUNCHES, sizeof *us, by_size);
    return us[LAUNCHES / 2];
}

static double cost_of_schedule(struct world *w, const char *wire) {
    struct job_options o = {
        .schedule = "allreduce_twoshot.slc", .wire = wire, .dtype = SLUICE_BF16, .count = 1 << 20};
    struct job j;
    double us[LAUNCHES];
    if (!expect(w, job_open(w, &o, &j), "%s does not open", o.schedule))
        return 0;
    for (int i = -10; i < LAUNCHES; i++) { /* the first ones adapt */
        uint64_t ticket;
        job_load(&j, 0, w->stream);
        world_barrier(w);
        double start = now_us();
        sluice_status s = sluice_graph_launch(j.graph, w->stream, &ticket);
        us[i < 0 ? 0 : i] = now_us() - start;
        expect_ok(w, s, j.graph, "launch");
        expect_ok(w, sluice_graph_wait(j.graph, ticket), j.graph, "wait");
    }
    world_barrier(w);
    job_close(&j);
    return median(us);
}

static double cost_of_bare(struct world *w, bool agree) {
    size_t bytes = (2u << 20) / (size_t)w->ranks;
    char *buffers;
    double us[LAUNCHES];
    CUDA_MUST(cudaMalloc((void **)&buffers, 2 * bytes * (size_t)w->ranks));
    cudaGraphExec_t bare =
        capture_bare(w, buffers, buffers + bytes * (size_t)w->ranks, bytes, agree);
    for (int i = -10; i < LAUNCHES; i++) {
        world_barrier(w);
        double start = now_us();
        CUDA_MUST(cudaGraphLaunch(bare, w->stream));
        us[i < 0 ? 0 : i] = now_us() - start;
    }
    world_barrier(w);
    CUDA_MUST(cudaGraphExecDestroy(bare));
    cudaFree(buffers);
    return median(us);
}

void test_nccl_launch(struct world *w) {
    static const char *const wires[] = {"none", "pack"};
    for (int i = 0; i < 2; i++) {
        double bare_us = cost_of_bare(w, i > 0), us = cost_of_schedule(w, wires[i]);
        if (w->rank == 0)
            printf("    launch: %s %.1f us, the same calls of NCCL %.1f us\n", wires[i], us,
                   bare_us);
        expect(w, us - bare_us <= BOUND_US, "%s: %.1f us over %.1f us", wires[i], us - bare_us,
               bare_us);
    }
}
