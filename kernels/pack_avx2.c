/*
 * pack_avx2.c: the steps of `pack` with AVX2, two lanes at a time. Same bytes as pack_plain.c.
 *
 * A 256-bit register has two halves that most instructions treat apart; here the lower half always
 * belongs to an even lane and the upper half to the next lane. Both lie next to each other in
 * memory in every order that stores 16 bytes a lane, so loads and stores are whole registers. What
 * is left is to go between the order of elements and code order, which is a byte shuffle and two
 * permutations, and between bytes and bit planes: movemask
 * takes the top bit of 32 bytes, a comparison with one bit of a spread word gives them back.
 */
#include "kernels/half.h"
#include "kernels/pack_steps.h"

#if HAVE_AVX2_VERSION
#include <immintrin.h>

/* Always, so that the element type and the lane count of a loop are constants in it. */
#define AVX2_INLINE AVX2_VERSION static inline __attribute__((always_inline))

AVX2_INLINE __m256i load(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

AVX2_INLINE void store(void *to, __m256i v) {
    _mm256_storeu_si256((__m256i *)to, v);
}

/* first: elements 0..15 of both lanes, second: 16..31; out[lane]: 32 bytes in code order. Bytes are
 * put in twos first (elements 0 and 8, 2 and 10, ...), then the twos of both registers alternate.
 */
AVX2_INLINE void to_code_order(__m256i first, __m256i second, __m256i out[2]) {
    const __m256i parted = _mm256_setr_epi8(0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15, 0,
                                            8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15);
    __m256i a = _mm256_shuffle_epi8(first, parted), b = _mm256_shuffle_epi8(second, parted);
    __m256i even = _mm256_unpacklo_epi16(a, b), odd = _mm256_unpackhi_epi16(a, b);

    out[0] = _mm256_permute2x128_si256(even, odd, 0x20);
    out[1] = _mm256_permute2x128_si256(even, odd, 0x31);
}

AVX2_INLINE void from_code_order(const __m256i in[2], __m256i *first, __m256i *second) {
    const __m256i turned = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0,
                                            4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m256i even = _mm256_permute2x128_si256(in[0], in[1], 0x20);
    __m256i odd = _mm256_permute2x128_si256(in[0], in[1], 0x31);

    even = _mm256_shuffle_epi8(even, turned);
    odd = _mm256_shuffle_epi8(odd, turned);
    *first = _mm256_unpacklo_epi8(even, odd);
    *second = _mm256_unpackhi_epi8(even, odd);
}

/* 32 bytes in code order to the words of planes 7, 6, ...: word[p] has bit 7 - p of each byte. */
AVX2_INLINE __m256i top_bit(__m256i v, uint32_t *word) {
    *word = (uint32_t)_mm256_movemask_epi8(v);
    return _mm256_add_epi8(v, v);
}

/* 0xff in every byte whose bit in the word is set. */
AVX2_INLINE __m256i spread(uint32_t word) {
    const __m256i which = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                           2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((int64_t)UINT64_C(0x8040201008040201));
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)word), which);

    return _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
}

/* ---- taking apart and putting together ---- */

/* Four registers of 16-bit values, elements 0..7, 8..15, 16..23, 24..31 of two lanes. */
AVX2_INLINE void split_bf16(const __m256i v[4], uint32_t lane, struct pack_split *s,
                            uint8_t *bytes) {
    const __m256i low8 = _mm256_set1_epi16(0xff), low7 = _mm256_set1_epi16(0x7f),
                  sign = _mm256_set1_epi16(0x80);
    __m256i e[4], r[4], codes[2];

    for (int k = 0; k < 4; k++) {
        e[k] = _mm256_and_si256(_mm256_srli_epi16(v[k], 7), low8);
        r[k] = _mm256_or_si256(_mm256_and_si256(v[k], low7),
                               _mm256_and_si256(_mm256_srli_epi16(v[k], 8), sign));
    }
    store(bytes + lane * 16, _mm256_packus_epi16(r[0], r[1]));
    store(bytes + 512 + lane * 16, _mm256_packus_epi16(r[2], r[3]));
    to_code_order(_mm256_packus_epi16(e[0], e[1]), _mm256_packus_epi16(e[2], e[3]), codes);
    store(s->exponents + lane * 32, codes[0]);
    store(s->exponents + lane * 32 + 32, codes[1]);
}

AVX2_INLINE void split_f16(const __m256i v[4], uint32_t lane, struct pack_split *s,
                           uint8_t *bytes) {
    const __m256i low8 = _mm256_set1_epi16(0xff), low5 = _mm256_set1_epi16(31),
                  low2 = _mm256_set1_epi16(3), four = _mm256_set1_epi16(4);
    __m256i e[4], x[4], r[4], codes[2];

    for (int k = 0; k < 4; k++) {
        e[k] = _mm256_and_si256(_mm256_srli_epi16(v[k], 10), low5);
        x[k] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(v[k], 8), low2),
                               _mm256_and_si256(_mm256_srli_epi16(v[k], 13), four));
        r[k] = _mm256_and_si256(v[k], low8);
    }
    store(bytes + lane * 16, _mm256_packus_epi16(r[0], r[1]));
    store(bytes + 512 + lane * 16, _mm256_packus_epi16(r[2], r[3]));
    to_code_order(_mm256_packus_epi16(e[0], e[1]), _mm256_packus_epi16(e[2], e[3]), codes);
    store(s->exponents + lane * 32, codes[0]);
    store(s->exponents + lane * 32 + 32, codes[1]);
    to_code_order(_mm256_packus_epi16(x[0], x[1]), _mm256_packus_epi16(x[2], x[3]), codes);
    store(s->extra + lane * 32, codes[0]);
    store(s->extra + lane * 32 + 32, codes[1]);
}

/* Eight registers of f32 into four of upper halves; the lower halves go to s->low. */
AVX2_INLINE void split_halves(const __m256i v[8], uint32_t lane, struct pack_split *s,
                              __m256i upper[4]) {
    const __m256i mask = _mm256_set1_epi32(0xffff);

    for (uint32_t k = 0; k < 4; k++) {
        __m256i a = v[2 * k], b = v[2 * k + 1];

        upper[k] = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
        store(s->low + k * 256 + lane * 8,
              _mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)));
    }
}

AVX2_INLINE bool split_as(enum dtype t, const void *src, struct pack_split *s, uint8_t *bytes) {
    const uint8_t *from = src;
    __m256i any = _mm256_setzero_si256();

    for (uint32_t lane = 0; lane < PACK_LANES; lane += 2, from += 32) {
        __m256i v[8], upper[4];
        int loads = t == DTYPE_F32 ? 8 : 4;

        for (int k = 0; k < loads; k++) {
            v[k] = load(from + k * 512);
            any = _mm256_or_si256(any, v[k]);
        }
        if (t == DTYPE_F16) {
            split_f16(v, lane, s, bytes);
        } else if (t == DTYPE_BF16) {
            split_bf16(v, lane, s, bytes);
        } else {
            split_halves(v, lane, s, upper);
            split_bf16(upper, lane, s, bytes);
        }
    }
    return !_mm256_testz_si256(any, any);
}

AVX2_VERSION static bool split(enum dtype t, const void *src, struct pack_split *s,
                               uint8_t *bytes) {
    if (t == DTYPE_F16)
        return split_as(DTYPE_F16, src, s, bytes);
    if (t == DTYPE_BF16)
        return split_as(DTYPE_BF16, src, s, bytes);
    return split_as(DTYPE_F32, src, s, bytes);
}

AVX2_INLINE void load_codes(const uint8_t *codes, uint32_t lane, __m256i *first, __m256i *second) {
    __m256i in[2] = {load(codes + lane * 32), load(codes + lane * 32 + 32)};

    from_code_order(in, first, second);
}

/* Bytes of elements 0..15 into two registers of 16-bit values: high << 8 | low. */
AVX2_INLINE void widen(__m256i low, __m256i high, __m256i out[2]) {
    out[0] = _mm256_unpacklo_epi8(low, high);
    out[1] = _mm256_unpackhi_epi8(low, high);
}

AVX2_INLINE void join_bf16(const struct pack_split *s, const uint8_t *bytes, uint32_t lane,
                           __m256i out[4]) {
    const __m256i low7 = _mm256_set1_epi8(0x7f), top = _mm256_set1_epi8((char)0x80);
    __m256i e[2];

    load_codes(s->exponents, lane, &e[0], &e[1]);
    for (int k = 0; k < 2; k++) {
        __m256i r = load(bytes + k * 512 + lane * 16);
        __m256i upper = _mm256_and_si256(_mm256_srli_epi16(e[k], 1), low7);
        __m256i lower = _mm256_and_si256(_mm256_slli_epi16(e[k], 7), top);

        widen(_mm256_or_si256(_mm256_and_si256(r, low7), lower),
              _mm256_or_si256(_mm256_and_si256(r, top), upper), &out[2 * k]);
    }
}

AVX2_INLINE void join_f16(const struct pack_split *s, const uint8_t *bytes, uint32_t lane,
                          __m256i out[4]) {
    const __m256i low5 = _mm256_set1_epi8(31), low2 = _mm256_set1_epi8(3),
                  four = _mm256_set1_epi8(4);
    __m256i e[2], x[2];

    load_codes(s->exponents, lane, &e[0], &e[1]);
    load_codes(s->extra, lane, &x[0], &x[1]);
    for (int k = 0; k < 2; k++) {
        __m256i exponent = _mm256_slli_epi16(_mm256_and_si256(e[k], low5), 2);
        __m256i sign = _mm256_slli_epi16(_mm256_and_si256(x[k], four), 5);
        __m256i upper =
            _mm256_or_si256(_mm256_or_si256(sign, exponent), _mm256_and_si256(x[k], low2));

        widen(load(bytes + k * 512 + lane * 16), upper, &out[2 * k]);
    }
}

AVX2_INLINE void join_as(enum dtype t, const struct pack_split *s, const uint8_t *bytes,
                         void *dst) {
    uint8_t *to = dst;

    for (uint32_t lane = 0; lane < PACK_LANES; lane += 2, to += 32) {
        __m256i v[4];

        if (t == DTYPE_F16)
            join_f16(s, bytes, lane, v);
        else
            join_bf16(s, bytes, lane, v);
        for (uint32_t k = 0; k < 4; k++) {
            __m256i low;

            if (t != DTYPE_F32) {
                store(to + k * 512, v[k]);
                continue;
            }
            low = load(s->low + k * 256 + lane * 8);
            store(to + k * 1024, _mm256_unpacklo_epi16(low, v[k]));
            store(to + k * 1024 + 512, _mm256_unpackhi_epi16(low, v[k]));
        }
    }
}

AVX2_VERSION static void join(enum dtype t, const struct pack_split *s, const uint8_t *bytes,
                              void *dst) {
    if (t == DTYPE_F16)
        join_as(DTYPE_F16, s, bytes, dst);
    else if (t == DTYPE_BF16)
        join_as(DTYPE_BF16, s, bytes, dst);
    else
        join_as(DTYPE_F32, s, bytes, dst);
}

/* ---- exponents ---- */

AVX2_VERSION static uint32_t largest(const uint8_t *exponents) {
    __m256i most = load(exponents);
    uint8_t lanes[32];
    uint32_t out = 0;

    for (uint32_t c = 32; c < PACK_GROUP; c += 32)
        most = _mm256_max_epu8(most, load(exponents + c));
    store(lanes, most);
    for (int i = 0; i < 32; i++)
        out = lanes[i] > out ? lanes[i] : out;
    return out;
}

AVX2_VERSION static uint32_t count_below(const uint8_t *exponents, uint32_t top,
                                         uint32_t distance) {
    const __m256i limit = _mm256_set1_epi8((char)(uint8_t)(top - distance));
    __m256i counts = _mm256_setzero_si256(), sums;

    if (distance > top)
        return 0;
    for (uint32_t c = 0; c < PACK_GROUP; c += 32) { /* e <= limit: 32 rounds never reach 255 */
        __m256i e = load(exponents + c);

        counts = _mm256_sub_epi8(counts, _mm256_cmpeq_epi8(_mm256_min_epu8(e, limit), e));
    }
    sums = _mm256_sad_epu8(counts, _mm256_setzero_si256());
    return (uint32_t)(_mm256_extract_epi64(sums, 0) + _mm256_extract_epi64(sums, 1) +
                      _mm256_extract_epi64(sums, 2) + _mm256_extract_epi64(sums, 3));
}

AVX2_VERSION static void write_planes(const uint8_t *values, uint32_t width, uint8_t *words) {
    const __m128i to_top = _mm_cvtsi32_si128((int)(8 - width));

    for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
        __m256i v = _mm256_sll_epi16(load(values + lane * 32), to_top);

        for (uint32_t b = width; b-- > 0;) {
            uint32_t word;

            v = top_bit(v, &word);
            ((any_u32 *)words)[b * PACK_LANES + lane] = word;
        }
    }
}

AVX2_VERSION static void read_planes(const uint8_t *words, uint32_t width, uint8_t *values) {
    for (uint32_t lane = 0; lane < PACK_LANES; lane++) {
        __m256i v = _mm256_setzero_si256();

        for (uint32_t b = width; b-- > 0;) /* spread is -1 or 0: doubling and subtracting adds it */
            v = _mm256_sub_epi8(_mm256_add_epi8(v, v),
                                spread(((const any_u32 *)words)[b * PACK_LANES + lane]));
        store(values + lane * 32, v);
    }
}

AVX2_VERSION static void find(const uint8_t *values, uint32_t mark, uint32_t *masks) {
    const __m256i wanted = _mm256_set1_epi8((char)(uint8_t)mark);

    for (uint32_t lane = 0; lane < PACK_LANES; lane++)
        masks[lane] =
            (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(values + lane * 32), wanted));
}

/* ---- the lower halves of f32 ---- */

AVX2_VERSION static void low_or(const uint16_t *low, uint16_t *ors) {
    for (uint32_t lane = 0; lane < PACK_LANES; lane += 2) {
        const uint16_t *at = low + lane * 8;
        __m256i v = _mm256_or_si256(_mm256_or_si256(load(at), load(at + 256)),
                                    _mm256_or_si256(load(at + 512), load(at + 768)));

        v = _mm256_or_si256(v, _mm256_srli_si256(v, 8));
        v = _mm256_or_si256(v, _mm256_srli_si256(v, 4));
        v = _mm256_or_si256(v, _mm256_srli_si256(v, 2));
        ors[lane] = (uint16_t)_mm256_extract_epi16(v, 0);
        ors[lane + 1] = (uint16_t)_mm256_extract_epi16(v, 8);
    }
}

AVX2_VERSION static void write_low(const uint16_t *low, uint32_t *words) {
    const __m256i low8 = _mm256_set1_epi16(0xff);

    for (uint32_t lane = 0; lane < PACK_LANES; lane += 2) {
        __m256i v[4], upper[2], lower[2];

        for (uint32_t k = 0; k < 4; k++)
            v[k] = load(low + k * 256 + lane * 8);
        to_code_order(_mm256_packus_epi16(_mm256_srli_epi16(v[0], 8), _mm256_srli_epi16(v[1], 8)),
                      _mm256_packus_epi16(_mm256_srli_epi16(v[2], 8), _mm256_srli_epi16(v[3], 8)),
                      upper);
        to_code_order(
            _mm256_packus_epi16(_mm256_and_si256(v[0], low8), _mm256_and_si256(v[1], low8)),
            _mm256_packus_epi16(_mm256_and_si256(v[2], low8), _mm256_and_si256(v[3], low8)), lower);
        for (uint32_t j = 0; j < 8; j++)
            for (uint32_t side = 0; side < 2; side++) {
                upper[side] = top_bit(upper[side], &words[j * PACK_LANES + lane + side]);
                lower[side] = top_bit(lower[side], &words[(j + 8) * PACK_LANES + lane + side]);
            }
    }
}

AVX2_VERSION static void read_low(const uint32_t *words, uint16_t *low) {
    for (uint32_t lane = 0; lane < PACK_LANES; lane += 2) {
        __m256i upper[2], lower[2], h[2], l[2];

        for (uint32_t side = 0; side < 2; side++) {
            upper[side] = lower[side] = _mm256_setzero_si256();
            for (uint32_t j = 0; j < 8; j++) {
                const uint32_t *word = &words[j * PACK_LANES + lane + side];

                upper[side] =
                    _mm256_sub_epi8(_mm256_add_epi8(upper[side], upper[side]), spread(word[0]));
                lower[side] = _mm256_sub_epi8(_mm256_add_epi8(lower[side], lower[side]),
                                              spread(word[8 * PACK_LANES]));
            }
        }
        from_code_order(upper, &h[0], &h[1]);
        from_code_order(lower, &l[0], &l[1]);
        for (uint32_t k = 0; k < 2; k++) {
            __m256i v[2];

            widen(l[k], h[k], v);
            store(low + 2 * k * 256 + lane * 8, v[0]);
            store(low + (2 * k + 1) * 256 + lane * 8, v[1]);
        }
    }
}

const struct pack_steps *pack_steps_avx2(void) {
    static const struct pack_steps steps = {
        .split = split,
        .join = join,
        .largest = largest,
        .count_below = count_below,
        .write_planes = write_planes,
        .read_planes = read_planes,
        .find = find,
        .low_or = low_or,
        .write_low = write_low,
        .read_low = read_low,
    };
    return cpu_has_avx2() ? &steps : NULL;
}

#else

const struct pack_steps *pack_steps_avx2(void) {
    return NULL;
}

#endif
