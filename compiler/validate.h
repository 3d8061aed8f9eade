/* Private to validate: what its files share. Each checks one thing about the finished tasks and
 * believes no other pass.
 *
 *   validate.c         the pass; every index in bounds, both ends of every message agree
 *   validate_order.c   all waits of all ranks: every task can start, every round completes
 *   validate_memory.c  races and overlaps, rank by rank; no reads of what was not written
 *   validate_values.c  what the tasks compute, message by message
 *   validate_name.c    how messages to the user call tasks, pieces and chunks
 */
#ifndef SLUICE_VALIDATE_H
#define SLUICE_VALIDATE_H

#include "compiler/ir.h"

#define VALIDATE_MAX_LANES    16u
#define VALIDATE_MAX_OPERANDS 16u

/* What waits as one: a round group (all sends and receives of one rank, comm and round: they start
 * together and complete together), or a compute. Numbered rank by rank, in list order of the first
 * member. */
typedef uint32_t node_id;

struct model {
    struct compilation *c;
    const struct tasks *t;
    VEC(node_id) node_of;       /* [tasks] */
    VEC(uint32_t) rank_node;    /* [ranks + 1] first node of each rank */
    VEC(uint32_t) member_begin; /* [nodes + 1] */
    VEC(uint32_t) members;      /* tasks, by node and then list order */
    VEC(uint32_t) next_begin;   /* [nodes + 1] edges within a rank: lane order, round order, deps */
    VEC(node_id) next;
    VEC(uint8_t) list_order; /* [ranks] the edges of the rank lead forward in its list */
    VEC(uint32_t) events;    /* one order in which everything can happen: 2 * node, or 2 * node + 1
                                when a round group completes */
    uint64_t accesses;
};

/* Each: false after errors. Later ones rely on earlier ones only for being safe to run. */
bool validate_order(struct model *m);
bool validate_memory(struct model *m);
bool validate_values(struct model *m);

static inline const struct task *node_task(const struct model *m, node_id n) {
    return &m->t->tasks.data[m->members.data[m->member_begin.data[n]]];
}
static inline bool node_is_group(const struct model *m, node_id n) {
    return node_task(m, n)->kind != TASK_COMPUTE;
}

/* Stable for equal keys only if the caller puts the position in the low bits. Linear when sorted.
 */
void validate_sort(uint64_t *keys, uint64_t *spare, size_t n);

/* ---- validate_name.c ---- */
uint32_t task_rank(const struct tasks *t, uint32_t task);
/* "rank 1, task 3 (recv of data[0] from 0)". */
const char *task_name(struct model *m, uint32_t task);
const char *piece_name(struct model *m, uint32_t piece); /* piece 2 (data[0]@1) */
const char *group_name(struct model *m, uint32_t task);  /* round 2 of comm 0 */
const char *operand_name(struct model *m, uint32_t task, struct operand o);
/* The task that fills the piece first, in the order of all lists; NONE. */
uint32_t piece_writer(const struct model *m, uint32_t piece);
/* An error (or a note) about a task, at its line or statement: see tasks_report. */
void task_report(struct model *m, uint32_t task, enum severity sev, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A note that says nothing but where the task stands; none where that is not known. */
void task_note(struct model *m, uint32_t task, const char *text);

#endif
