/* Sizes and other questions about tasks; IR.md has the picture.
 *
 * A chunk of E elements cut into K slices is split as a buffer is split into chunks: in units of
 * slice_unit elements, U of them, U / K to each slice and one more to each of the last U % K; the
 * last unit may be partial. All chunks share one unit, so chunks of equal size have equal slices.
 *
 * A scratch chunk may hold chunks of different sizes one after another. Its slices are separate
 * rooms, each as large as the largest slice that is ever stored there, so that slice 0 of one
 * content never overlaps slice 1 of another.
 */
#include "compiler/ir.h"

#include <string.h>

/* Real programs have a few: a buffer's chunks come in at most three sizes. */
enum { MAX_SIZES = 1024 };

uint64_t tasks_slice_start(uint64_t elems, uint32_t slice_unit, uint32_t slices, uint32_t slice) {
    uint64_t unit = slice_unit ? slice_unit : 1;
    uint64_t units = elems / unit + (elems % unit != 0);
    uint64_t small = units / slices;
    uint64_t first_large = slices - units % slices; /* slices before it have `small` units */
    uint64_t start = slice * small + (slice > first_large ? slice - first_large : 0);
    return slice == slices ? elems : start * unit;
}

void tasks_cut_sizes(struct tasks *t) {
    uint32_t slices = t->slices;
    VEC_CLEAR(&t->slice_first);
    (void)VEC_ADD_N(&t->slice_first, t->sizes.count * (slices + 1));
    for (size_t i = 0; i < t->sizes.count; i++) {
        const struct chunk_size *size = &t->sizes.data[i];
        uint64_t *first = t->slice_first.data + i * (slices + 1);
        for (uint32_t s = 0; s < slices; s++) {
            uint64_t room = 0;
            for (uint32_t k = 0; k < size->elems; k++) {
                uint64_t elems = t->size_elems.data[size->first_elems + k];
                uint64_t n = tasks_slice_start(elems, t->slice_unit, slices, s + 1) -
                             tasks_slice_start(elems, t->slice_unit, slices, s);
                room = n > room ? n : room;
            }
            first[s + 1] = first[s] + room;
        }
    }
}

static bool size_equals(const struct tasks *t, const struct chunk_size *size, const uint64_t *elems,
                        uint32_t n) {
    return size->elems == n &&
           !memcmp(t->size_elems.data + size->first_elems, elems, n * sizeof *elems);
}

static bool holds(const struct tasks *t, uint32_t size, uint64_t elems) {
    const struct chunk_size *s = &t->sizes.data[size];
    return s->elems == 1 && t->size_elems.data[s->first_elems] == elems;
}

bool tasks_size_with(struct tasks *t, uint32_t *size, uint64_t elems) {
    uint64_t set[MAX_SIZES + 1];
    uint32_t n = 0, at = 0;
    if (*size != NONE) {
        const struct chunk_size *old = &t->sizes.data[*size];
        const uint64_t *have = t->size_elems.data + old->first_elems;
        for (; n < old->elems; n++) {
            if (have[n] == elems)
                return true;
            set[n] = have[n];
            at += have[n] < elems;
        }
    }
    if (n == MAX_SIZES)
        return false;
    memmove(set + at + 1, set + at, (n - at) * sizeof *set);
    set[at] = elems;
    n++;
    for (size_t i = 0; i < t->sizes.count; i++) {
        if (size_equals(t, &t->sizes.data[i], set, n)) {
            *size = (uint32_t)i;
            return true;
        }
    }
    if (t->sizes.count == MAX_SIZES)
        return false;
    VEC_PUSH(&t->sizes, (struct chunk_size){(uint32_t)t->size_elems.count, n});
    memcpy(VEC_ADD_N(&t->size_elems, n), set, n * sizeof *set);
    *size = (uint32_t)t->sizes.count - 1;
    return true;
}

bool tasks_size_inputs(struct tasks *t) {
    const struct flow *f = t->flow;
    VEC_CLEAR(&t->loc_size);
    uint32_t *loc_size = VEC_ADD_N(&t->loc_size, f->locs);
    for (uint32_t i = 0; i < f->locs; i++)
        loc_size[i] = NONE;
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        if (b->role == ROLE_SCRATCH || !b->members)
            continue;
        uint32_t chunks = (uint32_t)b->chunks;
        uint32_t *size = loc_size + b->first_loc;
        for (uint32_t c = 0; c < chunks; c++) { /* the same on every rank */
            uint64_t elems = flow_input_elems(f, b->first_loc + c);
            if (c && holds(t, size[c - 1], elems))
                size[c] = size[c - 1];
            else if (!tasks_size_with(t, &size[c], elems))
                return false;
        }
        for (uint32_t m = 1; m < (uint32_t)b->members; m++)
            memcpy(size + m * (size_t)chunks, size, chunks * sizeof *size);
    }
    return true;
}

uint64_t tasks_slice_elems(const struct tasks *t, loc_id loc, uint32_t slice, uint64_t *first) {
    uint32_t size = t->loc_size.data[loc];
    if (first)
        *first = 0;
    if (size == NONE)
        return 0;
    const uint64_t *starts = t->slice_first.data + size * ((size_t)t->slices + 1);
    if (first)
        *first = starts[slice];
    return starts[slice + 1] - starts[slice];
}

static void least_elems(const struct tasks *t, loc_id loc, uint32_t slice, uint64_t *exact,
                        uint64_t *room) {
    uint32_t size = t->loc_size.data[loc];
    uint64_t elems = tasks_slice_elems(t, loc, slice, NULL);
    if (size != NONE && t->sizes.data[size].elems == 1)
        *exact = elems;
    *room = elems < *room ? elems : *room;
}

uint64_t tasks_elems(const struct tasks *t, const struct task *k) {
    uint64_t exact = UINT64_MAX, room = UINT64_MAX;
    if (k->outs)
        return t->pieces.data[t->outs.data[k->first_out]].elems;
    const struct operand *operand = t->operands.data + k->first_operand;
    for (uint32_t i = 0; i < k->operands; i++) {
        if (operand[i].kind == OPERAND_PIECE)
            return t->pieces.data[operand[i].index].elems;
        if (operand[i].kind == OPERAND_CHUNK)
            least_elems(t, operand[i].index, k->slice, &exact, &room);
    }
    if (k->store.kind == OPERAND_CHUNK && k->store.index != NONE)
        least_elems(t, k->store.index, k->slice, &exact, &room);
    if (exact != UINT64_MAX)
        return exact;
    return room == UINT64_MAX ? 0 : room;
}

void tasks_mark_finals(const struct tasks *t, uint8_t *final) {
    const struct flow *f = t->flow;
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        size_t chunks = (size_t)b->chunks * (size_t)b->members;
        for (size_t c = 0; c < chunks; c++)
            final[b->first_loc + c] = b->role != ROLE_SCRATCH;
    }
    for (size_t i = 0; i < f->ensures.count; i++) {
        const struct flow_ensure *e = &f->ensures.data[i];
        if (e->kind == ENSURE_VALUE)
            final[e->loc] = 1;
        for (uint32_t k = 0; e->kind == ENSURE_IDENTICAL && k < e->terms; k++)
            final[f->terms.data[e->first_term + k]] = 1;
    }
}

void tasks_report(struct diag *d, const struct tasks *t, uint32_t task, enum severity sev,
                  const char *format, ...) {
    const struct flow *f = t->flow;
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const struct task *k = task == NONE ? NULL : &t->tasks.data[task];
    const struct flow_op *op = k && !k->at && k->op < f->ops.count ? &f->ops.data[k->op] : NULL;
    src_pos at = op ? op->at : k ? k->at : 0;
    if (op && sev != SEV_NOTE)
        flow_report(d, f, op, sev, "%s", text);
    else
        diag_report(d, sev, at ? flow_statement_span(f, at) : (struct span){0, 0}, "%s", text);
}

bool tasks_check_unsliced(const struct tasks *t, struct diag *d, const char *pass) {
    const char *done = NULL;
    if (t->slices > 1 || t->slice_unit)
        done = "sliced";
    else if (t->comms || t->rounds[0] || t->rounds[1])
        done = "in rounds";
    else if (t->lanes)
        done = "in lanes";
    else if (t->chunk_offsets.count)
        done = "placed in memory";
    if (done)
        diag_report(d, SEV_ERROR, (struct span){0, 0}, "%s: these tasks are %s already", pass,
                    done);
    return !done;
}

void tasks_free(struct tasks *t) {
    if (!t)
        return;
    VEC_FREE(&t->ranks);
    VEC_FREE(&t->tasks);
    VEC_FREE(&t->operands);
    VEC_FREE(&t->outs);
    VEC_FREE(&t->deps);
    VEC_FREE(&t->pieces);
    VEC_FREE(&t->messages);
    VEC_FREE(&t->acc_offsets);
    VEC_FREE(&t->chunk_offsets);
    VEC_FREE(&t->loc_size);
    VEC_FREE(&t->sizes);
    VEC_FREE(&t->size_elems);
    VEC_FREE(&t->slice_first);
}
