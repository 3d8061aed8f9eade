/*
 * codec.c: the rows of codecs.def as data, questions about a codec, sizes, and the chain that
 * runs its stages one after another.
 *
 * A chain is links, each of which leaves elements in scratch for the next, and a last stage that
 * packs them. Stages that leave elements of the type they took and are last (delta, topk) are links
 * too, and `none` packs what they leave:
 *
 *     encode   src --link--> scratch --link--> ... --last stage--> slot
 *     decode   slot --last stage--> scratch --...--> dst
 *
 * A stage that leaves data as it is (none; a cast to the type itself) is no link. What a link puts
 * beside its elements (topk: their places) lies at the end of the slot:
 *
 *     +---------------------------------------------------+--------+
 *     | the slot of the last stage, cut to multiples of 16 | aside  |
 *     +---------------------------------------------------+--------+
 */
#include "kernels/bounded.h"
#include "kernels/codec_chain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

#define CODEC_TAKES(t)  (UINT32_C(1) << DTYPE_##t)
#define CODEC_TAKES_ALL ((UINT32_C(1) << DTYPE_COUNT) - 1)

const struct codec_info *codec_info(enum codec_kind kind) {
#define AFTER(leaves) (UINT32_C(1) << CODEC_LEAVES_##leaves)
#define NO_PARAM \
    { .name = NULL }
#define PARAM(name, kind, low, high, step, fallback, help) \
    { name, CODEC_PARAM_##kind, low, high, step, fallback, help }
    static const struct codec_info rows[CODEC_KIND_COUNT] = {
#define CODEC(ID, name, types, size, lossless, stateful, leaves, follows, ops, error, help, count, \
              ...)                                                                                 \
    [CODEC_##ID] = {                                                                               \
        name, types, CODEC_SIZE_##size, lossless, stateful, CODEC_LEAVES_##leaves, follows, error, \
        help, count, {__VA_ARGS__}},
#include "kernels/codecs.def"
    };
    return &rows[kind];
}

const struct codec_ops *codec_ops_of(enum codec_kind kind) {
    static const struct codec_ops *const rows[CODEC_KIND_COUNT] = {
#define CODEC(ID, name, types, size, lossless, stateful, leaves, follows, ops, ...) \
    [CODEC_##ID] = &ops,
#include "kernels/codecs.def"
    };
    return rows[kind];
}

/* ---- types along the chain ---- */

static enum dtype leaves(const struct codec_stage *s, enum dtype t) {
    const struct codec_ops *ops = codec_ops_of(s->kind);

    return ops->leaves != NULL ? ops->leaves(s, t) : t;
}

static bool leaves_elements(const struct codec_stage *s) {
    return codec_info(s->kind)->leaves != CODEC_LEAVES_BYTES;
}

/* The stage hands data of this type on untouched. */
static bool does_nothing(const struct codec_stage *s, enum dtype t) {
    return leaves_elements(s) && codec_ops_of(s->kind)->push == NULL && leaves(s, t) == t;
}

static uint64_t elems_after(const struct codec_stage *s, uint64_t elems) {
    const struct codec_ops *ops = codec_ops_of(s->kind);

    return ops->leaves_elems != NULL ? ops->leaves_elems(s, elems) : elems;
}

/* How many stages are links of the chain, or would be if they did something. */
static int32_t link_count(const struct codec *c) {
    const struct codec_stage *s = &c->stages[c->stage_count - 1];

    return leaves_elements(s) && codec_ops_of(s->kind)->push != NULL ? c->stage_count
                                                                     : c->stage_count - 1;
}

struct codec_last codec_last_of(const struct codec *c, enum dtype t, uint64_t elems) {
    static const struct codec_stage none = {.kind = CODEC_NONE};
    int32_t links = link_count(c);
    struct codec_last l = {.s = links < c->stage_count ? &c->stages[links] : &none, .t = t};

    l.ops = codec_ops_of(l.s->kind);
    l.elems = elems;
    for (int32_t i = 0; i < links; i++) {
        const struct codec_stage *s = &c->stages[i];
        const struct codec_ops *ops = codec_ops_of(s->kind);

        l.aside_bytes += ops->aside_bytes != NULL ? ops->aside_bytes(s, l.elems) : 0;
        l.t = leaves(s, l.t);
        l.elems = elems_after(s, l.elems);
    }
    return l;
}

bool codec_check(const struct codec *c, enum dtype t, char *err, size_t err_bytes) {
    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_info *info = codec_info(c->stages[i].kind);

        if ((info->types >> t & 1) == 0) {
            if (err != NULL && err_bytes > 0)
                snprintf(err, err_bytes, "'%s' does not take %s", info->name, dtype_name(t));
            return false;
        }
        if (leaves_elements(&c->stages[i]))
            t = leaves(&c->stages[i], t);
    }
    return true;
}

/* ---- questions ---- */

bool codec_is_none(const struct codec *c) {
    return c->stage_count == 1 && c->stages[0].kind == CODEC_NONE;
}

bool codec_is_lossless(const struct codec *c, enum dtype t) {
    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_stage *s = &c->stages[i];

        if (!codec_info(s->kind)->lossless && !does_nothing(s, t))
            return false;
        t = leaves(s, t);
    }
    return true;
}

bool codec_is_bounded(const struct codec *c) {
    for (int32_t i = 0; i < c->stage_count; i++)
        if (codec_info(c->stages[i].kind)->size_class == CODEC_SIZE_BOUNDED)
            return true;
    return false;
}

bool codec_is_stateful(const struct codec *c) {
    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_stage *s = &c->stages[i];
        const struct codec_ops *ops = codec_ops_of(s->kind);

        if (ops->state_bytes != NULL && (ops->state_bytes(s, DTYPE_F32, 1, CODEC_ENCODER) > 0 ||
                                         ops->state_bytes(s, DTYPE_F32, 1, CODEC_DECODER) > 0))
            return true;
    }
    return false;
}

struct codec codec_without_bounded(const struct codec *c) {
    struct codec kept = codec_none();
    int32_t count = 0;

    for (int32_t i = 0; i < c->stage_count; i++)
        if (codec_info(c->stages[i].kind)->size_class == CODEC_SIZE_FIXED)
            kept.stages[count++] = c->stages[i];
    if (count > 0)
        kept.stage_count = count;
    return kept;
}

struct codec codec_with_budget(const struct codec *c, int64_t millionths) {
    struct codec changed = *c;

    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_info *info = codec_info(c->stages[i].kind);

        for (size_t p = 0; p < info->param_count; p++)
            if (info->size_class == CODEC_SIZE_BOUNDED &&
                strcmp(info->params[p].name, "budget") == 0)
                changed.stages[i].params[p] = millionths;
    }
    return changed;
}

uint64_t codec_slice_unit(const struct codec *c, enum dtype t) {
    uint64_t unit = 1;

    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_ops *ops = codec_ops_of(c->stages[i].kind);
        uint64_t own = ops->slice_unit != NULL ? ops->slice_unit(&c->stages[i], t) : 1;
        uint64_t a = unit, b = own;

        if (own == 0)
            return 0;
        while (b != 0) { /* unit = the least common multiple */
            uint64_t rest = a % b;

            a = b;
            b = rest;
        }
        unit = unit / a * own;
        t = leaves(&c->stages[i], t);
    }
    return unit;
}

double codec_error_bound(const struct codec *c, enum dtype t, double abs_value, double block_max) {
    double total = 0;

    if (abs_value > block_max)
        block_max = abs_value;
    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_stage *s = &c->stages[i];
        double own =
            does_nothing(s, t) ? 0 : codec_ops_of(s->kind)->error_bound(s, t, abs_value, block_max);
        total += own;
        abs_value += own;
        block_max += own;
        t = leaves(s, t);
    }
    return isnan(total) ? (double)INFINITY : total;
}

/* ---- sizes ---- */

#define ASIDE_UNIT 16u

bool codec_last_goes_raw(const struct codec_last *l) {
    return l->ops->magic != 0 && bounded_goes_raw(l->elems);
}

static uint64_t header_bytes_of(const struct codec_last *l) {
    if (l->ops->magic == 0 || codec_last_goes_raw(l) || bounded_is_too_big(l->t, l->elems))
        return 0;
    return BOUNDED_HEADER_BYTES;
}

/* With what lies aside. */
static uint64_t whole_bytes(const struct codec_last *l, uint64_t own_bytes) {
    return l->aside_bytes == 0 ? own_bytes : round_up(own_bytes, ASIDE_UNIT) + l->aside_bytes;
}

uint64_t codec_last_worst_bytes(const struct codec_last *l) {
    if (codec_last_goes_raw(l))
        return l->elems * dtype_bytes(l->t);
    return l->ops->worst_bytes(l->s, l->t, l->elems);
}

uint64_t codec_own_bytes(const struct codec_last *l, uint64_t slot_bytes) {
    if (l->aside_bytes == 0)
        return slot_bytes;
    if (header_bytes_of(l) == 0)
        return round_up(codec_last_worst_bytes(l), ASIDE_UNIT);
    return (slot_bytes - l->aside_bytes) / ASIDE_UNIT * ASIDE_UNIT;
}

uint64_t codec_worst_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    struct codec_last l;

    if (elems > CODEC_MAX_ELEMS)
        return CODEC_SIZE_ERROR;
    if (elems == 0)
        return 0;
    l = codec_last_of(c, t, elems);
    if (l.ops->magic != 0 && bounded_is_too_big(l.t, l.elems))
        return CODEC_SIZE_ERROR;
    return whole_bytes(&l, codec_last_worst_bytes(&l));
}

uint64_t codec_slot_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    uint64_t worst = codec_worst_bytes(c, t, elems), share;
    struct codec_last l;

    if (!codec_has_header(c, t, elems))
        return worst;
    l = codec_last_of(c, t, elems);
    if (l.s->params[0] == CODEC_UNSET)
        return worst;
    /* raw is at most 2^36 and the budget 10^6: the product fits */
    share = l.elems * dtype_bytes(l.t) * (uint64_t)l.s->params[0];
    share = BOUNDED_HEADER_BYTES + round_up((share + 999999) / 1000000, 16);
    return smaller(whole_bytes(&l, share), worst);
}

static uint64_t header_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    struct codec_last l;

    if (elems > CODEC_MAX_ELEMS || elems == 0)
        return 0;
    l = codec_last_of(c, t, elems);
    return header_bytes_of(&l);
}

uint64_t codec_least_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    struct codec_last l;

    if (header_bytes(c, t, elems) == 0)
        return codec_worst_bytes(c, t, elems);
    l = codec_last_of(c, t, elems);
    return whole_bytes(&l, BOUNDED_HEADER_BYTES);
}

bool codec_has_header(const struct codec *c, enum dtype t, uint64_t elems) {
    return header_bytes(c, t, elems) != 0;
}

/* The values between two stages, each array rounded up so that the next one is aligned. */
static uint64_t between_bytes(enum dtype t, uint64_t elems) {
    return (elems * dtype_bytes(t) + 63) / 64 * 64;
}

static uint64_t state_bytes_of(const struct codec_stage *s, enum dtype t, uint64_t elems,
                               enum codec_side side) {
    const struct codec_ops *ops = codec_ops_of(s->kind);

    return ops->state_bytes != NULL && elems > 0 ? round_up(ops->state_bytes(s, t, elems, side), 16)
                                                 : 0;
}

struct codec_links codec_links_of(const struct codec *c, enum dtype t, uint64_t elems,
                                  enum codec_side side) {
    struct codec_links all = {.ends = link_count(c) == c->stage_count};
    uint64_t aside = 0;

    for (int32_t i = 0; i < link_count(c); i++) {
        const struct codec_stage *s = &c->stages[i];
        struct codec_link *l = &all.at[all.count];

        if (does_nothing(s, t))
            continue;
        *l = (struct codec_link){
            s, codec_ops_of(s->kind), t, elems, all.room_bytes, all.state_bytes, aside};
        all.state_bytes += state_bytes_of(s, t, elems, side);
        aside += l->ops->aside_bytes != NULL ? l->ops->aside_bytes(s, elems) : 0;
        t = leaves(s, t);
        elems = elems_after(s, elems);
        if (i + 1 < c->stage_count) /* else it works on the slot itself */
            all.room_bytes += between_bytes(t, elems);
        all.count++;
    }
    return all;
}

uint64_t codec_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    if (elems > CODEC_MAX_ELEMS)
        return CODEC_SIZE_ERROR;
    return codec_links_of(c, t, elems, CODEC_ENCODER).room_bytes;
}

/* ---- state ---- */

uint64_t codec_state_bytes(const struct codec *c, enum dtype t, uint64_t elems,
                           enum codec_side side) {
    struct codec_last l;

    if (elems > CODEC_MAX_ELEMS)
        return CODEC_SIZE_ERROR;
    l = codec_last_of(c, t, elems);
    return codec_links_of(c, t, elems, side).state_bytes + state_bytes_of(l.s, l.t, l.elems, side);
}

void codec_state_init(const struct codec *c, enum dtype t, uint64_t elems, enum codec_side side,
                      uint64_t seed, void *state) {
    struct codec_links all = codec_links_of(c, t, elems, side);
    struct codec_last l = codec_last_of(c, t, elems);
    uint8_t *at = state;

    memset(at, 0, codec_state_bytes(c, t, elems, side));
    for (int32_t i = 0; i < all.count; i++)
        if (all.at[i].ops->state_init != NULL)
            all.at[i].ops->state_init(all.at[i].s, side, seed, at + all.at[i].state_at);
    if (l.ops->state_init != NULL && state_bytes_of(l.s, l.t, l.elems, side) > 0)
        l.ops->state_init(l.s, side, seed, at + all.state_bytes);
}

/* The part of the state that is the link's; the zeros behind it are written here. */
static struct stage_memory memory_of(const struct codec_link *l, enum codec_side side,
                                     const struct codec_state *state, uint8_t *behind) {
    struct stage_memory m = {.first_elem = state->first_elem, .aside = behind + l->aside_at};
    uint64_t padded = state_bytes_of(l->s, l->t, l->elems, side);

    if (state->now != NULL)
        m.now = (const uint8_t *)state->now + l->state_at;
    if (state->next != NULL && padded > 0) {
        uint64_t bytes = l->ops->state_bytes(l->s, l->t, l->elems, side);

        m.next = (uint8_t *)state->next + l->state_at;
        memset(m.next + bytes, 0, padded - bytes);
    }
    return m;
}

/* ---- running ---- */

static const struct codec_state just_begun = {.now = NULL};

/* What the link takes becomes what it leaves. */
static void push_link(const struct codec_link *l, const void *src, void *to, uint8_t *behind,
                      const struct codec_state *state) {
    struct stage_memory m = memory_of(l, CODEC_ENCODER, state, behind);
    uint64_t unused;

    if (l->ops->push != NULL)
        l->ops->push(l->s, l->t, src, l->elems, to, &m);
    else
        l->ops->encode(l->s, l->t, src, l->elems, to,
                       between_bytes(leaves(l->s, l->t), elems_after(l->s, l->elems)), &unused);
}

static enum codec_status encode_last(const struct codec_last *l, const void *src, void *slot,
                                     uint64_t slot_bytes, uint64_t *need_bytes, uint64_t state_at,
                                     const struct codec_state *state) {
    if (state_bytes_of(l->s, l->t, l->elems, CODEC_ENCODER) > 0) {
        struct codec_link own = {l->s, l->ops, l->t, l->elems, .state_at = state_at};
        struct stage_memory m = memory_of(&own, CODEC_ENCODER, state, slot);

        *need_bytes = codec_last_worst_bytes(l);
        l->ops->push(l->s, l->t, src, l->elems, slot, &m);
        return CODEC_OK;
    }
    if (codec_last_goes_raw(l))
        return codec_none_ops.encode(l->s, l->t, src, l->elems, slot, slot_bytes, need_bytes);
    return l->ops->encode(l->s, l->t, src, l->elems, slot, slot_bytes, need_bytes);
}

enum codec_status codec_encode_next(const struct codec *c, enum dtype t, const void *src,
                                    uint64_t elems, void *slot, uint64_t slot_bytes,
                                    uint64_t *need_bytes, void *scratch,
                                    const struct codec_state *state) {
    struct codec_links all;
    struct codec_last l;
    enum codec_status status;
    uint64_t own_bytes, unused;

    if (need_bytes == NULL)
        need_bytes = &unused;
    *need_bytes = 0;
    if (elems == 0)
        return CODEC_OK;
    if (slot_bytes < codec_least_bytes(c, t, elems)) { /* no room for a mark either */
        *need_bytes = codec_least_bytes(c, t, elems);
        return CODEC_OVERFLOW;
    }
    all = codec_links_of(c, t, elems, CODEC_ENCODER);
    l = codec_last_of(c, t, elems);
    own_bytes = codec_own_bytes(&l, slot_bytes);
    for (int32_t i = 0; i < all.count; i++) {
        bool ends = all.ends && i + 1 == all.count;
        void *to = ends ? slot : (uint8_t *)scratch + all.at[i].room_at;

        push_link(&all.at[i], src, to, (uint8_t *)slot + own_bytes, state);
        src = to;
    }
    if (l.aside_bytes != 0 && header_bytes_of(&l) == 0) /* the gap before what lies aside */
        memset((uint8_t *)slot + codec_last_worst_bytes(&l), 0,
               own_bytes - codec_last_worst_bytes(&l));
    if (src == slot) {
        *need_bytes = codec_worst_bytes(c, t, elems);
        return CODEC_OK;
    }
    status = encode_last(&l, src, slot, own_bytes, need_bytes, all.state_bytes, state);
    *need_bytes = whole_bytes(&l, *need_bytes);
    return status;
}

enum codec_status codec_encode(const struct codec *c, enum dtype t, const void *src, uint64_t elems,
                               void *slot, uint64_t slot_bytes, uint64_t *need_bytes,
                               void *scratch) {
    return codec_encode_next(c, t, src, elems, slot, slot_bytes, need_bytes, scratch, &just_begun);
}

bool codec_mark_overflow(const struct codec *c, enum dtype t, uint64_t elems, void *slot,
                         uint64_t slot_bytes, uint64_t need_bytes) {
    struct codec_last l;

    if (header_bytes(c, t, elems) == 0 || slot_bytes < codec_least_bytes(c, t, elems))
        return false;
    l = codec_last_of(c, t, elems);
    bounded_write_header(l.ops->magic, l.t, l.elems, slot, true,
                         need_bytes > l.aside_bytes ? need_bytes - l.aside_bytes : 0);
    return true;
}

static enum codec_status pull_link(const struct codec_link *l, const void *from, void *dst,
                                   uint8_t *behind, const char **reason,
                                   const struct codec_state *state) {
    struct stage_memory m = memory_of(l, CODEC_DECODER, state, behind);

    if (l->ops->pull == NULL)
        return l->ops->decode(l->s, l->t, from,
                              elems_after(l->s, l->elems) * dtype_bytes(leaves(l->s, l->t)),
                              l->elems, dst, reason);
    *reason = l->ops->pull(l->s, l->t, from, l->elems, dst, &m);
    return *reason == NULL ? CODEC_OK : CODEC_MALFORMED;
}

enum codec_status codec_decode_next(const struct codec *c, enum dtype t, const void *slot,
                                    uint64_t slot_bytes, uint64_t elems, void *dst, void *scratch,
                                    const char **reason, const struct codec_state *state) {
    struct codec_links all;
    struct codec_last l;
    enum codec_status status = CODEC_OK;
    const void *from = slot;
    uint8_t *behind;
    const char *unused;

    if (reason == NULL)
        reason = &unused;
    *reason = NULL;
    if (elems == 0)
        return CODEC_OK;
    if (slot_bytes < codec_least_bytes(c, t, elems)) {
        *reason = CODEC_SHORT_SLOT;
        return CODEC_MALFORMED;
    }
    all = codec_links_of(c, t, elems, CODEC_DECODER);
    l = codec_last_of(c, t, elems);
    behind = (uint8_t *)(uintptr_t)slot + codec_own_bytes(&l, slot_bytes);
    if (!all.ends) {
        const struct codec_ops *ops = codec_last_goes_raw(&l) ? &codec_none_ops : l.ops;
        void *to = all.count == 0 ? dst : (uint8_t *)scratch + all.at[all.count - 1].room_at;

        status = ops->decode(l.s, l.t, slot, codec_own_bytes(&l, slot_bytes), l.elems, to, reason);
        from = to;
    }
    for (int32_t i = all.count - 1; i >= 0 && status == CODEC_OK; i--) {
        void *to = i == 0 ? dst : (uint8_t *)scratch + all.at[i - 1].room_at;

        status = pull_link(&all.at[i], from, to, behind, reason, state);
        from = to;
    }
    return status;
}

enum codec_status codec_decode(const struct codec *c, enum dtype t, const void *slot,
                               uint64_t slot_bytes, uint64_t elems, void *dst, void *scratch,
                               const char **reason) {
    return codec_decode_next(c, t, slot, slot_bytes, elems, dst, scratch, reason, &just_begun);
}

bool codec_encoded_bytes(const struct codec *c, enum dtype t, uint64_t elems, const void *slot,
                         uint64_t slot_bytes, uint64_t *bytes, bool *overflowed) {
    struct codec_last l;

    *overflowed = false;
    *bytes = codec_worst_bytes(c, t, elems);
    if (header_bytes(c, t, elems) == 0)
        return slot_bytes >= *bytes;
    if (slot_bytes < BOUNDED_HEADER_BYTES)
        return false;
    l = codec_last_of(c, t, elems);
    if (bounded_read_header(l.ops->magic, l.t, l.elems, slot, bytes, overflowed) != NULL)
        return false;
    if (*bytes != 0)
        *bytes = whole_bytes(&l, *bytes);
    return true;
}
