/* The tree that the parser makes: shapes, spans, precedence, imports through a reader, single
 * expressions, speed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dsl/dsl.h"

struct fixture {
    struct arena *arena;
    struct sources *sources;
    struct diag *diag;
    char *printed;
};

static struct fixture make(void) {
    struct fixture f = {.arena = arena_new()};
    f.sources = sources_new(f.arena);
    f.diag = diag_new(f.arena, f.sources);
    return f;
}

static void drop(struct fixture *f) {
    free(f->printed);
    arena_free(f->arena);
}

/* Files that exist: name, text, name, text, ..., NULL. */
static const char *read_fake(void *ctx, struct arena *a, const char *path, char **text,
                             size_t *bytes, struct file_id *id) {
    (void)id;
    for (const char *const *file = ctx; file && *file; file += 2)
        if (strcmp(*file, path) == 0) {
            *bytes = strlen(file[1]);
            *text = arena_strndup(a, file[1], *bytes);
            return NULL;
        }
    return "no such file";
}

static struct program *parse(struct fixture *f, const char *text, const char *const *files) {
    return parse_text(f->arena, f->sources, f->diag, "dir/main.slc", text, strlen(text), read_fake,
                      (void *)files);
}

static struct program *parse_ok(struct fixture *f, const char *text) {
    struct program *p = parse(f, text, NULL);
    if (diag_errors(f->diag))
        diag_print(f->diag, stderr, false);
    assert_int_equal(diag_errors(f->diag), 0);
    return p;
}

static const char *first_error(struct fixture *f) {
    size_t bytes;
    free(f->printed);
    FILE *out = open_memstream(&f->printed, &bytes);
    diag_print(f->diag, out, false);
    fclose(out);
    f->printed[strcspn(f->printed, "\n")] = '\0';
    return f->printed;
}

static const char *text_at(struct fixture *f, struct span at) {
    size_t bytes;
    const char *text = sources_text(f->sources, at.begin, &bytes);
    return arena_strndup(f->arena, text + (at.begin - sources_base(f->sources, at.begin)),
                         at.end - at.begin);
}

static struct expr *parse_expr(struct fixture *f, const char *text) {
    return parse_expr_text(f->arena, f->sources, f->diag, "-D x", text, strlen(text));
}

/* Every bracket that the tree implies, and no other. */
static void print_bracketed(const struct expr *e, FILE *out) {
    switch (e->kind) {
    case EXPR_UNARY:
        fprintf(out, "(%c", e->unary.op);
        print_bracketed(e->unary.operand, out);
        fputc(')', out);
        break;
    case EXPR_BINARY:
        fputc('(', out);
        print_bracketed(e->binary.left, out);
        fputs(binary_op_text(e->binary.op), out);
        print_bracketed(e->binary.right, out);
        fputc(')', out);
        break;
    case EXPR_TERNARY:
        fputc('(', out);
        print_bracketed(e->ternary.cond, out);
        fputc('?', out);
        print_bracketed(e->ternary.yes, out);
        fputc(':', out);
        print_bracketed(e->ternary.no, out);
        fputc(')', out);
        break;
    case EXPR_INT:
    case EXPR_DECIMAL:
    case EXPR_NAME:
    case EXPR_CALL:
    case EXPR_INDEX:
    case EXPR_RANGE:
        expr_print(e, out);
        break;
    }
}

static void precedence_is_that_of_c(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"1+2*3", "(1+(2*3))"},         {"1-2-3", "((1-2)-3)"},
        {"1<<2+3", "(1<<(2+3))"},       {"1<2<<3", "(1<(2<<3))"},
        {"1==2<3", "(1==(2<3))"},       {"1&2==3", "(1&(2==3))"},
        {"1^2&3", "(1^(2&3))"},         {"1|2^3", "(1|(2^3))"},
        {"1&&2|3", "(1&&(2|3))"},       {"1||2&&3", "(1||(2&&3))"},
        {"1?2:3?4:5", "(1?2:(3?4:5))"}, {"1?2?3:4:5", "(1?(2?3:4):5)"},
        {"1||2?3:4", "((1||2)?3:4)"},   {"-1*2", "((-1)*2)"},
        {"-a[1]", "(-a[1])"},           {"!~-1", "(!(~(-1)))"},
        {"a|b|c", "((a|b)|c)"},         {"1!=2==3", "((1!=2)==3)"},
        {"1>=2>3", "((1>=2)>3)"},       {"1>>2<<3", "((1>>2)<<3)"},
        {"1%2/3", "((1%2)/3)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f = make();
        size_t bytes;
        struct expr *e = parse_expr(&f, cases[i][0]);
        assert_non_null(e);
        FILE *out = open_memstream(&f.printed, &bytes);
        print_bracketed(e, out);
        fclose(out);
        assert_string_equal(f.printed, cases[i][1]);
        drop(&f);
    }
}

static void a_decimal_is_read_and_printed_exactly(void **state) {
    (void)state;
    static const char *const same[] = {
        "0.72", "1.0",     "0.000001", "0.999999999999999", "12345678901234.5", "0.1",
        "0.3",  "3.14159", "0.0"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct fixture f = make();
        size_t bytes;
        struct expr *e = parse_expr(&f, same[i]);
        assert_non_null(e);
        assert_int_equal(e->kind, EXPR_DECIMAL);
        assert_true(e->decimal == strtod(same[i], NULL)); /* in the C locale */
        FILE *out = open_memstream(&f.printed, &bytes);
        expr_print(e, out);
        fclose(out);
        assert_string_equal(f.printed, same[i]);
        drop(&f);
    }
}

static void integers_reach_to_both_notations_limits(void **state) {
    (void)state;
    struct fixture f = make();
    assert_int_equal(parse_expr(&f, "9223372036854775807")->integer, INT64_MAX);
    assert_int_equal(parse_expr(&f, "0x7FFFffffFFFFffff")->integer, INT64_MAX);
    assert_int_equal(parse_expr(&f, "0")->integer, 0);
    assert_int_equal(parse_expr(&f, "0x0")->integer, 0);
    assert_null(parse_expr(&f, "9223372036854775808"));
    drop(&f);
}

static void an_expression_is_read_to_its_end(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"1 2", "-D x:1:3: error: unexpected '2'"},
        {"", "-D x:1:1: error: expected expression, found end of text"},
        {"4;", "-D x:1:2: error: unexpected ';'"},
        {"cast(bf16", "-D x:1:10: error: expected ',' or ')' after 'bf16', found end of text"},
        {"pack }", "-D x:1:6: error: unexpected '}'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f = make();
        assert_null(parse_expr(&f, cases[i][0]));
        assert_string_equal(first_error(&f), cases[i][1]);
        drop(&f);
    }
}

static void spans_cover_what_was_written(void **state) {
    (void)state;
    struct fixture f = make();
    struct program *p =
        parse_ok(&f, "def go(group g) { }\n"
                     "schedule s(int k = 1 + 2) {\n"
                     "    copy data[ k ]@( k ) -> out[0 +: k]@next(g, g[1]) via pack;\n"
                     "    go ( a , b );\n"
                     "}\n");
    assert_string_equal(text_at(&f, p->defs->span), "def go(group g) { }");
    struct schedule *s = p->schedules;
    assert_string_equal(text_at(&f, s->name_span), "s");
    assert_string_equal(text_at(&f, s->formals->span), "int k = 1 + 2");
    assert_string_equal(text_at(&f, s->formals->initial->binary.op_span), "+");
    struct stmt *copy = s->body;
    assert_string_equal(text_at(&f, copy->span),
                        "copy data[ k ]@( k ) -> out[0 +: k]@next(g, g[1]) via pack;");
    assert_string_equal(text_at(&f, copy->move.src.span), "data[ k ]@( k )");
    assert_string_equal(text_at(&f, copy->move.src.rank->span), "( k )");
    assert_string_equal(text_at(&f, copy->move.dst.buffer_span), "out");
    assert_string_equal(text_at(&f, copy->move.dst.rank->span), "next(g, g[1])");
    assert_string_equal(text_at(&f, copy->move.dst.rank->call.args->next->span), "g[1]");
    assert_null(copy->move.src.count);
    assert_non_null(copy->move.dst.count);
    assert_string_equal(text_at(&f, copy->next->call.name_span), "go");
    assert_int_equal(copy->next->kind, STMT_CALL);
    drop(&f);
}

static void imports_start_from_the_importing_file(void **state) {
    (void)state;
    static const char *const files[] = {
        "dir/a.slc",
        "import \"sub/b.slc\"; let a = b;",
        "dir/sub/b.slc",
        "import \"../../top.slc\"; import \"/abs/c.slc\"; let b = top;",
        "top.slc",
        "let top = 1;",
        "/abs/c.slc",
        "import \"../../../../abs/./d.slc\"; let c = d;",
        "/abs/d.slc",
        "let d = 1;",
        NULL};
    struct fixture f = make();
    struct program *p = parse(&f, "import \"./a.slc\"; import \"sub//b.slc\"; let m = a;", files);
    assert_int_equal(diag_errors(f.diag), 0);
    const char *order = "";
    for (struct stmt *s = p->lets; s; s = s->next)
        order = arena_printf(f.arena, "%s %s", order, s->let.name);
    assert_string_equal(order, " top d c b a m"); /* what is imported comes first */
    drop(&f);
}

static void what_leads_above_the_start_keeps_its_dots(void **state) {
    (void)state;
    static const char *const files[] = {"../up.slc", "let up = 1;", NULL};
    struct fixture f = make();
    parse(&f, "import \"../../up.slc\"; import \"x/../../../up.slc\";", files);
    assert_int_equal(diag_errors(f.diag), 0);
    parse(&f, "import \"../nowhere.slc\";", files);
    assert_string_equal(first_error(&f),
                        "dir/main.slc:1:8: error: cannot import 'nowhere.slc': no such file");
    drop(&f);
}

static void imports_nest_to_a_limit(void **state) {
    (void)state;
    enum { FILES = 400 };
    struct fixture f = make();
    const char **files = arena_array(f.arena, 2 * FILES + 1, sizeof *files);
    for (int i = 0; i < FILES; i++) {
        files[2 * i] = arena_printf(f.arena, "dir/%d.slc", i);
        files[2 * i + 1] = arena_printf(f.arena, "import \"%d.slc\";", i + 1);
    }
    parse(&f, "import \"0.slc\";", files);
    assert_string_equal(first_error(&f),
                        "dir/254.slc:1:8: error: imports nest deeper than 256 files");
    drop(&f);
}

/* 10 MB are read in about a second; ten times that is allowed for slow and instrumented machines.
 */
static void ten_megabytes_are_read_quickly(void **state) {
    (void)state;
    enum { LINES = 110000, LONGEST = 128 };
    char *text = malloc((size_t)LINES * LONGEST + 100);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "schedule s() {\n");
    for (int i = 0; i < LINES; i++)
        n += (size_t)sprintf(text + n,
                             "    copy data[%d %% N]@%d -> data[next(all, g[%d])]@(%d + 1) via "
                             "cast(bf16) | pack(0.72);\n",
                             i, i, i, i);
    n += (size_t)sprintf(text + n, "}\n");
    assert_in_range(n, 10u << 20, 16u << 20);
    struct fixture f = make();
    clock_t started = clock();
    struct program *p = parse_text(f.arena, f.sources, f.diag, "big", text, n, read_fake, NULL);
    double seconds = (double)(clock() - started) / CLOCKS_PER_SEC;
    assert_int_equal(diag_errors(f.diag), 0);
    int statements = 0;
    for (struct stmt *s = p->schedules->body; s; s = s->next)
        statements++;
    assert_int_equal(statements, LINES);
    print_message("%zu bytes in %.2f s, %zu MiB\n", n, seconds, arena_bytes(f.arena) >> 20);
    assert_true(seconds < 10);
    drop(&f);
    free(text);
}

struct trap {
    jmp_buf back;
};

static void spring(void *ctx) {
    longjmp(((struct trap *)ctx)->back, 1);
}

static void memory_may_end_anywhere(void **state) {
    (void)state;
    static const char text[] =
        "let f(a) = a + 1;\n"
        "def d(group g) { for i in 0..2 { copy a[i]@0 -> b[i]@1 via pack; } }\n"
        "schedule s(int k = 2) { d(ranks(0..2)); let = 3; }\n";
    volatile size_t limit = 64;
    volatile int caught = 0, done = 0;
    while (!done) {
        struct arena *volatile a = arena_new();
        struct trap trap;
        arena_set_limit(a, limit, spring, &trap);
        if (setjmp(trap.back) == 0) {
            struct sources *s = sources_new(a);
            struct diag *d = diag_new(a, s);
            parse_text(a, s, d, "x", text, sizeof text - 1, read_fake, NULL);
            assert_int_equal(diag_errors(d), 1);
            done = 1;
        } else {
            caught++;
        }
        arena_free(a);
        limit += 64;
    }
    assert_true(caught > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(precedence_is_that_of_c),
        cmocka_unit_test(a_decimal_is_read_and_printed_exactly),
        cmocka_unit_test(integers_reach_to_both_notations_limits),
        cmocka_unit_test(an_expression_is_read_to_its_end),
        cmocka_unit_test(spans_cover_what_was_written),
        cmocka_unit_test(imports_start_from_the_importing_file),
        cmocka_unit_test(what_leads_above_the_start_keeps_its_dots),
        cmocka_unit_test(imports_nest_to_a_limit),
        cmocka_unit_test(ten_megabytes_are_read_quickly),
        cmocka_unit_test(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests_name("dsl_parse", tests, NULL, NULL);
}
