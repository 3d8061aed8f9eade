/* verify: the proof on flow.
 *
 * Requires a flow whose numbers are set (flow_number). Ensures that the codecs take the element
 * type, that the program has a meaning (LANGUAGE: no empty chunk is read, no input written, ...),
 * and that every chunk the collective or an `ensure` speaks of ends with just what it should, with
 * the same bits on every rank that has it. c->values, c->trace and the properties in words are left
 * for later passes.
 */
#include "compiler/verify.h"

#include <string.h>

/* ---- before anything runs ----------------------------------------------------------------- */

static bool check_codecs(struct compilation *c) {
    const struct flow *f = c->flow;
    VEC(uint8_t) checked = {0};
    (void)VEC_ADD_N(&checked, f->codecs.count);
    bool good = true;
    for (size_t i = 0; i < f->ops.count; i++) {
        const struct flow_op *op = &f->ops.data[i];
        char why[256];
        if (checked.data[op->codec]++)
            continue;
        if (codec_check(&f->codecs.data[op->codec], f->setup.dtype, why, sizeof why))
            continue;
        flow_report(c->diag, f, op, SEV_ERROR, "%s", why);
        for (uint32_t k = 0; k < f->parameter_count; k++)
            if (f->parameters[k].codec == op->codec)
                diag_report(c->diag, SEV_NOTE, f->parameters[k].at,
                            "it is what this parameter stands for: give it another codec, as "
                            "with -D %s=none",
                            f->parameters[k].name);
        good = false;
    }
    VEC_FREE(&checked);
    return good;
}

/* A schedule always promises something, though for these ranks it may be nothing (`ensure ... for r
 * in 1..N` on one rank); the flow then says so. A flow that a person wrote has to say it too. */
static bool check_promise(struct compilation *c) {
    struct flow *f = c->flow;
    if (f->collective != COLL_NONE || f->ensures.count)
        return true;
    if (c->program) {
        struct flow_ensure nothing = {.kind = ENSURE_IDENTICAL, .loc = NONE, .context = NONE};
        VEC_PUSH(&f->ensures, nothing);
        return true;
    }
    diag_report(c->diag, SEV_ERROR, (struct span){0, 0},
                "%s: there is no collective and no `ensure`, so there is nothing to prove",
                f->name);
    return false;
}

/* ---- in words ----------------------------------------------------------------------------- */

static void add_property(struct compilation *c, const char *name, const char *detail) {
    VEC_PUSH(&c->proved, (struct property){name, detail});
}

static bool has_stateful_codec(const struct flow *f) {
    for (size_t i = 0; i < f->ops.count; i++)
        if (codec_is_stateful(&f->codecs.data[f->ops.data[i].codec]))
            return true;
    return false;
}

static void add_properties(struct compilation *c, const struct proof *p) {
    const struct flow *f = c->flow;
    struct arena *a = c->arena;
    char n[NUMBER_TEXT_BYTES], k[NUMBER_TEXT_BYTES];
    add_property(
        c, "chunks in bounds",
        arena_printf(a, "%s moved, none empty when read", format_count(n, f->transfers, "chunk")));
    add_property(c, "every contribution exactly once",
                 arena_printf(a, "%s, %s", format_count(n, p->demands, "result"),
                              format_count(k, p->inputs, "contribution")));
    if (p->replicated)
        add_property(c, "replicas identical",
                     arena_printf(a, "%s in %s, bit for bit",
                                  format_count(n, p->replicated, "result"),
                                  format_count(k, p->copies, "place")));
    add_property(c, "deterministic",
                 has_stateful_codec(f) ? "one order of addition, codecs follow their seeds"
                                       : "one order of addition, whatever the timing");
    add_property(c, "lossy encodings",
                 p->most_lossy
                     ? arena_printf(a, "at most %u on the way to any result", p->most_lossy)
                     : "none");
}

/* ---- the pass ----------------------------------------------------------------------------- */

static bool trace(struct compilation *c) {
    values_free(c->values);
    c->values = NULL;
    flow_trace_free(&c->trace, c->flow);
    c->values = values_new(c->flow);
    return values_trace(c->values, c->flow, c->diag, &c->trace);
}

bool pass_verify(struct compilation *c) {
    struct flow_shape shape;
    struct proof proof;
    c->flow->sources = c->sources;
    if (!check_promise(c) || !check_codecs(c))
        return false;
    if (c->flow->collective != COLL_NONE && !flow_shape(c->flow, c->diag, &shape))
        return false; /* sizes mean nothing then */
    if (!trace(c) || !finals_prove(c, c->trace.final, &proof))
        return false;
    VEC_CLEAR(&c->proved);
    add_properties(c, &proof);
    return true;
}
