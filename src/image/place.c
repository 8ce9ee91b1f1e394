/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/place.c - one entry of a layer, put into its folder.
 *
 * Owns:  nothing.
 * Rules: the folder is open and the name is one part without "/", so nothing here can leave the
 *        layer; links are made and never followed. Attributes that mean something to the host's
 *        kernel stay out.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/unpack_impl.h"

/* 0: nothing there; 1: something that is no folder; 2: a folder; or a negative errno. */
static int what_is_there(int dir, const char *name, struct stat *st, struct err *e)
{
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "looking for it");
	return S_ISDIR(st->st_mode) ? 2 : 1;
}

/* Makes room for something that is no folder: as in any tar, the later entry of a name counts. */
static int make_room(int dir, const char *name, struct err *e)
{
	struct stat st;
	int r = what_is_there(dir, name, &st, e);

	if (r == 2)
		return err_say(e, EEXIST, "the layer already has a folder of that name");
	if (r == 1) {
		r = host_unlinkat(dir, name, 0);
		if (r < 0)
			return err_set(e, -r, "replacing it");
	}
	return r < 0 ? r : 0;
}

static int set_owner(
	const struct unpack *u, int dir, const char *name, struct archive_entry *m, struct err *e)
{
	int r;

	if (!u->by_root)
		return 0;
	r = host_fchownat(dir, name, (uid_t)archive_entry_uid(m), (gid_t)archive_entry_gid(m),
		AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH);
	return r < 0 ? err_set(e, -r, "setting its owner") : 0;
}

static void get_times(struct archive_entry *m, struct timespec ret[2])
{
	long ns = archive_entry_mtime_nsec(m);

	ret[0].tv_sec = 0;
	ret[0].tv_nsec = UTIME_OMIT;
	ret[1].tv_sec = archive_entry_mtime(m);
	ret[1].tv_nsec = ns >= 0 && ns < 1000000000 ? ns : 0;
	if (!archive_entry_mtime_is_set(m))
		ret[1].tv_nsec = UTIME_OMIT;
}

/* user.* is kept, but never overlayfs's own marks: those would let a layer speak for ward. */
static bool keeps_xattr(const char *name)
{
	return str_after(name, "user.") && !str_after(name, "user.overlay.") && strlen(name) <= 255;
}

static int set_xattrs(struct unpack *u, int fd, struct archive_entry *m, struct err *e)
{
	const char *name;
	const void *value;
	size_t len;

	archive_entry_xattr_reset(m);
	while (archive_entry_xattr_next(m, &name, &value, &len) == ARCHIVE_OK) {
		if (fd < 0 || !name || !keeps_xattr(name))
			u->info.dropped_xattrs++;
		else if (fsetxattr(fd, name, value, len, 0) < 0 && errno != ENOTSUP)
			return err_set(e, errno, "setting one of its attributes");
	}
	return 0;
}

int place_folder(struct unpack *u, struct item *it, struct err *e)
{
	char path[IMAGE_NAME_MAX + 1];
	struct timespec times[2];
	own_fd int fd = -1;
	struct stat st;
	int r;

	if (!it->name.base[0]) {
		fd = host_openat(u->root, ".", O_RDONLY | O_DIRECTORY, 0);
		r = fd < 0 ? err_set(e, -fd, "its folder") : 0;
	} else {
		r = what_is_there(it->dir, it->name.base, &st, e);
		if (r == 1 && !unpack_is_whiteout(&st))
			return err_say(
				e, EEXIST, "the layer already has something else of that name");
		if (r == 2) {
			fd = host_openat(
				it->dir, it->name.base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
			r = fd < 0 ? err_set(e, -fd, "its folder") : 0;
		} else if (r >= 0) {
			r = unpack_make_folder(u, it->dir, it->name.base, r == 1, &fd, e);
		}
	}
	if (r == 0)
		r = set_owner(u, fd, "", it->meta, e);
	if (r == 0)
		r = set_xattrs(u, fd, it->meta, e);
	if (r < 0)
		return r;
	get_times(it->meta, times);
	r = str_fmt(path, sizeof(path), "%s%s%s", it->name.parent, it->name.parent[0] ? "/" : "",
		it->name.base);
	return r < 0 ? r
		     : folders_add(&u->folders, path, archive_entry_perm(it->meta) & 07777,
			       &times[1], e);
}

static int copy_contents(struct unpack *u, int fd, uint64_t size, struct err *e)
{
	const void *data;
	uint64_t at, end;
	size_t len;
	int r;

	while ((r = tap_data(&u->tap, &data, &len, &at, e)) > 0) {
		if (ckd_add(&end, at, len) || end > size)
			return err_say(e, EBADMSG, "its contents go on after its size");
		for (size_t done = 0; done < len;) {
			ssize_t n = pwrite(
				fd, (const char *)data + done, len - done, (off_t)(at + done));

			if (n < 0 && errno != EINTR)
				return err_set(e, errno, "writing it");
			if (n > 0)
				done += (size_t)n;
		}
	}
	if (r == 0 && ftruncate(fd, (off_t)size) < 0)
		r = err_set(e, errno, "writing it");
	return r;
}

static int take_bytes(struct unpack *u, struct archive_entry *m, uint64_t *ret, struct err *e)
{
	int64_t size = archive_entry_size(m);

	if (!archive_entry_size_is_set(m) || size < 0)
		return err_say(e, EBADMSG, "it has no size");
	if ((uint64_t)size > u->budget->file_bytes)
		return err_say(e, EFBIG,
			"with its %lld bytes the image has more than the %llu allowed; --max-size "
			"allows more",
			(long long)size, (unsigned long long)u->budget->bytes_max);
	u->budget->file_bytes -= (uint64_t)size;
	u->info.bytes += (uint64_t)size;
	*ret = (uint64_t)size;
	return 0;
}

int place_file(struct unpack *u, struct item *it, struct err *e)
{
	struct timespec times[2];
	uint64_t size = 0;
	own_fd int fd = -1;
	int r = take_bytes(u, it->meta, &size, e);

	if (r == 0)
		r = make_room(it->dir, it->name.base, e);
	if (r < 0)
		return r;
	fd = host_openat(it->dir, it->name.base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(e, -fd, "making it");
	r = copy_contents(u, fd, size, e);
	if (r == 0)
		r = set_owner(u, fd, "", it->meta, e);
	if (r == 0)
		r = set_xattrs(u, fd, it->meta, e);
	get_times(it->meta, times);
	/* After the owner: a change of owner takes the set-uid bit away. */
	if (r == 0 &&
		(fchmod(fd, archive_entry_perm(it->meta) & 07777) < 0 || futimens(fd, times) < 0))
		r = err_set(e, errno, "setting its mode and time");
	return r;
}

static int finish_in_place(struct unpack *u, struct item *it, struct err *e)
{
	struct timespec times[2];
	int r = set_owner(u, it->dir, it->name.base, it->meta, e);

	get_times(it->meta, times);
	if (r == 0 && utimensat(it->dir, it->name.base, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = err_set(e, errno, "setting its time");
	return r < 0 ? r : set_xattrs(u, -1, it->meta, e);
}

int place_link(struct unpack *u, struct item *it, struct err *e)
{
	const char *target = archive_entry_symlink(it->meta);
	int r;

	/* Where it points is the sandbox's business: nothing here ever follows it. */
	if (!target || !*target || strlen(target) > IMAGE_NAME_MAX)
		return err_say(
			e, EINVAL, "its target is empty or has more than %d bytes", IMAGE_NAME_MAX);
	r = make_room(it->dir, it->name.base, e);
	if (r == 0) {
		r = host_symlinkat(target, it->dir, it->name.base);
		if (r < 0)
			return err_set(e, -r, "making it");
	}
	return r < 0 ? r : finish_in_place(u, it, e);
}

int place_fifo(struct unpack *u, struct item *it, struct err *e)
{
	int r = make_room(it->dir, it->name.base, e);

	if (r == 0) {
		r = host_mknodat(it->dir, it->name.base, S_IFIFO | 0600, 0);
		if (r == 0 && fchmodat(it->dir, it->name.base, archive_entry_perm(it->meta) & 07777,
				      0) < 0)
			r = -errno;
		if (r < 0)
			return err_set(e, -r, "making it");
	}
	return r < 0 ? r : finish_in_place(u, it, e);
}

/* The folder of a hard link's target: it must be there, and be reached without a link. */
static int open_target(
	struct unpack *u, const char *raw, struct entry_name *name, int *ret_fd, struct err *e)
{
	char shown[96];
	struct stat st;
	own_fd int fd = -1;
	int r = entry_name_parse(raw, name, e);

	str_show(shown, sizeof(shown), raw);
	if (r == 0 && (name->kind != NAME_PLAIN || !name->base[0]))
		r = err_say(e, EINVAL, "it is no file");
	if (r < 0)
		return err_wrap(e, r, "the target '%s' of this hard link", shown);
	fd = host_openat2(
		u->root, name->parent[0] ? name->parent : ".", O_PATH | O_DIRECTORY, 0, BELOW);
	if (fd < 0 || fstatat(fd, name->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_say(
			e, ENOENT, "the target '%s' of this hard link is not in the layer", shown);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISFIFO(st.st_mode))
		return err_say(e, EINVAL, "the target '%s' of this hard link is no file", shown);
	*ret_fd = take_fd(&fd);
	return 0;
}

int place_hard_link(struct unpack *u, struct item *it, struct err *e)
{
	struct entry_name target;
	own_fd int fd = -1;
	int r;

	if (archive_entry_size_is_set(it->meta) && archive_entry_size(it->meta) > 0)
		return err_say(e, EINVAL, "a hard link has no contents of its own");
	r = open_target(u, archive_entry_hardlink(it->meta), &target, &fd, e);
	if (r < 0)
		return r;
	if (str_eq(target.parent, it->name.parent) && str_eq(target.base, it->name.base))
		return err_say(e, EINVAL, "it is a hard link to itself");
	r = make_room(it->dir, it->name.base, e);
	if (r == 0 && linkat(fd, target.base, it->dir, it->name.base, 0) < 0)
		r = err_set(e, errno, "making this hard link");
	return r;
}

/* Hides what lower layers have under that name; what this layer itself has there stays. */
int place_whiteout(struct unpack *u, struct item *it, struct err *e)
{
	own_fd int fd = -1;
	struct stat st;
	int r;

	if (it->name.kind == NAME_OPAQUE) {
		/* overlayfs does not look for the mark on a layer's root: image/stage.c does. */
		u->info.hides_all |= !it->name.parent[0];
		return unpack_set_opaque(u, it->dir, e);
	}
	r = what_is_there(it->dir, it->name.base, &st, e);
	if (r == 2) {
		fd = host_openat(it->dir, it->name.base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		return fd < 0 ? err_set(e, -fd, "its folder") : unpack_set_opaque(u, fd, e);
	}
	if (r != 0)
		return r < 0 ? r : 0;
	r = host_mknodat(it->dir, it->name.base, S_IFCHR, makedev(0, 0));
	return r < 0 ? err_set(e, -r, "making a whiteout") : 0;
}
