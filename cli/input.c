/* Values to run on, made up: a table of kinds. Element i of a seed is a function of both alone, in
 * integer arithmetic and exact conversions, so it is the same on any machine and in any order.
 */
#include "cli/cli.h"
#include "kernels/reduce.h"

#include <math.h>
#include <string.h>

/* One 64-bit hash of a counter (splitmix64's finish). */
static uint64_t hash(uint64_t seed, uint64_t i) {
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xd1342543de82ef95) + 1;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* -1 .. 1 */
static double uniform(uint64_t seed, uint64_t i) {
    return (double)(int64_t)(hash(seed, i) >> 11) * 0x1p-52 - 1;
}

/* Eight 16-bit uniforms added: near enough to a normal distribution, and exact. */
static double normal(uint64_t seed, uint64_t i) {
    uint64_t a = hash(seed, 2 * i), b = hash(seed, 2 * i + 1);
    int64_t sum = 0;
    for (int k = 0; k < 64; k += 16) {
        sum += (int64_t)(a >> k & 0xffff) + (int64_t)(b >> k & 0xffff);
    }
    return (double)(sum - 8 * 0x8000) * 0x1.3988e1409212ep-16; /* sqrt(12 / 8) */
}

/* Small integers: sums of up to 128 of them are exact in every type and order. */
static double exact(uint64_t seed, uint64_t i) { return (double)(int64_t)(hash(seed, i) % 5) - 2; }

static double zeros(uint64_t seed, uint64_t i) {
    (void)seed, (void)i;
    return 0;
}

/* Scales that change every 1,024 elements, as those of layers do, and an eighth of them all zero. */
static double gradient(uint64_t seed, uint64_t i) {
    uint64_t group = hash(seed ^ 0x5eed, i / 1024);
    return group % 8 == 0 ? 0 : ldexp(normal(seed, i), -8 - (int)(group >> 8 & 15));
}

/* Three of four are zero. */
static double sparse(uint64_t seed, uint64_t i) {
    return hash(seed ^ 0xface, i) % 4 ? 0 : normal(seed, i);
}

/* A NaN or an infinity here and there. */
static double nan_value(uint64_t seed, uint64_t i) {
    uint64_t dice = hash(seed ^ 0xbad, i) % 64;
    if (dice == 0) {
        return (double)NAN;
    }
    return dice < 3 ? (dice == 1 ? (double)INFINITY : -(double)INFINITY) : normal(seed, i);
}

/* NULL: every bit pattern alike. */
static const struct kind {
    const char *name, *help;
    double (*value)(uint64_t seed, uint64_t i);
} kinds[] = {
    {"normal", "a normal distribution", normal},
    {"uniform", "from -1 to 1", uniform},
    {"exact", "integers from -2 to 2, whose sums are exact in any order", exact},
    {"gradient", "normal, with scales that differ by place and parts that are zero", gradient},
    {"sparse", "normal, three of four are zero", sparse},
    {"zeros", "zero", zeros},
    {"nan", "normal, with a NaN or an infinity here and there", nan_value},
    {"bits", "random bits: denormals, infinities and NaNs with payloads among them", NULL},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

/* Integers get the value in fiftieths, so that a distribution around 1 is more than two numbers;
 * `exact` stays small enough for sums in a byte. */
static int64_t to_integer(double value) {
    return isfinite(value) ? (int64_t)(value == floor(value) ? value : value * 50) : 0;
}

static void store_value(enum dtype t, double value, void *at) {
    float single = (float)value;
    uint16_t half = t == DTYPE_F16 ? half_from_float(single) : bfloat_from_float(single);
    int64_t integer = to_integer(value);
    switch (t) {
    case DTYPE_F32:
        memcpy(at, &single, sizeof single);
        return;
    case DTYPE_F64:
        memcpy(at, &value, sizeof value);
        return;
    case DTYPE_F16:
    case DTYPE_BF16:
        memcpy(at, &half, sizeof half);
        return;
    case DTYPE_I32:
    case DTYPE_I64:
    case DTYPE_U8:
        memcpy(at, &integer, dtype_bytes(t)); /* its low bytes */
        return;
    case DTYPE_COUNT:
        return;
    }
}

bool generate_values(const struct options *o, enum dtype t, const char *kind, uint64_t seed, void *out,
                     uint64_t elems) {
    const char *names[KIND_COUNT + 1] = {0};
    const struct kind *k = NULL;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        names[i] = kinds[i].name;
        if (strcmp(kinds[i].name, kind) == 0) {
            k = &kinds[i];
        }
    }
    if (!k) {
        const char *near = nearest_name(kind, names);
        usage_error(o, "unknown kind of values '%s'%s%s%s", kind, near ? "; did you mean '" : "",
                    near ? near : "", near ? "'?" : "");
        return false;
    }
    uint32_t elem_bytes = dtype_bytes(t);
    for (uint64_t i = 0; i < elems; i++) {
        char *at = (char *)out + i * elem_bytes;
        uint64_t bits = hash(seed, i);
        if (k->value) {
            store_value(t, k->value(seed, i), at);
        } else {
            memcpy(at, &bits, elem_bytes);
        }
    }
    return true;
}

void generate_help(FILE *out) {
    fprintf(out, "\nvalues of --generate:\n");
    for (size_t i = 0; i < KIND_COUNT; i++) {
        fprintf(out, "  %-26s  %s\n", kinds[i].name, kinds[i].help);
    }
}
