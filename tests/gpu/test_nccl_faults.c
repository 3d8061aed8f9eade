/* A peer that is killed: the others get an error, in bounded time, and can destroy everything. */
#include "tests/gpu/nccl_test.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { VICTIM = 1 };
#define BOUND_S 20.0 /* the ranks wait for 10 s */

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool open_large(struct world *w, struct job *j, const char *wire) {
    struct job_options o = {.schedule = "allreduce_twoshot.slc",
                            .wire = wire,
                            .dtype = SLUICE_BF16,
                            .count = 2000003,
                            .sets = 2};
    bool ok = expect(w, job_open(w, &o, j), "%s does not open", o.schedule);
    world_barrier(w);
    return ok;
}

static void die(void) {
    raise(SIGKILL);
}

/* Runs until the first error, which must be about the peer and come in time. */
static void run_until_error(struct world *w, struct job *j, int most) {
    double start = now_s();
    sluice_status s = SLUICE_OK;
    for (int i = 0; i < most && s == SLUICE_OK; i++) {
        uint64_t ticket;
        start = now_s();
        s = sluice_graph_launch(j->graph, w->stream, &ticket);
        if (s == SLUICE_OK)
            s = sluice_graph_wait(j->graph, ticket);
        if (s == SLUICE_OK)
            s = sluice_comm_wait(w->sluice, w->stream);
    }
    double took = now_s() - start;
    expect(w, s == SLUICE_PEER_ERROR, "a peer is gone, but: %s; %s; %s", sluice_status_text(s),
           sluice_graph_error(j->graph), sluice_comm_error(w->sluice));
    expect(w, took < BOUND_S, "the error took %.1f s", took);
    /* from now on everything fails at once */
    start = now_s();
    uint64_t ticket;
    s = sluice_graph_launch(j->graph, w->stream, &ticket);
    if (s == SLUICE_OK)
        s = sluice_graph_wait(j->graph, ticket);
    if (s == SLUICE_OK)
        s = sluice_comm_wait(w->sluice, w->stream);
    expect(w, s != SLUICE_OK, "a launch after the error went well");
    expect(w, now_s() - start < 2, "an error that was known took %.1f s", now_s() - start);
}

static void close_in_time(struct world *w, struct job *j) {
    double start = now_s();
    job_close(j);
    expect(w, now_s() - start < BOUND_S, "destroying took %.1f s", now_s() - start);
}

static void killed_before(struct world *w, const char *wire) {
    struct job j;
    if (!open_large(w, &j, wire))
        return;
    if (w->rank == VICTIM)
        die();
    usleep(300000);
    run_until_error(w, &j, 3);
    close_in_time(w, &j);
}

void test_nccl_killed_before(struct world *w) {
    killed_before(w, "none"); /* no record, nothing to wait for but the stream */
}

void test_nccl_killed_during(struct world *w) {
    struct job j;
    if (!open_large(w, &j, "pack"))
        return;
    for (int i = 0; i < 3; i++)
        if (!job_run(&j, i % 2, w->stream))
            return;
    if (w->rank == VICTIM) {
        uint64_t ticket;
        sluice_graph_launch(j.graph, w->stream, &ticket);
        usleep(1000);
        die();
    }
    run_until_error(w, &j, 3);
    close_in_time(w, &j);
}

void test_nccl_killed_between(struct world *w) {
    struct job j;
    if (!open_large(w, &j, "pack"))
        return;
    for (int i = 0; i < 5; i++)
        if (!job_run(&j, i % 2, w->stream))
            return;
    expect(w, job_wrong(w) == 0, "wrong elements before the death");
    world_barrier(w);
    if (w->rank == VICTIM)
        die();
    usleep(300000);
    run_until_error(w, &j, 3);
    close_in_time(w, &j);
}
