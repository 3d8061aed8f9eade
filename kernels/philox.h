/*
 * philox.h: Philox4x32-10, the counter-based random numbers of Salmon, Moraes, Dror and Shaw,
 * "Parallel random numbers: as easy as 1, 2, 3" (SC11). Four words for every counter and key, in
 * any order, so that slices, threads and GPUs draw the same ones. Internal to kernels/.
 */
#ifndef SLUICE_KERNELS_PHILOX_H
#define SLUICE_KERNELS_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_BODY static __device__ __forceinline__
#else
#define PHILOX_BODY static inline __attribute__((always_inline))
#endif

PHILOX_BODY void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * UINT32_C(0xd2511f53);
        uint64_t p1 = (uint64_t)c2 * UINT32_C(0xcd9e8d57);

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += UINT32_C(0x9e3779b9);
        k1 += UINT32_C(0xbb67ae85);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
