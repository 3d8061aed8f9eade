/*
 * run_test.h: schedules that run in tests: small texts, made-up inputs, memory for all ranks, and
 * the comparison with the reference.
 */
#ifndef RUN_TEST_H
#define RUN_TEST_H

#include "runtime/executor.h"
#include "runtime/inputs.h"
#include "runtime/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TWOSHOT                                                                         \
    "schedule twoshot(codec wire = pack, codec back = wire) {\n"                        \
    "    collective allreduce;\n"                                                       \
    "    inout data[N];\n"                                                              \
    "    let all = ranks(0..N);\n"                                                      \
    "    stage scatter via wire {\n"                                                    \
    "        for c in 0..N, r in all where r != c { reduce data[c]@r -> data[c]@c; }\n" \
    "    }\n"                                                                           \
    "    stage gather via back { for c in 0..N { copy data[c]@c -> data[c]@all; } }\n"  \
    "}\n"

#define RING                                                                  \
    "schedule ring(codec wire = pack, codec back = wire) {\n"                 \
    "    collective allreduce;\n"                                             \
    "    inout data[N];\n"                                                    \
    "    let g = ranks(0..N);\n"                                              \
    "    stage scatter via wire { for s in 0..N-1 { step { for i in 0..N {\n" \
    "        let c = mod(i - s - 1, N);\n"                                    \
    "        reduce data[c]@g[i] -> data[c]@next(g, g[i]);\n"                 \
    "    } } } }\n"                                                           \
    "    stage gather via back { for s in 0..N-1 { step { for i in 0..N {\n"  \
    "        let c = mod(i - s, N);\n"                                        \
    "        copy data[c]@g[i] -> data[c]@next(g, g[i]);\n"                   \
    "    } } } }\n"                                                           \
    "}\n"

#define ALLTOALL                                                                            \
    "schedule a2a(codec wire = pack) {\n"                                                   \
    "    collective alltoall;\n"                                                            \
    "    input src[N]; output dst[N]; scratch tmp[N];\n"                                    \
    "    for r in 0..N, q in 0..N { copy src[q]@r -> tmp[q]@r; }\n"                         \
    "    stage move via wire { for r in 0..N, q in 0..N { copy tmp[q]@r -> dst[r]@q; } }\n" \
    "}\n"

/* What to run and on what. */
struct job {
    const char *text;
    int32_t ranks;
    enum dtype dtype;
    enum redop redop;
    uint64_t count;
    const char *defines[4];
    uint32_t slices;
    int threads;
    bool in_place;
    enum input_kind kind;
    uint64_t seed;
    uint64_t memory_limit_bytes;
    int (*start_thread)(void *thread, void *(*body)(void *), void *arg);
};

/* A plan with memory for all its ranks. */
struct world {
    struct job job;
    struct plan *plan;
    void **send, **recv; /* in place: recv is used for both, send keeps a copy */
    size_t *send_bytes, *recv_bytes;
};

static inline const struct flow *world_flow(const struct world *w) {
    return plan_compilation(w->plan)->flow;
}

static inline struct compile_options job_options(const struct job *j) {
    return (struct compile_options){.setup = {.ranks = j->ranks,
                                              .nodes = 1,
                                              .dtype = j->dtype,
                                              .redop = j->redop,
                                              .count = j->count,
                                              .slices = j->slices},
                                    .defines = j->defines,
                                    .emit_rank = -1};
}

/* Generates the inputs of all ranks, the same for the same kind and seed. */
static inline void world_fill(struct world *w, enum input_kind kind, uint64_t seed) {
    for (int32_t r = 0; r < w->job.ranks; r++)
        input_generate(kind, w->job.dtype, seed, r, 0, w->send_bytes[r] / dtype_bytes(w->job.dtype),
                       w->send[r]);
}

/* Memory for all ranks, and the inputs. */
static inline void world_allocate(struct world *w) {
    size_t ranks = (size_t)w->job.ranks, bytes = dtype_bytes(w->job.dtype);
    w->send = calloc(ranks, sizeof *w->send);
    w->recv = calloc(ranks, sizeof *w->recv);
    w->send_bytes = calloc(ranks, sizeof *w->send_bytes);
    w->recv_bytes = calloc(ranks, sizeof *w->recv_bytes);
    for (size_t i = 0; i < ranks; i++) {
        w->send_bytes[i] = io_send_elems(world_flow(w), (int32_t)i) * bytes;
        w->recv_bytes[i] = io_recv_elems(world_flow(w), (int32_t)i) * bytes;
        w->send[i] = malloc(w->send_bytes[i] + 1);
        w->recv[i] = malloc(w->recv_bytes[i] + 1);
        memset(w->recv[i], 0xa5, w->recv_bytes[i]);
    }
    world_fill(w, w->job.kind, w->job.seed);
}

static inline struct world world_new(const struct job *j) {
    struct world w = {.job = *j};
    struct compile_options c = job_options(j);
    struct run_options r = {.threads = j->threads,
                            .memory_limit_bytes = j->memory_limit_bytes,
                            .start_thread = j->start_thread};
    w.plan = plan_new_text("test.slc", j->text, strlen(j->text), &c, &r);
    assert_non_null(w.plan);
    if (!plan_ready(w.plan)) {
        print_error("%s\n", plan_error(w.plan));
        diag_print(plan_compilation(w.plan)->diag, stderr, false);
        fail();
    }
    world_allocate(&w);
    return w;
}

static inline void world_free(struct world *w) {
    plan_free(w->plan);
    for (int32_t i = 0; i < w->job.ranks; i++) {
        free(w->send[i]);
        free(w->recv[i]);
    }
    free(w->send);
    free(w->recv);
    free(w->send_bytes);
    free(w->recv_bytes);
}

/* Runs; the inputs must still be there afterwards. */
static inline void world_run(struct world *w) {
    enum run_status status;
    if (w->job.in_place) {
        for (int32_t r = 0; r < w->job.ranks; r++) {
            assert_int_equal(w->send_bytes[r], w->recv_bytes[r]);
            memcpy(w->recv[r], w->send[r], w->send_bytes[r]);
        }
        status = plan_run(w->plan, (const void *const *)w->recv, w->recv);
    } else {
        size_t ranks = (size_t)(uint32_t)w->job.ranks;
        void **before = calloc(ranks, sizeof *before);
        for (size_t r = 0; r < ranks; r++) {
            before[r] = malloc(w->send_bytes[r] + 1);
            memcpy(before[r], w->send[r], w->send_bytes[r]);
        }
        status = plan_run(w->plan, (const void *const *)w->send, w->recv);
        for (size_t r = 0; r < ranks; r++) {
            assert_memory_equal(before[r], w->send[r], w->send_bytes[r]);
            free(before[r]);
        }
        free(before);
    }
    if (status != RUN_OK)
        print_error("%s\n", plan_error(w->plan));
    assert_int_equal(status, RUN_OK);
}

static inline struct reference_report world_check(const struct world *w) {
    struct reference_report report;
    char err[200] = "", text[200];
    bool ok = reference_check(plan_compilation(w->plan), (const void *const *)w->send,
                              (const void *const *)w->recv, NULL, NULL, &report, err, sizeof err);
    if (!ok)
        print_error("%s\n", err);
    assert_true(ok);
    for (uint32_t i = 0; i < report.kept && i < 2; i++)
        print_message("    %s\n", mismatch_text(plan_compilation(w->plan), &report.first[i], text,
                                                sizeof text));
    return report;
}

/* FNV-1a of all that the ranks hold. */
static inline uint64_t world_hash(const struct world *w) {
    uint64_t h = UINT64_C(14695981039346656037);
    for (int32_t r = 0; r < w->job.ranks; r++)
        for (size_t i = 0; i < w->recv_bytes[r]; i++)
            h = (h ^ ((const uint8_t *)w->recv[r])[i]) * UINT64_C(1099511628211);
    return h;
}

/* Runs a job and holds it to the reference; the hash of the result. */
static inline uint64_t run_job(const struct job *j) {
    struct world w = world_new(j);
    world_run(&w);
    struct reference_report report = world_check(&w);
    assert_int_equal(report.wrong, 0);
    uint64_t hash = world_hash(&w);
    world_free(&w);
    return hash;
}

#endif
