/*
 * dtype.c: names and sizes of element types, wire types and reduction operators, out of types.def.
 */
#include "kernels/dtype.h"

#include <string.h>

/* Whether name is one of the words of list, which '|' separates. */
static bool in_list(const char *list, const char *name) {
    size_t len = strlen(name);

    if (len == 0 || strchr(name, '|') != NULL)
        return false;
    for (const char *at = list; at != NULL;) {
        const char *bar = strchr(at, '|');
        size_t word = bar != NULL ? (size_t)(bar - at) : strlen(at);

        if (word == len && memcmp(at, name, len) == 0)
            return true;
        at = bar != NULL ? bar + 1 : NULL;
    }
    return false;
}

uint32_t dtype_bytes(enum dtype t) {
    static const uint32_t bytes[DTYPE_COUNT] = {
#define TYPE(ID, name, aliases, bytes, is_float) [DTYPE_##ID] = bytes,
#include "kernels/types.def"
    };
    return (unsigned)t < DTYPE_COUNT ? bytes[t] : 0;
}

const char *dtype_name(enum dtype t) {
    static const char *const names[DTYPE_COUNT] = {
#define TYPE(ID, name, aliases, bytes, is_float) [DTYPE_##ID] = name,
#include "kernels/types.def"
    };
    return (unsigned)t < DTYPE_COUNT ? names[t] : "?";
}

bool dtype_is_float(enum dtype t) {
    static const bool is[DTYPE_COUNT] = {
#define TYPE(ID, name, aliases, bytes, is_float) [DTYPE_##ID] = is_float,
#include "kernels/types.def"
    };
    return (unsigned)t < DTYPE_COUNT && is[t];
}

bool dtype_parse(const char *name, enum dtype *out) {
    static const struct {
        enum dtype t;
        const char *aliases;
    } rows[] = {
#define TYPE(ID, name, aliases, bytes, is_float) {DTYPE_##ID, name "|" aliases},
#include "kernels/types.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!in_list(rows[i].aliases, name))
            continue;
        *out = rows[i].t;
        return true;
    }
    return false;
}

uint32_t wire_type_bytes(enum wire_type w) {
    static const uint32_t bytes[WIRE_TYPE_COUNT] = {
#define TYPE(ID, name, aliases, bytes, is_float) [WIRE_##ID] = bytes,
#include "kernels/types.def"
#define WIRE_TYPE(ID, name, aliases, bytes) [WIRE_##ID] = bytes,
#include "kernels/types.def"
    };
    return (unsigned)w < WIRE_TYPE_COUNT ? bytes[w] : 0;
}

const char *wire_type_name(enum wire_type w) {
    static const char *const names[WIRE_TYPE_COUNT] = {
#define TYPE(ID, name, aliases, bytes, is_float) [WIRE_##ID] = name,
#include "kernels/types.def"
#define WIRE_TYPE(ID, name, aliases, bytes) [WIRE_##ID] = name,
#include "kernels/types.def"
    };
    return (unsigned)w < WIRE_TYPE_COUNT ? names[w] : "?";
}

bool wire_type_parse(const char *name, enum wire_type *out) {
    static const struct {
        enum wire_type w;
        const char *aliases;
    } rows[] = {
#define WIRE_TYPE(ID, name, aliases, bytes) {WIRE_##ID, name "|" aliases},
#include "kernels/types.def"
    };
    enum dtype t;

    if (dtype_parse(name, &t)) {
        *out = (enum wire_type)t;
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!in_list(rows[i].aliases, name))
            continue;
        *out = rows[i].w;
        return true;
    }
    return false;
}

const char *redop_name(enum redop op) {
    static const char *const names[REDOP_COUNT] = {
#define REDOP(ID, name, aliases, help) [REDOP_##ID] = name,
#include "kernels/types.def"
    };
    return (unsigned)op < REDOP_COUNT ? names[op] : "?";
}

const char *redop_help(enum redop op) {
    static const char *const helps[REDOP_COUNT] = {
#define REDOP(ID, name, aliases, help) [REDOP_##ID] = help,
#include "kernels/types.def"
    };
    return (unsigned)op < REDOP_COUNT ? helps[op] : "";
}

bool redop_parse(const char *name, enum redop *out) {
    static const struct {
        enum redop op;
        const char *aliases;
    } rows[] = {
#define REDOP(ID, name, aliases, help) {REDOP_##ID, name "|" aliases},
#include "kernels/types.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!in_list(rows[i].aliases, name))
            continue;
        *out = rows[i].op;
        return true;
    }
    return false;
}
