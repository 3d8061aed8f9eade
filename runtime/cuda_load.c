/*
 * cuda_load.c: a compiled plan as the list of actions that a process issues.
 *
 * An action is a compute task, or all messages of a round on one communicator. The steps of each
 * rank (steps.c) are merged: every rank goes on until it comes to a group, and a group is an action
 * when all ranks of this process that have a part in it are there.
 *
 * Streams run side by side: one a communicator, and the compute lanes of each rank. Where an action
 * must wait for one of another stream (`after` in the tasks), it gets a wait for its event, unless
 * earlier waits imply it: each action knows how far every stream is sure to be when it starts.
 */
#include "runtime/cuda.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool failure_set(struct failure *f, enum run_status status, const char *format, ...) {
    if (f->status != RUN_OK)
        return false;
    f->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(f->words, sizeof f->words, format, args);
    va_end(args);
    return false;
}

bool cuda_ok(struct failure *f, cudaError_t e, const char *call) {
    if (e == cudaSuccess)
        return true;
    enum run_status status = e == cudaErrorMemoryAllocation ? RUN_NO_MEMORY
                             : e == cudaErrorNotSupported   ? RUN_UNSUPPORTED
                                                            : RUN_DEVICE;
    return failure_set(f, status, "%.*s: %s", (int)strcspn(call, "("), call, cudaGetErrorString(e));
}

/* ---- what is read from where, and what has a header ---- */

/* Marks the operands that are read before the rank stores anything there: they still lie in
 * send. */
static bool find_from_send(struct cuda_plan *p, struct failure *f) {
    const struct tasks *t = p->t;
    size_t rooms = (size_t)t->flow->locs * t->slices;
    uint8_t *stored = calloc(rooms ? rooms : 1, 1);
    p->from_send = calloc(t->operands.count + 1, 1);
    if (!stored || !p->from_send) {
        free(stored);
        return failure_set(f, RUN_NO_MEMORY, "no memory to load the plan");
    }
    for (int32_t rank = p->first_rank; rank < p->first_rank + p->ranks; rank++) {
        const struct rank_tasks *r = &t->ranks.data[rank];
        for (uint32_t i = r->first; i < r->first + r->n; i++) {
            const struct task *k = &t->tasks.data[i];
            for (uint32_t j = k->first_operand; j < k->first_operand + k->operands; j++) {
                struct operand o = t->operands.data[j];
                if (o.kind == OPERAND_CHUNK && p->loaded.places[o.index].inout)
                    p->from_send[j] = !stored[(size_t)o.index * t->slices + k->slice];
            }
            if (k->kind == TASK_COMPUTE && k->store.index != NONE && k->store.kind == OPERAND_CHUNK)
                stored[(size_t)k->store.index * t->slices + k->slice] = 1;
        }
    }
    free(stored);
    return true;
}

/* Inout chunks that no task stores to, neighbours together. */
static bool find_unstored(struct cuda_plan *p, struct failure *f) {
    const struct flow *fl = p->t->flow;
    uint32_t n = 0;
    p->unstored = calloc((size_t)fl->locs + 1, sizeof *p->unstored);
    p->first_unstored = calloc((size_t)p->ranks + 1, sizeof *p->first_unstored);
    if (!p->unstored || !p->first_unstored)
        return failure_set(f, RUN_NO_MEMORY, "no memory to load the plan");
    for (int32_t i = 0; i < p->ranks; i++) {
        p->first_unstored[i] = n;
        for (loc_id loc = 0; loc < fl->locs; loc++) {
            const struct place *x = &p->loaded.places[loc];
            if (x->rank != p->first_rank + i || !x->inout || x->stored || x->bytes == 0)
                continue;
            struct span_copy c = {x->inout_bytes, x->offset_bytes, x->bytes};
            struct span_copy *last = n > p->first_unstored[i] ? &p->unstored[n - 1] : NULL;
            if (last && last->from_bytes + last->bytes == c.from_bytes &&
                last->to_bytes + last->bytes == c.to_bytes)
                last->bytes += c.bytes;
            else
                p->unstored[n++] = c;
        }
    }
    p->first_unstored[p->ranks] = n;
    return true;
}

/* Gives a word to each piece number whose encoding has a header. */
static bool number_needs(struct cuda_plan *p, struct failure *f) {
    const struct tasks *t = p->t;
    size_t numbers = piece_numbers(t), pieces = t->pieces.count;
    uint32_t *word = malloc((numbers + 1) * sizeof *word);
    p->need = malloc((pieces + 1) * sizeof *p->need);
    p->piece_bytes = malloc((pieces + 1) * sizeof *p->piece_bytes);
    if (!word || !p->need || !p->piece_bytes) {
        free(word);
        return failure_set(f, RUN_NO_MEMORY, "no memory to load the plan");
    }
    memset(word, 0xff, (numbers + 1) * sizeof *word);
    for (size_t i = 0; i < pieces; i++) {
        const struct piece *x = &t->pieces.data[i];
        const struct codec *c = &t->flow->codecs.data[x->codec];
        size_t number = piece_number(t, x);
        bool headed = codec_is_bounded(c) && codec_has_header(c, t->flow->setup.dtype, x->elems);
        p->piece_bytes[i] = x->bytes;
        p->need[i] = NONE;
        p->headers |= headed;
        if (!headed || number == NO_NUMBER)
            continue;
        if (word[number] == NONE)
            word[number] = PROTOCOL_NEEDS + p->needs++;
        p->need[i] = word[number];
    }
    free(word);
    return true;
}

uint64_t cuda_piece_worst(const struct cuda_plan *p, uint32_t piece) {
    const struct piece *x = &p->t->pieces.data[piece];
    return codec_worst_bytes(&p->t->flow->codecs.data[x->codec], p->t->flow->setup.dtype, x->elems);
}

void cuda_plan_measure(struct cuda_plan *p) {
    p->can_overflow = false;
    for (uint32_t i = 0; i < p->t->pieces.count && !p->can_overflow; i++)
        p->can_overflow = p->need[i] != NONE && p->piece_bytes[i] < cuda_piece_worst(p, i);
}

/* ---- actions ---- */

#define NOBODY UINT32_MAX

struct merger {
    struct cuda_plan *p;
    const struct tasks *t;
    struct failure *f;
    uint32_t *cursor;      /* [ranks] step of each rank */
    uint32_t *parts[2];    /* [rounds] ranks of this process with a part in the group */
    uint32_t *here[2];     /* [rounds] and that have come to it */
    uint32_t *task_action; /* [tasks] */
    uint32_t *clock;       /* [actions][streams] 1 + the last action known to be over before */
    uint32_t *now;         /* [streams][streams] the same for the next action of a stream */
    uint32_t *counted;     /* [ranks] 1 + the step that is counted in `here` */
    uint32_t *wanted;      /* [streams] of one action: 1 + the action to wait for */
    uint32_t wait_room, task_room;
};

static uint32_t compute_lanes(const struct tasks *t) {
    return t->lanes > t->comms ? t->lanes - t->comms : 1;
}

static uint32_t stream_of(const struct merger *m, int32_t rank, const struct task *k) {
    if (k->kind != TASK_COMPUTE)
        return k->comm;
    uint32_t lane = k->lane >= m->t->comms ? k->lane - m->t->comms : 0;
    return m->t->comms + (uint32_t)(rank - m->p->first_rank) * compute_lanes(m->t) + lane;
}

static const struct task *task_of_step(const struct merger *m, uint32_t step) {
    return &m->t->tasks.data[m->p->loaded.order[m->p->loaded.steps[step].first]];
}

/* Whether lanes are what the streams are made for: messages on that of their communicator, computes
 * on others. */
static bool check_lanes(struct merger *m) {
    const struct tasks *t = m->t;
    for (int32_t rank = m->p->first_rank; rank < m->p->first_rank + m->p->ranks; rank++) {
        const struct rank_tasks *r = &t->ranks.data[rank];
        for (uint32_t i = r->first; i < r->first + r->n; i++) {
            const struct task *k = &t->tasks.data[i];
            bool right = k->kind == TASK_COMPUTE
                             ? k->lane >= t->comms && k->lane < t->comms + compute_lanes(t)
                             : k->lane == k->comm && k->comm < t->comms;
            if (!right)
                return failure_set(m->f, RUN_INTERNAL, "rank %d, task %" PRIu32 " is on lane %d",
                                   rank, i, k->lane);
            if (k->kind == TASK_COMPUTE && k->operands > GPU_MAX_OPERANDS)
                return failure_set(m->f, RUN_UNSUPPORTED,
                                   "rank %d, task %" PRIu32 " has %u operands, at most %d run on "
                                   "a GPU",
                                   rank, i, (unsigned)k->operands, GPU_MAX_OPERANDS);
        }
    }
    return true;
}

static void want(struct merger *m, uint32_t task) {
    const struct task *k = &m->t->tasks.data[task];
    for (uint32_t d = 0; d < k->deps; d++) {
        uint32_t action = m->task_action[m->t->deps.data[k->first_dep + d]];
        if (action == NOBODY)
            continue; /* of another process: validate refuses it */
        uint32_t stream = m->p->actions[action].stream;
        if (m->wanted[stream] < action + 1)
            m->wanted[stream] = action + 1;
    }
}

static bool add_wait(struct merger *m, struct action *a, uint32_t other) {
    struct cuda_plan *p = m->p;
    if (a->first_wait + a->waits == m->wait_room) {
        uint32_t room = m->wait_room * 2 + 64;
        uint32_t *waits = realloc(p->waits, room * sizeof *waits);
        if (!waits)
            return failure_set(m->f, RUN_NO_MEMORY, "no memory to load the plan");
        p->waits = waits;
        m->wait_room = room;
    }
    if (p->actions[other].event == NONE)
        p->actions[other].event = p->events++;
    p->waits[a->first_wait + a->waits++] = p->actions[other].event;
    return true;
}

/* Takes the wanted waits, latest first, but for those that others imply. */
static bool take_waits(struct merger *m, struct action *a) {
    struct cuda_plan *p = m->p;
    uint32_t streams = p->streams, *now = m->now + (size_t)a->stream * streams;
    for (;;) {
        uint32_t latest = 0;
        for (uint32_t s = 0; s < streams; s++)
            latest = m->wanted[s] > latest ? m->wanted[s] : latest;
        if (latest == 0)
            return true;
        uint32_t other = latest - 1, stream = p->actions[other].stream;
        m->wanted[stream] = 0;
        if (stream == a->stream || now[stream] >= latest)
            continue;
        if (!add_wait(m, a, other))
            return false;
        const uint32_t *clock = m->clock + (size_t)other * streams;
        for (uint32_t s = 0; s < streams; s++)
            now[s] = clock[s] > now[s] ? clock[s] : now[s];
        now[stream] = latest;
    }
}

/* The action's waits are wanted; it becomes the last of its stream. */
static bool finish_action(struct merger *m, struct action *a) {
    struct cuda_plan *p = m->p;
    uint32_t number = p->action_count, streams = p->streams;
    a->event = NONE;
    a->first_wait = number ? p->actions[number - 1].first_wait + p->actions[number - 1].waits : 0;
    a->waits = 0;
    if (!take_waits(m, a))
        return false;
    memcpy(m->clock + (size_t)number * streams, m->now + (size_t)a->stream * streams,
           streams * sizeof *m->clock);
    p->action_count++;
    return true;
}

static bool add_compute(struct merger *m, int32_t rank, uint32_t task) {
    struct action *a = &m->p->actions[m->p->action_count];
    *a = (struct action){.task = task, .group = NONE};
    a->stream = stream_of(m, rank, &m->t->tasks.data[task]);
    want(m, task);
    m->task_action[task] = m->p->action_count;
    return finish_action(m, a);
}

/* All ranks have come to the group: takes their messages, and lets them go on. */
static bool add_group(struct merger *m, uint8_t comm, uint32_t round) {
    struct cuda_plan *p = m->p;
    struct group *g = &p->groups[p->group_count];
    *g = (struct group){.comm = comm, .round = round, .first = m->task_room};
    for (int32_t r = 0; r < p->ranks; r++) {
        uint32_t step = m->cursor[r];
        if (step == p->loaded.first_step[p->first_rank + r + 1])
            continue;
        const struct task *k = task_of_step(m, step);
        if (k->kind == TASK_COMPUTE || k->comm != comm || k->round != round)
            continue;
        struct step s = p->loaded.steps[step];
        for (uint32_t i = s.first; i < s.first + s.n; i++) {
            uint32_t task = p->loaded.order[i];
            want(m, task);
            m->task_action[task] = p->action_count;
            p->group_tasks[g->first + g->n++] = task;
        }
        m->cursor[r]++;
    }
    m->task_room += g->n;
    struct action *a = &p->actions[p->action_count];
    *a = (struct action){.task = NONE, .group = p->group_count++, .stream = comm};
    return finish_action(m, a);
}

/* A rank's computes up to its next group, and the group if all are there now. */
static bool advance(struct merger *m, int32_t r, bool *moved) {
    struct cuda_plan *p = m->p;
    uint32_t end = p->loaded.first_step[p->first_rank + r + 1];
    for (; m->cursor[r] < end; m->cursor[r]++) {
        const struct task *k = task_of_step(m, m->cursor[r]);
        if (k->kind != TASK_COMPUTE) {
            if (m->counted[r] != m->cursor[r] + 1)
                m->here[k->comm][k->round]++;
            m->counted[r] = m->cursor[r] + 1;
            if (m->here[k->comm][k->round] < m->parts[k->comm][k->round])
                return true;
            *moved = true;
            return add_group(m, k->comm, k->round);
        }
        *moved = true;
        if (!add_compute(m, p->first_rank + r,
                         p->loaded.order[p->loaded.steps[m->cursor[r]].first]))
            return false;
    }
    return true;
}

static bool merge(struct merger *m) {
    struct cuda_plan *p = m->p;
    bool ok = true, moved = true, left = true;
    while (ok && moved && left) {
        moved = left = false;
        for (int32_t r = 0; r < p->ranks && ok; r++) {
            ok = advance(m, r, &moved);
            left |= m->cursor[r] < p->loaded.first_step[p->first_rank + r + 1];
        }
    }
    if (ok && left)
        return failure_set(m->f, RUN_INTERNAL, "the ranks of this process wait for each other");
    return ok;
}

static void count_parts(struct merger *m) {
    const struct cuda_plan *p = m->p;
    for (uint32_t s = p->loaded.first_step[p->first_rank];
         s < p->loaded.first_step[p->first_rank + p->ranks]; s++) {
        const struct task *k = task_of_step(m, s);
        if (k->kind != TASK_COMPUTE)
            m->parts[k->comm][k->round]++;
    }
}

static bool build_actions(struct cuda_plan *p, struct failure *f) {
    const struct tasks *t = p->t;
    uint32_t steps =
        p->loaded.first_step[p->first_rank + p->ranks] - p->loaded.first_step[p->first_rank];
    uint32_t rounds = t->rounds[0] + t->rounds[1];
    p->streams = t->comms + (uint32_t)p->ranks * compute_lanes(t);
    size_t words = 2 * (size_t)p->ranks + 2 * (size_t)rounds + t->tasks.count +
                   (size_t)steps * p->streams + (size_t)p->streams * p->streams + p->streams;
    p->actions = calloc((size_t)steps + 1, sizeof *p->actions);
    p->groups = calloc((size_t)steps + 1, sizeof *p->groups);
    p->group_tasks = calloc(t->tasks.count + 1, sizeof *p->group_tasks);
    uint32_t *memory = calloc(words + 1, sizeof *memory);
    struct merger m = {.p = p, .t = t, .f = f};
    if (!p->actions || !p->groups || !p->group_tasks || !memory) {
        free(memory);
        return failure_set(f, RUN_NO_MEMORY, "no memory to load the plan");
    }
    m.cursor = memory;
    m.counted = m.cursor + p->ranks;
    m.parts[0] = m.counted + p->ranks;
    m.parts[1] = m.parts[0] + t->rounds[0];
    m.here[0] = m.parts[1] + t->rounds[1];
    m.here[1] = m.here[0] + t->rounds[0];
    m.task_action = m.here[1] + t->rounds[1];
    m.clock = m.task_action + t->tasks.count;
    m.now = m.clock + (size_t)steps * p->streams;
    m.wanted = m.now + (size_t)p->streams * p->streams;
    memset(m.task_action, 0xff, t->tasks.count * sizeof *m.task_action);
    for (int32_t r = 0; r < p->ranks; r++)
        m.cursor[r] = p->loaded.first_step[p->first_rank + r];
    count_parts(&m);
    bool ok = check_lanes(&m) && merge(&m);
    free(memory);
    return ok;
}

/* ---- the plan ---- */

static uint64_t scratch_of(const struct cuda_plan *p, uint32_t piece) {
    const struct piece *x = &p->t->pieces.data[piece];
    return scratch_portion(
        gpu_scratch_bytes(&p->t->flow->codecs.data[x->codec], p->t->flow->setup.dtype, x->elems));
}

/* What the launches of a compute task need at most, one at a time. */
static void count_workspace(struct cuda_plan *p, const struct task *k) {
    const struct tasks *t = p->t;
    uint64_t decoding = 0, encoding = 0;
    for (uint32_t i = 0; i < k->operands; i++) {
        struct operand o = t->operands.data[k->first_operand + i];
        decoding += o.kind == OPERAND_PIECE ? scratch_of(p, o.index) : 0;
    }
    for (uint32_t i = 0; i < k->outs; i++) {
        uint32_t piece = t->outs.data[k->first_out + i];
        const struct piece *x = &t->pieces.data[piece];
        uint64_t bytes =
            gpu_workspace_bytes(&t->flow->codecs.data[x->codec], t->flow->setup.dtype, x->elems);
        uint64_t scratch = scratch_of(p, piece);
        p->workspace_bytes = bytes > p->workspace_bytes ? bytes : p->workspace_bytes;
        encoding = scratch > encoding ? scratch : encoding;
    }
    if (decoding + encoding > p->scratch_bytes)
        p->scratch_bytes = decoding + encoding;
}

static void find_workspace(struct cuda_plan *p) {
    for (int32_t rank = p->first_rank; rank < p->first_rank + p->ranks; rank++) {
        const struct rank_tasks *r = &p->t->ranks.data[rank];
        for (uint32_t i = r->first; i < r->first + r->n; i++)
            if (p->t->tasks.data[i].kind == TASK_COMPUTE)
                count_workspace(p, &p->t->tasks.data[i]);
    }
}

uint64_t hash_more(uint64_t seed, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        seed = (seed ^ at[i]) * UINT64_C(0x100000001b3);
    return seed;
}

static uint64_t hash_number(uint64_t seed, uint64_t n) {
    return hash_more(seed, &n, sizeof n);
}

uint64_t cuda_plan_hash(const struct cuda_plan *p) {
    const struct tasks *t = p->t;
    const struct flow *fl = t->flow;
    uint64_t h = hash_number(hash_number(HASH_SEED, t->slices), (uint64_t)fl->setup.nodes);
    for (int32_t r = 0; r < fl->setup.ranks && fl->setup.node_of; r++)
        h = hash_number(hash_number(h, (uint64_t)fl->setup.node_of[r]),
                        (uint64_t)fl->setup.local_of[r]);
    for (size_t i = 0; i < fl->codecs.count; i++)
        h = hash_number(h, codec_hash(&fl->codecs.data[i]));
    for (size_t i = 0; i < t->messages.count; i++) {
        const struct message *m = &t->messages.data[i];
        h = hash_number(h, (uint64_t)m->src << 32 | (uint32_t)m->dst);
        h = hash_number(h, (uint64_t)m->round << 32 | m->index);
        h = hash_number(h, (uint64_t)m->codec << 32 | m->comm);
    }
    for (size_t i = 0; i < t->pieces.count; i++)
        h = hash_number(hash_number(h, t->pieces.data[i].elems), p->piece_bytes[i]);
    return h;
}

bool cuda_plan_init(struct cuda_plan *p, const struct tasks *t, int32_t first_rank, int32_t ranks,
                    struct failure *f) {
    char err[200] = "";
    *p = (struct cuda_plan){.t = t, .first_rank = first_rank, .ranks = ranks};
    enum run_status status = loaded_init(&p->loaded, t, err, sizeof err);
    if (status != RUN_OK)
        return failure_set(f, status, "%s", err[0] ? err : "no memory to load the plan");
    if (!find_from_send(p, f) || !find_unstored(p, f) || !number_needs(p, f) ||
        !build_actions(p, f))
        return false;
    find_workspace(p);
    cuda_plan_measure(p);
    return true;
}

void cuda_plan_free(struct cuda_plan *p) {
    if (!p->t)
        return;
    free(p->actions);
    free(p->groups);
    free(p->group_tasks);
    free(p->waits);
    free(p->piece_bytes);
    free(p->need);
    free(p->from_send);
    free(p->unstored);
    free(p->first_unstored);
    loaded_free(&p->loaded);
    *p = (struct cuda_plan){0};
}
