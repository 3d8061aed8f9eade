/* nccl_comm.c: the public way from a communicator of NCCL to one of ours. */
#include "runtime/handles.h"
#include "runtime/transport.h"

#include <string.h>

int sluice_comm_ranks_per_node(const sluice_comm *comm) {
    const struct transport *x = comm ? comm->x : NULL;
    if (!x || !x->node_of || x->nodes <= 1)
        return 0;
    int32_t each = x->ranks / x->nodes;
    for (int32_t r = 0; r < x->ranks; r++)
        if (x->node_of[r] != r / each || x->local_of[r] != r % each)
            return -1;
    return each;
}

sluice_status sluice_comm_nccl(sluice_comm **comm, struct ncclComm *nccl,
                               const sluice_nccl_options *options) {
    sluice_nccl_options o = SLUICE_NCCL_OPTIONS_INIT;
    struct failure f = {0};
    if (!comm)
        return SLUICE_INVALID_ARGUMENT;
    *comm = NULL;
    if (options)
        memcpy(&o, options, options->struct_bytes < sizeof o ? options->struct_bytes : sizeof o);
    if (!nccl || o.timeout_seconds < 0)
        return SLUICE_INVALID_ARGUMENT;
    struct transport *x = transport_nccl_new(nccl, o.timeout_seconds, &f);
    if (x)
        *comm = comm_new(x);
    if (!*comm && !f.words[0])
        failure_set(&f, RUN_NO_MEMORY, "no memory");
    if (o.words && o.words_bytes > 0)
        snprintf(o.words, o.words_bytes, "%s", f.words);
    return public_status(f.status);
}
