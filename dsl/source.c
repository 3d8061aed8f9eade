/* The files of a compilation in one position space. A position is a file's base plus a byte
 * offset; files take consecutive ranges, one number apart, so that the end of a file is a
 * position of that file too. */
#include "dsl/dsl.h"

#include <string.h>

enum { MAX_SOURCE_BYTES = 1 << 30 }; /* of all files together */

struct source {
    const char *name;
    const char *text;
    size_t bytes;
    src_pos base;
    uint32_t *line_begin; /* offsets; made when the first message needs it */
    uint32_t lines;
    struct source *before; /* the file opened before this one */
};

struct sources {
    struct arena *arena;
    struct source *last;
    src_pos next;
};

struct sources *sources_new(struct arena *a) {
    struct sources *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    s->next = 1;
    return s;
}

src_pos sources_add(struct sources *s, const char *name, const char *text, size_t bytes) {
    if (bytes > MAX_SOURCE_BYTES - s->next)
        return 0;
    struct source *f = arena_alloc(s->arena, sizeof *f);
    f->name = arena_strndup(s->arena, name, strlen(name));
    f->text = arena_strndup(s->arena, text, bytes);
    f->bytes = bytes;
    f->base = s->next;
    f->before = s->last;
    s->last = f;
    s->next += (src_pos)bytes + 1;
    return f->base;
}

static struct source *source_of(const struct sources *s, src_pos pos) {
    if (pos == 0 || pos >= s->next)
        return NULL;
    struct source *f = s->last;
    while (f->base > pos)
        f = f->before;
    return f;
}

static void index_lines(const struct sources *s, struct source *f) {
    uint32_t lines = 1;
    for (size_t i = 0; i < f->bytes; i++)
        lines += f->text[i] == '\n';
    f->line_begin = arena_array(s->arena, lines, sizeof *f->line_begin);
    f->lines = lines;
    uint32_t line = 1;
    for (size_t i = 0; i < f->bytes; i++)
        if (f->text[i] == '\n')
            f->line_begin[line++] = (uint32_t)i + 1;
}

struct location sources_locate(const struct sources *s, src_pos pos) {
    struct source *f = source_of(s, pos);
    if (!f)
        return (struct location){.file = "", .line = 0, .column = 0};
    if (!f->line_begin)
        index_lines(s, f);
    uint32_t offset = pos - f->base;
    uint32_t low = 0, high = f->lines; /* line_begin[low] <= offset < line_begin[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (f->line_begin[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    uint32_t column = 1;
    for (uint32_t i = f->line_begin[low]; i < offset; i++)
        column += ((unsigned char)f->text[i] & 0xC0) != 0x80; /* not a UTF-8 continuation byte */
    return (struct location){.file = f->name, .line = low + 1, .column = column};
}

const char *sources_text(const struct sources *s, src_pos pos, size_t *bytes) {
    const struct source *f = source_of(s, pos);
    *bytes = f ? f->bytes : 0;
    return f ? f->text : NULL;
}

src_pos sources_base(const struct sources *s, src_pos pos) {
    const struct source *f = source_of(s, pos);
    return f ? f->base : 0;
}
