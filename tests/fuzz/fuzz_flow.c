/* Flow text as a person or a stranger may write it: read, printed, proved.
 *
 * What is accepted prints as text that reads back the same; what is refused says why; what was
 * proved and forwarded is proved again from its own text, with the same encodings.
 */
#include "compiler/compiler.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct text {
    char *at; /* NULL: refused */
    size_t bytes;
};

static struct text opt(const char *text, size_t bytes, const char *passes) {
    struct compile_options o = {.emit_rank = -1, .memory_limit_bytes = (size_t)256 << 20};
    struct compilation *c = opt_text("fuzz.flow", text, bytes, passes, &o);
    struct text out = {NULL, 0};
    if (!c)
        return out;
    FILE *f = open_memstream(&out.at, &out.bytes);
    if (compilation_ok(c))
        compilation_print(c, f);
    else
        diag_print(c->diag, f, false);
    fclose(f);
    if (!out.bytes)
        abort(); /* neither a flow nor a reason */
    if (!compilation_ok(c)) {
        free(out.at);
        out.at = NULL;
    }
    compilation_free(c);
    return out;
}

static void expect_same(struct text a, struct text b) {
    if (!b.at || a.bytes != b.bytes || memcmp(a.at, b.at, a.bytes) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct text once = opt((const char *)data, bytes, "");
    if (!once.at)
        return 0;
    struct text twice = opt(once.at, once.bytes, "");
    expect_same(once, twice);
    if (strncmp(once.at, "flow", 4) == 0) {
        struct text proved = opt(once.at, once.bytes, "verify,forward");
        if (proved.at) {
            struct text again = opt(proved.at, proved.bytes, "verify,forward");
            expect_same(proved, again);
            free(again.at);
        }
        free(proved.at);
    }
    free(twice.at);
    free(once.at);
    return 0;
}
