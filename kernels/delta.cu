/*
 * delta.cu: `delta` on the GPU: the exclusive or of the data with those of the call before, and the
 * data of this call put aside.
 *
 *     bytes moved a raw byte:   4, each way: data, state, result, next state
 */
#include "kernels/staged.cuh"

namespace {

#define THREADS     256u
#define MOST_BLOCKS 4096u

template <class W> struct delta_args {
    const W *from, *now;
    W *to, *next;
    uint64_t words;
    bool pull; /* what comes out is the data */
    const uint32_t *status;
};

__device__ __forceinline__ uint4 exclusive_or(uint4 a, uint4 b) {
    return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w);
}

template <class W> __device__ __forceinline__ W exclusive_or(W a, W b) {
    return (W)(a ^ b);
}

template <class W> __global__ void __launch_bounds__(THREADS) delta_kernel(delta_args<W> d) {
    if (d.pull && *d.status != 0)
        return;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < d.words;
         i += (uint64_t)gridDim.x * THREADS) {
        W in = d.from[i], out = d.now != NULL ? exclusive_or(in, d.now[i]) : in;

        d.to[i] = out;
        if (d.next != NULL)
            d.next[i] = d.pull ? out : in;
    }
}

/* A state is a multiple of 16 bytes. */
__global__ void pad_kernel(unsigned char *next, uint64_t bytes) {
    if (threadIdx.x < (0u - (uint32_t)bytes) % 16)
        next[bytes + threadIdx.x] = 0;
}

template <class W>
cudaError_t launch(const gpu_stage &g, uint64_t first, uint64_t bytes, const void *from, void *to,
                   bool pull) {
    uint64_t words = bytes / sizeof(W), at = first / sizeof(W);
    uint64_t each = (words + THREADS - 1) / THREADS;
    uint32_t blocks = (uint32_t)(each < MOST_BLOCKS ? each : MOST_BLOCKS);
    delta_args<W> d = {(const W *)from + at,
                       g.now != NULL ? (const W *)g.now + at : NULL,
                       (W *)to + at,
                       g.next != NULL ? (W *)g.next + at : NULL,
                       words,
                       pull,
                       g.status};

    if (words == 0)
        return cudaSuccess;
    delta_kernel<W><<<blocks, THREADS, 0, g.stream>>>(d);
    return cudaGetLastError();
}

/* Elements at a time. */
cudaError_t launch_elements(const gpu_stage &g, uint64_t first, uint64_t bytes, const void *from,
                            void *to, bool pull) {
    switch (dtype_bytes(g.t)) {
    case 1:
        return launch<uint8_t>(g, first, bytes, from, to, pull);
    case 2:
        return launch<uint16_t>(g, first, bytes, from, to, pull);
    case 4:
        return launch<uint32_t>(g, first, bytes, from, to, pull);
    default:
        return launch<uint64_t>(g, first, bytes, from, to, pull);
    }
}

/* Sixteen bytes at a time where all lie so. */
cudaError_t combine(const gpu_stage &g, const void *from, void *to, bool pull) {
    uint64_t bytes = g.elems * dtype_bytes(g.t);
    uint64_t whole = (((uintptr_t)from | (uintptr_t)to) & 15) == 0 ? bytes / 16 * 16 : 0;
    cudaError_t e = launch<uint4>(g, 0, whole, from, to, pull);

    if (e == cudaSuccess)
        e = launch_elements(g, whole, bytes - whole, from, to, pull);
    if (e == cudaSuccess && g.next != NULL && bytes % 16 != 0) {
        pad_kernel<<<1, 32, 0, g.stream>>>(g.next, bytes);
        e = cudaGetLastError();
    }
    return e;
}

} // namespace

cudaError_t delta_push(const gpu_stage &g, const void *src, void *to) {
    return combine(g, src, to, false);
}

cudaError_t delta_pull(const gpu_stage &g, const void *from, void *dst) {
    return combine(g, from, dst, true);
}
