/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/loop.c - loop devices.
 *
 * Owns:  struct loop: which file is behind which device.
 * Rules: under the kernel lock. The file behind it is the guest's own open file: what it may not do
 *        with the file it may not do with the device.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/fs/loop.h"
#include "tier/kernel/fs/sysfs.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk.h"

enum {
	SECTOR = 512,
	AHEAD = 256,
	KEPT = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR | LO_FLAGS_PARTSCAN
};

struct loop {
	struct file *file; /* a reference; NULL: free */
	uint64_t offset, limit;
	uint32_t flags, block, opens;
	uint32_t ahead; /* sectors read ahead, a word only; AHEAD where it is 0: see BLKRAGET */
	uint8_t name[LO_NAME_SIZE], crypt_name[LO_NAME_SIZE];
};

static struct loop *loop_get(struct kernel *k, unsigned n)
{
	if (!k->vfs->loops)
		k->vfs->loops = calloc(LOOP_DEVICES, sizeof(struct loop));
	return k->vfs->loops && n < LOOP_DEVICES ? &k->vfs->loops[n] : NULL;
}

static struct loop *loop_of(const struct file *f)
{
	return f->priv;
}

/* Bytes of the device: whole sectors. */
static int64_t size_of(const struct loop *l)
{
	int64_t n = l->file ? l->file->inode->size - (int64_t)l->offset : 0;

	if (n < 0)
		n = 0;
	if (l->limit && (int64_t)l->limit < n)
		n = (int64_t)l->limit;
	return n & ~(int64_t)(SECTOR - 1);
}

static void loop_clear(struct loop *l)
{
	struct file *f = l->file;
	uint32_t opens = l->opens, ahead = l->ahead;

	memset(l, 0, sizeof(*l));
	l->opens = opens;
	l->ahead = ahead;
	file_unref(f);
}

/* /sys/block/loopN; without room for it the ioctls still answer. */
static void tell_sysfs(struct kernel *k, const struct loop *l)
{
	unsigned n = (unsigned)(l - k->vfs->loops);
	const struct path root = { k->root_mount, k->root_mount->root };
	char path[64], text[GUEST_PATH_MAX + 2] = "";
	ssize_t len = l->file && l->file->path.dentry
			      ? path_show(l->file->path, root, text, sizeof(text) - 1)
			      : 0;
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = { { "size", (uint64_t)size_of(l) / SECTOR },
		{ "ro", l->flags & LO_FLAGS_READ_ONLY ? 1 : 0 }, { "removable", 0 },
		{ "loop/offset", l->offset }, { "loop/sizelimit", l->limit },
		{ "loop/autoclear", l->flags & LO_FLAGS_AUTOCLEAR ? 1 : 0 },
		{ "loop/partscan", l->flags & LO_FLAGS_PARTSCAN ? 1 : 0 }, { "loop/dio", 0 } };

	text[len > 0 ? len : 0] = '\n';
	text[len > 0 ? len + 1 : 1] = '\0';
	str_fmt(path, sizeof(path), "block/loop%u/loop/backing_file", n);
	sysfs_set(k, path, text);
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		str_fmt(path, sizeof(path), "block/loop%u/%s", n, rows[i].name);
		str_fmt(text, sizeof(text), "%llu\n", (unsigned long long)rows[i].value);
		sysfs_set(k, path, text);
	}
	str_fmt(path, sizeof(path), "block/loop%u/dev", n);
	str_fmt(text, sizeof(text), "%d:%u\n", LOOP_MAJOR, n);
	sysfs_set(k, path, text);
}

void loops_done(struct kernel *k)
{
	for (unsigned n = 0; k->vfs->loops && n < LOOP_DEVICES; n++)
		loop_clear(&k->vfs->loops[n]);
	free(k->vfs->loops);
	k->vfs->loops = NULL;
}

struct file *loop_file(struct kernel *k, unsigned n)
{
	return k->vfs->loops ? k->vfs->loops[n].file : NULL;
}

void loops_walk(struct kernel *k, struct walk *w)
{
	bool any = k->vfs->loops != NULL;

	walk_bool(w, "loops", &any);
	for (unsigned n = 0; any && n < LOOP_DEVICES && !w->err; n++) {
		struct loop *l = loop_get(k, n);
		struct file *f = l ? l->file : NULL;

		if (!l) {
			walk_fail(w, -ENOMEM);
			return;
		}
		walk_ref(w, "file", WALK_FILE, (void **)&f);
		/* Never a device: they could be made of each other. */
		if (w->mode == WALK_LOAD && f && !w->err) {
			if (!S_ISREG(f->inode->mode) || !f->ops || !f->ops->read || !f->ops->write)
				walk_fail(w, -EBADMSG);
			else
				l->file = file_ref(f);
		}
		walk_u64(w, "offset", &l->offset);
		walk_u64(w, "limit", &l->limit);
		walk_u32(w, "flags", &l->flags);
		walk_u32(w, "block", &l->block);
		walk_u32(w, "ahead", &l->ahead);
		walk_bytes(w, "name", l->name, sizeof(l->name));
		walk_bytes(w, "crypt_name", l->crypt_name, sizeof(l->crypt_name));
		if (l->offset > INT64_MAX || l->limit > INT64_MAX || (l->flags & ~(uint32_t)KEPT)) {
			l->offset = l->limit = l->flags = 0;
			walk_fail(w, -EBADMSG);
		}
	}
}

/* The part of a transfer that is inside the device. */
static ssize_t transfer(struct file *f, struct uio *io, int64_t *pos, bool writing)
{
	struct loop *l = loop_of(f);
	int64_t size = size_of(l), at;
	uint64_t all = io->left;
	ssize_t r;

	if (*pos >= size)
		return writing && all ? -ENOSPC : 0;
	if ((uint64_t)(size - *pos) < io->left)
		io->left = (uint64_t)(size - *pos);
	at = *pos + (int64_t)l->offset;
	if (writing)
		r = l->flags & LO_FLAGS_READ_ONLY ? -EPERM : l->file->ops->write(l->file, io, &at);
	else
		r = l->file->ops->read(l->file, io, &at);
	if (r > 0) {
		*pos += r;
		io->left = all - (uint64_t)r;
	}
	return r;
}

static ssize_t loop_read(struct file *f, struct uio *io, int64_t *pos)
{
	return transfer(f, io, pos, false);
}

static ssize_t loop_write(struct file *f, struct uio *io, int64_t *pos)
{
	return transfer(f, io, pos, true);
}

static int64_t loop_seek(struct file *f, int64_t off, int whence)
{
	int64_t base = whence == SEEK_CUR   ? f->pos
		       : whence == SEEK_END ? size_of(loop_of(f))
					    : 0,
		to;

	if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END)
		return -EINVAL;
	if (ckd_add(&to, base, off) || to < 0)
		return -EINVAL;
	f->pos = to;
	return to;
}

static bool block_ok(uint32_t n)
{
	return n >= SECTOR && n <= 4096 && !(n & (n - 1));
}

static long set_file(struct task *t, struct loop *l, int fd, struct file *dev)
{
	struct file *f = fd_get(t, fd);

	if (!f)
		return -EBADF;
	if (l->file)
		return -EBUSY;
	if (!S_ISREG(f->inode->mode) || !f->ops->read || !f->ops->write || !file_readable(f))
		return -EINVAL;
	l->file = file_ref(f);
	l->block = SECTOR;
	if (!file_writable(f) || !file_writable(dev))
		l->flags |= LO_FLAGS_READ_ONLY;
	return 0;
}

static long change_file(struct task *t, struct loop *l, int fd)
{
	struct file *f = fd_get(t, fd), *was = l->file;

	if (!was)
		return -ENXIO;
	if (!(l->flags & LO_FLAGS_READ_ONLY))
		return -EINVAL;
	if (!f)
		return -EBADF;
	if (!S_ISREG(f->inode->mode) || !f->ops->read || !f->ops->write ||
		f->inode->size != was->inode->size)
		return -EINVAL;
	l->file = file_ref(f);
	file_unref(was);
	return 0;
}

static long clear(struct loop *l)
{
	if (!l->file)
		return -ENXIO;
	if (l->opens > 1)
		l->flags |= LO_FLAGS_AUTOCLEAR; /* with the last who has it open */
	else
		loop_clear(l);
	return 0;
}

static long apply(struct loop *l, uint64_t offset, uint64_t limit, uint32_t flags)
{
	const uint32_t settable = LO_FLAGS_AUTOCLEAR | LO_FLAGS_PARTSCAN;

	if (offset > INT64_MAX || limit > INT64_MAX)
		return -EOVERFLOW;
	l->offset = offset;
	l->limit = limit;
	l->flags = (l->flags & ~(uint32_t)LO_FLAGS_AUTOCLEAR) | (flags & settable);
	return 0;
}

static long set_status64(struct task *t, struct loop *l, gva_t u)
{
	struct loop_info64 i;
	long r;

	if (guest_read(t, &i, u, sizeof(i)) < 0)
		return -EFAULT;
	if (!l->file)
		return -ENXIO;
	r = i.lo_encrypt_key_size > LO_KEY_SIZE || i.lo_encrypt_type
		    ? -EINVAL
		    : apply(l, i.lo_offset, i.lo_sizelimit, i.lo_flags);
	if (r == 0)
		memcpy(l->name, i.lo_file_name, sizeof(l->name));
	return r;
}

static long set_status(struct task *t, struct loop *l, gva_t u)
{
	struct loop_info i;
	long r;

	if (guest_read(t, &i, u, sizeof(i)) < 0)
		return -EFAULT;
	if (!l->file)
		return -ENXIO;
	r = i.lo_encrypt_key_size < 0 || i.lo_encrypt_key_size > LO_KEY_SIZE || i.lo_encrypt_type
		    ? -EINVAL
		    : apply(l, (uint64_t)(int64_t)i.lo_offset, 0, (uint32_t)i.lo_flags);
	if (r == 0)
		memcpy(l->name, i.lo_name, sizeof(l->name));
	return r;
}

static long get_status64(struct task *t, const struct loop *l, unsigned n, gva_t u)
{
	struct loop_info64 i = { .lo_number = n };

	if (!l->file)
		return -ENXIO;
	i.lo_device = l->file->inode->sb ? l->file->inode->sb->dev : 0;
	i.lo_inode = l->file->inode->ino;
	i.lo_offset = l->offset;
	i.lo_sizelimit = l->limit;
	i.lo_flags = l->flags & KEPT;
	memcpy(i.lo_file_name, l->name, sizeof(l->name));
	return guest_write(t, u, &i, sizeof(i));
}

static long get_status(struct task *t, const struct loop *l, unsigned n, gva_t u)
{
	struct loop_info i = { .lo_number = (int)n };

	if (!l->file)
		return -ENXIO;
	i.lo_inode = (unsigned long)l->file->inode->ino;
	i.lo_offset = (int)l->offset;
	i.lo_flags = (int)(l->flags & KEPT);
	memcpy(i.lo_name, l->name, sizeof(l->name));
	return guest_write(t, u, &i, sizeof(i));
}

static long configure(struct task *t, struct loop *l, struct file *dev, gva_t u)
{
	struct loop_config c;
	long r;

	if (guest_read(t, &c, u, sizeof(c)) < 0)
		return -EFAULT;
	if (c.block_size && !block_ok(c.block_size))
		return -EINVAL;
	if (c.info.lo_flags & ~(uint32_t)(KEPT | LO_FLAGS_DIRECT_IO))
		return -EINVAL;
	r = set_file(t, l, (int)c.fd, dev);
	if (r < 0)
		return r;
	if (c.block_size)
		l->block = c.block_size;
	if (c.info.lo_flags & LO_FLAGS_READ_ONLY)
		l->flags |= LO_FLAGS_READ_ONLY;
	memcpy(l->name, c.info.lo_file_name, sizeof(l->name));
	r = apply(l, c.info.lo_offset, c.info.lo_sizelimit, c.info.lo_flags);
	if (r < 0)
		loop_clear(l);
	return r;
}

static long set_block(struct loop *l, uint64_t n)
{
	if (!l->file)
		return -ENXIO;
	if (n > 4096 || !block_ok((uint32_t)n))
		return -EINVAL;
	l->block = (uint32_t)n;
	return 0;
}

/* What every block device answers. */
static long block_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	struct loop *l = loop_of(f);
	uint32_t v;

	switch (cmd) {
	case BLKGETSIZE64:
		return guest_write_u64(t, GVA(arg), (uint64_t)size_of(l));
	case BLKGETSIZE:
		return guest_write_u64(t, GVA(arg), (uint64_t)size_of(l) / SECTOR);
	case BLKSSZGET:
	case BLKPBSZGET:
		return guest_write_u32(t, GVA(arg), l->block ? l->block : SECTOR);
	case BLKBSZGET:
		return guest_write_u32(t, GVA(arg), 4096);
	case BLKBSZSET:
		if (guest_read_u32(t, GVA(arg), &v) < 0)
			return -EFAULT;
		return block_ok(v) ? 0 : -EINVAL;
	case BLKROGET:
		return guest_write_u32(t, GVA(arg), (l->flags & LO_FLAGS_READ_ONLY) != 0);
	case BLKROSET:
		if (!task_capable(t, CAP_SYS_ADMIN))
			return -EACCES;
		if (guest_read_u32(t, GVA(arg), &v) < 0)
			return -EFAULT;
		if (!v && l->file && !file_writable(l->file))
			return -EACCES;
		l->flags = v ? l->flags | LO_FLAGS_READ_ONLY
			     : l->flags & ~(uint32_t)LO_FLAGS_READ_ONLY;
		return 0;
	case BLKRAGET:
	case BLKFRAGET:
		return gva_null(GVA(arg)) ? -EINVAL
					  : guest_write_u64(t, GVA(arg), l->ahead ^ AHEAD);
	case BLKRASET:
	case BLKFRASET:
		if (!task_capable(t, CAP_SYS_ADMIN))
			return -EACCES;
		l->ahead = (uint32_t)arg ^ AHEAD;
		return 0;
	case BLKFLSBUF:
		return task_capable(t, CAP_SYS_ADMIN) ? 0 : -EACCES;
	default:
		return -ENOTTY;
	}
}

static long device_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	struct loop *l = loop_of(f);
	unsigned n = minor(f->inode->rdev);

	switch (cmd) {
	case LOOP_SET_FD:
		return set_file(t, l, (int)arg, f);
	case LOOP_CHANGE_FD:
		return change_file(t, l, (int)arg);
	case LOOP_CONFIGURE:
		return configure(t, l, f, GVA(arg));
	case LOOP_CLR_FD:
		return clear(l);
	case LOOP_SET_STATUS:
		return set_status(t, l, GVA(arg));
	case LOOP_GET_STATUS:
		return get_status(t, l, n, GVA(arg));
	case LOOP_SET_STATUS64:
		return set_status64(t, l, GVA(arg));
	case LOOP_GET_STATUS64:
		return get_status64(t, l, n, GVA(arg));
	case LOOP_SET_CAPACITY:
		return l->file ? 0 : -ENXIO;
	case LOOP_SET_BLOCK_SIZE:
		return set_block(l, arg);
	case LOOP_SET_DIRECT_IO:
		return !l->file ? -ENXIO : arg ? -EINVAL : 0;
	default:
		return block_ioctl(f, t, cmd, arg);
	}
}

static long loop_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	long r = device_ioctl(f, t, cmd, arg);

	if (r == 0 && _IOC_TYPE(cmd) == 'L')
		tell_sysfs(f->k, loop_of(f));
	return r;
}

static long loop_sync(struct file *f, struct task *t, bool data_only)
{
	struct file *b = loop_of(f)->file;

	return b && b->ops->fsync ? b->ops->fsync(b, t, data_only) : 0;
}

static void loop_release(struct file *f)
{
	struct loop *l = loop_of(f);

	if (--l->opens == 0 && (l->flags & LO_FLAGS_AUTOCLEAR)) {
		loop_clear(l);
		tell_sysfs(f->k, l);
	}
}

static const struct file_ops loop_ops = {
	.name = "loop",
	.read = loop_read,
	.write = loop_write,
	.lseek = loop_seek,
	.ioctl = loop_ioctl,
	.fsync = loop_sync,
	.release = loop_release,
};

int loop_open(struct inode *i, struct file *f, struct task *t)
{
	struct loop *l = loop_get(t->k, minor(i->rdev));

	if (!l)
		return -ENXIO;
	if ((l->flags & LO_FLAGS_READ_ONLY) && l->file && file_writable(f))
		return -EACCES;
	l->opens++;
	f->priv = l;
	f->ops = &loop_ops;
	return 0;
}

static long control_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	switch (cmd) {
	case LOOP_CTL_GET_FREE:
		for (unsigned n = 0; n < LOOP_DEVICES; n++) {
			struct loop *l = loop_get(t->k, n);

			if (l && !l->file)
				return (long)n;
		}
		return -ENOSPC;
	case LOOP_CTL_ADD:
		return arg < LOOP_DEVICES ? -EEXIST : -ENOSPC;
	case LOOP_CTL_REMOVE:
		return arg < LOOP_DEVICES ? -EBUSY : -ENODEV;
	default:
		return -ENOTTY;
	}
}

static const struct file_ops control_ops = { .name = "loop-control", .ioctl = control_ioctl };

int loop_control_open(struct inode *i, struct file *f, struct task *t)
{
	f->ops = &control_ops;
	return 0;
}
