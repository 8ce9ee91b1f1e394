/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/usage.c - what a guest has used, asked of the host.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/trap/engine.h"

/* The kernel's encoding of "CPU clock of that process". */
static clockid_t cpu_clock(pid_t pid)
{
	return (clockid_t)((~(unsigned)pid << 3) | 2);
}

static int64_t cpu_ns(pid_t pid)
{
	struct timespec ts = { 0 };

	if (pid <= 1 || clock_gettime(cpu_clock(pid), &ts) < 0)
		return 0;
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The host tells the clock of another's thread only in its proc. */
static int64_t thread_ns(const struct task *t)
{
	unsigned long long ns;
	char path[48], text[96];
	ssize_t n = -1;
	int fd;

	if (t->k->host_proc < 0)
		return -1;
	str_fmt(path, sizeof(path), "%d/task/%d/schedstat", (int)t->host->hp->pid,
		(int)t->host->tid);
	fd = host_openat(t->k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		n = host_read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return sscanf(text, "%llu", &ns) == 1 ? (int64_t)ns : -1;
}

/* The host does not tell user and system time of others apart; what it spends is the user's. */
static void fill(struct rusage *ret, int64_t ns)
{
	memset(ret, 0, sizeof(*ret));
	ret->ru_utime.tv_sec = ns / 1000000000;
	ret->ru_utime.tv_usec = ns % 1000000000 / 1000;
}

int64_t usage_ns(struct proc *p)
{
	if (p->host)
		return p->past_cpu_ns + cpu_ns(p->host->pid);
	return (int64_t)p->own_usage.ru_utime.tv_sec * 1000000000 +
	       p->own_usage.ru_utime.tv_usec * 1000;
}

int64_t usage_task_ns(struct task *t)
{
	int64_t ns, whole;

	if (!t->host)
		return 0;
	whole = cpu_ns(t->host->hp->pid);
	if (t->proc->task_count == 1)
		return whole;
	ns = thread_ns(t);
	return ns >= 0 ? ns : whole / (int64_t)t->proc->task_count;
}

void usage_of(struct proc *p, struct rusage *ret)
{
	if (p->host)
		fill(ret, usage_ns(p));
	else
		*ret = p->own_usage;
}

void usage_of_task(struct task *t, struct rusage *ret)
{
	fill(ret, usage_task_ns(t));
}

void usage_keep(struct proc *p)
{
	if (!p->host)
		return;
	p->past_cpu_ns += cpu_ns(p->host->pid);
	fill(&p->own_usage, p->past_cpu_ns);
}
