/* Prints tasks as text; tasks_text.c reads it back to the same tasks. IR.md says what each field
 * means. */
#include "compiler/irlex.h"

#include <inttypes.h>

static bool is_coded(const struct tasks *t, uint32_t piece) {
    return t->pieces.data[piece].codec != 0; /* 0 is none */
}

enum task_op task_op_of(const struct tasks *t, const struct task *k) {
    enum shape { ONE, ACC, MANY } shape = k->operands == 1 ? ONE : MANY;
    enum wire { RAW, CODED } from = RAW, to = RAW;
    for (uint32_t i = 0; i < k->operands; i++) {
        const struct operand *o = &t->operands.data[k->first_operand + i];
        if (o->kind == OPERAND_ACC && k->operands == 1)
            shape = ACC;
        if (o->kind == OPERAND_PIECE && is_coded(t, o->index))
            from = CODED;
    }
    for (uint32_t i = 0; i < k->outs; i++)
        to = is_coded(t, t->outs.data[k->first_out + i]) ? CODED : to;
    static const struct {
        enum shape shape;
        enum wire from, to;
    } row[] = {
#define OP(name, shape, from, to) {shape, from, to},
#include "compiler/ops.def"
    };
    enum task_op op = 0;
    while (row[op].shape != shape || row[op].from != from || row[op].to != to)
        op++;
    return op;
}

const char *task_op_name(enum task_op op) {
    static const char *const name[] = {
#define OP(name, shape, from, to) #name,
#include "compiler/ops.def"
    };
    return name[op];
}

/* ---- one rank ----------------------------------------------------------------------------- */

struct printer {
    const struct tasks *t;
    const struct rank_tasks *rank;
    uint32_t first_piece, pieces; /* of the rank */
    bool placed;
    FILE *out;
};

static void print_chunk(const struct printer *p, loc_id loc) {
    int32_t rank, chunk;
    const struct flow_buffer *b = flow_buffer_of(p->t->flow, loc, &rank, &chunk);
    fprintf(p->out, "%s[%" PRId32 "]", b->name, chunk);
}

static void print_operand(const struct printer *p, struct operand o) {
    switch (o.kind) {
    case OPERAND_CHUNK:
        print_chunk(p, o.index);
        break;
    case OPERAND_ACC:
        fprintf(p->out, "acc%" PRIu32, o.index);
        break;
    case OPERAND_PIECE:
        fprintf(p->out, "p%" PRIu32, o.index - p->first_piece);
        break;
    }
}

static void print_outs(const struct printer *p, const struct task *k) {
    for (uint32_t i = 0; i < k->outs; i++)
        fprintf(p->out, " p%" PRIu32, p->t->outs.data[k->first_out + i] - p->first_piece);
}

static void print_compute(const struct printer *p, const struct task *k) {
    const struct operand *operand = p->t->operands.data + k->first_operand;
    fprintf(p->out, "%s ", task_op_name(task_op_of(p->t, k)));
    if (k->store.index != NONE) {
        print_operand(p, k->store);
        fputs(" = ", p->out);
    }
    bool grouped = k->divide && k->operands > 1;
    fputs(grouped ? "(" : "", p->out);
    for (uint32_t i = 0; i < k->operands; i++) {
        fputs(i ? " + " : "", p->out);
        print_operand(p, operand[i]);
    }
    fputs(grouped ? ")" : "", p->out);
    if (k->divide)
        fprintf(p->out, " / %" PRIu32, k->divisor);
    if (k->outs) {
        fputs(" ->", p->out);
        print_outs(p, k);
    }
}

static void print_task(const struct printer *p, const struct task *k, uint32_t number) {
    const struct tasks *t = p->t;
    fprintf(p->out, "  t%" PRIu32 " ", number);
    switch (k->kind) {
    case TASK_COMPUTE:
        print_compute(p, k);
        break;
    case TASK_SEND:
        fprintf(p->out, "send m%" PRIu32, k->message);
        for (uint32_t i = 0; i < k->operands; i++) {
            fputc(' ', p->out);
            print_operand(p, t->operands.data[k->first_operand + i]);
        }
        fprintf(p->out, " to %" PRId32, t->messages.data[k->message].dst);
        break;
    case TASK_RECV:
        fprintf(p->out, "recv m%" PRIu32, k->message);
        print_outs(p, k);
        fprintf(p->out, " from %" PRId32, t->messages.data[k->message].src);
        break;
    }
    if (t->slices > 1)
        fprintf(p->out, " slice %u", k->slice);
    if (k->stage)
        fprintf(p->out, " stage %s", t->flow->stages.data[k->stage].name);
    if (k->op != NONE)
        fprintf(p->out, " op %" PRIu32, k->op);
    if (k->comm)
        fprintf(p->out, " comm %u", k->comm);
    if (k->round != NONE)
        fprintf(p->out, " round %" PRIu32, k->round);
    if (k->round != NONE && k->index)
        fprintf(p->out, " index %" PRIu32, k->index);
    if (k->tick != NONE)
        fprintf(p->out, " tick %" PRIu32, k->tick);
    if (t->lanes)
        fprintf(p->out, " lane %u", k->lane);
    fputs(k->deps ? " after" : "", p->out);
    for (uint32_t i = 0; i < k->deps; i++)
        fprintf(p->out, " t%" PRIu32, t->deps.data[k->first_dep + i] - p->rank->first);
    fputc('\n', p->out);
}

static void print_piece(const struct printer *p, uint32_t number) {
    const struct piece *piece = &p->t->pieces.data[p->first_piece + number];
    char codec[CODEC_TEXT_BYTES];
    fprintf(p->out, "  p%" PRIu32 " %s", number,
            codec_format(&p->t->flow->codecs.data[piece->codec], codec, sizeof codec));
    if (piece->encoding != NONE)
        fprintf(p->out, " encoding %" PRIu32, piece->encoding);
    if (p->t->slices > 1)
        fprintf(p->out, " slice %u", piece->slice);
    fprintf(p->out, " elems %" PRIu64, piece->elems);
    if (p->t->slice_unit)
        fprintf(p->out, " bytes %" PRIu64, piece->bytes);
    if (p->placed)
        fprintf(p->out, " at %" PRIu64, piece->offset);
    fputc('\n', p->out);
}

/* Neighbours of one size share a line, as long as they have no place of their own. */
static void print_scratch(const struct printer *p, const struct flow_buffer *b, loc_id first) {
    const struct tasks *t = p->t;
    uint32_t chunks = (uint32_t)b->chunks;
    for (uint32_t c = 0, n; c < chunks; c += n) {
        uint32_t size = t->loc_size.data[first + c];
        uint64_t place = p->placed ? t->chunk_offsets.data[first + c] : UINT64_MAX;
        for (n = 1; c + n < chunks && t->loc_size.data[first + c + n] == size; n++) {
            if (place != UINT64_MAX ||
                (p->placed && t->chunk_offsets.data[first + c + n] != UINT64_MAX))
                break;
        }
        if (size == NONE)
            continue;
        fprintf(p->out, "  scratch %s[%" PRIu32 "]", b->name, c);
        if (n > 1)
            fprintf(p->out, " chunks %" PRIu32, n);
        fputs(" elems", p->out);
        const struct chunk_size *s = &t->sizes.data[size];
        for (uint32_t i = 0; i < s->elems; i++)
            fprintf(p->out, " %" PRIu64, t->size_elems.data[s->first_elems + i]);
        if (place != UINT64_MAX)
            fprintf(p->out, " at %" PRIu64, place);
        fputc('\n', p->out);
    }
}

static void print_rank(const struct printer *p, int32_t rank) {
    const struct tasks *t = p->t;
    const struct flow *f = t->flow;
    fprintf(p->out, "rank %" PRId32, rank);
    if (p->rank->accs)
        fprintf(p->out, " accs %" PRIu32, p->rank->accs);
    if (p->placed)
        fprintf(p->out, " arena %" PRIu64 " unshared %" PRIu64 " scratch %" PRIu64,
                p->rank->arena_bytes, p->rank->unshared_bytes, p->rank->chunk_bytes);
    fputc('\n', p->out);
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        if (b->role == ROLE_SCRATCH && b->position[rank] >= 0)
            print_scratch(p, b, b->first_loc + (uint32_t)b->position[rank] * (uint32_t)b->chunks);
    }
    for (uint32_t i = 0; p->placed && i < p->rank->accs; i++)
        fprintf(p->out, "  acc%" PRIu32 " at %" PRIu64 "\n", i,
                t->acc_offsets.data[p->rank->first_acc + i]);
    for (uint32_t i = 0; i < p->pieces; i++)
        print_piece(p, i);
    for (uint32_t i = 0; i < p->rank->n; i++)
        print_task(p, &t->tasks.data[p->rank->first + i], i);
}

static void print_header(const struct tasks *t, int32_t rank, FILE *out) {
    fprintf(out, "tasks %s\n", t->flow->name);
    flow_print_header(t->flow, out);
    if (t->slice_unit)
        fprintf(out, "sliced %" PRIu32 " unit %" PRIu32 "\n", t->slices, t->slice_unit);
    if (t->comms)
        fprintf(out, "comms %" PRIu32 "\n", t->comms);
    if (t->rounds[0] || t->rounds[1])
        fprintf(out, "rounds %" PRIu32 " %" PRIu32 "\n", t->rounds[0], t->rounds[1]);
    if (t->lanes)
        fprintf(out, "lanes %" PRIu32 "\n", t->lanes);
    if (t->chunk_offsets.count)
        fputs("placed\n", out);
    if (rank >= 0)
        fprintf(out, "only %" PRId32 "\n", rank);
}

void tasks_print(const struct tasks *t, int32_t rank, FILE *out) {
    print_header(t, rank, out);
    struct printer p = {.t = t, .placed = t->chunk_offsets.count != 0, .out = out};
    for (size_t r = 0; r < t->ranks.count; r++) {
        p.first_piece += p.pieces;
        p.pieces = 0;
        while (p.first_piece + p.pieces < t->pieces.count &&
               t->pieces.data[p.first_piece + p.pieces].rank == (int32_t)r)
            p.pieces++;
        p.rank = &t->ranks.data[r];
        if (rank < 0 || rank == (int32_t)r)
            print_rank(&p, (int32_t)r);
    }
}
