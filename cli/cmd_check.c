/* sluice check: compile, prove, and say what was proved; for one or many numbers of ranks. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* All properties, one a line: for a single number of ranks. */
static void print_all(const struct options *o, const char *path, const struct compilation *c) {
    char count[NUMBER_TEXT_BYTES], ranks[NUMBER_TEXT_BYTES];
    bool colour = colour_on(o, stdout);
    printf("%s: %s%s%s, %s, %s %s, %s\n", path, style_on(colour, STYLE_BOLD), c->flow->name,
           style_off(colour), format_count(ranks, (uint64_t)c->setup.ranks, "rank"),
           dtype_name(c->setup.dtype), redop_name(c->setup.redop),
           format_count(count, c->setup.count, "element"));
    print_proved(c, colour);
}

/* One line: for a list of numbers. */
static void print_line(const struct options *o, const char *path, int32_t ranks,
                       const struct compilation *c, double seconds, bool repeated) {
    char time[NUMBER_TEXT_BYTES], messages[NUMBER_TEXT_BYTES], count[NUMBER_TEXT_BYTES];
    bool ok = compilation_ok(c), colour = colour_on(o, stdout);
    printf("%s%s%s  %s, %s", style_on(colour, ok ? STYLE_GOOD : STYLE_BAD),
           ok ? "proved" : "failed", style_off(colour), path,
           format_count(count, (uint64_t)ranks, "rank"));
    if (ok) {
        printf(": %zu properties, %s, %s", c->proved.count,
               format_count(messages, c->tasks->messages.count, "message"),
               format_seconds(time, seconds));
    }
    printf(repeated ? ": the same errors\n" : "\n");
}

static void print_json(struct json *j, const char *path, int32_t ranks, const struct compilation *c,
                       double seconds) {
    json_open(j, NULL, '{');
    json_text(j, "file", path);
    json_integer(j, "ranks", (uint64_t)ranks);
    json_bool(j, "ok", compilation_ok(c));
    if (compilation_ok(c)) {
        json_text(j, "schedule", c->flow->name);
        json_text(j, "dtype", dtype_name(c->setup.dtype));
        json_text(j, "op", redop_name(c->setup.redop));
        json_integer(j, "count", c->setup.count);
        json_integer(j, "transfers", c->flow->transfers);
        json_integer(j, "messages", c->tasks->messages.count);
        json_integer(j, "tasks", c->tasks->tasks.count);
        json_proved(j, "proved", c);
    }
    json_number(j, "seconds", seconds);
    json_diagnostics(j, "diagnostics", c->diag);
    json_close(j, '}');
}

/* A file that cannot be read has an object too; why is on stderr. */
static enum exit_code pass_over(const char *path, struct json *json) {
    if (json) {
        json_open(json, NULL, '{');
        json_text(json, "file", path);
        json_bool(json, "ok", false);
        json_text(json, "error", "cannot be read");
        json_close(json, '}');
    }
    return EXIT_IO;
}

/* Whether the errors are word for word those of the ranks before: of a file that is no schedule at
 * all, say. *said keeps them for the ranks to come. */
static bool said_before(const struct compilation *c, char **said) {
    char *text = NULL;
    size_t bytes;
    FILE *out = compilation_ok(c) ? NULL : open_memstream(&text, &bytes);
    if (!out) {
        return false;
    }
    diag_print(c->diag, out, false);
    fclose(out);
    bool same = text && *said && strcmp(text, *said) == 0;
    free(*said);
    *said = text;
    return same;
}

static enum exit_code check_one(struct job *job, const char *path, int32_t ranks, bool alone,
                                struct json *json, char **said) {
    const struct options *o = job->o;
    if (!job_set_ranks(job, ranks)) {
        return EXIT_USAGE;
    }
    double started = now_seconds();
    struct compilation *c = compile_file(path, &job->compile);
    double seconds = now_seconds() - started;
    bool repeated = c && !json && said_before(c, said);
    enum exit_code code = repeated ? EXIT_INPUT : report(o, c);
    if (!c) {
        return code;
    }
    if (json) {
        print_json(json, path, ranks, c, seconds);
    } else if (!o->quiet && !alone) {
        print_line(o, path, ranks, c, seconds, repeated);
    } else if (!o->quiet && code == EXIT_OK) {
        print_all(o, path, c);
    }
    compilation_free(c);
    return code;
}

/* The first code that is not EXIT_OK; a file that is wrong or cannot be read does not keep the
 * others from being checked. */
static enum exit_code check_all(struct job *job, const int32_t *ranks, size_t count,
                                struct json *json) {
    const struct options *o = job->o;
    struct progress progress = progress_start(o);
    uint64_t total = (uint64_t)o->operands.count * count, done = 0;
    bool alone = total == 1;
    enum exit_code code = EXIT_OK;
    for (size_t f = 0; f < o->operands.count; f++) {
        if (!schedule_readable(o, o->operands.items[f])) {
            enum exit_code one = pass_over(o->operands.items[f], json);
            code = code == EXIT_OK ? one : code;
            done += count;
            continue;
        }
        char *said = NULL;
        for (size_t i = 0; i < count; i++) {
            progress_show(&progress, "checked", done++, total);
            enum exit_code one = check_one(job, o->operands.items[f], ranks[i], alone, json, &said);
            code = code == EXIT_OK ? one : code;
            if (one == EXIT_USAGE || one == EXIT_INTERNAL) {
                f = o->operands.count;
                break;
            }
        }
        free(said);
    }
    progress_end(&progress);
    return code;
}

enum exit_code cmd_check(const struct options *o) {
    if (!o->operands.count) {
        return usage_error(o, "which file?");
    }
    struct job job;
    size_t count;
    enum exit_code code = EXIT_USAGE;
    int32_t *ranks = ranks_parse(o, "8", &count);
    if (ranks && job_start(&job, o)) {
        struct json json = json_start(stdout);
        if (o->json) {
            json_open(&json, NULL, '[');
        }
        code = check_all(&job, ranks, count, o->json ? &json : NULL);
        if (o->json) {
            json_close(&json, ']');
        }
        job_free(&job);
    }
    free(ranks);
    return code;
}
