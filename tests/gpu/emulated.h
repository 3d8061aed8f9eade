/*
 * emulated.h: a GPU that is not there. Enough of the CUDA runtime and of our launchers, on the C
 * reference, to run whole schedules as graphs on a machine without a device: to find wrong
 * addresses (with the sanitizers), wrong order and wrong protocol, not to test kernels.
 *
 * What is issued runs at once, or is recorded while its stream is captured. In a capture every
 * launch says what memory it reads and writes, and two launches that touch the same bytes, one of
 * them writing, must be ordered by streams and events: a wait that is missing ends the program.
 */
#ifndef SLUICE_TESTS_GPU_EMULATED_H
#define SLUICE_TESTS_GPU_EMULATED_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

enum touch_kind {
    TOUCH_READ,
    TOUCH_WRITE,
    TOUCH_SHARED /* words that launches set bits of, side by side */
};

struct touch {
    const void *at;
    uint64_t bytes;
    enum touch_kind kind;
};

#define MOST_TOUCHES 64

/* A launch: what it is called with is copied. touches: more of them than MOST_TOUCHES in parts. */
cudaError_t emulated_launch(cudaStream_t stream, void (*body)(void *args), const void *args,
                            size_t bytes, const struct touch *touches, size_t count);

#endif
