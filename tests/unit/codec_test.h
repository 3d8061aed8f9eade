/*
 * codec_test.h: what the codec tests share: random numbers, patterns that are hard on an encoder,
 * and buffers whose ends are guarded (a malloc of the exact size, so that AddressSanitizer sees the
 * first byte too many).
 */
#ifndef SLUICE_TESTS_CODEC_TEST_H
#define SLUICE_TESTS_CODEC_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/codec.h"
#include "kernels/codec_bench.h"
#include "kernels/reduce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof(a)[0])

static inline uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline struct codec codec_of(const char *text) {
    struct codec c;
    char err[200];

    if (!codec_parse(text, &c, err, sizeof err))
        fail_msg("%s: %s", text, err);
    return c;
}

static inline void *exact_alloc(uint64_t bytes) {
    void *p = malloc(bytes > 0 ? bytes : 1);

    assert_non_null(p);
    return p;
}

static inline void put_bits(enum dtype t, void *to, uint64_t i, uint64_t bits) {
    memcpy((uint8_t *)to + i * dtype_bytes(t), &bits, dtype_bytes(t));
}

static inline uint64_t get_bits(enum dtype t, const void *from, uint64_t i) {
    uint64_t bits = 0;

    memcpy(&bits, (const uint8_t *)from + i * dtype_bytes(t), dtype_bytes(t));
    return bits;
}

enum pattern {
    PATTERN_ZERO,
    PATTERN_NEGATIVE_ZERO,
    PATTERN_EQUAL,
    PATTERN_RANDOM_BITS,
    PATTERN_EXTREMES,   /* all-ones and zero by turns */
    PATTERN_NAN,        /* NaNs of every payload, infinities */
    PATTERN_DENORMAL,   /* denormals of both signs, zeros between */
    PATTERN_BELL,       /* like gradients */
    PATTERN_ZERO_RUNS,  /* zero groups between groups of values */
    PATTERN_ONE_BIT,    /* zeros and one bit somewhere: a group is zero or just not */
    PATTERN_SHORT_LOW,  /* few low mantissa bits set */
    PATTERN_FEW_BINADES /* no exponent out of a narrow window */
};
#define PATTERN_COUNT 12

static inline uint64_t pattern_bits(enum dtype t, enum pattern p, uint64_t i, uint64_t *state) {
    uint32_t mantissa = t == DTYPE_F32 ? 23 : (t == DTYPE_BF16 ? 7 : 10);
    uint64_t ones = t == DTYPE_F32 ? 0xffffffffu : 0xffffu, sign = ones / 2 + 1;
    uint64_t frac = (UINT64_C(1) << mantissa) - 1, infinity = ones / 2 - frac;
    uint64_t r = next_random(state);

    switch (p) {
    case PATTERN_ZERO:
        return 0;
    case PATTERN_NEGATIVE_ZERO:
        return sign;
    case PATTERN_EQUAL:
        return (UINT64_C(0x3f9a3f9a) & ones);
    case PATTERN_RANDOM_BITS:
        return r & ones;
    case PATTERN_EXTREMES:
        return i % 2 != 0 ? ones : 0;
    case PATTERN_NAN:
        return (r % 3 == 0 ? infinity : infinity | (r >> 8 & frac)) | (r >> 60 & 1 ? sign : 0);
    case PATTERN_DENORMAL:
        return r % 5 == 0 ? 0 : (r >> 8 & frac) | (r >> 60 & 1 ? sign : 0);
    case PATTERN_BELL:
        return 0; /* filled by codec_bench_generate */
    case PATTERN_ZERO_RUNS:
        return i / 1500 % 2 != 0 ? 0 : infinity / 2 + (r & (frac * 8 + 7));
    case PATTERN_ONE_BIT:
        return i % 1777 != 1776 ? 0 : UINT64_C(1) << (r % (t == DTYPE_F32 ? 32 : 16));
    case PATTERN_SHORT_LOW:
        return (r & ones) >> 4 << (4 + i / 32 % 12) & (ones - infinity / 2);
    case PATTERN_FEW_BINADES:
        return infinity / 2 + (r >> 8 & ((frac + 1) * (1 + i / 1024 % 9) - 1));
    }
    return 0;
}

static inline void fill_pattern(enum dtype t, enum pattern p, void *to, uint64_t elems,
                                uint64_t seed) {
    if (p == PATTERN_BELL) {
        codec_bench_generate(t, to, elems, seed);
        return;
    }
    for (uint64_t i = 0; i < elems; i++)
        put_bits(t, to, i, pattern_bits(t, p, i, &seed));
}

/* A whole file, or NULL when there is none. */
static inline void *read_file(const char *folder, const char *name, uint64_t *bytes) {
    char path[1024];
    FILE *f;
    long end;
    void *data;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    fseek(f, 0, SEEK_END);
    end = ftell(f);
    rewind(f);
    data = exact_alloc((uint64_t)end);
    *bytes = fread(data, 1, (size_t)end, f);
    fclose(f);
    return data;
}

#endif
