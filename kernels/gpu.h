/*
 * gpu.h: codecs and reductions on the GPU, for C. The bytes are those of the C reference (codec.h,
 * reduce.h), in both directions.
 *
 *     workspace_bytes = gpu_workspace_bytes(&c, t, elems);     // allocate, zero once
 *     scratch_bytes = gpu_scratch_bytes(&c, t, elems);         // mostly 0
 *     gpu_encode(&c, t, src, elems, slot, slot_bytes, workspace, status, stream);
 *     gpu_decode(&c, t, slot, slot_bytes, elems, dst, status, stream);
 *     gpu_combine(...);                                        // decode, reduce, encode at once
 *
 * Every launcher only enqueues: no allocation, no synchronisation, nothing read back, no host
 * memory kept. So all are legal while a stream is captured, and right at every replay. Pointers
 * named _dev are device memory of the current device. Elements and accumulators need the alignment
 * of their type, slots and workspaces GPU_ALIGNMENT; buffers must not overlap unless said
 * otherwise.
 *
 * They return cudaErrorNotSupported for a type or codec without kernels, cudaErrorInvalidValue for
 * arguments that do not fit one another, both with nothing enqueued; otherwise what the launch
 * returned. Kernels exist for every codec of every type that it takes.
 */
#ifndef SLUICE_KERNELS_GPU_H
#define SLUICE_KERNELS_GPU_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "kernels/codec.h"

#define GPU_ALIGNMENT 128

/* What a status word collects: an or of what happened in any kernel. Its owner clears it. */
enum gpu_status {
    GPU_OVERFLOW = 1, /* an encoding did not fit its slot, or a marked slot was to be decoded */
    GPU_MALFORMED = 2 /* a slot did not hold an encoding of what was asked for */
};

/* Device memory that the blocks of an encode share, 0 where none is needed. Zeroed once by its
 * owner, then left alone; it serves pieces of up to elems elements of any type. Launches that may
 * run at the same time need one each. */
uint64_t gpu_workspace_bytes(const struct codec *c, enum dtype t, uint64_t elems);

/* Device memory for what codecs of several passes keep between them, 0 for most. It is not zeroed,
 * means nothing between launches, and serves pieces of up to elems elements. An encode or a decode
 * needs that of its codec (`lz` and `sparse` alone: none), a gpu_combine the sum of those of all
 * its pieces and of its slot. Launches that may run at the same time need one each. */
uint64_t gpu_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems);

/* What a codec remembers of a piece at this end, as struct codec_state has it, in device memory of
 * codec_state_bytes each at multiples of GPU_ALIGNMENT. They must not overlap. Whoever keeps them
 * takes next for now once all ranks know that nothing was lost. */
struct gpu_state {
    const void *now_dev; /* NULL: what codec_state_init makes of seed 0 */
    void *next_dev;      /* NULL: not wanted */
    uint64_t first_elem; /* of the piece, from the start of its chunk */
};

/* What some codecs need beside the arguments of every launch; zero what is not needed. */
struct gpu_extra {
    void *scratch_dev;
    struct gpu_state state;                 /* gpu_combine_with: of the slot's codec */
    const struct gpu_state *operand_states; /* gpu_combine_with: one an operand, or NULL */
};

/* Encodes elems elements; codec_encode says what the slot then holds. Does not fit: the slot is
 * marked and GPU_OVERFLOW set. */
cudaError_t gpu_encode(const struct codec *c, enum dtype t, const void *src_dev, uint64_t elems,
                       void *slot_dev, uint64_t slot_bytes, void *workspace_dev,
                       uint32_t *status_dev, cudaStream_t stream);

/* Decodes a slot. A marked one leaves dst alone and sets GPU_OVERFLOW; a malformed one sets
 * GPU_MALFORMED, and dst may be partly written. For any bytes whatever, nothing outside the slot is
 * read and nothing outside dst written. */
cudaError_t gpu_decode(const struct codec *c, enum dtype t, const void *slot_dev,
                       uint64_t slot_bytes, uint64_t elems, void *dst_dev, uint32_t *status_dev,
                       cudaStream_t stream);

/* The same for all codecs. extra may be NULL. */
cudaError_t gpu_encode_with(const struct codec *c, enum dtype t, const void *src_dev,
                            uint64_t elems, void *slot_dev, uint64_t slot_bytes,
                            void *workspace_dev, const struct gpu_extra *extra,
                            uint32_t *status_dev, cudaStream_t stream);
cudaError_t gpu_decode_with(const struct codec *c, enum dtype t, const void *slot_dev,
                            uint64_t slot_bytes, uint64_t elems, void *dst_dev,
                            const struct gpu_extra *extra, uint32_t *status_dev,
                            cudaStream_t stream);

#define GPU_MAX_OPERANDS 16

enum gpu_operand_kind {
    GPU_CHUNK, /* elements of the type */
    GPU_ACC,  /* accumulators, as acc_dev leaves them: f32, or of a type that takes only `none`, the
                  type itself */
    GPU_PIECE /* an encoding */
};

struct gpu_operand {
    enum gpu_operand_kind kind;
    const void *data_dev;
    uint64_t slot_bytes; /* GPU_PIECE */
    struct codec codec;  /* GPU_PIECE */
};

/*
 * Reduces the operands in their order, as reduce.h does, each element on its own, and stores the
 * result unrounded to acc_dev; or rounded to chunk_dev, encoded into a slot, or both. What is not
 * wanted is NULL (slot_dev: then c, slot_bytes and workspace_dev are ignored); acc_dev goes alone.
 *
 *   divide_by   the contributions of an average that is complete, otherwise 0
 *   chunk_dev   may be the chunk that is an operand, acc_dev the accumulators that are one
 *   one operand that is no accumulator is moved: no bit of it changes
 *
 * Operands and slot may be of any codecs, in any mix. Where none needs scratch, memory is touched
 * once and the only workspace is that of the slot's codec. Made for speed are: chunks, accumulators
 * and pieces of `pack` to any of these; the same with `cast` and `quant` in any mix; f32 with
 * pieces of one `cast(bf16) | pack` or `cast(f16) | pack`. Other mixes have one kernel for all.
 *
 * An operand that is marked or malformed sets the status. Then the slot is marked as well, and the
 * other outputs are unspecified. A NaN in acc_dev may have any payload.
 */
cudaError_t gpu_combine(enum dtype t, enum redop op, const struct gpu_operand *operands,
                        uint32_t count, uint64_t elems, uint64_t divide_by, void *acc_dev,
                        void *chunk_dev, const struct codec *c, void *slot_dev, uint64_t slot_bytes,
                        void *workspace_dev, uint32_t *status_dev, cudaStream_t stream);

/* The same for all codecs: pieces of `lz`, `sparse` and codecs of several passes are decoded to
 * scratch_dev first, a slot of theirs is encoded from chunk_dev or from there. extra may be
 * NULL. */
cudaError_t gpu_combine_with(enum dtype t, enum redop op, const struct gpu_operand *operands,
                             uint32_t count, uint64_t elems, uint64_t divide_by, void *acc_dev,
                             void *chunk_dev, const struct codec *c, void *slot_dev,
                             uint64_t slot_bytes, void *workspace_dev,
                             const struct gpu_extra *extra, uint32_t *status_dev,
                             cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
