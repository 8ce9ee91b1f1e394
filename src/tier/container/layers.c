/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/layers.c - the root, the --mount overlays and /dev/shm, out of one upper.
 *
 * Owns:  the names of the folders in the upper: up and work (the root's), m<n> and w<n> (those of
 *        mount n), shm; and where layers must be attached: root, o<n>, l<n>.
 * Rules: no allocation. When by_fds finds that this kernel cannot, the tree is as it was before.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/container/container.h"
#include "tier/container/overlay.h"

enum { NAME_CAP = 16 };

struct mount_names {
	char up[NAME_CAP], work[NAME_CAP], at[NAME_CAP];
};

static bool is_overlay(const struct container *c, unsigned i)
{
	return c->box.plan->mounts[i].mode == MOUNT_OVERLAY;
}

static void name_mount(unsigned i, struct mount_names *n)
{
	str_fmt(n->up, NAME_CAP, "m%u", i);
	str_fmt(n->work, NAME_CAP, "w%u", i);
	str_fmt(n->at, NAME_CAP, "o%u", i);
}

static uid_t id_or(uid_t id, uid_t base)
{
	return id >= base && id - base < SANDBOX_IDS ? id : base;
}

/* The upper's folder is what the overlay shows as its top: it looks like @lower's. */
static int make_folders(const struct container *c, unsigned i, int lower,
	const struct mount_names *n, struct err *e)
{
	uid_t base = c->box.plan->id_base;
	struct stat st;
	int r = host_fstat(lower, &st);

	if (r == 0)
		r = host_mkdirat(c->tree.upper, n->up, 0755);
	if (r == 0)
		r = host_mkdirat(c->tree.upper, n->work, 0755);
	if (r == 0 && base)
		r = host_fchownat(c->tree.upper, n->up, id_or(st.st_uid, base),
			id_or(st.st_gid, base), AT_SYMLINK_NOFOLLOW);
	if (r == 0)
		r = host_fchmodat(c->tree.upper, n->up, st.st_mode & 03777);
	if (r < 0)
		return err_set(
			e, -r, "--mount %s: making its upper folder", c->box.plan->mounts[i].dst);
	return 0;
}

static int say_mount(const struct container *c, unsigned i, int r, struct err *e)
{
	return err_wrap(
		e, r, "--mount %s:%s", c->box.plan->mounts[i].src, c->box.plan->mounts[i].dst);
}

static int copy_shm(struct mounts *t, struct err *e)
{
	t->shm = host_open_tree(t->upper, "shm", WARD_OPEN_TREE_CLONE);
	return t->shm < 0 ? err_set(e, -t->shm, "preparing /dev/shm") : 0;
}

static int mounts_by_fds(struct container *c, struct err *e)
{
	struct mounts *t = &c->tree;

	for (unsigned i = 0; i < t->mount_count; i++) {
		own_fd int lower = -1;
		struct mount_names n;
		int r;

		if (!is_overlay(c, i))
			continue;
		name_mount(i, &n);
		lower = take_fd(&t->mounts[i]);
		r = make_folders(c, i, lower, &n, e);
		if (r < 0)
			return r;
		r = overlay_by_fds(&(struct overlay_layers){ &lower, 1, 0, n.up, n.work }, t->upper,
			&t->mounts[i], e);
		if (r < 0)
			return say_mount(c, i, r, e);
	}
	return 0;
}

int layers_by_fds(struct container *c, struct err *e)
{
	struct mounts *t = &c->tree;
	struct overlay_layers layers = { t->lowers, t->lower_count, 0, "up", "work" };
	int r = overlay_by_fds(&layers, t->upper, &t->root, e);

	if (r == 0)
		r = copy_shm(t, e);
	/* Linux up to 6.4 knows no such option, later ones refuse its value. */
	if (r == -EOPNOTSUPP || r == -EINVAL) {
		if (t->root >= 0)
			close(take_fd(&t->root));
		return 1;
	}
	return r < 0 ? r : mounts_by_fds(c, e);
}

/* A copy of what is attached at @attached, which stays when this mount namespace goes. */
static int copy_overlay(int attached, int *ret_fd, struct err *e)
{
	int fd = host_open_tree(attached, "", WARD_OPEN_TREE_CLONE | WARD_AT_EMPTY_PATH);

	if (fd < 0)
		return err_set(e, -fd, "copying an overlay mount");
	*ret_fd = fd;
	return 0;
}

static int root_by_paths(struct container *c, struct err *e)
{
	struct mounts *t = &c->tree;
	struct overlay_layers layers = { t->lowers, t->lower_count, 0, "up", "work" };
	own_fd int attached = -1;
	int r = host_mkdirat(t->upper, "root", 0700);

	if (r == 0)
		r = host_move_mount(t->upper, AT_FDCWD, HOOK);
	if (r < 0)
		return err_set(e, -r, "attaching the writable file system");
	r = overlay_by_paths(&layers, t->upper, "root", !c->rooted, &attached, e);
	if (r < 0)
		return r;
	/* Whoever is in its final mount namespace enters the root where it is. */
	if (!c->rooted)
		t->root = take_fd(&attached);
	return c->rooted ? copy_overlay(attached, &t->root, e) : 0;
}

static int mount_by_paths(struct container *c, unsigned i, struct err *e)
{
	struct mounts *t = &c->tree;
	own_fd int lower = take_fd(&t->mounts[i]);
	own_fd int attached = -1;
	struct mount_names n;
	int r;

	name_mount(i, &n);
	r = make_folders(c, i, lower, &n, e);
	if (r < 0)
		return r;
	r = host_mkdirat(t->upper, n.at, 0755);
	if (r < 0)
		return err_set(e, -r, "--mount %s: making its folder", c->box.plan->mounts[i].dst);
	r = overlay_by_paths(&(struct overlay_layers){ &lower, 1, LAYERS_MAX + i, n.up, n.work },
		t->upper, n.at, !c->rooted, &attached, e);
	if (r == 0)
		r = copy_overlay(attached, &t->mounts[i], e);
	return r < 0 ? say_mount(c, i, r, e) : 0;
}

int layers_by_paths(struct container *c, struct err *e)
{
	struct mounts *t = &c->tree;
	int r = root_by_paths(c, e);

	for (unsigned i = 0; r == 0 && i < t->mount_count; i++)
		if (is_overlay(c, i))
			r = mount_by_paths(c, i, e);
	if (r < 0)
		return r;
	/* Attached here: nothing to hand over. */
	for (unsigned i = 0; c->rooted && i < t->lower_count; i++)
		close(take_fd(&t->lowers[i]));
	t->lower_count = 0;
	return copy_shm(t, e);
}
