/*
 * test_gpu_value.c: `cast`, `quant` and what they are composed with make the bytes of the C
 * reference on the GPU and decode to its elements, for any bytes in the slot; and reductions whose
 * operands and results come in any mix of codecs give the bits of decoding, reducing and encoding
 * one after the other on the CPU. So do `none` and reductions for the types that only it takes.
 */
#include "tests/gpu/gpu_test.h"

static const enum dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
static const enum dtype plain_types[] = {DTYPE_F64, DTYPE_I32, DTYPE_I64, DTYPE_U8};

static const char *const texts[] = {
    "none",          "cast(bf16)",    "cast(f16)",     "cast(e4m3)",        "cast(e5m2)",
    "quant(8)",      "quant(8, 32)",  "quant(8, 96)",  "quant(8, 224)",     "quant(8, 256)",
    "quant(6)",      "quant(6, 32)",  "quant(6, 128)", "quant(6, 160)",     "quant(4)",
    "quant(4, 128)", "quant(4, 192)", "quant(4, 256)", "cast(bf16) | pack", "cast(f16) | pack",
    "pack",
};
#define CODECS ARRAY_LENGTH(texts)
#define FIXED  (CODECS - 3) /* the first ones */

/* ---- encoding and decoding ---- */

static void check_decode(struct gpu_test *g, const struct codec *c, enum dtype t,
                         const void *encoded, uint64_t slot_bytes, uint64_t elems, uint64_t shift,
                         const char *text) {
    uint64_t bytes = elems * dtype_bytes(t);
    struct guarded to = guarded_alloc(bytes, shift * dtype_bytes(t));
    void *want = host_alloc(bytes), *got = host_alloc(bytes);
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    void *slot_dev = dev_copy(encoded, slot_bytes);

    check(g, codec_decode(c, t, encoded, slot_bytes, elems, want, scratch, NULL) == CODEC_OK,
          "%s: the reference does not decode", text);
    CUDA(gpu_decode(c, t, slot_dev, slot_bytes, elems, to.dev, g->status_dev, g->stream));
    check(g, take_status(g) == 0, "%s: decode: status", text);
    to_host(got, to.dev, bytes);
    same(g, got, want, bytes, "decode", text);
    check(g, guard_intact(&to), "%s: bytes beside the destination", text);
    dev_free(slot_dev);
    guarded_free(&to);
    free(scratch);
    free(got);
    free(want);
}

static void check_piece(struct gpu_test *g, const struct codec *c, enum dtype t, const void *src,
                        uint64_t elems, uint64_t shift, const char *text) {
    uint64_t bytes = elems * dtype_bytes(t), slot_bytes = codec_worst_bytes(c, t, elems), need;
    struct guarded from = guarded_alloc(bytes, shift * dtype_bytes(t));
    struct guarded slot = guarded_alloc(slot_bytes, 0);
    unsigned char *want = host_alloc(slot_bytes), *got = host_alloc(slot_bytes);
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));

    codec_encode(c, t, src, elems, want, slot_bytes, &need, scratch);
    to_dev(from.dev, src, bytes);
    CUDA(gpu_encode(c, t, from.dev, elems, slot.dev, slot_bytes, g->workspace_dev, g->status_dev,
                    g->stream));
    check(g, take_status(g) == 0, "%s: encode: status", text);
    to_host(got, slot.dev, slot_bytes);
    same(g, got, want, need, "encode", text);
    check(g, guard_intact(&slot), "%s: bytes beside the slot", text);
    check_decode(g, c, t, want, need, elems, shift, text);
    guarded_free(&slot);
    guarded_free(&from);
    free(scratch);
    free(got);
    free(want);
}

/* A fixed codec decodes any bytes. */
static void check_noise(struct gpu_test *g, const struct codec *c, enum dtype t, uint64_t elems,
                        uint64_t seed, const char *text) {
    uint64_t bytes = codec_worst_bytes(c, t, elems);
    unsigned char *noise = host_alloc(bytes);

    for (uint64_t i = 0; i < bytes; i++)
        noise[i] = (unsigned char)next_random(&seed);
    check_decode(g, c, t, noise, bytes, elems, 0, text);
    free(noise);
}

static void check_codec(struct gpu_test *g, const char *codec_text, enum dtype t) {
    static const uint64_t sizes[] = {1,    2,    7,    31,   32,   33,    97,    255,
                                     1023, 1024, 1025, 3001, 8191, 24575, 24593, 100003};
    struct codec c = codec_of(g, codec_text);
    uint64_t seed = 5;

    for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++) {
        uint64_t elems = sizes[n];
        char text[128];

        if (g->small && elems > 9000)
            break;
        for (int p = 0; p < PATTERN_COUNT; p++) {
            void *src = host_alloc(elems * dtype_bytes(t));

            snprintf(text, sizeof text, "%s of %s, %llu elements, %s", codec_text, dtype_name(t),
                     (unsigned long long)elems, pattern_name((enum pattern)p));
            if (g->small ? (p + (int)n) % 5 == 0 : elems < 9000 || p % 3 == (int)(seed % 3)) {
                fill(t, (enum pattern)p, src, elems, seed++);
                check_piece(g, &c, t, src, elems, seed % 4 == 0, text);
            }
            free(src);
        }
        if (!codec_has_header(&c, t, elems)) {
            snprintf(text, sizeof text, "%s of %s, %llu elements, noise", codec_text, dtype_name(t),
                     (unsigned long long)elems);
            check_noise(g, &c, t, elems, seed++, text);
        }
    }
}

static void check_file(struct gpu_test *g, const char *codec_text, const char *name) {
    struct codec c = codec_of(g, codec_text);
    uint64_t bytes = 0;
    void *src = read_data(g, name, &bytes);

    if (!check(g, src != NULL, "%s/%s cannot be read", g->data_folder, name))
        return;
    if (g->small && bytes > 32768)
        bytes = 32768;
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        check_piece(g, &c, types[i], src, bytes / dtype_bytes(types[i]), 0, name);
    free(src);
}

void test_values(struct gpu_test *g) {
    static const char *const files[] = {"grad_bf16.bin", "weight_bf16.bin", "act_bf16.bin",
                                        "grad_f32.bin", "grad_f32_accum.bin"};

    for (size_t c = 1; c < CODECS - 1; c++) {
        for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
            check_codec(g, texts[c], types[i]);
        for (size_t f = 0; f < ARRAY_LENGTH(files); f++)
            check_file(g, texts[c], files[f]);
    }
}

/* ---- reductions ---- */

enum target { TO_ACC, TO_CHUNK, TO_SLOT, TO_BOTH };

/* One reduction. Operands are chunks, accumulators or encodings by any codec. */
struct trial {
    enum dtype t;
    enum redop op;
    enum target to;
    uint32_t count, acc_bytes;
    uint64_t elems, divide_by, shift;
    bool in_place; /* the first operand is what is written */
    struct codec slot_codec;
    struct gpu_operand in[GPU_MAX_OPERANDS];
    void *dev[GPU_MAX_OPERANDS];      /* what is freed */
    void *elements[GPU_MAX_OPERANDS]; /* decoded, or accumulators */
    char text[256];
};

static void fill_any(enum dtype t, enum pattern p, void *dst, uint64_t elems, uint64_t seed) {
    if (t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16) {
        fill(t, p, dst, elems, seed);
        return;
    }
    for (uint64_t i = 0; i < elems; i++) {
        uint64_t bits = next_random(&seed);
        double d = (double)(int64_t)bits * 0x1p-60;

        if (t == DTYPE_F64 && i % 3 != 0)
            memcpy(&bits, &d, sizeof d);
        memcpy((char *)dst + i * dtype_bytes(t), &bits, dtype_bytes(t));
    }
}

static void add_operand(struct gpu_test *g, struct trial *r, enum gpu_operand_kind kind,
                        const struct codec *c, uint64_t seed) {
    static const enum pattern patterns[] = {PATTERN_BELL, PATTERN_ESCAPES,  PATTERN_BITS,
                                            PATTERN_TINY, PATTERN_EXTREMES, PATTERN_TRAILING,
                                            PATTERN_BELL, PATTERN_NARROW};
    uint32_t o = r->count++, each = kind == GPU_ACC ? r->acc_bytes : dtype_bytes(r->t);
    bool is_acc_f32 = kind == GPU_ACC && dtype_bytes(r->t) <= 4 && dtype_is_float(r->t);
    uint64_t bytes = r->elems * each, offset = kind == GPU_PIECE ? 0 : r->shift * each;

    r->elements[o] = host_alloc(bytes);
    fill_any(is_acc_f32 ? DTYPE_F32 : r->t, patterns[seed % ARRAY_LENGTH(patterns)], r->elements[o],
             r->elems, seed);
    r->in[o] = (struct gpu_operand){.kind = kind};
    if (kind == GPU_PIECE) {
        uint64_t worst = codec_worst_bytes(c, r->t, r->elems), need;
        void *slot = host_alloc(worst);
        void *scratch = host_alloc(codec_scratch_bytes(c, r->t, r->elems));

        codec_encode(c, r->t, r->elements[o], r->elems, slot, worst, &need, scratch);
        check(g,
              codec_decode(c, r->t, slot, need, r->elems, r->elements[o], scratch, NULL) ==
                  CODEC_OK,
              "an operand does not decode");
        r->dev[o] = dev_copy(slot, need);
        r->in[o].slot_bytes = need;
        r->in[o].codec = *c;
        free(scratch);
        free(slot);
    } else {
        r->dev[o] = dev_alloc(bytes + offset);
        to_dev((char *)r->dev[o] + offset, r->elements[o], bytes);
    }
    r->in[o].data_dev = (char *)r->dev[o] + offset;
}

/* What the CPU makes of it. */
static void reference(const struct trial *r, void *acc, void *rounded) {
    for (uint32_t o = 0; o < r->count; o++) {
        enum dtype t = r->in[o].kind == GPU_ACC && r->acc_bytes == 4 && dtype_is_float(r->t)
                           ? DTYPE_F32
                           : r->t;

        if (o == 0)
            reduce_open(t, r->elements[o], acc, r->elems);
        else
            reduce_add(t, r->op, acc, r->elements[o], r->elems);
    }
    if (r->count == 1 && r->in[0].kind != GPU_ACC && r->to != TO_ACC) {
        memcpy(rounded, r->elements[0], r->elems * dtype_bytes(r->t));
        return;
    }
    if (r->divide_by != 0)
        reduce_divide(r->t, acc, r->elems, r->divide_by);
    reduce_close(r->t, acc, rounded, r->elems);
}

static void check_slot(struct gpu_test *g, const struct trial *r, const struct guarded *slot,
                       const void *rounded) {
    const struct codec *c = &r->slot_codec;
    unsigned char *got = host_alloc(slot->bytes), *want = host_alloc(slot->bytes);
    void *scratch = host_alloc(codec_scratch_bytes(c, r->t, r->elems));
    uint64_t need;

    codec_encode(c, r->t, rounded, r->elems, want, slot->bytes, &need, scratch);
    to_host(got, slot->dev, slot->bytes);
    same(g, got, want, need, "slot", r->text);
    check(g, guard_intact(slot), "%s: bytes beside the slot", r->text);
    free(scratch);
    free(want);
    free(got);
}

/* A NaN in an accumulator may have any payload: both are made canonical. */
static void check_acc(struct gpu_test *g, const struct trial *r, const void *dev, void *want) {
    enum dtype t = dtype_is_float(r->t) && r->acc_bytes == 4 ? DTYPE_F32 : r->t;
    uint64_t bytes = r->elems * r->acc_bytes;
    void *got = host_alloc(bytes);

    to_host(got, dev, bytes);
    reduce_close(t, got, got, r->elems);
    reduce_close(t, want, want, r->elems);
    same(g, got, want, bytes, "accumulators", r->text);
    free(got);
}

/* Scratch of just the size that gpu.h tells. */
static struct gpu_extra trial_extra(struct gpu_test *g, const struct trial *r) {
    uint64_t bytes = gpu_scratch_bytes(&r->slot_codec, r->t, r->elems);

    for (uint32_t o = 0; o < r->count; o++)
        if (r->in[o].kind == GPU_PIECE)
            bytes += gpu_scratch_bytes(&r->in[o].codec, r->t, r->elems);
    return (struct gpu_extra){.scratch_dev = scratch_of(g, bytes)};
}

static void run_trial(struct gpu_test *g, struct trial *r) {
    uint64_t bytes = r->elems * dtype_bytes(r->t), acc_bytes = r->elems * r->acc_bytes;
    void *acc = host_alloc(acc_bytes), *rounded = host_alloc(bytes), *got = host_alloc(bytes);
    struct guarded slot = guarded_alloc(codec_worst_bytes(&r->slot_codec, r->t, r->elems), 0);
    struct guarded out =
        guarded_alloc(r->to == TO_ACC ? acc_bytes : bytes,
                      r->shift * (r->to == TO_ACC ? r->acc_bytes : dtype_bytes(r->t)));
    bool to_chunk = r->to == TO_CHUNK || r->to == TO_BOTH;
    bool to_slot = r->to == TO_SLOT || r->to == TO_BOTH;
    struct gpu_extra extra = trial_extra(g, r);
    uint32_t status;

    if (r->in_place && r->in[0].kind == (r->to == TO_ACC ? GPU_ACC : GPU_CHUNK)) {
        to_dev(out.dev, r->elements[0], out.bytes);
        r->in[0].data_dev = out.dev;
    }
    CUDA(gpu_combine_with(r->t, r->op, r->in, r->count, r->elems, r->divide_by,
                          r->to == TO_ACC ? out.dev : NULL, to_chunk ? out.dev : NULL,
                          &r->slot_codec, to_slot ? slot.dev : NULL, slot.bytes, g->workspace_dev,
                          &extra, g->status_dev, g->stream));
    status = take_status(g);
    check(g, status == 0, "%s: status %u", r->text, status);
    reference(r, acc, rounded);
    if (r->to == TO_ACC)
        check_acc(g, r, out.dev, acc);
    if (to_chunk) {
        to_host(got, out.dev, bytes);
        same(g, got, rounded, bytes, "chunk", r->text);
    }
    if (to_slot)
        check_slot(g, r, &slot, rounded);
    check(g, guard_intact(&out), "%s: bytes beside the result", r->text);
    for (uint32_t o = 0; o < r->count; o++) {
        dev_free(r->dev[o]);
        free(r->elements[o]);
    }
    guarded_free(&out);
    guarded_free(&slot);
    free(got);
    free(rounded);
    free(acc);
}

/* A reduction drawn at random: one operand in four a chunk, one in eight accumulators, the others
 * pieces by one of the codecs, as is the slot. */
static void random_trial(struct gpu_test *g, const struct codec *codecs, size_t codec_count,
                         enum dtype t, uint64_t seed) {
    static const uint64_t sizes[] = {1, 33, 1000, 1024, 1025, 2047, 5003, 8192, 9001, 30001};
    static const uint32_t counts[] = {1, 2, 2, 2, 3, 4, 7, 16};
    uint64_t random = seed;
    struct trial r = {.t = t};
    uint32_t count = counts[next_random(&random) % ARRAY_LENGTH(counts)];

    r.acc_bytes = reduce_acc_bytes(t);
    r.op = (enum redop)(next_random(&random) % REDOP_COUNT);
    r.to = (enum target)(next_random(&random) % 4);
    r.elems = sizes[next_random(&random) % (ARRAY_LENGTH(sizes) - (g->small ? 2 : 0))];
    r.divide_by = r.op == REDOP_AVG && next_random(&random) % 2 == 0 ? 3 : 0;
    r.shift = next_random(&random) % 5 == 0;
    r.in_place = next_random(&random) % 2 == 0;
    r.slot_codec = codecs[next_random(&random) % codec_count];
    for (uint32_t o = 0; o < count; o++) {
        uint64_t pick = next_random(&random) % 8;

        add_operand(g, &r,
                    pick < 2    ? GPU_CHUNK
                    : pick == 2 ? GPU_ACC
                                : GPU_PIECE,
                    &codecs[next_random(&random) % codec_count], next_random(&random) % 100000);
    }
    codec_format(&r.slot_codec, r.text, sizeof r.text);
    snprintf(r.text + strlen(r.text), 120, " of %s of %u, %s, target %d, %llu elements, seed %llu",
             redop_name(r.op), r.count, dtype_name(t), (int)r.to, (unsigned long long)r.elems,
             (unsigned long long)seed);
    run_trial(g, &r);
}

void test_value_reductions(struct gpu_test *g) {
    struct codec codecs[CODECS], cast_pack[2] = {codec_none()};

    for (size_t i = 0; i < CODECS; i++)
        codecs[i] = codec_of(g, texts[i]);
    for (uint64_t seed = 0; seed < (g->small ? 150u : 2000u); seed++) {
        random_trial(g, codecs, FIXED, types[seed % ARRAY_LENGTH(types)], seed);
        random_trial(g, codecs, CODECS, types[seed % ARRAY_LENGTH(types)], seed);
        random_trial(g, codecs + FIXED, 3, types[seed % ARRAY_LENGTH(types)], seed);
    }
    for (uint64_t seed = 0; seed < (g->small ? 100u : 1000u); seed++) {
        cast_pack[1] = codecs[FIXED + seed % 2];
        random_trial(g, cast_pack, 2, DTYPE_F32, seed);
    }
}

void test_plain_reductions(struct gpu_test *g) {
    struct codec none = codec_none();

    for (uint64_t seed = 0; seed < (g->small ? 100u : 1000u); seed++)
        random_trial(g, &none, 1, plain_types[seed % ARRAY_LENGTH(plain_types)], seed);
    for (size_t i = 0; i < ARRAY_LENGTH(plain_types); i++) {
        uint64_t elems = 5001, bytes = elems * dtype_bytes(plain_types[i]);
        void *src = host_alloc(bytes);

        fill_any(plain_types[i], PATTERN_BITS, src, elems, i);
        check_piece(g, &none, plain_types[i], src, elems, 1, dtype_name(plain_types[i]));
        free(src);
    }
}

/* Codecs that are decoded aside, among each other and with the others. */
void test_staged_reductions(struct gpu_test *g) {
    static const char *const all[] = {"none",
                                      "lz",
                                      "sparse",
                                      "cast(bf16) | sparse",
                                      "quant(8)",
                                      "pack",
                                      "cast(bf16) | pack",
                                      "cast(f16) | lz"};
    struct codec codecs[ARRAY_LENGTH(all)];

    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        codecs[i] = codec_of(g, all[i]);
    for (uint64_t seed = 0; seed < (g->small ? 60u : 600u); seed++) {
        random_trial(g, codecs, ARRAY_LENGTH(all), types[seed % ARRAY_LENGTH(types)], seed);
        random_trial(g, codecs, 3, plain_types[seed % ARRAY_LENGTH(plain_types)], seed);
    }
}

/* ---- pieces that are lost, and slots that are too small ---- */

static const char *verdict(uint32_t status) {
    return status == 0 ? "right" : status == GPU_OVERFLOW ? "marked" : "malformed";
}

/* Both decoders on the same bytes; and a reduction with them, which marks its slot. */
static void check_verdict(struct gpu_test *g, const struct codec *c, enum dtype t, const void *slot,
                          uint64_t slot_bytes, uint64_t elems, uint64_t at) {
    uint64_t bytes = elems * dtype_bytes(t), worst = codec_worst_bytes(c, t, elems), unused;
    void *want = host_alloc(bytes), *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    void *slot_dev = dev_copy(slot, slot_bytes), *sum_dev = dev_alloc(worst);
    struct guarded to = guarded_alloc(bytes, 0);
    struct gpu_operand in[2] = {{GPU_CHUNK, to.dev, 0, codec_none()},
                                {GPU_PIECE, slot_dev, slot_bytes, *c}};
    enum codec_status right = codec_decode(c, t, slot, slot_bytes, elems, want, scratch, NULL);
    uint32_t status, expected = right == CODEC_OK         ? 0
                                : right == CODEC_OVERFLOW ? GPU_OVERFLOW
                                                          : GPU_MALFORMED;
    unsigned char header[32];
    bool marked = false;

    CUDA(gpu_decode(c, t, slot_dev, slot_bytes, elems, to.dev, g->status_dev, g->stream));
    status = take_status(g);
    check(g, status == expected, "changed at %llu: seen as %s, is %s", (unsigned long long)at,
          verdict(status), verdict(expected));
    check(g, guard_intact(&to), "changed at %llu: bytes beside the destination",
          (unsigned long long)at);
    CUDA(gpu_combine(t, REDOP_SUM, in, 2, elems, 0, NULL, NULL, c, sum_dev, worst, g->workspace_dev,
                     g->status_dev, g->stream));
    status = take_status(g);
    check(g, status == (expected == GPU_MALFORMED ? 3 : expected),
          "changed at %llu: the reduction says %u", (unsigned long long)at, status);
    to_host(header, sum_dev, sizeof header);
    check(g,
          codec_encoded_bytes(c, t, elems, header, sizeof header, &unused, &marked) &&
              marked == (expected != 0),
          "changed at %llu: the result is%s marked", (unsigned long long)at, marked ? "" : " not");
    guarded_free(&to);
    dev_free(sum_dev);
    dev_free(slot_dev);
    free(scratch);
    free(want);
}

static void check_bad_slots(struct gpu_test *g, const struct codec *c, enum dtype t) {
    uint64_t elems = 9001, worst = codec_worst_bytes(c, t, elems), need, seed = 1;
    void *src = host_alloc(elems * dtype_bytes(t));
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    unsigned char *slot = host_alloc(worst);

    fill(t, PATTERN_BELL, src, elems, 3);
    codec_encode(c, t, src, elems, slot, worst, &need, scratch);
    for (uint64_t at = 0; at < need; at += at < 80 ? 1 : 1 + next_random(&seed) % 200) {
        unsigned char was = slot[at];

        slot[at] ^= (unsigned char)(1u << next_random(&seed) % 8);
        check_verdict(g, c, t, slot, need, elems, at);
        slot[at] = was;
    }
    codec_mark_overflow(c, t, elems, slot, worst, 320);
    check_verdict(g, c, t, slot, need, elems, need);
    free(slot);
    free(scratch);
    free(src);
}

static void check_small_slot(struct gpu_test *g, const struct codec *c, enum dtype t,
                             uint64_t slot_bytes, const void *src, uint64_t elems) {
    unsigned char *want = host_alloc(slot_bytes), *got = host_alloc(slot_bytes);
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    void *src_dev = dev_copy(src, elems * dtype_bytes(t));
    struct guarded slot = guarded_alloc(slot_bytes, 0);
    uint64_t need;
    enum codec_status right = codec_encode(c, t, src, elems, want, slot_bytes, &need, scratch);

    CUDA(gpu_encode(c, t, src_dev, elems, slot.dev, slot_bytes, g->workspace_dev, g->status_dev,
                    g->stream));
    check(g, take_status(g) == (right == CODEC_OK ? 0u : (uint32_t)GPU_OVERFLOW),
          "a slot of %llu for %llu: status", (unsigned long long)slot_bytes,
          (unsigned long long)need);
    to_host(got, slot.dev, slot_bytes);
    same(g, got, want, right == CODEC_OK ? need : 32, "a small slot", dtype_name(t));
    check(g, guard_intact(&slot), "a slot of %llu: bytes beside it",
          (unsigned long long)slot_bytes);
    guarded_free(&slot);
    dev_free(src_dev);
    free(scratch);
    free(got);
    free(want);
}

void test_value_slots(struct gpu_test *g) {
    for (size_t k = FIXED; k < CODECS - 1; k++)
        for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
            struct codec c = codec_of(g, texts[k]);
            uint64_t elems = 9001, bytes = elems * dtype_bytes(types[i]);
            void *src = host_alloc(bytes);

            fill(types[i], PATTERN_BELL, src, elems, 7);
            check_bad_slots(g, &c, types[i]);
            for (uint64_t slot = 32; slot < 3 * elems; slot += g->small ? 2048 : 512)
                check_small_slot(g, &c, types[i], slot, src, elems);
            free(src);
        }
}

/* ---- captured ---- */

/* Encode, reduce onto a chunk and a piece, decode: in one graph, replayed with other data. */
static void check_graph(struct gpu_test *g, const struct codec *c, enum dtype t, uint64_t elems) {
    uint64_t bytes = elems * dtype_bytes(t), worst = codec_worst_bytes(c, t, elems), need;
    void *own = host_alloc(bytes), *other = host_alloc(bytes), *got = host_alloc(bytes);
    void *slot = host_alloc(worst), *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    void *own_dev = dev_alloc(bytes), *other_dev = dev_alloc(bytes), *slot_dev = dev_alloc(worst);
    void *sum_dev = dev_alloc(worst), *back_dev = dev_alloc(bytes);
    struct gpu_operand in[2] = {{GPU_CHUNK, own_dev, 0, codec_none()},
                                {GPU_PIECE, slot_dev, worst, *c}};
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CUDA(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeGlobal));
    CUDA(gpu_encode(c, t, other_dev, elems, slot_dev, worst, g->workspace_dev, g->status_dev,
                    g->stream));
    CUDA(gpu_combine(t, REDOP_SUM, in, 2, elems, 0, NULL, NULL, c, sum_dev, worst, g->workspace_dev,
                     g->status_dev, g->stream));
    CUDA(gpu_decode(c, t, sum_dev, worst, elems, back_dev, g->status_dev, g->stream));
    CUDA(cudaStreamEndCapture(g->stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (uint64_t replay = 0; replay < (g->small ? 3u : 20u); replay++) {
        fill(t, (enum pattern)(replay % PATTERN_COUNT), own, elems, 2 * replay);
        fill(t, (enum pattern)(replay / 2 % PATTERN_COUNT), other, elems, 2 * replay + 1);
        to_dev(own_dev, own, bytes);
        to_dev(other_dev, other, bytes);
        CUDA(cudaGraphLaunch(exec, g->stream));
        check(g, take_status(g) == 0, "replay %llu: status", (unsigned long long)replay);
        codec_encode(c, t, other, elems, slot, worst, &need, scratch);
        codec_decode(c, t, slot, need, elems, other, scratch, NULL);
        reduce_pair(t, REDOP_SUM, own, other, elems);
        codec_encode(c, t, own, elems, slot, worst, &need, scratch);
        codec_decode(c, t, slot, need, elems, own, scratch, NULL);
        to_host(got, back_dev, bytes);
        same(g, got, own, bytes, "replay", dtype_name(t));
    }
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    dev_free(back_dev);
    dev_free(sum_dev);
    dev_free(slot_dev);
    dev_free(other_dev);
    dev_free(own_dev);
    free(scratch);
    free(slot);
    free(got);
    free(other);
    free(own);
}

void test_value_graphs(struct gpu_test *g) {
    for (size_t c = 1; c < CODECS; c++) {
        struct codec codec = codec_of(g, texts[c]);

        for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
            check_graph(g, &codec, types[i], 20021);
    }
}
