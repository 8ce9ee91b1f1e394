/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/rw.c - read, write, their vectors and positions, lseek, getdents.
 *
 * Owns:  nothing.
 * Rules: a file is held while its operations run: they may give the lock up.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"

enum { RW_READ, RW_WRITE };

static bool is_stream(const struct file *f)
{
	return f->ops->flags & FILE_STREAM;
}

/* May @f be read or written, as it was opened, at a position of the caller's? */
static long check(const struct file *f, int way, const int64_t *off)
{
	if (!f)
		return -EBADF;
	if (off && is_stream(f))
		return -ESPIPE;
	if (!(way == RW_READ ? file_readable(f) : file_writable(f)))
		return -EBADF;
	if (way == RW_READ && S_ISDIR(f->inode->mode))
		return -EISDIR;
	return 0;
}

static long run(struct task *t, struct file *f, int way, struct uio *io, int64_t *pos)
{
	long r;

	file_ref(f);
	r = way == RW_READ ? file_read(t, f, io, pos) : file_write(t, f, io, pos);
	if (r == SYS_BLOCK)
		file_hold(t, f); /* the disk is asked */
	file_unref(f);
	return r;
}

/* The whole of it, once the memory is known. @off: NULL for the file's own position. */
static long transfer(struct task *t, int fd, int way, struct uio *io, int64_t *off)
{
	struct file *f = fd_get(t, fd);
	long r = check(f, way, off);
	int64_t end;

	if (r == 0 && !is_stream(f) && ckd_add(&end, off ? *off : f->pos, io->left))
		r = -EINVAL;
	if (r == 0)
		r = run(t, f, way, io, off ? off : &f->pos);
	uio_done(io);
	return r;
}

static long plain(struct task *t, int fd, int way, gva_t buf, uint64_t count, int64_t *off)
{
	struct uio io;
	struct file *f = fd_get(t, fd);
	long r = check(f, way, off);

	if (r < 0)
		return r;
	if ((int64_t)count < 0)
		return -EINVAL;
	if (!gva_range_ok(buf, count))
		return -EFAULT;
	uio_guest(&io, t, buf, count);
	return transfer(t, fd, way, &io, off);
}

static long vectors(struct task *t, int fd, int way, gva_t iov, uint64_t count, int64_t *off)
{
	struct uio io;
	long r = check(fd_get(t, fd), way, off);

	if (r < 0)
		return r;
	r = uio_guest_iov(&io, t, iov, count);
	return r < 0 ? r : transfer(t, fd, way, &io, off);
}

SYSCALL3(read, int, fd, gva_t, buf, uint64_t, count)
{
	return plain(task, fd, RW_READ, buf, count, NULL);
}

SYSCALL3(write, int, fd, gva_t, buf, uint64_t, count)
{
	return plain(task, fd, RW_WRITE, buf, count, NULL);
}

SYSCALL4(pread64, int, fd, gva_t, buf, uint64_t, count, int64_t, off)
{
	return off < 0 ? -EINVAL : plain(task, fd, RW_READ, buf, count, &off);
}

SYSCALL4(pwrite64, int, fd, gva_t, buf, uint64_t, count, int64_t, off)
{
	return off < 0 ? -EINVAL : plain(task, fd, RW_WRITE, buf, count, &off);
}

SYSCALL3(readv, int, fd, gva_t, iov, uint64_t, count)
{
	return vectors(task, fd, RW_READ, iov, count, NULL);
}

SYSCALL3(writev, int, fd, gva_t, iov, uint64_t, count)
{
	return vectors(task, fd, RW_WRITE, iov, count, NULL);
}

SYSCALL4(preadv, int, fd, gva_t, iov, uint64_t, count, int64_t, off)
{
	return off < 0 ? -EINVAL : vectors(task, fd, RW_READ, iov, count, &off);
}

SYSCALL4(pwritev, int, fd, gva_t, iov, uint64_t, count, int64_t, off)
{
	return off < 0 ? -EINVAL : vectors(task, fd, RW_WRITE, iov, count, &off);
}

enum { RWF_KNOWN = 0x1f, RWF_NOWAIT_ = 8, RWF_APPEND_ = 16 };

static long flagged(
	struct task *t, int fd, int way, gva_t iov, uint64_t count, int64_t off, unsigned flags)
{
	struct file *f = fd_get(t, fd);
	unsigned was;
	long r;

	if (off < -1)
		return -EINVAL;
	if (flags & ~(unsigned)RWF_KNOWN)
		return f ? -EOPNOTSUPP : -EBADF;
	if (!f)
		return -EBADF;
	was = f->flags;
	if (flags & RWF_APPEND_)
		f->flags |= O_APPEND;
	if (flags & RWF_NOWAIT_)
		f->flags |= O_NONBLOCK;
	file_ref(f);
	r = vectors(t, fd, way, iov, count, off == -1 ? NULL : &off);
	f->flags = was;
	file_unref(f);
	return r;
}

SYSCALL6(preadv2, int, fd, gva_t, iov, uint64_t, count, int64_t, off, uint64_t, high, unsigned,
	flags)
{
	return flagged(task, fd, RW_READ, iov, count, off, flags);
}

SYSCALL6(pwritev2, int, fd, gva_t, iov, uint64_t, count, int64_t, off, uint64_t, high, unsigned,
	flags)
{
	return flagged(task, fd, RW_WRITE, iov, count, off, flags);
}

static int64_t generic_seek(struct file *f, int64_t off, int whence)
{
	int64_t base = whence == SEEK_CUR ? f->pos : whence == SEEK_END ? f->inode->size : 0, to;

	if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END)
		return -EINVAL;
	if (ckd_add(&to, base, off) || to < 0)
		return -EINVAL;
	f->pos = to;
	return to;
}

SYSCALL3(lseek, int, fd, int64_t, off, unsigned, whence)
{
	struct file *f = fd_get(task, fd);

	if (!f)
		return -EBADF;
	if (whence > SEEK_HOLE)
		return -EINVAL;
	if (is_stream(f) && !f->ops->lseek)
		return -ESPIPE;
	return f->ops->lseek ? f->ops->lseek(f, off, (int)whence)
			     : generic_seek(f, off, (int)whence);
}

/* getdents: entries are laid out here and then copied out in one piece. */
struct lay {
	struct dir_emit emit;
	bool old; /* getdents: the type is the last byte */
	char *buf;
	size_t len, cap;
	bool full;
	bool any;
};

struct dirent64_head {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
} __attribute__((packed));

static bool lay_out(struct dir_emit *emit, const char *name, size_t len, uint64_t ino,
	int64_t next_pos, unsigned char type)
{
	struct lay *l = (struct lay *)emit;
	size_t head = l->old ? 18 : 19;
	size_t need = (head + len + 1 + (l->old ? 1 : 0) + 7) & ~(size_t)7;
	struct dirent64_head h = { ino, next_pos, (uint16_t)need, type };

	if (l->len + need > l->cap) {
		l->full = true;
		return false;
	}
	memset(l->buf + l->len, 0, need);
	memcpy(l->buf + l->len, &h, head);
	memcpy(l->buf + l->len + head, name, len);
	if (l->old)
		l->buf[l->len + need - 1] = (char)type;
	l->len += need;
	return true;
}

static long list(struct task *t, int fd, gva_t ubuf, unsigned count, bool old)
{
	enum { PIECE = 32 << 10 };
	struct lay l = { .emit = { lay_out }, .old = old, .cap = count < PIECE ? count : PIECE };
	struct file *f = fd_get(t, fd);
	int64_t pos;
	long r;

	if (!f)
		return -EBADF;
	if (!f->ops->iterate)
		return -ENOTDIR;
	if (count > INT32_MAX)
		return -EINVAL;
	if (f->path.dentry && (f->path.dentry->flags & DENTRY_DELETED))
		return -ENOENT;
	r = file_ask_read(t, f);
	if (r < 0)
		return r;
	_Static_assert((int)PIECE <= (int)COPY_CHUNK, "it fits");
	l.buf = t->k->vfs->tree->buffer; /* nobody who lists uses it */
	pos = f->pos;
	r = f->ops->iterate(f, &l.emit);
	if (r == 0 && l.full && !l.len)
		r = -EINVAL;
	if (r == 0 && l.len && guest_write(t, ubuf, l.buf, l.len) < 0) {
		f->pos = pos;
		r = -EFAULT;
	}
	return r < 0 ? r : (long)l.len;
}

SYSCALL3(getdents64, int, fd, gva_t, buf, unsigned, count)
{
	return list(task, fd, buf, count, false);
}

SYSCALL3(getdents, int, fd, gva_t, buf, unsigned, count)
{
	return list(task, fd, buf, count, true);
}
