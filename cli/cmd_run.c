/* sluice run: compile, run on the CPU with real data, compare with the reference, tell the cost.
 *
 *   learn    the first runs have slots in which nothing overflows; what the encodings needed then
 *            gives the slots of the runs that are measured
 *   measure  --iters runs; all must give the same bits
 *   verify   the last result against reference.h
 */
#include "cli/cli.h"
#include "cli/run_print.h"
#include "runtime/reference.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RUN_MESSAGE = 256 };
#define MAX_INPUT_BYTES (UINT64_C(8) << 30)

static void show_tasks(void *ctx, uint64_t done, uint64_t of) {
    progress_show(ctx, "tasks", done, of);
}

static void show_checked(void *ctx, uint64_t done, uint64_t of) {
    progress_show(ctx, "elements checked", done, of);
}

/* What is wrong with the schedule: in the source for people, as one object for machines. */
static enum exit_code refuse(const struct options *o, const struct compilation *c) {
    enum exit_code code = report(o, c);
    if (o->json && code == EXIT_INPUT) {
        run_print_refused(o->operands.items[0], c);
    }
    return code;
}

/* What went wrong in making or running a plan, told; its exit code. */
static enum exit_code plan_failure(const struct options *o, const struct plan *p) {
    if (!p || !plan_compilation(p)) {
        complain(o, "no memory");
        return EXIT_INTERNAL;
    }
    switch (plan_status(p)) {
    case RUN_OK:
        return EXIT_OK;
    case RUN_BAD_SCHEDULE:
        return refuse(o, plan_compilation(p)) == EXIT_OK ? EXIT_INTERNAL : EXIT_INPUT;
    case RUN_NO_MEMORY:
        complain(o, "no memory: %s", plan_error(p));
        return EXIT_INTERNAL;
    case RUN_BAD_ARGUMENT:
    case RUN_INTERNAL:
    case RUN_DEVICE:
    case RUN_PEER:
    case RUN_UNSUPPORTED:
    case RUN_BUSY:
        break;
    }
    complain(o, "internal error: %s", plan_error(p));
    return EXIT_INTERNAL;
}

/* Without --count the file decides: the largest count whose data of all ranks it holds. The
 * schedule is elaborated for a count that divides well to see how many elements a rank has for each
 * one counted. */
static enum exit_code count_from_file(struct job *job, const char *path,
                                      const struct input_file *file) {
    struct compile_options probe = job->compile;
    probe.stop_after = "elaborate";
    probe.dump_after = NULL;
    struct compilation *c = compile_file(path, &probe);
    if (!c || !compilation_ok(c)) {
        enum exit_code code = refuse(job->o, c);
        if (c) {
            compilation_free(c);
        }
        return code;
    }
    uint64_t total = 0;
    for (int32_t r = 0; r < c->setup.ranks; r++) {
        total += io_send_elems(c->flow, r);
    }
    compilation_free(c);
    uint64_t each = total / probe.setup.count;
    job->compile.setup.count = each ? file->elems / each : 0;
    return EXIT_OK;
}

/* One run; the data of the one before is kept in data->before. */
static enum exit_code run_once(const struct options *o, struct plan *p, struct run_data *d) {
    run_data_swap(d);
    enum run_status s = plan_run(p, (const void *const *)d->send, d->recv);
    return s == RUN_OK ? EXIT_OK : plan_failure(o, p);
}

static bool has_bounded_codec(const struct flow *f) {
    for (size_t i = 0; i < f->codecs.count; i++) {
        if (codec_is_bounded(&f->codecs.data[i])) {
            return true;
        }
    }
    return false;
}

/* What comes after an encoding that overflowed has needs that its run does not tell, and the
 * largest slots until the next run tells them. So an overflow takes two runs. */
static enum exit_code learn(const struct options *o, struct plan *p, struct run_data *d) {
    bool fixed = !has_bounded_codec(plan_compilation(p)->flow);
    int64_t runs = o->learn >= 0 ? o->learn : !fixed;
    enum exit_code code = EXIT_OK;
    for (int64_t i = 0; i < runs && code == EXIT_OK; i++) {
        code = run_once(o, p, d);
        if (code == EXIT_OK && o->learn < 0 && i == 0 && plan_last(p)->repairs > 0) {
            runs++;
        }
        if (code == EXIT_OK && plan_adapt(p) != RUN_OK) {
            code = plan_failure(o, p);
        }
    }
    return code;
}

/* What a run gives depends on the runs before it. */
static bool has_lossy_state(const struct flow *f) {
    for (size_t i = 0; i < f->codecs.count; i++) {
        const struct codec *c = &f->codecs.data[i];
        if (codec_is_stateful(c) && !codec_is_lossless(c, f->setup.dtype)) {
            return true;
        }
    }
    return false;
}

/* The runs that count. Results must not change from one to the next, unless codecs say so. */
static enum exit_code measure(const struct options *o, struct plan *p, struct run_data *d,
                              struct run_outcome *out) {
    int64_t runs = o->iters > 0 ? o->iters : 1;
    run_outcome_begin(out, plan_stats(p));
    for (int64_t i = 0; i < runs; i++) {
        enum exit_code code = run_once(o, p, d);
        if (code != EXIT_OK) {
            return code;
        }
        run_outcome_time(out, plan_stats(p));
        if (i > 0 && !has_lossy_state(plan_compilation(p)->flow) && !run_data_same(d)) {
            complain(o, "internal error: run %lld gave other bits than the run before",
                     (long long)i + 1);
            return EXIT_INTERNAL;
        }
    }
    run_outcome_end(out, plan_stats(p));
    return EXIT_OK;
}

static enum exit_code verify(const struct options *o, const struct plan *p,
                             const struct run_data *d, struct progress *progress,
                             struct run_outcome *out) {
    char error[MAX_RUN_MESSAGE], text[MAX_RUN_MESSAGE];
    const struct compilation *c = plan_compilation(p);
    out->verified = true;
    if (!reference_check(c, (const void *const *)d->send, (const void *const *)d->recv,
                         show_checked, progress, &out->reference, error, sizeof error)) {
        complain(o, "cannot verify: %s", error);
        return EXIT_INTERNAL;
    }
    for (uint32_t i = 0; i < out->reference.kept; i++) {
        complain(o, "%s", mismatch_text(c, &out->reference.first[i], text, sizeof text));
    }
    return out->reference.wrong ? EXIT_RESULT : EXIT_OK;
}

static enum exit_code run_plan(const struct job *job, const char *path,
                               const struct input_file *file) {
    const struct options *o = job->o;
    struct progress progress = progress_start(o);
    struct run_room room = run_room_new(o);
    struct run_options run = {.threads = o->threads > 0 ? (int)o->threads : 0,
                              .memory_limit_bytes = UINT64_MAX,
                              .may_take = run_room_may_take,
                              .may_take_ctx = &room,
                              .progress = show_tasks,
                              .progress_ctx = &progress};
    struct run_outcome outcome = {.path = path};
    struct run_data data = {0};
    double started = now_seconds();
    struct plan *p = plan_new_file(path, &job->compile, &run);
    outcome.compile_seconds = now_seconds() - started;
    enum exit_code code = EXIT_OK;
    if (!p || !plan_ready(p)) {
        code = room.refused ? EXIT_INPUT : plan_failure(o, p);
    }
    if (code == EXIT_OK) {
        code = run_data_new(o, plan_compilation(p), file, &data);
    }
    if (code == EXIT_OK) {
        code = learn(o, p, &data);
    }
    if (code == EXIT_OK) {
        code = measure(o, p, &data, &outcome);
    }
    if (code == EXIT_OK && o->verify) {
        code = verify(o, p, &data, &progress, &outcome);
    }
    progress_end(&progress);
    if (code == EXIT_OK || code == EXIT_RESULT) {
        outcome.compilation = plan_compilation(p);
        outcome.wrapped = data.wrapped;
        outcome.input_elems = file ? file->elems : 0;
        run_print(o, &outcome);
    }
    if (code == EXIT_OK && o->output) {
        code = run_data_write(o, &data);
    }
    run_outcome_free(&outcome);
    run_data_free(&data);
    plan_free(p);
    return code;
}

/* The input file if there is one, then the run. */
static enum exit_code run_job(struct job *job, const char *path) {
    const struct options *o = job->o;
    struct input_file file = {0};
    char error[MAX_RUN_MESSAGE];
    enum exit_code code = EXIT_OK;
    if (o->input) {
        if (strcmp(o->input, "-") != 0 && !file_readable(o, o->input)) {
            return EXIT_IO;
        }
        if (!input_file_read(o->input, job->compile.setup.dtype, MAX_INPUT_BYTES, &file, error,
                             sizeof error)) {
            complain(o, "%s", error);
            return EXIT_INPUT;
        }
        if (o->count < 0 && o->bytes < 0) {
            code = count_from_file(job, path, &file);
        }
    }
    if (code == EXIT_OK) {
        code = run_plan(job, path, o->input ? &file : NULL);
    }
    input_file_free(&file);
    return code;
}

enum exit_code cmd_run(const struct options *o) {
    if (o->operands.count != 1) {
        return usage_error(o, o->operands.count ? "one file, please" : "which file?");
    }
    if (o->input && o->generate) {
        return usage_error(o, "--input and --generate both give the values; choose one");
    }
    enum input_kind kind;
    uint64_t seed;
    if (!generator_parse(o, &kind, &seed)) {
        return EXIT_USAGE;
    }
    const char *path = o->operands.items[0];
    if (!schedule_readable(o, path)) {
        return EXIT_IO;
    }
    struct job job;
    size_t count;
    enum exit_code code = EXIT_USAGE;
    int32_t *ranks = ranks_parse(o, "8", &count);
    if (ranks && count != 1) {
        usage_error(o, "run takes one number of ranks");
    } else if (ranks && job_start(&job, o)) {
        if (job_set_ranks(&job, ranks[0])) {
            code = run_job(&job, path);
        }
        job_free(&job);
    }
    free(ranks);
    return code;
}
