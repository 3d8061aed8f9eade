/*
 * reduce.h: the arithmetic of reductions, element by element, as the language defines it.
 *
 * A sum is opened from its first operand into an accumulator (f32 for f32, f16 and bf16; f64 for
 * f64; the type itself for integers, wrapping), takes further operands, and is rounded once.
 * Every step is exactly one IEEE operation to nearest even, so that any loop or thread order over
 * *elements* gives the same bits. Rules:
 *   - rounding to the type: nearest even; beyond the range: infinity; denormals kept
 *   - a NaN that comes out of arithmetic is the canonical quiet NaN: f32 0x7fc00000,
 *     f16 0x7e00, bf16 0x7fc0, f64 0x7ff8000000000000. reduce_close applies it: an accumulator may
 *     hold other NaNs. A sum of one operand is no arithmetic but a move: use memcpy.
 *   - min and max: -0 below +0; NaN if any operand is NaN
 *   - avg: the accumulator divided by the number of contributions (as an f32, f64, or integer
 *     division towards zero), before the rounding
 * src, dst and acc may lie at any address.
 */
#ifndef SLUICE_KERNELS_REDUCE_H
#define SLUICE_KERNELS_REDUCE_H

#include "kernels/dtype.h"

/* Bytes of one accumulator element. */
uint32_t reduce_acc_bytes(enum dtype t);

/* acc[i] = src[i] */
void reduce_open(enum dtype t, const void *src, void *acc, uint64_t elems);
/* acc[i] = acc[i] op src[i]; avg adds. Operands come in the order of the calls. */
void reduce_add(enum dtype t, enum redop op, void *acc, const void *src, uint64_t elems);
/* acc[i] = acc[i] / contributions; for avg only, before reduce_close. contributions > 0. */
void reduce_divide(enum dtype t, void *acc, uint64_t elems, uint64_t contributions);
/* dst[i] = round(acc[i]); dst may be acc itself. */
void reduce_close(enum dtype t, const void *acc, void *dst, uint64_t elems);

/* dst[i] = round(dst[i] op src[i]), the whole sum of two operands in one pass over memory; the
 * same bits as open, add, close. dst may not overlap src unless equal. */
void reduce_pair(enum dtype t, enum redop op, void *dst, const void *src, uint64_t elems);

/* Single values, for references and tests: bits in, bits out. */
float half_to_float(uint16_t h);
uint16_t half_from_float(float f);
float bfloat_to_float(uint16_t b);
uint16_t bfloat_from_float(float f);

#endif
