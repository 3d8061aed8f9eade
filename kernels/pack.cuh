/*
 * pack.cuh: `pack` inside a warp: a group from registers to the pieces of its encoding, and back.
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
    uint32_t tiles;
};

inline pack_layout pack_layout_of(uint64_t elems) {
    uint64_t groups = (elems + GROUP - 1) / GROUP, tiles = (elems + PACK_TILE - 1) / PACK_TILE;
    uint64_t entries_at = PACK_HEADER + 4 * tiles;

    return {elems, entries_at, (entries_at + 4 * groups + PACK_UNIT - 1) / PACK_UNIT * PACK_UNIT,
            (uint32_t)tiles};
}

__device__ __forceinline__ uint32_t pack_count(const pack_layout &l, uint32_t tile, uint32_t warp) {
    uint64_t first = (uint64_t)tile * PACK_TILE + warp * GROUP;

    return first >= l.elems ? 0 : (uint32_t)min((uint64_t)GROUP, l.elems - first);
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

/* Sum over the lanes below this one. */
__device__ __forceinline__ uint32_t lanes_before(uint32_t mine, uint32_t lane) {
    uint32_t sum = mine;

#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        uint32_t t = __shfl_up_sync(ALL_LANES, sum, d);

        sum += lane >= (uint32_t)d ? t : 0;
    }
    return sum - mine;
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

/* choose() of pack.c. top: the largest exponent, in place. */
template <enum dtype T>
__device__ __forceinline__ void pack_window(const uint32_t (&w)[16], uint32_t top, pack_choice &c) {
    constexpr uint32_t shift = pack_type<T>::shift, mask = pack_type<T>::mask;
    constexpr uint32_t eight = (8u << shift) * 0x10001u;
    uint32_t tops = top * 0x10001u, p[4] = {0, 0, 0, 0};

#pragma unroll
    for (int a = 0; a < 4; a++) {
        uint32_t d0 = __vminu2(tops - (w[4 * a] & mask), eight);
        uint32_t d1 = __vminu2(tops - (w[4 * a + 1] & mask), eight);
        uint32_t d2 = __vminu2(tops - (w[4 * a + 2] & mask), eight);
        uint32_t d3 = __vminu2(tops - (w[4 * a + 3] & mask), eight);
        uint32_t x;

        if (shift == 7)
            x = (d0 + d1 * 16) >> 7 | (d2 + d3 * 16) << 1;
        else
            x = d0 >> 10 | d1 >> 6 | d2 >> 2 | d3 << 2;
#pragma unroll
        for (int b = 0; b < 4; b++)
            p[b] |= (x >> b & 0x11111111u) << a;
    }
    uint32_t seven = p[0] & p[1] & p[2], none = ~(p[0] | p[1] | p[2] | p[3]);
    uint32_t counts = __reduce_add_sync(ALL_LANES, __popc(p[3]) | __popc(seven) << 16);
    uint32_t above = __reduce_add_sync(ALL_LANES, __popc(none));
    uint32_t from_8 = counts & 0xffffu, from_7 = from_8 + (counts >> 16);

    c.top = top >> shift;
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
    if (c.escapes <= PACK_PLANE)
        return;

    uint32_t r[4] = {0, 0, 0, 0}, n = 0;

#pragma unroll
    for (int k = 0; k < 16; k++) {
        uint32_t d = tops - (w[k] & mask), low = (d & 0xffffu) >> shift, high = d >> 16 >> shift;
        uint32_t m = min(low, 15u) | min(high, 15u) << 16;

        n += (low >= 15) + (high >= 15) + ((low >= 16) + (high >= 16)) * 0x10000u;
#pragma unroll
        for (int b = 0; b < 4; b++)
            r[b] |= (m >> b & 0x10001u) << pack_bit(k);
    }
    n = __reduce_add_sync(ALL_LANES, n);
    uint32_t wide = n >> 16 == 0 ? 0 : n & 0xffffu;

    if (PACK_PLANE + wide >= c.escapes)
        return;
    c.top = top >> shift;
    c.width = 4;
    c.escapes = wide;
    c.escape_mask = wide != 0 ? r[0] & r[1] & r[2] & r[3] : 0;
#pragma unroll
    for (int b = 0; b < 4; b++)
        c.plane[b] = r[b];
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
    c.zero = __reduce_or_sync(ALL_LANES, any | low_any) == 0;
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

/* Body and escapes of a group that is neither zero nor raw. exponent(i) gives the exponent of the
 * lane's i-th element from wherever it can be indexed. */
template <enum dtype T, class Exponent>
__device__ __forceinline__ void pack_write(pack_halves<T> &h, const pack_choice &c, uint32_t lane,
                                           unsigned char *body, unsigned char *escapes,
                                           Exponent exponent) {
    uint32_t bytes[8];

#pragma unroll
    for (int k = 0; k < 8; k++) {
        uint32_t l = __byte_perm(h.w[2 * k], h.w[2 * k + 1], 0x6420);
        uint32_t u = __byte_perm(h.w[2 * k], h.w[2 * k + 1], 0x7531);

        bytes[k] = T == DTYPE_F16 ? l : (l & 0x7f7f7f7fu) | (u & 0x80808080u);
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

    uint32_t at = lanes_before(__popc(c.escape_mask), lane);

    for (uint32_t m = c.escape_mask; m != 0; m &= m - 1) {
        uint32_t bit = __ffs(m) - 1;

        escapes[at++] = (unsigned char)exponent(pack_bit(bit & 15) * 2 + (bit >> 4));
    }
}

/* ---- decoding a group ---- */

/* Where a group's bytes are; false when its tile is not what FORMAT.md says. */
struct pack_place {
    const unsigned char *body, *escapes;
    uint32_t entry, count, raw_bytes;
};

/* Whole warp; every warp of a tile comes to the same verdict. */
template <enum dtype T>
__device__ __forceinline__ bool pack_locate(const unsigned char *slot, uint64_t slot_bytes,
                                            const pack_layout &l, uint32_t tile, uint32_t warp,
                                            uint32_t lane, pack_place &p, uint32_t *status) {
    const uint32_t *header = (const uint32_t *)slot;
    uint64_t rest = l.elems - (uint64_t)tile * PACK_TILE;
    uint32_t groups = (uint32_t)min((uint64_t)PACK_WARPS, (rest + GROUP - 1) / GROUP);
    uint32_t count = pack_count(l, tile, lane < PACK_WARPS ? lane : PACK_WARPS - 1);
    uint32_t entry = 0, word = lane < 8 ? header[lane] : 0;
    uint64_t encoded =
        (uint64_t)__shfl_sync(ALL_LANES, word, 5) << 32 | __shfl_sync(ALL_LANES, word, 4);
    bool marked = __shfl_sync(ALL_LANES, word, 1) == (pack_type<T>::wire | PACK_MARKED);
    bool right = lane == 0                ? word == PACK_MAGIC
                 : lane == 1              ? word == pack_type<T>::wire || marked
                 : lane == 2              ? word == (uint32_t)l.elems
                 : lane == 3              ? word == (uint32_t)(l.elems >> 32)
                 : lane == 6 || lane == 7 ? word == 0
                                          : true;

    p.count = pack_count(l, tile, warp);
    right = __all_sync(ALL_LANES, right);
    if (right && marked) {
        if (lane == 0)
            atomicOr(status, GPU_OVERFLOW);
        return false;
    }
    right = right && encoded <= slot_bytes && encoded >= l.payload_at;
    uint32_t offset = 0, next = 0;

    if (right) {
        const uint32_t *offsets = header + PACK_HEADER / 4;

        if (lane < groups)
            entry = ((const uint32_t *)(slot + l.entries_at))[(uint64_t)tile * PACK_WARPS + lane];
        offset = offsets[tile];
        next = tile + 1 < l.tiles ? offsets[tile + 1]
                                  : (uint32_t)((encoded - l.payload_at) / PACK_UNIT);
        if (tile == 0 && offset != 0)
            right = false;
        if (tile + 1 == l.tiles && (encoded - l.payload_at) != (uint64_t)next * PACK_UNIT)
            right = false;
    }
    uint32_t mode = entry >> 8 & 7, escapes = entry >> 11 & 2047, low = entry >> 22 & 255;
    uint32_t whole = (count * element<T>::bytes + 15) / 16 * 16, body = 0;

    if (mode == PACK_RAW) {
        body = whole;
        right = right && entry == PACK_RAW << 8;
    } else if (mode == 0) {
        right = right && entry == 0;
    } else {
        uint32_t width = mode - PACK_CODES;

        body = GROUP + PACK_PLANE * (width + (T == DTYPE_F16 ? 3 : 0)) + 16 * low;
        right = right && width <= 4 && entry >> 30 == 0 && escapes <= GROUP &&
                (escapes == 0 || width != 0) && low <= (T == DTYPE_F32 ? PACK_LOW_FULL : 0);
    }
    right = __all_sync(ALL_LANES, right);
    uint32_t size = right ? body | escapes << 16 : 0;
    uint32_t before = __reduce_add_sync(ALL_LANES, lane < warp ? size : 0);
    uint32_t all = __reduce_add_sync(ALL_LANES, size);
    uint32_t units = ((all & 0xffffu) + (all >> 16) + PACK_UNIT - 1) / PACK_UNIT;

    right = right && offset + units == next && offset <= next &&
            (uint64_t)next * PACK_UNIT <= encoded - l.payload_at;
    p.entry = __shfl_sync(ALL_LANES, entry, warp);
    p.raw_bytes = (p.count * element<T>::bytes + 15) / 16 * 16;
    p.body = slot + l.payload_at + (uint64_t)offset * PACK_UNIT + (before & 0xffffu);
    p.escapes =
        slot + l.payload_at + (uint64_t)offset * PACK_UNIT + (all & 0xffffu) + (before >> 16);
    if (!right && lane == 0)
        atomicOr(status, GPU_MALFORMED);
    return right;
}

/* The kept planes of the low halves; false when they do not have the size in the entry. */
__device__ __forceinline__ bool pack_read_low(const uint32_t *from, uint32_t units, uint32_t lane,
                                              uint32_t (&low)[16]) {
    uint32_t x[16], kept, at = 4;

    if (units == PACK_LOW_FULL) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint4 v = __ldcs((const uint4 *)from + j * 32 + lane);

            low[4 * j] = v.x, low[4 * j + 1] = v.y, low[4 * j + 2] = v.z, low[4 * j + 3] = v.w;
        }
        return true;
    }
#pragma unroll
    for (int k = 0; k < 16; k++)
        x[k] = low[k] = 0;
    if (units == 0)
        return true;
    uint4 head = *(const uint4 *)from;

    kept = (head.x >> lane & 1) | (head.y >> lane & 1) << 1 | (head.z >> lane & 1) << 2 |
           (head.w >> lane & 1) << 3;
    kept += kept != 0;
    if ((16 + 4 * __reduce_add_sync(ALL_LANES, kept) + 15) / 16 != units)
        return false;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        uint32_t has = __ballot_sync(ALL_LANES, kept > (uint32_t)j);

        if (kept > (uint32_t)j)
            x[15 - j] = from[at + __popc(has & ((1u << lane) - 1))];
        at += __popc(has);
    }
    transpose_halves(x);
#pragma unroll
    for (int k = 0; k < 16; k++)
        low[k] = x[pack_bit(k)];
    return true;
}

/* Shared memory of a warp that decodes: its exponents, to be patched, and the escapes. */
struct pack_patch {
    uint32_t exponent[8 * 32];
    unsigned char escape[GROUP];
};

/* A group into a lane's share. False, with the status set, when it is malformed. */
template <enum dtype T>
__device__ __forceinline__ bool pack_read(const pack_place &p, uint32_t lane, pack_patch &patch,
                                          share<T> &s, uint32_t *status) {
    constexpr uint32_t shift = pack_type<T>::shift;
    uint32_t mode = p.entry >> 8 & 7;

    if (mode == 0 || mode == PACK_RAW) {
#pragma unroll
        for (uint32_t j = 0; j < element<T>::loads; j++) {
            uint4 v = make_uint4(0, 0, 0, 0);

            if (mode == PACK_RAW && (j * 32 + lane) * 16 < p.raw_bytes)
                v = __ldcs((const uint4 *)p.body + j * 32 + lane);
            s.w[4 * j] = v.x, s.w[4 * j + 1] = v.y, s.w[4 * j + 2] = v.z, s.w[4 * j + 3] = v.w;
        }
        return true;
    }
    uint32_t width = mode - PACK_CODES, top = p.entry & 255, escapes = p.entry >> 11 & 2047;
    const uint32_t *planes = (const uint32_t *)(p.body + GROUP);
    uint4 b0 = __ldcs((const uint4 *)p.body + lane), b1 = __ldcs((const uint4 *)p.body + 32 + lane);
    uint32_t bytes[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
    uint32_t plane[4], extra[3] = {0, 0, 0}, low[16], c[16], w[16], mask = ALL_LANES;
    uint32_t tops = (top | 256u) * 0x10001u; /* no half borrows from the other */
    bool right = true;

#pragma unroll
    for (uint32_t b = 0; b < 4; b++)
        plane[b] = b < width ? __ldcs(planes + b * 32 + lane) : 0;
    planes += width * 32;
    if (T == DTYPE_F16)
#pragma unroll
        for (int b = 0; b < 3; b++)
            extra[b] = __ldcs(planes + b * 32 + lane);
    if (T == DTYPE_F32)
        right = pack_read_low(planes, p.entry >> 22 & 255, lane, low);
    for (uint32_t i = lane; i < escapes; i += 32)
        patch.escape[i] = p.escapes[i];
#pragma unroll
    for (uint32_t b = 0; b < 4; b++)
        mask &= b < width ? plane[b] : ALL_LANES;
#pragma unroll
    for (int a = 0; a < 4; a++) {
        uint32_t n = 0;

#pragma unroll
        for (int b = 0; b < 4; b++)
            n |= (plane[b] >> a & 0x11111111u) << b;
#pragma unroll
        for (int b = 0; b < 4; b++)
            c[4 * a + b] = tops - (n >> 4 * b & 0x000f000fu);
    }
    if (escapes != 0) {
        uint32_t mine = __popc(mask), at = lanes_before(mine, lane);
        unsigned char *exponent = (unsigned char *)patch.exponent;

        right = right && __shfl_sync(ALL_LANES, at + mine, 31) == escapes;
#pragma unroll
        for (int j = 0; j < 8; j++)
            patch.exponent[j * 32 + lane] = __byte_perm(c[2 * j], c[2 * j + 1], 0x6420);
        __syncwarp();
        for (uint32_t m = right ? mask : 0; m != 0; m &= m - 1) {
            uint32_t bit = __ffs(m) - 1, k = pack_bit(bit & 15);

            exponent[(k / 2 * 32 + lane) * 4 + k % 2 * 2 + (bit >> 4)] = patch.escape[at++];
        }
        /* a lane reads back what it wrote alone */
#pragma unroll
        for (int j = 0; j < 8; j++) {
            uint32_t e = patch.exponent[j * 32 + lane];

            c[2 * j] = __byte_perm(e, 0, 0x4140), c[2 * j + 1] = __byte_perm(e, 0, 0x4342);
        }
        __syncwarp();
    }
#pragma unroll
    for (int k = 0; k < 16; k++) {
        uint32_t b = __byte_perm(bytes[k / 2], 0, k & 1 ? 0x4342 : 0x4140);

        if (T == DTYPE_F16)
            w[k] = b | (c[k] << shift & 0x7c007c00u) | (extra[0] >> pack_bit(k) & 0x10001u) << 8 |
                   (extra[1] >> pack_bit(k) & 0x10001u) << 9 |
                   (extra[2] >> pack_bit(k) & 0x10001u) << 15;
        else
            w[k] = (b & 0x007f007fu) | (b << 8 & 0x80008000u) | (c[k] << shift & 0x7f807f80u);
        if constexpr (T == DTYPE_F32) {
            s.w[2 * k] = __byte_perm(low[k], w[k], 0x5410);
            s.w[2 * k + 1] = __byte_perm(low[k], w[k], 0x7632);
        } else {
            s.w[k] = w[k];
        }
    }
    if (!right && lane == 0)
        atomicOr(status, GPU_MALFORMED);
    return right;
}

/* ---- placing tiles ---- */

/*
 * Device memory between the blocks of one encode. Words of tiles and sets are
 * epoch << 34 | kind << 32 | units, so those of earlier launches do not count. The places do not
 * depend on the size of the piece:
 *
 *     | 256 bytes | counts of 32 sets | 32 sets | 1,024 tiles | counts of 32 sets | ...
 */
struct pack_workspace {
    uint32_t *epoch; /* launches so far */
    uint32_t *done;  /* blocks that are through */
    uint32_t *drawn; /* tiles handed out */
    uint32_t *lost;  /* an input was lost */
    uint64_t *end;   /* bytes of the whole encoding */
    uint64_t *words;
};

inline uint64_t pack_workspace_bytes(uint64_t elems) {
    uint64_t tiles = (elems + PACK_TILE - 1) / PACK_TILE;

    return 256 + 8 * (tiles + 64 * ((tiles + 1023) / 1024));
}

inline pack_workspace pack_workspace_at(void *base) {
    uint32_t *w = (uint32_t *)base;

    return {w, w + 16, w + 32, w + 48, (uint64_t *)(w + 50), (uint64_t *)(w + 64)};
}

__device__ __forceinline__ uint64_t *pack_count_of(const pack_workspace &ws, uint32_t set) {
    return ws.words + (uint64_t)(set / 32) * 1088 + set % 32;
}

__device__ __forceinline__ uint64_t *pack_set_of(const pack_workspace &ws, uint32_t set) {
    return pack_count_of(ws, set) + 32;
}

__device__ __forceinline__ uint64_t *pack_tile_of(const pack_workspace &ws, uint32_t tile) {
    return ws.words + (uint64_t)(tile / 1024) * 1088 + 64 + tile % 1024;
}

#define PACK_SIZE UINT64_C(1) /* the word has the units of this tile or set */
#define PACK_SUM  UINT64_C(2) /* the word has the units up to and with this set */

__device__ __forceinline__ uint64_t pack_word(uint32_t epoch, uint64_t kind, uint32_t units) {
    return (uint64_t)epoch << 34 | kind << 32 | units;
}

__device__ __forceinline__ void pack_publish(uint64_t *at, uint64_t word) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}

__device__ __forceinline__ uint64_t pack_observe(const uint64_t *at) {
    uint64_t word;

    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}

/* Announces the size of a tile; the last to arrive of the 32 tiles of a set announces their sum. */
__device__ __forceinline__ void pack_announce(const pack_workspace &ws, uint32_t tile,
                                              uint32_t epoch, uint32_t units) {
    pack_publish(pack_tile_of(ws, tile), pack_word(epoch, PACK_SIZE, units));
    unsigned long long *count = (unsigned long long *)pack_count_of(ws, tile / 32);
    uint64_t was = atomicAdd(count, 1ull << 32 | units);

    if (was >> 32 == 31) {
        pack_publish(pack_set_of(ws, tile / 32),
                     pack_word(epoch, tile < 32 ? PACK_SUM : PACK_SIZE, (uint32_t)was + units));
        *count = 0;
    }
}

/* Units of all tiles before this one. Whole warp. Reads the tiles before it in its set, and sets 32
 * at a time (1,024 tiles) back to one that has its sum. */
__device__ __forceinline__ uint32_t pack_look_back(const pack_workspace &ws, uint32_t tile,
                                                   uint32_t epoch, uint32_t lane) {
    uint64_t own = pack_word(epoch, PACK_SUM, 0), far = own;
    int64_t at = (int64_t)(tile / 32) - 1 - lane;
    bool need = lane < tile % 32;
    uint32_t before;

    do {
        if (need)
            own = pack_observe(pack_tile_of(ws, tile / 32 * 32 + lane));
    } while (__any_sync(ALL_LANES, (uint32_t)(own >> 34) != epoch));
    before = __reduce_add_sync(ALL_LANES, need ? (uint32_t)own : 0);
    for (;; at -= 32) {
        do {
            if (at >= 0)
                far = pack_observe(pack_set_of(ws, (uint32_t)at));
        } while (__any_sync(ALL_LANES, at >= 0 && (uint32_t)(far >> 34) != epoch));
        uint32_t sums = __ballot_sync(ALL_LANES, at < 0 || (far >> 32 & 3) == PACK_SUM);
        uint32_t last = sums != 0 ? __ffs(sums) - 1 : 31;

        before += __reduce_add_sync(ALL_LANES, lane <= last && at >= 0 ? (uint32_t)far : 0);
        if (sums != 0)
            return before;
    }
}

#endif
