/*
 * bounded_test.h: what holds for every codec of bounded size, whatever its format: it comes back
 * bit by bit, stays in its slot, marks what does not fit, and refuses what was damaged.
 */
#ifndef SLUICE_BOUNDED_TEST_H
#define SLUICE_BOUNDED_TEST_H

#include "tests/unit/codec_test.h"

static inline uint32_t word_at(const uint8_t *p) {
    uint32_t word;

    memcpy(&word, p, sizeof word);
    return word;
}

/* Encodes and decodes in memory of the exact sizes; `look`, if not NULL, sees pieces that have a
 * header. Returns the bytes that it took. */
static inline uint64_t
check_comes_back(const char *codec, enum dtype t, const void *src, uint64_t elems,
                 void (*look)(enum dtype t, const uint8_t *slot, uint64_t need, const void *src,
                              uint64_t elems)) {
    struct codec c = codec_of(codec);
    uint64_t slot_bytes = codec_slot_bytes(&c, t, elems), bytes = elems * dtype_bytes(t), need;
    uint8_t *slot = exact_alloc(slot_bytes), *tight, *back = exact_alloc(bytes);
    const char *reason;

    memset(slot, 0x5a, slot_bytes);
    assert_int_equal(codec_encode(&c, t, src, elems, slot, slot_bytes, &need, NULL), CODEC_OK);
    assert_true(need <= slot_bytes);
    tight = exact_alloc(need);
    memcpy(tight, slot, need);
    memset(back, 0x33, bytes);
    assert_int_equal(codec_decode(&c, t, tight, need, elems, back, NULL, &reason), CODEC_OK);
    assert_memory_equal(back, src, bytes);
    if (look != NULL && codec_has_header(&c, t, elems))
        look(t, tight, need, src, elems);
    memset(tight, 0xa5, need); /* the same bytes whatever was in the slot */
    assert_int_equal(codec_encode(&c, t, src, elems, tight, need, NULL, NULL), CODEC_OK);
    assert_memory_equal(slot, tight, need);
    free(tight);
    free(back);
    free(slot);
    return need;
}

/* All patterns, of the types that have them. */
static inline void check_patterns(uint64_t (*check)(enum dtype t, const void *src, uint64_t elems),
                                  uint64_t elems) {
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

    for (size_t k = 0; k < ARRAY_LENGTH(types); k++)
        for (int p = 0; p < PATTERN_COUNT; p++) {
            void *src = exact_alloc(elems * dtype_bytes(types[k]));

            fill_pattern(types[k], (enum pattern)p, src, elems, (uint64_t)p);
            check(types[k], src, elems);
            free(src);
        }
}

/* `both` casts f32 to bf16 and then encodes as `alone` does. Returns the bytes that it took. */
static inline uint64_t check_cast_first(const char *both, const char *alone, const float *src,
                                        uint64_t elems) {
    struct codec c = codec_of(both), second = codec_of(alone);
    uint16_t *middle = exact_alloc(elems * 2);
    uint64_t slot_bytes = codec_worst_bytes(&c, DTYPE_F32, elems), need, second_need;
    uint8_t *slot = exact_alloc(slot_bytes), *other = exact_alloc(slot_bytes);
    void *scratch = exact_alloc(codec_scratch_bytes(&c, DTYPE_F32, elems));

    for (uint64_t i = 0; i < elems; i++)
        middle[i] = bfloat_from_float(src[i]);
    codec_encode(&c, DTYPE_F32, src, elems, slot, slot_bytes, &need, scratch);
    codec_encode(&second, DTYPE_BF16, middle, elems, other, slot_bytes, &second_need, NULL);
    assert_int_equal(need, second_need);
    assert_memory_equal(slot, other, need);
    free(scratch);
    free(other);
    free(slot);
    free(middle);
    return need;
}

/* Slots of all sizes, `step` apart but for the ends: the encoding, of `need` bytes, or a mark. */
static inline void check_slot_sizes(const char *codec, enum dtype t, const void *src,
                                    uint64_t elems, uint64_t need, uint64_t step) {
    struct codec c = codec_of(codec);
    uint64_t bytes = elems * dtype_bytes(t);
    uint8_t *back = exact_alloc(bytes);

    for (uint64_t slot_bytes = 32; slot_bytes < need + 70;
         slot_bytes += slot_bytes < 150 || slot_bytes + 40 > need ? 1 : step) {
        uint8_t *slot = exact_alloc(slot_bytes);
        enum codec_status want = slot_bytes < need ? CODEC_OVERFLOW : CODEC_OK;
        uint64_t said, stored;
        const char *reason;
        bool marked;

        assert_int_equal(codec_encode(&c, t, src, elems, slot, slot_bytes, &said, NULL), want);
        assert_int_equal(said, need);
        assert_true(codec_encoded_bytes(&c, t, elems, slot, slot_bytes, &stored, &marked));
        assert_int_equal(stored, need);
        assert_int_equal(marked, want == CODEC_OVERFLOW);
        memset(back, 0x77, bytes);
        assert_int_equal(codec_decode(&c, t, slot, slot_bytes, elems, back, NULL, &reason), want);
        for (uint64_t i = 0; i < bytes && want == CODEC_OVERFLOW; i += 97)
            assert_int_equal(back[i], 0x77);
        free(slot);
    }
    free(back);
}

/* Every bit of the slot's first `head` bytes changed, and the slot cut to every length, `step`
 * apart behind the head; cuts of `agree` bytes and more also with a header that agrees. */
static inline void check_damaged_head(const char *codec, enum dtype t, uint8_t *slot, uint64_t need,
                                      uint64_t elems, uint64_t head, uint64_t agree,
                                      uint64_t step) {
    struct codec c = codec_of(codec);
    uint8_t *back = exact_alloc(elems * dtype_bytes(t));
    const char *reason;

    for (uint64_t at = 0; at < head; at++)
        for (uint32_t bit = 0; bit < 8; bit++) {
            enum codec_status want = at == 5 && bit == 0 ? CODEC_OVERFLOW : CODEC_MALFORMED;

            slot[at] = (uint8_t)(slot[at] ^ 1u << bit);
            assert_int_equal(codec_decode(&c, t, slot, need, elems, back, NULL, &reason), want);
            slot[at] = (uint8_t)(slot[at] ^ 1u << bit);
        }
    for (uint64_t bytes = 0; bytes < need; bytes += bytes < 200 ? 1 : step) {
        uint8_t *cut = exact_alloc(bytes);

        memcpy(cut, slot, bytes);
        assert_int_equal(codec_decode(&c, t, cut, bytes, elems, back, NULL, &reason),
                         CODEC_MALFORMED);
        if (bytes >= agree) {
            memcpy(cut + 16, &bytes, 8);
            assert_int_equal(codec_decode(&c, t, cut, bytes, elems, back, NULL, &reason),
                             CODEC_MALFORMED);
        }
        free(cut);
    }
    assert_int_equal(codec_decode(&c, t, slot, need, elems, back, NULL, &reason), CODEC_OK);
    free(back);
}

/* Some bytes of the encoding, from `from` on, become others; the sanitizers judge. */
static inline void check_random_damage(const char *codec, enum dtype t, const void *src,
                                       uint64_t elems, uint64_t from, int changes, uint64_t *seed) {
    struct codec c = codec_of(codec);
    uint64_t slot_bytes = codec_slot_bytes(&c, t, elems), need;
    uint8_t *slot = exact_alloc(slot_bytes), *back = exact_alloc(elems * dtype_bytes(t)), *tight;
    const char *reason;

    codec_encode(&c, t, src, elems, slot, slot_bytes, &need, NULL);
    tight = exact_alloc(need);
    memcpy(tight, slot, need);
    for (int n = 0; n < changes; n++)
        tight[from + next_random(seed) % (need - from)] = (uint8_t)next_random(seed);
    codec_decode(&c, t, tight, need, elems, back, NULL, &reason);
    free(tight);
    free(back);
    free(slot);
}

#endif
