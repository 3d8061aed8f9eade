/*
 * cuda_issue.c: issues a plan onto streams. The one way from tasks to kernels: for a run issued
 * eagerly, for our own capture, for a caller's, and for repairs.
 *
 *     stream ---begin, snapshots---+-----------------------------------------+---end--->
 *                                  | fork                              join  |
 *     comm 0                       +---- group ------- group ----------------+
 *     rank 0, lane 0               +- encode -+  ..  - decode, reduce -------+
 *     rank 0, lane 1               +- ...
 *
 * An inout chunk is read from send (or its copy) until it is stored, then from recv; inout chunks
 * that nobody stores are copied. An encoding that did not fit sets the status, and whatever is made
 * of it is garbage that never leaves the memory of the plan and of recv.
 */
#include "runtime/transport.h"

#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>
#include <string.h>

struct issue {
    struct cuda_run *r;
    const struct cuda_plan *p;
    const struct tasks *t;
    struct route *route;
    struct report *report;
    const struct state_map *states;
    const char **read; /* [ranks] */
    cudaStream_t origin;
    struct node_log *log;
    bool muted, stamped;
    struct failure *f;
    /* the compute task at hand */
    const struct task *k;
    cudaStream_t stream;
    uint32_t stream_number;
    int32_t local; /* its rank, counted from the first of this process */
    enum dtype type;
    uint64_t elems;
};

/* ---- nodes ---- */

#if CUDART_VERSION >= 13000
#define CAPTURE_INFO(s, status, graph, deps, n) \
    cudaStreamGetCaptureInfo(s, status, NULL, graph, deps, NULL, n)
#define NODE_DEPENDENCIES(node, deps, n) cudaGraphNodeGetDependencies(node, deps, NULL, n)
#else
#define CAPTURE_INFO(s, status, graph, deps, n) \
    cudaStreamGetCaptureInfo_v2(s, status, NULL, graph, deps, n)
#define NODE_DEPENDENCIES(node, deps, n) cudaGraphNodeGetDependencies(node, deps, n)
#endif

bool cuda_captured_graph(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                         cudaGraph_t *graph, struct failure *f) {
    *graph = NULL;
    return CUDA_OK(f, CAPTURE_INFO(stream, status, graph, NULL, NULL));
}

/* Nodes of the capture so far. */
static bool count_nodes(struct issue *is, cudaStream_t stream, size_t *nodes) {
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph = NULL;
    *nodes = 0;
    if (!is->log)
        return true;
    return CUDA_OK(is->f, CAPTURE_INFO(stream, &status, &graph, NULL, NULL)) &&
           CUDA_OK(is->f, cudaGraphGetNodes(graph, NULL, nodes));
}

static bool push_node(struct issue *is, cudaGraphNode_t node) {
    struct node_log *log = is->log;
    if (log->count == log->room) {
        size_t room = log->room * 2 + 64;
        cudaGraphNode_t *nodes = realloc(log->nodes, room * sizeof(cudaGraphNode_t));
        if (!nodes)
            return failure_set(is->f, RUN_NO_MEMORY, "no memory for nodes");
        log->nodes = nodes;
        log->room = room;
    }
    log->nodes[log->count++] = node;
    return true;
}

/* Notes the nodes that a stream's last call added when there were `before`: a chain that ends at
 * the last. */
static bool log_nodes(struct issue *is, cudaStream_t stream, size_t before) {
    size_t after, n = 0;
    if (!is->log || !count_nodes(is, stream, &after) || after == before)
        return is->f->status == RUN_OK;
    enum cudaStreamCaptureStatus status;
    const cudaGraphNode_t *last;
    if (!CUDA_OK(is->f, CAPTURE_INFO(stream, &status, NULL, &last, &n)))
        return false;
    if (n != 1)
        return failure_set(is->f, RUN_INTERNAL, "a launch left %zu nodes behind", n);
    cudaGraphNode_t node = *last;
    for (size_t left = after - before; left > 0; left--) {
        if (!push_node(is, node))
            return false;
        cudaGraphNode_t deps[1];
        n = 1;
        if (left > 1 && !CUDA_OK(is->f, NODE_DEPENDENCIES(node, deps, &n)))
            return false;
        node = deps[0];
    }
    return true;
}

/* A launch with pointers of the caller's. */
#define LOGGED(is, on, call)                                                    \
    do {                                                                        \
        size_t before_;                                                         \
        if (!count_nodes(is, on, &before_) || !cuda_ok((is)->f, call, #call) || \
            !log_nodes(is, on, before_))                                        \
            return false;                                                       \
    } while (0)

/* ---- memory ---- */

static char *chunk_memory(const struct issue *is, loc_id loc, bool from_send) {
    const struct place *p = &is->p->loaded.places[loc];
    uint64_t first;
    tasks_slice_elems(is->t, loc, is->k->slice, &first);
    uint64_t at = first * dtype_bytes(is->type);
    if (p->kind == PLACE_ARENA)
        return is->p->arena_dev[is->local] + p->offset_bytes + at;
    /* load.c lets nothing be stored to PLACE_SEND */
    if (p->kind == PLACE_SEND)
        return (char *)(uintptr_t)is->read[is->local] + p->offset_bytes + at;
    if (from_send)
        return (char *)(uintptr_t)is->read[is->local] + p->inout_bytes + at;
    return is->r->recv[is->local] + p->offset_bytes + at;
}

static char *acc_memory(const struct issue *is, uint32_t acc) {
    const struct rank_tasks *r = &is->t->ranks.data[is->p->first_rank + is->local];
    return is->p->arena_dev[is->local] + is->t->acc_offsets.data[r->first_acc + acc];
}

static const struct codec *codec_of(const struct issue *is, uint32_t piece) {
    return &is->t->flow->codecs.data[is->t->pieces.data[piece].codec];
}

/* Whether the encoding is the elements as they are. */
static bool goes_raw(const struct issue *is, const struct codec *c) {
    return codec_is_lossless(c, is->type) && !codec_is_stateful(c) &&
           !(codec_is_bounded(c) && codec_has_header(c, is->type, is->elems));
}

/* What codecs work in: no two launches of a stream run at the same time. */
static char *workspace(const struct issue *is) {
    const struct cuda_run *r = is->r;
    uint64_t each = r->workspace_each + r->scratch_each;
    return each ? r->workspaces + each * (is->stream_number - is->t->comms) : NULL;
}

/* For one piece at one end (NONE: no piece). */
static struct gpu_extra extra_of(const struct issue *is, uint32_t piece, enum codec_side side) {
    char *at = workspace(is);
    struct gpu_extra extra = {0};
    if (is->r->scratch_each)
        extra.scratch_dev = at + is->r->workspace_each;
    if (piece != NONE)
        extra.state = cuda_state_of(is->r, is->states, piece, side);
    return extra;
}

/* ---- one compute task ---- */

static uint32_t operand_piece(const struct issue *is, uint32_t i) {
    return is->t->operands.data[is->k->first_operand + i].index;
}

static struct gpu_operand operand_of(const struct issue *is, uint32_t i) {
    uint32_t at = is->k->first_operand + i;
    struct operand o = is->t->operands.data[at];
    struct gpu_operand g = {.kind = GPU_CHUNK};
    switch (o.kind) {
    case OPERAND_CHUNK:
        g.data_dev = chunk_memory(is, o.index, is->p->from_send[at]);
        break;
    case OPERAND_ACC:
        g.kind = GPU_ACC;
        g.data_dev = acc_memory(is, o.index);
        break;
    case OPERAND_PIECE:
        g.kind = GPU_PIECE;
        g.data_dev = cuda_piece_dev(is->p, o.index);
        g.slot_bytes = is->p->piece_bytes[o.index];
        g.codec = *codec_of(is, o.index);
        break;
    }
    return g;
}

/* Operands to acc, or to chunk and the slot of a piece (NONE: no slot). */
static bool combine_captured(struct issue *is, const struct gpu_operand *operands, uint32_t count,
                             uint64_t divide_by, char *acc, char *chunk, uint32_t piece) {
    bool slot = piece != NONE;
    struct gpu_state states[GPU_MAX_OPERANDS] = {{0}};
    struct gpu_extra extra = extra_of(is, piece, CODEC_ENCODER);
    for (uint32_t i = 0; i < count; i++)
        if (operands[i].kind == GPU_PIECE) /* then it is the task's i-th */
            states[i] = cuda_state_of(is->r, is->states, operand_piece(is, i), CODEC_DECODER);
    extra.operand_states = states;
    LOGGED(is, is->stream,
           gpu_combine_with(is->type, is->t->flow->setup.redop, operands, count, is->elems,
                            divide_by, acc, chunk, slot ? codec_of(is, piece) : NULL,
                            slot ? cuda_piece_dev(is->p, piece) : NULL,
                            slot ? is->p->piece_bytes[piece] : 0, workspace(is), &extra,
                            is->report->words_dev + PROTOCOL_STATUS, is->stream));
    return true;
}

/* Elements to the slot of a piece. */
static bool encode_captured(struct issue *is, const void *src, uint32_t piece) {
    struct gpu_extra extra = extra_of(is, piece, CODEC_ENCODER);
    if (goes_raw(is, codec_of(is, piece)))
        LOGGED(is, is->stream,
               gpu_copy(cuda_piece_dev(is->p, piece), src, is->elems * dtype_bytes(is->type),
                        is->stream));
    else
        LOGGED(is, is->stream,
               gpu_encode_with(codec_of(is, piece), is->type, src, is->elems,
                               cuda_piece_dev(is->p, piece), is->p->piece_bytes[piece],
                               workspace(is), &extra, is->report->words_dev + PROTOCOL_STATUS,
                               is->stream));
    return true;
}

/* One operand that is moved bit by bit, to a chunk or a piece, not both. */
static bool move_captured(struct issue *is, const struct gpu_operand *from, char *chunk,
                          uint32_t piece) {
    bool raw = from->kind == GPU_CHUNK || goes_raw(is, &from->codec);
    struct gpu_extra extra =
        extra_of(is, from->kind == GPU_PIECE ? operand_piece(is, 0) : NONE, CODEC_DECODER);
    if (raw && !chunk)
        return encode_captured(is, from->data_dev, piece);
    if (!chunk)
        return combine_captured(is, from, 1, 0, NULL, NULL, piece);
    if (!raw)
        LOGGED(is, is->stream,
               gpu_decode_with(&from->codec, is->type, from->data_dev, from->slot_bytes, is->elems,
                               chunk, &extra, is->report->words_dev + PROTOCOL_STATUS, is->stream));
    else if (chunk != from->data_dev || is->log)
        LOGGED(is, is->stream,
               gpu_copy(chunk, from->data_dev, is->elems * dtype_bytes(is->type), is->stream));
    return true;
}

static bool compute_captured(struct issue *is) {
    const struct task *k = is->k;
    struct gpu_operand operands[GPU_MAX_OPERANDS];
    char *chunk = NULL, *acc = NULL;
    for (uint32_t i = 0; i < k->operands; i++)
        operands[i] = operand_of(is, i);
    if (k->store.index != NONE && k->store.kind == OPERAND_CHUNK)
        chunk = chunk_memory(is, k->store.index, false);
    else if (k->store.index != NONE)
        acc = acc_memory(is, k->store.index);
    const uint32_t *out = is->t->outs.data + k->first_out;
    uint64_t divide_by = k->divide ? k->divisor : 0;
    uint32_t count = k->operands;
    bool moved = count == 1 && operands[0].kind != GPU_ACC && !acc;
    if (moved && k->divide)
        return failure_set(is->f, RUN_UNSUPPORTED, "an average of one contribution");

    if (acc) { /* what is encoded is the accumulator, rounded */
        if (!combine_captured(is, operands, count, divide_by, acc, NULL, NONE))
            return false;
        operands[0] = (struct gpu_operand){.kind = GPU_ACC, .data_dev = acc};
        count = 1;
        divide_by = 0;
    }
    uint32_t first = acc ? 0 : 1; /* the first out goes with the chunk */
    if (moved && (!chunk || k->outs == 0)) {
        if (!move_captured(is, &operands[0], chunk, k->outs > 0 ? out[0] : NONE))
            return false;
    } else if (!acc && !combine_captured(is, operands, count, divide_by, NULL, chunk,
                                         k->outs > 0 ? out[0] : NONE)) {
        return false;
    }
    for (uint32_t i = first; i < k->outs; i++) {
        bool ok = chunk   ? encode_captured(is, chunk, out[i])
                  : moved ? move_captured(is, &operands[0], NULL, out[i])
                          : combine_captured(is, operands, count, divide_by, NULL, NULL, out[i]);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- actions ---- */

static const char *stage_name(const struct issue *is, uint16_t stage) {
    const char *name = is->t->flow->stages.data[stage].name;
    return name[0] ? name : is->t->flow->name;
}

static bool stamp_captured(struct issue *is, size_t at, cudaStream_t stream) {
    return !is->stamped || CUDA_OK(is->f, gpu_stamp(is->r->stamps_dev + at, stream));
}

static bool group_captured(struct issue *is, const struct action *a) {
    const struct group *g = &is->p->groups[a->group];
    if (is->muted)
        return true;
    char name[96];
    const struct task *k = &is->t->tasks.data[is->p->group_tasks[g->first]];
    snprintf(name, sizeof name, "%s round %u", stage_name(is, k->stage), (unsigned)g->round);
    nvtxRangePushA(name);
    bool ok = is->r->x->ops->exchange_captured(is->route, a->group, is->stream, is->f);
    nvtxRangePop();
    return ok;
}

/* Without kernels for a codec: says for which. */
static bool name_codecs(struct issue *is) {
    char codec[CODEC_TEXT_BYTES];
    const struct task *k = is->k;
    if (is->f->status != RUN_UNSUPPORTED)
        return false;
    size_t at = 0;
    for (uint32_t i = 0; i < k->operands + k->outs && at < sizeof is->f->words; i++) {
        const struct operand *o =
            i < k->operands ? &is->t->operands.data[k->first_operand + i] : NULL;
        if (o && o->kind != OPERAND_PIECE)
            continue;
        uint32_t piece = o ? o->index : is->t->outs.data[k->first_out + i - k->operands];
        at += (size_t)snprintf(is->f->words + at, sizeof is->f->words - at, "%s%s",
                               at ? ", " : "no kernels for ",
                               codec_format(codec_of(is, piece), codec, sizeof codec));
    }
    if (at < sizeof is->f->words)
        snprintf(is->f->words + at, sizeof is->f->words - at, " on %s", dtype_name(is->type));
    return false;
}

static bool action_captured(struct issue *is, const struct action *a, uint8_t *begun) {
    struct cuda_run *r = is->r;
    is->stream_number = a->stream;
    is->stream = r->stream[a->stream];
    if (!*begun && !CUDA_OK(is->f, cudaStreamWaitEvent(is->stream, r->fork, 0)))
        return false;
    *begun = 1;
    for (uint32_t i = 0; i < a->waits; i++)
        if (!CUDA_OK(is->f,
                     cudaStreamWaitEvent(is->stream, r->event[is->p->waits[a->first_wait + i]], 0)))
            return false;
    size_t number = (size_t)(a - is->p->actions);
    if (!stamp_captured(is, 2 * number, is->stream))
        return false;
    if (a->group != NONE) {
        if (!group_captured(is, a))
            return false;
    } else {
        is->k = &is->t->tasks.data[a->task];
        is->elems = is->p->loaded.elems[a->task];
        is->local = (int32_t)((a->stream - is->t->comms) / (is->t->lanes - is->t->comms));
        if (is->elems > 0 && !compute_captured(is))
            return name_codecs(is);
    }
    if (!stamp_captured(is, 2 * number + 1, is->stream))
        return false;
    return a->event == NONE || CUDA_OK(is->f, cudaEventRecord(r->event[a->event], is->stream));
}

/* Inout chunks that nobody stores: from send to recv. */
static bool unstored_captured(struct issue *is) {
    for (int32_t i = 0; i < is->p->ranks; i++)
        for (uint32_t u = is->p->first_unstored[i]; u < is->p->first_unstored[i + 1]; u++) {
            const struct span_copy *c = &is->p->unstored[u];
            LOGGED(is, is->origin,
                   gpu_copy(is->r->recv[i] + c->to_bytes, is->read[i] + c->from_bytes, c->bytes,
                            is->origin));
        }
    return true;
}

static bool actions_captured(struct issue *is) {
    struct cuda_run *r = is->r;
    uint8_t begun[1024] = {0};
    if (is->p->streams > sizeof begun)
        return failure_set(is->f, RUN_UNSUPPORTED, "more than %zu streams", sizeof begun);
    if (!CUDA_OK(is->f, cudaEventRecord(r->fork, is->origin)))
        return false;
    if (!unstored_captured(is))
        return false;
    for (uint32_t i = 0; i < is->p->action_count; i++)
        if (!action_captured(is, &is->p->actions[i], &begun[is->p->actions[i].stream]))
            return false;
    for (uint32_t s = 0; s < is->p->streams; s++)
        if (begun[s] && (!CUDA_OK(is->f, cudaEventRecord(r->join[s], r->stream[s])) ||
                         !CUDA_OK(is->f, cudaStreamWaitEvent(is->origin, r->join[s], 0))))
            return false;
    return true;
}

/* ---- a run ---- */

static bool snapshots_captured(struct issue *is) {
    struct cuda_run *r = is->r;
    for (int32_t i = 0; i < is->p->ranks && r->snapshots; i++)
        if (is->p->loaded.send_bytes[is->p->first_rank + i] > 0)
            LOGGED(is, is->origin,
                   gpu_copy(r->snapshot_dev[i], r->send[i],
                            is->p->loaded.send_bytes[is->p->first_rank + i], is->origin));
    return true;
}

/* Flagged, in place: send as it was. */
static bool restore_captured(struct issue *is) {
    struct cuda_run *r = is->r;
    for (int32_t i = 0; i < is->p->ranks && r->snapshots; i++)
        if (is->p->loaded.send_bytes[is->p->first_rank + i] > 0)
            LOGGED(is, is->origin,
                   gpu_copy_if(&is->report->state_dev->flagged, (char *)(uintptr_t)r->send[i],
                               r->snapshot_dev[i], is->p->loaded.send_bytes[is->p->first_rank + i],
                               is->origin));
    return true;
}

static bool report_captured(struct issue *is, uint32_t limit) {
    struct report *to = is->report;
    const struct transport_ops *ops = is->r->x->ops;
    if (is->muted)
        return true;
    if (ops->consensus_captured &&
        (!CUDA_OK(is->f, gpu_split(to->words_dev, is->origin)) ||
         !ops->consensus_captured(is->route, to->words_dev + PROTOCOL_OVERFLOW,
                                  to->words - PROTOCOL_OVERFLOW, is->origin, is->f)))
        return false;
    return CUDA_OK(is->f, gpu_finish(to->words_dev, to->words, to->state_dev, to->ring_dev,
                                     to->record_bytes, to->ring, limit, is->origin));
}

/* What codecs remember moves on, unless the run is flagged. */
static bool commit_captured(struct issue *is, bool reports) {
    const struct cuda_run *r = is->r;
    const char *next = r->states_dev + r->state_bytes;
    if (r->state_bytes == 0 || is->muted)
        return true;
    if (!reports)
        return CUDA_OK(is->f, gpu_copy(r->states_dev, next, r->state_bytes, is->origin));
    return CUDA_OK(is->f, gpu_copy_unless(&is->report->state_dev->flagged, r->states_dev, next,
                                          r->state_bytes, is->origin));
}

static bool issue_captured(struct issue *is, bool reports, uint32_t limit) {
    is->t = is->p->t;
    is->type = is->t->flow->setup.dtype;
    nvtxRangePushA(is->t->flow->name);
    bool ok = !reports || is->muted ||
              CUDA_OK(is->f, gpu_begin(is->report->words_dev, is->report->words, is->origin));
    ok = ok && actions_captured(is) && (!reports || report_captured(is, limit)) &&
         commit_captured(is, reports);
    nvtxRangePop();
    return ok;
}

bool cuda_issue_captured(struct cuda_run *r, cudaStream_t stream, struct node_log *log, bool muted,
                         struct failure *f) {
    bool flagged = r->options.mode == SLUICE_FLAGGED;
    if (r->plain)
        return muted || r->x->ops->plain_captured(r->route, r->send[0], r->recv[0], stream, f);
    struct issue is = {.r = r,
                       .p = &r->plan,
                       .route = r->route,
                       .report = &r->report,
                       .states = &r->state_map,
                       .read = r->read,
                       .origin = stream,
                       .log = log,
                       .muted = muted,
                       .stamped = r->options.timestamps && !muted,
                       .f = f};
    is.t = is.p->t;
    if (!snapshots_captured(&is) ||
        !issue_captured(&is, r->reports, flagged ? (uint32_t)r->options.flags_in_a_row : 0))
        return false;
    return !flagged || !r->reports || restore_captured(&is);
}

bool cuda_issue_repair_captured(struct cuda_run *r, cudaStream_t stream, struct failure *f) {
    struct issue is = {.r = r,
                       .p = &r->repair,
                       .route = r->repair_route,
                       .report = &r->repair_report,
                       .states = &r->repair_state_map,
                       .read = r->snapshots ? (const char **)(void *)r->snapshot_dev : r->read,
                       .origin = stream,
                       .f = f};
    return issue_captured(&is, true, 0);
}
