/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/memfd.c - memory files.
 *
 * Owns:  the tmpfs that they live in, made on first use.
 * Rules: the host knows which mappings there are, we do not: so the contents are a host memfd, and
 * a seal is set there before it counts here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "tier/kernel/fs/memfd.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/ops.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

enum { ALL_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE };

struct super *memfd_super(struct kernel *k)
{
	for (struct super *sb = k->vfs->supers; sb; sb = sb->next)
		if (sb == k->vfs->memfds)
			return sb;
	k->vfs->memfds = tree_create(k, &tree_tmpfs, NULL, 0, 0, 01777);
	return k->vfs->memfds;
}

int memfd_contents(struct inode *i)
{
	struct node *n = node_of(i);

	n->fd = memfd_create("ward", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (n->fd < 0)
		return -errno;
	n->content = CONTENT_STORE;
	n->is_memfd = true;
	return 0;
}

int memfd_seal_again(struct inode *i)
{
	unsigned host = node_of(i)->seals & ALL_SEALS & ~(unsigned)F_SEAL_SEAL;

	return host && fcntl(node_of(i)->fd, F_ADD_SEALS, host) < 0 ? -errno : 0;
}

static struct inode *new_inode(struct task *t, bool sealable, bool exec)
{
	struct super *sb = memfd_super(t->k);
	struct inode *i = sb ? tree_inode(sb, S_IFREG | (exec ? 0777 : 0666)) : NULL;
	struct node *n = i ? node_of(i) : NULL;

	if (!i)
		return NULL;
	if (memfd_contents(i) < 0) {
		inode_unref(i);
		return NULL;
	}
	n->seals = sealable ? 0 : F_SEAL_SEAL;
	i->ino = ++sb->last_ino;
	i->nlink = 0;
	i->uid = t->cred->fsuid;
	i->gid = t->cred->fsgid;
	return i;
}

int memfd_open(struct task *t, const char *name, bool sealable, bool exec, struct file **ret)
{
	struct inode *i = new_inode(t, sealable, exec);
	struct dentry *d;
	char text[256];
	int r;

	if (!i)
		return -ENOMEM;
	r = str_fmt(text, sizeof(text), "memfd:%s", name);
	d = r < 0 ? NULL : dentry_create(i->sb->root, text, strlen(text));
	if (!d) {
		inode_unref(i);
		return -ENOMEM;
	}
	d->flags |= DENTRY_DELETED;
	d->inode = i;
	r = vfs_open_path(t, (struct path){ t->k->vfs->anon, d }, O_RDWR, true, ret);
	dentry_unref(d);
	return r;
}

static struct node *memfd_of(struct file *f)
{
	struct node *n = f->ops == &tree_file_ops ? node_of(f->inode) : NULL;

	return n && n->is_memfd ? n : NULL;
}

long memfd_get_seals(struct file *f)
{
	struct node *n = memfd_of(f);

	return n ? (long)n->seals : -EINVAL;
}

long memfd_add_seals(struct file *f, unsigned seals)
{
	struct node *n = memfd_of(f);
	unsigned host = seals & ALL_SEALS & ~(unsigned)F_SEAL_SEAL;

	if (!n)
		return -EINVAL;
	if (!file_writable(f))
		return -EPERM;
	if (seals & ~(unsigned)(ALL_SEALS | F_SEAL_EXEC))
		return -EINVAL;
	if (n->seals & F_SEAL_SEAL)
		return -EPERM;
	/* Our own mapping for reads is no reason to refuse, and the host would count it. */
	if (n->map) {
		munmap(n->map, n->map_len);
		n->map = NULL;
	}
	if (host && fcntl(n->fd, F_ADD_SEALS, host) < 0)
		return -errno;
	n->seals |= seals;
	return 0;
}
