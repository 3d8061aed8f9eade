/* An interpreter of tasks for tests that knows nothing of the compiler's own checks: real numbers,
 * real codecs, one arena a rank filled with rubbish, and a random interleaving.
 *
 * A node is a compute or a round group. Nodes start when their lane, their communicator and their
 * dependencies allow. A compute reads when it starts and writes later, output by output; a message
 * moves at any time after both groups have started; a group is complete when its messages have
 * moved. What a compute reads must stay as it is until it writes.
 */
#ifndef SLUICE_TEST_TASK_WORLD_H
#define SLUICE_TEST_TASK_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "compiler/ir.h"
#include "kernels/reduce.h"

enum { MAX_RANKS = 5, MAX_NODE_OUTS = 16, MAX_NODE_OPERANDS = 16 };

/* ---- random numbers ---- */

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}
static uint32_t below(uint64_t *seed, size_t n) {
    return n ? (uint32_t)(next_random(seed) >> 20) % (uint32_t)n : 0;
}

/* ---- the interpreter ---- */

struct node {
    uint32_t rank, first, n; /* into world.members */
    uint32_t waits;          /* nodes that must be complete before it starts */
    uint32_t left;           /* writes or messages to come */
    bool started, complete;
    uint32_t priority;
    unsigned char *result[MAX_NODE_OUTS]; /* of a compute: the store, then the outs */
    bool written[MAX_NODE_OUTS];
    unsigned char *read[MAX_NODE_OPERANDS]; /* of a compute, until its first write */
};

struct world {
    const struct tasks *t;
    uint64_t seed;
    unsigned char *arena[MAX_RANKS];
    unsigned char **chunk; /* [locs] memory of chunks that are not scratch */
    struct node *nodes;
    uint32_t node_count;
    uint32_t *node_of, *members;
    bool *before; /* [node_count * node_count] */
    bool *moved;  /* [messages] */
    const char *wrong;
};

static enum dtype world_dtype(const struct world *w) {
    return w->t->flow->setup.dtype;
}

static unsigned char *chunk_memory(const struct world *w, uint32_t rank, loc_id loc,
                                   uint32_t slice) {
    uint64_t first;
    (void)tasks_slice_elems(w->t, loc, slice, &first);
    first *= dtype_bytes(world_dtype(w));
    if (w->chunk[loc])
        return w->chunk[loc] + first;
    return w->arena[rank] + w->t->chunk_offsets.data[loc] + first;
}

static unsigned char *acc_memory(const struct world *w, uint32_t rank, uint32_t acc) {
    return w->arena[rank] + w->t->acc_offsets.data[w->t->ranks.data[rank].first_acc + acc];
}

/* The bits of an operand, decoded; to be freed. NULL: not an encoding. */
static unsigned char *load(struct world *w, uint32_t rank, const struct task *task,
                           struct operand o, uint64_t elems) {
    enum dtype dtype = world_dtype(w);
    unsigned char *to = calloc(elems + 1, 8);
    switch (o.kind) {
    case OPERAND_CHUNK:
        memcpy(to, chunk_memory(w, rank, o.index, task->slice), elems * dtype_bytes(dtype));
        break;
    case OPERAND_ACC:
        memcpy(to, acc_memory(w, rank, o.index), elems * reduce_acc_bytes(dtype));
        break;
    case OPERAND_PIECE: {
        const struct piece *p = &w->t->pieces.data[o.index];
        const struct codec *codec = &w->t->flow->codecs.data[p->codec];
        void *scratch = malloc(codec_scratch_bytes(codec, dtype, elems) + 64);
        if (codec_decode(codec, dtype, w->arena[rank] + p->offset, p->bytes, elems, to, scratch,
                         NULL) != CODEC_OK)
            w->wrong = "a piece is no encoding";
        free(scratch);
        break;
    }
    }
    return to;
}

static unsigned char *encoded(struct world *w, const struct piece *p, const void *from) {
    const struct codec *codec = &w->t->flow->codecs.data[p->codec];
    void *scratch = malloc(codec_scratch_bytes(codec, world_dtype(w), p->elems) + 64);
    unsigned char *to = calloc(p->bytes + 1, 1);
    if (codec_encode(codec, world_dtype(w), from, p->elems, to, p->bytes, NULL, scratch) !=
        CODEC_OK)
        w->wrong = "an encoding does not fit";
    free(scratch);
    return to;
}

/* Reads all operands and works out what is to be written. */
static void start_compute(struct world *w, struct node *n) {
    const struct tasks *t = w->t;
    const struct task *task = &t->tasks.data[w->members[n->first]];
    const struct operand *operands = &t->operands.data[task->first_operand];
    enum dtype dtype = world_dtype(w);
    uint64_t elems = tasks_elems(t, task);
    unsigned char *acc = calloc(elems + 1, 8), *value = calloc(elems + 1, 8);
    for (uint32_t i = 0; i < task->operands; i++) {
        unsigned char *o = load(w, n->rank, task, operands[i], elems);
        bool is_acc = operands[i].kind == OPERAND_ACC;
        if (i == 0 && is_acc)
            memcpy(acc, o, elems * reduce_acc_bytes(dtype));
        else if (i == 0)
            reduce_open(dtype, o, acc, elems);
        else
            reduce_add(dtype, t->flow->setup.redop, acc, o, elems);
        if (i == 0 && !is_acc)
            memcpy(value, o, elems * dtype_bytes(dtype));
        n->read[i] = o;
    }
    unsigned char *open = calloc(elems + 1, 8);
    memcpy(open, acc, elems * reduce_acc_bytes(dtype));
    if (task->divide)
        reduce_divide(dtype, acc, elems, task->divisor);
    if (task->operands > 1 || operands[0].kind == OPERAND_ACC)
        reduce_close(dtype, acc, value, elems);
    bool to_acc = task->store.kind == OPERAND_ACC;
    n->left = task->outs;
    if (task->store.index != NONE) {
        n->result[n->left++] = to_acc ? open : value;
        if (to_acc)
            open = NULL;
    }
    for (uint32_t i = 0; i < task->outs; i++)
        n->result[i] = encoded(w, &t->pieces.data[t->outs.data[task->first_out + i]], value);
    if (task->store.index == NONE || to_acc)
        free(value);
    free(acc);
    free(open);
}

static void check_read(struct world *w, struct node *n, const struct task *task) {
    for (uint32_t i = 0; i < task->operands && n->read[i]; i++) {
        struct operand operand = w->t->operands.data[task->first_operand + i];
        unsigned char *o = load(w, n->rank, task, operand, tasks_elems(w->t, task));
        if (memcmp(o, n->read[i], tasks_elems(w->t, task) * 8) != 0)
            w->wrong = "an operand changes while it is read";
        free(o);
        free(n->read[i]);
        n->read[i] = NULL;
    }
}

static void write_result(struct world *w, struct node *n, uint32_t i) {
    const struct tasks *t = w->t;
    const struct task *task = &t->tasks.data[w->members[n->first]];
    check_read(w, n, task);
    if (i < task->outs) {
        const struct piece *p = &t->pieces.data[t->outs.data[task->first_out + i]];
        memcpy(w->arena[n->rank] + p->offset, n->result[i], p->bytes);
    } else if (task->store.kind == OPERAND_ACC) {
        memcpy(acc_memory(w, n->rank, task->store.index), n->result[i],
               tasks_elems(t, task) * reduce_acc_bytes(world_dtype(w)));
    } else {
        memcpy(chunk_memory(w, n->rank, task->store.index, task->slice), n->result[i],
               tasks_elems(t, task) * dtype_bytes(world_dtype(w)));
    }
    free(n->result[i]);
    n->result[i] = NULL;
    n->written[i] = true;
}

static void complete(struct world *w, uint32_t node) {
    w->nodes[node].complete = true;
    for (uint32_t i = 0; i < w->node_count; i++)
        if (w->before[node * w->node_count + i])
            w->nodes[i].waits--;
}

static bool is_compute(const struct world *w, const struct node *n) {
    return w->t->tasks.data[w->members[n->first]].kind == TASK_COMPUTE;
}

static void start_node(struct world *w, uint32_t node) {
    struct node *n = &w->nodes[node];
    n->started = true;
    n->left = n->n;
    if (is_compute(w, n))
        start_compute(w, n);
    if (!n->left)
        complete(w, node);
}

static void less_left(struct world *w, uint32_t node) {
    if (!--w->nodes[node].left)
        complete(w, node);
}

static void move_message(struct world *w, uint32_t message) {
    const struct tasks *t = w->t;
    const struct message *m = &t->messages.data[message];
    const struct task *send = &t->tasks.data[m->send], *recv = &t->tasks.data[m->recv];
    for (uint32_t i = 0; i < send->operands; i++) {
        const struct piece *a = &t->pieces.data[t->operands.data[send->first_operand + i].index];
        const struct piece *b = &t->pieces.data[t->outs.data[recv->first_out + i]];
        memmove(w->arena[m->dst] + b->offset, w->arena[m->src] + a->offset, b->bytes);
    }
    w->moved[message] = true;
    less_left(w, w->node_of[m->send]);
    less_left(w, w->node_of[m->recv]);
}

static bool can_move(const struct world *w, uint32_t message) {
    const struct message *m = &w->t->messages.data[message];
    return !w->moved[message] && w->nodes[w->node_of[m->send]].started &&
           w->nodes[w->node_of[m->recv]].started;
}

/* Takes one step of all that are possible, mostly the one whose node comes first; false: none is.
 */
static bool take_step(struct world *w) {
    uint32_t best = NONE, best_priority = 0, kind = 0, seen = 0;
    bool by_priority = below(&w->seed, 8) != 0;
    for (uint32_t i = 0; i < w->node_count + w->t->messages.count; i++) {
        bool message = i >= w->node_count;
        if (message && w->t->messages.data[i - w->node_count].recv == NONE)
            continue; /* dropped by a mutation */
        uint32_t node = message ? w->node_of[w->t->messages.data[i - w->node_count].recv] : i;
        const struct node *n = &w->nodes[node];
        bool starts = !message && !n->started && !n->waits;
        bool writes = !message && n->started && !n->complete && is_compute(w, n);
        if (!starts && !writes && !(message && can_move(w, i - w->node_count)))
            continue;
        seen++;
        if (best == NONE ||
            (by_priority ? n->priority > best_priority : below(&w->seed, seen) == 0)) {
            best = i;
            best_priority = n->priority;
            kind = message ? 2 : writes;
        }
    }
    if (best == NONE)
        return false;
    if (kind == 2) {
        move_message(w, best - w->node_count);
    } else if (kind == 0) {
        start_node(w, best);
    } else {
        struct node *n = &w->nodes[best];
        uint32_t i = below(&w->seed, MAX_NODE_OUTS);
        while (!n->result[i])
            i = (i + 1) % MAX_NODE_OUTS;
        write_result(w, n, i);
        less_left(w, best);
    }
    return true;
}

static void add_before(struct world *w, uint32_t a, uint32_t b) {
    if (w->before[a * w->node_count + b])
        return;
    w->before[a * w->node_count + b] = true;
    w->nodes[b].waits++;
}

static void make_nodes(struct world *w) {
    const struct tasks *t = w->t;
    w->nodes = calloc(t->tasks.count + 1, sizeof *w->nodes);
    w->node_of = malloc((t->tasks.count + 1) * sizeof *w->node_of);
    w->members = malloc((t->tasks.count + 1) * sizeof *w->members);
    uint32_t placed = 0;
    for (uint32_t r = 0; r < t->ranks.count; r++) {
        uint32_t first = t->ranks.data[r].first, end = first + t->ranks.data[r].n;
        for (uint32_t i = first; i < end; i++)
            w->node_of[i] = NONE;
        for (uint32_t i = first; i < end; i++) {
            if (w->node_of[i] != NONE)
                continue;
            struct node *n = &w->nodes[w->node_count];
            n->rank = r;
            n->first = placed;
            const struct task *a = &t->tasks.data[i];
            for (uint32_t j = i; j < end; j++) {
                const struct task *b = &t->tasks.data[j];
                bool same = j == i || (a->kind != TASK_COMPUTE && b->kind != TASK_COMPUTE &&
                                       a->comm == b->comm && a->round == b->round);
                if (!same)
                    continue;
                w->node_of[j] = w->node_count;
                w->members[placed++] = j;
                n->n++;
            }
            w->node_count++;
        }
    }
}

/* Lane order, dependencies, rounds of a communicator. */
static void order_nodes(struct world *w) {
    const struct tasks *t = w->t;
    w->before = calloc((size_t)w->node_count * w->node_count + 1, sizeof *w->before);
    for (uint32_t r = 0; r < t->ranks.count; r++) {
        uint32_t first = t->ranks.data[r].first, end = first + t->ranks.data[r].n;
        for (uint32_t j = first; j < end; j++) {
            const struct task *b = &t->tasks.data[j];
            for (uint32_t i = first; i < end; i++) {
                const struct task *a = &t->tasks.data[i];
                bool comms = a->kind != TASK_COMPUTE && b->kind != TASK_COMPUTE &&
                             a->comm == b->comm && a->round < b->round;
                if (w->node_of[i] != w->node_of[j] && ((i < j && a->lane == b->lane) || comms))
                    add_before(w, w->node_of[i], w->node_of[j]);
            }
            for (uint32_t d = 0; d < b->deps; d++)
                add_before(w, w->node_of[t->deps.data[b->first_dep + d]], w->node_of[j]);
        }
    }
}

static void fill_memory(struct world *w) {
    const struct tasks *t = w->t;
    const struct flow *f = t->flow;
    for (uint32_t r = 0; r < t->ranks.count; r++) {
        w->arena[r] = malloc(t->ranks.data[r].arena_bytes + 1);
        for (uint64_t i = 0; i < t->ranks.data[r].arena_bytes; i++)
            w->arena[r][i] = (unsigned char)next_random(&w->seed);
    }
    w->chunk = calloc(f->locs + 1, sizeof *w->chunk);
    for (loc_id loc = 0; loc < f->locs; loc++) {
        if (flow_buffer_of(f, loc, NULL, NULL)->role == ROLE_SCRATCH)
            continue;
        uint64_t elems = flow_input_elems(f, loc), seed = 77 + loc * UINT64_C(7919);
        float *x = calloc(elems + 1, sizeof *x);
        for (uint64_t i = 0; i < elems; i++)
            x[i] = (float)((double)(next_random(&seed) >> 11) / 9007199254740992.0 - 0.5);
        w->chunk[loc] = (unsigned char *)x;
    }
}

static void world_free(struct world *w) {
    for (uint32_t r = 0; r < w->t->ranks.count; r++)
        free(w->arena[r]);
    for (loc_id loc = 0; loc < w->t->flow->locs; loc++)
        free(w->chunk[loc]);
    for (uint32_t i = 0; i < w->node_count; i++)
        for (uint32_t j = 0; j < MAX_NODE_OUTS; j++)
            free(w->nodes[i].result[j]);
    for (uint32_t i = 0; i < w->node_count; i++)
        for (uint32_t j = 0; j < MAX_NODE_OPERANDS; j++)
            free(w->nodes[i].read[j]);
    free(w->chunk);
    free(w->nodes);
    free(w->node_of);
    free(w->members);
    free(w->before);
    free(w->moved);
}

/* Runs the tasks in one random interleaving; the world then holds the result. */
static void run_world(struct world *w, const struct tasks *t, uint64_t seed) {
    memset(w, 0, sizeof *w);
    w->t = t;
    w->seed = seed | 1;
    fill_memory(w);
    make_nodes(w);
    order_nodes(w);
    w->moved = calloc(t->messages.count + 1, sizeof *w->moved);
    for (uint32_t i = 0; i < w->node_count; i++)
        w->nodes[i].priority = (uint32_t)(next_random(&w->seed) >> 32);
    while (!w->wrong && take_step(w))
        ;
    for (uint32_t i = 0; i < w->node_count && !w->wrong; i++)
        if (!w->nodes[i].complete)
            w->wrong = "it hangs";
}

/* Chunks that a caller sees hold the same bits in both. */
static bool same_result(const struct world *a, const struct world *b) {
    const struct flow *f = a->t->flow;
    for (loc_id loc = 0; loc < f->locs; loc++)
        if (a->chunk[loc] &&
            memcmp(a->chunk[loc], b->chunk[loc], flow_input_elems(f, loc) * sizeof(float)) != 0)
            return false;
    return true;
}

#endif
