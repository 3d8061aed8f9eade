/*
 * reduce.c: reductions, element by element. Each loop is written once, for a type and an operator
 * that are constants where it is used, and compiled for the baseline and for AVX2; both do the same
 * IEEE operations in the same order for an element, so the bits are the same.
 */
#include "kernels/reduce.h"

#include "kernels/half.h"

float half_to_float(uint16_t h) {
    return f16_to_f32(h);
}

uint16_t half_from_float(float f) {
    return f16_from_f32(f);
}

float bfloat_to_float(uint16_t b) {
    return bf16_to_f32(b);
}

uint16_t bfloat_from_float(float f) {
    return bf16_from_f32(f);
}

uint32_t reduce_acc_bytes(enum dtype t) {
    return t == DTYPE_F16 || t == DTYPE_BF16 ? 4 : dtype_bytes(t);
}

/* ---- one element ---- */

VECTOR_BODY float load_f32(enum dtype t, const void *from, uint64_t i) {
    if (t == DTYPE_F32)
        return ((const any_f32 *)from)[i];
    if (t == DTYPE_F16)
        return f16_to_f32(((const any_u16 *)from)[i]);
    return bf16_to_f32(((const any_u16 *)from)[i]);
}

VECTOR_BODY void store_f32(enum dtype t, void *to, uint64_t i, float value) {
    if (t == DTYPE_F32)
        ((any_f32 *)to)[i] = f32_quiet(value);
    else if (t == DTYPE_F16)
        ((any_u16 *)to)[i] = f16_from_f32(value);
    else
        ((any_u16 *)to)[i] = bf16_from_f32(value);
}

/* The bits as a number that orders like the value, -0 below +0. */
VECTOR_BODY int32_t order_f32(uint32_t u) {
    return (int32_t)(u ^ ((u >> 31) * 0x7fffffffu));
}

VECTOR_BODY float combine_f32(enum redop op, float a, float b) {
    uint32_t ua = f32_bits(a), ub = f32_bits(b), least, most, out;

    if (op == REDOP_SUM || op == REDOP_AVG)
        return a + b;
    least = order_f32(ua) < order_f32(ub) ? ua : ub;
    most = order_f32(ua) < order_f32(ub) ? ub : ua;
    out = op == REDOP_MIN ? least : most;
    out = f32_bits_are_nan(ua) || f32_bits_are_nan(ub) ? F32_NAN : out;
    return f32_from_bits(out);
}

#define F64_NAN UINT64_C(0x7ff8000000000000)

VECTOR_BODY uint64_t f64_bits(double d) {
    uint64_t u;

    memcpy(&u, &d, sizeof u);
    return u;
}

VECTOR_BODY double f64_from_bits(uint64_t u) {
    double d;

    memcpy(&d, &u, sizeof d);
    return d;
}

VECTOR_BODY int64_t order_f64(uint64_t u) {
    return (int64_t)(u ^ ((u >> 63) * (UINT64_MAX >> 1)));
}

VECTOR_BODY double combine_f64(enum redop op, double a, double b) {
    bool less = order_f64(f64_bits(a)) < order_f64(f64_bits(b));

    if (op == REDOP_SUM || op == REDOP_AVG)
        return a + b;
    if (a != a || b != b)
        return f64_from_bits(F64_NAN);
    return (op == REDOP_MIN) == less ? a : b;
}

VECTOR_BODY int32_t combine_i32(enum redop op, int32_t a, int32_t b) {
    if (op == REDOP_SUM || op == REDOP_AVG)
        return (int32_t)((uint32_t)a + (uint32_t)b);
    return (op == REDOP_MIN) == (a < b) ? a : b;
}

VECTOR_BODY int64_t combine_i64(enum redop op, int64_t a, int64_t b) {
    if (op == REDOP_SUM || op == REDOP_AVG)
        return (int64_t)((uint64_t)a + (uint64_t)b);
    return (op == REDOP_MIN) == (a < b) ? a : b;
}

VECTOR_BODY uint8_t combine_u8(enum redop op, uint8_t a, uint8_t b) {
    if (op == REDOP_SUM || op == REDOP_AVG)
        return (uint8_t)(a + b);
    return (op == REDOP_MIN) == (a < b) ? a : b;
}

/* ---- loops ---- */

VECTOR_BODY void open_f32(enum dtype t, const void *src, any_f32 *acc, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        acc[i] = load_f32(t, src, i);
}

VECTOR_BODY void add_f32(enum dtype t, enum redop op, any_f32 *acc, const void *src, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        acc[i] = combine_f32(op, acc[i], load_f32(t, src, i));
}

VECTOR_BODY void close_f32(enum dtype t, const any_f32 *acc, void *dst, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        store_f32(t, dst, i, acc[i]);
}

VECTOR_BODY void pair_f32(enum dtype t, enum redop op, void *dst, const void *src, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        store_f32(t, dst, i, combine_f32(op, load_f32(t, dst, i), load_f32(t, src, i)));
}

VECTOR_BODY void add_f64(enum redop op, any_f64 *acc, const any_f64 *src, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        acc[i] = combine_f64(op, acc[i], src[i]);
}

VECTOR_BODY void close_f64(const any_f64 *acc, any_u64 *dst, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        dst[i] = acc[i] != acc[i] ? F64_NAN : f64_bits(acc[i]);
}

VECTOR_BODY void add_i32(enum redop op, any_i32 *acc, const any_i32 *src, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        acc[i] = combine_i32(op, acc[i], src[i]);
}

VECTOR_BODY void add_i64(enum redop op, any_i64 *acc, const any_i64 *src, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        acc[i] = combine_i64(op, acc[i], src[i]);
}

VECTOR_BODY void add_u8(enum redop op, any_u8 *acc, const any_u8 *src, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        acc[i] = combine_u8(op, acc[i], src[i]);
}

/* ---- constants for the loops: one case an operator ---- */

#define FOR_OP(op, loop, ...)         \
    switch (op) {                     \
    case REDOP_SUM:                   \
    case REDOP_AVG:                   \
        loop(REDOP_SUM, __VA_ARGS__); \
        break;                        \
    case REDOP_MIN:                   \
        loop(REDOP_MIN, __VA_ARGS__); \
        break;                        \
    case REDOP_MAX:                   \
        loop(REDOP_MAX, __VA_ARGS__); \
        break;                        \
    case REDOP_COUNT:                 \
        break;                        \
    }

#define ADD_F32(op, ...)   add_f32(DTYPE_F32, op, __VA_ARGS__)
#define ADD_F16(op, ...)   add_f32(DTYPE_F16, op, __VA_ARGS__)
#define ADD_BF16(op, ...)  add_f32(DTYPE_BF16, op, __VA_ARGS__)
#define PAIR_F32(op, ...)  pair_f32(DTYPE_F32, op, __VA_ARGS__)
#define PAIR_F16(op, ...)  pair_f32(DTYPE_F16, op, __VA_ARGS__)
#define PAIR_BF16(op, ...) pair_f32(DTYPE_BF16, op, __VA_ARGS__)

VECTOR_BODY void open_any(enum dtype t, const void *src, void *acc, uint64_t n) {
    if (t == DTYPE_F16)
        open_f32(DTYPE_F16, src, acc, n);
    else if (t == DTYPE_BF16)
        open_f32(DTYPE_BF16, src, acc, n);
    else
        memcpy(acc, src, n * dtype_bytes(t));
}

VECTOR_BODY void add_any(enum dtype t, enum redop op, void *acc, const void *src, uint64_t n) {
    switch (t) {
    case DTYPE_F32:
        FOR_OP(op, ADD_F32, acc, src, n) break;
    case DTYPE_F16:
        FOR_OP(op, ADD_F16, acc, src, n) break;
    case DTYPE_BF16:
        FOR_OP(op, ADD_BF16, acc, src, n) break;
    case DTYPE_F64:
        FOR_OP(op, add_f64, acc, src, n) break;
    case DTYPE_I32:
        FOR_OP(op, add_i32, acc, src, n) break;
    case DTYPE_I64:
        FOR_OP(op, add_i64, acc, src, n) break;
    case DTYPE_U8:
        FOR_OP(op, add_u8, acc, src, n) break;
    case DTYPE_COUNT:
        break;
    }
}

VECTOR_BODY void close_any(enum dtype t, const void *acc, void *dst, uint64_t n) {
    switch (t) {
    case DTYPE_F32:
        close_f32(DTYPE_F32, acc, dst, n);
        break;
    case DTYPE_F16:
        close_f32(DTYPE_F16, acc, dst, n);
        break;
    case DTYPE_BF16:
        close_f32(DTYPE_BF16, acc, dst, n);
        break;
    case DTYPE_F64:
        close_f64(acc, dst, n);
        break;
    case DTYPE_I32:
    case DTYPE_I64:
    case DTYPE_U8:
        memmove(dst, acc, n * dtype_bytes(t));
        break;
    case DTYPE_COUNT:
        break;
    }
}

VECTOR_BODY void pair_any(enum dtype t, enum redop op, void *dst, const void *src, uint64_t n) {
    switch (t) {
    case DTYPE_F32:
        FOR_OP(op, PAIR_F32, dst, src, n) break;
    case DTYPE_F16:
        FOR_OP(op, PAIR_F16, dst, src, n) break;
    case DTYPE_BF16:
        FOR_OP(op, PAIR_BF16, dst, src, n) break;
    case DTYPE_F64:
    case DTYPE_I32:
    case DTYPE_I64:
    case DTYPE_U8:
        add_any(t, op, dst, src, n);
        close_any(t, dst, dst, n);
        break;
    case DTYPE_COUNT:
        break;
    }
}

/* ---- the two versions, and the choice ---- */

AVX2_VERSION static void open_avx2(enum dtype t, const void *src, void *acc, uint64_t n) {
    open_any(t, src, acc, n);
}

AVX2_VERSION static void add_avx2(enum dtype t, enum redop op, void *acc, const void *src,
                                  uint64_t n) {
    add_any(t, op, acc, src, n);
}

AVX2_VERSION static void close_avx2(enum dtype t, const void *acc, void *dst, uint64_t n) {
    close_any(t, acc, dst, n);
}

AVX2_VERSION static void pair_avx2(enum dtype t, enum redop op, void *dst, const void *src,
                                   uint64_t n) {
    pair_any(t, op, dst, src, n);
}

void reduce_open(enum dtype t, const void *src, void *acc, uint64_t elems) {
    if (cpu_has_avx2())
        open_avx2(t, src, acc, elems);
    else
        open_any(t, src, acc, elems);
}

void reduce_add(enum dtype t, enum redop op, void *acc, const void *src, uint64_t elems) {
    if (cpu_has_avx2())
        add_avx2(t, op, acc, src, elems);
    else
        add_any(t, op, acc, src, elems);
}

void reduce_close(enum dtype t, const void *acc, void *dst, uint64_t elems) {
    if (cpu_has_avx2())
        close_avx2(t, acc, dst, elems);
    else
        close_any(t, acc, dst, elems);
}

void reduce_pair(enum dtype t, enum redop op, void *dst, const void *src, uint64_t elems) {
    if (cpu_has_avx2())
        pair_avx2(t, op, dst, src, elems);
    else
        pair_any(t, op, dst, src, elems);
}

void reduce_divide(enum dtype t, void *acc, uint64_t elems, uint64_t contributions) {
    switch (t) {
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
        for (uint64_t i = 0; i < elems; i++)
            ((any_f32 *)acc)[i] /= (float)contributions;
        break;
    case DTYPE_F64:
        for (uint64_t i = 0; i < elems; i++)
            ((any_f64 *)acc)[i] /= (double)contributions;
        break;
    case DTYPE_I32:
        for (uint64_t i = 0; i < elems; i++)
            ((any_i32 *)acc)[i] = (int32_t)(((any_i32 *)acc)[i] / (int64_t)contributions);
        break;
    case DTYPE_I64:
        for (uint64_t i = 0; i < elems; i++)
            ((any_i64 *)acc)[i] /= (int64_t)contributions;
        break;
    case DTYPE_U8:
        for (uint64_t i = 0; i < elems; i++)
            ((any_u8 *)acc)[i] = (uint8_t)(((any_u8 *)acc)[i] / contributions);
        break;
    case DTYPE_COUNT:
        break;
    }
}
