/* lanes: assigns tasks to lanes, which an executor runs in list order, each beside the others (a
 * stream on a GPU).
 *
 * Lane = communicator for sends and receives, so the rounds of one communicator queue behind each
 * other and never behind another's. Computes have one lane, or two when chunks are cut into slices:
 * even and odd slices, so that the decode of one slice does not queue behind the encode of the
 * next.
 *
 * Requires: rounds. Ensures: tasks.lanes, task lane.
 */
#include "compiler/ir.h"

bool pass_lanes(struct compilation *c) {
    struct tasks *t = c->tasks;
    uint32_t compute_lanes = t->slices > 1 ? 2 : 1;
    t->lanes = t->comms + compute_lanes;
    for (size_t i = 0; i < t->tasks.count; i++) {
        struct task *task = &t->tasks.data[i];
        task->lane = task->comm;
        if (task->kind == TASK_COMPUTE)
            task->lane = (uint8_t)(t->comms + task->slice % compute_lanes);
    }
    return true;
}
