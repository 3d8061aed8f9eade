/* The arena: bump allocation in growing blocks, zeroed, freed all at once. Large requests get a
 * block of their own, so that they do not waste the rest of the current one. */
#include "dsl/dsl.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARENA_ALIGN = 16,
    FIRST_BLOCK_BYTES = 16 << 10,
    LAST_BLOCK_BYTES = 4 << 20, /* blocks double up to this */
};

struct block {
    struct block *next;
    size_t size; /* of what follows the header */
    _Alignas(ARENA_ALIGN) unsigned char bytes[];
};

struct arena {
    struct block *blocks; /* all, for freeing; the first is the current one */
    size_t used;          /* in the current block */
    size_t next_block_bytes;
    size_t handed_out;
    size_t limit; /* 0: none */
    void (*on_out_of_memory)(void *ctx);
    void *ctx;
};

struct arena *arena_new(void) {
    struct arena *a = calloc(1, sizeof *a);
    if (a)
        a->next_block_bytes = FIRST_BLOCK_BYTES;
    return a;
}

void arena_free(struct arena *a) {
    if (!a)
        return;
    for (struct block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(a);
}

void arena_set_limit(struct arena *a, size_t bytes, void (*on_out_of_memory)(void *ctx),
                     void *ctx) {
    a->limit = bytes;
    a->on_out_of_memory = on_out_of_memory;
    a->ctx = ctx;
}

static void out_of_memory(struct arena *a) {
    void (*handler)(void *) = a->on_out_of_memory;
    a->on_out_of_memory =
        NULL; /* once: the handler may still want a little memory for its message */
    a->limit = 0;
    if (handler)
        handler(a->ctx);
    fprintf(stderr, "sluice: out of memory\n");
    abort();
}

static struct block *block_new(struct arena *a, size_t size) {
    struct block *b = calloc(1, sizeof *b + size);
    if (!b)
        out_of_memory(a);
    b->size = size;
    return b;
}

void *arena_alloc(struct arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 4)
        out_of_memory(a);
    bytes = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (a->limit && (bytes > a->limit || a->handed_out > a->limit - bytes))
        out_of_memory(a);
    if (a->blocks && bytes <= a->blocks->size - a->used) {
        void *p = a->blocks->bytes + a->used;
        a->used += bytes;
        a->handed_out += bytes;
        return p;
    }
    if (bytes > a->next_block_bytes / 4 && a->blocks) {
        /* Behind the current block, which goes on being filled. */
        struct block *b = block_new(a, bytes);
        b->next = a->blocks->next;
        a->blocks->next = b;
        a->handed_out += bytes;
        return b->bytes;
    }
    size_t size = bytes > a->next_block_bytes ? bytes : a->next_block_bytes;
    struct block *b = block_new(a, size);
    b->next = a->blocks;
    a->blocks = b;
    a->used = bytes;
    a->handed_out += bytes;
    if (a->next_block_bytes < LAST_BLOCK_BYTES)
        a->next_block_bytes *= 2;
    return b->bytes;
}

void *arena_array(struct arena *a, size_t count, size_t elem_bytes) {
    if (elem_bytes && count > SIZE_MAX / 4 / elem_bytes)
        out_of_memory(a);
    return arena_alloc(a, count * elem_bytes);
}

char *arena_strndup(struct arena *a, const char *s, size_t n) {
    char *copy = arena_alloc(a, n + 1);
    memcpy(copy, s, n);
    return copy;
}

char *arena_printf(struct arena *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(a, format, args);
    va_end(args);
    return text;
}

char *arena_vprintf(struct arena *a, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0)
        return arena_strndup(a, "", 0);
    char *text = arena_alloc(a, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, args);
    return text;
}

size_t arena_bytes(const struct arena *a) {
    return a->handed_out;
}
