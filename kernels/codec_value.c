/*
 * codec_value.c: codecs as values: built from a name and arguments, composed, printed, parsed,
 * compared. All of it is driven by the rows of codecs.def; nothing here knows a single codec.
 */
#include "kernels/codec_ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MILLION 1000000

static bool fail(char *err, size_t err_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(char *err, size_t err_bytes, const char *format, ...) {
    va_list args;

    va_start(args, format);
    if (err != NULL && err_bytes > 0)
        vsnprintf(err, err_bytes, format, args);
    va_end(args);
    return false;
}

struct codec codec_none(void) {
    struct codec c;

    memset(&c, 0, sizeof c);
    c.stage_count = 1;
    c.stages[0].kind = CODEC_NONE;
    return c;
}

static bool find_kind(const char *name, enum codec_kind *out) {
    for (int k = 0; k < CODEC_KIND_COUNT; k++) {
        if (strcmp(codec_info((enum codec_kind)k)->name, name) != 0)
            continue;
        *out = (enum codec_kind)k;
        return true;
    }
    return false;
}

/* The number of insertions, deletions and replacements that make b of a; big for long words. */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[32];
    size_t la = strlen(a), lb = strlen(b);

    if (la >= 32 || lb >= 32)
        return 99;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}

const char *codec_nearest(const char *name) {
    const char *nearest = NULL;
    size_t best = 3;

    for (int k = 0; k < CODEC_KIND_COUNT; k++) {
        const char *known = codec_info((enum codec_kind)k)->name;
        size_t distance = edit_distance(name, known);

        /* "quantize" means quant, "pac" means pack */
        if (strlen(name) > 2 &&
            (strncmp(name, known, strlen(known)) == 0 || strncmp(name, known, strlen(name)) == 0))
            distance = 1;
        if (distance >= best || distance >= strlen(known))
            continue;
        best = distance;
        nearest = known;
    }
    return nearest;
}

/* ---- numbers as the table keeps them ---- */

/* Writes 720000 as "0.72", independent of the locale. */
static void format_fraction(int64_t millionths, char *buf, size_t buf_bytes) {
    char digits[8];
    int len = 6;

    snprintf(digits, sizeof digits, "%06d", (int)(millionths % MILLION));
    while (len > 0 && digits[len - 1] == '0')
        len--;
    if (len == 0)
        snprintf(buf, buf_bytes, "%d", (int)(millionths / MILLION));
    else
        snprintf(buf, buf_bytes, "%d.%.*s", (int)(millionths / MILLION), len, digits);
}

static const char *const rounding_names[] = {"nearest", "stochastic"};

static void format_param(enum codec_param_kind kind, int64_t value, char *buf, size_t buf_bytes) {
    switch (kind) {
    case CODEC_PARAM_INT:
        snprintf(buf, buf_bytes, "%lld", (long long)value);
        return;
    case CODEC_PARAM_FRACTION:
        format_fraction(value, buf, buf_bytes);
        return;
    case CODEC_PARAM_TYPE:
        snprintf(buf, buf_bytes, "%s", wire_type_name((enum wire_type)value));
        return;
    case CODEC_PARAM_ROUNDING:
        snprintf(buf, buf_bytes, "%s", rounding_names[value]);
        return;
    }
}

/* "4, 6 or 8", "32 to 256 in steps of 32", "0.000001 to 1" */
static void format_range(const struct codec_param_info *p, char *buf, size_t buf_bytes) {
    char low[24], middle[24], high[24];

    format_param(p->kind, p->low, low, sizeof low);
    format_param(p->kind, p->low + p->step, middle, sizeof middle);
    format_param(p->kind, p->high, high, sizeof high);
    if (p->high - p->low == 2 * p->step)
        snprintf(buf, buf_bytes, "%s, %s or %s", low, middle, high);
    else if (p->step != 1)
        snprintf(buf, buf_bytes, "%s to %s in steps of %lld", low, high, (long long)p->step);
    else
        snprintf(buf, buf_bytes, "%s to %s", low, high);
}

static bool read_number(const char *codec, const struct codec_param_info *p,
                        const struct codec_arg *arg, int64_t *out, char *err, size_t err_bytes) {
    double scaled = p->kind == CODEC_PARAM_FRACTION ? arg->number * MILLION : arg->number;
    char range[96];

    format_range(p, range, sizeof range);
    if (arg->name != NULL)
        return fail(err, err_bytes, "the %s of '%s' is a number (%s), not '%s'", p->name, codec,
                    range, arg->name);
    if (!(scaled > -1e15 && scaled < 1e15) ||
        (p->kind == CODEC_PARAM_INT && scaled != floor(scaled)))
        return fail(err, err_bytes, "the %s of '%s' must be %s", p->name, codec, range);
    *out = llround(scaled);
    if (*out < p->low || *out > p->high || (*out - p->low) % p->step != 0)
        return fail(err, err_bytes, "the %s of '%s' must be %s", p->name, codec, range);
    return true;
}

static bool read_param(const char *codec, const struct codec_param_info *p,
                       const struct codec_arg *arg, int64_t *out, char *err, size_t err_bytes) {
    enum wire_type w;

    switch (p->kind) {
    case CODEC_PARAM_INT:
    case CODEC_PARAM_FRACTION:
        return read_number(codec, p, arg, out, err, err_bytes);
    case CODEC_PARAM_TYPE:
        if (arg->name == NULL)
            return fail(err, err_bytes, "the %s of '%s' is a name (%s), not a number", p->name,
                        codec, p->help);
        if (!wire_type_parse(arg->name, &w))
            return fail(err, err_bytes, "the %s of '%s' must be %s, not '%s'", p->name, codec,
                        p->help, arg->name);
        *out = (int64_t)w;
        return true;
    case CODEC_PARAM_ROUNDING:
        if (arg->name == NULL)
            return fail(err, err_bytes, "the %s of '%s' is a name (%s), not a number", p->name,
                        codec, p->help);
        for (*out = 0; *out < 2; ++*out)
            if (strcmp(rounding_names[*out], arg->name) == 0)
                return true;
        return fail(err, err_bytes, "the %s of '%s' must be %s, not '%s'", p->name, codec, p->help,
                    arg->name);
    }
    return false;
}

bool codec_make(const char *name, const struct codec_arg *args, size_t arg_count, struct codec *out,
                char *err, size_t err_bytes) {
    const struct codec_info *info;
    const struct codec_ops *ops;
    struct codec c = codec_none();
    struct codec_stage *s = &c.stages[0];

    if (!find_kind(name, &s->kind)) {
        const char *near = codec_nearest(name);

        if (near != NULL)
            return fail(err, err_bytes, "unknown codec '%s'; did you mean '%s'?", name, near);
        return fail(err, err_bytes, "unknown codec '%s'", name);
    }
    info = codec_info(s->kind);
    ops = codec_ops_of(s->kind);
    if (arg_count > info->param_count) {
        if (info->param_count == 0)
            return fail(err, err_bytes, "'%s' takes no arguments", name);
        return fail(err, err_bytes, "'%s' takes at most %zu argument%s, got %zu", name,
                    info->param_count, info->param_count == 1 ? "" : "s", arg_count);
    }
    for (size_t i = 0; i < info->param_count; i++) {
        const struct codec_param_info *p = &info->params[i];

        if (i < arg_count) {
            if (!read_param(name, p, &args[i], &s->params[i], err, err_bytes))
                return false;
        } else if (p->fallback == CODEC_REQUIRED) {
            return fail(err, err_bytes, "'%s' needs its %s: %s", name, p->name, p->help);
        } else {
            s->params[i] = p->fallback;
        }
    }
    if (ops->refuse != NULL) {
        const char *why = ops->refuse(s);

        if (why != NULL)
            return fail(err, err_bytes, "%s", why);
    }
    *out = c;
    return true;
}

/* Why a stage cannot take what the one before leaves; the message in full. */
static bool refuse_order(const struct codec_stage *last, const struct codec_stage *next, char *err,
                         size_t err_bytes) {
    const char *before = codec_info(last->kind)->name, *name = codec_info(next->kind)->name;
    const struct codec_ops *ops = codec_ops_of(next->kind);

    switch (codec_info(last->kind)->leaves) {
    case CODEC_LEAVES_BYTES:
        return fail(err, err_bytes,
                    "'%s' cannot follow '%s', which leaves packed bytes and no values", name,
                    before);
    case CODEC_LEAVES_NUMBERS:
        return fail(err, err_bytes, "'%s' cannot follow '%s': %s", name, before, ops->no_numbers);
    case CODEC_LEAVES_BITS:
        return fail(err, err_bytes,
                    "'%s' cannot follow '%s', which leaves differences of bits and no numbers",
                    name, before);
    case CODEC_LEAVES_PICKS:
        return fail(err, err_bytes, "'%s' cannot follow '%s', which leaves the largest values: %s",
                    name, before, ops->no_picks);
    }
    return false;
}

bool codec_compose(const struct codec *a, const struct codec *b, struct codec *out, char *err,
                   size_t err_bytes) {
    const struct codec_stage *last = &a->stages[a->stage_count - 1], *next = &b->stages[0];
    const struct codec_ops *ops = codec_ops_of(last->kind);
    struct codec c = *a;
    char text[CODEC_TEXT_BYTES];

    if (codec_is_none(b)) {
        *out = c;
        return true;
    }
    if (codec_is_none(a)) {
        *out = *b;
        return true;
    }
    if (codec_info(last->kind)->leaves == CODEC_LEAVES_BYTES)
        return refuse_order(last, next, err, err_bytes);
    if (ops->leaves != NULL && ops->leaves(last, DTYPE_F32) == DTYPE_COUNT)
        return fail(err, err_bytes, "'%s' cannot follow '%s': no other codec takes its values",
                    codec_info(next->kind)->name, codec_format(a, text, sizeof text));
    if ((codec_info(next->kind)->follows >> codec_info(last->kind)->leaves & 1) == 0)
        return refuse_order(last, next, err, err_bytes);
    if (a->stage_count + b->stage_count > CODEC_MAX_STAGES)
        return fail(err, err_bytes, "a codec has at most %d stages", CODEC_MAX_STAGES);
    for (int32_t i = 0; i < b->stage_count; i++)
        c.stages[c.stage_count++] = b->stages[i];
    *out = c;
    return true;
}

/* ---- text ---- */

static void append(char *buf, size_t buf_bytes, const char *text) {
    size_t len = strlen(buf);

    if (len < buf_bytes)
        snprintf(buf + len, buf_bytes - len, "%s", text);
}

static void format_stage(const struct codec_stage *s, char *buf, size_t buf_bytes) {
    const struct codec_info *info = codec_info(s->kind);
    size_t shown = info->param_count;

    while (shown > 0 && s->params[shown - 1] == info->params[shown - 1].fallback)
        shown--;
    append(buf, buf_bytes, info->name);
    for (size_t i = 0; i < shown; i++) {
        char number[32];

        format_param(info->params[i].kind, s->params[i], number, sizeof number);
        append(buf, buf_bytes, i == 0 ? "(" : ", ");
        append(buf, buf_bytes, number);
    }
    if (shown > 0)
        append(buf, buf_bytes, ")");
}

char *codec_format(const struct codec *c, char *buf, size_t buf_bytes) {
    if (buf_bytes == 0)
        return buf;
    buf[0] = 0;
    for (int32_t i = 0; i < c->stage_count; i++) {
        if (i > 0)
            append(buf, buf_bytes, " | ");
        format_stage(&c->stages[i], buf, buf_bytes);
    }
    return buf;
}

static const char *skip_space(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
        at++;
    return at;
}

static bool is_word(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_';
}

/* A name into word; the end of it, or NULL when there is none or it is too long. */
static const char *parse_word(const char *at, char *word, size_t word_bytes) {
    size_t len = 0;

    if (*at >= '0' && *at <= '9')
        return NULL;
    while (is_word(*at)) {
        if (len + 1 >= word_bytes)
            return NULL;
        word[len++] = *at++;
    }
    word[len] = 0;
    return len > 0 ? at : NULL;
}

/* A decimal number without sign or exponent; the end of it, or NULL. */
static const char *parse_decimal(const char *at, double *out) {
    double value = 0, scale = 1;
    bool any = false;

    for (; *at >= '0' && *at <= '9'; at++, any = true)
        value = value * 10 + (*at - '0');
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++, any = true) {
            value = value * 10 + (*at - '0');
            scale *= 10;
        }
    *out = value / scale;
    return any ? at : NULL;
}

static const char *parse_args(const char *at, struct codec_arg *args, char names[][16],
                              size_t *count) {
    *count = 0;
    if (*at != '(')
        return at;
    at = skip_space(at + 1);
    if (*at == ')')
        return at + 1;
    for (;;) {
        struct codec_arg *arg = &args[*count];
        const char *end;

        if (*count == CODEC_MAX_PARAMS + 1)
            return NULL;
        memset(arg, 0, sizeof *arg);
        end = parse_word(at, names[*count], 16);
        if (end != NULL)
            arg->name = names[*count];
        else
            end = parse_decimal(at, &arg->number);
        if (end == NULL)
            return NULL;
        (*count)++;
        at = skip_space(end);
        if (*at == ')')
            return at + 1;
        if (*at != ',')
            return NULL;
        at = skip_space(at + 1);
    }
}

bool codec_parse(const char *text, struct codec *out, char *err, size_t err_bytes) {
    struct codec whole = codec_none();
    const char *at = skip_space(text);

    for (bool first = true;; first = false) {
        struct codec_arg args[CODEC_MAX_PARAMS + 1];
        char names[CODEC_MAX_PARAMS + 1][16], word[32];
        struct codec stage;
        size_t count;

        at = parse_word(at, word, sizeof word);
        if (at == NULL)
            return fail(err, err_bytes, "expected the name of a codec");
        at = parse_args(skip_space(at), args, names, &count);
        if (at == NULL)
            return fail(err, err_bytes, "expected arguments of '%s' in '()'", word);
        if (!codec_make(word, args, count, &stage, err, err_bytes))
            return false;
        if (first)
            whole = stage;
        else if (!codec_compose(&whole, &stage, &whole, err, err_bytes))
            return false;
        at = skip_space(at);
        if (*at == 0)
            break;
        if (*at != '|')
            return fail(err, err_bytes, "expected '|' or the end after a codec");
        at = skip_space(at + 1);
    }
    *out = whole;
    return true;
}

/* ---- comparison ---- */

bool codec_equal(const struct codec *a, const struct codec *b) {
    if (a->stage_count != b->stage_count)
        return false;
    for (int32_t i = 0; i < a->stage_count; i++) {
        if (a->stages[i].kind != b->stages[i].kind)
            return false;
        for (size_t p = 0; p < CODEC_MAX_PARAMS; p++)
            if (a->stages[i].params[p] != b->stages[i].params[p])
                return false;
    }
    return true;
}

uint64_t codec_hash(const struct codec *c) {
    char text[CODEC_TEXT_BYTES];
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a over the canonical text */

    codec_format(c, text, sizeof text);
    for (const char *at = text; *at != 0; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return hash;
}
