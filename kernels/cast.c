/*
 * cast.c: every value rounded to a narrower type of float, to nearest even.
 *
 *     slot: elems x 2 bytes (bf16, f16) or elems x 1 byte (e4m3, e5m2), values of the wire type
 *
 * A NaN becomes the canonical quiet NaN of the wire type; denormals are kept. A finite value beyond
 * the range becomes an infinity in bf16 and f16, but the largest finite value in the 8-bit types,
 * whose range is so small that a lone outlier must not become a NaN. An infinity never becomes
 * finite (e4m3 has none and takes its NaN), so that whoever looks for overflowed gradients still
 * sees them.
 *
 * Decoding converts back: exactly into f32 and from the 8-bit types into any, to nearest even from
 * bf16 into f16 or f16 into bf16, NaN to the canonical NaN. A cast of a type to itself moves the
 * bits. Every byte string of the right length is a legal encoding.
 */
#include "kernels/codec_ops.h"
#include "kernels/half.h"

#include <math.h>

static enum wire_type wire_of(const struct codec_stage *s) {
    return (enum wire_type)s->params[0];
}

static enum dtype cast_leaves(const struct codec_stage *s, enum dtype t) {
    (void)t;
    return wire_of(s) < (enum wire_type)DTYPE_COUNT ? (enum dtype)wire_of(s) : DTYPE_COUNT;
}

static const char *cast_refuse(const struct codec_stage *s) {
    enum wire_type w = wire_of(s);

    return w == WIRE_BF16 || w == WIRE_F16 || w == WIRE_E4M3 || w == WIRE_E5M2
               ? NULL
               : "the type of 'cast' must be bf16, f16, e4m3 or e5m2";
}

static uint64_t cast_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    (void)t;
    return elems * wire_type_bytes(wire_of(s));
}

/* What is lost at |v| <= abs_value in an 8-bit type, which saturates. */
static double saturated(double abs_value, double largest, double half_ulp, double least) {
    double rounding = fmax(fmin(abs_value, largest) * half_ulp, least);

    return isinf(abs_value) ? (double)INFINITY : fmax(rounding, abs_value - largest);
}

/* The largest rounding error at |v| <= abs_value: half an ulp is at most 2^-(bits + 1) of the
 * value for a type with that many mantissa bits, and half the smallest denormal below. */
static double rounding(enum wire_type w, double abs_value) {
    if (w == WIRE_BF16)
        return abs_value >= 0x1.ffp127 ? (double)INFINITY : fmax(abs_value * 0x1p-8, 0x1p-134);
    if (w == WIRE_F16)
        return abs_value >= 65520 ? (double)INFINITY : fmax(abs_value * 0x1p-11, 0x1p-25);
    if (w == WIRE_E4M3)
        return saturated(abs_value, 448, 0x1p-4, 0x1p-10);
    if (w == WIRE_E5M2)
        return saturated(abs_value, 57344, 0x1p-3, 0x1p-17);
    return 0;
}

static double cast_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                               double block_max) {
    enum wire_type w = wire_of(s);
    double error;

    (void)block_max;
    if (w == (enum wire_type)t)
        return 0;
    error = rounding(w, abs_value);
    /* Back into a 16-bit type: rounded again, unless it is exact, as it always is from 8 bits. */
    if (isinf(error) || wire_type_bytes(w) == 1)
        return error;
    return error + rounding((enum wire_type)t, abs_value + error);
}

/* ---- loops ---- */

VECTOR_BODY float widen(enum wire_type w, const void *from, uint64_t i) {
    if (w == WIRE_F32)
        return ((const any_f32 *)from)[i];
    if (w == WIRE_F16)
        return f16_to_f32(((const any_u16 *)from)[i]);
    if (w == WIRE_BF16)
        return bf16_to_f32(((const any_u16 *)from)[i]);
    if (w == WIRE_E4M3)
        return e4m3_to_f32(((const any_u8 *)from)[i]);
    return e5m2_to_f32(((const any_u8 *)from)[i]);
}

VECTOR_BODY void narrow(enum wire_type w, void *to, uint64_t i, float value) {
    if (w == WIRE_F32)
        ((any_f32 *)to)[i] = f32_quiet(value);
    else if (w == WIRE_F16)
        ((any_u16 *)to)[i] = f16_from_f32(value);
    else if (w == WIRE_BF16)
        ((any_u16 *)to)[i] = bf16_from_f32(value);
    else if (w == WIRE_E4M3)
        ((any_u8 *)to)[i] = e4m3_from_f32(value);
    else
        ((any_u8 *)to)[i] = e5m2_from_f32(value);
}

VECTOR_BODY void convert_loop(enum wire_type from_type, const void *restrict from,
                              enum wire_type to_type, void *restrict to, uint64_t elems) {
    for (uint64_t i = 0; i < elems; i++)
        narrow(to_type, to, i, widen(from_type, from, i));
}

/* a is a constant: one loop for each pair. */
VECTOR_BODY void convert_from(enum wire_type a, const void *from, enum wire_type b, void *to,
                              uint64_t n) {
    if (b == WIRE_F32)
        convert_loop(a, from, WIRE_F32, to, n);
    else if (b == WIRE_F16)
        convert_loop(a, from, WIRE_F16, to, n);
    else if (b == WIRE_BF16)
        convert_loop(a, from, WIRE_BF16, to, n);
    else if (b == WIRE_E4M3)
        convert_loop(a, from, WIRE_E4M3, to, n);
    else
        convert_loop(a, from, WIRE_E5M2, to, n);
}

VECTOR_BODY void convert_any(enum wire_type a, const void *from, enum wire_type b, void *to,
                             uint64_t n) {
    if (a == WIRE_F32)
        convert_from(WIRE_F32, from, b, to, n);
    else if (a == WIRE_F16)
        convert_from(WIRE_F16, from, b, to, n);
    else if (a == WIRE_BF16)
        convert_from(WIRE_BF16, from, b, to, n);
    else if (a == WIRE_E4M3)
        convert_from(WIRE_E4M3, from, b, to, n);
    else
        convert_from(WIRE_E5M2, from, b, to, n);
}

static void convert_plain(enum wire_type a, const void *from, enum wire_type b, void *to,
                          uint64_t n) {
    convert_any(a, from, b, to, n);
}

AVX2_VERSION static void convert_avx2(enum wire_type a, const void *from, enum wire_type b,
                                      void *to, uint64_t n) {
    convert_any(a, from, b, to, n);
}

static void convert(enum wire_type a, const void *from, enum wire_type b, void *to, uint64_t n) {
    if (a == b)
        memcpy(to, from, n * wire_type_bytes(a));
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
    convert((enum wire_type)t, src, wire_of(s), slot, elems);
    return CODEC_OK;
}

static enum codec_status cast_decode(const struct codec_stage *s, enum dtype t, const void *slot,
                                     uint64_t slot_bytes, uint64_t elems, void *dst,
                                     const char **reason) {
    (void)slot_bytes, (void)reason;
    convert(wire_of(s), slot, (enum wire_type)t, dst, elems);
    return CODEC_OK;
}

const struct codec_ops codec_cast_ops = {
    .refuse = cast_refuse,
    .leaves = cast_leaves,
    .error_bound = cast_error_bound,
    .no_numbers = "it rounds values itself, use one",
    .no_picks = "what it loses would escape the error feedback",
    .worst_bytes = cast_bytes,
    .encode = cast_encode,
    .decode = cast_decode,
};
