/* Loops, and the limits that keep a schedule from eating the machine: work is counted as it is
 * done, and a loop nest whose bounds are known beforehand is refused before it starts.
 */
#include "compiler/eval.h"

static void refuse(struct eval *e, struct span at, const char *what, uint64_t limit) {
    eval_fail(e, at, "the schedule is too large: %s; at most %llu are allowed", what,
              (unsigned long long)limit);
    e->stop = true;
}

bool unroll_charge(struct eval *e, struct span at, uint64_t work) {
    if (e->quiet)
        return true;
    e->work += work;
    if (e->work <= ELABORATE_MAX_WORK)
        return true;
    refuse(e, at, "too many iterations and statements are run", ELABORATE_MAX_WORK);
    return false;
}

bool unroll_enter(struct eval *e, struct span at) {
    if (e->depth++ < ELABORATE_MAX_DEPTH)
        return true;
    refuse(e, at, "loops, blocks and calls are nested too deep", ELABORATE_MAX_DEPTH);
    return false;
}

void unroll_leave(struct eval *e) {
    e->depth--;
}

/* ---- running loops ------------------------------------------------------------------------ */

struct unrolling {
    struct action *action;
    const struct loop *loop;
    void (*body)(struct eval *e, void *ctx);
    void *ctx;
};

static void run_variable(struct eval *e, const struct unrolling *u, uint32_t i);

/* Large expressions of a loop head count each time they are evaluated, like those of statements. */
static bool charge_code(struct eval *e, struct span at, const struct code *c) {
    return unroll_charge(e, at, c->weight / 32);
}

/* All variables have their values. */
static void run_body(struct eval *e, const struct unrolling *u) {
    if (u->loop->where) {
        e->statement = u->action;
        e->failed = false;
        if (!charge_code(e, u->loop->where->span, u->loop->where))
            return;
        int64_t holds = eval_int(e, u->loop->where);
        if (e->failed || !holds)
            return;
    }
    u->body(e, u->ctx);
}

static void run_value(struct eval *e, const struct unrolling *u, uint32_t i, uint32_t note,
                      int64_t value) {
    const struct loop_var *v = &u->loop->vars[i];
    e->frame[v->slot].integer = value;
    e->notes[note].value = value;
    e->notes[note].context = NONE;
    if (!unroll_charge(e, v->at, 1))
        return;
    if (i + 1 < u->loop->count)
        run_variable(e, u, i + 1);
    else
        run_body(e, u);
}

static void run_variable(struct eval *e, const struct unrolling *u, uint32_t i) {
    const struct loop_var *v = &u->loop->vars[i];
    struct range range = {0};
    const struct group *group = NULL;
    e->statement = u->action;
    e->failed = false;
    if (!charge_code(e, v->at, v->domain))
        return;
    if (v->domain->op == CODE_RANGE)
        eval_range(e, v->domain, &range);
    else
        group = eval_group(e, v->domain);
    if (e->failed || !unroll_enter(e, v->at))
        return;
    uint32_t note = e->note_count++;
    e->notes[note] = (struct frame_note){.name = v->name, .at = v->at, .context = NONE};
    if (group) {
        for (int32_t k = 0; k < group->size && !e->stop; k++)
            run_value(e, u, i, note, group->member[k]);
    } else if (!range_empty(&range)) {
        do
            run_value(e, u, i, note, range.at);
        while (!e->stop && range_next(&range));
    }
    e->note_count--;
    unroll_leave(e);
}

void unroll_loop(struct eval *e, struct action *a, const struct loop *l,
                 void (*body)(struct eval *e, void *ctx), void *ctx) {
    struct unrolling u = {a, l, body, ctx};
    if (l->count)
        run_variable(e, &u, 0);
    else
        run_body(e, &u);
}

/* ---- a bound before running --------------------------------------------------------------- */

struct bound {
    uint64_t iterations, ops; /* at least; saturated far above the limits */
};

#define BOUND_MAX (UINT64_C(1) << 60)

static uint64_t bound_product(uint64_t x, uint64_t y) {
    return x && y > BOUND_MAX / x ? BOUND_MAX : x * y;
}

static void bound_list(struct eval *e, const struct action *a, uint32_t first_slot,
                       struct bound *out);

/* How often a domain is run through, when that does not depend on the loops being judged. */
static uint64_t bound_domain(struct eval *e, struct code *domain, uint32_t first_slot) {
    struct range range;
    uint64_t count = 0;
    if (domain->depends > first_slot)
        return 0;
    e->quiet = true;
    e->failed = false;
    if (domain->op != CODE_RANGE) {
        const struct group *g = eval_group(e, domain);
        count = g ? (uint64_t)g->size : 0;
    } else if (eval_range(e, domain, &range)) {
        count = range_count(range);
    }
    if (e->failed)
        count = 0;
    e->quiet = e->failed = false;
    return count;
}

static struct bound bound_loop(struct eval *e, const struct action *a, uint32_t first_slot) {
    struct bound own = {0, 0}, body = {0, 0};
    uint64_t times = 1;
    for (uint32_t i = 0; i < a->for_.loop.count && times; i++) {
        times = bound_product(times, bound_domain(e, a->for_.loop.vars[i].domain, first_slot));
        own.iterations += times;
    }
    if (times && !a->for_.loop.where) {
        bound_list(e, a->for_.body, first_slot, &body);
        own.iterations += bound_product(times, body.iterations);
        own.ops = bound_product(times, body.ops);
    }
    if (own.iterations > BOUND_MAX)
        own.iterations = BOUND_MAX;
    return own;
}

static void bound_list(struct eval *e, const struct action *a, uint32_t first_slot,
                       struct bound *out) {
    for (; a && out->iterations < BOUND_MAX && out->ops < BOUND_MAX; a = a->next) {
        if (a->kind == STMT_FOR) {
            struct bound inner = bound_loop(e, a, first_slot);
            out->iterations += inner.iterations;
            out->ops += inner.ops;
        } else if (a->kind == STMT_STAGE) {
            bound_list(e, a->stage.body, first_slot, out);
        } else if (a->kind == STMT_STEP) {
            bound_list(e, a->body, first_slot, out);
        } else if ((a->kind == STMT_COPY || a->kind == STMT_REDUCE) &&
                   a->move.dst.rank->type == TYPE_INT) {
            out->ops++;
        }
    }
}

bool unroll_allowed(struct eval *e, const struct action *a) {
    struct bound b = bound_loop(e, a, a->for_.loop.vars[0].slot);
    struct span at = a->for_.loop.vars[0].at;
    uint64_t work = e->work + b.iterations, ops = e->flow->ops.count + b.ops;
    const char *what = work > ELABORATE_MAX_WORK ? "iterations" : "operations";
    uint64_t limit = work > ELABORATE_MAX_WORK ? ELABORATE_MAX_WORK : ELABORATE_MAX_OPS;
    if (work > ELABORATE_MAX_WORK || ops > ELABORATE_MAX_OPS)
        refuse(e, at,
               arena_printf(e->arena, "with this loop it makes at least %llu %s",
                            (unsigned long long)(work > ELABORATE_MAX_WORK ? work : ops), what),
               limit);
    return !e->stop;
}
