/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/fileflags.c - immutable, append-only and the like; clones of contents.
 *
 * Owns:  the numbers of FS_IOC_* over INODE_*.
 * Rules: kept by the tree file system only; what they forbid is checked in vfs/.
 */
#include <linux/capability.h>
#include <linux/fs.h>

#include "base/ckd.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/sys/fileflags.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/ops.h"

static const struct {
	uint32_t inode, flag;
} words[] = {
	{ INODE_IMMUTABLE, FS_IMMUTABLE_FL },
	{ INODE_APPEND, FS_APPEND_FL },
	{ INODE_NO_DUMP, FS_NODUMP_FL },
	{ INODE_NO_ATIME, FS_NOATIME_FL },
};

static uint32_t flags_of(const struct inode *i)
{
	uint32_t f = 0;

	for (unsigned n = 0; n < ARRAY_LEN(words); n++)
		f |= i->flags & words[n].inode ? words[n].flag : 0;
	return f;
}

static long set_flags(struct task *t, struct file *f, gva_t arg)
{
	const uint32_t strict = FS_IMMUTABLE_FL | FS_APPEND_FL;
	struct inode *i = f->inode;
	uint32_t want, known = 0, set = 0;
	long r = mount_writable(f->path);

	if (guest_read_u32(t, arg, &want) < 0)
		return -EFAULT;
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
