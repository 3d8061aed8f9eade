/*
 * learn.c: what each piece of bounded size needed, run after run, and the slots that follow
 * from it.
 *
 * Two numbers a piece: the largest need of the present stretch of LEARN_WINDOW runs, and of the
 * stretch before. Their maximum covers the last LEARN_WINDOW runs at least and twice as many at
 * most, so that one unusual step neither shrinks a slot nor holds it large for ever.
 *
 * A piece whose value fell to an overflow before it, so that its need was not seen, gets the
 * worst case until it is: otherwise data that changed its nature would overflow hop by hop, a
 * repair each.
 */
#include "runtime/engine.h"

#include <stdlib.h>

struct learned_piece {
    uint64_t worst_bytes; /* 0: not of bounded size, nothing to learn */
    uint64_t least_bytes;
    uint64_t now, before; /* needs */
    bool unseen;          /* in the last run */
};

struct learned {
    size_t count;
    uint32_t runs; /* of the present stretch */
    bool any;
    struct learned_piece *pieces; /* [count] */
    uint64_t *slots;              /* [count] */
};

struct learned *learned_new(const struct tasks *t) {
    struct learned *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->count = piece_numbers(t);
    l->pieces = calloc(l->count + 1, sizeof *l->pieces);
    l->slots = calloc(l->count + 1, sizeof *l->slots);
    if (!l->pieces || !l->slots) {
        learned_free(l);
        return NULL;
    }
    enum dtype type = t->flow->setup.dtype;
    for (size_t i = 0; i < t->pieces.count; i++) {
        const struct piece *p = &t->pieces.data[i];
        const struct codec *c = &t->flow->codecs.data[p->codec];
        size_t number = piece_number(t, p);
        if (number == NO_NUMBER || !codec_is_bounded(c) || !codec_has_header(c, type, p->elems))
            continue;
        struct learned_piece *k = &l->pieces[number];
        k->worst_bytes = codec_worst_bytes(c, type, p->elems);
        k->least_bytes = codec_least_bytes(c, type, p->elems);
    }
    return l;
}

void learned_free(struct learned *l) {
    if (!l)
        return;
    free(l->pieces);
    free(l->slots);
    free(l);
}

void learned_observe(struct learned *l, const uint64_t *needs, size_t count) {
    if (l->runs == LEARN_WINDOW) {
        l->runs = 0;
        for (size_t i = 0; i < l->count; i++) {
            l->pieces[i].before = l->pieces[i].now;
            l->pieces[i].now = 0;
        }
    }
    for (size_t i = 0; i < count && i < l->count; i++) {
        struct learned_piece *k = &l->pieces[i];
        k->now = needs[i] > k->now ? needs[i] : k->now;
        k->unseen = needs[i] == 0;
    }
    l->runs++;
    l->any = true;
}

const uint64_t *learned_slots(struct learned *l, size_t *count) {
    *count = l->any ? l->count : 0;
    for (size_t i = 0; i < *count; i++) {
        const struct learned_piece *k = &l->pieces[i];
        uint64_t need = k->now > k->before ? k->now : k->before;
        uint64_t slot = (need + need / 64 + 128 + 63) / 64 * 64;
        slot = slot < k->least_bytes ? k->least_bytes : slot;
        slot = slot > k->worst_bytes ? k->worst_bytes : slot;
        l->slots[i] = need > 0 && !k->unseen ? slot : k->worst_bytes; /* 0: nothing to learn */
    }
    return l->any ? l->slots : NULL;
}
