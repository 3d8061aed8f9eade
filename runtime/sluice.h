/*
 * Sluice: collective communication that compresses on the way.
 *
 * A schedule says what moves where, in which order and through which codec. Sluice compiles it
 * for a number of ranks, proves it (every contribution exactly once, no deadlock, no race, all
 * replicas with the same bits), and runs it. This release runs all ranks of a schedule inside
 * one process, on the CPU, with real data and real codecs: to try a schedule, to see what it
 * moves, and to trust it.
 *
 * The happy path, four calls:
 *
 *     sluice_options o = SLUICE_OPTIONS_INIT;
 *     o.ranks = 8, o.dtype = SLUICE_BF16, o.count = 1 << 20;
 *     sluice_plan *plan;
 *     if (sluice_compile_file(&plan, "allreduce_ring.slc", &o) != SLUICE_OK)
 *         fputs(sluice_diagnostics(plan), stderr);
 *     sluice_run_cpu(plan, send, recv);
 *     sluice_stats s;
 *     sluice_get_stats(plan, &s);
 *     sluice_destroy(plan);
 *
 * A plan is used by one thread at a time; different plans are independent of each other. No
 * function exits, aborts or prints. Texts that are returned belong to the plan and live until
 * it is destroyed, unless said otherwise.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

/* ---- the happy path -------------------------------------------------------------------------
 * */

typedef enum sluice_status {
    SLUICE_OK = 0,
    SLUICE_INVALID_ARGUMENT = 1, /* a NULL pointer, or an option out of its range */
    SLUICE_INVALID_SCHEDULE =
        2,                    /* the schedule is wrong or cannot be read; see sluice_diagnostics */
    SLUICE_OUT_OF_MEMORY = 3, /* or more than the limit that was set */
    SLUICE_INTERNAL_ERROR = 4 /* a fault of Sluice itself; see sluice_error, and please report it */
} sluice_status;

/* A compiled schedule, ready to run again and again. */
typedef struct sluice_plan sluice_plan;

typedef struct sluice_options sluice_options;

/* Compiles the only schedule of a text, or the one that options name. `name` is what messages
 * call the text, and where its imports are relative to. Everything that is passed is copied.
 *
 * *plan is set in any case, to NULL only on SLUICE_INVALID_ARGUMENT for `plan` or `options`
 * themselves and when there is no memory at all. After SLUICE_INVALID_SCHEDULE it holds the
 * diagnostics, cannot be run, and has to be destroyed all the same. All memory that runs need
 * is taken here. */
SLUICE_API sluice_status sluice_compile_text(sluice_plan **plan, const char *name, const char *text,
                                             size_t bytes, const sluice_options *options);

/* The same for a file. */
SLUICE_API sluice_status sluice_compile_file(sluice_plan **plan, const char *path,
                                             const sluice_options *options);

/* Runs all ranks of the plan on the CPU and returns when the result is there.
 *
 * send[r] and recv[r], host memory of the caller, belong to rank r and hold sluice_send_bytes and
 * sluice_recv_bytes: send the rank's input and inout buffers in the order of their declaration,
 * end to end, recv its inout and output buffers likewise. A pointer may be NULL where that is 0
 * bytes. Equal pointers run in place; overlap of any kind is allowed.
 *
 * send is never written (unless recv shares its memory). recv is written only when the run
 * succeeded: after any error it is as it was. Output chunks that the schedule leaves empty are
 * not touched. The result does not depend on the number of threads, nor on whether a message
 * overflowed its slot: such a run is repaired before this returns, and counted in the
 * statistics. Allocates nothing. */
SLUICE_API sluice_status sluice_run_cpu(sluice_plan *plan, const void *const *send,
                                        void *const *recv);

/* Frees the plan. NULL is allowed. */
SLUICE_API void sluice_destroy(sluice_plan *plan);

/* ---- options --------------------------------------------------------------------------------
 * */

typedef enum sluice_dtype {
    SLUICE_F32 = 0,
    SLUICE_F16 = 1,
    SLUICE_BF16 = 2,
    SLUICE_F64 = 3,
    SLUICE_I32 = 4,
    SLUICE_I64 = 5,
    SLUICE_U8 = 6
} sluice_dtype;

typedef enum sluice_op {
    SLUICE_SUM = 0,
    SLUICE_AVG = 1, /* the sum divided by the number of contributions, before it is rounded */
    SLUICE_MIN = 2,
    SLUICE_MAX = 3
} sluice_op;

struct sluice_options {
    size_t struct_bytes; /* set by SLUICE_OPTIONS_INIT */
    int ranks;           /* 1 .. 65536 */
    int ranks_per_node;  /* 0: all on one node; else it divides ranks */
    sluice_dtype dtype;
    sluice_op op;
    uint64_t count;              /* elements, as NCCL counts them for the collective; may be 0 */
    const char *schedule;        /* NULL: the only one in the text */
    const char *const *defines;  /* parameters, "name=value", NULL-terminated; or NULL */
    int slices;                  /* pipeline slices; 0: the schedule's, else chosen from the size */
    int threads;                 /* 0: one a rank, up to the cores of the machine */
    uint64_t memory_limit_bytes; /* for running; 0: half of the machine's */
};

#define SLUICE_OPTIONS_INIT \
    { sizeof(sluice_options), 8, 0, SLUICE_F32, SLUICE_SUM, 0, NULL, NULL, 0, 0, 0 }

/* Sizes the slots of compressed messages by what the runs so far needed, and compiles again if that
 * saves anything or a run overflowed. Worth calling after the first run, and now and then. Results
 * stay the same to the bit. After an error the plan is as it was; SLUICE_INVALID_SCHEDULE says that
 * the files it came from have changed. Texts that the plan returned before, but for the
 * diagnostics, become invalid. */
SLUICE_API sluice_status sluice_adapt(sluice_plan *plan);

/* ---- introspection --------------------------------------------------------------------------
 * */

/* "0.1.0"; static. */
SLUICE_API const char *sluice_version(void);
/* "out of memory"; static, never NULL. */
SLUICE_API const char *sluice_status_text(sluice_status status);

/* What the compiler had to say: errors, warnings and notes with their places, as a terminal
 * shows them. "" when there was nothing, or plan is NULL. */
SLUICE_API const char *sluice_diagnostics(const sluice_plan *plan);
/* The last failure of this plan other than the diagnostics, in words, until the next call on
 * the plan; "" when there was none. */
SLUICE_API const char *sluice_error(const sluice_plan *plan);

/* What was proved: property 0, 1, ... as a name ("exactly once") and a detail ("8 ranks x 8
 * chunks"). Returns 1, or 0 when there is no such property. name and detail may be NULL. */
SLUICE_API int sluice_property(const sluice_plan *plan, size_t index, const char **name,
                               const char **detail);

/* Bytes of a rank's memory in sluice_run_cpu; 0 for a rank that does not exist. */
SLUICE_API size_t sluice_send_bytes(const sluice_plan *plan, int rank);
SLUICE_API size_t sluice_recv_bytes(const sluice_plan *plan, int rank);

/* What the runs so far moved: all of them together. wire / raw is the compression ratio. */
typedef struct sluice_stage_stats {
    const char *name; /* of the stage in the schedule, "" outside any */
    uint64_t messages;
    uint64_t raw_bytes;    /* elements that were sent, times their size */
    uint64_t wire_bytes;   /* what travelled for them: whole slots */
    uint64_t needed_bytes; /* what of the slots was in use */
    uint64_t overflows;    /* encodings that did not fit their slot, or were made of lost data */
    double encode_seconds, decode_seconds, reduce_seconds, transfer_seconds; /* over all threads */
} sluice_stage_stats;

typedef struct sluice_stats {
    uint64_t runs;
    uint64_t repairs;           /* runs that overflowed and were done again uncompressed */
    uint64_t repair_wire_bytes; /* in these, not counted in total */
    double wall_seconds;        /* of all runs */
    double best_seconds;        /* of the fastest */
    uint64_t arena_bytes;       /* largest wire and scratch memory of a rank */
    uint64_t memory_bytes;      /* that the plan holds for running, all ranks */
    int threads;
    sluice_stage_stats total;
} sluice_stats;

/* SLUICE_INVALID_ARGUMENT for a plan that cannot run. */
SLUICE_API sluice_status sluice_get_stats(const sluice_plan *plan, sluice_stats *stats);
/* Of stage 0, 1, ...; SLUICE_INVALID_ARGUMENT when there is no such stage. */
SLUICE_API sluice_status sluice_get_stage_stats(const sluice_plan *plan, size_t index,
                                                sluice_stage_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
