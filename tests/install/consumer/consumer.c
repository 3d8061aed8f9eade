/* What a user of the installed library writes: a schedule compiled from text, run, and looked at.
 * Prints the version and the sum of four ranks. C99, with nothing but the public header. */
#include <sluice.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 4, COUNT = 100 };

static const char text[] = "schedule twoshot(codec wire = pack) {\n"
                           "    collective allreduce;  inout data[N];\n"
                           "    for c in 0..N, r in 0..N where r != c {\n"
                           "        reduce data[c]@r -> data[c]@c via wire;\n"
                           "    }\n"
                           "    for c in 0..N { copy data[c]@c -> data[c]@ranks(0..N) via wire; }\n"
                           "}\n";

int main(void) {
    static float data[RANKS][COUNT];
    const void *send[RANKS];
    void *recv[RANKS];
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < COUNT; i++) {
            data[r][i] = (float)(r * i);
        }
        send[r] = recv[r] = data[r];
    }
    sluice_options o = SLUICE_OPTIONS_INIT;
    o.ranks = RANKS;
    o.count = COUNT;
    sluice_plan *plan;
    if (sluice_compile_text(&plan, "twoshot.slc", text, strlen(text), &o) != SLUICE_OK) {
        fputs(sluice_diagnostics(plan), stderr);
        return 1;
    }
    sluice_status status = sluice_run_cpu(plan, send, recv);
    if (status != SLUICE_OK) {
        fprintf(stderr, "%s: %s\n", sluice_status_text(status), sluice_error(plan));
        return 1;
    }
    sluice_destroy(plan);
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < COUNT; i++) {
            if (data[r][i] != (float)(6 * i)) {
                fprintf(stderr, "rank %d, element %d: %g\n", r, i, (double)data[r][i]);
                return 1;
            }
        }
    }
    printf("sluice %s: %d ranks agree on %g\n", sluice_version(), RANKS,
           (double)data[3][COUNT - 1]);
    return 0;
}
