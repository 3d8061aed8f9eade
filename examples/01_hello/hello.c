/*
 * hello.c: four ranks on one GPU sum what they have. See README.md.
 *
 * usage: hello [SCHEDULE]      schedules/allreduce_twoshot.slc if none is given
 */
#include "examples/example.h"

#include <cuda_runtime_api.h>

#define COUNT 1000000

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "schedules/allreduce_twoshot.slc";

    /* the schedule, for four ranks and a million floats */
    sluice_options options = SLUICE_OPTIONS_INIT;
    sluice_plan *plan;
    options.ranks = RANKS;
    options.dtype = SLUICE_F32;
    options.op = SLUICE_SUM;
    options.count = COUNT;
    options.gpu_only = 1;
    MUST(sluice_compile_file(&plan, path, &options), sluice_diagnostics(plan));

    /* each rank's memory: rank r has r + 1 everywhere */
    const size_t bytes = COUNT * sizeof(float);
    float *host = malloc(bytes);
    void *send[RANKS], *recv[RANKS];
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)(r + 1);
        CUDA(cudaMalloc(&send[r], bytes));
        CUDA(cudaMalloc(&recv[r], bytes));
        CUDA(cudaMemcpy(send[r], host, bytes, cudaMemcpyHostToDevice));
    }

    /* the graph, launched once */
    sluice_comm *world;
    sluice_graph *graph;
    uint64_t ticket;
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(sluice_comm_local(&world, RANKS), "");
    MUST(sluice_graph_create(&graph, plan, world, (const void *const *)send, recv, NULL),
         sluice_graph_error(graph));
    MUST(sluice_graph_launch(graph, stream, &ticket), sluice_graph_error(graph));
    MUST(sluice_graph_wait(graph, ticket), sluice_graph_error(graph));
    CUDA(cudaStreamSynchronize(stream));

    int wrong = 0;
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaMemcpy(host, recv[r], bytes, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; i++)
            wrong += host[i] != 1.0f + 2.0f + 3.0f + 4.0f;
    }
    printf("%d ranks, %d values each: %d wrong\n", RANKS, COUNT, wrong);

    sluice_graph_destroy(graph);
    sluice_comm_destroy(world);
    sluice_destroy(plan);
    CUDA(cudaStreamDestroy(stream));
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaFree(send[r]));
        CUDA(cudaFree(recv[r]));
    }
    free(host);
    return wrong != 0;
}
