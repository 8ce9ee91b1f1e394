/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/mounts.c - host paths that requests may bring in.
 *
 * Owns:  the comparison with the operator's roots.
 * Rules: the path is opened once (O_PATH) and asked for its real name; roots are asked in the same
 *        way, so both are names that the kernel gave. Whoever may change the tree below a root can
 *        swap a folder for a link after the check: a root is for the operator's own data.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "hub/mounts.h"

static int real_name(const char *path, char ret[WARD_PATH_MAX])
{
	own_fd int fd = open(path, O_PATH | O_CLOEXEC);
	char link[64];
	ssize_t n;

	if (fd < 0)
		return -errno;
	str_fmt(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, WARD_PATH_MAX);
	if (n < 0 || n >= WARD_PATH_MAX)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	/* What was removed, or hangs below no root of ours, has no such name. */
	return ret[0] == '/' && !strstr(ret, " (deleted)") ? 0 : -ENOENT;
}

static bool is_below(const char *path, const char *root)
{
	const char *rest = str_after(path, root);

	if (!rest)
		return false;
	return *rest == '\0' || *rest == '/' || str_eq(root, "/");
}

static bool is_in_roots(const struct config_list *roots, const char *path)
{
	char real[WARD_PATH_MAX];

	for (unsigned i = 0; i < roots->count; i++)
		if (real_name(roots->items[i], real) == 0 && is_below(path, real))
			return true;
	return false;
}

static bool is_plain(const char *path)
{
	size_t len = strlen(path);

	return path[0] == '/' && len < WARD_PATH_MAX && !strstr(path, "/../") &&
	       !strstr(path, "/./") && !strstr(path, "//") &&
	       !(len >= 3 && str_eq(path + len - 3, "/..")) &&
	       !(len >= 2 && str_eq(path + len - 2, "/."));
}

int mount_check(const struct config *c, const char *state_dir, const struct hub_mount *m,
	char ret_src[WARD_PATH_MAX], struct hub_fail *f)
{
	char real[WARD_PATH_MAX], state[WARD_PATH_MAX], shown[128];

	str_show(shown, sizeof(shown), m->src);
	if (!is_plain(m->src) || !is_plain(m->dst))
		return hub_fail(f, HUB_INVALID,
			"a mount's source and target are absolute paths without '.', '..' and "
			"'//'");
	if (real_name(m->src, real) < 0 ||
		!(is_in_roots(&c->roots_rw, real) ||
			(m->mode != MOUNT_RW && is_in_roots(&c->roots, real))))
		return hub_fail(f, HUB_FORBIDDEN,
			"the host path '%s' is not below a root that [mounts] in ward.toml lists%s",
			shown, m->mode == MOUNT_RW ? " as writable" : "");
	if (real_name(state_dir, state) < 0 || is_below(real, state) || is_below(state, real))
		return hub_fail(f, HUB_FORBIDDEN,
			"the host path '%s' holds ward's own state or lies in it", shown);
	return str_copy(ret_src, WARD_PATH_MAX, real) < 0
		       ? hub_fail(f, HUB_INVALID, "the host path '%s' is too long", shown)
		       : 0;
}
