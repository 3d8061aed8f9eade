/*
 * test_executor_random.c: random schedules, run, and compared bit by bit with an interpreter of
 * the same statements that knows nothing of compilers: it goes through them in program order on
 * plain arrays.
 *
 * A long run: SLUICE_RANDOM_SEED=1000 SLUICE_RANDOM_COUNT=20000 test_executor_random
 */
#include "kernels/reduce.h"
#include "tests/unit/run_test.h"

#include <stdio.h>

#define ELEMS  1500
#define RANKS  4
#define SRC    2 /* chunks of each buffer */
#define OUT    3
#define TMP    2
#define CHUNKS (SRC + OUT + TMP)

/* ---- the interpreter ---- */

/* What a chunk holds: nothing, a value, or a sum that nobody has read yet. */
struct cell {
    enum { EMPTY, WHOLE, OPEN } state;
    float value[ELEMS];
};

struct machine {
    enum dtype dtype;
    enum redop redop;
    const char *tight;               /* text of TIGHT */
    struct cell cell[RANKS][CHUNKS]; /* src, out, tmp */
};

enum wire { RAW, PACK, TIGHT, CAST };

static float rounded(enum dtype t, float v) {
    return t == DTYPE_F16    ? half_to_float(half_from_float(v))
           : t == DTYPE_BF16 ? bfloat_to_float(bfloat_from_float(v))
                             : v;
}

static void complete(struct machine *m, struct cell *c) {
    for (int i = 0; i < ELEMS && c->state == OPEN; i++)
        c->value[i] = rounded(m->dtype, c->value[i]);
    if (c->state == OPEN)
        c->state = WHOLE;
}

static void read_cell(struct machine *m, struct cell *c, enum wire via, float out[ELEMS]) {
    complete(m, c);
    for (int i = 0; i < ELEMS; i++)
        out[i] = via == CAST ? rounded(m->dtype, bfloat_to_float(bfloat_from_float(c->value[i])))
                             : c->value[i];
}

static void write_cell(struct machine *m, struct cell *c, bool reduces, const float v[ELEMS]) {
    if (!reduces || c->state == EMPTY) {
        memcpy(c->value, v, sizeof c->value);
        c->state = WHOLE;
        return;
    }
    for (int i = 0; i < ELEMS; i++)
        c->value[i] =
            m->redop == REDOP_MAX ? (v[i] > c->value[i] ? v[i] : c->value[i]) : c->value[i] + v[i];
    c->state = OPEN;
}

/* ---- random statements ---- */

struct op {
    int from_rank, from, to_rank, to; /* chunks as in machine.cell */
    bool reduces;
    enum wire via;
};

static uint64_t next(uint64_t *state) {
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int below(uint64_t *state, int n) {
    return (int)(next(state) % (uint64_t)n);
}

static void print_chunk(FILE *out, int chunk, int rank) {
    if (chunk < SRC)
        fprintf(out, "src[%d]@%d", chunk, rank);
    else if (chunk < SRC + OUT)
        fprintf(out, "out[%d]@%d", chunk - SRC, rank);
    else
        fprintf(out, "tmp[%d]@%d", chunk - SRC - OUT, rank);
}

static void print_op(FILE *out, const struct machine *m, const struct op *o) {
    const char *const vias[] = {"none", "pack", m->tight, "cast(bf16)"};
    fprintf(out, "    %s ", o->reduces ? "reduce" : "copy");
    print_chunk(out, o->from, o->from_rank);
    fprintf(out, " -> ");
    print_chunk(out, o->to, o->to_rank);
    fprintf(out, " via %s;\n", vias[o->via]);
}

/* A statement that is legal now; of a step, one that does not meet what the step touched. */
static struct op pick(const struct machine *m, uint64_t *seed, bool lossy,
                      bool touched[RANKS][CHUNKS]) {
    for (;;) {
        struct op o = {.from_rank = below(seed, RANKS), .from = below(seed, CHUNKS)};
        o.to_rank = below(seed, RANKS);
        o.to = SRC + below(seed, CHUNKS - SRC);
        o.reduces = below(seed, 3) > 0;
        o.via = (enum wire)below(seed, lossy ? 4 : 3);
        bool same = o.from == o.to && o.from_rank == o.to_rank;
        if (same || m->cell[o.from_rank][o.from].state == EMPTY)
            continue;
        if (touched && (touched[o.from_rank][o.from] || touched[o.to_rank][o.to]))
            continue;
        return o;
    }
}

static void apply(struct machine *m, const struct op *ops, int n) {
    static float moved[8][ELEMS];
    for (int i = 0; i < n; i++)
        read_cell(m, &m->cell[ops[i].from_rank][ops[i].from], ops[i].via, moved[i]);
    for (int i = 0; i < n; i++)
        write_cell(m, &m->cell[ops[i].to_rank][ops[i].to], ops[i].reduces, moved[i]);
}

/* Writes a random schedule, running it on the machine on the way. */
static char *random_schedule(struct machine *m, uint64_t *seed, bool lossy) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "schedule random() {\n    input src[%d]; output out[%d]; scratch tmp[%d];\n", SRC,
            OUT, TMP);
    for (int n = 10 + below(seed, 40); n > 0; n--) {
        struct op ops[8];
        if (below(seed, 4) > 0) {
            ops[0] = pick(m, seed, lossy, NULL);
            print_op(out, m, &ops[0]);
            apply(m, ops, 1);
            continue;
        }
        bool touched[RANKS][CHUNKS] = {{false}};
        int size = 2 + below(seed, 3);
        fprintf(out, "    step {\n");
        for (int i = 0; i < size; i++) {
            ops[i] = pick(m, seed, lossy, touched);
            touched[ops[i].to_rank][ops[i].to] = true;
            print_op(out, m, &ops[i]);
        }
        fprintf(out, "    }\n");
        apply(m, ops, size);
    }
    fprintf(out, "    copy src[0]@0 -> out[0]@0;\n    ensure out[0]@0 == src[0]@0;\n}\n");
    struct op last = {.from = 0, .to = SRC};
    apply(m, &last, 1);
    for (int r = 0; r < RANKS; r++)
        for (int c = 0; c < CHUNKS; c++)
            complete(m, &m->cell[r][c]);
    fclose(out);
    return text;
}

/* ---- comparing ---- */

static float element(enum dtype t, const void *memory, size_t i) {
    uint16_t half;
    float f;
    if (t == DTYPE_F32)
        memcpy(&f, (const char *)memory + 4 * i, 4);
    else {
        memcpy(&half, (const char *)memory + 2 * i, 2);
        f = t == DTYPE_F16 ? half_to_float(half) : bfloat_to_float(half);
    }
    return f;
}

static void compare(const struct machine *m, const struct world *w, const char *text) {
    for (int r = 0; r < RANKS; r++)
        for (int c = 0; c < OUT; c++)
            for (int i = 0; i < ELEMS; i++) {
                const struct cell *want = &m->cell[r][SRC + c];
                size_t at = (size_t)(c * ELEMS + i), bytes = dtype_bytes(m->dtype);
                bool right = want->state == EMPTY
                                 ? ((const uint8_t *)w->recv[r])[at * bytes] == 0xa5
                                 : element(m->dtype, w->recv[r], at) == want->value[i];
                if (!right) {
                    fprintf(stderr, "%s\nout[%d]@%d, element %d: %.9g, not %.9g\n", text, c, r, i,
                            (double)element(m->dtype, w->recv[r], at), (double)want->value[i]);
                    fail();
                }
            }
}

/* Whether the run overflowed on the way. */
static bool run_one(uint64_t seed) {
    static struct machine m;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    struct job j = {.ranks = RANKS, .count = ELEMS, .kind = INPUT_UNIFORM, .seed = seed};
    uint64_t state = seed;
    memset(&m, 0, sizeof m);
    m.dtype = j.dtype = types[seed % 3];
    m.redop = j.redop = seed % 5 ? REDOP_SUM : REDOP_MAX;
    m.tight = seed % 7 < 3 ? "pack(0.5)" : "pack(0.99)";
    j.slices = 1 + (uint32_t)(seed % 4);
    j.threads = 1 + (int)(seed % 3);
    for (int r = 0; r < RANKS; r++)
        for (int c = 0; c < SRC; c++) {
            char values[ELEMS * 4];
            input_generate(j.kind, j.dtype, seed, r, (uint64_t)(c * ELEMS), ELEMS, values);
            for (size_t i = 0; i < ELEMS; i++)
                m.cell[r][c].value[i] = element(j.dtype, values, i);
            m.cell[r][c].state = WHOLE;
        }
    char *text = random_schedule(&m, &state, seed % 2 == 0);
    j.text = text;
    struct compile_options o = job_options(&j);
    struct run_options r = {.threads = j.threads};
    struct world w = {.job = j, .plan = plan_new_text("r.slc", text, strlen(text), &o, &r)};
    if (!plan_ready(w.plan)) {
        fprintf(stderr, "%s%s\n", text, plan_error(w.plan));
        diag_print(plan_compilation(w.plan)->diag, stderr, false);
        fail();
    }
    world_allocate(&w);
    world_run(&w);
    compare(&m, &w, text);
    assert_int_equal(world_check(&w).wrong, 0);
    bool repaired = plan_stats(w.plan)->repairs > 0;
    world_free(&w);
    free(text);
    return repaired;
}

static void random_schedules_do_what_they_say(void **state) {
    (void)state;
    const char *from = getenv("SLUICE_RANDOM_SEED"), *count = getenv("SLUICE_RANDOM_COUNT");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1;
    uint64_t n = count ? strtoull(count, NULL, 10) : 200;
    uint64_t repaired = 0;
    for (uint64_t seed = first; seed < first + n; seed++)
        repaired += run_one(seed);
    print_message("%d of %d overflowed\n", (int)repaired, (int)n);
    assert_true(n < 100 || (repaired > n / 10 && repaired < n));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_schedules_do_what_they_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
