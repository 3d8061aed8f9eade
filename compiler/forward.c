/* forward: one encoding per rank, value and codec.
 *
 * Requires the trace of `verify`. Ensures that every transfer that moves encoded bytes, or decodes
 * them in place, names the encoding, and that the flow lists each with the rank and value it is
 * made from: bytes that a rank made or received are sent on as they are. A flow that names its
 * encodings already must name these.
 */
#include "compiler/ir.h"

#include <string.h>

static bool report_other(struct compilation *c, uint32_t transfer) {
    const struct flow *f = c->flow;
    uint32_t named = f->transfer_encoding[transfer], found = c->trace.encoding[transfer];
    const struct flow_op *op = flow_op_of(f, transfer);
    if (found == NONE)
        flow_report(c->diag, f, op, SEV_ERROR,
                    "nothing is encoded here, and the text says that 'e%u' is", named);
    else if (named == NONE)
        flow_report(c->diag, f, op, SEV_ERROR, "this decodes 'e%u', and the text does not say so",
                    found);
    else
        flow_report(c->diag, f, op, SEV_ERROR, "this moves 'e%u', and the text says 'e%u'", found,
                    named);
    return false;
}

/* What the text of a forwarded flow says is only believed when it is so. */
static bool check_named(struct compilation *c) {
    const struct flow *f = c->flow;
    for (uint32_t t = 0; f->transfer_encoding && t < f->transfers; t++)
        if (f->transfer_encoding[t] != c->trace.encoding[t])
            return report_other(c, t);
    return true;
}

bool pass_forward(struct compilation *c) {
    struct flow *f = c->flow;
    if (!check_named(c))
        return false;
    if (!f->transfer_encoding)
        f->transfer_encoding = index_array_new(f->transfers, f->guard);
    if (f->transfers)
        memcpy(f->transfer_encoding, c->trace.encoding, f->transfers * sizeof *c->trace.encoding);
    VEC_CLEAR(&f->encodings);
    size_t n = c->trace.encodings.count;
    struct encoding *all = VEC_ADD_N(&f->encodings, n);
    if (n)
        memcpy(all, c->trace.encodings.data, n * sizeof *all);
    return true;
}
