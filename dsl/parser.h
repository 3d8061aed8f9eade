/* Private to dsl/: what the scanner, the grammar, the wording of syntax errors and the driver
 * share. */
#ifndef SLUICE_DSL_PARSER_H
#define SLUICE_DSL_PARSER_H

#include "dsl/dsl.h"

enum { MAX_DEPTH = 256 }; /* nesting of brackets, expressions, blocks and imports */

/* ---- utf8.c ------------------------------------------------------------------------------- */

/* The character at the start of text: its bytes, 0 when they are not UTF-8. */
size_t utf8_decode(const char *text, size_t bytes, uint32_t *code);
unsigned utf8_columns(uint32_t code); /* 0, 1 or 2 on a terminal */
bool utf8_is_control(uint32_t code);  /* would do something to a terminal */

/* ---- parse.c ------------------------------------------------------------------------------ */

/* A token as the messages need it. */
struct token {
    int kind;
    struct span at;
};

struct import {
    const char *path;
    struct span at;
    struct import *next;
};

/* One file, or one expression, on its way through scanner and grammar. */
struct parser {
    struct arena *arena;
    struct sources *sources;
    struct diag *diag;
    const char *text;
    size_t bytes;
    src_pos base;

    /* scanner */
    void *scanner;
    bool one_expression; /* and nothing else */
    int start;           /* the token that tells the grammar what to expect, 0 once sent */
    src_pos next;        /* of the next character */

    /* for syntax.c */
    struct token current, previous;
    struct token statement; /* first token of the current statement */
    bool at_statement;      /* the next token starts one */
    src_pos boundary;       /* end of the `;`, `{` or `}` before the current token's statement */
    src_pos stray_end;      /* end of the last character that is no token */
    src_pos complained;     /* last place of text that is no token; up to here, all was said */
    bool missing_semicolon; /* before the current token: next_token will supply it */
    struct token again;     /* that token; kind 0: none */
    const char *last_name;  /* value of the last token that was a name */
    bool gave_up; /* too deep, or too many errors: the rest of the text is not looked at */
    bool said_unclosed;
    struct token open[MAX_DEPTH]; /* brackets */
    unsigned opened;
    struct token chunk_at;  /* the last '@' of the current statement; kind 0: none */
    struct token innermost; /* open bracket before the current token; kind 0: none */

    /* grammar */
    struct import *imports, *last_import;
    struct program program;
    struct stmt *last_let;
    struct def *last_def;
    struct schedule *last_schedule;
    struct expr *expr; /* of parse_expr_text */
};

/* ---- lexer.l ------------------------------------------------------------------------------ */

bool scanner_open(struct parser *p); /* false: no memory */
void scanner_close(struct parser *p);

/* ---- scan.c: what the scanner says of text that is no token ------------------------------- */

int64_t scan_integer(struct parser *p, struct span at, const char *text, size_t bytes);
double scan_decimal(struct parser *p, struct span at, const char *text, size_t bytes);
const char *scan_name(struct parser *p, struct span at, const char *text, size_t bytes);
const char *scan_string(struct parser *p, struct span at, const char *text, size_t bytes);
void scan_stray(struct parser *p, struct span at, const char *text, size_t bytes);
void scan_complain(struct parser *p, struct span at, const char *message);

/* ---- syntax.c ----------------------------------------------------------------------------- */

/* A syntax error as bison sees it. Names are the aliases of grammar.y. */
struct syntax_error {
    const char *found;
    const char *const *expected;
    int expected_count;
};
void syntax_report(struct parser *p, const struct syntax_error *e);

/* Bookkeeping for the above, called with every token. False: too deep, the file is given up. */
bool syntax_note_token(struct parser *p, int kind, struct span at);
void syntax_too_deep(struct parser *p, struct span at);

/* ---- ast.c -------------------------------------------------------------------------------- */

struct expr_list {
    struct expr *first, *last;
};
struct stmt_list {
    struct stmt *first, *last;
    unsigned depth;
};
struct formal_list {
    struct formal *first, *last;
};
struct generator_list {
    struct generator *first, *last;
};
struct loop_head { /* for A where C; all NULL when there is none */
    struct generator *generators;
    struct expr *where;
};
struct name { /* with its place */
    const char *text;
    struct span at;
};

/* Every constructor takes the span of what it makes first. */
struct expr *expr_integer(struct span at, struct parser *p, int64_t value);
struct expr *expr_decimal(struct span at, struct parser *p, double value);
struct expr *expr_name(struct span at, struct parser *p, const char *name);
struct expr *expr_unary(struct span at, struct parser *p, char op, struct expr *operand);
struct expr *expr_binary(struct span at, struct parser *p, enum binary_op op, struct span op_at,
                         struct expr *left, struct expr *right);
struct expr *expr_ternary(struct span at, struct parser *p, struct expr *cond, struct expr *yes,
                          struct expr *no);
struct expr *expr_call(struct span at, struct parser *p, struct name name, struct expr_list args);
struct expr *expr_index(struct span at, struct parser *p, struct expr *base, struct expr *index);
struct expr *expr_range(struct span at, struct parser *p, struct expr *from, struct expr *to,
                        enum step_kind step_kind, struct expr *step);
struct expr *expr_bracketed(struct span at, struct expr *e); /* (e) is e with a wider span */

struct expr_list expr_list_add(struct expr_list list, struct expr *e);
struct stmt_list stmt_list_add(struct stmt_list list, struct stmt *s); /* s may be NULL */
struct formal_list formal_list_add(struct formal_list list, struct formal *f);
struct generator_list generator_list_add(struct generator_list list, struct generator *g);

struct formal *formal_new(struct span at, struct parser *p, enum formal_kind kind, struct name name,
                          struct expr *initial);
struct generator *generator_new(struct span at, struct parser *p, struct name name,
                                struct expr *domain);
struct chunk_ref chunk_ref_of(struct span at, struct name buffer, struct expr *index,
                              struct expr *count, struct expr *rank);

struct stmt *stmt_buffer(struct span at, struct parser *p, enum buffer_role role, struct name name,
                         struct expr *chunks, struct expr *group);
struct stmt *stmt_move(struct span at, struct parser *p, enum stmt_kind kind, struct chunk_ref src,
                       struct chunk_ref dst, struct expr *via);
struct stmt *stmt_step(struct span at, struct parser *p, struct stmt_list body);
struct stmt *stmt_stage(struct span at, struct parser *p, struct name name, struct expr *via,
                        struct stmt_list body);
struct stmt *stmt_call(struct span at, struct parser *p, struct name name, struct expr_list args,
                       struct expr *via);
struct stmt *stmt_let(struct span at, struct parser *p, struct name name, struct expr *value);
struct stmt *stmt_let_function(struct span at, struct parser *p, struct name name,
                               struct formal_list formals, struct expr *value);
struct stmt *stmt_if(struct span at, struct parser *p, struct expr *cond, struct stmt_list yes,
                     struct stmt_list no);
struct stmt *stmt_for(struct span at, struct parser *p, struct loop_head head,
                      struct stmt_list body);
struct stmt *stmt_require(struct span at, struct parser *p, struct expr *cond, const char *message);
struct stmt *stmt_collective(struct span at, struct parser *p, struct name name, struct expr *root,
                             struct expr *group);
struct stmt *stmt_ensure_equal(struct span at, struct parser *p, struct chunk_ref left,
                               struct chunk_ref right, struct loop_head head);
struct stmt *stmt_ensure_sum(struct span at, struct parser *p, struct chunk_ref left,
                             struct chunk_ref term, struct loop_head sum, struct loop_head head);
struct stmt *stmt_ensure_identical(struct span at, struct parser *p, struct chunk_ref left,
                                   struct loop_head head);
struct stmt *stmt_slices(struct span at, struct parser *p, struct expr *count);

/* Top level: these add to the parser's program. */
void file_import(struct span at, struct parser *p, const char *path);
void file_let(struct parser *p, struct stmt *let);
void file_def(struct span at, struct parser *p, struct name name, struct formal_list formals,
              struct stmt_list body);
void file_schedule(struct span at, struct parser *p, struct name name, struct formal_list formals,
                   struct stmt_list body);

#endif
