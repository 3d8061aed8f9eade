/*
 * gpu_bench.h: `sluice bench COLLECTIVE`, NCCL and schedules side by side on GPUs.
 *
 *   gpu_bench.c       the command line, the sizes, the processes
 *   gpu_rank.c        a rank: NCCL, buffers; times all contestants in turns
 *   gpu_contestant.c  NCCL's own collective, and a schedule, behind one interface
 *   gpu_judge.c       what results must be, and how many elements are not
 *   gpu_table.c       the table and its JSON
 *   gpu_timeline.c    when each task was at work
 *
 * Contestants take turns within one loop, so that what slows the machine down for a while slows
 * all of them.
 */
#ifndef SLUICE_GPU_BENCH_H
#define SLUICE_GPU_BENCH_H

#include "cli/cli.h"
#include "cli/launch.h"
#include "runtime/nccl_link.h"
#include "runtime/sluice.h"

enum { MAX_CONTESTANTS = 16 };

/* What to measure, the same in all processes. */
struct gpu_bench {
    const struct options *o;
    enum collective collective;
    enum dtype dtype;
    enum redop op;
    int root, iters, warmup;
    const char *const *files;  /* NULL-terminated */
    const char *const *codecs; /* of each file; NULL-terminated, empty: the schedule's own */
    uint64_t first_bytes, last_bytes;
    uint64_t factor;
    const struct input_file *input; /* NULL: made up */
    enum input_kind kind;
    uint64_t seed;
};

/* ---- gpu_rank.c ----------------------------------------------------------------------------- */

/* Where a rank works. Buffers hold `room_bytes` each. */
struct gpu_rank {
    const struct gpu_bench *b;
    const struct launch *l;
    struct nccl nccl;
    struct ncclComm *comm;
    sluice_comm *sluice; /* NULL: no schedule is measured */
    cudaStream_t stream;
    char device[128];
    double *values_dev; /* for barriers and the gathering of times */
    uint64_t room_bytes;
    uint64_t input_bytes; /* largest input of a rank, of the size at hand */
    char *input_dev, *a_dev, *b_dev;
    enum exit_code failure; /* what the process leaves with, should it fail */
};

/* Where one size has its data: out of place and in place. */
struct gpu_place {
    bool possible;
    char *send_dev, *recv_dev;
    uint64_t send_bytes, recv_bytes; /* of this rank */
};

/* Runs in each process. */
int gpu_rank_run(const struct launch *l, void *bench);
/* "cudaMalloc: out of memory" on stderr; false unless the call went well. */
bool gpu_cuda(const struct gpu_rank *r, cudaError_t e, const char *call);
bool gpu_nccl(const struct gpu_rank *r, enum nccl_result e, const char *call);
#define GPU_CUDA(r, call) gpu_cuda(r, call, #call)
#define GPU_NCCL(r, call) gpu_nccl(r, (r)->nccl.call, "nccl" #call)
/* values[i] becomes the largest (smallest) of all ranks'. */
bool gpu_reduce(struct gpu_rank *r, double *values, size_t count, enum nccl_op op);

/* ---- gpu_contestant.c ----------------------------------------------------------------------- */

struct contestant {
    char name[96]; /* "NCCL", "allreduce_twoshot pack" */
    const char *file, *codec;
    sluice_plan *plan; /* NULL: NCCL */
    sluice_graph *graph;
    struct plain plain;
};

/* All that were asked for; NCCL is number 0. */
bool contestant_name(const struct gpu_bench *b, size_t index, struct contestant *c);
bool contestant_start(struct gpu_rank *r, struct contestant *c, const struct plain *plain,
                      const struct gpu_place *p);
bool contestant_bind(struct gpu_rank *r, struct contestant *c, const struct gpu_place *p);
/* Issues one run and, where that belongs to it, waits for what it came to. *host_s: how long the
 * issuing took. */
bool contestant_run(struct gpu_rank *r, struct contestant *c, const struct gpu_place *p,
                    double *host_s);
struct contestant_traffic {
    uint64_t raw_bytes, wire_bytes, overflows; /* of this rank: of a run, of a run, of all runs */
};
bool contestant_traffic(struct contestant *c, struct contestant_traffic *t);
void contestant_end(struct contestant *c);

/* ---- gpu_judge.c ---------------------------------------------------------------------------- */

/* Bytes of a rank's buffers, and where both are when they share memory. */
void plain_places(const struct plain *p, int rank, struct gpu_rank *r, struct gpu_place *out,
                  struct gpu_place *in);
/* Fills input_dev of this rank. */
bool judge_fill(struct gpu_rank *r, uint64_t send_bytes);
/* Elements of recv on any rank that are not what the contestant must give. The bits of a schedule
 * are those of the CPU executor; NCCL adds in an order of its own, and may round as it does. */
bool judge_count(struct gpu_rank *r, struct contestant *c, const struct gpu_place *p,
                 uint64_t *wrong);

/* ---- gpu_table.c ---------------------------------------------------------------------------- */

struct gpu_side {
    bool known, judged;
    double seconds; /* median over iterations of the slowest rank */
    double best_seconds;
    uint64_t wrong;
};
struct gpu_row {
    const char *name, *file, *codec;
    uint64_t bytes, count; /* as nccl-tests has them */
    struct gpu_side out, in;
    uint64_t raw_bytes, wire_bytes, overflows; /* largest over the ranks */
    double host_seconds;
};

struct gpu_table {
    const struct gpu_bench *b;
    struct json json;
    double nccl_seconds; /* of the size at hand */
};
void gpu_table_begin(struct gpu_table *t, const struct gpu_rank *r);
void gpu_table_row(struct gpu_table *t, const struct gpu_row *row, int ranks);
void gpu_table_end(struct gpu_table *t);

/* ---- gpu_timeline.c ------------------------------------------------------------------------- */

/* --timeline: when each task of the last run of each schedule was at work, for a trace viewer. */
bool gpu_timeline_write(const struct gpu_rank *r, const struct contestant *c, size_t count);

#endif
