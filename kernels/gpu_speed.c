/*
 * gpu_speed.c: see gpu_speed.h.
 */
#include "kernels/gpu_speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP       5
#define MAX_SAMPLES   1000
#define MAX_SETS      64
#define LEAST_LAUNCH  8 /* a sample */
#define ROTATED_BYTES (UINT64_C(1) << 30)
#define COPIED_BYTES  (UINT64_C(1) << 30)
#define MAX_PIECES    3 /* that are added */

/* One of the buffer sets that launches rotate over. States are just begun, at either end. */
struct set {
    unsigned char *chunk, *piece, *sum, *sum_piece;
    struct gpu_state state;
};

/* Once something has failed, nothing more is tried. */
struct bench {
    const struct codec *codec;
    enum dtype t;
    int samples;
    uint64_t elems, bytes, slot_bytes;
    uint32_t set_count;
    struct set sets[MAX_SETS];
    uint64_t state_bytes[2]; /* of an enum codec_side */
    void *workspace_dev, *scratch_dev;
    uint32_t *status_dev;
    cudaStream_t stream;
    cudaError_t error;
    const char *failed;
};

static bool did(struct bench *b, cudaError_t e, const char *what) {
    if (b->error == cudaSuccess && e != cudaSuccess) {
        b->error = e;
        b->failed = what;
    }
    return b->error == cudaSuccess;
}

/* Ends the use of b: false, with a message, if something failed. */
static bool verdict(const struct bench *b, char *err, size_t err_bytes) {
    if (b->error != cudaSuccess)
        snprintf(err, err_bytes, "%s: %s", b->failed, cudaGetErrorString(b->error));
    return b->error == cudaSuccess;
}

static void *alloc(struct bench *b, uint64_t bytes) {
    void *dev = NULL;

    if (b->error == cudaSuccess)
        did(b, cudaMalloc(&dev, bytes == 0 ? 1 : bytes), "device memory");
    return dev;
}

/* ---- timing ---- */

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Launch i; the buffers are those of set i % set_count. */
typedef cudaError_t (*launch_fn)(struct bench *b, uint32_t i);

/* Median milliseconds of a launch; 0 where the launcher has no kernel for it. */
static double measure(struct bench *b, launch_fn launch) {
    uint32_t launches =
        (LEAST_LAUNCH > b->set_count ? LEAST_LAUNCH / b->set_count : 1) * b->set_count;
    cudaEvent_t start = NULL, end = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaError_t e = cudaSuccess;
    float ms[MAX_SAMPLES];

    if (!did(b, cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal), "capture"))
        return 0;
    for (uint32_t i = 0; i < launches && e == cudaSuccess; i++)
        e = launch(b, i);
    did(b, cudaStreamEndCapture(b->stream, &graph), "capture");
    if (e == cudaErrorNotSupported) {
        cudaGraphDestroy(graph);
        return 0;
    }
    did(b, e, "launch");
    if (b->error == cudaSuccess)
        did(b, cudaGraphInstantiate(&exec, graph, 0), "graph");
    did(b, cudaEventCreate(&start), "event");
    did(b, cudaEventCreate(&end), "event");
    for (int i = -WARM_UP; i < b->samples && b->error == cudaSuccess; i++) {
        did(b, cudaEventRecord(start, b->stream), "event");
        did(b, cudaGraphLaunch(exec, b->stream), "graph");
        did(b, cudaEventRecord(end, b->stream), "event");
        did(b, cudaEventSynchronize(end), "graph");
        if (i >= 0)
            did(b, cudaEventElapsedTime(&ms[i], start, end), "event");
    }
    cudaEventDestroy(end);
    cudaEventDestroy(start);
    if (exec != NULL)
        cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    if (b->error != cudaSuccess)
        return 0;
    qsort(ms, (size_t)b->samples, sizeof *ms, compare_floats);
    return (double)ms[b->samples / 2] / launches;
}

/* ---- the copy rate ---- */

static cudaError_t launch_copy(struct bench *b, uint32_t i) {
    const struct set *s = &b->sets[i % b->set_count];

    return gpu_speed_copy(s->sum, s->chunk, b->bytes, b->stream);
}

static cudaError_t launch_memcpy(struct bench *b, uint32_t i) {
    const struct set *s = &b->sets[i % b->set_count];

    return cudaMemcpyAsync(s->sum, s->chunk, b->bytes, cudaMemcpyDeviceToDevice, b->stream);
}

bool gpu_speed_open(struct gpu_speed_device *d, char *err, size_t err_bytes) {
    struct bench b = {.samples = GPU_SPEED_LEAST_SAMPLES + 5, .bytes = COPIED_BYTES};
    struct cudaDeviceProp properties;
    int devices = 0, current = 0;
    double ms, memcpy_ms;

    memset(d, 0, sizeof *d);
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        snprintf(err, err_bytes, "no CUDA device");
        return false;
    }
    did(&b, cudaGetDevice(&current), "device");
    did(&b, cudaGetDeviceProperties(&properties, current), "device");
    did(&b, cudaDriverGetVersion(&d->driver), "driver");
    did(&b, cudaRuntimeGetVersion(&d->runtime), "runtime");
    did(&b, cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "stream");
    b.set_count = 2;
    for (uint32_t i = 0; i < b.set_count; i++) {
        b.sets[i] = (struct set){.chunk = alloc(&b, b.bytes), .sum = alloc(&b, b.bytes)};
        if (b.error == cudaSuccess)
            did(&b, cudaMemset(b.sets[i].chunk, (int)i + 1, b.bytes), "memory");
    }
    did(&b, cudaDeviceSynchronize(), "memory");
    ms = measure(&b, launch_copy);
    memcpy_ms = measure(&b, launch_memcpy);
    for (uint32_t i = 0; i < b.set_count; i++) {
        cudaFree(b.sets[i].chunk);
        cudaFree(b.sets[i].sum);
    }
    if (b.stream != NULL)
        cudaStreamDestroy(b.stream);
    if (!verdict(&b, err, err_bytes))
        return false;
    snprintf(d->name, sizeof d->name, "%s", properties.name);
    d->copy_gbps = 2e-6 * (double)b.bytes / (ms < memcpy_ms ? ms : memcpy_ms);
    return true;
}

/* ---- codecs ---- */

static cudaError_t launch_encode(struct bench *b, uint32_t i) {
    const struct set *s = &b->sets[i % b->set_count];
    struct gpu_extra extra = {.scratch_dev = b->scratch_dev, .state = s->state};

    return gpu_encode_with(b->codec, b->t, s->chunk, b->elems, s->piece, b->slot_bytes,
                           b->workspace_dev, &extra, b->status_dev, b->stream);
}

static cudaError_t launch_decode(struct bench *b, uint32_t i) {
    const struct set *s = &b->sets[i % b->set_count];
    struct gpu_extra extra = {.scratch_dev = b->scratch_dev, .state = s->state};

    return gpu_decode_with(b->codec, b->t, s->piece, b->slot_bytes, b->elems, s->sum, &extra,
                           b->status_dev, b->stream);
}

/* The chunk of a set, its piece and those of the sets after it. */
static cudaError_t launch_add(struct bench *b, uint32_t i, uint32_t pieces, bool encode) {
    const struct set *s = &b->sets[i % b->set_count];
    struct gpu_operand in[1 + MAX_PIECES] = {{GPU_CHUNK, s->chunk, 0, codec_none()}};
    struct gpu_state states[1 + MAX_PIECES] = {{NULL, NULL, 0}};
    struct gpu_extra extra = {b->scratch_dev, s->state, states};

    for (uint32_t p = 0; p < pieces; p++) {
        const struct set *from = &b->sets[(i + p) % b->set_count];

        in[1 + p] = (struct gpu_operand){GPU_PIECE, from->piece, b->slot_bytes, *b->codec};
        states[1 + p] = from->state;
    }
    return gpu_combine_with(b->t, REDOP_SUM, in, 1 + pieces, b->elems, 0, NULL,
                            encode ? NULL : s->sum, b->codec, encode ? s->sum_piece : NULL,
                            b->slot_bytes, b->workspace_dev, &extra, b->status_dev, b->stream);
}

static cudaError_t launch_decode_add(struct bench *b, uint32_t i) {
    return launch_add(b, i, 1, false);
}

static cudaError_t launch_decode_add_encode(struct bench *b, uint32_t i) {
    return launch_add(b, i, 1, true);
}

static cudaError_t launch_three_add_encode(struct bench *b, uint32_t i) {
    return launch_add(b, i, MAX_PIECES, true);
}

static const struct {
    const char *name;
    launch_fn launch;
    uint32_t chunks, pieces, sum_pieces; /* read or written */
} kernels[] = {{"encode", launch_encode, 1, 1, 0},
               {"decode", launch_decode, 1, 1, 0},
               {"decode + add", launch_decode_add, 2, 1, 0},
               {"decode + add + encode", launch_decode_add_encode, 1, 1, 1},
               {"3 pieces + add + encode", launch_three_add_encode, 1, MAX_PIECES, 1}};

const char *gpu_speed_kernel_name(enum gpu_speed_kernel k) {
    return kernels[k].name;
}

/* A state is read as it is and written as it is next. */
static uint64_t state_bytes_moved(const struct bench *b, int k) {
    uint64_t decoded = k == GPU_SPEED_ENCODE ? 0 : kernels[k].pieces;
    uint64_t encoded = k == GPU_SPEED_ENCODE ? 1 : kernels[k].sum_pieces;

    return 2 * (encoded * b->state_bytes[CODEC_ENCODER] + decoded * b->state_bytes[CODEC_DECODER]);
}

static void open_states(struct bench *b) {
    uint64_t bytes = b->state_bytes[0] > b->state_bytes[1] ? b->state_bytes[0] : b->state_bytes[1];

    for (uint32_t i = 0; i < b->set_count && bytes != 0; i++) {
        void *now = alloc(b, bytes);

        if (b->error == cudaSuccess)
            did(b, cudaMemset(now, 0, bytes), "memory");
        b->sets[i].state = (struct gpu_state){now, alloc(b, bytes), 0};
    }
}

static void open_sets(struct bench *b, const void *values, uint64_t values_bytes) {
    uint64_t workspace_bytes = gpu_workspace_bytes(b->codec, b->t, b->elems);

    did(b, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "stream");
    b->status_dev = alloc(b, sizeof *b->status_dev);
    b->workspace_dev = alloc(b, workspace_bytes);
    b->scratch_dev = alloc(b, (1 + MAX_PIECES) * gpu_scratch_bytes(b->codec, b->t, b->elems));
    for (uint32_t i = 0; i < b->set_count; i++)
        b->sets[i] = (struct set){.chunk = alloc(b, b->bytes),
                                  .piece = alloc(b, b->slot_bytes),
                                  .sum = alloc(b, b->bytes),
                                  .sum_piece = alloc(b, b->slot_bytes)};
    open_states(b);
    if (b->error != cudaSuccess)
        return;
    did(b, cudaMemset(b->status_dev, 0, sizeof *b->status_dev), "memory");
    did(b, cudaMemset(b->workspace_dev, 0, workspace_bytes), "memory");
    for (uint64_t at = 0; at < b->bytes; at += values_bytes)
        did(b,
            cudaMemcpy(b->sets[0].chunk + at, values,
                       b->bytes - at < values_bytes ? b->bytes - at : values_bytes,
                       cudaMemcpyHostToDevice),
            "copy");
    for (uint32_t i = 1; i < b->set_count; i++)
        did(b, cudaMemcpy(b->sets[i].chunk, b->sets[0].chunk, b->bytes, cudaMemcpyDeviceToDevice),
            "copy");
    did(b, cudaDeviceSynchronize(), "memory");
}

static void close_sets(struct bench *b) {
    for (uint32_t i = 0; i < b->set_count; i++) {
        cudaFree(b->sets[i].chunk);
        cudaFree(b->sets[i].piece);
        cudaFree(b->sets[i].sum);
        cudaFree(b->sets[i].sum_piece);
        cudaFree((void *)(uintptr_t)b->sets[i].state.now_dev);
        cudaFree(b->sets[i].state.next_dev);
    }
    cudaFree(b->scratch_dev);
    cudaFree(b->workspace_dev);
    cudaFree(b->status_dev);
    if (b->stream != NULL)
        cudaStreamDestroy(b->stream);
}

static uint64_t encoded_bytes(struct bench *b, const void *slot_dev) {
    unsigned char header[64] = {0};
    uint64_t have = b->slot_bytes < sizeof header ? b->slot_bytes : sizeof header, bytes = 0;
    bool overflowed;

    if (!codec_has_header(b->codec, b->t, b->elems))
        return b->slot_bytes;
    if (did(b, cudaMemcpy(header, slot_dev, have, cudaMemcpyDeviceToHost), "copy"))
        codec_encoded_bytes(b->codec, b->t, b->elems, header, have, &bytes, &overflowed);
    return bytes;
}

/* Whether the first set decoded to the values. */
static bool gives_back(struct bench *b, const void *values, uint64_t values_bytes) {
    unsigned char *back = malloc(values_bytes);
    bool exact = back != NULL;

    for (uint64_t at = 0; at < b->bytes && exact; at += values_bytes) {
        uint64_t bytes = b->bytes - at < values_bytes ? b->bytes - at : values_bytes;

        exact =
            did(b, cudaMemcpy(back, b->sets[0].sum + at, bytes, cudaMemcpyDeviceToHost), "copy") &&
            memcmp(back, values, bytes) == 0;
    }
    free(back);
    return exact;
}

static void measure_all(struct bench *b, const struct gpu_speed_device *d, const void *values,
                        uint64_t values_bytes, struct gpu_speed *out) {
    uint64_t sum_bytes = 0;
    uint32_t status = 0;

    for (int k = 0; k < GPU_SPEED_KERNELS; k++) {
        struct gpu_speed_rate *rate = &out->rates[k];
        double ms = measure(b, kernels[k].launch);

        if (ms == 0)
            continue;
        if (k == GPU_SPEED_ENCODE)
            out->encoded_bytes = encoded_bytes(b, b->sets[0].piece);
        if (k == GPU_SPEED_DECODE)
            out->exact = gives_back(b, values, values_bytes);
        if (kernels[k].sum_pieces != 0)
            sum_bytes = encoded_bytes(b, b->sets[0].sum_piece);
        rate->moved_bytes = kernels[k].chunks * b->bytes + kernels[k].pieces * out->encoded_bytes +
                            kernels[k].sum_pieces * sum_bytes + state_bytes_moved(b, k);
        rate->gbps = 1e-6 * (double)b->bytes / ms;
        rate->percent = 1e-4 * (double)rate->moved_bytes / ms / d->copy_gbps;
    }
    did(b, cudaMemcpy(&status, b->status_dev, sizeof status, cudaMemcpyDeviceToHost), "copy");
    if (status != 0)
        did(b, cudaErrorUnknown, "a kernel lost its data");
}

bool gpu_speed_run(const struct gpu_speed_device *d, const struct codec *c, enum dtype t,
                   const void *values, uint64_t values_bytes, uint64_t raw_bytes, int samples,
                   struct gpu_speed *out, char *err, size_t err_bytes) {
    struct bench b = {.codec = c, .t = t, .samples = samples};

    memset(out, 0, sizeof *out);
    if (!codec_check(c, t, err, err_bytes))
        return false;
    b.elems = raw_bytes / dtype_bytes(t);
    b.bytes = out->raw_bytes = b.elems * dtype_bytes(t);
    b.slot_bytes = codec_worst_bytes(c, t, b.elems);
    if (b.elems == 0 || values_bytes == 0 || samples < 1 || samples > MAX_SAMPLES ||
        b.slot_bytes == CODEC_SIZE_ERROR) {
        snprintf(err, err_bytes, "nothing to measure: too few or too many elements or samples");
        return false;
    }
    for (int side = 0; side < 2; side++)
        b.state_bytes[side] = codec_state_bytes(c, t, b.elems, (enum codec_side)side);
    b.set_count = (uint32_t)(ROTATED_BYTES / b.bytes);
    b.set_count = b.set_count < 2 ? 2 : b.set_count > MAX_SETS ? MAX_SETS : b.set_count;
    open_sets(&b, values, values_bytes);
    if (b.error == cudaSuccess)
        measure_all(&b, d, values, values_bytes, out);
    close_sets(&b);
    out->ratio = (double)out->encoded_bytes / (double)out->raw_bytes;
    return verdict(&b, err, err_bytes);
}
