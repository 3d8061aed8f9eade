/* What the printer and the reader of task text share: the names of compute tasks, from ops.def. */
#ifndef SLUICE_TASKS_TEXT_H
#define SLUICE_TASKS_TEXT_H

#include "compiler/ir.h"

enum task_op {
#define OP(name, shape, from, to) TASK_OP_##name,
#include "compiler/ops.def"
};

/* ---- tasks_print.c ------------------------------------------------------------------------- */
enum task_op task_op_of(const struct tasks *t, const struct task *k); /* of a COMPUTE task */
const char *task_op_name(enum task_op op);

#endif
