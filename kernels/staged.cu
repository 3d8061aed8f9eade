/*
 * staged.cu: codecs that take more than one pass: what is reduced with others is decoded to device
 * memory first and encoded from there last; and a chain of stages leaves its values there. Nothing
 * but the passes of the other files, and the arithmetic of single stages between them.
 *
 *     decode    slot --sparse, lz, ...--> values --first stage--> chunk
 *     combine   piece 1 --> elements 1 ---+
 *               piece 2 --> elements 2 ---+--> reduction --> elements --> slot
 *               chunks, other pieces -----+
 *
 * Bytes moved: those of each pass. Memory for what is between them is the caller's (gpu.h:
 * scratch_dev). Its first word collects the status of the passes: what comes behind a lost piece
 * must know about it, and the status word of the caller collects other launches as well.
 */
#include "kernels/gpu_codec.cuh"
#include "kernels/pack_place.cuh"

namespace {

#define THREADS     256u
#define MOST_BLOCKS 4096u

/* ---- the status between passes ---- */

__global__ void begin_kernel(uint32_t *passes) {
    *passes = 0;
}

/* Hands the status on; an encode whose input was lost finds that in its workspace. */
__global__ void settle_kernel(const uint32_t *passes, uint32_t *status, uint32_t *lost) {
    if (*passes == 0)
        return;
    atomicOr(status, *passes);
    if (lost != NULL)
        *lost = 1;
}

/* ---- stages that leave values ---- */

/* Element i, exact. */
__device__ __forceinline__ float read_value(enum dtype t, const void *from, uint64_t i) {
    if (t == DTYPE_F32)
        return ((const float *)from)[i];

    uint32_t bits = ((const uint16_t *)from)[i];

    return t == DTYPE_BF16 ? low_value<DTYPE_BF16>(bits) : low_value<DTYPE_F16>(bits);
}

/* Rounded to nearest even; every NaN becomes the canonical one. */
__device__ __forceinline__ void write_value(enum dtype t, void *to, uint64_t i, float v) {
    if (t == DTYPE_F32)
        ((uint32_t *)to)[i] = v == v ? __float_as_uint(v) : F32_QUIET;
    else if (t == DTYPE_BF16)
        ((uint16_t *)to)[i] =
            (uint16_t)(v == v ? round_pair<DTYPE_BF16>(v, 0) : half_quiet<DTYPE_BF16>);
    else
        ((uint16_t *)to)[i] =
            (uint16_t)(v == v ? round_pair<DTYPE_F16>(v, 0) : half_quiet<DTYPE_F16>);
}

/* A cast, in either direction; nothing when an earlier pass has lost its piece. */
__global__ void __launch_bounds__(THREADS)
    cast_kernel(enum dtype from_type, const void *from, enum dtype to_type, void *to,
                uint64_t elems, const uint32_t *passes) {
    if (*passes != 0)
        return;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < elems;
         i += (uint64_t)gridDim.x * THREADS)
        write_value(to_type, to, i, read_value(from_type, from, i));
}

/* ---- a chain of stages ---- */

/* What is left of a codec, and of the memory between its passes. */
struct chain {
    const struct codec_stage *stages;
    int32_t count;
    enum dtype t;
    uint64_t elems;
    uint32_t *status;
    unsigned char *scratch;
    uint32_t *passes;
    cudaStream_t stream;
};

uint64_t padded(uint64_t bytes) {
    return (bytes + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
}

enum dtype leaves(const struct codec_stage &s, enum dtype t) {
    return s.kind == CODEC_CAST ? (enum dtype)s.params[0] : t;
}

/* A stage that changes no bit and has others behind it, or is none. */
bool does_nothing(const struct codec_stage &s, enum dtype t) {
    return s.kind == CODEC_NONE || (s.kind == CODEC_CAST && leaves(s, t) == t);
}

void skip_idle(chain &c) {
    while (c.count > 1 && does_nothing(c.stages[0], c.t))
        c.stages++, c.count--;
}

unsigned char *take(chain &c, uint64_t bytes) {
    unsigned char *taken = c.scratch;

    c.scratch += padded(bytes);
    return taken;
}

gpu_job job_of(const chain &c) {
    gpu_job job = {};

    job.t = c.t, job.elems = c.elems, job.count = 1, job.moved = true;
    job.status = c.status, job.stream = c.stream;
    return job;
}

uint32_t blocks_for(uint64_t elems) {
    return (uint32_t)min((elems + THREADS - 1) / THREADS, (uint64_t)MOST_BLOCKS);
}

cudaError_t encode_chain(chain c, const void *src, unsigned char *slot, uint64_t slot_bytes,
                         void *workspace) {
    skip_idle(c);
    if (c.count > 1) {
        enum dtype next = leaves(c.stages[0], c.t);
        unsigned char *values = take(c, c.elems * dtype_bytes(next));

        cast_kernel<<<blocks_for(c.elems), THREADS, 0, c.stream>>>(c.t, src, next, values, c.elems,
                                                                   c.passes);
        c.stages++, c.count--, c.t = next;
        return encode_chain(c, values, slot, slot_bytes, workspace);
    }

    gpu_job job = job_of(c);

    job.in[0].kind = GPU_CHUNK;
    job.in[0].data = (const unsigned char *)src;
    job.slot = slot, job.slot_bytes = slot_bytes, job.workspace = workspace;
    return c.stages[0].kind == CODEC_LZ ? lz_encode(job) : sparse_encode(job);
}

cudaError_t decode_chain(chain c, const unsigned char *slot, uint64_t slot_bytes, void *dst) {
    skip_idle(c);
    if (c.count > 1) {
        enum dtype to = c.t, from = leaves(c.stages[0], c.t);
        unsigned char *values = take(c, c.elems * dtype_bytes(from));
        cudaError_t e;

        c.stages++, c.count--, c.t = from;
        e = decode_chain(c, slot, slot_bytes, values);
        if (e != cudaSuccess)
            return e;
        cast_kernel<<<blocks_for(c.elems), THREADS, 0, c.stream>>>(from, values, to, dst, c.elems,
                                                                   c.passes);
        return cudaGetLastError();
    }

    gpu_job job = job_of(c);

    job.in[0].kind = GPU_PIECE;
    job.in[0].data = slot, job.in[0].slot_bytes = slot_bytes;
    job.chunk = (unsigned char *)dst;
    return c.stages[0].kind == CODEC_LZ ? lz_decode(job) : sparse_decode(job);
}

/* ---- the memory between passes ---- */

struct passes {
    unsigned char *scratch;
    uint32_t *status; /* of all of them */
};

passes begin(void *scratch, cudaStream_t stream) {
    begin_kernel<<<1, 1, 0, stream>>>((uint32_t *)scratch);
    return {(unsigned char *)scratch + GPU_ALIGNMENT, (uint32_t *)scratch};
}

/* The memory that one codec takes moves on by what gpu_scratch_bytes says. */
chain chain_of(const struct codec *c, const gpu_job &job, passes &p) {
    chain first = {c->stages, c->stage_count, job.t,    job.elems,
                   p.status,  p.scratch,      p.status, job.stream};

    p.scratch += staged_scratch_bytes(c, job.t, job.elems) - GPU_ALIGNMENT;
    return first;
}

cudaError_t settle(const passes &p, const gpu_job &job, uint32_t *lost) {
    settle_kernel<<<1, 1, 0, job.stream>>>(p.status, job.status, lost);
    return cudaGetLastError();
}

} // namespace

/* The status, the elements of the piece, and the values between the stages. */
uint64_t staged_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    uint64_t bytes = GPU_ALIGNMENT + padded(elems * dtype_bytes(t));

    for (int32_t i = 0; i + 1 < c->stage_count; i++) {
        t = leaves(c->stages[i], t);
        bytes += padded(elems * dtype_bytes(t));
    }
    return bytes;
}

cudaError_t staged_encode(const gpu_job &job, const struct gpu_passes &given) {
    passes p = begin(given.scratch, job.stream);
    chain first = chain_of(given.slot_codec, job, p);

    first.status = job.status;
    return encode_chain(first, job.in[0].data, job.slot, job.slot_bytes, job.workspace);
}

cudaError_t staged_decode(const gpu_job &job, const struct gpu_passes &given) {
    passes p = begin(given.scratch, job.stream);
    cudaError_t e = decode_chain(chain_of(job.in[0].codec, job, p), job.in[0].data,
                                 job.in[0].slot_bytes, job.chunk);

    return e != cudaSuccess ? e : settle(p, job, NULL);
}

cudaError_t staged_combine(const gpu_job &job, const struct gpu_passes &given) {
    passes p = begin(given.scratch, job.stream);
    bool staged = job.slot != NULL && gpu_is_staged(job.wire);
    uint32_t *lost = job.slot != NULL && codec_has_header(given.slot_codec, job.t, job.elems)
                         ? pack_workspace_at(job.workspace).lost
                         : NULL;
    gpu_job inner = job;
    cudaError_t e;

    for (uint32_t o = 0; o < job.count; o++) {
        const gpu_input &in = job.in[o];

        if (in.kind != GPU_PIECE || !gpu_is_staged(in.wire))
            continue;

        chain first = chain_of(in.codec, job, p);
        unsigned char *elements = take(first, job.elems * dtype_bytes(job.t));

        if ((e = decode_chain(first, in.data, in.slot_bytes, elements)) != cudaSuccess)
            return e;
        inner.in[o] = {GPU_CHUNK, elements, 0, {}, NULL};
    }
    if (!staged)
        return (e = settle(p, job, lost)) != cudaSuccess ? e : given.launch(inner);

    chain last = chain_of(given.slot_codec, job, p);
    unsigned char *elements = take(last, job.elems * dtype_bytes(job.t));

    last.status = job.status;
    inner.slot = NULL;
    inner.status = p.status;
    inner.chunk = job.chunk != NULL ? job.chunk : elements;
    if ((e = given.launch(inner)) != cudaSuccess || (e = settle(p, job, lost)) != cudaSuccess)
        return e;
    return encode_chain(last, inner.chunk, job.slot, job.slot_bytes, job.workspace);
}
