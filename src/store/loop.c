/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/loop.c - detaches loop devices that a dead ward left attached.
 *
 * Owns:  nothing.
 * Rules: a device is ours when the kernel names our file as the one behind it, deleted or not.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/undo.h"

enum { BLOCK_BYTES = 4096 };

static bool is_behind(int block, const char *name, const char *path)
{
	static const char deleted[] = " (deleted)";
	char file[64], text[WARD_PATH_MAX + sizeof(deleted)];
	const char *rest;
	ssize_t n;

	if (str_fmt(file, sizeof(file), "%s/loop/backing_file", name) < 0)
		return false;
	n = host_get(block, file, text, sizeof(text));
	if (n <= 0)
		return false; /* nothing attached */
	if (text[n - 1] == '\n')
		text[n - 1] = '\0';
	rest = str_after(text, path);
	return rest && (!*rest || str_eq(rest, deleted));
}

static int detach(const char *name, struct err *e)
{
	char dev[64];
	own_fd int fd = -1;
	int r = str_fmt(dev, sizeof(dev), "/dev/%s", name);

	if (r == 0)
		fd = host_open(dev, O_RDWR, 0);
	if (r < 0 || fd < 0)
		return err_set(e, r < 0 ? -r : -fd, "opening loop device '%s'", name);
	r = host_loop_detach(fd);
	return r < 0 && r != -ENXIO ? err_set(e, -r, "detaching loop device '%s'", name) : 0;
}

int loop_detach(const char *path, struct err *e)
{
	_Alignas(struct host_dirent) char room[BLOCK_BYTES];
	own_fd int block = host_open("/sys/block", O_RDONLY | O_DIRECTORY, 0);
	int first = 0;
	ssize_t n;

	if (block == -ENOENT)
		return 0; /* a kernel without block devices has no loop devices */
	if (block < 0)
		return err_set(e, -block, "looking for loop devices in /sys/block");
	while ((n = host_getdents(block, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);
			int r;

			at += d->d_reclen;
			if (!str_after(d->d_name, "loop") || !is_behind(block, d->d_name, path))
				continue;
			r = detach(d->d_name, first ? NULL : e);
			if (first == 0)
				first = r;
		}
	}
	return first ? first : n < 0 ? err_set(e, (int)-n, "reading /sys/block") : 0;
}
