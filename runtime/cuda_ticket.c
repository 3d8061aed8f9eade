/*
 * cuda_ticket.c: runs and what they came to.
 *
 * The last kernel of a run writes a record into a ring in pinned memory, its number last. The host
 * reads it by polling: no event, no call that would wait for anything else on the device.
 *
 *     launch n ----> device ... record n --------+
 *        |                                       v
 *        +--- the caller does other things --- wait n: did a message not fit? then the repair
 *
 * In checked mode a run is waited for before the next is launched, so what launch n goes by, the
 * records of runs before n, is the same on all ranks.
 */
#include "runtime/transport.h"

#include <inttypes.h>
#include <nvtx3/nvToolsExt.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* ---- records ---- */

bool report_read(const struct report *report, uint64_t run, struct protocol_record *record,
                 uint32_t *needs) {
    const char *at = report->ring_host + run % report->ring * report->record_bytes;
    const _Atomic uint64_t *number = (const _Atomic uint64_t *)(const void *)at;
    if (run == 0 || atomic_load_explicit(number, memory_order_acquire) != run)
        return false;
    memcpy(record, at, sizeof *record);
    uint32_t words = report->words - PROTOCOL_NEEDS;
    memcpy(needs, at + sizeof *record, words * sizeof *needs);
    atomic_thread_fence(memory_order_acquire);
    record->run = run;
    return atomic_load_explicit(number, memory_order_relaxed) == run;
}

bool report_newest(const struct report *report, struct protocol_record *record, uint32_t *needs) {
    for (int tries = 0; tries < 100; tries++) {
        uint64_t newest = 0;
        for (uint32_t i = 0; i < report->ring; i++) {
            const char *at = report->ring_host + i * report->record_bytes;
            uint64_t run = atomic_load_explicit((const _Atomic uint64_t *)(const void *)at,
                                                memory_order_acquire);
            newest = run > newest ? run : newest;
        }
        if (newest == 0)
            return false;
        if (report_read(report, newest, record, needs))
            return true;
    }
    return false;
}

void graph_observe(struct sluice_graph *g, const struct protocol_record *record,
                   const uint32_t *needs) {
    const struct cuda_plan *p = &g->run->plan;
    memset(g->needs, 0, g->numbers * sizeof *g->needs);
    for (uint32_t i = 0; i < p->t->pieces.count; i++) {
        const struct piece *x = &p->t->pieces.data[i];
        if (p->need[i] == NONE)
            continue;
        size_t number = piece_number(p->t, x);
        uint64_t need = (uint64_t)needs[p->need[i] - PROTOCOL_NEEDS] * PROTOCOL_NEED_UNIT;
        bool first = g->needs[number] == 0; /* both ends of a message have a piece */
        g->needs[number] = need;
        if (record->overflow && first && (need == 0 || need > p->piece_bytes[i]))
            g->stage_overflows[p->loaded.piece_stage[i] < p->t->flow->stages.count
                                   ? p->loaded.piece_stage[i]
                                   : 0]++;
    }
    learned_observe(g->learned, g->needs, g->numbers);
    g->observed = record->run;
    g->overflows += record->overflow;
    g->overflowed |= record->overflow != 0;
}

/* ---- launching ---- */

static bool is_capturing(cudaStream_t stream, bool *capturing, struct failure *f) {
    enum cudaStreamCaptureStatus status;
    if (!CUDA_OK(f, cudaStreamIsCapturing(stream, &status)))
        return false;
    *capturing = status != cudaStreamCaptureStatusNone;
    return true;
}

bool graph_is_free(struct sluice_graph *g) {
    return !g->waiting || failure_set(&g->failure, RUN_BUSY,
                                      "ticket %" PRIu64 " has to be waited for first", g->ticket);
}

/* Whether the next run may start; adapts when it is time to. */
static bool ready_to_run(struct sluice_graph *g) {
    struct failure *f = &g->failure;
    const struct transport_ops *ops = g->run->x->ops;
    if (ops->check && !ops->check(g->run->x, f))
        return false; /* what NCCL would do now, nobody knows */
    if (!graph_is_free(g))
        return false;
    const sluice_graph_options *o = &g->run->options;
    if (!g->run->reports || !o->adapt || o->mode != SLUICE_CHECKED || g->observed == g->adapted_at)
        return true;
    bool due = g->overflowed || (g->observed & (g->observed - 1)) == 0;
    return !due || graph_adapt(g, f);
}

/* Runs of one graph use one memory: the next follows the last, whatever their streams. */
static bool follow_last(struct sluice_graph *g, cudaStream_t stream) {
    return g->issued == 0 || stream == g->stream ||
           CUDA_OK(&g->failure, cudaStreamWaitEvent(stream, g->done, 0));
}

static bool has_started(struct sluice_graph *g, cudaStream_t stream, uint64_t *ticket) {
    g->issued++;
    g->stream = stream;
    g->ticket = comm_ticket(g->run->comm);
    g->waiting = g->run->reports && g->run->options.mode == SLUICE_CHECKED;
    if (ticket)
        *ticket = g->ticket;
    comm_log(g->run->x, LOG_TRACE, "%s: ticket %" PRIu64 " is run %" PRIu64,
             g->run->plan.t->flow->name, g->ticket, g->issued);
    return CUDA_OK(&g->failure, cudaEventRecord(g->done, stream));
}

static bool launch(struct sluice_graph *g, cudaStream_t stream, uint64_t *ticket) {
    struct failure *f = &g->failure;
    bool capturing;
    if (!is_capturing(stream, &capturing, f))
        return false;
    if (capturing)
        return failure_set(f, RUN_BAD_ARGUMENT,
                           "the stream is being captured: sluice_graph_enqueue");
    nvtxRangePushA(g->run->plan.t->flow->name);
    bool ok = ready_to_run(g) && follow_last(g, stream) &&
              CUDA_OK(f, cudaGraphLaunch(g->exec, stream)) && has_started(g, stream, ticket);
    nvtxRangePop();
    return ok;
}

sluice_status sluice_graph_launch(sluice_graph *graph, struct CUstream_st *stream,
                                  uint64_t *ticket) {
    if (!graph)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d))
        launch(graph, stream, ticket);
    return graph_leave(graph, &d);
}

/* ---- issuing ---- */

static void CUDART_CB forget_run(void *run) {
    cuda_run_release_later(run);
}

/* The caller's graph owns the run, too. */
static bool give_to_graph(struct sluice_graph *g, cudaStream_t stream) {
    struct failure *f = &g->failure;
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    cudaUserObject_t object;
    if (!cuda_captured_graph(stream, &status, &graph, f))
        return false;
    cuda_run_keep(g->run);
    if (!CUDA_OK(f, cudaUserObjectCreate(&object, g->run, forget_run, 1,
                                         cudaUserObjectNoDestructorSync))) {
        cuda_run_release(g->run);
        return false;
    }
    return CUDA_OK(f, cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
}

static bool enqueue(struct sluice_graph *g, cudaStream_t stream, uint64_t *ticket) {
    struct failure *f = &g->failure;
    struct cuda_run *r = g->run;
    bool capturing;
    if (!is_capturing(stream, &capturing, f))
        return false;
    if (!capturing)
        return ready_to_run(g) && follow_last(g, stream) &&
               cuda_issue_captured(r, stream, NULL, false, f) && has_started(g, stream, ticket);
    if (r->reports && r->options.mode == SLUICE_CHECKED)
        return failure_set(f, RUN_BAD_ARGUMENT,
                           "a message may not fit its slot: in a graph of the caller's this "
                           "needs flagged mode");
    if (ticket)
        *ticket = 0;
    return give_to_graph(g, stream) && cuda_issue_captured(r, stream, NULL, false, f);
}

sluice_status sluice_graph_enqueue(sluice_graph *graph, struct CUstream_st *stream,
                                   uint64_t *ticket) {
    if (!graph)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d))
        enqueue(graph, stream, ticket);
    return graph_leave(graph, &d);
}

/* ---- waiting ---- */

/* Hosts have better things to do than to wait: those of NCCL's own threads, for one. */
static void relax(uint64_t turn) {
    static const struct timespec moment = {0, 20000};
    if (turn < 500)
        sched_yield();
    else
        nanosleep(&moment, NULL);
}

/* Whether there is any point in waiting on. */
static bool still_alive(struct sluice_graph *g, double since) {
    struct failure *f = &g->failure;
    struct transport *x = g->run->x;
    cudaError_t e = cudaEventQuery(g->done);
    if (e != cudaSuccess && e != cudaErrorNotReady)
        return cuda_ok(f, e, "a kernel of the run");
    bool alive = !x->ops->check || x->ops->check(x, f);
    if (alive && x->timeout_seconds > 0 && clock_seconds() - since > x->timeout_seconds)
        alive = failure_set(f, RUN_PEER, "ticket %" PRIu64 ": no answer within %.0f s", g->ticket,
                            x->timeout_seconds);
    if (!alive && x->ops->abort)
        x->ops->abort(x);
    return alive;
}

static bool wait_record(struct sluice_graph *g, struct protocol_record *record) {
    const struct report *report = &g->run->report;
    double since = clock_seconds();
    for (uint64_t turn = 0; !report_read(report, g->issued, record, g->words); turn++) {
        if (turn % 256 == 255) {
            bool over = cudaEventQuery(g->done) == cudaSuccess;
            if (!still_alive(g, since))
                return false;
            if (over && report_read(report, g->issued, record, g->words))
                return true;
            if (over)
                return failure_set(&g->failure, RUN_INTERNAL, "a run ended without a record");
        }
        relax(turn);
    }
    return true;
}

/* The repair before, if any, is over: did it decode everything? */
static bool check_repair(struct sluice_graph *g) {
    struct protocol_record record;
    if (g->repairs == 0 || !report_read(&g->run->repair_report, g->repairs, &record, g->words))
        return true;
    return (!record.overflow && !record.malformed) ||
           failure_set(&g->failure, RUN_INTERNAL, "the repair could not decode a message");
}

static bool repair(struct sluice_graph *g) {
    comm_log(g->run->x, LOG_INFO, "%s: ticket %" PRIu64 " overflowed, done again with raw messages",
             g->run->plan.t->flow->name, g->ticket);
    if (!cuda_issue_repair_captured(g->run, g->stream, &g->failure))
        return false;
    g->repairs++;
    return CUDA_OK(&g->failure, cudaEventRecord(g->done, g->stream));
}

static bool wait_for(struct sluice_graph *g, uint64_t ticket) {
    struct failure *f = &g->failure;
    struct protocol_record record;
    if (g->run->options.mode == SLUICE_FLAGGED && g->run->reports)
        return failure_set(f, RUN_BAD_ARGUMENT, "flagged mode has nothing to wait for");
    if (ticket == 0 || ticket > g->ticket)
        return failure_set(f, RUN_BAD_ARGUMENT, "ticket %" PRIu64 " was not given out", ticket);
    if (!g->waiting || ticket < g->ticket)
        return true;
    bool capturing;
    if (!is_capturing(g->stream, &capturing, f))
        return false;
    if (capturing)
        return failure_set(f, RUN_BAD_ARGUMENT, "the stream of the launch is being captured");
    if (!check_repair(g) || !wait_record(g, &record))
        return false;
    if (g->observed < g->issued) /* else it failed before, further down */
        graph_observe(g, &record, g->words);
    if (record.malformed && !record.overflow)
        return failure_set(f, RUN_INTERNAL, "a slot did not hold an encoding");
    if (record.overflow && !repair(g))
        return false;
    g->waiting = false;
    return true;
}

sluice_status sluice_graph_wait(sluice_graph *graph, uint64_t ticket) {
    if (!graph)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d))
        wait_for(graph, ticket);
    return graph_leave(graph, &d);
}
