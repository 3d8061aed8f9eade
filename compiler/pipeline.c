/* The compiler from end to end; `pipeline` below is the place to start reading. IR.md describes
 * what the passes work on.
 *
 * A compilation owns all its memory. When a limit is hit the passes are left by longjmp, and what
 * they had made hangs from the compilation.
 */
#include "compiler/compiler.h"

#include "compiler/irlex.h"

#include <setjmp.h>
#include <string.h>

#define DEFAULT_MEMORY_BYTES ((size_t)4 << 30)

enum pass {
#define PASS(NAME, ...) PASS_##NAME,
#include "compiler/passes.def"
#undef PASS
    PASS_COUNT
};

const char *const pass_names[] = {
#define PASS(NAME, ...) #NAME,
#include "compiler/passes.def"
#undef PASS
    NULL};

enum form { FORM_PROGRAM, FORM_FLOW, FORM_TASKS };

static const struct {
    enum form from, to;
} pass_forms[] = {
#define PASS(NAME, FROM, TO, ...) {FORM_##FROM, FORM_##TO},
#include "compiler/passes.def"
#undef PASS
};

/* One call of the compiler. */
struct job {
    jmp_buf out_of_memory;
    struct compilation *c;
    const struct compile_options *o;
    bool stopped; /* where stop_after says */
    /* compile: the text, or (NULL) the file `name`; opt: the text and its passes */
    const char *name, *text, *passes;
    size_t bytes;
};

static bool in_list(const char *list, const char *name, size_t n) {
    while (list && *list) {
        size_t len = strcspn(list, ",");
        if (len == n && !memcmp(list, name, n))
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

/* After each pass: dump what there is now; false: stop here. */
static bool done(struct job *j, enum pass pass) {
    const struct compile_options *o = j->o;
    const char *name = pass_names[pass];
    if (o->dump_after && o->dump_to &&
        (in_list(o->dump_after, "all", 3) || in_list(o->dump_after, name, strlen(name)))) {
        fprintf(o->dump_to, "# after %s\n", name);
        compilation_print(j->c, o->dump_to);
    }
    j->stopped = o->stop_after && strcmp(o->stop_after, name) == 0;
    return !j->stopped;
}

/* ---- the pipeline ------------------------------------------------------------------------- */

static bool pipeline(struct job *j) {
    struct compilation *c = j->c;
    const struct compile_options *o = j->o;
    return
        /* A tree of names and loops. After: flow, every chunk that any rank moves, in program
           order. */
        pass_elaborate(c, o->schedule, o->defines) && done(j, PASS_elaborate) &&

        /* Nothing is known of the flow. After: it is right, or an error was reported; what each
         * chunk holds, and which bytes each transfer moves, is known. */
        pass_verify(c) && done(j, PASS_verify) &&

        /* The encodings are in the trace. After: they are in the flow, so that encoded bytes are
           made once a rank. */
        pass_forward(c) && done(j, PASS_forward) &&

        /* Chunk operations of all ranks. After: each rank's list of tasks, every step of a transfer
           one of its own. */
        pass_lower(c) && done(j, PASS_lower) &&

        /* Many small tasks. After: one for each decode, reduce and encode in a row. The bits are
           the same. */
        pass_fuse(c) && done(j, PASS_fuse) &&

        /* Tasks work on whole chunks. After: on slices of them, with their sizes in elements and
           bytes. */
        pass_slice(c) && done(j, PASS_slice) &&

        /* Sends and receives stand in the lists anywhere. After: in numbered rounds, the same at
           both ends. */
        pass_rounds(c) && done(j, PASS_rounds) &&

        /* One list a rank. After: lanes that run side by side, a transfer under the codec work of
           another slice. */
        pass_lanes(c) && done(j, PASS_lanes) &&

        /* Pieces and sums have no place. After: offsets in one arena a rank, and every wait between
           lanes that needs. */
        pass_slots(c) && done(j, PASS_slots) &&

        /* Trust in all of the above. After: none is needed, the tasks themselves are proved. */
        pass_validate(c) && done(j, PASS_validate);
}

/* ---- one pass at a time, for opt ---------------------------------------------------------- */

static bool run_pass(struct compilation *c, enum pass pass) {
    switch (pass) {
    case PASS_verify:
        return pass_verify(c);
    case PASS_forward:
        return (c->values || pass_verify(c)) && pass_forward(c);
    case PASS_lower:
        /* What the text says of encodings is believed only when forward finds the same. */
        return (c->values || pass_verify(c)) && pass_forward(c) && pass_lower(c);
    case PASS_fuse:
        return pass_fuse(c);
    case PASS_slice:
        return pass_slice(c);
    case PASS_rounds:
        return pass_rounds(c);
    case PASS_lanes:
        return pass_lanes(c);
    case PASS_slots:
        return pass_slots(c);
    case PASS_validate:
        return pass_validate(c);
    case PASS_elaborate:
    case PASS_COUNT:
        break;
    }
    return false;
}

static bool opt_error(struct job *j, const char *format, const char *a, const char *b) {
    char *text = arena_printf(j->c->arena, "%s: ", j->name);
    diag_report(j->c->diag, SEV_ERROR, (struct span){0, 0}, "%s%s%s%s", text, a, format, b);
    return false;
}

static enum pass find_pass(const char *name, size_t n) {
    int pass = 0;
    while (pass < PASS_COUNT &&
           (strlen(pass_names[pass]) != n || memcmp(pass_names[pass], name, n)))
        pass++;
    return (enum pass)pass;
}

static bool run_named(struct job *j, const char *name, size_t n) {
    struct compilation *c = j->c;
    char *quoted = arena_printf(c->arena, "'%.*s'", (int)(n < 40 ? n : 40), name);
    enum pass pass = find_pass(name, n);
    enum form form = c->tasks ? FORM_TASKS : FORM_FLOW;
    if (pass == PASS_COUNT)
        return opt_error(j, "there is no pass ", "", quoted);
    if (pass_forms[pass].from == FORM_PROGRAM)
        return opt_error(j, " works on a schedule, and this is what became of one", quoted, "");
    if (pass_forms[pass].from == FORM_FLOW && form == FORM_TASKS)
        return opt_error(j, " works on flow, and these are tasks already", quoted, "");
    if (pass_forms[pass].from == FORM_TASKS && form == FORM_FLOW)
        return opt_error(j, " works on tasks; 'lower' makes them from flow", quoted, "");
    return run_pass(c, pass) && done(j, pass);
}

/* ---- IR text ------------------------------------------------------------------------------ */

static bool starts_with(const char *text, size_t bytes, const char *word) {
    size_t at = 0, n = strlen(word);
    for (;;) {
        while (at < bytes && strchr(" \t\r\n", text[at]))
            at++;
        if (at == bytes || text[at] != '#')
            break;
        while (at < bytes && text[at] != '\n')
            at++;
    }
    return bytes - at > n && !memcmp(text + at, word, n) && strchr(" \t", text[at + n]);
}

static bool read_ir(struct job *j) {
    struct compilation *c = j->c;
    if (starts_with(j->text, j->bytes, "flow")) {
        c->flow = flow_parse(c->arena, c->sources, c->diag, j->name, j->text, j->bytes);
    } else if (starts_with(j->text, j->bytes, "tasks")) {
        c->tasks = tasks_parse(c->arena, c->sources, c->diag, j->name, j->text, j->bytes);
        c->flow =
            c->tasks ? (struct flow *)c->tasks->flow : NULL; /* made with the tasks, ours now */
    } else {
        return opt_error(j, "neither flow nor tasks: the first word says which it is", "", "");
    }
    if (!c->flow)
        return false;
    flow_set_guard(c->flow, &c->guard);
    if (j->o->setup.slices)
        c->flow->setup.slices = j->o->setup.slices;
    c->setup = c->flow->setup;
    return true;
}

static bool opt(struct job *j) {
    if (!read_ir(j))
        return false;
    for (const char *at = j->passes; at && *at;) {
        size_t n = strcspn(at, ",");
        if (!run_named(j, at, n))
            return false;
        at += n + (at[n] == ',');
    }
    return true;
}

/* ---- schedules ---------------------------------------------------------------------------- */

enum { MAX_RANKS = 65536 };

static bool check_setup(struct compilation *c) {
    const struct setup *s = &c->setup;
    struct span nowhere = {0, 0};
    if (s->ranks < 1 || s->ranks > MAX_RANKS)
        diag_report(c->diag, SEV_ERROR, nowhere, "%d ranks: there are between 1 and %d", s->ranks,
                    MAX_RANKS);
    else if ((unsigned)s->dtype >= DTYPE_COUNT || (unsigned)s->redop >= REDOP_COUNT)
        diag_report(c->diag, SEV_ERROR, nowhere, "no such element type or reduction");
    else if (s->slices > SETUP_MAX_SLICES)
        diag_report(c->diag, SEV_ERROR, nowhere, "%u slices: there are at most %d", s->slices,
                    SETUP_MAX_SLICES);
    else if (s->count > SETUP_MAX_COUNT)
        diag_report(c->diag, SEV_ERROR, nowhere, "%llu elements: there are at most %llu",
                    (unsigned long long)s->count, (unsigned long long)SETUP_MAX_COUNT);
    else
        return true;
    return false;
}

static bool compile(struct job *j) {
    struct compilation *c = j->c;
    if (!check_setup(c))
        return false;
    c->program =
        j->text ? parse_text(c->arena, c->sources, c->diag, j->name, j->text, j->bytes, NULL, NULL)
                : parse_file(c->arena, c->sources, c->diag, j->name);
    return !diag_errors(c->diag) && pipeline(j);
}

/* ---- memory, and its end ------------------------------------------------------------------ */

static void out_of_memory(void *ctx) {
    struct job *j = ctx;
    longjmp(j->out_of_memory, 1);
}

static void report_memory(struct job *j) {
    size_t limit = j->o->memory_limit_bytes ? j->o->memory_limit_bytes : DEFAULT_MEMORY_BYTES;
    diag_report(j->c->diag, SEV_ERROR, (struct span){0, 0},
                "%s: out of memory: this takes more than %zu MiB to compile", j->name, limit >> 20);
}

/* The caller's arrays may not live as long as the compilation. */
static void copy_nodes(struct compilation *c) {
    struct setup *s = &c->setup;
    if (!s->node_of || s->ranks < 1 || s->ranks > MAX_RANKS)
        return;
    size_t n = (size_t)s->ranks;
    int32_t *maps = arena_array(c->arena, 2 * n, sizeof *maps);
    memcpy(maps, s->node_of, n * sizeof *maps);
    memcpy(maps + n, s->local_of, n * sizeof *maps);
    s->node_of = maps;
    s->local_of = maps + n;
}

static struct compilation *compilation_new(const struct compile_options *o) {
    struct arena *a = arena_new();
    if (!a)
        return NULL;
    struct compilation *c = arena_alloc(a, sizeof *c);
    c->arena = a;
    c->sources = sources_new(a);
    c->diag = diag_new(a, c->sources);
    c->setup = o->setup;
    c->emit_rank = o->emit_rank;
    copy_nodes(c);
    return c;
}

/* Runs work under the memory limit: three quarters of it for arrays, the rest for the tree and for
 * texts. */
static void run_limited(struct job *j, bool (*work)(struct job *)) {
    struct compilation *c = j->c;
    size_t limit = j->o->memory_limit_bytes ? j->o->memory_limit_bytes : DEFAULT_MEMORY_BYTES;
    if (setjmp(j->out_of_memory)) {
        arena_set_limit(j->c->arena, 0, NULL, NULL);
        report_memory(j);
    } else {
        c->guard.on_out_of_memory = out_of_memory;
        c->guard.ctx = j;
        c->guard.limit_bytes = limit - limit / 4;
        arena_set_limit(c->arena, limit / 4, out_of_memory, j);
        bool good = work(j);
        if (!good && !j->stopped && !diag_errors(c->diag))
            diag_report(c->diag, SEV_ERROR, (struct span){0, 0},
                        "internal error: a pass failed and does not say why");
    }
    j->c->guard = (struct vec_guard){.held_bytes = j->c->guard.held_bytes};
    arena_set_limit(j->c->arena, 0, NULL, NULL);
}

static struct compilation *compile_job(struct job *j) {
    j->c = compilation_new(j->o);
    if (j->c)
        run_limited(j, compile);
    return j->c;
}

/* ---- what others call --------------------------------------------------------------------- */

struct compilation *compile_file(const char *path, const struct compile_options *o) {
    struct job j = {.o = o, .name = path};
    return compile_job(&j);
}

struct compilation *compile_text(const char *name, const char *text, size_t bytes,
                                 const struct compile_options *o) {
    struct job j = {.o = o, .name = name, .text = text, .bytes = bytes};
    return compile_job(&j);
}

struct compilation *opt_text(const char *name, const char *text, size_t bytes, const char *passes,
                             const struct compile_options *o) {
    struct job j = {.o = o, .name = name, .text = text, .bytes = bytes, .passes = passes};
    j.c = compilation_new(o);
    if (j.c)
        run_limited(&j, opt);
    return j.c;
}

bool compilation_ok(const struct compilation *c) {
    return c && !diag_errors(c->diag);
}

void compilation_print(const struct compilation *c, FILE *out) {
    if (c->tasks)
        tasks_print(c->tasks, c->emit_rank, out);
    else if (c->flow)
        flow_print(c->flow, out);
    else if (c->program)
        ast_print(c->program, out);
}

void compilation_free(struct compilation *c) {
    if (!c)
        return;
    prover_free(c);
    flow_trace_free(&c->trace, c->flow);
    values_free(c->values);
    tasks_free(c->tasks);
    flow_free(c->flow);
    VEC_FREE(&c->proved);
    arena_free(c->arena);
}
