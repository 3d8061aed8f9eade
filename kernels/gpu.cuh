/*
 * gpu.cuh: what all kernels share: how a warp holds elements, how it reads and writes them, and
 * the arithmetic of a reduction. Internal to the .cu files.
 *
 * A warp works on a group of 1,024 elements. Lane l holds 32 of them, numbered i as its 16-byte
 * loads deliver them (FORMAT.md draws it):
 *
 *     16-bit types   element (i / 8) * 256 + l * 8 + i % 8        four loads
 *     f32            element (i / 4) * 128 + l * 4 + i % 4        eight loads
 */
#ifndef SLUICE_KERNELS_GPU_CUH
#define SLUICE_KERNELS_GPU_CUH

#include <cstdint>
#include <cuda_runtime.h>

#include "kernels/gpu.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "the kernels need compute capability 8.0: redux, cp.async, arithmetic on bf16"
#endif

#define ALL_LANES 0xffffffffu
#define GROUP     1024u

/* The element types that have kernels, as template parameters. */
template <enum dtype T> struct element {
    static constexpr uint32_t bytes = T == DTYPE_F32 ? 4 : 2;
    static constexpr uint32_t loads = T == DTYPE_F32 ? 8 : 4; /* of 16 bytes a lane */
    static constexpr uint32_t words = loads * 4;              /* registers a lane */
    static constexpr uint32_t group_bytes = GROUP * bytes;
    static constexpr uint32_t quads = group_bytes / 16;
    /* element number of a lane's i-th */
    static __device__ __forceinline__ uint32_t at(uint32_t lane, uint32_t i) {
        return T == DTYPE_F32 ? i / 4 * 128 + lane * 4 + i % 4 : i / 8 * 256 + lane * 8 + i % 8;
    }
};

/* A lane's share of a group, as loaded: element i in w[i] (f32), or in half i % 2 of w[i / 2]. */
template <enum dtype T> struct share { uint32_t w[element<T>::words]; };

__device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* The bits of a where the mask has ones, of b elsewhere. */
__device__ __forceinline__ uint32_t pick_bits(uint32_t mask, uint32_t a, uint32_t b) {
    uint32_t picked;

    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(picked) : "r"(mask), "r"(a), "r"(b));
    return picked;
}

/* Nibble i of the selector chooses byte i out of the eight of low and high; its bit 3 asks for
 * copies of the sign of that byte instead. */
__device__ __forceinline__ uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t selector) {
    uint32_t picked;

    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(picked) : "r"(low), "r"(high), "r"(selector));
    return picked;
}

/* ---- elements in memory ---- */

/* Reads count elements, the rest as zero bits. Any address that is aligned to the elements; whole
 * groups at multiples of 16 bytes are fast. */
template <enum dtype T>
__device__ __forceinline__ void read_elements(const void *from, uint32_t count, uint32_t lane,
                                              share<T> &s) {
    if (count == GROUP && ((uintptr_t)from & 15) == 0) {
#pragma unroll
        for (uint32_t j = 0; j < element<T>::loads; j++) {
            uint4 v = ((const uint4 *)from)[j * 32 + lane];

            s.w[4 * j] = v.x, s.w[4 * j + 1] = v.y, s.w[4 * j + 2] = v.z, s.w[4 * j + 3] = v.w;
        }
        return;
    }
#pragma unroll
    for (uint32_t k = 0; k < element<T>::words; k++) {
        if (T == DTYPE_F32) {
            uint32_t e = element<T>::at(lane, k);

            s.w[k] = e < count ? ((const uint32_t *)from)[e] : 0;
        } else {
            uint32_t e = element<T>::at(lane, 2 * k); /* and the one after it */
            uint32_t low = e < count ? ((const uint16_t *)from)[e] : 0;
            uint32_t high = e + 1 < count ? ((const uint16_t *)from)[e + 1] : 0;

            s.w[k] = low | high << 16;
        }
    }
}

template <enum dtype T>
__device__ __forceinline__ void write_elements(void *to, uint32_t count, uint32_t lane,
                                               const share<T> &s) {
    if (count == GROUP && ((uintptr_t)to & 15) == 0) {
#pragma unroll
        for (uint32_t j = 0; j < element<T>::loads; j++)
            __stcs((uint4 *)to + j * 32 + lane,
                   make_uint4(s.w[4 * j], s.w[4 * j + 1], s.w[4 * j + 2], s.w[4 * j + 3]));
        return;
    }
#pragma unroll
    for (uint32_t k = 0; k < element<T>::words; k++) {
        if (T == DTYPE_F32) {
            uint32_t e = element<T>::at(lane, k);

            if (e < count)
                ((uint32_t *)to)[e] = s.w[k];
        } else {
            uint32_t e = element<T>::at(lane, 2 * k);

            if (e < count)
                ((uint16_t *)to)[e] = (uint16_t)s.w[k];
            if (e + 1 < count)
                ((uint16_t *)to)[e + 1] = (uint16_t)(s.w[k] >> 16);
        }
    }
}

/* Brings what will be read soon into the L2 cache. Whole warp. */
__device__ __forceinline__ void prefetch_bytes(const unsigned char *from, uint32_t bytes,
                                               uint32_t lane) {
    for (uint32_t at = lane * 128; at < bytes; at += 32 * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
}

/* Elements from count on become zero bits. */
template <enum dtype T>
__device__ __forceinline__ void clear_missing(share<T> &s, uint32_t count, uint32_t lane) {
#pragma unroll
    for (uint32_t k = 0; k < element<T>::words; k++) {
        if (T == DTYPE_F32) {
            s.w[k] = element<T>::at(lane, k) < count ? s.w[k] : 0;
        } else {
            s.w[k] &= (element<T>::at(lane, 2 * k) < count ? 0xffffu : 0) |
                      (element<T>::at(lane, 2 * k + 1) < count ? 0xffff0000u : 0);
        }
    }
}

/* ---- arithmetic, as reduce.h defines it ---- */

#define F32_QUIET 0x7fc00000u

/* The canonical NaN of a 16-bit type. */
template <enum dtype T> constexpr uint32_t half_quiet = T == DTYPE_BF16 ? 0x7fc0u : 0x7e00u;

template <enum dtype T> __device__ __forceinline__ float low_value(uint32_t pair) {
    float f;

    if (T == DTYPE_BF16)
        return __uint_as_float(pair << 16);
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((uint16_t)pair));
    return f;
}

template <enum dtype T> __device__ __forceinline__ float high_value(uint32_t pair) {
    return T == DTYPE_BF16 ? __uint_as_float(pair & 0xffff0000u) : low_value<T>(pair >> 16);
}

/* Element i of a lane as a value. */
template <enum dtype T> __device__ __forceinline__ float value_at(const share<T> &s, uint32_t i) {
    if (T == DTYPE_F32)
        return __uint_as_float(s.w[i]);
    return i % 2 != 0 ? high_value<T>(s.w[i / 2]) : low_value<T>(s.w[i / 2]);
}

/* Two values to nearest even; a NaN becomes 0x7fff, which quiet_nans() makes canonical. */
template <enum dtype T> __device__ __forceinline__ uint32_t round_pair(float low, float high) {
    uint32_t pair;

    if (T == DTYPE_BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* Both halves, each the exact sum rounded once. That is what the sum in f32, rounded again, gives
 * too: 24 bits are at least twice the 8 or 11 of the type and two more, so the second rounding
 * never sees a tie that the first one made. */
template <enum dtype T> __device__ __forceinline__ uint32_t add_pairs(uint32_t a, uint32_t b) {
    uint32_t sum;

    if (T == DTYPE_BF16)
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80u), "r"(b));
    else
        asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

/* Makes every NaN the canonical one. Adding all up shows whether there is any: a NaN stays one. */
template <enum dtype T> __device__ __forceinline__ void quiet_nans(share<T> &s) {
    if constexpr (T == DTYPE_F32) {
        float even = 0, odd = 0;

#pragma unroll
        for (int k = 0; k < 32; k += 2) {
            even += __uint_as_float(s.w[k]);
            odd += __uint_as_float(s.w[k + 1]);
        }
        even += odd;
        if (even == even)
            return;
#pragma unroll
        for (int k = 0; k < 32; k++)
            s.w[k] = (s.w[k] & 0x7fffffffu) > 0x7f800000u ? F32_QUIET : s.w[k];
    } else {
        constexpr uint32_t infinity = T == DTYPE_BF16 ? 0x7f80u : 0x7c00u;
        uint32_t even = 0, odd = 0;

#pragma unroll
        for (int k = 0; k < 16; k += 2) {
            even = add_pairs<T>(even, s.w[k]);
            odd = add_pairs<T>(odd, s.w[k + 1]);
        }
        even = add_pairs<T>(even, odd) & 0x7fff7fffu;
        if ((even & 0xffffu) <= infinity && even >> 16 <= infinity)
            return;
#pragma unroll
        for (int k = 0; k < 16; k++) {
            uint32_t low = s.w[k] & 0xffffu, high = s.w[k] >> 16;

            low = (low & 0x7fffu) > infinity ? half_quiet<T> : low;
            high = (high & 0x7fffu) > infinity ? half_quiet<T> : high;
            s.w[k] = low | high << 16;
        }
    }
}

/* The bits as a number that orders like the value, -0 below +0. */
__device__ __forceinline__ int32_t ordered(float f) {
    int32_t bits = __float_as_int(f);

    return bits < 0 ? bits ^ 0x7fffffff : bits;
}

/* One operand more. An average adds. */
__device__ __forceinline__ float combine(enum redop op, float a, float b) {
    if (op == REDOP_SUM || op == REDOP_AVG)
        return __fadd_rn(a, b);
    float pick = (ordered(a) < ordered(b)) == (op == REDOP_MIN) ? a : b;

    return a != a || b != b ? __uint_as_float(F32_QUIET) : pick;
}

template <enum dtype T>
__device__ __forceinline__ void round_values(const float (&sum)[32], share<T> &s) {
#pragma unroll
    for (uint32_t k = 0; k < element<T>::words; k++) {
        if constexpr (T == DTYPE_F32)
            s.w[k] = __float_as_uint(sum[k]);
        else
            s.w[k] = round_pair<T>(sum[2 * k], sum[2 * k + 1]);
    }
    quiet_nans<T>(s);
}

/* s = the whole reduction of the operands s and b: combined, divided unless that is 0, rounded. */
template <enum dtype T>
__device__ __forceinline__ void reduce_two(enum redop op, float divide_by, share<T> &s,
                                           const share<T> &b) {
    if ((op == REDOP_SUM || op == REDOP_AVG) && divide_by == 0) {
#pragma unroll
        for (uint32_t k = 0; k < element<T>::words; k++) {
            if constexpr (T == DTYPE_F32)
                s.w[k] =
                    __float_as_uint(__fadd_rn(__uint_as_float(s.w[k]), __uint_as_float(b.w[k])));
            else
                s.w[k] = add_pairs<T>(s.w[k], b.w[k]);
        }
    } else {
#pragma unroll
        for (uint32_t k = 0; k < element<T>::words; k++) {
            constexpr uint32_t per = T == DTYPE_F32 ? 1 : 2;
            float low = combine(op, value_at<T>(s, per * k), value_at<T>(b, per * k));

            low = divide_by == 0 ? low : __fdiv_rn(low, divide_by);
            if constexpr (T == DTYPE_F32) {
                s.w[k] = __float_as_uint(low);
            } else {
                float high = combine(op, high_value<T>(s.w[k]), high_value<T>(b.w[k]));

                high = divide_by == 0 ? high : __fdiv_rn(high, divide_by);
                s.w[k] = round_pair<T>(low, high);
            }
        }
    }
    quiet_nans<T>(s);
}

/* ---- accumulators in memory: f32, four neighbours at a time ---- */

/* Accumulators of elements at(lane, 4 q) and the three after; q < 8. Missing ones read as 0. */
template <enum dtype T>
__device__ __forceinline__ float4 read_acc(const float *from, uint32_t count, uint32_t lane,
                                           uint32_t q) {
    uint32_t e = element<T>::at(lane, 4 * q);

    if (count == GROUP && ((uintptr_t)from & 15) == 0)
        return *(const float4 *)(from + e);
    return make_float4(e < count ? from[e] : 0, e + 1 < count ? from[e + 1] : 0,
                       e + 2 < count ? from[e + 2] : 0, e + 3 < count ? from[e + 3] : 0);
}

template <enum dtype T>
__device__ __forceinline__ void write_acc(float *to, uint32_t count, uint32_t lane, uint32_t q,
                                          float4 v) {
    uint32_t e = element<T>::at(lane, 4 * q);

    if (count == GROUP && ((uintptr_t)to & 15) == 0) {
        *(float4 *)(to + e) = v;
        return;
    }
    if (e < count)
        to[e] = v.x;
    if (e + 1 < count)
        to[e + 1] = v.y;
    if (e + 2 < count)
        to[e + 2] = v.z;
    if (e + 3 < count)
        to[e + 3] = v.w;
}

#endif
