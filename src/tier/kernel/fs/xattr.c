/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/xattr.c - extended attributes of the tree file system.
 *
 * Owns:  node.xattrs.
 * Rules: which names are allowed at all is decided in sys/xattr.c. What all of them take together
 *        is limited.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/limits.h"

static struct xattr **find(struct inode *i, const char *name)
{
	struct xattr **at = &node_of(i)->xattrs;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

static size_t size_of(const struct xattr *x)
{
	return sizeof(*x) + strlen(x->name) + 1 + x->len;
}

ssize_t tree_getxattr(struct inode *i, const char *name, void *buf, size_t cap)
{
	const struct xattr *x = *find(i, name);

	if (!x)
		return -ENODATA;
	if (cap == 0)
		return (ssize_t)x->len;
	if (x->len > cap)
		return -ERANGE;
	memcpy(buf, x->value, x->len);
	return (ssize_t)x->len;
}

static size_t all_of(struct inode *i)
{
	size_t n = 0;

	for (const struct xattr *x = node_of(i)->xattrs; x; x = x->next)
		n += size_of(x);
	return n;
}

static void drop(struct inode *i, struct xattr **at)
{
	struct xattr *x = *at;

	*at = x->next;
	i->sb->k->vfs->tree->xattr_bytes -= size_of(x);
	free(x->value);
	free(x);
}

int tree_setxattr(struct inode *i, const char *name, const void *v, size_t len, int flags)
{
	struct tree_state *ts = i->sb->k->vfs->tree;
	struct xattr **at = find(i, name), *x;
	size_t name_len = strlen(name) + 1, was = *at ? size_of(*at) : 0;

	if (*at && (flags & XATTR_CREATE))
		return -EEXIST;
	if (!*at && (flags & XATTR_REPLACE))
		return -ENODATA;
	if (all_of(i) - was + len + name_len > XATTR_INODE_MAX ||
		ts->xattr_bytes - was + len > XATTR_TOTAL_MAX)
		return -ENOSPC;
	x = malloc(sizeof(*x) + name_len);
	if (x)
		x->value = malloc(len ? len : 1);
	if (!x || !x->value) {
		free(x);
		return -ENOMEM;
	}
	memcpy(x->name, name, name_len);
	if (len)
		memcpy(x->value, v, len);
	x->len = len;
	if (*at)
		drop(i, at);
	x->next = *at;
	*at = x;
	ts->xattr_bytes += size_of(x);
	i->ctime = kernel_realtime(i->sb->k);
	node_dirty(i);
	return 0;
}

ssize_t tree_listxattr(struct inode *i, char *buf, size_t cap)
{
	size_t need = 0;

	for (const struct xattr *x = node_of(i)->xattrs; x; x = x->next) {
		size_t len = strlen(x->name) + 1;

		if (cap && need + len > cap)
			return -ERANGE;
		if (cap)
			memcpy(buf + need, x->name, len);
		need += len;
	}
	return (ssize_t)need;
}

int tree_removexattr(struct inode *i, const char *name)
{
	struct xattr **at = find(i, name);

	if (!*at)
		return -ENODATA;
	drop(i, at);
	i->ctime = kernel_realtime(i->sb->k);
	node_dirty(i);
	return 0;
}

void tree_free_xattrs(struct inode *i)
{
	while (node_of(i)->xattrs)
		drop(i, &node_of(i)->xattrs);
}
