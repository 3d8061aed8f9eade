/*
 * cuda_test.c: data, and schedules with memory for all ranks, for the tests of graphs on GPUs and
 * their benchmark.
 */
#include "tests/gpu/cuda_test.h"

#include "kernels/reduce.h"

#include <math.h>
#include <stdarg.h>

void cuda_must(cudaError_t e, const char *text, const char *file, int line) {
    if (e == cudaSuccess)
        return;
    printf("%s:%d: %s: %s\n", file, line, text, cudaGetErrorString(e));
    exit(1);
}

bool check(struct cuda_test *t, bool right, const char *format, ...) {
    va_list args;
    t->checks++;
    if (right)
        return true;
    if (++t->failures <= 40) {
        va_start(args, format);
        printf("wrong: ");
        vprintf(format, args);
        printf("\n");
        va_end(args);
        fflush(stdout);
    }
    return false;
}

/* ---- data ---- */

uint64_t mix(uint64_t seed) { /* splitmix64 */
    uint64_t z = seed + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static float bell(uint64_t seed) {
    uint64_t z = mix(seed);
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(z >> 16 * i & 0xffff) / 65536.0f - 0.5f;
    return sum * 0.01f;
}

static void fill_bell(sluice_dtype type, void *to, size_t bytes, uint64_t seed) {
    if (type == SLUICE_F32)
        for (size_t i = 0; i < bytes / 4; i++) {
            uint32_t bits;
            float f = bell(seed + i);
            memcpy(&bits, &f, 4);
            bits &= 0xffff0000u; /* as accumulated from bf16: low bits are zero */
            memcpy((char *)to + 4 * i, &bits, 4);
        }
    else if (type == SLUICE_F16 || type == SLUICE_BF16)
        for (size_t i = 0; i < bytes / 2; i++)
            ((uint16_t *)to)[i] = type == SLUICE_F16 ? half_from_float(bell(seed + i))
                                                     : bfloat_from_float(bell(seed + i));
    else
        memset(to, 1, bytes);
}

void fill_data(sluice_dtype type, enum data kind, void *to, size_t bytes, uint64_t seed, int rank) {
    uint64_t own = mix(seed * 1000 + (uint64_t)rank);
    bool bits = kind == DATA_BITS || (kind == DATA_ONE && (uint64_t)rank == seed % 2) ||
                (kind == DATA_MIXED && mix(seed) % 2 == 0);
    if (!bits) {
        fill_bell(type, to, bytes, own);
        return;
    }
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t z = mix(own + i);
        memcpy((char *)to + i, &z, bytes - i < 8 ? bytes - i : 8);
    }
}

/* ---- worlds ---- */

struct setting setting_of(const char *path, int ranks, uint64_t count) {
    sluice_graph_options o = SLUICE_GRAPH_OPTIONS_INIT;
    return (struct setting){
        .path = path, .ranks = ranks, .dtype = SLUICE_BF16, .count = count, .options = o};
}

char *world_name(const struct world *w) {
    static _Thread_local char name[300];
    const struct setting *s = &w->s;
    snprintf(name, sizeof name, "%s at %d ranks, type %d, op %d, %llu elements, slices %d, %s%s%s",
             s->path, s->ranks, (int)s->dtype, (int)s->op, (unsigned long long)s->count, s->slices,
             s->defines[0] ? s->defines[0] : "", s->in_place ? ", in place" : "",
             s->options.mode == SLUICE_FLAGGED ? ", flagged" : "");
    return name;
}

bool ok(struct cuda_test *t, const struct world *w, sluice_status s, const char *what) {
    return check(t, s == SLUICE_OK, "%s: %s: %s (%s)", world_name(w), what, sluice_status_text(s),
                 sluice_graph_error(w->graph));
}

bool world_open(struct cuda_test *t, struct world *w, const struct setting *s) {
    sluice_options o = SLUICE_OPTIONS_INIT;
    *w = (struct world){.s = *s};
    o.ranks = s->ranks;
    o.ranks_per_node = s->ranks_per_node;
    o.dtype = s->dtype;
    o.op = s->op;
    o.count = s->count;
    o.slices = s->slices;
    o.defines = s->defines;
    sluice_status status = sluice_compile_file(&w->plan, s->path, &o);
    if (status != SLUICE_OK) {
        check(t,
              status == SLUICE_INVALID_SCHEDULE &&
                  strstr(sluice_diagnostics(w->plan), "require") != NULL,
              "%s: %s", world_name(w), sluice_diagnostics(w->plan));
        sluice_destroy(w->plan);
        return false;
    }
    size_t most = 16;
    CUDA(cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking));
    for (int r = 0; r < s->ranks; r++) {
        w->send_bytes[r] = sluice_send_bytes(w->plan, r);
        w->recv_bytes[r] = sluice_recv_bytes(w->plan, r);
        w->send_host[r] = malloc(w->send_bytes[r] + 8);
        w->want[r] = calloc(w->recv_bytes[r] + 8, 1);
        most = w->recv_bytes[r] > most ? w->recv_bytes[r] : most;
        CUDA(cudaMalloc(&w->recv_dev[r], w->recv_bytes[r] + w->send_bytes[r] + 8));
        w->send_dev[r] = w->recv_dev[r];
        if (!s->in_place)
            CUDA(cudaMalloc(&w->send_dev[r], w->send_bytes[r] + 8));
    }
    w->got = malloc(most);
    return true;
}

bool world_graph(struct cuda_test *t, struct world *w, const struct setting *s) {
    if (!world_open(t, w, s))
        return false;
    ok(t, w, sluice_comm_local(&w->comm, s->ranks), "comm");
    if (ok(t, w,
           sluice_graph_create(&w->graph, w->plan, w->comm, (const void *const *)w->send_dev,
                               w->recv_dev, &s->options),
           "create"))
        return true;
    world_close(w);
    return false;
}

void world_close(struct world *w) {
    sluice_graph_destroy(w->graph);
    sluice_comm_destroy(w->comm);
    for (int r = 0; r < w->s.ranks; r++) {
        if (!w->s.in_place)
            CUDA(cudaFree(w->send_dev[r]));
        CUDA(cudaFree(w->recv_dev[r]));
        free(w->send_host[r]);
        free(w->want[r]);
    }
    CUDA(cudaStreamDestroy(w->stream));
    free(w->got);
    sluice_destroy(w->plan);
}

void world_fill(struct cuda_test *t, struct world *w, enum data kind, uint64_t seed) {
    for (int r = 0; r < w->s.ranks; r++) {
        fill_data(w->s.dtype, kind, w->send_host[r], w->send_bytes[r], seed, r);
        if (!w->s.in_place) {
            memset(w->want[r], 0xa5, w->recv_bytes[r]);
            CUDA(cudaMemsetAsync(w->recv_dev[r], 0xa5, w->recv_bytes[r], w->stream));
        } else {
            memset(w->want[r], 0, w->recv_bytes[r]);
            memcpy(w->want[r], w->send_host[r],
                   w->send_bytes[r] < w->recv_bytes[r] ? w->send_bytes[r] : w->recv_bytes[r]);
            CUDA(cudaMemsetAsync(w->recv_dev[r], 0, w->recv_bytes[r], w->stream));
        }
        CUDA(cudaMemcpyAsync(w->send_dev[r], w->send_host[r], w->send_bytes[r],
                             cudaMemcpyHostToDevice, w->stream));
    }
    ok(t, w, sluice_run_cpu(w->plan, (const void *const *)w->send_host, w->want), "cpu");
}

bool world_check(struct cuda_test *t, struct world *w, const char *what, uint64_t number) {
    bool right = true;
    CUDA(cudaStreamSynchronize(w->stream));
    for (int r = 0; r < w->s.ranks && right; r++) {
        CUDA(cudaMemcpy(w->got, w->recv_dev[r], w->recv_bytes[r], cudaMemcpyDeviceToHost));
        right = !memcmp(w->got, w->want[r], w->recv_bytes[r]);
        size_t at = 0;
        while (!right && ((char *)w->got)[at] == ((char *)w->want[r])[at])
            at++;
        check(t, right, "%s: %s %llu: rank %d, byte %zu of %zu", world_name(w), what,
              (unsigned long long)number, r, at, w->recv_bytes[r]);
    }
    return right;
}

bool world_run(struct cuda_test *t, struct world *w, enum data kind, uint64_t seed, bool eager) {
    uint64_t ticket = 0;
    world_fill(t, w, kind, seed);
    return ok(t, w,
              eager ? sluice_graph_enqueue(w->graph, w->stream, &ticket)
                    : sluice_graph_launch(w->graph, w->stream, &ticket),
              eager ? "enqueue" : "launch") &&
           ok(t, w, sluice_graph_wait(w->graph, ticket), "wait") &&
           world_check(t, w, eager ? "enqueue" : "launch", seed);
}
