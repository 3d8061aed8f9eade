/*
 * sparse.cu: `sparse` on the GPU (sparse.c draws the layout, FORMAT.md defines it). A warp has a
 * group in registers, eight of them make a tile.
 *
 *     encode   | load | word of the lane | body to shared memory | wait for the place | copy out |
 *     decode   | entries of the tile | word of the lane | values by a prefix sum | store |
 *
 * Only the size of an element matters: there is a kernel for each of 1, 2, 4 and 8 bytes.
 *
 *     bytes moved a raw byte, ratio r:   encode, decode   1 + r
 *
 * Values are stored and loaded one at a time, so the more there are, the further from that.
 */
#include "kernels/bounded.cuh"

namespace {

#define WARPS     8u
#define ENTRY_RAW (UINT32_C(1) << 17)

/* A lane's share of a group: 16 bytes a row, as FORMAT.md numbers them. */
template <class E> struct lane_share {
    static constexpr uint32_t rows = 2 * sizeof(E), each = 16 / sizeof(E);
    union {
        E e[32];
        uint4 row[rows];
    };
};

/* Count elements, the rest as zeros. Whole warp; the same for write_share. */
template <class E>
__device__ __forceinline__ void read_share(const unsigned char *from, uint32_t count, uint32_t lane,
                                           lane_share<E> &s) {
    const bool whole = count == GROUP && ((uintptr_t)from & 15) == 0;

#pragma unroll
    for (uint32_t r = 0; r < s.rows; r++) {
        uint32_t first = (r * 32 + lane) * s.each;

        if (whole) {
            s.row[r] = __ldcs((const uint4 *)from + r * 32 + lane);
            continue;
        }
#pragma unroll
        for (uint32_t j = 0; j < s.each; j++)
            s.e[r * s.each + j] = first + j < count ? ((const E *)from)[first + j] : E(0);
    }
}

template <class E>
__device__ __forceinline__ void write_share(unsigned char *to, uint32_t count, uint32_t lane,
                                            const lane_share<E> &s) {
    const bool whole = count == GROUP && ((uintptr_t)to & 15) == 0;

#pragma unroll
    for (uint32_t r = 0; r < s.rows; r++) {
        uint32_t first = (r * 32 + lane) * s.each;

        if (whole) {
            __stcs((uint4 *)to + r * 32 + lane, s.row[r]);
            continue;
        }
#pragma unroll
        for (uint32_t j = 0; j < s.each; j++)
            if (first + j < count)
                ((E *)to)[first + j] = s.e[r * s.each + j];
    }
}

/* ---- sizes, as sparse.c has them ---- */

template <class E> __device__ __forceinline__ uint32_t values_at(uint32_t words) {
    return (4 + 4 * words + sizeof(E) - 1) / sizeof(E) * sizeof(E);
}

template <class E> __device__ __forceinline__ uint32_t body_bytes(uint32_t values, uint32_t words) {
    return (values_at<E>(words) + values * (uint32_t)sizeof(E) + 15) / 16 * 16;
}

template <class E> __device__ __forceinline__ uint32_t raw_bytes(uint32_t count) {
    return (count * (uint32_t)sizeof(E) + 15) / 16 * 16;
}

__device__ __forceinline__ uint32_t group_count(uint64_t elems, uint32_t tile, uint32_t group) {
    uint64_t first = (uint64_t)tile * PACK_TILE + group * GROUP;

    return first < elems ? (uint32_t)min((uint64_t)GROUP, elems - first) : 0;
}

__device__ __forceinline__ uint64_t entries_at(uint32_t tiles) {
    return BOUNDED_HEADER_BYTES + 4 * (uint64_t)tiles;
}

/* ---- encoding ---- */

/* A group's body: how it is stored and where. */
struct body {
    uint32_t word;  /* of this lane: a bit for each of its values */
    uint32_t lanes; /* with values */
    uint32_t values, bytes, entry;
};

template <class E> __device__ __forceinline__ body choose(const lane_share<E> &s, uint32_t count) {
    body b = {};

#pragma unroll
    for (uint32_t i = 0; i < 32; i++)
        b.word |= (s.e[i] != 0 ? 1u : 0u) << i;
    b.lanes = __ballot_sync(ALL_LANES, b.word != 0);
    b.values = __reduce_add_sync(ALL_LANES, (uint32_t)__popc(b.word));
    if (b.values == 0)
        return b;
    b.entry = b.values | (uint32_t)__popc(b.lanes) << 11;
    b.bytes = body_bytes<E>(b.values, __popc(b.lanes));
    if (b.bytes >= raw_bytes<E>(count)) {
        b.entry = ENTRY_RAW;
        b.bytes = raw_bytes<E>(count);
    }
    return b;
}

/* To shared memory, a multiple of 16. */
template <class E>
__device__ __forceinline__ void write_body(const lane_share<E> &s, const body &b, uint32_t lane,
                                           unsigned char *to) {
    uint32_t words = __popc(b.lanes), start = values_at<E>(words);
    uint32_t mine = __popc(b.word), n = lanes_up_to(mine) - mine;
    uint32_t end = start + b.values * (uint32_t)sizeof(E);

    if (b.entry == ENTRY_RAW) {
#pragma unroll
        for (uint32_t r = 0; r < s.rows; r++)
            if ((r * 32 + lane) * 16 < b.bytes)
                ((uint4 *)to)[r * 32 + lane] = s.row[r];
        return;
    }
    if (b.entry == 0)
        return;
    if (lane == 0) {
        ((uint32_t *)to)[0] = b.lanes;
        if (start > 4 + 4 * words)
            ((uint32_t *)to)[1 + words] = 0;
    }
    if (b.word != 0)
        ((uint32_t *)to)[1 + __popc(b.lanes & ((1u << lane) - 1))] = b.word;
#pragma unroll
    for (uint32_t i = 0; i < 32; i++)
        if ((b.word >> i & 1) != 0)
            ((E *)(to + start))[n++] = s.e[i];
    if (lane < b.bytes - end)
        to[end + lane] = 0;
}

template <class E>
__global__ void __launch_bounds__(32 * WARPS)
    encode_kernel(bounded_piece p, pack_workspace ws, const unsigned char *src) {
    extern __shared__ __align__(16) unsigned char out[];
    __shared__ uint32_t ticket, place, sizes[WARPS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t tile = bounded_draw(ws, ticket), count = group_count(p.elems, tile, warp);
    const bool directory = p.payload_at <= p.slot_bytes;
    uint32_t *entries = (uint32_t *)(p.slot + entries_at(p.parts));
    lane_share<E> s;

    read_share<E>(src + ((uint64_t)tile * PACK_TILE + warp * GROUP) * sizeof(E), count, lane, s);
    const body b = choose<E>(s, count);

    if (lane == 0) {
        sizes[warp] = b.bytes;
        if (directory && count != 0)
            entries[(uint64_t)tile * WARPS + warp] = b.entry;
    }
    __syncthreads();
    uint32_t size = lane < WARPS ? sizes[lane] : 0;
    uint32_t before = __reduce_add_sync(ALL_LANES, lane < warp ? size : 0);
    uint32_t all = __reduce_add_sync(ALL_LANES, size), units = (all + PACK_UNIT - 1) / PACK_UNIT;

    write_body<E>(s, b, lane, out + before);
    if (warp == 0) {
        uint32_t at = bounded_place(p, ws, tile, units, lane);

        if (lane < units * PACK_UNIT - all)
            out[all + lane] = 0;
        if (lane == 0) {
            place = at;
            if (directory)
                ((uint32_t *)(p.slot + BOUNDED_HEADER_BYTES))[tile] = at;
        }
    }
    if (tile == 0 && directory) { /* the gap behind the entries */
        uint64_t at = entries_at(p.parts) + 4 * ((p.elems + GROUP - 1) / GROUP);

        if (at + 4 * threadIdx.x < p.payload_at)
            *(uint32_t *)(p.slot + at + 4 * threadIdx.x) = 0;
    }
    __syncthreads();
    uint64_t at = p.payload_at + (uint64_t)place * PACK_UNIT;

    if (at + units * PACK_UNIT <= p.slot_bytes)
        for (uint32_t i = threadIdx.x; i < units * PACK_UNIT / 16; i += 32 * WARPS)
            ((uint4 *)(p.slot + at))[i] = ((const uint4 *)out)[i];
    if (threadIdx.x == 0)
        bounded_leave(p, ws);
}

/* ---- decoding ---- */

/* Where a group is, and what its entry says. */
struct found {
    uint64_t at;
    uint32_t entry;
};

/* False when the entries or the offset of the tile cannot be. Whole warp. */
template <class E>
__device__ __forceinline__ bool find_group(const bounded_piece &p, uint64_t end, uint32_t tile,
                                           uint32_t group, uint32_t lane, found &f) {
    const uint32_t *offsets = (const uint32_t *)(p.slot + BOUNDED_HEADER_BYTES);
    const uint32_t *entries = (const uint32_t *)(p.slot + entries_at(p.parts));
    uint32_t count = lane < WARPS ? group_count(p.elems, tile, lane) : 0;
    uint32_t entry = count != 0 ? entries[(uint64_t)tile * WARPS + lane] : 0;
    uint32_t values = entry & 2047, words = entry >> 11, raw = raw_bytes<E>(count), bytes = 0;
    uint32_t offset = offsets[tile], next = tile + 1 < p.parts ? offsets[tile + 1] : 0;
    bool right = true;

    if (entry == ENTRY_RAW) {
        bytes = raw;
    } else if (entry != 0) {
        right = entry < ENTRY_RAW && words <= 32 && values >= words && values <= 32 * words &&
                body_bytes<E>(values, words) < raw;
        bytes = right ? body_bytes<E>(values, words) : 0;
    }
    uint32_t all = __reduce_add_sync(ALL_LANES, bytes);
    uint32_t before = __reduce_add_sync(ALL_LANES, lane < group ? bytes : 0);

    f.at = p.payload_at + (uint64_t)offset * PACK_UNIT + before;
    f.entry = __shfl_sync(ALL_LANES, entry, group);
    return __all_sync(ALL_LANES, right) &&
           bounded_follows(p, tile, offset, (all + PACK_UNIT - 1) / PACK_UNIT, next, end);
}

/* The values of a body at their places; false when its words are not those of the entry. */
template <class E>
__device__ __forceinline__ bool read_body(const unsigned char *from, uint32_t entry, uint32_t count,
                                          uint32_t lane, lane_share<E> &s) {
    uint32_t values = entry & 2047, words = entry >> 11, lanes = ((const uint32_t *)from)[0];
    uint32_t before = __popc(lanes & ((1u << lane) - 1));
    /* with too many lanes, words behind the entry's are values or the next body's: none is read */
    uint32_t word =
        (lanes >> lane & 1) != 0 && before < words ? ((const uint32_t *)from)[1 + before] : 0;
    uint32_t mine = __popc(word), n = lanes_up_to(mine) - mine;
    const E *value = (const E *)(from + values_at<E>(words));
    bool inside = true;

    if (__popc(lanes) != words || __reduce_add_sync(ALL_LANES, mine) != values)
        return false;
#pragma unroll
    for (uint32_t i = 0; i < 32; i++) {
        bool is = (word >> i & 1) != 0;

        s.e[i] = is ? value[n] : E(0);
        n += is ? 1 : 0;
        inside = inside && (!is || (i / s.each * 32 + lane) * s.each + i % s.each < count);
    }
    return __all_sync(ALL_LANES, inside);
}

template <class E>
__global__ void __launch_bounds__(32 * WARPS) decode_kernel(bounded_piece p, unsigned char *dst) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, tile = blockIdx.x;
    const uint32_t count = group_count(p.elems, tile, warp);
    const uint64_t end = bounded_open(p);
    lane_share<E> s;
    found f;

    if (end == 0)
        return;
    if (!find_group<E>(p, end, tile, warp, lane, f)) {
        bounded_malformed(p);
        return;
    }
    if (f.entry == ENTRY_RAW) {
#pragma unroll
        for (uint32_t r = 0; r < s.rows; r++)
            s.row[r] = (r * 32 + lane) * 16 < raw_bytes<E>(count)
                           ? ((const uint4 *)(p.slot + f.at))[r * 32 + lane]
                           : make_uint4(0, 0, 0, 0);
    } else if (f.entry == 0) {
#pragma unroll
        for (uint32_t r = 0; r < s.rows; r++)
            s.row[r] = make_uint4(0, 0, 0, 0);
    } else if (!read_body<E>(p.slot + f.at, f.entry, count, lane, s)) {
        bounded_malformed(p);
        return;
    }
    write_share<E>(dst + ((uint64_t)tile * PACK_TILE + warp * GROUP) * sizeof(E), count, lane, s);
}

/* ---- launchers ---- */

bounded_piece piece_of(const unsigned char *slot, uint64_t slot_bytes, const gpu_job &job) {
    struct tile_layout l = tile_layout_of(job.elems);

    return {(unsigned char *)slot, slot_bytes,          job.elems,         l.payload_at,
            BOUNDED_MAGIC('S', 1), bounded_type(job.t), (uint32_t)l.tiles, job.status};
}

template <class E> cudaError_t launch_encode(const gpu_job &job) {
    const uint32_t shared_bytes = PACK_TILE * sizeof(E) + PACK_UNIT;
    bounded_piece p = piece_of(job.slot, job.slot_bytes, job);
    cudaError_t e = cudaFuncSetAttribute(
        encode_kernel<E>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);

    if (e != cudaSuccess)
        return e;
    encode_kernel<E><<<p.parts, 32 * WARPS, shared_bytes, job.stream>>>(
        p, pack_workspace_at(job.workspace), job.in[0].data);
    return cudaGetLastError();
}

template <class E> cudaError_t launch_decode(const gpu_job &job) {
    bounded_piece p = piece_of(job.in[0].data, job.in[0].slot_bytes, job);

    decode_kernel<E><<<p.parts, 32 * WARPS, 0, job.stream>>>(p, job.chunk);
    return cudaGetLastError();
}

} // namespace

cudaError_t sparse_encode(const gpu_job &job) {
    switch (dtype_bytes(job.t)) {
    case 1:
        return launch_encode<uint8_t>(job);
    case 2:
        return launch_encode<uint16_t>(job);
    case 4:
        return launch_encode<uint32_t>(job);
    default:
        return launch_encode<uint64_t>(job);
    }
}

cudaError_t sparse_decode(const gpu_job &job) {
    switch (dtype_bytes(job.t)) {
    case 1:
        return launch_decode<uint8_t>(job);
    case 2:
        return launch_decode<uint16_t>(job);
    case 4:
        return launch_decode<uint32_t>(job);
    default:
        return launch_decode<uint64_t>(job);
    }
}
