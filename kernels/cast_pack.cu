/*
 * cast_pack.cu: `cast(bf16) | pack` and `cast(f16) | pack` of f32, in one pass: values are rounded
 * and packed, unpacked and widened, in registers. The 16-bit values never are in memory.
 *
 *     bytes moved a raw byte, ratio r of the whole:   encode, decode           1 + r
 *                                                     chunk + piece -> chunk   2 + r
 *                                                     chunk + piece -> piece   1 + 2 r
 *
 * Groups are laid out as those of 16 bits (wide.cuh). An encode is pack_encode.cuh with the source
 * below: a chunk alone is on its way in registers while the group before is packed. Of several
 * operands, the ninth warp finds out where the groups of the next tile are, and has them fetched
 * into the cache.
 */
#include "kernels/pack_encode.cuh"
#include "kernels/packed_value.cuh"
#include "kernels/value.cuh"

namespace {

/* PAIR: a chunk and a piece. */
enum shape { MOVED, PAIR, MANY };

__device__ __forceinline__ span span_at(const pack_layout &layout, uint32_t tile, uint32_t warp,
                                        uint32_t lane) {
    return {tile * PACK_WARPS + warp, lane, pack_count(layout, tile, warp)};
}

/* ---- to elements ---- */

template <enum dtype W>
__global__ void __launch_bounds__(32 * PACK_WARPS)
    decode_kernel(const __grid_constant__ gpu_job job, const __grid_constant__ pack_layout layout) {
    __shared__ pack_patch patch[PACK_WARPS];
    const span at = span_at(layout, blockIdx.x, threadIdx.x / 32, threadIdx.x % 32);
    share<W> x;
    share<DTYPE_F32> s;

    if (at.count == 0 || !read_packed<W>(job, job.in[0], layout, at, patch[threadIdx.x / 32], x))
        return;
    convert<W, DTYPE_F32>(x, s);
    write_wide<DTYPE_F32>(job.chunk + 4 * at.first(), at.count, at.lane, s);
}

/* One operand after the other. */
template <enum dtype W>
__device__ __forceinline__ bool reduce_many(const gpu_job &job, const pack_layout &layout,
                                            const span &at, pack_patch &patch, float (&sum)[32]) {
#pragma unroll 1
    for (uint32_t o = 0; o < job.count; o++) {
        const gpu_input &in = job.in[o];

        if (in.kind != GPU_PIECE) {
            share<DTYPE_F32> x;

            read_wide<DTYPE_F32>(in.data + 4 * at.first(), at.count, at.lane, x);
            take(job.op, o == 0, sum, [&](uint32_t i) { return __uint_as_float(x.w[i]); });
        } else {
            share<W> x;

            if (!read_packed<W>(job, in, layout, at, patch, x))
                return false;
            take(job.op, o == 0, sum, [&](uint32_t i) { return value_at<W>(x, i); });
        }
    }
    return true;
}

/* Both on their way at once. */
template <enum dtype W>
__device__ __forceinline__ bool reduce_pair(const gpu_job &job, const pack_layout &layout,
                                            const span &at, pack_patch &patch, float (&sum)[32]) {
    share<DTYPE_F32> s;
    wide_loads chunk;
    share<W> x;

    start_wide(job.in[0].data + 4 * at.first(), at.count, at.lane, chunk);
    if (!read_packed<W>(job, job.in[1], layout, at, patch, x))
        return false;
    finish_wide(chunk, at.lane, s);
    take(job.op, true, sum, [&](uint32_t i) { return __uint_as_float(s.w[i]); });
    take(job.op, false, sum, [&](uint32_t i) { return value_at<W>(x, i); });
    return true;
}

template <enum dtype W, shape SHAPE>
__global__ void __launch_bounds__(32 * PACK_WARPS, 3)
    reduce_kernel(const __grid_constant__ gpu_job job, const __grid_constant__ pack_layout layout) {
    __shared__ pack_patch patches[PACK_WARPS];
    const span at = span_at(layout, blockIdx.x, threadIdx.x / 32, threadIdx.x % 32);
    pack_patch &patch = patches[threadIdx.x / 32];
    float sum[32];
    share<DTYPE_F32> s;

    if (at.count == 0 || !(SHAPE == PAIR ? reduce_pair<W>(job, layout, at, patch, sum)
                                         : reduce_many<W>(job, layout, at, patch, sum)))
        return;
    divide(job.divide_by, sum);
    if (job.acc != NULL) {
        write_sums(job.acc, at, sum);
        return;
    }
    round_values<DTYPE_F32>(sum, s);
    if (job.chunk != NULL)
        write_wide<DTYPE_F32>(job.chunk + 4 * at.first(), at.count, at.lane, s);
    if (job.slot != NULL) /* a raw one */
        write_wide<DTYPE_F32>(job.slot + 4 * at.first(), at.count, at.lane, s);
}

/* ---- to a piece ---- */

/* Where the groups of a tile are in a piece. */
struct piece_tile {
    const unsigned char *at;
    uint32_t all_sizes, before[PACK_WARPS], entry[PACK_WARPS];
    bool right;
};

typedef piece_tile piece_tiles[GPU_MAX_OPERANDS];

/* The operands as the source of groups of W. One that is moved is encoded as it is. */
template <enum dtype W, shape SHAPE> struct cast_source {
    encode_shared<W> &s;
    const gpu_job &job;
    const encode_args &args;
    piece_tiles *pieces; /* of turn % 2 */
    uint32_t warp, lane, next;
    wide_loads ahead; /* the chunk that is moved */

    __device__ __forceinline__ uint4 *buffer(uint32_t turn) {
        return s.in[turn % 2] + warp * element<W>::quads;
    }
    __device__ __forceinline__ void fetch(uint32_t tile) {
        uint32_t count = tile < args.layout.tiles ? pack_count(args.layout, tile, warp) : 0;
        uint64_t first = (uint64_t)tile * PACK_TILE + warp * GROUP;

        if (SHAPE == MOVED)
            start_wide(job.in[0].data + 4 * first, count, lane, ahead);
    }
    __device__ __forceinline__ void start(uint32_t tile, uint32_t turn) {
        next = tile;
        if (turn == 0)
            fetch(tile);
    }
    __device__ __forceinline__ void prepare(uint32_t tile, uint32_t turn) {
        if constexpr (SHAPE != MOVED)
            if (tile < args.layout.tiles)
                for (uint32_t o = 0; o < job.count; o++)
                    prepare_operand(job.in[o], tile, pieces[turn % 2][o]);
    }
    __device__ __forceinline__ void prepare_operand(const gpu_input &in, uint32_t tile,
                                                    piece_tile &piece) {
        pack_tile found;

        if (in.kind != GPU_PIECE) {
            prefetch_bytes(in.data + (uint64_t)tile * PACK_TILE * 4,
                           pack_tile_elems(args.layout, tile) * 4, lane);
            return;
        }
        bool right =
            pack_find_tile<W>(in.data, in.slot_bytes, args.layout, tile, lane, found, job.status);
        uint32_t size = right ? found.size : 0, up_to = lanes_up_to(size);

        if (lane < PACK_WARPS)
            piece.before[lane] = up_to - size, piece.entry[lane] = found.entry;
        if (lane == 0)
            piece.right = right, piece.at = in.data + found.at, piece.all_sizes = found.all_sizes;
        if (right)
            prefetch_bytes(in.data + found.at, found.units * PACK_UNIT, lane);
    }
    __device__ __forceinline__ bool read(uint32_t o, const span &at, uint32_t turn, share<W> &x) {
        const piece_tile &piece = pieces[turn % 2][o];
        pack_patch &patch = *(pack_patch *)buffer(turn + 1);

        static_assert(sizeof(pack_patch) <= 16 * element<W>::quads, "a warp's half of the buffer");
        return piece.right && pack_read<W>(pack_place_of(piece.at, piece.before[warp],
                                                         piece.all_sizes, piece.entry[warp]),
                                           at.count, lane, patch, x, job.status);
    }
    __device__ __forceinline__ bool reduce_pair(const span &at, uint32_t turn, float (&sum)[32]) {
        share<DTYPE_F32> chunk;
        share<W> x;

        if (!read(1, at, turn, x))
            return false;
        read_wide<DTYPE_F32>(job.in[0].data + 4 * at.first(), at.count, lane, chunk);
        take(job.op, true, sum, [&](uint32_t i) { return __uint_as_float(chunk.w[i]); });
        take(job.op, false, sum, [&](uint32_t i) { return value_at<W>(x, i); });
        return true;
    }
    __device__ __forceinline__ bool reduce_many(const span &at, uint32_t turn, float (&sum)[32]) {
#pragma unroll 1
        for (uint32_t o = 0; o < job.count; o++) {
            if (job.in[o].kind == GPU_PIECE) {
                share<W> x;

                if (!read(o, at, turn, x))
                    return false;
                take(job.op, o == 0, sum, [&](uint32_t i) { return value_at<W>(x, i); });
            } else {
                share<DTYPE_F32> x;

                read_wide<DTYPE_F32>(job.in[o].data + 4 * at.first(), at.count, lane, x);
                take(job.op, o == 0, sum, [&](uint32_t i) { return __uint_as_float(x.w[i]); });
            }
        }
        return true;
    }
    __device__ __forceinline__ bool elements(const span &at, uint32_t turn, share<DTYPE_F32> &x) {
        float sum[32];

        if (SHAPE == MOVED) {
            finish_wide(ahead, lane, x);
            return true;
        }
        if (at.count == 0 ||
            !(SHAPE == PAIR ? reduce_pair(at, turn, sum) : reduce_many(at, turn, sum)))
            return false;
        divide(job.divide_by, sum);
        round_values<DTYPE_F32>(sum, x);
        return true;
    }
    __device__ __forceinline__ void get(uint32_t tile, uint32_t turn, uint32_t count, share<W> &w) {
        const span at = {tile * PACK_WARPS + warp, lane, count};
        share<DTYPE_F32> x;

        if (elements(at, turn, x)) {
            if (job.chunk != NULL)
                write_wide<DTYPE_F32>(job.chunk + 4 * at.first(), count, lane, x);
            convert<DTYPE_F32, W>(x, w);
            if (SHAPE != MOVED && count < GROUP)
                clear_missing<W>(w, count, lane);
        } else {
#pragma unroll
            for (uint32_t k = 0; k < 16; k++)
                w.w[k] = 0;
            if (count != 0 && lane == 0)
                atomicOr(args.ws.lost, 1);
        }
        fetch(next);
        __syncwarp();
#pragma unroll
        for (uint32_t j = 0; j < element<W>::loads; j++)
            buffer(turn)[j * 32 + lane] =
                make_uint4(w.w[4 * j], w.w[4 * j + 1], w.w[4 * j + 2], w.w[4 * j + 3]);
    }
    /* Of the group's element e. */
    __device__ __forceinline__ uint32_t exponent(uint32_t e, uint32_t turn) {
        return (((const uint16_t *)buffer(turn))[e] & pack_type<W>::mask & 0xffffu) >>
               pack_type<W>::shift;
    }
};

template <enum dtype W, shape SHAPE>
__global__ void __launch_bounds__(ENCODE_THREADS, 2)
    encode_kernel(const __grid_constant__ gpu_job job, const __grid_constant__ encode_args args) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    __shared__ piece_tiles pieces[2];
    encode_shared<W> &s = *(encode_shared<W> *)shared_bytes;
    cast_source<W, SHAPE> source = {s, job, args, pieces, threadIdx.x / 32, threadIdx.x % 32};

    encode_tiles<W>(s, args, source);
}

/* ---- launchers ---- */

template <enum dtype W, shape SHAPE>
cudaError_t launch_encode(const gpu_job &job, const encode_args &args) {
    uint32_t blocks;
    cudaError_t e = encode_blocks<W>(encode_kernel<W, SHAPE>, args.layout.tiles, &blocks);

    if (e != cudaSuccess)
        return e;
    encode_kernel<W, SHAPE>
        <<<blocks, ENCODE_THREADS, sizeof(encode_shared<W>), job.stream>>>(job, args);
    return cudaGetLastError();
}

template <enum dtype W> cudaError_t launch(const gpu_job &job) {
    const encode_args args = {job.slot, job.slot_bytes, pack_layout_of(job.elems),
                              pack_workspace_at(job.workspace), job.status};
    const pack_layout &layout = args.layout;
    bool pair = job.count == 2 && job.in[0].kind != GPU_PIECE && job.in[1].kind == GPU_PIECE;

    if (job.slot != NULL && job.wire.form == GPU_FORM_CAST_PACK)
        return pair                                       ? launch_encode<W, PAIR>(job, args)
               : job.moved && job.in[0].kind == GPU_CHUNK ? launch_encode<W, MOVED>(job, args)
                                                          : launch_encode<W, MANY>(job, args);
    if (job.moved && job.slot == NULL)
        decode_kernel<W><<<layout.tiles, 32 * PACK_WARPS, 0, job.stream>>>(job, layout);
    else if (pair)
        reduce_kernel<W, PAIR><<<layout.tiles, 32 * PACK_WARPS, 0, job.stream>>>(job, layout);
    else
        reduce_kernel<W, MANY><<<layout.tiles, 32 * PACK_WARPS, 0, job.stream>>>(job, layout);
    return cudaGetLastError();
}

/* The type on the wire; false when there are pieces of another form or type. */
bool one_type(const gpu_job &job, enum wire_type &type) {
    bool found = job.slot != NULL && job.wire.form == GPU_FORM_CAST_PACK;

    if (job.slot != NULL && !found && job.wire.form != GPU_FORM_RAW)
        return false;
    type = job.wire.type;
    for (uint32_t o = 0; o < job.count; o++) {
        const gpu_wire &wire = job.in[o].wire;

        if (job.in[o].kind != GPU_PIECE)
            continue;
        if (wire.form != GPU_FORM_CAST_PACK || (found && wire.type != type))
            return false;
        found = true;
        type = wire.type;
    }
    return found;
}

} // namespace

bool cast_pack_takes(const gpu_job &job) {
    enum wire_type type;

    return job.t == DTYPE_F32 && one_type(job, type);
}

cudaError_t cast_pack_combine(const gpu_job &job) {
    enum wire_type type = WIRE_BF16;

    one_type(job, type);
    return type == WIRE_BF16 ? launch<DTYPE_BF16>(job) : launch<DTYPE_F16>(job);
}
