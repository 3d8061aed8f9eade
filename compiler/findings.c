/* What a proof found wrong. One mistake in a schedule tends to be wrong on many ranks and in many
 * chunks; what is the same but for the chunk, or but for the rank, is gathered into one message.
 */
#include "compiler/verify.h"

#include <string.h>

/* ---- lists -------------------------------------------------------------------------------- */

void ints_add(struct arena *a, struct ints *list, int32_t x) {
    uint32_t at = list->n;
    while (at > 0 && list->at[at - 1] > x)
        at--;
    if (at > 0 && list->at[at - 1] == x)
        return;
    if (list->n == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 8;
        int32_t *grown = arena_array(a, capacity, sizeof *grown);
        if (list->n)
            memcpy(grown, list->at, list->n * sizeof *grown);
        list->at = grown;
        list->capacity = capacity;
    }
    memmove(list->at + at + 1, list->at + at, (list->n - at) * sizeof *list->at);
    list->at[at] = x;
    list->n++;
}

static void ints_add_all(struct arena *a, struct ints *list, const struct ints *more) {
    for (uint32_t i = 0; i < more->n; i++)
        ints_add(a, list, more->at[i]);
}

static bool ints_equal(const struct ints *a, const struct ints *b) {
    return a->n == b->n && (a->n == 0 || !memcmp(a->at, b->at, a->n * sizeof *a->at));
}

/* ---- as text ------------------------------------------------------------------------------ */

enum { MOST_RUNS = 6 }; /* of a list that a message spells out */

/* Runs of an ascending list: item(first), item(last), or "first to last". */
static char *runs_text(struct arena *a, const struct ints *list, const char *before,
                       const char *after) {
    char *text = "";
    uint32_t runs = 0;
    for (uint32_t i = 0, n; i < list->n; i += n, runs++) {
        n = 1;
        while (i + n < list->n && list->at[i + n] == list->at[i] + (int32_t)n)
            n++;
        if (n == 2)
            n = 1;
        if (runs == MOST_RUNS)
            return arena_printf(a, "%s and %u more", text, list->n - i);
        const char *comma = i ? ", " : "";
        int32_t first = list->at[i], last = list->at[i] + (int32_t)n - 1;
        text = n == 1 ? arena_printf(a, "%s%s%s%d%s", text, comma, before, first, after)
                      : arena_printf(a, "%s%s%s%d%s to %s%d%s", text, comma, before, first, after,
                                     before, last, after);
    }
    return text;
}

char *ranks_text(struct arena *a, const struct ints *ranks) {
    return arena_printf(a, "rank%s %s", ranks->n == 1 ? "" : "s", runs_text(a, ranks, "", ""));
}

static char *set_text(struct arena *a, const struct loc_set *s, const char *preposition) {
    if (!s->buffer)
        return arena_printf(a, "%s", s->text ? s->text : "");
    char *before = arena_printf(a, "%s[", s->buffer->name);
    return arena_printf(a, "%s %s %s", runs_text(a, &s->chunks, before, "]"), preposition,
                        ranks_text(a, &s->ranks));
}

static char *mixed_text(struct arena *a, const struct flow *f, const loc_id *locs, uint32_t n) {
    char *text = "";
    for (uint32_t i = 0; i < n; i++) {
        if (i == MOST_RUNS)
            return arena_printf(a, "%s and %u more", text, n - i);
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", flow_loc_name(a, f, locs[i]));
    }
    return text;
}

struct loc_set loc_set_of(struct arena *a, const struct flow *f, const loc_id *locs, uint32_t n) {
    struct loc_set s = {0};
    for (uint32_t i = 0; i < n; i++) {
        int32_t rank, chunk;
        const struct flow_buffer *b = flow_buffer_of(f, locs[i], &rank, &chunk);
        if (i > 0 && (b != s.buffer || chunk != s.chunks.at[0]))
            return (struct loc_set){.text = mixed_text(a, f, locs, n)};
        s.buffer = b;
        ints_add(a, &s.chunks, chunk);
        ints_add(a, &s.ranks, rank);
    }
    return s;
}

/* ---- gathering ---------------------------------------------------------------------------- */

static bool set_equal(const struct loc_set *a, const struct loc_set *b) {
    if (!a->buffer || !b->buffer)
        return !a->buffer && !b->buffer &&
               (a->text == b->text || (a->text && b->text && !strcmp(a->text, b->text)));
    return a->buffer == b->buffer && ints_equal(&a->chunks, &b->chunks) &&
           ints_equal(&a->ranks, &b->ranks);
}

/* The same but for the chunks. */
static bool set_alike(const struct loc_set *a, const struct loc_set *b) {
    return a->buffer == b->buffer &&
           (a->buffer ? ints_equal(&a->ranks, &b->ranks) : set_equal(a, b));
}

static void set_add(struct arena *a, struct loc_set *to, const struct loc_set *from) {
    ints_add_all(a, &to->chunks, &from->chunks);
    ints_add_all(a, &to->ranks, &from->ranks);
}

static bool same_good(const char *a, const char *b) {
    return (!a && !b) || (a && b && !strcmp(a, b));
}

/* Within one demand: other ranks, wrong in the same way. */
static bool joins_ranks(const struct finding *old, const struct finding *f) {
    return old->demand == f->demand && old->kind != FINDING_REPLICAS && old->holders.buffer &&
           old->holders.buffer == f->holders.buffer &&
           ints_equal(&old->holders.chunks, &f->holders.chunks) &&
           set_equal(&old->inputs, &f->inputs) && set_equal(&old->others, &f->others);
}

/* Of different demands: the union of the holders is again "these chunks on these ranks", and the
 * inputs keep their ranks. */
static bool joins_chunks(const struct finding *old, const struct finding *f) {
    if (f->kind == FINDING_INSTEAD)
        return false; /* which one is where which should be would be lost */
    return old->demand != f->demand && old->at.begin == f->at.begin && old->holders.buffer &&
           old->holders.buffer == f->holders.buffer && set_alike(&old->inputs, &f->inputs) &&
           (old->inputs.buffer || !old->inputs.text) && set_alike(&old->others, &f->others) &&
           (ints_equal(&old->holders.ranks, &f->holders.ranks) ||
            (ints_equal(&old->holders.chunks, &f->holders.chunks) &&
             old->kind != FINDING_REPLICAS));
}

/* Replicas that differ for one reason, though elsewhere: the first stands for all. */
static bool differs_alike(const struct finding *old, const struct finding *f) {
    return old->kind == FINDING_REPLICAS && f->kind == FINDING_REPLICAS &&
           old->demand != f->demand && old->at.begin == f->at.begin &&
           same_good(old->good, f->good) && old->holders.buffer &&
           old->holders.buffer == f->holders.buffer && f->others.buffer;
}

void findings_add(struct findings *all, const struct finding *f) {
    for (uint32_t i = 0; i < all->n; i++) {
        struct finding *old = &all->at[i];
        if (old->kind != f->kind || !same_good(old->good, f->good))
            continue;
        if (joins_ranks(old, f)) {
            ints_add_all(all->arena, &old->holders.ranks, &f->holders.ranks);
            return;
        }
    }
    if (all->n == MAX_FINDINGS)
        all->more = true;
    else
        all->at[all->n++] = *f;
}

void findings_join(struct findings *all, uint32_t from) {
    uint32_t kept = from;
    for (uint32_t i = from; i < all->n; i++) {
        struct finding *f = &all->at[i];
        bool joined = false;
        for (uint32_t k = 0; k < kept && !joined; k++) {
            struct finding *old = &all->at[k];
            joined = old->kind == f->kind && same_good(old->good, f->good) && joins_chunks(old, f);
            if (joined) {
                set_add(all->arena, &old->holders, &f->holders);
                set_add(all->arena, &old->inputs, &f->inputs);
                set_add(all->arena, &old->others, &f->others);
            }
        }
        for (uint32_t k = 0; k < kept && !joined; k++) {
            joined = differs_alike(&all->at[k], f);
            if (joined)
                ints_add_all(all->arena, &all->at[k].alike, &f->holders.chunks);
        }
        if (!joined)
            all->at[kept++] = *f;
    }
    all->n = kept;
}

/* ---- reporting ---------------------------------------------------------------------------- */

static bool is_many(const struct loc_set *s) {
    return s->buffer && s->chunks.n > 1;
}

/* Where the input was added the second time: the lowest sum of which two operands hold it. */
static void note_addition(struct compilation *c, uint32_t value, loc_id input) {
    const struct values *v = c->values;
    uint32_t n = value + 1; /* operands come before what they are in */
    VEC(uint8_t) holds = {0};
    (void)VEC_ADD_N(&holds, n);
    for (uint32_t id = 0; id < n; id++) {
        const struct value *x = value_get(v, id);
        if (x->kind == VALUE_INPUT)
            holds.data[id] = x->a == input;
        else if (x->kind == VALUE_CODED)
            holds.data[id] = holds.data[x->a];
        else
            for (uint32_t k = 0; k < x->n && !holds.data[id]; k++)
                holds.data[id] = holds.data[value_operands(v, id)[k]];
    }
    uint32_t at = value, second = NONE;
    while (second == NONE && value_get(v, at)->kind != VALUE_INPUT) {
        const struct value *x = value_get(v, at);
        uint32_t first = NONE;
        for (uint32_t k = 0; x->kind == VALUE_SUM && k < x->n && second == NONE; k++) {
            if (!holds.data[value_operands(v, at)[k]])
                continue;
            if (first == NONE)
                first = k;
            else
                second = k;
        }
        if (second == NONE)
            at = x->kind == VALUE_CODED ? x->a : value_operands(v, at)[first];
    }
    VEC_FREE(&holds);
    if (second == NONE || !c->flow->ops.count)
        return;
    uint32_t transfer = values_find_addition(c->values, c->flow, c->diag, at, second);
    if (transfer == NONE && second == 1) /* the first two may stand in either order */
        transfer = values_find_addition(c->values, c->flow, c->diag, at, 0);
    if (transfer != NONE)
        flow_report(c->diag, c->flow, flow_op_of(c->flow, transfer), SEV_NOTE,
                    "added the second time here");
}

static void report_replicas(struct findings *all, struct compilation *c, const struct finding *f) {
    struct arena *a = all->arena;
    /* The same chunks on several ranks. */
    bool plain = f->holders.buffer && f->holders.buffer == f->others.buffer &&
                 ints_equal(&f->holders.chunks, &f->others.chunks);
    char *ours = plain ? ranks_text(a, &f->holders.ranks) : set_text(a, &f->holders, "on");
    char *theirs = plain ? ranks_text(a, &f->others.ranks) : set_text(a, &f->others, "on");
    char *chunks = "";
    if (plain) {
        char *before = arena_printf(a, "%s[", f->holders.buffer->name);
        chunks = arena_printf(a, "%s: ", runs_text(a, &f->holders.chunks, before, "]"));
    }
    diag_report(c->diag, SEV_ERROR, f->at, "%s%s and %s do not end with the same bits", chunks,
                ours, theirs);
    flow_note_context(c->diag, c->flow, f->context, f->at);
    if (f->distinct > 2)
        diag_report(c->diag, SEV_NOTE, f->at,
                    "there are %u different results in all; these are two", f->distinct);
    if (f->alike.n)
        diag_report(c->diag, SEV_NOTE, f->at, "the same is wrong with %s",
                    runs_text(a, &f->alike, arena_printf(a, "%s[", f->holders.buffer->name), "]"));
    const char *where = plain ? "on" : "in";
    replicas_explain(c, f->value, arena_printf(a, "%s %s", where, ours), f->other,
                     arena_printf(a, "%s %s", where, theirs));
}

static void report(struct findings *all, struct compilation *c, const struct finding *f) {
    struct arena *a = all->arena;
    struct diag *d = c->diag;
    bool many = is_many(&f->holders);
    char *holders = set_text(a, &f->holders, "on");
    char *inputs = set_text(a, &f->inputs, "of");
    const char *good = f->good ? arena_printf(a, "; %s", f->good) : "";
    switch (f->kind) {
    case FINDING_EMPTY:
        diag_report(d, SEV_ERROR, f->at, "%s %s never written%s", holders, many ? "are" : "is",
                    good);
        break;
    case FINDING_UNTOUCHED:
        diag_report(d, SEV_ERROR, f->at,
                    "%s never receive%s the result and still hold%s what was there at the start%s",
                    holders, many ? "" : "s", many ? "" : "s", good);
        break;
    case FINDING_MISSING:
        diag_report(d, SEV_ERROR, f->at, "%s miss%s the contribution of %s", holders,
                    many ? "" : "es", inputs);
        break;
    case FINDING_DOUBLED:
        diag_report(d, SEV_ERROR, f->at, "%s count%s %s more than once", holders, many ? "" : "s",
                    inputs);
        break;
    case FINDING_FOREIGN:
        diag_report(d, SEV_ERROR, f->at, "%s hold%s %s, which %s not belong there", holders,
                    many ? "" : "s", inputs, is_many(&f->inputs) ? "do" : "does");
        break;
    case FINDING_INSTEAD:
        diag_report(d, SEV_ERROR, f->at, "%s end%s with %s instead of %s", holders, many ? "" : "s",
                    inputs, set_text(a, &f->others, "of"));
        break;
    case FINDING_DIVISION:
        diag_report(
            d, SEV_ERROR, f->at,
            "avg: %s need%s the undivided sum of %s, which is divided as a result elsewhere",
            holders, many ? "" : "s", inputs);
        break;
    case FINDING_REPLICAS:
        report_replicas(all, c, f);
        return;
    }
    flow_note_context(d, c->flow, f->context, f->at);
    if (f->kind == FINDING_DOUBLED)
        note_addition(c, f->value, f->other);
}

void findings_report(struct findings *all, struct compilation *c) {
    for (uint32_t i = 0; i < all->n && !diag_full(c->diag); i++)
        report(all, c, &all->at[i]);
    if (all->more)
        diag_report(c->diag, SEV_ERROR, (struct span){0, 0}, "and more chunks end wrong");
}
