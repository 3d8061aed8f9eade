/* Source text: whatever it is, the parser ends, with a tree or with errors, and a tree that it
 * takes is printed as text that it takes again, to the same print. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl/dsl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Every import is the text itself under another name, up to some depth, then it is missing. */
struct world {
    const char *text;
    size_t bytes;
    unsigned left;
};

static const char *read_world(void *ctx, struct arena *a, const char *path, char **text,
                              size_t *bytes, struct file_id *id) {
    struct world *w = ctx;
    (void)path, (void)id;
    if (w->left == 0)
        return "no such file";
    w->left--;
    *text = arena_strndup(a, w->text, w->bytes / 2);
    *bytes = w->bytes / 2;
    return NULL;
}

/* The printed tree, or NULL after an error. The messages are printed too. */
static char *print_again(const char *text, size_t bytes, unsigned imports, size_t *printed_bytes) {
    char *printed = NULL, *messages = NULL;
    size_t message_bytes;
    struct arena *a = arena_new();
    struct sources *s = sources_new(a);
    struct diag *d = diag_new(a, s);
    struct world world = {.text = text, .bytes = bytes, .left = imports};
    struct program *p = parse_text(a, s, d, "fuzz.slc", text, bytes, read_world, &world);
    FILE *out = open_memstream(&messages, &message_bytes);
    diag_print(d, out, true);
    diag_print_json(d, 0, out);
    fclose(out);
    if (diag_errors(d) && strstr(messages, "error") == NULL)
        abort();
    free(messages);
    if (!diag_errors(d)) {
        out = open_memstream(&printed, printed_bytes);
        ast_print(p, out);
        fclose(out);
    }
    arena_free(a);
    return printed;
}

static void parse_expression(const char *text, size_t bytes) {
    struct arena *a = arena_new();
    struct sources *s = sources_new(a);
    struct diag *d = diag_new(a, s);
    struct expr *e = parse_expr_text(a, s, d, "-D fuzz", text, bytes);
    if ((e == NULL) != (diag_errors(d) > 0))
        abort();
    arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    size_t first_bytes = 0, second_bytes = 0;
    const char *text = (const char *)data;
    char *first = print_again(text, bytes, 3, &first_bytes);
    if (first) {
        char *second = print_again(first, first_bytes, 0, &second_bytes);
        if (!second || first_bytes != second_bytes || memcmp(first, second, first_bytes) != 0)
            abort();
        free(second);
    }
    free(first);
    parse_expression(text, bytes);
    return 0;
}
