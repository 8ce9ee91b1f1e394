/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tty/tty.c - terminals: opened, closed, hung up; sessions and foreground groups.
 *
 * Owns:  struct tty, kernel.tty, session->tty.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>

#include "tier/kernel/tty/tty.h"

#include "base/str.h"
#include "tier/kernel/fs/dev.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"

enum { MAJOR_TTY = 5, MINOR_TTY = 0, MINOR_CONSOLE = 1, MINOR_PTMX = 2, MAJOR_PTS = 136 };
enum { TTY_GROUP = 5 }; /* "tty": as devpts is mounted everywhere */

struct tty_state *tty_state(struct kernel *k)
{
	if (!k->tty)
		k->tty = calloc(1, sizeof(*k->tty));
	return k->tty;
}

struct tty *tty_ref(struct tty *t)
{
	t->refs++;
	return t;
}

void tty_unref(struct tty *t)
{
	struct tty **p;

	if (!t || --t->refs)
		return;
	for (p = &t->k->tty->all; *p && *p != t; p = &(*p)->next)
		;
	if (*p)
		*p = t->next;
	t->k->tty->count--;
	wait_flush(&t->slave_wait);
	wait_flush(&t->master_wait);
	free(t->ahead);
	free(t->out);
	free(t);
}

void tty_done(struct kernel *k)
{
	if (!k->tty)
		return;
	while (k->tty->all) {
		struct tty *t = k->tty->all;

		tty_ref(t);
		tty_clear_session(t);
		t->refs = 1; /* no file is left that could have it open */
		tty_unref(t);
	}
	free(k->tty);
	k->tty = NULL;
}

static struct tty *tty_find(struct kernel *k, uint32_t n)
{
	struct tty *t = k->tty ? k->tty->all : NULL;

	/* One whose master is gone has no name any more. */
	while (t && (t->n != n || t->masters == 0))
		t = t->next;
	return t;
}

static struct tty *tty_create(struct kernel *k, struct task *task)
{
	struct tty_state *st = tty_state(k);
	struct tty *t;
	uint32_t n = 0;

	if (!st || st->count >= PTYS_MAX)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	while (tty_find(k, n))
		n++;
	t->refs = 1;
	t->k = k;
	t->n = n;
	t->locked = true;
	t->masters = 1;
	ldisc_init(t);
	t->next = st->all;
	st->all = t;
	st->count++;
	if (pts_add(k, n, task->cred->fsuid, TTY_GROUP, 0620) < 0) {
		t->masters = 0;
		tty_unref(t);
		return NULL;
	}
	return t;
}

/* Sessions */

bool tty_set_session(struct tty *t, struct proc *leader)
{
	struct session *s = leader->pgrp->session;

	if (s->tty || t->session)
		return false;
	t->session = s;
	s->refs++;
	s->tty = tty_ref(t);
	s->tty_pgrp = leader->pgrp->id;
	return true;
}

void tty_clear_session(struct tty *t)
{
	struct session *s = t->session;

	if (!s)
		return;
	t->session = NULL;
	s->tty = NULL;
	s->tty_pgrp = 0;
	session_unref(s);
	tty_unref(t);
}

void tty_signal(struct tty *t, int sig)
{
	struct pgrp *g = t->session ? pgrp_find(t->k, t->session->tty_pgrp) : NULL;

	if (g && g->session == t->session)
		signal_send_pgrp(g, sig, NULL);
}

static bool wont_act(const struct task *task, int sig)
{
	return (task->mask & GSIG_BIT(sig)) || task->sighand->act[sig - 1].handler == GSIG_IGN;
}

int tty_job_check(struct tty *t, struct task *task, int sig)
{
	struct pgrp *g;

	if (!task || !t->session || task->proc->pgrp->session != t->session)
		return 0;
	g = task->proc->pgrp;
	if (g->id == t->session->tty_pgrp)
		return 0;
	if (wont_act(task, sig))
		return sig == SIGTTIN ? -EIO : 0;
	if (pgrp_is_orphaned(g))
		return -EIO;
	signal_send_pgrp(g, sig, NULL);
	return -ERESTARTSYS;
}

/* Both ends hear of it; descriptors of the slave stay, and read as ended. */
void tty_hangup(struct tty *t)
{
	struct session *s = t->session;
	struct proc *leader;

	if (t->hung_up)
		return;
	t->hung_up = true;
	t->head = t->canon = t->tail = t->ahead_len = 0;
	tty_ref(t);
	if (s) {
		tty_signal(t, SIGHUP);
		tty_signal(t, SIGCONT);
		leader = proc_find(t->k, s->id);
		if (leader && leader->state == PROC_LIVE) {
			signal_send_proc(leader, SIGHUP, NULL);
			signal_send_proc(leader, SIGCONT, NULL);
		}
		tty_clear_session(t);
	}
	wait_wake(&t->slave_wait, 0);
	wait_wake(&t->master_wait, 0);
	tty_unref(t);
}

void tty_leader_gone(struct proc *leader)
{
	struct session *s = leader->pgrp ? leader->pgrp->session : NULL;

	if (!s || s->id != leader->pid || !s->tty)
		return;
	/* The line stays up: others may have it open, and somebody may make it theirs. */
	tty_signal(s->tty, SIGHUP);
	tty_clear_session(s->tty);
}

void tty_disassociate(struct proc *p)
{
	struct session *s = p->pgrp->session;
	struct tty *t = s->tty;

	if (!t || s->id != p->pid)
		return;
	tty_signal(t, SIGHUP);
	tty_signal(t, SIGCONT);
	tty_clear_session(t);
}

/* Opening */

static void become_controlling(struct tty *t, struct file *f, struct task *task)
{
	struct proc *p = task->proc;

	if ((f->flags & O_NOCTTY) || p->pgrp->session->id != p->pid)
		return;
	tty_set_session(t, p);
}

static int open_slave(struct tty *t, struct file *f, struct task *task)
{
	if (t->locked || t->masters == 0)
		return -EIO;
	if (t->excl && t->slaves)
		return -EBUSY;
	if (t->slaves == 0)
		t->hung_up = false; /* a new life after vhangup */
	f->ops = &tty_slave_ops;
	f->priv = tty_ref(t);
	t->slaves++;
	t->slave_seen = true;
	become_controlling(t, f, task);
	wait_wake(&t->master_wait, 0);
	return 0;
}

static int open_master(struct file *f, struct task *task)
{
	struct tty *t = tty_create(f->k, task);

	if (!t)
		return -ENOSPC;
	f->ops = &tty_master_ops;
	f->priv = t;
	return 0;
}

int tty_open(struct inode *i, struct file *f, struct task *task)
{
	struct session *s = task->proc->pgrp->session;
	struct tty *t;

	if (major(i->rdev) == MAJOR_PTS) {
		t = tty_find(f->k, minor(i->rdev));
		return t ? open_slave(t, f, task) : -ENXIO;
	}
	if (major(i->rdev) != MAJOR_TTY)
		return -ENXIO;
	if (minor(i->rdev) == MINOR_PTMX)
		return open_master(f, task);
	if (!s->tty)
		return -ENXIO;
	return open_slave(s->tty, f, task);
}

struct tty *tty_of(const struct file *f, bool *ret_master)
{
	*ret_master = f->ops == &tty_master_ops;
	return f->ops == &tty_master_ops || f->ops == &tty_slave_ops ? f->priv : NULL;
}

/* Through its name, so that ttyname(3) finds what fstat(2) says. NULL: not to be seen there. */
static struct file *open_by_name(struct tty *t, struct task *task, unsigned flags)
{
	struct file *f;
	char path[32];

	if (!task->fs || str_fmt(path, sizeof(path), "/dev/pts/%u", t->n) < 0 ||
		vfs_open(task, AT_FDCWD, path, flags, 0, &f) < 0)
		return NULL;
	if (f->ops == &tty_slave_ops && f->priv == t)
		return f;
	file_unref(f);
	return NULL;
}

struct file *tty_open_peer(struct tty *t, struct task *task, unsigned flags, int *ret_err)
{
	struct file *f;
	struct inode *i;

	flags &= O_ACCMODE | O_NONBLOCK | O_NOCTTY;
	*ret_err = t->locked ? -EIO : 0;
	if (t->locked)
		return NULL;
	f = open_by_name(t, task, flags);
	if (f)
		return f;
	*ret_err = -ENOMEM;
	i = inode_anon(t->k, S_IFCHR | 0620);
	if (!i)
		return NULL;
	i->rdev = makedev(MAJOR_PTS, t->n);
	f = file_create(t->k, &tty_slave_ops, flags, i, NULL);
	if (!f) {
		inode_unref(i);
		return NULL;
	}
	*ret_err = open_slave(t, f, task);
	if (*ret_err < 0) {
		f->ops = NULL;
		file_unref(f);
		return NULL;
	}
	return f;
}
