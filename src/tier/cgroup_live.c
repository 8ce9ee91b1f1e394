/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/cgroup_live.c - the cgroups of a sandbox that lives on: stand still, go on, other limits.
 *
 * Owns:  nothing; struct cgroup is cgroup.c's.
 * Rules: v1 has a freezer hierarchy of its own, v2 a file in every group. A frozen v1 process does
 *        not even die: whoever kills one thaws it. The memory limit of v1 is two files that must
 *        not pass each other.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/cgroup_impl.h"

enum { FREEZE_WAIT_MS = 5000, LOOK_FIRST_NS = 50000, LOOK_MAX_NS = 5000000 };

static bool is_frozen(const struct cgroup *cg)
{
	char text[32];

	if (cg->kind == CGROUP_V2)
		return cgroup_keyed(cg->dir[0], "cgroup.events", "frozen") == 1;
	return host_get(cg->dir[CGROUP_FREEZER], "freezer.state", text, sizeof(text)) > 0 &&
	       strncmp(text, "FROZEN", 6) == 0;
}

static int set_frozen(const struct cgroup *cg, bool frozen)
{
	if (cg->kind == CGROUP_V2)
		return host_put(cg->dir[0], "cgroup.freeze", frozen ? "1" : "0");
	return host_put(cg->dir[CGROUP_FREEZER], "freezer.state", frozen ? "FROZEN" : "THAWED");
}

static bool has_freezer(const struct cgroup *cg)
{
	return cg->kind == CGROUP_V2 ? cg->dir[0] >= 0
				     : cg->kind == CGROUP_V1 && cg->dir[CGROUP_FREEZER] >= 0;
}

int cgroup_signal(const struct cgroup *cg, int sig)
{
	enum { TEXT = 64 * 1024 };
	own_mem char *text = malloc(TEXT);
	char *line, *rest = text;
	int dir = -1, sent = 0;
	ssize_t n;

	for (int i = 0; i < CGROUP_PARTS && dir < 0; i++)
		dir = cg->dir[i];
	if (dir < 0)
		return -EOPNOTSUPP;
	n = text ? host_get(dir, "cgroup.procs", text, TEXT) : -ENOMEM;
	if (n < 0)
		return (int)n;
	while ((line = strsep(&rest, "\n")) != NULL && *line) {
		uint64_t pid;
		int fd;

		if (parse_u64(line, 1, INT32_MAX, &pid) < 0)
			continue;
		/* By descriptor: one that ended meanwhile is nobody, not somebody else. */
		fd = host_pidfd_open((pid_t)pid);
		if (fd >= 0) {
			sent += host_pidfd_kill(fd, sig) == 0;
			close(fd);
		}
	}
	return sent;
}

int cgroup_freeze(struct cgroup *cg, void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	const uint64_t end = clock_ns() + FREEZE_WAIT_MS * 1000000ull;
	long wait_ns = LOOK_FIRST_NS;
	int r;

	if (!has_freezer(cg))
		return err_say(e, EOPNOTSUPP,
			"this host offers no freezer cgroup: the sandbox cannot be paused");
	r = set_frozen(cg, true);
	if (r < 0)
		return err_set(e, r == -ENOENT ? EOPNOTSUPP : -r, "freezing the sandbox's cgroup");
	while (!is_frozen(cg)) {
		if (clock_ns() > end) {
			set_frozen(cg, false);
			return err_say(e, ETIMEDOUT,
				"a process inside did not stand still within %d ms",
				FREEZE_WAIT_MS);
		}
		meanwhile(arg);
		nanosleep(&(struct timespec){ .tv_nsec = wait_ns }, NULL);
		wait_ns = wait_ns * 2 < LOOK_MAX_NS ? wait_ns * 2 : LOOK_MAX_NS;
	}
	return 0;
}

int cgroup_thaw(struct cgroup *cg, struct err *e)
{
	int r;

	if (!has_freezer(cg))
		return 0;
	r = set_frozen(cg, false);
	return r < 0 ? err_set(e, -r, "thawing the sandbox's cgroup") : 0;
}

/* As far as it goes: what is left is in use, and no error. */
void cgroup_reclaim(struct cgroup *cg)
{
	char text[32];
	uint64_t used;

	if (cg->kind == CGROUP_V1 && cg->dir[CGROUP_MEMORY] >= 0) {
		host_put(cg->dir[CGROUP_MEMORY], "memory.force_empty", "0");
		return;
	}
	if (cg->kind != CGROUP_V2)
		return;
	used = cgroup_number(cg->dir[0], "memory.current");
	if (used == UINT64_MAX || str_fmt(text, sizeof(text), "%" PRIu64, used) < 0)
		return;
	host_put(cg->dir[0], "memory.reclaim", text);
}

/* With swap counted too, the second limit is never below the first. */
static int limit_memory_v1(struct cgroup *cg, uint64_t bytes, struct err *e)
{
	static const char plain[] = "memory.limit_in_bytes", both[] = "memory.memsw.limit_in_bytes";
	uint64_t now = cgroup_number(cg->dir[CGROUP_MEMORY], plain);
	bool grows = now != UINT64_MAX && bytes > now;
	int r;

	if (grows)
		r = cgroup_put_if_there(cg, CGROUP_MEMORY, both, bytes, e);
	else
		r = cgroup_put(cg, CGROUP_MEMORY, plain, bytes, e);
	if (r < 0)
		return r;
	return grows ? cgroup_put(cg, CGROUP_MEMORY, plain, bytes, e)
		     : cgroup_put_if_there(cg, CGROUP_MEMORY, both, bytes, e);
}

static int limit_memory(struct cgroup *cg, uint64_t bytes, struct err *e)
{
	int part = CGROUP_MEMORY;
	uint64_t used;

	if (cg->kind == CGROUP_V1)
		return limit_memory_v1(cg, bytes, e);
	/* v2 would kill until it fits; v1 refuses, and so does this. */
	used = cgroup_number(cg->dir[part], "memory.current");
	if (used != UINT64_MAX && used > bytes) {
		cgroup_reclaim(cg);
		used = cgroup_number(cg->dir[part], "memory.current");
	}
	if (used != UINT64_MAX && used > bytes)
		return err_set(e, EBUSY, "%" PRIu64 " bytes of memory are in use", used);
	return cgroup_put(cg, part, "memory.max", bytes, e);
}

int cgroup_set_limits(struct cgroup *cg, const struct plan_limits *l, struct err *e)
{
	bool v2 = cg->kind == CGROUP_V2;
	int pids = v2 ? 0 : CGROUP_PIDS, cpu = v2 ? 0 : CGROUP_CPU;
	int r = 0;

	if (cg->kind == CGROUP_NONE)
		return err_say(e, EOPNOTSUPP,
			"the sandbox has no cgroup: its limits cannot change while it runs");
	if ((l->memory_bytes && cg->dir[CGROUP_MEMORY] < 0) || (l->pids && cg->dir[pids] < 0) ||
		((l->cpu_milli || l->cpu_weight) && cg->dir[cpu] < 0))
		return err_say(e, EOPNOTSUPP, "the sandbox was made without this limit's cgroup");
	if (l->memory_bytes)
		r = limit_memory(cg, l->memory_bytes, e);
	if (r == 0 && l->pids)
		r = cgroup_put(cg, pids, "pids.max", l->pids, e);
	return r < 0 ? r : cgroup_limit_cpu(cg, l, e);
}

/* "max", and v1's largest number, are no limit. */
static uint64_t limit_of(int dir, const char *file)
{
	char text[64];
	uint64_t v;

	if (host_get(dir, file, text, sizeof(text)) <= 0 || text[0] == 'm')
		return UINT64_MAX;
	v = cgroup_number(dir, file);
	return v > 1ull << 60 ? UINT64_MAX : v;
}

static uint64_t or_0(uint64_t v)
{
	return v == UINT64_MAX ? 0 : v;
}

static void memory_now(const struct cgroup *cg, struct usage_now *u)
{
	int dir = cg->dir[CGROUP_MEMORY];

	if (dir < 0)
		return;
	if (cg->kind == CGROUP_V1) {
		u->mem_used = cgroup_number(dir, "memory.usage_in_bytes");
		u->mem_peak = cgroup_number(dir, "memory.max_usage_in_bytes");
		u->mem_cache = cgroup_keyed(dir, "memory.stat", "cache");
		u->mem_limit = limit_of(dir, "memory.limit_in_bytes");
		u->oom_kills = or_0(cgroup_keyed(dir, "memory.oom_control", "oom_kill"));
	} else {
		u->mem_used = cgroup_number(dir, "memory.current");
		u->mem_peak = cgroup_number(dir, "memory.peak");
		u->mem_cache = cgroup_keyed(dir, "memory.stat", "file");
		u->mem_limit = limit_of(dir, "memory.max");
		u->oom_kills = or_0(cgroup_keyed(dir, "memory.events", "oom_kill"));
	}
}

void cgroup_usage_now(const struct cgroup *cg, struct usage_now *u)
{
	int pids = cg->kind == CGROUP_V2 ? cg->dir[0] : cg->dir[CGROUP_PIDS];
	int cpu = cg->dir[CGROUP_CPUACCT] >= 0 ? cg->dir[CGROUP_CPUACCT] : cg->dir[CGROUP_CPU];
	uint64_t ns;

	if (cg->kind == CGROUP_NONE)
		return;
	memory_now(cg, u);
	if (pids >= 0) {
		u->pids = cgroup_number(pids, "pids.current");
		u->pids_limit = limit_of(pids, "pids.max");
		u->pids_refused = or_0(cgroup_keyed(pids, "pids.events", "max"));
	}
	if (cg->kind == CGROUP_V2) {
		u->cpu_us = cgroup_keyed(cg->dir[0], "cpu.stat", "usage_usec");
	} else if (cpu >= 0) {
		ns = cgroup_number(cpu, "cpuacct.usage");
		u->cpu_us = ns == UINT64_MAX ? ns : ns / 1000;
	}
}
