/*
 * packed_value.cuh: a packed piece as an operand of the kernels that also take other codecs.
 */
#ifndef SLUICE_KERNELS_PACKED_VALUE_CUH
#define SLUICE_KERNELS_PACKED_VALUE_CUH

#include "kernels/pack_decode.cuh"
#include "kernels/wide.cuh"

/* Its group as values of W, in the order that W is packed in. Whole warp; false: it was lost. */
template <enum dtype W>
__device__ __forceinline__ bool read_packed(const gpu_job &job, const gpu_input &in,
                                            const pack_layout &layout, const span &at,
                                            pack_patch &patch, share<W> &x) {
    pack_place p;

    return pack_locate<W>(in.data, in.slot_bytes, layout, at.group / PACK_WARPS,
                          at.group % PACK_WARPS, at.lane, p, job.status) &&
           pack_read<W>(p, at.count, at.lane, patch, x, job.status);
}

#endif
