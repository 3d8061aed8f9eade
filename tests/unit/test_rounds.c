/* How many rounds schedules take, and what must hold of every list that rounds, lanes and slots
 * leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/compiler.h"

struct wanted {
    const char *file;
    int32_t ranks, nodes; /* spread evenly */
    uint32_t slices;
    const char *define;
    uint32_t rounds[2];
};

static struct compilation *compile(const struct wanted *w) {
    int32_t node_of[64], local_of[64];
    int32_t per_node = (w->ranks + w->nodes - 1) / w->nodes;
    for (int32_t r = 0; r < w->ranks; r++) {
        node_of[r] = r / per_node;
        local_of[r] = r % per_node;
    }
    const char *const defines[] = {w->define, NULL};
    struct compile_options o = {.emit_rank = -1, .defines = defines};
    o.setup = (struct setup){.ranks = w->ranks,
                             .nodes = w->nodes,
                             .node_of = w->nodes > 1 ? node_of : NULL,
                             .local_of = w->nodes > 1 ? local_of : NULL,
                             .dtype = DTYPE_BF16,
                             .count = 100000,
                             .slices = w->slices};
    struct compilation *c = compile_file(w->file, &o);
    if (!compilation_ok(c)) {
        diag_print(c->diag, stderr, false);
        fail_msg("%s", w->file);
    }
    return c;
}

/* The pipeline keeps every message as early as its inputs, and one a pair and round, allow. */
static void rounds_are_as_few_as_the_schedule_allows(void **state) {
    (void)state;
    static const struct wanted all[] = {
        {"schedules/allreduce_ring.slc", 5, 1, 1, NULL, {8, 0}},
        {"schedules/allreduce_ring.slc", 5, 1, 2, NULL, {16, 0}}, /* slices take turns */
        {"schedules/allreduce_twoshot.slc", 5, 1, 1, NULL, {2, 0}},
        {"schedules/allreduce_twoshot.slc", 5, 1, 3, NULL, {6, 0}},
        {"schedules/alltoall_direct.slc", 6, 1, 1, NULL, {1, 0}},
        {"schedules/alltoall_bruck.slc", 8, 1, 1, NULL, {3, 0}},
        {"schedules/alltoall_bruck.slc", 6, 1, 1, NULL, {2, 0}}, /* no block goes by 1, 2 and 4 */
        {"schedules/allgather_ring.slc", 6, 1, 1, NULL, {5, 0}},
        {"schedules/broadcast_chain.slc", 4, 1, 1, "k=8", {10, 0}}, /* 8 chunks over 3 hops */
        {"schedules/pipeline_shift.slc", 6, 1, 1, NULL, {1, 0}},
        {"schedules/allreduce_hierarchical.slc", 8, 2, 1, "L=4", {2, 6}},
        {"schedules/allreduce_hierarchical.slc", 8, 1, 1, "L=4", {8, 0}}, /* one communicator */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct compilation *c = compile(&all[i]);
        const struct tasks *t = c->tasks;
        if (t->rounds[0] != all[i].rounds[0] || t->rounds[1] != all[i].rounds[1])
            fail_msg("%s on %d ranks, %u slices: rounds %u and %u", all[i].file, all[i].ranks,
                     all[i].slices, t->rounds[0], t->rounds[1]);
        assert_int_equal(t->comms, all[i].rounds[1] ? 2 : 1);
        assert_int_equal(t->lanes, t->comms + (all[i].slices > 1 ? 2 : 1));
        compilation_free(c);
    }
}

/* Tick, then messages before computes: all edges lead forward in that order, or stay within a
 * rank's list. */
static void check_lists(const struct tasks *t) {
    for (size_t r = 0; r < t->ranks.count; r++) {
        const struct rank_tasks *rank = &t->ranks.data[r];
        for (uint32_t i = rank->first; i < rank->first + rank->n; i++) {
            const struct task *task = &t->tasks.data[i];
            if (i > rank->first)
                assert_true(task[-1].tick <= task->tick);
            for (uint32_t d = 0; d < task->deps; d++) {
                uint32_t dep = t->deps.data[task->first_dep + d];
                assert_in_range(dep, rank->first, i - 1);
                if (task->kind != TASK_COMPUTE)
                    assert_true(t->tasks.data[dep].tick < task->tick);
            }
        }
    }
    for (size_t i = 0; i < t->messages.count; i++) {
        const struct message *m = &t->messages.data[i];
        const struct task *send = &t->tasks.data[m->send], *recv = &t->tasks.data[m->recv];
        assert_int_equal(send->tick, recv->tick);
        assert_int_equal(send->round, recv->round);
        assert_int_equal(send->comm, recv->comm);
        for (size_t j = 0; j < i; j++) {
            const struct message *n = &t->messages.data[j];
            if (n->src == m->src && n->dst == m->dst)
                assert_true(t->tasks.data[n->send].tick != send->tick);
            if (n->comm == m->comm) /* rounds are ticks, counted */
                assert_int_equal(n->round < m->round, t->tasks.data[n->send].tick < send->tick);
        }
    }
}

static void every_edge_leads_to_a_later_tick(void **state) {
    (void)state;
    static const char *const files[] = {
        "schedules/allreduce_ring.slc",        "schedules/allreduce_double_tree.slc",
        "schedules/allreduce_twoshot.slc",     "schedules/allreduce_halving_doubling.slc",
        "schedules/alltoall_hierarchical.slc", "schedules/allgather_bruck.slc",
        "schedules/alltoall_bruck.slc",        "schedules/hsdp_sync.slc",
        "schedules/broadcast_chain.slc",       "schedules/allreduce_hierarchical.slc",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (uint32_t slices = 1; slices <= 3; slices++) {
            bool in_nodes = strstr(files[i], "hier") || strstr(files[i], "hsdp");
            struct wanted w = {files[i], 8, 2, slices, in_nodes ? "L=4" : NULL, {0, 0}};
            struct compilation *c = compile(&w);
            check_lists(c->tasks);
            compilation_free(c);
        }
}

/* A piece of a message stands behind the one before it, at each end that had the choice. */
static void received_pieces_stand_side_by_side(void **state) {
    (void)state;
    struct wanted w = {"schedules/allreduce_hierarchical.slc", 16, 2, 1, "L=8", {0, 0}};
    struct compilation *c = compile(&w);
    const struct tasks *t = c->tasks;
    size_t runs = 0, pieces = 0;
    for (size_t i = 0; i < t->messages.count; i++) {
        const struct task *recv = &t->tasks.data[t->messages.data[i].recv];
        for (uint32_t j = 0; j < recv->outs; j++) {
            const struct piece *p = &t->pieces.data[t->outs.data[recv->first_out + j]];
            const struct piece *q = j ? &t->pieces.data[t->outs.data[recv->first_out + j - 1]] : p;
            runs += j == 0 || p->offset != q->offset + (q->bytes + 255) / 256 * 256;
            pieces++;
        }
    }
    assert_true(pieces > t->messages.count);
    assert_int_equal(runs, t->messages.count);
    compilation_free(c);
}

/* Each pass asks for its memory before it holds any: nothing is lost when it is refused. */
static void the_memory_limit_is_kept(void **state) {
    (void)state;
    static const char text[] = "tasks big\n"
                               "ranks 1\n"
                               "dtype f32\n"
                               "op sum\n"
                               "count 32\n"
                               "input data[100000] on 0\n"
                               "ensure data[0]@0 == data[0]@0\n"
                               "sliced 1000 unit 32\n"
                               "lanes 1\n"
                               "placed\n";
    static const char *const passes[] = {"rounds", "slots", "validate"};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        struct compile_options o = {.emit_rank = -1, .memory_limit_bytes = (size_t)64 << 20};
        struct compilation *c = opt_text("big.tasks", text, sizeof text - 1, passes[i], &o);
        char *said = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&said, &bytes);
        diag_print(c->diag, out, false);
        fclose(out);
        assert_string_equal(said, "error: big.tasks: out of memory: this takes more than 64 MiB to "
                                  "compile\n");
        free(said);
        compilation_free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_as_few_as_the_schedule_allows),
        cmocka_unit_test(every_edge_leads_to_a_later_tick),
        cmocka_unit_test(received_pieces_stand_side_by_side),
        cmocka_unit_test(the_memory_limit_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
