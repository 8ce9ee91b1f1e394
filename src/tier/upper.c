/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/upper.c - what takes a sandbox's writes, with a size that holds.
 *
 * Owns:  nothing; the mount is the caller's.
 * Rules: a tmpfs counts against the sandbox's memory, so it serves as long as it can be at most
 * half of that; above, an ext4 in an unlinked file behind a loop device that detaches itself. Both
 *        vanish with their last user: there is nothing to clean up after kill -9.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <linux/loop.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/upper.h"

enum { INODES_BASE = 65536, BYTES_PER_INODE = 8192, LOOP_BYTES_MIN = 1 << 20 };

static int upper_tmpfs(const struct plan *plan, int *ret_fd, struct err *e)
{
	own_fd int fs = host_fsopen("tmpfs");
	char size[32], inodes[32];
	int r = fs < 0 ? fs : 0;

	snprintf(size, sizeof(size), "%" PRIu64, plan->limits.disk_bytes);
	snprintf(inodes, sizeof(inodes), "%" PRIu64,
		INODES_BASE + plan->limits.disk_bytes / BYTES_PER_INODE);
	if (r == 0)
		r = host_fsconfig_str(fs, "size", size);
	if (r == 0)
		r = host_fsconfig_str(fs, "nr_inodes", inodes);
	if (r == 0)
		r = host_fsmount(fs, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV);
	if (r < 0)
		return err_set(
			e, -r, "mounting a tmpfs of %s bytes for the sandbox's writes", size);
	*ret_fd = r;
	return 0;
}

static int format(int file, uint64_t bytes, struct err *e)
{
	char path[64];
	char *argv[] = { (char *)"/sbin/mke2fs", (char *)"-q", (char *)"-F", (char *)"-t",
		(char *)"ext4", (char *)"-m", (char *)"0", (char *)"-O", (char *)"^has_journal",
		(char *)"-E", (char *)"lazy_itable_init=1,nodiscard", path, NULL };
	char *no_env[] = { NULL };
	posix_spawn_file_actions_t actions;
	int status, r;
	pid_t pid;

	r = host_ftruncate(file, (off_t)bytes);
	if (r < 0)
		return err_set(e, -r, "making a file of %" PRIu64 " bytes for the sandbox's writes",
			bytes);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", 3);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, file, 3);
	r = posix_spawn(&pid, argv[0], &actions, NULL, argv, no_env);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return err_set(e, r, "starting %s (apt-get install e2fsprogs)", argv[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "waiting for mke2fs");
	if (status != 0)
		return err_say(e, EIO, "mke2fs failed on a file of %" PRIu64 " bytes", bytes);
	return 0;
}

/* Takes a free loop device; another process may be quicker, so try again. */
static int loop_attach(int file, char *ret_path, size_t cap, struct err *e)
{
	own_fd int control = host_open("/dev/loop-control", O_RDWR, 0);
	struct loop_config config = { .fd = (uint32_t)file,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR } };

	if (control < 0)
		return err_set(e, -control, "opening /dev/loop-control (modprobe loop)");
	for (int tries = 0; tries < 64; tries++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE), dev;

		if (number < 0)
			return err_set(e, errno, "finding a free loop device");
		if (str_fmt(ret_path, cap, "/dev/loop%d", number) < 0)
			return err_say(e, ENAMETOOLONG, "loop device %d", number);
		dev = host_open(ret_path, O_RDWR, 0);
		if (dev < 0)
			return err_set(e, -dev, "opening %s", ret_path);
		if (ioctl(dev, LOOP_CONFIGURE, &config) == 0)
			return dev; /* keep it open until mounted, or it clears itself */
		close(dev);
		if (errno != EBUSY)
			return err_set(e, errno, "setting up %s", ret_path);
	}
	return err_say(e, EBUSY, "every loop device was taken by somebody else");
}

static int upper_loop(const struct plan *plan, int *ret_fd, struct err *e)
{
	own_fd int file = host_open(plan->state_dir, O_RDWR | O_TMPFILE, 0600);
	own_fd int dev = -1;
	own_fd int fs = -1;
	char path[64];
	int r;

	if (file < 0)
		return err_set(e, -file, "making an unnamed file in %s", plan->state_dir);
	if (plan->limits.disk_bytes < LOOP_BYTES_MIN)
		return err_say(e, EINVAL, "--disk must be 1M or more with --upper disk");
	r = format(file, plan->limits.disk_bytes, e);
	if (r < 0)
		return r;
	dev = loop_attach(file, path, sizeof(path), e);
	if (dev < 0)
		return dev;
	fs = host_fsopen("ext4");
	r = fs < 0 ? fs : host_fsconfig_str(fs, "source", path);
	if (r == 0)
		r = host_fsmount(fs, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV);
	if (r < 0)
		return err_set(e, -r, "mounting %s for the sandbox's writes", path);
	*ret_fd = r;
	return 0;
}

static bool wants_loop(const struct plan *plan)
{
	const struct plan_limits *l = &plan->limits;

	if (plan->upper != UPPER_AUTO)
		return plan->upper == UPPER_DISK;
	return l->disk_asked && l->memory_bytes && l->disk_bytes > l->memory_bytes / 2;
}

int upper_mount(const struct plan *plan, int *ret_fd, struct err *e)
{
	if (!wants_loop(plan))
		return upper_tmpfs(plan, ret_fd, e);
	if (plan->caller_uid != 0)
		return err_say(e, EPERM,
			"a writable root on disk, or --disk above half of --memory, needs root; "
			"lower --disk or raise --memory");
	return upper_loop(plan, ret_fd, e);
}

int upper_dirs(int upper, uid_t owner, struct err *e)
{
	static const struct {
		const char *name;
		mode_t mode;
		bool theirs; /* the sandbox's root owns it; the overlay's own work folder is
				nobody's business */
	} dirs[] = { { "up", 0755, true }, { "work", 0755, false }, { "shm", 01777, true } };
	mode_t old_mask = umask(0);
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(dirs); i++) {
		r = host_mkdirat(upper, dirs[i].name, dirs[i].mode);
		if (r == 0 && owner && dirs[i].theirs)
			r = host_fchownat(upper, dirs[i].name, owner, owner, AT_SYMLINK_NOFOLLOW);
	}
	umask(old_mask);
	if (r < 0)
		return err_set(e, -r, "making folders in the sandbox's writable file system");
	return 0;
}
