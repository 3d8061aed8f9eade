/*
 * nccl_api.h: NCCL as a table of functions, found when it is needed.
 *
 * We bring our own declarations of the few calls that we make, and look the library up at run time.
 * So one build serves machines with and without NCCL. A process that has loaded NCCL already (a
 * framework with a copy of its own) is given that copy: a communicator belongs to the library that
 * made it. The names differ from those of <nccl.h>, so both can be included; a test that does so
 * compares them.
 */
#ifndef SLUICE_NCCL_API_H
#define SLUICE_NCCL_API_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/dtype.h"

struct ncclComm;

struct nccl_id {
    char bytes[128];
};

enum nccl_result {
    NCCL_SUCCESS = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7
};

enum nccl_type {
    NCCL_U8 = 1,
    NCCL_I32 = 2,
    NCCL_U32 = 3,
    NCCL_I64 = 4,
    NCCL_U64 = 5,
    NCCL_F16 = 6,
    NCCL_F32 = 7,
    NCCL_F64 = 8,
    NCCL_BF16 = 9
};

enum nccl_op { NCCL_SUM = 0, NCCL_MAX = 2, NCCL_MIN = 3, NCCL_AVG = 4 };

struct nccl {
    void *library; /* to be closed; NULL: the process had it loaded */
    int version;   /* 22809 is 2.28.9 */
    const char *(*GetErrorString)(enum nccl_result result);
    const char *(*GetLastError)(struct ncclComm *comm);
#define NCCL_CALL(name, args) enum nccl_result(*name) args;
#include "runtime/nccl_api.def"
};

/* Oldest version that has all of it. */
#define NCCL_OLDEST 21800

/* Finds NCCL. False: err says why there is none. */
bool nccl_open(struct nccl *n, char *err, size_t err_bytes);
void nccl_close(struct nccl *n);

enum nccl_type nccl_type_of(enum dtype t);
enum nccl_op nccl_op_of(enum redop op);

#endif
