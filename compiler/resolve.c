/* Expressions: names become slots, kinds are checked, constants are computed. Nothing here depends
 * on loop values, so each mistake is found once, wherever it stands.
 */
#include "compiler/eval.h"

void resolve_error(struct resolver *r, struct span at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(r->arena, format, args);
    va_end(args);
    diag_report(r->diag, SEV_ERROR, at, "%s", text);
}

const char *type_name(enum type t) {
    switch (t) {
    case TYPE_ANY:
        return "a value";
    case TYPE_INT:
        return "an integer";
    case TYPE_GROUP:
        return "a group";
    case TYPE_CODEC:
        return "a codec";
    case TYPE_BUFFER:
        return "a buffer";
    }
    return "";
}

/* ---- making code -------------------------------------------------------------------------- */

static struct code *make_code(struct resolver *r, enum code_op op, enum type type,
                              struct span span) {
    struct code *c = arena_alloc(r->arena, sizeof *c);
    c->op = op;
    c->type = type;
    c->span = span;
    c->weight = c->height = 1;
    if (type == TYPE_GROUP)
        c->last = arena_alloc(r->arena, sizeof *c->last);
    return c;
}

static void add_child(struct code *c, const struct code *child) {
    if (!child)
        return;
    if (child->depends > c->depends)
        c->depends = child->depends;
    if (child->height >= c->height)
        c->height = child->height + 1;
    uint64_t weight = (uint64_t)c->weight + child->weight;
    c->weight = weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
}

/* The operands are in place: what it costs, and whether it may be so costly. */
static struct code *finish_code(struct resolver *r, struct code *c) {
    if (c->op == CODE_CALL) {
        add_child(c, c->function->body);
        for (const struct code *arg = c->a; arg; arg = arg->next)
            add_child(c, arg);
    } else {
        add_child(c, c->a);
        add_child(c, c->b);
        add_child(c, c->c);
    }
    if (c->height > EXPR_MAX_HEIGHT || c->weight > EXPR_MAX_WEIGHT) {
        resolve_error(r, c->span, "the expression is too large: %s",
                      c->height > EXPR_MAX_HEIGHT ? "its operations are nested more than 2000 deep"
                                                  : "it takes more than 1000000 operations");
        return NULL;
    }
    return c;
}

static bool is_constant(const struct code *c) {
    return !c || c->op == CODE_CONST;
}

/* An integer operation on constants is a constant; one that fails is left for evaluation to report.
 */
static struct code *fold_code(struct resolver *r, struct code *c) {
    if (!c || c->type != TYPE_INT || !is_constant(c->a) || !is_constant(c->b) || !is_constant(c->c))
        return c;
    struct eval *e = r->eval;
    e->quiet = true;
    e->failed = false;
    int64_t value = eval_int(e, c);
    bool failed = e->failed;
    e->quiet = e->failed = false;
    if (failed)
        return c;
    c->op = CODE_CONST;
    c->a = c->b = c->c = NULL;
    c->value.integer = value;
    c->weight = c->height = 1;
    return c;
}

/* `a | b` of known codecs. */
static struct code *fold_composition(struct resolver *r, struct code *c) {
    if (!c || !is_constant(c->a) || !is_constant(c->b))
        return c;
    const struct eval_codec *codecs = r->eval->codecs;
    struct codec both;
    char error[256];
    if (!codec_compose(&codecs[c->a->value.codec].codec, &codecs[c->b->value.codec].codec, &both,
                       error, sizeof error)) {
        resolve_error(r, c->span, "%s", error);
        return NULL;
    }
    c->op = CODE_CONST;
    c->a = c->b = NULL;
    c->value.codec = eval_intern_codec(r->eval, &both);
    return c;
}

static struct code *make_integer(struct resolver *r, int64_t value, struct span span) {
    struct code *c = make_code(r, CODE_CONST, TYPE_INT, span);
    c->value.integer = value;
    return c;
}

/* ---- names -------------------------------------------------------------------------------- */

static bool check_type(struct resolver *r, const struct code *c, enum type want) {
    if (want == c->type || (want == TYPE_ANY && c->type != TYPE_BUFFER))
        return true;
    resolve_error(r, c->span, "expected %s, found %s", type_name(want), type_name(c->type));
    return false;
}

static struct code *resolve_codec_call(struct resolver *r, const char *name,
                                       const struct expr *args, struct span span,
                                       struct span name_span);

static bool is_codec_name(const char *name) {
    for (int k = 0; k < CODEC_KIND_COUNT; k++)
        if (!strcmp(codec_info((enum codec_kind)k)->name, name))
            return true;
    return false;
}

static bool is_builtin_function(const char *name) {
    static const char *const names[] = {
#define BUILTIN(OP, name, ...) name,
#include "compiler/builtins.def"
        NULL};
    for (const char *const *n = names; *n; n++)
        if (!strcmp(*n, name))
            return true;
    return false;
}

static void list_codecs(struct resolver *r) {
    char list[512] = "";
    size_t used = 0;
    for (int k = 0; k < CODEC_KIND_COUNT && used < sizeof list; k++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 k == 0                      ? ""
                                 : k == CODEC_KIND_COUNT - 1 ? " and "
                                                             : ", ",
                                 codec_info((enum codec_kind)k)->name);
    diag_report(r->diag, SEV_NOTE, (struct span){0}, "the codecs are %s", list);
}

static void report_unknown(struct resolver *r, const struct expr *x, enum type want) {
    if (is_builtin_function(x->name)) {
        resolve_error(r, x->span, "'%s' is a function: it needs its arguments", x->name);
        return;
    }
    enum wanted_name wanted = want == TYPE_CODEC    ? WANTED_CODEC
                              : want == TYPE_BUFFER ? WANTED_BUFFER
                                                    : WANTED_VALUE;
    const char *what = want == TYPE_CODEC ? "codec" : want == TYPE_BUFFER ? "buffer" : "name";
    const char *near = scope_suggest(r->scope, x->name, wanted);
    resolve_error(r, x->span, "unknown %s '%s'%s", what, x->name, near);
    if (want == TYPE_CODEC && !near[0])
        list_codecs(r);
    if (!strcmp(x->name, "all") && wanted == WANTED_VALUE)
        diag_report(r->diag, SEV_NOTE, x->span, "the group of all ranks is 'ranks(0..N)'");
}

static struct code *resolve_name(struct resolver *r, const struct expr *x, enum type want) {
    if (!strcmp(x->name, "N"))
        return make_integer(r, r->setup->ranks, x->span);
    if (!strcmp(x->name, "nodes"))
        return make_integer(r, groups_node_count(r->eval->groups), x->span);
    const struct symbol *symbol = scope_find(r->scope, x->name);
    if (!symbol && is_codec_name(x->name))
        return resolve_codec_call(r, x->name, NULL, x->span, x->span);
    if (!symbol) {
        report_unknown(r, x, want);
        return NULL;
    }
    if (symbol->kind != SYMBOL_VARIABLE) {
        resolve_error(r, x->span, "'%s' is a %s, not a value", x->name,
                      symbol->kind == SYMBOL_DEF ? "def" : "function");
        diag_report(r->diag, SEV_NOTE, symbol->at, "declared here");
        return NULL;
    }
    if (symbol->type == TYPE_ANY)
        return NULL; /* its declaration had an error */
    struct code *c = make_code(r, symbol->global ? CODE_GLOBAL : CODE_LOCAL, symbol->type, x->span);
    c->slot = symbol->slot;
    c->depends = symbol->global ? 0 : symbol->slot + 1;
    return c;
}

/* ---- operators ---------------------------------------------------------------------------- */

static enum code_op binary_code(enum binary_op op) {
    static const enum code_op codes[] = {
        [BIN_MUL] = CODE_MUL,     [BIN_DIV] = CODE_DIV,       [BIN_MOD] = CODE_MOD,
        [BIN_ADD] = CODE_ADD,     [BIN_SUB] = CODE_SUB,       [BIN_SHL] = CODE_SHL,
        [BIN_SHR] = CODE_SHR,     [BIN_LT] = CODE_LT,         [BIN_LE] = CODE_LE,
        [BIN_GT] = CODE_GT,       [BIN_GE] = CODE_GE,         [BIN_EQ] = CODE_EQ,
        [BIN_NE] = CODE_NE,       [BIN_BITAND] = CODE_BITAND, [BIN_XOR] = CODE_BITXOR,
        [BIN_BITOR] = CODE_BITOR, [BIN_AND] = CODE_AND,       [BIN_OR] = CODE_OR,
    };
    return codes[op];
}

/* + and - are also of groups, | of codecs. */
static struct code *resolve_binary(struct resolver *r, const struct expr *x) {
    enum binary_op op = x->binary.op;
    bool of_groups = op == BIN_ADD || op == BIN_SUB, of_codecs = op == BIN_BITOR;
    enum type want = of_groups || of_codecs ? TYPE_ANY : TYPE_INT;
    struct code *left = resolve_expr(r, x->binary.left, want);
    if (left && left->type != TYPE_INT && !(left->type == TYPE_GROUP && of_groups) &&
        !(left->type == TYPE_CODEC && of_codecs)) {
        resolve_error(r, left->span, "'%s' takes %s, found %s", binary_op_text(op),
                      of_codecs ? "integers or codecs" : "integers or groups",
                      type_name(left->type));
        left = NULL;
    }
    struct code *right = resolve_expr(r, x->binary.right, left ? left->type : want);
    if (!left || !right)
        return NULL;
    enum code_op code = binary_code(op);
    if (left->type == TYPE_GROUP)
        code = op == BIN_ADD ? CODE_PLUS : CODE_MINUS;
    else if (left->type == TYPE_CODEC)
        code = CODE_COMPOSE;
    struct code *c = make_code(r, code, left->type, x->span);
    c->a = left;
    c->b = right;
    c = finish_code(r, c);
    return code == CODE_COMPOSE ? fold_composition(r, c) : fold_code(r, c);
}

static struct code *resolve_unary(struct resolver *r, const struct expr *x) {
    struct code *operand = resolve_expr(r, x->unary.operand, TYPE_INT);
    if (!operand)
        return NULL;
    enum code_op op = x->unary.op == '-'   ? CODE_NEG
                      : x->unary.op == '!' ? CODE_NOT
                                           : CODE_COMPLEMENT;
    struct code *c = make_code(r, op, TYPE_INT, x->span);
    c->a = operand;
    return fold_code(r, finish_code(r, c));
}

static struct code *resolve_ternary(struct resolver *r, const struct expr *x, enum type want) {
    struct code *cond = resolve_expr(r, x->ternary.cond, TYPE_INT);
    struct code *yes = resolve_expr(r, x->ternary.yes, want);
    struct code *no = resolve_expr(r, x->ternary.no, yes ? yes->type : want);
    if (!cond || !yes || !no)
        return NULL;
    struct code *c = make_code(r, CODE_COND, yes->type, x->span);
    c->a = cond;
    c->b = yes;
    c->c = no;
    return fold_code(r, finish_code(r, c));
}

static struct code *resolve_index(struct resolver *r, const struct expr *x) {
    struct code *base = resolve_expr(r, x->index.base, TYPE_GROUP);
    struct code *index = resolve_expr(r, x->index.index, TYPE_INT);
    if (!base || !index)
        return NULL;
    struct code *c = make_code(r, CODE_INDEX, TYPE_INT, x->span);
    c->a = base;
    c->b = index;
    return finish_code(r, c);
}

static struct code *resolve_range(struct resolver *r, const struct expr *x) {
    struct code *from = resolve_expr(r, x->range.from, TYPE_INT);
    struct code *to = resolve_expr(r, x->range.to, TYPE_INT);
    struct code *step = x->range.step ? resolve_expr(r, x->range.step, TYPE_INT) : NULL;
    if (!from || !to || (x->range.step && !step))
        return NULL;
    struct code *c = make_code(r, CODE_RANGE, TYPE_ANY, x->span);
    c->step_kind = x->range.step ? x->range.step_kind : STEP_NONE;
    c->a = from;
    c->b = to;
    c->c = step;
    return finish_code(r, c);
}

struct code *resolve_domain(struct resolver *r, const struct expr *x) {
    if (x->kind == EXPR_RANGE)
        return resolve_range(r, x);
    struct code *c = resolve_expr(r, x, TYPE_ANY);
    if (c && c->type != TYPE_GROUP) {
        resolve_error(r, c->span, "a loop goes over a range 'a..b' or a group, found %s",
                      type_name(c->type));
        return NULL;
    }
    return c;
}

/* ---- calls -------------------------------------------------------------------------------- */

struct builtin {
    const char *name;
    enum code_op op;
    enum type result;
    const char *args;
};

static const struct builtin *find_builtin(const char *name) {
    static const struct builtin builtins[] = {
#define BUILTIN(OP, name, result, args, help) {name, CODE_##OP, TYPE_##result, args},
#include "compiler/builtins.def"
    };
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (!strcmp(builtins[i].name, name))
            return &builtins[i];
    return NULL;
}

static uint32_t count_args(const struct expr *args) {
    uint32_t n = 0;
    for (; args; args = args->next)
        n++;
    return n;
}

static bool check_arity(struct resolver *r, const struct expr *x, uint32_t arity) {
    uint32_t found = count_args(x->call.args);
    if (found == arity)
        return true;
    resolve_error(r, x->span, "'%s' takes %u argument%s, found %u", x->call.name, arity,
                  arity == 1 ? "" : "s", found);
    return false;
}

static struct code *resolve_builtin(struct resolver *r, const struct expr *x,
                                    const struct builtin *b) {
    if (!check_arity(r, x, (uint32_t)strlen(b->args)))
        return NULL;
    struct code *c = make_code(r, b->op, b->result, x->span);
    struct code **operands[] = {&c->a, &c->b, &c->c};
    const struct expr *arg = x->call.args;
    bool ok = true;
    for (uint32_t i = 0; b->args[i]; i++, arg = arg->next) {
        if (b->args[i] == 'r' && arg->kind != EXPR_RANGE) {
            resolve_error(r, arg->span, "'%s' takes a range 'a..b'", b->name);
            return NULL;
        }
        *operands[i] = b->args[i] == 'r'
                           ? resolve_range(r, arg)
                           : resolve_expr(r, arg, b->args[i] == 'g' ? TYPE_GROUP : TYPE_INT);
        ok &= *operands[i] != NULL;
    }
    if (!ok)
        return NULL;
    return b->op == CODE_NODE || b->op == CODE_LOCAL_RANK ? finish_code(r, c)
                                                          : fold_code(r, finish_code(r, c));
}

static struct code *resolve_function_call(struct resolver *r, const struct expr *x,
                                          const struct function *f) {
    if (!check_arity(r, x, f->arity)) {
        diag_report(r->diag, SEV_NOTE, f->at, "declared here");
        return NULL;
    }
    struct code *c = make_code(r, CODE_CALL, TYPE_INT, x->span);
    struct code **end = &c->a;
    bool ok = f->body != NULL;
    c->function = f;
    for (const struct expr *arg = x->call.args; arg; arg = arg->next) {
        struct code *value = resolve_expr(r, arg, TYPE_INT);
        ok &= value != NULL;
        if (!value)
            continue;
        *end = value;
        end = &value->next;
    }
    return ok ? finish_code(r, c) : NULL;
}

static bool resolve_codec_arg(struct resolver *r, const struct expr *x, struct codec_arg *arg,
                              struct code **number) {
    *number = NULL;
    if (x->kind == EXPR_DECIMAL) {
        arg->number = x->decimal;
        return true;
    }
    if (x->kind == EXPR_NAME && strcmp(x->name, "N") && strcmp(x->name, "nodes") &&
        !scope_find(r->scope, x->name)) {
        arg->name = x->name;
        return true;
    }
    struct code *c = resolve_expr(r, x, TYPE_INT);
    if (!c)
        return false;
    if (is_constant(c))
        arg->number = (double)c->value.integer;
    else
        *number = c;
    return true;
}

static struct code *resolve_codec_call(struct resolver *r, const char *name,
                                       const struct expr *args, struct span span,
                                       struct span name_span) {
    struct codec_call *call = arena_alloc(r->arena, sizeof *call);
    call->name = name;
    call->count = count_args(args);
    call->args = arena_array(r->arena, call->count, sizeof *call->args);
    call->number = arena_array(r->arena, call->count, sizeof *call->number);
    call->made = NONE;
    struct code *c = make_code(r, CODE_CODEC, TYPE_CODEC, span);
    c->codec = call;
    bool constant = true;
    for (uint32_t i = 0; args; args = args->next, i++) {
        if (!resolve_codec_arg(r, args, &call->args[i], &call->number[i]))
            return NULL;
        add_child(c, call->number[i]);
        constant &= call->number[i] == NULL;
    }
    if (!constant)
        return finish_code(r, c);
    struct codec codec;
    char error[256];
    if (!codec_make(name, call->args, call->count, &codec, error, sizeof error)) {
        resolve_error(r, call->count ? span : name_span, "%s", error);
        return NULL;
    }
    c->op = CODE_CONST;
    c->value.codec = eval_intern_codec(r->eval, &codec);
    return c;
}

static struct code *resolve_call(struct resolver *r, const struct expr *x, enum type want) {
    const char *name = x->call.name;
    const struct symbol *symbol = scope_find(r->scope, name);
    if (symbol && symbol->kind == SYMBOL_FUNCTION)
        return resolve_function_call(r, x, symbol->function);
    if (symbol) {
        resolve_error(r, x->call.name_span, "'%s' is not a function", name);
        diag_report(r->diag, SEV_NOTE, symbol->at, "declared here");
        return NULL;
    }
    const struct builtin *b = find_builtin(name);
    if (b)
        return resolve_builtin(r, x, b);
    if (is_codec_name(name))
        return resolve_codec_call(r, name, x->call.args, x->span, x->call.name_span);
    if (r->defining && !strcmp(name, r->defining)) {
        resolve_error(r, x->call.name_span, "'%s' calls itself: there is no recursion", name);
        return NULL;
    }
    const char *near = scope_suggest(r->scope, name, WANTED_FUNCTION);
    resolve_error(r, x->call.name_span, "unknown function or codec '%s'%s", name, near);
    if (!strcmp(name, "range"))
        diag_report(r->diag, SEV_NOTE, x->span, "a range is written first..end, as in 0..N");
    else if (want == TYPE_CODEC && !near[0])
        list_codecs(r);
    return NULL;
}

/* ---- all together ------------------------------------------------------------------------- */

static struct code *resolve_any(struct resolver *r, const struct expr *x, enum type want) {
    switch (x->kind) {
    case EXPR_INT:
        return make_integer(r, x->integer, x->span);
    case EXPR_DECIMAL:
        resolve_error(r, x->span, "a decimal number is only an argument of a codec");
        return NULL;
    case EXPR_NAME:
        return resolve_name(r, x, want);
    case EXPR_UNARY:
        return resolve_unary(r, x);
    case EXPR_BINARY:
        return resolve_binary(r, x);
    case EXPR_TERNARY:
        return resolve_ternary(r, x, want);
    case EXPR_CALL:
        return resolve_call(r, x, want);
    case EXPR_INDEX:
        return resolve_index(r, x);
    case EXPR_RANGE:
        resolve_error(r, x->span, "a range stands in 'for' and in ranks() only");
        return NULL;
    }
    return NULL;
}

struct code *resolve_expr(struct resolver *r, const struct expr *x, enum type want) {
    if (diag_full(r->diag))
        return NULL;
    if (r->depth >= EXPR_MAX_HEIGHT) {
        resolve_error(r, x->span,
                      "the expression is too large: its operations are nested more than 2000 deep");
        return NULL;
    }
    r->depth++;
    struct code *c = resolve_any(r, x, want);
    r->depth--;
    return c && check_type(r, c, want) ? c : NULL;
}
