/*
 * dtype.h: element types and reduction operators, as listed in types.def.
 */
#ifndef SLUICE_KERNELS_DTYPE_H
#define SLUICE_KERNELS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
#define TYPE(ID, name, aliases, bytes, is_float) DTYPE_##ID,
#include "kernels/types.def"
    DTYPE_COUNT
};

enum redop {
#define REDOP(ID, name, aliases, help) REDOP_##ID,
#include "kernels/types.def"
    REDOP_COUNT
};

/* Bytes of one element. */
uint32_t dtype_bytes(enum dtype t);
/* Canonical name: "f32". */
const char *dtype_name(enum dtype t);
bool dtype_is_float(enum dtype t);
/* Reads a canonical name or an alias; false, *out untouched, when unknown. */
bool dtype_parse(const char *name, enum dtype *out);

const char *redop_name(enum redop op);
const char *redop_help(enum redop op);
bool redop_parse(const char *name, enum redop *out);

#endif
