/* Runs a flow over values, in program order: what each transfer reads, what arrives, which encoding
 * it moves, and what every chunk holds at the end. LANGUAGE's meaning is here: sums that stay open
 * until somebody reads, steps whose reads come before their writes, one encoding per rank, value
 * and codec.
 *
 * A chunk is empty, holds a value, or holds a sum that is still open:
 *
 *     state[loc] = NONE | value | OPEN + number of an open sum
 *
 * Linear in the transfers. The operands of open sums are linked lists in one pool; the first two
 * stand in the sum itself, which is all that a ring needs.
 */
#include "compiler/ir.h"

#include <stdlib.h>
#include <string.h>

#define OPEN UINT32_C(0x80000000)
/* What an operation that was reported as wrong left behind; just below NONE. */
#define POISON UINT32_C(0xfffffffe)

struct open_sum {
    uint32_t n;
    uint32_t value[2]; /* the first two operands */
    uint32_t transfer; /* that added the second */
    uint32_t first_link, last_link;
};
struct link {
    uint32_t value, transfer, next;
};

/* Encoded bytes that a rank has: made from, or decoding to, `value`. A power of two, open
 * addressing. */
struct holding {
    uint64_t key;
    uint32_t encoding; /* NONE: free */
};
struct holdings {
    VEC(struct holding) at;
};

struct tracer {
    struct values *v;
    const struct flow *f;
    struct diag *d;
    struct flow_trace *out;
    uint32_t *state;      /* [locs] */
    uint32_t *written_by; /* [locs] op that wrote it last, kept only for ops of steps */
    VEC(struct open_sum) open;
    VEC(uint32_t) free_open;
    VEC(struct link) links;
    uint32_t free_links;
    VEC(uint32_t) operands; /* of the sum being closed */
    struct holdings held;
    size_t held_count;
    bool *lossless; /* [codecs] */
    bool wrong;
    /* values_find_addition */
    uint32_t watch_sum, watch_operand, found;
};

/* ---- sums --------------------------------------------------------------------------------- */

static void link_operand(struct tracer *t, struct open_sum *s, uint32_t value, uint32_t transfer) {
    uint32_t at = t->free_links;
    if (at != NONE) {
        t->free_links = t->links.data[at].next;
    } else {
        at = (uint32_t)t->links.count;
        (void)VEC_ADD(&t->links);
    }
    t->links.data[at] = (struct link){value, transfer, NONE};
    if (s->n == 2)
        s->first_link = at;
    else
        t->links.data[s->last_link].next = at;
    s->last_link = at;
    s->n++;
}

static void add_operand(struct tracer *t, loc_id loc, uint32_t value, uint32_t transfer) {
    uint32_t held = t->state[loc];
    if (held & OPEN) {
        link_operand(t, &t->open.data[held - OPEN], value, transfer);
        return;
    }
    uint32_t at;
    if (t->free_open.count) {
        at = VEC_POP(&t->free_open);
    } else {
        at = (uint32_t)t->open.count;
        (void)VEC_ADD(&t->open);
    }
    t->open.data[at] = (struct open_sum){2, {held, value}, transfer, NONE, NONE};
    t->state[loc] = OPEN + at;
}

/* The operands stand in the sum in the order they came, but for the first two, which value_sum
 * sorts. */
static void watch(struct tracer *t, const struct open_sum *s, uint32_t sum) {
    uint32_t k = t->watch_operand;
    if (sum != t->watch_sum || t->found != NONE)
        return;
    if (k < 2) {
        bool swapped = s->value[0] > s->value[1];
        t->found = k == (swapped ? 0u : 1u) ? s->transfer : NONE;
        return;
    }
    uint32_t link = s->first_link;
    for (uint32_t i = 2; i < k; i++)
        link = t->links.data[link].next;
    t->found = t->links.data[link].transfer;
}

/* The value in a chunk that is not empty; an open sum is complete now. */
static uint32_t complete(struct tracer *t, loc_id loc) {
    uint32_t held = t->state[loc];
    if (!(held & OPEN) || held >= POISON)
        return held;
    struct open_sum *s = &t->open.data[held - OPEN];
    uint32_t value;
    if (s->n == 2) {
        value = value_sum(t->v, s->value, 2);
    } else {
        VEC_CLEAR(&t->operands);
        VEC_PUSH(&t->operands, s->value[0]);
        VEC_PUSH(&t->operands, s->value[1]);
        for (uint32_t link = s->first_link; link != NONE; link = t->links.data[link].next)
            VEC_PUSH(&t->operands, t->links.data[link].value);
        value = value_sum(t->v, t->operands.data, s->n);
    }
    if (t->watch_sum != NONE)
        watch(t, s, value);
    if (s->n > 2) {
        t->links.data[s->last_link].next = t->free_links;
        t->free_links = s->first_link;
    }
    VEC_PUSH(&t->free_open, held - OPEN);
    t->state[loc] = value;
    return value;
}

/* ---- encodings ---------------------------------------------------------------------------- */

static struct holdings holdings_new(size_t n, struct vec_guard *g) {
    struct holdings h = {{.guard = g}};
    VEC_RESERVE(&h.at, n);
    memset(h.at.data, 0xff, n * sizeof *h.at.data);
    h.at.count = n;
    return h;
}

static uint64_t holding_key(int32_t rank, uint16_t codec, uint32_t value) {
    return (uint64_t)(uint16_t)rank << 48 | (uint64_t)codec << 32 | value;
}

/* Where the key is, or would go. Neighbouring ranks are neighbours: a value goes round from rank to
 * rank, and then mostly finds its place in the cache. */
static size_t holdings_place(const struct holdings *h, uint64_t key) {
    uint64_t rank = key >> 48, near = rank % 8;
    uint64_t m = (key ^ near << 48) * UINT64_C(0x9e3779b97f4a7c15);
    m = (m ^ m >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
    m ^= m >> 32;
    size_t mask = h->at.count - 1, at = (size_t)(m * 8 + near) & mask;
    while (h->at.data[at].encoding != NONE && h->at.data[at].key != key)
        at = (at + 1) & mask;
    return at;
}

static void holdings_grow(struct tracer *t) {
    struct holdings old = t->held, grown = holdings_new(2 * old.at.count, old.at.guard);
    for (size_t i = 0; i < old.at.count; i++)
        if (old.at.data[i].encoding != NONE)
            grown.at.data[holdings_place(&grown, old.at.data[i].key)] = old.at.data[i];
    t->held = grown;
    VEC_FREE(&old.at);
}

/* The first bytes of a kind that a rank has are the ones it sends. */
static void hold(struct tracer *t, int32_t rank, uint16_t codec, uint32_t value,
                 uint32_t encoding) {
    uint64_t key = holding_key(rank, codec, value);
    size_t at = holdings_place(&t->held, key);
    if (t->held.at.data[at].encoding != NONE)
        return;
    t->held.at.data[at] = (struct holding){key, encoding};
    if (3 * ++t->held_count > 2 * t->held.at.count)
        holdings_grow(t);
}

static uint32_t encode(struct tracer *t, const struct flow_op *op, uint32_t value,
                       uint32_t transfer) {
    size_t at = holdings_place(&t->held, holding_key(op->src_rank, op->codec, value));
    if (t->held.at.data[at].encoding != NONE)
        return t->held.at.data[at].encoding;
    uint32_t coded = value_coded(t->v, op->codec, value, op->src_rank);
    uint32_t encoding = (uint32_t)t->out->encodings.count;
    VEC_PUSH(&t->out->encodings,
             (struct encoding){op->src_rank, op->codec, value, coded, transfer});
    hold(t, op->src_rank, op->codec, value, encoding);
    if (coded != value)
        hold(t, op->src_rank, op->codec, coded, encoding);
    return encoding;
}

/* ---- what is wrong ------------------------------------------------------------------------ */

static const char *loc_text(char *text, size_t bytes, const struct flow *f, loc_id loc) {
    int32_t rank, chunk;
    const struct flow_buffer *b = flow_buffer_of(f, loc, &rank, &chunk);
    snprintf(text, bytes, "%s[%d]@%d", b->name, chunk, rank);
    return text;
}

enum { LOC_TEXT_BYTES = 160 };

static uint32_t report_empty(struct tracer *t, const struct flow_op *op, loc_id loc) {
    char text[LOC_TEXT_BYTES];
    flow_report(t->d, t->f, op, SEV_ERROR, "%s is read, but nothing has been stored in it",
                loc_text(text, sizeof text, t->f, loc));
    t->wrong = true;
    return POISON;
}

static bool report_unequal(struct tracer *t, const struct flow_op *op, loc_id src, loc_id dst,
                           uint32_t have, uint32_t want) {
    char from[LOC_TEXT_BYTES], to[LOC_TEXT_BYTES];
    flow_report(t->d, t->f, op, SEV_ERROR,
                "chunks of unequal size: %s holds part %u of a buffer, %s is part %u; they differ "
                "where the count does not divide",
                loc_text(from, sizeof from, t->f, src), have, loc_text(to, sizeof to, t->f, dst),
                want);
    t->wrong = true;
    return false;
}

/* What can be said of an operation before it runs. */
static bool check_op(struct tracer *t, const struct flow_op *op) {
    const struct flow *f = t->f;
    char text[LOC_TEXT_BYTES];
    int32_t src_rank, src_chunk, dst_rank, dst_chunk;
    const struct flow_buffer *src = flow_buffer_of(f, op->src, &src_rank, &src_chunk);
    const struct flow_buffer *dst = flow_buffer_of(f, op->dst, &dst_rank, &dst_chunk);
    int32_t count = (int32_t)op->count, gap = src_chunk - dst_chunk;
    bool same_buffer = src == dst && src_rank == dst_rank;
    bool overlap = same_buffer && gap < count && -gap < count;
    if (src_rank != op->src_rank || dst_rank != op->dst_rank || count > src->chunks - src_chunk ||
        count > dst->chunks - dst_chunk)
        flow_report(t->d, f, op, SEV_ERROR, "internal error: %u chunks from %s leave the buffer",
                    op->count, loc_text(text, sizeof text, f, op->src));
    else if (dst->role == ROLE_INPUT)
        flow_report(t->d, f, op, SEV_ERROR, "%s is an input, and inputs are never written",
                    loc_text(text, sizeof text, f, op->dst));
    else if (overlap && gap != 0)
        flow_report(t->d, f, op, SEV_ERROR,
                    "%s[%d +: %d]@%d and %s[%d +: %d]@%d overlap and are not the same", src->name,
                    src_chunk, count, src_rank, dst->name, dst_chunk, count, dst_rank);
    else if (overlap && op->kind == FLOW_REDUCE)
        flow_report(t->d, f, op, SEV_ERROR, "%s is reduced into itself",
                    loc_text(text, sizeof text, f, op->dst));
    else
        return true;
    t->wrong = true;
    return false;
}

/* ---- one transfer ------------------------------------------------------------------------- */

static void read_chunk(struct tracer *t, const struct flow_op *op, uint32_t i) {
    uint32_t transfer = op->first_transfer + i, value = complete(t, op->src + i);
    if (value == NONE)
        value = report_empty(t, op, op->src + i);
    t->out->read[transfer] = t->out->moved[transfer] = value;
    if (value == POISON || (op->message == NONE && t->lossless[op->codec]))
        return;
    uint32_t e = encode(t, op, value, transfer);
    t->out->encoding[transfer] = e;
    t->out->moved[transfer] = t->out->encodings.data[e].coded;
}

/* Sizes agree, or are reported. */
static bool check_size(struct tracer *t, const struct flow_op *op, uint32_t i, bool dst_sized,
                       uint32_t moved) {
    loc_id dst = op->dst + i;
    uint32_t have = value_get(t->v, moved)->size, held = t->state[dst], want = have;
    if (dst_sized)
        want = flow_size_class(t->f, dst);
    else if (op->kind == FLOW_REDUCE && held != NONE && held != POISON)
        want = value_get(t->v, held & OPEN ? t->open.data[held - OPEN].value[0] : held)->size;
    return have == want || report_unequal(t, op, op->src + i, dst, have, want);
}

static void write_chunk(struct tracer *t, const struct flow_op *op, uint32_t i, bool dst_sized) {
    uint32_t transfer = op->first_transfer + i, moved = t->out->moved[transfer];
    loc_id dst = op->dst + i;
    uint32_t *held = &t->state[dst];
    bool copies = op->kind == FLOW_COPY || *held == NONE;
    if (op->message != NONE && moved != POISON)
        hold(t, op->dst_rank, op->codec, moved, t->out->encoding[transfer]);
    if (moved == POISON || (*held == POISON && !copies) ||
        !check_size(t, op, i, dst_sized, moved)) {
        complete(t, dst); /* gives the open sum back */
        *held = POISON;
    } else if (!copies) {
        add_operand(t, dst, moved, transfer);
    } else if (op->src != op->dst || moved != t->out->read[transfer]) {
        if (*held != NONE)
            complete(t, dst);
        *held = moved;
    }
}

static bool has_fixed_size(const struct tracer *t, const struct flow_op *op) {
    return flow_buffer_of(t->f, op->dst, NULL, NULL)->role != ROLE_SCRATCH;
}

/* ---- operations and steps ----------------------------------------------------------------- */

/* An operation that check_op refuses has no effect, so that it does not lead to more messages. */
static void run_op(struct tracer *t, const struct flow_op *op) {
    if (!check_op(t, op))
        return;
    bool sized = has_fixed_size(t, op);
    for (uint32_t i = 0; i < op->count; i++) {
        read_chunk(t, op, i);
        write_chunk(t, op, i, sized);
    }
}

/* Two writes to one chunk in a step: both are reductions. The steps' operations stand together, so
 * a write of an earlier step has a smaller number than the first operation of this one. */
static bool check_conflict(struct tracer *t, uint32_t first, uint32_t at, uint32_t i) {
    const struct flow_op *op = &t->f->ops.data[at];
    if (op->src == op->dst && t->lossless[op->codec])
        return true; /* only a read */
    uint32_t *by = &t->written_by[op->dst + i];
    uint32_t before = *by;
    *by = at;
    if (before == NONE || before < first)
        return true;
    const struct flow_op *other = &t->f->ops.data[before];
    if (op->kind == FLOW_REDUCE && other->kind == FLOW_REDUCE)
        return true;
    char text[LOC_TEXT_BYTES];
    flow_report(t->d, t->f, op, SEV_ERROR,
                "%s is written twice in one step, and not by reductions alone",
                loc_text(text, sizeof text, t->f, op->dst + i));
    flow_report(t->d, t->f, other, SEV_NOTE, "the other write");
    t->wrong = true;
    return false;
}

static void run_step(struct tracer *t, uint32_t first, uint32_t end) {
    const struct flow_op *ops = t->f->ops.data;
    if (!t->written_by)
        t->written_by = index_array_new(t->f->locs, t->f->guard);
    for (uint32_t at = first; at < end; at++) {
        if (!check_op(t, &ops[at]))
            continue;
        for (uint32_t i = 0; i < ops[at].count; i++)
            read_chunk(t, &ops[at], i);
    }
    for (uint32_t at = first; at < end; at++) {
        if (t->out->read[ops[at].first_transfer] == NONE)
            continue; /* refused above */
        bool sized = has_fixed_size(t, &ops[at]);
        for (uint32_t i = 0; i < ops[at].count; i++)
            if (check_conflict(t, first, at, i))
                write_chunk(t, &ops[at], i, sized);
    }
}

static void run_ops(struct tracer *t) {
    const struct flow *f = t->f;
    for (uint32_t at = 0, end; at < f->ops.count && !diag_full(t->d); at = end) {
        end = at + 1;
        if (!f->ops.data[at].step) {
            run_op(t, &f->ops.data[at]);
            continue;
        }
        while (end < f->ops.count && f->ops.data[end].step == f->ops.data[at].step)
            end++;
        run_step(t, at, end);
    }
}

static void finish(struct tracer *t) {
    for (loc_id loc = 0; loc < t->f->locs; loc++) {
        uint32_t value = t->state[loc] == NONE ? NONE : complete(t, loc);
        t->out->final[loc] = value == POISON ? NONE : value;
    }
}

/* ---- from start to end -------------------------------------------------------------------- */

enum { FIRST_HOLDINGS = 1024 };

static void store_inputs(struct tracer *t) {
    const struct flow *f = t->f;
    t->state = index_array_new(f->locs, f->guard);
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        if ((b->role != ROLE_INPUT && b->role != ROLE_INOUT) || !b->members)
            continue;
        uint32_t locs = (uint32_t)b->members * (uint32_t)b->chunks;
        uint32_t value = value_input(t->v, b->first_loc);
        for (uint32_t k = 0; k < locs; k++)
            t->state[b->first_loc + k] = value + k;
    }
}

static struct tracer *tracer_start(struct values *v, const struct flow *f, struct diag *d,
                                   struct flow_trace *out) {
    struct tracer *t = calloc(1, sizeof *t);
    bool *lossless = calloc(f->codecs.count, sizeof *lossless);
    if (!t || !lossless) {
        free(t);
        free(lossless);
        if (f->guard && f->guard->on_out_of_memory)
            f->guard->on_out_of_memory(f->guard->ctx);
        abort();
    }
    *t = (struct tracer){.v = v,
                         .f = f,
                         .d = d,
                         .out = out,
                         .lossless = lossless,
                         .free_links = NONE,
                         .watch_sum = NONE,
                         .found = NONE};
    out->running = t;
    for (size_t i = 0; i < f->codecs.count; i++)
        t->lossless[i] = codec_is_lossless(&f->codecs.data[i], f->setup.dtype);
    VEC_GUARD(&t->open, f->guard);
    VEC_GUARD(&t->free_open, f->guard);
    VEC_GUARD(&t->links, f->guard);
    VEC_GUARD(&t->operands, f->guard);
    VEC_GUARD(&out->encodings, f->guard);
    out->read = index_array_new(f->transfers, f->guard);
    out->moved = index_array_new(f->transfers, f->guard);
    out->encoding = index_array_new(f->transfers, f->guard);
    out->final = index_array_new(f->locs, f->guard);
    t->held = holdings_new(FIRST_HOLDINGS, f->guard);
    store_inputs(t);
    return t;
}

static void tracer_end(struct flow_trace *out, const struct flow *f) {
    struct tracer *t = out->running;
    if (!t)
        return;
    index_array_free(t->state, f->locs, f->guard);
    index_array_free(t->written_by, f->locs, f->guard);
    VEC_FREE(&t->open);
    VEC_FREE(&t->free_open);
    VEC_FREE(&t->links);
    VEC_FREE(&t->operands);
    VEC_FREE(&t->held.at);
    free(t->lossless);
    free(t);
    out->running = NULL;
}

bool values_trace(struct values *v, const struct flow *f, struct diag *d, struct flow_trace *out) {
    struct tracer *t = tracer_start(v, f, d, out);
    run_ops(t);
    bool good = !t->wrong;
    if (good)
        finish(t);
    tracer_end(out, f);
    return good;
}

void flow_trace_free(struct flow_trace *out, const struct flow *f) {
    if (!f)
        return;
    tracer_end(out, f);
    index_array_free(out->read, f->transfers, f->guard);
    index_array_free(out->moved, f->transfers, f->guard);
    index_array_free(out->encoding, f->transfers, f->guard);
    index_array_free(out->final, f->locs, f->guard);
    VEC_FREE(&out->encodings);
    *out = (struct flow_trace){0};
}

uint32_t values_find_addition(struct values *v, const struct flow *f, struct diag *d, uint32_t sum,
                              uint32_t k) {
    struct flow_trace out = {0};
    struct tracer *t = tracer_start(v, f, d, &out);
    t->watch_sum = sum;
    t->watch_operand = k;
    run_ops(t);
    finish(t);
    uint32_t found = t->found;
    flow_trace_free(&out, f);
    return found;
}
