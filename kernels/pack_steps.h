/*
 * pack_steps.h: the steps of `pack` that touch every value of a group, apart from the decisions
 * between them. pack.c decides; pack_plain.c has the steps in readable C, the reference;
 * pack_avx2.c has them again with vectors. Internal to kernels/.
 *
 * A group is 1,024 elements, shared out over 32 lanes as a GPU warp loads them: 16 bytes a lane,
 * one lane after the other, and again from the start until the group is done. A lane so holds 32
 * elements, numbered i = 0..31 in the order it loads them:
 *
 *     16-bit types   element (i / 8) * 256 + lane * 8 + i % 8        four loads of 8 elements
 *     32-bit types   element (i / 4) * 128 + lane * 4 + i % 4        eight loads of 4 elements
 *
 * Three orders of 1,024 things follow from it:
 *
 *     code order     lane * 32 + i % 2 * 16 + i / 2 % 4 * 4 + i / 8
 *                                                         a lane's 32 bits of a plane: half, pair,
 *                                                         load. Four pairs of codes go into one
 *                                                         register as nibbles; a bit of all four
 *                                                         registers is then a plane
 *     byte order     (i / 16) * 512 + lane * 16 + i % 16  two stores of 16 bytes a lane
 *     half order     (i / 8) * 256 + lane * 8 + i % 8     four stores of 16 bytes a lane
 */
#ifndef SLUICE_KERNELS_PACK_STEPS_H
#define SLUICE_KERNELS_PACK_STEPS_H

#include "kernels/codec.h"

#define PACK_GROUP      1024u
#define PACK_LANES      32u
#define PACK_LOW_PLANES 16u

/* What a group is taken apart into, next to its byte plane. */
struct pack_split {
    uint8_t exponents[PACK_GROUP]; /* code order */
    uint8_t extra[PACK_GROUP];     /* f16: sign, two top mantissa bits as 4 2 1; code order */
    uint16_t low[PACK_GROUP];      /* f32: the lower halves; half order */
};

struct pack_steps {
    /* Takes a whole group apart; the low 8 bits below the exponent (with the sign in bit 7 for
     * bf16 and f32) go to bytes[1024] in byte order. Returns whether any bit is set. */
    bool (*split)(enum dtype t, const void *src, struct pack_split *s, uint8_t *bytes);
    void (*join)(enum dtype t, const struct pack_split *s, const uint8_t *bytes, void *dst);
    uint32_t (*largest)(const uint8_t *exponents);
    /* How many exponents are at least `distance` below top; all are at most top. */
    uint32_t (*count_below)(const uint8_t *exponents, uint32_t top, uint32_t distance);
    /* Bit b of values[lane * 32 + bit] to and from bit `bit` of the word b * 32 + lane. */
    void (*write_planes)(const uint8_t *values, uint32_t width, uint8_t *words);
    void (*read_planes)(const uint8_t *words, uint32_t width, uint8_t *values);
    /* Bit `bit` of masks[lane]: values[lane * 32 + bit] == mark. */
    void (*find)(const uint8_t *values, uint32_t mark, uint32_t *masks);
    /* All bits that are set in some low half of a lane. */
    void (*low_or)(const uint16_t *low, uint16_t *ors);
    /* The lower halves as 16 planes from the most significant bit down, words j * 32 + lane. */
    void (*write_low)(const uint16_t *low, uint32_t *words);
    void (*read_low)(const uint32_t *words, uint16_t *low);
};

extern const struct pack_steps pack_steps_plain;
/* The AVX2 steps where this processor has them, otherwise NULL. */
const struct pack_steps *pack_steps_avx2(void);

/* pack.c: encode and decode with given steps, so that tests can compare them. */
enum codec_status pack_encode_with(const struct pack_steps *steps, enum dtype t, const void *src,
                                   uint64_t elems, void *slot, uint64_t slot_bytes,
                                   uint64_t *need_bytes);
enum codec_status pack_decode_with(const struct pack_steps *steps, enum dtype t, const void *slot,
                                   uint64_t slot_bytes, uint64_t elems, void *dst,
                                   const char **reason);

#endif
