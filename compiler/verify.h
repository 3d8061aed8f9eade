/* Inside the proof: what must hold at the end, one logical chunk at a time, and what is said when
 * it does not.
 *
 *   verify.c    the pass: codec types, the trace, and the properties in words
 *   finals.c    demands, from the collective and from `ensure`, and their proof
 *   findings.c  what is wrong, gathered over chunks and ranks, then reported
 *   replicas.c  why two values of the same inputs are not the same bits
 */
#ifndef SLUICE_VERIFY_H
#define SLUICE_VERIFY_H

#include "compiler/ir.h"

/* One logical chunk: these chunks end with the sum of these inputs. */
struct demand {
    uint32_t number;
    struct span at;
    uint32_t context;
    bool identical;  /* all holders end with the same bits */
    bool any_inputs; /* `ensure identical` alone: whatever the inputs */
    VEC(loc_id) inputs;
    VEC(loc_id) holders;
};

/* ---- findings.c --------------------------------------------------------------------------- */

enum finding_kind {
    FINDING_EMPTY,     /* holders that nothing was ever stored in */
    FINDING_UNTOUCHED, /* inout chunks that still hold what they began with */
    FINDING_MISSING,   /* inputs that a holder lacks */
    FINDING_DOUBLED,   /* inputs that it counts twice */
    FINDING_FOREIGN,   /* inputs that do not belong there */
    FINDING_INSTEAD,   /* a single input, and the wrong one */
    FINDING_REPLICAS,  /* holders that are each right and differ in their bits */
    FINDING_DIVISION,  /* avg: a sum that is a result here and an operand there */
};

/* A growing list in the arena: messages only. */
struct ints {
    int32_t *at;
    uint32_t n, capacity;
};

/* Locations as a person would name them: chunks of one buffer on several ranks, or a plain list. */
struct loc_set {
    const struct flow_buffer *buffer; /* NULL: text */
    struct ints chunks, ranks;        /* ascending; every chunk on every rank */
    const char *text;
};

struct finding {
    enum finding_kind kind;
    uint32_t demand; /* its number */
    struct span at;
    uint32_t context;
    struct loc_set holders, inputs,
        others;            /* others: INSTEAD: what was wanted; REPLICAS: the other side */
    uint32_t value, other; /* DOUBLED: the value and the input; REPLICAS: both values; else NONE */
    uint32_t distinct;     /* REPLICAS: different values in all */
    struct ints alike;     /* and chunks that differ for the same reason, on other ranks */
    const char *good;      /* EMPTY, UNTOUCHED: who did get it; or NULL */
};

enum { MAX_FINDINGS = 64 };

struct findings {
    struct arena *arena;
    const struct flow *flow;
    struct finding at[MAX_FINDINGS];
    uint32_t n;
    bool more; /* than there is room for */
};

struct loc_set loc_set_of(struct arena *a, const struct flow *f, const loc_id *locs, uint32_t n);
char *ranks_text(struct arena *a, const struct ints *ranks);  /* ranks 0, 3 to 7 */
void ints_add(struct arena *a, struct ints *list, int32_t x); /* keeps it ascending, each once */
/* Adds, or makes an earlier finding of the same kind speak of these holders as well. */
void findings_add(struct findings *all, const struct finding *f);
/* A demand is done: its findings, those from number `from`, join earlier ones that say the same of
 * other chunks. */
void findings_join(struct findings *all, uint32_t from);
void findings_report(struct findings *all, struct compilation *c);

/* ---- replicas.c --------------------------------------------------------------------------- */

/* Notes that say why two values differ; names: where each is, as "on rank 3". */
void replicas_explain(struct compilation *c, uint32_t a, const char *a_name, uint32_t b,
                      const char *b_name);
/* Why, in a word: values that differ for the same reason are reported together. */
enum replica_reason {
    REASON_LOSSY_SOME,
    REASON_ENCODED_AGAIN,
    REASON_OTHER_CODEC,
    REASON_OTHER_STATE,
    REASON_ORDER,
    REASON_CONTENT,
};
enum replica_reason replicas_reason(struct compilation *c, uint32_t a, uint32_t b);

/* ---- finals.c ----------------------------------------------------------------------------- */

/* What the proof covered, for the properties. */
struct proof {
    uint64_t demands, holders, inputs; /* inputs: contributions, counted at each logical chunk */
    uint64_t replicated, copies;       /* logical chunks that must agree, and where they are */
    uint32_t most_lossy;               /* lossy encodings on the worst path */
};
bool finals_prove(struct compilation *c, const uint32_t *final, struct proof *proof);

#endif
