/* Validate, part two: nothing waits in a circle.
 *
 * What waits is a compute, or a round group: the sends and receives of one (rank, comm, round),
 * which start together and complete together. The waits, of all ranks at once:
 *
 *     start(x)     for complete(y)   y is earlier in x's lane; or an earlier round of x's
 *                                    communicator on this rank; or a task of x names one of y as
 *                                    a dependency
 *     complete(x)  for start(x)
 *     complete(g)  for start(h)      round groups on two ranks with a message between them: NCCL
 *                                    moves nothing before both are there, and a group ends when
 *                                    all its messages have moved
 *
 * Kahn's algorithm takes what waits for nothing until all is taken, and leaves the order in
 * m->events. What is left over otherwise waits for a circle, of which the shortest that is easily
 * found is shown.
 */
#include "compiler/validate.h"

struct order {
    struct model *m;
    VEC(uint32_t) starts;    /* [nodes] what the start still waits for */
    VEC(uint32_t) completes; /* [nodes] what the completion of a group still waits for */
    VEC(uint32_t) stack;     /* events that can happen */
};

/* ---- nodes ---- */

struct grouping {
    VEC(uint64_t) keys, spare; /* sends and receives of a rank: comm, round, list position */
    VEC(uint32_t) leader;      /* [n] first position of the group */
    VEC(uint64_t) edges;       /* from, to: within the rank */
    VEC(uint32_t) count;
};

#define POSITION_BITS 29
#define POSITION_MASK ((UINT64_C(1) << POSITION_BITS) - 1)

/* The first member of each task's group; and one group, one lane, one place a message. */
static bool find_leaders(struct model *m, struct grouping *g, const struct rank_tasks *r) {
    const struct task *list = m->t->tasks.data + r->first;
    VEC_CLEAR(&g->keys);
    VEC_CLEAR(&g->leader);
    for (uint32_t i = 0; i < r->n; i++) {
        VEC_PUSH(&g->leader, i);
        if (list[i].kind != TASK_COMPUTE)
            VEC_PUSH(&g->keys,
                     (uint64_t)list[i].comm << 62 | (uint64_t)list[i].round << POSITION_BITS | i);
    }
    VEC_CLEAR(&g->spare);
    (void)VEC_ADD_N(&g->spare, g->keys.count);
    validate_sort(g->keys.data, g->spare.data, g->keys.count);
    bool ok = true;
    for (size_t i = 1; i < g->keys.count; i++) {
        uint32_t before = (uint32_t)(g->keys.data[i - 1] & POSITION_MASK);
        uint32_t here = (uint32_t)(g->keys.data[i] & POSITION_MASK);
        if (g->keys.data[i - 1] >> POSITION_BITS == g->keys.data[i] >> POSITION_BITS)
            g->leader.data[here] = g->leader.data[before];
        if (list[here].comm != list[before].comm || list[here].lane == list[before].lane)
            continue;
        task_report(m, r->first + here, SEV_ERROR,
                    "rank %u: %s is in lane %u and %s in lane %u, but one communicator takes one "
                    "lane",
                    task_rank(m->t, r->first), task_name(m, r->first + before), list[before].lane,
                    task_name(m, r->first + here), list[here].lane);
        task_note(m, r->first + before, "the other lane is named here");
        ok = false;
        break;
    }
    return ok;
}

static void add_nodes(struct model *m, struct grouping *g, const struct rank_tasks *r) {
    node_id first = VEC_LAST(&m->rank_node), n = 0;
    VEC_CLEAR(&g->count);
    for (uint32_t i = 0; i < r->n; i++) {
        bool leads = g->leader.data[i] == i;
        node_id node = leads ? first + n++ : m->node_of.data[r->first + g->leader.data[i]];
        m->node_of.data[r->first + i] = node;
        if (leads)
            VEC_PUSH(&g->count, 0);
        g->count.data[node - first]++;
    }
    uint32_t at = r->first;
    for (node_id i = 0; i < n; i++) {
        VEC_PUSH(&m->member_begin, at);
        at += g->count.data[i];
        g->count.data[i] = at - g->count.data[i];
    }
    for (uint32_t i = 0; i < r->n; i++)
        m->members.data[g->count.data[m->node_of.data[r->first + i] - first]++] = r->first + i;
    VEC_PUSH(&m->rank_node, first + n);
}

static void add_edge(struct grouping *g, node_id from, node_id to) {
    if (from != to)
        VEC_PUSH(&g->edges, (uint64_t)from << 32 | to);
}

static void collect_edges(struct model *m, struct grouping *g, const struct rank_tasks *r) {
    const struct tasks *t = m->t;
    node_id in_lane[VALIDATE_MAX_LANES];
    memset(in_lane, 0xff, sizeof in_lane);
    VEC_CLEAR(&g->edges);
    for (uint32_t i = r->first; i < r->first + r->n; i++) {
        const struct task *task = &t->tasks.data[i];
        node_id node = m->node_of.data[i], *before = &in_lane[task->lane];
        if (*before != NONE)
            add_edge(g, *before, node);
        *before = node;
        for (uint32_t j = 0; j < task->deps; j++) {
            uint32_t dep = t->deps.data[task->first_dep + j];
            if (m->node_of.data[dep] == node) /* on itself, or within its group: never */
                VEC_PUSH(&g->edges, (uint64_t)node << 32 | node);
            add_edge(g, m->node_of.data[dep], node);
        }
    }
    for (size_t i = 1; i < g->keys.count; i++) /* rounds of a communicator */
        if (g->keys.data[i - 1] >> 62 == g->keys.data[i] >> 62)
            add_edge(g, m->node_of.data[r->first + (g->keys.data[i - 1] & POSITION_MASK)],
                     m->node_of.data[r->first + (g->keys.data[i] & POSITION_MASK)]);
}

static void add_edges(struct model *m, struct grouping *g, uint32_t rank, struct order *o) {
    const struct rank_tasks *r = &m->t->ranks.data[rank];
    collect_edges(m, g, r);
    node_id first = m->rank_node.data[rank], n = m->rank_node.data[rank + 1] - first;
    VEC_CLEAR(&g->count);
    (void)VEC_ADD_N(&g->count, n);
    uint8_t forward = 1;
    for (size_t i = 0; i < g->edges.count; i++) {
        node_id from = (node_id)(g->edges.data[i] >> 32), to = (node_id)g->edges.data[i];
        g->count.data[from - first]++;
        o->starts.data[to]++;
        forward &= from < to;
    }
    uint32_t at = (uint32_t)m->next.count;
    for (node_id i = 0; i < n; i++) {
        VEC_PUSH(&m->next_begin, at);
        at += g->count.data[i];
        g->count.data[i] = at - g->count.data[i];
    }
    (void)VEC_ADD_N(&m->next, g->edges.count);
    for (size_t i = 0; i < g->edges.count; i++)
        m->next.data[g->count.data[(node_id)(g->edges.data[i] >> 32) - first]++] =
            (node_id)g->edges.data[i];
    VEC_PUSH(&m->list_order, forward);
}

static uint64_t place_key(const struct tasks *t, uint32_t index) {
    const struct task *task = &t->tasks.data[index];
    const struct message *x = &t->messages.data[task->message];
    uint64_t receives = task->kind == TASK_RECV;
    return receives << 63 | (uint64_t)(receives ? x->src : x->dst) << 32 | task->index;
}

/* Within a group the messages between the same two ranks have different places. */
static bool check_places(struct model *m, struct grouping *g) {
    const struct tasks *t = m->t;
    size_t nodes = m->member_begin.count - 1;
    for (node_id node = 0; node < nodes; node++) {
        uint32_t begin = m->member_begin.data[node], end = m->member_begin.data[node + 1];
        if (end - begin < 2)
            continue;
        VEC_CLEAR(&g->keys);
        for (uint32_t i = begin; i < end; i++)
            VEC_PUSH(&g->keys, place_key(t, m->members.data[i]));
        VEC_CLEAR(&g->spare);
        (void)VEC_ADD_N(&g->spare, g->keys.count);
        validate_sort(g->keys.data, g->spare.data, g->keys.count);
        for (size_t i = 1; i < g->keys.count; i++) {
            if (g->keys.data[i] != g->keys.data[i - 1])
                continue;
            uint32_t ends[2] = {m->members.data[begin], m->members.data[begin]};
            for (uint32_t j = begin; j < end; j++)
                if (place_key(t, m->members.data[j]) == g->keys.data[i]) {
                    ends[0] = ends[1];
                    ends[1] = m->members.data[j];
                }
            uint32_t task = ends[1], rank = task_rank(t, task);
            task_report(m, task, SEV_ERROR,
                        "rank %u: two messages %s rank %llu have index %u in %s: which one is "
                        "which",
                        rank, g->keys.data[i] >> 63 ? "from" : "to",
                        (unsigned long long)(g->keys.data[i] >> 32 & 0x7fffffff),
                        (unsigned)g->keys.data[i], group_name(m, task));
            task_note(m, ends[0], "the other one is here");
            return false;
        }
    }
    return true;
}

static bool build(struct model *m, struct order *o) {
    const struct tasks *t = m->t;
    struct grouping g = {0};
    bool ok = true;
    (void)VEC_ADD_N(&m->node_of, t->tasks.count);
    (void)VEC_ADD_N(&m->members, t->tasks.count);
    VEC_PUSH(&m->rank_node, 0);
    for (size_t r = 0; r < t->ranks.count && ok; r++) {
        ok = t->ranks.data[r].n <= POSITION_MASK && find_leaders(m, &g, &t->ranks.data[r]);
        if (ok)
            add_nodes(m, &g, &t->ranks.data[r]);
    }
    VEC_PUSH(&m->member_begin, (uint32_t)t->tasks.count);
    ok = ok && check_places(m, &g);
    if (ok) {
        (void)VEC_ADD_N(&o->starts, VEC_LAST(&m->rank_node));
        (void)VEC_ADD_N(&o->completes, VEC_LAST(&m->rank_node));
        for (uint32_t r = 0; r < t->ranks.count; r++) {
            const struct rank_tasks *rank = &t->ranks.data[r];
            (void)find_leaders(m, &g, rank); /* the rounds in order */
            add_edges(m, &g, r, o);
        }
        VEC_PUSH(&m->next_begin, (uint32_t)m->next.count);
    }
    VEC_FREE(&g.keys);
    VEC_FREE(&g.spare);
    VEC_FREE(&g.leader);
    VEC_FREE(&g.edges);
    VEC_FREE(&g.count);
    return ok;
}

/* ---- Kahn's algorithm ---- */

static node_id peer_node(const struct model *m, uint32_t task) {
    const struct task *x = &m->t->tasks.data[task];
    const struct message *message = &m->t->messages.data[x->message];
    return m->node_of.data[x->kind == TASK_SEND ? message->recv : message->send];
}

static void less_one(struct order *o, uint32_t *waits, uint32_t event) {
    if (!--*waits)
        VEC_PUSH(&o->stack, event);
}

static void complete_node(struct order *o, node_id node) {
    const struct model *m = o->m;
    for (uint32_t i = m->next_begin.data[node]; i < m->next_begin.data[node + 1]; i++)
        less_one(o, &o->starts.data[m->next.data[i]], 2 * m->next.data[i]);
}

static void start_node(struct order *o, node_id node) {
    const struct model *m = o->m;
    if (!node_is_group(m, node)) {
        complete_node(o, node);
        return;
    }
    for (uint32_t i = m->member_begin.data[node]; i < m->member_begin.data[node + 1]; i++) {
        node_id peer = peer_node(m, m->members.data[i]);
        less_one(o, &o->completes.data[peer], 2 * peer + 1);
    }
    less_one(o, &o->completes.data[node], 2 * node + 1);
}

static bool run_kahn(struct order *o) {
    struct model *m = o->m;
    node_id nodes = VEC_LAST(&m->rank_node);
    size_t all = 0;
    for (node_id n = nodes; n-- > 0;) {
        if (node_is_group(m, n))
            o->completes.data[n] = 1 + m->member_begin.data[n + 1] - m->member_begin.data[n];
        all += node_is_group(m, n) ? 2 : 1;
        if (!o->starts.data[n])
            VEC_PUSH(&o->stack, 2 * n);
    }
    VEC_RESERVE(&m->events, all);
    while (o->stack.count) {
        uint32_t event = VEC_POP(&o->stack);
        VEC_PUSH(&m->events, event);
        if (event & 1)
            complete_node(o, event / 2);
        else
            start_node(o, event / 2);
    }
    return m->events.count == all;
}

/* ---- showing a circle ---- */

/* Which events wait for which, among those that never happen: event -> what it waits for. */
struct circle {
    struct order *o;
    VEC(uint32_t) before_begin; /* [nodes + 1] nodes of the rank that a node's start waits for */
    VEC(node_id) before;
    VEC(uint32_t) seen; /* [2 * nodes] 1 + place in queue, of the search with this stamp */
    VEC(uint32_t) stamp;
    VEC(uint32_t) queue, from; /* events, and the place of the one that waits for each */
    VEC(uint32_t) best;        /* the circle: each waits for the next, the last for the first */
};

static bool blocked(const struct order *o, uint32_t event) {
    if (event & 1)
        return o->completes.data[event / 2] != 0;
    return o->starts.data[event / 2] != 0;
}

static void reverse_edges(struct circle *k) {
    const struct model *m = k->o->m;
    node_id nodes = VEC_LAST(&m->rank_node);
    (void)VEC_ADD_N(&k->before_begin, (size_t)nodes + 2);
    for (size_t i = 0; i < m->next.count; i++)
        k->before_begin.data[m->next.data[i] + 2]++;
    for (node_id n = 0; n < nodes; n++)
        k->before_begin.data[n + 2] += k->before_begin.data[n + 1];
    (void)VEC_ADD_N(&k->before, m->next.count);
    for (node_id n = 0; n < nodes; n++)
        for (uint32_t i = m->next_begin.data[n]; i < m->next_begin.data[n + 1]; i++)
            k->before.data[k->before_begin.data[m->next.data[i] + 1]++] = n;
}

/* The i-th event that a blocked one waits for and that is blocked itself; NONE: no more. */
static uint32_t waits_for(const struct circle *k, uint32_t event, uint32_t *i) {
    const struct model *m = k->o->m;
    node_id node = event / 2;
    if (event & 1) {
        uint32_t members = m->member_begin.data[node + 1] - m->member_begin.data[node];
        for (; *i <= members;) {
            uint32_t at = (*i)++;
            uint32_t other =
                at == 0 ? node : peer_node(m, m->members.data[m->member_begin.data[node] + at - 1]);
            if (blocked(k->o, 2 * other))
                return 2 * other;
        }
        return NONE;
    }
    uint32_t begin = k->before_begin.data[node], n = k->before_begin.data[node + 1] - begin;
    while (*i < n) {
        node_id other = k->before.data[begin + (*i)++];
        uint32_t completes = node_is_group(m, other) ? 2 * other + 1 : 2 * other;
        if (blocked(k->o, completes))
            return completes;
    }
    return NONE;
}

/* The shortest circle through an event, when it is shorter than the best one. */
static void search_circle(struct circle *k, uint32_t start, uint32_t stamp) {
    VEC_CLEAR(&k->queue);
    VEC_CLEAR(&k->from);
    VEC_PUSH(&k->queue, start);
    VEC_PUSH(&k->from, NONE);
    for (uint32_t head = 0; head < k->queue.count; head++) {
        uint32_t i = 0, next;
        while ((next = waits_for(k, k->queue.data[head], &i)) != NONE) {
            if (next == start) {
                uint32_t length = 0;
                for (uint32_t at = head; at != NONE; at = k->from.data[at])
                    length++;
                if (k->best.count && k->best.count <= length)
                    return;
                VEC_CLEAR(&k->best);
                (void)VEC_ADD_N(&k->best, length);
                for (uint32_t at = head; at != NONE; at = k->from.data[at])
                    k->best.data[--length] = k->queue.data[at];
                return;
            }
            if (k->stamp.data[next] == stamp)
                continue;
            k->stamp.data[next] = stamp;
            VEC_PUSH(&k->queue, next);
            VEC_PUSH(&k->from, head);
        }
    }
}

/* Following waits from any blocked event ends in a circle; then the shortest through each of its
 * first events. */
static void find_circle(struct circle *k) {
    node_id nodes = VEC_LAST(&k->o->m->rank_node);
    (void)VEC_ADD_N(&k->stamp, (size_t)nodes * 2);
    (void)VEC_ADD_N(&k->seen, (size_t)nodes * 2);
    uint32_t event = 0;
    while (!blocked(k->o, event) || (event & 1 && !node_is_group(k->o->m, event / 2)))
        event++;
    VEC(uint32_t) path = {0};
    while (!k->seen.data[event]) {
        VEC_PUSH(&path, event);
        k->seen.data[event] = (uint32_t)path.count;
        uint32_t i = 0;
        event = waits_for(k, event, &i);
    }
    uint32_t stamp = 0;
    for (size_t i = k->seen.data[event] - 1; i < path.count && stamp < 64; i++)
        search_circle(k, path.data[i], ++stamp);
    VEC_FREE(&path);
}

/* Why `node` starts after `before`: the member that names it, and how to say so. */
static const char *local_reason(const struct model *m, node_id before, node_id node, uint32_t *who,
                                uint32_t *whom) {
    const struct tasks *t = m->t;
    for (uint32_t i = m->member_begin.data[node]; i < m->member_begin.data[node + 1]; i++) {
        *who = m->members.data[i];
        const struct task *task = &t->tasks.data[*who];
        for (uint32_t j = 0; j < task->deps; j++) {
            *whom = t->deps.data[task->first_dep + j];
            if (m->node_of.data[*whom] == before)
                return "it depends on it";
        }
    }
    *who = m->members.data[m->member_begin.data[node]];
    *whom = m->members.data[m->member_begin.data[before]];
    const struct task *a = &t->tasks.data[*whom], *b = &t->tasks.data[*who];
    if (a->kind != TASK_COMPUTE && b->kind != TASK_COMPUTE && a->comm == b->comm &&
        a->round < b->round)
        return "an earlier round";
    return "it is behind it in its lane";
}

static const char *waiter_name(struct model *m, uint32_t task) {
    if (m->t->tasks.data[task].kind == TASK_COMPUTE)
        return task_name(m, task);
    return arena_printf(m->c->arena, "%s, with %s,", group_name(m, task), task_name(m, task));
}

/* A line for each wait of the circle between two nodes. */
static void show_wait(struct model *m, uint32_t event, uint32_t next) {
    node_id node = event / 2, other = next / 2;
    uint32_t who, whom;
    if ((event & 1) == 0) {
        const char *reason = local_reason(m, other, node, &who, &whom);
        task_report(m, who, SEV_NOTE, "rank %u: %s waits for %s: %s", task_rank(m->t, who),
                    waiter_name(m, who), task_name(m, whom), reason);
        return;
    }
    if (node == other)
        return;
    for (uint32_t i = m->member_begin.data[node]; i < m->member_begin.data[node + 1]; i++) {
        who = m->members.data[i];
        if (peer_node(m, who) != other)
            continue;
        const struct message *x = &m->t->messages.data[m->t->tasks.data[who].message];
        whom = m->t->tasks.data[who].kind == TASK_SEND ? x->recv : x->send;
        task_report(m, who, SEV_NOTE, "rank %u: %s cannot complete before rank %u starts %s",
                    task_rank(m->t, who), waiter_name(m, who), task_rank(m->t, whom),
                    group_name(m, whom));
        return;
    }
}

static void report_circle(struct order *o) {
    struct model *m = o->m;
    struct circle k = {.o = o};
    reverse_edges(&k);
    find_circle(&k);
    uint32_t first = m->members.data[m->member_begin.data[k.best.data[0] / 2]];
    task_report(
        m, first, SEV_ERROR,
        "these tasks wait for each other and none of them can ever run: move a message to a "
        "later round, or take a wait away");
    enum { MOST = 24 };
    for (size_t i = 0; i < k.best.count && i < MOST; i++)
        show_wait(m, k.best.data[i], k.best.data[(i + 1) % k.best.count]);
    if (k.best.count > MOST)
        task_report(m, first, SEV_NOTE, "and %zu more", k.best.count - MOST);
    VEC_FREE(&k.before_begin);
    VEC_FREE(&k.before);
    VEC_FREE(&k.seen);
    VEC_FREE(&k.stamp);
    VEC_FREE(&k.queue);
    VEC_FREE(&k.from);
    VEC_FREE(&k.best);
}

bool validate_order(struct model *m) {
    struct order o = {.m = m};
    bool ok = build(m, &o);
    if (ok && !run_kahn(&o)) {
        report_circle(&o);
        ok = false;
    }
    VEC_FREE(&o.starts);
    VEC_FREE(&o.completes);
    VEC_FREE(&o.stack);
    return ok;
}
