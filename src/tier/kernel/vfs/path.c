/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/path.c - from a guest's path to a place.
 *
 * Owns:  the walk, and the rules of RESOLVE_*.
 * Rules: under the kernel lock; a path is a private copy before it comes here. A host call is made
 *        by a file system's lookup only, with one name at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"
#include "tier/kernel/vfs/path.h"

enum { LINK_TEXT_MAX = GUEST_PATH_MAX };

struct path path_ref(struct path p)
{
	if (p.dentry)
		dentry_ref(p.dentry);
	if (p.mnt)
		mount_ref(p.mnt);
	return p;
}

void path_unref(struct path p)
{
	if (p.dentry)
		dentry_unref(p.dentry);
	if (p.mnt)
		mount_unref(p.mnt);
}

/* Takes the reference on @d, and one of its own on @mnt. */
static void move_to(struct step *s, struct mount *mnt, struct dentry *d)
{
	struct path was = s->at;

	s->at = (struct path){ mount_ref(mnt), d };
	path_unref(was);
}

static bool same_path(struct path a, struct path b)
{
	return a.mnt == b.mnt && a.dentry == b.dentry;
}

/* Where a relative path starts; borrowed. */
static int start_of(struct task *t, int dirfd, struct path *ret)
{
	struct file *f;

	if (dirfd == AT_FDCWD) {
		*ret = t->fs->cwd;
		return 0;
	}
	f = fd_get_path(t, dirfd);
	if (!f)
		return -EBADF;
	if (!f->path.dentry)
		return -ENOTDIR;
	*ret = f->path;
	return 0;
}

int step_begin(struct step *s, struct task *t, int dirfd, const char *path, unsigned flags)
{
	bool absolute = path[0] == '/';
	struct path start;
	int r;

	memset(s, 0, offsetof(struct step, name));
	s->task = t;
	s->flags = flags;
	s->rest = path;
	s->root = t->fs->root;
	if (!path[0] && !(flags & LOOKUP_EMPTY))
		return -ENOENT;
	if (absolute && (flags & LOOKUP_BENEATH))
		return -EXDEV;
	if (absolute && !(flags & LOOKUP_IN_ROOT)) {
		start = s->root;
	} else {
		r = start_of(t, dirfd, &start);
		if (r < 0)
			return r;
		if (path[0] && !S_ISDIR(start.dentry->inode->mode))
			return -ENOTDIR;
	}
	if (flags & (LOOKUP_IN_ROOT | LOOKUP_BENEATH))
		s->root = start;
	s->at = path_ref(start);
	return 0;
}

void step_done(struct step *s)
{
	path_unref(s->at);
	free(s->owned);
	s->at = (struct path){ NULL, NULL };
	s->owned = NULL;
}

int step_enter(struct step *s, struct dentry *d)
{
	struct mount *mnt = s->at.mnt, *m;

	while ((m = mount_at(mnt, d))) {
		if (s->flags & LOOKUP_NO_XDEV) {
			dentry_unref(d);
			return -EXDEV;
		}
		mnt = m;
		if (!(s->flags & LOOKUP_UMOUNT))
			m->expiring = false;
		dentry_ref(m->root);
		dentry_unref(d);
		d = m->root;
	}
	move_to(s, mnt, d);
	return 0;
}

int step_up(struct step *s)
{
	struct mount *mnt = s->at.mnt;
	struct dentry *d = s->at.dentry;

	if (same_path(s->at, s->root))
		return (s->flags & LOOKUP_BENEATH) ? -EXDEV : 0;
	while (d == mnt->root && mnt->parent) {
		if (s->flags & LOOKUP_NO_XDEV)
			return -EXDEV;
		d = mnt->point;
		mnt = mnt->parent;
		if (same_path((struct path){ mnt, d }, s->root)) {
			move_to(s, mnt, dentry_ref(d));
			return 0;
		}
	}
	if (d->parent)
		d = d->parent;
	dentry_ref(d);
	move_to(s, mnt, d);
	/* The parent may have something mounted on it since. */
	return step_enter(s, dentry_ref(s->at.dentry));
}

int step_lookup(struct step *s, struct dentry **ret)
{
	struct dentry *dir = s->at.dentry, *d;
	int r;

	if (!S_ISDIR(dir->inode->mode) || !dir->inode->ops->lookup)
		return -ENOTDIR;
	r = inode_permission(s->task, dir->inode, X_OK);
	if (r < 0)
		return r;
	answers_walked(s->task, dir);
	if (dir->flags & DENTRY_DELETED)
		return -ENOENT; /* a directory that was removed has no names, and gets none */
	if (s->len > GUEST_NAME_MAX)
		return -ENAMETOOLONG;
	d = dir->sb->flags & SB_NO_CACHE ? NULL : dentry_find(dir, s->name, s->len);
	if (!d) {
		d = dentry_create(dir, s->name, s->len);
		if (!d)
			return -ENOMEM;
		r = dir->inode->ops->lookup(dir->inode, d);
		if (r < 0) {
			dentry_unref(d);
			return r;
		}
		if (!(dir->sb->flags & SB_NO_CACHE))
			dentry_hash(d);
	}
	*ret = d;
	return 0;
}

/* Puts @target in front of what is left to walk. */
static int put_before(struct step *s, const char *target, size_t len)
{
	size_t rest = strlen(s->rest);
	char *text = malloc(len + rest + 2);

	if (!text)
		return -ENOMEM;
	memcpy(text, target, len);
	if (rest)
		text[len++] = '/';
	memcpy(text + len, s->rest, rest + 1);
	free(s->owned);
	s->owned = text;
	s->rest = text;
	return 0;
}

static int jump_to_root(struct step *s)
{
	if (s->flags & LOOKUP_BENEATH)
		return -EXDEV;
	if ((s->flags & LOOKUP_NO_XDEV) && s->root.mnt != s->at.mnt)
		return -EXDEV;
	dentry_ref(s->root.dentry);
	move_to(s, s->root.mnt, s->root.dentry);
	return 0;
}

static int follow_magic(struct step *s, struct inode *link)
{
	struct path to;
	int r;

	s->task->call.unsteady = true;
	if (s->flags & LOOKUP_NO_MAGIC)
		return -ELOOP;
	if (s->flags & (LOOKUP_BENEATH | LOOKUP_IN_ROOT))
		return -EXDEV;
	r = link->ops->follow(link, s->task, &to);
	if (r < 0)
		return r;
	if ((s->flags & LOOKUP_NO_XDEV) && to.mnt != s->at.mnt) {
		path_unref(to);
		return -EXDEV;
	}
	path_unref(s->at);
	s->at = to;
	return 1;
}

int step_follow(struct step *s, struct dentry *d)
{
	struct inode *link = d->inode;
	char target[LINK_TEXT_MAX];
	ssize_t n;
	int r;

	if (++s->links > GUEST_LINKS_MAX || (s->flags & LOOKUP_NO_SYMLINKS) ||
		(s->at.mnt->flags & MOUNT_NO_FOLLOW))
		return -ELOOP;
	if (link->ops->follow)
		return follow_magic(s, link);
	n = link->ops->readlink ? link->ops->readlink(link, s->task, target, sizeof(target))
				: -EINVAL;
	if (n < 0)
		return (int)n;
	if (n == 0)
		return -ENOENT;
	if (n >= (ssize_t)sizeof(target))
		return -ENAMETOOLONG;
	r = target[0] == '/' ? jump_to_root(s) : 0;
	return r < 0 ? r : put_before(s, target, (size_t)n);
}

/* Cuts the next name off the rest; true when there is more behind it. */
static bool next_name(struct step *s)
{
	const char *end;

	while (*s->rest == '/')
		s->rest++;
	end = strchrnul(s->rest, '/');
	s->len = (size_t)(end - s->rest);
	if (s->len <= GUEST_NAME_MAX) {
		memcpy(s->name, s->rest, s->len);
		s->name[s->len] = '\0';
	}
	s->kind = s->len == 0                                             ? LAST_ROOT
		  : s->len == 1 && s->name[0] == '.'                      ? LAST_DOT
		  : s->len == 2 && s->name[0] == '.' && s->name[1] == '.' ? LAST_DOTDOT
									  : LAST_NAME;
	s->slash = *end == '/';
	while (*end == '/')
		end++;
	s->rest = end;
	return *end;
}

/* Into one directory on the way. */
static int walk_one(struct step *s)
{
	struct dentry *d;
	int r;

	if (s->kind == LAST_DOT || s->kind == LAST_DOTDOT) {
		if (!S_ISDIR(s->at.dentry->inode->mode))
			return -ENOTDIR;
		r = inode_permission(s->task, s->at.dentry->inode, X_OK);
		return r < 0 || s->kind == LAST_DOT ? r : step_up(s);
	}
	r = step_lookup(s, &d);
	if (r < 0)
		return r;
	if (!d->inode) {
		dentry_unref(d);
		return -ENOENT;
	}
	if (S_ISLNK(d->inode->mode)) {
		r = step_follow(s, d);
		dentry_unref(d);
		return r < 0 ? r : 0;
	}
	return step_enter(s, d);
}

int step_to_last(struct step *s)
{
	int r;

	while (next_name(s)) {
		r = walk_one(s);
		if (r < 0)
			return r;
	}
	if (!S_ISDIR(s->at.dentry->inode->mode))
		return -ENOTDIR;
	return s->kind == LAST_ROOT ? 0 : inode_permission(s->task, s->at.dentry->inode, X_OK);
}

/* The last name itself, links followed or not. */
static int walk_last(struct step *s)
{
	unsigned want_dir = s->flags & LOOKUP_DIRECTORY;

	for (;;) {
		struct dentry *d;
		int r = step_to_last(s);

		if (r < 0)
			return r;
		want_dir |= s->slash;
		if (s->kind == LAST_ROOT)
			return 0;
		if (s->kind != LAST_NAME)
			return walk_one(s);
		r = step_lookup(s, &d);
		if (r < 0)
			return r;
		if (!d->inode) {
			dentry_unref(d);
			return -ENOENT;
		}
		if (S_ISLNK(d->inode->mode) && (s->flags & LOOKUP_FOLLOW || want_dir)) {
			r = step_follow(s, d);
			dentry_unref(d);
			if (r < 0)
				return r;
			if (r == 0) {
				if (want_dir)
					s->flags |= LOOKUP_DIRECTORY;
				continue;
			}
		} else {
			r = step_enter(s, d);
			if (r < 0)
				return r;
		}
		return want_dir && !S_ISDIR(s->at.dentry->inode->mode) ? -ENOTDIR : 0;
	}
}

int vfs_walk(struct task *t, int dirfd, const char *path, unsigned flags, struct path *ret)
{
	struct step s;
	int r = step_begin(&s, t, dirfd, path, flags);

	if (r == 0 && path[0])
		r = walk_last(&s);
	if (r == 0)
		*ret = path_ref(s.at);
	step_done(&s);
	return r;
}

int vfs_walk_parent(struct task *t, int dirfd, const char *path, struct path *ret, char *name,
	unsigned *ret_trailing_slash)
{
	struct step s;
	int r = step_begin(&s, t, dirfd, path, 0);

	if (r == 0)
		r = step_to_last(&s);
	if (r == 0 && s.kind == LAST_NAME && s.len > GUEST_NAME_MAX)
		r = -ENAMETOOLONG;
	if (r == 0 && s.kind != LAST_NAME)
		r = -EEXIST;
	if (r == 0) {
		memcpy(name, s.name, s.len + 1);
		*ret_trailing_slash = s.slash;
		*ret = path_ref(s.at);
	}
	step_done(&s);
	return r;
}

int vfs_check_parent(struct task *t, int dirfd, const char *path)
{
	struct step s;
	int r = step_begin(&s, t, dirfd, path, 0);

	if (r == 0)
		r = step_to_last(&s);
	step_done(&s);
	return r;
}

/* Writes the names of @p backwards from the end of @buf; where the text starts, or NULL. */
static char *show_backwards(
	struct path p, struct path root, char *buf, char *end, bool *ret_outside)
{
	*end = '\0';
	*ret_outside = false;
	while (!same_path(p, root)) {
		if (p.dentry == p.mnt->root) {
			if (!p.mnt->parent) {
				*ret_outside = true;
				break;
			}
			p = (struct path){ p.mnt->parent, p.mnt->point };
			continue;
		}
		if (!p.dentry->parent) {
			*ret_outside = true;
			break;
		}
		if ((size_t)(end - buf) < p.dentry->len + 1u)
			return NULL;
		end -= p.dentry->len;
		memcpy(end, p.dentry->name, p.dentry->len);
		*--end = '/';
		p.dentry = p.dentry->parent;
	}
	return end;
}

ssize_t path_show(struct path p, struct path root, char *buf, size_t cap)
{
	static const char gone[] = " (deleted)", far[] = "(unreachable)";
	size_t tail = p.dentry->flags & DENTRY_DELETED ? sizeof(gone) - 1 : 0, len, head;
	bool outside;
	char *at;

	if (cap < sizeof(gone) + sizeof(far) + 2)
		return -ENAMETOOLONG;
	if ((p.dentry->sb->flags & SB_PLAIN) && p.dentry != p.mnt->root) {
		int r = str_copy(buf, cap, p.dentry->name);

		return r < 0 ? r : (ssize_t)p.dentry->len;
	}
	at = show_backwards(p, root, buf, buf + cap - 1 - tail, &outside);
	if (!at)
		return -ENAMETOOLONG;
	if (!*at)
		*--at = '/';
	len = strlen(at);
	head = outside ? sizeof(far) - 1 : 0;
	if (head + len + tail + 1 > cap)
		return -ENAMETOOLONG;
	memmove(buf + head, at, len);
	memcpy(buf, far, head);
	memcpy(buf + head + len, gone, tail);
	buf[head + len + tail] = '\0';
	return (ssize_t)(head + len + tail);
}

ssize_t mount_root_show(const struct mount *m, char *buf, size_t cap)
{
	struct mount whole = { .sb = m->sb, .root = m->sb->root };

	return path_show(
		(struct path){ &whole, m->root }, (struct path){ &whole, whole.root }, buf, cap);
}
