/* Private to runtime/: how the CUDA executor holds a plan while it runs. Beside it stand engine.h,
 * whose places and steps it shares with the CPU executor, and transport.h, what carries messages.
 *
 *   cuda_load.c    a compiled plan as a list of actions; its memory on the device
 *   cuda_issue.c   issues the actions onto streams: eagerly, in our capture, in a caller's
 *   cuda_graph.c   capture, launch, rebind, adapt, destroy: sluice_graph_* of sluice.h
 *   cuda_ticket.c  records of what runs came to; waiting, repair
 *
 * The process that runs holds some ranks of the plan: one with NCCL, all of them with `local`. A rank
 * has an arena on the device, as `slots` planned it. There is no `work`: input and inout chunks are
 * read from `send` until they are first stored, and stored chunks live in `recv`. In one process all
 * ranks share the status words, so that they agree without being asked.
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

/* ---- failures ------------------------------------------------------------------------------ */

/* Functions that can fail return false and have said why here. The first failure stays. */
struct failure {
    enum run_status status;
    char words[256];
};

bool fail(struct failure *f, enum run_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* True for cudaSuccess. Else: "cudaMalloc(...): out of memory". */
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
    uint64_t *piece_bytes; /* [pieces] */
    uint32_t *need;        /* [pieces] its word, from PROTOCOL_NEEDS on; NONE: has no header */
    uint32_t needs;        /* words behind PROTOCOL_NEEDS (protocol.h) */
    uint8_t *from_send;    /* [operands] 1: a chunk read before anything is stored there */
    uint64_t workspace_bytes;
    bool can_overflow; /* with the slots in use */
};

/* The slot of a piece of a rank of this process. */
static inline char *cuda_piece_dev(const struct cuda_plan *p, uint32_t piece) {
    const struct piece *x = &p->t->pieces.data[piece];
    return p->arena_dev[x->rank - p->first_rank] + x->offset;
}

#endif
