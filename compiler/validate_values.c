/* Validate, part four: what the tasks compute. They are carried out on symbols, message by message,
 * in an order that fits all waits; since there is no race (part three), every other such order
 * gives the same.
 *
 * A chunk slice or a piece then holds a value (values.c); an accumulator holds a sum that is not
 * rounded yet, as a list of operands, which grows at its end. At the end all slices of a chunk must
 * hold the same value, and those values must be what the collective and the ensures ask for; and
 * what the flow had, where there is one.
 */
#include "compiler/validate.h"

/* Operands of an open sum: those of `before`, then n of the pool. */
struct partial {
    uint32_t before, first, n, total;
};

struct held {
    uint32_t value; /* NONE: nothing */
    uint16_t slice;
    uint64_t elems;
};

struct coded {
    uint32_t value; /* NONE: not seen */
    uint16_t codec;
};

struct replay {
    struct model *m;
    const struct tasks *t;
    struct values *v;
    VEC(struct held) chunks;      /* [locs * slices] */
    VEC(uint32_t) pieces;         /* [pieces] value after decoding */
    VEC(uint32_t) in_transit;     /* [operands] of sends: the value that left */
    VEC(struct partial) partials; /* [0] unused */
    VEC(uint32_t) pool;
    VEC(struct held) accs; /* value: into partials; 0: nothing */
    VEC(struct coded) encodings;
    VEC(uint32_t) operands; /* of the compute at hand */
    VEC(uint32_t) rounded;  /* [tasks] what each compute rounds; only under avg */
    bool ok;
};

static void fail(struct replay *p, uint32_t task, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fail(struct replay *p, uint32_t task, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->ok = false;
    task_report(p->m, task, SEV_ERROR, "rank %u: %s %s", task_rank(p->t, task),
                task_name(p->m, task), text);
}

static struct held *held_in(struct replay *p, uint32_t rank, const struct task *task,
                            struct operand o) {
    if (o.kind == OPERAND_CHUNK)
        return &p->chunks.data[(size_t)o.index * p->t->slices + task->slice];
    return &p->accs.data[p->t->ranks.data[rank].first_acc + o.index];
}

/* ---- computes ---- */

/* The operands in order, an accumulator's first; false: something is missing, or of another size or
 * slice: values say nothing of slices, and an accumulator may hold any. */
static bool gather(struct replay *p, uint32_t rank, uint32_t index, uint64_t elems,
                   uint32_t *partial) {
    const struct task *task = &p->t->tasks.data[index];
    VEC_CLEAR(&p->operands);
    *partial = 0;
    for (uint32_t i = 0; i < task->operands; i++) {
        struct operand o = p->t->operands.data[task->first_operand + i];
        if (o.kind == OPERAND_PIECE) {
            VEC_PUSH(&p->operands, p->pieces.data[o.index]);
            if (VEC_LAST(&p->operands) == NONE)
                return false;
            continue;
        }
        struct held *h = held_in(p, rank, task, o);
        if (h->value == (o.kind == OPERAND_ACC ? 0 : NONE))
            return false;
        if (h->elems != elems) {
            fail(p, index, "works on %llu elements and %s holds %llu", (unsigned long long)elems,
                 operand_name(p->m, index, o), (unsigned long long)h->elems);
            return false;
        }
        if (h->slice != task->slice) {
            fail(p, index, "works on slice %u and %s holds slice %u", (unsigned)task->slice,
                 operand_name(p->m, index, o), (unsigned)h->slice);
            return false;
        }
        if (o.kind == OPERAND_ACC)
            *partial = h->value;
        else
            VEC_PUSH(&p->operands, h->value);
    }
    return true;
}

/* What the operands come to, rounded: all of the accumulator's, in order, then the task's own. */
static uint32_t round_sum(struct replay *p, uint32_t partial) {
    size_t own = p->operands.count, total = own + p->partials.data[partial].total;
    if (total == 1)
        return p->operands.data[0];
    if (partial) {
        (void)VEC_ADD_N(&p->operands, total - own);
        memmove(p->operands.data + (total - own), p->operands.data, own * sizeof(uint32_t));
        size_t end = total - own;
        for (uint32_t at = partial; at; at = p->partials.data[at].before) {
            const struct partial *x = &p->partials.data[at];
            end -= x->n;
            memcpy(p->operands.data + end, p->pool.data + x->first, x->n * sizeof(uint32_t));
        }
    }
    return value_sum(p->v, p->operands.data, (uint32_t)total);
}

static uint32_t extend_partial(struct replay *p, uint32_t before) {
    struct partial x = {
        .before = before, .first = (uint32_t)p->pool.count, .n = (uint32_t)p->operands.count};
    x.total = x.n + p->partials.data[before].total;
    if (x.n)
        memcpy(VEC_ADD_N(&p->pool, x.n), p->operands.data, x.n * sizeof(uint32_t));
    VEC_PUSH(&p->partials, x);
    return (uint32_t)p->partials.count - 1;
}

static void fill_piece(struct replay *p, uint32_t task, uint32_t piece, uint32_t value) {
    const struct piece *x = &p->t->pieces.data[piece];
    p->pieces.data[piece] = value;
    if (x->encoding == NONE || x->encoding >= p->encodings.count)
        return;
    struct coded *known = &p->encodings.data[x->encoding];
    if (known->value == NONE)
        *known = (struct coded){value, x->codec};
    if (known->value != value || known->codec != x->codec)
        fail(p, task, "fills %s, encoding %u, with %s; encoding %u is %s", piece_name(p->m, piece),
             x->encoding, value_text(p->m->c->arena, p->v, value), x->encoding,
             value_text(p->m->c->arena, p->v, known->value));
}

static void store(struct replay *p, uint32_t rank, uint32_t index, uint64_t elems, uint32_t partial,
                  uint32_t rounded) {
    const struct task *task = &p->t->tasks.data[index];
    struct held *h = held_in(p, rank, task, task->store);
    if (task->store.kind == OPERAND_ACC) {
        *h = (struct held){extend_partial(p, partial), task->slice, elems};
        return;
    }
    uint64_t room = tasks_slice_elems(p->t, task->store.index, task->slice, NULL);
    bool exact = flow_buffer_of(p->t->flow, task->store.index, NULL, NULL)->role != ROLE_SCRATCH;
    if (exact ? elems != room : elems > room)
        fail(p, index, "stores %llu elements into %s, which has room for %llu",
             (unsigned long long)elems, operand_name(p->m, index, task->store),
             (unsigned long long)room);
    *h = (struct held){rounded, task->slice, elems};
}

static void compute(struct replay *p, uint32_t rank, uint32_t index) {
    const struct task *task = &p->t->tasks.data[index];
    uint64_t elems = tasks_elems(p->t, task);
    uint32_t partial, rounded = NONE;
    if (!gather(p, rank, index, elems, &partial)) {
        if (p->ok)
            fail(p, index, "reads what is not there");
        return;
    }
    bool to_acc = task->store.kind == OPERAND_ACC && task->store.index != NONE;
    if (to_acc) /* before the operands are gathered again behind the accumulator's */
        store(p, rank, index, elems, partial, NONE);
    size_t total = p->operands.count + p->partials.data[partial].total;
    if (task->divide && total < 2)
        fail(p, index, "divides what is no sum");
    if (!to_acc || task->outs) {
        if (partial && total < 2)
            fail(p, index, "rounds an accumulator that holds one operand: move it instead");
        rounded = partial && total < 2 ? NONE : round_sum(p, partial);
        if (rounded == NONE)
            return;
        if (p->rounded.count && total > 1)
            p->rounded.data[index] = rounded;
    }
    if (!to_acc && task->store.index != NONE)
        store(p, rank, index, elems, partial, rounded);
    for (uint32_t i = 0; i < task->outs; i++) {
        uint32_t piece = p->t->outs.data[task->first_out + i];
        fill_piece(p, index, piece,
                   value_coded(p->v, p->t->pieces.data[piece].codec, rounded, (int32_t)rank));
    }
}

/* ---- messages ---- */

static void leave(struct replay *p, const struct task *send) {
    for (uint32_t i = 0; i < send->operands; i++) {
        uint32_t at = send->first_operand + i;
        p->in_transit.data[at] = p->pieces.data[p->t->operands.data[at].index];
    }
}

static void arrive(struct replay *p, uint32_t index) {
    const struct task *recv = &p->t->tasks.data[index];
    const struct task *send = &p->t->tasks.data[p->t->messages.data[recv->message].send];
    for (uint32_t i = 0; i < recv->outs && p->ok; i++) {
        uint32_t value = p->in_transit.data[send->first_operand + i];
        if (value == NONE)
            fail(p, index, "receives what was not there to be sent");
        else
            fill_piece(p, index, p->t->outs.data[recv->first_out + i], value);
    }
}

static void happen(struct replay *p, uint32_t event, uint32_t rank) {
    const struct model *m = p->m;
    node_id node = event / 2;
    for (uint32_t i = m->member_begin.data[node]; i < m->member_begin.data[node + 1]; i++) {
        uint32_t index = m->members.data[i];
        const struct task *task = &p->t->tasks.data[index];
        switch (task->kind) {
        case TASK_COMPUTE:
            compute(p, rank, index);
            break;
        case TASK_SEND:
            if (!(event & 1))
                leave(p, task);
            break;
        case TASK_RECV:
            if (event & 1)
                arrive(p, index);
            break;
        }
    }
}

/* ---- the end ---- */

/* The value of each chunk: that of its slices, which must agree. Chunks without elements hold
 * whatever is asked of them. */
static void collect_finals(struct replay *p, uint32_t *final) {
    const struct tasks *t = p->t;
    const uint32_t *wanted = p->m->c->trace.final;
    for (loc_id loc = 0; loc < t->flow->locs && !diag_full(p->m->c->diag); loc++) {
        bool any = false;
        final[loc] = NONE;
        for (uint32_t s = 0; s < t->slices; s++) {
            const struct held *h = &p->chunks.data[(size_t)loc * t->slices + s];
            if (!tasks_slice_elems(t, loc, s, NULL))
                continue;
            if (any && h->value != final[loc]) {
                p->ok = false;
                const char *now =
                    h->value == NONE ? "nothing" : value_text(p->m->c->arena, p->v, h->value);
                const char *first =
                    final[loc] == NONE ? "nothing" : value_text(p->m->c->arena, p->v, final[loc]);
                task_report(p->m, NONE, SEV_ERROR,
                            "%s: its slices end with different values: slice 0 with %s, slice %u "
                            "with %s",
                            flow_loc_name(p->m->c->arena, t->flow, loc), first, s, now);
                break;
            }
            final[loc] = h->value;
            any = true;
        }
        if (!any)
            final[loc] = wanted ? wanted[loc] : t->loc_size.data[loc] != NONE ? VALUE_ANY : NONE;
    }
}

/* Beyond the proof: the same order of additions, the same codecs at the same places as the flow
 * has. */
static void compare_with_flow(struct replay *p, const uint32_t *final) {
    const struct tasks *t = p->t;
    struct compilation *c = p->m->c;
    for (size_t b = 0; c->trace.final && b < t->flow->buffers.count; b++) {
        const struct flow_buffer *buf = &t->flow->buffers.data[b];
        loc_id end = buf->first_loc + (loc_id)buf->members * (loc_id)buf->chunks;
        for (loc_id loc = buf->first_loc; buf->role != ROLE_SCRATCH && loc < end; loc++) {
            if (final[loc] == c->trace.final[loc] || diag_full(c->diag))
                continue;
            p->ok = false;
            const char *now =
                final[loc] == NONE ? "nothing" : value_text(c->arena, p->v, final[loc]);
            const char *wanted = c->trace.final[loc] == NONE
                                     ? "nothing"
                                     : value_text(c->arena, p->v, c->trace.final[loc]);
            task_report(p->m, NONE, SEV_ERROR,
                        "%s ends with %s in the tasks, and with %s in the schedule",
                        flow_loc_name(c->arena, t->flow, loc), now, wanted);
        }
    }
}

/* Under avg exactly the sums that the collective's results are made of are divided; known after
 * verify_finals. */
static void check_divided(struct replay *p) {
    const struct tasks *t = p->t;
    for (uint32_t i = 0; i < p->rounded.count && !diag_full(p->m->c->diag); i++) {
        if (p->rounded.data[i] == NONE)
            continue;
        const struct value *v = value_get(p->v, p->rounded.data[i]);
        const struct task *task = &t->tasks.data[i];
        if (v->divided != task->divide)
            fail(p, i,
                 v->divided ? "rounds a result of the collective without dividing it"
                            : "divides what is no result of the collective");
        else if (task->divide && task->divisor != v->leaves)
            fail(p, i, "divides a sum of %u contributions by %u", v->leaves, task->divisor);
    }
}

static void start(struct replay *p) {
    const struct tasks *t = p->t;
    const struct flow *f = t->flow;
    (void)VEC_ADD_N(&p->chunks, (size_t)f->locs * t->slices);
    (void)VEC_ADD_N(&p->pieces, t->pieces.count);
    (void)VEC_ADD_N(&p->in_transit, t->operands.count);
    (void)VEC_ADD_N(&p->accs, t->acc_offsets.count);
    (void)VEC_ADD_N(&p->partials, 1);
    for (size_t i = 0; i < p->pieces.count; i++)
        p->pieces.data[i] = NONE;
    uint32_t encodings = 0;
    for (size_t i = 0; i < t->pieces.count; i++)
        if (t->pieces.data[i].encoding != NONE && t->pieces.data[i].encoding >= encodings)
            encodings = t->pieces.data[i].encoding + 1;
    (void)VEC_ADD_N(&p->encodings, encodings);
    for (size_t i = 0; i < encodings; i++)
        p->encodings.data[i].value = NONE;
    if (f->setup.redop == REDOP_AVG) {
        (void)VEC_ADD_N(&p->rounded, t->tasks.count);
        for (size_t i = 0; i < p->rounded.count; i++)
            p->rounded.data[i] = NONE;
    }
    for (size_t i = 0; i < p->chunks.count; i++)
        p->chunks.data[i].value = NONE;
    for (size_t b = 0; b < f->buffers.count; b++) {
        const struct flow_buffer *buf = &f->buffers.data[b];
        loc_id end = buf->first_loc + (loc_id)buf->members * (loc_id)buf->chunks;
        if (buf->role != ROLE_INPUT && buf->role != ROLE_INOUT)
            continue;
        for (loc_id loc = buf->first_loc; loc < end; loc++)
            for (uint32_t s = 0; s < t->slices; s++)
                p->chunks.data[(size_t)loc * t->slices + s] = (struct held){
                    value_input(p->v, loc), (uint16_t)s, tasks_slice_elems(t, loc, s, NULL)};
    }
}

bool validate_values(struct model *m) {
    struct compilation *c = m->c;
    if (!c->values)
        c->values = values_new(m->t->flow);
    struct replay p = {.m = m, .t = m->t, .v = c->values, .ok = true};
    start(&p);
    VEC(uint32_t) node_rank = {0};
    for (uint32_t r = 0; r + 1 < m->rank_node.count; r++)
        for (node_id n = m->rank_node.data[r]; n < m->rank_node.data[r + 1]; n++)
            VEC_PUSH(&node_rank, r);
    for (size_t i = 0; i < m->events.count && p.ok; i++)
        happen(&p, m->events.data[i], node_rank.data[m->events.data[i] / 2]);
    if (p.ok) {
        VEC(uint32_t) final = {0};
        (void)VEC_ADD_N(&final, m->t->flow->locs);
        collect_finals(&p, final.data);
        if (p.ok)
            p.ok = verify_finals(c, final.data, "lowered tasks compute the same values");
        if (p.ok) {
            compare_with_flow(&p, final.data);
            check_divided(&p);
        }
        VEC_FREE(&final);
    }
    VEC_FREE(&node_rank);
    VEC_FREE(&p.chunks);
    VEC_FREE(&p.pieces);
    VEC_FREE(&p.in_transit);
    VEC_FREE(&p.partials);
    VEC_FREE(&p.pool);
    VEC_FREE(&p.accs);
    VEC_FREE(&p.encodings);
    VEC_FREE(&p.operands);
    VEC_FREE(&p.rounded);
    return p.ok;
}
