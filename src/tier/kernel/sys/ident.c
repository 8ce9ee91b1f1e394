/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/ident.c - who a task is: numbers, users, groups, capabilities.
 *
 * Owns:  nothing.
 * Rules: see sys/sys.h. Capabilities are the guest's idea of itself; they give nothing on the host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>

#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/proc.h"

SYSCALL0(getpid)
{
	return proc_nr(task, task->proc);
}

SYSCALL0(gettid)
{
	return task_nr(task, task);
}

SYSCALL0(getppid)
{
	return task->proc->parent ? proc_nr(task, task->proc->parent) : 0;
}

SYSCALL0(getuid)
{
	return uid_out(task, task->cred->uid);
}

SYSCALL0(geteuid)
{
	return uid_out(task, task->cred->euid);
}

SYSCALL0(getgid)
{
	return gid_out(task, task->cred->gid);
}

SYSCALL0(getegid)
{
	return gid_out(task, task->cred->egid);
}

static long put3(struct task *t, gva_t at[3], const uint32_t v[3])
{
	for (int i = 0; i < 3; i++)
		if (guest_write_u32(t, at[i], v[i]) < 0)
			return -EFAULT;
	return 0;
}

SYSCALL3(getresuid, gva_t, r, gva_t, e, gva_t, s)
{
	const struct cred *c = task->cred;

	return put3(task, (gva_t[]){ r, e, s },
		(uint32_t[]){
			uid_out(task, c->uid), uid_out(task, c->euid), uid_out(task, c->suid) });
}

SYSCALL3(getresgid, gva_t, r, gva_t, e, gva_t, s)
{
	const struct cred *c = task->cred;

	return put3(task, (gva_t[]){ r, e, s },
		(uint32_t[]){
			gid_out(task, c->gid), gid_out(task, c->egid), gid_out(task, c->sgid) });
}

enum { SECBIT_NO_FIXUP = 1 << 2, SECBIT_KEEP = 1 << 4 };

/* What leaving or becoming root does to capabilities. */
static void fix_caps(const struct cred *old, struct cred *c)
{
	bool acted = cred_is_root(old, old->euid), acts = cred_is_root(c, c->euid);
	bool had = cred_is_root(old, old->uid) || acted || cred_is_root(old, old->suid);
	bool has = cred_is_root(c, c->uid) || acts || cred_is_root(c, c->suid);

	if (c->securebits & SECBIT_NO_FIXUP)
		return;
	if (had && !has && !(c->securebits & SECBIT_KEEP))
		c->cap_permitted = c->cap_effective = 0;
	if (had && !has)
		c->cap_ambient = 0;
	if (acted && !acts)
		c->cap_effective = 0;
	if (!acted && acts)
		c->cap_effective = c->cap_permitted;
}

/* What only files are about, by bit. */
#define CAPS_FS                                                                                    \
	(1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH |              \
		1ULL << CAP_FOWNER | 1ULL << CAP_FSETID | 1ULL << CAP_LINUX_IMMUTABLE |            \
		1ULL << CAP_MKNOD | 1ULL << CAP_MAC_OVERRIDE)

static void fix_fs_caps(uint32_t old, struct cred *c)
{
	if (c->securebits & SECBIT_NO_FIXUP)
		return;
	if (cred_is_root(c, old) && !cred_is_root(c, c->fsuid))
		c->cap_effective &= ~CAPS_FS;
	if (!cred_is_root(c, old) && cred_is_root(c, c->fsuid))
		c->cap_effective |= c->cap_permitted & CAPS_FS;
}

static long set_uids(struct task *t, int64_t r, int64_t e, int64_t s, bool fs_too)
{
	const struct cred *old = t->cred;
	struct cred *c = cred_copy(old);

	if (!c)
		return -ENOMEM;
	if (r >= 0)
		c->uid = (uint32_t)r;
	if (e >= 0)
		c->euid = (uint32_t)e;
	if (s >= 0)
		c->suid = (uint32_t)s;
	if (fs_too)
		c->fsuid = c->euid;
	fix_caps(old, c);
	if (old->euid != c->euid && t->mm)
		t->pdeath_signal = 0;
	cred_unref(t->cred);
	t->cred = c;
	return 0;
}

static long set_gids(struct task *t, int64_t r, int64_t e, int64_t s)
{
	struct cred *c = cred_copy(t->cred);

	if (!c)
		return -ENOMEM;
	if (r >= 0)
		c->gid = (uint32_t)r;
	if (e >= 0)
		c->egid = (uint32_t)e;
	if (s >= 0)
		c->sgid = (uint32_t)s;
	c->fsgid = c->egid;
	if (t->cred->egid != c->egid)
		t->pdeath_signal = 0;
	cred_unref(t->cred);
	t->cred = c;
	return 0;
}

static int64_t id_arg(uint32_t v)
{
	return v == ID_NONE ? -1 : (int64_t)v;
}

/* The caller's ids as the kernel has them; false: one has no meaning there. */
static bool take_ids(const struct task *t, enum id_kind kind, uint32_t *ids[], unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (*ids[i] == ID_NONE)
			continue;
		*ids[i] = id_taken(t->cred->user, kind, *ids[i]);
		if (*ids[i] == ID_NONE)
			return false;
	}
	return true;
}

static bool is_mine(const uint32_t have[3], uint32_t v)
{
	return v == UINT32_MAX || v == have[0] || v == have[1] || v == have[2];
}

SYSCALL1(setuid, uint32_t, uid)
{
	const struct cred *c = task->cred;

	uid = uid_in(task, uid);
	if (uid == ID_NONE)
		return -EINVAL;
	if (task_capable_own(task, CAP_SETUID))
		return set_uids(task, uid, uid, uid, true);
	if (uid != c->uid && uid != c->suid)
		return -EPERM;
	return set_uids(task, -1, uid, -1, true);
}

SYSCALL1(setgid, uint32_t, gid)
{
	const struct cred *c = task->cred;

	gid = gid_in(task, gid);
	if (gid == ID_NONE)
		return -EINVAL;
	if (task_capable_own(task, CAP_SETGID))
		return set_gids(task, gid, gid, gid);
	if (gid != c->gid && gid != c->sgid)
		return -EPERM;
	return set_gids(task, -1, gid, -1);
}

SYSCALL3(setresuid, uint32_t, r, uint32_t, e, uint32_t, s)
{
	const struct cred *c = task->cred;
	const uint32_t have[3] = { c->uid, c->euid, c->suid };

	if (!take_ids(task, ID_UID, (uint32_t *[]){ &r, &e, &s }, 3))
		return -EINVAL;
	if (!task_capable_own(task, CAP_SETUID) &&
		(!is_mine(have, r) || !is_mine(have, e) || !is_mine(have, s)))
		return -EPERM;
	return set_uids(task, id_arg(r), id_arg(e), id_arg(s), true);
}

SYSCALL3(setresgid, uint32_t, r, uint32_t, e, uint32_t, s)
{
	const struct cred *c = task->cred;
	const uint32_t have[3] = { c->gid, c->egid, c->sgid };

	if (!take_ids(task, ID_GID, (uint32_t *[]){ &r, &e, &s }, 3))
		return -EINVAL;
	if (!task_capable_own(task, CAP_SETGID) &&
		(!is_mine(have, r) || !is_mine(have, e) || !is_mine(have, s)))
		return -EPERM;
	return set_gids(task, id_arg(r), id_arg(e), id_arg(s));
}

SYSCALL2(setreuid, uint32_t, r, uint32_t, e)
{
	const struct cred *c = task->cred;
	bool saved;

	if (!take_ids(task, ID_UID, (uint32_t *[]){ &r, &e }, 2))
		return -EINVAL;
	saved = r != UINT32_MAX || (e != UINT32_MAX && e != c->uid);
	if (!task_capable_own(task, CAP_SETUID)) {
		if (r != UINT32_MAX && r != c->uid && r != c->euid)
			return -EPERM;
		if (e != UINT32_MAX && e != c->uid && e != c->euid && e != c->suid)
			return -EPERM;
	}
	return set_uids(task, id_arg(r), id_arg(e),
		saved ? (int64_t)(e != UINT32_MAX ? e : c->euid) : -1, true);
}

SYSCALL2(setregid, uint32_t, r, uint32_t, e)
{
	const struct cred *c = task->cred;
	bool saved;

	if (!take_ids(task, ID_GID, (uint32_t *[]){ &r, &e }, 2))
		return -EINVAL;
	saved = r != UINT32_MAX || (e != UINT32_MAX && e != c->gid);
	if (!task_capable_own(task, CAP_SETGID)) {
		if (r != UINT32_MAX && r != c->gid && r != c->egid)
			return -EPERM;
		if (e != UINT32_MAX && e != c->gid && e != c->egid && e != c->sgid)
			return -EPERM;
	}
	return set_gids(
		task, id_arg(r), id_arg(e), saved ? (int64_t)(e != UINT32_MAX ? e : c->egid) : -1);
}

SYSCALL1(setfsuid, uint32_t, uid)
{
	uint32_t old = task->cred->fsuid;
	const uint32_t have[3] = { task->cred->uid, task->cred->euid, task->cred->suid };
	struct cred *c;

	uid = uid_in(task, uid);
	if (uid == ID_NONE || (!task_capable_own(task, CAP_SETUID) && !is_mine(have, uid)))
		return uid_out(task, old);
	c = cred_copy(task->cred);
	if (c) {
		c->fsuid = uid;
		fix_fs_caps(old, c);
		cred_unref(task->cred);
		task->cred = c;
	}
	return uid_out(task, old);
}

SYSCALL1(setfsgid, uint32_t, gid)
{
	uint32_t old = task->cred->fsgid;
	const uint32_t have[3] = { task->cred->gid, task->cred->egid, task->cred->sgid };
	struct cred *c;

	gid = gid_in(task, gid);
	if (gid == ID_NONE || (!task_capable_own(task, CAP_SETGID) && !is_mine(have, gid)))
		return gid_out(task, old);
	c = cred_copy(task->cred);
	if (c) {
		c->fsgid = gid;
		cred_unref(task->cred);
		task->cred = c;
	}
	return gid_out(task, old);
}

SYSCALL2(getgroups, int, size, gva_t, list)
{
	const struct cred *c = task->cred;
	uint32_t shown[GUEST_GROUPS_MAX];

	if (size < 0)
		return -EINVAL;
	if (size) {
		if ((uint32_t)size < c->group_count)
			return -EINVAL;
		for (uint32_t i = 0; i < c->group_count; i++)
			shown[i] = gid_out(task, c->groups[i]);
		if (guest_write(task, list, shown, c->group_count * 4) < 0)
			return -EFAULT;
	}
	return c->group_count;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

SYSCALL2(setgroups, uint32_t, size, gva_t, list)
{
	struct cred *c;
	uint32_t d[1];

	if (!task_capable_own(task, CAP_SETGID) || !user_ns_setgroups(task->cred->user))
		return -EPERM;
	if (size > 65536)
		return -EINVAL;
	if (size > GUEST_GROUPS_MAX)
		return guest_read(task, d, gva_add(list, size * 4 - 4), 4) < 0 ? -EFAULT : -ENOMEM;
	c = cred_copy(task->cred);
	if (!c)
		return -ENOMEM;
	if (guest_read(task, c->groups, list, size * 4) < 0) {
		cred_unref(c);
		return -EFAULT;
	}
	c->group_count = (uint32_t)size;
	for (uint32_t i = 0; i < c->group_count; i++) {
		c->groups[i] = gid_in(task, c->groups[i]);
		if (c->groups[i] == ID_NONE) {
			cred_unref(c);
			return -EINVAL;
		}
	}
	qsort(c->groups, size, sizeof(c->groups[0]), by_number); /* as getgroups shows them */
	cred_unref(task->cred);
	task->cred = c;
	return 0;
}

/* Process groups and sessions */

static struct proc *proc_arg(struct task *t, int pid)
{
	return pid ? proc_at(t, pid) : t->proc;
}

SYSCALL2(setpgid, int, pid, int, pgid)
{
	struct proc *p = proc_arg(task, pid);

	if (!pgid)
		pgid = pid;
	if (pgid < 0)
		return -EINVAL;
	if (!p || (p != task->proc && p->parent != task->proc))
		return -ESRCH;
	if (p != task->proc && p->execed)
		return -EACCES;
	if (!p->pgrp)
		return -ESRCH;
	if (p->pgrp->session != task->proc->pgrp->session)
		return -EPERM;
	if (!pgid || pgid == proc_nr(task, p))
		return proc_set_pgrp(p, p->pid);
	return proc_set_pgrp(p, pgrp_in(task, pgid));
}

SYSCALL1(getpgid, int, pid)
{
	struct proc *p = proc_arg(task, pid);

	return p && p->pgrp ? pgrp_nr(task, p->pgrp) : -ESRCH;
}

SYSCALL0(getpgrp)
{
	return pgrp_nr(task, task->proc->pgrp);
}

SYSCALL0(setsid)
{
	int r = proc_set_sid(task->proc);

	return r < 0 ? r : proc_nr(task, task->proc);
}

SYSCALL1(getsid, int, pid)
{
	struct proc *p = proc_arg(task, pid);

	return p && p->pgrp ? session_nr(task, p->pgrp->session) : -ESRCH;
}

/* Capabilities */

struct cap_header {
	uint32_t version;
	int32_t pid;
};

static int cap_words(struct task *t, gva_t at, struct cap_header *h)
{
	if (guest_read(t, h, at, sizeof(*h)) < 0)
		return -EFAULT;
	switch (h->version) {
	case 0x19980330:
		return 1;
	case 0x20071026:
	case 0x20080522:
		return 2;
	default:
		return guest_write_u32(t, at, 0x20080522) < 0 ? -EFAULT : -EINVAL;
	}
}

SYSCALL2(capget, gva_t, uheader, gva_t, udata)
{
	struct cap_header h;
	uint32_t d[6];
	int words = cap_words(task, uheader, &h);
	struct task *t;

	if (words < 0)
		return words == -EINVAL && gva_null(udata) ? 0 : words;
	if (h.pid < 0)
		return -EINVAL;
	t = h.pid ? task_at(task, h.pid) : task;
	if (!t)
		return -ESRCH;
	if (gva_null(udata))
		return 0;
	for (int i = 0; i < 2; i++) {
		d[3 * i] = (uint32_t)(t->cred->cap_effective >> (32 * i));
		d[3 * i + 1] = (uint32_t)(t->cred->cap_permitted >> (32 * i));
		d[3 * i + 2] = (uint32_t)(t->cred->cap_inheritable >> (32 * i));
	}
	return guest_write(task, udata, d, (size_t)words * 12);
}

SYSCALL2(capset, gva_t, uheader, gva_t, udata)
{
	const struct cred *old = task->cred;
	struct cap_header h;
	uint32_t d[6] = { 0 };
	uint64_t set[3];
	int words = cap_words(task, uheader, &h);
	struct cred *c;

	if (words < 0)
		return words;
	if (h.pid && h.pid != task_nr(task, task))
		return -EPERM;
	if (guest_read(task, d, udata, (size_t)words * 12) < 0)
		return -EFAULT;
	for (int i = 0; i < 3; i++)
		set[i] = d[i] | (uint64_t)d[3 + i] << 32;
	if ((set[1] & ~old->cap_permitted) || (set[0] & ~set[1]) ||
		(set[2] & ~(old->cap_inheritable | old->cap_bounding)) ||
		(!task_capable_own(task, CAP_SETPCAP) &&
			(set[2] & ~(old->cap_inheritable | old->cap_permitted))))
		return -EPERM;
	c = cred_copy(old);
	if (!c)
		return -ENOMEM;
	c->cap_effective = set[0];
	c->cap_permitted = set[1];
	c->cap_inheritable = set[2];
	c->cap_ambient &= set[1] & set[2];
	cred_unref(task->cred);
	task->cred = c;
	return 0;
}
