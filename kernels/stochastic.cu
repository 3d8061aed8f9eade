/*
 * stochastic.cu: `quant(bits, block, stochastic)`, encoded. Its slot is that of the other quant
 * (quant.c), and so is its decoding. Eight neighbours a lane, since one drawing of random numbers
 * is for eight; a warp has as many blocks of the format as fit its 32 lanes.
 *
 *     bytes moved a value of b bytes:   b + bits / 8 + 4 / block
 */
#include "kernels/philox.h"
#include "kernels/staged.cuh"

namespace {

#define THREADS 256u
#define EACH    8u /* elements of a lane */
#define M_LEAST 0x1p-100f

struct seed_state {
    uint64_t seed, calls;
};

struct random_quant {
    enum dtype t;
    const void *src;
    uint64_t elems, first_elem, integers_at;
    uint32_t bits, block, blocks;
    unsigned char *slot;
    const seed_state *now;
    seed_state *next;
};

/* That the group of 1,024 with this element has on the wire. */
__device__ __forceinline__ uint32_t octets_of(const random_quant &p, uint64_t e) {
    uint64_t left = p.elems - e / GROUP * GROUP;

    return (uint32_t)((min((uint64_t)GROUP, left) + 31) / 32 * 4);
}

__device__ __forceinline__ uint32_t largest_of(const float (&v)[EACH]) {
    uint32_t largest = 0;

#pragma unroll
    for (uint32_t j = 0; j < EACH; j++)
        largest = max(largest, __float_as_uint(v[j]) & 0x7fffffffu);
    return largest;
}

/* Over the lanes of a block, of which this one is number `octet` of `lanes`. */
__device__ __forceinline__ uint32_t largest_in(uint32_t mine, uint32_t lane, uint32_t octet,
                                               uint32_t lanes) {
#pragma unroll
    for (uint32_t d = 16; d != 0; d /= 2) {
        uint32_t other = __shfl_sync(ALL_LANES, mine, (lane + d) % 32);

        mine = octet + d < lanes ? max(mine, other) : mine;
    }
    return __shfl_sync(ALL_LANES, mine, lane - octet);
}

/* The largest integer not above x + random, within q_max of 0. */
__device__ __forceinline__ int32_t cut(float x, uint32_t bits, float q_max) {
    float random = (float)(2 * bits + 1) * 0x1p-17f, y = __fadd_rn(x, random);
    int32_t q = (int32_t)y, most = (int32_t)q_max;

    q -= (float)q > y ? 1 : 0;
    return max(min(q, most), -most);
}

__device__ __forceinline__ void quantise(const random_quant &p, const seed_state &state,
                                         const float (&v)[EACH], uint64_t e, float m,
                                         int32_t (&q)[EACH]) {
    const float q_max = p.bits == 8 ? 127.0f : p.bits == 6 ? 31.0f : 7.0f;
    const float inverse = __fdiv_rn(q_max, m);
    const uint64_t index = (p.first_elem + e) / EACH;
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)state.calls,
                                 (uint32_t)(state.calls >> 32)};
    const uint32_t key[2] = {(uint32_t)state.seed, (uint32_t)(state.seed >> 32)};
    uint32_t words[4];

    philox(counter, key, words);
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++)
        q[j] = cut(__fmul_rn(v[j], inverse), words[j / 2] >> 16 * (j % 2) & 0xffffu, q_max);
}

/* ---- the bytes of eight ---- */

__device__ __forceinline__ void write_eights(const random_quant &p, uint64_t e,
                                             const int32_t (&q)[EACH]) {
    unsigned char *to = p.slot + p.integers_at + e;

#pragma unroll
    for (uint32_t j = 0; j < EACH; j++)
        if (e + j < p.elems)
            to[j] = (unsigned char)q[j];
}

__device__ __forceinline__ void write_fours(const random_quant &p, uint64_t e,
                                            const int32_t (&q)[EACH]) {
    unsigned char *to = p.slot + p.integers_at + e / 2;

#pragma unroll
    for (uint32_t j = 0; j < EACH; j += 2)
        if (e + j < p.elems)
            to[j / 2] = (unsigned char)((q[j] & 15) | (q[j + 1] & 15) << 4);
}

__device__ __forceinline__ void write_sixes(const random_quant &p, uint64_t e,
                                            const int32_t (&q)[EACH]) {
    uint32_t octets = octets_of(p, e), lanes = octets / 4, octet = (uint32_t)(e % GROUP) / EACH;
    uint32_t row = octet / lanes, lane = octet % lanes, low = 0, high = 0;
    unsigned char *to = p.slot + p.integers_at + e / GROUP * (GROUP / 4 * 3);

    if (octet >= octets)
        return;
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        low |= ((uint32_t)q[j] & 15) << 4 * j;
        high |= ((uint32_t)q[j] >> 4 & 3) << 2 * j;
    }
    ((uint32_t *)to)[4 * lane + row] = low;
    ((uint16_t *)(to + 16 * lanes))[4 * lane + row] = (uint16_t)high;
}

/* ---- the kernel ---- */

__global__ void __launch_bounds__(THREADS) stochastic_kernel(random_quant p) {
    const uint32_t lane = threadIdx.x % 32, lanes = p.block / EACH, per = 32 / lanes;
    const uint32_t octet = lane % lanes, mine = lane / lanes;
    const uint64_t warp = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    const uint64_t block = warp * per + mine, e = block * p.block + octet * EACH;
    const bool there = mine < per && block < p.blocks;
    seed_state state = {0, 0};
    float v[EACH];
    int32_t q[EACH] = {0, 0, 0, 0, 0, 0, 0, 0};

    if (p.now != NULL)
        state = *p.now;
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++)
        v[j] = there && e + j < p.elems ? read_value(p.t, p.src, e + j) : 0.0f;

    uint32_t largest = largest_in(largest_of(v), lane, octet, lanes);
    float m = __uint_as_float(largest), scale = 0;

    if (largest >= 0x7f800000u) {
        scale = __uint_as_float(F32_QUIET);
    } else if (m >= M_LEAST) {
        scale = __fdiv_rz(m, p.bits == 8 ? 127.0f : p.bits == 6 ? 31.0f : 7.0f);
        quantise(p, state, v, e, m, q);
    }
    if (there && octet == 0)
        ((float *)p.slot)[block] = scale;
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++)
        q[j] = e + j < p.elems ? q[j] : 0;
    if (there && p.bits == 8)
        write_eights(p, e, q);
    else if (there && p.bits == 4)
        write_fours(p, e, q);
    else if (there && e / GROUP * GROUP < p.elems)
        write_sixes(p, e, q);
    if (blockIdx.x == 0 && 4 * ((uint64_t)p.blocks + threadIdx.x) < p.integers_at)
        ((float *)p.slot)[p.blocks + threadIdx.x] = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0 && p.next != NULL)
        *p.next = {state.seed, state.calls + 1};
}

} // namespace

cudaError_t stochastic_push(const gpu_stage &g, const void *src, void *slot) {
    uint32_t block = (uint32_t)g.s->params[1], per = THREADS / 32 * (32 / (block / EACH));
    uint64_t blocks = (g.elems + block - 1) / block;
    random_quant p = {g.t,
                      src,
                      g.elems,
                      g.first_elem,
                      (4 * blocks + 15) / 16 * 16,
                      (uint32_t)g.s->params[0],
                      block,
                      (uint32_t)blocks,
                      (unsigned char *)slot,
                      (const seed_state *)g.now,
                      (seed_state *)g.next};

    stochastic_kernel<<<(uint32_t)((blocks + per - 1) / per), THREADS, 0, g.stream>>>(p);
    return cudaGetLastError();
}
