/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_NS_USER_H
#define WARD_TIER_KERNEL_NS_USER_H

#include <stddef.h>

#include "tier/kernel/ns/ns.h"
#include "tier/kernel/task/task.h"

/*
 * User namespaces. Everything in the kernel holds ids of the first one; they become a task's own
 * at the border, in the functions below.
 */
struct buf;

enum id_kind { ID_UID, ID_GID, ID_PROJECT, ID_KINDS };
enum { ID_EXTENTS_MAX = 340, ID_OVERFLOW = 65534, ID_MAP_TEXT_MAX = 4096 };
#define ID_NONE UINT32_MAX

struct id_extent {
	uint32_t first, lower, count; /* here, in the first namespace, how many */
};

struct id_map {
	uint32_t count; /* 0: not written yet */
	struct id_extent *extents;
};

struct user_ns {
	struct ns ns;
	uint32_t level;    /* the first is 0 */
	uint32_t uid, gid; /* who made it, acting */
	bool no_setgroups;
	bool had_setfcap; /* its maker had CAP_SETFCAP */
	struct id_map maps[ID_KINDS];
};

static inline struct user_ns *user_ns_of(struct ns *n)
{
	return (struct user_ns *)n;
}

/* @c, which nobody else has, moves into a new namespace below its own. @t is who asks. */
int user_ns_create(struct task *t, struct cred *c);
/* @c is in @to now, with every capability there. Takes no reference that it had. */
void user_ns_move(struct cred *c, struct user_ns *to);
void user_ns_free_maps(struct user_ns *u);
/* Is @u @above or below it? */
bool user_ns_is_below(const struct user_ns *u, const struct user_ns *above);

/* An id of the first namespace in @u and back; ID_NONE: it has none. */
uint32_t id_shown(const struct user_ns *u, enum id_kind kind, uint32_t id);
uint32_t id_taken(const struct user_ns *u, enum id_kind kind, uint32_t id);

/* The same for a task; what has no name there is shown as nobody. */
static inline uint32_t uid_out(const struct task *t, uint32_t uid)
{
	uint32_t id = t->cred->user ? id_shown(t->cred->user, ID_UID, uid) : uid;

	return id == ID_NONE && t->cred->user ? ID_OVERFLOW : id;
}
static inline uint32_t gid_out(const struct task *t, uint32_t gid)
{
	uint32_t id = t->cred->user ? id_shown(t->cred->user, ID_GID, gid) : gid;

	return id == ID_NONE && t->cred->user ? ID_OVERFLOW : id;
}
static inline uint32_t uid_in(const struct task *t, uint32_t uid)
{
	return t->cred->user ? id_taken(t->cred->user, ID_UID, uid) : uid;
}
static inline uint32_t gid_in(const struct task *t, uint32_t gid)
{
	return t->cred->user ? id_taken(t->cred->user, ID_GID, gid) : gid;
}
/* Is @uid who is root in @c's namespace? */
static inline bool cred_is_root(const struct cred *c, uint32_t uid)
{
	return c->user ? uid == id_taken(c->user, ID_UID, 0) && uid != ID_NONE : uid == 0;
}

/* May setgroups be used in it? */
bool user_ns_setgroups(const struct user_ns *u);

/* /proc/PID/uid_map and its kin: @u of the process, @opened who opened the file. */
void id_map_show(
	const struct user_ns *u, enum id_kind kind, const struct task *reader, struct buf *out);
int id_map_write(struct user_ns *u, enum id_kind kind, struct task *writer,
	const struct cred *opened, const char *text);
int setgroups_write(struct user_ns *u, const char *text);

#endif
