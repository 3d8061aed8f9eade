/* Linked into sluice-flipped in front of plan_run: the run, and then one bit of one element wrong. */
#include "runtime/executor.h"

enum run_status __real_plan_run(struct plan *p, const void *const *send, void *const *recv);
enum run_status __wrap_plan_run(struct plan *p, const void *const *send, void *const *recv);

enum run_status __wrap_plan_run(struct plan *p, const void *const *send, void *const *recv) {
    enum run_status status = __real_plan_run(p, send, recv);
    int32_t last = plan_compilation(p)->setup.ranks - 1;
    if (status == RUN_OK && recv[last]) {
        *(unsigned char *)recv[last] ^= 1;
    }
    return status;
}
