/* sluice show: a form of the compiled schedule, as text that can be read back, or as a graph. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* A form and the pass behind which it is whole; NULL: after all passes. */
static const struct form {
    const char *name, *stop_after;
    void (*print)(const struct compilation *c, FILE *out);
} forms[] = {
    {"ast", "parse", NULL},
    {"flow", "forward", compilation_print},
    {"tasks", NULL, compilation_print},
    {"dot", NULL, show_dot},
};
enum { FORM_COUNT = sizeof forms / sizeof *forms };

static const struct form *find_form(const struct options *o) {
    const char *name = o->emit ? o->emit : "flow";
    const char *names[FORM_COUNT + 1] = {0};
    for (size_t i = 0; i < FORM_COUNT; i++) {
        names[i] = forms[i].name;
        if (strcmp(forms[i].name, name) == 0) {
            return &forms[i];
        }
    }
    const char *near = nearest_name(name, names);
    usage_error(o, "unknown form '%s'%s%s%s", name, near ? "; did you mean '" : "",
                near ? near : "", near ? "'?" : "");
    return NULL;
}

/* The tree needs no compilation, and no number of ranks. */
static enum exit_code show_ast(const struct options *o, const char *path) {
    struct arena *arena = arena_new();
    if (!arena) {
        complain(o, "no memory");
        return EXIT_INTERNAL;
    }
    struct sources *sources = sources_new(arena);
    struct diag *diag = diag_new(arena, sources);
    const struct program *program = parse_file(arena, sources, diag, path);
    bool ok = diag_errors(diag) == 0;
    if (ok) {
        ast_print(program, stdout);
    }
    diag_print(diag, stderr, colour_on(o, stderr));
    arena_free(arena);
    return ok ? EXIT_OK : EXIT_INPUT;
}

static enum exit_code show_compiled(const struct options *o, const char *path,
                                    const struct form *form) {
    struct job job;
    size_t count;
    enum exit_code code = EXIT_USAGE;
    int32_t *ranks = ranks_parse(o, "8", &count);
    if (ranks && count != 1) {
        usage_error(o, "show takes one number of ranks");
    } else if (ranks && job_start(&job, o)) {
        if (job_set_ranks(&job, ranks[0])) {
            job.compile.stop_after = o->dump_after ? NULL : form->stop_after;
            struct compilation *c = compile_file(path, &job.compile);
            code = report(o, c);
            if (code == EXIT_OK && (o->emit || !o->dump_after)) {
                form->print(c, stdout);
            }
            compilation_free(c);
        }
        job_free(&job);
    }
    free(ranks);
    return code;
}

enum exit_code cmd_show(const struct options *o) {
    if (o->operands.count != 1) {
        return usage_error(o, o->operands.count ? "one file, please" : "which file?");
    }
    const struct form *form = find_form(o);
    if (!form ||
        (o->dump_after && strcmp(o->dump_after, "all") != 0 && !passes_known(o, o->dump_after))) {
        return EXIT_USAGE;
    }
    const char *path = o->operands.items[0];
    if (!schedule_readable(o, path)) {
        return EXIT_IO;
    }
    return form->print ? show_compiled(o, path, form) : show_ast(o, path);
}
