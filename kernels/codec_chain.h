/*
 * codec_chain.h: a codec as the stages that do something with a piece: what each takes, and where
 * in scratch, state and slot its part is. codec.c runs them on the CPU, staged.cu on the GPU.
 * Internal to kernels/.
 */
#ifndef SLUICE_KERNELS_CODEC_CHAIN_H
#define SLUICE_KERNELS_CODEC_CHAIN_H

#include "kernels/codec_ops.h"

/* The stage that packs, and what reaches it; `none` where the last link leaves the slot itself. */
struct codec_last {
    const struct codec_stage *s;
    const struct codec_ops *ops;
    enum dtype t;
    uint64_t elems;
    uint64_t aside_bytes; /* of all links */
};

struct codec_last codec_last_of(const struct codec *c, enum dtype t, uint64_t elems);
/* It is of a bounded codec, which leaves so few elements raw. */
bool codec_last_goes_raw(const struct codec_last *l);
uint64_t codec_last_worst_bytes(const struct codec_last *l);
/* What it has of a slot, with the aside bytes behind it. */
uint64_t codec_own_bytes(const struct codec_last *l, uint64_t slot_bytes);

/* The stages of a piece that do something before the last one. */
struct codec_link {
    const struct codec_stage *s;
    const struct codec_ops *ops;
    enum dtype t;
    uint64_t elems;              /* that it takes */
    uint64_t room_at;            /* in scratch, of what it leaves */
    uint64_t state_at, aside_at; /* in the state of this end, and behind the last stage's slot */
};

struct codec_links {
    struct codec_link at[CODEC_MAX_STAGES];
    int32_t count;
    bool ends;                        /* the last one leaves the slot */
    uint64_t room_bytes, state_bytes; /* state: of the last stage is behind those of the links */
};

struct codec_links codec_links_of(const struct codec *c, enum dtype t, uint64_t elems,
                                  enum codec_side side);

#endif
