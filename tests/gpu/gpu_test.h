/*
 * gpu_test.h: what the GPU tests share: buffers with guards around them, data that is hard on a
 * codec, and checks that count. A failed check is printed and the run goes on; a CUDA error ends
 * it.
 */
#ifndef SLUICE_TESTS_GPU_GPU_TEST_H
#define SLUICE_TESTS_GPU_GPU_TEST_H

#include "kernels/gpu.h"
#include "kernels/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu_test {
    const char *data_folder;
    bool small; /* for memory and race checkers, which slow kernels down a hundredfold */
    uint64_t checks, failures;
    cudaStream_t stream;
    struct codec pack;
    void *workspace_dev; /* for up to TEST_MAX_ELEMS */
    void *scratch_dev;   /* scratch_of */
    uint32_t *status_dev;
};

#define TEST_MAX_ELEMS (UINT64_C(1) << 22)

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof *(a))

#define CUDA(call) cuda_must(call, #call, __FILE__, __LINE__)
void cuda_must(cudaError_t e, const char *text, const char *file, int line);

/* Counts, and prints what is wrong when it is. Returns right. */
bool check(struct gpu_test *g, bool right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Device memory of exactly `bytes`, its end guarded by an allocation's end (which a memory checker
 * sees) and, behind `room` >= bytes, by a pattern that guard_intact() looks for. */
struct guarded {
    unsigned char *dev; /* at a multiple of 256, and `misaligned` bytes behind that */
    unsigned char *base;
    uint64_t bytes, before;
};
struct guarded guarded_alloc(uint64_t bytes, uint64_t misaligned);
bool guard_intact(const struct guarded *b);
void guarded_free(struct guarded *b);

/* Exactly these bytes, nothing around them. */
void *dev_alloc(uint64_t bytes);
/* The same with this content. */
void *dev_copy(const void *host, uint64_t bytes);
void dev_free(void *dev);
void to_host(void *host, const void *dev, uint64_t bytes);
void to_dev(void *dev, const void *host, uint64_t bytes);

void *host_alloc(uint64_t bytes);
/* Device memory that ends where `bytes` end, until the next call. */
void *scratch_of(struct gpu_test *g, uint64_t bytes);
/* Waits for the stream; the status word, which is then cleared. */
uint32_t take_status(struct gpu_test *g);

/* A check that the text is a codec. */
struct codec codec_of(struct gpu_test *g, const char *text);
/* A check that all bytes are the same; text says of what. */
void same(struct gpu_test *g, const void *got, const void *want, uint64_t bytes, const char *what,
          const char *text);

/* ---- data ---- */

uint64_t next_random(uint64_t *state);

enum pattern {
    PATTERN_BITS, /* random bits: NaN, infinities, everything */
    PATTERN_ZEROS,
    PATTERN_EQUAL,
    PATTERN_EXTREMES, /* largest and smallest in turn */
    PATTERN_TINY,     /* denormals, zeros of both signs */
    PATTERN_NARROW,   /* exponents of a few binades: no escapes */
    PATTERN_TOPS,     /* few values above the window: it hangs one lower */
    PATTERN_WIDE,     /* 4-bit codes */
    PATTERN_ESCAPES,  /* one in twenty far below */
    PATTERN_MANY,     /* up to seven of eight; f32 of 16 bits, where that does not go raw */
    PATTERN_TRAILING, /* f32 with few low bits; zero groups between */
    PATTERN_BELL,     /* like gradients */
    PATTERN_COUNT
};
const char *pattern_name(enum pattern p);
void fill(enum dtype t, enum pattern p, void *dst, uint64_t elems, uint64_t seed);

/* A data file, NULL when it is not there. */
void *read_data(const struct gpu_test *g, const char *name, uint64_t *bytes);

/* ---- the tests ---- */

void test_pieces(struct gpu_test *g);
void test_slots(struct gpu_test *g);
void test_malformed(struct gpu_test *g);
void test_large(struct gpu_test *g);
void test_combine(struct gpu_test *g);
void test_lost_operands(struct gpu_test *g);
void test_refusals(struct gpu_test *g);
void test_graphs(struct gpu_test *g);
void test_two_at_once(struct gpu_test *g);
void test_busy(struct gpu_test *g);
void test_values(struct gpu_test *g);
void test_value_reductions(struct gpu_test *g);
void test_plain_reductions(struct gpu_test *g);
void test_staged_reductions(struct gpu_test *g);
void test_value_slots(struct gpu_test *g);
void test_value_graphs(struct gpu_test *g);
void test_bounded_pieces(struct gpu_test *g);
void test_bounded_slots(struct gpu_test *g);
void test_bounded_malformed(struct gpu_test *g);
void test_bounded_graphs(struct gpu_test *g);
void test_states(struct gpu_test *g);
void test_state_slots(struct gpu_test *g);
void test_state_malformed(struct gpu_test *g);
void test_state_reductions(struct gpu_test *g);

/* occupy.cu: holds `blocks` blocks on the device, shared_bytes each, until *go (mapped host memory)
 * is not 0, but at most some seconds. */
cudaError_t occupy(uint32_t blocks, uint32_t shared_bytes, volatile uint32_t *go_dev,
                   cudaStream_t stream);

#endif
