/*
 * cuda_wait.c: waiting for the device where a peer may never come.
 *
 * A kernel that waits for a rank that is gone never ends, and neither does cudaStreamSynchronize.
 * Here the transport is asked now and then whether its peers are well; if not, or when they have
 * kept us waiting for too long, it is aborted, and that ends the kernel.
 */
#include "runtime/transport.h"

#include <sched.h>
#include <time.h>

#define CHECK_EVERY_S 0.002

static cudaError_t query(const cudaStream_t *stream, cudaEvent_t event) {
    return stream ? cudaStreamQuery(*stream) : cudaEventQuery(event);
}

static void pause_for(double waited) {
    static const struct timespec moment = {0, 50000};
    if (waited < 0.001)
        sched_yield();
    else
        nanosleep(&moment, NULL);
}

/* Of the stream, or NULL: of the event. */
static bool wait_for(struct transport *x, const cudaStream_t *stream, cudaEvent_t event,
                     struct failure *f) {
    double start = clock_seconds(), checked = start;
    for (;;) {
        cudaError_t e = query(stream, event);
        if (e != cudaErrorNotReady)
            return cuda_ok(f, e, "work on the device") && (!x->ops->check || x->ops->check(x, f));
        double now = clock_seconds();
        if (x->ops->check && now - checked > CHECK_EVERY_S) {
            checked = now;
            bool well = x->ops->check(x, f);
            if (well && x->timeout_seconds > 0 && now - start > x->timeout_seconds)
                well = failure_set(f, RUN_PEER, "no answer of the other ranks within %.0f s",
                                   x->timeout_seconds);
            if (!well) {
                if (x->ops->abort)
                    x->ops->abort(x);
                return false;
            }
        }
        pause_for(now - start);
    }
}

bool transport_wait_event(struct transport *x, cudaEvent_t event, struct failure *f) {
    return wait_for(x, NULL, event, f);
}

sluice_status sluice_comm_wait(sluice_comm *comm, struct CUstream_st *stream) {
    if (!comm)
        return SLUICE_INVALID_ARGUMENT;
    struct failure f = {0};
    struct device_guard d;
    if (device_enter(comm->x, &d, &f))
        wait_for(comm->x, &stream, NULL, &f);
    device_leave(&d);
    pthread_mutex_lock(&comm->lock);
    comm->failure = f;
    pthread_mutex_unlock(&comm->lock);
    return public_status(f.status);
}
