/*
 * test_gpu_combine.c: fused reductions give the bits of reduce.c and pack.c, for every operator, up
 * to 16 operands of every kind, and every output. What was lost stays lost; what is refused
 * enqueues nothing.
 */
#include "tests/gpu/gpu_test.h"

static const enum dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};

/* One reduction: what goes in, and which outputs are wanted. */
struct request {
    enum dtype t;
    enum redop op;
    uint32_t count;
    uint64_t elems, divide_by, shift;
    uint32_t kinds; /* two bits an operand: enum gpu_operand_kind; 3: a piece of `none` */
    enum { TO_ACC, TO_CHUNK, TO_SLOT, TO_BOTH } to;
    bool raw_slot, in_place;
    uint64_t seed;
};

struct operand_data {
    void *elements; /* or accumulators */
    void *dev;      /* what is freed */
    struct gpu_operand operand;
};

static uint32_t kind_of(const struct request *r, uint32_t o) {
    return r->kinds >> 2 * (o % 16) & 3;
}

static struct operand_data make_operand(struct gpu_test *g, const struct request *r, uint32_t o) {
    static const enum pattern patterns[] = {PATTERN_BELL, PATTERN_ESCAPES,  PATTERN_BITS,
                                            PATTERN_TINY, PATTERN_EXTREMES, PATTERN_TRAILING};
    uint32_t kind = kind_of(r, o), each = kind == GPU_ACC ? 4 : dtype_bytes(r->t);
    enum pattern p = patterns[(r->seed + o) % ARRAY_LENGTH(patterns)];
    uint64_t bytes = r->elems * each, offset = r->shift * each;
    struct operand_data d = {.elements = host_alloc(bytes)};

    fill(kind == GPU_ACC ? DTYPE_F32 : r->t, p, d.elements, r->elems, r->seed * 100 + o);
    if (kind == GPU_PIECE) {
        uint64_t worst = codec_worst_bytes(&g->pack, r->t, r->elems), need;
        void *slot = host_alloc(worst);

        codec_encode(&g->pack, r->t, d.elements, r->elems, slot, worst, &need, NULL);
        d.dev = dev_copy(slot, need);
        d.operand = (struct gpu_operand){GPU_PIECE, d.dev, need, g->pack};
        free(slot);
        return d;
    }
    if (kind == 3)
        offset = 0;
    d.dev = dev_alloc(bytes + offset);
    to_dev((char *)d.dev + offset, d.elements, bytes);
    d.operand.kind = kind == 3 ? GPU_PIECE : (enum gpu_operand_kind)kind;
    d.operand.data_dev = (char *)d.dev + offset;
    d.operand.slot_bytes = bytes;
    d.operand.codec = codec_none();
    return d;
}

/* The reference: acc (f32) and the rounded elements. */
static void reference(const struct request *r, const struct operand_data *in, float *acc,
                      void *rounded) {
    uint64_t bytes = r->elems * dtype_bytes(r->t);

    for (uint32_t o = 0; o < r->count; o++) {
        bool is_acc = kind_of(r, o) == GPU_ACC;
        enum dtype t = is_acc ? DTYPE_F32 : r->t;

        if (o == 0)
            reduce_open(t, in[o].elements, acc, r->elems);
        else
            reduce_add(t, r->op, acc, in[o].elements, r->elems);
    }
    if (r->count == 1 && kind_of(r, 0) != GPU_ACC && r->to != TO_ACC) {
        memcpy(rounded, in[0].elements, bytes);
        return;
    }
    if (r->divide_by != 0)
        reduce_divide(r->t, acc, r->elems, r->divide_by);
    reduce_close(r->t, acc, rounded, r->elems);
}

/* Bit for bit, but a NaN in an accumulator may have any payload. */
static bool same_acc(const float *a, const float *b, uint64_t elems) {
    for (uint64_t i = 0; i < elems; i++)
        if (memcmp(a + i, b + i, 4) != 0 && (a[i] == a[i] || b[i] == b[i]))
            return false;
    return true;
}

static const char *describe(const struct request *r, char *text, size_t bytes) {
    static const char *const outputs[] = {"acc", "chunk", "slot", "chunk and slot"};

    snprintf(text, bytes, "%s %s of %u (kinds %x), %llu elements, / %llu, to %s%s, seed %llu",
             dtype_name(r->t), redop_name(r->op), r->count, r->kinds, (unsigned long long)r->elems,
             (unsigned long long)r->divide_by, outputs[r->to], r->in_place ? " in place" : "",
             (unsigned long long)r->seed);
    return text;
}

static void check_slot(struct gpu_test *g, const struct request *r, const struct codec *c,
                       const struct guarded *slot, const void *rounded, const char *text) {
    unsigned char *got = host_alloc(slot->bytes), *want = host_alloc(slot->bytes);
    uint64_t need;

    codec_encode(c, r->t, rounded, r->elems, want, slot->bytes, &need, NULL);
    to_host(got, slot->dev, slot->bytes);
    check(g, memcmp(got, want, need) == 0, "encoding differs: %s", text);
    check(g, guard_intact(slot), "bytes beside the slot: %s", text);
    free(want);
    free(got);
}

static void check_request(struct gpu_test *g, const struct request *r) {
    struct operand_data in[GPU_MAX_OPERANDS];
    struct gpu_operand operands[GPU_MAX_OPERANDS];
    uint64_t bytes = r->elems * dtype_bytes(r->t);
    struct codec c = r->raw_slot ? codec_none() : g->pack;
    float *acc = host_alloc(4 * r->elems), *got_acc = host_alloc(4 * r->elems);
    void *rounded = host_alloc(bytes), *got = host_alloc(bytes), *to;
    struct guarded out = guarded_alloc(r->to == TO_ACC ? 4 * r->elems : bytes,
                                       r->shift * (r->to == TO_ACC ? 4 : dtype_bytes(r->t)));
    struct guarded slot = guarded_alloc(codec_worst_bytes(&c, r->t, r->elems), 0);
    bool to_chunk = r->to == TO_CHUNK || r->to == TO_BOTH;
    bool to_slot = r->to == TO_SLOT || r->to == TO_BOTH;
    char text[256];
    uint32_t status;

    for (uint32_t o = 0; o < r->count; o++) {
        in[o] = make_operand(g, r, o);
        operands[o] = in[o].operand;
    }
    reference(r, in, acc, rounded);
    describe(r, text, sizeof text);
    to = out.dev;
    if (r->in_place) /* the first operand is what is written */
        operands[0].data_dev = to, to_dev(to, in[0].elements, out.bytes);
    CUDA(gpu_combine(r->t, r->op, operands, r->count, r->elems, r->divide_by,
                     r->to == TO_ACC ? to : NULL, to_chunk ? to : NULL, &c,
                     to_slot ? slot.dev : NULL, slot.bytes, g->workspace_dev, g->status_dev,
                     g->stream));
    status = take_status(g);
    check(g, status == 0, "status %u: %s", status, text);
    if (r->to == TO_ACC) {
        to_host(got_acc, to, 4 * r->elems);
        check(g, same_acc(got_acc, acc, r->elems), "accumulators differ: %s", text);
    }
    if (to_chunk) {
        to_host(got, to, bytes);
        check(g, memcmp(got, rounded, bytes) == 0, "elements differ: %s", text);
    }
    check(g, guard_intact(&out), "bytes beside the result: %s", text);
    if (to_slot)
        check_slot(g, r, &c, &slot, rounded, text);
    for (uint32_t o = 0; o < r->count; o++) {
        dev_free(in[o].dev);
        free(in[o].elements);
    }
    guarded_free(&slot);
    guarded_free(&out);
    free(got);
    free(rounded);
    free(got_acc);
    free(acc);
}

void test_combine(struct gpu_test *g) {
    static const uint64_t sizes[] = {0, 1, 33, 1023, 1024, 1025, 8191, 8193, 20011, 100003};
    /* all chunks; all pieces; chunk then piece; piece then chunk; all kinds; pieces of none */
    static const uint32_t kinds[] = {0, 0xaaaaaaaa, 0x88888888, 0x22222222, 0xe4e4e4e4, 0xbbbbbbbb};
    static const uint32_t counts[] = {1, 2, 3, 4, 7, 16};
    uint64_t seed = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        for (size_t n = 0; n < ARRAY_LENGTH(sizes) - (g->small ? 2 : 0); n++)
            for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++)
                for (size_t c = 0; c < ARRAY_LENGTH(counts); c++)
                    for (int to = TO_ACC; to <= TO_BOTH; to++) {
                        struct request r = {.t = types[i], .count = counts[c], .elems = sizes[n]};

                        seed++;
                        if ((g->small || sizes[n] > 50000) && seed % 5 != 0)
                            continue;
                        r.op = (enum redop)(seed / 3 % REDOP_COUNT);
                        r.divide_by = r.op == REDOP_AVG && seed % 2 == 0 ? 3 + seed % 5 : 0;
                        r.kinds = kinds[k];
                        r.to = to;
                        r.shift = seed % 7 == 0;
                        r.raw_slot = seed % 11 == 0;
                        r.seed = seed;
                        r.in_place = seed % 3 == 0 && (to == TO_CHUNK || to == TO_BOTH) &&
                                     kind_of(&r, 0) == GPU_CHUNK;
                        check_request(g, &r);
                    }
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) /* every operator, the step of a ring */
        for (int op = 0; op < REDOP_COUNT; op++)
            for (int to = TO_CHUNK; to <= TO_BOTH; to++)
                for (uint64_t s = 0; s < 6; s++) {
                    struct request r = {.t = types[i], .op = (enum redop)op, .count = 2};

                    r.elems = 9001, r.kinds = s % 2 != 0 ? 0x8 : 0x2, r.to = to, r.seed = s;
                    r.divide_by = op == REDOP_AVG ? 7 : 0;
                    check_request(g, &r);
                }
}

/* ---- lost operands ---- */

void test_lost_operands(struct gpu_test *g) {
    enum { MARKED, BROKEN };

    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        for (int how = MARKED; how <= BROKEN; how++)
            for (uint32_t count = 1; count <= 3; count++) {
                uint64_t elems = 3 * 8192 + 5, worst = codec_worst_bytes(&g->pack, types[i], elems);
                uint64_t bytes = elems * dtype_bytes(types[i]), need, header_need = 1;
                struct request r = {.t = types[i], .count = count, .elems = elems, .kinds = 0x8};
                unsigned char *slot = host_alloc(worst), header[32];
                struct gpu_operand operands[3];
                struct operand_data in[3];
                struct guarded out = guarded_alloc(worst, 0);
                void *chunk_dev = dev_alloc(bytes);
                bool marked = false;
                uint32_t status;

                for (uint32_t o = 0; o < count; o++) {
                    r.kinds = o + 1 == count ? 0xaaaaaaaa : 0;
                    in[o] = make_operand(g, &r, o);
                    operands[o] = in[o].operand;
                }
                codec_encode(&g->pack, types[i], in[count - 1].elements, elems, slot, worst, &need,
                             NULL);
                if (how == MARKED)
                    codec_mark_overflow(&g->pack, types[i], elems, slot, worst, 12345 * 32);
                else
                    slot[32 + 4 * 2] ^= 1; /* the offset of a tile */
                to_dev(in[count - 1].dev, slot, need);
                CUDA(gpu_combine(types[i], REDOP_SUM, operands, count, elems, 0, NULL, chunk_dev,
                                 &g->pack, out.dev, worst, g->workspace_dev, g->status_dev,
                                 g->stream));
                status = take_status(g);
                check(g, status == (how == MARKED ? 1u : 3u), "a lost operand: status %u", status);
                to_host(header, out.dev, 32);
                check(g,
                      codec_encoded_bytes(&g->pack, types[i], elems, header, 32, &header_need,
                                          &marked) &&
                          marked && header_need == 0,
                      "a lost operand does not mark the result");
                check(g, guard_intact(&out), "a lost operand: bytes beside the slot");
                /* the next encode is not touched by it */
                r.kinds = 0, r.count = 2, r.to = TO_SLOT;
                check_request(g, &r);
                for (uint32_t o = 0; o < count; o++) {
                    dev_free(in[o].dev);
                    free(in[o].elements);
                }
                dev_free(chunk_dev);
                guarded_free(&out);
                free(slot);
            }
}

/* ---- refusals ---- */

void test_refusals(struct gpu_test *g) {
    struct codec cast, none = codec_none();
    uint64_t elems = 4096, bytes = 4 * elems;
    void *a = dev_alloc(bytes), *slot = dev_alloc(2 * bytes);
    struct gpu_operand in[17] = {{GPU_CHUNK, a, 0, none}, {GPU_CHUNK, a, 0, none}};
    struct gpu_operand packed = {GPU_PIECE, slot, 2 * bytes, g->pack};
    char err[256];

    check(g, codec_parse("cast(bf16)", &cast, err, sizeof err), "%s", err);
    for (int i = 2; i < 17; i++)
        in[i] = in[0];
#define REFUSED(error, call) check(g, (call) == (error), "not refused as it should be: " #call)
    REFUSED(cudaErrorNotSupported, gpu_encode(&g->pack, DTYPE_I32, a, elems, slot, 2 * bytes,
                                              g->workspace_dev, g->status_dev, g->stream));
    REFUSED(cudaErrorNotSupported,
            gpu_decode(&cast, DTYPE_F64, slot, bytes, elems, a, g->status_dev, g->stream));
    REFUSED(cudaErrorNotSupported, gpu_combine(DTYPE_I64, REDOP_SUM, &packed, 1, elems, 0, NULL, a,
                                               NULL, NULL, 0, NULL, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_encode(&cast, DTYPE_F32, a, elems, slot, 2 * elems - 1, NULL,
                                              g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_encode(&g->pack, DTYPE_F32, a, elems, slot, 31,
                                              g->workspace_dev, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_encode(&none, DTYPE_F32, a, elems, slot, bytes - 1, NULL,
                                              g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_encode(&g->pack, DTYPE_F32, (char *)a + 1, elems, slot,
                                              bytes, g->workspace_dev, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_encode(&g->pack, DTYPE_F32, a, elems, (char *)slot + 32,
                                              bytes, g->workspace_dev, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue,
            gpu_encode(&g->pack, DTYPE_F32, a, elems, slot, bytes, NULL, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_encode(&g->pack, DTYPE_F32, a, UINT64_C(1) << 35, slot,
                                              bytes, g->workspace_dev, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue,
            gpu_decode(&g->pack, DTYPE_F32, slot, 31, elems, a, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_combine(DTYPE_F32, REDOP_SUM, in, 0, elems, 0, NULL, a, NULL,
                                               NULL, 0, NULL, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_combine(DTYPE_F32, REDOP_SUM, in, 17, elems, 0, NULL, a,
                                               NULL, NULL, 0, NULL, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_combine(DTYPE_F32, REDOP_SUM, in, 2, elems, 0, NULL, NULL,
                                               NULL, NULL, 0, NULL, g->status_dev, g->stream));
    REFUSED(cudaErrorInvalidValue, gpu_combine(DTYPE_F32, REDOP_SUM, in, 2, elems, 0, a, a, NULL,
                                               NULL, 0, NULL, g->status_dev, g->stream));
    REFUSED(cudaSuccess, gpu_encode(&g->pack, DTYPE_F32, a, 0, slot, 0, g->workspace_dev,
                                    g->status_dev, g->stream));
#undef REFUSED
    CUDA(cudaGetLastError());
    check(g, take_status(g) == 0, "a refused call set the status");
    dev_free(slot);
    dev_free(a);
}
