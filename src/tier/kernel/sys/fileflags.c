/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/fileflags.c - immutable, append-only and the like; clones of contents.
 *
 * Owns:  the numbers of FS_IOC_* over INODE_*.
 * Rules: kept by the tree file system only; what they forbid is checked in vfs/.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>

#include "base/ckd.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/sys/fileflags.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/ops.h"

/* In our words, in those of lsattr, and in those of xfs, which became Linux' own. */
static const struct {
	uint32_t inode, flag, xflag;
} words[] = {
	{ INODE_IMMUTABLE, FS_IMMUTABLE_FL, FS_XFLAG_IMMUTABLE },
	{ INODE_APPEND, FS_APPEND_FL, FS_XFLAG_APPEND },
	{ INODE_NO_DUMP, FS_NODUMP_FL, FS_XFLAG_NODUMP },
	{ INODE_NO_ATIME, FS_NOATIME_FL, FS_XFLAG_NOATIME },
};

static uint32_t flags_of(const struct inode *i)
{
	uint32_t f = 0;

	for (unsigned n = 0; n < ARRAY_LEN(words); n++)
		f |= i->flags & words[n].inode ? words[n].flag : 0;
	return f;
}

/* @want: FS_*_FL. */
static long change_flags(struct task *t, struct path p, uint32_t want)
{
	const uint32_t strict = FS_IMMUTABLE_FL | FS_APPEND_FL;
	struct inode *i = p.dentry->inode;
	uint32_t known = 0, set = 0;
	long r = mount_writable(p);

	if (r < 0)
		return r;
	if (!inode_owner(t, i))
		return -EPERM;
	for (unsigned n = 0; n < ARRAY_LEN(words); n++) {
		known |= words[n].flag;
		set |= want & words[n].flag ? words[n].inode : 0;
	}
	if (want & ~known)
		return -EOPNOTSUPP;
	if (((want ^ flags_of(i)) & strict) && !task_capable(t, CAP_LINUX_IMMUTABLE))
		return -EPERM;
	i->flags = (i->flags & INODE_LINKABLE) | set;
	i->ctime = kernel_realtime(t->k);
	node_dirty(i);
	return 0;
}

static long set_flags(struct task *t, struct file *f, gva_t arg)
{
	uint32_t want;

	return guest_read_u32(t, arg, &want) < 0 ? -EFAULT : change_flags(t, f->path, want);
}

/* file_getattr and file_setattr: sizes of extents and projects do not exist here. */
struct file_attr_guest {
	uint64_t xflags;
	uint32_t extent_size, extents, project, cow_extent_size;
};

#define XFLAGS_OF_LINUX 0x8001fffbULL
enum { ATTR_MAX = 4096 };

static long attr_size(unsigned at_flags, uint64_t size)
{
	if (at_flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (size > ATTR_MAX)
		return -E2BIG;
	return size < sizeof(struct file_attr_guest) ? -EINVAL : 0;
}

SYSCALL5(file_getattr, int, dirfd, gva_t, upath, gva_t, uattr, uint64_t, size, unsigned, at_flags)
{
	struct file_attr_guest a = { 0 };
	char rest[ATTR_MAX] = { 0 };
	struct path p;
	long r = attr_size(at_flags, size);

	if (r == 0)
		r = path_at(task, dirfd, upath, at_flags, &p);
	if (r < 0)
		return r;
	for (unsigned n = 0; n < ARRAY_LEN(words); n++)
		a.xflags |= p.dentry->inode->flags & words[n].inode ? words[n].xflag : 0;
	r = p.dentry->inode->ops == &tree_ops ? guest_write(task, uattr, &a, sizeof(a))
					      : -EOPNOTSUPP;
	if (r == 0 && size > sizeof(a))
		r = guest_write(task, gva_add(uattr, sizeof(a)), rest, size - sizeof(a));
	path_unref(p);
	return r;
}

SYSCALL5(file_setattr, int, dirfd, gva_t, upath, gva_t, uattr, uint64_t, size, unsigned, at_flags)
{
	struct file_attr_guest a;
	uint64_t known = 0;
	uint32_t want = 0;
	struct path p;
	long r = attr_size(at_flags, size);

	if (r == 0)
		r = guest_read_struct(task, &a, sizeof(a), uattr, size);
	if (r < 0)
		return r;
	for (unsigned n = 0; n < ARRAY_LEN(words); n++) {
		known |= words[n].xflag;
		want |= a.xflags & words[n].xflag ? words[n].flag : 0;
	}
	if (a.xflags & ~XFLAGS_OF_LINUX)
		return -EINVAL;
	r = path_at(task, dirfd, upath, at_flags, &p);
	if (r < 0)
		return r;
	if (p.dentry->inode->ops != &tree_ops || (a.xflags & ~known) || a.extent_size ||
		a.cow_extent_size || a.project)
		r = -EOPNOTSUPP;
	else
		r = change_flags(task, p, want);
	path_unref(p);
	return r;
}

long file_ioctl(struct task *t, struct file *f, unsigned cmd, uint64_t arg)
{
	bool ours = f->inode->ops == &tree_ops;

	switch (cmd) {
	case FS_IOC_GETFLAGS:
		return ours ? guest_write_u32(t, GVA(arg), flags_of(f->inode)) : -ENOTTY;
	case FS_IOC_SETFLAGS:
		return ours ? set_flags(t, f, GVA(arg)) : -ENOTTY;
	case FICLONE:
	case FICLONERANGE:
	case FIDEDUPERANGE:
		return -EOPNOTSUPP; /* no two files share contents */
	default:
		return -ENOTTY;
	}
}
