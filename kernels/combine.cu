/*
 * combine.cu: reductions whose operands come as elements, accumulators or encodings, and whose
 * result leaves as accumulators, elements, an encoding, or the last two together. Memory is touched
 * once: what an operand decodes to, and the sum before it is rounded, live in registers.
 *
 *     bytes moved a raw byte, ratio r:   chunk + piece -> chunk             2 + r
 *                                        chunk + piece -> piece             1 + 2 r
 *                                        chunk + piece -> chunk and piece   2 + 2 r
 *
 * A warp reduces a group of 1,024 elements, one operand after the other in the order of the
 * schedule, each step one IEEE operation, the result rounded once: the bits of reduce.c.
 *
 * A chunk and a piece, the step of a ring, have kernels of their own: the sum of two 16-bit
 * elements needs no f32 (add_pairs), so half of the registers do, and the chunk is on its way while
 * the piece is decoded. The order of two operands does not show in the result.
 */
#include "kernels/gpu_codec.cuh"
#include "kernels/pack_decode.cuh"
#include "kernels/pack_encode.cuh"

namespace {

enum source_kind { SOURCE_CHUNK, SOURCE_ACC, SOURCE_PACK };

struct combine_args {
    struct {
        const unsigned char *data;
        uint64_t slot_bytes;
        enum source_kind kind;
    } operand[GPU_MAX_OPERANDS]; /* of a pair: the chunk, then the piece */
    uint32_t count;
    enum redop op;
    float divide_by; /* 0: not divided */
    bool moved;      /* one operand, whose bits go on unchanged */
    pack_layout layout;
    float *acc;
    unsigned char *chunk[2]; /* both get the elements: the chunk, and a slot that is raw */
    uint32_t *status;
};

/* Where a warp is. */
struct position {
    uint32_t tile, warp, lane, count;

    __device__ __forceinline__ uint64_t first() const {
        return (uint64_t)tile * PACK_TILE + warp * GROUP;
    }
};

template <enum dtype T>
__device__ __forceinline__ void read_chunk(const combine_args &a, uint32_t o, const position &at,
                                           share<T> &s) {
    read_elements<T>(a.operand[o].data + at.first() * element<T>::bytes, at.count, at.lane, s);
}

/* False when it was lost. */
template <enum dtype T>
__device__ __forceinline__ bool read_piece(const combine_args &a, uint32_t o, const position &at,
                                           pack_patch &patch, share<T> &s) {
    pack_place p;

    return pack_locate<T>(a.operand[o].data, a.operand[o].slot_bytes, a.layout, at.tile, at.warp,
                          at.lane, p, a.status) &&
           pack_read<T>(p, at.count, at.lane, patch, s, a.status);
}

/* sum = the operands combined and divided; or, of one that is moved, s = its elements. */
template <enum dtype T>
__device__ __forceinline__ bool reduce_operands(const combine_args &a, const position &at,
                                                pack_patch &patch, float (&sum)[32], share<T> &s) {
    bool right = true;

#pragma unroll 1
    for (uint32_t o = 0; o < a.count; o++) {
        if (a.operand[o].kind == SOURCE_ACC) {
            const float *from = (const float *)a.operand[o].data + at.first();

#pragma unroll
            for (uint32_t q = 0; q < 8; q++) {
                float4 v = read_acc<T>(from, at.count, at.lane, q);

                sum[4 * q] = o == 0 ? v.x : combine(a.op, sum[4 * q], v.x);
                sum[4 * q + 1] = o == 0 ? v.y : combine(a.op, sum[4 * q + 1], v.y);
                sum[4 * q + 2] = o == 0 ? v.z : combine(a.op, sum[4 * q + 2], v.z);
                sum[4 * q + 3] = o == 0 ? v.w : combine(a.op, sum[4 * q + 3], v.w);
            }
            continue;
        }
        if (a.operand[o].kind == SOURCE_CHUNK) {
            read_chunk<T>(a, o, at, s);
        } else if (!read_piece<T>(a, o, at, patch, s)) {
            right = false;
            break;
        }
        if (a.moved)
            break;
        if (o == 0) {
#pragma unroll
            for (uint32_t i = 0; i < 32; i++)
                sum[i] = value_at<T>(s, i);
        } else {
#pragma unroll
            for (uint32_t i = 0; i < 32; i++)
                sum[i] = combine(a.op, sum[i], value_at<T>(s, i));
        }
    }
    if (right && a.divide_by != 0) {
#pragma unroll
        for (uint32_t i = 0; i < 32; i++)
            sum[i] = __fdiv_rn(sum[i], a.divide_by);
    }
    return right;
}

template <enum dtype T>
__device__ __forceinline__ void write_chunks(const combine_args &a, const position &at,
                                             const share<T> &s) {
#pragma unroll
    for (int k = 0; k < 2; k++)
        if (a.chunk[k] != NULL)
            write_elements<T>(a.chunk[k] + at.first() * element<T>::bytes, at.count, at.lane, s);
}

/* ---- without an encoding ---- */

template <enum dtype T>
__global__ void __launch_bounds__(32 * PACK_WARPS) combine_kernel(combine_args a) {
    __shared__ pack_patch patch[PACK_WARPS];
    const uint32_t warp = threadIdx.x / 32;
    const position at = {blockIdx.x, warp, threadIdx.x % 32,
                         pack_count(a.layout, blockIdx.x, warp)};
    float sum[32];
    share<T> s;

    if (at.count == 0 || !reduce_operands<T>(a, at, patch[warp], sum, s))
        return;
    if (a.acc != NULL) {
#pragma unroll
        for (uint32_t q = 0; q < 8; q++)
            write_acc<T>(a.acc + at.first(), at.count, at.lane, q,
                         make_float4(sum[4 * q], sum[4 * q + 1], sum[4 * q + 2], sum[4 * q + 3]));
        return;
    }
    if (!a.moved)
        round_values<T>(sum, s);
    write_chunks<T>(a, at, s);
}

template <enum dtype T>
__global__ void __launch_bounds__(32 * PACK_WARPS, T == DTYPE_F32 ? 2 : 4)
    combine_pair_kernel(combine_args a) {
    __shared__ pack_patch patch[PACK_WARPS];
    const uint32_t warp = threadIdx.x / 32;
    const position at = {blockIdx.x, warp, threadIdx.x % 32,
                         pack_count(a.layout, blockIdx.x, warp)};
    share<T> s, other;

    if (at.count == 0)
        return;
    read_chunk<T>(a, 0, at, other);
    if (!read_piece<T>(a, 1, at, patch[warp], s))
        return;
    reduce_two<T>(a.op, a.divide_by, s, other);
    write_elements<T>(a.chunk[0] + at.first() * element<T>::bytes, at.count, at.lane, s);
}

/* ---- with one ---- */

/* Where the groups of a pair's piece are, found out by the warp that has time for it. */
struct piece_tile {
    const unsigned char *at;
    uint32_t all_sizes, before[PACK_WARPS], entry[PACK_WARPS];
    bool right;
};

/* A reduction as the source of groups. What it decodes is patched where it keeps the result. */
template <enum dtype T, bool PAIR> struct reduction_source {
    stage<T> staged; /* fetches the chunk of a pair */
    const combine_args &a;
    const pack_workspace &ws;
    piece_tile *pieces; /* two, of a pair */

    __device__ __forceinline__ void prepare(uint32_t tile, uint32_t turn) {
        if (!PAIR || tile >= a.layout.tiles)
            return;
        piece_tile &piece = pieces[turn % 2];
        const unsigned char *slot = a.operand[1].data;
        pack_tile found;
        bool right = pack_find_tile<T>(slot, a.operand[1].slot_bytes, a.layout, tile, staged.lane,
                                       found, a.status);
        uint32_t size = right ? found.size : 0, up_to = lanes_up_to(size);

        if (staged.lane < PACK_WARPS) {
            piece.before[staged.lane] = up_to - size;
            piece.entry[staged.lane] = found.entry;
        }
        if (staged.lane == 0) {
            piece.right = right;
            piece.at = slot + found.at;
            piece.all_sizes = found.all_sizes;
        }
        if (right)
            prefetch_bytes(slot + found.at, found.units * PACK_UNIT, staged.lane);
    }

    __device__ __forceinline__ void start(uint32_t tile, uint32_t turn) {
        if (PAIR)
            staged.start(tile, turn);
    }
    __device__ __forceinline__ bool reduce(const position &at, uint32_t turn, share<T> &s) {
        pack_patch &patch = *(pack_patch *)staged.buffer(turn);

        if (PAIR) {
            share<T> other;

            staged.get(turn, other);
            __syncwarp();
            const piece_tile &piece = pieces[turn % 2];

            if (!piece.right || !pack_read<T>(pack_place_of(piece.at, piece.before[at.warp],
                                                            piece.all_sizes, piece.entry[at.warp]),
                                              at.count, at.lane, patch, s, a.status))
                return false;
            reduce_two<T>(a.op, a.divide_by, s, other);
        } else {
            float sum[32];

            if (!reduce_operands<T>(a, at, patch, sum, s))
                return false;
            if (!a.moved)
                round_values<T>(sum, s);
        }
        return true;
    }
    __device__ __forceinline__ void get(uint32_t tile, uint32_t turn, uint32_t count, share<T> &s) {
        const position at = {tile, staged.warp, staged.lane, count};

        if (count == 0 || !reduce(at, turn, s)) {
#pragma unroll
            for (uint32_t k = 0; k < element<T>::words; k++)
                s.w[k] = 0;
            if (count != 0 && at.lane == 0)
                atomicOr(ws.lost, 1);
        } else {
            write_chunks<T>(a, at, s);
        }
        if (count < GROUP)
            clear_missing<T>(s, count, at.lane);
        __syncwarp();
        staged.put(turn, s);
    }
    __device__ __forceinline__ uint32_t exponent(uint32_t e, uint32_t turn) {
        return staged.exponent(e, turn);
    }
};

template <enum dtype T, bool PAIR>
__global__ void __launch_bounds__(ENCODE_THREADS, T == DTYPE_F32 ? 1
                                                  : PAIR         ? 3
                                                                 : 2)
    combine_encode_kernel(combine_args a, encode_args e) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    __shared__ piece_tile pieces[2];
    encode_shared<T> &s = *(encode_shared<T> *)shared_bytes;
    reduction_source<T, PAIR> source = {
        {s, a.layout, a.operand[0].data, threadIdx.x / 32, threadIdx.x % 32}, a, e.ws, pieces};

    encode_tiles<T>(s, e, source);
}

/* ---- launchers ---- */

template <enum dtype T, bool PAIR>
cudaError_t launch_encode(const combine_args &a, const encode_args &e, cudaStream_t stream) {
    uint32_t blocks;
    cudaError_t error = encode_blocks<T>(combine_encode_kernel<T, PAIR>, e.layout.tiles, &blocks);

    if (error != cudaSuccess)
        return error;
    combine_encode_kernel<T, PAIR>
        <<<blocks, ENCODE_THREADS, sizeof(encode_shared<T>), stream>>>(a, e);
    return cudaGetLastError();
}

template <enum dtype T>
cudaError_t launch(const combine_args &a, const encode_args &e, cudaStream_t stream) {
    bool pair = a.count == 2 && a.acc == NULL && a.operand[0].kind == SOURCE_CHUNK &&
                a.operand[1].kind == SOURCE_PACK;

    if (e.slot != NULL)
        return pair ? launch_encode<T, true>(a, e, stream) : launch_encode<T, false>(a, e, stream);
    if (pair && a.chunk[1] == NULL)
        combine_pair_kernel<T><<<a.layout.tiles, 32 * PACK_WARPS, 0, stream>>>(a);
    else
        combine_kernel<T><<<a.layout.tiles, 32 * PACK_WARPS, 0, stream>>>(a);
    return cudaGetLastError();
}

void take_operands(const gpu_job &job, combine_args &a) {
    for (uint32_t o = 0; o < job.count; o++) {
        a.operand[o].data = job.in[o].data;
        a.operand[o].slot_bytes = job.in[o].slot_bytes;
        a.operand[o].kind = job.in[o].kind == GPU_ACC     ? SOURCE_ACC
                            : job.in[o].kind == GPU_PIECE ? SOURCE_PACK
                                                          : SOURCE_CHUNK;
    }
    if (job.count == 2 && a.operand[0].kind == SOURCE_PACK && a.operand[1].kind == SOURCE_CHUNK) {
        auto piece = a.operand[0];

        a.operand[0] = a.operand[1];
        a.operand[1] = piece;
    }
}

} // namespace

cudaError_t pack_combine(const gpu_job &job) {
    combine_args a = {};
    encode_args e = {NULL, job.slot_bytes, pack_layout_of(job.elems),
                     pack_workspace_at(job.workspace), job.status};

    a.count = job.count;
    a.op = job.op;
    a.divide_by = (float)job.divide_by;
    a.moved = job.moved;
    a.layout = e.layout;
    a.acc = (float *)job.acc;
    a.chunk[0] = job.chunk;
    a.status = job.status;
    if (job.wire.form == GPU_FORM_PACK)
        e.slot = job.slot;
    else
        a.chunk[1] = job.slot;
    take_operands(job, a);
    return job.t == DTYPE_BF16  ? launch<DTYPE_BF16>(a, e, job.stream)
           : job.t == DTYPE_F16 ? launch<DTYPE_F16>(a, e, job.stream)
                                : launch<DTYPE_F32>(a, e, job.stream);
}
