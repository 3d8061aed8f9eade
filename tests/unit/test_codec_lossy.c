/*
 * test_codec_lossy.c: cast and quant stay within the bound that the table declares, for every kind
 * of number, and give the documented bits for the special ones; compositions run both stages.
 */
#include "tests/unit/codec_test.h"

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const char *const lossy[] = {
    "cast(bf16)",    "cast(f16)",     "cast(e4m3)",   "cast(e5m2)",       "quant(8)",
    "quant(6)",      "quant(4)",      "quant(8, 32)", "quant(6, 32)",     "quant(6, 96)",
    "quant(6, 256)", "quant(4, 256)", "quant(8, 96)", "cast(f16) | pack", "cast(bf16) | pack"};
#define COMPOSED_COUNT 2 /* at the end */

static double value_of(enum dtype t, uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float f;

    if (t == DTYPE_F16)
        return (double)half_to_float((uint16_t)bits);
    if (t == DTYPE_BF16)
        word <<= 16;
    memcpy(&f, &word, sizeof f);
    return (double)f;
}

static uint64_t nan_bits(enum dtype t) {
    return t == DTYPE_F32 ? 0x7fc00000 : (t == DTYPE_F16 ? 0x7e00 : 0x7fc0);
}

static void run_codec(const struct codec *c, enum dtype t, const void *src, uint64_t elems,
                      void *back) {
    uint64_t slot_bytes = codec_slot_bytes(c, t, elems), need;
    void *slot = exact_alloc(slot_bytes), *scratch = exact_alloc(codec_scratch_bytes(c, t, elems));
    const char *reason;

    assert_int_equal(codec_encode(c, t, src, elems, slot, slot_bytes, &need, scratch), CODEC_OK);
    if (!codec_is_bounded(c))
        assert_int_equal(need, slot_bytes);
    assert_int_equal(codec_decode(c, t, slot, slot_bytes, elems, back, scratch, &reason), CODEC_OK);
    free(scratch);
    free(slot);
}

/* Every element of a piece against the bound for its block, counted from the piece's start. */
static void check_bound(const struct codec *c, enum dtype t, const void *src, uint64_t elems) {
    uint64_t block = codec_slice_unit(c, t);
    void *back = exact_alloc(elems * dtype_bytes(t));

    run_codec(c, t, src, elems, back);
    for (uint64_t at = 0; at < elems; at += block) {
        uint64_t end = at + block < elems ? at + block : elems;
        double most = 0;

        for (uint64_t i = at; i < end; i++) {
            double v = fabs(value_of(t, get_bits(t, src, i)));

            most = isnan(v) || v > most ? v : most;
            if (isnan(v))
                break;
        }
        for (uint64_t i = at; i < end && !isnan(most); i++) {
            double v = value_of(t, get_bits(t, src, i)), got = value_of(t, get_bits(t, back, i));
            double bound = codec_error_bound(c, t, fabs(v), most);

            if (isinf(v) ? got != v && bound == 0 : bound < INFINITY && !(fabs(got - v) <= bound))
                fail_msg("%s: %a came back as %a, bound %a, block %a", dtype_name(t), v, got, bound,
                         most);
        }
    }
    free(back);
}

static void every_pattern_stays_within_the_bound(void **state) {
    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(lossy); n++)
        for (size_t k = 0; k < ARRAY_LENGTH(types); k++)
            for (int p = 0; p < PATTERN_COUNT; p++) {
                const uint64_t elems = 5003;
                struct codec c = codec_of(lossy[n]);
                void *src = exact_alloc(elems * dtype_bytes(types[k]));

                fill_pattern(types[k], (enum pattern)p, src, elems, n + (uint64_t)p);
                check_bound(&c, types[k], src, elems);
                free(src);
            }
}

/* Blocks of one binade each, over the whole range of the type: no scale is too big or small. */
static void every_magnitude_stays_within_the_bound(void **state) {
    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(lossy); n++)
        for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
            enum dtype t = types[k];
            uint64_t binade = t == DTYPE_F32 ? 1u << 23 : (t == DTYPE_F16 ? 1u << 10 : 1u << 7);
            uint64_t binades = t == DTYPE_F16 ? 31 : 255, elems = binades * 256, seed = n;
            struct codec c = codec_of(lossy[n]);
            void *src = exact_alloc(elems * dtype_bytes(t));

            for (uint64_t i = 0; i < elems; i++) { /* the last value of a binade, then any in it */
                uint64_t r = next_random(&seed), e = i / 256;
                uint64_t m = i % 256 == 0 ? binade - 1 : r % binade;

                if (r >> 60 < 4)
                    e = r >> 40 & 255 % (e + 1); /* and some smaller ones */
                put_bits(t, src, i, (e > i / 256 ? i / 256 : e) * binade + m);
            }
            check_bound(&c, t, src, elems);
            free(src);
        }
}

static void the_bound_grows_with_its_arguments(void **state) {
    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(lossy); n++)
        for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
            struct codec c = codec_of(lossy[n]);

            for (double most = 0x1p-140; most < 1e5; most *= 8) {
                double last = 0;

                for (double v = most * 0x1p-20; v <= most; v *= 2) {
                    double bound = codec_error_bound(&c, types[k], v, most);

                    assert_true(bound >= last);
                    last = bound;
                }
            }
            assert_true(isinf(codec_error_bound(&c, DTYPE_F32, INFINITY, INFINITY)));
        }
}

/* ---- cast ---- */

static void a_cast_rounds_to_nearest_even(void **state) {
    static const struct {
        uint32_t from;
        uint16_t bf16, f16;
    } rows[] = {
        {0x3f800000, 0x3f80, 0x3c00}, /* 1 */
        {0x80000000, 0x8000, 0x8000}, /* -0 */
        {0x3f808000, 0x3f80, 0x3c04}, /* a tie in bf16: to even, down */
        {0x3f818000, 0x3f82, 0x3c0c}, /* and up */
        {0x3f808001, 0x3f81, 0x3c04}, /* just above the tie */
        {0x3f801000, 0x3f80, 0x3c00}, /* a tie in f16, down */
        {0x3f803000, 0x3f80, 0x3c02}, /* and up */
        {0x477fefff, 0x4780, 0x7bff}, /* just under 65520: the largest f16 */
        {0x477ff000, 0x4780, 0x7c00}, /* 65520: a tie, to infinity */
        {0x7f7fffff, 0x7f80, 0x7c00}, /* the largest f32: infinite in both */
        {0xff800000, 0xff80, 0xfc00}, /* -infinity */
        {0x7f800001, 0x7fc0, 0x7e00}, /* a signalling NaN */
        {0xffc12345, 0x7fc0, 0x7e00}, /* a negative NaN with a payload */
        {0x33000000, 0x3300, 0x0000}, /* 2^-25: half of the least f16 denormal, to even */
        {0x33000001, 0x3300, 0x0001}, /* just above */
        {0x33c00000, 0x33c0, 0x0002}, /* 1.5 denormals: a tie, up */
        {0x387fe000, 0x3880, 0x0400}, /* 1023.5 denormals: up into the normals */
        {0x00008000, 0x0000, 0x0000}, /* half of the least bf16 denormal */
        {0x00018000, 0x0002, 0x0000}, /* 1.5 of them */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct codec bf16 = codec_of("cast(bf16)"), f16 = codec_of("cast(f16)");
        uint16_t wire;

        codec_encode(&bf16, DTYPE_F32, &rows[i].from, 1, &wire, 2, NULL, NULL);
        assert_int_equal(wire, rows[i].bf16);
        codec_encode(&f16, DTYPE_F32, &rows[i].from, 1, &wire, 2, NULL, NULL);
        assert_int_equal(wire, rows[i].f16);
    }
}

/* The vector loop and single values agree, at all lengths around a vector. */
static void a_cast_is_the_same_in_every_position(void **state) {
    uint64_t seed = 1;

    (void)state;
    for (uint64_t elems = 1; elems < 100; elems++) {
        struct codec c = codec_of("cast(f16)");
        float src[100];
        uint16_t wire[100];

        fill_pattern(DTYPE_F32, PATTERN_RANDOM_BITS, src, elems, next_random(&seed));
        codec_encode(&c, DTYPE_F32, src, elems, wire, elems * 2, NULL, NULL);
        for (uint64_t i = 0; i < elems; i++)
            assert_int_equal(wire[i], half_from_float(src[i]));
    }
}

static void all_values_of_the_wire_type_come_back(void **state) {
    static const enum dtype wires[] = {DTYPE_BF16, DTYPE_F16};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct codec c = codec_of(k == 0 ? "cast(bf16)" : "cast(f16)");
        const uint64_t elems = 65536;
        uint16_t *wire = exact_alloc(elems * 2);
        uint32_t *f = exact_alloc(elems * 4);
        const char *reason;

        for (uint64_t i = 0; i < elems; i++)
            wire[i] = (uint16_t)i;
        assert_int_equal(codec_decode(&c, DTYPE_F32, wire, elems * 2, elems, f, NULL, &reason), 0);
        codec_encode(&c, DTYPE_F32, f, elems, wire, elems * 2, NULL, NULL);
        for (uint64_t i = 0; i < elems; i++) {
            bool nan = isnan(value_of(wires[k], i));

            assert_int_equal(wire[i], nan ? nan_bits(wires[k]) : i);
            if (nan)
                assert_int_equal(f[i], 0x7fc00000);
        }
        free(f);
        free(wire);
    }
}

/* ---- 8-bit floats ---- */

/* The magnitude of a byte as the specification defines it; NAN and INFINITY for those. */
static double eight_bit_value(bool e4m3, uint32_t magnitude) {
    int mantissa = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
    int exponent = (int)magnitude >> mantissa, frac = (int)magnitude & ((1 << mantissa) - 1);

    if (e4m3 && magnitude == 0x7f)
        return (double)NAN;
    if (!e4m3 && exponent == 31)
        return frac == 0 ? (double)INFINITY : (double)NAN;
    return exponent == 0 ? ldexp(frac, 1 - bias - mantissa)
                         : ldexp((1 << mantissa) + frac, exponent - bias - mantissa);
}

/* The byte nearest to a value by looking at all of them. */
static uint8_t nearest_byte(bool e4m3, float value) {
    uint32_t largest = e4m3 ? 0x7e : 0x7b, best = 0, sign = signbit(value) != 0 ? 0x80 : 0;
    double v = fabs((double)value);

    if (isnan(value) || (e4m3 && isinf(value)))
        return 0x7f;
    if (isinf(value))
        return (uint8_t)(0x7c | sign);
    if (v > eight_bit_value(e4m3, largest))
        return (uint8_t)(largest | sign);
    for (uint32_t m = 1; m <= largest; m++) {
        double here = fabs(eight_bit_value(e4m3, m) - v);
        double there = fabs(eight_bit_value(e4m3, best) - v);

        if (here < there || (here == there && m % 2 == 0))
            best = m;
    }
    return (uint8_t)(best | sign);
}

static void check_nearest_byte(bool e4m3, const float *values, uint64_t elems) {
    struct codec c = codec_of(e4m3 ? "cast(e4m3)" : "cast(e5m2)");
    uint8_t *wire = exact_alloc(elems);

    assert_int_equal(codec_encode(&c, DTYPE_F32, values, elems, wire, elems, NULL, NULL), CODEC_OK);
    for (uint64_t i = 0; i < elems; i++)
        if (wire[i] != nearest_byte(e4m3, values[i]))
            fail_msg("%s: %a became %02x, not %02x", e4m3 ? "e4m3" : "e5m2", (double)values[i],
                     wire[i], nearest_byte(e4m3, values[i]));
    free(wire);
}

/* All values, the ties between them, their neighbours, all binades of f32, and random ones. */
static void an_8_bit_cast_takes_the_nearest_value(void **state) {
    enum { ELEMS = 40000 };
    float *values = exact_alloc(ELEMS * sizeof *values);

    (void)state;
    for (int e4m3 = 0; e4m3 < 2; e4m3++) {
        uint32_t largest = e4m3 != 0 ? 0x7e : 0x7b, n = 0;
        uint64_t seed = 5;

        for (uint32_t m = 0; m <= largest; m++) {
            float v = (float)eight_bit_value(e4m3 != 0, m);
            float next = m < largest ? (float)eight_bit_value(e4m3 != 0, m + 1) : 1.125f * v;
            float tie = (v + next) / 2;

            values[n++] = v;
            values[n++] = -v;
            values[n++] = tie;
            values[n++] = -tie;
            values[n++] = nextafterf(tie, 0);
            values[n++] = nextafterf(tie, INFINITY);
        }
        for (uint32_t e = 0; e < 511; e++) /* an odd mantissa in every binade, infinities, NaNs */
            for (uint32_t m = 0; m < 2; m++) {
                uint32_t bits = e << 23 | (m != 0 ? 0x2aaaabu : 0);

                memcpy(&values[n++], &bits, sizeof bits);
            }
        while (n < ELEMS) {
            uint32_t bits = (uint32_t)next_random(&seed);

            if (n % 2 != 0) /* half of them in the range of e5m2 */
                bits = (bits & 0x80ffffffu) + ((110u + bits % 34u) << 23);
            memcpy(&values[n++], &bits, sizeof bits);
        }
        check_nearest_byte(e4m3 != 0, values, ELEMS);
    }
    free(values);
}

static void every_8_bit_value_comes_back_from_every_type(void **state) {
    (void)state;
    for (int e4m3 = 0; e4m3 < 2; e4m3++)
        for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
            struct codec c = codec_of(e4m3 != 0 ? "cast(e4m3)" : "cast(e5m2)");
            uint8_t wire[256], again[256];
            uint64_t values[128]; /* room for 256 of any type here */
            const char *reason;

            for (uint32_t i = 0; i < 256; i++)
                wire[i] = (uint8_t)i;
            assert_int_equal(codec_decode(&c, types[k], wire, 256, 256, values, NULL, &reason), 0);
            codec_encode(&c, types[k], values, 256, again, 256, NULL, NULL);
            for (uint32_t i = 0; i < 256; i++) {
                double want = eight_bit_value(e4m3 != 0, i & 127);
                uint64_t bits = get_bits(types[k], values, i);

                if (isnan(want)) {
                    assert_int_equal(bits, nan_bits(types[k]));
                    assert_int_equal(again[i], 0x7f);
                    continue;
                }
                assert_true(value_of(types[k], bits) == (i < 128 ? want : -want));
                assert_int_equal(again[i], i);
            }
        }
}

static void an_8_bit_cast_saturates_but_keeps_what_is_not_finite(void **state) {
    static const struct {
        float from;
        uint8_t e4m3, e5m2;
    } rows[] = {
        {448.0f, 0x7e, 0x5f},    {465.0f, 0x7e, 0x5f},    {-1e30f, 0xfe, 0xfb},
        {57344.0f, 0x7e, 0x7b},  {61440.0f, 0x7e, 0x7b},  {INFINITY, 0x7f, 0x7c},
        {-INFINITY, 0x7f, 0xfc}, {-NAN, 0x7f, 0x7f},      {0x1p-9f, 0x01, 0x18},
        {-0x1p-10f, 0x80, 0x94}, {0x1.8p-9f, 0x02, 0x1a}, {0x1p-16f, 0x00, 0x01},
        {-0x1p-17f, 0x80, 0x80}, {0x1.fp-7f, 0x08, 0x24}, {-0.0f, 0x80, 0x80},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct codec e4m3 = codec_of("cast(e4m3)"), e5m2 = codec_of("cast(e5m2)");
        uint8_t wire;

        codec_encode(&e4m3, DTYPE_F32, &rows[i].from, 1, &wire, 1, NULL, NULL);
        assert_int_equal(wire, rows[i].e4m3);
        codec_encode(&e5m2, DTYPE_F32, &rows[i].from, 1, &wire, 1, NULL, NULL);
        assert_int_equal(wire, rows[i].e5m2);
    }
}

static void a_cast_to_the_own_type_moves_bits(void **state) {
    struct codec c = codec_of("cast(bf16)"), both = codec_of("cast(bf16) | pack");
    uint16_t src[2000], back[2000];

    (void)state;
    fill_pattern(DTYPE_BF16, PATTERN_NAN, src, 2000, 1);
    run_codec(&c, DTYPE_BF16, src, 2000, back);
    assert_memory_equal(src, back, sizeof src);
    run_codec(&both, DTYPE_BF16, src, 2000, back);
    assert_memory_equal(src, back, sizeof src);
}

static void a_composition_is_both_stages(void **state) {
    const uint64_t elems = 9001;
    struct codec cast = codec_of("cast(bf16)"), pack = codec_of("pack"),
                 both = codec_of("cast(bf16) | pack");
    uint64_t slot_bytes = codec_slot_bytes(&both, DTYPE_F32, elems), need, need_alone;
    float *src = exact_alloc(elems * 4);
    uint16_t *middle = exact_alloc(elems * 2);
    uint8_t *slot = exact_alloc(slot_bytes), *alone = exact_alloc(slot_bytes);
    void *scratch = exact_alloc(codec_scratch_bytes(&both, DTYPE_F32, elems));

    (void)state;
    fill_pattern(DTYPE_F32, PATTERN_BELL, src, elems, 4);
    codec_encode(&both, DTYPE_F32, src, elems, slot, slot_bytes, &need, scratch);
    codec_encode(&cast, DTYPE_F32, src, elems, middle, elems * 2, NULL, NULL);
    codec_encode(&pack, DTYPE_BF16, middle, elems, alone, slot_bytes, &need_alone, NULL);
    assert_int_equal(need, need_alone);
    assert_memory_equal(slot, alone, need);
    /* and it overflows like the second one */
    assert_int_equal(codec_encode(&both, DTYPE_F32, src, elems, slot, need - 1, &need, scratch),
                     CODEC_OVERFLOW);
    free(scratch);
    free(alone);
    free(slot);
    free(middle);
    free(src);
}

/* ---- quant ---- */

static void quant_has_the_documented_bytes(void **state) {
    struct codec q8 = codec_of("quant(8, 32)"), q4 = codec_of("quant(4, 32)");
    float src[34] = {127, -127, 0.5f, 1.5f, 2.5f, -0.5f, 1.25f};
    uint8_t slot[64], back_slot[16 + 34] = {0};
    float scale;

    (void)state;
    src[32] = 7;
    src[33] = -3.5f;
    codec_encode(&q8, DTYPE_F32, src, 34, slot, 16 + 34, NULL, NULL);
    memcpy(&scale, slot, 4);
    assert_true(scale == 1.0f);
    memcpy(&scale, slot + 4, 4);
    assert_true(scale <= 7.0f / 127.0f && scale > 0.05511f);
    assert_memory_equal(slot + 8, back_slot, 8); /* padding */
    assert_memory_equal(slot + 16, "\x7f\x81\x00\x02\x02\x00\x01", 7);
    assert_memory_equal(slot + 16 + 32, "\x7f\xc0", 2); /* -63.5 to even */
    codec_encode(&q4, DTYPE_F32, src + 32, 2, slot, 16 + 1, NULL, NULL);
    assert_int_equal(slot[16], 0xc7); /* 7 low, -4 (-3.5 to even) high */
    codec_encode(&q4, DTYPE_F32, src + 32, 1, slot, 16 + 1, NULL, NULL);
    assert_int_equal(slot[16], 0x07);
}

/* q of element e, found in the slot by the formula of FORMAT.md alone. */
static int32_t six_bits_at(const uint8_t *q, uint64_t elems, uint64_t e) {
    uint64_t group = e / 1024, left = elems - group * 1024;
    uint64_t lanes = left < 1024 ? (left + 31) / 32 : 32, r = e % 1024;
    uint64_t j = r % 8, lane = r / 8 % lanes, row = r / 8 / lanes;
    const uint8_t *at = q + group * 768;
    uint32_t word, value;
    uint16_t pairs;

    memcpy(&word, at + 16 * lane + 4 * row, sizeof word);
    memcpy(&pairs, at + 16 * lanes + 8 * lane + 2 * row, sizeof pairs);
    value = (word >> 4 * j & 15u) | ((uint32_t)pairs >> 2 * j & 3u) << 4;
    return value < 32 ? (int32_t)value : (int32_t)value - 64;
}

/* Blocks whose scale is 1, so that every q is the value itself: all of them where they should be,
 * for lengths around a lane, a group and a span, and blocks that groups cut. */
static void quant_6_has_the_documented_places(void **state) {
    static const uint64_t lengths[] = {1,    7,    31,   32,   33,   255,  1000, 1023,
                                       1024, 1025, 2049, 3072, 3073, 4000, 9000};
    static const char *const texts[] = {"quant(6, 32)", "quant(6)", "quant(6, 96)",
                                        "quant(6, 256)"};

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(lengths); n++)
        for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
            struct codec c = codec_of(texts[k]);
            uint64_t elems = lengths[n], block = codec_slice_unit(&c, DTYPE_F32), seed = n;
            uint64_t blocks = (elems + block - 1) / block, scales = (4 * blocks + 15) / 16 * 16;
            uint64_t lanes = (elems + 31) / 32, bytes = codec_slot_bytes(&c, DTYPE_F32, elems);
            float *src = exact_alloc(elems * sizeof *src), *back = exact_alloc(elems * sizeof *src);
            uint8_t *slot = exact_alloc(bytes);
            const char *reason;

            assert_int_equal(bytes, scales + 24 * lanes);
            for (uint64_t i = 0; i < elems; i++)
                src[i] = i % block == 0 ? 31.0f : (float)(int32_t)(next_random(&seed) % 63) - 31.0f;
            memset(slot, 0xff, bytes);
            codec_encode(&c, DTYPE_F32, src, elems, slot, bytes, NULL, NULL);
            for (uint64_t i = 0; i < elems; i++)
                assert_int_equal(six_bits_at(slot + scales, elems, i), (int32_t)src[i]);
            for (uint64_t i = elems; i < elems / 1024 * 1024 + (lanes - elems / 1024 * 32) * 32;
                 i++)
                assert_int_equal(six_bits_at(slot + scales, elems, i), 0);
            codec_decode(&c, DTYPE_F32, slot, bytes, elems, back, NULL, &reason);
            assert_memory_equal(src, back, elems * sizeof *src);
            memset(slot + scales, 0, 24 * lanes); /* and the one that no encoder makes */
            slot[scales + 16 * (lanes < 32 ? lanes : 32)] = 2;
            codec_decode(&c, DTYPE_F32, slot, bytes, elems, back, NULL, &reason);
            assert_true(back[0] == -32.0f);
            free(slot);
            free(back);
            free(src);
        }
}

static void an_infinite_or_nan_block_decodes_to_nan_alone(void **state) {
    static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7f800001, 0xffc00000};

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(bad); n++)
        for (int bits = 4; bits <= 8; bits += 2) {
            struct codec c = codec_of(bits == 8 ? "quant(8)" : bits == 6 ? "quant(6)" : "quant(4)");
            uint32_t src[192], back[192];

            for (uint32_t i = 0; i < 192; i++)
                src[i] = 0x3f800000;
            src[100] = bad[n];
            run_codec(&c, DTYPE_F32, src, 192, back);
            for (uint32_t i = 0; i < 192; i++)
                assert_int_equal(back[i] == 0x7fc00000, i / 64 == 1);
        }
}

static void tiny_blocks_become_zero_and_zero_stays(void **state) {
    struct codec c = codec_of("quant(8)");
    uint32_t src[64] = {1, 0x80000001, 0x007fffff, 0x80000000, 0x0d7fffff}, back[64];

    (void)state; /* the last is just under 2^-100 */
    run_codec(&c, DTYPE_F32, src, 64, back);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(back[i], 0);
    src[4] = 0x0d800000; /* 2^-100 */
    run_codec(&c, DTYPE_F32, src, 64, back);
    assert_true(value_of(DTYPE_F32, back[4]) > 0x1.fffp-101);
}

static void quant_never_exceeds_the_largest_magnitude(void **state) {
    const struct codec codecs[] = {codec_of("quant(8)"), codec_of("quant(6)"),
                                   codec_of("quant(4)")};
    uint64_t seed = 5;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        float src[64], back[64], most = 0;

        fill_pattern(DTYPE_F32, PATTERN_RANDOM_BITS, src, 64, next_random(&seed));
        for (int i = 0; i < 64; i++) {
            if (!isfinite(src[i]))
                src[i] = 3.4028235e38f;
            most = fmaxf(most, fabsf(src[i]));
        }
        run_codec(&codecs[round % 3], DTYPE_F32, src, 64, back);
        for (int i = 0; i < 64; i++)
            assert_true(fabsf(back[i]) <= most);
    }
}

static void any_bytes_decode_without_harm(void **state) {
    uint64_t seed = 8;

    (void)state;
    for (int round = 0; round < 500; round++)
        for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
            struct codec c =
                codec_of(lossy[(size_t)round % (ARRAY_LENGTH(lossy) - COMPOSED_COUNT)]);
            uint64_t elems = 1 + next_random(&seed) % 700;
            uint64_t slot_bytes = codec_slot_bytes(&c, types[k], elems);
            uint8_t *slot = exact_alloc(slot_bytes);
            void *back = exact_alloc(elems * dtype_bytes(types[k]));
            const char *reason;

            for (uint64_t i = 0; i < slot_bytes; i++)
                slot[i] = (uint8_t)next_random(&seed);
            assert_int_equal(
                codec_decode(&c, types[k], slot, slot_bytes, elems, back, NULL, &reason), CODEC_OK);
            assert_int_equal(
                codec_decode(&c, types[k], slot, slot_bytes - 1, elems, back, NULL, &reason),
                CODEC_MALFORMED);
            for (uint64_t i = 0; i < elems && k > 0; i++)
                if (isnan(value_of(types[k], get_bits(types[k], back, i))) &&
                    codec_slice_unit(&c, types[k]) > 1)
                    assert_int_equal(get_bits(types[k], back, i), nan_bits(types[k]));
            free(back);
            free(slot);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_stays_within_the_bound),
        cmocka_unit_test(every_magnitude_stays_within_the_bound),
        cmocka_unit_test(the_bound_grows_with_its_arguments),
        cmocka_unit_test(a_cast_rounds_to_nearest_even),
        cmocka_unit_test(a_cast_is_the_same_in_every_position),
        cmocka_unit_test(all_values_of_the_wire_type_come_back),
        cmocka_unit_test(an_8_bit_cast_takes_the_nearest_value),
        cmocka_unit_test(every_8_bit_value_comes_back_from_every_type),
        cmocka_unit_test(an_8_bit_cast_saturates_but_keeps_what_is_not_finite),
        cmocka_unit_test(a_cast_to_the_own_type_moves_bits),
        cmocka_unit_test(a_composition_is_both_stages),
        cmocka_unit_test(quant_has_the_documented_bytes),
        cmocka_unit_test(quant_6_has_the_documented_places),
        cmocka_unit_test(an_infinite_or_nan_block_decodes_to_nan_alone),
        cmocka_unit_test(tiny_blocks_become_zero_and_zero_stays),
        cmocka_unit_test(quant_never_exceeds_the_largest_magnitude),
        cmocka_unit_test(any_bytes_decode_without_harm),
    };
    return cmocka_run_group_tests_name("codec_lossy", tests, NULL, NULL);
}
