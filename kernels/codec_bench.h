/*
 * codec_bench.h: how fast a codec is on this processor, one core, and how small it makes data.
 * The caller prints.
 */
#ifndef SLUICE_KERNELS_CODEC_BENCH_H
#define SLUICE_KERNELS_CODEC_BENCH_H

#include "kernels/codec.h"

struct codec_bench {
    uint64_t raw_bytes;      /* elems elements */
    uint64_t slot_bytes;     /* the default slot, what a schedule without a learned budget sends */
    uint64_t encoded_bytes;  /* what the data needed */
    uint64_t state_bytes[2]; /* what each end remembers, by enum codec_side */
    double ratio;            /* encoded_bytes / raw_bytes */
    /* Medians over the runs, in 10^9 bytes of raw data a second of processor time. */
    double encode_gbps, decode_gbps;
    double copy_gbps; /* memcpy of the raw bytes in the same run: bytes copied a second */
    bool exact;       /* decoding gave back every bit */
    bool overflowed;  /* the data did not fit the default slot; a worst-case slot was used */
};

/* Encodes and decodes elems > 0 elements `runs` times (at least 1) each. A codec with state always
 * does its first call, and writes the state of the next. False, with a message, when the codec does
 * not take the type, memory is short or a decoder refuses what its encoder made. */
bool codec_bench_run(const struct codec *c, enum dtype t, const void *src, uint64_t elems, int runs,
                     struct codec_bench *out, char *err, size_t err_bytes);

/* Fills dst with made-up values of the type that look like gradients: a bell curve whose width
 * changes slowly, a few groups all zero. The same values for the same seed on every machine. */
void codec_bench_generate(enum dtype t, void *dst, uint64_t elems, uint64_t seed);

#endif
