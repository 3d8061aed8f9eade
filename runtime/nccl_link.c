/*
 * nccl_link.c: our communicators, and waiting for peers that may be gone.
 *
 * A peer that dies while it owes us data leaves a kernel of NCCL spinning on our GPU. NCCL may
 * notice (sockets: at once) and says so when asked; if it does not, time runs out. Either way the
 * communicators are aborted: that ends their kernels, hence the streams. An abort returns when no
 * graph holds the communicator any more, and graphs are destroyed after it: so each runs on a
 * thread of its own, and link_close waits for these.
 */
#define _GNU_SOURCE /* pthread_timedjoin_np */
#include "runtime/nccl_link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINK_OK(l, f, call) link_ok(l, (l)->nccl.call, "nccl" #call, f)
#define ABORT_PATIENCE_S    20
#define NAP_NS              200000
#define FIRST_NAP_NS        2000

static void nap(long ns) {
    struct timespec t = {.tv_nsec = ns};
    nanosleep(&t, NULL);
}

static bool dead(struct nccl_link *l, struct failure *f) {
    return failure_set(f, RUN_PEER, "the communicator has failed before: %s", l->died_of);
}

bool link_ok(struct nccl_link *l, enum nccl_result result, const char *call, struct failure *f) {
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS)
        return true;
    const char *more = l->nccl.GetLastError(NULL);
    l->dead = true;
    snprintf(l->died_of, sizeof l->died_of, "%s: %s%s%.100s", call, l->nccl.GetErrorString(result),
             more && *more ? "; " : "", more ? more : "");
    l->died_of[strcspn(l->died_of, "\n")] = 0;
    enum run_status status =
        result == NCCL_REMOTE_ERROR || result == NCCL_SYSTEM_ERROR ? RUN_PEER : RUN_DEVICE;
    return failure_set(f, status, "%s", l->died_of);
}

bool link_check(struct nccl_link *l, struct failure *f) {
    if (l->dead)
        return dead(l, f);
    for (int i = 0; i < LINK_COMMS_MAX; i++) {
        enum nccl_result state = NCCL_SUCCESS;
        if (!l->comms[i])
            continue;
        enum nccl_result asked = l->nccl.CommGetAsyncError(l->comms[i], &state);
        state = asked == NCCL_SUCCESS ? state : asked;
        if (state == NCCL_SUCCESS || state == NCCL_IN_PROGRESS)
            continue;
        l->dead = true;
        snprintf(l->died_of, sizeof l->died_of, "a peer is gone: NCCL reports \"%s\"",
                 l->nccl.GetErrorString(state));
        return failure_set(f, RUN_PEER, "%s", l->died_of);
    }
    return true;
}

bool link_wait(struct nccl_link *l, cudaStream_t stream, struct failure *f) {
    double start = clock_seconds();
    long ns = FIRST_NAP_NS;
    for (;;) {
        cudaError_t state = cudaStreamQuery(stream);
        if (state == cudaSuccess)
            return link_check(l, f);
        if (state != cudaErrorNotReady)
            return cuda_ok(f, state, "cudaStreamQuery");
        bool well = link_check(l, f);
        if (well && l->timeout_seconds > 0 && clock_seconds() - start > l->timeout_seconds) {
            l->dead = true;
            snprintf(l->died_of, sizeof l->died_of, "waited %.0f s for the other ranks",
                     l->timeout_seconds);
            well = failure_set(f, RUN_PEER, "%s", l->died_of);
        }
        if (!well) {
            link_abort(l);
            return false;
        }
        nap(ns);
        ns = ns * 2 < NAP_NS ? ns * 2 : NAP_NS;
    }
}

/* ---- communicators ---- */

/* A communicator that does not block is usable only when its making has come to an end. */
static bool settle(struct nccl_link *l, struct ncclComm *comm, struct failure *f) {
    enum nccl_result state = NCCL_IN_PROGRESS;
    double start = clock_seconds();
    while (state == NCCL_IN_PROGRESS) {
        if (!LINK_OK(l, f, CommGetAsyncError(comm, &state)))
            return false;
        if (l->timeout_seconds > 0 && clock_seconds() - start > l->timeout_seconds) {
            l->dead = true;
            snprintf(l->died_of, sizeof l->died_of, "waited %.0f s for the other ranks",
                     l->timeout_seconds);
            return failure_set(f, RUN_PEER, "%s", l->died_of);
        }
        if (state == NCCL_IN_PROGRESS)
            nap(NAP_NS);
    }
    return link_ok(l, state, "ncclCommSplit", f);
}

static bool split(struct nccl_link *l, struct ncclComm *from, uint32_t index, struct failure *f) {
    return LINK_OK(l, f, CommSplit(from, 0, l->rank, &l->comms[index], NULL)) &&
           settle(l, l->comms[index], f);
}

bool link_comm(struct nccl_link *l, uint32_t index, struct failure *f) {
    if (l->comms[index])
        return true;
    return l->dead ? dead(l, f) : split(l, l->comms[0], index, f);
}

bool link_open(struct nccl_link *l, struct ncclComm *caller, double timeout_seconds,
               struct failure *f) {
    char err[200];
    *l = (struct nccl_link){.timeout_seconds = timeout_seconds};
    if (!nccl_open(&l->nccl, err, sizeof err))
        return failure_set(f, RUN_UNSUPPORTED, "%s", err);
    if (!LINK_OK(l, f, CommCount(caller, &l->ranks)) ||
        !LINK_OK(l, f, CommUserRank(caller, &l->rank)) ||
        !LINK_OK(l, f, CommCuDevice(caller, &l->device)) || !CUDA_OK(f, cudaSetDevice(l->device)) ||
        !CUDA_OK(f, cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking)))
        return false;
    l->words = 64;
    size_t bytes = (size_t)l->words * sizeof(uint64_t);
    return CUDA_OK(f, cudaMalloc((void **)&l->words_dev, bytes * (size_t)(l->ranks + 1))) &&
           CUDA_OK(f, cudaMallocHost((void **)&l->words_host, bytes * (size_t)(l->ranks + 1))) &&
           split(l, caller, 0, f);
}

/* ---- the end ---- */

struct abort_job {
    enum nccl_result (*abort)(struct ncclComm *comm);
    struct ncclComm *comm;
    int device;
};

static void *run_abort(void *arg) {
    struct abort_job job = *(struct abort_job *)arg;
    free(arg);
    cudaSetDevice(job.device);
    job.abort(job.comm);
    return NULL;
}

void link_abort(struct nccl_link *l) {
    if (!l->dead) {
        l->dead = true;
        snprintf(l->died_of, sizeof l->died_of, "it was aborted");
    }
    for (int i = 0; i < LINK_COMMS_MAX; i++) {
        if (!l->comms[i])
            continue;
        struct abort_job *job = malloc(sizeof *job);
        if (!job)
            continue;
        *job = (struct abort_job){l->nccl.CommAbort, l->comms[i], l->device};
        l->aborting[i] = pthread_create(&l->aborts[i], NULL, run_abort, job) == 0;
        if (!l->aborting[i]) {
            free(job);
            continue;
        }
        l->comms[i] = NULL;
    }
}

/* An abort that does not come back keeps its thread, and the library stays loaded. */
static bool join_aborts(struct nccl_link *l) {
    struct timespec until;
    bool all = true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ABORT_PATIENCE_S;
    for (int i = 0; i < LINK_COMMS_MAX; i++)
        if (l->aborting[i] && pthread_timedjoin_np(l->aborts[i], NULL, &until) != 0) {
            pthread_detach(l->aborts[i]);
            all = false;
        }
    return all;
}

void link_close(struct nccl_link *l) {
    struct failure ignored = {0};
    if (l->device >= 0 && l->stream)
        cudaSetDevice(l->device);
    if (l->comms[0] && !link_check(l, &ignored))
        link_abort(l);
    for (int i = LINK_COMMS_MAX - 1; i >= 0; i--)
        if (l->comms[i])
            l->nccl.CommDestroy(l->comms[i]);
    bool joined = join_aborts(l);
    if (l->stream)
        cudaStreamDestroy(l->stream);
    cudaFree(l->words_dev);
    cudaFreeHost(l->words_host);
    if (joined)
        nccl_close(&l->nccl);
}

/* ---- small values ---- */

bool link_gather(struct nccl_link *l, const uint64_t *mine, uint32_t count, uint64_t *all,
                 struct failure *f) {
    size_t bytes = (size_t)count * sizeof *mine, all_bytes = bytes * (size_t)l->ranks;
    uint64_t *all_dev = l->words_dev + l->words, *all_host = l->words_host + l->words;
    if (l->dead)
        return dead(l, f);
    if (count > l->words)
        return failure_set(f, RUN_INTERNAL, "%" PRIu32 " values at a time", count);
    memcpy(l->words_host, mine, bytes);
    bool ok =
        CUDA_OK(f, cudaMemcpyAsync(l->words_dev, l->words_host, bytes, cudaMemcpyHostToDevice,
                                   l->stream)) &&
        LINK_OK(l, f, AllGather(l->words_dev, all_dev, count, NCCL_U64, l->comms[0], l->stream)) &&
        CUDA_OK(f,
                cudaMemcpyAsync(all_host, all_dev, all_bytes, cudaMemcpyDeviceToHost, l->stream)) &&
        link_wait(l, l->stream, f);
    if (ok)
        memcpy(all, all_host, all_bytes);
    return ok;
}
