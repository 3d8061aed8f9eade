/*
 * lanes_main.c: tests of kernels without a device, every lane on a fiber (lanes.hpp). Those that
 * need graphs or other families of kernels are left to gpu_tests.
 *
 * usage: lanes_tests [--small] DATA_FOLDER
 */
#include "tests/gpu/gpu_test.h"

static const struct {
    const char *name;
    void (*run)(struct gpu_test *g);
} tests[] = {
    {"lz and sparse: the bytes of the reference", test_bounded_pieces},
    {"lz and sparse: slots of every size", test_bounded_slots},
    {"lz and sparse: malformed and lost pieces", test_bounded_malformed},
    {"reductions of codecs that are decoded aside", test_staged_reductions},
    {"codecs that remember: bytes and states", test_states},
    {"codecs that remember: just begun, and small slots", test_state_slots},
    {"codecs that remember: malformed slots", test_state_malformed},
    {"codecs that remember: reductions", test_state_reductions},
};

int main(int argc, char **argv) {
    struct gpu_test g = {0};
    uint64_t workspace_bytes;
    char err[256];

    g.small = argc == 3 && strcmp(argv[1], "--small") == 0;
    if (argc != (g.small ? 3 : 2)) {
        fprintf(stderr, "usage: lanes_tests [--small] DATA_FOLDER\n");
        return 2;
    }
    g.data_folder = argv[argc - 1];
    if (!codec_make("pack", NULL, 0, &g.pack, err, sizeof err)) {
        printf("%s\n", err);
        return 1;
    }
    workspace_bytes = gpu_workspace_bytes(&g.pack, DTYPE_F32, TEST_MAX_ELEMS);
    g.workspace_dev = dev_alloc(workspace_bytes);
    g.status_dev = dev_alloc(sizeof *g.status_dev);
    CUDA(cudaMemset(g.workspace_dev, 0, workspace_bytes));
    CUDA(cudaMemset(g.status_dev, 0, sizeof *g.status_dev));
    for (size_t i = 0; i < ARRAY_LENGTH(tests); i++) {
        uint64_t checks = g.checks, failures = g.failures;

        tests[i].run(&g);
        printf("%-6s %8llu checks  %s\n", g.failures == failures ? "right" : "WRONG",
               (unsigned long long)(g.checks - checks), tests[i].name);
        fflush(stdout);
        if (g.checks == checks) {
            printf("nothing was checked\n");
            return 1;
        }
    }
    dev_free(g.status_dev);
    dev_free(g.scratch_dev);
    dev_free(g.workspace_dev);
    return g.failures == 0 ? 0 : 1;
}
