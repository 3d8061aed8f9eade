/* slots: gives every piece, accumulator and scratch chunk a place in its rank's arena, and every
 * task the tasks of other lanes that it must wait for.
 *
 *     offset
 *       512 |            [ piece 2 .......... ]
 *       256 | [ piece 1 ]       [ piece 3 ....... ]
 *         0 | [ scratch tmp[0] ......... ] [ acc 0 ]
 *           +-----------------------------------------> list
 *
 * Memory is reused once its last user is over, in list order. The first writer of the new content
 * waits for the last users of the old: an edge that leads forward in the list, as all others do, so
 * that reuse never closes a circle of waits.
 *
 * All messages of one tick count as one moment: what one of them sends is not overwritten by what
 * another receives. With two compute lanes the computes of one tick are one moment too, so that
 * reuse does not make them wait for each other.
 *
 * Pieces of one message stand side by side in the order of the message, each rounded up to 256
 * bytes, where they can: all pieces that a receive fills, and those of a send that were made for
 * it. A transport may then move them as one run.
 *
 * Requires: rounds and lanes. Ensures: piece offset, chunk_offsets, acc_offsets, the rank's sizes;
 * deps.
 */
#include "compiler/ir.h"

#include "kernels/reduce.h"

#define ALIGN      UINT64_C(256)
#define LANES      4     /* two communicators and two compute lanes */
#define MOST_HOLES 4096u /* beyond, neighbours are merged although their users differ */
#define MOST_FITS  256u  /* holes that fit are compared, at most so many */

/* For each lane 1 + the list position of the last task concerned; 0: none. What is behind it in its
 * lane is behind all earlier ones of that lane, too. */
struct moments {
    uint32_t at[LANES];
};

/* Something with a place in the arena: a piece, an accumulator, or a whole scratch chunk. */
struct object {
    uint64_t bytes, offset;
    uint32_t begin, end; /* list positions, rounded out to whole moments */
    uint32_t piece;      /* NONE: not a piece */
    uint32_t recv,
        send; /* list position of the receive that fills the piece, of the first send; NONE */
    uint32_t next_dead; /* list of objects with the same end */
    bool placed;
    struct moments users;  /* all tasks that touch it */
    struct moments before; /* last users of the memory before it */
};

/* What conflicts are about: a piece, an accumulator, or a slice of a chunk. */
struct resource {
    uint32_t object;  /* NONE: the caller's buffer */
    uint32_t written; /* 1 + position of the last writer */
    struct moments used;
};

struct hole {
    uint64_t offset, bytes;
    struct moments users;
};

struct slots {
    struct compilation *c;
    struct tasks *t;
    /* [locs] 0: caller's, 1: scratch, 2: scratch that an ensure speaks of, kept to the end. */
    VEC(uint8_t) scratch;
    /* 1 + number within the rank. */
    VEC(uint32_t) piece_resource, acc_resource, chunk_resource, loc_object;

    /* of the rank at hand */
    const struct rank_tasks *r;
    const struct task *list;
    VEC(struct resource) resources;
    VEC(struct object) objects;
    VEC(uint32_t) lo, hi;     /* [n] the moment that a position belongs to */
    VEC(uint32_t) node_end;   /* [n] last position of the round group, or itself */
    VEC(uint32_t) dead;       /* [n] objects by end */
    VEC(struct moments) done; /* [n] what is over when the group ending there is */
    VEC(struct hole) holes;   /* by offset */
    VEC(uint32_t) run;        /* objects to be placed side by side */
    uint64_t arena_bytes, no_fit_bytes;
};

static uint64_t align_up(uint64_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void join(struct moments *into, const struct moments *from) {
    for (int i = 0; i < LANES; i++)
        if (from->at[i] > into->at[i])
            into->at[i] = from->at[i];
}

/* ---- what must hold ---- */

static bool same_group(const struct task *a, const struct task *b) {
    return a->kind != TASK_COMPUTE && b->kind != TASK_COMPUTE && a->comm == b->comm &&
           a->round == b->round && a->lane == b->lane;
}

static bool check_order(struct compilation *c) {
    const struct tasks *t = c->tasks;
    bool ok = t->lanes > 0 && t->lanes <= LANES && t->comms <= 2;
    uint32_t at = NONE; /* the task that is out of order */
    for (size_t r = 0; r < t->ranks.count && ok; r++) {
        const struct task *list = t->tasks.data + t->ranks.data[r].first;
        uint64_t next_round[2] = {0, 0};
        for (uint32_t i = 0; i < t->ranks.data[r].n && ok; i++) {
            at = t->ranks.data[r].first + i;
            ok = list[i].lane < t->lanes && (!i || list[i - 1].tick <= list[i].tick);
            if (!ok || list[i].kind == TASK_COMPUTE)
                continue;
            ok = list[i].comm < 2;
            if (ok && !(i && same_group(&list[i - 1], &list[i]))) {
                ok = list[i].round >= next_round[list[i].comm];
                next_round[list[i].comm] = (uint64_t)list[i].round + 1;
            }
        }
    }
    if (!ok)
        tasks_report(c->diag, t, at, SEV_ERROR,
                     "the tasks have no ticks, rounds or lanes to go by: run rounds and lanes "
                     "before slots");
    return ok;
}

/* ---- objects and resources of a rank ---- */

static uint32_t new_object(struct slots *s, uint64_t bytes, uint32_t piece) {
    VEC_PUSH(
        &s->objects,
        (struct object){
            .bytes = align_up(bytes), .begin = NONE, .piece = piece, .recv = NONE, .send = NONE});
    return (uint32_t)s->objects.count - 1;
}

static uint32_t chunk_object(struct slots *s, loc_id loc) {
    if (!s->scratch.data[loc])
        return NONE;
    uint32_t *object = &s->loc_object.data[loc];
    if (!*object) {
        uint64_t first, elems = tasks_slice_elems(s->t, loc, s->t->slices - 1, &first);
        *object = 1 + new_object(s, (first + elems) * dtype_bytes(s->t->flow->setup.dtype), NONE);
    }
    return *object - 1;
}

/* The resource that a task's operand, store or out is. */
static struct resource *resource_of(struct slots *s, const struct task *task, struct operand o) {
    struct tasks *t = s->t;
    uint32_t *known = NULL, object = NONE;
    switch (o.kind) {
    case OPERAND_CHUNK:
        known = &s->chunk_resource.data[(size_t)o.index * t->slices + task->slice];
        break;
    case OPERAND_ACC:
        known = &s->acc_resource.data[s->r->first_acc + o.index];
        break;
    case OPERAND_PIECE:
        known = &s->piece_resource.data[o.index];
        break;
    }
    if (*known)
        return &s->resources.data[*known - 1];
    switch (o.kind) {
    case OPERAND_CHUNK:
        object = chunk_object(s, o.index);
        break;
    case OPERAND_ACC:
        object = new_object(s, tasks_elems(t, task) * reduce_acc_bytes(t->flow->setup.dtype), NONE);
        break;
    case OPERAND_PIECE:
        object = new_object(s, t->pieces.data[o.index].bytes, o.index);
        break;
    }
    VEC_PUSH(&s->resources, (struct resource){.object = object});
    *known = (uint32_t)s->resources.count;
    return &VEC_LAST(&s->resources);
}

static struct object *touch(struct slots *s, uint32_t position, struct operand o) {
    const struct task *task = &s->list[position];
    uint32_t object = resource_of(s, task, o)->object;
    if (object == NONE)
        return NULL;
    struct object *x = &s->objects.data[object];
    if (x->begin == NONE)
        x->begin = s->lo.data[position];
    if (x->end < s->hi.data[position])
        x->end = s->hi.data[position];
    uint32_t *last = &x->users.at[task->lane];
    if (*last < s->node_end.data[position] + 1)
        *last = s->node_end.data[position] + 1;
    return x;
}

static struct operand piece_operand(uint32_t piece) {
    return (struct operand){.kind = OPERAND_PIECE, .index = piece};
}

static void find_objects(struct slots *s) {
    const struct tasks *t = s->t;
    for (uint32_t i = 0; i < s->r->n; i++) {
        const struct task *task = &s->list[i];
        for (uint32_t j = 0; j < task->operands; j++) {
            struct object *x = touch(s, i, t->operands.data[task->first_operand + j]);
            if (x && task->kind == TASK_SEND && x->send == NONE)
                x->send = i;
        }
        if (task->store.index != NONE)
            touch(s, i, task->store);
        for (uint32_t j = 0; j < task->outs; j++) {
            struct object *x = touch(s, i, piece_operand(t->outs.data[task->first_out + j]));
            if (task->kind == TASK_RECV)
                x->recv = i;
        }
    }
}

/* Whether a compute may run while the messages of its tick travel: it waits for none of them. */
static bool runs_beside(const struct slots *s, const struct task *task) {
    if (s->t->lanes - s->t->comms > 1)
        return true;
    for (uint32_t i = 0; i < task->operands; i++)
        if (s->t->operands.data[task->first_operand + i].kind != OPERAND_CHUNK)
            return false;
    return task->store.index == NONE;
}

/* Whether the messages of the next tick have no need to wait for a compute: it makes nothing to
 * send. */
static bool may_lag(const struct slots *s, const struct task *task) {
    return s->t->lanes - s->t->comms == 1 && !task->outs;
}

/* Computes overlap with messages: what is made beside those of its tick takes memory as soon as
 * they do, and what may lag behind keeps its memory while those of the next tick travel. */
static void stretch_moments(struct slots *s) {
    uint32_t tick_begin = 0, n = s->r->n;
    for (uint32_t i = 0; i < n; i++) {
        if (i && s->list[i - 1].tick != s->list[i].tick)
            tick_begin = i;
        bool from_begin = s->list[i].kind != TASK_COMPUTE || runs_beside(s, &s->list[i]);
        s->lo.data[i] = from_begin ? tick_begin : i;
    }
    uint32_t next_begin = n;
    for (uint32_t i = n; i-- > 0;) {
        if (i + 1 < n && s->list[i + 1].tick != s->list[i].tick)
            next_begin = i + 1;
        if (s->list[i].kind == TASK_COMPUTE && may_lag(s, &s->list[i]) && next_begin < n)
            s->hi.data[i] = s->hi.data[next_begin];
    }
}

/* Moments and round groups of the list. */
static void find_moments(struct slots *s) {
    uint32_t n = s->r->n;
    VEC_CLEAR(&s->lo);
    VEC_CLEAR(&s->hi);
    VEC_CLEAR(&s->node_end);
    (void)VEC_ADD_N(&s->lo, n);
    (void)VEC_ADD_N(&s->hi, n);
    (void)VEC_ADD_N(&s->node_end, n);
    bool wide = s->t->lanes - s->t->comms > 1;
    for (uint32_t i = n; i-- > 0;) {
        const struct task *a = &s->list[i], *b = i + 1 < n ? a + 1 : NULL;
        bool computes = a->kind == TASK_COMPUTE;
        bool joined =
            b && b->tick == a->tick && (b->kind == TASK_COMPUTE) == computes && (!computes || wide);
        s->hi.data[i] = joined ? s->hi.data[i + 1] : i;
        s->node_end.data[i] = b && same_group(a, b) ? s->node_end.data[i + 1] : i;
    }
    stretch_moments(s);
}

/* ---- the arena ---- */

static void add_hole(struct slots *s, struct hole h) {
    size_t lo = 0, hi = s->holes.count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->holes.data[mid].offset < h.offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    struct hole *prev = lo ? &s->holes.data[lo - 1] : NULL;
    struct hole *next = lo < s->holes.count ? &s->holes.data[lo] : NULL;
    bool any = s->holes.count > MOST_HOLES;
    if (prev && prev->offset + prev->bytes == h.offset &&
        (any || !memcmp(&prev->users, &h.users, sizeof h.users))) {
        prev->bytes += h.bytes;
        join(&prev->users, &h.users);
    } else if (next && h.offset + h.bytes == next->offset &&
               (any || !memcmp(&next->users, &h.users, sizeof h.users))) {
        next->offset = h.offset;
        next->bytes += h.bytes;
        join(&next->users, &h.users);
    } else {
        VEC_PUSH(&s->holes, h);
        struct hole *at = &s->holes.data[lo];
        memmove(at + 1, at, (s->holes.count - 1 - lo) * sizeof h);
        *at = h;
    }
    s->no_fit_bytes = UINT64_MAX;
}

/* The memory of objects that ended before `begin`; ends are reached in ascending order. */
static void release_until(struct slots *s, uint32_t *released, uint32_t begin) {
    for (; *released < begin; ++*released)
        for (uint32_t i = s->dead.data[*released]; i != NONE; i = s->objects.data[i].next_dead) {
            const struct object *x = &s->objects.data[i];
            struct hole h = {.offset = x->offset, .bytes = x->bytes, .users = x->users};
            join(&h.users, &x->before);
            if (x->bytes)
                add_hole(s, h);
        }
}

/* The first of the holes, one behind the other without a gap, that hold `bytes`: the tightest such
 * run. Otherwise the holes at the end of the arena, which then grows. */
static size_t find_fit(struct slots *s, uint64_t bytes) {
    size_t n = s->holes.count, best = n, end_run = n;
    uint64_t best_bytes = UINT64_MAX;
    unsigned fits = 0;
    if (bytes >= s->no_fit_bytes && n) {
        for (end_run = n - 1;
             end_run && s->holes.data[end_run - 1].offset + s->holes.data[end_run - 1].bytes ==
                            s->holes.data[end_run].offset;)
            end_run--;
    }
    for (size_t i = 0; i < n && bytes < s->no_fit_bytes && fits < MOST_FITS;) {
        size_t first = i;
        uint64_t run = 0, end;
        do {
            run += s->holes.data[i].bytes;
            end = s->holes.data[i].offset + s->holes.data[i].bytes;
            i++;
        } while (i < n && s->holes.data[i].offset == end);
        end_run = first;
        if (run >= bytes) {
            fits++;
            if (run < best_bytes) {
                best = first;
                best_bytes = run;
            }
        }
        if (run == bytes)
            break;
    }
    if (best < n)
        return best;
    if (bytes < s->no_fit_bytes)
        s->no_fit_bytes = bytes;
    bool at_end = n && s->holes.data[n - 1].offset + s->holes.data[n - 1].bytes == s->arena_bytes;
    return at_end ? end_run : n;
}

/* Gives the objects of s->run consecutive memory from hole `at` on. */
static bool take(struct slots *s, size_t at) {
    size_t gone = at;
    uint64_t offset = at < s->holes.count ? s->holes.data[at].offset : s->arena_bytes;
    for (size_t i = 0; i < s->run.count; i++) {
        struct object *x = &s->objects.data[s->run.data[i]];
        x->offset = offset;
        x->placed = true;
        if (__builtin_add_overflow(offset, x->bytes, &offset) || offset > UINT64_MAX / 4)
            return false;
        for (; gone < s->holes.count && s->holes.data[gone].offset < offset; gone++) {
            struct hole *h = &s->holes.data[gone];
            join(&x->before, &h->users);
            if (h->offset + h->bytes > offset) {
                h->bytes -= offset - h->offset;
                h->offset = offset;
                break;
            }
        }
    }
    if (gone > at) {
        struct hole *first = &s->holes.data[at];
        memmove(first, first + (gone - at), (s->holes.count - gone) * sizeof *first);
        s->holes.count -= gone - at;
    }
    if (offset > s->arena_bytes)
        s->arena_bytes = offset;
    return true;
}

static void join_run(struct slots *s, uint32_t piece, uint32_t recv, uint32_t send) {
    uint32_t object = s->resources.data[s->piece_resource.data[piece] - 1].object;
    struct object *x = &s->objects.data[object];
    if (!x->placed && x->recv == recv && (recv != NONE || x->send == send)) {
        x->placed = true;
        VEC_PUSH(&s->run, object);
    }
}

/* The object and those that are to stand beside it. A piece that is listed twice is placed where it
 * comes first. */
static void find_run(struct slots *s, uint32_t object) {
    const struct tasks *t = s->t;
    const struct object *x = &s->objects.data[object];
    VEC_CLEAR(&s->run);
    if (x->recv != NONE) {
        const struct task *recv = &s->list[x->recv];
        for (uint32_t i = 0; i < recv->outs; i++)
            join_run(s, t->outs.data[recv->first_out + i], x->recv, x->send);
    } else if (x->send != NONE) {
        const struct task *send = &s->list[x->send];
        for (uint32_t i = 0; i < send->operands; i++)
            join_run(s, t->operands.data[send->first_operand + i].index, NONE, x->send);
    }
    if (!s->run.count)
        VEC_PUSH(&s->run, object);
}

static bool place_objects(struct slots *s) {
    VEC_CLEAR(&s->dead);
    for (uint32_t i = 0; i < s->r->n; i++)
        VEC_PUSH(&s->dead, NONE);
    for (uint32_t i = 0; i < s->objects.count; i++) {
        struct object *x = &s->objects.data[i];
        if (x->end != NONE) {
            x->next_dead = s->dead.data[x->end];
            s->dead.data[x->end] = i;
        }
    }
    VEC_CLEAR(&s->holes);
    s->arena_bytes = 0;
    s->no_fit_bytes = UINT64_MAX;
    uint32_t released = 0;
    for (uint32_t i = 0; i < s->objects.count; i++) {
        if (s->objects.data[i].placed)
            continue;
        release_until(s, &released, s->objects.data[i].begin);
        find_run(s, i);
        uint64_t bytes = 0;
        for (size_t j = 0; j < s->run.count; j++)
            bytes += s->objects.data[s->run.data[j]].bytes;
        if (!take(s, find_fit(s, bytes)))
            return false;
    }
    return true;
}

/* An ensure may speak of scratch: nothing may take its place then. */
static void keep_ensured(struct slots *s) {
    const struct tasks *t = s->t;
    for (size_t b = 0; b < t->flow->buffers.count; b++) {
        const struct flow_buffer *buf = &t->flow->buffers.data[b];
        int64_t position = buf->position[s->r - t->ranks.data];
        if (buf->role != ROLE_SCRATCH || position < 0)
            continue;
        for (int32_t i = 0; i < buf->chunks; i++) {
            loc_id loc = buf->first_loc + (loc_id)(position * buf->chunks + i);
            if (s->scratch.data[loc] == 2 && s->loc_object.data[loc])
                s->objects.data[s->loc_object.data[loc] - 1].end = NONE;
        }
    }
}

/* ---- waits ---- */

/* The latest task of each lane that a round group (or a compute) waits for, and the member that
 * does. */
struct needs {
    struct moments at;
    uint32_t who[LANES];
};

static void need(struct needs *n, const struct moments *at, uint32_t who) {
    for (int i = 0; i < LANES; i++)
        if (at->at[i] > n->at.at[i]) {
            n->at.at[i] = at->at[i];
            n->who[i] = who;
        }
}

static void need_read(struct slots *s, struct needs *n, uint32_t position, struct operand o) {
    const struct task *task = &s->list[position];
    struct resource *x = resource_of(s, task, o);
    if (x->written) {
        struct moments at = {{0}};
        at.at[s->list[x->written - 1].lane] = x->written;
        need(n, &at, position);
    }
    x->used.at[task->lane] = position + 1;
}

static void need_write(struct slots *s, struct needs *n, uint32_t position, struct operand o) {
    const struct task *task = &s->list[position];
    struct resource *x = resource_of(s, task, o);
    struct moments before = x->used;
    before.at[task->lane] = 0; /* its own lane is in order, and its own reads do not count */
    need(n, &before, position);
    if (!x->written && x->object != NONE)
        need(n, &s->objects.data[x->object].before, position);
    x->written = position + 1;
    x->used.at[task->lane] = position + 1;
}

static void collect_needs(struct slots *s, struct needs *n, uint32_t begin, uint32_t end) {
    const struct tasks *t = s->t;
    *n = (struct needs){{{0}}, {0}};
    for (uint32_t i = begin; i <= end; i++) {
        const struct task *task = &s->list[i];
        for (uint32_t j = 0; j < task->operands; j++)
            need_read(s, n, i, t->operands.data[task->first_operand + j]);
        if (task->store.index != NONE)
            need_write(s, n, i, task->store);
        for (uint32_t j = 0; j < task->outs; j++)
            need_write(s, n, i, piece_operand(t->outs.data[task->first_out + j]));
    }
}

/* Latest first, so that what a later task has waited for needs no wait of its own. */
static void emit_deps(struct slots *s, struct needs *n, uint32_t begin, uint32_t end,
                      struct moments *start) {
    struct tasks *t = s->t;
    struct {
        uint32_t who, target;
    } deps[LANES];
    uint32_t count = 0;
    for (;;) {
        int lane = 0;
        for (int i = 1; i < LANES; i++)
            if (n->at.at[i] > n->at.at[lane])
                lane = i;
        uint32_t at = n->at.at[lane];
        n->at.at[lane] = 0;
        if (!at)
            break;
        if (at > begin || start->at[lane] >= at)
            continue;
        join(start, &s->done.data[s->node_end.data[at - 1]]);
        deps[count].who = n->who[lane];
        deps[count++].target = s->r->first + at - 1;
    }
    for (uint32_t i = begin; i <= end; i++) {
        struct task *task = &t->tasks.data[s->r->first + i];
        task->first_dep = (uint32_t)t->deps.count;
        for (uint32_t j = 0; j < count; j++)
            if (deps[j].who == i)
                VEC_PUSH(&t->deps, deps[j].target);
        task->deps = (uint32_t)t->deps.count - task->first_dep;
    }
}

static void derive_deps(struct slots *s) {
    struct moments lane_last = {{0}};
    VEC_CLEAR(&s->done);
    (void)VEC_ADD_N(&s->done, s->r->n);
    for (uint32_t begin = 0, end; begin < s->r->n; begin = end + 1) {
        end = s->node_end.data[begin];
        uint8_t lane = s->list[begin].lane;
        struct needs n;
        collect_needs(s, &n, begin, end);
        struct moments start = {{0}};
        if (lane_last.at[lane])
            start = s->done.data[lane_last.at[lane] - 1];
        emit_deps(s, &n, begin, end, &start);
        start.at[lane] = end + 1;
        s->done.data[end] = start;
        lane_last.at[lane] = end + 1;
    }
}

/* ---- the pass ---- */

static void write_offsets(struct slots *s, struct rank_tasks *r) {
    struct tasks *t = s->t;
    r->arena_bytes = s->arena_bytes;
    r->unshared_bytes = r->chunk_bytes = 0;
    for (size_t i = 0; i < s->objects.count; i++) {
        const struct object *x = &s->objects.data[i];
        r->unshared_bytes += x->bytes;
        if (x->piece != NONE)
            t->pieces.data[x->piece].offset = x->offset;
    }
    for (uint32_t i = 0; i < r->accs; i++) {
        uint32_t resource = s->acc_resource.data[r->first_acc + i];
        if (resource)
            t->acc_offsets.data[r->first_acc + i] =
                s->objects.data[s->resources.data[resource - 1].object].offset;
    }
    for (size_t b = 0; b < t->flow->buffers.count; b++) {
        const struct flow_buffer *buf = &t->flow->buffers.data[b];
        int64_t position = buf->position[r - t->ranks.data];
        for (int32_t i = 0; position >= 0 && buf->role == ROLE_SCRATCH && i < buf->chunks; i++) {
            loc_id loc = buf->first_loc + (loc_id)(position * buf->chunks + i);
            if (!s->loc_object.data[loc])
                continue;
            const struct object *x = &s->objects.data[s->loc_object.data[loc] - 1];
            t->chunk_offsets.data[loc] = x->offset;
            r->chunk_bytes += x->bytes;
        }
    }
}

static bool do_rank(struct slots *s, uint32_t rank) {
    s->r = &s->t->ranks.data[rank];
    s->list = s->t->tasks.data + s->r->first;
    VEC_CLEAR(&s->resources);
    VEC_CLEAR(&s->objects);
    find_moments(s);
    find_objects(s);
    keep_ensured(s);
    if (!place_objects(s)) {
        diag_report(s->c->diag, SEV_ERROR, (struct span){0, 0},
                    "rank %u needs more wire and scratch memory than there are addresses", rank);
        return false;
    }
    derive_deps(s);
    write_offsets(s, &s->t->ranks.data[rank]);
    return true;
}

static void mark_scratch(struct slots *s) {
    const struct flow *f = s->t->flow;
    (void)VEC_ADD_N(&s->scratch, f->locs);
    for (size_t b = 0; b < f->buffers.count; b++) {
        const struct flow_buffer *buf = &f->buffers.data[b];
        if (buf->role == ROLE_SCRATCH)
            memset(s->scratch.data + buf->first_loc, 1, (size_t)buf->members * (size_t)buf->chunks);
    }
    for (size_t i = 0; i < f->ensures.count; i++) {
        const struct flow_ensure *e = &f->ensures.data[i];
        if (e->kind == ENSURE_VALUE && s->scratch.data[e->loc])
            s->scratch.data[e->loc] = 2;
        for (uint32_t j = 0; e->kind == ENSURE_IDENTICAL && j < e->terms; j++) {
            loc_id loc = f->terms.data[e->first_term + j];
            if (s->scratch.data[loc])
                s->scratch.data[loc] = 2;
        }
    }
}

static void slots_init(struct slots *s, struct compilation *c) {
    struct tasks *t = c->tasks;
    s->c = c;
    s->t = t;
    mark_scratch(s);
    uint32_t accs = 0;
    for (size_t r = 0; r < t->ranks.count; r++) {
        t->ranks.data[r].first_acc = accs;
        accs += t->ranks.data[r].accs;
    }
    VEC_CLEAR(&t->acc_offsets);
    (void)VEC_ADD_N(&t->acc_offsets, accs);
    VEC_CLEAR(&t->chunk_offsets);
    (void)VEC_ADD_N(&t->chunk_offsets, t->flow->locs);
    for (size_t i = 0; i < t->chunk_offsets.count; i++)
        t->chunk_offsets.data[i] = UINT64_MAX;
    VEC_CLEAR(&t->deps);
    (void)VEC_ADD_N(&s->piece_resource, t->pieces.count);
    (void)VEC_ADD_N(&s->acc_resource, accs);
    (void)VEC_ADD_N(&s->chunk_resource, (size_t)t->flow->locs * t->slices);
    (void)VEC_ADD_N(&s->loc_object, t->flow->locs);
}

/* Asks the guard for all that the pass will hold, so that the limit speaks up while nothing is
 * held. Waits are about as many as tasks. */
static void ask_for_room(struct compilation *c) {
    const struct tasks *t = c->tasks;
    uint32_t longest = 0;
    for (size_t r = 0; r < t->ranks.count; r++)
        if (t->ranks.data[r].n > longest)
            longest = t->ranks.data[r].n;
    VEC(char) room = {.guard = &c->guard};
    VEC_RESERVE(&room, (size_t)t->flow->locs * (4 * (size_t)t->slices + 16) + t->pieces.count * 4 +
                           t->tasks.count * 4 + (size_t)longest * 256);
    VEC_FREE(&room);
}

bool pass_slots(struct compilation *c) {
    if (!check_order(c))
        return false;
    ask_for_room(c);
    struct slots s = {0};
    slots_init(&s, c);
    bool ok = true;
    for (uint32_t r = 0; r < c->tasks->ranks.count && ok; r++)
        ok = do_rank(&s, r);
    VEC_FREE(&s.scratch);
    VEC_FREE(&s.piece_resource);
    VEC_FREE(&s.acc_resource);
    VEC_FREE(&s.chunk_resource);
    VEC_FREE(&s.loc_object);
    VEC_FREE(&s.resources);
    VEC_FREE(&s.objects);
    VEC_FREE(&s.lo);
    VEC_FREE(&s.hi);
    VEC_FREE(&s.node_end);
    VEC_FREE(&s.dead);
    VEC_FREE(&s.done);
    VEC_FREE(&s.holes);
    VEC_FREE(&s.run);
    return ok;
}
