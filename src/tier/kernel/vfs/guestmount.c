/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/guestmount.c - mounts that a guest makes, moves and takes away.
 *
 * Owns:  the rules. The host knows nothing of these mounts.
 * Rules: what the host gave read-only, without devices or without setuid programs stays so in every
 *        copy (mount.locked), and what was mounted at the start stays in its place (mount.kept).
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/fs/sysfs.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/guestmount.h"

enum { MODE_OWN = 010000 };

/* What a mount made at the start already is. */
static struct super *own_of(struct kernel *k, const struct super_ops *ops)
{
	for (struct mount *m = k->vfs->mounts; m; m = m->next)
		if (m->sb->ops == ops && m->kept)
			return super_ref(m->sb);
	return NULL;
}

static struct super *make_tmpfs(struct kernel *k, const struct mount_options *o)
{
	struct super *sb = tree_create(
		k, &tree_tmpfs, NULL, 0, 0, o->mode == MODE_OWN ? 01777 : o->mode & 07777);

	if (sb) {
		sb->root->inode->uid = o->uid;
		sb->root->inode->gid = o->gid;
		((struct tree *)sb->priv)->limit = o->size;
	}
	return sb;
}

static struct super *make_proc(struct kernel *k, const struct mount_options *o)
{
	return proc_create(k, (struct pid_ns *)o->pid);
}

static struct super *share_sysfs(struct kernel *k, const struct mount_options *o)
{
	return own_of(k, &tree_sysfs);
}

static struct super *share_devtmpfs(struct kernel *k, const struct mount_options *o)
{
	return own_of(k, &tree_devtmpfs);
}

static struct super *share_devpts(struct kernel *k, const struct mount_options *o)
{
	return own_of(k, &tree_devpts);
}

static struct super *share_mqueue(struct kernel *k, const struct mount_options *o)
{
	return own_of(k, &tree_mqueue);
}

/* In a user namespace: who owns that namespace may mount it. */
static const struct fs_type {
	const char *name;
	struct super *(*make)(struct kernel *k, const struct mount_options *o);
	enum ns_kind kind;
	bool first_only;
} types[] = {
	{ "tmpfs", make_tmpfs, NS_USER, false },
	{ "ramfs", make_tmpfs, NS_USER, false },
	{ "proc", make_proc, NS_PID, false },
	{ "sysfs", share_sysfs, NS_NET, false },
	{ "devtmpfs", share_devtmpfs, NS_USER, true },
	{ "devpts", share_devpts, NS_USER, false },
	{ "mqueue", share_mqueue, NS_IPC, false },
};

static const struct fs_type *find_type(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(types); i++)
		if (str_eq(types[i].name, name))
			return &types[i];
	return NULL;
}

const char *guest_fs_name(unsigned n)
{
	return n < ARRAY_LEN(types) ? types[n].name : NULL;
}

int guest_fs_check(const char *type)
{
	return find_type(type) ? 0 : -ENODEV;
}

int guest_fs_may(const struct task *t, const char *type)
{
	const struct fs_type *f = find_type(type);
	struct ns *n = f ? ns_of(t, f->kind) : NULL;
	struct user_ns *u = n && n->kind == NS_USER ? user_ns_of(n) : n ? n->owner : NULL;

	if (!f)
		return -ENODEV;
	return task_capable_in(t, f->first_only ? NULL : u, CAP_SYS_ADMIN) ? 0 : -EPERM;
}

int guest_fs_create(
	struct kernel *k, const char *type, const struct mount_options *o, struct super **ret)
{
	const struct fs_type *t = find_type(type);

	if (!t)
		return -ENODEV;
	*ret = t->make(k, o);
	if (!*ret)
		return -ENOMEM;
	if (o->user && (*ret)->refs == 1) /* a new one */
		(*ret)->owner = user_ns_of(ns_ref(&o->user->ns));
	if (o->read_only && t->make == make_tmpfs)
		(*ret)->flags |= SB_READ_ONLY;
	return 0;
}

uint64_t guest_fs_limit(const struct super *sb)
{
	return sb->ops == &tree_tmpfs ? ((const struct tree *)sb->priv)->limit : 0;
}

void mount_options_init(struct mount_options *o)
{
	*o = (struct mount_options){ .mode = MODE_OWN };
}

static int number(const char *s, int base, uint32_t *ret)
{
	char *end;
	unsigned long v;

	if (!s || !*s)
		return -EINVAL;
	errno = 0;
	v = strtoul(s, &end, base);
	if (errno || *end || v > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

static int id_option(
	const struct mount_options *o, enum id_kind kind, const char *value, uint32_t *ret)
{
	uint32_t id;
	int r = number(value, 10, &id);

	if (r == 0)
		id = id_taken(o->user, kind, id);
	if (r < 0 || id == ID_NONE)
		return -EINVAL;
	*ret = id;
	return 0;
}

/* "64m", "50%"; in units of @unit. */
static int size_of(const char *s, uint64_t unit, uint64_t *ret)
{
	static const char suffixes[] = "kmgt";
	unsigned long long v;
	const char *at;
	char *end;

	if (!s || *s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 0);
	if (errno)
		return -EINVAL;
	if (*end == '%' && !end[1]) { /* of the memory, which is not the guest's to divide */
		*ret = 0;
		return 0;
	}
	at = *end ? strchr(suffixes, *end | 0x20) : NULL;
	if (*end && (!at || end[1]))
		return -EINVAL;
	for (long n = at ? at - suffixes + 1 : 0; n > 0; n--)
		if (ckd_mul(&v, v, 1024))
			return -EINVAL;
	if (ckd_mul(&v, v, unit) || v > INT64_MAX)
		return -EINVAL;
	*ret = (v + 4095) & ~4095ULL;
	return 0;
}

bool mount_option_is_common(const char *key)
{
	static const char *const words[] = { "ro", "rw", "sync", "async", "dirsync", "lazytime",
		"nolazytime", "mand", "nomand" };

	for (unsigned i = 0; i < ARRAY_LEN(words); i++)
		if (str_eq(key, words[i]))
			return true;
	return false;
}

int mount_option(const char *type, struct mount_options *o, const char *key, const char *value)
{
	static const char *const taken[] = { "huge", "mpol", "newinstance", "ptmxmode", "hidepid",
		"subset", "inode32", "inode64", "noswap" };
	uint64_t ignored;

	/* What every file system knows; a value is not looked at, as on Linux. */
	if (mount_option_is_common(key)) {
		if (key[0] == 'r')
			o->read_only = key[1] == 'o';
		return 0;
	}
	if (str_eq(key, "mode"))
		return number(value, 8, &o->mode);
	if (str_eq(key, "uid"))
		return id_option(o, ID_UID, value, &o->uid);
	if (str_eq(key, "gid"))
		return id_option(o, ID_GID, value, &o->gid);
	if (!str_eq(type, "tmpfs") &&
		(str_eq(key, "size") || str_eq(key, "nr_inodes") || str_eq(key, "nr_blocks")))
		return -EINVAL;
	if (str_eq(key, "size"))
		return size_of(value, 1, &o->size);
	if (str_eq(key, "nr_blocks"))
		return size_of(value, 4096, &o->size);
	if (str_eq(key, "nr_inodes"))
		return size_of(value, 1, &ignored);
	for (unsigned i = 0; i < ARRAY_LEN(taken); i++)
		if (str_eq(key, taken[i]))
			return 0;
	return -EINVAL;
}

int mount_option_text(const char *type, struct mount_options *o, char *text)
{
	char *save = text, *one;

	while ((one = strsep(&save, ","))) {
		char *eq = strchr(one, '=');
		int r;

		if (!*one)
			continue;
		if (eq)
			*eq = '\0';
		r = mount_option(type, o, one, eq ? eq + 1 : NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_dir(struct path p)
{
	return S_ISDIR(p.dentry->inode->mode);
}

int guest_attach(struct mount *m, struct path at)
{
	if (S_ISDIR(m->root->inode->mode) != is_dir(at))
		return -ENOTDIR;
	if ((at.dentry->flags & DENTRY_DELETED) || S_ISLNK(at.dentry->inode->mode))
		return -ENOENT;
	mount_attach(m, &at);
	return 0;
}

int guest_graft(struct mount *m, struct path at)
{
	struct spread s;
	int r;

	if (at.mnt->group && mount_has_unbindable(m))
		return -EINVAL;
	r = spread_begin(&s, m, at);
	if (r < 0)
		return r;
	r = guest_attach(m, at);
	if (r < 0)
		spread_drop(&s);
	else
		spread_end(&s);
	return r;
}

int guest_mount(struct kernel *k, struct path at, const char *type, unsigned flags,
	const char *source, const struct mount_options *o)
{
	struct super *sb;
	struct mount *m;
	int r = guest_fs_create(k, type, o, &sb);

	if (r < 0)
		return r;
	m = mount_new(k, sb, sb->root, flags, source);
	super_unref(sb);
	if (!m)
		return -ENOSPC;
	r = guest_graft(m, at);
	mount_unref(m);
	return r;
}

static struct mount *copy_one(struct mount *from, struct dentry *root, enum copy_kind kind)
{
	struct mount *m = mount_new(from->sb->k, from->sb, root, from->flags, from->source);

	if (m) {
		m->locked = from->locked;
		mount_copy_kind(m, from, kind);
	}
	return m;
}

/* One whose parent has a copy and that has none itself, and that copy. A mount may stand on a newer
 * one: the list is not in their order. */
static struct mount *next_to_copy(const struct mount *from, const struct dentry *root,
	struct mount *to, bool bind, struct mount **ret)
{
	for (struct mount *c = from->sb->k->vfs->mounts; c; c = c->next) {
		if (!c->parent || c->copy || c->is_copy || c == to || nsfs_is_mnt(c->root->inode) ||
			(bind && c->unbindable))
			continue;
		*ret = c->parent == from && dentry_is_below(c->point, root) ? to : c->parent->copy;
		if (*ret)
			return c;
	}
	return NULL;
}

/* The children of @from that are below @root, onto @to; and theirs. @bind: what is unbindable stays
 * behind. */
static int copy_below(
	struct mount *from, struct dentry *root, struct mount *to, bool bind, enum copy_kind kind)
{
	struct mount *parent, *made, *c;

	while ((c = next_to_copy(from, root, to, bind, &parent))) {
		made = copy_one(c, c->root, kind);
		if (!made)
			return -ENOSPC;
		made->fixed = c->fixed;
		made->is_copy = true;
		c->copy = made;
		mount_attach(made, &(struct path){ parent, c->point });
		mount_unref(made);
	}
	return 0;
}

void guest_copied(struct vfs_state *v)
{
	for (struct mount *o = v->mounts; o; o = o->next) {
		o->copy = NULL;
		o->is_copy = false;
	}
}

int guest_copy_tree(struct mount *root, enum copy_kind kind, struct mount **ret)
{
	struct mount *m = copy_one(root, root->root, kind);
	int r;

	if (!m)
		return -ENOSPC;
	m->is_copy = true;
	root->copy = m;
	r = copy_below(root, root->root, m, false, kind);
	if (r < 0) {
		guest_copied(root->sb->k->vfs);
		mount_unref(m);
		return r;
	}
	*ret = m;
	return 0;
}

int guest_clone(struct path from, bool all, struct mount **ret)
{
	struct vfs_state *v = from.mnt->sb->k->vfs;
	struct mount *m;
	int r = 0;

	if (from.mnt == v->anon || from.dentry->sb == v->memfds || from.mnt->unbindable)
		return -EINVAL;
	m = copy_one(from.mnt, from.dentry, COPY_PEER);
	if (!m)
		return -ENOSPC;
	if (all)
		r = copy_below(from.mnt, from.dentry, m, true, COPY_PEER);
	guest_copied(v);
	if (r < 0) {
		mount_unref(m);
		return r;
	}
	*ret = m;
	return 0;
}

/* Is there something below that its namespace may not look under? */
static bool hides_below(struct path p)
{
	for (struct mount *c = p.mnt->sb->k->vfs->mounts; c; c = c->next)
		if (c->parent == p.mnt && c->fixed && dentry_is_below(c->point, p.dentry))
			return true;
	return false;
}

int guest_bind(struct path from, struct path at, bool all)
{
	struct mount *m;
	int r;

	if (is_dir(from) != is_dir(at))
		return -ENOTDIR;
	if (!all && hides_below(from))
		return -EINVAL;
	r = guest_clone(from, all, &m);
	if (r == 0) {
		r = guest_graft(m, at);
		mount_unref(m);
	}
	return r;
}

/* From its place to another; what is mounted on it goes along. */
static int mount_move(struct mount *m, struct path at)
{
	struct dentry *point = m->point;
	int r = guest_graft(m, at);

	if (r == 0 && point)
		mount_left(m, point);
	return r;
}

int guest_move(struct path from, struct path at)
{
	struct mount *m = from.mnt;

	if (from.dentry != m->root || !m->parent || m->kept || m->fixed || m->parent->group)
		return -EINVAL;
	if (is_dir(from) != is_dir(at))
		return -EINVAL;
	if (mount_is_below(at.mnt, m))
		return -ELOOP;
	return mount_move(m, at);
}

int guest_move_beneath(struct path from, struct path at)
{
	struct mount *m = from.mnt, *top = at.mnt;
	struct dentry *was = m->point, *point = top->point;
	int r;

	if (from.dentry != m->root || m->kept || m->fixed || at.dentry != top->root ||
		!top->parent || top->kept || (m->parent && m->parent->group))
		return -EINVAL;
	if (is_dir(from) != is_dir(at) || mount_is_below(top, m))
		return -EINVAL;
	r = guest_graft(m, (struct path){ top->parent, point });
	if (r < 0)
		return r;
	if (was)
		mount_left(m, was);
	mount_attach(top, &(struct path){ m, m->root });
	mount_left(top, point);
	return 0;
}

static unsigned writers_of(const struct super *sb)
{
	unsigned n = 0;

	for (struct mount *m = sb->k->vfs->mounts; m; m = m->next)
		n += m->sb == sb ? m->writers : 0;
	return n;
}

int guest_change(struct mount *m, unsigned flags)
{
	const unsigned times = MOUNT_NO_ATIME | MOUNT_NO_DIRATIME | MOUNT_STRICT_ATIME;

	if (m->locked & ~flags & MOUNT_LOCKABLE)
		return -EPERM;
	if ((m->locked & MOUNT_LOCK_TIMES) && ((flags ^ m->flags) & times))
		return -EPERM;
	if ((flags & ~m->flags & MOUNT_READ_ONLY) && m->writers)
		return -EBUSY;
	m->flags = flags;
	return 0;
}

int guest_reconfigure(struct path at, unsigned flags, bool read_only)
{
	struct super *sb = at.mnt->sb;
	int r;

	if (at.dentry != at.mnt->root)
		return -EINVAL;
	if (read_only && !(sb->flags & SB_READ_ONLY) && writers_of(sb))
		return -EBUSY;
	r = guest_change(at.mnt, flags | (at.mnt->locked & MOUNT_READ_ONLY));
	if (r < 0)
		return r;
	if (at.mnt->kept) /* others stand on it too: this mount alone */
		return guest_change(at.mnt, flags | (read_only ? MOUNT_READ_ONLY : 0));
	sb->flags = read_only ? sb->flags | SB_READ_ONLY : sb->flags & ~(unsigned)SB_READ_ONLY;
	return 0;
}

static bool has_children(const struct mount *m)
{
	for (struct mount *c = m->sb->k->vfs->mounts; c; c = c->next)
		if (c->parent == m)
			return true;
	return false;
}

/* @at is the caller's one reference on it. */
int guest_umount(struct task *t, struct path at, unsigned flags)
{
	struct mount *m = at.mnt;
	bool busy;

	if (at.dentry != m->root || !m->parent || m->kept || m->fixed)
		return -EINVAL;
	if (t->fs->root.mnt == m && t->fs->root.dentry == m->root)
		return -EINVAL;
	busy = m->refs > 2 || has_children(m) || spread_busy(m);
	if (flags & MNT_EXPIRE) {
		if (busy)
			return -EBUSY;
		if (!m->expiring) {
			m->expiring = true;
			return -EAGAIN;
		}
	}
	if (busy && !(flags & MNT_DETACH))
		return -EBUSY;
	return spread_detach(m);
}
