/*
 * users_graph.c: a collective inside a graph of your own, replayed without the host in between. See
 * README.md.
 */
#include "examples/example.h"

#include <cuda_runtime_api.h>

#define COUNT   (1 << 20)
#define REPLAYS 100

/* One step: gradients in, the collective, the results and its flag out. */
static cudaGraphExec_t capture(sluice_graph *collective, cudaStream_t stream, float *const *host,
                               void *const *send, void *const *recv, uint32_t *flag) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    uint64_t ticket;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int r = 0; r < RANKS; r++)
        CUDA(cudaMemcpyAsync(send[r], host[r], COUNT * sizeof(float), cudaMemcpyHostToDevice,
                             stream));
    MUST(sluice_graph_enqueue(collective, stream, &ticket), sluice_graph_error(collective));
    CUDA(cudaMemcpyAsync(flag, sluice_graph_flag(collective), sizeof *flag, cudaMemcpyDeviceToHost,
                         stream)); /* a real step skips its optimizer where this is not 0 */
    for (int r = 0; r < RANKS; r++)
        CUDA(cudaMemcpyAsync(host[r], recv[r], COUNT * sizeof(float), cudaMemcpyDeviceToHost,
                             stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return exec;
}

int main(void) {
    sluice_options options = SLUICE_OPTIONS_INIT;
    sluice_graph_options graph_options = SLUICE_GRAPH_OPTIONS_INIT;
    sluice_plan *plan;
    sluice_comm *world;
    sluice_graph *collective;
    cudaStream_t stream;
    float *host[RANKS];
    uint32_t *flag;
    void *send[RANKS], *recv[RANKS];

    options.ranks = RANKS;
    options.dtype = SLUICE_F32;
    options.op = SLUICE_AVG;
    options.count = COUNT;
    options.gpu_only = 1;
    MUST(sluice_compile_file(&plan, "schedules/allreduce_ring.slc", &options),
         sluice_diagnostics(plan));
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaMallocHost((void **)&host[r], COUNT * sizeof(float)));
        CUDA(cudaMalloc(&send[r], COUNT * sizeof(float)));
        CUDA(cudaMalloc(&recv[r], COUNT * sizeof(float)));
        for (int i = 0; i < COUNT; i++)
            host[r][i] = (float)(r * COUNT + i % 1000);
    }
    CUDA(cudaMallocHost((void **)&flag, sizeof *flag));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    graph_options.mode = SLUICE_FLAGGED;
    MUST(sluice_comm_local(&world, RANKS), "");
    MUST(sluice_graph_create(&collective, plan, world, (const void *const *)send, recv,
                             &graph_options),
         sluice_graph_error(collective));
    cudaGraphExec_t exec = capture(collective, stream, host, send, recv, flag);
    sluice_graph_destroy(collective); /* the captured graph keeps what it needs */
    sluice_comm_destroy(world);
    sluice_destroy(plan);

    /* averages of averages: after the first replay nothing changes any more */
    for (int i = 0; i < REPLAYS; i++)
        CUDA(cudaGraphLaunch(exec, stream));
    CUDA(cudaStreamSynchronize(stream));
    int wrong = 0;
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < COUNT; i++)
            wrong += host[r][i] != (float)(1.5 * COUNT + i % 1000);
    printf("%d replays, %d values wrong, flag %u\n", REPLAYS, wrong, (unsigned)*flag);

    CUDA(cudaGraphExecDestroy(exec));
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaFreeHost(host[r]));
        CUDA(cudaFree(send[r]));
        CUDA(cudaFree(recv[r]));
    }
    CUDA(cudaFreeHost(flag));
    CUDA(cudaStreamDestroy(stream));
    return wrong != 0;
}
