/*
 * places.c: where the memory of each chunk is: in the caller's send memory, in `work` (which
 * has the form of recv), or in the arena. Buffers lie end to end in the order of declaration,
 * chunks in theirs.
 */
#include "runtime/engine.h"

#include <stdlib.h>

static bool is_sent(enum buffer_role r) {
    return r == ROLE_INPUT || r == ROLE_INOUT;
}
static bool is_received(enum buffer_role r) {
    return r == ROLE_OUTPUT || r == ROLE_INOUT;
}

static uint64_t io_elems(const struct flow *f, int32_t rank, bool (*counts)(enum buffer_role)) {
    uint64_t elems = 0;
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        if (!counts(b->role) || b->position[rank] < 0)
            continue;
        for (int32_t c = 0; c < b->chunks; c++) /* the split is the same on every rank */
            elems += flow_input_elems(f, b->first_loc + (loc_id)c);
    }
    return elems;
}

uint64_t io_send_elems(const struct flow *f, int32_t rank) {
    return io_elems(f, rank, is_sent);
}
uint64_t io_recv_elems(const struct flow *f, int32_t rank) {
    return io_elems(f, rank, is_received);
}

/* The chunks of one buffer on one rank; moves the rank's ends of send and recv on. */
static void place_buffer(struct loaded *l, const struct flow_buffer *b, int32_t rank,
                         const uint64_t *chunk_bytes) {
    loc_id first = b->first_loc + (loc_id)b->position[rank] * (loc_id)b->chunks;
    for (loc_id c = 0; c < (loc_id)b->chunks; c++) {
        struct place *p = &l->places[first + c];
        p->rank = rank;
        if (b->role == ROLE_SCRATCH) {
            p->offset_bytes = l->t->chunk_offsets.data[first + c];
            p->kind = p->offset_bytes == UINT64_MAX ? PLACE_NOWHERE : PLACE_ARENA;
            continue;
        }
        p->bytes = chunk_bytes[c];
        p->kind = is_received(b->role) ? PLACE_WORK : PLACE_SEND;
        p->inout = b->role == ROLE_INOUT;
        p->inout_bytes = l->send_bytes[rank];
        p->offset_bytes = is_received(b->role) ? l->recv_bytes[rank] : l->send_bytes[rank];
        l->send_bytes[rank] += is_sent(b->role) ? p->bytes : 0;
        l->recv_bytes[rank] += is_received(b->role) ? p->bytes : 0;
    }
}

bool loaded_places(struct loaded *l) {
    const struct flow *f = l->t->flow;
    size_t widest = 1;
    for (size_t i = 0; i < f->buffers.count; i++)
        if ((size_t)f->buffers.data[i].chunks > widest)
            widest = (size_t)f->buffers.data[i].chunks;
    uint64_t *chunk_bytes = calloc(widest, sizeof *chunk_bytes);
    if (!chunk_bytes)
        return false;
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        if (b->role != ROLE_SCRATCH && b->members > 0)
            for (int32_t c = 0; c < b->chunks; c++)
                chunk_bytes[c] =
                    flow_input_elems(f, b->first_loc + (loc_id)c) * dtype_bytes(f->setup.dtype);
        for (int32_t m = 0; m < b->members; m++)
            place_buffer(l, b, b->member[m], chunk_bytes);
    }
    free(chunk_bytes);
    return true;
}

/* Adds a copy behind the last of this rank's, or to it. */
static void add_copy(struct span_copy *copies, uint32_t first, uint32_t *count,
                     struct span_copy c) {
    struct span_copy *last = *count > first ? &copies[*count - 1] : NULL;
    if (last && last->from_bytes + last->bytes == c.from_bytes &&
        last->to_bytes + last->bytes == c.to_bytes)
        last->bytes += c.bytes;
    else if (c.bytes > 0)
        copies[(*count)++] = c;
}

void loaded_copies(struct loaded *l) {
    const struct flow *f = l->t->flow;
    uint32_t begins = 0, commits = 0;
    for (int32_t rank = 0; rank < f->setup.ranks; rank++) {
        uint32_t first_begin = l->first_begin[rank] = begins;
        uint32_t first_commit = l->first_commit[rank] = commits;
        for (size_t i = 0; i < f->buffers.count; i++) {
            const struct flow_buffer *b = &f->buffers.data[i];
            if (b->position[rank] < 0 || !is_received(b->role))
                continue;
            loc_id first = b->first_loc + (loc_id)b->position[rank] * (loc_id)b->chunks;
            for (loc_id c = 0; c < (loc_id)b->chunks; c++) {
                const struct place *p = &l->places[first + c];
                struct span_copy in = {p->inout_bytes, p->offset_bytes, p->bytes};
                struct span_copy out = {p->offset_bytes, p->offset_bytes, p->bytes};
                if (p->inout)
                    add_copy(l->begin, first_begin, &begins, in);
                if (p->inout || p->stored)
                    add_copy(l->commit, first_commit, &commits, out);
            }
        }
    }
    l->first_begin[f->setup.ranks] = begins;
    l->first_commit[f->setup.ranks] = commits;
}
