/* Growth of the arrays in vec.h: doubling, checked sizes, one limit and one failure handler a thread. */
#include "dsl/vec.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local struct vec_guard current_guard;
static _Thread_local size_t held_bytes, held_bytes_at_guard;

struct vec_guard vec_set_guard(struct vec_guard guard)
{
    struct vec_guard before = current_guard;
    current_guard = guard;
    held_bytes_at_guard = held_bytes;
    return before;
}

size_t vec_bytes(void)
{
    return held_bytes;
}

static void out_of_memory(void)
{
    if (current_guard.on_out_of_memory)
        current_guard.on_out_of_memory(current_guard.ctx);
    fprintf(stderr, "sluice: out of memory\n");
    abort();
}

/* Whether the arrays may come to hold `bytes` in all. An array older than the guard may have been freed since, so
 * what counts is growth beyond what was held when the guard was set. */
static int within_limit(size_t bytes)
{
    if (!current_guard.limit_bytes || bytes <= held_bytes_at_guard)
        return 1;
    return bytes - held_bytes_at_guard <= current_guard.limit_bytes;
}

void *vec_grow(void *data, size_t count, size_t *capacity, size_t more, size_t elem_bytes)
{
    if (more > SIZE_MAX / 4 / elem_bytes || count > SIZE_MAX / 4 / elem_bytes)
        out_of_memory();
    size_t wanted = count + more;
    size_t doubled = *capacity < 8 ? 8 : 2 * *capacity;
    size_t grown = wanted > doubled ? wanted : doubled;
    size_t others = held_bytes - *capacity * elem_bytes;
    if (!within_limit(others + grown * elem_bytes))
        grown = wanted; /* the last stretch before the limit is taken without slack */
    if (!within_limit(others + grown * elem_bytes))
        out_of_memory();
    void *moved = realloc(data, grown * elem_bytes);
    if (!moved)
        out_of_memory();
    held_bytes = others + grown * elem_bytes;
    *capacity = grown;
    return moved;
}

void vec_release(void *data, size_t capacity, size_t elem_bytes)
{
    /* An array may be freed by another thread than the one that grew it. */
    size_t bytes = capacity * elem_bytes;
    held_bytes = held_bytes > bytes ? held_bytes - bytes : 0;
    free(data);
}
