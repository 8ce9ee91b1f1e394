/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/filemisc.c - sync, advice, ioctl, memfd_create, copies between files.
 *
 * Owns:  nothing.
 * Rules: a copy in the kernel goes through a buffer of a bounded size; what was read from a file
 *        that can seek and was not written is read again the next time.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/ckd.h"
#include "tier/kernel/fs/memfd.h"
#include "tier/kernel/io/disk.h"
#include "tier/kernel/io/pipe.h"
#include "tier/kernel/sys/fileflags.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/ops.h"
#include "tier/kernel/walk.h"

enum { PIECE = 64 << 10, MEMFD_NAME_MAX = 249 };

static long sync_file(struct task *t, int fd, bool data_only)
{
	struct file *f;

	if (t->call.disk) /* on its way: the number may be another file's by now */
		return disk_sync(t, -1, data_only);
	f = fd_get(t, fd);
	if (!f)
		return -EBADF;
	return f->ops->fsync ? f->ops->fsync(f, t, data_only) : -EINVAL;
}

SYSCALL1(fsync, int, fd)
{
	return sync_file(task, fd, false);
}

SYSCALL1(fdatasync, int, fd)
{
	return sync_file(task, fd, true);
}

/* What is mapped or read comes from the host's cache, which is not ours to count. */
SYSCALL4(cachestat, unsigned, fd, gva_t, urange, gva_t, uout, unsigned, flags)
{
	enum { PAGE = 4096 };
	struct file *f = fd_get(task, (int)fd);
	uint64_t range[2], out[5] = { 0 }, size, end;

	if (!f)
		return -EBADF;
	if (guest_read(task, range, urange, sizeof(range)) < 0)
		return -EFAULT;
	if (flags)
		return -EINVAL;
	size = S_ISREG(f->inode->mode) && f->inode->size > 0 ? (uint64_t)f->inode->size : 0;
	if (range[1] == 0 || ckd_add(&end, range[0], range[1]) || end > size)
		end = size;
	if (range[0] < end)
		out[0] = (end + PAGE - 1) / PAGE - range[0] / PAGE;
	return guest_write(task, uout, out, sizeof(out));
}

SYSCALL0(sync)
{
	return 0;
}

SYSCALL1(syncfs, int, fd)
{
	return fd_get(task, fd) ? 0 : -EBADF;
}

SYSCALL4(sync_file_range, int, fd, int64_t, off, int64_t, len, unsigned, flags)
{
	struct file *f = fd_get(task, fd);
	int64_t end;

	if (!f)
		return -EBADF;
	if ((flags & ~7u) || off < 0 || len < 0 || ckd_add(&end, off, len))
		return -EINVAL;
	if (!S_ISREG(f->inode->mode) && !S_ISBLK(f->inode->mode) && !S_ISDIR(f->inode->mode))
		return -ESPIPE;
	return 0;
}

SYSCALL3(readahead, int, fd, int64_t, off, uint64_t, count)
{
	struct file *f = fd_get(task, fd);

	if (!f || !file_readable(f))
		return -EBADF;
	return S_ISREG(f->inode->mode) ? 0 : -EINVAL;
}

SYSCALL4(fadvise64, int, fd, int64_t, off, int64_t, len, int, advice)
{
	struct file *f = fd_get(task, fd);

	if (!f)
		return -EBADF;
	if (S_ISFIFO(f->inode->mode))
		return -ESPIPE;
	return len < 0 || advice < 0 || advice > POSIX_FADV_NOREUSE ? -EINVAL : 0;
}

SYSCALL2(memfd_create, gva_t, uname, unsigned, flags)
{
	enum { CLOEXEC = 1, SEALING = 2, HUGETLB = 4, NOEXEC_SEAL = 8, EXEC = 16 };
	char name[MEMFD_NAME_MAX + 1];
	struct file *f;
	ssize_t n;
	int r;

	if (flags & ~(unsigned)(CLOEXEC | SEALING | NOEXEC_SEAL | EXEC) &
		~(flags & HUGETLB ? HUGETLB | 0x3fu << 26 : 0u))
		return -EINVAL;
	if (flags & HUGETLB)
		return -ENODEV; /* no huge pages of any size */
	if ((flags & EXEC) && (flags & NOEXEC_SEAL))
		return -EINVAL;
	n = guest_copy_string(task, uname, name, sizeof(name));
	if (n < 0)
		return n == -ENAMETOOLONG ? -EINVAL : n;
	r = fd_room(task);
	if (r == 0)
		r = memfd_open(
			task, name, flags & (SEALING | NOEXEC_SEAL), !(flags & NOEXEC_SEAL), &f);
	if (r < 0)
		return r;
	r = fd_install(task, f, flags & CLOEXEC, 0);
	if (r < 0)
		file_unref(f);
	return r;
}

static long set_bit(struct task *t, struct file *f, int fd, uint64_t arg, unsigned bit)
{
	int32_t on;

	if (guest_read(t, &on, GVA(arg), sizeof(on)) < 0)
		return -EFAULT;
	f->flags = on ? f->flags | bit : f->flags & ~bit;
	if (f->ops->set_flags)
		f->ops->set_flags(f, f->flags);
	if (bit == O_ASYNC)
		file_set_async(f, fd);
	return 0;
}

SYSCALL3(ioctl, int, fd, unsigned, cmd, uint64_t, arg)
{
	struct file *f = fd_get(task, fd);

	if (!f)
		return -EBADF;
	if (landlock_ioctl(f, cmd) < 0)
		return -EACCES;
	switch (cmd) {
	case FIOCLEX:
	case FIONCLEX:
		task->files->slots[fd].cloexec = cmd == FIOCLEX;
		return 0;
	case FIONBIO:
		return set_bit(task, f, fd, arg, O_NONBLOCK);
	case FIOASYNC:
		return set_bit(task, f, fd, arg, O_ASYNC);
	case FIONREAD:
		if (S_ISREG(f->inode->mode))
			return guest_write_u32(task, GVA(arg), (uint32_t)(f->inode->size - f->pos));
		break;
	}
	if (S_ISREG(f->inode->mode) || S_ISDIR(f->inode->mode)) {
		long r = file_ioctl(task, f, cmd, arg);

		if (r != -ENOTTY)
			return r;
	}
	return f->ops->ioctl ? f->ops->ioctl(f, task, cmd, arg) : -ENOTTY;
}

/* What a copy in the kernel has read and not yet written, across re-entries. */
struct copy {
	size_t len, at;
	char buf[PIECE];
};

static struct copy *copy_of(struct task *t)
{
	if (!t->call.own) {
		struct copy *c = malloc(sizeof(*c));

		if (!c)
			return NULL;
		c->len = c->at = 0;
		t->call.own = c;
		t->call.own_free = free;
	}
	return t->call.own;
}

static bool copies(const struct call *c)
{
	return c->nr == SYS_sendfile || c->nr == SYS_copy_file_range;
}

bool call_copy_keeps(const struct task *t)
{
	return t->call.own && copies(&t->call);
}

void call_copy_walk(struct task *t, struct walk *w)
{
	struct copy *c = t->call.own;
	uint32_t left = call_copy_keeps(t) ? (uint32_t)(c->len - c->at) : 0;

	if (!copies(&t->call))
		return;
	walk_count(w, "copied", &left, PIECE);
	if (w->mode == WALK_LOAD && left) {
		c = copy_of(t);
		if (!c) {
			walk_fail(w, -ENOMEM);
			return;
		}
		c->len = left;
	}
	if (left)
		walk_bytes(w, "bytes", c->buf + c->at, left);
}

/* Writes what is in @c. 0, or why not: -EAGAIN when it must wait. */
static long drain(struct task *t, struct copy *c, struct file *out, int64_t *pos, uint64_t *done)
{
	while (c->at < c->len) {
		struct uio io;
		ssize_t n;

		uio_kernel(&io, c->buf + c->at, c->len - c->at);
		io.task = t; /* a socket names its sender, a terminal asks for its group */
		n = out->ops->write(out, &io, pos);
		if (n <= 0)
			return n ? n : -EIO;
		c->at += (size_t)n;
		*done += (uint64_t)n;
	}
	return 0;
}

static long fill(struct task *t, struct copy *c, struct file *in, int64_t *pos, size_t want)
{
	struct uio io;
	ssize_t n;

	uio_kernel(&io, c->buf, want < PIECE ? want : PIECE);
	io.task = t;
	n = in->ops->read(in, &io, pos);
	c->at = 0;
	c->len = n > 0 ? (size_t)n : 0;
	return n;
}

/* Up to @count bytes from @in to @out. Blocks where the files would. */
static long copy_between(struct task *t, struct file *in, int64_t *in_pos, struct file *out,
	int64_t *out_pos, uint64_t count)
{
	struct copy *c = copy_of(t);
	uint64_t *done = &t->call.done;
	long r = 0;

	if (!c)
		return -ENOMEM;
	while (r == 0) {
		r = drain(t, c, out, out_pos, done);
		if (r == -EAGAIN) {
			/* Bytes that came from a file can be had again; others must not get lost.
			 */
			if (!(in->ops->flags & FILE_STREAM)) {
				*in_pos -= (int64_t)(c->len - c->at);
				c->at = c->len;
				if (*done || (out->flags & O_NONBLOCK))
					break;
			}
			return file_wait(t, out, POLLOUT);
		}
		if (r < 0 || *done >= count)
			break;
		r = fill(t, c, in, in_pos, count - *done);
		if (r == -EAGAIN && !*done && !(in->flags & O_NONBLOCK))
			return file_wait(t, in, POLLIN);
		if (r <= 0)
			break;
		r = 0;
	}
	return *done ? (long)*done : r;
}

static long copy_held(struct task *t, struct file *in, int64_t *in_pos, struct file *out,
	int64_t *out_pos, uint64_t count)
{
	long r;

	file_ref(in);
	file_ref(out);
	r = copy_between(t, in, in_pos, out, out_pos, count);
	file_unref(in);
	file_unref(out);
	return r;
}

SYSCALL4(sendfile, int, out_fd, int, in_fd, gva_t, uoff, uint64_t, count)
{
	struct file *in = fd_get(task, in_fd), *out = fd_get(task, out_fd);
	int64_t off = 0, out_off;
	long r;

	if (!in || !file_readable(in) || !out || !file_writable(out))
		return -EBADF;
	if (!gva_null(uoff)) {
		if (guest_read(task, &off, uoff, sizeof(off)) < 0)
			return -EFAULT;
		if (off < 0)
			return -EINVAL;
	}
	if ((in->ops->flags & FILE_STREAM) && !gva_null(uoff))
		return -ESPIPE;
	if (!count && file_is_pipe(out))
		return 0;
	if (((out->flags & O_APPEND) && !file_is_pipe(out)) || !out->ops->write)
		return -EINVAL;
	if (in->ops->flags & FILE_STREAM)
		return -EINVAL;
	if (!count)
		return 0; /* also from a directory */
	if (!in->ops->read)
		return -EINVAL;
	if ((int64_t)count < 0)
		return -EINVAL;
	if (count > GUEST_RW_MAX)
		count = GUEST_RW_MAX;
	if (count > (uint64_t)(INT64_MAX - off))
		return -EINVAL;
	/* Both may be one open file: each side has a position of its own until the end. */
	off = gva_null(uoff) ? in->pos : off + (int64_t)task->call.done;
	out_off = out->pos;
	file_ref(in);
	file_ref(out);
	r = copy_between(task, in, &off, out, &out_off, count);
	if (gva_null(uoff))
		in->pos = off;
	out->pos = out_off;
	file_unref(in);
	file_unref(out);
	if (r >= 0 && !gva_null(uoff) && guest_write(task, uoff, &off, sizeof(off)) < 0)
		return -EFAULT;
	return r;
}

/* @asked: before it was cut to what the file has. */
static long copy_check(struct file *in, struct file *out, int64_t in_off, int64_t out_off,
	uint64_t count, uint64_t asked)
{
	int64_t end;

	if (S_ISDIR(in->inode->mode) || S_ISDIR(out->inode->mode))
		return -EISDIR;
	if (!S_ISREG(in->inode->mode) || !S_ISREG(out->inode->mode))
		return -EINVAL;
	if (!file_readable(in) || !file_writable(out) || (out->flags & O_APPEND))
		return -EBADF;
	if (out->inode->flags & INODE_IMMUTABLE)
		return -EPERM;
	if ((uint64_t)in_off + asked < asked || (uint64_t)out_off + asked < asked)
		return -EOVERFLOW;
	if (out_off == INT64_MAX || ckd_add(&end, out_off, count))
		return -EFBIG;
	if (in->inode == out->inode && in_off < out_off + (int64_t)count &&
		out_off < in_off + (int64_t)count)
		return -EINVAL;
	return 0;
}

SYSCALL6(copy_file_range, int, in_fd, gva_t, uin, int, out_fd, gva_t, uout, uint64_t, count,
	unsigned, flags)
{
	struct file *in = fd_get(task, in_fd), *out = fd_get(task, out_fd);
	int64_t in_off, out_off;
	uint64_t asked = count;
	long r;

	if (!in || !out)
		return -EBADF;
	in_off = in->pos;
	out_off = out->pos;
	if (!gva_null(uin) && guest_read(task, &in_off, uin, sizeof(in_off)) < 0)
		return -EFAULT;
	if (!gva_null(uout) && guest_read(task, &out_off, uout, sizeof(out_off)) < 0)
		return -EFAULT;
	if (flags || in_off < 0 || out_off < 0)
		return -EINVAL;
	if (count > GUEST_RW_MAX)
		count = GUEST_RW_MAX;
	/* Linux looks at the range as far as the file goes. */
	if ((int64_t)count > in->inode->size - in_off)
		count = in->inode->size > in_off ? (uint64_t)(in->inode->size - in_off) : 0;
	r = copy_check(in, out, in_off, out_off, count, asked);
	if (r < 0)
		return r;
	r = copy_held(task, in, &in_off, out, &out_off, count);
	if (r < 0)
		return r;
	if (gva_null(uin))
		in->pos = in_off;
	else if (guest_write(task, uin, &in_off, sizeof(in_off)) < 0)
		return -EFAULT;
	if (gva_null(uout))
		out->pos = out_off;
	else if (guest_write(task, uout, &out_off, sizeof(out_off)) < 0)
		return -EFAULT;
	return r;
}
