/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/limits.c - the limits that need no cgroup.
 *
 * Owns:  which limit becomes which.
 * Rules: a limit that was asked for holds or the run is refused. RLIMIT_AS is not a memory limit:
 * it counts what is mapped, and breaks programs that map much and touch little.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/parse.h"
#include "host/host.h"
#include "tier/workspace/ws.h"

/* Threads of @uid that are there already: the kernel counts those too. */
static uint64_t threads_of(uid_t uid)
{
	DIR *d = opendir("/proc");
	uint64_t count = 0, pid;
	struct dirent *de;
	struct stat st;

	while (d && (de = readdir(d))) {
		char path[64];

		if (parse_u64(de->d_name, 1, INT32_MAX, &pid) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
		if (stat(path, &st) == 0 && st.st_uid == uid)
			count += st.st_nlink - 2;
	}
	if (d)
		closedir(d);
	return count;
}

static int set(int what, uint64_t value)
{
	struct rlimit now, want = { value, value };

	if (getrlimit(what, &now) < 0)
		return -errno;
	if (now.rlim_max < value)
		want.rlim_cur = want.rlim_max = now.rlim_max;
	return host_setrlimit(what, &want);
}

/*
 * RLIMIT_NPROC counts the processes of a user, not those of a sandbox: in a user namespace of its
 * own that is the same, without one the user's others are added, and root is never limited by it.
 */
uint64_t ws_limits_pids(const struct ws_box *b)
{
	uint64_t pids = b->box.plan->limits.pids;

	if (b->cg.pids_limited)
		return 0;
	if (pids && b->mode == WORKSPACE_PLAIN)
		pids += threads_of(geteuid());
	return pids;
}

int ws_limits_set(const struct ws_box *b, struct err *e)
{
	const struct plan_limits *l = &b->box.plan->limits;
	int r = set(RLIMIT_CORE, 0);

	if (r == 0 && l->disk_bytes)
		r = set(RLIMIT_FSIZE, l->disk_bytes);
	if (r == 0 && b->pids)
		r = set(RLIMIT_NPROC, b->pids);
	return r < 0 ? err_set(e, -r, "setting process limits") : 0;
}
