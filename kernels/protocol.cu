/*
 * protocol.cu: the kernels around the codecs (protocol.h). All are bound by latency but the copies,
 * which move 2 bytes a byte.
 *
 * An exchange is one launch for all messages of a round: row y of the grid is message y, whose
 * blocks stride over it 16 bytes a thread, four loads in flight; one row more notes what pieces
 * needed.
 */
#include <cstdint>
#include <cuda_runtime.h>

#include "kernels/protocol.h"

namespace {

#define COPY_THREADS   256u
#define COPY_LOADS     4u
#define BLOCK_BYTES    (COPY_THREADS * COPY_LOADS * 16u)
#define COPY_BLOCKS    1584u /* 12 for each of the 132 multiprocessors of a large device */
#define FINISH_THREADS 256u

/* Block `block` of `blocks`; both ends at multiples of 16. */
__device__ __forceinline__ void copy_aligned(uint4 *to, const uint4 *from, uint64_t quads,
                                             uint32_t block, uint32_t blocks) {
    const uint64_t stride = (uint64_t)blocks * COPY_THREADS * COPY_LOADS;

    for (uint64_t at = (uint64_t)block * COPY_THREADS * COPY_LOADS + threadIdx.x; at < quads;
         at += stride) {
        uint4 v[COPY_LOADS];

#pragma unroll
        for (uint32_t i = 0; i < COPY_LOADS; i++)
            if (at + i * COPY_THREADS < quads)
                v[i] = from[at + i * COPY_THREADS];
#pragma unroll
        for (uint32_t i = 0; i < COPY_LOADS; i++)
            if (at + i * COPY_THREADS < quads)
                to[at + i * COPY_THREADS] = v[i];
    }
}

/* Any addresses: 16 bytes at a time from where `to` is aligned, if `from` then is as well. */
__device__ __forceinline__ void copy_bytes(unsigned char *to, const unsigned char *from,
                                           uint64_t bytes, uint32_t block, uint32_t blocks) {
    const uint64_t thread = (uint64_t)block * COPY_THREADS + threadIdx.x;
    const uint64_t threads = (uint64_t)blocks * COPY_THREADS;
    uint64_t head = -(uintptr_t)to & 15;

    if (to == from)
        return;
    if (((uintptr_t)to & 15) != ((uintptr_t)from & 15)) {
        if ((((uintptr_t)to | (uintptr_t)from | bytes) & 1) == 0) {
            for (uint64_t i = thread; i < bytes / 2; i += threads)
                ((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
        } else {
            for (uint64_t i = thread; i < bytes; i += threads)
                to[i] = from[i];
        }
        return;
    }
    head = head < bytes ? head : bytes;
    const uint64_t quads = (bytes - head) / 16, tail = head + quads * 16;

    copy_aligned((uint4 *)(to + head), (const uint4 *)(from + head), quads, block, blocks);
    if (thread < head)
        to[thread] = from[thread];
    if (thread < bytes - tail)
        to[tail + thread] = from[tail + thread];
}

__global__ void begin_kernel(uint32_t *words, uint32_t count) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        words[i] = 0;
}

__global__ void __launch_bounds__(COPY_THREADS)
    exchange_kernel(const protocol_copy *copies, uint32_t count, const protocol_need *needs,
                    uint32_t need_count, uint32_t *words) {
    if (blockIdx.y < count) {
        const protocol_copy c = copies[blockIdx.y];

        copy_bytes((unsigned char *)c.to_dev, (const unsigned char *)c.from_dev, c.bytes,
                   blockIdx.x, gridDim.x);
        return;
    }
    for (uint32_t i = blockIdx.x * COPY_THREADS + threadIdx.x; i < need_count;
         i += gridDim.x * COPY_THREADS) {
        const uint32_t *header = (const uint32_t *)needs[i].slot_dev;
        uint64_t bytes = header[4] | (uint64_t)header[5] << 32;

        words[needs[i].word] = (uint32_t)((bytes + PROTOCOL_NEED_UNIT - 1) / PROTOCOL_NEED_UNIT);
    }
}

__global__ void split_kernel(uint32_t *words) {
    words[PROTOCOL_OVERFLOW] = (words[PROTOCOL_STATUS] & GPU_OVERFLOW) != 0;
    words[PROTOCOL_MALFORMED] = (words[PROTOCOL_STATUS] & GPU_MALFORMED) != 0;
}

__global__ void __launch_bounds__(FINISH_THREADS)
    finish_kernel(const uint32_t *words, uint32_t count, protocol_state *state, unsigned char *ring,
                  uint64_t record_bytes, uint32_t records, uint32_t limit) {
    const uint64_t run = state->runs + 1;
    protocol_record *record = (protocol_record *)(ring + run % records * record_bytes);
    const uint32_t needs = count - PROTOCOL_NEEDS;

    /* a reader that finds another number than it looks for knows that the record is in the
     * making */
    if (threadIdx.x == 0)
        *(volatile uint64_t *)&record->run = 0;
    __threadfence_system();
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < needs; i += FINISH_THREADS)
        record->need[i] = words[PROTOCOL_NEEDS + i];
    if (threadIdx.x == 0) {
        /* with one process there was no split */
        const uint32_t overflow =
            words[PROTOCOL_OVERFLOW] | ((words[PROTOCOL_STATUS] & GPU_OVERFLOW) != 0);
        const uint32_t malformed =
            words[PROTOCOL_MALFORMED] | ((words[PROTOCOL_STATUS] & GPU_MALFORMED) != 0);
        const uint32_t flagged = overflow | malformed;

        state->runs = run;
        state->flagged = flagged;
        state->in_a_row = flagged ? state->in_a_row + 1 : 0;
        state->due = limit != 0 && state->in_a_row >= limit;
        state->overflows += overflow;
        record->overflow = overflow;
        record->malformed = malformed;
        record->in_a_row = state->in_a_row;
        record->due = state->due;
        record->overflows = state->overflows;
        record->words = needs;
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0)
        *(volatile uint64_t *)&record->run = run;
}

__global__ void __launch_bounds__(COPY_THREADS)
    copy_kernel(unsigned char *to, const unsigned char *from, uint64_t bytes, const uint32_t *flag,
                bool if_set) {
    if (flag == NULL || (*flag != 0) == if_set)
        copy_bytes(to, from, bytes, blockIdx.x, gridDim.x);
}

__global__ void stamp_kernel(uint64_t *at) {
    uint64_t now;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    *at = now;
}

uint32_t blocks_for(uint64_t bytes, uint64_t most) {
    uint64_t blocks = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;

    return (uint32_t)(blocks < 1 ? 1 : blocks < most ? blocks : most < 1 ? 1 : most);
}

cudaError_t copy(void *to, const void *from, uint64_t bytes, const uint32_t *flag, bool if_set,
                 cudaStream_t stream) {
    if (bytes == 0)
        return cudaSuccess;
    if (to == NULL || from == NULL)
        return cudaErrorInvalidValue;
    copy_kernel<<<blocks_for(bytes, COPY_BLOCKS), COPY_THREADS, 0, stream>>>(
        (unsigned char *)to, (const unsigned char *)from, bytes, flag, if_set);
    return cudaGetLastError();
}

} // namespace

extern "C" cudaError_t gpu_begin(uint32_t *words_dev, uint32_t words, cudaStream_t stream) {
    begin_kernel<<<words / 1024 < 64 ? words / 1024 + 1 : 64, 256, 0, stream>>>(words_dev, words);
    return cudaGetLastError();
}

extern "C" cudaError_t gpu_exchange(const struct protocol_copy *copies_dev, uint32_t copies,
                                    uint64_t largest_bytes, const struct protocol_need *needs_dev,
                                    uint32_t needs, uint32_t *words_dev, cudaStream_t stream) {
    const uint32_t rows = copies + (needs != 0);

    if (rows == 0)
        return cudaSuccess;
    if (rows > 65535)
        return cudaErrorInvalidValue;
    const dim3 grid(blocks_for(largest_bytes, COPY_BLOCKS / (copies != 0 ? copies : 1)), rows);

    exchange_kernel<<<grid, COPY_THREADS, 0, stream>>>(copies_dev, copies, needs_dev, needs,
                                                       words_dev);
    return cudaGetLastError();
}

extern "C" cudaError_t gpu_split(uint32_t *words_dev, cudaStream_t stream) {
    split_kernel<<<1, 1, 0, stream>>>(words_dev);
    return cudaGetLastError();
}

extern "C" cudaError_t gpu_finish(const uint32_t *words_dev, uint32_t words,
                                  struct protocol_state *state_dev, void *ring_dev,
                                  uint64_t record_bytes, uint32_t ring, uint32_t limit,
                                  cudaStream_t stream) {
    if (words < PROTOCOL_NEEDS || ring == 0)
        return cudaErrorInvalidValue;
    finish_kernel<<<1, FINISH_THREADS, 0, stream>>>(
        words_dev, words, state_dev, (unsigned char *)ring_dev, record_bytes, ring, limit);
    return cudaGetLastError();
}

extern "C" cudaError_t gpu_copy(void *to_dev, const void *from_dev, uint64_t bytes,
                                cudaStream_t stream) {
    return copy(to_dev, from_dev, bytes, NULL, true, stream);
}

extern "C" cudaError_t gpu_copy_if(const uint32_t *flag_dev, void *to_dev, const void *from_dev,
                                   uint64_t bytes, cudaStream_t stream) {
    if (flag_dev == NULL)
        return cudaErrorInvalidValue;
    return copy(to_dev, from_dev, bytes, flag_dev, true, stream);
}

extern "C" cudaError_t gpu_copy_unless(const uint32_t *flag_dev, void *to_dev, const void *from_dev,
                                       uint64_t bytes, cudaStream_t stream) {
    if (flag_dev == NULL)
        return cudaErrorInvalidValue;
    return copy(to_dev, from_dev, bytes, flag_dev, false, stream);
}

extern "C" cudaError_t gpu_stamp(uint64_t *at_dev, cudaStream_t stream) {
    stamp_kernel<<<1, 1, 0, stream>>>(at_dev);
    return cudaGetLastError();
}
