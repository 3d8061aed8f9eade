/*
 * lanes.hpp: CUDA C++ on a CPU, enough of it for kernels whose lanes work together: every thread of
 * a block is a fiber of its own, and what a warp or a block does at once is a meeting of fibers.
 * Which of them goes on after a meeting is drawn at random, so that what lacks one comes out wrong
 * sooner or later; addresses and alignment are for the sanitizers. lanes.py translates the kernels.
 *
 * Blocks run one after the other. So nothing is said about blocks that wait for each other, about
 * the order in which memory is seen, or about speed.
 */
#ifndef SLUICE_TESTS_GPU_LANES_HPP
#define SLUICE_TESTS_GPU_LANES_HPP

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__      static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__

using std::max;
using std::min;

struct lanes_index {
    uint32_t x;
};
extern lanes_index threadIdx, blockIdx, blockDim, gridDim;
extern unsigned char *lanes_shared; /* dynamic shared memory of the block */

/* Runs the body for every thread of every block. */
void lanes_launch(uint32_t grid, uint32_t block, size_t shared_bytes,
                  const std::function<void()> &body);
void lanes_meet_block();
void lanes_meet_warp();
/* Meets the warp and shows what every lane brought; valid until the meeting after the next. */
const uint64_t *lanes_exchange(uint64_t mine);

/* What lanes.py puts in the place of assembly. */
uint32_t lanes_sum_up_to(uint32_t mine);
float lanes_widen_half(uint16_t bits);
uint16_t lanes_round_half(float f);
uint16_t lanes_round_bfloat(float f);

inline uint32_t lane_number() {
    return threadIdx.x % 32;
}

/* ---- meetings ---- */

inline void __syncthreads() {
    lanes_meet_block();
}

inline int __syncthreads_or(int mine) {
    static int any;

    lanes_meet_block();
    any = 0;
    lanes_meet_block();
    any |= mine != 0;
    lanes_meet_block();
    return any;
}

inline void __syncwarp() {
    lanes_meet_warp();
}

inline void __threadfence() {}

template <class T> T lanes_take(const uint64_t *shown, uint32_t lane) {
    T taken;

    memcpy(&taken, &shown[lane], sizeof taken);
    return taken;
}

template <class T> T __shfl_sync(uint32_t, T mine, uint32_t from) {
    uint64_t bits = 0;

    memcpy(&bits, &mine, sizeof mine);
    return lanes_take<T>(lanes_exchange(bits), from % 32);
}

/* The bits of the lanes whose number satisfies `is`. */
template <class Is> uint32_t lanes_where(uint64_t mine, Is is) {
    const uint64_t *shown = lanes_exchange(mine);
    uint32_t bits = 0;

    for (uint32_t l = 0; l < 32; l++)
        bits |= (is(shown[l]) ? 1u : 0u) << l;
    return bits;
}

inline uint32_t __ballot_sync(uint32_t, int mine) {
    return lanes_where(mine != 0, [](uint64_t its) { return its != 0; });
}

inline int __any_sync(uint32_t, int mine) {
    return __ballot_sync(0, mine) != 0;
}

inline int __all_sync(uint32_t, int mine) {
    return __ballot_sync(0, mine) == 0xffffffffu;
}

inline uint32_t __match_any_sync(uint32_t, uint32_t mine) {
    return lanes_where(mine, [=](uint64_t its) { return its == mine; });
}

template <class Join> uint32_t lanes_joined(uint32_t mine, Join join) {
    const uint64_t *shown = lanes_exchange(mine);
    uint32_t all = (uint32_t)shown[0];

    for (uint32_t l = 1; l < 32; l++)
        all = join(all, (uint32_t)shown[l]);
    return all;
}

inline uint32_t __reduce_add_sync(uint32_t, uint32_t mine) {
    return lanes_joined(mine, [](uint32_t a, uint32_t b) { return a + b; });
}

inline uint32_t __reduce_max_sync(uint32_t, uint32_t mine) {
    return lanes_joined(mine, [](uint32_t a, uint32_t b) { return max(a, b); });
}

inline uint32_t __reduce_or_sync(uint32_t, uint32_t mine) {
    return lanes_joined(mine, [](uint32_t a, uint32_t b) { return a | b; });
}

/* ---- memory ---- */

inline uint32_t atomicAdd(uint32_t *at, uint32_t n) {
    uint32_t was = *at;

    *at += n;
    return was;
}

inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long n) {
    unsigned long long was = *at;

    *at += n;
    return was;
}

inline uint32_t atomicOr(uint32_t *at, uint32_t bits) {
    uint32_t was = *at;

    *at |= bits;
    return was;
}

template <class T> T __ldcs(const T *at) {
    return *at;
}

template <class T> void __stcs(T *at, T value) {
    *at = value;
}

inline size_t __cvta_generic_to_shared(const void *p) {
    return (size_t)p;
}

/* ---- numbers ---- */

inline int __popc(uint32_t bits) {
    return __builtin_popcount(bits);
}

inline int __clz(uint32_t bits) {
    return bits == 0 ? 32 : __builtin_clz(bits);
}

inline int __ffs(uint32_t bits) {
    return __builtin_ffs((int)bits);
}

inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t by) {
    return (uint32_t)(((uint64_t)high << 32 | low) >> by % 32);
}

/* Of both halves. */
inline uint32_t __vminu2(uint32_t a, uint32_t b) {
    return min(a >> 16, b >> 16) << 16 | min(a & 0xffff, b & 0xffff);
}

inline uint32_t __vmaxu2(uint32_t a, uint32_t b) {
    return max(a >> 16, b >> 16) << 16 | max(a & 0xffff, b & 0xffff);
}

inline float __uint_as_float(uint32_t bits) {
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

inline uint32_t __float_as_uint(float f) {
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

inline int32_t __float_as_int(float f) {
    return (int32_t)__float_as_uint(f);
}

inline float __fadd_rn(float a, float b) {
    return a + b;
}

inline float __fsub_rn(float a, float b) {
    return a - b;
}

inline float __fmul_rn(float a, float b) {
    return a * b;
}

inline float __fdiv_rn(float a, float b) {
    return a / b;
}

/* Of positive numbers. */
inline float __fdiv_rz(float a, float b) {
    double exact = (double)a / b;
    float near = (float)exact;

    return (double)near > exact ? __uint_as_float(__float_as_uint(near) - 1) : near;
}

#endif
