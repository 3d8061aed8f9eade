/* Messages that do not fit their slots: the result is right all the same, or flagged on all ranks
 * alike. */
#include "tests/gpu/nccl_test.h"

#include "kernels/gpu_verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NOISE_FIRST = 6 }; /* sets from here on do not fit */

static enum job_data all_noise(int set, int rank, int ranks) {
    (void)set, (void)rank, (void)ranks;
    return DATA_NOISE;
}

/* Noise on rank 0 alone in one set, on the last rank alone in another. */
static enum job_data noise_on_one(int set, int rank, int ranks) {
    bool noisy = set == NOISE_FIRST ? rank == 0 : set > NOISE_FIRST && rank == ranks - 1;
    return noisy ? DATA_NOISE : DATA_BELL;
}

static enum job_data noise_for_1(int set, int rank, int ranks) {
    (void)ranks;
    return set >= NOISE_FIRST && rank == 0 ? DATA_NOISE_FOR_1 : DATA_BELL;
}

/* The same on all ranks, other than rand(). */
static unsigned next(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* Overflows as `sets` says: those with noise; they must be as many on all ranks. */
static void run_sets(struct world *w, const struct job_options *o, int runs, int noisy_from,
                     bool exactly) {
    struct job j;
    unsigned state = 7;
    uint64_t expected = 0;
    if (!expect(w, job_open(w, o, &j), "%s does not open", o->schedule))
        return;
    for (int i = 0; i < runs; i++) {
        int set = (int)(next(&state) % (unsigned)j.sets);
        expected += set >= noisy_from;
        if (!job_run(&j, set, w->stream))
            break;
    }
    uint64_t wrong = job_wrong(w), overflows = job_stats(&j).overflows;
    sluice_graph_stats s = job_stats(&j);
    expect(w, wrong == 0, "%s: %llu elements wrong", j.name, (unsigned long long)wrong);
    expect(w, s.runs == (uint64_t)runs, "%s: %llu runs", j.name, (unsigned long long)s.runs);
    expect(w, s.repairs == overflows, "%s: %llu repairs of %llu", j.name,
           (unsigned long long)s.repairs, (unsigned long long)overflows);
    expect(w, exactly ? overflows == expected : overflows > 0 || expected == 0,
           "%s: %llu of %d runs overflowed, expected %llu", j.name, (unsigned long long)overflows,
           runs, (unsigned long long)expected);
    expect(w, world_max(w, overflows) == overflows, "%s: the ranks count overflows differently",
           j.name);
    job_close(&j);
}

void test_nccl_overflow(struct world *w) {
    static const char *const schedules[] = {"allreduce_twoshot.slc", "allreduce_ring.slc",
                                            "allgather_ring.slc", "reduce_scatter_direct.slc",
                                            "broadcast_chain.slc"};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        struct job_options never = {
            .schedule = schedules[i], .wire = "pack", .dtype = SLUICE_BF16, .count = 200003};
        run_sets(w, &never, 12, JOB_SETS, true); /* slots shrink to what one set needs */
        never.wire = "pack(0.9)";
        never.fixed_slots = true;
        never.sets = 6;
        run_sets(w, &never, 12, JOB_SETS, true);
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        struct job_options always = {.schedule = "allreduce_twoshot.slc",
                                     .wire = "pack(0.6)",
                                     .dtype = SLUICE_BF16,
                                     .count = 200003,
                                     .sets = 3,
                                     .fixed_slots = true,
                                     .in_place = in_place != 0,
                                     .data = all_noise};
        run_sets(w, &always, 6, 0, true);
        struct job_options sometimes = {.schedule = "allreduce_ring.slc",
                                        .wire = "pack(0.85)",
                                        .dtype = SLUICE_BF16,
                                        .count = 200003,
                                        .sets = JOB_SETS,
                                        .fixed_slots = true,
                                        .in_place = in_place != 0,
                                        .data = noise_on_one};
        run_sets(w, &sometimes, 24, NOISE_FIRST, true);
        sometimes.wire = "pack";
        sometimes.fixed_slots = false; /* slots follow: the first noise overflows, or few */
        run_sets(w, &sometimes, 24, NOISE_FIRST, false);
    }
}

/* Only the message from rank 0 to rank 1 does not fit: the others must join the repair. */
void test_nccl_alltoall_without_mark(struct world *w) {
    struct job_options o = {.schedule = "alltoall_direct.slc",
                            .wire = "pack(0.85)",
                            .dtype = SLUICE_BF16,
                            .count = 50000,
                            .sets = JOB_SETS,
                            .fixed_slots = true,
                            .data = noise_for_1};
    run_sets(w, &o, 16, NOISE_FIRST, true);
}

/* A thousand replays, data that changes, noise on this rank or that, ranks that lag at random. */
void test_nccl_many_replays(struct world *w) {
    struct job_options o = {.schedule = "allreduce_twoshot.slc",
                            .wire = "pack",
                            .dtype = SLUICE_BF16,
                            .count = 100003,
                            .sets = JOB_SETS,
                            .data = noise_on_one};
    struct job j;
    unsigned state = 11, mine = (unsigned)w->rank * 77u + 1u;
    if (!expect(w, job_open(w, &o, &j), "%s does not open", o.schedule))
        return;
    for (int i = 0; i < 1000; i++) {
        /* long stretches without noise, so that slots shrink again */
        unsigned r = next(&state);
        int set = (int)(r % 100 < 97 ? r % NOISE_FIRST : NOISE_FIRST + r % 2);
        if (next(&mine) % 8 == 0)
            usleep(next(&mine) % 3000);
        if (!job_run(&j, set, w->stream))
            break;
    }
    uint64_t wrong = job_wrong(w);
    sluice_graph_stats s = job_stats(&j);
    expect(w, wrong == 0, "1,000 replays: %llu elements wrong", (unsigned long long)wrong);
    expect(w, s.overflows > 0, "1,000 replays without an overflow");
    expect(w, s.adaptations > 0, "1,000 replays without an adaptation");
    expect(w, world_max(w, s.overflows) == s.overflows, "the ranks count overflows differently");
    job_close(&j);
}

/* Two graphs in flight on two streams; one of them overflows while the other runs. */
void test_nccl_two_graphs(struct world *w) {
    struct job_options o = {.schedule = "allreduce_twoshot.slc",
                            .wire = "pack(0.85)",
                            .dtype = SLUICE_BF16,
                            .count = 300001,
                            .sets = JOB_SETS,
                            .fixed_slots = true,
                            .data = noise_on_one};
    struct job a, b;
    unsigned state = 3;
    cudaStream_t other;
    CUDA_MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    bool ok = expect(w, job_open(w, &o, &a), "the first graph does not open");
    o.schedule = "allgather_ring.slc";
    ok = expect(w, job_open(w, &o, &b), "the second graph does not open") && ok;
    for (int i = 0; i < 30 && ok; i++) {
        int set_a = (int)(next(&state) % JOB_SETS), set_b = (int)(next(&state) % JOB_SETS);
        uint64_t ticket_a, ticket_b;
        job_load(&a, set_a, w->stream);
        job_load(&b, set_b, other);
        ok = expect_ok(w, sluice_graph_launch(a.graph, w->stream, &ticket_a), a.graph, "launch") &&
             expect_ok(w, sluice_graph_launch(b.graph, other, &ticket_b), b.graph, "launch") &&
             expect_ok(w, sluice_graph_wait(a.graph, ticket_a), a.graph, "wait") &&
             expect_ok(w, sluice_graph_wait(b.graph, ticket_b), b.graph, "wait");
        job_judge(&a, set_a, w->stream);
        job_judge(&b, set_b, other);
    }
    uint64_t wrong = job_wrong(w);
    expect(w, wrong == 0, "two graphs: %llu elements wrong", (unsigned long long)wrong);
    if (ok)
        expect(w, job_stats(&a).overflows > 0 && job_stats(&b).overflows > 0,
               "two graphs: no overflow");
    world_barrier(w);
    job_close(&b);
    job_close(&a);
    cudaStreamDestroy(other);
}

/* ---- codecs that remember, across failed replays ---- */

/* Noise in the middle: what follows builds on what was remembered before it. */
static enum job_data noise_in_between(int set, int rank, int ranks) {
    bool noisy = (set == 2 && rank == 0) || (set == 5 && rank == ranks - 1);
    return noisy ? DATA_NOISE : DATA_BELL;
}

/* The sets in the order in which the CPU executor, which remembers as well, went through them. */
static void run_in_order(struct world *w, const struct job_options *o, bool overflows) {
    struct job j;
    sluice_stats cpu;
    if (!expect(w, job_open(w, o, &j), "%s does not open", o->schedule))
        return;
    expect(w, sluice_get_stats(j.plan, &cpu) == SLUICE_OK, "%s: no statistics", j.name);
    expect(w, overflows ? cpu.repairs > 0 && cpu.repairs < (uint64_t)j.sets : cpu.repairs == 0,
           "%s: %llu runs overflow on the CPU", j.name, (unsigned long long)cpu.repairs);
    expect(w, sluice_graph_state_bytes(j.graph) > 0, "%s remembers nothing", j.name);
    for (int set = 0; set < j.sets && job_run(&j, set, w->stream); set++) {
        uint64_t wrong = job_wrong(w);
        expect(w, wrong == 0, "%s, run %d: %llu elements wrong", j.name, set + 1,
               (unsigned long long)wrong);
    }
    uint64_t repairs = job_stats(&j).repairs;
    expect(w, repairs == cpu.repairs, "%s: %llu repairs, on the CPU %llu", j.name,
           (unsigned long long)repairs, (unsigned long long)cpu.repairs);
    job_close(&j);
}

void test_nccl_state(struct world *w) {
    static const struct {
        const char *codec;
        bool overflows;
    } cases[] = {{"delta | pack(0.99)", true},
                 {"topk(0.5) | pack(0.9)", true},
                 {"topk(0.02)", false},
                 {"quant(8, 64, stochastic)", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            struct job_options o = {.schedule = "allreduce_twoshot.slc",
                                    .wire = cases[i].codec,
                                    .dtype = SLUICE_BF16,
                                    .count = 100003,
                                    .sets = JOB_SETS,
                                    .fixed_slots = true,
                                    .in_place = in_place != 0,
                                    .data = noise_in_between};
            run_in_order(w, &o, cases[i].overflows);
        }
}

/* ---- flagged: inside graphs of the caller's -------------------------------------------------- */

static cudaGraphExec_t capture_set(struct job *j, int set, const uint32_t *want_flag_dev) {
    struct world *w = j->w;
    cudaGraph_t graph;
    cudaGraphExec_t exec = NULL;
    CUDA_MUST(cudaStreamBeginCapture(w->stream, cudaStreamCaptureModeThreadLocal));
    job_load(j, set, w->stream);
    expect_ok(w, sluice_graph_enqueue(j->graph, w->stream, NULL), j->graph, "enqueue");
    if (set < NOISE_FIRST)
        job_judge(j, set, w->stream);
    CUDA_MUST(gpu_count_different(DTYPE_I32, sluice_graph_flag(j->graph), want_flag_dev, 1,
                                  w->wrong_dev, w->stream));
    CUDA_MUST(cudaStreamEndCapture(w->stream, &graph));
    CUDA_MUST(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_MUST(cudaGraphDestroy(graph));
    return exec;
}

void test_nccl_flagged(struct world *w) {
    struct job_options o = {.schedule = "allreduce_twoshot.slc",
                            .wire = "pack(0.85)",
                            .dtype = SLUICE_BF16,
                            .count = 50021,
                            .sets = JOB_SETS,
                            .fixed_slots = true,
                            .mode = SLUICE_FLAGGED,
                            .data = noise_on_one};
    struct job j;
    cudaGraphExec_t exec[JOB_SETS];
    uint32_t flags[2] = {0, 1}, *flags_dev;
    unsigned state = 5;
    if (!expect(w, job_open(w, &o, &j), "%s does not open", o.schedule))
        return;
    CUDA_MUST(cudaMalloc((void **)&flags_dev, sizeof flags));
    CUDA_MUST(cudaMemcpy(flags_dev, flags, sizeof flags, cudaMemcpyHostToDevice));
    CUDA_MUST(cudaDeviceSynchronize());
    for (int s = 0; s < JOB_SETS; s++)
        exec[s] = capture_set(&j, s, flags_dev + (s >= NOISE_FIRST));
    world_barrier(w);
    for (int i = 0; i < 1000; i++) /* the host never waits for the device here */
        CUDA_MUST(cudaGraphLaunch(exec[next(&state) % JOB_SETS], w->stream));
    uint64_t wrong = job_wrong(w);
    expect(w, wrong == 0, "flagged, 1,000 replays: %llu elements or flags wrong",
           (unsigned long long)wrong);
    world_barrier(w);
    /* the graphs of the caller outlive the handle */
    job_close(&j);
    for (int s = 0; s < JOB_SETS; s++)
        CUDA_MUST(cudaGraphExecDestroy(exec[s]));
    CUDA_MUST(cudaDeviceSynchronize());
    cudaFree(flags_dev);
}
