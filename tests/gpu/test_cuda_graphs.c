/*
 * test_cuda_graphs.c: graphs as people use them: again and again, several at a time, on several
 * streams, eagerly in between, with other buffers, made anew; and how many nodes they have.
 */
#include "tests/gpu/cuda_test.h"

static struct setting twoshot(int ranks, const char *codec, uint64_t count) {
    struct setting s = setting_of("schedules/allreduce_twoshot.slc", ranks, count);
    s.defines[0] = codec;
    s.slices = 1;
    return s;
}

static void test_sequential(struct cuda_test *t) {
    struct setting s = twoshot(4, "wire=pack(0.75)", 30000);
    struct world w;
    if (!world_graph(t, &w, &s))
        return;
    for (uint64_t i = 0; i < (t->small ? 6u : 60u); i++)
        world_run(t, &w, i % 5 == 4 ? DATA_MIXED : DATA_FITS, i, mix(i) % 3 == 0);
    world_close(&w);
}

static void test_destroy_and_recreate(struct cuda_test *t) {
    struct setting s = twoshot(3, "wire=pack", 20000);
    for (uint64_t i = 0; i < 5; i++) {
        struct world w;
        if (!world_graph(t, &w, &s))
            return;
        sluice_destroy(w.plan); /* the graph does not need it */
        sluice_options o = SLUICE_OPTIONS_INIT;
        o.ranks = 3, o.dtype = SLUICE_BF16, o.count = 20000, o.defines = s.defines;
        check(t, sluice_compile_file(&w.plan, s.path, &o) == SLUICE_OK, "compile again");
        sluice_comm_destroy(w.comm);
        w.comm = NULL;
        world_run(t, &w, DATA_FITS, i, i % 2);
        world_close(&w);
    }
}

/* Two graphs of one communicator in flight on two streams, forked from and joined to a third. */
static void test_fork_and_join(struct cuda_test *t) {
    struct setting s[2] = {twoshot(4, "wire=pack(0.75)", 60000),
                           setting_of("schedules/allreduce_ring.slc", 4, 50001)};
    struct world w[2];
    cudaEvent_t fork, join;
    s[1].defines[0] = "wire=pack(0.75)";
    if (!world_graph(t, &w[0], &s[0]) || !world_graph(t, &w[1], &s[1]))
        return;
    CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    for (uint64_t i = 0; i < 12; i++) {
        uint64_t ticket[2];
        for (int g = 0; g < 2; g++)
            world_fill(t, &w[g], i % 4 == (uint64_t)g ? DATA_BITS : DATA_FITS, i);
        CUDA(cudaEventRecord(fork, w[0].stream));
        CUDA(cudaStreamWaitEvent(w[1].stream, fork, 0));
        for (int g = 0; g < 2; g++)
            ok(t, &w[g], sluice_graph_launch(w[g].graph, w[g].stream, &ticket[g]), "launch");
        for (int g = 0; g < 2; g++)
            ok(t, &w[g], sluice_graph_wait(w[g].graph, ticket[g]), "wait");
        CUDA(cudaEventRecord(join, w[1].stream));
        CUDA(cudaStreamWaitEvent(w[0].stream, join, 0));
        CUDA(cudaStreamSynchronize(w[0].stream));
        for (int g = 0; g < 2; g++)
            world_check(t, &w[g], "forked", i);
    }
    CUDA(cudaEventDestroy(fork));
    CUDA(cudaEventDestroy(join));
    world_close(&w[0]);
    world_close(&w[1]);
}

/* Other buffers, back and forth, in place among them, with overflows. */
static void test_rebinding(struct cuda_test *t) {
    static const char *const codecs[] = {"wire=none", "wire=pack(0.75)", "wire=quant(8)"};
    for (size_t c = 0; c < 3; c++) {
        struct setting s = setting_of("schedules/allreduce_ring.slc", 4, 40003);
        struct world w;
        void *send[2][MOST_RANKS], *recv[2][MOST_RANKS];
        s.defines[0] = codecs[c];
        s.options.in_place = 1;
        s.slices = 2;
        if (!world_graph(t, &w, &s))
            return;
        size_t nodes = sluice_graph_nodes(w.graph);
        for (int r = 0; r < s.ranks; r++) {
            send[0][r] = w.send_dev[r];
            recv[0][r] = w.recv_dev[r];
            CUDA(cudaMalloc(&send[1][r], w.send_bytes[r] + 2));
            recv[1][r] = send[1][r];
        }
        for (uint64_t i = 0; i < 9; i++) {
            for (int r = 0; r < s.ranks; r++) {
                w.send_dev[r] = send[i / 2 % 2][r];
                w.recv_dev[r] = recv[i / 2 % 2][r];
            }
            w.s.in_place = i / 2 % 2;
            ok(t, &w, sluice_graph_rebind(w.graph, (const void *const *)w.send_dev, w.recv_dev),
               "rebind");
            world_run(t, &w, i % 3 == 2 ? DATA_MIXED : DATA_FITS, i, i % 4 == 3);
        }
        check(t, sluice_graph_nodes(w.graph) == nodes, "rebinding changed the graph");
        w.s.in_place = false;
        for (int r = 0; r < s.ranks; r++) {
            w.send_dev[r] = send[0][r];
            w.recv_dev[r] = recv[0][r];
            CUDA(cudaFree(send[1][r]));
        }
        world_close(&w);
    }
}

/* What the two-shot all-reduce of N ranks takes, one kernel each: N (N-1) encodes, a round, N sums
 * with their encode, a round, N (N-1) decodes; where a message may not fit, also one that
 * clears the words and one that writes the record; in place, N copies of the input before them. */
static void test_node_counts(struct cuda_test *t) {
    for (int n = 2; n <= 5; n++)
        for (int pack = 0; pack < 2; pack++)
            for (int in_place = 0; in_place < 2; in_place++) {
                struct setting s =
                    twoshot(n, pack ? "wire=pack(0.75)" : "wire=none", (uint64_t)n * 5000);
                struct world w;
                s.in_place = in_place;
                if (!world_graph(t, &w, &s))
                    continue;
                size_t want =
                    (size_t)(2 * n * (n - 1) + n + 2 + (pack ? 2 : 0) + (pack && in_place ? n : 0));
                check(t, sluice_graph_nodes(w.graph) == want, "%s: %zu nodes, not %zu",
                      world_name(&w), sluice_graph_nodes(w.graph), want);
                world_close(&w);
            }
}

/* Runs of one graph share its memory: on two streams they still follow one another. */
static void test_two_streams(struct cuda_test *t) {
    struct setting s = twoshot(4, "wire=none", 400000);
    struct world w;
    cudaStream_t other;
    if (!world_graph(t, &w, &s))
        return;
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    world_fill(t, &w, DATA_BITS, 11);
    CUDA(cudaStreamSynchronize(w.stream));
    for (int i = 0; i < 40; i++) {
        uint64_t ticket;
        cudaStream_t stream = i % 2 ? other : w.stream;
        ok(t, &w,
           i % 3 ? sluice_graph_enqueue(w.graph, stream, &ticket)
                 : sluice_graph_launch(w.graph, stream, &ticket),
           "one of two streams");
    }
    CUDA(cudaStreamSynchronize(other));
    world_check(t, &w, "two streams", 11);
    CUDA(cudaStreamDestroy(other));
    world_close(&w);
}

void test_graphs(struct cuda_test *t) {
    test_node_counts(t);
    test_sequential(t);
    test_destroy_and_recreate(t);
    test_fork_and_join(t);
    test_rebinding(t);
    test_two_streams(t);
}
