/*
 * pack.cuh: `pack` inside a warp: a group from registers to the pieces of its encoding, and what
 * decoding (pack_decode.cuh) shares with that.
 * pack.c draws the layout, FORMAT.md defines it. Kernels are in pack.cu and combine.cu.
 *
 * The two halves of a register hold two exponents, so 16 registers hold a lane's 32. Codes become
 * bit planes at once: four registers of codes are joined as nibbles, and a bit of every nibble,
 * over the four joined registers, is a plane. On planes, counting, comparing and subtracting one
 * cost a few logic operations for 32 codes.
 */
#ifndef SLUICE_KERNELS_PACK_CUH
#define SLUICE_KERNELS_PACK_CUH

#include "kernels/gpu.cuh"

#define PACK_WARPS    8u /* groups of a tile */
#define PACK_TILE     (GROUP * PACK_WARPS)
#define PACK_HEADER   32u
#define PACK_UNIT     32u
#define PACK_PLANE    128u /* bytes */
#define PACK_RAW      7u
#define PACK_CODES    1u
#define PACK_LOW_FULL 128u
#define PACK_MAGIC    0x01504c53u
#define PACK_MARKED   256u /* the overflow flag in the second word of the header */

template <enum dtype T> struct pack_type {
    static constexpr uint32_t shift = T == DTYPE_F16 ? 10 : 7; /* of the exponent in a half */
    static constexpr uint32_t mask = T == DTYPE_F16 ? 0x7c007c00u : 0x7f807f80u;
    static constexpr uint32_t wire = T == DTYPE_BF16 ? 1 : T == DTYPE_F16 ? 2 : 3;
};

struct pack_layout {
    uint64_t elems, entries_at, payload_at;
    uint32_t tiles, last_elems; /* of the last tile */
};

inline pack_layout pack_layout_of(uint64_t elems) {
    uint64_t groups = (elems + GROUP - 1) / GROUP, tiles = (elems + PACK_TILE - 1) / PACK_TILE;
    uint64_t entries_at = PACK_HEADER + 4 * tiles;

    return {elems, entries_at, (entries_at + 4 * groups + PACK_UNIT - 1) / PACK_UNIT * PACK_UNIT,
            (uint32_t)tiles, (uint32_t)(elems + PACK_TILE - tiles * PACK_TILE)};
}

/* Elements of a tile; of one of its groups. */
__device__ __forceinline__ uint32_t pack_tile_elems(const pack_layout &l, uint32_t tile) {
    return tile + 1 < l.tiles ? PACK_TILE : l.last_elems;
}

__device__ __forceinline__ uint32_t pack_count(const pack_layout &l, uint32_t tile, uint32_t warp) {
    uint32_t elems = pack_tile_elems(l, tile);

    return min(GROUP, elems - min(elems, warp * GROUP));
}

/* The bit of a plane word that belongs to a lane's pair k, and in the upper half its odd member;
 * the same formula goes back from a bit to the pair. */
__host__ __device__ constexpr uint32_t pack_bit(uint32_t k) {
    return k % 4 * 4 + k / 4;
}

/* Bit k of both halves of x[j] <-> bit j of both halves of x[k]. */
__device__ __forceinline__ void transpose_halves(uint32_t (&x)[16]) {
    uint32_t m = 0x00ff00ffu;

#pragma unroll
    for (int s = 8; s != 0; s >>= 1) {
#pragma unroll
        for (int i = 0; i < 16; i++)
            if ((i & s) == 0) {
                uint32_t t = (x[i] >> s ^ x[i + s]) & m;

                x[i + s] ^= t;
                x[i] ^= t << s;
            }
        m ^= m << (s >> 1);
    }
}

/* The four bits of every nibble are for the four words: bit a of word b <-> bit b of word a. */
__device__ __forceinline__ void transpose_nibbles(uint32_t (&x)[4]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t low = x[i], high = x[i + 2];

        x[i] = pick_bits(0x33333333u, low, high << 2);
        x[i + 2] = pick_bits(0x33333333u, low >> 2, high);
    }
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        uint32_t low = x[i], high = x[i + 1];

        x[i] = pick_bits(0x55555555u, low, high << 1);
        x[i + 1] = pick_bits(0x55555555u, low >> 1, high);
    }
}

/* Sum over the lanes up to and with this one. */
__device__ __forceinline__ uint32_t lanes_up_to(uint32_t mine) {
    uint32_t sum = mine;

#pragma unroll
    for (int d = 1; d < 32; d <<= 1)
        asm volatile("{ .reg .pred there; .reg .u32 below;\n"
                     "shfl.sync.up.b32 below|there, %0, %1, 0, 0xffffffff;\n"
                     "@there add.u32 %0, %0, below; }"
                     : "+r"(sum)
                     : "r"(d));
    return sum;
}

/* ---- escapes ---- */

/* A lane knows its escaped elements as bits of a mask: few lanes have any, some have many. Listed
 * in shared memory they are shared out evenly. */
#define PACK_LIST 256u
struct pack_list {
    uint16_t at[PACK_LIST];
}; /* lane << 5 | bit */

/* Calls each(n, lane << 5 | bit) for all escapes n of the warp, one lane each. up_to: how many
 * this lane and those below it have. */
template <class Each>
__device__ __forceinline__ void for_escapes(uint32_t mask, uint32_t up_to, uint32_t escapes,
                                            uint32_t lane, pack_list &list, Each each) {
#pragma unroll 1
    for (uint32_t from = 0; from < escapes; from += PACK_LIST) {
        uint32_t n = up_to - from;

#pragma unroll 1
        for (uint32_t m = mask; m != 0;) {
            uint32_t bit = 31 - __clz(m);

            m ^= 1u << bit;
            if (--n < PACK_LIST)
                list.at[n] = (uint16_t)(lane << 5 | bit);
        }
        __syncwarp();
#pragma unroll 1
        for (n = lane; n < min(PACK_LIST, escapes - from); n += 32)
            each(from + n, list.at[n]);
        __syncwarp();
    }
}

/* ---- encoding a group ---- */

/* The pairs of halves that hold sign, exponent and upper mantissa, and for f32 the lower halves. */
template <enum dtype T> struct pack_halves { uint32_t w[16], low[T == DTYPE_F32 ? 16 : 1]; };

template <enum dtype T>
__device__ __forceinline__ void pack_split(const share<T> &s, pack_halves<T> &h) {
#pragma unroll
    for (int k = 0; k < 16; k++) {
        if (T == DTYPE_F32) {
            constexpr uint32_t two = T == DTYPE_F32 ? 2 : 1;

            h.w[k] = __byte_perm(s.w[two * k], s.w[two * k + two - 1], 0x7632);
            h.low[T == DTYPE_F32 ? k : 0] =
                __byte_perm(s.w[two * k], s.w[two * k + two - 1], 0x5410);
        } else {
            h.w[k] = s.w[k];
        }
    }
}

template <enum dtype T>
__device__ __forceinline__ void pack_join(const pack_halves<T> &h, share<T> &s) {
#pragma unroll
    for (int k = 0; k < 16; k++) {
        if constexpr (T == DTYPE_F32) {
            s.w[2 * k] = __byte_perm(h.low[k], h.w[k], 0x5410);
            s.w[2 * k + 1] = __byte_perm(h.low[k], h.w[k], 0x7632);
        } else {
            s.w[k] = h.w[k];
        }
    }
}

/* A group between the decisions and the bytes. */
struct pack_choice {
    uint32_t top, width, plane[4];
    uint32_t escapes, escape_mask; /* of the group; of the lane */
    uint32_t kept, low_units;      /* f32 */
    uint32_t body_bytes, entry;
    bool raw, zero;
};

/* The planes of min(distance below top, limit); tops: the exponent in place, in both halves. */
template <enum dtype T>
__device__ __forceinline__ void pack_planes(const uint32_t (&w)[16], uint32_t tops, uint32_t limit,
                                            uint32_t (&p)[4]) {
    constexpr uint32_t shift = pack_type<T>::shift, mask = pack_type<T>::mask;
    const uint32_t limits = (limit << shift) * 0x10001u;

#pragma unroll
    for (int a = 0; a < 4; a++) {
        uint32_t d0 = __vminu2(tops - (w[4 * a] & mask), limits);
        uint32_t d1 = __vminu2(tops - (w[4 * a + 1] & mask), limits);
        uint32_t d2 = __vminu2(tops - (w[4 * a + 2] & mask), limits);
        uint32_t d3 = __vminu2(tops - (w[4 * a + 3] & mask), limits);

        if (shift == 7)
            p[a] = (d0 + d1 * 16) >> 7 | (d2 + d3 * 16) << 1;
        else
            p[a] = d0 >> 10 | d1 >> 6 | d2 >> 2 | d3 << 2;
    }
    transpose_nibbles(p);
}

/* Whether 4-bit codes take less than c, which has more than 128 escapes; then c is that. */
template <enum dtype T>
__device__ __forceinline__ void pack_widen(const uint32_t (&w)[16], uint32_t top, pack_choice &c) {
    constexpr uint32_t shift = pack_type<T>::shift, mask = pack_type<T>::mask;
    uint32_t tops = top * 0x10001u, farthest = 0, p[4], wide;

#pragma unroll
    for (int k = 0; k < 16; k++)
        farthest = __vmaxu2(farthest, tops - (w[k] & mask));
    farthest = __reduce_max_sync(ALL_LANES, max(farthest & 0xffffu, farthest >> 16));
    pack_planes<T>(w, tops, 15, p);
    wide = farthest >> shift < 16 ? 0 : p[0] & p[1] & p[2] & p[3];
    uint32_t escapes = __reduce_add_sync(ALL_LANES, __popc(wide));

    if (PACK_PLANE + escapes >= c.escapes)
        return;
    c.top = top >> shift;
    c.width = 4;
    c.escapes = escapes;
    c.escape_mask = wide;
#pragma unroll
    for (int b = 0; b < 4; b++)
        c.plane[b] = p[b];
}

/* choose() of pack.c. top: the largest exponent, in place. */
template <enum dtype T>
__device__ __forceinline__ void pack_window(const uint32_t (&w)[16], uint32_t top, pack_choice &c) {
    uint32_t p[4];

    pack_planes<T>(w, top * 0x10001u, 8, p);
    uint32_t seven = p[0] & p[1] & p[2], none = ~(p[0] | p[1] | p[2] | p[3]);
    uint32_t counts = __reduce_add_sync(ALL_LANES, __popc(p[3]) | __popc(seven) << 16);
    uint32_t above = __reduce_add_sync(ALL_LANES, __popc(none));
    uint32_t from_8 = counts & 0xffffu, from_7 = from_8 + (counts >> 16);

    c.top = top >> pack_type<T>::shift;
    c.width = 3;
    c.escapes = c.escape_mask = 0;
    c.plane[0] = p[0], c.plane[1] = p[1], c.plane[2] = p[2], c.plane[3] = 0;
    if (from_8 == 0) {
        uint32_t used = (p[2] ? 4u : 0) | (p[1] ? 2u : 0) | (p[0] ? 1u : 0);

        c.width = 32 - __clz(__reduce_or_sync(ALL_LANES, used));
        return;
    }
    if (above + from_8 < from_7) { /* one less everywhere; 0 and 8 both become 7 */
        uint32_t borrow = ~p[0];

        c.top--;
        c.escapes = above + from_8;
        c.escape_mask = p[3] | none;
        c.plane[0] = ~p[0];
        c.plane[1] = p[1] ^ borrow;
        c.plane[2] = p[2] ^ (borrow & ~p[1]);
    } else {
        c.escapes = from_7;
        c.escape_mask = p[3] | seven;
#pragma unroll
        for (int b = 0; b < 3; b++)
            c.plane[b] |= p[3];
    }
    if (c.escapes > PACK_PLANE)
        pack_widen<T>(w, top, c);
}

/* All decisions about a group of count elements; missing ones must be zero bits in h, and get the
 * largest exponent here. */
template <enum dtype T>
__device__ __forceinline__ void pack_choose(pack_halves<T> &h, uint32_t count, uint32_t lane,
                                            pack_choice &c) {
    uint32_t any = 0, most = 0, low_any = 0;

#pragma unroll
    for (int k = 0; k < 16; k++) {
        any |= h.w[k];
        if (T == DTYPE_F32)
            low_any |= h.low[T == DTYPE_F32 ? k : 0];
        most = __vmaxu2(most, h.w[k] & pack_type<T>::mask);
    }
    c.zero = !__any_sync(ALL_LANES, (any | low_any) != 0);
    uint32_t top = __reduce_max_sync(ALL_LANES, max(most & 0xffffu, most >> 16));

    if (count < GROUP)
#pragma unroll
        for (int k = 0; k < 16; k++) {
            h.w[k] |= element<T>::at(lane, 2 * k) >= count ? top : 0;
            h.w[k] |= element<T>::at(lane, 2 * k + 1) >= count ? top << 16 : 0;
        }
    pack_window<T>(h.w, top, c);
    c.kept = c.low_units = 0;
    if (T == DTYPE_F32) {
        uint32_t bits = (low_any | low_any >> 16) & 0xffffu;

        c.kept = bits == 0 ? 0 : 17 - __ffs(bits);
        c.kept += c.kept == 1;
        uint32_t total = __reduce_add_sync(ALL_LANES, c.kept);

        c.low_units = total == 0 ? 0 : min((16 + 4 * total + 15) / 16, PACK_LOW_FULL);
    }
    uint32_t whole = (count * element<T>::bytes + 15) / 16 * 16;

    c.body_bytes = GROUP + PACK_PLANE * (c.width + (T == DTYPE_F16 ? 3 : 0)) + 16 * c.low_units;
    c.entry = c.top | (PACK_CODES + c.width) << 8 | c.escapes << 11 | c.low_units << 22;
    c.raw = !c.zero && c.body_bytes + c.escapes >= whole;
    if (c.zero || c.raw) {
        c.body_bytes = c.raw ? whole : 0;
        c.entry = c.raw ? PACK_RAW << 8 : 0;
        c.escapes = c.escape_mask = 0;
    }
}

/* The low halves of f32. */
__device__ __forceinline__ void pack_write_low(uint32_t (&low)[16], const pack_choice &c,
                                               uint32_t lane, uint32_t *to) {
    if (c.low_units == 0)
        return;
    if (c.low_units == PACK_LOW_FULL) {
#pragma unroll
        for (int j = 0; j < 4; j++)
            ((uint4 *)to)[j * 32 + lane] =
                make_uint4(low[4 * j], low[4 * j + 1], low[4 * j + 2], low[4 * j + 3]);
        return;
    }
    uint32_t x[16], code = c.kept == 0 ? 0 : c.kept - 1, at = 4;

#pragma unroll
    for (int k = 0; k < 16; k++)
        x[pack_bit(k)] = low[k];
    transpose_halves(x);
#pragma unroll
    for (int b = 0; b < 4; b++) {
        uint32_t m = __ballot_sync(ALL_LANES, code >> b & 1);

        if (lane == (uint32_t)b)
            to[b] = m;
    }
#pragma unroll
    for (int j = 0; j < 16; j++) {
        uint32_t has = __ballot_sync(ALL_LANES, c.kept > (uint32_t)j);

        if (c.kept > (uint32_t)j)
            to[at + __popc(has & ((1u << lane) - 1))] = x[15 - j];
        at += __popc(has);
    }
    if (at + lane < c.low_units * 4)
        to[at + lane] = 0;
}

/* A raw group: the elements as they came, missing ones as zero bits. */
template <enum dtype T>
__device__ __forceinline__ void pack_write_raw(const pack_halves<T> &h, uint32_t body_bytes,
                                               uint32_t count, uint32_t lane, uint4 *body) {
    share<T> s;

    pack_join<T>(h, s);
    if (count < GROUP)
        clear_missing<T>(s, count, lane);
#pragma unroll
    for (uint32_t j = 0; j < element<T>::loads; j++) {
        if ((j * 32 + lane) * 16 < body_bytes)
            body[j * 32 + lane] =
                make_uint4(s.w[4 * j], s.w[4 * j + 1], s.w[4 * j + 2], s.w[4 * j + 3]);
    }
}

/* Body and escapes of a group that is neither zero nor raw. exponent(e) gives the exponent of the
 * group's element e from wherever it can be indexed. */
template <enum dtype T, class Exponent>
__device__ __forceinline__ void pack_write(pack_halves<T> &h, const pack_choice &c, uint32_t lane,
                                           unsigned char *body, unsigned char *escapes,
                                           pack_list &list, Exponent exponent) {
    uint32_t bytes[8];

#pragma unroll
    for (int k = 0; k < 8; k++) {
        uint32_t l = __byte_perm(h.w[2 * k], h.w[2 * k + 1], 0x6420);
        uint32_t u = __byte_perm(h.w[2 * k], h.w[2 * k + 1], 0x7531);

        bytes[k] = T == DTYPE_F16 ? l : pick_bits(0x7f7f7f7fu, l, u);
    }
    ((uint4 *)body)[lane] = make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
    ((uint4 *)body)[32 + lane] = make_uint4(bytes[4], bytes[5], bytes[6], bytes[7]);
    uint32_t *planes = (uint32_t *)(body + GROUP);

#pragma unroll
    for (uint32_t b = 0; b < 4; b++)
        if (b < c.width)
            planes[b * 32 + lane] = c.plane[b];
    planes += 32 * c.width;
    if (T == DTYPE_F16) {
        uint32_t x[3] = {0, 0, 0};

#pragma unroll
        for (int k = 0; k < 16; k++) {
            x[0] |= (h.w[k] >> 8 & 0x10001u) << pack_bit(k);
            x[1] |= (h.w[k] >> 9 & 0x10001u) << pack_bit(k);
            x[2] |= (h.w[k] >> 15 & 0x10001u) << pack_bit(k);
        }
#pragma unroll
        for (int b = 0; b < 3; b++)
            planes[b * 32 + lane] = x[b];
    }
    if constexpr (T == DTYPE_F32)
        pack_write_low(h.low, c, lane, planes);

    if (c.escapes != 0)
        for_escapes(c.escape_mask, lanes_up_to(__popc(c.escape_mask)), c.escapes, lane, list,
                    [&](uint32_t n, uint32_t at) {
                        uint32_t i = pack_bit(at & 15) * 2 + (at >> 4 & 1);

                        escapes[n] = (unsigned char)exponent(element<T>::at(at >> 5, i));
                    });
}

#endif
