/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/io/disk.c - waiting for the host's disk without the lock.
 *
 * Owns:  the jobs and the threads that do them.
 * Rules: jobs belong to the kernel lock, the list of those that nobody has begun to disk_state.lock
 *        (taken inside the kernel lock, never the other way round). A thread touches nothing of the
 *        kernel's while it waits: it has the descriptor, and the job holds a reference for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/host.h"
#include "tier/kernel/io/disk.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/vfs/inode.h"

enum {
	DISK_THREADS_MAX = 4,
	AHEAD = 128 << 10, /* fetched at least, where the host cannot say what it has */
	STEP = 64 << 10    /* how far apart a long range is tried */
};

enum job_kind { JOB_FETCH, JOB_SYNC, JOB_DATASYNC };

struct disk_job {
	unsigned refs; /* the call's and the thread's */
	enum job_kind kind;
	bool over;
	int fd;
	int64_t off;
	size_t len;
	long result;
	struct wait_queue queue;
	struct disk_job *next;
};

struct disk_state {
	const struct disk_ops *ops;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct disk_job *first, *last;
	unsigned threads, idle, queued;
	bool stop;
	pthread_t thread[DISK_THREADS_MAX];
};

static ssize_t read_now(int fd, void *buf, size_t len, int64_t off)
{
	struct iovec v = { buf, len };
	ssize_t n =
		syscall(SYS_preadv2, fd, &v, 1, off, 0, RWF_NOWAIT); /* musl has no name for it */

	return n < 0 ? -errno : n;
}

static ssize_t read_there(int fd, void *buf, size_t len, int64_t off)
{
	return host_pread(fd, buf, len, off);
}

static int sync_there(int fd, bool data_only)
{
	return (data_only ? fdatasync(fd) : fsync(fd)) < 0 ? -errno : 0;
}

static const struct disk_ops host_disk = { read_now, read_there, sync_there };

int disk_init(struct kernel *k, const struct disk_ops *ops)
{
	struct disk_state *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->ops = ops ? ops : &host_disk;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->more, NULL);
	k->disk = d;
	return 0;
}

void disk_done(struct kernel *k)
{
	struct disk_state *d = k->disk;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_broadcast(&d->more);
	pthread_mutex_unlock(&d->lock);
	for (unsigned i = 0; i < d->threads; i++)
		pthread_join(d->thread[i], NULL);
	pthread_cond_destroy(&d->more);
	pthread_mutex_destroy(&d->lock);
	free(d);
	k->disk = NULL;
}

void disk_drop(struct disk_job *j)
{
	if (!j || --j->refs)
		return;
	close(j->fd);
	free(j);
}

static void do_job(const struct disk_ops *ops, struct disk_job *j, char *buf)
{
	size_t done = 0;

	if (j->kind != JOB_FETCH) {
		j->result = ops->sync(j->fd, j->kind == JOB_DATASYNC);
		return;
	}
	while (done < j->len) {
		size_t want = j->len - done < COPY_CHUNK ? j->len - done : COPY_CHUNK;
		ssize_t n = ops->read(j->fd, buf, want, j->off + (int64_t)done);

		if (n < (ssize_t)want)
			break; /* the end; or whoever reads it next is told why */
		done += want;
	}
}

static struct disk_job *next_job(struct disk_state *d)
{
	struct disk_job *j;

	pthread_mutex_lock(&d->lock);
	d->idle++;
	while (!d->first && !d->stop)
		pthread_cond_wait(&d->more, &d->lock);
	d->idle--;
	j = d->first;
	if (j) {
		d->queued--;
		d->first = j->next;
		if (!d->first)
			d->last = NULL;
	}
	pthread_mutex_unlock(&d->lock);
	return j;
}

static void *disk_main(void *arg)
{
	struct kernel *k = arg;
	struct disk_state *d = k->disk;
	char *buf = malloc(COPY_CHUNK);
	struct disk_job *j;

	/* Without a buffer a fetch has fetched nothing, and its call waits in place. */
	while ((j = next_job(d))) {
		if (buf || j->kind != JOB_FETCH)
			do_job(d->ops, j, buf);
		kernel_lock(k);
		later_run(k, NULL);
		j->over = true;
		wait_wake(&j->queue, 0);
		disk_drop(j);
		if (k->engine->end) {
			k->engine->end(k);
		} else {
			kernel_run_ready(k);
			kernel_unlock(k);
		}
	}
	free(buf);
	return NULL;
}

static bool start_thread(struct kernel *k)
{
	struct disk_state *d = k->disk;
	pthread_attr_t attr;
	bool ok;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, TRAP_STACK);
	ok = pthread_create(&d->thread[d->threads], &attr, disk_main, k) == 0;
	pthread_attr_destroy(&attr);
	d->threads += ok;
	return ok;
}

/* Blocks @t on a new job; false: it must be done in place. */
static bool submit(struct task *t, enum job_kind kind, int fd, int64_t off, size_t len)
{
	struct disk_state *d = t->k->disk;
	struct disk_job *j = calloc(1, sizeof(*j));
	bool ok = true;

	if (!j)
		return false;
	*j = (struct disk_job){ .refs = 2, .kind = kind, .off = off, .len = len };
	j->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (j->fd < 0 || wait_on(t, &j->queue, 0) < 0) {
		if (j->fd >= 0)
			close(j->fd);
		free(j);
		return false;
	}
	pthread_mutex_lock(&d->lock);
	if (d->queued >= d->idle && d->threads < DISK_THREADS_MAX)
		ok = start_thread(t->k) || d->threads;
	if (ok) {
		if (d->last)
			d->last->next = j;
		else
			d->first = j;
		d->last = j;
		d->queued++;
		pthread_cond_signal(&d->more);
	}
	pthread_mutex_unlock(&d->lock);
	t->call.disk = j;
	if (ok)
		return true;
	wait_flush(&j->queue);
	j->refs = 1;
	disk_drop(j);
	t->call.disk = NULL;
	return false;
}

/* A job of this call: 1: it is over. Signals do not end such a wait; death does. */
static long look(struct task *t, long *ret)
{
	struct disk_job *j = t->call.disk;

	if (!j->over)
		return wait_on(t, &j->queue, 0) < 0 ? -ENOMEM : SYS_BLOCK;
	*ret = j->result;
	disk_drop(j);
	t->call.disk = NULL;
	t->call.fetched = true;
	return 1;
}

/* The host's file system cannot say what is in memory. Of tmpfs everything is; of others what was
 * read here before: warm_to is how far from the start. */
static bool blind_here(struct inode *i, int fd, int64_t end)
{
	struct statfs s;

	if (i->warm_to == 0) {
		if (fstatfs(fd, &s) == 0 && (s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC))
			i->warm_to = INT64_MAX;
		else
			i->warm_to = 1;
	}
	return i->warm_to >= end;
}

enum { IN_MEMORY, NOT_IN_MEMORY, CANNOT_SAY };

static int in_memory(const struct disk_ops *ops, int fd, int64_t off, size_t len)
{
	for (size_t at = 0;; at = at + STEP < len ? at + STEP : len - 1) {
		char c;
		ssize_t n = ops->read_now(fd, &c, 1, off + (int64_t)at);

		if (n == -EAGAIN)
			return NOT_IN_MEMORY;
		if (n == -EOPNOTSUPP)
			return CANNOT_SAY;
		if (n <= 0 || at == len - 1) /* nothing more: the end of the file */
			return IN_MEMORY;
	}
}

long disk_fetch(struct task *t, struct inode *i, int fd, int64_t off, size_t len)
{
	struct disk_state *d = t ? t->k->disk : NULL;
	int64_t end = off + (int64_t)len;
	int where;
	long r, result;

	if (!d || len == 0)
		return 0;
	if (t->call.disk) {
		r = look(t, &result);
		if (r != 1)
			return r;
	}
	if (t->call.fetched || (i->warm_to && i->warm_to >= end))
		return 0; /* once: what is thrown out again at once is waited for in place */
	where = i->warm_to ? CANNOT_SAY : in_memory(d->ops, fd, off, len);
	if (where == IN_MEMORY)
		return 0;
	if (where == CANNOT_SAY) {
		if (blind_here(i, fd, end))
			return 0;
		len = len < AHEAD ? AHEAD : len;
		if (off <= i->warm_to)
			i->warm_to = off + (int64_t)len;
	}
	return submit(t, JOB_FETCH, fd, off, len) ? SYS_BLOCK : 0;
}

bool disk_read_now(struct task *t, struct inode *i, int fd, void *buf, size_t len, int64_t off)
{
	struct disk_state *d = t ? t->k->disk : NULL;

	return d && !i->warm_to && !t->call.disk &&
	       d->ops->read_now(fd, buf, len, off) == (ssize_t)len;
}

long disk_sync(struct task *t, int fd, bool data_only)
{
	long r, result = 0;

	if (t && t->call.disk) {
		r = look(t, &result);
		return r == 1 ? result : r;
	}
	if (t && t->k->disk && submit(t, data_only ? JOB_DATASYNC : JOB_SYNC, fd, 0, 0))
		return SYS_BLOCK;
	return t && t->k->disk ? t->k->disk->ops->sync(fd, data_only) : sync_there(fd, data_only);
}
