/*
 * codec_bench.c: see codec_bench.h. Each run encodes, decodes and copies once; a first run, not
 * counted, brings the pages in. Time is the thread's own, so that what else runs on the machine
 * does not count.
 */
#include "kernels/codec_bench.h"

#include "kernels/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct buffers {
    void *slot, *scratch, *back;
    void *now[2], *next[2]; /* by enum codec_side */
    double *encode_s, *decode_s, *copy_s;
};

static double now_s(void) {
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_gbps(double *seconds, int runs, uint64_t bytes) {
    double median;

    qsort(seconds, (size_t)runs, sizeof *seconds, compare_doubles);
    median = runs % 2 != 0 ? seconds[runs / 2] : (seconds[runs / 2 - 1] + seconds[runs / 2]) / 2;
    return median > 0 ? 1e-9 * (double)bytes / median : 0;
}

static bool measure(const struct codec *c, enum dtype t, const void *src, uint64_t elems, int runs,
                    struct codec_bench *out, struct buffers *b, char *err, size_t err_bytes) {
    uint64_t slot_bytes = codec_worst_bytes(c, t, elems);
    struct codec_state from = {b->now[CODEC_ENCODER], b->next[CODEC_ENCODER], 0};
    struct codec_state to = {b->now[CODEC_DECODER], b->next[CODEC_DECODER], 0};

    for (int run = -1; run < runs; run++) {
        double start = now_s(), encoded, decoded, copied;
        const char *reason;

        codec_encode_next(c, t, src, elems, b->slot, slot_bytes, &out->encoded_bytes, b->scratch,
                          &from);
        encoded = now_s();
        if (codec_decode_next(c, t, b->slot, slot_bytes, elems, b->back, b->scratch, &reason,
                              &to) != CODEC_OK) {
            snprintf(err, err_bytes, "internal error: the decoder refuses the encoding: %s",
                     reason);
            return false;
        }
        decoded = now_s();
        out->exact = memcmp(b->back, src, out->raw_bytes) == 0;
        copied = now_s();
        memcpy(b->back, src, out->raw_bytes);
        if (run < 0)
            continue;
        b->copy_s[run] = now_s() - copied;
        b->encode_s[run] = encoded - start;
        b->decode_s[run] = decoded - encoded;
    }
    out->encode_gbps = median_gbps(b->encode_s, runs, out->raw_bytes);
    out->decode_gbps = median_gbps(b->decode_s, runs, out->raw_bytes);
    out->copy_gbps = median_gbps(b->copy_s, runs, out->raw_bytes);
    out->ratio = (double)out->encoded_bytes / (double)out->raw_bytes;
    out->overflowed = out->encoded_bytes > out->slot_bytes;
    return true;
}

/* Both ends' state before a first call; false: no memory. */
static bool make_state(const struct codec *c, enum dtype t, uint64_t elems, struct buffers *b,
                       struct codec_bench *out) {
    for (int side = CODEC_ENCODER; side <= CODEC_DECODER; side++) {
        uint64_t bytes = codec_state_bytes(c, t, elems, (enum codec_side)side);

        b->now[side] = malloc(bytes + 1);
        b->next[side] = malloc(bytes + 1);
        if (b->now[side] == NULL || b->next[side] == NULL)
            return false;
        out->state_bytes[side] = bytes;
        codec_state_init(c, t, elems, (enum codec_side)side, 0, b->now[side]);
    }
    return true;
}

bool codec_bench_run(const struct codec *c, enum dtype t, const void *src, uint64_t elems, int runs,
                     struct codec_bench *out, char *err, size_t err_bytes) {
    struct buffers b = {0};
    uint64_t worst = codec_worst_bytes(c, t, elems);
    bool ok = false;

    memset(out, 0, sizeof *out);
    if (!codec_check(c, t, err, err_bytes))
        return false;
    if (elems == 0 || runs < 1 || worst == CODEC_SIZE_ERROR) {
        snprintf(err, err_bytes, "nothing to measure: too few or too many elements or runs");
        return false;
    }
    out->raw_bytes = elems * dtype_bytes(t);
    out->slot_bytes = codec_slot_bytes(c, t, elems);
    b.slot = malloc(worst);
    b.scratch = malloc(codec_scratch_bytes(c, t, elems) + 1);
    b.back = malloc(out->raw_bytes);
    b.encode_s = calloc((size_t)runs, sizeof(double));
    b.decode_s = calloc((size_t)runs, sizeof(double));
    b.copy_s = calloc((size_t)runs, sizeof(double));
    if (b.slot == NULL || b.scratch == NULL || b.back == NULL || b.encode_s == NULL ||
        b.decode_s == NULL || b.copy_s == NULL || !make_state(c, t, elems, &b, out))
        snprintf(err, err_bytes, "not enough memory for %llu bytes",
                 (unsigned long long)(worst + out->raw_bytes));
    else
        ok = measure(c, t, src, elems, runs, out, &b, err, err_bytes);
    for (int side = CODEC_ENCODER; side <= CODEC_DECODER; side++) {
        free(b.next[side]);
        free(b.now[side]);
    }
    free(b.copy_s);
    free(b.decode_s);
    free(b.encode_s);
    free(b.back);
    free(b.scratch);
    free(b.slot);
    return ok;
}

/* ---- made-up values ---- */

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The sum of four uniform numbers, near enough to a bell curve, in -2..2. */
static float next_bell(uint64_t *state) {
    uint64_t r = next_random(state);
    int32_t sum = (int32_t)(r & 0xffff) + (int32_t)(r >> 16 & 0xffff) +
                  (int32_t)(r >> 32 & 0xffff) + (int32_t)(r >> 48) - 2 * 0xffff;

    return (float)sum / 65536.0f;
}

void codec_bench_generate(enum dtype t, void *dst, uint64_t elems, uint64_t seed) {
    uint64_t state = seed;
    float width = 0;

    for (uint64_t i = 0; i < elems; i++) {
        float v;

        if (i % 4096 == 0) { /* a new layer: 2^-4 to 2^-19, one in sixteen unused */
            uint64_t r = next_random(&state);

            width = (r & 15) == 0 ? 0 : 1.0f / (float)(UINT32_C(16) << (r >> 4 & 15));
        }
        v = width * next_bell(&state);
        switch (t) {
        case DTYPE_F32:
            ((any_f32 *)dst)[i] = v;
            break;
        case DTYPE_F16:
            ((any_u16 *)dst)[i] = f16_from_f32(v);
            break;
        case DTYPE_BF16:
            ((any_u16 *)dst)[i] = bf16_from_f32(v);
            break;
        case DTYPE_F64:
            ((any_f64 *)dst)[i] = (double)v;
            break;
        case DTYPE_I32:
            ((any_i32 *)dst)[i] = (int32_t)(v * 1048576.0f);
            break;
        case DTYPE_I64:
            ((any_i64 *)dst)[i] = (int64_t)(v * 1048576.0f);
            break;
        case DTYPE_U8:
            ((any_u8 *)dst)[i] = (uint8_t)next_random(&state);
            break;
        case DTYPE_COUNT:
            break;
        }
    }
}
