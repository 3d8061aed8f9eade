/*
 * test_reduce.c: the arithmetic of reductions against a slow reference in double precision that
 * shares no code with it: every single value of the 16-bit types, chosen values against all of
 * them, and the special numbers of every type.
 */
#include "tests/unit/codec_test.h"

static const enum dtype floats[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const enum redop ops[] = {REDOP_SUM, REDOP_AVG, REDOP_MIN, REDOP_MAX};

/* ---- the reference ---- */

struct format {
    int mantissa, least; /* bits below the leading one; exponent of the least normal */
    double beyond;       /* from here on: infinity */
    uint64_t sign, infinity, nan;
};

static struct format format_of(enum dtype t) {
    if (t == DTYPE_F16)
        return (struct format){10, -14, 65520.0, 0x8000, 0x7c00, 0x7e00};
    if (t == DTYPE_BF16)
        return (struct format){7, -126, 0x1.ffp127, 0x8000, 0x7f80, 0x7fc0};
    return (struct format){23, -126, 0x1.ffffffp127, 0x80000000, 0x7f800000, 0x7fc00000};
}

static double decode_bits(enum dtype t, uint64_t bits) {
    struct format f = format_of(t);
    uint64_t magnitude = bits & (f.sign - 1), exponent = magnitude >> f.mantissa;
    double m = (double)(magnitude & ((UINT64_C(1) << f.mantissa) - 1)), v;

    if (magnitude >= f.infinity)
        return magnitude > f.infinity ? NAN : ((bits & f.sign) != 0 ? -INFINITY : INFINITY);
    v = exponent == 0 ? ldexp(m, f.least - f.mantissa)
                      : ldexp(ldexp(1, f.mantissa) + m, (int)exponent - 1 + f.least - f.mantissa);
    return (bits & f.sign) != 0 ? -v : v;
}

static uint64_t encode_bits(enum dtype t, double v) {
    struct format f = format_of(t);
    uint64_t sign = signbit(v) ? f.sign : 0;
    int exponent;
    double m;

    if (isnan(v))
        return f.nan;
    v = fabs(v);
    if (v >= f.beyond)
        return sign | f.infinity;
    if (v == 0)
        return sign;
    frexp(v, &exponent);
    exponent = exponent - 1 < f.least ? f.least : exponent - 1;
    m = rint(ldexp(v, f.mantissa - exponent)); /* ties to even */
    /* a leading one adds to the exponent field; so does a carry out of the mantissa */
    return sign + ((uint64_t)(exponent - f.least) << f.mantissa) + (uint64_t)m;
}

static double reference_combine(enum redop op, double a, double b) {
    double low, high;

    if (op == REDOP_SUM ||
        op == REDOP_AVG) /* one rounding to f32: the double sum is exact or far */
        return decode_bits(DTYPE_F32, encode_bits(DTYPE_F32, a + b));
    if (isnan(a) || isnan(b))
        return NAN;
    low = a < b || (a == b && signbit(a)) ? a : b;
    high = a < b || (a == b && signbit(a)) ? b : a;
    return op == REDOP_MIN ? low : high;
}

/* ---- pieces of work ---- */

static void sum_of(enum dtype t, enum redop op, const void *const *operands, int count, void *dst,
                   uint64_t elems) {
    void *acc = exact_alloc(elems * reduce_acc_bytes(t));

    reduce_open(t, operands[0], acc, elems);
    for (int i = 1; i < count; i++)
        reduce_add(t, op, acc, operands[i], elems);
    if (op == REDOP_AVG)
        reduce_divide(t, acc, elems, (uint64_t)count);
    reduce_close(t, acc, dst, elems);
    free(acc);
}

/* One value against many, in both orders, as a pair and through an accumulator. */
static void check_against_all(enum dtype t, enum redop op, uint64_t one, const void *all,
                              uint64_t elems) {
    uint64_t bytes = elems * dtype_bytes(t);
    void *ones = exact_alloc(bytes), *out = exact_alloc(bytes), *pair = exact_alloc(bytes);
    const void *operands[2] = {ones, all};

    for (uint64_t i = 0; i < elems; i++)
        put_bits(t, ones, i, one);
    sum_of(t, op, operands, 2, out, elems);
    for (uint64_t i = 0; i < elems; i++) {
        double v = reference_combine(op, decode_bits(t, one), decode_bits(t, get_bits(t, all, i)));

        if (op == REDOP_AVG)
            v = decode_bits(DTYPE_F32, encode_bits(DTYPE_F32, v / 2));
        if (get_bits(t, out, i) != encode_bits(t, v))
            fail_msg("%s %s: %llx and %llx give %llx, not %llx", dtype_name(t), redop_name(op),
                     (unsigned long long)one, (unsigned long long)get_bits(t, all, i),
                     (unsigned long long)get_bits(t, out, i),
                     (unsigned long long)encode_bits(t, v));
    }
    if (op != REDOP_AVG) {
        memcpy(pair, all, bytes);
        reduce_pair(t, op, pair, ones, elems);
        assert_memory_equal(pair, out, bytes);
        memcpy(pair, ones, bytes);
        reduce_pair(t, op, pair, all, elems);
        assert_memory_equal(pair, out, bytes);
    }
    free(pair);
    free(out);
    free(ones);
}

static void single_16_bit_values_are_exact(void **state) {
    (void)state;
    for (size_t k = 1; k < 3; k++) {
        enum dtype t = floats[k];
        const uint64_t elems = 65536;
        uint16_t *all = exact_alloc(elems * 2);
        float *acc = exact_alloc(elems * 4);

        for (uint64_t i = 0; i < elems; i++)
            all[i] = (uint16_t)i;
        reduce_open(t, all, acc, elems);
        for (uint64_t i = 0; i < elems; i++) {
            double v = decode_bits(t, i);

            assert_true(isnan(v) ? isnan(acc[i]) : (double)acc[i] == v);
            assert_true(isnan(v) || !signbit(acc[i]) == !signbit(v));
            assert_true((double)(t == DTYPE_F16 ? half_to_float((uint16_t)i)
                                                : bfloat_to_float((uint16_t)i)) == v ||
                        isnan(v));
        }
        reduce_close(t, acc, acc, elems); /* in place */
        for (uint64_t i = 0; i < elems; i++)
            assert_int_equal(get_bits(t, acc, i), isnan(decode_bits(t, i)) ? format_of(t).nan : i);
        free(acc);
        free(all);
    }
}

static void chosen_16_bit_values_against_all(void **state) {
    static const uint16_t chosen[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x0003, 0x03ff, 0x0400,
                                      0x0080, 0x007f, 0x3c00, 0xbc00, 0x3f80, 0xbf80, 0x3f81,
                                      0x3555, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01,
                                      0xffff, 0x7f7f, 0x7f80, 0xff80, 0x7fc0, 0x5bcd, 0xc321};
    uint16_t *all = exact_alloc(65536 * 2);

    (void)state;
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t k = 1; k < 3; k++)
        for (size_t o = 0; o < ARRAY_LENGTH(ops); o++)
            for (size_t n = 0; n < ARRAY_LENGTH(chosen); n++)
                check_against_all(floats[k], ops[o], chosen[n], all, 65536);
    free(all);
}

static void f32_values_of_every_kind(void **state) {
    static const uint32_t chosen[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                      0x00800000, 0x3f800000, 0xbf800000, 0x3f800001, 0x33800000,
                                      0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                      0x7f800001, 0xffffffff, 0x7effffff, 0x4b800000, 0xcb000001};

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(chosen); n++)
        for (size_t o = 0; o < ARRAY_LENGTH(ops); o++)
            for (int p = 0; p < PATTERN_COUNT; p++) {
                uint32_t all[500];

                fill_pattern(DTYPE_F32, (enum pattern)p, all, 500, n);
                memcpy(all, chosen, sizeof chosen);
                check_against_all(DTYPE_F32, ops[o], chosen[n], all, 500);
            }
}

/* The language's own example: bf16 256 + 1 + 1 is 258, not 256. */
static void a_sum_is_rounded_once(void **state) {
    uint16_t a = 0x4380, b = 0x3f80, out;
    const void *operands[3] = {&a, &b, &b};

    (void)state;
    sum_of(DTYPE_BF16, REDOP_SUM, operands, 3, &out, 1);
    assert_int_equal(out, 0x4381);
    reduce_pair(DTYPE_BF16, REDOP_SUM, &a, &b, 1);
    assert_int_equal(a, 0x4380);
}

static void avg_divides_before_rounding(void **state) {
    uint16_t a = 0x7bff, out; /* 65504 + 65504 is beyond f16, half of it is not */
    const void *operands[3] = {&a, &a, &a};

    (void)state;
    sum_of(DTYPE_F16, REDOP_AVG, operands, 2, &out, 1);
    assert_int_equal(out, 0x7bff);
    sum_of(DTYPE_F16, REDOP_AVG, operands, 3, &out, 1);
    assert_int_equal(out, 0x7bff);
    sum_of(DTYPE_F16, REDOP_SUM, operands, 2, &out, 1);
    assert_int_equal(out, 0x7c00);
}

static void other_types_keep_their_own_arithmetic(void **state) {
    int32_t i32[] = {INT32_MAX, -7}, i32b[] = {1, 3};
    int64_t i64[] = {INT64_MIN, 5}, i64b[] = {-1, 9};
    uint8_t u8[] = {250, 3}, u8b[] = {10, 4};
    double f64[] = {0x1p53, -0.0}, f64b[] = {1.0, 0.0}, nan = NAN;
    uint64_t bits;

    (void)state;
    reduce_pair(DTYPE_I32, REDOP_SUM, i32, i32b, 2);
    assert_true(i32[0] == INT32_MIN && i32[1] == -4);
    reduce_divide(DTYPE_I32, i32, 2, 3);
    assert_int_equal(i32[1], -1);
    reduce_pair(DTYPE_I32, REDOP_MAX, i32, i32b, 2);
    assert_true(i32[0] == 1 && i32[1] == 3);
    reduce_pair(DTYPE_I64, REDOP_SUM, i64, i64b, 2);
    assert_true(i64[0] == INT64_MAX && i64[1] == 14);
    reduce_pair(DTYPE_I64, REDOP_MIN, i64, i64b, 2);
    assert_true(i64[0] == -1 && i64[1] == 9);
    reduce_pair(DTYPE_U8, REDOP_SUM, u8, u8b, 2);
    assert_true(u8[0] == 4 && u8[1] == 7);
    reduce_divide(DTYPE_U8, u8, 2, 2);
    assert_true(u8[0] == 2 && u8[1] == 3);
    reduce_pair(DTYPE_F64, REDOP_MIN, f64, f64b, 2);
    assert_true(f64[0] == 1.0 && signbit(f64[1]));
    reduce_pair(DTYPE_F64, REDOP_MAX, f64, f64b, 2);
    assert_true(f64[0] == 1.0 && !signbit(f64[1]));
    nan = -nan;
    reduce_pair(DTYPE_F64, REDOP_SUM, f64, &nan, 1);
    memcpy(&bits, f64, 8);
    assert_true(bits == UINT64_C(0x7ff8000000000000));
    reduce_pair(DTYPE_F64, REDOP_MIN, f64 + 1, &nan, 1);
    memcpy(&bits, f64 + 1, 8);
    assert_true(bits == UINT64_C(0x7ff8000000000000));
}

/* Lengths around a vector, addresses off by one byte: the same bits as one element at a time. */
static void length_and_address_do_not_matter(void **state) {
    uint64_t seed = 3;

    (void)state;
    for (int ti = 0; ti < DTYPE_COUNT; ti++)
        for (size_t o = 0; o < ARRAY_LENGTH(ops); o++)
            for (uint64_t elems = 0; elems < 70; elems++) {
                enum dtype t = (enum dtype)ti;
                uint64_t bytes = elems * dtype_bytes(t), off = 1 + elems % 3;
                uint8_t *a = exact_alloc(bytes + off), *b = exact_alloc(bytes), one[8];
                uint8_t *dst = exact_alloc(bytes + off), *acc = exact_alloc(elems * 8 + off);

                for (uint64_t i = 0; i < bytes; i++) {
                    a[i + off] = (uint8_t)next_random(&seed);
                    b[i] = (uint8_t)next_random(&seed);
                }
                reduce_open(t, a + off, acc + off, elems);
                reduce_add(t, ops[o], acc + off, b, elems);
                reduce_close(t, acc + off, dst + off, elems);
                for (uint64_t i = 0; i < elems; i++) {
                    memcpy(one, a + off + i * dtype_bytes(t), dtype_bytes(t));
                    reduce_pair(t, ops[o], one, b + i * dtype_bytes(t), 1);
                    assert_memory_equal(one, dst + off + i * dtype_bytes(t), dtype_bytes(t));
                }
                free(acc);
                free(dst);
                free(b);
                free(a);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_16_bit_values_are_exact),
        cmocka_unit_test(chosen_16_bit_values_against_all),
        cmocka_unit_test(f32_values_of_every_kind),
        cmocka_unit_test(a_sum_is_rounded_once),
        cmocka_unit_test(avg_divides_before_rounding),
        cmocka_unit_test(other_types_keep_their_own_arithmetic),
        cmocka_unit_test(length_and_address_do_not_matter),
    };
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
