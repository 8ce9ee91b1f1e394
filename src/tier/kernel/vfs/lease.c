/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/lease.c - leases: told before somebody else opens a file.
 *
 * Owns:  inode.leases.
 * Rules: under the kernel lock. A lease belongs to an open file and goes with it. Whoever opens the
 *        file against one waits until it is given back, or for LEASE_BREAK_NS.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/lease.h"
#include "tier/kernel/walk.h"

#define LEASE_BREAK_NS 45000000000LL

struct lease {
	struct lease *next;
	struct file *file; /* borrowed: it drops its leases when it goes */
	int type;          /* F_RDLCK, F_WRLCK */
	bool breaking;
	int to; /* breaking: what may stay, F_RDLCK or F_UNLCK */
	int64_t until;
};

struct lease_list {
	struct lease *first;
	struct wait_queue queue;
};

static struct lease **find(struct inode *i, const struct file *f)
{
	struct lease **at = &((struct lease_list *)i->leases)->first;

	while (*at && (*at)->file != f)
		at = &(*at)->next;
	return at;
}

static void changed(struct inode *i)
{
	struct lease_list *l = i->leases;

	if (l->first) {
		wait_wake(&l->queue, 0);
		return;
	}
	wait_flush(&l->queue);
	free(l);
	i->leases = NULL;
}

static void drop(struct inode *i, struct lease **at)
{
	struct lease *l = *at;

	*at = l->next;
	free(l);
	changed(i);
}

void leases_release(struct file *f)
{
	struct lease **at = find(f->inode, f);

	if (*at)
		drop(f->inode, at);
}

int lease_get(struct file *f)
{
	struct lease *l = f->inode->leases ? *find(f->inode, f) : NULL;

	if (!l)
		return F_UNLCK;
	return l->breaking ? l->to : l->type;
}

/* Does anybody have the file open in a way that @type rules out? */
static bool in_use(const struct file *f, int type)
{
	const struct inode *i = f->inode;

	if (type == F_RDLCK)
		return i->write_opens > 0;
	return i->opens > 1;
}

static long change(struct lease **at, int type)
{
	struct lease *l = *at;

	if (l->breaking && (type == F_WRLCK || l->to == F_UNLCK))
		return -EAGAIN;
	if (in_use(l->file, type))
		return -EAGAIN;
	l->type = type;
	l->breaking = false;
	changed(l->file->inode);
	return 0;
}

static long add(struct file *f, int type)
{
	struct lease_list *list = f->inode->leases;
	struct lease *l;

	for (l = list ? list->first : NULL; l; l = l->next)
		if (type == F_WRLCK || l->type == F_WRLCK || l->breaking)
			return -EAGAIN;
	if (in_use(f, type))
		return -EAGAIN;
	l = calloc(1, sizeof(*l));
	if (l && !list)
		list = f->inode->leases = calloc(1, sizeof(*list));
	if (!l || !list) {
		free(l);
		return -ENOMEM;
	}
	*l = (struct lease){ .next = list->first, .file = f, .type = type };
	list->first = l;
	return 0;
}

long lease_set(struct task *t, struct file *f, int fd, uint64_t type)
{
	struct lease **at = f->inode->leases ? find(f->inode, f) : NULL;
	long r;

	if (type == F_UNLCK) {
		if (!at || !*at)
			return -EAGAIN;
		drop(f->inode, at);
		return 0;
	}
	if (type != F_RDLCK && type != F_WRLCK)
		return -EINVAL;
	if (t->cred->fsuid != f->inode->uid && !task_capable(t, CAP_LEASE))
		return -EACCES;
	if (!S_ISREG(f->inode->mode))
		return -EINVAL;
	r = at && *at ? change(at, (int)type) : add(f, (int)type);
	if (r == 0 && !f->owner_pid) {
		f->owner_type = 1;
		f->owner_pid = t->proc->pid;
		f->owner_uid = t->cred->uid;
		f->owner_euid = t->cred->euid;
	}
	f->owner_fd = fd;
	return r;
}

static bool against(const struct lease *l, bool write)
{
	return write || l->type == F_WRLCK;
}

/* Tells the holders; the first of the times at which one of them has had its time, or 0. */
static int64_t begin_break(struct kernel *k, struct lease_list *list, bool write)
{
	int64_t until = 0;

	for (struct lease *l = list->first; l; l = l->next) {
		if (!against(l, write))
			continue;
		if (!l->breaking || (write && l->to != F_UNLCK)) {
			if (!l->breaking)
				l->until = kernel_now(k) + LEASE_BREAK_NS;
			l->breaking = true;
			l->to = write ? F_UNLCK : F_RDLCK;
			file_signal(l->file, POLLIN);
		}
		if (!until || l->until < until)
			until = l->until;
	}
	return until;
}

static void take_away(struct inode *i, bool write, int64_t now)
{
	struct lease_list *list = i->leases;
	bool any = false;

	for (struct lease **at = &list->first; *at;) {
		struct lease *l = *at;

		if (!against(l, write) || !l->breaking || l->until > now) {
			at = &l->next;
			continue;
		}
		any = true;
		if (l->to == F_RDLCK) {
			l->type = F_RDLCK;
			l->breaking = false;
			at = &l->next;
		} else {
			*at = l->next;
			free(l);
		}
	}
	if (any) /* else those who wait would wake each other for ever */
		changed(i);
}

long lease_break(struct task *t, struct inode *i, bool write, bool wait)
{
	struct lease_list *list = i->leases;
	int64_t until;
	long r;

	if (!list)
		return 0;
	take_away(i, write, kernel_now(t->k));
	list = i->leases;
	until = list ? begin_break(t->k, list, write) : 0;
	if (!until)
		return 0;
	if (!wait)
		return -EAGAIN;
	t->call.deadline = until;
	t->call.timed_out = false;
	r = wait_on(t, &list->queue, 0);
	if (r < 0)
		return r;
	r = wait_block(t);
	return r == -ETIMEDOUT ? SYS_BLOCK : r;
}

static void lease_walk(struct lease *l, struct walk *w)
{
	walk_need(w, "file", WALK_FILE, (void **)&l->file);
	walk_i32(w, "type", &l->type);
	walk_bool(w, "breaking", &l->breaking);
	walk_i32(w, "to", &l->to);
	walk_time(w, "until", &l->until);
}

static void lease_load(struct inode *i, struct walk *w)
{
	struct lease_list *list = i->leases;
	struct lease *l = calloc(1, sizeof(*l)), **last;

	if (!l) {
		walk_fail(w, -ENOMEM);
		return;
	}
	lease_walk(l, w);
	/* One of a file, and it goes with that. */
	if (!w->err && (l->file->inode != i || (list && *find(i, l->file)) ||
			       (l->type != F_RDLCK && l->type != F_WRLCK) ||
			       (l->breaking && l->to != F_RDLCK && l->to != F_UNLCK)))
		walk_fail(w, -EBADMSG);
	if (!w->err && !list)
		list = i->leases = calloc(1, sizeof(*list));
	if (!w->err && !list)
		walk_fail(w, -ENOMEM);
	if (w->err) {
		free(l);
		return;
	}
	for (last = &list->first; *last; last = &(*last)->next)
		;
	*last = l;
}

void leases_walk(struct inode *i, struct walk *w)
{
	struct lease_list *list = i->leases;
	uint32_t n = 0;

	for (struct lease *l = list ? list->first : NULL; l; l = l->next)
		n++;
	walk_list(w, "leases", &n, GUEST_FILES_MAX);
	for (struct lease *l = list ? list->first : NULL; l && w->mode == WALK_SAVE; l = l->next)
		lease_walk(l, w);
	for (; n > 0 && w->mode == WALK_LOAD && !w->err; n--)
		lease_load(i, w);
}
