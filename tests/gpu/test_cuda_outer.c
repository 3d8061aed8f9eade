/*
 * test_cuda_outer.c: runs inside a graph of the caller's: a whole training step replayed a thousand
 * times with inputs that change on the device and are judged there, nothing waited for in between;
 * in flagged mode; in place; with our handle gone; and a new capture when one is due.
 */
#include "tests/gpu/cuda_test.h"
#include "tests/gpu/replay.h"

static struct setting step_setting(const char *codec, bool in_place) {
    struct setting s = setting_of("schedules/allreduce_twoshot.slc", 4, 64 * 4 * 150);
    s.defines[0] = codec;
    s.in_place = in_place;
    s.options.mode = SLUICE_FLAGGED;
    s.options.adapt = 0;
    s.options.flags_in_a_row = 3;
    return s;
}

static cudaGraphExec_t capture_step(struct cuda_test *t, struct world *w, struct replay_state *s) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    uint64_t ticket = 1;
    const uint32_t ranks = (uint32_t)w->s.ranks, *flag = sluice_graph_flag(w->graph);
    CUDA(cudaStreamBeginCapture(w->stream, cudaStreamCaptureModeThreadLocal));
    for (uint32_t r = 0; r < ranks; r++)
        CUDA(replay_fill(w->send_dev[r], w->s.count, r, ranks, s, w->stream));
    ok(t, w, sluice_graph_enqueue(w->graph, w->stream, &ticket), "enqueue in a capture");
    check(t, ticket == 0, "a ticket of a capture");
    for (uint32_t r = 0; r < ranks; r++)
        CUDA(replay_judge(w->recv_dev[r], w->s.count, ranks, s, flag, w->stream));
    CUDA(replay_step(s, ranks, flag, w->stream));
    CUDA(cudaStreamEndCapture(w->stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return exec;
}

static struct replay_state *new_state(void) {
    struct replay_state *s;
    CUDA(cudaMalloc((void **)&s, sizeof *s));
    CUDA(cudaMemset(s, 0, sizeof *s));
    CUDA(cudaDeviceSynchronize());
    return s;
}

static struct replay_state take_state(const struct replay_state *dev, cudaStream_t stream) {
    struct replay_state s;
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemcpy(&s, dev, sizeof s, cudaMemcpyDeviceToHost));
    return s;
}

static void replay(struct cuda_test *t, const char *codec, bool in_place) {
    struct setting s = step_setting(codec, in_place);
    struct world w;
    if (!world_graph(t, &w, &s))
        return;
    struct replay_state *dev = new_state();
    cudaGraphExec_t exec = capture_step(t, &w, dev);
    uint64_t replays = t->small ? 10 : 1000;
    for (uint64_t i = 0; i < replays; i++)
        CUDA(cudaGraphLaunch(exec, w.stream));
    struct replay_state got = take_state(dev, w.stream);
    bool overflows = strcmp(codec, "wire=none") != 0;
    check(t, got.step == replays && got.wrong == 0, "%s: %llu steps, %llu elements wrong",
          world_name(&w), (unsigned long long)got.step, (unsigned long long)got.wrong);
    if (overflows)
        check(t, got.mistaken == 0 && (got.flagged > replays / 8 || t->small),
              "%s: %llu flagged, %llu mistaken", world_name(&w), (unsigned long long)got.flagged,
              (unsigned long long)got.mistaken);
    else
        check(t, got.flagged == 0, "raw messages flagged");
    /* what it needs stays with the caller's graph */
    sluice_graph_destroy(w.graph);
    w.graph = NULL;
    if (!overflows) {
        for (uint64_t i = 0; i < 20; i++)
            CUDA(cudaGraphLaunch(exec, w.stream));
        got = take_state(dev, w.stream);
        check(t, got.step == replays + 20 && got.wrong == 0, "wrong after destroy");
    }
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaFree(dev));
    world_close(&w);
}

/* Flagged: in place, the input is there again. Three in a row: a new capture is due, and
 * suffices. */
static void test_due(struct cuda_test *t, bool in_place) {
    struct setting s = step_setting("wire=pack(0.75)", in_place);
    struct world w;
    uint32_t flag = 0;
    s.options.adapt = 1;
    if (!world_graph(t, &w, &s))
        return;
    for (uint64_t i = 0; i < 3; i++) {
        check(t, !sluice_graph_due(w.graph), "due after %llu", (unsigned long long)i);
        world_fill(t, &w, DATA_BITS, i);
        ok(t, &w, sluice_graph_launch(w.graph, w.stream, NULL), "launch flagged");
        CUDA(cudaStreamSynchronize(w.stream));
        CUDA(cudaMemcpy(&flag, sluice_graph_flag(w.graph), sizeof flag, cudaMemcpyDeviceToHost));
        check(t, flag == 1, "not flagged");
        CUDA(cudaMemcpy(w.got, w.send_dev[1], w.send_bytes[1], cudaMemcpyDeviceToHost));
        check(t, !memcmp(w.got, w.send_host[1], w.send_bytes[1]), "%s: the input is gone",
              world_name(&w));
    }
    check(t, sluice_graph_due(w.graph), "not due");
    check(t, sluice_graph_wait(w.graph, 1) == SLUICE_INVALID_ARGUMENT, "waited in flagged mode");
    for (int i = 0; i < 2; i++) { /* data lost on the way was not seen the first time */
        ok(t, &w, sluice_graph_adapt(w.graph), "adapt");
        world_fill(t, &w, DATA_BITS, 7);
        ok(t, &w, sluice_graph_launch(w.graph, w.stream, NULL), "launch flagged");
        CUDA(cudaStreamSynchronize(w.stream));
    }
    CUDA(cudaMemcpy(&flag, sluice_graph_flag(w.graph), sizeof flag, cudaMemcpyDeviceToHost));
    check(t, flag == 0 && !sluice_graph_due(w.graph), "flagged with larger slots");
    world_check(t, &w, "adapted", 7);
    world_close(&w);
}

/* Checked mode cannot promise anything inside a capture. */
static void test_refused(struct cuda_test *t) {
    struct setting s = step_setting("wire=pack(0.75)", false);
    struct world w;
    cudaGraph_t graph;
    uint64_t ticket;
    s.options.mode = SLUICE_CHECKED;
    if (!world_graph(t, &w, &s))
        return;
    CUDA(cudaStreamBeginCapture(w.stream, cudaStreamCaptureModeThreadLocal));
    check(t, sluice_graph_enqueue(w.graph, w.stream, &ticket) == SLUICE_INVALID_ARGUMENT,
          "captured in checked mode");
    check(t, sluice_graph_launch(w.graph, w.stream, &ticket) == SLUICE_INVALID_ARGUMENT,
          "launched into a capture");
    CUDA(cudaStreamEndCapture(w.stream, &graph));
    CUDA(cudaGraphDestroy(graph));
    world_fill(t, &w, DATA_BITS, 2);
    ok(t, &w, sluice_graph_launch(w.graph, w.stream, &ticket), "launch");
    CUDA(cudaStreamBeginCapture(w.stream, cudaStreamCaptureModeThreadLocal));
    check(t, sluice_graph_wait(w.graph, ticket) == SLUICE_INVALID_ARGUMENT,
          "waited while the stream is captured");
    CUDA(cudaStreamEndCapture(w.stream, &graph));
    CUDA(cudaGraphDestroy(graph));
    ok(t, &w, sluice_graph_wait(w.graph, ticket), "wait after the capture");
    world_check(t, &w, "after a capture", 2);
    world_close(&w);
}

void test_outer_graph(struct cuda_test *t) {
    replay(t, "wire=none", false);
    replay(t, "wire=pack(0.75)", false);
    replay(t, "wire=pack(0.75)", true);
    test_due(t, false);
    test_due(t, true);
    test_refused(t);
}
