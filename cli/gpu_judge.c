/*
 * What results must be.
 *
 * Everybody's input is gathered on every rank (NCCL moves it; that is not what is measured). NCCL's
 * collectives are judged there, on the device. A schedule's result has one right string of bits:
 * rank 0 lets the CPU executor compute those of all ranks and sends each its own, and they are
 * compared on the device.
 */
#include "cli/gpu_bench.h"
#include "kernels/gpu_verify.h"

#include <stdlib.h>
#include <string.h>

void plain_places(const struct plain *p, int rank, struct gpu_rank *r, struct gpu_place *out,
                  struct gpu_place *in) {
    uint64_t block = p->count * dtype_bytes(p->dtype), all = block * (uint64_t)p->ranks;
    uint64_t at = block * (uint64_t)rank;
    bool root = rank == p->root;
    *out = (struct gpu_place){true, r->a_dev, r->b_dev, block, block};
    *in = (struct gpu_place){true, r->b_dev, r->b_dev, block, block};
    switch (p->collective) {
    case COLL_ALLREDUCE:
    case COLL_NONE:
    case COLL_BROADCAST:
        break;
    case COLL_REDUCE:
        out->recv_bytes = in->recv_bytes = root ? block : 0;
        break;
    case COLL_REDUCE_SCATTER:
        out->send_bytes = in->send_bytes = all;
        in->recv_dev = r->b_dev + at;
        break;
    case COLL_ALLGATHER:
        out->recv_bytes = in->recv_bytes = all;
        in->send_dev = r->b_dev + at;
        break;
    case COLL_GATHER:
        out->recv_bytes = root ? all : 0;
        in->possible = false;
        break;
    case COLL_SCATTER:
        out->send_bytes = root ? all : 0;
        in->possible = false;
        break;
    case COLL_ALLTOALL:
        out->send_bytes = out->recv_bytes = all;
        in->possible = false;
        break;
    }
}

bool judge_fill(struct gpu_rank *r, uint64_t send_bytes) {
    const struct gpu_bench *b = r->b;
    uint64_t elems = send_bytes / dtype_bytes(b->dtype), rank = (uint64_t)r->l->rank;
    void *host = malloc(send_bytes ? send_bytes : 1);
    if (!host) {
        complain(b->o, "rank %d: no memory", r->l->rank);
        return false;
    }
    if (b->input) {
        input_file_slice(b->input, rank * elems, elems, host);
    } else {
        input_generate(b->kind, b->dtype, b->seed, r->l->rank, 0, elems, host);
    }
    bool ok = GPU_CUDA(r, cudaMemcpy(r->input_dev, host, send_bytes, cudaMemcpyHostToDevice)) &&
              GPU_CUDA(r, cudaDeviceSynchronize());
    free(host);
    return ok;
}

/* ---- NCCL ---- */

/* Compares a stretch of recv with what was gathered. */
static bool differs(struct gpu_rank *r, const char *got, const char *want, uint64_t elems,
                    unsigned long long *wrong_dev) {
    return GPU_CUDA(r, gpu_count_different(r->b->dtype, got, want, elems, wrong_dev, r->stream));
}

static bool judge_plain(struct gpu_rank *r, const struct plain *p, const struct gpu_place *place,
                        const char *all_dev, uint64_t send_bytes, unsigned long long *wrong_dev) {
    uint64_t block = p->count * dtype_bytes(p->dtype), n = (uint64_t)p->ranks;
    uint64_t rank = (uint64_t)r->l->rank;
    bool root = r->l->rank == p->root, ok = true;
    const char *mine = all_dev;
    switch (p->collective) {
    case COLL_REDUCE_SCATTER:
        mine += rank * block;
        /* fall through */
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
        return (p->collective == COLL_REDUCE && !root) ||
               GPU_CUDA(r, gpu_count_no_reduction(p->dtype, p->redop, mine,
                                                  send_bytes / dtype_bytes(p->dtype),
                                                  (uint32_t)p->ranks, place->recv_dev, p->count,
                                                  wrong_dev, r->stream));
    case COLL_GATHER:
    case COLL_ALLGATHER:
        return (p->collective == COLL_GATHER && !root) ||
               differs(r, place->recv_dev, all_dev, p->count * n, wrong_dev);
    case COLL_BROADCAST:
        return differs(r, place->recv_dev, all_dev + (uint64_t)p->root * block, p->count,
                       wrong_dev);
    case COLL_SCATTER:
        mine += (uint64_t)p->root * send_bytes + rank * block;
        return differs(r, place->recv_dev, mine, p->count, wrong_dev);
    case COLL_ALLTOALL:
        for (uint64_t s = 0; s < n && ok; s++) {
            ok = differs(r, place->recv_dev + s * block, all_dev + s * send_bytes + rank * block,
                         p->count, wrong_dev);
        }
        return ok;
    case COLL_NONE:
        break;
    }
    return true;
}

/* ---- schedules ---- */

struct all_ranks {
    void **send, **recv; /* [ranks] host memory */
    int ranks;
};

static void all_ranks_free(struct all_ranks *a) {
    for (int i = 0; i < a->ranks; i++) {
        free(a->send ? a->send[i] : NULL);
        free(a->recv ? a->recv[i] : NULL);
    }
    free(a->send);
    free(a->recv);
}

/* On rank 0: everybody's results, on the CPU. */
static bool run_on_cpu(struct gpu_rank *r, const struct contestant *c, const char *all_dev,
                       uint64_t stride_bytes, struct all_ranks *a) {
    size_t n = (size_t)r->l->ranks;
    *a = (struct all_ranks){calloc(n, sizeof(void *)), calloc(n, sizeof(void *)), r->l->ranks};
    bool ok = a->send && a->recv;
    for (int i = 0; i < r->l->ranks && ok; i++) {
        size_t send = sluice_send_bytes(c->plan, i), recv = sluice_recv_bytes(c->plan, i);
        a->send[i] = malloc(send ? send : 1);
        a->recv[i] = calloc(recv ? recv : 1, 1);
        ok = a->send[i] && a->recv[i] &&
             GPU_CUDA(r, cudaMemcpy(a->send[i], all_dev + (uint64_t)i * stride_bytes, send,
                                    cudaMemcpyDeviceToHost));
    }
    if (ok && sluice_run_cpu(c->plan, (const void *const *)a->send, a->recv) != SLUICE_OK) {
        complain(r->b->o, "%s on the CPU: %s", c->name, sluice_error(c->plan));
        ok = false;
    }
    return ok;
}

/* Rank 0 sends each rank what it must have, in want_dev. */
static bool spread(struct gpu_rank *r, const struct contestant *c, const struct all_ranks *a,
                   char *want_dev, uint64_t recv_bytes) {
    if (r->l->rank != 0) {
        return recv_bytes == 0 ||
               GPU_NCCL(r, Recv(want_dev, recv_bytes, NCCL_U8, 0, r->comm, r->stream));
    }
    for (int i = r->l->ranks - 1; i >= 0; i--) {
        size_t bytes = sluice_recv_bytes(c->plan, i);
        if (!GPU_CUDA(r, cudaMemcpy(want_dev, a->recv[i], bytes, cudaMemcpyHostToDevice)) ||
            (i > 0 && bytes > 0 &&
             !GPU_NCCL(r, Send(want_dev, bytes, NCCL_U8, i, r->comm, r->stream))) ||
            !GPU_CUDA(r, cudaStreamSynchronize(r->stream))) {
            return false;
        }
    }
    return true;
}

static bool judge_schedule(struct gpu_rank *r, const struct contestant *c,
                           const struct gpu_place *place, const char *all_dev,
                           uint64_t stride_bytes, unsigned long long *wrong_dev) {
    struct all_ranks all = {0};
    char *want_dev = NULL;
    uint64_t room = 1;
    for (int i = 0; i < r->l->ranks; i++) {
        uint64_t bytes = sluice_recv_bytes(c->plan, i);
        room = bytes > room ? bytes : room;
    }
    bool ok = GPU_CUDA(r, cudaMalloc((void **)&want_dev, room)) &&
              (r->l->rank != 0 || run_on_cpu(r, c, all_dev, stride_bytes, &all)) &&
              spread(r, c, &all, want_dev, place->recv_bytes) &&
              differs(r, place->recv_dev, want_dev, place->recv_bytes / dtype_bytes(r->b->dtype),
                      wrong_dev) &&
              GPU_CUDA(r, cudaStreamSynchronize(r->stream));
    all_ranks_free(&all);
    cudaFree(want_dev);
    return ok;
}

/* ---- both ---- */

bool judge_count(struct gpu_rank *r, struct contestant *c, const struct gpu_place *p,
                 uint64_t *wrong) {
    uint64_t stride = r->input_bytes;
    unsigned long long *wrong_dev = NULL, mine = 0;
    char *all_dev = NULL;
    bool ok = GPU_CUDA(r, cudaMalloc((void **)&wrong_dev, sizeof *wrong_dev)) &&
              GPU_CUDA(r, cudaMemset(wrong_dev, 0, sizeof *wrong_dev)) &&
              GPU_CUDA(r, cudaMalloc((void **)&all_dev, stride * (uint64_t)r->l->ranks)) &&
              GPU_CUDA(r, cudaDeviceSynchronize()) &&
              GPU_NCCL(r, AllGather(r->input_dev, all_dev, stride, NCCL_U8, r->comm, r->stream)) &&
              GPU_CUDA(r, cudaStreamSynchronize(r->stream)) &&
              (c->file ? judge_schedule(r, c, p, all_dev, stride, wrong_dev)
                       : judge_plain(r, &c->plain, p, all_dev, stride, wrong_dev)) &&
              GPU_CUDA(r, cudaStreamSynchronize(r->stream)) &&
              GPU_CUDA(r, cudaMemcpy(&mine, wrong_dev, sizeof mine, cudaMemcpyDeviceToHost));
    cudaFree(all_dev);
    cudaFree(wrong_dev);
    double most = (double)mine;
    ok = ok && gpu_reduce(r, &most, 1, NCCL_SUM);
    *wrong = (uint64_t)most;
    return ok;
}
