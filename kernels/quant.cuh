/*
 * quant.cuh: `quant` inside a warp: from a group of elements in registers to its part of the slot,
 * and back. quant.c says what the values are, FORMAT.md where they lie: the eight neighbours of a
 * lane are 8 bytes, 4 and 2, or 4, and a lane of every four has the scale of 32.
 */
#ifndef SLUICE_KERNELS_QUANT_CUH
#define SLUICE_KERNELS_QUANT_CUH

#include "kernels/wide.cuh"

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

/* Bits of a word where a float of exponent 2^23 has its last, as that float. */
__device__ __forceinline__ float under_2_23(uint32_t word, uint32_t mask) {
    return __uint_as_float((word & mask) | 0x4b000000u);
}

/*
 * The integers from their bits, with their signs flipped to be counted from 0: q + 2^(BITS - 1) =
 * u. Under the exponent of 2^23, u times 2^k is a float that is 2^23 too large; one exact
 * multiply-add takes that and 2^k away, so most bits need not be shifted.
 */
template <uint32_t BITS> __device__ __forceinline__ void integers(const eight &q, float (&v)[8]) {
    if (BITS == 8) {
#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            v[j] = __uint_as_float(__byte_perm((j < 4 ? q.x : q.y) ^ 0x80808080u, 0x4b000000u,
                                               0x7440 | j % 4)) -
                   8388736.0f;
        return;
    }
    uint32_t nibbles = BITS == 4 ? q.x ^ 0x88888888u : q.x, twos = q.y ^ 0xaaaau;

#pragma unroll
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t k = j % 4 * 4;
        float scale = 1.0f / (float)(1u << k);
        float low = under_2_23(j < 4 ? nibbles : nibbles >> 16, 15u << k);
        float rest = -8.0f - 8388608.0f * scale;

        if (BITS == 6) /* 16 x the upper two, less 2^5 */
            rest = __fmaf_rn(under_2_23(twos, 3u << 2 * j), 16.0f / (float)(1u << 2 * j),
                             -134217728.0f / (float)(1u << 2 * j) - 32.0f - 8388608.0f * scale);
        v[j] = __fmaf_rn(low, scale, rest);
    }
}

/* Bytes 0 to 3 of a and then b as nibbles: their lower halves. */
__device__ __forceinline__ uint32_t join_nibbles(uint32_t a, uint32_t b) {
    a &= 0x0f0f0f0fu, b &= 0x0f0f0f0fu;
    return __byte_perm(a | a >> 4, b | b >> 4, 0x6420);
}

/* v times inverse, to the nearest integers: the sum has an ulp of 1. */
template <uint32_t BITS>
__device__ __forceinline__ eight nearest(const float (&v)[8], float inverse) {
    eight q = {0, 0};
    uint32_t n[8];

#pragma unroll
    for (uint32_t j = 0; j < 8; j++)
        n[j] = __float_as_uint(__fadd_rn(__fmul_rn(v[j], inverse), 12582912.0f));
    if (BITS == 4) { /* n + 8 are digits of a number to the base of 16; 0x4b400000 is 0 */
        q.x = n[7];
#pragma unroll
        for (int j = 6; j >= 0; j--)
            q.x = q.x * 16 + n[j];
        q.x = (q.x - 0x3f400000u + 0x88888888u) ^ 0x88888888u;
        return q;
    }
    uint32_t x = __byte_perm(__byte_perm(n[0], n[1], 0x40), __byte_perm(n[2], n[3], 0x40), 0x5410);
    uint32_t y = __byte_perm(__byte_perm(n[4], n[5], 0x40), __byte_perm(n[6], n[7], 0x40), 0x5410);

    if (BITS == 8)
        return {x, y};
    q.x = join_nibbles(x, y);
    uint32_t twos = join_nibbles(x >> 4 & 0x03030303u, y >> 4 & 0x03030303u); /* in nibbles */

    twos = (twos | twos >> 2) & 0x0f0f0f0fu;
    twos |= twos >> 4;
    q.y = __byte_perm(twos, 0, 0x4420);
    return q;
}

/* ---- quant: a group ---- */

__device__ __forceinline__ uint32_t block_of(const gpu_wire &wire, uint32_t chunk) {
    return wire.block_shift != 0 ? chunk >> (wire.block_shift - 1)
                                 : __umulhi(chunk, wire.block_inverse);
}

template <enum dtype T, uint32_t BITS, bool QUIET>
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
    if (QUIET)
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
    const uint32_t chunks = wire.block / 32, mine = warp * VALUE_CHUNKS + lane / 4;

#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        most[r] = max(most[r], __shfl_xor_sync(ALL_LANES, most[r], 1));
        most[r] = max(most[r], __shfl_xor_sync(ALL_LANES, most[r], 2));
        if (lane % 4 == 0)
            shared[mine + r * 8] = most[r];
    }
    __syncthreads();
    for (uint32_t c = 0; c < chunks; c++)
#pragma unroll
        for (uint32_t r = 0; r < VALUE_ROWS; r++)
            most[r] = max(most[r], shared[block_of(wire, mine + r * 8) * chunks + c]);
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
            v[j] = value_at<T>(s, 8 * r + j);
        q[r] = nearest<BITS>(v, __fdiv_rn(q_max, m));
        q[r].x = lost || tiny ? 0 : q[r].x;
        q[r].y = lost || tiny ? 0 : q[r].y;
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

template <enum dtype T, bool QUIET>
__device__ __forceinline__ void read_quant(const gpu_wire &wire, const unsigned char *slot,
                                           const span &at, share<T> &s) {
    if (wire.bits == 8)
        read_integers<T, 8, QUIET>(wire, slot, at, s);
    else if (wire.bits == 6)
        read_integers<T, 6, QUIET>(wire, slot, at, s);
    else
        read_integers<T, 4, QUIET>(wire, slot, at, s);
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
