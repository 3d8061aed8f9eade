/*
 * dtype.h: element types, wire types and reduction operators, as listed in types.def.
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

/* The types of values on the wire: every element type under its own number, then the formats that
 * no buffer holds. */
enum wire_type {
#define TYPE(ID, name, aliases, bytes, is_float) WIRE_##ID = DTYPE_##ID,
#include "kernels/types.def"
#define WIRE_TYPE(ID, name, aliases, bytes) WIRE_##ID,
#include "kernels/types.def"
    WIRE_TYPE_COUNT
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

/* The same for wire types; those that are element types have their names and sizes. */
uint32_t wire_type_bytes(enum wire_type w);
const char *wire_type_name(enum wire_type w);
bool wire_type_parse(const char *name, enum wire_type *out);

const char *redop_name(enum redop op);
const char *redop_help(enum redop op);
bool redop_parse(const char *name, enum redop *out);

#endif
