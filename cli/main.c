/* The `sluice` command: a table of subcommands. See commands.def, options.def and exits.def. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

const struct command commands[COMMAND_COUNT] = {
#define COMMAND(ID, name, operand, summary, text, examples) \
    {#name, operand, summary, text, examples, cmd_##name},
#include "cli/commands.def"
};

static void complain_list(const struct options *o, const char *format, va_list args) {
    bool colour = colour_on(o, stderr);
    char words[8192]; /* one write: the processes of `bench` share stderr */
    vsnprintf(words, sizeof words, format, args);
    fprintf(stderr, "sluice %s: %serror:%s %s\n", commands[o->command].name,
            style_on(colour, STYLE_BAD), style_off(colour), words);
}

void complain(const struct options *o, const char *format, ...) {
    va_list args;
    va_start(args, format);
    complain_list(o, format, args);
    va_end(args);
}

enum exit_code usage_error(const struct options *o, const char *format, ...) {
    va_list args;
    va_start(args, format);
    complain_list(o, format, args);
    va_end(args);
    fprintf(stderr, "see 'sluice %s --help'\n", commands[o->command].name);
    return EXIT_USAGE;
}

static void print_help(FILE *out) {
    fprintf(out,
            "usage: sluice COMMAND ...\n\n"
            "Collective communication that compresses on the way: schedules are proved correct,\n"
            "compiled, and run.\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(out, "\n'sluice help COMMAND' tells the rest, with examples.\n\nexit codes:\n");
#define EXIT_CODE(ID, number, meaning) fprintf(out, "  %-8d %s\n", number, meaning);
#include "cli/exits.def"
}

static enum exit_code unknown_command(const char *name) {
    const char *names[COMMAND_COUNT + 1];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
    }
    names[COMMAND_COUNT] = NULL;
    const char *near = nearest_name(name, names);
    fprintf(stderr, "sluice: error: unknown command '%s'", name);
    if (near) {
        fprintf(stderr, "; did you mean '%s'?", near);
    }
    fprintf(stderr, "\nsee 'sluice --help'\n");
    return EXIT_USAGE;
}

static enum exit_code run_command(enum command_id id, int argc, char **argv) {
    struct options o;
    enum exit_code code = EXIT_USAGE;
    if (options_parse(id, argc, argv, &o)) {
        if (o.help) {
            options_help(id, stdout);
            code = EXIT_OK;
        } else if (o.colour && strcmp(o.colour, "auto") != 0 && strcmp(o.colour, "always") != 0 &&
                   strcmp(o.colour, "never") != 0) {
            code = usage_error(&o, "--color takes auto, always or never, not '%s'", o.colour);
        } else {
            code = commands[id].run(&o);
        }
    }
    options_free(&o);
    return code;
}

/* COMMAND_COUNT: there is none of this name. */
static enum command_id find_command(const char *name) {
    int id = 0;
    while (id < COMMAND_COUNT && strcmp(name, commands[id].name) != 0) {
        id++;
    }
    return (enum command_id)id;
}

static enum exit_code help(int argc, char **argv) {
    if (argc == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    enum command_id id = find_command(argv[0]);
    if (id == COMMAND_COUNT) {
        return unknown_command(argv[0]);
    }
    options_help(id, stdout);
    return EXIT_OK;
}

static enum exit_code dispatch(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return help(argc - 2, argv + 2);
    }
    if (strcmp(name, "--version") == 0) {
        printf("sluice %s\n", SLUICE_VERSION);
        return EXIT_OK;
    }
    enum command_id id = find_command(name);
    return id == COMMAND_COUNT ? unknown_command(name) : run_command(id, argc - 2, argv + 2);
}

int main(int argc, char **argv) {
    signal(SIGPIPE,
           SIG_IGN); /* `sluice show | head` is no accident: a failed write is seen below */
    enum exit_code code = dispatch(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_OK) {
        if (errno != EPIPE) {
            fprintf(stderr, "sluice: error: cannot write to standard output: %s\n",
                    strerror(errno));
        }
        code = EXIT_IO;
    }
    return (int)code;
}
