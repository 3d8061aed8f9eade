/*
 * gpu_speed_copy.cu: a copy as fast as the memory is, whose rate the benchmark compares with.
 */
#include <cstdint>

#include "kernels/gpu_speed.h"

namespace {

#define COPY_THREADS 512u
#define COPY_LOADS   4u /* of 16 bytes a thread, all on their way before the first is stored */

__global__ void __launch_bounds__(COPY_THREADS)
    copy_kernel(uint4 *to, const uint4 *from, uint64_t count) {
    uint64_t first = (uint64_t)blockIdx.x * COPY_THREADS * COPY_LOADS + threadIdx.x;
    uint4 v[COPY_LOADS];

#pragma unroll
    for (uint32_t i = 0; i < COPY_LOADS; i++)
        if (first + i * COPY_THREADS < count)
            v[i] = __ldcs(from + first + i * COPY_THREADS);
#pragma unroll
    for (uint32_t i = 0; i < COPY_LOADS; i++)
        if (first + i * COPY_THREADS < count)
            __stcs(to + first + i * COPY_THREADS, v[i]);
}

} // namespace

extern "C" cudaError_t gpu_speed_copy(void *to_dev, const void *from_dev, uint64_t bytes,
                                      cudaStream_t stream) {
    uint64_t count = bytes / 16, each = COPY_THREADS * COPY_LOADS;

    copy_kernel<<<(uint32_t)((count + each - 1) / each), COPY_THREADS, 0, stream>>>(
        (uint4 *)to_dev, (const uint4 *)from_dev, count);
    return cudaGetLastError();
}
