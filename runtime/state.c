/*
 * state.c: what codecs remember from run to run: of each piece with such a codec, a part for the
 * end that encodes it and one for every rank that decodes it.
 *
 *     parts   | piece 0, encoder | piece 0, decoder on rank 1 | on rank 2 | piece 1, encoder | ...
 *
 * All parts stand twice. A run reads `now` and writes `next`; they change places when it counts. So
 * a run that fails leaves no trace, and a repair reads what the failed run read. Pieces are known
 * by the number of their encoding and slice, which the repair plan shares.
 */
#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#define PART_ALIGN 64

static int compare_parts(const void *a, const void *b) {
    const struct state_part *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->side != y->side)
        return x->side < y->side ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool has_state(const struct tasks *t) {
    for (size_t i = 0; i < t->flow->codecs.count; i++)
        if (codec_is_stateful(&t->flow->codecs.data[i]))
            return true;
    return false;
}

/* The part of one end of a piece, all but its places; no bytes: it remembers nothing. */
static struct state_part part_of(const struct tasks *t, uint32_t piece, enum codec_side side) {
    const struct piece *p = &t->pieces.data[piece];
    struct state_part part = {piece_number(t, p), p->rank, side, .codec = p->codec,
                              .elems = p->elems};
    part.bytes =
        codec_state_bytes(&t->flow->codecs.data[p->codec], t->flow->setup.dtype, p->elems, side);
    return part;
}

/* Calls found(ctx, piece, side) for all that a plan encodes and decodes. */
static void for_each_end(const struct tasks *t,
                         void (*found)(void *ctx, uint32_t piece, enum codec_side side),
                         void *ctx) {
    for (size_t i = 0; i < t->tasks.count; i++) {
        const struct task *k = &t->tasks.data[i];
        if (k->kind != TASK_COMPUTE)
            continue;
        for (uint32_t j = 0; j < k->outs; j++)
            found(ctx, t->outs.data[k->first_out + j], CODEC_ENCODER);
        for (uint32_t j = 0; j < k->operands; j++)
            if (t->operands.data[k->first_operand + j].kind == OPERAND_PIECE)
                found(ctx, t->operands.data[k->first_operand + j].index, CODEC_DECODER);
    }
}

/* ---- which parts there are ---- */

struct finding {
    const struct tasks *t;
    struct state_part *parts;
    size_t count, room;
    bool no_memory;
};

static void find_part(void *ctx, uint32_t piece, enum codec_side side) {
    struct finding *f = ctx;
    struct state_part part = part_of(f->t, piece, side);
    if (part.bytes == 0 || part.number == NO_NUMBER || f->no_memory)
        return;
    if (f->count == f->room) {
        size_t room = 2 * f->room + 64;
        struct state_part *more = realloc(f->parts, room * sizeof *more);
        f->no_memory = more == NULL;
        if (f->no_memory)
            return;
        f->parts = more;
        f->room = room;
    }
    f->parts[f->count++] = part;
}

/* Where the pieces of the parts begin in their chunks: behind the slices before. */
static bool find_first_elems(const struct tasks *t, struct state_part *parts, size_t count) {
    size_t numbers = piece_numbers(t);
    uint64_t *elems = calloc(numbers + 1, sizeof *elems);
    if (!elems)
        return false;
    for (size_t i = 0; i < t->pieces.count; i++)
        if (t->pieces.data[i].encoding != NONE)
            elems[piece_number(t, &t->pieces.data[i])] = t->pieces.data[i].elems;
    for (size_t i = 0; i < count; i++)
        for (size_t n = parts[i].number - parts[i].number % t->slices; n < parts[i].number; n++)
            parts[i].first_elem += elems[n];
    free(elems);
    return true;
}

static size_t drop_equal(struct state_part *parts, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || compare_parts(&parts[kept - 1], &parts[i]) != 0)
            parts[kept++] = parts[i];
    return kept;
}

bool states_find(struct states *s, const struct tasks *t) {
    struct finding f = {.t = t};
    *s = (struct states){0};
    if (!has_state(t))
        return true;
    for_each_end(t, find_part, &f);
    s->parts = f.parts;
    if (f.no_memory)
        return false;
    if (f.count > 0)
        qsort(f.parts, f.count, sizeof *f.parts, compare_parts);
    s->count = drop_equal(f.parts, f.count);
    for (size_t i = 0; i < s->count; i++) {
        s->parts[i].at = s->bytes;
        s->bytes += (s->parts[i].bytes + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    }
    return find_first_elems(t, s->parts, s->count);
}

void states_free(struct states *s) {
    free(s->parts);
}

/* ---- which part a piece uses ---- */

struct mapping {
    const struct states *s;
    const struct tasks *t;
    struct state_map *map;
    uint8_t *used; /* [parts] */
    bool other;    /* something is kept that is no part */
};

static void map_piece(void *ctx, uint32_t piece, enum codec_side side) {
    struct mapping *m = ctx;
    struct state_part want = part_of(m->t, piece, side);
    if (want.bytes == 0)
        return;
    const struct state_part *found =
        m->s->count == 0 ? NULL
                         : bsearch(&want, m->s->parts, m->s->count, sizeof want, compare_parts);
    if (!found || found->elems != want.elems || found->bytes != want.bytes) {
        m->other = true;
        return;
    }
    m->map->part[side][piece] = (uint32_t)(found - m->s->parts);
    m->used[found - m->s->parts] = 1;
}

enum run_status states_map(const struct states *s, const struct tasks *t, struct state_map *map) {
    *map = (struct state_map){{NULL, NULL}};
    if (s->count == 0 && !has_state(t))
        return RUN_OK;
    struct mapping m = {.s = s, .t = t, .map = map, .used = calloc(s->count + 1, 1)};
    size_t bytes = (t->pieces.count + 1) * sizeof *map->part[0];
    map->part[CODEC_ENCODER] = malloc(bytes);
    map->part[CODEC_DECODER] = malloc(bytes);
    if (!m.used || !map->part[CODEC_ENCODER] || !map->part[CODEC_DECODER]) {
        free(m.used);
        return RUN_NO_MEMORY;
    }
    memset(map->part[CODEC_ENCODER], 0xff, bytes); /* NONE */
    memset(map->part[CODEC_DECODER], 0xff, bytes);
    for_each_end(t, map_piece, &m);
    for (size_t i = 0; i < s->count; i++)
        m.other |= m.used[i] == 0;
    free(m.used);
    return m.other ? RUN_INTERNAL : RUN_OK;
}

void state_map_free(struct state_map *map) {
    free(map->part[CODEC_ENCODER]);
    free(map->part[CODEC_DECODER]);
}

struct codec_state states_of(const struct states *s, const struct state_map *map, uint32_t piece,
                             enum codec_side side) {
    uint32_t part = map->part[side] ? map->part[side][piece] : NONE;
    if (part == NONE)
        return (struct codec_state){.now = NULL};
    const struct state_part *p = &s->parts[part];
    return (struct codec_state){s->now + p->at, s->next + p->at, p->first_elem};
}

/* ---- over runs ---- */

/* The seed of an encoding: different for each, the same for its slices. (SplitMix64) */
static uint64_t seed_of(uint64_t seed, uint64_t encoding) {
    uint64_t z = seed + (encoding + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void states_reset(struct states *s, const struct tasks *t, uint64_t seed) {
    for (size_t i = 0; i < s->count; i++) {
        const struct state_part *p = &s->parts[i];
        memset(s->now + p->at, 0, (p->bytes + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN);
        codec_state_init(&t->flow->codecs.data[p->codec], t->flow->setup.dtype, p->elems, p->side,
                         seed_of(seed, p->number / t->slices), s->now + p->at);
    }
    if (s->bytes > 0)
        memcpy(s->next, s->now, s->bytes); /* for the bytes between the parts */
}

static uint64_t hash_number(uint64_t hash, uint64_t number) {
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (number >> 8 * i & 255)) * UINT64_C(0x100000001b3);
    return hash;
}

/* What is moved where, without which codecs: two schedules may remember pieces of the same sizes of
 * other data. */
static uint64_t hash_moves(uint64_t hash, const struct flow *f) {
    hash = hash_number(hash, f->setup.dtype);
    hash = hash_number(hash, f->setup.redop);
    hash = hash_number(hash, f->setup.count);
    hash = hash_number(hash, (uint64_t)f->setup.ranks);
    for (size_t i = 0; i < f->buffers.count; i++) {
        hash = hash_number(hash, f->buffers.data[i].role);
        hash = hash_number(hash, (uint64_t)f->buffers.data[i].chunks);
        hash = hash_number(hash, f->buffers.data[i].first_loc);
    }
    for (size_t i = 0; i < f->ops.count; i++) {
        const struct flow_op *op = &f->ops.data[i];
        hash = hash_number(hash, op->kind);
        hash = hash_number(hash, (uint64_t)op->count);
        hash = hash_number(hash, op->src);
        hash = hash_number(hash, op->dst);
        hash = hash_number(hash, (uint64_t)op->src_rank);
        hash = hash_number(hash, (uint64_t)op->dst_rank);
        hash = hash_number(hash, op->step);
    }
    return hash;
}

uint64_t states_hash(const struct states *s, const struct tasks *t) {
    uint64_t hash = hash_number(hash_moves(UINT64_C(0xcbf29ce484222325), t->flow), t->slices);
    for (size_t i = 0; i < s->count; i++) {
        const struct state_part *p = &s->parts[i];
        struct codec remembers = codec_without_bounded(&t->flow->codecs.data[p->codec]);
        hash = hash_number(hash, p->number);
        hash = hash_number(hash, (uint64_t)p->rank);
        hash = hash_number(hash, p->side);
        hash = hash_number(hash, p->elems);
        hash = hash_number(hash, codec_hash(&remembers));
    }
    return hash;
}

void states_commit(struct states *s) {
    uint8_t *was = s->now;
    s->now = s->next;
    s->next = was;
}
