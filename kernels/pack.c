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
#include "kernels/bounded.h"
#include "kernels/half.h"
#include "kernels/pack_steps.h"

#define PLANE_BYTES     (PACK_LANES * 4u)
#define LOW_FULL        128u /* 16-byte units of low halves that are stored whole */
#define LOW_HEAD_BYTES  16u
#define MAX_GROUP_BYTES (PACK_GROUP * 4u)

_Static_assert(PACK_GROUP == GROUP_ELEMS, "groups are those of the tiles");

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

static uint32_t raw_group_bytes(enum dtype t, uint32_t count) {
    return (uint32_t)round_up(count * dtype_bytes(t), 16);
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

static uint32_t encode_tile(const struct tile_form *f, const uint8_t *src, uint32_t elems,
                            uint8_t *out, uint32_t *entries) {
    uint8_t escapes[TILE_ELEMS];
    uint32_t bytes = 0, escape_count = 0;

    for (uint32_t at = 0; at < elems; at += PACK_GROUP) {
        uint32_t count = (uint32_t)smaller(elems - at, PACK_GROUP);
        struct entry e = encode_group(f->steps, f->t, src + at * dtype_bytes(f->t), count,
                                      out + bytes, escapes + escape_count);

        entries[at / PACK_GROUP] = entry_bits(e);
        bytes += body_bytes(f->t, e, count);
        escape_count += e.escapes;
    }
    memcpy(out + bytes, escapes, escape_count);
    return bytes + escape_count;
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

static const char *decode_tile(const struct tile_form *f, const uint8_t *entries, uint32_t elems,
                               const uint8_t *body, struct tile_size size, uint8_t *dst) {
    const uint8_t *escapes = body + size.bodies;

    for (uint32_t at = 0; at < elems; at += PACK_GROUP) {
        struct entry e = entry_from(((const any_u32 *)entries)[at / PACK_GROUP]);
        uint32_t count = (uint32_t)smaller(elems - at, PACK_GROUP);
        uint32_t bytes = count * dtype_bytes(f->t);
        uint8_t padded[MAX_GROUP_BYTES];
        const char *why = NULL;

        if (e.mode == MODE_ZERO) {
            memset(dst, 0, bytes);
        } else if (e.mode == MODE_RAW) {
            memcpy(dst, body, bytes);
        } else if (count == PACK_GROUP) {
            why = decode_group(f->steps, f->t, e, body, escapes, dst);
        } else {
            why = decode_group(f->steps, f->t, e, body, escapes, padded);
            memcpy(dst, padded, why == NULL ? bytes : 0);
        }
        if (why != NULL)
            return why;
        body += body_bytes(f->t, e, count);
        escapes += e.escapes;
        dst += bytes;
    }
    return NULL;
}

static const char *measure_tile(const struct tile_form *f, const uint8_t *entries, uint32_t elems,
                                struct tile_size *size) {
    for (uint32_t at = 0; at < elems; at += PACK_GROUP) {
        uint32_t bits = ((const any_u32 *)entries)[at / PACK_GROUP];
        const char *why = check_entry(f->t, bits);

        if (why != NULL)
            return why;
        size->bodies +=
            body_bytes(f->t, entry_from(bits), (uint32_t)smaller(elems - at, PACK_GROUP));
        size->shared += entry_from(bits).escapes;
    }
    return NULL;
}

/* ---- a piece ---- */

static struct tile_form form_of(const struct pack_steps *steps, enum dtype t) {
    return (struct tile_form){
        .magic = codec_pack_ops.magic,
        .t = t,
        .steps = steps,
        .encode = encode_tile,
        .measure = measure_tile,
        .decode = decode_tile,
    };
}

enum codec_status pack_encode_with(const struct pack_steps *steps, enum dtype t, const void *src,
                                   uint64_t elems, void *slot, uint64_t slot_bytes,
                                   uint64_t *need_bytes) {
    struct tile_form f = form_of(steps, t);

    return tiles_encode(&f, src, elems, slot, slot_bytes, need_bytes);
}

enum codec_status pack_decode_with(const struct pack_steps *steps, enum dtype t, const void *slot,
                                   uint64_t slot_bytes, uint64_t elems, void *dst,
                                   const char **reason) {
    struct tile_form f = form_of(steps, t);

    return tiles_decode(&f, slot, slot_bytes, elems, dst, reason);
}

/* ---- the row's operations ---- */

static const struct pack_steps *best_steps(void) {
    const struct pack_steps *avx2 = pack_steps_avx2();

    return avx2 != NULL ? avx2 : &pack_steps_plain;
}

static enum codec_status pack_encode(const struct codec_stage *s, enum dtype t, const void *src,
                                     uint64_t elems, void *slot, uint64_t slot_bytes,
                                     uint64_t *need_bytes) {
    (void)s;
    return pack_encode_with(best_steps(), t, src, elems, slot, slot_bytes, need_bytes);
}

static enum codec_status pack_decode(const struct codec_stage *s, enum dtype t, const void *slot,
                                     uint64_t slot_bytes, uint64_t elems, void *dst,
                                     const char **reason) {
    (void)s;
    return pack_decode_with(best_steps(), t, slot, slot_bytes, elems, dst, reason);
}

/* Any cut is right; whole groups are worth having. */
static uint64_t pack_slice_unit(const struct codec_stage *s, enum dtype t) {
    (void)s, (void)t;
    return PACK_GROUP;
}

static uint64_t pack_worst_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    (void)s;
    return tiles_worst_bytes(t, elems);
}

static double pack_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                               double block_max) {
    (void)s, (void)t, (void)abs_value, (void)block_max;
    return 0;
}

const struct codec_ops codec_pack_ops = {
    .magic = BOUNDED_MAGIC('P', 1),
    .slice_unit = pack_slice_unit,
    .error_bound = pack_error_bound,
    .worst_bytes = pack_worst_bytes,
    .encode = pack_encode,
    .decode = pack_decode,
};
