/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/pack.c - files of the host as a layer.
 *
 * Owns:  the tar while it is written.
 * Rules: the operator chose the files, but not what is inside a folder: links are copied as links,
 *        devices and sockets are refused, and so is a name that would mean a deletion. In the base
 *        nothing is followed either: a DST that leads through a link there is refused.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <linux/openat2.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/image.h"
#include "image/names.h"
#include "image/pack.h"
#include "image/stop.h"
#include "plan/plan.h"
#include "template/template.h"

struct pack {
	struct archive *tar;
	const struct plan_root *base;
	unsigned visible; /* layers of the base that a path can come from: those below are hidden */
	uint64_t left;
	bool upper; /* from an overlay: owners count from @first_id on, and deletions are told */
	uid_t first_id;
};

static int failed(struct pack *p, struct err *e)
{
	return err_say(e, EIO, "writing the new layer: %s", archive_error_string(p->tar));
}

static int put_header(
	struct pack *p, const char *path, const struct stat *st, const char *target, struct err *e)
{
	struct archive_entry *entry = archive_entry_new();
	int r = 0;

	if (!entry)
		return err_set(e, ENOMEM, "writing the new layer");
	archive_entry_set_pathname(entry, path);
	archive_entry_set_mode(entry, st->st_mode);
	archive_entry_set_uid(entry, st->st_uid);
	archive_entry_set_gid(entry, st->st_gid);
	archive_entry_set_mtime(entry, st->st_mtime, 0);
	archive_entry_set_size(entry, S_ISREG(st->st_mode) ? st->st_size : 0);
	if (target)
		archive_entry_set_symlink(entry, target);
	if (archive_write_header(p->tar, entry) != ARCHIVE_OK)
		r = failed(p, e);
	archive_entry_free(entry);
	return r;
}

static int put_file(struct pack *p, int fd, const char *path, const struct stat *st, struct err *e)
{
	char chunk[64 * 1024];
	uint64_t size = (uint64_t)st->st_size, got = 0;
	ssize_t n;
	int r;

	if (size > p->left)
		return err_say(e, EFBIG, "more bytes than allowed; --max-size allows more");
	p->left -= size;
	r = put_header(p, path, st, NULL, e);
	while (r == 0 && (n = host_read(fd, chunk, sizeof(chunk))) != 0) {
		if (n == -EINTR)
			continue;
		if (n < 0)
			return err_set(e, (int)-n, "reading it");
		got += (uint64_t)n;
		if (got <= size && archive_write_data(p->tar, chunk, (size_t)n) != n)
			return failed(p, e);
		r = stop_check(e);
	}
	if (r == 0 && got != size)
		r = err_say(e, EAGAIN, "it changed while it was copied");
	return r;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int put_tree(
	struct pack *p, int dir, const char *name, const char *path, unsigned depth, struct err *e);

static int put_inside(struct pack *p, int fd, const char *path, unsigned depth, struct err *e)
{
	struct dirent **list = NULL;
	char inner[IMAGE_NAME_MAX + 1];
	int r = 0, n = scandirat(fd, ".", &list, NULL,
			   by_name); /* sorted: the same files, the same layer */

	if (n < 0)
		return err_set(e, errno, "reading the folder");
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (r == 0 && !str_eq(name, ".") && !str_eq(name, "..")) {
			if (str_fmt(inner, sizeof(inner), "%s%s%s", path, *path ? "/" : "", name) <
				0)
				r = err_say(e, ENAMETOOLONG, "a path in it is too long");
			else
				r = put_tree(p, fd, name, inner, depth + 1, e);
		}
		free(list[i]);
	}
	free(list);
	return r;
}

static int own_ids(const struct pack *p, struct stat *st, struct err *e)
{
	if (!p->upper) {
		st->st_uid = st->st_gid = 0;
		return 0;
	}
	if (st->st_uid - p->first_id >= SANDBOX_IDS || st->st_gid - p->first_id >= SANDBOX_IDS)
		return err_say(e, EOVERFLOW, "it belongs to nobody of the sandbox");
	st->st_uid -= p->first_id;
	st->st_gid -= p->first_id;
	return 0;
}

/* An empty file ".wh.@what" beside the path's last name. */
static int put_deletion(
	struct pack *p, const char *path, size_t folder, const char *what, struct err *e)
{
	static const struct stat plain = { .st_mode = S_IFREG | 0600 };
	char name[IMAGE_NAME_MAX + 1];

	if (str_fmt(name, sizeof(name), "%.*s.wh.%s", (int)folder, path, what) < 0)
		return err_say(e, ENAMETOOLONG, "its path is too long");
	return put_header(p, name, &plain, NULL, e);
}

static bool hides_below(int fd)
{
	char y;

	return fgetxattr(fd, "trusted.overlay.opaque", &y, 1) == 1 && y == 'y';
}

/* A folder of an overlay's upper that is all there is of it. */
static int put_opaque(struct pack *p, const char *path, struct err *e)
{
	char folder[IMAGE_NAME_MAX + 2];

	if (str_fmt(folder, sizeof(folder), "%s/", path) < 0)
		return err_say(e, ENAMETOOLONG, "its path is too long");
	return put_deletion(p, folder, strlen(folder), ".wh..opq", e);
}

/* Everything but a folder's contents; for a folder @ret_fd gets it, to go on with. */
static int put_node(struct pack *p, int dir, const char *name, const char *path, unsigned depth,
	int *ret_fd, struct err *e)
{
	char target[PATH_MAX];
	own_fd int fd = -1;
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, errno, "looking at it");
	if (str_after(name, ".wh."))
		return err_say(e, EINVAL, "a name that starts with .wh. would mean a deletion");
	if (p->upper && S_ISCHR(st.st_mode) && st.st_rdev == 0)
		return put_deletion(p, path, strlen(path) - strlen(name), name, e);
	r = own_ids(p, &st, e);
	if (r < 0)
		return r;
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		if (n < 0)
			return err_set(e, errno, "reading the link");
		target[n] = '\0';
		return put_header(p, path, &st, target, e);
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_say(e, EINVAL, "it is neither a file, a folder nor a link");
	fd = host_openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, -fd, "opening it");
	if (S_ISREG(st.st_mode))
		return put_file(p, fd, path, &st, e);
	if (depth > IMAGE_TREE_DEPTH_MAX)
		return err_say(e, ELOOP, "more than %d folders deep", IMAGE_TREE_DEPTH_MAX);
	r = depth ? put_header(p, path, &st, NULL, e) : 0; /* the top's was written by put_top */
	if (r == 0 && depth && p->upper && hides_below(fd))
		r = put_opaque(p, path, e);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int put_tree(
	struct pack *p, int dir, const char *name, const char *path, unsigned depth, struct err *e)
{
	char shown[120];
	own_fd int fd = -1;
	int r = put_node(p, dir, name, path, depth, &fd, e);

	if (r < 0)
		return r == -EINTR ? r
				   : err_wrap(e, r, "'/%s'", str_show(shown, sizeof(shown), path));
	return fd >= 0 ? put_inside(p, fd, path, depth, e) : 0;
}

static bool is_opaque(int layer, const char *path)
{
	own_fd int fd = host_openat2(
		layer, path, O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	char y;

	return fd >= 0 &&
	       fgetxattr(fd, geteuid() ? "user.overlay.opaque" : "trusted.overlay.opaque", &y, 1) ==
		       1 &&
	       y == 'y';
}

/* What the base has at @path: 1 and its stat, or 0. */
static int look_up(struct pack *p, const char *path, struct stat *ret, struct err *e)
{
	for (unsigned i = 0; i < p->visible; i++) {
		own_fd int layer = host_open(p->base->layers[i], O_RDONLY | O_DIRECTORY, 0),
			   fd = -1;

		if (layer < 0)
			return err_set(e, -layer, "opening a layer of the base");
		fd = host_openat2(
			layer, path, O_PATH | O_NOFOLLOW, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		if (fd == -ENOENT || fd == -ENOTDIR)
			continue;
		if (fd < 0 || fstat(fd, ret) < 0)
			return err_set(e, fd < 0 ? -fd : errno, "looking into a layer of the base");
		if (S_ISCHR(ret->st_mode) && ret->st_rdev == makedev(0, 0)) {
			p->visible = i;
			return 0;
		}
		if (S_ISDIR(ret->st_mode) && is_opaque(layer, path))
			p->visible =
				i + 1; /* below this one, layers have nothing more to say here */
		return 1;
	}
	return 0;
}

/* The folders above @path, as the base has them; those it has not are plain ones of root. */
static int put_parents(struct pack *p, const char *path, struct err *e)
{
	char part[IMAGE_NAME_MAX + 1], shown[120];
	struct stat st;
	int r;

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		size_t len = (size_t)(slash - path);

		memcpy(part, path, len);
		part[len] = '\0';
		r = look_up(p, part, &st, e);
		if (r < 0)
			return r;
		str_show(shown, sizeof(shown), part);
		if (r == 1 && S_ISLNK(st.st_mode))
			return err_say(e, ELOOP,
				"'/%s' is a link in the template; write the path it leads to",
				shown);
		if (r == 1 && !S_ISDIR(st.st_mode))
			return err_say(e, ENOTDIR, "'/%s' is no folder in the template", shown);
		if (r == 0)
			st = (struct stat){ .st_mode = S_IFDIR | 0755 };
		r = put_header(p, part, &st, NULL, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The top of a copied folder: the base's own if it has one there, or the source's. */
static int put_top(struct pack *p, const char *path, const struct stat *src, struct err *e)
{
	struct stat st = *src, old;
	int r = *path ? look_up(p, path, &old, e) : 0;

	if (r < 0)
		return r;
	if (r == 1 && S_ISDIR(src->st_mode) != S_ISDIR(old.st_mode))
		return err_say(e, EEXIST, "'/%s' is %s in the template; %s", path,
			S_ISDIR(old.st_mode) ? "a folder" : "no folder",
			S_ISDIR(old.st_mode) ? "end DST with '/' to copy into it"
					     : "choose another DST");
	if (!S_ISDIR(src->st_mode) || !*path)
		return 0;
	st.st_uid = st.st_gid = 0;
	return put_header(p, path, r == 1 ? &old : &st, NULL, e);
}

static int dst_path(
	const struct build_copy *c, const char *real, char out[IMAGE_NAME_MAX + 1], struct err *e)
{
	char whole[2 * PATH_MAX];
	struct entry_name name = { 0 };
	size_t n = strlen(c->dst);
	int r;

	if (c->dst[0] != '/')
		return err_say(e, EINVAL, "DST must be absolute: SRC:/PATH");
	r = str_fmt(whole, sizeof(whole), ".%s%s", c->dst,
		c->dst[n - 1] == '/' ? strrchr(real, '/') + 1 : "");
	if (r == 0)
		r = entry_name_parse(whole, &name, e);
	if (r == 0 && name.kind != NAME_PLAIN)
		r = err_say(e, EINVAL, "a name that starts with .wh. would mean a deletion");
	return r < 0 ? r
		     : str_fmt(out, IMAGE_NAME_MAX + 1, "%s%s%s", name.parent,
			       name.parent[0] ? "/" : "", name.base);
}

static int put_copy(
	struct pack *p, const char *state_dir, const struct build_copy *c, struct err *e)
{
	char real[PATH_MAX], state[PATH_MAX], path[IMAGE_NAME_MAX + 1];
	const char *rest;
	struct stat st;
	int r;

	if (!realpath(c->src, real) || stat(real, &st) < 0)
		return err_set(e, errno, "opening it");
	/* Either way around the copy would find itself. */
	rest = realpath(state_dir, state) ? str_after(state, str_eq(real, "/") ? "" : real) : NULL;
	if (template_is_state(state_dir, real) || (S_ISDIR(st.st_mode) && rest && *rest == '/'))
		return err_say(e, EINVAL, "it holds, or lies in, ward's own state directory");
	r = dst_path(c, real, path, e);
	if (r == 0 && !*path && !S_ISDIR(st.st_mode))
		r = err_say(e, EINVAL, "only a folder can be copied onto '/'");
	p->visible = p->base->layer_count;
	if (r == 0)
		r = put_parents(p, path, e);
	if (r == 0)
		r = put_top(p, path, &st, e);
	return r < 0 ? r : put_tree(p, AT_FDCWD, real, path, 0, e);
}

static int pack_begin(struct pack *p, int fd, struct err *e)
{
	p->tar = archive_write_new();
	/* GNU's form keeps names as bytes, whatever the locale. */
	if (p->tar && archive_write_set_format_gnutar(p->tar) == ARCHIVE_OK &&
		archive_write_open_fd(p->tar, fd) == ARCHIVE_OK)
		return 0;
	return err_say(e, ENOTSUP, "this libarchive cannot write tar");
}

static int pack_end(struct pack *p, int r, struct err *e)
{
	if (r == 0 && archive_write_close(p->tar) != ARCHIVE_OK)
		r = failed(p, e);
	archive_write_free(p->tar);
	return r;
}

int pack_copies(int fd, const char *state_dir, const struct plan_root *base,
	const struct build_copy *copies, unsigned count, uint64_t max_bytes, struct err *e)
{
	struct pack p = { .base = base, .left = max_bytes };
	char shown[128];
	int r = pack_begin(&p, fd, e);

	for (unsigned i = 0; r == 0 && i < count; i++) {
		r = put_copy(&p, state_dir, &copies[i], e);
		if (r < 0)
			err_wrap(e, r, "--copy %s", str_show(shown, sizeof(shown), copies[i].src));
	}
	return pack_end(&p, r, e);
}

int pack_upper(int fd, const char *upper, uint64_t max_bytes, struct err *e)
{
	struct pack p = { .left = max_bytes, .upper = true };
	struct stat st;
	int r;

	if (stat(upper, &st) < 0)
		return err_set(e, errno, "looking at what the command left");
	p.first_id = st.st_uid; /* its top is the sandbox's root's */
	r = pack_begin(&p, fd, e);
	if (r == 0)
		r = put_tree(&p, AT_FDCWD, upper, "", 0, e);
	return pack_end(&p, r, e);
}
