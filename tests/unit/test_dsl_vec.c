/* Growable arrays: growth, zeroing, the limit that arrays share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dsl/vec.h"

static void pushed_elements_stay(void **state) {
    (void)state;
    VEC(uint64_t) v = {0};
    for (uint64_t i = 0; i < 100000; i++)
        VEC_PUSH(&v, i * i);
    assert_int_equal(v.count, 100000);
    for (uint64_t i = 0; i < v.count; i++)
        assert_int_equal(v.data[i], i * i);
    assert_int_equal(VEC_LAST(&v), 99999ull * 99999ull);
    assert_int_equal(VEC_POP(&v), 99999ull * 99999ull);
    assert_int_equal(v.count, 99999);
    VEC_FREE(&v);
    assert_null(v.data);
    assert_int_equal(v.count, 0);
    VEC_FREE(&v);
}

static void an_element_may_be_pushed_onto_its_own_array(void **state) {
    (void)state;
    VEC(int) v = {0};
    VEC_PUSH(&v, 7);
    for (int i = 0; i < 1000; i++)
        VEC_PUSH(&v, v.data[0]);
    for (size_t i = 0; i < v.count; i++)
        assert_int_equal(v.data[i], 7);
    VEC_FREE(&v);
}

struct pair {
    int a, b;
};

static void added_elements_are_zero(void **state) {
    (void)state;
    VEC(struct pair) v = {0};
    for (int round = 0; round < 2; round++) {
        VEC_PUSH(&v, (struct pair){1, 2});
        struct pair *added = VEC_ADD_N(&v, 500);
        assert_ptr_equal(added, v.data + 1);
        for (size_t i = 1; i < v.count; i++) {
            assert_int_equal(v.data[i].a, 0);
            assert_int_equal(v.data[i].b, 0);
            v.data[i] = (struct pair){3, 4};
        }
        VEC_ADD(&v)->a = 5;
        assert_int_equal(VEC_LAST(&v).b, 0);
        VEC_CLEAR(&v);
    }
    VEC_FREE(&v);
}

struct trap {
    jmp_buf back;
    int calls;
};

static void spring(void *ctx) {
    struct trap *t = ctx;
    t->calls++;
    longjmp(t->back, 1);
}

static void arrays_share_a_limit(void **state) {
    (void)state;
    struct trap trap = {.calls = 0};
    struct vec_guard guard = {.limit_bytes = 1000, .on_out_of_memory = spring, .ctx = &trap};
    VEC(uint32_t) a = {0};
    VEC(uint32_t) b = {0};
    VEC_GUARD(&a, &guard);
    VEC_GUARD(&b, &guard);
    if (setjmp(trap.back) == 0) {
        for (uint32_t i = 0; i < 1000; i++) {
            VEC_PUSH(&a, i);
            VEC_PUSH(&b, i);
        }
        fail_msg("more than the limit was taken");
    }
    assert_int_equal(trap.calls, 1);
    assert_int_equal(guard.held_bytes, (a.capacity + b.capacity) * sizeof(uint32_t));
    assert_in_range(guard.held_bytes, 992,
                    1000); /* to the last element, not to the last doubling */
    VEC_FREE(&a);
    VEC_FREE(&b);
    assert_int_equal(guard.held_bytes, 0);
}

static void a_size_that_overflows_is_out_of_memory(void **state) {
    (void)state;
    struct trap trap = {.calls = 0};
    struct vec_guard guard = {.on_out_of_memory = spring, .ctx = &trap};
    VEC(struct pair) v = {0};
    VEC_GUARD(&v, &guard);
    if (setjmp(trap.back) == 0)
        VEC_RESERVE(&v, SIZE_MAX / sizeof(struct pair) + 2);
    assert_int_equal(trap.calls, 1);
    assert_null(v.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushed_elements_stay),
        cmocka_unit_test(an_element_may_be_pushed_onto_its_own_array),
        cmocka_unit_test(added_elements_are_zero),
        cmocka_unit_test(arrays_share_a_limit),
        cmocka_unit_test(a_size_that_overflows_is_out_of_memory),
    };
    return cmocka_run_group_tests_name("dsl_vec", tests, NULL, NULL);
}
