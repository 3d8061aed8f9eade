/* sluice opt: flow or task text in, passes applied, text out. What the tests of the passes use. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT_BYTES = 1 << 30 };

enum exit_code cmd_opt(const struct options *o) {
    if (o->operands.count != 1) {
        return usage_error(o, o->operands.count ? "one file, please"
                                                : "which file? '-' is standard input");
    }
    if (o->pass && !passes_known(o, o->pass)) {
        return EXIT_USAGE;
    }
    const char *path = o->operands.items[0];
    size_t bytes;
    char *text = file_read(o, path, MAX_TEXT_BYTES, &bytes);
    if (!text) {
        return EXIT_IO;
    }
    struct compile_options compile = {.emit_rank = -1};
    struct compilation *c = opt_text(strcmp(path, "-") == 0 ? "<stdin>" : path, text, bytes,
                                     o->pass ? o->pass : "", &compile);
    enum exit_code code = report(o, c);
    if (code == EXIT_OK) {
        compilation_print(c, stdout);
    }
    if (c) {
        compilation_free(c);
    }
    free(text);
    return code;
}
