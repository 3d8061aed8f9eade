/*
 * A timeline from the device's own clock, as chrome://tracing and Perfetto read it: a process a
 * schedule, a thread a lane; thread 0 is the wire.
 */
#include "cli/gpu_bench.h"

#include <errno.h>
#include <string.h>

static void name_of(struct json *j, const char *what, size_t process, int lane, const char *name) {
    json_open(j, NULL, '{');
    json_text(j, "name", what);
    json_text(j, "ph", "M");
    json_integer(j, "pid", process);
    json_integer(j, "tid", (uint64_t)lane);
    json_open(j, "args", '{');
    json_text(j, "name", name);
    json_close(j, '}');
    json_close(j, '}');
}

static void span_write(struct json *j, size_t process, const sluice_graph_span *s,
                       uint64_t start_ns) {
    char name[128];
    bool wire = s->rank < 0;
    if (wire) {
        snprintf(name, sizeof name, "%s round %u", s->stage, (unsigned)s->round);
    } else {
        snprintf(name, sizeof name, "%s %s slice %d", s->stage, s->what, s->slice);
    }
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    json_text(j, "cat", s->what);
    json_text(j, "ph", "X");
    json_integer(j, "pid", process);
    json_integer(j, "tid", wire ? 0 : (uint64_t)s->lane + 1);
    json_number(j, "ts", (double)(s->begin_ns - start_ns) * 1e-3);
    json_number(j, "dur", (double)(s->end_ns - s->begin_ns) * 1e-3);
    json_close(j, '}');
}

static void contestant_write(struct json *j, const struct contestant *c, size_t process) {
    sluice_graph_span s;
    uint64_t start_ns = UINT64_MAX;
    name_of(j, "process_name", process, 0, c->name);
    for (size_t i = 0; sluice_graph_get_span(c->graph, i, &s) == SLUICE_OK; i++) {
        start_ns = s.begin_ns < start_ns ? s.begin_ns : start_ns;
    }
    for (size_t i = 0; sluice_graph_get_span(c->graph, i, &s) == SLUICE_OK; i++) {
        span_write(j, process, &s, start_ns);
    }
}

bool gpu_timeline_write(const struct gpu_rank *r, const struct contestant *c, size_t count) {
    FILE *file = fopen(r->b->o->timeline, "w");
    struct json j = json_start(file);
    if (file) {
        json_open(&j, NULL, '{');
        json_text(&j, "displayTimeUnit", "ms");
        json_open(&j, "traceEvents", '[');
        for (size_t i = 0; i < count; i++) {
            if (c[i].graph) {
                contestant_write(&j, &c[i], i);
            }
        }
        json_close(&j, ']');
        json_close(&j, '}');
    }
    if (!file || fclose(file) != 0) {
        complain(r->b->o, "cannot write %s: %s", r->b->o->timeline, strerror(errno));
        return false;
    }
    return true;
}
