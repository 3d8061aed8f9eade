/*
 * cuda_test.h: what the tests of graphs on GPUs share: a schedule with memory for all its ranks on
 * host and device, data that fits its slots or does not, and the CPU executor as the judge.
 */
#ifndef SLUICE_TESTS_GPU_CUDA_TEST_H
#define SLUICE_TESTS_GPU_CUDA_TEST_H

#include "runtime/sluice.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS 20

struct cuda_test {
    bool small;    /* for memory checkers, which slow everything down */
    bool emulated; /* there is no device, see emulated.h */
    uint64_t checks, failures;
};

#define CUDA(call) cuda_must(call, #call, __FILE__, __LINE__)
void cuda_must(cudaError_t e, const char *text, const char *file, int line);

/* Counts, and prints what is wrong when it is. Returns right. */
bool check(struct cuda_test *t, bool right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum data {
    DATA_FITS, /* like gradients: pack(0.75) has room for it */
    DATA_BITS, /* random bits: fits nothing but the worst case */
    DATA_ONE,  /* random bits on one rank, whose number is the seed's, gradients on the others */
    DATA_MIXED /* random bits or gradients, by the seed */
};

struct setting {
    const char *path;
    const char *defines[4];
    int ranks, ranks_per_node;
    sluice_dtype dtype;
    sluice_op op;
    uint64_t count;
    int slices;
    bool in_place;
    sluice_graph_options options;
};

struct world {
    struct setting s;
    sluice_plan *plan;
    sluice_comm *comm;
    sluice_graph *graph;
    cudaStream_t stream;
    size_t send_bytes[MOST_RANKS], recv_bytes[MOST_RANKS];
    void *send_host[MOST_RANKS], *want[MOST_RANKS], *got;
    void *send_dev[MOST_RANKS], *recv_dev[MOST_RANKS]; /* in place: the same */
};

struct setting setting_of(const char *path, int ranks, uint64_t count);

/* False: the schedule is not for so many ranks, and nothing has to be closed. */
bool world_open(struct cuda_test *t, struct world *w, const struct setting *s);
/* The same with a graph. */
bool world_graph(struct cuda_test *t, struct world *w, const struct setting *s);
void world_close(struct world *w);
/* New inputs, on the device as well (in stream order), and what the CPU makes of them. */
void world_fill(struct cuda_test *t, struct world *w, enum data kind, uint64_t seed);
/* Waits for the stream, and compares all bits. */
bool world_check(struct cuda_test *t, struct world *w, const char *what, uint64_t number);
/* Fill, launch (or enqueue), wait, check. */
bool world_run(struct cuda_test *t, struct world *w, enum data kind, uint64_t seed, bool eager);
char *world_name(const struct world *w); /* static, until the next call */

bool ok(struct cuda_test *t, const struct world *w, sluice_status s, const char *what);
uint64_t mix(uint64_t seed);
void fill_data(sluice_dtype type, enum data kind, void *to, size_t bytes, uint64_t seed, int rank);

void test_schedules(struct cuda_test *t);
void test_protocol(struct cuda_test *t);
void test_graphs(struct cuda_test *t);
void test_outer_graph(struct cuda_test *t);
void test_api(struct cuda_test *t);

#endif
