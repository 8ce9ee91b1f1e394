/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/open.c - open and its kin, close, dup.
 *
 * Owns:  nothing.
 * Rules: as sys/sys.h says.
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "tier/kernel/io/pipe.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"

enum {
	OPEN_HOW_MIN = 24,
	TMPFILE_BIT = O_TMPFILE & ~O_DIRECTORY,
	OPEN_HOW_MAX = 4096, /* bytes of a struct open_how that are looked at */
	KNOWN_FLAGS = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK |
		      O_DSYNC | O_ASYNC | O_DIRECT | 0100000 | O_DIRECTORY | O_NOFOLLOW |
		      O_NOATIME | O_CLOEXEC | O_SYNC | O_PATH | O_TMPFILE,
	KNOWN_RESOLVE = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS |
			RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_CACHED,
};

static void drop_file(void *f)
{
	file_unref(f);
}

static long install(struct task *t, struct file *f, unsigned flags)
{
	int fd = fd_install(t, f, flags & O_CLOEXEC, 0);

	if (fd < 0)
		file_unref(f);
	return fd;
}

/* A FIFO waits for its partner; the file lives in the call meanwhile. */
static long wait_for_partner(struct task *t, struct file *f, unsigned flags)
{
	long r;

	if (!t->call.own) {
		t->call.own = f;
		t->call.own_free = drop_file;
	}
	r = fifo_open_wait(t, f);
	if (r < 0)
		return r;
	t->call.own = NULL;
	return install(t, f, flags);
}

static long open_how(struct task *t, int dirfd, gva_t upath, const struct open_how_guest *how)
{
	char path[GUEST_PATH_MAX];
	struct file *f;
	ssize_t n;
	int r;

	if (t->call.own)
		return wait_for_partner(t, t->call.own, how->flags);
	n = guest_copy_path(t, upath, path, sizeof(path));
	if (n < 0)
		return n;
	if (n == 0)
		return -ENOENT;
	r = fd_room(t);
	if (r == 0)
		r = vfs_open_how(t, dirfd, path, how, &f);
	if (r < 0)
		return r;
	if (S_ISFIFO(f->inode->mode) && !(f->flags & O_PATH) && file_is_pipe(f))
		return wait_for_partner(t, f, how->flags);
	return install(t, f, how->flags);
}

static long open_flags(struct task *t, int dirfd, gva_t upath, unsigned flags, unsigned mode)
{
	struct open_how_guest how = { flags & KNOWN_FLAGS, mode & 07777, 0 };

	if (how.flags & O_PATH)
		how.flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	if ((how.flags & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY))
		return -EINVAL;
	if ((how.flags & TMPFILE_BIT) &&
		((how.flags & O_TMPFILE) != O_TMPFILE || (how.flags & O_ACCMODE) == O_RDONLY))
		return -EINVAL;
	return open_how(t, dirfd, upath, &how);
}

SYSCALL3(open, gva_t, upath, unsigned, flags, unsigned, mode)
{
	return open_flags(task, AT_FDCWD, upath, flags, mode);
}

SYSCALL4(openat, int, dirfd, gva_t, upath, unsigned, flags, unsigned, mode)
{
	return open_flags(task, dirfd, upath, flags, mode);
}

SYSCALL2(creat, gva_t, upath, unsigned, mode)
{
	return open_flags(task, AT_FDCWD, upath, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

static unsigned lookup_flags(uint64_t resolve)
{
	static const struct {
		uint64_t resolve;
		unsigned lookup;
	} rows[] = {
		{ RESOLVE_NO_XDEV, LOOKUP_NO_XDEV },
		{ RESOLVE_NO_MAGICLINKS, LOOKUP_NO_MAGIC },
		{ RESOLVE_NO_SYMLINKS, LOOKUP_NO_SYMLINKS | LOOKUP_NO_MAGIC },
		{ RESOLVE_BENEATH, LOOKUP_BENEATH },
		{ RESOLVE_IN_ROOT, LOOKUP_IN_ROOT },
	};
	unsigned flags = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (resolve & rows[i].resolve)
			flags |= rows[i].lookup;
	return flags;
}

static long check_how(const struct open_how *how)
{
	bool makes = (how->flags & O_CREAT) || (how->flags & O_TMPFILE) == O_TMPFILE;

	if ((how->flags & ~(uint64_t)KNOWN_FLAGS) || (how->resolve & ~(uint64_t)KNOWN_RESOLVE))
		return -EINVAL;
	if ((how->resolve & RESOLVE_BENEATH) && (how->resolve & RESOLVE_IN_ROOT))
		return -EINVAL;
	if (how->mode & (makes ? ~07777ULL : ~0ULL))
		return -EINVAL;
	if ((how->flags & O_PATH) &&
		(how->flags & ~(uint64_t)(O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)))
		return -EINVAL;
	if ((how->flags & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY))
		return -EINVAL;
	if ((how->flags & TMPFILE_BIT) &&
		((how->flags & O_TMPFILE) != O_TMPFILE || (how->flags & O_ACCMODE) == O_RDONLY))
		return -EINVAL;
	if ((how->resolve & RESOLVE_CACHED) && (how->flags & (O_TRUNC | O_CREAT | O_TMPFILE)))
		return -EAGAIN;
	return 0;
}

SYSCALL4(openat2, int, dirfd, gva_t, upath, gva_t, uhow, uint64_t, size)
{
	struct open_how how = { 0 };
	struct open_how_guest g;
	long r;

	if (size < OPEN_HOW_MIN)
		return -EINVAL;
	if (size > OPEN_HOW_MAX)
		return -E2BIG;
	r = guest_read_struct(task, &how, sizeof(how), uhow, size);
	if (r == 0)
		r = check_how(&how);
	if (r < 0)
		return r;
	g = (struct open_how_guest){ (unsigned)how.flags, (uint32_t)how.mode,
		lookup_flags(how.resolve) };
	return open_how(task, dirfd, upath, &g);
}

SYSCALL1(close, int, fd)
{
	return fd_close(task, fd);
}

SYSCALL3(close_range, unsigned, first, unsigned, last, unsigned, flags)
{
	enum { UNSHARE = 2, CLOEXEC = 4 };
	struct files *fs = task->files;

	if ((flags & ~(unsigned)(UNSHARE | CLOEXEC)) || first > last)
		return -EINVAL;
	if ((flags & UNSHARE) && fs->refs > 1) {
		fs = files_copy(fs);
		if (!fs)
			return -ENOMEM;
		files_unref(task, task->files);
		task->files = fs;
	}
	for (unsigned fd = first; fd < fs->cap && fd <= last; fd++) {
		if (!fs->slots[fd].file)
			continue;
		if (flags & CLOEXEC)
			fs->slots[fd].cloexec = true;
		else
			fd_close(task, (int)fd);
	}
	return 0;
}

SYSCALL1(dup, int, fd)
{
	struct file *f = fd_get_path(task, fd);

	return f ? install(task, file_ref(f), 0) : -EBADF;
}

static long dup_to(struct task *t, int from, int to, unsigned flags)
{
	struct file *f = fd_get_path(t, from);
	int r;

	if (!f)
		return -EBADF;
	file_ref(f);
	r = fd_install_at(t, f, flags & O_CLOEXEC, to);
	if (r < 0)
		file_unref(f);
	return r;
}

SYSCALL2(dup2, int, from, int, to)
{
	if (from == to)
		return fd_get_path(task, from) ? to : -EBADF;
	return dup_to(task, from, to, 0);
}

SYSCALL3(dup3, int, from, int, to, unsigned, flags)
{
	if (flags & ~(unsigned)O_CLOEXEC)
		return -EINVAL;
	if (from == to)
		return -EINVAL;
	return dup_to(task, from, to, flags);
}
