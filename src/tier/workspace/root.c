/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/root.c - a root that holds what the list names, under the host's own names.
 *
 * Owns:  nothing; all of it belongs to the mount namespace and ends with it.
 * Rules: runs in the first process: no allocation. Landlock alone would leave open what it does not
 *        know: chmod and chown of the user's files, truncation on old kernels, sockets in /run.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <linux/openat2.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/workspace/ws.h"

#define SHM_SIZE "64m"

/* Makes the last part of a target: a folder, or an empty file to mount a file on. */
static int make_last(int dir, const char *name, bool is_dir)
{
	int r = is_dir ? host_mkdirat(dir, name, 0755) : host_mknodat(dir, name, S_IFREG | 0644, 0);

	return r == -EEXIST ? 0 : r;
}

/*
 * Opens @path (absolute) below @root, and makes what is missing. No symlink is followed: one in
 * what was already put there leads back to the host.
 */
static int make_target(int root, const char *path, bool is_dir)
{
	own_fd int at = host_openat(root, ".", O_PATH | O_DIRECTORY, 0);
	char part[NAME_MAX + 1];
	int r = 0;

	while (r == 0 && *path) {
		size_t n;
		bool last;
		int next;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 0 || n > NAME_MAX)
			return n ? -ENAMETOOLONG : -EINVAL;
		memcpy(part, path, n);
		part[n] = '\0';
		path += n;
		last = path[strspn(path, "/")] == '\0';
		next = host_openat2(
			at, part, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
		if (next == -ENOENT) {
			r = make_last(at, part, is_dir || !last);
			if (r == 0)
				next = host_openat2(at, part, O_PATH | O_NOFOLLOW, 0,
					RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
		}
		if (r == 0 && next < 0)
			r = next;
		if (r < 0)
			return r;
		close(at);
		at = next;
		if (last)
			break;
	}
	return take_fd(&at);
}

static int put(int root, const char *path, int mount, bool is_dir)
{
	own_fd int target = make_target(root, path, is_dir);

	return target < 0 ? target : host_move_mount(mount, target, "");
}

static int put_host(int root, const struct ws_rule *rule)
{
	own_fd int fd = host_open_tree(AT_FDCWD, rule->rule.path,
		WARD_OPEN_TREE_CLONE | WARD_AT_RECURSIVE | WARD_OPEN_TREE_CLOEXEC);
	struct ward_mount_attr attr = { .attr_set = WARD_MOUNT_ATTR_NOSUID };
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (rule->place != WS_DEVICE)
		attr.attr_set |= WARD_MOUNT_ATTR_NODEV;
	/* A device is written to on a read-only mount too; its mode and owner are not. */
	if (rule->place == WS_DEVICE || !(rule->rule.may & LL_WRITE))
		attr.attr_set |= WARD_MOUNT_ATTR_RDONLY;
	r = host_mount_setattr(fd, "", WARD_AT_EMPTY_PATH | WARD_AT_RECURSIVE, &attr);
	return r < 0 ? r : put(root, rule->rule.path, fd, S_ISDIR(st.st_mode));
}

static int fresh(int root, const char *path, const char *type, const char *const options[][2],
	unsigned attrs)
{
	own_fd int fs = host_fsopen(type);
	own_fd int fd = -1;
	int r = 0;

	if (fs < 0)
		return fs;
	for (size_t i = 0; r == 0 && options && options[i][0]; i++)
		r = host_fsconfig_str(fs, options[i][0], options[i][1]);
	if (r < 0)
		return r;
	fd = host_fsmount(fs, attrs);
	return fd < 0 ? fd : put(root, path, fd, true);
}

static int put_proc(int root, const struct ws_rule *rule)
{
	int r = fresh(root, "/proc", "proc", NULL,
		WARD_MOUNT_ATTR_RDONLY | WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV |
			WARD_MOUNT_ATTR_NOEXEC);

	/*
	 * In a container whose proc is partly hidden the kernel gives no fresh one. The host's,
	 * read only, shows names of other processes; Landlock keeps what is inside them closed.
	 */
	return r == -EPERM ? put_host(root, rule) : r;
}

static int put_pts(int root)
{
	static const char *const options[][2] = { { "ptmxmode", "0666" }, { "mode", "0620" },
		{ NULL, NULL } };

	return fresh(root, "/dev/pts", "devpts", options,
		WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NOEXEC);
}

static int put_shm(int root)
{
	static const char *const options[][2] = { { "mode", "1777" }, { "size", SHM_SIZE },
		{ NULL, NULL } };

	return fresh(
		root, "/dev/shm", "tmpfs", options, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV);
}

static int put_links(int root)
{
	static const char *const links[][2] = {
		{ "pts/ptmx", "dev/ptmx" },
		{ "/proc/self/fd", "dev/fd" },
		{ "/proc/self/fd/0", "dev/stdin" },
		{ "/proc/self/fd/1", "dev/stdout" },
		{ "/proc/self/fd/2", "dev/stderr" },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(links); i++)
		r = host_symlinkat(links[i][0], root, links[i][1]);
	return r;
}

static int put_overlay(const struct ws_box *b, int root, const struct ws_rule *rule)
{
	own_fd int fd = ws_overlay_mount(b->mode, &b->overlays[rule->overlay]);

	return fd < 0 ? fd : put(root, rule->rule.path, fd, true);
}

static int place(const struct ws_box *b, int root, const struct ws_rule *rule)
{
	int r = -EINVAL;

	switch (rule->place) {
	case WS_BIND:
	case WS_DEVICE:
		r = put_host(root, rule);
		break;
	case WS_PROC:
		r = put_proc(root, rule);
		break;
	case WS_PTS:
		r = put_pts(root);
		break;
	case WS_SHM:
		r = put_shm(root);
		break;
	case WS_OVERLAY:
		r = put_overlay(b, root, rule);
		break;
	}
	return r == -ENOENT && (rule->rule.may & LL_IF_EXISTS) ? 0 : r;
}

static int open_root(const struct ws_box *b)
{
	static const char *const options[][2] = { { "mode", "0755" }, { "size", "4m" },
		{ NULL, NULL } };
	char path[WARD_PATH_MAX];
	own_fd int here = host_open("/", O_PATH | O_DIRECTORY, 0);
	int r = str_fmt(path, sizeof(path), "%s/root", b->dir);

	if (r < 0 || here < 0)
		return r < 0 ? r : here;
	r = fresh(here, path, "tmpfs", options, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV);
	return r < 0 ? r : host_open(path, O_RDONLY | O_DIRECTORY, 0);
}

static int pivot(int root)
{
	struct ward_mount_attr attr = { .attr_set = WARD_MOUNT_ATTR_RDONLY };
	int r = host_fchdir(root);

	if (r == 0)
		r = host_pivot_root(".", ".");
	if (r == 0)
		r = host_umount(".", MNT_DETACH);
	if (r == 0)
		r = host_chdir("/");
	return r < 0 ? r : host_mount_setattr(AT_FDCWD, "/", 0, &attr);
}

int ws_root_make(const struct ws_box *b, struct trail *t, struct err *e)
{
	own_fd int root = -1;
	int r;

	trail_begin(t, STEP_ROOT);
	r = host_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (r < 0)
		return err_set(e, -r, "making the mounts private");
	root = open_root(b);
	if (root < 0)
		return err_set(e, -root, "making the private root");
	for (unsigned i = 0; i < b->rule_count; i++) {
		r = place(b, root, &b->rules[i]);
		if (r < 0)
			return err_set(e, -r, "showing '%s'", b->rules[i].rule.path);
	}
	r = put_links(root);
	if (r < 0)
		return err_set(e, -r, "filling /dev");
	trail_begin(t, STEP_PIVOT);
	r = pivot(root);
	return r < 0 ? err_set(e, -r, "entering the private root") : 0;
}
