/*
 * cuda_main.c: runs the tests of graphs on GPUs. Leaves with 77 (skipped) where there is no CUDA
 * device.
 *
 * usage: cuda_tests [--small] [NAME...]      from the top of the tree, for its schedules
 */
#include "tests/gpu/cuda_test.h"

#include <time.h>

#define SKIPPED 77

static const struct {
    const char *name;
    void (*run)(struct cuda_test *t);
} tests[] = {
    {"schedules", test_schedules}, {"protocol", test_protocol}, {"graphs", test_graphs},
    {"outer", test_outer_graph},   {"api", test_api},
};

static bool wanted(const char *name, int argc, char **argv, int first) {
    for (int i = first; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return first == argc;
}

int main(int argc, char **argv) {
#ifdef SLUICE_EMULATED
    struct cuda_test t = {.emulated = true};
#else
    struct cuda_test t = {0};
#endif
    int devices = 0, first = 1;
    if (argc > 1 && !strcmp(argv[1], "--small")) {
        t.small = true;
        first = 2;
    }
    cudaError_t e = cudaGetDeviceCount(&devices);
    if (e != cudaSuccess || devices == 0) {
        printf("skipped: no CUDA device (%s)\n", cudaGetErrorString(e));
        return SKIPPED;
    }
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (!wanted(tests[i].name, argc, argv, first))
            continue;
        uint64_t checks = t.checks, failures = t.failures;
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        tests[i].run(&t);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("%-10s %6llu checks, %llu wrong, %.1f s\n", tests[i].name,
               (unsigned long long)(t.checks - checks), (unsigned long long)(t.failures - failures),
               (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
        fflush(stdout);
    }
    return t.failures == 0 ? 0 : 1;
}
