/*
 * transport_nccl.c: one rank a process, messages by ncclSend and ncclRecv, a round a group.
 *
 * Communicators of our own, split from the caller's: for data and for repairs, and of each kind one
 * a sequence of rounds, so that fast links need not queue behind slow ones. Whoever uses one of
 * them is kept in order by NCCL, all graphs of the transport included; that order is the same on
 * all ranks, as graphs are launched in one order. Messages are read from and written to arenas
 * only, so what NCCL has recorded in a captured graph stays true for ever.
 *
 * A route connects to each of its peers once, before anything is captured: NCCL allocates and talks
 * to its peer when it first meets it.
 */
#include "runtime/transport.h"

#include "runtime/nccl_link.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRY(l, f, call) link_ok(l, (l)->nccl.call, "nccl" #call, f)
#define HASH_START      UINT64_C(0xcbf29ce484222325)

struct nccl_transport {
    struct transport head;
    struct nccl_link link;
    int32_t *node_of, *local_of;
};

struct route {
    struct nccl_transport *x;
    const struct cuda_plan *p;
    struct ncclComm *comms[2]; /* of each round sequence; owned by the link */
    uint32_t *words_dev;
    /* What leaves this rank in a group for the first time: [first_need[g] .. first_need[g + 1]). */
    uint32_t *first_need; /* [groups + 1] */
    struct protocol_need *needs_dev;
};

static struct nccl_transport *of(struct transport *x) {
    return (struct nccl_transport *)x; /* head is its first member */
}

/* ---- agreement ---- */

static bool agree(struct transport *x, const char *const *names, const uint64_t *values,
                  uint32_t count, struct failure *f) {
    struct nccl_link *l = &of(x)->link;
    uint64_t *all = malloc(((size_t)count * (size_t)l->ranks + 1) * sizeof *all);
    bool ok =
        all ? link_gather(l, values, count, all, f) : failure_set(f, RUN_NO_MEMORY, "no memory");
    for (int r = 0; ok && r < l->ranks; r++)
        for (uint32_t i = 0; ok && i < count; i++)
            if (all[(size_t)r * count + i] != all[i])
                ok = failure_set(f, RUN_PEER,
                                 "the ranks differ in %s: rank 0 has %llu, rank %d has %llu",
                                 names[i], (unsigned long long)all[i], r,
                                 (unsigned long long)all[(size_t)r * count + i]);
    free(all);
    return ok;
}

static uint64_t hash_bytes(uint64_t h, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* What ranks on one host have in common. SLUICE_HOSTID says something else, as NCCL_HOSTID does to
 * NCCL. */
static uint64_t host_hash(void) {
    char text[256] = "";
    const char *told = getenv("SLUICE_HOSTID");
    if (told)
        return hash_bytes(HASH_START, told, strlen(told));
    gethostname(text, sizeof text - 1);
    uint64_t h = hash_bytes(HASH_START, text, strlen(text));
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (boot) {
        h = hash_bytes(h, text, fread(text, 1, sizeof text, boot));
        fclose(boot);
    }
    return h;
}

/* Nodes in the order of their lowest ranks. */
static bool find_nodes(struct nccl_transport *n, struct failure *f) {
    struct nccl_link *l = &n->link;
    size_t ranks = (size_t)l->ranks;
    uint64_t mine = host_hash(), *hosts = malloc(ranks * sizeof *hosts);
    n->node_of = calloc(ranks, sizeof *n->node_of);
    n->local_of = calloc(ranks, sizeof *n->local_of);
    bool ok = hosts && n->node_of && n->local_of ? link_gather(l, &mine, 1, hosts, f)
                                                 : failure_set(f, RUN_NO_MEMORY, "no memory");
    for (size_t r = 0; ok && r < ranks; r++) {
        size_t same = 0;
        while (hosts[same] != hosts[r])
            same++;
        n->node_of[r] = same < r ? n->node_of[same] : n->head.nodes++;
        for (size_t q = same; q < r; q++)
            n->local_of[r] += hosts[q] == hosts[r];
    }
    n->head.node_of = n->node_of;
    n->head.local_of = n->local_of;
    free(hosts);
    return ok;
}

/* ---- routes ---- */

static uint32_t comm_index(enum route_use use, uint32_t sequence) {
    return (use == ROUTE_REPAIR ? 2u : 0u) + sequence;
}

/* One message of a word to every rank that the sequence's groups send to, one from every rank that
 * they receive from. */
static bool meet_peers(struct route *r, uint32_t sequence, uint8_t *met, struct failure *f) {
    struct nccl_link *l = &r->x->link;
    const struct tasks *t = r->p->t;
    struct ncclComm *comm = r->comms[sequence];
    bool ok = TRY(l, f, GroupStart());
    for (uint32_t g = 0; g < r->p->group_count; g++) {
        const struct group *group = &r->p->groups[g];
        for (uint32_t i = 0; ok && group->comm == sequence && i < group->n; i++) {
            const struct task *k = &t->tasks.data[r->p->group_tasks[group->first + i]];
            const struct message *m = &t->messages.data[k->message];
            bool sends = k->kind == TASK_SEND;
            int peer = sends ? m->dst : m->src;
            uint8_t bit = sends ? 1 : 2;
            if (met[peer] & bit)
                continue;
            met[peer] |= bit;
            ok =
                sends
                    ? TRY(l, f, Send(l->words_dev, 1, NCCL_U64, peer, comm, l->stream))
                    : TRY(l, f,
                          Recv(l->words_dev + l->words + peer, 1, NCCL_U64, peer, comm, l->stream));
        }
    }
    return TRY(l, f, GroupEnd()) && ok;
}

/* The all-reduce of the consensus is met as well, in its own size: NCCL chooses by it. */
static bool meet(struct route *r, struct failure *f) {
    struct nccl_link *l = &r->x->link;
    uint32_t words = PROTOCOL_NEEDS + r->p->needs;
    uint32_t *scratch_dev = NULL;
    uint8_t *met = calloc((size_t)l->ranks, 1);
    bool ok = met ? CUDA_OK(f, cudaMalloc((void **)&scratch_dev, words * sizeof *scratch_dev)) &&
                        CUDA_OK(f, cudaMemsetAsync(scratch_dev, 0, words * sizeof *scratch_dev,
                                                   l->stream))
                  : failure_set(f, RUN_NO_MEMORY, "no memory");
    for (uint32_t s = 0; ok && s < 2 && r->comms[s]; s++) {
        memset(met, 0, (size_t)l->ranks);
        ok = meet_peers(r, s, met, f);
    }
    ok = ok &&
         TRY(l, f,
             AllReduce(scratch_dev, scratch_dev, words - PROTOCOL_OVERFLOW, NCCL_U32, NCCL_MAX,
                       r->comms[0], l->stream)) &&
         link_wait(l, l->stream, f);
    cudaFree(scratch_dev);
    free(met);
    return ok;
}

/* The headers that a group's messages carry away, each in its first group, to `needs`, which has
 * room. Returns how many. */
static uint32_t needs_of_group(const struct cuda_plan *p, const struct group *g, uint8_t *noted,
                               struct protocol_need *needs) {
    const struct tasks *t = p->t;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct task *k = &t->tasks.data[p->group_tasks[g->first + i]];
        for (uint32_t j = 0; k->kind == TASK_SEND && j < k->operands; j++) {
            uint32_t piece = t->operands.data[k->first_operand + j].index;
            if (p->need[piece] == NONE || noted[piece])
                continue;
            noted[piece] = 1;
            needs[n++] = (struct protocol_need){cuda_piece_dev(p, piece), p->need[piece]};
        }
    }
    return n;
}

static bool note_needs(struct route *r, struct failure *f) {
    const struct cuda_plan *p = r->p;
    size_t pieces = p->t->pieces.count;
    uint8_t *noted = calloc(pieces + 1, 1);
    struct protocol_need *needs = malloc((pieces + 1) * sizeof *needs);
    r->first_need = calloc(p->group_count + 1, sizeof *r->first_need);
    bool ok = noted && needs && r->first_need;
    for (uint32_t g = 0; ok && g < p->group_count; g++)
        r->first_need[g + 1] =
            r->first_need[g] + needs_of_group(p, &p->groups[g], noted, needs + r->first_need[g]);
    size_t bytes = ok ? r->first_need[p->group_count] * sizeof *needs : 0;
    ok = ok ? bytes == 0 ||
                  (CUDA_OK(f, cudaMalloc((void **)&r->needs_dev, bytes)) &&
                   CUDA_OK(f, cudaMemcpyAsync(r->needs_dev, needs, bytes, cudaMemcpyHostToDevice,
                                              r->x->link.stream)) &&
                   CUDA_OK(f, cudaStreamSynchronize(r->x->link.stream)))
            : failure_set(f, RUN_NO_MEMORY, "no memory");
    free(noted);
    free(needs);
    return ok;
}

static void route_free(struct route *r) {
    if (!r)
        return;
    cudaFree(r->needs_dev);
    free(r->first_need);
    free(r);
}

static bool route_new(struct transport *x, const struct cuda_plan *p, enum route_use use,
                      uint32_t *words_dev, struct route **out, struct failure *f) {
    struct nccl_link *l = &of(x)->link;
    struct route *r = *out = calloc(1, sizeof *r);
    if (!r)
        return failure_set(f, RUN_NO_MEMORY, "no memory");
    r->x = of(x);
    r->p = p;
    r->words_dev = words_dev;
    uint32_t sequences = p->t->comms > 1 ? 2 : 1;
    bool ok = true;
    for (uint32_t s = 0; ok && s < sequences; s++) {
        ok = link_comm(l, comm_index(use, s), f);
        r->comms[s] = l->comms[comm_index(use, s)];
    }
    return ok && note_needs(r, f) && meet(r, f);
}

/* ---- under capture ---- */

static bool message_captured(struct route *r, const struct task *k, struct ncclComm *comm,
                             cudaStream_t stream, struct failure *f) {
    struct nccl_link *l = &r->x->link;
    const struct tasks *t = r->p->t;
    const struct message *m = &t->messages.data[k->message];
    bool sends = k->kind == TASK_SEND, ok = true;
    uint32_t pieces = sends ? k->operands : k->outs;
    for (uint32_t i = 0; ok && i < pieces; i++) {
        uint32_t piece =
            sends ? t->operands.data[k->first_operand + i].index : t->outs.data[k->first_out + i];
        uint64_t bytes = r->p->piece_bytes[piece];
        char *at = cuda_piece_dev(r->p, piece);
        if (bytes == 0)
            continue;
        ok = sends ? TRY(l, f, Send(at, bytes, NCCL_U8, m->dst, comm, stream))
                   : TRY(l, f, Recv(at, bytes, NCCL_U8, m->src, comm, stream));
    }
    return ok;
}

static bool exchange_captured(struct route *r, uint32_t group, cudaStream_t stream,
                              struct failure *f) {
    struct nccl_link *l = &r->x->link;
    const struct group *g = &r->p->groups[group];
    if (l->dead)
        return link_check(l, f);
    uint32_t first = r->first_need[group], needs = r->first_need[group + 1] - first;
    if (needs > 0 &&
        !CUDA_OK(f, gpu_exchange(NULL, 0, 0, r->needs_dev + first, needs, r->words_dev, stream)))
        return false;
    bool ok = TRY(l, f, GroupStart());
    for (uint32_t i = 0; ok && i < g->n; i++)
        ok = message_captured(r, &r->p->t->tasks.data[r->p->group_tasks[g->first + i]],
                              r->comms[g->comm], stream, f);
    return TRY(l, f, GroupEnd()) && ok;
}

static bool consensus_captured(struct route *r, uint32_t *words_dev, uint32_t count,
                               cudaStream_t stream, struct failure *f) {
    struct nccl_link *l = &r->x->link;
    if (l->dead)
        return link_check(l, f);
    return TRY(l, f,
               AllReduce(words_dev, words_dev, count, NCCL_U32, NCCL_MAX, r->comms[0], stream));
}

static bool plain_possible(const struct flow *flow) {
    struct plain p;
    return plain_of(flow, &p);
}

static bool plain_captured(struct route *r, const void *send_dev, void *recv_dev,
                           cudaStream_t stream, struct failure *f) {
    struct nccl_link *l = &r->x->link;
    struct plain p;
    if (l->dead)
        return link_check(l, f);
    if (!plain_of(r->p->t->flow, &p))
        return failure_set(f, RUN_UNSUPPORTED, "NCCL has no such collective");
    return link_ok(
        l, plain_issue_captured(&l->nccl, r->comms[0], &p, l->rank, send_dev, recv_dev, stream),
        collective_name(p.collective), f);
}

/* ---- the whole ---- */

static bool check(struct transport *x, struct failure *f) {
    return link_check(&of(x)->link, f);
}

static void abort_all(struct transport *x) {
    link_abort(&of(x)->link);
}

static void transport_free(struct transport *x) {
    struct nccl_transport *n = of(x);
    link_close(&n->link);
    free(n->node_of);
    free(n->local_of);
    free(n);
}

static const struct transport_ops ops = {
    .name = "nccl",
    .agree = agree,
    .route_new = route_new,
    .exchange_captured = exchange_captured,
    .consensus_captured = consensus_captured,
    .plain_possible = plain_possible,
    .plain_captured = plain_captured,
    .check = check,
    .abort = abort_all,
    .route_free = route_free,
    .free = transport_free,
};

struct transport *transport_nccl_new(struct ncclComm *caller, double timeout_seconds,
                                     struct failure *f) {
    struct nccl_transport *n = calloc(1, sizeof *n);
    if (!n) {
        failure_set(f, RUN_NO_MEMORY, "no memory");
        return NULL;
    }
    n->head.ops = &ops;
    n->head.timeout_seconds = timeout_seconds;
    bool ok = link_open(&n->link, caller, timeout_seconds, f);
    n->head.ranks = n->link.ranks;
    n->head.first_rank = n->link.rank;
    n->head.local_ranks = 1;
    n->head.device = n->link.device;
    if (!ok || !find_nodes(n, f)) {
        transport_free(&n->head);
        return NULL;
    }
    return &n->head;
}
