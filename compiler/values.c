/* The table of values. A value says which bits a chunk holds, as an expression over what the chunks
 * held at the start; equal expressions are one entry, so comparing two chunks is comparing two
 * numbers.
 *
 *     INPUT data[3]@0        the first ids, in the order of the locations
 *     SUM   a + b + c        in the accumulator type, rounded once; a and b sorted, since these
 *                            two commute
 *     CODED quant(8)(a)      what decoding gives; lossless codecs make no new value
 *
 * Operands are made before the value that has them, so ids ascend from leaves to results.
 */
#include "compiler/ir.h"

#include <stdlib.h>
#include <string.h>

struct slot {
    uint32_t hash, id; /* id NONE: free */
};

struct slots {
    VEC(struct slot) at;
};

struct values {
    const struct flow *flow;
    VEC(struct value) all;
    VEC(uint32_t) pool;       /* operands of sums */
    VEC(uint32_t) input_base; /* [buffers] id of the value in its first location */
    struct slots slots;       /* SUM and CODED by content; a power of two, open addressing */
    uint32_t taken;
};

enum { FIRST_SLOTS = 1024 };

static struct slots slots_new(size_t n, struct vec_guard *g) {
    struct slots s = {{.guard = g}};
    VEC_RESERVE(&s.at, n);
    memset(s.at.data, 0xff, n * sizeof *s.at.data);
    s.at.count = n;
    return s;
}

static void add_inputs(struct values *v) {
    const struct flow *f = v->flow;
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        uint32_t id = (uint32_t)v->all.count;
        VEC_PUSH(&v->input_base, id);
        if (b->role != ROLE_INPUT && b->role != ROLE_INOUT)
            continue;
        uint32_t locs = (uint32_t)b->members * (uint32_t)b->chunks;
        struct value *value = VEC_ADD_N(&v->all, locs);
        for (uint32_t k = 0; k < locs; k++) {
            loc_id loc = b->first_loc + k;
            uint32_t size = k < (uint32_t)b->chunks ? flow_size_class(f, loc)
                                                    : value[k - (uint32_t)b->chunks].size;
            value[k] = (struct value){
                .kind = VALUE_INPUT, .a = loc, .leaves = 1, .size = size, .core = id + k};
        }
    }
}

static size_t input_count(const struct flow *f) {
    size_t n = 0;
    for (size_t i = 0; i < f->buffers.count; i++) {
        const struct flow_buffer *b = &f->buffers.data[i];
        if (b->role == ROLE_INPUT || b->role == ROLE_INOUT)
            n += (size_t)b->members * (size_t)b->chunks;
    }
    return n;
}

struct values *values_new(const struct flow *f) {
    struct values *v = calloc(1, sizeof *v);
    size_t bytes = input_count(f) * sizeof *v->all.data + FIRST_SLOTS * sizeof(struct slot);
    bool fits = !f->guard || !f->guard->limit_bytes ||
                bytes <= f->guard->limit_bytes - f->guard->held_bytes;
    if (!v || !fits) { /* the handler does not return, so nothing may hang on a half-made table */
        free(v);
        if (f->guard && f->guard->on_out_of_memory)
            f->guard->on_out_of_memory(f->guard->ctx);
        abort();
    }
    v->flow = f;
    VEC_GUARD(&v->all, f->guard);
    VEC_GUARD(&v->pool, f->guard);
    v->slots = slots_new(FIRST_SLOTS, f->guard);
    VEC_RESERVE(&v->all, input_count(f));
    add_inputs(v);
    return v;
}

void values_free(struct values *v) {
    if (!v)
        return;
    VEC_FREE(&v->all);
    VEC_FREE(&v->pool);
    VEC_FREE(&v->input_base);
    VEC_FREE(&v->slots.at);
    free(v);
}

const struct value *value_get(const struct values *v, uint32_t id) {
    return &v->all.data[id];
}

const uint32_t *value_operands(const struct values *v, uint32_t sum) {
    return v->pool.data + v->all.data[sum].a;
}

uint32_t values_count(const struct values *v) {
    return (uint32_t)v->all.count;
}

void value_set_divided(struct values *v, uint32_t sum) {
    v->all.data[sum].divided = true;
}

uint32_t value_input(struct values *v, loc_id loc) {
    const struct flow *f = v->flow;
    const struct flow_buffer *b = flow_buffer_of(f, loc, NULL, NULL);
    return v->input_base.data[b - f->buffers.data] + (loc - b->first_loc);
}

/* ---- the hash table ----------------------------------------------------------------------- */

static uint32_t mix(uint32_t h, uint32_t x) {
    uint64_t m = ((uint64_t)h << 32 | x) * UINT64_C(0x9e3779b97f4a7c15);
    m ^= m >> 29;
    return (uint32_t)(m >> 16);
}

static void slots_grow(struct values *v) {
    struct slots old = v->slots, grown = slots_new(2 * old.at.count, old.at.guard);
    size_t mask = grown.at.count - 1;
    for (size_t i = 0; i < old.at.count; i++) {
        if (old.at.data[i].id == NONE)
            continue;
        size_t at = old.at.data[i].hash & mask;
        while (grown.at.data[at].id != NONE)
            at = (at + 1) & mask;
        grown.at.data[at] = old.at.data[i];
    }
    v->slots = grown;
    VEC_FREE(&old.at);
}

/* The place of a new value; the caller fills it and adds the value. */
static struct slot *slot_take(struct values *v, size_t at, uint32_t hash) {
    if (2 * (size_t)++v->taken > v->slots.at.count) {
        slots_grow(v);
        size_t mask = v->slots.at.count - 1;
        for (at = hash & mask; v->slots.at.data[at].id != NONE; at = (at + 1) & mask)
            ;
    }
    v->slots.at.data[at].hash = hash;
    return &v->slots.at.data[at];
}

static uint32_t saturating_add(uint32_t a, uint32_t b) {
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static bool is_sum_of(const struct values *v, uint32_t id, uint32_t a, uint32_t b,
                      const uint32_t *rest, uint32_t n) {
    const struct value *s = &v->all.data[id];
    if (s->kind != VALUE_SUM || s->n != n)
        return false;
    const uint32_t *have = v->pool.data + s->a;
    return have[0] == a && have[1] == b && (n == 2 || !memcmp(have + 2, rest, (n - 2) * sizeof a));
}

uint32_t value_sum(struct values *v, const uint32_t *operands, uint32_t n) {
    bool swap = operands[0] > operands[1];
    uint32_t a = operands[swap], b = operands[!swap];
    uint32_t hash = mix(mix(n, a), b);
    for (uint32_t i = 2; i < n; i++)
        hash = mix(hash, operands[i]);
    size_t mask = v->slots.at.count - 1, at = hash & mask;
    for (; v->slots.at.data[at].id != NONE; at = (at + 1) & mask)
        if (v->slots.at.data[at].hash == hash &&
            is_sum_of(v, v->slots.at.data[at].id, a, b, operands + 2, n))
            return v->slots.at.data[at].id;

    uint32_t id = (uint32_t)v->all.count;
    struct value sum = {.kind = VALUE_SUM, .n = n, .size = v->all.data[a].size, .core = id};
    sum.a = (uint32_t)v->pool.count;
    VEC_RESERVE(&v->pool, n);
    VEC_PUSH(&v->pool, a);
    VEC_PUSH(&v->pool, b);
    for (uint32_t i = 2; i < n; i++)
        VEC_PUSH(&v->pool, operands[i]);
    for (uint32_t i = 0; i < n; i++) {
        const struct value *o = &v->all.data[operands[i]];
        sum.leaves = saturating_add(sum.leaves, o->leaves);
        sum.lossy = o->lossy > sum.lossy ? o->lossy : sum.lossy;
    }
    VEC_PUSH(&v->all, sum);
    slot_take(v, at, hash)->id = id;
    return id;
}

uint32_t value_coded(struct values *v, uint16_t codec, uint32_t inner, int32_t rank) {
    const struct codec *c = &v->flow->codecs.data[codec];
    if (codec_is_lossless(c, v->flow->setup.dtype))
        return inner;
    uint32_t n = codec_is_stateful(c) ? 1 + (uint32_t)rank : 0;
    uint32_t hash = mix(mix(mix(codec, UINT32_C(0x5eed)), inner), n);
    size_t mask = v->slots.at.count - 1, at = hash & mask;
    for (; v->slots.at.data[at].id != NONE; at = (at + 1) & mask) {
        const struct value *o = &v->all.data[v->slots.at.data[at].id];
        if (o->kind == VALUE_CODED && o->codec == codec && o->a == inner && o->n == n)
            return v->slots.at.data[at].id;
    }
    uint32_t id = (uint32_t)v->all.count;
    struct value coded = v->all.data[inner];
    coded.kind = VALUE_CODED;
    coded.codec = codec;
    coded.a = inner;
    coded.n = n;
    coded.lossy = coded.lossy < UINT8_MAX ? (uint8_t)(coded.lossy + 1) : UINT8_MAX;
    coded.divided = false;
    VEC_PUSH(&v->all, coded);
    slot_take(v, at, hash)->id = id;
    return id;
}

/* ---- for people --------------------------------------------------------------------------- */

enum {
    TEXT_BYTES = 240,
    TEXT_DEPTH = 5,    /* sums within one another that are shown */
    TEXT_OPERANDS = 6, /* of one sum */
};

struct text {
    char bytes[TEXT_BYTES];
    size_t used;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->bytes + t->used, TEXT_BYTES - t->used, format, args);
    va_end(args);
    t->used += n > 0 ? (size_t)n : 0;
    if (t->used >= TEXT_BYTES) {
        t->used = TEXT_BYTES - 1;
        memcpy(t->bytes + TEXT_BYTES - 4, "...", 3);
    }
}

static const char *joiner(enum redop op) {
    switch (op) {
    case REDOP_MIN:
        return " min ";
    case REDOP_MAX:
        return " max ";
    case REDOP_SUM:
    case REDOP_AVG:
    case REDOP_COUNT:
        break;
    }
    return " + ";
}

static void put_value(struct text *t, const struct values *v, uint32_t id, int depth, bool inner) {
    const struct flow *f = v->flow;
    const struct value *x = &v->all.data[id];
    int32_t rank, chunk;
    char codec[CODEC_TEXT_BYTES];
    if (t->used >= TEXT_BYTES - 1)
        return;
    switch ((enum value_kind)x->kind) {
    case VALUE_INPUT: {
        const struct flow_buffer *b = flow_buffer_of(f, x->a, &rank, &chunk);
        put(t, "%s[%d]@%d", b->name, chunk, rank);
        return;
    }
    case VALUE_CODED:
        put(t, "%s(", codec_format(&f->codecs.data[x->codec], codec, sizeof codec));
        if (depth)
            put_value(t, v, x->a, depth - 1, false);
        else
            put(t, "...");
        put(t, ")");
        return;
    case VALUE_SUM:
        break;
    }
    put(t, inner ? "(" : "");
    for (uint32_t i = 0; i < x->n; i++) {
        if (i == TEXT_OPERANDS - 1 && x->n > TEXT_OPERANDS) {
            put(t, "%s%u more", joiner(f->setup.redop), x->n - i);
            break;
        }
        put(t, "%s", i ? joiner(f->setup.redop) : "");
        if (depth)
            put_value(t, v, v->pool.data[x->a + i], depth - 1, true);
        else
            put(t, "...");
        if (!depth)
            break;
    }
    put(t, inner ? ")" : "");
}

char *value_text(struct arena *a, const struct values *v, uint32_t id) {
    struct text t = {.used = 0};
    put_value(&t, v, id, TEXT_DEPTH, false);
    return arena_strndup(a, t.bytes, t.used);
}
