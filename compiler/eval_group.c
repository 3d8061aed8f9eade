/* Evaluates expressions whose value is a group or a codec. Each operation remembers its last
 * result: in a loop the operands are mostly those of the iteration before.
 */
#include "compiler/eval.h"

struct eval *eval_new(struct arena *a, struct diag *d, struct flow *f) {
    struct eval *e = arena_alloc(a, sizeof *e);
    e->arena = a;
    e->diag = d;
    e->flow = f;
    e->setup = &f->setup;
    e->groups = groups_new(a, &f->setup);
    e->notes = arena_array(a, ELABORATE_MAX_DEPTH, sizeof *e->notes);
    e->functions = arena_array(a, EXPR_MAX_HEIGHT, sizeof *e->functions);
    e->call_via = e->stage_via = NONE;
    struct codec none = codec_none();
    eval_intern_codec(e, &none);
    return e;
}

/* ---- codecs ------------------------------------------------------------------------------- */

/* A schedule has few: a search is enough. */
uint32_t eval_intern_codec(struct eval *e, const struct codec *c) {
    for (uint32_t i = e->codec_count; i-- > 0;)
        if (codec_equal(&e->codecs[i].codec, c))
            return i;
    if (e->codec_count == e->codec_room) {
        struct eval_codec *old = e->codecs;
        e->codec_room = 2 * e->codec_room + 8;
        e->codecs = arena_array(e->arena, e->codec_room, sizeof *e->codecs);
        if (old)
            memcpy(e->codecs, old, e->codec_count * sizeof *old);
    }
    e->codecs[e->codec_count] = (struct eval_codec){*c, NONE};
    return e->codec_count++;
}

static uint32_t make_codec(struct eval *e, struct code *c) {
    struct codec_call *call = c->codec;
    bool same = call->made != NONE;
    for (uint32_t i = 0; i < call->count; i++) {
        if (!call->number[i])
            continue;
        double number = (double)eval_int(e, call->number[i]);
        same &= call->args[i].number == number;
        call->args[i].number = number;
    }
    if (same || e->failed)
        return same ? call->made : 0;
    struct codec codec;
    char error[256];
    call->made = NONE;
    if (!codec_make(call->name, call->args, call->count, &codec, error, sizeof error)) {
        eval_fail(e, c->span, "%s", error);
        return 0;
    }
    return call->made = eval_intern_codec(e, &codec);
}

static uint32_t compose_codecs(struct eval *e, struct code *c) {
    uint32_t left = eval_codec(e, c->a), right = eval_codec(e, c->b);
    if (e->failed)
        return 0;
    struct codec both;
    char error[256];
    if (!codec_compose(&e->codecs[left].codec, &e->codecs[right].codec, &both, error,
                       sizeof error)) {
        eval_fail(e, c->span, "%s", error);
        return 0;
    }
    return eval_intern_codec(e, &both);
}

uint32_t eval_codec(struct eval *e, struct code *c) {
    switch ((int)c->op) {
    case CODE_CONST:
        return c->value.codec;
    case CODE_LOCAL:
        return e->frame[c->slot].codec;
    case CODE_GLOBAL:
        return e->global[c->slot].codec;
    case CODE_COND:
        return eval_int(e, c->a) ? eval_codec(e, c->b) : eval_codec(e, c->c);
    case CODE_CODEC:
        return make_codec(e, c);
    case CODE_COMPOSE:
        return compose_codecs(e, c);
    }
    return 0;
}

/* ---- groups ------------------------------------------------------------------------------- */

static const struct group *too_many(struct eval *e, struct code *c) {
    eval_fail(e, c->span, "the groups of this schedule have more than %llu members in all",
              (unsigned long long)ELABORATE_MAX_MEMBERS);
    return NULL;
}

static const struct group *finish_group(struct eval *e, struct code *c, int32_t size) {
    const struct group *g = groups_find(e->groups, size);
    if (!g)
        return too_many(e, c);
    return unroll_charge(e, c->span, (uint64_t)size / 8) ? g : NULL;
}

static const struct group *make_ranks(struct eval *e, struct code *c, const union datum *key) {
    struct range r = {key[0].integer, key[1].integer, key[2].integer, c->a->step_kind};
    int32_t *building = groups_start(e->groups);
    int32_t size = 0;
    if (range_empty(&r))
        return finish_group(e, c, 0);
    do {
        if (!eval_check_rank(e, c->a->span, r.at))
            return NULL;
        building[size++] = (int32_t)r.at;
    } while (range_next(&r));
    return finish_group(e, c, size);
}

static const struct group *make_rotated(struct eval *e, struct code *c, const union datum *key) {
    const struct group *g = key[0].group;
    int32_t *building = groups_start(e->groups);
    int64_t shift = g->size ? key[1].integer % g->size : 0;
    if (shift < 0)
        shift += g->size;
    for (int32_t i = 0; i < g->size; i++) {
        building[i] = g->member[shift];
        shift = shift + 1 < g->size ? shift + 1 : 0;
    }
    return finish_group(e, c, g->size);
}

static const struct group *make_reversed(struct eval *e, struct code *c, const union datum *key) {
    const struct group *g = key[0].group;
    int32_t *building = groups_start(e->groups);
    for (int32_t i = 0; i < g->size; i++)
        building[i] = g->member[g->size - 1 - i];
    return finish_group(e, c, g->size);
}

static const struct group *make_children(struct eval *e, struct code *c, const union datum *key) {
    const struct group *g = key[0].group;
    int32_t pos = group_pos(g, key[1].integer);
    if (pos < 0) {
        eval_fail(e, c->b->span, "rank %lld is not in the group", (long long)key[1].integer);
        return NULL;
    }
    int32_t *building = groups_start(e->groups);
    int32_t size = 0;
    for (int64_t child = 2 * (int64_t)pos + 1; child <= 2 * (int64_t)pos + 2; child++)
        if (child < g->size)
            building[size++] = g->member[child];
    return finish_group(e, c, size);
}

static const struct group *make_sum(struct eval *e, struct code *c, const union datum *key) {
    int32_t common;
    uint64_t read = (uint64_t)key[0].group->size + (uint64_t)key[1].group->size;
    if (!unroll_charge(e, c->span, read / 8))
        return NULL;
    if (c->op == CODE_MINUS)
        return groups_minus(e->groups, key[0].group, key[1].group);
    const struct group *g = groups_plus(e->groups, key[0].group, key[1].group, &common);
    if (!g && common >= 0) {
        eval_fail(e, c->span, "rank %d is in both groups: a group has each rank once", common);
        return NULL;
    }
    return g ? g : too_many(e, c);
}

static const struct group *make_placed(struct eval *e, struct code *c, const union datum *key) {
    bool node = c->op == CODE_ON_NODE;
    const struct group *g =
        node ? groups_on_node(e->groups, key[0].integer) : groups_rail(e->groups, key[0].integer);
    if (!g && node)
        eval_fail(e, c->a->span, "there is no node %lld: the number of nodes is %d",
                  (long long)key[0].integer, groups_node_count(e->groups));
    else if (!g)
        eval_fail(e, c->a->span, "no node has a rank at place %lld", (long long)key[0].integer);
    return g;
}

static const struct group *make_group(struct eval *e, struct code *c, const union datum *key) {
    switch ((int)c->op) {
    case CODE_RANKS:
        return make_ranks(e, c, key);
    case CODE_ROTATE:
        return make_rotated(e, c, key);
    case CODE_REVERSE:
        return make_reversed(e, c, key);
    case CODE_CHILDREN:
        return make_children(e, c, key);
    case CODE_PLUS:
    case CODE_MINUS:
        return make_sum(e, c, key);
    case CODE_ON_NODE:
    case CODE_RAIL:
        return make_placed(e, c, key);
    }
    return NULL;
}

/* The operands, as one key: integers and (distinct) groups. */
static bool eval_operands(struct eval *e, struct code *c, union datum *key) {
    memset(key, 0, 3 * sizeof *key);
    if (c->op == CODE_RANKS) {
        struct range r;
        if (!eval_range(e, c->a, &r))
            return false;
        key[0].integer = r.at;
        key[1].integer = r.to;
        key[2].integer = r.step;
        return true;
    }
    key[0] = eval_any(e, c->a);
    if (c->b)
        key[1] = eval_any(e, c->b);
    return !e->failed;
}

const struct group *eval_group(struct eval *e, struct code *c) {
    switch ((int)c->op) {
    case CODE_LOCAL:
        return e->frame[c->slot].group;
    case CODE_GLOBAL:
        return e->global[c->slot].group;
    case CODE_COND:
        return eval_int(e, c->a) ? eval_group(e, c->b) : eval_group(e, c->c);
    }
    union datum key[3];
    if (!eval_operands(e, c, key))
        return NULL;
    if (c->last->group && !memcmp(c->last->key, key, sizeof key))
        return c->last->group;
    const struct group *g = make_group(e, c, key);
    if (!g) {
        c->last->group = NULL;
        return NULL;
    }
    memcpy(c->last->key, key, sizeof key);
    return c->last->group = g;
}
