/*
 * train.c: a loop as a training loop is: every step new gradients, one replay of the graph, other work
 * while it runs, and the optimizer behind the wait. See README.md.
 *
 * usage: train [STEPS]
 */
#include "examples/example.h"

#include <cuda_runtime_api.h>
#include <string.h>

#define COUNT   (4 << 20)
#define BATCHES 4 /* different gradients, in turn */

/* bf16 numbers like gradients: most near zero, both signs. */
static void make_gradients(uint16_t *to, uint64_t seed) {
    for (int i = 0; i < COUNT; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        float f = 0;
        for (int k = 0; k < 4; k++)
            f += (float)(seed >> (16 + 12 * k) & 0xfff) / 4096.0f - 0.5f;
        uint32_t bits;
        f *= 0.01f;
        memcpy(&bits, &f, sizeof bits);
        to[i] = (uint16_t)(bits >> 16);
    }
}

struct trainer {
    sluice_plan *plan;
    sluice_comm *world;
    sluice_graph *graph;
    cudaStream_t stream;
    void *gradients[RANKS], *sums[RANKS];
    void *batches[BATCHES]; /* on the device */
};

static void set_up(struct trainer *t) {
    const size_t bytes = COUNT * sizeof(uint16_t);
    sluice_options options = SLUICE_OPTIONS_INIT;
    options.ranks = RANKS;
    options.dtype = SLUICE_BF16;
    options.op = SLUICE_AVG;
    options.count = COUNT;
    options.gpu_only = 1;
    MUST(sluice_compile_file(&t->plan, "schedules/allreduce_twoshot.slc", &options),
         sluice_diagnostics(t->plan));

    uint16_t *host = malloc(bytes);
    for (int b = 0; b < BATCHES; b++) {
        make_gradients(host, (uint64_t)b);
        CUDA(cudaMalloc(&t->batches[b], bytes));
        CUDA(cudaMemcpy(t->batches[b], host, bytes, cudaMemcpyHostToDevice));
    }
    free(host);
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaMalloc(&t->gradients[r], bytes));
        CUDA(cudaMalloc(&t->sums[r], bytes));
    }
    CUDA(cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking));
    MUST(sluice_comm_local(&t->world, RANKS), "");
    MUST(sluice_graph_create(&t->graph, t->plan, t->world, (const void *const *)t->gradients,
                             t->sums, NULL),
         sluice_graph_error(t->graph));
}

static void step(struct trainer *t, int number) {
    uint64_t ticket;
    for (int r = 0; r < RANKS; r++) /* the backward pass */
        CUDA(cudaMemcpyAsync(t->gradients[r], t->batches[(number + r) % BATCHES],
                             COUNT * sizeof(uint16_t), cudaMemcpyDeviceToDevice, t->stream));
    MUST(sluice_graph_launch(t->graph, t->stream, &ticket), sluice_graph_error(t->graph));
    /* here the host prepares the next batch, and other streams compute */
    MUST(sluice_graph_wait(t->graph, ticket), sluice_graph_error(t->graph));
    /* here the optimizer is enqueued on the stream: it finds the right sums */
}

static void show(struct trainer *t, int number) {
    sluice_graph_stats s;
    MUST(sluice_graph_get_stats(t->graph, &s), sluice_graph_error(t->graph));
    printf("step %3d: %.3f of the bytes travel, %llu adaptations, %llu repairs\n", number,
           (double)s.wire_bytes / (double)s.raw_bytes, (unsigned long long)s.adaptations,
           (unsigned long long)s.repairs);
}

static void tear_down(struct trainer *t) {
    sluice_graph_destroy(t->graph);
    sluice_comm_destroy(t->world);
    sluice_destroy(t->plan);
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaFree(t->gradients[r]));
        CUDA(cudaFree(t->sums[r]));
    }
    for (int b = 0; b < BATCHES; b++)
        CUDA(cudaFree(t->batches[b]));
    CUDA(cudaStreamDestroy(t->stream));
}

int main(int argc, char **argv) {
    struct trainer t = {0};
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    set_up(&t);
    for (int i = 0; i < steps; i++) {
        step(&t, i);
        if (i < 4 || i == steps - 1)
            show(&t, i);
    }
    CUDA(cudaStreamSynchronize(t.stream));
    tear_down(&t);
    return 0;
}
