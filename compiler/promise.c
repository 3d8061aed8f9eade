/* What a schedule promises: its collective, whose buffers must have the shape that it needs, and
 * its `ensure` statements, written out chunk by chunk.
 */
#include "compiler/eval.h"

/* ---- collective --------------------------------------------------------------------------- */

static bool has_root(enum collective kind) {
    return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
           kind == COLL_SCATTER;
}

void promise_collective(struct eval *e, const struct action *a) {
    struct flow *f = e->flow;
    const struct group *g;
    if (a->collective.group) {
        g = eval_group(e, a->collective.group);
    } else {
        int32_t *building = groups_start(e->groups);
        for (int32_t r = 0; r < e->setup->ranks; r++)
            building[r] = r;
        g = groups_find(e->groups, e->setup->ranks);
    }
    int64_t root = a->collective.root ? eval_int(e, a->collective.root) : -1;
    if (e->failed)
        return;
    if (g->size == 0) {
        eval_fail(e, a->collective.group->span, "a collective on an empty group");
        return;
    }
    if (has_root(a->collective.kind) && group_pos(g, root) < 0) {
        if (eval_check_rank(e, a->collective.root->span, root))
            eval_fail(e, a->collective.root->span, "the root, rank %lld, is not in the group",
                      (long long)root);
        return;
    }
    f->collective = a->collective.kind;
    f->root = (int32_t)root;
    f->members = g->size;
    f->member = g->member;
    f->collective_at = a->span;
}

void promise_check(struct eval *e) {
    struct flow_shape shape;
    if (e->flow->collective != COLL_NONE)
        flow_shape(e->flow, e->diag, &shape);
}

/* ---- ensure ------------------------------------------------------------------------------- */

static loc_id eval_chunk(struct eval *e, const struct place *p) {
    uint32_t buffer = eval_any(e, p->buffer).buffer;
    int64_t index = eval_int(e, p->index);
    int64_t rank = eval_int(e, p->rank);
    return e->failed ? NONE : emit_loc(e, p, buffer, index, 1, rank);
}

static bool within(struct eval *e, const struct action *a, size_t count, uint64_t limit,
                   const char *what) {
    if (count < limit)
        return true;
    eval_fail(e, a->span, "the schedule is too large: 'ensure' names more than %llu %s",
              (unsigned long long)limit, what);
    e->stop = true;
    return false;
}

static void add_term(struct eval *e, const struct action *a, loc_id loc) {
    if (within(e, a, e->flow->terms.count, ELABORATE_MAX_TERMS, "chunks"))
        VEC_PUSH(&e->flow->terms, loc);
}

static bool check_role(struct eval *e, const struct place *p, bool initial) {
    const struct flow_buffer *b = &e->flow->buffers.data[eval_any(e, p->buffer).buffer];
    bool ok = b->role == ROLE_INOUT || b->role == (initial ? ROLE_INPUT : ROLE_OUTPUT);
    if (ok)
        return true;
    if (initial)
        eval_fail(e, p->span, "'%s' is %s: only input and inout chunks hold something at the start",
                  b->name, buffer_role_name(b->role));
    else
        eval_fail(e, p->span, "'%s' is %s: only output and inout chunks are a result", b->name,
                  buffer_role_name(b->role));
    eval_note(e, b->at, "'%s' is declared here", b->name);
    return false;
}

static void ensure_term(struct eval *e, void *ctx) {
    struct action *a = ctx;
    e->statement = a;
    e->failed = false;
    if (!unroll_charge(e, a->span, a->weight - 1) || !check_role(e, &a->ensure.term, true))
        return;
    loc_id loc = eval_chunk(e, &a->ensure.term);
    if (loc != NONE)
        add_term(e, a, loc);
}

/* All members hold the same. */
static void ensure_identical(struct eval *e, struct action *a) {
    const struct place *p = &a->ensure.left;
    uint32_t buffer = eval_any(e, p->buffer).buffer;
    int64_t index = eval_int(e, p->index);
    const struct group *g = eval_group(e, p->rank);
    if (e->failed || !unroll_charge(e, a->span, (uint64_t)g->size))
        return;
    for (int32_t i = 0; i < g->size && !e->stop; i++) {
        loc_id loc = emit_loc(e, p, buffer, index, 1, g->member[i]);
        if (loc == NONE)
            return;
        add_term(e, a, loc);
    }
}

static void ensure_one(struct eval *e, void *ctx) {
    struct action *a = ctx;
    struct flow *f = e->flow;
    struct flow_ensure made = {.kind = a->kind == STMT_ENSURE_IDENTICAL ? ENSURE_IDENTICAL
                                                                        : ENSURE_VALUE,
                               .is_sum = a->ensure.is_sum,
                               .loc = NONE,
                               .first_term = (uint32_t)f->terms.count,
                               .at = a->span};
    e->statement = a;
    e->failed = false;
    if (!within(e, a, f->ensures.count, ELABORATE_MAX_ENSURES, "results") ||
        !unroll_charge(e, a->span, a->weight - 1) || !check_role(e, &a->ensure.left, false))
        return;
    if (made.kind == ENSURE_IDENTICAL) {
        ensure_identical(e, a);
    } else {
        made.loc = eval_chunk(e, &a->ensure.left);
        if (made.loc != NONE)
            unroll_loop(e, a, &a->ensure.sum, ensure_term, a);
    }
    made.terms = (uint32_t)f->terms.count - made.first_term;
    if (e->failed)
        return;
    if (made.kind == ENSURE_VALUE && made.terms == 0) {
        e->statement = a;
        eval_fail(e, a->span, "a sum of nothing");
        return;
    }
    if (made.kind == ENSURE_IDENTICAL && made.terms == 0)
        return;
    if (made.kind == ENSURE_IDENTICAL)
        made.loc = f->terms.data[made.first_term];
    made.context = emit_context(e);
    VEC_PUSH(&f->ensures, made);
}

void promise_ensure(struct eval *e, struct action *a) {
    unroll_loop(e, a, &a->ensure.outer, ensure_one, a);
}
