/*
 * test_codec_state.c: codecs that remember: delta, topk and stochastic quant, alone and in chains.
 * What they make is compared with what FORMAT.md says, computed here in another way; a call that
 * does not count leaves no trace; slices make what the whole makes.
 */
#include "tests/unit/codec_test.h"

#include "kernels/philox.h"

static const uint64_t sizes[] = {0, 1, 31, 1023, 1024, 1025, 8191, 8192, 8193, 9000, 20011, 40960};
static const enum dtype float_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

/* Both ends of a message, as an executor keeps them. */
struct ends {
    struct codec c;
    enum dtype t;
    uint64_t elems, slot_bytes, need;
    uint8_t *now[2], *next[2]; /* by enum codec_side */
    uint8_t *slot, *back, *scratch;
};

static struct ends ends_new(const char *text, enum dtype t, uint64_t elems, uint64_t seed) {
    struct ends e = {.c = codec_of(text), .t = t, .elems = elems};

    e.slot_bytes = codec_slot_bytes(&e.c, t, elems);
    for (int side = 0; side < 2; side++) {
        uint64_t bytes = codec_state_bytes(&e.c, t, elems, (enum codec_side)side);

        e.now[side] = exact_alloc(bytes);
        e.next[side] = exact_alloc(bytes);
        memset(e.now[side], 0x99, bytes);
        memset(e.next[side], 0x99, bytes);
        codec_state_init(&e.c, t, elems, (enum codec_side)side, seed, e.now[side]);
    }
    e.slot = exact_alloc(e.slot_bytes);
    e.back = exact_alloc(elems * dtype_bytes(t));
    e.scratch = exact_alloc(codec_scratch_bytes(&e.c, t, elems));
    return e;
}

static void ends_free(struct ends *e) {
    for (int side = 0; side < 2; side++) {
        free(e->now[side]);
        free(e->next[side]);
    }
    free(e->slot);
    free(e->back);
    free(e->scratch);
}

/* A call that does not count yet. */
static enum codec_status ends_try(struct ends *e, const void *src) {
    struct codec_state from = {e->now[CODEC_ENCODER], e->next[CODEC_ENCODER], 0};
    struct codec_state to = {e->now[CODEC_DECODER], e->next[CODEC_DECODER], 0};
    const char *reason;
    enum codec_status made = codec_encode_next(&e->c, e->t, src, e->elems, e->slot, e->slot_bytes,
                                               &e->need, e->scratch, &from);
    enum codec_status read = codec_decode_next(&e->c, e->t, e->slot, e->slot_bytes, e->elems,
                                               e->back, e->scratch, &reason, &to);

    assert_int_equal(made, read);
    return made;
}

static void ends_commit(struct ends *e) {
    for (int side = 0; side < 2; side++) {
        uint8_t *was = e->now[side];

        e->now[side] = e->next[side];
        e->next[side] = was;
    }
}

static void ends_call(struct ends *e, const void *src) {
    assert_int_equal(ends_try(e, src), CODEC_OK);
    ends_commit(e);
}

/* ---- delta ---- */

static void change_some(enum dtype t, void *data, uint64_t elems, uint64_t one_in, uint64_t *seed) {
    for (uint64_t i = 0; i < elems; i++)
        if (next_random(seed) % one_in == 0)
            put_bits(t, data, i, get_bits(t, data, i) ^ 1);
}

static void delta_sends_what_changed_and_gives_back_every_bit(void **state) {
    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++) {
            struct ends e = ends_new("delta", (enum dtype)t, sizes[n], 7);
            uint64_t bytes = sizes[n] * dtype_bytes(e.t), seed = n;
            uint8_t *data = exact_alloc(bytes), *before = calloc(bytes + 1, 1);

            assert_int_equal(e.slot_bytes, bytes);
            fill_pattern(e.t, PATTERN_RANDOM_BITS, data, sizes[n], n);
            for (int call = 0; call < 3; call++) {
                ends_call(&e, data);
                assert_memory_equal(e.back, data, bytes);
                for (uint64_t i = 0; i < bytes; i++)
                    assert_int_equal(e.slot[i], data[i] ^ before[i]);
                memcpy(before, data, bytes);
                change_some(e.t, data, sizes[n], 9, &seed);
            }
            free(before);
            free(data);
            ends_free(&e);
        }
}

static void delta_makes_zeros_for_what_follows(void **state) {
    static const char *const texts[] = {"delta | pack", "delta | sparse", "delta | lz",
                                        "cast(bf16) | delta | pack"};
    const uint64_t elems = 50000;
    float *data = exact_alloc(elems * 4);

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct ends e = ends_new(texts[k], DTYPE_F32, elems, 0);
        uint64_t seed = k, first;

        fill_pattern(DTYPE_F32, PATTERN_BELL, data, elems, k);
        for (uint64_t i = 0; i < elems; i++) /* so that the cast loses nothing */
            data[i] = bfloat_to_float(bfloat_from_float(data[i]));
        ends_call(&e, data);
        assert_memory_equal(e.back, data, elems * 4);
        first = e.need;
        ends_call(&e, data); /* nothing changed */
        assert_memory_equal(e.back, data, elems * 4);
        assert_true(e.need < 2000 && e.need < first / 10);
        for (int n = 0; n < 5; n++)
            data[next_random(&seed) % elems] = 1.5f;
        ends_call(&e, data);
        assert_memory_equal(e.back, data, elems * 4);
        assert_true(e.need < first / 2);
        ends_free(&e);
    }
    free(data);
}

static void a_call_that_overflows_leaves_no_trace(void **state) {
    struct ends e = ends_new("delta | pack(0.1)", DTYPE_BF16, 20000, 0);
    struct codec repair = codec_without_bounded(&e.c), delta = codec_of("delta");
    struct codec_state from = {e.now[0], e.next[0], 0}, to = {e.now[1], e.next[1], 0};
    uint16_t data[20000];
    uint8_t slot[40000];
    const char *reason;

    (void)state;
    assert_true(codec_equal(&repair, &delta));
    assert_int_equal(codec_state_bytes(&repair, DTYPE_BF16, 20000, CODEC_DECODER),
                     codec_state_bytes(&e.c, DTYPE_BF16, 20000, CODEC_DECODER));
    fill_pattern(DTYPE_BF16, PATTERN_BELL, data, 20000, 1);
    assert_int_equal(ends_try(&e, data), CODEC_OVERFLOW); /* all of it is new */
    for (size_t i = 0; i < 40000; i++)
        assert_int_equal(e.now[0][i] | e.now[1][i], 0);
    codec_encode_next(&repair, DTYPE_BF16, data, 20000, slot, sizeof slot, NULL, NULL, &from);
    codec_decode_next(&repair, DTYPE_BF16, slot, sizeof slot, 20000, e.back, NULL, &reason, &to);
    assert_memory_equal(e.back, data, sizeof data);
    ends_commit(&e);
    data[77] ^= 3;
    ends_call(&e, data);
    assert_memory_equal(e.back, data, sizeof data);
    assert_true(e.need < 2000);
    ends_free(&e);
}

/* ---- topk ---- */

static uint64_t picks(uint64_t millionths, uint64_t n) {
    return (n * millionths + 999999) / 1000000;
}

static float value_of(enum dtype t, const void *data, uint64_t i) {
    uint64_t bits = get_bits(t, data, i);
    uint32_t word = (uint32_t)bits;
    float f;

    if (t == DTYPE_BF16)
        return bfloat_to_float((uint16_t)bits);
    if (t == DTYPE_F16)
        return half_to_float((uint16_t)bits);
    memcpy(&f, &word, sizeof f);
    return f;
}

static float rounded(enum dtype t, float f) {
    if (t == DTYPE_BF16)
        return bfloat_to_float(bfloat_from_float(f));
    if (t == DTYPE_F16)
        return half_to_float(half_from_float(f));
    return f;
}

static uint32_t magnitude_of(float f) {
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return isnan(f) ? 0x7fffffff : bits & 0x7fffffff;
}

/* How many of the block rank before element i: the document's order, by comparing with all. */
static uint64_t rank_of(const float *sums, uint64_t count, uint64_t i) {
    uint64_t before = 0;

    for (uint64_t j = 0; j < count; j++)
        before += magnitude_of(sums[j]) > magnitude_of(sums[i]) ||
                  (magnitude_of(sums[j]) == magnitude_of(sums[i]) && j < i);
    return before;
}

/* One call on a block, out of FORMAT.md: what arrives, and kept becomes what is kept. */
static void expect_block(enum dtype t, uint64_t millionths, const void *data, uint64_t at,
                         uint64_t count, float *kept, float *arrives) {
    float *sums = exact_alloc(count * 4);

    for (uint64_t i = 0; i < count; i++)
        sums[i] = value_of(t, data, at + i) + kept[at + i];
    for (uint64_t i = 0; i < count; i++) {
        bool sent = rank_of(sums, count, i) < picks(millionths, count);
        float rest = sent ? sums[i] - rounded(t, sums[i]) : sums[i];

        arrives[at + i] = sent ? rounded(t, sums[i]) : 0;
        kept[at + i] = isfinite(sums[i]) && isfinite(rest) ? rest : 0;
    }
    free(sums);
}

static bool same_float(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check_topk(const char *text, uint64_t millionths, enum dtype t, uint64_t elems,
                       enum pattern p) {
    struct ends e = ends_new(text, t, elems, 0);
    float *kept = calloc(elems + 1, 4), *arrives = exact_alloc(elems * 4);
    uint8_t *data = exact_alloc(elems * dtype_bytes(t));

    for (uint64_t call = 0; call < 3; call++) {
        fill_pattern(t, p, data, elems, call);
        for (uint64_t at = 0; at < elems; at += 8192)
            expect_block(t, millionths, data, at, elems - at < 8192 ? elems - at : 8192, kept,
                         arrives);
        ends_call(&e, data);
        for (uint64_t i = 0; i < elems; i++) {
            assert_true(same_float(value_of(t, e.back, i), arrives[i]));
            assert_memory_equal(e.now[CODEC_ENCODER] + 4 * i, &kept[i], 4);
        }
    }
    free(data);
    free(arrives);
    free(kept);
    ends_free(&e);
}

static void topk_sends_the_largest_and_keeps_the_rest(void **state) {
    static const uint64_t lengths[] = {1, 7, 1000, 8192, 9000};

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(float_types); k++)
        for (size_t n = 0; n < ARRAY_LENGTH(lengths); n++) {
            check_topk("topk(0.01)", 10000, float_types[k], lengths[n], PATTERN_BELL);
            check_topk("topk(0.25) | pack", 250000, float_types[k], lengths[n], PATTERN_BELL);
        }
    for (size_t k = 0; k < ARRAY_LENGTH(float_types); k++)
        for (int p = 0; p < PATTERN_COUNT; p++)
            check_topk("topk(0.03)", 30000, float_types[k], 3000, (enum pattern)p);
    check_topk("topk(1)", 1000000, DTYPE_BF16, 1500, PATTERN_RANDOM_BITS);
    check_topk("topk(0.000001)", 1, DTYPE_F32, 8200, PATTERN_BELL);
}

static void topk_has_the_bytes_of_the_document(void **state) {
    struct ends e = ends_new("topk(0.002)", DTYPE_F32, 1001, 0); /* 3 of 1,001 */
    float *data = calloc(1001, 4);
    static const float values[] = {-5, 4, -4};
    static const uint16_t places[] = {10, 500, 1000};

    (void)state;
    data[10] = -5;
    data[500] = 4;
    data[1000] = -4;
    data[700] = 3;
    assert_int_equal(e.slot_bytes, 16 + 16);
    ends_call(&e, data);
    assert_memory_equal(e.slot, values, 12);
    assert_memory_equal(e.slot + 12, "\0\0\0\0", 4);
    assert_memory_equal(e.slot + 16, places, 6);
    assert_memory_equal(e.slot + 22, "\0\0\0\0\0\0\0\0\0\0", 10);
    memset(data, 0, 1001 * 4); /* what was kept comes alone */
    ends_call(&e, data);
    assert_memory_equal(e.slot + 16, "\0\0\1\0", 4); /* zeros, the first ones */
    assert_true(value_of(DTYPE_F32, e.back, 700) == 3);
    free(data);
    ends_free(&e);
}

static void a_nan_is_seen_and_not_kept(void **state) {
    struct ends e = ends_new("topk(0.001)", DTYPE_BF16, 2000, 0); /* 2 */
    uint16_t data[2000] = {0};

    (void)state;
    data[5] = 0xff81; /* -NaN */
    data[6] = 0x7f80; /* infinity */
    data[7] = 0xff80;
    data[8] = 0x4000; /* 2 */
    ends_call(&e, data);
    assert_int_equal(get_bits(DTYPE_BF16, e.back, 5), 0x7fc0);
    assert_int_equal(get_bits(DTYPE_BF16, e.back, 6), 0x7f80);
    memset(data, 0, sizeof data);
    ends_call(&e, data);
    for (uint64_t i = 0; i < 2000; i++)
        assert_int_equal(get_bits(DTYPE_BF16, e.back, i), i == 8 ? 0x4000 : 0);
    ends_free(&e);
}

static void places_that_are_none_are_refused(void **state) {
    struct codec c = codec_of("topk(0.001)");
    const uint64_t elems = 8192 + 1500; /* 9 and 2 */
    uint64_t slot_bytes = codec_slot_bytes(&c, DTYPE_BF16, elems);
    uint16_t *data = exact_alloc(elems * 2), *back = exact_alloc(elems * 2), *places;
    uint8_t *slot = exact_alloc(slot_bytes);
    const char *reason;

    (void)state;
    assert_int_equal(slot_bytes, 32 + 32);
    fill_pattern(DTYPE_BF16, PATTERN_BELL, data, elems, 1);
    codec_encode(&c, DTYPE_BF16, data, elems, slot, slot_bytes, NULL, NULL);
    places = (uint16_t *)(slot + 32);
    for (int i = 0; i < 11; i++) {
        uint16_t was = places[i];
        static const char words[] = "the places of a block are not its own in ascending order";

        places[i] = i < 9 ? 8192 : 1500;
        assert_int_equal(codec_decode(&c, DTYPE_BF16, slot, slot_bytes, elems, back, NULL, &reason),
                         CODEC_MALFORMED);
        assert_string_equal(reason, words);
        if (i != 0 && i != 9) {
            places[i] = places[i - 1];
            assert_int_equal(
                codec_decode(&c, DTYPE_BF16, slot, slot_bytes, elems, back, NULL, &reason),
                CODEC_MALFORMED);
        }
        places[i] = was;
    }
    assert_int_equal(codec_decode(&c, DTYPE_BF16, slot, slot_bytes, elems, back, NULL, &reason),
                     CODEC_OK);
    assert_int_equal(codec_decode(&c, DTYPE_BF16, slot, slot_bytes - 1, elems, back, NULL, &reason),
                     CODEC_MALFORMED);
    free(slot);
    free(back);
    free(data);
}

static void packed_picks_overflow_as_others_do(void **state) {
    struct codec wide = codec_of("topk(0.5) | pack"), alone = codec_of("topk(0.5)");
    const uint64_t elems = 9000; /* 4,096 and 404 values, and as many places */
    uint64_t places = 9008, need, said;
    uint64_t slot_bytes = codec_slot_bytes(&wide, DTYPE_F32, elems), bytes;
    float *data = exact_alloc(elems * 4), *back = exact_alloc(elems * 4);
    float *want = exact_alloc(elems * 4);
    uint8_t *scratch = exact_alloc(codec_scratch_bytes(&wide, DTYPE_F32, elems));
    uint8_t *slot = exact_alloc(slot_bytes);
    const char *reason;
    bool marked;

    (void)state;
    assert_int_equal(codec_slot_bytes(&alone, DTYPE_F32, elems), 4500 * 4 + places);
    assert_int_equal(codec_least_bytes(&wide, DTYPE_F32, elems), 32 + places);
    fill_pattern(DTYPE_F32, PATTERN_BELL, data, elems, 3);
    codec_encode(&alone, DTYPE_F32, data, elems, slot, slot_bytes, NULL, NULL);
    codec_decode(&alone, DTYPE_F32, slot, slot_bytes, elems, want, NULL, &reason);
    assert_int_equal(codec_encode(&wide, DTYPE_F32, data, elems, slot, slot_bytes, &need, scratch),
                     CODEC_OK);
    assert_true(need < 4500 * 4 + places);
    for (uint64_t less = 32 + places; less <= need + 40; less += less + 30 < need ? 499 : 1) {
        uint8_t *small = exact_alloc(less);
        enum codec_status fits = less < need ? CODEC_OVERFLOW : CODEC_OK;

        assert_int_equal(codec_encode(&wide, DTYPE_F32, data, elems, small, less, &said, scratch),
                         fits);
        assert_int_equal(said, need);
        assert_true(codec_encoded_bytes(&wide, DTYPE_F32, elems, small, less, &bytes, &marked));
        assert_int_equal(bytes, need);
        assert_int_equal(marked, fits == CODEC_OVERFLOW);
        assert_int_equal(codec_decode(&wide, DTYPE_F32, small, less, elems, back, scratch, &reason),
                         fits);
        if (fits == CODEC_OK)
            assert_memory_equal(back, want, elems * 4);
        free(small);
    }
    assert_true(codec_mark_overflow(&wide, DTYPE_F32, elems, slot, 32 + places, 0));
    assert_false(codec_mark_overflow(&wide, DTYPE_F32, elems, slot, 31 + places, 0));
    assert_int_equal(
        codec_decode(&wide, DTYPE_F32, slot, 32 + places, elems, back, scratch, &reason),
        CODEC_OVERFLOW);
    assert_true(codec_encoded_bytes(&wide, DTYPE_F32, elems, slot, slot_bytes, &bytes, &marked));
    assert_true(marked && bytes == 0);
    free(slot);
    free(scratch);
    free(want);
    free(back);
    free(data);
}

/* ---- stochastic quant ---- */

static void philox_gives_the_published_numbers(void **state) {
    /* counter, key, result; from the known answers of Random123 */
    static const uint32_t known[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1},
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];

        philox(known[i], known[i] + 4, out);
        assert_memory_equal(out, known[i] + 6, sizeof out);
    }
}

/* The document's q of an element, for 8 bits. */
static int expect_q(float v, float largest, uint64_t place, uint64_t seed, uint64_t calls) {
    uint32_t counter[4] = {(uint32_t)(place / 8), (uint32_t)(place / 8 >> 32), (uint32_t)calls,
                           (uint32_t)(calls >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, words[4];
    uint16_t drawn[8];
    float inverse = 127.0f / largest, x = v * inverse, u, y;
    int q;

    philox(counter, key, words);
    memcpy(drawn, words, sizeof drawn);
    u = (2.0f * (float)drawn[place % 8] + 1.0f) / 131072.0f;
    y = x + u;
    q = (int)floorf(y);
    return q > 127 ? 127 : (q < -127 ? -127 : q);
}

static void stochastic_rounding_draws_what_the_document_says(void **state) {
    const uint64_t elems = 3000, seed = UINT64_C(0x123456789abcdef0);
    struct ends e = ends_new("quant(8, 32, stochastic)", DTYPE_F32, elems, seed);
    float *data = exact_alloc(elems * 4);

    (void)state;
    assert_int_equal(codec_state_bytes(&e.c, DTYPE_F32, elems, CODEC_ENCODER), 16);
    assert_int_equal(codec_state_bytes(&e.c, DTYPE_F32, elems, CODEC_DECODER), 0);
    for (uint64_t call = 0; call < 3; call++) {
        fill_pattern(DTYPE_F32, PATTERN_BELL, data, elems, 5);
        ends_call(&e, data);
        for (uint64_t i = 0; i < elems; i++) {
            float largest = 0;

            for (uint64_t j = i / 32 * 32; j < i / 32 * 32 + 32 && j < elems; j++)
                largest = fmaxf(largest, fabsf(data[j]));
            if (largest > 0)
                assert_int_equal((int8_t)e.slot[(94 * 4 + 15) / 16 * 16 + i],
                                 expect_q(data[i], largest, i, seed, call));
        }
    }
    free(data);
    ends_free(&e);
}

static void stochastic_rounding_is_right_on_average(void **state) {
    static const char *const texts[] = {"quant(8, 256, stochastic)", "quant(6, 64, stochastic)",
                                        "quant(4, 32, stochastic)"};
    const uint64_t elems = 4096;
    float *data = exact_alloc(elems * 4);
    double *sum = exact_alloc(elems * 8);

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct ends e = ends_new(texts[k], DTYPE_F32, elems, k);
        double step = 1.0 / ((1 << (8 - 2 * k - 1)) - 1), off = 0;
        const int calls = 400;

        for (uint64_t i = 0; i < elems; i++) /* integers of the scale stand between */
            data[i] = i % 32 == 0 ? 1.0f : (i % 32 == 1 ? 0 : (float)i / (float)elems);
        memset(sum, 0, elems * 8);
        for (int call = 0; call < calls; call++) {
            ends_call(&e, data);
            for (uint64_t i = 0; i < elems; i++) {
                double error = fabs(value_of(DTYPE_F32, e.back, i) - data[i]);

                assert_true(error <= codec_error_bound(&e.c, DTYPE_F32, fabsf(data[i]), 1));
                assert_true(i % 32 > 1 || error < 1e-6);
                sum[i] += value_of(DTYPE_F32, e.back, i);
            }
        }
        for (uint64_t i = 0; i < elems; i++) { /* 6 sigma of a mean of 400; half a step is one */
            assert_true(fabs(sum[i] / calls - data[i]) < 6 * step / 2 / 20);
            off += sum[i] / calls - data[i];
        }
        assert_true(fabs(off / (double)elems) <
                    6 * step / 2 / sqrt((double)(elems * (uint64_t)calls)));
        ends_free(&e);
    }
    free(sum);
    free(data);
}

static void seeds_and_calls_differ_and_repeat(void **state) {
    struct ends a = ends_new("quant(4, 64, stochastic)", DTYPE_BF16, 5000, 1);
    struct ends b = ends_new("quant(4, 64, stochastic)", DTYPE_BF16, 5000, 1);
    struct ends c = ends_new("quant(4, 64, stochastic)", DTYPE_BF16, 5000, 2);
    uint16_t data[5000], first[5000];

    (void)state;
    fill_pattern(DTYPE_BF16, PATTERN_BELL, data, 5000, 3);
    ends_call(&a, data);
    ends_call(&b, data);
    ends_call(&c, data);
    assert_memory_equal(a.back, b.back, sizeof data);
    assert_true(memcmp(a.back, c.back, sizeof data) != 0);
    memcpy(first, a.back, sizeof data);
    assert_int_equal(ends_try(&a, data), CODEC_OK); /* does not count: again the same */
    assert_true(memcmp(a.back, first, sizeof data) != 0);
    ends_call(&b, data);
    ends_call(&a, data);
    assert_memory_equal(a.back, b.back, sizeof data);
    ends_free(&a);
    ends_free(&b);
    ends_free(&c);
}

/* ---- all ---- */

static const char *const texts[] = {"delta",
                                    "delta | pack",
                                    "cast(bf16) | delta | sparse",
                                    "topk(0.02)",
                                    "topk(0.3) | pack",
                                    "quant(8, 64, stochastic)",
                                    "quant(6, 96, stochastic)",
                                    "quant(4, 32, stochastic)"};

static void slices_make_what_the_whole_makes(void **state) {
    const uint64_t elems = 60000, seed = 11;

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct ends whole = ends_new(texts[k], DTYPE_F32, elems, seed);
        uint64_t cut = 3 * codec_slice_unit(&whole.c, DTYPE_F32);
        struct ends part[2] = {ends_new(texts[k], DTYPE_F32, cut, seed),
                               ends_new(texts[k], DTYPE_F32, elems - cut, seed)};
        float *data = exact_alloc(elems * 4);

        for (uint64_t call = 0; call < 3; call++) {
            fill_pattern(DTYPE_F32, PATTERN_BELL, data, elems, call / 2);
            ends_call(&whole, data);
            for (uint64_t p = 0; p < 2; p++) {
                struct ends *e = &part[p];
                struct codec_state from = {e->now[0], e->next[0], p * cut};
                struct codec_state to = {e->now[1], e->next[1], p * cut};
                const char *reason;

                codec_encode_next(&e->c, e->t, data + p * cut, e->elems, e->slot, e->slot_bytes,
                                  NULL, e->scratch, &from);
                assert_int_equal(codec_decode_next(&e->c, e->t, e->slot, e->slot_bytes, e->elems,
                                                   e->back, e->scratch, &reason, &to),
                                 CODEC_OK);
                assert_memory_equal(e->back, whole.back + p * cut * 4, e->elems * 4);
                ends_commit(e);
            }
        }
        free(data);
        ends_free(&whole);
        ends_free(&part[0]);
        ends_free(&part[1]);
    }
}

static void without_state_a_codec_has_just_begun(void **state) {
    const uint64_t elems = 20011;

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct ends e = ends_new(texts[k], DTYPE_F32, elems, 0);
        uint8_t *slot = exact_alloc(e.slot_bytes), *back = exact_alloc(elems * 4);
        float *data = exact_alloc(elems * 4);
        const char *reason;
        uint64_t need;

        assert_true(codec_is_stateful(&e.c));
        fill_pattern(DTYPE_F32, PATTERN_BELL, data, elems, 3);
        ends_call(&e, data);
        codec_encode(&e.c, DTYPE_F32, data, elems, slot, e.slot_bytes, &need, e.scratch);
        assert_int_equal(need, e.need);
        assert_memory_equal(slot, e.slot, codec_is_bounded(&e.c) ? 32 : need);
        assert_int_equal(
            codec_decode(&e.c, DTYPE_F32, slot, e.slot_bytes, elems, back, e.scratch, &reason),
            CODEC_OK);
        assert_memory_equal(back, e.back, elems * 4);
        free(data);
        free(back);
        free(slot);
        ends_free(&e);
    }
}

/* What is added at first is +0, whether a state says so or there is none. */
static void topk_begins_with_a_kept_zero(void **state) {
    const uint64_t elems = 3000;

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(float_types); k++) {
        enum dtype t = float_types[k];
        struct ends e = ends_new("topk(1)", t, elems, 0);
        uint8_t *slot = exact_alloc(e.slot_bytes), *data = exact_alloc(elems * dtype_bytes(t));

        memset(data, 0, elems * dtype_bytes(t));
        for (uint64_t i = 0; i < elems; i++)
            data[(i + 1) * dtype_bytes(t) - 1] = 0x80;
        ends_call(&e, data);
        codec_encode(&e.c, t, data, elems, slot, e.slot_bytes, NULL, e.scratch);
        assert_memory_equal(slot, e.slot, e.slot_bytes);
        memset(data, 0, elems * dtype_bytes(t));
        assert_memory_equal(e.back, data, elems * dtype_bytes(t));
        free(data);
        free(slot);
        ends_free(&e);
    }
}

/* So a call with a piece that is empty has written all of its state. */
static void nothing_is_kept_of_no_elements(void **state) {
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct codec c = codec_of(texts[k]);

        for (int side = 0; side < 2; side++)
            assert_int_equal(codec_state_bytes(&c, DTYPE_F32, 0, (enum codec_side)side), 0);
    }
}

static void every_state_byte_is_written(void **state) {
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        const uint64_t elems = 9001;
        struct ends e = ends_new(texts[k], DTYPE_F32, elems, 3);
        float *data = exact_alloc(elems * 4);

        fill_pattern(DTYPE_F32, PATTERN_BELL, data, elems, 3);
        for (int side = 0; side < 2; side++) {
            uint64_t bytes = codec_state_bytes(&e.c, DTYPE_F32, elems, (enum codec_side)side);
            uint8_t *first = exact_alloc(bytes);

            memset(e.next[side], 0, bytes);
            assert_int_equal(ends_try(&e, data), CODEC_OK);
            memcpy(first, e.next[side], bytes);
            memset(e.next[side], 0xff, bytes);
            assert_int_equal(ends_try(&e, data), CODEC_OK);
            assert_memory_equal(first, e.next[side], bytes);
            free(first);
        }
        free(data);
        ends_free(&e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delta_sends_what_changed_and_gives_back_every_bit),
        cmocka_unit_test(delta_makes_zeros_for_what_follows),
        cmocka_unit_test(a_call_that_overflows_leaves_no_trace),
        cmocka_unit_test(topk_sends_the_largest_and_keeps_the_rest),
        cmocka_unit_test(topk_has_the_bytes_of_the_document),
        cmocka_unit_test(a_nan_is_seen_and_not_kept),
        cmocka_unit_test(places_that_are_none_are_refused),
        cmocka_unit_test(packed_picks_overflow_as_others_do),
        cmocka_unit_test(philox_gives_the_published_numbers),
        cmocka_unit_test(stochastic_rounding_draws_what_the_document_says),
        cmocka_unit_test(stochastic_rounding_is_right_on_average),
        cmocka_unit_test(seeds_and_calls_differ_and_repeat),
        cmocka_unit_test(slices_make_what_the_whole_makes),
        cmocka_unit_test(without_state_a_codec_has_just_begun),
        cmocka_unit_test(topk_begins_with_a_kept_zero),
        cmocka_unit_test(nothing_is_kept_of_no_elements),
        cmocka_unit_test(every_state_byte_is_written),
    };
    return cmocka_run_group_tests_name("codec_state", tests, NULL, NULL);
}
