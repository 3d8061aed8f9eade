/* Private to runtime/: what carries the messages of a plan between ranks, and lets them agree.
 *
 *   transport_local.c  all ranks in this process, on one GPU: a message is a copy on the device
 *   transport_nccl.c   one rank a process
 *
 * A transport belongs to a sluice_comm and serves any number of graphs. A *route* is what it keeps
 * for one plan of one graph: tables, communicators, channels that have been warmed up. All that may
 * allocate or wait happens in route_new; what runs while a stream is captured ends in _captured.
 *
 * Calls that concern several ranks (route_new, agree, exchange, consensus) are made by all ranks in
 * one order. Functions return false when they failed, with *f set; they never exit.
 */
#ifndef SLUICE_TRANSPORT_H
#define SLUICE_TRANSPORT_H

#include "runtime/cuda.h"

struct transport;
struct route;

enum route_use {
    ROUTE_DATA,  /* the plan that graphs replay */
    ROUTE_REPAIR /* issued behind it, eagerly; never at the same time on one rank */
};

struct transport_ops {
    const char *name; /* "local" */

    /* Whether all ranks gave the same values. What differs is named in *f, RUN_PEER. NULL: there is
     * one process. */
    bool (*agree)(struct transport *x, const char *const *names, const uint64_t *values,
                  uint32_t count, struct failure *f);

    /* Makes ready to carry the plan's groups. The plan outlives the route; its arenas do not move,
     * and are all that messages are read from and written to. words_dev: see exchange. *out is set
     * in any case, and freed by the caller. Called by all ranks. */
    bool (*route_new)(struct transport *x, const struct cuda_plan *p, enum route_use use,
                      uint32_t *words_dev, struct route **out, struct failure *f);
    /* plan.piece_bytes has changed, on all ranks alike; nothing of this plan is running. NULL:
     * exchange reads them each time. */
    bool (*route_update)(struct route *r, struct failure *f);

    /* Issues all messages of plan.groups[group] onto the stream: sends and receives start together
     * behind what the stream holds, and are done together. Of a message, plan.piece_bytes of each
     * piece travel, from the sender's slot to the receiver's; pieces that lie in a row and are full
     * may go as one. What pieces that leave a rank of this process needed is noted in the words,
     * plan.need says where (gpu_exchange without copies does it). */
    bool (*exchange_captured)(struct route *r, uint32_t group, cudaStream_t stream,
                              struct failure *f);

    /* words_dev[i] becomes the largest of all processes' words; these start at PROTOCOL_OVERFLOW.
     * NULL: there is one process, whose ranks share their words. */
    bool (*consensus_captured)(struct route *r, uint32_t *words_dev, uint32_t count,
                               cudaStream_t stream, struct failure *f);

    /* The collective that the plan's flow declares, by the transport's own means instead of the
     * groups: what SLUICE_DISABLE asks for. send and recv as executor.h lays them out, of the one
     * rank of this process. plain_possible: whether there is such a thing. NULL, both: there is
     * not. */
    bool (*plain_possible)(const struct flow *flow);
    bool (*plain_captured)(struct route *r, const void *send_dev, void *recv_dev,
                           cudaStream_t stream, struct failure *f);

    /* Asked while the host waits: whether all is well with the peers. False: RUN_PEER, and from
     * then on everything on the transport fails fast. NULL: nothing can happen. */
    bool (*check)(struct transport *x, struct failure *f);
    /* Ends what still waits for a peer, on this rank; waiting streams come to an end. NULL: no
     * need. */
    void (*abort)(struct transport *x);

    void (*route_free)(struct route *r); /* nothing of it is running; NULL is allowed */
    void (*free)(struct transport *x);
};

/* The head of every transport. */
struct transport {
    const struct transport_ops *ops;
    int32_t ranks;                     /* of the world */
    int32_t first_rank, local_ranks;   /* those of this process */
    const int32_t *node_of, *local_of; /* [ranks], NULL: one node */
    int32_t nodes;
    int device;
    double timeout_seconds; /* how long a peer may keep a wait waiting; 0: for ever */
    int log_level;          /* of SLUICE_LOG, read when the transport was made */
};

/* cuda_wait.c: waits for an event that may depend on other ranks. False: one of them is gone,
 * or kept us waiting for too long; then the transport was aborted, and the event will come. */
bool transport_wait_event(struct transport *x, cudaEvent_t event, struct failure *f);

/* All ranks in this process, on the current device. NULL and *f: no memory. */
struct transport *transport_local_new(int32_t ranks, struct failure *f);

/* One rank of a communicator of NCCL, which stays the caller's and need not outlive this; its
 * device becomes the current one. Called by all ranks. */
struct ncclComm;
struct transport *transport_nccl_new(struct ncclComm *comm, double timeout_seconds,
                                     struct failure *f);

#endif
