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
#include "kernels/staged.cuh"

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

/* ---- single passes ---- */

/* A cast, in either direction; nothing when an earlier pass has lost its piece. */
__global__ void __launch_bounds__(THREADS)
    cast_kernel(enum dtype from_type, const void *from, enum dtype to_type, void *to,
                uint64_t elems, const uint32_t *status) {
    if (*status != 0)
        return;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < elems;
         i += (uint64_t)gridDim.x * THREADS)
        write_bits(to_type, to, i, round_value(to_type, read_value(from_type, from, i)));
}

/* What a bounded codec leaves raw; few bytes. */
__global__ void __launch_bounds__(THREADS) move_kernel(const unsigned char *from, unsigned char *to,
                                                       uint64_t bytes, const uint32_t *status) {
    if (*status != 0)
        return;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < bytes;
         i += (uint64_t)gridDim.x * THREADS)
        to[i] = from[i];
}

__global__ void zero_kernel(unsigned char *at, uint64_t bytes) {
    if (threadIdx.x < bytes)
        at[threadIdx.x] = 0;
}

uint32_t blocks_for(uint64_t elems) {
    uint64_t blocks = (elems + THREADS - 1) / THREADS;

    return (uint32_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

cudaError_t cast(const gpu_stage &g, enum dtype from_type, const void *from, enum dtype to_type,
                 void *to) {
    cast_kernel<<<blocks_for(g.elems), THREADS, 0, g.stream>>>(from_type, from, to_type, to,
                                                               g.elems, g.status);
    return cudaGetLastError();
}

/* ---- a chain of stages ---- */

/* One piece, its state at this end, and the memory between its passes. */
struct chain {
    const struct codec *codec;
    enum dtype t;
    uint64_t elems;
    struct gpu_state state;
    unsigned char *scratch;
    uint32_t *status; /* of all passes */
    cudaStream_t stream;
};

/* The memory that one piece takes. */
uint64_t padded(uint64_t bytes) {
    return (bytes + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
}

uint64_t room_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    return padded(codec_scratch_bytes(c, t, elems));
}

gpu_stage stage_of(const chain &c, const struct codec_link &l, unsigned char *behind) {
    gpu_stage g = {l.s,      l.t,     l.elems, NULL, NULL, c.state.first_elem, behind + l.aside_at,
                   c.status, c.stream};

    if (c.state.now_dev != NULL)
        g.now = (const unsigned char *)c.state.now_dev + l.state_at;
    if (c.state.next_dev != NULL)
        g.next = (unsigned char *)c.state.next_dev + l.state_at;
    return g;
}

enum dtype cast_to(const struct codec_stage *s) {
    return (enum dtype)s->params[0];
}

cudaError_t push(const gpu_stage &g, const void *src, void *to) {
    switch (g.s->kind) {
    case CODEC_CAST:
        return cast(g, g.t, src, cast_to(g.s), to);
    case CODEC_DELTA:
        return delta_push(g, src, to);
    case CODEC_TOPK:
        return topk_push(g, src, to);
    default:
        return cudaErrorNotSupported;
    }
}

cudaError_t pull(const gpu_stage &g, const void *from, void *dst) {
    switch (g.s->kind) {
    case CODEC_CAST:
        return cast(g, cast_to(g.s), from, g.t, dst);
    case CODEC_DELTA:
        return delta_pull(g, from, dst);
    case CODEC_TOPK:
        return topk_pull(g, from, dst);
    default:
        return cudaErrorNotSupported;
    }
}

/* The last stage, between elements and its part of the slot. */
gpu_job last_job(const chain &c, const struct codec_last &l) {
    gpu_job job = {};

    job.t = l.t, job.elems = l.elems, job.count = 1, job.moved = true;
    job.status = c.status, job.stream = c.stream;
    return job;
}

cudaError_t encode_last(const chain &c, const struct codec_last &l, uint64_t state_at,
                        const void *src, unsigned char *slot, uint64_t slot_bytes, void *workspace,
                        uint32_t *status) {
    struct codec_link own = {l.s, l.ops, l.t, l.elems, 0, state_at, 0};
    gpu_job job = last_job(c, l);

    if (l.s->kind == CODEC_QUANT)
        return stochastic_push(stage_of(c, own, slot), src, slot);
    if (codec_last_goes_raw(&l)) {
        uint64_t bytes = l.elems * dtype_bytes(l.t);

        move_kernel<<<blocks_for(bytes), THREADS, 0, c.stream>>>((const unsigned char *)src, slot,
                                                                 bytes, c.status);
        return cudaGetLastError();
    }
    job.in[0].kind = GPU_CHUNK;
    job.in[0].data = (const unsigned char *)src;
    job.slot = slot, job.slot_bytes = slot_bytes, job.workspace = workspace;
    job.status = status;
    return l.s->kind == CODEC_PACK ? pack_encode(job)
           : l.s->kind == CODEC_LZ ? lz_encode(job)
                                   : sparse_encode(job);
}

cudaError_t decode_last(const chain &c, const struct codec_last &l, const unsigned char *slot,
                        uint64_t slot_bytes, void *dst) {
    gpu_job job = last_job(c, l);

    if (codec_last_goes_raw(&l)) {
        uint64_t bytes = l.elems * dtype_bytes(l.t);

        move_kernel<<<blocks_for(bytes), THREADS, 0, c.stream>>>(slot, (unsigned char *)dst, bytes,
                                                                 c.status);
        return cudaGetLastError();
    }
    job.in[0].kind = GPU_PIECE;
    job.in[0].data = slot, job.in[0].slot_bytes = slot_bytes;
    job.chunk = (unsigned char *)dst;
    return l.s->kind == CODEC_PACK ? pack_decode(job)
           : l.s->kind == CODEC_LZ ? lz_decode(job)
                                   : sparse_decode(job);
}

/* `status` is the caller's: the encoding itself may overflow. */
cudaError_t encode_chain(const chain &c, const void *src, unsigned char *slot, uint64_t slot_bytes,
                         void *workspace, uint32_t *status) {
    const struct codec_links all = codec_links_of(c.codec, c.t, c.elems, CODEC_ENCODER);
    const struct codec_last l = codec_last_of(c.codec, c.t, c.elems);
    const uint64_t own_bytes = codec_own_bytes(&l, slot_bytes);
    cudaError_t e;

    for (int32_t i = 0; i < all.count; i++) {
        void *to = all.ends && i + 1 == all.count ? slot : c.scratch + all.at[i].room_at;

        if ((e = push(stage_of(c, all.at[i], slot + own_bytes), src, to)) != cudaSuccess)
            return e;
        src = to;
    }
    if (l.aside_bytes != 0 && (all.ends || codec_last_goes_raw(&l))) {
        uint64_t bytes = codec_last_worst_bytes(&l); /* the gap before what lies aside */

        zero_kernel<<<1, 32, 0, c.stream>>>(slot + bytes, own_bytes - bytes);
    }
    return all.ends ? cudaGetLastError()
                    : encode_last(c, l, all.state_bytes, src, slot, own_bytes, workspace, status);
}

cudaError_t decode_chain(const chain &c, const unsigned char *slot, uint64_t slot_bytes,
                         void *dst) {
    const struct codec_links all = codec_links_of(c.codec, c.t, c.elems, CODEC_DECODER);
    const struct codec_last l = codec_last_of(c.codec, c.t, c.elems);
    const uint64_t own_bytes = codec_own_bytes(&l, slot_bytes);
    const void *from = slot;
    cudaError_t e;

    if (!all.ends) {
        void *to = all.count == 0 ? dst : c.scratch + all.at[all.count - 1].room_at;

        if ((e = decode_last(c, l, slot, own_bytes, to)) != cudaSuccess)
            return e;
        from = to;
    }
    for (int32_t i = all.count - 1; i >= 0; i--) {
        void *to = i == 0 ? dst : c.scratch + all.at[i - 1].room_at;
        gpu_stage g = stage_of(c, all.at[i], (unsigned char *)slot + own_bytes);

        if ((e = pull(g, from, to)) != cudaSuccess)
            return e;
        from = to;
    }
    return cudaSuccess;
}

/* ---- the memory between passes ---- */

struct passes {
    unsigned char *scratch; /* what is left of it */
    uint32_t *status;       /* of all passes */
};

passes begin(void *scratch, cudaStream_t stream) {
    begin_kernel<<<1, 1, 0, stream>>>((uint32_t *)scratch);
    return {(unsigned char *)scratch + GPU_ALIGNMENT, (uint32_t *)scratch};
}

unsigned char *take(passes &p, uint64_t bytes) {
    unsigned char *taken = p.scratch;

    p.scratch += padded(bytes);
    return taken;
}

chain chain_of(const struct codec *c, const gpu_job &job, const struct gpu_state &state,
               passes &p) {
    return {c,        job.t,     job.elems, state, take(p, room_bytes(c, job.t, job.elems)),
            p.status, job.stream};
}

cudaError_t settle(const passes &p, const gpu_job &job, uint32_t *lost) {
    settle_kernel<<<1, 1, 0, job.stream>>>(p.status, job.status, lost);
    return cudaGetLastError();
}

} // namespace

/* The status, the elements of the piece, and the values between the stages. */
uint64_t staged_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    return GPU_ALIGNMENT + padded(elems * dtype_bytes(t)) + room_bytes(c, t, elems);
}

cudaError_t staged_encode(const gpu_job &job, const struct gpu_passes &given) {
    passes p = begin(given.scratch, job.stream);
    chain c = chain_of(given.slot_codec, job, given.state, p);

    return encode_chain(c, job.in[0].data, job.slot, job.slot_bytes, job.workspace, job.status);
}

cudaError_t staged_decode(const gpu_job &job, const struct gpu_passes &given) {
    passes p = begin(given.scratch, job.stream);
    chain c = chain_of(job.in[0].codec, job, job.in[0].state, p);
    cudaError_t e = decode_chain(c, job.in[0].data, job.in[0].slot_bytes, job.chunk);

    return e != cudaSuccess ? e : settle(p, job, NULL);
}

/* To elements of its own, before the others look at them. */
static cudaError_t decode_operand(const gpu_job &job, gpu_input &in, passes &p) {
    unsigned char *elements = take(p, job.elems * dtype_bytes(job.t));
    chain c = chain_of(in.codec, job, in.state, p);
    cudaError_t e = decode_chain(c, in.data, in.slot_bytes, elements);

    in = {GPU_CHUNK, elements, 0, {}, NULL, {}};
    return e;
}

cudaError_t staged_combine(const gpu_job &job, const struct gpu_passes &given) {
    passes p = begin(given.scratch, job.stream);
    bool staged = job.slot != NULL && gpu_is_staged(job.wire);
    uint32_t *lost = job.slot != NULL && codec_has_header(given.slot_codec, job.t, job.elems)
                         ? pack_workspace_at(job.workspace).lost
                         : NULL;
    gpu_job inner = job;
    cudaError_t e;

    for (uint32_t o = 0; o < job.count; o++)
        if (job.in[o].kind == GPU_PIECE && gpu_is_staged(job.in[o].wire) &&
            (e = decode_operand(job, inner.in[o], p)) != cudaSuccess)
            return e;
    if (!staged)
        return (e = settle(p, job, lost)) != cudaSuccess ? e : given.launch(inner);

    inner.slot = NULL;
    inner.status = p.status;
    if (job.chunk == NULL)
        inner.chunk = take(p, job.elems * dtype_bytes(job.t));
    if ((e = given.launch(inner)) != cudaSuccess || (e = settle(p, job, lost)) != cudaSuccess)
        return e;
    return encode_chain(chain_of(given.slot_codec, job, given.state, p), inner.chunk, job.slot,
                        job.slot_bytes, job.workspace, job.status);
}
