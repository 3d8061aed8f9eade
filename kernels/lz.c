/*
 * lz.c: repeated bytes, in the block format of LZ4, for data that repeats itself: unused table
 * rows, padded batches, constant fields, integers. Gradients and weights do not, and go raw.
 *
 *     slot   +--------+--------------+-------+---------+---------+----
 *            | header | 8 B a block  | zeros | block 0 | block 1 | ...
 *            +--------+--------------+-------+---------+---------+----
 *             32 B                    to 32   multiples of 32 B
 *
 * A block holds 64 KiB of elements, the last one what is left: an LZ4 block of its own, which any
 * LZ4 decoder reads, or the raw bytes where that would be no smaller. So blocks are made and read
 * independently, by a thread or a GPU warp each, with a table of 8 KiB.
 *
 * An LZ4 block is a list of sequences, each a run of literals and a match in what came before:
 *
 *     +------------+----------------+----------+---------------+----------------+
 *     | L: 4, M: 4 | L - 15 in 255s | literals | distance, u16 | M - 15 in 255s | ...
 *     +------------+----------------+----------+---------------+----------------+
 *       match length is M + 4; the last sequence ends after its literals
 *
 * The encoder is greedy and looks at element boundaries only. FORMAT.md states its choices:
 * encoders that make the same ones make the same bytes.
 */
#include "kernels/bounded.h"
#include "kernels/half.h"

#define BLOCK_BYTES   65536u
#define RAW_FLAG      (UINT32_C(1) << 31)
#define HASH_BITS     12u
#define MIN_MATCH     4u
#define LAST_LITERALS 5u   /* a block ends with so many literals at least, */
#define MATCH_MARGIN  16u  /* and its last match begins so many bytes before its end (LZ4: 12) */
#define STEP_UP       256u /* so many positions in vain, and the step grows */
#define SLACK         16u  /* copies of whole vectors read and write fewer bytes too many */

struct lz_layout {
    uint64_t blocks, payload_at;
};

static struct lz_layout layout_of(uint64_t raw_bytes) {
    uint64_t blocks = (raw_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;

    return (struct lz_layout){blocks, round_up(BOUNDED_HEADER_BYTES + 8 * blocks, BOUNDED_UNIT)};
}

static uint64_t lz_worst_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    uint64_t raw_bytes = elems * dtype_bytes(t);

    (void)s;
    return layout_of(raw_bytes).payload_at + round_up(raw_bytes, BOUNDED_UNIT);
}

/* ---- encoding a block ---- */

static uint32_t read_u32(const uint8_t *at) {
    return *(const any_u32 *)at;
}

static uint32_t hash_of(uint32_t four) {
    return (four * UINT32_C(2654435761)) >> (32 - HASH_BITS);
}

/* How many bytes agree from a and b on, of at most `most`. */
static uint32_t common_bytes(const uint8_t *a, const uint8_t *b, uint32_t most) {
    uint32_t n = 0;

    for (; n + 8 <= most; n += 8) {
        uint64_t differ = *(const any_u64 *)(a + n) ^ *(const any_u64 *)(b + n);

        if (differ != 0)
            return n + (uint32_t)__builtin_ctzll(differ) / 8;
    }
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

/* n bytes in steps of a vector, reading and writing fewer than SLACK bytes behind them. */
static void copy_loosely(uint8_t *to, const uint8_t *from, uint32_t n) {
    for (uint32_t i = 0; i < n; i += SLACK)
        memcpy(to + i, from + i, SLACK);
}

/* The bytes that a length takes behind the 4 bits of the token. */
static uint32_t length_bytes(uint32_t length) {
    return length < 15 ? 0 : (length - 15) / 255 + 1;
}

static uint8_t *write_length(uint8_t *out, uint32_t length) {
    if (length < 15)
        return out;
    for (length -= 15; length >= 255; length -= 255)
        *out++ = 255;
    *out++ = (uint8_t)length;
    return out;
}

/* Literals and, if distance is not 0, a match behind them; NULL when they end beyond `end`. The
 * block has SLACK bytes behind literals that a match follows, the output behind `end`. */
static uint8_t *write_sequence(uint8_t *out, const uint8_t *end, const uint8_t *literals,
                               uint32_t literal_count, uint32_t distance, uint32_t match_bytes) {
    uint32_t match = distance == 0 ? 0 : match_bytes - MIN_MATCH;
    uint64_t bytes = (uint64_t)1 + length_bytes(literal_count) + literal_count +
                     (distance == 0 ? 0 : 2 + length_bytes(match));

    if (bytes > (uint64_t)(end - out))
        return NULL;
    *out++ = (uint8_t)(smaller(literal_count, 15) << 4 | smaller(match, 15));
    out = write_length(out, literal_count);
    if (distance == 0) {
        memcpy(out, literals, literal_count);
        return out + literal_count;
    }
    copy_loosely(out, literals, literal_count);
    out += literal_count;
    *(any_u16 *)out = (uint16_t)distance;
    return write_length(out + 2, match);
}

/* The next match from *at on, looking every unit bytes, then at wider steps: its place in *at, the
 * place it repeats in *from. False when there is none that may begin before last. */
static bool find_match(const uint8_t *src, uint16_t *table, uint32_t unit, uint32_t last,
                       uint32_t *at, uint32_t *from) {
    uint32_t step = unit, tried = 0;

    for (uint32_t p = *at; p <= last; p += step) {
        uint32_t four = read_u32(src + p), hash = hash_of(four), candidate = table[hash];

        table[hash] = (uint16_t)p;
        if (candidate < p && read_u32(src + candidate) == four) {
            *at = p;
            *from = candidate;
            return true;
        }
        if (++tried % STEP_UP == 0)
            step += unit;
    }
    return false;
}

/* Encodes n bytes; 0 when that takes n bytes or more. */
static uint32_t encode_block(const uint8_t *src, uint32_t n, uint32_t unit, uint8_t *out) {
    uint16_t table[1u << HASH_BITS];
    const uint8_t *end = out + n - 1;
    uint8_t *to = out;
    uint32_t anchor = 0, at = 0, from;

    if (n < MATCH_MARGIN)
        return 0;
    memset(table, 0, sizeof table);
    while (find_match(src, table, unit, n - MATCH_MARGIN, &at, &from)) {
        uint32_t bytes = MIN_MATCH + common_bytes(src + at + MIN_MATCH, src + from + MIN_MATCH,
                                                  n - LAST_LITERALS - at - MIN_MATCH);

        while (at > anchor && from > 0 && src[at - 1] == src[from - 1])
            at--, from--, bytes++;
        to = write_sequence(to, end, src + anchor, at - anchor, at - from, bytes);
        if (to == NULL)
            return 0;
        anchor = at + bytes;
        at = (anchor + unit - 1) & ~(unit - 1);
    }
    to = write_sequence(to, end, src + anchor, n - anchor, 0, 0);
    return to == NULL ? 0 : (uint32_t)(to - out);
}

/* ---- decoding a block ---- */

/* n bytes that begin `distance` before `to` and may run into what is written; room is what is left
 * of the destination. */
static void copy_match(uint8_t *to, uint32_t distance, uint32_t n, uint32_t room) {
    const uint8_t *from = to - distance;

    if (distance >= SLACK && room - n >= SLACK) {
        copy_loosely(to, from, n);
        return;
    }
    /* A short period doubles with every step: each copies what lies behind its source. */
    while (n > distance) {
        memcpy(to, from, distance);
        to += distance;
        n -= distance;
        distance *= 2;
    }
    memcpy(to, from, n);
}

/* A length with its 4 bits in *length; false when it runs past the end or beyond `most`. */
static bool read_length(const uint8_t **in, const uint8_t *end, uint32_t most, uint32_t *length) {
    uint32_t byte = *length == 15 ? 255 : 0;

    while (byte == 255) {
        if (*in == end)
            return false;
        byte = *(*in)++;
        *length += byte;
        if (*length > most)
            return false;
    }
    return *length <= most;
}

static const char *decode_block(const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t n) {
    const uint8_t *in_end = in + in_bytes;
    uint32_t at = 0;

    for (;;) {
        uint32_t literals, match, distance;

        if (in == in_end)
            return "a block ends before its last literals";
        literals = *in >> 4;
        match = *in++ & 15;
        if (!read_length(&in, in_end, n - at, &literals))
            return "a block has more literals than elements";
        if (literals > (uint32_t)(in_end - in))
            return "a block ends inside its literals";
        if ((uint32_t)(in_end - in) - literals >= SLACK && n - at - literals >= SLACK)
            copy_loosely(out + at, in, literals);
        else
            memcpy(out + at, in, literals);
        in += literals;
        at += literals;
        if (in == in_end)
            return at == n ? NULL : "a block has too few elements";
        if (in_end - in < 2)
            return "a block ends inside a distance";
        distance = *(const any_u16 *)in;
        in += 2;
        if (distance == 0 || distance > at)
            return "a match begins before its block";
        if (!read_length(&in, in_end, n, &match) || match + MIN_MATCH > n - at)
            return "a match ends behind its block";
        copy_match(out + at, distance, match + MIN_MATCH, n - at);
        at += match + MIN_MATCH;
    }
}

/* ---- a piece ---- */

static enum codec_status lz_encode(const struct codec_stage *s, enum dtype t, const void *src,
                                   uint64_t elems, void *slot, uint64_t slot_bytes,
                                   uint64_t *need_bytes) {
    uint64_t raw_bytes = elems * dtype_bytes(t);
    struct lz_layout l = layout_of(raw_bytes);
    uint32_t unit = (uint32_t)smaller(dtype_bytes(t), MIN_MATCH);
    uint64_t at = l.payload_at, entries_end = BOUNDED_HEADER_BYTES + 8 * l.blocks;
    uint8_t *to = slot;

    (void)s;
    for (uint64_t b = 0; b < l.blocks; b++) {
        uint8_t aside[BLOCK_BYTES + SLACK];
        const uint8_t *from = (const uint8_t *)src + b * BLOCK_BYTES;
        uint32_t n = (uint32_t)smaller(raw_bytes - b * BLOCK_BYTES, BLOCK_BYTES);
        uint32_t bytes = encode_block(from, n, unit, aside);
        uint32_t kept = bytes != 0 ? bytes : n, padded = (uint32_t)round_up(kept, BOUNDED_UNIT);

        if (at + padded <= slot_bytes) {
            memcpy(to + at, bytes != 0 ? aside : from, kept);
            memset(to + at + kept, 0, padded - kept);
        }
        if (l.payload_at <= slot_bytes) {
            any_u32 *entry = (any_u32 *)(to + BOUNDED_HEADER_BYTES + 8 * b);

            entry[0] = (uint32_t)((at - l.payload_at) / BOUNDED_UNIT);
            entry[1] = bytes != 0 ? bytes : n | RAW_FLAG;
        }
        at += padded;
    }
    *need_bytes = at;
    if (l.payload_at <= slot_bytes)
        memset(to + entries_end, 0, l.payload_at - entries_end);
    bounded_write_header(codec_lz_ops.magic, t, elems, slot, at > slot_bytes, at);
    return at <= slot_bytes ? CODEC_OK : CODEC_OVERFLOW;
}

static const char *decode_blocks(const uint8_t *slot, uint64_t encoded_bytes, uint64_t raw_bytes,
                                 uint8_t *dst) {
    struct lz_layout l = layout_of(raw_bytes);
    uint64_t at = l.payload_at;

    if (encoded_bytes < l.payload_at)
        return "the encoding ends inside its directory";
    for (uint64_t b = 0; b < l.blocks; b++) {
        const any_u32 *entry = (const any_u32 *)(slot + BOUNDED_HEADER_BYTES + 8 * b);
        uint32_t n = (uint32_t)smaller(raw_bytes - b * BLOCK_BYTES, BLOCK_BYTES);
        uint32_t bytes = entry[1] & ~RAW_FLAG;
        bool raw = (entry[1] & RAW_FLAG) != 0;
        const char *why = NULL;

        if (raw ? bytes != n : bytes == 0 || bytes >= n)
            return "a block has an impossible size";
        if (entry[0] != (at - l.payload_at) / BOUNDED_UNIT)
            return "the offset of a block is not the sum of the blocks before";
        if (round_up(bytes, BOUNDED_UNIT) > encoded_bytes - at)
            return "a block reaches past the end of the encoding";
        if (raw)
            memcpy(dst + b * BLOCK_BYTES, slot + at, n);
        else
            why = decode_block(slot + at, bytes, dst + b * BLOCK_BYTES, n);
        if (why != NULL)
            return why;
        at += round_up(bytes, BOUNDED_UNIT);
    }
    return at == encoded_bytes ? NULL : "the blocks are shorter than the encoding";
}

static enum codec_status lz_decode(const struct codec_stage *s, enum dtype t, const void *slot,
                                   uint64_t slot_bytes, uint64_t elems, void *dst,
                                   const char **reason) {
    uint64_t encoded_bytes;
    enum codec_status status =
        bounded_open(codec_lz_ops.magic, t, elems, slot, slot_bytes, &encoded_bytes, reason);

    (void)s;
    if (status != CODEC_OK)
        return status;
    *reason = decode_blocks(slot, encoded_bytes, elems * dtype_bytes(t), dst);
    return *reason == NULL ? CODEC_OK : CODEC_MALFORMED;
}

/* ---- the row's operations ---- */

/* Any cut is right; cuts into parts of a block cost some matches. */
static uint64_t lz_slice_unit(const struct codec_stage *s, enum dtype t) {
    (void)s, (void)t;
    return GROUP_ELEMS;
}

static double lz_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                             double block_max) {
    (void)s, (void)t, (void)abs_value, (void)block_max;
    return 0;
}

const struct codec_ops codec_lz_ops = {
    .magic = BOUNDED_MAGIC('Z', 1),
    .slice_unit = lz_slice_unit,
    .error_bound = lz_error_bound,
    .no_picks = "they do not repeat",
    .worst_bytes = lz_worst_bytes,
    .encode = lz_encode,
    .decode = lz_decode,
};
