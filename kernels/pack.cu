/*
 * pack.cu: encoding and decoding pieces with `pack` (pack.cuh has the parts, FORMAT.md the bytes),
 * and the launchers of all codecs.
 *
 * Encoding is pack_encode.cuh on elements in memory. Decoding gives each group a warp, which finds
 * its bytes from the directory alone and waits for nobody.
 *
 *     bytes moved a raw byte:   encode 1 + ratio     decode ratio + 1
 */
#include "kernels/gpu_codec.cuh"
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
    __device__ __forceinline__ uint32_t exponent(uint32_t i, uint32_t turn) {
        return staged.exponent(i, turn);
    }
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
    pack_place p;
    share<T> s;

    if (!pack_locate<T>(a.slot, a.slot_bytes, a.layout, tile, warp, lane, p, a.status) ||
        p.count == 0 || !pack_read<T>(p, lane, patch[warp], s, a.status))
        return;
    write_elements<T>(a.dst + ((uint64_t)tile * PACK_TILE + warp * GROUP) * element<T>::bytes,
                      p.count, lane, s);
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

enum gpu_form gpu_form_of(const struct codec *c, enum dtype t, uint64_t elems) {
    bool packed = false;

    if (t != DTYPE_F32 && t != DTYPE_F16 && t != DTYPE_BF16)
        return GPU_FORM_NONE;
    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_stage *s = &c->stages[i];

        if (s->kind == CODEC_PACK)
            packed = true;
        else if (s->kind != CODEC_NONE && !(s->kind == CODEC_CAST && s->params[0] == (int64_t)t))
            return GPU_FORM_NONE;
    }
    return packed && elems >= GROUP ? GPU_FORM_PACK : GPU_FORM_RAW;
}

bool gpu_slot_is_right(const struct codec *c, enum dtype t, uint64_t elems, const void *slot,
                       uint64_t slot_bytes) {
    uint64_t least = codec_least_bytes(c, t, elems);

    return slot != NULL && (uintptr_t)slot % GPU_ALIGNMENT == 0 &&
           codec_worst_bytes(c, t, elems) != CODEC_SIZE_ERROR && slot_bytes >= least;
}

extern "C" uint64_t gpu_workspace_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    return gpu_form_of(c, t, elems) == GPU_FORM_PACK ? pack_workspace_bytes(elems) : 0;
}

extern "C" cudaError_t gpu_encode(const struct codec *c, enum dtype t, const void *src_dev,
                                  uint64_t elems, void *slot_dev, uint64_t slot_bytes,
                                  void *workspace_dev, uint32_t *status_dev, cudaStream_t stream) {
    enum gpu_form form = gpu_form_of(c, t, elems);
    encode_args a = {(unsigned char *)slot_dev, slot_bytes, pack_layout_of(elems),
                     pack_workspace_at(workspace_dev), status_dev};

    if (form == GPU_FORM_NONE)
        return cudaErrorNotSupported;
    if (elems == 0)
        return cudaSuccess;
    if (!gpu_slot_is_right(c, t, elems, slot_dev, slot_bytes) || src_dev == NULL ||
        (uintptr_t)src_dev % dtype_bytes(t) != 0)
        return cudaErrorInvalidValue;
    if (form == GPU_FORM_RAW)
        return cudaMemcpyAsync(slot_dev, src_dev, elems * dtype_bytes(t), cudaMemcpyDeviceToDevice,
                               stream);
    if (workspace_dev == NULL || (uintptr_t)workspace_dev % GPU_ALIGNMENT != 0 ||
        status_dev == NULL)
        return cudaErrorInvalidValue;
    return t == DTYPE_BF16  ? launch_encode<DTYPE_BF16>(a, src_dev, stream)
           : t == DTYPE_F16 ? launch_encode<DTYPE_F16>(a, src_dev, stream)
                            : launch_encode<DTYPE_F32>(a, src_dev, stream);
}

extern "C" cudaError_t gpu_decode(const struct codec *c, enum dtype t, const void *slot_dev,
                                  uint64_t slot_bytes, uint64_t elems, void *dst_dev,
                                  uint32_t *status_dev, cudaStream_t stream) {
    enum gpu_form form = gpu_form_of(c, t, elems);
    decode_args a = {(const unsigned char *)slot_dev, slot_bytes, pack_layout_of(elems),
                     (unsigned char *)dst_dev, status_dev};

    if (form == GPU_FORM_NONE)
        return cudaErrorNotSupported;
    if (elems == 0)
        return cudaSuccess;
    if (!gpu_slot_is_right(c, t, elems, slot_dev, slot_bytes) || dst_dev == NULL ||
        (uintptr_t)dst_dev % dtype_bytes(t) != 0)
        return cudaErrorInvalidValue;
    if (form == GPU_FORM_RAW)
        return cudaMemcpyAsync(dst_dev, slot_dev, elems * dtype_bytes(t), cudaMemcpyDeviceToDevice,
                               stream);
    if (status_dev == NULL)
        return cudaErrorInvalidValue;
    return t == DTYPE_BF16  ? launch_decode<DTYPE_BF16>(a, stream)
           : t == DTYPE_F16 ? launch_decode<DTYPE_F16>(a, stream)
                            : launch_decode<DTYPE_F32>(a, stream);
}
