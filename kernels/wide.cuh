/*
 * wide.cuh: how the kernels of `cast` and `quant` hold a group of elements, and their sums.
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
#ifndef SLUICE_KERNELS_WIDE_CUH
#define SLUICE_KERNELS_WIDE_CUH

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

/* A group of f32 on its way: loaded, but not yet waited for. */
struct wide_loads {
    uint4 a[VALUE_ROWS], b[VALUE_ROWS];
    bool swapped;
};

/* Begins to read count elements, the rest as zero bits. */
__device__ __forceinline__ void start_wide(const void *from, uint32_t count, uint32_t lane,
                                           wide_loads &l) {
    l.swapped = count == GROUP && ((uintptr_t)from & 15) == 0;
    if (l.swapped) {
        const uint4 *quads = (const uint4 *)from + lane / 2 * 4 + lane % 2;

#pragma unroll
        for (uint32_t r = 0; r < VALUE_ROWS; r++)
            l.a[r] = quads[r * 64], l.b[r] = quads[r * 64 + 2];
        return;
    }
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        uint32_t e = wide_at(lane, 8 * r), w[8];

#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            w[j] = e + j < count ? ((const uint32_t *)from)[e + j] : 0;
        l.a[r] = make_uint4(w[0], w[1], w[2], w[3]);
        l.b[r] = make_uint4(w[4], w[5], w[6], w[7]);
    }
}

/* Whole warp. */
__device__ __forceinline__ void finish_wide(wide_loads &l, uint32_t lane, share<DTYPE_F32> &s) {
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        if (l.swapped)
            swap_quads(l.a[r], l.b[r], lane);
        s.w[8 * r] = l.a[r].x, s.w[8 * r + 1] = l.a[r].y, s.w[8 * r + 2] = l.a[r].z;
        s.w[8 * r + 3] = l.a[r].w, s.w[8 * r + 4] = l.b[r].x, s.w[8 * r + 5] = l.b[r].y;
        s.w[8 * r + 6] = l.b[r].z, s.w[8 * r + 7] = l.b[r].w;
    }
}

/* Both at once, for any type. */
template <enum dtype T>
__device__ __forceinline__ void read_wide(const void *from, uint32_t count, uint32_t lane,
                                          share<T> &s) {
    if constexpr (T == DTYPE_F32) {
        wide_loads l;

        start_wide(from, count, lane, l);
        finish_wide(l, lane, s);
    } else {
        read_elements<T>(from, count, lane, s);
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

/* Elements from count on become zero bits. */
template <enum dtype T>
__device__ __forceinline__ void clear_wide(share<T> &s, uint32_t count, uint32_t lane) {
    if constexpr (T != DTYPE_F32) {
        clear_missing<T>(s, count, lane);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            s.w[i] = wide_at(lane, i) < count ? s.w[i] : 0;
    }
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

/* ---- sums ---- */

/* One operand more; the first is taken as it is. */
template <class Value>
__device__ __forceinline__ void take(enum redop op, bool first, float (&sum)[32], Value value) {
    if (first) {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sum[i] = value(i);
    } else if (op == REDOP_SUM || op == REDOP_AVG) {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sum[i] = __fadd_rn(sum[i], value(i));
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sum[i] = combine(op, sum[i], value(i));
    }
}

__device__ __forceinline__ void divide(uint64_t divide_by, float (&sum)[32]) {
    if (divide_by == 0)
        return;
#pragma unroll
    for (uint32_t i = 0; i < 32; i++)
        sum[i] = __fdiv_rn(sum[i], (float)divide_by);
}

__device__ __forceinline__ void write_sums(unsigned char *acc, const span &at,
                                           const float (&sum)[32]) {
    share<DTYPE_F32> s;

#pragma unroll
    for (uint32_t i = 0; i < 32; i++)
        s.w[i] = __float_as_uint(sum[i]);
    write_wide<DTYPE_F32>(acc + 4 * at.first(), at.count, at.lane, s);
}

#endif
