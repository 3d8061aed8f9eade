/* The wording of syntax errors. Bison tells what it found and what it could have taken; the
 * tokens before tell what was being written. The first rule that fits speaks. */
#include "dsl/parser.h"

#include <string.h>

#include "grammar.h"

/* ---- bookkeeping -------------------------------------------------------------------------- */

void syntax_too_deep(struct parser *p, struct span at) {
    if (p->gave_up)
        return;
    p->gave_up = true;
    diag_report(p->diag, SEV_ERROR, at, "nesting deeper than %d levels", MAX_DEPTH);
}

static bool is_boundary(int kind) {
    return kind == T_SEMICOLON || kind == T_LBRACE || kind == T_RBRACE;
}

static int opener_of(int closer) {
    return closer == T_RPAREN ? T_LPAREN : closer == T_RBRACKET ? T_LBRACKET : T_LBRACE;
}

/* Keeps the stack of open brackets. Round and square ones never reach over a statement's end. */
static bool track_brackets(struct parser *p, int kind, struct span at) {
    p->innermost = (struct token){0};
    if (p->opened)
        p->innermost = p->open[p->opened - 1];
    if (is_boundary(kind))
        while (p->opened && p->open[p->opened - 1].kind != T_LBRACE)
            p->opened--;
    if (kind == T_LPAREN || kind == T_LBRACKET || kind == T_LBRACE) {
        if (p->opened == MAX_DEPTH) {
            syntax_too_deep(p, at);
            return false;
        }
        p->open[p->opened++] = (struct token){kind, at};
    } else if (kind == T_RPAREN || kind == T_RBRACKET || kind == T_RBRACE) {
        if (p->opened && p->open[p->opened - 1].kind == opener_of(kind))
            p->opened--;
    }
    return true;
}

bool syntax_note_token(struct parser *p, int kind, struct span at) {
    p->previous = p->current;
    p->current = (struct token){kind, at};
    if (is_boundary(p->previous.kind))
        p->boundary = p->previous.at.end;
    if (p->at_statement) {
        p->statement = p->current;
        p->chunk_at.kind = 0;
    }
    if (kind == T_AT)
        p->chunk_at = p->current;
    p->at_statement = is_boundary(kind) || kind == T_START_FILE || kind == T_START_EXPR;
    return track_brackets(p, kind, at);
}

/* ---- what can be asked -------------------------------------------------------------------- */

static bool expects(const struct syntax_error *e, const char *token) {
    for (int i = 0; i < e->expected_count; i++)
        if (strcmp(e->expected[i], token) == 0)
            return true;
    return false;
}

static bool expects_only(const struct syntax_error *e, const char *token) {
    return e->expected_count == 1 && expects(e, token);
}

static bool found(const struct syntax_error *e, const char *token) {
    return strcmp(e->found, token) == 0;
}

static bool expects_expression(const struct syntax_error *e) {
    return expects(e, "name") && expects(e, "integer");
}

static bool is_keyword(const char *token) {
    return token[0] >= 'a' && token[0] <= 'z' && strcmp(token, "name") != 0 &&
           strcmp(token, "integer") != 0 && strcmp(token, "decimal") != 0 &&
           strcmp(token, "string") != 0 && strncmp(token, "end of", 6) != 0;
}

static const char *text_of(const struct parser *p, struct token t) {
    enum { LONGEST = 40 };
    size_t bytes = t.at.end - t.at.begin;
    const char *text = p->text + (t.at.begin - p->base);
    if (bytes <= LONGEST)
        return arena_strndup(p->arena, text, bytes);
    bytes = LONGEST;
    while (((unsigned char)text[bytes] & 0xC0) == 0x80)
        bytes--;
    return arena_printf(p->arena, "%.*s...", (int)bytes, text);
}

static const char *quoted(const struct parser *p, struct token t) {
    if (t.kind == T_END)
        return p->one_expression ? "end of text" : "end of file";
    if (t.kind == T_STRING)
        return arena_printf(p->arena, "string %s", text_of(p, t));
    return arena_printf(p->arena, "'%s'", text_of(p, t));
}

/* "found ';'", "found keyword 'step'" */
static const char *what_was_found(const struct parser *p, const struct syntax_error *e) {
    return arena_printf(p->arena, "found %s%s", is_keyword(e->found) ? "keyword " : "",
                        quoted(p, p->current));
}

static bool on_new_line(const struct parser *p) {
    const char *from = p->text + (p->previous.at.end - p->base);
    return memchr(from, '\n', p->current.at.begin - p->previous.at.end) != NULL;
}

static void say(struct parser *p, struct span at, const char *message) {
    diag_report(p->diag, SEV_ERROR, at, "%s", message);
}

static void say_expected(struct parser *p, const struct syntax_error *e, const char *what) {
    diag_report(p->diag, SEV_ERROR, p->current.at, "expected %s, %s", what, what_was_found(p, e));
}

static void note_open_bracket(struct parser *p) {
    if (p->innermost.kind)
        diag_report(p->diag, SEV_NOTE, p->innermost.at, "to match this %s",
                    quoted(p, p->innermost));
}

/* ---- the rules, most telling first: true when one has spoken ------------------------------ */

static bool unclosed_block(struct parser *p, const struct syntax_error *e) {
    bool top_level_only = found(e, "schedule") || found(e, "def") || found(e, "import");
    if (!expects(e, "}") || !(found(e, "end of file") || top_level_only))
        return false;
    if (!p->said_unclosed) {
        struct span at = p->current.at;
        if (p->current.kind == T_END)
            at.begin = at.end = p->previous.at.end;
        diag_report(p->diag, SEV_ERROR, at, "expected '}' before %s", quoted(p, p->current));
        note_open_bracket(p);
    }
    p->said_unclosed = true;
    return true;
}

static bool assignment(struct parser *p, const struct syntax_error *e) {
    if (!found(e, "=") || !expects(e, "=="))
        return false;
    say(p, p->current.at, "'=' does not compare; write '=='");
    return true;
}

static bool is_before_chunk(int kind) {
    return kind == T_COPY || kind == T_REDUCE || kind == T_ARROW || kind == T_ENSURE ||
           kind == T_IDENTICAL || kind == T_EQ;
}

static bool keyword_as_name(struct parser *p, const struct syntax_error *e) {
    if (!is_keyword(e->found) || !expects(e, "name") || expects(e, "integer") ||
        expects(e, "copy") || is_before_chunk(p->previous.kind))
        return false;
    diag_report(p->diag, SEV_ERROR, p->current.at, "'%s' is a keyword and cannot be a name",
                text_of(p, p->current));
    return true;
}

static bool is_operator(const char *token) {
    static const char *const operators[] = {"+", "-", "*", "/", "%", "<<", ">>",
                                            "<", ">", "&", "^", "|", "?"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(token, operators[i]) == 0)
            return true;
    return false;
}

/* Where the expression that was meant after '@' ends, as far as the line goes. */
static src_pos end_of_rank(const struct parser *p) {
    size_t at = p->chunk_at.at.end - p->base, end = at;
    for (unsigned open = 0; at < p->bytes && !strchr(";{}#\n", p->text[at]); at++) {
        const char *rest = p->text + at;
        if (!open && (p->bytes - at >= 2) && (!memcmp(rest, "->", 2) || !memcmp(rest, "==", 2)))
            break;
        if (!open && p->bytes - at >= 4 && (!memcmp(rest, " via", 4) || !memcmp(rest, " for", 4)))
            break;
        if (*rest == '(' || *rest == '[')
            open++;
        if (*rest == ')' || *rest == ']') {
            if (!open)
                break;
            open--;
        }
        if (!strchr(" \t\r", *rest))
            end = at + 1;
    }
    return p->base + (src_pos)end;
}

/* copy data[c]@r - 1 -> ...: the rank ends at the operator. */
static bool rank_without_brackets(struct parser *p, const struct syntax_error *e) {
    bool after_chunk =
        expects(e, "->") || expects(e, "via") || expects(e, "==") || expects(e, "for");
    if (!p->chunk_at.kind || !after_chunk || !expects(e, "[") || !is_operator(e->found))
        return false;
    struct token rank = {.at = {p->chunk_at.at.end, end_of_rank(p)}};
    size_t bytes = rank.at.end - rank.at.begin;
    if (memchr(p->text + (rank.at.begin - p->base), '@', bytes))
        return false; /* another chunk, so no part of the rank */
    say(p, p->current.at, "an expression after '@' needs brackets");
    if (rank.at.end > p->current.at.end)
        diag_report(p->diag, SEV_NOTE, rank.at, "write '@(%s)'", text_of(p, rank));
    return true;
}

static bool chunk_reference(struct parser *p, const struct syntax_error *e) {
    if (expects_only(e, "@"))
        say_expected(p, e, "'@' after chunk index");
    else if (expects_only(e, "["))
        say_expected(p, e, "'[' after buffer name");
    else if (expects(e, "->"))
        say_expected(p, e, "'->' after source chunk");
    else if (expects(e, "==") && !expects(e, "<"))
        say_expected(p, e, "'==' after chunk");
    else if (expects(e, "for") && !expects(e, ";") && !expects(e, "copy"))
        say_expected(p, e, "'for' after term of 'sum'");
    else if (expects(e, "+:") && found(e, ".."))
        say(p, p->current.at, "a range of chunks is written buf[first +: count]");
    else
        return false;
    return true;
}

/* What the current statement is called in "expected ';' after ...". */
static const char *statement_name(const struct parser *p) {
    switch (p->statement.kind) {
    case T_NAME:
        return "call";
    case T_INPUT:
    case T_OUTPUT:
    case T_INOUT:
    case T_SCRATCH:
        return "buffer";
    default:
        return arena_printf(p->arena, "'%s' statement", text_of(p, p->statement));
    }
}

static bool missing_via(struct parser *p, const struct syntax_error *e) {
    if (!expects(e, "via") || !found(e, "name"))
        return false;
    diag_report(p->diag, SEV_ERROR, p->current.at, "expected 'via' before codec %s",
                quoted(p, p->current));
    return true;
}

static bool missing_semicolon(struct parser *p, const struct syntax_error *e) {
    if (!expects(e, ";"))
        return false;
    struct span after = {p->previous.at.end, p->previous.at.end};
    bool next_line = on_new_line(p) || found(e, "}") || found(e, "end of file");
    if (next_line || is_keyword(e->found)) {
        diag_report(p->diag, SEV_ERROR, after, "expected ';' after %s", statement_name(p));
        p->missing_semicolon = is_keyword(e->found) || found(e, "name");
    } else if (missing_via(p, e))
        return true;
    else if (expects(e, "on") && found(e, "name"))
        diag_report(p->diag, SEV_ERROR, p->current.at, "expected 'on' before group %s",
                    quoted(p, p->current));
    else
        diag_report(p->diag, SEV_ERROR, after, "expected ';' after %s, %s", statement_name(p),
                    what_was_found(p, e));
    return true;
}

/* The innermost open bracket is that of ranks(...). */
static bool in_ranks(const struct parser *p) {
    static const char name[] = "ranks";
    size_t at = p->innermost.kind == T_LPAREN ? p->innermost.at.begin - p->base : 0;
    size_t length = sizeof name - 1;
    return at >= length && memcmp(p->text + at - length, name, length) == 0;
}

static bool missing_range(struct parser *p, const struct syntax_error *e) {
    bool another_bound = found(e, "integer") || found(e, "name") || found(e, ":") || found(e, "(");
    if (!expects(e, "..") || !another_bound || (expects(e, ")") && !in_ranks(p)))
        return false;
    diag_report(p->diag, SEV_ERROR, p->current.at, "expected '..' after '%s', %s",
                text_of(p, p->previous), what_was_found(p, e));
    return true;
}

static bool missing_in(struct parser *p, const struct syntax_error *e) {
    if (!expects_only(e, "in"))
        return false;
    diag_report(p->diag, SEV_ERROR, p->current.at, "expected 'in' after loop variable '%s', %s",
                text_of(p, p->previous), what_was_found(p, e));
    if (p->statement.kind == T_FOR && !found(e, "name") && !found(e, "="))
        diag_report(p->diag, SEV_NOTE, (struct span){0}, "a range is written first..end");
    return true;
}

static bool missing_body(struct parser *p, const struct syntax_error *e) {
    if (!expects(e, "{"))
        return false;
    if (missing_via(p, e))
        return true;
    if (p->previous.kind == T_ELSE)
        say_expected(p, e, "'{' or 'if' after 'else'");
    else
        diag_report(p->diag, SEV_ERROR, p->current.at, "expected '{' to open the body of %s, %s",
                    quoted(p, p->statement), what_was_found(p, e));
    return true;
}

static bool missing_colon(struct parser *p, const struct syntax_error *e) {
    if (!expects(e, ":"))
        return false;
    if (p->statement.kind == T_REQUIRE)
        say_expected(p, e, "':' and a message after condition");
    else
        diag_report(p->diag, SEV_ERROR, p->current.at, "expected ':' after %s, %s",
                    quoted(p, p->previous), what_was_found(p, e));
    return true;
}

static bool missing_expression(struct parser *p, const struct syntax_error *e) {
    if (!expects_expression(e))
        return false;
    if (p->previous.kind == T_START_EXPR)
        say_expected(p, e, "expression");
    else
        diag_report(p->diag, SEV_ERROR, p->current.at, "expected expression after %s, %s",
                    quoted(p, p->previous), what_was_found(p, e));
    if (p->previous.kind == T_AT && found(e, "*"))
        diag_report(p->diag, SEV_NOTE, p->current.at, "the group of all ranks is 'ranks(0..N)'");
    return true;
}

/* What may follow inside brackets besides operators. */
static bool missing_bracket(struct parser *p, const struct syntax_error *e) {
    static const char *const marks[] = {"=", ",", "]", ")"};
    const char *wanted[sizeof marks / sizeof *marks];
    size_t n = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (expects(e, marks[i]))
            wanted[n++] = marks[i];
    if (!expects(e, ")") && !expects(e, "]"))
        return false;
    const char *list = "";
    for (size_t i = 0; i < n; i++)
        list = arena_printf(p->arena, "%s%s'%s'", list,
                            i == 0       ? ""
                            : i + 1 == n ? " or "
                                         : ", ",
                            wanted[i]);
    diag_report(p->diag, SEV_ERROR, p->current.at, "expected %s after %s, %s", list,
                quoted(p, p->previous), what_was_found(p, e));
    note_open_bracket(p);
    return true;
}

static bool missing_parameter(struct parser *p, const struct syntax_error *e) {
    if (!expects(e, "buffer") || !expects(e, "codec"))
        return false;
    say_expected(p, e, "parameter type (int, codec, group or buffer)");
    return true;
}

/* `for (...)` of another language: its semicolons end no statements. */
static void pass_over_head(struct parser *p) {
    size_t at = p->current.at.begin - p->base;
    int depth = 0;
    do {
        depth += (p->text[at] == '(') - (p->text[at] == ')');
        at++;
    } while (depth > 0 && at < p->bytes);
    p->complained = p->base + (src_pos)at;
    diag_report(p->diag, SEV_NOTE, p->current.at, "a loop is written 'for i in 0..N { }'");
}

static bool missing_name(struct parser *p, const struct syntax_error *e) {
    if (!expects(e, "name") || expects(e, "copy") || expects(e, "integer"))
        return false;
    const char *what = "name";
    switch (p->previous.kind) {
    case T_SCHEDULE:
    case T_DEF:
    case T_STAGE:
        what = arena_printf(p->arena, "name of the %s", text_of(p, p->previous));
        break;
    case T_INPUT:
    case T_OUTPUT:
    case T_INOUT:
    case T_SCRATCH:
        what = "buffer name";
        break;
    case T_INT:
    case T_CODEC:
    case T_GROUP:
    case T_BUFFER:
        what = "parameter name";
        break;
    case T_FOR:
        what = "loop variable";
        break;
    case T_COLLECTIVE:
        what = "name of a collective";
        break;
    case T_LPAREN:
        what = "parameter name";
        break;
    case T_COMMA:
        what = p->statement.kind == T_FOR ? "loop variable" : "name";
        break;
    default:
        what = is_before_chunk(p->previous.kind) ? "buffer name" : "name";
        break;
    }
    diag_report(p->diag, SEV_ERROR, p->current.at, "expected %s after %s, %s", what,
                quoted(p, p->previous), what_was_found(p, e));
    if (p->previous.kind == T_FOR && found(e, "("))
        pass_over_head(p);
    return true;
}

/* What other languages call it. */
static const char *usual_verb(const char *name) {
    static const char *const verbs[][2] = {
        {"send", "copy"},    {"recv", "copy"},     {"receive", "copy"}, {"move", "copy"},
        {"put", "copy"},     {"get", "copy"},      {"push", "copy"},    {"pull", "copy"},
        {"forward", "copy"}, {"transfer", "copy"}, {"add", "reduce"},   {"accumulate", "reduce"},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i][0], name) == 0)
            return verbs[i][1];
    return NULL;
}

/* A statement that began with a name and went on as no call does. */
static bool not_a_call(struct parser *p, const struct syntax_error *e) {
    static const char *const keywords[] = {
        "let",  "if",     "for",  "require", "input",  "output", "inout",      "scratch",
        "copy", "reduce", "step", "stage",   "ensure", "slices", "collective", NULL,
    };
    if (!expects_only(e, "(") || p->previous.kind != T_NAME ||
        p->previous.at.begin != p->statement.at.begin)
        return false;
    const char *name = text_of(p, p->previous);
    const char *verb = found(e, "name") ? usual_verb(name) : NULL;
    const char *near = verb ? verb : nearest_name(name, keywords);
    if (found(e, "="))
        diag_report(p->diag, SEV_ERROR, p->previous.at, "expected 'let' before '%s'", name);
    else if (found(e, "["))
        diag_report(p->diag, SEV_ERROR, p->previous.at,
                    "expected 'copy' or 'reduce' before chunk of '%s'", name);
    else if (near)
        diag_report(p->diag, SEV_ERROR, p->previous.at,
                    "unknown statement '%s'; did you mean '%s'?", name, near);
    else
        diag_report(p->diag, SEV_ERROR, p->current.at, "expected '(' after '%s', %s", name,
                    what_was_found(p, e));
    return true;
}

static bool not_a_statement(struct parser *p, const struct syntax_error *e) {
    bool in_block = expects(e, "copy"), at_top = expects(e, "schedule") && !in_block;
    if (!in_block && !at_top)
        return false;
    if (in_block && found(e, "else"))
        say(p, p->current.at, "'else' without an 'if' before it");
    else if (in_block)
        say_expected(p, e, "statement or '}'");
    else if (found(e, "}"))
        say(p, p->current.at, "'}' without a '{' before it");
    else if (is_keyword(e->found))
        diag_report(p->diag, SEV_ERROR, p->current.at, "'%s' stands inside a schedule or def only",
                    text_of(p, p->current));
    else
        say_expected(p, e, "'schedule', 'def', 'let' or 'import'");
    return true;
}

static void anything_else(struct parser *p, const struct syntax_error *e) {
    enum { MOST = 4 };
    const char *list = "";
    for (int i = 0; i < e->expected_count && i < MOST; i++) {
        bool described =
            strcmp(e->expected[i], "string") == 0 || strcmp(e->expected[i], "integer") == 0 ||
            strcmp(e->expected[i], "name") == 0 || strcmp(e->expected[i], "end of file") == 0;
        list = arena_printf(p->arena, described ? "%s%s%s" : "%s%s'%s'", list,
                            i == 0                       ? ""
                            : i + 1 == e->expected_count ? " or "
                                                         : ", ",
                            e->expected[i]);
    }
    if (e->expected_count == 0 || e->expected_count > MOST)
        diag_report(p->diag, SEV_ERROR, p->current.at, "unexpected %s", quoted(p, p->current));
    else
        diag_report(p->diag, SEV_ERROR, p->current.at, "expected %s after %s, %s", list,
                    quoted(p, p->previous), what_was_found(p, e));
}

void syntax_report(struct parser *p, const struct syntax_error *e) {
    if (p->gave_up)
        return;
    if (p->complained >= p->boundary) {
        p->boundary =
            p->current.at.end; /* the scanner has spoken about this statement; once is enough */
        return;
    }
    bool spoken = unclosed_block(p, e) || assignment(p, e) || keyword_as_name(p, e) ||
                  rank_without_brackets(p, e) || chunk_reference(p, e) || missing_semicolon(p, e) ||
                  missing_range(p, e) || missing_in(p, e) || missing_body(p, e) ||
                  missing_colon(p, e) || missing_parameter(p, e) || missing_expression(p, e) ||
                  missing_bracket(p, e) || missing_name(p, e) || not_a_call(p, e) ||
                  not_a_statement(p, e);
    if (!spoken)
        anything_else(p, e);
    if (diag_full(p->diag))
        p->gave_up = true;
}
