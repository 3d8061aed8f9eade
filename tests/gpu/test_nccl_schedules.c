/* Every shipped schedule over NCCL: the bits of the CPU executor. */
#include "tests/gpu/nccl_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const shipped[] = {"allgather_bruck.slc",
                                      "allgather_direct.slc",
                                      "allgather_ring.slc",
                                      "allreduce_double_tree.slc",
                                      "allreduce_halving_doubling.slc",
                                      "allreduce_hierarchical.slc",
                                      "allreduce_ring.slc",
                                      "allreduce_switch.slc",
                                      "allreduce_tree.slc",
                                      "allreduce_twoshot.slc",
                                      "alltoall_bruck.slc",
                                      "alltoall_direct.slc",
                                      "alltoall_hierarchical.slc",
                                      "broadcast_chain.slc",
                                      "hsdp_sync.slc",
                                      "kv_transfer.slc",
                                      "pipeline_shift.slc",
                                      "reduce_scatter_direct.slc",
                                      "reduce_scatter_ring.slc",
                                      "reduce_tree.slc"};

/* Sets with different data, so that a run that did nothing is seen. */
static void run_schedule(struct world *w, const struct job_options *o, unsigned *ran) {
    struct job j;
    if (!job_open(w, o, &j))
        return; /* not for so many ranks; or told already */
    (*ran)++;
    for (int set = 0; set < j.sets; set++)
        if (!job_run(&j, set, w->stream))
            break;
    uint64_t wrong = job_wrong(w);
    expect(w, wrong == 0, "%s, %llu of %d: %llu elements wrong", j.name,
           (unsigned long long)o->count, (int)o->dtype, (unsigned long long)wrong);
    world_barrier(w);
    job_close(&j);
}

void test_nccl_schedules(struct world *w) {
    static const char *const wires[] = {NULL, "none", "quant(8)"};
    unsigned ran = 0;
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++)
        for (int c = 0; c < 3; c++) {
            if (c > 0 && strcmp(shipped[i], "allreduce_switch.slc") == 0)
                continue; /* its parameters are not called wire */
            struct job_options o = {.schedule = shipped[i],
                                    .wire = wires[c],
                                    .dtype = c == 0 ? SLUICE_BF16 : SLUICE_F32,
                                    .op = c == 1 ? SLUICE_AVG : SLUICE_SUM,
                                    .count = c == 0 ? 100003 : 4099,
                                    .slices = c == 2 ? 3 : 0,
                                    .sets = 3,
                                    .in_place = false};
            run_schedule(w, &o, &ran);
        }
    expect(w, ran >= 40, "only %u schedules ran", ran);

    struct job_options two_nodes = {.schedule = "allreduce_hierarchical.slc",
                                    .dtype = SLUICE_BF16,
                                    .count = 50021,
                                    .sets = 2,
                                    .ranks_per_node = w->ranks / 2};
    struct job_options in_place = {.schedule = "allreduce_ring.slc",
                                   .dtype = SLUICE_F16,
                                   .count = 70001,
                                   .sets = 2,
                                   .in_place = true};
    unsigned before = ran;
    run_schedule(w, &two_nodes, &ran);
    run_schedule(w, &in_place, &ran);
    expect(w, ran == before + 2, "two nodes, or in place: did not run");
}

/* With SLUICE_DISABLE=1 NCCL does it, in its own order of additions: exact sums. */
static enum job_data exact(int set, int rank, int ranks) {
    (void)set, (void)rank, (void)ranks;
    return DATA_EXACT;
}

void test_nccl_disabled(struct world *w) {
    static const char *const of[] = {"allreduce_ring.slc",        "allgather_direct.slc",
                                     "alltoall_direct.slc",       "broadcast_chain.slc",
                                     "reduce_scatter_direct.slc", "reduce_tree.slc"};
    unsigned ran = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct job_options o = {
            .schedule = of[i], .dtype = SLUICE_F32, .count = 10007, .sets = 2, .data = exact};
        struct job j;
        if (!job_open(w, &o, &j))
            continue;
        ran++;
        sluice_graph_stats s = job_stats(&j);
        expect(w, s.wire_bytes == s.raw_bytes, "%s: not disabled, %llu bytes on the wire of %llu",
               j.name, (unsigned long long)s.wire_bytes, (unsigned long long)s.raw_bytes);
        job_run(&j, 0, w->stream);
        job_run(&j, 1, w->stream);
        uint64_t wrong = job_wrong(w);
        expect(w, wrong == 0, "%s: %llu elements wrong", j.name, (unsigned long long)wrong);
        world_barrier(w);
        job_close(&j);
    }
    expect(w, ran == sizeof of / sizeof *of, "only %u schedules ran", ran);
}

/* One rank wants something else: all are told what. */
static void disagree(struct world *w, const struct job_options *o, const char *words) {
    struct job j;
    char path[512], text[256];
    sluice_options so = SLUICE_OPTIONS_INIT;
    const char *defines[2] = {o->define, NULL};
    j.graph = NULL;
    so.ranks = w->ranks;
    so.dtype = o->dtype;
    so.op = o->op;
    so.count = o->count;
    so.slices = o->slices;
    so.defines = defines;
    so.gpu_only = 1;
    snprintf(path, sizeof path, "%s/%s", w->schedules, o->schedule);
    if (!expect(w, sluice_compile_file(&j.plan, path, &so) == SLUICE_OK, "%s", path))
        return;
    void *buffer;
    CUDA_MUST(cudaMalloc(&buffer, 1 << 20));
    const void *send = buffer;
    sluice_status s = sluice_graph_create(&j.graph, j.plan, w->sluice, &send, &buffer, NULL);
    snprintf(text, sizeof text, "%s", sluice_graph_error(j.graph));
    expect(w, s == SLUICE_PEER_ERROR, "%s: %s instead of a peer error", words,
           sluice_status_text(s));
    expect(w, strstr(text, words) != NULL, "'%s' does not speak of %s", text, words);
    sluice_graph_destroy(j.graph);
    sluice_destroy(j.plan);
    cudaFree(buffer);
}

void test_nccl_disagreement(struct world *w) {
    bool odd = w->rank == w->ranks - 1;
    struct job_options o = {.schedule = "allreduce_ring.slc", .dtype = SLUICE_F32, .count = 5000};
    o.count = odd ? 5001 : 5000;
    disagree(w, &o, "count");
    o.count = 5000;
    o.dtype = odd ? SLUICE_I32 : SLUICE_F32;
    o.define = "wire=none";
    disagree(w, &o, "datatype");
    o.dtype = SLUICE_F32;
    o.op = odd ? SLUICE_MAX : SLUICE_SUM;
    disagree(w, &o, "operator");
    o.op = SLUICE_SUM;
    o.define = odd ? "wire=quant(8)" : "wire=none";
    disagree(w, &o, "codecs");
    o.define = "wire=none";
    o.schedule = odd ? "allreduce_tree.slc" : "allreduce_ring.slc";
    disagree(w, &o, "schedule");
    /* and it still works when they agree */
    struct job j;
    struct job_options same = {.schedule = "allreduce_ring.slc", .dtype = SLUICE_F32, .count = 999};
    if (expect(w, job_open(w, &same, &j), "after disagreeing")) {
        job_run(&j, 0, w->stream);
        expect(w, job_wrong(w) == 0, "after disagreeing: wrong elements");
        job_close(&j);
    }
}
