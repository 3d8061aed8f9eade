/*
 * pack_plain.c: the steps of `pack` in plain C, written to be read: this is the reference that
 * every faster version must equal. pack_steps.h says what each step does and draws the orders.
 */
#include "kernels/half.h"
#include "kernels/pack_steps.h"

static uint32_t element_at(enum dtype t, uint32_t lane, uint32_t i) {
    return t == DTYPE_F32 ? i / 4 * 128 + lane * 4 + i % 4 : i / 8 * 256 + lane * 8 + i % 8;
}

static uint32_t code_at(uint32_t lane, uint32_t i) {
    return lane * 32 + i % 2 * 16 + i / 2 % 4 * 4 + i / 8;
}

static uint32_t byte_at(uint32_t lane, uint32_t i) {
    return i / 16 * 512 + lane * 16 + i % 16;
}

static uint32_t half_at(uint32_t lane, uint32_t i) {
    return i / 8 * 256 + lane * 8 + i % 8;
}

/* bf16:  s eeeeeeee mmmmmmm      exponent e, byte s mmmmmmm; the upper half of an f32 alike */
static void split_bf16(uint32_t v, uint8_t *exponent, uint8_t *byte) {
    *exponent = (uint8_t)(v >> 7);
    *byte = (uint8_t)((v >> 8 & 0x80u) | (v & 0x7fu));
}

static uint32_t join_bf16(uint32_t exponent, uint32_t byte) {
    return (byte & 0x80u) << 8 | exponent << 7 | (byte & 0x7fu);
}

/* f16:  s eeeee mm mmmmmmmm      exponent e, extra s mm, byte mmmmmmmm */
static void split_f16(uint32_t v, uint8_t *exponent, uint8_t *extra, uint8_t *byte) {
    *exponent = (uint8_t)(v >> 10 & 31u);
    *extra = (uint8_t)((v >> 13 & 4u) | (v >> 8 & 3u));
    *byte = (uint8_t)v;
}

static uint32_t join_f16(uint32_t exponent, uint32_t extra, uint32_t byte) {
    return (extra & 4u) << 13 | (exponent & 31u) << 10 | (extra & 3u) << 8 | byte;
}

static bool split(enum dtype t, const void *src, struct pack_split *s, uint8_t *bytes) {
    uint32_t any = 0;

    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t at = element_at(t, lane, i), c = code_at(lane, i), b = byte_at(lane, i);
            uint32_t v = t == DTYPE_F32 ? ((const any_u32 *)src)[at] : ((const any_u16 *)src)[at];

            any |= v;
            if (t == DTYPE_F16) {
                split_f16(v, &s->exponents[c], &s->extra[c], &bytes[b]);
                continue;
            }
            if (t == DTYPE_F32) {
                s->low[half_at(lane, i)] = (uint16_t)v;
                v >>= 16;
            }
            split_bf16(v, &s->exponents[c], &bytes[b]);
        }
    return any != 0;
}

static void join(enum dtype t, const struct pack_split *s, const uint8_t *bytes, void *dst) {
    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t at = element_at(t, lane, i), c = code_at(lane, i), b = byte_at(lane, i);

            if (t == DTYPE_F16)
                ((any_u16 *)dst)[at] = (uint16_t)join_f16(s->exponents[c], s->extra[c], bytes[b]);
            else if (t == DTYPE_BF16)
                ((any_u16 *)dst)[at] = (uint16_t)join_bf16(s->exponents[c], bytes[b]);
            else
                ((any_u32 *)dst)[at] =
                    join_bf16(s->exponents[c], bytes[b]) << 16 | s->low[half_at(lane, i)];
        }
}

static uint32_t largest(const uint8_t *exponents) {
    uint32_t most = 0;

    for (uint32_t c = 0; c < PACK_GROUP; c++)
        most = exponents[c] > most ? exponents[c] : most;
    return most;
}

static uint32_t count_below(const uint8_t *exponents, uint32_t top, uint32_t distance) {
    uint32_t count = 0;

    for (uint32_t c = 0; c < PACK_GROUP; c++)
        count += top - exponents[c] >= distance;
    return count;
}

static void write_planes(const uint8_t *values, uint32_t width, uint8_t *words) {
    for (uint32_t b = 0; b < width; b++)
        for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
            uint32_t word = 0;

            for (uint32_t bit = 0; bit < 32; bit++)
                word |= (uint32_t)(values[lane * 32 + bit] >> b & 1) << bit;
            ((any_u32 *)words)[b * PACK_LANES + lane] = word;
        }
}

static void read_planes(const uint8_t *words, uint32_t width, uint8_t *values) {
    memset(values, 0, PACK_GROUP);
    for (uint32_t b = 0; b < width; b++)
        for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
            uint32_t word = ((const any_u32 *)words)[b * PACK_LANES + lane];

            for (uint32_t bit = 0; bit < 32; bit++)
                values[lane * 32 + bit] |= (uint8_t)((word >> bit & 1) << b);
        }
}

static void find(const uint8_t *values, uint32_t mark, uint32_t *masks) {
    for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
        masks[lane] = 0;
        for (uint32_t bit = 0; bit < 32; bit++)
            masks[lane] |= (uint32_t)(values[lane * 32 + bit] == mark) << bit;
    }
}

static void low_or(const uint16_t *low, uint16_t *ors) {
    for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
        ors[lane] = 0;
        for (uint32_t i = 0; i < 32; i++)
            ors[lane] |= low[half_at(lane, i)];
    }
}

static void write_low(const uint16_t *low, uint32_t *words) {
    memset(words, 0, PACK_LOW_PLANES * PACK_LANES * sizeof *words);
    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        for (uint32_t i = 0; i < 32; i++)
            for (uint32_t j = 0; j < PACK_LOW_PLANES; j++)
                words[j * PACK_LANES + lane] |= (uint32_t)(low[half_at(lane, i)] >> (15 - j) & 1)
                                                << code_at(0, i);
}

static void read_low(const uint32_t *words, uint16_t *low) {
    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t half = 0;

            for (uint32_t j = 0; j < PACK_LOW_PLANES; j++)
                half = half << 1 | (words[j * PACK_LANES + lane] >> code_at(0, i) & 1);
            low[half_at(lane, i)] = (uint16_t)half;
        }
}

const struct pack_steps pack_steps_plain = {
    .split = split,
    .join = join,
    .largest = largest,
    .count_below = count_below,
    .write_planes = write_planes,
    .read_planes = read_planes,
    .find = find,
    .low_or = low_or,
    .write_low = write_low,
    .read_low = read_low,
};
