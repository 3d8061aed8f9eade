/* validate: the last line of defence. Whatever the passes before it did, tasks that it accepts can
 * be executed: every task can start, no two tasks that touch the same memory run in an order left
 * to chance, nothing is read before it is there, and what the ranks end with is what the collective
 * and the ensures ask for.
 *
 * This file holds the pass and the checks that need no order: every index within bounds, both ends
 * of every message equal. The others build on them; see validate.h. Tasks read from a text go the
 * same way: without flow operations the collective and the buffers of the header are what is
 * proved.
 *
 * Requires: tasks after `slots`. Ensures: properties in c->proved.
 */
#include "compiler/validate.h"

void validate_sort(uint64_t *keys, uint64_t *spare, size_t n) {
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = keys[i - 1] <= keys[i];
    if (sorted)
        return;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n;
            size_t hi = lo + 2 * width < n ? lo + 2 * width : n;
            for (size_t i = lo, j = mid, to = lo; to < hi; to++)
                spare[to] = j == hi || (i < mid && keys[i] <= keys[j]) ? keys[i++] : keys[j++];
        }
        memcpy(keys, spare, n * sizeof *keys);
    }
}

/* ---- bounds ---- */

/* The chunks of one rank: a range of locations a buffer. */
struct chunk_range {
    loc_id first, end;
    enum buffer_role role;
};

struct bounds {
    struct model *m;
    uint32_t rank;
    VEC(struct chunk_range) chunks; /* of the rank */
    size_t last;                    /* where the last one was found */
};

static bool malformed(struct model *m, uint32_t task, const char *what) {
    uint32_t rank = task_rank(m->t, task);
    task_report(m, task, SEV_ERROR, "rank %u, t%u: %s", rank, task - m->t->ranks.data[rank].first,
                what);
    return false;
}

static const struct chunk_range *find_chunk(struct bounds *b, loc_id loc) {
    for (size_t i = 0; i < b->chunks.count; i++) {
        const struct chunk_range *range = &b->chunks.data[b->last];
        if (loc >= range->first && loc < range->end)
            return range;
        b->last = (b->last + 1) % b->chunks.count;
    }
    return NULL;
}

static const char *check_operand(struct bounds *b, struct operand o) {
    const struct tasks *t = b->m->t;
    switch (o.kind) {
    case OPERAND_CHUNK:
        return find_chunk(b, o.index) ? NULL : "it uses a chunk that is not on this rank";
    case OPERAND_ACC:
        return o.index < t->ranks.data[b->rank].accs ? NULL : "there is no such accumulator";
    case OPERAND_PIECE:
        if (o.index >= t->pieces.count)
            return "there is no such piece";
        return t->pieces.data[o.index].rank == (int32_t)b->rank ? NULL
                                                                : "it uses a piece of another rank";
    }
    return "its operand is of no known kind";
}

static const char *check_compute(struct bounds *b, const struct task *task) {
    const struct tasks *t = b->m->t;
    if (task->message != NONE)
        return "a compute has no message";
    if (!task->operands)
        return "a compute needs an operand";
    if (task->operands > VALIDATE_MAX_OPERANDS)
        return "a compute takes at most 16 operands: chain longer sums through an accumulator";
    if (task->store.index == NONE && !task->outs)
        return "a compute stores or encodes its value";
    if (task->divide && (t->flow->setup.redop != REDOP_AVG || !task->divisor))
        return "only an avg divides, and not by 0";
    for (uint32_t i = 1; i < task->operands; i++)
        if (t->operands.data[task->first_operand + i].kind == OPERAND_ACC)
            return "an accumulator can only be the first operand: sums do not associate";
    if (task->store.index == NONE)
        return NULL;
    if (task->store.kind == OPERAND_PIECE)
        return "a compute encodes into pieces, it does not store there";
    const char *wrong = check_operand(b, task->store);
    if (!wrong && task->store.kind == OPERAND_CHUNK &&
        find_chunk(b, task->store.index)->role == ROLE_INPUT)
        return "it writes an input chunk";
    return wrong;
}

static const char *check_transfer(struct bounds *b, const struct task *task, uint32_t index) {
    const struct tasks *t = b->m->t;
    bool sends = task->kind == TASK_SEND;
    if (task->message >= t->messages.count)
        return "there is no such message";
    const struct message *m = &t->messages.data[task->message];
    if ((sends ? m->send : m->recv) != index || (sends ? m->src : m->dst) != (int32_t)b->rank)
        return sends ? "another task sends this message" : "another task receives this message";
    if (task->comm >= t->comms || task->comm >= 2)
        return "there is no such communicator";
    if (task->round >= t->rounds[task->comm])
        return "there is no such round";
    if (task->store.index != NONE || (sends ? task->outs : task->operands))
        return sends ? "a send only reads pieces" : "a receive only fills pieces";
    if (!(sends ? task->operands : task->outs))
        return "a message moves at least one piece";
    for (uint32_t i = 0; i < task->operands; i++)
        if (t->operands.data[task->first_operand + i].kind != OPERAND_PIECE)
            return "a send only reads pieces";
    return NULL;
}

static bool in_range(uint32_t first, uint32_t n, size_t count) {
    return (uint64_t)first + n <= count;
}

static const char *check_task(struct bounds *b, uint32_t index) {
    const struct tasks *t = b->m->t;
    const struct task *task = &t->tasks.data[index];
    const struct rank_tasks *r = &t->ranks.data[b->rank];
    if (task->lane >= t->lanes)
        return "there is no such lane";
    if (task->slice >= t->slices)
        return "there is no such slice";
    if (!in_range(task->first_operand, task->operands, t->operands.count) ||
        !in_range(task->first_out, task->outs, t->outs.count) ||
        !in_range(task->first_dep, task->deps, t->deps.count))
        return "its operands are out of bounds";
    for (uint32_t i = 0; i < task->deps; i++) {
        uint32_t dep = t->deps.data[task->first_dep + i];
        if (dep < r->first || dep - r->first >= r->n)
            return "it waits for a task that is not on this rank";
    }
    for (uint32_t i = 0; i < task->operands; i++) {
        const char *wrong = check_operand(b, t->operands.data[task->first_operand + i]);
        if (wrong)
            return wrong;
    }
    for (uint32_t i = 0; i < task->outs; i++) {
        const char *wrong =
            check_operand(b, (struct operand){OPERAND_PIECE, t->outs.data[task->first_out + i]});
        if (wrong)
            return wrong;
    }
    return task->kind == TASK_COMPUTE ? check_compute(b, task) : check_transfer(b, task, index);
}

/* Every piece of a task is of the task's slice and of its size. */
static const char *check_sizes(struct bounds *b, const struct task *task) {
    const struct tasks *t = b->m->t;
    uint64_t elems = task->kind == TASK_COMPUTE ? tasks_elems(t, task) : 0;
    for (uint32_t i = 0; i < task->operands + task->outs; i++) {
        struct operand o = {OPERAND_PIECE, 0};
        if (i < task->operands)
            o = t->operands.data[task->first_operand + i];
        else
            o.index = t->outs.data[task->first_out + i - task->operands];
        if (o.kind != OPERAND_PIECE)
            continue;
        const struct piece *p = &t->pieces.data[o.index];
        if (p->slice != task->slice)
            return "it mixes slices";
        if (task->kind == TASK_COMPUTE && p->elems != elems)
            return "its operands differ in size";
    }
    return NULL;
}

static void ranges_of_rank(struct bounds *b, uint32_t rank) {
    const struct flow *f = b->m->t->flow;
    b->rank = rank;
    b->last = 0;
    VEC_CLEAR(&b->chunks);
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *buf = &f->buffers.data[i];
        if (buf->position[rank] < 0 || buf->chunks <= 0)
            continue;
        loc_id first = buf->first_loc + (loc_id)(buf->position[rank] * buf->chunks);
        VEC_PUSH(&b->chunks, (struct chunk_range){first, first + (loc_id)buf->chunks, buf->role});
    }
}

/* ---- memory of pieces, accumulators and scratch: within the arena ---- */

/* The slot of a piece, as its codec asks for. Neighbours are mostly alike. */
struct slot_cache {
    uint64_t elems, exact, least;
    uint32_t codec;
    bool bounded;
};

static void slot_limits(const struct flow *f, const struct piece *p, struct slot_cache *s) {
    if (s->codec == p->codec && s->elems == p->elems)
        return;
    const struct codec *codec = &f->codecs.data[p->codec];
    s->codec = p->codec;
    s->elems = p->elems;
    s->exact = codec_slot_bytes(codec, f->setup.dtype, p->elems);
    s->least = codec_least_bytes(codec, f->setup.dtype, p->elems);
    s->bounded = codec_is_bounded(codec);
}

static const char *check_piece(const struct tasks *t, const struct piece *p, struct slot_cache *s) {
    if (p->rank < 0 || (size_t)p->rank >= t->ranks.count)
        return "is on no rank";
    if (p->codec >= t->flow->codecs.count)
        return "has no codec";
    if (p->elems == 0 || p->elems > CODEC_MAX_ELEMS)
        return "has no elements, or too many";
    slot_limits(t->flow, p, s);
    if (s->bounded ? p->bytes < s->least : p->bytes != s->exact)
        return "has a slot of a size that its codec does not fit";
    if (p->offset % 256)
        return "is not aligned to 256 bytes";
    uint64_t arena_bytes = t->ranks.data[p->rank].arena_bytes;
    if (p->bytes > arena_bytes || p->offset > arena_bytes - p->bytes)
        return "reaches beyond the rank's arena";
    return NULL;
}

static bool check_pieces(struct model *m) {
    const struct tasks *t = m->t;
    struct slot_cache s = {.codec = NONE};
    for (uint32_t i = 0; i < t->pieces.count && !diag_full(m->c->diag); i++) {
        const char *wrong = check_piece(t, &t->pieces.data[i], &s);
        if (wrong)
            task_report(m, piece_writer(m, i), SEV_ERROR, "rank %d: %s %s", t->pieces.data[i].rank,
                        piece_name(m, i), wrong);
    }
    return !diag_errors(m->c->diag);
}

/* Scratch: placed, aligned, within the arena. Its slices do not overlap each other. */
static const char *check_scratch(const struct tasks *t, loc_id loc, uint64_t arena_bytes) {
    if (t->loc_size.data[loc] == NONE || t->chunk_offsets.data[loc] == UINT64_MAX)
        return NULL;
    uint64_t end = 0, first;
    for (uint32_t s = 0; s < t->slices; s++) {
        uint64_t elems = tasks_slice_elems(t, loc, s, &first);
        if (first < end || elems > CODEC_MAX_ELEMS || first > CODEC_MAX_ELEMS)
            return "has slices that overlap, or are too large";
        end = first + elems;
    }
    uint64_t bytes = end * dtype_bytes(t->flow->setup.dtype), offset = t->chunk_offsets.data[loc];
    if (offset % 256)
        return "is not aligned to 256 bytes";
    return bytes <= arena_bytes && offset <= arena_bytes - bytes
               ? NULL
               : "reaches beyond the rank's arena";
}

static const char *check_user_chunk(const struct tasks *t, loc_id loc) {
    uint64_t end = 0, first;
    for (uint32_t s = 0; s < t->slices; s++) {
        uint64_t elems = tasks_slice_elems(t, loc, s, &first);
        if (first != end)
            return "is not the sum of its slices";
        end += elems;
    }
    return end == flow_input_elems(t->flow, loc) ? NULL : "is not the sum of its slices";
}

static void check_chunks(struct bounds *b) {
    const struct tasks *t = b->m->t;
    uint64_t arena_bytes = t->ranks.data[b->rank].arena_bytes;
    for (size_t i = 0; i < b->chunks.count; i++)
        for (loc_id loc = b->chunks.data[i].first; loc < b->chunks.data[i].end; loc++) {
            const char *wrong = b->chunks.data[i].role == ROLE_SCRATCH
                                    ? check_scratch(t, loc, arena_bytes)
                                    : check_user_chunk(t, loc);
            if (wrong && !diag_full(b->m->c->diag))
                task_report(b->m, NONE, SEV_ERROR, "%s %s",
                            flow_loc_name(b->m->c->arena, t->flow, loc), wrong);
        }
}

/* What tasks_slice_elems and tasks_elems look up. */
static bool sizes_fit(const struct tasks *t) {
    bool ok = t->slice_first.count >= t->sizes.count * ((size_t)t->slices + 1);
    for (size_t i = 0; i < t->loc_size.count && ok; i++)
        ok = t->loc_size.data[i] == NONE || t->loc_size.data[i] < t->sizes.count;
    return ok;
}

static bool check_shape(struct model *m) {
    const struct tasks *t = m->t;
    const char *wrong = NULL;
    if (!t->lanes || !t->slices)
        wrong = "the tasks have no lanes: run rounds, lanes and slots before validate";
    else if (t->chunk_offsets.count != t->flow->locs)
        wrong = "the tasks have no places: run slots before validate";
    else if (t->lanes > VALIDATE_MAX_LANES)
        wrong = "at most 16 lanes";
    else if (t->ranks.count != (size_t)t->flow->setup.ranks || t->loc_size.count != t->flow->locs ||
             t->chunk_offsets.count != t->flow->locs)
        wrong = "the tasks are not those of all ranks";
    else if (!sizes_fit(t))
        wrong = "the sizes of the chunks do not fit them";
    uint64_t first = 0, accs = 0;
    for (size_t r = 0; r < t->ranks.count && !wrong; r++) {
        if (t->ranks.data[r].first != first || t->ranks.data[r].first_acc != accs)
            wrong = "the lists of the ranks do not stand side by side";
        first += t->ranks.data[r].n;
        accs += t->ranks.data[r].accs;
    }
    if (!wrong && (first != t->tasks.count || accs != t->acc_offsets.count))
        wrong = "the lists of the ranks do not stand side by side";
    if (wrong)
        task_report(m, NONE, SEV_ERROR, "%s", wrong);
    return !wrong;
}

static bool check_bounds(struct model *m) {
    const struct tasks *t = m->t;
    if (!check_shape(m))
        return false;
    struct bounds b = {.m = m};
    for (uint32_t r = 0; r < t->ranks.count && !diag_full(m->c->diag); r++) {
        ranges_of_rank(&b, r);
        const struct rank_tasks *rank = &t->ranks.data[r];
        for (uint32_t i = 0; i < rank->n && !diag_full(m->c->diag); i++) {
            tasks_fetch_message(t, rank->first + i, rank->first + rank->n);
            const char *wrong = check_task(&b, rank->first + i);
            if (!wrong)
                wrong = check_sizes(&b, &t->tasks.data[rank->first + i]);
            if (wrong)
                (void)malformed(m, rank->first + i, wrong);
        }
        check_chunks(&b);
    }
    VEC_FREE(&b.chunks);
    return !diag_errors(m->c->diag);
}

/* ---- both ends of a message ---- */

static void mismatch(struct model *m, uint32_t message, const char *what, const char *at_send,
                     const char *at_recv) {
    const struct message *x = &m->t->messages.data[message];
    task_report(
        m, x->send, SEV_ERROR,
        "message m%u from rank %d to rank %d: its ends disagree about the %s: rank %d sends "
        "%s, rank %d receives %s",
        message, x->src, x->dst, what, x->src, at_send, x->dst, at_recv);
    task_note(m, x->recv, "received here");
}

static const char *number(struct model *m, uint64_t n) {
    return arena_printf(m->c->arena, "%llu", (unsigned long long)n);
}

static const char *codec_name(struct model *m, uint32_t codec) {
    char text[CODEC_TEXT_BYTES];
    return arena_printf(m->c->arena, "%s",
                        codec_format(&m->t->flow->codecs.data[codec], text, sizeof text));
}

/* One piece at both ends. */
static bool check_same_piece(struct model *m, uint32_t message, uint32_t sent, uint32_t received) {
    const struct piece *a = &m->t->pieces.data[sent], *b = &m->t->pieces.data[received];
    if (a->codec == b->codec && a->elems == b->elems && a->bytes == b->bytes &&
        a->slice == b->slice && a->encoding == b->encoding)
        return true;
    const char *name = piece_name(m, sent);
    struct {
        const char *what, *at_send, *at_recv;
        bool differs;
    } fields[] = {
        {"codec", codec_name(m, a->codec), codec_name(m, b->codec), a->codec != b->codec},
        {"elements", number(m, a->elems), number(m, b->elems), a->elems != b->elems},
        {"bytes", number(m, a->bytes), number(m, b->bytes), a->bytes != b->bytes},
        {"slice", number(m, a->slice), number(m, b->slice), a->slice != b->slice},
        {"encoding", number(m, a->encoding), number(m, b->encoding), a->encoding != b->encoding},
    };
    size_t i = 0;
    while (!fields[i].differs)
        i++;
    mismatch(m, message, arena_printf(m->c->arena, "%s of %s", fields[i].what, name),
             fields[i].at_send, fields[i].at_recv);
    return false;
}

static bool check_same_round(struct model *m, uint32_t message) {
    const struct message *x = &m->t->messages.data[message];
    const struct task *send = &m->t->tasks.data[x->send], *recv = &m->t->tasks.data[x->recv];
    if (send->comm == recv->comm && send->round == recv->round && send->index == recv->index) {
        if (x->comm == send->comm && x->round == send->round && x->index == send->index)
            return true;
        task_report(m, x->send, SEV_ERROR,
                    "message m%u from rank %d to rank %d is in round %u of comm %u at its ends and "
                    "in round %u of comm %u in the list of messages",
                    message, x->src, x->dst, send->round, send->comm, x->round, x->comm);
        return false;
    }
    mismatch(m, message, "place",
             arena_printf(m->c->arena, "%s index %u", group_name(m, x->send), send->index),
             arena_printf(m->c->arena, "%s index %u", group_name(m, x->recv), recv->index));
    return false;
}

static bool check_message(struct model *m, uint32_t message) {
    const struct tasks *t = m->t;
    const struct message *x = &t->messages.data[message];
    const struct task *send = &t->tasks.data[x->send], *recv = &t->tasks.data[x->recv];
    if (!check_same_round(m, message))
        return false;
    if (send->operands != recv->outs) {
        mismatch(m, message, "number of pieces", number(m, send->operands), number(m, recv->outs));
        return false;
    }
    if (send->slice != recv->slice) {
        mismatch(m, message, "slice", number(m, send->slice), number(m, recv->slice));
        return false;
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < send->operands; i++) {
        uint32_t sent = t->operands.data[send->first_operand + i].index;
        if (!check_same_piece(m, message, sent, t->outs.data[recv->first_out + i]))
            return false;
        bytes += t->pieces.data[sent].bytes;
    }
    if (bytes == x->bytes)
        return true;
    task_report(m, x->send, SEV_ERROR,
                "message m%u from rank %d to rank %d is said to be %llu bytes and its pieces are "
                "%llu",
                message, x->src, x->dst, (unsigned long long)x->bytes, (unsigned long long)bytes);
    return false;
}

/* The task is the rank's own one, and the message knows it: check_transfer has seen the other
 * direction. */
static bool is_end(const struct model *m, uint32_t task, uint32_t message, enum task_kind kind) {
    return task < m->t->tasks.count && m->t->tasks.data[task].kind == kind &&
           m->t->tasks.data[task].message == message;
}

/* The tasks at both ends of a message to come, which lie far apart. */
static void fetch_ends(const struct tasks *t, uint32_t message) {
    if (message >= t->messages.count)
        return;
    __builtin_prefetch(&t->tasks.data[t->messages.data[message].send]);
    __builtin_prefetch(&t->tasks.data[t->messages.data[message].recv]);
}

static bool check_messages(struct model *m) {
    enum { AHEAD = 16 };
    const struct tasks *t = m->t;
    for (uint32_t i = 0; i < t->messages.count && !diag_full(m->c->diag); i++) {
        const struct message *x = &t->messages.data[i];
        fetch_ends(t, i + AHEAD);
        bool sent = is_end(m, x->send, i, TASK_SEND), received = is_end(m, x->recv, i, TASK_RECV);
        if (sent && received && x->src != x->dst)
            (void)check_message(m, i);
        else if (sent && received)
            task_report(m, x->send, SEV_ERROR, "rank %d sends message m%u to itself", x->src, i);
        else if (sent)
            task_report(m, x->send, SEV_ERROR,
                        "message m%u is sent by rank %d to rank %d, which never receives it", i,
                        x->src, x->dst);
        else if (received)
            task_report(m, x->recv, SEV_ERROR,
                        "message m%u is received by rank %d from rank %d, which never sends it", i,
                        x->dst, x->src);
    }
    return !diag_errors(m->c->diag);
}

/* ---- the pass ---- */

static void prove(struct compilation *c, const char *name, const char *detail) {
    VEC_PUSH(&c->proved, (struct property){name, detail});
}

static void report_proofs(struct model *m) {
    const struct tasks *t = m->t;
    struct compilation *c = m->c;
    uint64_t shared = 0, unshared = 0;
    for (size_t r = 0; r < t->ranks.count; r++) {
        if (t->ranks.data[r].arena_bytes > shared)
            shared = t->ranks.data[r].arena_bytes;
        if (t->ranks.data[r].unshared_bytes > unshared)
            unshared = t->ranks.data[r].unshared_bytes;
    }
    char a[NUMBER_TEXT_BYTES], b[NUMBER_TEXT_BYTES], x[NUMBER_TEXT_BYTES], y[NUMBER_TEXT_BYTES];
    prove(c, "no deadlock",
          arena_printf(c->arena, "%s, %s, %s, %s", format_count(a, t->tasks.count, "task"),
                       format_count(b, t->messages.count, "message"),
                       format_count(x, (uint64_t)t->rounds[0] + t->rounds[1], "round"),
                       format_count(y, t->ranks.count, "rank")));
    prove(c, "no race",
          arena_printf(c->arena, "%s access%s in %s, %s", format_integer(a, m->accesses),
                       m->accesses == 1 ? "" : "es", format_count(b, t->lanes, "lane"),
                       format_count(x, t->deps.count, "explicit wait")));
    prove(c, "no overlap in use",
          arena_printf(c->arena, "arena of at most %s a rank, %s without reuse",
                       format_bytes(a, shared), format_bytes(b, unshared)));
}

/* Asks the guard for all that the pass will hold, so that the limit speaks up while nothing is
 * held. */
static void ask_for_room(struct compilation *c) {
    const struct tasks *t = c->tasks;
    VEC(char) room = {.guard = &c->guard};
    VEC_RESERVE(&room, (size_t)t->flow->locs * ((size_t)t->slices * 20 + 4) + t->pieces.count * 16 +
                           t->operands.count * 8 + t->tasks.count * 56 + t->deps.count * 8);
    VEC_FREE(&room);
}

bool pass_validate(struct compilation *c) {
    struct model m = {.c = c, .t = c->tasks};
    ask_for_room(c);
    bool ok = check_bounds(&m) && check_pieces(&m) && check_messages(&m) && validate_order(&m) &&
              validate_memory(&m) && validate_values(&m);
    if (ok)
        report_proofs(&m);
    VEC_FREE(&m.node_of);
    VEC_FREE(&m.rank_node);
    VEC_FREE(&m.member_begin);
    VEC_FREE(&m.members);
    VEC_FREE(&m.next_begin);
    VEC_FREE(&m.next);
    VEC_FREE(&m.list_order);
    VEC_FREE(&m.events);
    return ok;
}
