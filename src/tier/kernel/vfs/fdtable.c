/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/fdtable.c - a guest's descriptors.
 *
 * Owns:  struct files and one reference per filled slot.
 * Rules: under the kernel lock. The limit is the process's RLIMIT_NOFILE, never above
 *        GUEST_FDS_MAX.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/lock.h"

enum { FIRST_CAP = 32 };

struct files *files_create(void)
{
	struct files *fs = calloc(1, sizeof(*fs));

	if (!fs)
		return NULL;
	fs->refs = 1;
	fs->slots = calloc(FIRST_CAP, sizeof(*fs->slots));
	if (!fs->slots) {
		free(fs);
		return NULL;
	}
	fs->cap = FIRST_CAP;
	return fs;
}

struct files *files_copy(struct files *from)
{
	struct files *fs = calloc(1, sizeof(*fs));

	if (!fs)
		return NULL;
	*fs = *from;
	fs->refs = 1;
	fs->slots = malloc(fs->cap * sizeof(*fs->slots));
	if (!fs->slots) {
		free(fs);
		return NULL;
	}
	memcpy(fs->slots, from->slots, fs->cap * sizeof(*fs->slots));
	for (unsigned i = 0; i < fs->cap; i++)
		if (fs->slots[i].file)
			file_ref(fs->slots[i].file);
	return fs;
}

struct files *files_ref(struct files *fs)
{
	fs->refs++;
	return fs;
}

static void close_slot(struct task *t, struct files *fs, unsigned i)
{
	struct file *f = fs->slots[i].file;

	fs->slots[i] = (struct fd_slot){ 0 };
	if (i < fs->next)
		fs->next = i;
	if (t)
		place_fds_gone(t, (int)i);
	if (t && f->ops->flush)
		f->ops->flush(f, t);
	if (f->inode->locks)
		locks_close(f->k, f, fs);
	file_unref(f);
}

void files_unref(struct task *t, struct files *fs)
{
	if (!fs || --fs->refs)
		return;
	for (unsigned i = 0; i < fs->cap; i++)
		if (fs->slots[i].file)
			close_slot(t, fs, i);
	free(fs->slots);
	free(fs);
}

void files_close_exec(struct task *t)
{
	struct files *fs = t->files;

	for (unsigned i = 0; i < fs->cap; i++) {
		fs->slots[i].mirror = 0; /* the new image has a new host process */
		if (fs->slots[i].file && fs->slots[i].cloexec)
			close_slot(t, fs, i);
	}
}

struct file *fd_get_path(struct task *t, int fd)
{
	struct files *fs = t->files;

	return fd >= 0 && (unsigned)fd < fs->cap ? fs->slots[fd].file : NULL;
}

struct file *fd_get(struct task *t, int fd)
{
	struct file *f = t->call.held && t->call.held_fd == fd ? t->call.held : fd_get_path(t, fd);

	return f && !(f->flags & 010000000 /* O_PATH */) ? f : NULL;
}

static unsigned fd_limit(struct task *t)
{
	uint64_t n = t->proc->limits[RLIMIT_NOFILE].rlim_cur;

	return n < GUEST_FDS_MAX ? (unsigned)n : GUEST_FDS_MAX;
}

int files_room(struct files *fs, unsigned need)
{
	unsigned cap = fs->cap;
	struct fd_slot *slots;

	while (cap < need)
		cap *= 2;
	if (cap == fs->cap)
		return 0;
	slots = realloc(fs->slots, cap * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	memset(slots + fs->cap, 0, (cap - fs->cap) * sizeof(*slots));
	fs->slots = slots;
	fs->cap = cap;
	return 0;
}

int fd_install(struct task *t, struct file *f, bool cloexec, int min)
{
	struct files *fs = t->files;
	unsigned i = min > (int)fs->next ? (unsigned)min : fs->next;

	while (i < fs->cap && fs->slots[i].file)
		i++;
	if (i >= fd_limit(t))
		return -EMFILE;
	if (files_room(fs, i + 1) < 0)
		return -ENOMEM;
	if (min <= (int)fs->next)
		fs->next = i + 1;
	fs->slots[i] = (struct fd_slot){ .file = f, .cloexec = cloexec };
	return (int)i;
}

int fd_install_at(struct task *t, struct file *f, bool cloexec, int fd)
{
	struct files *fs = t->files;

	if (fd < 0 || (unsigned)fd >= fd_limit(t))
		return -EBADF;
	if (files_room(fs, (unsigned)fd + 1) < 0)
		return -ENOMEM;
	if (fs->slots[fd].file)
		close_slot(t, fs, (unsigned)fd);
	fs->slots[fd] = (struct fd_slot){ .file = f, .cloexec = cloexec };
	return fd;
}

/*
 * The host's copy goes with the guest's. Where other threads make calls as well, not by a close
 * that the host is let do: it comes later, when the number may be another file's, with a copy.
 */
static void close_mirror(struct task *t, int fd)
{
	int null;

	if (t->files->refs == 1) {
		t->call.go_native = true;
		return;
	}
	null = t->host ? copy_fd(STDIN_FILENO) : -1; /* ours leads nowhere: first.c */
	if (null < 0)
		return; /* it stays until something else is mapped by that number */
	t->call.map_fd = null + 1;
	t->call.map_at = fd;
}

int fd_close(struct task *t, int fd)
{
	if (!fd_get_path(t, fd))
		return -EBADF;
	if (t->files->slots[fd].mirror && t->call.nr == SYS_close)
		close_mirror(t, fd);
	close_slot(t, t->files, (unsigned)fd);
	return 0;
}

/* Another thread was told to map what it finds there, and may not have done so yet. */
static bool is_spare(const struct task *t, int n)
{
	if (t->files->refs == 1)
		return false;
	for (const struct proc *p = t->k->procs; p; p = p->next)
		for (const struct task *o = p->tasks; o; o = o->next)
			if (o != t && o->files == t->files && o->call.spare == n)
				return true;
	return false;
}

int files_spare(struct task *t)
{
	enum { LOW = 200, HIGH = 1000 };

	for (int n = HIGH; n >= LOW; n--) {
		if (((unsigned)n >= t->files->cap || !t->files->slots[n].file) && !is_spare(t, n)) {
			t->call.spare = n;
			return n;
		}
	}
	return -EMFILE;
}

int fd_room(struct task *t)
{
	struct files *fs = t->files;
	unsigned i = fs->next;

	while (i < fs->cap && fs->slots[i].file)
		i++;
	return i < fd_limit(t) ? 0 : -EMFILE;
}
