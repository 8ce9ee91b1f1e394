/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/landlock.c - what a task may still do after it has given up the rest.
 *
 * Owns:  struct landlock, and the inodes that its rules name.
 * Rules: under the kernel lock. A rule is found by file system and number, not by address: some
 * file systems make their inodes anew each time. Layers share nothing, so each is asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/vfs.h"

/* What each layer still refuses, by depth. */
struct refused {
	unsigned by[LANDLOCK_LAYERS];
};

int landlock_rule_order(const void *a, const void *b)
{
	const struct landlock_rule *x = a, *y = b;
	const struct super *sx, *sy;
	uint64_t nx = x->inode ? x->inode->ino : x->port, ny = y->inode ? y->inode->ino : y->port;

	if (!x->inode != !y->inode)
		return x->inode ? 1 : -1; /* ports first */
	sx = x->inode ? x->inode->sb : NULL;
	sy = y->inode ? y->inode->sb : NULL;
	if (sx && sy && sx->dev != sy->dev)
		return sx->dev < sy->dev ? -1 : 1;
	if (sx != sy)
		return (uintptr_t)sx < (uintptr_t)sy ? -1 : 1;
	return nx < ny ? -1 : nx > ny;
}

static const struct landlock_rule *find(const struct landlock *d, const struct landlock_rule *like)
{
	return bsearch(like, d->rules, d->count, sizeof(d->rules[0]), landlock_rule_order);
}

void landlock_rule_hold(const struct landlock_rule *r)
{
	if (r->inode)
		inode_ref(r->inode);
	if (r->name)
		dentry_ref(r->name);
}

void landlock_rule_drop(const struct landlock_rule *r)
{
	/* The inode last: a file system that is over stays for it while its names go. */
	dentry_unref(r->name);
	inode_unref(r->inode);
}

int landlock_add(struct kernel *k, struct landlock *below, const struct landlock_rights *what,
	const struct landlock_rule *rules, struct landlock **ret)
{
	uint32_t depth = below ? below->depth + 1 : 0;
	struct landlock *d;

	if (depth >= LANDLOCK_LAYERS || what->count > LANDLOCK_RULES_MAX - k->landlock_rules)
		return -E2BIG;
	d = malloc(sizeof(*d) + what->count * sizeof(rules[0]));
	if (!d)
		return -ENOMEM;
	*d = (struct landlock){ .refs = 1,
		.depth = depth,
		.k = k,
		.below = landlock_ref(below),
		.fs = what->fs ? what->fs | LANDLOCK_REFER : 0,
		.net = what->net,
		.scoped = what->scoped,
		.count = what->count };
	if (what->count) {
		memcpy(d->rules, rules, what->count * sizeof(rules[0]));
		qsort(d->rules, d->count, sizeof(d->rules[0]), landlock_rule_order);
	}
	for (uint32_t i = 0; i < d->count; i++)
		landlock_rule_hold(&d->rules[i]);
	k->landlock_rules += d->count;
	*ret = d;
	return 0;
}

struct landlock *landlock_ref(struct landlock *d)
{
	if (d)
		d->refs++;
	return d;
}

void landlock_unref(struct landlock *d)
{
	while (d && --d->refs == 0) {
		struct landlock *below = d->below;

		for (uint32_t i = 0; i < d->count; i++)
			landlock_rule_drop(&d->rules[i]);
		d->k->landlock_rules -= d->count;
		free(d);
		d = below;
	}
}

bool landlock_is_nowhere(const struct kernel *k, struct path p)
{
	return p.mnt == k->vfs->anon || p.dentry->sb == k->vfs->memfds;
}

static bool handles_files(const struct landlock *d)
{
	for (; d; d = d->below)
		if (d->fs)
			return true;
	return false;
}

/* Takes away what a rule about @i allows. True: nothing is refused any more. */
static bool lift(const struct landlock *d, struct inode *i, struct refused *r)
{
	struct landlock_rule like = { .inode = i };
	unsigned left = 0;

	for (; d; d = d->below) {
		const struct landlock_rule *rule = r->by[d->depth] ? find(d, &like) : NULL;

		if (rule)
			r->by[d->depth] &= ~rule->allowed;
		left |= r->by[d->depth];
	}
	return !left;
}

/* To the directory above, out of mounts; what a mount lies on does not count. */
static bool upwards(struct path *p)
{
	while (p->dentry == p->mnt->root) {
		if (!p->mnt->parent)
			return false;
		p->dentry = p->mnt->point;
		p->mnt = p->mnt->parent;
	}
	p->dentry = p->dentry->parent;
	return p->dentry != NULL;
}

static void ask(const struct landlock *d, struct path p, unsigned want, struct refused *ret)
{
	for (const struct landlock *l = d; l; l = l->below)
		ret->by[l->depth] = want & l->fs;
	do
		if (p.dentry->inode && lift(d, p.dentry->inode, ret))
			return;
	while (upwards(&p));
}

static unsigned any(const struct landlock *d, const struct refused *r)
{
	unsigned all = 0;

	for (; d; d = d->below)
		all |= r->by[d->depth];
	return all;
}

static unsigned refused_at(const struct task *t, struct path p, unsigned want)
{
	const struct landlock *d = t->cred->landlock;
	struct refused r;

	if (!d || landlock_is_nowhere(t->k, p))
		return 0;
	ask(d, p, want, &r);
	return any(d, &r);
}

int landlock_path(struct task *t, struct path p, unsigned want)
{
	return refused_at(t, p, want) ? -EACCES : 0;
}

unsigned landlock_make(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFLNK:
		return LANDLOCK_MAKE_SYM;
	case S_IFDIR:
		return LANDLOCK_MAKE_DIR;
	case S_IFCHR:
		return LANDLOCK_MAKE_CHAR;
	case S_IFBLK:
		return LANDLOCK_MAKE_BLOCK;
	case S_IFIFO:
		return LANDLOCK_MAKE_FIFO;
	case S_IFSOCK:
		return LANDLOCK_MAKE_SOCK;
	default:
		return LANDLOCK_MAKE_REG;
	}
}

int landlock_open(
	struct task *t, struct path p, unsigned flags, bool run, bool cut, unsigned *ret_refused)
{
	const unsigned later = LANDLOCK_TRUNCATE | LANDLOCK_IOCTL_DEV;
	unsigned want = 0, no;

	*ret_refused = 0;
	if ((flags & O_ACCMODE) != O_WRONLY)
		want |= S_ISDIR(p.dentry->inode->mode) ? LANDLOCK_LIST : LANDLOCK_READ;
	if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_ACCMODE) == O_RDWR)
		want |= LANDLOCK_WRITE;
	want |= (run ? LANDLOCK_EXECUTE : 0) | (cut ? LANDLOCK_TRUNCATE : 0);
	no = refused_at(t, p, want | later);
	if (no & want)
		return -EACCES;
	*ret_refused = no & later;
	return 0;
}

int landlock_ioctl(const struct file *f, unsigned cmd)
{
	if (!(f->refused & LANDLOCK_IOCTL_DEV) ||
		!(S_ISCHR(f->inode->mode) || S_ISBLK(f->inode->mode)))
		return 0;
	switch (cmd) { /* about the descriptor, or the file system, and not the device */
	case FIOCLEX:
	case FIONCLEX:
	case FIONBIO:
	case FIOASYNC:
	case FIOQSIZE:
	case FIFREEZE:
	case FITHAW:
	case FIGETBSZ:
	case FICLONE:
	case FICLONERANGE:
	case FIDEDUPERANGE:
		return 0;
	default:
		return -EACCES;
	}
}

static unsigned removal(const struct dentry *d)
{
	if (!d->inode)
		return 0;
	return S_ISDIR(d->inode->mode) ? LANDLOCK_REMOVE_DIR : LANDLOCK_REMOVE_FILE;
}

/* Would @child be allowed something at @to that it is refused at @from? */
static bool gains(const struct landlock *d, const struct refused *from, const struct refused *to,
	struct inode *child)
{
	unsigned of = S_ISDIR(child->mode) ? LANDLOCK_ALL : LANDLOCK_OF_FILES;
	struct refused before = *from;

	lift(d, child, &before);
	for (; d; d = d->below)
		if (before.by[d->depth] & ~to->by[d->depth] & of)
			return true;
	return false;
}

int landlock_refer(struct task *t, const struct landlock_move *m)
{
	const struct landlock *d = t->cred->landlock;
	unsigned from_want = 0, to_want = landlock_make(m->old->inode->mode), no;
	struct refused from, to;

	if (!handles_files(d))
		return 0;
	if (m->swaps && m->over->inode)
		from_want |= landlock_make(m->over->inode->mode);
	if (m->removes) {
		from_want |= removal(m->old);
		to_want |= removal(m->over);
	}
	if (m->from.dentry == m->to.dentry)
		return landlock_path(t, m->to, from_want | to_want);
	ask(d, m->from, LANDLOCK_ALL, &from);
	ask(d, m->to, LANDLOCK_ALL, &to);
	no = (any(d, &from) & (from_want | LANDLOCK_REFER)) |
	     (any(d, &to) & (to_want | LANDLOCK_REFER));
	if (no & ~(unsigned)LANDLOCK_REFER)
		return -EACCES;
	if (no || gains(d, &from, &to, m->old->inode) ||
		(m->swaps && m->over->inode && gains(d, &to, &from, m->over->inode)))
		return -EXDEV;
	return 0;
}

int landlock_mount(const struct task *t)
{
	return handles_files(t->cred->landlock) ? -EPERM : 0;
}

int landlock_port(const struct task *t, unsigned want, uint16_t port)
{
	struct landlock_rule like = { .port = port };

	for (const struct landlock *d = t->cred->landlock; d; d = d->below) {
		const struct landlock_rule *r = d->net & want ? find(d, &like) : NULL;

		if (d->net & want & ~(r ? r->allowed : 0))
			return -EACCES;
	}
	return 0;
}

bool landlock_covers(const struct landlock *d, const struct landlock *other)
{
	while (other && other != d)
		other = other->below;
	return other == d;
}

bool landlock_scoped(const struct landlock *from, const struct landlock *to, unsigned scope)
{
	for (; from; from = from->below)
		if ((from->scoped & scope) && !landlock_covers(from, to))
			return true;
	return false;
}
