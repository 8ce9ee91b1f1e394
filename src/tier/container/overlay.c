/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/overlay.c - an overlay out of descriptors, on new kernels and old ones.
 *
 * Owns:  nothing.
 * Rules: no allocation: the second form runs in the first process of a sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mount.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/container/overlay.h"

static int set_dir(int fs, const char *key, int dir, const char *name)
{
	own_fd int fd = host_openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);

	return fd < 0 ? fd : host_fsconfig_fd(fs, key, fd);
}

int overlay_by_fds(const struct overlay_layers *l, int upper, int *ret_fd, struct err *e)
{
	own_fd int fs = host_fsopen("overlay");
	int r = fs < 0 ? fs : 0;

	for (unsigned i = 0; r == 0 && i < l->count; i++)
		r = host_fsconfig_fd(fs, "lowerdir+", l->lowers[i]);
	if (r == 0)
		r = set_dir(fs, "upperdir", upper, l->up);
	if (r == 0)
		r = set_dir(fs, "workdir", upper, l->work);
	if (r == 0)
		r = host_fsmount(fs, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV);
	if (r < 0)
		return err_set(e, -r, "making an overlay of %u layers", l->count);
	*ret_fd = r;
	return 0;
}

/* Puts a layer at its own folder l<number> below @upper and its path into @data. */
static int attach_lower(int lower, unsigned number, int upper, char *data, size_t cap, size_t *len)
{
	const char *before = *len ? ":" : "lowerdir=";
	char name[16];
	int r = str_fmt(name, sizeof(name), "l%u", number);

	if (r == 0)
		r = host_mkdirat(upper, name, 0700);
	if (r == 0)
		r = host_move_mount(lower, upper, name);
	if (r == 0)
		r = str_fmt(data + *len, cap - *len, "%s/proc/self/fd/%d/%s", before, upper, name);
	*len += strlen(data + *len);
	return r;
}

int overlay_by_paths(const struct overlay_layers *l, int upper, const char *at, bool user_xattr,
	int *ret_fd, struct err *e)
{
	char data[4096], target[64];
	size_t len = 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < l->count; i++)
		r = attach_lower(
			l->lowers[i], l->first_number + i, upper, data, sizeof(data), &len);
	if (r == 0)
		r = str_fmt(data + len, sizeof(data) - len,
			",upperdir=/proc/self/fd/%d/%s,workdir=/proc/self/fd/%d/%s%s", upper, l->up,
			upper, l->work, user_xattr ? ",userxattr" : "");
	if (r == 0)
		r = str_fmt(target, sizeof(target), "/proc/self/fd/%d/%s", upper, at);
	if (r == 0)
		r = host_mount("ward", target, "overlay", MS_NOSUID | MS_NODEV, data);
	if (r < 0)
		return err_set(e, -r, "making an overlay of %u layers", l->count);
	r = host_open_tree(upper, at, 0);
	if (r < 0)
		return err_set(e, -r, "opening the overlay");
	*ret_fd = r;
	return 0;
}
