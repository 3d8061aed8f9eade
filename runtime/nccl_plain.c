/* nccl_plain.c: the collective that a schedule declares, done by NCCL itself: the way back when
 * SLUICE_DISABLE is set, and what benchmarks compare with. */
#include "runtime/nccl_link.h"

bool plain_of(const struct flow *f, struct plain *out) {
    struct flow_shape s;
    if (f->collective == COLL_NONE || f->members != f->setup.ranks || !flow_shape(f, NULL, &s))
        return false;
    for (int32_t i = 0; i < f->members; i++)
        if (f->member[i] != i)
            return false;
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        if (b->role != ROLE_SCRATCH && b != s.in && b != s.out)
            return false; /* it would have to be filled by something else */
    }
    /* blocks of one buffer that is both: which of them is in place is the schedule's affair */
    const struct setup *setup = &f->setup;
    *out = (struct plain){f->collective, f->root,      setup->ranks,
                          setup->dtype,  setup->redop, setup->count};
    return s.in != s.out || (!s.in_big && !s.out_big);
}

/* Some ranks, one after another. */
struct range {
    int first, last;
};

/* Blocks of `count` elements, one for each rank of `to`, one from each of `from`. */
static enum nccl_result blocks(const struct nccl *n, struct ncclComm *comm, const char *send_dev,
                               char *recv_dev, const struct plain *s, struct range to,
                               struct range from, cudaStream_t stream) {
    enum nccl_type type = nccl_type_of(s->dtype);
    size_t bytes = (size_t)s->count * dtype_bytes(s->dtype);
    enum nccl_result result = n->GroupStart(), end;
    for (int r = to.first; r < to.last && result == NCCL_SUCCESS; r++)
        result =
            n->Send(send_dev + bytes * (size_t)(r - to.first), s->count, type, r, comm, stream);
    for (int r = from.first; r < from.last && result == NCCL_SUCCESS; r++)
        result =
            n->Recv(recv_dev + bytes * (size_t)(r - from.first), s->count, type, r, comm, stream);
    end = n->GroupEnd();
    return result == NCCL_SUCCESS ? end : result;
}

enum nccl_result plain_issue_captured(const struct nccl *n, struct ncclComm *comm,
                                      const struct plain *s, int rank, const void *send_dev,
                                      void *recv_dev, cudaStream_t stream) {
    enum nccl_type type = nccl_type_of(s->dtype);
    enum nccl_op op = nccl_op_of(s->redop);
    int root = s->root;
    struct range all = {0, s->ranks}, none = {0, 0}, to_root = {root, root + 1};
    bool is_root = rank == root;
    switch (s->collective) {
    case COLL_ALLREDUCE:
        return n->AllReduce(send_dev, recv_dev, s->count, type, op, comm, stream);
    case COLL_REDUCE_SCATTER:
        return n->ReduceScatter(send_dev, recv_dev, s->count, type, op, comm, stream);
    case COLL_ALLGATHER:
        return n->AllGather(send_dev, recv_dev, s->count, type, comm, stream);
    case COLL_BROADCAST:
        return n->Broadcast(send_dev, recv_dev, s->count, type, root, comm, stream);
    case COLL_REDUCE:
        return n->Reduce(send_dev, recv_dev, s->count, type, op, root, comm, stream);
    case COLL_GATHER:
        return blocks(n, comm, send_dev, recv_dev, s, to_root, is_root ? all : none, stream);
    case COLL_SCATTER:
        return blocks(n, comm, send_dev, recv_dev, s, is_root ? all : none, to_root, stream);
    case COLL_ALLTOALL:
        return blocks(n, comm, send_dev, recv_dev, s, all, all, stream);
    case COLL_NONE:
        break;
    }
    return NCCL_SUCCESS;
}
