/* Validate, part three: races, overlaps, and reads of what is not there; rank by rank.
 *
 * Two tasks of a rank are ordered when a path of lane order, round order and dependencies within
 * the rank leads from one to the other; what other ranks do is not relied on. Each node (a round
 * group or a compute) carries a clock: for each lane, how many of its nodes are surely complete
 * when it starts.
 *
 *     lane 0   send recv | send recv |          clock of C = [2, 1]: it waits for the second
 *     lane 1        A    |     \-> C |          group of lane 0, and is behind A
 *
 * Nodes are visited in an order that fits those paths. Every access to a piece, accumulator or
 * chunk slice is compared with the accesses before it: a read needs the last write in its clock, a
 * write needs every earlier access. A group's own accesses are in no one's clock but its
 * successors', so a receive into what the same group sends is a race.
 *
 * Memory of the arena belongs to what was written there last. A write into memory that belonged to
 * something else needs every access to that other thing in its clock; a read of something whose
 * memory was taken is an error. For this the arena is cut into cells at all ends of all its
 * tenants.
 */
#include "compiler/validate.h"

#include "compiler/verify.h"
#include "kernels/reduce.h"

struct resource {
    struct operand what;
    uint32_t slice;
    uint32_t user;          /* a task that uses it, for messages */
    uint32_t written;       /* 1 + the task that wrote it last */
    bool filled;            /* has content from the start: input and inout */
    uint64_t offset, bytes; /* bytes 0: not in the arena */
    uint32_t first_cell, cells, owned;
};

/* Something wrong between two tasks of a rank. One mistake tends to be made on many ranks and for
 * many chunks: what is alike is told once, for the first, and the others are counted up. */
struct hazard {
    enum hazard_kind { HAZARD_RACE, HAZARD_OVERLAP, HAZARD_UNWRITTEN, HAZARD_TAKEN } kind;
    enum operand_kind what;
    bool wrote, writes;      /* RACE: the earlier, the later task */
    uint32_t earlier, later; /* tasks; NONE: there is no earlier one */
    const char *text;
    struct {
        uint32_t earlier, later; /* places in the list of each of the ranks */
        struct ints ranks;
    } alike[6];
    uint32_t alikes, more;
};

enum { MOST_HAZARDS = 20 };

struct memory {
    struct model *m;
    struct hazard hazards[MOST_HAZARDS];
    uint32_t hazard_count;
    uint32_t lanes;
    VEC(uint32_t) pieces, accs, chunks; /* 1 + resource, of the rank that it is on */
    /* [nodes] Place in the order of events; only where lists are not in order. */
    VEC(uint32_t) when;

    /* of the rank at hand */
    uint32_t rank;
    node_id first_node, nodes;
    VEC(struct resource) resources;
    VEC(uint32_t) used; /* [resources][lanes] 1 + last task of the lane that used it */
    VEC(uint64_t) edges, spare;
    VEC(uint32_t) cell_owner; /* 1 + resource */
    VEC(uint32_t) clocks;     /* [nodes][lanes] */
    VEC(uint32_t) seq;        /* [nodes] 1.. in its lane */
};

/* ---- what a rank's tasks touch ---- */

static uint32_t add_resource(struct memory *k, uint32_t task, struct operand o) {
    const struct tasks *t = k->m->t;
    const struct task *x = &t->tasks.data[task];
    struct resource r = {.what = o, .slice = x->slice, .user = task};
    uint32_t elem_bytes = dtype_bytes(t->flow->setup.dtype);
    uint64_t first;
    switch (o.kind) {
    case OPERAND_CHUNK: {
        enum buffer_role role = flow_buffer_of(t->flow, o.index, NULL, NULL)->role;
        r.filled = role == ROLE_INPUT || role == ROLE_INOUT;
        if (role != ROLE_SCRATCH)
            break;
        r.bytes = tasks_slice_elems(t, o.index, x->slice, &first) * elem_bytes;
        r.offset = t->chunk_offsets.data[o.index] + first * elem_bytes;
        break;
    }
    case OPERAND_ACC:
        r.bytes = tasks_elems(t, x) * reduce_acc_bytes(t->flow->setup.dtype);
        r.offset = t->acc_offsets.data[t->ranks.data[k->rank].first_acc + o.index];
        break;
    case OPERAND_PIECE:
        r.bytes = t->pieces.data[o.index].bytes;
        r.offset = t->pieces.data[o.index].offset;
        break;
    }
    VEC_PUSH(&k->resources, r);
    (void)VEC_ADD_N(&k->used, k->lanes);
    return (uint32_t)k->resources.count;
}

static uint32_t *known_resource(struct memory *k, uint32_t task, struct operand o) {
    const struct tasks *t = k->m->t;
    switch (o.kind) {
    case OPERAND_CHUNK:
        return &k->chunks.data[(size_t)o.index * t->slices + t->tasks.data[task].slice];
    case OPERAND_ACC:
        return &k->accs.data[t->ranks.data[k->rank].first_acc + o.index];
    case OPERAND_PIECE:
        break;
    }
    return &k->pieces.data[o.index];
}

static uint32_t resource_of(struct memory *k, uint32_t task, struct operand o) {
    uint32_t *known = known_resource(k, task, o);
    if (!*known)
        *known = add_resource(k, task, o);
    return *known - 1;
}

static struct operand out_operand(const struct tasks *t, const struct task *task, uint32_t i) {
    return (struct operand){OPERAND_PIECE, t->outs.data[task->first_out + i]};
}

static const char *resource_name(struct memory *k, const struct resource *r) {
    return operand_name(k->m, r->user, r->what);
}

static bool check_place(struct memory *k, const struct resource *r) {
    const struct tasks *t = k->m->t;
    uint64_t arena_bytes = t->ranks.data[k->rank].arena_bytes;
    const char *wrong = NULL;
    if (r->what.kind == OPERAND_CHUNK && !r->filled &&
        t->chunk_offsets.data[r->what.index] == UINT64_MAX)
        wrong = r->bytes ? "has no place in the arena" : NULL;
    else if (r->what.kind == OPERAND_ACC && r->offset % 256)
        wrong = "is not aligned to 256 bytes";
    else if (r->bytes > arena_bytes || r->offset > arena_bytes - r->bytes)
        wrong = r->bytes ? "reaches beyond the rank's arena" : NULL;
    if (wrong)
        task_report(k->m, r->user, SEV_ERROR, "rank %u: %s %s", k->rank, resource_name(k, r),
                    wrong);
    return !wrong;
}

static uint32_t cell_at(const struct memory *k, uint64_t offset) {
    size_t lo = 0, hi = k->edges.count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (k->edges.data[mid] < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (uint32_t)lo;
}

static void cut_cells(struct memory *k) {
    VEC_CLEAR(&k->edges);
    for (size_t i = 0; i < k->resources.count; i++) {
        const struct resource *r = &k->resources.data[i];
        if (!r->bytes)
            continue;
        VEC_PUSH(&k->edges, r->offset);
        VEC_PUSH(&k->edges, r->offset + r->bytes);
    }
    VEC_CLEAR(&k->spare);
    (void)VEC_ADD_N(&k->spare, k->edges.count);
    validate_sort(k->edges.data, k->spare.data, k->edges.count);
    size_t n = 0;
    for (size_t i = 0; i < k->edges.count; i++)
        if (!n || k->edges.data[n - 1] != k->edges.data[i])
            k->edges.data[n++] = k->edges.data[i];
    k->edges.count = n;
    VEC_CLEAR(&k->cell_owner);
    (void)VEC_ADD_N(&k->cell_owner, n);
    for (size_t i = 0; i < k->resources.count; i++) {
        struct resource *r = &k->resources.data[i];
        if (!r->bytes)
            continue;
        r->first_cell = cell_at(k, r->offset);
        r->cells = cell_at(k, r->offset + r->bytes) - r->first_cell;
    }
}

static bool collect_resources(struct memory *k) {
    const struct tasks *t = k->m->t;
    const struct rank_tasks *r = &t->ranks.data[k->rank];
    VEC_CLEAR(&k->resources);
    VEC_CLEAR(&k->used);
    for (uint32_t i = r->first; i < r->first + r->n; i++) {
        const struct task *task = &t->tasks.data[i];
        for (uint32_t j = 0; j < task->operands; j++)
            (void)resource_of(k, i, t->operands.data[task->first_operand + j]);
        if (task->store.index != NONE)
            (void)resource_of(k, i, task->store);
        for (uint32_t j = 0; j < task->outs; j++)
            (void)resource_of(k, i, out_operand(t, task, j));
    }
    bool ok = true;
    for (size_t i = 0; i < k->resources.count && !diag_full(k->m->c->diag); i++)
        ok &= check_place(k, &k->resources.data[i]);
    if (ok)
        cut_cells(k);
    return ok;
}

/* ---- waits ---- */

static const uint32_t *clock_of(const struct memory *k, uint32_t task) {
    return &k->clocks.data[(size_t)(k->m->node_of.data[task] - k->first_node) * k->lanes];
}

/* Whether `earlier` is surely over when the node of `task` starts. */
static bool is_over(const struct memory *k, uint32_t earlier, uint32_t task) {
    return k->seq.data[k->m->node_of.data[earlier] - k->first_node] <=
           clock_of(k, task)[k->m->t->tasks.data[earlier].lane];
}

/* ---- what is wrong ---- */

static bool same_group_of(const struct memory *k, uint32_t a, uint32_t b) {
    return k->m->node_of.data[a] == k->m->node_of.data[b];
}

/* Tasks that do the same for other chunks, or on other ranks. */
static bool task_alike(const struct tasks *t, uint32_t a, uint32_t b) {
    if (a == NONE || b == NONE)
        return a == b;
    const struct task *x = &t->tasks.data[a], *y = &t->tasks.data[b];
    const struct flow *f = t->flow;
    bool compiled = x->op < f->ops.count && y->op < f->ops.count;
    return x->kind == y->kind && x->comm == y->comm && x->stage == y->stage &&
           (x->kind != TASK_COMPUTE || task_op_of(t, x) == task_op_of(t, y)) &&
           (!compiled || f->ops.data[x->op].at == f->ops.data[y->op].at);
}

static bool hazard_alike(const struct memory *k, const struct hazard *a, const struct hazard *b) {
    const struct tasks *t = k->m->t;
    return a->kind == b->kind && a->what == b->what && a->wrote == b->wrote &&
           a->writes == b->writes && task_alike(t, a->earlier, b->earlier) &&
           task_alike(t, a->later, b->later) &&
           (a->earlier == NONE ||
            same_group_of(k, a->earlier, a->later) == same_group_of(k, b->earlier, b->later));
}

static uint32_t place_in_list(const struct memory *k, uint32_t task) {
    return task == NONE ? NONE : task - k->m->t->ranks.data[k->rank].first;
}

static void add_alike(struct memory *k, struct hazard *h, uint32_t earlier, uint32_t later) {
    if (h->earlier == earlier && h->later == later)
        return;
    earlier = place_in_list(k, earlier);
    later = place_in_list(k, later);
    uint32_t i = 0;
    while (i < h->alikes && (h->alike[i].earlier != earlier || h->alike[i].later != later))
        i++;
    if (i == sizeof h->alike / sizeof *h->alike) {
        h->more++;
        return;
    }
    if (i == h->alikes)
        h->alikes++;
    h->alike[i].earlier = earlier;
    h->alike[i].later = later;
    ints_add(k->m->c->arena, &h->alike[i].ranks, (int32_t)k->rank);
}

/* The hazard to describe; NULL: one like it has been, or there is no room. */
static struct hazard *add_hazard(struct memory *k, struct hazard h) {
    for (uint32_t i = 0; i < k->hazard_count; i++) {
        if (!hazard_alike(k, &k->hazards[i], &h))
            continue;
        add_alike(k, &k->hazards[i], h.earlier, h.later);
        return NULL;
    }
    if (k->hazard_count == MOST_HAZARDS)
        return NULL;
    k->hazards[k->hazard_count] = h;
    return &k->hazards[k->hazard_count++];
}

/* What to write where. Tasks of one group start together, so no wait helps them. */
static const char *advice(struct memory *k, uint32_t earlier, uint32_t later) {
    struct model *m = k->m;
    uint32_t first = m->t->ranks.data[k->rank].first;
    if (same_group_of(k, earlier, later))
        return "both are in one round, put one of them into another";
    return arena_printf(m->c->arena, "nothing orders them, let t%u wait for t%u", later - first,
                        earlier - first);
}

static void add_race(struct memory *k, uint32_t resource, uint32_t earlier, bool wrote,
                     uint32_t later, bool writes) {
    const struct resource *r = &k->resources.data[resource];
    struct hazard *h = add_hazard(k, (struct hazard){.kind = HAZARD_RACE,
                                                     .what = r->what.kind,
                                                     .wrote = wrote,
                                                     .writes = writes,
                                                     .earlier = earlier,
                                                     .later = later});
    if (h)
        h->text = arena_printf(k->m->c->arena, "rank %u: race on %s: %s %s it and %s %s it; %s",
                               k->rank, resource_name(k, r), task_name(k->m, earlier),
                               wrote ? "writes" : "reads", task_name(k->m, later),
                               writes ? "writes" : "reads", advice(k, earlier, later));
}

static void add_overlap(struct memory *k, uint32_t old, uint32_t user, uint32_t fresh,
                        uint32_t writer) {
    const struct resource *a = &k->resources.data[old], *b = &k->resources.data[fresh];
    struct hazard *h = add_hazard(
        k, (struct hazard){
               .kind = HAZARD_OVERLAP, .what = b->what.kind, .earlier = user, .later = writer});
    if (h)
        h->text = arena_printf(
            k->m->c->arena,
            "rank %u: %s at %llu and %s at %llu share memory: %s uses the first while %s may "
            "write the second; %s",
            k->rank, resource_name(k, a), (unsigned long long)a->offset, resource_name(k, b),
            (unsigned long long)b->offset, task_name(k->m, user), task_name(k->m, writer),
            user == writer ? "move one of them" : advice(k, user, writer));
}

static void add_unwritten(struct memory *k, const struct resource *r, uint32_t task) {
    struct hazard *h = add_hazard(
        k, (struct hazard){
               .kind = HAZARD_UNWRITTEN, .what = r->what.kind, .earlier = NONE, .later = task});
    if (h)
        h->text = arena_printf(k->m->c->arena,
                               "rank %u: %s reads %s, which nothing has written before it", k->rank,
                               task_name(k->m, task), resource_name(k, r));
}

static void add_taken(struct memory *k, uint32_t resource, uint32_t task) {
    const struct resource *r = &k->resources.data[resource];
    uint32_t taker = 0;
    for (uint32_t i = 0; i < r->cells; i++)
        if (k->cell_owner.data[r->first_cell + i] != resource + 1)
            taker = k->cell_owner.data[r->first_cell + i] - 1;
    const struct resource *by = &k->resources.data[taker];
    struct hazard *h = add_hazard(k, (struct hazard){.kind = HAZARD_TAKEN,
                                                     .what = r->what.kind,
                                                     .earlier = by->written - 1,
                                                     .later = task});
    if (h)
        h->text = arena_printf(
            k->m->c->arena,
            "rank %u: %s reads %s at %llu, whose memory %s has overwritten with %s at %llu; "
            "move one of them",
            k->rank, task_name(k->m, task), resource_name(k, r), (unsigned long long)r->offset,
            task_name(k->m, by->written - 1), resource_name(k, by), (unsigned long long)by->offset);
}

/* "the same with t3 and t6 on rank 1; t4 and t6 on ranks 1, 2" */
static void note_alikes(struct memory *k, const struct hazard *h) {
    struct arena *a = k->m->c->arena;
    const char *text = "the same with ";
    for (uint32_t i = 0; i < h->alikes; i++) {
        const char *earlier = h->earlier == NONE || h->alike[i].earlier == h->alike[i].later
                                  ? ""
                                  : arena_printf(a, "t%u and ", h->alike[i].earlier);
        text = arena_printf(a, "%s%s%st%u on %s", text, i ? "; " : "", earlier, h->alike[i].later,
                            ranks_text(a, &h->alike[i].ranks));
    }
    if (h->more)
        text = arena_printf(a, "%s; and %u more", text, h->more);
    if (h->alikes)
        task_report(k->m, h->later, SEV_NOTE, "%s", text);
}

static void report_hazards(struct memory *k) {
    for (uint32_t i = 0; i < k->hazard_count && !diag_full(k->m->c->diag); i++) {
        const struct hazard *h = &k->hazards[i];
        const char *there = "written here";
        if (h->kind == HAZARD_RACE && !h->wrote)
            there = "read here";
        else if (h->kind == HAZARD_OVERLAP)
            there = "the first is used here";
        else if (h->kind == HAZARD_TAKEN)
            there = "overwritten here";
        task_report(k->m, h->later, SEV_ERROR, "%s", h->text);
        if (h->earlier != NONE && h->earlier != h->later)
            task_note(k->m, h->earlier, there);
        note_alikes(k, h);
    }
}

/* ---- accesses ---- */

static bool read_access(struct memory *k, uint32_t task, struct operand o) {
    uint32_t index = resource_of(k, task, o);
    struct resource *r = &k->resources.data[index];
    k->m->accesses++;
    bool ok = true;
    if (!r->written && !r->filled) {
        add_unwritten(k, r, task);
        ok = false;
    } else if (r->owned != r->cells) {
        add_taken(k, index, task);
        ok = false;
    } else if (r->written && !is_over(k, r->written - 1, task)) {
        add_race(k, index, r->written - 1, true, task, false);
        ok = false;
    }
    k->used.data[(size_t)index * k->lanes + k->m->t->tasks.data[task].lane] = task + 1;
    return ok;
}

/* The use of a resource that is not over when the task starts; NONE. */
static uint32_t still_used(const struct memory *k, uint32_t resource, uint32_t task) {
    const uint32_t *used = &k->used.data[(size_t)resource * k->lanes];
    for (uint32_t lane = 0; lane < k->lanes; lane++)
        if (used[lane] && !is_over(k, used[lane] - 1, task))
            return used[lane] - 1;
    return NONE;
}

static bool check_reuse(struct memory *k, uint32_t index, uint32_t task) {
    uint32_t user = still_used(k, index, task);
    if (user == NONE)
        return true;
    bool wrote = k->resources.data[index].written == user + 1;
    add_race(k, index, user, wrote, task, true);
    return false;
}

/* Takes the memory of the resource from its tenants; what they still do with it matters if `ok` so
 * far. */
static bool take_cells(struct memory *k, uint32_t index, uint32_t task, bool ok) {
    struct resource *r = &k->resources.data[index];
    for (uint32_t i = r->first_cell; i < r->first_cell + r->cells; i++) {
        uint32_t owner = k->cell_owner.data[i];
        if (owner == index + 1)
            continue;
        if (owner) {
            uint32_t user = ok ? still_used(k, owner - 1, task) : NONE;
            if (user != NONE) {
                add_overlap(k, owner - 1, user, index, task);
                ok = false;
            }
            k->resources.data[owner - 1].owned--;
        }
        k->cell_owner.data[i] = index + 1;
        r->owned++;
    }
    return ok;
}

static bool write_access(struct memory *k, uint32_t task, struct operand o) {
    uint32_t index = resource_of(k, task, o);
    bool ok = take_cells(k, index, task, check_reuse(k, index, task));
    k->m->accesses++;
    k->resources.data[index].written = task + 1;
    k->used.data[(size_t)index * k->lanes + k->m->t->tasks.data[task].lane] = task + 1;
    return ok;
}

/* A compute may store into one of its own operands, element by element: then only others count. */
static bool store_access(struct memory *k, uint32_t task, bool in_place) {
    const struct task *x = &k->m->t->tasks.data[task];
    if (!in_place)
        return write_access(k, task, x->store);
    uint32_t index = resource_of(k, task, x->store);
    (void)take_cells(k, index, task, false); /* it has them, or the read was an error */
    k->resources.data[index].written = task + 1;
    k->m->accesses++;
    return true;
}

static bool same_operand(struct operand a, struct operand b) {
    return a.kind == b.kind && a.index == b.index;
}

static bool reads_of(struct memory *k, uint32_t task, bool *in_place) {
    const struct tasks *t = k->m->t;
    const struct task *x = &t->tasks.data[task];
    bool ok = true;
    *in_place = false;
    for (uint32_t i = 0; i < x->operands; i++)
        *in_place |= x->store.index != NONE &&
                     same_operand(x->store, t->operands.data[x->first_operand + i]);
    if (*in_place) /* before its own reads are counted */
        ok = check_reuse(k, resource_of(k, task, x->store), task);
    for (uint32_t i = 0; i < x->operands; i++)
        ok &= read_access(k, task, t->operands.data[x->first_operand + i]);
    return ok;
}

/* All that a node reads, then all that it writes. */
static bool visit(struct memory *k, node_id node) {
    const struct model *m = k->m;
    const struct tasks *t = m->t;
    uint32_t begin = m->member_begin.data[node], end = m->member_begin.data[node + 1];
    bool ok = true, in_place = false;
    for (uint32_t i = begin; i < end; i++)
        ok &= reads_of(k, m->members.data[i], &in_place);
    for (uint32_t i = begin; i < end; i++) {
        uint32_t task = m->members.data[i];
        const struct task *x = &t->tasks.data[task];
        if (x->store.index != NONE)
            ok &= store_access(k, task, in_place);
        for (uint32_t j = 0; j < x->outs; j++)
            ok &= write_access(k, task, out_operand(t, x, j));
    }
    return ok;
}

/* ---- a rank ---- */

static void pass_clock(struct memory *k, node_id node, uint32_t lane) {
    const struct model *m = k->m;
    const uint32_t *clock = &k->clocks.data[(size_t)(node - k->first_node) * k->lanes];
    for (uint32_t i = m->next_begin.data[node]; i < m->next_begin.data[node + 1]; i++) {
        uint32_t *to = &k->clocks.data[(size_t)(m->next.data[i] - k->first_node) * k->lanes];
        for (uint32_t l = 0; l < k->lanes; l++)
            to[l] = to[l] > clock[l] ? to[l] : clock[l];
        uint32_t seq = k->seq.data[node - k->first_node];
        to[lane] = to[lane] > seq ? to[lane] : seq;
    }
}

static void order_nodes(struct memory *k) {
    struct model *m = k->m;
    VEC_CLEAR(&k->edges); /* free until cells are cut, and after */
    for (node_id n = k->first_node; n < k->first_node + k->nodes; n++)
        VEC_PUSH(&k->edges,
                 (uint64_t)(m->list_order.data[k->rank] ? n : k->when.data[n]) << 32 | n);
    VEC_CLEAR(&k->spare);
    (void)VEC_ADD_N(&k->spare, k->edges.count);
    validate_sort(k->edges.data, k->spare.data, k->edges.count);
}

static bool check_rank(struct memory *k, uint32_t rank) {
    struct model *m = k->m;
    k->rank = rank;
    k->first_node = m->rank_node.data[rank];
    k->nodes = m->rank_node.data[rank + 1] - k->first_node;
    if (!collect_resources(k))
        return false;
    order_nodes(k);
    VEC_CLEAR(&k->clocks);
    VEC_CLEAR(&k->seq);
    (void)VEC_ADD_N(&k->clocks, (size_t)k->nodes * k->lanes);
    (void)VEC_ADD_N(&k->seq, k->nodes);
    uint32_t in_lane[VALIDATE_MAX_LANES] = {0};
    bool ok = true;
    for (node_id i = 0; i < k->nodes && k->hazard_count < MOST_HAZARDS; i++) {
        node_id node = (node_id)k->edges.data[i];
        uint32_t lane = node_task(m, node)->lane;
        k->seq.data[node - k->first_node] = ++in_lane[lane];
        ok &= visit(k, node);
        pass_clock(k, node, lane);
    }
    return ok;
}

static void find_when(struct memory *k) {
    struct model *m = k->m;
    bool needed = false;
    for (size_t r = 0; r < m->list_order.count; r++)
        needed |= !m->list_order.data[r];
    if (!needed)
        return;
    (void)VEC_ADD_N(&k->when, VEC_LAST(&m->rank_node));
    for (size_t i = 0; i < m->events.count; i++)
        if (!(m->events.data[i] & 1))
            k->when.data[m->events.data[i] / 2] = (uint32_t)i;
}

bool validate_memory(struct model *m) {
    const struct tasks *t = m->t;
    struct memory k = {.m = m, .lanes = t->lanes};
    (void)VEC_ADD_N(&k.pieces, t->pieces.count);
    (void)VEC_ADD_N(&k.accs, t->acc_offsets.count);
    (void)VEC_ADD_N(&k.chunks, (size_t)t->flow->locs * t->slices);
    find_when(&k);
    bool ok = true;
    for (uint32_t r = 0;
         r < t->ranks.count && !diag_full(m->c->diag) && k.hazard_count < MOST_HAZARDS; r++)
        ok &= check_rank(&k, r);
    report_hazards(&k);
    VEC_FREE(&k.pieces);
    VEC_FREE(&k.accs);
    VEC_FREE(&k.chunks);
    VEC_FREE(&k.when);
    VEC_FREE(&k.resources);
    VEC_FREE(&k.used);
    VEC_FREE(&k.edges);
    VEC_FREE(&k.spare);
    VEC_FREE(&k.cell_owner);
    VEC_FREE(&k.clocks);
    VEC_FREE(&k.seq);
    return ok;
}
