/* Task text, hand-written at its worst: what is read goes through every later pass that takes it,
 * and after each pass what is printed must be read again as the same tasks.
 */
#include "compiler/compiler.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char *print(const struct compilation *c, size_t *bytes) {
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (!out)
        abort();
    compilation_print(c, out);
    fclose(out);
    return text;
}

/* NULL when it is not accepted. */
static char *opt(const char *text, size_t bytes, const char *passes, size_t *printed_bytes) {
    struct compile_options o = {.emit_rank = -1, .memory_limit_bytes = (size_t)256 << 20};
    struct compilation *c = opt_text("fuzz.tasks", text, bytes, passes, &o);
    char *printed = c && compilation_ok(c) ? print(c, printed_bytes) : NULL;
    if (c)
        compilation_free(c);
    return printed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const passes[] = {"",      "fuse",  "slice",   "rounds",
                                         "lanes", "slots", "validate"};
    size_t now_bytes = bytes;
    char *now = malloc(bytes + 1);
    if (!now)
        abort();
    memcpy(now, data, bytes);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        size_t next_bytes = 0, again_bytes = 0;
        char *next = opt(now, now_bytes, passes[i], &next_bytes);
        if (!next && i == 0)
            break;
        if (!next) /* refused here: as it is, to the next pass */
            continue;
        char *again = opt(next, next_bytes, "", &again_bytes);
        if (!again || again_bytes != next_bytes || memcmp(again, next, next_bytes) != 0)
            abort();
        free(again);
        free(now);
        now = next;
        now_bytes = next_bytes;
    }
    free(now);
    return 0;
}
