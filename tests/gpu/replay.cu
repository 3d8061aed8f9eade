/*
 * replay.cu: a training step without a host: inputs that change with a counter on the device, and a
 * judge that knows what the two-shot all-reduce of bf16 makes of them.
 */
#include <cstdint>
#include <cuda_runtime.h>

#include "tests/gpu/replay.h"

namespace {

__device__ __forceinline__ uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Every fourth step or so, one rank has exponents that do not pack. */
__device__ __forceinline__ bool is_hard(uint64_t step, uint32_t rank, uint32_t ranks) {
    uint64_t z = mix(step * 7919);

    return z % 4 == 0 && z / 4 % ranks == rank;
}

__device__ __forceinline__ uint16_t value(uint64_t step, uint32_t rank, uint32_t ranks,
                                          uint64_t i) {
    uint64_t z = mix(mix(step * 131 + rank) + i);
    uint32_t exponent = is_hard(step, rank, ranks)
                            ? 70 + (uint32_t)(z >> 32) % 110
                            : 120 - (uint32_t)__clzll((long long)(z | 1)) % 6;

    return (uint16_t)((z & 0x807f) | exponent << 7);
}

__global__ void fill_kernel(uint16_t *send, uint64_t count, uint32_t rank, uint32_t ranks,
                            const replay_state *s) {
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * blockDim.x)
        send[i] = value(s->step, rank, ranks, i);
}

__device__ __forceinline__ float number(uint16_t bits) {
    return __uint_as_float((uint32_t)bits << 16);
}

/* The owner's operand first, then those of the others in their order. */
__device__ __forceinline__ uint16_t sum_of(uint64_t step, uint32_t ranks, uint32_t owner,
                                           uint64_t i) {
    float sum = number(value(step, owner, ranks, i));
    uint32_t bits;

    for (uint32_t r = 0; r < ranks; r++)
        if (r != owner)
            sum = __fadd_rn(sum, number(value(step, r, ranks, i)));
    bits = __float_as_uint(sum);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__global__ void judge_kernel(const uint16_t *recv, uint64_t count, uint32_t ranks, replay_state *s,
                             const uint32_t *flag) {
    const uint64_t chunk = count / ranks;

    if (*flag != 0)
        return;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * blockDim.x)
        if (recv[i] != sum_of(s->step, ranks, (uint32_t)(i / chunk), i))
            atomicAdd((unsigned long long *)&s->wrong, 1ull);
}

__global__ void step_kernel(replay_state *s, uint32_t ranks, const uint32_t *flag) {
    bool hard = false;

    for (uint32_t r = 0; r < ranks; r++)
        hard |= is_hard(s->step, r, ranks);
    s->flagged += *flag != 0;
    s->mistaken += (*flag != 0) != hard;
    s->step++;
}

} // namespace

extern "C" cudaError_t replay_fill(void *send_dev, uint64_t count, uint32_t rank, uint32_t ranks,
                                   const struct replay_state *s, cudaStream_t stream) {
    fill_kernel<<<64, 256, 0, stream>>>((uint16_t *)send_dev, count, rank, ranks, s);
    return cudaGetLastError();
}

extern "C" cudaError_t replay_judge(const void *recv_dev, uint64_t count, uint32_t ranks,
                                    struct replay_state *s, const uint32_t *flag_dev,
                                    cudaStream_t stream) {
    judge_kernel<<<64, 256, 0, stream>>>((const uint16_t *)recv_dev, count, ranks, s, flag_dev);
    return cudaGetLastError();
}

extern "C" cudaError_t replay_step(struct replay_state *s, uint32_t ranks, const uint32_t *flag_dev,
                                   cudaStream_t stream) {
    step_kernel<<<1, 1, 0, stream>>>(s, ranks, flag_dev);
    return cudaGetLastError();
}
