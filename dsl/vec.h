/* Growable arrays of fixed-size elements, on malloc: for the compiler's large arrays, where an
 * arena would keep every outgrown copy.
 *
 *     VEC(struct task) tasks = {0};
 *     VEC_PUSH(&tasks, (struct task){.lane = 1});
 *     for (size_t i = 0; i < tasks.count; i++) use(&tasks.data[i]);
 *     VEC_FREE(&tasks);
 *
 * Sizes are checked. When memory is gone the program ends with a message, unless the array has a
 * guard: then the guard's limit holds over all arrays that share it, and its handler is called,
 * which must not return (longjmp). Pointers into `data` die with the next push. / */
#ifndef SLUICE_VEC_H
#define SLUICE_VEC_H

#include <stddef.h>
#include <string.h>

#define VEC(type)                \
    struct {                     \
        type *data;              \
        size_t count, capacity;  \
        struct vec_guard *guard; \
    }

/* The memory of many arrays, watched together. It outlives them. */
struct vec_guard {
    size_t limit_bytes; /* 0: none */
    size_t held_bytes;
    void (*on_out_of_memory)(void *ctx); /* NULL: print and abort */
    void *ctx;
};

/* Before the first push. */
#define VEC_GUARD(v, g) ((void)((v)->guard = (g)))

/* Appends; the value may mention the array's own elements. */
#define VEC_PUSH(v, ...) \
    (VEC_RESERVE(v, 1), (v)->data[(v)->count] = (__VA_ARGS__), (void)(v)->count++)

/* Appends n zeroed elements; yields a pointer to the first. */
#define VEC_ADD_N(v, n)                                                                          \
    ((v)->data =                                                                                 \
         vec_append((v)->data, &(v)->count, &(v)->capacity, (n), sizeof *(v)->data, (v)->guard), \
     (v)->data + ((v)->count - (n)))
#define VEC_ADD(v) VEC_ADD_N(v, 1)

/* Room for n more elements. */
#define VEC_RESERVE(v, n)                                                                          \
    ((void)((v)->data = vec_reserve((v)->data, (v)->count, &(v)->capacity, (n), sizeof *(v)->data, \
                                    (v)->guard)))

#define VEC_LAST(v)  ((v)->data[(v)->count - 1])
#define VEC_POP(v)   ((v)->data[--(v)->count])
#define VEC_CLEAR(v) ((void)((v)->count = 0))
#define VEC_FREE(v)                                                                          \
    (vec_release((v)->data, (v)->capacity, sizeof *(v)->data, (v)->guard), (v)->data = NULL, \
     (void)((v)->count = (v)->capacity = 0))

/* ---- what the macros call ----------------------------------------------------------------- */

void *vec_grow(void *data, size_t count, size_t *capacity, size_t more, size_t elem_bytes,
               struct vec_guard *guard);
void vec_release(void *data, size_t capacity, size_t elem_bytes, struct vec_guard *guard);

static inline void *vec_reserve(void *data, size_t count, size_t *capacity, size_t more,
                                size_t elem_bytes, struct vec_guard *guard) {
    if (more <= *capacity - count)
        return data;
    return vec_grow(data, count, capacity, more, elem_bytes, guard);
}

static inline void *vec_append(void *data, size_t *count, size_t *capacity, size_t more,
                               size_t elem_bytes, struct vec_guard *guard) {
    /* Never NULL, not even for nothing: the macro adds to it. */
    char *grown = vec_reserve(data, *count, capacity, more ? more : 1, elem_bytes, guard);
    if (more)
        memset(grown + *count * elem_bytes, 0, more * elem_bytes);
    *count += more;
    return grown;
}

#endif
