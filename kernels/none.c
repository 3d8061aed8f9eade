/*
 * none.c: raw bytes. The piece is copied as it lies in memory; every byte string of the right
 * length is a legal encoding.
 *
 *     slot: elems x sizeof(type) bytes
 */
#include "kernels/codec_ops.h"

#include <string.h>

static uint64_t none_bytes(const struct codec_stage *s, enum dtype t, uint64_t elems) {
    (void)s;
    return elems * dtype_bytes(t);
}

static double none_error_bound(const struct codec_stage *s, enum dtype t, double abs_value,
                               double block_max) {
    (void)s, (void)t, (void)abs_value, (void)block_max;
    return 0;
}

static enum codec_status none_encode(const struct codec_stage *s, enum dtype t, const void *src,
                                     uint64_t elems, void *slot, uint64_t slot_bytes,
                                     uint64_t *need_bytes) {
    (void)slot_bytes;
    *need_bytes = none_bytes(s, t, elems);
    memcpy(slot, src, *need_bytes);
    return CODEC_OK;
}

static enum codec_status none_decode(const struct codec_stage *s, enum dtype t, const void *slot,
                                     uint64_t slot_bytes, uint64_t elems, void *dst,
                                     const char **reason) {
    (void)slot_bytes, (void)reason;
    memcpy(dst, slot, none_bytes(s, t, elems));
    return CODEC_OK;
}

const struct codec_ops codec_none_ops = {
    .error_bound = none_error_bound,
    .worst_bytes = none_bytes,
    .encode = none_encode,
    .decode = none_decode,
};
