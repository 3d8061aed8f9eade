/*
 * sparse.c: data that is mostly zero: where the others are, and the others. Zero means that all
 * bits are: a negative zero is a value, so every bit comes back.
 *
 *     slot   +--------+--------------+---------------+-----+--------+--------+----
 *            | header | tile offsets | group entries | pad | tile 0 | tile 1 | ...
 *            +--------+--------------+---------------+-----+--------+--------+----
 *             32 B     4 B a tile     4 B a group    to 32  multiples of 32 B
 *
 * A group of 1,024 elements is shared out over 32 lanes as a GPU warp loads it, 16 bytes a lane and
 * row. Bit i of a lane's word stands for its element i. Words that are zero are left out, so data
 * with a value in a thousand costs little more than the values.
 *
 *     body   +---------+-----------------------+-----+--------------------------------+-----+
 *            | present | words of the lanes    | pad | values: lane 0's in the order  | pad |
 *            | u32     | that `present` names  |     | of its bits, then lane 1's ... |     |
 *            +---------+-----------------------+-----+--------------------------------+-----+
 *             bit l: lane l                     to an element                          to 16
 *            or the raw elements where that is no larger; a group of zeros has no body at all
 *
 * A warp finds its values by a prefix sum over the bits of 32 words. Tiles decode independently.
 */
#include "kernels/bounded.h"
#include "kernels/half.h"

#define LANES      32u
#define ROW_BYTES  16u /* of a lane */
#define BODY_UNIT  16u
#define ENTRY_RAW  (UINT32_C(1) << 17)
#define MAX_BYTES  8u /* of an element */
#define GROUP_MOST (GROUP_ELEMS * MAX_BYTES)

/* What a group entry says; bits from the lowest: values 11, words 6. Or ENTRY_RAW, or 0: zeros. */
struct entry {
    uint32_t values, words;
};

static struct entry entry_from(uint32_t bits) {
    return (struct entry){bits & 2047, bits >> 11};
}

/* Where the values begin in a body. */
static uint32_t values_at(uint32_t size, uint32_t words) {
    return (uint32_t)round_up(4 + 4 * words, size);
}

static uint32_t body_bytes(uint32_t size, struct entry e) {
    return (uint32_t)round_up(values_at(size, e.words) + e.values * size, BODY_UNIT);
}

static uint32_t raw_bytes(uint32_t size, uint32_t count) {
    return (uint32_t)round_up(count * size, BODY_UNIT);
}

/* Elements that a lane has in a row. */
VECTOR_BODY uint32_t row_elems(uint32_t size) {
    return ROW_BYTES / size;
}

/* Where element i of a lane is in its group. */
VECTOR_BODY uint32_t element_of(uint32_t size, uint32_t lane, uint32_t i) {
    return (i / row_elems(size) * LANES + lane) * row_elems(size) + i % row_elems(size);
}

/* ---- encoding ---- */

VECTOR_BODY bool is_value(uint32_t size, const uint8_t *at, uint32_t i) {
    if (size == 1)
        return at[i] != 0;
    if (size == 2)
        return ((const any_u16 *)at)[i] != 0;
    if (size == 4)
        return ((const any_u32 *)at)[i] != 0;
    return ((const any_u64 *)at)[i] != 0;
}

VECTOR_BODY void copy_value(uint32_t size, uint8_t *to, uint32_t i, const uint8_t *from,
                            uint32_t j) {
    memcpy(to + i * size, from + j * size, size);
}

/* The words of a whole group; how many values there are, and how many words are not 0. */
VECTOR_BODY struct entry mark_values(uint32_t size, const uint8_t *src, uint32_t *words) {
    struct entry e = {0, 0};

    memset(words, 0, LANES * sizeof *words);
    for (uint32_t row = 0; row < size * LANES / ROW_BYTES; row++)
        for (uint32_t lane = 0; lane < LANES; lane++, src += ROW_BYTES) {
            uint32_t bits = 0;

            if ((((const any_u64 *)src)[0] | ((const any_u64 *)src)[1]) == 0)
                continue;
            for (uint32_t i = 0; i < row_elems(size); i++)
                bits |= (uint32_t)is_value(size, src, i) << i;
            words[lane] |= bits << row * row_elems(size);
        }
    for (uint32_t lane = 0; lane < LANES; lane++) {
        e.values += (uint32_t)__builtin_popcount(words[lane]);
        e.words += words[lane] != 0;
    }
    return e;
}

/* A body that is smaller than the raw group. */
VECTOR_BODY void write_body(uint32_t size, const uint8_t *src, const uint32_t *words,
                            struct entry e, uint8_t *out) {
    uint32_t start = values_at(size, e.words), bytes = body_bytes(size, e), present = 0, n = 0;
    uint8_t *values = out + start;

    memset(out + 4 + 4 * e.words, 0, start - 4 - 4 * e.words);
    memset(values + e.values * size, 0, bytes - start - e.values * size);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        if (words[lane] == 0)
            continue;
        present |= 1u << lane;
        ((any_u32 *)out)[1 + n++] = words[lane];
        for (uint32_t left = words[lane]; left != 0; left &= left - 1) {
            copy_value(size, values, 0, src, element_of(size, lane, (uint32_t)__builtin_ctz(left)));
            values += size;
        }
    }
    *(any_u32 *)out = present;
}

/* A group of count elements; the bytes of its body. */
VECTOR_BODY uint32_t encode_group(uint32_t size, const uint8_t *src, uint32_t count, uint8_t *out,
                                  uint32_t *entry) {
    uint8_t padded[GROUP_MOST];
    uint32_t words[LANES], raw = raw_bytes(size, count);
    struct entry e;

    if (count < GROUP_ELEMS) {
        memset(padded, 0, GROUP_ELEMS * size);
        memcpy(padded, src, count * size);
        src = padded;
    }
    e = mark_values(size, src, words);
    *entry = e.values | e.words << 11;
    if (e.values == 0)
        return 0;
    if (body_bytes(size, e) < raw) {
        write_body(size, src, words, e, out);
        return body_bytes(size, e);
    }
    *entry = ENTRY_RAW;
    memcpy(out, src, count * size);
    memset(out + count * size, 0, raw - count * size);
    return raw;
}

VECTOR_BODY uint32_t encode_groups(uint32_t size, const uint8_t *src, uint32_t elems, uint8_t *out,
                                   uint32_t *entries) {
    uint32_t bytes = 0;

    for (uint32_t at = 0; at < elems; at += GROUP_ELEMS)
        bytes += encode_group(size, src + at * size, (uint32_t)smaller(elems - at, GROUP_ELEMS),
                              out + bytes, &entries[at / GROUP_ELEMS]);
    return bytes;
}

static uint32_t encode_tile(const struct tile_form *f, const uint8_t *src, uint32_t elems,
                            uint8_t *out, uint32_t *entries) {
    switch (dtype_bytes(f->t)) {
    case 1:
        return encode_groups(1, src, elems, out, entries);
    case 2:
        return encode_groups(2, src, elems, out, entries);
    case 4:
        return encode_groups(4, src, elems, out, entries);
    default:
        return encode_groups(8, src, elems, out, entries);
    }
}

/* ---- decoding ---- */

static const char *measure_tile(const struct tile_form *f, const uint8_t *entries, uint32_t elems,
                                struct tile_size *size) {
    uint32_t bytes = dtype_bytes(f->t);

    for (uint32_t at = 0; at < elems; at += GROUP_ELEMS) {
        uint32_t bits = ((const any_u32 *)entries)[at / GROUP_ELEMS];
        uint32_t raw = raw_bytes(bytes, (uint32_t)smaller(elems - at, GROUP_ELEMS));
        struct entry e = entry_from(bits);

        if (bits == ENTRY_RAW) {
            size->bodies += raw;
            continue;
        }
        if (bits > ENTRY_RAW || e.words > LANES || e.values < e.words || e.values > LANES * e.words)
            return "a group entry has impossible numbers of values and words";
        if (bits != 0 && body_bytes(bytes, e) >= raw)
            return "a group has more values than would go raw";
        size->bodies += bits == 0 ? 0 : body_bytes(bytes, e);
    }
    return NULL;
}

/* The present words, spread over the lanes, are of so many values, none of them beyond count. */
static const char *read_words(uint32_t size, const uint8_t *body, uint32_t count, struct entry e,
                              uint32_t *words) {
    uint32_t present = *(const any_u32 *)body, n = 0, values = 0;

    if ((uint32_t)__builtin_popcount(present) != e.words)
        return "a group has other lanes than its entry says";
    for (uint32_t lane = 0; lane < LANES; lane++) {
        words[lane] = (present >> lane & 1) != 0 ? ((const any_u32 *)body)[1 + n++] : 0;
        values += (uint32_t)__builtin_popcount(words[lane]);
        for (uint32_t left = words[lane]; count < GROUP_ELEMS && left != 0; left &= left - 1)
            if (element_of(size, lane, (uint32_t)__builtin_ctz(left)) >= count)
                return "a group has values behind its last element";
    }
    return values == e.values ? NULL : "a group has other values than its entry says";
}

VECTOR_BODY const char *decode_group(uint32_t size, const uint8_t *body, uint32_t count,
                                     struct entry e, uint8_t *dst) {
    const uint8_t *values = body + values_at(size, e.words);
    uint32_t words[LANES];
    const char *why = read_words(size, body, count, e, words);

    if (why != NULL)
        return why;
    memset(dst, 0, count * size);
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t left = words[lane]; left != 0; left &= left - 1) {
            copy_value(size, dst, element_of(size, lane, (uint32_t)__builtin_ctz(left)), values, 0);
            values += size;
        }
    return NULL;
}

VECTOR_BODY const char *decode_groups(uint32_t size, const uint8_t *entries, uint32_t elems,
                                      const uint8_t *body, uint8_t *dst) {
    for (uint32_t at = 0; at < elems; at += GROUP_ELEMS, dst += GROUP_ELEMS * size) {
        uint32_t bits = ((const any_u32 *)entries)[at / GROUP_ELEMS];
        uint32_t count = (uint32_t)smaller(elems - at, GROUP_ELEMS);
        const char *why;

        if (bits == 0) {
            memset(dst, 0, count * size);
        } else if (bits == ENTRY_RAW) {
            memcpy(dst, body, count * size);
            body += raw_bytes(size, count);
        } else {
            why = decode_group(size, body, count, entry_from(bits), dst);
            if (why != NULL)
                return why;
            body += body_bytes(size, entry_from(bits));
        }
    }
    return NULL;
}

static const char *decode_tile(const struct tile_form *f, const uint8_t *entries, uint32_t elems,
                               const uint8_t *tile, struct tile_size size, uint8_t *dst) {
    (void)size;
    switch (dtype_bytes(f->t)) {
    case 1:
        return decode_groups(1, entries, elems, tile, dst);
    case 2:
        return decode_groups(2, entries, elems, tile, dst);
    case 4:
        return decode_groups(4, entries, elems, tile, dst);
    default:
        return decode_groups(8, entries, elems, tile, dst);
    }
}

/* ---- the row's operations ---- */

static struct tile_form form_of(enum dtype t) {
    return (struct tile_form){
        .magic = codec_sparse_ops.magic,
        .t = t,
        .encode = encode_tile,
        .measure = measure_tile,
        .decode = decode_tile,
    };
}

static enum codec_status sparse_encode(const struct codec_stage *s, enum dtype t, const void *src,
                                       uint64_t elems, void *slot, uint64_t slot_bytes,
                                       uint64_t *need_bytes) {
    struct tile_form f = form_of(t);

    (void)s;
    return tiles_encode(&f, src, elems, slot, slot_bytes, need_bytes);
}

static enum codec_status sparse_decode(const struct codec_stage *s, enum dtype t, const void *slot,
                                       uint64_t slot_bytes, uint64_t elems, void *dst,
                                       const char **reason) {
    struct tile_form f = form_of(t);

    (void)s;
    return tiles_decode(&f, slot, slot_bytes, elems, dst, reason);
}

/* Any cut is right; whole groups are worth having. */
static uint64_t sparse_slice_unit(const struct codec_stage *s, enum dtype t) {
    (void)s, (void)t;
    return GROUP_ELEMS;
}

static uint64_t sparse_worst_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    (void)s;
    return tiles_worst_bytes(t, elems);
}

static double sparse_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                                 double block_max) {
    (void)s, (void)t, (void)abs_value, (void)block_max;
    return 0;
}

const struct codec_ops codec_sparse_ops = {
    .magic = BOUNDED_MAGIC('S', 1),
    .slice_unit = sparse_slice_unit,
    .error_bound = sparse_error_bound,
    .no_picks = "they are not zero",
    .worst_bytes = sparse_worst_bytes,
    .encode = sparse_encode,
    .decode = sparse_decode,
};
