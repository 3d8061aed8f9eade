/* Values to run on: made up from a seed, or read from a file of raw elements.
 *
 * Made-up values depend on (kind, type, seed, rank, index) alone, the same on every machine.
 */
#ifndef SLUICE_INPUTS_H
#define SLUICE_INPUTS_H

#include "kernels/dtype.h"

enum input_kind {
#define INPUT(ID, name, help) INPUT_##ID,
#include "runtime/inputs.def"
    INPUT_KIND_COUNT
};

const char *input_kind_name(enum input_kind k);
const char *input_kind_help(enum input_kind k);
bool input_kind_parse(const char *name, enum input_kind *out);

/* Elements first .. first+elems of a rank's values. */
void input_generate(enum input_kind k, enum dtype t, uint64_t seed, int32_t rank, uint64_t first,
                    uint64_t elems, void *dst);

/* A file of raw elements of one type. */
struct input_file {
    void *data;
    uint64_t elems;
    enum dtype dtype;
};
/* Reads at most limit_bytes of it ("-": standard input). False: err says why (cannot be read,
 * empty, not whole elements). */
bool input_file_read(const char *path, enum dtype t, uint64_t limit_bytes, struct input_file *out,
                     char *err, size_t err_bytes);
void input_file_free(struct input_file *f);
/* Elements first .. first+elems of the file, which starts again behind its end. True: it did.
 * The slice of a rank follows that of the rank before it. */
bool input_file_slice(const struct input_file *f, uint64_t first, uint64_t elems, void *dst);

#endif
