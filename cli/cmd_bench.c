/* sluice bench: which of the benchmarks. */
#include "cli/cli.h"

#include <string.h>

enum exit_code cmd_bench(const struct options *o) {
    const char *what = o->operands.count ? o->operands.items[0] : "";
    if (o->operands.count > 2) {
        return usage_error(o, "one file, please");
    }
    const char *path = o->operands.count == 2 ? o->operands.items[1] : NULL;
    if (path && !file_readable(o, path)) {
        return EXIT_IO;
    }
    if (strcmp(what, "compile") == 0) {
        return bench_compile(o, path);
    }
    if (strcmp(what, "codec") == 0) {
        return bench_codec(o, path);
    }
    return usage_error(o,
                       *what ? "no benchmark '%s'; there are compile and codec"
                             : "which benchmark? compile or codec%s",
                       what);
}
