/* Tokens of the two IR texts. One token is looked at, none is kept; an error stops the reader for
 * good, because the rest of a machine's text after a mistake tells a person nothing.
 */
#include "compiler/irlex.h"

#include <string.h>

enum { LONGEST_SHOWN = 40 }; /* bytes of a token that a message repeats */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool irlex_start(struct irlex *lex, struct arena *a, struct sources *s, struct diag *d,
                 const char *name, const char *text, size_t bytes) {
    *lex = (struct irlex){.arena = a, .diag = d, .token = IR_LINE};
    src_pos base = sources_add(s, name, text, bytes);
    if (!base) {
        diag_report(d, SEV_ERROR, (struct span){0, 0}, "%s: more than 1 GiB of text", name);
        lex->failed = true;
        lex->token = IR_END;
        return false;
    }
    lex->text = sources_text(s, base, &lex->bytes);
    lex->base = base;
    const char *nul = memchr(text, 0, bytes);
    if (nul) {
        src_pos at = base + (src_pos)(nul - text);
        irlex_error(lex, (struct span){at, at + 1}, "a NUL byte: this is no text");
        return false;
    }
    return true;
}

/* ---- the scanner -------------------------------------------------------------------------- */

static size_t punct_bytes(const char *at, size_t left) {
    static const char *const pairs[] = {"->", "+:", "..", "=="};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (left >= 2 && at[0] == pairs[i][0] && at[1] == pairs[i][1])
            return 2;
    size_t n = 1;
    if (((unsigned char)at[0] & 0xc0) == 0xc0) /* all of a UTF-8 sequence, for the message */
        while (n < 4 && n < left && ((unsigned char)at[n] & 0xc0) == 0x80)
            n++;
    return n;
}

static size_t skip_blanks(const struct irlex *lex, size_t at) {
    while (at < lex->bytes &&
           (lex->text[at] == ' ' || lex->text[at] == '\t' || lex->text[at] == '\r'))
        at++;
    if (at < lex->bytes && lex->text[at] == '#')
        while (at < lex->bytes && lex->text[at] != '\n')
            at++;
    return at;
}

static void scan_number(struct irlex *lex) {
    uint64_t n = 0;
    for (; lex->end < lex->bytes && is_digit(lex->text[lex->end]); lex->end++) {
        uint64_t digit = (uint64_t)(lex->text[lex->end] - '0');
        n = n > (UINT64_MAX - digit) / 10 ? UINT64_MAX : n * 10 + digit;
    }
    lex->token = IR_NUMBER;
    lex->number = n;
}

static void scan_string(struct irlex *lex) {
    size_t at = lex->begin + 1;
    while (at < lex->bytes && lex->text[at] != '"' && lex->text[at] != '\n')
        at++;
    if (at == lex->bytes || lex->text[at] != '"') {
        struct span span = {lex->base + (src_pos)lex->begin, lex->base + (src_pos)at};
        irlex_error(lex, span, "the quote is not closed on this line");
        return;
    }
    lex->token = IR_STRING;
    lex->end = at + 1;
}

void irlex_next(struct irlex *lex) {
    if (lex->failed)
        return;
    size_t at = skip_blanks(lex, lex->end);
    lex->begin = lex->end = at;
    if (at == lex->bytes) {
        lex->token = IR_END;
        return;
    }
    char c = lex->text[at];
    if (c == '\n') {
        lex->token = IR_LINE;
        lex->end = at + 1;
    } else if (is_letter(c)) {
        lex->token = IR_WORD;
        while (lex->end < lex->bytes &&
               (is_letter(lex->text[lex->end]) || is_digit(lex->text[lex->end])))
            lex->end++;
    } else if (is_digit(c)) {
        scan_number(lex);
    } else if (c == '"') {
        scan_string(lex);
    } else {
        lex->token = IR_PUNCT;
        lex->end += punct_bytes(lex->text + at, lex->bytes - at);
    }
}

bool irlex_line(struct irlex *lex) {
    while (lex->token == IR_LINE && !lex->failed)
        irlex_next(lex);
    return lex->token != IR_END;
}

bool irlex_at_line_end(const struct irlex *lex) {
    return lex->token == IR_LINE || lex->token == IR_END;
}

bool irlex_failed(const struct irlex *lex) {
    return lex->failed;
}

src_pos irlex_pos(const struct irlex *lex) {
    return lex->base + (src_pos)lex->begin;
}

struct span irlex_span(const struct irlex *lex) {
    src_pos end = lex->base + (src_pos)lex->end;
    return (struct span){irlex_pos(lex), lex->token == IR_LINE ? irlex_pos(lex) + 1 : end};
}

/* ---- errors ------------------------------------------------------------------------------- */

void irlex_error(struct irlex *lex, struct span at, const char *format, ...) {
    if (lex->failed)
        return;
    va_list args;
    va_start(args, format);
    diag_report(lex->diag, SEV_ERROR, at, "%s", arena_vprintf(lex->arena, format, args));
    va_end(args);
    lex->failed = true;
    lex->token = IR_END;
}

void irlex_unexpected(struct irlex *lex, const char *expected) {
    const char *found = lex->text + lex->begin;
    size_t bytes = lex->end - lex->begin;
    struct span at = irlex_span(lex);
    if (lex->failed)
        return;
    if (lex->token == IR_END)
        irlex_error(lex, at, "expected %s, found the end of the text", expected);
    else if (lex->token == IR_LINE)
        irlex_error(lex, at, "expected %s, found the end of the line", expected);
    else if (lex->token == IR_PUNCT && ((unsigned char)*found < ' ' || *found == 127))
        irlex_error(lex, at, "expected %s, found byte 0x%02x", expected, (unsigned char)*found);
    else if (bytes > LONGEST_SHOWN)
        irlex_error(lex, at, "expected %s, found '%.*s...'", expected, LONGEST_SHOWN, found);
    else
        irlex_error(lex, at, "expected %s, found '%.*s'", expected, (int)bytes, found);
}

/* ---- what parsers ask for ----------------------------------------------------------------- */

bool irlex_is(const struct irlex *lex, const char *spelling) {
    size_t n = lex->end - lex->begin;
    return lex->token != IR_END && lex->token != IR_LINE && strlen(spelling) == n &&
           memcmp(lex->text + lex->begin, spelling, n) == 0;
}

bool irlex_accept(struct irlex *lex, const char *spelling) {
    if (!irlex_is(lex, spelling))
        return false;
    irlex_next(lex);
    return true;
}

bool irlex_expect(struct irlex *lex, const char *spelling) {
    if (irlex_accept(lex, spelling))
        return true;
    if (!lex->failed)
        irlex_unexpected(lex, arena_printf(lex->arena, "'%s'", spelling));
    return false;
}

bool irlex_expect_line_end(struct irlex *lex) {
    if (!lex->failed && !irlex_at_line_end(lex))
        irlex_unexpected(lex, "the end of the line");
    return !lex->failed;
}

bool irlex_number(struct irlex *lex, uint64_t max, const char *what, uint64_t *out) {
    if (lex->failed)
        return false;
    if (lex->token != IR_NUMBER) {
        irlex_unexpected(lex, what);
        return false;
    }
    if (lex->number > max) {
        irlex_error(lex, irlex_span(lex), "%s is at most %llu", what, (unsigned long long)max);
        return false;
    }
    *out = lex->number;
    irlex_next(lex);
    return true;
}

bool irlex_int(struct irlex *lex, int32_t max, const char *what, int32_t *out) {
    uint64_t n;
    if (!irlex_number(lex, (uint64_t)max, what, &n))
        return false;
    *out = (int32_t)n;
    return true;
}

const char *irlex_word(struct irlex *lex, const char *what) {
    if (lex->token != IR_WORD) {
        irlex_unexpected(lex, what);
        return NULL;
    }
    const char *word = arena_strndup(lex->arena, lex->text + lex->begin, lex->end - lex->begin);
    irlex_next(lex);
    return word;
}

const char *irlex_string(struct irlex *lex, const char *what) {
    if (lex->token != IR_STRING) {
        irlex_unexpected(lex, what);
        return NULL;
    }
    size_t bytes = lex->end - lex->begin - 2;
    const char *string = arena_strndup(lex->arena, lex->text + lex->begin + 1, bytes);
    irlex_next(lex);
    return string;
}

/* Over `name` or `name(...)`; what stands inside is codec_parse's business. */
static bool skip_codec_stage(struct irlex *lex) {
    if (lex->token != IR_WORD) {
        irlex_unexpected(lex, "a codec");
        return false;
    }
    irlex_next(lex);
    if (!irlex_accept(lex, "("))
        return true;
    while (!irlex_at_line_end(lex) && !irlex_is(lex, ")"))
        irlex_next(lex);
    return irlex_expect(lex, ")");
}

bool irlex_codec(struct irlex *lex, struct codec *out) {
    size_t begin = lex->begin, end;
    do {
        if (!skip_codec_stage(lex))
            return false;
        end = lex->begin;
    } while (irlex_accept(lex, "|"));
    if (lex->failed)
        return false;
    while (end > begin && (lex->text[end - 1] == ' ' || lex->text[end - 1] == '\t'))
        end--;
    struct span at = {lex->base + (src_pos)begin, lex->base + (src_pos)end};
    if (end - begin >= CODEC_TEXT_BYTES) {
        irlex_error(lex, at, "a codec has at most %d bytes of text", CODEC_TEXT_BYTES - 1);
        return false;
    }
    char text[CODEC_TEXT_BYTES], why[256];
    memcpy(text, lex->text + begin, end - begin);
    text[end - begin] = 0;
    if (!codec_parse(text, out, why, sizeof why)) {
        irlex_error(lex, at, "%s", why);
        return false;
    }
    return true;
}

/* ---- lists of ranks ----------------------------------------------------------------------- */

/* `a` or `a..b` */
static bool read_run(struct irlex *lex, int32_t ranks, int32_t *first, int32_t *end) {
    struct span at = irlex_span(lex);
    if (!irlex_int(lex, ranks - 1, "a rank", first))
        return false;
    *end = *first + 1;
    if (!irlex_accept(lex, ".."))
        return true;
    at.end = irlex_span(lex).end;
    if (!irlex_int(lex, ranks, "the end of a range of ranks", end))
        return false;
    if (*end <= *first)
        irlex_error(lex, at, "an empty range of ranks");
    return !lex->failed;
}

bool irlex_ranks(struct irlex *lex, int32_t ranks, const int32_t **member, int32_t *members) {
    *members = 0;
    *member = arena_alloc(lex->arena, sizeof **member);
    if (irlex_accept(lex, "none"))
        return true;
    /* Two passes would read the list twice; one pass with room for all costs 8 bytes a rank for a
     * moment. */
    VEC(int32_t) list = {0};
    VEC(uint8_t) seen = {0};
    (void)VEC_ADD_N(&seen, (size_t)ranks);
    do {
        struct span at = irlex_span(lex);
        int32_t first, end;
        if (!read_run(lex, ranks, &first, &end))
            break;
        for (int32_t r = first; r < end && !lex->failed; r++) {
            if (seen.data[r]++)
                irlex_error(lex, at, "rank %d is in the list twice", r);
            VEC_PUSH(&list, r);
        }
    } while (irlex_accept(lex, ","));
    if (!lex->failed) {
        int32_t *copy = arena_array(lex->arena, list.count, sizeof *copy);
        memcpy(copy, list.data, list.count * sizeof *copy);
        *member = copy;
        *members = (int32_t)list.count;
    }
    VEC_FREE(&list);
    VEC_FREE(&seen);
    return !lex->failed;
}

void ranks_print(const int32_t *member, int32_t members, FILE *out) {
    if (!members)
        fputs("none", out);
    for (int32_t i = 0, n; i < members; i += n) {
        n = 1;
        while (i + n < members && member[i + n] == member[i] + n)
            n++;
        if (n < 3)
            n = 1;
        fprintf(out, "%s%d", i ? ", " : "", member[i]);
        if (n > 1)
            fprintf(out, "..%d", member[i] + n);
    }
}
