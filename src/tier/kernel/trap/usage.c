/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/usage.c - what a guest has used, asked of the host.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
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

/* A file of the host's proc about a guest's process: its length, or -1. */
static ssize_t read_host(struct kernel *k, char *text, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static ssize_t read_host(struct kernel *k, char *text, size_t cap, const char *fmt, ...)
{
	char path[64];
	va_list ap;
	ssize_t n;
	int fd;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	fd = k->host_proc < 0 ? -1 : host_openat(k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	n = host_read(fd, text, cap - 1);
	close(fd);
	if (n < 0)
		return -1;
	text[n] = '\0';
	return n;
}

/* The host tells the clock of another's thread only in its proc. */
static int64_t thread_ns(const struct task *t)
{
	unsigned long long ns;
	char text[96];

	if (read_host(t->k, text, sizeof(text), "%d/task/%d/schedstat", (int)t->host->hp->pid,
		    (int)t->host->tid) <= 0)
		return -1;
	return sscanf(text, "%llu", &ns) == 1 ? (int64_t)ns : -1;
}

static void put_ns(struct timeval *tv, int64_t ns)
{
	tv->tv_sec = ns / 1000000000;
	tv->tv_usec = ns % 1000000000 / 1000;
}

static void fill(struct rusage *ret, int64_t ns)
{
	memset(ret, 0, sizeof(*ret));
	put_ns(&ret->ru_utime, ns);
}

/* How much of @ns the host spent for the process itself, by its ticks; and its memory and faults.
 */
static void fill_details(struct proc *p, struct rusage *ret, int64_t ns)
{
	unsigned long long minor, major, user, system, kb;
	char text[2048], *at;
	int pid = (int)p->host->pid;

	fill(ret, ns);
	if (read_host(p->k, text, sizeof(text), "%d/stat", pid) > 0) {
		at = strrchr(text, ')');
		if (at && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu",
				  &minor, &major, &user, &system) == 4) {
			if (user + system) {
				int64_t part = (int64_t)((double)ns * (double)system /
							 (double)(user + system));

				put_ns(&ret->ru_utime, ns - part);
				put_ns(&ret->ru_stime, part);
			}
			ret->ru_minflt = (long)minor;
			ret->ru_majflt = (long)major;
		}
	}
	if (read_host(p->k, text, sizeof(text), "%d/status", pid) > 0) {
		at = strstr(text, "VmHWM:");
		if (at && sscanf(at, "VmHWM: %llu", &kb) == 1)
			ret->ru_maxrss = (long)kb;
	}
}

int64_t usage_ns(struct proc *p)
{
	if (p->state == PROC_LIVE)
		return p->past_cpu_ns + (p->host ? cpu_ns(p->host->pid) : 0);
	return ((int64_t)p->own_usage.ru_utime.tv_sec + p->own_usage.ru_stime.tv_sec) * 1000000000 +
	       ((int64_t)p->own_usage.ru_utime.tv_usec + p->own_usage.ru_stime.tv_usec) * 1000;
}

int64_t usage_task_ns(struct task *t)
{
	int64_t ns, whole;

	if (!t->host)
		return t->past_cpu_ns;
	whole = cpu_ns(t->host->hp->pid);
	if (t->proc->task_count == 1)
		return t->past_cpu_ns + whole;
	ns = thread_ns(t);
	return t->past_cpu_ns + (ns >= 0 ? ns : whole / (int64_t)t->proc->task_count);
}

void usage_of(struct proc *p, struct rusage *ret)
{
	struct rusage past = p->past_usage;
	int64_t now;

	if (!p->host) {
		*ret = p->state == PROC_LIVE ? past : p->own_usage;
		return;
	}
	now = cpu_ns(p->host->pid);
	fill_details(p, ret, now);
	usage_add(ret, &past);
}

void usage_of_task(struct task *t, struct rusage *ret)
{
	fill(ret, usage_task_ns(t));
}

void usage_add(struct rusage *to, const struct rusage *from)
{
	to->ru_maxrss = to->ru_maxrss > from->ru_maxrss ? to->ru_maxrss : from->ru_maxrss;
	timeradd(&to->ru_utime, &from->ru_utime, &to->ru_utime);
	timeradd(&to->ru_stime, &from->ru_stime, &to->ru_stime);
	to->ru_minflt += from->ru_minflt;
	to->ru_majflt += from->ru_majflt;
	to->ru_nvcsw += from->ru_nvcsw;
	to->ru_nivcsw += from->ru_nivcsw;
}

/* What ran for a moment only is not looked at more closely: that would cost a part of it. */
void usage_keep(struct proc *p)
{
	const int64_t moment = 5000000;
	struct rusage ru;
	int64_t now;

	if (!p->host)
		return;
	now = cpu_ns(p->host->pid);
	if (now >= moment)
		fill_details(p, &ru, now);
	else
		fill(&ru, now);
	usage_add(&p->past_usage, &ru);
	p->own_usage = p->past_usage;
	p->past_cpu_ns += now;
}
