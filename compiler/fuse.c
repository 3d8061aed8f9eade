/* fuse: small tasks become the ones that a machine does well: recv, then one pass over memory that
 * decodes, reduces and encodes again.
 *
 *     acc0 = data[1] + p0     ->   data[1] = data[1] + p0 + p1 -> p2
 *     acc0 = acc0 + p1
 *     data[1] = acc0               a sum and its rounding are one task, at the place of the last;
 *     encode data[1] -> p2         an encode joins the task that made the value
 *
 *     tmp[0] = p0             ->   acc0 = p0 + p1
 *     acc0 = tmp[0] + p1           a value that only passes through a chunk is read where it came
 *                                  from
 *
 * Then what nobody reads is dropped: stores that are overwritten first, and encodes that are never
 * sent. A sum has at most MAX_OPERANDS operands; a longer one goes on through an accumulator. Bits
 * never change: operands keep their order, and nothing is rounded that was not, or the other way
 * round.
 *
 * Sums sink (their first operands are read later), so an operand chunk must not have been
 * overwritten in between. Encodes rise (the value is the same), and pieces are filled once, so
 * nothing is in their way.
 *
 * Requires: what lower ensures. Ensures: the same.
 */
#include "compiler/ir.h"

#include <string.h>

enum { MAX_OPERANDS = 16 };

/* A task of the rank at hand, and what has become of it. */
struct node {
    bool gone;                            /* part of another one, or dropped */
    uint32_t first_operand, own_operands; /* as the task had them at first */
    uint32_t
        before; /* the node whose operands come before these, instead of the accumulator; NONE */
    uint32_t operands; /* with those of `before` */
    uint32_t uses;     /* tasks that read what it stores, and one if it stays to the end */
    uint32_t shadowed; /* the node that stored there before */
    uint32_t first_extra, last_extra; /* pieces encoded in addition: a list through next_extra */
};

struct fusion {
    struct tasks *t;
    VEC(uint8_t) live; /* [locs] backwards: somebody reads it; at first: it counts at the end */
    VEC(uint8_t) piece_live; /* [pieces] */
    uint32_t *definition;    /* [locs] the node that stored what is there, in this rank */
    uint32_t *next_extra;    /* [pieces] */
    /* of the rank at hand */
    struct task *tasks;
    uint32_t n;
    VEC(struct node) nodes;
    VEC(uint32_t) acc_definition; /* [accs] */
    VEC(uint32_t) acc_number;     /* [accs] in the result */
    VEC(uint8_t) acc_live;        /* [accs] */
    /* the result; tasks and pieces are packed in place */
    uint32_t written;
    VEC(struct operand) operands;
    VEC(uint32_t) outs;
};

static struct operand *operands_of(const struct fusion *f, const struct task *k) {
    return f->t->operands.data + k->first_operand;
}

static uint32_t *definition_of(struct fusion *f, struct operand o) {
    return o.kind == OPERAND_ACC ? &f->acc_definition.data[o.index] : &f->definition[o.index];
}

static bool stores(const struct task *k) {
    return k->kind == TASK_COMPUTE && k->store.index != NONE;
}

/* ---- who reads what ----------------------------------------------------------------------- */

static void forget_definitions(struct fusion *f) {
    for (uint32_t i = 0; i < f->n; i++)
        if (stores(&f->tasks[i]))
            *definition_of(f, f->tasks[i].store) = NONE;
}

static void count_uses(struct fusion *f) {
    for (uint32_t i = 0; i < f->n; i++) {
        const struct task *k = &f->tasks[i];
        for (uint32_t j = 0; k->kind == TASK_COMPUTE && j < k->operands; j++) {
            struct operand o = operands_of(f, k)[j];
            if (o.kind != OPERAND_PIECE && *definition_of(f, o) != NONE)
                f->nodes.data[*definition_of(f, o)].uses++;
        }
        if (stores(k))
            *definition_of(f, k->store) = i;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        const struct task *k = &f->tasks[i];
        if (stores(k) && k->store.kind == OPERAND_CHUNK && f->live.data[k->store.index] &&
            *definition_of(f, k->store) == i)
            f->nodes.data[i].uses++;
    }
    forget_definitions(f);
}

/* ---- what joins what ---------------------------------------------------------------------- */

/* encode data[1] -> p2, behind the task that stored data[1]. */
static bool join_encode(struct fusion *f, uint32_t i) {
    const struct task *k = &f->tasks[i];
    struct operand o = *operands_of(f, k);
    if (k->operands != 1 || o.kind != OPERAND_CHUNK || stores(k) || f->definition[o.index] == NONE)
        return false;
    struct node *maker = &f->nodes.data[f->definition[o.index]];
    for (uint32_t j = 0; j < k->outs; j++) {
        uint32_t piece = f->t->outs.data[k->first_out + j];
        if (maker->last_extra == NONE)
            maker->first_extra = piece;
        else
            f->next_extra[maker->last_extra] = piece;
        maker->last_extra = piece;
    }
    maker->uses--;
    f->nodes.data[i].gone = true;
    return true;
}

/* A chunk that was only moved, for this one reader: *o becomes what it was moved from. */
static void read_through(struct fusion *f, struct operand *o) {
    if (o->kind != OPERAND_CHUNK || f->definition[o->index] == NONE)
        return;
    uint32_t d = f->definition[o->index];
    const struct task *move = &f->tasks[d];
    struct node *node = &f->nodes.data[d];
    struct operand from = *operands_of(f, move);
    if (node->uses != 1 || node->operands != 1 || from.kind == OPERAND_ACC || move->outs ||
        node->first_extra != NONE)
        return;
    if (from.kind == OPERAND_CHUNK && f->definition[from.index] != NONE &&
        f->definition[from.index] >= d)
        return; /* overwritten since */
    *o = from;
    node->gone = true;
}

/* Whether all that was read for the sum up to node d still stands there. */
static bool still_there(struct fusion *f, uint32_t d) {
    for (; d != NONE; d = f->nodes.data[d].before) {
        const struct task *k = &f->tasks[d];
        for (uint32_t j = f->nodes.data[d].before == NONE ? 0 : 1; j < k->operands; j++) {
            struct operand o = operands_of(f, k)[j];
            if (o.kind != OPERAND_PIECE && *definition_of(f, o) != NONE &&
                *definition_of(f, o) >= d)
                return false;
        }
    }
    return true;
}

/* acc0 + p1, behind the task that stored acc0: its operands come first. */
static void join_sum(struct fusion *f, uint32_t i) {
    const struct task *k = &f->tasks[i];
    struct operand o = *operands_of(f, k);
    if (o.kind != OPERAND_ACC || *definition_of(f, o) == NONE)
        return;
    uint32_t d = *definition_of(f, o);
    struct node *sum = &f->nodes.data[d], *node = &f->nodes.data[i];
    if (sum->uses != 1 || sum->operands + k->operands - 1 > MAX_OPERANDS)
        return;
    *definition_of(f, o) = sum->shadowed; /* as if it had not been stored */
    if (!still_there(f, d)) {
        *definition_of(f, o) = d;
        return;
    }
    node->before = d;
    node->operands = sum->operands + k->operands - 1;
    sum->gone = true;
}

static void join_tasks(struct fusion *f) {
    for (uint32_t i = 0; i < f->n; i++) {
        const struct task *k = &f->tasks[i];
        if (k->kind != TASK_COMPUTE || join_encode(f, i))
            continue;
        for (uint32_t j = 0; j < k->operands; j++)
            read_through(f, &operands_of(f, k)[j]);
        join_sum(f, i);
        if (stores(k)) {
            f->nodes.data[i].shadowed = *definition_of(f, k->store);
            *definition_of(f, k->store) = i;
        }
    }
    forget_definitions(f);
}

/* ---- what nobody needs -------------------------------------------------------------------- */

static uint8_t *live_of(struct fusion *f, struct operand o) {
    switch (o.kind) {
    case OPERAND_CHUNK:
        return &f->live.data[o.index];
    case OPERAND_ACC:
        return &f->acc_live.data[o.index];
    case OPERAND_PIECE:
        break;
    }
    return &f->piece_live.data[o.index];
}

static bool has_live_out(struct fusion *f, uint32_t i) {
    const struct task *k = &f->tasks[i];
    for (uint32_t j = 0; j < k->outs; j++)
        if (f->piece_live.data[f->t->outs.data[k->first_out + j]])
            return true;
    for (uint32_t p = f->nodes.data[i].first_extra; p != NONE; p = f->next_extra[p])
        if (f->piece_live.data[p])
            return true;
    return false;
}

static void read_operands(struct fusion *f, uint32_t i) {
    for (; i != NONE; i = f->nodes.data[i].before) {
        const struct task *k = &f->tasks[i];
        for (uint32_t j = f->nodes.data[i].before == NONE ? 0 : 1; j < k->operands; j++)
            *live_of(f, operands_of(f, k)[j]) = 1;
    }
}

/* From the last task to the first, so that what is live is known before what it is made of. */
static void drop_tasks(struct fusion *f) {
    for (uint32_t i = f->n; i-- > 0;) {
        struct task *k = &f->tasks[i];
        struct node *node = &f->nodes.data[i];
        if (node->gone)
            continue;
        if (k->kind == TASK_RECV)
            for (uint32_t j = 0; j < k->outs; j++) /* they come, wanted or not */
                f->piece_live.data[f->t->outs.data[k->first_out + j]] = 1;
        if (stores(k)) {
            uint8_t *live = live_of(f, k->store);
            if (!*live)
                k->store.index = NONE;
            *live = 0;
        }
        node->gone = k->kind == TASK_COMPUTE && !stores(k) && !has_live_out(f, i);
        if (!node->gone)
            read_operands(f, i);
    }
}

/* ---- the result --------------------------------------------------------------------------- */

static struct operand renumbered(const struct fusion *f, struct operand o) {
    if (o.kind == OPERAND_ACC)
        o.index = f->acc_number.data[o.index];
    return o;
}

/* The operands of i, those of the sum it goes on with first. */
static void write_operands(struct fusion *f, uint32_t i) {
    uint32_t links[MAX_OPERANDS + 1], n = 0; /* each link but a final rounding adds an operand */
    for (; i != NONE; i = f->nodes.data[i].before)
        links[n++] = i;
    while (n-- > 0) { /* the tasks of the links may be overwritten by now */
        const struct node *link = &f->nodes.data[links[n]];
        for (uint32_t j = link->before == NONE ? 0 : 1; j < link->own_operands; j++)
            VEC_PUSH(&f->operands, renumbered(f, f->t->operands.data[link->first_operand + j]));
    }
}

static void write_outs(struct fusion *f, uint32_t i) {
    const struct task *k = &f->tasks[i];
    for (uint32_t j = 0; j < k->outs; j++) {
        uint32_t piece = f->t->outs.data[k->first_out + j];
        if (f->piece_live.data[piece])
            VEC_PUSH(&f->outs, piece);
    }
    for (uint32_t p = f->nodes.data[i].first_extra; p != NONE; p = f->next_extra[p])
        if (f->piece_live.data[p])
            VEC_PUSH(&f->outs, p);
}

static void write_task(struct fusion *f, uint32_t i, uint32_t *accs) {
    struct tasks *t = f->t;
    struct task k = f->tasks[i];
    k.first_operand = (uint32_t)f->operands.count;
    write_operands(f, i);
    k.operands = (uint32_t)f->operands.count - k.first_operand;
    k.first_out = (uint32_t)f->outs.count;
    write_outs(f, i);
    k.outs = (uint32_t)f->outs.count - k.first_out;
    if (stores(&k) && k.store.kind == OPERAND_ACC) {
        uint32_t *number = &f->acc_number.data[k.store.index];
        if (*number == NONE)
            *number = (*accs)++;
        k.store.index = *number;
    }
    if (k.kind == TASK_SEND)
        t->messages.data[k.message].send = f->written;
    if (k.kind == TASK_RECV)
        t->messages.data[k.message].recv = f->written;
    t->tasks.data[f->written++] = k; /* never ahead of the reader */
}

static void fuse_rank(struct fusion *f, struct rank_tasks *rank) {
    f->tasks = f->t->tasks.data + rank->first;
    f->n = rank->n;
    VEC_CLEAR(&f->nodes);
    VEC_CLEAR(&f->acc_definition);
    VEC_CLEAR(&f->acc_number);
    VEC_CLEAR(&f->acc_live);
    for (uint32_t i = 0; i < f->n; i++)
        VEC_PUSH(&f->nodes, (struct node){.before = NONE,
                                          .operands = f->tasks[i].operands,
                                          .first_operand = f->tasks[i].first_operand,
                                          .own_operands = f->tasks[i].operands,
                                          .shadowed = NONE,
                                          .first_extra = NONE,
                                          .last_extra = NONE});
    (void)VEC_ADD_N(&f->acc_live, rank->accs);
    for (uint32_t i = 0; i < rank->accs; i++) {
        VEC_PUSH(&f->acc_definition, NONE);
        VEC_PUSH(&f->acc_number, NONE);
    }
    count_uses(f);
    join_tasks(f);
    drop_tasks(f);
    uint32_t first = rank->first;
    rank->first = f->written;
    rank->accs = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        tasks_fetch_message(f->t, first + i, first + f->n);
        if (!f->nodes.data[i].gone)
            write_task(f, i, &rank->accs);
    }
    rank->n = f->written - rank->first;
}

/* Without the pieces that nothing fills any more. */
static void pack_pieces(struct fusion *f) {
    struct tasks *t = f->t;
    uint32_t *number = f->next_extra, n = 0; /* its work is done */
    for (uint32_t p = 0; p < t->pieces.count; p++) {
        if (!f->piece_live.data[p])
            continue;
        t->pieces.data[n] = t->pieces.data[p];
        number[p] = n++;
    }
    t->pieces.count = n;
    for (size_t i = 0; i < f->operands.count; i++)
        if (f->operands.data[i].kind == OPERAND_PIECE)
            f->operands.data[i].index = number[f->operands.data[i].index];
    for (size_t i = 0; i < f->outs.count; i++)
        f->outs.data[i] = number[f->outs.data[i]];
}

/* Scratch that no task uses any more has no size: it needs no memory. */
static void forget_chunks(struct fusion *f) {
    struct tasks *t = f->t;
    for (size_t i = 0; i < f->operands.count; i++)
        if (f->operands.data[i].kind == OPERAND_CHUNK)
            f->live.data[f->operands.data[i].index] = 1;
    for (size_t i = 0; i < t->tasks.count; i++)
        if (stores(&t->tasks.data[i]) && t->tasks.data[i].store.kind == OPERAND_CHUNK)
            f->live.data[t->tasks.data[i].store.index] = 1;
    for (size_t i = 0; i < t->flow->buffers.count; i++) {
        const struct flow_buffer *b = &t->flow->buffers.data[i];
        size_t chunks = (size_t)b->chunks * (size_t)b->members;
        for (size_t c = 0; c < chunks && b->role == ROLE_SCRATCH; c++)
            if (!f->live.data[b->first_loc + c])
                t->loc_size.data[b->first_loc + c] = NONE;
    }
}

/* ---- the pass ----------------------------------------------------------------------------- */

bool pass_fuse(struct compilation *c) {
    struct tasks *t = c->tasks;
    struct fusion f = {.t = t};
    if (!tasks_check_unsliced(t, c->diag, "fuse"))
        return false;
    tasks_mark_finals(t, VEC_ADD_N(&f.live, t->flow->locs));
    (void)VEC_ADD_N(&f.piece_live, t->pieces.count);
    f.definition = index_array_new(t->flow->locs, NULL);
    f.next_extra = index_array_new(t->pieces.count, NULL);
    VEC_RESERVE(&f.operands, t->operands.count + 1); /* 1: never NULL */
    VEC_RESERVE(&f.outs, t->outs.count + 1);
    size_t pieces = t->pieces.count;
    for (size_t r = 0; r < t->ranks.count; r++)
        fuse_rank(&f, &t->ranks.data[r]);
    t->tasks.count = f.written;
    pack_pieces(&f);
    forget_chunks(&f);
    VEC_FREE(&t->operands);
    VEC_FREE(&t->outs);
    memcpy(&t->operands, &f.operands, sizeof t->operands);
    memcpy(&t->outs, &f.outs, sizeof t->outs);
    VEC_FREE(&f.live);
    VEC_FREE(&f.piece_live);
    VEC_FREE(&f.nodes);
    VEC_FREE(&f.acc_definition);
    VEC_FREE(&f.acc_number);
    VEC_FREE(&f.acc_live);
    index_array_free(f.definition, t->flow->locs, NULL);
    index_array_free(f.next_extra, pieces, NULL);
    return true;
}
