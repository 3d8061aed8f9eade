/*
 * value.cuh: `cast` and `quant` inside a warp: from a group of elements in registers to its part of
 * the slot, and back. cast.c and quant.c say what the values are, FORMAT.md where they lie. Kernels
 * are in value.cu, cast_pack.cu and mixed.cu.
 *
 * All types are held as 16-bit elements are loaded, so that a lane's eight neighbours leave as one
 * store of 16, 8 or 4 bytes, whatever they became:
 *
 *     a group:   row 0              row 1              row 2              row 3
 *                +----+----+---+----+----+---+---+
 *     lane       | 0  | 1  |...| 31 | 0  |...         element i of a lane:
 *     i          |0..7|0..7|   |0..7|8..15|           i / 8 * 256 + lane * 8 + i % 8
 *                +----+----+---+----+----+---+---+
 *
 * Eight f32 are two loads of 16 bytes. So that a warp still touches whole sectors of 32 bytes, the
 * two lanes of a pair load each other's halves and swap them.
 */
#ifndef SLUICE_KERNELS_VALUE_CUH
#define SLUICE_KERNELS_VALUE_CUH

#include "kernels/gpu.cuh"
#include "kernels/gpu_codec.cuh"

#define VALUE_WARPS  8u
#define VALUE_ROWS   4u
#define VALUE_CHUNKS 32u /* of 32 elements, in a group: a block of quant is 1 to 8 of them */

/* Where a warp is. */
struct span {
    uint32_t group, lane, count;

    __device__ __forceinline__ uint64_t first() const { return (uint64_t)group * GROUP; }
};

__device__ __forceinline__ uint32_t wide_at(uint32_t lane, uint32_t i) {
    return i / 8 * 256 + lane * 8 + i % 8;
}

/* ---- elements in memory ---- */

/* Two quads of neighbours <-> the quads that a pair of lanes loads or stores side by side. */
__device__ __forceinline__ void swap_quads(uint4 &a, uint4 &b, uint32_t lane) {
    bool odd = lane % 2 != 0;
    uint32_t x = __shfl_xor_sync(ALL_LANES, odd ? a.x : b.x, 1);
    uint32_t y = __shfl_xor_sync(ALL_LANES, odd ? a.y : b.y, 1);
    uint32_t z = __shfl_xor_sync(ALL_LANES, odd ? a.z : b.z, 1);
    uint32_t w = __shfl_xor_sync(ALL_LANES, odd ? a.w : b.w, 1);

    a = odd ? make_uint4(x, y, z, w) : a;
    b = odd ? b : make_uint4(x, y, z, w);
}

/* Reads count elements, the rest as zero bits. Whole warp. */
template <enum dtype T>
__device__ __forceinline__ void read_wide(const void *from, uint32_t count, uint32_t lane,
                                          share<T> &s) {
    if constexpr (T != DTYPE_F32) {
        read_elements<T>(from, count, lane, s);
    } else if (count == GROUP && ((uintptr_t)from & 15) == 0) {
        const uint4 *quads = (const uint4 *)from + lane / 2 * 4 + lane % 2;
        uint4 a[VALUE_ROWS], b[VALUE_ROWS];

#pragma unroll
        for (uint32_t r = 0; r < VALUE_ROWS; r++)
            a[r] = quads[r * 64], b[r] = quads[r * 64 + 2];
#pragma unroll
        for (uint32_t r = 0; r < VALUE_ROWS; r++) {
            swap_quads(a[r], b[r], lane);
            s.w[8 * r] = a[r].x, s.w[8 * r + 1] = a[r].y, s.w[8 * r + 2] = a[r].z;
            s.w[8 * r + 3] = a[r].w, s.w[8 * r + 4] = b[r].x, s.w[8 * r + 5] = b[r].y;
            s.w[8 * r + 6] = b[r].z, s.w[8 * r + 7] = b[r].w;
        }
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t e = wide_at(lane, i);

            s.w[i] = e < count ? ((const uint32_t *)from)[e] : 0;
        }
    }
}

template <enum dtype T>
__device__ __forceinline__ void write_wide(void *to, uint32_t count, uint32_t lane,
                                           const share<T> &s) {
    if constexpr (T != DTYPE_F32) {
        write_elements<T>(to, count, lane, s);
    } else if (count == GROUP && ((uintptr_t)to & 15) == 0) {
        uint4 *quads = (uint4 *)to + lane / 2 * 4 + lane % 2;

#pragma unroll
        for (uint32_t r = 0; r < VALUE_ROWS; r++) {
            uint4 a = make_uint4(s.w[8 * r], s.w[8 * r + 1], s.w[8 * r + 2], s.w[8 * r + 3]);
            uint4 b = make_uint4(s.w[8 * r + 4], s.w[8 * r + 5], s.w[8 * r + 6], s.w[8 * r + 7]);

            swap_quads(a, b, lane);
            __stcs(quads + r * 64, a);
            __stcs(quads + r * 64 + 2, b);
        }
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t e = wide_at(lane, i);

            if (e < count)
                ((uint32_t *)to)[e] = s.w[i];
        }
    }
}

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

template <enum dtype FROM, enum dtype TO>
__device__ __forceinline__ void convert(const share<FROM> &from, share<TO> &to) {
#pragma unroll
    for (uint32_t k = 0; k < 16; k++) {
        float low = value_at<FROM>(from, 2 * k), high = value_at<FROM>(from, 2 * k + 1);

        if constexpr (TO == DTYPE_F32)
            to.w[2 * k] = __float_as_uint(low), to.w[2 * k + 1] = __float_as_uint(high);
        else
            to.w[k] = round_pair<TO>(low, high);
    }
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

/* The bits of the largest magnitude among the eight of a row, as f32. */
template <enum dtype T>
__device__ __forceinline__ uint32_t largest_of_row(const share<T> &s, uint32_t r) {
    uint32_t most = 0;

    if constexpr (T == DTYPE_F32) {
#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            most = max(most, s.w[8 * r + j] & 0x7fffffffu);
        return most;
    } else {
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            most = __vmaxu2(most, s.w[4 * r + j] & 0x7fff7fffu);
        return __float_as_uint(low_value<T>(max(most & 0xffffu, most >> 16)));
    }
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

template <enum dtype T, bool E4M3>
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
    quiet_nans<T>(s);
}

/* ---- cast: a group ---- */

template <enum dtype T>
__device__ __forceinline__ void read_cast(const gpu_wire &wire, const unsigned char *slot,
                                          const span &at, share<T> &s) {
    if (wire.type == WIRE_BF16 || wire.type == WIRE_F16) {
        share<DTYPE_BF16> pairs; /* or f16: a place for 16 registers */

        read_elements<DTYPE_BF16>(slot + 2 * at.first(), at.count, at.lane, pairs);
        if (wire.type == WIRE_BF16)
            convert<DTYPE_BF16, T>(pairs, s);
        else
            convert<DTYPE_F16, T>((const share<DTYPE_F16> &)pairs, s);
        return;
    }
    uint32_t w[8];

    read_bytes(slot + at.first(), at, w);
    if (wire.type == WIRE_E4M3)
        widen<T, true>(w, s);
    else
        widen<T, false>(w, s);
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

/* ---- quant: the integers of a row ---- */

/* Eight integers in 8, 6 or 4 bits: a byte each; nibbles, and 16 bits with the upper two of each;
 * nibbles. */
struct eight {
    uint32_t x, y;
};

/* Where the eight of a lane and row are. In the last group of 6 bits, which has fewer lanes, they
 * belong to another lane. */
template <uint32_t BITS>
__device__ __forceinline__ void place_eight(const unsigned char *q, const span &at, uint32_t r,
                                            const unsigned char *&x, const unsigned char *&y) {
    uint32_t e = wide_at(at.lane, 8 * r);

    if (BITS == 8) {
        x = q + at.first() + e;
        y = x + 4;
    } else if (BITS == 4) {
        x = q + (at.first() + e) / 2;
        y = x;
    } else {
        uint32_t lanes = (at.count + 31) / 32, unit = r * 32 + at.lane;
        uint32_t row = at.count == GROUP ? r : unit / lanes;
        uint32_t lane = at.count == GROUP ? at.lane : unit % lanes;

        x = q + (uint64_t)at.group * 768 + lane * 16 + row * 4;
        y = q + (uint64_t)at.group * 768 + lanes * 16 + lane * 8 + row * 2;
    }
}

/* The integers times 1, from their bits: a byte under the exponent of 2^23 is a float that is 2^23
 * too large, and a half or a quarter of a byte more once its sign is flipped. */
template <uint32_t BITS> __device__ __forceinline__ void integers(const eight &q, float (&v)[8]) {
    constexpr uint32_t magic = 0x4b000000u, sign = 1u << (BITS - 1);
    const float zero = __uint_as_float(magic | sign);

#pragma unroll
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t bits;

        if (BITS == 8)
            bits = __byte_perm((j < 4 ? q.x : q.y) ^ 0x80808080u, magic, 0x7440 | j % 4);
        else if (BITS == 6)
            bits = magic | (((q.x >> 4 * j & 15) | (q.y >> 2 * j & 3) << 4) ^ sign);
        else
            bits = magic | ((q.x >> 4 * j & 15) ^ sign);
        v[j] = __uint_as_float(bits) - zero;
    }
}

/* v times inverse, to the nearest integers: the sum has an ulp of 1. */
template <uint32_t BITS>
__device__ __forceinline__ eight nearest(const float (&v)[8], float inverse) {
    eight q = {0, 0};
    uint32_t n[8];

#pragma unroll
    for (uint32_t j = 0; j < 8; j++)
        n[j] = __float_as_uint(__fadd_rn(__fmul_rn(v[j], inverse), 12582912.0f));
    if (BITS == 8) {
        q.x = __byte_perm(__byte_perm(n[0], n[1], 0x40), __byte_perm(n[2], n[3], 0x40), 0x5410);
        q.y = __byte_perm(__byte_perm(n[4], n[5], 0x40), __byte_perm(n[6], n[7], 0x40), 0x5410);
    } else {
#pragma unroll
        for (uint32_t j = 0; j < 8; j++) {
            q.x |= (n[j] & 15) << 4 * j;
            if (BITS == 6)
                q.y |= (n[j] >> 4 & 3) << 2 * j;
        }
    }
    return q;
}

/* ---- quant: a group ---- */

__device__ __forceinline__ uint32_t block_of(const gpu_wire &wire, uint32_t chunk) {
    return wire.block_shift != 0 ? chunk >> (wire.block_shift - 1) : chunk / (wire.block / 32);
}

template <enum dtype T, uint32_t BITS>
__device__ __forceinline__ void read_integers(const gpu_wire &wire, const unsigned char *slot,
                                              const span &at, share<T> &s) {
    const unsigned char *q = slot + wire.integers_at;
    eight bits[VALUE_ROWS];
    float scale[VALUE_ROWS];

    if (BITS == 6 && at.count == GROUP) {
        const unsigned char *x, *y;

        place_eight<BITS>(q, at, 0, x, y);
        uint4 low = __ldcs((const uint4 *)x);
        uint2 high = __ldcs((const uint2 *)y);

        bits[0] = {low.x, high.x & 0xffffu}, bits[1] = {low.y, high.x >> 16};
        bits[2] = {low.z, high.y & 0xffffu}, bits[3] = {low.w, high.y >> 16};
    }
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        uint32_t e = wide_at(at.lane, 8 * r);
        uint32_t chunk = at.group * VALUE_CHUNKS + r * 8 + at.lane / 4;
        const unsigned char *x, *y;

        scale[r] = e < at.count ? ((const float *)slot)[block_of(wire, chunk)] : 0;
        if (BITS == 6 && at.count == GROUP)
            continue;
        bits[r] = {0, 0};
        if (e >= at.count)
            continue;
        place_eight<BITS>(q, at, r, x, y);
        if (BITS == 6) {
            bits[r] = {*(const uint32_t *)x, *(const uint16_t *)y};
        } else if (e + 8 <= at.count) {
            if (BITS == 8) {
                uint2 v = __ldcs((const uint2 *)x);

                bits[r] = {v.x, v.y};
            } else {
                bits[r].x = __ldcs((const uint32_t *)x);
            }
        } else {
            for (uint32_t j = 0; j < (at.count - e + 8 / BITS - 1) / (8 / BITS); j++) {
                if (j < 4)
                    bits[r].x |= (uint32_t)x[j] << 8 * j;
                else
                    bits[r].y |= (uint32_t)x[j] << 8 * (j - 4);
            }
        }
    }
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        float v[8];

        integers<BITS>(bits[r], v);
#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            v[j] = __fmul_rn(v[j], scale[r]);
#pragma unroll
        for (uint32_t j = 0; j < 8; j += 2) {
            if constexpr (T == DTYPE_F32) {
                s.w[8 * r + j] = __float_as_uint(v[j]);
                s.w[8 * r + j + 1] = __float_as_uint(v[j + 1]);
            } else {
                s.w[4 * r + j / 2] = round_pair<T>(v[j], v[j + 1]);
            }
        }
    }
    quiet_nans<T>(s);
}

/* Shared memory of a block that writes blocks of quant which are no power of two: the largest
 * magnitude of every chunk. */
typedef uint32_t chunk_largest[VALUE_WARPS * VALUE_CHUNKS];

/* most[r] becomes the bits of the largest magnitude of the block that row r of the lane is in. The
 * groups of all warps together are whole blocks. All threads of the block. */
__device__ __forceinline__ void largest_of_blocks(const gpu_wire &wire, uint32_t warp,
                                                  uint32_t lane, uint32_t (&most)[VALUE_ROWS],
                                                  chunk_largest &shared) {
    if (wire.block_shift != 0) {
        for (uint32_t d = 1; d < wire.block / 8; d *= 2)
#pragma unroll
            for (uint32_t r = 0; r < VALUE_ROWS; r++)
                most[r] = max(most[r], __shfl_xor_sync(ALL_LANES, most[r], d));
        return;
    }
    uint32_t chunks = wire.block / 32;

#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        most[r] = max(most[r], __shfl_xor_sync(ALL_LANES, most[r], 1));
        most[r] = max(most[r], __shfl_xor_sync(ALL_LANES, most[r], 2));
        if (lane % 4 == 0)
            shared[warp * VALUE_CHUNKS + r * 8 + lane / 4] = most[r];
    }
    __syncthreads();
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        uint32_t first = (warp * VALUE_CHUNKS + r * 8 + lane / 4) / chunks * chunks;

        for (uint32_t c = 0; c < chunks; c++)
            most[r] = max(most[r], shared[first + c]);
    }
}

template <uint32_t BITS>
__device__ __forceinline__ void write_eight(unsigned char *q, const span &at, uint32_t r,
                                            const eight &v) {
    uint32_t e = wide_at(at.lane, 8 * r);
    const unsigned char *from_x, *from_y;

    if (BITS == 6 ? e >= (at.count + 31) / 32 * 32 : e >= at.count)
        return;
    place_eight<BITS>(q, at, r, from_x, from_y);
    unsigned char *x = (unsigned char *)from_x, *y = (unsigned char *)from_y;

    if (BITS == 6) {
        *(uint32_t *)x = v.x;
        *(uint16_t *)y = (uint16_t)v.y;
    } else if (e + 8 <= at.count) {
        if (BITS == 8)
            __stcs((uint2 *)x, make_uint2(v.x, v.y));
        else
            __stcs((uint32_t *)x, v.x);
    } else {
        for (uint32_t j = 0; j < (at.count - e + 8 / BITS - 1) / (8 / BITS); j++)
            x[j] = (unsigned char)(j < 4 ? v.x >> 8 * j : v.y >> 8 * (j - 4));
    }
}

/* Zeros between the scales and the integers: whoever writes the last scale. */
__device__ __forceinline__ void pad_scales(const gpu_wire &wire, unsigned char *slot,
                                           uint32_t block) {
    for (uint64_t at = 4 * ((uint64_t)block + 1); at < wire.integers_at; at += 4)
        *(uint32_t *)(slot + at) = 0;
}

template <enum dtype T, uint32_t BITS>
__device__ __forceinline__ void write_integers(const gpu_wire &wire, unsigned char *slot,
                                               const span &at, uint32_t warp, const share<T> &s,
                                               chunk_largest &shared) {
    constexpr float q_max = (float)((1 << (BITS - 1)) - 1);
    uint32_t most[VALUE_ROWS];
    eight q[VALUE_ROWS];

#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++)
        most[r] = largest_of_row<T>(s, r);
    largest_of_blocks(wire, warp, at.lane, most, shared);
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        uint32_t e = wide_at(at.lane, 8 * r);
        uint32_t chunk = at.group * VALUE_CHUNKS + r * 8 + at.lane / 4;
        uint32_t block = block_of(wire, chunk);
        float m = __uint_as_float(most[r]), v[8];
        bool lost = most[r] >= 0x7f800000u, tiny = m < 0x1p-100f;

#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            v[j] = lost || tiny ? 0 : value_at<T>(s, 8 * r + j);
        q[r] = nearest<BITS>(v, lost || tiny ? 0 : __fdiv_rn(q_max, m));
        if (at.lane % 4 == 0 && block * (wire.block / 32) == chunk && e < at.count) {
            ((float *)slot)[block] = lost   ? __uint_as_float(F32_QUIET)
                                     : tiny ? 0.0f
                                            : __fdiv_rz(m, q_max);
            if (block + 1 == wire.blocks)
                pad_scales(wire, slot, block);
        }
    }
    if (BITS == 6 && at.count == GROUP) {
        unsigned char *to = slot + wire.integers_at + (uint64_t)at.group * 768;

        __stcs((uint4 *)to + at.lane, make_uint4(q[0].x, q[1].x, q[2].x, q[3].x));
        __stcs((uint2 *)(to + 512) + at.lane,
               make_uint2(q[0].y | q[1].y << 16, q[2].y | q[3].y << 16));
        return;
    }
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++)
        write_eight<BITS>(slot + wire.integers_at, at, r, q[r]);
}

template <enum dtype T>
__device__ __forceinline__ void read_quant(const gpu_wire &wire, const unsigned char *slot,
                                           const span &at, share<T> &s) {
    if (wire.bits == 8)
        read_integers<T, 8>(wire, slot, at, s);
    else if (wire.bits == 6)
        read_integers<T, 6>(wire, slot, at, s);
    else
        read_integers<T, 4>(wire, slot, at, s);
}

/* All threads of the block. */
template <enum dtype T>
__device__ __forceinline__ void write_quant(const gpu_wire &wire, unsigned char *slot,
                                            const span &at, uint32_t warp, const share<T> &s,
                                            chunk_largest &shared) {
    if (wire.bits == 8)
        write_integers<T, 8>(wire, slot, at, warp, s, shared);
    else if (wire.bits == 6)
        write_integers<T, 6>(wire, slot, at, warp, s, shared);
    else
        write_integers<T, 4>(wire, slot, at, warp, s, shared);
}

#endif
