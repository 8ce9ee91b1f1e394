/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/ns/mnt.c - mount namespaces: a tree of mounts copied, entered, turned round.
 *
 * Owns:  struct mnt_ns.
 * Rules: a copy for another user namespace keeps what it hides hidden: its mounts stay where they
 *        are (mount.fixed) and as they are (mount.locked).
 */
#include <errno.h>
#include <linux/capability.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/guestmount.h"
#include "tier/kernel/walk.h"

static struct mnt_ns *mnt_of(const struct task *t)
{
	return (struct mnt_ns *)ns_of(t, NS_MNT);
}

struct mount *mnt_root(const struct task *t)
{
	const struct mnt_ns *n = mnt_of(t);

	return n ? n->root : t->k->root_mount;
}

bool mnt_may(const struct task *t)
{
	const struct mnt_ns *n = mnt_of(t);

	return task_capable_in(t, n ? n->ns.owner : NULL, CAP_SYS_ADMIN);
}

static const struct mount *top_of(const struct mount *m)
{
	while (m->parent)
		m = m->parent;
	return m;
}

bool mnt_has(const struct mount *m)
{
	return top_of(m)->top;
}

struct user_ns *mnt_owner(const struct mount *m)
{
	const struct mount *top = top_of(m);

	for (const struct ns *n = m->sb->k->namespaces; n; n = n->next)
		if (n->kind == NS_MNT && ((const struct mnt_ns *)n)->root == top)
			return n->owner;
	return NULL;
}

bool mnt_is_foreign(const struct task *t, const struct mount *m)
{
	m = top_of(m);
	return m->top && m != mnt_root(t);
}

static void move_path(struct path *p)
{
	struct mount *copy = p->mnt->copy;

	if (copy) {
		mount_unref(p->mnt);
		p->mnt = mount_ref(copy);
	}
}

struct ns *mnt_create(struct task *t, struct fs_ctx *fs, struct user_ns *owner, int *ret_err)
{
	const struct mnt_ns *old = mnt_of(t);
	struct vfs_state *v = t->k->vfs;
	struct mnt_ns *n = ns_create(t->k, NS_MNT, sizeof(*n), owner, ret_err);

	if (!n)
		return NULL;
	*ret_err = guest_copy_tree(mnt_root(t),
		owner != (old ? old->ns.owner : NULL) ? COPY_HEARS : COPY_PEER, &n->root);
	if (*ret_err < 0) {
		ns_unref(&n->ns);
		return NULL;
	}
	n->root->top = true;
	if (owner != (old ? old->ns.owner : NULL))
		mount_lock_tree(n->root);
	move_path(&fs->root);
	move_path(&fs->cwd);
	guest_copied(v);
	return &n->ns;
}

void mnt_gone(struct mnt_ns *n)
{
	if (!n->root)
		return;
	n->root->top = false;
	mount_detach(n->root);
	mount_unref(n->root);
	n->root = NULL;
}

void mnt_done(struct kernel *k)
{
	struct ns *n = k->namespaces;

	while (n) {
		if (n->kind != NS_MNT || !((struct mnt_ns *)n)->root) {
			n = n->next;
			continue;
		}
		ns_ref(n); /* what holds it may be mounted in it */
		mnt_gone((struct mnt_ns *)n);
		ns_unref(n);
		n = k->namespaces; /* others may have gone with it */
	}
}

void mnt_down(struct path *p)
{
	struct mount *m;

	while ((m = mount_at(p->mnt, p->dentry))) {
		struct path below = { m, m->root };

		path_ref(below);
		path_unref(*p);
		*p = below;
	}
}

void mnt_go(struct kernel *k, struct fs_ctx *fs, const struct mnt_ns *n)
{
	struct mount *root = n ? n->root : k->root_mount;
	struct path top = path_ref((struct path){ root, root->root });

	mnt_down(&top);
	path_unref(fs->root);
	path_unref(fs->cwd);
	fs->root = top;
	fs->cwd = path_ref(top);
}

/* Does the way up from @p lead to @above? */
static bool reachable(struct path p, struct path above)
{
	while (p.mnt != above.mnt && p.mnt->parent)
		p = (struct path){ p.mnt->parent, p.mnt->point };
	return p.mnt == above.mnt && dentry_is_below(p.dentry, above.dentry);
}

static int may_pivot(struct task *t, struct path to, struct path old)
{
	struct path root = t->fs->root;

	if (mnt_is_foreign(t, to.mnt) || mnt_is_foreign(t, root.mnt) ||
		mnt_is_foreign(t, old.mnt) || to.mnt->fixed)
		return -EINVAL;
	if (to.dentry->flags & DENTRY_DELETED)
		return -ENOENT;
	/* Nobody else is to hear of it. */
	if (old.mnt->group || (to.mnt->parent && to.mnt->parent->group) ||
		(root.mnt->parent && root.mnt->parent->group))
		return -EINVAL;
	if (to.mnt == root.mnt || old.mnt == root.mnt)
		return -EBUSY;
	if (root.dentry != root.mnt->root || to.dentry != to.mnt->root || !to.mnt->parent)
		return -EINVAL;
	if (!reachable(old, to) || !reachable(to, root))
		return -EINVAL;
	/* What the sandbox began with stays, and so does what nothing can be put on. */
	if (root.mnt->kept || to.mnt->kept ||
		((old.dentry->sb->flags & SB_NO_CACHE) && old.dentry->parent))
		return -EINVAL;
	return 0;
}

/* Whoever stands at @from stands at @to now. */
static void move_everybody(struct kernel *k, struct path from, struct path to)
{
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next) {
			struct path *places[] = { t->fs ? &t->fs->root : NULL,
				t->fs ? &t->fs->cwd : NULL };

			for (int i = 0; i < 2; i++)
				if (places[i] && places[i]->mnt == from.mnt &&
					places[i]->dentry == from.dentry) {
					path_ref(to);
					path_unref(*places[i]);
					*places[i] = to;
				}
		}
}

static void leave_place(struct mount *m)
{
	struct dentry *point = m->point;

	m->parent = NULL;
	m->point = NULL;
	mount_left(m, point);
}

int mnt_pivot(struct task *t, struct path to, struct path old)
{
	struct path from = path_ref(t->fs->root), place = { NULL, NULL };
	struct mount *was = from.mnt, *now = to.mnt;
	struct mnt_ns *n = mnt_of(t);
	bool fixed = was->fixed;
	int r = may_pivot(t, to, old);

	if (r < 0) {
		path_unref(from);
		return r;
	}
	if (was->parent)
		place = path_ref((struct path){ was->parent, was->point });
	leave_place(now);
	if (place.mnt) {
		leave_place(was);
		mount_attach(now, &place);
		path_unref(place);
	} else { /* the namespace's reference goes from one to the other */
		was->top = false;
		now->top = true;
		n->root = mount_ref(now);
		mount_unref(was);
	}
	was->fixed = false;
	now->fixed = fixed;
	mount_attach(was, &old);
	move_everybody(t->k, from, to);
	path_unref(from);
	return 0;
}

void mnt_walk(struct kernel *k, struct walk *w)
{
	for (struct ns *n = k->namespaces; n && !w->err; n = n->next) {
		struct mnt_ns *m = (struct mnt_ns *)n;

		if (n->kind != NS_MNT)
			continue;
		walk_need(w, "root", WALK_MOUNT, (void **)&m->root);
		if (w->mode == WALK_SAVE)
			continue;
		/* One tree has one owner, and the first has its own. */
		if (w->err || m->root->parent || m->root->top || m->root == k->vfs->anon ||
			m->root == k->vfs->nsfs) {
			m->root = NULL;
			walk_fail(w, -EBADMSG);
			return;
		}
		m->root->top = true;
		mount_ref(m->root);
	}
}
