/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/hostdir.c - a writable host directory in the guest's tree.
 *
 * Owns:  struct hnode, a descriptor per directory that somebody holds.
 * Rules: every host call gets a descriptor and one name, which is neither "." nor ".." and has no
 *        slash; what it finds is opened without following a link and must be the file that was
 *        looked up, or the answer is -ESTALE. Only regular files and directories are opened: a
 *        device of the host can be seen and never used, and what goes through a FIFO or socket of
 *        that name stays inside.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "base/own.h"
#include "host/host.h"
#include "tier/kernel/fs/hostdir.h"
#include "tier/kernel/fs/listing.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/io/disk.h"
#include "tier/kernel/io/pipe.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/ops.h"

enum {
	ID_COUNT = 65536,
	NOBODY = 65534,
	HASH = 256,
	BENEATH = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	PLAIN = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
};

struct hostdir {
	uint32_t id_base;
	bool ids; /* files can be given to the guest's other ids */
	struct inode *hash[HASH];
};

struct hnode {
	struct inode *parent; /* a reference; NULL: the root */
	char *name;           /* in the parent, when it was last seen */
	int fd;               /* directories, and the root; -1 otherwise */
	int made;             /* how create() made it, for the opening that follows; -1: taken */
	uint64_t dev, ino;
};

static const struct inode_ops host_ops;
static const struct file_ops host_file_ops, host_dir_ops;

static struct hnode *hn(const struct inode *i)
{
	return i->priv;
}

static struct inode **bucket(struct super *sb, uint64_t dev, uint64_t ino)
{
	struct hostdir *h = sb->priv;

	return &h->hash[(ino * 31 + dev) % HASH];
}

static uint32_t guest_id(const struct hostdir *h, uint32_t id)
{
	return id >= h->id_base && id - h->id_base < ID_COUNT ? id - h->id_base : NOBODY;
}

static int64_t ns_of(const struct timespec *ts)
{
	return (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
}

static void take_stat(struct inode *i, const struct stat *st)
{
	const struct hostdir *h = i->sb->priv;

	i->mode = st->st_mode & (S_IFMT | 07777);
	i->nlink = (uint32_t)st->st_nlink;
	i->uid = guest_id(h, st->st_uid);
	i->gid = guest_id(h, st->st_gid);
	i->size = st->st_size;
	i->rdev = st->st_rdev;
	i->atime = ns_of(&st->st_atim);
	i->mtime = ns_of(&st->st_mtim);
	i->ctime = i->btime = ns_of(&st->st_ctim);
}

static void release(struct inode *i)
{
	struct hnode *n = hn(i);
	struct inode **at = bucket(i->sb, n->dev, n->ino);

	while (*at && *at != i)
		at = &(*at)->hash_next;
	if (*at)
		*at = i->hash_next;
	if (n->fd >= 0)
		close(n->fd);
	if (n->made >= 0)
		close(n->made);
	inode_unref(n->parent);
	free(n->name);
	free(n);
}

/* Is what @fd opens the file that @i stands for? */
static int check_same(struct inode *i, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != hn(i)->dev || st.st_ino != hn(i)->ino)
		return -ESTALE;
	take_stat(i, &st);
	return 0;
}

/* A new descriptor of @i. */
static int host_fd(struct inode *i, int flags)
{
	struct hnode *n = hn(i);
	int fd, r;

	if (!S_ISREG(i->mode) && !S_ISDIR(i->mode))
		return -ENXIO;
	if (!n->parent && !S_ISDIR(i->mode)) {
		fd = fcntl(n->fd, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	fd = host_openat2(n->parent ? hn(n->parent)->fd : n->fd, n->parent ? n->name : ".",
		(uint64_t)(flags | PLAIN), 0, BENEATH);
	if (fd < 0)
		return fd == -ENOENT ? -ESTALE : fd;
	r = check_same(i, fd);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

/* A descriptor of @i that is good for its attributes, whatever it is. */
static int place_fd(struct inode *i)
{
	struct hnode *n = hn(i);
	int fd = n->parent
			 ? host_openat2(hn(n->parent)->fd, n->name, O_PATH | O_NOFOLLOW | O_CLOEXEC,
				   0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)
			 : fcntl(n->fd, F_DUPFD_CLOEXEC, 3);
	int r = fd < 0 ? fd : check_same(i, fd);

	if (r < 0 && fd >= 0)
		close(fd);
	return r < 0 ? r : fd;
}

static struct inode *new_inode(
	struct super *sb, struct inode *parent, const char *name, const struct stat *st)
{
	struct inode **b = bucket(sb, st->st_dev, st->st_ino), *i;
	struct hnode *n = calloc(1, sizeof(*n));

	i = n ? inode_create(sb, &host_ops, st->st_mode) : NULL;
	if (i)
		n->name = strdup(name);
	if (!i || !n->name) {
		free(i);
		free(n);
		return NULL;
	}
	n->fd = n->made = -1;
	n->dev = st->st_dev;
	n->ino = st->st_ino;
	n->parent = parent ? inode_ref(parent) : NULL;
	i->priv = n;
	i->ino = st->st_ino;
	take_stat(i, st);
	i->hash_next = *b;
	*b = i;
	return i;
}

/* The inode of @name in @dir, which is known to be @st: a reference. */
static int get_inode(struct inode *dir, const char *name, const struct stat *st, struct inode **ret)
{
	struct inode *i = *bucket(dir->sb, st->st_dev, st->st_ino);

	while (i && (hn(i)->dev != st->st_dev || hn(i)->ino != st->st_ino))
		i = i->hash_next;
	if (i) {
		char *copy = strdup(name);

		if (!copy)
			return -ENOMEM;
		if (hn(i)->parent) { /* it may have been renamed since */
			inode_ref(dir);
			inode_unref(hn(i)->parent);
			hn(i)->parent = dir;
			free(hn(i)->name);
			hn(i)->name = copy;
		} else {
			free(copy);
		}
		take_stat(i, st);
		*ret = inode_ref(i);
		return 0;
	}
	i = new_inode(dir->sb, dir, name, st);
	if (!i)
		return -ENOMEM;
	if (S_ISDIR(st->st_mode)) {
		int fd = host_fd(i, O_RDONLY | O_DIRECTORY);

		if (fd == -EACCES)
			fd = place_fd(i);
		if (fd < 0) {
			inode_unref(i);
			return fd;
		}
		hn(i)->fd = fd;
	}
	*ret = i;
	return 0;
}

static int lookup(struct inode *dir, struct dentry *d)
{
	struct stat st;

	if (fstatat(hn(dir)->fd, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	return get_inode(dir, d->name, &st, &d->inode);
}

static int made(struct inode *dir, struct dentry *d, int r)
{
	if (r < 0)
		return r;
	r = lookup(dir, d);
	return r == 0 && !d->inode ? -ESTALE : r;
}

static bool is_empty(int dir)
{
	char buf[1024];
	/* Two names of its own: no third one, and no more to come. */
	ssize_t n = host_getdents(dir, buf, sizeof(buf));
	unsigned names = 0;

	for (ssize_t at = 0; at < n; at += ((const struct host_dirent *)(buf + at))->d_reclen)
		names++;
	return n > 0 && names == 2 && host_rewind(dir) == 0;
}

/* May @t make files here? The host has no owner for who is beyond the id map. */
static int may_own(const struct inode *dir, const struct task *t)
{
	const struct hostdir *h = dir->sb->priv;

	return h->ids && (t->cred->fsuid >= ID_COUNT || t->cred->fsgid >= ID_COUNT) ? -EOVERFLOW
										    : 0;
}

/*
 * What was just made is ours on the host; it becomes @t's. Somebody on the host can have put
 * another thing there meanwhile: a file is known by the descriptor that made it, an empty folder
 * and a link are worth nothing, and anything else stays whose it is.
 */
static int give(struct inode *dir, struct inode *i, int fd, const struct task *t)
{
	const struct hostdir *h = dir->sb->priv;
	uint32_t uid = t->cred->fsuid, gid = dir->mode & S_ISGID ? i->gid : t->cred->fsgid;
	int r;

	if (!h->ids || i->uid != 0 || (uid == i->uid && gid == i->gid))
		return 0;
	if (S_ISDIR(i->mode) && !is_empty(fd))
		return 0;
	r = host_fchownat(fd, "", uid, gid, AT_EMPTY_PATH);
	if (r == -EPERM) /* a file system without owners */
		return 0;
	return r < 0 ? r : check_same(i, fd);
}

/* Made, but not to be had by who made it: as if it never was. */
static int unmake(struct inode *dir, struct dentry *d, int r)
{
	host_unlinkat(hn(dir)->fd, d->name, S_ISDIR(d->inode->mode) ? AT_REMOVEDIR : 0);
	inode_unref(d->inode);
	d->inode = NULL;
	return r;
}

/* The same for what cannot be opened. */
static int give_placed(struct inode *dir, struct dentry *d, const struct task *t)
{
	own_fd int fd = place_fd(d->inode);
	int r = fd < 0 ? 0 : give(dir, d->inode, fd, t);

	return r < 0 ? unmake(dir, d, r) : 0;
}

/* Who makes a file that nobody may write to may still write to it by the descriptor that made it.
 */
static int create(struct inode *dir, struct dentry *d, struct task *t, uint32_t mode)
{
	own_fd int fd = -1;
	int r = may_own(dir, t);

	if (r < 0)
		return r;
	fd = host_openat2(
		hn(dir)->fd, d->name, O_RDWR | O_CREAT | O_EXCL | PLAIN, mode & 0777, BENEATH);
	r = fd < 0 ? fd : host_fchmod(fd, mode & 0777); /* our own umask is not the guest's */
	r = made(dir, d, r);
	if (r < 0 || check_same(d->inode, fd) < 0)
		return r;
	r = give(dir, d->inode, fd, t);
	if (r < 0)
		return unmake(dir, d, r);
	if (hn(d->inode)->made < 0)
		hn(d->inode)->made = take_fd(&fd);
	return 0;
}

static int make_dir(struct inode *dir, struct dentry *d, struct task *t, uint32_t mode)
{
	int r = may_own(dir, t), fd;

	if (r == 0)
		r = made(dir, d, host_mkdirat(hn(dir)->fd, d->name, mode & 01777));
	if (r < 0)
		return r;
	fd = hn(d->inode)->fd;
	if (fd < 0)
		return 0; /* no folder any more: somebody on the host was faster */
	fchmod(fd, (mode & 01777) | (d->inode->mode & S_ISGID));
	r = give(dir, d->inode, fd, t);
	return r < 0 ? unmake(dir, d, r) : 0;
}

static int make_symlink(struct inode *dir, struct dentry *d, struct task *t, const char *target)
{
	int r = may_own(dir, t);

	if (r == 0)
		r = made(dir, d, host_symlinkat(target, hn(dir)->fd, d->name));
	if (r < 0 || !S_ISLNK(d->inode->mode))
		return r;
	return give_placed(dir, d, t);
}

/* A name for a pipe or socket of ours: the host has the node, and nothing behind it. */
static int make_node(
	struct inode *dir, struct dentry *d, struct task *t, uint32_t mode, uint64_t rdev)
{
	int r = S_ISFIFO(mode) || S_ISSOCK(mode) ? may_own(dir, t) : -EPERM;

	if (r == 0)
		r = made(dir, d, host_mknodat(hn(dir)->fd, d->name, mode & (S_IFMT | 0777), 0));
	return r < 0 || ((d->inode->mode ^ mode) & S_IFMT) ? r : give_placed(dir, d, t);
}

static int make_link(struct inode *dir, struct dentry *d, struct inode *i)
{
	struct hnode *n = hn(i);

	if (!n->parent || n->fd >= 0)
		return -EPERM;
	if (linkat(hn(n->parent)->fd, n->name, hn(dir)->fd, d->name, 0) < 0)
		return -errno;
	return made(dir, d, 0);
}

static int remove_name(struct inode *dir, struct dentry *d, int flags)
{
	int r = host_unlinkat(hn(dir)->fd, d->name, flags);

	if (r < 0)
		return r;
	if (d->inode->nlink)
		d->inode->nlink = flags ? 0 : d->inode->nlink - 1;
	dentry_delete(d);
	return 0;
}

static int do_unlink(struct inode *dir, struct dentry *d)
{
	return remove_name(dir, d, 0);
}

static int do_rmdir(struct inode *dir, struct dentry *d)
{
	return remove_name(dir, d, AT_REMOVEDIR);
}

static int do_rename(struct inode *from, struct dentry *old, struct inode *to, struct dentry *new_d,
	unsigned flags)
{
	struct hnode *n = hn(old->inode);
	char *copy = strdup(new_d->name);

	if (!copy)
		return -ENOMEM;
	if (syscall(SYS_renameat2, hn(from)->fd, old->name, hn(to)->fd, new_d->name, flags) < 0) {
		free(copy);
		return -errno;
	}
	inode_ref(to);
	inode_unref(n->parent);
	n->parent = to;
	free(n->name);
	n->name = copy;
	if (flags & RENAME_EXCHANGE)
		dentry_swap(old, new_d);
	else
		dentry_move(old, new_d->parent, new_d->name);
	return 0;
}

static ssize_t do_readlink(struct inode *i, struct task *t, char *buf, size_t cap)
{
	struct hnode *n = hn(i);
	ssize_t len = n->parent ? readlinkat(hn(n->parent)->fd, n->name, buf, cap) : -1;

	return len < 0 ? (n->parent ? -errno : -EINVAL) : len;
}

static int getattr(struct inode *i, struct kstat *ret)
{
	struct hnode *n = hn(i);
	struct stat st;
	int r = n->fd >= 0 ? fstat(n->fd, &st)
			   : fstatat(hn(n->parent)->fd, n->name, &st, AT_SYMLINK_NOFOLLOW);

	/* One that was removed while open still has what it had. */
	if (r == 0 && st.st_dev == n->dev && st.st_ino == n->ino)
		take_stat(i, &st);
	else
		st.st_blocks = (i->size + 511) / 512;
	inode_attr(i, ret);
	ret->blocks = st.st_blocks;
	return 0;
}

static struct timespec time_of(const struct iattr *a, unsigned which, int64_t ns)
{
	if (!(a->valid & which))
		return (struct timespec){ 0, UTIME_OMIT };
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

/* To another owner, or group. Without an id map a guest cannot give the host's files away. */
static int change_owner(struct inode *i, const struct iattr *a)
{
	const struct hostdir *h = i->sb->priv;
	uint32_t uid = a->valid & ATTR_UID ? a->uid : i->uid,
		 gid = a->valid & ATTR_GID ? a->gid : i->gid;
	own_fd int fd = -1;
	int r;

	if (uid == i->uid && gid == i->gid)
		return 0;
	if (!h->ids)
		return -EPERM;
	fd = place_fd(i);
	r = fd < 0 ? fd
		   : host_fchownat(fd, "", uid == i->uid ? (uid_t)-1 : uid,
			     gid == i->gid ? (gid_t)-1 : gid, AT_EMPTY_PATH);
	return r < 0 ? r : check_same(i, fd);
}

/* Of what cannot be opened: by its place (before Linux 6.6 a mode cannot be set so). */
static int set_placed(struct inode *i, const struct iattr *a, const struct timespec ts[2])
{
	own_fd int fd = place_fd(i);
	int r = fd < 0 ? fd : 0;

	if (r == 0 && (a->valid & ATTR_MODE) &&
		syscall(WARD_SYS_fchmodat2, fd, "", a->mode & 0777, AT_EMPTY_PATH) < 0)
		r = errno == ENOSYS ? -EOPNOTSUPP : -errno;
	if (r == 0 && (a->valid & (ATTR_ATIME | ATTR_MTIME)) &&
		utimensat(fd, "", ts, AT_EMPTY_PATH) < 0)
		r = -errno;
	return r < 0 ? r : check_same(i, fd);
}

static int setattr(struct inode *i, const struct iattr *a)
{
	struct timespec ts[2] = { time_of(a, ATTR_ATIME, a->atime),
		time_of(a, ATTR_MTIME, a->mtime) };
	own_fd int fd = -1;
	int r = change_owner(i, a);

	if (r < 0 || !(a->valid & (ATTR_MODE | ATTR_SIZE | ATTR_ATIME | ATTR_MTIME)))
		return r;
	if (S_ISLNK(i->mode)) {
		struct hnode *n = hn(i);

		if (!n->parent || (a->valid & (ATTR_MODE | ATTR_SIZE)))
			return -EOPNOTSUPP;
		return utimensat(hn(n->parent)->fd, n->name, ts, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
											  : 0;
	}
	if (S_ISFIFO(i->mode) || S_ISSOCK(i->mode))
		return set_placed(i, a, ts);
	fd = host_fd(i, a->valid & ATTR_SIZE ? O_WRONLY : O_RDONLY);
	if (fd < 0)
		return fd;
	if (a->valid & ATTR_SIZE)
		r = host_ftruncate(fd, a->size);
	if (r == 0 && (a->valid & ATTR_MODE)) /* no setuid on the host */
		r = host_fchmod(fd, a->mode & (S_ISDIR(i->mode) ? 03777 : 01777));
	if (r == 0 && (a->valid & (ATTR_ATIME | ATTR_MTIME)) && !(a->valid & ATTR_SIZE))
		r = futimens(fd, ts) < 0 ? -errno : 0;
	return r < 0 ? r : check_same(i, fd);
}

/* f->priv of a regular file: its descriptor + 1, opened as the guest did. */
static int fd_of(const struct file *f)
{
	return (int)(intptr_t)f->priv - 1;
}

static int do_open(struct inode *i, struct file *f, struct task *t)
{
	int fd;

	if (S_ISDIR(i->mode)) {
		f->ops = &host_dir_ops;
		return 0;
	}
	if (S_ISFIFO(i->mode))
		return fifo_open(i, f, t);
	if (!S_ISREG(i->mode))
		return -ENXIO;
	fd = take_fd(&hn(i)->made);
	if (fd < 0)
		fd = host_fd(i, file_writable(f) ? O_RDWR : O_RDONLY);
	if (fd == -EACCES && file_writable(f) && !file_readable(f))
		fd = host_fd(i, O_WRONLY);
	if (fd < 0)
		return fd;
	f->priv = (void *)(intptr_t)(fd + 1);
	f->ops = &host_file_ops;
	return 0;
}

static ssize_t host_read_op(struct file *f, struct uio *io, int64_t *pos)
{
	char *buf = f->k->vfs->tree->buffer;
	long cold = io->may_wait ? disk_fetch(io->task, f->inode, fd_of(f), *pos, io->left) : 0;
	size_t done = 0;

	if (cold)
		return cold;
	while (io->left) {
		size_t want = io->left < COPY_CHUNK ? io->left : COPY_CHUNK;
		ssize_t n = host_pread(fd_of(f), buf, want, *pos), put;

		if (n <= 0)
			return done ? (ssize_t)done : n;
		put = uio_out(io, buf, (size_t)n);
		if (put < 0)
			return done ? (ssize_t)done : put;
		*pos += put;
		done += (size_t)put;
		if ((size_t)n < want || put < n)
			break;
	}
	file_accessed(f, done);
	return (ssize_t)done;
}

static ssize_t host_write_op(struct file *f, struct uio *io, int64_t *pos)
{
	char *buf = f->k->vfs->tree->buffer;
	struct stat st;
	size_t done = 0;

	if (f->flags & O_APPEND) {
		if (fstat(fd_of(f), &st) < 0)
			return -errno;
		*pos = st.st_size;
	}
	while (io->left) {
		ssize_t n = uio_in(io, buf, io->left < COPY_CHUNK ? io->left : COPY_CHUNK), put;

		if (n <= 0)
			return done ? (ssize_t)done : n;
		put = host_pwrite(fd_of(f), buf, (size_t)n, *pos);
		if (put < 0)
			return done ? (ssize_t)done : put;
		*pos += put;
		done += (size_t)put;
		if (put < n)
			break;
	}
	if (f->inode->size < *pos)
		f->inode->size = *pos;
	if (done)
		file_modified(f);
	return (ssize_t)done;
}

static int64_t host_seek(struct file *f, int64_t off, int whence)
{
	struct stat st;
	int64_t to, base;

	if (fstat(fd_of(f), &st) < 0)
		return -errno;
	f->inode->size = st.st_size;
	if (whence == SEEK_DATA || whence == SEEK_HOLE) {
		to = lseek(fd_of(f), off, whence);
		if (to < 0)
			return -errno;
	} else {
		base = whence == SEEK_CUR ? f->pos : whence == SEEK_END ? st.st_size : 0;
		if (ckd_add(&to, base, off) || to < 0)
			return -EINVAL;
	}
	f->pos = to;
	return to;
}

static int host_mmap(struct file *f, unsigned prot, unsigned flags, struct map_source *ret)
{
	*ret = (struct map_source){ fd_of(f), 0 };
	return 0;
}

static long host_sync(struct file *f, struct task *t, bool data_only)
{
	return disk_sync(t, fd_of(f), data_only);
}

static int host_truncate(struct file *f, int64_t size)
{
	int r = host_ftruncate(fd_of(f), size);

	if (r == 0)
		f->inode->size = size;
	return r;
}

static int host_fallocate(struct file *f, int mode, int64_t off, int64_t len)
{
	return fallocate(fd_of(f), mode, off, len) < 0 ? -errno : 0;
}

static void host_release(struct file *f)
{
	if (f->priv)
		close(fd_of(f));
}

static const struct file_ops host_file_ops = {
	.name = "file",
	.read = host_read_op,
	.write = host_write_op,
	.lseek = host_seek,
	.mmap = host_mmap,
	.fsync = host_sync,
	.truncate = host_truncate,
	.fallocate = host_fallocate,
	.release = host_release,
};

static int list_host(struct file *f, struct listing *l)
{
	/* What we hold may be good for walking only, and two listings must not share a position. */
	own_fd int fd =
		host_openat2(hn(f->inode)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
	int r = fd < 0 ? fd : 0;
	char buf[8192];
	ssize_t n;

	while (r == 0 && (n = host_getdents(fd, buf, sizeof(buf))) != 0) {
		if (n < 0)
			return (int)n;
		for (ssize_t at = 0; r == 0 && at < n;) {
			const struct host_dirent *e = (const void *)(buf + at);

			at += e->d_reclen;
			r = listing_add(l, e->d_name, strlen(e->d_name), e->d_ino, e->d_type);
		}
	}
	return r;
}

static int iterate(struct file *f, struct dir_emit *emit)
{
	return listing_iterate(f, emit, list_host);
}

static const struct file_ops host_dir_ops = {
	.name = "directory",
	.iterate = iterate,
	.release = listing_release,
	.walk = listing_walk,
};

static const struct inode_ops host_ops = {
	.lookup = lookup,
	.create = create,
	.mkdir = make_dir,
	.symlink = make_symlink,
	.mknod = make_node,
	.link = make_link,
	.unlink = do_unlink,
	.rmdir = do_rmdir,
	.rename = do_rename,
	.readlink = do_readlink,
	.getattr = getattr,
	.setattr = setattr,
	.open = do_open,
	.release = release,
};

static int statfs_host(struct super *sb, struct kstatfs *ret)
{
	struct statvfs s;

	if (fstatvfs(hn(sb->root->inode)->fd, &s) < 0)
		return -errno;
	ret->bsize = s.f_bsize;
	ret->blocks = s.f_blocks;
	ret->bfree = s.f_bfree;
	ret->bavail = s.f_bavail;
	ret->files = s.f_files;
	ret->ffree = s.f_ffree;
	return 0;
}

static void super_release(struct super *sb)
{
	free(sb->priv);
}

static const struct super_ops hostdir_super = { "hostfs", 0xef53, statfs_host, super_release,
	NULL };

struct super *hostdir_create(struct kernel *k, int fd, uint32_t id_base, bool ids)
{
	struct hostdir *h = calloc(1, sizeof(*h));
	struct super *sb = h ? super_create(k, &hostdir_super, SB_NO_CACHE, h) : NULL;
	struct inode *i = NULL;
	struct stat st;

	if (!sb) {
		free(h);
		close(fd);
		return NULL;
	}
	h->id_base = id_base;
	h->ids = ids;
	if (fstat(fd, &st) == 0)
		i = new_inode(sb, NULL, "", &st);
	if (i)
		hn(i)->fd = fd;
	else
		close(fd);
	sb->root = i ? dentry_create_root(sb, i) : NULL;
	if (!sb->root) {
		inode_unref(i);
		super_unref(sb);
		return NULL;
	}
	return sb;
}
