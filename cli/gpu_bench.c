/* sluice bench COLLECTIVE: the command line, and the processes. */
#include "cli/gpu_bench.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ITERS = 20, DEFAULT_WARMUP = 5, DEFAULT_FACTOR = 2, MAX_ITERS = 4096 };
#define GRACE_S         10.0
#define DEFAULT_BYTES   (UINT64_C(32) << 20)
#define MAX_INPUT_BYTES (UINT64_C(1) << 30)

bool gpu_collective_parse(const char *name, enum collective *c) {
    for (*c = COLL_ALLREDUCE; *c <= COLL_ALLTOALL; *c = (enum collective)(*c + 1)) {
        if (strcmp(name, collective_name(*c)) == 0) {
            return true;
        }
    }
    return false;
}

static bool sizes_parse(struct gpu_bench *b) {
    const struct options *o = b->o;
    b->first_bytes = o->bytes > 0 ? (uint64_t)o->bytes : DEFAULT_BYTES;
    b->last_bytes = o->end > 0 ? (uint64_t)o->end : b->first_bytes;
    b->factor = o->factor > 0 ? (uint64_t)o->factor : DEFAULT_FACTOR;
    if (o->count >= 0) {
        usage_error(o, "sizes are in bytes here: -b, -e, -f");
        return false;
    }
    if (b->last_bytes < b->first_bytes) {
        usage_error(o, "-e is smaller than -b");
        return false;
    }
    b->iters = o->iters > 0 ? (int)o->iters : DEFAULT_ITERS;
    b->warmup = o->warmup >= 0 ? (int)o->warmup : DEFAULT_WARMUP;
    if (b->iters > MAX_ITERS) {
        usage_error(o, "at most %d iterations here", MAX_ITERS);
        return false;
    }
    return true;
}

/* As many as were started, or asked for. */
static bool ranks_known(const struct options *o, const int32_t *ranks, size_t count) {
    struct launch l;
    char err[256];
    if (ranks && count == 1) {
        return true;
    }
    if (!ranks && (launch_from_environment(&l, err, sizeof err) || err[0])) {
        return true; /* what is wrong is told when they are to run */
    }
    usage_error(o, ranks ? "one number of ranks, please" : "how many ranks? -n N");
    return false;
}

/* How the ranks are told that they lie on hosts; 0: as they do. False: an error was printed. */
static bool per_node_parse(const struct options *o, int ranks, int *per_node) {
    *per_node = o->ranks_per_node > 0 ? (int)o->ranks_per_node : 0;
    if (o->nodes <= 0) {
        return true;
    }
    if (ranks <= 0 || ranks % o->nodes != 0) {
        usage_error(o, "%d ranks do not divide over %lld nodes", ranks, (long long)o->nodes);
        return false;
    }
    *per_node = ranks / (int)o->nodes;
    return true;
}

static enum exit_code start(struct gpu_bench *b, int ranks) {
    const struct options *o = b->o;
    struct launch_options l = {
        .ranks = ranks, .oversubscribe = o->oversubscribe, .grace_s = GRACE_S};
    char program[32];
    snprintf(program, sizeof program, "sluice %s", commands[o->command].name);
    if (!per_node_parse(o, ranks, &l.ranks_per_node)) {
        return EXIT_USAGE;
    }
    return (enum exit_code)launch_ranks(program, &l, gpu_rank_run, b);
}

enum exit_code bench_collective(const struct options *o, enum collective collective) {
    struct gpu_bench b = {.o = o, .collective = collective, .root = 0};
    static const char *const none[] = {NULL};
    struct input_file file = {0};
    struct job job;
    char error[256];
    size_t count = 0;
    int32_t *ranks = o->ranks ? ranks_parse(o, "1", &count) : NULL;
    if ((o->ranks && !ranks) || !job_start(&job, o)) {
        free(ranks);
        return EXIT_USAGE;
    }
    b.dtype = job.compile.setup.dtype;
    b.op = job.compile.setup.redop;
    b.files = o->operands.items + 1;
    b.codecs = o->codecs.count ? o->codecs.items : none;
    enum exit_code code = EXIT_USAGE;
    bool readable = true;
    for (size_t i = 0; b.files[i] && readable; i++) {
        readable = file_readable(o, b.files[i]);
    }
    if (!readable) {
        code = EXIT_IO;
    } else if (ranks_known(o, ranks, count) && sizes_parse(&b) &&
               generator_parse(o, &b.kind, &b.seed)) {
        code = EXIT_OK;
        if (o->input) {
            b.input = &file;
            if (!input_file_read(o->input, b.dtype, MAX_INPUT_BYTES, &file, error, sizeof error)) {
                complain(o, "%s", error);
                code = EXIT_INPUT;
            }
        }
        code = code == EXIT_OK ? start(&b, ranks ? ranks[0] : 0) : code;
    }
    input_file_free(&file);
    job_free(&job);
    free(ranks);
    return code;
}
