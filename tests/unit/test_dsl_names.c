/* The nearest name, for "did you mean". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dsl/dsl.h"

static const char *const words[] = {"pack",  "cast",      "quant", "none",
                                    "ranks", "allreduce", "N",     NULL};

static void one_slip_is_near(void **state) {
    (void)state;
    assert_string_equal(nearest_name("pakc", words), "pack");   /* swapped */
    assert_string_equal(nearest_name("pac", words), "pack");    /* missing */
    assert_string_equal(nearest_name("packk", words), "pack");  /* surplus */
    assert_string_equal(nearest_name("qvant", words), "quant"); /* wrong */
    assert_string_equal(nearest_name("allreduce", words), "allreduce");
}

static void a_long_name_may_have_more_slips(void **state) {
    (void)state;
    assert_string_equal(nearest_name("all_redcue", words), "allreduce");
    assert_string_equal(nearest_name("alreduc", words), "allreduce");
}

static void the_nearest_wins_and_the_first_of_equals(void **state) {
    (void)state;
    const char *const two[] = {"abcdef", "abcdxx", "abcdeg", NULL};
    assert_string_equal(nearest_name("abcdeh", two), "abcdef");
    assert_string_equal(nearest_name("abcdexg", two), "abcdeg");
}

static void what_is_far_is_not_named(void **state) {
    (void)state;
    assert_null(nearest_name("frobnicate", words));
    assert_null(nearest_name("x", words)); /* nothing of "N" is in it */
    assert_null(nearest_name("", words));
    const char *const none[] = {NULL};
    assert_null(nearest_name("pack", none));
}

static void very_long_names_are_left_alone(void **state) {
    (void)state;
    char name[1001];
    for (int i = 0; i < 1000; i++)
        name[i] = 'a';
    name[1000] = '\0';
    const char *const longer[] = {name, "b", NULL};
    assert_null(nearest_name(name, longer));
    assert_null(nearest_name("c", longer));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_slip_is_near),
        cmocka_unit_test(a_long_name_may_have_more_slips),
        cmocka_unit_test(the_nearest_wins_and_the_first_of_equals),
        cmocka_unit_test(what_is_far_is_not_named),
        cmocka_unit_test(very_long_names_are_left_alone),
    };
    return cmocka_run_group_tests_name("dsl_names", tests, NULL, NULL);
}
