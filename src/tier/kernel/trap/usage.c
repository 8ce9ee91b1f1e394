/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/usage.c - what a guest has used, asked of the host.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock.
 */
#include <string.h>
#include <time.h>

#include "tier/kernel/sys/usage.h"
#include "tier/kernel/trap/engine.h"

/* The kernel's encoding of "CPU clock of that process or thread". */
static clockid_t cpu_clock(pid_t pid, bool thread)
{
	return (clockid_t)((~(unsigned)pid << 3) | 2 | (thread ? 4 : 0));
}

static void from_clock(pid_t pid, bool thread, struct rusage *ret)
{
	struct timespec ts = { 0 };

	memset(ret, 0, sizeof(*ret));
	if (pid <= 1 || clock_gettime(cpu_clock(pid, thread), &ts) < 0)
		return;
	ret->ru_utime.tv_sec = ts.tv_sec;
	ret->ru_utime.tv_usec = ts.tv_nsec / 1000;
}

void usage_of(struct proc *p, struct rusage *ret)
{
	if (p->host)
		from_clock(p->host->pid, false, ret);
	else
		*ret = p->own_usage;
}

void usage_of_task(struct task *t, struct rusage *ret)
{
	from_clock(t->host ? t->host->tid : 0, true, ret);
}
