/* The one internal header of compiler/: flow, values, tasks, and one function a pass.
 *
 *   text -> program (dsl) -> flow -> [values] -> tasks -> an executor
 *
 * Flow is what all ranks do to chunks, in program order. Values are what each chunk then holds, as
 * hash-consed expressions. Tasks are what each rank does, message by message, with memory and
 * rounds. IR.md is the reference, with the text forms. Sections are named after the .c file that
 * owns them.
 */
#ifndef SLUICE_IR_H
#define SLUICE_IR_H

#include "dsl/dsl.h"
#include "dsl/vec.h"
#include "kernels/codec.h"

#define NONE UINT32_MAX /* no index */

/* ---- flow.c ------------------------------------------------------------------------------- */

#define SETUP_MAX_SLICES 1024
#define SETUP_MAX_COUNT  (UINT64_C(1) << 40) /* times ranks and bytes it still fits 64 bits */

/* What a compilation is for. Everything the ranks must agree on. */
struct setup {
    int32_t ranks;           /* N, 1 .. 65536 */
    const int32_t *node_of;  /* [ranks] node of each rank, 0 .. nodes-1; NULL: all on one node */
    const int32_t *local_of; /* [ranks] position within its node; NULL with node_of */
    int32_t nodes;
    enum dtype dtype;
    enum redop redop;
    uint64_t count;  /* elements, as NCCL counts for the collective (LANGUAGE.md, chunk sizes) */
    uint32_t slices; /* 0: the schedule's `slices`, else chosen from the size */
    bool repair;     /* bounded codecs replaced by what they wrap: the plan of DESIGN section 5 */
    /* Learned slots: [encoding * slices + slice], 0 = the codec's default; or NULL. */
    const uint64_t *slot_bytes;
    size_t slot_count;
};

/* A location is one chunk of one buffer on one rank: buffer.first_loc + position of rank in group *
 * chunks + chunk. */
typedef uint32_t loc_id;

struct flow_buffer {
    const char *name;
    enum buffer_role role;
    int32_t chunks;          /* per rank */
    int32_t members;         /* ranks that have it */
    const int32_t *member;   /* [members] ranks, in the order of the group */
    const int32_t *position; /* [ranks] index into member, -1 where the rank has none */
    loc_id first_loc;
    struct span at;
};

struct flow_stage {
    /* "" is stage 0: statements outside any stage. A reopened stage is the same one. */
    const char *name;
};

enum flow_kind { FLOW_COPY, FLOW_REDUCE };

/* One chunk range moved from one rank to one rank (a group destination is one op a member, the
 * source included, in the order of the group). */
struct flow_op {
    enum flow_kind kind : 8;
    /* flow.codecs; 0 is `none`. Already defaulted: a local copy between buffers that said no via
     * has 0. */
    uint16_t codec;
    uint16_t stage;
    uint32_t count;  /* chunks, consecutive at both ends */
    loc_id src, dst; /* of the first chunk */
    int32_t src_rank, dst_rank;
    /* 0: none; ops of one step stand together and share a number > 0, ascending through the
     * program. */
    uint32_t step;
    /* Ops of one message share it; NONE: both ends on one rank. Ascending by first op. */
    uint32_t message;
    uint32_t first_transfer; /* a transfer is one chunk of one op: transfer = first_transfer + i */
    src_pos at;              /* the statement, or the line of the flow text */
    uint32_t context;        /* flow.contexts: loop values that led here; NONE */
};

/* One loop variable's value on the way to an op, or the call of a def, shared between ops; parent
 * is the enclosing one. */
struct flow_context {
    uint32_t parent;
    src_pos call; /* where the def `name` was called; 0: a loop variable, with `value` */
    const char *name;
    int64_t value;
};

/* A codec parameter of the schedule and what it chose, for messages. */
struct flow_parameter {
    const char *name;
    struct span at;
    uint32_t codec; /* flow.codecs; NONE: no operation uses it */
};

/* What must hold at the end besides the collective. */
struct flow_ensure {
    enum { ENSURE_VALUE, ENSURE_IDENTICAL } kind;
    bool is_sum; /* VALUE: sum of terms; else one term: equal to it, codecs allowed on the way */
    loc_id loc;  /* VALUE: the chunk spoken of */
    uint32_t first_term, terms; /* in flow.terms: initial chunks, or (IDENTICAL) all that agree */
    struct span at;
    uint32_t context;
};

struct flow {
    const char *name;
    const struct sources *sources; /* where operations come from, for messages; may be NULL */
    struct vec_guard *guard;       /* counts the large arrays made for this flow, here and in later
                                      passes; NULL: nobody does */
    struct setup setup;
    enum collective collective;
    int32_t root;
    int32_t members;       /* of the collective */
    const int32_t *member; /* [members], ordered */
    struct span collective_at;
    uint32_t slices; /* the schedule's own `slices`, 0: none */
    VEC(struct flow_buffer) buffers;
    VEC(struct codec) codecs; /* distinct but in a repair; [0] is none */
    VEC(struct codec) asked;  /* of a repair: what the schedule says in their place; else empty */
    VEC(struct flow_stage) stages; /* [0] is "" */
    VEC(struct flow_op) ops;
    VEC(struct flow_context) contexts;
    VEC(struct flow_ensure) ensures;
    VEC(loc_id) terms;
    uint32_t locs, transfers, messages, steps;
    const struct flow_parameter *parameters;
    uint32_t parameter_count;

    /* set by `forward` */
    VEC(struct encoding) encodings;
    uint32_t *transfer_encoding; /* [transfers] whose bytes this transfer moves or decodes; NONE: a
                                    plain local move */
};

/* One encoding of one chunk value, made once, on one rank. Every transfer that moves these bytes
 * refers to it. */
struct encoding {
    int32_t rank;
    uint16_t codec;
    uint32_t value, coded; /* before, and after decoding (equal when lossless) */
    uint32_t first_transfer;
};

const struct flow_buffer *flow_buffer_of(const struct flow *f, loc_id loc, int32_t *rank,
                                         int32_t *chunk);
char *flow_loc_name(struct arena *a, const struct flow *f, loc_id loc); /* data[3]@2 */
/* Reports at an op: the statement, then a note with the loop values ("with s = 2, i = 1"). */
void flow_report(struct diag *d, const struct flow *f, const struct flow_op *op, enum severity sev,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The statement, or the line of an IR text, that starts there. */
struct span flow_statement_span(const struct flow *f, src_pos at);
/* Those notes alone. */
void flow_note_context(struct diag *d, const struct flow *f, uint32_t context, struct span at);
const struct flow_op *flow_op_of(const struct flow *f, uint32_t transfer);
/* Elements of an input/output/inout chunk, by LANGUAGE's split. */
uint64_t flow_input_elems(const struct flow *f, loc_id loc);
/* Size class of an input/output/inout chunk: chunks of one class have equal elements whatever the
 * count. Dense from 0. */
uint32_t flow_size_class(const struct flow *f, loc_id loc);
/* The two buffers a collective is about (one, when inout), and how their chunks fall into the
 * blocks of members. False: the declarations do not fit the collective (reported at collective_at)
 * or there is none. */
struct flow_shape {
    const struct flow_buffer *in, *out;
    int32_t block; /* chunks of one rank's block, or of the whole where there are no blocks */
    bool in_big, out_big; /* holds a block of every member */
};
bool flow_shape(const struct flow *f, struct diag *d /* NULL: silent */, struct flow_shape *shape);
/* Sets first_transfer and message of every op, and transfers, messages, steps of the flow. */
void flow_number(struct flow *f);
/* Counted as a VEC is; every entry NONE. */
uint32_t *index_array_new(size_t n, struct vec_guard *g);
void index_array_free(uint32_t *array, size_t n, struct vec_guard *g);
void flow_set_guard(struct flow *f, struct vec_guard *g); /* of a flow that was read from text */
void flow_free(struct flow *f);                           /* what is not in the arena */

/* ---- flow_text.c -------------------------------------------------------------------------- */
void flow_print(const struct flow *f, FILE *out);
struct flow *flow_parse(struct arena *a, struct sources *s, struct diag *d, const char *name,
                        const char *text, size_t bytes);

/* ---- values.c ----------------------------------------------------------------------------- */

enum value_kind {
    VALUE_INPUT, /* what an input or inout chunk held before: a = loc */
    VALUE_SUM, /* reduction of pool[first .. first+n), rounded once; the first two are sorted, they
                  commute */
    VALUE_CODED, /* a lossy codec applied to value a; lossless codecs give no new value */
};

struct value {
    enum value_kind kind : 8;
    uint8_t lossy;   /* lossy encodings on the worst path to a leaf, saturating */
    uint16_t codec;  /* CODED */
    uint32_t a;      /* INPUT: loc; CODED: inner value; SUM: first operand in pool */
    uint32_t n;      /* SUM: operands; CODED: 1 + rank for stateful codecs, else 0 */
    uint32_t leaves; /* inputs summed, with multiplicity, saturating */
    uint32_t size;   /* size class: chunks of one class have equal elements, see flow_size_class */
    uint32_t core;   /* CODED: what is left without all codecs around it; else itself */
    bool divided;    /* SUM under avg: completes the collective's result, divides by leaves */
};

struct values; /* the table: hash-consed, so equal ids mean equal bits */

struct values *values_new(const struct flow *f);
void values_free(struct values *v);
const struct value *value_get(const struct values *v, uint32_t id);
const uint32_t *value_operands(const struct values *v, uint32_t sum);
uint32_t value_input(struct values *v, loc_id loc);
uint32_t value_sum(struct values *v, const uint32_t *operands, uint32_t n); /* n >= 2 */
uint32_t value_coded(struct values *v, uint16_t codec, uint32_t inner, int32_t rank);
/* data[0]@0 + quant(8)(data[0]@1), shortened when long. */
char *value_text(struct arena *a, const struct values *v, uint32_t id);
void value_set_divided(struct values *v, uint32_t sum);
/* Ids are 0 .. count-1; the operands of a value come before it. */
uint32_t values_count(const struct values *v);

/* trace.c: program order execution over values: fills what verify, forward and lower need. Reports
 * LANGUAGE's meaning errors (reading an empty chunk, writing an input, unequal sizes, step
 * conflicts, ...) and returns false then. */
struct flow_trace {
    uint32_t *read;     /* [transfers] the value read at the source (completed) */
    uint32_t *moved;    /* [transfers] the value that arrives, after codec */
    uint32_t *encoding; /* [transfers] or NONE, as forward stores it */
    uint32_t *final;    /* [locs] value at the end, NONE: empty */
    VEC(struct encoding) encodings;
    struct tracer *running; /* what trace.c works with meanwhile */
};
bool values_trace(struct values *v, const struct flow *f, struct diag *d, struct flow_trace *out);
void flow_trace_free(struct flow_trace *t, const struct flow *f);
/* After values_trace, for messages: the transfer that added operand k of a sum; NONE: it was there
 * first. */
uint32_t values_find_addition(struct values *v, const struct flow *f, struct diag *d, uint32_t sum,
                              uint32_t k);

/* ---- tasks.c ------------------------------------------------------------------------------ */

enum task_kind {
    TASK_COMPUTE, /* operands -> one value -> store and/or encode; the printed name follows the
                     shape (ops.def) */
    TASK_SEND,
    TASK_RECV,
};

enum operand_kind {
    OPERAND_CHUNK, /* index = loc; the slice is the task's */
    OPERAND_ACC,   /* index = accumulator of this rank, f32 (f64, ints: own type) */
    OPERAND_PIECE, /* index = piece: encoded bytes in this rank's wire memory */
};
struct operand {
    enum operand_kind kind : 8;
    uint32_t index;
};

/* One encoded slice of one chunk in the wire memory of one rank. A rank that makes and a rank that
 * receives the same bytes have a piece each; both name the same encoding. */
struct piece {
    uint32_t encoding;
    uint16_t slice;
    uint16_t codec;
    int32_t rank;
    uint64_t elems;
    uint64_t bytes;  /* slot: what travels */
    uint64_t offset; /* in the rank's arena; set by slots */
};

struct task {
    enum task_kind kind : 8;
    bool divide; /* avg: this value is divided by `divisor` before it is rounded */
    uint8_t lane;
    uint8_t comm; /* SEND, RECV: 0 between nodes, 1 within a node */
    uint16_t stage;
    uint16_t slice;
    /* COMPUTE: operands in order (1: moved bit by bit; more: reduced in the accumulator type, in
     * this order). SEND: the pieces sent, all OPERAND_PIECE. RECV: none. */
    uint32_t first_operand, operands;
    /* COMPUTE: where the value goes: a chunk (rounded), an accumulator (not rounded), or nowhere
     * but outs. */
    struct operand store; /* index NONE: no store */
    /* COMPUTE: pieces encoded from the (rounded) value. RECV: pieces filled. */
    uint32_t first_out, outs;
    uint32_t message; /* SEND, RECV; else NONE */
    uint32_t round;   /* SEND, RECV, after rounds: group number on comm, same at both ends */
    uint32_t index;   /* and place within the group at each end of the pair */
    uint32_t tick;    /* after rounds: global order that all ranks' lists follow */
    /* After slots: tasks of this rank that must be done before, across lanes. */
    uint32_t first_dep, deps;
    /* Flow op it comes from (first), for messages; NONE. Read from text, flow.ops may be empty. */
    uint32_t op;
    src_pos at;       /* the line of the task text it was read from; 0: it was compiled */
    uint32_t divisor; /* with `divide`: the contributions summed */
};

/* One message of one slice. */
struct message {
    int32_t src, dst;
    uint16_t codec, stage;
    uint8_t comm;
    uint16_t slice;
    uint32_t round, index;
    uint32_t send, recv; /* task indices */
    uint64_t bytes;      /* on the wire: sum of the pieces' slots */
};

struct rank_tasks {
    uint32_t first, n;  /* tasks of this rank: a list whose order is its sequential meaning */
    uint32_t accs;      /* accumulators: numbered 0 .. accs-1, one number never serves two slices */
    uint32_t first_acc; /* in tasks.acc_offsets, after `slots` */
    uint64_t arena_bytes;    /* pieces, accumulators and scratch chunks, after reuse */
    uint64_t unshared_bytes; /* the same without reuse */
    uint64_t chunk_bytes;    /* scratch chunks, also in the arena */
};

/* What is stored in a chunk: the distinct element counts, ascending, in tasks.size_elems. Only
 * scratch has more than one. */
struct chunk_size {
    uint32_t first_elems, elems;
};

struct tasks {
    const struct flow *flow;
    uint32_t slices;       /* 1 before `slice` */
    uint32_t lanes, comms; /* after `lanes` */
    uint32_t rounds[2];    /* groups a comm, after `rounds` */
    VEC(struct rank_tasks) ranks;
    VEC(struct task) tasks;
    VEC(struct operand) operands;
    VEC(uint32_t) outs;
    VEC(uint32_t) deps; /* task indices, of the same rank */
    VEC(struct piece) pieces;
    VEC(struct message) messages;
    /* After `slots`: where each accumulator starts in its rank's arena; see first_acc. */
    VEC(uint64_t) acc_offsets;
    /* After `slots`: [locs] where a scratch chunk starts in its rank's arena, all slices of it in a
     * row; UINT64_MAX: not scratch, or never used. */
    VEC(uint64_t) chunk_offsets;
    /* Elements: slices start at multiples of it within a chunk; 0 before `slice`. */
    uint32_t slice_unit;
    VEC(uint32_t) loc_size; /* [locs] index into sizes; NONE: scratch that nothing is stored in */
    VEC(struct chunk_size) sizes;
    VEC(uint64_t) size_elems;
    /* [sizes][slices + 1] where each slice starts in such a chunk, and the end. */
    VEC(uint64_t) slice_first;
};

/* Room, in elements, for a slice of a chunk, and its first element within the chunk's memory. Exact
 * for input, output and inout chunks; a scratch chunk has, slice by slice, room for the largest of
 * what is stored in it. */
uint64_t tasks_slice_elems(const struct tasks *t, loc_id loc, uint32_t slice, uint64_t *first);
/* Elements that a COMPUTE task works on: those of its pieces if it has any, else of its input,
 * output and inout chunks, else the least room among its scratch chunks. */
uint64_t tasks_elems(const struct tasks *t, const struct task *k);
/* Messages lie in the order of the program, tasks rank by rank: a walk over a list of tasks finds
 * each message far from the last. Asks memory for the message of the task some places behind `i`,
 * which is before `end`. */
static inline void tasks_fetch_message(const struct tasks *t, uint32_t i, uint32_t end) {
    enum { AHEAD = 16 };
    if (end - i <= AHEAD)
        return;
    const struct task *task = &t->tasks.data[i + AHEAD];
    if (task->kind != TASK_COMPUTE && task->message < t->messages.count)
        __builtin_prefetch(&t->messages.data[task->message], 1);
}
void tasks_free(struct tasks *t);
/* Reports about a task (NONE: about none): at its line of the text, or at the statement it comes
 * from, an error with the loop values that led there. */
void tasks_report(struct diag *d, const struct tasks *t, uint32_t task, enum severity sev,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
/* For those that make tasks. A size that already holds `elems`, or from: `size` (NONE: nothing)
 * with `elems` as well; false: there are too many sizes. Then, when sizes, slices or slice_unit
 * have changed, the starts of all slices. */
bool tasks_size_with(struct tasks *t, uint32_t *size, uint64_t elems);
void tasks_cut_sizes(struct tasks *t);
/* loc_size: input, output and inout chunks as LANGUAGE splits them, scratch NONE. */
bool tasks_size_inputs(struct tasks *t);
/* [locs] 1 for chunks whose value at the end counts: all but scratch, and scratch that an ensure
 * speaks of. */
void tasks_mark_finals(const struct tasks *t, uint8_t *final);
/* Fuse and slice come before the passes that give tasks slices, rounds, lanes and places; an error
 * if those have run. */
bool tasks_check_unsliced(const struct tasks *t, struct diag *d, const char *pass);
/* The even split of LANGUAGE: where slice `slice` of elems elements starts; slice == slices is the
 * end. */
uint64_t tasks_slice_start(uint64_t elems, uint32_t slice_unit, uint32_t slices, uint32_t slice);

/* ---- tasks_print.c ------------------------------------------------------------------------ */

/* What a COMPUTE task is called, by its shape. */
enum task_op {
#define OP(name, shape, from, to) TASK_OP_##name,
#include "compiler/ops.def"
};
enum task_op task_op_of(const struct tasks *t, const struct task *k);
const char *task_op_name(enum task_op op);
void tasks_print(const struct tasks *t, int32_t rank /* -1: all */, FILE *out);

/* ---- tasks_text.c ------------------------------------------------------------------------- */
struct tasks *tasks_parse(struct arena *a, struct sources *s, struct diag *d, const char *name,
                          const char *text, size_t bytes);

/* ---- number.c ----------------------------------------------------------------------------- */

#define NUMBER_TEXT_BYTES 48
/* "1,536", "1 rank", "8 ranks", "192 KiB"; into buf, which is returned. */
char *format_integer(char buf[NUMBER_TEXT_BYTES], uint64_t n);
char *format_count(char buf[NUMBER_TEXT_BYTES], uint64_t n, const char *noun);
char *format_bytes(char buf[NUMBER_TEXT_BYTES], uint64_t bytes);

/* ---- pipeline.c --------------------------------------------------------------------------- */

/* One proved property, in words: "every contribution exactly once", "8 ranks x 8 chunks". */
struct property {
    const char *name, *detail;
};

/* One compilation: text in, tasks out. All passes work on it. */
struct compilation {
    struct arena *arena;
    struct sources *sources;
    struct diag *diag;
    struct setup setup;
    const struct program *program;
    struct flow *flow;
    struct values *values; /* made by verify, shared with forward, lower and validate */
    struct flow_trace trace;
    struct tasks *tasks;
    VEC(struct property) proved;
    int32_t emit_rank;     /* -1: all */
    struct prover *prover; /* finals.c's, while it runs */
    /* The memory limit: VEC_GUARD(&array, &c->guard) on large arrays. On overflow the pass does not
     * return, so guarded arrays hang from the compilation (c->flow, c->tasks: set them early). */
    struct vec_guard guard;
};

/* ---- one function a pass; false: errors were reported --------------------------------------- */
bool pass_elaborate(struct compilation *c, const char *schedule,
                    const char *const *defines); /* elaborate.c */
bool pass_verify(struct compilation *c);         /* verify.c */
bool pass_forward(struct compilation *c);        /* forward.c */
/* lower.c: flow -> tasks, one step each: encode, send, recv, accumulate, round. */
bool pass_lower(struct compilation *c);
bool pass_fuse(struct compilation *c);     /* fuse.c */
bool pass_slice(struct compilation *c);    /* slice.c */
bool pass_rounds(struct compilation *c);   /* rounds.c */
bool pass_lanes(struct compilation *c);    /* lanes.c */
bool pass_slots(struct compilation *c);    /* slots.c */
bool pass_validate(struct compilation *c); /* validate.c */

/* In `final` below: the chunk has no elements, so it holds whatever is asked. */
#define VALUE_ANY (NONE - 1)
/* finals.c: verify's proof of the requirements on the value each chunk ends with; validate runs it
 * again on the tasks. What was proved is added to c->proved, under the name given. */
bool verify_finals(struct compilation *c, const uint32_t *final /* [locs] */,
                   const char *what_is_proved);
void prover_free(struct compilation *c);

#endif
