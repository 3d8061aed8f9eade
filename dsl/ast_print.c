/* The canonical text of a tree. It parses back to the same tree: brackets stand where precedence
 * needs them and nowhere else, everything has one spelling. Imported lets and defs are printed
 * with the rest, so the text stands alone. */
#include "dsl/dsl.h"

#include <inttypes.h>
#include <string.h>

const char *binary_op_text(enum binary_op op) {
    static const char *const text[] = {
        [BIN_MUL] = "*",   [BIN_DIV] = "/",  [BIN_MOD] = "%", [BIN_ADD] = "+",    [BIN_SUB] = "-",
        [BIN_SHL] = "<<",  [BIN_SHR] = ">>", [BIN_LT] = "<",  [BIN_LE] = "<=",    [BIN_GT] = ">",
        [BIN_GE] = ">=",   [BIN_EQ] = "==",  [BIN_NE] = "!=", [BIN_BITAND] = "&", [BIN_XOR] = "^",
        [BIN_BITOR] = "|", [BIN_AND] = "&&", [BIN_OR] = "||",
    };
    return text[op];
}

const char *collective_name(enum collective c) {
    static const char *const text[] = {
        [COLL_NONE] = "none",
        [COLL_ALLREDUCE] = "allreduce",
        [COLL_REDUCE_SCATTER] = "reduce_scatter",
        [COLL_ALLGATHER] = "allgather",
        [COLL_BROADCAST] = "broadcast",
        [COLL_REDUCE] = "reduce",
        [COLL_GATHER] = "gather",
        [COLL_SCATTER] = "scatter",
        [COLL_ALLTOALL] = "alltoall",
    };
    return text[c];
}

const char *buffer_role_name(enum buffer_role role) {
    static const char *const text[] = {
        [ROLE_INPUT] = "input",
        [ROLE_OUTPUT] = "output",
        [ROLE_INOUT] = "inout",
        [ROLE_SCRATCH] = "scratch",
    };
    return text[role];
}

/* ---- expressions -------------------------------------------------------------------------- */

/* As in grammar.y, loosest first. */
enum precedence {
    PREC_TERNARY = 1,
    PREC_OR,
    PREC_AND,
    PREC_BITOR,
    PREC_XOR,
    PREC_BITAND,
    PREC_EQ,
    PREC_LT,
    PREC_SHIFT,
    PREC_ADD,
    PREC_MUL,
    PREC_UNARY,
    PREC_POSTFIX,
};

static enum precedence binary_precedence(enum binary_op op) {
    static const enum precedence of[] = {
        [BIN_MUL] = PREC_MUL,     [BIN_DIV] = PREC_MUL,       [BIN_MOD] = PREC_MUL,
        [BIN_ADD] = PREC_ADD,     [BIN_SUB] = PREC_ADD,       [BIN_SHL] = PREC_SHIFT,
        [BIN_SHR] = PREC_SHIFT,   [BIN_LT] = PREC_LT,         [BIN_LE] = PREC_LT,
        [BIN_GT] = PREC_LT,       [BIN_GE] = PREC_LT,         [BIN_EQ] = PREC_EQ,
        [BIN_NE] = PREC_EQ,       [BIN_BITAND] = PREC_BITAND, [BIN_XOR] = PREC_XOR,
        [BIN_BITOR] = PREC_BITOR, [BIN_AND] = PREC_AND,       [BIN_OR] = PREC_OR,
    };
    return of[op];
}

static enum precedence precedence_of(const struct expr *e) {
    switch (e->kind) {
    case EXPR_UNARY:
        return PREC_UNARY;
    case EXPR_BINARY:
        return binary_precedence(e->binary.op);
    case EXPR_TERNARY:
        return PREC_TERNARY;
    case EXPR_INT:
    case EXPR_DECIMAL:
    case EXPR_NAME:
    case EXPR_CALL:
    case EXPR_INDEX:
    case EXPR_RANGE: /* stands only where no operator is near */
        return PREC_POSTFIX;
    }
    return PREC_POSTFIX;
}

static void print_above(const struct expr *e, enum precedence least, FILE *out) {
    bool bracket = precedence_of(e) < least;
    fputs(bracket ? "(" : "", out);
    expr_print(e, out);
    fputs(bracket ? ")" : "", out);
}

/* At most 15 digits, as the scanner takes them. Independent of the locale. */
static void print_decimal(double value, FILE *out) {
    double scale = 10;
    int places = 1;
    int64_t digits = (int64_t)(value * scale + 0.5);
    while (places < 15 && (double)digits / scale != value) {
        scale *= 10;
        places++;
        digits = (int64_t)(value * scale + 0.5);
    }
    int64_t whole = (int64_t)scale;
    fprintf(out, "%" PRId64 ".%0*" PRId64, digits / whole, places, digits % whole);
}

static void print_args(const struct expr *args, FILE *out) {
    for (const struct expr *arg = args; arg; arg = arg->next) {
        fputs(arg == args ? "" : ", ", out);
        expr_print(arg, out);
    }
}

static void print_range(const struct expr *e, FILE *out) {
    static const char *const steps[] = {
        [STEP_NONE] = "", [STEP_ADD] = " step ", [STEP_MUL] = " step *", [STEP_DIV] = " step /"};
    expr_print(e->range.from, out);
    fputs("..", out);
    expr_print(e->range.to, out);
    fputs(steps[e->range.step_kind], out);
    if (e->range.step_kind != STEP_NONE)
        expr_print(e->range.step, out);
}

void expr_print(const struct expr *e, FILE *out) {
    switch (e->kind) {
    case EXPR_INT:
        fprintf(out, "%" PRId64, e->integer);
        break;
    case EXPR_DECIMAL:
        print_decimal(e->decimal, out);
        break;
    case EXPR_NAME:
        fputs(e->name, out);
        break;
    case EXPR_UNARY:
        fputc(e->unary.op, out);
        print_above(e->unary.operand, PREC_UNARY, out);
        break;
    case EXPR_BINARY: {
        enum precedence own = binary_precedence(e->binary.op);
        print_above(e->binary.left, own, out);
        fprintf(out, " %s ", binary_op_text(e->binary.op));
        print_above(e->binary.right, own + 1, out);
        break;
    }
    case EXPR_TERNARY:
        print_above(e->ternary.cond, PREC_OR, out);
        fputs(" ? ", out);
        expr_print(e->ternary.yes, out);
        fputs(" : ", out);
        print_above(e->ternary.no, PREC_TERNARY, out);
        break;
    case EXPR_CALL:
        fprintf(out, "%s(", e->call.name);
        print_args(e->call.args, out);
        fputc(')', out);
        break;
    case EXPR_INDEX:
        print_above(e->index.base, PREC_POSTFIX, out);
        fputc('[', out);
        expr_print(e->index.index, out);
        fputc(']', out);
        break;
    case EXPR_RANGE:
        print_range(e, out);
        break;
    }
}

/* ---- statements --------------------------------------------------------------------------- */

static void print_block(const struct stmt *body, unsigned indent, FILE *out);

static void print_indent(unsigned indent, FILE *out) {
    for (unsigned i = 0; i < indent; i++)
        fputs("    ", out);
}

static void print_string(const char *text, FILE *out) {
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void print_chunk(const struct chunk_ref *c, FILE *out) {
    fprintf(out, "%s[", c->buffer);
    expr_print(c->index, out);
    if (c->count) {
        fputs(" +: ", out);
        expr_print(c->count, out);
    }
    fputs("]@", out);
    print_above(c->rank, PREC_POSTFIX, out);
}

static void print_via(const struct expr *via, FILE *out) {
    if (!via)
        return;
    fputs(" via ", out);
    expr_print(via, out);
}

static void print_on(const struct expr *group, FILE *out) {
    if (!group)
        return;
    fputs(" on ", out);
    expr_print(group, out);
}

static void print_loop(const struct generator *generators, const struct expr *where, FILE *out) {
    for (const struct generator *g = generators; g; g = g->next) {
        fprintf(out, "%s%s in ", g == generators ? "for " : ", ", g->name);
        expr_print(g->domain, out);
    }
    if (where) {
        fputs(" where ", out);
        expr_print(where, out);
    }
}

static void print_formals(const struct formal *formals, FILE *out) {
    static const char *const kinds[] = {[FORMAL_INT] = "int",
                                        [FORMAL_CODEC] = "codec",
                                        [FORMAL_GROUP] = "group",
                                        [FORMAL_BUFFER] = "buffer"};
    for (const struct formal *f = formals; f; f = f->next) {
        fprintf(out, "%s%s %s", f == formals ? "" : ", ", kinds[f->kind], f->name);
        if (f->initial) {
            fputs(" = ", out);
            expr_print(f->initial, out);
        }
    }
}

static void print_ensure(const struct stmt *s, FILE *out) {
    fputs(s->kind == STMT_ENSURE_IDENTICAL ? "ensure identical " : "ensure ", out);
    print_chunk(&s->ensure.left, out);
    if (s->kind == STMT_ENSURE_VALUE) {
        fputs(s->ensure.is_sum ? " == sum(" : " == ", out);
        print_chunk(&s->ensure.term, out);
        if (s->ensure.is_sum) {
            fputc(' ', out);
            print_loop(s->ensure.sum_gens, s->ensure.sum_where, out);
            fputc(')', out);
        }
    }
    if (s->ensure.generators)
        fputc(' ', out);
    print_loop(s->ensure.generators, s->ensure.where, out);
}

static void print_let_function(const struct stmt *s, FILE *out) {
    fprintf(out, "let %s(", s->let_function.name);
    for (const struct formal *f = s->let_function.formals; f; f = f->next)
        fprintf(out, "%s%s", f == s->let_function.formals ? "" : ", ", f->name);
    fputs(") = ", out);
    expr_print(s->let_function.value, out);
}

/* An `if` alone in an else is printed as `else if`: the two are one tree. */
static void print_if(const struct stmt *s, unsigned indent, FILE *out) {
    for (;;) {
        fputs("if ", out);
        expr_print(s->if_.cond, out);
        print_block(s->if_.yes, indent, out);
        const struct stmt *no = s->if_.no;
        if (!no)
            return;
        fputs(" else", out);
        if (no->kind != STMT_IF || no->next) {
            print_block(no, indent, out);
            return;
        }
        fputc(' ', out);
        s = no;
    }
}

static void print_collective(const struct stmt *s, FILE *out) {
    fprintf(out, "collective %s", collective_name(s->collective.kind));
    if (s->collective.root) {
        fputc('(', out);
        expr_print(s->collective.root, out);
        fputc(')', out);
    }
    print_on(s->collective.group, out);
}

static void print_move(const struct stmt *s, FILE *out) {
    fputs(s->kind == STMT_COPY ? "copy " : "reduce ", out);
    print_chunk(&s->move.src, out);
    fputs(" -> ", out);
    print_chunk(&s->move.dst, out);
    print_via(s->move.via, out);
}

/* Without the `;`. True when there is one. */
static bool print_stmt(const struct stmt *s, unsigned indent, FILE *out) {
    switch (s->kind) {
    case STMT_BUFFER:
        fprintf(out, "%s %s[", buffer_role_name(s->buffer.role), s->buffer.name);
        expr_print(s->buffer.chunks, out);
        fputc(']', out);
        print_on(s->buffer.group, out);
        return true;
    case STMT_COPY:
    case STMT_REDUCE:
        print_move(s, out);
        return true;
    case STMT_STEP:
        fputs("step", out);
        print_block(s->step.body, indent, out);
        return false;
    case STMT_STAGE:
        fprintf(out, "stage %s", s->stage.name);
        print_via(s->stage.via, out);
        print_block(s->stage.body, indent, out);
        return false;
    case STMT_CALL:
        fprintf(out, "%s(", s->call.name);
        print_args(s->call.args, out);
        fputc(')', out);
        print_via(s->call.via, out);
        return true;
    case STMT_LET:
        fprintf(out, "let %s = ", s->let.name);
        expr_print(s->let.value, out);
        return true;
    case STMT_LET_FUNCTION:
        print_let_function(s, out);
        return true;
    case STMT_IF:
        print_if(s, indent, out);
        return false;
    case STMT_FOR:
        print_loop(s->for_.generators, s->for_.where, out);
        print_block(s->for_.body, indent, out);
        return false;
    case STMT_REQUIRE:
        fputs("require ", out);
        expr_print(s->require.cond, out);
        fputs(" : ", out);
        print_string(s->require.message, out);
        return true;
    case STMT_COLLECTIVE:
        print_collective(s, out);
        return true;
    case STMT_ENSURE_VALUE:
    case STMT_ENSURE_IDENTICAL:
        print_ensure(s, out);
        return true;
    case STMT_SLICES:
        fputs("slices ", out);
        expr_print(s->slices.count, out);
        return true;
    }
    return true;
}

static void print_stmts(const struct stmt *s, unsigned indent, FILE *out) {
    for (; s; s = s->next) {
        print_indent(indent, out);
        fputs(print_stmt(s, indent, out) ? ";\n" : "\n", out);
    }
}

static void print_block(const struct stmt *body, unsigned indent, FILE *out) {
    fputs(" {\n", out);
    print_stmts(body, indent + 1, out);
    print_indent(indent, out);
    fputc('}', out);
}

static void print_definition(const char *what, const char *name, const struct formal *formals,
                             const struct stmt *body, bool first, FILE *out) {
    fprintf(out, "%s%s %s(", first ? "" : "\n", what, name);
    print_formals(formals, out);
    fputc(')', out);
    print_block(body, 0, out);
    fputc('\n', out);
}

void ast_print(const struct program *p, FILE *out) {
    print_stmts(p->lets, 0, out);
    bool first = !p->lets;
    for (const struct def *d = p->defs; d; d = d->next, first = false)
        print_definition("def", d->name, d->formals, d->body, first, out);
    for (const struct schedule *s = p->schedules; s; s = s->next, first = false)
        print_definition("schedule", s->name, s->formals, s->body, first, out);
}
