/*
 * cuda_graph.c: graphs: made, captured, bound to other buffers, adapted, destroyed.
 *
 * The plan is compiled again for a graph, with every slot as large as data can need it, so that the
 * arena has room for whatever slots are in use later: they start as the schedule's budgets say, and
 * adapt. Where a message may then not fit, the repair plan is compiled as well.
 *
 * A run (struct cuda_run) is what kernels work on. Our graph and each graph of the caller hold it,
 * so any of them may be the last: the caller's by a user object, whose destructor must not call
 * CUDA and therefore leaves the freeing to a thread.
 */
#include "runtime/transport.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the life of a run ---- */

static void run_free(struct cuda_run *r) {
    struct device_guard d;
    struct failure f = {0};
    device_enter(r->x, &d, &f);
    if (r->x->ops->route_free) {
        r->x->ops->route_free(r->route);
        r->x->ops->route_free(r->repair_route);
    }
    cuda_memory_free(r);
    cuda_states_free(r);
    cuda_plan_free(&r->plan);
    cuda_plan_free(&r->repair);
    if (r->main_compilation)
        compilation_free(r->main_compilation);
    if (r->repair_compilation)
        compilation_free(r->repair_compilation);
    device_leave(&d);
    comm_release(r->comm);
    free(r->nodes);
    free(r);
}

void cuda_run_keep(struct cuda_run *r) {
    atomic_fetch_add(&r->owners, 1);
}

void cuda_run_release(struct cuda_run *r) {
    if (r && atomic_fetch_sub(&r->owners, 1) == 1)
        run_free(r);
}

static void *free_later(void *run) {
    run_free(run);
    return NULL;
}

void cuda_run_release_later(struct cuda_run *r) {
    pthread_t thread;
    if (atomic_fetch_sub(&r->owners, 1) != 1)
        return;
    if (!pthread_create(&thread, NULL, free_later, r))
        pthread_detach(thread); /* else it is never freed */
}

/* ---- making a run ---- */

/* A copy of node_of and local_of, which the plan owns. */
static bool copy_nodes(struct cuda_run *r, struct setup *s, struct failure *f) {
    if (!s->node_of)
        return true;
    size_t ranks = (size_t)s->ranks;
    r->nodes = malloc(2 * ranks * sizeof *r->nodes);
    if (!r->nodes)
        return failure_set(f, RUN_NO_MEMORY, "no memory to compile");
    memcpy(r->nodes, s->node_of, ranks * sizeof *r->nodes);
    memcpy(r->nodes + ranks, s->local_of, ranks * sizeof *r->nodes);
    s->node_of = r->nodes;
    s->local_of = r->nodes + ranks;
    return true;
}

static bool compile(const struct plan *plan, const struct setup *setup, struct compilation **out,
                    struct failure *f) {
    enum run_status status = plan_compile_again(plan, setup, out);
    if (status == RUN_OK)
        return true;
    return failure_set(f, status,
                       status == RUN_NO_MEMORY ? "no memory to compile"
                                               : "the schedule's files changed since they were "
                                                 "read, or compile no more");
}

/* Slots as the schedule's budgets have them, in an arena with room for more. */
static void use_budgets(struct cuda_plan *p) {
    for (uint32_t i = 0; i < p->t->pieces.count; i++) {
        const struct piece *x = &p->t->pieces.data[i];
        if (p->need[i] != NONE)
            p->piece_bytes[i] = codec_slot_bytes(&p->t->flow->codecs.data[x->codec],
                                                 p->t->flow->setup.dtype, x->elems);
    }
    cuda_plan_measure(p);
}

static bool is_disabled(const struct cuda_run *r) {
    const char *told = getenv("SLUICE_DISABLE");
    const struct transport_ops *ops = r->x->ops;
    return told && !strcmp(told, "1") && ops->plain_possible &&
           ops->plain_possible(r->plan.t->flow);
}

static bool compile_plans(struct cuda_run *r, const struct plan *plan, struct failure *f) {
    const struct tasks *base = plan_compilation(plan)->tasks;
    struct setup setup = plan_compilation(plan)->setup;
    if (setup.ranks != r->x->ranks)
        return failure_set(f, RUN_BAD_ARGUMENT, "the plan is for %d ranks, the communicator has %d",
                           setup.ranks, r->x->ranks);
    if (!copy_nodes(r, &setup, f))
        return false;
    size_t numbers = piece_numbers(base);
    uint64_t *slots = malloc((numbers + 1) * sizeof *slots);
    if (!slots)
        return failure_set(f, RUN_NO_MEMORY, "no memory to compile");
    memset(slots, 0xff, (numbers + 1) * sizeof *slots); /* the compiler takes the worst case */
    setup.slices = base->slices;
    setup.slot_bytes = slots;
    setup.slot_count = numbers;
    bool ok = compile(plan, &setup, &r->main_compilation, f) &&
              cuda_plan_init(&r->plan, r->main_compilation->tasks, r->x->first_rank,
                             r->x->local_ranks, f);
    free(slots);
    if (!ok)
        return false;
    use_budgets(&r->plan);
    r->plain = is_disabled(r);
    r->reports = !r->plain && r->plan.headers && (r->plan.can_overflow || r->options.adapt);
    r->has_repair = r->reports && r->options.mode == SLUICE_CHECKED;
    if (!r->has_repair)
        return true;
    setup.repair = true;
    setup.slot_bytes = NULL;
    setup.slot_count = 0;
    return compile(plan, &setup, &r->repair_compilation, f) &&
           cuda_plan_init(&r->repair, r->repair_compilation->tasks, r->x->first_rank,
                          r->x->local_ranks, f);
}

static bool check_options(struct cuda_run *r, const sluice_graph_options *o, struct failure *f) {
    static const sluice_graph_options none = SLUICE_GRAPH_OPTIONS_INIT;
    r->options = o ? *o : none;
    if (r->options.struct_bytes != sizeof *o)
        return failure_set(f, RUN_BAD_ARGUMENT,
                           "the options were not made by SLUICE_GRAPH_OPTIONS_INIT of this "
                           "version");
    if ((r->options.mode != SLUICE_CHECKED && r->options.mode != SLUICE_FLAGGED) ||
        r->options.flags_in_a_row < 0)
        return failure_set(f, RUN_BAD_ARGUMENT, "unknown mode, or flags_in_a_row is negative");
    if (r->options.flags_in_a_row == 0)
        r->options.flags_in_a_row = 8;
    return true;
}

/* What all ranks must have in common. */
static bool agree(const struct cuda_run *r, struct failure *f) {
    static const char *const names[] = {"the number of ranks",
                                        "the count",
                                        "the datatype",
                                        "the operator",
                                        "the schedule, its parameters, codecs "
                                        "or slices",
                                        "the completion mode or its limits",
                                        "SLUICE_DISABLE",
                                        "the version"};
    const struct setup *s = &r->plan.t->flow->setup;
    const uint64_t values[] = {
        (uint64_t)s->ranks,
        s->count,
        (uint64_t)s->dtype,
        (uint64_t)s->redop,
        cuda_plan_hash(&r->plan),
        (uint64_t)r->options.mode << 32 | (uint64_t)(r->options.adapt != 0) << 31 |
            (uint64_t)r->options.flags_in_a_row,
        r->plain,
        hash_more(HASH_SEED, SLUICE_VERSION, sizeof SLUICE_VERSION),
    };
    const uint32_t count = sizeof values / sizeof values[0];
    return !r->x->ops->agree || r->x->ops->agree(r->x, names, values, count, f);
}

/* A run with its plans and what they take, and no memory on the device. */
static bool run_load(struct cuda_run *r, const struct plan *plan, const void *const *send,
                     void *const *recv, const sluice_graph_options *o, struct failure *f) {
    if (!check_options(r, o, f) || !compile_plans(r, plan, f) || !agree(r, f) ||
        !cuda_states_find(r, f))
        return false;
    cuda_memory_measure(r, r->options.in_place || cuda_memory_needs_copy(r, send, recv));
    return true;
}

static bool run_take(struct cuda_run *r, const void *const *send, void *const *recv,
                     struct failure *f) {
    const sluice_graph_sizes *s = &r->sizes;
    comm_log(r->x, LOG_INFO,
             "%s: %" PRIu64 " bytes of device memory (arenas %" PRIu64 ", copies of send %" PRIu64
             ", workspaces %" PRIu64 "), %" PRIu64 " pinned",
             r->plan.t->flow->name, s->device_bytes, s->arena_bytes, s->snapshot_bytes,
             s->workspace_bytes, s->pinned_bytes);
    if (!cuda_memory_take(r, f) || !cuda_states_reset(r, 0, f) ||
        !cuda_memory_bind(r, send, recv, f) ||
        !r->x->ops->route_new(r->x, &r->plan, ROUTE_DATA, r->report.words_dev, &r->route, f))
        return false;
    return !r->has_repair || r->x->ops->route_new(r->x, &r->repair, ROUTE_REPAIR,
                                                  r->repair_report.words_dev, &r->repair_route, f);
}

static struct cuda_run *run_new(struct sluice_comm *comm) {
    struct cuda_run *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    atomic_store(&r->owners, 1);
    comm_keep(comm);
    r->comm = comm;
    r->x = comm->x;
    return r;
}

sluice_status sluice_graph_get_sizes(sluice_plan *plan, sluice_comm *comm, const void *const *send,
                                     void *const *recv, const sluice_graph_options *options,
                                     sluice_graph_sizes *sizes) {
    struct plan *p = plan_of_handle(plan);
    if (!p || !comm || !sizes)
        return SLUICE_INVALID_ARGUMENT;
    struct cuda_run *r = run_new(comm);
    if (!r)
        return SLUICE_OUT_OF_MEMORY;
    struct failure f = {0};
    if (run_load(r, p, send, recv, options, &f))
        *sizes = r->sizes;
    cuda_run_release(r);
    return public_status(f.status);
}

/* ---- capture ---- */

static void drop_graph(struct sluice_graph *g) {
    if (g->exec)
        cudaGraphExecDestroy(g->exec);
    if (g->graph)
        cudaGraphDestroy(g->graph);
    g->exec = NULL;
    g->graph = NULL;
}

/* The run as a graph, and its nodes with pointers of the caller's. */
static bool capture(struct sluice_graph *g, bool muted, cudaGraph_t *graph, struct node_log *log,
                    struct failure *f) {
    log->count = 0;
    if (!CUDA_OK(f, cudaStreamBeginCapture(g->capture, cudaStreamCaptureModeThreadLocal)))
        return false;
    bool ok = cuda_issue_captured(g->run, g->capture, log, muted, f);
    cudaError_t e = cudaStreamEndCapture(g->capture, graph); /* in any case */
    return ok && cuda_ok(f, e, "cudaStreamEndCapture");
}

bool graph_capture(struct sluice_graph *g, struct failure *f) {
    drop_graph(g);
    if (!capture(g, false, &g->graph, &g->log, f) ||
        !CUDA_OK(f, cudaGraphInstantiate(&g->exec, g->graph, 0)) ||
        !CUDA_OK(f, cudaGraphGetNodes(g->graph, NULL, &g->nodes)))
        return false;
    comm_log(g->run->x, LOG_INFO, "%s: captured, %zu nodes on %" PRIu32 " streams",
             g->run->plan.t->flow->name, g->nodes, g->run->plan.streams);
    return true;
}

/* Gives a node of ours the parameters of its counterpart. */
static bool move_node(struct sluice_graph *g, cudaGraphNode_t to, cudaGraphNode_t from,
                      struct failure *f) {
    enum cudaGraphNodeType a, b;
    if (!CUDA_OK(f, cudaGraphNodeGetType(to, &a)) || !CUDA_OK(f, cudaGraphNodeGetType(from, &b)))
        return false;
    if (a != b)
        return failure_set(f, RUN_INTERNAL, "other buffers gave another graph");
    if (a == cudaGraphNodeTypeKernel) {
        struct cudaKernelNodeParams p;
        return CUDA_OK(f, cudaGraphKernelNodeGetParams(from, &p)) &&
               CUDA_OK(f, cudaGraphExecKernelNodeSetParams(g->exec, to, &p));
    }
    if (a == cudaGraphNodeTypeMemcpy) {
        struct cudaMemcpy3DParms p;
        return CUDA_OK(f, cudaGraphMemcpyNodeGetParams(from, &p)) &&
               CUDA_OK(f, cudaGraphExecMemcpyNodeSetParams(g->exec, to, &p));
    }
    return true; /* no pointers of the caller's */
}

/* The buffers that are bound now go into the graph. Messages touch the arena only, so nodes of the
 * transport stay as they are. */
static bool move_nodes(struct sluice_graph *g, struct failure *f) {
    if (g->run->plain)
        return graph_capture(g, f); /* the nodes of NCCL cannot be changed */
    struct node_log log = {0};
    cudaGraph_t graph = NULL;
    bool ok = capture(g, true, &graph, &log, f);
    if (ok && log.count != g->log.count)
        ok = failure_set(f, RUN_INTERNAL, "other buffers gave another graph");
    for (size_t i = 0; i < log.count && ok; i++)
        ok = move_node(g, g->log.nodes[i], log.nodes[i], f);
    if (graph)
        cudaGraphDestroy(graph);
    free(log.nodes);
    return ok;
}

/* ---- handles ---- */

bool graph_enter(struct sluice_graph *g, struct device_guard *d) {
    d->device = -1;
    pthread_mutex_lock(&g->lock);
    if (!g->run)
        return false; /* with the failure of its creation */
    g->failure = (struct failure){0};
    return device_enter(g->run->x, d, &g->failure);
}

sluice_status graph_leave(struct sluice_graph *g, const struct device_guard *d) {
    sluice_status status = public_status(g->failure.status);
    device_leave(d);
    if (status != SLUICE_OK && status != SLUICE_BUSY && g->run)
        comm_log(g->run->x, LOG_ERROR, "%s", g->failure.words);
    pthread_mutex_unlock(&g->lock);
    return status;
}

static bool graph_init(struct sluice_graph *g, const struct plan *p, const void *const *send,
                       void *const *recv, const sluice_graph_options *o) {
    struct failure *f = &g->failure;
    struct cuda_run *r = g->run;
    if (!run_load(r, p, send, recv, o, f) || !run_take(r, send, recv, f))
        return false;
    g->numbers = piece_numbers(r->plan.t);
    g->learned = learned_new(r->plan.t);
    g->needs = calloc(g->numbers + 1, sizeof *g->needs);
    g->words = calloc((size_t)r->plan.needs + 1, sizeof *g->words);
    g->stage_overflows = calloc(r->plan.t->flow->stages.count + 1, sizeof *g->stage_overflows);
    if (!g->learned || !g->needs || !g->words || !g->stage_overflows)
        return failure_set(f, RUN_NO_MEMORY, "no memory for statistics");
    return CUDA_OK(f, cudaStreamCreateWithFlags(&g->capture, cudaStreamNonBlocking)) &&
           CUDA_OK(f, cudaEventCreateWithFlags(&g->done, cudaEventDisableTiming)) &&
           graph_capture(g, f);
}

static void graph_drop(struct sluice_graph *g) {
    drop_graph(g);
    if (g->capture)
        cudaStreamDestroy(g->capture);
    if (g->done)
        cudaEventDestroy(g->done);
    g->capture = NULL;
    g->done = NULL;
    cuda_run_release(g->run);
    g->run = NULL;
}

sluice_status sluice_graph_create(sluice_graph **graph, sluice_plan *plan, sluice_comm *comm,
                                  const void *const *send, void *const *recv,
                                  const sluice_graph_options *options) {
    struct plan *p = plan_of_handle(plan);
    if (!graph)
        return SLUICE_INVALID_ARGUMENT;
    *graph = NULL;
    if (!p || !comm || !send || !recv)
        return SLUICE_INVALID_ARGUMENT;
    struct sluice_graph *g = *graph = calloc(1, sizeof *g);
    if (!g)
        return SLUICE_OUT_OF_MEMORY;
    pthread_mutex_init(&g->lock, NULL);
    g->run = run_new(comm);
    if (!g->run) {
        failure_set(&g->failure, RUN_NO_MEMORY, "no memory");
        return SLUICE_OUT_OF_MEMORY;
    }
    struct device_guard d;
    bool ok = device_enter(g->run->x, &d, &g->failure) && graph_init(g, p, send, recv, options);
    if (!ok) {
        comm_log(g->run->x, LOG_ERROR, "%s", g->failure.words);
        graph_drop(g);
    }
    device_leave(&d);
    return public_status(g->failure.status);
}

void sluice_graph_destroy(sluice_graph *g) {
    if (!g)
        return;
    if (g->run) {
        struct device_guard d;
        struct failure f = {0};
        device_enter(g->run->x, &d, &f);
        if (g->issued > 0)
            transport_wait_event(g->run->x, g->done, &f); /* whatever it says */
        graph_drop(g);
        device_leave(&d);
    }
    learned_free(g->learned);
    free(g->needs);
    free(g->words);
    free(g->stage_overflows);
    free(g->log.nodes);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

sluice_status sluice_graph_rebind(sluice_graph *graph, const void *const *send, void *const *recv) {
    if (!graph || !send || !recv)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d)) {
        struct failure *f = &graph->failure;
        if (graph_is_free(graph) && cuda_memory_bind(graph->run, send, recv, f))
            move_nodes(graph, f);
    }
    return graph_leave(graph, &d);
}

/* ---- adaptation ---- */

/* Wire bytes that a run of this process would send with these slots, less those it sends now. */
static void compare(const struct cuda_plan *p, const uint64_t *slots, size_t count, uint64_t *now,
                    uint64_t *then) {
    *now = *then = 0;
    for (uint32_t i = 0; i < p->t->pieces.count; i++) {
        size_t number = piece_number(p->t, &p->t->pieces.data[i]);
        if (p->need[i] == NONE || number >= count)
            continue;
        *now += p->piece_bytes[i];
        *then += slots[number];
    }
}

bool graph_adapt(struct sluice_graph *g, struct failure *f) {
    struct cuda_plan *p = &g->run->plan;
    size_t count;
    uint64_t now, then;
    const uint64_t *slots = learned_slots(g->learned, &count);
    g->adapted_at = g->observed;
    if (!slots)
        return true;
    compare(p, slots, count, &now, &then);
    if (!g->overflowed && !(then < now && now - then > now / 100))
        return true;
    for (uint32_t i = 0; i < p->t->pieces.count; i++) {
        size_t number = piece_number(p->t, &p->t->pieces.data[i]);
        if (p->need[i] != NONE && number < count)
            p->piece_bytes[i] = slots[number];
    }
    cuda_plan_measure(p);
    g->overflowed = false;
    g->adaptations++;
    comm_log(g->run->x, LOG_INFO,
             "%s: slots adapted after run %" PRIu64 ", %" PRIu64 " -> %" PRIu64 " bytes",
             p->t->flow->name, g->observed, now, then);
    const struct transport_ops *ops = g->run->x->ops;
    return (!ops->route_update || ops->route_update(g->run->route, f)) && graph_capture(g, f);
}

/* Flagged mode: records nobody waited for. */
static void observe_ring(struct sluice_graph *g) {
    struct protocol_record record;
    if (!report_newest(&g->run->report, &record, g->words))
        return;
    uint64_t newest = record.run, first = newest < RECORDS ? 1 : newest - RECORDS + 1;
    for (uint64_t run = first > g->observed ? first : g->observed + 1; run <= newest; run++)
        if (report_read(&g->run->report, run, &record, g->words))
            graph_observe(g, &record, g->words);
}

sluice_status sluice_graph_adapt(sluice_graph *graph) {
    if (!graph)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d)) {
        struct failure *f = &graph->failure;
        if (graph_is_free(graph)) {
            if (graph->run->options.mode == SLUICE_FLAGGED)
                observe_ring(graph);
            graph_adapt(graph, f);
        }
    }
    return graph_leave(graph, &d);
}
