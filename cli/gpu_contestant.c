/* A contestant: NCCL's own collective, or a schedule as a captured graph. */
#include "cli/gpu_bench.h"

#include <string.h>

bool contestant_name(const struct gpu_bench *b, size_t index, struct contestant *c) {
    size_t codecs = 0;
    while (b->codecs[codecs]) {
        codecs++;
    }
    size_t each = codecs > 0 ? codecs : 1;
    *c = (struct contestant){0};
    if (index == 0) {
        snprintf(c->name, sizeof c->name, "NCCL");
        return true;
    }
    for (size_t f = 0; f <= (index - 1) / each; f++) {
        if (!b->files[f]) {
            return false;
        }
    }
    c->file = b->files[(index - 1) / each];
    c->codec = codecs > 0 ? b->codecs[(index - 1) % each] : NULL;
    const char *slash = strrchr(c->file, '/'), *base = slash ? slash + 1 : c->file;
    snprintf(c->name, sizeof c->name, "%.*s%s%.48s", (int)strcspn(base, "."), base,
             c->codec ? " " : "", c->codec ? c->codec : "");
    return true;
}

static bool sluice_failed(const struct gpu_rank *r, const struct contestant *c, const char *what,
                          const char *words) {
    complain(r->b->o, "rank %d: %s: %s%s%s", r->l->rank, c->name, what, *words ? ": " : "", words);
    return false;
}

static bool graph_ok(const struct gpu_rank *r, const struct contestant *c, sluice_status s,
                     const char *call) {
    if (s == SLUICE_OK) {
        return true;
    }
    const char *words = c->graph ? sluice_graph_error(c->graph) : "";
    char what[96];
    snprintf(what, sizeof what, "%s: %s", call, sluice_status_text(s));
    return sluice_failed(r, c, what, words);
}

/* The schedule for this size: with the codec of the contestant, and what was defined besides. */
static bool compile(struct gpu_rank *r, struct contestant *c, const struct plain *plain) {
    const struct options *o = r->b->o;
    const char *defines[64];
    char wire[128];
    size_t n = 0;
    sluice_options so = SLUICE_OPTIONS_INIT;
    if (c->codec) {
        snprintf(wire, sizeof wire, "wire=%s", c->codec);
        defines[n++] = wire;
    }
    for (size_t i = 0; i < o->defines.count && n < 63; i++) {
        defines[n++] = o->defines.items[i];
    }
    defines[n] = NULL;
    so.ranks = r->l->ranks;
    int per_node = sluice_comm_ranks_per_node(r->sluice);
    so.ranks_per_node = per_node > 0 ? per_node : 0;
    so.dtype = (sluice_dtype)plain->dtype;
    so.op = (sluice_op)plain->redop;
    so.count = plain->count;
    so.schedule = o->schedule;
    so.defines = defines;
    so.slices = o->slices > 0 ? (int)o->slices : 0;
    so.gpu_only = r->l->rank != 0 || o->no_check;
    sluice_status s = sluice_compile_file(&c->plan, c->file, &so);
    if (s == SLUICE_OK) {
        return true;
    }
    r->failure = s == SLUICE_INVALID_SCHEDULE ? EXIT_INPUT : EXIT_INTERNAL;
    if (r->l->rank == 0) {
        fputs(c->plan ? sluice_diagnostics(c->plan) : "", stderr);
    }
    return sluice_failed(r, c, sluice_status_text(s), c->plan ? sluice_error(c->plan) : "");
}

/* Whether the schedule's buffers are those of the collective, on all ranks: other ones would not
 * fit the memory that is here. */
static bool same_buffers(struct gpu_rank *r, struct contestant *c, const struct plain *plain) {
    struct gpu_place out, in;
    for (int i = 0; i < r->l->ranks; i++) {
        plain_places(plain, i, r, &out, &in);
        if (sluice_send_bytes(c->plan, i) == out.send_bytes &&
            sluice_recv_bytes(c->plan, i) == out.recv_bytes) {
            continue;
        }
        r->failure = EXIT_INPUT;
        if (r->l->rank == 0) {
            complain(r->b->o, "%s: its buffers on rank %d are not those of %s over all ranks",
                     c->name, i, collective_name(plain->collective));
        }
        return false;
    }
    return true;
}

bool contestant_start(struct gpu_rank *r, struct contestant *c, const struct plain *plain,
                      const struct gpu_place *p) {
    c->plain = *plain;
    if (!c->file) {
        return true;
    }
    sluice_graph_options go = SLUICE_GRAPH_OPTIONS_INIT;
    go.in_place = 1;
    go.timestamps = r->b->o->timeline != NULL;
    const void *send = p->send_dev;
    void *recv = p->recv_dev;
    return compile(r, c, plain) && same_buffers(r, c, plain) &&
           graph_ok(r, c, sluice_graph_create(&c->graph, c->plan, r->sluice, &send, &recv, &go),
                    "sluice_graph_create");
}

bool contestant_bind(struct gpu_rank *r, struct contestant *c, const struct gpu_place *p) {
    const void *send = p->send_dev;
    void *recv = p->recv_dev;
    return !c->file ||
           graph_ok(r, c, sluice_graph_rebind(c->graph, &send, &recv), "sluice_graph_rebind");
}

bool contestant_run(struct gpu_rank *r, struct contestant *c, const struct gpu_place *p,
                    double *host_s) {
    double start = now_seconds();
    uint64_t ticket;
    if (!c->file) {
        enum nccl_result e = plain_issue_captured(&r->nccl, r->comm, &c->plain, r->l->rank,
                                                  p->send_dev, p->recv_dev, r->stream);
        *host_s = now_seconds() - start;
        return gpu_nccl(r, e, collective_name(c->plain.collective));
    }
    sluice_status s = sluice_graph_launch(c->graph, r->stream, &ticket);
    *host_s = now_seconds() - start;
    return graph_ok(r, c, s, "sluice_graph_launch") &&
           graph_ok(r, c, sluice_graph_wait(c->graph, ticket), "sluice_graph_wait");
}

bool contestant_traffic(struct contestant *c, struct contestant_traffic *t) {
    sluice_graph_stats s;
    *t = (struct contestant_traffic){0};
    if (!c->graph || sluice_graph_get_stats(c->graph, &s) != SLUICE_OK) {
        return false;
    }
    *t = (struct contestant_traffic){s.raw_bytes, s.wire_bytes, s.overflows};
    return true;
}

void contestant_end(struct contestant *c) {
    sluice_graph_destroy(c->graph);
    sluice_destroy(c->plan);
    c->graph = NULL;
    c->plan = NULL;
}
