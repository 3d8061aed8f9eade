/* Names in view while a schedule is resolved. A name means one thing: whatever is declared while
 * another of the same name is in view, built-ins and codecs included, is a clash. So one hash table
 * does, and closing a block hides its newest symbols.
 */
#include "compiler/eval.h"

struct scope {
    struct arena *arena;
    struct diag *diag;
    struct symbol *newest;
    struct symbol **table; /* the latest symbol of each name, visible or not; open addressing */
    uint32_t capacity, count;
};

struct scope *scope_new(struct arena *a, struct diag *d) {
    struct scope *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    s->diag = d;
    s->capacity = 256;
    s->table = arena_array(a, s->capacity, sizeof(struct symbol *));
    return s;
}

static uint32_t hash_name(const char *name) {
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

static struct symbol **find_place(struct symbol **table, uint32_t capacity, const char *name,
                                  uint32_t hash) {
    uint32_t at = hash & (capacity - 1);
    while (table[at] && (table[at]->hash != hash || strcmp(table[at]->name, name)))
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

static void grow_table(struct scope *s) {
    uint32_t capacity = s->capacity * 2;
    struct symbol **table = arena_array(s->arena, capacity, sizeof(struct symbol *));
    for (uint32_t i = 0; i < s->capacity; i++)
        if (s->table[i])
            *find_place(table, capacity, s->table[i]->name, s->table[i]->hash) = s->table[i];
    s->table = table;
    s->capacity = capacity;
}

struct symbol *scope_mark(const struct scope *s) {
    return s->newest;
}

void scope_close(struct scope *s, struct symbol *mark) {
    for (; s->newest != mark; s->newest = s->newest->older)
        s->newest->visible = false;
}

struct symbol *scope_find(const struct scope *s, const char *name) {
    struct symbol *found = *find_place(s->table, s->capacity, name, hash_name(name));
    return found && found->visible ? found : NULL;
}

static const char *const builtin_names[] = {"N", "nodes",
#define BUILTIN(OP, name, ...) name,
#include "compiler/builtins.def"
                                            NULL};

static const char *const dtype_names[] = {
#define TYPE(ID, name, ...) name,
#include "kernels/types.def"
    NULL};

static const char *const wire_type_names[] = {
#define WIRE_TYPE(ID, name, ...) name,
#include "kernels/types.def"
    NULL};

static bool is_listed(const char *const *names, const char *name) {
    for (; *names; names++)
        if (!strcmp(*names, name))
            return true;
    return false;
}

/* What the language itself calls so, or NULL. */
static const char *reserved_as(const char *name) {
    if (is_listed(builtin_names, name))
        return "is built in";
    if (is_listed(dtype_names, name))
        return "is an element type";
    if (is_listed(wire_type_names, name))
        return "is a type of values on the wire";
    for (int k = 0; k < CODEC_KIND_COUNT; k++)
        if (!strcmp(codec_info((enum codec_kind)k)->name, name))
            return "is a codec";
    return NULL;
}

struct symbol *scope_declare(struct scope *s, enum symbol_kind kind, const char *name,
                             struct span at) {
    const char *reserved = reserved_as(name);
    if (reserved) {
        diag_report(s->diag, SEV_ERROR, at, "'%s' %s; choose another name", name, reserved);
        return NULL;
    }
    uint32_t hash = hash_name(name);
    struct symbol **place = find_place(s->table, s->capacity, name, hash);
    if (*place && (*place)->visible) {
        diag_report(s->diag, SEV_ERROR, at, "'%s' is already declared; names do not shadow", name);
        diag_report(s->diag, SEV_NOTE, (*place)->at, "declared here");
        return NULL;
    }
    struct symbol *symbol = arena_alloc(s->arena, sizeof *symbol);
    *symbol = (struct symbol){
        .kind = kind, .name = name, .at = at, .hash = hash, .older = s->newest, .visible = true};
    if (!*place)
        s->count++;
    *place = s->newest = symbol;
    if (s->count * 2 > s->capacity)
        grow_table(s);
    return symbol;
}

static bool is_wanted(const struct symbol *symbol, enum wanted_name wanted) {
    switch (wanted) {
    case WANTED_VALUE:
        return symbol->kind == SYMBOL_VARIABLE && symbol->type != TYPE_BUFFER;
    case WANTED_CODEC:
        return symbol->kind == SYMBOL_VARIABLE && symbol->type == TYPE_CODEC;
    case WANTED_FUNCTION:
        return symbol->kind == SYMBOL_FUNCTION;
    case WANTED_DEF:
        return symbol->kind == SYMBOL_DEF;
    case WANTED_BUFFER:
        return symbol->kind == SYMBOL_VARIABLE && symbol->type == TYPE_BUFFER;
    }
    return false;
}

const char *scope_suggest(const struct scope *s, const char *name, enum wanted_name wanted) {
    size_t room = sizeof builtin_names / sizeof *builtin_names + CODEC_KIND_COUNT + 1;
    for (const struct symbol *y = s->newest; y; y = y->older)
        room++;
    const char **candidates = arena_array(s->arena, room, sizeof *candidates);
    size_t n = 0;
    for (const struct symbol *y = s->newest; y; y = y->older)
        if (is_wanted(y, wanted))
            candidates[n++] = y->name;
    for (size_t i = 0; builtin_names[i]; i++)
        if (wanted == (i < 2 ? WANTED_VALUE : WANTED_FUNCTION))
            candidates[n++] = builtin_names[i];
    for (int k = 0; k < CODEC_KIND_COUNT; k++)
        if (wanted == WANTED_CODEC || wanted == WANTED_FUNCTION)
            candidates[n++] = codec_info((enum codec_kind)k)->name;
    const char *nearest = nearest_name(name, candidates);
    return nearest ? arena_printf(s->arena, "; did you mean '%s'?", nearest) : "";
}
