/*
 * Sluice: collective communication that compresses on the way.
 *
 * A schedule says what moves where, in which order and through which codec. Sluice compiles it
 * for a number of ranks, proves it (every contribution exactly once, no deadlock, no race, all
 * replicas with the same bits), and runs it: all ranks inside one process on the CPU, with real
 * data and real codecs, to try a schedule and to trust it; or on GPUs, as a CUDA graph over NCCL,
 * or with all ranks on one GPU.
 *
 * The happy path on the CPU, four calls (that on GPUs is further down):
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
 * function exits, aborts or, unless SLUICE_LOG asks for it, prints. Texts that are returned belong
 * to the plan and live until it is destroyed, unless said otherwise.
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
        2,                     /* the schedule is wrong or cannot be read; see sluice_diagnostics */
    SLUICE_OUT_OF_MEMORY = 3,  /* or more than the limit that was set */
    SLUICE_INTERNAL_ERROR = 4, /* a fault of Sluice itself; see sluice_error, please report it */
    SLUICE_DEVICE_ERROR = 5,   /* a call of CUDA or NCCL failed; the words name it */
    SLUICE_PEER_ERROR = 6,     /* another rank is gone, does not answer, or wants something else */
    SLUICE_NOT_SUPPORTED = 7,  /* no GPU kernels for the codec and type, or no CUDA in the build */
    SLUICE_BUSY = 8            /* a ticket has to be waited for first */
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
    int gpu_only; /* 1: no memory for sluice_run_cpu, which then refuses; for sluice_graph_create */
};

#define SLUICE_OPTIONS_INIT \
    { sizeof(sluice_options), 8, 0, SLUICE_F32, SLUICE_SUM, 0, NULL, NULL, 0, 0, 0, 0 }

/* Sizes the slots of compressed messages by what the runs so far needed, and compiles again if that
 * saves anything or a run overflowed. Worth calling after the first run, and now and then. Results
 * stay the same to the bit. After an error the plan is as it was; SLUICE_INVALID_SCHEDULE says that
 * the files it came from have changed. Texts that the plan returned before, but for the
 * diagnostics, become invalid. */
SLUICE_API sluice_status sluice_adapt(sluice_plan *plan);

/* ---- what codecs remember -------------------------------------------------------------------
 *
 * Codecs such as delta, topk and stochastic quant remember something of each message from one run
 * to the next, at both of its ends. Only runs that ended well count. What they remember is zero in
 * a new plan, with seed 0, and stays in sluice_adapt. It can be saved with a checkpoint and
 * restored in any plan of the same schedule, parameters and setup: the runs that follow have the
 * same bits. A graph has a state of its own. */

/* 0 when no codec of the plan remembers anything. */
SLUICE_API size_t sluice_state_bytes(const sluice_plan *plan);
/* Writes all of it, sluice_state_bytes, to the caller's memory. */
SLUICE_API sluice_status sluice_state_save(const sluice_plan *plan, void *to, size_t bytes);
/* SLUICE_INVALID_ARGUMENT, and nothing changed: it is not what such a plan saved. */
SLUICE_API sluice_status sluice_state_restore(sluice_plan *plan, const void *from, size_t bytes);
/* As in a new plan; rounding draws from the seed. */
SLUICE_API sluice_status sluice_state_reset(sluice_plan *plan, uint64_t seed);

/* ---- on GPUs --------------------------------------------------------------------------------
 *
 * A plan becomes a CUDA graph that is replayed with every step of training:
 *
 *     sluice_comm *world;
 *     sluice_comm_local(&world, 8);                    // 8 ranks on this GPU; or over NCCL
 *     sluice_graph *g;
 *     if (sluice_graph_create(&g, plan, world, send, recv, NULL) != SLUICE_OK)
 *         fputs(sluice_graph_error(g), stderr);
 *     for (...) {
 *         uint64_t ticket;
 *         sluice_graph_launch(g, stream, &ticket);     // asynchronous
 *         ...                                          // whatever leaves send and recv alone
 *         sluice_graph_wait(g, ticket);                // the result is right, in stream order
 *     }
 *     sluice_graph_destroy(g);
 *     sluice_comm_destroy(world);
 *
 * Lossless codecs of bounded size (`pack`, `lz`) send slots whose sizes were fixed when the graph
 * was captured. Data that does not fit is noticed on every rank alike, and what follows is the
 * completion mode:
 *
 *   SLUICE_CHECKED  sluice_graph_wait runs the collective again with raw messages, on all ranks.
 *                   From the launch to the end of the wait the caller leaves send and recv alone
 *                   and enqueues nothing that uses the result.
 *   SLUICE_FLAGGED  a word on the device says so, for a step inside a graph of the caller's: the
 *                   optimizer skips it. recv then holds nothing of use; send, and recv in place,
 *                   what they held before.
 *
 * A plan without such codecs has neither: its launches are asynchronous, and waiting returns at
 * once.
 *
 * Handles may be used by several threads, one call on a handle at a time: a second waits its turn.
 * All ranks of a communicator make the same calls (create, launch, enqueue, wait, rebind, adapt) in
 * the same order. All memory is taken at creation; only a wait waits for the device. Streams are
 * cudaStream_t, device pointers those of the device that was current at creation.
 *
 * SLUICE_LOG=error, warn, info or trace in the environment tells on stderr what happens: failures,
 * memory before it is taken, captures, adaptations, repairs; trace: every run.
 */

struct CUstream_st; /* *: a cudaStream_t */

/* The ranks that graphs connect. */
typedef struct sluice_comm sluice_comm;

/* All ranks in this process on the current device: messages are copies in its memory. For tests,
 * and to try a schedule on one GPU. *comm is NULL after a failure. */
SLUICE_API sluice_status sluice_comm_local(sluice_comm **comm, int ranks);
/* One rank of a communicator of NCCL: this process's, on its device. NCCL 2.18 or newer is looked
 * for in the process, then on the machine; nothing has to be linked. We work on communicators of
 * our own, split from the caller's, so it may be used for other things at any time, and be
 * destroyed first. All its ranks call this together. Ranks on one host are one node; SLUICE_HOSTID
 * in the environment says otherwise.
 *
 * A rank that is gone gives SLUICE_PEER_ERROR on the others: from the calls that wait, when NCCL
 * notices or when timeout_seconds have passed. Then everything that uses the communicator fails,
 * and can be destroyed.
 *
 * SLUICE_DISABLE=1 in the environment, of all ranks alike, makes graphs of the collectives that
 * NCCL knows run NCCL's own instead of the schedule.
 */
struct ncclComm; /* *: an ncclComm_t */
typedef struct sluice_nccl_options {
    size_t struct_bytes;    /* set by SLUICE_NCCL_OPTIONS_INIT */
    double timeout_seconds; /* that a rank may keep the others waiting; 0: for ever */
    char *words;            /* room for what went wrong, or NULL */
    size_t words_bytes;
} sluice_nccl_options;

#define SLUICE_NCCL_OPTIONS_INIT \
    { sizeof(sluice_nccl_options), 60, NULL, 0 }

/* *comm is NULL after a failure. options may be NULL. */
SLUICE_API sluice_status sluice_comm_nccl(sluice_comm **comm, struct ncclComm *nccl,
                                          const sluice_nccl_options *options);

/* Of this process: local: all. */
SLUICE_API int sluice_comm_ranks(const sluice_comm *comm);
SLUICE_API int sluice_comm_first_rank(const sluice_comm *comm);
SLUICE_API int sluice_comm_local_ranks(const sluice_comm *comm);
/* What hierarchical schedules are compiled for, sluice_options.ranks_per_node: ranks on each
 * host, in order; 0: all are on one; -1: hosts have different numbers of ranks, or ranks
 * alternate. */
SLUICE_API int sluice_comm_ranks_per_node(const sluice_comm *comm);
/* What the last failure on the communicator itself was; "" when there was none. */
SLUICE_API const char *sluice_comm_error(const sluice_comm *comm);
/* Waits for the stream as cudaStreamSynchronize does, but not for a rank that is gone: then it ends
 * what waits for that rank and returns SLUICE_PEER_ERROR. For results that nobody has to wait for,
 * those of sluice_graph_wait's repairs, and streams with graphs of the caller's. */
SLUICE_API sluice_status sluice_comm_wait(sluice_comm *comm, struct CUstream_st *stream);
/* Graphs that use it stay valid and keep what they need. NULL is allowed. */
SLUICE_API void sluice_comm_destroy(sluice_comm *comm);

/* A plan on GPUs, with its memory and, captured, its graph. */
typedef struct sluice_graph sluice_graph;

typedef enum sluice_mode { SLUICE_CHECKED = 0, SLUICE_FLAGGED = 1 } sluice_mode;

typedef struct sluice_graph_options {
    size_t struct_bytes; /* set by SLUICE_GRAPH_OPTIONS_INIT */
    sluice_mode mode;
    uint64_t
        device_limit_bytes; /* refuse to take more device memory in this process; 0: no limit */
    int adapt;              /* 1: slots follow what messages needed, see sluice_graph_adapt */
    int flags_in_a_row;     /* flagged runs after which a new capture is due; 0: 8 */
    int timestamps; /* 1: the device notes when each task ran, for statistics and timelines */
    int in_place;   /* 1: keep memory for send and recv that overlap, though the first do not */
} sluice_graph_options;

#define SLUICE_GRAPH_OPTIONS_INIT \
    { sizeof(sluice_graph_options), SLUICE_CHECKED, 0, 1, 0, 0, 0 }

/* What a graph takes, before it is taken. */
typedef struct sluice_graph_sizes {
    uint64_t arena_bytes;     /* wire and scratch memory of the ranks of this process */
    uint64_t snapshot_bytes;  /* copies of send, where it overlaps recv */
    uint64_t workspace_bytes; /* of codecs */
    uint64_t table_bytes;     /* of words */
    uint64_t state_bytes;     /* of codecs that remember, twice */
    uint64_t device_bytes;    /* all of these */
    uint64_t pinned_bytes;    /* host memory */
} sluice_graph_sizes;

/* Compiles as sluice_graph_create does, and takes nothing. send and recv only tell whether they
 * overlap; NULL: they do not. */
SLUICE_API sluice_status sluice_graph_get_sizes(sluice_plan *plan, sluice_comm *comm,
                                                const void *const *send, void *const *recv,
                                                const sluice_graph_options *options,
                                                sluice_graph_sizes *sizes);

/* Takes all memory and captures the graph. send[i] and recv[i], device memory, belong to rank
 * sluice_comm_first_rank + i and hold sluice_send_bytes and sluice_recv_bytes. send is never
 * written but where recv shares its memory. The plan, which may be destroyed afterwards, must have
 * been compiled for as many ranks as the communicator has. options may be NULL.
 *
 * *graph is set in any case, NULL only when an argument is or there is no memory at all; after a
 * failure it holds the words and has to be destroyed all the same. */
SLUICE_API sluice_status sluice_graph_create(sluice_graph **graph, sluice_plan *plan,
                                             sluice_comm *comm, const void *const *send,
                                             void *const *recv,
                                             const sluice_graph_options *options);

/* Replays the graph on the stream, behind the last run of this handle, whatever its stream.
 * Asynchronous, not legal on a stream that is being captured.
 * *ticket (may be NULL in flagged mode) names the run, for sluice_graph_wait. Checked mode with a
 * codec of bounded size: the last ticket must have been waited for, else SLUICE_BUSY. */
SLUICE_API sluice_status sluice_graph_launch(sluice_graph *graph, struct CUstream_st *stream,
                                             uint64_t *ticket);

/* The same run issued task by task, eagerly or, on a stream that is being captured, into the graph
 * of the caller, who must have started the capture in thread-local or relaxed mode where other
 * threads use CUDA. While captured: *ticket is set to 0, there is nothing to wait for, and checked
 * mode with a codec of bounded size is refused (SLUICE_INVALID_ARGUMENT). The caller's graph keeps
 * the memory it uses, also when this handle is destroyed before it; it must not run at the same
 * time as other runs of the handle. */
SLUICE_API sluice_status sluice_graph_enqueue(sluice_graph *graph, struct CUstream_st *stream,
                                              uint64_t *ticket);

/* Waits until it is known what the run came to. If a message did not fit, enqueues the repair on
 * the stream of the launch, which must still exist. After SLUICE_OK, whatever is enqueued on that
 * stream finds the right result. */
SLUICE_API sluice_status sluice_graph_wait(sluice_graph *graph, uint64_t ticket);

/* Other buffers for the launches to come; runs in flight keep theirs. Graphs of the caller keep
 * those of their capture. Overlap of send and recv where there was none at creation needs the
 * in_place option. Not while a ticket has to be waited for (SLUICE_BUSY), nor while this thread
 * captures. */
SLUICE_API sluice_status sluice_graph_rebind(sluice_graph *graph, const void *const *send,
                                             void *const *recv);

/* Sizes the slots by what messages needed up to the last run that was waited for, the same on all
 * ranks, and captures again. Checked mode with `adapt` does it by itself, in the launch after run
 * 1, 2, 4, 8, ... and after any that overflowed. Flagged mode: call it when a new capture is
 * due and no run is in flight; graphs of the caller that were captured before must not be
 * replayed again. */
SLUICE_API sluice_status sluice_graph_adapt(sluice_graph *graph);

/* Flagged mode, device memory: 1 when the result of the last run must not be used, equal on all
 * ranks. Written in stream order, by every run. */
SLUICE_API const uint32_t *sluice_graph_flag(const sluice_graph *graph);
/* Whether a new capture is due, as of the last run that has finished: the same step on all
 * ranks. */
SLUICE_API int sluice_graph_due(sluice_graph *graph);

/* What codecs remember of the runs of this process's ranks: as that of a plan, but on the
 * device and apart from it. These wait for runs in flight (SLUICE_BUSY while a ticket has to be
 * waited for). */
SLUICE_API size_t sluice_graph_state_bytes(const sluice_graph *graph);
SLUICE_API sluice_status sluice_graph_save_state(sluice_graph *graph, void *to, size_t bytes);
SLUICE_API sluice_status sluice_graph_restore_state(sluice_graph *graph, const void *from,
                                                    size_t bytes);
SLUICE_API sluice_status sluice_graph_reset_state(sluice_graph *graph, uint64_t seed);

/* Nodes of the captured graph. */
SLUICE_API size_t sluice_graph_nodes(const sluice_graph *graph);

typedef struct sluice_graph_stats {
    uint64_t runs; /* launched or enqueued here; replays of the caller's graphs that finished */
    uint64_t overflows; /* runs in which a message did not fit */
    uint64_t repairs;   /* of these, done again with raw messages */
    uint64_t adaptations;
    uint64_t raw_bytes;    /* elements that one run sends, times their size; this process */
    uint64_t wire_bytes;   /* what travels for them in one run: whole slots */
    uint64_t needed_bytes; /* what of the slots was in use in the last run known */
    sluice_graph_sizes memory;
    double device_seconds; /* of the last run, with timestamps */
} sluice_graph_stats;

typedef struct sluice_graph_stage {
    const char *name; /* of the stage in the schedule, "" outside any */
    uint64_t messages, raw_bytes, wire_bytes, needed_bytes; /* of one run, as above */
    uint64_t overflows;    /* encodings that did not fit, over all runs waited for */
    double device_seconds; /* from its first task to the end of its last, with timestamps */
} sluice_graph_stage;

/* Readable while runs are in flight. */
SLUICE_API sluice_status sluice_graph_get_stats(sluice_graph *graph, sluice_graph_stats *stats);
SLUICE_API sluice_status sluice_graph_get_stage(sluice_graph *graph, size_t index,
                                                sluice_graph_stage *stage);

/* When a task of the last finished run was at work, with timestamps. */
typedef struct sluice_graph_span {
    const char *stage, *what; /* "decode_reduce_encode", "round" */
    int rank;                 /* -1: messages of all ranks of this process */
    int lane, slice;
    uint32_t round;
    uint64_t begin_ns, end_ns; /* of the device's clock */
} sluice_graph_span;
/* Task 0, 1, ...; SLUICE_INVALID_ARGUMENT when there is no such task or no timestamps. */
SLUICE_API sluice_status sluice_graph_get_span(sluice_graph *graph, size_t index,
                                               sluice_graph_span *span);

/* The last failure, in words, with the call that failed; valid until the next call on the graph. */
SLUICE_API const char *sluice_graph_error(const sluice_graph *graph);

/* Waits for runs in flight, then frees. Any order with plans, communicators and the caller's graphs
 * is allowed, any state of the device too. NULL is allowed. */
SLUICE_API void sluice_graph_destroy(sluice_graph *graph);

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
