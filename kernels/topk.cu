/*
 * topk.cu: `topk` on the GPU (topk.c has the idea, FORMAT.md defines it). A thread block has the
 * 8,192 sums of a block in registers, 512 neighbours a warp and 32 of them a row:
 *
 *     | load, add what was kept | three counts in shared memory: the threshold | places by ballots
 *     | values, places, what is kept |
 *
 * Where a block's values go follows from its number, so blocks need nothing of each other.
 *
 *     bytes moved a value of b bytes:   push b + 8 and what is sent (b + 2 each)
 *                                       pull b and what was sent
 *
 * Sums with an exponent in common are counted by atomic additions to the same words.
 */
#include "kernels/staged.cuh"

namespace {

#define BLOCK_ELEMS  8192u
#define THREADS      512u
#define WARPS        (THREADS / 32)
#define ROWS         (BLOCK_ELEMS / THREADS)
#define WARP_ELEMS   (BLOCK_ELEMS / WARPS)
#define BINS         2048u
#define MILLION      1000000u
#define F32_INFINITY 0x7f800000u

struct picks {
    enum dtype t;
    uint64_t elems;
    uint32_t whole, last; /* values sent of a whole block, of the last one if it is none */
};

struct topk_shared {
    uint32_t counts[BINS];
    uint32_t totals[WARPS];
    uint32_t digit, rank;
};

uint32_t picks_of(const struct codec_stage *s, uint64_t elems) {
    return (uint32_t)((elems * (uint64_t)s->params[0] + MILLION - 1) / MILLION);
}

picks picks_for(const gpu_stage &g) {
    return {g.t, g.elems, picks_of(g.s, BLOCK_ELEMS), picks_of(g.s, g.elems % BLOCK_ELEMS)};
}

__device__ __forceinline__ uint32_t block_count(const picks &p, uint32_t block) {
    return (uint32_t)min((uint64_t)BLOCK_ELEMS, p.elems - (uint64_t)block * BLOCK_ELEMS);
}

/* Every NaN alike, above all others. */
__device__ __forceinline__ uint32_t magnitude(float f) {
    uint32_t bits = __float_as_uint(f) & 0x7fffffffu;

    return bits > F32_INFINITY ? 0x7fffffffu : bits;
}

/* Sum of the numbers of the warps before this one. Whole block. */
__device__ __forceinline__ uint32_t warps_before(topk_shared &s, uint32_t mine) {
    const uint32_t warp = threadIdx.x / 32;
    uint32_t before = 0;

    __syncthreads();
    if (threadIdx.x % 32 == 0)
        s.totals[warp] = mine;
    __syncthreads();
    for (uint32_t w = 0; w < warp; w++)
        before += s.totals[w];
    return before;
}

/* ---- the threshold ---- */

/* In s.digit the largest digit of which there are, with those above, s.rank in the counts; s.rank
 * becomes the rank among those with this digit. */
__device__ __forceinline__ void find_digit(topk_shared &s) {
    constexpr uint32_t each = BINS / THREADS;
    const uint32_t top = BINS - 1 - threadIdx.x * each; /* and the ones below */
    uint32_t rank = s.rank, mine = 0;

#pragma unroll
    for (uint32_t k = 0; k < each; k++)
        mine += s.counts[top - k];

    uint32_t up_to = lanes_up_to(mine);
    uint32_t before = warps_before(s, __shfl_sync(ALL_LANES, up_to, 31)) + up_to - mine;

    if (before < rank && rank <= before + mine)
        for (uint32_t k = 0; k < each; k++) {
            uint32_t here = s.counts[top - k];

            if (rank <= before + here) {
                s.digit = top - k;
                s.rank = rank - before;
                break;
            }
            before += here;
        }
    __syncthreads();
}

/* Counts a digit of the sums that agree with `prefix` above it, and adds to it the digit that the
 * threshold has. */
__device__ __forceinline__ uint32_t narrow_down(topk_shared &s, const float (&sums)[ROWS],
                                                uint32_t first, uint32_t count, uint32_t shift,
                                                uint32_t bits, uint32_t prefix) {
    const uint32_t above = shift + bits;

    for (uint32_t i = threadIdx.x; i < BINS; i += THREADS)
        s.counts[i] = 0;
    __syncthreads();
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t m = magnitude(sums[r]);

        if (first + 32 * r < count && m >> above == prefix >> above)
            atomicAdd(&s.counts[m >> shift & ((1u << bits) - 1)], 1u);
    }
    __syncthreads();
    find_digit(s);
    return prefix | s.digit << shift;
}

/* ---- push ---- */

/* What is kept of a sum; `sent` are the bits that were sent of it. */
__device__ __forceinline__ float left_over(enum dtype t, float sum, bool is_sent, uint32_t sent) {
    float value = is_sent ? t == DTYPE_F32    ? __uint_as_float(sent)
                            : t == DTYPE_BF16 ? low_value<DTYPE_BF16>(sent)
                                              : low_value<DTYPE_F16>(sent)
                          : 0.0f;

    return magnitude(sum) < F32_INFINITY && magnitude(value) < F32_INFINITY ? __fsub_rn(sum, value)
                                                                            : 0.0f;
}

__global__ void __launch_bounds__(THREADS) push_kernel(picks p, const void *src, const float *now,
                                                       float *next, void *to, uint16_t *places) {
    __shared__ topk_shared s;
    const uint32_t lane = threadIdx.x % 32, below = (1u << lane) - 1;
    const uint32_t first = threadIdx.x / 32 * WARP_ELEMS + lane; /* 32 on in every row */
    const uint32_t count = block_count(p, blockIdx.x);
    const uint64_t at = (uint64_t)blockIdx.x * BLOCK_ELEMS;
    uint32_t threshold = 0, equal = 0, sent = 0, equals, chosen[ROWS];
    float sums[ROWS];

#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        uint64_t i = at + first + 32 * r;
        bool there = first + 32 * r < count;

        sums[r] = there ? __fadd_rn(read_value(p.t, src, i), now != NULL ? now[i] : 0.0f) : 0.0f;
    }
    if (threadIdx.x == 0)
        s.rank = count == BLOCK_ELEMS ? p.whole : p.last;
    threshold = narrow_down(s, sums, first, count, 20, 11, threshold);
    threshold = narrow_down(s, sums, first, count, 10, 10, threshold);
    threshold = narrow_down(s, sums, first, count, 0, 10, threshold);
    equals = s.rank;

    /* of those equal to the threshold, the first ones of the block */
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++)
        equal += __popc(
            __ballot_sync(ALL_LANES, first + 32 * r < count && magnitude(sums[r]) == threshold));
    equal = warps_before(s, equal);
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t m = magnitude(sums[r]);
        bool there = first + 32 * r < count;
        uint32_t same = __ballot_sync(ALL_LANES, there && m == threshold);

        chosen[r] = __ballot_sync(
            ALL_LANES,
            there && (m > threshold || (m == threshold && equal + __popc(same & below) < equals)));
        equal += __popc(same);
        sent += __popc(chosen[r]);
    }
    sent = warps_before(s, sent);
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        bool is_sent = (chosen[r] >> lane & 1) != 0;
        uint64_t n = (uint64_t)blockIdx.x * p.whole + sent + __popc(chosen[r] & below);
        uint32_t bits = round_value(p.t, sums[r]);

        if (is_sent) {
            write_bits(p.t, to, n, bits);
            places[n] = (uint16_t)(first + 32 * r);
        }
        if (next != NULL && first + 32 * r < count)
            next[at + first + 32 * r] = left_over(p.t, sums[r], is_sent, bits);
        sent += __popc(chosen[r]);
    }
}

/* Zeros behind the places, and behind the state. */
__global__ void pad_kernel(uint16_t *places, uint64_t sent, float *next, uint64_t elems) {
    if (threadIdx.x < (0u - (uint32_t)sent) % 8)
        places[sent + threadIdx.x] = 0;
    if (next != NULL && threadIdx.x < (0u - (uint32_t)elems) % 4)
        next[elems + threadIdx.x] = 0;
}

/* ---- pull ---- */

__global__ void __launch_bounds__(THREADS)
    pull_kernel(picks p, const void *from, const uint16_t *places, void *dst, uint32_t *status) {
    const uint32_t count = block_count(p, blockIdx.x);
    const uint32_t sent = count == BLOCK_ELEMS ? p.whole : p.last;
    const uint64_t at = (uint64_t)blockIdx.x * BLOCK_ELEMS;
    const uint64_t n = (uint64_t)blockIdx.x * p.whole;

    if (__syncthreads_or(*(volatile uint32_t *)status != 0))
        return;
    for (uint32_t i = threadIdx.x; i < count; i += THREADS)
        write_bits(p.t, dst, at + i, 0);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < sent; i += THREADS) {
        uint32_t place = places[n + i];

        if (place >= count || (i > 0 && place <= places[n + i - 1])) {
            atomicOr(status, GPU_MALFORMED);
            continue;
        }
        write_bits(p.t, dst, at + place,
                   p.t == DTYPE_F32 ? ((const uint32_t *)from)[n + i]
                                    : ((const uint16_t *)from)[n + i]);
    }
}

uint32_t blocks_of(const gpu_stage &g) {
    return (uint32_t)((g.elems + BLOCK_ELEMS - 1) / BLOCK_ELEMS);
}

} // namespace

cudaError_t topk_push(const gpu_stage &g, const void *src, void *to) {
    picks p = picks_for(g);
    uint64_t sent = g.elems / BLOCK_ELEMS * p.whole + p.last;

    push_kernel<<<blocks_of(g), THREADS, 0, g.stream>>>(p, src, (const float *)g.now,
                                                        (float *)g.next, to, (uint16_t *)g.aside);
    pad_kernel<<<1, 32, 0, g.stream>>>((uint16_t *)g.aside, sent, (float *)g.next, g.elems);
    return cudaGetLastError();
}

cudaError_t topk_pull(const gpu_stage &g, const void *from, void *dst) {
    pull_kernel<<<blocks_of(g), THREADS, 0, g.stream>>>(picks_for(g), from,
                                                        (const uint16_t *)g.aside, dst, g.status);
    return cudaGetLastError();
}
