/* Flow as text: printed in one canonical way, and read back to the same flow.
 *
 *     flow ring
 *     ranks 2
 *     dtype bf16
 *     op sum
 *     count 1000
 *     collective allreduce on 0, 1
 *     inout data[2] on 0, 1
 *
 *     step {
 *         reduce data[0]@0 -> data[0]@1 via pack in scatter as e0
 *         reduce data[1]@1 -> data[1]@0 via pack in scatter as e1
 *     }
 *
 * IR.md is the reference. A person may write it too, so all that the elaborator would have checked
 * is checked here.
 */
#include "compiler/irlex.h"

#include <string.h>

enum {
    MAX_RANKS = 65536,
    MAX_BUFFERS = 1024,
    MAX_NAMES = 1024, /* stages, and distinct codecs */
    MAX_LOCS = 1 << 27,
    MAX_TERMS = 1 << 26,
    MAX_OPS = 1 << 24,
    MAX_TRANSFERS = 1 << 26,
};

/* ---- printing ----------------------------------------------------------------------------- */

static bool has_root(enum collective kind) {
    return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
           kind == COLL_SCATTER;
}

static void print_loc(const struct flow *f, loc_id loc, FILE *out) {
    int32_t rank, chunk;
    const struct flow_buffer *b = flow_buffer_of(f, loc, &rank, &chunk);
    fprintf(out, "%s[%d]@%d", b->name, chunk, rank);
}

static void print_terms(const struct flow *f, const struct flow_ensure *e, FILE *out) {
    for (uint32_t i = 0; i < e->terms; i++) {
        fputs(i ? ", " : "", out);
        print_loc(f, f->terms.data[e->first_term + i], out);
    }
}

static void print_ensure(const struct flow *f, const struct flow_ensure *e, FILE *out) {
    if (e->kind == ENSURE_IDENTICAL && !e->terms) {
        fputs("ensure nothing", out);
    } else if (e->kind == ENSURE_IDENTICAL) {
        fputs("ensure identical ", out);
        print_terms(f, e, out);
    } else {
        fputs("ensure ", out);
        print_loc(f, e->loc, out);
        fputs(e->is_sum ? " == sum(" : " == ", out);
        print_terms(f, e, out);
        fputs(e->is_sum ? ")" : "", out);
    }
    fputc('\n', out);
}

/* One line a node, its ranks in the order of their places in it. */
static void print_nodes(const struct setup *s, FILE *out) {
    if (!s->node_of)
        return;
    VEC(int32_t) first = {0}, member = {0}; /* first[n] .. first[n + 1]: the ranks of node n */
    (void)VEC_ADD_N(&first, (size_t)s->nodes + 1);
    (void)VEC_ADD_N(&member, (size_t)s->ranks);
    for (int32_t r = 0; r < s->ranks; r++)
        first.data[s->node_of[r] + 1]++;
    for (int32_t n = 0; n < s->nodes; n++)
        first.data[n + 1] += first.data[n];
    for (int32_t r = 0; r < s->ranks; r++)
        member.data[first.data[s->node_of[r]] + s->local_of[r]] = r;
    for (int32_t n = 0; n < s->nodes; n++) {
        fputs("node ", out);
        ranks_print(member.data + first.data[n], first.data[n + 1] - first.data[n], out);
        fputc('\n', out);
    }
    VEC_FREE(&first);
    VEC_FREE(&member);
}

void flow_print_header(const struct flow *f, FILE *out) {
    fprintf(out, "ranks %d\n", f->setup.ranks);
    print_nodes(&f->setup, out);
    fprintf(out, "dtype %s\n", dtype_name(f->setup.dtype));
    fprintf(out, "op %s\n", redop_name(f->setup.redop));
    fprintf(out, "count %llu\n", (unsigned long long)f->setup.count);
    if (f->setup.repair)
        fputs("repair\n", out);
    if (f->slices)
        fprintf(out, "slices %u\n", f->slices);
    if (f->collective != COLL_NONE) {
        fprintf(out, "collective %s", collective_name(f->collective));
        if (has_root(f->collective))
            fprintf(out, "(%d)", f->root);
        fputs(" on ", out);
        ranks_print(f->member, f->members, out);
        fputc('\n', out);
    }
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        fprintf(out, "%s %s[%d] on ", buffer_role_name(b->role), b->name, b->chunks);
        ranks_print(b->member, b->members, out);
        fputc('\n', out);
    }
    for (size_t i = 0; i < f->ensures.count; i++)
        print_ensure(f, &f->ensures.data[i], out);
}

static void print_end(const struct flow *f, loc_id loc, uint32_t count, FILE *out) {
    int32_t rank, chunk;
    const struct flow_buffer *b = flow_buffer_of(f, loc, &rank, &chunk);
    if (count == 1)
        fprintf(out, "%s[%d]@%d", b->name, chunk, rank);
    else
        fprintf(out, "%s[%d +: %u]@%d", b->name, chunk, count, rank);
}

static void print_encodings(const uint32_t *encoding, uint32_t count, FILE *out) {
    if (encoding[0] == NONE)
        return;
    for (uint32_t i = 0, n; i < count; i += n) {
        n = 1;
        while (i + n < count && encoding[i + n] == encoding[i] + n)
            n++;
        n = n < 3 ? 1 : n;
        fprintf(out, "%s e%u", i ? "," : " as", encoding[i]);
        if (n > 1)
            fprintf(out, "..e%u", encoding[i] + n);
    }
}

static void print_op(const struct flow *f, const struct flow_op *op, FILE *out) {
    fputs(op->step ? "    " : "", out);
    fputs(op->kind == FLOW_COPY ? "copy " : "reduce ", out);
    print_end(f, op->src, op->count, out);
    fputs(" -> ", out);
    print_end(f, op->dst, op->count, out);
    if (op->codec) {
        char text[CODEC_TEXT_BYTES];
        fprintf(out, " via %s", codec_format(&f->codecs.data[op->codec], text, sizeof text));
    }
    if (op->stage)
        fprintf(out, " in %s", f->stages.data[op->stage].name);
    if (f->transfer_encoding)
        print_encodings(f->transfer_encoding + op->first_transfer, op->count, out);
    fputc('\n', out);
}

void flow_print(const struct flow *f, FILE *out) {
    fprintf(out, "flow %s\n", f->name);
    flow_print_header(f, out);
    fputc('\n', out);
    for (size_t i = 0; i < f->ops.count; i++) {
        const struct flow_op *op = &f->ops.data[i];
        bool first = i == 0 || op[-1].step != op->step;
        bool last = i + 1 == f->ops.count || op[1].step != op->step;
        fputs(op->step && first ? "step {\n" : "", out);
        print_op(f, op, out);
        fputs(op->step && last ? "}\n" : "", out);
    }
}

/* ---- reading the header ------------------------------------------------------------------- */

static bool is_name(const struct irlex *lex, const char *name) {
    return lex->token == IR_WORD && irlex_is(lex, name);
}

static bool parse_dtype(struct irlex *lex, struct flow *f) {
    struct span at = irlex_span(lex);
    const char *name = irlex_word(lex, "an element type");
    if (name && !dtype_parse(name, &f->setup.dtype))
        irlex_error(lex, at, "there is no element type '%s'", name);
    return !lex->failed;
}

static bool parse_redop(struct irlex *lex, struct flow *f) {
    struct span at = irlex_span(lex);
    const char *name = irlex_word(lex, "a reduction");
    if (name && !redop_parse(name, &f->setup.redop))
        irlex_error(lex, at, "there is no reduction '%s'", name);
    return !lex->failed;
}

/* node 0..4: which ranks are on the next node. */
static bool parse_node(struct irlex *lex, struct flow *f) {
    struct span at = irlex_span(lex);
    const int32_t *member;
    int32_t members;
    if (!irlex_ranks(lex, f->setup.ranks, &member, &members))
        return false;
    if (!f->setup.node_of) {
        int32_t *maps = arena_array(lex->arena, 2 * (size_t)f->setup.ranks, sizeof *maps);
        memset(maps, 0xff, 2 * (size_t)f->setup.ranks * sizeof *maps);
        f->setup.node_of = maps;
        f->setup.local_of = maps + f->setup.ranks;
        f->setup.nodes = 0;
    }
    /* These two arrays are ours until the header is read. */
    int32_t *node_of = (int32_t *)f->setup.node_of, *local_of = (int32_t *)f->setup.local_of;
    for (int32_t i = 0; i < members && !lex->failed; i++) {
        if (node_of[member[i]] >= 0)
            irlex_error(lex, at, "rank %d is on two nodes", member[i]);
        node_of[member[i]] = f->setup.nodes;
        local_of[member[i]] = i;
    }
    f->setup.nodes++;
    return !lex->failed;
}

static bool parse_collective(struct irlex *lex, struct flow *f, struct span at) {
    struct span name_at = irlex_span(lex);
    const char *name = irlex_word(lex, "a collective");
    if (!name)
        return false;
    f->collective = COLL_NONE;
    for (int k = COLL_ALLREDUCE; k <= COLL_ALLTOALL; k++)
        if (strcmp(name, collective_name((enum collective)k)) == 0)
            f->collective = (enum collective)k;
    if (f->collective == COLL_NONE) {
        irlex_error(lex, name_at, "there is no collective '%s'", name);
        return false;
    }
    if (has_root(f->collective) &&
        !(irlex_expect(lex, "(") && irlex_int(lex, f->setup.ranks - 1, "a rank", &f->root) &&
          irlex_expect(lex, ")")))
        return false;
    f->collective_at = (struct span){at.begin, name_at.end};
    return irlex_expect(lex, "on") && irlex_ranks(lex, f->setup.ranks, &f->member, &f->members);
}

static const struct flow_buffer *find_buffer(const struct irlex *lex, const struct flow *f) {
    for (size_t i = 0; i < f->buffers.count; i++)
        if (is_name(lex, f->buffers.data[i].name))
            return &f->buffers.data[i];
    return NULL;
}

/* Buffers on the same ranks share the lists. */
static void place_buffer(struct irlex *lex, struct flow *f, struct flow_buffer *b) {
    for (size_t i = f->buffers.count; i-- > 0;) {
        const struct flow_buffer *other = &f->buffers.data[i];
        if (other->members == b->members &&
            !memcmp(other->member, b->member, (size_t)b->members * sizeof *b->member)) {
            b->member = other->member;
            b->position = other->position;
            return;
        }
    }
    int32_t *position = arena_array(lex->arena, (size_t)f->setup.ranks, sizeof *position);
    memset(position, 0xff, (size_t)f->setup.ranks * sizeof *position);
    for (int32_t i = 0; i < b->members; i++)
        position[b->member[i]] = i;
    b->position = position;
}

static bool parse_buffer(struct irlex *lex, struct flow *f, enum buffer_role role) {
    struct flow_buffer b = {.role = role, .at = irlex_span(lex), .first_loc = f->locs};
    if (find_buffer(lex, f)) {
        irlex_error(lex, b.at, "a second buffer of this name");
        return false;
    }
    if (!(b.name = irlex_word(lex, "the name of a buffer")) || !irlex_expect(lex, "["))
        return false;
    struct span count_at = irlex_span(lex);
    if (!irlex_int(lex, MAX_LOCS, "a number of chunks", &b.chunks) || !irlex_expect(lex, "]") ||
        !irlex_expect(lex, "on") || !irlex_ranks(lex, f->setup.ranks, &b.member, &b.members))
        return false;
    uint64_t locs = (uint64_t)b.chunks * (uint64_t)b.members;
    if (b.chunks == 0)
        irlex_error(lex, count_at, "a buffer has at least one chunk");
    else if (locs > MAX_LOCS - f->locs)
        irlex_error(lex, count_at, "more than %d chunks on all ranks together", MAX_LOCS);
    else if (f->buffers.count == MAX_BUFFERS)
        irlex_error(lex, b.at, "more than %d buffers", MAX_BUFFERS);
    if (lex->failed)
        return false;
    place_buffer(lex, f, &b);
    f->locs += (uint32_t)locs;
    VEC_PUSH(&f->buffers, b);
    return true;
}

static bool parse_terms(struct irlex *lex, struct flow *f, struct flow_ensure *e) {
    e->first_term = (uint32_t)f->terms.count;
    do {
        loc_id loc;
        struct span at = irlex_span(lex);
        if (!flow_parse_loc(lex, f, &loc))
            return false;
        if (f->terms.count == MAX_TERMS) {
            irlex_error(lex, at, "more than %d chunks in `ensure` lines", MAX_TERMS);
            return false;
        }
        VEC_PUSH(&f->terms, loc);
    } while ((e->kind == ENSURE_IDENTICAL || e->is_sum) && irlex_accept(lex, ","));
    e->terms = (uint32_t)f->terms.count - e->first_term;
    return !lex->failed;
}

/* `word` when the next token is not the `[` that would make it a buffer of that name. */
static bool accept_keyword(struct irlex *lex, const char *word) {
    struct irlex ahead = *lex;
    if (!irlex_accept(&ahead, word) || irlex_is(&ahead, "["))
        return false;
    *lex = ahead;
    return true;
}

static bool parse_ensure(struct irlex *lex, struct flow *f, struct span at) {
    struct flow_ensure e = {.at = at, .context = NONE, .kind = ENSURE_VALUE, .loc = NONE};
    bool good = true;
    if (accept_keyword(lex, "nothing")) {
        e.kind = ENSURE_IDENTICAL; /* of no chunks */
    } else if (accept_keyword(lex, "identical")) {
        e.kind = ENSURE_IDENTICAL;
        good = parse_terms(lex, f, &e);
    } else {
        good = flow_parse_loc(lex, f, &e.loc) && irlex_expect(lex, "==");
        e.is_sum = good && accept_keyword(lex, "sum");
        good = good && (!e.is_sum || irlex_expect(lex, "(")) && parse_terms(lex, f, &e) &&
               (!e.is_sum || irlex_expect(lex, ")"));
    }
    e.at.end = lex->base + (src_pos)lex->begin;
    if (good)
        VEC_PUSH(&f->ensures, e);
    return good;
}

/* The lines that may stand once, as bits of `seen`. */
enum header_line {
    LINE_RANKS,
    LINE_DTYPE,
    LINE_OP,
    LINE_COUNT,
    LINE_REPAIR,
    LINE_SLICES,
    LINE_COLLECTIVE,
    LINE_KINDS
};

static const char *const line_names[LINE_KINDS] = {
    "ranks", "dtype", "op", "count", "repair", "slices", "collective",
};

static bool parse_single(struct irlex *lex, struct flow *f, enum header_line line, struct span at) {
    uint64_t n = 0;
    switch (line) {
    case LINE_RANKS:
        if (!irlex_int(lex, MAX_RANKS, "a number of ranks", &f->setup.ranks))
            return false;
        if (f->setup.ranks == 0)
            irlex_error(lex, at, "a flow has at least one rank");
        f->setup.nodes = 1;
        return !lex->failed;
    case LINE_DTYPE:
        return parse_dtype(lex, f);
    case LINE_OP:
        return parse_redop(lex, f);
    case LINE_COUNT:
        return irlex_number(lex, SETUP_MAX_COUNT, "a number of elements", &f->setup.count);
    case LINE_REPAIR:
        f->setup.repair = true;
        return true;
    case LINE_SLICES:
        if (!irlex_number(lex, SETUP_MAX_SLICES, "a number of slices", &n))
            return false;
        if (n == 0)
            irlex_error(lex, at, "at least one slice");
        f->slices = (uint32_t)n;
        return !lex->failed;
    case LINE_COLLECTIVE:
        return parse_collective(lex, f, at);
    case LINE_KINDS:
        break;
    }
    return false;
}

static int single_line(const struct irlex *lex) {
    for (int i = 0; i < LINE_KINDS; i++)
        if (is_name(lex, line_names[i]))
            return i;
    return -1;
}

static int role_line(const struct irlex *lex) {
    for (int role = ROLE_INPUT; role <= ROLE_SCRATCH; role++)
        if (is_name(lex, buffer_role_name((enum buffer_role)role)))
            return role;
    return -1;
}

/* One header line at the reader, or none: *is_header. */
static bool parse_header_line(struct irlex *lex, struct flow *f, unsigned *seen, bool *is_header) {
    struct span at = irlex_span(lex);
    int single = single_line(lex), role = role_line(lex);
    bool is_node = is_name(lex, "node"), is_ensure = is_name(lex, "ensure");
    *is_header = single >= 0 || role >= 0 || is_node || is_ensure;
    if (!*is_header)
        return true;
    if (single != LINE_RANKS && !f->setup.ranks) {
        irlex_unexpected(lex, "'ranks' as the first line");
        return false;
    }
    if (single >= 0 && *seen & 1u << single) {
        irlex_error(lex, at, "a second '%s' line", line_names[single]);
        return false;
    }
    irlex_next(lex);
    bool good;
    if (single >= 0) {
        *seen |= 1u << single;
        good = parse_single(lex, f, (enum header_line)single, at);
    } else if (role >= 0) {
        good = parse_buffer(lex, f, (enum buffer_role)role);
    } else {
        good = is_node ? parse_node(lex, f) : parse_ensure(lex, f, at);
    }
    return good && irlex_expect_line_end(lex);
}

static bool check_header(struct irlex *lex, struct flow *f, unsigned seen) {
    for (int line = LINE_RANKS; line <= LINE_COUNT; line++)
        if (!(seen & 1u << line)) {
            irlex_unexpected(lex, arena_printf(lex->arena, "a '%s' line", line_names[line]));
            return false;
        }
    for (int32_t r = 0; f->setup.node_of && r < f->setup.ranks; r++)
        if (f->setup.node_of[r] < 0) {
            irlex_error(lex, irlex_span(lex), "rank %d is on no node", r);
            return false;
        }
    return true;
}

bool flow_parse_header(struct irlex *lex, struct flow *f) {
    VEC_PUSH(&f->codecs, codec_none());
    VEC_PUSH(&f->stages, (struct flow_stage){""});
    unsigned seen = 0;
    bool is_header = true;
    while (is_header && irlex_line(lex))
        if (!parse_header_line(lex, f, &seen, &is_header))
            return false;
    return !lex->failed && check_header(lex, f, seen);
}

/* ---- chunks, stages, codecs --------------------------------------------------------------- */

/* data[3] or, where a range may stand, data[3 +: 4] */
static const struct flow_buffer *parse_place(struct irlex *lex, const struct flow *f,
                                             int32_t *chunk, uint32_t *count) {
    struct span at = irlex_span(lex);
    const struct flow_buffer *b = find_buffer(lex, f);
    const char *name = b ? b->name : irlex_word(lex, "the name of a buffer");
    if (!b) {
        if (name)
            irlex_error(lex, at, "there is no buffer '%s'", name);
        return NULL;
    }
    irlex_next(lex);
    at = irlex_span(lex);
    int32_t more = 1;
    if (!irlex_expect(lex, "[") || !irlex_int(lex, INT32_MAX, "a chunk", chunk))
        return NULL;
    if (count && irlex_accept(lex, "+:") && !irlex_int(lex, INT32_MAX, "a number of chunks", &more))
        return NULL;
    at.end = irlex_span(lex).end;
    if (!irlex_expect(lex, "]"))
        return NULL;
    if (more == 0 || *chunk >= b->chunks || more > b->chunks - *chunk) {
        irlex_error(lex, at, "'%s' has chunks 0..%d", b->name, b->chunks);
        return NULL;
    }
    if (count)
        *count = (uint32_t)more;
    return b;
}

static bool find_loc(struct irlex *lex, const struct flow_buffer *b, int32_t rank, int32_t chunk,
                     struct span at, loc_id *loc) {
    if (b->position[rank] < 0) {
        irlex_error(lex, at, "rank %d has no '%s'", rank, b->name);
        return false;
    }
    *loc = b->first_loc + (uint32_t)b->position[rank] * (uint32_t)b->chunks + (uint32_t)chunk;
    return true;
}

static bool parse_end(struct irlex *lex, const struct flow *f, uint32_t *count, int32_t *rank,
                      loc_id *loc) {
    int32_t chunk;
    const struct flow_buffer *b = parse_place(lex, f, &chunk, count);
    if (!b || !irlex_expect(lex, "@"))
        return false;
    struct span at = irlex_span(lex);
    return irlex_int(lex, f->setup.ranks - 1, "a rank", rank) &&
           find_loc(lex, b, *rank, chunk, at, loc);
}

bool flow_parse_loc(struct irlex *lex, const struct flow *f, loc_id *loc) {
    int32_t rank;
    return parse_end(lex, f, NULL, &rank, loc);
}

bool flow_parse_chunk(struct irlex *lex, const struct flow *f, int32_t rank, loc_id *loc) {
    struct span at = irlex_span(lex);
    int32_t chunk;
    const struct flow_buffer *b = parse_place(lex, f, &chunk, NULL);
    return b && find_loc(lex, b, rank, chunk, at, loc);
}

bool flow_parse_stage(struct irlex *lex, struct flow *f, uint16_t *stage) {
    for (size_t i = 1; i < f->stages.count; i++)
        if (is_name(lex, f->stages.data[i].name)) {
            *stage = (uint16_t)i;
            irlex_next(lex);
            return true;
        }
    struct span at = irlex_span(lex);
    const char *name = irlex_word(lex, "the name of a stage");
    if (name && f->stages.count == MAX_NAMES)
        irlex_error(lex, at, "more than %d stages", MAX_NAMES);
    if (lex->failed)
        return false;
    *stage = (uint16_t)f->stages.count;
    VEC_PUSH(&f->stages, (struct flow_stage){name});
    return true;
}

bool flow_parse_codec(struct irlex *lex, struct flow *f, uint16_t *codec) {
    struct span at = irlex_span(lex);
    struct codec c;
    if (!irlex_codec(lex, &c))
        return false;
    for (size_t i = 0; i < f->codecs.count; i++)
        if (codec_equal(&f->codecs.data[i], &c)) {
            *codec = (uint16_t)i;
            return true;
        }
    if (f->codecs.count == MAX_NAMES) {
        irlex_error(lex, at, "more than %d codecs", MAX_NAMES);
        return false;
    }
    *codec = (uint16_t)f->codecs.count;
    VEC_PUSH(&f->codecs, c);
    return true;
}

/* ---- operations --------------------------------------------------------------------------- */

struct op_reader {
    struct irlex *lex;
    struct flow *f;
    uint32_t transfers, step, steps;
    VEC(uint32_t) encoding; /* [transfers] once an operation has named one */
};

/* e12 */
static bool parse_encoding_name(struct irlex *lex, uint32_t *number) {
    const char *text = lex->text + lex->begin;
    size_t n = lex->end - lex->begin;
    uint64_t value = 0;
    bool good = lex->token == IR_WORD && n >= 2 && n <= 10 && text[0] == 'e';
    for (size_t i = 1; good && i < n; i++) {
        good = text[i] >= '0' && text[i] <= '9';
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    if (!good) {
        irlex_unexpected(lex, "an encoding such as 'e12'");
        return false;
    }
    *number = (uint32_t)value;
    irlex_next(lex);
    return true;
}

/* A name is used for the first time right after the one before it, so the table follows from the
 * text. */
static bool use_encoding(struct op_reader *r, const struct flow_op *op, uint32_t number,
                         struct span at) {
    struct flow *f = r->f;
    if (r->encoding.count >= op->first_transfer + op->count)
        irlex_error(r->lex, at, "more encodings than the %u chunks moved", op->count);
    else if (number > f->encodings.count)
        irlex_error(r->lex, at, "the next new encoding is 'e%zu'", f->encodings.count);
    else if (number < f->encodings.count && f->encodings.data[number].codec != op->codec)
        irlex_error(r->lex, at, "'e%u' was made by another codec", number);
    if (r->lex->failed)
        return false;
    if (number == f->encodings.count)
        VEC_PUSH(&f->encodings, (struct encoding){op->src_rank, op->codec, NONE, NONE,
                                                  (uint32_t)r->encoding.count});
    VEC_PUSH(&r->encoding, number);
    return true;
}

/* as e0, e3..e5 */
static bool parse_encodings(struct op_reader *r, const struct flow_op *op) {
    while (r->encoding.count < op->first_transfer)
        VEC_PUSH(&r->encoding, NONE);
    do {
        struct span at = irlex_span(r->lex);
        uint32_t first, end;
        if (!parse_encoding_name(r->lex, &first))
            return false;
        end = first + 1;
        if (irlex_accept(r->lex, "..") && !parse_encoding_name(r->lex, &end))
            return false;
        if (end <= first)
            irlex_error(r->lex, at, "an empty range of encodings");
        for (uint32_t e = first; e < end; e++)
            if (!use_encoding(r, op, e, at))
                return false;
    } while (irlex_accept(r->lex, ","));
    if (r->encoding.count < op->first_transfer + op->count)
        irlex_unexpected(r->lex, "an encoding of each chunk moved");
    return !r->lex->failed;
}

static bool parse_op(struct op_reader *r, enum flow_kind kind) {
    struct irlex *lex = r->lex;
    struct flow *f = r->f;
    struct span at = irlex_span(lex);
    struct flow_op op = {.kind = kind,
                         .at = at.begin,
                         .context = NONE,
                         .step = r->step,
                         .message = NONE,
                         .first_transfer = r->transfers};
    uint32_t dst_count;
    irlex_next(lex);
    if (!parse_end(lex, f, &op.count, &op.src_rank, &op.src) || !irlex_expect(lex, "->"))
        return false;
    struct span dst_at = irlex_span(lex);
    if (!parse_end(lex, f, &dst_count, &op.dst_rank, &op.dst))
        return false;
    if (dst_count != op.count)
        irlex_error(lex, dst_at, "%u chunks into %u", op.count, dst_count);
    if (f->ops.count == MAX_OPS || op.count > MAX_TRANSFERS - r->transfers)
        irlex_error(lex, at, "more than %d operations or %d chunks moved", MAX_OPS, MAX_TRANSFERS);
    if (irlex_accept(lex, "via") && !flow_parse_codec(lex, f, &op.codec))
        return false;
    if (irlex_accept(lex, "in") && !flow_parse_stage(lex, f, &op.stage))
        return false;
    if (irlex_accept(lex, "as") && !parse_encodings(r, &op))
        return false;
    if (!irlex_expect_line_end(lex))
        return false;
    r->transfers += op.count;
    VEC_PUSH(&f->ops, op);
    return true;
}

static bool parse_op_line(struct op_reader *r) {
    struct irlex *lex = r->lex;
    struct span at = irlex_span(lex);
    if (is_name(lex, "copy"))
        return parse_op(r, FLOW_COPY);
    if (is_name(lex, "reduce"))
        return parse_op(r, FLOW_REDUCE);
    if (irlex_accept(lex, "step")) {
        if (r->step)
            irlex_error(lex, at, "a step within a step");
        r->step = ++r->steps;
        return irlex_expect(lex, "{") && irlex_expect_line_end(lex);
    }
    if (r->step && irlex_accept(lex, "}")) {
        r->step = 0;
        return irlex_expect_line_end(lex);
    }
    irlex_unexpected(lex, r->step ? "'copy', 'reduce' or '}'" : "'copy', 'reduce' or 'step'");
    return false;
}

/* All operations that make or move an encoding name it, or none does. */
static void finish_encodings(struct op_reader *r) {
    struct flow *f = r->f;
    if (!r->encoding.count)
        return;
    while (r->encoding.count < f->transfers)
        VEC_PUSH(&r->encoding, NONE);
    for (size_t i = 0; i < f->ops.count; i++) {
        const struct flow_op *op = &f->ops.data[i];
        if (op->message != NONE && r->encoding.data[op->first_transfer] == NONE)
            irlex_error(r->lex, (struct span){op->at, op->at + 1},
                        "other operations say which encoding they move, this one does not");
    }
    f->transfer_encoding = index_array_new(f->transfers, f->guard);
    memcpy(f->transfer_encoding, r->encoding.data, f->transfers * sizeof *r->encoding.data);
}

static void parse_ops(struct irlex *lex, struct flow *f) {
    struct op_reader r = {.lex = lex, .f = f};
    while (irlex_line(lex) && parse_op_line(&r))
        ;
    if (r.step && !lex->failed)
        irlex_unexpected(lex, "'}'");
    if (!lex->failed) {
        flow_number(f);
        finish_encodings(&r);
    }
    VEC_FREE(&r.encoding);
}

struct flow *flow_parse(struct arena *a, struct sources *s, struct diag *d, const char *name,
                        const char *text, size_t bytes) {
    struct irlex lex;
    if (!irlex_start(&lex, a, s, d, name, text, bytes))
        return NULL;
    struct flow *f = arena_alloc(a, sizeof *f);
    f->sources = s;
    irlex_line(&lex);
    if (irlex_expect(&lex, "flow") && (f->name = irlex_word(&lex, "the name of the flow")) &&
        irlex_expect_line_end(&lex) && flow_parse_header(&lex, f))
        parse_ops(&lex, f);
    if (!lex.failed)
        return f;
    flow_free(f);
    return NULL;
}
