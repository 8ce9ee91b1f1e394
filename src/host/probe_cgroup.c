/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/probe_cgroup.c - which cgroup layout this host has, and what of it the caller may use.
 *
 * Owns:  nothing.
 * Rules: only looks. Making a cgroup to see if one can would leave it behind if we died there.
 */
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/probe_impl.h"

/* The controllers behind --memory, --pids and --cpus. */
static const char *const wanted[] = { "memory", "pids", "cpu" };

struct layout {
	char v2[WARD_PATH_MAX];                    /* where cgroup2 is mounted; empty: nowhere */
	char v2_home[WARD_PATH_MAX];               /* where the caller would make groups */
	char v2_controllers[256];                  /* of that group, with blanks around each */
	char v1[ARRAY_LEN(wanted)][WARD_PATH_MAX]; /* the same on v1, per wanted controller */
	char v1_all[136];                          /* all controllers on v1: "cpu, memory" */
};

/* Is @name one of the comma-separated @list? */
static bool in_list(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",\n:") == n && strncmp(p, name, n) == 0)
			return true;
	return false;
}

/*
 * The group below which the caller would make new ones, in the hierarchy that @controller is on (""
 * is v2): the top for root, the own group for others, who get no other delegated to them.
 */
static int home_group(const char *controller, char *out, size_t cap)
{
	own_file FILE *f = NULL;
	char line[WARD_PATH_MAX];

	if (geteuid() == 0)
		return str_copy(out, cap, "");
	f = fopen("/proc/self/cgroup", "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		path[strcspn(path, "\n")] = '\0';
		*path++ = '\0';
		if (*controller ? in_list(list + 1, controller) : list[1] == '\0')
			return str_copy(out, cap, str_eq(path, "/") ? "" : path);
	}
	return -ENOENT;
}

static void note_v1(struct layout *l, const struct mntent *m)
{
	static const char *const all[] = { "cpu", "cpuacct", "cpuset", "memory", "pids", "devices",
		"freezer", "blkio", "net_cls", "net_prio", "perf_event", "hugetlb", "rdma",
		"misc" };
	char group[WARD_PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		size_t at = strlen(l->v1_all);

		if (in_list(m->mnt_opts, all[i]))
			snprintf(l->v1_all + at, sizeof(l->v1_all) - at, "%s%s", at ? ", " : "",
				all[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (in_list(m->mnt_opts, wanted[i]) &&
			home_group(wanted[i], group, sizeof(group)) == 0)
			str_fmt(l->v1[i], sizeof(l->v1[i]), "%s%s", m->mnt_dir, group);
}

static void note_v2(struct layout *l, const struct mntent *m)
{
	char group[WARD_PATH_MAX], path[WARD_PATH_MAX], text[200] = "";

	if (str_copy(l->v2, sizeof(l->v2), m->mnt_dir) < 0 ||
		home_group("", group, sizeof(group)) < 0 ||
		str_fmt(l->v2_home, sizeof(l->v2_home), "%s%s", l->v2, group) < 0 ||
		str_fmt(path, sizeof(path), "%s/cgroup.controllers", l->v2_home) < 0)
		return;
	if (host_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	str_fmt(l->v2_controllers, sizeof(l->v2_controllers), " %s ", text);
}

static int read_layout(struct layout *l)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *m;

	if (!f)
		return -errno;
	while ((m = getmntent(f))) {
		if (str_eq(m->mnt_type, "cgroup"))
			note_v1(l, m);
		else if (str_eq(m->mnt_type, "cgroup2") && !l->v2[0])
			note_v2(l, m);
	}
	endmntent(f);
	return 0;
}

static bool on_v2(const struct layout *l, const char *controller)
{
	char word[32];

	return str_fmt(word, sizeof(word), " %s ", controller) == 0 &&
	       strstr(l->v2_controllers, word);
}

/* May the caller make a group there? On v2 that also takes the right to move itself into it. */
static bool may_use(const struct layout *l, unsigned i)
{
	char procs[WARD_PATH_MAX];

	if (l->v1[i][0])
		return faccessat(AT_FDCWD, l->v1[i], W_OK, AT_EACCESS) == 0;
	return on_v2(l, wanted[i]) && faccessat(AT_FDCWD, l->v2_home, W_OK, AT_EACCESS) == 0 &&
	       str_fmt(procs, sizeof(procs), "%s/cgroup.procs", l->v2_home) == 0 &&
	       faccessat(AT_FDCWD, procs, W_OK, AT_EACCESS) == 0;
}

static const char *layout_name(const struct layout *l)
{
	if (!l->v1_all[0])
		return l->v2[0] ? "v2" : "none";
	return l->v2[0] ? "hybrid" : "v1";
}

static const char *where_text(const struct layout *l, unsigned i)
{
	bool use = may_use(l, i);

	if (l->v1[i][0])
		return use ? "on v1" : "on v1, not writable";
	if (on_v2(l, wanted[i]))
		return use ? "on v2" : "on v2, not writable";
	return "missing";
}

/* "memory, pids, cpu on v1"; "memory on v1; pids missing; cpu on v2, not writable" */
static void describe(const struct layout *l, char *out, size_t cap)
{
	*out = '\0';
	for (unsigned i = 0; i < ARRAY_LEN(wanted); i++) {
		const char *here = where_text(l, i);
		const char *next = i + 1 < ARRAY_LEN(wanted) ? where_text(l, i + 1) : "";
		size_t at = strlen(out);

		if (str_eq(here, next))
			snprintf(out + at, cap - at, "%s, ", wanted[i]);
		else
			snprintf(out + at, cap - at, "%s %s%s", wanted[i], here, *next ? "; " : "");
	}
}

void probe_cgroup(struct probe_result *r)
{
	unsigned have = 0, use = 0;
	struct layout l = { 0 };
	char text[160];
	int err = read_layout(&l);

	if (err < 0) {
		probe_say(r, PROBE_UNKNOWN, "reading /proc/self/mounts: %s", strerror(-err));
		return;
	}
	describe(&l, text, sizeof(text));
	for (unsigned i = 0; i < ARRAY_LEN(wanted); i++) {
		have += l.v1[i][0] || on_v2(&l, wanted[i]);
		use += may_use(&l, i);
	}
	probe_fact(r, "layout", "%s", layout_name(&l));
	probe_fact(r, "v1_controllers", "%s", l.v1_all);
	probe_fact(r, "v2_controllers", "%.*s",
		(int)strlen(l.v2_controllers) > 2 ? (int)strlen(l.v2_controllers) - 2 : 0,
		l.v2_controllers + 1);
	probe_fact(r, "v2_mount", "%.100s", l.v2);
	probe_fact(r, "limits", "%s", text);
	probe_fact(r, "writable", "%s", use == ARRAY_LEN(wanted) ? "yes" : use ? "partly" : "no");
	if (!have)
		probe_say(r, PROBE_NO, "%s: no controller for memory, processes or CPU",
			layout_name(&l));
	else
		probe_say(r, use == ARRAY_LEN(wanted) ? PROBE_YES : PROBE_PARTLY, "%s: %s",
			layout_name(&l), text);
	if (have && use < have && geteuid() != 0)
		probe_hint(r, "run under 'systemd-run --user --scope -p Delegate=yes', or as root; "
			      "without, "
			      "limits fall back to rlimits");
}
