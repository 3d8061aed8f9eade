/*
 * test_gpu_state.c: codecs that remember something, on the GPU: `delta`, `topk`, stochastic `quant`
 * and their compositions. Call after call they make the bytes of the C reference, decode to its
 * elements and leave its state, and what they were given as state stays as it was, so that a call
 * can be made again.
 */
#include "tests/gpu/gpu_test.h"

static const enum dtype narrow[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};

static const char *const texts[] = {
    "delta",
    "delta | lz",
    "delta | sparse",
    "delta | pack",
    "cast(bf16) | delta | lz",
    "cast(f16) | delta | pack",
    "topk(0.01)",
    "topk(0.3)",
    "topk(1)",
    "topk(0.05) | pack",
    "topk(0.3) | pack",
    "quant(8, 64, stochastic)",
    "quant(8, 96, stochastic)",
    "quant(6, 32, stochastic)",
    "quant(6, 160, stochastic)",
    "quant(4, 256, stochastic)",
    "quant(4, 224, stochastic)",
};

/* One end of a connection, on both sides; state[call % 2] is what the call reads. */
struct end {
    enum codec_side side;
    uint64_t bytes;
    unsigned char *state[2];
    struct guarded dev[2];
};

static struct end end_open(const struct codec *c, enum dtype t, uint64_t elems,
                           enum codec_side side) {
    struct end e = {.side = side, .bytes = codec_state_bytes(c, t, elems, side)};

    for (int i = 0; i < 2; i++) {
        e.state[i] = host_alloc(e.bytes);
        e.dev[i] = guarded_alloc(e.bytes, 0);
    }
    codec_state_init(c, t, elems, side, 12345, e.state[0]);
    to_dev(e.dev[0].dev, e.state[0], e.bytes);
    return e;
}

static void end_close(struct end *e) {
    for (int i = 0; i < 2; i++) {
        free(e->state[i]);
        guarded_free(&e->dev[i]);
    }
}

static struct codec_state state_of(const struct end *e, int call) {
    return (struct codec_state){e->state[call % 2], e->state[(call + 1) % 2], 8192 * 7};
}

static struct gpu_state dev_state_of(const struct end *e, int call) {
    return (struct gpu_state){e->dev[call % 2].dev, e->dev[(call + 1) % 2].dev, 8192 * 7};
}

/* Both states are those of the reference. */
static void check_end(struct gpu_test *g, const struct end *e, int call, const char *text) {
    void *got = host_alloc(e->bytes);

    for (int i = 0; i < 2; i++) {
        to_host(got, e->dev[(call + i) % 2].dev, e->bytes);
        same(g, got, e->state[(call + i) % 2], e->bytes, i == 0 ? "state" : "next state", text);
        check(g, guard_intact(&e->dev[i]), "%s: bytes beside a state", text);
    }
    free(got);
}

/* ---- encoding and decoding, call after call ---- */

struct trip {
    const struct codec *c;
    enum dtype t;
    uint64_t elems, bytes, worst;
    struct end encoder, decoder;
    struct guarded src, slot, dst;
    void *scratch;
    unsigned char *want, *got;
};

static struct trip trip_open(const struct codec *c, enum dtype t, uint64_t elems, uint64_t shift) {
    struct trip r = {.c = c, .t = t, .elems = elems, .bytes = elems * dtype_bytes(t)};

    r.worst = codec_worst_bytes(c, t, elems);
    r.encoder = end_open(c, t, elems, CODEC_ENCODER);
    r.decoder = end_open(c, t, elems, CODEC_DECODER);
    r.src = guarded_alloc(r.bytes, shift * dtype_bytes(t));
    r.dst = guarded_alloc(r.bytes, shift * dtype_bytes(t));
    r.slot = guarded_alloc(r.worst, 0);
    r.scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    r.want = host_alloc(r.worst + r.bytes);
    r.got = host_alloc(r.worst + r.bytes);
    return r;
}

static void trip_close(struct trip *r) {
    end_close(&r->encoder);
    end_close(&r->decoder);
    guarded_free(&r->src);
    guarded_free(&r->dst);
    guarded_free(&r->slot);
    free(r->scratch);
    free(r->want);
    free(r->got);
}

static void check_call(struct gpu_test *g, struct trip *r, int call, const void *src,
                       const char *text) {
    struct codec_state state = state_of(&r->encoder, call);
    struct gpu_extra extra = {.scratch_dev = scratch_of(g, gpu_scratch_bytes(r->c, r->t, r->elems)),
                              .state = dev_state_of(&r->encoder, call)};
    uint64_t need;

    /* a slot that just fits has no bytes without a meaning */
    codec_encode_next(r->c, r->t, src, r->elems, r->want, r->worst, &need, r->scratch, &state);
    codec_encode_next(r->c, r->t, src, r->elems, r->want, need, NULL, r->scratch, &state);
    to_dev(r->src.dev, src, r->bytes);
    CUDA(gpu_encode_with(r->c, r->t, r->src.dev, r->elems, r->slot.dev, need, g->workspace_dev,
                         &extra, g->status_dev, g->stream));
    check(g, take_status(g) == 0, "%s: encode: status", text);
    to_host(r->got, r->slot.dev, r->worst);
    same(g, r->got, r->want, need, "encode", text);
    check(g, guard_intact(&r->slot), "%s: bytes beside the slot", text);
    check_end(g, &r->encoder, call, text);

    state = state_of(&r->decoder, call);
    extra.state = dev_state_of(&r->decoder, call);
    check(g,
          codec_decode_next(r->c, r->t, r->want, need, r->elems, r->want + r->worst, r->scratch,
                            NULL, &state) == CODEC_OK,
          "%s: the reference does not decode", text);
    CUDA(gpu_decode_with(r->c, r->t, r->slot.dev, need, r->elems, r->dst.dev, &extra, g->status_dev,
                         g->stream));
    check(g, take_status(g) == 0, "%s: decode: status", text);
    to_host(r->got, r->dst.dev, r->bytes);
    same(g, r->got, r->want + r->worst, r->bytes, "decode", text);
    check(g, guard_intact(&r->dst), "%s: bytes beside the destination", text);
    check_end(g, &r->decoder, call, text);
}

/* Data that changes from call to call, some of it. */
static void next_data(enum dtype t, int pattern, unsigned char *data, uint64_t elems, int call,
                      uint64_t seed) {
    uint64_t bytes = elems * dtype_bytes(t);
    bool is_narrow = dtype_is_float(t) && t != DTYPE_F64;

    if (call == 0 && is_narrow) {
        fill(t, (enum pattern)pattern, data, elems, seed);
        return;
    }
    if (call == 0)
        for (uint64_t i = 0; i < bytes; i++)
            data[i] = (unsigned char)next_random(&seed);
    else if (pattern % 2 == 0 && is_narrow)
        fill(t, (enum pattern)((pattern + call) % PATTERN_COUNT), data, elems, seed);
    else
        for (uint64_t i = 0; i < bytes; i++)
            data[i] ^= next_random(&seed) % 50 == 0 ? (unsigned char)call : 0;
}

static void check_calls(struct gpu_test *g, const struct codec *c, enum dtype t, uint64_t elems,
                        int pattern, uint64_t shift, const char *codec_text) {
    struct trip r = trip_open(c, t, elems, shift);
    unsigned char *data = host_alloc(r.bytes);

    for (int call = 0; call < 3; call++) {
        char text[160];

        snprintf(text, sizeof text, "%s of %s, %llu elements, pattern %d, call %d", codec_text,
                 dtype_name(t), (unsigned long long)elems, pattern, call);
        next_data(t, pattern, data, elems, call, elems + (uint64_t)(10 * pattern + call));
        check_call(g, &r, call, data, text);
    }
    free(data);
    trip_close(&r);
}

void test_states(struct gpu_test *g) {
    static const uint64_t sizes[] = {1,    31,   33,   1023, 1024,  1025,
                                     3001, 8191, 8192, 8193, 24593, 100003};

    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct codec c = codec_of(g, texts[k]);
        char err[256];

        for (int i = 0; i < DTYPE_COUNT; i++)
            for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++) {
                int p = (int)(n + k) % PATTERN_COUNT;

                if (!codec_check(&c, (enum dtype)i, err, sizeof err) ||
                    (g->small && (sizes[n] > 8193 || n % 3 == 1)))
                    continue;
                check_calls(g, &c, (enum dtype)i, sizes[n], p, n % 3 == 0, texts[k]);
                check_calls(g, &c, (enum dtype)i, sizes[n], (p + 5) % PATTERN_COUNT, 0, texts[k]);
                if (sizes[n] == 8193)
                    for (int more = 0; more < PATTERN_COUNT; more += g->small ? 4 : 1)
                        check_calls(g, &c, (enum dtype)i, sizes[n], more, 1, texts[k]);
            }
    }
}

/* ---- no state yet, and none wanted; slots that are too small ---- */

static void check_begun(struct gpu_test *g, const struct codec *c, enum dtype t, uint64_t elems,
                        const char *text) {
    uint64_t bytes = elems * dtype_bytes(t), worst = codec_worst_bytes(c, t, elems), need;
    uint64_t least = codec_least_bytes(c, t, elems);
    unsigned char *want = host_alloc(worst), *got = host_alloc(worst);
    void *src = host_alloc(bytes), *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    void *src_dev, *slot_dev = dev_alloc(worst);
    struct gpu_extra extra = {.scratch_dev = scratch_of(g, gpu_scratch_bytes(c, t, elems))};

    fill(t, PATTERN_BELL, src, elems, 5);
    src_dev = dev_copy(src, bytes);
    codec_encode(c, t, src, elems, want, worst, &need, scratch);
    codec_encode(c, t, src, elems, want, need, NULL, scratch);
    CUDA(gpu_encode_with(c, t, src_dev, elems, slot_dev, need, g->workspace_dev, &extra,
                         g->status_dev, g->stream));
    check(g, take_status(g) == 0, "%s: begun: status", text);
    to_host(got, slot_dev, need);
    same(g, got, want, need, "begun", text);
    for (uint64_t s = least; codec_has_header(c, t, elems) && s < need; s += 1 + need / 5) {
        struct guarded slot = guarded_alloc(s, 0);

        codec_encode(c, t, src, elems, want, s, NULL, scratch);
        CUDA(gpu_encode_with(c, t, src_dev, elems, slot.dev, s, g->workspace_dev, &extra,
                             g->status_dev, g->stream));
        check(g, take_status(g) == GPU_OVERFLOW, "%s: a slot of %llu: status", text,
              (unsigned long long)s);
        to_host(got, slot.dev, s);
        same(g, got, want, 32, "a small slot", text);
        check(g, guard_intact(&slot), "%s: bytes beside a small slot", text);
        guarded_free(&slot);
    }
    dev_free(slot_dev);
    dev_free(src_dev);
    free(scratch);
    free(src);
    free(got);
    free(want);
}

void test_state_slots(struct gpu_test *g) {
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct codec c = codec_of(g, texts[k]);

        for (size_t i = 0; i < ARRAY_LENGTH(narrow); i++)
            check_begun(g, &c, narrow[i], g->small ? 9001 : 40001, texts[k]);
    }
}

/* ---- bytes that are no encoding ---- */

static void check_verdict(struct gpu_test *g, const struct codec *c, enum dtype t, const void *slot,
                          uint64_t slot_bytes, uint64_t elems, uint64_t at, const char *text) {
    uint64_t bytes = elems * dtype_bytes(t);
    unsigned char *want = host_alloc(bytes), *got = host_alloc(bytes);
    void *slot_dev = dev_copy(slot, slot_bytes);
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    struct guarded to = guarded_alloc(bytes, 0);
    struct gpu_extra extra = {.scratch_dev = scratch_of(g, gpu_scratch_bytes(c, t, elems))};
    enum codec_status right = codec_decode(c, t, slot, slot_bytes, elems, want, scratch, NULL);
    uint32_t status, expected = right == CODEC_OK         ? 0
                                : right == CODEC_OVERFLOW ? GPU_OVERFLOW
                                                          : GPU_MALFORMED;

    CUDA(gpu_decode_with(c, t, slot_dev, slot_bytes, elems, to.dev, &extra, g->status_dev,
                         g->stream));
    status = take_status(g);
    check(g, status == expected, "%s: changed at %llu: seen as %u, is %u", text,
          (unsigned long long)at, status, expected);
    to_host(got, to.dev, bytes);
    if (right == CODEC_OK)
        same(g, got, want, bytes, "changed bytes", text);
    check(g, guard_intact(&to), "%s: bytes beside the destination", text);
    guarded_free(&to);
    dev_free(slot_dev);
    free(scratch);
    free(got);
    free(want);
}

void test_state_malformed(struct gpu_test *g) {
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++)
        for (size_t i = 0; i < ARRAY_LENGTH(narrow); i++) {
            struct codec c = codec_of(g, texts[k]);
            enum dtype t = narrow[i];
            uint64_t elems = 9001, worst = codec_worst_bytes(&c, t, elems), seed = k;
            void *src = host_alloc(elems * dtype_bytes(t));
            void *scratch = host_alloc(codec_scratch_bytes(&c, t, elems));
            unsigned char *slot = host_alloc(worst);

            fill(t, PATTERN_BELL, src, elems, 3);
            codec_encode(&c, t, src, elems, slot, worst, NULL, scratch);
            for (int n = 0; n < (g->small ? 12 : 60); n++) {
                uint64_t at =
                    n < 10 ? worst - 1 - next_random(&seed) % 64 : next_random(&seed) % worst;
                unsigned char was = slot[at];

                slot[at] ^= (unsigned char)(1u << next_random(&seed) % 8);
                check_verdict(g, &c, t, slot, worst, elems, at, texts[k]);
                slot[at] = was;
            }
            free(slot);
            free(scratch);
            free(src);
        }
}

/* ---- reductions ---- */

/* Two pieces and a chunk to a chunk and a slot, all with their own states. */
static void check_reduction(struct gpu_test *g, const struct codec *c, enum dtype t, uint64_t elems,
                            const char *text) {
    uint64_t bytes = elems * dtype_bytes(t), worst = codec_worst_bytes(c, t, elems), need;
    struct end encoder = end_open(c, t, elems, CODEC_ENCODER);
    struct end decoders[2] = {end_open(c, t, elems, CODEC_DECODER),
                              end_open(c, t, elems, CODEC_DECODER)};
    struct guarded sum = guarded_alloc(bytes, 0), slot = guarded_alloc(worst, 0);
    unsigned char *data = host_alloc(bytes), *total = host_alloc(bytes), *got = host_alloc(worst);
    unsigned char *piece = host_alloc(worst), *acc = host_alloc(elems * reduce_acc_bytes(t));
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    struct gpu_operand in[3] = {{.kind = GPU_CHUNK}};
    struct gpu_state states[3] = {{.now_dev = NULL}};
    struct gpu_extra extra = {.scratch_dev = scratch_of(g, 3 * gpu_scratch_bytes(c, t, elems)),
                              .state = dev_state_of(&encoder, 0),
                              .operand_states = states};
    struct codec_state state = state_of(&encoder, 0);

    fill(t, PATTERN_BELL, data, elems, 1);
    in[0].data_dev = dev_copy(data, bytes);
    reduce_open(t, data, acc, elems);
    for (int o = 1; o < 3; o++) {
        struct codec_state begun = {.now = NULL}, own = state_of(&decoders[o - 1], 0);

        fill(t, PATTERN_NARROW, data, elems, (uint64_t)o);
        codec_encode_next(c, t, data, elems, piece, worst, &need, scratch, &begun);
        in[o] = (struct gpu_operand){GPU_PIECE, dev_copy(piece, worst), worst, *c};
        states[o] = dev_state_of(&decoders[o - 1], 0);
        codec_decode_next(c, t, piece, worst, elems, data, scratch, NULL, &own);
        reduce_add(t, REDOP_SUM, acc, data, elems);
    }
    reduce_close(t, acc, total, elems);
    codec_encode_next(c, t, total, elems, piece, worst, &need, scratch, &state);
    codec_encode_next(c, t, total, elems, piece, need, NULL, scratch, &state);
    CUDA(gpu_combine_with(t, REDOP_SUM, in, 3, elems, 0, NULL, sum.dev, c, slot.dev, need,
                          g->workspace_dev, &extra, g->status_dev, g->stream));
    check(g, take_status(g) == 0, "%s: a reduction: status", text);
    to_host(got, slot.dev, need);
    same(g, got, piece, need, "slot", text);
    to_host(data, sum.dev, bytes);
    same(g, data, total, bytes, "sum", text);
    check_end(g, &encoder, 0, text);
    check(g, guard_intact(&sum) && guard_intact(&slot), "%s: bytes beside a result", text);
    for (int o = 0; o < 3; o++)
        dev_free((void *)(uintptr_t)in[o].data_dev);
    for (int o = 0; o < 2; o++) {
        check_end(g, &decoders[o], 0, text);
        end_close(&decoders[o]);
    }
    end_close(&encoder);
    guarded_free(&sum);
    guarded_free(&slot);
    free(scratch);
    free(acc);
    free(piece);
    free(got);
    free(total);
    free(data);
}

void test_state_reductions(struct gpu_test *g) {
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++)
        for (size_t i = 0; i < ARRAY_LENGTH(narrow); i++) {
            struct codec c = codec_of(g, texts[k]);

            check_reduction(g, &c, narrow[i], 9001, texts[k]);
            check_reduction(g, &c, narrow[i], 513, texts[k]);
        }
}
