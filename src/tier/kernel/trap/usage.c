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

static int64_t cpu_ns(pid_t pid, bool thread)
{
	struct timespec ts = { 0 };

	if (pid <= 1 || clock_gettime(cpu_clock(pid, thread), &ts) < 0)
		return 0;
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The host does not tell user and system time of others apart; what it spends is the user's. */
static void fill(struct rusage *ret, int64_t ns)
{
	memset(ret, 0, sizeof(*ret));
	ret->ru_utime.tv_sec = ns / 1000000000;
	ret->ru_utime.tv_usec = ns % 1000000000 / 1000;
}

void usage_of(struct proc *p, struct rusage *ret)
{
	if (p->host)
		fill(ret, p->past_cpu_ns + cpu_ns(p->host->pid, false));
	else
		*ret = p->own_usage;
}

void usage_of_task(struct task *t, struct rusage *ret)
{
	fill(ret, cpu_ns(t->host ? t->host->tid : 0, true));
}

void usage_keep(struct proc *p)
{
	if (!p->host)
		return;
	p->past_cpu_ns += cpu_ns(p->host->pid, false);
	fill(&p->own_usage, p->past_cpu_ns);
}
