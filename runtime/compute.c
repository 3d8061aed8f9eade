/*
 * compute.c: one compute task: operands -> a value -> a chunk or an accumulator, and encodings
 * of it.
 *
 * One operand is moved bit by bit. More are summed block by block, so that the accumulator
 * stays in the first-level cache: opened from the first, added to in order, divided, rounded
 * once. Blocks do not change bits, since every step works element by element.
 *
 * A value that fell to an overflow is not computed with. Whatever the task makes is marked in
 * turn: chunks and accumulators in the flags of their rank, encodings in their headers. An
 * encoding without a header carries zeros then, and the rank's status word is the witness.
 */
#include "kernels/reduce.h"
#include "runtime/engine.h"

#include <string.h>
#include <time.h>

#define BLOCK_ELEMS 2048

struct compute {
    struct run *r;
    struct worker *w;
    struct rank_run *rank;
    const struct loaded *l;
    const struct tasks *t;
    const struct task *k;
    struct run_stage *stage;
    enum dtype type;
    uint64_t elems, elem_bytes;
    uint64_t taken_bytes; /* of the worker's value scratch */
};

struct source {
    const char *at;
    bool acc; /* in the accumulator's type */
};

double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static char *chunk_memory(const struct compute *c, loc_id loc) {
    const struct place *p = &c->l->places[loc];
    uint64_t first;
    tasks_slice_elems(c->t, loc, c->k->slice, &first);
    uint64_t at = p->offset_bytes + first * c->elem_bytes;
    /* load.c lets nothing be stored to PLACE_SEND */
    return p->kind == PLACE_SEND   ? (char *)(uintptr_t)c->rank->send + at
           : p->kind == PLACE_WORK ? c->rank->work + at
                                   : c->rank->arena + at;
}

static uint32_t acc_number(const struct compute *c, uint32_t acc) {
    return c->t->ranks.data[c->rank - c->r->ranks].first_acc + acc;
}

static char *acc_memory(const struct compute *c, uint32_t acc) {
    return c->rank->arena + c->t->acc_offsets.data[acc_number(c, acc)];
}

static char *take_value(struct compute *c) {
    char *at = c->w->scratch + c->l->codec_bytes + c->taken_bytes;
    c->taken_bytes += scratch_portion(c->elems * c->elem_bytes);
    return at;
}

static uint8_t *lost_flag(const struct compute *c, struct operand o) {
    if (o.kind == OPERAND_ACC)
        return &c->r->lost_accs[acc_number(c, o.index)];
    return &c->r->lost_chunks[(size_t)o.index * c->t->slices + c->k->slice];
}

/* ---- reading ---- */

/* Decodes a piece into dst. False: it was marked, or is no encoding. */
static bool decode(struct compute *c, uint32_t piece, char *dst) {
    const struct piece *p = &c->t->pieces.data[piece];
    const char *reason = NULL;
    struct codec_state state = states_of(c->r->states, c->r->map, piece, CODEC_DECODER);
    double start = clock_seconds();
    enum codec_status s =
        codec_decode_next(&c->t->flow->codecs.data[p->codec], c->type, c->rank->arena + p->offset,
                          p->bytes, c->elems, dst, c->w->scratch, &reason, &state);
    c->stage->decode_seconds += clock_seconds() - start;
    if (s == CODEC_MALFORMED && !c->rank->fault)
        c->rank->fault = reason ? reason : "malformed";
    return s == CODEC_OK;
}

/* Where the value of an operand can be read; `direct`, if not NULL, is where to decode to. */
static bool read_operand(struct compute *c, struct operand o, char *direct, struct source *out) {
    *out = (struct source){0};
    switch (o.kind) {
    case OPERAND_CHUNK:
        out->at = chunk_memory(c, o.index);
        return !*lost_flag(c, o);
    case OPERAND_ACC:
        out->at = acc_memory(c, o.index);
        out->acc = true;
        return !*lost_flag(c, o);
    case OPERAND_PIECE:
        break;
    }
    const struct piece *p = &c->t->pieces.data[o.index];
    if (piece_is_raw(c->t, p)) {
        out->at = c->rank->arena + p->offset;
        return true;
    }
    char *dst = direct ? direct : take_value(c);
    out->at = dst;
    return decode(c, o.index, dst);
}

/* ---- summing ---- */

/* acc[0 .. n) from elements first .. first+n of all sources. */
static void sum_block(const struct compute *c, const struct source *s, uint64_t first, uint64_t n,
                      char *acc) {
    enum redop op = c->t->flow->setup.redop;
    uint64_t wide = acc_bytes(c->type);
    for (uint32_t i = 0; i < c->k->operands; i++) {
        const char *at = s[i].at + first * (s[i].acc ? wide : c->elem_bytes);
        if (i > 0)
            reduce_add(s[i].acc ? acc_dtype(c->type) : c->type, op, acc, at, n);
        else if (!s[i].acc)
            reduce_open(c->type, at, acc, n);
        else if (at != acc)
            memcpy(acc, at, n * wide);
    }
    if (c->k->divide)
        reduce_divide(c->type, acc, n, c->k->divisor);
}

/* Sums into acc (not rounded) or value (rounded), or both; NULL where not wanted. */
static void sum_all(struct compute *c, const struct source *s, char *acc, char *value) {
    _Alignas(64) char block[BLOCK_ELEMS * sizeof(double)];
    double start = clock_seconds();
    for (uint64_t first = 0; first < c->elems; first += BLOCK_ELEMS) {
        uint64_t n = c->elems - first < BLOCK_ELEMS ? c->elems - first : BLOCK_ELEMS;
        char *to = acc ? acc + first * acc_bytes(c->type) : block;
        sum_block(c, s, first, n, to);
        if (value)
            reduce_close(c->type, to, value + first * c->elem_bytes, n);
    }
    c->stage->reduce_seconds += clock_seconds() - start;
}

/* ---- writing ---- */

static struct run_stage *encoding_stage(const struct compute *c, uint32_t piece) {
    return &c->w->stages[c->l->piece_stage[piece]];
}

static void encode(struct compute *c, uint32_t piece, const char *value) {
    const struct piece *p = &c->t->pieces.data[piece];
    struct run_stage *stage = encoding_stage(c, piece);
    struct codec_state state = states_of(c->r->states, c->r->map, piece, CODEC_ENCODER);
    uint64_t need = 0;
    double start = clock_seconds();
    enum codec_status s =
        codec_encode_next(&c->t->flow->codecs.data[p->codec], c->type, value, c->elems,
                          c->rank->arena + p->offset, p->bytes, &need, c->w->scratch, &state);
    stage->encode_seconds += clock_seconds() - start;
    stage->encodings++;
    size_t number = piece_number(c->t, p);
    if (number != NO_NUMBER)
        c->r->needs[number] = need;
    if (s == CODEC_OK)
        return;
    stage->overflows++;
    c->rank->overflowed = true;
}

/* An operand fell to an overflow: so does all that the task makes. */
static void lose(struct compute *c) {
    const struct task *k = c->k;
    c->rank->overflowed = true;
    if (k->store.index != NONE)
        *lost_flag(c, k->store) = 1;
    for (uint32_t i = 0; i < k->outs; i++) {
        uint32_t piece = c->t->outs.data[k->first_out + i];
        const struct piece *p = &c->t->pieces.data[piece];
        char *slot = c->rank->arena + p->offset;
        encoding_stage(c, piece)->encodings++;
        encoding_stage(c, piece)->overflows++;
        if (!codec_mark_overflow(&c->t->flow->codecs.data[p->codec], c->type, c->elems, slot,
                                 p->bytes, 0))
            memset(slot, 0, p->bytes);
    }
}

static void move(struct compute *c, const struct source *s, char *to) {
    double start = clock_seconds();
    if (to != s->at)
        memcpy(to, s->at, c->elems * c->elem_bytes);
    double seconds = clock_seconds() - start;
    if (c->t->operands.data[c->k->first_operand].kind == OPERAND_PIECE)
        c->stage->decode_seconds += seconds;
    else
        c->stage->reduce_seconds += seconds;
}

void compute_task(struct run *r, struct worker *w, struct rank_run *rank, uint32_t task) {
    const struct task *k = &r->l->t->tasks.data[task];
    enum dtype type = r->l->t->flow->setup.dtype;
    struct compute c = {.r = r, .w = w, .rank = rank, .l = r->l, .t = r->l->t, .k = k};
    c.stage = &w->stages[k->stage];
    c.type = type;
    c.elems = r->l->elems[task];
    c.elem_bytes = dtype_bytes(type);
    if (c.elems == 0)
        return;
    char *chunk = NULL, *acc = NULL;
    if (k->store.index != NONE && k->store.kind == OPERAND_CHUNK)
        chunk = chunk_memory(&c, k->store.index);
    else if (k->store.index != NONE)
        acc = acc_memory(&c, k->store.index);

    struct source sources[MAX_OPERANDS];
    bool whole = true;
    for (uint32_t i = 0; i < k->operands; i++)
        whole &= read_operand(&c, c.t->operands.data[k->first_operand + i],
                              k->operands == 1 ? chunk : NULL, &sources[i]);
    if (!whole) {
        lose(&c);
        return;
    }
    if (k->store.index != NONE)
        *lost_flag(&c, k->store) = 0;
    const char *value = chunk;
    if (k->operands == 1 && !sources[0].acc && !acc && !k->divide) {
        if (chunk)
            move(&c, &sources[0], chunk);
        else
            value = sources[0].at;
    } else {
        char *to = (chunk || k->outs == 0) ? chunk : take_value(&c);
        sum_all(&c, sources, acc, to);
        value = to;
    }
    for (uint32_t i = 0; i < k->outs; i++)
        encode(&c, c.t->outs.data[k->first_out + i], value);
}
