/*
 * fuzz_codec.h: what the fuzz targets of codecs share.
 */
#ifndef SLUICE_FUZZ_CODEC_H
#define SLUICE_FUZZ_CODEC_H

#include <stdlib.h>
#include <string.h>

#include "kernels/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static inline void check(bool holds) {
    if (!holds)
        abort();
}

/* What a lossless decoder accepted is encoded again, and comes back. */
static inline void check_encodes_again(const struct codec *c, enum dtype t, const uint8_t *src,
                                       uint64_t elems) {
    uint64_t slot_bytes = codec_slot_bytes(c, t, elems), bytes = elems * dtype_bytes(t), need;
    uint8_t *slot = malloc(slot_bytes), *back = malloc(bytes);
    const char *why;

    check(codec_encode(c, t, src, elems, slot, slot_bytes, &need, NULL) == CODEC_OK);
    check(codec_decode(c, t, slot, need, elems, back, NULL, &why) == CODEC_OK);
    check(memcmp(back, src, bytes) == 0);
    free(back);
    free(slot);
}

#endif
