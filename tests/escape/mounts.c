/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/escape/mounts.c - mounting, with the old calls and the new.
 *
 * Owns:  nothing.
 * Rules: natively in a mount namespace of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "escape.h"

enum {
	NR_open_tree = 428,
	NR_move_mount = 429,
	NR_fsopen = 430,
	NR_fspick = 433,
	NR_mount_setattr = 442
};

static int mount_type(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(mount("none", "/tmp", a->path, 0, a->n ? "memory" : NULL));
}

static int mount_bind(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(mount("/usr", "/tmp", NULL, MS_BIND | MS_REC, NULL));
}

static int remount(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(mount(NULL, a->path, NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int propagate(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL));
}

static int unmount(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(umount2(a->path, MNT_DETACH));
}

static int pivot(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	/* Natively "." is no mount point; the kernel says so after the permission check. */
	return outcome(syscall(SYS_pivot_root, ".", "."));
}

static int fs_open(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(syscall(NR_fsopen, a->path, 1));
}

static int fs_pick(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(NR_fspick, AT_FDCWD, "/", 1));
}

static int tree_clone(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(syscall(NR_open_tree, AT_FDCWD, "/usr", 1 | O_CLOEXEC | a->n));
}

static int mount_move(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(NR_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/tmp", 0));
}

static int set_attr(const struct facts *f, const struct attempt *a)
{
	struct {
		uint64_t set, clear, propagation, userns;
	} attr = { .clear = 1 }; /* read-only off */

	(void)f;
	(void)a;
	return outcome(syscall(NR_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof(attr)));
}

/* clang-format off */
const struct attempt mount_attempts[] = {
	{ "mount-tmpfs", mount_type, "tmpfs", 0, "ok", DENY, DENY, true },
	{ "mount-proc", mount_type, "proc", 0, "ok", DENY, DENY, true },
	{ "mount-sysfs", mount_type, "sysfs", 0, "ok", DENY, DENY, true },
	{ "mount-cgroup", mount_type, "cgroup", 1, "ok EBUSY EINVAL ENODEV", DENY, DENY, true },
	{ "mount-cgroup2", mount_type, "cgroup2", 0, "ok EBUSY", DENY, DENY, true },
	{ "mount-bind", mount_bind, NULL, 0, "ok", DENY, DENY, true },
	{ "remount-root", remount, "/", 0, "ok", DENY, DENY, true },
	{ "remount-proc", remount, "/proc", 0, "ok", DENY, DENY, true },
	{ "mount-shared", propagate, NULL, 0, "ok", DENY, DENY, true },
	{ "umount-proc", unmount, "/proc", 0, "ok", DENY, DENY, true },
	{ "umount-dev", unmount, "/dev", 0, "ok", DENY, DENY, true },
	{ "pivot-root", pivot, NULL, 0, "EINVAL EBUSY", DENY, DENY, true },
	{ "fsopen-tmpfs", fs_open, "tmpfs", 0, "ok", DENY, DENY, true },
	{ "fsopen-proc", fs_open, "proc", 0, "ok", DENY, DENY, true },
	{ "fspick", fs_pick, NULL, 0, "ok", DENY, DENY, true },
	{ "open-tree-clone", tree_clone, NULL, 0, "ok", DENY, DENY, true },
	{ "open-tree-clone-all", tree_clone, NULL, 0x8000, "ok", DENY, DENY, true },
	{ "move-mount", mount_move, NULL, 0, "ok", DENY, DENY, true },
	{ "mount-setattr", set_attr, NULL, 0, "ok", DENY, DENY, true },
	{ 0 },
};
/* clang-format on */
