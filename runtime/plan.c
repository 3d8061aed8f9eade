/*
 * plan.c: source text -> a compiled plan and its repair, run again and again, its slots learned.
 *
 * Source and options are kept, since every adaptation compiles again. A new compilation is put
 * in use only when all of it succeeded and it moves the same chunks: files may have changed.
 */
#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

/* What can be exchanged: one compilation made ready to run. */
struct version {
    struct compilation *main, *repair; /* repair NULL: not needed, or errors in main */
    struct executor *executor;         /* NULL: not ready */
};

struct plan {
    char *path, *name, *text; /* a file's path, or a name and text */
    size_t bytes;
    struct compile_options options;
    int32_t *node_of, *local_of;
    char *schedule, **defines;
    struct run_options run;
    struct version version;
    struct learned *learned;
    uint64_t overflowed_runs; /* since the last adaptation */
    struct run_stats total;
    struct run_stage *stages; /* [total.stages] */
    enum run_status status;
    char error[256];
};

/* ---- copies of what the caller gave ---- */

static void *copy_bytes(const void *from, size_t bytes, bool *ok) {
    void *to = malloc(bytes ? bytes : 1);
    if (to && bytes)
        memcpy(to, from, bytes);
    *ok &= to != NULL;
    return to;
}

static char *copy_text(const char *s, bool *ok) {
    return s ? copy_bytes(s, strlen(s) + 1, ok) : NULL;
}

static bool copy_options(struct plan *p, const struct compile_options *c) {
    bool ok = true;
    size_t node_bytes = (size_t)c->setup.ranks * sizeof(int32_t);
    p->options = *c;
    p->options.setup.slot_bytes = NULL;
    p->options.setup.slot_count = 0;
    p->options.dump_after = NULL;
    p->options.stop_after = NULL;
    p->options.emit_rank = -1;
    if (c->setup.node_of && c->setup.ranks > 0)
        p->options.setup.node_of = p->node_of = copy_bytes(c->setup.node_of, node_bytes, &ok);
    if (c->setup.local_of && c->setup.ranks > 0)
        p->options.setup.local_of = p->local_of = copy_bytes(c->setup.local_of, node_bytes, &ok);
    p->options.schedule = p->schedule = copy_text(c->schedule, &ok);
    size_t defines = 0;
    while (c->defines && c->defines[defines])
        defines++;
    p->defines = calloc(defines + 1, sizeof *p->defines);
    for (size_t i = 0; i < defines && p->defines; i++)
        p->defines[i] = copy_text(c->defines[i], &ok);
    p->options.defines = (const char *const *)p->defines;
    return ok && p->defines;
}

/* ---- making a version ---- */

static enum run_status complain(struct plan *p, enum run_status status, const char *words) {
    snprintf(p->error, sizeof p->error, "%s", words);
    return status;
}

static struct compilation *compile(const struct plan *p, const struct setup *setup) {
    struct compile_options o = p->options;
    o.setup = *setup;
    return p->path ? compile_file(p->path, &o) : compile_text(p->name, p->text, p->bytes, &o);
}

static void version_free(struct version *v) {
    executor_free(v->executor);
    if (v->repair)
        compilation_free(v->repair);
    if (v->main)
        compilation_free(v->main);
    *v = (struct version){0};
}

/* Whether two compilations move the same chunks in the same order; codecs and sizes may differ. */
static bool same_moves(const struct flow *a, const struct flow *b) {
    if (a->locs != b->locs || a->ops.count != b->ops.count || a->steps != b->steps ||
        a->stages.count != b->stages.count || a->buffers.count != b->buffers.count)
        return false;
    for (size_t i = 0; i < a->buffers.count; i++) {
        const struct flow_buffer *x = &a->buffers.data[i], *y = &b->buffers.data[i];
        if (x->role != y->role || x->chunks != y->chunks || x->first_loc != y->first_loc)
            return false;
    }
    for (size_t i = 0; i < a->ops.count; i++) {
        const struct flow_op *x = &a->ops.data[i], *y = &b->ops.data[i];
        if (x->kind != y->kind || x->count != y->count || x->src != y->src || x->dst != y->dst ||
            x->step != y->step || x->stage != y->stage)
            return false;
    }
    return true;
}

enum run_status plan_compile_again(const struct plan *p, const struct setup *setup,
                                   struct compilation **c) {
    *c = compile(p, setup);
    if (!*c)
        return RUN_NO_MEMORY;
    bool same = compilation_ok(*c) && (*c)->tasks && same_moves(p->version.main->flow, (*c)->flow);
    return same ? RUN_OK : RUN_BAD_SCHEDULE;
}

/* Leaves v->main, for its messages, even when it fails. */
static enum run_status version_make(struct plan *p, const struct setup *setup, struct version *v) {
    enum run_status status;
    v->main = compile(p, setup);
    if (!v->main)
        return complain(p, RUN_NO_MEMORY, "no memory to compile");
    if (!compilation_ok(v->main))
        return RUN_BAD_SCHEDULE;
    if (!v->main->tasks)
        return complain(p, RUN_INTERNAL, "the compilation has no tasks");
    if (p->run.compile_only)
        return RUN_OK;
    if (tasks_can_overflow(v->main->tasks)) {
        struct setup again = *setup;
        again.repair = true;
        again.slot_bytes = NULL;
        again.slot_count = 0;
        v->repair = compile(p, &again);
        if (!v->repair)
            return complain(p, RUN_NO_MEMORY, "no memory to compile the repair");
        if (!compilation_ok(v->repair) || !v->repair->tasks)
            return complain(p, RUN_INTERNAL, "the repair does not compile");
        if (!same_moves(v->main->flow, v->repair->flow))
            return complain(p, RUN_BAD_SCHEDULE,
                            "the schedule's files changed while they were read");
    }
    char err[200];
    v->executor = executor_new(v->main->tasks, v->repair ? v->repair->tasks : NULL, &p->run,
                               &status, err, sizeof err);
    if (status == RUN_INTERNAL)
        snprintf(p->error, sizeof p->error, "%s", err);
    else if (status != RUN_OK)
        complain(p, status, err[0] ? err : "no memory to run");
    return status;
}

/* Names live in the compilation in use. */
static void name_stages(struct plan *p) {
    for (uint32_t i = 0; i < p->total.stages; i++)
        p->stages[i].name = p->version.main->flow->stages.data[i].name;
}

static enum run_status plan_init(struct plan *p) {
    enum run_status status = version_make(p, &p->options.setup, &p->version);
    if (status != RUN_OK || p->run.compile_only)
        return status;
    const struct run_stats *s = executor_stats(p->version.executor);
    p->total = *s;
    p->stages = calloc(s->stages, sizeof *p->stages);
    p->learned = learned_new(p->version.main->tasks);
    if (!p->stages || !p->learned)
        return complain(p, RUN_NO_MEMORY, "no memory to run");
    name_stages(p);
    p->total.stage = p->stages;
    p->total.total.name = "total";
    return RUN_OK;
}

static struct plan *plan_new(const char *path, const char *name, const char *text, size_t bytes,
                             const struct compile_options *c, const struct run_options *r) {
    struct plan *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    bool ok = true;
    p->path = copy_text(path, &ok);
    p->name = copy_text(name, &ok);
    p->text = text ? copy_bytes(text, bytes, &ok) : NULL;
    p->bytes = bytes;
    if (r)
        p->run = *r;
    if (!copy_options(p, c) || !ok)
        p->status = complain(p, RUN_NO_MEMORY, "no memory");
    else
        p->status = plan_init(p);
    return p;
}

struct plan *plan_new_file(const char *path, const struct compile_options *c,
                           const struct run_options *r) {
    return plan_new(path, NULL, NULL, 0, c, r);
}

struct plan *plan_new_text(const char *name, const char *text, size_t bytes,
                           const struct compile_options *c, const struct run_options *r) {
    return plan_new(NULL, name, text, bytes, c, r);
}

/* ---- running ---- */

static void add_run(struct plan *p, const struct run_stats *s) {
    struct run_stats *t = &p->total;
    t->best_seconds =
        t->runs == 0 || s->last_seconds < t->best_seconds ? s->last_seconds : t->best_seconds;
    t->last_seconds = s->last_seconds;
    t->wall_seconds += s->wall_seconds;
    t->runs++;
    t->repairs += s->repairs;
    t->repair_wire_bytes += s->repair_wire_bytes;
    for (uint32_t i = 0; i < t->stages && i < s->stages; i++)
        run_stage_add(&p->stages[i], &s->stage[i]);
    run_stage_add(&t->total, &s->total);
}

enum run_status plan_run(struct plan *p, const void *const *send, void *const *recv) {
    if (!plan_ready(p))
        return p->status;
    if (!p->version.executor)
        return complain(p, RUN_BAD_ARGUMENT, "the plan was compiled for GPUs only");
    p->error[0] = 0;
    p->status = executor_run(p->version.executor, send, recv);
    if (p->status != RUN_OK)
        return complain(p, p->status, executor_error(p->version.executor));
    const struct run_stats *s = executor_stats(p->version.executor);
    size_t count;
    const uint64_t *needs = executor_needs(p->version.executor, &count);
    learned_observe(p->learned, needs, count);
    p->overflowed_runs += s->repairs;
    add_run(p, s);
    return RUN_OK;
}

/* Wire bytes of a run with the present slots, and with these; of codecs of bounded size only, for
 * what they save counts, however much else is sent raw over links that are faster. */
static void compare_slots(const struct tasks *t, const uint64_t *slots, size_t count, uint64_t *now,
                          uint64_t *then) {
    *now = *then = 0;
    for (size_t i = 0; i < t->messages.count; i++) {
        const struct task *k = &t->tasks.data[t->messages.data[i].send];
        for (uint32_t j = 0; j < k->operands; j++) {
            const struct piece *p = &t->pieces.data[t->operands.data[k->first_operand + j].index];
            size_t at = piece_number(t, p);
            if (at >= count || slots[at] == 0)
                continue;
            *now += p->bytes;
            *then += slots[at];
        }
    }
}

enum run_status plan_adapt(struct plan *p) {
    if (!plan_ready(p) || !p->version.executor)
        return p->status;
    const struct tasks *t = p->version.main->tasks;
    struct setup setup = p->options.setup;
    uint64_t now, then;
    setup.slices = t->slices; /* pieces keep their numbers */
    setup.slot_bytes = learned_slots(p->learned, &setup.slot_count);
    compare_slots(t, setup.slot_bytes, setup.slot_count, &now, &then);
    bool saves = then < now && now - then > now / 100;
    if (!setup.slot_bytes || (p->overflowed_runs == 0 && !saves))
        return RUN_OK;
    struct version next = {0};
    enum run_status status = version_make(p, &setup, &next);
    if (status == RUN_BAD_SCHEDULE)
        complain(p, status, "the schedule's files changed, and compile no more");
    if (status == RUN_OK && !same_moves(p->version.main->flow, next.main->flow))
        status = complain(p, RUN_BAD_SCHEDULE, "the schedule's files changed since they were read");
    if (status == RUN_OK && !executor_state_move(next.executor, p->version.executor))
        status = complain(p, RUN_INTERNAL, "the state of codecs does not fit the new slots");
    if (status != RUN_OK) {
        version_free(&next);
        return status;
    }
    version_free(&p->version);
    p->version = next;
    p->overflowed_runs = 0;
    p->total.adaptations++;
    name_stages(p);
    const struct run_stats *s = executor_stats(next.executor);
    p->total.arena_bytes = s->arena_bytes;
    p->total.arena_unshared_bytes = s->arena_unshared_bytes;
    p->total.total_bytes = s->total_bytes;
    return RUN_OK;
}

/* ---- state ---- */

uint64_t plan_state_bytes(const struct plan *p) {
    return p->version.executor ? executor_state_bytes(p->version.executor) : 0;
}
void plan_state_save(const struct plan *p, void *to) {
    if (p->version.executor)
        executor_state_save(p->version.executor, to);
}
bool plan_state_restore(struct plan *p, const void *from, uint64_t bytes) {
    if (!p->version.executor)
        return bytes == 0;
    return executor_state_restore(p->version.executor, from, bytes);
}
void plan_state_reset(struct plan *p, uint64_t seed) {
    if (p->version.executor)
        executor_state_reset(p->version.executor, seed);
}

/* ---- asking and freeing ---- */

bool plan_ready(const struct plan *p) {
    if (p->run.compile_only)
        return p->version.main && compilation_ok(p->version.main) && p->version.main->tasks;
    return p->version.executor && p->learned;
}
enum run_status plan_status(const struct plan *p) {
    return p->status;
}
const char *plan_error(const struct plan *p) {
    return p->error;
}
const struct compilation *plan_compilation(const struct plan *p) {
    return p->version.main;
}
const struct run_stats *plan_stats(const struct plan *p) {
    return &p->total;
}

const struct run_stats *plan_last(const struct plan *p) {
    return p->version.executor ? executor_stats(p->version.executor) : &p->total;
}

void plan_free(struct plan *p) {
    if (!p)
        return;
    version_free(&p->version);
    learned_free(p->learned);
    free(p->stages);
    for (size_t i = 0; p->defines && p->defines[i]; i++)
        free(p->defines[i]);
    free(p->defines);
    free(p->schedule);
    free(p->node_of);
    free(p->local_of);
    free(p->path);
    free(p->name);
    free(p->text);
    free(p);
}
