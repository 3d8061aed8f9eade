/*
 * gpu_verify.h: counts wrong elements where the data is, for benchmarks and tests.
 *
 * Each adds what it finds to *wrong_dev, which its owner clears. stream last, nothing else waits.
 */
#ifndef SLUICE_KERNELS_GPU_VERIFY_H
#define SLUICE_KERNELS_GPU_VERIFY_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "kernels/dtype.h"

/* Elements whose bits differ. */
cudaError_t gpu_count_different(enum dtype t, const void *a_dev, const void *b_dev, uint64_t elems,
                                unsigned long long *wrong_dev, cudaStream_t stream);

/*
 * Elements of `got` that are no reduction of the same element of `ranks` inputs, input r starting
 * at inputs_dev + r * stride_elems. The order of a sum is not known, so a sum of floating-point
 * numbers may be off by what `ranks` roundings to the type can do; all else must be right to the
 * bit.
 */
cudaError_t gpu_count_no_reduction(enum dtype t, enum redop op, const void *inputs_dev,
                                   uint64_t stride_elems, uint32_t ranks, const void *got_dev,
                                   uint64_t elems, unsigned long long *wrong_dev,
                                   cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
