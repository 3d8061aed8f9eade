/*
 * codec.c: the rows of codecs.def as data, questions about a codec, sizes, and the chain that
 * runs its stages one after another.
 *
 * A chain looks like this; every stage but the last leaves values, kept in scratch:
 *
 *     encode   src --stage 0--> scratch --stage 1--> ... --last stage--> slot
 *     decode   slot --last stage--> scratch --...--> dst
 *
 * A stage that leaves data of this type as it is (none; a cast to the type itself) is skipped
 * unless it is the last one.
 */
#include "kernels/bounded.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

#define CODEC_TAKES(t)  (UINT32_C(1) << DTYPE_##t)
#define CODEC_TAKES_ALL ((UINT32_C(1) << DTYPE_COUNT) - 1)

const struct codec_info *codec_info(enum codec_kind kind) {
    enum { VALUES = 1, BYTES = 0 };
#define NO_PARAM \
    { .name = NULL }
#define PARAM(name, kind, low, high, step, fallback, help) \
    { name, CODEC_PARAM_##kind, low, high, step, fallback, help }
    static const struct codec_info rows[CODEC_KIND_COUNT] = {
#define CODEC(ID, name, types, size, lossless, stateful, leaves, follows, ops, error, help, count, \
              ...)                                                                                 \
    [CODEC_##ID] = {name, types, CODEC_SIZE_##size, lossless, stateful, leaves, follows, error,    \
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

/* The stage hands data of this type on untouched. */
static bool does_nothing(const struct codec_stage *s, enum dtype t) {
    return codec_info(s->kind)->leaves_values && leaves(s, t) == t;
}

/* The type that reaches the last stage. */
static enum dtype last_type(const struct codec *c, enum dtype t) {
    for (int32_t i = 0; i + 1 < c->stage_count; i++)
        t = leaves(&c->stages[i], t);
    return t;
}

static const struct codec_stage *last_stage(const struct codec *c) {
    return &c->stages[c->stage_count - 1];
}

bool codec_check(const struct codec *c, enum dtype t, char *err, size_t err_bytes) {
    for (int32_t i = 0; i < c->stage_count; i++) {
        const struct codec_info *info = codec_info(c->stages[i].kind);

        if ((info->types >> t & 1) == 0) {
            if (err != NULL && err_bytes > 0)
                snprintf(err, err_bytes, "'%s' does not take %s", info->name, dtype_name(t));
            return false;
        }
        if (info->leaves_values)
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
    for (int32_t i = 0; i < c->stage_count; i++)
        if (codec_info(c->stages[i].kind)->stateful)
            return true;
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

/* A piece that a bounded codec leaves raw. */
static bool goes_raw(const struct codec *c, uint64_t elems) {
    return codec_ops_of(last_stage(c)->kind)->magic != 0 && bounded_goes_raw(elems);
}

uint64_t codec_worst_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    const struct codec_stage *s = last_stage(c);
    const struct codec_ops *ops = codec_ops_of(s->kind);

    t = last_type(c, t);
    if (elems > CODEC_MAX_ELEMS)
        return CODEC_SIZE_ERROR;
    if (elems == 0 || goes_raw(c, elems))
        return elems * dtype_bytes(t);
    if (ops->magic != 0 && bounded_is_too_big(t, elems))
        return CODEC_SIZE_ERROR;
    return ops->worst_bytes(s, t, elems);
}

uint64_t codec_slot_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    const struct codec_stage *s = last_stage(c);
    uint64_t worst = codec_worst_bytes(c, t, elems), share;

    if (!codec_has_header(c, t, elems) || s->params[0] == CODEC_UNSET)
        return worst;
    /* raw is at most 2^36 and the budget 10^6: the product fits */
    share = elems * dtype_bytes(last_type(c, t)) * (uint64_t)s->params[0];
    return smaller(BOUNDED_HEADER_BYTES + round_up((share + 999999) / 1000000, 16), worst);
}

static uint64_t header_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    if (codec_ops_of(last_stage(c)->kind)->magic == 0 || elems > CODEC_MAX_ELEMS ||
        bounded_goes_raw(elems) || bounded_is_too_big(last_type(c, t), elems))
        return 0;
    return BOUNDED_HEADER_BYTES;
}

uint64_t codec_least_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    uint64_t header = header_bytes(c, t, elems);

    return header != 0 ? header : codec_worst_bytes(c, t, elems);
}

bool codec_has_header(const struct codec *c, enum dtype t, uint64_t elems) {
    return header_bytes(c, t, elems) != 0;
}

/* The values between two stages, each array rounded up so that the next one is aligned. */
static uint64_t between_bytes(enum dtype t, uint64_t elems) {
    return (elems * dtype_bytes(t) + 63) / 64 * 64;
}

uint64_t codec_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    uint64_t total = 0;

    if (elems > CODEC_MAX_ELEMS)
        return CODEC_SIZE_ERROR;
    for (int32_t i = 0; i + 1 < c->stage_count; i++) {
        enum dtype next = leaves(&c->stages[i], t);

        if (next != t)
            total += between_bytes(next, elems);
        t = next;
    }
    return total;
}

/* ---- running ---- */

enum codec_status codec_encode(const struct codec *c, enum dtype t, const void *src, uint64_t elems,
                               void *slot, uint64_t slot_bytes, uint64_t *need_bytes,
                               void *scratch) {
    const struct codec_stage *last = last_stage(c);
    uint8_t *room = scratch;
    uint64_t unused;

    if (need_bytes == NULL)
        need_bytes = &unused;
    *need_bytes = 0;
    if (elems == 0)
        return CODEC_OK;
    if (slot_bytes < codec_least_bytes(c, t, elems)) { /* no room for a mark either */
        *need_bytes = codec_least_bytes(c, t, elems);
        return CODEC_OVERFLOW;
    }
    for (int32_t i = 0; i + 1 < c->stage_count; i++) {
        const struct codec_stage *s = &c->stages[i];
        enum dtype next = leaves(s, t);

        if (next == t)
            continue;
        codec_ops_of(s->kind)->encode(s, t, src, elems, room, between_bytes(next, elems), &unused);
        src = room;
        room += between_bytes(next, elems);
        t = next;
    }
    if (goes_raw(c, elems))
        return codec_none_ops.encode(last, t, src, elems, slot, slot_bytes, need_bytes);
    return codec_ops_of(last->kind)->encode(last, t, src, elems, slot, slot_bytes, need_bytes);
}

bool codec_mark_overflow(const struct codec *c, enum dtype t, uint64_t elems, void *slot,
                         uint64_t slot_bytes, uint64_t need_bytes) {
    uint64_t header = header_bytes(c, t, elems);

    if (header == 0 || slot_bytes < header)
        return false;
    bounded_write_header(codec_ops_of(last_stage(c)->kind)->magic, last_type(c, t), elems, slot,
                         true, need_bytes);
    return true;
}

enum codec_status codec_decode(const struct codec *c, enum dtype t, const void *slot,
                               uint64_t slot_bytes, uint64_t elems, void *dst, void *scratch,
                               const char **reason) {
    const struct codec_stage *stages[CODEC_MAX_STAGES];
    enum dtype types[CODEC_MAX_STAGES];
    int32_t count = 0;
    uint8_t *room = scratch;
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
    for (int32_t i = 0; i < c->stage_count; i++) {
        if (i + 1 < c->stage_count && does_nothing(&c->stages[i], t))
            continue;
        stages[count] = &c->stages[i];
        types[count++] = t;
        t = leaves(&c->stages[i], t);
    }
    for (int32_t i = count - 1; i >= 0; i--) {
        void *to = i == 0 ? dst : room;
        const struct codec_ops *ops =
            i == count - 1 && goes_raw(c, elems) ? &codec_none_ops : codec_ops_of(stages[i]->kind);
        enum codec_status status =
            ops->decode(stages[i], types[i], slot, slot_bytes, elems, to, reason);

        if (status != CODEC_OK)
            return status;
        slot = to;
        slot_bytes = elems * dtype_bytes(types[i]);
        if (i > 0)
            room += between_bytes(types[i], elems);
    }
    return CODEC_OK;
}

bool codec_encoded_bytes(const struct codec *c, enum dtype t, uint64_t elems, const void *slot,
                         uint64_t slot_bytes, uint64_t *bytes, bool *overflowed) {
    uint64_t header = header_bytes(c, t, elems);

    *overflowed = false;
    *bytes = codec_worst_bytes(c, t, elems);
    if (header == 0)
        return slot_bytes >= *bytes;
    if (slot_bytes < header)
        return false;
    return bounded_read_header(codec_ops_of(last_stage(c)->kind)->magic, last_type(c, t), elems,
                               slot, bytes, overflowed) == NULL;
}
