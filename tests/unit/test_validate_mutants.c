/* What validate accepts computes the right bits, however its tasks interleave.
 *
 * Random small schedules are compiled, then one thing in the tasks is changed at random. When
 * validate still accepts the tasks, an interpreter that knows nothing of validate runs them on real
 * numbers in real memory, many times, in random interleavings, and the result must be that of the
 * unchanged tasks: no deadlock, no corrupt piece, no other bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/compiler.h"
#include "task_world.h"

/* ---- random schedules: each chunk is added up along some tree and spread along another ---- */

struct schedule_text {
    char bytes[16384];
    size_t used;
    uint64_t *seed;
    int ranks, chunks;
};

static void say(struct schedule_text *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(struct schedule_text *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(s->bytes + s->used, sizeof s->bytes - s->used, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof s->bytes - s->used);
    s->used += (size_t)n;
}

static void say_sum(struct schedule_text *s, int chunk, int owner, const char *codec) {
    int left[MAX_RANKS], n = 0;
    for (int r = 0; r < s->ranks; r++)
        left[n++] = r;
    while (n > 1) {
        uint32_t from = below(s->seed, (size_t)n), to = below(s->seed, (size_t)n);
        if (from == to || left[from] == owner)
            continue;
        if (below(s->seed, 4) == 0) {
            say(s, "copy data[%d]@%d -> tmp[%d]@%d via %s;\n", chunk, left[from], chunk, left[to],
                codec);
            say(s, "reduce tmp[%d]@%d -> data[%d]@%d;\n", chunk, left[to], chunk, left[to]);
        } else {
            say(s, "reduce data[%d]@%d -> data[%d]@%d via %s;\n", chunk, left[from], chunk,
                left[to], codec);
        }
        left[from] = left[--n];
    }
}

static void say_spread(struct schedule_text *s, int chunk, int owner, const char *codec) {
    if (below(s->seed, 2)) {
        say(s, "copy data[%d]@%d -> data[%d]@ranks(0..N) via %s;\n", chunk, owner, chunk, codec);
        return;
    }
    int have[MAX_RANKS] = {owner}, n = 1;
    for (int r = 0; r < s->ranks; r++) {
        if (r == owner)
            continue;
        say(s, "copy data[%d]@%d -> data[%d]@%d via %s;\n", chunk, have[below(s->seed, (size_t)n)],
            chunk, r, below(s->seed, 2) ? "pack" : "none");
        have[n++] = r;
    }
}

static void random_schedule(struct schedule_text *s) {
    static const char *const codecs[] = {"none", "pack", "cast(bf16)", "quant(8, 32)"};
    say(s, "schedule random() {\ncollective allreduce;\ninout data[%d];\nscratch tmp[%d];\n",
        s->chunks, s->chunks);
    int owner[8];
    for (int c = 0; c < s->chunks; c++)
        owner[c] = (int)below(s->seed, (size_t)s->ranks);
    for (int c = 0; c < s->chunks; c++)
        say_sum(s, c, owner[c], codecs[below(s->seed, 4)]);
    for (int c = 0; c < s->chunks; c++)
        say_spread(s, c, owner[c], codecs[below(s->seed, 4)]);
    say(s, "}\n");
}

static void say_chunk(struct schedule_text *s, int chunk, int rank) {
    if (chunk < s->chunks)
        say(s, "a[%d]@%d", chunk, rank);
    else
        say(s, "tmp[%d]@%d", chunk - s->chunks, rank);
}

/* Statements at random: sums that are read half way, scratch that is used again, steps that read
 * what they overwrite. */
static void wild_schedule(struct schedule_text *s) {
    static const char *const codecs[] = {"none", "none", "pack", "quant(8, 32)"};
    say(s, "schedule wild() {\ninout a[%d];\nscratch tmp[2];\n", s->chunks);
    say(s, "ensure identical a[0]@ranks(0..1);\n");
    for (int r = 0; r < s->ranks; r++)
        say(s, "copy a[0]@%d -> tmp[0]@%d; copy a[0]@%d -> tmp[1]@%d;\n", r, r, r, r);
    for (uint32_t left = 8 + below(s->seed, 12); left; left--) {
        bool taken[MAX_RANKS][8] = {0}, step = below(s->seed, 3) == 0;
        say(s, step ? "step {\n" : "");
        for (uint32_t n = step ? 1 + below(s->seed, 4) : 1; n; n--) {
            int from = (int)below(s->seed, (size_t)s->ranks),
                to = (int)below(s->seed, (size_t)s->ranks);
            int src = (int)below(s->seed, (size_t)s->chunks + 2);
            int dst = (int)below(s->seed, (size_t)s->chunks + 2);
            if (taken[to][dst] || (from == to && src == dst))
                continue;
            taken[to][dst] = true;
            say(s, below(s->seed, 2) ? "reduce " : "copy ");
            say_chunk(s, src, from);
            say(s, " -> ");
            say_chunk(s, dst, to);
            say(s, " via %s;\n", codecs[below(s->seed, 4)]);
        }
        say(s, step ? "}\n" : "");
    }
    say(s, "}\n");
}

/* ---- mutants ---- */

#define CLONE(to, from, field)                                                       \
    do {                                                                             \
        memset(&(to)->field, 0, sizeof(to)->field);                                  \
        if ((from)->field.count)                                                     \
            memcpy(VEC_ADD_N(&(to)->field, (from)->field.count), (from)->field.data, \
                   (from)->field.count * sizeof *(from)->field.data);                \
    } while (0)

static struct tasks clone(const struct tasks *from) {
    struct tasks copy = *from, *to = &copy;
    CLONE(to, from, ranks);
    CLONE(to, from, tasks);
    CLONE(to, from, operands);
    CLONE(to, from, outs);
    CLONE(to, from, deps);
    CLONE(to, from, pieces);
    CLONE(to, from, messages);
    CLONE(to, from, acc_offsets);
    CLONE(to, from, chunk_offsets);
    CLONE(to, from, loc_size);
    CLONE(to, from, sizes);
    CLONE(to, from, size_elems);
    CLONE(to, from, slice_first);
    return copy;
}

static uint32_t moved_index(uint32_t index, uint32_t gone) {
    return index > gone && index != NONE ? index - 1 : index;
}

/* Takes a task out of the arrays; what waited for it does not any more. */
static void drop_task(struct tasks *t, uint32_t gone) {
    for (size_t r = 0; r < t->ranks.count; r++) {
        struct rank_tasks *rank = &t->ranks.data[r];
        if (gone >= rank->first && gone < rank->first + rank->n)
            rank->n--;
        else if (rank->first > gone)
            rank->first--;
    }
    for (size_t i = 0; i < t->tasks.count; i++) {
        struct task *task = &t->tasks.data[i];
        uint32_t kept = 0;
        for (uint32_t d = 0; d < task->deps; d++) {
            uint32_t dep = t->deps.data[task->first_dep + d];
            if (dep != gone)
                t->deps.data[task->first_dep + kept++] = moved_index(dep, gone);
        }
        task->deps = kept;
    }
    for (size_t i = 0; i < t->messages.count; i++) {
        t->messages.data[i].send = moved_index(t->messages.data[i].send, gone);
        t->messages.data[i].recv = moved_index(t->messages.data[i].recv, gone);
    }
    memmove(&t->tasks.data[gone], &t->tasks.data[gone + 1],
            (t->tasks.count - gone - 1) * sizeof *t->tasks.data);
    t->tasks.count--;
}

/* Two neighbours in a list change places, with all that points to them. */
static void swap_tasks(struct tasks *t, uint32_t a) {
    uint32_t b = a + 1;
    struct task spare = t->tasks.data[a];
    t->tasks.data[a] = t->tasks.data[b];
    t->tasks.data[b] = spare;
    for (size_t i = 0; i < t->deps.count; i++)
        t->deps.data[i] = t->deps.data[i] == a ? b : t->deps.data[i] == b ? a : t->deps.data[i];
    for (uint32_t i = a; i <= b; i++) {
        const struct task *task = &t->tasks.data[i];
        if (task->kind == TASK_SEND)
            t->messages.data[task->message].send = i;
        if (task->kind == TASK_RECV)
            t->messages.data[task->message].recv = i;
    }
}

static void set_round(struct tasks *t, uint32_t message, uint8_t comm, uint32_t round,
                      uint32_t index) {
    struct message *m = &t->messages.data[message];
    uint32_t ends[2] = {m->send, m->recv};
    for (int i = 0; i < 2; i++) {
        t->tasks.data[ends[i]].comm = comm;
        t->tasks.data[ends[i]].round = round;
        t->tasks.data[ends[i]].index = index;
    }
    m->comm = comm;
    m->round = round;
    m->index = index;
}

static void mutate_message(struct tasks *t, uint64_t *seed) {
    uint32_t a = below(seed, t->messages.count), b = below(seed, t->messages.count);
    struct message ma = t->messages.data[a], mb = t->messages.data[b];
    uint32_t task = below(seed, 2) ? ma.send : ma.recv;
    switch (below(seed, 4)) {
    case 0:
        set_round(t, a, mb.comm, mb.round, mb.index);
        set_round(t, b, ma.comm, ma.round, ma.index);
        break;
    case 1:
        set_round(t, a, mb.comm, mb.round, mb.index);
        break;
    case 2:
        t->tasks.data[task].round = mb.round;
        break;
    case 3:
        drop_task(t, ma.send > ma.recv ? ma.send : ma.recv);
        drop_task(t, ma.send > ma.recv ? ma.recv : ma.send);
        t->messages.data[a].send = t->messages.data[a].recv = NONE;
        break;
    }
}

static void mutate_memory(struct tasks *t, uint64_t *seed) {
    struct piece *a = &t->pieces.data[below(seed, t->pieces.count)];
    struct piece *b = &t->pieces.data[below(seed, t->pieces.count)];
    switch (below(seed, 5)) {
    case 0:
        a->offset = b->offset;
        break;
    case 1:
        a->offset += 256;
        break;
    case 2:
        a->offset -= a->offset ? 256 : 0;
        break;
    case 3:
        if (t->acc_offsets.count)
            t->acc_offsets.data[below(seed, t->acc_offsets.count)] = a->offset;
        break;
    case 4:
        for (loc_id loc = 0; loc < t->chunk_offsets.count; loc++)
            if (t->chunk_offsets.data[loc] != UINT64_MAX && below(seed, 4) == 0)
                t->chunk_offsets.data[loc] = a->offset;
        break;
    }
}

static void mutate_piece(struct tasks *t, uint64_t *seed) {
    uint32_t encoding = t->pieces.data[below(seed, t->pieces.count)].encoding;
    uint16_t codec = (uint16_t)below(seed, t->flow->codecs.count);
    bool all = below(seed, 2);
    for (size_t i = 0; i < t->pieces.count; i++) {
        struct piece *p = &t->pieces.data[i];
        if (p->encoding != encoding)
            continue;
        p->codec = codec;
        p->bytes = codec_slot_bytes(&t->flow->codecs.data[codec], t->flow->setup.dtype, p->elems);
        if (!all)
            break;
    }
    for (size_t i = 0; all && i < t->messages.count; i++) {
        struct message *m = &t->messages.data[i];
        const struct task *send = &t->tasks.data[m->send];
        m->bytes = 0;
        for (uint32_t j = 0; j < send->operands; j++)
            m->bytes += t->pieces.data[t->operands.data[send->first_operand + j].index].bytes;
    }
}

static void mutate_operands(struct tasks *t, uint64_t *seed) {
    struct task *task = &t->tasks.data[below(seed, t->tasks.count)];
    uint32_t a = below(seed, t->operands.count), b = below(seed, t->operands.count);
    struct operand spare = t->operands.data[a];
    switch (below(seed, 5)) {
    case 0:
        if (task->operands > 1) { /* within one task */
            a = task->first_operand + below(seed, task->operands);
            b = task->first_operand + below(seed, task->operands);
            spare = t->operands.data[a];
        }
        t->operands.data[a] = t->operands.data[b];
        t->operands.data[b] = spare;
        break;
    case 1:
        t->operands.data[a] = t->operands.data[b];
        break;
    case 2:
        if (task->operands)
            task->operands--;
        break;
    case 3:
        if (t->outs.count)
            t->outs.data[below(seed, t->outs.count)] = below(seed, t->pieces.count);
        break;
    case 4:
        if (task->store.index != NONE)
            task->store.index = below(seed, 3) ? t->operands.data[a].index : NONE;
        break;
    }
}

static void mutate_order(struct tasks *t, uint64_t *seed) {
    uint32_t rank = below(seed, t->ranks.count);
    const struct rank_tasks *r = &t->ranks.data[rank];
    if (!r->n)
        return;
    uint32_t a = r->first + below(seed, r->n);
    struct task *task = &t->tasks.data[a];
    switch (below(seed, 6)) {
    case 0:
    case 1:
        for (uint32_t tries = 0; tries < 32 && !task->deps; tries++)
            task = &t->tasks.data[below(seed, t->tasks.count)];
        if (task->deps) {
            uint32_t gone = below(seed, task->deps);
            t->deps.data[task->first_dep + gone] = t->deps.data[task->first_dep + --task->deps];
        }
        break;
    case 2:
        if (t->deps.count)
            t->deps.data[below(seed, t->deps.count)] = below(seed, t->tasks.count);
        break;
    case 3:
        task->lane = (uint8_t)below(seed, t->lanes);
        break;
    case 4:
        if (a + 1 < r->first + r->n)
            swap_tasks(t, a);
        break;
    case 5:
        if (task->kind == TASK_COMPUTE)
            drop_task(t, a);
        break;
    }
}

static void mutate(struct tasks *t, uint64_t *seed) {
    struct task *task = &t->tasks.data[below(seed, t->tasks.count)];
    switch (below(seed, 12)) {
    case 0:
    case 1:
    case 2:
        mutate_order(t, seed);
        break;
    case 3:
    case 4:
        mutate_message(t, seed);
        break;
    case 5:
    case 6:
    case 7:
        mutate_memory(t, seed);
        break;
    case 8:
        mutate_piece(t, seed);
        break;
    case 9:
    case 10:
        mutate_operands(t, seed);
        break;
    case 11:
        if (below(seed, 2))
            task->divide = !task->divide;
        else
            task->slice = (uint16_t)below(seed, t->slices);
        break;
    }
}

/* ---- the property ---- */

struct tally {
    uint32_t plans, mutants, accepted;
};

static bool accepts(struct compilation *c, struct tasks *t) {
    struct tasks *own = c->tasks;
    struct diag *diag = c->diag;
    c->tasks = t;
    c->diag = diag_new(c->arena, c->sources);
    bool ok = pass_validate(c);
    assert_int_equal(ok, diag_errors(c->diag) == 0);
    c->tasks = own;
    c->diag = diag;
    return ok;
}

static void fail_with(const char *text, const struct tasks *t, const char *why) {
    fprintf(stderr, "%s\n", text);
    tasks_print(t, -1, stderr);
    fail_msg("accepted, but %s", why);
}

static void check_plan(struct compilation *c, const char *text, uint64_t *seed,
                       struct tally *tally) {
    struct world wanted;
    run_world(&wanted, c->tasks, 1);
    if (wanted.wrong)
        fail_with(text, c->tasks, wanted.wrong);
    for (uint32_t i = 0; i < 20; i++) { /* i = 0 .. 4: unchanged */
        struct tasks mutant = clone(c->tasks);
        if (i > 4)
            mutate(&mutant, seed);
        bool accepted = accepts(c, &mutant);
        tally->mutants += i > 4;
        tally->accepted += i > 4 && accepted;
        if (i <= 4)
            assert_true(accepted);
        for (uint32_t run = 0; run < 12 && accepted; run++) {
            struct world got;
            run_world(&got, &mutant, next_random(seed));
            if (got.wrong || !same_result(&wanted, &got))
                fail_with(text, &mutant, got.wrong ? got.wrong : "the result is another");
            world_free(&got);
        }
        tasks_free(&mutant);
    }
    world_free(&wanted);
    tally->plans++;
}

static void random_setup(struct setup *s, uint64_t *seed, int32_t *node_of, int32_t *local_of) {
    s->dtype = DTYPE_F32;
    s->redop = below(seed, 3) ? REDOP_SUM : REDOP_AVG;
    s->slices = 1 + below(seed, 3);
    s->count = 32 * (1 + below(seed, 40)) + below(seed, 32);
    s->nodes = 1;
    if (below(seed, 2) || s->ranks < 3)
        return;
    s->nodes = 2;
    s->node_of = node_of;
    s->local_of = local_of;
    for (int32_t r = 0; r < s->ranks; r++) {
        node_of[r] = r * 2 / s->ranks;
        local_of[r] = r - (node_of[r] ? (s->ranks + 1) / 2 : 0);
    }
}

/* Without `fuse` the tasks have accumulators, scratch chunks and pieces that are read later. */
static struct compilation *compile_unfused(const struct schedule_text *s,
                                           const struct compile_options *options) {
    struct compile_options o = *options;
    o.stop_after = "elaborate";
    struct compilation *c = compile_text("random.slc", s->bytes, s->used, &o);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    compilation_print(c, out);
    fclose(out);
    compilation_free(c);
    o.stop_after = NULL;
    c = opt_text("random.flow", text, bytes,
                 "verify,forward,lower,slice,rounds,lanes,slots,validate", &o);
    free(text);
    return c;
}

/* Computes in any of two lanes: then chunks, too, need waits between lanes. */
static void spread_over_lanes(struct compilation *c, uint64_t *seed) {
    struct tasks *t = c->tasks;
    t->lanes = t->comms + 2;
    for (size_t i = 0; i < t->tasks.count; i++)
        if (t->tasks.data[i].kind == TASK_COMPUTE)
            t->tasks.data[i].lane = (uint8_t)(t->comms + below(seed, 2));
    assert_true(pass_slots(c));
}

static void check_plans(int plans, void (*write)(struct schedule_text *)) {
    uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
    struct tally tally = {0};
    for (int plan = 0; plan < plans; plan++) {
        int32_t node_of[MAX_RANKS], local_of[MAX_RANKS];
        struct compile_options o = {.emit_rank = -1};
        o.setup.ranks = 2 + (int32_t)below(&seed, MAX_RANKS - 1);
        random_setup(&o.setup, &seed, node_of, local_of);
        struct schedule_text *s = calloc(1, sizeof *s);
        s->seed = &seed;
        s->ranks = o.setup.ranks;
        s->chunks = 1 + (int)below(&seed, 4);
        write(s);
        struct compilation *c =
            plan % 2 ? compile_text("random.slc", s->bytes, s->used, &o) : compile_unfused(s, &o);
        if (!compilation_ok(c)) {
            diag_print(c->diag, stderr, false);
            fail_msg("not compiled:\n%s", s->bytes);
        }
        if (plan % 4 < 2)
            spread_over_lanes(c, &seed);
        if (c->tasks->messages.count) /* else there is little to mutate */
            check_plan(c, s->bytes, &seed, &tally);
        compilation_free(c);
        free(s);
    }
    print_message("%u plans, %u mutants, %u of them accepted\n", tally.plans, tally.mutants,
                  tally.accepted);
    /* Both verdicts occur, or the test tests nothing. */
    assert_true(tally.accepted * 50 > tally.mutants && tally.accepted * 2 < tally.mutants);
}

static void random_plans(void **state) {
    (void)state;
    check_plans(150, random_schedule);
}

static void wild_plans(void **state) {
    (void)state;
    check_plans(80, wild_schedule);
}

/* Shipped ones have shapes that the random ones have not: steps, rings, ranges. */
static void shipped_plans(void **state) {
    (void)state;
    static const char *const files[] = {
        "schedules/allreduce_ring.slc",        "schedules/allreduce_twoshot.slc",
        "schedules/allreduce_tree.slc",        "schedules/allreduce_hierarchical.slc",
        "schedules/allreduce_double_tree.slc", "schedules/allgather_bruck.slc",
        "schedules/alltoall_bruck.slc",        "schedules/pipeline_shift.slc",
    };
    static const char *const two_local[] = {"L=2", NULL};
    uint64_t seed = UINT64_C(0xd1b54a32d192ed03);
    struct tally tally = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct compile_options o = {.emit_rank = -1};
        o.setup.ranks = 4;
        o.setup.dtype = DTYPE_F32;
        o.setup.nodes = 1;
        o.setup.count = 300;
        o.setup.slices = 1 + (uint32_t)i % 2;
        o.defines = strstr(files[i], "hierarchical") ? two_local : NULL;
        struct compilation *c = compile_file(files[i], &o);
        if (!compilation_ok(c)) {
            diag_print(c->diag, stderr, false);
            fail_msg("%s is not compiled", files[i]);
        }
        check_plan(c, files[i], &seed, &tally);
        compilation_free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans),
        cmocka_unit_test(wild_plans),
        cmocka_unit_test(shipped_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
