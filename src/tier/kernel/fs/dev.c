/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/dev.c - /dev, and the devices that need nothing but this file.
 *
 * Owns:  null, zero, full, random, urandom, kmsg.
 * Rules: a device is known by its number. No number leads to a device of the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/fs/dev.h"
#include "tier/kernel/fs/loop.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/io/pipe.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/tty/tty.h"
#include "tier/kernel/vfs/ops.h"

enum { MEM = 1, TTY = 5, PTS = 136, PIECE = 4096 };

static ssize_t null_read(struct file *f, struct uio *io, int64_t *pos)
{
	return 0;
}

static ssize_t swallow(struct file *f, struct uio *io, int64_t *pos)
{
	size_t n = io->left;

	/* The bytes are not looked at, so a bad address is no error here: Linux does the same. */
	io->left = 0;
	return (ssize_t)n;
}

static ssize_t zero_read(struct file *f, struct uio *io, int64_t *pos)
{
	char *buf = f->k->vfs->tree->buffer;
	size_t done = 0;

	memset(buf, 0, io->left < COPY_CHUNK ? io->left : COPY_CHUNK);
	while (io->left) {
		ssize_t n = uio_out(io, buf, io->left < COPY_CHUNK ? io->left : COPY_CHUNK);

		if (n <= 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static ssize_t full_write(struct file *f, struct uio *io, int64_t *pos)
{
	return io->left ? -ENOSPC : 0;
}

static ssize_t random_read(struct file *f, struct uio *io, int64_t *pos)
{
	unsigned char buf[PIECE];
	size_t done = 0;

	while (io->left && done < GUEST_RANDOM_MAX) {
		size_t most = GUEST_RANDOM_MAX - done < sizeof(buf) ? GUEST_RANDOM_MAX - done
								    : sizeof(buf);
		size_t want = io->left < most ? io->left : most;
		ssize_t n = getrandom(buf, want, 0);

		n = n <= 0 ? -EIO : uio_out(io, buf, (size_t)n);
		if (n <= 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int64_t no_seek(struct file *f, int64_t off, int whence)
{
	return 0;
}

/* A mapping of it is memory like any other: -1 says so. */
static int zero_mmap(struct file *f, unsigned prot, unsigned flags, struct map_source *ret)
{
	ret->fd = -1;
	ret->offset = 0;
	return 0;
}

/* The pool is always full: the host's getrandom() stands behind it. */
static long random_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	return cmd == RNDGETENTCNT ? guest_write_u32(t, GVA(arg), 256) : -EINVAL;
}

static const struct file_ops null_ops = {
	.name = "null", .read = null_read, .write = swallow, .lseek = no_seek
};
static const struct file_ops zero_ops = {
	.name = "zero", .read = zero_read, .write = swallow, .lseek = no_seek, .mmap = zero_mmap
};
static const struct file_ops full_ops = {
	.name = "full", .read = zero_read, .write = full_write, .lseek = no_seek
};
static const struct file_ops random_ops = {
	.name = "random",
	.read = random_read,
	.write = swallow,
	.lseek = no_seek,
	.ioctl = random_ioctl,
};
static const struct file_ops kmsg_ops = {
	.name = "kmsg", .read = null_read, .write = swallow, .lseek = no_seek
};

static const struct {
	unsigned major, minor;
	const struct file_ops *ops;
} devices[] = {
	{ MEM, 3, &null_ops },
	{ MEM, 5, &zero_ops },
	{ MEM, 7, &full_ops },
	{ MEM, 8, &random_ops },
	{ MEM, 9, &random_ops },
	{ MEM, 11, &kmsg_ops },
};

static int device_open(struct inode *i, struct file *f, struct task *t)
{
	unsigned maj = major(i->rdev), min = minor(i->rdev);

	if (maj == TTY || maj == PTS)
		return tty_open(i, f, t);
	for (size_t n = 0; n < ARRAY_LEN(devices); n++) {
		if (devices[n].major == maj && devices[n].minor == min) {
			f->ops = devices[n].ops;
			return 0;
		}
	}
	if (maj == LOOP_CONTROL_MAJOR && min == LOOP_CONTROL_MINOR)
		return loop_control_open(i, f, t);
	return -ENXIO;
}

int special_open(struct inode *i, struct file *f, struct task *t)
{
	if (S_ISFIFO(i->mode))
		return fifo_open(i, f, t);
	if (S_ISCHR(i->mode))
		return device_open(i, f, t);
	if (S_ISBLK(i->mode) && major(i->rdev) == LOOP_MAJOR)
		return loop_open(i, f, t);
	return -ENXIO;
}

int dev_fill(struct dentry *dev)
{
	static const struct {
		const char *name;
		uint32_t mode;
		unsigned major, minor;
	} nodes[] = {
		{ "null", S_IFCHR | 0666, MEM, 3 },
		{ "zero", S_IFCHR | 0666, MEM, 5 },
		{ "full", S_IFCHR | 0666, MEM, 7 },
		{ "random", S_IFCHR | 0666, MEM, 8 },
		{ "urandom", S_IFCHR | 0666, MEM, 9 },
		{ "tty", S_IFCHR | 0666, TTY, 0 },
		{ "loop-control", S_IFCHR | 0660, LOOP_CONTROL_MAJOR, LOOP_CONTROL_MINOR },
		{ "pts", S_IFDIR | 0755, 0, 0 },
		{ "shm", S_IFDIR | 01777, 0, 0 },
		{ "mqueue", S_IFDIR | 01777, 0, 0 },
	};
	static const struct {
		const char *name, *target;
	} links[] = { { "fd", "/proc/self/fd" }, { "stdin", "/proc/self/fd/0" },
		{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
		{ "ptmx", "pts/ptmx" }, { "core", "/proc/kcore" } };

	for (size_t n = 0; n < ARRAY_LEN(nodes); n++)
		if (!tree_child(dev, nodes[n].name, nodes[n].mode,
			    makedev(nodes[n].major, nodes[n].minor)))
			return -ENOMEM;
	for (unsigned n = 0; n < LOOP_DEVICES; n++) {
		char name[16];

		str_fmt(name, sizeof(name), "loop%u", n);
		if (!tree_child(dev, name, S_IFBLK | 0660, makedev(LOOP_MAJOR, n)))
			return -ENOMEM;
	}
	for (size_t n = 0; n < ARRAY_LEN(links); n++) {
		struct dentry *d = tree_child(dev, links[n].name, S_IFLNK | 0777, 0);

		if (!d)
			return -ENOMEM;
		node_of(d->inode)->target = strdup(links[n].target);
		if (!node_of(d->inode)->target)
			return -ENOMEM;
		d->inode->size = (int64_t)strlen(links[n].target);
	}
	return 0;
}

int pts_add(struct kernel *k, unsigned n, uint32_t uid, uint32_t gid, uint32_t mode)
{
	struct dentry *d;
	char name[16];

	if (!k->vfs || !k->vfs->pts)
		return 0; /* a terminal without a name: only through its descriptors */
	str_fmt(name, sizeof(name), "%u", n);
	d = tree_child(k->vfs->pts, name, S_IFCHR | mode, makedev(PTS, n));
	if (!d)
		return -ENOMEM;
	d->inode->uid = uid;
	d->inode->gid = gid;
	return 0;
}

void pts_remove(struct kernel *k, unsigned n)
{
	struct dentry *d;
	char name[16];

	str_fmt(name, sizeof(name), "%u", n);
	d = k->vfs && k->vfs->pts ? dentry_find(k->vfs->pts, name, strlen(name)) : NULL;
	if (!d)
		return;
	if (d->inode) {
		d->inode->nlink = 0;
		dentry_delete(d);
	}
	dentry_unref(d);
}
