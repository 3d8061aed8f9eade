/* The memory of all ranks for `sluice run`: filled from a file or made up, compared, written out.
 */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Zeroed room for each rank; NULL: no memory. Ranks without elements get NULL. */
static void **rooms_new(int32_t ranks, const uint64_t *elems, uint64_t elem_bytes) {
    void **rooms = calloc((size_t)ranks, sizeof *rooms);
    bool ok = rooms != NULL;
    for (int32_t r = 0; ok && r < ranks; r++) {
        if (elems[r] > 0) {
            rooms[r] = elems[r] <= SIZE_MAX / elem_bytes ? calloc(elems[r], elem_bytes) : NULL;
            ok = rooms[r] != NULL;
        }
    }
    if (!ok && rooms) {
        for (int32_t r = 0; r < ranks; r++) {
            free(rooms[r]);
        }
        free(rooms);
        rooms = NULL;
    }
    return rooms;
}

static void rooms_free(void **rooms, int32_t ranks) {
    for (int32_t r = 0; rooms && r < ranks; r++) {
        free(rooms[r]);
    }
    free(rooms);
}

static void fill(struct run_data *d, const struct input_file *file, enum input_kind kind,
                 uint64_t seed) {
    uint64_t first = 0;
    for (int32_t r = 0; r < d->ranks; r++) {
        if (!d->send[r]) {
            continue;
        }
        if (file) {
            d->wrapped |= input_file_slice(file, first, d->send_elems[r], d->send[r]);
        } else {
            input_generate(kind, d->dtype, seed, r, 0, d->send_elems[r], d->send[r]);
        }
        first += d->send_elems[r];
    }
}

double run_data_bytes(const struct flow *f) {
    double elems = 0;
    for (int32_t r = 0; r < f->setup.ranks; r++) {
        elems += (double)io_send_elems(f, r) + 2 * (double)io_recv_elems(f, r);
    }
    return elems * (double)dtype_bytes(f->setup.dtype);
}

enum exit_code run_data_new(const struct options *o, const struct compilation *c,
                            const struct input_file *file, struct run_data *out) {
    *out = (struct run_data){.ranks = c->setup.ranks, .dtype = c->setup.dtype};
    enum input_kind kind;
    uint64_t seed, elem_bytes = dtype_bytes(out->dtype);
    size_t ranks = (size_t)out->ranks;
    if (!generator_parse(o, &kind, &seed)) {
        return EXIT_USAGE;
    }
    out->send_elems = calloc(ranks, sizeof *out->send_elems);
    out->recv_elems = calloc(ranks, sizeof *out->recv_elems);
    if (out->send_elems && out->recv_elems) {
        for (int32_t r = 0; r < out->ranks; r++) {
            out->send_elems[r] = io_send_elems(c->flow, r);
            out->recv_elems[r] = io_recv_elems(c->flow, r);
        }
        out->send = rooms_new(out->ranks, out->send_elems, elem_bytes);
        out->recv = rooms_new(out->ranks, out->recv_elems, elem_bytes);
        out->before = rooms_new(out->ranks, out->recv_elems, elem_bytes);
    }
    if (!out->send || !out->recv || !out->before) {
        complain(o, "no memory for the data of %d ranks", out->ranks);
        return EXIT_INTERNAL;
    }
    fill(out, file, kind, seed);
    return EXIT_OK;
}

void run_data_free(struct run_data *d) {
    rooms_free(d->send, d->ranks);
    rooms_free(d->recv, d->ranks);
    rooms_free(d->before, d->ranks);
    free(d->send_elems);
    free(d->recv_elems);
}

void run_data_swap(struct run_data *d) {
    void **recv = d->recv;
    d->recv = d->before;
    d->before = recv;
}

bool run_data_same(const struct run_data *d) {
    for (int32_t r = 0; r < d->ranks; r++) {
        if (d->recv[r] &&
            memcmp(d->recv[r], d->before[r], d->recv_elems[r] * dtype_bytes(d->dtype)) != 0) {
            return false;
        }
    }
    return true;
}

enum exit_code run_data_write(const struct options *o, const struct run_data *d) {
    FILE *file = fopen(o->output, "wb");
    bool ok = file != NULL;
    for (int32_t r = 0; ok && r < d->ranks; r++) {
        ok = d->recv_elems[r] == 0 ||
             fwrite(d->recv[r], dtype_bytes(d->dtype), d->recv_elems[r], file) == d->recv_elems[r];
    }
    if (file && fclose(file) != 0) {
        ok = false;
    }
    if (!ok) {
        complain(o, "cannot write %s: %s", o->output, strerror(errno));
    }
    return ok ? EXIT_OK : EXIT_IO;
}
