/*
 * sluice.c: the public C API, a thin skin over plan.c that checks arguments and translates.
 */
#include "runtime/handles.h"

#include <stdlib.h>
#include <string.h>

struct sluice_plan {
    struct plan *plan;
    char *diagnostics; /* NULL: none */
    char error[128];   /* of what plan.c never saw */
};

sluice_status public_status(enum run_status s) {
    switch (s) {
    case RUN_OK:
        return SLUICE_OK;
    case RUN_BAD_ARGUMENT:
        return SLUICE_INVALID_ARGUMENT;
    case RUN_BAD_SCHEDULE:
        return SLUICE_INVALID_SCHEDULE;
    case RUN_NO_MEMORY:
        return SLUICE_OUT_OF_MEMORY;
    case RUN_DEVICE:
        return SLUICE_DEVICE_ERROR;
    case RUN_PEER:
        return SLUICE_PEER_ERROR;
    case RUN_UNSUPPORTED:
        return SLUICE_NOT_SUPPORTED;
    case RUN_BUSY:
        return SLUICE_BUSY;
    case RUN_INTERNAL:
        break;
    }
    return SLUICE_INTERNAL_ERROR;
}

static bool dtype_of(sluice_dtype t, enum dtype *out) {
    static const enum dtype types[] = {
        [SLUICE_F32] = DTYPE_F32, [SLUICE_F16] = DTYPE_F16, [SLUICE_BF16] = DTYPE_BF16,
        [SLUICE_F64] = DTYPE_F64, [SLUICE_I32] = DTYPE_I32, [SLUICE_I64] = DTYPE_I64,
        [SLUICE_U8] = DTYPE_U8,
    };
    if ((size_t)t >= sizeof types / sizeof types[0])
        return false;
    *out = types[t];
    return true;
}

static bool redop_of(sluice_op op, enum redop *out) {
    static const enum redop ops[] = {
        [SLUICE_SUM] = REDOP_SUM,
        [SLUICE_AVG] = REDOP_AVG,
        [SLUICE_MIN] = REDOP_MIN,
        [SLUICE_MAX] = REDOP_MAX,
    };
    if ((size_t)op >= sizeof ops / sizeof ops[0])
        return false;
    *out = ops[op];
    return true;
}

/* NULL, or what is wrong with the options. */
static const char *translate(const sluice_options *o, struct compile_options *c,
                             struct run_options *r) {
    *c = (struct compile_options){.schedule = o->schedule, .defines = o->defines, .emit_rank = -1};
    *r = (struct run_options){.threads = o->threads,
                              .memory_limit_bytes = o->memory_limit_bytes,
                              .compile_only = o->gpu_only != 0};
    if (o->struct_bytes != sizeof *o)
        return "the options were not made by SLUICE_OPTIONS_INIT of this version";
    if (o->ranks < 1 || o->ranks > 65536)
        return "ranks is not in 1 .. 65536";
    if (o->ranks_per_node < 0 || (o->ranks_per_node > 0 && o->ranks % o->ranks_per_node != 0))
        return "ranks_per_node does not divide ranks";
    if (o->slices < 0 || o->threads < 0)
        return "slices or threads is negative";
    if (!dtype_of(o->dtype, &c->setup.dtype) || !redop_of(o->op, &c->setup.redop))
        return "unknown dtype or op";
    c->setup.ranks = o->ranks;
    c->setup.nodes = o->ranks_per_node > 0 ? o->ranks / o->ranks_per_node : 1;
    c->setup.count = o->count;
    c->setup.slices = (uint32_t)o->slices;
    return NULL;
}

/* node_of, then local_of; NULL: no memory. */
static int32_t *map_nodes(struct setup *s, int32_t ranks_per_node) {
    int32_t *map = malloc(2 * (size_t)s->ranks * sizeof *map);
    if (!map)
        return NULL;
    for (int32_t rank = 0; rank < s->ranks; rank++) {
        map[rank] = rank / ranks_per_node;
        map[s->ranks + rank] = rank % ranks_per_node;
    }
    s->node_of = map;
    s->local_of = map + s->ranks;
    return map;
}

/* The diagnostics as text; NULL when there are none, or no memory. */
static char *print_diagnostics(const struct compilation *c) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = c && c->diag ? open_memstream(&text, &bytes) : NULL;
    if (!out)
        return NULL;
    diag_print(c->diag, out, false);
    fclose(out);
    return text;
}

static sluice_status fail(sluice_plan *p, sluice_status status, const char *words) {
    snprintf(p->error, sizeof p->error, "%s", words);
    return status;
}

/* path, or name with text. */
static sluice_status compile(sluice_plan **out, const char *path, const char *name,
                             const char *text, size_t bytes, const sluice_options *options) {
    struct compile_options c;
    struct run_options r;
    if (!out)
        return SLUICE_INVALID_ARGUMENT;
    *out = NULL;
    if (!options)
        return SLUICE_INVALID_ARGUMENT;
    sluice_plan *p = *out = calloc(1, sizeof *p);
    if (!p)
        return SLUICE_OUT_OF_MEMORY;
    if (!path && (!name || (!text && bytes > 0)))
        return fail(p, SLUICE_INVALID_ARGUMENT, "there is no path, or no name or text");
    const char *refusal = translate(options, &c, &r);
    if (refusal)
        return fail(p, SLUICE_INVALID_ARGUMENT, refusal);
    int32_t *map = NULL;
    if (options->ranks_per_node > 0 && !(map = map_nodes(&c.setup, options->ranks_per_node)))
        return fail(p, SLUICE_OUT_OF_MEMORY, "no memory");
    p->plan =
        path ? plan_new_file(path, &c, &r) : plan_new_text(name, text ? text : "", bytes, &c, &r);
    free(map);
    if (!p->plan)
        return fail(p, SLUICE_OUT_OF_MEMORY, "no memory");
    p->diagnostics = print_diagnostics(plan_compilation(p->plan));
    return public_status(plan_status(p->plan));
}

sluice_status sluice_compile_text(sluice_plan **plan, const char *name, const char *text,
                                  size_t bytes, const sluice_options *options) {
    return compile(plan, NULL, name, text, bytes, options);
}

sluice_status sluice_compile_file(sluice_plan **plan, const char *path,
                                  const sluice_options *options) {
    return compile(plan, path, NULL, NULL, 0, options);
}

struct plan *plan_of_handle(const sluice_plan *p) {
    return p && p->plan && plan_ready(p->plan) ? p->plan : NULL;
}

sluice_status sluice_run_cpu(sluice_plan *plan, const void *const *send, void *const *recv) {
    if (!plan_of_handle(plan) || !send || !recv)
        return SLUICE_INVALID_ARGUMENT;
    return public_status(plan_run(plan->plan, send, recv));
}

sluice_status sluice_adapt(sluice_plan *plan) {
    return plan_of_handle(plan) ? public_status(plan_adapt(plan->plan)) : SLUICE_INVALID_ARGUMENT;
}

/* ---- state ---- */

size_t sluice_state_bytes(const sluice_plan *plan) {
    return plan_of_handle(plan) ? plan_state_bytes(plan->plan) : 0;
}

sluice_status sluice_state_save(const sluice_plan *plan, void *to, size_t bytes) {
    if (!plan_of_handle(plan) || bytes != plan_state_bytes(plan->plan) || (!to && bytes > 0))
        return SLUICE_INVALID_ARGUMENT;
    plan_state_save(plan->plan, to);
    return SLUICE_OK;
}

sluice_status sluice_state_restore(sluice_plan *plan, const void *from, size_t bytes) {
    if (!plan_of_handle(plan) || (!from && bytes > 0) ||
        !plan_state_restore(plan->plan, from, bytes))
        return SLUICE_INVALID_ARGUMENT;
    return SLUICE_OK;
}

sluice_status sluice_state_reset(sluice_plan *plan, uint64_t seed) {
    if (!plan_of_handle(plan))
        return SLUICE_INVALID_ARGUMENT;
    plan_state_reset(plan->plan, seed);
    return SLUICE_OK;
}

void sluice_destroy(sluice_plan *plan) {
    if (!plan)
        return;
    plan_free(plan->plan);
    free(plan->diagnostics);
    free(plan);
}

/* ---- introspection ---- */

const char *sluice_version(void) {
    return SLUICE_VERSION;
}

const char *sluice_status_text(sluice_status status) {
    switch (status) {
    case SLUICE_OK:
        return "no error";
    case SLUICE_INVALID_ARGUMENT:
        return "invalid argument";
    case SLUICE_INVALID_SCHEDULE:
        return "invalid schedule";
    case SLUICE_OUT_OF_MEMORY:
        return "out of memory";
    case SLUICE_INTERNAL_ERROR:
        return "internal error";
    case SLUICE_DEVICE_ERROR:
        return "a call of CUDA or NCCL failed";
    case SLUICE_PEER_ERROR:
        return "another rank failed";
    case SLUICE_NOT_SUPPORTED:
        return "not supported";
    case SLUICE_BUSY:
        return "a ticket has to be waited for first";
    }
    return "unknown status";
}

const char *sluice_diagnostics(const sluice_plan *plan) {
    return plan && plan->diagnostics ? plan->diagnostics : "";
}

const char *sluice_error(const sluice_plan *plan) {
    if (!plan)
        return "";
    return plan->plan ? plan_error(plan->plan) : plan->error;
}

int sluice_property(const sluice_plan *plan, size_t index, const char **name, const char **detail) {
    const struct compilation *c = plan_of_handle(plan) ? plan_compilation(plan->plan) : NULL;
    if (!c || index >= c->proved.count)
        return 0;
    if (name)
        *name = c->proved.data[index].name;
    if (detail)
        *detail = c->proved.data[index].detail;
    return 1;
}

static size_t io_bytes(const sluice_plan *plan, int rank,
                       uint64_t (*elems)(const struct flow *f, int32_t rank)) {
    const struct compilation *c = plan_of_handle(plan) ? plan_compilation(plan->plan) : NULL;
    if (!c || rank < 0 || rank >= c->flow->setup.ranks)
        return 0;
    return elems(c->flow, rank) * dtype_bytes(c->flow->setup.dtype);
}

size_t sluice_send_bytes(const sluice_plan *plan, int rank) {
    return io_bytes(plan, rank, io_send_elems);
}

size_t sluice_recv_bytes(const sluice_plan *plan, int rank) {
    return io_bytes(plan, rank, io_recv_elems);
}

static sluice_stage_stats stage_of(const struct run_stage *s) {
    return (sluice_stage_stats){
        .name = s->name,
        .messages = s->messages,
        .raw_bytes = s->raw_bytes,
        .wire_bytes = s->wire_bytes,
        .needed_bytes = s->needed_bytes,
        .overflows = s->overflows,
        .encode_seconds = s->encode_seconds,
        .decode_seconds = s->decode_seconds,
        .reduce_seconds = s->reduce_seconds,
        .transfer_seconds = s->transfer_seconds,
    };
}

sluice_status sluice_get_stats(const sluice_plan *plan, sluice_stats *stats) {
    if (!plan_of_handle(plan) || !stats)
        return SLUICE_INVALID_ARGUMENT;
    const struct run_stats *s = plan_stats(plan->plan);
    *stats = (sluice_stats){
        .runs = s->runs,
        .repairs = s->repairs,
        .repair_wire_bytes = s->repair_wire_bytes,
        .wall_seconds = s->wall_seconds,
        .best_seconds = s->best_seconds,
        .arena_bytes = s->arena_bytes,
        .memory_bytes = s->total_bytes,
        .threads = s->threads,
        .total = stage_of(&s->total),
    };
    return SLUICE_OK;
}

sluice_status sluice_get_stage_stats(const sluice_plan *plan, size_t index,
                                     sluice_stage_stats *stats) {
    if (!plan_of_handle(plan) || !stats || index >= plan_stats(plan->plan)->stages)
        return SLUICE_INVALID_ARGUMENT;
    *stats = stage_of(&plan_stats(plan->plan)->stage[index]);
    return SLUICE_OK;
}
