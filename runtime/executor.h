/* What cli/ and tests see of runtime/: plans that run on the CPU with real data.
 *
 *   plan.c          source text -> compiled, with its repair, ready to run again and again
 *   executor_cpu.c  runs all ranks of one compiled plan on threads; consensus, repair, commit;
 *                   keeps what codecs remember
 *   learn.c         slot sizes learned from what encodings needed
 *
 *     struct plan *p = plan_new_file("ring.slc", &compile_options, &run_options);
 *     if (!plan_ready(p)) ...                        // plan_error, plan_compilation(p)->diag
 *     plan_run(p, send, recv);                       // RUN_OK: recv holds the result
 *     plan_adapt(p);                                 // smaller slots for the next run
 *     const struct run_stats *s = plan_stats(p);
 *     plan_free(p);
 *
 * Memory of a rank, as the caller sees it: `send` is the rank's input and inout buffers in the
 * order of declaration, end to end; `recv` its inout and output buffers likewise. Both may be
 * the same memory, or overlap in any way. Private to runtime/: engine.h. Beside it stand
 * reference.h (what the result must be) and inputs.h (values to run on).
 */
#ifndef SLUICE_EXECUTOR_H
#define SLUICE_EXECUTOR_H

#include "compiler/compiler.h"

enum run_status {
    RUN_OK,
    RUN_BAD_ARGUMENT, /* a buffer is missing */
    RUN_BAD_SCHEDULE, /* the compilation reported errors */
    RUN_NO_MEMORY,    /* or more than the limit */
    RUN_INTERNAL, /* a fault of the compiler or the executor: the plan cannot be run as it stands */
    RUN_DEVICE,   /* a call of CUDA or NCCL failed */
    RUN_PEER,     /* another rank is gone, or was started with something else */
    RUN_UNSUPPORTED, /* no GPU kernels for a codec or type */
    RUN_BUSY,        /* a run has to be waited for first */
};

/* ---- statistics --------------------------------------------------------------------------- */

/* What runs moved and spent in one stage. What repairs moved is counted apart. Seconds are summed
 * over threads, and hold the repairs. */
struct run_stage {
    const char *name;      /* "" outside any stage */
    uint64_t messages;     /* one a slice */
    uint64_t raw_bytes;    /* elements in messages x their size */
    uint64_t wire_bytes;   /* slots: what travelled */
    uint64_t needed_bytes; /* what the encodings in them took, or would have taken */
    uint64_t encodings;    /* pieces encoded */
    uint64_t overflows;    /* pieces that did not fit or whose input was lost */
    double encode_seconds, decode_seconds, reduce_seconds, transfer_seconds;
};

struct run_stats {
    uint64_t runs;
    uint64_t repairs;           /* runs that overflowed and were done again by the repair plan */
    uint64_t adaptations;       /* by plan_adapt */
    uint64_t repair_wire_bytes; /* in the repairs */
    double wall_seconds, best_seconds, last_seconds; /* of all runs, of the fastest, of the last */
    uint64_t arena_bytes;                            /* largest arena of a rank, after reuse */
    uint64_t arena_unshared_bytes;                   /* the same without reuse */
    uint64_t total_bytes; /* of everything the executor holds, all ranks */
    int threads;
    uint32_t stages;
    const struct run_stage *stage; /* [stages], lives as long as what was asked */
    struct run_stage total;
};

/* ---- executor_cpu.c ----------------------------------------------------------------------- */

struct run_options {
    int threads;                 /* 0: one a rank, at most the machine's cores */
    uint64_t memory_limit_bytes; /* 0: half of the machine's memory */
    /* Asked once a plan is compiled and before its memory is taken, also for what plan_adapt makes
     * while the plan in use is still there: whether the caller has room for so many bytes and for
     * the data of this flow. False: RUN_NO_MEMORY. NULL: always. */
    bool (*may_take)(void *ctx, const struct flow *f, uint64_t bytes);
    void *may_take_ctx;
    /* Called on the thread that runs, with tasks done, every progress_seconds or so (0: a tenth
     * of a second). NULL: never. */
    void (*progress)(void *ctx, uint64_t done, uint64_t of);
    double progress_seconds;
    void *progress_ctx;
    bool compile_only; /* plans for other executors: none is made, plan_run refuses */
    /* Starts a worker as pthread_create does; tests pass one that fails. NULL: pthread_create. */
    int (*start_thread)(void *thread, void *(*body)(void *), void *arg);
};

struct executor;

/* Elements of a rank's send and recv memory. */
uint64_t io_send_elems(const struct flow *f, int32_t rank);
uint64_t io_recv_elems(const struct flow *f, int32_t rank);

/* Whether some piece of the plan may not fit its slot, so that it needs a repair plan beside
 * it. */
bool tasks_can_overflow(const struct tasks *t);

/* Makes ready to run `t` (all ranks, after slots), and `repair` where t can overflow. Both must
 * outlive the executor. All memory is taken here. NULL: *status and err say why. */
struct executor *executor_new(const struct tasks *t, const struct tasks *repair,
                              const struct run_options *o, enum run_status *status, char *err,
                              size_t err_bytes);
void executor_free(struct executor *e);

/* Runs all ranks. send and recv have a pointer a rank (NULL where it has no elements). What
 * recv holds is changed only on RUN_OK; send is never written, but where it shares memory with
 * recv. Not to be called by two threads at a time on one executor. */
enum run_status executor_run(struct executor *e, const void *const *send, void *const *recv);
const char *executor_error(const struct executor *e);             /* of the last run; "" */
const struct run_stats *executor_stats(const struct executor *e); /* of the last run */
/* [encodings * slices] bytes that each piece needed in the last run, 0: not known. */
const uint64_t *executor_needs(const struct executor *e, size_t *count);

/* What its codecs remember of the runs so far, all ranks, in one block of bytes: 0 when they
 * remember nothing. Only runs that ended well count. Reset: as made, with another seed. */
uint64_t executor_state_bytes(const struct executor *e);
void executor_state_save(const struct executor *e, void *to);
/* False: not the state of such a plan; nothing changed. */
bool executor_state_restore(struct executor *e, const void *from, uint64_t bytes);
/* From the executor of another compilation; false likewise. */
bool executor_state_move(struct executor *to, const struct executor *from);
void executor_state_reset(struct executor *e, uint64_t seed);

/* ---- learn.c ------------------------------------------------------------------------------ */

/* Remembers what each piece of bounded size needed, over runs and re-compilations of one
 * schedule with one setup. A slot is the largest need of the last LEARN_WINDOW runs or more,
 * and a margin: 1/64 of it and 128 bytes, up to a multiple of 64; never more than the worst
 * case. */
struct learned;
#define LEARN_WINDOW 8

struct learned *learned_new(const struct tasks *t); /* NULL: no memory */
void learned_free(struct learned *l);
void learned_observe(struct learned *l, const uint64_t *needs, size_t count);
/* setup.slot_bytes for the next compilation, valid until the next call; NULL with *count 0
 * before any observation. */
const uint64_t *learned_slots(struct learned *l, size_t *count);

/* ---- plan.c ------------------------------------------------------------------------------- */

struct plan;

/* Compiles, compiles the repair when some piece can overflow, and makes ready to run. Options are
 * copied. NULL only when there is no memory at all. */
struct plan *plan_new_file(const char *path, const struct compile_options *c,
                           const struct run_options *r);
struct plan *plan_new_text(const char *name, const char *text, size_t bytes,
                           const struct compile_options *c, const struct run_options *r);
bool plan_ready(const struct plan *p); /* compiled, and unless compile_only, able to run */
enum run_status plan_status(const struct plan *p); /* of making it, or of the last run */
const char *plan_error(const struct plan *p); /* in words; "" when all is well or diag has them */
/* The one in use; NULL: no memory. */
const struct compilation *plan_compilation(const struct plan *p);
/* Compiles the schedule of a plan that is ready once more, for this setup, into what moves the same
 * chunks. RUN_BAD_SCHEDULE: its files have changed. *c is the caller's in any case, or NULL. */
enum run_status plan_compile_again(const struct plan *p, const struct setup *setup,
                                   struct compilation **c);
enum run_status plan_run(struct plan *p, const void *const *send, void *const *recv);
/* Compiles again with slots learned from the runs so far, when that saves or a slot overflowed.
 * Results never change. A failure leaves the plan as it was. */
enum run_status plan_adapt(struct plan *p);
/* As executor_state_...; what was saved fits every plan of this schedule and setup. */
uint64_t plan_state_bytes(const struct plan *p);
void plan_state_save(const struct plan *p, void *to);
bool plan_state_restore(struct plan *p, const void *from, uint64_t bytes);
void plan_state_reset(struct plan *p, uint64_t seed);
const struct run_stats *plan_stats(const struct plan *p); /* of all runs, over adaptations */
const struct run_stats *plan_last(const struct plan *p);  /* of the last run */
void plan_free(struct plan *p);

#endif
