/*
 * test_codec_pack.c: pack keeps every bit, makes the same bytes with and without vectors, stays in
 * its slot, marks what does not fit, and refuses what is not an encoding. A second decoder here,
 * written element by element from FORMAT.md, reads what the encoder makes.
 */
#include "tests/unit/codec_test.h"

#include "kernels/pack_steps.h"

static const enum dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
static const char *const data_names[] = {"grad_bf16.bin", "weight_bf16.bin", "act_bf16.bin",
                                         "grad_f32.bin", "grad_f32_accum.bin"};
static const double data_ratio[] = {0.69, 0.715, 0.715, 0.80, 0.54};

static const uint64_t sizes[] = {0,    1,    31,   32,   33,   1023, 1024,  1025,  1031,
                                 2047, 2049, 4093, 8191, 8192, 8193, 16384, 20011, 40960};

/* ---- a decoder for one element, out of FORMAT.md ---- */

static uint32_t word_at(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

struct place {
    uint32_t entry;
    const uint8_t *body, *escapes;
};

static uint32_t body_size(enum dtype t, uint32_t entry, uint64_t count) {
    uint32_t mode = entry >> 8 & 7;

    if (mode == 0)
        return 0;
    if (mode == 7)
        return (uint32_t)((count * dtype_bytes(t) + 15) / 16 * 16);
    return 1024 + (mode - 1) * 128 + (t == DTYPE_F16 ? 384 : 0) + (entry >> 22 & 255) * 16;
}

static struct place find_group(enum dtype t, const uint8_t *slot, uint64_t elems, uint64_t group) {
    uint64_t tiles = (elems + 8191) / 8192, groups = (elems + 1023) / 1024, first = group / 8 * 8;
    const uint8_t *entries = slot + 32 + 4 * tiles;
    const uint8_t *payload = slot + (32 + 4 * tiles + 4 * groups + 31) / 32 * 32;
    const uint8_t *tile = payload + 32 * (uint64_t)word_at(slot + 32 + 4 * (group / 8));
    struct place p = {word_at(entries + 4 * group), tile, tile};

    for (uint64_t g = first; g < first + 8 && g < groups; g++) {
        uint64_t count = elems - g * 1024 < 1024 ? elems - g * 1024 : 1024;
        uint32_t entry = word_at(entries + 4 * g);

        p.escapes += body_size(t, entry, count);
        if (g < group)
            p.body += body_size(t, entry, count);
    }
    for (uint64_t g = first; g < group; g++)
        p.escapes += word_at(entries + 4 * g) >> 11 & 2047;
    return p;
}

static uint32_t code_of(const struct place *p, uint32_t lane, uint32_t bit) {
    uint32_t width = (p->entry >> 8 & 7) - 1, code = 0;

    for (uint32_t b = 0; b < width; b++)
        code |= (word_at(p->body + 1024 + 128 * b + 4 * lane) >> bit & 1) << b;
    return code;
}

static uint32_t exponent_of(const struct place *p, uint32_t lane, uint32_t bit) {
    uint32_t mark = (1u << ((p->entry >> 8 & 7) - 1)) - 1, code = code_of(p, lane, bit), before = 0;

    if ((p->entry >> 11 & 2047) == 0 || code != mark)
        return ((p->entry & 255) - code) & 255;
    for (uint32_t l = 0; l <= lane; l++)
        for (uint32_t b = 0; b < (l == lane ? bit : 32); b++)
            before += code_of(p, l, b) == mark;
    return p->escapes[before];
}

static uint32_t low_of(const struct place *p, const uint8_t *low, uint32_t lane, uint32_t i,
                       uint32_t bit) {
    uint32_t units = p->entry >> 22 & 255, value = 0, words = 0;

    if (units == 0)
        return 0;
    if (units == 128) {
        const uint8_t *at = low + 2 * (i / 8 * 256 + lane * 8 + i % 8);
        return (uint32_t)at[0] | (uint32_t)at[1] << 8;
    }
    for (uint32_t j = 0; j < 16; j++)
        for (uint32_t l = 0; l < 32; l++) {
            uint32_t n = 0;

            for (uint32_t b = 0; b < 4; b++)
                n |= (word_at(low + 4 * b) >> l & 1) << b;
            if ((n == 0 ? 0 : n + 1) <= j)
                continue;
            if (l == lane)
                value |= (word_at(low + 16 + 4 * words) >> bit & 1) << (15 - j);
            words++;
        }
    return value;
}

static uint64_t element_of(enum dtype t, const uint8_t *slot, uint64_t elems, uint64_t at) {
    struct place p = find_group(t, slot, elems, at / 1024);
    uint32_t r = (uint32_t)(at % 1024), mode = p.entry >> 8 & 7;
    uint32_t lane = t == DTYPE_F32 ? r % 128 / 4 : r % 256 / 8;
    uint32_t i = t == DTYPE_F32 ? r / 128 * 4 + r % 4 : r / 256 * 8 + r % 8;
    uint32_t bit = i % 2 * 16 + i / 2 % 4 * 4 + i / 8, exponent, byte;
    const uint8_t *planes = p.body + 1024 + 128 * (mode - 1);

    if (mode == 0)
        return 0;
    if (mode == 7)
        return get_bits(t, p.body, r);
    exponent = exponent_of(&p, lane, bit);
    byte = p.body[i / 16 * 512 + lane * 16 + i % 16];
    if (t == DTYPE_F16) {
        uint32_t extra = 0;

        for (uint32_t b = 0; b < 3; b++)
            extra |= (word_at(planes + 128 * b + 4 * lane) >> bit & 1) << b;
        return (extra >> 2) << 15 | (exponent & 31) << 10 | (extra & 3) << 8 | byte;
    }
    exponent = (byte >> 7) << 15 | exponent << 7 | (byte & 127);
    return t == DTYPE_BF16 ? exponent : exponent << 16 | low_of(&p, planes, lane, i, bit);
}

/* ---- what every encoding must satisfy ---- */

static void check_both_steps(enum dtype t, const void *src, uint64_t elems, const uint8_t *slot,
                             uint64_t slot_bytes, uint64_t need) {
    const struct pack_steps *versions[] = {&pack_steps_plain, pack_steps_avx2()};
    uint64_t bytes = elems * dtype_bytes(t), other_need;
    uint8_t *other = exact_alloc(slot_bytes), *back = exact_alloc(bytes);
    const char *reason;

    for (size_t v = 0; v < ARRAY_LENGTH(versions); v++) {
        if (versions[v] == NULL)
            continue;
        assert_int_equal(
            pack_encode_with(versions[v], t, src, elems, other, slot_bytes, &other_need), CODEC_OK);
        assert_int_equal(other_need, need);
        assert_memory_equal(other, slot, need);
        memset(back, 0xa5, bytes);
        assert_int_equal(pack_decode_with(versions[v], t, slot, need, elems, back, &reason),
                         CODEC_OK);
        assert_memory_equal(back, src, bytes);
    }
    free(back);
    free(other);
}

/* The bytes it took. */
static uint64_t check_round_trip(enum dtype t, const void *src, uint64_t elems) {
    struct codec pack = codec_of("pack");
    uint64_t slot_bytes = codec_slot_bytes(&pack, t, elems), bytes = elems * dtype_bytes(t), need;
    uint8_t *slot = exact_alloc(slot_bytes), *back = exact_alloc(bytes);
    const char *reason;

    memset(slot, 0x5a, slot_bytes);
    assert_int_equal(codec_worst_bytes(&pack, t, elems), slot_bytes);
    assert_int_equal(codec_encode(&pack, t, src, elems, slot, slot_bytes, &need, NULL), CODEC_OK);
    assert_true(need <= slot_bytes);
    assert_int_equal(codec_decode(&pack, t, slot, slot_bytes, elems, back, NULL, &reason),
                     CODEC_OK);
    assert_memory_equal(back, src, bytes);
    if (codec_has_header(&pack, t, elems))
        check_both_steps(t, src, elems, slot, slot_bytes, need);
    free(back);
    free(slot);
    return need;
}

static void every_pattern_and_size_comes_back(void **state) {
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++)
        for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++)
            for (int p = 0; p < PATTERN_COUNT; p++) {
                void *src = exact_alloc(sizes[n] * dtype_bytes(types[k]));

                fill_pattern(types[k], (enum pattern)p, src, sizes[n], n * 100 + (uint64_t)p);
                check_round_trip(types[k], src, sizes[n]);
                free(src);
            }
}

/* Random mixtures of two patterns, random sizes, at odd addresses. */
static void random_mixtures_come_back_at_any_address(void **state) {
    uint64_t seed = 7;

    (void)state;
    for (int round = 0; round < 300; round++) {
        enum dtype t = types[next_random(&seed) % 3];
        uint64_t elems = 1024 + next_random(&seed) % 12000, every = 1 + next_random(&seed) % 200;
        uint64_t bytes = elems * dtype_bytes(t), off = next_random(&seed) % 8;
        enum pattern a = (enum pattern)(next_random(&seed) % PATTERN_COUNT);
        enum pattern b = (enum pattern)(next_random(&seed) % PATTERN_COUNT);
        uint8_t *src = exact_alloc(bytes + off);

        fill_pattern(t, a, src + off, elems, seed);
        for (uint64_t i = 0; i < elems; i += every)
            put_bits(t, src + off, i, pattern_bits(t, b, i, &seed));
        check_round_trip(t, src + off, elems);
        free(src);
    }
}

static void misaligned_source_slot_and_destination_are_fine(void **state) {
    struct codec pack = codec_of("pack");
    const uint64_t elems = 3000;

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
        enum dtype t = types[k];
        uint64_t bytes = elems * dtype_bytes(t), slot_bytes = codec_slot_bytes(&pack, t, elems);
        uint8_t *src = exact_alloc(bytes + 8), *slot = exact_alloc(slot_bytes + 8),
                *back = exact_alloc(bytes + 8);

        for (uint64_t off = 0; off < 8; off++) {
            const char *reason;

            fill_pattern(t, PATTERN_BELL, src + off, elems, off);
            assert_int_equal(
                codec_encode(&pack, t, src + off, elems, slot + off, slot_bytes, NULL, NULL), 0);
            assert_int_equal(codec_decode(&pack, t, slot + off, slot_bytes, elems, back + (7 - off),
                                          NULL, &reason),
                             CODEC_OK);
            assert_memory_equal(src + off, back + (7 - off), bytes);
        }
        free(back);
        free(slot);
        free(src);
    }
}

static void a_decoder_written_from_the_format_agrees(void **state) {
    struct codec pack = codec_of("pack");

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++)
        for (int p = 0; p < PATTERN_COUNT; p++) {
            const uint64_t elems = 9500;
            enum dtype t = types[k];
            uint64_t slot_bytes = codec_slot_bytes(&pack, t, elems), seed = 3;
            uint8_t *src = exact_alloc(elems * dtype_bytes(t)), *slot = exact_alloc(slot_bytes);

            fill_pattern(t, (enum pattern)p, src, elems, 11);
            codec_encode(&pack, t, src, elems, slot, slot_bytes, NULL, NULL);
            for (int n = 0; n < 400; n++) {
                uint64_t i = next_random(&seed) % elems;

                assert_int_equal(element_of(t, slot, elems, i), get_bits(t, src, i));
            }
            free(slot);
            free(src);
        }
}

/* ---- the encoder's choices, out of FORMAT.md ---- */

struct seen {
    uint32_t exponents[1024], low[1024]; /* by lane * 32 + i */
    bool any;
};

static struct seen look_at(enum dtype t, const uint8_t *src, uint64_t elems, uint64_t group) {
    struct seen s = {{0}, {0}, false};
    uint32_t largest = 0;

    for (int pass = 0; pass < 2; pass++) /* the missing ones get the largest, so it comes first */
        for (uint32_t at = 0; at < 1024; at++) {
            uint32_t lane = t == DTYPE_F32 ? at % 128 / 4 : at % 256 / 8;
            uint32_t i = t == DTYPE_F32 ? at / 128 * 4 + at % 4 : at / 256 * 8 + at % 8;
            uint64_t n = group * 1024 + at, v = n < elems ? get_bits(t, src, n) : 0;
            uint32_t e =
                (uint32_t)(t == DTYPE_F32 ? v >> 23 & 255
                                          : (t == DTYPE_BF16 ? v >> 7 & 255 : v >> 10 & 31));

            s.any = s.any || v != 0;
            largest = e > largest ? e : largest;
            s.exponents[lane * 32 + i] = n < elems ? e : largest;
            s.low[lane * 32 + i] = t == DTYPE_F32 ? (uint32_t)v & 0xffff : 0;
        }
    return s;
}

static uint32_t count_in(const struct seen *s, uint32_t largest, uint32_t from, uint32_t to) {
    uint32_t count = 0;

    for (uint32_t i = 0; i < 1024; i++)
        count += largest - s->exponents[i] >= from && largest - s->exponents[i] <= to;
    return count;
}

static uint32_t low_units(const struct seen *s) {
    uint32_t sum = 0, units;

    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t all = 0, kept = 16;

        for (uint32_t i = 0; i < 32; i++)
            all |= s->low[lane * 32 + i];
        while (kept > 0 && (all >> (16 - kept) & 1) == 0)
            kept--;
        sum += kept == 1 ? 2 : kept;
    }
    units = (16 + 4 * sum + 15) / 16;
    return sum == 0 ? 0 : (units >= 128 ? 128 : units);
}

static uint32_t expected_entry(enum dtype t, const struct seen *s, uint64_t count) {
    uint32_t m = 0, top, width = 0, escapes = 0, units = t == DTYPE_F32 ? low_units(s) : 0, entry;

    if (!s->any)
        return 0;
    for (uint32_t i = 0; i < 1024; i++)
        m = s->exponents[i] > m ? s->exponents[i] : m;
    top = m;
    if (count_in(s, m, 8, 255) == 0) {
        while (count_in(s, m, 1u << width, 255) != 0)
            width++;
    } else {
        uint32_t hung = count_in(s, m, 7, 255);
        uint32_t below = count_in(s, m, 0, 0) + count_in(s, m, 8, 255);
        uint32_t wide = count_in(s, m, 16, 255) == 0 ? 0 : count_in(s, m, 15, 255);

        width = 3;
        escapes = below < hung ? below : hung;
        top = below < hung ? m - 1 : m;
        if (escapes > 128 && wide + 128 < escapes) {
            width = 4;
            escapes = wide;
            top = m;
        }
    }
    entry = top | (width + 1) << 8 | escapes << 11 | units << 22;
    return body_size(t, entry, count) + escapes >= body_size(t, 7 << 8, count) ? 7 << 8 : entry;
}

static void the_encoder_chooses_what_the_document_says(void **state) {
    uint64_t modes[8] = {0}, seed = 17, above = 0;

    (void)state;
    for (int round = 0; round < 200; round++) {
        enum dtype t = types[round % 3];
        uint64_t elems = 1024 + next_random(&seed) % 9000, every = 1 + next_random(&seed) % 60;
        struct codec pack = codec_of("pack");
        uint64_t slot_bytes = codec_slot_bytes(&pack, t, elems), tiles = (elems + 8191) / 8192;
        uint8_t *src = exact_alloc(elems * dtype_bytes(t)), *slot = exact_alloc(slot_bytes);
        enum pattern b = (enum pattern)(next_random(&seed) % PATTERN_COUNT);

        fill_pattern(t, (enum pattern)(round % PATTERN_COUNT), src, elems, seed);
        for (uint64_t i = 0; i < elems && round % 2 != 0; i += every)
            put_bits(t, src, i, pattern_bits(t, b, i, &seed));
        codec_encode(&pack, t, src, elems, slot, slot_bytes, NULL, NULL);
        for (uint64_t g = 0; g < (elems + 1023) / 1024; g++) {
            struct seen s = look_at(t, src, elems, g);
            uint64_t count = elems - g * 1024 < 1024 ? elems - g * 1024 : 1024;
            uint32_t entry = word_at(slot + 32 + 4 * tiles + 4 * g), largest = 0;

            assert_int_equal(entry, expected_entry(t, &s, count));
            for (uint32_t i = 0; i < 1024; i++)
                largest = s.exponents[i] > largest ? s.exponents[i] : largest;
            modes[entry >> 8 & 7]++;
            above += (entry >> 8 & 7) == 4 && (entry & 255) != largest;
        }
        free(slot);
        free(src);
    }
    for (int mode = 0; mode < 8; mode++) /* the patterns reach every mode and the lower window */
        assert_true(modes[mode] > 0 || mode == 6);
    assert_true(above > 0);
}

/* One bf16 group with so many exponents at each distance below 127; the rest are one below. */
static uint32_t entry_of_group(const uint32_t counts[][2], size_t rows) {
    struct codec pack = codec_of("pack");
    uint64_t slot_bytes = codec_slot_bytes(&pack, DTYPE_BF16, 1024);
    uint8_t src[2048], *slot = exact_alloc(slot_bytes);
    uint32_t at = 0, entry;

    for (size_t r = 0; r < rows; r++)
        for (uint32_t n = 0; n < counts[r][1]; n++)
            put_bits(DTYPE_BF16, src, at++, (127 - counts[r][0]) << 7);
    while (at < 1024)
        put_bits(DTYPE_BF16, src, at++, 126 << 7);
    codec_encode(&pack, DTYPE_BF16, src, 1024, slot, slot_bytes, NULL, NULL);
    entry = word_at(slot + 36);
    free(slot);
    return entry;
}

static uint32_t codes_entry(uint32_t top, uint32_t width, uint32_t escapes) {
    return top | (width + 1) << 8 | escapes << 11;
}

static void ties_between_windows_go_to_the_first(void **state) {
    /* hung from the top 7 and more escape, from one below 0 and 8 and more */
    const uint32_t tie[][2] = {{0, 5}, {7, 5}, {8, 3}}, below[][2] = {{0, 4}, {7, 5}, {8, 3}};
    const uint32_t tie_4[][2] = {{0, 300}, {15, 10}, {16, 1}, {9, 128}};
    const uint32_t wide[][2] = {{0, 300}, {15, 10}, {16, 1}, {9, 129}};
    const uint32_t no_16[][2] = {{0, 300}, {15, 10}, {9, 119}};

    (void)state;
    assert_int_equal(entry_of_group(tie, 3), codes_entry(127, 3, 8));
    assert_int_equal(entry_of_group(below, 3), codes_entry(126, 3, 7));
    assert_int_equal(entry_of_group(tie_4, 4), codes_entry(127, 3, 139));
    assert_int_equal(entry_of_group(wide, 4), codes_entry(127, 4, 11));
    assert_int_equal(entry_of_group(no_16, 3), codes_entry(127, 4, 0));
}

/* The format is frozen: a group whose bytes are known by hand. */
static void a_small_encoding_has_the_bytes_of_the_document(void **state) {
    struct codec pack = codec_of("pack");
    uint64_t slot_bytes = codec_slot_bytes(&pack, DTYPE_BF16, 1025), need;
    uint8_t src[1025 * 2], *slot = exact_alloc(slot_bytes);
    static const uint8_t head[] = {
        'S',  'L',  'P', 1, 1, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0, /* bf16, 1,025 elements */
        0xe0, 5,    0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 1,504 bytes */
        0,    0,    0,   0,                                     /* tile 0 at 0 */
        127,  0x0c, 0,   0,                                     /* top 127, width 3, 1 escape */
        0,    7,    0,   0                                      /* raw */
    };

    (void)state;
    for (uint64_t i = 0; i < 1025; i++)
        put_bits(DTYPE_BF16, src, i, 0x3f80 - i % 7 * 0x80);
    put_bits(DTYPE_BF16, src, 9, 5 << 7 | 5); /* lane 1, i = 1; exponent 5, mantissa 5 */
    assert_int_equal(codec_encode(&pack, DTYPE_BF16, src, 1025, slot, slot_bytes, &need, NULL), 0);
    assert_int_equal(need, 64 + 1408 + 32);
    assert_memory_equal(slot, head, sizeof head);
    for (uint32_t i = 0; i < 1024; i++) /* the byte plane: element 9 is byte 17 of it */
        assert_int_equal(slot[64 + i], i == 17 ? 0x05 : 0);
    for (uint32_t b = 0; b < 3; b++) /* codes of lane 1: elements 8..15, 264.., 520.., 776.. */
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t at = i / 8 * 256 + 8 + i % 8, code = at == 9 ? 7 : at % 7;
            uint32_t word = word_at(slot + 64 + 1024 + 128 * b + 4);

            assert_int_equal(word >> (i % 2 * 16 + i / 2 % 4 * 4 + i / 8) & 1, code >> b & 1);
        }
    assert_int_equal(get_bits(DTYPE_BF16, slot + 64 + 1408, 0), 0x3f80 - 1024 % 7 * 0x80);
    assert_int_equal(slot[64 + 1408 + 16], 5); /* the escape, after both bodies */
    free(slot);
}

/* ---- size ---- */

static void a_zero_group_costs_its_entry_only(void **state) {
    uint8_t *src = calloc(8192 * 4, 1);

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++)
        assert_int_equal(check_round_trip(types[k], src, 8192), 96);
    free(src);
}

static void data_files_reach_their_ratio(void **state) {
    const char *folder = getenv("SLUICE_TEST_DATA");
    int found = 0;

    (void)state;
    for (size_t f = 0; f < ARRAY_LENGTH(data_names); f++) {
        enum dtype t = strstr(data_names[f], "f32") != NULL ? DTYPE_F32 : DTYPE_BF16;
        uint64_t bytes, took;
        void *src = read_file(folder != NULL ? folder : "tests/data", data_names[f], &bytes);

        if (src == NULL)
            continue;
        found++;
        took = check_round_trip(t, src, bytes / dtype_bytes(t));
        print_message("%-20s %8llu bytes, ratio %.4f\n", data_names[f], (unsigned long long)bytes,
                      (double)took / (double)bytes);
        /* The targets hold for the whole files; the small cuts in the tree are one spot of each. */
        if (bytes > 1000000 && (double)took > data_ratio[f] * (double)bytes)
            fail_msg("%s: more than %.3f", data_names[f], data_ratio[f]);
        assert_true((double)took < 0.9 * (double)bytes);
        free(src);
    }
    if (found == 0)
        skip();
}

static void worst_case_data_fits_the_default_slot_and_only_just(void **state) {
    struct codec pack = codec_of("pack");

    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
        const uint64_t elems = 20011;
        void *src = exact_alloc(elems * dtype_bytes(types[k]));

        fill_pattern(types[k], PATTERN_RANDOM_BITS, src, elems, 5);
        if (types[k] != DTYPE_F16) /* random exponents of 5 bits still pack a little */
            assert_int_equal(check_round_trip(types[k], src, elems),
                             codec_worst_bytes(&pack, types[k], elems));
        free(src);
    }
}

/* ---- overflow ---- */

static void check_slot_size(enum dtype t, const void *src, uint64_t elems, uint64_t slot_bytes,
                            uint64_t need) {
    struct codec pack = codec_of("pack");
    uint64_t bytes = elems * dtype_bytes(t), said, stored;
    uint8_t *slot = exact_alloc(slot_bytes), *back = exact_alloc(bytes);
    enum codec_status status = codec_encode(&pack, t, src, elems, slot, slot_bytes, &said, NULL);
    const char *reason;
    bool overflowed;

    assert_int_equal(said, need);
    assert_int_equal(status, slot_bytes >= need ? CODEC_OK : CODEC_OVERFLOW);
    assert_true(codec_encoded_bytes(&pack, t, elems, slot, slot_bytes, &stored, &overflowed));
    assert_int_equal(overflowed, slot_bytes < need);
    assert_int_equal(stored, need);
    memset(back, 0x77, bytes);
    assert_int_equal(codec_decode(&pack, t, slot, slot_bytes, elems, back, NULL, &reason), status);
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(back[i], status == CODEC_OK ? ((const uint8_t *)src)[i] : 0x77);
    free(back);
    free(slot);
}

static void every_slot_size_overflows_or_holds_all(void **state) {
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
        const uint64_t elems = 1100;
        enum dtype t = types[k];
        void *src = exact_alloc(elems * dtype_bytes(t));
        uint64_t need;

        fill_pattern(t, PATTERN_BELL, src, elems, 9);
        need = check_round_trip(t, src, elems);
        for (uint64_t slot_bytes = 32; slot_bytes < need + 70; slot_bytes++)
            check_slot_size(t, src, elems, slot_bytes, need);
        free(src);
    }
}

static void slots_around_the_need_of_many_tiles(void **state) {
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
        const uint64_t elems = 30000;
        enum dtype t = types[k];
        void *src = exact_alloc(elems * dtype_bytes(t));
        uint64_t need;

        fill_pattern(t, PATTERN_BELL, src, elems, 10);
        need = check_round_trip(t, src, elems);
        for (uint64_t slot_bytes = need - 40; slot_bytes < need + 40; slot_bytes++)
            check_slot_size(t, src, elems, slot_bytes, need);
        for (uint64_t slot_bytes = 32; slot_bytes < need; slot_bytes += 997)
            check_slot_size(t, src, elems, slot_bytes, need);
        free(src);
    }
}

/* Raw tiles fill all the room a tile can have: one byte less and the last must not be written. */
static void slots_around_the_need_of_raw_tiles(void **state) {
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
        const uint64_t elems = 16384;
        enum dtype t = types[k];
        void *src = exact_alloc(elems * dtype_bytes(t));
        uint64_t need;

        fill_pattern(t, PATTERN_RANDOM_BITS, src, elems, 12);
        need = check_round_trip(t, src, elems);
        for (uint64_t slot_bytes = need - 40; slot_bytes < need + 8; slot_bytes++)
            check_slot_size(t, src, elems, slot_bytes, need);
        free(src);
    }
}

static void a_mark_travels(void **state) {
    struct codec pack = codec_of("pack(0.72)");
    uint8_t slot[32], back[4096 * 2];
    const char *reason;
    uint64_t bytes;
    bool overflowed;

    (void)state;
    assert_false(codec_mark_overflow(&pack, DTYPE_BF16, 1000, slot, sizeof slot, 0)); /* raw */
    assert_false(codec_mark_overflow(&pack, DTYPE_BF16, 4096, slot, 31, 0));
    assert_true(codec_mark_overflow(&pack, DTYPE_BF16, 4096, slot, sizeof slot, 1234));
    assert_int_equal(codec_decode(&pack, DTYPE_BF16, slot, sizeof slot, 4096, back, NULL, &reason),
                     CODEC_OVERFLOW);
    assert_true(codec_encoded_bytes(&pack, DTYPE_BF16, 4096, slot, 32, &bytes, &overflowed));
    assert_true(overflowed);
    assert_int_equal(bytes, 1234);
}

/* ---- malformed ---- */

/* Decodes from a copy of exactly slot_bytes; any status but a crash. */
static enum codec_status decode_copy(enum dtype t, const uint8_t *slot, uint64_t slot_bytes,
                                     uint64_t elems, uint8_t *dst) {
    uint8_t *copy = exact_alloc(slot_bytes);
    const struct pack_steps *avx2 = pack_steps_avx2();
    const char *reason, *plain_reason;
    enum codec_status status;

    memcpy(copy, slot, slot_bytes);
    status = pack_decode_with(&pack_steps_plain, t, copy, slot_bytes, elems, dst, &plain_reason);
    assert_true((status == CODEC_MALFORMED) == (plain_reason != NULL));
    if (avx2 != NULL) {
        assert_int_equal(pack_decode_with(avx2, t, copy, slot_bytes, elems, dst, &reason), status);
        assert_true(reason == plain_reason);
    }
    free(copy);
    return status;
}

static void every_header_and_directory_byte_matters(void **state) {
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
        const uint64_t elems = 10000; /* 2 tiles, 10 groups: 32 + 8 + 40 bytes, padded to 96 */
        enum dtype t = types[k];
        struct codec pack = codec_of("pack");
        uint64_t slot_bytes = codec_slot_bytes(&pack, t, elems), need;
        uint8_t *src = exact_alloc(elems * dtype_bytes(t)), *slot = exact_alloc(slot_bytes);
        uint8_t *back = exact_alloc(elems * dtype_bytes(t));

        fill_pattern(t, PATTERN_SHORT_LOW, src, elems, 2);
        fill_pattern(t, PATTERN_BELL, src, 7000, 2);
        codec_encode(&pack, t, src, elems, slot, slot_bytes, &need, NULL);
        for (uint64_t at = 0; at < 80; at++)
            for (uint32_t bit = 0; bit < 8; bit++) {
                uint8_t keep = slot[at];
                enum codec_status status;

                slot[at] = (uint8_t)(keep ^ 1u << bit);
                status = decode_copy(t, slot, need, elems, back);
                if (at < 40 && !(at == 5 && bit == 0))
                    assert_int_equal(status, CODEC_MALFORMED);
                /* an entry's top may change unseen: it only moves exponents */
                if (at >= 40 && at % 4 != 0)
                    assert_int_equal(status, CODEC_MALFORMED);
                slot[at] = keep;
            }
        assert_int_equal(decode_copy(t, slot, need, elems, back), CODEC_OK);
        assert_int_equal(decode_copy(t, slot, need, elems - 1, back), CODEC_MALFORMED);
        free(back);
        free(slot);
        free(src);
    }
}

/* A slot of one group with this entry, everything else right and all planes zero. */
static enum codec_status decode_entry(enum dtype t, uint32_t entry, const char **reason) {
    uint64_t body = body_size(t, entry, 1024) + (entry >> 11 & 2047), encoded;
    uint8_t *slot, back[4096];
    const uint64_t elems = 1024;
    enum codec_status status;

    encoded = 64 + (body + 31) / 32 * 32;
    slot = calloc(encoded, 1);
    memcpy(slot, "SLP\1", 4);
    slot[4] = t == DTYPE_BF16 ? 1 : (t == DTYPE_F16 ? 2 : 3);
    memcpy(slot + 8, &elems, 8);
    memcpy(slot + 16, &encoded, 8);
    memcpy(slot + 36, &entry, 4);
    status = pack_decode_with(&pack_steps_plain, t, slot, encoded, elems, back, reason);
    free(slot);
    return status;
}

static void check_entry_refused(enum dtype t, uint32_t entry, const char *message) {
    const char *reason;

    assert_int_equal(decode_entry(t, entry, &reason), CODEC_MALFORMED);
    assert_string_equal(reason, message);
}

static void every_impossible_entry_has_its_reason(void **state) {
    const char *reason;

    (void)state;
    for (uint32_t width = 0; width <= 4; width++)
        assert_int_equal(decode_entry(DTYPE_BF16, codes_entry(9, width, 0), &reason), CODEC_OK);
    assert_int_equal(decode_entry(DTYPE_BF16, 0, &reason), CODEC_OK);
    assert_int_equal(decode_entry(DTYPE_F32, 7 << 8, &reason), CODEC_OK);
    assert_int_equal(decode_entry(DTYPE_F32, codes_entry(9, 3, 0) | 128u << 22, &reason), CODEC_OK);
    check_entry_refused(DTYPE_BF16, codes_entry(9, 3, 0) | 1u << 30,
                        "reserved bits of a group entry are not zero");
    check_entry_refused(DTYPE_BF16, codes_entry(9, 3, 0) | 1u << 31,
                        "reserved bits of a group entry are not zero");
    check_entry_refused(DTYPE_BF16, 5, "the entry of a zero group is not zero");
    check_entry_refused(DTYPE_BF16, 6 << 8, "unknown mode of a group");
    check_entry_refused(DTYPE_BF16, 7 << 8 | 1, "the entry of a raw group says more than that");
    check_entry_refused(DTYPE_BF16, codes_entry(9, 3, 1025),
                        "a group has more escapes than elements");
    check_entry_refused(DTYPE_BF16, codes_entry(9, 0, 1024), "a group of one exponent has escapes");
    check_entry_refused(DTYPE_BF16, codes_entry(9, 3, 5),
                        "a group has more or fewer escapes than its entry says");
    check_entry_refused(DTYPE_BF16, codes_entry(9, 3, 0) | 1u << 22,
                        "a group entry has low halves of an impossible size");
    check_entry_refused(DTYPE_F32, codes_entry(9, 3, 0) | 129u << 22,
                        "a group entry has low halves of an impossible size");
    check_entry_refused(DTYPE_F32, codes_entry(9, 3, 0) | 2u << 22,
                        "the low planes of a group do not have the size in its entry");
}

static void truncation_at_every_byte_is_seen(void **state) {
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(types); k++) {
        const uint64_t elems = 1300;
        enum dtype t = types[k];
        struct codec pack = codec_of("pack");
        uint64_t slot_bytes = codec_slot_bytes(&pack, t, elems), need;
        uint8_t *src = exact_alloc(elems * dtype_bytes(t)), *slot = exact_alloc(slot_bytes);
        uint8_t *back = exact_alloc(elems * dtype_bytes(t));
        const char *reason;

        fill_pattern(t, PATTERN_BELL, src, elems, 4);
        codec_encode(&pack, t, src, elems, slot, slot_bytes, &need, NULL);
        for (uint64_t bytes = 0; bytes < 32; bytes++)
            assert_int_equal(codec_decode(&pack, t, slot, bytes, elems, back, NULL, &reason),
                             CODEC_MALFORMED);
        for (uint64_t bytes = 32; bytes < need; bytes++)
            assert_int_equal(decode_copy(t, slot, bytes, elems, back), CODEC_MALFORMED);
        for (uint64_t bytes = 64; bytes < need; bytes += 32) { /* the header agrees with the cut */
            memcpy(slot + 16, &bytes, sizeof bytes);
            assert_int_equal(decode_copy(t, slot, bytes, elems, back), CODEC_MALFORMED);
        }
        free(back);
        free(slot);
        free(src);
    }
}

static void random_damage_never_leaves_the_buffers(void **state) {
    uint64_t seed = 99;

    (void)state;
    for (int round = 0; round < 600; round++) {
        const uint64_t elems = 9000;
        enum dtype t = types[round % 3];
        struct codec pack = codec_of("pack");
        uint64_t slot_bytes = codec_slot_bytes(&pack, t, elems), need;
        uint8_t *src = exact_alloc(elems * dtype_bytes(t)), *slot = exact_alloc(slot_bytes);
        uint8_t *back = exact_alloc(elems * dtype_bytes(t));

        fill_pattern(t, (enum pattern)(next_random(&seed) % PATTERN_COUNT), src, elems, seed);
        codec_encode(&pack, t, src, elems, slot, slot_bytes, &need, NULL);
        for (int n = 0; n < 1 + round % 5; n++) {
            uint64_t reach = next_random(&seed) % 2 != 0 ? need : 96;

            slot[next_random(&seed) % reach] = (uint8_t)next_random(&seed);
        }
        decode_copy(t, slot, need, elems, back);
        free(back);
        free(slot);
        free(src);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_and_size_comes_back),
        cmocka_unit_test(random_mixtures_come_back_at_any_address),
        cmocka_unit_test(misaligned_source_slot_and_destination_are_fine),
        cmocka_unit_test(a_decoder_written_from_the_format_agrees),
        cmocka_unit_test(the_encoder_chooses_what_the_document_says),
        cmocka_unit_test(ties_between_windows_go_to_the_first),
        cmocka_unit_test(a_small_encoding_has_the_bytes_of_the_document),
        cmocka_unit_test(a_zero_group_costs_its_entry_only),
        cmocka_unit_test(data_files_reach_their_ratio),
        cmocka_unit_test(worst_case_data_fits_the_default_slot_and_only_just),
        cmocka_unit_test(every_slot_size_overflows_or_holds_all),
        cmocka_unit_test(slots_around_the_need_of_many_tiles),
        cmocka_unit_test(slots_around_the_need_of_raw_tiles),
        cmocka_unit_test(a_mark_travels),
        cmocka_unit_test(every_header_and_directory_byte_matters),
        cmocka_unit_test(every_impossible_entry_has_its_reason),
        cmocka_unit_test(truncation_at_every_byte_is_seen),
        cmocka_unit_test(random_damage_never_leaves_the_buffers),
    };
    return cmocka_run_group_tests_name("codec_pack", tests, NULL, NULL);
}
