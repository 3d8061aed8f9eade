/*
 * fuzz_codec_text.c: any text as a codec. What is accepted prints, parses back to the same value,
 * and has sizes that fit together.
 */
#include "kernels/codec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1), err[64] = "", canonical[CODEC_TEXT_BYTES];
    struct codec c, again;

    memcpy(text, data, bytes);
    text[bytes] = 0;
    if (!codec_parse(text, &c, err, sizeof err)) {
        if (err[0] == 0)
            abort();
    } else {
        codec_format(&c, canonical, sizeof canonical);
        if (!codec_parse(canonical, &again, err, sizeof err) || !codec_equal(&c, &again))
            abort();
        for (uint64_t elems = 0; elems < 5000; elems += 617)
            if (codec_least_bytes(&c, DTYPE_F32, elems) > codec_slot_bytes(&c, DTYPE_F32, elems) ||
                codec_slot_bytes(&c, DTYPE_F32, elems) > codec_worst_bytes(&c, DTYPE_F32, elems))
                abort();
    }
    codec_nearest(text);
    free(text);
    return 0;
}
