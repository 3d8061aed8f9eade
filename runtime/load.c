/*
 * load.c: lays a task list out for running, and checks it on the way.
 *
 * The plan was proved before; what is checked here is that nothing the executor is about to do
 * reaches outside its memory, so that a fault of a pass ends in an error and not in a crash. The
 * checks stop at the first fault.
 */
#include "runtime/engine.h"

#include <stdarg.h>
#include <stdlib.h>

struct loader {
    struct loaded *l;
    const struct tasks *t;
    const struct flow *f;
    int32_t rank;  /* of the task looked at */
    uint32_t task; /* itself */
    char *err;
    size_t err_bytes;
};

static bool fault(struct loader *ld, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fault(struct loader *ld, const char *format, ...) {
    int n = snprintf(ld->err, ld->err_bytes, "rank %d, task %u: ", ld->rank, (unsigned)ld->task);
    va_list args;
    va_start(args, format);
    if (n >= 0 && (size_t)n < ld->err_bytes)
        vsnprintf(ld->err + n, ld->err_bytes - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* ---- checks ---- */

static bool check_span(struct loader *ld, uint64_t offset, uint64_t bytes, const char *what,
                       unsigned index) {
    uint64_t arena = ld->t->ranks.data[ld->rank].arena_bytes;
    if (offset <= arena && bytes <= arena - offset)
        return true;
    return fault(ld, "%s %u ends outside the arena", what, index);
}

static bool check_piece(struct loader *ld, uint32_t index, uint64_t elems) {
    const struct tasks *t = ld->t;
    if (index >= t->pieces.count)
        return fault(ld, "there is no piece %u", (unsigned)index);
    const struct piece *p = &t->pieces.data[index];
    if (p->rank != ld->rank || p->codec >= ld->f->codecs.count || p->slice >= t->slices)
        return fault(ld, "piece %u is not of this rank, or of no codec or slice", (unsigned)index);
    if (elems != p->elems && elems != UINT64_MAX)
        return fault(ld, "piece %u is not of the task's size", (unsigned)index);
    const struct codec *c = &ld->f->codecs.data[p->codec];
    uint64_t least = codec_least_bytes(c, ld->f->setup.dtype, p->elems);
    if (least == CODEC_SIZE_ERROR || p->bytes < least)
        return fault(ld, "the slot of piece %u is too small", (unsigned)index);
    return check_span(ld, p->offset, p->bytes, "piece", index);
}

static bool check_chunk(struct loader *ld, loc_id loc, uint32_t slice, uint64_t elems) {
    if (loc >= ld->f->locs)
        return fault(ld, "there is no chunk %u", (unsigned)loc);
    const struct place *p = &ld->l->places[loc];
    if (p->rank != ld->rank || p->kind == PLACE_NOWHERE)
        return fault(ld, "chunk %u has no memory on this rank", (unsigned)loc);
    uint64_t first, room = tasks_slice_elems(ld->t, loc, slice, &first);
    uint64_t elem_bytes = dtype_bytes(ld->f->setup.dtype);
    if (elems > room)
        return fault(ld, "chunk %u is too small", (unsigned)loc);
    if (p->kind == PLACE_ARENA)
        return check_span(ld, p->offset_bytes, (first + elems) * elem_bytes, "chunk", loc);
    if ((first + elems) * elem_bytes > p->bytes)
        return fault(ld, "slice %u ends outside chunk %u", (unsigned)slice, (unsigned)loc);
    return true;
}

static bool check_operand(struct loader *ld, struct operand o, uint32_t slice, uint64_t elems) {
    const struct tasks *t = ld->t;
    const struct rank_tasks *r = &t->ranks.data[ld->rank];
    switch (o.kind) {
    case OPERAND_CHUNK:
        return check_chunk(ld, o.index, slice, elems);
    case OPERAND_ACC:
        if (o.index >= r->accs || (size_t)r->first_acc + o.index >= t->acc_offsets.count)
            return fault(ld, "there is no accumulator %u", (unsigned)o.index);
        return check_span(ld, t->acc_offsets.data[r->first_acc + o.index],
                          elems * acc_bytes(ld->f->setup.dtype), "accumulator", o.index);
    case OPERAND_PIECE:
        return check_piece(ld, o.index, elems);
    }
    return fault(ld, "an operand of no kind");
}

static bool check_compute(struct loader *ld, const struct task *k) {
    const struct tasks *t = ld->t;
    struct loaded *l = ld->l;
    uint64_t elems = l->elems[ld->task] = tasks_elems(t, k);
    if (k->operands == 0 || k->operands > MAX_OPERANDS)
        return fault(ld, "it computes from %u operands", (unsigned)k->operands);
    for (uint32_t i = 0; i < k->operands; i++)
        if (!check_operand(ld, t->operands.data[k->first_operand + i], k->slice, elems))
            return false;
    for (uint32_t i = 0; i < k->outs; i++)
        if (!check_piece(ld, t->outs.data[k->first_out + i], elems))
            return false;
    if (k->divide && k->divisor == 0)
        return fault(ld, "it divides by zero contributions");
    if (k->store.index == NONE)
        return true;
    if (k->store.kind == OPERAND_PIECE)
        return fault(ld, "it stores to a piece");
    for (uint32_t i = 1; i < k->operands; i++) {
        struct operand o = t->operands.data[k->first_operand + i];
        if (o.kind == OPERAND_ACC && k->store.kind == o.kind && k->store.index == o.index)
            return fault(ld, "it adds to an accumulator that is not its first operand");
    }
    if (!check_operand(ld, k->store, k->slice, elems))
        return false;
    if (k->store.kind == OPERAND_CHUNK) {
        struct place *p = &l->places[k->store.index];
        if (p->kind == PLACE_SEND)
            return fault(ld, "it stores to an input");
        p->stored = true;
    }
    return true;
}

/* A send, with the receive that belongs to it. */
static bool check_message(struct loader *ld, const struct task *k) {
    const struct tasks *t = ld->t;
    if (k->message >= t->messages.count)
        return fault(ld, "there is no message %u", (unsigned)k->message);
    const struct message *m = &t->messages.data[k->message];
    bool sends = k->kind == TASK_SEND;
    if ((sends ? m->send : m->recv) != ld->task || (sends ? m->src : m->dst) != ld->rank)
        return fault(ld, "message %u is not its own", (unsigned)k->message);
    uint32_t pieces = sends ? k->operands : k->outs;
    for (uint32_t i = 0; i < pieces; i++) {
        struct operand o = {OPERAND_PIECE, sends ? 0 : t->outs.data[k->first_out + i]};
        if (sends)
            o = t->operands.data[k->first_operand + i];
        if (o.kind != OPERAND_PIECE)
            return fault(ld, "it sends what is not encoded");
        if (!check_piece(ld, o.index, UINT64_MAX))
            return false;
    }
    if (!sends)
        return true;
    if (m->recv >= t->tasks.count || t->tasks.data[m->recv].kind != TASK_RECV ||
        t->tasks.data[m->recv].message != k->message || t->tasks.data[m->recv].outs != pieces)
        return fault(ld, "message %u has no receive like it", (unsigned)k->message);
    const struct task *recv = &t->tasks.data[m->recv];
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t there = t->outs.data[recv->first_out + i];
        const struct piece *a = &t->pieces.data[t->operands.data[k->first_operand + i].index];
        if (there >= t->pieces.count || t->pieces.data[there].bytes != a->bytes)
            return fault(ld, "message %u has other sizes where it arrives", (unsigned)k->message);
    }
    return true;
}

/* What a worker needs beside the arena, for the largest task: decoded operands, a value that is
 * only encoded, and the codecs' own. compute.c takes it in the same portions. */
static void count_scratch(struct loader *ld, const struct task *k) {
    const struct tasks *t = ld->t;
    enum dtype type = ld->f->setup.dtype;
    uint64_t elems = ld->l->elems[ld->task], value = scratch_portion(elems * dtype_bytes(type));
    uint64_t bytes = k->outs > 0 ? value : 0, codec = ld->l->codec_bytes;
    for (uint32_t i = 0; i < k->operands + k->outs; i++) {
        uint32_t index = i < k->operands ? t->operands.data[k->first_operand + i].index
                                         : t->outs.data[k->first_out + i - k->operands];
        if (i < k->operands && t->operands.data[k->first_operand + i].kind != OPERAND_PIECE)
            continue;
        const struct piece *p = &t->pieces.data[index];
        if (i < k->operands && !piece_is_raw(t, p))
            bytes += value;
        uint64_t own = codec_scratch_bytes(&ld->f->codecs.data[p->codec], type, elems);
        codec = own > codec ? own : codec;
    }
    ld->l->codec_bytes = codec;
    if (bytes > ld->l->value_bytes)
        ld->l->value_bytes = bytes;
}

/* A fused task encodes for a later stage than its own. */
static void find_stages(struct loader *ld, const struct rank_tasks *r) {
    const struct tasks *t = ld->t;
    for (uint32_t i = r->first + r->n; i-- > r->first;) { /* backwards: the first one stays */
        const struct task *k = &t->tasks.data[i];
        for (uint32_t j = 0; k->kind == TASK_SEND && j < k->operands; j++)
            ld->l->piece_stage[t->operands.data[k->first_operand + j].index] = k->stage;
        for (uint32_t j = 0; k->kind == TASK_COMPUTE && j < k->outs; j++) {
            uint16_t *stage = &ld->l->piece_stage[t->outs.data[k->first_out + j]];
            *stage = *stage == UINT16_MAX ? k->stage : *stage; /* never sent */
        }
    }
}

static bool check_rank(struct loader *ld) {
    const struct tasks *t = ld->t;
    const struct rank_tasks *r = &t->ranks.data[ld->rank];
    if (r->first > t->tasks.count || r->n > t->tasks.count - r->first) {
        ld->task = r->first;
        return fault(ld, "the list of this rank has no such end");
    }
    for (ld->task = r->first; ld->task < r->first + r->n; ld->task++) {
        const struct task *k = &t->tasks.data[ld->task];
        if ((size_t)k->first_operand + k->operands > t->operands.count ||
            (size_t)k->first_out + k->outs > t->outs.count ||
            (size_t)k->first_dep + k->deps > t->deps.count || k->slice >= t->slices ||
            k->stage >= ld->f->stages.count)
            return fault(ld, "operands, outs, deps, slice or stage out of range");
        if (k->kind == TASK_COMPUTE) {
            if (!check_compute(ld, k))
                return false;
            count_scratch(ld, k);
        } else if (!check_message(ld, k))
            return false;
    }
    find_stages(ld, r);
    return true;
}

/* ---- loaded ---- */

static bool piece_can_overflow(const struct tasks *t, const struct piece *p) {
    const struct codec *c = &t->flow->codecs.data[p->codec];
    enum dtype type = t->flow->setup.dtype;
    return codec_is_bounded(c) && codec_has_header(c, type, p->elems) &&
           p->bytes < codec_worst_bytes(c, type, p->elems);
}

bool tasks_can_overflow(const struct tasks *t) {
    for (size_t i = 0; i < t->pieces.count; i++)
        if (piece_can_overflow(t, &t->pieces.data[i]))
            return true;
    return false;
}

static void *zeroed(size_t count, size_t bytes) {
    return calloc(count ? count : 1, bytes);
}

static bool allocate(struct loaded *l) {
    const struct tasks *t = l->t;
    size_t ranks = (size_t)t->flow->setup.ranks, locs = t->flow->locs, tasks = t->tasks.count;
    l->order = zeroed(tasks, sizeof *l->order);
    l->steps = zeroed(tasks, sizeof *l->steps);
    l->first_step = zeroed(ranks + 1, sizeof *l->first_step);
    l->places = zeroed(locs, sizeof *l->places);
    l->elems = zeroed(tasks, sizeof *l->elems);
    l->piece_stage = zeroed(t->pieces.count, sizeof *l->piece_stage);
    l->begin = zeroed(locs, sizeof *l->begin);
    l->commit = zeroed(locs, sizeof *l->commit);
    l->first_begin = zeroed(ranks + 1, sizeof *l->first_begin);
    l->first_commit = zeroed(ranks + 1, sizeof *l->first_commit);
    l->send_bytes = zeroed(ranks, sizeof *l->send_bytes);
    l->recv_bytes = zeroed(ranks, sizeof *l->recv_bytes);
    return l->order && l->steps && l->piece_stage && l->first_step && l->places && l->elems &&
           l->begin && l->commit && l->first_begin && l->first_commit && l->send_bytes &&
           l->recv_bytes;
}

enum run_status loaded_init(struct loaded *l, const struct tasks *t, char *err, size_t err_bytes) {
    *l = (struct loaded){.t = t};
    struct loader ld = {.l = l, .t = t, .f = t->flow, .err = err, .err_bytes = err_bytes};
    if (t->slices == 0 || t->ranks.count != (size_t)t->flow->setup.ranks ||
        t->chunk_offsets.count != t->flow->locs) {
        snprintf(err, err_bytes, "the tasks have no memory plan");
        return RUN_INTERNAL;
    }
    if (!allocate(l) || !loaded_places(l))
        return RUN_NO_MEMORY;
    for (size_t i = 0; i < t->pieces.count; i++)
        l->piece_stage[i] = UINT16_MAX;
    for (ld.rank = 0; ld.rank < t->flow->setup.ranks; ld.rank++)
        if (!check_rank(&ld))
            return RUN_INTERNAL;
    loaded_copies(l);
    l->needs = piece_numbers(t);
    l->can_overflow = tasks_can_overflow(t);
    return loaded_steps(l, err, err_bytes);
}

void loaded_free(struct loaded *l) {
    free(l->order);
    free(l->steps);
    free(l->first_step);
    free(l->places);
    free(l->elems);
    free(l->piece_stage);
    free(l->begin);
    free(l->commit);
    free(l->first_begin);
    free(l->first_commit);
    free(l->send_bytes);
    free(l->recv_bytes);
}
