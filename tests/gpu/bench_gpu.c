/*
 * bench_gpu.c: how fast the kernels are on this GPU. Each file is repeated to the sizes asked for.
 * Launches are captured in a graph, as the runtime captures them, and rotate over buffers that
 * together are several times the L2 cache; a sample is one replay, divided by its launches.
 *
 * usage: bench_gpu [--json] [--mib LIST] TYPE:FILE...        bench_gpu --mib 16,256 bf16:a.bin
 */
#include "tests/gpu/gpu_test.h"

#define SAMPLES       25
#define WARM_UP       5
#define ROTATED_BYTES (UINT64_C(1) << 30)

void cuda_must(cudaError_t e, const char *text, const char *file, int line) {
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, text, cudaGetErrorString(e));
    exit(1);
}

enum kernel { COPY, ENCODE, DECODE, DECODE_ADD, DECODE_ADD_ENCODE, KERNEL_COUNT };
static const char *const kernel_names[] = {"copy", "encode", "decode", "decode + add",
                                           "decode + add + encode"};

/* One of the buffer sets that launches rotate over. */
struct set {
    unsigned char *chunk, *piece, *sum, *sum_piece;
};

struct bench {
    struct codec pack;
    cudaStream_t stream;
    enum dtype t;
    uint64_t elems, bytes, worst, piece_bytes, sum_bytes;
    uint32_t set_count;
    struct set sets[64];
    void *workspace_dev;
    uint32_t *status_dev;
    double copy_gbps; /* read and written, of this run's largest copy */
};

static void enqueue(struct bench *b, enum kernel k, const struct set *s) {
    struct gpu_operand in[2] = {{GPU_CHUNK, s->chunk, 0, codec_none()},
                                {GPU_PIECE, s->piece, b->worst, b->pack}};

    switch (k) {
    case COPY:
        CUDA(cudaMemcpyAsync(s->sum, s->chunk, b->bytes, cudaMemcpyDeviceToDevice, b->stream));
        break;
    case ENCODE:
        CUDA(gpu_encode(&b->pack, b->t, s->chunk, b->elems, s->piece, b->worst, b->workspace_dev,
                        b->status_dev, b->stream));
        break;
    case DECODE:
        CUDA(gpu_decode(&b->pack, b->t, s->piece, b->worst, b->elems, s->sum, b->status_dev,
                        b->stream));
        break;
    case DECODE_ADD:
        CUDA(gpu_combine(b->t, REDOP_SUM, in, 2, b->elems, 0, NULL, s->sum, NULL, NULL, 0, NULL,
                         b->status_dev, b->stream));
        break;
    case DECODE_ADD_ENCODE:
        CUDA(gpu_combine(b->t, REDOP_SUM, in, 2, b->elems, 0, NULL, NULL, &b->pack, s->sum_piece,
                         b->worst, b->workspace_dev, b->status_dev, b->stream));
        break;
    case KERNEL_COUNT:
        break;
    }
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Median milliseconds of a launch. */
static double measure(struct bench *b, enum kernel k) {
    uint32_t launches = b->set_count < 8 ? 8 / b->set_count * b->set_count : b->set_count;
    cudaEvent_t start, end;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float ms[SAMPLES];

    CUDA(cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeGlobal));
    for (uint32_t i = 0; i < launches; i++)
        enqueue(b, k, &b->sets[i % b->set_count]);
    CUDA(cudaStreamEndCapture(b->stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    for (int i = -WARM_UP; i < SAMPLES; i++) {
        CUDA(cudaEventRecord(start, b->stream));
        CUDA(cudaGraphLaunch(exec, b->stream));
        CUDA(cudaEventRecord(end, b->stream));
        CUDA(cudaEventSynchronize(end));
        if (i >= 0)
            CUDA(cudaEventElapsedTime(&ms[i], start, end));
    }
    CUDA(cudaEventDestroy(end));
    CUDA(cudaEventDestroy(start));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    qsort(ms, SAMPLES, sizeof *ms, compare_floats);
    return (double)ms[SAMPLES / 2] / launches;
}

/* Bytes a kernel must read and write for b->bytes of raw data. */
static uint64_t moved_bytes(const struct bench *b, enum kernel k) {
    switch (k) {
    case COPY:
        return 2 * b->bytes;
    case ENCODE:
    case DECODE:
        return b->bytes + b->piece_bytes;
    case DECODE_ADD:
        return 2 * b->bytes + b->piece_bytes;
    case DECODE_ADD_ENCODE:
    case KERNEL_COUNT:
        break;
    }
    return b->bytes + b->piece_bytes + b->sum_bytes;
}

static uint64_t encoded_bytes(const struct bench *b, const void *slot_dev) {
    uint64_t words[4];

    CUDA(cudaMemcpy(words, slot_dev, sizeof words, cudaMemcpyDeviceToHost));
    (void)b;
    return words[2];
}

static void *alloc(uint64_t bytes) {
    void *dev;

    CUDA(cudaMalloc(&dev, bytes));
    return dev;
}

static void bench_open(struct bench *b, enum dtype t, const unsigned char *data,
                       uint64_t data_bytes, uint64_t bytes) {
    uint64_t workspace_bytes;

    b->t = t, b->bytes = bytes, b->elems = bytes / dtype_bytes(t);
    b->worst = codec_worst_bytes(&b->pack, t, b->elems);
    workspace_bytes = gpu_workspace_bytes(&b->pack, t, b->elems);
    b->set_count = (uint32_t)(ROTATED_BYTES / bytes);
    b->set_count = b->set_count < 2 ? 2 : b->set_count > 64 ? 64 : b->set_count;
    for (uint32_t i = 0; i < b->set_count; i++) {
        b->sets[i] = (struct set){alloc(bytes), alloc(b->worst), alloc(bytes), alloc(b->worst)};
        for (uint64_t at = 0; at < bytes; at += data_bytes)
            CUDA(cudaMemcpy(b->sets[i].chunk + at, data,
                            bytes - at < data_bytes ? bytes - at : data_bytes,
                            cudaMemcpyHostToDevice));
    }
    b->workspace_dev = alloc(workspace_bytes);
    CUDA(cudaMemset(b->workspace_dev, 0, workspace_bytes));
    CUDA(cudaMemset(b->status_dev, 0, 4));
    CUDA(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < b->set_count; i++) {
        enqueue(b, ENCODE, &b->sets[i]);
        enqueue(b, DECODE_ADD_ENCODE, &b->sets[i]);
    }
    CUDA(cudaStreamSynchronize(b->stream));
    b->piece_bytes = encoded_bytes(b, b->sets[0].piece);
    b->sum_bytes = encoded_bytes(b, b->sets[0].sum_piece);
}

static void bench_close(struct bench *b) {
    uint32_t status;

    CUDA(cudaMemcpy(&status, b->status_dev, sizeof status, cudaMemcpyDeviceToHost));
    if (status != 0) {
        fprintf(stderr, "a kernel set the status %u\n", status);
        exit(1);
    }
    for (uint32_t i = 0; i < b->set_count; i++) {
        CUDA(cudaFree(b->sets[i].chunk));
        CUDA(cudaFree(b->sets[i].piece));
        CUDA(cudaFree(b->sets[i].sum));
        CUDA(cudaFree(b->sets[i].sum_piece));
    }
    CUDA(cudaFree(b->workspace_dev));
}

static void bench_file(struct bench *b, enum dtype t, const char *name, const unsigned char *data,
                       uint64_t data_bytes, uint64_t mib, bool json, const char **comma) {
    bench_open(b, t, data, data_bytes, mib << 20);
    for (int k = ENCODE; k < KERNEL_COUNT; k++) {
        double ms = measure(b, (enum kernel)k), gbps = (double)b->bytes / ms * 1e-6;
        uint64_t moved = moved_bytes(b, (enum kernel)k);
        double percent = (double)moved / ms * 1e-4 / b->copy_gbps;
        double ratio = (double)b->piece_bytes / (double)b->bytes;

        if (json)
            printf("%s\n    {\"file\": \"%s\", \"type\": \"%s\", \"mib\": %llu, \"kernel\": \"%s\","
                   " \"ratio\": %.4f, \"gb_per_s\": %.1f, \"percent_of_copy\": %.1f,"
                   " \"moved_bytes\": %llu}",
                   *comma, name, dtype_name(t), (unsigned long long)mib, kernel_names[k], ratio,
                   gbps, percent, (unsigned long long)moved);
        else
            printf("%-16s %-4s %5llu MiB  ratio %.4f  %-22s %7.1f GB/s  %3.0f %%\n", name,
                   dtype_name(t), (unsigned long long)mib, ratio, kernel_names[k], gbps, percent);
        *comma = ",";
    }
    bench_close(b);
}

/* The copy rate that percentages refer to: 1 GiB, read and written. */
static double copy_rate(struct bench *b) {
    double ms;

    b->bytes = UINT64_C(1) << 30;
    b->set_count = 2;
    for (int i = 0; i < 2; i++) {
        b->sets[i] = (struct set){.chunk = alloc(b->bytes), .sum = alloc(b->bytes)};
        CUDA(cudaMemset(b->sets[i].chunk, i + 1, b->bytes));
        CUDA(cudaDeviceSynchronize());
    }
    CUDA(cudaDeviceSynchronize());
    ms = measure(b, COPY);
    for (int i = 0; i < 2; i++) {
        CUDA(cudaFree(b->sets[i].chunk));
        CUDA(cudaFree(b->sets[i].sum));
    }
    return 2e-6 * (double)b->bytes / ms;
}

static unsigned char *read_file(const char *path, uint64_t *bytes) {
    FILE *f = fopen(path, "rb");
    unsigned char *data = malloc(UINT64_C(64) << 20);

    *bytes = f != NULL && data != NULL ? fread(data, 1, UINT64_C(64) << 20, f) / 4 * 4 : 0;
    if (*bytes == 0) {
        fprintf(stderr, "bench_gpu: %s cannot be read\n", path);
        exit(1);
    }
    fclose(f);
    return data;
}

/* One TYPE:FILE at every size. */
static void bench_argument(struct bench *b, const char *argument, const char *sizes, bool json,
                           const char **comma) {
    const char *path = strchr(argument, ':'), *name;
    unsigned char *data;
    uint64_t bytes;
    char type[16];
    enum dtype t;

    snprintf(type, sizeof type, "%.*s", path == NULL ? 0 : (int)(path - argument), argument);
    if (!dtype_parse(type, &t)) {
        fprintf(stderr, "bench_gpu: expected TYPE:FILE, found '%s'\n", argument);
        exit(2);
    }
    data = read_file(++path, &bytes);
    name = strrchr(path, '/') == NULL ? path : strrchr(path, '/') + 1;
    for (const char *at = sizes; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        bench_file(b, t, name, data, bytes, strtoull(at, NULL, 10), json, comma);
    }
    free(data);
}

int main(int argc, char **argv) {
    struct bench b = {0};
    struct cudaDeviceProp device;
    const char *sizes = "16,64,256,1024", *comma = "";
    char err[256];
    int devices = 0, at = 1, driver = 0;
    bool json = false;

    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--json") == 0)
            json = true;
        else if (strcmp(argv[at], "--mib") == 0 && at + 1 < argc)
            sizes = argv[++at];
        else
            at = argc;
    }
    if (at >= argc) {
        fprintf(stderr, "usage: bench_gpu [--json] [--mib LIST] TYPE:FILE...\n");
        return 2;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    CUDA(cudaGetDeviceProperties(&device, 0));
    CUDA(cudaDriverGetVersion(&driver));
    CUDA(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    b.status_dev = alloc(4);
    if (!codec_make("pack", NULL, 0, &b.pack, err, sizeof err))
        return 1;
    b.copy_gbps = copy_rate(&b);
    if (json)
        printf("{\"device\": \"%s\", \"driver\": \"%d.%d\", \"copy_gb_per_s\": %.1f,"
               " \"samples\": %d, \"results\": [",
               device.name, driver / 1000, driver % 1000 / 10, b.copy_gbps, SAMPLES);
    else
        printf("%s, copy %.0f GB/s read and written; percent of what the bytes moved allow\n",
               device.name, b.copy_gbps);
    for (; at < argc; at++)
        bench_argument(&b, argv[at], sizes, json, &comma);
    printf(json ? "\n]}\n" : "");
    return 0;
}
