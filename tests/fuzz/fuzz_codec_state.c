/*
 * fuzz_codec_state.c: codecs with state. Any bytes as a slot decode to something or are refused,
 * and any bytes as elements, call after call, come through: lossless ones give back every bit, and
 * all decode to the same without the call that did not count.
 *
 *     byte 0     codec (mod their number), type (the rest, mod 3)
 *     byte 1     how often the elements are repeated       byte 2...  the slot; the elements
 */
#include "tests/fuzz/fuzz_codec.h"

static const char *const texts[] = {"delta | pack",
                                    "delta | sparse",
                                    "delta | lz",
                                    "delta",
                                    "cast(bf16) | delta | pack",
                                    "topk(0.1)",
                                    "topk(0.5) | pack",
                                    "quant(8, 32, stochastic)",
                                    "quant(6, 96, stochastic)",
                                    "quant(4, 256, stochastic)"};

struct call {
    struct codec c;
    enum dtype t;
    uint64_t elems, slot_bytes;
    uint8_t *now[2], *next[2], *slot, *back, *scratch;
};

static void make_call(struct call *k) {
    for (int side = 0; side < 2; side++) {
        uint64_t state_bytes = codec_state_bytes(&k->c, k->t, k->elems, (enum codec_side)side);

        k->now[side] = malloc(state_bytes + 1);
        k->next[side] = malloc(state_bytes + 1);
        codec_state_init(&k->c, k->t, k->elems, (enum codec_side)side, 5, k->now[side]);
    }
    k->slot_bytes = codec_slot_bytes(&k->c, k->t, k->elems);
    k->slot = calloc(k->slot_bytes + 1, 1);
    k->back = malloc(k->elems * dtype_bytes(k->t) + 1);
    k->scratch = malloc(codec_scratch_bytes(&k->c, k->t, k->elems) + 1);
}

static void free_call(struct call *k) {
    for (int side = 0; side < 2; side++) {
        free(k->now[side]);
        free(k->next[side]);
    }
    free(k->slot);
    free(k->back);
    free(k->scratch);
}

static void try(struct call *k, const uint8_t *src) {
    struct codec_state from = {k->now[0], k->next[0], 0}, to = {k->now[1], k->next[1], 0};
    uint64_t need;
    const char *why;

    check(codec_encode_next(&k->c, k->t, src, k->elems, k->slot, k->slot_bytes, &need, k->scratch,
                            &from) == CODEC_OK);
    check(need <= k->slot_bytes);
    check(codec_decode_next(&k->c, k->t, k->slot, k->slot_bytes, k->elems, k->back, k->scratch,
                            &why, &to) == CODEC_OK);
    if (codec_is_lossless(&k->c, k->t))
        check(memcmp(k->back, src, k->elems * dtype_bytes(k->t)) == 0);
}

static void commit(struct call *k) {
    for (int side = 0; side < 2; side++) {
        uint8_t *was = k->now[side];

        k->now[side] = k->next[side];
        k->next[side] = was;
    }
}

static void any_slot(struct call *k, const uint8_t *data, uint64_t bytes) {
    struct codec_state to = {k->now[1], k->next[1], 0};
    const char *why;
    enum codec_status status;

    memcpy(k->slot, data, bytes < k->slot_bytes ? bytes : k->slot_bytes);
    status = codec_decode_next(&k->c, k->t, k->slot, k->slot_bytes, k->elems, k->back, k->scratch,
                               &why, &to);
    check((status == CODEC_MALFORMED) == (why != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct call k = {.elems = 0};
    uint64_t repeats, one;
    uint8_t *src, *again;

    if (bytes < 2 + 4)
        return 0;
    check(codec_parse(texts[data[0] % (sizeof texts / sizeof texts[0])], &k.c, NULL, 0));
    k.t = data[0] / 10 % 3 == 0 ? DTYPE_BF16 : (data[0] / 10 % 3 == 1 ? DTYPE_F16 : DTYPE_F32);
    one = bytes - 2;
    repeats = (1 + (uint64_t)data[1]) * bytes > 50000 ? 1 : 1 + (uint64_t)data[1];
    src = malloc(repeats * one);
    for (uint64_t r = 0; r < repeats; r++)
        memcpy(src + r * one, data + 2, one);
    k.elems = repeats * one / dtype_bytes(k.t);
    make_call(&k);
    any_slot(&k, data + 2, one);
    try(&k, src);
    commit(&k);
    src[0] ^= 1;
    try(&k, src);
    again = malloc(k.elems * dtype_bytes(k.t));
    memcpy(again, k.back, k.elems * dtype_bytes(k.t));
    try(&k, src); /* the one before did not count */
    check(memcmp(again, k.back, k.elems * dtype_bytes(k.t)) == 0);
    free(again);
    free(src);
    free_call(&k);
    return 0;
}
