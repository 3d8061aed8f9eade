/* Messages: limits, repetitions, notes that go with their error, the printed forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dsl.h"

struct fixture {
    struct arena *arena;
    struct sources *sources;
    struct diag *diag;
    src_pos at;
    char *printed;
};

static struct fixture make(const char *text) {
    struct fixture f = {.arena = arena_new()};
    f.sources = sources_new(f.arena);
    f.diag = diag_new(f.arena, f.sources);
    f.at = sources_add(f.sources, "a.slc", text, strlen(text));
    return f;
}

static void report(struct fixture *f, enum severity sev, unsigned from, unsigned to,
                   const char *message) {
    diag_report(f->diag, sev, (struct span){f->at + from, f->at + to}, "%s", message);
}

/* Text, or JSON. */
static const char *print(struct fixture *f, bool json) {
    size_t bytes;
    free(f->printed);
    FILE *out = open_memstream(&f->printed, &bytes);
    if (json)
        diag_print_json(f->diag, 0, out);
    else
        diag_print(f->diag, out, false);
    fclose(out);
    return f->printed;
}

static void drop(struct fixture *f) {
    free(f->printed);
    arena_free(f->arena);
}

static unsigned count(const char *text, const char *what) {
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

static void a_message_shows_its_place(void **state) {
    (void)state;
    struct fixture f = make("let a = 1;\nlet b = a + c;\n");
    report(&f, SEV_ERROR, 23, 24, "unknown name 'c'");
    report(&f, SEV_NOTE, 4, 5, "there is 'a'");
    report(&f, SEV_WARNING, 15, 24, "odd");
    assert_string_equal(print(&f, false), "a.slc:2:13: error: unknown name 'c'\n"
                                          "let b = a + c;\n"
                                          "            ^\n"
                                          "a.slc:1:5: note: there is 'a'\n"
                                          "let a = 1;\n"
                                          "    ^\n"
                                          "a.slc:2:5: warning: odd\n"
                                          "let b = a + c;\n"
                                          "    ^~~~~~~~~\n");
    assert_int_equal(diag_errors(f.diag), 1);
    drop(&f);
}

static void a_message_may_have_no_place(void **state) {
    (void)state;
    struct fixture f = make("");
    diag_report(f.diag, SEV_ERROR, (struct span){0, 0}, "there is no schedule '%s'", "x");
    assert_string_equal(print(&f, false), "error: there is no schedule 'x'\n");
    assert_string_equal(print(&f, true), "[\n  {\"severity\": \"error\", \"message\": "
                                         "\"there is no schedule 'x'\", \"notes\": []}\n]");
    drop(&f);
}

static void a_span_over_lines_is_marked_on_its_first(void **state) {
    (void)state;
    struct fixture f = make("step {\n}\n");
    report(&f, SEV_ERROR, 0, 8, "empty");
    assert_string_equal(print(&f, false), "a.slc:1:1: error: empty\nstep {\n^~~~~~\n");
    drop(&f);
}

static void at_most_twenty_errors_are_kept_and_all_counted(void **state) {
    (void)state;
    struct fixture f = make("a b c d e f g h i j k l m n o p q r s t u v w x y z");
    for (unsigned i = 0; i < 25; i++) {
        assert_int_equal(diag_full(f.diag), i >= 20);
        report(&f, SEV_ERROR, 2 * i, 2 * i + 1, "no");
        report(&f, SEV_NOTE, 0, 1, "why");
    }
    assert_int_equal(diag_errors(f.diag), 25);
    const char *text = print(&f, false);
    assert_int_equal(count(text, "error: no\n"), 20);
    assert_int_equal(count(text, "note: why\n"), 20); /* a note goes with its error */
    assert_non_null(strstr(text, "\n5 more errors not shown\n"));
    drop(&f);
}

static void the_same_message_at_the_same_place_is_said_once(void **state) {
    (void)state;
    struct fixture f = make("ab");
    for (int i = 0; i < 100; i++) {
        report(&f, SEV_ERROR, 0, 1, "no");
        report(&f, SEV_NOTE, 0, 1, "with i = 0");
    }
    report(&f, SEV_ERROR, 1, 2, "no");
    report(&f, SEV_ERROR, 0, 1, "not either");
    assert_int_equal(diag_errors(f.diag), 3);
    const char *text = print(&f, false);
    assert_int_equal(count(text, "error:"), 3);
    assert_int_equal(count(text, "note:"), 1);
    drop(&f);
}

static void warnings_and_notes_are_bounded_too(void **state) {
    (void)state;
    struct fixture f = make("abc");
    for (int i = 0; i < 10000; i++)
        diag_report(f.diag, SEV_WARNING, (struct span){f.at, f.at + 1}, "odd %d", i);
    report(&f, SEV_ERROR, 0, 1, "no");
    for (int i = 0; i < 10000; i++)
        report(&f, SEV_NOTE, 0, 1, "why");
    const char *text = print(&f, false);
    assert_in_range(count(text, "warning:"), 1, 100);
    assert_in_range(count(text, "note:"), 1, 100);
    assert_int_equal(diag_errors(f.diag), 1);
    drop(&f);
}

static void json_escapes_what_it_must(void **state) {
    (void)state;
    struct fixture f = make("a\xC3\xA9 b\n");
    report(&f, SEV_ERROR, 4, 5, "say \"\\\x01\n\x7F\xC3\xA9\xFF\"");
    report(&f, SEV_NOTE, 0, 1, "first");
    report(&f, SEV_NOTE, 4, 5, "second");
    const char *place = "\"line\": 1, \"column\": 4, \"end_line\": 1, \"end_column\": 5, ";
    char *wanted = arena_printf(
        f.arena,
        "[\n  {\"severity\": \"error\", \"file\": \"a.slc\", %s"
        "\"message\": \"say \\\"\\\\\\u0001\\u000a\\u007f\xC3\xA9\\ufffd\\\"\", \"notes\": ["
        "\n    {\"severity\": \"note\", \"file\": \"a.slc\", \"line\": 1, \"column\": 1, "
        "\"end_line\": 1, \"end_column\": 2, \"message\": \"first\"},"
        "\n    {\"severity\": \"note\", \"file\": \"a.slc\", %s\"message\": \"second\"}\n  ]}\n]",
        place, place);
    assert_string_equal(print(&f, true), wanted);
    drop(&f);
    f = make("");
    assert_string_equal(print(&f, true), "[]");
    drop(&f);
}

static void a_huge_line_is_cut(void **state) {
    (void)state;
    enum { HUGE = 1 << 20 };
    char *text = calloc(HUGE + 1, 1);
    memset(text, 'x', HUGE);
    struct fixture f = make(text);
    report(&f, SEV_ERROR, HUGE / 2, HUGE, "here");
    report(&f, SEV_ERROR, HUGE, HUGE, "at the end");
    assert_true(strlen(print(&f, false)) < 2000);
    drop(&f);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_shows_its_place),
        cmocka_unit_test(a_message_may_have_no_place),
        cmocka_unit_test(a_span_over_lines_is_marked_on_its_first),
        cmocka_unit_test(at_most_twenty_errors_are_kept_and_all_counted),
        cmocka_unit_test(the_same_message_at_the_same_place_is_said_once),
        cmocka_unit_test(warnings_and_notes_are_bounded_too),
        cmocka_unit_test(json_escapes_what_it_must),
        cmocka_unit_test(a_huge_line_is_cut),
    };
    return cmocka_run_group_tests_name("dsl_diag", tests, NULL, NULL);
}
