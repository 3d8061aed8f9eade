/*
 * staged.cuh: a stage of a chain as a pass over device memory. codec_ops.h has the same for the
 * CPU: push on the way to the slot, pull on the way back. Internal.
 */
#ifndef SLUICE_KERNELS_STAGED_CUH
#define SLUICE_KERNELS_STAGED_CUH

extern "C" {
#include "kernels/codec_chain.h"
}
#include "kernels/pack.cuh"

struct gpu_stage {
    const struct codec_stage *s;
    enum dtype t;
    uint64_t elems; /* that push takes and pull leaves */
    /* Its part of the state, both at multiples of 16; NULL: just begun; not wanted. */
    const unsigned char *now;
    unsigned char *next;
    uint64_t first_elem;
    unsigned char *aside; /* its part of the slot beside the values, at a multiple of 16 */
    uint32_t *status;     /* of all passes: what has lost its piece is not pulled */
    cudaStream_t stream;
};

/* delta.cu */
cudaError_t delta_push(const gpu_stage &g, const void *src, void *to);
cudaError_t delta_pull(const gpu_stage &g, const void *from, void *dst);
/* topk.cu */
cudaError_t topk_push(const gpu_stage &g, const void *src, void *to);
cudaError_t topk_pull(const gpu_stage &g, const void *from, void *dst);
/* stochastic.cu: quant, rounded stochastically. It is decoded as the other. */
cudaError_t stochastic_push(const gpu_stage &g, const void *src, void *slot);

/* ---- values of any floating-point type that has kernels, one at a time ---- */

__device__ __forceinline__ float read_value(enum dtype t, const void *from, uint64_t i) {
    if (t == DTYPE_F32)
        return ((const float *)from)[i];

    uint32_t bits = ((const uint16_t *)from)[i];

    return t == DTYPE_BF16 ? low_value<DTYPE_BF16>(bits) : low_value<DTYPE_F16>(bits);
}

/* The bits of a value rounded to nearest even; of every NaN those of the canonical one. */
__device__ __forceinline__ uint32_t round_value(enum dtype t, float v) {
    if (t == DTYPE_F32)
        return v == v ? __float_as_uint(v) : F32_QUIET;
    if (t == DTYPE_BF16)
        return v == v ? round_pair<DTYPE_BF16>(v, 0) : half_quiet<DTYPE_BF16>;
    return v == v ? round_pair<DTYPE_F16>(v, 0) : half_quiet<DTYPE_F16>;
}

__device__ __forceinline__ void write_bits(enum dtype t, void *to, uint64_t i, uint32_t bits) {
    if (t == DTYPE_F32)
        ((uint32_t *)to)[i] = bits;
    else
        ((uint16_t *)to)[i] = (uint16_t)bits;
}

#endif
