/*
 * transport_local.c: all ranks in this process, on one GPU.
 *
 * A group is one kernel that copies every piece from slot to slot, with a table of the copies on
 * the device. A message stands in the group twice, at its sender and at its receiver; the sender
 * makes the entry. The same kernel notes what the pieces that are sent for the first time needed,
 * from their headers. Nobody has to be asked for anything, since the ranks share their words.
 */
#include "runtime/transport.h"

#include <stdlib.h>

struct local {
    struct transport x;
    cudaStream_t stream; /* for tables */
};

/* A group's part of the tables. */
struct local_group {
    uint32_t first_copy, copies, first_need, needs;
    uint64_t largest_bytes;
};

struct route {
    const struct cuda_plan *p;
    cudaStream_t stream;
    struct local_group *groups; /* [groups] */
    struct protocol_copy *copies_host, *copies_dev;
    struct protocol_need *needs_host, *needs_dev;
    uint32_t copies, needs;
    char *tables_dev;
    uint32_t *words_dev;
};

static void route_free(struct route *r) {
    if (!r)
        return;
    free(r->groups);
    free(r->copies_host);
    free(r->needs_host);
    cudaFree(r->tables_dev);
    free(r);
}

/* The entries of a message: its pieces, which stand in the same order at both ends. */
static void fill_message(struct route *r, struct local_group *g, const struct task *send,
                         uint8_t *noted) {
    const struct tasks *t = r->p->t;
    const struct task *recv = &t->tasks.data[t->messages.data[send->message].recv];
    for (uint32_t i = 0; i < send->operands; i++) {
        uint32_t from = t->operands.data[send->first_operand + i].index;
        uint32_t to = t->outs.data[recv->first_out + i], need = r->p->need[from];
        uint64_t bytes = r->p->piece_bytes[from];
        if (need != NONE && !noted[need]) {
            noted[need] = 1;
            r->needs_host[r->needs++] = (struct protocol_need){cuda_piece_dev(r->p, from), need};
        }
        if (bytes == 0)
            continue;
        r->copies_host[r->copies++] =
            (struct protocol_copy){cuda_piece_dev(r->p, from), cuda_piece_dev(r->p, to), bytes};
        g->largest_bytes = bytes > g->largest_bytes ? bytes : g->largest_bytes;
    }
}

/* The tables for the slots in use, to the device. */
static bool route_update(struct route *r, struct failure *f) {
    const struct cuda_plan *p = r->p;
    uint8_t *noted = calloc(PROTOCOL_NEEDS + (size_t)p->needs, 1);
    if (!noted)
        return failure_set(f, RUN_NO_MEMORY, "no memory for the tables of messages");
    r->copies = r->needs = 0;
    for (uint32_t i = 0; i < p->group_count; i++) {
        struct local_group *g = &r->groups[i];
        *g = (struct local_group){.first_copy = r->copies, .first_need = r->needs};
        for (uint32_t j = 0; j < p->groups[i].n; j++) {
            const struct task *k = &p->t->tasks.data[p->group_tasks[p->groups[i].first + j]];
            if (k->kind == TASK_SEND)
                fill_message(r, g, k, noted);
        }
        g->copies = r->copies - g->first_copy;
        g->needs = r->needs - g->first_need;
    }
    free(noted);
    return CUDA_OK(f, cudaMemcpyAsync(r->copies_dev, r->copies_host,
                                      r->copies * sizeof *r->copies_host, cudaMemcpyHostToDevice,
                                      r->stream)) &&
           CUDA_OK(f, cudaMemcpyAsync(r->needs_dev, r->needs_host, r->needs * sizeof *r->needs_host,
                                      cudaMemcpyHostToDevice, r->stream)) &&
           CUDA_OK(f, cudaStreamSynchronize(r->stream));
}

static bool route_new(struct transport *x, const struct cuda_plan *p, enum route_use use,
                      uint32_t *words_dev, struct route **out, struct failure *f) {
    (void)use;
    struct route *r = *out = calloc(1, sizeof *r);
    if (!r)
        return failure_set(f, RUN_NO_MEMORY, "no memory for the tables of messages");
    r->p = p;
    r->stream = ((struct local *)(void *)x)->stream;
    r->words_dev = words_dev;
    size_t pieces = 1; /* sent */
    for (uint32_t i = 0; i < p->group_count; i++)
        for (uint32_t j = 0; j < p->groups[i].n; j++)
            pieces += p->t->tasks.data[p->group_tasks[p->groups[i].first + j]].operands;
    r->groups = calloc((size_t)p->group_count + 1, sizeof *r->groups);
    r->copies_host = calloc(pieces, sizeof *r->copies_host);
    r->needs_host = calloc((size_t)p->needs + 1, sizeof *r->needs_host);
    if (!r->groups || !r->copies_host || !r->needs_host)
        return failure_set(f, RUN_NO_MEMORY, "no memory for the tables of messages");
    size_t copy_bytes = pieces * sizeof *r->copies_host;
    if (!CUDA_OK(f, cudaMalloc((void **)&r->tables_dev,
                               copy_bytes + ((size_t)p->needs + 1) * sizeof *r->needs_host)))
        return false;
    r->copies_dev = (struct protocol_copy *)(void *)r->tables_dev;
    r->needs_dev = (struct protocol_need *)(void *)(r->tables_dev + copy_bytes);
    return route_update(r, f);
}

static bool exchange_captured(struct route *r, uint32_t group, cudaStream_t stream,
                              struct failure *f) {
    const struct local_group *g = &r->groups[group];
    return CUDA_OK(f, gpu_exchange(r->copies_dev + g->first_copy, g->copies, g->largest_bytes,
                                   r->needs_dev + g->first_need, g->needs, r->words_dev, stream));
}

static void transport_free(struct transport *x) {
    struct local *l = (struct local *)(void *)x;
    if (l->stream)
        cudaStreamDestroy(l->stream);
    free(l);
}

static const struct transport_ops local_ops = {
    .name = "local",
    .route_new = route_new,
    .route_update = route_update,
    .exchange_captured = exchange_captured,
    .route_free = route_free,
    .free = transport_free,
};

struct transport *transport_local_new(int32_t ranks, struct failure *f) {
    struct local *l = calloc(1, sizeof *l);
    if (!l) {
        failure_set(f, RUN_NO_MEMORY, "no memory");
        return NULL;
    }
    l->x = (struct transport){.ops = &local_ops, .ranks = ranks, .local_ranks = ranks, .nodes = 1};
    if (CUDA_OK(f, cudaGetDevice(&l->x.device)) &&
        CUDA_OK(f, cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking)))
        return &l->x;
    transport_free(&l->x);
    return NULL;
}
