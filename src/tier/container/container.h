/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_CONTAINER_CONTAINER_H
#define WARD_TIER_CONTAINER_CONTAINER_H

#include <sys/types.h>

#include "base/limits.h"
#include "store/undo.h"
#include "tier/cgroup.h"
#include "tier/tier_impl.h"

/*
 * The container tier's own state. As root ("rooted"), ward prepares the mounts outside and hands
 * them to the first process; as an ordinary user that process makes all of them itself, in its own
 * user namespace.
 */
enum { BINDS_MAX = 16, DEV_NODES = 6 };

/* Mounts that are ready but not attached anywhere. */
struct mounts {
	int root;             /* the overlay */
	int upper;            /* what takes the writes: tmpfs, or a file system in a loop device */
	int shm;              /* a folder of the upper */
	int dev;              /* device nodes; -1: the first process binds the host's */
	int binds[BINDS_MAX]; /* the host template's /usr, /opt, ... */
	int mounts[MOUNTS_MAX]; /* --mount */
	int lowers[LAYERS_MAX]; /* the overlay's layers: kept until they are attached out of sight
				 */
	unsigned bind_count, mount_count, lower_count;
};

struct container {
	struct box box; /* first */
	struct cgroup cg;
	struct mounts tree;
	bool rooted;
	uint64_t watched; /* see watch.c: how much was in use, and when to look again */
	unsigned watch_ms;
	bool disk_seen_full;
	bool assembled;           /* binds, /dev, /dev/shm and /proc hang in the root already */
	bool paused;              /* every process is frozen */
	bool upper_is_ours;       /* attached in our own mount namespace: not handed over */
	unsigned binds;           /* bit i: bind_name(i) of the host is part of the root */
	uint32_t map_count;       /* ids mapped from 0 on */
	char kept[WARD_PATH_MAX]; /* boxes/<id>, with --keep */
	/* An ordinary user's ids beyond its own, from /etc/subuid and subgid; count 0: none */
	uint32_t sub_uid, sub_gid, sub_count;
};

static inline struct container *container_of(struct box *box)
{
	return (struct container *)box;
}

/* Does the first process wait for ward? An ordinary user's with only its own id does all itself. */
static inline bool needs_handover(const struct container *c)
{
	return c->rooted || c->sub_count || c->cg.kind == CGROUP_V1;
}

/* ids.c */
int ids_plan(struct container *c, struct err *e);
int ids_write(const struct container *c, pid_t pid, struct err *e); /* by ward, from outside */
int ids_write_own(uid_t uid, gid_t gid, struct err *e);             /* by the first process */

/* mounts.c: as root, from outside */
void mounts_init(struct mounts *t);
void mounts_done(struct mounts *t);
int mounts_make(struct container *c, int user_ns, struct err *e);

/*
 * layers.c: the overlays (the root, and --mount ...:overlay) and /dev/shm, out of the upper and the
 * views in c->tree. by_fds: attached to nothing; 1 on a kernel that cannot do that.
 * by_paths: in a mount namespace that the caller may spoil.
 */
int layers_by_fds(struct container *c, struct err *e);
int layers_by_paths(struct container *c, struct err *e);

/*
 * Where mounts are hung until the old root goes, and they with it: a folder that every host has.
 * Never "/": what is stacked on the old root itself would be unmounted in its place.
 */
#define HOOK "/usr"

/*
 * place.c: what hangs in the root, put there by ward while the root is attached to nothing, or by
 * the first process from inside. @root: the new root, or AT_FDCWD when it is the working directory.
 */
int place_new_fs(
	const char *type, const char *const *options, unsigned attrs, int *ret_fd, struct err *e);
int place_binds(const struct container *c, int root, struct err *e);
int place_dev(const struct container *c, int root, struct err *e);
int place_proc(const struct container *c, int root, int proc, struct err *e);
/* All of it, by ward. 1: this kernel cannot, and nothing was done; the first process does it. */
int place_outside(struct container *c, struct err *e);

/* What a proc of the sandbox may not do, wherever it is mounted. */
#define PROC_ATTRS (WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV | WARD_MOUNT_ATTR_NOEXEC)

/* root.c: in the first process */
int root_enter(struct container *c, struct trail *t, struct err *e);

/* watch.c */
bool upper_is_full(int upper);
unsigned upper_watch(struct container *c);

/* child.c: the first process; never returns */
void child_main(struct box *box, int channel) __attribute__((noreturn));

#endif
