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

#include "base/own.h"
#include "base/str.h"
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
	const struct xattr *x;

	/* Programs that list files ask for others of every file: only a user's are asked below. */
	if (str_after(name, "user."))
		tree_load_xattrs(i);
	x = *find(i, name);
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

/* At @at, in place of what may be there. */
static int put(struct inode *i, struct xattr **at, const char *name, const void *v, size_t len)
{
	struct tree_state *ts = i->sb->k->vfs->tree;
	size_t name_len = strlen(name) + 1, was = *at ? size_of(*at) : 0;
	struct xattr *x;

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
	return 0;
}

static void load_from(struct inode *i, int fd, const char *names, size_t size)
{
	own_mem char *value = malloc(XATTR_VALUE_MAX);

	for (size_t at = 0; value && at < size; at += strlen(names + at) + 1) {
		const char *name = names + at;
		ssize_t len;

		/* An overlay's own marks are not the template's. */
		if (!str_after(name, "user.") || str_after(name, "user.overlay."))
			continue;
		len = fgetxattr(fd, name, value, XATTR_VALUE_MAX);
		if (len >= 0 && put(i, find(i, name), name, value, (size_t)len) < 0)
			return; /* no room for more of them */
	}
}

void tree_load_xattrs(struct inode *i)
{
	struct node *n = node_of(i);
	own_mem char *names = NULL;
	own_fd int fd = -1;
	ssize_t size;

	if (!n->lower || n->xattrs_known)
		return;
	n->xattrs_known = true;
	fd = layer_open_any(i);
	size = fd < 0 ? 0 : flistxattr(fd, NULL, 0);
	if (size <= 0 || size > XATTR_INODE_MAX)
		return;
	names = malloc((size_t)size + 1);
	size = names ? flistxattr(fd, names, (size_t)size) : 0;
	if (size <= 0)
		return;
	names[size] = '\0';
	load_from(i, fd, names, (size_t)size);
}

int tree_setxattr(struct inode *i, const char *name, const void *v, size_t len, int flags)
{
	struct xattr **at;
	int r;

	tree_load_xattrs(i);
	at = find(i, name);
	if (*at && (flags & XATTR_CREATE))
		return -EEXIST;
	if (!*at && (flags & XATTR_REPLACE))
		return -ENODATA;
	r = put(i, at, name, v, len);
	if (r < 0)
		return r;
	i->ctime = kernel_realtime(i->sb->k);
	node_dirty(i);
	return 0;
}

ssize_t tree_listxattr(struct inode *i, char *buf, size_t cap)
{
	size_t need = 0;

	tree_load_xattrs(i);
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
	struct xattr **at;

	tree_load_xattrs(i);
	at = find(i, name);
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
