/*
 * cuda_memory.c: the memory of a run on the device, and pinned memory for what it reports.
 *
 * All of it is counted before any is taken. Five blocks on the device:
 *
 *   arenas      one a rank, as large as the plan or its repair needs it
 *   snapshots   of send, a rank each, where it shares memory with recv
 *   workspaces  and scratch of codecs, one a stream that computes, zeroed once
 *   states      of codecs that remember, twice (cuda_state.c)
 *   words       status and needs, protocol states; tables are the transport's own
 *
 * In place, send is gone when a message turns out not to have fitted. So it is copied first: the
 * repair reads the copy, and flagged mode puts it back. Where send and recv overlap in any other
 * way than chunk upon chunk, the run itself reads the copy as well.
 */
#include "runtime/transport.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t align(uint64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static uint64_t arena_of(const struct cuda_run *r, int32_t i) {
    int32_t rank = r->plan.first_rank + i;
    uint64_t bytes = r->plan.t->ranks.data[rank].arena_bytes;
    if (r->has_repair && r->repair.t->ranks.data[rank].arena_bytes > bytes)
        bytes = r->repair.t->ranks.data[rank].arena_bytes;
    return align(bytes);
}

static uint64_t snapshot_of(const struct cuda_run *r, int32_t i) {
    return align(r->plan.loaded.send_bytes[r->plan.first_rank + i]);
}

static uint32_t words_of(const struct cuda_plan *p) {
    return PROTOCOL_NEEDS + p->needs;
}

static uint64_t record_of(const struct cuda_plan *p) {
    return align(sizeof(struct protocol_record) + (uint64_t)p->needs * sizeof(uint32_t));
}

/* Of plan and repair: words and state each. */
static uint64_t words_bytes(const struct cuda_run *r) {
    uint64_t bytes =
        align(words_of(&r->plan) * sizeof(uint32_t)) + align(sizeof(struct protocol_state));
    return bytes + align(PROTOCOL_NEEDS * sizeof(uint32_t)) + align(sizeof(struct protocol_state));
}

static uint64_t ring_bytes(const struct cuda_run *r) {
    return RECORDS * record_of(&r->plan) + align(sizeof(struct protocol_record));
}

static uint64_t stamp_bytes(const struct cuda_run *r) {
    return r->options.timestamps ? 2 * (uint64_t)r->plan.action_count * sizeof(uint64_t) : 0;
}

void cuda_memory_measure(struct cuda_run *r, bool snapshots) {
    sluice_graph_sizes *s = &r->sizes;
    *s = (sluice_graph_sizes){0};
    for (int32_t i = 0; i < r->plan.ranks; i++) {
        s->arena_bytes += arena_of(r, i);
        s->snapshot_bytes += snapshots ? snapshot_of(r, i) : 0;
    }
    r->streams = r->plan.streams;
    r->events = r->plan.events;
    r->workspace_each = align(r->plan.workspace_bytes);
    r->scratch_each = align(r->plan.scratch_bytes);
    if (r->has_repair) {
        r->streams = r->repair.streams > r->streams ? r->repair.streams : r->streams;
        r->events = r->repair.events > r->events ? r->repair.events : r->events;
        if (align(r->repair.workspace_bytes) > r->workspace_each)
            r->workspace_each = align(r->repair.workspace_bytes);
        if (align(r->repair.scratch_bytes) > r->scratch_each)
            r->scratch_each = align(r->repair.scratch_bytes);
    }
    s->workspace_bytes = (r->workspace_each + r->scratch_each) * (r->streams - r->plan.t->comms);
    s->table_bytes = words_bytes(r);
    s->state_bytes = 2 * r->state_bytes;
    s->device_bytes =
        s->arena_bytes + s->snapshot_bytes + s->workspace_bytes + s->table_bytes + s->state_bytes;
    s->pinned_bytes = ring_bytes(r) + stamp_bytes(r);
}

/* ---- taking ---- */

static bool take(void **block, uint64_t bytes, const char *what, struct failure *f) {
    if (bytes == 0)
        return true;
    cudaError_t e = cudaMalloc(block, bytes);
    if (e == cudaSuccess)
        return true;
    return failure_set(f, e == cudaErrorMemoryAllocation ? RUN_NO_MEMORY : RUN_DEVICE,
                       "cudaMalloc of %" PRIu64 " bytes for %s: %s", bytes, what,
                       cudaGetErrorString(e));
}

static bool take_blocks(struct cuda_run *r, struct failure *f) {
    const sluice_graph_sizes *s = &r->sizes;
    if (!take((void **)&r->arenas, s->arena_bytes, "arenas", f) ||
        !take((void **)&r->snapshots, s->snapshot_bytes, "copies of send", f) ||
        !take((void **)&r->workspaces, s->workspace_bytes, "workspaces", f) ||
        !take((void **)&r->words, s->table_bytes, "words", f) ||
        !take((void **)&r->states_dev, s->state_bytes, "the state of codecs", f) ||
        !CUDA_OK(f, cudaHostAlloc((void **)&r->report.ring_host, s->pinned_bytes,
                                  cudaHostAllocMapped)) ||
        !CUDA_OK(f, cudaHostGetDevicePointer((void **)&r->report.ring_dev, r->report.ring_host, 0)))
        return false;
    memset(r->report.ring_host, 0, s->pinned_bytes);
    if (s->workspace_bytes > 0 && !CUDA_OK(f, cudaMemset(r->workspaces, 0, s->workspace_bytes)))
        return false;
    return CUDA_OK(f, cudaMemset(r->words, 0, s->table_bytes)) &&
           CUDA_OK(f, cudaDeviceSynchronize());
}

/* Where in the blocks everything is. */
static void lay_out(struct cuda_run *r) {
    char *arena = r->arenas, *snapshot = r->snapshots, *at = r->words;
    for (int32_t i = 0; i < r->plan.ranks; i++) {
        r->arena_dev[i] = arena;
        arena += arena_of(r, i);
        r->snapshot_dev[i] = snapshot;
        snapshot += snapshot ? snapshot_of(r, i) : 0;
    }
    r->plan.arena_dev = r->repair.arena_dev = r->arena_dev;
    struct report *a = &r->report, *b = &r->repair_report;
    a->words = words_of(&r->plan);
    b->words = PROTOCOL_NEEDS;
    a->words_dev = (uint32_t *)(void *)at;
    at += align(a->words * sizeof(uint32_t));
    b->words_dev = (uint32_t *)(void *)at;
    at += align(b->words * sizeof(uint32_t));
    a->state_dev = (struct protocol_state *)(void *)at;
    at += align(sizeof(struct protocol_state));
    b->state_dev = (struct protocol_state *)(void *)at;
    a->ring = RECORDS;
    a->record_bytes = record_of(&r->plan);
    b->ring = 1;
    b->record_bytes = align(sizeof(struct protocol_record));
    b->ring_host = a->ring_host + RECORDS * a->record_bytes;
    b->ring_dev = a->ring_dev + RECORDS * a->record_bytes;
    if (r->options.timestamps) {
        r->stamps_host = (uint64_t *)(void *)(a->ring_host + ring_bytes(r));
        r->stamps_dev = (uint64_t *)(void *)(a->ring_dev + ring_bytes(r));
    }
}

static bool take_streams(struct cuda_run *r, struct failure *f) {
    r->stream = calloc((size_t)r->streams + 1, sizeof(cudaStream_t));
    r->join = calloc((size_t)r->streams + 1, sizeof(cudaEvent_t));
    r->event = calloc((size_t)r->events + 1, sizeof(cudaEvent_t));
    if (!r->stream || !r->join || !r->event)
        return failure_set(f, RUN_NO_MEMORY, "no memory for streams");
    const unsigned flags = cudaEventDisableTiming;
    bool ok = CUDA_OK(f, cudaEventCreateWithFlags(&r->fork, flags));
    for (uint32_t i = 0; i < r->streams && ok; i++)
        ok = CUDA_OK(f, cudaStreamCreateWithFlags(&r->stream[i], cudaStreamNonBlocking)) &&
             CUDA_OK(f, cudaEventCreateWithFlags(&r->join[i], flags));
    for (uint32_t i = 0; i < r->events && ok; i++)
        ok = CUDA_OK(f, cudaEventCreateWithFlags(&r->event[i], flags));
    return ok;
}

bool cuda_memory_take(struct cuda_run *r, struct failure *f) {
    size_t ranks = (size_t)r->plan.ranks;
    if (r->options.device_limit_bytes > 0 && r->sizes.device_bytes > r->options.device_limit_bytes)
        return failure_set(f, RUN_NO_MEMORY,
                           "%" PRIu64 " bytes of device memory are needed, the limit is %" PRIu64,
                           r->sizes.device_bytes, r->options.device_limit_bytes);
    r->send = calloc(ranks, sizeof *r->send);
    r->recv = calloc(ranks, sizeof *r->recv);
    r->read = calloc(ranks, sizeof *r->read);
    r->arena_dev = calloc(ranks, sizeof *r->arena_dev);
    r->snapshot_dev = calloc(ranks, sizeof *r->snapshot_dev);
    if (!r->send || !r->recv || !r->read || !r->arena_dev || !r->snapshot_dev)
        return failure_set(f, RUN_NO_MEMORY, "no memory for ranks");
    if (!take_blocks(r, f))
        return false;
    lay_out(r);
    return take_streams(r, f);
}

void cuda_memory_free(struct cuda_run *r) {
    for (uint32_t i = 0; r->stream && i < r->streams; i++)
        if (r->stream[i])
            cudaStreamDestroy(r->stream[i]);
    for (uint32_t i = 0; r->join && i < r->streams; i++)
        if (r->join[i])
            cudaEventDestroy(r->join[i]);
    for (uint32_t i = 0; r->event && i < r->events; i++)
        if (r->event[i])
            cudaEventDestroy(r->event[i]);
    if (r->fork)
        cudaEventDestroy(r->fork);
    cudaFree(r->arenas);
    cudaFree(r->snapshots);
    cudaFree(r->workspaces);
    cudaFree(r->words);
    cudaFree(r->states_dev);
    if (r->report.ring_host)
        cudaFreeHost(r->report.ring_host);
    free(r->stream);
    free(r->join);
    free(r->event);
    free(r->send);
    free(r->recv);
    free(r->read);
    free(r->arena_dev);
    free(r->snapshot_dev);
}

/* ---- the caller's buffers ---- */

static bool ranges_meet(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes) {
    return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

static bool rank_overlaps(const struct cuda_run *r, int32_t i, const void *send, const void *recv) {
    int32_t rank = r->plan.first_rank + i;
    return send && recv &&
           ranges_meet(send, r->plan.loaded.send_bytes[rank], recv,
                       r->plan.loaded.recv_bytes[rank]);
}

/* Whether the memory that a rank shares is inout chunks upon themselves, and nothing else. */
static bool lies_upon_itself(const struct cuda_run *r, int32_t rank, const char *send,
                             const char *recv) {
    const struct loaded *l = &r->plan.loaded;
    for (loc_id loc = 0; loc < l->t->flow->locs; loc++) {
        const struct place *p = &l->places[loc];
        if (p->rank != rank || p->bytes == 0)
            continue;
        if (p->kind == PLACE_WORK && p->inout && send + p->inout_bytes != recv + p->offset_bytes)
            return false;
        if (p->kind == PLACE_SEND &&
            ranges_meet(send + p->offset_bytes, p->bytes, recv, l->recv_bytes[rank]))
            return false;
    }
    return true;
}

bool cuda_memory_needs_copy(const struct cuda_run *r, const void *const *send, void *const *recv) {
    bool needed = false;
    for (int32_t i = 0; i < r->plan.ranks && send && recv; i++)
        needed |= rank_overlaps(r, i, send[i], recv[i]) &&
                  (r->reports || !lies_upon_itself(r, r->plan.first_rank + i, send[i], recv[i]));
    return needed;
}

bool cuda_memory_bind(struct cuda_run *r, const void *const *send, void *const *recv,
                      struct failure *f) {
    const struct loaded *l = &r->plan.loaded;
    for (int32_t i = 0; i < r->plan.ranks; i++) {
        int32_t rank = r->plan.first_rank + i;
        if ((!send[i] && l->send_bytes[rank] > 0) || (!recv[i] && l->recv_bytes[rank] > 0))
            return failure_set(f, RUN_BAD_ARGUMENT, "rank %d has no %s buffer", rank,
                               !send[i] && l->send_bytes[rank] > 0 ? "send" : "receive");
        uint64_t unit = dtype_bytes(l->t->flow->setup.dtype);
        if ((uintptr_t)send[i] % unit != 0 || (uintptr_t)recv[i] % unit != 0)
            return failure_set(f, RUN_BAD_ARGUMENT, "a buffer of rank %d is not aligned", rank);
        bool overlaps = rank_overlaps(r, i, send[i], recv[i]);
        bool direct = !overlaps || lies_upon_itself(r, rank, send[i], recv[i]);
        if (overlaps && !r->snapshots && (!direct || r->reports))
            return failure_set(f, RUN_BAD_ARGUMENT,
                               "send and receive buffer of rank %d overlap: set in_place", rank);
    }
    for (int32_t i = 0; i < r->plan.ranks; i++) {
        int32_t rank = r->plan.first_rank + i;
        bool overlaps = rank_overlaps(r, i, send[i], recv[i]);
        r->send[i] = send[i];
        r->recv[i] = recv[i];
        r->read[i] = overlaps && !lies_upon_itself(r, rank, send[i], recv[i]) ? r->snapshot_dev[i]
                                                                              : r->send[i];
    }
    return true;
}
