/*
 * launch.h: ranks as processes.
 *
 *   launch.c      starts a process a rank on this machine, waits for them, and tells who died
 *   launch_env.c  the rank that mpirun, srun or torchrun made of us; what NCCL finds in its
 *                 environment
 *   launch_mps.c  NVIDIA's MPS, so that ranks on one GPU run side by side
 *
 * The starting process never calls CUDA: a context does not survive fork.
 */
#ifndef SLUICE_LAUNCH_H
#define SLUICE_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

struct launch_shared;

/* One rank, as its process sees it. */
struct launch {
    int rank, ranks;
    int local_rank; /* among the ranks of this machine */
    bool oversubscribe;
    struct launch_shared *shared; /* NULL: somebody else started the ranks */
};

struct launch_options {
    int ranks;          /* 0: as many as the starter says, or GPUs that the caller counted */
    bool oversubscribe; /* all ranks on GPU 0 */
    bool apart; /* without MPS, where one process that dies can take the others' work along */
    int ranks_per_node; /* what the ranks are told of their hosts; 0: the truth */
    double grace_s;     /* how long the others may go on when a rank has died */
};

/* Runs body in each of `ranks` processes and waits for them; or, in a process that mpirun or the
 * like started, runs it here. Returns 0 when every body has; else the first failure's exit code, or
 * LAUNCH_DIED when a rank was ended by a signal, or LAUNCH_FAILED when none could be started; what
 * went wrong is on stderr. `program` is what messages begin with. */
enum { LAUNCH_DIED = 5, LAUNCH_FAILED = 70 };
int launch_ranks(const char *program, const struct launch_options *o,
                 int (*body)(const struct launch *l, void *ctx), void *ctx);

/* 128 bytes that rank 0 makes and all ranks get. make is called on rank 0 alone, or on all ranks
 * where NCCL_COMM_ID says how they meet. False: rank 0 could not, or is gone. */
bool launch_share_id(const struct launch *l, bool (*make)(void *ctx, void *id), void *ctx,
                     void *id);

/* ---- launch_env.c -------------------------------------------------------------------------- */

/* Whether a starter's variables are there, consistent and for more than one rank. False with err
 * empty: there are none. */
bool launch_from_environment(struct launch *l, char *err, size_t err_bytes);
/* The environment of a rank that this process starts, or is. */
void launch_set_environment(const struct launch *l, const struct launch_options *o);
/* Setting 0, 1, ... of what decides NCCL's speed: "NCCL_SOCKET_NTHREADS=2", or "" where it is not
 * set. False: there are no more. */
bool launch_setting(size_t index, char *text, size_t text_bytes);

/* ---- launch_mps.c -------------------------------------------------------------------------- */

struct launch_mps {
    bool ours;
    char folder[64];
};
/* Starts MPS unless it runs. False: it is not to be had; ranks then take turns on the GPU. */
bool launch_mps_start(struct launch_mps *m);
void launch_mps_stop(struct launch_mps *m);

#endif
