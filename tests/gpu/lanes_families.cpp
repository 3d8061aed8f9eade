/*
 * lanes_families.cpp: the families of kernels that are not run on lanes, by the C reference, for the
 * codecs that are decoded aside and encoded last: they are reduced with others, and end in `pack`.
 */
#include "tests/gpu/lanes.hpp"

extern "C" {
#include "kernels/reduce.h"
}
#include "kernels/gpu_codec.cuh"
#include "kernels/pack_place.cuh"

#include <vector>

namespace {

using bytes = std::vector<unsigned char>;

struct codec parsed(const char *text) {
    struct codec c = codec_none();
    char err[256];

    codec_parse(text, &c, err, sizeof err);
    return c;
}

struct codec codec_of_form(const gpu_wire &wire) {
    struct codec c = codec_none(), pack = parsed("pack");
    char err[256];

    if (wire.form == GPU_FORM_CAST || wire.form == GPU_FORM_CAST_PACK)
        c = {1, {{CODEC_CAST, {(int64_t)wire.type}}}};
    if (wire.form == GPU_FORM_QUANT)
        c = {1, {{CODEC_QUANT, {(int64_t)wire.bits, (int64_t)wire.block, CODEC_ROUND_NEAREST}}}};
    if (wire.form == GPU_FORM_PACK || wire.form == GPU_FORM_CAST_PACK)
        codec_compose(&c, &pack, &c, err, sizeof err);
    return c;
}

bytes scratch_for(const gpu_job &job) {
    return bytes(job.elems * 8 + 64);
}

/* What an operand holds; false when it is lost. */
bool elements_of(const gpu_job &job, const gpu_input &in, bytes &values) {
    bytes scratch = scratch_for(job);
    uint64_t each = in.kind == GPU_ACC ? reduce_acc_bytes(job.t) : dtype_bytes(job.t);
    enum codec_status status = CODEC_OK;

    values.resize(job.elems * each);
    if (in.kind != GPU_PIECE)
        memcpy(values.data(), in.data, values.size());
    else
        status = codec_decode(in.codec, job.t, in.data, in.slot_bytes, job.elems, values.data(),
                              scratch.data(), NULL);
    if (status != CODEC_OK)
        *job.status |= status == CODEC_OVERFLOW ? GPU_OVERFLOW : GPU_MALFORMED;
    return status == CODEC_OK;
}

void encode(const gpu_job &job, const struct codec &c, const void *values, bool lost) {
    bytes scratch = scratch_for(job);

    if (codec_has_header(&c, job.t, job.elems)) {
        uint32_t *mark = pack_workspace_at(job.workspace).lost;

        lost = lost || *mark != 0;
        *mark = 0;
    }
    if (lost)
        codec_mark_overflow(&c, job.t, job.elems, job.slot, job.slot_bytes, 0);
    if (lost || codec_encode(&c, job.t, values, job.elems, job.slot, job.slot_bytes, NULL,
                             scratch.data()) != CODEC_OK)
        *job.status |= codec_has_header(&c, job.t, job.elems) ? GPU_OVERFLOW : 0;
}

cudaError_t combine(const gpu_job &job) {
    bytes acc(job.elems * reduce_acc_bytes(job.t)), result(job.elems * dtype_bytes(job.t)), values;
    bool is_f32 = dtype_is_float(job.t) && reduce_acc_bytes(job.t) == 4, lost = false;

    for (uint32_t o = 0; o < job.count; o++) {
        enum dtype t = job.in[o].kind == GPU_ACC && is_f32 ? DTYPE_F32 : job.t;

        lost = !elements_of(job, job.in[o], values) || lost;
        if (o == 0)
            reduce_open(t, values.data(), acc.data(), job.elems);
        else
            reduce_add(t, job.op, acc.data(), values.data(), job.elems);
    }
    if (job.divide_by != 0)
        reduce_divide(job.t, acc.data(), job.elems, job.divide_by);
    if (job.moved)
        result = values;
    else
        reduce_close(job.t, acc.data(), result.data(), job.elems);
    if (job.acc != NULL)
        memcpy(job.acc, acc.data(), acc.size());
    if (job.chunk != NULL)
        memcpy(job.chunk, result.data(), result.size());
    if (job.slot != NULL)
        encode(job, codec_of_form(job.wire), result.data(), lost);
    return cudaSuccess;
}

} // namespace

cudaError_t pack_combine(const gpu_job &job) {
    return combine(job);
}

cudaError_t value_combine(const gpu_job &job) {
    return combine(job);
}

cudaError_t plain_combine(const gpu_job &job) {
    return combine(job);
}

cudaError_t mixed_combine(const gpu_job &job) {
    return combine(job);
}

bool cast_pack_takes(const gpu_job &) {
    return false;
}

cudaError_t cast_pack_combine(const gpu_job &) {
    return cudaErrorNotSupported;
}

cudaError_t pack_encode(const gpu_job &job) {
    encode(job, parsed("pack"), job.in[0].data, false);
    return cudaSuccess;
}

cudaError_t pack_decode(const gpu_job &job) {
    struct codec pack = parsed("pack");
    gpu_input in = job.in[0];
    bytes values;

    in.codec = &pack;
    if (elements_of(job, in, values))
        memcpy(job.chunk, values.data(), values.size());
    return cudaSuccess;
}

uint64_t pack_workspace_of(uint64_t elems) {
    return pack_workspace_bytes(elems);
}
