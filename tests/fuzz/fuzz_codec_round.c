/*
 * fuzz_codec_round.c: any bytes as elements. A bounded codec gives them back and in a slot that is
 * too small marks the overflow and asks for what it needs; pack makes the same bytes with and
 * without vectors.
 *
 *     byte 0     type (mod 3), codec (the rest, mod their number)
 *     byte 1, 2  how much of the need the second slot has, in 65,536ths
 *     byte 3     how often the elements are repeated, to fill tiles      byte 4...  the elements
 */
#include "kernels/pack_steps.h"
#include "tests/fuzz/fuzz_codec.h"

static const char *const texts[] = {"pack", "lz", "sparse"};

static void run(const char *text, enum dtype t, const uint8_t *src, uint64_t elems,
                uint64_t share) {
    struct codec c;
    uint64_t bytes = elems * dtype_bytes(t), slot_bytes, need, other, less;
    uint8_t *slot, *small, *back = malloc(bytes + 1);
    const char *why;

    check(codec_parse(text, &c, NULL, 0));
    slot_bytes = codec_slot_bytes(&c, t, elems);
    slot = malloc(slot_bytes + 1);
    check(codec_encode(&c, t, src, elems, slot, slot_bytes, &need, NULL) == CODEC_OK);
    check(codec_decode(&c, t, slot, need, elems, back, NULL, &why) == CODEC_OK);
    check(memcmp(back, src, bytes) == 0);
    if (codec_has_header(&c, t, elems)) {
        less = 32 + (need - 32) * share / 65536;
        small = malloc(less);
        check(codec_encode(&c, t, src, elems, small, less, &other, NULL) == CODEC_OVERFLOW);
        check(other == need);
        check(codec_decode(&c, t, small, less, elems, back, NULL, &why) == CODEC_OVERFLOW);
        free(small);
    }
    if (codec_has_header(&c, t, elems) && c.stages[0].kind == CODEC_PACK) {
        small = malloc(need);
        check(pack_encode_with(&pack_steps_plain, t, src, elems, small, need, &other) == CODEC_OK);
        check(other == need && memcmp(small, slot, need) == 0);
        free(small);
    }
    free(slot);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    enum dtype t;
    uint64_t repeats, elems;
    uint8_t *src;

    if (bytes < 4 + 4)
        return 0;
    t = data[0] % 3 == 0 ? DTYPE_BF16 : (data[0] % 3 == 1 ? DTYPE_F16 : DTYPE_F32);
    repeats = 1 + data[3];
    if (repeats * bytes > 100000)
        repeats = 1;
    src = malloc(repeats * (bytes - 4));
    for (uint64_t r = 0; r < repeats; r++)
        memcpy(src + r * (bytes - 4), data + 4, bytes - 4);
    elems = repeats * (bytes - 4) / dtype_bytes(t);
    run(texts[data[0] / 3 % (sizeof texts / sizeof texts[0])], t, src, elems,
        (uint64_t)data[1] | (uint64_t)data[2] << 8);
    free(src);
    return 0;
}
