/*
 * test_gpu_graph.c: launchers inside a captured graph, replayed with data that changes; encodes that
 * run at the same time; and encodes on a device that other kernels hold almost whole.
 */
#include "tests/gpu/gpu_test.h"

#include <time.h>

/* chunk + piece -> chunk and piece, decoded again: every launcher once. */
void test_graphs(struct gpu_test *g) {
    uint64_t elems = 50021, bytes = 2 * elems, need, sum_need;
    uint64_t worst = codec_worst_bytes(&g->pack, DTYPE_BF16, elems);
    void *own = host_alloc(bytes), *other = host_alloc(bytes), *slot = host_alloc(worst);
    void *got = host_alloc(worst), *own_dev = dev_alloc(bytes), *other_dev = dev_alloc(bytes);
    void *slot_dev = dev_alloc(worst), *sum_slot_dev = dev_alloc(worst);
    void *sum_dev = dev_alloc(bytes), *back_dev = dev_alloc(bytes);
    struct gpu_operand in[2] = {{GPU_CHUNK, own_dev, 0, codec_none()},
                                {GPU_PIECE, slot_dev, worst, g->pack}};
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CUDA(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeGlobal));
    CUDA(gpu_encode(&g->pack, DTYPE_BF16, other_dev, elems, slot_dev, worst, g->workspace_dev,
                    g->status_dev, g->stream));
    CUDA(gpu_combine(DTYPE_BF16, REDOP_SUM, in, 2, elems, 0, NULL, sum_dev, &g->pack, sum_slot_dev,
                     worst, g->workspace_dev, g->status_dev, g->stream));
    CUDA(gpu_decode(&g->pack, DTYPE_BF16, sum_slot_dev, worst, elems, back_dev, g->status_dev,
                    g->stream));
    CUDA(cudaStreamEndCapture(g->stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (uint64_t replay = 0; replay < (g->small ? 5u : 100u); replay++) {
        fill(DTYPE_BF16, (enum pattern)(replay % PATTERN_COUNT), own, elems, 2 * replay);
        fill(DTYPE_BF16, (enum pattern)(replay / 2 % PATTERN_COUNT), other, elems, 2 * replay + 1);
        to_dev(own_dev, own, bytes);
        to_dev(other_dev, other, bytes);
        CUDA(cudaDeviceSynchronize());
        CUDA(cudaGraphLaunch(exec, g->stream));
        check(g, take_status(g) == 0, "replay %llu: status", (unsigned long long)replay);
        codec_encode(&g->pack, DTYPE_BF16, other, elems, slot, worst, &need, NULL);
        to_host(got, slot_dev, need);
        check(g, memcmp(got, slot, need) == 0, "replay %llu: encoding", (unsigned long long)replay);
        reduce_pair(DTYPE_BF16, REDOP_SUM, own, other, elems);
        to_host(got, sum_dev, bytes);
        check(g, memcmp(got, own, bytes) == 0, "replay %llu: sum", (unsigned long long)replay);
        codec_encode(&g->pack, DTYPE_BF16, own, elems, slot, worst, &sum_need, NULL);
        to_host(got, sum_slot_dev, sum_need);
        check(g, memcmp(got, slot, sum_need) == 0, "replay %llu: encoding of the sum",
              (unsigned long long)replay);
        to_host(got, back_dev, bytes);
        check(g, memcmp(got, own, bytes) == 0, "replay %llu: decoded sum",
              (unsigned long long)replay);
    }
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    dev_free(back_dev);
    dev_free(sum_dev);
    dev_free(sum_slot_dev);
    dev_free(slot_dev);
    dev_free(other_dev);
    dev_free(own_dev);
    free(got);
    free(slot);
    free(other);
    free(own);
}

/* ---- side by side ---- */

#define SIDES 2

struct side {
    enum dtype t;
    uint64_t elems, worst, need;
    unsigned char *want;
    void *src_dev, *slot_dev, *workspace_dev;
    cudaStream_t stream;
};

static struct side side_open(struct gpu_test *g, enum dtype t, uint64_t elems) {
    struct side s = {.t = t, .elems = elems, .worst = codec_worst_bytes(&g->pack, t, elems)};
    uint64_t workspace_bytes = gpu_workspace_bytes(&g->pack, t, elems);
    void *src = host_alloc(elems * dtype_bytes(t));

    fill(t, PATTERN_BELL, src, elems, elems);
    s.want = host_alloc(s.worst);
    codec_encode(&g->pack, t, src, elems, s.want, s.worst, &s.need, NULL);
    s.src_dev = dev_copy(src, elems * dtype_bytes(t));
    s.slot_dev = dev_alloc(s.worst);
    s.workspace_dev = dev_alloc(workspace_bytes);
    CUDA(cudaMemset(s.workspace_dev, 0, workspace_bytes));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    free(src);
    return s;
}

static void side_encode(struct gpu_test *g, const struct side *s) {
    CUDA(gpu_encode(&g->pack, s->t, s->src_dev, s->elems, s->slot_dev, s->worst, s->workspace_dev,
                    g->status_dev, s->stream));
}

static void side_check(struct gpu_test *g, const struct side *s, const char *what) {
    unsigned char *got = host_alloc(s->need);

    to_host(got, s->slot_dev, s->need);
    check(g, memcmp(got, s->want, s->need) == 0, "%s: other bytes", what);
    CUDA(cudaMemset(s->slot_dev, 0, s->need));
    CUDA(cudaDeviceSynchronize());
    free(got);
}

static void side_close(struct side *s) {
    CUDA(cudaStreamDestroy(s->stream));
    dev_free(s->workspace_dev);
    dev_free(s->slot_dev);
    dev_free(s->src_dev);
    free(s->want);
}

/* Waits for a stream for some seconds at most. */
static bool finishes(cudaStream_t stream) {
    struct timespec pause = {0, 1000000};

    for (int ms = 0; ms < 10000; ms++) {
        if (cudaStreamQuery(stream) == cudaSuccess)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static void sides_open(struct gpu_test *g, struct side sides[SIDES]) {
    uint64_t elems = g->small ? 40000 : 1800000;

    sides[0] = side_open(g, DTYPE_BF16, elems);
    sides[1] = side_open(g, DTYPE_F32, elems);
}

void test_two_at_once(struct gpu_test *g) {
    struct side sides[SIDES];

    sides_open(g, sides);
    for (int round = 0; round < (g->small ? 2 : 50); round++) {
        for (int rep = 0; rep < 3; rep++)
            for (int i = 0; i < SIDES; i++)
                side_encode(g, &sides[i]);
        CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < SIDES; i++)
            side_check(g, &sides[i], "two at once");
    }
    check(g, take_status(g) == 0, "two at once: status");
    for (int i = 0; i < SIDES; i++)
        side_close(&sides[i]);
}

/* All multiprocessors but one are held: what is left makes progress with a few blocks. */
void test_busy(struct gpu_test *g) {
    struct cudaDeviceProp device;
    struct side sides[SIDES];
    cudaStream_t holder;
    uint32_t *go, *go_dev;

    sides_open(g, sides);
    CUDA(cudaGetDeviceProperties(&device, 0));
    CUDA(cudaStreamCreateWithFlags(&holder, cudaStreamNonBlocking));
    CUDA(cudaHostAlloc((void **)&go, sizeof *go, cudaHostAllocMapped));
    CUDA(cudaHostGetDevicePointer((void **)&go_dev, go, 0));
    *go = 0;
    CUDA(occupy((uint32_t)device.multiProcessorCount - 1, (uint32_t)device.sharedMemPerBlockOptin,
                go_dev, holder));
    for (int i = 0; i < SIDES; i++)
        side_encode(g, &sides[i]);
    for (int i = 0; i < SIDES; i++)
        check(g, finishes(sides[i].stream), "a busy device: encode %d does not end", i);
    check(g, cudaStreamQuery(holder) == cudaErrorNotReady, "the device was not busy");
    *(volatile uint32_t *)go = 1;
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < SIDES; i++)
        side_check(g, &sides[i], "a busy device");
    check(g, take_status(g) == 0, "a busy device: status");
    for (int i = 0; i < SIDES; i++)
        side_close(&sides[i]);
    CUDA(cudaFreeHost(go));
    CUDA(cudaStreamDestroy(holder));
}
