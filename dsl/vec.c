/* Growth of the arrays in vec.h: doubling, checked sizes, limits kept by the guard. */
#include "dsl/vec.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void out_of_memory(const struct vec_guard *guard) {
    if (guard && guard->on_out_of_memory)
        guard->on_out_of_memory(guard->ctx);
    fprintf(stderr, "sluice: out of memory\n");
    abort();
}

static int within_limit(const struct vec_guard *guard, size_t before, size_t after) {
    if (!guard || !guard->limit_bytes)
        return 1;
    return guard->held_bytes - before + after <= guard->limit_bytes;
}

void *vec_grow(void *data, size_t count, size_t *capacity, size_t more, size_t elem_bytes,
               struct vec_guard *guard) {
    size_t most = SIZE_MAX / 4 / elem_bytes;
    if (more > most || count > most - more)
        out_of_memory(guard);
    size_t wanted = count + more, before = *capacity * elem_bytes;
    size_t doubled = *capacity < 8 ? 8 : 2 * *capacity;
    size_t grown = wanted > doubled ? wanted : doubled;
    if (!within_limit(guard, before, grown * elem_bytes))
        grown = wanted; /* the last stretch before the limit is taken without slack */
    if (!within_limit(guard, before, grown * elem_bytes))
        out_of_memory(guard);
    void *moved = realloc(data, grown * elem_bytes);
    if (!moved)
        out_of_memory(guard);
    if (guard)
        guard->held_bytes += grown * elem_bytes - before;
    *capacity = grown;
    return moved;
}

void vec_release(void *data, size_t capacity, size_t elem_bytes, struct vec_guard *guard) {
    if (guard)
        guard->held_bytes -= capacity * elem_bytes;
    free(data);
}
