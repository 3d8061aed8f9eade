/* The one internal header of cli/: the `sluice` command.
 *
 *   main.c       the table of commands, dispatch, `sluice --help`
 *   options.c    one option parser and help printer for all commands, driven by options.def
 *   term.c       colour, progress, numbers for people
 *   json.c       JSON for machines
 *   job.c        options -> what the compiler wants to know
 *   run_data.c   the memory of all ranks: filled, compared, written
 *   run_room.c   whether a run fits the memory there is
 *   cmd_*.c      one file a command (commands.def)
 */
#ifndef SLUICE_CLI_H
#define SLUICE_CLI_H

#include "compiler/compiler.h"
#include "runtime/executor.h"
#include "runtime/inputs.h"

enum exit_code {
#define EXIT_CODE(ID, number, meaning) EXIT_##ID = number,
#include "cli/exits.def"
};

enum command_id {
#define COMMAND(ID, ...) COMMAND_##ID,
#include "cli/commands.def"
    COMMAND_COUNT
};

/* ---- options.c ---------------------------------------------------------------------------- */

struct text_list {
    const char **items; /* NULL-terminated */
    size_t count;
};

#define OPTION_FIELD_FLAG(field)   bool field;
#define OPTION_FIELD_TEXT(field)   const char *field;
#define OPTION_FIELD_NUMBER(field) int64_t field;
#define OPTION_FIELD_SIZE(field)   int64_t field;
#define OPTION_FIELD_LIST(field)   struct text_list field;

/* What was on the command line: NULL, -1, false or an empty list where an option was not given. */
struct options {
    enum command_id command;
#define OPTION(kind, field, ...) OPTION_FIELD_##kind(field)
#include "cli/options.def"
    struct text_list operands;
};

/* Parses argv[0 .. argc), the words behind the command's name. False: what is wrong was printed,
 * with the nearest option when there is one. */
bool options_parse(enum command_id command, int argc, char **argv, struct options *out);
void options_free(struct options *o);
void options_help(enum command_id command, FILE *out);
/* "64K", "1000", "2G"; false when it is no size or too large. */
bool size_parse(const char *text, int64_t *out);

/* ---- main.c ------------------------------------------------------------------------------- */

struct command {
    const char *name, *operand, *summary, *text, *examples;
    enum exit_code (*run)(const struct options *o);
};
extern const struct command commands[COMMAND_COUNT];

/* "sluice NAME: error: ..." on stderr; the second hints at --help and returns EXIT_USAGE. */
void complain(const struct options *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum exit_code usage_error(const struct options *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum exit_code cmd_check(const struct options *o);
enum exit_code cmd_show(const struct options *o);
enum exit_code cmd_run(const struct options *o);
enum exit_code cmd_opt(const struct options *o);
enum exit_code cmd_bench(const struct options *o);

/* ---- term.c ------------------------------------------------------------------------------- */

/* Whether to colour what goes to a stream: --color, else a terminal and no NO_COLOR. */
bool colour_on(const struct options *o, FILE *stream);

enum style { STYLE_BOLD, STYLE_GOOD, STYLE_BAD, STYLE_DIM };
/* The escape that starts or ends a style; "" when colour is off. */
const char *style_on(bool colour, enum style s);
const char *style_off(bool colour);

/* "1.4 ms"; into buf, which is returned. Integers and bytes: compiler/ir.h. */
char *format_seconds(char buf[NUMBER_TEXT_BYTES], double seconds);

/* "  proved  NAME  DETAIL" lines, names and details in columns of their own. */
void print_proved(const struct compilation *c, bool colour);

double now_seconds(void); /* a clock that only goes forward */

/* One line on stderr that renews itself, once a second has gone by and if it is a terminal. */
struct progress {
    bool on, shown;
    double started, last;
};
struct progress progress_start(const struct options *o);
void progress_show(struct progress *p, const char *what, uint64_t done, uint64_t of);
void progress_end(struct progress *p);

/* ---- json.c ------------------------------------------------------------------------------- */

/* Writes members one after another and puts the commas; the caller opens and closes. */
struct json {
    FILE *out;
    int depth;
    bool first[16];
};
struct json json_start(FILE *out);
void json_open(struct json *j, const char *key,
               char bracket); /* key NULL in an array; '{' or '[' */
void json_close(struct json *j, char bracket);
void json_text(struct json *j, const char *key, const char *value); /* value NULL: null */
void json_integer(struct json *j, const char *key, uint64_t value);
void json_number(struct json *j, const char *key, double value); /* null when not finite */
void json_bool(struct json *j, const char *key, bool value);
void json_proved(struct json *j, const char *key, const struct compilation *c);
void json_diagnostics(struct json *j, const char *key, const struct diag *d);

/* ---- job.c -------------------------------------------------------------------------------- */

/* A compilation as the command line asks for it. `options` of the compiler point into it. */
struct job {
    const struct options *o;
    struct compile_options compile;
    int32_t *node_of, *local_of;
};
/* Everything but ranks, which job_set_ranks sets. False: a usage error was printed. */
bool job_start(struct job *j, const struct options *o);
bool job_set_ranks(struct job *j, int32_t ranks);
void job_free(struct job *j);

/* --ranks as a list: "8", "2,4,8", "1..16"; or the fallback. NULL: an error was printed. */
int32_t *ranks_parse(const struct options *o, const char *fallback, size_t *count);

/* Whether each of a comma separated list is a pass; false: an error was printed. */
bool passes_known(const struct options *o, const char *list);

/* --generate and --seed; false: an error was printed. */
bool generator_parse(const struct options *o, enum input_kind *kind, uint64_t *seed);

/* Reads a file ("-": standard input) of up to limit bytes; NULL and a message when it cannot. */
char *file_read(const struct options *o, const char *path, size_t limit, size_t *bytes);
/* Whether a file can be read; false: an error was printed. A schedule must be a regular file, for
 * it may be read again. */
bool file_readable(const struct options *o, const char *path);
bool schedule_readable(const struct options *o, const char *path);

/* Prints the diagnostics as the terminal wants them; the exit code of this compilation. */
enum exit_code report(const struct options *o, const struct compilation *c);

/* ---- show_dot.c --------------------------------------------------------------------------- */

/* The tasks as a graph for Graphviz: a box a rank, waits solid, messages dashed. */
void show_dot(const struct compilation *c, FILE *out);

/* ---- run_data.c --------------------------------------------------------------------------- */

/* What each rank sends and receives, as runtime/executor.h lays it out. `before` is a second room
 * for results, to compare one run with the next. */
struct run_data {
    int32_t ranks;
    enum dtype dtype;
    uint64_t *send_elems, *recv_elems; /* [ranks] */
    void **send, **recv, **before;     /* [ranks] */
    bool wrapped; /* the input file was too short and was read again from its start */
};
/* Room for all ranks of a compiled plan, `send` filled as the options say. */
enum exit_code run_data_new(const struct options *o, const struct compilation *c,
                            const struct input_file *file, struct run_data *out);
double run_data_bytes(const struct flow *f); /* what run_data_new will take */
void run_data_free(struct run_data *d);
void run_data_swap(struct run_data *d);       /* recv <-> before */
bool run_data_same(const struct run_data *d); /* recv and before hold the same bits */
enum exit_code run_data_write(const struct options *o, const struct run_data *d); /* --output */

/* ---- run_room.c --------------------------------------------------------------------------- */

/* The memory a run may take, asked of before any is taken. */
struct run_room {
    const struct options *o;
    bool learns;         /* two plans are there while one takes over from the other */
    double limit, plans; /* bytes: all that may be taken; what plans hold by now */
    bool refused;        /* and it was said why */
};
struct run_room run_room_new(const struct options *o);
/* run_options.may_take; ctx is the room. */
bool run_room_may_take(void *ctx, const struct flow *f, uint64_t bytes);

/* ---- bench_compile.c, bench_codec.c, bench_codec_gpu.c ------------------------------------- */

enum exit_code bench_compile(const struct options *o, const char *path); /* path NULL: a ring */
enum exit_code bench_codec(const struct options *o, const char *path);   /* path NULL: made up */

/* ---- gpu_bench.c: built where CUDA is ------------------------------------------------------- */

bool gpu_collective_parse(const char *name, enum collective *c);
enum exit_code bench_collective(const struct options *o, enum collective collective);

struct bench_values {
    enum dtype dtype;
    uint64_t elems;
    const void *values;
    uint64_t piece_bytes; /* of --count or --bytes */
};
enum exit_code bench_codec_gpu(const struct options *o, const struct bench_values *v,
                               const char *const *codecs);

#endif
