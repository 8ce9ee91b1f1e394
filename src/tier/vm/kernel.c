/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/kernel.c - the guest's kernel, and the initramfs that goes with it.
 *
 * Owns:  nothing; reads a folder, kernels/default below the state directory: `kernel`, `cpu`, and
 *        `modules/` with a `list` when the kernel is a distribution's.
 * Rules: the initramfs is made anew for each machine, so it always has the init of this very ward.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/vm/vm.h"

enum { MODULES_MAX = 64, MODULE_NAME_MAX = 64, MODULE_LIST_MAX = 4096, MOUNT_LIST_MAX = 64 * 1024 };

int kernel_dir(const char *state_dir, char ret[WARD_PATH_MAX], struct err *e)
{
	int r = str_fmt(ret, WARD_PATH_MAX, "%s/kernels/default", state_dir);

	return r < 0 ? err_say(e, -r, "the state directory's path is too long") : 0;
}

int kernel_default(const char *state_dir, char ret[WARD_PATH_MAX], int *ret_kernel, struct err *e)
{
	char path[WARD_PATH_MAX], said[160];
	int r = kernel_dir(state_dir, ret, e);
	own_fd int fd = -1;
	ssize_t n;

	if (r == 0)
		r = kernel_open(ret, ret_kernel, e);
	if (r != -ENOENT ||
		str_fmt(path, sizeof(path), "%s/kernels/" KERNEL_REFUSED, state_dir) < 0)
		return r;
	fd = host_open(path, O_RDONLY, 0);
	n = fd < 0 ? -1 : host_pread(fd, said, sizeof(said) - 1, 0);
	if (n <= 0)
		return r;
	said[n] = '\0';
	for (char *p = said; *p; p++)
		*p = *p < ' ' || *p > '~' ? '?' : *p;
	return err_say(e, ENOENT, "no guest kernel came up on this host: %s", said);
}

int kernel_open(const char *dir, int *ret_kernel, struct err *e)
{
	char path[WARD_PATH_MAX];
	int fd = str_fmt(path, sizeof(path), "%s/kernel", dir);

	if (fd == 0)
		fd = host_open(path, O_RDONLY, 0);
	if (fd == -ENOENT)
		return err_say(e, ENOENT,
			"there is no guest kernel yet: 'ward kernel use debian' fetches and tries "
			"one");
	if (fd < 0)
		return err_set(e, -fd, "opening the guest kernel %s", path);
	*ret_kernel = fd;
	return 0;
}

int kernel_cpu_template(const char *dir, bool *ret_plain_fpu, bool *ret_acpi, struct err *e)
{
	char path[WARD_PATH_MAX], text[256], *word, *rest = text;
	int r = str_fmt(path, sizeof(path), "%s/cpu", dir);
	ssize_t n;

	*ret_plain_fpu = false;
	*ret_acpi = true;
	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	n = host_get(AT_FDCWD, path, text, sizeof(text) - 1);
	if (n == -ENOENT)
		return 0; /* whatever KVM offers */
	if (n < 0)
		return err_set(e, (int)-n, "reading %s", path);
	text[n] = '\0';
	while ((word = strsep(&rest, "\n")) != NULL) {
		if (str_eq(word, "no-xsave"))
			*ret_plain_fpu = true;
		else if (str_eq(word, "no-acpi"))
			*ret_acpi = false;
		else if (*word)
			return err_say(e, EINVAL, "%s: '%s': accepted are no-xsave and no-acpi",
				path, word);
	}
	return 0;
}

/* --- cpio, the "newc" kind ---------------------------------------------------------------------
 */

struct cpio {
	int fd;
	uint64_t at;
	unsigned inode;
};

static int put(struct cpio *c, const void *data, size_t len, struct err *e)
{
	int r = host_write_all(c->fd, data, len);

	if (r < 0)
		return err_set(e, -r, "writing the initramfs");
	c->at += len;
	return 0;
}

static int pad(struct cpio *c, struct err *e)
{
	return put(c, "\0\0\0", (4 - c->at % 4) % 4, e);
}

static int head(struct cpio *c, const char *name, unsigned mode, uint64_t size, struct err *e)
{
	char text[128];
	int r = str_fmt(text, sizeof(text),
		"070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", ++c->inode, mode, 0u,
		0u, 1u, 0u, (unsigned)size, 0u, 0u, 0u, 0u, (unsigned)strlen(name) + 1, 0u);

	if (r < 0)
		return err_say(e, -r, "a name in the initramfs is too long");
	r = put(c, text, strlen(text), e);
	if (r == 0)
		r = put(c, name, strlen(name) + 1, e);
	return r < 0 ? r : pad(c, e);
}

static int add_data(struct cpio *c, const char *name, unsigned mode, const void *data, size_t len,
	struct err *e)
{
	int r = head(c, name, mode, len, e);

	if (r == 0)
		r = put(c, data, len, e);
	return r < 0 ? r : pad(c, e);
}

/* The file at @path, as @name. */
static int add_file(
	struct cpio *c, const char *path, const char *name, unsigned mode, struct err *e)
{
	own_fd int fd = host_open(path, O_RDONLY, 0);
	struct stat st;
	off_t done = 0;
	int r;

	if (fd < 0)
		return err_set(e, -fd, "opening %s for the initramfs", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > 64 << 20)
		return err_say(e, EINVAL, "%s is not a file for an initramfs", path);
	r = head(c, name, S_IFREG | mode, (uint64_t)st.st_size, e);
	while (r == 0 && done < st.st_size) {
		ssize_t n = sendfile(c->fd, fd, &done, (size_t)(st.st_size - done));

		if (n <= 0)
			r = err_set(e, n < 0 ? errno : EIO, "copying %s", path);
		else
			c->at += (uint64_t)n;
	}
	return r < 0 ? r : pad(c, e);
}

static int add_modules(struct cpio *c, const char *from, struct err *e)
{
	char dir[WARD_PATH_MAX], path[WARD_PATH_MAX], name[MODULE_NAME_MAX + 16];
	char list[MODULE_LIST_MAX], *line, *rest = list;
	int r = str_fmt(dir, sizeof(dir), "%s/modules", from);
	ssize_t n;

	if (r == 0)
		r = str_fmt(path, sizeof(path), "%s/list", dir);
	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	n = host_get(AT_FDCWD, path, list, sizeof(list) - 1);
	if (n == -ENOENT)
		return 0; /* everything is built in */
	if (n < 0)
		return err_set(e, (int)-n, "reading %s", path);
	list[n] = '\0';
	r = add_data(c, "modules", S_IFDIR | 0755, "", 0, e);
	if (r == 0)
		r = add_data(c, "modules/list", S_IFREG | 0644, list, (size_t)n, e);
	while (r == 0 && (line = strsep(&rest, "\n")) != NULL) {
		if (!*line)
			continue;
		if (strchr(line, '/') || str_fmt(name, sizeof(name), "modules/%s", line) < 0 ||
			str_fmt(path, sizeof(path), "%s/%s", dir, line) < 0)
			return err_say(e, EINVAL, "a bad name in the list of modules");
		r = add_file(c, path, name, 0644, e);
	}
	return r;
}

/* Beside ward itself, or where `make install` puts it. */
static int add_init(struct cpio *c, struct err *e)
{
	char self[WARD_PATH_MAX], path[WARD_PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return err_set(e, errno, "finding ward's own folder");
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	if (str_fmt(path, sizeof(path), "%s/ward-init", self) == 0 && access(path, R_OK) == 0)
		return add_file(c, path, "init", 0755, e);
	if (str_fmt(path, sizeof(path), "%s/../libexec/ward/ward-init", self) < 0)
		return err_say(e, ENAMETOOLONG, "ward's own path is too long");
	return add_file(c, path, "init", 0755, e);
}

/* Where ward-init finds what it mounts beside the root. */
static int add_mounts(struct cpio *c, const struct plan *plan, struct err *e)
{
	own_buf struct buf list;
	int r;

	buf_init(&list, MOUNT_LIST_MAX);
	r = mounts_list(plan, &list, e);
	return r < 0 ? r : add_data(c, "mounts", S_IFREG | 0644, list.data, list.len, e);
}

int initramfs_make(const char *dir, const struct plan *plan, int *ret_fd, struct err *e)
{
	own_fd int fd = memfd_create("initramfs", MFD_CLOEXEC);
	struct cpio c = { .fd = fd };
	static const char *const dirs[] = { "dev", "proc", "sys", "lower", "over", "root", "m",
		"o" };
	int r = 0;

	if (fd < 0)
		return err_set(e, errno, "making a memory file for the initramfs");
	for (unsigned i = 0; r == 0 && i < sizeof(dirs) / sizeof(dirs[0]); i++)
		r = add_data(&c, dirs[i], S_IFDIR | 0755, "", 0, e);
	if (r == 0)
		r = add_init(&c, e);
	if (r == 0)
		r = add_modules(&c, dir, e);
	if (r == 0 && plan && plan->mount_count)
		r = add_mounts(&c, plan, e);
	if (r == 0)
		r = head(&c, "TRAILER!!!", 0, 0, e);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}
