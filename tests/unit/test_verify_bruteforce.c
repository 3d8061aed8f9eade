/* The proof against brute force. Random small flows, good ones, good ones with a few changes, and
 * wild ones, are judged by `verify` and by a model that is as plain as can be: a chunk holds the
 * text of an expression and a count for every input. The verdicts must agree. What is accepted is
 * then run on numbers, with rounding and codecs that lose bits on purpose, along the encodings that
 * `forward` chose: results must be right, and equal wherever they have to be.
 *
 * Nothing here uses the compiler's values. SLUICE_SEEDS=n runs n programs instead of the few of
 * every day.
 */
#include "compiler/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    MAX_RANKS_HERE = 5,
    MAX_BUFFERS_HERE = 3,
    MAX_LOCS_HERE = 128,
    MAX_OPS_HERE = 200,
    MAX_NODES = 1024,
    MAX_TEXT = 4000,
    MAX_OPERANDS = 32,
    MAX_HELD = 256,
    EVERY_DAY = 6000,
};

enum promise {
    ALLREDUCE,
    REDUCE,
    BROADCAST,
    ALLGATHER,
    REDUCE_SCATTER,
    ALLTOALL,
    ENSURES,
    PROMISES
};
static const char *const promise_names[] = {"allreduce",      "reduce",   "broadcast", "allgather",
                                            "reduce_scatter", "alltoall", "ensures"};

enum role { INPUT, OUTPUT, INOUT, SCRATCH };
static const char *const role_names[] = {"input", "output", "inout", "scratch"};

enum codec_here { RAW, PACK, CAST, QUANT, CODECS };
static const char *const codec_names[] = {"none", "pack", "cast(bf16)", "quant(8)"};

struct op {
    bool reduce;
    int src_buffer, src_chunk, src_rank, dst_buffer, dst_chunk, dst_rank, count, step;
    enum codec_here codec;
};

struct program_here {
    int ranks, buffers, root, block, ops;
    enum promise promise;
    struct {
        enum role role;
        int chunks, first_loc;
    } buffer[MAX_BUFFERS_HERE];
    struct op op[MAX_OPS_HERE];
    int in, out; /* buffers of the promise */
};

static uint64_t state;

static int below(int n) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (uint64_t)n);
}

static int loc_of(const struct program_here *p, int buffer, int rank, int chunk) {
    return p->buffer[buffer].first_loc + rank * p->buffer[buffer].chunks + chunk;
}

/* ---- making programs ---------------------------------------------------------------------- */

static void add_buffer(struct program_here *p, enum role role, int chunks) {
    int first = 0;
    if (p->buffers)
        first = p->buffer[p->buffers - 1].first_loc + p->ranks * p->buffer[p->buffers - 1].chunks;
    p->buffer[p->buffers].role = role;
    p->buffer[p->buffers].chunks = chunks;
    p->buffer[p->buffers].first_loc = first;
    p->buffers++;
}

static void declare(struct program_here *p, bool in_place) {
    int n = p->ranks;
    bool in_big = p->promise == REDUCE_SCATTER || p->promise == ALLTOALL;
    bool out_big = p->promise == ALLGATHER || p->promise == ALLTOALL;
    p->block = 1 + below(2);
    bool small = p->promise == ALLREDUCE || p->promise == REDUCE || p->promise == BROADCAST ||
                 p->promise == ENSURES;
    if (small)
        p->block = 1 + below(n);
    if (in_place) {
        add_buffer(p, INOUT, small ? p->block : p->block * n);
    } else {
        add_buffer(p, INPUT, in_big ? p->block * n : p->block);
        add_buffer(p, OUTPUT, out_big ? p->block * n : p->block);
    }
    p->in = 0;
    p->out = in_place ? 0 : 1;
    if (below(2))
        add_buffer(p, SCRATCH, 1 + below(3));
}

static void add_op(struct program_here *p, bool reduce, int sb, int sc, int sr, int db, int dc,
                   int dr, enum codec_here codec, int step) {
    if (p->ops < MAX_OPS_HERE)
        p->op[p->ops++] = (struct op){reduce, sb, sc, sr, db, dc, dr, 1, step, codec};
}

/* Every sum is made at an owner, in the order of the ranks or of a ring, then copied to all. */
static void owner_sums(struct program_here *p, enum codec_here up, enum codec_here down,
                       bool to_all) {
    int n = p->ranks, step = below(2);
    for (int c = 0; c < p->block; c++) {
        int owner = p->promise == REDUCE ? p->root : c % n;
        if (p->in != p->out)
            add_op(p, false, p->in, c, owner, p->out, c, owner, RAW, 0);
        for (int r = 0; r < n; r++)
            if (r != owner)
                add_op(p, true, p->in, c, r, p->out, c, owner, up, step ? c + 1 : 0);
        for (int r = 0; to_all && r < n; r++)
            add_op(p, false, p->out, c, owner, p->out, c, r, down, 0);
    }
}

static void ring(struct program_here *p, enum codec_here up, enum codec_here down) {
    int n = p->ranks, step = 1;
    for (int c = 0; p->in != p->out && c < p->block; c++)
        for (int r = 0; r < n; r++)
            add_op(p, false, p->in, c, r, p->out, c, r, RAW, 0);
    for (int s = 0; s < n - 1; s++, step++)
        for (int c = 0; c < p->block; c++)
            add_op(p, true, p->out, c, (c + s) % n, p->out, c, (c + s + 1) % n, up, step);
    for (int c = 0; c < p->block; c++)
        add_op(p, false, p->out, c, (c + n - 1) % n, p->out, c, (c + n - 1) % n, down, 0);
    for (int s = n - 1; s < 2 * n - 2; s++, step++)
        for (int c = 0; c < p->block; c++)
            add_op(p, false, p->out, c, (c + s) % n, p->out, c, (c + s + 1) % n, down, step);
}

/* Everything goes straight from where it is to where it belongs. */
static void direct(struct program_here *p, enum codec_here codec) {
    int n = p->ranks, k = p->block;
    bool in_place = p->in == p->out;
    for (int q = 0; q < n; q++) {
        for (int i = 0; i < n; i++) {
            int r = (q + i) % n; /* the owner's own contribution is the first operand */
            for (int c = 0; c < k; c++) {
                int in_block = p->promise == ALLGATHER ? (in_place ? r : 0) : q;
                int out_block = p->promise == REDUCE_SCATTER ? (in_place ? q : 0) : r;
                bool self = in_place && r == q && in_block == out_block;
                if (!self || below(3) == 0)
                    if (p->promise != REDUCE_SCATTER || !self)
                        add_op(p, p->promise == REDUCE_SCATTER, p->in, in_block * k + c, r, p->out,
                               out_block * k + c, q, codec, p->promise == ALLTOALL && in_place);
            }
        }
    }
}

static void chain(struct program_here *p, enum codec_here codec) {
    int n = p->ranks;
    for (int c = 0; c < p->block; c++) {
        if (p->in != p->out)
            add_op(p, false, p->in, c, p->root, p->out, c, p->root, RAW, 0);
        add_op(p, false, p->out, c, p->root, p->out, c, p->root, codec, 0);
        for (int s = 0; s < n - 1; s++)
            add_op(p, false, p->out, c, (p->root + s) % n, p->out, c, (p->root + s + 1) % n, codec,
                   0);
    }
}

/* Everybody exchanges with a partner, then with a partner of the pairs: a + b on one side is b + a
 * on the other. */
static void exchange(struct program_here *p, enum codec_here codec) {
    for (int c = 0; p->in != p->out && c < p->block; c++)
        for (int r = 0; r < p->ranks; r++)
            add_op(p, false, p->in, c, r, p->out, c, r, RAW, 0);
    for (int d = 1, step = 1; d < p->ranks; d *= 2, step++)
        for (int c = 0; c < p->block; c++)
            for (int r = 0; r < p->ranks; r++)
                add_op(p, true, p->out, c, r, p->out, c, r ^ d, codec, step);
}

/* Something stored in scratch, which no result depends on: only its own rules can make it wrong. */
static void add_junk(struct program_here *p) {
    int scratch = p->buffers - 1, from = below(3) ? p->in : scratch;
    if (p->buffer[scratch].role != SCRATCH || p->ops == MAX_OPS_HERE)
        return;
    int rank = below(p->ranks), to = below(2) ? rank : below(p->ranks);
    add_op(p, below(2), from, below(p->buffer[from].chunks), rank, scratch,
           below(p->buffer[scratch].chunks), to, RAW, 0);
    struct op junk = p->op[p->ops - 1];
    junk.count = 1 + below(2);
    int at = below(p->ops);
    while (at > 0 && p->op[at].step) /* between steps */
        at--;
    memmove(&p->op[at + 1], &p->op[at], (size_t)(p->ops - 1 - at) * sizeof junk);
    p->op[at] = junk;
}

static void random_op(struct program_here *p) {
    int sb = below(p->buffers), db = below(p->buffers);
    int step = below(3) == 0 ? 1000 + below(6) : 0;
    add_op(p, below(2), sb, below(p->buffer[sb].chunks), below(p->ranks), db,
           below(p->buffer[db].chunks), below(p->ranks), (enum codec_here)below(CODECS), step);
    if (below(4) == 0)
        p->op[p->ops - 1].count = 1 + below(2);
}

static void mutate(struct program_here *p) {
    if (!p->ops) {
        random_op(p);
        return;
    }
    int at = below(p->ops), other = below(p->ops);
    struct op *o = &p->op[at], swapped = *o;
    switch (below(9)) {
    case 0:
        memmove(o, o + 1, (size_t)(p->ops - at - 1) * sizeof *o);
        p->ops--;
        break;
    case 1:
        if (p->ops < MAX_OPS_HERE) {
            memmove(o + 1, o, (size_t)(p->ops - at) * sizeof *o);
            p->ops++;
        }
        break;
    case 2:
        *o = p->op[other];
        p->op[other] = swapped;
        break;
    case 3:
        o->src_rank = below(p->ranks);
        break;
    case 4:
        o->dst_rank = below(p->ranks);
        break;
    case 5:
        o->src_chunk = below(p->buffer[o->src_buffer].chunks);
        break;
    case 6:
        o->codec = (enum codec_here)below(CODECS);
        break;
    case 7:
        o->reduce = !o->reduce;
        break;
    case 8:
        o->step = o->step ? 0 : 1 + below(4);
        break;
    }
}

/* Ranges stay within their buffers: leaving them is an error of the text, not of the proof. */
static void fit_ranges(struct program_here *p) {
    for (int i = 0; i < p->ops; i++) {
        struct op *o = &p->op[i];
        if (o->src_chunk + o->count > p->buffer[o->src_buffer].chunks ||
            o->dst_chunk + o->count > p->buffer[o->dst_buffer].chunks)
            o->count = 1;
    }
}

static enum codec_here some_codec(void) {
    return (enum codec_here)below(CODECS);
}

static void make_program(struct program_here *p) {
    memset(p, 0, sizeof *p);
    p->ranks = 2 + below(MAX_RANKS_HERE - 1);
    p->promise = (enum promise)below(PROMISES);
    p->root = below(p->ranks);
    declare(p, below(2));
    bool wild = below(8) == 0;
    if (wild) {
        for (int n = 1 + below(12); n > 0; n--)
            random_op(p);
    } else if (p->promise == BROADCAST) {
        chain(p, some_codec());
    } else if (p->promise == ALLGATHER || p->promise == REDUCE_SCATTER || p->promise == ALLTOALL) {
        direct(p, below(2) ? RAW : some_codec());
    } else if (p->promise != REDUCE && !(p->ranks & (p->ranks - 1)) && below(3) == 0) {
        exchange(p, below(4) ? RAW : some_codec());
    } else if (p->promise == REDUCE || below(2)) {
        owner_sums(p, some_codec(), some_codec(), p->promise != REDUCE);
    } else {
        ring(p, some_codec(), some_codec());
    }
    for (int n = below(3) ? below(4) : 0; n > 0; n--)
        mutate(p);
    for (int n = below(2) ? below(4) : 0; n > 0; n--)
        add_junk(p);
    fit_ranges(p);
}

/* ---- as flow text ------------------------------------------------------------------------- */

static void print_end(int buffer, int chunk, int rank, int count, FILE *out) {
    if (count == 1)
        fprintf(out, "b%d[%d]@%d", buffer, chunk, rank);
    else
        fprintf(out, "b%d[%d +: %d]@%d", buffer, chunk, count, rank);
}

static void print_promise(const struct program_here *p, FILE *out) {
    int n = p->ranks;
    if (p->promise != ENSURES) {
        fprintf(out, "collective %s", promise_names[p->promise]);
        if (p->promise == REDUCE || p->promise == BROADCAST)
            fprintf(out, "(%d)", p->root);
        fprintf(out, " on 0..%d\n", n);
    }
    for (int b = 0; b < p->buffers; b++)
        fprintf(out, "%s b%d[%d] on 0..%d\n", role_names[p->buffer[b].role], b, p->buffer[b].chunks,
                n);
    if (p->promise != ENSURES)
        return;
    for (int c = 0; c < p->block; c++) { /* what an allreduce is, in other words */
        for (int r = 0; r < n; r++) {
            fprintf(out, "ensure b%d[%d]@%d == sum(", p->out, c, r);
            for (int q = 0; q < n; q++)
                fprintf(out, "%sb%d[%d]@%d", q ? ", " : "", p->in, c, q);
            fprintf(out, ")\n");
        }
        fprintf(out, "ensure identical ");
        for (int r = 0; r < n; r++)
            fprintf(out, "%sb%d[%d]@%d", r ? ", " : "", p->out, c, r);
        fprintf(out, "\n");
    }
}

static void print_program(const struct program_here *p, FILE *out) {
    fprintf(out, "flow random\nranks %d\ndtype f32\nop sum\ncount 1000\n", p->ranks);
    print_promise(p, out);
    for (int i = 0; i < p->ops; i++) {
        const struct op *o = &p->op[i];
        if (o->step && (i == 0 || o[-1].step != o->step))
            fprintf(out, "step {\n");
        fprintf(out, "%s ", o->reduce ? "reduce" : "copy");
        print_end(o->src_buffer, o->src_chunk, o->src_rank, o->count, out);
        fprintf(out, " -> ");
        print_end(o->dst_buffer, o->dst_chunk, o->dst_rank, o->count, out);
        fprintf(out, " via %s\n", codec_names[o->codec]);
        if (o->step && (i + 1 == p->ops || o[1].step != o->step))
            fprintf(out, "}\n");
    }
}

/* ---- the model ---------------------------------------------------------------------------- */

struct node {
    char text[MAX_TEXT];
    int counts[MAX_LOCS_HERE];
    int size_class;
};

struct chunk_here { /* empty: operands 0; a value: 1; a sum that is open: more */
    int operands;
    const struct node *operand[MAX_OPERANDS];
};

struct bytes_here {
    enum codec_here codec;
    const struct node *from, *to;
};

struct model {
    const struct program_here *p;
    struct node *node;
    int nodes;
    struct chunk_here chunk[MAX_LOCS_HERE];
    struct {
        struct bytes_here at[MAX_HELD];
        int n;
    } held[MAX_RANKS_HERE];
    bool wrong, too_large;
};

static const struct node *intern(struct model *m, const struct node *made) {
    for (int i = 0; i < m->nodes; i++)
        if (!strcmp(m->node[i].text, made->text))
            return &m->node[i];
    if (m->nodes == MAX_NODES) {
        m->too_large = true;
        return &m->node[0];
    }
    m->node[m->nodes] = *made;
    return &m->node[m->nodes++];
}

static int class_of(const struct program_here *p, int chunk) {
    return p->promise == ENSURES ? 0 : chunk % p->block;
}

static void append(struct model *m, struct node *made, const char *text) {
    if (strlen(made->text) + strlen(text) + 1 > MAX_TEXT)
        m->too_large = true;
    else
        strcat(made->text, text);
}

static const struct node *input_node(struct model *m, int buffer, int rank, int chunk) {
    struct node made = {.size_class = class_of(m->p, chunk)};
    snprintf(made.text, sizeof made.text, "%d.%d.%d", buffer, chunk, rank);
    made.counts[loc_of(m->p, buffer, rank, chunk)] = 1;
    return intern(m, &made);
}

static const struct node *coded_node(struct model *m, enum codec_here codec,
                                     const struct node *of) {
    struct node made = *of;
    snprintf(made.text, sizeof made.text, "%c(", codec == CAST ? 'c' : 'q');
    append(m, &made, of->text);
    append(m, &made, ")");
    return intern(m, &made);
}

static const struct node *sum_node(struct model *m, struct chunk_here *c) {
    struct node made = {.size_class = c->operand[0]->size_class};
    bool swap = strcmp(c->operand[0]->text, c->operand[1]->text) > 0;
    append(m, &made, "(");
    for (int i = 0; i < c->operands; i++) {
        const struct node *o = c->operand[i < 2 && swap ? 1 - i : i];
        append(m, &made, i ? "+" : "");
        append(m, &made, o->text);
        for (int k = 0; k < MAX_LOCS_HERE; k++)
            made.counts[k] += o->counts[k];
    }
    append(m, &made, ")");
    return intern(m, &made);
}

static const struct node *read_value(struct model *m, int loc) {
    struct chunk_here *c = &m->chunk[loc];
    if (!c->operands) {
        m->wrong = true;
        return NULL;
    }
    if (c->operands > 1) {
        c->operand[0] = sum_node(m, c);
        c->operands = 1;
    }
    return c->operand[0];
}

static void keep(struct model *m, int rank, struct bytes_here bytes) {
    if (m->held[rank].n == MAX_HELD)
        m->too_large = true;
    else
        m->held[rank].at[m->held[rank].n++] = bytes;
}

static const struct node *encode_value(struct model *m, int rank, enum codec_here codec,
                                       const struct node *v) {
    if (codec == RAW || codec == PACK)
        return v;
    for (int i = 0; i < m->held[rank].n; i++) {
        const struct bytes_here *b = &m->held[rank].at[i];
        if (b->codec == codec && (b->from == v || b->to == v))
            return b->to;
    }
    struct bytes_here made = {codec, v, coded_node(m, codec, v)};
    keep(m, rank, made);
    return made.to;
}

static void write_value(struct model *m, const struct op *o, int i, const struct node *v) {
    struct chunk_here *c = &m->chunk[loc_of(m->p, o->dst_buffer, o->dst_rank, o->dst_chunk + i)];
    if (o->src_rank != o->dst_rank && (o->codec == CAST || o->codec == QUANT))
        keep(m, o->dst_rank, (struct bytes_here){o->codec, NULL, v});
    bool sized = m->p->buffer[o->dst_buffer].role != SCRATCH;
    if (sized && v->size_class != class_of(m->p, o->dst_chunk + i))
        m->wrong = true;
    if (o->reduce && c->operands) {
        if (c->operand[0]->size_class != v->size_class)
            m->wrong = true;
        if (c->operands == MAX_OPERANDS)
            m->too_large = true;
        else
            c->operand[c->operands++] = v;
    } else {
        c->operands = 1;
        c->operand[0] = v;
    }
}

static bool only_reads(const struct op *o) {
    return o->src_buffer == o->dst_buffer && o->src_rank == o->dst_rank &&
           o->src_chunk == o->dst_chunk && (o->codec == RAW || o->codec == PACK);
}

static void check_shape(struct model *m, const struct op *o) {
    int gap = o->src_chunk - o->dst_chunk;
    bool same = o->src_buffer == o->dst_buffer && o->src_rank == o->dst_rank;
    bool overlap = same && abs(gap) < o->count;
    if (m->p->buffer[o->dst_buffer].role == INPUT || (overlap && gap) || (overlap && o->reduce))
        m->wrong = true;
}

static bool writes(const struct program_here *p, const struct op *o, int loc) {
    int at = loc - loc_of(p, o->dst_buffer, o->dst_rank, o->dst_chunk);
    return !only_reads(o) && at >= 0 && at < o->count;
}

static void check_step(struct model *m, int first, int end) {
    for (int i = first; i < end; i++)
        for (int k = i + 1; k < end; k++)
            for (int loc = 0; loc < MAX_LOCS_HERE; loc++)
                if (writes(m->p, &m->p->op[i], loc) && writes(m->p, &m->p->op[k], loc) &&
                    !(m->p->op[i].reduce && m->p->op[k].reduce))
                    m->wrong = true;
}

/* Operations [first, end): all reads, then all writes. */
static void run_together(struct model *m, int first, int end) {
    static const struct node *moved[MAX_OPS_HERE][8];
    for (int at = first; at < end && !m->wrong; at++)
        check_shape(m, &m->p->op[at]);
    check_step(m, first, end);
    for (int at = first; at < end; at++) {
        const struct op *o = &m->p->op[at];
        for (int i = 0; i < o->count && !m->wrong; i++) {
            const struct node *v =
                read_value(m, loc_of(m->p, o->src_buffer, o->src_rank, o->src_chunk + i));
            if (v)
                moved[at][i] = encode_value(m, o->src_rank, o->codec, v);
        }
    }
    for (int at = first; at < end; at++)
        for (int i = 0; i < m->p->op[at].count && !m->wrong && !m->too_large; i++)
            if (!only_reads(&m->p->op[at]))
                write_value(m, &m->p->op[at], i, moved[at][i]);
}

/* One logical chunk: its holders end with the wanted inputs, once each, and with the same text. */
struct want {
    int inputs[MAX_RANKS_HERE], input_count, holders[MAX_RANKS_HERE], holder_count;
    bool identical;
};

static bool judge(struct model *m, const struct want *w) {
    const struct node *first = NULL;
    for (int h = 0; h < w->holder_count; h++) {
        int counts[MAX_LOCS_HERE] = {0};
        if (!m->chunk[w->holders[h]].operands)
            return false;
        const struct node *v = read_value(m, w->holders[h]);
        for (int i = 0; i < w->input_count; i++)
            counts[w->inputs[i]]++;
        if (memcmp(counts, v->counts, sizeof counts) != 0)
            return false;
        if (first && first != v && w->identical)
            return false;
        first = v;
    }
    return true;
}

/* Block b of a buffer of this side on a rank, chunk i of it; buffers that hold one block have it at
 * 0. */
static int block_loc(const struct program_here *p, int buffer, int rank, int b, int i) {
    bool big = p->buffer[buffer].chunks == p->block * p->ranks &&
               (p->promise == ALLGATHER || p->promise == REDUCE_SCATTER || p->promise == ALLTOALL);
    if (p->promise == ALLGATHER && p->buffer[buffer].role == INPUT)
        big = false;
    if (p->promise == REDUCE_SCATTER && p->buffer[buffer].role == OUTPUT)
        big = false;
    return loc_of(p, buffer, rank, (big ? b * p->block : 0) + i);
}

typedef void (*want_step)(void *ctx, const struct want *w);

static void each_want(const struct program_here *p, want_step step, void *ctx) {
    int n = p->ranks;
    for (int i = 0; i < p->block; i++) {
        for (int a = 0; a < n; a++) {
            for (int b = 0; b < n; b++) {
                struct want w = {.identical = true};
                bool sums = p->promise == ALLREDUCE || p->promise == REDUCE ||
                            p->promise == REDUCE_SCATTER || p->promise == ENSURES;
                bool to_all = p->promise == ALLREDUCE || p->promise == BROADCAST ||
                              p->promise == ALLGATHER || p->promise == ENSURES;
                if ((sums && a) || (to_all && b) || (p->promise == BROADCAST && a != p->root) ||
                    (p->promise == REDUCE && b != p->root))
                    continue;
                for (int r = sums ? 0 : a; r < (sums ? n : a + 1); r++)
                    w.inputs[w.input_count++] =
                        block_loc(p, p->in, r, p->promise == ALLGATHER ? r : b, i);
                for (int r = to_all ? 0 : b; r < (to_all ? n : b + 1); r++)
                    w.holders[w.holder_count++] =
                        block_loc(p, p->out, r, p->promise == REDUCE_SCATTER ? b : a, i);
                step(ctx, &w);
            }
        }
    }
}

static void judge_step(void *ctx, const struct want *w) {
    struct model *m = ctx;
    if (!judge(m, w))
        m->wrong = true;
}

static int step_end(const struct program_here *p, int first) {
    int end = first + 1;
    while (p->op[first].step && end < p->ops && p->op[end].step == p->op[first].step)
        end++;
    return end;
}

static void run_model(struct model *m) {
    const struct program_here *p = m->p;
    for (int b = 0; b < p->buffers; b++)
        for (int r = 0; r < p->ranks; r++)
            for (int c = 0; c < p->buffer[b].chunks; c++)
                if (p->buffer[b].role == INPUT || p->buffer[b].role == INOUT) {
                    struct chunk_here *chunk = &m->chunk[loc_of(p, b, r, c)];
                    chunk->operands = 1;
                    chunk->operand[0] = input_node(m, b, r, c);
                }
    for (int at = 0, end; at < p->ops && !m->wrong && !m->too_large; at = end) {
        end = step_end(p, at);
        run_together(m, at, end);
    }
    if (!m->wrong && !m->too_large)
        each_want(p, judge_step, m);
}

/* ---- on numbers --------------------------------------------------------------------------- */

/* exact: nothing is rounded and codecs keep all; else rounding and codecs change the number, and
 * changing it twice shows. */
struct machine {
    const struct program_here *p;
    const struct flow *f;
    bool exact;
    double value[MAX_LOCS_HERE], sum[MAX_LOCS_HERE], input[MAX_LOCS_HERE];
    bool empty[MAX_LOCS_HERE], open[MAX_LOCS_HERE];
    double *bytes; /* [encodings] decoded */
    bool (*has)[MAX_RANKS_HERE];
};

static double lose(const struct machine *m, double x, double unit) {
    double scaled = x / unit;
    return m->exact ? x : (double)(int64_t)(scaled + 0.5) * unit * 0.984375;
}

static double settle(struct machine *m, int loc) {
    if (m->open[loc])
        m->value[loc] = lose(m, m->sum[loc], 64);
    m->open[loc] = false;
    return m->value[loc];
}

static double move_number(struct machine *m, const struct op *o, int transfer, double x) {
    uint32_t e = m->f->transfer_encoding[transfer];
    if (e == NONE) /* a plain local move */
        return x;
    const struct encoding *made = &m->f->encodings.data[e];
    if (made->first_transfer == (uint32_t)transfer) {
        bool lossy = o->codec == CAST || o->codec == QUANT;
        assert_int_equal(made->rank, o->src_rank);
        m->bytes[e] = lossy ? lose(m, x, o->codec == CAST ? 16 : 1024) : x;
        m->has[e][o->src_rank] = true;
    }
    assert_true(m->has[e][o->src_rank]); /* nobody sends bytes that it does not have */
    return m->bytes[e];
}

static void store_number(struct machine *m, const struct op *o, int i, int transfer, double x) {
    int loc = loc_of(m->p, o->dst_buffer, o->dst_rank, o->dst_chunk + i);
    uint32_t e = m->f->transfer_encoding[transfer];
    if (e != NONE)
        m->has[e][o->dst_rank] = true;
    if (only_reads(o))
        return;
    if (o->reduce && !m->empty[loc]) {
        m->sum[loc] = (m->open[loc] ? m->sum[loc] : m->value[loc]) + x;
        m->open[loc] = true;
    } else {
        m->value[loc] = x;
        m->open[loc] = m->empty[loc] = false;
    }
}

static void run_numbers(struct machine *m) {
    const struct program_here *p = m->p;
    double moved[MAX_OPS_HERE * 2];
    for (int at = 0, transfer = 0, end; at < p->ops; at = end) {
        int t = transfer;
        end = step_end(p, at);
        for (int k = at; k < end; k++)
            for (int i = 0; i < p->op[k].count; i++, t++) {
                const struct op *o = &p->op[k];
                int loc = loc_of(p, o->src_buffer, o->src_rank, o->src_chunk + i);
                moved[t] = move_number(m, o, t, settle(m, loc));
            }
        for (int k = at; k < end; k++)
            for (int i = 0; i < p->op[k].count; i++, transfer++)
                store_number(m, &p->op[k], i, transfer, moved[transfer]);
    }
}

static void check_numbers(void *ctx, const struct want *w) {
    struct machine *m = ctx;
    double sum = 0;
    for (int i = 0; i < w->input_count; i++)
        sum += m->input[w->inputs[i]];
    for (int h = 0; h < w->holder_count; h++) {
        assert_false(m->empty[w->holders[h]]);
        if (m->exact)
            assert_true(settle(m, w->holders[h]) == sum);
        else if (w->identical)
            assert_true(settle(m, w->holders[h]) == settle(m, w->holders[0]));
    }
}

static void run_accepted(const struct program_here *p, const struct flow *f, bool exact) {
    struct machine m = {.p = p, .f = f, .exact = exact};
    m.bytes = calloc(f->encodings.count + 1, sizeof *m.bytes);
    m.has = calloc(f->encodings.count + 1, sizeof *m.has);
    for (int b = 0; b < p->buffers; b++)
        for (int k = 0; k < p->ranks * p->buffer[b].chunks; k++) {
            int loc = p->buffer[b].first_loc + k;
            m.value[loc] = m.input[loc] = (double)(1 + below(1 << 30));
            m.empty[loc] = p->buffer[b].role == OUTPUT || p->buffer[b].role == SCRATCH;
        }
    run_numbers(&m);
    each_want(p, check_numbers, &m);
    free(m.bytes);
    free(m.has);
}

/* ---- the test ----------------------------------------------------------------------------- */

struct tally {
    int accepted, rejected, skipped;
};

static void compare_one(const struct program_here *p, struct tally *tally) {
    struct model m = {.p = p};
    m.node = malloc(MAX_NODES * sizeof *m.node);
    run_model(&m);
    free(m.node);
    if (m.too_large) {
        tally->skipped++;
        return;
    }
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    print_program(p, out);
    fclose(out);
    struct compile_options o = {.emit_rank = -1};
    struct compilation *c = opt_text("random.flow", text, bytes, "verify,forward", &o);
    if (compilation_ok(c) == m.wrong) {
        printf("%s\nthe model %s it\n", text, m.wrong ? "refuses" : "accepts");
        diag_print(c->diag, stdout, false);
        fail();
    }
    if (!m.wrong) {
        run_accepted(p, c->flow, true);
        run_accepted(p, c->flow, false);
    }
    tally->accepted += !m.wrong;
    tally->rejected += m.wrong;
    compilation_free(c);
    free(text);
}

static void test_verdicts_agree(void **unused) {
    (void)unused;
    const char *seeds = getenv("SLUICE_SEEDS");
    long n = seeds ? strtol(seeds, NULL, 10) : EVERY_DAY;
    struct tally tally = {0};
    struct program_here *p = malloc(sizeof *p);
    for (long seed = 1; seed <= n; seed++) {
        state = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)seed;
        make_program(p);
        compare_one(p, &tally);
    }
    free(p);
    printf("%d accepted, %d rejected, %d skipped\n", tally.accepted, tally.rejected, tally.skipped);
    /* The programs are worth something only when both verdicts are common. */
    assert_true(tally.accepted * 10 > n);
    assert_true(tally.rejected * 10 > n);
    assert_true(tally.skipped * 20 < n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_verdicts_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
