/* slice: every chunk in K pieces, so that the codec of one slice can run while another one travels.
 *
 *     t0 recv m0 p0 from 1                      t0 recv m0 p0 from 1 slice 0
 *     t1 decode data[2] = p0             ->     t1 recv m1 p1 from 1 slice 1
 *                                               t2 decode data[2] = p0 slice 0
 *                                               t3 decode data[2] = p1 slice 1
 *
 * K is the caller's, else the schedule's, else chosen from the largest message; tasks.c says where
 * slices start. Slices and chunks without elements vanish with their tasks, pieces and messages:
 * both ends of a message see the same sizes.
 *
 * Requires: what lower ensures. Ensures: pieces have their bytes, and of all things with a slice
 * those of slice 0 come first; tasks and pieces stand as after lower.
 */
#include "compiler/ir.h"

#include <inttypes.h>

enum {
    MOST_CHOSEN = 8,
    UNIT_BYTES = 128, /* slices start at multiples of this */
};
/* Less is not worth a round of its own: over sockets of one machine, 16 MiB in slices of 4 took a
 * tenth to a third longer than whole; slices of 16 MiB took less than any others. */
#define SLICE_BYTES (UINT64_C(16) << 20)

/* ---- how many ----------------------------------------------------------------------------- */

/* Codecs and sums are what a transfer can hide. */
static bool has_work(const struct tasks *t) {
    for (size_t i = 0; i < t->pieces.count; i++)
        if (t->pieces.data[i].codec)
            return true;
    for (size_t i = 0; i < t->tasks.count; i++)
        if (t->tasks.data[i].kind == TASK_COMPUTE && t->tasks.data[i].operands > 1)
            return true;
    return false;
}

static uint64_t largest_message_bytes(const struct tasks *t) {
    uint64_t largest = 0;
    for (size_t i = 0; i < t->messages.count; i++) {
        const struct task *k = &t->tasks.data[t->messages.data[i].send];
        uint64_t elems = 0;
        for (uint32_t j = 0; j < k->operands; j++)
            elems += t->pieces.data[t->operands.data[k->first_operand + j].index].elems;
        largest = elems > largest ? elems : largest;
    }
    return largest * dtype_bytes(t->flow->setup.dtype);
}

static uint32_t choose(const struct tasks *t) {
    uint64_t slices = largest_message_bytes(t) / SLICE_BYTES;
    if (slices < 2 || !has_work(t))
        return 1;
    return slices < MOST_CHOSEN ? (uint32_t)slices : MOST_CHOSEN;
}

static uint64_t common_multiple(uint64_t a, uint64_t b) {
    uint64_t x = a, y = b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* A multiple of what every codec in use asks for; 0: one of them cannot be cut, *whole. A repair is
 * cut as the plan that it repairs. */
static uint64_t common_unit(const struct tasks *t, const struct codec **whole) {
    const struct flow *f = t->flow;
    const struct codec *codecs = f->asked.count ? f->asked.data : f->codecs.data;
    VEC(uint8_t) used = {0};
    (void)VEC_ADD_N(&used, f->codecs.count);
    for (size_t i = 0; i < t->pieces.count; i++)
        used.data[t->pieces.data[i].codec] = 1;
    uint64_t unit = UNIT_BYTES / dtype_bytes(f->setup.dtype);
    for (size_t i = 0; i < f->codecs.count && unit; i++) {
        uint64_t own = used.data[i] ? codec_slice_unit(&codecs[i], f->setup.dtype) : 1;
        unit = own && own <= UINT32_MAX ? common_multiple(unit, own) : 0;
        unit = unit <= UINT32_MAX ? unit : 0; /* no chunk is as large */
        if (!unit)
            *whole = &codecs[i];
    }
    VEC_FREE(&used);
    return unit;
}

static void decide(struct compilation *c, struct tasks *t) {
    const struct flow *f = t->flow;
    const struct codec *whole = NULL;
    uint32_t asked = c->setup.slices ? c->setup.slices : f->setup.slices;
    asked = asked ? asked : f->slices;
    uint64_t unit = common_unit(t, &whole);
    t->slices = asked ? asked : choose(t);
    if (whole && asked > 1) {
        char text[CODEC_TEXT_BYTES];
        diag_report(c->diag, SEV_WARNING, (struct span){0, 0},
                    "slices %" PRIu32 ": chunks stay whole, because %s cannot be cut", asked,
                    codec_format(whole, text, sizeof text));
    }
    t->slices = whole ? 1 : t->slices;
    t->slice_unit = unit ? (uint32_t)unit : 1;
}

/* ---- each thing in K ---------------------------------------------------------------------- */

/* These go from the end to the start, so that nothing is overwritten before it is read. */

static void cut_pieces(struct tasks *t) {
    uint32_t slices = t->slices;
    size_t n = t->pieces.count;
    (void)VEC_ADD_N(&t->pieces, n * (slices - 1));
    for (size_t i = n; i-- > 0;) {
        struct piece whole = t->pieces.data[i];
        for (uint32_t s = slices; s-- > 0;) {
            struct piece *p = &t->pieces.data[i * slices + s];
            *p = whole;
            p->slice = (uint16_t)s;
            p->elems = tasks_slice_start(whole.elems, t->slice_unit, slices, s + 1) -
                       tasks_slice_start(whole.elems, t->slice_unit, slices, s);
        }
    }
}

static void cut_messages(struct tasks *t) {
    uint32_t slices = t->slices;
    size_t n = t->messages.count;
    (void)VEC_ADD_N(&t->messages, n * (slices - 1));
    for (size_t i = n; i-- > 0;) {
        struct message whole = t->messages.data[i];
        for (uint32_t s = slices; s-- > 0;) {
            t->messages.data[i * slices + s] = whole;
            t->messages.data[i * slices + s].slice = (uint16_t)s;
        }
    }
}

static struct operand cut_operand(struct operand o, uint32_t slices, uint32_t slice) {
    if (o.kind != OPERAND_CHUNK && o.index != NONE)
        o.index = o.index * slices + slice;
    return o;
}

static void cut_operands(struct tasks *t, const struct task *k) {
    struct operand *run = t->operands.data + k->first_operand;
    struct operand *cut = t->operands.data + (size_t)k->first_operand * t->slices;
    for (uint32_t s = t->slices; s-- > 0;)
        for (uint32_t j = k->operands; j-- > 0;)
            cut[s * k->operands + j] = cut_operand(run[j], t->slices, s);
}

static void cut_outs(struct tasks *t, const struct task *k) {
    uint32_t *run = t->outs.data + k->first_out;
    uint32_t *cut = t->outs.data + (size_t)k->first_out * t->slices;
    for (uint32_t s = t->slices; s-- > 0;)
        for (uint32_t j = k->outs; j-- > 0;)
            cut[s * k->outs + j] = run[j] * t->slices + s;
}

static void cut_tasks(struct tasks *t) {
    uint32_t slices = t->slices;
    size_t n = t->tasks.count;
    (void)VEC_ADD_N(&t->tasks, n * (slices - 1));
    size_t more_operands = t->operands.count * (slices - 1);
    size_t more_outs = t->outs.count * (slices - 1);
    (void)VEC_ADD_N(&t->operands, more_operands);
    (void)VEC_ADD_N(&t->outs, more_outs);
    for (size_t i = n; i-- > 0;) {
        struct task whole = t->tasks.data[i];
        cut_operands(t, &whole);
        cut_outs(t, &whole);
        for (uint32_t s = slices; s-- > 0;) {
            struct task *k = &t->tasks.data[i * slices + s];
            *k = whole;
            k->slice = (uint16_t)s;
            k->first_operand = whole.first_operand * slices + s * whole.operands;
            k->first_out = whole.first_out * slices + s * whole.outs;
            k->store = cut_operand(whole.store, slices, s);
            if (k->message != NONE)
                k->message = k->message * slices + s;
        }
    }
    for (size_t r = 0; r < t->ranks.count; r++) {
        t->ranks.data[r].first *= slices;
        t->ranks.data[r].n *= slices;
        t->ranks.data[r].accs *= slices;
    }
}

/* ---- what is empty ------------------------------------------------------------------------ */

/* Tables from the numbers before to those after; NONE: gone. */
struct packing {
    struct tasks *t;
    uint32_t *piece, *message;
    VEC(uint32_t) acc; /* [accs of the rank at hand] */
    uint32_t written;
};

static void pack_pieces(struct packing *p) {
    struct tasks *t = p->t;
    uint32_t n = 0;
    for (size_t i = 0; i < t->pieces.count; i++) {
        if (!t->pieces.data[i].elems)
            continue;
        t->pieces.data[n] = t->pieces.data[i];
        p->piece[i] = n++;
    }
    t->pieces.count = n;
}

static void pack_messages(struct packing *p) {
    struct tasks *t = p->t;
    for (size_t i = 0; i < t->tasks.count; i++) {
        const struct task *k = &t->tasks.data[i];
        for (uint32_t j = 0; k->kind == TASK_SEND && j < k->operands; j++)
            if (p->piece[t->operands.data[k->first_operand + j].index] != NONE)
                p->message[k->message] = 0; /* stays; numbered below */
    }
    uint32_t n = 0;
    for (size_t i = 0; i < t->messages.count; i++) {
        if (p->message[i] == NONE)
            continue;
        t->messages.data[n] = t->messages.data[i];
        p->message[i] = n++;
    }
    t->messages.count = n;
}

/* The task without its empty pieces, under the new numbers; false: nothing is left of it. */
static bool pack_task(struct packing *p, struct task *k) {
    struct tasks *t = p->t;
    struct operand *operand = t->operands.data + k->first_operand;
    uint32_t *out = t->outs.data + k->first_out, n = 0;
    if (k->kind != TASK_COMPUTE && (k->message = p->message[k->message]) == NONE)
        return false;
    for (uint32_t j = 0; j < k->operands; j++) {
        struct operand o = operand[j];
        if (o.kind == OPERAND_PIECE)
            o.index = p->piece[o.index];
        if (o.kind == OPERAND_ACC)
            o.index = p->acc.data[o.index];
        if (o.index != NONE)
            operand[n++] = o;
        else if (k->kind == TASK_COMPUTE)
            return false;
    }
    k->operands = n;
    n = 0;
    for (uint32_t j = 0; j < k->outs; j++)
        if (p->piece[out[j]] != NONE)
            out[n++] = p->piece[out[j]];
    if (k->kind == TASK_COMPUTE && n < k->outs)
        return false;
    k->outs = n;
    return k->kind != TASK_COMPUTE || tasks_elems(t, k);
}

static void pack_rank(struct packing *p, struct rank_tasks *rank) {
    struct tasks *t = p->t;
    uint32_t first = rank->first, accs = 0;
    VEC_CLEAR(&p->acc);
    for (uint32_t i = 0; i < rank->accs; i++)
        VEC_PUSH(&p->acc, NONE);
    rank->first = p->written;
    for (uint32_t i = 0; i < rank->n; i++) {
        tasks_fetch_message(t, first + i, first + rank->n);
        struct task k = t->tasks.data[first + i];
        if (!pack_task(p, &k))
            continue;
        if (k.kind == TASK_COMPUTE && k.store.kind == OPERAND_ACC && k.store.index != NONE) {
            uint32_t *number = &p->acc.data[k.store.index];
            if (*number == NONE)
                *number = accs++;
            k.store.index = *number;
        }
        if (k.kind == TASK_SEND)
            t->messages.data[k.message].send = p->written;
        if (k.kind == TASK_RECV)
            t->messages.data[k.message].recv = p->written;
        t->tasks.data[p->written++] = k;
    }
    rank->n = p->written - rank->first;
    rank->accs = accs;
}

/* The common case: uncut, and every chunk has elements. */
static bool nothing_is_empty(const struct tasks *t) {
    bool full = t->slices == 1;
    for (size_t i = 0; full && i < t->size_elems.count; i++)
        full = t->size_elems.data[i] > 0;
    for (size_t i = 0; full && i < t->pieces.count; i++)
        full = t->pieces.data[i].elems > 0;
    return full;
}

static void drop_empty(struct tasks *t) {
    size_t pieces = t->pieces.count, messages = t->messages.count;
    if (nothing_is_empty(t))
        return;
    struct packing p = {
        .t = t, .piece = index_array_new(pieces, NULL), .message = index_array_new(messages, NULL)};
    pack_pieces(&p);
    pack_messages(&p);
    for (size_t r = 0; r < t->ranks.count; r++)
        pack_rank(&p, &t->ranks.data[r]);
    t->tasks.count = p.written;
    index_array_free(p.piece, pieces, NULL);
    index_array_free(p.message, messages, NULL);
    VEC_FREE(&p.acc);
}

/* ---- bytes -------------------------------------------------------------------------------- */

/* What a learned slot may be: never too small for the overflow mark, never larger than any data
 * needs. */
static uint64_t learned_bytes(const struct setup *s, const struct piece *p,
                              const struct codec *codec, uint32_t slices) {
    size_t index = (size_t)p->encoding * slices + p->slice;
    if (p->encoding == NONE || !s->slot_bytes || index >= s->slot_count || !s->slot_bytes[index])
        return 0;
    uint64_t bytes = s->slot_bytes[index];
    uint64_t least = codec_least_bytes(codec, s->dtype, p->elems);
    uint64_t worst = codec_worst_bytes(codec, s->dtype, p->elems);
    bytes = bytes < least ? least : bytes;
    return bytes < worst ? bytes : worst;
}

static bool set_bytes(struct compilation *c, struct tasks *t) {
    struct setup setup = t->flow->setup;
    if (c->setup.slot_bytes) {
        setup.slot_bytes = c->setup.slot_bytes;
        setup.slot_count = c->setup.slot_count;
    }
    uint64_t elems = 0, bytes = 0; /* of the piece before: most are like it */
    uint16_t codec = UINT16_MAX;
    for (size_t i = 0; i < t->pieces.count; i++) {
        struct piece *p = &t->pieces.data[i];
        const struct codec *how = &t->flow->codecs.data[p->codec];
        if (p->codec != codec || p->elems != elems)
            bytes = codec_slot_bytes(how, setup.dtype, p->elems);
        codec = p->codec;
        elems = p->elems;
        if (bytes == CODEC_SIZE_ERROR) {
            char text[CODEC_TEXT_BYTES];
            diag_report(c->diag, SEV_ERROR, (struct span){0, 0},
                        "%" PRIu64 " elements are too many for one piece of %s", elems,
                        codec_format(how, text, sizeof text));
            return false;
        }
        uint64_t learned = learned_bytes(&setup, p, how, t->slices);
        p->bytes = learned ? learned : bytes;
    }
    for (size_t i = 0; i < t->messages.count; i++) {
        struct message *m = &t->messages.data[i];
        const struct task *k = &t->tasks.data[m->send];
        m->bytes = 0;
        for (uint32_t j = 0; j < k->operands; j++)
            m->bytes += t->pieces.data[t->operands.data[k->first_operand + j].index].bytes;
    }
    return true;
}

/* ---- the pass ----------------------------------------------------------------------------- */

/* A text may say what the passes before never do. */
static bool check_sizes(struct compilation *c, const struct tasks *t) {
    for (size_t i = 0; i < t->messages.count; i++) {
        const struct task *send = &t->tasks.data[t->messages.data[i].send];
        const struct task *recv = &t->tasks.data[t->messages.data[i].recv];
        bool same = send->operands == recv->outs;
        for (uint32_t j = 0; same && j < recv->outs; j++)
            same = t->pieces.data[t->operands.data[send->first_operand + j].index].elems ==
                   t->pieces.data[t->outs.data[recv->first_out + j]].elems;
        if (!same) {
            tasks_report(c->diag, t, t->messages.data[i].send, SEV_ERROR,
                         "slice: m%zu from rank %" PRId32 " to rank %" PRId32
                         " has other pieces at its two ends",
                         i, t->messages.data[i].src, t->messages.data[i].dst);
            return false;
        }
    }
    return true;
}

/* Both the numbers and the memory: text can ask for many slices of many tasks. */
static bool fits(const struct compilation *c, const struct tasks *t) {
    uint64_t n = t->tasks.count > t->operands.count ? t->tasks.count : t->operands.count;
    n = n > t->outs.count ? n : t->outs.count;
    uint64_t bytes =
        t->tasks.count * sizeof *t->tasks.data + t->operands.count * sizeof *t->operands.data +
        t->pieces.count * sizeof *t->pieces.data + t->messages.count * sizeof *t->messages.data;
    return n < UINT32_MAX / t->slices &&
           (!c->guard.limit_bytes || bytes < c->guard.limit_bytes / t->slices);
}

bool pass_slice(struct compilation *c) {
    struct tasks *t = c->tasks;
    if (!tasks_check_unsliced(t, c->diag, "slice") || !check_sizes(c, t))
        return false;
    decide(c, t);
    if (t->slices > 1 && !fits(c, t)) {
        diag_report(c->diag, SEV_ERROR, (struct span){0, 0},
                    "%" PRIu32 " slices make too many tasks", t->slices);
        return false;
    }
    tasks_cut_sizes(t);
    if (t->slices > 1) {
        cut_pieces(t);
        cut_messages(t);
        cut_tasks(t);
    }
    drop_empty(t);
    return set_bytes(c, t);
}
