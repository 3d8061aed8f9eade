/*
 * gpu_speed.h: how fast a codec is on the GPU, alone and fused with a sum. The caller prints.
 */
#ifndef SLUICE_KERNELS_GPU_SPEED_H
#define SLUICE_KERNELS_GPU_SPEED_H

#include "kernels/gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GPU_SPEED_LEAST_SAMPLES 20

enum gpu_speed_kernel {
    GPU_SPEED_ENCODE,            /* chunk -> piece */
    GPU_SPEED_DECODE,            /* piece -> chunk */
    GPU_SPEED_DECODE_ADD,        /* chunk + piece -> chunk */
    GPU_SPEED_DECODE_ADD_ENCODE, /* chunk + piece -> piece */
    GPU_SPEED_THREE_ADD_ENCODE,  /* chunk + three pieces -> piece */
    GPU_SPEED_KERNELS
};

struct gpu_speed_device {
    char name[256];
    int driver, runtime; /* 13000 is 13.0 */
    double copy_gbps;    /* what a large copy reads and writes a second, the better of two ways */
};

struct gpu_speed_rate {
    uint64_t moved_bytes; /* least to be read and written: 0 where there is no such kernel */
    double gbps;          /* median, 10^9 raw bytes a second */
    double percent;       /* of what the copy rate allows for moved_bytes */
};

struct gpu_speed {
    uint64_t raw_bytes, encoded_bytes;
    double ratio; /* encoded_bytes / raw_bytes */
    bool exact;   /* decoding gave back every bit */
    struct gpu_speed_rate rates[GPU_SPEED_KERNELS];
};

const char *gpu_speed_kernel_name(enum gpu_speed_kernel k);

/* Names the current device and measures its copy rate. False, with the reason, where there is no
 * device or something fails. */
bool gpu_speed_open(struct gpu_speed_device *d, char *err, size_t err_bytes);

/* Measures raw_bytes of the values repeated. Launches are captured in a graph, as the runtime
 * captures them, and rotate over buffers that together are many times the L2 cache; a sample is one
 * replay, divided by its launches. True, with no rates, for a codec and type without kernels. */
bool gpu_speed_run(const struct gpu_speed_device *d, const struct codec *c, enum dtype t,
                   const void *values, uint64_t values_bytes, uint64_t raw_bytes, int samples,
                   struct gpu_speed *out, char *err, size_t err_bytes);

/* gpu_speed_copy.cu: a copy by plain loads and stores; pointers and bytes are multiples of 16. */
cudaError_t gpu_speed_copy(void *to_dev, const void *from_dev, uint64_t bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
