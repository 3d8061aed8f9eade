/*
 * protocol.h: the small kernels around the codecs, for C: copies of messages on one GPU, and what
 * keeps a lossless run honest when a message did not fit its slot.
 *
 * As in gpu.h, launchers only enqueue, and are legal while a stream is captured.
 *
 * One run of a plan:
 *
 *     gpu_begin(words) ... gpu_exchange(...) ... gpu_split(words), max over ranks, gpu_finish(...)
 *
 * Ranks of one process share the words: then split and maximum are left out.
 *
 * `words` is device memory of the rank: PROTOCOL_STATUS is the word that codecs set bits in
 * (gpu_status); the words behind it are those that ranks take the maximum of. What a piece needed
 * is counted in units of 32 bytes, which sizes of encodings are multiples of; 0: not known.
 */
#ifndef SLUICE_KERNELS_PROTOCOL_H
#define SLUICE_KERNELS_PROTOCOL_H

#include "kernels/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum protocol_word {
    PROTOCOL_STATUS,    /* GPU_OVERFLOW, GPU_MALFORMED: an or */
    PROTOCOL_OVERFLOW,  /* 0 or 1, from here on a maximum is the or */
    PROTOCOL_MALFORMED, /* 0 or 1 */
    PROTOCOL_NEEDS      /* the first of the needs */
};

#define PROTOCOL_NEED_UNIT 32u

/* From here to there; the ends do not overlap. */
struct protocol_copy {
    const void *from_dev;
    void *to_dev;
    uint64_t bytes;
};

/* The header of a slot, and the word that what it needed belongs in. */
struct protocol_need {
    const void *slot_dev;
    uint32_t word;
};

/* What is kept on the device from run to run. Zeroed once by its owner. */
struct protocol_state {
    uint64_t runs;      /* finished */
    uint32_t flagged;   /* 1: the result of the last run must not be used */
    uint32_t in_a_row;  /* runs flagged up to now */
    uint32_t due;       /* 1: in_a_row reached the limit: capture again with larger slots */
    uint32_t overflows; /* runs flagged in all */
};

/* What a run came to, for the host: written to pinned memory, `run` last. The words behind it, the
 * needs, are `words` in number. */
struct protocol_record {
    uint64_t run; /* which run it is of, from 1 */
    uint32_t overflow, malformed;
    uint32_t in_a_row, due;
    uint32_t overflows;
    uint32_t words;
    uint32_t need[];
};

/* Clears the words. */
cudaError_t gpu_begin(uint32_t *words_dev, uint32_t words, cudaStream_t stream);

/* Copies a number of slots at the same time, each of at most largest_bytes and aligned as slots
 * are, and notes needs. The tables are on the device; NULL where there are none. */
cudaError_t gpu_exchange(const struct protocol_copy *copies_dev, uint32_t copies,
                         uint64_t largest_bytes, const struct protocol_need *needs_dev,
                         uint32_t needs, uint32_t *words_dev, cudaStream_t stream);

/* Spreads the status over words of which a maximum can be taken. */
cudaError_t gpu_split(uint32_t *words_dev, cudaStream_t stream);

/* The end of a run: counts it, and writes what it came to into the state and into the record of a
 * ring, number run % ring. limit: flagged runs in a row that make a new capture due, 0: never. */
cudaError_t gpu_finish(const uint32_t *words_dev, uint32_t words, struct protocol_state *state_dev,
                       void *ring_dev, uint64_t record_bytes, uint32_t ring, uint32_t limit,
                       cudaStream_t stream);

/* Copies bytes at any address; the ends do not overlap unless they are the same. */
cudaError_t gpu_copy(void *to_dev, const void *from_dev, uint64_t bytes, cudaStream_t stream);

/* The same if *flag_dev is not 0. */
cudaError_t gpu_copy_if(const uint32_t *flag_dev, void *to_dev, const void *from_dev,
                        uint64_t bytes, cudaStream_t stream);

/* The same if *flag_dev is 0. */
cudaError_t gpu_copy_unless(const uint32_t *flag_dev, void *to_dev, const void *from_dev,
                            uint64_t bytes, cudaStream_t stream);

/* *at = the device's time in nanoseconds. */
cudaError_t gpu_stamp(uint64_t *at_dev, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
