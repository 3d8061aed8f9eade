/*
 * test_codec_sparse.c: sparse keeps every bit, makes the bytes of FORMAT.md (a decoder for one
 * element here is written from it), stays in its slot, marks what does not fit, and refuses what is
 * not an encoding.
 */
#include "tests/unit/bounded_test.h"

static const uint64_t sizes[] = {0,    1,    31,   1023, 1024, 1025,  1055,
                                 2047, 2049, 8191, 8192, 8193, 20011, 40960};

/* A value in so many, the rest zero: 1 gives all, 0 none. */
static const uint64_t rarities[] = {0, 1, 2, 3, 17, 100, 1000, 5000};

static uint64_t pad(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* ---- a decoder for one element, out of FORMAT.md ---- */

static uint64_t body_size(uint64_t size, uint32_t entry, uint64_t count) {
    if (entry == 0)
        return 0;
    if (entry == 0x20000)
        return pad(count * size, 16);
    return pad(pad(4 + 4 * (uint64_t)(entry >> 11), size) + (entry & 2047) * size, 16);
}

static uint64_t element_of(enum dtype t, const uint8_t *slot, uint64_t elems, uint64_t at) {
    uint64_t size = dtype_bytes(t), v = 16 / size, group = at / 1024, e = at % 1024;
    uint64_t tiles = (elems + 8191) / 8192, groups = (elems + 1023) / 1024, lane = e % (32 * v) / v;
    uint64_t i = e / (32 * v) * v + e % v, words = 0, values = 0;
    const uint8_t *entries = slot + 32 + 4 * tiles;
    const uint8_t *body = slot + pad(32 + 4 * tiles + 4 * groups, 32) +
                          32 * (uint64_t)word_at(slot + 32 + 4 * (group / 8));
    uint32_t entry = word_at(entries + 4 * group), word = 0;

    for (uint64_t g = group / 8 * 8; g < group; g++)
        body += body_size(size, word_at(entries + 4 * g), 1024);
    if (entry == 0)
        return 0;
    if (entry == 0x20000)
        return get_bits(t, body, e);
    for (uint64_t l = 0; l <= lane; l++) {
        word = 0;
        if ((word_at(body) >> l & 1) == 0)
            continue;
        word = word_at(body + 4 + 4 * words++);
        for (uint64_t b = 0; b < (l == lane ? i : 32); b++)
            values += word >> b & 1;
    }
    if ((word >> i & 1) == 0)
        return 0;
    return get_bits(t, body + pad(4 + 4 * (uint64_t)(entry >> 11), size), values);
}

/* ---- round trips ---- */

static void fill_rarely(enum dtype t, uint8_t *to, uint64_t elems, uint64_t rarity, uint64_t seed) {
    memset(to, 0, elems * dtype_bytes(t));
    for (uint64_t i = 0; i < elems && rarity > 0; i++) {
        uint64_t r = next_random(&seed), bits = next_random(&seed);

        /* -0 in a float; a byte that is not the first, not zero */
        if (r % 8 == 0)
            bits = UINT64_C(1) << (dtype_bytes(t) * 8 - 1);
        if (r / 8 % rarity == 0)
            put_bits(t, to, i, bits);
    }
}

static void check_elements(enum dtype t, const uint8_t *slot, uint64_t need, const void *src,
                           uint64_t elems) {
    (void)need;
    for (uint64_t i = 0; i<elems; i += elems> 9000 ? 7 : 1)
        assert_true(element_of(t, slot, elems, i) == get_bits(t, src, i));
}

/* The bytes it took. */
static uint64_t check_round_trip(enum dtype t, const void *src, uint64_t elems) {
    return check_comes_back("sparse", t, src, elems, check_elements);
}

static void every_type_size_and_rarity_comes_back(void **state) {
    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++)
            for (size_t r = 0; r < ARRAY_LENGTH(rarities); r++) {
                uint8_t *src = exact_alloc(sizes[n] * dtype_bytes((enum dtype)t));

                fill_rarely((enum dtype)t, src, sizes[n], rarities[r], n * 100 + r);
                check_round_trip((enum dtype)t, src, sizes[n]);
                free(src);
            }
}

static void every_pattern_comes_back(void **state) {
    (void)state;
    check_patterns(check_round_trip, 20011);
}

static void one_value_alone_is_found_wherever_it_is(void **state) {
    const uint64_t elems = 2050;

    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (uint64_t at = 0; at < elems; at += at < 300 ? 1 : 13) {
            uint64_t size = dtype_bytes((enum dtype)t);
            uint8_t *src = calloc(elems, size);

            src[at * size + size - 1] = 0x80;
            /* header, tile, three entries: 48 to 64; present, a word, a value to 16; to 32 */
            assert_int_equal(check_round_trip((enum dtype)t, src, elems), 64 + 32);
            free(src);
        }
}

static void a_group_has_the_bytes_of_the_document(void **state) {
    struct codec sparse = codec_of("sparse");
    uint16_t src[1024] = {0};
    uint8_t slot[4096];
    const uint64_t elems = 1024;
    uint64_t need, words[4];

    (void)state;
    src[1] = 0x8000;       /* lane 0, element 1 */
    src[256 + 8] = 0x1234; /* lane 1, element 8 */
    src[8] = 0x0001;       /* lane 1, element 0 */
    src[1023] = 0xffff;    /* lane 31, element 31 */
    assert_int_equal(codec_encode(&sparse, DTYPE_BF16, src, elems, slot, sizeof slot, &need, NULL),
                     CODEC_OK);
    memcpy(words, slot, 32);
    assert_memory_equal(slot, "SLS\1\1\0\0\0", 8);
    assert_int_equal(words[1], elems);
    assert_int_equal(words[2], need);
    assert_int_equal(words[3], 0);
    assert_int_equal(word_at(slot + 32), 0);
    assert_int_equal(word_at(slot + 36), 4 | 3 << 11);
    assert_int_equal(word_at(slot + 64), 0x80000003);
    assert_int_equal(word_at(slot + 68), 2);
    assert_int_equal(word_at(slot + 72), 0x101);
    assert_int_equal(word_at(slot + 76), 0x80000000);
    assert_memory_equal(slot + 80, "\x00\x80\x01\x00\x34\x12\xff\xff", 8);
    assert_memory_equal(slot + 88, "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(need, 64 + 32);
}

static void sizes_follow_the_values(void **state) {
    const uint64_t elems = 1 << 20;
    uint8_t *src = exact_alloc(elems * 4);

    (void)state;
    memset(src, 0, elems * 4);
    assert_int_equal(check_round_trip(DTYPE_F32, src, elems), 32 + 128 * 4 + 1024 * 4);
    fill_rarely(DTYPE_F32, src, elems, 1000, 1); /* 4 + 4 bytes each, and 16 + 12 a group */
    assert_true(check_round_trip(DTYPE_F32, src, elems) < elems / 1000 * 8 + 1024 * 30);
    fill_rarely(DTYPE_F32, src, elems, 10, 1); /* a bit an element, and 4 bytes each */
    assert_true(check_round_trip(DTYPE_F32, src, elems) < elems / 10 * 4 + elems / 8 + 1024 * 24);
    fill_rarely(DTYPE_F32, src, elems, 1, 1);
    assert_int_equal(check_round_trip(DTYPE_F32, src, elems), 32 + 128 * 4 + 1024 * 4 + elems * 4);
    free(src);
}

static void compositions_encode_the_cast_values(void **state) {
    struct codec both = codec_of("cast(bf16) | sparse(0.3)");
    const uint64_t elems = 40000;
    float *src = exact_alloc(elems * 4);

    (void)state;
    for (uint64_t i = 0; i < elems; i++)
        src[i] = i % 37 != 0 ? 0 : (float)i / 7;
    assert_true(check_cast_first("cast(bf16) | sparse(0.3)", "sparse", src, elems) <
                codec_slot_bytes(&both, DTYPE_F32, elems));
    free(src);
}

/* ---- overflow ---- */

static void every_slot_size_overflows_or_holds_all(void **state) {
    const uint64_t elems = 20000;
    uint8_t *src = exact_alloc(elems * 4);

    (void)state;
    fill_rarely(DTYPE_F32, src, elems, 20, 5);
    check_slot_sizes("sparse", DTYPE_F32, src, elems, check_round_trip(DTYPE_F32, src, elems), 97);
    free(src);
}

/* ---- malformed ---- */

/* The values of one f32 group of `count` elements, with this entry and body. */
static const char *reason_of(uint64_t count, uint32_t entry, const void *body,
                             uint64_t body_bytes) {
    struct codec sparse = codec_of("sparse");
    uint64_t groups = (count + 1023) / 1024, at = pad(32 + 4 + 4 * groups, 32);
    uint64_t encoded = at + pad(body_bytes, 32);
    uint8_t *slot = calloc(encoded, 1), *back = exact_alloc(count * 4);
    const char *reason = NULL;

    memcpy(slot, "SLS\1\3\0\0\0", 8);
    memcpy(slot + 8, &count, 8);
    memcpy(slot + 16, &encoded, 8);
    memcpy(slot + 36 + 4 * (groups - 1), &entry, 4);
    memcpy(slot + at, body, body_bytes);
    codec_decode(&sparse, DTYPE_F32, slot, encoded, count, back, NULL, &reason);
    free(back);
    free(slot);
    return reason;
}

static void every_impossible_group_has_its_reason(void **state) {
    static const char numbers[] = "a group entry has impossible numbers of values and words";
    uint32_t body[1024] = {0x10, 0x9, 0x3f800000, 0x40000000};

    (void)state;
    assert_null(reason_of(1024, 2 | 1 << 11, body, 16));
    assert_null(reason_of(1024, 0, body, 0));
    assert_string_equal(reason_of(1024, 1 << 11, body, 16), numbers);
    assert_string_equal(reason_of(1024, 2, body, 16), numbers);
    assert_string_equal(reason_of(1024, 1 | 2 << 11, body, 16), numbers);
    assert_string_equal(reason_of(1024, 33 | 1 << 11, body, 160), numbers);
    assert_string_equal(reason_of(1024, 40 | 33 << 11, body, 304), numbers);
    assert_string_equal(reason_of(1024, 1 << 17 | 1, body, 4096), numbers);
    assert_string_equal(reason_of(1024, 1u << 31, body, 16), numbers);
    assert_string_equal(reason_of(1024, 1024 | 32 << 11, body, 4096),
                        "a group has more values than would go raw");
    assert_string_equal(reason_of(1024 + 5, 5 | 1 << 11, body, 32),
                        "a group has more values than would go raw");
    assert_string_equal(reason_of(1024, 3 | 1 << 11, body, 32),
                        "a group has other values than its entry says");
    assert_string_equal(reason_of(1024, 3 | 2 << 11, body, 32),
                        "a group has other lanes than its entry says");
    /* lane 4 has the elements 16..19, 144..147 and so on */
    assert_null(reason_of(1024 + 20, 2 | 1 << 11, body, 16));
    assert_string_equal(reason_of(1024 + 19, 2 | 1 << 11, body, 16),
                        "a group has values behind its last element");
}

static void every_header_and_directory_bit_matters(void **state) {
    struct codec sparse = codec_of("sparse");
    const uint64_t elems = 20000; /* 3 tiles, 20 groups: 32 + 12 + 80 bytes, to 128 */
    uint64_t slot_bytes = codec_slot_bytes(&sparse, DTYPE_BF16, elems), need;
    uint8_t *src = exact_alloc(elems * 2), *slot = exact_alloc(slot_bytes);

    (void)state;
    fill_rarely(DTYPE_BF16, src, elems, 50, 9);
    fill_rarely(DTYPE_BF16, src + 4096, 1024, 1, 9);
    memset(src + 8192, 0, 2048);
    codec_encode(&sparse, DTYPE_BF16, src, elems, slot, slot_bytes, &need, NULL);
    assert_int_equal(word_at(slot + 44 + 8), 0x20000);
    assert_int_equal(word_at(slot + 44 + 16), 0);
    check_damaged_head("sparse", DTYPE_BF16, slot, need, elems, 124, 24, 509);
    free(slot);
    free(src);
}

static void random_damage_never_leaves_the_buffers(void **state) {
    uint64_t seed = 17;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        enum dtype t = (enum dtype)(round % DTYPE_COUNT);
        const uint64_t elems = 1024 + next_random(&seed) % 9000;
        uint8_t *src = exact_alloc(elems * dtype_bytes(t));

        fill_rarely(t, src, elems, rarities[(size_t)round % ARRAY_LENGTH(rarities)],
                    next_random(&seed));
        check_random_damage("sparse", t, src, elems, round % 3 != 0 ? 32 : 0, 1 + round % 4, &seed);
        free(src);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_size_and_rarity_comes_back),
        cmocka_unit_test(every_pattern_comes_back),
        cmocka_unit_test(one_value_alone_is_found_wherever_it_is),
        cmocka_unit_test(a_group_has_the_bytes_of_the_document),
        cmocka_unit_test(sizes_follow_the_values),
        cmocka_unit_test(compositions_encode_the_cast_values),
        cmocka_unit_test(every_slot_size_overflows_or_holds_all),
        cmocka_unit_test(every_impossible_group_has_its_reason),
        cmocka_unit_test(every_header_and_directory_bit_matters),
        cmocka_unit_test(random_damage_never_leaves_the_buffers),
    };
    return cmocka_run_group_tests_name("codec_sparse", tests, NULL, NULL);
}
