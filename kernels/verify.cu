/*
 * verify.cu: whether results are right, element by element, in double precision or in integers. No
 * speed is owed here, and no code is shared with what it judges.
 */
#include <cmath>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/gpu_verify.h"

#define THREADS 256

/* What is known of a type: its C++ name, whether it is floating-point, and how far one rounding may
 * move a value, as a fraction of it. */
template <enum dtype T> struct format;
template <> struct format<DTYPE_F32> {
    typedef float type;
    static constexpr bool floats = true;
    static constexpr double step = 0x1p-24, tiny = 0x1p-149, largest = 3.4028234663852886e38;
};
template <> struct format<DTYPE_F16> {
    typedef __half type;
    static constexpr bool floats = true;
    static constexpr double step = 0x1p-11, tiny = 0x1p-24, largest = 65504;
};
template <> struct format<DTYPE_BF16> {
    typedef __nv_bfloat16 type;
    static constexpr bool floats = true;
    static constexpr double step = 0x1p-8, tiny = 0x1p-133, largest = 3.3895313892515355e38;
};
template <> struct format<DTYPE_F64> {
    typedef double type;
    static constexpr bool floats = true;
    static constexpr double step = 0x1p-53, tiny = 0x1p-1074, largest = 1.7976931348623157e308;
};
template <> struct format<DTYPE_I32> {
    typedef int32_t type;
    static constexpr bool floats = false;
    static constexpr double step = 0, tiny = 0, largest = 0;
};
template <> struct format<DTYPE_I64> {
    typedef int64_t type;
    static constexpr bool floats = false;
    static constexpr double step = 0, tiny = 0, largest = 0;
};
template <> struct format<DTYPE_U8> {
    typedef uint8_t type;
    static constexpr bool floats = false;
    static constexpr double step = 0, tiny = 0, largest = 0;
};

__device__ double to_double(float x) {
    return x;
}
__device__ double to_double(double x) {
    return x;
}
__device__ double to_double(__half x) {
    return __half2float(x);
}
__device__ double to_double(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
__device__ double to_double(int32_t x) {
    return x;
}
__device__ double to_double(int64_t x) {
    return (double)x;
}
__device__ double to_double(uint8_t x) {
    return x;
}

/* ---- different bits ---- */

template <typename word>
__global__ void count_different(const word *a, const word *b, uint64_t elems,
                                unsigned long long *wrong) {
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    unsigned long long mine = 0;

    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < elems; i += step)
        mine += a[i] != b[i];
    if (mine > 0)
        atomicAdd(wrong, mine);
}

static unsigned grid_for(uint64_t elems) {
    uint64_t blocks = (elems + THREADS - 1) / THREADS;

    return (unsigned)(blocks < 2048 ? blocks : 2048);
}

cudaError_t gpu_count_different(enum dtype t, const void *a_dev, const void *b_dev, uint64_t elems,
                                unsigned long long *wrong_dev, cudaStream_t stream) {
    unsigned grid = grid_for(elems);

    if (elems == 0)
        return cudaSuccess;
    switch (dtype_bytes(t)) {
    case 1:
        count_different<<<grid, THREADS, 0, stream>>>((const uint8_t *)a_dev,
                                                      (const uint8_t *)b_dev, elems, wrong_dev);
        break;
    case 2:
        count_different<<<grid, THREADS, 0, stream>>>((const uint16_t *)a_dev,
                                                      (const uint16_t *)b_dev, elems, wrong_dev);
        break;
    case 4:
        count_different<<<grid, THREADS, 0, stream>>>((const uint32_t *)a_dev,
                                                      (const uint32_t *)b_dev, elems, wrong_dev);
        break;
    default:
        count_different<<<grid, THREADS, 0, stream>>>((const uint64_t *)a_dev,
                                                      (const uint64_t *)b_dev, elems, wrong_dev);
        break;
    }
    return cudaGetLastError();
}

/* ---- reductions ---- */

/* Floating-point. A sum that leaves the range of the type on the way may become infinite or NaN in
 * one order and not in another: nothing can be said of it. */
template <enum dtype T>
__device__ bool float_right(enum redop op, const typename format<T>::type *in, uint64_t stride,
                            uint32_t ranks, double got) {
    double sum = 0, size = 0, low = INFINITY, high = -INFINITY;
    bool nan = false;

    for (uint32_t r = 0; r < ranks; r++) {
        double x = to_double(in[r * stride]);

        nan |= std::isnan(x);
        sum += x;
        size += fabs(x);
        low = fmin(low, x);
        high = fmax(high, x);
    }
    if (op == REDOP_MIN || op == REDOP_MAX)
        return nan || got == (op == REDOP_MIN ? low : high);
    if (nan || !(size <= format<T>::largest))
        return true;
    if (op == REDOP_AVG) {
        sum /= ranks;
        size /= ranks;
    }
    return fabs(got - sum) <= (ranks + 1) * (format<T>::step * size + format<T>::tiny);
}

/* Integers wrap around. An average may be rounded either way. */
template <enum dtype T>
__device__ bool integer_right(enum redop op, const typename format<T>::type *in, uint64_t stride,
                              uint32_t ranks, typename format<T>::type got) {
    typedef typename format<T>::type type;
    uint64_t sum = 0;
    type low = in[0], high = in[0];
    int64_t off;

    for (uint32_t r = 0; r < ranks; r++) {
        type x = in[r * stride];

        sum += (uint64_t)x;
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    if (op == REDOP_MIN || op == REDOP_MAX)
        return got == (op == REDOP_MIN ? low : high);
    if (op == REDOP_SUM)
        return got == (type)sum;
    off = (int64_t)got - (int64_t)(type)sum / (int64_t)ranks;
    return off >= -1 && off <= 1;
}

template <enum dtype T>
__global__ void count_no_reduction(enum redop op, const typename format<T>::type *inputs,
                                   uint64_t stride, uint32_t ranks,
                                   const typename format<T>::type *got, uint64_t elems,
                                   unsigned long long *wrong) {
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    unsigned long long mine = 0;

    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < elems; i += step) {
        if constexpr (format<T>::floats)
            mine += !float_right<T>(op, inputs + i, stride, ranks, to_double(got[i]));
        else
            mine += !integer_right<T>(op, inputs + i, stride, ranks, got[i]);
    }
    if (mine > 0)
        atomicAdd(wrong, mine);
}

template <enum dtype T>
static void launch(enum redop op, const void *inputs, uint64_t stride, uint32_t ranks,
                   const void *got, uint64_t elems, unsigned long long *wrong,
                   cudaStream_t stream) {
    typedef typename format<T>::type type;

    count_no_reduction<T><<<grid_for(elems), THREADS, 0, stream>>>(
        op, (const type *)inputs, stride, ranks, (const type *)got, elems, wrong);
}

cudaError_t gpu_count_no_reduction(enum dtype t, enum redop op, const void *inputs_dev,
                                   uint64_t stride_elems, uint32_t ranks, const void *got_dev,
                                   uint64_t elems, unsigned long long *wrong_dev,
                                   cudaStream_t stream) {
    if (elems == 0)
        return cudaSuccess;
    switch (t) {
#define TYPE(ID, name, aliases, bytes, is_float)                                           \
    case DTYPE_##ID:                                                                       \
        launch<DTYPE_##ID>(op, inputs_dev, stride_elems, ranks, got_dev, elems, wrong_dev, \
                           stream);                                                        \
        break;
#include "kernels/types.def"
    case DTYPE_COUNT:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
