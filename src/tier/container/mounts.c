/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/mounts.c - as root: prepares every mount of a sandbox, attached to nothing.
 *
 * Owns:  the descriptors in struct mounts until they are handed over.
 * Rules: host directories come in read-only, without devices and setuid, and seen through the
 *        sandbox's id map. A file system that cannot be seen that way is an error, not a reason to
 *        show it raw. And they come in private: a copy of a shared mount (systemd shares them all)
 *        would bring the sandbox's own mounts to the host, and the host's later ones in.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
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

void mounts_init(struct mounts *t)
{
	memset(t, -1, sizeof(*t));
	t->bind_count = t->mount_count = t->lower_count = 0;
}

static void close_all(int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(take_fd(&fds[i]));
}

void mounts_done(struct mounts *t)
{
	int *single[] = { &t->root, &t->upper, &t->shm, &t->dev };

	for (unsigned i = 0; i < 4; i++)
		close_all(single[i], 1);
	close_all(t->binds, t->bind_count);
	close_all(t->mounts, t->mount_count);
	close_all(t->lowers, t->lower_count);
}

static int make_lowers(struct container *c, int user_ns, struct err *e)
{
	const struct plan_root *root = &c->box.plan->root;
	struct mounts *t = &c->tree;

	for (unsigned i = 0; i < root->layer_count; i++) {
		int r = view_host(
			root->layers[i], 0, WARD_MOUNT_ATTR_RDONLY, user_ns, &t->lowers[i], e);

		if (r < 0)
			return r;
		t->lower_count++;
	}
	return 0;
}

/* The host's own programs: not id-mapped, so that closed files of the host stay closed. */
static int make_binds(struct container *c, struct err *e)
{
	struct mounts *t = &c->tree;

	for (unsigned i = 0; bind_name(i); i++) {
		char path[16];
		int r;

		if (!(c->binds & 1u << i))
			continue;
		r = str_fmt(path, sizeof(path), "/%s", bind_name(i));
		if (r == 0)
			r = view_host(path, WARD_AT_RECURSIVE, WARD_MOUNT_ATTR_RDONLY, -1,
				&t->binds[t->bind_count], e);
		if (r < 0)
			return r;
		t->bind_count++;
	}
	return 0;
}

static int make_mounts(struct container *c, int user_ns, struct err *e)
{
	const struct plan *plan = c->box.plan;

	for (unsigned i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = &plan->mounts[i];
		/* An overlay looks at one file system only; a bind brings what is mounted below
		 * along. */
		unsigned recursive = m->mode == MOUNT_OVERLAY ? 0 : WARD_AT_RECURSIVE;
		int r = view_host(m->src, recursive,
			m->mode == MOUNT_RW ? 0 : WARD_MOUNT_ATTR_RDONLY, user_ns,
			&c->tree.mounts[i], e);

		if (r < 0)
			return err_wrap(e, r, "--mount %s:%s", m->src, m->dst);
		c->tree.mount_count++;
	}
	return 0;
}

/* One folder of device nodes, made once per state directory (template/host.c), shared read-only. */
static int make_dev(struct container *c, int user_ns, struct err *e)
{
	struct ward_mount_attr attr = {
		.attr_set = WARD_MOUNT_ATTR_RDONLY | WARD_MOUNT_ATTR_NOSUID |
			    WARD_MOUNT_ATTR_NOEXEC | WARD_MOUNT_ATTR_IDMAP,
		.attr_clr = WARD_MOUNT_ATTR_NODEV,
		.propagation = MS_PRIVATE,
		.userns_fd = (uint64_t)user_ns,
	};
	char path[WARD_PATH_MAX];
	int fd, r = str_fmt(path, sizeof(path), "%s/dev", c->box.plan->state_dir);

	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	fd = host_open_tree(AT_FDCWD, path, WARD_OPEN_TREE_CLONE);
	if (fd == -ENOENT)
		return 0; /* no device nodes can be made here: the first process binds the host's */
	if (fd < 0)
		return err_set(e, -fd, "opening %s", path);
	c->tree.dev = fd;
	r = host_mount_setattr(fd, "", WARD_AT_EMPTY_PATH, &attr);
	if (r < 0)
		return err_set(e, -r, "restricting %s", path);
	return 0;
}

struct spoil {
	struct container *c;
	struct err *e;
};

/* In a mount namespace that is gone at the end, and takes along what was attached in it. */
static int layers_elsewhere(void *arg)
{
	struct spoil *s = arg;
	int r = host_unshare(CLONE_NEWNS);

	if (r == 0)
		r = host_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (r < 0)
		return err_set(s->e, -r, "making a private mount namespace for the overlays");
	return layers_by_paths(s->c, s->e);
}

/*
 * Before Linux 6.13 an overlay takes its layers by path, and only such as are attached in the mount
 * namespace of the caller; before 6.15 only what is attached can be copied.
 */
static int make_layers(struct container *c, struct err *e)
{
	int r = layers_by_fds(c, e);

	if (r <= 0)
		return r;
	c->upper_is_ours = true;
	if (e)
		*e = (struct err){ 0 };
	r = host_errand(layers_elsewhere, &(struct spoil){ c, e });
	if (r < 0 && e && !e->code)
		return err_set(e, -r, "running a process that makes the overlays");
	return r;
}

int mounts_make(struct container *c, int user_ns, struct err *e)
{
	struct mounts *t = &c->tree;
	uid_t owner = c->box.plan->id_base;
	int r = upper_mount(c->box.plan, &t->upper, e);

	if (r == 0)
		r = upper_dirs(t->upper, owner, e);
	if (r == 0)
		r = make_lowers(c, user_ns, e);
	if (r == 0)
		r = make_binds(c, e);
	if (r == 0)
		r = make_mounts(c, user_ns, e);
	if (r == 0)
		r = make_dev(c, user_ns, e);
	if (r == 0)
		r = make_layers(c, e);
	if (r == 0)
		r = place_outside(c, e);
	return r < 0 ? r : 0;
}
