/*
 * test_cuda_protocol.c: messages that do not fit: never, sometimes, always, on one rank only; what
 * is counted, what is learned, what is refused.
 */
#include "tests/gpu/cuda_test.h"

static sluice_graph_stats stats_of(struct cuda_test *t, struct world *w) {
    sluice_graph_stats s = {0};
    ok(t, w, sluice_graph_get_stats(w->graph, &s), "stats");
    return s;
}

static struct setting lossless(const char *path, int ranks, const char *codec, uint64_t count) {
    struct setting s = setting_of(path, ranks, count);
    s.defines[0] = codec;
    return s;
}

/* Runs of one kind, and how many of them were repaired. */
static uint64_t repaired(struct cuda_test *t, const struct setting *s, enum data kind, int runs) {
    struct world w;
    uint64_t repairs = 0;
    if (!world_graph(t, &w, s))
        return UINT64_MAX;
    for (int i = 0; i < runs; i++)
        world_run(t, &w, kind, (uint64_t)i, i % 3 == 2);
    repairs = stats_of(t, &w).repairs;
    check(t, stats_of(t, &w).runs == (uint64_t)runs, "%s: not all runs counted", world_name(&w));
    world_close(&w);
    return repairs;
}

static void test_kinds(struct cuda_test *t) {
    static const char *const paths[] = {
        "schedules/allreduce_twoshot.slc", "schedules/allreduce_ring.slc",
        "schedules/alltoall_direct.slc",   "schedules/reduce_scatter_ring.slc",
        "schedules/allgather_bruck.slc",   "schedules/broadcast_chain.slc"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            struct setting s = lossless(paths[i], 4, "wire=pack(0.75)", t->small ? 100000 : 200000);
            s.in_place = in_place;
            s.slices = in_place ? 4 : 1;
            s.options.adapt = 0;
            check(t, repaired(t, &s, DATA_FITS, 6) == 0, "%s: fits, and was repaired", paths[i]);
            check(t, repaired(t, &s, DATA_BITS, 6) == 6, "%s: no repair of each", paths[i]);
            uint64_t some = repaired(t, &s, DATA_MIXED, 12);
            check(t, some > 0 && some < 12, "%s: %llu of 12 repaired", paths[i],
                  (unsigned long long)some);
            if (i < 4)
                check(t, repaired(t, &s, DATA_ONE, 6) == 6, "%s: one rank is not noticed",
                      paths[i]);
        }
}

/* Slots follow the data: down from the worst case, up after an overflow. */
static void test_adaptation(struct cuda_test *t) {
    struct setting s =
        lossless("schedules/allreduce_twoshot.slc", 4, "wire=pack", t->small ? 100000 : 400000);
    struct world w;
    if (!world_graph(t, &w, &s))
        return;
    sluice_graph_stats a = stats_of(t, &w);
    check(t, a.wire_bytes >= a.raw_bytes, "plain pack starts with less than the worst case");
    for (uint64_t i = 0; i < 5; i++)
        world_run(t, &w, DATA_FITS, i, false);
    a = stats_of(t, &w);
    check(t, a.adaptations >= 1 && a.repairs == 0, "%llu adaptations, %llu repairs",
          (unsigned long long)a.adaptations, (unsigned long long)a.repairs);
    check(t, a.wire_bytes < a.raw_bytes * 3 / 4, "adapted to %llu of %llu",
          (unsigned long long)a.wire_bytes, (unsigned long long)a.raw_bytes);
    check(t, a.needed_bytes > a.wire_bytes * 9 / 10 && a.needed_bytes <= a.wire_bytes,
          "%llu of %llu needed", (unsigned long long)a.needed_bytes,
          (unsigned long long)a.wire_bytes);
    world_run(t, &w, DATA_BITS, 100, false);
    world_run(t, &w, DATA_BITS, 101, false);
    world_run(t, &w, DATA_BITS, 102, true);
    world_run(t, &w, DATA_BITS, 103, false);
    a = stats_of(t, &w);
    check(t, a.repairs >= 1 && a.repairs <= 2, "%llu repairs while it learned",
          (unsigned long long)a.repairs);
    sluice_graph_stage stage;
    uint64_t overflows = 0, raw = 0;
    for (size_t i = 0; sluice_graph_get_stage(w.graph, i, &stage) == SLUICE_OK; i++) {
        overflows += stage.overflows;
        raw += stage.raw_bytes;
    }
    check(t, overflows > 0, "no overflow in any stage");
    check(t, raw == a.raw_bytes, "stages do not add up");
    world_close(&w);
}

/* Runs ahead of what is known are refused. */
static void test_tickets(struct cuda_test *t) {
    struct setting s = lossless("schedules/allreduce_ring.slc", 3, "wire=pack(0.75)", 50000);
    struct world w;
    uint64_t first = 0, second = 0;
    if (!world_graph(t, &w, &s))
        return;
    world_fill(t, &w, DATA_BITS, 1);
    ok(t, &w, sluice_graph_launch(w.graph, w.stream, &first), "launch");
    check(t, sluice_graph_launch(w.graph, w.stream, &second) == SLUICE_BUSY, "not busy");
    check(t, sluice_graph_enqueue(w.graph, w.stream, &second) == SLUICE_BUSY, "not busy");
    check(t, sluice_graph_wait(w.graph, first + 1) == SLUICE_INVALID_ARGUMENT, "a future ticket");
    ok(t, &w, sluice_graph_wait(w.graph, first), "wait");
    ok(t, &w, sluice_graph_wait(w.graph, first), "wait again");
    /* the sender's input may go right after the wait, in stream order */
    for (int r = 0; r < 3; r++)
        CUDA(cudaMemsetAsync(w.send_dev[r], 0xff, w.send_bytes[r], w.stream));
    world_check(t, &w, "overwritten input", 1);
    ok(t, &w, sluice_graph_launch(w.graph, w.stream, &second), "launch");
    check(t, second > first, "tickets do not go up");
    world_close(&w); /* in flight, not waited for */
}

/* Raw plans and slots that always suffice need no waiting at all. */
static void test_without_records(struct cuda_test *t) {
    static const char *const codecs[] = {"wire=none", "wire=pack"};
    for (size_t i = 0; i < 2; i++) {
        struct setting s = lossless("schedules/allreduce_ring.slc", 4, codecs[i], 70000);
        struct world w;
        uint64_t ticket = 0;
        s.options.adapt = 0;
        if (!world_graph(t, &w, &s))
            return;
        world_fill(t, &w, DATA_BITS, i);
        for (int n = 0; n < 20; n++)
            ok(t, &w, sluice_graph_launch(w.graph, w.stream, &ticket), "launch ahead");
        world_check(t, &w, "launched ahead", i);
        ok(t, &w, sluice_graph_wait(w.graph, ticket), "wait for nothing");
        world_close(&w);
    }
}

/* Codecs that remember: the same bits as on the CPU run after run, across runs that were
 * repaired, over a save and a restore, and from a seed. */
static void test_state(struct cuda_test *t) {
    static const char *const codecs[] = {"wire=delta | pack(0.75)", "wire=topk(0.1) | pack(0.75)",
                                         "wire=delta", "wire=topk(0.02)",
                                         "wire=quant(8, 64, stochastic)"};
    static const char *const paths[] = {"schedules/allreduce_twoshot.slc",
                                        "schedules/allgather_direct.slc"};
    for (size_t i = 0; i < 10; i++) {
        struct setting s = lossless(paths[i / 5], 3, codecs[i % 5], 60000);
        struct world w;
        s.dtype = i % 2 ? SLUICE_F32 : SLUICE_BF16;
        s.slices = i % 3 == 2 ? 2 : 1;
        s.options.adapt = i % 2;
        if (!world_graph(t, &w, &s))
            continue;
        for (uint64_t n = 0; n < 6; n++)
            world_run(t, &w, n % 3 == 1 ? DATA_BITS : DATA_FITS, n, n % 2);
        size_t bytes = sluice_graph_state_bytes(w.graph);
        void *saved = malloc(bytes + 1), *cpu = malloc(sluice_state_bytes(w.plan) + 1);
        check(t, bytes > 100, "%s: remembers %zu bytes", world_name(&w), bytes);
        ok(t, &w, sluice_graph_save_state(w.graph, saved, bytes), "save");
        ok(t, &w, sluice_state_save(w.plan, cpu, sluice_state_bytes(w.plan)), "save");
        world_run(t, &w, DATA_FITS, 70, false);
        world_run(t, &w, DATA_FITS, 71, true);
        ok(t, &w, sluice_graph_restore_state(w.graph, saved, bytes), "restore");
        ok(t, &w, sluice_state_restore(w.plan, cpu, sluice_state_bytes(w.plan)), "restore");
        world_run(t, &w, DATA_FITS, 71, false);
        ok(t, &w, sluice_graph_reset_state(w.graph, 99), "reset");
        ok(t, &w, sluice_state_reset(w.plan, 99), "reset");
        world_run(t, &w, DATA_FITS, 72, true);
        check(t, sluice_graph_restore_state(w.graph, saved, bytes - 1) == SLUICE_INVALID_ARGUMENT,
              "restored what is too short");
        free(saved);
        free(cpu);
        world_close(&w);
    }
}

void test_protocol(struct cuda_test *t) {
    test_kinds(t);
    test_adaptation(t);
    test_tickets(t);
    test_without_records(t);
    test_state(t);
}
