/* rounds: gives each message a round and each task a tick, and sorts every rank's list by tick.
 *
 * A tick is one step of a clock that all ranks share. In a tick the messages of that tick travel,
 * then (slices = 1) or meanwhile (slices > 1) the computes of that tick run:
 *
 *     slices = 1: a compute has the tick of what it waits for, and stands behind it
 *
 *     tick      0             1              2              3
 *     wire                    m1 ==========  m2 ==========  m3 ==========
 *     compute   encode m1     decode m1      decode m2
 *
 *     slices > 1: it has the next tick, so that the codec of one slice runs under the transfer of
 *     another
 *
 *     tick      0             1              2              3
 *     wire                    m1.0 ========  m1.1 ========  m2.0 ========
 *     compute   encode m1.0                  decode m1.0    decode m1.1
 *                                            encode m2.0
 *
 * A message leaves one tick after everything it needs: what it sends was made or received in
 * earlier ticks, and what its receiver overwrites was last used in earlier ticks. Two messages
 * between the same two ranks in the same direction have different ticks, in list order. So within
 * one tick no message waits for another one, whatever the communicator: edges of all kinds (data,
 * anti-dependence, lane, round, slot) go from lower to higher (tick, messages before computes, list
 * order), and nothing can wait in a circle. A round is a tick in which the communicator has
 * messages, counted from 0.
 *
 * A task that only encodes is put off to the tick before its pieces are first sent, so that they
 * take memory no longer than they must.
 *
 * Requires: lists that are sequential in meaning, and can be read together: every receive is
 * reached by its rank without waiting for something behind it. Ensures: tasks.comms and rounds;
 * message and task comm, round, index; tick; lists stably sorted by (tick, messages first, comm);
 * pieces numbered rank by rank in order of first use, those that no task uses dropped; no deps.
 */
#include "compiler/ir.h"

/* When a chunk slice, piece or accumulator was last written, and last used at all. */
struct use {
    uint32_t written, used;
};
#define RECEIVED 0x80000000u /* in `written`: by a message */

struct pair {
    uint64_t key; /* 1 + src * ranks + dst; 0: free */
    uint32_t last;
};

struct clock {
    struct tasks *t;
    uint32_t stagger;       /* ticks between a message and a compute that waits for it */
    VEC(struct use) chunks; /* [locs * slices] */
    VEC(struct use) pieces;
    VEC(struct use) accs;
    VEC(uint32_t) first_acc;     /* [ranks] */
    VEC(uint32_t) cursor;        /* [ranks] tasks that have their tick */
    VEC(uint32_t) waits_message; /* [ranks] the message whose send the rank waits for, NONE */
    VEC(uint32_t) waits_piece;   /* [ranks] the piece whose sends it waits for, NONE */
    /* [messages] Earliest tick for the sender; 0: the send was not reached. */
    VEC(uint32_t) send_ready;
    VEC(uint32_t) tick; /* [messages] 0: not decided */
    /* [pieces] Sends of it without a tick; only when pieces are written again. */
    VEC(uint32_t) undecided;
    VEC(struct pair) pairs;
    size_t pair_count;
    VEC(uint32_t) queue; /* ranks that may go on */
    size_t queue_head;
};

static uint32_t max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* ---- communicators ---- */

static bool between_nodes(const struct setup *s, const struct message *m) {
    return s->node_of && s->node_of[m->src] != s->node_of[m->dst];
}

static void assign_comms(struct tasks *t) {
    const struct setup *s = &t->flow->setup;
    bool used[2] = {false, false};
    for (size_t i = 0; i < t->messages.count; i++)
        used[between_nodes(s, &t->messages.data[i]) ? 0 : 1] = true;
    uint8_t within = used[0] ? 1 : 0; /* dense from 0 */
    t->comms = (uint32_t)used[0] + (uint32_t)used[1];
    for (size_t i = 0; i < t->messages.count; i++) {
        struct message *m = &t->messages.data[i];
        m->comm = between_nodes(s, m) ? 0 : within;
    }
}

/* ---- ordered pairs of ranks ---- */

static struct pair *pair_slot(struct pair *table, size_t capacity, uint64_t key) {
    size_t i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (capacity - 1);
    while (table[i].key && table[i].key != key)
        i = (i + 1) & (capacity - 1);
    return &table[i];
}

/* The last tick in which src sent to dst, to be updated. */
static uint32_t *pair_last(struct clock *k, int32_t src, int32_t dst) {
    uint64_t key = 1 + (uint64_t)src * (uint64_t)k->t->flow->setup.ranks + (uint64_t)dst;
    if (k->pair_count * 2 >= k->pairs.count) {
        VEC(struct pair) grown = {0};
        (void)VEC_ADD_N(&grown, k->pairs.count ? k->pairs.count * 2 : 1024);
        for (size_t i = 0; i < k->pairs.count; i++)
            if (k->pairs.data[i].key)
                *pair_slot(grown.data, grown.count, k->pairs.data[i].key) = k->pairs.data[i];
        VEC_FREE(&k->pairs);
        k->pairs.data = grown.data;
        k->pairs.count = grown.count;
        k->pairs.capacity = grown.capacity;
    }
    struct pair *p = pair_slot(k->pairs.data, k->pairs.count, key);
    if (!p->key) {
        p->key = key;
        k->pair_count++;
    }
    return &p->last;
}

/* ---- ticks ---- */

static struct use *use_of(struct clock *k, uint32_t rank, const struct task *task,
                          struct operand o) {
    switch (o.kind) {
    case OPERAND_CHUNK:
        return &k->chunks.data[(size_t)o.index * k->t->slices + task->slice];
    case OPERAND_ACC:
        return &k->accs.data[k->first_acc.data[rank] + o.index];
    case OPERAND_PIECE:
        break;
    }
    return &k->pieces.data[o.index];
}

/* Whether some piece is used before one of its writes. The passes before this one make no such
 * piece, but a text may: then the tick of a send matters to tasks behind it. */
static bool pieces_written_again(const struct tasks *t) {
    VEC(uint8_t) used = {0};
    (void)VEC_ADD_N(&used, t->pieces.count);
    bool again = false;
    for (size_t i = 0; i < t->tasks.count && !again; i++) {
        const struct task *task = &t->tasks.data[i];
        for (uint32_t j = 0; j < task->operands; j++) {
            struct operand o = t->operands.data[task->first_operand + j];
            if (o.kind == OPERAND_PIECE)
                used.data[o.index] = 1;
        }
        for (uint32_t j = 0; j < task->outs; j++) {
            uint8_t *seen = &used.data[t->outs.data[task->first_out + j]];
            again |= *seen != 0;
            *seen = 1;
        }
    }
    VEC_FREE(&used);
    return again;
}

static void wake(struct clock *k, uint32_t rank) {
    k->waits_message.data[rank] = NONE;
    k->waits_piece.data[rank] = NONE;
    VEC_PUSH(&k->queue, rank);
}

/* Whether a piece that the task writes is still being sent by a message without a tick; the rank
 * then waits. */
static bool outs_undecided(struct clock *k, uint32_t rank, const struct task *task) {
    for (uint32_t i = 0; k->undecided.count && i < task->outs; i++) {
        uint32_t piece = k->t->outs.data[task->first_out + i];
        if (k->undecided.data[piece]) {
            k->waits_piece.data[rank] = piece;
            return true;
        }
    }
    return false;
}

static bool time_compute(struct clock *k, uint32_t rank, struct task *task) {
    struct tasks *t = k->t;
    if (outs_undecided(k, rank, task))
        return false;
    uint32_t tick = 0;
    for (uint32_t i = 0; i < task->operands; i++) {
        uint32_t written =
            use_of(k, rank, task, t->operands.data[task->first_operand + i])->written;
        uint32_t after = written & RECEIVED ? (written & ~RECEIVED) + k->stagger : written;
        tick = max_u32(tick, after);
    }
    if (task->store.index != NONE)
        tick = max_u32(tick, use_of(k, rank, task, task->store)->used);
    for (uint32_t i = 0; i < task->outs; i++)
        tick = max_u32(tick, k->pieces.data[t->outs.data[task->first_out + i]].used);
    task->tick = tick;
    for (uint32_t i = 0; i < task->operands; i++) {
        struct use *u = use_of(k, rank, task, t->operands.data[task->first_operand + i]);
        u->used = max_u32(u->used, tick);
    }
    if (task->store.index != NONE)
        *use_of(k, rank, task, task->store) = (struct use){tick, tick};
    for (uint32_t i = 0; i < task->outs; i++)
        k->pieces.data[t->outs.data[task->first_out + i]] = (struct use){tick, tick};
    return true;
}

static void reach_send(struct clock *k, const struct task *task) {
    struct tasks *t = k->t;
    uint32_t ready = 1;
    for (uint32_t i = 0; i < task->operands; i++) {
        uint32_t piece = t->operands.data[task->first_operand + i].index;
        ready = max_u32(ready, (k->pieces.data[piece].written & ~RECEIVED) + 1);
        if (k->undecided.count)
            k->undecided.data[piece]++;
    }
    k->send_ready.data[task->message] = ready;
    uint32_t receiver = (uint32_t)t->messages.data[task->message].dst;
    if (k->waits_message.data[receiver] == task->message)
        wake(k, receiver);
}

/* The tick of a message is known: the sender's pieces are in use until then. */
static void settle_send(struct clock *k, const struct message *m, uint32_t tick) {
    const struct task *send = &k->t->tasks.data[m->send];
    for (uint32_t i = 0; i < send->operands; i++) {
        uint32_t piece = k->t->operands.data[send->first_operand + i].index;
        struct use *u = &k->pieces.data[piece];
        u->used = max_u32(u->used, tick);
        k->undecided.data[piece]--;
        if (!k->undecided.data[piece] && k->waits_piece.data[m->src] == piece)
            wake(k, (uint32_t)m->src);
    }
}

static bool time_recv(struct clock *k, uint32_t rank, const struct task *task) {
    struct tasks *t = k->t;
    const struct message *m = &t->messages.data[task->message];
    uint32_t ready = k->send_ready.data[task->message];
    if (!ready) {
        k->waits_message.data[rank] = task->message;
        return false;
    }
    if (outs_undecided(k, rank, task))
        return false;
    for (uint32_t i = 0; i < task->outs; i++)
        ready = max_u32(ready, k->pieces.data[t->outs.data[task->first_out + i]].used + 1);
    uint32_t *last = pair_last(k, m->src, m->dst);
    uint32_t tick = max_u32(ready, *last + 1);
    *last = tick;
    k->tick.data[task->message] = tick;
    for (uint32_t i = 0; i < task->outs; i++)
        k->pieces.data[t->outs.data[task->first_out + i]] = (struct use){tick | RECEIVED, tick};
    if (k->undecided.count)
        settle_send(k, m, tick);
    return true;
}

/* Goes on in the rank's list until its end, or a task that must wait. */
static void run_rank(struct clock *k, uint32_t rank) {
    const struct rank_tasks *r = &k->t->ranks.data[rank];
    for (uint32_t *at = &k->cursor.data[rank]; *at < r->n; ++*at) {
        struct task *task = &k->t->tasks.data[r->first + *at];
        bool timed = true;
        switch (task->kind) {
        case TASK_COMPUTE:
            timed = time_compute(k, rank, task);
            break;
        case TASK_SEND:
            reach_send(k, task);
            break;
        case TASK_RECV:
            timed = time_recv(k, rank, task);
            break;
        }
        if (!timed)
            return;
    }
}

static void clock_init(struct clock *k, struct tasks *t) {
    k->t = t;
    k->stagger = t->slices > 1;
    (void)VEC_ADD_N(&k->chunks, (size_t)t->flow->locs * t->slices);
    (void)VEC_ADD_N(&k->pieces, t->pieces.count);
    (void)VEC_ADD_N(&k->first_acc, t->ranks.count);
    uint32_t accs = 0;
    for (size_t r = 0; r < t->ranks.count; r++) {
        k->first_acc.data[r] = accs;
        accs += t->ranks.data[r].accs;
    }
    (void)VEC_ADD_N(&k->accs, accs);
    (void)VEC_ADD_N(&k->cursor, t->ranks.count);
    (void)VEC_ADD_N(&k->send_ready, t->messages.count);
    (void)VEC_ADD_N(&k->tick, t->messages.count);
    if (pieces_written_again(t))
        (void)VEC_ADD_N(&k->undecided, t->pieces.count);
    VEC_RESERVE(&k->queue, t->ranks.count);
    for (uint32_t r = 0; r < t->ranks.count; r++) {
        VEC_PUSH(&k->waits_message, NONE);
        VEC_PUSH(&k->waits_piece, NONE);
        VEC_PUSH(&k->queue, r);
    }
}

static void clock_free(struct clock *k) {
    VEC_FREE(&k->chunks);
    VEC_FREE(&k->pieces);
    VEC_FREE(&k->accs);
    VEC_FREE(&k->first_acc);
    VEC_FREE(&k->cursor);
    VEC_FREE(&k->waits_message);
    VEC_FREE(&k->waits_piece);
    VEC_FREE(&k->send_ready);
    VEC_FREE(&k->tick);
    VEC_FREE(&k->undecided);
    VEC_FREE(&k->pairs);
    VEC_FREE(&k->queue);
}

/* ---- lists that cannot be read together ---- */

/* The rank that `rank` waits for. */
static uint32_t waits_for_rank(const struct clock *k, uint32_t rank, uint32_t *message) {
    const struct tasks *t = k->t;
    *message = k->waits_message.data[rank];
    if (*message != NONE)
        return (uint32_t)t->messages.data[*message].src;
    /* a piece that is still to be sent: any of its messages without a tick */
    uint32_t piece = k->waits_piece.data[rank];
    const struct rank_tasks *r = &t->ranks.data[rank];
    for (uint32_t i = 0; i < k->cursor.data[rank]; i++) {
        const struct task *task = &t->tasks.data[r->first + i];
        for (uint32_t j = 0; task->kind == TASK_SEND && j < task->operands; j++)
            if (t->operands.data[task->first_operand + j].index == piece &&
                !k->tick.data[task->message])
                *message = task->message;
    }
    return *message == NONE ? rank : (uint32_t)t->messages.data[*message].dst;
}

/* Every blocked rank waits for another blocked one, so following them ends in a circle. */
static void report_blocked(struct compilation *c, const struct clock *k, uint32_t rank) {
    const struct tasks *t = k->t;
    uint32_t message;
    for (size_t i = 0; i < t->ranks.count; i++)
        rank = waits_for_rank(k, rank, &message);
    tasks_report(c->diag, t, t->ranks.data[rank].first + k->cursor.data[rank], SEV_ERROR,
                 "the task lists wait for each other in a circle: no order of the messages fits "
                 "them all; move a send before the receive that stands in its way");
    uint32_t first = rank, steps = 0;
    do {
        uint32_t next = waits_for_rank(k, rank, &message);
        bool sends = t->messages.data[message].src == (int32_t)rank;
        tasks_report(c->diag, t, t->ranks.data[rank].first + k->cursor.data[rank], SEV_NOTE,
                     "rank %u, at t%u, waits until rank %u has %s m%u", rank, k->cursor.data[rank],
                     next, sends ? "received" : "sent", message);
        rank = next;
    } while (rank != first && ++steps < 16);
}

static bool assign_ticks(struct compilation *c, struct clock *k) {
    while (k->queue_head < k->queue.count) {
        run_rank(k, k->queue.data[k->queue_head++]);
        if (k->queue_head == k->queue.count) {
            k->queue_head = 0;
            VEC_CLEAR(&k->queue);
        }
    }
    for (uint32_t r = 0; r < k->t->ranks.count; r++)
        if (k->cursor.data[r] < k->t->ranks.data[r].n) {
            report_blocked(c, k, r);
            return false;
        }
    return true;
}

/* ---- encode late ---- */

/* Going back through a list: the tick of the next task that overwrites a chunk slice, and the last
 * tick in which a piece may still be made. */
struct later {
    VEC(uint32_t) overwritten; /* [locs * slices] */
    VEC(uint32_t) wanted;      /* [pieces] */
};

static void lower_to(uint32_t *at, uint32_t tick) {
    *at = tick < *at ? tick : *at;
}

static uint32_t *chunk_entry(struct clock *k, struct later *x, const struct task *task,
                             uint32_t loc) {
    return &x->overwritten.data[(size_t)loc * k->t->slices + task->slice];
}

/* The last tick for a task that only encodes chunks of this rank; its own one if it does anything
 * else. */
static uint32_t latest_tick(struct clock *k, struct later *x, const struct task *task) {
    uint32_t latest = UINT32_MAX;
    if (task->store.index != NONE)
        return task->tick;
    for (uint32_t i = 0; i < task->operands; i++) {
        struct operand o = k->t->operands.data[task->first_operand + i];
        if (o.kind != OPERAND_CHUNK)
            return task->tick;
        lower_to(&latest, *chunk_entry(k, x, task, o.index));
    }
    for (uint32_t i = 0; i < task->outs; i++)
        lower_to(&latest, x->wanted.data[k->t->outs.data[task->first_out + i]]);
    return latest == UINT32_MAX ? task->tick : latest;
}

static void note_uses(struct clock *k, struct later *x, const struct task *task) {
    bool sends = task->kind == TASK_SEND;
    uint32_t tick = sends ? k->tick.data[task->message] - 1 : task->tick;
    for (uint32_t i = 0; i < task->operands; i++) {
        struct operand o = k->t->operands.data[task->first_operand + i];
        if (o.kind == OPERAND_PIECE)
            lower_to(&x->wanted.data[o.index], tick);
    }
    if (task->store.index != NONE && task->store.kind == OPERAND_CHUNK)
        lower_to(chunk_entry(k, x, task, task->store.index), tick);
}

/* A piece takes memory from its encoding on, so what only encodes goes to the last tick before the
 * piece is sent. There it stands before the other computes, which may have to wait for messages of
 * that tick. */
static void encode_late(struct clock *k, uint8_t *early) {
    struct tasks *t = k->t;
    struct later x = {0};
    (void)VEC_ADD_N(&x.overwritten, k->chunks.count);
    (void)VEC_ADD_N(&x.wanted, t->pieces.count);
    for (size_t i = 0; i < x.overwritten.count; i++)
        x.overwritten.data[i] = UINT32_MAX;
    for (size_t i = 0; i < x.wanted.count; i++)
        x.wanted.data[i] = UINT32_MAX;
    for (size_t i = t->tasks.count; i-- > 0;) {
        struct task *task = &t->tasks.data[i];
        if (task->kind == TASK_COMPUTE) {
            uint32_t latest = latest_tick(k, &x, task);
            early[i] = latest > task->tick;
            task->tick = latest;
        }
        note_uses(k, &x, task);
    }
    VEC_FREE(&x.overwritten);
    VEC_FREE(&x.wanted);
}

/* ---- rounds, and the lists in their order ---- */

/* Rounds of a communicator are the ticks in which it has messages. */
static void number_rounds(struct tasks *t, const uint32_t *tick) {
    uint32_t last = 0;
    for (size_t i = 0; i < t->messages.count; i++)
        last = max_u32(last, tick[i]);
    VEC(uint32_t) round = {0};
    for (uint32_t comm = 0; comm < 2; comm++) {
        VEC_CLEAR(&round);
        (void)VEC_ADD_N(&round, (size_t)last + 1);
        for (size_t i = 0; i < t->messages.count; i++)
            if (t->messages.data[i].comm == comm)
                round.data[tick[i]] = 1;
        uint32_t n = 0;
        for (size_t i = 0; i < round.count; i++)
            round.data[i] = round.data[i] ? n++ : 0;
        t->rounds[comm] = n;
        for (size_t i = 0; i < t->messages.count; i++)
            if (t->messages.data[i].comm == comm) {
                t->messages.data[i].round = round.data[tick[i]];
                t->messages.data[i].index = 0;
            }
    }
    VEC_FREE(&round);
}

/* Stable bottom-up merge sort of keys whose low half is the position, hence all different. */
static void sort_keys(uint64_t *keys, uint64_t *spare, size_t n) {
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = keys[i - 1] < keys[i];
    if (sorted)
        return;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n;
            size_t hi = lo + 2 * width < n ? lo + 2 * width : n;
            for (size_t i = lo, j = mid, to = lo; to < hi; to++)
                spare[to] = j == hi || (i < mid && keys[i] < keys[j]) ? keys[i++] : keys[j++];
        }
        memcpy(keys, spare, n * sizeof *keys);
    }
}

/* What the sorted lists are written to: operands, outs and pieces in the order in which they are
 * used. */
struct rewrite {
    VEC(struct operand) operands;
    VEC(uint32_t) outs;
    VEC(struct piece) pieces;
    VEC(uint32_t) renamed; /* [pieces] 1 + new number */
    VEC(uint64_t) keys, spare;
    VEC(struct task) list;
};

static uint32_t rename_piece(struct rewrite *w, const struct tasks *t, uint32_t piece) {
    uint32_t *renamed = &w->renamed.data[piece];
    if (!*renamed) {
        VEC_PUSH(&w->pieces, t->pieces.data[piece]);
        *renamed = (uint32_t)w->pieces.count;
    }
    return *renamed - 1;
}

static void rewrite_task(struct rewrite *w, struct tasks *t, struct task *task, uint32_t index) {
    uint32_t first_operand = (uint32_t)w->operands.count, first_out = (uint32_t)w->outs.count;
    for (uint32_t i = 0; i < task->operands; i++) {
        struct operand o = t->operands.data[task->first_operand + i];
        if (o.kind == OPERAND_PIECE)
            o.index = rename_piece(w, t, o.index);
        VEC_PUSH(&w->operands, o);
    }
    for (uint32_t i = 0; i < task->outs; i++)
        VEC_PUSH(&w->outs, rename_piece(w, t, t->outs.data[task->first_out + i]));
    task->first_operand = first_operand;
    task->first_out = first_out;
    task->first_dep = task->deps = 0;
    task->index = 0;
    if (task->kind == TASK_COMPUTE)
        return;
    struct message *m = &t->messages.data[task->message];
    task->comm = m->comm;
    task->round = m->round;
    *(task->kind == TASK_SEND ? &m->send : &m->recv) = index;
}

static void sort_rank(struct rewrite *w, struct tasks *t, const struct rank_tasks *r,
                      const uint32_t *tick, const uint8_t *early) {
    struct task *list = t->tasks.data + r->first;
    VEC_CLEAR(&w->keys);
    VEC_CLEAR(&w->list);
    for (uint32_t i = 0; i < r->n; i++) {
        tasks_fetch_message(t, r->first + i, r->first + r->n);
        uint64_t phase = early[r->first + i] ? 2 : 3;
        if (list[i].kind != TASK_COMPUTE) {
            list[i].tick = tick[list[i].message];
            phase = t->messages.data[list[i].message].comm;
        }
        VEC_PUSH(&w->keys, ((uint64_t)list[i].tick << 2 | phase) << 30 | i);
        VEC_PUSH(&w->list, list[i]);
    }
    VEC_CLEAR(&w->spare);
    (void)VEC_ADD_N(&w->spare, r->n);
    sort_keys(w->keys.data, w->spare.data, r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        list[i] = w->list.data[w->keys.data[i] & ((1u << 30) - 1)];
        rewrite_task(w, t, &list[i], r->first + i);
    }
}

/* Copies instead of moving: the arrays of tasks are counted by its guard. */
#define REPLACE(to, from)                                      \
    do {                                                       \
        VEC_CLEAR(to);                                         \
        if ((from)->count)                                     \
            memcpy(VEC_ADD_N(to, (from)->count), (from)->data, \
                   (from)->count * sizeof *(from)->data);      \
        VEC_FREE(from);                                        \
    } while (0)

static void sort_lists(struct tasks *t, const uint32_t *tick, const uint8_t *early) {
    struct rewrite w = {0};
    VEC_RESERVE(&w.operands, t->operands.count);
    VEC_RESERVE(&w.outs, t->outs.count);
    VEC_RESERVE(&w.pieces, t->pieces.count);
    (void)VEC_ADD_N(&w.renamed, t->pieces.count);
    for (size_t r = 0; r < t->ranks.count; r++)
        sort_rank(&w, t, &t->ranks.data[r], tick, early);
    REPLACE(&t->operands, &w.operands);
    REPLACE(&t->outs, &w.outs);
    REPLACE(&t->pieces, &w.pieces);
    VEC_CLEAR(&t->deps);
    VEC_FREE(&w.renamed);
    VEC_FREE(&w.keys);
    VEC_FREE(&w.spare);
    VEC_FREE(&w.list);
}

/* Asks the guard for all that the pass will hold, so that the limit speaks up while nothing is
 * held. */
static void ask_for_room(struct compilation *c) {
    const struct tasks *t = c->tasks;
    VEC(char) room = {.guard = &c->guard};
    VEC_RESERVE(&room, (size_t)t->flow->locs * t->slices * 12 + t->pieces.count * 72 +
                           t->messages.count * 8 + t->operands.count * 8 + t->outs.count * 4 +
                           t->tasks.count);
    VEC_FREE(&room);
}

bool pass_rounds(struct compilation *c) {
    struct tasks *t = c->tasks;
    ask_for_room(c);
    struct clock k = {0};
    assign_comms(t);
    clock_init(&k, t);
    bool ok = assign_ticks(c, &k);
    if (ok) {
        VEC(uint8_t) early = {0}; /* [tasks] before the other computes of its tick */
        (void)VEC_ADD_N(&early, t->tasks.count);
        if (!k.undecided.count)
            encode_late(&k, early.data);
        number_rounds(t, k.tick.data);
        sort_lists(t, k.tick.data, early.data);
        VEC_FREE(&early);
    }
    clock_free(&k);
    return ok;
}
