/* Finds NCCL in the process or on the machine, and its functions. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "runtime/nccl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool find(const struct nccl *n, const char *name, void *function, char *err,
                 size_t err_bytes) {
    void *found = dlsym(n->library ? n->library : RTLD_DEFAULT, name);
    if (!found) {
        snprintf(err, err_bytes, "this NCCL has no %s; Sluice needs 2.18 or newer", name);
        return false;
    }
    memcpy(function, &found, sizeof found); /* ISO C has no cast from object to function */
    return true;
}

bool nccl_open(struct nccl *n, char *err, size_t err_bytes) {
    *n = (struct nccl){0};
    if (!dlsym(RTLD_DEFAULT, "ncclCommInitRank")) {
        /* never unloaded: it may have threads of its own */
        n->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!n->library) {
            snprintf(err, err_bytes, "NCCL was not found: %s", dlerror());
            return false;
        }
    }
    bool ok = find(n, "ncclGetErrorString", &n->GetErrorString, err, err_bytes) &&
              find(n, "ncclGetLastError", &n->GetLastError, err, err_bytes);
#define NCCL_CALL(name, args) ok = ok && find(n, "nccl" #name, &n->name, err, err_bytes);
#include "runtime/nccl_api.def"
    if (ok && (n->GetVersion(&n->version) != NCCL_SUCCESS || n->version < NCCL_OLDEST)) {
        snprintf(err, err_bytes, "NCCL is of version %d, Sluice needs 2.18 or newer", n->version);
        ok = false;
    }
    if (!ok) {
        nccl_close(n);
    }
    return ok;
}

void nccl_close(struct nccl *n) {
    if (n->library) {
        dlclose(n->library);
    }
    *n = (struct nccl){0};
}

enum nccl_type nccl_type_of(enum dtype t) {
    static const enum nccl_type types[DTYPE_COUNT] = {
        [DTYPE_F32] = NCCL_F32, [DTYPE_F16] = NCCL_F16, [DTYPE_BF16] = NCCL_BF16,
        [DTYPE_F64] = NCCL_F64, [DTYPE_I32] = NCCL_I32, [DTYPE_I64] = NCCL_I64,
        [DTYPE_U8] = NCCL_U8};
    return types[t];
}

enum nccl_op nccl_op_of(enum redop op) {
    static const enum nccl_op ops[REDOP_COUNT] = {[REDOP_SUM] = NCCL_SUM,
                                                  [REDOP_AVG] = NCCL_AVG,
                                                  [REDOP_MIN] = NCCL_MIN,
                                                  [REDOP_MAX] = NCCL_MAX};
    return ops[op];
}
