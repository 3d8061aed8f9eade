/*
 * pack_encode.cuh: the body of a kernel that encodes with `pack`, for any source of groups:
 * elements in memory (pack.cu) or a reduction that is still in registers (combine.cu).
 *
 * One pass. A block of eight warps encodes tiles, a warp a group; the tile is put together in
 * shared memory and leaves in one bulk copy. Where it goes depends on the sizes of all tiles before
 * it. Each size is announced as soon as it is known; a ninth warp adds up the ones before
 * (decoupled look-back: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled
 * Look-back", 2016), one tile behind the eight, so that nobody waits for it:
 *
 *     eight warps   | load t+2, choose t+1 | write t+1 | load t+3, choose t+2 | write t+2 | ...
 *     ninth warp                           | announce t+1, look back t, send t | ...
 *                                          ^ the only barrier of a tile
 *
 * When it has caught up, the ninth warp does what the source wants done once for the next tile.
 *
 * Blocks draw tiles from a counter, so a tile's predecessors are always in blocks that run, however
 * few of them are resident beside other kernels. The last block to leave writes the header.
 */
#ifndef SLUICE_KERNELS_PACK_ENCODE_CUH
#define SLUICE_KERNELS_PACK_ENCODE_CUH

#include "kernels/pack_place.cuh"

#define ENCODE_THREADS (32 * (PACK_WARPS + 1))

template <enum dtype T> struct encode_shared {
    uint4 out[2][PACK_WARPS * element<T>::quads + PACK_UNIT / 16];
    uint4 in[2][PACK_WARPS * element<T>::quads];
    pack_list list[PACK_WARPS];
    uint32_t size[2][PACK_WARPS]; /* body | escapes << 16 */
    uint32_t ticket[4];           /* of turn % 4 */
};

struct encode_args {
    unsigned char *slot;
    uint64_t slot_bytes;
    pack_layout layout;
    pack_workspace ws;
    uint32_t *status;
};

/* ---- a warp's elements on their way to shared memory, two tiles deep ---- */

template <enum dtype T> struct stage {
    encode_shared<T> &s;
    const pack_layout &layout;
    const unsigned char *src;
    uint32_t warp, lane;

    __device__ __forceinline__ uint4 *buffer(uint32_t turn) {
        return s.in[turn % 2] + warp * element<T>::quads;
    }
    /* One commit group whether or not there is such a tile. */
    __device__ __forceinline__ void start(uint32_t tile, uint32_t turn) {
        uint32_t count = tile < layout.tiles ? pack_count(layout, tile, warp) : 0;
        const unsigned char *from =
            src + ((uint64_t)tile * PACK_TILE + warp * GROUP) * element<T>::bytes;

        if (count == GROUP && ((uintptr_t)from & 15) == 0) {
            uint32_t to = shared_address(buffer(turn) + lane);

#pragma unroll
            for (uint32_t j = 0; j < element<T>::loads; j++)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + j * 512),
                             "l"((const uint4 *)from + j * 32 + lane)
                             : "memory");
        } else if (tile < layout.tiles) {
            share<T> x;

            read_elements<T>(from, count, lane, x);
            put(turn, x);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    /* What start() fetched for this turn, once it was called for the next. */
    __device__ __forceinline__ void get(uint32_t turn, share<T> &x) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
#pragma unroll
        for (uint32_t j = 0; j < element<T>::loads; j++) {
            uint4 v = buffer(turn)[j * 32 + lane];

            x.w[4 * j] = v.x, x.w[4 * j + 1] = v.y, x.w[4 * j + 2] = v.z, x.w[4 * j + 3] = v.w;
        }
    }
    __device__ __forceinline__ void put(uint32_t turn, const share<T> &x) {
#pragma unroll
        for (uint32_t j = 0; j < element<T>::loads; j++)
            buffer(turn)[j * 32 + lane] =
                make_uint4(x.w[4 * j], x.w[4 * j + 1], x.w[4 * j + 2], x.w[4 * j + 3]);
    }
    /* Exponent of the group's element e. */
    __device__ __forceinline__ uint32_t exponent(uint32_t e, uint32_t turn) {
        const uint16_t *half = (const uint16_t *)buffer(turn);

        return (half[T == DTYPE_F32 ? 2 * e + 1 : e] & pack_type<T>::mask) >> pack_type<T>::shift;
    }
};

/* ---- the ninth warp ---- */

__device__ __forceinline__ uint32_t draw(const pack_workspace &ws) {
    return atomicAdd(ws.drawn, 1);
}

/* A finished tile to its place; wait_for_sent() before its shared memory is written again. */
__device__ __forceinline__ void send_tile(unsigned char *to, const uint4 *tile, uint32_t bytes,
                                          uint32_t lane) {
#if __CUDA_ARCH__ >= 900
    if (lane == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(shared_address(tile)), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
#else
    for (uint32_t i = lane; i < bytes / 16; i += 32)
        ((uint4 *)to)[i] = tile[i];
#endif
}

/* What the eight warps wrote to shared memory is for send_tile() to read. */
__device__ __forceinline__ void ready_to_send() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_sent() {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_written() {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

template <enum dtype T, class Source>
__device__ __forceinline__ void place_tiles(encode_shared<T> &s, const encode_args &a,
                                            uint32_t epoch, uint32_t lane, Source &source) {
    const bool directory = a.layout.payload_at <= a.slot_bytes;
    uint32_t last = ALL_LANES, last_units = 0;

    for (uint32_t turn = 0;; turn++) {
        uint32_t tile = s.ticket[turn % 4], units = 0;
        bool more = tile < a.layout.tiles;

        if (lane == 0) {
            s.ticket[(turn + 2) % 4] = more ? draw(a.ws) : ALL_LANES;
            wait_for_sent();
        }
        source.prepare(s.ticket[(turn + 1) % 4], turn + 1);
        __syncthreads();
        if (more) {
            uint32_t size = lane < PACK_WARPS ? s.size[turn % 2][lane] : 0;

            size = __reduce_add_sync(ALL_LANES, size);
            units = ((size & 0xffffu) + (size >> 16) + PACK_UNIT - 1) / PACK_UNIT;
            if (lane == 0)
                pack_announce(a.ws, tile, epoch, units);
            __syncwarp();
        }
        if (last != ALL_LANES) {
            uint32_t before = pack_look_back(a.ws, last, epoch, lane);
            uint64_t at = a.layout.payload_at + (uint64_t)before * PACK_UNIT;
            uint64_t end = at + (uint64_t)last_units * PACK_UNIT;

            if (end <= a.slot_bytes && last_units != 0)
                send_tile(a.slot + at, s.out[(turn + 1) % 2], last_units * PACK_UNIT, lane);
            if (lane == 0) {
                if (last % 32 == 31)
                    pack_publish(pack_set_of(a.ws, last / 32),
                                 pack_word(epoch, PACK_SUM, before + last_units));
                if (directory)
                    ((uint32_t *)(a.slot + PACK_HEADER))[last] = before;
                if (last == a.layout.tiles - 1)
                    *a.ws.end = end;
            }
        }
        if (!more)
            break;
        last = tile, last_units = units;
    }
    if (lane == 0)
        wait_for_written();
}

__device__ __forceinline__ void write_header(const encode_args &a, uint32_t wire, uint64_t end,
                                             bool lost) {
    uint4 *h = (uint4 *)a.slot;
    bool over = lost || end > a.slot_bytes;

    if (lost)
        end = 0; /* not known */
    if (over)
        atomicOr(a.status, GPU_OVERFLOW);
    h[0] = make_uint4(PACK_MAGIC, wire | (over ? PACK_MARKED : 0), (uint32_t)a.layout.elems,
                      (uint32_t)(a.layout.elems >> 32));
    h[1] = make_uint4((uint32_t)end, (uint32_t)(end >> 32), 0, 0);
}

/* One thread of every block, last thing. The last of them writes the header and makes the workspace
 * ready for the next launch. */
__device__ __forceinline__ void leave(const encode_args &a, uint32_t wire, uint32_t epoch) {
    const pack_workspace &ws = a.ws;

    __threadfence();
    if (atomicAdd(ws.done, 1) != gridDim.x - 1)
        return;
    __threadfence();
    write_header(a, wire, *(volatile uint64_t *)ws.end, *(volatile uint32_t *)ws.lost != 0);
    *ws.done = *ws.drawn = *ws.lost = 0;
    *pack_count_of(ws, (a.layout.tiles - 1) / 32) = 0;
    *ws.epoch = epoch == 0x3fffffffu ? 0 : epoch; /* 30 bits in a word */
}

/* ---- the kernel's body ---- */

/*
 * ENCODE_THREADS threads. A Source gives each of the eight warps its groups:
 *     start(tile, turn)                begin to fetch, one turn ahead; tile may be past the end
 *     get(tile, turn, count, share)    the group, missing elements as zero bits
 *     exponent(e, turn)                of element e of that group
 * and a tile to all of them, before any get() of that turn:
 *     prepare(tile, turn)              by the ninth warp
 */
template <enum dtype T, class Source>
__device__ __forceinline__ void encode_tiles(encode_shared<T> &s, const encode_args &a,
                                             Source &source) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t epoch = *a.ws.epoch + 1;
    const bool directory = a.layout.payload_at <= a.slot_bytes;

    if (warp == PACK_WARPS) {
        if (lane < 2)
            s.ticket[lane] = draw(a.ws);
        __syncwarp();
        source.prepare(s.ticket[0], 0);
    }
    if (blockIdx.x == 0 && directory) { /* the gap behind the entries */
        uint64_t at = a.layout.entries_at + 4 * ((a.layout.elems + GROUP - 1) / GROUP);

        if (at + 4 * threadIdx.x < a.layout.payload_at)
            *(uint32_t *)(a.slot + at + 4 * threadIdx.x) = 0;
    }
    __syncthreads();
    if (warp == PACK_WARPS) {
        place_tiles<T>(s, a, epoch, lane, source);
        if (lane == 0)
            leave(a, pack_type<T>::wire, epoch);
        return;
    }
    source.start(s.ticket[0], 0);
    for (uint32_t turn = 0;; turn++) {
        uint32_t tile = s.ticket[turn % 4];

        if (tile >= a.layout.tiles)
            break;
        source.start(s.ticket[(turn + 1) % 4], turn + 1);

        uint32_t count = pack_count(a.layout, tile, warp);
        share<T> x;
        pack_halves<T> h;
        pack_choice c;

        source.get(tile, turn, count, x);
        pack_split<T>(x, h);
        pack_choose<T>(h, count, lane, c);
        if (lane == 0) {
            s.size[turn % 2][warp] = c.body_bytes | c.escapes << 16;
            if (count != 0 && directory)
                ((uint32_t *)(a.slot + a.layout.entries_at))[(uint64_t)tile * PACK_WARPS + warp] =
                    c.entry;
        }
        __syncthreads();

        uint32_t size = lane < PACK_WARPS ? s.size[turn % 2][lane] : 0;
        uint32_t before = __reduce_add_sync(ALL_LANES, lane < warp ? size : 0);
        uint32_t all = __reduce_add_sync(ALL_LANES, size);
        uint32_t end = (all & 0xffffu) + (all >> 16);
        unsigned char *out = (unsigned char *)s.out[turn % 2], *body = out + (before & 0xffffu);

        if (c.raw)
            pack_write_raw<T>(h, c.body_bytes, count, lane, (uint4 *)body);
        else if (!c.zero)
            pack_write<T>(h, c, lane, body, out + (all & 0xffffu) + (before >> 16), s.list[warp],
                          [&](uint32_t e) {
                              /* missing ones are escaped only by a window one below the largest */
                              return e < count ? source.exponent(e, turn) : c.top + 1;
                          });
        if (warp == PACK_WARPS - 1 && lane < (0u - end) % PACK_UNIT)
            out[end + lane] = 0;
        ready_to_send();
    }
    __syncthreads();
}

/* Blocks that fit the device at once, at most one a tile. */
template <enum dtype T, class Kernel>
cudaError_t encode_blocks(Kernel kernel, uint32_t tiles, uint32_t *blocks) {
    const int shared_bytes = (int)sizeof(encode_shared<T>);
    int device, per, processors;
    cudaError_t e;

    if ((e = cudaGetDevice(&device)) != cudaSuccess ||
        (e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  shared_bytes)) != cudaSuccess ||
        (e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per, kernel, ENCODE_THREADS,
                                                           shared_bytes)) != cudaSuccess ||
        (e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device)) !=
            cudaSuccess)
        return e;
    *blocks = min((uint32_t)(per * processors), tiles);
    return cudaSuccess;
}

#endif
