/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_FILE_H
#define WARD_TIER_KERNEL_VFS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tier/kernel/mm/copy.h"
#include "tier/kernel/task/wait.h"
#include "tier/kernel/vfs/inode.h"

/*
 * An open file description, and the table of what it can do. Operations NEVER block: what would
 * have to wait returns -EAGAIN, and the generic code (sys_read, sys_write, accept, ...) registers
 * through ops->poll and comes back; see file_wait(). So O_NONBLOCK, signals, timeouts and epoll
 * are right for every kind of file at once.
 */
struct file;
struct task;
struct walk;
struct dir_emit;

/* What a mapping of this file is made of: a host descriptor and the offset in it. */
struct map_source {
	int fd;         /* borrowed from the inode or file; stays open while @file lives */
	int64_t offset; /* of the host file, for guest offset 0 */
};

enum {
	FILE_STREAM = 1,     /* no position: pipes, sockets, ttys. lseek, pread: -ESPIPE */
	FILE_NO_PARTIAL = 2, /* a write is one message: never split by the generic loop */
	FILE_NO_SPLICE = 4,  /* counts and events, not bytes */
};

struct file_ops {
	const char *name; /* "pipe", "overlay"...: for walks, traces and /proc/PID/fdinfo */
	unsigned flags;   /* FILE_* */
	/* Bytes moved, 0 at the end, -EAGAIN when it would block. @pos is the position to use and
	 * to advance (NULL-free; for FILE_STREAM it is ignored). Short counts are fine. */
	ssize_t (*read)(struct file *f, struct uio *io, int64_t *pos);
	ssize_t (*write)(struct file *f, struct uio *io, int64_t *pos);
	int64_t (*lseek)(
		struct file *f, int64_t off, int whence); /* NULL: generic, on inode size */
	/* State as POLL* bits; registers on @reg (may be NULL) whatever could change it.
	 * NULL: always readable and writable. */
	unsigned (*poll)(struct file *f, struct poll_reg *reg);
	/* @arg is the register as it came. -ENOTTY for unknown. */
	long (*ioctl)(struct file *f, struct task *t, unsigned cmd, uint64_t arg);
	/* 0 and the source, or a negative errno (-ENODEV: cannot be mapped). @prot, @flags: mmap's.
	 */
	int (*mmap)(struct file *f, unsigned prot, unsigned flags, struct map_source *ret);
	long (*fsync)(struct file *f, struct task *t, bool data_only); /* or SYS_BLOCK */
	int (*truncate)(struct file *f, int64_t size);                 /* NULL: -EINVAL */
	int (*fallocate)(
		struct file *f, int mode, int64_t off, int64_t len); /* NULL: -EOPNOTSUPP */
	/* getdents: emits entries from f->pos on until @emit says no; NULL: -ENOTDIR */
	int (*iterate)(struct file *f, struct dir_emit *emit);
	/* Called for each close(2) of a descriptor (locks, ...); may be NULL. */
	void (*flush)(struct file *f, struct task *t);
	/* The last reference is gone: free f->priv. */
	void (*release)(struct file *f);
	/* fcntl(F_SETFL) changed f->flags (O_ASYNC, O_NONBLOCK); may be NULL */
	void (*set_flags)(struct file *f, unsigned flags);
	/* readlink of /proc/PID/fd/N for files without a path: "pipe:[12]"; NULL:
	 * "anon_inode:[name]" */
	int (*show)(struct file *f, char *buf, size_t cap);
	void (*walk)(struct file *f, struct walk *w); /* priv's fields */
};

enum { FILE_RUNS = 040 }; /* in file.flags: opened by vfs_open_exec(), see inode.writers */

struct file {
	unsigned refs;
	const struct file_ops *ops;
	struct kernel *k;
	unsigned flags; /* O_ACCMODE and status flags: O_APPEND, O_NONBLOCK, O_DIRECT, O_PATH... */
	int64_t pos;
	bool counted;        /* in inode.opens; a writable one in path.mnt->writers too */
	bool created;        /* by the open that made it: F_CREATED_QUERY */
	bool quiet;          /* nobody is told what is done with it: fanotify's own */
	struct path path;    /* references; dentry NULL for pipes, sockets and the like */
	struct inode *inode; /* reference; never NULL (anonymous ones have anon inodes) */
	struct cred *cred;
	unsigned refused; /* LANDLOCK_TRUNCATE, LANDLOCK_IOCTL_DEV: to whoever has it */
	void *priv;
	/* F_SETOWN and O_ASYNC */
	int32_t owner_type, owner_pid, owner_sig, owner_fd;
	uint32_t owner_uid, owner_euid; /* of who said so */
	struct wait_entry async_entry;
	uint64_t version; /* of a directory's listing; free for the fs */
	void *dnotify;    /* F_NOTIFY's watch: io/inotify.c */
	void *epolls;     /* items that watch this file: io/epoll.c; file_unref() drops them */
};

struct file *file_create(struct kernel *k, const struct file_ops *ops, unsigned flags,
	struct inode *inode, void *priv); /* takes one reference on @inode; NULL: no memory */
struct file *file_ref(struct file *f);
void file_unref(struct file *f);

static inline bool file_readable(const struct file *f)
{
	return ((f->flags & 3) == 0 || (f->flags & 3) == 2) && !(f->flags & 010000000);
}
static inline bool file_writable(const struct file *f)
{
	return ((f->flags & 3) == 1 || (f->flags & 3) == 2) && !(f->flags & 010000000);
}

/*
 * The generic blocking transfer, used by sys_read/sys_write and everything like them: tries, and
 * if that would block and @f is not O_NONBLOCK, registers for POLLIN/POLLOUT and returns SYS_BLOCK
 * or what wait_block() said. A write to a stream goes on until all is written; progress is in
 * task->call.done, so the same uio is rebuilt by the caller on re-entry and skipped here.
 * @pos: &f->pos, or the caller's (pread).
 */
long file_read(struct task *t, struct file *f, struct uio *io, int64_t *pos);
long file_write(struct task *t, struct file *f, struct uio *io, int64_t *pos);
/* May its contents be looked at, or does somebody want to be asked (io/fanotify.h)? 0, a negative
 * errno, or SYS_BLOCK. */
long file_ask_read(struct task *t, struct file *f);
/* O_ASYNC was set or taken away, through descriptor @fd. */
void file_set_async(struct file *f, int fd);
/* Tells the owner: @events is POLLIN or POLLOUT. */
void file_signal(struct file *f, unsigned events);
void file_signal_urgent(struct file *f);         /* SIGURG, whatever F_SETSIG said */
void file_signal_change(struct file *f, int fd); /* something in this directory: F_NOTIFY */
/* Registers @t on @f for @events and blocks: for accept, connect, flock and the like. */
long file_wait(struct task *t, struct file *f, unsigned events);
/* The call of @t is about to wait: until it is over fd_get() finds @f under the number by which it
 * was named, also when another thread closes that meanwhile. */
void file_hold(struct task *t, struct file *f);
void file_let_go(struct task *t);
/* For the kernel's own reads of a regular file (exec, sendfile): bytes, or -errno. */
ssize_t file_kread(struct file *f, void *buf, size_t len, int64_t off);
ssize_t file_kwrite(struct file *f, const void *buf, size_t len, int64_t off);

/* getdents: the generic code's side of ops->iterate. Returns false when the buffer is full: then
 * leave f->pos at this entry. */
struct dir_emit {
	bool (*add)(struct dir_emit *e, const char *name, size_t len, uint64_t ino,
		int64_t next_pos, unsigned char type /* DT_* */);
};

#endif
