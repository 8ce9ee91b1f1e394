/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/ctx.c - where a task stands: root, current directory, umask.
 *
 * Owns:  struct fs_ctx.
 * Rules: under the kernel lock.
 */
#include <stdlib.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/vfs/vfs.h"

struct fs_ctx *fs_ctx_copy(struct fs_ctx *from)
{
	struct fs_ctx *fs = malloc(sizeof(*fs));

	if (!fs)
		return NULL;
	fs->refs = 1;
	fs->umask = from->umask;
	fs->root = path_ref(from->root);
	fs->cwd = path_ref(from->cwd);
	return fs;
}

struct fs_ctx *fs_ctx_ref(struct fs_ctx *fs)
{
	fs->refs++;
	return fs;
}

void fs_ctx_unref(struct fs_ctx *fs)
{
	if (!fs || --fs->refs)
		return;
	path_unref(fs->root);
	path_unref(fs->cwd);
	free(fs);
}

bool vfs_at_top(const struct task *t)
{
	const struct mount *top = mnt_root(t);

	return t->fs->root.mnt == top && t->fs->root.dentry == top->root;
}
