/*
 * custom.c: a schedule of one's own, proved and run on the CPU. See README.md.
 *
 * usage: custom [SCHEDULE [CODEC]]
 */
#include "examples/example.h"

#define COUNT 100000

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "examples/02_custom_schedule/pairs.slc";
    const char *name, *detail;
    char wire[80];
    sluice_options options = SLUICE_OPTIONS_INIT;
    const char *defines[] = {wire, NULL};
    snprintf(wire, sizeof wire, "wire=%s", argc > 2 ? argv[2] : "pack");
    options.ranks = RANKS;
    options.dtype = SLUICE_F32;
    options.count = COUNT;
    options.defines = defines;

    sluice_plan *plan;
    MUST(sluice_compile_file(&plan, path, &options), sluice_diagnostics(plan));
    for (size_t i = 0; sluice_property(plan, i, &name, &detail); i++)
        printf("proved: %s (%s)\n", name, detail);

    float *memory[RANKS];
    const void *send[RANKS];
    void *recv[RANKS];
    for (int r = 0; r < RANKS; r++) {
        memory[r] = malloc(COUNT * sizeof(float));
        for (int i = 0; i < COUNT; i++)
            memory[r][i] = (float)(i % 64 + r);
        send[r] = recv[r] = memory[r]; /* in place */
    }
    MUST(sluice_run_cpu(plan, send, recv), sluice_error(plan));

    int wrong = 0;
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < COUNT; i++)
            wrong += memory[r][i] != (float)(4 * (i % 64) + 6);
    sluice_stats s;
    MUST(sluice_get_stats(plan, &s), sluice_error(plan));
    printf("%d values wrong; %llu messages, %.3f of their bytes in use\n", wrong,
           (unsigned long long)s.total.messages,
           (double)s.total.needed_bytes / (double)s.total.raw_bytes);

    sluice_destroy(plan);
    for (int r = 0; r < RANKS; r++)
        free(memory[r]);
    return wrong != 0;
}
