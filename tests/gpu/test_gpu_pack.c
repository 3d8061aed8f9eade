/*
 * test_gpu_pack.c: `pack` on the GPU makes the bytes of the C reference, decodes what that made and
 * the other way round, stays in its slot whatever its size, and says of any bytes what the
 * reference says.
 */
#include "tests/gpu/gpu_test.h"

static const enum dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
static const char *const files[] = {"grad_bf16.bin", "weight_bf16.bin", "act_bf16.bin",
                                    "grad_f32.bin", "grad_f32_accum.bin"};

static void differ_at(struct gpu_test *g, const void *got, const void *want, uint64_t bytes,
                      const char *what, const char *name, enum dtype t, uint64_t elems) {
    const unsigned char *a = got, *b = want;
    uint64_t i = 0;

    while (i < bytes && a[i] == b[i])
        i++;
    check(g, i == bytes, "%s: %s, %s, %llu elements: byte %llu of %llu differs", what, name,
          dtype_name(t), (unsigned long long)elems, (unsigned long long)i,
          (unsigned long long)bytes);
}

/* Encodes and decodes on both sides; the source and the destination `shift` elements off. */
static void check_piece(struct gpu_test *g, enum dtype t, const void *src, uint64_t elems,
                        uint64_t shift, const char *name) {
    uint64_t bytes = elems * dtype_bytes(t), worst = codec_worst_bytes(&g->pack, t, elems), need;
    unsigned char *want = host_alloc(worst), *got = host_alloc(worst), *back = host_alloc(bytes);
    struct guarded from = guarded_alloc(bytes, shift * dtype_bytes(t));
    struct guarded to = guarded_alloc(bytes, shift * dtype_bytes(t));
    struct guarded slot = guarded_alloc(worst, 0);
    const char *reason;
    uint32_t status;

    codec_encode(&g->pack, t, src, elems, want, worst, &need, NULL);
    to_dev(from.dev, src, bytes);
    CUDA(gpu_encode(&g->pack, t, from.dev, elems, slot.dev, worst, g->workspace_dev, g->status_dev,
                    g->stream));
    status = take_status(g);
    to_host(got, slot.dev, worst);
    check(g, status == 0, "encode: %s, %s, %llu elements: status %u", name, dtype_name(t),
          (unsigned long long)elems, status);
    differ_at(g, got, want, need, "encode", name, t, elems);
    check(g, guard_intact(&slot), "encode: %s, %llu elements: bytes beside the slot", name,
          (unsigned long long)elems);
    check(g,
          codec_decode(&g->pack, t, got, worst, elems, back, NULL, &reason) == CODEC_OK &&
              memcmp(back, src, bytes) == 0,
          "the reference does not decode: %s, %s, %llu elements", name, dtype_name(t),
          (unsigned long long)elems);

    CUDA(cudaMemset(slot.dev, 0x77, worst));
    to_dev(slot.dev, want, need);
    CUDA(gpu_decode(&g->pack, t, slot.dev, worst, elems, to.dev, g->status_dev, g->stream));
    status = take_status(g);
    to_host(back, to.dev, bytes);
    check(g, status == 0, "decode: %s, %s, %llu elements: status %u", name, dtype_name(t),
          (unsigned long long)elems, status);
    differ_at(g, back, src, bytes, "decode", name, t, elems);
    check(g, guard_intact(&to), "decode: %s, %llu elements: bytes beside the destination", name,
          (unsigned long long)elems);
    guarded_free(&slot);
    guarded_free(&to);
    guarded_free(&from);
    free(back);
    free(got);
    free(want);
}

void test_pieces(struct gpu_test *g) {
    static const uint64_t sizes[] = {0,    1,     2,     31,    32,     33,     1023,
                                     1024, 1025,  1031,  2047,  4093,   8191,   8192,
                                     8193, 16384, 24593, 65536, 100003, 270336, 1048583};
    uint64_t seed = 1;

    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++)
            for (int p = 0; p < PATTERN_COUNT; p++) {
                void *src;

                if (g->small && sizes[n] > 25000)
                    continue;
                src = host_alloc(sizes[n] * dtype_bytes(types[i]));
                fill(types[i], (enum pattern)p, src, sizes[n], seed++);
                check_piece(g, types[i], src, sizes[n], 0, pattern_name((enum pattern)p));
                if (p % 3 == 0 || sizes[n] < 9000)
                    check_piece(g, types[i], src, sizes[n], 1, pattern_name((enum pattern)p));
                free(src);
            }
    for (size_t f = 0; f < ARRAY_LENGTH(files); f++) {
        uint64_t bytes = 0;
        void *src = read_data(g, files[f], &bytes);

        if (!check(g, src != NULL, "%s/%s cannot be read", g->data_folder, files[f]))
            continue;
        if (g->small && bytes > 65536)
            bytes = 65536;
        if (bytes > 2 * TEST_MAX_ELEMS)
            bytes = 2 * TEST_MAX_ELEMS;
        for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
            check_piece(g, types[i], src, bytes / dtype_bytes(types[i]), 0, files[f]);
        free(src);
    }
}

/* ---- slots that are too small ---- */

static void check_slot(struct gpu_test *g, enum dtype t, const void *src, const void *src_dev,
                       uint64_t elems, uint64_t slot_bytes) {
    unsigned char *want = host_alloc(slot_bytes), *got = host_alloc(slot_bytes);
    struct guarded slot = guarded_alloc(slot_bytes, 0);
    uint64_t need;
    enum codec_status right = codec_encode(&g->pack, t, src, elems, want, slot_bytes, &need, NULL);
    uint32_t status;

    CUDA(gpu_encode(&g->pack, t, src_dev, elems, slot.dev, slot_bytes, g->workspace_dev,
                    g->status_dev, g->stream));
    status = take_status(g);
    to_host(got, slot.dev, slot_bytes);
    check(g, status == (right == CODEC_OK ? 0u : (uint32_t)GPU_OVERFLOW),
          "a slot of %llu for %llu bytes: status %u", (unsigned long long)slot_bytes,
          (unsigned long long)need, status);
    check(g, memcmp(got, want, right == CODEC_OK ? need : 32) == 0,
          "a slot of %llu for %llu bytes: other bytes", (unsigned long long)slot_bytes,
          (unsigned long long)need);
    check(g, guard_intact(&slot), "a slot of %llu for %llu bytes: bytes beside it",
          (unsigned long long)slot_bytes, (unsigned long long)need);
    guarded_free(&slot);
    free(got);
    free(want);
}

void test_slots(struct gpu_test *g) {
    static const uint64_t sizes[] = {1024, 9001, 50000};
    static const enum pattern patterns[] = {PATTERN_BELL, PATTERN_ZEROS, PATTERN_BITS};

    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        for (size_t n = 0; n < ARRAY_LENGTH(sizes); n++)
            for (size_t p = 0; p < ARRAY_LENGTH(patterns); p++) {
                uint64_t elems = sizes[n], bytes = elems * dtype_bytes(types[i]), need;
                uint64_t worst = codec_worst_bytes(&g->pack, types[i], elems);
                void *src = host_alloc(bytes), *slot = host_alloc(worst), *src_dev;
                uint64_t step = g->small ? 16 : 1;

                fill(types[i], patterns[p], src, elems, 7 + n);
                codec_encode(&g->pack, types[i], src, elems, slot, worst, &need, NULL);
                src_dev = dev_copy(src, bytes);
                for (uint64_t s = 32; s < 200 && s < need; s += 5 * step)
                    check_slot(g, types[i], src, src_dev, elems, s);
                for (uint64_t s = 1000; s + 100 < need; s += 1 + need / 5)
                    check_slot(g, types[i], src, src_dev, elems, s);
                for (uint64_t s = need < 96 ? 32 : need - 64; s < need + 34; s += step)
                    check_slot(g, types[i], src, src_dev, elems, s);
                dev_free(src_dev);
                free(slot);
                free(src);
            }
}

/* ---- bytes that are no encoding ---- */

static const char *verdict(enum codec_status s) {
    return s == CODEC_OK ? "right" : s == CODEC_OVERFLOW ? "marked" : "malformed";
}

/* Both decoders on the same bytes. The slot ends where its allocation ends. */
static void check_verdict(struct gpu_test *g, enum dtype t, const void *slot, uint64_t slot_bytes,
                          uint64_t elems, const char *what, uint64_t at) {
    uint64_t bytes = elems * dtype_bytes(t);
    unsigned char *want = host_alloc(bytes), *got = host_alloc(bytes);
    void *slot_dev = dev_copy(slot, slot_bytes);
    struct guarded to = guarded_alloc(bytes, 0);
    const char *reason;
    enum codec_status right =
                          codec_decode(&g->pack, t, slot, slot_bytes, elems, want, NULL, &reason),
                      seen;
    uint32_t status;

    CUDA(gpu_decode(&g->pack, t, slot_dev, slot_bytes, elems, to.dev, g->status_dev, g->stream));
    status = take_status(g);
    seen = status == 0 ? CODEC_OK : status == GPU_OVERFLOW ? CODEC_OVERFLOW : CODEC_MALFORMED;
    to_host(got, to.dev, bytes);
    check(g, seen == right, "%s at %llu, %s: seen as %s, is %s", what, (unsigned long long)at,
          dtype_name(t), verdict(seen), verdict(right));
    if (right == CODEC_OK)
        check(g, memcmp(got, want, bytes) == 0, "%s at %llu, %s: decoded otherwise", what,
              (unsigned long long)at, dtype_name(t));
    check(g, guard_intact(&to), "%s at %llu, %s: bytes beside the destination", what,
          (unsigned long long)at, dtype_name(t));
    guarded_free(&to);
    dev_free(slot_dev);
    free(got);
    free(want);
}

static void check_words(struct gpu_test *g, enum dtype t, unsigned char *slot, uint64_t need,
                        uint64_t elems, uint64_t directory_end) {
    static const uint32_t changes[] = {1,          4,          0x100,      0x700,      0x800,
                                       0x8000,     0x400000,   0x20000000, 0x40000000, 0x80000000,
                                       0xffffffff, 0x00555555, 0x3ffff800};

    for (uint64_t at = 0; at < directory_end; at += 4) {
        uint32_t was, is;

        memcpy(&was, slot + at, 4);
        for (size_t c = 0; c < ARRAY_LENGTH(changes); c++) {
            is = was ^ changes[c];
            memcpy(slot + at, &is, 4);
            check_verdict(g, t, slot, need, elems, "a changed word", at);
        }
        memcpy(slot + at, &was, 4);
        if (g->small && at > 64)
            at += 20;
    }
}

void test_malformed(struct gpu_test *g) {
    static const enum pattern patterns[] = {PATTERN_ESCAPES, PATTERN_TRAILING, PATTERN_WIDE};
    uint64_t seed = 99;

    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        for (size_t p = 0; p < ARRAY_LENGTH(patterns); p++) {
            uint64_t elems = p == 0 ? 9001 : 3 * 8192, need;
            uint64_t worst = codec_worst_bytes(&g->pack, types[i], elems);
            uint64_t directory = 32 + 4 * ((elems + 8191) / 8192) + 4 * ((elems + 1023) / 1024);
            void *src = host_alloc(elems * dtype_bytes(types[i]));
            unsigned char *slot = host_alloc(worst);

            fill(types[i], patterns[p], src, elems, 3);
            codec_encode(&g->pack, types[i], src, elems, slot, worst, &need, NULL);
            check_words(g, types[i], slot, need, elems, directory);
            for (uint64_t cut = 32; cut < need; cut += 1 + need / (g->small ? 10 : 60))
                check_verdict(g, types[i], slot, cut, elems, "cut", cut);
            for (int k = 0; k < (g->small ? 10 : 150); k++) {
                uint64_t at = next_random(&seed) % need;
                unsigned char was = slot[at];

                slot[at] ^= (unsigned char)(1u << next_random(&seed) % 8);
                check_verdict(g, types[i], slot, need, elems, "a changed bit", at);
                slot[at] = was;
            }
            for (int k = 0; k < 20; k++) { /* nothing but noise behind a right header */
                unsigned char *noise = host_alloc(need);

                memcpy(noise, slot, need);
                for (uint64_t at = 32; at < (k < 10 ? need : directory); at++)
                    noise[at] = (unsigned char)next_random(&seed);
                check_verdict(g, types[i], noise, need, elems, "noise", 32);
                free(noise);
            }
            free(slot);
            free(src);
        }
}

/* ---- one large piece ---- */

void test_large(struct gpu_test *g) {
    uint64_t bytes = UINT64_C(1) << (g->small ? 20 : 30), elems = bytes / 2, have = 0, need;
    uint64_t worst = codec_worst_bytes(&g->pack, DTYPE_BF16, elems);
    unsigned char *src = host_alloc(bytes), *want = host_alloc(worst), *got = host_alloc(worst);
    unsigned char *file = read_data(g, files[0], &have);
    void *src_dev, *slot_dev = dev_alloc(worst), *workspace_dev;
    uint64_t workspace_bytes = gpu_workspace_bytes(&g->pack, DTYPE_BF16, elems);

    if (!check(g, file != NULL, "%s/%s cannot be read", g->data_folder, files[0]))
        return;
    for (uint64_t at = 0; at < bytes; at += have) {
        memcpy(src + at, file, bytes - at < have ? bytes - at : have);
        src[at] ^= (unsigned char)(at / have); /* so that no two parts are the same */
    }
    src_dev = dev_copy(src, bytes);
    workspace_dev = dev_alloc(workspace_bytes);
    CUDA(cudaMemset(workspace_dev, 0, workspace_bytes));
    CUDA(cudaDeviceSynchronize());
    codec_encode(&g->pack, DTYPE_BF16, src, elems, want, worst, &need, NULL);
    CUDA(gpu_encode(&g->pack, DTYPE_BF16, src_dev, elems, slot_dev, worst, workspace_dev,
                    g->status_dev, g->stream));
    check(g, take_status(g) == 0, "a large piece: status");
    to_host(got, slot_dev, need);
    check(g, memcmp(got, want, need) == 0, "a large piece: other bytes");
    CUDA(cudaMemset(src_dev, 0, bytes));
    CUDA(cudaDeviceSynchronize());
    CUDA(gpu_decode(&g->pack, DTYPE_BF16, slot_dev, worst, elems, src_dev, g->status_dev,
                    g->stream));
    check(g, take_status(g) == 0, "a large piece: status of the decoder");
    to_host(got, src_dev, bytes);
    check(g, memcmp(got, src, bytes) == 0, "a large piece: decoded otherwise");
    dev_free(workspace_dev);
    dev_free(slot_dev);
    dev_free(src_dev);
    free(file);
    free(got);
    free(want);
    free(src);
}
