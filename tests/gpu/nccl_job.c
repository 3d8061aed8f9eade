/* A schedule, its graph, and inputs with known results. */
#include "tests/gpu/nccl_test.h"

#include "kernels/codec_bench.h"
#include "kernels/gpu_verify.h"
#include "runtime/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(enum dtype t, enum job_data data, uint64_t seed, int ranks, void *dst,
                 uint64_t elems) {
    uint64_t block = elems / (uint64_t)ranks;
    switch (data) {
    case DATA_BELL:
        codec_bench_generate(t, dst, elems, seed);
        return;
    case DATA_NOISE:
        input_generate(INPUT_BITS, t, seed, 0, 0, elems, dst);
        return;
    case DATA_NOISE_FOR_1:
        codec_bench_generate(t, dst, elems, seed);
        if (ranks > 1)
            input_generate(INPUT_BITS, t, seed, 0, 0, block, (char *)dst + block * dtype_bytes(t));
        return;
    case DATA_EXACT:
        input_generate(INPUT_EXACT, t, seed, 0, 0, elems, dst);
        return;
    }
}

static char *to_device(const void *host, size_t bytes) {
    char *dev;
    CUDA_MUST(cudaMalloc((void **)&dev, bytes ? bytes : 1));
    CUDA_MUST(cudaMemcpy(dev, host, bytes, cudaMemcpyHostToDevice));
    return dev;
}

static void *room(size_t bytes) {
    void *p = calloc(bytes ? bytes : 1, 1);
    if (!p) {
        printf("no memory\n");
        exit(2);
    }
    return p;
}

/* All ranks' inputs of a set, and results on the CPU; this rank keeps its own on the device. */
static bool make_set(struct job *j, const struct job_options *o, int set) {
    struct world *w = j->w;
    size_t n = (size_t)w->ranks;
    void **send = room(n * sizeof *send), **recv = room(n * sizeof *recv);
    for (int r = 0; r < w->ranks; r++) {
        size_t bytes = sluice_send_bytes(j->plan, r);
        send[r] = room(bytes);
        recv[r] = room(sluice_recv_bytes(j->plan, r));
        fill((enum dtype)o->dtype, o->data ? o->data(set, r, w->ranks) : DATA_BELL,
             (uint64_t)(set * 1000 + r + 1), w->ranks, send[r],
             bytes / dtype_bytes((enum dtype)o->dtype));
    }
    bool ok = sluice_run_cpu(j->plan, (const void *const *)send, recv) == SLUICE_OK;
    expect(w, ok, "%s on the CPU: %s", j->name, sluice_error(j->plan));
    j->input_dev[set] = to_device(send[w->rank], j->send_bytes);
    j->want_dev[set] = to_device(recv[w->rank], j->recv_bytes);
    for (size_t r = 0; r < n; r++) {
        free(send[r]);
        free(recv[r]);
    }
    free(send);
    free(recv);
    return ok;
}

static bool compile(struct job *j, const struct job_options *o) {
    char path[512], wire[128];
    const char *defines[3] = {NULL, NULL, NULL};
    size_t n = 0;
    sluice_options so = SLUICE_OPTIONS_INIT;
    snprintf(path, sizeof path, "%s/%s", j->w->schedules, o->schedule);
    snprintf(wire, sizeof wire, "wire=%s", o->wire ? o->wire : "");
    if (o->wire)
        defines[n++] = wire;
    defines[n] = o->define;
    so.ranks = j->w->ranks;
    so.ranks_per_node = o->ranks_per_node;
    so.dtype = o->dtype;
    so.op = o->op;
    so.count = o->count;
    so.slices = o->slices;
    so.threads = 2;
    so.defines = defines;
    return sluice_compile_file(&j->plan, path, &so) == SLUICE_OK;
}

bool job_open(struct world *w, const struct job_options *o, struct job *j) {
    sluice_graph_options go = SLUICE_GRAPH_OPTIONS_INIT;
    *j = (struct job){.w = w, .dtype = o->dtype, .sets = o->sets > 0 ? o->sets : 1};
    snprintf(j->name, sizeof j->name, "%.40s %.30s, %d ranks", o->schedule,
             o->wire ? o->wire : "as it is", w->ranks);
    if (!compile(j, o)) {
        sluice_destroy(j->plan);
        return false;
    }
    j->send_bytes = sluice_send_bytes(j->plan, w->rank);
    j->recv_bytes = sluice_recv_bytes(j->plan, w->rank);
    for (int s = 0; s < j->sets; s++)
        if (!make_set(j, o, s))
            return false;
    CUDA_MUST(cudaMalloc((void **)&j->recv_dev, j->recv_bytes ? j->recv_bytes : 1));
    j->send_dev = j->recv_dev;
    if (!o->in_place)
        CUDA_MUST(cudaMalloc((void **)&j->send_dev, j->send_bytes ? j->send_bytes : 1));
    CUDA_MUST(cudaDeviceSynchronize());
    go.mode = o->mode;
    go.adapt = !o->fixed_slots;
    const void *send = j->send_dev;
    void *recv = j->recv_dev;
    return expect_ok(w, sluice_graph_create(&j->graph, j->plan, w->sluice, &send, &recv, &go),
                     j->graph, j->name);
}

void job_load(struct job *j, int set, cudaStream_t stream) {
    if (j->send_dev != j->recv_dev)
        CUDA_MUST(cudaMemsetAsync(j->recv_dev, 0xa5, j->recv_bytes, stream));
    CUDA_MUST(cudaMemcpyAsync(j->send_dev, j->input_dev[set], j->send_bytes,
                              cudaMemcpyDeviceToDevice, stream));
}

void job_judge(struct job *j, int set, cudaStream_t stream) {
    CUDA_MUST(gpu_count_different((enum dtype)j->dtype, j->recv_dev, j->want_dev[set],
                                  j->recv_bytes / dtype_bytes((enum dtype)j->dtype),
                                  j->w->wrong_dev, stream));
}

uint64_t job_wrong(struct world *w) {
    unsigned long long wrong;
    CUDA_MUST(cudaDeviceSynchronize());
    CUDA_MUST(cudaMemcpy(&wrong, w->wrong_dev, sizeof wrong, cudaMemcpyDeviceToHost));
    CUDA_MUST(cudaMemset(w->wrong_dev, 0, sizeof wrong));
    CUDA_MUST(cudaDeviceSynchronize());
    return wrong;
}

bool job_run(struct job *j, int set, cudaStream_t stream) {
    uint64_t ticket;
    job_load(j, set, stream);
    if (!expect_ok(j->w, sluice_graph_launch(j->graph, stream, &ticket), j->graph, j->name) ||
        !expect_ok(j->w, sluice_graph_wait(j->graph, ticket), j->graph, j->name))
        return false;
    job_judge(j, set, stream);
    return true;
}

sluice_graph_stats job_stats(const struct job *j) {
    sluice_graph_stats s;
    expect_ok(j->w, sluice_graph_get_stats(j->graph, &s), j->graph, j->name);
    return s;
}

void job_close(struct job *j) {
    sluice_graph_destroy(j->graph);
    sluice_destroy(j->plan);
    for (int s = 0; s < j->sets; s++) {
        cudaFree(j->input_dev[s]);
        cudaFree(j->want_dev[s]);
    }
    if (j->send_dev != j->recv_dev)
        cudaFree(j->send_dev);
    cudaFree(j->recv_dev);
}
