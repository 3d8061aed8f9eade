/*
 * test_codec_lz.c: lz keeps every bit, makes blocks that liblz4 reads and reads blocks that liblz4
 * makes, stays in its slot, marks what does not fit, and refuses what is not an encoding.
 */
#include "tests/unit/bounded_test.h"

#ifdef SLUICE_HAVE_LZ4
#include <lz4.h>
#include <lz4hc.h>
#endif

#define BLOCK 65536u

static const uint64_t sizes[] = {0,     1,     1023,  1024,  1025,  4096,   8191,
                                 16384, 16389, 32768, 65535, 65536, 100003, 140000};

static uint64_t payload_at(uint64_t raw_bytes) {
    return (32 + (raw_bytes + BLOCK - 1) / BLOCK * 8 + 31) / 32 * 32;
}

/* Data that repeats itself: copies from near and far, runs of short periods, new bytes between. */
static void fill_repeats(uint8_t *to, uint64_t bytes, uint64_t seed) {
    uint64_t at = 0;

    while (at < bytes) {
        uint64_t r = next_random(&seed), kind = r % 4, n = 1 + (r >> 8) % (kind == 3 ? 2000 : 60);
        uint64_t reach = kind == 1 ? 1 + (r >> 24) % 20 : 1 + (r >> 24) % 90000;

        if (n > bytes - at)
            n = bytes - at;
        for (uint64_t i = 0; i < n; i++, at++)
            to[at] = kind == 0 || reach > at ? (uint8_t)next_random(&seed) : to[at - reach];
    }
}

/* Every block that is not raw, out of the slot by the document and decoded by liblz4. */
static void check_with_liblz4(enum dtype t, const uint8_t *slot, uint64_t need, const void *src,
                              uint64_t elems) {
#ifdef SLUICE_HAVE_LZ4
    const uint8_t *raw = src;
    uint64_t raw_bytes = elems * dtype_bytes(t), start = payload_at(raw_bytes), end = start;

    for (uint64_t at = 0, b = 0; at < raw_bytes; at += BLOCK, b++) {
        uint32_t offset = word_at(slot + 32 + 8 * b), size = word_at(slot + 36 + 8 * b);
        uint32_t bytes = size & 0x7fffffff;
        int n = raw_bytes - at < BLOCK ? (int)(raw_bytes - at) : (int)BLOCK;
        char *back = exact_alloc((uint64_t)n), *block = exact_alloc(bytes);

        assert_int_equal(start + 32 * (uint64_t)offset, end);
        memcpy(block, slot + end, bytes);
        if (size >> 31 == 0)
            assert_int_equal(LZ4_decompress_safe(block, back, (int)bytes, n), n);
        else
            memcpy(back, block, bytes);
        assert_memory_equal(back, raw + at, (size_t)n);
        end += (bytes + 31) / 32 * 32;
        free(block);
        free(back);
    }
    assert_int_equal(end, need);
#else
    (void)t, (void)slot, (void)need, (void)src, (void)elems;
#endif
}

/* The bytes it took. */
static uint64_t check_round_trip(enum dtype t, const void *src, uint64_t elems) {
    return check_comes_back("lz", t, src, elems, check_with_liblz4);
}

static void every_type_and_size_comes_back(void **state) {
    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                uint64_t bytes = sizes[n] * dtype_bytes((enum dtype)t);
                uint8_t *src = exact_alloc(bytes);

                fill_repeats(src, bytes, seed * 100 + n);
                check_round_trip((enum dtype)t, src, sizes[n]);
                free(src);
            }
}

static void every_pattern_comes_back(void **state) {
    (void)state;
    check_patterns(check_round_trip, 50021);
}

/* All lengths of the last block, down to one byte. */
static void short_last_blocks_come_back(void **state) {
    uint8_t *src = exact_alloc(BLOCK + 600);

    (void)state;
    for (int random = 0; random < 2; random++)
        for (uint64_t more = 1; more < 600; more += more < 40 ? 1 : 37) {
            fill_repeats(src, BLOCK, 3);
            fill_pattern(DTYPE_U8, random != 0 ? PATTERN_RANDOM_BITS : PATTERN_ZERO, src + BLOCK,
                         more, more);
            check_round_trip(DTYPE_U8, src, BLOCK + more);
        }
    free(src);
}

static void a_run_has_the_bytes_of_the_document(void **state) {
    struct codec lz = codec_of("lz");
    uint8_t *src = exact_alloc(4096), slot[64 + 4096];
    const uint64_t elems = 1024;
    uint64_t need, words[4];

    (void)state;
    memset(src, 0x11, 4096);
    assert_int_equal(codec_encode(&lz, DTYPE_F32, src, elems, slot, sizeof slot, &need, NULL), 0);
    memcpy(words, slot, 32);
    assert_memory_equal(slot, "SLZ\1\3\0\0\0", 8);
    assert_int_equal(words[1], elems);
    assert_int_equal(words[2], need);
    assert_int_equal(words[3], 0);
    /* four literals; 4,087 bytes that repeat them: 4,083 = 15 + 15 x 255 + 243; five literals */
    assert_int_equal(word_at(slot + 32), 0);
    assert_int_equal(word_at(slot + 36), 1 + 4 + 2 + 16 + 1 + 5);
    assert_memory_equal(slot + 64, "\x4f\x11\x11\x11\x11\x04\x00", 7);
    for (int i = 0; i < 15; i++)
        assert_int_equal(slot[71 + i], 255);
    assert_int_equal(slot[86], 4087 - 4 - 15 - 15 * 255);
    assert_memory_equal(slot + 87, "\x50\x11\x11\x11\x11\x11", 6);
    assert_int_equal(slot[93], 0);
    assert_int_equal(need, 64 + 32);
    free(src);
}

static void zeros_and_noise_have_their_sizes(void **state) {
    const uint64_t elems = 1 << 18;
    struct codec lz = codec_of("lz");
    uint8_t *src = calloc(elems * 4, 1);

    (void)state;
    assert_true(check_round_trip(DTYPE_F32, src, elems) < elems * 4 / 200);
    fill_pattern(DTYPE_F32, PATTERN_RANDOM_BITS, src, elems, 1);
    assert_int_equal(check_round_trip(DTYPE_F32, src, elems), 32 + 16 * 8 + elems * 4);
    assert_int_equal(codec_worst_bytes(&lz, DTYPE_F32, elems), 32 + 16 * 8 + elems * 4);
    free(src);
}

static void our_decoder_reads_what_liblz4_makes(void **state) {
#ifdef SLUICE_HAVE_LZ4
    struct codec lz = codec_of("lz");

    (void)state;
    for (int round = 0; round < 200; round++) {
        uint64_t seed = (uint64_t)round, n = 1024 + next_random(&seed) % (BLOCK - 1024);
        uint64_t size, encoded;
        uint8_t *src = exact_alloc(n), *back = exact_alloc(n), *slot = calloc(2 * BLOCK, 1), *tight;
        const char *reason = "none";
        int bytes;

        fill_repeats(src, n, seed);
        bytes = round % 2 != 0 ? LZ4_compress_HC((char *)src, (char *)slot + 64, (int)n, BLOCK, 12)
                               : LZ4_compress_fast((char *)src, (char *)slot + 64, (int)n, BLOCK,
                                                   1 + round % 20);
        assert_true(bytes > 0);
        if ((uint64_t)bytes < n) {
            size = (uint64_t)bytes << 32;
            encoded = 64 + ((uint64_t)bytes + 31) / 32 * 32;
            memcpy(slot, "SLZ\1\7\0\0\0", 8);
            memcpy(slot + 8, &n, 8);
            memcpy(slot + 16, &encoded, 8);
            memcpy(slot + 32, &size, 8);
            tight = exact_alloc(encoded);
            memcpy(tight, slot, encoded);
            if (codec_decode(&lz, DTYPE_U8, tight, encoded, n, back, NULL, &reason) != CODEC_OK)
                fail_msg("round %d: %s", round, reason);
            assert_memory_equal(back, src, n);
            free(tight);
        }
        free(slot);
        free(back);
        free(src);
    }
#else
    (void)state;
    skip();
#endif
}

static void compositions_pack_the_cast_values(void **state) {
    const uint64_t elems = 40000;
    float *src = exact_alloc(elems * 4);

    (void)state;
    for (uint64_t i = 0; i < elems; i++)
        src[i] = (float)(i % 37 * (i / 3000));
    assert_true(check_cast_first("cast(bf16) | lz", "lz", src, elems) < elems);
    free(src);
}

/* ---- overflow ---- */

static void every_slot_size_overflows_or_holds_all(void **state) {
    const uint64_t elems = 70000;
    uint8_t *src = exact_alloc(elems);

    (void)state;
    fill_repeats(src, elems, 5);
    check_slot_sizes("lz", DTYPE_U8, src, elems, check_round_trip(DTYPE_U8, src, elems), 499);
    free(src);
}

static void a_mark_travels_and_names_its_codec(void **state) {
    struct codec lz = codec_of("lz(0.5)"), pack = codec_of("pack(0.5)");
    uint8_t slot[32], back[8192];
    uint64_t bytes;
    bool marked;
    const char *reason;

    (void)state;
    assert_int_equal(codec_slot_bytes(&lz, DTYPE_BF16, 4096), 32 + 4096);
    assert_int_equal(codec_least_bytes(&lz, DTYPE_BF16, 4096), 32);
    assert_false(codec_mark_overflow(&lz, DTYPE_BF16, 1000, slot, sizeof slot, 0));
    assert_true(codec_mark_overflow(&lz, DTYPE_BF16, 4096, slot, sizeof slot, 1234));
    assert_int_equal(codec_decode(&lz, DTYPE_BF16, slot, 32, 4096, back, NULL, &reason),
                     CODEC_OVERFLOW);
    assert_true(codec_encoded_bytes(&lz, DTYPE_BF16, 4096, slot, 32, &bytes, &marked) && marked);
    assert_int_equal(bytes, 1234);
    assert_int_equal(codec_decode(&pack, DTYPE_BF16, slot, 32, 4096, back, NULL, &reason),
                     CODEC_MALFORMED);
    assert_string_equal(reason, "not an encoding by this codec, or another version");
}

/* ---- malformed ---- */

/* One block of 1,024 bytes made of this. */
static const char *reason_of(const void *block, uint64_t block_bytes) {
    struct codec lz = codec_of("lz");
    uint64_t n = 1024, encoded = 64 + (block_bytes + 31) / 32 * 32, entry = block_bytes << 32;
    uint8_t *slot = calloc(encoded, 1), back[1024];
    const char *reason = NULL;

    memcpy(slot, "SLZ\1\7\0\0\0", 8);
    memcpy(slot + 8, &n, 8);
    memcpy(slot + 16, &encoded, 8);
    memcpy(slot + 32, &entry, 8);
    memcpy(slot + 64, block, block_bytes);
    codec_decode(&lz, DTYPE_U8, slot, encoded, n, back, NULL, &reason);
    free(slot);
    return reason;
}

static void every_impossible_block_has_its_reason(void **state) {
    /* five literals, 1,014 from one before = 15 + 3 x 255 + 230 + 4, five literals */
    uint8_t good[] = {0x5f, 1, 2, 3, 4, 5, 1, 0, 255, 255, 255, 230, 0x50, 1, 2, 3, 4, 5};
    uint8_t bad[sizeof good];

    (void)state;
    assert_null(reason_of(good, sizeof good));
    for (uint64_t bytes = 1; bytes < sizeof good; bytes++)
        assert_non_null(reason_of(good, bytes));
    assert_string_equal(reason_of(good, 3), "a block ends inside its literals");
    assert_string_equal(reason_of(good, 6), "a block has too few elements");
    assert_string_equal(reason_of(good, 7), "a block ends inside a distance");
    assert_string_equal(reason_of(good, 10), "a match ends behind its block");
    assert_string_equal(reason_of(good, 12), "a block ends before its last literals");
    memcpy(bad, good, sizeof good);
    bad[6] = 0;
    assert_string_equal(reason_of(bad, sizeof bad), "a match begins before its block");
    bad[6] = 6;
    assert_string_equal(reason_of(bad, sizeof bad), "a match begins before its block");
    memcpy(bad, good, sizeof good);
    bad[11] = 236;
    assert_string_equal(reason_of(bad, sizeof bad), "a match ends behind its block");
    memcpy(bad, good, sizeof good);
    bad[11] = 231;
    assert_string_equal(reason_of(bad, sizeof bad), "a block has more literals than elements");
    memcpy(bad, good, sizeof good);
    bad[11] = 229;
    assert_string_equal(reason_of(bad, sizeof bad), "a block has too few elements");
    assert_string_equal(reason_of(good, 0), "a block has an impossible size");
    memcpy(bad, good, sizeof good);
    bad[12] = 0x5f; /* the last token has no match, and says nothing of one */
    assert_null(reason_of(bad, sizeof bad));
}

static void every_header_and_directory_byte_matters(void **state) {
    struct codec lz = codec_of("lz");
    const uint64_t elems = 150000; /* three blocks, the second one noise: 32 + 24 bytes, to 64 */
    uint64_t slot_bytes = codec_slot_bytes(&lz, DTYPE_U8, elems), need;
    uint8_t *src = exact_alloc(elems), *slot = exact_alloc(slot_bytes);

    (void)state;
    fill_repeats(src, elems, 9);
    fill_pattern(DTYPE_U8, PATTERN_RANDOM_BITS, src + BLOCK, BLOCK, 1);
    codec_encode(&lz, DTYPE_U8, src, elems, slot, slot_bytes, &need, NULL);
    assert_true(slot[32 + 15] >> 7 == 1 && slot[32 + 7] >> 7 == 0);
    check_damaged_head("lz", DTYPE_U8, slot, need, elems, 56, 64, 1009);
    free(slot);
    free(src);
}

static void random_damage_never_leaves_the_buffers(void **state) {
    const uint64_t elems = 3000;
    uint8_t *src = exact_alloc(elems);
    uint64_t seed = 17;

    (void)state;
    for (int round = 0; round < 1500; round++) {
        fill_repeats(src, elems, next_random(&seed));
        check_random_damage("lz", DTYPE_U8, src, elems, round % 3 != 0 ? 64 : 0, 1 + round % 4,
                            &seed);
    }
    free(src);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_size_comes_back),
        cmocka_unit_test(every_pattern_comes_back),
        cmocka_unit_test(short_last_blocks_come_back),
        cmocka_unit_test(a_run_has_the_bytes_of_the_document),
        cmocka_unit_test(zeros_and_noise_have_their_sizes),
        cmocka_unit_test(our_decoder_reads_what_liblz4_makes),
        cmocka_unit_test(compositions_pack_the_cast_values),
        cmocka_unit_test(every_slot_size_overflows_or_holds_all),
        cmocka_unit_test(a_mark_travels_and_names_its_codec),
        cmocka_unit_test(every_impossible_block_has_its_reason),
        cmocka_unit_test(every_header_and_directory_byte_matters),
        cmocka_unit_test(random_damage_never_leaves_the_buffers),
    };
    return cmocka_run_group_tests_name("codec_lz", tests, NULL, NULL);
}
