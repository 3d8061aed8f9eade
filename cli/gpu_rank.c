/* One rank of the benchmark. All ranks go through the same sizes, contestants and runs in one
 * order; rank 0 prints. */
#include "cli/gpu_bench.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUES = 4096 };
#define POISON 0xa5

bool gpu_cuda(const struct gpu_rank *r, cudaError_t e, const char *call) {
    if (e != cudaSuccess) {
        complain(r->b->o, "rank %d: %.*s: %s", r->l->rank, (int)strcspn(call, "("), call,
                 cudaGetErrorString(e));
    }
    return e == cudaSuccess;
}

bool gpu_nccl(const struct gpu_rank *r, enum nccl_result e, const char *call) {
    if (e != NCCL_SUCCESS) {
        complain(r->b->o, "rank %d: %.*s: %s; %s", r->l->rank, (int)strcspn(call, "("), call,
                 r->nccl.GetErrorString(e), r->nccl.GetLastError(NULL));
    }
    return e == NCCL_SUCCESS;
}

bool gpu_reduce(struct gpu_rank *r, double *values, size_t count, enum nccl_op op) {
    size_t bytes = count * sizeof *values;
    return GPU_CUDA(r, cudaMemcpyAsync(r->values_dev, values, bytes, cudaMemcpyHostToDevice,
                                       r->stream)) &&
           GPU_NCCL(r, AllReduce(r->values_dev, r->values_dev, count, NCCL_F64, op, r->comm,
                                 r->stream)) &&
           GPU_CUDA(r, cudaMemcpyAsync(values, r->values_dev, bytes, cudaMemcpyDeviceToHost,
                                       r->stream)) &&
           GPU_CUDA(r, cudaStreamSynchronize(r->stream));
}

static bool barrier(struct gpu_rank *r) {
    double one = 1;
    return gpu_reduce(r, &one, 1, NCCL_SUM);
}

/* ---- the rank's world ---- */

static bool make_id(void *ctx, void *id) {
    struct gpu_rank *r = ctx;
    return GPU_NCCL(r, GetUniqueId(id));
}

static bool choose_device(struct gpu_rank *r) {
    struct cudaDeviceProp properties;
    int devices = 0, driver = 0;
    cudaError_t e = cudaGetDeviceCount(&devices);
    if (e != cudaSuccess || devices == 0) {
        complain(r->b->o, "no GPU: %s", cudaGetErrorString(e ? e : cudaErrorNoDevice));
        return false;
    }
    if (!r->l->oversubscribe && r->l->local_rank >= devices) {
        complain(r->b->o,
                 "rank %d has no GPU of its own, there %s %d; --oversubscribe lets them share",
                 r->l->rank, devices == 1 ? "is" : "are", devices);
        return false;
    }
    int device = r->l->oversubscribe ? 0 : r->l->local_rank % devices;
    if (!GPU_CUDA(r, cudaSetDevice(device)) ||
        !GPU_CUDA(r, cudaGetDeviceProperties(&properties, device)) ||
        !GPU_CUDA(r, cudaDriverGetVersion(&driver))) {
        return false;
    }
    snprintf(r->device, sizeof r->device, "%.80s, CUDA %d.%d", properties.name, driver / 1000,
             driver % 1000 / 10);
    return true;
}

static bool connect_sluice(struct gpu_rank *r) {
    if (!r->b->files[0]) {
        return true;
    }
    sluice_status s = sluice_comm_nccl(&r->sluice, r->comm, NULL);
    if (s != SLUICE_OK) {
        complain(r->b->o, "rank %d: sluice_comm_nccl: %s", r->l->rank, sluice_status_text(s));
    }
    return s == SLUICE_OK;
}

static bool rank_open(struct gpu_rank *r, const struct launch *l, const struct gpu_bench *b) {
    struct nccl_id id;
    char err[256];
    *r = (struct gpu_rank){.b = b, .l = l, .failure = EXIT_DEVICE};
    if (!nccl_open(&r->nccl, err, sizeof err)) {
        complain(b->o, "%s", err);
        return false;
    }
    return choose_device(r) && launch_share_id(l, make_id, r, &id) &&
           GPU_NCCL(r, CommInitRank(&r->comm, l->ranks, id, l->rank)) &&
           GPU_CUDA(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking)) &&
           GPU_CUDA(r, cudaMalloc((void **)&r->values_dev, VALUES * sizeof(double))) &&
           connect_sluice(r) && barrier(r);
}

static void rank_close(struct gpu_rank *r) {
    sluice_comm_destroy(r->sluice);
    cudaFree(r->values_dev);
    cudaFree(r->input_dev);
    cudaFree(r->a_dev);
    cudaFree(r->b_dev);
    if (r->comm) {
        r->nccl.CommDestroy(r->comm);
    }
}

static bool buffers(struct gpu_rank *r, uint64_t bytes) {
    r->room_bytes = bytes;
    return GPU_CUDA(r, cudaMalloc((void **)&r->input_dev, bytes)) &&
           GPU_CUDA(r, cudaMalloc((void **)&r->a_dev, bytes)) &&
           GPU_CUDA(r, cudaMalloc((void **)&r->b_dev, bytes));
}

/* ---- timing ---- */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The input where this contestant is to find it, and something else where its result will be. */
static bool prepare(struct gpu_rank *r, const struct gpu_place *p) {
    bool apart = p->recv_dev != p->send_dev && (p->recv_dev + p->recv_bytes <= p->send_dev ||
                                                p->send_dev + p->send_bytes <= p->recv_dev);
    return (!apart ||
            GPU_CUDA(r, cudaMemsetAsync(p->recv_dev, POISON, p->recv_bytes, r->stream))) &&
           GPU_CUDA(r, cudaMemcpyAsync(p->send_dev, r->input_dev, p->send_bytes,
                                       cudaMemcpyDeviceToDevice, r->stream)) &&
           GPU_CUDA(r, cudaStreamSynchronize(r->stream));
}

/* As sluice_graph_wait does it: without keeping a core from NCCL's threads for long. */
static bool wait_idle(struct gpu_rank *r) {
    static const struct timespec moment = {0, 20000};
    cudaError_t e = cudaStreamQuery(r->stream);
    for (int turn = 0; e == cudaErrorNotReady; turn++) {
        if (turn < 500) {
            sched_yield();
        } else {
            nanosleep(&moment, NULL);
        }
        e = cudaStreamQuery(r->stream);
    }
    return gpu_cuda(r, e, "cudaStreamQuery");
}

/* One timed run, from a common start to the end of all that it enqueued. */
static bool sample(struct gpu_rank *r, struct contestant *c, const struct gpu_place *p,
                   double *seconds, double *host_s) {
    if (!prepare(r, p) || !barrier(r)) {
        return false;
    }
    double start = now_seconds();
    bool ok = contestant_run(r, c, p, host_s) && wait_idle(r);
    *seconds = now_seconds() - start;
    return ok;
}

/* The contestants of one size, and what is known of them. */
struct race {
    struct contestant c[MAX_CONTESTANTS];
    struct gpu_row rows[MAX_CONTESTANTS];
    double *seconds, *host_s; /* [contestants][iters] */
    size_t count;
};

static bool take_turns(struct gpu_rank *r, struct race *race, const struct gpu_place *p,
                       bool in_place) {
    size_t iters = (size_t)r->b->iters;
    double ignored[2];
    for (int i = 0; i < r->b->warmup; i++) {
        for (size_t k = 0; k < race->count; k++) {
            if (!sample(r, &race->c[k], p, &ignored[0], &ignored[1])) {
                return false;
            }
        }
    }
    for (size_t i = 0; i < iters; i++) {
        for (size_t k = 0; k < race->count; k++) {
            if (!sample(r, &race->c[k], p, &race->seconds[k * iters + i],
                        &race->host_s[k * iters + i])) {
                return false;
            }
        }
    }
    for (size_t k = 0; k < race->count; k++) {
        struct gpu_side *side = in_place ? &race->rows[k].in : &race->rows[k].out;
        double *mine = race->seconds + k * iters;
        if (!gpu_reduce(r, mine, iters, NCCL_MAX)) {
            return false;
        }
        side->known = true;
        side->seconds = median(mine, iters);
        side->best_seconds = mine[0]; /* now sorted */
        if (!in_place) {
            race->rows[k].host_seconds = median(race->host_s + k * iters, iters);
        }
    }
    return true;
}

static bool judge_all(struct gpu_rank *r, struct race *race, const struct gpu_place *p,
                      bool in_place) {
    for (size_t k = 0; k < race->count && !r->b->o->no_check; k++) {
        struct gpu_side *side = in_place ? &race->rows[k].in : &race->rows[k].out;
        double seconds, host_s;
        if (!sample(r, &race->c[k], p, &seconds, &host_s) ||
            !judge_count(r, &race->c[k], p, &side->wrong)) {
            return false;
        }
        side->judged = true;
    }
    return true;
}

static bool run_place(struct gpu_rank *r, struct race *race, const struct gpu_place *p,
                      bool in_place) {
    for (size_t k = 0; k < race->count; k++) {
        if (!contestant_bind(r, &race->c[k], p)) {
            return false;
        }
    }
    return take_turns(r, race, p, in_place) && judge_all(r, race, p, in_place);
}

static bool add_traffic(struct gpu_rank *r, struct race *race) {
    for (size_t k = 0; k < race->count; k++) {
        struct contestant_traffic t;
        struct gpu_row *row = &race->rows[k];
        contestant_traffic(&race->c[k], &t);
        double values[3] = {(double)t.raw_bytes, (double)t.wire_bytes, (double)t.overflows};
        if (!gpu_reduce(r, values, 3, NCCL_MAX)) {
            return false;
        }
        row->raw_bytes = (uint64_t)values[0];
        row->wire_bytes = (uint64_t)values[1];
        row->overflows = (uint64_t)values[2];
    }
    return true;
}

/* ---- sizes ---- */

/* What nccl-tests calls the size: the larger of a rank's buffers, blocks of all ranks together. */
static uint64_t blocks_of(const struct gpu_bench *b, int ranks) {
    bool whole = b->collective == COLL_ALLREDUCE || b->collective == COLL_BROADCAST ||
                 b->collective == COLL_REDUCE;
    return whole ? 1 : (uint64_t)ranks;
}

static bool race_start(struct gpu_rank *r, struct race *race, const struct plain *plain,
                       const struct gpu_place *p, uint64_t bytes) {
    size_t iters = (size_t)r->b->iters;
    while (race->count < MAX_CONTESTANTS &&
           contestant_name(r->b, race->count, &race->c[race->count])) {
        struct contestant *c = &race->c[race->count];
        race->rows[race->count++] = (struct gpu_row){.name = c->name,
                                                     .file = c->file,
                                                     .codec = c->codec,
                                                     .bytes = bytes,
                                                     .count = plain->count};
        if (!contestant_start(r, c, plain, p)) {
            return false;
        }
    }
    race->seconds = calloc(race->count * iters, sizeof *race->seconds);
    race->host_s = calloc(race->count * iters, sizeof *race->host_s);
    return race->seconds && race->host_s;
}

static bool run_size(struct gpu_rank *r, uint64_t bytes, struct gpu_table *table, bool *right) {
    const struct gpu_bench *b = r->b;
    struct plain plain = {b->collective, b->root,
                          r->l->ranks,   b->dtype,
                          b->op,         bytes / dtype_bytes(b->dtype) / blocks_of(b, r->l->ranks)};
    struct gpu_place out, in;
    struct race *race = calloc(1, sizeof *race);
    if (!race) {
        complain(b->o, "no memory");
        return false;
    }
    plain_places(&plain, r->l->rank, r, &out, &in);
    double input = (double)out.send_bytes;
    bool ok = gpu_reduce(r, &input, 1, NCCL_MAX);
    r->input_bytes = (uint64_t)input;
    ok = ok && judge_fill(r, out.send_bytes) && race_start(r, race, &plain, &out, bytes) &&
         run_place(r, race, &out, false) && (!in.possible || run_place(r, race, &in, true)) &&
         add_traffic(r, race);
    if (ok && b->o->timeline && r->l->rank == 0) {
        ok = gpu_timeline_write(r, race->c, race->count);
    }
    for (size_t k = 0; k < race->count; k++) {
        contestant_end(&race->c[k]);
        *right = *right && race->rows[k].out.wrong == 0 && race->rows[k].in.wrong == 0;
        if (ok && r->l->rank == 0) {
            gpu_table_row(table, &race->rows[k], r->l->ranks);
        }
    }
    free(race->seconds);
    free(race->host_s);
    free(race);
    return ok;
}

int gpu_rank_run(const struct launch *l, void *bench) {
    const struct gpu_bench *b = bench;
    struct gpu_rank r;
    struct gpu_table table = {.b = b};
    bool right = true;
    bool ok = rank_open(&r, l, b) && buffers(&r, b->last_bytes);
    if (ok && l->rank == 0) {
        gpu_table_begin(&table, &r);
    }
    for (uint64_t bytes = b->first_bytes; ok && bytes <= b->last_bytes; bytes *= b->factor) {
        ok = run_size(&r, bytes, &table, &right);
    }
    if (ok && l->rank == 0) {
        gpu_table_end(&table);
    }
    if (ok) {
        rank_close(&r);
    }
    return (int)(!ok ? r.failure : right ? EXIT_OK : EXIT_RESULT);
}
