/*
 * value.cu: reductions, and encoding and decoding as reductions of one operand, with `cast` and
 * `quant` on either side (cast.cuh and quant.cuh have the parts, FORMAT.md the bytes). Memory is
 * touched once.
 *
 *     bytes moved a raw byte, f32 and bf16:        cast to 16 bits   1 + 1/2
 *                                                  cast to 8 bits    1 + 1/4      1 + 1/2
 *                                                  quant(8, 64)      1 + 17/64    1 + 17/32
 *     decode and add to a chunk: one more, and so on.
 *
 * A warp has a group of 1,024 elements and needs nothing of others, but for the scales of blocks of
 * quant that do not divide a group: then a block of threads has as many warps as make whole blocks
 * of quant, and the largest magnitudes go through shared memory.
 *
 * Every element is decoded to the type, as on the CPU, before it is added.
 */
#include "kernels/value.cuh"

namespace {

enum shape { MOVED, PAIR, MANY }; /* PAIR: two to elements, those of 16 bits added as such */

template <enum dtype T>
__device__ __forceinline__ void reduce_many(const gpu_job &job, const span &at, float (&sum)[32]) {
#pragma unroll 1
    for (uint32_t o = 0; o < job.count; o++) {
        if (job.in[o].kind == GPU_ACC) {
            share<DTYPE_F32> s;

            read_wide<DTYPE_F32>(job.in[o].data + 4 * at.first(), at.count, at.lane, s);
            take(job.op, o == 0, sum, [&](uint32_t i) { return __uint_as_float(s.w[i]); });
        } else {
            share<T> s;

            read_input<T, false>(job.in[o], at, s);
            take(job.op, o == 0, sum, [&](uint32_t i) { return value_at<T>(s, i); });
        }
    }
    divide(job.divide_by, sum);
}

/* Both on their way at once, when the first is a chunk. */
template <enum dtype T>
__device__ __forceinline__ void read_both(const gpu_job &job, const span &at, share<T> &a,
                                          share<T> &b) {
    if (T == DTYPE_F32 && job.in[0].kind == GPU_CHUNK) {
        wide_loads l;

        start_wide(job.in[0].data + 4 * at.first(), at.count, at.lane, l);
        read_input<T, false>(job.in[1], at, b);
        finish_wide(l, at.lane, (share<DTYPE_F32> &)a);
    } else {
        read_input<T, false>(job.in[0], at, a);
        read_input<T, false>(job.in[1], at, b);
    }
}

/* On a multiprocessor, so that enough of memory is on its way. */
template <enum dtype T, shape SHAPE>
constexpr int least_blocks = SHAPE == MANY || T == DTYPE_F32 ? 3
                             : SHAPE == PAIR                 ? 4
                                                             : 5;

template <enum dtype T, shape SHAPE>
__global__ void __launch_bounds__(32 * VALUE_WARPS, least_blocks<T, SHAPE>)
    value_kernel(const __grid_constant__ gpu_job job) {
    __shared__ chunk_largest largest;
    const uint32_t warp = threadIdx.x / 32, group = blockIdx.x * (blockDim.x / 32) + warp;
    const uint64_t first = (uint64_t)group * GROUP;
    /* warps past the end stay: they take part in the block's barrier */
    const span at = {group, threadIdx.x % 32,
                     first >= job.elems ? 0 : (uint32_t)min((uint64_t)GROUP, job.elems - first)};
    share<T> s;

    if (SHAPE == MOVED) {
        read_input<T, true>(job.in[0], at, s);
    } else if (SHAPE == PAIR) {
        share<T> other;

        read_both<T>(job, at, other, s);
        reduce_two<T>(job.op, (float)job.divide_by, other, s);
        s = other;
    } else {
        float sum[32];

        prefetch_inputs(job, at);
        reduce_many<T>(job, at, sum);
        if (job.acc != NULL) {
            write_sums(job.acc, at, sum);
            return;
        }
        round_values<T>(sum, s);
    }
    write_result<T>(job, at, warp, s, largest);
}

template <enum dtype T> cudaError_t launch(const gpu_job &job) {
    uint32_t warps = value_warps(job), groups = (uint32_t)((job.elems + GROUP - 1) / GROUP);
    uint32_t blocks = (groups + warps - 1) / warps;
    bool pair =
        job.count == 2 && job.acc == NULL && job.in[0].kind != GPU_ACC && job.in[1].kind != GPU_ACC;

    if (job.moved)
        value_kernel<T, MOVED><<<blocks, 32 * warps, 0, job.stream>>>(job);
    else if (pair)
        value_kernel<T, PAIR><<<blocks, 32 * warps, 0, job.stream>>>(job);
    else
        value_kernel<T, MANY><<<blocks, 32 * warps, 0, job.stream>>>(job);
    return cudaGetLastError();
}

} // namespace

cudaError_t value_combine(const gpu_job &job) {
    return job.t == DTYPE_BF16  ? launch<DTYPE_BF16>(job)
           : job.t == DTYPE_F16 ? launch<DTYPE_F16>(job)
                                : launch<DTYPE_F32>(job);
}
