/*
 * nccl_test.h: tests that need several ranks, a process each, on one GPU or on several.
 *
 * A test is a function that every rank runs. The processes of one launch run the tests of one group
 * after another. What all ranks must do alike, they do; a rank that finds something wrong counts it
 * and goes on, and leaves with 1 in the end.
 */
#ifndef SLUICE_NCCL_TEST_H
#define SLUICE_NCCL_TEST_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/launch.h"
#include "kernels/dtype.h"
#include "runtime/nccl_api.h"
#include "runtime/sluice.h"

struct world {
    int rank, ranks;
    const char *schedules; /* folder */
    struct nccl nccl;
    struct ncclComm *comm;
    sluice_comm *sluice;
    cudaStream_t stream;
    unsigned long long *wrong_dev;
    uint64_t checks, failures;
};

/* Prints and exits with 2 unless a call of CUDA or NCCL went well. */
#define CUDA_MUST(call)    cuda_must(call, #call, __FILE__, __LINE__)
#define NCCL_MUST(w, call) nccl_must(w, (w)->nccl.call, #call, __FILE__, __LINE__)
void cuda_must(cudaError_t e, const char *call, const char *file, int line);
void nccl_must(const struct world *w, enum nccl_result e, const char *call, const char *file,
               int line);

/* Counts a check; one that fails is printed. */
bool expect(struct world *w, bool right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* SLUICE_OK, or it is printed with the words of the graph (may be NULL). */
bool expect_ok(struct world *w, sluice_status s, const sluice_graph *g, const char *call);

void world_barrier(struct world *w);
/* The largest of all ranks' values. */
uint64_t world_max(struct world *w, uint64_t value);
uint64_t world_sum(struct world *w, uint64_t value);

/* ---- a schedule with its data: nccl_job.c --------------------------------------------------- */

enum job_data {
    DATA_BELL,        /* packs well */
    DATA_NOISE,       /* every bit at random: packs not at all */
    DATA_NOISE_FOR_1, /* in block 1 of as many as there are ranks; the rest packs well */
    DATA_EXACT        /* small integers: sums are the same in any order */
};

enum { JOB_SETS = 8 };

/* Sets of inputs of all ranks, and what must come of them, known from the CPU executor. */
struct job {
    struct world *w;
    char name[96];
    sluice_plan *plan;
    sluice_graph *graph;
    size_t send_bytes, recv_bytes; /* of this rank */
    enum sluice_dtype dtype;
    int sets;
    char *input_dev[JOB_SETS], *want_dev[JOB_SETS];
    char *send_dev, *recv_dev;
};

struct job_options {
    const char *schedule; /* "allreduce_ring.slc" */
    const char *wire;     /* NULL: the schedule's own */
    const char *define;   /* one more; or NULL */
    enum sluice_dtype dtype;
    enum sluice_op op;
    uint64_t count;
    int slices, sets, ranks_per_node;
    enum sluice_mode mode;
    bool in_place, fixed_slots;
    /* Of a set and a rank; NULL: DATA_BELL. */
    enum job_data (*data)(int set, int rank, int ranks);
};

/* False: the schedule does not take that many ranks (nothing to be freed), or something failed. */
bool job_open(struct world *w, const struct job_options *o, struct job *j);
/* Puts the input of a set where the graph reads it, in stream order. */
void job_load(struct job *j, int set, cudaStream_t stream);
/* Counts wrong elements of the result on the device, in stream order; job_wrong reads the count. */
void job_judge(struct job *j, int set, cudaStream_t stream);
uint64_t job_wrong(struct world *w);
/* job_load, a launch, a wait, job_judge: whether the calls went well. */
bool job_run(struct job *j, int set, cudaStream_t stream);
sluice_graph_stats job_stats(const struct job *j);
void job_close(struct job *j);

/* ---- the tests ------------------------------------------------------------------------------ */

typedef void test_function(struct world *w);
test_function test_nccl_launch;
test_function test_nccl_schedules, test_nccl_disabled, test_nccl_disagreement;
test_function test_nccl_overflow, test_nccl_alltoall_without_mark, test_nccl_many_replays,
    test_nccl_two_graphs, test_nccl_flagged, test_nccl_state;
test_function test_nccl_killed_before, test_nccl_killed_during, test_nccl_killed_between;

#endif
