/*
 * mixed.cu: reductions in any mix of codecs: packed pieces beside quantised ones, several types on
 * the wire, one codec in and another out. Everything the other files do in registers, in one
 * function for all forms. It is for plans that change the codec between their stages; its registers
 * spill, so it is not as fast as what is made for one form.
 *
 * Memory is touched once all the same, and no workspace is needed but that of the slot.
 */
#include "kernels/pack_encode.cuh"
#include "kernels/packed_value.cuh"
#include "kernels/value.cuh"

namespace {

/* ---- f32 as `pack` holds it, and as the others do ---- */

/* Quads of neighbours in the order of 128 a load -> eight neighbours a lane, a row at a time. */
__device__ __forceinline__ void to_wide(share<DTYPE_F32> &s, uint32_t lane) {
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        uint32_t w[8];

#pragma unroll
        for (uint32_t j = 0; j < 8; j++) {
            uint32_t from = (2 * lane + j / 4) % 32;
            uint32_t low = __shfl_sync(ALL_LANES, s.w[8 * r + j % 4], from);
            uint32_t high = __shfl_sync(ALL_LANES, s.w[8 * r + 4 + j % 4], from);

            w[j] = lane < 16 ? low : high;
        }
#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            s.w[8 * r + j] = w[j];
    }
}

__device__ __forceinline__ void from_wide(share<DTYPE_F32> &s, uint32_t lane) {
#pragma unroll
    for (uint32_t r = 0; r < VALUE_ROWS; r++) {
        uint32_t w[8];

#pragma unroll
        for (uint32_t j = 0; j < 8; j++) {
            uint32_t from = j / 4 * 16 + lane / 2;
            uint32_t even = __shfl_sync(ALL_LANES, s.w[8 * r + j % 4], from);
            uint32_t odd = __shfl_sync(ALL_LANES, s.w[8 * r + 4 + j % 4], from);

            w[j] = lane % 2 == 0 ? even : odd;
        }
#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            s.w[8 * r + j] = w[j];
    }
}

/* ---- operands ---- */

template <enum dtype T, enum dtype W>
__device__ __forceinline__ bool read_cast_pack(const gpu_job &job, const gpu_input &in,
                                               const pack_layout &layout, const span &at,
                                               pack_patch &patch, share<T> &s) {
    share<W> x;

    if (!read_packed<W>(job, in, layout, at, patch, x))
        return false;
    convert<W, T>(x, s);
    return true;
}

/* An operand that is no accumulator as elements; false when it was lost. */
template <enum dtype T>
__device__ __forceinline__ bool read_any(const gpu_job &job, const gpu_input &in,
                                         const pack_layout &layout, const span &at,
                                         pack_patch &patch, share<T> &s) {
    if (in.kind == GPU_PIECE && in.wire.form == GPU_FORM_PACK) {
        bool right = read_packed<T>(job, in, layout, at, patch, s);

        if constexpr (T == DTYPE_F32)
            to_wide(s, at.lane);
        return right;
    }
    if (in.kind == GPU_PIECE && in.wire.form == GPU_FORM_CAST_PACK)
        return in.wire.type == WIRE_BF16
                   ? read_cast_pack<T, DTYPE_BF16>(job, in, layout, at, patch, s)
                   : read_cast_pack<T, DTYPE_F16>(job, in, layout, at, patch, s);
    read_input<T, true>(in, at, s);
    return true;
}

/* The sums, written when they are what is wanted, and rounded; or what is moved. False when an
 * operand was lost. */
template <enum dtype T>
__noinline__ __device__ bool reduce_mixed(const gpu_job &job, const pack_layout &layout,
                                          const span at, pack_patch &patch, share<T> &s) {
    float sum[32];

#pragma unroll 1
    for (uint32_t o = 0; o < job.count; o++) {
        if (job.in[o].kind == GPU_ACC) {
            share<DTYPE_F32> x;

            read_wide<DTYPE_F32>(job.in[o].data + 4 * at.first(), at.count, at.lane, x);
            take(job.op, o == 0, sum, [&](uint32_t i) { return __uint_as_float(x.w[i]); });
            continue;
        }
        if (!read_any<T>(job, job.in[o], layout, at, patch, s))
            return false;
        if (job.moved)
            return true;
        take(job.op, o == 0, sum, [&](uint32_t i) { return value_at<T>(s, i); });
    }
    divide(job.divide_by, sum);
    if (job.acc != NULL)
        write_sums(job.acc, at, sum);
    round_values<T>(sum, s);
    return true;
}

/* ---- to anything but a packed slot ---- */

template <enum dtype T>
__global__ void __launch_bounds__(32 * VALUE_WARPS)
    mixed_kernel(const __grid_constant__ gpu_job job, const __grid_constant__ pack_layout layout) {
    __shared__ pack_patch patch[VALUE_WARPS];
    __shared__ chunk_largest largest;
    const uint32_t warp = threadIdx.x / 32, group = blockIdx.x * (blockDim.x / 32) + warp;
    const span at = {group, threadIdx.x % 32,
                     group / PACK_WARPS < layout.tiles
                         ? pack_count(layout, group / PACK_WARPS, group % PACK_WARPS)
                         : 0};
    share<T> s = {};

    /* what was lost, and what is past the end, still takes part in the block's barrier */
    if (at.count != 0)
        reduce_mixed<T>(job, layout, at, patch[warp], s);
    clear_wide<T>(s, at.count, at.lane);
    if (job.acc == NULL)
        write_result<T>(job, at, warp, s, largest);
}

/* ---- to a packed slot ---- */

template <enum dtype W> struct mixed_source {
    stage<W> staged;
    const gpu_job &job;
    const encode_args &args;

    template <enum dtype T>
    __device__ __forceinline__ bool reduce(const span &at, pack_patch &patch, share<W> &w) {
        share<T> s;

        if (at.count == 0 || !reduce_mixed<T>(job, args.layout, at, patch, s))
            return false;
        if (job.chunk != NULL)
            write_wide<T>(job.chunk + at.first() * element<T>::bytes, at.count, at.lane, s);
        if constexpr (T != W) {
            convert<T, W>(s, w);
        } else {
            w = s;
            if constexpr (W == DTYPE_F32)
                from_wide(w, at.lane);
        }
        return true;
    }
    __device__ __forceinline__ bool reduce_any(const span &at, pack_patch &patch, share<W> &w) {
        if constexpr (W != DTYPE_F32) {
            if (job.t == DTYPE_BF16)
                return reduce<DTYPE_BF16>(at, patch, w);
            if (job.t == DTYPE_F16)
                return reduce<DTYPE_F16>(at, patch, w);
        }
        return reduce<DTYPE_F32>(at, patch, w);
    }
    __device__ __forceinline__ void start(uint32_t, uint32_t) {}
    __device__ __forceinline__ void prepare(uint32_t, uint32_t) {}
    __device__ __forceinline__ void get(uint32_t tile, uint32_t turn, uint32_t count, share<W> &w) {
        const span at = {tile * PACK_WARPS + staged.warp, staged.lane, count};

        if (!reduce_any(at, *(pack_patch *)staged.buffer(turn), w)) {
#pragma unroll
            for (uint32_t k = 0; k < element<W>::words; k++)
                w.w[k] = 0;
            if (count != 0 && at.lane == 0)
                atomicOr(args.ws.lost, 1);
        }
        if (count < GROUP)
            clear_missing<W>(w, count, at.lane);
        __syncwarp();
        staged.put(turn, w);
    }
    __device__ __forceinline__ uint32_t exponent(uint32_t e, uint32_t turn) {
        return staged.exponent(e, turn);
    }
};

template <enum dtype W>
__global__ void __launch_bounds__(ENCODE_THREADS)
    mixed_encode_kernel(const __grid_constant__ gpu_job job,
                        const __grid_constant__ encode_args args) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    encode_shared<W> &s = *(encode_shared<W> *)shared_bytes;
    mixed_source<W> source = {
        {s, args.layout, NULL, threadIdx.x / 32, threadIdx.x % 32}, job, args};

    encode_tiles<W>(s, args, source);
}

/* ---- launchers ---- */

template <enum dtype T> cudaError_t launch(const gpu_job &job, const pack_layout &layout) {
    uint32_t warps = value_warps(job), groups = (uint32_t)((job.elems + GROUP - 1) / GROUP);

    mixed_kernel<T><<<(groups + warps - 1) / warps, 32 * warps, 0, job.stream>>>(job, layout);
    return cudaGetLastError();
}

template <enum dtype W> cudaError_t launch_encode(const gpu_job &job, const encode_args &args) {
    uint32_t blocks;
    cudaError_t e = encode_blocks<W>(mixed_encode_kernel<W>, args.layout.tiles, &blocks);

    if (e != cudaSuccess)
        return e;
    mixed_encode_kernel<W>
        <<<blocks, ENCODE_THREADS, sizeof(encode_shared<W>), job.stream>>>(job, args);
    return cudaGetLastError();
}

} // namespace

cudaError_t mixed_combine(const gpu_job &job) {
    const encode_args args = {job.slot, job.slot_bytes, pack_layout_of(job.elems),
                              pack_workspace_at(job.workspace), job.status};
    bool cast = job.wire.form == GPU_FORM_CAST_PACK;
    enum dtype wire = cast ? (enum dtype)job.wire.type : job.t;

    if (job.slot != NULL && (cast || job.wire.form == GPU_FORM_PACK))
        return wire == DTYPE_BF16  ? launch_encode<DTYPE_BF16>(job, args)
               : wire == DTYPE_F16 ? launch_encode<DTYPE_F16>(job, args)
                                   : launch_encode<DTYPE_F32>(job, args);
    return job.t == DTYPE_BF16  ? launch<DTYPE_BF16>(job, args.layout)
           : job.t == DTYPE_F16 ? launch<DTYPE_F16>(job, args.layout)
                                : launch<DTYPE_F32>(job, args.layout);
}
