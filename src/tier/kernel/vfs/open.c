/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/open.c - open, in the order in which Linux looks for errors.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock. Nothing here waits: a FIFO that must wait is its opener's business.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/lease.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/vfs/ops.h"
#include "tier/kernel/vfs/path.h"

enum {
	/* What F_GETFL gives back; the rest is only for the opening itself. */
	KEPT_FLAGS = O_ACCMODE | O_APPEND | O_NONBLOCK | O_DSYNC | O_ASYNC | O_DIRECT |
		     O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_PATH |
		     (O_TMPFILE & ~O_DIRECTORY) | (O_SYNC & ~O_DSYNC),
	GUEST_O_LARGEFILE = 0100000,
	TMPFILE_BIT = O_TMPFILE & ~O_DIRECTORY,
};

const struct file_ops path_only_ops = { .name = "path" };

static int wanted(unsigned flags)
{
	static const int access[4] = { R_OK, W_OK, R_OK | W_OK, R_OK | W_OK };

	return access[flags & O_ACCMODE] | (flags & O_TRUNC ? W_OK : 0);
}

/* May @t open this, which was there before? */
static int check(struct task *t, struct path p, unsigned flags)
{
	struct inode *i = p.dentry->inode;
	int want = wanted(flags), r;

	switch (i->mode & S_IFMT) {
	case S_IFLNK:
		return -ELOOP;
	case S_IFDIR:
		if (want & W_OK)
			return -EISDIR;
		break;
	case S_IFCHR:
	case S_IFBLK:
		if (p.mnt->flags & MOUNT_NO_DEV)
			return -EACCES;
		want = wanted(flags & ~(unsigned)O_TRUNC);
		break;
	case S_IFIFO:
	case S_IFSOCK:
		want = wanted(flags & ~(unsigned)O_TRUNC);
		break;
	default:
		if ((want & W_OK) && (p.dentry->sb->flags & SB_READ_ONLY))
			return -EROFS;
	}
	r = inode_permission(t, i, want);
	if (r < 0)
		return r;
	if ((flags & O_NOATIME) && !inode_owner(t, i))
		return -EPERM;
	if ((want & W_OK) && (i->flags & INODE_IMMUTABLE))
		return -EPERM;
	if ((want & W_OK) && (i->flags & INODE_APPEND) &&
		(!(flags & O_APPEND) || (flags & O_TRUNC)))
		return -EPERM;
	if ((want & W_OK) && (S_ISREG(i->mode) || S_ISDIR(i->mode)))
		return mount_writable(p);
	return 0;
}

static int truncate_now(struct file *f, struct task *t)
{
	struct iattr attr = { .valid = ATTR_SIZE | ATTR_MTIME | ATTR_CTIME };
	struct inode *i = f->inode;

	if (!S_ISREG(i->mode))
		return 0;
	attr.mtime = attr.ctime = kernel_realtime(f->k);
	inode_drop_setid(t, i);
	if (!i->ops->setattr) {
		inode_apply(i, &attr);
		return 0;
	}
	return i->ops->setattr(i, &attr);
}

enum how { OPEN_FOUND, OPEN_CREATED, OPEN_EXEC, OPEN_QUIET };

/* May it be opened now, against rights, leases and those who want to be asked? */
static int may_open(struct task *t, struct path p, unsigned flags, enum how how)
{
	struct inode *i = p.dentry->inode;
	bool looked = how == OPEN_FOUND || how == OPEN_QUIET;
	int r = looked ? check(t, p, flags) : 0;

	if (r == 0 && how == OPEN_FOUND && i->leases)
		r = (int)lease_break(t, i, wanted(flags) & W_OK, !(flags & O_NONBLOCK));
	if (r < 0 || !t->k->fan)
		return r;
	/* Not for a new file: the call would come back to find it there. */
	if (how == OPEN_EXEC)
		r = (int)fan_ask(t, p, FAN_W_EXEC_PERM);
	if (r == 0 && (how == OPEN_EXEC || how == OPEN_FOUND))
		r = (int)fan_ask(t, p, FAN_W_OPEN_PERM);
	return r;
}

static int open_path(struct task *t, struct path p, unsigned flags, enum how how, struct file **ret)
{
	struct inode *i = p.dentry->inode;
	bool created = how == OPEN_CREATED || how == OPEN_EXEC;
	struct file *f;
	int r = flags & O_PATH ? 0 : may_open(t, p, flags, how);
	bool cut = (flags & O_TRUNC) && !created;
	unsigned refused = 0;

	if (r == 0 && !(flags & O_PATH) && t->cred->landlock)
		r = landlock_open(t, p, flags, how == OPEN_EXEC, cut && S_ISREG(i->mode), &refused);
	if (r < 0)
		return r;
	f = file_create(t->k, &path_only_ops, (flags & (KEPT_FLAGS | O_NOCTTY)) | GUEST_O_LARGEFILE,
		inode_ref(i), NULL);
	if (!f) {
		inode_unref(i);
		return -ENFILE;
	}
	f->path = path_ref(p);
	f->cred = cred_ref(t->cred);
	f->quiet = how == OPEN_QUIET;
	f->refused = refused;
	if (flags & O_PATH) {
		f->flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW;
		*ret = f;
		return 0;
	}
	r = i->ops->open ? i->ops->open(i, f, t) : -ENXIO;
	f->flags &= ~(unsigned)O_NOCTTY; /* only for the opening itself */
	if (r == 0 && (flags & O_DIRECT) && !S_ISREG(i->mode) && !S_ISBLK(i->mode))
		r = -EINVAL;
	if (r == 0 && cut)
		r = truncate_now(f, t);
	if (r < 0) {
		file_unref(f); /* open sets f->ops when it succeeds, and only then */
		return r;
	}
	f->counted = true;
	f->created = how == OPEN_CREATED;
	i->opens++;
	i->write_opens += file_writable(f);
	p.mnt->writers += file_writable(f);
	notify_file(f, how == OPEN_EXEC ? IN_OPEN | FAN_W_OPEN_EXEC : IN_OPEN);
	if (cut)
		notify_dentry(t->k, p.dentry, IN_MODIFY);
	*ret = f;
	return 0;
}

int vfs_open_path(struct task *t, struct path p, unsigned flags, bool created, struct file **ret)
{
	return open_path(t, p, flags, created ? OPEN_CREATED : OPEN_FOUND, ret);
}

int vfs_open_quiet(struct task *t, struct path p, unsigned flags, struct file **ret)
{
	return open_path(t, p, flags, OPEN_QUIET, ret);
}

static int create_in(struct step *s, struct dentry *d, const struct open_how_guest *how)
{
	struct inode *dir = s->at.dentry->inode;
	int r = may_create(s->task, s->at);

	if (r == 0)
		r = landlock_path(s->task, s->at, LANDLOCK_MAKE_REG);
	if (r < 0)
		return r;
	if (!dir->ops->create)
		return -EACCES;
	r = dir->ops->create(
		dir, d, s->task, mode_for(s->task, dir, S_IFREG | (how->mode & 07777)));
	if (r == 0)
		notify_name(s->task->k, dir, d->inode, IN_CREATE, d->name);
	return r;
}

/* O_CREAT at the last name: 1 when there is a link to follow. */
static int open_last_create(struct step *s, const struct open_how_guest *how, struct file **ret)
{
	struct dentry *d;
	bool created = false;
	int r;

	if (s->kind != LAST_NAME)
		return how->flags & O_EXCL ? -EEXIST : -EISDIR;
	if (s->slash)
		return -EISDIR;
	r = step_lookup(s, &d);
	if (r < 0)
		return r;
	if (!d->inode) {
		r = create_in(s, d, how);
		created = r == 0;
	} else if (how->flags & O_EXCL) {
		r = -EEXIST;
	} else if (S_ISLNK(d->inode->mode)) {
		r = how->flags & O_NOFOLLOW ? -ELOOP : step_follow(s, d);
		if (r == 0) {
			dentry_unref(d);
			return 1;
		}
		if (r == 1) {
			dentry_unref(d);
			d = dentry_ref(s->at.dentry);
			r = 0;
		}
	}
	if (r < 0) {
		dentry_unref(d);
		return r;
	}
	r = step_enter(s, d);
	if (r == 0 && S_ISDIR(s->at.dentry->inode->mode))
		r = -EISDIR;
	return r < 0 ? r : vfs_open_path(s->task, s->at, how->flags, created, ret);
}

static int open_create(struct task *t, int dirfd, const char *path,
	const struct open_how_guest *how, struct file **ret)
{
	struct step s;
	int r = step_begin(&s, t, dirfd, path, how->lookup);

	while (r == 0) {
		r = step_to_last(&s);
		if (r == 0)
			r = open_last_create(&s, how, ret);
		if (r != 1)
			break;
		r = 0;
	}
	step_done(&s);
	return r;
}

static int open_tmpfile(
	struct task *t, struct path dir, const struct open_how_guest *how, struct file **ret)
{
	struct inode *i = dir.dentry->inode, *made = NULL;
	struct dentry *d;
	int r = mount_writable(dir);

	if (r == 0)
		r = inode_permission(t, i, W_OK | X_OK);
	if (r == 0 && !i->ops->tmpfile)
		r = -EOPNOTSUPP;
	if (r == 0)
		r = i->ops->tmpfile(i, t, mode_for(t, i, S_IFREG | (how->mode & 07777)), &made);
	if (r < 0)
		return r;
	d = dentry_create(dir.dentry, "#tmpfile", 8);
	if (!d) {
		inode_unref(made);
		return -ENOMEM;
	}
	d->flags |= DENTRY_DELETED;
	d->inode = made;
	if (!(how->flags & O_EXCL))
		made->flags |= INODE_LINKABLE;
	r = vfs_open_path(
		t, (struct path){ dir.mnt, d }, how->flags & ~(unsigned)O_TRUNC, true, ret);
	dentry_unref(d);
	return r;
}

int vfs_open_how(struct task *t, int dirfd, const char *path, const struct open_how_guest *how,
	struct file **ret)
{
	unsigned flags = how->flags, lookup = how->lookup;
	struct path p;
	int r;

	if ((flags & O_CREAT) && !(flags & O_PATH))
		return open_create(t, dirfd, path, how, ret);
	if (!(flags & O_NOFOLLOW))
		lookup |= LOOKUP_FOLLOW;
	if (flags & O_DIRECTORY)
		lookup |= LOOKUP_DIRECTORY;
	/* NOFOLLOW with DIRECTORY: a link is not a directory, and is not followed to find one. */
	if ((flags & O_NOFOLLOW) && (flags & O_DIRECTORY))
		lookup &= ~(unsigned)LOOKUP_DIRECTORY;
	r = vfs_walk(t, dirfd, path, lookup, &p);
	if (r < 0)
		return r;
	if ((flags & O_DIRECTORY) && !S_ISDIR(p.dentry->inode->mode))
		r = -ENOTDIR;
	else if ((flags & O_TMPFILE) == O_TMPFILE)
		r = open_tmpfile(t, p, how, ret);
	else
		r = vfs_open_path(t, p, flags, false, ret);
	path_unref(p);
	return r;
}

int vfs_open(struct task *t, int dirfd, const char *path, unsigned flags, uint32_t mode,
	struct file **ret)
{
	struct open_how_guest how = { flags, mode, 0 };

	if (flags & O_PATH)
		how.flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	if ((flags & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY) && !(flags & O_PATH))
		return -EINVAL;
	if ((how.flags & TMPFILE_BIT) &&
		((how.flags & O_TMPFILE) != O_TMPFILE || !(wanted(how.flags) & W_OK)))
		return -EINVAL;
	return vfs_open_how(t, dirfd, path, &how, ret);
}

int vfs_open_exec(struct task *t, int dirfd, const char *path, unsigned at_flags, struct file **ret)
{
	unsigned lookup = at_flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct path p;
	int r;

	if (at_flags & AT_EMPTY_PATH)
		lookup |= LOOKUP_EMPTY;
	r = vfs_walk(t, dirfd, path, lookup, &p);
	if (r < 0)
		return r;
	if (S_ISLNK(p.dentry->inode->mode))
		r = -ELOOP;
	else if (!S_ISREG(p.dentry->inode->mode) || (p.mnt->flags & MOUNT_NO_EXEC))
		r = -EACCES;
	else
		r = inode_permission(t, p.dentry->inode, X_OK);
	if (r == 0 && p.dentry->inode->writers > 0)
		r = -ETXTBSY;
	if (r == 0)
		r = open_path(t, p, O_RDONLY | O_CLOEXEC, OPEN_EXEC, ret);
	if (r == 0) {
		/* While the image runs nobody opens it to write; file_unref() takes this back. */
		(*ret)->flags |= FILE_RUNS;
		p.dentry->inode->writers--;
	}
	path_unref(p);
	return r;
}
