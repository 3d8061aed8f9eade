/* Reads task text, which a person may have written: what is accepted here can be given to every
 * later pass. So a piece is filled once and before it is read, an accumulator is stored before it
 * is read, each message has its two ends, and every number has a bound. Whether the program is
 * right is for `validate` to say.
 */
#include "compiler/irlex.h"

#include <inttypes.h>

enum {
    MAX_INDEX = 1 << 26, /* tasks, pieces, rounds, ticks, ops */
    MAX_LOCS = 1 << 25,  /* each takes 12 bytes, used or not */
    MAX_LANES = UINT8_MAX,
};
#define MAX_BYTES (UINT64_C(1) << 52)

/* One end of a message. */
struct message_end {
    uint32_t message, task;
    int32_t rank, peer;
    struct span at;
};

struct accumulator {
    bool stored;
    uint16_t slice;
};

struct reader {
    struct irlex *lex;
    struct flow *f;
    struct tasks *t;
    bool placed;
    /* of the rank being read */
    int32_t rank; /* -1: before the first */
    struct rank_tasks *tasks;
    uint32_t first_piece;
    VEC(uint8_t) filled; /* [pieces] */
    VEC(struct accumulator) accs;
    /* of all ranks */
    VEC(struct message_end) ends;
};

/* ---- labels and numbers ------------------------------------------------------------------- */

/* The current token is prefix + decimal digits, as %u prints them. */
static bool is_label(const struct irlex *lex, const char *prefix, uint64_t *number) {
    size_t n = strlen(prefix), bytes = lex->end - lex->begin;
    const char *word = lex->text + lex->begin;
    if (lex->token != IR_WORD || bytes <= n || bytes > n + 9 || memcmp(word, prefix, n) != 0)
        return false;
    *number = 0;
    for (size_t i = n; i < bytes; i++) {
        if (word[i] < '0' || word[i] > '9' || (word[i] == '0' && i == n && bytes > n + 1))
            return false;
        *number = *number * 10 + (uint64_t)(word[i] - '0');
    }
    return true;
}

/* `p0[1]` is a chunk, whatever its buffer is called. */
static bool is_chunk(const struct irlex *lex) {
    struct irlex ahead = *lex;
    irlex_next(&ahead);
    return lex->token == IR_WORD && irlex_is(&ahead, "[");
}

/* Labels count from 0. */
static bool expect_label(struct reader *r, const char *prefix, uint64_t wanted) {
    uint64_t number;
    if (is_label(r->lex, prefix, &number) && number == wanted) {
        irlex_next(r->lex);
        return true;
    }
    if (!irlex_failed(r->lex))
        irlex_unexpected(r->lex, arena_printf(r->lex->arena, "'%s%" PRIu64 "'", prefix, wanted));
    return false;
}

static bool read_u32(struct reader *r, uint64_t max, const char *what, uint32_t *out) {
    uint64_t n;
    if (!irlex_number(r->lex, max, what, &n))
        return false;
    *out = (uint32_t)n;
    return true;
}

static bool read_slice(struct reader *r, uint16_t *slice) {
    uint32_t n;
    if (!read_u32(r, r->t->slices - 1, "a slice", &n))
        return false;
    *slice = (uint16_t)n;
    return true;
}

/* ---- what a rank has ---------------------------------------------------------------------- */

/* rank 2 accs 1 arena 4096 unshared 8192 scratch 512 */
static bool read_rank_line(struct reader *r) {
    struct irlex *lex = r->lex;
    struct span at = irlex_span(lex);
    int32_t before = r->rank;
    if (!irlex_int(lex, r->f->setup.ranks - 1, "a rank", &r->rank))
        return false;
    if (r->rank <= before) {
        irlex_error(lex, at, "rank %" PRId32 " stands after rank %" PRId32, r->rank, before);
        return false;
    }
    r->tasks = &r->t->ranks.data[r->rank];
    r->tasks->first_acc = (uint32_t)r->t->acc_offsets.count;
    r->first_piece = (uint32_t)r->t->pieces.count;
    if (irlex_accept(lex, "accs") && !read_u32(r, MAX_INDEX, "accumulators", &r->tasks->accs))
        return false;
    if (r->placed)
        (void)(irlex_expect(lex, "arena") &&
               irlex_number(lex, MAX_BYTES, "bytes", &r->tasks->arena_bytes) &&
               irlex_expect(lex, "unshared") &&
               irlex_number(lex, MAX_BYTES, "bytes", &r->tasks->unshared_bytes) &&
               irlex_expect(lex, "scratch") &&
               irlex_number(lex, MAX_BYTES, "bytes", &r->tasks->chunk_bytes));
    return irlex_expect_line_end(lex);
}

/* tmp[0] chunks 4 elems 48 64 at 512 */
static bool read_scratch(struct reader *r) {
    struct irlex *lex = r->lex;
    struct tasks *t = r->t;
    struct span at = irlex_span(lex);
    loc_id loc;
    int32_t chunk;
    if (!flow_parse_chunk(lex, r->f, r->rank, &loc))
        return false;
    const struct flow_buffer *b = flow_buffer_of(r->f, loc, NULL, &chunk);
    if (b->role != ROLE_SCRATCH) {
        irlex_error(lex, at, "'%s' is no scratch buffer: its sizes are known", b->name);
        return false;
    }
    uint32_t chunks = 1, size = NONE;
    if (irlex_accept(lex, "chunks") &&
        !read_u32(r, (uint64_t)(b->chunks - chunk), "the number of chunks", &chunks))
        return false;
    (void)irlex_expect(lex, "elems");
    do {
        uint64_t elems;
        if (!irlex_number(lex, CODEC_MAX_ELEMS, "elements", &elems))
            return false;
        if (!tasks_size_with(t, &size, elems)) {
            irlex_error(lex, at, "too many different sizes of chunks");
            return false;
        }
    } while (lex->token == IR_NUMBER);
    for (uint32_t i = 0; i < chunks; i++) {
        if (t->loc_size.data[loc + i] != NONE) {
            irlex_error(lex, at, "%s has a size already", flow_loc_name(lex->arena, r->f, loc + i));
            return false;
        }
        t->loc_size.data[loc + i] = size;
    }
    if (r->placed && chunks == 1 && irlex_accept(lex, "at") &&
        !irlex_number(lex, MAX_BYTES, "an offset", &t->chunk_offsets.data[loc]))
        return false;
    return irlex_expect_line_end(lex);
}

/* acc0 at 1024 */
static bool read_accs(struct reader *r) {
    for (uint32_t i = 0; r->placed && i < r->tasks->accs && irlex_line(r->lex); i++) {
        uint64_t offset;
        if (!expect_label(r, "acc", i) || !irlex_expect(r->lex, "at") ||
            !irlex_number(r->lex, MAX_BYTES, "an offset", &offset))
            return false;
        VEC_PUSH(&r->t->acc_offsets, offset);
        if (!irlex_expect_line_end(r->lex))
            return false;
    }
    return true;
}

/* p0 cast(bf16) | pack(0.72) encoding 7 slice 1 elems 64 bytes 192 at 256 */
static bool read_piece(struct reader *r) {
    struct irlex *lex = r->lex;
    struct piece p = {.encoding = NONE, .rank = r->rank};
    char why[256];
    if (!expect_label(r, "p", r->t->pieces.count - r->first_piece))
        return false;
    struct span at = irlex_span(lex);
    if (!flow_parse_codec(lex, r->f, &p.codec))
        return false;
    if (!codec_check(&r->f->codecs.data[p.codec], r->f->setup.dtype, why, sizeof why)) {
        irlex_error(lex, at, "%s", why);
        return false;
    }
    if (irlex_accept(lex, "encoding") && !read_u32(r, MAX_INDEX, "an encoding", &p.encoding))
        return false;
    if (irlex_accept(lex, "slice") && !read_slice(r, &p.slice))
        return false;
    if (!irlex_expect(lex, "elems") || !irlex_number(lex, CODEC_MAX_ELEMS, "elements", &p.elems))
        return false;
    if (r->t->slice_unit &&
        (!irlex_expect(lex, "bytes") || !irlex_number(lex, MAX_BYTES, "bytes", &p.bytes)))
        return false;
    if (r->placed &&
        (!irlex_expect(lex, "at") || !irlex_number(lex, MAX_BYTES, "an offset", &p.offset)))
        return false;
    VEC_PUSH(&r->t->pieces, p);
    return irlex_expect_line_end(lex);
}

/* ---- tasks -------------------------------------------------------------------------------- */

static bool read_piece_ref(struct reader *r, uint32_t *piece) {
    uint64_t number;
    if (!is_label(r->lex, "p", &number)) {
        irlex_unexpected(r->lex, "a piece");
        return false;
    }
    if (number >= r->t->pieces.count - r->first_piece) {
        irlex_error(r->lex, irlex_span(r->lex), "rank %" PRId32 " has no piece p%" PRIu64, r->rank,
                    number);
        return false;
    }
    *piece = r->first_piece + (uint32_t)number;
    irlex_next(r->lex);
    return true;
}

static bool read_operand(struct reader *r, struct operand *o) {
    struct irlex *lex = r->lex;
    struct span at = irlex_span(lex);
    uint64_t number;
    if (is_chunk(lex)) {
        o->kind = OPERAND_CHUNK;
        if (!flow_parse_chunk(lex, r->f, r->rank, &o->index))
            return false;
        if (r->t->loc_size.data[o->index] == NONE) {
            irlex_error(lex, at,
                        "the size of %s is not given ('scratch ... elems ...' before the tasks)",
                        flow_loc_name(lex->arena, r->f, o->index));
            return false;
        }
        return true;
    }
    if (!is_label(lex, "acc", &number)) {
        o->kind = OPERAND_PIECE;
        return read_piece_ref(r, &o->index);
    }
    if (number >= r->tasks->accs) {
        irlex_error(lex, at, "rank %" PRId32 " has no acc%" PRIu64 ": it says 'accs %" PRIu32 "'",
                    r->rank, number, r->tasks->accs);
        return false;
    }
    *o = (struct operand){OPERAND_ACC, (uint32_t)number};
    irlex_next(lex);
    return true;
}

static bool push_operand(struct reader *r, struct task *k, struct operand o) {
    VEC_PUSH(&r->t->operands, o);
    k->operands++;
    return true;
}

static bool read_outs(struct reader *r, struct task *k) {
    uint32_t piece;
    uint64_t number;
    do {
        if (!read_piece_ref(r, &piece))
            return false;
        VEC_PUSH(&r->t->outs, piece);
        k->outs++;
    } while (is_label(r->lex, "p", &number));
    return true;
}

/* data[1] = (data[1] + p3) / 4 -> p4 p5 */
static bool read_compute(struct reader *r, struct task *k) {
    struct irlex *lex = r->lex;
    struct operand o;
    bool grouped = irlex_accept(lex, "(");
    if (!read_operand(r, &o))
        return false;
    if (!grouped && o.kind != OPERAND_PIECE && irlex_accept(lex, "=")) {
        k->store = o;
        grouped = irlex_accept(lex, "(");
        if (!read_operand(r, &o))
            return false;
    }
    (void)push_operand(r, k, o);
    while (irlex_accept(lex, "+") && read_operand(r, &o))
        (void)push_operand(r, k, o);
    if (grouped && (!irlex_expect(lex, ")") || !irlex_is(lex, "/"))) {
        irlex_unexpected(lex, "'/'");
        return false;
    }
    if (irlex_is(lex, "/") && k->operands > 1 && !grouped) {
        irlex_unexpected(lex, "a sum in parentheses before '/'");
        return false;
    }
    if (irlex_accept(lex, "/")) {
        k->divide = true;
        if (!read_u32(r, UINT32_MAX, "a divisor", &k->divisor))
            return false;
    }
    if (irlex_accept(lex, "->") && !read_outs(r, k))
        return false;
    return !irlex_failed(lex);
}

/* send m0 p0 p1 to 1     recv m0 p0 p1 from 0 */
static bool read_message(struct reader *r, struct task *k, struct span at) {
    struct irlex *lex = r->lex;
    bool sends = k->kind == TASK_SEND;
    uint64_t number;
    struct message_end end = {.task = (uint32_t)r->t->tasks.count, .rank = r->rank, .at = at};
    if (!is_label(lex, "m", &number)) {
        irlex_unexpected(lex, "a message");
        return false;
    }
    end.message = k->message = (uint32_t)number;
    irlex_next(lex);
    if (!sends && !read_outs(r, k))
        return false;
    if (sends) {
        do {
            struct operand o = {.kind = OPERAND_PIECE};
            if (!read_piece_ref(r, &o.index))
                return false;
            (void)push_operand(r, k, o);
        } while (is_label(lex, "p", &number));
    }
    if (!irlex_expect(lex, sends ? "to" : "from"))
        return false;
    struct span peer_at = irlex_span(lex);
    if (!irlex_int(lex, r->f->setup.ranks - 1, "a rank", &end.peer))
        return false;
    if (end.peer == r->rank)
        irlex_error(lex, peer_at, "rank %" PRId32 " sends a message to itself", r->rank);
    VEC_PUSH(&r->ends, end);
    return !irlex_failed(lex);
}

/* slice 1 stage gather op 7 comm 1 round 3 index 0 tick 5 lane 2 after t1 t2 */
static bool read_attributes(struct reader *r, struct task *k) {
    struct irlex *lex = r->lex;
    bool message = k->kind != TASK_COMPUTE, ok = true;
    uint32_t n;
    if (irlex_accept(lex, "slice"))
        ok = read_slice(r, &k->slice);
    if (ok && irlex_accept(lex, "stage"))
        ok = flow_parse_stage(lex, r->f, &k->stage);
    if (ok && irlex_accept(lex, "op"))
        ok = read_u32(r, MAX_INDEX, "an operation", &k->op);
    if (ok && message && irlex_accept(lex, "comm")) {
        ok = read_u32(r, r->t->comms ? r->t->comms - 1 : 0, "a communicator", &n);
        k->comm = ok ? (uint8_t)n : 0;
    }
    if (ok && message && r->t->rounds[k->comm] && irlex_accept(lex, "round")) {
        ok = read_u32(r, r->t->rounds[k->comm] - 1, "a round", &k->round);
        k->index = 0;
        if (ok && irlex_accept(lex, "index"))
            ok = read_u32(r, MAX_INDEX, "an index", &k->index);
    }
    if (ok && irlex_accept(lex, "tick"))
        ok = read_u32(r, MAX_INDEX, "a tick", &k->tick);
    if (ok && r->t->lanes && irlex_expect(lex, "lane")) {
        ok = read_u32(r, r->t->lanes - 1, "a lane", &n);
        k->lane = ok ? (uint8_t)n : 0;
    }
    return ok && !irlex_failed(lex);
}

static bool read_deps(struct reader *r, struct task *k, uint32_t self) {
    uint64_t number;
    if (!irlex_accept(r->lex, "after"))
        return true;
    do {
        if (!is_label(r->lex, "t", &number)) {
            irlex_unexpected(r->lex, "a task");
            return false;
        }
        if (number >= self) {
            irlex_error(r->lex, irlex_span(r->lex),
                        "t%" PRIu32 " can wait only for tasks before it in the list", self);
            return false;
        }
        irlex_next(r->lex);
        VEC_PUSH(&r->t->deps, r->tasks->first + (uint32_t)number);
        k->deps++;
    } while (!irlex_at_line_end(r->lex));
    return true;
}

static bool read_task(struct reader *r) {
    struct irlex *lex = r->lex;
    struct tasks *t = r->t;
    struct span at = irlex_span(lex);
    struct task k = {.store.index = NONE,
                     .message = NONE,
                     .round = NONE,
                     .index = NONE,
                     .tick = NONE,
                     .op = NONE,
                     .at = at.begin,
                     .first_operand = (uint32_t)t->operands.count,
                     .first_out = (uint32_t)t->outs.count,
                     .first_dep = (uint32_t)t->deps.count};
    if (!expect_label(r, "t", r->tasks->n))
        return false;
    const char *name = NULL;
    struct span name_at = irlex_span(lex);
    if (irlex_accept(lex, "send"))
        k.kind = TASK_SEND;
    else if (irlex_accept(lex, "recv"))
        k.kind = TASK_RECV;
    else
        name = irlex_word(lex, "the name of a task");
    if (irlex_failed(lex) || (name ? !read_compute(r, &k) : !read_message(r, &k, at)))
        return false;
    if (name && strcmp(name, task_op_name(task_op_of(t, &k))) != 0) {
        irlex_error(lex, name_at, "this is a '%s' by its operands and pieces, not a '%s'",
                    task_op_name(task_op_of(t, &k)), name);
        return false;
    }
    if (!read_attributes(r, &k) || !read_deps(r, &k, r->tasks->n) || !irlex_expect_line_end(lex))
        return false;
    VEC_PUSH(&t->tasks, k);
    r->tasks->n++;
    return true;
}

/* ---- what must hold of a rank ------------------------------------------------------------- */

static void task_error(struct reader *r, const struct task *k, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void task_error(struct reader *r, const struct task *k, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(r->lex->arena, format, args);
    va_end(args);
    irlex_error(r->lex, flow_statement_span(r->f, k->at), "%s", text);
}

static void check_operand(struct reader *r, uint32_t task, const struct task *k, struct operand o) {
    uint32_t piece = o.index - r->first_piece;
    switch (o.kind) {
    case OPERAND_CHUNK:
        break;
    case OPERAND_ACC:
        if (!r->accs.data[o.index].stored)
            task_error(r, k, "t%" PRIu32 " reads acc%" PRIu32 ", and nothing is in it yet", task,
                       o.index);
        else if (r->accs.data[o.index].slice != k->slice)
            task_error(r, k, "t%" PRIu32 " reads acc%" PRIu32 " of another slice", task, o.index);
        break;
    case OPERAND_PIECE:
        if (!r->filled.data[piece])
            task_error(r, k, "t%" PRIu32 " reads p%" PRIu32 ", and nothing is in it yet", task,
                       piece);
        else if (r->t->pieces.data[o.index].slice != k->slice)
            task_error(r, k, "t%" PRIu32 " reads p%" PRIu32 " of another slice", task, piece);
        break;
    }
}

static void check_out(struct reader *r, uint32_t task, const struct task *k, uint32_t out) {
    uint32_t piece = out - r->first_piece;
    if (r->t->pieces.data[out].slice != k->slice)
        task_error(r, k, "t%" PRIu32 " fills p%" PRIu32 " of another slice", task, piece);
    else if (r->filled.data[piece])
        task_error(r, k, "t%" PRIu32 " fills p%" PRIu32 " a second time", task, piece);
    r->filled.data[piece] = 1;
}

static void check_compute(struct reader *r, uint32_t task, const struct task *k) {
    struct operand first = r->t->operands.data[k->first_operand];
    bool sum = k->operands > 1;
    if (k->store.index == NONE && !k->outs)
        task_error(r, k, "t%" PRIu32 " stores nothing and encodes nothing", task);
    else if (k->divide && !sum && first.kind != OPERAND_ACC)
        task_error(r, k, "t%" PRIu32 " divides what is no sum", task);
    else if (k->divide && !k->divisor)
        task_error(r, k, "t%" PRIu32 " divides by 0", task);
    if (k->store.index == NONE || k->store.kind != OPERAND_ACC)
        return;
    if (!sum || k->outs || k->divide)
        task_error(r, k,
                   "t%" PRIu32
                   ": an accumulator takes an undivided sum, and nothing is encoded from it",
                   task);
    struct accumulator *acc = &r->accs.data[k->store.index];
    if (acc->stored && acc->slice != k->slice)
        task_error(r, k, "t%" PRIu32 " stores acc%" PRIu32 " of another slice", task,
                   k->store.index);
    *acc = (struct accumulator){true, k->slice};
}

static bool check_rank(struct reader *r) {
    struct tasks *t = r->t;
    if (r->rank < 0 || irlex_failed(r->lex))
        return !irlex_failed(r->lex);
    struct span here = irlex_span(r->lex);
    if (r->tasks->accs > r->tasks->n)
        irlex_error(r->lex, here, "rank %" PRId32 " has more accumulators than tasks", r->rank);
    if (irlex_failed(r->lex))
        return false;
    VEC_CLEAR(&r->filled);
    VEC_CLEAR(&r->accs);
    (void)VEC_ADD_N(&r->filled, t->pieces.count - r->first_piece);
    (void)VEC_ADD_N(&r->accs, r->tasks->accs);
    for (uint32_t i = 0; i < r->tasks->n && !irlex_failed(r->lex); i++) {
        const struct task *k = &t->tasks.data[r->tasks->first + i];
        for (uint32_t o = 0; o < k->operands; o++)
            check_operand(r, i, k, t->operands.data[k->first_operand + o]);
        for (uint32_t o = 0; o < k->outs; o++)
            check_out(r, i, k, t->outs.data[k->first_out + o]);
        if (k->kind == TASK_COMPUTE)
            check_compute(r, i, k);
    }
    for (uint32_t p = 0; p < r->filled.count; p++)
        if (!r->filled.data[p])
            irlex_error(r->lex, here, "no task of rank %" PRId32 " fills p%" PRIu32, r->rank, p);
    return !irlex_failed(r->lex);
}

static bool read_rank(struct reader *r) {
    struct irlex *lex = r->lex;
    uint64_t number;
    if (!read_rank_line(r))
        return false;
    while (irlex_line(lex) && irlex_accept(lex, "scratch"))
        if (!read_scratch(r))
            return false;
    if (!read_accs(r))
        return false;
    while (irlex_line(lex) && is_label(lex, "p", &number))
        if (!read_piece(r))
            return false;
    r->tasks->first = (uint32_t)r->t->tasks.count;
    while (irlex_line(lex) && is_label(lex, "t", &number))
        if (!read_task(r))
            return false;
    return check_rank(r);
}

/* ---- messages ----------------------------------------------------------------------------- */

static bool set_send(struct reader *r, const struct message_end *end) {
    struct tasks *t = r->t;
    struct message *m = &t->messages.data[end->message];
    const struct task *k = &t->tasks.data[end->task];
    if (m->send != NONE) {
        irlex_error(r->lex, end->at, "m%" PRIu32 " is sent twice", end->message);
        return false;
    }
    *m = (struct message){.src = end->rank,
                          .dst = end->peer,
                          .stage = k->stage,
                          .comm = k->comm,
                          .slice = k->slice,
                          .round = k->round,
                          .index = k->index,
                          .send = end->task,
                          .recv = NONE};
    m->codec = t->pieces.data[t->operands.data[k->first_operand].index].codec;
    for (uint32_t i = 0; i < k->operands; i++)
        m->bytes += t->pieces.data[t->operands.data[k->first_operand + i].index].bytes;
    return true;
}

static bool set_recv(struct reader *r, const struct message_end *end) {
    struct message *m = &r->t->messages.data[end->message];
    if (m->recv != NONE)
        irlex_error(r->lex, end->at, "m%" PRIu32 " is received twice", end->message);
    else if (m->dst != end->rank || m->src != end->peer)
        irlex_error(r->lex, end->at,
                    "m%" PRIu32 " goes from rank %" PRId32 " to rank %" PRId32
                    ", and here rank %" PRId32 " receives it from rank %" PRId32,
                    end->message, m->src, m->dst, end->rank, end->peer);
    m->recv = end->task;
    return !irlex_failed(r->lex);
}

/* Both ends of every message are there and agree on who talks to whom. */
static bool match_messages(struct reader *r) {
    struct tasks *t = r->t;
    uint32_t sends = 0;
    for (size_t i = 0; i < r->ends.count; i++)
        sends += t->tasks.data[r->ends.data[i].task].kind == TASK_SEND;
    struct message *m = VEC_ADD_N(&t->messages, sends);
    for (uint32_t i = 0; i < sends; i++)
        m[i].send = NONE;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < r->ends.count; i++) {
            const struct message_end *end = &r->ends.data[i];
            if ((t->tasks.data[end->task].kind == TASK_RECV) != pass)
                continue;
            if (end->message >= sends) {
                irlex_error(r->lex, end->at,
                            "m%" PRIu32 ": %" PRIu32 " messages are sent, m0 is the first",
                            end->message, sends);
                return false;
            }
            if (pass ? !set_recv(r, end) : !set_send(r, end))
                return false;
        }
    }
    for (size_t i = 0; i < r->ends.count; i++) {
        const struct message_end *end = &r->ends.data[i];
        if (t->messages.data[end->message].recv == NONE)
            irlex_error(r->lex, end->at, "nobody receives m%" PRIu32, end->message);
    }
    if (t->rounds[0] > sends || t->rounds[1] > sends)
        irlex_error(r->lex, irlex_span(r->lex), "more rounds than messages");
    return !irlex_failed(r->lex);
}

/* ---- the whole text ----------------------------------------------------------------------- */

static bool read_sliced(struct reader *r) {
    uint32_t unit;
    if (!read_u32(r, SETUP_MAX_SLICES, "the number of slices", &r->t->slices) ||
        !irlex_expect(r->lex, "unit") || !read_u32(r, MAX_INDEX, "the unit of slices", &unit))
        return false;
    if (!r->t->slices || !unit)
        irlex_error(r->lex, irlex_span(r->lex), "slices and their unit are at least 1");
    r->t->slice_unit = unit;
    return irlex_expect_line_end(r->lex);
}

/* What passes before have decided: each line stands there once its pass has run. */
static bool read_header(struct reader *r) {
    struct irlex *lex = r->lex;
    struct tasks *t = r->t;
    bool ok = flow_parse_header(lex, r->f);
    if (!ok || irlex_failed(lex))
        return false;
    if (irlex_line(lex) && irlex_accept(lex, "sliced"))
        ok = read_sliced(r);
    if (ok && irlex_line(lex) && irlex_accept(lex, "comms"))
        ok = read_u32(r, 2, "the number of communicators", &t->comms) && irlex_expect_line_end(lex);
    if (ok && irlex_line(lex) && irlex_accept(lex, "rounds"))
        ok = read_u32(r, MAX_INDEX, "the number of rounds", &t->rounds[0]) &&
             read_u32(r, MAX_INDEX, "the number of rounds", &t->rounds[1]) &&
             irlex_expect_line_end(lex);
    if (ok && irlex_line(lex) && irlex_accept(lex, "lanes"))
        ok = read_u32(r, MAX_LANES, "the number of lanes", &t->lanes) && irlex_expect_line_end(lex);
    if (ok && irlex_line(lex) && irlex_accept(lex, "placed")) {
        r->placed = true;
        ok = irlex_expect_line_end(lex);
    }
    if (ok && irlex_line(lex) && irlex_is(lex, "only"))
        irlex_error(lex, irlex_span(lex),
                    "these are the tasks of one rank only, printed to be looked at");
    return ok && !irlex_failed(lex);
}

static bool read_text(struct reader *r) {
    struct irlex *lex = r->lex;
    struct tasks *t = r->t;
    if (!irlex_line(lex) || !irlex_expect(lex, "tasks"))
        return false;
    r->f->name = irlex_word(lex, "the name of a schedule");
    if (!r->f->name || !irlex_expect_line_end(lex) || !read_header(r))
        return false;
    if (r->f->locs > MAX_LOCS) {
        irlex_error(lex, irlex_span(lex), "more than %d chunks on all ranks together", MAX_LOCS);
        return false;
    }
    (void)VEC_ADD_N(&t->ranks, (size_t)r->f->setup.ranks);
    if (!tasks_size_inputs(t)) {
        irlex_error(lex, irlex_span(lex), "too many different sizes of chunks");
        return false;
    }
    for (uint32_t i = 0; r->placed && i < r->f->locs; i++)
        VEC_PUSH(&t->chunk_offsets, UINT64_MAX);
    while (irlex_line(lex) && irlex_expect(lex, "rank"))
        if (!read_rank(r))
            return false;
    for (uint32_t i = 0, first = 0; i < t->ranks.count; i++) { /* ranks that the text leaves out */
        if (!t->ranks.data[i].n)
            t->ranks.data[i].first = first;
        first = t->ranks.data[i].first + t->ranks.data[i].n;
    }
    tasks_cut_sizes(t);
    return !irlex_failed(lex) && match_messages(r);
}

struct tasks *tasks_parse(struct arena *a, struct sources *s, struct diag *d, const char *name,
                          const char *text, size_t bytes) {
    struct irlex lex;
    struct flow *f = arena_alloc(a, sizeof *f);
    struct tasks *t = arena_alloc(a, sizeof *t);
    struct reader r = {.lex = &lex, .f = f, .t = t, .rank = -1};
    f->sources = s;
    t->flow = f;
    t->slices = 1;
    VEC_RESERVE(&t->tasks, 1); /* passes may point into these, even if to nothing */
    VEC_RESERVE(&t->pieces, 1);
    VEC_RESERVE(&t->messages, 1);
    VEC_RESERVE(&t->operands, 1);
    VEC_RESERVE(&t->outs, 1);
    VEC_RESERVE(&t->deps, 1);
    bool ok = irlex_start(&lex, a, s, d, name, text, bytes) && read_text(&r) && !lex.failed;
    VEC_FREE(&r.filled);
    VEC_FREE(&r.accs);
    VEC_FREE(&r.ends);
    if (ok)
        return t;
    tasks_free(t);
    flow_free(f);
    return NULL;
}
