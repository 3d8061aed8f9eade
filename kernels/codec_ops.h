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

/* What a stage with state works with beside its elements. */
struct stage_memory {
    const uint8_t *now; /* NULL: all zero, seeds too */
    uint8_t *next;      /* NULL: not wanted */
    uint64_t first_elem;
    uint8_t *aside; /* aside_bytes of the slot; when decoding, only to be read */
};

struct codec_ops {
    /* Why these parameters are refused, or NULL. (NULL function: never) */
    const char *(*refuse)(const struct codec_stage *s);
    /* The type of the values the stage leaves, DTYPE_COUNT when it is no element type: then no
     * stage may follow. (NULL: the type it took) */
    enum dtype (*leaves)(const struct codec_stage *s, enum dtype t);
    /* Elements a piece must start at a multiple of; 0: whole chunks only. (NULL: 1) */
    uint64_t (*slice_unit)(const struct codec_stage *s, enum dtype t);
    /* Why it takes no numbers, or no picks, of a stage before; for messages. */
    const char *no_numbers, *no_picks;
    double (*error_bound)(const struct codec_stage *s, enum dtype t, double abs_value,
                          double block_max);

    /* Bounded codecs, whose first parameter is the budget: the first word of their header
     * (bounded.h). codec.c keeps pieces that go raw from them. Fixed ones: 0. */
    uint32_t magic;

    /* Of a stage that packs (fixed: exact). Stages that leave elements of the type they took have
     * push and pull instead, the last one is then followed by `none`. */
    uint64_t (*worst_bytes)(const struct codec_stage *s, enum dtype t, uint64_t elems);

    enum codec_status (*encode)(const struct codec_stage *s, enum dtype t, const void *src,
                                uint64_t elems, void *slot, uint64_t slot_bytes,
                                uint64_t *need_bytes);
    enum codec_status (*decode)(const struct codec_stage *s, enum dtype t, const void *slot,
                                uint64_t slot_bytes, uint64_t elems, void *dst,
                                const char **reason);

    /* Stages that leave fewer elements: how many, and bytes that go to the slot beside them, a
     * multiple of 16. (NULL: all, 0) */
    uint64_t (*leaves_elems)(const struct codec_stage *s, uint64_t elems);
    uint64_t (*aside_bytes)(const struct codec_stage *s, uint64_t elems);

    /* What the stage remembers of a piece at an end; with it all, push and pull. (NULL: nothing) */
    uint64_t (*state_bytes)(const struct codec_stage *s, enum dtype t, uint64_t elems,
                            enum codec_side side);
    /* The state is zeroed. (NULL: no more is needed) */
    void (*state_init)(const struct codec_stage *s, enum codec_side side, uint64_t seed,
                       uint8_t *state);
    /* In place of encode and decode, with the state of that end; `to` and `from` are what the next
     * stage takes, or the slot of a stage that packs. Why it is no encoding, or NULL. (pull NULL:
     * decode) */
    void (*push)(const struct codec_stage *s, enum dtype t, const void *src, uint64_t elems,
                 void *to, const struct stage_memory *m);
    const char *(*pull)(const struct codec_stage *s, enum dtype t, const void *from, uint64_t elems,
                        void *dst, const struct stage_memory *m);
};

#define CODEC(ID, name, types, size_class, lossless, stateful, leaves, follows, ops, ...) \
    extern const struct codec_ops ops;
#include "kernels/codecs.def"

const struct codec_ops *codec_ops_of(enum codec_kind kind);

#endif
