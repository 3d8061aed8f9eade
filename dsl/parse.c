/* The driver: one text through scanner and grammar, then its imports, into one program. */
#include "dsl/parser.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "grammar.h"

enum { MAX_TEXT_BYTES = 64 << 20 };

/* ---- one text ----------------------------------------------------------------------------- */

/* A file that is not text gets one message, not one for each of its bytes. */
static bool check_text(struct diag *d, const char *text, size_t bytes, src_pos base) {
    for (size_t i = 0; i < bytes;) {
        uint32_t code = 0;
        size_t length = (unsigned char)text[i] < 0x80 ? 1 : utf8_decode(text + i, bytes - i, &code);
        if (length == 0 || text[i] == '\0') {
            src_pos at = base + (src_pos)i;
            diag_report(d, SEV_ERROR, (struct span){at, at + 1}, "not a text file: %s",
                        length ? "NUL byte" : "invalid UTF-8");
            return false;
        }
        i += length;
    }
    return true;
}

static bool parse_one(struct parser *p, int start, const char *name, const char *text,
                      size_t bytes) {
    if (bytes > MAX_TEXT_BYTES) {
        diag_report(p->diag, SEV_ERROR, (struct span){0}, "%s: larger than 64 MiB", name);
        return false;
    }
    p->base = p->next = sources_add(p->sources, name, text, bytes);
    if (!p->base) {
        diag_report(p->diag, SEV_ERROR, (struct span){0},
                    "%s: more than 1 GiB of source text in all", name);
        return false;
    }
    p->text = sources_text(p->sources, p->base, &p->bytes);
    p->boundary = p->base;
    if (!check_text(p->diag, p->text, bytes, p->base))
        return false;
    p->start = start;
    p->one_expression = start == T_START_EXPR;
    p->at_statement = true;
    if (!scanner_open(p))
        return false;
    grammar_parse(p);
    scanner_close(p);
    return true;
}

static struct parser *parser_new(struct arena *a, struct sources *s, struct diag *d) {
    struct parser *p = arena_alloc(a, sizeof *p);
    p->arena = a;
    p->sources = s;
    p->diag = d;
    return p;
}

struct expr *parse_expr_text(struct arena *a, struct sources *s, struct diag *d, const char *name,
                             const char *text, size_t bytes) {
    unsigned before = diag_errors(d);
    struct parser *p = parser_new(a, s, d);
    parse_one(p, T_START_EXPR, name, text, bytes);
    return diag_errors(d) == before ? p->expr : NULL;
}

/* ---- a file and its imports --------------------------------------------------------------- */

/* A file on the way from the main file to the one being read. */
struct chain {
    const char *path;
    struct file_id id;
    struct span at; /* of its import; none for the main file */
    const struct chain *up;
    unsigned depth;
};

struct seen {
    const char *path;
    struct file_id id;
    struct seen *next;
};

struct loader {
    struct arena *arena;
    struct sources *sources;
    struct diag *diag;
    import_reader read;
    void *read_ctx;
    struct seen *seen;
    struct program *program;
    struct stmt **lets_end;
    struct def **defs_end;
    struct schedule **schedules_end;
};

/* The path of an import, from the folder of the file that has it: `.`, `..` and doubled slashes
 * folded, so that a file has one name. */
static char *import_path(struct arena *a, const char *from, const char *path) {
    const char *slash = strrchr(from, '/');
    size_t folder = path[0] == '/' || !slash ? 0 : (size_t)(slash - from) + 1;
    char *joined = arena_printf(a, "%.*s%s", (int)folder, from, path);
    size_t bytes = strlen(joined);
    char *folded = arena_alloc(a, bytes + 1);
    bool absolute = joined[0] == '/';
    size_t n = 0, floor = absolute; /* nothing before floor can be taken back by `..` */
    if (absolute)
        folded[n++] = '/';
    for (const char *part = joined; *part;) {
        size_t length = strcspn(part, "/");
        bool up = length == 2 && part[0] == '.' && part[1] == '.';
        if (up && n > floor) {
            for (n--; n > floor && folded[n - 1] != '/';)
                n--;
        } else if (up && absolute) {
            ; /* above the root is the root */
        } else if (length && !(length == 1 && part[0] == '.')) {
            memcpy(folded + n, part, length);
            n += length;
            folded[n++] = '/';
            if (up)
                floor = n;
        }
        part += length + (part[length] == '/');
    }
    if (n > (size_t)absolute)
        n--; /* the last slash */
    folded[n] = '\0';
    return folded;
}

static bool same_file(struct file_id x, struct file_id y) {
    return (x.device || x.inode) && x.device == y.device && x.inode == y.inode;
}

/* `first` is the file that path leads to once more. */
static void report_cycle(struct loader *l, struct span at, const struct chain *in,
                         const struct chain *first, const char *path) {
    diag_report(l->diag, SEV_ERROR, at, "import cycle: '%s' imports itself", first->path);
    if (strcmp(first->path, path) != 0)
        diag_report(l->diag, SEV_NOTE, at, "'%s' is a link to it", path);
    for (const struct chain *c = in; c != first; c = c->up)
        diag_report(l->diag, SEV_NOTE, c->at, "through '%s', imported here", c->path);
}

static void adopt(struct loader *l, const struct program *p, bool is_main) {
    *l->lets_end = p->lets;
    while (*l->lets_end)
        l->lets_end = &(*l->lets_end)->next;
    *l->defs_end = p->defs;
    while (*l->defs_end)
        l->defs_end = &(*l->defs_end)->next;
    if (is_main) {
        *l->schedules_end = p->schedules;
        return;
    }
    for (const struct schedule *s = p->schedules; s; s = s->next)
        diag_report(l->diag, SEV_ERROR, s->name_span,
                    "an imported file holds defs and lets only, and '%s' is a schedule", s->name);
}

static void load(struct loader *l, const struct chain *in, const char *name, const char *text,
                 size_t bytes);

/* Whether a file was read before, by its path or, after links, by what it is; one that is on the
 * way here imports itself. */
static bool was_read(struct loader *l, const struct chain *in, const struct import *i,
                     const char *path, struct file_id id) {
    for (const struct chain *c = in; c; c = c->up)
        if (strcmp(c->path, path) == 0 || same_file(c->id, id)) {
            report_cycle(l, i->at, in, c, path);
            return true;
        }
    for (const struct seen *s = l->seen; s; s = s->next)
        if (strcmp(s->path, path) == 0 || same_file(s->id, id))
            return true;
    return false;
}

static void load_import(struct loader *l, const struct chain *in, const struct import *i) {
    if (diag_full(l->diag))
        return;
    if (!i->path[0]) {
        diag_report(l->diag, SEV_ERROR, i->at, "import of an empty path");
        return;
    }
    const char *path = import_path(l->arena, in->path, i->path);
    if (was_read(l, in, i, path, (struct file_id){0}))
        return;
    if (in->depth == MAX_DEPTH) {
        diag_report(l->diag, SEV_ERROR, i->at, "imports nest deeper than %d files", MAX_DEPTH);
        return;
    }
    char *text = NULL;
    size_t bytes = 0;
    struct file_id id = {0};
    const char *problem = l->read(l->read_ctx, l->arena, path, &text, &bytes, &id);
    bool again = !problem && was_read(l, in, i, path, id);
    struct seen *s = arena_alloc(l->arena, sizeof *s);
    *s = (struct seen){.path = path, .id = id, .next = l->seen};
    l->seen = s;
    if (problem)
        diag_report(l->diag, SEV_ERROR, i->at, "cannot import '%s': %s", path, problem);
    if (problem || again)
        return;
    struct chain inner = {.path = path, .id = id, .at = i->at, .up = in, .depth = in->depth + 1};
    load(l, &inner, path, text, bytes);
}

static void load(struct loader *l, const struct chain *in, const char *name, const char *text,
                 size_t bytes) {
    struct parser *p = parser_new(l->arena, l->sources, l->diag);
    parse_one(p, T_START_FILE, name, text, bytes);
    for (const struct import *i = p->imports; i; i = i->next)
        load_import(l, in, i);
    adopt(l, &p->program, in->up == NULL);
}

/* ---- names of the whole program ----------------------------------------------------------- */

struct defined {
    const char *name;
    struct span at;
};

/* Open addressing, twice as many places as names. */
static void define(struct diag *d, struct defined *table, size_t places, const char *name,
                   struct span at) {
    size_t hash = 1469598103934665603u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    for (size_t i = hash % places;; i = (i + 1) % places) {
        if (!table[i].name) {
            table[i] = (struct defined){.name = name, .at = at};
            return;
        }
        if (strcmp(table[i].name, name) == 0) {
            diag_report(d, SEV_ERROR, at, "'%s' is defined twice", name);
            diag_report(d, SEV_NOTE, table[i].at, "first defined here");
            return;
        }
    }
}

static struct span let_name(const struct stmt *s, const char **name) {
    bool function = s->kind == STMT_LET_FUNCTION;
    *name = function ? s->let_function.name : s->let.name;
    return function ? s->let_function.name_span : s->let.name_span;
}

/* Lets and defs are one name space over all files; schedules have their own. */
static void check_unique(struct arena *a, struct diag *d, const struct program *p) {
    size_t places = 1, schedule_places = 1;
    for (const struct stmt *s = p->lets; s; s = s->next)
        places += 2;
    for (const struct def *def = p->defs; def; def = def->next)
        places += 2;
    for (const struct schedule *s = p->schedules; s; s = s->next)
        schedule_places += 2;
    struct defined *table = arena_array(a, places, sizeof *table);
    for (const struct stmt *s = p->lets; s; s = s->next) {
        const char *name;
        struct span at = let_name(s, &name);
        define(d, table, places, name, at);
    }
    for (const struct def *def = p->defs; def; def = def->next)
        define(d, table, places, def->name, def->name_span);
    struct defined *schedules = arena_array(a, schedule_places, sizeof *schedules);
    for (const struct schedule *s = p->schedules; s; s = s->next)
        define(d, schedules, schedule_places, s->name, s->name_span);
}

/* ---- entry points ------------------------------------------------------------------------- */

static struct program *parse_program(struct arena *a, struct sources *s, struct diag *d,
                                     const char *name, struct file_id id, const char *text,
                                     size_t bytes, import_reader read, void *read_ctx) {
    struct program *program = arena_alloc(a, sizeof *program);
    struct loader l = {
        .arena = a,
        .sources = s,
        .diag = d,
        .read = read ? read : read_source_file,
        .read_ctx = read_ctx,
        .program = program,
        .lets_end = &program->lets,
        .defs_end = &program->defs,
        .schedules_end = &program->schedules,
    };
    struct chain main_file = {.path = import_path(a, "", name), .id = id, .depth = 1};
    load(&l, &main_file, name, text, bytes);
    check_unique(a, d, program);
    return program;
}

struct program *parse_text(struct arena *a, struct sources *s, struct diag *d, const char *name,
                           const char *text, size_t bytes, import_reader read, void *read_ctx) {
    return parse_program(a, s, d, name, (struct file_id){0}, text, bytes, read, read_ctx);
}

struct program *parse_file(struct arena *a, struct sources *s, struct diag *d, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    struct file_id id = {0};
    const char *problem = read_source_file(NULL, a, path, &text, &bytes, &id);
    if (problem) {
        diag_report(d, SEV_ERROR, (struct span){0}, "cannot read '%s': %s", path, problem);
        return arena_alloc(a, sizeof(struct program));
    }
    return parse_program(a, s, d, path, id, text, bytes, read_source_file, NULL);
}

/* Opens a regular file; a FIFO without a writer does not block it. NULL and why not. */
static FILE *open_regular(const char *path, struct file_id *id, const char **problem) {
    struct stat st;
    FILE *in = NULL;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        *problem = strerror(errno);
    else if (S_ISDIR(st.st_mode))
        *problem = strerror(EISDIR);
    else if (!S_ISREG(st.st_mode))
        *problem = "not a regular file";
    else if (!(in = fdopen(fd, "rb")))
        *problem = strerror(errno);
    else
        *id = (struct file_id){.device = (uint64_t)st.st_dev, .inode = (uint64_t)st.st_ino};
    if (!in && fd >= 0)
        close(fd);
    return in;
}

const char *read_source_file(void *ctx, struct arena *a, const char *path, char **text,
                             size_t *bytes, struct file_id *id) {
    (void)ctx;
    const char *problem = NULL;
    FILE *in = open_regular(path, id, &problem);
    if (!in)
        return problem;
    /* Read in pieces: it may grow meanwhile. One byte over the limit is enough to know. */
    size_t held = 0, room = 64 << 10;
    char *data = malloc(room);
    while (data) {
        held += fread(data + held, 1, room - held, in);
        if (held < room || held > MAX_TEXT_BYTES)
            break;
        char *grown = realloc(data, room * 2);
        if (!grown)
            free(data);
        data = grown;
        room *= 2;
    }
    if (!data)
        problem = "out of memory";
    else if (ferror(in))
        problem = strerror(errno);
    else if (held > MAX_TEXT_BYTES)
        problem = "larger than 64 MiB";
    fclose(in);
    if (!problem) {
        *text = arena_strndup(a, data, held);
        *bytes = held;
    }
    free(data);
    return problem;
}
