/* Source text through the whole compiler, proofs included: no text may crash it, hang it or take
 * all memory, and what it accepts it must be able to print and lower. */
#include "compiler/compiler.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    /* The first byte decides what to compile for, so that mutations reach every N of 1 .. 6. */
    int32_t ranks = bytes ? data[0] % 6 + 1 : 1;
    int32_t node_of[6] = {0, 0, 1, 1, 2, 2}, local_of[6] = {0, 1, 0, 1, 0, 1};
    struct compile_options o = {
        .setup = {.ranks = ranks,
                  .node_of = node_of,
                  .local_of = local_of,
                  .nodes = (ranks + 1) / 2,
                  .dtype = DTYPE_BF16,
                  .redop = bytes && data[0] & 8 ? REDOP_AVG : REDOP_SUM,
                  .count = 1000},
        .emit_rank = -1,
        .memory_limit_bytes = (size_t)256 << 20,
    };
    struct compilation *c = compile_text("schedules/fuzz.slc", (const char *)data, bytes, &o);
    FILE *out = fopen("/dev/null", "w");
    if (c && out) {
        if (compilation_ok(c)) {
            compilation_print(c, out);
        } else {
            diag_print(c->diag, out, true);
            diag_print_json(c->diag, 0, out);
        }
    }
    if (out) {
        fclose(out);
    }
    if (c) {
        compilation_free(c);
    }
    return 0;
}
