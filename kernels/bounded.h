/*
 * bounded.h: what the bounded codecs share: the header of a slot, which carries the mark; and, for
 * codecs that cut a piece into tiles of eight groups, the directory and the walk over the tiles.
 * codec.c treats pieces that go raw, sizes and marks alike for all of them. Internal to kernels/.
 *
 *     0        32
 *     +--------+-----------------------------+---------+
 *     | header | directory, payload          | unused  |
 *     +--------+-----------------------------+---------+
 *                                            E         slot size
 */
#ifndef SLUICE_KERNELS_BOUNDED_H
#define SLUICE_KERNELS_BOUNDED_H

#include "kernels/codec_ops.h"

#define BOUNDED_LEAST_ELEMS   1024u /* below, a piece goes raw */
#define BOUNDED_HEADER_BYTES  32u
#define BOUNDED_UNIT          32u                 /* of E and of offsets in a directory */
#define BOUNDED_MAX_RAW_BYTES (UINT64_C(1) << 36) /* so that an offset fits 32 bits */

/* The first word of the header: "SL", the codec, the version. */
#define BOUNDED_MAGIC(letter, version) \
    (UINT32_C(0x4c53) | (uint32_t)(letter) << 16 | (uint32_t)(version) << 24)

static inline uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static inline uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline bool bounded_goes_raw(uint64_t elems) {
    return elems < BOUNDED_LEAST_ELEMS;
}

static inline bool bounded_is_too_big(enum dtype t, uint64_t elems) {
    return elems * dtype_bytes(t) > BOUNDED_MAX_RAW_BYTES;
}

/* The type as the header has it. */
uint32_t bounded_type(enum dtype t);

void bounded_write_header(uint32_t magic, enum dtype t, uint64_t elems, void *slot, bool marked,
                          uint64_t encoded_bytes);

/* Why the header is not one of this piece, or NULL. The slot holds a header at least. */
const char *bounded_read_header(uint32_t magic, enum dtype t, uint64_t elems, const void *slot,
                                uint64_t *encoded_bytes, bool *marked);

/* The start of every decode: OK when the slot holds a whole encoding that is not marked. */
enum codec_status bounded_open(uint32_t magic, enum dtype t, uint64_t elems, const void *slot,
                               uint64_t slot_bytes, uint64_t *encoded_bytes, const char **reason);

/* ---- tiles ---- */

/*
 *     32             32 + 4T          32 + 4T + 4G    payload_at
 *     +--------------+----------------+---------------+--------+--------+----
 *     | tile offsets | group entries  | zeros to 32   | tile 0 | tile 1 | ...
 *     +--------------+----------------+---------------+--------+--------+----
 *
 * Tiles are multiples of 32 bytes and follow each other; an offset counts 32s from payload_at. No
 * tile is larger than the raw elements of its groups, each rounded up to 16 bytes.
 */
#define TILE_GROUPS 8u
#define GROUP_ELEMS 1024u
#define TILE_ELEMS  (TILE_GROUPS * GROUP_ELEMS)

struct tile_layout {
    uint64_t groups, tiles;
    uint64_t entries_at, payload_at; /* bytes from the start of the slot */
};

struct tile_layout tile_layout_of(uint64_t elems);
uint64_t tiles_worst_bytes(enum dtype t, uint64_t elems);

/* The bytes of a tile: first the bodies of its groups, then what they share. */
struct tile_size {
    uint32_t bodies, shared;
};

/* A codec of tiles at work on a type. */
struct tile_form {
    uint32_t magic;
    enum dtype t;
    const void *steps; /* the codec's own */
    /* Writes a tile and its entries, not the zeros behind it; the bytes it took. */
    uint32_t (*encode)(const struct tile_form *f, const uint8_t *src, uint32_t elems, uint8_t *out,
                       uint32_t *entries);
    /* Checks the entries of a tile and adds up its size; why they are none, or NULL. */
    const char *(*measure)(const struct tile_form *f, const uint8_t *entries, uint32_t elems,
                           struct tile_size *size);
    /* Decodes a tile that was measured and lies in the slot. */
    const char *(*decode)(const struct tile_form *f, const uint8_t *entries, uint32_t elems,
                          const uint8_t *tile, struct tile_size size, uint8_t *dst);
};

enum codec_status tiles_encode(const struct tile_form *f, const void *src, uint64_t elems,
                               void *slot, uint64_t slot_bytes, uint64_t *need_bytes);
enum codec_status tiles_decode(const struct tile_form *f, const void *slot, uint64_t slot_bytes,
                               uint64_t elems, void *dst, const char **reason);

#endif
