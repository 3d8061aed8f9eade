/* Questions about a flow: where a location is, how large it is, what the collective asks of the
 * buffers, and how operations fall into messages.
 */
#include "compiler/ir.h"

#include <string.h>

enum { UNIT_BYTES = 128 }; /* chunks are cut at multiples of this */

/* ---- memory ------------------------------------------------------------------------------- */

enum { LEAST_CAPACITY = 8 }; /* what a VEC takes at least */

uint32_t *index_array_new(size_t n, struct vec_guard *g) {
    VEC(uint32_t) array = {.guard = g};
    VEC_RESERVE(&array, n > LEAST_CAPACITY ? n : LEAST_CAPACITY);
    memset(array.data, 0xff, array.capacity * sizeof *array.data);
    return array.data;
}

void index_array_free(uint32_t *array, size_t n, struct vec_guard *g) {
    if (array)
        vec_release(array, n > LEAST_CAPACITY ? n : LEAST_CAPACITY, sizeof *array, g);
}

void flow_set_guard(struct flow *f, struct vec_guard *g) {
    if (f->transfer_encoding) {
        uint32_t *copy = index_array_new(f->transfers, g);
        memcpy(copy, f->transfer_encoding, f->transfers * sizeof *copy);
        index_array_free(f->transfer_encoding, f->transfers, f->guard);
        f->transfer_encoding = copy;
    }
    f->guard = g;
}

void flow_free(struct flow *f) {
    if (!f)
        return;
    VEC_FREE(&f->buffers);
    VEC_FREE(&f->codecs);
    VEC_FREE(&f->asked);
    VEC_FREE(&f->stages);
    VEC_FREE(&f->ops);
    VEC_FREE(&f->contexts);
    VEC_FREE(&f->ensures);
    VEC_FREE(&f->terms);
    VEC_FREE(&f->encodings);
    index_array_free(f->transfer_encoding, f->transfers, f->guard);
    f->transfer_encoding = NULL;
}

/* ---- locations ---------------------------------------------------------------------------- */

const struct flow_buffer *flow_buffer_of(const struct flow *f, loc_id loc, int32_t *rank,
                                         int32_t *chunk) {
    size_t low = 0, high = f->buffers.count; /* the last buffer that starts at or before loc */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (f->buffers.data[middle].first_loc <= loc)
            low = middle;
        else
            high = middle;
    }
    /* A buffer without members or chunks has no location and may share its first one with the next.
     */
    const struct flow_buffer *b = &f->buffers.data[low];
    uint32_t place = loc - b->first_loc, chunks = (uint32_t)b->chunks;
    if (rank)
        *rank = b->member[place / chunks];
    if (chunk)
        *chunk = (int32_t)(place % chunks);
    return b;
}

char *flow_loc_name(struct arena *a, const struct flow *f, loc_id loc) {
    int32_t rank, chunk;
    const struct flow_buffer *b = flow_buffer_of(f, loc, &rank, &chunk);
    return arena_printf(a, "%s[%d]@%d", b->name, chunk, rank);
}

const struct flow_op *flow_op_of(const struct flow *f, uint32_t transfer) {
    size_t low = 0, high = f->ops.count; /* the last operation that starts at or before it */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (f->ops.data[middle].first_transfer <= transfer)
            low = middle;
        else
            high = middle;
    }
    return &f->ops.data[low];
}

/* ---- sizes -------------------------------------------------------------------------------- */

static bool has_blocks(enum collective kind) {
    switch (kind) {
    case COLL_NONE:
    case COLL_ALLREDUCE:
    case COLL_BROADCAST:
    case COLL_REDUCE:
        return false;
    case COLL_REDUCE_SCATTER:
    case COLL_ALLGATHER:
    case COLL_GATHER:
    case COLL_SCATTER:
    case COLL_ALLTOALL:
        return true;
    }
    return false;
}

/* Whether a buffer of this role holds a block of every member. */
static bool holds_all_blocks(enum collective kind, enum buffer_role role) {
    if (!has_blocks(kind) || role == ROLE_SCRATCH)
        return false;
    if (role == ROLE_INOUT || kind == COLL_ALLTOALL)
        return true;
    bool input_is_big = kind == COLL_REDUCE_SCATTER || kind == COLL_SCATTER;
    return (role == ROLE_INPUT) == input_is_big;
}

/* The chunks that share `count` elements: of a block, or of the whole buffer. */
static uint32_t parts_of(const struct flow *f, const struct flow_buffer *b) {
    int32_t parts = b->chunks;
    if (holds_all_blocks(f->collective, b->role) && f->members > 0)
        parts = b->chunks / f->members;
    return parts > 0 ? (uint32_t)parts : 1;
}

uint64_t flow_input_elems(const struct flow *f, loc_id loc) {
    int32_t chunk;
    const struct flow_buffer *b = flow_buffer_of(f, loc, NULL, &chunk);
    uint64_t count = f->setup.count;
    if (f->collective == COLL_NONE)
        return count;
    uint64_t parts = parts_of(f, b), part = (uint64_t)chunk % parts;
    uint64_t unit = UNIT_BYTES / dtype_bytes(f->setup.dtype);
    uint64_t units = count / unit + (count % unit != 0);
    uint64_t small = units / parts,
             larger = units % parts; /* the last `larger` parts have one more */
    uint64_t before = parts - larger;
    uint64_t begin = (part * small + (part > before ? part - before : 0)) * unit;
    uint64_t end = begin + (small + (part >= before)) * unit;
    begin = begin < count ? begin : count;
    end = end < count ? end : count;
    return end - begin;
}

uint32_t flow_size_class(const struct flow *f, loc_id loc) {
    int32_t chunk;
    const struct flow_buffer *b = flow_buffer_of(f, loc, NULL, &chunk);
    return f->collective == COLL_NONE ? 0 : (uint32_t)chunk % parts_of(f, b);
}

/* ---- what the collective asks of the buffers ---------------------------------------------- */

static bool shape_error(const struct flow *f, struct diag *d, const char *text, const char *name) {
    if (d)
        diag_report(d, SEV_ERROR, f->collective_at, text, collective_name(f->collective), name);
    return false;
}

static bool find_sides(const struct flow *f, struct diag *d, struct flow_shape *s) {
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        bool is_in = b->role == ROLE_INPUT || b->role == ROLE_INOUT;
        bool is_out = b->role == ROLE_OUTPUT || b->role == ROLE_INOUT;
        if ((is_in && s->in) || (is_out && s->out))
            return shape_error(f, d,
                               "%s takes one inout buffer, or one input and one output: "
                               "'%s' is one too many",
                               b->name);
        s->in = is_in ? b : s->in;
        s->out = is_out ? b : s->out;
    }
    if (!s->in && !s->out)
        return shape_error(f, d, "%s needs an inout buffer, or an input and an output%s", "");
    if (!s->in || !s->out)
        return shape_error(f, d, "%s needs an %s buffer as well", s->in ? "output" : "input");
    return true;
}

/* Every member that gives or gets something has the buffer. */
static bool check_members(const struct flow *f, struct diag *d, const struct flow_buffer *b,
                          bool root_only) {
    for (int32_t i = 0; i < f->members; i++) {
        int32_t rank = f->member[i];
        if ((root_only && rank != f->root) || b->position[rank] >= 0)
            continue;
        if (d)
            diag_report(d, SEV_ERROR, f->collective_at, "rank %d takes part in %s but has no '%s'",
                        rank, collective_name(f->collective), b->name);
        return false;
    }
    return true;
}

static bool has_root(enum collective kind) {
    return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
           kind == COLL_SCATTER;
}

static bool root_is_member(const struct flow *f) {
    for (int32_t i = 0; i < f->members; i++)
        if (f->member[i] == f->root)
            return true;
    return false;
}

/* Both sides have the same number of chunks a block. */
static bool find_block(const struct flow *f, struct diag *d, struct flow_shape *s) {
    const struct flow_buffer *sides[2] = {s->in, s->out};
    bool big[2] = {s->in_big, s->out_big};
    int32_t block[2];
    for (int i = 0; i < 2; i++) {
        block[i] = sides[i]->chunks;
        if (!big[i])
            continue;
        if (sides[i]->chunks % f->members) {
            if (d)
                diag_report(d, SEV_ERROR, f->collective_at,
                            "%s: '%s' holds a block of each of %d ranks, and %d chunks do not "
                            "divide into them",
                            collective_name(f->collective), sides[i]->name, f->members,
                            sides[i]->chunks);
            return false;
        }
        block[i] /= f->members;
    }
    if (block[0] != block[1] && d)
        diag_report(d, SEV_ERROR, f->collective_at, "%s: '%s' has %d chunks a %s, '%s' has %d",
                    collective_name(f->collective), s->in->name, block[0],
                    s->in_big || s->out_big ? "block" : "rank", s->out->name, block[1]);
    s->block = block[0];
    return block[0] == block[1];
}

bool flow_shape(const struct flow *f, struct diag *d, struct flow_shape *s) {
    *s = (struct flow_shape){0};
    if (f->collective == COLL_NONE)
        return false;
    if (f->members <= 0)
        return shape_error(f, d, "%s is on no ranks%s", "");
    if (!find_sides(f, d, s))
        return false;
    if (has_root(f->collective) && !root_is_member(f))
        return shape_error(f, d, "%s: the root is not one of its ranks%s", "");
    bool from_root = f->collective == COLL_BROADCAST || f->collective == COLL_SCATTER;
    bool to_root = f->collective == COLL_REDUCE || f->collective == COLL_GATHER;
    s->in_big = holds_all_blocks(f->collective, s->in->role);
    s->out_big = holds_all_blocks(f->collective, s->out->role);
    return check_members(f, d, s->in, from_root) && check_members(f, d, s->out, to_root) &&
           find_block(f, d, s);
}

/* ---- messages ----------------------------------------------------------------------------- */

/* The messages of the step at hand, by ends, codec and stage. A stamp of an earlier step is an
 * empty place. */
struct message_place {
    uint64_t key;
    uint32_t stamp, message;
};
struct message_table {
    VEC(struct message_place) places; /* a power of two */
    uint32_t stamp;
};

static void table_start(struct message_table *t, size_t ops) {
    size_t wanted = 16;
    while (wanted < 2 * ops)
        wanted *= 2;
    if (wanted > t->places.count)
        (void)VEC_ADD_N(&t->places, wanted - t->places.count);
    t->stamp++;
}

static uint32_t table_find(struct message_table *t, const struct flow_op *op, uint32_t *messages) {
    uint64_t key = (uint64_t)(uint16_t)op->src_rank << 48 | (uint64_t)(uint16_t)op->dst_rank << 32 |
                   (uint64_t)op->codec << 16 | op->stage;
    size_t mask = t->places.count - 1;
    uint64_t mixed = key * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
    size_t at = (size_t)(mixed >> 32) & mask;
    for (;; at = (at + 1) & mask) {
        struct message_place *p = &t->places.data[at];
        if (p->stamp != t->stamp) {
            *p = (struct message_place){key, t->stamp, (*messages)++};
            return p->message;
        }
        if (p->key == key)
            return p->message;
    }
}

static size_t step_ops(const struct flow *f, size_t first) {
    size_t end = first + 1;
    while (end < f->ops.count && f->ops.data[end].step == f->ops.data[first].step)
        end++;
    return end - first;
}

void flow_number(struct flow *f) {
    struct message_table table = {.stamp = 0};
    f->transfers = f->messages = f->steps = 0;
    for (size_t i = 0; i < f->ops.count; i++) {
        struct flow_op *op = &f->ops.data[i];
        op->first_transfer = f->transfers;
        f->transfers += op->count;
        if (op->step && (i == 0 || op[-1].step != op->step)) {
            table_start(&table, step_ops(f, i));
            f->steps = op->step;
        }
        if (op->src_rank == op->dst_rank)
            op->message = NONE;
        else
            op->message = op->step ? table_find(&table, op, &f->messages) : f->messages++;
    }
    VEC_FREE(&table.places);
}

/* ---- messages for people ------------------------------------------------------------------ */

/* The loops within one def, outermost first, in one note; returns what encloses them: a call or
 * NONE. */
static uint32_t note_loops(struct diag *d, const struct flow *f, uint32_t context, struct span at) {
    enum { MOST = 16 };
    const struct flow_context *loops[MOST];
    size_t n = 0;
    while (context != NONE && !f->contexts.data[context].call) {
        if (n < MOST)
            loops[n++] = &f->contexts.data[context];
        context = f->contexts.data[context].parent;
    }
    char text[512];
    size_t used = 0;
    for (size_t i = n; i-- > 0 && used < sizeof text;) {
        int more = snprintf(text + used, sizeof text - used, "%s%s = %lld", used ? ", " : "with ",
                            loops[i]->name, (long long)loops[i]->value);
        used += more > 0 ? (size_t)more : 0;
    }
    if (n)
        diag_report(d, SEV_NOTE, at, "%s", text);
    return context;
}

/* From the start of a statement to its end, or that of the line. */
struct span flow_statement_span(const struct flow *f, src_pos at) {
    struct span span = {at, at + 1};
    size_t bytes = 0;
    const char *text = f->sources ? sources_text(f->sources, at, &bytes) : NULL;
    if (!text)
        return span;
    size_t begin = at - sources_base(f->sources, at), end = begin;
    while (end < bytes && !strchr(";#{}\n", text[end]))
        end++;
    while (end > begin + 1 && strchr(" \t\r", text[end - 1]))
        end--;
    span.end = at + (src_pos)(end > begin ? end - begin : 1);
    return span;
}

void flow_report(struct diag *d, const struct flow *f, const struct flow_op *op, enum severity sev,
                 const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct span at = flow_statement_span(f, op->at);
    diag_report(d, sev, at, "%s", text);
    flow_note_context(d, f, op->context, at);
}

void flow_note_context(struct diag *d, const struct flow *f, uint32_t context, struct span at) {
    while (context != NONE) {
        context = note_loops(d, f, context, at);
        if (context == NONE)
            break;
        const struct flow_context *call = &f->contexts.data[context];
        at = (struct span){call->call, call->call + (src_pos)strlen(call->name)};
        diag_report(d, SEV_NOTE, at, "in %s called here", call->name);
        context = call->parent;
    }
}
