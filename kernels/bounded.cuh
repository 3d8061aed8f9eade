/*
 * bounded.cuh: what sparse.cu and lz.cu share: an encoding is made of parts (tiles, blocks), a
 * thread block each, that follow each other without a gap. pack_place.cuh tells a part where it
 * goes; the last block to leave writes the header. Decoding needs no communication: the directory
 * says where a part is, and parts that end where the next one begins prove the directory right.
 */
#ifndef SLUICE_KERNELS_BOUNDED_CUH
#define SLUICE_KERNELS_BOUNDED_CUH

extern "C" {
#include "kernels/bounded.h"
}
#include "kernels/gpu_codec.cuh"
#include "kernels/pack_place.cuh"

/* A piece in its slot. */
struct bounded_piece {
    unsigned char *slot;
    uint64_t slot_bytes, elems, payload_at;
    uint32_t magic, type; /* of the header */
    uint32_t parts;
    uint32_t *status;
};

/* ---- encoding ---- */

/* The part that this block makes. Blocks draw them in order, so those before it are in blocks that
 * run. Whole block. */
__device__ __forceinline__ uint32_t bounded_draw(const pack_workspace &ws, uint32_t &ticket) {
    if (threadIdx.x == 0)
        ticket = atomicAdd(ws.drawn, 1);
    __syncthreads();
    return ticket;
}

/* Units of 32 bytes before this part. One whole warp, once for each part. */
__device__ __forceinline__ uint32_t bounded_place(const bounded_piece &p, const pack_workspace &ws,
                                                  uint32_t part, uint32_t units, uint32_t lane) {
    const uint32_t epoch = *ws.epoch + 1;
    uint32_t before;

    if (lane == 0)
        pack_announce(ws, part, epoch, units);
    __syncwarp();
    before = pack_look_back(ws, part, epoch, lane);
    if (lane == 0) {
        if (part % 32 == 31)
            pack_publish(pack_set_of(ws, part / 32), pack_word(epoch, PACK_SUM, before + units));
        if (part == p.parts - 1)
            *ws.end = p.payload_at + ((uint64_t)before + units) * PACK_UNIT;
    }
    return before;
}

/* The thread that placed the part, last thing. The last one writes the header and makes the
 * workspace ready for the next launch. */
__device__ __forceinline__ void bounded_leave(const bounded_piece &p, const pack_workspace &ws) {
    uint4 *header = (uint4 *)p.slot;
    uint32_t epoch = *ws.epoch + 1;

    __threadfence();
    if (atomicAdd(ws.done, 1) != gridDim.x - 1)
        return;
    __threadfence();
    uint64_t end = *(volatile uint64_t *)ws.end;
    bool lost = *(volatile uint32_t *)ws.lost != 0, over = lost || end > p.slot_bytes;

    end = lost ? 0 : end; /* not known */
    if (over)
        atomicOr(p.status, GPU_OVERFLOW);
    header[0] = make_uint4(p.magic, p.type | (over ? PACK_MARKED : 0), (uint32_t)p.elems,
                           (uint32_t)(p.elems >> 32));
    header[1] = make_uint4((uint32_t)end, (uint32_t)(end >> 32), 0, 0);
    *ws.done = *ws.drawn = *ws.lost = 0;
    *pack_count_of(ws, (p.parts - 1) / 32) = 0;
    *ws.epoch = epoch == 0x3fffffffu ? 0 : epoch; /* 30 bits in a word */
}

/* ---- decoding ---- */

__device__ __forceinline__ void bounded_malformed(const bounded_piece &p) {
    if (threadIdx.x % 32 == 0)
        atomicOr(p.status, GPU_MALFORMED);
}

/* The bytes of the encoding, at least up to the payload and at most the slot; or 0, and the status
 * says why. */
__device__ __forceinline__ uint64_t bounded_open(const bounded_piece &p) {
    const uint4 *header = (const uint4 *)p.slot;
    uint4 h = header[0], more = header[1];
    uint64_t elems = (uint64_t)h.w << 32 | h.z, end = (uint64_t)more.y << 32 | more.x;

    if (h.x != p.magic || (h.y & ~PACK_MARKED) != p.type || elems != p.elems ||
        (more.z | more.w) != 0) {
        bounded_malformed(p);
        return 0;
    }
    if ((h.y & PACK_MARKED) != 0) {
        if (threadIdx.x % 32 == 0)
            atomicOr(p.status, GPU_OVERFLOW);
        return 0;
    }
    if (end > p.slot_bytes || end < p.payload_at) {
        bounded_malformed(p);
        return 0;
    }
    return end;
}

/* Whether a part of so many units lies in an encoding of `end` bytes, right before the next part,
 * which begins at `next` units; all of them together prove that each lies behind the one before. */
__device__ __forceinline__ bool bounded_follows(const bounded_piece &p, uint32_t part,
                                                uint32_t offset, uint32_t units, uint32_t next,
                                                uint64_t end) {
    uint64_t to = (uint64_t)offset + units, bytes = p.payload_at + to * PACK_UNIT;

    return (part != 0 || offset == 0) && bytes <= end &&
           (part + 1 < p.parts ? to == next : bytes == end);
}

#endif
