/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/names.c - making, removing and moving names.
 *
 * Owns:  the checks that come before a file system is asked.
 * Rules: under the kernel lock, so what was checked still holds when the file system acts.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/vfs/ops.h"
#include "tier/kernel/vfs/path.h"

/* Up to the last name of @path, and its dentry. */
static int begin(struct step *s, struct task *t, int dirfd, const char *path, struct dentry **ret)
{
	int r = step_begin(s, t, dirfd, path, 0);

	*ret = NULL;
	if (r == 0)
		r = step_to_last(s);
	return r;
}

/* For what will be made: the name must be new, and its file system writable. */
static int begin_name(
	struct step *s, struct task *t, int dirfd, const char *path, bool dir, struct dentry **ret)
{
	int r = begin(s, t, dirfd, path, ret);

	if (r == 0 && s->kind != LAST_NAME)
		r = -EEXIST;
	if (r == 0)
		r = step_lookup(s, ret);
	if (r == 0 && (*ret)->inode)
		r = -EEXIST;
	if (r == 0 && s->slash && !dir)
		r = -ENOENT;
	return r < 0 ? r : mount_writable(s->at);
}

static int begin_new(struct step *s, struct task *t, int dirfd, const char *path, uint32_t mode,
	struct dentry **ret)
{
	int r = begin_name(s, t, dirfd, path, S_ISDIR(mode), ret);

	if (r == 0)
		r = landlock_path(t, s->at, landlock_make(mode));
	return r < 0 ? r : may_create(t, s->at);
}

static int finish(struct step *s, struct dentry *d, int r)
{
	dentry_unref(d);
	step_done(s);
	return r;
}

static int made(struct step *s, struct dentry *d, int r)
{
	if (r == 0)
		notify_name(s->task->k, s->at.dentry->inode, d->inode, IN_CREATE, d->name);
	return r;
}

int vfs_mkdir(struct task *t, int dirfd, const char *path, uint32_t mode)
{
	struct dentry *d;
	struct step s;
	int r = begin_new(&s, t, dirfd, path, S_IFDIR, &d);

	if (r == 0) {
		struct inode *dir = s.at.dentry->inode;

		mode = S_IFDIR | (mode & 01777 & ~t->fs->umask);
		r = dir->ops->mkdir ? dir->ops->mkdir(dir, d, t, mode) : -EPERM;
	}
	return finish(&s, d, made(&s, d, r));
}

int vfs_mknod(
	struct task *t, int dirfd, const char *path, uint32_t mode, uint64_t rdev, struct path *ret)
{
	struct dentry *d;
	struct step s;
	int r;

	switch (mode & S_IFMT) {
	case 0:
		mode |= S_IFREG;
		break;
	case S_IFREG:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK:
		break;
	case S_IFDIR:
		return -EPERM;
	default:
		return -EINVAL;
	}
	r = begin_new(&s, t, dirfd, path, mode, &d);
	/* A device is one of ours by its number, whoever made the node. */
	if (r == 0 && (S_ISCHR(mode) || S_ISBLK(mode)) && !task_capable(t, CAP_MKNOD))
		r = -EPERM;
	if (r == 0) {
		struct inode *dir = s.at.dentry->inode;

		mode = mode_for(t, dir, mode & (S_IFMT | 07777));
		if (S_ISREG(mode))
			r = dir->ops->create ? dir->ops->create(dir, d, t, mode) : -EPERM;
		else
			r = dir->ops->mknod ? dir->ops->mknod(dir, d, t, mode, rdev) : -EPERM;
	}
	if (r == 0 && ret)
		*ret = path_ref((struct path){ s.at.mnt, d });
	return finish(&s, d, made(&s, d, r));
}

int vfs_symlink(struct task *t, const char *target, int dirfd, const char *path)
{
	struct dentry *d;
	struct step s;
	int r;

	if (!target[0])
		return -ENOENT;
	r = begin_new(&s, t, dirfd, path, S_IFLNK, &d);
	if (r == 0) {
		struct inode *dir = s.at.dentry->inode;

		r = dir->ops->symlink ? dir->ops->symlink(dir, d, t, target) : -EPERM;
	}
	return finish(&s, d, made(&s, d, r));
}

/* fs.protected_hardlinks: a name for another's file only for who could write to it anyway. */
static int may_link(struct task *t, struct inode *i)
{
	bool set_id = (i->mode & S_ISUID) || (i->mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);

	if (inode_owner(t, i))
		return 0;
	return S_ISREG(i->mode) && !set_id && inode_permission(t, i, R_OK | W_OK) == 0 ? 0 : -EPERM;
}

/* A second name, in @to, for what is at @old. */
static int may_refer(struct task *t, struct path old, struct path to, struct dentry *d)
{
	struct dentry *up = old.dentry->parent;
	struct landlock_move m = {
		.from = { old.mnt, up ? up : old.dentry }, .to = to, .old = old.dentry, .over = d
	};

	return landlock_refer(t, &m);
}

int vfs_link(struct task *t, struct path old, int dirfd, const char *path)
{
	struct inode *i = old.dentry->inode;
	struct dentry *d;
	struct step s;
	int r = begin_name(&s, t, dirfd, path, false, &d);

	if (r == 0 && s.at.mnt != old.mnt)
		r = -EXDEV;
	if (r == 0)
		r = may_refer(t, old, s.at, d);
	if (r == 0)
		r = may_link(t, i);
	if (r == 0)
		r = may_create(t, s.at);
	if (r == 0 && S_ISDIR(i->mode))
		r = -EPERM;
	if (r == 0 && (i->flags & (INODE_IMMUTABLE | INODE_APPEND)))
		r = -EPERM;
	if (r == 0 && i->nlink >= HARD_LINKS_MAX)
		r = -EMLINK;
	/* An O_TMPFILE that was opened with O_EXCL never gets a name. */
	if (r == 0 && i->nlink == 0 && !(i->flags & INODE_LINKABLE))
		r = -ENOENT;
	if (r == 0) {
		struct inode *dir = s.at.dentry->inode;

		r = dir->ops->link ? dir->ops->link(dir, d, i) : -EPERM;
	}
	if (r == 0)
		notify_inode(t->k, i, IN_ATTRIB);
	return finish(&s, d, made(&s, d, r));
}

/* The existing name at the end of @path, for removal. */
static int begin_old(
	struct step *s, struct task *t, int dirfd, const char *path, struct dentry **ret)
{
	int r = step_lookup(s, ret);

	if (r < 0)
		return r;
	if (!(*ret)->inode)
		return -ENOENT;
	return 0;
}

/* In Linux' order: one name less, then the file itself if that was all, then the directory. */
static void removed(struct step *s, struct dentry *d, struct inode *i, const char *name)
{
	struct kernel *k = s->task->k;

	if (!S_ISDIR(i->mode))
		notify_inode(k, i, IN_ATTRIB);
	if (i->nlink == 0 && d->refs == 1) {
		notify_inode(k, i, IN_DELETE_SELF);
		d->flags |= DENTRY_TOLD;
	}
	notify_name(k, s->at.dentry->inode, i, IN_DELETE, name);
}

int vfs_rmdir(struct task *t, int dirfd, const char *path)
{
	struct dentry *d;
	struct step s;
	int r = begin(&s, t, dirfd, path, &d);

	if (r == 0 && s.kind != LAST_NAME)
		r = s.kind == LAST_DOT ? -EINVAL : s.kind == LAST_DOTDOT ? -ENOTEMPTY : -EBUSY;
	if (r == 0)
		r = mount_writable(s.at);
	if (r == 0)
		r = begin_old(&s, t, dirfd, path, &d);
	if (r == 0)
		r = landlock_path(t, s.at, LANDLOCK_REMOVE_DIR);
	if (r == 0)
		r = may_delete(t, s.at, d, true);
	if (r == 0 && mount_at(s.at.mnt, d))
		r = -EBUSY;
	if (r == 0) {
		struct inode *dir = s.at.dentry->inode, *i = inode_ref(d->inode);

		r = dir->ops->rmdir ? dir->ops->rmdir(dir, d) : -EPERM;
		if (r == 0)
			removed(&s, d, i, s.name);
		inode_unref(i);
	}
	return finish(&s, d, r);
}

int vfs_unlink(struct task *t, int dirfd, const char *path)
{
	struct dentry *d;
	struct step s;
	int r = begin(&s, t, dirfd, path, &d);

	if (r == 0 && s.kind != LAST_NAME)
		r = -EISDIR;
	if (r == 0)
		r = mount_writable(s.at);
	if (r == 0)
		r = begin_old(&s, t, dirfd, path, &d);
	if (r == 0 && s.slash)
		r = S_ISDIR(d->inode->mode) ? -EISDIR : -ENOTDIR;
	if (r == 0)
		r = landlock_path(t, s.at, LANDLOCK_REMOVE_FILE);
	if (r == 0)
		r = may_delete(t, s.at, d, false);
	if (r == 0 && mount_at(s.at.mnt, d))
		r = -EBUSY;
	if (r == 0) {
		struct inode *dir = s.at.dentry->inode, *i = inode_ref(d->inode);

		r = dir->ops->unlink ? dir->ops->unlink(dir, d) : -EPERM;
		if (r == 0)
			removed(&s, d, i, s.name);
		inode_unref(i);
	}
	return finish(&s, d, r);
}

struct move {
	struct step from, to;
	struct dentry *old, *new_d;
	unsigned flags;
};

/* Both ends of a rename are known: may it be? 1: there is nothing to do. */
static int check_move(struct task *t, struct move *m)
{
	struct inode *old = m->old->inode, *over = m->new_d->inode;
	bool swap = m->flags & RENAME_EXCHANGE;
	struct landlock_move refer = { m->from.at, m->to.at, m->old, m->new_d, true, swap };
	int r;

	if (dentry_is_below(m->to.at.dentry, m->old))
		return -EINVAL; /* a directory into itself */
	if (over && dentry_is_below(m->from.at.dentry, m->new_d))
		return swap ? -EINVAL : -ENOTEMPTY;
	r = landlock_refer(t, &refer);
	if (r < 0)
		return r;
	if (over == old)
		return 1;
	r = may_delete(t, m->from.at, m->old, S_ISDIR(old->mode));
	if (r < 0)
		return r;
	if (!over)
		r = may_create(t, m->to.at);
	else
		r = may_delete(
			t, m->to.at, m->new_d, swap ? S_ISDIR(over->mode) : S_ISDIR(old->mode));
	if (r < 0)
		return r;
	/* A directory that moves gets another "..": that is a write into it. */
	if (m->from.at.dentry != m->to.at.dentry) {
		if (S_ISDIR(old->mode))
			r = inode_permission(t, old, W_OK);
		if (r == 0 && swap && S_ISDIR(over->mode))
			r = inode_permission(t, over, W_OK);
	}
	if (r == 0 && (mount_at(m->from.at.mnt, m->old) || mount_at(m->to.at.mnt, m->new_d)))
		r = -EBUSY;
	return r;
}

static void tell_moved(struct move *m, struct inode *i, struct inode *over, const char *was)
{
	struct kernel *k = m->from.task->k;
	struct notify_end from = { m->from.at.dentry->inode, was };
	struct notify_end to = { m->to.at.dentry->inode, m->to.name };

	notify_move(k, i, from, to);
	if (over && (m->flags & RENAME_EXCHANGE))
		notify_move(k, over, to, from);
	else if (over)
		notify_inode(k, over, IN_ATTRIB);
}

static int move_names(struct task *t, struct move *m)
{
	struct inode *dir = m->from.at.dentry->inode;
	struct inode *i = inode_ref(m->old->inode), *over = m->new_d->inode;
	int r = check_move(t, m);

	if (over)
		inode_ref(over);
	if (r == 0)
		r = dir->ops->rename ? dir->ops->rename(dir, m->old, m->to.at.dentry->inode,
					       m->new_d, m->flags)
				     : -EPERM;
	if (r == 0)
		tell_moved(m, i, over, m->from.name);
	inode_unref(i);
	inode_unref(over);
	return r == 1 ? 0 : r;
}

static int find_ends(struct task *t, struct move *m)
{
	int r;

	if (m->from.at.mnt != m->to.at.mnt)
		return -EXDEV;
	if (m->from.kind != LAST_NAME)
		return -EBUSY;
	if (m->to.kind != LAST_NAME)
		return m->flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	r = mount_writable(m->from.at);
	if (r == 0)
		r = step_lookup(&m->from, &m->old);
	if (r == 0 && !m->old->inode)
		r = -ENOENT;
	if (r == 0)
		r = step_lookup(&m->to, &m->new_d);
	if (r < 0)
		return r;
	if ((m->flags & RENAME_NOREPLACE) && m->new_d->inode)
		return -EEXIST;
	if (m->flags & RENAME_EXCHANGE) {
		if (!m->new_d->inode)
			return -ENOENT;
		if (!S_ISDIR(m->new_d->inode->mode) && m->to.slash)
			return -ENOTDIR;
	}
	/* A slash says "directory". */
	if (!S_ISDIR(m->old->inode->mode) &&
		(m->from.slash || (!(m->flags & RENAME_EXCHANGE) && m->to.slash)))
		return -ENOTDIR;
	return move_names(t, m);
}

int vfs_rename(
	struct task *t, int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	struct move m = { .flags = flags };
	int r = step_begin(&m.from, t, from_fd, from, 0);

	if (r == 0)
		r = step_to_last(&m.from);
	if (r < 0) {
		step_done(&m.from);
		return r;
	}
	r = step_begin(&m.to, t, to_fd, to, 0);
	if (r == 0)
		r = step_to_last(&m.to);
	if (r == 0)
		r = find_ends(t, &m);
	dentry_unref(m.old);
	dentry_unref(m.new_d);
	step_done(&m.from);
	step_done(&m.to);
	return r;
}
