/*
 * codec_ops.h: what a codec file gives to codec.c. Internal to kernels/.
 *
 * All pointers are checked by codec.c before a call: the type is taken, elems is at most
 * CODEC_MAX_ELEMS and not 0, slot_bytes is at least least_bytes. A NULL function has the meaning
 * that stands beside it.
 */
#ifndef SLUICE_KERNELS_CODEC_OPS_H
#define SLUICE_KERNELS_CODEC_OPS_H

#include "kernels/codec.h"

/* How a piece without a header is described when its slot is too short. */
#define CODEC_SHORT_SLOT "the slot is shorter than the encoding"

struct codec_ops {
    /* Why these parameters are refused, or NULL. (NULL function: never) */
    const char *(*refuse)(const struct codec_stage *s);
    /* The type of the values the stage leaves, DTYPE_COUNT when it is no element type: then no
     * stage may follow. (NULL: the type it took) */
    enum dtype (*leaves)(const struct codec_stage *s, enum dtype t);
    /* Elements a piece must start at a multiple of; 0: whole chunks only. (NULL: 1) */
    uint64_t (*slice_unit)(const struct codec_stage *s, enum dtype t);
    double (*error_bound)(const struct codec_stage *s, enum dtype t, double abs_value,
                          double block_max);

    /* Bounded codecs, whose first parameter is the budget: the first word of their header
     * (bounded.h). codec.c keeps pieces that go raw from them. Fixed ones: 0. */
    uint32_t magic;

    uint64_t (*worst_bytes)(const struct codec_stage *s, enum dtype t, uint64_t elems);

    enum codec_status (*encode)(const struct codec_stage *s, enum dtype t, const void *src,
                                uint64_t elems, void *slot, uint64_t slot_bytes,
                                uint64_t *need_bytes);
    enum codec_status (*decode)(const struct codec_stage *s, enum dtype t, const void *slot,
                                uint64_t slot_bytes, uint64_t elems, void *dst,
                                const char **reason);
};

#define CODEC(ID, name, types, size_class, lossless, stateful, leaves, follows, ops, ...) \
    extern const struct codec_ops ops;
#include "kernels/codecs.def"

const struct codec_ops *codec_ops_of(enum codec_kind kind);

#endif
