/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/jail.c - the walls around a monitor: namespaces, an empty root, limits, no privilege.
 *
 * Owns:  nothing.
 * Rules: for a process that was cloned and does not return. Each thread's filter is filter.c's, and
 *        comes last, when everything is made.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "host/host.h"
#include "jail/caps.h"
#include "tier/vm/vm.h"

enum { FILES_MAX = 512 };

static int new_namespaces(struct err *e)
{
	int r = host_unshare(
		CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP);

	return r < 0 ? err_set(e, -r, "making the monitor's namespaces") : 0;
}

/* A root with nothing in it. */
static int empty_root(struct err *e)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
			"size=4k,nr_inodes=2,mode=0555") < 0)
		return err_set(e, errno, "making an empty root");
	if (chdir("/tmp") < 0 || host_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
		mount(NULL, "/", NULL,
			MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
			NULL) < 0)
		return err_set(e, errno, "entering the empty root");
	return 0;
}

/* @id 0: ward is not root, and stays who it is. */
static int drop_privileges(uint32_t id, struct err *e)
{
	gid_t none[1] = { 0 };
	int r = jail_bound(0, e);

	if (r < 0)
		return r;
	r = host_prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (r == 0 && id)
		r = host_setids(id, id, none, 0);
	if (r == 0)
		r = host_capset(0, 0, 0);
	/* Cleared by the change of ids. */
	if (r == 0)
		r = host_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (r == 0)
		r = host_prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return r < 0 ? err_set(e, -r, "dropping privileges") : 0;
}

static int limit(struct err *e)
{
	static const struct {
		int what;
		rlim_t most;
	} limits[] = { { RLIMIT_CORE, 0 }, { RLIMIT_NOFILE, FILES_MAX }, { RLIMIT_FSIZE, 0 } };

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int r = host_setrlimit(
			limits[i].what, &(struct rlimit){ limits[i].most, limits[i].most });

		if (r < 0)
			return err_set(e, -r, "setting the monitor's limits");
	}
	return 0;
}

int vmjail_enter(struct trail *trail, uint32_t id, struct err *e)
{
	int r;

	trail_begin(trail, STEP_UNSHARE);
	r = new_namespaces(e);
	if (r < 0)
		return r;
	trail_begin(trail, STEP_ROOT);
	r = empty_root(e);
	if (r < 0)
		return r;
	trail_begin(trail, STEP_RLIMITS);
	r = limit(e);
	if (r < 0)
		return r;
	trail_begin(trail, STEP_CAPS);
	return drop_privileges(id, e);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int vmjail_keep_only(int *fds, unsigned count, struct err *e)
{
	unsigned next = STDERR_FILENO + 1;

	qsort(fds, count, sizeof(fds[0]), by_number);
	for (unsigned i = 0; i <= count; i++) {
		unsigned end = i < count ? (unsigned)fds[i] : ~0u;

		if (i < count && (fds[i] < 0 || end < next))
			continue;
		if (end > next && syscall(SYS_close_range, next, i < count ? end - 1 : end, 0) < 0)
			return err_set(e, errno, "closing what is not the machine's");
		next = end + 1;
	}
	return 0;
}
