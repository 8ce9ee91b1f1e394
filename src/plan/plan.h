/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PLAN_PLAN_H
#define WARD_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "plan/wall.h"

/*
 * The frozen description of one sandbox, that every layer below core reads and none changes.
 * Strings are borrowed from whoever made the plan and outlive it.
 */
enum net_mode { NET_NONE, NET_LOOPBACK, NET_HOST };
enum mount_mode { MOUNT_RO, MOUNT_RW, MOUNT_OVERLAY };
enum upper_kind { UPPER_AUTO, UPPER_TMPFS, UPPER_DISK };

struct plan_mount {
	const char *src, *dst; /* absolute, without "." and ".."; src exists */
	enum mount_mode mode;
};

/* What a workspace is made from. */
enum source_kind {
	SOURCE_GIT,  /* a git worktree of the repository at src, at ref (NULL: its HEAD) */
	SOURCE_DIR,  /* a private view of the directory: overlay, or a (reflink) copy */
	SOURCE_COPY, /* always a copy, reflinked where the file system can */
	SOURCE_LINK, /* a symlink to the directory; reads go through, writes do not */
};

struct plan_source {
	enum source_kind kind;
	const char *src;  /* absolute host path */
	const char *ref;  /* SOURCE_GIT only: branch, tag or commit; may be NULL */
	const char *name; /* its folder's name in the workspace; one path component */
};

struct plan_limits {
	uint64_t memory_bytes; /* 0 in any of these: no limit */
	uint64_t disk_bytes;
	uint64_t output_bytes;
	uint64_t timeout_ms;
	/* vm tier: bytes and requests of each disk, bytes and frames of its network card each way,
	 * all each second; and how long a guest may take to come up (0: VM_BOOT_MS) */
	uint64_t io_rate[2], net_rate[2];
	uint64_t boot_ms;
	uint32_t pids;
	uint32_t cpu_milli;  /* thousandths of a CPU */
	uint32_t cpu_weight; /* 1..10000, 100 is everybody else's; 0: leave it */
	/* Asked for by hand: refuse the run rather than start without. A default may fall back. */
	bool memory_asked, disk_asked, pids_asked, cpus_asked;
};

/* What the root file system is made of. */
enum root_kind { ROOT_HOST, ROOT_DIR, ROOT_LAYERS };

struct plan_root {
	enum root_kind kind;
	const char *name; /* as the user wrote it: "host", "dir:/x", "alpine:3" */
	const char *
		layers[LAYERS_MAX]; /* host directories, uppermost first; ROOT_HOST: the skeleton */
	unsigned layer_count;
};

/*
 * A sandbox as it was at one moment: what a tier writes and starts from again. Files or memory
 * files that the caller opened and closes; who reads one trusts no byte of it. A part that a tier
 * does not need stays empty.
 */
struct snap {
	int state;  /* processors, devices, and what the parts below must match */
	int memory; /* the memory, byte by byte; holes are zeros */
	int disk;   /* what was written to the disk since the template */
};

struct box;

struct plan {
	char id[ID_LEN + 1];
	const char *state_dir;
	enum wall wall;

	struct plan_root root;
	struct plan_mount mounts[MOUNTS_MAX];
	unsigned mount_count;
	struct plan_source sources[SOURCES_MAX];
	unsigned source_count;
	enum upper_kind upper;
	enum net_mode net;
	struct plan_limits limits;
	/* vm tier: the host's end of its network card, and "A.B.C.D/N[,GATEWAY]" inside. Or NULL.
	 */
	const char *tap, *tap_addr;
	const char *vsock;        /* vm tier: where its vsock is to be reached; or NULL */
	const char *cpu_template; /* vm tier: which features its CPUs have; NULL: all */

	const char *const *argv; /* NULL-terminated */
	const char *const *env;  /* "K=V", NULL-terminated: all that the command gets */
	const char *workdir;     /* NULL: the template's, or "/" ; workspace tier: the workspace */
	bool workdir_made;       /* it is the template's: where that does not have it, it is made */
	const char *user; /* "0", "1000:1000", a name from the template's passwd; NULL: its root */
	const char *hostname;
	bool tty;
	bool keep;
	bool report; /* somebody will read the resource use: collect what costs extra */
	bool live;   /* a supervisor's: no command of its own; can be paused, limits can change */
	const struct snap *from; /* goes on from there instead of starting; NULL: starts */
	bool waits;              /* there is no request yet: tier_waits() */
	struct box *ahead;       /* made so, and taken for this plan; NULL: none */

	/*
	 * Host ids [id_base, id_base + SANDBOX_IDS) are this sandbox's; 0 when ward is not root.
	 * These two, the root and what a template says are filled after prepare: see core/run.c.
	 */
	uint32_t id_base;
	unsigned slot;
	uid_t caller_uid;
	gid_t caller_gid;

	/* Where ward's own command line and environment lie, for a copy of ward to forget them. */
	char *args;
	size_t args_len;
};

#endif
