/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/tree_file.c - open files and directories of the tree file system.
 *
 * Owns:  what an open file keeps: a listing, or a descriptor for mappings.
 * Rules: under the kernel lock.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "tier/kernel/fs/dev.h"
#include "tier/kernel/fs/listing.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/ops.h"

/* Past the cache, a disk takes whole sectors from whole sectors; in memory there is no disk. */
static bool is_crooked(const struct file *f, const struct uio *io, int64_t pos)
{
	enum { SECTOR = 512 };
	uint64_t all = (uint64_t)pos;

	if (!(f->flags & O_DIRECT) || f->inode->sb->ops != &tree_overlay || io->kernel_base)
		return false;
	for (unsigned i = io->at; i < io->count; i++)
		all |= io->iov[i].base.v | io->iov[i].len;
	return all % SECTOR != 0;
}

/* f->priv of a regular file: the read-only descriptor for guests + 1, or NULL. */
static ssize_t tree_read_op(struct file *f, struct uio *io, int64_t *pos)
{
	ssize_t n = is_crooked(f, io, *pos) ? -EINVAL : store_read(f, io, pos);

	if (n >= 0)
		file_accessed(f, (size_t)n);
	return n;
}

static ssize_t tree_write_op(struct file *f, struct uio *io, int64_t *pos)
{
	ssize_t n;

	if (node_of(f->inode)->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EPERM;
	if ((node_of(f->inode)->seals & F_SEAL_GROW) && *pos + (int64_t)io->left > f->inode->size)
		return -EPERM;
	if (is_crooked(f, io, f->flags & O_APPEND ? f->inode->size : *pos))
		return -EINVAL;
	n = store_write(f, io, pos);
	if (n > 0)
		file_modified(f);
	return n;
}

static int64_t file_lseek(struct file *f, int64_t off, int whence)
{
	struct inode *i = f->inode;
	int64_t base = whence == SEEK_CUR ? f->pos : whence == SEEK_END ? i->size : 0, to;
	int r;

	if (whence == SEEK_DATA || whence == SEEK_HOLE) {
		if (off < 0 || off >= i->size)
			return -ENXIO;
		r = store_open(i, false);
		if (r < 0)
			return r;
		to = lseek(node_of(i)->fd, off, whence);
		if (to < 0)
			return -errno;
		if (to > i->size)
			to = i->size;
	} else {
		if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END)
			return -EINVAL;
		if (ckd_add(&to, base, off) || to < 0)
			return -EINVAL;
	}
	f->pos = to;
	return to;
}

int tree_read_fd(struct file *f)
{
	struct inode *i = f->inode;
	int r = store_open(i, false);

	if (r < 0)
		return r;
	if (node_of(i)->content != CONTENT_STORE)
		return node_of(i)->fd < 0 ? -ENODEV : node_of(i)->fd;
	if (!f->priv) {
		r = store_reopen(i);
		if (r < 0)
			return r;
		f->priv = (void *)(uintptr_t)(r + 1);
	}
	return (int)(uintptr_t)f->priv - 1;
}

static int file_mmap(struct file *f, unsigned prot, unsigned flags, struct map_source *ret)
{
	struct inode *i = f->inode;
	struct node *n = node_of(i);
	bool writes = file_writable(f);
	bool shared = (flags & MAP_TYPE) != MAP_PRIVATE;
	int r;

	if (shared && (prot & PROT_WRITE) && (n->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		return -EPERM;
	/* A private mapping of what nobody wrote to needs no copy, however it was opened. */
	r = store_open(i, (writes && shared) || n->content == CONTENT_NONE);
	if (r < 0)
		return r;
	i->was_mapped = true;
	ret->offset = 0;
	ret->fd = n->fd;
	if (n->content == CONTENT_STORE && !(writes && shared)) {
		r = tree_read_fd(f);
		if (r < 0)
			return r;
		ret->fd = r;
	}
	file_mapped(f);
	return 0;
}

static int zero_range(struct file *f, int mode, int64_t off, int64_t len)
{
	struct inode *i = f->inode;
	int fd = node_of(i)->fd;

	/* tmpfs has no zero range: a hole reads as zeroes too. */
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len) < 0)
		return -errno;
	return fallocate(fd, mode & FALLOC_FL_KEEP_SIZE, off, len) < 0 ? -errno : 0;
}

static int file_fallocate(struct file *f, int mode, int64_t off, int64_t len)
{
	struct inode *i = f->inode;
	struct node *n = node_of(i);
	int64_t end = off + len;
	int r;

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if ((n->seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) && (mode & FALLOC_FL_PUNCH_HOLE))
		return -EPERM;
	if ((n->seals & F_SEAL_GROW) && end > i->size)
		return -EPERM;
	/* That is memory: the host would end guests one by one to find it. */
	if (n->is_memfd && f->k->memory_limit && !(mode & FALLOC_FL_PUNCH_HOLE) &&
		(uint64_t)len > f->k->memory_limit)
		return -ENOSPC;
	r = mode & FALLOC_FL_PUNCH_HOLE ? 0 : store_room(i, off, len);
	if (r == 0)
		r = store_open(i, true);
	if (r < 0)
		return r;
	if (mode & FALLOC_FL_ZERO_RANGE)
		r = zero_range(f, mode, off, len);
	else
		r = fallocate(n->fd, mode, off, len) < 0 ? -errno : 0;
	if (r == 0 && !(mode & FALLOC_FL_KEEP_SIZE) && end > i->size)
		i->size = end;
	if (r == 0) {
		store_charge(i);
		file_modified(f);
	}
	return r;
}

/* 1: the generic way goes on, through setattr. */
static int file_truncate(struct file *f, int64_t size)
{
	uint32_t seals = node_of(f->inode)->seals;

	if ((seals & F_SEAL_SHRINK) && size < f->inode->size)
		return -EPERM;
	if ((seals & F_SEAL_GROW) && size > f->inode->size)
		return -EPERM;
	return 1;
}

static long file_fsync(struct file *f, struct task *t, bool data_only)
{
	return 0; /* the store goes with the sandbox: there is nothing that a crash could keep */
}

static void file_release(struct file *f)
{
	struct node *n = node_of(f->inode);

	if (f->priv)
		close((int)(uintptr_t)f->priv - 1);
	if (--n->opens == 0)
		store_close(f->inode);
	if (file_writable(f) && !n->is_memfd && f->inode->writers > 0)
		f->inode->writers--;
}

const struct file_ops tree_file_ops = {
	.name = "file",
	.read = tree_read_op,
	.write = tree_write_op,
	.lseek = file_lseek,
	.mmap = file_mmap,
	.fsync = file_fsync,
	.truncate = file_truncate,
	.fallocate = file_fallocate,
	.release = file_release,
};

static unsigned char dt_of(uint32_t mode)
{
	return (unsigned char)((mode & S_IFMT) >> 12);
}

static int fill_listing(struct file *f, struct listing *l)
{
	struct dentry *dir = f->path.dentry;
	struct listing lower = { 0 };
	struct inode *up = dir->parent ? dir->parent->inode : dir->inode;
	int r;

	if (dir == f->path.mnt->root && f->path.mnt->point && f->path.mnt->point->parent)
		up = f->path.mnt->point->parent->inode;
	if (dir->flags & DENTRY_DELETED)
		return 0;
	r = listing_add(l, ".", 1, dir->inode->ino, DT_DIR);
	if (r == 0)
		r = listing_add(l, "..", 2, up->ino, DT_DIR);
	for (struct dentry *c = dir->children; r == 0 && c; c = c->next) {
		if (c->inode)
			r = listing_add(l, c->name, c->len, c->inode->ino, dt_of(c->inode->mode));
		else if (c->flags & DENTRY_WHITEOUT)
			r = listing_add(&lower, c->name, c->len, 0, 0);
	}
	if (r == 0 && node_of(dir->inode)->member_count)
		r = layer_merge(dir->inode, &lower, l);
	listing_done(&lower);
	return r;
}

static int dir_iterate(struct file *f, struct dir_emit *emit)
{
	int r = listing_iterate(f, emit, fill_listing);

	if (r == 0)
		file_accessed(f, 1);
	return r;
}

/* A directory has no end that could be known before it was listed. */
static int64_t dir_lseek(struct file *f, int64_t off, int whence)
{
	if (whence == SEEK_CUR)
		off += f->pos;
	else if (whence != SEEK_SET)
		return -EINVAL;
	if (off < 0)
		return -EINVAL;
	f->pos = off;
	return off;
}

const struct file_ops tree_dir_ops = {
	.name = "directory",
	.lseek = dir_lseek,
	.iterate = dir_iterate,
	.fsync = file_fsync,
	.release = listing_release,
	.walk = listing_walk,
};

static int open_regular(struct inode *i, struct file *f, struct task *t)
{
	struct node *n = node_of(i);
	int r;

	if (file_writable(f)) {
		if (i->writers < 0)
			return -ETXTBSY;
	}
	r = store_open(i, false);
	if (r < 0)
		return r;
	/* Who makes a memory file has it open to write, and runs it all the same. */
	if (file_writable(f) && !n->is_memfd)
		i->writers++;
	n->opens++;
	f->ops = &tree_file_ops;
	return 0;
}

int tree_open(struct inode *i, struct file *f, struct task *t)
{
	switch (i->mode & S_IFMT) {
	case S_IFREG:
		return open_regular(i, f, t);
	case S_IFDIR:
		f->ops = &tree_dir_ops;
		return 0;
	default:
		return special_open(i, f, t);
	}
}
