/* What one `sluice run` came to, and how it is printed: run_print.c for both people and machines.
 */
#ifndef SLUICE_RUN_PRINT_H
#define SLUICE_RUN_PRINT_H

#include "cli/cli.h"
#include "runtime/reference.h"

/* Statistics of a plan grow over all its runs; these are the differences over the measured ones. */
struct run_outcome {
    const char *path;
    const struct compilation *compilation;
    double compile_seconds, best_seconds, total_seconds;
    uint64_t runs, repairs, repair_wire_bytes;
    uint32_t stages;
    struct run_stage *stage; /* [stages] */
    struct run_stage total;
    uint64_t arena_bytes, arena_unshared_bytes, total_bytes;
    int threads;
    uint64_t input_elems; /* in the input file; 0: made up */
    bool wrapped, verified;
    struct reference_report reference;
};

void run_outcome_begin(struct run_outcome *r,
                       const struct run_stats *s); /* before the measured runs */
void run_outcome_time(struct run_outcome *r, const struct run_stats *s); /* after each */
void run_outcome_end(struct run_outcome *r, const struct run_stats *s);  /* after the last */
void run_outcome_free(struct run_outcome *r);

/* A schedule that was refused, as JSON. */
void run_print_refused(const char *path, const struct compilation *c);

void run_print(const struct options *o, const struct run_outcome *r);

#endif
