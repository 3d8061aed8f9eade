/* How validate's messages call things. Tasks, messages and pieces have the numbers of the text
 * form; the chunk that a piece carries is looked up, since a piece only says which encoding it is.
 * Slow, and only for messages.
 */
#include "compiler/validate.h"

uint32_t task_rank(const struct tasks *t, uint32_t task) {
    uint32_t lo = 0, hi = (uint32_t)t->ranks.count;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->ranks.data[mid].first <= task)
            lo = mid;
        else
            hi = mid;
    }
    while (lo > 0 && task >= t->ranks.data[lo].first + t->ranks.data[lo].n)
        lo--; /* ranks without tasks share their first one with the next */
    return lo;
}

static const char *chunk_name(struct model *m, loc_id loc) {
    return flow_loc_name(m->c->arena, m->t->flow, loc);
}

/* The chunk at the source of the first transfer of an encoding. */
static const char *encoded_chunk(struct model *m, uint32_t encoding) {
    const struct flow *f = m->t->flow;
    if (encoding >= f->encodings.count || !f->ops.count)
        return NULL;
    uint32_t transfer = f->encodings.data[encoding].first_transfer;
    size_t lo = 0, hi = f->ops.count;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->ops.data[mid].first_transfer <= transfer)
            lo = mid;
        else
            hi = mid;
    }
    const struct flow_op *op = &f->ops.data[lo];
    if (transfer < op->first_transfer || transfer - op->first_transfer >= op->count)
        return NULL;
    return chunk_name(m, op->src + (transfer - op->first_transfer));
}

/* The chunk that a compute moves or adds to. */
static const char *computed_chunk(struct model *m, const struct task *task) {
    if (task->store.kind == OPERAND_CHUNK && task->store.index != NONE)
        return chunk_name(m, task->store.index);
    for (uint32_t i = 0; i < task->operands; i++) {
        struct operand o = m->t->operands.data[task->first_operand + i];
        if (o.kind == OPERAND_CHUNK)
            return chunk_name(m, o.index);
    }
    return NULL;
}

uint32_t piece_writer(const struct model *m, uint32_t piece) {
    for (uint32_t i = 0; i < m->t->tasks.count; i++) {
        const struct task *task = &m->t->tasks.data[i];
        for (uint32_t j = 0; j < task->outs; j++)
            if (m->t->outs.data[task->first_out + j] == piece)
                return i;
    }
    return NONE;
}

static const char *piece_chunk(struct model *m, uint32_t piece) {
    const char *name = encoded_chunk(m, m->t->pieces.data[piece].encoding);
    for (unsigned hops = 0; !name && hops < 64; hops++) {
        uint32_t by = piece_writer(m, piece);
        if (by == NONE)
            break;
        const struct task *writer = &m->t->tasks.data[by];
        if (writer->kind == TASK_COMPUTE)
            return computed_chunk(m, writer);
        const struct message *message = &m->t->messages.data[writer->message];
        if (writer->kind != TASK_RECV || message->send == NONE)
            break;
        const struct task *send = &m->t->tasks.data[message->send];
        uint32_t place = 0;
        while (place < writer->outs && m->t->outs.data[writer->first_out + place] != piece)
            place++;
        if (place >= send->operands)
            break;
        piece = m->t->operands.data[send->first_operand + place].index;
    }
    return name;
}

const char *piece_name(struct model *m, uint32_t piece) {
    const struct tasks *t = m->t;
    uint32_t first = piece; /* the text counts the pieces of a rank from 0 */
    while (first && t->pieces.data[first - 1].rank == t->pieces.data[piece].rank)
        first--;
    const char *chunk = piece_chunk(m, piece);
    const char *slice =
        t->slices > 1 ? arena_printf(m->c->arena, " slice %u", t->pieces.data[piece].slice) : "";
    if (!chunk)
        return arena_printf(m->c->arena, "p%u", piece - first);
    return arena_printf(m->c->arena, "p%u (%s%s)", piece - first, chunk, slice);
}

const char *operand_name(struct model *m, uint32_t task, struct operand o) {
    switch (o.kind) {
    case OPERAND_CHUNK:
        if (m->t->slices > 1)
            return arena_printf(m->c->arena, "%s slice %u", chunk_name(m, o.index),
                                m->t->tasks.data[task].slice);
        return chunk_name(m, o.index);
    case OPERAND_ACC:
        return arena_printf(m->c->arena, "acc%u", o.index);
    case OPERAND_PIECE:
        break;
    }
    return piece_name(m, o.index);
}

/* "of data[0]@1", "of data[0]@1 and 3 more", or nothing. */
static const char *message_chunks(struct model *m, uint32_t first_piece, uint32_t n) {
    const char *chunk = n ? piece_chunk(m, first_piece) : NULL;
    if (!chunk)
        return "";
    if (n > 1)
        return arena_printf(m->c->arena, " of %s and %u more", chunk, n - 1);
    return arena_printf(m->c->arena, " of %s", chunk);
}

const char *task_name(struct model *m, uint32_t index) {
    const struct tasks *t = m->t;
    struct arena *a = m->c->arena;
    const struct task *task = &t->tasks.data[index];
    uint32_t rank = task_rank(t, index), number = index - t->ranks.data[rank].first;
    const char *chunk;
    switch (task->kind) {
    case TASK_COMPUTE:
        chunk = computed_chunk(m, task);
        return arena_printf(a, "t%u (%s%s%s)", number, task_op_name(task_op_of(t, task)),
                            chunk ? " of " : "", chunk ? chunk : "");
    case TASK_SEND:
        return arena_printf(
            a, "t%u (send%s to rank %d)", number,
            message_chunks(m, t->operands.data[task->first_operand].index, task->operands),
            t->messages.data[task->message].dst);
    case TASK_RECV:
        break;
    }
    return arena_printf(a, "t%u (recv%s from rank %d)", number,
                        message_chunks(m, t->outs.data[task->first_out], task->outs),
                        t->messages.data[task->message].src);
}

const char *group_name(struct model *m, uint32_t index) {
    const struct task *task = &m->t->tasks.data[index];
    return arena_printf(m->c->arena, "round %u of comm %u", task->round, task->comm);
}

void task_report(struct model *m, uint32_t index, enum severity sev, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tasks_report(m->c->diag, m->t, index, sev, "%s", text);
}

void task_note(struct model *m, uint32_t index, const char *text) {
    const struct task *task = &m->t->tasks.data[index];
    if (task->at || task->op < m->t->flow->ops.count)
        task_report(m, index, SEV_NOTE, "%s", text);
}
