/* sluice bench: which of the benchmarks. */
#include "cli/cli.h"

#include <string.h>

#ifdef SLUICE_BENCH_COLLECTIVES
#define COLLECTIVES ", or a collective"
#else
#define COLLECTIVES " (this sluice was built without CUDA, so it knows no collectives)"
#endif

enum exit_code cmd_bench(const struct options *o) {
    const char *what = o->operands.count ? o->operands.items[0] : "";
#ifdef SLUICE_BENCH_COLLECTIVES
    enum collective collective;
    if (gpu_collective_parse(what, &collective)) {
        return bench_collective(o, collective);
    }
#endif
    if (o->operands.count > 2) {
        return usage_error(o, "one file, please");
    }
    const char *path = o->operands.count == 2 ? o->operands.items[1] : NULL;
    if (strcmp(what, "compile") == 0) {
        return path && !schedule_readable(o, path) ? EXIT_IO : bench_compile(o, path);
    }
    if (strcmp(what, "codec") == 0) {
        return path && !file_readable(o, path) ? EXIT_IO : bench_codec(o, path);
    }
    return usage_error(o,
                       *what ? "no benchmark '%s'; there are compile and codec" COLLECTIVES
                             : "which benchmark? compile or codec%s" COLLECTIVES,
                       what);
}
