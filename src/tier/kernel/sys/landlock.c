/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/landlock.c - landlock_*(2): rulesets, and putting them in force; lsm_*(2).
 *
 * Owns:  struct ruleset, behind a descriptor.
 * Rules: see vfs/landlock.h. A domain gets copies: what is added to a ruleset later is not in it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <linux/capability.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk.h"
#include "tier/kernel/walk/domains.h"

/* What linux/landlock.h calls them. */
enum { CREATE_VERSION = 1, RULE_PATH = 1, RULE_PORT = 2, PAGE = 4096 };

struct ruleset {
	struct landlock_rights what;
	uint32_t cap;
	struct landlock_rule *rules;
};

static void ruleset_release(struct file *f)
{
	struct ruleset *s = f->priv;

	for (uint32_t i = 0; i < s->what.count; i++)
		landlock_rule_drop(&s->rules[i]);
	f->k->landlock_rules -= s->what.count;
	free(s->rules);
	free(s);
}

uint32_t ruleset_rules(const struct file *f, const struct landlock_rule **ret)
{
	const struct ruleset *s = f->ops == &ruleset_ops ? f->priv : NULL;

	*ret = s ? s->rules : NULL;
	return s ? s->what.count : 0;
}

static void ruleset_walk(struct file *f, struct walk *w)
{
	struct ruleset *s = f->priv;

	if (w->mode == WALK_SAVE) {
		rules_walk(f->k, &s->what, &s->rules, w);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		walk_fail(w, -ENOMEM);
		return;
	}
	f->priv = s;
	rules_walk(f->k, &s->what, &s->rules, w);
	if (s->what.count > LANDLOCK_RULES_MAX - f->k->landlock_rules) {
		s->what.count = 0;
		walk_fail(w, -EBADMSG);
	}
	s->cap = s->what.count;
	for (uint32_t i = 0; i < s->what.count; i++)
		landlock_rule_hold(&s->rules[i]);
	f->k->landlock_rules += s->what.count;
}

const struct file_ops ruleset_ops = {
	.name = "[landlock-ruleset]",
	.flags = FILE_STREAM | FILE_NO_SPLICE,
	.lseek = io_no_seek,
	.release = ruleset_release,
	.walk = ruleset_walk,
};

/* As much as the caller's headers know of it; what is behind must be zero. */
static long read_attr(struct task *t, gva_t uattr, uint64_t size, uint64_t attr[3])
{
	if (gva_null(uattr))
		return -EFAULT;
	if (size < sizeof(attr[0]))
		return -EINVAL;
	if (size > PAGE)
		return -E2BIG;
	return guest_read_struct(t, attr, 3 * sizeof(attr[0]), uattr, size);
}

SYSCALL3(landlock_create_ruleset, gva_t, uattr, uint64_t, size, unsigned, flags)
{
	uint64_t attr[3];
	struct ruleset *s;
	struct file *f;
	long r;

	if (flags)
		return flags == CREATE_VERSION && gva_null(uattr) && !size ? LANDLOCK_ABI : -EINVAL;
	r = read_attr(task, uattr, size, attr);
	if (r < 0)
		return r;
	if ((attr[0] & ~(uint64_t)LANDLOCK_ALL) || (attr[1] & ~(uint64_t)LANDLOCK_NET_ALL) ||
		(attr[2] & ~(uint64_t)LANDLOCK_SCOPES))
		return -EINVAL;
	if (!attr[0] && !attr[1] && !attr[2])
		return -ENOMSG;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->what.fs = (uint32_t)attr[0];
	s->what.net = (uint32_t)attr[1];
	s->what.scoped = (uint32_t)attr[2];
	f = io_file(task->k, &ruleset_ops, O_RDWR, 0600, s);
	if (!f) {
		free(s);
		return -ENFILE;
	}
	return io_install(task, f, true);
}

static long ruleset_get(struct task *t, int fd, struct ruleset **ret)
{
	struct file *f = fd_get_path(t, fd);

	if (!f)
		return -EBADF;
	if (f->ops != &ruleset_ops)
		return -EBADFD;
	*ret = f->priv;
	return 0;
}

/* Rules about the same thing are one. */
static long rule_add(
	struct task *t, struct ruleset *s, struct dentry *d, uint32_t port, uint32_t allowed)
{
	struct inode *i = d ? d->inode : NULL;
	struct landlock_rule *at = s->rules;

	for (uint32_t n = 0; n < s->what.count; n++, at++) {
		if (i ? at->inode && at->inode->sb == i->sb && at->inode->ino == i->ino
		      : !at->inode && at->port == port) {
			at->allowed |= allowed;
			return 0;
		}
	}
	if (t->k->landlock_rules >= LANDLOCK_RULES_MAX)
		return -E2BIG;
	if (s->what.count == s->cap) {
		uint32_t cap = s->cap ? s->cap * 2 : 16;

		at = realloc(s->rules, cap * sizeof(*at));
		if (!at)
			return -ENOMEM;
		s->rules = at;
		s->cap = cap;
	}
	at = &s->rules[s->what.count++];
	*at = (struct landlock_rule){
		.inode = i,
		.name = d && (d->sb->flags & SB_NO_CACHE) ? d : NULL,
		.port = port,
		.allowed = allowed,
	};
	landlock_rule_hold(at);
	t->k->landlock_rules++;
	return 0;
}

static long rule_path(struct task *t, struct ruleset *s, gva_t uattr)
{
	struct {
		uint64_t allowed;
		int32_t fd;
	} __attribute__((packed)) a;
	struct inode *i;
	struct file *f;

	if (guest_read(t, &a, uattr, sizeof(a)) < 0)
		return -EFAULT;
	if (!a.allowed)
		return -ENOMSG;
	if (a.allowed & ~(uint64_t)s->what.fs)
		return -EINVAL;
	f = fd_get_path(t, a.fd);
	if (!f)
		return -EBADF;
	if (!f->path.dentry || landlock_is_nowhere(t->k, f->path))
		return -EBADFD;
	i = f->path.dentry->inode;
	if (!S_ISDIR(i->mode) && (a.allowed & ~(uint64_t)LANDLOCK_OF_FILES))
		return -EINVAL;
	return rule_add(t, s, f->path.dentry, 0, (uint32_t)a.allowed);
}

static long rule_port(struct task *t, struct ruleset *s, gva_t uattr)
{
	uint64_t a[2]; /* rights, port */

	if (guest_read(t, a, uattr, sizeof(a)) < 0)
		return -EFAULT;
	if (!a[0])
		return -ENOMSG;
	if ((a[0] & ~(uint64_t)s->what.net) || a[1] > UINT16_MAX)
		return -EINVAL;
	return rule_add(t, s, NULL, (uint32_t)a[1], (uint32_t)a[0]);
}

SYSCALL4(landlock_add_rule, int, fd, unsigned, type, gva_t, uattr, unsigned, flags)
{
	struct ruleset *s;
	long r;

	if (flags)
		return -EINVAL;
	r = ruleset_get(task, fd, &s);
	if (r < 0)
		return r;
	switch (type) {
	case RULE_PATH:
		return rule_path(task, s, uattr);
	case RULE_PORT:
		return rule_port(task, s, uattr);
	default:
		return -EINVAL;
	}
}

SYSCALL2(landlock_restrict_self, int, fd, unsigned, flags)
{
	struct landlock *d;
	struct ruleset *s;
	struct cred *c;
	long r;

	if (!task->no_new_privs && !task_capable_own(task, CAP_SYS_ADMIN))
		return -EPERM;
	if (flags)
		return -EINVAL;
	r = ruleset_get(task, fd, &s);
	if (r == 0)
		r = landlock_add(task->k, task->cred->landlock, &s->what, s->rules, &d);
	if (r < 0)
		return r;
	c = cred_copy(task->cred);
	if (!c) {
		landlock_unref(d);
		return -ENOMEM;
	}
	landlock_unref(c->landlock);
	c->landlock = d;
	cred_unref(task->cred);
	task->cred = c;
	place_shut(task); /* what was answered before may be refused now */
	return 0;
}

SYSCALL3(lsm_list_modules, gva_t, uids, gva_t, usize, unsigned, flags)
{
	static const uint64_t ids[] = { 100 /* capability */, 110 /* landlock */ };
	uint32_t size, need = sizeof(ids);

	if (flags)
		return -EINVAL;
	if (guest_read_u32(task, usize, &size) < 0 || guest_write_u32(task, usize, need) < 0)
		return -EFAULT;
	if (size < need)
		return -E2BIG;
	return guest_write(task, uids, ids, need) < 0 ? -EFAULT : (long)ARRAY_LEN(ids);
}

/* None of the two has an attribute of a task. */
SYSCALL4(lsm_get_self_attr, unsigned, attr, gva_t, ctx, gva_t, usize, unsigned, flags)
{
	uint32_t size;

	if (!attr || (flags & ~1u))
		return -EINVAL;
	if (guest_read_u32(task, usize, &size) < 0)
		return -EFAULT;
	return -EOPNOTSUPP;
}

SYSCALL4(lsm_set_self_attr, unsigned, attr, gva_t, uctx, uint32_t, size, unsigned, flags)
{
	uint64_t head[4]; /* id, flags, length, length of the value */

	if (flags || size < sizeof(head))
		return -EINVAL;
	if (size > PAGE)
		return -E2BIG;
	if (guest_read(task, head, uctx, sizeof(head)) < 0)
		return -EFAULT;
	if (size < head[2] || head[2] < sizeof(head) || head[3] > head[2] - sizeof(head))
		return -EINVAL;
	return -EOPNOTSUPP;
}
