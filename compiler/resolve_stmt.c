/* Statements: where each may stand, what it declares, and its expressions resolved. */
#include "compiler/eval.h"

uint32_t resolve_slot(struct resolver *r) {
    uint32_t slot = r->next_slot++;
    if (r->next_slot > r->slots)
        r->slots = r->next_slot;
    return slot;
}

static struct action *make_action(struct resolver *r, const struct stmt *s) {
    struct action *a = arena_alloc(r->arena, sizeof *a);
    a->kind = s->kind;
    a->span = s->span;
    a->weight = 1;
    return a;
}

static void add_weight(struct action *a, const struct code *c) {
    if (c)
        a->weight += c->weight / 32;
}

/* A variable of a type; TYPE_ANY when its value had an error: the name is known, uses of it are
 * silent. */
uint32_t resolve_variable(struct resolver *r, const char *name, struct span at, enum type type) {
    uint32_t slot = resolve_slot(r);
    struct symbol *symbol = scope_declare(r->scope, SYMBOL_VARIABLE, name, at);
    if (symbol) {
        symbol->type = type;
        symbol->slot = slot;
        symbol->global = r->routine == NULL;
    }
    return slot;
}

/* ---- lets --------------------------------------------------------------------------------- */

static struct action *resolve_let(struct resolver *r, const struct stmt *s) {
    struct action *a = make_action(r, s);
    struct code *value = resolve_expr(r, s->let.value, TYPE_ANY);
    a->let.value = value;
    a->let.global = r->routine == NULL;
    a->let.slot =
        resolve_variable(r, s->let.name, s->let.name_span, value ? value->type : TYPE_ANY);
    add_weight(a, value);
    return a;
}

/* Its formals are slots of the frame around it: without recursion one set is enough. */
static void resolve_let_function(struct resolver *r, const struct stmt *s) {
    struct function *f = arena_alloc(r->arena, sizeof *f);
    struct symbol *mark = scope_mark(r->scope);
    f->name = s->let_function.name;
    f->at = s->let_function.name_span;
    f->global = r->routine == NULL;
    f->first_slot = r->next_slot;
    for (const struct formal *p = s->let_function.formals; p; p = p->next, f->arity++)
        resolve_variable(r, p->name, p->span, TYPE_INT);
    if (f->arity > FUNCTION_MAX_ARITY)
        resolve_error(r, f->at, "a function has at most %d arguments, found %u", FUNCTION_MAX_ARITY,
                      f->arity);
    r->defining = f->name;
    f->body = resolve_expr(r, s->let_function.value, TYPE_INT);
    r->defining = NULL;
    scope_close(r->scope, mark);
    struct symbol *symbol = scope_declare(r->scope, SYMBOL_FUNCTION, f->name, f->at);
    if (symbol)
        symbol->function = f;
}

/* ---- copy and reduce ---------------------------------------------------------------------- */

static struct code *resolve_buffer_name(struct resolver *r, const char *name, struct span at) {
    struct expr x = {.kind = EXPR_NAME, .span = at, .name = name};
    return resolve_expr(r, &x, TYPE_BUFFER);
}

/* Rank: TYPE_INT, TYPE_GROUP, or TYPE_ANY for either. */
static bool resolve_place(struct resolver *r, struct action *a, const struct chunk_ref *ref,
                          enum type rank, struct place *out) {
    out->span = ref->span;
    out->buffer = resolve_buffer_name(r, ref->buffer, ref->buffer_span);
    out->index = resolve_expr(r, ref->index, TYPE_INT);
    out->count = ref->count ? resolve_expr(r, ref->count, TYPE_INT) : NULL;
    out->rank = resolve_expr(r, ref->rank, TYPE_ANY);
    if (!out->buffer || !out->index || (ref->count && !out->count) || !out->rank)
        return false;
    add_weight(a, out->index);
    add_weight(a, out->count);
    add_weight(a, out->rank);
    if (out->rank->type == TYPE_CODEC) {
        resolve_error(r, out->rank->span, "expected a rank%s, found a codec",
                      rank == TYPE_INT ? "" : " or a group");
        return false;
    }
    return true;
}

static struct action *resolve_move(struct resolver *r, const struct stmt *s) {
    struct action *a = make_action(r, s);
    bool ok = resolve_place(r, a, &s->move.src, TYPE_INT, &a->move.src);
    if (ok && a->move.src.rank->type != TYPE_INT) {
        resolve_error(r, a->move.src.rank->span,
                      "a source is on one rank, found a group; loop over its members");
        ok = false;
    }
    ok &= resolve_place(r, a, &s->move.dst, TYPE_ANY, &a->move.dst);
    if (s->move.via) {
        a->move.via = resolve_expr(r, s->move.via, TYPE_CODEC);
        ok &= a->move.via != NULL;
        add_weight(a, a->move.via);
    }
    return ok ? a : NULL;
}

/* ---- blocks ------------------------------------------------------------------------------- */

static struct action *resolve_step(struct resolver *r, const struct stmt *s) {
    if (r->in_step) {
        resolve_error(r, s->span, "a step within a step");
        return NULL;
    }
    struct action *a = make_action(r, s);
    r->in_step = true;
    a->body = resolve_block(r, s->step.body);
    r->in_step = false;
    return a;
}

static struct action *resolve_stage(struct resolver *r, const struct stmt *s) {
    struct action *a = make_action(r, s);
    a->stage.name = s->stage.name;
    a->stage.name_span = s->stage.name_span;
    a->stage.index = NONE;
    if (s->stage.via)
        a->stage.via = resolve_expr(r, s->stage.via, TYPE_CODEC);
    a->stage.body = resolve_block(r, s->stage.body);
    return a;
}

static struct action *resolve_if(struct resolver *r, const struct stmt *s) {
    struct action *a = make_action(r, s);
    a->if_.cond = resolve_expr(r, s->if_.cond, TYPE_INT);
    add_weight(a, a->if_.cond);
    a->if_.yes = resolve_block(r, s->if_.yes);
    a->if_.no = resolve_block(r, s->if_.no);
    return a;
}

static void resolve_loop(struct resolver *r, struct action *a, const struct generator *gens,
                         const struct expr *where, struct loop *out) {
    for (const struct generator *g = gens; g; g = g->next)
        out->count++;
    out->vars = arena_array(r->arena, out->count, sizeof *out->vars);
    struct loop_var *v = out->vars;
    for (const struct generator *g = gens; g; g = g->next, v++) {
        v->domain = resolve_domain(r, g->domain);
        v->name = g->name;
        v->at = g->name_span;
        v->slot = resolve_variable(r, g->name, g->name_span, TYPE_INT);
        add_weight(a, v->domain);
    }
    if (where)
        out->where = resolve_expr(r, where, TYPE_INT);
    add_weight(a, out->where);
}

static struct action *resolve_for(struct resolver *r, const struct stmt *s) {
    struct action *a = make_action(r, s);
    struct symbol *mark = scope_mark(r->scope);
    uint32_t slot = r->next_slot;
    resolve_loop(r, a, s->for_.generators, s->for_.where, &a->for_.loop);
    a->for_.body = resolve_block(r, s->for_.body);
    scope_close(r->scope, mark);
    r->next_slot = slot;
    return a;
}

/* ---- calls -------------------------------------------------------------------------------- */

enum type resolve_formal_type(enum formal_kind kind) {
    switch (kind) {
    case FORMAL_INT:
        return TYPE_INT;
    case FORMAL_CODEC:
        return TYPE_CODEC;
    case FORMAL_GROUP:
        return TYPE_GROUP;
    case FORMAL_BUFFER:
        return TYPE_BUFFER;
    }
    return TYPE_ANY;
}

static struct routine *find_def(struct resolver *r, const struct stmt *s) {
    const char *name = s->call.name;
    const struct symbol *symbol = scope_find(r->scope, name);
    if (symbol && symbol->kind == SYMBOL_DEF)
        return symbol->routine;
    if (symbol) {
        resolve_error(r, s->call.name_span, "'%s' is not a def", name);
        diag_report(r->diag, SEV_NOTE, symbol->at, "declared here");
    } else {
        resolve_error(r, s->call.name_span, "unknown def '%s'%s", name,
                      scope_suggest(r->scope, name, WANTED_DEF));
    }
    return NULL;
}

static bool resolve_arguments(struct resolver *r, const struct stmt *s, struct action *a) {
    const struct routine *callee = a->call.routine;
    uint32_t want = 0, found = 0;
    for (const struct formal *f = callee->formals; f; f = f->next)
        want++;
    for (const struct expr *x = s->call.args; x; x = x->next)
        found++;
    if (want != found) {
        resolve_error(r, s->call.name_span, "'%s' takes %u argument%s, found %u", callee->name,
                      want, want == 1 ? "" : "s", found);
        diag_report(r->diag, SEV_NOTE, callee->at, "declared here");
        return false;
    }
    a->call.args = arena_array(r->arena, want, sizeof *a->call.args);
    const struct formal *f = callee->formals;
    bool ok = true;
    uint32_t i = 0;
    for (const struct expr *x = s->call.args; x; x = x->next, f = f->next, i++) {
        struct code *value = resolve_expr(r, x, resolve_formal_type(f->kind));
        a->call.args[i] = (struct argument){.value = value, .slot = i};
        ok &= value != NULL;
        add_weight(a, value);
    }
    a->call.arg_count = want;
    return ok;
}

static struct action *resolve_def_call(struct resolver *r, const struct stmt *s) {
    struct action *a = make_action(r, s);
    a->call.routine = find_def(r, s);
    bool ok = a->call.routine && resolve_arguments(r, s, a);
    if (s->call.via) {
        a->call.via = resolve_expr(r, s->call.via, TYPE_CODEC);
        ok &= a->call.via != NULL;
    }
    if (!ok)
        return NULL;
    a->call.name_span = s->call.name_span;
    a->call.sibling = r->routine->calls;
    r->routine->calls = a;
    return a;
}

/* ---- require ------------------------------------------------------------------------------ */

/* N and the integers that a condition names, once each: their values explain a failure. */
static void watch_names(struct resolver *r, struct action *a, const struct expr *x) {
    const struct symbol *symbol;
    if (!x || a->require.watched == REQUIRE_MAX_WATCHED)
        return;
    switch (x->kind) {
    case EXPR_INT:
    case EXPR_DECIMAL:
    case EXPR_RANGE:
        return;
    case EXPR_NAME:
        symbol = scope_find(r->scope, x->name);
        if (strcmp(x->name, "N") && strcmp(x->name, "nodes") &&
            (!symbol || symbol->type != TYPE_INT))
            return;
        for (uint32_t i = 0; i < a->require.watched; i++)
            if (!strcmp(a->require.watch[i].name, x->name))
                return;
        a->require.watch[a->require.watched++] =
            (struct watch){x->name, resolve_expr(r, x, TYPE_INT)};
        return;
    case EXPR_UNARY:
        watch_names(r, a, x->unary.operand);
        return;
    case EXPR_BINARY:
        watch_names(r, a, x->binary.left);
        watch_names(r, a, x->binary.right);
        return;
    case EXPR_TERNARY:
        watch_names(r, a, x->ternary.cond);
        watch_names(r, a, x->ternary.yes);
        watch_names(r, a, x->ternary.no);
        return;
    case EXPR_CALL:
        for (const struct expr *arg = x->call.args; arg; arg = arg->next)
            watch_names(r, a, arg);
        return;
    case EXPR_INDEX:
        watch_names(r, a, x->index.base);
        watch_names(r, a, x->index.index);
        return;
    }
}

static struct action *resolve_require(struct resolver *r, const struct stmt *s) {
    struct action *a = make_action(r, s);
    a->require.message = s->require.message;
    a->require.cond = resolve_expr(r, s->require.cond, TYPE_INT);
    if (!a->require.cond)
        return NULL;
    a->require.watch = arena_array(r->arena, REQUIRE_MAX_WATCHED, sizeof *a->require.watch);
    watch_names(r, a, s->require.cond);
    add_weight(a, a->require.cond);
    return a;
}

/* ---- what stands directly in a schedule ---------------------------------------------------- */

static bool check_top(struct resolver *r, const struct stmt *s, const char *what) {
    if (r->in_schedule)
        return true;
    resolve_error(r, s->span, "%s stands directly in the body of a schedule", what);
    return false;
}

static bool check_once(struct resolver *r, const struct stmt *s, const struct stmt **seen,
                       const char *what) {
    if (!check_top(r, s, what))
        return false;
    if (!*seen) {
        *seen = s;
        return true;
    }
    resolve_error(r, s->span, "a second %s", what + 2);
    diag_report(r->diag, SEV_NOTE, (*seen)->span, "the first is here");
    return false;
}

static struct action *resolve_buffer(struct resolver *r, const struct stmt *s) {
    if (!check_top(r, s, "a buffer"))
        return NULL;
    struct action *a = make_action(r, s);
    a->buffer.role = s->buffer.role;
    a->buffer.name = s->buffer.name;
    a->buffer.name_span = s->buffer.name_span;
    a->buffer.chunks = resolve_expr(r, s->buffer.chunks, TYPE_INT);
    if (s->buffer.group)
        a->buffer.group = resolve_expr(r, s->buffer.group, TYPE_GROUP);
    a->buffer.slot = resolve_variable(r, s->buffer.name, s->buffer.name_span, TYPE_BUFFER);
    return a;
}

static struct action *resolve_collective(struct resolver *r, const struct stmt *s) {
    if (!check_once(r, s, &r->collective, "a collective"))
        return NULL;
    struct action *a = make_action(r, s);
    a->collective.kind = s->collective.kind;
    if (s->collective.root)
        a->collective.root = resolve_expr(r, s->collective.root, TYPE_INT);
    if (s->collective.group)
        a->collective.group = resolve_expr(r, s->collective.group, TYPE_GROUP);
    return a;
}

static struct action *resolve_slices(struct resolver *r, const struct stmt *s) {
    if (!check_once(r, s, &r->slices, "a 'slices'"))
        return NULL;
    struct action *a = make_action(r, s);
    a->slices = resolve_expr(r, s->slices.count, TYPE_INT);
    return a;
}

static bool check_single(struct resolver *r, const struct chunk_ref *ref) {
    if (!ref->count)
        return true;
    resolve_error(r, ref->count->span, "'ensure' speaks of single chunks; loop over the range");
    return false;
}

static struct action *resolve_ensure(struct resolver *r, const struct stmt *s) {
    if (!check_top(r, s, "an 'ensure'"))
        return NULL;
    if (!r->ensure)
        r->ensure = s;
    struct action *a = make_action(r, s);
    bool identical = s->kind == STMT_ENSURE_IDENTICAL;
    struct symbol *mark = scope_mark(r->scope);
    uint32_t slot = r->next_slot;
    a->ensure.is_sum = !identical && s->ensure.is_sum;
    resolve_loop(r, a, s->ensure.generators, s->ensure.where, &a->ensure.outer);
    bool ok = check_single(r, &s->ensure.left);
    ok = resolve_place(r, a, &s->ensure.left, identical ? TYPE_GROUP : TYPE_INT, &a->ensure.left) &&
         ok;
    if (ok && a->ensure.left.rank->type != (identical ? TYPE_GROUP : TYPE_INT)) {
        resolve_error(r, a->ensure.left.rank->span,
                      identical
                          ? "'identical' compares the ranks of a group, found an integer"
                          : "expected a rank, found a group; use 'ensure identical' for replicas");
        ok = false;
    }
    if (!identical) {
        resolve_loop(r, a, s->ensure.sum_gens, s->ensure.sum_where, &a->ensure.sum);
        ok &= check_single(r, &s->ensure.term);
        ok &= resolve_place(r, a, &s->ensure.term, TYPE_INT, &a->ensure.term);
        if (ok && a->ensure.term.rank->type != TYPE_INT) {
            resolve_error(r, a->ensure.term.rank->span, "expected a rank, found a group");
            ok = false;
        }
    }
    scope_close(r->scope, mark);
    r->next_slot = slot;
    return ok ? a : NULL;
}

/* ---- all together ------------------------------------------------------------------------- */

static struct action *resolve_stmt(struct resolver *r, const struct stmt *s) {
    switch (s->kind) {
    case STMT_BUFFER:
        return resolve_buffer(r, s);
    case STMT_COPY:
    case STMT_REDUCE:
        return resolve_move(r, s);
    case STMT_STEP:
        return resolve_step(r, s);
    case STMT_STAGE:
        return resolve_stage(r, s);
    case STMT_CALL:
        return resolve_def_call(r, s);
    case STMT_LET:
        return resolve_let(r, s);
    case STMT_LET_FUNCTION:
        resolve_let_function(r, s);
        return NULL;
    case STMT_IF:
        return resolve_if(r, s);
    case STMT_FOR:
        return resolve_for(r, s);
    case STMT_REQUIRE:
        return resolve_require(r, s);
    case STMT_COLLECTIVE:
        return resolve_collective(r, s);
    case STMT_ENSURE_VALUE:
    case STMT_ENSURE_IDENTICAL:
        return resolve_ensure(r, s);
    case STMT_SLICES:
        return resolve_slices(r, s);
    }
    return NULL;
}

struct action *resolve_list(struct resolver *r, const struct stmt *s) {
    struct action *first = NULL, **end = &first;
    for (; s && !diag_full(r->diag); s = s->next) {
        struct action *a = resolve_stmt(r, s);
        if (!a)
            continue;
        *end = a;
        end = &a->next;
    }
    return first;
}

struct action *resolve_block(struct resolver *r, const struct stmt *s) {
    if (!s)
        return NULL;
    if (r->nesting == ELABORATE_MAX_DEPTH) {
        resolve_error(r, s->span, "blocks are nested more than %d deep", ELABORATE_MAX_DEPTH);
        return NULL;
    }
    struct symbol *mark = scope_mark(r->scope);
    uint32_t slot = r->next_slot;
    bool in_schedule = r->in_schedule;
    r->in_schedule = false;
    r->nesting++;
    struct action *first = resolve_list(r, s);
    r->nesting--;
    r->in_schedule = in_schedule;
    r->next_slot = slot;
    scope_close(r->scope, mark);
    return first;
}
