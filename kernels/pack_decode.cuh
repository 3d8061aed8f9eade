/*
 * pack_decode.cuh: `pack` inside a warp: from the bytes of a slot, whatever they are, to the
 * elements of a group in registers. pack.cuh is the way there.
 */
#ifndef SLUICE_KERNELS_PACK_DECODE_CUH
#define SLUICE_KERNELS_PACK_DECODE_CUH

#include "kernels/pack.cuh"

/* ---- the directory ---- */

/* What the directory says of a tile. Its sizes are those of group `lane`, bodies in the lower half,
 * escapes in the upper: no tile has 64 KiB. */
struct pack_tile {
    uint64_t at;    /* bytes from the start of the slot */
    uint32_t units; /* of the whole tile */
    uint32_t entry, size, all_sizes;
};

/* The entry of a group of count elements as its size; false when it is none. */
template <enum dtype T>
__device__ __forceinline__ bool pack_measure(uint32_t entry, uint32_t count, uint32_t &size) {
    uint32_t mode = entry >> 8 & 7, escapes = entry >> 11 & 2047, low = entry >> 22 & 255;

    if (mode == 0 || mode >= PACK_RAW - 1) {
        size = mode == 0 ? 0 : (count * element<T>::bytes + 15) / 16 * 16;
        return entry == mode << 8 && mode != PACK_RAW - 1;
    }
    size = (GROUP + PACK_PLANE * (mode - PACK_CODES + (T == DTYPE_F16 ? 3 : 0)) + 16 * low) |
           escapes << 16;
    return entry >> 30 == 0 && escapes <= GROUP && (escapes == 0 || mode != PACK_CODES) &&
           low <= (T == DTYPE_F32 ? PACK_LOW_FULL : 0);
}

/* Reads and checks header and directory. Whole warp; false, with the status set, when the piece is
 * marked or its tile is not what FORMAT.md says. What it loads does not wait for one another. */
template <enum dtype T>
__device__ __forceinline__ bool pack_find_tile(const unsigned char *slot, uint64_t slot_bytes,
                                               const pack_layout &l, uint32_t tile, uint32_t lane,
                                               pack_tile &found, uint32_t *status) {
    const uint32_t *offsets = (const uint32_t *)(slot + PACK_HEADER);
    const uint32_t *entries = (const uint32_t *)(slot + l.entries_at);
    const bool last = tile + 1 == l.tiles, whole = l.payload_at <= slot_bytes;
    const uint4 h0 = *(const uint4 *)slot, h1 = *(const uint4 *)(slot + 16);
    uint32_t elems = pack_tile_elems(l, tile), first = min(elems, lane * GROUP);
    uint32_t offset = 0, next = 0;

    found.entry = 0;
    if (whole) {
        offset = offsets[tile];
        next = last ? 0 : offsets[tile + 1];
        if (first < elems)
            found.entry = entries[(uint64_t)tile * PACK_WARPS + lane];
    }
    bool right = h0.x == PACK_MAGIC && (h0.y & ~PACK_MARKED) == pack_type<T>::wire &&
                 h0.z == (uint32_t)l.elems && h0.w == (uint32_t)(l.elems >> 32) &&
                 (h1.z | h1.w) == 0;

    if (right && (h0.y & PACK_MARKED) != 0) {
        if (lane == 0)
            atomicOr(status, GPU_OVERFLOW);
        return false;
    }
    uint64_t encoded = (uint64_t)h1.y << 32 | h1.x, payload = encoded - l.payload_at;

    right = right && whole && encoded <= slot_bytes && encoded >= l.payload_at;
    if (last) {
        next = (uint32_t)(payload / PACK_UNIT);
        right = right && payload == (uint64_t)next * PACK_UNIT;
    }
    right = pack_measure<T>(found.entry, min(GROUP, elems - first), found.size) && right;
    right = __all_sync(ALL_LANES, right);
    found.all_sizes = __reduce_add_sync(ALL_LANES, right ? found.size : 0);
    found.units =
        ((found.all_sizes & 0xffffu) + (found.all_sizes >> 16) + PACK_UNIT - 1) / PACK_UNIT;
    found.at = l.payload_at + (uint64_t)offset * PACK_UNIT;
    right = right && offset + found.units == next && offset <= next &&
            (uint64_t)next * PACK_UNIT <= payload && (tile != 0 || offset == 0);
    if (!right && lane == 0)
        atomicOr(status, GPU_MALFORMED);
    return right;
}

/* Where a group's bytes are. */
struct pack_place {
    const unsigned char *body, *escapes;
    uint32_t entry;
};

/* before: the sizes of the groups before it. */
__device__ __forceinline__ pack_place pack_place_of(const unsigned char *tile, uint32_t before,
                                                    uint32_t all_sizes, uint32_t entry) {
    return {tile + (before & 0xffffu), tile + (all_sizes & 0xffffu) + (before >> 16), entry};
}

/* Of one warp on its own: all of a tile come to the same verdict. */
template <enum dtype T>
__device__ __forceinline__ bool pack_locate(const unsigned char *slot, uint64_t slot_bytes,
                                            const pack_layout &l, uint32_t tile, uint32_t warp,
                                            uint32_t lane, pack_place &p, uint32_t *status) {
    pack_tile found;

    if (!pack_find_tile<T>(slot, slot_bytes, l, tile, lane, found, status))
        return false;
    uint32_t before = __reduce_add_sync(ALL_LANES, lane < warp ? found.size : 0);

    p = pack_place_of(slot + found.at, before, found.all_sizes,
                      __shfl_sync(ALL_LANES, found.entry, warp));
    return true;
}

/* ---- a group ---- */

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

/* Shared memory of a warp that decodes. */
struct pack_patch {
    uint4 exponent[2][32]; /* of a lane, bytes in the order of pack_read() */
    pack_list list;
};

/* Where the exponent of lane << 5 | bit is in there. */
__device__ __forceinline__ uint32_t pack_patch_at(uint32_t at) {
    return (at << 8 & 0x200) | (at >> 1 & 0x1f0) | (at << 3 & 8) | (at >> 2 & 7);
}

/*
 * The exponents of a lane's 32 elements from their codes, without the escapes. Byte b of x[2 a] is
 * that of the lower half of pair 4 a + b, x[2 a + 1] has the upper ones. Four nibbles choose four
 * bytes out of eight in one instruction: top, top - 1, ... top - 7. Codes of 4 bits take another
 * eight; then bit 3 of a nibble, which makes a byte of copies of the sign, chooses between the two.
 */
__device__ __forceinline__ void pack_exponents(const uint32_t (&plane)[4], uint32_t top,
                                               uint32_t width, uint32_t (&x)[8]) {
    uint32_t tops = top * 0x01010101u, n[4] = {plane[0], plane[1], plane[2], plane[3]};
    uint32_t t0 = __vsub4(tops, 0x03020100u), t4 = __vsub4(tops, 0x07060504u);

    transpose_nibbles(n);
    if (width <= 3) {
#pragma unroll
        for (int a = 0; a < 4; a++) {
            x[2 * a] = pick_bytes(t0, t4, n[a]);
            x[2 * a + 1] = pick_bytes(t0, t4, n[a] >> 16);
        }
        return;
    }
    uint32_t t8 = __vsub4(tops, 0x0b0a0908u), t12 = __vsub4(tops, 0x0f0e0d0cu);

#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t code = n[i / 2] >> i % 2 * 16, low = code & 0x7777u;
        uint32_t far = pick_bytes(0x80808080u, 0x80808080u, code) & 0x7f7f7f7fu;

        x[i] = pick_bits(far | far << 1, pick_bytes(t8, t12, low), pick_bytes(t0, t4, low));
    }
}

/* A group into a lane's share. False, with the status set, when it is malformed. */
template <enum dtype T>
__device__ __forceinline__ bool pack_read(const pack_place &p, uint32_t count, uint32_t lane,
                                          pack_patch &patch, share<T> &s, uint32_t *status) {
    constexpr uint32_t shift = pack_type<T>::shift;
    uint32_t mode = p.entry >> 8 & 7;

    if (mode == 0 || mode == PACK_RAW) {
        uint32_t bytes = mode == 0 ? 0 : (count * element<T>::bytes + 15) / 16 * 16;

#pragma unroll
        for (uint32_t j = 0; j < element<T>::loads; j++) {
            uint4 v = make_uint4(0, 0, 0, 0);

            if ((j * 32 + lane) * 16 < bytes)
                v = __ldcs((const uint4 *)p.body + j * 32 + lane);
            s.w[4 * j] = v.x, s.w[4 * j + 1] = v.y, s.w[4 * j + 2] = v.z, s.w[4 * j + 3] = v.w;
        }
        return true;
    }
    uint32_t width = mode - PACK_CODES, top = p.entry & 255, escapes = p.entry >> 11 & 2047;
    const uint32_t *planes = (const uint32_t *)(p.body + GROUP) + lane;
    uint4 b0 = __ldcs((const uint4 *)p.body + lane), b1 = __ldcs((const uint4 *)p.body + 32 + lane);
    uint32_t bytes[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
    uint32_t plane[4], extra[3] = {0, 0, 0}, low[16], x[8], mask = ALL_LANES;
    uint32_t escape = lane < escapes ? p.escapes[lane] : 0;
    bool right = true;

#pragma unroll
    for (uint32_t b = 0; b < 4; b++)
        plane[b] = b < width ? __ldcs(planes + b * 32) : 0;
    planes += width * 32;
    if (T == DTYPE_F16)
#pragma unroll
        for (int b = 0; b < 3; b++)
            extra[b] = __ldcs(planes + b * 32);
    if (T == DTYPE_F32)
        right = pack_read_low(planes - lane, p.entry >> 22 & 255, lane, low);
#pragma unroll
    for (uint32_t b = 0; b < 4; b++)
        mask &= b < width ? plane[b] : ALL_LANES;
    pack_exponents(plane, top, width, x);
    if (escapes != 0) {
        uint32_t up_to = lanes_up_to(__popc(mask));

        right = right && __shfl_sync(ALL_LANES, up_to, 31) == escapes;
        patch.exponent[0][lane] = make_uint4(x[0], x[1], x[2], x[3]);
        patch.exponent[1][lane] = make_uint4(x[4], x[5], x[6], x[7]);
        for_escapes(mask, up_to, right ? escapes : 0, lane, patch.list,
                    [&](uint32_t n, uint32_t at) {
                        ((unsigned char *)patch.exponent)[pack_patch_at(at)] =
                            (unsigned char)(n < 32 ? escape : p.escapes[n]);
                    });
        uint4 v0 = patch.exponent[0][lane], v1 = patch.exponent[1][lane];

        x[0] = v0.x, x[1] = v0.y, x[2] = v0.z, x[3] = v0.w;
        x[4] = v1.x, x[5] = v1.y, x[6] = v1.z, x[7] = v1.w;
        __syncwarp();
    }
    pack_halves<T> h;

#pragma unroll
    for (int k = 0; k < 16; k++) {
        constexpr uint32_t mask_of = pack_type<T>::mask;
        uint32_t e = __byte_perm(x[k / 4 * 2], x[k / 4 * 2 + 1], k % 4 * 0x1111 + 0x4400) << shift;

        if (T == DTYPE_F16)
            h.w[k] = __byte_perm(bytes[k / 2], 0, k & 1 ? 0x4342 : 0x4140) | (e & mask_of) |
                     (extra[0] >> pack_bit(k) & 0x10001u) << 8 |
                     (extra[1] >> pack_bit(k) & 0x10001u) << 9 |
                     (extra[2] >> pack_bit(k) & 0x10001u) << 15;
        else
            h.w[k] = pick_bits(mask_of, e, __byte_perm(bytes[k / 2], 0, k & 1 ? 0x3322 : 0x1100));
        if (T == DTYPE_F32)
            h.low[T == DTYPE_F32 ? k : 0] = low[k];
    }
    pack_join<T>(h, s);
    if (!right && lane == 0)
        atomicOr(status, GPU_MALFORMED);
    return right;
}

#endif
