/*
 * refmath.c: the reference's own scalar arithmetic.
 *
 * A 16-bit value is read by its definition, sign x fraction x 2^exponent. A result is rounded by
 * scaling it so that one unit in the last place is 1, and rounding that to the nearest even
 * integer.
 */
#include "runtime/refmath.h"

#include <math.h>
#include <string.h>

struct format {
    int fraction_bits, exponent_bits;
};

static struct format format_of(enum dtype t) {
    return t == DTYPE_F16    ? (struct format){10, 5}
           : t == DTYPE_BF16 ? (struct format){7, 8}
           : t == DTYPE_F32  ? (struct format){23, 8}
                             : (struct format){52, 11};
}

static float float_of_bits(uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

static uint64_t bits_of_float(float f) {
    uint32_t word;
    memcpy(&word, &f, sizeof word);
    return word;
}

static double double_of_bits(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static uint64_t bits_of_double(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* 2^k, for -1022 <= k <= 1023. */
static double power_of_two(int k) {
    return double_of_bits((uint64_t)(k + 1023) << 52);
}

/* f16 or bf16, as a float, which has room for both. */
static float read_half(enum dtype t, uint64_t bits) {
    struct format f = format_of(t);
    int bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1;
    int exponent = (int)(bits >> f.fraction_bits) & top;
    int fraction = (int)bits & ((1 << f.fraction_bits) - 1);
    double value;
    if (exponent == top)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = fraction * power_of_two(1 - bias - f.fraction_bits);
    else
        value =
            (fraction + (1 << f.fraction_bits)) * power_of_two(exponent - bias - f.fraction_bits);
    return (float)(bits >> 15 & 1 ? -value : value);
}

static uint64_t canonical_nan(enum dtype t) {
    struct format f = format_of(t);
    return ((UINT64_C(1) << (f.exponent_bits + 1)) - 1) << (f.fraction_bits - 1);
}

/* The nearest integer, ties to even, of 0 <= x < 2^51: 2^52 + x has no room for a fraction. */
static double to_integer(double x) {
    return (0x1p52 + x) - 0x1p52;
}

/* Rounds to f16 or bf16, to nearest, ties to even. */
static uint64_t round_half(enum dtype t, float value) {
    struct format f = format_of(t);
    int bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1;
    uint64_t sign = signbit(value) ? UINT64_C(1) << 15 : 0;
    uint64_t infinity = (uint64_t)top << f.fraction_bits;
    double size = fabs((double)value);
    if (isnan(value))
        return canonical_nan(t);
    if (isinf(value))
        return sign | infinity;
    if (size == 0)
        return sign;
    int exponent = (int)(bits_of_double(size) >> 52) - 1023; /* normal: it came from a float */
    if (exponent < 1 - bias)
        exponent = 1 - bias; /* denormals share the exponent of the smallest normal */
    double units = to_integer(size * power_of_two(f.fraction_bits - exponent));
    /* 2^fraction_bits .. 2^(fraction_bits + 1) when normal: the leading bit, and a carry out of
     * the fraction, each add one to the exponent field */
    uint64_t bits = ((uint64_t)(exponent + bias - 1) << f.fraction_bits) + (uint64_t)units;
    return sign | (bits > infinity ? infinity : bits);
}

double ref_double(enum dtype t, uint64_t bits) {
    switch (t) {
    case DTYPE_F32:
        return (double)float_of_bits(bits);
    case DTYPE_F16:
    case DTYPE_BF16:
        return (double)read_half(t, bits);
    case DTYPE_F64:
        return double_of_bits(bits);
    case DTYPE_I32:
        return (double)(int32_t)(uint32_t)bits;
    case DTYPE_I64:
        return (double)(int64_t)bits;
    case DTYPE_U8:
        return (double)(bits & 0xff);
    case DTYPE_COUNT:
        break;
    }
    return NAN;
}

/* ---- sums ---- */

/* The smaller or larger by the language: a NaN wins, -0 is below +0. */
static double pick(enum redop op, double a, double b) {
    if (isnan(a) || isnan(b))
        return NAN;
    bool a_smaller = a < b || (a == b && signbit(a) && !signbit(b));
    return (op == REDOP_MIN) == a_smaller ? a : b;
}

static bool adds(enum redop op) {
    return op == REDOP_SUM || op == REDOP_AVG;
}

static uint64_t sum_floats(enum dtype t, enum redop op, const uint64_t *bits, uint32_t n,
                           uint32_t divisor) {
    bool half = t != DTYPE_F32;
    float acc = half ? read_half(t, bits[0]) : float_of_bits(bits[0]);
    for (uint32_t i = 1; i < n; i++) {
        float v = half ? read_half(t, bits[i]) : float_of_bits(bits[i]);
        acc = adds(op) ? acc + v : (float)pick(op, (double)acc, (double)v);
    }
    if (divisor > 0)
        acc = acc / (float)divisor;
    if (half)
        return round_half(t, acc);
    return isnan(acc) ? canonical_nan(t) : bits_of_float(acc);
}

static uint64_t sum_doubles(enum redop op, const uint64_t *bits, uint32_t n, uint32_t divisor) {
    double acc = double_of_bits(bits[0]);
    for (uint32_t i = 1; i < n; i++) {
        double v = double_of_bits(bits[i]);
        acc = adds(op) ? acc + v : pick(op, acc, v);
    }
    if (divisor > 0)
        acc = acc / (double)divisor;
    return isnan(acc) ? canonical_nan(DTYPE_F64) : bits_of_double(acc);
}

static int64_t as_integer(enum dtype t, uint64_t bits) {
    return t == DTYPE_I32  ? (int64_t)(int32_t)(uint32_t)bits
           : t == DTYPE_U8 ? (int64_t)(uint8_t)bits
                           : (int64_t)bits;
}

static uint64_t sum_integers(enum dtype t, enum redop op, const uint64_t *bits, uint32_t n,
                             uint32_t divisor) {
    int64_t acc = as_integer(t, bits[0]);
    for (uint32_t i = 1; i < n; i++) {
        int64_t v = as_integer(t, bits[i]);
        if (adds(op))
            acc = as_integer(t, (uint64_t)acc + (uint64_t)v); /* wraps in its own width */
        else if ((op == REDOP_MIN) == (v < acc))
            acc = v;
    }
    if (divisor > 0)
        acc = acc / (int64_t)divisor;
    uint32_t width = 8 * dtype_bytes(t);
    return width == 64 ? (uint64_t)acc : (uint64_t)acc & ((UINT64_C(1) << width) - 1);
}

uint64_t ref_sum(enum dtype t, enum redop op, const uint64_t *bits, uint32_t n, uint32_t divisor) {
    if (!dtype_is_float(t))
        return sum_integers(t, op, bits, n, divisor);
    return t == DTYPE_F64 ? sum_doubles(op, bits, n, divisor) : sum_floats(t, op, bits, n, divisor);
}
