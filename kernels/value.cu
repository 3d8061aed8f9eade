/*
 * value.cu: reductions, and encoding and decoding as reductions of one operand, with `cast` and
 * `quant` on either side (value.cuh has the parts, FORMAT.md the bytes). Memory is touched once.
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

enum shape { MOVED, PAIR, MANY }; /* PAIR: two of 16 bits, added as such */

/* An operand that is no accumulator as elements. */
template <enum dtype T>
__device__ __forceinline__ void read_input(const gpu_input &in, const span &at, share<T> &s) {
    if (in.kind == GPU_CHUNK)
        read_wide<T>(in.data + at.first() * element<T>::bytes, at.count, at.lane, s);
    else if (in.wire.form == GPU_FORM_CAST)
        read_cast<T>(in.wire, in.data, at, s);
    else
        read_quant<T>(in.wire, in.data, at, s);
}

template <class Value>
__device__ __forceinline__ void take(enum redop op, bool first, float (&sum)[32], Value value) {
    if (first) {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sum[i] = value(i);
    } else if (op == REDOP_SUM || op == REDOP_AVG) {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sum[i] = __fadd_rn(sum[i], value(i));
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sum[i] = combine(op, sum[i], value(i));
    }
}

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

            read_input<T>(job.in[o], at, s);
            take(job.op, o == 0, sum, [&](uint32_t i) { return value_at<T>(s, i); });
        }
    }
    if (job.divide_by != 0) {
        const float by = (float)job.divide_by;

#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sum[i] = __fdiv_rn(sum[i], by);
    }
}

template <enum dtype T>
__device__ __forceinline__ void write_result(const gpu_job &job, const span &at, uint32_t warp,
                                             const share<T> &s, chunk_largest &largest) {
    if (job.chunk != NULL)
        write_wide<T>(job.chunk + at.first() * element<T>::bytes, at.count, at.lane, s);
    if (job.slot == NULL)
        return;
    if (job.wire.form == GPU_FORM_RAW)
        write_wide<T>(job.slot + at.first() * element<T>::bytes, at.count, at.lane, s);
    else if (job.wire.form == GPU_FORM_CAST)
        write_cast<T>(job.wire, job.slot, at, s);
    else
        write_quant<T>(job.wire, job.slot, at, warp, s, largest);
}

template <enum dtype T, enum shape SHAPE>
__global__ void __launch_bounds__(32 * VALUE_WARPS)
    value_kernel(const __grid_constant__ gpu_job job) {
    __shared__ chunk_largest largest;
    const uint32_t warp = threadIdx.x / 32, group = blockIdx.x * (blockDim.x / 32) + warp;
    const uint64_t first = (uint64_t)group * GROUP;
    /* warps past the end stay: they take part in the block's barrier */
    const span at = {group, threadIdx.x % 32,
                     first >= job.elems ? 0 : (uint32_t)min((uint64_t)GROUP, job.elems - first)};
    share<T> s;

    if (SHAPE == MOVED) {
        read_input<T>(job.in[0], at, s);
    } else if (SHAPE == PAIR) {
        share<T> other;

#pragma unroll 1
        for (uint32_t o = 0; o < 2; o++) {
            read_input<T>(job.in[o], at, s);
            if (o == 0)
                other = s;
        }
        reduce_two<T>(job.op, (float)job.divide_by, other, s);
        s = other;
    } else {
        float sum[32];

        reduce_many<T>(job, at, sum);
        if (job.acc != NULL) {
            share<DTYPE_F32> acc;

#pragma unroll
            for (uint32_t i = 0; i < 32; i++)
                acc.w[i] = __float_as_uint(sum[i]);
            write_wide<DTYPE_F32>(job.acc + 4 * at.first(), at.count, at.lane, acc);
            return;
        }
        round_values<T>(sum, s);
    }
    write_result<T>(job, at, warp, s, largest);
}

/* Warps of a block: with a slot of odd blocks, as many as hold whole ones. */
uint32_t warps_for(const gpu_job &job) {
    uint32_t chunks = job.wire.block / 32;

    if (job.slot == NULL || job.wire.form != GPU_FORM_QUANT || job.wire.block_shift != 0)
        return VALUE_WARPS;
    return chunks == 5 || chunks == 7 ? chunks : 6; /* 3 and 6 */
}

template <enum dtype T> cudaError_t launch(const gpu_job &job) {
    uint32_t warps = warps_for(job), groups = (uint32_t)((job.elems + GROUP - 1) / GROUP);
    uint32_t blocks = (groups + warps - 1) / warps;
    bool pair = T != DTYPE_F32 && job.count == 2 && job.acc == NULL && job.in[0].kind != GPU_ACC &&
                job.in[1].kind != GPU_ACC;

    if (job.moved)
        value_kernel<T, MOVED><<<blocks, 32 * warps, 0, job.stream>>>(job);
    else if (pair)
        value_kernel<T, T == DTYPE_F32 ? MANY : PAIR><<<blocks, 32 * warps, 0, job.stream>>>(job);
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
