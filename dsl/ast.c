/* Constructors of the tree, one a rule of the grammar. They check what only the text's shape
 * decides: depth, the kinds of parameters, names that a file defines twice. */
#include "dsl/parser.h"

#include <string.h>

static unsigned deepest(unsigned a, unsigned b) {
    return a > b ? a : b;
}

static unsigned depth_of(const struct expr *e) {
    return e ? e->depth : 0;
}

/* ---- expressions -------------------------------------------------------------------------- */

/* A tree that would be too deep becomes a leaf, so that recursion over trees is bounded. */
static struct expr *expr_new(struct span at, struct parser *p, enum expr_kind kind,
                             unsigned depth_below) {
    struct expr *e = arena_alloc(p->arena, sizeof *e);
    e->kind = kind;
    e->span = at;
    e->depth = depth_below + 1;
    if (e->depth > MAX_DEPTH) {
        syntax_too_deep(p, at);
        e->kind = EXPR_INT;
        e->depth = 1;
    }
    return e;
}

struct expr *expr_integer(struct span at, struct parser *p, int64_t value) {
    struct expr *e = expr_new(at, p, EXPR_INT, 0);
    e->integer = value;
    return e;
}

struct expr *expr_decimal(struct span at, struct parser *p, double value) {
    struct expr *e = expr_new(at, p, EXPR_DECIMAL, 0);
    e->decimal = value;
    return e;
}

struct expr *expr_name(struct span at, struct parser *p, const char *name) {
    struct expr *e = expr_new(at, p, EXPR_NAME, 0);
    e->name = name;
    return e;
}

struct expr *expr_unary(struct span at, struct parser *p, char op, struct expr *operand) {
    struct expr *e = expr_new(at, p, EXPR_UNARY, operand->depth);
    if (e->kind == EXPR_UNARY) {
        e->unary.op = op;
        e->unary.operand = operand;
    }
    return e;
}

struct expr *expr_binary(struct span at, struct parser *p, enum binary_op op, struct span op_at,
                         struct expr *left, struct expr *right) {
    struct expr *e = expr_new(at, p, EXPR_BINARY, deepest(left->depth, right->depth));
    if (e->kind == EXPR_BINARY) {
        e->binary.op = op;
        e->binary.op_span = op_at;
        e->binary.left = left;
        e->binary.right = right;
    }
    return e;
}

struct expr *expr_ternary(struct span at, struct parser *p, struct expr *cond, struct expr *yes,
                          struct expr *no) {
    unsigned below = deepest(cond->depth, deepest(yes->depth, no->depth));
    struct expr *e = expr_new(at, p, EXPR_TERNARY, below);
    if (e->kind == EXPR_TERNARY) {
        e->ternary.cond = cond;
        e->ternary.yes = yes;
        e->ternary.no = no;
    }
    return e;
}

struct expr *expr_call(struct span at, struct parser *p, struct name name, struct expr_list args) {
    unsigned below = 0;
    for (const struct expr *arg = args.first; arg; arg = arg->next)
        below = deepest(below, arg->depth);
    struct expr *e = expr_new(at, p, EXPR_CALL, below);
    if (e->kind == EXPR_CALL) {
        e->call.name = name.text;
        e->call.name_span = name.at;
        e->call.args = args.first;
    }
    return e;
}

struct expr *expr_index(struct span at, struct parser *p, struct expr *base, struct expr *index) {
    struct expr *e = expr_new(at, p, EXPR_INDEX, deepest(base->depth, index->depth));
    if (e->kind == EXPR_INDEX) {
        e->index.base = base;
        e->index.index = index;
    }
    return e;
}

struct expr *expr_range(struct span at, struct parser *p, struct expr *from, struct expr *to,
                        enum step_kind step_kind, struct expr *step) {
    unsigned below = deepest(deepest(from->depth, to->depth), depth_of(step));
    struct expr *e = expr_new(at, p, EXPR_RANGE, below);
    if (e->kind == EXPR_RANGE) {
        e->range.from = from;
        e->range.to = to;
        e->range.step_kind = step_kind;
        e->range.step = step;
    }
    return e;
}

struct expr *expr_bracketed(struct span at, struct expr *e) {
    e->span = at;
    return e;
}

/* ---- lists -------------------------------------------------------------------------------- */

struct expr_list expr_list_add(struct expr_list list, struct expr *e) {
    if (list.last)
        list.last->next = e;
    else
        list.first = e;
    list.last = e;
    return list;
}

struct stmt_list stmt_list_add(struct stmt_list list, struct stmt *s) {
    if (!s)
        return list;
    if (list.last)
        list.last->next = s;
    else
        list.first = s;
    list.last = s;
    list.depth = deepest(list.depth, s->depth);
    return list;
}

struct formal_list formal_list_add(struct formal_list list, struct formal *f) {
    if (list.last)
        list.last->next = f;
    else
        list.first = f;
    list.last = f;
    return list;
}

struct generator_list generator_list_add(struct generator_list list, struct generator *g) {
    if (list.last)
        list.last->next = g;
    else
        list.first = g;
    list.last = g;
    return list;
}

/* ---- parts of statements ------------------------------------------------------------------ */

struct formal *formal_new(struct span at, struct parser *p, enum formal_kind kind, struct name name,
                          struct expr *initial) {
    struct formal *f = arena_alloc(p->arena, sizeof *f);
    f->kind = kind;
    f->name = name.text;
    f->span = at;
    f->initial = initial;
    return f;
}

struct generator *generator_new(struct span at, struct parser *p, struct name name,
                                struct expr *domain) {
    (void)at;
    struct generator *g = arena_alloc(p->arena, sizeof *g);
    g->name = name.text;
    g->name_span = name.at;
    g->domain = domain;
    return g;
}

struct chunk_ref chunk_ref_of(struct span at, struct name buffer, struct expr *index,
                              struct expr *count, struct expr *rank) {
    return (struct chunk_ref){
        .span = at,
        .buffer = buffer.text,
        .buffer_span = buffer.at,
        .index = index,
        .count = count,
        .rank = rank,
    };
}

/* ---- statements --------------------------------------------------------------------------- */

/* A statement whose blocks would be too deep loses them. body: the deeper of its blocks, or NULL.
 */
static struct stmt *stmt_new(struct span at, struct parser *p, enum stmt_kind kind,
                             struct stmt_list *body) {
    struct stmt *s = arena_alloc(p->arena, sizeof *s);
    s->kind = kind;
    s->span = at;
    s->depth = 1 + (body ? body->depth : 0);
    if (s->depth > MAX_DEPTH) {
        syntax_too_deep(p, at);
        *body = (struct stmt_list){0};
        s->depth = 1;
    }
    return s;
}

struct stmt *stmt_buffer(struct span at, struct parser *p, enum buffer_role role, struct name name,
                         struct expr *chunks, struct expr *group) {
    struct stmt *s = stmt_new(at, p, STMT_BUFFER, NULL);
    s->buffer.role = role;
    s->buffer.name = name.text;
    s->buffer.name_span = name.at;
    s->buffer.chunks = chunks;
    s->buffer.group = group;
    return s;
}

struct stmt *stmt_move(struct span at, struct parser *p, enum stmt_kind kind, struct chunk_ref src,
                       struct chunk_ref dst, struct expr *via) {
    struct stmt *s = stmt_new(at, p, kind, NULL);
    s->move.src = src;
    s->move.dst = dst;
    s->move.via = via;
    return s;
}

struct stmt *stmt_step(struct span at, struct parser *p, struct stmt_list body) {
    struct stmt *s = stmt_new(at, p, STMT_STEP, &body);
    s->step.body = body.first;
    return s;
}

struct stmt *stmt_stage(struct span at, struct parser *p, struct name name, struct expr *via,
                        struct stmt_list body) {
    struct stmt *s = stmt_new(at, p, STMT_STAGE, &body);
    s->stage.name = name.text;
    s->stage.name_span = name.at;
    s->stage.via = via;
    s->stage.body = body.first;
    return s;
}

struct stmt *stmt_call(struct span at, struct parser *p, struct name name, struct expr_list args,
                       struct expr *via) {
    struct stmt *s = stmt_new(at, p, STMT_CALL, NULL);
    s->call.name = name.text;
    s->call.name_span = name.at;
    s->call.args = args.first;
    s->call.via = via;
    return s;
}

struct stmt *stmt_let(struct span at, struct parser *p, struct name name, struct expr *value) {
    struct stmt *s = stmt_new(at, p, STMT_LET, NULL);
    s->let.name = name.text;
    s->let.name_span = name.at;
    s->let.value = value;
    return s;
}

struct stmt *stmt_let_function(struct span at, struct parser *p, struct name name,
                               struct formal_list formals, struct expr *value) {
    struct stmt *s = stmt_new(at, p, STMT_LET_FUNCTION, NULL);
    s->let_function.name = name.text;
    s->let_function.name_span = name.at;
    s->let_function.formals = formals.first;
    s->let_function.value = value;
    return s;
}

struct stmt *stmt_if(struct span at, struct parser *p, struct expr *cond, struct stmt_list yes,
                     struct stmt_list no) {
    struct stmt_list *deeper = yes.depth > no.depth ? &yes : &no;
    struct stmt *s = stmt_new(at, p, STMT_IF, deeper);
    s->if_.cond = cond;
    s->if_.yes = yes.first;
    s->if_.no = no.first;
    return s;
}

struct stmt *stmt_for(struct span at, struct parser *p, struct loop_head head,
                      struct stmt_list body) {
    struct stmt *s = stmt_new(at, p, STMT_FOR, &body);
    s->for_.generators = head.generators;
    s->for_.where = head.where;
    s->for_.body = body.first;
    return s;
}

struct stmt *stmt_require(struct span at, struct parser *p, struct expr *cond,
                          const char *message) {
    struct stmt *s = stmt_new(at, p, STMT_REQUIRE, NULL);
    s->require.cond = cond;
    s->require.message = message;
    return s;
}

static bool has_root(enum collective kind) {
    return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
           kind == COLL_SCATTER;
}

struct stmt *stmt_collective(struct span at, struct parser *p, struct name name, struct expr *root,
                             struct expr *group) {
    const char *names[COLL_ALLTOALL + 1] = {0};
    enum collective kind = COLL_NONE;
    for (enum collective c = COLL_ALLREDUCE; c <= COLL_ALLTOALL; c++) {
        names[c - COLL_ALLREDUCE] = collective_name(c);
        if (strcmp(name.text, collective_name(c)) == 0)
            kind = c;
    }
    if (kind == COLL_NONE) {
        const char *near = nearest_name(name.text, names);
        diag_report(p->diag, SEV_ERROR, name.at, "unknown collective '%s'%s%s%s", name.text,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        diag_report(p->diag, SEV_NOTE, (struct span){0},
                    "there are allreduce, reduce_scatter, allgather, broadcast, reduce, gather, "
                    "scatter and alltoall");
    } else if (root && !has_root(kind)) {
        diag_report(p->diag, SEV_ERROR, root->span, "%s has no root", name.text);
    } else if (!root && has_root(kind)) {
        diag_report(p->diag, SEV_ERROR, name.at, "%s needs a root: %s(rank)", name.text, name.text);
    }
    struct stmt *s = stmt_new(at, p, STMT_COLLECTIVE, NULL);
    s->collective.kind = kind;
    s->collective.root = root;
    s->collective.group = group;
    return s;
}

static struct stmt *stmt_ensure(struct span at, struct parser *p, enum stmt_kind kind,
                                struct chunk_ref left, struct loop_head head) {
    struct stmt *s = stmt_new(at, p, kind, NULL);
    s->ensure.left = left;
    s->ensure.generators = head.generators;
    s->ensure.where = head.where;
    return s;
}

struct stmt *stmt_ensure_equal(struct span at, struct parser *p, struct chunk_ref left,
                               struct chunk_ref right, struct loop_head head) {
    struct stmt *s = stmt_ensure(at, p, STMT_ENSURE_VALUE, left, head);
    s->ensure.term = right;
    return s;
}

struct stmt *stmt_ensure_sum(struct span at, struct parser *p, struct chunk_ref left,
                             struct chunk_ref term, struct loop_head sum, struct loop_head head) {
    struct stmt *s = stmt_ensure_equal(at, p, left, term, head);
    s->ensure.is_sum = true;
    s->ensure.sum_gens = sum.generators;
    s->ensure.sum_where = sum.where;
    return s;
}

struct stmt *stmt_ensure_identical(struct span at, struct parser *p, struct chunk_ref left,
                                   struct loop_head head) {
    return stmt_ensure(at, p, STMT_ENSURE_IDENTICAL, left, head);
}

struct stmt *stmt_slices(struct span at, struct parser *p, struct expr *count) {
    struct stmt *s = stmt_new(at, p, STMT_SLICES, NULL);
    s->slices.count = count;
    return s;
}

/* ---- top level ---------------------------------------------------------------------------- */

void file_import(struct span at, struct parser *p, const char *path) {
    if (p->program.lets || p->program.defs || p->program.schedules) {
        diag_report(p->diag, SEV_ERROR, at, "imports come before everything else in a file");
        return;
    }
    struct import *i = arena_alloc(p->arena, sizeof *i);
    i->path = path;
    i->at = at;
    if (p->last_import)
        p->last_import->next = i;
    else
        p->imports = i;
    p->last_import = i;
}

void file_let(struct parser *p, struct stmt *let) {
    if (p->last_let)
        p->last_let->next = let;
    else
        p->program.lets = let;
    p->last_let = let;
}

void file_def(struct span at, struct parser *p, struct name name, struct formal_list formals,
              struct stmt_list body) {
    for (const struct formal *f = formals.first; f; f = f->next)
        if (f->initial)
            diag_report(p->diag, SEV_ERROR, f->span,
                        "a parameter of a def has no default; only those of a schedule do");
    struct def *d = arena_alloc(p->arena, sizeof *d);
    d->name = name.text;
    d->name_span = name.at;
    d->span = at;
    d->formals = formals.first;
    d->body = body.first;
    if (p->last_def)
        p->last_def->next = d;
    else
        p->program.defs = d;
    p->last_def = d;
}

void file_schedule(struct span at, struct parser *p, struct name name, struct formal_list formals,
                   struct stmt_list body) {
    for (const struct formal *f = formals.first; f; f = f->next)
        if (f->kind == FORMAL_BUFFER)
            diag_report(p->diag, SEV_ERROR, f->span,
                        "a schedule has no buffer parameters; declare '%s' in its body", f->name);
    struct schedule *s = arena_alloc(p->arena, sizeof *s);
    s->name = name.text;
    s->name_span = name.at;
    s->span = at;
    s->formals = formals.first;
    s->body = body.first;
    if (p->last_schedule)
        p->last_schedule->next = s;
    else
        p->program.schedules = s;
    p->last_schedule = s;
}
