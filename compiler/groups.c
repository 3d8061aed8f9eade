/* Groups: ordered lists of distinct ranks. Each distinct list is kept once, so that a group built
 * anew in every iteration costs no memory, and a group is equal to another when the pointers are.
 */
#include "compiler/eval.h"

#include <stdlib.h>

/* For sorting: by key, then order. */
struct placed {
    int32_t key, order, what;
};

struct groups {
    struct arena *arena;
    const struct setup *setup;
    int32_t *building;      /* [ranks] the list being built */
    struct placed *sorting; /* [ranks] */
    uint32_t *seen;         /* [ranks] generation of the last list that had it */
    uint32_t generation;
    const struct group **table; /* open addressing, a power of two, at most half full */
    uint32_t capacity, count;
    uint64_t members;
    int32_t nodes, locals;
    const struct group **on_node, **rail; /* made when first asked for */
};

struct groups *groups_new(struct arena *a, const struct setup *s) {
    struct groups *t = arena_alloc(a, sizeof *t);
    size_t ranks = (size_t)s->ranks;
    t->arena = a;
    t->setup = s;
    t->building = arena_array(a, ranks, sizeof *t->building);
    t->sorting = arena_array(a, ranks, sizeof *t->sorting);
    t->seen = arena_array(a, ranks, sizeof *t->seen);
    t->capacity = 64;
    t->table = arena_array(a, t->capacity, sizeof(struct group *));
    t->nodes = s->node_of ? s->nodes : 1;
    t->locals = s->node_of ? 0 : s->ranks;
    for (int32_t r = 0; s->node_of && r < s->ranks; r++)
        if (s->local_of[r] >= t->locals)
            t->locals = s->local_of[r] + 1;
    return t;
}

int32_t groups_node_count(const struct groups *t) {
    return t->nodes;
}

uint64_t groups_members(const struct groups *t) {
    return t->members;
}

int32_t *groups_start(struct groups *t) {
    return t->building;
}

static uint32_t hash_list(const int32_t *member, int32_t size) {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (int32_t i = 0; i < size; i++)
        h = (h ^ (uint32_t)member[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 32);
}

static void grow_table(struct groups *t) {
    const struct group **old = t->table;
    uint32_t old_capacity = t->capacity;
    t->capacity *= 2;
    t->table = arena_array(t->arena, t->capacity, sizeof(struct group *));
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (!old[i])
            continue;
        uint32_t at = old[i]->hash & (t->capacity - 1);
        while (t->table[at])
            at = (at + 1) & (t->capacity - 1);
        t->table[at] = old[i];
    }
}

static int compare_places(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Positions sorted by rank, for lists that no formula describes. */
static const int32_t *index_by_rank(struct groups *t, const int32_t *member, int32_t size) {
    int32_t *positions = arena_array(t->arena, (size_t)size, sizeof *positions);
    for (int32_t i = 0; i < size; i++)
        t->sorting[i] = (struct placed){.key = member[i], .what = i};
    qsort(t->sorting, (size_t)size, sizeof *t->sorting, compare_places);
    for (int32_t i = 0; i < size; i++)
        positions[i] = t->sorting[i].what;
    return positions;
}

static const struct group *make_group(struct groups *t, int32_t size, uint32_t hash) {
    struct group *g = arena_alloc(t->arena, sizeof *g);
    int32_t *member = arena_array(t->arena, (size_t)size, sizeof *member);
    if (size)
        memcpy(member, t->building, (size_t)size * sizeof *member);
    g->size = size;
    g->member = member;
    g->hash = hash;
    g->first = size ? member[0] : 0;
    g->stride = size > 1 ? member[1] - member[0] : 1;
    g->regular = true;
    for (int32_t i = 2; i < size && g->regular; i++)
        g->regular = member[i] - member[i - 1] == g->stride;
    if (!g->regular)
        g->by_rank = index_by_rank(t, member, size);
    t->members += (uint64_t)size * (g->regular ? 1 : 2);
    return g;
}

const struct group *groups_find(struct groups *t, int32_t size) {
    uint32_t hash = hash_list(t->building, size);
    uint32_t at = hash & (t->capacity - 1);
    for (; t->table[at]; at = (at + 1) & (t->capacity - 1)) {
        const struct group *g = t->table[at];
        if (g->hash == hash && g->size == size &&
            !memcmp(g->member, t->building, (size_t)size * sizeof *g->member))
            return g;
    }
    if (t->members + (uint64_t)size > ELABORATE_MAX_MEMBERS)
        return NULL;
    const struct group *g = make_group(t, size, hash);
    t->table[at] = g;
    if (++t->count * 2 > t->capacity)
        grow_table(t);
    return g;
}

static int32_t regular_pos(const struct group *g, int64_t rank) {
    int64_t distance = rank - g->first;
    if (g->stride != 1) {
        if (distance % g->stride)
            return -1;
        distance /= g->stride;
    }
    return distance >= 0 && distance < g->size ? (int32_t)distance : -1;
}

int32_t group_pos(const struct group *g, int64_t rank) {
    if (rank < 0 || rank > INT32_MAX)
        return -1;
    if (g->regular)
        return regular_pos(g, rank);
    int32_t low = 0, high = g->size;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int32_t found = g->member[g->by_rank[middle]];
        if (found == rank)
            return g->by_rank[middle];
        if (found < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static int32_t node_of(const struct setup *s, int32_t rank) {
    return s->node_of ? s->node_of[rank] : 0;
}

static int32_t local_of(const struct setup *s, int32_t rank) {
    return s->node_of ? s->local_of[rank] : rank;
}

/* All groups of one kind in one go: ranks by node then place, or by place then node. */
static const struct group **group_by_place(struct groups *t, bool by_node, int32_t count) {
    const struct group **made = arena_array(t->arena, (size_t)count, sizeof(struct group *));
    struct placed *all = arena_array(t->arena, (size_t)t->setup->ranks, sizeof *all);
    for (int32_t r = 0; r < t->setup->ranks; r++) {
        int32_t node = node_of(t->setup, r), local = local_of(t->setup, r);
        all[r] = (struct placed){by_node ? node : local, by_node ? local : node, r};
    }
    qsort(all, (size_t)t->setup->ranks, sizeof *all, compare_places);
    int32_t i = 0;
    for (int32_t key = 0; key < count; key++) {
        int32_t size = 0;
        for (; i < t->setup->ranks && all[i].key == key; i++)
            t->building[size++] = all[i].what;
        made[key] = groups_find(t, size);
    }
    return made;
}

const struct group *groups_on_node(struct groups *t, int64_t node) {
    if (node < 0 || node >= t->nodes)
        return NULL;
    if (!t->on_node)
        t->on_node = group_by_place(t, true, t->nodes);
    return t->on_node[node];
}

const struct group *groups_rail(struct groups *t, int64_t local) {
    if (local < 0 || local >= t->locals)
        return NULL;
    if (!t->rail)
        t->rail = group_by_place(t, false, t->locals);
    return t->rail[local];
}

static void mark_members(struct groups *t, const struct group *g) {
    t->generation++;
    for (int32_t i = 0; i < g->size; i++)
        t->seen[g->member[i]] = t->generation;
}

const struct group *groups_plus(struct groups *t, const struct group *g, const struct group *h,
                                int32_t *common) {
    int32_t size = 0;
    *common = -1;
    mark_members(t, g);
    for (int32_t i = 0; i < g->size; i++)
        t->building[size++] = g->member[i];
    for (int32_t i = 0; i < h->size; i++) {
        if (t->seen[h->member[i]] == t->generation) {
            *common = h->member[i];
            return NULL;
        }
        t->building[size++] = h->member[i];
    }
    return groups_find(t, size);
}

const struct group *groups_minus(struct groups *t, const struct group *g, const struct group *h) {
    int32_t size = 0;
    mark_members(t, h);
    for (int32_t i = 0; i < g->size; i++)
        if (t->seen[g->member[i]] != t->generation)
            t->building[size++] = g->member[i];
    return groups_find(t, size);
}
