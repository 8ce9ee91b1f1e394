/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/store.c - the contents of regular files.
 *
 * Owns:  the host files of kernel.store, named by number, and the descriptors of contents.
 * Rules: the store is a host file system of limited size: what does not fit is -ENOSPC there, and
 * so for the guest. A descriptor of ours is never the guest's: a mapping gets a copy of it, of the
 * same mode as the guest's own opening.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/io/disk.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/ops.h"

enum {
	NAME_CAP = 24,
	MAP_FROM = 128 << 10, /* a read of this size or more goes from a mapping, in one copy */
};
#define MAP_BYTES_MAX (1LL << 30)

static void store_name(const struct node *n, char out[NAME_CAP])
{
	str_fmt(out, NAME_CAP, "%llx", (unsigned long long)n->store_id);
}

static int store_create(struct kernel *k, struct node *n)
{
	char name[NAME_CAP];
	int fd;

	if (k->store < 0) {
		fd = memfd_create("ward", MFD_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	n->store_id = ++k->vfs->tree->last_store_id;
	store_name(n, name);
	return host_openat(k->store, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static void unmap(struct node *n)
{
	if (n->map)
		munmap(n->map, n->map_len);
	n->map = NULL;
}

static int copy_loop(int from, int to, int64_t at, int64_t size)
{
	char buf[32 << 10];

	while (at < size) {
		size_t want = size - at < (int64_t)sizeof(buf) ? (size_t)(size - at) : sizeof(buf);
		ssize_t n = host_pread(from, buf, want, at), put;

		if (n <= 0)
			break;
		put = host_pwrite(to, buf, (size_t)n, at);
		if (put < 0)
			return (int)put;
		if (put < n)
			return -ENOSPC;
		at += n;
	}
	return host_ftruncate(to, size);
}

static int copy_all(int from, int to, int64_t size)
{
	off_t in = 0, out = 0;

	while (in < size) {
		ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(size - in), 0);

		if (n == 0)
			break; /* it has become shorter */
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP ||
				     errno == ENOSYS))
			return copy_loop(from, to, in, size);
		if (n < 0)
			return -errno;
	}
	return ftruncate(to, size) < 0 ? -errno : 0;
}

/* From NONE or LOWER to STORE. @keep: so many bytes of what there is. */
static int own_contents(struct inode *i, int64_t keep)
{
	struct node *n = node_of(i);
	struct kernel *k = i->sb->k;
	char name[NAME_CAP];
	int from = n->fd, fd, r = 0;

	if (n->content == CONTENT_LOWER && keep && from < 0) {
		from = layer_open_file(i);
		if (from < 0)
			return from;
		n->fd = from;
	}
	fd = store_create(k, n);
	if (fd < 0)
		return fd;
	if (n->content == CONTENT_LOWER && keep)
		r = copy_all(from, fd, keep);
	if (r < 0) {
		close(fd);
		if (k->store >= 0) {
			store_name(n, name);
			host_unlinkat(k->store, name, 0);
		}
		return r;
	}
	unmap(n);
	if (n->fd >= 0)
		close(n->fd);
	n->fd = fd;
	n->content = CONTENT_STORE;
	node_dirty(i);
	return 0;
}

static int open_store(struct inode *i, int flags)
{
	struct node *n = node_of(i);
	char name[NAME_CAP];

	if (i->sb->k->store < 0)
		return -EIO;
	store_name(n, name);
	return host_openat(i->sb->k->store, name, flags | O_CLOEXEC | O_NOFOLLOW, 0);
}

int store_open(struct inode *i, bool write)
{
	struct node *n = node_of(i);
	int fd = -1;

	if (write && n->content == CONTENT_TEXT)
		return -EACCES;
	if (write && n->content != CONTENT_STORE)
		return own_contents(i, i->size);
	if (n->fd >= 0 || n->content == CONTENT_NONE || n->content == CONTENT_TEXT)
		return 0;
	fd = n->content == CONTENT_LOWER ? layer_open_file(i) : open_store(i, O_RDWR);
	if (fd < 0)
		return fd;
	n->fd = fd;
	return 0;
}

int store_reopen(struct inode *i)
{
	struct kernel *k = i->sb->k;
	char name[NAME_CAP];
	int fd;

	if (k->store >= 0 && !node_of(i)->is_memfd)
		return open_store(i, O_RDONLY);
	/* No name leads to it but that of our own descriptor. */
	if (k->host_proc >= 0) {
		str_fmt(name, sizeof(name), "self/fd/%d", node_of(i)->fd);
		return host_openat(k->host_proc, name, O_RDONLY | O_CLOEXEC, 0);
	}
	fd = fcntl(node_of(i)->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

/* Nobody has it open: what can be opened again by name is closed. */
void store_close(struct inode *i)
{
	struct node *n = node_of(i);

	unmap(n);
	if (n->fd < 0 || n->is_memfd || (n->content == CONTENT_STORE && i->sb->k->store < 0))
		return;
	close(n->fd);
	n->fd = -1;
}

void store_free(struct inode *i)
{
	struct node *n = node_of(i);
	char name[NAME_CAP];

	unmap(n);
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	if (n->content == CONTENT_STORE && n->store_id && i->sb->k->store >= 0) {
		store_name(n, name);
		host_unlinkat(i->sb->k->store, name, 0);
	}
	n->content = CONTENT_NONE;
	tree_of(i)->used -= n->charged;
	n->charged = 0;
}

int store_peek(struct inode *i, void *buf, size_t len, int64_t off)
{
	struct node *n = node_of(i);
	int r = store_open(i, false);
	ssize_t got = 0;

	if (r < 0)
		return r;
	if (n->fd >= 0)
		got = host_pread(n->fd, buf, len, off);
	if (!n->opens)
		store_close(i);
	if (got < 0)
		return (int)got;
	memset((char *)buf + got, 0, len - (size_t)got);
	return 0;
}

int store_poke(struct inode *i, const void *buf, size_t len, int64_t off)
{
	struct node *n = node_of(i);
	int r = n->content == CONTENT_STORE ? store_open(i, true) : -EACCES;
	size_t left = off < i->size ? (size_t)(i->size - off) : 0;
	ssize_t put = 0;

	if (r < 0)
		return r;
	if (left)
		put = host_pwrite(n->fd, buf, len < left ? len : left, off);
	if (!n->opens)
		store_close(i);
	return put < 0 ? (int)put : 0;
}

int store_resize(struct inode *i, int64_t size)
{
	struct node *n = node_of(i);
	bool was_open = n->fd >= 0;
	int r = 0;

	if (size == i->size)
		return 0;
	if (n->content == CONTENT_TEXT)
		return -EACCES;
	if (n->content != CONTENT_STORE)
		r = own_contents(i, size < i->size ? size : i->size);
	else
		r = store_open(i, false);
	if (r == 0)
		r = host_ftruncate(n->fd, size);
	if (r == 0) {
		i->size = size;
		unmap(n);
		store_charge(i);
	}
	if (!was_open && !n->opens)
		store_close(i);
	return r;
}

int64_t store_blocks(struct inode *i)
{
	struct node *n = node_of(i);
	char name[NAME_CAP];
	struct stat st;

	if (n->content == CONTENT_LOWER)
		return (i->size + 511) / 512;
	if (n->content == CONTENT_NONE || n->content == CONTENT_TEXT)
		return 0;
	if (n->fd >= 0)
		return fstat(n->fd, &st) < 0 ? 0 : st.st_blocks;
	store_name(n, name);
	return fstatat(i->sb->k->store, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_blocks;
}

/* In a file system with a limit of its own, what of [@at, @at + @want) still has room. What lies
 * inside the file is taken for filled, unless it is known to have holes. */
static ssize_t room_in(struct inode *i, int64_t at, size_t want)
{
	struct tree *t = tree_of(i);
	uint64_t left = t->limit > t->used ? t->limit - t->used : 0, grows = 0, more;
	int64_t end = at + (int64_t)want, filled = (i->size + 4095) & ~(int64_t)4095;

	if (!t->limit)
		return (ssize_t)want;
	if ((uint64_t)filled > node_of(i)->charged)
		grows = want;
	else if (end > filled)
		grows = (uint64_t)(end - (at > filled ? at : filled));
	if (grows <= left)
		return (ssize_t)want;
	more = grows - left;
	return more >= want ? -ENOSPC : (ssize_t)(want - more);
}

int store_room(struct inode *i, int64_t off, int64_t len)
{
	struct tree *t = tree_of(i);
	uint64_t end = (uint64_t)off + (uint64_t)len, has = node_of(i)->charged;

	if (!t->limit || end <= has)
		return 0;
	return end - has > (t->limit > t->used ? t->limit - t->used : 0) ? -ENOSPC : 0;
}

void store_charge(struct inode *i)
{
	struct tree *t = tree_of(i);
	uint64_t now;

	if (!t->limit)
		return;
	now = (uint64_t)store_blocks(i) * 512;
	t->used += now - node_of(i)->charged;
	node_of(i)->charged = now;
}

static bool map_all(struct inode *i)
{
	struct node *n = node_of(i);
	void *p;

	if (n->map && n->map_len >= (size_t)i->size)
		return true;
	unmap(n);
	if (i->size > MAP_BYTES_MAX)
		return false;
	p = mmap(NULL, (size_t)i->size,
		n->content == CONTENT_STORE ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, n->fd,
		0);
	if (p == MAP_FAILED)
		return false;
	n->map = p;
	n->map_len = (size_t)i->size;
	return true;
}

static ssize_t read_chunk(struct file *f, struct uio *io, size_t len, int64_t off)
{
	char *buf = f->k->vfs->tree->buffer;
	ssize_t got = host_pread(node_of(f->inode)->fd, buf, len, off);

	return got <= 0 ? got : uio_out(io, buf, (size_t)got);
}

static ssize_t read_by_chunks(struct file *f, struct uio *io, int64_t pos, size_t want)
{
	size_t done = 0;

	while (done < want) {
		size_t len = want - done < COPY_CHUNK ? want - done : COPY_CHUNK;
		ssize_t n = read_chunk(f, io, len, pos + (int64_t)done);

		if (n <= 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static ssize_t read_host(struct file *f, struct uio *io, int64_t pos, size_t want)
{
	struct inode *i = f->inode;
	struct node *n = node_of(i);
	char *buf = f->k->vfs->tree->buffer;
	ssize_t r = store_open(i, false);

	if (r < 0)
		return r;
	if (io->may_wait && !io->kernel_base && want < MAP_FROM &&
		disk_read_now(io->task, i, n->fd, buf, want, pos))
		return uio_out(io, buf, want);
	r = io->may_wait ? disk_fetch(io->task, i, n->fd, pos, want) : 0;
	if (r < 0)
		return r;
	if (io->kernel_base) {
		r = host_pread(n->fd, io->kernel_base, want, pos);
		if (r > 0) {
			io->kernel_base += r;
			io->left -= (size_t)r;
		}
		return r;
	}
	if (want >= MAP_FROM && map_all(i))
		return uio_out(io, (char *)n->map + pos, want);
	return read_by_chunks(f, io, pos, want);
}

ssize_t store_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct inode *i = f->inode;
	struct node *n = node_of(i);
	size_t want;
	ssize_t r;

	if (*pos >= i->size || io->left == 0)
		return 0;
	want = (uint64_t)(i->size - *pos) < io->left ? (size_t)(i->size - *pos) : io->left;
	r = n->content == CONTENT_TEXT ? uio_out(io, n->target + *pos, want)
				       : read_host(f, io, *pos, want);
	if (r > 0)
		*pos += r;
	return r;
}

/* Bytes that may be written at @pos under RLIMIT_FSIZE. */
static ssize_t room_for(struct task *t, int64_t pos, size_t want)
{
	uint64_t limit = t ? t->proc->limits[RLIMIT_FSIZE].rlim_cur : RLIM_INFINITY;

	if (limit == RLIM_INFINITY || (uint64_t)pos + want <= limit)
		return (ssize_t)want;
	if ((uint64_t)pos >= limit) {
		signal_send_task(t, SIGXFSZ, NULL);
		return -EFBIG;
	}
	return (ssize_t)(limit - (uint64_t)pos);
}

static ssize_t write_by_chunks(struct file *f, struct uio *io, int64_t pos, size_t want)
{
	struct node *n = node_of(f->inode);
	char *buf = f->k->vfs->tree->buffer;
	size_t done = 0;

	while (done < want) {
		size_t len = want - done < COPY_CHUNK ? want - done : COPY_CHUNK;
		ssize_t got = uio_in(io, buf, len), put;

		if (got <= 0)
			return done ? (ssize_t)done : got;
		put = host_pwrite(n->fd, buf, (size_t)got, pos + (int64_t)done);
		if (put < 0)
			return done ? (ssize_t)done : put;
		done += (size_t)put;
		if ((size_t)got < len || put < got)
			break;
	}
	return (ssize_t)done;
}

/*
 * Over what is there already a large write is one copy, straight into a mapping. Where that stops
 * (a hole that the full store cannot fill, or the guest's memory ends) the ordinary way goes on,
 * and knows why.
 */
static ssize_t write_at(struct file *f, struct uio *io, int64_t at, size_t want)
{
	struct inode *i = f->inode;
	ssize_t done = 0, r;

	if (want >= MAP_FROM && !io->kernel_base && at + (int64_t)want <= i->size && map_all(i)) {
		done = uio_in(io, (char *)node_of(i)->map + at, want);
		if (done == (ssize_t)want)
			return done;
		if (done < 0)
			done = 0;
	}
	r = write_by_chunks(f, io, at + done, want - (size_t)done);
	return r < 0 && done ? done : r < 0 ? r : r + done;
}

ssize_t store_write(struct file *f, struct uio *io, int64_t *pos)
{
	struct inode *i = f->inode;
	int64_t at = f->flags & O_APPEND ? i->size : *pos;
	int opened;
	ssize_t r;

	if (io->left == 0)
		return 0;
	r = room_for(io->task, at, io->left);
	if (r < 0)
		return r;
	if (at > INT64_MAX - r)
		return -EFBIG;
	r = room_in(i, at, (size_t)r);
	if (r < 0)
		return r;
	opened = store_open(i, true);
	if (opened < 0)
		return opened;
	r = write_at(f, io, at, (size_t)r);
	if (r <= 0)
		return r;
	if (at + r > i->size)
		i->size = at + r;
	store_charge(i);
	if (io->task)
		inode_drop_setid(io->task, i);
	*pos = at + r;
	return r;
}
