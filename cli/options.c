/* One option parser for all commands: a table (options.def), a scanner of words, and the help text.
 *
 * --name value, --name=value, -n value, -nvalue; `--` ends options; options and operands mix.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    FOR_CHECK = 1 << COMMAND_CHECK,
    FOR_SHOW = 1 << COMMAND_SHOW,
    FOR_RUN = 1 << COMMAND_RUN,
    FOR_OPT = 1 << COMMAND_OPT,
    FOR_BENCH = 1 << COMMAND_BENCH,
    FOR_COMPILING = FOR_CHECK | FOR_SHOW | FOR_RUN,
    FOR_ALL = (1 << COMMAND_COUNT) - 1
};

enum option_kind { KIND_FLAG, KIND_TEXT, KIND_NUMBER, KIND_SIZE, KIND_LIST };

struct option {
    enum option_kind kind;
    char letter;
    unsigned commands;
    const char *name, *metavar, *help;
    int64_t low, high;
    size_t offset;
};

static const struct option table[] = {
#define OPTION(kind, field, letter, name, metavar, low, high, commands, help) \
    {KIND_##kind, letter,  commands,                                          \
     name,        metavar, help,                                              \
     low,         high,    offsetof(struct options, field)},
#include "cli/options.def"
};
enum { OPTION_COUNT = sizeof table / sizeof *table };

static bool is_for(const struct option *option, enum command_id command) {
    return (option->commands >> command & 1u) != 0;
}

static bool list_add(struct text_list *list, const char *item) {
    const char **items = realloc(list->items, (list->count + 2) * sizeof *items);
    if (!items) {
        return false;
    }
    list->items = items;
    items[list->count++] = item;
    items[list->count] = NULL;
    return true;
}

bool size_parse(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || errno == ERANGE || *text < '0' || *text > '9') {
        return false;
    }
    int shift = 0;
    if (*end) {
        const char *suffix = strchr("KMGT", *end >= 'a' ? *end - 'a' + 'A' : *end);
        if (!suffix || end[1]) {
            return false;
        }
        shift = 10 * (int)(suffix - "KMGT" + 1);
    }
    if (n > INT64_MAX >> shift) {
        return false;
    }
    *out = (int64_t)n << shift;
    return true;
}

/* What the user wrote, for messages: "--ranks" or "-n". */
static const char *spelled(const struct option *option, bool by_letter, char buf[64]) {
    if (by_letter) {
        snprintf(buf, 64, "-%c", option->letter);
    } else {
        snprintf(buf, 64, "--%s", option->name);
    }
    return buf;
}

static bool store_number(struct options *o, const struct option *option, const char *name,
                         const char *value) {
    int64_t n;
    char *end;
    if (option->kind == KIND_SIZE) {
        if (!size_parse(value, &n)) {
            usage_error(o, "%s takes a number with an optional suffix K, M or G, not '%s'", name,
                        value);
            return false;
        }
    } else {
        errno = 0;
        n = strtoll(value, &end, 10);
        if (end == value || *end || errno == ERANGE) {
            usage_error(o, "%s takes a number, not '%s'", name, value);
            return false;
        }
    }
    if (n < option->low || n > option->high) {
        usage_error(o, "%s is %lld, it must be from %lld to %lld", name, (long long)n,
                    (long long)option->low, (long long)option->high);
        return false;
    }
    *(int64_t *)((char *)o + option->offset) = n;
    return true;
}

static bool store(struct options *o, const struct option *option, const char *name,
                  const char *value) {
    char *field = (char *)o + option->offset;
    switch (option->kind) {
    case KIND_FLAG:
        *(bool *)field = true;
        return true;
    case KIND_TEXT:
        *(const char **)field = value;
        return true;
    case KIND_LIST:
        return list_add((struct text_list *)field, value);
    case KIND_NUMBER:
    case KIND_SIZE:
        return store_number(o, option, name, value);
    }
    return false;
}

/* An unknown option: perhaps a slip, perhaps one of another command. */
static void report_unknown(struct options *o, const char *name) {
    const char *known[OPTION_COUNT + 1];
    size_t n = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (is_for(&table[i], o->command)) {
            known[n++] = table[i].name;
        } else if (strcmp(table[i].name, name) == 0) {
            usage_error(o, "'sluice %s' has no option '--%s'", commands[o->command].name, name);
            return;
        }
    }
    known[n] = NULL;
    const char *near = nearest_name(name, known);
    if (near) {
        usage_error(o, "unknown option '--%s'; did you mean '--%s'?", name, near);
    } else {
        usage_error(o, "unknown option '--%s'", name);
    }
}

static const struct option *find_long(struct options *o, const char *name, size_t length) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (is_for(&table[i], o->command) && strlen(table[i].name) == length &&
            memcmp(table[i].name, name, length) == 0) {
            return &table[i];
        }
    }
    char copy[64];
    snprintf(copy, sizeof copy, "%.*s", length < 63 ? (int)length : 63, name);
    report_unknown(o, copy);
    return NULL;
}

static const struct option *find_letter(struct options *o, char letter) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (is_for(&table[i], o->command) && table[i].letter == letter) {
            return &table[i];
        }
    }
    usage_error(o, "unknown option '-%c'", letter);
    return NULL;
}

/* One word that starts with a dash; *at is moved on when its value is the next word. */
static bool parse_option(struct options *o, int argc, char **argv, int *at) {
    const char *word = argv[*at], *value = NULL;
    bool by_letter = word[1] != '-';
    const struct option *option;
    char name[64];
    if (by_letter) {
        option = find_letter(o, word[1]);
        value = word[2] ? word + 2 : NULL;
    } else {
        const char *equals = strchr(word, '=');
        option = find_long(o, word + 2, equals ? (size_t)(equals - word) - 2 : strlen(word) - 2);
        value = equals ? equals + 1 : NULL;
    }
    if (!option) {
        return false;
    }
    spelled(option, by_letter, name);
    if (option->kind == KIND_FLAG) {
        if (value) {
            usage_error(o, "%s takes no value", name);
            return false;
        }
        return store(o, option, name, NULL);
    }
    if (!value) {
        if (*at + 1 >= argc) {
            usage_error(o, "%s needs a value: %s", name, option->metavar);
            return false;
        }
        value = argv[++*at];
    }
    return store(o, option, name, value);
}

static void set_unset(struct options *o) {
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (table[i].kind == KIND_NUMBER || table[i].kind == KIND_SIZE) {
            *(int64_t *)((char *)o + table[i].offset) = -1;
        }
    }
}

bool options_parse(enum command_id command, int argc, char **argv, struct options *out) {
    set_unset(out);
    out->command = command;
    bool only_operands = false;
    for (int at = 0; at < argc; at++) {
        const char *word = argv[at];
        if (only_operands || word[0] != '-' || !word[1]) {
            if (!list_add(&out->operands, word)) {
                return false;
            }
        } else if (strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (!parse_option(out, argc, argv, &at)) {
            return false;
        }
    }
    return true;
}

void options_free(struct options *o) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (table[i].kind == KIND_LIST) {
            free(((struct text_list *)((char *)o + table[i].offset))->items);
        }
    }
    free(o->operands.items);
}

/* "-n, --ranks N", padded; the help begins in the same column on every line. */
static void print_option(const struct option *option, FILE *out) {
    char left[64];
    int n = option->letter ? snprintf(left, sizeof left, "-%c, ", option->letter)
                           : snprintf(left, sizeof left, "    ");
    snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", option->name,
             option->metavar ? " " : "", option->metavar ? option->metavar : "");
    fprintf(out, "  %-26s  %s\n", left, option->help);
}

/* The examples of commands.def: "COMMAND  remark" lines. */
static void print_examples(const char *examples, FILE *out) {
    fprintf(out, "\nexamples:\n");
    for (const char *line = examples; *line;) {
        const char *end = strchr(line, '\n');
        const char *gap = strstr(line, "  ");
        if (!end || !gap || gap > end) {
            return;
        }
        fprintf(out, "  # %.*s\n  %.*s\n", (int)(end - gap - 2), gap + 2, (int)(gap - line), line);
        line = end + 1;
    }
}

void options_help(enum command_id command, FILE *out) {
    const struct command *c = &commands[command];
    fprintf(out, "usage: sluice %s %s [OPTION...]\n\n%s\noptions:\n", c->name, c->operand, c->text);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (is_for(&table[i], command)) {
            print_option(&table[i], out);
        }
    }
    if (command == COMMAND_RUN || command == COMMAND_BENCH) {
        fprintf(out, "\nvalues of --generate:\n");
        for (size_t k = 0; k < INPUT_KIND_COUNT; k++) {
            fprintf(out, "  %-26s  %s\n", input_kind_name((enum input_kind)k),
                    input_kind_help((enum input_kind)k));
        }
    }
    print_examples(c->examples, out);
}
