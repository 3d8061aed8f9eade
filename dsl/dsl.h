/* The one internal header of dsl/: source text in, a checked syntax tree and located messages out.
 *
 *   arena.c    one arena per compilation; everything below lives in it
 *   source.c   the files of a compilation, one position space, line and column
 *   diag.c     messages: collected, then printed as clang prints them
 *   lexer.l    text -> tokens, nothing else
 *   grammar.y  tokens -> tree, an action is one constructor call
 *   syntax.c   the wording of syntax errors
 *   ast.c      constructors; ast_print.c the printed form of the tree
 *   parse.c    the driver: a file and its imports -> struct program
 *
 * Private to dsl/: parser.h. Growable arrays: vec.h.
 *
 * Knows nothing of ranks, codecs or CUDA: names are resolved by the compiler's elaborator.
 */
#ifndef SLUICE_DSL_H
#define SLUICE_DSL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- arena.c ------------------------------------------------------------------------------ */

/* Bump allocator. Memory is zeroed and freed all at once. */
struct arena;

struct arena *arena_new(void); /* NULL when out of memory */
void arena_free(struct arena *a);
/* Zeroed, aligned to 16; never NULL: see arena_set_limit. */
void *arena_alloc(struct arena *a, size_t bytes);
void *arena_array(struct arena *a, size_t count, size_t elem_bytes); /* checked product */
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct arena *a, const char *format, va_list args);
size_t arena_bytes(const struct arena *a); /* handed out so far */
/* on_out_of_memory is called (once) with ctx when the limit (bytes handed out; 0: none) or the
 * machine's memory is reached; it must not return (longjmp). Without a handler the program ends
 * with a message. */
void arena_set_limit(struct arena *a, size_t bytes, void (*on_out_of_memory)(void *ctx), void *ctx);

/* The compiler's large arrays are not in the arena: see vec.h. */

/* ---- source.c ----------------------------------------------------------------------------- */

/* A position is one number for all files: file base + byte offset. 0 is "no position". */
typedef uint32_t src_pos;
struct span {
    src_pos begin, end; /* half open */
};

struct sources; /* the files, in the order they were opened */

struct sources *sources_new(struct arena *a);
/* Adds text under a name (copied); returns the position of its first byte, 0 when it would not
 * fit (>1 GiB in all). */
src_pos sources_add(struct sources *s, const char *name, const char *text, size_t bytes);

struct location {
    const char *file;
    uint32_t line, column; /* from 1; column counts code points, a tab counts as one */
};
struct location sources_locate(const struct sources *s, src_pos pos);
/* The text of the file that holds pos, and the position of its first byte. */
const char *sources_text(const struct sources *s, src_pos pos, size_t *bytes);
src_pos sources_base(const struct sources *s, src_pos pos);

/* ---- diag.c ------------------------------------------------------------------------------- */

enum severity { SEV_ERROR, SEV_WARNING, SEV_NOTE };

struct diag; /* collects messages; at most 20 errors are kept, all are counted */

struct diag *diag_new(struct arena *a, struct sources *s);
/* A note belongs to the error or warning before it, and is dropped with it. Messages are lower
 * case, no full stop. */
void diag_report(struct diag *d, enum severity sev, struct span at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
unsigned diag_errors(const struct diag *d);
bool diag_full(const struct diag *d); /* 20 errors: stop looking for more */
/* file:line:col: error: ...\n source line \n ^~~~ ; tabs and UTF-8 keep the caret under the
 * right column. */
void diag_print(const struct diag *d, FILE *out, bool colour);
/* One array of objects: severity, file, line, column, end_line, end_column, message, notes. A
 * message a line, `indent` spaces in front of the array's end and two more for each level in it;
 * what comes before the array and behind it is the caller's. */
void diag_print_json(const struct diag *d, int indent, FILE *out);

/* ---- ast.c -------------------------------------------------------------------------------- */

/* One grammar for integers, groups and codecs; the elaborator knows which is wanted where. */
enum expr_kind {
    EXPR_INT,     /* 42, 64K is not a token: plain decimal or 0x */
    EXPR_DECIMAL, /* 0.72, only as a codec argument */
    EXPR_NAME,
    EXPR_UNARY,  /* - ! ~ */
    EXPR_BINARY, /* C's, and | also composes codecs; + - also on groups */
    EXPR_TERNARY,
    EXPR_CALL,  /* name(args): built-in, let function, or codec */
    EXPR_INDEX, /* group[i] */
    EXPR_RANGE, /* a..b, a..b step k, step *k, step /k: in for and in ranks() only */
};

enum binary_op {
    BIN_MUL,
    BIN_DIV,
    BIN_MOD,
    BIN_ADD,
    BIN_SUB,
    BIN_SHL,
    BIN_SHR,
    BIN_LT,
    BIN_LE,
    BIN_GT,
    BIN_GE,
    BIN_EQ,
    BIN_NE,
    BIN_BITAND,
    BIN_XOR,
    BIN_BITOR,
    BIN_AND,
    BIN_OR,
};

enum step_kind { STEP_NONE, STEP_ADD, STEP_MUL, STEP_DIV };

struct expr {
    enum expr_kind kind;
    unsigned depth; /* levels of operands, from 1; at most 256, so recursion over a tree is safe */
    struct span span;
    union {
        int64_t integer;
        double decimal;
        const char *name; /* EXPR_NAME */
        struct {
            char op; /* '-', '!', '~' */
            struct expr *operand;
        } unary;
        struct {
            enum binary_op op;
            struct span op_span;
            struct expr *left, *right;
        } binary;
        struct {
            struct expr *cond, *yes, *no;
        } ternary;
        struct {
            const char *name;
            struct span name_span;
            struct expr *args; /* linked by next */
        } call;
        struct {
            struct expr *base, *index;
        } index;
        struct {
            struct expr *from, *to, *step; /* step NULL unless STEP_ADD.. */
            enum step_kind step_kind;
        } range;
    };
    struct expr *next; /* in an argument list */
};

/* buf[i]@rank  or  buf[i +: count]@rank */
struct chunk_ref {
    struct span span;
    const char *buffer;
    struct span buffer_span;
    struct expr *index;
    struct expr *count; /* NULL: one chunk */
    struct expr *rank;  /* an integer or, as a destination or in `ensure identical`, a group */
};

/* x in A */
struct generator {
    const char *name;
    struct span name_span;
    struct expr *domain; /* EXPR_RANGE or a group */
    struct generator *next;
};

struct formal { /* of a schedule or def */
    enum formal_kind { FORMAL_INT, FORMAL_CODEC, FORMAL_GROUP, FORMAL_BUFFER } kind;
    const char *name;
    struct span span;
    struct expr *initial; /* default, or NULL */
    struct formal *next;
};

enum buffer_role { ROLE_INPUT, ROLE_OUTPUT, ROLE_INOUT, ROLE_SCRATCH };

enum collective {
    COLL_NONE,
    COLL_ALLREDUCE,
    COLL_REDUCE_SCATTER,
    COLL_ALLGATHER,
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_GATHER,
    COLL_SCATTER,
    COLL_ALLTOALL,
};

enum stmt_kind {
    STMT_BUFFER,
    STMT_COPY,
    STMT_REDUCE,
    STMT_STEP,
    STMT_STAGE,
    STMT_CALL,
    STMT_LET,
    STMT_LET_FUNCTION,
    STMT_IF,
    STMT_FOR,
    STMT_REQUIRE,
    STMT_COLLECTIVE,
    STMT_ENSURE_VALUE,
    STMT_ENSURE_IDENTICAL,
    STMT_SLICES,
};

struct stmt {
    enum stmt_kind kind;
    unsigned depth; /* levels of blocks, from 1; at most 256 */
    struct span span;
    struct stmt *next;
    union {
        struct {
            enum buffer_role role;
            const char *name;
            struct span name_span;
            struct expr *chunks;
            struct expr *group; /* NULL: all ranks */
        } buffer;
        struct {
            struct chunk_ref src, dst;
            struct expr *via; /* NULL: inherit */
        } move;               /* STMT_COPY, STMT_REDUCE */
        struct {
            struct stmt *body;
        } step;
        struct {
            const char *name;
            struct span name_span;
            struct expr *via;
            struct stmt *body;
        } stage;
        struct {
            const char *name;
            struct span name_span;
            struct expr *args;
            struct expr *via;
        } call;
        struct {
            const char *name;
            struct span name_span;
            struct expr *value;
        } let;
        struct {
            const char *name;
            struct span name_span;
            struct formal *formals; /* all FORMAL_INT */
            struct expr *value;
        } let_function;
        struct {
            struct expr *cond;
            struct stmt *yes, *no;
        } if_;
        struct {
            struct generator *generators;
            struct expr *where; /* NULL: none */
            struct stmt *body;
        } for_;
        struct {
            struct expr *cond;
            const char *message;
        } require;
        struct {
            enum collective kind;
            struct expr *root;  /* broadcast, reduce, gather, scatter */
            struct expr *group; /* NULL: all ranks */
        } collective;
        struct {
            struct chunk_ref left;
            bool is_sum;
            struct chunk_ref term;      /* the single right-hand side, or the summand */
            struct generator *sum_gens; /* of sum(... for ...) */
            struct expr *sum_where;
            struct generator *generators; /* the trailing for */
            struct expr *where;
        } ensure; /* both ENSURE kinds; identical uses left, generators, where */
        struct {
            struct expr *count;
        } slices;
    };
};

struct def {
    const char *name;
    struct span name_span, span;
    struct formal *formals;
    struct stmt *body;
    struct def *next;
};

struct schedule {
    const char *name;
    struct span name_span, span;
    struct formal *formals;
    struct stmt *body;
    struct schedule *next;
};

/* A file and all it imports. Lets and defs of every file are one name space; each name is
 * unique. */
struct program {
    struct stmt *lets; /* top-level STMT_LET and STMT_LET_FUNCTION, in order of import */
    struct def *defs;
    struct schedule *schedules; /* of the main file: an imported file has none */
};

/* Canonical source text, imports included: parses back to the same tree. */
void ast_print(const struct program *p, FILE *out);
void expr_print(const struct expr *e, FILE *out);
const char *binary_op_text(enum binary_op op);       /* "<<" */
const char *collective_name(enum collective c);      /* "allreduce"; "none" */
const char *buffer_role_name(enum buffer_role role); /* "inout" */

/* ---- parse.c ------------------------------------------------------------------------------ */

/* Which file a path leads to, whatever links are on the way; all 0: not known. */
struct file_id {
    uint64_t device, inode;
};

/* Reads a file for `import`: fills *text (arena), *bytes and, where it can, *id, which was 0;
 * returns NULL or what went wrong. The default reads the path relative to the importing file;
 * tests pass their own. */
typedef const char *(*import_reader)(void *ctx, struct arena *a, const char *path, char **text,
                                     size_t *bytes, struct file_id *id);

/* Parses text and, recursively, its imports. Always returns a tree (perhaps empty); diag_errors
 * tells whether to use it. Refuses, as one clear error each: text over 64 MiB, NUL bytes or
 * invalid UTF-8 (a binary file), nesting deeper than 256, an import cycle (the chain is in
 * notes), a missing file, one that is no regular file. */
struct program *parse_text(struct arena *a, struct sources *s, struct diag *d, const char *name,
                           const char *text, size_t bytes, import_reader read, void *read_ctx);
struct program *parse_file(struct arena *a, struct sources *s, struct diag *d, const char *path);
/* The default import_reader; ctx is not used. Anything but a regular file is refused: a pipe could
 * be read once only, and a FIFO or a device might never end. */
const char *read_source_file(void *ctx, struct arena *a, const char *path, char **text,
                             size_t *bytes, struct file_id *id);

/* One expression and nothing else, for -D name=value: NULL after an error. The name is what
 * messages call it. */
struct expr *parse_expr_text(struct arena *a, struct sources *s, struct diag *d, const char *name,
                             const char *text, size_t bytes);

/* Nearest name for "did you mean": NULL when nothing is close. candidates is NULL-terminated. */
const char *nearest_name(const char *name, const char *const *candidates);

#endif
