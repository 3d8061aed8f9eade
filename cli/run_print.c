/* The result of `sluice run`: a short table for people, JSON for machines. */
#include "cli/run_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- differences over the measured runs ---- */

static struct run_stage stage_minus(struct run_stage after, const struct run_stage *before) {
    after.messages -= before->messages;
    after.raw_bytes -= before->raw_bytes;
    after.wire_bytes -= before->wire_bytes;
    after.needed_bytes -= before->needed_bytes;
    after.encodings -= before->encodings;
    after.overflows -= before->overflows;
    after.encode_seconds -= before->encode_seconds;
    after.decode_seconds -= before->decode_seconds;
    after.reduce_seconds -= before->reduce_seconds;
    after.transfer_seconds -= before->transfer_seconds;
    return after;
}

void run_outcome_begin(struct run_outcome *r, const struct run_stats *s) {
    r->runs = s->runs;
    r->repairs = s->repairs;
    r->repair_wire_bytes = s->repair_wire_bytes;
    r->total = s->total;
    r->stages = s->stages;
    r->stage = calloc(s->stages + 1, sizeof *r->stage);
    if (r->stage) {
        memcpy(r->stage, s->stage, s->stages * sizeof *r->stage);
    }
    r->best_seconds = INFINITY;
}

void run_outcome_time(struct run_outcome *r, const struct run_stats *s) {
    r->best_seconds = fmin(r->best_seconds, s->last_seconds);
    r->total_seconds += s->last_seconds;
}

void run_outcome_end(struct run_outcome *r, const struct run_stats *s) {
    r->runs = s->runs - r->runs;
    r->repairs = s->repairs - r->repairs;
    r->repair_wire_bytes = s->repair_wire_bytes - r->repair_wire_bytes;
    r->total = stage_minus(s->total, &r->total);
    r->stages = r->stage ? r->stages : 0;
    for (uint32_t i = 0; i < r->stages; i++) {
        r->stage[i] = stage_minus(s->stage[i], &r->stage[i]);
    }
    r->arena_bytes = s->arena_bytes;
    r->arena_unshared_bytes = s->arena_unshared_bytes;
    r->total_bytes = s->total_bytes;
    r->threads = s->threads;
}

void run_outcome_free(struct run_outcome *r) {
    free(r->stage);
}

/* ---- for people ---- */

static double ratio_of(const struct run_stage *s) {
    return s->raw_bytes ? (double)s->wire_bytes / (double)s->raw_bytes : 1;
}

static void print_stage(const char *name, const struct run_stage *s, uint64_t runs) {
    char messages[NUMBER_TEXT_BYTES], raw[NUMBER_TEXT_BYTES], wire[NUMBER_TEXT_BYTES];
    runs = runs ? runs : 1;
    printf("  %-16s %10s %12s %12s %8.3f\n", name, format_integer(messages, s->messages / runs),
           format_bytes(raw, s->raw_bytes / runs), format_bytes(wire, s->wire_bytes / runs),
           ratio_of(s));
}

static void print_stages(const struct run_outcome *r, bool colour) {
    printf("  %s%-16s %10s %12s %12s %8s%s\n", style_on(colour, STYLE_DIM), "stage", "messages",
           "raw", "wire", "ratio", style_off(colour));
    for (uint32_t i = 0; i < r->stages; i++) {
        if (r->stage[i].messages) {
            print_stage(*r->stage[i].name ? r->stage[i].name : "(no stage)", &r->stage[i], r->runs);
        }
    }
    if (r->repairs) {
        char wire[NUMBER_TEXT_BYTES];
        printf("  %-16s %10s %12s %12s\n", "repairs", "", "",
               format_bytes(wire, r->repair_wire_bytes / r->runs));
    }
    /* what travelled in all: a repair is the price of slots that are too small */
    struct run_stage all = r->total;
    all.wire_bytes += r->repair_wire_bytes;
    print_stage("all", &all, r->runs);
}

static void print_times(const struct run_outcome *r) {
    char compile[NUMBER_TEXT_BYTES], best[NUMBER_TEXT_BYTES];
    char arena[NUMBER_TEXT_BYTES], unshared[NUMBER_TEXT_BYTES];
    printf("  time      compiled in %s, run in %s", format_seconds(compile, r->compile_seconds),
           format_seconds(best, r->best_seconds));
    if (r->runs > 1) {
        printf(" (best of %llu)", (unsigned long long)r->runs);
    }
    printf(" on %d thread%s\n", r->threads, r->threads == 1 ? "" : "s");
    printf("  memory    %s a rank for messages and sums", format_bytes(arena, r->arena_bytes));
    if (r->arena_unshared_bytes > r->arena_bytes) {
        printf(" (%s without reuse)", format_bytes(unshared, r->arena_unshared_bytes));
    }
    printf("\n");
}

static void print_repairs(const struct run_outcome *r) {
    char bytes[NUMBER_TEXT_BYTES];
    format_bytes(bytes, r->repair_wire_bytes);
    if (r->runs == 1) {
        printf("  repaired  the run overflowed a slot and was done again raw, %s more\n", bytes);
        return;
    }
    printf("  repaired  %llu of %llu runs overflowed a slot and were done again raw, %s more\n",
           (unsigned long long)r->repairs, (unsigned long long)r->runs, bytes);
}

static void print_result(const struct run_outcome *r, bool colour) {
    const struct reference_report *v = &r->reference;
    char n[NUMBER_TEXT_BYTES], m[NUMBER_TEXT_BYTES];
    if (r->repairs) {
        print_repairs(r);
    }
    if (!r->verified) {
        return;
    }
    if (v->wrong) {
        printf("  result    %swrong%s: %s of %s elements differ from the reference\n",
               style_on(colour, STYLE_BAD), style_off(colour), format_integer(n, v->wrong),
               format_integer(m, v->checked));
        return;
    }
    printf("  result    %sright%s: ", style_on(colour, STYLE_GOOD), style_off(colour));
    if (v->exact == v->checked) {
        printf("all %s elements have the reference's bits\n", format_integer(n, v->checked));
        return;
    }
    printf("%s elements have the reference's bits, %s", format_integer(n, v->exact),
           format_integer(m, v->bounded));
    printf(
        " are within the codec's bound\n            (largest error %.3g, %.0f %% of the bound)\n",
        v->worst_error, 100 * v->worst_fraction);
    if (v->unbounded) {
        printf("            %s have no bound: infinite, NaN, next to such a value, or by error "
               "feedback\n",
               format_integer(n, v->unbounded));
    }
}

static void print_text(const struct options *o, const struct run_outcome *r) {
    const struct setup *s = &r->compilation->setup;
    bool colour = colour_on(o, stdout);
    char count[NUMBER_TEXT_BYTES], bytes[NUMBER_TEXT_BYTES], ranks[NUMBER_TEXT_BYTES];
    printf("%s%s%s: %s, %s %s, %s (%s)\n", style_on(colour, STYLE_BOLD), r->compilation->flow->name,
           style_off(colour), format_count(ranks, (uint64_t)s->ranks, "rank"), dtype_name(s->dtype),
           redop_name(s->redop), format_count(count, s->count, "element"),
           format_bytes(bytes, s->count * dtype_bytes(s->dtype)));
    print_proved(r->compilation, colour);
    if (r->wrapped) {
        printf("  input     %s from %s, repeated to fill all ranks\n",
               format_count(count, r->input_elems, "element"), o->input);
    }
    print_result(r, colour);
    print_times(r);
    print_stages(r, colour);
}

/* ---- for machines ---- */

static void json_stage(struct json *j, const char *key, const char *name,
                       const struct run_stage *s) {
    json_open(j, key, '{');
    if (name) {
        json_text(j, "stage", name);
    }
    json_integer(j, "messages", s->messages);
    json_integer(j, "raw_bytes", s->raw_bytes);
    json_integer(j, "wire_bytes", s->wire_bytes);
    json_integer(j, "needed_bytes", s->needed_bytes);
    json_number(j, "ratio", ratio_of(s));
    json_integer(j, "encodings", s->encodings);
    json_integer(j, "overflows", s->overflows);
    json_number(j, "encode_seconds", s->encode_seconds);
    json_number(j, "decode_seconds", s->decode_seconds);
    json_number(j, "reduce_seconds", s->reduce_seconds);
    json_number(j, "transfer_seconds", s->transfer_seconds);
    json_close(j, '}');
}

static void json_reference(struct json *j, const struct reference_report *v) {
    json_open(j, "reference", '{');
    json_integer(j, "checked", v->checked);
    json_integer(j, "exact", v->exact);
    json_integer(j, "bounded", v->bounded);
    json_integer(j, "unbounded", v->unbounded);
    json_integer(j, "wrong", v->wrong);
    json_number(j, "worst_error", v->worst_error);
    json_number(j, "worst_fraction", v->worst_fraction);
    json_close(j, '}');
}

static void print_json(const struct run_outcome *r) {
    struct json j = json_start(stdout);
    const struct compilation *c = r->compilation;
    json_open(&j, NULL, '{');
    json_text(&j, "file", r->path);
    json_text(&j, "schedule", c->flow->name);
    json_integer(&j, "ranks", (uint64_t)c->setup.ranks);
    json_text(&j, "dtype", dtype_name(c->setup.dtype));
    json_text(&j, "op", redop_name(c->setup.redop));
    json_integer(&j, "count", c->setup.count);
    json_bool(&j, "ok", !r->verified || r->reference.wrong == 0);
    json_proved(&j, "proved", c);
    json_bool(&j, "input_repeated", r->wrapped);
    json_integer(&j, "runs", r->runs);
    json_integer(&j, "repairs", r->repairs);
    json_integer(&j, "repair_wire_bytes", r->repair_wire_bytes);
    json_integer(&j, "threads", (uint64_t)r->threads);
    json_number(&j, "compile_seconds", r->compile_seconds);
    json_number(&j, "best_seconds", r->best_seconds);
    json_number(&j, "total_seconds", r->total_seconds);
    json_integer(&j, "arena_bytes", r->arena_bytes);
    json_integer(&j, "arena_unshared_bytes", r->arena_unshared_bytes);
    json_open(&j, "stages", '[');
    for (uint32_t i = 0; i < r->stages; i++) {
        if (r->stage[i].messages) {
            json_stage(&j, NULL, r->stage[i].name, &r->stage[i]);
        }
    }
    json_close(&j, ']');
    json_stage(&j, "total", NULL, &r->total);
    if (r->verified) {
        json_reference(&j, &r->reference);
    }
    json_close(&j, '}');
}

void run_print_refused(const char *path, const struct compilation *c) {
    struct json j = json_start(stdout);
    json_open(&j, NULL, '{');
    json_text(&j, "file", path);
    json_integer(&j, "ranks", (uint64_t)c->setup.ranks);
    json_bool(&j, "ok", false);
    json_diagnostics(&j, "diagnostics", c->diag);
    json_close(&j, '}');
}

void run_print(const struct options *o, const struct run_outcome *r) {
    if (o->json) {
        print_json(r);
    } else if (!o->quiet) {
        print_text(o, r);
    }
}
