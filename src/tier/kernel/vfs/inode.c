/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/inode.c - inodes: birth and death.
 *
 * Owns:  struct inode.
 * Rules: under the kernel lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tier/kernel/io/pipe.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/tty/tty.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/lock.h"

/* A pipe or a terminal can be opened again through /proc/PID/fd; the other nameless files cannot.
 */
static int anon_open(struct inode *i, struct file *f, struct task *t)
{
	if (S_ISFIFO(i->mode))
		return fifo_open(i, f, t);
	return S_ISCHR(i->mode) ? tty_open(i, f, t) : -ENXIO;
}

static const struct inode_ops anon_ops = { .open = anon_open };

struct inode *inode_create(struct super *sb, const struct inode_ops *ops, uint32_t mode)
{
	struct inode *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->refs = 1;
	i->ops = ops;
	i->sb = sb;
	i->mode = mode;
	i->nlink = 1;
	if (sb)
		sb->inodes++;
	return i;
}

struct inode *inode_anon(struct kernel *k, uint32_t mode)
{
	struct inode *i = inode_create(NULL, &anon_ops, mode);

	if (!i)
		return NULL;
	i->ino = ++k->last_anon_ino;
	i->atime = i->mtime = i->ctime = i->btime = kernel_realtime(k);
	return i;
}

struct inode *inode_ref(struct inode *i)
{
	i->refs++;
	return i;
}

void inode_unref(struct inode *i)
{
	struct super *sb;

	if (!i || --i->refs)
		return;
	if (i->locks)
		locks_free(i);
	sb = i->sb;
	if (i->ops->release)
		i->ops->release(i);
	free(i);
	if (sb)
		super_lost_inode(sb);
}
