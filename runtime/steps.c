/*
 * steps.c: each rank's list as steps, one compute task or one whole round group each.
 *
 * The list is kept as it stands. Only where the members of a group do not stand together, they
 * are brought to the first of them, and what they wait for (dependencies, and the tasks before
 * on the same lane) before that. It is a depth-first walk over "must be done before", in list
 * order.
 */
#include "runtime/engine.h"

#include <stdlib.h>

#define NEW    0
#define OPEN   1 /* on the walk's stack */
#define PLACED 2

/* Of one rank; a node is a compute task or a group, and is named by its first task in the list,
 * counted from the rank's first. */
struct walk {
    struct loaded *l;
    const struct tasks *t;
    uint32_t base, n;
    uint32_t *node;          /* [n] the node that a task belongs to */
    uint32_t *next;          /* [n] the next member of the group, NONE: the last */
    uint32_t *last;          /* [n] of a node: its last member */
    uint32_t *before;        /* [n] the task before on the same lane, NONE */
    uint8_t *state;          /* [n] of a node */
    uint32_t *stack;         /* [n] */
    uint32_t *group_node[2]; /* [rounds of a comm] the node of a group, NONE: not seen */
    uint32_t lane_last[256];
    uint32_t placed, steps; /* in order and steps, of all ranks */
};

/* Finds the nodes of a rank. */
static bool find_nodes(struct walk *w) {
    for (unsigned lane = 0; lane < 256; lane++)
        w->lane_last[lane] = NONE;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct task *k = &w->t->tasks.data[w->base + i];
        w->node[i] = w->last[i] = i;
        w->next[i] = NONE;
        w->state[i] = NEW;
        w->before[i] = w->lane_last[k->lane];
        w->lane_last[k->lane] = i;
        if (k->kind == TASK_COMPUTE)
            continue;
        if (k->comm > 1 || k->round >= w->t->rounds[k->comm])
            return false;
        uint32_t *group = &w->group_node[k->comm][k->round];
        if (*group == NONE) {
            *group = i;
            continue;
        }
        w->node[i] = *group;
        w->next[w->last[*group]] = i;
        w->last[*group] = i;
    }
    for (uint32_t i = 0; i < w->n; i++) { /* for the next rank */
        const struct task *k = &w->t->tasks.data[w->base + i];
        if (k->kind != TASK_COMPUTE)
            w->group_node[k->comm][k->round] = NONE;
    }
    return true;
}

/* A node that must be placed before `node` and is not yet; NONE: it can be placed. */
static uint32_t missing(const struct walk *w, uint32_t node) {
    for (uint32_t i = node; i != NONE; i = w->next[i]) {
        const struct task *k = &w->t->tasks.data[w->base + i];
        if (w->before[i] != NONE) {
            uint32_t other = w->node[w->before[i]];
            if (other != node && w->state[other] != PLACED)
                return other;
        }
        for (uint32_t d = 0; d < k->deps; d++) {
            uint32_t dep = w->t->deps.data[k->first_dep + d] - w->base;
            if (dep >= w->n) /* not of this rank: validate refuses it */
                continue;
            if (w->node[dep] != node && w->state[w->node[dep]] != PLACED)
                return w->node[dep];
        }
    }
    return NONE;
}

static void place(struct walk *w, uint32_t node) {
    struct step *s = &w->l->steps[w->steps++];
    s->first = w->placed;
    for (uint32_t i = node; i != NONE; i = w->next[i])
        w->l->order[w->placed++] = w->base + i;
    s->n = w->placed - s->first;
    w->state[node] = PLACED;
}

/* False: the node waits for itself. */
static bool place_with_all_before(struct walk *w, uint32_t node) {
    uint32_t depth = 0;
    w->stack[depth++] = node;
    w->state[node] = OPEN;
    while (depth > 0) {
        uint32_t top = w->stack[depth - 1], first = missing(w, top);
        if (first == NONE) {
            place(w, top);
            depth--;
        } else if (w->state[first] == OPEN) {
            return false;
        } else {
            w->state[first] = OPEN;
            w->stack[depth++] = first;
        }
    }
    return true;
}

static bool walk_rank(struct walk *w, int32_t rank, char *err, size_t err_bytes) {
    w->base = w->t->ranks.data[rank].first;
    w->n = w->t->ranks.data[rank].n;
    w->l->first_step[rank] = w->steps;
    if (!find_nodes(w)) {
        snprintf(err, err_bytes, "rank %d: a message is of no round", rank);
        return false;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        uint32_t node = w->node[i];
        if (w->state[node] == NEW && !place_with_all_before(w, node)) {
            snprintf(err, err_bytes, "rank %d: task %u waits for itself", rank,
                     (unsigned)(w->base + node));
            return false;
        }
    }
    return true;
}

enum run_status loaded_steps(struct loaded *l, char *err, size_t err_bytes) {
    const struct tasks *t = l->t;
    struct walk w = {.l = l, .t = t};
    size_t longest = 1;
    for (size_t i = 0; i < t->ranks.count; i++)
        longest = t->ranks.data[i].n > longest ? t->ranks.data[i].n : longest;
    size_t words = 5 * longest + t->rounds[0] + t->rounds[1];
    uint32_t *memory = malloc(words * sizeof *memory);
    w.state = malloc(longest);
    enum run_status status = memory && w.state ? RUN_OK : RUN_NO_MEMORY;
    if (status == RUN_OK) {
        w.node = memory;
        w.next = w.node + longest;
        w.last = w.next + longest;
        w.before = w.last + longest;
        w.stack = w.before + longest;
        w.group_node[0] = w.stack + longest;
        w.group_node[1] = w.group_node[0] + t->rounds[0];
        for (size_t i = 5 * longest; i < words; i++)
            memory[i] = NONE;
    }
    for (size_t i = 0; i < t->ranks.count && status == RUN_OK; i++)
        if (!walk_rank(&w, (int32_t)i, err, err_bytes))
            status = RUN_INTERNAL;
    if (status == RUN_OK)
        l->first_step[t->ranks.count] = w.steps;
    free(memory);
    free(w.state);
    return status;
}
