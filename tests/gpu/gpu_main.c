/*
 * gpu_main.c: runs the tests of the kernels. Leaves with 77 (skipped) where there is no CUDA device.
 *
 * usage: gpu_tests [--small] DATA_FOLDER
 */
#include "tests/gpu/gpu_test.h"

#include <time.h>

#define SKIPPED 77

static double now_s(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const struct {
    const char *name;
    void (*run)(struct gpu_test *g);
    bool needs_overlap; /* checkers run one kernel after the other */
} tests[] = {
    {"pieces: the bytes of the reference, decoded across", test_pieces, false},
    {"slots of every size around the need", test_slots, false},
    {"malformed slots", test_malformed, false},
    {"one gigabyte", test_large, false},
    {"reductions: the bits of the reference", test_combine, false},
    {"operands that are lost", test_lost_operands, false},
    {"what launchers refuse", test_refusals, false},
    {"graphs replayed with changing data", test_graphs, false},
    {"two encodings at once", test_two_at_once, false},
    {"encodings on a device that is busy", test_busy, true},
    {"cast and quant: the bytes of the reference", test_values, false},
    {"reductions in any mix of codecs", test_value_reductions, false},
    {"reductions of f64 and integers", test_plain_reductions, false},
    {"pieces of cast | pack that are lost, and small slots", test_value_slots, false},
    {"cast and quant in replayed graphs", test_value_graphs, false},
    {"reductions of codecs that are decoded aside", test_staged_reductions, false},
    {"lz and sparse: the bytes of the reference, decoded across", test_bounded_pieces, false},
    {"lz and sparse: slots of every size around the need", test_bounded_slots, false},
    {"lz and sparse: malformed slots", test_bounded_malformed, false},
    {"lz and sparse in replayed graphs", test_bounded_graphs, false},
    {"codecs that remember: bytes and states of the reference", test_states, false},
    {"codecs that remember: just begun, and small slots", test_state_slots, false},
    {"codecs that remember: malformed slots", test_state_malformed, false},
    {"codecs that remember: reductions", test_state_reductions, false},
};

int main(int argc, char **argv) {
    struct gpu_test g = {0};
    struct cudaDeviceProp device;
    char err[256];
    int devices = 0;

    g.small = argc == 3 && strcmp(argv[1], "--small") == 0;
    if (argc != (g.small ? 3 : 2)) {
        fprintf(stderr, "usage: gpu_tests [--small] DATA_FOLDER\n");
        return 2;
    }
    g.data_folder = argv[argc - 1];
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("skipped: no CUDA device\n");
        return SKIPPED;
    }
    CUDA(cudaGetDeviceProperties(&device, 0));
    printf("%s, compute capability %d.%d\n", device.name, device.major, device.minor);
    if (!codec_make("pack", NULL, 0, &g.pack, err, sizeof err)) {
        printf("%s\n", err);
        return 1;
    }
    CUDA(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking));
    g.workspace_dev = dev_alloc(gpu_workspace_bytes(&g.pack, DTYPE_F32, TEST_MAX_ELEMS));
    g.status_dev = dev_alloc(sizeof *g.status_dev);
    CUDA(cudaMemset(g.workspace_dev, 0, gpu_workspace_bytes(&g.pack, DTYPE_F32, TEST_MAX_ELEMS)));
    CUDA(cudaMemset(g.status_dev, 0, sizeof *g.status_dev));
    CUDA(cudaDeviceSynchronize());
    for (size_t i = 0; i < ARRAY_LENGTH(tests); i++) {
        uint64_t checks = g.checks, failures = g.failures;
        double start = now_s();

        if (g.small && tests[i].needs_overlap) {
            printf("left out with --small: %s\n", tests[i].name);
            continue;
        }
        tests[i].run(&g);
        printf("%-6s %8llu checks %7.2f s  %s\n", g.failures == failures ? "right" : "WRONG",
               (unsigned long long)(g.checks - checks), now_s() - start, tests[i].name);
        fflush(stdout);
        if (g.checks == checks) {
            printf("nothing was checked\n");
            return 1;
        }
    }
    dev_free(g.scratch_dev);
    dev_free(g.status_dev);
    dev_free(g.workspace_dev);
    CUDA(cudaStreamDestroy(g.stream));
    printf("%llu checks, %llu failures\n", (unsigned long long)g.checks,
           (unsigned long long)g.failures);
    return g.failures == 0 ? 0 : 1;
}
