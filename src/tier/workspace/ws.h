/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_WORKSPACE_WS_H
#define WARD_TIER_WORKSPACE_WS_H

#include "jail/landlock.h"
#include "tier/cgroup.h"
#include "tier/tier_impl.h"
#include "tier/workspace/workspace.h"

/* What the files of this folder share. */
enum { WS_RULES_MAX = 192, WS_TEXT_MAX = 128 * 1024, WS_ENV_MAX = 16 };

/* How a path gets into the private root; in plain mode only the Landlock rule counts. */
enum ws_place {
	WS_BIND,    /* the host's own, read-only unless the rule says LL_WRITE */
	WS_DEVICE,  /* a device node of the host's */
	WS_PROC,    /* a fresh proc */
	WS_PTS,     /* terminals of its own */
	WS_SHM,     /* a small tmpfs */
	WS_OVERLAY, /* overlay number `overlay` of the box */
};

struct ws_rule {
	struct landlock_rule rule;
	enum ws_place place;
	unsigned overlay;
};

/* @work is the overlay's own scratch folder; without it the overlay is only for reading. */
struct ws_overlay {
	const char *lower, *upper, *work;
};

/* Strings that live as long as the box. */
struct ws_text {
	size_t used;
	char data[WS_TEXT_MAX];
};

struct ws_box {
	struct box box;          /* first */
	char dir[WARD_PATH_MAX]; /* boxes/<id>, its real path */
	enum workspace_mode mode;
	struct workspace_record rec;
	struct ws_overlay overlays[SOURCES_MAX];
	unsigned overlay_count;
	struct ws_rule rules[WS_RULES_MAX];
	unsigned rule_count;
	const char *env[WS_ENV_MAX + 1];
	unsigned env_count;
	const char *workdir;
	uid_t uid; /* ward's own, before any user namespace */
	gid_t gid;
	uint64_t pids; /* RLIMIT_NPROC; 0: as it is */
	int channel;   /* the agent's end, in the first process */
	bool made;     /* the box folder exists, and we may remove what is in it */
	bool kept;
	uint64_t size_before; /* of @dir, when the command started; with --disk only */
	bool size_known;
	struct cgroup cg;
	struct ws_text text;
};

/* layout.c: a formatted string in @t; NULL when there is no room. */
const char *ws_text(struct ws_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* layout.c: folders and the record. */
int ws_layout_find(struct ws_box *b, struct err *e);
int ws_layout_make(struct ws_box *b, struct err *e);
/* Keeps what `ward diff` needs when @keep. */
int ws_layout_remove(struct ws_box *b, bool keep, struct err *e);
int ws_record_write(const struct ws_box *b, struct err *e);

/* ns.c: which namespaces this host gives us, and entering them. */
enum workspace_mode ws_mode_pick(void);
int ws_enter(enum workspace_mode mode, int flags, struct err *e);
int ws_map_self(uid_t uid, gid_t gid, struct err *e);
/* Does the overlay mount, tried in a process of its own? */
bool ws_overlay_works(enum workspace_mode mode, const struct ws_overlay *o);
/* A detached mount of it. */
int ws_overlay_mount(enum workspace_mode mode, const struct ws_overlay *o);

/* sources.c: the working copies. */
int ws_sources_make(struct ws_box *b, struct err *e);

/* rules.c: the one list of what the command may touch. */
int ws_mounts_check(const struct plan *plan, struct err *e);
int ws_rules_make(struct ws_box *b, struct err *e);

/* root.c: a root that holds what the list names, and nothing else. */
int ws_root_make(const struct ws_box *b, struct trail *t, struct err *e);

/* net.c */
int ws_net(const struct ws_box *b, struct err *e);

/* limits.c */
uint64_t ws_limits_pids(const struct ws_box *b);
int ws_limits_set(const struct ws_box *b, struct err *e);

/* first.c: the first process; does not return. */
_Noreturn void ws_first(struct box *box, int channel);

/* plain.c: kills @pid and all its descendants where no pid namespace does. */
void ws_kill_tree(pid_t pid);

#endif
