/* Private to runtime/: communicators of NCCL, without waiting for ever.
 *
 *   nccl_link.c       split, settle, watch, abort, destroy; sums and gathers of small values
 *   nccl_plain.c      the collective of a schedule as one call of NCCL
 *   transport_nccl.c  messages of plans, on top of both
 */
#ifndef SLUICE_NCCL_LINK_H
#define SLUICE_NCCL_LINK_H

#include "runtime/cuda.h"
#include "runtime/nccl_api.h"

#include <pthread.h>

enum { LINK_COMMS_MAX = 4 };

/* The communicators of one rank. Only those are watched and aborted; the caller's is its own. */
struct nccl_link {
    struct nccl nccl;
    int ranks, rank, device;
    struct ncclComm *comms[LINK_COMMS_MAX]; /* NULL: not made */
    cudaStream_t stream;                    /* for what the host waits for */
    uint64_t *words_dev, *words_host;       /* a message of small values; host: pinned */
    uint32_t words;
    double timeout_seconds; /* 0: for ever */
    bool dead;              /* a peer is gone, or a call has failed: nothing more is started */
    char died_of[200];
    pthread_t aborts[LINK_COMMS_MAX];
    bool aborting[LINK_COMMS_MAX];
};

/* Finds NCCL and looks at the caller's communicator; the first communicator of our own is split
 * from it, by all ranks. False: link_close all the same. */
bool link_open(struct nccl_link *l, struct ncclComm *caller, double timeout_seconds,
               struct failure *f);
/* Communicator `index`, made if it is not there yet, by all ranks. */
bool link_comm(struct nccl_link *l, uint32_t index, struct failure *f);
/* A call's result: true for success. Else *f says which call, and the link is dead. */
bool link_ok(struct nccl_link *l, enum nccl_result result, const char *call, struct failure *f);
/* Whether no peer is known to be gone. False: the link is dead, *f says why. */
bool link_check(struct nccl_link *l, struct failure *f);
/* Waits until the stream is empty, or a peer is gone, or for too long; then aborts. */
bool link_wait(struct nccl_link *l, cudaStream_t stream, struct failure *f);
/* Ends what runs on our communicators. Returns at once. */
void link_abort(struct nccl_link *l);
void link_close(struct nccl_link *l);

/* mine[count] of every rank, rank after rank, to all[ranks * count] on the host. */
bool link_gather(struct nccl_link *l, const uint64_t *mine, uint32_t count, uint64_t *all,
                 struct failure *f);

/* ---- nccl_plain.c --------------------------------------------------------------------------- */

/* A collective as NCCL understands it: one call, or one group of sends and receives. */
struct plain {
    enum collective collective;
    int root, ranks;
    enum dtype dtype;
    enum redop redop;
    uint64_t count; /* as NCCL counts */
};

/* False: the flow declares none, or one that is not on all ranks in order. */
bool plain_of(const struct flow *f, struct plain *out);
/* send and recv as executor.h lays them out. Asynchronous; legal while the stream is captured. */
enum nccl_result plain_issue_captured(const struct nccl *n, struct ncclComm *comm,
                                      const struct plain *s, int rank, const void *send_dev,
                                      void *recv_dev, cudaStream_t stream);

#endif
