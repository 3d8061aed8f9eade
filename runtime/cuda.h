/* Private to runtime/: how the CUDA executor holds a plan while it runs. Beside it stand engine.h,
 * whose places and steps it shares with the CPU executor, and transport.h, what carries messages.
 *
 *   cuda_load.c    a compiled plan as a list of actions
 *   cuda_memory.c  device and pinned memory: how much, taken, freed
 *   cuda_issue.c   issues the actions onto streams: eagerly, in our capture, in a caller's
 *   cuda_comm.c    communicators; the log
 *   cuda_graph.c   graphs: create, capture, rebind, adapt, destroy
 *   cuda_ticket.c  launch and enqueue; records of what runs came to; waiting, repair
 *   cuda_stats.c   what can be read while runs are in flight
 *
 * The process that runs holds some ranks of the plan: one with NCCL, all of them with `local`. A
 * rank has an arena on the device, as `slots` planned it. There is no `work`: input and inout
 * chunks are read from `send` until they are first stored, and stored chunks live in `recv`. In
 * one process all ranks share the status words, so that they agree without being asked.
 *
 *   pinned   record ring <-------------------------------------+ publish
 *   device   words (status, needs) <- kernels   consensus ------+
 *            arena of each rank, workspaces     snapshots of send, in place
 *
 * Names of functions that may run while a stream is captured end in _captured: they neither
 * allocate nor synchronise, and hand no memory of the host to the device.
 */
#ifndef SLUICE_CUDA_H
#define SLUICE_CUDA_H

#include "kernels/gpu.h"
#include "kernels/protocol.h"
#include "runtime/engine.h"
#include "runtime/handles.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- failures ------------------------------------------------------------------------------ */

/* Functions that can fail return false and have said why here. The first failure stays. */
struct failure {
    enum run_status status;
    char words[256];
};

bool failure_set(struct failure *f, enum run_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* True for cudaSuccess. Else: "cudaMalloc: out of memory". */
bool cuda_ok(struct failure *f, cudaError_t e, const char *call);
#define CUDA_OK(f, call) cuda_ok(f, call, #call)

/* ---- cuda_load.c --------------------------------------------------------------------------- */

/* What is issued at once: a compute task, or all messages of a round on a communicator that this
 * process has a part in. Actions stand in an order in which they can be issued. */
struct action {
    uint32_t task;  /* TASK_COMPUTE; NONE: a group */
    uint32_t group; /* index into groups; NONE: a compute */
    uint32_t stream;
    uint32_t first_wait, waits; /* events to wait for, in plan.waits */
    uint32_t event;             /* to record behind it; NONE: nobody waits */
};

struct group {
    uint8_t comm; /* 0 between nodes, 1 within a node; a stream each */
    uint32_t round;
    uint32_t first, n; /* in plan.group_tasks: TASK_SEND and TASK_RECV of ranks of this process,
                          rank after rank, in the order of their lists */
};

struct route; /* transport.h */
struct transport;

/* One compiled plan on the device. The tasks outlive it. */
struct cuda_plan {
    const struct tasks *t;
    struct loaded loaded;
    int32_t first_rank, ranks; /* of this process */
    char **arena_dev;          /* [ranks]; shared with the repair plan */
    struct action *actions;
    uint32_t action_count;
    struct group *groups;
    uint32_t group_count;
    uint32_t *group_tasks;
    uint32_t *waits;
    uint32_t events, streams; /* streams: comms, then the compute lanes of each rank */
    /* Slots in use, at most what the arena has room for. They change when the plan adapts; then
     * transports are told (route_update). */
    uint64_t *piece_bytes;      /* [pieces] */
    uint32_t *need;             /* [pieces] its word, from PROTOCOL_NEEDS on; NONE: has no header */
    uint32_t needs;             /* words behind PROTOCOL_NEEDS (protocol.h) */
    bool headers;               /* some piece has one */
    uint8_t *from_send;         /* [operands] 1: a chunk read before anything is stored there */
    struct span_copy *unstored; /* inout memory that nobody stores to, rank after rank */
    uint32_t *first_unstored;   /* [ranks + 1] */
    uint64_t workspace_bytes;   /* what codecs need, of a stream that computes */
    uint64_t scratch_bytes;     /* the same, need not be zeroed */
    bool can_overflow;          /* with the slots in use */
};

bool cuda_plan_init(struct cuda_plan *p, const struct tasks *t, int32_t first_rank, int32_t ranks,
                    struct failure *f);
void cuda_plan_free(struct cuda_plan *p);
/* A slot in which no data overflows. */
uint64_t cuda_piece_worst(const struct cuda_plan *p, uint32_t piece);
/* Of what all ranks must compile alike: chunks, operations, codecs, slices, slots. */
uint64_t cuda_plan_hash(const struct cuda_plan *p);
#define HASH_SEED UINT64_C(0xcbf29ce484222325)
uint64_t hash_more(uint64_t seed, const void *bytes, size_t n);
/* Sets can_overflow, after piece_bytes changed. */
void cuda_plan_measure(struct cuda_plan *p);

/* The slot of a piece of a rank of this process. */
static inline char *cuda_piece_dev(const struct cuda_plan *p, uint32_t piece) {
    const struct piece *x = &p->t->pieces.data[piece];
    return p->arena_dev[x->rank - p->first_rank] + x->offset;
}

/* ---- cuda_memory.c ------------------------------------------------------------------------- */

/* What a run came to, and where it is told. */
struct report {
    uint32_t *words_dev;
    uint32_t words; /* PROTOCOL_NEEDS + needs */
    struct protocol_state *state_dev;
    char *ring_host, *ring_dev; /* the same pinned memory */
    uint64_t record_bytes;
    uint32_t ring; /* records */
};

#define RECORDS 4u

/* All that is issued and what it works on. Graphs, ours and the caller's, hold it together. */
struct cuda_run {
    _Atomic uint32_t owners;
    struct sluice_comm *comm; /* kept alive */
    struct transport *x;
    sluice_graph_options options;
    struct compilation *main_compilation, *repair_compilation;
    int32_t *nodes; /* node_of and local_of, or NULL */
    struct cuda_plan plan, repair;
    bool has_repair; /* the plan may overflow, now or when it has adapted */
    bool plain;      /* SLUICE_DISABLE: the transport's own collective instead */
    bool reports;    /* runs end with a consensus and a record */
    struct route *route, *repair_route;
    struct states states; /* what codecs remember, on all ranks; its memory is on the device */
    struct state_map state_map, repair_state_map;
    uint64_t *state_at; /* [states.count] in each half of states_dev; NOT_HERE: another process's */
    uint64_t state_bytes; /* of this process */
    char *states_dev;     /* now, then next; a run that counts ends with a copy of next to now */

    const char **send; /* [ranks] of this process, as the caller gave them */
    char **recv;
    const char **read; /* [ranks] where chunks that are not stored yet are read: send, or a copy */
    char **arena_dev, **snapshot_dev; /* snapshot: NULL where there is none */
    char *arenas, *snapshots, *workspaces, *words;
    struct report report, repair_report;
    uint64_t *stamps_host, *stamps_dev;    /* [2 * actions] begin and end */
    uint64_t workspace_each, scratch_each; /* of a compute stream, one behind the other */
    sluice_graph_sizes sizes;

    uint32_t streams, events;
    cudaStream_t *stream;    /* [streams] */
    cudaEvent_t *event;      /* [events] */
    cudaEvent_t fork, *join; /* [streams] */
};

/* Fills sizes of a run whose plans are loaded. snapshots: send and recv overlap, or may. */
void cuda_memory_measure(struct cuda_run *r, bool snapshots);
/* Takes what was measured, within the limit. */
bool cuda_memory_take(struct cuda_run *r, struct failure *f);
void cuda_memory_free(struct cuda_run *r);
/* The caller's buffers from now on. */
bool cuda_memory_bind(struct cuda_run *r, const void *const *send, void *const *recv,
                      struct failure *f);
/* Whether some rank's send and recv share memory in a way that needs a copy of send. */
bool cuda_memory_needs_copy(const struct cuda_run *r, const void *const *send, void *const *recv);

/* ---- cuda_state.c -------------------------------------------------------------------------- */

#define NOT_HERE UINT64_MAX

/* Finds what the codecs of this process remember; before cuda_memory_measure. */
bool cuda_states_find(struct cuda_run *r, struct failure *f);
/* As new, with this seed. Waits for the device. */
bool cuda_states_reset(struct cuda_run *r, uint64_t seed, struct failure *f);
/* The state of a piece at one end. */
struct gpu_state cuda_state_of(const struct cuda_run *r, const struct state_map *map,
                               uint32_t piece, enum codec_side side);
void cuda_states_free(struct cuda_run *r);

/* ---- cuda_issue.c -------------------------------------------------------------------------- */

/* Nodes of a capture that hold pointers of the caller's, in the order of issue. */
struct node_log {
    cudaGraphNode_t *nodes;
    size_t count, room;
};

/* Issues the plan and its end on the stream: eagerly, or into the graph that is being captured
 * there. log: NULL, or notes nodes. muted: without messages, consensus and end, only for the nodes.
 * Not to be called by two threads at a time on one run. */
bool cuda_issue_captured(struct cuda_run *r, cudaStream_t stream, struct node_log *log, bool muted,
                         struct failure *f);
/* What the stream is captured into. */
bool cuda_captured_graph(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                         cudaGraph_t *graph, struct failure *f);
/* The repair of the run before it. */
bool cuda_issue_repair_captured(struct cuda_run *r, cudaStream_t stream, struct failure *f);

/* ---- cuda_comm.c --------------------------------------------------------------------------- */

struct sluice_comm {
    struct transport *x;
    _Atomic uint32_t owners; /* the handle, and each run */
    pthread_mutex_t lock;    /* of what follows */
    uint64_t tickets;        /* given out */
    struct failure failure;
};

/* Owns x from here on, also when there is no memory: then NULL. */
struct sluice_comm *comm_new(struct transport *x);
void comm_keep(struct sluice_comm *c);
void comm_release(struct sluice_comm *c);
uint64_t comm_ticket(struct sluice_comm *c);

enum log_level { LOG_NOTHING, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_TRACE };
void comm_log(const struct transport *x, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The transport's device is current from enter to leave; leave also when enter failed. */
struct device_guard {
    int device; /* to return to; -1: none */
};
bool device_enter(const struct transport *x, struct device_guard *g, struct failure *f);
void device_leave(const struct device_guard *g);

/* ---- cuda_graph.c -------------------------------------------------------------------------- */

struct sluice_graph {
    pthread_mutex_t lock;
    struct failure failure; /* the last */
    struct cuda_run *run;   /* NULL: it could not be made */
    cudaStream_t capture;
    cudaEvent_t done; /* behind the last launch */
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    struct node_log log; /* nodes of graph */
    size_t nodes;

    /* cuda_ticket.c */
    uint64_t issued; /* runs */
    uint64_t ticket; /* of the last run */
    cudaStream_t stream;
    bool waiting; /* it has to be waited for */

    /* what adaptation goes by */
    struct learned *learned;
    uint64_t *needs; /* [numbers] of one run */
    uint32_t *words; /* [plan.needs] room to read a record */
    size_t numbers;
    uint64_t observed;   /* the last run that learned has seen */
    uint64_t adapted_at; /* runs observed when adaptation was last thought of */
    bool overflowed;     /* a run since the last adaptation */
    uint64_t overflows, repairs, adaptations;
    uint64_t *stage_overflows; /* [stages] */
};

void cuda_run_keep(struct cuda_run *r);
void cuda_run_release(struct cuda_run *r);
/* The same where CUDA must not be called: the last owner leaves the freeing to a thread. */
void cuda_run_release_later(struct cuda_run *r);
/* Captures the run as it stands, in place of the graph before. */
bool graph_capture(struct sluice_graph *g, struct failure *f);
/* New slots from what was learned, if that saves anything or a run overflowed. */
bool graph_adapt(struct sluice_graph *g, struct failure *f);
/* Locks the handle and makes its device current; false: it holds no run. */
bool graph_enter(struct sluice_graph *g, struct device_guard *d);
/* Unlocks; the status of the call, whose failure stays with the handle. */
sluice_status graph_leave(struct sluice_graph *g, const struct device_guard *d);

/* ---- cuda_ticket.c ------------------------------------------------------------------------- */

/* The record of a run, copied; false: it is not there, or no more. */
bool report_read(const struct report *report, uint64_t run, struct protocol_record *record,
                 uint32_t *needs);
/* The newest one. */
bool report_newest(const struct report *report, struct protocol_record *record, uint32_t *needs);
/* Learns from a run. needs: its words, [plan.needs]. */
void graph_observe(struct sluice_graph *g, const struct protocol_record *record,
                   const uint32_t *needs);
/* Whether no run has to be waited for; else the failure says which. */
bool graph_is_free(struct sluice_graph *g);

#endif
