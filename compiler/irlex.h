/* What the two IR texts share: tokens, and the header that says what a file is for.
 *
 * Both texts are lines of words, numbers and punctuation; `#` starts a comment, blank lines do not
 * count. The reader is always at a token. After the first error every token reads as the end, so a
 * parser stops by itself and one mistake gives one message.
 *
 *     struct irlex lex;
 *     irlex_start(&lex, arena, sources, diag, name, text, bytes);
 *     while (irlex_line(&lex)) {                     // at the first token of a line
 *         if (irlex_accept(&lex, "send")) {
 *             irlex_number(&lex, MAX_RANKS, "a rank", &rank);
 *             irlex_expect(&lex, "->");
 *             ...
 *             irlex_expect_line_end(&lex);
 *         } else {
 *             irlex_unexpected(&lex, "'send'");
 *         }
 *     }
 *     if (irlex_failed(&lex)) ...
 */
#ifndef SLUICE_IRLEX_H
#define SLUICE_IRLEX_H

#include "compiler/ir.h"

/* ---- irlex.c ------------------------------------------------------------------------------ */

enum ir_token {
    IR_END,    /* of the text, or after an error */
    IR_LINE,   /* the end of a line that had tokens */
    IR_WORD,   /* letters, digits, '_', not starting with a digit */
    IR_NUMBER, /* decimal digits */
    IR_PUNCT,  /* "->" "+:" ".." "==" or one character */
    IR_STRING, /* "..." on one line, without escapes */
};

struct irlex {
    struct arena *arena;
    struct diag *diag;
    const char *text;
    size_t bytes;
    src_pos base;
    /* the current token: text[begin, end) */
    enum ir_token token;
    size_t begin, end;
    uint64_t number; /* IR_NUMBER; saturates */
    bool failed;
};

/* False when the text cannot be one at all (too large, NUL bytes); reported. */
bool irlex_start(struct irlex *lex, struct arena *a, struct sources *s, struct diag *d,
                 const char *name, const char *text, size_t bytes);
void irlex_next(struct irlex *lex);
bool irlex_failed(const struct irlex *lex);
struct span irlex_span(const struct irlex *lex); /* of the current token */
src_pos irlex_pos(const struct irlex *lex);

/* To the first token of the next line; false at the end. At the start of a line already: stays. */
bool irlex_line(struct irlex *lex);
bool irlex_at_line_end(const struct irlex *lex); /* or the end of the text */

/* The current token is spelled so. accept also steps over it. */
bool irlex_is(const struct irlex *lex, const char *spelling);
bool irlex_accept(struct irlex *lex, const char *spelling);

/* These report "expected ..., found ..." and return false (NULL) when the token is another one. */
bool irlex_expect(struct irlex *lex, const char *spelling);
bool irlex_expect_line_end(struct irlex *lex);
bool irlex_number(struct irlex *lex, uint64_t max, const char *what, uint64_t *out);
bool irlex_int(struct irlex *lex, int32_t max, const char *what, int32_t *out);
const char *irlex_word(struct irlex *lex, const char *what);   /* copied */
const char *irlex_string(struct irlex *lex, const char *what); /* copied, without the quotes */
bool irlex_codec(struct irlex *lex, struct codec *out);        /* cast(bf16) | pack(0.72) */
/* A list of ranks below `ranks`, each at most once: `0..4, 7, 9..12`, or `none`. In the arena. */
bool irlex_ranks(struct irlex *lex, int32_t ranks, const int32_t **member, int32_t *members);

/* Reports once; the first one wins. */
void irlex_error(struct irlex *lex, struct span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void irlex_unexpected(struct irlex *lex,
                      const char *expected); /* "expected 'send', found 'sand'" */

/* What irlex_ranks reads. */
void ranks_print(const int32_t *member, int32_t members, FILE *out);

/* ---- flow_text.c: the lines that open both texts, from `ranks` to the last `ensure` ---------- */

void flow_print_header(const struct flow *f, FILE *out);
/* Reads header lines up to a line that is not one of them. f: a zeroed flow, f->name set. */
bool flow_parse_header(struct irlex *lex, struct flow *f);
/* data[3]@2 */
bool flow_parse_loc(struct irlex *lex, const struct flow *f, loc_id *loc);
/* data[3], on a rank known from elsewhere */
bool flow_parse_chunk(struct irlex *lex, const struct flow *f, int32_t rank, loc_id *loc);
/* The index of a stage or codec in the flow's tables, added when new; false: reported. */
bool flow_parse_stage(struct irlex *lex, struct flow *f, uint16_t *stage);
bool flow_parse_codec(struct irlex *lex, struct flow *f, uint16_t *codec);

#endif
