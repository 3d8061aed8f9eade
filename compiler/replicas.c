/* Why two values differ though each holds what it should. Both are walked down in step, as long as
 * there is one place where they differ; what is found there is the reason:
 *
 *     quant(quant(a + b))  against  quant(a + b)       encoded again
 *     quant(a + b) + c     against  (a + b) + c        a lossy codec on one side only
 *     (a + b) + c          against  a + (b + c)        another order
 */
#include "compiler/verify.h"

#include <stdlib.h>
#include <string.h>

struct difference {
    enum replica_reason reason;
    bool on_a; /* LOSSY_SOME, ENCODED_AGAIN: which side has the extra coding */
    uint32_t a,
        b; /* the values where they part: CODED of the extra or differing coding, or the sums */
};

/* ---- codecs around one core --------------------------------------------------------------- */

static uint32_t codings(const struct values *v, uint32_t id) {
    uint32_t n = 0;
    for (; value_get(v, id)->kind == VALUE_CODED; id = value_get(v, id)->a)
        n++;
    return n;
}

static uint32_t peel(const struct values *v, uint32_t id, uint32_t n) {
    while (n--)
        id = value_get(v, id)->a;
    return id;
}

/* The same core: they part at the innermost coding that is not the same. */
static struct difference compare_codings(const struct values *v, uint32_t a, uint32_t b) {
    uint32_t na = codings(v, a), nb = codings(v, b), common = na < nb ? na : nb;
    uint32_t inner_a = peel(v, a, na - common), inner_b = peel(v, b, nb - common);
    while (inner_a != inner_b && value_get(v, inner_a)->a != value_get(v, inner_b)->a) {
        inner_a = value_get(v, inner_a)->a;
        inner_b = value_get(v, inner_b)->a;
    }
    if (inner_a != inner_b) {
        bool same_codec = value_get(v, inner_a)->codec == value_get(v, inner_b)->codec;
        return (struct difference){same_codec ? REASON_OTHER_STATE : REASON_OTHER_CODEC, false,
                                   inner_a, inner_b};
    }
    bool on_a = na > nb;
    uint32_t extra = on_a ? peel(v, a, na - common - 1) : peel(v, b, nb - common - 1);
    return (struct difference){common ? REASON_ENCODED_AGAIN : REASON_LOSSY_SOME, on_a, extra,
                               extra};
}

/* ---- sums --------------------------------------------------------------------------------- */

/* The one pair of operands in which two sums of the same length differ; the first two have no
 * order. */
static bool differing_pair(const struct values *v, uint32_t a, uint32_t b, uint32_t *x,
                           uint32_t *y) {
    uint32_t n = value_get(v, a)->n, differing = 0;
    if (value_get(v, b)->n != n)
        return false;
    const uint32_t *p = value_operands(v, a), *q = value_operands(v, b);
    bool crossed = p[0] == q[1] || p[1] == q[0];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i < 2 && crossed ? 1 - i : i;
        if (p[i] == q[k])
            continue;
        differing++;
        *x = p[i];
        *y = q[k];
        if (value_get(v, *x)->core == value_get(v, *y)->core)
            return true; /* the same sum, encoded otherwise: that is the reason, however often it
                            occurs */
    }
    return differing == 1;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

enum { MOST_LEAVES = 1 << 16 }; /* of values whose inputs are compared one by one */

static uint32_t *sorted_inputs(struct arena *a, const struct values *v, uint32_t id) {
    uint32_t leaves = value_get(v, id)->leaves, n = 0;
    uint32_t *list = arena_array(a, leaves, sizeof *list);
    VEC(uint32_t) stack = {0};
    VEC_PUSH(&stack, id);
    while (stack.count) {
        uint32_t at = value_get(v, VEC_POP(&stack))->core;
        const struct value *x = value_get(v, at);
        if (x->kind == VALUE_INPUT)
            list[n++] = x->a;
        else
            for (uint32_t k = 0; k < x->n; k++)
                VEC_PUSH(&stack, value_operands(v, at)[k]);
    }
    VEC_FREE(&stack);
    qsort(list, n, sizeof *list, by_number);
    return list;
}

static bool same_inputs(struct arena *a, const struct values *v, uint32_t x, uint32_t y) {
    uint32_t leaves = value_get(v, x)->leaves;
    if (leaves != value_get(v, y)->leaves)
        return false;
    if (leaves > MOST_LEAVES)
        return true; /* taken for granted: it only chooses the words */
    uint32_t *p = sorted_inputs(a, v, x), *q = sorted_inputs(a, v, y);
    return !memcmp(p, q, leaves * sizeof *p);
}

static struct difference compare(struct arena *arena, const struct values *v, uint32_t a,
                                 uint32_t b) {
    if (!same_inputs(arena, v, a, b))
        return (struct difference){REASON_CONTENT, false, a, b};
    for (;;) {
        uint32_t x = value_get(v, a)->core, y = value_get(v, b)->core;
        if (x == y)
            return compare_codings(v, a, b);
        if (value_get(v, x)->kind != VALUE_SUM || value_get(v, y)->kind != VALUE_SUM ||
            !differing_pair(v, x, y, &a, &b))
            return (struct difference){REASON_ORDER, false, x, y};
        if (value_get(v, a)->leaves != value_get(v, b)->leaves)
            return (struct difference){REASON_ORDER, false, x, y};
    }
}

enum replica_reason replicas_reason(struct compilation *c, uint32_t a, uint32_t b) {
    return compare(c->arena, c->values, a, b).reason;
}

/* ---- in words ----------------------------------------------------------------------------- */

/* Where the bytes that decode to this value were made; NULL when that is not known. */
static const struct encoding *note_encoding(struct compilation *c, uint32_t coded,
                                            const char *text) {
    const struct flow *f = c->flow;
    for (size_t i = 0; i < c->trace.encodings.count; i++) {
        const struct encoding *e = &c->trace.encodings.data[i];
        if (e->coded == coded && e->value != coded && f->ops.count) {
            flow_report(c->diag, f, flow_op_of(f, e->first_transfer), SEV_NOTE, "%s", text);
            return e;
        }
    }
    return NULL;
}

static char *codec_text(struct compilation *c, uint32_t coded) {
    char text[CODEC_TEXT_BYTES];
    uint16_t codec = value_get(c->values, coded)->codec;
    return arena_printf(c->arena, "%s",
                        codec_format(&c->flow->codecs.data[codec], text, sizeof text));
}

/* plain: the value without the extra coding, as it is held. */
static void explain_extra(struct compilation *c, const struct difference *x, uint32_t plain,
                          const char *with, const char *without) {
    struct span nowhere = {0, 0};
    char *codec = codec_text(c, x->a);
    if (x->reason == REASON_LOSSY_SOME)
        diag_report(c->diag, SEV_NOTE, nowhere,
                    "%s it went through %s, which loses bits; %s it did not", with, codec, without);
    else
        diag_report(c->diag, SEV_NOTE, nowhere,
                    "%s it was encoded a second time, by %s; %s it was not", with, codec, without);
    const struct encoding *e = note_encoding(
        c, x->a, x->reason == REASON_LOSSY_SOME ? "encoded here" : "encoded anew here");
    if (e && x->reason == REASON_LOSSY_SOME && e->value == plain)
        diag_report(c->diag, SEV_NOTE, nowhere,
                    "a copy of the chunk onto itself via %s lets rank %d keep what others decode",
                    codec, e->rank);
}

void replicas_explain(struct compilation *c, uint32_t a, const char *a_name, uint32_t b,
                      const char *b_name) {
    struct difference x = compare(c->arena, c->values, a, b);
    struct span nowhere = {0, 0};
    switch (x.reason) {
    case REASON_LOSSY_SOME:
    case REASON_ENCODED_AGAIN:
        explain_extra(c, &x, x.on_a ? b : a, x.on_a ? a_name : b_name, x.on_a ? b_name : a_name);
        return;
    case REASON_OTHER_CODEC:
        diag_report(c->diag, SEV_NOTE, nowhere, "%s it went through %s, %s through %s", a_name,
                    codec_text(c, x.a), b_name, codec_text(c, x.b));
        note_encoding(c, x.a, "encoded here");
        note_encoding(c, x.b, "and here");
        return;
    case REASON_OTHER_STATE:
        diag_report(c->diag, SEV_NOTE, nowhere,
                    "%s has state, so encodings made on different ranks differ",
                    codec_text(c, x.a));
        note_encoding(c, x.a, "encoded here");
        note_encoding(c, x.b, "and here");
        return;
    case REASON_ORDER:
    case REASON_CONTENT:
        break;
    }
    diag_report(c->diag, SEV_NOTE, nowhere, "%s:",
                x.reason == REASON_ORDER ? "the sums were added in different orders"
                                         : "they hold different things");
    diag_report(c->diag, SEV_NOTE, nowhere, "%s: %s", a_name, value_text(c->arena, c->values, x.a));
    diag_report(c->diag, SEV_NOTE, nowhere, "%s: %s", b_name, value_text(c->arena, c->values, x.b));
}
