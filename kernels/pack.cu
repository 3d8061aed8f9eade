/*
 * pack.cu: encoding and decoding pieces with `pack` (pack.cuh has the parts, FORMAT.md the bytes).
 *
 * Encoding is pack_encode.cuh on elements in memory. Decoding gives each group a warp, which finds
 * its bytes from the directory alone and waits for nobody.
 *
 *     bytes moved a raw byte:   encode 1 + ratio     decode ratio + 1
 */
#include "kernels/gpu_codec.cuh"
#include "kernels/pack_decode.cuh"
#include "kernels/pack_encode.cuh"

namespace {

template <enum dtype T> struct memory_source {
    stage<T> staged;

    __device__ __forceinline__ void start(uint32_t tile, uint32_t turn) {
        staged.start(tile, turn);
    }
    __device__ __forceinline__ void get(uint32_t, uint32_t turn, uint32_t, share<T> &x) {
        staged.get(turn, x);
    }
    __device__ __forceinline__ uint32_t exponent(uint32_t e, uint32_t turn) {
        return staged.exponent(e, turn);
    }
    __device__ __forceinline__ void prepare(uint32_t, uint32_t) {}
};

template <enum dtype T>
__global__ void __launch_bounds__(ENCODE_THREADS)
    encode_kernel(encode_args a, const unsigned char *src) {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    encode_shared<T> &s = *(encode_shared<T> *)shared_bytes;
    memory_source<T> source = {{s, a.layout, src, threadIdx.x / 32, threadIdx.x % 32}};

    encode_tiles<T>(s, a, source);
}

struct decode_args {
    const unsigned char *slot;
    uint64_t slot_bytes;
    pack_layout layout;
    unsigned char *dst;
    uint32_t *status;
};

template <enum dtype T>
__global__ void __launch_bounds__(32 * PACK_WARPS) decode_kernel(decode_args a) {
    __shared__ pack_patch patch[PACK_WARPS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, tile = blockIdx.x;
    const uint32_t count = pack_count(a.layout, tile, warp);
    pack_place p;
    share<T> s;

    if (!pack_locate<T>(a.slot, a.slot_bytes, a.layout, tile, warp, lane, p, a.status) ||
        count == 0 || !pack_read<T>(p, count, lane, patch[warp], s, a.status))
        return;
    write_elements<T>(a.dst + ((uint64_t)tile * PACK_TILE + warp * GROUP) * element<T>::bytes,
                      count, lane, s);
}

template <enum dtype T>
cudaError_t launch_encode(const encode_args &a, const void *src, cudaStream_t stream) {
    uint32_t blocks;
    cudaError_t e = encode_blocks<T>(encode_kernel<T>, a.layout.tiles, &blocks);

    if (e != cudaSuccess)
        return e;
    encode_kernel<T><<<blocks, ENCODE_THREADS, sizeof(encode_shared<T>), stream>>>(
        a, (const unsigned char *)src);
    return cudaGetLastError();
}

template <enum dtype T> cudaError_t launch_decode(const decode_args &a, cudaStream_t stream) {
    decode_kernel<T><<<a.layout.tiles, 32 * PACK_WARPS, 0, stream>>>(a);
    return cudaGetLastError();
}

} // namespace

uint64_t pack_workspace_of(uint64_t elems) {
    return pack_workspace_bytes(elems);
}

cudaError_t pack_encode(const gpu_job &job) {
    encode_args a = {job.slot, job.slot_bytes, pack_layout_of(job.elems),
                     pack_workspace_at(job.workspace), job.status};
    const void *src = job.in[0].data;

    return job.t == DTYPE_BF16  ? launch_encode<DTYPE_BF16>(a, src, job.stream)
           : job.t == DTYPE_F16 ? launch_encode<DTYPE_F16>(a, src, job.stream)
                                : launch_encode<DTYPE_F32>(a, src, job.stream);
}

cudaError_t pack_decode(const gpu_job &job) {
    decode_args a = {job.in[0].data, job.in[0].slot_bytes, pack_layout_of(job.elems), job.chunk,
                     job.status};

    return job.t == DTYPE_BF16  ? launch_decode<DTYPE_BF16>(a, job.stream)
           : job.t == DTYPE_F16 ? launch_decode<DTYPE_F16>(a, job.stream)
                                : launch_decode<DTYPE_F32>(a, job.stream);
}
