/*
 * refbound.c: how far a computed value may be from the exact one: forward error analysis, value
 * by value.
 *
 * With u = 2^-24, one f32 operation on values whose result is at most m in size errs by at most u
 * m, so a sum of n errs by at most (n - 1) u M, M the sum of the largest sizes. Rounding to a
 * type of p bits adds 2^-p of the result's size, or half the smallest denormal. What the
 * operands were off by passes through sums unchanged, and through min and max at most as the
 * worst of them. The analysis itself is in double; its own errors are covered by a little slack.
 */
#include "runtime/refmath.h"

#include <float.h>
#include <math.h>

#define SLACK (1 + 1e-9)

static const struct approx unknown = {0, INFINITY};

static bool is_known(struct approx v) {
    return isfinite(v.exact) && isfinite(v.bound);
}
static double size_of(struct approx v) {
    return (fabs(v.exact) + v.bound) * SLACK;
}

struct approx ref_exact(enum dtype t, uint64_t bits) {
    struct approx v = {ref_double(t, bits), 0};
    return isfinite(v.exact) ? v : unknown;
}

/* Error of rounding something of at most this size to t; infinite when it may leave the range. */
static double rounding(enum dtype t, double size) {
    if (t == DTYPE_F16)
        return size >= 65504 ? INFINITY : fmax(ldexp(size, -11), ldexp(1, -25));
    if (t == DTYPE_BF16)
        return size >= 3.38e38 ? INFINITY : fmax(ldexp(size, -8), ldexp(1, -134));
    return 0; /* the accumulator's own type */
}

struct approx ref_sum_approx(enum dtype t, enum redop op, const struct approx *v, uint32_t n,
                             uint32_t divisor) {
    double exact = 0, bound = 0, size = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!is_known(v[i]))
            return unknown;
    if (op == REDOP_MIN || op == REDOP_MAX) {
        exact = v[0].exact;
        for (uint32_t i = 0; i < n; i++) {
            exact = op == REDOP_MIN ? fmin(exact, v[i].exact) : fmax(exact, v[i].exact);
            bound = fmax(bound, v[i].bound);
        }
        return (struct approx){exact, bound};
    }
    for (uint32_t i = 0; i < n; i++) {
        exact += v[i].exact;
        bound += v[i].bound;
        size += size_of(v[i]);
    }
    if (size >= (double)FLT_MAX)
        return unknown;
    bound += (double)(n - 1) * ldexp(size, -24) * SLACK + (double)n * ldexp(size, -53);
    if (divisor > 0) {
        exact /= divisor;
        bound /= divisor;
        bound += ldexp(fabs(exact) + bound, -24) + ldexp(1, -150);
    }
    bound += rounding(t, (fabs(exact) + bound) * SLACK);
    return (struct approx){exact, bound * SLACK};
}

void ref_coded_approx(enum dtype t, const struct codec *c, union ref_cell *v, uint64_t n) {
    uint64_t unit = codec_slice_unit(c, t);
    if (unit == 0)
        unit = n;
    for (uint64_t first = 0; first < n; first += unit) {
        uint64_t end = n - first < unit ? n : first + unit;
        double largest = 0;
        for (uint64_t i = first; i < end; i++)
            largest = fmax(largest, is_known(v[i].approx) ? size_of(v[i].approx) : INFINITY);
        for (uint64_t i = first; i < end; i++) {
            struct approx *a = &v[i].approx;
            double size = is_known(*a) ? size_of(*a) : INFINITY;
            a->bound += codec_error_bound(c, t, size, largest);
            if (!is_known(*a))
                *a = unknown;
        }
    }
}
