/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/probe_fs.c - overlay and loop.
 *
 * Owns:  nothing that outlives the probe's child.
 * Rules: mounts are made in a mount namespace of the child's own, below a tmpfs there, so that the
 *        host's tree and disks are never touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/mount.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/probe_impl.h"

/*
 * A whole overlay in a tmpfs, with a file copied up and one removed: a mount that succeeds and then
 * is silently read-only is a known trap.
 */
static int try_overlay(const char *extra)
{
	static const char *const dirs[] = { "/tmp/lower", "/tmp/lower/dir", "/tmp/upper",
		"/tmp/work", "/tmp/root" };
	char data[128];
	int fd, r;

	r = host_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (r == 0)
		r = host_mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(dirs); i++)
		r = host_mkdirat(AT_FDCWD, dirs[i], 0755);
	if (r < 0)
		return r;
	fd = host_open("/tmp/lower/file", O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		return fd;
	close(fd);
	r = str_fmt(data, sizeof(data),
		"lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work%s", extra);
	if (r == 0)
		r = host_mount("overlay", "/tmp/root", "overlay", 0, data);
	if (r == 0)
		r = host_put(AT_FDCWD, "/tmp/root/file", "changed");
	if (r == 0)
		r = host_unlinkat(AT_FDCWD, "/tmp/root/file", 0);
	return r;
}

/* Hiding what was below takes an attribute on the upper, which a user's tmpfs may not have. */
static int try_replace(void)
{
	int r = host_unlinkat(AT_FDCWD, "/tmp/root/dir", AT_REMOVEDIR);

	return r < 0 ? r : host_mkdirat(AT_FDCWD, "/tmp/root/dir", 0755);
}

static void answer(struct probe_result *r, int err, const char *who)
{
	if (err < 0) {
		probe_say(r, PROBE_NO, "as %s: %s", who, strerror(-err));
		return;
	}
	err = try_replace();
	if (err == 0) {
		probe_say(r, PROBE_YES, "mounted one as %s, changed a file in it and removed it",
			who);
		return;
	}
	probe_say(r, PROBE_PARTLY,
		"mounted one as %s; a folder of the template that was removed cannot be made "
		"again: %s",
		who, strerror(-err));
	probe_hint(r, "Linux 6.6 or newer, or run ward as root");
}

void probe_overlay_root(struct probe_result *r)
{
	int err;

	if (geteuid() != 0) {
		probe_say(r, PROBE_UNKNOWN, "not tried: needs root");
		probe_hint(r, "run 'ward doctor' as root to know");
		return;
	}
	err = host_unshare(CLONE_NEWNS);
	answer(r, err < 0 ? err : try_overlay(""), "root");
}

void probe_overlay_user(struct probe_result *r)
{
	bool root = geteuid() == 0;
	int err = probe_drop();

	if (err < 0) {
		probe_say(r, PROBE_UNKNOWN, "becoming an ordinary user to try it: %s",
			strerror(-err));
		return;
	}
	err = probe_enter_userns(CLONE_NEWNS);
	answer(r, err < 0 ? err : try_overlay(",userxattr"), root ? "nobody" : "this user");
}

/* Asking for a free device would make one; being able to ask is all we need to know. */
void probe_loop(struct probe_result *r)
{
	own_fd int fd = host_open("/dev/loop-control", O_RDWR, 0);

	if (fd >= 0) {
		probe_say(r, PROBE_YES, "/dev/loop-control can be opened");
	} else if (fd == -EACCES || fd == -EPERM) {
		probe_say(r, PROBE_PARTLY, "present, but root's: /dev/loop-control: %s",
			strerror(-fd));
		probe_hint(r, "run ward as root, or join the group that owns /dev/loop-control");
	} else {
		probe_say(r, PROBE_NO, "/dev/loop-control: %s", strerror(-fd));
	}
}
