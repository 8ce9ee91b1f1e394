/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/cred.c - who a task is, as the guest sees it.
 *
 * Owns:  struct cred.
 * Rules: a cred that somebody else may hold is never changed: copy, change, put in place.
 */
#include <stdlib.h>
#include <linux/capability.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/landlock.h"

bool task_capable(const struct task *t, int cap)
{
	return !t->cred->user && (t->cred->cap_effective >> cap & 1);
}

bool task_capable_in(const struct task *t, const struct user_ns *u, int cap)
{
	return cred_capable_in(t->cred, u, cap);
}

bool task_capable_own(const struct task *t, int cap)
{
	return t->cred->cap_effective >> cap & 1;
}

bool task_capable_ids(const struct task *t, uint32_t uid, uint32_t gid, int cap)
{
	const struct user_ns *u = t->cred->user;

	return (t->cred->cap_effective >> cap & 1) &&
	       (!u || (id_shown(u, ID_UID, uid) != ID_NONE && id_shown(u, ID_GID, gid) != ID_NONE));
}

bool task_in_group(const struct task *t, uint32_t gid)
{
	const struct cred *c = t->cred;

	if (c->fsgid == gid)
		return true;
	for (uint32_t i = 0; i < c->group_count; i++)
		if (c->groups[i] == gid)
			return true;
	return false;
}

bool task_is_open_to(const struct task *reader, const struct task *t)
{
	return t->proc != t->k->init || reader->proc == t->proc;
}

static bool may_read(const struct task *reader, uint32_t uid, uint32_t gid, const struct task *t)
{
	const struct cred *a = reader->cred, *b = t->cred;

	if (!task_is_open_to(reader, t))
		return false;
	if (reader->proc == t->proc)
		return true;
	if (!landlock_covers(a->landlock, b->landlock))
		return false;
	if (task_capable_in(reader, b->user, CAP_SYS_PTRACE))
		return true;
	if (a->user != b->user)
		return false; /* it has rights in its namespace that the reader has not */
	return uid == b->euid && uid == b->suid && uid == b->uid && gid == b->egid &&
	       gid == b->sgid && gid == b->gid && (!t->mm || t->mm->dumpable);
}

bool task_may_trace(const struct task *reader, const struct task *t)
{
	return may_read(reader, reader->cred->uid, reader->cred->gid, t);
}

bool task_may_look(const struct task *reader, const struct task *t)
{
	return may_read(reader, reader->cred->fsuid, reader->cred->fsgid, t);
}

struct cred *cred_ref(struct cred *c)
{
	c->refs++;
	return c;
}

void cred_unref(struct cred *c)
{
	if (!c || --c->refs)
		return;
	ns_unref(c->user ? &c->user->ns : NULL);
	landlock_unref(c->landlock);
	free(c);
}

struct cred *cred_copy(const struct cred *c)
{
	struct cred *n = malloc(sizeof(*n));

	if (n) {
		*n = *c;
		n->refs = 1;
		ns_ref(n->user ? &n->user->ns : NULL);
		landlock_ref(n->landlock);
	}
	return n;
}
