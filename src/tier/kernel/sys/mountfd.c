/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/mountfd.c - mounts by descriptor: fsopen, fsconfig, fsmount, fspick, open_tree,
 * move_mount, mount_setattr.
 *
 * Owns:  struct fs_context, behind the descriptors of fsopen and fspick.
 * Rules: a mount that is nowhere in the tree lives with the descriptor that has it.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/guestmount.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/ops.h"
#include "tier/kernel/walk.h"

enum { TYPE_MAX = 64, KEY_MAX = 256, VALUE_MAX = 256 };
enum { OPEN_CLONE = 1, AT_RECURSIVE_ = 0x8000 };
enum { FSM_CLOEXEC = 1 };
enum { PICK_CLOEXEC = 1, PICK_NOFOLLOW = 2, PICK_NO_AUTOMOUNT = 4, PICK_EMPTY = 8 };
enum {
	CONF_FLAG,
	CONF_STRING,
	CONF_BINARY,
	CONF_PATH,
	CONF_PATH_EMPTY,
	CONF_FD,
	CONF_CREATE,
	CONF_CHANGE,
	CONF_CREATE_EXCL
};
enum {
	FROM_FOLLOW = 1,
	FROM_EMPTY = 4,
	TO_FOLLOW = 16,
	TO_EMPTY = 64,
	MOVE_KNOWN = 0x377,
	MOVE_SET_GROUP = 0x100,
	MOVE_BENEATH = 0x200
};
enum {
	MA_RDONLY = 1,
	MA_NOSUID = 2,
	MA_NODEV = 4,
	MA_NOEXEC = 8,
	MA_ATIME = 0x70,
	MA_NOATIME = 0x10,
	MA_STRICT = 0x20,
	MA_NODIRATIME = 0x80,
	MA_NOFOLLOW = 0x200000,
	MA_IDMAP = 0x100000
};

struct fs_context {
	char type[TYPE_MAX], source[VALUE_MAX];
	struct mount_options options;
	struct path picked; /* fspick: what is to be changed */
	struct super *sb;   /* made */
	bool mounted;       /* and used up */
};

static void context_release(struct file *f)
{
	struct fs_context *c = f->priv;

	super_unref(c->sb);
	path_unref(c->picked);
	free(c);
}

/* What was said about errors: nothing ever is. */
static ssize_t context_read(struct file *f, struct uio *io, int64_t *pos)
{
	return -ENODATA;
}

/* A file system between fsopen and fsmount is not carried over: the descriptor is there, and says
 * that it has been used. */
static void context_walk(struct file *f, struct walk *w)
{
	struct fs_context *c = f->priv;

	if (w->mode == WALK_LOAD && !c) {
		c = f->priv = calloc(1, sizeof(*c));
		if (!c) {
			w->err = -ENOMEM;
			return;
		}
		c->mounted = true;
	}
	walk_bytes(w, "type", c->type, sizeof(c->type));
	c->type[sizeof(c->type) - 1] = '\0';
}

const struct file_ops fs_context_ops = { .name = "fscontext",
	.flags = FILE_STREAM | FILE_NO_SPLICE,
	.read = context_read,
	.release = context_release,
	.walk = context_walk };

static long install(struct task *t, struct file *f, bool cloexec)
{
	long fd = fd_install(t, f, cloexec, 0);

	if (fd < 0)
		file_unref(f);
	return fd;
}

static long install_context(struct task *t, struct fs_context *c, bool cloexec)
{
	struct file *f = io_file(t->k, &fs_context_ops, O_RDWR, 0600, c);

	if (!f) {
		path_unref(c->picked);
		free(c);
		return -ENFILE;
	}
	return install(t, f, cloexec);
}

SYSCALL2(fsopen, gva_t, utype, unsigned, flags)
{
	struct fs_context *c;
	char type[TYPE_MAX];
	ssize_t n;
	int r;

	if (!mnt_may(task))
		return -EPERM;
	if (flags & ~1u)
		return -EINVAL;
	n = guest_copy_string(task, utype, type, sizeof(type));
	if (n < 0)
		return n == -ENAMETOOLONG ? -EINVAL : n;
	r = guest_fs_check(type);
	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	str_fmt(c->type, sizeof(c->type), "%s", type);
	str_fmt(c->source, sizeof(c->source), "none");
	mount_options_init(&c->options);
	return install_context(task, c, flags & 1);
}

SYSCALL3(fspick, int, dirfd, gva_t, upath, unsigned, flags)
{
	unsigned at = (flags & PICK_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) |
		      (flags & PICK_EMPTY ? AT_EMPTY_PATH : 0);
	struct fs_context *c;
	struct path p;
	int r;

	if (!mnt_may(task))
		return -EPERM;
	if (flags & ~(unsigned)(PICK_CLOEXEC | PICK_NOFOLLOW | PICK_NO_AUTOMOUNT | PICK_EMPTY))
		return -EINVAL;
	r = path_at(task, dirfd, upath, at, &p);
	if (r < 0)
		return r;
	c = p.dentry == p.mnt->root ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		r = p.dentry == p.mnt->root ? -ENOMEM : -EINVAL;
		path_unref(p);
		return r;
	}
	c->picked = p;
	mount_options_init(&c->options);
	c->options.read_only = p.mnt->sb->flags & SB_READ_ONLY;
	str_fmt(c->type, sizeof(c->type), "%s", p.mnt->sb->ops->name);
	return install_context(task, c, flags & PICK_CLOEXEC);
}

/* Which of key, value and aux a command must have, and which not. */
static bool well_formed(unsigned cmd, gva_t key, gva_t value, int aux)
{
	bool k = !gva_null(key), v = !gva_null(value);

	switch (cmd) {
	case CONF_FLAG:
		return k && !v && !aux;
	case CONF_STRING:
		return k && v && !aux;
	case CONF_BINARY:
		return k && v && aux > 0 && aux <= 1 << 20;
	case CONF_PATH:
	case CONF_PATH_EMPTY:
		return k && v && (aux == AT_FDCWD || aux >= 0);
	case CONF_FD:
		return k && !v && aux >= 0;
	default:
		return !k && !v && !aux;
	}
}

static long set_one(
	struct task *t, struct fs_context *c, unsigned cmd, const char *key, gva_t uvalue)
{
	char value[VALUE_MAX];
	ssize_t n;

	if (c->sb)
		return -EBUSY;
	c->options.user = t->cred->user;
	/* What all file systems know is a word, whatever is given with it. */
	if (cmd == CONF_FLAG || mount_option_is_common(key))
		return mount_option(c->type, &c->options, key, NULL);
	if (cmd != CONF_STRING)
		return -EINVAL; /* no file system here wants a blob, a path or a descriptor */
	n = guest_copy_string(t, uvalue, value, sizeof(value));
	if (n < 0)
		return n == -ENAMETOOLONG ? -EINVAL : n;
	if (str_eq(key, "source"))
		return str_fmt(c->source, sizeof(c->source), "%s", value);
	return mount_option(c->type, &c->options, key, value);
}

static long create(struct task *t, struct fs_context *c)
{
	int r;

	if (c->picked.dentry || c->sb || c->mounted)
		return -EBUSY;
	r = guest_fs_may(t, c->type);
	if (r < 0)
		return r;
	c->options.user = t->cred->user;
	c->options.pid = ns_of(t, NS_PID);
	return guest_fs_create(t->k, c->type, &c->options, &c->sb);
}

static long change(struct task *t, struct fs_context *c)
{
	if (c->picked.dentry && !task_capable_in(t, c->picked.mnt->sb->owner, CAP_SYS_ADMIN))
		return -EPERM;
	if (!c->picked.dentry)
		return -EBUSY;
	return guest_reconfigure(c->picked, c->picked.mnt->flags, c->options.read_only);
}

static struct fs_context *context_of(struct file *f)
{
	return f->ops == &fs_context_ops ? f->priv : NULL;
}

SYSCALL5(fsconfig, int, fd, unsigned, cmd, gva_t, ukey, gva_t, uvalue, int, aux)
{
	struct fs_context *c;
	struct file *f;
	char key[KEY_MAX], path[GUEST_PATH_MAX];
	ssize_t n;

	if (fd < 0)
		return -EINVAL;
	if (cmd > CONF_CREATE_EXCL)
		return -EOPNOTSUPP;
	if (!well_formed(cmd, ukey, uvalue, aux))
		return -EINVAL;
	f = fd_get(task, fd);
	if (!f)
		return -EBADF;
	c = context_of(f);
	if (!c)
		return -EINVAL;
	if (!gva_null(ukey)) {
		n = guest_copy_string(task, ukey, key, sizeof(key));
		if (n < 0)
			return n == -ENAMETOOLONG ? -EINVAL : n;
	}
	switch (cmd) {
	case CONF_CREATE:
	case CONF_CREATE_EXCL:
		return create(task, c);
	case CONF_CHANGE:
		return landlock_mount(task) == 0 ? change(task, c) : -EPERM;
	case CONF_FD:
		if (!fd_get_path(task, aux))
			return -EBADF;
		break;
	case CONF_PATH:
	case CONF_PATH_EMPTY:
		n = guest_copy_path(task, uvalue, path, sizeof(path));
		if (n <= 0)
			return n < 0 ? n : cmd == CONF_PATH ? -ENOENT : 0;
		break;
	default:
		break;
	}
	return set_one(task, c, cmd, key, uvalue);
}

/* MOUNT_ATTR_* as MOUNT_*; false: not known, or two ways to keep times. */
static bool attr_flags(uint64_t attr, unsigned *ret)
{
	const uint64_t known = MA_RDONLY | MA_NOSUID | MA_NODEV | MA_NOEXEC | MA_ATIME |
			       MA_NODIRATIME | MA_NOFOLLOW;
	unsigned f = attr & 15;

	if (attr & ~known)
		return false;
	switch (attr & MA_ATIME) {
	case 0:
		break;
	case MA_NOATIME:
		f |= MOUNT_NO_ATIME;
		break;
	case MA_STRICT:
		f |= MOUNT_STRICT_ATIME;
		break;
	default:
		return false;
	}
	if (attr & MA_NODIRATIME)
		f |= MOUNT_NO_DIRATIME;
	if (attr & MA_NOFOLLOW)
		f |= MOUNT_NO_FOLLOW;
	*ret = f;
	return true;
}

/* A descriptor that has @m, which is nowhere in the tree; takes the reference. */
static long open_mount(struct task *t, struct mount *m, bool cloexec)
{
	struct file *f;
	int r = vfs_open_path(t, (struct path){ m, m->root }, O_PATH, true, &f);

	mount_unref(m);
	return r < 0 ? r : install(t, f, cloexec);
}

SYSCALL3(fsmount, int, fd, unsigned, flags, unsigned, attr)
{
	struct fs_context *c;
	struct file *f;
	struct mount *m;
	unsigned mflags;

	if (!mnt_may(task))
		return -EPERM;
	if ((flags & ~(unsigned)FSM_CLOEXEC) || !attr_flags(attr, &mflags))
		return -EINVAL;
	f = fd_get(task, fd);
	if (!f)
		return -EBADF;
	c = context_of(f);
	if (!c)
		return -EINVAL;
	if (!c->sb)
		return c->mounted || c->picked.dentry ? -EBUSY : -EINVAL;
	m = mount_new(task->k, c->sb, c->sb->root, mflags, c->source);
	if (!m)
		return -ENOSPC;
	super_unref(c->sb);
	c->sb = NULL;
	c->mounted = true;
	return open_mount(task, m, flags & FSM_CLOEXEC);
}

SYSCALL3(open_tree, int, dirfd, gva_t, upath, unsigned, flags)
{
	const unsigned at = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
	struct mount *m;
	struct file *f;
	struct path p;
	int r;

	if (flags & ~(at | AT_RECURSIVE_ | OPEN_CLONE | O_CLOEXEC))
		return -EINVAL;
	if ((flags & (AT_RECURSIVE_ | OPEN_CLONE)) == AT_RECURSIVE_)
		return -EINVAL;
	if ((flags & OPEN_CLONE) && !mnt_may(task))
		return -EPERM;
	r = path_at(task, dirfd, upath, flags & at, &p);
	if (r < 0)
		return r;
	if (flags & OPEN_CLONE) {
		r = mnt_is_foreign(task, p.mnt) ? -EINVAL
						: guest_clone(p, flags & AT_RECURSIVE_, &m);
		path_unref(p);
		return r < 0 ? r : open_mount(task, m, flags & O_CLOEXEC);
	}
	r = vfs_open_path(task, p, O_PATH, true, &f);
	path_unref(p);
	return r < 0 ? r : install(task, f, flags & O_CLOEXEC);
}

static long move(struct path from, struct path to)
{
	if (from.dentry != from.mnt->root)
		return -EINVAL;
	if (from.mnt->parent)
		return guest_move(from, to);
	if (from.mnt->top)
		return -EINVAL;
	if (S_ISDIR(from.dentry->inode->mode) != S_ISDIR(to.dentry->inode->mode))
		return -ENOTDIR;
	if (mount_is_below(to.mnt, from.mnt))
		return -ELOOP;
	return guest_graft(from.mnt, to);
}

static long set_group(struct path from, struct path to)
{
	if (from.dentry != from.mnt->root || to.dentry != to.mnt->root)
		return -EINVAL;
	return mount_join(from.mnt, to.mnt);
}

SYSCALL5(move_mount, int, from_fd, gva_t, from_path, int, to_fd, gva_t, to_path, unsigned, flags)
{
	struct path from, to;
	long r;

	if (!mnt_may(task) || landlock_mount(task) < 0)
		return -EPERM;
	if ((flags & ~(unsigned)MOVE_KNOWN) ||
		(flags & (MOVE_SET_GROUP | MOVE_BENEATH)) == (MOVE_SET_GROUP | MOVE_BENEATH))
		return -EINVAL;
	r = path_at(task, from_fd, from_path,
		(flags & FROM_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW) |
			(flags & FROM_EMPTY ? AT_EMPTY_PATH : 0),
		&from);
	if (r < 0)
		return r;
	r = path_at(task, to_fd, to_path,
		(flags & TO_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW) |
			(flags & TO_EMPTY ? AT_EMPTY_PATH : 0),
		&to);
	if (r == 0) {
		if (mnt_is_foreign(task, from.mnt) || mnt_is_foreign(task, to.mnt))
			r = -EINVAL;
		else if (flags & MOVE_SET_GROUP)
			r = set_group(from, to);
		else
			r = flags & MOVE_BENEATH ? guest_move_beneath(from, to) : move(from, to);
		path_unref(to);
	}
	path_unref(from);
	return r;
}

struct mount_attr_guest {
	uint64_t set, clear, propagation, userns_fd;
};

/* What @a makes of @was. */
static bool changed_flags(const struct mount_attr_guest *a, unsigned was, unsigned *ret)
{
	unsigned set, clear;
	uint64_t times = a->clear & MA_ATIME;

	/* Another way to keep times needs the old one taken away, all of it. */
	if ((times && times != MA_ATIME) || ((a->set & MA_ATIME) && !times))
		return false;
	if (!attr_flags(a->set, &set) || !attr_flags(a->clear & ~(uint64_t)MA_ATIME, &clear))
		return false;
	if (times)
		clear |= MOUNT_NO_ATIME | MOUNT_STRICT_ATIME;
	*ret = (was & ~clear) | set;
	return true;
}

static long set_tree(struct mount *top, const struct mount_attr_guest *a, bool all)
{
	unsigned flags;

	for (int doing = 0; doing < 2; doing++) { /* all or none: the first time only looks */
		for (struct mount *m = top->sb->k->vfs->mounts; m; m = m->next) {
			unsigned was = m->flags;
			int r;

			if (m != top && (!all || !mount_is_below(m, top)))
				continue;
			if (!changed_flags(a, m->flags, &flags))
				return -EINVAL;
			r = guest_change(m, flags);
			if (r < 0)
				return r;
			if (!doing)
				m->flags = was;
		}
	}
	if (a->propagation)
		mount_set_kind(top, (unsigned long)a->propagation, all);
	return 0;
}

/* Copied in and checked; 1: there is nothing to change. */
static long read_attr(struct task *t, gva_t uattr, uint64_t size, struct mount_attr_guest *ret)
{
	const uint64_t kinds = 1 << 17 | 1 << 18 | 1 << 19 | 1 << 20;
	unsigned ignored;
	long r;

	if (size > 4096)
		return -E2BIG;
	if (size < sizeof(*ret))
		return -EINVAL;
	if (!mnt_may(t))
		return -EPERM;
	r = guest_read_struct(t, ret, sizeof(*ret), uattr, size);
	if (r < 0)
		return r;
	if (!ret->set && !ret->clear && !ret->propagation)
		return 1;
	if ((ret->propagation & ~kinds) || (ret->propagation & (ret->propagation - 1)))
		return -EINVAL;
	if ((ret->set | ret->clear) & MA_IDMAP)
		return -EINVAL;
	return changed_flags(ret, 0, &ignored) ? 0 : -EINVAL;
}

SYSCALL5(mount_setattr, int, dirfd, gva_t, upath, unsigned, flags, gva_t, uattr, uint64_t, size)
{
	const unsigned at = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
	struct mount_attr_guest attr;
	struct path p;
	long r;

	if (flags & ~(at | AT_RECURSIVE_))
		return -EINVAL;
	r = read_attr(task, uattr, size, &attr);
	if (r != 0)
		return r < 0 ? r : 0;
	r = path_at(task, dirfd, upath, flags & at, &p);
	if (r < 0)
		return r;
	r = p.dentry == p.mnt->root && !mnt_is_foreign(task, p.mnt)
		    ? set_tree(p.mnt, &attr, flags & AT_RECURSIVE_)
		    : -EINVAL;
	path_unref(p);
	return r;
}

SYSCALL5(open_tree_attr, int, dirfd, gva_t, upath, unsigned, flags, gva_t, uattr, uint64_t, size)
{
	struct mount_attr_guest attr;
	long r = 1, fd;

	if (gva_null(uattr) ? size != 0 : false)
		return -EINVAL;
	if (!gva_null(uattr))
		r = read_attr(task, uattr, size, &attr);
	if (r < 0)
		return r;
	fd = do_open_tree(task, dirfd, upath, flags);
	if (fd < 0 || r == 1)
		return fd;
	r = set_tree(fd_get_path(task, (int)fd)->path.mnt, &attr, flags & AT_RECURSIVE_);
	if (r < 0) {
		fd_close(task, (int)fd);
		return r;
	}
	return fd;
}
