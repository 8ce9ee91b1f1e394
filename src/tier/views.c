/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/views.c - host directories as a sandbox sees them.
 *
 * Owns:  nothing; a view is its caller's descriptor.
 * Rules: read-only unless asked, without devices and setuid, and seen through the sandbox's id map.
 * A file system that cannot be seen that way is an error, not a reason to show it raw. And private:
 * a copy of a shared mount (systemd shares them all) would bring the sandbox's own mounts to the
 * host, and the host's later ones in.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/views.h"

const char *bind_name(unsigned i)
{
	static const char *const names[] = { "usr", "opt", "bin", "sbin", "lib", "lib32", "lib64",
		"libx32" };

	return i < ARRAY_LEN(names) ? names[i] : NULL;
}

/* On a host without merged /usr these are folders; on others the skeleton has them as links. */
unsigned binds_find(const struct plan *plan)
{
	unsigned bits = 0;

	for (unsigned i = 0; plan->root.kind == ROOT_HOST && bind_name(i); i++) {
		char path[16];
		struct stat st;

		if (str_fmt(path, sizeof(path), "/%s", bind_name(i)) == 0 &&
			lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
			bits |= 1u << i;
	}
	return bits;
}

/* Shows the same to everybody: its owner makes no difference to who may only read it. */
static bool is_public_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH);
}

int view_host(const char *path, unsigned recursive, uint64_t attrs, int user_ns, int *ret_fd,
	struct err *e)
{
	own_fd int fd = host_open_tree(AT_FDCWD, path, WARD_OPEN_TREE_CLONE | recursive);
	struct ward_mount_attr attr = {
		.attr_set = attrs | WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV,
		.propagation = MS_PRIVATE,
	};
	int r;

	if (fd < 0)
		return err_set(e, -fd, "opening %s for the sandbox", path);
	if (user_ns >= 0) {
		attr.attr_set |= WARD_MOUNT_ATTR_IDMAP;
		attr.userns_fd = (uint64_t)user_ns;
	}
	r = host_mount_setattr(fd, "", WARD_AT_EMPTY_PATH | recursive, &attr);
	/* The host's resolv.conf is often a file in /run: a tmpfs, which Linux 6.1 cannot map. */
	if (r == -EINVAL && (attrs & WARD_MOUNT_ATTR_RDONLY) && is_public_file(fd)) {
		attr.attr_set &= ~(uint64_t)WARD_MOUNT_ATTR_IDMAP;
		r = host_mount_setattr(fd, "", WARD_AT_EMPTY_PATH, &attr);
	}
	if (r == -EINVAL)
		return err_say(e, EINVAL,
			"%s is on a file system that cannot be id-mapped by this kernel; move it "
			"to ext4, xfs, "
			"btrfs or (from Linux 6.3) tmpfs",
			path);
	if (r < 0)
		return err_set(e, -r, "restricting %s", path);
	*ret_fd = take_fd(&fd);
	return 0;
}

int view_own(const char *path, uint64_t attrs, int *ret_fd, struct err *e)
{
	struct ward_mount_attr attr = {
		.attr_set = attrs | WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV,
		.propagation = MS_PRIVATE, /* what the host mounts later stays outside */
	};
	/* Recursive, because a user namespace may not look below what is mounted on a directory. */
	int fd = host_open_tree(AT_FDCWD, path, WARD_OPEN_TREE_CLONE | WARD_AT_RECURSIVE), r;

	if (fd < 0)
		return err_set(e, -fd, "opening %s for the sandbox", path);
	*ret_fd = fd;
	r = host_mount_setattr(fd, "", WARD_AT_EMPTY_PATH | WARD_AT_RECURSIVE, &attr);
	if (r < 0)
		return err_set(e, -r, "restricting %s", path);
	return 0;
}
