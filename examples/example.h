/*
 * example.h: what the examples share: leaving with a message when something fails.
 */
#ifndef SLUICE_EXAMPLE_H
#define SLUICE_EXAMPLE_H

#include "sluice.h"

#include <stdio.h>
#include <stdlib.h>

#define RANKS 4

#define NO_GPU 77 /* what a program leaves with that finds no GPU */

/* Ends the program unless `status` is SLUICE_OK. words: what went wrong, or "". */
static inline void must(sluice_status status, const char *what, const char *words) {
    if (status == SLUICE_OK)
        return;
    fprintf(stderr, "%s: %s\n%s\n", what, sluice_status_text(status), words);
    exit(1);
}

#define CUDA(call)                                                                             \
    do {                                                                                       \
        cudaError_t error_ = call;                                                             \
        if (error_ != cudaSuccess) {                                                           \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));                    \
            exit(error_ == cudaErrorNoDevice || error_ == cudaErrorInsufficientDriver ? NO_GPU \
                                                                                      : 1);    \
        }                                                                                      \
    } while (0)

#endif
