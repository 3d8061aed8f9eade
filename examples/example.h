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

/* Ends the program unless the call succeeds; `words` say more, and are read after the call. */
#define MUST(call, words)                                                               \
    do {                                                                                \
        sluice_status status_ = call;                                                   \
        if (status_ != SLUICE_OK) {                                                     \
            fprintf(stderr, "%s: %s\n%s\n", #call, sluice_status_text(status_), words); \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

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
