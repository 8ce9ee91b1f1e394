/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/ns/nsfs.c - namespaces as files: what /proc/PID/ns leads to, opened or bind-mounted.
 *
 * Owns:  struct node, the mount that is nowhere in the tree.
 * Rules: a name is a kind and a number, and found again by both. An inode holds its namespace.
 */
#include <errno.h>
#include <linux/nsfs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"

/* Newer than the headers of some hosts. */
#define NS_GET_MNTNS_ID_ _IOR(NSIO, 0x5, uint64_t)
#define NS_GET_PID_FROM_PIDNS_ _IOR(NSIO, 0x6, int)
#define NS_GET_TGID_FROM_PIDNS_ _IOR(NSIO, 0x7, int)
#define NS_GET_PID_IN_PIDNS_ _IOR(NSIO, 0x8, int)
#define NS_GET_TGID_IN_PIDNS_ _IOR(NSIO, 0x9, int)

enum { NSFS_MAGIC_ = 0x6e736673, NAME_CAP = 32 };

struct node {
	enum ns_kind kind;
	struct ns *ns; /* reference, or NULL: the first */
};

static const struct node *node(const struct inode *i)
{
	return i->priv;
}

static void release(struct inode *i)
{
	struct node *n = i->priv;

	if (n)
		ns_unref(n->ns);
	free(n);
}

static int no_setattr(struct inode *i, const struct iattr *a)
{
	return -EPERM;
}

static int ns_open(struct inode *i, struct file *f, struct task *t)
{
	f->ops = &ns_file_ops;
	return 0;
}

static const struct inode_ops ns_ops = {
	.open = ns_open,
	.setattr = no_setattr,
	.release = release,
};

/* "uts:[4026531838]"; false: there is no such one. */
static bool find_name(struct kernel *k, const char *name, enum ns_kind *ret_kind, struct ns **ret)
{
	char now[NAME_CAP];

	for (int kind = 0; kind < NS_KINDS; kind++) {
		str_fmt(now, sizeof(now), "%s:[%u]", ns_name(kind), ns_number(kind, NULL));
		if (str_eq(now, name)) {
			*ret_kind = kind;
			*ret = NULL;
			return true;
		}
	}
	for (struct ns *n = k->namespaces; n; n = n->next) {
		str_fmt(now, sizeof(now), "%s:[%u]", ns_name(n->kind), n->number);
		if (str_eq(now, name)) {
			*ret_kind = n->kind;
			*ret = n;
			return true;
		}
	}
	return false;
}

static int ns_lookup(struct inode *dir, struct dentry *d)
{
	struct node *n;
	enum ns_kind kind;
	struct ns *ns;

	if (!find_name(dir->sb->k, d->name, &kind, &ns))
		return 0;
	n = malloc(sizeof(*n));
	d->inode = n ? inode_create(dir->sb, &ns_ops, S_IFREG | 0444) : NULL;
	if (!d->inode) {
		free(n);
		return -ENOMEM;
	}
	*n = (struct node){ kind, ns_ref(ns) };
	d->inode->priv = n;
	d->inode->ino = ns_number(kind, ns);
	d->inode->nlink = 1;
	d->inode->atime = d->inode->mtime = d->inode->ctime = d->inode->btime =
		kernel_realtime(dir->sb->k);
	return 0;
}

static const struct inode_ops dir_ops = { .lookup = ns_lookup, .setattr = no_setattr };
static const struct super_ops ns_super = { .name = "nsfs", .magic = NSFS_MAGIC_ };

int nsfs_init(struct kernel *k)
{
	struct super *sb = super_create(k, &ns_super, SB_NO_CACHE | SB_PLAIN, NULL);
	struct inode *i = sb ? inode_create(sb, &dir_ops, S_IFDIR | 0555) : NULL;
	struct mount *m = calloc(1, sizeof(*m));

	if (i)
		i->ino = 1;
	if (sb)
		sb->root = i ? dentry_create_root(sb, i) : NULL;
	if (m)
		m->source = strdup(ns_super.name);
	if (!sb || !sb->root || !m || !m->source) {
		if (!sb || !sb->root)
			inode_unref(i);
		super_unref(sb);
		free(m ? m->source : NULL);
		free(m);
		return -ENOMEM;
	}
	m->refs = 1;
	m->sb = sb;
	m->root = dentry_ref(sb->root);
	k->vfs->nsfs = m;
	return 0;
}

void nsfs_done(struct kernel *k)
{
	struct mount *m = k->vfs->nsfs;

	if (!m)
		return;
	dentry_unref(m->root);
	super_unref(m->sb);
	free(m->source);
	free(m);
	k->vfs->nsfs = NULL;
}

int nsfs_path(struct kernel *k, enum ns_kind kind, struct ns *n, struct path *ret)
{
	struct mount *m = k->vfs->nsfs;
	char name[NAME_CAP];
	struct dentry *d;
	int r;

	str_fmt(name, sizeof(name), "%s:[%u]", ns_name(kind), ns_number(kind, n));
	d = dentry_create(m->root, name, strlen(name));
	if (!d)
		return -ENOMEM;
	r = ns_lookup(m->root->inode, d);
	if (r == 0 && !d->inode)
		r = -ENOENT;
	if (r < 0) {
		dentry_unref(d);
		return r;
	}
	*ret = (struct path){ mount_ref(m), d };
	return 0;
}

bool nsfs_is_mnt(const struct inode *i)
{
	return i->ops == &ns_ops && node(i)->kind == NS_MNT;
}

bool nsfs_is_loop(const struct task *t, const struct inode *i)
{
	const struct ns *own = ns_of(t, NS_MNT), *n = nsfs_is_mnt(i) ? node(i)->ns : NULL;

	return nsfs_is_mnt(i) && (!n || (own && n->number <= own->number));
}

bool nsfs_file(const struct file *f, enum ns_kind *ret_kind, struct ns **ret)
{
	if (f->ops != &ns_file_ops)
		return false;
	*ret_kind = node(f->inode)->kind;
	*ret = node(f->inode)->ns;
	return true;
}

/* What is asked of one by ioctl(2). */

static long open_related(struct task *t, enum ns_kind kind, struct ns *n)
{
	struct path p;
	struct file *f;
	int r = nsfs_path(t->k, kind, n, &p);

	if (r < 0)
		return r;
	r = vfs_open_path(t, p, 0, true, &f);
	path_unref(p);
	if (r < 0)
		return r;
	r = fd_install(t, f, true, 0);
	if (r < 0)
		file_unref(f);
	return r;
}

/* @u, if it is the caller's own or below that. */
static long open_owner(struct task *t, const struct node *n)
{
	struct user_ns *u = n->ns ? n->ns->owner : NULL;

	if (n->kind == NS_USER && !n->ns)
		return -EPERM; /* the first has nobody above it */
	if (!user_ns_is_below(u, t->cred->user))
		return -EPERM;
	return open_related(t, NS_USER, u ? &u->ns : NULL);
}

/* The parent, if it is the caller's own or below that. */
static long open_parent(struct task *t, const struct node *n)
{
	struct pid_ns *p = n->ns ? ((struct pid_ns *)n->ns)->parent : NULL;

	if (!n->ns || !pid_ns_is_below(p, pid_ns_of(t)))
		return -EPERM;
	return open_related(t, NS_PID, p ? &p->ns : NULL);
}

/* What a number of one of the two namespaces, the caller's and @n, is in the other. */
static long number_in(struct task *t, struct ns *n, unsigned cmd, int32_t nr)
{
	bool out = cmd == NS_GET_PID_FROM_PIDNS_ || cmd == NS_GET_TGID_FROM_PIDNS_;
	bool tgid = cmd == NS_GET_TGID_FROM_PIDNS_ || cmd == NS_GET_TGID_IN_PIDNS_;
	struct pid_ns *own = pid_ns_of(t), *other = (struct pid_ns *)n;
	struct task *it = nr > 0 ? task_in(t->k, out ? other : own, nr) : NULL;
	int32_t shown;

	if (!it || it->state == TASK_DEAD)
		return -ESRCH;
	it = tgid ? proc_leader(it->proc) : it;
	shown = pid_shown(out ? own : other, it->tid, it->nums);
	return shown ? shown : -ESRCH;
}

static long ns_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	const struct node *n = node(f->inode);

	switch (cmd) {
	case NS_GET_USERNS:
		return open_owner(t, n);
	case NS_GET_PARENT:
		if (n->kind == NS_USER)
			return open_owner(t, n);
		return n->kind == NS_PID ? open_parent(t, n) : -EINVAL;
	case NS_GET_NSTYPE:
		return (long)ns_flag(n->kind);
	case NS_GET_OWNER_UID:
		if (n->kind != NS_USER)
			return -EINVAL;
		return guest_write_u32(t, GVA(arg), uid_out(t, n->ns ? user_ns_of(n->ns)->uid : 0));
	case NS_GET_MNTNS_ID_:
		if (n->kind != NS_MNT)
			return -EINVAL;
		return guest_write_u64(t, GVA(arg), mnt_id(n->ns));
	case NS_GET_PID_FROM_PIDNS_:
	case NS_GET_TGID_FROM_PIDNS_:
	case NS_GET_PID_IN_PIDNS_:
	case NS_GET_TGID_IN_PIDNS_:
		return n->kind == NS_PID ? number_in(t, n->ns, cmd, (int32_t)arg) : -EINVAL;
	default:
		return -ENOTTY;
	}
}

const struct file_ops ns_file_ops = { .name = "nsfs", .ioctl = ns_ioctl };
