/* Arithmetic of the reference, written from the definitions of the formats and of the language,
 * apart from everything that the executor uses. Private to the reference.
 *
 *   refmath.c   elements as bits: conversion, rounding, sums
 *   refbound.c  an exact value and how far from it a result may be
 *   refvalue.c  all values that a set of chunks depends on, block by block
 */
#ifndef SLUICE_REFMATH_H
#define SLUICE_REFMATH_H

#include "compiler/compiler.h"

/* ---- refmath.c ---- */

/* The value of an element; integers are converted, u8 as unsigned. */
double ref_double(enum dtype t, uint64_t bits);
/* sum, avg, min or max of n >= 1 elements in order, in the accumulator, divided when divisor > 0,
 * rounded. */
uint64_t ref_sum(enum dtype t, enum redop op, const uint64_t *bits, uint32_t n, uint32_t divisor);

/* ---- refbound.c ---- */

/* Some value x, of which |x - exact| <= bound is known; infinite when nothing is. */
struct approx {
    double exact, bound;
};
struct approx ref_exact(enum dtype t, uint64_t bits);
/* What a sum of such values, computed as ref_sum does, can be. */
struct approx ref_sum_approx(enum dtype t, enum redop op, const struct approx *v, uint32_t n,
                             uint32_t divisor);

/* An element of a value: its bits where value.lossy is 0, else what is known of it. */
union ref_cell {
    uint64_t bits;
    struct approx approx;
};
/* n elements through a codec, in place, the first at the start of a block of the codec. */
void ref_coded_approx(enum dtype t, const struct codec *c, union ref_cell *v, uint64_t n);

/* ---- refvalue.c ---- */

/* Where the caller's memory has each chunk, in elements. */
struct ref_layout {
    const struct flow *f;
    uint64_t *send, *recv; /* [buffers * ranks] where a buffer starts in the memory of a rank */
    uint64_t *chunk;       /* [buffers * widest] where a chunk starts in its buffer */
    size_t widest;
};
bool ref_layout_init(struct ref_layout *l, const struct flow *f); /* false: no memory */
void ref_layout_free(struct ref_layout *l);
/* A chunk's first byte in its rank's memory; starts is send or recv of the layout. */
const char *ref_chunk(const struct ref_layout *l, const uint64_t *starts, const void *const *memory,
                      loc_id loc);
uint64_t ref_read(enum dtype t, const char *chunk, uint64_t element);

/* The values that some chunks of one size depend on. */
struct ref_values {
    const struct compilation *c;
    uint32_t *slot_of; /* [values] place among ids, NONE */
    uint32_t *ids;     /* [count] ascending, so that operands come before what is made of them */
    size_t count, values;
    const char **input;    /* [count] of an input: its chunk */
    uint64_t block;        /* elements evaluated at a time */
    union ref_cell *cells; /* [count][block] */
    uint64_t *bits;        /* operands of one element of a sum */
    struct approx *approx;
    const union ref_cell **operand; /* where a block of each operand is */
};
bool ref_values_init(struct ref_values *v, const struct compilation *c, size_t values);
/* Chooses the values under `roots`, and a block size for chunks of elems elements. False: no
 * memory. */
bool ref_values_choose(struct ref_values *v, const struct ref_layout *l, const void *const *send,
                       const uint32_t *roots, size_t n, uint64_t elems);
/* Evaluates elements first .. first+n, n <= block, first a multiple of it. */
void ref_values_evaluate(struct ref_values *v, uint64_t first, uint64_t n);
const union ref_cell *ref_values_cells(const struct ref_values *v, uint32_t id);
void ref_values_free(struct ref_values *v);

#endif
