/* Our declarations of NCCL against its own header, where there is one: compiled, never run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <nccl.h>
#pragma GCC diagnostic pop

#include "runtime/nccl_api.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)

_Static_assert(sizeof(struct nccl_id) == sizeof(ncclUniqueId), "the id");
_Static_assert(sizeof(enum nccl_result) == sizeof(ncclResult_t), "results");
_Static_assert(sizeof(enum nccl_type) == sizeof(ncclDataType_t), "types");
_Static_assert(sizeof(enum nccl_op) == sizeof(ncclRedOp_t), "operators");

SAME(NCCL_SUCCESS, ncclSuccess);
SAME(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);

SAME(NCCL_U8, ncclUint8);
SAME(NCCL_I32, ncclInt32);
SAME(NCCL_U32, ncclUint32);
SAME(NCCL_I64, ncclInt64);
SAME(NCCL_U64, ncclUint64);
SAME(NCCL_F16, ncclFloat16);
SAME(NCCL_F32, ncclFloat32);
SAME(NCCL_F64, ncclFloat64);
SAME(NCCL_BF16, ncclBfloat16);

SAME(NCCL_SUM, ncclSum);
SAME(NCCL_MAX, ncclMax);
SAME(NCCL_MIN, ncclMin);
SAME(NCCL_AVG, ncclAvg);
