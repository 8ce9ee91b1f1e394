/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/root.c - in the first process: puts the root together and leaves the host's.
 *
 * Owns:  nothing; every mount belongs to the sandbox's mount namespace.
 * Rules: no allocation. After pivot_root no host path can be reached any more, so everything that
 * is attached by name is attached after it: a template full of symlinks leads nowhere else.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/container/container.h"
#include "tier/upper.h"
#include "tier/views.h"

/* As root the mounts were made outside. What must only stay alive until the overlay exists is hung
 * into the old root: one wait for all of it, instead of one for each. */
static int attach_handed(struct mounts *t, struct err *e)
{
	int r = t->upper < 0 ? 0 : host_move_mount(t->upper, AT_FDCWD, HOOK);

	for (unsigned i = 0; r == 0 && i < t->lower_count; i++)
		r = host_move_mount(t->lowers[i], AT_FDCWD, HOOK);
	if (r == 0)
		r = host_move_mount(t->root, AT_FDCWD, HOOK);
	if (r < 0)
		return err_set(e, -r, "attaching the root");
	return 0;
}

static int make_own_views(struct container *c, struct err *e)
{
	const struct plan *plan = c->box.plan;
	struct mounts *t = &c->tree;
	char path[16];
	int r = 0;

	for (unsigned i = 0; r == 0 && i < plan->root.layer_count; i++, t->lower_count++)
		r = view_own(plan->root.layers[i], WARD_MOUNT_ATTR_RDONLY, &t->lowers[i], e);
	for (unsigned i = 0; r == 0 && bind_name(i); i++) {
		if (!(c->binds & 1u << i))
			continue;
		r = str_fmt(path, sizeof(path), "/%s", bind_name(i));
		if (r == 0)
			r = view_own(path, WARD_MOUNT_ATTR_RDONLY, &t->binds[t->bind_count++], e);
	}
	for (unsigned i = 0; r == 0 && i < plan->mount_count; i++, t->mount_count++) {
		const struct plan_mount *m = &plan->mounts[i];

		r = view_own(
			m->src, m->mode == MOUNT_RW ? 0 : WARD_MOUNT_ATTR_RDONLY, &t->mounts[i], e);
		if (r < 0)
			return err_wrap(e, r, "--mount %s:%s", m->src, m->dst);
	}
	return r;
}

static int build_own(struct container *c, struct err *e)
{
	struct mounts *t = &c->tree;
	int r = upper_mount(c->box.plan, &t->upper, e);

	if (r == 0)
		r = upper_dirs(t->upper, 0, e);
	if (r == 0)
		r = make_own_views(c, e);
	return r < 0 ? r : layers_by_paths(c, e);
}

static int pivot(int root, struct err *e)
{
	int r = host_fchdir(root);

	if (r == 0)
		r = host_pivot_root(".", ".");
	if (r == 0)
		r = host_umount(".", MNT_DETACH);
	if (r == 0)
		r = host_chdir("/");
	if (r < 0)
		return err_set(e, -r, "leaving the host's root");
	return 0;
}

/* As an ordinary user no device node can be made, but the host's can be bound. */
static int bind_devices(int *ret_fd, struct err *e)
{
	static const char *const nodes[] = { "null", "zero", "full", "random", "urandom", "tty" };
	static const char *const options[] = { "mode", "0755", "size", "64k", NULL };
	static const struct {
		const char *name, *target;
	} links[] = { { "fd", "/proc/self/fd" }, { "stdin", "/proc/self/fd/0" },
		{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
		{ "ptmx", "pts/ptmx" } };
	static const char *const dirs[] = { "pts", "shm", "mqueue" };
	int dev, r = place_new_fs("tmpfs", options, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NOEXEC,
			 &dev, e);

	if (r < 0)
		return r;
	*ret_fd = dev;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(links); i++)
		r = host_symlinkat(links[i].target, dev, links[i].name);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(dirs); i++)
		r = host_mkdirat(dev, dirs[i], 0755);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(nodes); i++) {
		own_fd int point = host_openat(dev, nodes[i], O_WRONLY | O_CREAT | O_EXCL, 0666);

		r = point < 0 ? point : 0;
	}
	if (r < 0)
		return err_set(e, -r, "filling /dev");
	return 0;
}

/* The nodes themselves, opened before the pivot, once /dev is attached. */
static int attach_devices(int dev, const int *nodes, struct err *e)
{
	static const char *const names[DEV_NODES] = { "null", "zero", "full", "random", "urandom",
		"tty" };

	for (unsigned i = 0; i < DEV_NODES; i++) {
		int r = host_move_mount(nodes[i], dev, names[i]);

		if (r < 0)
			return err_set(e, -r, "attaching /dev/%s", names[i]);
		close(nodes[i]);
	}
	return 0;
}

static int open_devices(int nodes[DEV_NODES], struct err *e)
{
	static const char *const paths[DEV_NODES] = { "/dev/null", "/dev/zero", "/dev/full",
		"/dev/random", "/dev/urandom", "/dev/tty" };

	for (unsigned i = 0; i < DEV_NODES; i++) {
		nodes[i] = host_open_tree(AT_FDCWD, paths[i], WARD_OPEN_TREE_CLONE);
		if (nodes[i] < 0)
			return err_set(e, -nodes[i], "opening %s", paths[i]);
	}
	return 0;
}

/* What only can be made inside: terminals and queues of the sandbox's own. */
static int attach_own(const struct container *c, struct err *e)
{
	/* gid 5 is tty in Debian; an ordinary user's namespace has no such id. */
	static const char *const pts_root[] = { "newinstance", NULL, "ptmxmode", "0666", "mode",
		"0620", "gid", "5", NULL };
	static const char *const pts_own[] = { "newinstance", NULL, "ptmxmode", "0666", "mode",
		"0620", NULL };
	const unsigned plain = WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NOEXEC;
	own_fd int pts = -1;
	own_fd int mqueue = -1;
	int r = place_new_fs("devpts", c->map_count > 5 ? pts_root : pts_own, plain, &pts, e);

	if (r == 0)
		r = place_new_fs("mqueue", NULL, plain | WARD_MOUNT_ATTR_NODEV, &mqueue, e);
	if (r < 0)
		return r;
	r = host_move_mount(pts, c->tree.dev, "pts");
	if (r == 0)
		r = host_move_mount(mqueue, c->tree.dev, "mqueue");
	if (r < 0)
		return err_set(e, -r, "attaching pts and mqueue below /dev");
	return 0;
}

/* mkdir -p, and at the end a folder or an empty file. Names only: the host's root is gone. */
static int make_point(const char *path, bool dir)
{
	char part[WARD_PATH_MAX];
	int r = str_copy(part, sizeof(part), path);

	for (char *p = part + 1; r == 0 && *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		r = host_mkdirat(AT_FDCWD, part, 0755);
		r = r == -EEXIST ? 0 : r;
		*p = '/';
	}
	if (r < 0)
		return r;
	if (dir) {
		r = host_mkdirat(AT_FDCWD, part, 0755);
	} else {
		r = host_open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
		if (r >= 0)
			r = close(r);
	}
	return r == -EEXIST ? 0 : r;
}

static int attach_mounts(const struct container *c, struct err *e)
{
	for (unsigned i = 0; i < c->box.plan->mount_count; i++) {
		const struct plan_mount *m = &c->box.plan->mounts[i];
		struct stat st;
		int r;

		if (fstat(c->tree.mounts[i], &st) < 0)
			return err_set(e, errno, "--mount %s:%s", m->src, m->dst);
		r = make_point(m->dst, S_ISDIR(st.st_mode));
		if (r == 0)
			r = host_move_mount(c->tree.mounts[i], AT_FDCWD, m->dst);
		if (r < 0)
			return err_set(e, -r, "--mount %s:%s: attaching it", m->src, m->dst);
	}
	return 0;
}

/* What ward could not put into the root from outside. */
static int place_inside(
	struct container *c, int proc, const int *nodes, struct trail *t, struct err *e)
{
	int r = place_binds(c, AT_FDCWD, e);

	if (r < 0)
		return r;
	trail_begin(t, STEP_DEV);
	r = place_dev(c, AT_FDCWD, e);
	if (r == 0 && nodes)
		r = attach_devices(c->tree.dev, nodes, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_PROC);
	return place_proc(c, AT_FDCWD, proc, e);
}

int root_enter(struct container *c, struct trail *t, struct err *e)
{
	int nodes[DEV_NODES];
	bool bind_nodes = c->tree.dev < 0;
	own_fd int proc = -1;
	int r;

	trail_begin(t, STEP_ROOT);
	r = c->rooted ? attach_handed(&c->tree, e) : build_own(c, e);
	if (r == 0 && bind_nodes)
		r = open_devices(nodes, e);
	if (r == 0 && bind_nodes)
		r = bind_devices(&c->tree.dev, e);
	if (r < 0)
		return r;

	/* A new proc is allowed only while an unmasked one is in sight: before the pivot. */
	trail_begin(t, STEP_PROC);
	if (!c->assembled)
		r = place_new_fs("proc", NULL, PROC_ATTRS, &proc, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_PIVOT);
	r = pivot(c->tree.root, e);
	if (r == 0 && !c->assembled)
		r = place_inside(c, proc, bind_nodes ? nodes : NULL, t, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_DEV);
	r = attach_own(c, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_MOUNTS);
	return attach_mounts(c, e);
}
