/*
 * inputs.c: values to run on.
 *
 * Made-up values come from a counter: element i of a rank is a hash of (seed, rank, i), so that
 * any part can be made alone. Only integer arithmetic and exact conversions are used, no libm:
 * the same bits everywhere.
 */
#include "runtime/inputs.h"
#include "kernels/reduce.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *input_kind_name(enum input_kind k) {
    static const char *const names[] = {
#define INPUT(ID, name, help) name,
#include "runtime/inputs.def"
    };
    return (unsigned)k < INPUT_KIND_COUNT ? names[k] : "?";
}

const char *input_kind_help(enum input_kind k) {
    static const char *const helps[] = {
#define INPUT(ID, name, help) help,
#include "runtime/inputs.def"
    };
    return (unsigned)k < INPUT_KIND_COUNT ? helps[k] : "?";
}

bool input_kind_parse(const char *name, enum input_kind *out) {
    for (unsigned k = 0; k < INPUT_KIND_COUNT; k++)
        if (strcmp(name, input_kind_name((enum input_kind)k)) == 0) {
            *out = (enum input_kind)k;
            return true;
        }
    return false;
}

/* ---- made-up values ---- */

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* The finaliser of SplitMix64: a bijection that leaves no pattern of a counter. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t from_double(enum dtype t, double v) {
    float f = (float)v;
    uint32_t bits32;
    uint64_t bits64;
    switch (t) {
    case DTYPE_F32:
        memcpy(&bits32, &f, sizeof bits32);
        return bits32;
    case DTYPE_F16:
        return half_from_float(f);
    case DTYPE_BF16:
        return bfloat_from_float(f);
    case DTYPE_F64:
        memcpy(&bits64, &v, sizeof bits64);
        return bits64;
    case DTYPE_I32:
    case DTYPE_I64:
    case DTYPE_U8:
    case DTYPE_COUNT:
        break;
    }
    return (uint64_t)(int64_t)v;
}

/* The sum of twelve uniform values has deviation 1. They have 16 bits each; 37 more fill the
 * gaps.
 */
static double normal(uint64_t h) {
    int64_t sum = 0;
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned shift = 0; shift < 64; shift += 16)
            sum += (int64_t)(h >> shift & 0xffff);
        h = mix(h + GOLDEN);
    }
    return (double)((sum - 6 * 65536) * (INT64_C(1) << 37) + (int64_t)(h >> 27)) / 0x1p53;
}

static double uniform(uint64_t h) {
    return (double)(int64_t)(h >> 11) / 4503599627370496.0 - 1;
}

/* Sums of 100 ranks and more stay exact: bf16 counts to 256 without a gap, f16 to 2048. */
static double small_integer(enum dtype t, uint64_t h) {
    int64_t largest = t == DTYPE_BF16 ? 2 : t == DTYPE_F16 ? 8 : t == DTYPE_U8 ? 1 : 64;
    int64_t values = t == DTYPE_U8 ? 2 : 2 * largest + 1;
    int64_t v = (int64_t)(h >> 32) % values;
    return (double)(t == DTYPE_U8 ? v : v - largest);
}

/* A bit pattern at the edges of a type. */
static uint64_t extreme(enum dtype t, uint64_t h) {
    unsigned width = 8 * dtype_bytes(t);
    uint64_t sign = (h >> 8 & 1) << (width - 1), pick = h % 10;
    if (!dtype_is_float(t))
        return pick < 3   ? UINT64_C(1) << (width - 1)
               : pick < 6 ? (UINT64_C(1) << (width - 1)) - 1
                          : pick - 7; /* -1, 0, 1, 2 */
    unsigned fraction = t == DTYPE_F32 ? 23 : t == DTYPE_F16 ? 10 : t == DTYPE_BF16 ? 7 : 52;
    uint64_t one = UINT64_C(1) << fraction, infinity = (UINT64_C(1) << (width - 1)) - one;
    switch (pick) {
    case 0:
        return sign | infinity;
    case 1:
        return sign | infinity | one >> 1 | (mix(h) & (one / 2 - 1)); /* quiet NaN, any payload */
    case 2:
        return sign | infinity | 1; /* signalling NaN */
    case 3:
        return sign | 1; /* smallest denormal */
    case 4:
        return sign | (one - 1); /* largest denormal */
    case 5:
        return sign | one; /* smallest normal */
    case 6:
        return sign | (infinity - 1); /* largest finite */
    case 7:
        return sign | (mix(h) & (one - 1)); /* any denormal */
    default:
        return sign; /* zeros */
    }
}

static uint64_t made_up(enum input_kind k, enum dtype t, uint64_t h) {
    bool real = dtype_is_float(t);
    switch (k) {
    case INPUT_NORMAL:
        return from_double(t, real ? normal(h) : (double)(int64_t)(16 * normal(h)));
    case INPUT_UNIFORM:
        return real ? from_double(t, uniform(h)) : h;
    case INPUT_EXACT:
        return from_double(t, small_integer(t, h));
    case INPUT_ONES:
        return from_double(t, 1);
    case INPUT_EXTREMES:
        if (h >> 60 == 0)
            return extreme(t, mix(h));
        return real ? from_double(t, normal(h)) : h;
    case INPUT_BITS:
        return h;
    case INPUT_ZEROS:
    case INPUT_KIND_COUNT:
        break;
    }
    return 0;
}

void input_generate(enum input_kind k, enum dtype t, uint64_t seed, int32_t rank, uint64_t first,
                    uint64_t elems, void *dst) {
    uint64_t key = mix(mix(seed + GOLDEN) + (uint64_t)rank * GOLDEN + 1);
    size_t bytes = dtype_bytes(t);
    char *at = dst;
    for (uint64_t i = first; i < first + elems; i++, at += bytes) {
        uint64_t bits = made_up(k, t, mix(key + (i + 1) * GOLDEN));
        memcpy(at, &bits, bytes); /* little-endian, as the host */
    }
}

/* ---- files ---- */

static bool read_all(FILE *in, uint64_t limit, char **data, uint64_t *bytes) {
    uint64_t capacity = 0;
    *data = NULL;
    *bytes = 0;
    while (*bytes < limit) {
        if (*bytes == capacity) {
            capacity = capacity ? 2 * capacity : UINT64_C(1) << 16;
            capacity = capacity > limit ? limit : capacity;
            char *grown = realloc(*data, capacity);
            if (!grown)
                return false;
            *data = grown;
        }
        size_t got = fread(*data + *bytes, 1, capacity - *bytes, in);
        *bytes += got;
        if (got == 0)
            break;
    }
    return !ferror(in);
}

bool input_file_read(const char *path, enum dtype t, uint64_t limit_bytes, struct input_file *out,
                     char *err, size_t err_bytes) {
    *out = (struct input_file){.dtype = t};
    bool standard = strcmp(path, "-") == 0;
    FILE *in = standard ? stdin : fopen(path, "rb");
    if (!in) {
        snprintf(err, err_bytes, "cannot read '%s': %s", path, strerror(errno));
        return false;
    }
    char *data;
    uint64_t bytes, elem_bytes = dtype_bytes(t);
    if (limit_bytes > UINT64_MAX / 2)
        limit_bytes = UINT64_MAX / 2;
    limit_bytes = (limit_bytes + elem_bytes - 1) / elem_bytes * elem_bytes;
    bool ok = read_all(in, limit_bytes, &data, &bytes);
    int why = errno;
    if (!standard)
        fclose(in);
    if (!ok)
        snprintf(err, err_bytes, "cannot read '%s': %s", path, strerror(why));
    else if (bytes == 0 && limit_bytes > 0)
        snprintf(err, err_bytes, "'%s' is empty", path);
    else if (bytes % elem_bytes != 0)
        snprintf(err, err_bytes, "'%s' has %llu bytes, which is not a whole number of %s elements",
                 path, (unsigned long long)bytes, dtype_name(t));
    else {
        out->data = data;
        out->elems = bytes / elem_bytes;
        return true;
    }
    free(data);
    return false;
}

void input_file_free(struct input_file *f) {
    free(f->data);
    *f = (struct input_file){0};
}

bool input_file_slice(const struct input_file *f, uint64_t first, uint64_t elems, void *dst) {
    uint64_t bytes = dtype_bytes(f->dtype), at = f->elems ? first % f->elems : 0;
    bool again = first > f->elems || elems > f->elems - first;
    char *to = dst;
    while (elems > 0 && f->elems > 0) {
        uint64_t n = elems < f->elems - at ? elems : f->elems - at;
        memcpy(to, (const char *)f->data + at * bytes, n * bytes);
        to += n * bytes;
        elems -= n;
        at = 0;
    }
    return again;
}
