/* What runtime/ and cli/ see of the compiler: text in, a proved plan out. */
#ifndef SLUICE_COMPILER_H
#define SLUICE_COMPILER_H

#include "compiler/ir.h"

struct compile_options {
    struct setup setup;
    const char *schedule;       /* NULL: the only one in the file */
    const char *const *defines; /* "name=value", NULL-terminated, or NULL */
    const char *dump_after; /* pass names, comma separated, "all", or NULL; printed to dump_to */
    FILE *dump_to;
    const char *stop_after;    /* a pass name: the pipeline ends there; NULL: all of it */
    int32_t emit_rank;         /* -1: all */
    size_t memory_limit_bytes; /* 0: the default, 4 GiB; more is refused with an error, not by the
                                  kernel */
};

/* Compiles a file or text. Never NULL but on no memory; compilation_ok tells. Errors are in ->diag.
 */
struct compilation *compile_file(const char *path, const struct compile_options *o);
struct compilation *compile_text(const char *name, const char *text, size_t bytes,
                                 const struct compile_options *o);
bool compilation_ok(const struct compilation *c);
void compilation_free(struct compilation *c);

/* sluice opt: text of flow or tasks in, the named passes (comma separated; none: parse and print)
 * applied, the text out. False: errors in *c->diag. A flow or task file is known by its first word.
 */
struct compilation *opt_text(const char *name, const char *text, size_t bytes, const char *passes,
                             const struct compile_options *o);
void compilation_print(const struct compilation *c, FILE *out); /* the lowest form there is */

/* Pass names in order, NULL-terminated. */
extern const char *const pass_names[];

#endif
