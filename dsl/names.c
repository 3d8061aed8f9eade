/* The nearest name, for "did you mean". */
#include "dsl/dsl.h"

#include <string.h>

enum { LONGEST = 64 };

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

/* Edits between two names: insert, delete, replace, swap neighbours. */
static unsigned edits(const char *a, size_t an, const char *b, size_t bn) {
    unsigned rows[3][LONGEST + 1]; /* the two rows before and this one, in turn */
    for (size_t j = 0; j <= bn; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= an; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i - 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= bn; j++) {
            unsigned replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[an % 3][bn];
}

const char *nearest_name(const char *name, const char *const *candidates) {
    size_t length = strlen(name);
    if (length == 0 || length > LONGEST)
        return NULL;
    const char *nearest = NULL;
    unsigned fewest = (unsigned)(length + 2) / 3 + 1; /* a third of it may be wrong */
    for (; *candidates; candidates++) {
        size_t n = strlen(*candidates);
        if (n > LONGEST)
            continue;
        unsigned e = edits(name, length, *candidates, n);
        if (e < fewest && e < n) { /* something of the candidate must be there */
            fewest = e;
            nearest = *candidates;
        }
    }
    return nearest;
}
