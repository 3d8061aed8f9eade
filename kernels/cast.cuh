/*
 * cast.cuh: `cast` inside a warp: from a group of elements in registers to its part of the slot,
 * and back. cast.c says what the values are.
 */
#ifndef SLUICE_KERNELS_CAST_CUH
#define SLUICE_KERNELS_CAST_CUH

#include "kernels/wide.cuh"

/* ---- bytes: eight a lane and row, w[2 r] and w[2 r + 1] ---- */

__device__ __forceinline__ void read_bytes(const unsigned char *from, const span &at,
                                           uint32_t (&w)[8]) {
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        uint32_t e = wide_at(at.lane, 8 * r);
        uint2 v = make_uint2(0, 0);

        if (e + 8 <= at.count) {
            v = __ldcs((const uint2 *)(from + e));
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 8; j++)
                if (e + j < at.count)
                    (j < 4 ? v.x : v.y) |= (uint32_t)from[e + j] << j % 4 * 8;
        }
        w[2 * r] = v.x, w[2 * r + 1] = v.y;
    }
}

__device__ __forceinline__ void write_bytes(unsigned char *to, const span &at,
                                            const uint32_t (&w)[8]) {
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        uint32_t e = wide_at(at.lane, 8 * r);

        if (e + 8 <= at.count) {
            __stcs((uint2 *)(to + e), make_uint2(w[2 * r], w[2 * r + 1]));
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 8; j++)
                if (e + j < at.count)
                    to[e + j] = (unsigned char)(w[2 * r + j / 4] >> j % 4 * 8);
        }
    }
}

/* ---- cast: 16 bits ---- */

/* QUIET here and below: NaNs become canonical, as they must where no arithmetic follows. */
template <enum dtype FROM, enum dtype TO, bool QUIET = true>
__device__ __forceinline__ void convert(const share<FROM> &from, share<TO> &to) {
#pragma unroll
    for (uint32_t k = 0; k < 16; k++) {
        float low = value_at<FROM>(from, 2 * k), high = value_at<FROM>(from, 2 * k + 1);

        if constexpr (TO == DTYPE_F32)
            to.w[2 * k] = __float_as_uint(low), to.w[2 * k + 1] = __float_as_uint(high);
        else
            to.w[k] = round_pair<TO>(low, high);
    }
    if (QUIET)
        quiet_nans<TO>(to);
}

/* ---- cast: 8 bits ---- */

/* Two bytes to two f16, exactly; a NaN to a NaN. */
__device__ __forceinline__ uint32_t e4m3_pair(uint32_t bytes) {
    uint32_t pair;

#if __CUDA_ARCH__ >= 890
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((uint16_t)bytes));
#else
    uint32_t magnitude = (bytes & 0x7fu) << 7 | (bytes & 0x7f00u) << 15;

    /* the exponents of f16 are 8 larger: times 256, which is exact and minds the denormals */
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(magnitude), "r"(0x5c005c00u));
    pair |= (bytes & 0x7fu) == 0x7fu ? 0x7fffu : 0;
    pair |= (bytes & 0x7f00u) == 0x7f00u ? 0x7fff0000u : 0;
    pair |= (bytes & 0x80u) << 8 | (bytes & 0x8000u) << 16;
#endif
    return pair;
}

__device__ __forceinline__ uint32_t e5m2_pair(uint32_t bytes) {
    return __byte_perm(bytes, 0, 0x1404);
}

#if __CUDA_ARCH__ < 890
/* As half.h does it: M mantissa bits, bias B, the largest finite value, the sum with 2^(22 - B - M)
 * rounds denormals. */
template <bool E4M3> __device__ __forceinline__ uint32_t narrow_one(float f) {
    constexpr uint32_t cut = E4M3 ? 20 : 21, bias = E4M3 ? 120 : 112;
    constexpr float denormal = E4M3 ? 16384.0f : 128.0f;
    uint32_t u = __float_as_uint(f), magnitude = u & 0x7fffffffu, bits;

    bits = (magnitude - (bias << 23) + ((1u << (cut - 1)) - 1) + (magnitude >> cut & 1)) >> cut;
    if (magnitude < (bias + 1) << 23)
        bits = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), denormal)) -
               __float_as_uint(denormal);
    if (magnitude > (E4M3 ? 0x43e00000u : 0x47600000u))
        bits = E4M3 ? 0x7e : 0x7b;
    return magnitude > 0x7f800000u ? 0x7f : bits | (u >> 24 & 0x80);
}
#endif

/* Two values to two bytes; infinities as the largest finite value. */
template <bool E4M3> __device__ __forceinline__ uint32_t narrow_pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;

    if (E4M3)
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return narrow_one<E4M3>(low) | narrow_one<E4M3>(high) << 8;
#endif
}

template <enum dtype T, bool E4M3>
__device__ __forceinline__ void narrow(const share<T> &s, uint32_t (&w)[8]) {
    uint32_t most = 0;

#pragma unroll
    for (uint32_t k = 0; k < 8; k++)
        w[k] = narrow_pair<E4M3>(value_at<T>(s, 4 * k), value_at<T>(s, 4 * k + 1)) |
               narrow_pair<E4M3>(value_at<T>(s, 4 * k + 2), value_at<T>(s, 4 * k + 3)) << 16;
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++)
        most = max(most, largest_of_row<T>(s, r));
    if (most < 0x7f800000u)
        return;
#pragma unroll
    for (uint32_t i = 0; i < 32; i++) { /* infinities stay infinite, or become NaN in e4m3 */
        uint32_t bits = __float_as_uint(value_at<T>(s, i)), shift = i % 4 * 8;
        uint32_t byte = E4M3 ? 0x7f : 0x7c | (bits >> 24 & 0x80);

        if ((bits & 0x7fffffffu) == 0x7f800000u)
            w[i / 4] = (w[i / 4] & ~(0xffu << shift)) | byte << shift;
    }
}

template <enum dtype T, bool E4M3, bool QUIET>
__device__ __forceinline__ void widen(const uint32_t (&w)[8], share<T> &s) {
#pragma unroll
    for (uint32_t k = 0; k < 16; k++) {
        uint32_t bytes = w[k / 2] >> k % 2 * 16 & 0xffffu;
        uint32_t pair = E4M3 ? e4m3_pair(bytes) : e5m2_pair(bytes);

        if constexpr (T == DTYPE_F16) {
            s.w[k] = pair;
        } else {
            float low = low_value<DTYPE_F16>(pair), high = high_value<DTYPE_F16>(pair);

            if constexpr (T == DTYPE_F32)
                s.w[2 * k] = __float_as_uint(low), s.w[2 * k + 1] = __float_as_uint(high);
            else
                s.w[k] = round_pair<T>(low, high);
        }
    }
    if (QUIET)
        quiet_nans<T>(s);
}

/* ---- cast: a group ---- */

template <enum dtype T, bool QUIET>
__device__ __forceinline__ void read_cast(const gpu_wire &wire, const unsigned char *slot,
                                          const span &at, share<T> &s) {
    if (wire.type == WIRE_BF16 || wire.type == WIRE_F16) {
        share<DTYPE_BF16> pairs; /* or f16: a place for 16 registers */

        read_elements<DTYPE_BF16>(slot + 2 * at.first(), at.count, at.lane, pairs);
        if (wire.type == WIRE_BF16)
            convert<DTYPE_BF16, T, QUIET>(pairs, s);
        else
            convert<DTYPE_F16, T, QUIET>((const share<DTYPE_F16> &)pairs, s);
        return;
    }
    uint32_t w[8];

    read_bytes(slot + at.first(), at, w);
    if (wire.type == WIRE_E4M3)
        widen<T, true, QUIET>(w, s);
    else
        widen<T, false, QUIET>(w, s);
}

template <enum dtype T>
__device__ __forceinline__ void write_cast(const gpu_wire &wire, unsigned char *slot,
                                           const span &at, const share<T> &s) {
    if (wire.type == WIRE_BF16) {
        share<DTYPE_BF16> pairs;

        convert<T, DTYPE_BF16>(s, pairs);
        write_elements<DTYPE_BF16>(slot + 2 * at.first(), at.count, at.lane, pairs);
    } else if (wire.type == WIRE_F16) {
        share<DTYPE_F16> pairs;

        convert<T, DTYPE_F16>(s, pairs);
        write_elements<DTYPE_F16>(slot + 2 * at.first(), at.count, at.lane, pairs);
    } else {
        uint32_t w[8];

        if (wire.type == WIRE_E4M3)
            narrow<T, true>(s, w);
        else
            narrow<T, false>(s, w);
        write_bytes(slot + at.first(), at, w);
    }
}

#endif
