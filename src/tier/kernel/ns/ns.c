/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/ns/ns.c - namespaces: made, held, unshared and entered.
 *
 * Owns:  kernel.namespaces, struct ns_set.
 * Rules: a set that a task has is never changed: copy, change, put in place. A call changes all
 *        that it was asked to or nothing.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/ipc/ipc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/ns/net.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/vfs.h"

static const struct {
	const char *name;
	uint64_t flag;
	uint32_t first; /* the number of the first one, as Linux has it */
} kinds[NS_KINDS] = {
	[NS_CGROUP] = { "cgroup", CLONE_NEWCGROUP, 4026531835 },
	[NS_IPC] = { "ipc", CLONE_NEWIPC, 4026531839 },
	[NS_MNT] = { "mnt", CLONE_NEWNS, 4026531840 },
	[NS_NET] = { "net", CLONE_NEWNET, 4026531833 },
	[NS_PID] = { "pid", CLONE_NEWPID, 4026531836 },
	[NS_TIME] = { "time", NS_TIME_FLAG, 4026531834 },
	[NS_USER] = { "user", CLONE_NEWUSER, 4026531837 },
	[NS_UTS] = { "uts", CLONE_NEWUTS, 4026531838 },
};
enum { NUMBER_FIRST = 0xf0000090 - 0xf0000000 }; /* those that guests make come behind these */

const char *ns_name(enum ns_kind kind)
{
	return kinds[kind].name;
}

uint64_t ns_flag(enum ns_kind kind)
{
	return kinds[kind].flag;
}

uint32_t ns_number(enum ns_kind kind, const struct ns *n)
{
	return n ? n->number : kinds[kind].first;
}

struct ns *ns_find(struct kernel *k, enum ns_kind kind, uint32_t number)
{
	struct ns *n = k->namespaces;

	while (n && (n->kind != kind || n->number != number))
		n = n->next;
	return n;
}

struct ns *ns_ref(struct ns *n)
{
	if (n)
		n->refs++;
	return n;
}

void ns_unref(struct ns *n)
{
	struct ns **p;

	if (!n || --n->refs)
		return;
	for (p = &n->k->namespaces; *p != n; p = &(*p)->next)
		;
	*p = n->next;
	n->k->namespace_count--;
	if (n->kind == NS_IPC)
		ipc_ns_gone(n->k, n);
	if (n->kind == NS_MNT)
		mnt_gone((struct mnt_ns *)n);
	if (n->kind == NS_PID)
		pid_gone((struct pid_ns *)n);
	if (n->kind == NS_USER)
		user_ns_free_maps(user_ns_of(n));
	ns_unref(n->owner ? &n->owner->ns : NULL);
	free(n);
}

/* /proc/sys/user; whoever made them, all of a kind are counted. */
static bool may_have_more(const struct kernel *k, enum ns_kind kind)
{
	char path[64];
	uint64_t n = 0;

	for (const struct ns *o = k->namespaces; o; o = o->next)
		n += o->kind == kind;
	if (str_fmt(path, sizeof(path), "sys/user/max_%s_namespaces", kinds[kind].name) < 0)
		return false;
	return n < knob_value(k, path);
}

void *ns_make(struct kernel *k, enum ns_kind kind, size_t size, struct user_ns *owner, int *ret_err)
{
	struct ns *n, **last = &k->namespaces;

	*ret_err = -ENOSPC;
	if (k->namespace_count >= GUEST_NAMESPACES_MAX)
		return NULL;
	*ret_err = -ENOMEM;
	n = calloc(1, size);
	if (!n)
		return NULL;
	n->refs = 1;
	n->kind = kind;
	n->k = k;
	n->number = 0xf0000000u + NUMBER_FIRST + k->last_namespace++;
	n->owner = owner ? user_ns_of(ns_ref(&owner->ns)) : NULL;
	while (*last)
		last = &(*last)->next;
	*last = n;
	k->namespace_count++;
	return n;
}

void *ns_create(
	struct kernel *k, enum ns_kind kind, size_t size, struct user_ns *owner, int *ret_err)
{
	if (may_have_more(k, kind))
		return ns_make(k, kind, size, owner, ret_err);
	*ret_err = -ENOSPC;
	return NULL;
}

struct ns *ns_of(const struct task *t, enum ns_kind kind)
{
	if (kind == NS_USER)
		return t->cred->user ? &t->cred->user->ns : NULL;
	if (kind == NS_PID)
		return t->nums ? &t->nums->ns->ns : NULL;
	return t->ns ? t->ns->of[kind] : NULL;
}

struct ns *ns_for_children(const struct task *t, enum ns_kind kind)
{
	return t->ns ? t->ns->of[kind] : NULL;
}

/* Sets */

struct ns_set *ns_set_ref(struct ns_set *s)
{
	if (s)
		s->refs++;
	return s;
}

void ns_set_unref(struct ns_set *s)
{
	if (!s || --s->refs)
		return;
	for (int i = 0; i < NS_KINDS; i++)
		ns_unref(s->of[i]);
	free(s);
}

static struct ns_set *set_copy(const struct ns_set *from)
{
	struct ns_set *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->refs = 1;
	for (int i = 0; i < NS_KINDS && from; i++)
		s->of[i] = ns_ref(from->of[i]);
	return s;
}

static void set_put(struct ns_set *s, enum ns_kind kind, struct ns *n)
{
	ns_unref(s->of[kind]);
	s->of[kind] = n;
}

/* UTS */

char *uts_hostname(const struct task *t)
{
	struct uts_ns *u = (struct uts_ns *)ns_of(t, NS_UTS);

	return u ? u->hostname : t->k->hostname;
}

char *uts_domainname(const struct task *t)
{
	struct uts_ns *u = (struct uts_ns *)ns_of(t, NS_UTS);

	return u ? u->domainname : t->k->domainname;
}

bool uts_may_change(const struct task *t)
{
	struct ns *n = ns_of(t, NS_UTS);

	return task_capable_in(t, n ? n->owner : NULL, CAP_SYS_ADMIN);
}

static struct ns *make_uts(struct task *t, struct user_ns *owner, int *ret_err)
{
	struct uts_ns *u = ns_create(t->k, NS_UTS, sizeof(*u), owner, ret_err);

	if (!u)
		return NULL;
	memcpy(u->hostname, uts_hostname(t), sizeof(u->hostname));
	memcpy(u->domainname, uts_domainname(t), sizeof(u->domainname));
	return &u->ns;
}

static struct ns *make_ipc(struct task *t, struct user_ns *owner, int *ret_err)
{
	return ns_create(t->k, NS_IPC, sizeof(struct ns), owner, ret_err);
}

/* There is one control group, the root: another namespace shows the same. */
static struct ns *make_cgroup(struct task *t, struct user_ns *owner, int *ret_err)
{
	return ns_create(t->k, NS_CGROUP, sizeof(struct ns), owner, ret_err);
}

static const struct maker {
	enum ns_kind kind;
	struct ns *(*make)(struct task *t, struct user_ns *owner, int *ret_err);
} makers[] = {
	{ NS_UTS, make_uts },
	{ NS_IPC, make_ipc },
	{ NS_CGROUP, make_cgroup },
	{ NS_PID, pid_create },
	{ NS_NET, net_create },
};

/* What a call changes in a task: all of it, or nothing. NULL: as it is. */
struct change {
	struct cred *cred;
	struct ns_set *set;
	struct fs_ctx *fs;
};

static void swap_in(struct task *t, const struct change *c)
{
	if (c->cred) {
		cred_unref(t->cred);
		t->cred = c->cred;
	}
	if (c->set) {
		ns_set_unref(t->ns);
		t->ns = c->set;
	}
	if (c->fs) {
		fs_ctx_unref(t->fs);
		t->fs = c->fs;
	}
}

static int change_end(struct task *t, struct change *c, int r)
{
	if (r == 0) {
		swap_in(t, c);
		return 0;
	}
	cred_unref(c->cred);
	ns_set_unref(c->set);
	fs_ctx_unref(c->fs);
	return r;
}

/* Last: it makes many things. */
static int make_mnt(struct task *t, struct user_ns *owner, struct change *c)
{
	struct ns *n;
	int r = -ENOMEM;

	c->fs = t->fs ? fs_ctx_copy(t->fs) : NULL;
	n = c->fs ? mnt_create(t, c->fs, owner, &r) : NULL;
	if (!n)
		return r;
	set_put(c->set, NS_MNT, n);
	return 0;
}

static int set_make(struct task *t, uint64_t flags, struct user_ns *owner, struct change *c)
{
	struct ns_set *s = c->set = set_copy(t->ns);
	int r = s ? 0 : -ENOMEM;
	uint64_t left = flags & NS_FLAGS & ~(uint64_t)(CLONE_NEWUSER | CLONE_NEWNS);

	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		left &= ~kinds[makers[i].kind].flag;
	if (r == 0 && left)
		r = -EPERM; /* not built yet */
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]) && r == 0; i++) {
		const struct maker *m = &makers[i];
		struct ns *n;

		if (!(flags & kinds[m->kind].flag))
			continue;
		n = m->make(t, owner, &r);
		if (!n)
			break;
		r = 0;
		set_put(s, m->kind, n);
	}
	if (r == 0 && (flags & CLONE_NEWNS))
		r = make_mnt(t, owner, c);
	return r;
}

/* What @flags say for @n, which is made like @t or is it. */
static int make_new(struct task *n, struct task *t, uint64_t flags, struct change *c)
{
	int r = 0;

	if (flags & CLONE_NEWUSER) {
		c->cred = cred_copy(t->cred);
		r = c->cred ? user_ns_create(t, c->cred) : -ENOMEM;
	}
	if (r == 0 && (flags & NS_FLAGS & ~(uint64_t)CLONE_NEWUSER)) {
		const struct cred *who = c->cred ? c->cred : t->cred;

		r = cred_capable_in(who, who->user, CAP_SYS_ADMIN)
			    ? set_make(n, flags, who->user, c)
			    : -EPERM;
	}
	return r;
}

int ns_inherit(struct task *n, struct task *t, uint64_t flags)
{
	struct change c = { 0 };
	int r = 0;

	n->ns = ns_set_ref(t->ns);
	n->nums = pid_nums_ref(t->nums); /* it is where its parent is, until it has its own */
	if (flags & NS_FLAGS)
		r = change_end(n, &c, make_new(n, t, flags, &c));
	return r < 0 || (!n->nums && !n->ns) ? r : pid_assign(n);
}

int ns_unshare(struct task *t, uint64_t flags)
{
	struct change c = { 0 };

	return change_end(t, &c, make_new(t, t, flags, &c));
}

/* setns */

static int enter_user(struct task *t, struct user_ns *to, struct change *c)
{
	if (to == t->cred->user || t->proc->task_count > 1 || (t->fs && t->fs->refs > 1))
		return -EINVAL;
	if (!task_capable_in(t, to, CAP_SYS_ADMIN))
		return -EPERM;
	c->cred = cred_copy(t->cred);
	if (!c->cred)
		return -ENOMEM;
	user_ns_move(c->cred, to);
	return 0;
}

static int enter_mnt(struct task *t, struct mnt_ns *to, struct change *c)
{
	if (!task_capable_in(t, c->cred ? c->cred->user : t->cred->user, CAP_SYS_CHROOT))
		return -EPERM;
	if (!t->fs || t->fs->refs > 1)
		return -EINVAL;
	c->fs = fs_ctx_copy(t->fs);
	if (!c->fs)
		return -ENOMEM;
	mnt_go(t->k, c->fs, to);
	return 0;
}

static int enter_one(struct task *t, enum ns_kind kind, struct ns *to, struct change *c)
{
	struct user_ns *own = c->cred ? c->cred->user : t->cred->user;
	int r;

	if (kind == NS_USER)
		return enter_user(t, to ? user_ns_of(to) : NULL, c);
	if (!task_capable_in(t, to ? to->owner : NULL, CAP_SYS_ADMIN) ||
		!task_capable_in(t, own, CAP_SYS_ADMIN))
		return -EPERM;
	if (kind == NS_MNT) {
		r = enter_mnt(t, (struct mnt_ns *)to, c);
		if (r < 0)
			return r;
	}
	if (kind == NS_PID && !pid_ns_is_below((struct pid_ns *)to, pid_ns_of(t)))
		return -EINVAL;
	if (!c->set)
		c->set = set_copy(t->ns);
	if (!c->set)
		return -ENOMEM;
	set_put(c->set, kind, ns_ref(to));
	return 0;
}

int ns_enter(struct task *t, enum ns_kind kind, struct ns *to)
{
	struct change c = { 0 };

	return change_end(t, &c, enter_one(t, kind, to, &c));
}

int ns_enter_all(struct task *t, const struct task *of, uint64_t flags)
{
	/* The user namespace first: it says what may be done with the others. */
	static const enum ns_kind order[] = { NS_USER, NS_MNT, NS_UTS, NS_IPC, NS_PID, NS_CGROUP,
		NS_NET, NS_TIME };
	struct change c = { 0 };
	int r = 0;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && r == 0; i++)
		if (flags & kinds[order[i]].flag)
			r = enter_one(t, order[i], ns_of(of, order[i]), &c);
	return change_end(t, &c, r);
}
