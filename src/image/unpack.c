/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/unpack.c - one layer, from a tar to a folder that overlayfs can use.
 *
 * Owns:  the folder while it is being filled.
 * Rules: hostile input, run with the rights of the caller, often root. Every path is walked below
 *        the layer's root without following a link; a folder, once made, stays a folder, so that
 *        the descriptor of the last parent can be kept. Devices are refused: a 0/0 one would be a
 *        whiteout in disguise. Modes and times of folders are set at the end, from the leaves up,
 *        so that a folder without write permission can still be filled by its owner.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <linux/openat2.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/folders.h"
#include "image/names.h"
#include "image/progress.h"
#include "image/tap.h"
#include "image/unpack.h"

enum { BELOW = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV };

struct unpack {
	int root;
	bool by_root;
	struct budget *budget;
	struct layer_info info;
	struct tap tap;
	struct folders folders;
	struct progress *progress;
	int blob;
	/* The folder of the last entry: most entries share it with their neighbour. */
	char parent[IMAGE_NAME_MAX + 1];
	int parent_fd;
};

/* One entry on its way in: the checked name, the folder it goes to, what the tar says of it. */
struct item {
	struct entry_name name;
	struct archive_entry *meta;
	int dir;
};

void budget_init(struct budget *b, uint64_t bytes_max)
{
	b->bytes_max = b->tar_bytes = b->file_bytes = bytes_max;
	b->entries = IMAGE_ENTRIES_MAX;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int set_opaque(const struct unpack *u, int dir, struct err *e)
{
	const char *name = u->by_root ? "trusted.overlay.opaque" : "user.overlay.opaque";

	if (fsetxattr(dir, name, "y", 1, 0) == 0)
		return 0;
	return err_set(e, errno,
		"marking a folder as opaque with %s; the state directory needs a file system "
		"that has it",
		name);
}

/* Makes the folder @name, where nothing or a whiteout is; one over a whiteout hides what is below.
 */
static int make_folder(
	const struct unpack *u, int dir, const char *name, bool hides, int *ret_fd, struct err *e)
{
	own_fd int fd = -1;
	int r = 0;

	if (hides)
		r = host_unlinkat(dir, name, 0);
	if (r == 0)
		r = host_mkdirat(dir, name, 0700);
	if (r == 0) {
		fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		r = fd < 0 ? fd : 0;
	}
	if (r < 0)
		return err_set(e, -r, "making a folder");
	if (hides)
		r = set_opaque(u, fd, e);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* One step down. A folder that the layer did not name before its contents is made here. */
static int step(
	struct unpack *u, int dir, const char *name, const char *path, int *ret_fd, struct err *e)
{
	int r, fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	char shown[96];
	struct stat st;
	bool hides = false;

	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	str_show(shown, sizeof(shown), path);
	if (fd != -ENOENT) {
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(e, errno, "its folder '%s'", shown);
		hides = is_whiteout(&st);
		if (S_ISLNK(st.st_mode))
			return err_say(e, ELOOP, "its path leads through the link '%s'", shown);
		if (!hides && !S_ISDIR(st.st_mode))
			return err_say(e, ENOTDIR,
				"its path leads through '%s', which is no folder", shown);
		if (!hides)
			return err_set(e, -fd, "its folder '%s'", shown);
	}
	r = make_folder(u, dir, name, hides, ret_fd, e);
	if (r == 0)
		r = folders_add(&u->folders, path, 0755, NULL, e);
	return r;
}

static int walk(struct unpack *u, const char *path, int *ret_fd, struct err *e)
{
	char part[IMAGE_NAME_MAX + 1];
	own_fd int at = -1;
	size_t len = 0;

	while (path[len]) {
		size_t begin = len + (path[len] == '/');
		char name[256];
		int r, next;

		len = begin + strcspn(path + begin, "/");
		memcpy(part, path, len);
		part[len] = '\0';
		r = str_copy(name, sizeof(name), part + begin);
		if (r == 0)
			r = step(u, at < 0 ? u->root : at, name, part, &next, e);
		if (r < 0)
			return r;
		if (at >= 0)
			host_close(at);
		at = next;
	}
	*ret_fd = take_fd(&at);
	return 0;
}

/* The folder @path below the layer's root, made if need be; good until the next call. */
static int open_parent(struct unpack *u, const char *path, int *ret_fd, struct err *e)
{
	int fd, r;

	if (!*path) {
		*ret_fd = u->root;
		return 0;
	}
	if (u->parent_fd >= 0 && str_eq(path, u->parent)) {
		*ret_fd = u->parent_fd;
		return 0;
	}
	fd = host_openat2(u->root, path, O_RDONLY | O_DIRECTORY, 0, BELOW);
	if (fd < 0) { /* missing, or in the way: step by step, to say which part it is */
		r = walk(u, path, &fd, e);
		if (r < 0)
			return r;
	}
	if (u->parent_fd >= 0)
		host_close(u->parent_fd);
	u->parent_fd = *ret_fd = fd;
	return str_copy(u->parent, sizeof(u->parent), path);
}

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

static int check_ids(const struct unpack *u, struct archive_entry *m, struct err *e)
{
	int64_t uid = archive_entry_uid(m), gid = archive_entry_gid(m);

	if (uid >= 0 && uid < SANDBOX_IDS && gid >= 0 && gid < SANDBOX_IDS)
		return 0;
	if (!u->by_root)
		return 0; /* everything becomes the caller's anyway */
	return err_say(e, ERANGE, "its owner %lld:%lld is beyond the ids of a sandbox, 0 to %d",
		(long long)uid, (long long)gid, SANDBOX_IDS - 1);
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

static int put_folder(struct unpack *u, struct item *it, struct err *e)
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
		if (r == 1 && !is_whiteout(&st))
			return err_say(
				e, EEXIST, "the layer already has something else of that name");
		if (r == 2) {
			fd = host_openat(
				it->dir, it->name.base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
			r = fd < 0 ? err_set(e, -fd, "its folder") : 0;
		} else if (r >= 0) {
			r = make_folder(u, it->dir, it->name.base, r == 1, &fd, e);
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

static int put_file(struct unpack *u, struct item *it, struct err *e)
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

static int put_link(struct unpack *u, struct item *it, struct err *e)
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

static int put_fifo(struct unpack *u, struct item *it, struct err *e)
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

static int put_hard_link(struct unpack *u, struct item *it, struct err *e)
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
static int put_whiteout(struct unpack *u, struct item *it, struct err *e)
{
	own_fd int fd = -1;
	struct stat st;
	int r;

	if (it->name.kind == NAME_OPAQUE)
		return set_opaque(u, it->dir, e);
	r = what_is_there(it->dir, it->name.base, &st, e);
	if (r == 2) {
		fd = host_openat(it->dir, it->name.base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		return fd < 0 ? err_set(e, -fd, "its folder") : set_opaque(u, fd, e);
	}
	if (r != 0)
		return r < 0 ? r : 0;
	r = host_mknodat(it->dir, it->name.base, S_IFCHR, makedev(0, 0));
	return r < 0 ? err_set(e, -r, "making a whiteout") : 0;
}

static int put_by_type(struct unpack *u, struct item *it, struct err *e)
{
	if (archive_entry_hardlink(it->meta))
		return put_hard_link(u, it, e);
	switch (archive_entry_filetype(it->meta)) {
	case AE_IFREG:
		return put_file(u, it, e);
	case AE_IFLNK:
		return put_link(u, it, e);
	case AE_IFIFO:
		return put_fifo(u, it, e);
	case AE_IFDIR:
		return put_folder(u, it, e);
	case AE_IFCHR:
	case AE_IFBLK:
		return err_say(e, EPERM, "it is a device; an image may not bring any");
	default:
		return err_say(e, EINVAL, "it is neither a file, a folder, a link nor a fifo");
	}
}

static int put_entry(struct unpack *u, struct archive_entry *meta, const char *raw, struct err *e)
{
	struct item it = { .meta = meta };
	int r = entry_name_parse(raw, &it.name, e);

	if (r == 0 && !it.name.base[0] && archive_entry_filetype(meta) != AE_IFDIR)
		r = err_say(e, EINVAL, "it would take the place of the root");
	if (r == 0 && it.name.kind != NAME_PLAIN &&
		(archive_entry_filetype(meta) != AE_IFREG || archive_entry_hardlink(meta)))
		r = err_say(e, EINVAL, "a deletion mark must be a plain file");
	if (r == 0)
		r = check_ids(u, meta, e);
	if (r == 0)
		r = open_parent(u, it.name.parent, &it.dir, e);
	if (r < 0)
		return r;
	return it.name.kind == NAME_PLAIN ? put_by_type(u, &it, e) : put_whiteout(u, &it, e);
}

static int put_all(struct unpack *u, struct err *e)
{
	struct archive_entry *meta;
	char shown[128];
	const char *raw;
	int r, n;

	while ((n = tap_next(&u->tap, &meta, e)) > 0) {
		raw = archive_entry_pathname(meta);
		if (!u->budget->entries--) {
			u->budget->entries = 0;
			return err_say(
				e, EFBIG, "the image has more than %d entries", IMAGE_ENTRIES_MAX);
		}
		u->info.entries++;
		if (u->progress)
			progress_at(u->progress, (uint64_t)lseek(u->blob, 0, SEEK_CUR));
		r = raw ? put_entry(u, meta, raw, e)
			: err_say(e, EINVAL, "its name is no UTF-8 text");
		if (r < 0)
			return err_wrap(e, r, "entry '%s'",
				str_show(shown, sizeof(shown), raw ? raw : "?"));
	}
	if (n < 0 && n != -EINTR) /* it has no name that could be shown */
		err_wrap(e, n, "entry number %llu", (unsigned long long)u->info.entries + 1);
	return n;
}

/* Names in pax headers are UTF-8; outside of such a locale libarchive cannot hand them out. */
static locale_t enter_utf8(locale_t *ret_old, struct err *e)
{
	locale_t l = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);

	if (l)
		*ret_old = uselocale(l);
	else
		err_say(e, ENOENT, "the locale C.UTF-8 is missing; Debian has it in libc-bin");
	return l;
}

static int unpack_run(struct unpack *u, struct err *e)
{
	int r = tap_open(&u->tap, u->blob, u->budget->tar_bytes, e);

	if (r < 0)
		return r;
	r = put_all(u, e);
	if (r == 0)
		r = tap_end(&u->tap, u->info.diff_id, e);
	if (r == 0)
		r = folders_apply(&u->folders, u->root, e);
	u->budget->tar_bytes -=
		u->tap.total < u->budget->tar_bytes ? u->tap.total : u->budget->tar_bytes;
	tap_done(&u->tap);
	return r;
}

int unpack_layer(int blob, int dir, bool by_root, struct budget *b, struct progress *p,
	struct layer_info *ret, struct err *e)
{
	struct unpack *u = calloc(1, sizeof(*u));
	locale_t utf8, old;
	int r;

	if (!u)
		return err_set(e, ENOMEM, "unpacking");
	u->root = dir;
	u->by_root = by_root;
	u->budget = b;
	u->progress = p;
	u->blob = blob;
	u->parent_fd = -1;
	utf8 = enter_utf8(&old, e);
	r = utf8 ? unpack_run(u, e) : -ENOENT;
	if (r == 0)
		*ret = u->info;
	if (utf8) {
		uselocale(old);
		freelocale(utf8);
	}
	if (u->parent_fd >= 0)
		host_close(u->parent_fd);
	folders_done(&u->folders);
	free(u);
	return r;
}
