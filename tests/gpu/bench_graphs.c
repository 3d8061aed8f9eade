/*
 * bench_graphs.c: all ranks of a schedule on one GPU, against what the bytes allow: each task reads
 * its operands and writes its results once, each message is read and written once, all at the rate
 * of a plain copy of the same run.
 *
 * usage: bench_graphs [--spans] [RANKS MIB SCHEDULE CODEC DTYPE SLICES]...   from the top of the
 * tree
 *
 * Prints JSON, one line a setting. With --spans, every task's begin and end on the device follow.
 */
#include "kernels/reduce.h"
#include "runtime/handles.h"
#include "tests/gpu/cuda_test.h"

#define RUNS      30
#define WARM_RUNS 6

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median(float *ms, int n) {
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    return ms[n / 2];
}

/* Bytes read and written a second by a copy on the device. */
static double copy_rate(cudaStream_t stream) {
    const size_t bytes = (size_t)1 << 30;
    void *a, *b;
    cudaEvent_t start, end;
    float ms[11];
    CUDA(cudaMalloc(&a, bytes));
    CUDA(cudaMalloc(&b, bytes));
    CUDA(cudaMemset(a, 1, bytes));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    for (int i = 0; i < 11; i++) {
        CUDA(cudaEventRecord(start, stream));
        CUDA(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream));
        CUDA(cudaEventRecord(end, stream));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&ms[i], start, end));
    }
    CUDA(cudaEventDestroy(start));
    CUDA(cudaEventDestroy(end));
    CUDA(cudaFree(a));
    CUDA(cudaFree(b));
    return 2e3 * (double)bytes / (double)median(ms, 11);
}

/* What the tasks of all ranks read and write; an encoding counts as `ratio` of its elements, what
 * travels as it is. */
static double task_bytes(const struct tasks *t, double ratio, uint64_t wire_bytes) {
    double sum = 2 * (double)wire_bytes, elem = dtype_bytes(t->flow->setup.dtype);
    double acc = reduce_acc_bytes(t->flow->setup.dtype);
    for (size_t i = 0; i < t->tasks.count; i++) {
        const struct task *k = &t->tasks.data[i];
        if (k->kind != TASK_COMPUTE)
            continue;
        double elems = (double)tasks_elems(t, k);
        for (uint32_t j = 0; j < k->operands; j++) {
            struct operand o = t->operands.data[k->first_operand + j];
            sum += elems * (o.kind == OPERAND_PIECE ? elem * ratio
                            : o.kind == OPERAND_ACC ? acc
                                                    : elem);
        }
        if (k->store.index != NONE)
            sum += elems * (k->store.kind == OPERAND_ACC ? acc : elem);
        sum += elems * elem * ratio * k->outs;
    }
    return sum;
}

static void fill_world(struct world *w) {
    const size_t tile = (size_t)4 << 20;
    char *host = malloc(tile);
    for (int r = 0; r < w->s.ranks; r++) {
        fill_data(w->s.dtype, DATA_FITS, host, tile, 1, r);
        for (size_t at = 0; at < w->send_bytes[r]; at += tile)
            CUDA(cudaMemcpy((char *)w->send_dev[r] + at, host,
                            w->send_bytes[r] - at < tile ? w->send_bytes[r] - at : tile,
                            cudaMemcpyHostToDevice));
    }
    CUDA(cudaDeviceSynchronize());
    free(host);
}

static float run_once(struct cuda_test *t, struct world *w, cudaEvent_t start, cudaEvent_t end) {
    uint64_t ticket;
    float ms = 0;
    CUDA(cudaEventRecord(start, w->stream));
    ok(t, w, sluice_graph_launch(w->graph, w->stream, &ticket), "launch");
    CUDA(cudaEventRecord(end, w->stream));
    ok(t, w, sluice_graph_wait(w->graph, ticket), "wait");
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&ms, start, end));
    return ms;
}

static void print_spans(struct world *w) {
    sluice_graph_span s;
    for (size_t i = 0; sluice_graph_get_span(w->graph, i, &s) == SLUICE_OK; i++)
        printf("{\"stage\": \"%s\", \"task\": \"%s\", \"rank\": %d, \"lane\": %d, \"slice\": %d, "
               "\"round\": %u, \"begin_ns\": %llu, \"end_ns\": %llu}\n",
               s.stage, s.what, s.rank, s.lane, s.slice, (unsigned)s.round,
               (unsigned long long)s.begin_ns, (unsigned long long)s.end_ns);
}

static void bench(struct cuda_test *t, char **a, bool spans, double rate) {
    static char path[200], codec[80];
    bool f32 = !strcmp(a[4], "f32");
    uint64_t bytes = (uint64_t)atoi(a[1]) << 20;
    snprintf(path, sizeof path, "schedules/%s.slc", a[2]);
    snprintf(codec, sizeof codec, "wire=%s", a[3]);
    struct setting s = setting_of(path, atoi(a[0]), bytes / (f32 ? 4 : 2));
    struct world w;
    s.defines[0] = codec;
    s.dtype = f32 ? SLUICE_F32 : SLUICE_BF16;
    s.slices = atoi(a[5]);
    s.options.timestamps = spans;
    if (!world_graph(t, &w, &s))
        return;
    cudaEvent_t start, end;
    float ms[RUNS];
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    fill_world(&w);
    for (int i = 0; i < WARM_RUNS; i++)
        run_once(t, &w, start, end);
    for (int i = 0; i < RUNS; i++)
        ms[i] = run_once(t, &w, start, end);
    sluice_graph_stats stats = {0};
    ok(t, &w, sluice_graph_get_stats(w.graph, &stats), "stats");
    double ratio = (double)stats.needed_bytes / (double)stats.raw_bytes;
    const struct tasks *tasks = plan_compilation(plan_of_handle(w.plan))->tasks;
    double moved = task_bytes(tasks, ratio, stats.wire_bytes), least = 1e3 * moved / rate;
    float middle = median(ms, RUNS);
    printf(
        "{\"schedule\": \"%s\", \"ranks\": %s, \"mib\": %s, \"codec\": \"%s\", \"dtype\": \"%s\", "
        "\"slices\": %u, \"nodes\": %zu, \"wire_over_raw\": %.4f, \"gib_moved\": %.3f, "
        "\"copy_gb_s\": %.0f, \"limit_ms\": %.3f, \"ms\": %.3f, \"over_limit\": %.3f}\n",
        a[2], a[0], a[1], a[3], a[4], (unsigned)tasks->slices, sluice_graph_nodes(w.graph),
        (double)stats.wire_bytes / (double)stats.raw_bytes, moved / (1 << 30), rate * 1e-9, least,
        (double)middle, (double)middle / least);
    if (spans)
        print_spans(&w);
    fflush(stdout);
    CUDA(cudaEventDestroy(start));
    CUDA(cudaEventDestroy(end));
    world_close(&w);
}

int main(int argc, char **argv) {
    struct cuda_test t = {0};
    int devices = 0, first = 1;
    bool spans = argc > 1 && !strcmp(argv[1], "--spans");
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    double rate = copy_rate(stream);
    for (first += spans; first + 5 < argc; first += 6)
        bench(&t, argv + first, spans, rate);
    CUDA(cudaStreamDestroy(stream));
    return t.failures == 0 ? 0 : 1;
}
