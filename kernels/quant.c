/*
 * quant.c: block-scaled signed integers, 8 or 4 bits.
 *
 * Values are cut into blocks, counted from the start of the chunk. With M the largest magnitude of
 * a block and Q = 127 (8 bits) or 7 (4 bits):
 *
 *     scale   = M / Q, an f32, rounded towards zero    so that Q * scale is never above M
 *     inverse = Q / M, an f32, to nearest
 *     q       = v * inverse, one f32 product, to the nearest integer, ties to even
 *     decoded = q * scale, one f32 product, rounded to the type to nearest even
 *
 * Two kinds of blocks are special. Below M = 2^-100 the inverse would leave the range: scale and
 * every q are 0. A block that holds an infinity or a NaN has no honest value at all: its scale is
 * the canonical NaN and every q is 0, so that all of it decodes to NaN and the loss is seen.
 *
 *     slot    scales: f32 x blocks                      q: signed, 1 byte or 4 bits each
 *             +------+------+-- --+------+---------+    +----+----+----+--
 *             |  s0  |  s1  | ... |      | 0 to 16 |    | q0 | q1 | q2 | ...
 *             +------+------+-- --+------+---------+    +----+----+----+--
 *     4 bits: element 2i in the low half of byte i, 2i + 1 in the high half, a missing last one 0.
 *
 * Every byte string of the right length is a legal encoding: a decoder computes q * scale whatever
 * they are (q = -128 too), and turns a NaN into the canonical one.
 */
#include "kernels/codec_ops.h"
#include "kernels/half.h"

#include <math.h>

#define BLOCK_MAX 256
#define M_LEAST   0x1p-100f

static uint64_t block_elems(const struct codec_stage *s) {
    return (uint64_t)s->params[1];
}

static uint64_t quant_slice_unit(const struct codec_stage *s, enum dtype t) {
    (void)t;
    return block_elems(s);
}

static uint64_t scale_bytes(const struct codec_stage *s, uint64_t elems) {
    uint64_t blocks = (elems + block_elems(s) - 1) / block_elems(s);

    return (blocks * 4 + 15) / 16 * 16;
}

static uint64_t quant_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    (void)t;
    return scale_bytes(s, elems) + (s->params[0] == 8 ? elems : (elems + 1) / 2);
}

/*
 * In units of the scale, v * inverse is off the true quotient by at most Q * 2^-22 (three roundings
 * of 2^-24 and the cut scale's 2^-23, less what cancels), the integer by half. The product q *
 * scale and the rounding to the type add an ulp's half of each. abs_value is itself a bound when it
 * is under half a step, or the block under 2^-100; the true block may have a smaller step than the
 * given one, hence the hundredth on top.
 */
static double quant_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                                double block_max) {
    double q_max = s->params[0] == 8 ? 127 : 7;
    double step = block_max / q_max;
    double decoded = fmin(block_max, abs_value + step);
    double error = step * (0.5 + q_max * 0x1p-22) + decoded * 0x1p-24 + 0x1p-150;

    if (t == DTYPE_BF16)
        error += decoded * 0x1p-8 + 0x1p-134;
    if (t == DTYPE_F16)
        error += decoded * 0x1p-11 + 0x1p-25;
    if (!(block_max <= 0x1.fffffep127))
        return (double)INFINITY;
    if (block_max < (double)M_LEAST)
        return abs_value;
    if (abs_value < 0.49 * step)
        return abs_value * 1.01;
    return fmax(error, fmin(abs_value, (double)M_LEAST));
}

/* ---- one block ---- */

/* The block as f32, and the bits of its largest magnitude (a NaN is above all others). */
VECTOR_BODY uint32_t load_block(enum dtype t, const void *src, uint64_t at, uint32_t count,
                                float *restrict values) {
    uint32_t largest = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;

        if (t == DTYPE_F32)
            bits = ((const any_u32 *)src)[at + i];
        else if (t == DTYPE_F16)
            bits = f32_bits(f16_to_f32(((const any_u16 *)src)[at + i]));
        else
            bits = (uint32_t)((const any_u16 *)src)[at + i] << 16;
        values[i] = f32_from_bits(bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* M / Q cut to an f32. The quotient of a 24-bit and a 7-bit number is never within a double's
 * rounding of an f32 without being one, so the detour is exact. */
VECTOR_BODY float cut_quotient(float m, float q_max) {
    double exact = (double)m / (double)q_max;
    float near = (float)exact;

    return (double)near > exact ? f32_from_bits(f32_bits(near) - 1) : near;
}

/* x to the nearest integer, ties to even, for |x| < 2^22: the sum has an ulp of 1. */
VECTOR_BODY int32_t nearest(float x) {
    return (int32_t)(f32_bits(x + 12582912.0f) - f32_bits(12582912.0f));
}

VECTOR_BODY float encode_block(enum dtype t, const void *src, uint64_t at, uint32_t count,
                               float q_max, int8_t *restrict q) {
    float values[BLOCK_MAX];
    uint32_t largest = load_block(t, src, at, count, values);
    float m = f32_from_bits(largest);
    float inverse;

    if (largest >= F32_INF || m < M_LEAST) {
        memset(q, 0, count);
        return largest >= F32_INF ? f32_from_bits(F32_NAN) : 0.0f;
    }
    inverse = q_max / m;
    for (uint32_t i = 0; i < count; i++)
        q[i] = (int8_t)nearest(values[i] * inverse);
    return cut_quotient(m, q_max);
}

VECTOR_BODY void decode_block(enum dtype t, const int8_t *restrict q, float scale, uint32_t count,
                              void *restrict dst, uint64_t at) {
    for (uint32_t i = 0; i < count; i++) {
        float value = (float)q[i] * scale;

        if (t == DTYPE_F32)
            ((any_f32 *)dst)[at + i] = f32_quiet(value);
        else if (t == DTYPE_F16)
            ((any_u16 *)dst)[at + i] = f16_from_f32(value);
        else
            ((any_u16 *)dst)[at + i] = bf16_from_f32(value);
    }
}

VECTOR_BODY void join_nibbles(const int8_t *restrict q, uint32_t count, uint8_t *restrict out) {
    for (uint32_t i = 0; i < count / 2; i++)
        out[i] = (uint8_t)((q[2 * i] & 15) | (q[2 * i + 1] & 15) << 4);
    if (count % 2 != 0)
        out[count / 2] = (uint8_t)(q[count - 1] & 15);
}

VECTOR_BODY void split_nibbles(const uint8_t *restrict in, uint32_t count, int8_t *restrict q) {
    for (uint32_t i = 0; i < count / 2; i++) {
        q[2 * i] = (int8_t)(((in[i] & 15) ^ 8) - 8);
        q[2 * i + 1] = (int8_t)(((in[i] >> 4) ^ 8) - 8);
    }
    if (count % 2 != 0)
        q[count - 1] = (int8_t)(((in[count / 2] & 15) ^ 8) - 8);
}

/* ---- a piece ---- */

struct quant_piece {
    uint64_t elems;
    uint32_t block;
    bool nibbles;
    any_f32 *scales;
    uint8_t *q;
};

VECTOR_BODY void encode_loop(enum dtype t, const void *src, const struct quant_piece *p) {
    for (uint64_t at = 0, b = 0; at < p->elems; at += p->block, b++) {
        uint32_t count = p->elems - at < p->block ? (uint32_t)(p->elems - at) : p->block;
        int8_t q[BLOCK_MAX];

        if (p->nibbles) {
            p->scales[b] = encode_block(t, src, at, count, 7, q);
            join_nibbles(q, count, p->q + at / 2);
        } else {
            p->scales[b] = encode_block(t, src, at, count, 127, (int8_t *)p->q + at);
        }
    }
}

VECTOR_BODY void decode_loop(enum dtype t, const struct quant_piece *p, void *dst) {
    for (uint64_t at = 0, b = 0; at < p->elems; at += p->block, b++) {
        uint32_t count = p->elems - at < p->block ? (uint32_t)(p->elems - at) : p->block;
        int8_t q[BLOCK_MAX];

        if (p->nibbles) {
            split_nibbles(p->q + at / 2, count, q);
            decode_block(t, q, p->scales[b], count, dst, at);
        } else {
            decode_block(t, (const int8_t *)p->q + at, p->scales[b], count, dst, at);
        }
    }
}

VECTOR_BODY void encode_any(enum dtype t, const void *src, const struct quant_piece *p) {
    if (t == DTYPE_F32)
        encode_loop(DTYPE_F32, src, p);
    if (t == DTYPE_F16)
        encode_loop(DTYPE_F16, src, p);
    if (t == DTYPE_BF16)
        encode_loop(DTYPE_BF16, src, p);
}

VECTOR_BODY void decode_any(enum dtype t, const struct quant_piece *p, void *dst) {
    if (t == DTYPE_F32)
        decode_loop(DTYPE_F32, p, dst);
    if (t == DTYPE_F16)
        decode_loop(DTYPE_F16, p, dst);
    if (t == DTYPE_BF16)
        decode_loop(DTYPE_BF16, p, dst);
}

static void encode_plain(enum dtype t, const void *src, const struct quant_piece *p) {
    encode_any(t, src, p);
}

static void decode_plain(enum dtype t, const struct quant_piece *p, void *dst) {
    decode_any(t, p, dst);
}

AVX2_VERSION static void encode_avx2(enum dtype t, const void *src, const struct quant_piece *p) {
    encode_any(t, src, p);
}

AVX2_VERSION static void decode_avx2(enum dtype t, const struct quant_piece *p, void *dst) {
    decode_any(t, p, dst);
}

static struct quant_piece piece_at(const struct codec_stage *s, uint64_t elems, uint8_t *slot) {
    return (struct quant_piece){
        .elems = elems,
        .block = (uint32_t)block_elems(s),
        .nibbles = s->params[0] == 4,
        .scales = (any_f32 *)slot,
        .q = slot + scale_bytes(s, elems),
    };
}

static enum codec_status quant_encode(const struct codec_stage *s, enum dtype t, const void *src,
                                      uint64_t elems, void *slot, uint64_t slot_bytes,
                                      uint64_t *need_bytes) {
    struct quant_piece p = piece_at(s, elems, slot);
    uint64_t used = (elems + block_elems(s) - 1) / block_elems(s) * 4;

    (void)slot_bytes;
    *need_bytes = quant_bytes(s, t, elems);
    memset((uint8_t *)slot + used, 0, scale_bytes(s, elems) - used);
    if (cpu_has_avx2())
        encode_avx2(t, src, &p);
    else
        encode_plain(t, src, &p);
    return CODEC_OK;
}

static enum codec_status quant_decode(const struct codec_stage *s, enum dtype t, const void *slot,
                                      uint64_t slot_bytes, uint64_t elems, void *dst,
                                      const char **reason) {
    struct quant_piece p = piece_at(s, elems, (uint8_t *)(uintptr_t)slot);

    (void)slot_bytes, (void)reason;
    if (cpu_has_avx2())
        decode_avx2(t, &p, dst);
    else
        decode_plain(t, &p, dst);
    return CODEC_OK;
}

const struct codec_ops codec_quant_ops = {
    .slice_unit = quant_slice_unit,
    .error_bound = quant_error_bound,
    .worst_bytes = quant_bytes,
    .encode = quant_encode,
    .decode = quant_decode,
};
