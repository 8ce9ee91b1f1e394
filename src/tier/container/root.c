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
#include <linux/openat2.h>

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

/* A folder at the top of the new root: made when the template has none, refused when it is a link.
 */
static int attach_top(int mount, const char *name, struct err *e)
{
	const uint64_t how = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
	own_fd int at = host_openat2(AT_FDCWD, name, O_PATH | O_DIRECTORY, 0, how);
	int r;

	if (at == -ENOENT) {
		r = host_mkdirat(AT_FDCWD, name, 0755);
		if (r < 0)
			return err_set(e, -r, "making /%s in the root", name);
		at = host_openat2(AT_FDCWD, name, O_PATH | O_DIRECTORY, 0, how);
	}
	if (at < 0)
		return err_set(e, -at, "the template's /%s is not a plain folder", name);
	r = host_move_mount(mount, at, "");
	if (r < 0)
		return err_set(e, -r, "attaching /%s", name);
	return 0;
}

static int new_fs(
	const char *type, const char *const *options, unsigned attrs, int *ret_fd, struct err *e)
{
	own_fd int fs = host_fsopen(type);
	int r = fs < 0 ? fs : 0;

	for (; r == 0 && options && options[0]; options += 2)
		r = host_fsconfig_str(fs, options[0], options[1]);
	if (r == 0)
		r = host_fsmount(fs, attrs);
	if (r < 0)
		return err_set(e, -r, "mounting %s", type);
	*ret_fd = r;
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
	int dev, r = new_fs("tmpfs", options, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NOEXEC, &dev,
			 e);

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

static int attach_dev(struct container *c, const int *nodes, struct err *e)
{
	/* gid 5 is tty in Debian; an ordinary user's namespace has no such id. */
	static const char *const pts_root[] = { "newinstance", NULL, "ptmxmode", "0666", "mode",
		"0620", "gid", "5", NULL };
	static const char *const pts_own[] = { "newinstance", NULL, "ptmxmode", "0666", "mode",
		"0620", NULL };
	const unsigned plain = WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NOEXEC;
	own_fd int pts = -1;
	own_fd int mqueue = -1;
	int dev = c->tree.dev, r = attach_top(dev, "dev", e);

	if (r == 0 && nodes)
		r = attach_devices(dev, nodes, e);
	if (r == 0)
		r = new_fs("devpts", c->map_count > 5 ? pts_root : pts_own, plain, &pts, e);
	if (r == 0)
		r = new_fs("mqueue", NULL, plain | WARD_MOUNT_ATTR_NODEV, &mqueue, e);
	if (r < 0)
		return r;
	r = host_move_mount(pts, dev, "pts");
	if (r == 0)
		r = host_move_mount(mqueue, dev, "mqueue");
	if (r == 0)
		r = host_move_mount(c->tree.shm, dev, "shm");
	if (r < 0)
		return err_set(e, -r, "attaching pts, mqueue and shm below /dev");
	return 0;
}

enum mask { MASK_FILE, MASK_DIR, MASK_READ_ONLY };

/*
 * What of /proc is the host's business. Its owner does not exist in the sandbox, so most of it
 * could not be opened anyway; this holds also where a mode is too generous.
 */
static const struct {
	const char *name;
	enum mask how;
} masks[] = {
	{ "sys", MASK_READ_ONLY },
	{ "irq", MASK_READ_ONLY },
	{ "bus", MASK_READ_ONLY },
	{ "fs", MASK_READ_ONLY },
	{ "acpi", MASK_DIR },
	{ "scsi", MASK_DIR },
	{ "asound", MASK_DIR },
	{ "kcore", MASK_FILE },
	{ "keys", MASK_FILE },
	{ "key-users", MASK_FILE },
	{ "kmsg", MASK_FILE },
	{ "latency_stats", MASK_FILE },
	{ "sched_debug", MASK_FILE },
	{ "sysrq-trigger", MASK_FILE },
	{ "timer_list", MASK_FILE },
};

/* What covers @name; -ENOENT when this kernel has no such thing to hide. */
static int mask_source(int proc, const char *name, enum mask how, int empty)
{
	struct ward_mount_attr attr = { .attr_set = WARD_MOUNT_ATTR_RDONLY };
	int fd, r;

	/* A mount that is made and not used costs a grace period: look first. */
	if (how != MASK_READ_ONLY && faccessat(proc, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (how == MASK_FILE)
		return host_open_tree(AT_FDCWD, "dev/null", WARD_OPEN_TREE_CLONE);
	fd = how == MASK_DIR ? host_open_tree(empty, "", WARD_OPEN_TREE_CLONE | WARD_AT_EMPTY_PATH)
			     : host_open_tree(proc, name, WARD_OPEN_TREE_CLONE);
	if (fd < 0)
		return fd;
	r = host_mount_setattr(fd, "", WARD_AT_EMPTY_PATH, &attr);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

static int mask_proc(int proc, int empty, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(masks); i++) {
		own_fd int source = mask_source(proc, masks[i].name, masks[i].how, empty);
		int r;

		if (source == -ENOENT)
			continue;
		r = source < 0 ? source : host_move_mount(source, proc, masks[i].name);
		if (r < 0)
			return err_set(e, -r, "masking /proc/%s", masks[i].name);
	}
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

static int attach_binds(const struct container *c, struct err *e)
{
	unsigned at = 0;

	for (unsigned i = 0; bind_name(i); i++) {
		int r = c->binds & 1u << i ? attach_top(c->tree.binds[at++], bind_name(i), e) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static const unsigned proc_attrs =
	WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV | WARD_MOUNT_ATTR_NOEXEC;

int root_enter(struct container *c, struct trail *t, struct err *e)
{
	int nodes[DEV_NODES];
	bool bind_nodes = c->tree.dev < 0;
	own_fd int proc = -1;
	own_fd int empty = -1;
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
	r = new_fs("proc", NULL, proc_attrs, &proc, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_PIVOT);
	r = pivot(c->tree.root, e);
	if (r == 0)
		r = attach_binds(c, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_DEV);
	/* A mount point of /dev, before something is on it, is as good an empty folder as any. */
	empty = host_openat(c->tree.dev, "mqueue", O_PATH | O_DIRECTORY, 0);
	if (empty < 0)
		return err_set(e, -empty, "opening the folder for mqueue");
	r = attach_dev(c, bind_nodes ? nodes : NULL, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_PROC);
	r = attach_top(proc, "proc", e);
	if (r == 0)
		r = mask_proc(proc, empty, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_MOUNTS);
	return attach_mounts(c, e);
}
