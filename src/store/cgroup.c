/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/cgroup.c - ends and removes the cgroup of a sandbox whose ward is gone.
 *
 * Owns:  nothing.
 * Rules: v1 and v2 alike. A pid is signalled only through a descriptor that was taken before the
 *        pid was seen (again) in the cgroup, so a recycled pid is never hit.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/vfs.h>
#include <linux/magic.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/undo.h"

enum { PROCS_BYTES = 4096, PIDS_PER_ROUND = 64, PAUSE_NS = 500000 };

void cgroup_choke(const char *path)
{
	own_fd int fd = host_open(path, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return; /* cgroup_remove() says why */
	/* Either file may not exist here; what counts is whether the processes go, seen later. */
	host_put(fd, "pids.max", "0");
	host_put(fd, "cgroup.kill", "1");
}

/* A process that stands still does not die: let it go, once its end is on its way. */
static void thaw(int dir)
{
	host_put(dir, "freezer.state", "THAWED");
	host_put(dir, "cgroup.freeze", "0");
}

static unsigned read_pids(int dir, pid_t pids[PIDS_PER_ROUND])
{
	char text[PROCS_BYTES];
	unsigned n = 0;
	char *p = text;

	/* A longer list is cut in the middle of a number; only what ends in a newline counts. */
	if (host_get(dir, "cgroup.procs", text, sizeof(text)) <= 0)
		return 0;
	for (char *nl; n < PIDS_PER_ROUND && (nl = strchr(p, '\n')); p = nl + 1)
		pids[n++] = (pid_t)strtol(p, NULL, 10);
	return n;
}

static bool is_listed(const pid_t *pids, unsigned count, pid_t pid)
{
	for (unsigned i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static void kill_round(int dir)
{
	pid_t pids[PIDS_PER_ROUND], again[PIDS_PER_ROUND];
	int fds[PIDS_PER_ROUND];
	unsigned n = read_pids(dir, pids), m;

	for (unsigned i = 0; i < n; i++)
		fds[i] = pids[i] > 0 && pids[i] != getpid() ? host_pidfd_open(pids[i]) : -1;
	m = n ? read_pids(dir, again) : 0;
	for (unsigned i = 0; i < n; i++) {
		if (fds[i] < 0)
			continue;
		if (is_listed(again, m, pids[i]))
			host_pidfd_kill(fds[i], SIGKILL);
		host_close(fds[i]);
	}
}

/* Kills and removes what is below @dir, and kills in @dir itself; one round. */
static void clear(int dir, unsigned depth)
{
	_Alignas(struct host_dirent) char room[PROCS_BYTES];
	ssize_t n;

	kill_round(dir);
	if (depth >= CGROUP_DEPTH_MAX || host_rewind(dir) < 0)
		return;
	while ((n = host_getdents(dir, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);
			own_fd int sub = -1;

			at += d->d_reclen;
			if (d->d_type != DT_DIR || str_eq(d->d_name, ".") ||
				str_eq(d->d_name, ".."))
				continue;
			sub = host_openat(dir, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
			if (sub >= 0)
				clear(sub, depth + 1);
			host_unlinkat(dir, d->d_name, AT_REMOVEDIR);
		}
	}
}

static int check_type(int fd, const char *path, struct err *e)
{
	struct statfs fs;
	int r = host_fstatfs(fd, &fs);

	if (r < 0)
		return err_set(e, -r, "looking at cgroup '%s'", path);
	if (fs.f_type != CGROUP_SUPER_MAGIC && fs.f_type != CGROUP2_SUPER_MAGIC)
		return err_say(e, EINVAL, "'%s' is not a cgroup", path);
	return 0;
}

int cgroup_remove(const char *path, struct err *e)
{
	const uint64_t end = clock_ns() + UNDO_WAIT_MS * 1000000ull;
	own_fd int fd = host_open(path, O_RDONLY | O_DIRECTORY, 0);
	int r;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_set(e, -fd, "opening cgroup '%s'", path);
	r = check_type(fd, path, e);
	if (r < 0)
		return r;
	while ((r = host_unlinkat(AT_FDCWD, path, AT_REMOVEDIR)) == -EBUSY) {
		if (clock_ns() > end)
			return err_say(e, EBUSY,
				"cgroup '%s' still has processes %d ms after they were killed",
				path, UNDO_WAIT_MS);
		clear(fd, 0);
		thaw(fd);
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "removing cgroup '%s'", path);
	return 0;
}
