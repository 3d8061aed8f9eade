/*
 * delta.c: what changed since the last call, for data that changes little from call to call, such
 * as weights that are synchronised after every step. It is the exclusive or of the bits, so that
 * every bit comes back, and what did not change is zero. It saves nothing itself: a codec that
 * gains by zeros follows.
 *
 *     sent   =  data of this call  xor  data of the call before
 *
 * Both ends remember the data, all zero before the first call.
 */
#include "kernels/bounded.h"
#include "kernels/half.h"

static uint64_t delta_state_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems,
                                  enum codec_side side) {
    (void)s, (void)side;
    return elems * dtype_bytes(t);
}

static void xor_bytes(const uint8_t *a, const uint8_t *b, uint64_t bytes, uint8_t *to) {
    uint64_t i = 0;

    for (; i + 8 <= bytes; i += 8)
        *(any_u64 *)(to + i) = *(const any_u64 *)(a + i) ^ *(const any_u64 *)(b + i);
    for (; i < bytes; i++)
        to[i] = a[i] ^ b[i];
}

static void combine(enum dtype t, const void *from, uint64_t elems, void *to,
                    const struct stage_memory *m) {
    uint64_t bytes = elems * dtype_bytes(t);

    if (m->now != NULL)
        xor_bytes(from, m->now, bytes, to);
    else
        memcpy(to, from, bytes);
}

static void delta_push(const struct codec_stage *s, enum dtype t, const void *src, uint64_t elems,
                       void *to, const struct stage_memory *m) {
    (void)s;
    combine(t, src, elems, to, m);
    if (m->next != NULL)
        memcpy(m->next, src, elems * dtype_bytes(t));
}

static const char *delta_pull(const struct codec_stage *s, enum dtype t, const void *from,
                              uint64_t elems, void *dst, const struct stage_memory *m) {
    (void)s;
    combine(t, from, elems, dst, m);
    if (m->next != NULL)
        memcpy(m->next, dst, elems * dtype_bytes(t));
    return NULL;
}

/* Whole groups for what follows, so that all slices are cut alike with and without it. */
static uint64_t delta_slice_unit(const struct codec_stage *s, enum dtype t) {
    (void)s, (void)t;
    return GROUP_ELEMS;
}

static double delta_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                                double block_max) {
    (void)s, (void)t, (void)abs_value, (void)block_max;
    return 0;
}

const struct codec_ops codec_delta_ops = {
    .slice_unit = delta_slice_unit,
    .error_bound = delta_error_bound,
    .no_picks = "they stand at other places every time",
    .state_bytes = delta_state_bytes,
    .push = delta_push,
    .pull = delta_pull,
};
