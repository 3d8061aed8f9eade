/*
 * quant.c: block-scaled signed integers, 8, 6 or 4 bits.
 *
 * Values are cut into blocks, counted from the start of the chunk. With M the largest magnitude of
 * a block and Q = 127, 31 or 7 (8, 6 or 4 bits):
 *
 *     scale   = M / Q, an f32, rounded towards zero    so that Q * scale is never above M
 *     inverse = Q / M, an f32, to nearest
 *     q       = v * inverse, one f32 product, to the nearest integer, ties to even
 *     decoded = q * scale, one f32 product, rounded to the type to nearest even
 *
 * Rounded stochastically, q is the integer below or above the product, each as often as it is near,
 * so that errors of many calls or ranks add up to nothing: a random number from between 0 and 1 is
 * added before the fraction is cut off. It is drawn by seed, call and place in the chunk. What the
 * decoder rounds to the type is not drawn: 8 bits in bf16, which has 8 itself, keep up to half a
 * step on average.
 *
 * Two kinds of blocks are special. Below M = 2^-100 the inverse would leave the range: scale and
 * every q are 0. A block that holds an infinity or a NaN has no honest value at all: its scale is
 * the canonical NaN and every q is 0, so that all of it decodes to NaN and the loss is seen.
 *
 *     slot    scales: f32 x blocks                      q: signed, 8, 6 or 4 bits each
 *             +------+------+-- --+------+---------+    +----+----+----+--
 *             |  s0  |  s1  | ... |      | 0 to 16 |    | q0 | q1 | q2 | ...
 *             +------+------+-- --+------+---------+    +----+----+----+--
 *     8 bits: a byte each
 *     4 bits: element 2i in the low half of byte i, 2i + 1 in the high half, a missing last one 0
 *     6 bits: by groups of 1,024 = 4 rows x 32 lanes x 8 elements: a lane of a GPU warp loads 16
 *             bytes a row, or 32 of f32. It writes its 32 low nibbles with one store of 16 bytes
 *             and its 32 high pairs of bits with one of 8; no value crosses to another lane:
 *
 *                 0                                     512                             768
 *                 +---------+---------+-- --+-----------+--------+--------+-- --+---------+
 *                 | lane 0: | lane 1  | ... | lane 31   | lane 0 | lane 1 | ... | lane 31 |
 *                 | 4 words |         |     |           | 4 u16  |        |     |         |
 *                 +---------+---------+-- --+-----------+--------+--------+-- --+---------+
 *
 *             The last group, of n elements, has ceil(n / 32) lanes; missing elements are 0.
 *
 * Every byte string of the right length is a legal encoding: a decoder computes q * scale whatever
 * they are (q = -128 too), and turns a NaN into the canonical one.
 */
#include "kernels/codec_ops.h"
#include "kernels/half.h"
#include "kernels/philox.h"

#include <math.h>

#define BLOCK_MAX 256u
#define M_LEAST   0x1p-100f

/* 6 bits: what a lane has, and what 32 blocks have, which are whole groups for any block. */
#define GROUP_ELEMS 1024u
#define LANE_ELEMS  32u
#define LANE_BYTES  24u
#define ROWS        4u
#define ROW_ELEMS   8u
#define SPAN_BLOCKS 32u

/* What is remembered of a piece that is rounded stochastically. */
struct seed_state {
    uint64_t seed, calls;
};

static bool is_stochastic(const struct codec_stage *s) {
    return s->params[2] == CODEC_ROUND_STOCHASTIC;
}

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
    switch (s->params[0]) {
    case 8:
        return scale_bytes(s, elems) + elems;
    case 6:
        return scale_bytes(s, elems) + (elems + LANE_ELEMS - 1) / LANE_ELEMS * LANE_BYTES;
    default:
        return scale_bytes(s, elems) + (elems + 1) / 2;
    }
}

/*
 * In units of the scale, v * inverse is off the true quotient by at most Q * 2^-22 (three roundings
 * of 2^-24 and the cut scale's 2^-23, less what cancels), the integer by half. The product q *
 * scale and the rounding to the type add an ulp's half of each. abs_value is itself a bound when it
 * is under half a step, or the block under 2^-100; the true block may have a smaller step than the
 * given one, hence the hundredth on top. Stochastic: one for the half.
 */
static double quant_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                                double block_max) {
    double q_max = (double)((1 << (s->params[0] - 1)) - 1);
    double step = block_max / q_max;
    double decoded = fmin(block_max, abs_value + step);
    double error =
        step * ((is_stochastic(s) ? 1 : 0.5) + q_max * 0x1p-22) + decoded * 0x1p-24 + 0x1p-150;

    if (t == DTYPE_BF16)
        error += decoded * 0x1p-8 + 0x1p-134;
    if (t == DTYPE_F16)
        error += decoded * 0x1p-11 + 0x1p-25;
    if (!(block_max <= 0x1.fffffep127))
        return (double)INFINITY;
    if (block_max < (double)M_LEAST)
        return abs_value;
    if (abs_value < 0.49 * step && !is_stochastic(s))
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

/* A piece at work. */
struct quant_piece {
    uint64_t elems;
    uint32_t block, bits;
    any_f32 *scales;
    uint8_t *q;
    const struct seed_state *stochastic; /* NULL: to nearest */
    uint64_t first_elem;
};

/* From between 0 and 1, for elements from `first` on, a multiple of 8 as count mostly is: one
 * drawing makes eight of 16 bits. */
VECTOR_BODY void draw(const struct seed_state *state, uint64_t first, uint32_t count,
                      float *restrict randoms) {
    uint32_t key[2] = {(uint32_t)state->seed, (uint32_t)(state->seed >> 32)};

    for (uint32_t i = 0; i < count; i += 8) {
        uint64_t index = (first + i) / 8;
        uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)state->calls,
                               (uint32_t)(state->calls >> 32)};
        uint32_t words[4];

        philox(counter, key, words);
        for (uint32_t j = 0; j < 8; j++)
            randoms[i + j] = (float)(2 * (words[j / 2] >> 16 * (j % 2) & 0xffff) + 1) * 0x1p-17f;
    }
}

/* The largest integer not above x + random, within q_max of 0. */
VECTOR_BODY int32_t stochastic(float x, float random, float q_max) {
    float y = x + random;
    int32_t cut = (int32_t)y, most = (int32_t)q_max;

    cut -= (float)cut > y;
    cut = cut > most ? most : cut;
    return cut < -most ? -most : cut;
}

VECTOR_BODY float encode_block(enum dtype t, const void *src, uint64_t at, uint32_t count,
                               const struct quant_piece *p, float q_max, int8_t *restrict q) {
    float values[BLOCK_MAX], randoms[BLOCK_MAX];
    uint32_t largest = load_block(t, src, at, count, values);
    float m = f32_from_bits(largest);
    float inverse;

    if (largest >= F32_INF || m < M_LEAST) {
        memset(q, 0, count);
        return largest >= F32_INF ? f32_from_bits(F32_NAN) : 0.0f;
    }
    inverse = q_max / m;
    if (p->stochastic != NULL) {
        draw(p->stochastic, p->first_elem + at, count, randoms);
        for (uint32_t i = 0; i < count; i++)
            q[i] = (int8_t)stochastic(values[i] * inverse, randoms[i], q_max);
    } else {
        for (uint32_t i = 0; i < count; i++)
            q[i] = (int8_t)nearest(values[i] * inverse);
    }
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

/* One group of 6-bit integers, count of them, the rest of its lanes 0; the bytes it takes. q has
 * room for all lanes. */
VECTOR_BODY uint32_t join_sixes(int8_t *restrict q, uint32_t count, uint8_t *restrict out) {
    uint32_t lanes = (count + LANE_ELEMS - 1) / LANE_ELEMS;
    any_u32 *nibbles = (any_u32 *)out;
    any_u16 *pairs = (any_u16 *)(out + 16 * lanes);

    memset(q + count, 0, lanes * LANE_ELEMS - count);
    for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint32_t row = 0; row < ROWS; row++) {
            uint64_t eight, low, high;

            memcpy(&eight, q + (row * lanes + lane) * ROW_ELEMS, sizeof eight);
            low = eight & UINT64_C(0x0f0f0f0f0f0f0f0f); /* a nibble a byte, closed up in steps */
            low = (low | low >> 4) & UINT64_C(0x00ff00ff00ff00ff);
            low = (low | low >> 8) & UINT64_C(0x0000ffff0000ffff);
            high = eight >> 4 & UINT64_C(0x0303030303030303);
            high = (high | high >> 6) & UINT64_C(0x000f000f000f000f);
            high = (high | high >> 12) & UINT64_C(0x000000ff000000ff);
            nibbles[lane * ROWS + row] = (uint32_t)(low | low >> 16);
            pairs[lane * ROWS + row] = (uint16_t)(high | high >> 24);
        }
    return lanes * LANE_BYTES;
}

/* The reverse: all lanes of the group into q; the bytes it took. */
VECTOR_BODY uint32_t split_sixes(const uint8_t *restrict in, uint32_t count, int8_t *restrict q) {
    uint32_t lanes = (count + LANE_ELEMS - 1) / LANE_ELEMS;
    const any_u32 *nibbles = (const any_u32 *)in;
    const any_u16 *pairs = (const any_u16 *)(in + 16 * lanes);

    for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint32_t row = 0; row < ROWS; row++) {
            uint64_t low = nibbles[lane * ROWS + row], high = pairs[lane * ROWS + row], eight;

            low = (low | low << 16) & UINT64_C(0x0000ffff0000ffff);
            low = (low | low << 8) & UINT64_C(0x00ff00ff00ff00ff);
            low = (low | low << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
            high = (high | high << 24) & UINT64_C(0x000000ff000000ff);
            high = (high | high << 12) & UINT64_C(0x000f000f000f000f);
            high = (high | high << 6) & UINT64_C(0x0303030303030303);
            eight = low | high << 4;
            eight = (eight ^ UINT64_C(0x2020202020202020)) + UINT64_C(0x6060606060606060);
            eight ^= UINT64_C(0x8080808080808080); /* the sign of bit 5 into 6 and 7 */
            memcpy(q + (row * lanes + lane) * ROW_ELEMS, &eight, sizeof eight);
        }
    return lanes * LANE_BYTES;
}

/* ---- a piece ---- */

VECTOR_BODY void encode_loop(enum dtype t, const void *src, const struct quant_piece *p) {
    for (uint64_t at = 0, b = 0; at < p->elems; at += p->block, b++) {
        uint32_t count = p->elems - at < p->block ? (uint32_t)(p->elems - at) : p->block;
        int8_t q[BLOCK_MAX];

        if (p->bits == 4) {
            p->scales[b] = encode_block(t, src, at, count, p, 7, q);
            join_nibbles(q, count, p->q + at / 2);
        } else {
            p->scales[b] = encode_block(t, src, at, count, p, 127, (int8_t *)p->q + at);
        }
    }
}

VECTOR_BODY void decode_loop(enum dtype t, const struct quant_piece *p, void *dst) {
    for (uint64_t at = 0, b = 0; at < p->elems; at += p->block, b++) {
        uint32_t count = p->elems - at < p->block ? (uint32_t)(p->elems - at) : p->block;
        int8_t q[BLOCK_MAX];

        if (p->bits == 4) {
            split_nibbles(p->q + at / 2, count, q);
            decode_block(t, q, p->scales[b], count, dst, at);
        } else {
            decode_block(t, (const int8_t *)p->q + at, p->scales[b], count, dst, at);
        }
    }
}

/* 6 bits: 32 blocks at a time, since blocks and groups do not begin together otherwise. */
VECTOR_BODY void encode_sixes(enum dtype t, const void *src, const struct quant_piece *p) {
    int8_t q[SPAN_BLOCKS * BLOCK_MAX];
    uint32_t span = SPAN_BLOCKS * p->block;
    uint8_t *out = p->q;

    for (uint64_t at = 0, b = 0; at < p->elems; at += span) {
        uint32_t here = p->elems - at < span ? (uint32_t)(p->elems - at) : span;

        for (uint32_t i = 0; i < here; i += p->block, b++)
            p->scales[b] = encode_block(t, src, at + i, here - i < p->block ? here - i : p->block,
                                        p, 31, q + i);
        for (uint32_t i = 0; i < here; i += GROUP_ELEMS)
            out += join_sixes(q + i, here - i < GROUP_ELEMS ? here - i : GROUP_ELEMS, out);
    }
}

VECTOR_BODY void decode_sixes(enum dtype t, const struct quant_piece *p, void *dst) {
    int8_t q[SPAN_BLOCKS * BLOCK_MAX];
    uint32_t span = SPAN_BLOCKS * p->block;
    const uint8_t *in = p->q;

    for (uint64_t at = 0, b = 0; at < p->elems; at += span) {
        uint32_t here = p->elems - at < span ? (uint32_t)(p->elems - at) : span;

        for (uint32_t i = 0; i < here; i += GROUP_ELEMS)
            in += split_sixes(in, here - i < GROUP_ELEMS ? here - i : GROUP_ELEMS, q + i);
        for (uint32_t i = 0; i < here; i += p->block, b++)
            decode_block(t, q + i, p->scales[b], here - i < p->block ? here - i : p->block, dst,
                         at + i);
    }
}

VECTOR_BODY void encode_typed(enum dtype t, const void *src, const struct quant_piece *p) {
    if (p->bits == 6)
        encode_sixes(t, src, p);
    else
        encode_loop(t, src, p);
}

VECTOR_BODY void decode_typed(enum dtype t, const struct quant_piece *p, void *dst) {
    if (p->bits == 6)
        decode_sixes(t, p, dst);
    else
        decode_loop(t, p, dst);
}

VECTOR_BODY void encode_any(enum dtype t, const void *src, const struct quant_piece *p) {
    if (t == DTYPE_F32)
        encode_typed(DTYPE_F32, src, p);
    if (t == DTYPE_F16)
        encode_typed(DTYPE_F16, src, p);
    if (t == DTYPE_BF16)
        encode_typed(DTYPE_BF16, src, p);
}

VECTOR_BODY void decode_any(enum dtype t, const struct quant_piece *p, void *dst) {
    if (t == DTYPE_F32)
        decode_typed(DTYPE_F32, p, dst);
    if (t == DTYPE_F16)
        decode_typed(DTYPE_F16, p, dst);
    if (t == DTYPE_BF16)
        decode_typed(DTYPE_BF16, p, dst);
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
        .bits = (uint32_t)s->params[0],
        .scales = (any_f32 *)slot,
        .q = slot + scale_bytes(s, elems),
    };
}

static void encode_piece(const struct codec_stage *s, enum dtype t, const void *src,
                         const struct quant_piece *p) {
    uint64_t used = (p->elems + block_elems(s) - 1) / block_elems(s) * 4;

    memset((uint8_t *)p->scales + used, 0, scale_bytes(s, p->elems) - used);
    if (cpu_has_avx2())
        encode_avx2(t, src, p);
    else
        encode_plain(t, src, p);
}

static enum codec_status quant_encode(const struct codec_stage *s, enum dtype t, const void *src,
                                      uint64_t elems, void *slot, uint64_t slot_bytes,
                                      uint64_t *need_bytes) {
    struct quant_piece p = piece_at(s, elems, slot);

    (void)slot_bytes;
    *need_bytes = quant_bytes(s, t, elems);
    encode_piece(s, t, src, &p);
    return CODEC_OK;
}

/* ---- stochastic ---- */

static uint64_t quant_state_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems,
                                  enum codec_side side) {
    (void)t, (void)elems;
    return is_stochastic(s) && side == CODEC_ENCODER ? sizeof(struct seed_state) : 0;
}

static void quant_state_init(const struct codec_stage *s, enum codec_side side, uint64_t seed,
                             uint8_t *state) {
    struct seed_state begun = {seed, 0};

    (void)s, (void)side;
    memcpy(state, &begun, sizeof begun);
}

static void quant_push(const struct codec_stage *s, enum dtype t, const void *src, uint64_t elems,
                       void *slot, const struct stage_memory *m) {
    struct quant_piece p = piece_at(s, elems, slot);
    struct seed_state state = {0, 0};

    if (m->now != NULL)
        memcpy(&state, m->now, sizeof state);
    p.stochastic = &state;
    p.first_elem = m->first_elem;
    encode_piece(s, t, src, &p);
    state.calls++;
    if (m->next != NULL)
        memcpy(m->next, &state, sizeof state);
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
    .no_numbers = "it rounds values itself, use one",
    .no_picks = "what it loses would escape the error feedback",
    .worst_bytes = quant_bytes,
    .encode = quant_encode,
    .decode = quant_decode,
    .state_bytes = quant_state_bytes,
    .state_init = quant_state_init,
    .push = quant_push,
};
