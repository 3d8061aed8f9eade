/*
 * executor_cpu.c: runs all ranks of a plan on the threads of this machine.
 *
 * A rank runs its steps in order. A round group starts all its transfers, and the rank goes on
 * when the last is done. A transfer is a copy from the sender's slot into the receiver's, made
 * by whoever comes second, so a slot is read only after both have come to it and reused only
 * after both may go on. A rank that has to wait is put aside and its worker takes the next one
 * that is ready; whoever makes the last transfer of its group puts it back in the queue. When
 * the queue is empty, no worker is at work and ranks are left, nothing can ever move again, and
 * the run ends with an error.
 *
 *         queue -> worker: steps ... group: start transfers -> all done? -> steps ...
 *           ^                                   | no
 *           +---- last transfer done by another +
 *
 * A run: ranks, consensus, repair if anything overflowed, commit. Only the commit writes the
 * caller's memory, and only then what codecs remember moves on.
 */
#include "runtime/engine.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct executor {
    struct run_options options;
    struct loaded plan, repair;
    bool has_repair;
    struct states states;
    struct state_map plan_map, repair_map;
    struct pool *pool;
    int threads;
    struct rank_run *ranks;   /* [ranks] */
    struct worker *workers;   /* [threads] */
    struct run_stage *stages; /* [threads + 1][stages]: each worker's, then the sum */
    uint8_t *lost;            /* chunks, then accumulators, of plan or repair */
    uint64_t *needs, *repair_needs;
    _Atomic uint8_t *arrived; /* [messages] one end of the message has started it */
    struct run_stats stats;
    char error[256];

    /* the run in progress */
    struct run run;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    uint32_t *queue; /* [ranks] ring of ranks that can go on */
    uint32_t queue_first, queue_count, ranks_done, at_work;
    bool stuck;
    _Atomic uint64_t steps_done;
};

/* ---- transfers ---- */

static void put_in_queue(struct executor *e, uint32_t rank) {
    uint32_t ranks = (uint32_t)e->run.l->t->ranks.count;
    pthread_mutex_lock(&e->lock);
    e->queue[(e->queue_first + e->queue_count++) % ranks] = rank;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

/* One transfer of the rank's group is over. True: it was the last. */
static bool one_less(struct rank_run *rank) {
    return atomic_fetch_sub_explicit(&rank->pending, 1, memory_order_acq_rel) == 1;
}

static void transfer(struct executor *e, struct worker *w, const struct message *m) {
    const struct tasks *t = e->run.l->t;
    const struct task *send = &t->tasks.data[m->send], *recv = &t->tasks.data[m->recv];
    double start = clock_seconds();
    for (uint32_t i = 0; i < send->operands; i++) {
        const struct piece *from = &t->pieces.data[t->operands.data[send->first_operand + i].index];
        const struct piece *to = &t->pieces.data[t->outs.data[recv->first_out + i]];
        if (from->bytes > 0)
            memcpy(e->ranks[m->dst].arena + to->offset, e->ranks[m->src].arena + from->offset,
                   from->bytes);
    }
    w->stages[send->stage].transfer_seconds += clock_seconds() - start;
}

/* What a message puts on the wire, counted at its sender. */
static void count_message(const struct run *r, const struct rank_run *rank, const struct task *k,
                          struct run_stage *s) {
    const struct tasks *t = r->l->t;
    enum dtype type = t->flow->setup.dtype;
    s->messages++;
    for (uint32_t i = 0; i < k->operands; i++) {
        const struct piece *p = &t->pieces.data[t->operands.data[k->first_operand + i].index];
        uint64_t needed = p->bytes;
        bool overflowed;
        codec_encoded_bytes(&t->flow->codecs.data[p->codec], type, p->elems,
                            rank->arena + p->offset, p->bytes, &needed, &overflowed);
        s->raw_bytes += p->elems * dtype_bytes(type);
        s->wire_bytes += p->bytes;
        s->needed_bytes += needed;
    }
}

/* Starts a group. True: it is over already. */
static bool run_group(struct executor *e, struct worker *w, struct rank_run *rank, struct step s) {
    const struct loaded *l = e->run.l;
    atomic_store_explicit(&rank->pending, s.n + 1, memory_order_relaxed);
    for (uint32_t i = s.first; i < s.first + s.n; i++) {
        const struct task *k = &l->t->tasks.data[l->order[i]];
        const struct message *m = &l->t->messages.data[k->message];
        if (k->kind == TASK_SEND)
            count_message(&e->run, rank, k, &w->stages[k->stage]);
        if (!atomic_fetch_add_explicit(&e->arrived[k->message], 1, memory_order_acq_rel))
            continue;
        transfer(e, w, m);
        int32_t peer = k->kind == TASK_SEND ? m->dst : m->src;
        if (one_less(&e->ranks[peer]))
            put_in_queue(e, (uint32_t)peer);
        one_less(rank);
    }
    return one_less(rank);
}

/* ---- ranks on workers ---- */

static void show_progress(struct executor *e, struct worker *w) {
    double now = clock_seconds();
    if (!e->options.progress || now - w->shown < e->options.progress_seconds)
        return;
    w->shown = now;
    const struct tasks *t = e->run.l->t;
    e->options.progress(e->options.progress_ctx, atomic_load(&e->steps_done), t->tasks.count);
}

/* Runs a rank until it has to wait (false) or is at its end. */
static bool run_rank(struct executor *e, int worker, uint32_t rank_number) {
    struct rank_run *rank = &e->ranks[rank_number];
    const struct loaded *l = e->run.l;
    struct worker *w = &e->workers[worker];
    uint32_t end = l->first_step[rank_number + 1];
    if (rank->next_step == l->first_step[rank_number])
        for (uint32_t i = l->first_begin[rank_number]; i < l->first_begin[rank_number + 1]; i++)
            memcpy(rank->work + l->begin[i].to_bytes, rank->send + l->begin[i].from_bytes,
                   l->begin[i].bytes);
    while (rank->next_step < end) {
        struct step s = l->steps[rank->next_step++];
        const struct task *k = &l->t->tasks.data[l->order[s.first]];
        atomic_fetch_add_explicit(&e->steps_done, s.n, memory_order_relaxed);
        if (k->kind == TASK_COMPUTE)
            compute_task(&e->run, w, rank, l->order[s.first]);
        else if (!run_group(e, w, rank, s))
            return false; /* from here on it may be another worker's */
        if (worker == 0)
            show_progress(e, w);
    }
    return true;
}

/* Waits until a rank can go on. NONE: all are done, or none ever can. Called and left with the
 * lock. */
static uint32_t next_rank(struct executor *e, int worker) {
    uint32_t ranks = (uint32_t)e->run.l->t->ranks.count;
    while (e->queue_count == 0) {
        if (e->ranks_done == ranks || e->stuck || e->at_work == 0) {
            e->stuck = e->ranks_done < ranks;
            pthread_cond_broadcast(&e->wake);
            return NONE;
        }
        if (worker > 0 || !e->options.progress) {
            pthread_cond_wait(&e->wake, &e->lock);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&e->wake, &e->lock, &until)) {
            pthread_mutex_unlock(&e->lock);
            show_progress(e, &e->workers[0]);
            pthread_mutex_lock(&e->lock);
        }
    }
    uint32_t rank = e->queue[e->queue_first];
    e->queue_first = (e->queue_first + 1) % ranks;
    e->queue_count--;
    return rank;
}

static void work(void *ctx, int worker) {
    struct executor *e = ctx;
    pthread_mutex_lock(&e->lock);
    for (uint32_t rank; (rank = next_rank(e, worker)) != NONE;) {
        e->at_work++;
        pthread_mutex_unlock(&e->lock);
        bool done = run_rank(e, worker, rank);
        pthread_mutex_lock(&e->lock);
        e->at_work--;
        e->ranks_done += done;
    }
    pthread_mutex_unlock(&e->lock);
}

/* Says where the first rank that is not done stands. */
static void report_stuck(struct executor *e) {
    const struct loaded *l = e->run.l;
    for (uint32_t rank = 0; rank < l->t->ranks.count; rank++) {
        const struct rank_run *r = &e->ranks[rank];
        if (r->next_step == l->first_step[rank] ||
            !atomic_load_explicit(&e->ranks[rank].pending, memory_order_relaxed))
            continue;
        struct step s = l->steps[r->next_step - 1];
        for (uint32_t i = s.first; i < s.first + s.n; i++) {
            const struct task *k = &l->t->tasks.data[l->order[i]];
            const struct message *m = &l->t->messages.data[k->message];
            if (k->kind == TASK_COMPUTE || e->arrived[k->message] > 1)
                continue;
            snprintf(e->error, sizeof e->error,
                     "the ranks wait for each other; rank %" PRIu32 " waits in round %" PRIu32
                     " of comm %d for rank %" PRId32,
                     rank, k->round, k->comm, k->kind == TASK_SEND ? m->dst : m->src);
            return;
        }
    }
    snprintf(e->error, sizeof e->error, "the ranks wait for each other");
}

/* ---- one plan ---- */

static void reset(struct executor *e, const struct loaded *l, const void *const *send,
                  void *const *recv) {
    const struct tasks *t = l->t;
    size_t locs = t->flow->locs * (size_t)t->slices;
    e->run = (struct run){.l = l,
                          .ranks = e->ranks,
                          .lost_chunks = e->lost,
                          .lost_accs = e->lost + locs,
                          .needs = l == &e->repair ? e->repair_needs : e->needs,
                          .states = &e->states,
                          .map = l == &e->repair ? &e->repair_map : &e->plan_map};
    memset(e->lost, 0, locs + t->acc_offsets.count);
    for (size_t i = 0; i < t->messages.count; i++)
        atomic_store_explicit(&e->arrived[i], 0, memory_order_relaxed);
    atomic_store(&e->steps_done, 0);
    e->queue_first = e->ranks_done = e->at_work = 0;
    e->queue_count = (uint32_t)t->ranks.count;
    e->stuck = false;
    for (uint32_t i = 0; i < t->ranks.count; i++) {
        struct rank_run *r = &e->ranks[i];
        r->send = send[i];
        r->recv = recv[i];
        r->next_step = l->first_step[i];
        r->overflowed = false;
        r->fault = NULL;
        atomic_store_explicit(&r->pending, 0, memory_order_relaxed);
        e->queue[i] = i;
    }
}

/* Runs one plan on all ranks. *overflowed: what the ranks agree on, the largest of their
 * status. */
static enum run_status run_plan(struct executor *e, const struct loaded *l, const void *const *send,
                                void *const *recv, bool *overflowed) {
    reset(e, l, send, recv);
    pool_run(e->pool, work, e);
    if (e->stuck) {
        report_stuck(e);
        return RUN_INTERNAL;
    }
    *overflowed = false;
    for (size_t i = 0; i < l->t->ranks.count; i++)
        *overflowed |= e->ranks[i].overflowed;
    for (size_t i = 0; i < l->t->ranks.count && !*overflowed; i++)
        if (e->ranks[i].fault) {
            snprintf(e->error, sizeof e->error, "rank %zu could not decode: %s", i,
                     e->ranks[i].fault);
            return RUN_INTERNAL;
        }
    return RUN_OK;
}

static void commit(void *ctx, int worker) {
    struct executor *e = ctx;
    const struct loaded *l = e->run.l;
    for (size_t rank = (size_t)worker; rank < l->t->ranks.count; rank += (size_t)e->threads)
        for (uint32_t i = l->first_commit[rank]; i < l->first_commit[rank + 1]; i++)
            memcpy(e->ranks[rank].recv + l->commit[i].to_bytes,
                   e->ranks[rank].work + l->commit[i].from_bytes, l->commit[i].bytes);
}

/* ---- statistics ---- */

static void add_seconds(struct run_stage *to, const struct run_stage *s) {
    to->encode_seconds += s->encode_seconds;
    to->decode_seconds += s->decode_seconds;
    to->reduce_seconds += s->reduce_seconds;
    to->transfer_seconds += s->transfer_seconds;
}

void run_stage_add(struct run_stage *to, const struct run_stage *s) {
    to->messages += s->messages;
    to->raw_bytes += s->raw_bytes;
    to->wire_bytes += s->wire_bytes;
    to->needed_bytes += s->needed_bytes;
    to->encodings += s->encodings;
    to->overflows += s->overflows;
    add_seconds(to, s);
}

static void clear_stages(struct executor *e) {
    memset(e->stages, 0, (size_t)(e->threads + 1) * e->stats.stages * sizeof *e->stages);
    const struct flow *f = e->plan.t->flow;
    for (uint32_t i = 0; i < e->stats.stages; i++)
        e->stages[i].name = f->stages.data[i].name;
}

/* Moves what the workers saw to the sums; of a repair, only the time. */
static void collect_stages(struct executor *e, bool repair) {
    uint32_t stages = e->stats.stages;
    for (int w = 0; w < e->threads; w++)
        for (uint32_t i = 0; i < stages; i++) {
            struct run_stage *s = &e->workers[w].stages[i];
            if (repair)
                add_seconds(&e->stages[i], s);
            else
                run_stage_add(&e->stages[i], s);
            e->stats.repair_wire_bytes += repair ? s->wire_bytes : 0;
            *s = (struct run_stage){0};
        }
}

static void finish_stats(struct executor *e, double start, bool repaired) {
    e->stats.runs = 1;
    e->stats.repairs = repaired;
    e->stats.wall_seconds = e->stats.best_seconds = e->stats.last_seconds = clock_seconds() - start;
    for (uint32_t i = 0; i < e->stats.stages; i++)
        run_stage_add(&e->stats.total, &e->stages[i]);
}

/* ---- a run ---- */

static enum run_status run_all(struct executor *e, const void *const *send, void *const *recv,
                               bool *repaired) {
    enum run_status status = run_plan(e, &e->plan, send, recv, repaired);
    if (status != RUN_OK)
        return status;
    collect_stages(e, false);
    if (*repaired) {
        bool again;
        if (!e->has_repair) {
            snprintf(e->error, sizeof e->error, "an overflow, and no repair plan");
            return RUN_INTERNAL;
        }
        status = run_plan(e, &e->repair, send, recv, &again);
        if (status != RUN_OK)
            return status;
        collect_stages(e, true);
        if (again) {
            snprintf(e->error, sizeof e->error, "the repair plan overflowed");
            return RUN_INTERNAL;
        }
    }
    pool_run(e->pool, commit, e);
    states_commit(&e->states);
    return RUN_OK;
}

enum run_status executor_run(struct executor *e, const void *const *send, void *const *recv) {
    e->error[0] = 0;
    for (size_t i = 0; i < e->plan.t->ranks.count; i++)
        if ((!send[i] && e->plan.send_bytes[i] > 0) || (!recv[i] && e->plan.recv_bytes[i] > 0)) {
            snprintf(e->error, sizeof e->error, "rank %zu has no %s buffer", i,
                     !send[i] && e->plan.send_bytes[i] > 0 ? "send" : "receive");
            return RUN_BAD_ARGUMENT;
        }
    bool repaired = false;
    double start = clock_seconds();
    clear_stages(e);
    memset(e->needs, 0, e->plan.needs * sizeof *e->needs);
    e->stats.total = (struct run_stage){.name = "total"};
    e->stats.repair_wire_bytes = 0;
    for (int w = 0; w < e->threads; w++)
        e->workers[w].shown = start;
    enum run_status status = run_all(e, send, recv, &repaired);
    finish_stats(e, start, repaired);
    return status;
}

const char *executor_error(const struct executor *e) {
    return e->error;
}
const struct run_stats *executor_stats(const struct executor *e) {
    return &e->stats;
}

const uint64_t *executor_needs(const struct executor *e, size_t *count) {
    *count = e->plan.needs;
    return e->needs;
}

/* ---- state ---- */

#define STATE_MAGIC  UINT64_C(0x0131545354534c53) /* "SLSTST1", 1 */
#define STATE_HEADER (4 * sizeof(uint64_t))       /* magic, hash, bytes, 0 */

uint64_t executor_state_bytes(const struct executor *e) {
    return e->states.bytes > 0 ? STATE_HEADER + e->states.bytes : 0;
}

void executor_state_save(const struct executor *e, void *to) {
    uint64_t header[] = {STATE_MAGIC, states_hash(&e->states, e->plan.t), e->states.bytes, 0};
    if (e->states.bytes == 0)
        return;
    memcpy(to, header, STATE_HEADER);
    memcpy((char *)to + STATE_HEADER, e->states.now, e->states.bytes);
}

bool executor_state_restore(struct executor *e, const void *from, uint64_t bytes) {
    uint64_t header[] = {STATE_MAGIC, states_hash(&e->states, e->plan.t), e->states.bytes, 0};
    if (bytes != executor_state_bytes(e) || (bytes > 0 && memcmp(from, header, STATE_HEADER) != 0))
        return false;
    if (bytes > 0)
        memcpy(e->states.now, (const char *)from + STATE_HEADER, e->states.bytes);
    return true;
}

bool executor_state_move(struct executor *to, const struct executor *from) {
    if (to->states.bytes != from->states.bytes ||
        states_hash(&to->states, to->plan.t) != states_hash(&from->states, from->plan.t))
        return false;
    if (to->states.bytes > 0)
        memcpy(to->states.now, from->states.now, to->states.bytes);
    return true;
}

void executor_state_reset(struct executor *e, uint64_t seed) {
    states_reset(&e->states, e->plan.t, seed);
}

/* ---- making and freeing ---- */

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Adds a zeroed block to what the executor holds; NULL, and an error, when it does not fit. */
static void *hold(struct executor *e, uint64_t bytes) {
    const uint64_t align = 256;
    uint64_t limit = e->options.memory_limit_bytes;
    uint64_t held = e->stats.total_bytes;
    if (bytes > UINT64_MAX / 2 || held > limit || bytes > limit - held) {
        snprintf(e->error, sizeof e->error, "the run needs more memory than it may take");
        return NULL;
    }
    bytes = (bytes + align) / align * align; /* never 0 */
    void *block = aligned_alloc(align, bytes);
    if (!block) {
        snprintf(e->error, sizeof e->error, "no memory to run");
        return NULL;
    }
    memset(block, 0, bytes); /* so that the memory is there when a run wants it */
    e->stats.total_bytes += bytes;
    return block;
}

static uint64_t arena_of(const struct executor *e, size_t rank) {
    uint64_t bytes = e->plan.t->ranks.data[rank].arena_bytes;
    return e->has_repair ? larger(bytes, e->repair.t->ranks.data[rank].arena_bytes) : bytes;
}

static uint64_t scratch_of_worker(const struct executor *e) {
    uint64_t bytes = e->plan.codec_bytes + e->plan.value_bytes;
    return e->has_repair ? larger(bytes, e->repair.codec_bytes + e->repair.value_bytes) : bytes;
}

static uint64_t add_up(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Whether what hold_all will take may be taken, so that a run that is too large is refused before
 * any page is touched. What grows with the data is counted; hold sees to the rest. */
static bool has_room(struct executor *e) {
    const struct run_options *o = &e->options;
    char need[NUMBER_TEXT_BYTES], may[NUMBER_TEXT_BYTES];
    uint64_t bytes = 2 * e->states.bytes;
    for (size_t i = 0; i < e->plan.t->ranks.count; i++)
        bytes = add_up(bytes, add_up(arena_of(e, i), e->plan.recv_bytes[i]));
    for (int i = 0; i < e->threads; i++)
        bytes = add_up(bytes, scratch_of_worker(e));
    if (bytes > o->memory_limit_bytes) {
        snprintf(e->error, sizeof e->error, "the run needs %s of memory and may take %s",
                 format_bytes(need, bytes), format_bytes(may, o->memory_limit_bytes));
        return false;
    }
    if (o->may_take && !o->may_take(o->may_take_ctx, e->plan.t->flow, bytes)) {
        snprintf(e->error, sizeof e->error, "the caller has no room for the run");
        return false;
    }
    return true;
}

static bool hold_ranks(struct executor *e) {
    const struct tasks *t = e->plan.t;
    for (size_t i = 0; i < t->ranks.count; i++) {
        e->stats.arena_bytes = larger(e->stats.arena_bytes, t->ranks.data[i].arena_bytes);
        e->stats.arena_unshared_bytes =
            larger(e->stats.arena_unshared_bytes, t->ranks.data[i].unshared_bytes);
        e->ranks[i].arena = hold(e, arena_of(e, i));
        e->ranks[i].work = hold(e, e->plan.recv_bytes[i]);
        if (!e->ranks[i].arena || !e->ranks[i].work)
            return false;
    }
    return true;
}

static bool hold_workers(struct executor *e) {
    e->workers = hold(e, (uint64_t)e->threads * sizeof *e->workers);
    e->stages = hold(e, (uint64_t)(e->threads + 1) * e->stats.stages * sizeof *e->stages);
    if (!e->workers || !e->stages)
        return false;
    for (int i = 0; i < e->threads; i++) {
        e->workers[i].stages = e->stages + (size_t)(i + 1) * e->stats.stages;
        e->workers[i].scratch = hold(e, scratch_of_worker(e));
        if (!e->workers[i].scratch)
            return false;
    }
    return true;
}

static uint64_t flags_of(const struct tasks *t) {
    return (uint64_t)t->flow->locs * t->slices + t->acc_offsets.count;
}

static bool hold_all(struct executor *e) {
    const struct tasks *t = e->plan.t, *r = e->has_repair ? e->repair.t : t;
    e->ranks = hold(e, t->ranks.count * sizeof *e->ranks);
    e->queue = hold(e, t->ranks.count * sizeof *e->queue);
    e->arrived = hold(e, larger(t->messages.count, r->messages.count));
    e->lost = hold(e, larger(flags_of(t), flags_of(r)));
    e->needs = hold(e, e->plan.needs * sizeof *e->needs);
    e->repair_needs = hold(e, e->repair.needs * sizeof *e->needs);
    e->states.now = hold(e, e->states.bytes);
    e->states.next = hold(e, e->states.bytes);
    return e->ranks && e->queue && e->arrived && e->lost && e->needs && e->repair_needs &&
           e->states.now && e->states.next && hold_ranks(e) && hold_workers(e);
}

static int default_threads(const struct run_options *o, size_t ranks) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = o->threads > 0 ? (size_t)o->threads : (size_t)(cores > 0 ? cores : 1);
    return (int)(threads < ranks ? threads : ranks);
}

static uint64_t half_the_machine(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 2 : UINT64_MAX / 4;
}

static enum run_status find_states(struct executor *e, char *err, size_t err_bytes) {
    if (!states_find(&e->states, e->plan.t))
        return RUN_NO_MEMORY;
    enum run_status status = states_map(&e->states, e->plan.t, &e->plan_map);
    if (status == RUN_OK && e->has_repair)
        status = states_map(&e->states, e->repair.t, &e->repair_map);
    if (status == RUN_INTERNAL)
        snprintf(err, err_bytes, "the repair plan does not keep the state of the plan");
    return status;
}

static enum run_status load(struct executor *e, const struct tasks *t, const struct tasks *repair,
                            char *err, size_t err_bytes) {
    enum run_status status = loaded_init(&e->plan, t, err, err_bytes);
    if (status == RUN_OK && repair) {
        e->has_repair = true;
        status = loaded_init(&e->repair, repair, err, err_bytes);
    }
    if (status != RUN_OK)
        return status;
    if (repair && (repair->flow->locs != t->flow->locs || repair->ranks.count != t->ranks.count ||
                   repair->flow->stages.count != t->flow->stages.count || e->repair.can_overflow)) {
        snprintf(err, err_bytes, "the repair plan is not of the same schedule, or can overflow");
        return RUN_INTERNAL;
    }
    if (!repair && e->plan.can_overflow) {
        snprintf(err, err_bytes, "the plan can overflow and has no repair plan");
        return RUN_INTERNAL;
    }
    return find_states(e, err, err_bytes);
}

static enum run_status executor_init(struct executor *e, const struct tasks *t,
                                     const struct tasks *repair, char *err, size_t err_bytes) {
    enum run_status status = load(e, t, repair, err, err_bytes);
    if (status != RUN_OK)
        return status;
    e->pool = pool_new(default_threads(&e->options, t->ranks.count), e->options.start_thread);
    if (!e->pool)
        return RUN_NO_MEMORY;
    e->threads = e->stats.threads = pool_threads(e->pool);
    e->stats.stages = (uint32_t)t->flow->stages.count;
    if (!has_room(e) || !hold_all(e)) {
        snprintf(err, err_bytes, "%s", e->error);
        return RUN_NO_MEMORY;
    }
    e->stats.stage = e->stages;
    executor_state_reset(e, 0);
    return RUN_OK;
}

struct executor *executor_new(const struct tasks *t, const struct tasks *repair,
                              const struct run_options *o, enum run_status *status, char *err,
                              size_t err_bytes) {
    if (err_bytes > 0)
        err[0] = 0;
    *status = RUN_NO_MEMORY;
    struct executor *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    if (o)
        e->options = *o;
    if (e->options.memory_limit_bytes == 0)
        e->options.memory_limit_bytes = half_the_machine();
    if (e->options.progress_seconds <= 0)
        e->options.progress_seconds = 0.1;
    *status = executor_init(e, t, repair, err, err_bytes);
    if (*status == RUN_OK)
        return e;
    executor_free(e);
    return NULL;
}

void executor_free(struct executor *e) {
    if (!e)
        return;
    pool_free(e->pool);
    for (size_t i = 0; e->ranks && i < e->plan.t->ranks.count; i++) {
        free(e->ranks[i].arena);
        free(e->ranks[i].work);
    }
    for (int i = 0; e->workers && i < e->threads; i++)
        free(e->workers[i].scratch);
    free(e->workers);
    free(e->stages);
    free(e->ranks);
    free(e->queue);
    free((void *)e->arrived);
    free(e->lost);
    free(e->needs);
    free(e->repair_needs);
    free(e->states.now);
    free(e->states.next);
    states_free(&e->states);
    state_map_free(&e->plan_map);
    state_map_free(&e->repair_map);
    loaded_free(&e->plan);
    loaded_free(&e->repair);
    pthread_cond_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    free(e);
}
