/* What the result of a run must be, computed from the proved value of each chunk, element by
 * element.
 *
 * Shares no code with the executor and the codecs: its own conversions, rounding and loops.
 * Where no lossy codec stands between the inputs and a chunk the result is one string of bits,
 * and is compared so. Elsewhere the exact value is followed in double, with a bound on the
 * error of every sum, rounding and codec (codec_error_bound: what the codec's row in the table
 * declares); the result must lie within it, and ranks that hold the same value must hold the
 * same bits.
 */
#ifndef SLUICE_REFERENCE_H
#define SLUICE_REFERENCE_H

#include "compiler/compiler.h"

#define REFERENCE_KEPT 8

struct mismatch {
    int32_t rank, buffer, chunk; /* flow.buffers */
    uint64_t element;            /* within the chunk */
    uint64_t got, want;          /* bits; unused want when bounded; of rank `other` when replica */
    bool bounded;                /* not within `bound` of `exact` */
    bool replica; /* differs from what rank `other` holds, though both hold one value */
    int32_t other;
    double exact, bound;
};

struct reference_report {
    uint64_t checked;   /* elements */
    uint64_t exact;     /* of these, compared bit by bit */
    uint64_t bounded;   /* compared within a finite bound */
    uint64_t unbounded; /* no bound exists (infinity, NaN, range): only compared between ranks */
    uint64_t wrong;
    double worst_error;    /* largest |got - exact| of the bounded ones */
    double worst_fraction; /* largest |got - exact| / bound */
    uint32_t kept;
    struct mismatch first[REFERENCE_KEPT]; /* the same ones in every run */
};

/* Checks every output and inout chunk that the ranks of a compilation end with. send, got: as
 * executor.h has them, a pointer a rank; send as it was before the run. False: it could not be
 * checked, err says why (no memory). */
bool reference_check(const struct compilation *c, const void *const *send, const void *const *got,
                     void (*progress)(void *ctx, uint64_t done, uint64_t of), void *progress_ctx,
                     struct reference_report *out, char *err, size_t err_bytes);

/* "rank 3, data[2], element 17: got 0x3f81 (1.0078125), want 0x3f80 (1)"; buf is returned. */
char *mismatch_text(const struct compilation *c, const struct mismatch *m, char *buf,
                    size_t buf_bytes);

#endif
