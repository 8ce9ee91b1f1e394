/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/mounts.c - what --mount names, as disks of the machine.
 *
 * Owns:  nothing that has a name: each image is removed from images/ as soon as it is open.
 * Rules: a machine gets a copy, made when it starts. So no file of the host can be written through
 *        it, and `rw` is refused; `overlay` writes over the copy, inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "tier/vm/vm.h"

int mounts_check(const struct plan *plan, struct err *e)
{
	if (plan->mount_count > VM_MOUNTS_MAX)
		return err_say(e, E2BIG, "the vm tier has at most %d mounts", VM_MOUNTS_MAX);
	for (unsigned i = 0; i < plan->mount_count; i++)
		if (plan->mounts[i].mode == MOUNT_RW)
			return err_say(e, EOPNOTSUPP,
				"--mount %s:%s:rw: a virtual machine gets a copy and cannot write "
				"to the "
				"host's files; use ro or overlay, or another tier",
				plan->mounts[i].src, plan->mounts[i].dst);
	return 0;
}

/* "dir" or "file": also its name in the image, beside the lost+found of every ext4. */
static const char *kind_of(const struct plan_mount *m)
{
	struct stat st;

	if (stat(m->src, &st) < 0)
		return NULL;
	return S_ISDIR(st.st_mode) ? "dir" : S_ISREG(st.st_mode) ? "file" : NULL;
}

/* In the child. What is mounted below the folder is not part of it. */
static int fill(const void *arg, const char *at)
{
	const struct plan_mount *m = arg;
	const char *kind = kind_of(m);
	char path[WARD_PATH_MAX];
	int fd;

	if (!kind)
		return -EINVAL;
	if (str_fmt(path, sizeof(path), "%s/%s", at, kind) < 0)
		return -ENAMETOOLONG;
	if (mount("none", at, "tmpfs", 0, "size=64k,mode=0755") < 0)
		return -errno;
	if (str_eq(kind, "dir")) {
		if (mkdir(path, 0700) < 0)
			return -errno;
	} else {
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		close(fd);
	}
	return mount(m->src, path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

static int open_one(const struct plan *plan, unsigned i, int *ret_fd, struct err *e)
{
	char dir[WARD_PATH_MAX], path[WARD_PATH_MAX], self[64], what[WARD_PATH_MAX + 16];
	own_fd int fd = -1;
	int r;

	if (str_fmt(dir, sizeof(dir), "%s/images", plan->state_dir) < 0 ||
		str_fmt(path, sizeof(path), "%s/mount.%d.%u", dir, (int)getpid(), i) < 0 ||
		str_fmt(what, sizeof(what), "'%s'", plan->mounts[i].src) < 0)
		return err_say(e, ENAMETOOLONG, "the state directory's path is too long");
	r = tree_make(dir, 0700, e);
	if (r < 0)
		return r;
	fd = host_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return err_set(e, -fd, "making %s", path);
	unlink(path);
	/* mkfs opens it anew, by its number in the process that waits for it. */
	r = str_fmt(self, sizeof(self), "/proc/%d/fd/%d", (int)getpid(), fd);
	if (r == 0)
		r = image_make(plan, self, fill, &plan->mounts[i], what, e);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

int mounts_open(const struct plan *plan, int ret_fds[VM_MOUNTS_MAX], struct err *e)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < plan->mount_count; i++)
		r = open_one(plan, i, &ret_fds[i], e);
	return r;
}

int mounts_list(const struct plan *plan, struct buf *b, struct err *e)
{
	for (unsigned i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = &plan->mounts[i];
		const char *mode = m->mode == MOUNT_OVERLAY ? "overlay" : "ro";
		const char *kind = kind_of(m);

		if (!kind)
			return err_say(e, EINVAL,
				"--mount %s: at the vm tier it is a folder or an ordinary file",
				m->src);
		buf_add(b, mode, strlen(mode) + 1);
		buf_add(b, kind, strlen(kind) + 1);
		buf_add(b, m->dst, strlen(m->dst) + 1);
	}
	return b->bad ? err_say(e, E2BIG, "the list of mounts is too long") : 0;
}
