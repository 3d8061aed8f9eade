/*
 * bounded.c: the header of bounded codecs, and the walk over the tiles of those that have tiles.
 */
#include "kernels/bounded.h"
#include "kernels/half.h"

#define FLAG_OVERFLOW  1u
#define MAX_TILE_BYTES (TILE_ELEMS * 8u)

/* ---- the header ---- */

uint32_t bounded_type(enum dtype t) {
    switch (t) {
    case DTYPE_BF16:
        return 1;
    case DTYPE_F16:
        return 2;
    case DTYPE_F32:
        return 3;
    case DTYPE_F64:
        return 4;
    case DTYPE_I32:
        return 5;
    case DTYPE_I64:
        return 6;
    case DTYPE_U8:
        return 7;
    case DTYPE_COUNT:
        break;
    }
    return 0;
}

void bounded_write_header(uint32_t magic, enum dtype t, uint64_t elems, void *slot, bool marked,
                          uint64_t encoded_bytes) {
    uint8_t *header = slot;

    memset(header, 0, BOUNDED_HEADER_BYTES);
    ((any_u32 *)slot)[0] = magic;
    header[4] = (uint8_t)bounded_type(t);
    header[5] = marked ? FLAG_OVERFLOW : 0;
    ((any_u64 *)slot)[1] = elems;
    ((any_u64 *)slot)[2] = encoded_bytes;
}

const char *bounded_read_header(uint32_t magic, enum dtype t, uint64_t elems, const void *slot,
                                uint64_t *encoded_bytes, bool *marked) {
    const uint8_t *header = slot;

    *encoded_bytes = ((const any_u64 *)slot)[2];
    *marked = header[5] == FLAG_OVERFLOW;
    if (((const any_u32 *)slot)[0] != magic)
        return "not an encoding by this codec, or another version";
    if (header[4] != bounded_type(t))
        return "the header names another element type";
    if (header[5] > FLAG_OVERFLOW)
        return "unknown flags in the header";
    if (((const any_u16 *)slot)[3] != 0 || ((const any_u64 *)slot)[3] != 0)
        return "reserved bytes of the header are not zero";
    if (((const any_u64 *)slot)[1] != elems)
        return "the header names another element count";
    return NULL;
}

enum codec_status bounded_open(uint32_t magic, enum dtype t, uint64_t elems, const void *slot,
                               uint64_t slot_bytes, uint64_t *encoded_bytes, const char **reason) {
    bool marked;

    *reason = bounded_read_header(magic, t, elems, slot, encoded_bytes, &marked);
    if (*reason != NULL)
        return CODEC_MALFORMED;
    if (marked)
        return CODEC_OVERFLOW;
    if (*encoded_bytes > slot_bytes) {
        *reason = CODEC_SHORT_SLOT;
        return CODEC_MALFORMED;
    }
    return CODEC_OK;
}

/* ---- tiles ---- */

struct tile_layout tile_layout_of(uint64_t elems) {
    struct tile_layout l;

    l.groups = (elems + GROUP_ELEMS - 1) / GROUP_ELEMS;
    l.tiles = (elems + TILE_ELEMS - 1) / TILE_ELEMS;
    l.entries_at = BOUNDED_HEADER_BYTES + 4 * l.tiles;
    l.payload_at = round_up(l.entries_at + 4 * l.groups, BOUNDED_UNIT);
    return l;
}

uint64_t tiles_worst_bytes(enum dtype t, uint64_t elems) {
    return tile_layout_of(elems).payload_at + round_up(elems * dtype_bytes(t), BOUNDED_UNIT);
}

/* Encodes a tile to `at` when it fits there, however large it gets; otherwise aside first. The
 * bytes it takes, zeros included; nothing is written past slot_bytes. */
static uint64_t encode_tile(const struct tile_form *f, const uint8_t *src, uint32_t elems,
                            uint8_t *slot, uint64_t slot_bytes, uint64_t at, uint32_t *entries) {
    uint8_t aside[MAX_TILE_BYTES];
    bool direct = at + TILE_ELEMS * dtype_bytes(f->t) <= slot_bytes;
    uint8_t *out = direct ? slot + at : aside;
    uint32_t bytes = f->encode(f, src, elems, out, entries);
    uint32_t padded = (uint32_t)round_up(bytes, BOUNDED_UNIT);

    memset(out + bytes, 0, padded - bytes);
    if (!direct && at + padded <= slot_bytes)
        memcpy(slot + at, aside, padded);
    return padded;
}

enum codec_status tiles_encode(const struct tile_form *f, const void *src, uint64_t elems,
                               void *slot, uint64_t slot_bytes, uint64_t *need_bytes) {
    struct tile_layout l = tile_layout_of(elems);
    uint8_t *to = slot;
    const uint8_t *from = src;
    uint64_t at = l.payload_at;

    for (uint64_t tile = 0; tile < l.tiles; tile++) {
        uint32_t entries[TILE_GROUPS];
        uint32_t count = (uint32_t)smaller(elems - tile * TILE_ELEMS, TILE_ELEMS);
        uint64_t bytes = encode_tile(f, from, count, to, slot_bytes, at, entries);

        if (l.payload_at <= slot_bytes) {
            uint32_t offset = (uint32_t)((at - l.payload_at) / BOUNDED_UNIT);

            memcpy(to + BOUNDED_HEADER_BYTES + 4 * tile, &offset, 4);
            memcpy(to + l.entries_at + 4 * TILE_GROUPS * tile, entries,
                   4 * ((count + GROUP_ELEMS - 1) / GROUP_ELEMS));
        }
        at += bytes;
        from += TILE_ELEMS * dtype_bytes(f->t);
    }
    *need_bytes = at;
    if (l.payload_at <= slot_bytes) {
        uint64_t end = l.entries_at + 4 * l.groups;

        memset(to + end, 0, l.payload_at - end);
    }
    bounded_write_header(f->magic, f->t, elems, slot, at > slot_bytes, at);
    return at <= slot_bytes ? CODEC_OK : CODEC_OVERFLOW;
}

static const char *decode_tiles(const struct tile_form *f, const uint8_t *slot,
                                uint64_t encoded_bytes, uint64_t elems, uint8_t *dst) {
    struct tile_layout l = tile_layout_of(elems);
    uint64_t at = l.payload_at;

    if (encoded_bytes < l.payload_at)
        return "the encoding ends inside its directory";
    for (uint64_t tile = 0; tile < l.tiles; tile++) {
        const uint8_t *entries = slot + l.entries_at + 4 * TILE_GROUPS * tile;
        uint32_t count = (uint32_t)smaller(elems - tile * TILE_ELEMS, TILE_ELEMS);
        uint32_t offset = ((const any_u32 *)(slot + BOUNDED_HEADER_BYTES))[tile];
        struct tile_size size = {0, 0};
        uint64_t bytes;
        const char *why = f->measure(f, entries, count, &size);

        if (why != NULL)
            return why;
        bytes = round_up((uint64_t)size.bodies + size.shared, BOUNDED_UNIT);
        if (offset != (at - l.payload_at) / BOUNDED_UNIT)
            return "a tile offset is not the sum of the tiles before";
        if (bytes > encoded_bytes - at)
            return "a tile reaches past the end of the encoding";
        why = f->decode(f, entries, count, slot + at, size,
                        dst + tile * TILE_ELEMS * dtype_bytes(f->t));
        if (why != NULL)
            return why;
        at += bytes;
    }
    return at == encoded_bytes ? NULL : "the tiles are shorter than the encoding";
}

enum codec_status tiles_decode(const struct tile_form *f, const void *slot, uint64_t slot_bytes,
                               uint64_t elems, void *dst, const char **reason) {
    uint64_t encoded_bytes;
    enum codec_status status =
        bounded_open(f->magic, f->t, elems, slot, slot_bytes, &encoded_bytes, reason);

    if (status != CODEC_OK)
        return status;
    *reason = decode_tiles(f, slot, encoded_bytes, elems, dst);
    return *reason == NULL ? CODEC_OK : CODEC_MALFORMED;
}
