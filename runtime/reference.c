/*
 * reference.c: compares what the ranks ended with, chunk by chunk, with what the proof says.
 *
 * Chunks of one size class are looked at together, block by block, so that a value that many
 * ranks hold is evaluated once, and the parts of values that differ are shared.
 */
#include "runtime/reference.h"
#include "runtime/refmath.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct final {
    loc_id loc;
    uint32_t value, size;
    const char *got;
};

struct check {
    const struct compilation *c;
    struct ref_layout layout;
    struct ref_values values;
    struct final *finals;
    size_t count;
    uint32_t *roots;
    const void *const *send, *const *got;
    void (*progress)(void *ctx, uint64_t done, uint64_t of);
    void *progress_ctx;
    uint64_t done, all; /* elements */
    struct reference_report *report;
};

/* ---- what is compared ---- */

static int by_size_and_value(const void *a, const void *b) {
    const struct final *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->loc > y->loc) - (x->loc < y->loc);
}

/* The output and inout chunks that hold a value. False: no memory. */
static bool find_finals(struct check *k) {
    const struct flow *f = k->c->flow;
    uint32_t highest = 0;
    k->finals = calloc((size_t)f->locs + 1, sizeof *k->finals);
    k->roots = calloc((size_t)f->locs + 1, sizeof *k->roots);
    if (!k->finals || !k->roots)
        return false;
    for (loc_id loc = 0; loc < f->locs; loc++) {
        int32_t rank, chunk;
        enum buffer_role role = flow_buffer_of(f, loc, &rank, &chunk)->role;
        uint32_t value = k->c->trace.final[loc];
        if (value == NONE || (role != ROLE_OUTPUT && role != ROLE_INOUT))
            continue;
        uint64_t elems = flow_input_elems(f, loc);
        if (elems == 0)
            continue;
        k->finals[k->count++] =
            (struct final){.loc = loc,
                           .value = value,
                           .size = value_get(k->c->values, value)->size,
                           .got = ref_chunk(&k->layout, k->layout.recv, k->got, loc)};
        k->all += elems;
        highest = value > highest ? value : highest;
    }
    qsort(k->finals, k->count, sizeof *k->finals, by_size_and_value);
    return ref_values_init(&k->values, k->c, (size_t)highest + 1);
}

/* ---- comparing ---- */

static void wrong(struct check *k, const struct final *at, struct mismatch m) {
    struct reference_report *r = k->report;
    const struct flow *f = k->c->flow;
    r->wrong++;
    if (r->kept == REFERENCE_KEPT)
        return;
    const struct flow_buffer *b = flow_buffer_of(f, at->loc, &m.rank, &m.chunk);
    m.buffer = (int32_t)(b - f->buffers.data);
    r->first[r->kept++] = m;
}

static void compare_exact(struct check *k, const struct final *at, uint64_t first, uint64_t n) {
    enum dtype t = k->c->flow->setup.dtype;
    const union ref_cell *want = ref_values_cells(&k->values, at->value);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t got = ref_read(t, at->got, first + i);
        if (got != want[i].bits)
            wrong(k, at, (struct mismatch){.element = first + i, .got = got, .want = want[i].bits});
    }
    k->report->exact += n;
}

/* `other` is the first chunk with the same value. */
static void compare_bounded(struct check *k, const struct final *at, const struct final *other,
                            uint64_t first, uint64_t n) {
    struct reference_report *r = k->report;
    enum dtype t = k->c->flow->setup.dtype;
    const union ref_cell *want = ref_values_cells(&k->values, at->value);
    int32_t other_rank, other_chunk;
    flow_buffer_of(k->c->flow, other->loc, &other_rank, &other_chunk);
    for (uint64_t i = 0; i < n; i++) {
        struct approx a = want[i].approx;
        struct mismatch m = {.element = first + i, .got = ref_read(t, at->got, first + i)};
        m.exact = a.exact;
        m.bound = a.bound;
        uint64_t there = ref_read(t, other->got, first + i);
        double error = fabs(ref_double(t, m.got) - a.exact);
        if (there != m.got) {
            m.replica = true;
            m.other = other_rank;
            m.want = there;
            wrong(k, at, m);
        } else if (!isfinite(a.bound)) {
            r->unbounded++;
        } else if (!(error <= a.bound)) { /* a NaN is not within it */
            m.bounded = true;
            wrong(k, at, m);
        } else {
            r->bounded++;
            r->worst_error = fmax(r->worst_error, error);
            if (a.bound > 0)
                r->worst_fraction = fmax(r->worst_fraction, error / a.bound);
        }
    }
}

/* finals[first .. end) are of one size class. */
static bool check_class(struct check *k, size_t first, size_t end) {
    uint64_t elems = flow_input_elems(k->c->flow, k->finals[first].loc);
    size_t n = 0;
    for (size_t i = first; i < end; i++)
        if (i == first || k->finals[i].value != k->finals[i - 1].value)
            k->roots[n++] = k->finals[i].value;
    if (!ref_values_choose(&k->values, &k->layout, k->send, k->roots, n, elems))
        return false;
    for (uint64_t at = 0; at < elems; at += k->values.block) {
        uint64_t block = elems - at < k->values.block ? elems - at : k->values.block;
        ref_values_evaluate(&k->values, at, block);
        const struct final *other = NULL;
        for (const struct final *f = &k->finals[first]; f < &k->finals[end]; f++) {
            if (!other || other->value != f->value)
                other = f;
            if (value_get(k->c->values, f->value)->lossy > 0)
                compare_bounded(k, f, other, at, block);
            else
                compare_exact(k, f, at, block);
            k->report->checked += block;
            k->done += block;
        }
        if (k->progress)
            k->progress(k->progress_ctx, k->done, k->all);
    }
    return true;
}

static bool check_all(struct check *k, char *err, size_t err_bytes) {
    if (!ref_layout_init(&k->layout, k->c->flow) || !find_finals(k)) {
        snprintf(err, err_bytes, "no memory for the reference");
        return false;
    }
    for (size_t first = 0, end; first < k->count; first = end) {
        end = first + 1;
        while (end < k->count && k->finals[end].size == k->finals[first].size)
            end++;
        if (!check_class(k, first, end)) {
            snprintf(err, err_bytes, "no memory for the reference");
            return false;
        }
    }
    return true;
}

bool reference_check(const struct compilation *c, const void *const *send, const void *const *got,
                     void (*progress)(void *ctx, uint64_t done, uint64_t of), void *progress_ctx,
                     struct reference_report *out, char *err, size_t err_bytes) {
    *out = (struct reference_report){0};
    if (!c->flow || !c->values || !c->trace.final) {
        snprintf(err, err_bytes, "there is no proof of what the result must be");
        return false;
    }
    struct check k = {.c = c, .send = send, .got = got, .report = out};
    k.progress = progress;
    k.progress_ctx = progress_ctx;
    bool ok = check_all(&k, err, err_bytes);
    ref_layout_free(&k.layout);
    ref_values_free(&k.values);
    free(k.finals);
    free(k.roots);
    return ok;
}

char *mismatch_text(const struct compilation *c, const struct mismatch *m, char *buf,
                    size_t buf_bytes) {
    enum dtype t = c->flow->setup.dtype;
    int digits = (int)(2 * dtype_bytes(t));
    int used =
        snprintf(buf, buf_bytes, "rank %d, %s[%d], element %" PRIu64 ": got 0x%0*" PRIx64 " (%.9g)",
                 m->rank, c->flow->buffers.data[m->buffer].name, m->chunk, m->element, digits,
                 m->got, ref_double(t, m->got));
    if (used < 0 || (size_t)used >= buf_bytes)
        return buf;
    buf_bytes -= (size_t)used;
    if (m->replica)
        snprintf(buf + used, buf_bytes, ", but rank %d holds 0x%0*" PRIx64 " (%.9g)", m->other,
                 digits, m->want, ref_double(t, m->want));
    else if (m->bounded)
        snprintf(buf + used, buf_bytes, ", want %.9g within %.3g", m->exact, m->bound);
    else
        snprintf(buf + used, buf_bytes, ", want 0x%0*" PRIx64 " (%.9g)", digits, m->want,
                 ref_double(t, m->want));
    return buf;
}
