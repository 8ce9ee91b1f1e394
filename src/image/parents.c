/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/parents.c - the folder that an entry of a layer goes into.
 *
 * Owns:  the descriptor of the last one.
 * Rules: no part of a path is ever a link: neither by the quick way, one openat2 that refuses them,
 *        nor by the slow one, part by part. A folder, once made, stays a folder, so that the
 *        descriptor of the last parent can be kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/unpack_impl.h"

bool unpack_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

int unpack_set_opaque(const struct unpack *u, int dir, struct err *e)
{
	const char *name = u->by_root ? "trusted.overlay.opaque" : "user.overlay.opaque";

	/* The kernel tier's process has no capability, so it cannot see the trusted one. */
	if (u->by_root && fsetxattr(dir, "user.overlay.opaque", "y", 1, 0) < 0 && errno != ENOTSUP)
		return err_set(e, errno, "marking a folder as opaque with user.overlay.opaque");
	if (fsetxattr(dir, name, "y", 1, 0) == 0)
		return 0;
	return err_set(e, errno,
		"marking a folder as opaque with %s; the state directory needs a file system "
		"that has it",
		name);
}

int unpack_make_folder(
	const struct unpack *u, int dir, const char *name, bool hides, int *ret_fd, struct err *e)
{
	own_fd int fd = -1;
	int r = 0;

	if (hides)
		r = host_unlinkat(dir, name, 0);
	if (r == 0)
		r = host_mkdirat(dir, name, 0700);
	if (r == 0) {
		fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		r = fd < 0 ? fd : 0;
	}
	if (r < 0)
		return err_set(e, -r, "making a folder");
	if (hides)
		r = unpack_set_opaque(u, fd, e);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* One step down. A folder that the layer did not name before its contents is made here. */
static int step(
	struct unpack *u, int dir, const char *name, const char *path, int *ret_fd, struct err *e)
{
	int r, fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	char shown[96];
	struct stat st;
	bool hides = false;

	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	str_show(shown, sizeof(shown), path);
	if (fd != -ENOENT) {
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(e, errno, "its folder '%s'", shown);
		hides = unpack_is_whiteout(&st);
		if (S_ISLNK(st.st_mode))
			return err_say(e, ELOOP, "its path leads through the link '%s'", shown);
		if (!hides && !S_ISDIR(st.st_mode))
			return err_say(e, ENOTDIR,
				"its path leads through '%s', which is no folder", shown);
		if (!hides)
			return err_set(e, -fd, "its folder '%s'", shown);
	}
	r = unpack_make_folder(u, dir, name, hides, ret_fd, e);
	if (r == 0)
		r = folders_add(&u->folders, path, 0755, NULL, e);
	return r;
}

static int walk(struct unpack *u, const char *path, int *ret_fd, struct err *e)
{
	char part[IMAGE_NAME_MAX + 1];
	own_fd int at = -1;
	size_t len = 0;

	while (path[len]) {
		size_t begin = len + (path[len] == '/');
		char name[256];
		int r, next;

		len = begin + strcspn(path + begin, "/");
		memcpy(part, path, len);
		part[len] = '\0';
		r = str_copy(name, sizeof(name), part + begin);
		if (r == 0)
			r = step(u, at < 0 ? u->root : at, name, part, &next, e);
		if (r < 0)
			return r;
		if (at >= 0)
			host_close(at);
		at = next;
	}
	*ret_fd = take_fd(&at);
	return 0;
}

int unpack_parent(struct unpack *u, const char *path, int *ret_fd, struct err *e)
{
	int fd, r;

	if (!*path) {
		*ret_fd = u->root;
		return 0;
	}
	if (u->parent_fd >= 0 && str_eq(path, u->parent)) {
		*ret_fd = u->parent_fd;
		return 0;
	}
	fd = host_openat2(u->root, path, O_RDONLY | O_DIRECTORY, 0, BELOW);
	if (fd < 0) { /* missing, or in the way: step by step, to say which part it is */
		r = walk(u, path, &fd, e);
		if (r < 0)
			return r;
	}
	if (u->parent_fd >= 0)
		host_close(u->parent_fd);
	u->parent_fd = *ret_fd = fd;
	return str_copy(u->parent, sizeof(u->parent), path);
}
