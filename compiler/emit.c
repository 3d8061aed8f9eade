/* copy and reduce become flow operations: one a destination rank, its chunks found and checked, its
 * codec decided.
 */
#include "compiler/eval.h"

/* ---- buffers and stages ------------------------------------------------------------------- */

static void add_buffer(struct eval *e, const struct action *a, int32_t chunks,
                       const struct group *g) {
    struct flow *f = e->flow;
    int32_t *position = arena_array(e->arena, (size_t)e->setup->ranks, sizeof *position);
    for (int32_t r = 0; r < e->setup->ranks; r++)
        position[r] = -1;
    for (int32_t i = 0; i < g->size; i++)
        position[g->member[i]] = i;
    e->frame[a->buffer.slot].buffer = (uint32_t)f->buffers.count;
    VEC_PUSH(&f->buffers, (struct flow_buffer){.name = a->buffer.name,
                                               .role = a->buffer.role,
                                               .chunks = chunks,
                                               .members = g->size,
                                               .member = g->member,
                                               .position = position,
                                               .first_loc = f->locs,
                                               .at = a->buffer.name_span});
    f->locs += (uint32_t)g->size * (uint32_t)chunks;
}

static const struct group *all_ranks(struct eval *e) {
    int32_t *building = groups_start(e->groups);
    for (int32_t r = 0; r < e->setup->ranks; r++)
        building[r] = r;
    return groups_find(e->groups, e->setup->ranks);
}

void emit_buffer(struct eval *e, const struct action *a) {
    int64_t chunks = eval_int(e, a->buffer.chunks);
    if (!e->failed && chunks < 1)
        eval_fail(e, a->buffer.chunks->span, "a buffer has at least one chunk, found %lld",
                  (long long)chunks);
    const struct group *g = a->buffer.group ? eval_group(e, a->buffer.group) : all_ranks(e);
    if (!e->failed && g->size == 0)
        eval_fail(e, a->buffer.group->span, "buffer '%s' is on no rank: the group is empty",
                  a->buffer.name);
    if (!e->failed && e->flow->buffers.count == ELABORATE_MAX_NAMES)
        eval_fail(e, a->buffer.name_span, "a schedule has at most %d buffers", ELABORATE_MAX_NAMES);
    if (e->failed)
        return;
    if ((uint64_t)chunks > (ELABORATE_MAX_LOCS - e->flow->locs) / (uint64_t)g->size) {
        eval_fail(e, a->buffer.chunks->span,
                  "the schedule is too large: its buffers have more than %llu chunks on all ranks",
                  (unsigned long long)ELABORATE_MAX_LOCS);
        return;
    }
    add_buffer(e, a, (int32_t)chunks, g);
}

/* A stage is known by its name: one that is opened again goes on. */
void emit_stage(struct eval *e, struct action *a) {
    struct flow *f = e->flow;
    if (a->stage.index == NONE) {
        uint32_t i = 0;
        while (i < f->stages.count && strcmp(f->stages.data[i].name, a->stage.name))
            i++;
        if (i == ELABORATE_MAX_NAMES) {
            eval_fail(e, a->stage.name_span, "a schedule has at most %d stages",
                      ELABORATE_MAX_NAMES);
            return;
        }
        if (i == f->stages.count)
            VEC_PUSH(&f->stages, (struct flow_stage){.name = a->stage.name});
        a->stage.index = i;
    }
    e->stage = (uint16_t)a->stage.index;
}

void emit_step_begin(struct eval *e) {
    e->in_step = true;
    e->step = 0;
}

void emit_step_end(struct eval *e) {
    e->in_step = false;
    e->step = 0;
}

/* ---- one operation ------------------------------------------------------------------------ */

uint32_t emit_context(struct eval *e) {
    struct flow *f = e->flow;
    uint32_t known = e->note_count;
    while (known > 0 && e->notes[known - 1].context == NONE)
        known--;
    uint32_t parent = known ? e->notes[known - 1].context : NONE;
    for (; known < e->note_count; known++) {
        struct frame_note *n = &e->notes[known];
        n->context = (uint32_t)f->contexts.count;
        VEC_PUSH(&f->contexts, (struct flow_context){.parent = parent,
                                                     .call = n->is_call ? n->at.begin : 0,
                                                     .name = n->name,
                                                     .value = n->value});
        parent = n->context;
    }
    return parent;
}

static bool within_limits(struct eval *e, const struct action *a, int64_t count) {
    const struct flow *f = e->flow;
    if (f->ops.count < ELABORATE_MAX_OPS && f->contexts.count < ELABORATE_MAX_CONTEXTS &&
        f->transfers + (uint64_t)count <= ELABORATE_MAX_TRANSFERS)
        return true;
    eval_fail(e, a->span, "the schedule is too large: more than %llu %s",
              (unsigned long long)(f->ops.count < ELABORATE_MAX_OPS ? ELABORATE_MAX_TRANSFERS
                                                                    : ELABORATE_MAX_OPS),
              f->ops.count < ELABORATE_MAX_OPS ? "chunks are moved" : "operations");
    e->stop = true;
    return false;
}

/* Index into flow.codecs. The repair plan has no codec that can overflow, but else it is the same
 * plan: codecs that differ there have a number each here too, and so all encodings have theirs. */
static uint16_t flow_codec(struct eval *e, const struct action *a, uint32_t codec) {
    struct eval_codec *c = &e->codecs[codec];
    struct flow *f = e->flow;
    if (c->index != NONE)
        return (uint16_t)c->index;
    struct codec used = e->setup->repair ? codec_without_bounded(&c->codec) : c->codec;
    uint32_t i = codec_is_none(&c->codec) ? 0 : (uint32_t)f->codecs.count;
    if (i == ELABORATE_MAX_NAMES) {
        eval_fail(e, a->span, "a schedule has at most %d codecs", ELABORATE_MAX_NAMES);
        return 0;
    }
    if (i > 0)
        VEC_PUSH(&f->codecs, used);
    if (i > 0 && e->setup->repair)
        VEC_PUSH(&f->asked, c->codec);
    c->index = i;
    return (uint16_t)i;
}

static void add_op(struct eval *e, const struct action *a, struct flow_op *op, uint32_t codec) {
    struct flow *f = e->flow;
    if (e->wrong || !within_limits(e, a, op->count))
        return;
    op->codec = flow_codec(e, a, codec);
    op->stage = e->stage;
    if (e->in_step && !e->step)
        e->step = ++f->steps;
    op->step = e->step;
    f->transfers += op->count;
    op->at = a->span.begin;
    op->context = emit_context(e);
    VEC_PUSH(&f->ops, *op);
}

/* ---- places ------------------------------------------------------------------------------- */

static struct span chunk_span(const struct place *p) {
    struct span at = p->index->span;
    if (p->count)
        at.end = p->count->span.end;
    return at;
}

static void report_range(struct eval *e, const struct place *p, const struct flow_buffer *b,
                         int64_t index, int64_t count) {
    if (count == 1)
        eval_fail(e, chunk_span(p), "there is no chunk %lld in '%s': it has %d", (long long)index,
                  b->name, b->chunks);
    else
        eval_fail(e, chunk_span(p), "chunks %lld +: %lld are not all in '%s': it has %d",
                  (long long)index, (long long)count, b->name, b->chunks);
    eval_note(e, b->at, "'%s' is declared here", b->name);
}

loc_id emit_loc(struct eval *e, const struct place *p, uint32_t buffer, int64_t index,
                int64_t count, int64_t rank) {
    const struct flow_buffer *b = &e->flow->buffers.data[buffer];
    if (index < 0 || count > b->chunks || index > b->chunks - count) {
        report_range(e, p, b, index, count);
        return NONE;
    }
    if (!eval_check_rank(e, p->rank->span, rank))
        return NONE;
    int32_t position = b->position[rank];
    if (position < 0) {
        eval_fail(e, p->rank->span, "rank %lld has no buffer '%s'", (long long)rank, b->name);
        eval_note(e, b->at, "'%s' is declared here", b->name);
        return NONE;
    }
    return b->first_loc + (uint32_t)position * (uint32_t)b->chunks + (uint32_t)index;
}

/* ---- copy and reduce ---------------------------------------------------------------------- */

/* What both sides of the statement come to. */
struct move {
    struct action *action;
    enum flow_kind kind;
    uint32_t src_buffer, dst_buffer;
    int64_t dst_index, count, src_rank;
    loc_id src;
    uint32_t own_via, default_via; /* own NONE: not given */
    bool to_group;
};

static bool check_local(struct eval *e, const struct move *m, loc_id dst) {
    uint32_t distance = m->src < dst ? dst - m->src : m->src - dst;
    struct span at = m->action->span;
    if (distance == 0 && m->kind == FLOW_REDUCE) {
        eval_fail(e, at, "a chunk is reduced into itself on rank %lld", (long long)m->src_rank);
        return false;
    }
    if (distance == 0 || m->src_buffer != m->dst_buffer || distance >= m->count)
        return true;
    eval_fail(e, at, "source and destination overlap on rank %lld: they must be equal or apart",
              (long long)m->src_rank);
    return false;
}

/* A default codec is for messages, for a chunk copied onto itself, and for the source's own place
 * in a group: the owner keeps what the others decode. */
static void emit_one(struct eval *e, const struct move *m, int64_t rank) {
    const struct place *p = &m->action->move.dst;
    loc_id dst = emit_loc(e, p, m->dst_buffer, m->dst_index, m->count, rank);
    if (dst == NONE)
        return;
    bool local = rank == m->src_rank;
    if (local && !check_local(e, m, dst))
        return;
    bool raw = local && m->src != dst && !m->to_group;
    uint32_t codec = m->own_via != NONE ? m->own_via : raw ? 0 : m->default_via;
    struct flow_op op = {.kind = m->kind,
                         .count = (uint32_t)m->count,
                         .src = m->src,
                         .dst = dst,
                         .src_rank = (int32_t)m->src_rank,
                         .dst_rank = (int32_t)rank};
    add_op(e, m->action, &op, codec);
}

static int64_t eval_count(struct eval *e, const struct place *p) {
    if (!p->count)
        return 1;
    int64_t count = eval_int(e, p->count);
    if (!e->failed && count < 1)
        eval_fail(e, p->count->span, "a range has at least one chunk, found %lld",
                  (long long)count);
    return count;
}

static bool eval_move(struct eval *e, struct action *a, struct move *m) {
    const struct place *src = &a->move.src, *dst = &a->move.dst;
    m->action = a;
    m->kind = a->kind == STMT_REDUCE ? FLOW_REDUCE : FLOW_COPY;
    m->to_group = dst->rank->type == TYPE_GROUP;
    m->src_buffer = eval_any(e, src->buffer).buffer;
    m->dst_buffer = eval_any(e, dst->buffer).buffer;
    int64_t src_index = eval_int(e, src->index);
    m->count = eval_count(e, src);
    m->src_rank = eval_int(e, src->rank);
    m->dst_index = eval_int(e, dst->index);
    int64_t dst_count = eval_count(e, dst);
    m->own_via = a->move.via ? eval_codec(e, a->move.via) : NONE;
    m->default_via = e->call_via != NONE ? e->call_via : e->stage_via != NONE ? e->stage_via : 0;
    if (e->failed)
        return false;
    if (m->count != dst_count) {
        eval_fail(e, a->span, "chunk counts differ: %lld at the source, %lld at the destination",
                  (long long)m->count, (long long)dst_count);
        return false;
    }
    m->src = emit_loc(e, src, m->src_buffer, src_index, m->count, m->src_rank);
    return m->src != NONE;
}

void emit_move(struct eval *e, struct action *a) {
    struct move m;
    if (!eval_move(e, a, &m))
        return;
    struct code *rank = a->move.dst.rank;
    if (!m.to_group) {
        int64_t to = eval_int(e, rank);
        if (!e->failed)
            emit_one(e, &m, to);
        return;
    }
    const struct group *g = eval_group(e, rank);
    if (e->failed || !unroll_charge(e, a->span, (uint64_t)g->size))
        return;
    for (int32_t i = 0; i < g->size && !e->stop && !e->failed; i++)
        emit_one(e, &m, g->member[i]);
}
