/*
 * plain.cu: reductions of the types that only `none` takes: f64, and integers, which wrap. Sixteen
 * bytes a thread; the operators are those of reduce.c.
 */
#include "kernels/gpu.cuh"
#include "kernels/gpu_codec.cuh"

namespace {

#define THREADS 256u

#define F64_QUIET 0x7ff8000000000000ll

/* Sums of integers are those of their unsigned type. */
template <class V> constexpr bool is_real = false;
template <> constexpr bool is_real<double> = true;
template <class V> struct wrapping { using type = uint64_t; };
template <> struct wrapping<int32_t> { using type = uint32_t; };

__device__ __forceinline__ int64_t ordered(double d) {
    int64_t bits = __double_as_longlong(d);

    return bits < 0 ? bits ^ INT64_MAX : bits;
}

template <class V> __device__ __forceinline__ V combine_plain(enum redop op, V a, V b) {
    if constexpr (is_real<V>) {
        if (op == REDOP_SUM || op == REDOP_AVG)
            return __dadd_rn(a, b);
        if (a != a || b != b)
            return __longlong_as_double(F64_QUIET);
        return (op == REDOP_MIN) == (ordered(a) < ordered(b)) ? a : b;
    } else {
        using S = typename wrapping<V>::type;

        if (op == REDOP_SUM || op == REDOP_AVG)
            return (V)((S)a + (S)b);
        return (op == REDOP_MIN) == (a < b) ? a : b;
    }
}

template <class V> __device__ __forceinline__ V divide_plain(V sum, uint64_t by) {
    if constexpr (is_real<V>)
        return __ddiv_rn(sum, (double)by);
    else if constexpr (sizeof(V) == 1)
        return (V)(sum / by);
    else
        return (V)((int64_t)sum / (int64_t)by);
}

template <class V> __device__ __forceinline__ V close_plain(V sum) {
    if constexpr (is_real<V>)
        return sum != sum ? __longlong_as_double(F64_QUIET) : sum;
    else
        return sum;
}

/* The values of a thread. */
template <class V> struct plain_values {
    static constexpr uint32_t count = 16 / sizeof(V);
    union {
        V v[count];
        uint4 quad;
    };
};

template <class V>
__device__ __forceinline__ void load(const unsigned char *from, uint64_t first, uint64_t elems,
                                     plain_values<V> &p) {
    const V *at = (const V *)from + first;

    if (first + p.count <= elems && ((uintptr_t)at & 15) == 0) {
        p.quad = __ldcs((const uint4 *)at);
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < p.count; i++)
        p.v[i] = first + i < elems ? at[i] : V(0);
}

template <class V>
__device__ __forceinline__ void store(unsigned char *to, uint64_t first, uint64_t elems,
                                      const plain_values<V> &p) {
    V *at = (V *)to + first;

    if (to == NULL)
        return;
    if (first + p.count <= elems && ((uintptr_t)at & 15) == 0) {
        __stcs((uint4 *)at, p.quad);
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < p.count; i++)
        if (first + i < elems)
            at[i] = p.v[i];
}

template <class V>
__global__ void __launch_bounds__(THREADS) plain_kernel(const __grid_constant__ gpu_job job) {
    constexpr uint32_t count = plain_values<V>::count;
    const uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * count;
    plain_values<V> sum, next;

    if (first >= job.elems)
        return;
    load(job.in[0].data, first, job.elems, sum);
    for (uint32_t o = 1; o < job.count; o++) {
        load(job.in[o].data, first, job.elems, next);
#pragma unroll
        for (uint32_t i = 0; i < count; i++)
            sum.v[i] = combine_plain(job.op, sum.v[i], next.v[i]);
    }
    if (job.divide_by != 0)
#pragma unroll
        for (uint32_t i = 0; i < count; i++)
            sum.v[i] = divide_plain(sum.v[i], job.divide_by);
    if (!job.moved && job.acc == NULL)
#pragma unroll
        for (uint32_t i = 0; i < count; i++)
            sum.v[i] = close_plain(sum.v[i]);
    store(job.acc, first, job.elems, sum);
    store(job.chunk, first, job.elems, sum);
    store(job.slot, first, job.elems, sum);
}

template <class V> cudaError_t launch(const gpu_job &job) {
    const uint64_t each = THREADS * plain_values<V>::count;

    plain_kernel<V><<<(uint32_t)((job.elems + each - 1) / each), THREADS, 0, job.stream>>>(job);
    return cudaGetLastError();
}

} // namespace

cudaError_t plain_combine(const gpu_job &job) {
    return job.t == DTYPE_F64   ? launch<double>(job)
           : job.t == DTYPE_I32 ? launch<int32_t>(job)
           : job.t == DTYPE_I64 ? launch<int64_t>(job)
                                : launch<uint8_t>(job);
}
