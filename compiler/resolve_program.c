/* The whole program: lets of all files, then defs, then the schedule with its parameters. Defs may
 * be used before they stand, lets may not. No def may reach itself.
 */
#include "compiler/eval.h"

/* ---- lets and defs ------------------------------------------------------------------------ */

static void declare_defs(struct resolver *r, const struct program *p) {
    for (const struct def *d = p->defs; d; d = d->next) {
        struct routine *routine = arena_alloc(r->arena, sizeof *routine);
        routine->name = d->name;
        routine->at = d->name_span;
        routine->formals = d->formals;
        struct symbol *symbol = scope_declare(r->scope, SYMBOL_DEF, d->name, d->name_span);
        if (symbol)
            symbol->routine = routine;
    }
}

static void open_routine(struct resolver *r, struct routine *routine) {
    r->routine = routine;
    r->next_slot = r->slots = 0;
    r->in_step = r->in_schedule = false;
    r->nesting = 0;
}

static void close_routine(struct resolver *r, struct symbol *mark) {
    struct routine *routine = r->routine;
    scope_close(r->scope, mark);
    routine->slots = r->slots;
    routine->frame = arena_array(r->arena, routine->slots, sizeof *routine->frame);
    r->routine = NULL;
}

static void resolve_def(struct resolver *r, const struct def *d) {
    const struct symbol *symbol = scope_find(r->scope, d->name);
    if (!symbol || symbol->kind != SYMBOL_DEF || symbol->at.begin != d->name_span.begin)
        return; /* its name clashed */
    struct symbol *mark = scope_mark(r->scope);
    open_routine(r, symbol->routine);
    for (const struct formal *f = d->formals; f; f = f->next) {
        if (f->initial)
            resolve_error(r, f->initial->span, "a parameter of a def has no default");
        resolve_variable(r, f->name, f->span, resolve_formal_type(f->kind));
    }
    symbol->routine->body = resolve_list(r, d->body);
    close_routine(r, mark);
}

/* ---- recursion ---------------------------------------------------------------------------- */

static bool check_recursion(struct resolver *r, struct routine *routine, uint32_t depth) {
    if (routine->search == ROUTINE_DONE)
        return true;
    if (depth == ELABORATE_MAX_DEPTH) {
        resolve_error(r, routine->at, "defs call one another more than %d deep",
                      ELABORATE_MAX_DEPTH);
        return false;
    }
    routine->search = ROUTINE_OPEN;
    for (struct action *a = routine->calls; a; a = a->call.sibling) {
        struct routine *callee = a->call.routine;
        if (callee->search == ROUTINE_OPEN) {
            resolve_error(r, a->call.name_span, "'%s' calls itself: there is no recursion",
                          callee->name);
            r->cycle = callee;
        } else if (check_recursion(r, callee, depth + 1)) {
            continue;
        } else if (r->cycle) {
            diag_report(r->diag, SEV_NOTE, a->call.name_span, "through this call in '%s'",
                        routine->name);
        }
        if (r->cycle == routine)
            r->cycle = NULL;
        routine->search = ROUTINE_DONE;
        return false;
    }
    routine->search = ROUTINE_DONE;
    return true;
}

/* ---- parameters --------------------------------------------------------------------------- */

static const struct formal *find_formal(const struct schedule *s, const char *name, size_t bytes) {
    for (const struct formal *f = s->formals; f; f = f->next)
        if (strlen(f->name) == bytes && !strncmp(f->name, name, bytes))
            return f;
    return NULL;
}

static void report_unknown_define(struct resolver *r, const struct schedule *s, const char *name) {
    size_t count = 0;
    for (const struct formal *f = s->formals; f; f = f->next)
        count++;
    const char **names = arena_array(r->arena, count + 1, sizeof *names);
    count = 0;
    for (const struct formal *f = s->formals; f; f = f->next)
        names[count++] = f->name;
    const char *nearest = nearest_name(name, names);
    const char *hint = nearest ? arena_printf(r->arena, "; did you mean '%s'?", nearest) : "";
    resolve_error(r, s->name_span, "schedule '%s' has no parameter '%s'%s", s->name, name, hint);
}

/* Each define names a parameter, once. */
static bool check_defines(struct resolver *r, const struct schedule *s,
                          const char *const *defines) {
    unsigned errors = diag_errors(r->diag);
    for (const char *const *d = defines; d && *d; d++) {
        size_t bytes = strcspn(*d, "=");
        const char *name = arena_strndup(r->arena, *d, bytes);
        if (!(*d)[bytes] || !bytes)
            resolve_error(r, s->name_span, "a define is name=value, found '%s'", *d);
        else if (!find_formal(s, *d, bytes))
            report_unknown_define(r, s, name);
        for (const char *const *other = defines; other < d; other++)
            if (bytes && strcspn(*other, "=") == bytes && !strncmp(*other, *d, bytes))
                resolve_error(r, s->name_span, "parameter '%s' is defined twice", name);
    }
    return diag_errors(r->diag) == errors;
}

/* The value given to a parameter, or NULL. */
static const struct expr *find_define(struct resolver *r, struct sources *sources,
                                      const struct formal *f, const char *const *defines,
                                      bool *given) {
    size_t bytes = strlen(f->name);
    *given = false;
    for (const char *const *d = defines; d && *d; d++) {
        if (strncmp(*d, f->name, bytes) || (*d)[bytes] != '=')
            continue;
        const char *text = *d + bytes + 1;
        *given = true;
        return parse_expr_text(r->arena, sources, r->diag, arena_printf(r->arena, "-D %s", f->name),
                               text, strlen(text));
    }
    return NULL;
}

static const char *example_value(enum formal_kind kind) {
    switch (kind) {
    case FORMAL_INT:
        return "4";
    case FORMAL_CODEC:
        return "pack";
    case FORMAL_GROUP:
    case FORMAL_BUFFER:
        return "'ranks(0..N)'";
    }
    return "";
}

/* A parameter is a let at the start of the body. */
static struct action *resolve_parameter(struct resolver *r, struct sources *sources,
                                        const struct formal *f, const char *const *defines) {
    enum type type = resolve_formal_type(f->kind);
    bool given;
    const struct expr *define = find_define(r, sources, f, defines, &given);
    struct code *value = f->initial ? resolve_expr(r, f->initial, type) : NULL;
    if (given)
        value = define ? resolve_expr(r, define, type) : NULL;
    else if (!f->initial && f->kind != FORMAL_BUFFER)
        resolve_error(r, f->span, "parameter '%s' has no value: give it one with -D %s=%s", f->name,
                      f->name, example_value(f->kind));
    if (f->kind == FORMAL_BUFFER)
        resolve_error(r, f->span, "a schedule declares its buffers in its body, not as parameters");
    struct action *a = arena_alloc(r->arena, sizeof *a);
    a->kind = STMT_LET;
    a->weight = 1;
    a->span = f->span;
    a->let.value = value;
    a->let.slot = resolve_variable(r, f->name, f->span, type);
    return a;
}

/* ---- the schedule ------------------------------------------------------------------------- */

static const char *list_schedules(struct resolver *r, const struct program *p) {
    const char *text = "";
    int shown = 0;
    for (const struct schedule *s = p->schedules; s && shown < 8; s = s->next, shown++)
        text = arena_printf(r->arena, "%s%s'%s'", text, shown ? ", " : "", s->name);
    return text;
}

static const struct schedule *find_schedule(struct resolver *r, const struct program *p,
                                            const char *name) {
    size_t count = 0;
    for (const struct schedule *s = p->schedules; s; s = s->next, count++)
        if (!strcmp(s->name, name))
            return s;
    const char **names = arena_array(r->arena, count + 1, sizeof *names);
    count = 0;
    for (const struct schedule *s = p->schedules; s; s = s->next)
        names[count++] = s->name;
    const char *nearest = nearest_name(name, names);
    resolve_error(r, (struct span){0, 0}, "there is no schedule '%s'; %s %s", name,
                  nearest ? "did you mean" : "the file has",
                  nearest ? arena_printf(r->arena, "'%s'?", nearest) : list_schedules(r, p));
    return NULL;
}

const struct schedule *resolve_choice(struct resolver *r, const struct program *p,
                                      const char *name) {
    if (!p->schedules) {
        resolve_error(r, (struct span){0, 0}, "there is no schedule in this file");
        return NULL;
    }
    if (name)
        return find_schedule(r, p, name);
    if (!p->schedules->next)
        return p->schedules;
    resolve_error(r, p->schedules->next->name_span, "there are several schedules: choose one of %s",
                  list_schedules(r, p));
    return NULL;
}

static void resolve_schedule(struct resolver *r, struct sources *sources, const struct schedule *s,
                             const char *const *defines, struct routine *out) {
    struct symbol *mark = scope_mark(r->scope);
    struct action **end = &out->body;
    out->name = s->name;
    out->at = s->name_span;
    out->formals = s->formals;
    open_routine(r, out);
    for (const struct formal *f = s->formals; f; f = f->next) {
        struct action *a = resolve_parameter(r, sources, f, defines);
        *end = a;
        end = &a->next;
    }
    r->in_schedule = true;
    *end = resolve_list(r, s->body);
    r->in_schedule = false;
    close_routine(r, mark);
    if (!r->collective && !r->ensure)
        resolve_error(
            r, s->name_span,
            "schedule '%s' says nothing of its result: it needs a 'collective' or an 'ensure'",
            s->name);
}

struct resolved *resolve_program(struct resolver *r, struct sources *sources,
                                 const struct program *p, const struct schedule *s,
                                 const char *const *defines) {
    struct resolved *out = arena_alloc(r->arena, sizeof *out);
    unsigned errors = diag_errors(r->diag);
    out->schedule = arena_alloc(r->arena, sizeof *out->schedule);
    out->globals = resolve_list(r, p->lets);
    out->global_slots = r->slots;
    declare_defs(r, p);
    for (const struct def *d = p->defs; d; d = d->next)
        resolve_def(r, d);
    if (check_defines(r, s, defines))
        resolve_schedule(r, sources, s, defines, out->schedule);
    bool recursive = false;
    for (struct symbol *y = scope_mark(r->scope); y; y = y->older)
        if (y->kind == SYMBOL_DEF && y->routine->search == ROUTINE_NEW)
            recursive |= !check_recursion(r, y->routine, 0);
    return recursive || diag_errors(r->diag) != errors ? NULL : out;
}
