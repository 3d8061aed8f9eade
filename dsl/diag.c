/* Messages. Collected while the compiler looks for more, then printed as clang prints them, or
 * as JSON.
 *
 *     ring.slc:4:22: error: expected '@' after chunk index, found ';'
 *         copy data[0] -> dst[0];
 *                      ^~
 *     ring.slc:3:5: note: ...
 * / */
#include "dsl/parser.h"

#include <stdarg.h>
#include <string.h>

enum {
    MAX_ERRORS = 20,
    MAX_WARNINGS = 50,
    MAX_NOTES = 40, /* of one message */
    LONGEST_LINE =
        200, /* characters of a source line that are shown; a longer one is cut on both sides */
    LINE_BEFORE_CARET = 80, /* of them before the caret */
};

struct message {
    enum severity severity;
    struct span at;
    const char *text;
    struct message *notes, *last_note;
    unsigned note_count;
    struct message *next;
};

struct diag {
    struct arena *arena;
    struct sources *sources;
    struct message *first, *last;
    struct message *current; /* what a note belongs to; NULL: dropped */
    unsigned errors, errors_kept, warnings_kept;
};

struct diag *diag_new(struct arena *a, struct sources *s) {
    struct diag *d = arena_alloc(a, sizeof *d);
    d->arena = a;
    d->sources = s;
    return d;
}

/* The same message at the same place, as when a loop leads there again. */
static bool is_repeated(const struct diag *d, enum severity sev, struct span at, const char *text) {
    for (const struct message *m = d->first; m; m = m->next)
        if (m->severity == sev && m->at.begin == at.begin && m->at.end == at.end &&
            strcmp(m->text, text) == 0)
            return true;
    return false;
}

static struct message *message_new(struct diag *d, enum severity sev, struct span at,
                                   const char *text) {
    struct message *m = arena_alloc(d->arena, sizeof *m);
    m->severity = sev;
    m->at = at;
    m->text = text;
    return m;
}

static void add_note(struct diag *d, struct span at, const char *text) {
    struct message *owner = d->current;
    if (!owner || owner->note_count == MAX_NOTES)
        return;
    struct message *note = message_new(d, SEV_NOTE, at, text);
    if (owner->last_note)
        owner->last_note->next = note;
    else
        owner->notes = note;
    owner->last_note = note;
    owner->note_count++;
}

void diag_report(struct diag *d, enum severity sev, struct span at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (sev == SEV_NOTE) {
        if (d->current)
            add_note(d, at, arena_vprintf(d->arena, format, args));
        va_end(args);
        return;
    }
    bool is_error = sev == SEV_ERROR;
    d->current = NULL;
    if (is_error ? d->errors_kept == MAX_ERRORS : d->warnings_kept == MAX_WARNINGS) {
        d->errors += is_error;
        va_end(args);
        return;
    }
    char *text = arena_vprintf(d->arena, format, args);
    va_end(args);
    if (is_repeated(d, sev, at, text))
        return;
    d->errors += is_error;
    d->errors_kept += is_error;
    d->warnings_kept += !is_error;
    struct message *m = message_new(d, sev, at, text);
    if (d->last)
        d->last->next = m;
    else
        d->first = m;
    d->last = d->current = m;
}

unsigned diag_errors(const struct diag *d) {
    return d->errors;
}

bool diag_full(const struct diag *d) {
    return d->errors_kept == MAX_ERRORS;
}

/* ---- as text ------------------------------------------------------------------------------ */

static const char *severity_name(enum severity sev) {
    switch (sev) {
    case SEV_ERROR:
        return "error";
    case SEV_WARNING:
        return "warning";
    case SEV_NOTE:
        return "note";
    }
    return "";
}

static const char *severity_colour(enum severity sev) {
    switch (sev) {
    case SEV_ERROR:
        return "\033[1;31m";
    case SEV_WARNING:
        return "\033[1;35m";
    case SEV_NOTE:
        return "\033[1;36m";
    }
    return "";
}

/* One character at the start of text, as it may be shown: never a control character, never
 * invalid UTF-8. */
struct shown {
    size_t bytes;      /* taken from the text */
    const char *print; /* NULL: the text itself */
    unsigned columns;
};

static struct shown shown_char(const char *text, size_t bytes) {
    uint32_t code = 0;
    size_t length = utf8_decode(text, bytes, &code);
    if (length == 0)
        return (struct shown){.bytes = 1, .print = "\xEF\xBF\xBD", .columns = 1};
    if (utf8_is_control(code))
        return (struct shown){.bytes = length, .print = "\xEF\xBF\xBD", .columns = 1};
    return (struct shown){.bytes = length, .columns = utf8_columns(code)};
}

static void print_shown(const char *text, size_t bytes, bool keep_tabs, FILE *out) {
    for (size_t i = 0; i < bytes;) {
        struct shown c = shown_char(text + i, bytes - i);
        if (text[i] == '\t' && keep_tabs)
            fputc('\t', out);
        else if (c.print)
            fputs(c.print, out);
        else
            fwrite(text + i, 1, c.bytes, out);
        i += c.bytes;
    }
}

/* Steps back over whole characters. */
static size_t step_back(const char *text, size_t from, size_t floor, unsigned chars) {
    while (chars && from > floor) {
        from--;
        while (from > floor && ((unsigned char)text[from] & 0xC0) == 0x80)
            from--;
        chars--;
    }
    return from;
}

static size_t step_forward(const char *text, size_t from, size_t end, unsigned chars) {
    while (chars && from < end) {
        from += shown_char(text + from, end - from).bytes;
        chars--;
    }
    return from;
}

static void print_caret_line(const char *text, size_t from, size_t caret, size_t to, size_t end,
                             bool cut, FILE *out) {
    if (cut)
        fputs("   ", out);
    for (size_t i = from; i < caret;) {
        struct shown c = shown_char(text + i, end - i);
        if (text[i] == '\t')
            fputc('\t', out);
        else
            for (unsigned k = 0; k < c.columns; k++)
                fputc(' ', out);
        i += c.bytes;
    }
    char mark = '^';
    for (size_t i = caret; i < to;) {
        struct shown c = shown_char(text + i, end - i);
        if (text[i] == '\t' && mark == '~') {
            fputc('\t', out);
        } else {
            for (unsigned k = 0; k < c.columns; k++, mark = '~')
                fputc(mark, out);
        }
        i += c.bytes;
    }
    if (mark == '^')
        fputc(mark, out);
}

static void print_snippet(const struct diag *d, struct span at, bool colour, FILE *out) {
    size_t bytes;
    const char *text = sources_text(d->sources, at.begin, &bytes);
    if (!text)
        return;
    src_pos base = sources_base(d->sources, at.begin);
    size_t caret = at.begin - base;
    size_t line = caret;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    const char *newline = memchr(text + caret, '\n', bytes - caret);
    size_t end = newline ? (size_t)(newline - text) : bytes;
    if (end > caret && text[end - 1] == '\r')
        end--;
    if (memchr(text + line, '\0', end - line))
        return; /* not text: there is nothing to see */
    size_t from = line, to = step_forward(text, line, end, LONGEST_LINE);
    if (to < end) { /* too long to show whole */
        from = step_back(text, caret, line, LINE_BEFORE_CARET);
        to = step_forward(text, from, end, LONGEST_LINE);
    }
    fputs(from > line ? "..." : "", out);
    print_shown(text + from, to - from, true, out);
    fputs(to < end ? "...\n" : "\n", out);
    size_t stop = at.end > at.begin ? at.end - base : caret;
    fputs(colour ? "\033[1;32m" : "", out);
    print_caret_line(text, from, caret, stop < to ? stop : to, end, from > line, out);
    fputs(colour ? "\033[0m\n" : "\n", out);
}

static void print_message(const struct diag *d, const struct message *m, bool colour, FILE *out) {
    fputs(colour ? "\033[1m" : "", out);
    if (m->at.begin) {
        struct location l = sources_locate(d->sources, m->at.begin);
        print_shown(l.file, strlen(l.file), false, out);
        fprintf(out, ":%u:%u: ", l.line, l.column);
    }
    fprintf(out, "%s%s:%s ", colour ? severity_colour(m->severity) : "", severity_name(m->severity),
            colour ? "\033[0m\033[1m" : "");
    print_shown(m->text, strlen(m->text), false, out);
    fputs(colour ? "\033[0m\n" : "\n", out);
    if (m->at.begin)
        print_snippet(d, m->at, colour, out);
    for (const struct message *note = m->notes; note; note = note->next)
        print_message(d, note, colour, out);
}

void diag_print(const struct diag *d, FILE *out, bool colour) {
    for (const struct message *m = d->first; m; m = m->next)
        print_message(d, m, colour, out);
    unsigned dropped = d->errors - d->errors_kept;
    if (dropped)
        fprintf(out, "%u more error%s not shown\n", dropped, dropped == 1 ? "" : "s");
    else if (diag_full(d))
        fprintf(out, "stopped after %d errors\n", MAX_ERRORS);
}

/* ---- as JSON ------------------------------------------------------------------------------ */

static void print_json_string(const char *text, FILE *out) {
    size_t bytes = strlen(text);
    fputc('"', out);
    for (size_t i = 0; i < bytes;) {
        uint32_t code = 0xFFFD;
        size_t length = utf8_decode(text + i, bytes - i, &code);
        if (length == 0)
            fputs("\\ufffd", out);
        else if (code < 0x20 || code == 0x7F)
            fprintf(out, "\\u%04x", (unsigned)code);
        else if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else
            fwrite(text + i, 1, length, out);
        i += length ? length : 1;
    }
    fputc('"', out);
}

static void print_json_messages(const struct diag *d, const struct message *first, int indent,
                                FILE *out);

static void print_json_message(const struct diag *d, const struct message *m, int indent,
                               FILE *out) {
    fprintf(out, "{\"severity\": \"%s\", ", severity_name(m->severity));
    if (m->at.begin) {
        struct location begin = sources_locate(d->sources, m->at.begin);
        struct location end = begin;
        if (m->at.end > m->at.begin)
            end = sources_locate(d->sources, m->at.end);
        fputs("\"file\": ", out);
        print_json_string(begin.file, out);
        fprintf(out, ", \"line\": %u, \"column\": %u, \"end_line\": %u, \"end_column\": %u, ",
                begin.line, begin.column, end.line, end.column);
    }
    fputs("\"message\": ", out);
    print_json_string(m->text, out);
    if (m->severity != SEV_NOTE) {
        fputs(", \"notes\": ", out);
        print_json_messages(d, m->notes, indent, out);
    }
    fputc('}', out);
}

/* The array that holds these messages, on a line that is indented so far. */
static void print_json_messages(const struct diag *d, const struct message *first, int indent,
                                FILE *out) {
    fputc('[', out);
    for (const struct message *m = first; m; m = m->next) {
        fprintf(out, "%s\n%*s", m == first ? "" : ",", indent + 2, "");
        print_json_message(d, m, indent + 2, out);
    }
    if (first)
        fprintf(out, "\n%*s", indent, "");
    fputc(']', out);
}

void diag_print_json(const struct diag *d, int indent, FILE *out) {
    print_json_messages(d, d->first, indent, out);
}
