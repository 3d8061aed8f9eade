/* The arena: alignment, zeroes, large blocks, the limit and its handler, printing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "dsl/dsl.h"

static void memory_is_zeroed_and_aligned(void **state) {
    (void)state;
    struct arena *a = arena_new();
    assert_non_null(a);
    for (size_t bytes = 0; bytes < 300; bytes++) {
        unsigned char *p = arena_alloc(a, bytes);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xAA, bytes);
    }
    arena_free(a);
}

/* Blocks of all sizes, each filled with a mark of its own: none overlaps another. */
static void blocks_do_not_overlap(void **state) {
    (void)state;
    enum { BLOCKS = 2000 };
    struct arena *a = arena_new();
    unsigned char *block[BLOCKS];
    size_t size[BLOCKS];
    uint32_t random = 1;
    for (size_t i = 0; i < BLOCKS; i++) {
        random = random * 1664525u + 1013904223u;
        size[i] = i % 100 == 99 ? random >> 12 : random >> 24; /* up to 1 MiB, now and then */
        block[i] = arena_alloc(a, size[i]);
        memset(block[i], (int)(i % 251), size[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        for (size_t k = 0; k < size[i]; k++)
            assert_int_equal(block[i][k], i % 251);
    arena_free(a);
}

static void a_large_block_does_not_waste_the_current_one(void **state) {
    (void)state;
    struct arena *a = arena_new();
    char *before = arena_alloc(a, 16);
    arena_alloc(a, 1 << 20);
    char *after = arena_alloc(a, 16);
    assert_ptr_equal(after, before + 16);
    arena_free(a);
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

static void the_limit_calls_the_handler(void **state) {
    (void)state;
    struct arena *a = arena_new();
    struct trap trap = {.calls = 0};
    arena_set_limit(a, 1000, spring, &trap);
    if (setjmp(trap.back) == 0) {
        for (int i = 0; i < 1000; i++)
            arena_alloc(a, 16);
        fail_msg("more than the limit was handed out");
    }
    assert_int_equal(trap.calls, 1);
    assert_in_range(arena_bytes(a), 984, 1000);
    arena_alloc(a, 100); /* the handler's message may still take memory */
    arena_free(a);
}

static void sizes_that_overflow_are_out_of_memory(void **state) {
    (void)state;
    struct arena *a = arena_new();
    volatile int caught = 0;
    struct trap trap = {.calls = 0};
    arena_set_limit(a, 0, spring, &trap);
    if (setjmp(trap.back) == 0)
        arena_array(a, SIZE_MAX / 8, 16);
    else
        caught++;
    arena_set_limit(a, 0, spring, &trap);
    if (setjmp(trap.back) == 0)
        arena_alloc(a, SIZE_MAX - 4);
    else
        caught++;
    assert_int_equal(caught, 2);
    arena_free(a);
}

static void text_is_printed_and_copied(void **state) {
    (void)state;
    struct arena *a = arena_new();
    assert_string_equal(arena_printf(a, "%s[%d]@%d", "data", 3, 7), "data[3]@7");
    char *long_text = arena_printf(a, "%100000d", 1);
    assert_int_equal(strlen(long_text), 100000);
    assert_string_equal(arena_strndup(a, "chunks", 5), "chunk");
    assert_string_equal(arena_strndup(a, "", 0), "");
    arena_free(a);
    arena_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(a_large_block_does_not_waste_the_current_one),
        cmocka_unit_test(the_limit_calls_the_handler),
        cmocka_unit_test(sizes_that_overflow_are_out_of_memory),
        cmocka_unit_test(text_is_printed_and_copied),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
