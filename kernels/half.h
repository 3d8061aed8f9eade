/*
 * half.h: single values between f32 and the 16-bit types, without branches so that loops over them
 * vectorise, and the two helpers every loop here needs: unaligned element types and versions of a
 * loop for wider vectors. Internal to kernels/.
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

#endif
