/*
 * fuzz_codec_fixed.c: any bytes as a slot of none, cast and quant. All of the right length decode;
 * what comes out is encoded and decoded again, which must be legal too and, where f32 is wide
 * enough to hold it, equal.
 *
 *     byte 0     codec        byte 1     type        byte 2...  the slot
 */
#include "kernels/codec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char *const texts[] = {"none",         "cast(bf16)",   "cast(f16)", "cast(e4m3)",
                                    "cast(e5m2)",   "quant(8)",     "quant(4)",  "quant(8, 32)",
                                    "quant(4, 32)", "quant(4, 96)", "quant(6)",  "quant(6, 96)",
                                    "quant(8, 256)"};

/* The most elements whose encoding fits. */
static uint64_t elems_in(const struct codec *c, enum dtype t, uint64_t slot_bytes) {
    uint64_t low = 0, high = 2 * slot_bytes + 1;

    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;

        if (codec_slot_bytes(c, t, middle) <= slot_bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void run(const struct codec *c, enum dtype t, const uint8_t *slot, uint64_t slot_bytes) {
    uint64_t elems = elems_in(c, t, slot_bytes), bytes = elems * dtype_bytes(t);
    uint64_t exact_bytes = codec_slot_bytes(c, t, elems), need;
    uint8_t *first = malloc(bytes + 1), *again = malloc(exact_bytes + 1),
            *second = malloc(bytes + 1);
    const char *why;

    if (codec_decode(c, t, slot, exact_bytes, elems, first, NULL, &why) != CODEC_OK)
        abort();
    if (codec_encode(c, t, first, elems, again, exact_bytes, &need, NULL) != CODEC_OK ||
        need != exact_bytes)
        abort();
    if (codec_decode(c, t, again, exact_bytes, elems, second, NULL, &why) != CODEC_OK)
        abort();
    if (t == DTYPE_F32 && c->stages[0].kind != CODEC_QUANT && memcmp(first, second, bytes) != 0)
        abort();
    if (elems > 0 &&
        codec_decode(c, t, slot, exact_bytes - 1, elems, first, NULL, &why) != CODEC_MALFORMED)
        abort();
    free(second);
    free(again);
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct codec c;
    enum dtype t;

    if (bytes < 2)
        return 0;
    if (!codec_parse(texts[data[0] % (sizeof texts / sizeof texts[0])], &c, NULL, 0))
        abort();
    t = data[1] % 3 == 0 ? DTYPE_BF16 : (data[1] % 3 == 1 ? DTYPE_F16 : DTYPE_F32);
    run(&c, t, data + 2, bytes - 2);
    return 0;
}
