/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/cgroup.c - the cgroups of one sandbox.
 *
 * Owns:  the folders named ward-<id> that it makes.
 * Rules: v1 folders lie below the caller's own cgroup, so that limits on the caller hold for the
 *        sandbox too. v2 allows no processes beside child groups, so there root uses /ward and an
 *        ordinary user a delegated group of its own. A limit that was asked for and cannot be set
 *        is an error; there is no "continue without".
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/magic.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/cgroup.h"
#include "tier/cgroup_impl.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

static const char *const v1_names[CGROUP_PARTS] = { "memory", "pids", "cpu", "cpuacct", "freezer" };

static bool limits_asked(const struct plan *plan)
{
	const struct plan_limits *l = &plan->limits;

	return l->memory_asked || l->pids_asked || l->cpus_asked;
}

static bool part_needed(const struct plan *plan, enum cgroup_part part)
{
	const struct plan_limits *l = &plan->limits;

	switch (part) {
	case CGROUP_MEMORY:
		return l->memory_bytes != 0;
	case CGROUP_PIDS:
		return l->pids != 0;
	case CGROUP_CPU:
		return l->cpu_milli != 0 || l->cpu_weight != 0 || plan->live;
	case CGROUP_FREEZER:
		/* Entering it later would stall 10 ms for each process. */
		return plan->live;
	default:
		/* Only to count, for a report: one folder more. */
		return plan->report;
	}
}

/* Not for a limit that was set: for what may be asked later. */
static bool is_optional(const struct plan *plan, enum cgroup_part part)
{
	const struct plan_limits *l = &plan->limits;

	return part == CGROUP_FREEZER || (part == CGROUP_CPU && !l->cpu_milli && !l->cpu_weight);
}

static bool is_fs(const char *path, long magic)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (long)fs.f_type == magic;
}

/* The path of this process in the v1 hierarchy of @name, or in v2 when @name is "". */
static int own_path(const char *table, const char *name, char *ret, size_t cap)
{
	size_t name_len = strlen(name);

	/* Lines look like "4:memory:/a/b", "1:cpu,cpuacct:/" and "0::/c". */
	for (const char *line = table; *line;) {
		const char *end = strchr(line, '\n'), *list = strchr(line, ':'), *path;

		if (!end || !list || list > end)
			return -ENOENT;
		path = memchr(list + 1, ':', (size_t)(end - list - 1));
		if (!path)
			return -ENOENT;
		for (const char *p = list + 1; p <= path;) {
			const char *comma = memchr(p, ',', (size_t)(path - p));
			const char *stop = comma ? comma : path;

			if ((size_t)(stop - p) == name_len && strncmp(p, name, name_len) == 0)
				return str_fmt(ret, cap, "%.*s", (int)(end - path - 1), path + 1);
			p = stop + 1;
		}
		line = end + 1;
	}
	return -ENOENT;
}

static bool same_hierarchy(const char *table)
{
	return strstr(table, "cpu,cpuacct") || strstr(table, "cpuacct,cpu");
}

static int plan_v1(struct cgroup *cg, const struct plan *plan, const char *table, struct err *e)
{
	for (int i = 0; i < CGROUP_PARTS; i++) {
		char own[256];
		int r;

		if (!part_needed(plan, (enum cgroup_part)i))
			continue;
		r = own_path(table, v1_names[i], own, sizeof(own));
		/* Where cpu and cpuacct are one hierarchy, one folder is enough for both; and
		 * nothing is refused because it cannot be counted, or paused later. */
		if (r == -ENOENT && is_optional(plan, (enum cgroup_part)i))
			continue;
		if (i == CGROUP_CPUACCT &&
			(r == -ENOENT || (cg->path[CGROUP_CPU][0] && same_hierarchy(table))))
			continue;
		if (r == 0)
			r = str_fmt(cg->path[i], sizeof(cg->path[i]), CGROUP_ROOT "/%s%s%sward-%s",
				v1_names[i], own, str_eq(own, "/") ? "" : "/", plan->id);
		if (r < 0)
			return err_say(e, -r, "this host's v1 cgroups have no usable %s controller",
				v1_names[i]);
	}
	cg->kind = CGROUP_V1;
	return 0;
}

static int plan_v2(struct cgroup *cg, const struct plan *plan, const char *table, struct err *e)
{
	char own[256];
	int r;

	cg->kind = CGROUP_V2;
	if (geteuid() == 0) {
		r = str_fmt(
			cg->path[0], sizeof(cg->path[0]), CGROUP_ROOT "/ward/ward-%s", plan->id);
	} else {
		r = own_path(table, "", own, sizeof(own));
		if (r == 0)
			r = str_fmt(cg->path[0], sizeof(cg->path[0]), CGROUP_ROOT "%s/ward-%s", own,
				plan->id);
	}
	if (r < 0)
		return err_say(e, -r, "finding this process's own cgroup in /proc/self/cgroup");
	return 0;
}

static bool parent_is_writable(const char *path)
{
	char parent[512];
	char *slash;

	if (str_copy(parent, sizeof(parent), path) < 0)
		return false;
	slash = strrchr(parent, '/');
	*slash = '\0';
	if (access(parent, W_OK) == 0)
		return true;
	/* The folder /ward of v2 is made on first use. */
	slash = strrchr(parent, '/');
	*slash = '\0';
	return errno == ENOENT && access(parent, W_OK) == 0;
}

bool cgroup_is_v2(void)
{
	return is_fs(CGROUP_ROOT, CGROUP2_SUPER_MAGIC);
}

static int find_layout(struct cgroup *cg, const struct plan *plan, struct err *e)
{
	char table[4096];
	ssize_t n = host_get(AT_FDCWD, "/proc/self/cgroup", table, sizeof(table));

	if (n < 0)
		return err_set(e, (int)-n, "reading /proc/self/cgroup");
	if (cgroup_is_v2())
		return plan_v2(cg, plan, table, e);
	if (is_fs(CGROUP_ROOT "/memory", CGROUP_SUPER_MAGIC) ||
		is_fs(CGROUP_ROOT "/pids", CGROUP_SUPER_MAGIC))
		return plan_v1(cg, plan, table, e);
	return err_say(e, ENOENT, "no cgroups are mounted at " CGROUP_ROOT);
}

void cgroup_init(struct cgroup *cg)
{
	*cg = (struct cgroup){ .kind = CGROUP_NONE, .oom = -1 };
	for (int i = 0; i < CGROUP_PARTS; i++)
		cg->dir[i] = cg->tasks[i] = -1;
}

int cgroup_plan(struct cgroup *cg, const struct plan *plan, struct err *e)
{
	int r;

	cgroup_init(cg);
	r = find_layout(cg, plan, e);
	for (int i = 0; r == 0 && i < CGROUP_PARTS; i++) {
		if (cg->path[i][0] && geteuid() != 0 && !parent_is_writable(cg->path[i]))
			r = err_say(e, EACCES,
				"no cgroup is writable for you (%s); run as root, or with "
				"'systemd-run --user --scope -p Delegate=yes'",
				cg->path[i]);
	}
	if (r == 0) {
		cg->memory_limited = plan->limits.memory_bytes != 0;
		cg->pids_limited = plan->limits.pids != 0;
		return 0;
	}
	if (limits_asked(plan))
		return err_wrap(e, r, "a limit was asked for that needs a cgroup");
	cgroup_init(cg);
	/* Only where there is none, or none for us: any other trouble is not a reason to go
	 * without. */
	return r == -EACCES || r == -EPERM || r == -ENOENT || r == -EROFS ? 0 : r;
}

int cgroup_put(const struct cgroup *cg, int part, const char *file, uint64_t value, struct err *e)
{
	char text[32];
	int r;

	snprintf(text, sizeof(text), "%" PRIu64, value);
	r = host_put(cg->dir[part], file, text);
	if (r < 0)
		return err_set(e, -r, "writing %s to %s/%s", text, cg->path[part], file);
	return 0;
}

int cgroup_put_if_there(
	const struct cgroup *cg, int part, const char *file, uint64_t value, struct err *e)
{
	int r = cgroup_put(cg, part, file, value, e);

	return r == -ENOENT ? 0 : r;
}

static int open_part(struct cgroup *cg, int part, struct err *e)
{
	int r = host_mkdirat(AT_FDCWD, cg->path[part], 0755);

	cg->unusable = r == -EROFS || r == -EACCES || r == -EPERM;
	if (r < 0)
		return err_set(e, -r, "making cgroup %s", cg->path[part]);
	cg->made[part] = true;
	cg->dir[part] = host_open(cg->path[part], O_RDONLY | O_DIRECTORY, 0);
	if (cg->dir[part] < 0)
		return err_set(e, -cg->dir[part], "opening cgroup %s", cg->path[part]);
	return 0;
}

/* v1 kills one process and goes on; ask to be told, so that the whole sandbox ends. */
static int watch_oom(struct cgroup *cg, struct err *e)
{
	own_fd int control = host_openat(cg->dir[CGROUP_MEMORY], "memory.oom_control", O_RDONLY, 0);
	char text[32];
	int r;

	if (control < 0)
		return err_set(
			e, -control, "opening %s/memory.oom_control", cg->path[CGROUP_MEMORY]);
	cg->oom = host_eventfd();
	if (cg->oom < 0)
		return err_set(e, -cg->oom, "eventfd for out-of-memory events");
	snprintf(text, sizeof(text), "%d %d", cg->oom, control);
	r = host_put(cg->dir[CGROUP_MEMORY], "cgroup.event_control", text);
	if (r < 0)
		return err_set(
			e, -r, "asking %s for out-of-memory events", cg->path[CGROUP_MEMORY]);
	return 0;
}

int cgroup_limit_cpu(const struct cgroup *cg, const struct plan_limits *l, struct err *e)
{
	const uint64_t quota_us = (uint64_t)l->cpu_milli * CPU_PERIOD_US / 1000;
	char text[64];
	int r = 0;

	if (cg->kind == CGROUP_V1) {
		if (l->cpu_milli)
			r = cgroup_put(cg, CGROUP_CPU, "cpu.cfs_period_us", CPU_PERIOD_US, e);
		if (l->cpu_milli && r == 0)
			r = cgroup_put(cg, CGROUP_CPU, "cpu.cfs_quota_us", quota_us, e);
		/* v2's weight of 100 is v1's 1024 shares. */
		if (l->cpu_weight && r == 0)
			r = cgroup_put(cg, CGROUP_CPU, "cpu.shares",
				(uint64_t)l->cpu_weight * 1024 / 100 + 2, e);
		return r;
	}
	if (l->cpu_weight)
		r = cgroup_put(cg, 0, "cpu.weight", l->cpu_weight, e);
	if (l->cpu_milli && r == 0) {
		snprintf(text, sizeof(text), "%" PRIu64 " %d", quota_us, CPU_PERIOD_US);
		r = host_put(cg->dir[0], "cpu.max", text);
		if (r < 0)
			err_set(e, -r, "writing %s to %s/cpu.max", text, cg->path[0]);
	}
	return r;
}

static int limit_v1(struct cgroup *cg, int part, const struct plan_limits *l, struct err *e)
{
	int r = 0;

	switch (part) {
	case CGROUP_MEMORY:
		r = cgroup_put(cg, part, "memory.limit_in_bytes", l->memory_bytes, e);
		if (r == 0)
			r = cgroup_put_if_there(
				cg, part, "memory.memsw.limit_in_bytes", l->memory_bytes, e);
		if (r == 0)
			r = watch_oom(cg, e);
		break;
	case CGROUP_PIDS:
		r = cgroup_put(cg, part, "pids.max", l->pids, e);
		break;
	case CGROUP_CPU:
		r = cgroup_limit_cpu(cg, l, e);
		break;
	default:
		break;
	}
	return r;
}

static int make_v1(struct cgroup *cg, const struct plan *plan, struct err *e)
{
	for (int i = 0; i < CGROUP_PARTS; i++) {
		int r;

		if (!cg->path[i][0])
			continue;
		r = open_part(cg, i, e);
		if (r == 0)
			r = limit_v1(cg, i, &plan->limits, e);
		if (r < 0)
			return r;
		cg->tasks[i] = host_openat(cg->dir[i], "tasks", O_WRONLY, 0);
		if (cg->tasks[i] < 0)
			return err_set(e, -cg->tasks[i], "opening %s/tasks", cg->path[i]);
	}
	return 0;
}

/* Child groups get a controller only when their parent hands it down. */
static int hand_down(struct cgroup *cg, const char *parent, const struct plan *plan, struct err *e)
{
	own_fd int dir = host_open(parent, O_RDONLY | O_DIRECTORY, 0);
	char text[32] = "";
	int r = 0;

	if (dir < 0)
		return err_set(e, -dir, "opening cgroup %s", parent);
	/* Only what is needed: an ordinary user seldom gets cpu delegated. */
	for (int i = 0; r == 0 && i < CGROUP_CPUACCT; i++) {
		if (!part_needed(plan, (enum cgroup_part)i))
			continue;
		str_fmt(text, sizeof(text), "+%s", v1_names[i]);
		r = host_put(dir, "cgroup.subtree_control", text);
		if (r < 0 && is_optional(plan, (enum cgroup_part)i))
			r = 0;
	}
	/* Not there, not ours, or (in a container) a group with processes that are not ours to
	 * move. */
	cg->unusable = r == -ENOENT || r == -EACCES || r == -EPERM || r == -EROFS || r == -EBUSY ||
		       r == -EOPNOTSUPP;
	if (r < 0)
		return err_set(e, -r, "writing %s to %s/cgroup.subtree_control", text, parent);
	return 0;
}

static int prepare_v2_root(struct cgroup *cg, const struct plan *plan, struct err *e)
{
	int r = host_mkdirat(AT_FDCWD, CGROUP_ROOT "/ward", 0755);

	cg->unusable = r == -EROFS || r == -EACCES || r == -EPERM;
	if (r < 0 && r != -EEXIST)
		return err_set(e, -r, "making cgroup " CGROUP_ROOT "/ward");
	r = hand_down(cg, CGROUP_ROOT, plan, e);
	return r < 0 ? r : hand_down(cg, CGROUP_ROOT "/ward", plan, e);
}

/* An ordinary user's own group holds this very process, so that moves into a leaf of its own. */
static int prepare_v2_own(struct cgroup *cg, const struct plan *plan, struct err *e)
{
	const char *path = cg->path[0];
	char parent[512], leaf[512 + 32];
	int r = str_copy(parent, sizeof(parent), path);

	if (r == 0) {
		*strrchr(parent, '/') = '\0';
		r = str_fmt(leaf, sizeof(leaf), "%s/ward-self", parent);
	}
	if (r < 0)
		return err_say(e, -r, "the cgroup path %s is too long", path);
	r = host_mkdirat(AT_FDCWD, leaf, 0755);
	if (r < 0 && r != -EEXIST)
		return err_set(e, -r, "making cgroup %s", leaf);
	str_fmt(leaf, sizeof(leaf), "%s/ward-self/cgroup.procs", parent);
	r = host_put(AT_FDCWD, leaf, "0");
	cg->unusable = r == -EACCES || r == -EPERM;
	if (r < 0)
		return err_set(e, -r, "moving into %s", leaf);
	return hand_down(cg, parent, plan, e);
}

static int limit_v2(struct cgroup *cg, const struct plan_limits *l, bool live, struct err *e)
{
	int r = 0;

	if (l->memory_bytes) {
		r = cgroup_put(cg, 0, "memory.max", l->memory_bytes, e);
		if (r == 0)
			r = cgroup_put_if_there(cg, 0, "memory.swap.max", 0, e);
		/* One command that is too large ends alone where others live beside it. */
		if (r == 0 && !live)
			r = cgroup_put(cg, 0, "memory.oom.group", 1, e);
	}
	if (l->pids && r == 0)
		r = cgroup_put(cg, 0, "pids.max", l->pids, e);
	return r < 0 ? r : cgroup_limit_cpu(cg, l, e);
}

static int make_v2(struct cgroup *cg, const struct plan *plan, struct err *e)
{
	int r = open_part(cg, 0, e);

	if (r == 0)
		r = limit_v2(cg, &plan->limits, plan->live, e);
	if (r != -ENOENT && r != -EACCES)
		return r;
	/* The parent is not there yet, or hands nothing down yet: set that up, once. */
	if (cg->made[0]) {
		host_unlinkat(AT_FDCWD, cg->path[0], AT_REMOVEDIR);
		cg->made[0] = false;
	}
	if (cg->dir[0] >= 0)
		close(take_fd(&cg->dir[0]));
	r = geteuid() == 0 ? prepare_v2_root(cg, plan, e) : prepare_v2_own(cg, plan, e);
	if (r == 0)
		r = open_part(cg, 0, e);
	return r < 0 ? r : limit_v2(cg, &plan->limits, plan->live, e);
}

int cgroup_make(struct cgroup *cg, const struct plan *plan, struct err *e)
{
	int r = 0;

	if (cg->kind == CGROUP_V1)
		r = make_v1(cg, plan, e);
	else if (cg->kind == CGROUP_V2)
		r = make_v2(cg, plan, e);
	if (r == 0)
		return 0;
	cgroup_drop(cg);
	if (!cg->unusable)
		return r;
	if (limits_asked(plan))
		return err_wrap(e, r, "a limit was asked for that needs a cgroup");
	cgroup_init(cg);
	/* Only where there is none, or none for us: any other trouble is not a reason to go
	 * without. */
	return r == -EACCES || r == -EPERM || r == -ENOENT || r == -EROFS ? 0 : r;
}

int cgroup_enter(const int *tasks, unsigned count, struct err *e)
{
	for (unsigned i = 0; i < count; i++) {
		ssize_t n = host_write(tasks[i], "0", 1);

		if (n < 0)
			return err_set(e, (int)-n, "entering cgroup %u of %u", i + 1, count);
	}
	return 0;
}

uint64_t cgroup_keyed(int dir, const char *file, const char *key)
{
	char text[1024];
	size_t key_len = strlen(key);

	if (host_get(dir, file, text, sizeof(text)) < 0)
		return UINT64_MAX;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, key_len) == 0 && line[key_len] == ' ')
			return strtoull(line + key_len + 1, NULL, 10);
	}
	return UINT64_MAX;
}

uint64_t cgroup_number(int dir, const char *file)
{
	char text[64];

	if (host_get(dir, file, text, sizeof(text)) <= 0)
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

static uint64_t count_or_0(uint64_t v)
{
	return v == UINT64_MAX ? 0 : v;
}

static uint64_t to_us(uint64_t ns)
{
	return ns == UINT64_MAX ? ns : ns / 1000;
}

void cgroup_usage(const struct cgroup *cg, bool all, struct usage *usage)
{
	int memory = cg->dir[CGROUP_MEMORY], cpuacct = cg->dir[CGROUP_CPUACCT];
	int pids = cg->kind == CGROUP_V2 ? cg->dir[0] : cg->dir[CGROUP_PIDS];

	if (memory >= 0 && cg->kind == CGROUP_V1) {
		if (all)
			usage->memory_peak_bytes =
				cgroup_number(memory, "memory.max_usage_in_bytes");
		usage->oom_kills =
			count_or_0(cgroup_keyed(memory, "memory.oom_control", "oom_kill"));
	} else if (memory >= 0) {
		if (all)
			usage->memory_peak_bytes = cgroup_number(memory, "memory.peak");
		usage->oom_kills = count_or_0(cgroup_keyed(memory, "memory.events", "oom_kill"));
	}
	if (all && cg->kind == CGROUP_V1)
		usage->cpu_us = to_us(cgroup_number(
			cpuacct >= 0 ? cpuacct : cg->dir[CGROUP_CPU], "cpuacct.usage"));
	else if (all && cg->kind == CGROUP_V2)
		usage->cpu_us = cgroup_keyed(cg->dir[0], "cpu.stat", "usage_usec");
	if (pids >= 0) {
		usage->pids_refused = count_or_0(cgroup_keyed(pids, "pids.events", "max"));
		if (all)
			usage->pids_peak = cgroup_number(pids, "pids.peak");
	}
}

void cgroup_close(struct cgroup *cg)
{
	for (int i = 0; i < CGROUP_PARTS; i++) {
		if (cg->dir[i] >= 0)
			close(take_fd(&cg->dir[i]));
		if (cg->tasks[i] >= 0)
			close(take_fd(&cg->tasks[i]));
	}
	if (cg->oom >= 0)
		close(take_fd(&cg->oom));
}

bool cgroup_drop(struct cgroup *cg)
{
	bool gone = true;

	for (int i = 0; i < CGROUP_PARTS; i++) {
		/* A process that has just ended can keep its folder busy for a moment. */
		for (int tries = 0; cg->made[i] && tries < 200; tries++) {
			int r = host_unlinkat(AT_FDCWD, cg->path[i], AT_REMOVEDIR);

			if (r == 0 || r == -ENOENT)
				cg->made[i] = false;
			else
				nanosleep(&(struct timespec){ .tv_nsec = tries < 20 ? 100000
										    : 5000000 },
					NULL);
		}
		gone = gone && !cg->made[i];
	}
	cgroup_close(cg);
	return gone;
}

int cgroup_probe(enum cgroup_kind *ret_kind, struct err *e)
{
	struct plan plan = { .id = "probe",
		.limits = { .memory_bytes = 1 << 30, .pids = 64, .memory_asked = true } };
	struct cgroup cg;
	int r = cgroup_plan(&cg, &plan, e);

	*ret_kind = cg.kind;
	return r;
}
