/* sluice bench compile: time and memory of the whole compiler, proofs included, as ranks grow.
 *
 * Each point is compiled in a process of its own, so that its peak memory is its own. The exponent
 * is the slope of log(time) over log(operations): 1 means that time grows as the program does.
 */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* N chunks on N ranks, 2 (N - 1) steps: 2 N (N - 1) transfers. */
static const char ring_text[] = "schedule bench_ring(codec wire = pack) {\n"
                                "    collective allreduce;\n"
                                "    inout data[N];\n"
                                "    stage scatter via wire {\n"
                                "        for s in 0..N-1 { step { for r in 0..N {\n"
                                "            let c = mod(r - s - 1, N);\n"
                                "            reduce data[c]@r -> data[c]@mod(r + 1, N);\n"
                                "        } } }\n"
                                "    }\n"
                                "    stage gather via wire {\n"
                                "        for s in 0..N-1 { step { for r in 0..N {\n"
                                "            let c = mod(r - s, N);\n"
                                "            copy data[c]@r -> data[c]@mod(r + 1, N);\n"
                                "        } } }\n"
                                "    }\n"
                                "}\n";

struct point {
    int32_t ranks;
    bool ok;
    uint64_t transfers, messages, tasks;
    double seconds;
    uint64_t peak_bytes;
};

static struct point compile_point(struct job *job, const char *path, int32_t ranks) {
    struct point p = {.ranks = ranks};
    double started = now_seconds();
    struct compilation *c =
        path ? compile_file(path, &job->compile)
             : compile_text("<ring>", ring_text, sizeof ring_text - 1, &job->compile);
    p.seconds = now_seconds() - started;
    struct options as_text = *job->o;
    as_text.json = false; /* what is wrong is for people: the JSON holds points alone */
    p.ok = report(&as_text, c) == EXIT_OK;
    if (p.ok) {
        p.transfers = c->flow->transfers;
        p.messages = c->tasks->messages.count;
        p.tasks = c->tasks->tasks.count;
    }
    if (c) {
        compilation_free(c);
    }
    return p;
}

/* The fastest of some compilations, in a child; its peak memory by wait4. */
static bool measure(struct job *job, const char *path, int32_t ranks, struct point *out) {
    int ends[2];
    if (pipe(ends) != 0) {
        return false;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct point best = {0};
        for (int64_t i = 0; i < (job->o->iters > 0 ? job->o->iters : 1); i++) {
            struct point p = compile_point(job, path, ranks);
            best = i == 0 || p.seconds < best.seconds ? p : best;
        }
        ssize_t n = write(ends[1], &best, sizeof best);
        _exit(n == (ssize_t)sizeof best ? 0 : 1);
    }
    close(ends[1]);
    struct rusage usage;
    int status = 1;
    bool ok = child > 0 && read(ends[0], out, sizeof *out) == (ssize_t)sizeof *out;
    close(ends[0]);
    ok = child > 0 && wait4(child, &status, 0, &usage) == child && ok && status == 0;
    if (ok) {
        out->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    }
    return ok;
}

/* Slope of log(seconds) over log(transfers), by least squares; NaN with less than two sizes. */
static double fit_exponent(const struct point *points, size_t count) {
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (size_t i = 0; i < count; i++) {
        if (points[i].ok && points[i].transfers && points[i].seconds > 0) {
            double x = log((double)points[i].transfers), y = log(points[i].seconds);
            n++, sx += x, sy += y, sxx += x * x, sxy += x * y;
        }
    }
    double spread = n * sxx - sx * sx;
    return spread > 1e-9 ? (n * sxy - sx * sy) / spread : (double)NAN;
}

static void print_point(const struct point *p) {
    char transfers[NUMBER_TEXT_BYTES], messages[NUMBER_TEXT_BYTES], tasks[NUMBER_TEXT_BYTES];
    char time[NUMBER_TEXT_BYTES], each[NUMBER_TEXT_BYTES], memory[NUMBER_TEXT_BYTES];
    printf("%6d %12s %12s %12s %10s %10s %10s\n", p->ranks, format_integer(transfers, p->transfers),
           format_integer(messages, p->messages), format_integer(tasks, p->tasks),
           format_seconds(time, p->seconds),
           format_seconds(each, p->transfers ? p->seconds / (double)p->transfers : 0),
           format_bytes(memory, p->peak_bytes));
    fflush(stdout);
}

static void print_json(const struct point *points, size_t count) {
    struct json j = json_start(stdout);
    json_open(&j, NULL, '{');
    json_open(&j, "points", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(&j, NULL, '{');
        json_integer(&j, "ranks", (uint64_t)points[i].ranks);
        json_integer(&j, "transfers", points[i].transfers);
        json_integer(&j, "messages", points[i].messages);
        json_integer(&j, "tasks", points[i].tasks);
        json_number(&j, "seconds", points[i].seconds);
        json_integer(&j, "peak_bytes", points[i].peak_bytes);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_number(&j, "exponent", fit_exponent(points, count));
    json_close(&j, '}');
}

static enum exit_code measure_all(struct job *job, const char *path, const int32_t *ranks,
                                  size_t count, struct point *points) {
    const struct options *o = job->o;
    struct progress progress = progress_start(o);
    if (!o->json) {
        printf("%6s %12s %12s %12s %10s %10s %10s\n", "ranks", "transfers", "messages", "tasks",
               "time", "each", "memory");
    }
    for (size_t i = 0; i < count; i++) {
        if (!job_set_ranks(job, ranks[i])) {
            return EXIT_USAGE;
        }
        progress_show(&progress, "compiled", i, count);
        if (!measure(job, path, ranks[i], &points[i])) {
            progress_end(&progress);
            complain(o, "the compilation for %d ranks did not end well", ranks[i]);
            return EXIT_INTERNAL;
        }
        progress_end(&progress);
        if (!points[i].ok) {
            return EXIT_INPUT;
        }
        if (!o->json) {
            print_point(&points[i]);
        }
    }
    if (o->json) {
        print_json(points, count);
    } else if (count > 1) {
        printf("time grows as operations ^ %.2f\n", fit_exponent(points, count));
    }
    return EXIT_OK;
}

enum exit_code bench_compile(const struct options *o, const char *path) {
    struct job job;
    size_t count;
    enum exit_code code = EXIT_USAGE;
    int32_t *ranks = ranks_parse(o, "16,32,64,128,256,512,1024", &count);
    struct point *points = ranks ? calloc(count, sizeof *points) : NULL;
    if (points && job_start(&job, o)) {
        code = measure_all(&job, path, ranks, count, points);
        job_free(&job);
    }
    free(points);
    free(ranks);
    return code;
}
