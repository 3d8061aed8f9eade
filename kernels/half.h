/*
 * half.h: single values between f32 and the 16- and 8-bit types, without branches so that loops
 * over them vectorise, and the two helpers every loop here needs: unaligned element types and
 * versions of a loop for wider vectors. Internal to kernels/.
 */
#ifndef SLUICE_KERNELS_HALF_H
#define SLUICE_KERNELS_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements and wire words: as in memory");

/* Elements at any address. */
typedef uint8_t __attribute__((may_alias)) any_u8;
typedef uint16_t __attribute__((may_alias, aligned(1))) any_u16;
typedef uint32_t __attribute__((may_alias, aligned(1))) any_u32;
typedef int32_t __attribute__((may_alias, aligned(1))) any_i32;
typedef int64_t __attribute__((may_alias, aligned(1))) any_i64;
typedef uint64_t __attribute__((may_alias, aligned(1))) any_u64;
typedef float __attribute__((may_alias, aligned(1))) any_f32;
typedef double __attribute__((may_alias, aligned(1))) any_f64;

/* A loop body that is compiled once for the baseline and once for AVX2. Both do the same IEEE
 * operations (no fused multiply-add, no reassociation), hence give the same bits. */
#define VECTOR_BODY static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_AVX2_VERSION 1
#define AVX2_VERSION      __attribute__((target("avx2")))
static inline bool cpu_has_avx2(void) {
    return __builtin_cpu_supports("avx2") != 0;
}
#else
#define HAVE_AVX2_VERSION 0
#define AVX2_VERSION
static inline bool cpu_has_avx2(void) {
    return false;
}
#endif

#define F32_NAN  UINT32_C(0x7fc00000)
#define F32_INF  UINT32_C(0x7f800000)
#define F16_NAN  UINT16_C(0x7e00)
#define BF16_NAN UINT16_C(0x7fc0)
#define E4M3_NAN UINT8_C(0x7f)
#define E5M2_NAN UINT8_C(0x7f)

VECTOR_BODY uint32_t f32_bits(float f) {
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

VECTOR_BODY float f32_from_bits(uint32_t u) {
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

VECTOR_BODY bool f32_bits_are_nan(uint32_t u) {
    return (u & 0x7fffffffu) > F32_INF;
}

VECTOR_BODY float f32_quiet(float f) {
    uint32_t u = f32_bits(f);

    return f32_from_bits(f32_bits_are_nan(u) ? F32_NAN : u);
}

/* Exact; a NaN keeps its payload. */
VECTOR_BODY float bf16_to_f32(uint16_t b) {
    return f32_from_bits((uint32_t)b << 16);
}

/* To nearest even, any NaN to the canonical one. */
VECTOR_BODY uint16_t bf16_from_f32(float f) {
    uint32_t u = f32_bits(f);
    uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;

    return (uint16_t)(f32_bits_are_nan(u) ? BF16_NAN : rounded);
}

/* Exact; a NaN keeps its payload. */
VECTOR_BODY float f16_to_f32(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t normal = magnitude + (112u << 23); /* bias 15 -> 127 */
    uint32_t beyond = magnitude + (224u << 23); /* infinity and NaN: exponent 255 */
    float small = f32_from_bits(magnitude + (113u << 23)) - f32_from_bits(113u << 23);
    uint32_t bits = (h & 0x7c00u) == 0x7c00u ? beyond : normal;

    bits = (h & 0x7c00u) == 0 ? f32_bits(small) : bits;
    return f32_from_bits(bits | sign);
}

/* To nearest even, beyond 65520 to infinity, any NaN to the canonical one. */
VECTOR_BODY uint16_t f16_from_f32(float f) {
    uint32_t u = f32_bits(f);
    uint32_t magnitude = u & 0x7fffffffu;
    uint32_t sign = u >> 16 & 0x8000u;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    /* Below 2^-14 the sum with 0.5 has an ulp of 2^-24, the spacing of f16 denormals. */
    uint32_t small = f32_bits(f32_from_bits(magnitude) + 0.5f) - f32_bits(0.5f);
    uint32_t bits = magnitude < (113u << 23) ? small : normal;

    bits = magnitude >= 0x47800000u ? 0x7c00u : bits;
    return (uint16_t)(magnitude > F32_INF ? F16_NAN : bits | sign);
}

/* ---- 8-bit floats: what a cast writes, see FORMAT.md ---- */

/* Exact, NaN to the canonical one. */
VECTOR_BODY float e4m3_to_f32(uint8_t b) {
    uint32_t magnitude = (uint32_t)(b & 0x7fu) << 20;
    uint32_t sign = (uint32_t)(b & 0x80u) << 24;
    uint32_t normal = magnitude + (120u << 23); /* bias 7 -> 127 */
    float small = f32_from_bits(magnitude + (121u << 23)) - f32_from_bits(121u << 23);
    uint32_t bits = (b & 0x78u) == 0 ? f32_bits(small) : normal;

    return f32_from_bits((b & 0x7fu) == 0x7fu ? F32_NAN : bits | sign);
}

/* To nearest even, finite values beyond 448 to 448, infinities and NaNs to the canonical NaN. */
VECTOR_BODY uint8_t e4m3_from_f32(float f) {
    uint32_t u = f32_bits(f);
    uint32_t magnitude = u & 0x7fffffffu;
    uint32_t sign = u >> 24 & 0x80u;
    uint32_t normal = (magnitude - (120u << 23) + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
    /* Below 2^-6 the sum with 2^14 has an ulp of 2^-9, the spacing of the denormals. */
    uint32_t small = f32_bits(f32_from_bits(magnitude) + 16384.0f) - f32_bits(16384.0f);
    uint32_t bits = magnitude < (121u << 23) ? small : normal;

    bits = magnitude > 0x43e00000u ? 0x7eu : bits;
    return (uint8_t)(magnitude >= F32_INF ? E4M3_NAN : bits | sign);
}

/* Exact, NaN to the canonical one: the upper half of an f16. */
VECTOR_BODY float e5m2_to_f32(uint8_t b) {
    return f32_quiet(f16_to_f32((uint16_t)(b << 8)));
}

/* To nearest even, finite values beyond 57344 to 57344, any NaN to the canonical one. */
VECTOR_BODY uint8_t e5m2_from_f32(float f) {
    uint32_t u = f32_bits(f);
    uint32_t magnitude = u & 0x7fffffffu;
    uint32_t sign = u >> 24 & 0x80u;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffffu + (magnitude >> 21 & 1u)) >> 21;
    /* Below 2^-14 the sum with 2^7 has an ulp of 2^-16, the spacing of the denormals. */
    uint32_t small = f32_bits(f32_from_bits(magnitude) + 128.0f) - f32_bits(128.0f);
    uint32_t bits = magnitude < (113u << 23) ? small : normal;

    bits = magnitude > 0x47600000u ? 0x7bu : bits;
    bits = magnitude == F32_INF ? 0x7cu : bits;
    return (uint8_t)(magnitude > F32_INF ? E5M2_NAN : bits | sign);
}

#endif
