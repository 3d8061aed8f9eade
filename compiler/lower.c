/* lower: what all ranks do to chunks becomes what each rank does, one small task for each thing to
 * do.
 *
 *     reduce data[1]@0 -> data[1]@2 via pack
 *
 *     rank 0   encode data[1] -> p0            unless rank 0 has these bytes already
 *              send m0 p0 to 2
 *     rank 2   recv m0 p0 from 0
 *              decode_reduce acc0 = data[1] + p0
 *              round data[1] = acc0            when data[1] is read next, or at the end
 *
 * A group is a step, or an operation outside of steps. In a group a rank first reads (completes
 * open sums, encodes), then sends, then receives, then writes, so what is sent is what stood there
 * before the group.
 *
 * Each rank is lowered on its own: what it does depends on its own operations and on the trace.
 *
 * Requires: verify, forward (run here if they have not). Ensures: tasks and pieces stand rank by
 * rank, a rank's operands, outs and pieces in the order of its tasks; each piece is filled once;
 * one slice; no rounds, lanes or places.
 */
#include "compiler/ir.h"

#include <string.h>

struct open_sum {
    loc_id loc;
    uint32_t op; /* the last that added to it */
};

/* Where the rank at hand has the bytes of an encoding: in the piece it made or received first,
 * NONE; and, while a message is made (its stamp), in the piece of that message. */
struct holding {
    uint32_t piece;
    uint32_t stamp, in_message;
};

struct lowering {
    struct compilation *c;
    const struct flow *f;
    const struct flow_trace *trace;
    struct tasks *t;
    VEC(uint64_t) class_elems; /* [size classes] */
    /* of chunks, pieces and messages of all ranks */
    VEC(uint8_t) scratch, final;  /* [locs] flags; final as tasks_mark_finals */
    VEC(uint8_t) full;            /* [locs] something is in it */
    VEC(uint32_t) written;        /* [locs] the last group that writes it */
    uint32_t *acc_of;             /* [locs] the accumulator of its open sum */
    uint32_t *last_in_message;    /* [messages] of the group at hand */
    VEC(struct holding) holdings; /* [encodings] */
    VEC(uint32_t) rank_first;     /* [ranks + 1] into rank_ops */
    VEC(uint32_t) rank_ops;       /* the operations that concern a rank, in order */
    uint32_t group, stamp;
    /* of the rank at hand */
    int32_t rank;
    VEC(struct open_sum) sums; /* [accs] */
    /* of the group at hand */
    const uint32_t *ops; /* indices of its operations that concern the rank */
    uint32_t n;
    VEC(uint32_t) next;   /* [n] the next operation of the same message */
    VEC(uint32_t) offset; /* [n] into moving */
    VEC(uint32_t) moving; /* [chunks of all operations] the piece it travels as; NONE: straight from
                             chunk to chunk */
    VEC(uint32_t) first;  /* the operations that open a message */
    bool failed;
};

static const struct flow_op *op_at(const struct lowering *l, uint32_t k) {
    return &l->f->ops.data[l->ops[k]];
}

/* ---- making tasks ------------------------------------------------------------------------- */

static struct task *add_task(struct lowering *l, enum task_kind kind, uint32_t op) {
    struct tasks *t = l->t;
    VEC_PUSH(&t->tasks, (struct task){.kind = kind,
                                      .stage = l->f->ops.data[op].stage,
                                      .first_operand = (uint32_t)t->operands.count,
                                      .store.index = NONE,
                                      .first_out = (uint32_t)t->outs.count,
                                      .message = NONE,
                                      .round = NONE,
                                      .index = NONE,
                                      .tick = NONE,
                                      .op = op});
    return &VEC_LAST(&t->tasks);
}

static void add_operand(struct lowering *l, enum operand_kind kind, uint32_t index) {
    VEC_PUSH(&l->t->operands, (struct operand){kind, index});
    VEC_LAST(&l->t->tasks).operands++;
}

static void add_out(struct lowering *l, uint32_t piece) {
    VEC_PUSH(&l->t->outs, piece);
    VEC_LAST(&l->t->tasks).outs++;
}

/* Elements of a value that moves from or to loc. The values of scratch chunks are asked, as their
 * sizes may change. */
static uint64_t elems_of(const struct lowering *l, loc_id loc, const uint32_t *value) {
    uint32_t size = l->t->loc_size.data[loc];
    if (!l->scratch.data[loc])
        return l->t->size_elems.data[l->t->sizes.data[size].first_elems];
    return l->class_elems.data[value_get(l->c->values, *value)->size];
}

static uint32_t add_piece(struct lowering *l, uint32_t encoding, uint16_t codec, uint64_t elems) {
    VEC_PUSH(&l->t->pieces,
             (struct piece){.encoding = encoding, .codec = codec, .rank = l->rank, .elems = elems});
    return (uint32_t)l->t->pieces.count - 1;
}

/* ---- sums --------------------------------------------------------------------------------- */

/* Somebody reads loc, and is to find this value there. */
static void complete(struct lowering *l, loc_id loc, const uint32_t *value) {
    uint32_t acc = l->acc_of[loc];
    if (acc == NONE)
        return;
    struct task *k = add_task(l, TASK_COMPUTE, l->sums.data[acc].op);
    k->store = (struct operand){OPERAND_CHUNK, loc};
    if (l->f->setup.redop == REDOP_AVG) {
        const struct value *v = value_get(l->c->values, *value);
        k->divide = v->kind == VALUE_SUM && v->divided;
        k->divisor = k->divide ? v->leaves : 0;
    }
    add_operand(l, OPERAND_ACC, acc);
    l->acc_of[loc] = NONE;
}

/* What is left open in scratch chunks nobody reads, unless an ensure does. */
static void complete_all(struct lowering *l) {
    for (uint32_t acc = 0; acc < l->sums.count; acc++) {
        loc_id loc = l->sums.data[acc].loc;
        if (l->acc_of[loc] == acc && l->final.data[loc])
            complete(l, loc, &l->trace->final[loc]);
    }
}

/* ---- reads -------------------------------------------------------------------------------- */

static uint32_t encode(struct lowering *l, uint32_t op, uint32_t i, uint32_t encoding) {
    const struct flow_op *o = &l->f->ops.data[op];
    uint64_t elems = elems_of(l, o->src + i, &l->trace->read[o->first_transfer + i]);
    uint32_t piece = add_piece(l, encoding, encoding == NONE ? 0 : o->codec, elems);
    add_task(l, TASK_COMPUTE, op);
    add_operand(l, OPERAND_CHUNK, o->src + i);
    add_out(l, piece);
    return piece;
}

/* The bytes that chunk i of an operation moves: those the rank has, or new ones from the chunk. */
static uint32_t piece_to_move(struct lowering *l, uint32_t op, uint32_t i) {
    const struct flow_op *o = &l->f->ops.data[op];
    uint32_t encoding = l->f->transfer_encoding[o->first_transfer + i];
    uint32_t *piece = encoding == NONE ? NULL : &l->holdings.data[encoding].piece;
    if (!piece || (*piece == NONE && l->f->encodings.data[encoding].rank != l->rank)) {
        flow_report(l->c->diag, l->f, o, SEV_ERROR,
                    "lower: rank %d has no encoding of %s to move (the encodings of this flow do "
                    "not fit it)",
                    l->rank, flow_loc_name(l->c->arena, l->f, o->src + i));
        l->failed = true;
        return NONE;
    }
    if (*piece == NONE)
        *piece = encode(l, op, i, encoding);
    return *piece;
}

/* A copy of a chunk onto itself that changes nothing is only a read. */
static bool moves_nothing(const struct lowering *l, const struct flow_op *op, uint32_t transfer) {
    return op->src == op->dst && l->trace->read[transfer] == l->trace->moved[transfer];
}

static void read_operation(struct lowering *l, uint32_t k) {
    const struct flow_op *op = op_at(l, k);
    uint32_t *moving = l->moving.data + l->offset.data[k];
    const uint32_t *read = l->trace->read + op->first_transfer;
    const uint32_t *moved = l->trace->moved + op->first_transfer;
    for (uint32_t i = 0; i < op->count && !l->failed; i++) {
        loc_id loc = op->src + i;
        complete(l, loc, &read[i]);
        if (op->message != NONE || moved[i] != read[i])
            moving[i] = piece_to_move(l, l->ops[k], i);
        else if (l->written.data[loc] == l->group && op->src != op->dst)
            moving[i] = encode(l, l->ops[k], i, NONE);
    }
}

/* ---- messages ----------------------------------------------------------------------------- */

static void start_message(struct lowering *l, uint32_t k, enum task_kind kind) {
    const struct flow_op *op = op_at(l, k);
    struct message *m = &l->t->messages.data[op->message];
    uint32_t task = (uint32_t)l->t->tasks.count;
    add_task(l, kind, l->ops[k])->message = op->message;
    m->src = op->src_rank;
    m->dst = op->dst_rank;
    m->codec = op->codec;
    m->stage = op->stage;
    *(kind == TASK_SEND ? &m->send : &m->recv) = task;
    l->stamp++;
}

/* An encoding travels once in a message. */
static struct holding *place_in_message(struct lowering *l, uint32_t encoding, bool *is_new) {
    struct holding *h = &l->holdings.data[encoding];
    *is_new = h->stamp != l->stamp;
    h->stamp = l->stamp;
    return h;
}

static void send(struct lowering *l, uint32_t k) {
    start_message(l, k, TASK_SEND);
    for (; k != NONE; k = l->next.data[k]) {
        const struct flow_op *op = op_at(l, k);
        for (uint32_t i = 0; i < op->count; i++) {
            bool is_new;
            (void)place_in_message(l, l->f->transfer_encoding[op->first_transfer + i], &is_new);
            if (is_new)
                add_operand(l, OPERAND_PIECE, l->moving.data[l->offset.data[k] + i]);
        }
    }
}

static void receive(struct lowering *l, uint32_t k) {
    start_message(l, k, TASK_RECV);
    for (; k != NONE; k = l->next.data[k]) {
        const struct flow_op *op = op_at(l, k);
        for (uint32_t i = 0; i < op->count; i++) {
            uint32_t encoding = l->f->transfer_encoding[op->first_transfer + i];
            bool is_new;
            struct holding *h = place_in_message(l, encoding, &is_new);
            if (is_new) {
                const uint32_t *value = &l->trace->moved[op->first_transfer + i];
                h->in_message = add_piece(l, encoding, op->codec, elems_of(l, op->dst + i, value));
                add_out(l, h->in_message);
            }
            l->moving.data[l->offset.data[k] + i] = h->in_message;
            if (h->piece == NONE)
                h->piece = h->in_message;
        }
    }
}

/* ---- writes ------------------------------------------------------------------------------- */

static void add_moved(struct lowering *l, const struct flow_op *op, uint32_t i, uint32_t piece) {
    if (piece == NONE)
        add_operand(l, OPERAND_CHUNK, op->src + i);
    else
        add_operand(l, OPERAND_PIECE, piece);
}

static void accumulate(struct lowering *l, uint32_t k, uint32_t i, uint32_t piece) {
    const struct flow_op *op = op_at(l, k);
    loc_id loc = op->dst + i;
    uint32_t *acc = &l->acc_of[loc];
    struct task *task = add_task(l, TASK_COMPUTE, l->ops[k]);
    task->store.kind = OPERAND_ACC;
    task->store.index = *acc != NONE ? *acc : (uint32_t)l->sums.count;
    if (*acc != NONE)
        add_operand(l, OPERAND_ACC, *acc);
    else
        add_operand(l, OPERAND_CHUNK, loc);
    add_moved(l, op, i, piece);
    if (*acc == NONE) {
        *acc = (uint32_t)l->sums.count;
        VEC_PUSH(&l->sums, (struct open_sum){.loc = loc});
    }
    l->sums.data[*acc].op = l->ops[k];
}

/* An open sum that nobody has read ends here. */
static void overwrite(struct lowering *l, uint32_t k, uint32_t i, uint32_t piece) {
    const struct flow_op *op = op_at(l, k);
    loc_id loc = op->dst + i;
    add_task(l, TASK_COMPUTE, l->ops[k])->store = (struct operand){OPERAND_CHUNK, loc};
    add_moved(l, op, i, piece);
    l->acc_of[loc] = NONE;
    l->full.data[loc] = 1;
    if (l->scratch.data[loc] &&
        !tasks_size_with(l->t, &l->t->loc_size.data[loc],
                         elems_of(l, loc, &l->trace->moved[op->first_transfer + i]))) {
        flow_report(l->c->diag, l->f, op, SEV_ERROR, "too many different sizes of chunks");
        l->failed = true;
    }
}

static void write_operation(struct lowering *l, uint32_t k) {
    const struct flow_op *op = op_at(l, k);
    for (uint32_t i = 0; i < op->count; i++) {
        uint32_t piece = l->moving.data[l->offset.data[k] + i];
        if (moves_nothing(l, op, op->first_transfer + i))
            continue;
        if (op->kind == FLOW_REDUCE && l->full.data[op->dst + i])
            accumulate(l, k, i, piece);
        else
            overwrite(l, k, i, piece);
    }
}

/* ---- groups and ranks --------------------------------------------------------------------- */

/* Room for the group's chunks, and the operations of each message in a row behind the first. */
static void start_group(struct lowering *l) {
    l->group++;
    VEC_CLEAR(&l->next);
    VEC_CLEAR(&l->offset);
    VEC_CLEAR(&l->moving);
    VEC_CLEAR(&l->first);
    for (uint32_t k = 0; k < l->n; k++) {
        const struct flow_op *op = op_at(l, k);
        VEC_PUSH(&l->next, NONE);
        VEC_PUSH(&l->offset, (uint32_t)l->moving.count);
        for (uint32_t i = 0; i < op->count; i++) {
            VEC_PUSH(&l->moving, NONE);
            if (op->dst_rank == l->rank)
                l->written.data[op->dst + i] = l->group;
        }
    }
}

/* True for the first operation of a message; the others are chained behind it. */
static bool opens_message(struct lowering *l, uint32_t k) {
    uint32_t message = op_at(l, k)->message;
    if (message == NONE)
        return false;
    uint32_t last = l->last_in_message[message];
    l->last_in_message[message] = k;
    if (last == NONE)
        return true;
    l->next.data[last] = k;
    return false;
}

static void lower_group(struct lowering *l) {
    start_group(l);
    for (uint32_t k = 0; k < l->n; k++) {
        if (op_at(l, k)->src_rank == l->rank)
            read_operation(l, k);
        if (opens_message(l, k))
            VEC_PUSH(&l->first, k);
    }
    for (size_t i = 0; i < l->first.count && !l->failed; i++)
        if (op_at(l, l->first.data[i])->src_rank == l->rank)
            send(l, l->first.data[i]);
    for (size_t i = 0; i < l->first.count && !l->failed; i++)
        if (op_at(l, l->first.data[i])->dst_rank == l->rank)
            receive(l, l->first.data[i]);
    for (size_t i = 0; i < l->first.count; i++)
        l->last_in_message[op_at(l, l->first.data[i])->message] = NONE;
    for (uint32_t k = 0; k < l->n && !l->failed; k++)
        if (op_at(l, k)->dst_rank == l->rank)
            write_operation(l, k);
}

/* A rank's operations lie far apart in the flow, and what belongs to them as well: asked for ahead
 * of time, memory answers many such questions at once. */
static void fetch_ahead(const struct lowering *l, const uint32_t *ops, uint32_t i, uint32_t n) {
    enum { FAR = 24, NEAR = 16, NEXT = 8 };
    const struct flow *f = l->f;
    if (i + FAR < n) {
        const struct flow_op *op = &f->ops.data[ops[i + FAR]];
        __builtin_prefetch(op);
        __builtin_prefetch((const char *)op + sizeof *op - 1);
    }
    if (i + NEAR < n) {
        const struct flow_op *op = &f->ops.data[ops[i + NEAR]];
        __builtin_prefetch(&f->transfer_encoding[op->first_transfer]);
        if (op->message != NONE) {
            __builtin_prefetch(&l->last_in_message[op->message], 1);
            __builtin_prefetch(&l->t->messages.data[op->message], 1);
        }
    }
    if (i + NEXT < n) {
        uint32_t encoding = f->transfer_encoding[f->ops.data[ops[i + NEXT]].first_transfer];
        if (encoding != NONE) {
            __builtin_prefetch(&l->holdings.data[encoding], 1);
            __builtin_prefetch(&f->encodings.data[encoding]);
        }
    }
}

static void lower_rank(struct lowering *l, int32_t rank) {
    struct tasks *t = l->t;
    struct rank_tasks *rt = &t->ranks.data[rank];
    const uint32_t *ops = l->rank_ops.data + l->rank_first.data[rank];
    uint32_t n = l->rank_first.data[rank + 1] - l->rank_first.data[rank];
    l->rank = rank;
    rt->first = (uint32_t)t->tasks.count;
    size_t first_piece = t->pieces.count;
    VEC_CLEAR(&l->sums);
    for (uint32_t i = 0; i < n && !l->failed; i += l->n) {
        uint32_t step = l->f->ops.data[ops[i]].step;
        l->ops = ops + i;
        l->n = 0;
        do
            fetch_ahead(l, ops, i + l->n++, n);
        while (step && i + l->n < n && l->f->ops.data[ops[i + l->n]].step == step);
        lower_group(l);
    }
    if (l->failed)
        return;
    complete_all(l);
    rt->n = (uint32_t)t->tasks.count - rt->first;
    rt->accs = (uint32_t)l->sums.count;
    for (size_t i = first_piece; i < t->pieces.count; i++)
        if (t->pieces.data[i].encoding != NONE)
            l->holdings.data[t->pieces.data[i].encoding].piece = NONE;
}

/* ---- the pass ----------------------------------------------------------------------------- */

/* Both ends of each operation, sorted by rank. */
static void list_operations(struct lowering *l) {
    const struct flow *f = l->f;
    size_t ends = 0;
    uint32_t *first = VEC_ADD_N(&l->rank_first, (size_t)f->setup.ranks + 2);
    for (size_t i = 0; i < f->ops.count; i++) {
        const struct flow_op *op = &f->ops.data[i];
        first[op->src_rank + 2]++;
        first[op->dst_rank + 2] += op->dst_rank != op->src_rank;
        ends += op->dst_rank == op->src_rank ? 1 : 2;
    }
    for (int32_t r = 0; r < f->setup.ranks; r++)
        first[r + 2] += first[r + 1];
    uint32_t *ops = VEC_ADD_N(&l->rank_ops, ends);
    for (size_t i = 0; i < f->ops.count; i++) {
        const struct flow_op *op = &f->ops.data[i];
        ops[first[op->src_rank + 1]++] = (uint32_t)i;
        if (op->dst_rank != op->src_rank)
            ops[first[op->dst_rank + 1]++] = (uint32_t)i;
    }
}

/* Room for all there can be, so that memory limits speak up before the work starts. */
static void reserve(struct lowering *l) {
    const struct flow *f = l->f;
    struct tasks *t = l->t;
    size_t encodes = f->encodings.count, sends = 0, recvs = 0, copies = 0, sums = 0;
    for (size_t i = 0; i < f->ops.count; i++) {
        const struct flow_op *op = &f->ops.data[i];
        if (op->message != NONE)
            recvs += op->count;
        else
            encodes += op->step ? op->count : 0; /* what the step overwrites travels as a piece */
        sends += op->message != NONE;
        *(op->kind == FLOW_REDUCE ? &sums : &copies) += op->count;
    }
    VEC_RESERVE(&t->tasks, 1 + encodes + 2 * sends + copies + 2 * sums); /* 1: never NULL */
    VEC_RESERVE(&t->operands, 1 + encodes + recvs + copies + 3 * sums);
    VEC_RESERVE(&t->outs, 1 + encodes + recvs);
    VEC_RESERVE(&t->pieces, 1 + encodes + recvs);
    (void)VEC_ADD_N(&t->ranks, (size_t)f->setup.ranks);
    (void)VEC_ADD_N(&t->messages, f->messages);
    for (uint32_t i = 0; i < f->messages; i++)
        t->messages.data[i] =
            (struct message){.round = NONE, .index = NONE, .send = NONE, .recv = NONE};
}

/* All chunks of a class are as long as those of the first buffer that is not scratch. */
static void measure_classes(struct lowering *l) {
    const struct flow *f = l->f;
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        if (b->role == ROLE_SCRATCH || !b->members)
            continue;
        for (uint32_t chunk = 0; chunk < (uint32_t)b->chunks; chunk++) {
            uint32_t class = flow_size_class(f, b->first_loc + chunk);
            while (l->class_elems.count <= class)
                VEC_PUSH(&l->class_elems, 0);
            l->class_elems.data[class] = flow_input_elems(f, b->first_loc + chunk);
        }
    }
}

static void start_chunks(struct lowering *l) {
    const struct flow *f = l->f;
    (void)VEC_ADD_N(&l->full, f->locs);
    (void)VEC_ADD_N(&l->scratch, f->locs);
    (void)VEC_ADD_N(&l->written, f->locs);
    tasks_mark_finals(l->t, VEC_ADD_N(&l->final, f->locs));
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        size_t chunks = (size_t)b->chunks * (size_t)b->members;
        for (size_t c = 0; c < chunks; c++) {
            l->full.data[b->first_loc + c] = b->role == ROLE_INPUT || b->role == ROLE_INOUT;
            l->scratch.data[b->first_loc + c] = b->role == ROLE_SCRATCH;
        }
    }
    l->acc_of = index_array_new(f->locs, NULL);
    l->last_in_message = index_array_new(f->messages, NULL);
    (void)VEC_ADD_N(&l->holdings, f->encodings.count);
    for (size_t i = 0; i < f->encodings.count; i++)
        l->holdings.data[i].piece = NONE;
}

static void free_lowering(struct lowering *l) {
    VEC_FREE(&l->class_elems);
    VEC_FREE(&l->full);
    VEC_FREE(&l->written);
    index_array_free(l->acc_of, l->f->locs, NULL);
    index_array_free(l->last_in_message, l->f->messages, NULL);
    VEC_FREE(&l->holdings);
    VEC_FREE(&l->scratch);
    VEC_FREE(&l->final);
    VEC_FREE(&l->rank_first);
    VEC_FREE(&l->rank_ops);
    VEC_FREE(&l->sums);
    VEC_FREE(&l->next);
    VEC_FREE(&l->offset);
    VEC_FREE(&l->moving);
    VEC_FREE(&l->first);
}

static struct tasks *new_tasks(struct compilation *c) {
    struct tasks *t = arena_alloc(c->arena, sizeof *t);
    t->flow = c->flow;
    t->slices = 1;
    VEC_GUARD(&t->ranks, &c->guard);
    VEC_GUARD(&t->tasks, &c->guard);
    VEC_GUARD(&t->operands, &c->guard);
    VEC_GUARD(&t->outs, &c->guard);
    VEC_GUARD(&t->deps, &c->guard);
    VEC_GUARD(&t->pieces, &c->guard);
    VEC_GUARD(&t->messages, &c->guard);
    VEC_GUARD(&t->loc_size, &c->guard);
    return t;
}

bool pass_lower(struct compilation *c) {
    if ((!c->values && !pass_verify(c)) || (!c->flow->transfer_encoding && !pass_forward(c)))
        return false;
    c->tasks = new_tasks(c);
    struct lowering l = {.c = c, .f = c->flow, .trace = &c->trace, .t = c->tasks};
    reserve(&l);
    if (!tasks_size_inputs(l.t)) {
        diag_report(c->diag, SEV_ERROR, c->flow->collective_at,
                    "too many different sizes of chunks");
        return false;
    }
    list_operations(&l);
    measure_classes(&l);
    start_chunks(&l);
    for (int32_t r = 0; r < l.f->setup.ranks && !l.failed; r++)
        lower_rank(&l, r);
    tasks_cut_sizes(l.t);
    bool ok = !l.failed;
    free_lowering(&l);
    return ok;
}
