/* Flow and task text, as `sluice opt` reads it: read, proved, lowered as far as it goes, printed.
 *
 * What is accepted and printed must be read again as the same text.
 */
#include "compiler/compiler.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char *print(const struct compilation *c, size_t *bytes) {
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (out) {
        compilation_print(c, out);
        fclose(out);
    }
    return text;
}

/* NULL when it is not accepted. */
static char *opt(const char *text, size_t bytes, const char *passes, size_t *printed_bytes) {
    struct compile_options o = {.emit_rank = -1, .memory_limit_bytes = (size_t)256 << 20};
    struct compilation *c = opt_text("fuzz.ir", text, bytes, passes, &o);
    char *printed = c && compilation_ok(c) ? print(c, printed_bytes) : NULL;
    if (c) {
        compilation_free(c);
    }
    return printed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    size_t once_bytes = 0, twice_bytes = 0, lowered_bytes = 0;
    char *once = opt((const char *)data, bytes, "", &once_bytes);
    if (!once) {
        return 0;
    }
    char *twice = opt(once, once_bytes, "", &twice_bytes);
    if (!twice || twice_bytes != once_bytes || memcmp(once, twice, once_bytes) != 0) {
        abort();
    }
    bool is_flow = strncmp(once, "flow", 4) == 0;
    char *lowered =
        opt(once, once_bytes,
            is_flow ? "verify,forward,lower,fuse,slice,rounds,lanes,slots,validate" : "validate",
            &lowered_bytes);
    free(lowered);
    free(twice);
    free(once);
    return 0;
}
