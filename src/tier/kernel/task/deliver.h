/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_DELIVER_H
#define WARD_TIER_KERNEL_TASK_DELIVER_H

#include "tier/kernel/task/task.h"

/* What became of the signals that were pending for a task on its way back to its program. */
enum delivered {
	DELIVER_NOTHING, /* go on */
	DELIVER_HANDLER, /* task->deliver says which; the mask is the handler's now */
	DELIVER_STOPPED, /* wait on proc->stop_queue first */
	DELIVER_DEAD,    /* the process is over */
};

/* wait(2)'s status of a process that @sig ends: a core dump is said where Linux would make one. */
int death_status(const struct task *t, int sig);

/* Takes signals until one needs a handler or none is left. */
enum delivered deliver_signals(struct task *t);

#endif
