/*
 * pack_place.cuh: where the tiles of an encoding go, which is the sum of the sizes of all before:
 * blocks of one launch tell each other through device memory.
 */
#ifndef SLUICE_KERNELS_PACK_PLACE_CUH
#define SLUICE_KERNELS_PACK_PLACE_CUH

#include "kernels/pack.cuh"

/*
 * Device memory between the blocks of one encode. Words of tiles and sets are
 * epoch << 34 | kind << 32 | units, so those of earlier launches do not count. The places do not
 * depend on the size of the piece:
 *
 *     | 256 bytes | counts of 32 sets | 32 sets | 1,024 tiles | counts of 32 sets | ...
 */
struct pack_workspace {
    uint32_t *epoch; /* launches so far */
    uint32_t *done;  /* blocks that are through */
    uint32_t *drawn; /* tiles handed out */
    uint32_t *lost;  /* an input was lost */
    uint64_t *end;   /* bytes of the whole encoding */
    uint64_t *words;
};

inline uint64_t pack_workspace_bytes(uint64_t elems) {
    uint64_t tiles = (elems + PACK_TILE - 1) / PACK_TILE;

    return 256 + 8 * (tiles + 64 * ((tiles + 1023) / 1024));
}

inline pack_workspace pack_workspace_at(void *base) {
    uint32_t *w = (uint32_t *)base;

    return {w, w + 16, w + 32, w + 48, (uint64_t *)(w + 50), (uint64_t *)(w + 64)};
}

__device__ __forceinline__ uint64_t *pack_count_of(const pack_workspace &ws, uint32_t set) {
    return ws.words + (uint64_t)(set / 32) * 1088 + set % 32;
}

__device__ __forceinline__ uint64_t *pack_set_of(const pack_workspace &ws, uint32_t set) {
    return pack_count_of(ws, set) + 32;
}

__device__ __forceinline__ uint64_t *pack_tile_of(const pack_workspace &ws, uint32_t tile) {
    return ws.words + (uint64_t)(tile / 1024) * 1088 + 64 + tile % 1024;
}

#define PACK_SIZE UINT64_C(1) /* the word has the units of this tile or set */
#define PACK_SUM  UINT64_C(2) /* the word has the units up to and with this set */

__device__ __forceinline__ uint64_t pack_word(uint32_t epoch, uint64_t kind, uint32_t units) {
    return (uint64_t)epoch << 34 | kind << 32 | units;
}

__device__ __forceinline__ void pack_publish(uint64_t *at, uint64_t word) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}

__device__ __forceinline__ uint64_t pack_observe(const uint64_t *at) {
    uint64_t word;

    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}

/* Announces the size of a tile; the last to arrive of the 32 tiles of a set announces their sum. */
__device__ __forceinline__ void pack_announce(const pack_workspace &ws, uint32_t tile,
                                              uint32_t epoch, uint32_t units) {
    pack_publish(pack_tile_of(ws, tile), pack_word(epoch, PACK_SIZE, units));
    unsigned long long *count = (unsigned long long *)pack_count_of(ws, tile / 32);
    uint64_t was = atomicAdd(count, 1ull << 32 | units);

    if (was >> 32 == 31) {
        pack_publish(pack_set_of(ws, tile / 32),
                     pack_word(epoch, tile < 32 ? PACK_SUM : PACK_SIZE, (uint32_t)was + units));
        *count = 0;
    }
}

/* Units of all tiles before this one. Whole warp. Reads the tiles before it in its set, and sets 32
 * at a time (1,024 tiles) back to one that has its sum. */
__device__ __forceinline__ uint32_t pack_look_back(const pack_workspace &ws, uint32_t tile,
                                                   uint32_t epoch, uint32_t lane) {
    uint64_t own = pack_word(epoch, PACK_SUM, 0), far = own;
    int64_t at = (int64_t)(tile / 32) - 1 - lane;
    bool need = lane < tile % 32;
    uint32_t before;

    do {
        if (need)
            own = pack_observe(pack_tile_of(ws, tile / 32 * 32 + lane));
    } while (__any_sync(ALL_LANES, (uint32_t)(own >> 34) != epoch));
    before = __reduce_add_sync(ALL_LANES, need ? (uint32_t)own : 0);
    for (;; at -= 32) {
        do {
            if (at >= 0)
                far = pack_observe(pack_set_of(ws, (uint32_t)at));
        } while (__any_sync(ALL_LANES, at >= 0 && (uint32_t)(far >> 34) != epoch));
        uint32_t sums = __ballot_sync(ALL_LANES, at < 0 || (far >> 32 & 3) == PACK_SUM);
        uint32_t last = sums != 0 ? __ffs(sums) - 1 : 31;

        before += __reduce_add_sync(ALL_LANES, lane <= last && at >= 0 ? (uint32_t)far : 0);
        if (sums != 0)
            return before;
    }
}

#endif
