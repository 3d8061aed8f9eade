/* The columns of nccl-tests, and behind them what compression adds. */
#include "cli/gpu_bench.h"

#include <string.h>

/* What the busiest link carries for each byte of the collective, as nccl-tests defines it. */
static double bus_factor(enum collective c, int ranks) {
    double n = ranks;
    switch (c) {
    case COLL_ALLREDUCE:
        return 2 * (n - 1) / n;
    case COLL_REDUCE_SCATTER:
    case COLL_ALLGATHER:
    case COLL_GATHER:
    case COLL_SCATTER:
    case COLL_ALLTOALL:
        return (n - 1) / n;
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_NONE:
        break;
    }
    return 1;
}

static bool reduces(enum collective c) {
    return c == COLL_ALLREDUCE || c == COLL_REDUCE_SCATTER || c == COLL_REDUCE;
}

static bool has_root(enum collective c) {
    return c == COLL_BROADCAST || c == COLL_REDUCE || c == COLL_GATHER || c == COLL_SCATTER;
}

static double gb_per_s(uint64_t bytes, double seconds) {
    return seconds > 0 ? (double)bytes / seconds * 1e-9 : 0;
}

void gpu_table_begin(struct gpu_table *t, const struct gpu_rank *r) {
    const struct gpu_bench *b = t->b;
    char setting[128];
    t->json = json_start(stdout);
    if (b->o->json) {
        json_open(&t->json, NULL, '{');
        json_text(&t->json, "collective", collective_name(b->collective));
        json_integer(&t->json, "ranks", (uint64_t)r->l->ranks);
        json_text(&t->json, "device", r->device);
        json_bool(&t->json, "oversubscribed", r->l->oversubscribe);
        json_integer(&t->json, "nccl_version", (uint64_t)r->nccl.version);
        json_text(&t->json, "dtype", dtype_name(b->dtype));
        json_text(&t->json, "op", reduces(b->collective) ? redop_name(b->op) : "none");
        json_text(&t->json, "data", b->o->input ? b->o->input : input_kind_name(b->kind));
        json_integer(&t->json, "iterations", (uint64_t)b->iters);
        json_integer(&t->json, "warmup", (uint64_t)b->warmup);
        json_open(&t->json, "environment", '[');
    } else {
        printf("# %d ranks%s, %s, NCCL %d.%d.%d\n", r->l->ranks,
               r->l->oversubscribe ? " on one GPU over sockets" : "", r->device,
               r->nccl.version / 10000, r->nccl.version / 100 % 100, r->nccl.version % 100);
        printf("#");
    }
    for (size_t i = 0; launch_setting(i, setting, sizeof setting); i++) {
        if (setting[0] && b->o->json) {
            json_text(&t->json, NULL, setting);
        } else if (setting[0]) {
            printf(" %s", setting);
        }
    }
    if (b->o->json) {
        json_close(&t->json, ']');
        json_open(&t->json, "rows", '[');
        return;
    }
    printf(
        "\n# data: %s; median of %d runs of the slowest rank, taking turns; wire: bytes that the "
        "busiest rank sends\n",
        b->o->input ? b->o->input : input_kind_name(b->kind), b->iters);
    printf("#%66s out of place%26s in place\n", "", "");
    printf("#%-27s %12s %11s %6s %6s %4s %10s %7s %7s %6s %10s %7s %7s %6s %12s %6s %5s %7s %6s\n",
           " what", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
           "time", "algbw", "busbw", "#wrong", "wire", "ratio", "ovfl", "host", "x NCCL");
    printf("#%-27s %12s %11s %6s %6s %4s %10s %7s %7s %6s %10s %7s %7s %6s %12s %6s %5s %7s\n", "",
           "(B)", "(elems)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
           "", "(B)", "", "", "(us)");
}

static void print_side(const struct gpu_side *s, uint64_t bytes, double factor) {
    char wrong[24] = "N/A";
    if (!s->known) {
        printf(" %10s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    if (s->judged) {
        snprintf(wrong, sizeof wrong, "%llu", (unsigned long long)s->wrong);
    }
    double algorithm = gb_per_s(bytes, s->seconds);
    printf(" %10.1f %7.2f %7.2f %6s", s->seconds * 1e6, algorithm, algorithm * factor, wrong);
}

static void json_side(struct json *j, const char *key, const struct gpu_side *s, uint64_t bytes,
                      double factor) {
    if (!s->known) {
        return;
    }
    json_open(j, key, '{');
    json_number(j, "seconds", s->seconds);
    json_number(j, "best_seconds", s->best_seconds);
    json_number(j, "algbw_gb_per_s", gb_per_s(bytes, s->seconds));
    json_number(j, "busbw_gb_per_s", gb_per_s(bytes, s->seconds) * factor);
    if (s->judged) {
        json_integer(j, "wrong", s->wrong);
    }
    json_close(j, '}');
}

static void row_json(struct gpu_table *t, const struct gpu_row *row, double factor) {
    struct json *j = &t->json;
    json_open(j, NULL, '{');
    json_text(j, "name", row->name);
    json_text(j, "schedule", row->file);
    json_text(j, "codec", row->codec);
    json_integer(j, "bytes", row->bytes);
    json_integer(j, "count", row->count);
    json_side(j, "out_of_place", &row->out, row->bytes, factor);
    json_side(j, "in_place", &row->in, row->bytes, factor);
    if (row->raw_bytes > 0) {
        json_integer(j, "raw_bytes", row->raw_bytes);
        json_integer(j, "wire_bytes", row->wire_bytes);
        json_number(j, "ratio", (double)row->wire_bytes / (double)row->raw_bytes);
        json_integer(j, "overflows", row->overflows);
    }
    json_number(j, "host_seconds", row->host_seconds);
    json_number(j, "times_nccl", t->nccl_seconds / row->out.seconds);
    json_close(j, '}');
}

void gpu_table_row(struct gpu_table *t, const struct gpu_row *row, int ranks) {
    const struct gpu_bench *b = t->b;
    double factor = bus_factor(b->collective, ranks);
    if (!row->file) {
        t->nccl_seconds = row->out.seconds;
    }
    if (b->o->json) {
        row_json(t, row, factor);
        return;
    }
    printf(" %-27s %12llu %11llu %6s %6s %4d", row->name, (unsigned long long)row->bytes,
           (unsigned long long)row->count, dtype_name(b->dtype),
           reduces(b->collective) ? redop_name(b->op) : "none",
           has_root(b->collective) ? b->root : -1);
    print_side(&row->out, row->bytes, factor);
    print_side(&row->in, row->bytes, factor);
    if (row->raw_bytes > 0) {
        printf(" %12llu %6.3f %5llu", (unsigned long long)row->wire_bytes,
               (double)row->wire_bytes / (double)row->raw_bytes,
               (unsigned long long)row->overflows);
    } else {
        printf(" %12s %6s %5s", "-", "-", "-");
    }
    printf(" %7.1f %6.2f\n", row->host_seconds * 1e6, t->nccl_seconds / row->out.seconds);
    fflush(stdout);
}

void gpu_table_end(struct gpu_table *t) {
    if (t->b->o->json) {
        json_close(&t->json, ']');
        json_close(&t->json, '}');
    }
}
