/*
 * cuda_stats.c: what can be read of a graph while its runs are in flight. Nothing here waits for
 * the device: records and timestamps lie in pinned memory.
 */
#include "runtime/transport.h"

#include <string.h>

/* The newest run's needs in g->words; false: none is known. */
static bool newest_needs(struct sluice_graph *g, struct protocol_record *record) {
    return g->run->reports && report_newest(&g->run->report, record, g->words);
}

/* Adds a message that this process sends. */
static void add_message(const struct sluice_graph *g, bool known, const struct task *k,
                        struct sluice_graph_stage *s) {
    const struct cuda_plan *p = &g->run->plan;
    s->messages++;
    for (uint32_t i = 0; i < k->operands; i++) {
        uint32_t piece = p->t->operands.data[k->first_operand + i].index;
        uint64_t bytes = p->piece_bytes[piece], needed = bytes;
        if (p->need[piece] != NONE)
            needed = known
                         ? (uint64_t)g->words[p->need[piece] - PROTOCOL_NEEDS] * PROTOCOL_NEED_UNIT
                         : 0;
        uint64_t raw = p->t->pieces.data[piece].elems * dtype_bytes(p->t->flow->setup.dtype);
        if (g->run->plain)
            bytes = needed = raw;
        s->raw_bytes += raw;
        s->wire_bytes += bytes;
        s->needed_bytes += needed;
    }
}

/* stage: NONE: all. */
static struct sluice_graph_stage sum_messages(const struct sluice_graph *g, bool known,
                                              uint32_t stage) {
    const struct cuda_plan *p = &g->run->plan;
    struct sluice_graph_stage s = {.name = "total"};
    for (uint32_t i = 0; i < p->group_count; i++)
        for (uint32_t j = 0; j < p->groups[i].n; j++) {
            const struct task *k = &p->t->tasks.data[p->group_tasks[p->groups[i].first + j]];
            if (k->kind == TASK_SEND && (stage == NONE || k->stage == stage))
                add_message(g, known, k, &s);
        }
    return s;
}

/* ---- timestamps ---- */

static uint16_t stage_of(const struct cuda_plan *p, const struct action *a) {
    uint32_t task = a->group == NONE ? a->task : p->group_tasks[p->groups[a->group].first];
    return p->t->tasks.data[task].stage;
}

static double stage_seconds(const struct sluice_graph *g, uint32_t stage) {
    const struct cuda_run *r = g->run;
    uint64_t begin = UINT64_MAX, end = 0;
    for (uint32_t i = 0; i < r->plan.action_count && r->stamps_host; i++) {
        if (stage != NONE && stage_of(&r->plan, &r->plan.actions[i]) != stage)
            continue;
        const volatile uint64_t *at = r->stamps_host + 2 * (size_t)i;
        uint64_t from = at[0], to = at[1];
        begin = from < begin ? from : begin;
        end = to > end ? to : end;
    }
    return end > begin ? 1e-9 * (double)(end - begin) : 0;
}

static bool fill_span(const struct sluice_graph *g, size_t index, sluice_graph_span *span) {
    const struct cuda_run *r = g->run;
    const struct tasks *t = r->plan.t;
    if (!r->stamps_host || index >= r->plan.action_count)
        return false;
    const struct action *a = &r->plan.actions[index];
    bool group = a->group != NONE;
    uint32_t task = group ? r->plan.group_tasks[r->plan.groups[a->group].first] : a->task;
    const struct task *k = &t->tasks.data[task];
    *span = (sluice_graph_span){
        .stage = t->flow->stages.data[k->stage].name,
        .what = group ? "round" : task_op_name(task_op_of(t, k)),
        .rank =
            group ? -1 : (int)((a->stream - t->comms) / (t->lanes - t->comms)) + r->plan.first_rank,
        .lane = k->lane,
        .slice = k->slice,
        .round = group ? k->round : k->tick,
        .begin_ns = r->stamps_host[2 * index],
        .end_ns = r->stamps_host[2 * index + 1],
    };
    return true;
}

/* ---- the public part ---- */

sluice_status sluice_graph_get_stats(sluice_graph *graph, sluice_graph_stats *stats) {
    if (!graph || !stats)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d)) {
        struct protocol_record record = {0};
        bool known = newest_needs(graph, &record);
        sluice_graph_stage s = sum_messages(graph, known, NONE);
        *stats = (sluice_graph_stats){
            .runs = record.run > graph->issued ? record.run : graph->issued,
            .overflows = record.overflows > graph->overflows ? record.overflows : graph->overflows,
            .repairs = graph->repairs,
            .adaptations = graph->adaptations,
            .raw_bytes = s.raw_bytes,
            .wire_bytes = s.wire_bytes,
            .needed_bytes = s.needed_bytes,
            .memory = graph->run->sizes,
            .device_seconds = stage_seconds(graph, NONE),
        };
    }
    return graph_leave(graph, &d);
}

sluice_status sluice_graph_get_stage(sluice_graph *graph, size_t index, sluice_graph_stage *stage) {
    if (!graph || !stage)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d)) {
        const struct flow *f = graph->run->plan.t->flow;
        if (index >= f->stages.count) {
            failure_set(&graph->failure, RUN_BAD_ARGUMENT, "there is no stage %zu", index);
        } else {
            struct protocol_record record;
            *stage = sum_messages(graph, newest_needs(graph, &record), (uint32_t)index);
            stage->name = f->stages.data[index].name;
            stage->overflows = graph->stage_overflows[index];
            stage->device_seconds = stage_seconds(graph, (uint32_t)index);
        }
    }
    return graph_leave(graph, &d);
}

sluice_status sluice_graph_get_span(sluice_graph *graph, size_t index, sluice_graph_span *span) {
    if (!graph || !span)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d) && !fill_span(graph, index, span))
        failure_set(&graph->failure, RUN_BAD_ARGUMENT, "no timestamps of task %zu", index);
    return graph_leave(graph, &d);
}

int sluice_graph_due(sluice_graph *graph) {
    struct device_guard d;
    struct protocol_record record;
    int due = 0;
    if (!graph)
        return 0;
    if (graph_enter(graph, &d) && newest_needs(graph, &record))
        due = record.due != 0;
    graph_leave(graph, &d);
    return due;
}

const uint32_t *sluice_graph_flag(const sluice_graph *graph) {
    return graph && graph->run ? &graph->run->report.state_dev->flagged : NULL;
}

size_t sluice_graph_nodes(const sluice_graph *graph) {
    return graph ? graph->nodes : 0;
}

const char *sluice_graph_error(const sluice_graph *graph) {
    return graph ? graph->failure.words : "";
}
