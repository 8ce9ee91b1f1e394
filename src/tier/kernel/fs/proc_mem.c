/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/proc_mem.c - /proc/PID/mem and pagemap: a process's memory as a file.
 *
 * Owns:  nothing: an open file holds the memory that the process had then.
 * Rules: the right to look was checked when it was opened. A process that runs another program by
 *        now, or none, has nothing at any address. Our own pages in it are nobody's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/file.h"

/* Of one call: the lock is everybody's. */
enum { PAGE = 4096, ENTRY = 8, MOST_BYTES = 4 << 20, MOST_WORDS = 1 << 20 };

/* A task that has the memory; NULL: it is gone. */
static struct task *who(const struct file *f)
{
	for (struct proc *p = f->k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			if (t->mm == f->priv && t->state != TASK_DEAD)
				return t;
	return NULL;
}

struct part {
	uint64_t from, to;
};

static int covers(void *arg, const struct proc_range *r)
{
	struct part *p = arg;

	if (p->from < r->from || p->from >= r->to)
		return 0;
	p->to = r->to;
	return 1;
}

/* Is @at in a mapping of the guest's? *known is the one that was found last. */
static bool is_guests(struct task *t, uint64_t at, struct part *known)
{
	if (at >= known->from && at < known->to)
		return true;
	*known = (struct part){ at, at };
	return proc_host_each(t, covers, known) == 1;
}

/* From @at on, not beyond its page. */
static size_t in_page(uint64_t at, uint64_t left)
{
	uint64_t room = PAGE - at % PAGE;

	return (size_t)(left < room ? left : room);
}

static ssize_t mem_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct task *t = who(f);
	struct part known = { 0, 0 };
	ssize_t done = 0;

	while (t && io->left && done < MOST_BYTES) {
		uint64_t at = (uint64_t)*pos, page = at & ~(uint64_t)(PAGE - 1);
		size_t n = in_page(at, io->left);
		uint8_t buf[PAGE];
		ssize_t r;

		if (guest_read(t, buf, GVA(page), PAGE) < 0 || !is_guests(t, page, &known))
			return done ? done : -EIO;
		place_clean(t->mm, page, buf);
		r = uio_out(io, buf + at % PAGE, n);
		if (r <= 0)
			return done ? done : r;
		*pos += r;
		done += r;
	}
	return done;
}

static ssize_t mem_write(struct file *f, struct uio *io, int64_t *pos)
{
	struct task *t = who(f);
	struct part known = { 0, 0 };
	ssize_t done = 0;

	while (t && io->left && done < MOST_BYTES) {
		uint64_t at = (uint64_t)*pos;
		size_t n = in_page(at, io->left);
		uint8_t buf[PAGE];
		ssize_t r = uio_in(io, buf, n);

		if (r <= 0)
			return done ? done : r;
		/* What it may not write itself is written all the same: so breakpoints are set. */
		if (!is_guests(t, at, &known) || (guest_write(t, GVA(at), buf, (size_t)r) < 0 &&
							 !host_poke(t, at, buf, (size_t)r))) {
			uio_back(io, (size_t)r);
			return done ? done : -EIO;
		}
		*pos += r;
		done += r;
	}
	return done;
}

static int64_t mem_lseek(struct file *f, int64_t off, int whence)
{
	if (whence != SEEK_SET && whence != SEEK_CUR)
		return -EINVAL;
	if (whence == SEEK_CUR && __builtin_add_overflow(off, f->pos, &off))
		return -EOVERFLOW;
	if (off < 0)
		return -EINVAL; /* no address of a guest's */
	f->pos = off;
	return off;
}

static void mem_release(struct file *f)
{
	mm_unref(f->priv);
}

static const struct file_ops proc_mem_ops = {
	.name = "proc",
	.read = mem_read,
	.write = mem_write,
	.lseek = mem_lseek,
	.release = mem_release,
};

/* A word per page, as the host tells it to who may not know where memory is. */
static ssize_t map_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct task *t = who(f);
	own_fd int fd = -1;
	uint64_t words[PAGE / ENTRY];
	char path[32];
	ssize_t done = 0;

	if (*pos % ENTRY || io->left % ENTRY)
		return -EINVAL;
	if (!t || t->mm->host_pid <= 1 || f->k->host_proc < 0 || !io->left ||
		str_fmt(path, sizeof(path), "%d/pagemap", (int)t->mm->host_pid) < 0)
		return 0;
	fd = host_openat(f->k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	while (fd >= 0 && io->left && done < MOST_WORDS) {
		size_t want = io->left < sizeof(words) ? (size_t)io->left : sizeof(words);
		ssize_t n = host_pread(fd, words, want, *pos);

		if (n > 0)
			n = uio_out(io, words, (size_t)n / ENTRY * ENTRY);
		if (n <= 0)
			return done ? done : n;
		*pos += n;
		done += n;
	}
	return fd < 0 ? -EIO : done;
}

static const struct file_ops proc_pagemap_ops = {
	.name = "proc",
	.read = map_read,
	.lseek = mem_lseek,
	.release = mem_release,
};

int proc_mem_open(struct file *f, struct task *reader, struct task *about, bool pages)
{
	if (about->state == TASK_DEAD || !about->mm)
		return -ESRCH;
	if (about->embryo)
		return (int)task_wait_born(reader);
	f->priv = mm_ref(about->mm);
	f->ops = pages ? &proc_pagemap_ops : &proc_mem_ops;
	return 0;
}
