/*
 * topk.c: the largest values only, with error feedback: what is not sent is kept and added to the
 * values of the next call, so that nothing is lost for good.
 *
 *     sum       =  value + what was kept, in f32
 *     sent      =  the sums of largest magnitude, rounded to the type
 *     kept next =  sum - sent; the sum itself where nothing was sent
 *
 * The choice is made in blocks of 8,192 values, so many of each as the fraction says, and not over
 * the whole chunk. So chunks can be sliced, a place is 16 bits, and on a GPU one thread block finds
 * its values in shared memory, in one pass over the data, and knows where to write them. Error
 * feedback does not need more: of each block the same share of its energy at least is sent.
 *
 *     slot   +------------------------------+---------+--------------------------+---------+
 *            | values of block 0, block 1, ...| to 16 | places of block 0, ... u16 | to 16 |
 *            +------------------------------+---------+--------------------------+---------+
 *
 * A value that is no number ranks above all others and is not kept: the loss is seen at once, and
 * only once.
 */
#include "kernels/bounded.h"
#include "kernels/half.h"

#include <math.h>

#define BLOCK_ELEMS 8192u
#define MILLION     1000000u

static uint32_t picks_of(const struct codec_stage *s, uint64_t elems) {
    return (uint32_t)((elems * (uint64_t)s->params[0] + MILLION - 1) / MILLION);
}

static uint64_t topk_leaves_elems(const struct codec_stage *s, uint64_t elems) {
    return elems / BLOCK_ELEMS * picks_of(s, BLOCK_ELEMS) + picks_of(s, elems % BLOCK_ELEMS);
}

static uint64_t topk_aside_bytes(const struct codec_stage *s, uint64_t elems) {
    return round_up(2 * topk_leaves_elems(s, elems), 16);
}

static uint64_t topk_state_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems,
                                 enum codec_side side) {
    (void)s, (void)t;
    return side == CODEC_ENCODER ? 4 * elems : 0;
}

/* ---- choosing ---- */

/* Orders sums by their size; every NaN alike, since its bits depend on who added. */
VECTOR_BODY uint32_t magnitude(float f) {
    uint32_t bits = f32_bits(f) & 0x7fffffffu;

    return bits > F32_INF ? 0x7fffffffu : bits;
}

/* Of the sums whose magnitude agrees with *prefix above the digit, the digit of the rank-th
 * largest: it is added to *prefix. The rank among those with this digit is returned. */
static uint32_t find_digit(const float *sums, uint32_t count, uint32_t shift, uint32_t bits,
                           uint32_t rank, uint32_t *prefix) {
    uint32_t counts[1u << 11] = {0}, digit = 1u << bits, above = shift + bits;

    for (uint32_t i = 0; i < count; i++)
        if (magnitude(sums[i]) >> above == *prefix >> above)
            counts[magnitude(sums[i]) >> shift & (digit - 1)]++;
    while (rank > counts[digit - 1]) {
        rank -= counts[digit - 1];
        digit--;
    }
    *prefix |= (digit - 1) << shift;
    return rank;
}

/* The rank-th largest magnitude, counted from 1, and how many that are equal to it rank so. */
static uint32_t find_threshold(const float *sums, uint32_t count, uint32_t rank, uint32_t *equals) {
    uint32_t threshold = 0;

    rank = find_digit(sums, count, 20, 11, rank, &threshold);
    rank = find_digit(sums, count, 10, 10, rank, &threshold);
    *equals = find_digit(sums, count, 0, 10, rank, &threshold);
    return threshold;
}

/* ---- a block ---- */

VECTOR_BODY float widen(enum dtype t, const void *src, uint64_t i) {
    if (t == DTYPE_F32)
        return ((const any_f32 *)src)[i];
    if (t == DTYPE_F16)
        return f16_to_f32(((const any_u16 *)src)[i]);
    return bf16_to_f32(((const any_u16 *)src)[i]);
}

VECTOR_BODY void narrow(enum dtype t, float f, void *to, uint64_t i) {
    if (t == DTYPE_F32)
        ((any_f32 *)to)[i] = f32_quiet(f);
    else if (t == DTYPE_F16)
        ((any_u16 *)to)[i] = f16_from_f32(f);
    else
        ((any_u16 *)to)[i] = bf16_from_f32(f);
}

static bool is_finite(float f) {
    return magnitude(f) < F32_INF;
}

static void add_kept(enum dtype t, const void *src, uint64_t at, uint32_t count,
                     const uint8_t *kept, float *sums) {
    /* Just begun, +0 is added all the same: it makes +0 of a negative zero. */
    for (uint32_t i = 0; i < count; i++)
        sums[i] = widen(t, src, at + i) + (kept != NULL ? ((const any_f32 *)kept)[at + i] : 0.0f);
}

/* Sends `rank` of the sums; they become what is kept. */
static void pick(enum dtype t, float *sums, uint32_t count, uint32_t rank, uint8_t *values,
                 any_u16 *places) {
    uint32_t equals, threshold = find_threshold(sums, count, rank, &equals), n = 0;

    for (uint32_t i = 0; i < count; i++) {
        float sum = sums[i], sent = 0;
        bool equal = magnitude(sum) == threshold;

        if (magnitude(sum) > threshold || (equal && equals > 0)) {
            equals -= equal;
            narrow(t, sum, values, n);
            sent = widen(t, values, n);
            places[n++] = (uint16_t)i;
        }
        sums[i] = is_finite(sum) && is_finite(sent) ? sum - sent : 0;
    }
}

static void topk_push(const struct codec_stage *s, enum dtype t, const void *src, uint64_t elems,
                      void *to, const struct stage_memory *m) {
    any_u16 *places = (any_u16 *)m->aside;
    uint64_t picks = topk_leaves_elems(s, elems);
    uint8_t *values = to;

    memset(m->aside + 2 * picks, 0, topk_aside_bytes(s, elems) - 2 * picks);
    for (uint64_t at = 0; at < elems; at += BLOCK_ELEMS) {
        uint32_t count = (uint32_t)smaller(elems - at, BLOCK_ELEMS), rank = picks_of(s, count);
        float sums[BLOCK_ELEMS];

        add_kept(t, src, at, count, m->now, sums);
        pick(t, sums, count, rank, values, places);
        if (m->next != NULL)
            memcpy(m->next + 4 * at, sums, 4 * (uint64_t)count);
        values += rank * dtype_bytes(t);
        places += rank;
    }
}

static const char *topk_pull(const struct codec_stage *s, enum dtype t, const void *from,
                             uint64_t elems, void *dst, const struct stage_memory *m) {
    const any_u16 *places = (const any_u16 *)m->aside;
    const uint8_t *values = from;
    uint32_t size = dtype_bytes(t);

    memset(dst, 0, elems * size);
    for (uint64_t at = 0; at < elems; at += BLOCK_ELEMS) {
        uint32_t count = (uint32_t)smaller(elems - at, BLOCK_ELEMS), rank = picks_of(s, count);

        for (uint32_t i = 0; i < rank; i++) {
            if (places[i] >= count || (i > 0 && places[i] <= places[i - 1]))
                return "the places of a block are not its own in ascending order";
            memcpy((uint8_t *)dst + (at + places[i]) * size, values + i * size, size);
        }
        values += rank * size;
        places += rank;
    }
    return NULL;
}

/* ---- the row's operations ---- */

static uint64_t topk_slice_unit(const struct codec_stage *s, enum dtype t) {
    (void)s, (void)t;
    return BLOCK_ELEMS;
}

/* What was kept may be anything. */
static double topk_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                               double block_max) {
    (void)s, (void)t, (void)abs_value, (void)block_max;
    return (double)INFINITY;
}

const struct codec_ops codec_topk_ops = {
    .slice_unit = topk_slice_unit,
    .error_bound = topk_error_bound,
    .no_numbers = "what is lost before it would escape its error feedback",
    .no_picks = "once is enough",
    .leaves_elems = topk_leaves_elems,
    .aside_bytes = topk_aside_bytes,
    .state_bytes = topk_state_bytes,
    .push = topk_push,
    .pull = topk_pull,
};
