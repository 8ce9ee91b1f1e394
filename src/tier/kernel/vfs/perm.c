/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/perm.c - who may do what with a file.
 *
 * Owns:  nothing.
 * Rules: decides by the guest's credentials alone. They say nothing about the host.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/ops.h"

int inode_permission(struct task *t, struct inode *i, int want)
{
	unsigned mode = i->mode, bits;

	want &= R_OK | W_OK | X_OK;
	if (t->cred->fsuid == i->uid)
		bits = mode >> 6;
	else if (task_in_group(t, i->gid))
		bits = mode >> 3;
	else
		bits = mode;
	if (((unsigned)want & ~bits & 7) == 0)
		return 0;
	if (S_ISDIR(mode)) {
		if (!(want & W_OK) && task_capable_ids(t, i->uid, i->gid, CAP_DAC_READ_SEARCH))
			return 0;
		return task_capable_ids(t, i->uid, i->gid, CAP_DAC_OVERRIDE) ? 0 : -EACCES;
	}
	if (want == R_OK && task_capable_ids(t, i->uid, i->gid, CAP_DAC_READ_SEARCH))
		return 0;
	if ((!(want & X_OK) || (mode & 0111)) &&
		task_capable_ids(t, i->uid, i->gid, CAP_DAC_OVERRIDE))
		return 0;
	return -EACCES;
}

int mount_writable(struct path p)
{
	if ((p.mnt->flags & MOUNT_READ_ONLY) || (p.dentry->sb->flags & SB_READ_ONLY))
		return -EROFS;
	return 0;
}

bool inode_owner(struct task *t, const struct inode *i)
{
	return t->cred->fsuid == i->uid || task_capable_ids(t, i->uid, i->gid, CAP_FOWNER);
}

/* A name in a sticky directory belongs to the file's owner and the directory's. */
static bool sticky_forbids(struct task *t, const struct inode *dir, const struct inode *i)
{
	return (dir->mode & S_ISVTX) && t->cred->fsuid != i->uid && t->cred->fsuid != dir->uid &&
	       !task_capable_ids(t, i->uid, i->gid, CAP_FOWNER);
}

uint32_t mode_for(struct task *t, const struct inode *dir, uint32_t mode)
{
	/* Not a group to give away: with the bits as they were asked for, before the umask. */
	if ((dir->mode & S_ISGID) && !S_ISDIR(mode) &&
		(mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		!task_in_group(t, dir->gid) && !task_capable_ids(t, dir->uid, dir->gid, CAP_FSETID))
		mode &= ~(uint32_t)S_ISGID;
	return mode & ~t->fs->umask;
}

/* Terminals come and go by themselves. */
static bool names_are_ours(const struct task *t, struct path dir)
{
	return dir.dentry == t->k->vfs->pts;
}

int may_create(struct task *t, struct path dir)
{
	int r = mount_writable(dir);

	if (dir.dentry->flags & DENTRY_DELETED)
		return -ENOENT;
	if (r == 0 && (dir.dentry->inode->flags & INODE_IMMUTABLE))
		return -EPERM;
	if (r == 0)
		r = inode_permission(t, dir.dentry->inode, W_OK | X_OK);
	return r == 0 && names_are_ours(t, dir) ? -EPERM : r;
}

int may_delete(struct task *t, struct path dir, const struct dentry *d, bool want_dir)
{
	int r = inode_permission(t, dir.dentry->inode, W_OK | X_OK);

	if (r < 0)
		return r;
	if (names_are_ours(t, dir) || sticky_forbids(t, dir.dentry->inode, d->inode) ||
		((dir.dentry->inode->flags | d->inode->flags) & (INODE_IMMUTABLE | INODE_APPEND)))
		return -EPERM;
	if (want_dir) {
		if (!S_ISDIR(d->inode->mode))
			return -ENOTDIR;
	} else if (S_ISDIR(d->inode->mode)) {
		return -EISDIR;
	}
	return 0;
}
