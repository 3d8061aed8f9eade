/*
 * refvalue.c: evaluates proved values, each once a block, operands first.
 *
 * Ids of the value table grow from operands to what is made of them, so the order of ids is an
 * order of evaluation. A block is as long as a budget of memory allows, and a multiple of what
 * every codec in it takes as one block, so that the largest magnitude of each codec block is
 * seen whole.
 */
#include "runtime/refmath.h"

#include <stdlib.h>
#include <string.h>

#define CELLS_BYTES (UINT64_C(32) << 20)
#define BLOCK_MAX   4096

/* ---- layout ---- */

bool ref_layout_init(struct ref_layout *l, const struct flow *f) {
    size_t ranks = (size_t)f->setup.ranks, buffers = f->buffers.count;
    *l = (struct ref_layout){.f = f, .widest = 1};
    for (size_t b = 0; b < buffers; b++)
        if ((size_t)f->buffers.data[b].chunks > l->widest)
            l->widest = (size_t)f->buffers.data[b].chunks;
    l->send = calloc(buffers * ranks + 1, sizeof *l->send);
    l->recv = calloc(buffers * ranks + 1, sizeof *l->recv);
    l->chunk = calloc(buffers * l->widest + 1, sizeof *l->chunk);
    uint64_t *ends = calloc(2 * ranks + 1, sizeof *ends);
    bool ok = l->send && l->recv && l->chunk && ends;
    for (size_t b = 0; b < buffers && ok; b++) {
        const struct flow_buffer *buffer = &f->buffers.data[b];
        uint64_t elems = 0;
        if (buffer->role == ROLE_SCRATCH || buffer->members == 0)
            continue;
        for (int32_t c = 0; c < buffer->chunks; c++) {
            l->chunk[b * l->widest + (size_t)c] = elems;
            elems += flow_input_elems(f, buffer->first_loc + (loc_id)c);
        }
        for (int32_t m = 0; m < buffer->members; m++) {
            size_t rank = (size_t)buffer->member[m];
            l->send[b * ranks + rank] = ends[2 * rank];
            l->recv[b * ranks + rank] = ends[2 * rank + 1];
            ends[2 * rank] += buffer->role != ROLE_OUTPUT ? elems : 0;
            ends[2 * rank + 1] += buffer->role != ROLE_INPUT ? elems : 0;
        }
    }
    free(ends);
    return ok;
}

void ref_layout_free(struct ref_layout *l) {
    free(l->send);
    free(l->recv);
    free(l->chunk);
}

const char *ref_chunk(const struct ref_layout *l, const uint64_t *starts, const void *const *memory,
                      loc_id loc) {
    int32_t rank, chunk;
    const struct flow_buffer *buffer = flow_buffer_of(l->f, loc, &rank, &chunk);
    size_t b = (size_t)(buffer - l->f->buffers.data);
    uint64_t first = starts[b * (size_t)l->f->setup.ranks + (size_t)rank] +
                     l->chunk[b * l->widest + (size_t)chunk];
    const char *start = memory[rank];
    return start ? start + first * dtype_bytes(l->f->setup.dtype) : NULL;
}

uint64_t ref_read(enum dtype t, const char *chunk, uint64_t element) {
    uint32_t bytes = dtype_bytes(t), word;
    const char *at = chunk + element * bytes;
    uint64_t bits = 0;
    uint16_t half;
    if (bytes == 2) { /* copies of a constant size are single loads */
        memcpy(&half, at, sizeof half);
        return half;
    }
    if (bytes == 4) {
        memcpy(&word, at, sizeof word);
        return word;
    }
    memcpy(&bits, at, bytes); /* little-endian, as the host */
    return bits;
}

/* ---- choosing ---- */

bool ref_values_init(struct ref_values *v, const struct compilation *c, size_t values) {
    *v = (struct ref_values){.c = c, .values = values};
    v->slot_of = malloc((values + 1) * sizeof *v->slot_of);
    v->ids = malloc((values + 1) * sizeof *v->ids);
    v->input = calloc(values + 1, sizeof *v->input);
    for (size_t i = 0; i < values && v->slot_of; i++)
        v->slot_of[i] = NONE;
    return v->slot_of && v->ids && v->input;
}

static void add(struct ref_values *v, uint32_t id) {
    if (v->slot_of[id] != NONE)
        return;
    v->slot_of[id] = 0;
    v->ids[v->count++] = id;
}

static int by_id(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint64_t common_multiple(uint64_t a, uint64_t b) {
    uint64_t x = a, y = b;
    while (y > 0) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return a / x * b;
}

/* Elements that no codec's block crosses; elems when some codec takes a chunk as a whole. */
static uint64_t codec_unit(const struct ref_values *v, uint64_t elems) {
    const struct flow *f = v->c->flow;
    uint64_t unit = 1;
    for (size_t i = 0; i < v->count; i++) {
        const struct value *x = value_get(v->c->values, v->ids[i]);
        if (x->kind != VALUE_CODED)
            continue;
        uint64_t own = codec_slice_unit(&f->codecs.data[x->codec], f->setup.dtype);
        if (own == 0 || own > elems)
            return elems;
        unit = common_multiple(unit, own);
        if (unit >= elems)
            return elems;
    }
    return unit;
}

static bool allocate(struct ref_values *v, uint64_t elems) {
    uint32_t widest = 1;
    for (size_t i = 0; i < v->count; i++) {
        const struct value *x = value_get(v->c->values, v->ids[i]);
        if (x->kind == VALUE_SUM && x->n > widest)
            widest = x->n;
    }
    uint64_t unit = codec_unit(v, elems);
    uint64_t fit = CELLS_BYTES / sizeof *v->cells / (v->count ? v->count : 1);
    fit = fit > BLOCK_MAX ? BLOCK_MAX : fit;
    v->block = fit < unit ? unit : fit / unit * unit;
    free(v->cells);
    free(v->bits);
    free(v->approx);
    free(v->operand);
    v->cells = calloc(v->count * v->block + 1, sizeof *v->cells);
    v->bits = malloc(widest * sizeof *v->bits);
    v->approx = malloc(widest * sizeof *v->approx);
    v->operand = malloc(widest * sizeof *v->operand);
    return v->cells && v->bits && v->approx && v->operand;
}

bool ref_values_choose(struct ref_values *v, const struct ref_layout *l, const void *const *send,
                       const uint32_t *roots, size_t n, uint64_t elems) {
    for (size_t i = 0; i < v->count; i++)
        v->slot_of[v->ids[i]] = NONE;
    v->count = 0;
    for (size_t i = 0; i < n; i++)
        add(v, roots[i]);
    for (size_t i = 0; i < v->count; i++) {
        const struct value *x = value_get(v->c->values, v->ids[i]);
        if (x->kind == VALUE_CODED)
            add(v, x->a);
        for (uint32_t j = 0; x->kind == VALUE_SUM && j < x->n; j++)
            add(v, value_operands(v->c->values, v->ids[i])[j]);
    }
    qsort(v->ids, v->count, sizeof *v->ids, by_id);
    for (size_t i = 0; i < v->count; i++) {
        const struct value *x = value_get(v->c->values, v->ids[i]);
        v->slot_of[v->ids[i]] = (uint32_t)i;
        v->input[i] = x->kind == VALUE_INPUT ? ref_chunk(l, l->send, send, x->a) : NULL;
    }
    return allocate(v, elems);
}

/* ---- evaluating ---- */

const union ref_cell *ref_values_cells(const struct ref_values *v, uint32_t id) {
    return v->cells + v->slot_of[id] * v->block;
}

static struct approx approx_of(const struct ref_values *v, uint32_t id, uint64_t i) {
    const union ref_cell *cell = ref_values_cells(v, id) + i;
    if (value_get(v->c->values, id)->lossy > 0)
        return cell->approx;
    return ref_exact(v->c->flow->setup.dtype, cell->bits);
}

static void evaluate_sum(struct ref_values *v, uint32_t id, union ref_cell *out, uint64_t n) {
    const struct setup *s = &v->c->flow->setup;
    const struct value *x = value_get(v->c->values, id);
    const uint32_t *operand = value_operands(v->c->values, id);
    uint32_t operands = x->n, divisor = x->divided ? x->leaves : 0;
    if (x->lossy > 0) {
        for (uint64_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < operands; j++)
                v->approx[j] = approx_of(v, operand[j], i);
            out[i].approx = ref_sum_approx(s->dtype, s->redop, v->approx, operands, divisor);
        }
        return;
    }
    for (uint32_t j = 0; j < operands; j++)
        v->operand[j] = ref_values_cells(v, operand[j]);
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < operands; j++)
            v->bits[j] = v->operand[j][i].bits;
        out[i].bits = ref_sum(s->dtype, s->redop, v->bits, operands, divisor);
    }
}

void ref_values_evaluate(struct ref_values *v, uint64_t first, uint64_t n) {
    const struct flow *f = v->c->flow;
    for (size_t slot = 0; slot < v->count; slot++) {
        union ref_cell *out = v->cells + slot * v->block;
        uint32_t id = v->ids[slot];
        const struct value *x = value_get(v->c->values, id);
        switch (x->kind) {
        case VALUE_INPUT:
            for (uint64_t i = 0; i < n; i++)
                out[i].bits = ref_read(f->setup.dtype, v->input[slot], first + i);
            break;
        case VALUE_SUM:
            evaluate_sum(v, id, out, n);
            break;
        case VALUE_CODED:
            for (uint64_t i = 0; i < n; i++)
                out[i].approx = approx_of(v, x->a, i);
            ref_coded_approx(f->setup.dtype, &f->codecs.data[x->codec], out, n);
            break;
        }
    }
}

void ref_values_free(struct ref_values *v) {
    free(v->slot_of);
    free(v->ids);
    free(v->input);
    free(v->cells);
    free(v->bits);
    free(v->approx);
    free(v->operand);
}
