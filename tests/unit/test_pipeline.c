/* The compiler as a whole: stops where it is told, refuses what does not fit the memory it may use,
 * and gives all of it back.
 */
#include "compiler/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char ring[] = "schedule ring(codec wire = pack) {\n"
                           "    collective allreduce;\n"
                           "    inout data[N];\n"
                           "    stage scatter via wire { for s in 0..N-1 { step { for i in 0..N {\n"
                           "        let c = mod(i - s - 1, N);\n"
                           "        reduce data[c]@i -> data[c]@mod(i + 1, N);\n"
                           "    } } } }\n"
                           "    stage gather via wire { for s in 0..N-1 { step { for i in 0..N {\n"
                           "        let c = mod(i - s, N);\n"
                           "        copy data[c]@i -> data[c]@mod(i + 1, N);\n"
                           "    } } } }\n"
                           "}\n";

static struct compile_options options(int32_t ranks) {
    return (struct compile_options){
        .setup = {.ranks = ranks, .nodes = 1, .dtype = DTYPE_BF16, .count = 100000},
        .emit_rank = -1,
    };
}

static struct compilation *compile(const struct compile_options *o) {
    return compile_text("ring.slc", ring, sizeof ring - 1, o);
}

static char *errors(const struct compilation *c) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    diag_print(c->diag, out, false);
    fclose(out);
    return text;
}

static char *printed(const struct compilation *c) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    compilation_print(c, out);
    fclose(out);
    return text;
}

static void test_stops_after_each_pass(void **unused) {
    (void)unused;
    bool seen_tasks = false;
    for (int i = 0; pass_names[i]; i++) {
        struct compile_options o = options(4);
        o.stop_after = pass_names[i];
        struct compilation *c = compile(&o);
        assert_true(compilation_ok(c));
        assert_non_null(c->flow);
        assert_true(!seen_tasks || c->tasks); /* once there are tasks, later passes have them */
        seen_tasks = c->tasks != NULL;
        assert_int_equal(seen_tasks, i >= 3);
        compilation_free(c);
    }
    assert_true(seen_tasks);
}

static void test_proves_what_it_says(void **unused) {
    (void)unused;
    struct compile_options o = options(4);
    o.stop_after = "verify";
    struct compilation *c = compile(&o);
    assert_true(compilation_ok(c));
    assert_int_equal(c->proved.count, 5);
    assert_string_equal(c->proved.data[1].name, "every contribution exactly once");
    assert_string_equal(c->proved.data[1].detail, "4 results, 16 contributions");
    assert_string_equal(c->proved.data[2].name, "replicas identical");
    assert_string_equal(c->proved.data[4].detail, "none");
    compilation_free(c);
    const char *defines[] = {"wire=quant(8)", NULL};
    o.defines = defines;
    c = compile(&o);
    assert_false(compilation_ok(c)); /* the owner of a chunk keeps what it never encoded */
    compilation_free(c);
}

static void test_setup_is_checked(void **unused) {
    (void)unused;
    const int32_t wrong[] = {0, -1, 65537, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct compile_options o = options(wrong[i]);
        struct compilation *c = compile(&o);
        assert_false(compilation_ok(c));
        char *text = errors(c);
        assert_non_null(strstr(text, "ranks: there are between 1 and 65536"));
        free(text);
        compilation_free(c);
    }
}

static void expect_refused(const struct compile_options *o, const char *message) {
    struct compilation *c = compile(o);
    char *text = errors(c);
    assert_string_equal(text, message);
    free(text);
    compilation_free(c);
}

static void test_most_elements_and_slices(void **unused) {
    (void)unused;
    struct compile_options o = options(4);
    o.setup.count = SETUP_MAX_COUNT + 1;
    expect_refused(&o, "error: 1099511627777 elements: there are at most 1099511627776\n");
    o = options(4);
    o.setup.slices = SETUP_MAX_SLICES + 1;
    expect_refused(&o, "error: 1025 slices: there are at most 1024\n");
}

static void test_missing_file(void **unused) {
    (void)unused;
    struct compile_options o = options(4);
    struct compilation *c = compile_file("no/such/file.slc", &o);
    assert_false(compilation_ok(c));
    char *text = errors(c);
    assert_non_null(strstr(text, "cannot read 'no/such/file.slc'"));
    free(text);
    compilation_free(c);
}

/* Whatever the limit, either the whole result or one clear message; a leak is the sanitizer's to
 * find. */
static void test_memory_limits(void **unused) {
    (void)unused;
    int refused = 0, done = 0;
    for (size_t limit = 64 << 10; limit < (size_t)64 << 20; limit += limit / 4) {
        struct compile_options o = options(24);
        o.memory_limit_bytes = limit;
        struct compilation *c = compile(&o);
        assert_non_null(c);
        if (compilation_ok(c)) {
            done++;
        } else {
            assert_int_equal(done, 0); /* more memory never makes it worse */
            assert_int_equal(diag_errors(c->diag), 1);
            char *text = errors(c);
            assert_non_null(strstr(text, "ring.slc: out of memory: this takes more than"));
            free(text);
            refused++;
        }
        compilation_free(c);
    }
    assert_true(refused > 3);
    assert_true(done > 3);
}

static void test_memory_limits_of_opt(void **unused) {
    (void)unused;
    struct compile_options o = options(24);
    o.stop_after = "forward";
    struct compilation *c = compile(&o);
    char *text = printed(c);
    compilation_free(c);
    int refused = 0, done = 0;
    for (size_t limit = 64 << 10; limit < (size_t)64 << 20; limit += limit / 4) {
        struct compile_options limited = {.emit_rank = -1, .memory_limit_bytes = limit};
        c = opt_text("ring.flow", text, strlen(text), "verify,forward", &limited);
        if (compilation_ok(c)) {
            char *again = printed(c);
            assert_string_equal(again, text);
            free(again);
            done++;
        } else {
            refused++;
        }
        compilation_free(c);
    }
    assert_true(refused > 3);
    assert_true(done > 3);
    free(text);
}

/* The node map is the caller's, and may be gone once the compiler is done. */
static void test_node_map_is_copied(void **unused) {
    (void)unused;
    int32_t node_of[4] = {0, 0, 1, 1}, local_of[4] = {0, 1, 0, 1};
    struct compile_options o = options(4);
    o.setup.nodes = 2;
    o.setup.node_of = node_of;
    o.setup.local_of = local_of;
    o.stop_after = "forward";
    struct compilation *c = compile(&o);
    memset(node_of, 0x7f, sizeof node_of);
    memset(local_of, 0x7f, sizeof local_of);
    char *text = printed(c);
    assert_non_null(strstr(text, "node 0, 1\nnode 2, 3\n"));
    free(text);
    compilation_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stops_after_each_pass),
        cmocka_unit_test(test_proves_what_it_says),
        cmocka_unit_test(test_setup_is_checked),
        cmocka_unit_test(test_most_elements_and_slices),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_memory_limits),
        cmocka_unit_test(test_memory_limits_of_opt),
        cmocka_unit_test(test_node_map_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
