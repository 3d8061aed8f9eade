/* From the command line to what the compiler wants to know, and back to an exit code. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_COUNT = 1 << 20, MAX_RANKS = 65536 };

/* dtype or operator by name; the message lists what there is. */
static bool parse_types(const struct options *o, struct setup *s) {
    s->dtype = DTYPE_F32;
    s->redop = REDOP_SUM;
    if (o->dtype && !dtype_parse(o->dtype, &s->dtype)) {
        char known[128] = "";
        for (int t = 0; t < DTYPE_COUNT; t++) {
            strcat(strcat(known, " "), dtype_name((enum dtype)t));
        }
        usage_error(o, "unknown element type '%s'; there are%s", o->dtype, known);
        return false;
    }
    if (o->op && !redop_parse(o->op, &s->redop)) {
        char known[128] = "";
        for (int op = 0; op < REDOP_COUNT; op++) {
            strcat(strcat(known, " "), redop_name((enum redop)op));
        }
        usage_error(o, "unknown reduction '%s'; there are%s", o->op, known);
        return false;
    }
    return true;
}

static bool parse_count(const struct options *o, struct setup *s) {
    uint32_t elem_bytes = dtype_bytes(s->dtype);
    s->count = DEFAULT_COUNT;
    if (o->count >= 0 && o->bytes >= 0) {
        usage_error(o, "--count and --bytes say the same; give one");
        return false;
    }
    if (o->count >= 0) {
        s->count = (uint64_t)o->count;
    } else if (o->bytes >= 0) {
        if (o->bytes % elem_bytes != 0) {
            usage_error(o, "--bytes %lld is not a multiple of the %u bytes of %s",
                        (long long)o->bytes, elem_bytes, dtype_name(s->dtype));
            return false;
        }
        s->count = (uint64_t)o->bytes / elem_bytes;
    }
    return true;
}

bool job_start(struct job *j, const struct options *o) {
    *j = (struct job){.o = o};
    struct compile_options *c = &j->compile;
    c->schedule = o->schedule;
    c->defines = o->defines.count ? o->defines.items : NULL;
    c->dump_after = o->dump_after;
    c->dump_to = stdout;
    c->emit_rank = (int32_t)o->rank;
    c->setup.slices = o->slices > 0 ? (uint32_t)o->slices : 0;
    if (o->nodes > 0 && o->ranks_per_node > 0) {
        usage_error(o, "--nodes and --ranks-per-node say the same; give one");
        return false;
    }
    return parse_types(o, &c->setup) && parse_count(o, &c->setup);
}

/* Ranks in order, node after node. */
static bool place_on_nodes(struct job *j, int32_t ranks, int32_t per_node) {
    j->node_of = realloc(j->node_of, (size_t)ranks * sizeof *j->node_of);
    j->local_of = realloc(j->local_of, (size_t)ranks * sizeof *j->local_of);
    if (!j->node_of || !j->local_of) {
        complain(j->o, "no memory");
        return false;
    }
    for (int32_t r = 0; r < ranks; r++) {
        j->node_of[r] = r / per_node;
        j->local_of[r] = r % per_node;
    }
    j->compile.setup.node_of = j->node_of;
    j->compile.setup.local_of = j->local_of;
    j->compile.setup.nodes = (ranks + per_node - 1) / per_node;
    return true;
}

bool job_set_ranks(struct job *j, int32_t ranks) {
    const struct options *o = j->o;
    j->compile.setup.ranks = ranks;
    j->compile.setup.nodes = 1;
    if (o->rank >= ranks) {
        usage_error(o, "--rank %lld, but there are %d ranks", (long long)o->rank, ranks);
        return false;
    }
    if (o->nodes > 0) {
        if (ranks % o->nodes != 0) {
            usage_error(o, "%d rank%s cannot be spread evenly over %lld nodes", ranks,
                        ranks == 1 ? "" : "s", (long long)o->nodes);
            return false;
        }
        return place_on_nodes(j, ranks, ranks / (int32_t)o->nodes);
    }
    if (o->ranks_per_node > 0) {
        return place_on_nodes(j, ranks, (int32_t)o->ranks_per_node);
    }
    return true;
}

void job_free(struct job *j) {
    free(j->node_of);
    free(j->local_of);
}

/* One item of the list: "8" or "1..16". Moves *text behind it; false when it is neither. */
static bool parse_range(const char **text, long *first, long *last) {
    char *end;
    *first = strtol(*text, &end, 10);
    if (end == *text) {
        return false;
    }
    *last = *first;
    if (strncmp(end, "..", 2) == 0) {
        const char *from = end + 2;
        *last = strtol(from, &end, 10);
        if (end == from) {
            return false;
        }
    }
    *text = end;
    return *first >= 1 && *last >= *first && *last <= MAX_RANKS;
}

int32_t *ranks_parse(const struct options *o, const char *fallback, size_t *count) {
    const char *text = o->ranks ? o->ranks : fallback, *at = text;
    int32_t *list = NULL;
    *count = 0;
    for (;;) {
        long first, last;
        if (!parse_range(&at, &first, &last)) {
            break;
        }
        int32_t *more = realloc(list, (*count + (size_t)(last - first) + 1) * sizeof *list);
        if (!more) {
            break;
        }
        list = more;
        for (long n = first; n <= last; n++) {
            list[(*count)++] = (int32_t)n;
        }
        if (!*at) {
            return list;
        }
        if (*at++ != ',') {
            break;
        }
    }
    free(list);
    usage_error(o, "--ranks '%s' is no number from 1 to %d, and no list like 2,4,8 or 1..16", text,
                MAX_RANKS);
    return NULL;
}

bool passes_known(const struct options *o, const char *list) {
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        char name[64];
        snprintf(name, sizeof name, "%.*s", length < 63 ? (int)length : 63, at);
        const char *const *p = pass_names;
        while (*p && strcmp(*p, name) != 0) {
            p++;
        }
        if (!*p) {
            const char *near = nearest_name(name, pass_names);
            usage_error(o, "unknown pass '%s'%s%s%s", name, near ? "; did you mean '" : "",
                        near ? near : "", near ? "'?" : "");
            return false;
        }
        at += length + (at[length] == ',');
    }
    return true;
}

bool generator_parse(const struct options *o, enum input_kind *kind, uint64_t *seed) {
    const char *names[INPUT_KIND_COUNT + 1];
    *kind = INPUT_NORMAL;
    *seed = o->seed >= 0 ? (uint64_t)o->seed : 1;
    if (!o->generate || input_kind_parse(o->generate, kind)) {
        return true;
    }
    for (size_t k = 0; k < INPUT_KIND_COUNT; k++) {
        names[k] = input_kind_name((enum input_kind)k);
    }
    names[INPUT_KIND_COUNT] = NULL;
    const char *near = nearest_name(o->generate, names);
    usage_error(o, "unknown kind of values '%s'%s%s%s", o->generate, near ? "; did you mean '" : "",
                near ? near : "", near ? "'?" : "");
    return false;
}

char *file_read(const struct options *o, const char *path, size_t limit, size_t *bytes) {
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    size_t capacity = 1 << 16, n = 0;
    char *text = file ? malloc(capacity) : NULL;
    while (text) {
        n += fread(text + n, 1, capacity - n, file);
        if (n < capacity) {
            break;
        }
        char *more = n < limit ? realloc(text, capacity *= 2) : NULL;
        if (!more) {
            free(text);
            text = NULL;
            errno = n < limit ? ENOMEM : EFBIG;
            break;
        }
        text = more;
    }
    if (!text || ferror(file)) {
        complain(o, "cannot read %s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (file && !standard) {
        fclose(file);
    }
    *bytes = n;
    return text;
}

/* Opens nothing: what is read from a pipe is gone. */
static const char *why_not_readable(const char *path, bool regular) {
    struct stat st;
    if (stat(path, &st) != 0 || access(path, R_OK) != 0) {
        return strerror(errno);
    }
    if (S_ISDIR(st.st_mode)) {
        return strerror(EISDIR);
    }
    return regular && !S_ISREG(st.st_mode) ? "not a regular file" : NULL;
}

static bool is_readable(const struct options *o, const char *path, bool regular) {
    const char *why_not = why_not_readable(path, regular);
    if (why_not) {
        complain(o, "cannot read %s: %s", path, why_not);
    }
    return !why_not;
}

bool file_readable(const struct options *o, const char *path) {
    return is_readable(o, path, false);
}

bool schedule_readable(const struct options *o, const char *path) {
    return is_readable(o, path, true);
}

enum exit_code report(const struct options *o, const struct compilation *c) {
    if (!c) {
        complain(o, "no memory");
        return EXIT_INTERNAL;
    }
    if (!o->json) {
        fflush(stdout);
        diag_print(c->diag, stderr, colour_on(o, stderr));
    }
    return compilation_ok(c) ? EXIT_OK : EXIT_INPUT;
}
