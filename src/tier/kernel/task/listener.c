/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/listener.c - calls that a filter inside leaves to another process.
 *
 * Owns:  struct listener: held by its file, by its filter and by the questions; struct ask.
 * Rules: under the kernel lock. A question is in its listener's list for as long as its call waits.
 *        A sandbox that has a listener is not walked: who it was for could not be asked again.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <linux/audit.h>
#include <linux/seccomp.h>

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/task/listener.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

/* Numbers and layouts as Linux has them; older headers lack some. */
enum { ADDFD_SET = 1, ADDFD_SEND = 2 };
#define IO_RECV 0xc0502100u
#define IO_SEND 0xc0182101u
#define IO_ID_VALID 0x40082102u
#define IO_ID_VALID_OLD 0x80082102u
#define IO_ADDFD 0x40182103u

struct question {
	uint64_t id;
	uint32_t pid, flags;
	struct seccomp_data data;
};
_Static_assert(sizeof(struct question) == 80, "as Linux has it");

struct answer {
	uint64_t id;
	int64_t val;
	int32_t error;
	uint32_t flags;
};
_Static_assert(sizeof(struct answer) == 24, "as Linux has it");

struct add_fd {
	uint64_t id;
	uint32_t flags, from, to, to_flags;
};
_Static_assert(sizeof(struct add_fd) == 24, "as Linux has it");

enum ask_state { ASK_NEW, ASK_TOLD, ASK_ANSWERED };

struct ask {
	struct listener *l; /* reference */
	struct task *task;
	struct ask *next; /* of the listener's, oldest first */
	uint64_t id;
	enum ask_state state;
	struct answer answer;
};

struct listener {
	unsigned refs;
	bool closed, unused; /* nobody answers; nobody will ask any more */
	uint64_t last_id;
	struct wait_queue wait;
	struct ask *asks;
};

struct listener *listener_ref(struct listener *l)
{
	if (l)
		l->refs++;
	return l;
}

void listener_unref(struct listener *l)
{
	if (!l || --l->refs)
		return;
	wait_flush(&l->wait);
	free(l);
}

void listener_unused(struct listener *l)
{
	if (!l)
		return;
	l->unused = true;
	wait_wake(&l->wait, POLLHUP);
	listener_unref(l);
}

static void ask_free(void *own)
{
	struct ask *a = own, **at = &a->l->asks;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	listener_unref(a->l);
	free(a);
}

bool listener_is_asked(const struct task *t)
{
	return t->call.own && t->call.own_free == ask_free;
}

enum seccomp_verdict listener_ask(struct task *t, struct listener *l, long *ret)
{
	struct ask *a, **last = l ? &l->asks : NULL;

	*ret = -ENOSYS;
	if (!l || l->closed)
		return SECCOMP_ANSWER;
	a = calloc(1, sizeof(*a));
	if (!a) {
		*ret = -ENOMEM;
		return SECCOMP_ANSWER;
	}
	a->l = listener_ref(l);
	a->task = t;
	a->id = ++l->last_id;
	while (*last)
		last = &(*last)->next;
	*last = a;
	t->call.own = a;
	t->call.own_free = ask_free;
	wait_wake(&l->wait, POLLIN);
	return listener_look(t, ret);
}

enum seccomp_verdict listener_look(struct task *t, long *ret)
{
	struct ask *a = t->call.own;
	bool go;

	if (a->state == ASK_ANSWERED) {
		go = a->answer.flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		*ret = a->answer.error ? a->answer.error : a->answer.val;
	} else if (a->l->closed) {
		go = false;
		*ret = -ENOSYS;
	} else {
		*ret = wait_block(t);
		return *ret == SYS_BLOCK ? SECCOMP_WAIT : SECCOMP_ANSWER;
	}
	ask_free(a);
	t->call.own = NULL;
	t->call.own_free = NULL;
	return go ? SECCOMP_GO : SECCOMP_ANSWER;
}

/* The file */

static struct ask *first_in(const struct listener *l, enum ask_state state)
{
	struct ask *a = l->asks;

	while (a && a->state != state)
		a = a->next;
	return a;
}

/* -ENOENT: its call is over; -EINPROGRESS: nobody was told of it, or it was answered. */
static long find(const struct listener *l, uint64_t id, struct ask **ret)
{
	struct ask *a = l->asks;

	while (a && a->id != id)
		a = a->next;
	if (!a)
		return -ENOENT;
	*ret = a;
	return a->state == ASK_TOLD ? 0 : -EINPROGRESS;
}

static long recv_question(struct listener *l, struct task *t, gva_t at)
{
	struct ask *a = first_in(l, ASK_NEW);
	struct question q, none = { 0 };
	long r;

	if (guest_read(t, &q, at, sizeof(q)) < 0)
		return -EFAULT;
	if (memcmp(&q, &none, sizeof(q)) != 0)
		return -EINVAL;
	if (!a && l->unused)
		return -ENOENT;
	if (!a) {
		r = wait_on(t, &l->wait, POLLIN);
		return r < 0 ? r : wait_block(t);
	}
	q.id = a->id;
	q.pid = (uint32_t)task_nr(t, a->task);
	q.data = (struct seccomp_data){ .nr = (int)a->task->call.nr,
		.arch = AUDIT_ARCH_X86_64,
		.instruction_pointer = a->task->call.ip };
	memcpy(q.data.args, a->task->call.args, sizeof(q.data.args));
	if (guest_write(t, at, &q, sizeof(q)) < 0)
		return -EFAULT;
	a->state = ASK_TOLD;
	wait_wake(&l->wait, POLLOUT);
	return 0;
}

static void give(struct ask *a, const struct answer *v)
{
	a->answer = *v;
	a->state = ASK_ANSWERED;
	wait_rouse(a->task);
}

static long send_answer(struct listener *l, struct task *t, gva_t at)
{
	struct answer v;
	struct ask *a;
	long r;

	if (guest_read(t, &v, at, sizeof(v)) < 0)
		return -EFAULT;
	if (v.flags & ~(uint32_t)SECCOMP_USER_NOTIF_FLAG_CONTINUE)
		return -EINVAL;
	if (v.flags && (v.error || v.val))
		return -EINVAL;
	r = find(l, v.id, &a);
	if (r == 0)
		give(a, &v);
	return r;
}

static long is_valid(struct listener *l, struct task *t, gva_t at)
{
	struct ask *a;
	uint64_t id;

	if (guest_read_u64(t, at, &id) < 0)
		return -EFAULT;
	return find(l, id, &a) == 0 ? 0 : -ENOENT;
}

/* The one who asked gets a copy of a descriptor, perhaps as the answer. */
static long add_fd(struct listener *l, struct task *t, gva_t at)
{
	struct add_fd v;
	struct file *f;
	struct ask *a;
	bool cloexec;
	long r;

	if (guest_read(t, &v, at, sizeof(v)) < 0)
		return -EFAULT;
	if ((v.to_flags & ~(uint32_t)O_CLOEXEC) ||
		(v.flags & ~(uint32_t)(ADDFD_SET | ADDFD_SEND)) || (v.to && !(v.flags & ADDFD_SET)))
		return -EINVAL;
	f = fd_get_path(t, (int)v.from);
	if (!f)
		return -EBADF;
	r = find(l, v.id, &a);
	if (r < 0)
		return r;
	cloexec = v.to_flags & O_CLOEXEC;
	file_ref(f);
	r = v.flags & ADDFD_SET ? fd_install_at(a->task, f, cloexec, (int)v.to)
				: fd_install(a->task, f, cloexec, 0);
	if (r < 0) {
		file_unref(f);
		return r;
	}
	answers_all(t->k); /* who shares that table made no call */
	if (v.flags & ADDFD_SEND)
		give(a, &(struct answer){ .val = r });
	return r;
}

static long listener_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	switch (cmd) {
	case IO_RECV:
		return recv_question(f->priv, t, GVA(arg));
	case IO_SEND:
		return send_answer(f->priv, t, GVA(arg));
	case IO_ID_VALID:
	case IO_ID_VALID_OLD:
		return is_valid(f->priv, t, GVA(arg));
	case IO_ADDFD:
		return add_fd(f->priv, t, GVA(arg));
	default:
		return -EINVAL;
	}
}

static unsigned listener_poll(struct file *f, struct poll_reg *reg)
{
	struct listener *l = f->priv;

	poll_wait(reg, &l->wait);
	return (first_in(l, ASK_NEW) ? POLLIN : 0) | (first_in(l, ASK_TOLD) ? POLLOUT : 0) |
	       (l->unused ? POLLHUP : 0);
}

static void listener_release(struct file *f)
{
	struct listener *l = f->priv;

	if (!l) /* a walk that has failed */
		return;
	l->closed = true;
	for (struct ask *a = l->asks; a; a = a->next)
		wait_rouse(a->task);
	listener_unref(l);
}

static void listener_walk(struct file *f, struct walk *w)
{
	walk_fail(w, -EOPNOTSUPP);
}

const struct file_ops listener_ops = {
	.name = "seccomp notify",
	.flags = FILE_STREAM | FILE_NO_SPLICE,
	.ioctl = listener_ioctl,
	.poll = listener_poll,
	.release = listener_release,
	.walk = listener_walk,
};

struct listener *listener_create(struct kernel *k, struct file **ret)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->refs = 1;
	*ret = io_file(k, &listener_ops, O_RDWR, 0600, l);
	if (!*ret) {
		free(l);
		return NULL;
	}
	return l;
}
