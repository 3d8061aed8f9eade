/*
 * gpu.cu: the launchers of gpu.h: they check their arguments, translate codecs into what kernels
 * know, and choose the family of kernels.
 */
#include "kernels/gpu_codec.cuh"

namespace {

#define GROUP_ELEMS 1024u
#define MAX_ELEMS   (UINT64_C(1) << 37) /* groups and blocks of 32 have 32-bit numbers */
#define MAX_INVERSE (UINT64_C(1) << 34) /* and gpu_wire.block_inverse divides these */

bool aligned(const void *p, uint32_t bytes) {
    return (uintptr_t)p % bytes == 0;
}

bool is_narrow_float(enum dtype t) {
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

uint32_t acc_bytes(enum dtype t) {
    return is_narrow_float(t) ? 4 : dtype_bytes(t);
}

/* Aligned, and large enough to hold at least a mark. */
bool slot_is_right(const struct codec *c, enum dtype t, uint64_t elems, const void *slot,
                   uint64_t slot_bytes) {
    return slot != NULL && aligned(slot, GPU_ALIGNMENT) &&
           codec_worst_bytes(c, t, elems) != CODEC_SIZE_ERROR &&
           slot_bytes >= codec_least_bytes(c, t, elems);
}

void quant_wire(const struct codec_stage *s, uint64_t elems, gpu_wire &wire) {
    uint32_t chunks = (uint32_t)s->params[1] / 32;

    wire.form = GPU_FORM_QUANT;
    wire.bits = (uint32_t)s->params[0];
    wire.block = (uint32_t)s->params[1];
    wire.block_shift = chunks == 1 ? 1 : chunks == 2 ? 2 : chunks == 4 ? 3 : chunks == 8 ? 4 : 0;
    wire.block_inverse = wire.block_shift == 0 ? UINT32_MAX / chunks + 1 : 0;
    wire.group_bytes = GROUP_ELEMS / 8 * wire.bits;
    wire.blocks = (uint32_t)((elems + wire.block - 1) / wire.block);
    wire.integers_at = ((uint64_t)wire.blocks * 4 + 15) / 16 * 16;
}

bool takes_operand(const struct gpu_operand *from, enum dtype t, uint64_t elems, gpu_input &in) {
    in.kind = from->kind;
    in.data = (const unsigned char *)from->data_dev;
    in.slot_bytes = from->slot_bytes;
    if (from->kind == GPU_PIECE) {
        in.codec = &from->codec;
        in.wire = gpu_wire_of(&from->codec, t, elems);
        if (in.wire.form == GPU_FORM_RAW)
            in.kind = GPU_CHUNK;
        return in.wire.form == GPU_FORM_NONE ||
               slot_is_right(&from->codec, t, elems, from->data_dev, from->slot_bytes);
    }
    return from->data_dev != NULL &&
           aligned(from->data_dev, from->kind == GPU_ACC ? acc_bytes(t) : dtype_bytes(t));
}

/* Which kernels a job is for. */
bool has_form(const gpu_job &job, enum gpu_form form) {
    bool has = job.slot != NULL && job.wire.form == form;

    for (uint32_t o = 0; o < job.count; o++)
        has = has || (job.in[o].kind == GPU_PIECE && job.in[o].wire.form == form);
    return has;
}

cudaError_t launch(const gpu_job &job) {
    bool packs = has_form(job, GPU_FORM_PACK), cast_packs = has_form(job, GPU_FORM_CAST_PACK);
    bool values = has_form(job, GPU_FORM_CAST) || has_form(job, GPU_FORM_QUANT);

    if (has_form(job, GPU_FORM_NONE))
        return cudaErrorNotSupported;
    if (!is_narrow_float(job.t))
        return plain_combine(job);
    if (!values && !cast_packs)
        return pack_combine(job);
    if (!packs && !cast_packs)
        return value_combine(job);
    return cast_pack_takes(job) ? cast_pack_combine(job) : mixed_combine(job);
}

bool needs_workspace(const gpu_job &job) {
    return job.slot != NULL && job.wire.places;
}

bool has_staged(const gpu_job &job) {
    bool has = job.slot != NULL && gpu_is_staged(job.wire);

    for (uint32_t o = 0; o < job.count; o++)
        has = has || (job.in[o].kind == GPU_PIECE && gpu_is_staged(job.in[o].wire));
    return has;
}

/* False when there is no memory for the passes. */
bool takes_passes(const struct gpu_extra *extra, gpu_passes &p) {
    p.scratch = extra != NULL ? extra->scratch_dev : NULL;
    p.state = extra != NULL ? extra->state : gpu_state{};
    p.launch = launch;
    return p.scratch != NULL && aligned(p.scratch, GPU_ALIGNMENT);
}

cudaError_t launch_encode(const gpu_job &job, const struct codec *c,
                          const struct gpu_extra *extra) {
    gpu_passes p = {};

    if (job.wire.form == GPU_FORM_PACK)
        return pack_encode(job);
    if (job.wire.form == GPU_FORM_SPARSE)
        return sparse_encode(job);
    if (job.wire.form == GPU_FORM_LZ)
        return lz_encode(job);
    if (job.wire.form != GPU_FORM_STAGED)
        return launch(job);
    p.slot_codec = c;
    return takes_passes(extra, p) ? staged_encode(job, p) : cudaErrorInvalidValue;
}

cudaError_t launch_decode(const gpu_job &job, const struct gpu_extra *extra) {
    gpu_passes p = {};

    if (job.in[0].wire.form == GPU_FORM_PACK)
        return pack_decode(job);
    if (job.in[0].wire.form == GPU_FORM_SPARSE)
        return sparse_decode(job);
    if (job.in[0].wire.form == GPU_FORM_LZ)
        return lz_decode(job);
    if (job.in[0].wire.form != GPU_FORM_STAGED)
        return launch(job);
    return takes_passes(extra, p) ? staged_decode(job, p) : cudaErrorInvalidValue;
}

cudaError_t launch_staged(const gpu_job &job, const struct codec *c,
                          const struct gpu_extra *extra) {
    gpu_passes p = {};

    p.slot_codec = c;
    return takes_passes(extra, p) ? staged_combine(job, p) : cudaErrorInvalidValue;
}

} // namespace

struct gpu_wire gpu_wire_of(const struct codec *c, enum dtype t, uint64_t elems) {
    gpu_wire wire = {};
    enum gpu_form last = GPU_FORM_RAW;
    enum dtype left = t;
    bool packed = false;

    wire.form = GPU_FORM_RAW;
    if (elems > MAX_ELEMS || !codec_check(c, t, NULL, 0)) {
        wire.form = GPU_FORM_NONE;
        return wire;
    }
    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_stage *s = &c->stages[i];

        if (s->kind == CODEC_NONE || (s->kind == CODEC_CAST && s->params[0] == (int64_t)left))
            continue;
        if (s->kind == CODEC_DELTA || s->kind == CODEC_TOPK) {
            wire.form = GPU_FORM_STAGED;
            return wire;
        }
        if (s->kind == CODEC_LZ || s->kind == CODEC_SPARSE) {
            last = s->kind == CODEC_LZ ? GPU_FORM_LZ : GPU_FORM_SPARSE;
            continue;
        }
        if (s->kind == CODEC_CAST && is_narrow_float(t) && wire.form == GPU_FORM_RAW && !packed) {
            wire.form = GPU_FORM_CAST;
            wire.type = (enum wire_type)s->params[0];
            wire.group_bytes = GROUP_ELEMS * wire_type_bytes(wire.type);
            left = (enum dtype)s->params[0];
        } else if (s->kind == CODEC_QUANT && is_narrow_float(t) && wire.form == GPU_FORM_RAW) {
            quant_wire(s, elems, wire);
            wire.stochastic = s->params[2] == CODEC_ROUND_STOCHASTIC;
            if (wire.block_shift == 0 && elems > MAX_INVERSE)
                wire.form = GPU_FORM_NONE;
        } else if (s->kind == CODEC_PACK && is_narrow_float(left) && !packed) {
            packed = true;
        } else {
            wire.form = GPU_FORM_NONE;
            return wire;
        }
    }
    if (last != GPU_FORM_RAW && elems >= GROUP_ELEMS)
        wire.form = wire.form == GPU_FORM_RAW ? last : GPU_FORM_STAGED;
    if (packed && elems >= GROUP_ELEMS)
        wire.form = wire.form == GPU_FORM_CAST ? GPU_FORM_CAST_PACK : GPU_FORM_PACK;
    return wire;
}

/* The same for a piece that is to be encoded. */
static struct gpu_wire slot_wire_of(const struct codec *c, enum dtype t, uint64_t elems) {
    gpu_wire wire = gpu_wire_of(c, t, elems);

    if (wire.stochastic)
        wire.form = GPU_FORM_STAGED;
    wire.places = codec_has_header(c, t, elems);
    return wire;
}

extern "C" uint64_t gpu_workspace_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    gpu_job job = {};

    job.wire = slot_wire_of(c, t, elems);
    job.slot = (unsigned char *)&job; /* any */
    return needs_workspace(job) ? pack_workspace_of(elems) : 0;
}

extern "C" uint64_t gpu_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    return gpu_is_staged(slot_wire_of(c, t, elems)) ? staged_scratch_bytes(c, t, elems) : 0;
}

extern "C" cudaError_t gpu_encode_with(const struct codec *c, enum dtype t, const void *src_dev,
                                       uint64_t elems, void *slot_dev, uint64_t slot_bytes,
                                       void *workspace_dev, const struct gpu_extra *extra,
                                       uint32_t *status_dev, cudaStream_t stream) {
    gpu_job job = {};

    job.wire = slot_wire_of(c, t, elems);
    if (job.wire.form == GPU_FORM_NONE)
        return cudaErrorNotSupported;
    if (elems == 0)
        return cudaSuccess;
    if (!slot_is_right(c, t, elems, slot_dev, slot_bytes) || src_dev == NULL ||
        !aligned(src_dev, dtype_bytes(t)))
        return cudaErrorInvalidValue;
    if (job.wire.form == GPU_FORM_RAW)
        return cudaMemcpyAsync(slot_dev, src_dev, elems * dtype_bytes(t), cudaMemcpyDeviceToDevice,
                               stream);
    job.t = t, job.elems = elems, job.count = 1, job.moved = true;
    job.in[0].kind = GPU_CHUNK;
    job.in[0].data = (const unsigned char *)src_dev;
    job.slot = (unsigned char *)slot_dev, job.slot_bytes = slot_bytes;
    job.workspace = workspace_dev, job.status = status_dev, job.stream = stream;
    if (needs_workspace(job) &&
        (workspace_dev == NULL || !aligned(workspace_dev, GPU_ALIGNMENT) || status_dev == NULL))
        return cudaErrorInvalidValue;
    return launch_encode(job, c, extra);
}

extern "C" cudaError_t gpu_encode(const struct codec *c, enum dtype t, const void *src_dev,
                                  uint64_t elems, void *slot_dev, uint64_t slot_bytes,
                                  void *workspace_dev, uint32_t *status_dev, cudaStream_t stream) {
    return gpu_encode_with(c, t, src_dev, elems, slot_dev, slot_bytes, workspace_dev, NULL,
                           status_dev, stream);
}

extern "C" cudaError_t gpu_decode_with(const struct codec *c, enum dtype t, const void *slot_dev,
                                       uint64_t slot_bytes, uint64_t elems, void *dst_dev,
                                       const struct gpu_extra *extra, uint32_t *status_dev,
                                       cudaStream_t stream) {
    gpu_job job = {};
    gpu_wire wire = gpu_wire_of(c, t, elems);

    if (wire.form == GPU_FORM_NONE)
        return cudaErrorNotSupported;
    if (elems == 0)
        return cudaSuccess;
    if (!slot_is_right(c, t, elems, slot_dev, slot_bytes) || dst_dev == NULL ||
        !aligned(dst_dev, dtype_bytes(t)))
        return cudaErrorInvalidValue;
    if (wire.form == GPU_FORM_RAW)
        return cudaMemcpyAsync(dst_dev, slot_dev, elems * dtype_bytes(t), cudaMemcpyDeviceToDevice,
                               stream);
    if (status_dev == NULL)
        return cudaErrorInvalidValue;
    job.t = t, job.elems = elems, job.count = 1, job.moved = true;
    job.in[0] = {GPU_PIECE, (const unsigned char *)slot_dev,           slot_bytes, wire,
                 c,         extra != NULL ? extra->state : gpu_state{}};
    job.chunk = (unsigned char *)dst_dev;
    job.status = status_dev, job.stream = stream;
    return launch_decode(job, extra);
}

extern "C" cudaError_t gpu_decode(const struct codec *c, enum dtype t, const void *slot_dev,
                                  uint64_t slot_bytes, uint64_t elems, void *dst_dev,
                                  uint32_t *status_dev, cudaStream_t stream) {
    return gpu_decode_with(c, t, slot_dev, slot_bytes, elems, dst_dev, NULL, status_dev, stream);
}

extern "C" cudaError_t
gpu_combine_with(enum dtype t, enum redop op, const struct gpu_operand *operands, uint32_t count,
                 uint64_t elems, uint64_t divide_by, void *acc_dev, void *chunk_dev,
                 const struct codec *c, void *slot_dev, uint64_t slot_bytes, void *workspace_dev,
                 const struct gpu_extra *extra, uint32_t *status_dev, cudaStream_t stream) {
    gpu_job job = {};

    if (t >= DTYPE_COUNT || count == 0 || count > GPU_MAX_OPERANDS || op >= REDOP_COUNT ||
        status_dev == NULL || (acc_dev != NULL) == (chunk_dev != NULL || slot_dev != NULL) ||
        !aligned(acc_dev, acc_bytes(t)) || !aligned(chunk_dev, dtype_bytes(t)))
        return cudaErrorInvalidValue;
    if (slot_dev != NULL)
        job.wire = slot_wire_of(c, t, elems);
    job.t = t, job.op = op, job.elems = elems, job.divide_by = divide_by, job.count = count;
    job.acc = (unsigned char *)acc_dev, job.chunk = (unsigned char *)chunk_dev;
    job.slot = (unsigned char *)slot_dev, job.slot_bytes = slot_bytes;
    job.workspace = workspace_dev, job.status = status_dev, job.stream = stream;
    for (uint32_t o = 0; o < count; o++) {
        if (elems != 0 && !takes_operand(&operands[o], t, elems, job.in[o]))
            return cudaErrorInvalidValue;
        if (extra != NULL && extra->operand_states != NULL)
            job.in[o].state = extra->operand_states[o];
    }
    job.moved = count == 1 && job.in[0].kind != GPU_ACC && acc_dev == NULL;
    if (job.moved)
        job.divide_by = 0;
    if (has_form(job, GPU_FORM_NONE))
        return cudaErrorNotSupported;
    if (elems == 0)
        return cudaSuccess;
    if (count == 2 && job.in[0].kind == GPU_PIECE && job.in[1].kind == GPU_CHUNK) {
        gpu_input piece = job.in[0]; /* the order of two does not show in the result */

        job.in[0] = job.in[1];
        job.in[1] = piece;
    }
    if ((slot_dev != NULL && !slot_is_right(c, t, elems, slot_dev, slot_bytes)) ||
        (needs_workspace(job) && (workspace_dev == NULL || !aligned(workspace_dev, GPU_ALIGNMENT))))
        return cudaErrorInvalidValue;
    return has_staged(job) ? launch_staged(job, c, extra) : launch(job);
}

extern "C" cudaError_t gpu_combine(enum dtype t, enum redop op, const struct gpu_operand *operands,
                                   uint32_t count, uint64_t elems, uint64_t divide_by,
                                   void *acc_dev, void *chunk_dev, const struct codec *c,
                                   void *slot_dev, uint64_t slot_bytes, void *workspace_dev,
                                   uint32_t *status_dev, cudaStream_t stream) {
    return gpu_combine_with(t, op, operands, count, elems, divide_by, acc_dev, chunk_dev, c,
                            slot_dev, slot_bytes, workspace_dev, NULL, status_dev, stream);
}
