/*
 * lz.cu: `lz` on the GPU (lz.c draws the layout, FORMAT.md defines it). Blocks of 64 KiB know
 * nothing of each other, so each has a warp, which goes through it as the reference does, 32
 * positions or bytes at a time.
 *
 *     encode   32 positions look for a match; the first that has one ends the search. Of the lanes
 *              with equal hashes the nearest one below stands in for the table, which gets what the
 *              lanes up to the first match would have left in it. The block is put together in
 *              shared memory; when its place is known, four warps copy it out.
 *     decode   all lanes read the same sequence and share out its bytes. A match that runs into
 *              what it writes repeats what lies before it, so it is copied in one go as well.
 *
 *     bytes moved a raw byte, ratio r:   encode, decode   1 + r
 *
 * Sequences follow each other, and each waits for memory several times: the bytes of a sequence
 * over the time it waits, times the warps that fit, is what can be hoped for, not the speed of
 * memory. Data that goes raw is looked through at growing steps and copied.
 */
#include "kernels/bounded.cuh"

namespace {

/* As in lz.c. */
#define BLOCK_BYTES    65536u
#define RAW_FLAG       (UINT32_C(1) << 31)
#define HASH_BITS      12u
#define MIN_MATCH      4u
#define LAST_LITERALS  5u
#define MATCH_MARGIN   16u
#define STEP_UP        256u
#define NO_ROOM        UINT32_MAX
#define ENCODE_THREADS 128u

struct encode_shared {
    unsigned char out[BLOCK_BYTES];
    uint16_t table[1u << HASH_BITS];
    uint32_t ticket, place, bytes;
};

__device__ __forceinline__ uint32_t block_bytes(uint64_t raw_bytes, uint32_t block) {
    return (uint32_t)min((uint64_t)BLOCK_BYTES, raw_bytes - (uint64_t)block * BLOCK_BYTES);
}

/* ---- bytes, by a warp ---- */

/* The two do not overlap. Long ones go a word at a time: each is put together from the two aligned
 * words that it lies in. */
__device__ __forceinline__ void copy_bytes(unsigned char *to, const unsigned char *from, uint32_t n,
                                           uint32_t lane) {
    if (n >= 128) {
        uint32_t head = (0u - (uint32_t)(uintptr_t)to) % 4 + 4; /* 4: nothing before is read */

        if (lane < head)
            to[lane] = from[lane];
        to += head, from += head, n -= head;

        uint32_t off = (uint32_t)(uintptr_t)from % 4, count = n / 4 - (off != 0 ? 1 : 0);
        const uint32_t *words = (const uint32_t *)(from - off);

#pragma unroll 4
        for (uint32_t i = lane; i < count; i += 32) {
            uint32_t low = words[i], high = off != 0 ? words[i + 1] : 0;

            ((uint32_t *)to)[i] = __funnelshift_r(low, high, 8 * off);
        }
        to += 4 * count, from += 4 * count, n -= 4 * count;
    }
    for (uint32_t i = lane; i < n; i += 32)
        to[i] = from[i];
}

/* n bytes from `distance` before `to` on, which may be fewer bytes than n. */
__device__ __forceinline__ void copy_match(unsigned char *to, uint32_t distance, uint32_t n,
                                           uint32_t lane) {
    const unsigned char *from = to - distance;
    uint32_t at = lane % distance;

    if (n <= distance) {
        copy_bytes(to, from, n, lane);
        return;
    }
    if (n >= 128 && 16 % distance == 0) { /* every 16 bytes are the same */
        uint32_t head = (0u - (uint32_t)(uintptr_t)to) % 16, quads = (n - head) / 16, w[4];

#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            w[k] = from[(head + 4 * k) % distance] | from[(head + 4 * k + 1) % distance] << 8 |
                   from[(head + 4 * k + 2) % distance] << 16 |
                   (uint32_t)from[(head + 4 * k + 3) % distance] << 24;
        if (lane < head)
            to[lane] = from[at];
        for (uint32_t i = lane; i < quads; i += 32)
            ((uint4 *)(to + head))[i] = make_uint4(w[0], w[1], w[2], w[3]);
        for (uint32_t i = head + 16 * quads + lane; i < n; i += 32)
            to[i] = from[i % distance];
        return;
    }
    for (uint32_t i = lane; i < n; i += 32) {
        to[i] = from[at];
        at = (at + 32) % distance;
    }
}

/* ---- encoding a block ---- */

/* Four bytes at a multiple of UNIT. */
template <uint32_t UNIT> __device__ __forceinline__ uint32_t read_four(const unsigned char *at) {
    if constexpr (UNIT == 4)
        return *(const uint32_t *)at;
    else if constexpr (UNIT == 2)
        return ((const uint16_t *)at)[0] | (uint32_t)((const uint16_t *)at)[1] << 16;
    else
        return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The next match from `at` on: false when there is none that may begin at `last` or before. */
template <uint32_t UNIT>
__device__ __forceinline__ bool find_match(const unsigned char *src, uint16_t *table, uint32_t last,
                                           uint32_t lane, uint32_t &at, uint32_t &from) {
    uint32_t step = UNIT, base = at;

    for (uint32_t tried = 32; base <= last; tried += 32) {
        uint32_t p = base + lane * step;
        bool there = p <= last;
        uint32_t four = there ? read_four<UNIT>(src + p) : 0;
        uint32_t hash =
            there ? (four * UINT32_C(2654435761)) >> (32 - HASH_BITS) : (1u << HASH_BITS) + lane;
        uint32_t equal = __match_any_sync(ALL_LANES, hash), below = equal & ((1u << lane) - 1);
        uint32_t nearest = below != 0 ? 31 - __clz(below) : lane;
        uint32_t candidate = below != 0 ? base + nearest * step : there ? table[hash] : 0;
        uint32_t its_four = __shfl_sync(ALL_LANES, four, nearest);

        if (below == 0 && there)
            its_four = read_four<UNIT>(src + candidate);

        uint32_t hits = __ballot_sync(ALL_LANES, there && candidate < p && its_four == four);
        uint32_t first = hits != 0 ? __ffs(hits) - 1 : 31;
        uint32_t seen = equal & (ALL_LANES >> (31 - first));

        if (there && lane <= first && lane == 31 - __clz(seen))
            table[hash] = (uint16_t)p;
        __syncwarp();
        if (hits != 0) {
            at = __shfl_sync(ALL_LANES, p, first);
            from = __shfl_sync(ALL_LANES, candidate, first);
            return true;
        }
        base += 31 * step;
        if (tried % STEP_UP == 0)
            step += UNIT;
        base += step;
    }
    return false;
}

/* How many bytes agree from a and b on, both at multiples of UNIT, of at most `most`. */
template <uint32_t UNIT>
__device__ __forceinline__ uint32_t common_bytes(const unsigned char *a, const unsigned char *b,
                                                 uint32_t most, uint32_t lane) {
    for (uint32_t base = 0;; base += 128) {
        uint32_t i = base + 4 * lane, same = 0, stops;

        if (i + 4 <= most) {
            uint32_t differ = read_four<UNIT>(a + i) ^ read_four<UNIT>(b + i);

            same = differ == 0 ? 4 : (__ffs(differ) - 1) / 8;
        } else {
            while (i + same < most && a[i + same] == b[i + same])
                same++;
        }
        stops = __ballot_sync(ALL_LANES, same < 4);
        if (stops != 0) {
            uint32_t first = __ffs(stops) - 1;

            return base + 4 * first + __shfl_sync(ALL_LANES, same, first);
        }
    }
}

/* How many bytes agree before a and b, of at most `most`. */
__device__ __forceinline__ uint32_t common_before(const unsigned char *a, const unsigned char *b,
                                                  uint32_t most, uint32_t lane) {
    for (uint32_t base = 0;; base += 32) {
        uint32_t i = base + lane;
        uint32_t stops = __ballot_sync(ALL_LANES, i >= most || *(a - 1 - i) != *(b - 1 - i));

        if (stops != 0)
            return base + __ffs(stops) - 1;
    }
}

__device__ __forceinline__ uint32_t length_bytes(uint32_t length) {
    return length < 15 ? 0 : (length - 15) / 255 + 1;
}

__device__ __forceinline__ void write_length(unsigned char *out, uint32_t length, uint32_t lane) {
    uint32_t bytes = length_bytes(length);

    for (uint32_t i = lane; i < bytes; i += 32)
        out[i] = i + 1 < bytes ? 255 : (unsigned char)((length - 15) % 255);
}

/* Literals and, if distance is not 0, a match behind them, to out + to: where that ends, or NO_ROOM
 * when beyond `end`. */
__device__ __forceinline__ uint32_t write_sequence(unsigned char *out, uint32_t to, uint32_t end,
                                                   const unsigned char *literals, uint32_t count,
                                                   uint32_t distance, uint32_t match_bytes,
                                                   uint32_t lane) {
    uint32_t match = distance == 0 ? 0 : match_bytes - MIN_MATCH;
    uint32_t bytes = 1 + length_bytes(count) + count;

    if (bytes + (distance == 0 ? 0 : 2 + length_bytes(match)) > end - to)
        return NO_ROOM;
    if (lane == 0)
        out[to] = (unsigned char)(min(count, 15u) << 4 | min(match, 15u));
    write_length(out + to + 1, count, lane);
    copy_bytes(out + to + bytes - count, literals, count, lane);
    to += bytes;
    if (distance == 0)
        return to;
    if (lane < 2)
        out[to + lane] = (unsigned char)(distance >> 8 * lane);
    write_length(out + to + 2, match, lane);
    return to + 2 + length_bytes(match);
}

/* Encodes n bytes; 0 when that takes n bytes or more. One warp. */
template <uint32_t UNIT>
__device__ uint32_t encode_block(const unsigned char *src, uint32_t n, encode_shared &s,
                                 uint32_t lane) {
    uint32_t to = 0, anchor = 0, at = 0, from;

    if (n < MATCH_MARGIN)
        return 0;
    for (uint32_t i = lane; i < sizeof s.table / 4; i += 32)
        ((uint32_t *)s.table)[i] = 0;
    __syncwarp();
    while (find_match<UNIT>(src, s.table, n - MATCH_MARGIN, lane, at, from)) {
        uint32_t before = common_before(src + at, src + from, min(at - anchor, from), lane);
        uint32_t bytes =
            MIN_MATCH + common_bytes<UNIT>(src + at + MIN_MATCH, src + from + MIN_MATCH,
                                           n - LAST_LITERALS - at - MIN_MATCH, lane);

        to = write_sequence(s.out, to, n - 1, src + anchor, at - before - anchor, at - from,
                            before + bytes, lane);
        if (to == NO_ROOM)
            return 0;
        anchor = at + bytes;
        at = (anchor + UNIT - 1) / UNIT * UNIT;
    }
    to = write_sequence(s.out, to, n - 1, src + anchor, n - anchor, 0, 0, lane);
    return to == NO_ROOM ? 0 : to;
}

/* ---- a piece ---- */

/* n bytes and zeros behind them, to a multiple of 32. Whole block. */
template <uint32_t UNIT>
__device__ __forceinline__ void copy_out(unsigned char *to, const unsigned char *from, uint32_t n) {
    const uint32_t quads = (n + PACK_UNIT - 1) / PACK_UNIT * (PACK_UNIT / 16);
    const bool fast = ((uintptr_t)from & 15) == 0;

#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < quads; i += ENCODE_THREADS) {
        const unsigned char *at = from + 16 * i;
        uint32_t w[4] = {0, 0, 0, 0};

        if (fast && 16 * i + 16 <= n) {
            ((uint4 *)to)[i] = *(const uint4 *)at;
            continue;
        }
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) {
            if (16 * i + 4 * k + 4 <= n)
                w[k] = read_four<UNIT>(at + 4 * k);
            else
                for (uint32_t j = 16 * i + 4 * k; j < n; j++)
                    w[k] |= (uint32_t)from[j] << 8 * (j % 4);
        }
        ((uint4 *)to)[i] = make_uint4(w[0], w[1], w[2], w[3]);
    }
}

template <uint32_t UNIT>
__global__ void __launch_bounds__(ENCODE_THREADS)
    encode_kernel(bounded_piece p, pack_workspace ws, const unsigned char *src,
                  uint64_t raw_bytes) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    encode_shared &s = *(encode_shared *)shared_bytes;
    const uint32_t lane = threadIdx.x % 32, block = bounded_draw(ws, s.ticket);
    const uint32_t n = block_bytes(raw_bytes, block);
    const bool directory = p.payload_at <= p.slot_bytes;

    src += (uint64_t)block * BLOCK_BYTES;
    if (threadIdx.x < 32) {
        uint32_t bytes = encode_block<UNIT>(src, n, s, lane);
        uint32_t units = ((bytes != 0 ? bytes : n) + PACK_UNIT - 1) / PACK_UNIT;
        uint32_t place = bounded_place(p, ws, block, units, lane);

        if (lane == 0) {
            s.place = place;
            s.bytes = bytes;
            if (directory)
                ((uint2 *)(p.slot + BOUNDED_HEADER_BYTES))[block] =
                    make_uint2(place, bytes != 0 ? bytes : n | RAW_FLAG);
        }
    } else if (block == 0 && directory) { /* the gap behind the entries */
        uint64_t at = BOUNDED_HEADER_BYTES + 8 * (uint64_t)p.parts + 4 * lane;

        if (at < p.payload_at)
            *(uint32_t *)(p.slot + at) = 0;
    }
    __syncthreads();
    uint32_t kept = s.bytes != 0 ? s.bytes : n;
    uint64_t at = p.payload_at + (uint64_t)s.place * PACK_UNIT;

    if (at + (kept + PACK_UNIT - 1) / PACK_UNIT * PACK_UNIT <= p.slot_bytes) {
        if (s.bytes != 0)
            copy_out<4>(p.slot + at, s.out, kept);
        else
            copy_out<UNIT>(p.slot + at, src, kept);
    }
    if (threadIdx.x == 0)
        bounded_leave(p, ws);
}

/* ---- decoding a block ---- */

/* A length with its 4 bits in it; false when it runs past the end or beyond `most`. */
__device__ __forceinline__ bool read_length(const unsigned char *in, uint32_t end, uint32_t &at,
                                            uint32_t most, uint32_t lane, uint32_t &length) {
    if (length < 15)
        return length <= most;
    for (;; at += 32) {
        uint32_t byte = at + lane < end ? in[at + lane] : 0;
        uint32_t stops = __ballot_sync(ALL_LANES, byte != 255);
        uint32_t first = stops != 0 ? __ffs(stops) - 1 : 32;

        length += 255 * first;
        if (length > most)
            return false;
        if (stops == 0)
            continue;
        length += __shfl_sync(ALL_LANES, byte, first);
        at += first + 1;
        return at <= end && length <= most;
    }
}

/* False when the bytes are no block of n. One warp. */
__device__ bool decode_block(const unsigned char *in, uint32_t end, unsigned char *out, uint32_t n,
                             uint32_t lane) {
    uint32_t i = 0, at = 0;

    while (i != end) {
        uint32_t token = in[i++], literals = token >> 4, match = token & 15, distance;

        if (!read_length(in, end, i, n - at, lane, literals) || literals > end - i)
            return false;
        copy_bytes(out + at, in + i, literals, lane);
        i += literals;
        at += literals;
        if (i == end)
            return at == n;
        if (end - i < 2)
            return false;
        distance = in[i] | in[i + 1] << 8;
        i += 2;
        if (distance == 0 || distance > at || !read_length(in, end, i, n, lane, match) ||
            match + MIN_MATCH > n - at)
            return false;
        __syncwarp();
        copy_match(out + at, distance, match + MIN_MATCH, lane);
        __syncwarp();
        at += match + MIN_MATCH;
    }
    return false;
}

__global__ void __launch_bounds__(32)
    decode_kernel(bounded_piece p, unsigned char *dst, uint64_t raw_bytes) {
    const uint32_t lane = threadIdx.x, block = blockIdx.x, n = block_bytes(raw_bytes, block);
    const uint2 *entries = (const uint2 *)(p.slot + BOUNDED_HEADER_BYTES);
    const uint64_t end = bounded_open(p);

    if (end == 0)
        return;

    const uint2 entry = entries[block];
    const uint32_t next = block + 1 < p.parts ? entries[block + 1].x : 0;
    const uint32_t bytes = entry.y & ~RAW_FLAG;
    const unsigned char *from = p.slot + p.payload_at + (uint64_t)entry.x * PACK_UNIT;
    const bool raw = (entry.y & RAW_FLAG) != 0;

    dst += (uint64_t)block * BLOCK_BYTES;
    if ((raw ? bytes != n : bytes == 0 || bytes >= n) ||
        !bounded_follows(p, block, entry.x, (bytes + PACK_UNIT - 1) / PACK_UNIT, next, end)) {
        bounded_malformed(p);
        return;
    }
    if (raw)
        copy_bytes(dst, from, n, lane);
    else if (!decode_block(from, bytes, dst, n, lane))
        bounded_malformed(p);
}

/* ---- launchers ---- */

bounded_piece piece_of(const unsigned char *slot, uint64_t slot_bytes, const gpu_job &job) {
    uint64_t blocks = (job.elems * dtype_bytes(job.t) + BLOCK_BYTES - 1) / BLOCK_BYTES;

    return {(unsigned char *)slot,
            slot_bytes,
            job.elems,
            round_up(BOUNDED_HEADER_BYTES + 8 * blocks, BOUNDED_UNIT),
            BOUNDED_MAGIC('Z', 1),
            bounded_type(job.t),
            (uint32_t)blocks,
            job.status};
}

template <uint32_t UNIT> cudaError_t launch_encode(const gpu_job &job) {
    bounded_piece p = piece_of(job.slot, job.slot_bytes, job);
    cudaError_t e =
        cudaFuncSetAttribute(encode_kernel<UNIT>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)sizeof(encode_shared));

    if (e != cudaSuccess)
        return e;
    encode_kernel<UNIT><<<p.parts, ENCODE_THREADS, sizeof(encode_shared), job.stream>>>(
        p, pack_workspace_at(job.workspace), job.in[0].data, job.elems * dtype_bytes(job.t));
    return cudaGetLastError();
}

} // namespace

cudaError_t lz_encode(const gpu_job &job) {
    uint32_t bytes = dtype_bytes(job.t);

    return bytes == 1   ? launch_encode<1>(job)
           : bytes == 2 ? launch_encode<2>(job)
                        : launch_encode<4>(job);
}

cudaError_t lz_decode(const gpu_job &job) {
    bounded_piece p = piece_of(job.in[0].data, job.in[0].slot_bytes, job);

    decode_kernel<<<p.parts, 32, 0, job.stream>>>(p, job.chunk, job.elems * dtype_bytes(job.t));
    return cudaGetLastError();
}
