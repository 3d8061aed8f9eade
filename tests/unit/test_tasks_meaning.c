/* Random programs through lower, fuse, slice and the passes after them: after each, the tasks, run
 * one by one on symbolic values, leave in every chunk that counts the value that the flow leaves
 * there. Values are hash-consed, so equal numbers mean equal bits: one rounding more or less, one
 * operand out of place, a second encoding, would be another number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compiler/ir.h"

#include <stdlib.h>

/* ---- random flows ------------------------------------------------------------------------- */

static uint32_t pick(uint64_t *seed, uint32_t n) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % n;
}

enum { MOST_RANKS = 4, MOST_CHUNKS = 3, BUFFERS = 3 };

/* Which chunks hold something, so that few of the operations are refused. */
struct world {
    uint64_t seed;
    uint32_t ranks, chunks;
    bool full[BUFFERS][MOST_CHUNKS][MOST_RANKS], steps_full[BUFFERS][MOST_CHUNKS][MOST_RANKS];
};
static const char *const buffer_name[BUFFERS] = {"data", "tmp", "far"};

static void print_operation(struct world *w, FILE *out, bool in_step) {
    static const char *const via[] = {"", "", " via pack", " via quant(8)", "", " via cast(f16)"};
    uint32_t sb = pick(&w->seed, BUFFERS), sc = pick(&w->seed, w->chunks);
    uint32_t db = pick(&w->seed, BUFFERS), dc = pick(&w->seed, w->chunks);
    uint32_t sr = pick(&w->seed, w->ranks), dr = pick(&w->seed, w->ranks);
    uint32_t count = pick(&w->seed, 4) ? 1 : 2;
    bool reduce = pick(&w->seed, 2);
    for (uint32_t i = 0; i < count; i++)
        if (sc + i >= w->chunks || dc + i >= w->chunks || !w->full[sb][sc + i][sr])
            return;
    if (sr == dr && sb == db && (reduce || sc != dc))
        return;
    fprintf(out, "%s %s[%u +: %u]@%u -> %s[%u +: %u]@%u%s in s%u\n", reduce ? "reduce" : "copy",
            buffer_name[sb], sc, count, sr, buffer_name[db], dc, count, dr,
            via[pick(&w->seed, sizeof via / sizeof *via)], pick(&w->seed, 2));
    for (uint32_t i = 0; i < count; i++)
        (in_step ? w->steps_full : w->full)[db][dc + i][dr] = true;
}

static char *random_flow(uint64_t seed, size_t *bytes) {
    struct world w = {.seed = seed * 7919 + 1};
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    w.ranks = 1 + pick(&w.seed, MOST_RANKS);
    w.chunks = 1 + pick(&w.seed, MOST_CHUNKS);
    static const char *const op[] = {"sum", "avg", "max"};
    fprintf(out, "flow random\nranks %u\ndtype bf16\nop %s\ncount %u\n", w.ranks,
            op[pick(&w.seed, 3)], pick(&w.seed, 3) ? pick(&w.seed, 9000) : pick(&w.seed, 200));
    fprintf(out, "collective allreduce on 0..%u\ninout data[%u] on 0..%u\n", w.ranks, w.chunks,
            w.ranks);
    for (int b = 1; b < BUFFERS; b++)
        fprintf(out, "scratch %s[%u] on 0..%u\n", buffer_name[b], w.chunks, w.ranks);
    if (pick(&w.seed, 2))
        fprintf(out, "ensure identical data[0]@0, far[0]@0\n");
    memset(w.full[0], 1, sizeof w.full[0]);
    for (uint32_t n = 4 + pick(&w.seed, 30); n > 0; n--) {
        if (pick(&w.seed, 4)) {
            print_operation(&w, out, false);
            continue;
        }
        memcpy(w.steps_full, w.full, sizeof w.full);
        fprintf(out, "step {\n");
        for (uint32_t k = 1 + pick(&w.seed, 5); k > 0; k--)
            print_operation(&w, out, true);
        fprintf(out, "}\n");
        memcpy(w.full, w.steps_full, sizeof w.full);
    }
    fclose(out);
    return text;
}

/* ---- running tasks on values -------------------------------------------------------------- */

struct machine {
    struct compilation *c;
    const struct tasks *t;
    uint32_t *chunk;    /* [locs * slices] value, NONE: empty */
    uint32_t *piece;    /* [pieces] value that decoding gives, NONE: empty */
    uint32_t **acc;     /* [rank] -> [accs]: index of a sum; NONE: empty */
    VEC(uint32_t) sums; /* n, then n operands */
    uint32_t *sent;     /* [messages] 1: the send has run */
    uint64_t *class_elems;
};

static uint64_t value_elems(const struct machine *m, uint32_t value, uint32_t slice) {
    uint64_t elems = m->class_elems[value_get(m->c->values, value)->size];
    return tasks_slice_start(elems, m->t->slice_unit, m->t->slices, slice + 1) -
           tasks_slice_start(elems, m->t->slice_unit, m->t->slices, slice);
}

static void gather(struct machine *m, int32_t rank, const struct task *k, struct operand o,
                   uint32_t *list, uint32_t *n) {
    switch (o.kind) {
    case OPERAND_CHUNK:
        list[(*n)++] = m->chunk[(size_t)o.index * m->t->slices + k->slice];
        break;
    case OPERAND_PIECE:
        assert_int_equal(m->t->pieces.data[o.index].rank, rank);
        list[(*n)++] = m->piece[o.index];
        break;
    case OPERAND_ACC: {
        assert_true(o.index < m->t->ranks.data[rank].accs);
        assert_int_not_equal(m->acc[rank][o.index], NONE);
        const uint32_t *sum = m->sums.data + m->acc[rank][o.index];
        memcpy(list + *n, sum + 1, *sum * sizeof *list);
        *n += *sum;
        break;
    }
    }
    for (uint32_t i = 0; i < *n; i++)
        assert_int_not_equal(list[i], NONE);
}

static void compute(struct machine *m, int32_t rank, const struct task *k) {
    const struct tasks *t = m->t;
    const struct flow *f = t->flow;
    uint32_t list[4096], n = 0;
    for (uint32_t i = 0; i < k->operands; i++)
        gather(m, rank, k, t->operands.data[k->first_operand + i], list, &n);
    uint64_t elems = value_elems(m, list[0], k->slice);
    if (elems || t->slice_unit) /* rooms of scratch may be larger than what is in them */
        assert_true(tasks_elems(t, k) >= elems);
    if (k->store.index != NONE && k->store.kind == OPERAND_ACC) {
        assert_true(k->outs == 0 && !k->divide && n > 1);
        m->acc[rank][k->store.index] = (uint32_t)m->sums.count;
        VEC_PUSH(&m->sums, n);
        for (uint32_t i = 0; i < n; i++)
            VEC_PUSH(&m->sums, list[i]);
        return;
    }
    uint32_t value = n == 1 ? list[0] : value_sum(m->c->values, list, n);
    const struct value *v = value_get(m->c->values, value);
    assert_int_equal(k->divide, n > 1 && v->divided);
    if (k->divide)
        assert_int_equal(k->divisor, v->leaves);
    if (k->store.index != NONE) {
        m->chunk[(size_t)k->store.index * t->slices + k->slice] = value;
        assert_true(tasks_slice_elems(t, k->store.index, k->slice, NULL) >= elems);
    }
    for (uint32_t i = 0; i < k->outs; i++) {
        uint32_t out = t->outs.data[k->first_out + i];
        const struct piece *p = &t->pieces.data[out];
        assert_int_equal(m->piece[out], NONE);
        assert_int_equal(p->slice, k->slice);
        assert_int_equal(p->elems, elems);
        bool exact = codec_is_lossless(&f->codecs.data[p->codec], f->setup.dtype);
        m->piece[out] = exact ? value : value_coded(m->c->values, p->codec, value, rank);
    }
}

static void receive(struct machine *m, const struct task *k) {
    const struct tasks *t = m->t;
    const struct task *send = &t->tasks.data[t->messages.data[k->message].send];
    assert_int_equal(send->operands, k->outs);
    for (uint32_t i = 0; i < k->outs; i++) {
        uint32_t from = t->operands.data[send->first_operand + i].index;
        uint32_t to = t->outs.data[k->first_out + i];
        const struct piece *a = &t->pieces.data[from], *b = &t->pieces.data[to];
        assert_true(a->encoding == b->encoding && a->codec == b->codec && a->slice == b->slice);
        assert_true(a->elems == b->elems && a->bytes == b->bytes);
        assert_int_equal(m->piece[to], NONE);
        m->piece[to] = m->piece[from];
    }
}

/* Goes on with every rank until a receive has nothing to take. */
static void run_tasks(struct machine *m) {
    const struct tasks *t = m->t;
    uint32_t *next = calloc(t->ranks.count, sizeof *next);
    uint32_t left = (uint32_t)t->tasks.count;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t r = 0; r < t->ranks.count; r++) {
            while (next[r] < t->ranks.data[r].n) {
                const struct task *k = &t->tasks.data[t->ranks.data[r].first + next[r]];
                if (k->kind == TASK_RECV && !m->sent[k->message])
                    break;
                if (k->kind == TASK_COMPUTE)
                    compute(m, (int32_t)r, k);
                else if (k->kind == TASK_RECV)
                    receive(m, k);
                else
                    m->sent[k->message]++;
                next[r]++;
                left--;
                moved = true;
            }
        }
    }
    assert_int_equal(left, 0);
    free(next);
}

static void check_tasks(struct compilation *c) {
    const struct tasks *t = c->tasks;
    const struct flow *f = t->flow;
    struct machine m = {.c = c, .t = t};
    size_t cells = (size_t)f->locs * t->slices;
    m.chunk = index_array_new(cells, NULL);
    m.piece = index_array_new(t->pieces.count, NULL);
    m.acc = calloc(t->ranks.count, sizeof *m.acc);
    m.sent = calloc(t->messages.count + 1, sizeof *m.sent);
    for (size_t r = 0; r < t->ranks.count; r++)
        m.acc[r] = index_array_new(t->ranks.data[r].accs, NULL);
    const struct flow_buffer *data = &f->buffers.data[0];
    m.class_elems = calloc((size_t)data->chunks, sizeof *m.class_elems);
    for (uint32_t i = 0; i < (uint32_t)data->chunks; i++)
        m.class_elems[flow_size_class(f, i)] = flow_input_elems(f, i);
    for (uint32_t i = 0; i < (uint32_t)data->chunks * (uint32_t)data->members; i++)
        for (uint32_t s = 0; s < t->slices; s++)
            m.chunk[i * t->slices + s] = value_input(c->values, i);
    run_tasks(&m);
    uint8_t *final = malloc(f->locs);
    tasks_mark_finals(t, final);
    for (uint32_t i = 0; i < f->locs; i++)
        for (uint32_t s = 0; s < t->slices; s++)
            if (final[i] && c->trace.final[i] != NONE && value_elems(&m, c->trace.final[i], s))
                assert_int_equal(m.chunk[i * t->slices + s], c->trace.final[i]);
    for (size_t r = 0; r < t->ranks.count; r++)
        index_array_free(m.acc[r], t->ranks.data[r].accs, NULL);
    index_array_free(m.chunk, cells, NULL);
    index_array_free(m.piece, t->pieces.count, NULL);
    VEC_FREE(&m.sums);
    free(m.acc);
    free(m.sent);
    free(m.class_elems);
    free(final);
}

/* ---- text --------------------------------------------------------------------------------- */

static char *printed(const struct tasks *t, size_t *bytes) {
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    tasks_print(t, -1, out);
    fclose(out);
    return text;
}

static void check_round_trip(struct compilation *c) {
    size_t bytes, again_bytes;
    char *text = printed(c->tasks, &bytes);
    struct tasks *again = tasks_parse(c->arena, c->sources, c->diag, "printed", text, bytes);
    if (!again)
        diag_print(c->diag, stderr, false);
    assert_non_null(again);
    char *again_text = printed(again, &again_bytes);
    assert_string_equal(text, again_text);
    free(text);
    free(again_text);
    flow_free((struct flow *)again->flow);
    tasks_free(again);
}

/* ---- the tests ---------------------------------------------------------------------------- */

/* Some of the sums that are stored somewhere complete the collective's result. */
static void mark_divided(struct compilation *c, uint64_t seed) {
    for (uint32_t i = 0; i < c->flow->locs && c->flow->setup.redop == REDOP_AVG; i++) {
        uint32_t value = c->trace.final[i];
        if (value != NONE && value_get(c->values, value)->kind == VALUE_SUM && pick(&seed, 2))
            value_set_divided(c->values, value);
    }
}

/* False: the program has no meaning and was refused. */
static bool try_program(uint64_t seed, size_t *fused_away) {
    struct compilation c = {.arena = arena_new(), .emit_rank = -1};
    c.sources = sources_new(c.arena);
    c.diag = diag_new(c.arena, c.sources);
    size_t bytes;
    char *text = random_flow(seed, &bytes);
    c.flow = flow_parse(c.arena, c.sources, c.diag, "random", text, bytes);
    if (!c.flow)
        diag_print(c.diag, stderr, false);
    assert_non_null(c.flow);
    c.setup = c.flow->setup;
    c.values = values_new(c.flow);
    bool ok = values_trace(c.values, c.flow, c.diag, &c.trace);
    if (ok) {
        mark_divided(&c, seed);
        assert_true(pass_forward(&c) && pass_lower(&c));
        check_tasks(&c);
        check_round_trip(&c);
        size_t before = c.tasks->tasks.count;
        assert_true(pass_fuse(&c));
        *fused_away += before - c.tasks->tasks.count;
        check_tasks(&c);
        check_round_trip(&c);
        c.setup.slices = (uint32_t)(seed % 4);
        assert_true(pass_slice(&c));
        check_tasks(&c);
        check_round_trip(&c);
        assert_true(pass_rounds(&c) && pass_lanes(&c) && pass_slots(&c));
        check_tasks(&c);
        check_round_trip(&c);
    }
    tasks_free(c.tasks);
    flow_trace_free(&c.trace, c.flow);
    values_free(c.values);
    flow_free(c.flow);
    arena_free(c.arena);
    free(text);
    return ok;
}

static void passes_keep_every_bit(void **state) {
    (void)state;
    uint32_t good = 0, all = 4000;
    size_t fused_away = 0;
    for (uint32_t seed = 0; seed < all; seed++)
        good += try_program(seed, &fused_away);
    assert_true(good > all / 4); /* or the generator has lost its way */
    assert_true(fused_away > good);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_every_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
