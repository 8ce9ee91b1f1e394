/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/place.c - what hangs in a sandbox's root: the host's programs, /dev, /proc.
 *
 * Owns:  nothing; every mount belongs to the sandbox.
 * Rules: no allocation. By name only one step below the root, through no link and onto no other
 *        mount: a template full of symlinks leads nowhere, from inside and from outside.
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
#include "tier/views.h"

/* A folder at the top of the new root: made when the template has none, refused when it is a link.
 */
static int attach_top(
	const struct container *c, int root, int mount, const char *name, struct err *e)
{
	const uint64_t how = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH;
	own_fd int at = host_openat2(root, name, O_PATH | O_DIRECTORY, 0, how);
	int r;

	if (at == -ENOENT) {
		r = host_mkdirat(root, name, 0755);
		/* Made from outside, it would belong to nobody inside. */
		if (r == 0 && root != AT_FDCWD)
			r = host_fchownat(root, name, c->box.plan->id_base, c->box.plan->id_base,
				AT_SYMLINK_NOFOLLOW);
		if (r < 0)
			return err_set(e, -r, "making /%s in the root", name);
		at = host_openat2(root, name, O_PATH | O_DIRECTORY, 0, how);
	}
	if (at < 0)
		return err_set(e, -at, "the template's /%s is not a plain folder", name);
	r = host_move_mount(mount, at, "");
	if (r < 0)
		return err_set(e, -r, "attaching /%s", name);
	return 0;
}

int place_new_fs(
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

int place_binds(const struct container *c, int root, struct err *e)
{
	unsigned at = 0;

	for (unsigned i = 0; bind_name(i); i++) {
		int r = c->binds & 1u << i
				? attach_top(c, root, c->tree.binds[at++], bind_name(i), e)
				: 0;

		if (r < 0)
			return r;
	}
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
static int mask_source(int dev, int proc, const char *name, enum mask how, int empty)
{
	struct ward_mount_attr attr = { .attr_set = WARD_MOUNT_ATTR_RDONLY };
	int fd, r;

	/* A mount that is made and not used costs a grace period: look first. */
	if (how != MASK_READ_ONLY && faccessat(proc, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (how == MASK_FILE)
		return host_open_tree(dev, "null", WARD_OPEN_TREE_CLONE);
	fd = how == MASK_DIR ? host_open_tree(empty, "", WARD_OPEN_TREE_CLONE | WARD_AT_EMPTY_PATH)
			     : host_open_tree(proc, name, WARD_OPEN_TREE_CLONE);
	if (fd < 0)
		return fd;
	r = host_mount_setattr(fd, "", WARD_AT_EMPTY_PATH, &attr);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

static int mask_proc(int dev, int proc, int empty, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(masks); i++) {
		own_fd int source = mask_source(dev, proc, masks[i].name, masks[i].how, empty);
		int r;

		if (source == -ENOENT)
			continue;
		r = source < 0 ? source : host_move_mount(source, proc, masks[i].name);
		if (r < 0)
			return err_set(e, -r, "masking /proc/%s", masks[i].name);
	}
	return 0;
}

int place_dev(const struct container *c, int root, struct err *e)
{
	int r = attach_top(c, root, c->tree.dev, "dev", e);

	if (r < 0)
		return r;
	r = host_move_mount(c->tree.shm, c->tree.dev, "shm");
	return r < 0 ? err_set(e, -r, "attaching /dev/shm") : 0;
}

int place_proc(const struct container *c, int root, int proc, struct err *e)
{
	/* A mount point of /dev, without what is on it, is as good an empty folder as any. */
	own_fd int empty = host_openat2(
		c->tree.dev, "pts", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	int r;

	if (empty < 0)
		return err_set(e, -empty, "opening the folder for pts");
	r = attach_top(c, root, proc, "proc", e);
	return r < 0 ? r : mask_proc(c->tree.dev, proc, empty, e);
}

/* A proc of the sandbox's pid namespace, made from outside: Linux 6.17. */
static int outer_proc(const struct container *c, int *ret_fd, struct err *e)
{
	own_fd int fs = host_fsopen("proc");
	own_fd int ns = -1;
	char path[64];
	int r = fs < 0 ? fs : str_fmt(path, sizeof(path), "/proc/%d/ns/pid", (int)c->box.pid);

	if (r == 0)
		r = ns = host_open(path, O_RDONLY, 0);
	if (r >= 0)
		r = host_fsconfig_fd(fs, "pidns", ns);
	if (r == 0)
		r = host_fsmount(fs, PROC_ATTRS);
	if (r < 0)
		return err_set(e, -r, "mounting proc");
	*ret_fd = r;
	return 0;
}

int place_outside(struct container *c, struct err *e)
{
	own_fd int proc = -1;
	int r;

	/* Without device nodes of its own, /dev is put together inside; and then all of it. */
	if (c->tree.dev < 0 || c->upper_is_ours)
		return 1;
	r = outer_proc(c, &proc, NULL);
	if (r == -EINVAL || r == -EOPNOTSUPP)
		return 1; /* an older kernel does not know how to do that for somebody else */
	if (r == 0)
		r = place_binds(c, c->tree.root, e);
	if (r == 0)
		r = place_dev(c, c->tree.root, e);
	if (r == 0)
		r = place_proc(c, c->tree.root, proc, e);
	c->assembled = r == 0;
	return r < 0 && e && !e->code ? err_set(e, -r, "mounting proc") : r;
}
