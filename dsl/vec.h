/* Growable arrays of fixed-size elements, on malloc: for the compiler's large arrays, where an arena would keep
 * every outgrown copy.
 *
 *     VEC(struct task) tasks = {0};
 *     VEC_PUSH(&tasks, (struct task){.lane = 1});
 *     for (size_t i = 0; i < tasks.count; i++) use(&tasks.data[i]);
 *     VEC_FREE(&tasks);
 *
 * Sizes are checked. When memory is gone, or the limit given to vec_set_guard, the guard's handler is called; it must
 * not return (longjmp). Without a handler the program ends with a message. Pointers into `data` die with the next push.
 */
#ifndef SLUICE_VEC_H
#define SLUICE_VEC_H

#include <stddef.h>
#include <string.h>

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *data;                                                                                \
        size_t count, capacity;                                                                    \
    }

/* Appends; the value may mention the array's own elements. */
#define VEC_PUSH(v, ...) (VEC_RESERVE(v, 1), (v)->data[(v)->count] = (__VA_ARGS__), (void)(v)->count++)

/* Appends n zeroed elements; yields a pointer to the first. */
#define VEC_ADD_N(v, n)                                                                            \
    ((v)->data = vec_append((v)->data, &(v)->count, &(v)->capacity, (n), sizeof *(v)->data),       \
     (v)->data + ((v)->count - (n)))
#define VEC_ADD(v) VEC_ADD_N(v, 1)

/* Room for n more elements. */
#define VEC_RESERVE(v, n)                                                                          \
    ((void)((v)->data = vec_reserve((v)->data, (v)->count, &(v)->capacity, (n), sizeof *(v)->data)))

#define VEC_LAST(v) ((v)->data[(v)->count - 1])
#define VEC_POP(v) ((v)->data[--(v)->count])
#define VEC_CLEAR(v) ((void)((v)->count = 0))
#define VEC_FREE(v)                                                                                \
    (vec_release((v)->data, (v)->capacity, sizeof *(v)->data), (v)->data = NULL,                   \
     (void)((v)->count = (v)->capacity = 0))

/* What happens when arrays of this thread outgrow the memory. The one piece of state, and it is per thread: a
 * compilation sets it at its start and puts the old one back at its end. */
struct vec_guard {
    void (*on_out_of_memory)(void *ctx); /* NULL: print and abort */
    void *ctx;
    size_t limit_bytes; /* of all arrays of this thread from now on; 0: none */
};
struct vec_guard vec_set_guard(struct vec_guard guard); /* returns the one before */
size_t vec_bytes(void);                                 /* held by this thread's arrays now */

/* ---- what the macros call ----------------------------------------------------------------- */

void *vec_grow(void *data, size_t count, size_t *capacity, size_t more, size_t elem_bytes);
void vec_release(void *data, size_t capacity, size_t elem_bytes);

static inline void *vec_reserve(void *data, size_t count, size_t *capacity, size_t more,
                                size_t elem_bytes)
{
    if (more <= *capacity - count)
        return data;
    return vec_grow(data, count, capacity, more, elem_bytes);
}

static inline void *vec_append(void *data, size_t *count, size_t *capacity, size_t more,
                               size_t elem_bytes)
{
    char *grown = vec_reserve(data, *count, capacity, more, elem_bytes);
    if (more)
        memset(grown + *count * elem_bytes, 0, more * elem_bytes);
    *count += more;
    return grown;
}

#endif
