/* Inside the elaborator: a schedule's tree with every name resolved to a slot, and what runs it.
 *
 *   scope.c         names in view: what is declared, what clashes, what was meant
 *   groups.c        ordered lists of ranks, each distinct list once
 *   resolve.c       expression trees -> struct code: typed, names are slots
 *   resolve_stmt.c  statements -> struct action
 *   resolve_program.c  lets, defs, parameters with their defines; recursion
 *   eval.c          code -> integers; errors with the loop values that led there
 *   eval_group.c    code -> groups and codecs
 *   unroll.c        loops and limits
 *   emit.c          buffers and stages; copy and reduce -> flow operations
 *   promise.c       collective and ensure
 *   elaborate.c     the pass: resolves, then runs the actions
 *
 * Everything static is checked once by resolve, so a mistake is found even where N makes the loops
 * empty; what depends on values is checked when it is evaluated, and reported once a statement.
 */
#ifndef SLUICE_EVAL_H
#define SLUICE_EVAL_H

#include "compiler/ir.h"

/* Limits: beyond them a schedule is refused, with the loop values that led there. */
#define ELABORATE_MAX_OPS       (UINT64_C(1) << 23) /* flow operations */
#define ELABORATE_MAX_TRANSFERS (UINT64_C(1) << 26) /* chunks moved */
#define ELABORATE_MAX_WORK      (UINT64_C(1) << 27) /* iterations and statements, empty ones too */
#define ELABORATE_MAX_LOCS      (UINT64_C(1) << 27) /* chunks of all buffers on all ranks */
#define ELABORATE_MAX_ENSURES   (UINT64_C(1) << 23) /* results that `ensure` speaks of */
#define ELABORATE_MAX_TERMS     (UINT64_C(1) << 26) /* chunks that they are made of */
#define ELABORATE_MAX_MEMBERS   (UINT64_C(1) << 27) /* ranks in all distinct groups */
#define ELABORATE_MAX_CONTEXTS  (UINT64_C(1) << 26) /* loop values kept for messages */
#define ELABORATE_MAX_NAMES     1024                /* buffers, stages, distinct codecs */
#define ELABORATE_MAX_DEPTH     512                 /* blocks and calls within one another */
#define REQUIRE_MAX_WATCHED     6
#define FUNCTION_MAX_ARITY      16
#define EXPR_MAX_HEIGHT         2000    /* operations within one another, functions counted */
#define EXPR_MAX_WEIGHT         1000000 /* operations, functions counted at each call */

enum type { TYPE_ANY, TYPE_INT, TYPE_GROUP, TYPE_CODEC, TYPE_BUFFER };

/* ---- groups.c ----------------------------------------------------------------------------- */

struct group {
    int32_t size;
    int32_t first, stride; /* member[i] == first + i * stride, when regular */
    bool regular;
    const int32_t *member;
    const int32_t *by_rank; /* positions in ascending order of their ranks; NULL when regular */
    uint32_t hash;
};

struct groups; /* the table: equal lists are one pointer */

struct groups *groups_new(struct arena *a, const struct setup *s);
/* A list is built in place, then looked up. start: room for one member a rank. */
int32_t *groups_start(struct groups *t);
const struct group *groups_find(struct groups *t,
                                int32_t size);          /* of the list just built; NULL: too many */
int32_t group_pos(const struct group *g, int64_t rank); /* -1 when the rank is not in it */
int32_t groups_node_count(const struct groups *t);
const struct group *groups_on_node(struct groups *t, int64_t node); /* NULL: no such node */
const struct group *groups_rail(struct groups *t, int64_t local);   /* NULL: no node is so large */
/* g + h and g - h. plus: NULL and the first rank of h that g has too. */
const struct group *groups_plus(struct groups *t, const struct group *g, const struct group *h,
                                int32_t *common);
const struct group *groups_minus(struct groups *t, const struct group *g, const struct group *h);
uint64_t groups_members(const struct groups *t); /* in all groups together */

/* ---- resolved expressions ----------------------------------------------------------------- */

union datum {
    int64_t integer;
    const struct group *group;
    uint32_t codec;  /* index into eval.codecs */
    uint32_t buffer; /* index into flow.buffers */
};

enum code_op {
    CODE_CONST,
    CODE_LOCAL,
    CODE_GLOBAL,
    CODE_COND,
    CODE_CALL,
    CODE_RANGE,
    /* integers */
    CODE_NEG,
    CODE_NOT,
    CODE_COMPLEMENT,
    CODE_MUL,
    CODE_DIV,
    CODE_MOD,
    CODE_ADD,
    CODE_SUB,
    CODE_SHL,
    CODE_SHR,
    CODE_LT,
    CODE_LE,
    CODE_GT,
    CODE_GE,
    CODE_EQ,
    CODE_NE,
    CODE_BITAND,
    CODE_BITOR,
    CODE_AND,
    CODE_OR,
    CODE_INDEX,
    /* groups */
    CODE_PLUS,
    CODE_MINUS,
    /* codecs */
    CODE_CODEC,
    CODE_COMPOSE,
#define BUILTIN(OP, ...) CODE_##OP,
#include "compiler/builtins.def"
};

struct function; /* let slot(m, l) = ...; */
struct codec_call;

struct code {
    enum code_op op;
    enum type type;
    struct span span;
    uint32_t slot;    /* LOCAL, GLOBAL */
    uint32_t depends; /* 1 + the highest local slot that it reads; 0: the same wherever it is
                         evaluated */
    uint32_t weight;  /* operations to evaluate it, at most */
    uint32_t height;
    enum step_kind step_kind; /* RANGE: a .. b, step c */
    union datum value;        /* CONST */
    struct code *a, *b, *c;
    const struct function *function; /* CALL: arguments start at a */
    struct codec_call *codec;        /* CODEC: one stage with its arguments */
    struct code *next;               /* argument list */
    /* Groups: what it was for these operands the last time. */
    struct {
        union datum key[3];
        const struct group *group;
    } * last;
};

struct function {
    const char *name;
    uint32_t arity, first_slot; /* the formals are slots of the frame it was declared in */
    bool global;
    struct code *body;
    struct span at;
};

struct codec_call {
    const char *name;
    uint32_t count;
    struct codec_arg *args;
    struct code **number; /* [count] NULL: args[i] is constant */
    uint32_t made;        /* NONE, or the codec that the numbers of the last time gave */
};

/* ---- resolved statements ------------------------------------------------------------------ */

struct loop_var {
    const char *name;
    struct span at;
    uint32_t slot;
    struct code *domain; /* CODE_RANGE or a group */
};
struct loop {
    uint32_t count; /* of generators */
    struct loop_var *vars;
    struct code *where; /* NULL: none */
};

struct place { /* buf[index +: count]@rank */
    struct span span;
    struct code *buffer, *index, *count, *rank; /* count NULL: 1 */
};

struct watch { /* shown when a requirement fails */
    const char *name;
    struct code *value;
};

struct argument {
    struct code *value;
    uint32_t slot;    /* of the formal, in the callee's frame */
    union datum held; /* until all arguments are evaluated */
};

struct routine { /* a def, or the schedule */
    const char *name;
    struct span at;
    const struct formal *formals;
    uint32_t slots;
    union datum *frame; /* [slots]: no recursion, so each is active at most once */
    struct action *body;
    struct action *calls; /* all calls within it, linked by call.sibling */
    enum { ROUTINE_NEW, ROUTINE_OPEN, ROUTINE_DONE } search; /* for recursion */
};

struct action {
    enum stmt_kind kind;
    bool reported; /* an error of this statement was reported: once is enough */
    uint32_t weight;
    struct span span;
    struct action *next;
    union {
        struct {
            enum buffer_role role;
            const char *name;
            struct span name_span;
            uint32_t slot;
            struct code *chunks, *group;
        } buffer;
        struct {
            struct place src, dst;
            struct code *via;
        } move;
        struct action *body; /* STEP */
        struct {
            const char *name;
            struct span name_span;
            uint32_t index; /* flow.stages; NONE: not entered yet */
            struct code *via;
            struct action *body;
        } stage;
        struct {
            struct routine *routine;
            struct span name_span;
            uint32_t arg_count;
            struct argument *args;
            struct code *via;
            struct action *sibling;
        } call;
        struct {
            uint32_t slot;
            struct code *value;
            bool global;
        } let;
        struct {
            struct code *cond;
            struct action *yes, *no;
        } if_;
        struct {
            struct loop loop;
            struct action *body;
        } for_;
        struct {
            struct code *cond;
            const char *message;
            uint32_t watched; /* integers that the condition speaks of */
            struct watch *watch;
        } require;
        struct {
            enum collective kind;
            struct code *root, *group;
        } collective;
        struct {
            bool identical, is_sum;
            struct place left, term;
            struct loop outer, sum;
        } ensure;
        struct code *slices;
    };
};

/* ---- scope.c ------------------------------------------------------------------------------ */

enum symbol_kind { SYMBOL_VARIABLE, SYMBOL_FUNCTION, SYMBOL_DEF };

struct symbol {
    enum symbol_kind kind;
    enum type type;
    bool global;
    uint32_t slot;
    const char *name;
    struct span at;
    const struct function *function;
    struct routine *routine;
    struct symbol *older; /* declared before it */
    bool visible;
    uint32_t hash;
};

struct scope;

struct scope *scope_new(struct arena *a, struct diag *d);
struct symbol *scope_mark(const struct scope *s);
void scope_close(struct scope *s, struct symbol *mark); /* what was declared since is out of view */
/* Declares a name; reports a clash and returns NULL. */
struct symbol *scope_declare(struct scope *s, enum symbol_kind kind, const char *name,
                             struct span at);
struct symbol *scope_find(const struct scope *s, const char *name);
/* "; did you mean 'x'?" for an unknown name used as one of these, or "". */
enum wanted_name { WANTED_VALUE, WANTED_CODEC, WANTED_FUNCTION, WANTED_DEF, WANTED_BUFFER };
const char *scope_suggest(const struct scope *s, const char *name, enum wanted_name wanted);

/* ---- resolve.c ---------------------------------------------------------------------------- */

struct eval;

struct resolver {
    struct arena *arena;
    struct diag *diag;
    struct scope *scope;
    struct eval *eval; /* for constants and codecs */
    const struct setup *setup;
    struct routine *routine;   /* whose body this is; NULL at the top of a file */
    uint32_t next_slot, slots; /* of its frame: next free, most in use */
    uint32_t depth, nesting;   /* of expressions, of blocks */
    const char *defining;      /* the let function whose body this is */
    bool in_schedule;          /* directly in the body of the schedule */
    bool in_step;
    const struct stmt *collective, *slices, *ensure; /* seen */
    const struct routine *cycle;                     /* of defs, being reported: ends here */
};

/* Messages of the resolver. */
void resolve_error(struct resolver *r, struct span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* NULL after an error. TYPE_ANY takes an integer, a group or a codec. */
struct code *resolve_expr(struct resolver *r, const struct expr *x, enum type want);
struct code *resolve_domain(struct resolver *r, const struct expr *x); /* of a generator */
const char *type_name(enum type t);                                    /* "a group" */

/* ---- resolve_stmt.c ----------------------------------------------------------------------- */

struct action *resolve_list(struct resolver *r,
                            const struct stmt *s); /* in the scope that is open */
struct action *resolve_block(struct resolver *r, const struct stmt *s); /* in one of its own */
uint32_t resolve_slot(struct resolver *r);
/* Declares a variable, returns its slot. TYPE_ANY: its value had an error, uses of it are silent.
 */
uint32_t resolve_variable(struct resolver *r, const char *name, struct span at, enum type type);
enum type resolve_formal_type(enum formal_kind kind);

/* ---- resolve_program.c -------------------------------------------------------------------- */

struct resolved {
    struct action *globals; /* top-level lets */
    uint32_t global_slots;
    struct routine *schedule;
};
/* The schedule of that name, or (NULL) the only one; NULL after an error. */
const struct schedule *resolve_choice(struct resolver *r, const struct program *p,
                                      const char *name);
/* NULL after errors. defines: "name=value", NULL-terminated, or NULL. */
struct resolved *resolve_program(struct resolver *r, struct sources *sources,
                                 const struct program *p, const struct schedule *s,
                                 const char *const *defines);

/* ---- eval.c ------------------------------------------------------------------------------- */

/* Where evaluation is: the loops and calls around it. */
struct frame_note {
    const char *name;
    int64_t value;
    struct span at;
    bool is_call;
    uint32_t context; /* in flow.contexts once an operation needed it; NONE */
};

struct eval_codec {
    struct codec codec;
    uint32_t index; /* into flow.codecs; NONE: no operation uses it yet */
};

struct eval {
    struct arena *arena;
    struct diag *diag;
    struct flow *flow;
    const struct setup *setup;
    struct groups *groups;
    struct eval_codec *codecs; /* distinct, [0] none */
    uint32_t codec_count, codec_room;
    union datum *frame, *global;
    bool failed; /* this statement failed: what follows in it is not worth a message */
    bool quiet;  /* trying: messages are dropped */
    bool stop;   /* a limit or a failed require: nothing more is evaluated */
    bool fresh;  /* the last failure was reported: its notes are wanted */
    bool wrong;  /* some error was reported: no operations are kept */
    struct action *statement;
    struct frame_note *notes; /* [note_count] of at most ELABORATE_MAX_DEPTH */
    uint32_t note_count;
    struct code **functions; /* calls of let functions being evaluated, at most EXPR_MAX_HEIGHT */
    uint32_t function_count;
    uint64_t work;
    uint32_t depth; /* of blocks, calls and loops */
    /* What statements inherit. */
    uint32_t call_via, stage_via; /* codecs; NONE */
    uint16_t stage;
    bool in_step;
    uint32_t step; /* of the operations of this step, 0: none yet */
};

struct eval *eval_new(struct arena *a, struct diag *d, struct flow *f);
int64_t eval_int(struct eval *e, struct code *c);
const struct group *eval_group(struct eval *e, struct code *c);
uint32_t eval_codec(struct eval *e, struct code *c);
union datum eval_any(struct eval *e, struct code *c);
uint32_t eval_intern_codec(struct eval *e, const struct codec *c);

struct range {
    int64_t at, to, step;
    enum step_kind kind;
};
bool eval_check_rank(struct eval *e, struct span at,
                     int64_t rank); /* false: no such rank, reported */
bool eval_range(struct eval *e, struct code *c, struct range *out); /* false: failed */
bool range_next(struct range *r);                                   /* moves on; false at the end */
bool range_empty(const struct range *r);
uint64_t range_count(struct range r);

/* An error of the statement being run: reported with its loop values unless one was already. */
void eval_fail(struct eval *e, struct span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A note to the error just reported; dropped when that one was. */
void eval_note(struct eval *e, struct span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- unroll.c ----------------------------------------------------------------------------- */

/* Counts work; past the limit reports and returns false. */
bool unroll_charge(struct eval *e, struct span at, uint64_t work);
/* Calls body for each combination of the variables for which `where` holds. */
void unroll_loop(struct eval *e, struct action *a, const struct loop *l,
                 void (*body)(struct eval *e, void *ctx), void *ctx);
/* One level deeper; too deep: reports and returns false. unroll_leave either way. */
bool unroll_enter(struct eval *e, struct span at);
void unroll_leave(struct eval *e);
/* Refuses a loop nest that is certainly beyond the limits before it is run. */
bool unroll_allowed(struct eval *e, const struct action *a);

/* ---- emit.c ------------------------------------------------------------------------------- */

void emit_buffer(struct eval *e, const struct action *a);
void emit_stage(struct eval *e, struct action *a); /* e->stage becomes this one */
void emit_move(struct eval *e, struct action *a);
void emit_step_begin(struct eval *e);
void emit_step_end(struct eval *e);
uint32_t emit_context(struct eval *e); /* flow.contexts of where we are */
/* The first of count chunks at a place; NONE after an error. */
loc_id emit_loc(struct eval *e, const struct place *p, uint32_t buffer, int64_t index,
                int64_t count, int64_t rank);

/* ---- promise.c ---------------------------------------------------------------------------- */

void promise_collective(struct eval *e, const struct action *a);
void promise_ensure(struct eval *e, struct action *a);
/* At the end: whether buffers and collective fit together. */
void promise_check(struct eval *e);

#endif
