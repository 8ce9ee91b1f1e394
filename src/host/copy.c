/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/copy.c - copies a tree, sharing blocks where the file system can.
 *
 * Owns:  nothing.
 * Rules: the source belongs to the user and is only read; nothing in it is followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <linux/fs.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"

enum {
	COPY_CHUNK = 1 << 16,
	XATTR_NAMES_MAX = 1 << 16, /* the kernel's own limit */
	XATTR_VALUE_MAX = 1 << 16,
};

struct copy {
	dev_t dev;   /* the file system that is copied */
	bool owners; /* we may give files away */
	bool upper;  /* an overlay's: with deletions and marks */
	struct err *e;
};

static int copy_bytes(int in, int out, off_t from, off_t to)
{
	char chunk[COPY_CHUNK];

	while (from < to) {
		size_t want = to - from < COPY_CHUNK ? (size_t)(to - from) : COPY_CHUNK;
		ssize_t n = pread(in, chunk, want, from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0; /* it got shorter meanwhile */
		for (ssize_t done = 0; done < n;) {
			ssize_t w = pwrite(out, chunk + done, (size_t)(n - done), from + done);

			if (w < 0 && errno != EINTR)
				return -errno;
			if (w > 0)
				done += w;
		}
		from += n;
	}
	return 0;
}

/* Shares the blocks, or copies what is not a hole. */
static int copy_data(int in, int out, off_t size)
{
	off_t data = 0, hole;
	int r;

	if (size == 0 || ioctl(out, FICLONE, in) == 0)
		return 0;
	r = host_ftruncate(out, size);
	while (r == 0 && data < size) {
		data = lseek(in, data, SEEK_DATA);
		if (data < 0)
			return errno == ENXIO ? 0 : -errno; /* a hole up to the end */
		hole = lseek(in, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		r = copy_bytes(in, out, data, hole);
		data = hole;
	}
	return r;
}

static bool is_copied(const char *name, bool marks)
{
	if (str_eq(name, "trusted.overlay.opaque") || str_eq(name, "user.overlay.opaque"))
		return marks;
	/* The overlay's own marks would mean something in an upper folder. */
	return str_after(name, "user.") && !str_after(name, "user.overlay.");
}

static int copy_xattrs(int in, int out, bool marks)
{
	own_mem char *names = NULL, *value = NULL;
	ssize_t len = flistxattr(in, NULL, 0), n;

	if (len <= 0)
		return len < 0 && errno != EOPNOTSUPP ? -errno : 0;
	names = malloc(XATTR_NAMES_MAX);
	value = malloc(XATTR_VALUE_MAX);
	if (!names || !value)
		return -ENOMEM;
	len = flistxattr(in, names, XATTR_NAMES_MAX);
	if (len < 0)
		return -errno;
	for (const char *p = names; p < names + len; p += strlen(p) + 1) {
		if (!is_copied(p, marks))
			continue;
		n = fgetxattr(in, p, value, XATTR_VALUE_MAX);
		if (n < 0 || (fsetxattr(out, p, value, (size_t)n, 0) < 0 && errno != EOPNOTSUPP))
			return -errno;
	}
	return 0;
}

/* Owner first, since a change of owner clears mode bits; times last. */
static int copy_marks(int in, int out, const struct stat *st, bool owners, bool overlay)
{
	struct timespec times[2] = { st->st_atim, st->st_mtim };
	mode_t keep = S_ISDIR(st->st_mode) ? 07777 : 01777;
	int r;

	if (owners && fchown(out, st->st_uid, st->st_gid) < 0)
		return -errno;
	r = copy_xattrs(in, out, overlay);
	if (r < 0)
		return r;
	if (fchmod(out, st->st_mode & keep) < 0 || futimens(out, times) < 0)
		return -errno;
	return 0;
}

static int copy_file(
	int in_dir, const char *in_name, int out_dir, const char *out_name, bool owners)
{
	own_fd int in = host_openat(in_dir, in_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	own_fd int out = -1;
	struct stat st;
	int r;

	if (in < 0)
		return in;
	if (fstat(in, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	out = host_openat(out_dir, out_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (out < 0)
		return out;
	r = copy_data(in, out, st.st_size);
	return r < 0 ? r : copy_marks(in, out, &st, owners, false);
}

static int copy_link(const struct copy *c, int in, int out, const char *name, const struct stat *st)
{
	struct timespec times[2] = { st->st_atim, st->st_mtim };
	char target[WARD_PATH_MAX];
	ssize_t n = readlinkat(in, name, target, sizeof(target) - 1);
	int r;

	if (n < 0)
		return -errno;
	target[n] = '\0';
	r = host_symlinkat(target, out, name);
	if (r < 0)
		return r;
	if (c->owners)
		r = host_fchownat(out, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW);
	if (r == 0 && utimensat(out, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

static int copy_folder(const struct copy *c, int in, int out);

static int copy_entry(const struct copy *c, int in, int out, const char *name)
{
	own_fd int sub_in = -1;
	own_fd int sub_out = -1;
	struct stat st;
	int r;

	if (fstatat(in, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno; /* gone since it was listed */
	if (st.st_dev != c->dev)
		return 0;
	if (S_ISREG(st.st_mode))
		return copy_file(in, name, out, name, c->owners);
	if (S_ISLNK(st.st_mode))
		return copy_link(c, in, out, name, &st);
	if (S_ISFIFO(st.st_mode))
		return host_mknodat(out, name, S_IFIFO | (st.st_mode & 0777), 0);
	if (c->upper && S_ISCHR(st.st_mode) && st.st_rdev == 0)
		return host_mknodat(out, name, S_IFCHR, 0);
	if (!S_ISDIR(st.st_mode))
		return 0;
	sub_in = host_openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (sub_in < 0)
		return sub_in;
	r = host_mkdirat(out, name, 0700);
	if (r < 0)
		return r;
	sub_out = host_openat(out, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (sub_out < 0)
		return sub_out;
	r = copy_folder(c, sub_in, sub_out);
	return r < 0 ? r : copy_marks(sub_in, sub_out, &st, c->owners, c->upper);
}

static int copy_folder(const struct copy *c, int in, int out)
{
	int fd = host_openat(in, ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
	struct dirent *de;
	DIR *d;

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (errno = 0, de = readdir(d))) {
		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		r = copy_entry(c, in, out, de->d_name);
		/* The innermost name is the one worth telling; folders above leave it alone. */
		if (r < 0 && c->e && !c->e->code)
			err_set(c->e, -r, "copying '%s'", de->d_name);
	}
	if (r == 0 && errno)
		r = -errno;
	closedir(d);
	return r;
}

static int copy_top(const char *src, const char *dst, bool upper, struct err *e)
{
	own_fd int in = host_open(src, O_RDONLY | O_DIRECTORY, 0);
	own_fd int out = -1;
	struct err inner = { 0 };
	struct copy c = { .owners = geteuid() == 0, .upper = upper, .e = &inner };
	struct stat st;
	int r;

	if (in < 0)
		return err_set(e, -in, "opening '%s' to copy it", src);
	if (fstat(in, &st) < 0)
		return err_set(e, errno, "looking at '%s'", src);
	c.dev = st.st_dev;
	r = host_mkdirat(AT_FDCWD, dst, 0700);
	if (r < 0)
		return err_set(e, -r, "making '%s'", dst);
	out = host_open(dst, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (out < 0)
		return err_set(e, -out, "opening '%s'", dst);
	r = copy_folder(&c, in, out);
	if (r == 0)
		r = copy_marks(in, out, &st, c.owners, c.upper);
	if (r < 0)
		return err_say(e, -r, "copying '%s' to '%s': %s", src, dst,
			inner.code ? inner.msg : strerror(-r));
	return 0;
}

int tree_copy(const char *src, const char *dst, struct err *e)
{
	return copy_top(src, dst, false, e);
}

int tree_copy_upper(const char *src, const char *dst, struct err *e)
{
	return copy_top(src, dst, true, e);
}

int tree_copy_file(
	int src_dir, const char *src_name, int dst_dir, const char *dst_name, struct err *e)
{
	int r = copy_file(src_dir, src_name, dst_dir, dst_name, geteuid() == 0);

	return r < 0 ? err_set(e, -r, "copying '%s'", src_name) : 0;
}
