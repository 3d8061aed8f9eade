/*
 * value.cuh: chunks and pieces of `none`, `cast` and `quant` as operands and results of a warp.
 */
#ifndef SLUICE_KERNELS_VALUE_CUH
#define SLUICE_KERNELS_VALUE_CUH

#include "kernels/cast.cuh"
#include "kernels/quant.cuh"

/* Brings the groups of all operands into the cache: they are read one after the other. */
__device__ __forceinline__ void prefetch_inputs(const gpu_job &job, const span &at) {
    const uint32_t elem_bytes = job.t == DTYPE_F32 ? 4 : 2;

    for (uint32_t o = 1; o < job.count; o++) {
        const gpu_input &in = job.in[o];
        uint32_t bytes = in.kind == GPU_ACC     ? 4 * GROUP
                         : in.kind == GPU_CHUNK ? elem_bytes * GROUP
                                                : in.wire.group_bytes;

        if (at.count == GROUP && at.lane * 128 < bytes)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(
                in.data + in.wire.integers_at + (uint64_t)at.group * bytes + at.lane * 128));
    }
}

/* A chunk or a piece as elements. */
template <enum dtype T, bool QUIET>
__device__ __forceinline__ void read_input(const gpu_input &in, const span &at, share<T> &s) {
    if (in.kind == GPU_CHUNK)
        read_wide<T>(in.data + at.first() * element<T>::bytes, at.count, at.lane, s);
    else if (in.wire.form == GPU_FORM_CAST)
        read_cast<T, QUIET>(in.wire, in.data, at, s);
    else
        read_quant<T, QUIET>(in.wire, in.data, at, s);
}

/* Chunk and slot. All threads of the block. */
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

/* Warps of a block: with a slot of odd blocks, as many as hold whole ones. */
inline uint32_t value_warps(const gpu_job &job) {
    uint32_t chunks = job.wire.block / 32;

    if (job.slot == NULL || job.wire.form != GPU_FORM_QUANT || job.wire.block_shift != 0)
        return VALUE_WARPS;
    return chunks == 5 || chunks == 7 ? chunks : 6; /* 3 and 6 */
}

#endif
