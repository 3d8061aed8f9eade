/* Evaluates resolved expressions. A failure is reported at once, where it is, with the loop values
 * that led there; then evaluation goes on with a zero, and the statement is dropped at its end: no
 * operation has to test its operands.
 */
#include "compiler/eval.h"

/* ---- messages ----------------------------------------------------------------------------- */

/* Loop values, innermost loops first in one note, then the call they are in, and so on outwards. */
static void note_loops(struct eval *e, size_t first, size_t end) {
    const char *text = NULL;
    for (size_t i = first; i < end; i++) {
        const struct frame_note *n = &e->notes[i];
        text = arena_printf(e->arena, "%s%s%s = %lld", text ? text : "", text ? ", " : "with ",
                            n->name, (long long)n->value);
    }
    if (text)
        diag_report(e->diag, SEV_NOTE, e->notes[end - 1].at, "%s", text);
}

static void note_context(struct eval *e) {
    for (size_t i = e->function_count; i-- > 0;)
        diag_report(e->diag, SEV_NOTE, e->functions[i]->span, "in %s called here",
                    e->functions[i]->function->name);
    size_t end = e->note_count;
    while (end > 0) {
        size_t first = end;
        while (first > 0 && !e->notes[first - 1].is_call)
            first--;
        note_loops(e, first, end);
        if (first > 0) {
            const struct frame_note *call = &e->notes[--first];
            diag_report(e->diag, SEV_NOTE, call->at, "in %s called here", call->name);
        }
        end = first;
    }
}

static bool is_silent(const struct eval *e) {
    return e->quiet || e->failed || (e->statement && e->statement->reported);
}

void eval_fail(struct eval *e, struct span at, const char *format, ...) {
    bool silent = is_silent(e);
    e->failed = true;
    e->fresh = !silent;
    if (silent)
        return;
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(e->arena, format, args);
    va_end(args);
    diag_report(e->diag, SEV_ERROR, at, "%s", text);
    note_context(e);
    e->wrong = true;
    if (e->statement)
        e->statement->reported = true;
    if (diag_full(e->diag))
        e->stop = true;
}

void eval_note(struct eval *e, struct span at, const char *format, ...) {
    if (!e->fresh)
        return;
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(e->arena, format, args);
    va_end(args);
    diag_report(e->diag, SEV_NOTE, at, "%s", text);
}

/* ---- integers ----------------------------------------------------------------------------- */

static int64_t overflow(struct eval *e, const struct code *c) {
    eval_fail(e, c->span, "integer overflow");
    return 0;
}

/* / and % are of integers that are not negative, so that nobody has to know how C rounds. */
static int64_t eval_divide(struct eval *e, const struct code *c, int64_t x, int64_t y) {
    const char *sign = c->op == CODE_DIV ? "/" : "%";
    const char *hint = c->op == CODE_DIV ? "" : "; mod(a, n) goes around a ring";
    if (x < 0 || y < 0) {
        bool left = x < 0;
        eval_fail(e, left ? c->a->span : c->b->span, "negative operand of '%s': %lld%s", sign,
                  (long long)(left ? x : y), hint);
        return 0;
    }
    if (y == 0) {
        eval_fail(e, c->b->span, "division by zero");
        return 0;
    }
    return c->op == CODE_DIV ? x / y : x % y;
}

static int64_t eval_shift(struct eval *e, const struct code *c, int64_t x, int64_t by) {
    if (by < 0 || by > 63) {
        eval_fail(e, c->b->span, "shift by %lld: it must be between 0 and 63", (long long)by);
        return 0;
    }
    if (c->op == CODE_SHR)
        return x >> by;
    if (x && (by > 62 || x > (INT64_MAX >> by) || x < -(INT64_MAX >> by) - 1))
        return overflow(e, c);
    return (int64_t)((uint64_t)x << by);
}

static int64_t eval_ring(struct eval *e, const struct code *c, int64_t a, int64_t n) {
    if (n <= 0) {
        eval_fail(e, c->b->span, "mod by %lld: it must be above 0", (long long)n);
        return 0;
    }
    if (a >= 0 && a < n)
        return a;
    int64_t rest = a % n;
    return rest < 0 ? rest + n : rest;
}

static int64_t eval_log2(struct eval *e, const struct code *c, int64_t x) {
    if (x <= 0) {
        eval_fail(e, c->a->span, "log2 of %lld: it must be above 0", (long long)x);
        return 0;
    }
    return 63 - __builtin_clzll((unsigned long long)x);
}

static int64_t eval_pow2(struct eval *e, const struct code *c, int64_t k) {
    if (k < 0 || k > 62) {
        eval_fail(e, c->a->span, "pow2 of %lld: it must be between 0 and 62", (long long)k);
        return 0;
    }
    return (int64_t)(UINT64_C(1) << k);
}

static int64_t eval_arithmetic(struct eval *e, const struct code *c, int64_t x, int64_t y) {
    int64_t result = 0;
    bool over = c->op == CODE_ADD   ? __builtin_add_overflow(x, y, &result)
                : c->op == CODE_SUB ? __builtin_sub_overflow(x, y, &result)
                                    : __builtin_mul_overflow(x, y, &result);
    return over ? overflow(e, c) : result;
}

/* Operators and functions of two integers. */
static int64_t eval_two(struct eval *e, const struct code *c, int64_t x, int64_t y) {
    switch ((int)c->op) {
    case CODE_MUL:
    case CODE_ADD:
    case CODE_SUB:
        return eval_arithmetic(e, c, x, y);
    case CODE_DIV:
    case CODE_MOD:
        return eval_divide(e, c, x, y);
    case CODE_SHL:
    case CODE_SHR:
        return eval_shift(e, c, x, y);
    case CODE_LT:
        return x < y;
    case CODE_LE:
        return x <= y;
    case CODE_GT:
        return x > y;
    case CODE_GE:
        return x >= y;
    case CODE_EQ:
        return x == y;
    case CODE_NE:
        return x != y;
    case CODE_BITAND:
        return x & y;
    case CODE_BITOR:
        return x | y;
    case CODE_BITXOR:
        return x ^ y;
    case CODE_MIN:
        return x < y ? x : y;
    case CODE_MAX:
        return x > y ? x : y;
    case CODE_RING:
        return eval_ring(e, c, x, y);
    }
    return 0;
}

/* ---- ranks -------------------------------------------------------------------------------- */

bool eval_check_rank(struct eval *e, struct span at, int64_t rank) {
    int32_t ranks = e->setup->ranks;
    if (rank >= 0 && rank < ranks)
        return true;
    if (ranks == 1)
        eval_fail(e, at, "there is no rank %lld: the only rank is 0", (long long)rank);
    else
        eval_fail(e, at, "there is no rank %lld: the ranks are 0 to %d", (long long)rank,
                  ranks - 1);
    return false;
}

static int64_t eval_place(struct eval *e, const struct code *c) {
    int64_t rank = eval_int(e, c->a);
    if (e->failed || !eval_check_rank(e, c->a->span, rank))
        return 0;
    const struct setup *s = e->setup;
    if (c->op == CODE_NODE)
        return s->node_of ? s->node_of[rank] : 0;
    return s->node_of ? s->local_of[rank] : rank;
}

static int64_t eval_member(struct eval *e, const struct code *c) {
    const struct group *g = eval_group(e, c->a);
    int64_t index = eval_int(e, c->b);
    if (e->failed)
        return 0;
    if (index < 0 || index >= g->size) {
        eval_fail(e, c->b->span, "there is no member %lld in a group of %d", (long long)index,
                  g->size);
        return 0;
    }
    return g->member[index];
}

/* pos, next, prev, parent: of a rank in a group. */
static int32_t eval_pos(struct eval *e, const struct code *c, const struct group **group) {
    *group = eval_group(e, c->a);
    int64_t rank = eval_int(e, c->b);
    if (e->failed)
        return 0;
    int32_t pos = group_pos(*group, rank);
    if (pos < 0) {
        eval_fail(e, c->b->span, "rank %lld is not in the group", (long long)rank);
        return 0;
    }
    return pos;
}

static int64_t eval_neighbour(struct eval *e, const struct code *c) {
    const struct group *g;
    int32_t pos = eval_pos(e, c, &g);
    if (e->failed || c->op == CODE_POS)
        return pos;
    if (c->op == CODE_NEXT)
        return g->member[pos + 1 == g->size ? 0 : pos + 1];
    if (c->op == CODE_PREV)
        return g->member[pos == 0 ? g->size - 1 : pos - 1];
    if (pos == 0) {
        eval_fail(e, c->b->span, "rank %d is the root of the group: it has no parent",
                  g->member[0]);
        return 0;
    }
    return g->member[(pos - 1) / 2];
}

static int64_t eval_size(struct eval *e, const struct code *c) {
    const struct group *g = eval_group(e, c->a);
    return e->failed ? 0 : g->size;
}

/* ---- functions ---------------------------------------------------------------------------- */

static int64_t eval_call(struct eval *e, struct code *c) {
    const struct function *f = c->function;
    union datum *slots = (f->global ? e->global : e->frame) + f->first_slot;
    int64_t values[FUNCTION_MAX_ARITY];
    uint32_t i = 0;
    for (struct code *arg = c->a; arg; arg = arg->next)
        values[i++] = eval_int(e, arg); /* an argument may call f itself */
    if (e->failed)
        return 0;
    for (i = 0; i < f->arity; i++)
        slots[i].integer = values[i];
    e->functions[e->function_count++] = c; /* no more than the height of the expression */
    int64_t result = eval_int(e, f->body);
    e->function_count--;
    return result;
}

/* What is left when these are taken out has two integers as operands. */
int64_t eval_int(struct eval *e, struct code *c) {
    switch ((int)c->op) {
    case CODE_CONST:
        return c->value.integer;
    case CODE_LOCAL:
        return e->frame[c->slot].integer;
    case CODE_GLOBAL:
        return e->global[c->slot].integer;
    case CODE_COND:
        return eval_int(e, c->a) ? eval_int(e, c->b) : eval_int(e, c->c);
    case CODE_CALL:
        return eval_call(e, c);
    case CODE_NEG: {
        int64_t x = eval_int(e, c->a);
        return x == INT64_MIN ? overflow(e, c) : -x;
    }
    case CODE_NOT:
        return !eval_int(e, c->a);
    case CODE_COMPLEMENT:
        return ~eval_int(e, c->a);
    case CODE_AND:
        return eval_int(e, c->a) && eval_int(e, c->b);
    case CODE_OR:
        return eval_int(e, c->a) || eval_int(e, c->b);
    case CODE_LOG2:
        return eval_log2(e, c, eval_int(e, c->a));
    case CODE_POW2:
        return eval_pow2(e, c, eval_int(e, c->a));
    case CODE_NODE:
    case CODE_LOCAL_RANK:
        return eval_place(e, c);
    case CODE_INDEX:
        return eval_member(e, c);
    case CODE_SIZE:
        return eval_size(e, c);
    case CODE_POS:
    case CODE_NEXT:
    case CODE_PREV:
    case CODE_PARENT:
        return eval_neighbour(e, c);
    }
    int64_t x = eval_int(e, c->a);
    int64_t y = eval_int(e, c->b);
    return eval_two(e, c, x, y);
}

/* ---- ranges ------------------------------------------------------------------------------- */

bool range_empty(const struct range *r) {
    return r->kind == STEP_DIV ? r->at <= r->to : r->at >= r->to;
}

bool range_next(struct range *r) {
    switch (r->kind) {
    case STEP_NONE:
    case STEP_ADD:
        if (__builtin_add_overflow(r->at, r->step, &r->at))
            return false;
        break;
    case STEP_MUL:
        if (__builtin_mul_overflow(r->at, r->step, &r->at))
            return false;
        break;
    case STEP_DIV:
        r->at /= r->step;
        break;
    }
    return !range_empty(r);
}

uint64_t range_count(struct range r) {
    if (range_empty(&r))
        return 0;
    if (r.kind == STEP_NONE || r.kind == STEP_ADD)
        return ((uint64_t)r.to - (uint64_t)r.at - 1) / (uint64_t)r.step + 1;
    uint64_t n = 1;
    while (range_next(&r))
        n++;
    return n;
}

bool eval_range(struct eval *e, struct code *c, struct range *out) {
    *out = (struct range){.kind = c->step_kind, .step = 1};
    out->at = eval_int(e, c->a);
    out->to = eval_int(e, c->b);
    if (c->c)
        out->step = eval_int(e, c->c);
    if (e->failed)
        return false;
    int64_t least = c->step_kind == STEP_MUL || c->step_kind == STEP_DIV ? 2 : 1;
    if (out->step < least)
        eval_fail(e, c->c->span, "a step of %lld: it must be at least %lld", (long long)out->step,
                  (long long)least);
    else if (c->step_kind == STEP_MUL && out->at < 1 && !range_empty(out))
        eval_fail(e, c->a->span, "a range with 'step *' starts above 0, found %lld",
                  (long long)out->at);
    else if (c->step_kind == STEP_DIV && out->to < 0 && !range_empty(out))
        eval_fail(e, c->b->span, "a range with 'step /' ends at 0 or above, found %lld",
                  (long long)out->to);
    return !e->failed;
}

/* ---- any value ---------------------------------------------------------------------------- */

union datum eval_any(struct eval *e, struct code *c) {
    union datum v = {0};
    switch (c->type) {
    case TYPE_INT:
        v.integer = eval_int(e, c);
        break;
    case TYPE_GROUP:
        v.group = eval_group(e, c);
        break;
    case TYPE_CODEC:
        v.codec = eval_codec(e, c);
        break;
    case TYPE_BUFFER:
        v = c->op == CODE_LOCAL ? e->frame[c->slot] : e->global[c->slot];
        break;
    case TYPE_ANY:
        break;
    }
    return v;
}
