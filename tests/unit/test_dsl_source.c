/* Positions: files in one space, lines and columns, and what cannot be located. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "dsl/dsl.h"

static void expect(const struct sources *s, src_pos pos, const char *file, uint32_t line,
                   uint32_t column) {
    struct location l = sources_locate(s, pos);
    assert_string_equal(l.file, file);
    assert_int_equal(l.line, line);
    assert_int_equal(l.column, column);
}

static src_pos add(struct sources *s, const char *name, const char *text) {
    return sources_add(s, name, text, strlen(text));
}

static void lines_and_columns_count_from_one(void **state) {
    (void)state;
    struct arena *a = arena_new();
    struct sources *s = sources_new(a);
    src_pos p = add(s, "a.slc", "one\n\n  three");
    expect(s, p, "a.slc", 1, 1);
    expect(s, p + 2, "a.slc", 1, 3);
    expect(s, p + 3, "a.slc", 1, 4); /* the line end belongs to its line */
    expect(s, p + 4, "a.slc", 2, 1);
    expect(s, p + 5, "a.slc", 3, 1);
    expect(s, p + 7, "a.slc", 3, 3);
    expect(s, p + 12, "a.slc", 3, 8); /* the end of the file */
    arena_free(a);
}

static void columns_count_characters_not_bytes(void **state) {
    (void)state;
    struct arena *a = arena_new();
    struct sources *s = sources_new(a);
    src_pos p = add(s, "a.slc", "\t\xC3\xA9\xE6\x97\xA5\xF0\x9F\x99\x82|");
    expect(s, p + 1, "a.slc", 1, 2); /* a tab is one */
    expect(s, p + 3, "a.slc", 1, 3);
    expect(s, p + 6, "a.slc", 1, 4);
    expect(s, p + 10, "a.slc", 1, 5);
    arena_free(a);
}

static void each_position_belongs_to_one_file(void **state) {
    (void)state;
    struct arena *a = arena_new();
    struct sources *s = sources_new(a);
    src_pos first = add(s, "first", "ab\ncd");
    src_pos empty = add(s, "empty", "");
    src_pos last = add(s, "last", "ef");
    expect(s, first + 5, "first", 2, 3);
    expect(s, empty, "empty", 1, 1);
    expect(s, last, "last", 1, 1);
    expect(s, last + 2, "last", 1, 3);
    expect(s, first + 3, "first", 2, 1); /* again, after others */
    size_t bytes;
    assert_memory_equal(sources_text(s, last + 1, &bytes), "ef", 3);
    assert_int_equal(bytes, 2);
    assert_int_equal(sources_base(s, last + 2), last);
    arena_free(a);
}

static void no_position_has_no_file(void **state) {
    (void)state;
    struct arena *a = arena_new();
    struct sources *s = sources_new(a);
    expect(s, 0, "", 0, 0);
    src_pos p = add(s, "a", "xyz");
    expect(s, p + 4, "", 0, 0);
    expect(s, UINT32_MAX, "", 0, 0);
    size_t bytes = 1;
    assert_null(sources_text(s, 0, &bytes));
    assert_int_equal(bytes, 0);
    arena_free(a);
}

static void text_and_name_are_copied(void **state) {
    (void)state;
    struct arena *a = arena_new();
    struct sources *s = sources_new(a);
    char text[] = "x\ny", name[] = "name";
    src_pos p = add(s, name, text);
    text[1] = ' ';
    name[0] = 'N';
    expect(s, p + 2, "name", 2, 1);
    arena_free(a);
}

static void more_than_the_position_space_is_refused(void **state) {
    (void)state;
    struct arena *a = arena_new();
    struct sources *s = sources_new(a);
    assert_int_equal(sources_add(s, "huge", "", (size_t)2 << 30), 0);
    assert_int_not_equal(add(s, "small", "x"), 0);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_columns_count_from_one),
        cmocka_unit_test(columns_count_characters_not_bytes),
        cmocka_unit_test(each_position_belongs_to_one_file),
        cmocka_unit_test(no_position_has_no_file),
        cmocka_unit_test(text_and_name_are_copied),
        cmocka_unit_test(more_than_the_position_space_is_refused),
    };
    return cmocka_run_group_tests_name("dsl_source", tests, NULL, NULL);
}
