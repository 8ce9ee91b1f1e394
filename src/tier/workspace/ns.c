/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/ns.c - which namespaces this host gives us, and overlays in them.
 *
 * Owns:  the options of an overlay.
 * Rules: what is tried is tried in a process of its own, with the calls that a start will make: a
 *        host that allows the namespace but not the mount in it (some hardened kernels) is found
 * out here and not half-way.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "plan/source.h"
#include "tier/workspace/ws.h"

/* One id, the caller's own, under its own number. */
int ws_map_self(uid_t uid, gid_t gid, struct err *e)
{
	char map[64];
	int r = host_put(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r == 0)
		r = str_fmt(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
	if (r == 0)
		r = host_put(AT_FDCWD, "/proc/self/gid_map", map);
	if (r == 0)
		r = str_fmt(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
	if (r == 0)
		r = host_put(AT_FDCWD, "/proc/self/uid_map", map);
	return r < 0 ? err_set(e, -r, "mapping the user's own id into its namespace") : 0;
}

int ws_enter(enum workspace_mode mode, int flags, struct err *e)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r;

	if (mode == WORKSPACE_PLAIN)
		return err_say(e, EPERM, "this host gives no namespaces");
	r = host_unshare(flags | (mode == WORKSPACE_USER ? CLONE_NEWUSER : 0));
	if (r < 0)
		return err_set(e, -r, "making namespaces");
	if (mode == WORKSPACE_USER)
		r = ws_map_self(uid, gid, e);
	if (r < 0)
		return r;
	r = host_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return r < 0 ? err_set(e, -r, "making the mounts private") : 0;
}

/* Runs in a child: enter, and mount @o if there is one. */
static bool try_it(enum workspace_mode mode, const struct ws_overlay *o)
{
	pid_t pid = fork(), r;
	int status = 1;

	if (pid == 0) {
		if (ws_enter(mode, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC, NULL) < 0)
			_exit(1);
		_exit(o && ws_overlay_mount(mode, o) < 0);
	}
	if (pid < 0)
		return false;
	do
		r = waitpid(pid, &status, 0);
	while (r < 0 && errno == EINTR);
	return r == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

enum workspace_mode ws_mode_pick(void)
{
	if (geteuid() == 0 && try_it(WORKSPACE_ROOT, NULL))
		return WORKSPACE_ROOT;
	return try_it(WORKSPACE_USER, NULL) ? WORKSPACE_USER : WORKSPACE_PLAIN;
}

bool ws_overlay_works(enum workspace_mode mode, const struct ws_overlay *o)
{
	return mode != WORKSPACE_PLAIN && try_it(mode, o);
}

/* By descriptor, since a path may hold the ':' and ',' that separate options. */
static int set_dir(int fs, const char *key, int a, int b)
{
	char text[80];
	int r = b < 0 ? str_fmt(text, sizeof(text), "/proc/self/fd/%d", a)
		      : str_fmt(text, sizeof(text), "/proc/self/fd/%d:/proc/self/fd/%d", a, b);

	return r < 0 ? r : host_fsconfig_str(fs, key, text);
}

int ws_overlay_mount(enum workspace_mode mode, const struct ws_overlay *o)
{
	own_fd int lower = host_open(o->lower, O_PATH | O_DIRECTORY, 0);
	own_fd int upper = host_open(o->upper, O_PATH | O_DIRECTORY, 0);
	own_fd int work = o->work ? host_open(o->work, O_PATH | O_DIRECTORY, 0) : -1;
	own_fd int fs = -1;
	int r;

	if (lower < 0 || upper < 0 || (o->work && work < 0))
		return lower < 0 ? lower : upper < 0 ? upper : work;
	fs = host_fsopen("overlay");
	if (fs < 0)
		return fs;
	if (o->work) {
		r = set_dir(fs, "lowerdir", lower, -1);
		if (r == 0)
			r = set_dir(fs, "upperdir", upper, -1);
		if (r == 0)
			r = set_dir(fs, "workdir", work, -1);
	} else {
		r = set_dir(fs, "lowerdir", upper, lower);
	}
	/* Whatever the kernel's defaults are: an upper folder must hold whole files under their
	 * names. */
	if (r == 0)
		r = host_fsconfig_str(fs, "redirect_dir", "nofollow");
	if (r == 0)
		r = host_fsconfig_str(fs, "metacopy", "off");
	if (r == 0 && mode == WORKSPACE_USER)
		r = host_fsconfig_str(fs, "userxattr", NULL);
	if (r < 0)
		return r;
	return host_fsmount(fs, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV |
					(o->work ? 0 : WARD_MOUNT_ATTR_RDONLY));
}

int workspace_view(const struct workspace_record *rec, struct err *e)
{
	bool entered = false;

	for (unsigned i = 0; i < rec->count; i++) {
		const struct workspace_source *s = &rec->sources[i];
		struct ws_overlay o = { .lower = s->src, .upper = s->upper };
		own_fd int fd = -1;
		int r;

		if (s->kind != SOURCE_DIR || !*s->upper)
			continue;
		r = entered ? 0 : ws_enter(rec->mode, CLONE_NEWNS, e);
		if (r < 0)
			return r;
		entered = true;
		fd = ws_overlay_mount(rec->mode, &o);
		r = fd < 0 ? fd : host_move_mount(fd, AT_FDCWD, s->work);
		if (r < 0)
			return err_set(e, -r, "looking at what was changed in '%s'", s->src);
	}
	return 0;
}
