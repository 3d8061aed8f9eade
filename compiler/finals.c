/* The proof of what must hold at the end: the collective and every `ensure` are turned into
 * demands, one for each logical chunk, and the value that each of its holders ends with must have
 * just the inputs demanded, each once.
 *
 * Sums are never expanded rank by rank: holders mostly have one and the same value, which is walked
 * once, with an explicit stack. A walk visits as many inputs as the demand has, so all of it is
 * linear in the chunks that must hold something. What is not shown to be right is wrong.
 */
#include "compiler/verify.h"

#include <stdlib.h>
#include <string.h>

/* Beyond these, what is wrong is no longer told apart. */
enum {
    MOST_WRONG = 32,         /* inputs that one message can be about */
    MOST_FAULTY = 4096,      /* demands that fail */
    MOST_VISITED = 64 << 20, /* values visited for their messages */
};

struct held {                    /* one distinct value among the holders of a demand */
    uint32_t value, first, last; /* holders, linked by next_holder */
    bool good;
};

struct prover {
    struct compilation *c;
    const struct flow *f;
    const uint32_t *final;
    struct flow_shape shape;
    struct demand demand;
    uint32_t *wanted;  /* [locs] number of the last demand that wants this input */
    uint32_t *counted; /* [locs] number of the last walk that met it */
    uint32_t walks;
    VEC(uint32_t) stack;
    /* made when the first demand fails */
    uint32_t *held_index; /* [values] index into held, where held[index].value is the value */
    size_t held_indices;
    VEC(struct held) held;
    VEC(uint32_t) next_holder;
    uint64_t visited;
    uint32_t faulty;
    struct findings *findings;
    /* avg */
    VEC(uint8_t) below; /* [values] visited beneath a result */
    struct proof proof;
};

static struct prover *prover_new(struct compilation *c, const uint32_t *final) {
    struct prover *p = arena_alloc(c->arena, sizeof *p);
    const struct flow *f = c->flow;
    c->prover = p;
    p->c = c;
    p->f = f;
    p->final = final;
    VEC_GUARD(&p->demand.inputs, f->guard);
    VEC_GUARD(&p->demand.holders, f->guard);
    VEC_GUARD(&p->stack, f->guard);
    VEC_GUARD(&p->held, f->guard);
    VEC_GUARD(&p->next_holder, f->guard);
    VEC_GUARD(&p->below, f->guard);
    p->wanted = index_array_new(f->locs, f->guard);
    p->counted = index_array_new(f->locs, f->guard);
    p->findings = arena_alloc(c->arena, sizeof *p->findings);
    p->findings->arena = c->arena;
    p->findings->flow = f;
    return p;
}

void prover_free(struct compilation *c) {
    struct prover *p = c->prover;
    if (!p)
        return;
    VEC_FREE(&p->demand.inputs);
    VEC_FREE(&p->demand.holders);
    VEC_FREE(&p->stack);
    VEC_FREE(&p->held);
    VEC_FREE(&p->next_holder);
    VEC_FREE(&p->below);
    index_array_free(p->wanted, p->f->locs, p->f->guard);
    index_array_free(p->counted, p->f->locs, p->f->guard);
    index_array_free(p->held_index, p->held_indices, p->f->guard);
    c->prover = NULL;
}

/* ---- one value against the demand --------------------------------------------------------- */

static void mark_wanted(struct prover *p) {
    struct demand *d = &p->demand;
    d->number++;
    for (size_t i = 0; i < d->inputs.count; i++)
        p->wanted[d->inputs.data[i]] = d->number;
}

static void push_operands(struct prover *p, uint32_t sum) {
    const struct value *x = value_get(p->c->values, sum);
    VEC_RESERVE(&p->stack, x->n);
    const uint32_t *operands = value_operands(p->c->values, sum);
    for (uint32_t k = x->n; k-- > 0;)
        VEC_PUSH(&p->stack, operands[k]);
}

/* The value is a sum of the wanted inputs, each once. */
static bool is_exact(struct prover *p, uint32_t value) {
    const struct values *v = p->c->values;
    if (value_get(v, value)->leaves != p->demand.inputs.count)
        return false;
    p->walks++;
    VEC_CLEAR(&p->stack);
    VEC_PUSH(&p->stack, value);
    while (p->stack.count) {
        uint32_t at = value_get(v, VEC_POP(&p->stack))->core;
        const struct value *x = value_get(v, at);
        if (x->kind == VALUE_SUM) {
            push_operands(p, at);
            continue;
        }
        if (p->wanted[x->a] != p->demand.number || p->counted[x->a] == p->walks)
            return false;
        p->counted[x->a] = p->walks;
    }
    return true; /* as many as wanted, all wanted, all different */
}

static void add_lossy(struct prover *p, uint32_t value) {
    uint32_t lossy = value_get(p->c->values, value)->lossy;
    p->proof.most_lossy = lossy > p->proof.most_lossy ? lossy : p->proof.most_lossy;
}

/* ---- what is wrong ------------------------------------------------------------------------ */

struct wrong {
    loc_id doubled[MOST_WRONG], foreign[MOST_WRONG];
    uint32_t doubles, foreigns;
    bool complete; /* all of the value was looked at */
};

static void note_wrong(loc_id *list, uint32_t *n, loc_id loc) {
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == loc)
            return;
    if (*n < MOST_WRONG)
        list[(*n)++] = loc;
}

/* Stops when the lists are full: a sum of sums of sums may have more inputs than there is time to
 * visit. */
static void look_at(struct prover *p, uint32_t value, struct wrong *w) {
    const struct values *v = p->c->values;
    uint32_t surplus = 0;
    p->walks++;
    VEC_CLEAR(&p->stack);
    VEC_PUSH(&p->stack, value);
    while (p->stack.count && surplus < 2 * MOST_WRONG && p->visited++ < MOST_VISITED) {
        uint32_t at = value_get(v, VEC_POP(&p->stack))->core;
        const struct value *x = value_get(v, at);
        if (x->kind == VALUE_SUM) {
            push_operands(p, at);
        } else if (p->counted[x->a] == p->walks) {
            note_wrong(w->doubled, &w->doubles, x->a);
            surplus++;
        } else {
            p->counted[x->a] = p->walks;
            if (p->wanted[x->a] != p->demand.number) {
                note_wrong(w->foreign, &w->foreigns, x->a);
                surplus++;
            }
        }
    }
    w->complete = p->stack.count == 0;
}

static void add_finding(struct prover *p, struct finding *f, const loc_id *inputs, size_t n) {
    f->inputs = loc_set_of(p->c->arena, p->f, inputs, (uint32_t)n);
    findings_add(p->findings, f);
}

/* Inputs that the last look did not meet. */
static void add_missing(struct prover *p, struct finding *f) {
    const struct demand *d = &p->demand;
    VEC_CLEAR(&p->stack);
    for (size_t i = 0; i < d->inputs.count; i++)
        if (p->counted[d->inputs.data[i]] != p->walks)
            VEC_PUSH(&p->stack, d->inputs.data[i]);
    f->kind = FINDING_MISSING;
    if (p->stack.count)
        add_finding(p, f, p->stack.data, p->stack.count);
}

static void add_wrong_value(struct prover *p, struct finding *f) {
    const struct demand *d = &p->demand;
    struct wrong w = {.doubles = 0};
    look_at(p, f->value, &w);
    if (w.complete && d->inputs.count == 1 && w.foreigns && !w.doubles &&
        p->counted[d->inputs.data[0]] != p->walks) {
        f->kind = FINDING_INSTEAD;
        f->others = loc_set_of(p->c->arena, p->f, d->inputs.data, 1);
        add_finding(p, f, w.foreign, w.foreigns);
        return;
    }
    f->kind = FINDING_DOUBLED;
    f->other = w.doubles ? w.doubled[0] : NONE;
    if (w.doubles)
        add_finding(p, f, w.doubled, w.doubles);
    f->kind = FINDING_FOREIGN;
    if (w.foreigns)
        add_finding(p, f, w.foreign, w.foreigns);
    if (w.complete)
        add_missing(p, f);
}

/* ---- the holders of a demand, by value ---------------------------------------------------- */

static uint32_t held_of(struct prover *p, uint32_t value) {
    uint32_t at = value == NONE ? NONE : p->held_index[value];
    if (value == NONE) { /* the empty ones: at most one entry */
        for (at = 0; at < p->held.count && p->held.data[at].value != NONE; at++)
            ;
    }
    if (at < p->held.count && p->held.data[at].value == value)
        return at;
    at = (uint32_t)p->held.count;
    if (value != NONE)
        p->held_index[value] = at;
    VEC_PUSH(&p->held, (struct held){value, NONE, NONE, false});
    return at;
}

static void group_holders(struct prover *p) {
    const struct demand *d = &p->demand;
    if (!p->held_index) {
        p->held_indices = values_count(p->c->values);
        p->held_index = index_array_new(p->held_indices, p->f->guard);
    }
    VEC_CLEAR(&p->held);
    VEC_CLEAR(&p->next_holder);
    for (uint32_t i = 0; i < d->holders.count; i++) {
        uint32_t at = held_of(p, p->final[d->holders.data[i]]);
        struct held *h = &p->held.data[at];
        VEC_PUSH(&p->next_holder, NONE);
        if (h->first == NONE)
            h->first = i;
        else
            p->next_holder.data[h->last] = i;
        h->last = i;
    }
}

static struct loc_set holders_of(struct prover *p, const struct held *h) {
    VEC_CLEAR(&p->stack);
    for (uint32_t i = h->first; i != NONE; i = p->next_holder.data[i])
        VEC_PUSH(&p->stack, p->demand.holders.data[i]);
    return loc_set_of(p->c->arena, p->f, p->stack.data, (uint32_t)p->stack.count);
}

/* "only ranks 0, 1 receive it" */
static const char *who_is_good(struct prover *p) {
    struct ints ranks = {0};
    for (size_t k = 0; k < p->held.count; k++)
        for (uint32_t i = p->held.data[k].good ? p->held.data[k].first : NONE; i != NONE;
             i = p->next_holder.data[i]) {
            int32_t rank;
            flow_buffer_of(p->f, p->demand.holders.data[i], &rank, NULL);
            ints_add(p->c->arena, &ranks, rank);
        }
    if (!ranks.n)
        return NULL;
    return arena_printf(p->c->arena, "only %s receive%s it", ranks_text(p->c->arena, &ranks),
                        ranks.n == 1 ? "s" : "");
}

/* An inout chunk with the very value it began with. */
static bool is_untouched(struct prover *p, const struct held *h) {
    const struct value *x = value_get(p->c->values, h->value);
    return x->kind == VALUE_INPUT && x->a == p->demand.holders.data[h->first] &&
           h->first == h->last;
}

static void add_bad_holders(struct prover *p, const struct held *h, const char *good) {
    const struct demand *d = &p->demand;
    struct finding f = {.demand = d->number,
                        .at = d->at,
                        .context = d->context,
                        .holders = holders_of(p, h),
                        .value = h->value,
                        .other = NONE};
    if (h->value == NONE || is_untouched(p, h)) {
        f.kind = h->value == NONE ? FINDING_EMPTY : FINDING_UNTOUCHED;
        f.good = good;
        findings_add(p->findings, &f);
    } else {
        add_wrong_value(p, &f);
    }
}

/* The first two values that differ stand for all. */
static void add_replicas(struct prover *p) {
    const struct demand *d = &p->demand;
    const struct held *pair[2] = {NULL, NULL};
    uint32_t distinct = 0;
    for (size_t k = 0; k < p->held.count; k++)
        if (p->held.data[k].good && distinct++ < 2)
            pair[distinct - 1] = &p->held.data[k];
    if (distinct < 2 || !d->identical)
        return;
    struct finding f = {.kind = FINDING_REPLICAS,
                        .demand = d->number,
                        .at = d->at,
                        .context = d->context,
                        .distinct = distinct,
                        .value = pair[0]->value,
                        .other = pair[1]->value};
    f.holders = holders_of(p, pair[0]);
    f.others = holders_of(p, pair[1]);
    /* Chunks that differ for one reason are told together. */
    f.good =
        arena_printf(p->c->arena, "%d", (int)replicas_reason(p->c, pair[0]->value, pair[1]->value));
    findings_add(p->findings, &f);
}

/* Holders differ, or the value is wrong: sort out who has what. */
static void find_faults(struct prover *p) {
    uint32_t before = p->findings->n;
    if (p->faulty++ >= MOST_FAULTY || p->findings->more) {
        p->findings->more = true;
        return;
    }
    group_holders(p);
    for (size_t k = 0; k < p->held.count && p->visited < MOST_VISITED; k++) {
        struct held *h = &p->held.data[k];
        h->good = h->value != NONE && (p->demand.any_inputs || is_exact(p, h->value));
        if (h->value != NONE && value_get(p->c->values, h->value)->leaves == p->demand.inputs.count)
            p->visited += p->demand.inputs.count;
    }
    const char *good = who_is_good(p);
    for (size_t k = 0; k < p->held.count && p->visited < MOST_VISITED; k++)
        if (!p->held.data[k].good)
            add_bad_holders(p, &p->held.data[k], good);
    p->findings->more |= p->visited >= MOST_VISITED;
    if (!p->findings->more)
        add_replicas(p);
    findings_join(p->findings, before);
}

static void prove_demand(struct prover *p) {
    const struct demand *d = &p->demand;
    mark_wanted(p);
    uint32_t value = p->final[d->holders.data[0]];
    bool good = value != NONE;
    for (size_t i = 1; i < d->holders.count && good; i++)
        good = p->final[d->holders.data[i]] == value;
    if (!good || !(d->any_inputs || is_exact(p, value))) {
        find_faults(p);
        return;
    }
    add_lossy(p, value);
    p->proof.demands++;
    p->proof.holders += d->holders.count;
    p->proof.inputs += d->inputs.count;
    if (d->identical && d->holders.count > 1) {
        p->proof.replicated++;
        p->proof.copies += d->holders.count;
    }
}

/* ---- avg ---------------------------------------------------------------------------------- */

/* The sum that is the collective's result divides before it is rounded. */
static void mark_divided(struct prover *p) {
    const struct demand *d = &p->demand;
    uint32_t core = value_get(p->c->values, p->final[d->holders.data[0]])->core;
    if (!d->any_inputs && value_get(p->c->values, core)->kind == VALUE_SUM)
        value_set_divided(p->c->values, core);
}

/* Nothing beneath a result may be one: it would be divided already. */
static void check_undivided(struct prover *p) {
    struct values *v = p->c->values;
    const struct demand *d = &p->demand;
    uint32_t top = value_get(v, p->final[d->holders.data[0]])->core;
    if (d->any_inputs || value_get(v, top)->kind != VALUE_SUM)
        return;
    VEC_CLEAR(&p->stack);
    push_operands(p, top);
    while (p->stack.count) {
        uint32_t at = value_get(v, VEC_POP(&p->stack))->core;
        if (value_get(v, at)->kind != VALUE_SUM || p->below.data[at])
            continue;
        p->below.data[at] = true;
        push_operands(p, at);
        if (!value_get(v, at)->divided)
            continue;
        struct finding f = {.kind = FINDING_DIVISION,
                            .demand = d->number,
                            .at = d->at,
                            .context = d->context,
                            .value = at,
                            .other = NONE};
        f.holders = loc_set_of(p->c->arena, p->f, d->holders.data, (uint32_t)d->holders.count);
        f.inputs.text = value_text(p->c->arena, v, at);
        findings_add(p->findings, &f);
    }
}

/* ---- demands ------------------------------------------------------------------------------ */

typedef void (*demand_step)(struct prover *p);

/* Chunks without elements hold whatever is asked of them. */
static bool is_vacuous(const struct prover *p) {
    for (size_t i = 0; i < p->demand.holders.count; i++)
        if (p->final[p->demand.holders.data[i]] != VALUE_ANY)
            return false;
    return true;
}

static void demand_start(struct prover *p, struct span at, uint32_t context) {
    struct demand *d = &p->demand;
    d->at = at;
    d->context = context;
    d->identical = d->any_inputs = false;
    VEC_CLEAR(&d->inputs);
    VEC_CLEAR(&d->holders);
}

static loc_id member_loc(const struct prover *p, const struct flow_buffer *b, int32_t member,
                         int32_t chunk) {
    int32_t position = b->position[p->f->member[member]];
    return b->first_loc + (uint32_t)position * (uint32_t)b->chunks + (uint32_t)chunk;
}

/* What a member gives to block q of the result; i: the chunk of the block. */
static loc_id given(const struct prover *p, int32_t member, int32_t q, int32_t i) {
    enum collective kind = p->f->collective;
    bool own_block = kind == COLL_ALLGATHER || kind == COLL_GATHER;
    int32_t block = p->shape.in_big ? (own_block ? member : q) : 0;
    return member_loc(p, p->shape.in, member, block * p->shape.block + i);
}

/* Where a member ends with what came from member `from`. */
static loc_id received(const struct prover *p, int32_t member, int32_t from, int32_t i) {
    enum collective kind = p->f->collective;
    bool own_block = kind == COLL_REDUCE_SCATTER || kind == COLL_SCATTER;
    int32_t block = p->shape.out_big ? (own_block ? member : from) : 0;
    return member_loc(p, p->shape.out, member, block * p->shape.block + i);
}

/* Chunk i of what goes from members [p0, p1) to members [q0, q1). */
static void collective_demand(struct prover *p, demand_step step, int32_t p0, int32_t p1,
                              int32_t q0, int32_t q1, int32_t i) {
    demand_start(p, p->f->collective_at, NONE);
    for (int32_t m = p0; m < p1; m++)
        VEC_PUSH(&p->demand.inputs, given(p, m, q0, i));
    for (int32_t m = q0; m < q1; m++)
        VEC_PUSH(&p->demand.holders, received(p, m, p0, i));
    p->demand.identical = true;
    if (!is_vacuous(p))
        step(p);
}

static void collective_demands(struct prover *p, demand_step step) {
    int32_t n = p->f->members, root = 0, block = p->shape.block;
    while (root < n && p->f->member[root] != p->f->root)
        root++;
    for (int32_t i = 0; i < block; i++) {
        switch (p->f->collective) {
        case COLL_NONE:
            break;
        case COLL_ALLREDUCE:
            collective_demand(p, step, 0, n, 0, n, i);
            break;
        case COLL_BROADCAST:
            collective_demand(p, step, root, root + 1, 0, n, i);
            break;
        case COLL_REDUCE:
            collective_demand(p, step, 0, n, root, root + 1, i);
            break;
        case COLL_REDUCE_SCATTER:
            for (int32_t q = 0; q < n; q++)
                collective_demand(p, step, 0, n, q, q + 1, i);
            break;
        case COLL_ALLGATHER:
            for (int32_t m = 0; m < n; m++)
                collective_demand(p, step, m, m + 1, 0, n, i);
            break;
        case COLL_GATHER:
            for (int32_t m = 0; m < n; m++)
                collective_demand(p, step, m, m + 1, root, root + 1, i);
            break;
        case COLL_SCATTER:
            for (int32_t q = 0; q < n; q++)
                collective_demand(p, step, root, root + 1, q, q + 1, i);
            break;
        case COLL_ALLTOALL:
            for (int32_t m = 0; m < n; m++)
                for (int32_t q = 0; q < n; q++)
                    collective_demand(p, step, m, m + 1, q, q + 1, i);
            break;
        }
    }
}

static void ensure_demands(struct prover *p, demand_step step) {
    for (size_t i = 0; i < p->f->ensures.count; i++) {
        const struct flow_ensure *e = &p->f->ensures.data[i];
        demand_start(p, e->at, e->context);
        struct demand *d = &p->demand;
        d->identical = d->any_inputs = e->kind == ENSURE_IDENTICAL;
        if (e->kind == ENSURE_VALUE)
            VEC_PUSH(&d->holders, e->loc);
        for (uint32_t k = 0; k < e->terms; k++)
            if (d->any_inputs)
                VEC_PUSH(&d->holders, p->f->terms.data[e->first_term + k]);
            else
                VEC_PUSH(&d->inputs, p->f->terms.data[e->first_term + k]);
        if (d->holders.count && !is_vacuous(p))
            step(p);
    }
}

static void all_demands(struct prover *p, demand_step step) {
    p->demand.number = 0;
    if (p->f->collective != COLL_NONE)
        collective_demands(p, step);
    ensure_demands(p, step);
}

/* A term is something that was there at the start, and named once. */
static void check_terms(struct prover *p) {
    const struct demand *d = &p->demand;
    struct diag *diag = p->c->diag;
    p->walks++;
    for (size_t i = 0; i < d->inputs.count && !diag_full(diag); i++) {
        loc_id loc = d->inputs.data[i];
        enum buffer_role role = flow_buffer_of(p->f, loc, NULL, NULL)->role;
        bool again = p->counted[loc] == p->walks;
        p->counted[loc] = p->walks;
        if (role == ROLE_INPUT || role == ROLE_INOUT) {
            if (!again)
                continue;
            diag_report(diag, SEV_ERROR, d->at, "%s is in the sum twice",
                        flow_loc_name(p->c->arena, p->f, loc));
        } else {
            diag_report(diag, SEV_ERROR, d->at,
                        "%s holds nothing at the start, so nothing can equal it",
                        flow_loc_name(p->c->arena, p->f, loc));
        }
        flow_note_context(diag, p->f, d->context, d->at);
    }
}

/* ---- all of it ---------------------------------------------------------------------------- */

static bool prove(struct prover *p) {
    struct compilation *c = p->c;
    if (p->f->collective != COLL_NONE && !flow_shape(p->f, c->diag, &p->shape))
        return false;
    unsigned errors = diag_errors(c->diag);
    ensure_demands(p, check_terms);
    if (diag_errors(c->diag) != errors)
        return false;
    all_demands(p, prove_demand);
    if (p->f->setup.redop == REDOP_AVG && !p->findings->n && !p->findings->more) {
        (void)VEC_ADD_N(&p->below, values_count(c->values));
        all_demands(p, mark_divided);
        all_demands(p, check_undivided);
    }
    bool good = !p->findings->n && !p->findings->more;
    findings_report(p->findings, c);
    return good;
}

bool finals_prove(struct compilation *c, const uint32_t *final, struct proof *proof) {
    struct prover *p = prover_new(c, final);
    bool good = prove(p);
    *proof = p->proof;
    prover_free(c);
    return good;
}

bool verify_finals(struct compilation *c, const uint32_t *final, const char *what_is_proved) {
    struct proof proof;
    if (!finals_prove(c, final, &proof))
        return false;
    char chunks[NUMBER_TEXT_BYTES], places[NUMBER_TEXT_BYTES], inputs[NUMBER_TEXT_BYTES];
    struct property property = {what_is_proved,
                                arena_printf(c->arena, "%s in %s, %s",
                                             format_count(chunks, proof.demands, "chunk"),
                                             format_count(places, proof.holders, "place"),
                                             format_count(inputs, proof.inputs, "contribution"))};
    VEC_PUSH(&c->proved, property);
    return true;
}
