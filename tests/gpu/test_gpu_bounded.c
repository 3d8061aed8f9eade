/*
 * test_gpu_bounded.c: `lz`, `sparse` and their compositions on the GPU, for every type: the bytes of
 * the C reference, whatever the data, its size and its alignment; its verdict on bytes that are no
 * encoding; nothing beside the slot and the destination touched; marks that travel through
 * reductions; and graphs.
 */
#include "tests/gpu/gpu_test.h"

static const char *const texts[] = {"sparse", "lz", "cast(bf16) | lz", "cast(f16) | sparse"};

/* What the codecs have to tell apart, for elements of any size. */
enum content {
    NOISE,
    ZEROS,
    EQUAL,
    EXTREMES,   /* all bits set and none, in turn */
    ONE_IN_500, /* values between zeros */
    ONE_IN_20,
    ONE_IN_2,
    ZERO_HALF, /* long runs of zeros and of values */
    RECORDS,   /* the same bytes again and again, some of them changed */
    LETTERS,   /* few different bytes */
    SHORT_RUNS,
    FLOATS, /* like gradients; of other types, small numbers */
    CONTENT_COUNT
};

static uint64_t element(enum dtype t, enum content c, uint64_t i, uint64_t r) {
    uint64_t pick = r >> 40;

    switch (c) {
    case ZEROS:
        return 0;
    case EQUAL:
        return UINT64_C(0x0123456789abcdef);
    case EXTREMES:
        return i % 2 != 0 ? UINT64_MAX : 0;
    case ONE_IN_500:
        return pick % 500 == 0 ? r : 0;
    case ONE_IN_20:
        return pick % 20 == 0 ? r : 0;
    case ONE_IN_2:
        return pick % 2 == 0 ? r : 0;
    case ZERO_HALF:
        return i / 3000 % 2 == 0 ? r : 0;
    case RECORDS:
        return pick % 64 == 0 ? r : i % (dtype_bytes(t) == 1 ? 100 : 37) * UINT64_C(0x9e3779b97f4a);
    case LETTERS:
        return (r & UINT64_C(0x0303030303030303)) + UINT64_C(0x6161616161616161);
    case SHORT_RUNS:
        return i / 7 * UINT64_C(0x9e3779b97f4a7c15);
    case NOISE:
    case FLOATS:
    case CONTENT_COUNT:
        break;
    }
    return c == FLOATS ? r % 200 : r;
}

static void make(enum dtype t, enum content c, void *dst, uint64_t elems, uint64_t seed) {
    if (c == FLOATS && (t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16)) {
        fill(t, PATTERN_BELL, dst, elems, seed);
        return;
    }
    for (uint64_t i = 0; i < elems; i++) {
        uint64_t bits = element(t, c, i, next_random(&seed));

        memcpy((char *)dst + i * dtype_bytes(t), &bits, dtype_bytes(t));
    }
}

static bool takes(const struct codec *c, enum dtype t) {
    char err[256];

    return codec_check(c, t, err, sizeof err);
}

static struct gpu_extra extra_of(struct gpu_test *g, const struct codec *c, enum dtype t,
                                 uint64_t elems, uint32_t pieces) {
    return (struct gpu_extra){.scratch_dev =
                                  scratch_of(g, pieces * gpu_scratch_bytes(c, t, elems))};
}

/* ---- encoding and decoding ---- */

static void check_decode(struct gpu_test *g, const struct codec *c, enum dtype t,
                         const void *encoded, uint64_t need, const void *values, uint64_t elems,
                         uint64_t shift, const char *text) {
    uint64_t bytes = elems * dtype_bytes(t);
    struct guarded to = guarded_alloc(bytes, shift * dtype_bytes(t));
    void *slot_dev = dev_copy(encoded, need), *got = host_alloc(bytes);
    struct gpu_extra extra = extra_of(g, c, t, elems, 1);

    CUDA(gpu_decode_with(c, t, slot_dev, need, elems, to.dev, &extra, g->status_dev, g->stream));
    check(g, take_status(g) == 0, "%s: decode: status", text);
    to_host(got, to.dev, bytes);
    same(g, got, values, bytes, "decode", text);
    check(g, guard_intact(&to), "%s: bytes beside the destination", text);
    free(got);
    dev_free(slot_dev);
    guarded_free(&to);
}

static void check_piece(struct gpu_test *g, const struct codec *c, enum dtype t, const void *src,
                        uint64_t elems, uint64_t shift, const char *text) {
    uint64_t bytes = elems * dtype_bytes(t), worst = codec_worst_bytes(c, t, elems), need;
    struct guarded from = guarded_alloc(bytes, shift * dtype_bytes(t));
    struct guarded slot = guarded_alloc(worst, 0);
    unsigned char *want = host_alloc(worst), *got = host_alloc(worst);
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems)), *values = host_alloc(bytes);
    struct gpu_extra extra = extra_of(g, c, t, elems, 1);

    codec_encode(c, t, src, elems, want, worst, &need, scratch);
    check(g, codec_decode(c, t, want, need, elems, values, scratch, NULL) == CODEC_OK,
          "%s: the reference does not decode", text);
    to_dev(from.dev, src, bytes);
    CUDA(gpu_encode_with(c, t, from.dev, elems, slot.dev, worst, g->workspace_dev, &extra,
                         g->status_dev, g->stream));
    check(g, take_status(g) == 0, "%s: encode: status", text);
    to_host(got, slot.dev, worst);
    same(g, got, want, need, "encode", text);
    check(g, guard_intact(&slot), "%s: bytes beside the slot", text);
    check_decode(g, c, t, want, need, values, elems, shift, text);
    free(values);
    free(scratch);
    free(got);
    free(want);
    guarded_free(&slot);
    guarded_free(&from);
}

/* Around groups, tiles and blocks of 64 KiB, and primes. */
static void check_sizes(struct gpu_test *g, const struct codec *c, enum dtype t,
                        const char *codec_text) {
    uint64_t block = 65536 / dtype_bytes(t);
    const uint64_t sizes[] = {
        0,    1,    31,    32,        33,    1023,      1024,          1025,   1031,           8191,
        8192, 8193, 20011, block - 1, block, block + 1, 2 * block + 5, 100003, 40 * block + 11};
    uint64_t seed = 11;

    for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++)
        for (int k = 0; k < CONTENT_COUNT; k++) {
            void *src;
            char text[160];

            if ((g->small && (sizes[n] > 8193 || ((size_t)k + n) % 4 != 0)) ||
                (sizes[n] > 100000 && ((size_t)k + n) % 3 != 0))
                continue;
            src = host_alloc(sizes[n] * dtype_bytes(t));
            snprintf(text, sizeof text, "%s of %s, %llu elements, content %d", codec_text,
                     dtype_name(t), (unsigned long long)sizes[n], k);
            make(t, (enum content)k, src, sizes[n], seed++);
            check_piece(g, c, t, src, sizes[n], seed % 3 == 0, text);
            free(src);
        }
}

static void check_patterns(struct gpu_test *g, const struct codec *c, enum dtype t,
                           const char *codec_text) {
    uint64_t elems = g->small ? 2051 : 35023;
    void *src = host_alloc(elems * dtype_bytes(t));

    for (int p = 0; p < PATTERN_COUNT; p++) {
        char text[160];

        snprintf(text, sizeof text, "%s of %s, %s", codec_text, dtype_name(t),
                 pattern_name((enum pattern)p));
        fill(t, (enum pattern)p, src, elems, (uint64_t)p);
        check_piece(g, c, t, src, elems, p % 2 != 0, text);
    }
    free(src);
}

static void check_files(struct gpu_test *g, const struct codec *c, const char *codec_text) {
    static const char *const files[] = {"grad_bf16.bin", "weight_bf16.bin", "act_bf16.bin",
                                        "grad_f32.bin", "grad_f32_accum.bin"};

    for (size_t f = 0; f < ARRAY_LENGTH(files); f++) {
        uint64_t bytes = 0;
        void *src = read_data(g, files[f], &bytes);
        char text[160];

        if (!check(g, src != NULL, "%s/%s cannot be read", g->data_folder, files[f]))
            continue;
        bytes = g->small && bytes > 16384 ? 16384 : bytes;
        for (int t = 0; t < DTYPE_COUNT; t++) {
            snprintf(text, sizeof text, "%s of %s, %s", codec_text, dtype_name((enum dtype)t),
                     files[f]);
            if (takes(c, (enum dtype)t))
                check_piece(g, c, (enum dtype)t, src, bytes / dtype_bytes((enum dtype)t), 0, text);
        }
        free(src);
    }
}

void test_bounded_pieces(struct gpu_test *g) {
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct codec c = codec_of(g, texts[k]);

        for (int i = 0; i < DTYPE_COUNT; i++) {
            enum dtype t = (enum dtype)i;

            if (!takes(&c, t))
                continue;
            check_sizes(g, &c, t, texts[k]);
            if (t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16)
                check_patterns(g, &c, t, texts[k]);
        }
        check_files(g, &c, texts[k]);
    }
}

/* ---- slots that are too small ---- */

static void check_slot(struct gpu_test *g, const struct codec *c, enum dtype t, const void *src,
                       const void *src_dev, uint64_t elems, uint64_t slot_bytes) {
    unsigned char *want = host_alloc(slot_bytes), *got = host_alloc(slot_bytes);
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    struct guarded slot = guarded_alloc(slot_bytes, 0);
    struct gpu_extra extra = extra_of(g, c, t, elems, 1);
    uint64_t need;
    enum codec_status right = codec_encode(c, t, src, elems, want, slot_bytes, &need, scratch);
    char text[160];

    snprintf(text, sizeof text, "a slot of %llu for %llu of %s", (unsigned long long)slot_bytes,
             (unsigned long long)need, dtype_name(t));
    CUDA(gpu_encode_with(c, t, src_dev, elems, slot.dev, slot_bytes, g->workspace_dev, &extra,
                         g->status_dev, g->stream));
    check(g, take_status(g) == (right == CODEC_OK ? 0u : (uint32_t)GPU_OVERFLOW), "%s: status",
          text);
    to_host(got, slot.dev, slot_bytes);
    same(g, got, want, right == CODEC_OK ? need : 32, "bytes", text);
    check(g, guard_intact(&slot), "%s: bytes beside it", text);
    guarded_free(&slot);
    free(scratch);
    free(got);
    free(want);
}

static void check_slots(struct gpu_test *g, const struct codec *c, enum dtype t, enum content k,
                        uint64_t elems) {
    uint64_t bytes = elems * dtype_bytes(t), worst = codec_worst_bytes(c, t, elems), need;
    void *src = host_alloc(bytes), *slot = host_alloc(worst), *src_dev;
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    uint64_t step = g->small ? 16 : 3;

    make(t, k, src, elems, 7 + elems);
    codec_encode(c, t, src, elems, slot, worst, &need, scratch);
    src_dev = dev_copy(src, bytes);
    for (uint64_t s = 32; s < 200 && s < need; s += 5 * step)
        check_slot(g, c, t, src, src_dev, elems, s);
    for (uint64_t s = 1000; s + 100 < need; s += 1 + need / 5)
        check_slot(g, c, t, src, src_dev, elems, s);
    for (uint64_t s = need < 96 ? 32 : need - 64; s < need + 34; s += step)
        check_slot(g, c, t, src, src_dev, elems, s);
    check_slot(g, c, t, src, src_dev, elems, need);
    dev_free(src_dev);
    free(scratch);
    free(slot);
    free(src);
}

void test_bounded_slots(struct gpu_test *g) {
    static const enum content contents[] = {NOISE, ZEROS, RECORDS, ONE_IN_20};

    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct codec c = codec_of(g, texts[k]);

        for (int i = 0; i < DTYPE_COUNT; i++)
            for (size_t n = 0; n < ARRAY_LENGTH(contents) && takes(&c, (enum dtype)i); n++) {
                check_slots(g, &c, (enum dtype)i, contents[n], 1024);
                check_slots(g, &c, (enum dtype)i, contents[n], g->small ? 9001 : 70001);
            }
    }
}

/* ---- bytes that are no encoding ---- */

/* A reduction with the piece: it marks its slot, by whatever codec, when the piece is lost. */
static void check_reduction(struct gpu_test *g, const struct codec *c, const struct codec *out,
                            enum dtype t, const void *slot_dev, uint64_t slot_bytes, uint64_t elems,
                            uint32_t expected, const char *text) {
    uint64_t worst = codec_worst_bytes(out, t, elems), bytes = elems * dtype_bytes(t), unused;
    void *chunk_dev = dev_alloc(bytes), *sum_dev = dev_alloc(worst);
    struct gpu_operand in[2] = {{GPU_CHUNK, chunk_dev, 0, codec_none()},
                                {GPU_PIECE, slot_dev, slot_bytes, *c}};
    struct gpu_extra extra = {.scratch_dev = scratch_of(g, gpu_scratch_bytes(c, t, elems) +
                                                               gpu_scratch_bytes(out, t, elems))};
    unsigned char header[32];
    bool marked = false;
    uint32_t status;

    CUDA(cudaMemset(chunk_dev, 0, bytes));
    CUDA(cudaDeviceSynchronize());
    CUDA(gpu_combine_with(t, REDOP_SUM, in, 2, elems, 0, NULL, NULL, out, sum_dev, worst,
                          g->workspace_dev, &extra, g->status_dev, g->stream));
    status = take_status(g);
    if (codec_has_header(out, t, elems)) {
        to_host(header, sum_dev, sizeof header);
        check(g,
              codec_encoded_bytes(out, t, elems, header, sizeof header, &unused, &marked) &&
                  marked == (expected != 0),
              "%s: the result is%s marked", text, marked ? "" : " not");
        expected |= expected != 0 ? (uint32_t)GPU_OVERFLOW : 0;
    }
    check(g, status == expected, "%s: the reduction says %u", text, status);
    dev_free(sum_dev);
    dev_free(chunk_dev);
}

/* Both decoders on the same bytes. The slot ends where its allocation ends. */
static void check_verdict(struct gpu_test *g, const struct codec *c, enum dtype t, const void *slot,
                          uint64_t slot_bytes, uint64_t elems, const char *what, uint64_t at) {
    uint64_t bytes = elems * dtype_bytes(t);
    unsigned char *want = host_alloc(bytes), *got = host_alloc(bytes);
    void *slot_dev = dev_copy(slot, slot_bytes);
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    struct guarded to = guarded_alloc(bytes, 0);
    struct gpu_extra extra = extra_of(g, c, t, elems, 1);
    enum codec_status right = codec_decode(c, t, slot, slot_bytes, elems, want, scratch, NULL);
    uint32_t status, expected = right == CODEC_OK         ? 0
                                : right == CODEC_OVERFLOW ? GPU_OVERFLOW
                                                          : GPU_MALFORMED;
    char text[160];

    snprintf(text, sizeof text, "%s at %llu, %s", what, (unsigned long long)at, dtype_name(t));
    CUDA(gpu_decode_with(c, t, slot_dev, slot_bytes, elems, to.dev, &extra, g->status_dev,
                         g->stream));
    status = take_status(g);
    to_host(got, to.dev, bytes);
    check(g, status == expected, "%s: seen as %u, is %u", text, status, expected);
    if (right == CODEC_OK)
        same(g, got, want, bytes, "decoded", text);
    for (uint64_t i = 0; right == CODEC_OVERFLOW && i < bytes; i++)
        if (got[i] != got[0]) {
            check(g, false, "%s: a marked piece was written", text);
            break;
        }
    check(g, guard_intact(&to), "%s: bytes beside the destination", text);
    if (at % 7 == 0) {
        struct codec none = codec_none(), pack = g->pack;

        check_reduction(g, c, c, t, slot_dev, slot_bytes, elems, expected, text);
        check_reduction(g, c, &none, t, slot_dev, slot_bytes, elems, expected, text);
        if (takes(&pack, t))
            check_reduction(g, c, &pack, t, slot_dev, slot_bytes, elems, expected, text);
    }
    guarded_free(&to);
    dev_free(slot_dev);
    free(scratch);
    free(got);
    free(want);
}

static void check_words(struct gpu_test *g, const struct codec *c, enum dtype t,
                        unsigned char *slot, uint64_t need, uint64_t elems, uint64_t directory) {
    static const uint32_t changes[] = {1,       4,          0x100,      0x800,     0x10000,
                                       0x20000, 0x40000000, 0x80000000, UINT32_MAX};

    for (uint64_t at = 0; at < directory; at += 4) {
        uint32_t was, is;

        memcpy(&was, slot + at, 4);
        for (size_t k = 0; k < ARRAY_LENGTH(changes); k += g->small && at >= 32 ? 3 : 1) {
            is = was ^ changes[k];
            memcpy(slot + at, &is, 4);
            check_verdict(g, c, t, slot, need, elems, "a changed word", at);
        }
        memcpy(slot + at, &was, 4);
        if (g->small && at > 64)
            at += 20;
    }
}

static void check_malformed(struct gpu_test *g, const struct codec *c, enum dtype t,
                            enum content content, uint64_t elems) {
    uint64_t worst = codec_worst_bytes(c, t, elems), need, seed = 99;
    uint64_t directory = 32 + 4 * ((elems + 8191) / 8192) + 4 * ((elems + 1023) / 1024);
    void *src = host_alloc(elems * dtype_bytes(t));
    void *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    unsigned char *slot = host_alloc(worst);

    make(t, content, src, elems, 3);
    codec_encode(c, t, src, elems, slot, worst, &need, scratch);
    directory = directory < need ? directory : need;
    check_words(g, c, t, slot, need, elems, directory);
    for (uint64_t cut = 32; cut < need; cut += 1 + need / (g->small ? 8 : 40))
        check_verdict(g, c, t, slot, cut, elems, "cut", cut);
    for (int k = 0; k < (g->small ? 10 : 200); k++) {
        uint64_t at = next_random(&seed) % need;
        unsigned char was = slot[at];

        slot[at] ^= (unsigned char)(1u << next_random(&seed) % 8);
        check_verdict(g, c, t, slot, need, elems, "a changed bit", at);
        slot[at] = was;
    }
    for (int k = 0; k < (g->small ? 4 : 20); k++) { /* nothing but noise behind the right header */
        unsigned char *noise = host_alloc(need);

        memcpy(noise, slot, need);
        for (uint64_t at = k < 10 ? directory : 32; at < need; at++)
            noise[at] = (unsigned char)next_random(&seed);
        check_verdict(g, c, t, noise, need, elems, "noise", 32);
        free(noise);
    }
    codec_mark_overflow(c, t, elems, slot, worst, 320);
    check_verdict(g, c, t, slot, need, elems, "a mark", 0);
    free(slot);
    free(scratch);
    free(src);
}

void test_bounded_malformed(struct gpu_test *g) {
    static const enum dtype types[] = {DTYPE_BF16, DTYPE_F32, DTYPE_I64, DTYPE_U8};
    static const enum content contents[] = {RECORDS, ONE_IN_20, SHORT_RUNS};

    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct codec c = codec_of(g, texts[k]);

        for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
            for (size_t n = 0; n < ARRAY_LENGTH(contents) && takes(&c, types[i]); n++)
                check_malformed(g, &c, types[i], contents[n], n == 1 ? 3 * 8192 : 9001);
    }
}

/* ---- captured ---- */

/* Encode, reduce onto a piece, decode: in one graph, replayed with other data. */
static void check_graph(struct gpu_test *g, const struct codec *c, enum dtype t, uint64_t elems) {
    uint64_t bytes = elems * dtype_bytes(t), worst = codec_worst_bytes(c, t, elems), need;
    void *own = host_alloc(bytes), *other = host_alloc(bytes), *got = host_alloc(bytes);
    void *slot = host_alloc(worst), *scratch = host_alloc(codec_scratch_bytes(c, t, elems));
    void *own_dev = dev_alloc(bytes), *other_dev = dev_alloc(bytes), *slot_dev = dev_alloc(worst);
    void *sum_dev = dev_alloc(worst), *back_dev = dev_alloc(bytes);
    struct gpu_operand in[2] = {{GPU_CHUNK, own_dev, 0, codec_none()},
                                {GPU_PIECE, slot_dev, worst, *c}};
    struct gpu_extra extra = extra_of(g, c, t, elems, 2);
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CUDA(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeGlobal));
    CUDA(gpu_encode_with(c, t, other_dev, elems, slot_dev, worst, g->workspace_dev, &extra,
                         g->status_dev, g->stream));
    CUDA(gpu_combine_with(t, REDOP_SUM, in, 2, elems, 0, NULL, NULL, c, sum_dev, worst,
                          g->workspace_dev, &extra, g->status_dev, g->stream));
    CUDA(gpu_decode_with(c, t, sum_dev, worst, elems, back_dev, &extra, g->status_dev, g->stream));
    CUDA(cudaStreamEndCapture(g->stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (uint64_t replay = 0; replay < (g->small ? 3u : 2u * CONTENT_COUNT); replay++) {
        make(t, (enum content)(replay % CONTENT_COUNT), own, elems, 2 * replay);
        make(t, (enum content)(replay / 2 % CONTENT_COUNT), other, elems, 2 * replay + 1);
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

void test_bounded_graphs(struct gpu_test *g) {
    for (size_t k = 0; k < ARRAY_LENGTH(texts); k++) {
        struct codec c = codec_of(g, texts[k]);

        for (int i = 0; i < DTYPE_COUNT; i++)
            if (takes(&c, (enum dtype)i))
                check_graph(g, &c, (enum dtype)i, g->small ? 3001 : 100021);
    }
}
