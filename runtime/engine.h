/* Private to runtime/: how the CPU executor holds a plan while it runs.
 *
 *   places.c    where the memory of each chunk is
 *   load.c      checks a task list against its memory
 *   steps.c     each rank's list as steps
 *   compute.c   one compute task: decode, reduce, encode
 *   state.c     what codecs remember from run to run
 *   pool.c      threads that wait between runs
 *   executor_cpu.c
 *
 * A rank has two blocks of memory: the arena that `slots` planned (pieces, accumulators,
 * scratch chunks) and `work`, which looks as its recv memory does: output chunks are made
 * there, and inout chunks live there from a copy of send on, until the commit copies what was
 * stored to recv. Input chunks are read where the caller has them.
 */
#ifndef SLUICE_ENGINE_H
#define SLUICE_ENGINE_H

#include "runtime/executor.h"

/* ---- load.c ------------------------------------------------------------------------------- */

enum place_kind { PLACE_NOWHERE, PLACE_SEND, PLACE_WORK, PLACE_ARENA };

/* Where the memory of a chunk is. */
struct place {
    uint8_t kind;
    bool inout, stored; /* stored: some task stores it */
    int32_t rank;
    uint64_t offset_bytes; /* in send, work or arena */
    uint64_t inout_bytes;  /* where inout memory is in send */
    uint64_t bytes;        /* of input, output and inout chunks */
};

/* A compute task, or a round group: all its sends and receives. order[first .. first+n). */
struct step {
    uint32_t first, n;
};

/* Part of inout memory copied from send at the start, or of work copied to recv at the commit. */
struct span_copy {
    uint64_t from_bytes, to_bytes, bytes;
};

struct loaded {
    const struct tasks *t;
    uint32_t *order;      /* [tasks] task indices, rank after rank, groups together */
    struct step *steps;   /* rank after rank */
    uint32_t *first_step; /* [ranks + 1] */
    struct place *places; /* [locs] */
    uint64_t *elems;      /* [tasks] of compute tasks */
    uint16_t
        *piece_stage; /* [pieces] of the first message that sends it: what its encoding is for */
    size_t needs;     /* encodings * slices */
    uint64_t codec_bytes; /* the largest scratch of a codec */
    uint64_t value_bytes; /* and of decoded values, that a worker needs for any task */
    bool can_overflow;
    struct span_copy *begin, *commit;     /* rank after rank */
    uint32_t *first_begin, *first_commit; /* [ranks + 1] */
    uint64_t *send_bytes, *recv_bytes;    /* [ranks] */
};

/* places.c */
bool loaded_places(struct loaded *l); /* fills places, send_bytes, recv_bytes; false: no memory */
void loaded_copies(struct loaded *l); /* begin and commit, when `stored` is known */

/* RUN_OK, or RUN_NO_MEMORY, or RUN_INTERNAL and err says what is wrong. Free it in any case. */
enum run_status loaded_init(struct loaded *l, const struct tasks *t, char *err, size_t err_bytes);
void loaded_free(struct loaded *l);

/* steps.c: order, steps and first_step. */
enum run_status loaded_steps(struct loaded *l, char *err, size_t err_bytes);

/* More operands than any task has: `fuse` makes at most 16. */
#define MAX_OPERANDS 64

/* Scratch is taken in portions, by load.c (how much) and compute.c (where) alike. */
static inline uint64_t scratch_portion(uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}
/* Accumulators are f32 for f32, f16 and bf16, else of the type itself. */
static inline enum dtype acc_dtype(enum dtype t) {
    return t == DTYPE_F16 || t == DTYPE_BF16 ? DTYPE_F32 : t;
}
static inline uint64_t acc_bytes(enum dtype t) {
    return dtype_bytes(acc_dtype(t));
}
/* Whether an operand's piece must be decoded before it can be read. */
static inline bool piece_is_raw(const struct tasks *t, const struct piece *p) {
    return codec_is_none(&t->flow->codecs.data[p->codec]);
}

/* The place of a piece's encoding among needs and learned slots; NO_NUMBER for a piece that is
 * none of the flow's, such as a local copy inside a step. */
#define NO_NUMBER SIZE_MAX
static inline size_t piece_number(const struct tasks *t, const struct piece *p) {
    return p->encoding == NONE ? NO_NUMBER : (size_t)p->encoding * t->slices + p->slice;
}
static inline size_t piece_numbers(const struct tasks *t) {
    size_t numbers = 0;
    for (size_t i = 0; i < t->pieces.count; i++) {
        size_t number = piece_number(t, &t->pieces.data[i]);
        numbers = number != NO_NUMBER && number >= numbers ? number + 1 : numbers;
    }
    return numbers;
}

/* ---- state.c ------------------------------------------------------------------------------ */

/* What one end of one piece remembers. */
struct state_part {
    size_t number; /* piece_number */
    int32_t rank;
    enum codec_side side;
    uint16_t codec; /* flow.codecs */
    uint64_t elems;
    uint64_t first_elem; /* of the piece, within its chunk */
    uint64_t at, bytes;  /* in now and next */
};

struct states {
    struct state_part *parts; /* [count] ascending by number, side, rank */
    size_t count;
    uint64_t bytes;
    uint8_t *now, *next; /* the caller's memory; a run reads now and writes next, all of it */
};

/* Which part the pieces of a plan use, for each side; NONE: they remember nothing. */
struct state_map {
    uint32_t *part[2]; /* [pieces], or NULL when there is no state at all */
};

/* False: no memory. */
bool states_find(struct states *s, const struct tasks *t);
void states_free(struct states *s);
void states_reset(struct states *s, const struct tasks *t, uint64_t seed);
/* The same for the same pieces of the same moves with the same codecs, budgets aside. */
uint64_t states_hash(const struct states *s, const struct tasks *t);
/* RUN_INTERNAL: the plan does not keep just this state. */
enum run_status states_map(const struct states *s, const struct tasks *t, struct state_map *map);
void state_map_free(struct state_map *map);
struct codec_state states_of(const struct states *s, const struct state_map *map, uint32_t piece,
                             enum codec_side side);
/* What a run made counts from now on. */
void states_commit(struct states *s);

/* ---- compute.c ---------------------------------------------------------------------------- */

/* One rank in a run. One worker at a time has it. */
struct rank_run {
    const char *send;
    char *recv, *arena, *work;
    uint32_t next_step;       /* among loaded.steps */
    bool overflowed;          /* the status word */
    const char *fault;        /* a piece could not be decoded: why */
    _Atomic uint32_t pending; /* transfers of the current group to come, and one while it starts */
};

struct worker {
    char *scratch;            /* codec_bytes, then value_bytes */
    struct run_stage *stages; /* what it did in this run */
    double shown;             /* progress: when last */
};

struct run {
    const struct loaded *l;
    struct rank_run *ranks;
    uint8_t *lost_chunks; /* [locs * slices] 1: the value fell to an overflow */
    uint8_t *lost_accs;   /* as acc_offsets */
    uint64_t *needs;      /* [loaded.needs] */
    const struct states *states;
    const struct state_map *map;
};

void compute_task(struct run *r, struct worker *w, struct rank_run *rank, uint32_t task);
double clock_seconds(void); /* goes forward only */

/* ---- executor_cpu.c ----------------------------------------------------------------------- */

void run_stage_add(struct run_stage *to, const struct run_stage *s);

/* ---- pool.c ------------------------------------------------------------------------------- */

/* Threads that run one function together, the caller's among them. */
struct pool;
/* Up to `threads` in all; fewer when some cannot be started. NULL: no memory. */
struct pool *pool_new(int threads, int (*start)(void *thread, void *(*body)(void *), void *arg));
int pool_threads(const struct pool *p);
/* Calls body(ctx, 0) here and body(ctx, 1 ..) on the others; returns when all have. */
void pool_run(struct pool *p, void (*body)(void *ctx, int worker), void *ctx);
void pool_free(struct pool *p);

#endif
