/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/mount.c - mount and umount2.
 *
 * Owns:  nothing.
 * Rules: errors in the order in which Linux finds them: memory, the place, the right to, the flags.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/str.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/guestmount.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/ops.h"

enum {
	TYPE_MAX = 64,
	DATA_MAX = 4096,
	PER_MOUNT = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | 256 /* MS_NOSYMFOLLOW */,
	KINDS = MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE,
};
#define MAGIC 0xC0ED0000UL

struct words {
	char source[GUEST_PATH_MAX], type[TYPE_MAX], data[DATA_MAX];
	bool has_source, has_type;
};

static unsigned flags_of(unsigned long flags)
{
	unsigned f = flags & PER_MOUNT;

	if (flags & MS_NOATIME)
		f |= MOUNT_NO_ATIME;
	if (flags & MS_NODIRATIME)
		f |= MOUNT_NO_DIRATIME;
	if (flags & MS_STRICTATIME)
		f = (f & ~(unsigned)MOUNT_NO_ATIME) | MOUNT_STRICT_ATIME;
	return f;
}

static long copy_words(struct task *t, gva_t source, gva_t type, gva_t data, struct words *w)
{
	ssize_t n;

	memset(w, 0, sizeof(*w));
	if (!gva_null(type)) {
		n = guest_copy_string(t, type, w->type, sizeof(w->type));
		if (n < 0)
			return n == -ENAMETOOLONG ? -EINVAL : n;
		w->has_type = true;
	}
	if (!gva_null(source)) {
		n = guest_copy_string(t, source, w->source, sizeof(w->source));
		if (n < 0)
			return n == -ENAMETOOLONG ? -EINVAL : n;
		w->has_source = true;
	}
	if (gva_null(data))
		return 0;
	/* A page of anything, of which only the text counts. */
	n = guest_read_some(t, w->data, data, sizeof(w->data) - 1);
	if (n < 0)
		return n;
	w->data[n] = '\0';
	return 0;
}

static long new_mount(struct task *t, struct path at, unsigned long flags, struct words *w)
{
	struct mount_options o;
	long r;

	if (!w->has_type)
		return -EINVAL;
	r = guest_fs_may(t, w->type);
	if (r < 0)
		return r;
	mount_options_init(&o);
	o.user = t->cred->user;
	o.pid = ns_of(t, NS_PID);
	o.uid = t->cred->fsuid;
	o.gid = t->cred->fsgid;
	r = mount_option_text(w->type, &o, w->data);
	if (r < 0)
		return r;
	if (flags & MS_RDONLY)
		o.read_only = true;
	return guest_mount(
		t->k, at, w->type, flags_of(flags), w->has_source ? w->source : "none", &o);
}

static long from_path(struct task *t, struct words *w, struct path *ret)
{
	if (!w->has_source || !w->source[0])
		return w->has_source ? -ENOENT : -EINVAL;
	return vfs_walk(t, AT_FDCWD, w->source, LOOKUP_FOLLOW, ret);
}

static long from_elsewhere(struct task *t, struct path at, unsigned long flags, struct words *w)
{
	struct path from;
	long r = from_path(t, w, &from);

	if (r < 0)
		return r;
	if (mnt_is_foreign(t, from.mnt) || nsfs_is_loop(t, from.dentry->inode))
		r = -EINVAL;
	else
		r = flags & MS_BIND ? guest_bind(from, at, flags & MS_REC) : guest_move(from, at);
	path_unref(from);
	return r;
}

static long remount(struct task *t, struct path at, unsigned long flags, struct words *w)
{
	struct mount_options o;
	unsigned want = flags_of(flags);
	long r;

	if (at.dentry != at.mnt->root)
		return -EINVAL;
	/* Times are left as they are when nothing is said about them. */
	if (!(flags & (MS_NOATIME | MS_NODIRATIME | MS_RELATIME | MS_STRICTATIME)))
		want |= at.mnt->flags & (MOUNT_NO_ATIME | MOUNT_NO_DIRATIME | MOUNT_STRICT_ATIME);
	if (flags & MS_BIND)
		return guest_change(at.mnt, want);
	if (!task_capable_in(t, at.mnt->sb->owner, CAP_SYS_ADMIN))
		return -EPERM;
	mount_options_init(&o);
	o.user = t->cred->user;
	r = mount_option_text("tmpfs", &o, w->data);
	return r < 0 ? r : guest_reconfigure(at, want, flags & MS_RDONLY);
}

static long set_kind(struct path at, unsigned long flags)
{
	unsigned long kind = flags & ~(unsigned long)(MS_REC | MS_SILENT);

	if (kind & (kind - 1))
		return -EINVAL;
	if (at.dentry != at.mnt->root)
		return -EINVAL;
	mount_set_kind(at.mnt, kind, flags & MS_REC);
	return 0;
}

static long mount_there(struct task *t, gva_t utarget, unsigned long flags, struct words *w)
{
	struct path at;
	long r = path_at(t, AT_FDCWD, utarget, 0, &at);

	if (r < 0)
		return r;
	if (!mnt_may(t) || landlock_mount(t) < 0)
		r = -EPERM;
	else if (mnt_is_foreign(t, at.mnt))
		r = -EINVAL;
	else if (flags & MS_REMOUNT)
		r = remount(t, at, flags, w);
	else if (flags & MS_BIND)
		r = from_elsewhere(t, at, flags, w);
	else if (flags & KINDS)
		r = set_kind(at, flags);
	else if (flags & MS_MOVE)
		r = from_elsewhere(t, at, flags, w);
	else
		r = new_mount(t, at, flags, w);
	path_unref(at);
	return r;
}

SYSCALL5(mount, gva_t, source, gva_t, target, gva_t, type, uint64_t, flags, gva_t, data)
{
	struct words *w = malloc(sizeof(*w));
	long r;

	if (!w)
		return -ENOMEM;
	if ((flags & 0xffff0000UL) == MAGIC)
		flags &= 0xffffUL;
	r = copy_words(task, source, type, data, w);
	if (r == 0)
		r = mount_there(task, target, flags, w);
	free(w);
	return r;
}

static long dir_at(struct task *t, gva_t upath, struct path *ret)
{
	long r = path_at(t, AT_FDCWD, upath, 0, ret);

	if (r < 0 || S_ISDIR(ret->dentry->inode->mode))
		return r;
	path_unref(*ret);
	return -ENOTDIR;
}

SYSCALL2(umount2, gva_t, upath, unsigned, flags)
{
	char path[GUEST_PATH_MAX];
	struct path at;
	ssize_t n;
	long r;

	if (flags & ~(unsigned)(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW))
		return -EINVAL;
	if (!mnt_may(task) || landlock_mount(task) < 0)
		return -EPERM;
	n = guest_copy_path(task, upath, path, sizeof(path));
	if (n < 0)
		return n;
	r = vfs_walk(task, AT_FDCWD, path,
		LOOKUP_UMOUNT | (flags & UMOUNT_NOFOLLOW ? 0 : LOOKUP_FOLLOW), &at);
	if (r < 0)
		return r;
	mnt_down(&at); /* "." and "/" lead to what is mounted there, not to what is below */
	if (((flags & MNT_EXPIRE) && (flags & (MNT_FORCE | MNT_DETACH))) ||
		mnt_is_foreign(task, at.mnt))
		r = -EINVAL;
	else
		r = guest_umount(task, at, flags);
	path_unref(at);
	return r;
}

SYSCALL2(pivot_root, gva_t, unew, gva_t, uold)
{
	struct path to, old;
	long r;

	if (!mnt_may(task) || landlock_mount(task) < 0)
		return -EPERM;
	r = dir_at(task, unew, &to);
	if (r < 0)
		return r;
	r = dir_at(task, uold, &old);
	if (r == 0) {
		r = mnt_pivot(task, to, old);
		path_unref(old);
	}
	path_unref(to);
	return r;
}

/* sysfs(2): the types of file systems, by number. */
SYSCALL3(sysfs, int, option, uint64_t, arg, gva_t, out)
{
	enum { INDEX = 1, NAME = 2, COUNT = 3 };
	const char *name;
	char want[TYPE_MAX];
	ssize_t n = 0;
	unsigned i = 0;

	switch (option) {
	case INDEX:
		n = guest_copy_string(task, GVA(arg), want, sizeof(want));
		if (n < 0)
			return n == -ENAMETOOLONG ? -EINVAL : n;
		while ((name = guest_fs_name(i)) && strcmp(name, want) != 0)
			i++;
		return name ? (long)i : -EINVAL;
	case NAME:
		name = arg <= UINT32_MAX ? guest_fs_name((unsigned)arg) : NULL;
		return name ? guest_write(task, out, name, strlen(name) + 1) : -EINVAL;
	case COUNT:
		while (guest_fs_name(i))
			i++;
		return i;
	default:
		return -EINVAL;
	}
}
