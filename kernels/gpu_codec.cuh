/*
 * gpu_codec.cuh: what the launchers ask about a codec before they enqueue anything. Internal.
 */
#ifndef SLUICE_KERNELS_GPU_CODEC_CUH
#define SLUICE_KERNELS_GPU_CODEC_CUH

#include "kernels/gpu.h"

/* What a piece is to the kernels. */
enum gpu_form {
    GPU_FORM_NONE, /* there are no kernels for this codec and type */
    GPU_FORM_RAW,  /* the elements as they are */
    GPU_FORM_PACK
};

enum gpu_form gpu_form_of(const struct codec *c, enum dtype t, uint64_t elems);

/* Aligned, and large enough to hold at least a mark. */
bool gpu_slot_is_right(const struct codec *c, enum dtype t, uint64_t elems, const void *slot,
                       uint64_t slot_bytes);

#endif
