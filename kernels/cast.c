/*
 * cast.c: every value rounded to a 16-bit type, to nearest even.
 *
 *     slot: elems x 2 bytes, values of the wire type
 *
 * A NaN becomes the canonical quiet NaN of the wire type, a value beyond its range an infinity,
 * denormals are kept. Decoding converts back: exactly into f32, to nearest even from bf16 into f16
 * or f16 into bf16, NaN to the canonical NaN. A cast of a type to itself moves the bits. Every byte
 * string of the right length is a legal encoding.
 */
#include "kernels/codec_ops.h"
#include "kernels/half.h"

#include <math.h>

static enum dtype cast_leaves(const struct codec_stage *s, enum dtype t) {
    (void)t;
    return (enum dtype)s->params[0];
}

static const char *cast_refuse(const struct codec_stage *s) {
    enum dtype wire = (enum dtype)s->params[0];

    return wire == DTYPE_BF16 || wire == DTYPE_F16 ? NULL
                                                   : "the type of 'cast' must be bf16 or f16";
}

static uint64_t cast_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    return elems * dtype_bytes(cast_leaves(s, t));
}

/* The largest rounding error at |v| <= abs_value: half an ulp is at most 2^-(bits + 1) of the
 * value for a type with that many mantissa bits, and half the smallest denormal below. */
static double rounding(enum dtype t, double abs_value) {
    if (t == DTYPE_BF16)
        return abs_value >= 0x1.ffp127 ? (double)INFINITY : fmax(abs_value * 0x1p-8, 0x1p-134);
    if (t == DTYPE_F16)
        return abs_value >= 65520 ? (double)INFINITY : fmax(abs_value * 0x1p-11, 0x1p-25);
    return 0;
}

static double cast_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                               double block_max) {
    enum dtype wire = cast_leaves(s, t);
    double error;

    (void)block_max;
    if (wire == t)
        return 0;
    error = rounding(wire, abs_value);
    /* Back into a 16-bit type: rounded again, unless it is exact, which the bound ignores. */
    return isinf(error) || t == DTYPE_F32 ? error : error + rounding(t, abs_value + error);
}

/* ---- loops ---- */

VECTOR_BODY float widen(enum dtype t, const void *from, uint64_t i) {
    if (t == DTYPE_F32)
        return ((const any_f32 *)from)[i];
    if (t == DTYPE_F16)
        return f16_to_f32(((const any_u16 *)from)[i]);
    return bf16_to_f32(((const any_u16 *)from)[i]);
}

VECTOR_BODY void narrow(enum dtype t, void *to, uint64_t i, float value) {
    if (t == DTYPE_F32)
        ((any_f32 *)to)[i] = f32_quiet(value);
    else if (t == DTYPE_F16)
        ((any_u16 *)to)[i] = f16_from_f32(value);
    else
        ((any_u16 *)to)[i] = bf16_from_f32(value);
}

VECTOR_BODY void convert_loop(enum dtype from_type, const void *restrict from, enum dtype to_type,
                              void *restrict to, uint64_t elems) {
    for (uint64_t i = 0; i < elems; i++)
        narrow(to_type, to, i, widen(from_type, from, i));
}

VECTOR_BODY void convert_any(enum dtype a, const void *from, enum dtype b, void *to, uint64_t n) {
    if (a == DTYPE_F32 && b == DTYPE_BF16)
        convert_loop(DTYPE_F32, from, DTYPE_BF16, to, n);
    if (a == DTYPE_F32 && b == DTYPE_F16)
        convert_loop(DTYPE_F32, from, DTYPE_F16, to, n);
    if (a == DTYPE_F16 && b == DTYPE_F32)
        convert_loop(DTYPE_F16, from, DTYPE_F32, to, n);
    if (a == DTYPE_F16 && b == DTYPE_BF16)
        convert_loop(DTYPE_F16, from, DTYPE_BF16, to, n);
    if (a == DTYPE_BF16 && b == DTYPE_F32)
        convert_loop(DTYPE_BF16, from, DTYPE_F32, to, n);
    if (a == DTYPE_BF16 && b == DTYPE_F16)
        convert_loop(DTYPE_BF16, from, DTYPE_F16, to, n);
}

static void convert_plain(enum dtype a, const void *from, enum dtype b, void *to, uint64_t n) {
    convert_any(a, from, b, to, n);
}

AVX2_VERSION static void convert_avx2(enum dtype a, const void *from, enum dtype b, void *to,
                                      uint64_t n) {
    convert_any(a, from, b, to, n);
}

static void convert(enum dtype a, const void *from, enum dtype b, void *to, uint64_t n) {
    if (a == b)
        memcpy(to, from, n * dtype_bytes(a));
    else if (cpu_has_avx2())
        convert_avx2(a, from, b, to, n);
    else
        convert_plain(a, from, b, to, n);
}

static enum codec_status cast_encode(const struct codec_stage *s, enum dtype t, const void *src,
                                     uint64_t elems, void *slot, uint64_t slot_bytes,
                                     uint64_t *need_bytes) {
    (void)slot_bytes;
    *need_bytes = cast_bytes(s, t, elems);
    convert(t, src, cast_leaves(s, t), slot, elems);
    return CODEC_OK;
}

static enum codec_status cast_decode(const struct codec_stage *s, enum dtype t, const void *slot,
                                     uint64_t slot_bytes, uint64_t elems, void *dst,
                                     const char **reason) {
    (void)slot_bytes, (void)reason;
    convert(cast_leaves(s, t), slot, t, dst, elems);
    return CODEC_OK;
}

const struct codec_ops codec_cast_ops = {
    .refuse = cast_refuse,
    .leaves = cast_leaves,
    .error_bound = cast_error_bound,
    .worst_bytes = cast_bytes,
    .encode = cast_encode,
    .decode = cast_decode,
};
