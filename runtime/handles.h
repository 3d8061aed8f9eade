/* Private to runtime/: what the files behind the public API share. */
#ifndef SLUICE_HANDLES_H
#define SLUICE_HANDLES_H

#include "runtime/executor.h"
#include "runtime/sluice.h"

/* sluice.c */
sluice_status public_status(enum run_status s);
/* The plan of a handle if it is ready, else NULL. */
struct plan *plan_of_handle(const sluice_plan *p);

#endif
