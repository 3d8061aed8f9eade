/*
 * gpu_codec.cuh: what a launch is about, checked once and in the terms of the kernels; and the
 * launchers behind those of gpu.h, one for each family of kernels. Internal.
 */
#ifndef SLUICE_KERNELS_GPU_CODEC_CUH
#define SLUICE_KERNELS_GPU_CODEC_CUH

#include "kernels/gpu.h"

/* What a piece is to the kernels. */
enum gpu_form {
    GPU_FORM_NONE, /* there are no kernels for this codec and type */
    GPU_FORM_RAW,  /* the elements as they are */
    GPU_FORM_PACK, /* of the elements' own type */
    GPU_FORM_CAST,
    GPU_FORM_QUANT,
    GPU_FORM_CAST_PACK, /* pack of the elements cast to another type of 16 bits */
    /* from here on, of any type, one piece at a time: */
    GPU_FORM_SPARSE,
    GPU_FORM_LZ,
    GPU_FORM_STAGED /* a chain of stages, a pass or more each */
};

struct gpu_wire {
    enum gpu_form form;
    enum wire_type type;    /* GPU_FORM_CAST, GPU_FORM_CAST_PACK */
    uint32_t bits, block;   /* GPU_FORM_QUANT */
    uint32_t block_shift;   /* 1 + log2(block / 32), 0 when that is no power of two */
    uint32_t block_inverse; /* then 2^32 / (block / 32), rounded up */
    uint32_t blocks;
    uint32_t group_bytes; /* of 1,024 elements, without their scales: GPU_FORM_CAST, _QUANT */
    uint64_t integers_at; /* bytes; 0 for other forms */
    bool stochastic;      /* GPU_FORM_QUANT: to be encoded in a pass of its own */
    bool places;          /* an encode needs a workspace */
};

struct gpu_wire gpu_wire_of(const struct codec *c, enum dtype t, uint64_t elems);

/* An operand; a raw piece is a chunk. */
struct gpu_input {
    enum gpu_operand_kind kind;
    const unsigned char *data;
    uint64_t slot_bytes;
    struct gpu_wire wire;
    const struct codec *codec; /* GPU_PIECE; host memory */
    struct gpu_state state;
};

/* Arguments of gpu_combine that fit one another. */
struct gpu_job {
    enum dtype t;
    enum redop op;
    uint64_t elems, divide_by;
    uint32_t count;
    bool moved; /* one operand, whose bits go on unchanged */
    struct gpu_input in[GPU_MAX_OPERANDS];
    unsigned char *acc, *chunk, *slot; /* NULL: not wanted */
    uint64_t slot_bytes;
    struct gpu_wire wire; /* of the slot */
    void *workspace;
    uint32_t *status;
    cudaStream_t stream;
};

/* combine.cu: chunks, accumulators and pieces of `pack` to anything but a cast or quantised slot */
cudaError_t pack_combine(const struct gpu_job &job);
/* pack.cu: the same for one operand, a chunk to a piece or a piece to a chunk */
cudaError_t pack_encode(const struct gpu_job &job);
cudaError_t pack_decode(const struct gpu_job &job);
uint64_t pack_workspace_of(uint64_t elems);
/* value.cu: everything that is not packed */
cudaError_t value_combine(const struct gpu_job &job);
/* cast_pack.cu: f32 chunks, accumulators and pieces of one `cast | pack`, to elements or such a
 * piece */
bool cast_pack_takes(const struct gpu_job &job);
cudaError_t cast_pack_combine(const struct gpu_job &job);
/* mixed.cu: whatever the others do not take */
cudaError_t mixed_combine(const struct gpu_job &job);
/* plain.cu: types that only `none` takes */
cudaError_t plain_combine(const struct gpu_job &job);
/* sparse.cu, lz.cu: one operand, a chunk to a piece or a piece to a chunk */
cudaError_t sparse_encode(const struct gpu_job &job);
cudaError_t sparse_decode(const struct gpu_job &job);
cudaError_t lz_encode(const struct gpu_job &job);
cudaError_t lz_decode(const struct gpu_job &job);

/* staged.cu: several passes, with device memory between them */
struct gpu_passes {
    void *scratch; /* staged_scratch_bytes of all codecs that take part */
    const struct codec *slot_codec;
    struct gpu_state state;
    cudaError_t (*launch)(const struct gpu_job &job); /* what other kernels take */
};

inline bool gpu_is_staged(const struct gpu_wire &wire) {
    return wire.form >= GPU_FORM_SPARSE;
}

uint64_t staged_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems);
cudaError_t staged_encode(const struct gpu_job &job, const struct gpu_passes &p);
cudaError_t staged_decode(const struct gpu_job &job, const struct gpu_passes &p);
cudaError_t staged_combine(const struct gpu_job &job, const struct gpu_passes &p);

#endif
