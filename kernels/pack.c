/*
 * pack.c: lossless packing of bf16, f16 and f32 by their exponents.
 *
 * Values that travel in training spread over few binades, but over all mantissas: of the 16 bits of
 * a bf16 gradient, sign and mantissa (8) do not compress and the exponent (8) holds under 3 bits.
 * So sign and mantissa bits are stored as they are, and an exponent as a code of `width` bits: its
 * distance below `top`, the last code standing for an *escape*, an exponent out of the window that
 * is stored apart as a byte. A group of 1,024 elements has its own top and width. There is no
 * histogram and no table, so one pass is enough, and the groups of a tile know each other's sizes
 * from a 4-byte entry each, so tiles decode independently.
 *
 *     slot   +--------+--------------+---------------+-----+--------+--------+----
 *            | header | tile offsets | group entries | pad | tile 0 | tile 1 | ...
 *            +--------+--------------+---------------+-----+--------+--------+----
 *             32 B     4 B a tile     4 B a group    to 32  multiples of 32 B
 *
 *     tile   +--------+--------+-- --+--------+---------------------------+-----+
 *            | body 0 | body 1 | ... | body 7 | escapes of group 0, 1, ...| pad |
 *            +--------+--------+-- --+--------+---------------------------+-----+
 *
 *     body   +------------+---------------+------------------+-------------------------------+
 *            | byte plane | code planes   | f16: sign and 2  | f32: low halves, whole or as  |
 *            | 1,024 B    | 128 B x width | bits, 3 x 128 B  | planes, trailing zeros left   |
 *            +------------+---------------+------------------+-------------------------------+
 *            or the raw elements; a group of zero bits has no body at all
 *
 * FORMAT.md has every field. Encoders make the same choices, so they make the same bytes: choose()
 * below is part of the format.
 */
#include "kernels/codec_ops.h"
#include "kernels/half.h"
#include "kernels/pack_steps.h"

#define MAGIC           UINT32_C(0x01504c53) /* "SLP" and the version */
#define HEADER_BYTES    32u
#define FLAG_OVERFLOW   1u
#define TILE_GROUPS     8u
#define TILE_ELEMS      (TILE_GROUPS * PACK_GROUP)
#define UNIT            32u                 /* of tile offsets */
#define MAX_RAW_BYTES   (UINT64_C(1) << 36) /* so that an offset fits 32 bits */
#define PLANE_BYTES     (PACK_LANES * 4u)
#define LOW_FULL        128u /* 16-byte units of low halves that are stored whole */
#define LOW_HEAD_BYTES  16u
#define MAX_GROUP_BYTES (PACK_GROUP * 4u)
#define MAX_TILE_BYTES  (TILE_GROUPS * MAX_GROUP_BYTES)

/* What a group entry says; bits from the lowest: top 8, mode 3, escapes 11, low 8, zero 2. */
enum mode {
    MODE_ZERO,  /* every bit is 0; the whole entry is 0 */
    MODE_CODES, /* MODE_CODES + width, for widths 0 to 4 */
    MODE_RAW = 7
};
#define MAX_WIDTH 4u

struct entry {
    uint32_t top, mode, escapes, low_units;
};

static uint32_t entry_bits(struct entry e) {
    return e.top | e.mode << 8 | e.escapes << 11 | e.low_units << 22;
}

static struct entry entry_from(uint32_t bits) {
    return (struct entry){bits & 255, bits >> 8 & 7, bits >> 11 & 2047, bits >> 22 & 255};
}

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- where things are in a slot ---- */

struct layout {
    uint64_t groups, tiles;
    uint64_t entries_at, payload_at; /* bytes from the start of the slot */
    uint64_t worst_bytes;
};

static uint32_t raw_group_bytes(enum dtype t, uint32_t count) {
    return (uint32_t)round_up(count * dtype_bytes(t), 16);
}

static struct layout layout_of(enum dtype t, uint64_t elems) {
    struct layout l;

    l.groups = (elems + PACK_GROUP - 1) / PACK_GROUP;
    l.tiles = (elems + TILE_ELEMS - 1) / TILE_ELEMS;
    l.entries_at = HEADER_BYTES + 4 * l.tiles;
    l.payload_at = round_up(l.entries_at + 4 * l.groups, UNIT);
    l.worst_bytes = l.payload_at + round_up(elems * dtype_bytes(t), UNIT);
    return l;
}

static bool goes_raw(uint64_t elems) {
    return elems < PACK_GROUP;
}

static bool too_big(enum dtype t, uint64_t elems) {
    return elems * dtype_bytes(t) > MAX_RAW_BYTES;
}

/* Bytes of a group's body; count is its elements, fewer than PACK_GROUP only in the last one. */
static uint32_t body_bytes(enum dtype t, struct entry e, uint32_t count) {
    uint32_t width = e.mode - MODE_CODES;

    if (e.mode == MODE_ZERO)
        return 0;
    if (e.mode == MODE_RAW)
        return raw_group_bytes(t, count);
    return PACK_GROUP + PLANE_BYTES * (width + (t == DTYPE_F16 ? 3 : 0)) + 16 * e.low_units;
}

/* ---- encoding a group ---- */

/*
 * The window. Without escapes, the narrowest that holds all exponents, up to 3 bits. Otherwise 3
 * bits hung from the largest exponent or from one below (which escapes the few largest values: a
 * bell curve has more to gain at its other end), or 4 bits where that costs fewer bytes.
 */
static struct entry choose(const struct pack_steps *steps, const uint8_t *exponents, uint32_t top) {
    uint32_t from_8 = steps->count_below(exponents, top, 8);
    uint32_t from_7, above, from_16, wide;
    struct entry e = {top, MODE_CODES + 3, 0, 0};

    if (from_8 == 0) {
        while (e.mode > MODE_CODES &&
               steps->count_below(exponents, top, 1u << (e.mode - MODE_CODES - 1)) == 0)
            e.mode--;
        return e;
    }
    from_7 = steps->count_below(exponents, top, 7);
    above = PACK_GROUP - steps->count_below(exponents, top, 1);
    e.escapes = from_7;
    if (above + from_8 < from_7)
        e = (struct entry){top - 1, MODE_CODES + 3, above + from_8, 0};
    if (e.escapes <= PLANE_BYTES)
        return e;
    from_16 = steps->count_below(exponents, top, 16);
    wide = from_16 == 0 ? 0 : steps->count_below(exponents, top, 15);
    if (PLANE_BYTES + wide < e.escapes)
        e = (struct entry){top, MODE_CODES + 4, wide, 0};
    return e;
}

/* A lane keeps this many low bits: all up to the last one that is set anywhere in it. 1 is not
 * among the 16 numbers that fit the 4 bits it is written in; such a lane keeps 2. */
static uint32_t low_kept(uint32_t low_or) {
    uint32_t kept = low_or == 0 ? 0 : 16 - (uint32_t)__builtin_ctz(low_or);

    return kept == 1 ? 2 : kept;
}

/* The low halves of f32 into out; the 16-byte units they take. */
static uint32_t encode_low(const struct pack_steps *steps, const uint16_t *low, uint8_t *out) {
    uint16_t ors[PACK_LANES];
    uint32_t kept[PACK_LANES], planes[PACK_LOW_PLANES * PACK_LANES];
    uint32_t packed[LOW_HEAD_BYTES / 4 + PACK_LOW_PLANES * PACK_LANES + 4];
    uint32_t total = 0, at = LOW_HEAD_BYTES / 4, units;

    steps->low_or(low, ors);
    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        total += kept[lane] = low_kept(ors[lane]);
    if (total == 0)
        return 0;
    units = (LOW_HEAD_BYTES + 4 * total + 15) / 16;
    if (units >= LOW_FULL) {
        memcpy(out, low, 16 * LOW_FULL);
        return LOW_FULL;
    }
    memset(packed, 0, LOW_HEAD_BYTES);
    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        for (uint32_t b = 0; b < 4; b++)
            packed[b] |= ((kept[lane] == 0 ? 0 : kept[lane] - 1) >> b & 1) << lane;
    steps->write_low(low, planes);
    for (uint32_t j = 0; j < PACK_LOW_PLANES; j++)
        for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
            packed[at] = planes[j * PACK_LANES + lane]; /* overwritten by the next if not kept */
            at += kept[lane] > j;
        }
    memset(packed + at, 0, 16);
    memcpy(out, packed, 16 * units);
    return units;
}

static uint32_t write_escapes(const struct pack_steps *steps, const uint8_t *codes, uint32_t mark,
                              const uint8_t *exponents, uint8_t *escapes) {
    uint32_t masks[PACK_LANES], count = 0;

    steps->find(codes, mark, masks);
    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        for (uint32_t m = masks[lane]; m != 0; m &= m - 1)
            escapes[count++] = exponents[lane * 32 + (uint32_t)__builtin_ctz(m)];
    return count;
}

/*
 * Encodes up to PACK_GROUP elements. body has room for a full raw group, escapes for PACK_GROUP
 * bytes. Elements missing from the last group count as having its largest exponent and otherwise
 * zero bits.
 */
static struct entry encode_group(const struct pack_steps *steps, enum dtype t, const uint8_t *src,
                                 uint32_t count, uint8_t *body, uint8_t *escapes) {
    struct pack_split s;
    uint8_t codes[PACK_GROUP], padded[MAX_GROUP_BYTES];
    uint32_t raw_bytes = count * dtype_bytes(t), top, mark;
    const uint8_t *whole = src;
    struct entry e;

    if (count < PACK_GROUP) {
        memcpy(padded, src, raw_bytes);
        memset(padded + raw_bytes, 0, sizeof padded - raw_bytes);
        whole = padded;
    }
    if (!steps->split(t, whole, &s, body))
        return (struct entry){0, MODE_ZERO, 0, 0};
    top = steps->largest(s.exponents);
    if (count < PACK_GROUP) {
        struct pack_split real;
        uint8_t unused[PACK_GROUP];

        /* split all-ones in place of the missing ones to learn where they lie in code order */
        memset(padded, 0, raw_bytes);
        memset(padded + raw_bytes, 0xff, sizeof padded - raw_bytes);
        pack_steps_plain.split(t, padded, &real, unused);
        for (uint32_t c = 0; c < PACK_GROUP; c++)
            if (real.exponents[c] != 0)
                s.exponents[c] = (uint8_t)top;
    }
    e = choose(steps, s.exponents, top);
    body += PACK_GROUP;
    mark = (1u << (e.mode - MODE_CODES)) - 1;
    for (uint32_t c = 0; c < PACK_GROUP; c++) {
        uint8_t below = (uint8_t)(e.top - s.exponents[c]);

        codes[c] = below < mark ? below : (uint8_t)mark;
    }
    steps->write_planes(codes, e.mode - MODE_CODES, body);
    body += PLANE_BYTES * (e.mode - MODE_CODES);
    if (t == DTYPE_F16)
        steps->write_planes(s.extra, 3, body);
    if (t == DTYPE_F32)
        e.low_units = encode_low(steps, s.low, body);
    if (body_bytes(t, e, PACK_GROUP) + e.escapes >= raw_group_bytes(t, count)) {
        body -= PACK_GROUP + PLANE_BYTES * (e.mode - MODE_CODES);
        memcpy(body, src, raw_bytes);
        memset(body + raw_bytes, 0, raw_group_bytes(t, count) - raw_bytes);
        return (struct entry){0, MODE_RAW, 0, 0};
    }
    if (e.escapes != 0)
        write_escapes(steps, codes, mark, s.exponents, escapes);
    return e;
}

/* Encodes the groups of a tile; out has room for TILE_GROUPS full raw groups. The bytes it took. */
static uint32_t encode_tile(const struct pack_steps *steps, enum dtype t, const uint8_t *src,
                            uint32_t elems, uint8_t *out, uint32_t *entries) {
    uint8_t escapes[TILE_ELEMS];
    uint32_t bytes = 0, escape_count = 0, padded;

    for (uint32_t at = 0; at < elems; at += PACK_GROUP) {
        uint32_t count = (uint32_t)smaller(elems - at, PACK_GROUP);
        struct entry e = encode_group(steps, t, src + at * dtype_bytes(t), count, out + bytes,
                                      escapes + escape_count);

        entries[at / PACK_GROUP] = entry_bits(e);
        bytes += body_bytes(t, e, count);
        escape_count += e.escapes;
    }
    memcpy(out + bytes, escapes, escape_count);
    bytes += escape_count;
    padded = (uint32_t)round_up(bytes, UNIT);
    memset(out + bytes, 0, padded - bytes);
    return padded;
}

/* ---- the header ---- */

static uint32_t wire_type(enum dtype t) {
    return t == DTYPE_BF16 ? 1 : t == DTYPE_F16 ? 2 : 3;
}

static void write_header(uint8_t *slot, enum dtype t, uint32_t flags, uint64_t elems,
                         uint64_t encoded_bytes) {
    memset(slot, 0, HEADER_BYTES);
    ((any_u32 *)slot)[0] = MAGIC;
    slot[4] = (uint8_t)wire_type(t);
    slot[5] = (uint8_t)flags;
    ((any_u64 *)slot)[1] = elems;
    ((any_u64 *)slot)[2] = encoded_bytes;
}

/* Why the header is not one of this piece, or NULL. */
static const char *read_header(const uint8_t *slot, enum dtype t, uint64_t elems,
                               uint64_t *encoded_bytes, bool *overflowed) {
    *encoded_bytes = ((const any_u64 *)slot)[2];
    *overflowed = slot[5] == FLAG_OVERFLOW;
    if (((const any_u32 *)slot)[0] != MAGIC)
        return "not a pack encoding, or another version";
    if (slot[4] != wire_type(t))
        return "the header names another element type";
    if (slot[5] > FLAG_OVERFLOW)
        return "unknown flags in the header";
    if (((const any_u16 *)slot)[3] != 0 || ((const any_u64 *)slot)[3] != 0)
        return "reserved bytes of the header are not zero";
    if (((const any_u64 *)slot)[1] != elems)
        return "the header names another element count";
    return NULL;
}

static uint64_t pack_header_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    (void)s;
    return goes_raw(elems) || too_big(t, elems) ? 0 : HEADER_BYTES;
}

static void pack_mark(enum dtype t, uint64_t elems, void *slot, uint64_t need_bytes) {
    write_header(slot, t, FLAG_OVERFLOW, elems, need_bytes);
}

static bool pack_encoded_bytes(enum dtype t, uint64_t elems, const void *slot, uint64_t slot_bytes,
                               uint64_t *bytes, bool *overflowed) {
    (void)slot_bytes;
    return read_header(slot, t, elems, bytes, overflowed) == NULL;
}

/* ---- a piece ---- */

static uint64_t pack_worst_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    (void)s;
    if (goes_raw(elems))
        return elems * dtype_bytes(t);
    if (too_big(t, elems))
        return CODEC_SIZE_ERROR;
    return layout_of(t, elems).worst_bytes;
}

static uint64_t pack_slot_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    uint64_t worst = pack_worst_bytes(s, t, elems);
    uint64_t raw = elems * dtype_bytes(t);
    uint64_t budget = (uint64_t)s->params[0], share;

    if (s->params[0] == CODEC_UNSET || goes_raw(elems))
        return worst;
    /* raw is at most 2^36 and the budget 10^6: the product fits */
    share = (raw * budget + 999999) / 1000000;
    return smaller(HEADER_BYTES + round_up(share, 16), worst);
}

enum codec_status pack_encode_with(const struct pack_steps *steps, enum dtype t, const void *src,
                                   uint64_t elems, void *slot, uint64_t slot_bytes,
                                   uint64_t *need_bytes) {
    struct layout l = layout_of(t, elems);
    uint8_t *to = slot;
    const uint8_t *from = src;
    uint64_t at = l.payload_at;

    for (uint64_t tile = 0; tile < l.tiles; tile++) {
        uint8_t aside[MAX_TILE_BYTES];
        uint32_t entries[TILE_GROUPS];
        uint32_t count = (uint32_t)smaller(elems - tile * TILE_ELEMS, TILE_ELEMS);
        uint64_t full = TILE_ELEMS * dtype_bytes(t);
        bool direct = at + full <= slot_bytes; /* whatever it takes, it fits */
        uint32_t bytes = encode_tile(steps, t, from, count, direct ? to + at : aside, entries);

        if (!direct && at + bytes <= slot_bytes)
            memcpy(to + at, aside, bytes);
        if (l.payload_at <= slot_bytes) {
            uint32_t offset = (uint32_t)((at - l.payload_at) / UNIT);

            memcpy(to + HEADER_BYTES + 4 * tile, &offset, 4);
            memcpy(to + l.entries_at + 4 * TILE_GROUPS * tile, entries,
                   4 * ((count + PACK_GROUP - 1) / PACK_GROUP));
        }
        at += bytes;
        from += full;
    }
    *need_bytes = at;
    if (l.payload_at <= slot_bytes) {
        uint64_t end = l.entries_at + 4 * l.groups;

        memset(to + end, 0, l.payload_at - end);
    }
    write_header(to, t, at <= slot_bytes ? 0 : FLAG_OVERFLOW, elems, at);
    return at <= slot_bytes ? CODEC_OK : CODEC_OVERFLOW;
}

/* ---- decoding ---- */

static const char *decode_low(const struct pack_steps *steps, const uint8_t *in, uint32_t units,
                              uint16_t *low) {
    uint32_t planes[PACK_LOW_PLANES * PACK_LANES], kept[PACK_LANES];
    uint32_t packed[LOW_HEAD_BYTES / 4 + PACK_LOW_PLANES * PACK_LANES + 4];
    uint32_t total = 0, at = LOW_HEAD_BYTES / 4;

    if (units == 0) {
        memset(low, 0, PACK_GROUP * sizeof *low);
        return NULL;
    }
    if (units == LOW_FULL) {
        memcpy(low, in, PACK_GROUP * sizeof *low);
        return NULL;
    }
    memcpy(packed, in, 16 * units);
    for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
        uint32_t n = (packed[0] >> lane & 1) | (packed[1] >> lane & 1) << 1 |
                     (packed[2] >> lane & 1) << 2 | (packed[3] >> lane & 1) << 3;

        total += kept[lane] = n == 0 ? 0 : n + 1;
    }
    if ((LOW_HEAD_BYTES + 4 * total + 15) / 16 != units)
        return "the low planes of a group do not have the size in its entry";
    for (uint32_t j = 0; j < PACK_LOW_PLANES; j++)
        for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
            uint32_t has = kept[lane] > j;

            planes[j * PACK_LANES + lane] = packed[at] & (0u - has);
            at += has;
        }
    steps->read_low(planes, low);
    return NULL;
}

/* Puts the escaped exponents where the codes are `mark`; false when there are not exactly count. */
static bool patch_escapes(const struct pack_steps *steps, const uint8_t *codes, uint32_t mark,
                          const uint8_t *escapes, uint32_t count, uint8_t *exponents) {
    uint32_t masks[PACK_LANES], found = 0;

    steps->find(codes, mark, masks);
    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        found += (uint32_t)__builtin_popcount(masks[lane]);
    if (found != count)
        return false;
    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        for (uint32_t m = masks[lane]; m != 0; m &= m - 1)
            exponents[lane * 32 + (uint32_t)__builtin_ctz(m)] = *escapes++;
    return true;
}

/* body and escapes hold what the entry says; dst has room for PACK_GROUP elements. */
static const char *decode_group(const struct pack_steps *steps, enum dtype t, struct entry e,
                                const uint8_t *body, const uint8_t *escapes, void *dst) {
    struct pack_split s;
    uint8_t codes[PACK_GROUP];
    uint32_t width = e.mode - MODE_CODES;
    const uint8_t *planes = body + PACK_GROUP;

    steps->read_planes(planes, width, codes);
    planes += PLANE_BYTES * width;
    for (uint32_t c = 0; c < PACK_GROUP; c++)
        s.exponents[c] = (uint8_t)(e.top - codes[c]);
    if (e.escapes != 0 &&
        !patch_escapes(steps, codes, (1u << width) - 1, escapes, e.escapes, s.exponents))
        return "a group has more or fewer escapes than its entry says";
    if (t == DTYPE_F16)
        steps->read_planes(planes, 3, s.extra);
    if (t == DTYPE_F32) {
        const char *why = decode_low(steps, planes, e.low_units, s.low);

        if (why != NULL)
            return why;
    }
    steps->join(t, &s, body, dst);
    return NULL;
}

/* Why an entry is none, or NULL. */
static const char *check_entry(enum dtype t, uint32_t bits) {
    struct entry e = entry_from(bits);

    if (bits >> 30 != 0)
        return "reserved bits of a group entry are not zero";
    if (e.mode == MODE_ZERO && bits != 0)
        return "the entry of a zero group is not zero";
    if (e.mode > MODE_CODES + MAX_WIDTH && e.mode != MODE_RAW)
        return "unknown mode of a group";
    if (e.mode == MODE_RAW && bits != (uint32_t)MODE_RAW << 8)
        return "the entry of a raw group says more than that";
    if (e.escapes > PACK_GROUP)
        return "a group has more escapes than elements";
    if (e.escapes != 0 && e.mode == MODE_CODES)
        return "a group of one exponent has escapes";
    if (e.low_units > LOW_FULL || (e.low_units != 0 && t != DTYPE_F32))
        return "a group entry has low halves of an impossible size";
    return NULL;
}

/* A tile whose entries are checked and whose bytes all lie in the slot. */
static const char *decode_tile(const struct pack_steps *steps, enum dtype t, const uint8_t *entries,
                               uint32_t elems, const uint8_t *body, const uint8_t *escapes,
                               uint8_t *dst) {
    for (uint32_t at = 0; at < elems; at += PACK_GROUP) {
        struct entry e = entry_from(((const any_u32 *)entries)[at / PACK_GROUP]);
        uint32_t count = (uint32_t)smaller(elems - at, PACK_GROUP);
        uint32_t bytes = count * dtype_bytes(t);
        uint8_t padded[MAX_GROUP_BYTES];
        const char *why = NULL;

        if (e.mode == MODE_ZERO) {
            memset(dst, 0, bytes);
        } else if (e.mode == MODE_RAW) {
            memcpy(dst, body, bytes);
        } else if (count == PACK_GROUP) {
            why = decode_group(steps, t, e, body, escapes, dst);
        } else {
            why = decode_group(steps, t, e, body, escapes, padded);
            memcpy(dst, padded, why == NULL ? bytes : 0);
        }
        if (why != NULL)
            return why;
        body += body_bytes(t, e, count);
        escapes += e.escapes;
        dst += bytes;
    }
    return NULL;
}

/* Checks the entries of a tile; the bytes of its bodies and of its escapes. */
static const char *measure_tile(enum dtype t, const uint8_t *entries, uint32_t elems,
                                uint32_t *bodies, uint32_t *escapes) {
    *bodies = *escapes = 0;
    for (uint32_t at = 0; at < elems; at += PACK_GROUP) {
        uint32_t bits = ((const any_u32 *)entries)[at / PACK_GROUP];
        const char *why = check_entry(t, bits);

        if (why != NULL)
            return why;
        *bodies += body_bytes(t, entry_from(bits), (uint32_t)smaller(elems - at, PACK_GROUP));
        *escapes += entry_from(bits).escapes;
    }
    return NULL;
}

static const char *decode_piece(const struct pack_steps *steps, enum dtype t, const uint8_t *slot,
                                uint64_t encoded_bytes, uint64_t elems, uint8_t *dst) {
    struct layout l = layout_of(t, elems);
    uint64_t at = l.payload_at;

    if (encoded_bytes < l.payload_at)
        return "the encoding ends inside its directory";
    for (uint64_t tile = 0; tile < l.tiles; tile++) {
        const uint8_t *entries = slot + l.entries_at + 4 * TILE_GROUPS * tile;
        uint32_t count = (uint32_t)smaller(elems - tile * TILE_ELEMS, TILE_ELEMS);
        uint32_t offset = ((const any_u32 *)(slot + HEADER_BYTES))[tile];
        uint32_t bodies, escapes;
        uint64_t bytes;
        const char *why = measure_tile(t, entries, count, &bodies, &escapes);

        if (why != NULL)
            return why;
        bytes = round_up((uint64_t)bodies + escapes, UNIT);
        if (offset != (at - l.payload_at) / UNIT)
            return "a tile offset is not the sum of the tiles before";
        if (bytes > encoded_bytes - at)
            return "a tile reaches past the end of the encoding";
        why = decode_tile(steps, t, entries, count, slot + at, slot + at + bodies,
                          dst + tile * TILE_ELEMS * dtype_bytes(t));
        if (why != NULL)
            return why;
        at += bytes;
    }
    return at == encoded_bytes ? NULL : "the tiles are shorter than the encoding";
}

enum codec_status pack_decode_with(const struct pack_steps *steps, enum dtype t, const void *slot,
                                   uint64_t slot_bytes, uint64_t elems, void *dst,
                                   const char **reason) {
    uint64_t encoded_bytes;
    bool overflowed;

    *reason = read_header(slot, t, elems, &encoded_bytes, &overflowed);
    if (*reason != NULL)
        return CODEC_MALFORMED;
    if (overflowed)
        return CODEC_OVERFLOW;
    if (encoded_bytes > slot_bytes)
        *reason = CODEC_SHORT_SLOT;
    else
        *reason = decode_piece(steps, t, slot, encoded_bytes, elems, dst);
    return *reason == NULL ? CODEC_OK : CODEC_MALFORMED;
}

/* ---- the row's operations ---- */

static const struct pack_steps *best_steps(void) {
    const struct pack_steps *avx2 = pack_steps_avx2();

    return avx2 != NULL ? avx2 : &pack_steps_plain;
}

static enum codec_status pack_encode(const struct codec_stage *s, enum dtype t, const void *src,
                                     uint64_t elems, void *slot, uint64_t slot_bytes,
                                     uint64_t *need_bytes) {
    if (goes_raw(elems))
        return codec_none_ops.encode(s, t, src, elems, slot, slot_bytes, need_bytes);
    return pack_encode_with(best_steps(), t, src, elems, slot, slot_bytes, need_bytes);
}

static enum codec_status pack_decode(const struct codec_stage *s, enum dtype t, const void *slot,
                                     uint64_t slot_bytes, uint64_t elems, void *dst,
                                     const char **reason) {
    if (goes_raw(elems))
        return codec_none_ops.decode(s, t, slot, slot_bytes, elems, dst, reason);
    return pack_decode_with(best_steps(), t, slot, slot_bytes, elems, dst, reason);
}

/* Any cut is right; whole groups are worth having. */
static uint64_t pack_slice_unit(const struct codec_stage *s, enum dtype t) {
    (void)s, (void)t;
    return PACK_GROUP;
}

static double pack_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                               double block_max) {
    (void)s, (void)t, (void)abs_value, (void)block_max;
    return 0;
}

const struct codec_ops codec_pack_ops = {
    .slice_unit = pack_slice_unit,
    .error_bound = pack_error_bound,
    .worst_bytes = pack_worst_bytes,
    .slot_bytes = pack_slot_bytes,
    .header_bytes = pack_header_bytes,
    .encode = pack_encode,
    .decode = pack_decode,
    .mark = pack_mark,
    .encoded_bytes = pack_encoded_bytes,
};
