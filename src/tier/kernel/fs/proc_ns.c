/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/proc_ns.c - /proc/PID/ns, uid_map, gid_map, projid_map and setgroups.
 *
 * Owns:  nothing.
 * Rules: as fs/proc.c has them.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"

/* What is dead is in none. */
static bool is_gone(const struct proc_ctx *c)
{
	return c->t->state == TASK_DEAD;
}

static ssize_t show_link(
	const struct proc_ctx *c, enum ns_kind kind, const struct ns *n, char *buf, size_t cap)
{
	int r = is_gone(c) ? -ENOENT
			   : str_fmt(buf, cap, "%s:[%u]", ns_name(kind), ns_number(kind, n));

	return r < 0 ? r : (ssize_t)strlen(buf);
}

static int follow(const struct proc_ctx *c, enum ns_kind kind, struct ns *n, struct path *ret)
{
	return is_gone(c) ? -ENOENT : nsfs_path(c->k, kind, n, ret);
}

#define NS_LINK(word, kind, which)                                                                 \
	static ssize_t link_##word(const struct proc_ctx *c, char *buf, size_t cap)                \
	{                                                                                          \
		return show_link(c, kind, which(c->t, kind), buf, cap);                            \
	}                                                                                          \
	static int follow_##word(const struct proc_ctx *c, struct path *ret)                       \
	{                                                                                          \
		return follow(c, kind, which(c->t, kind), ret);                                    \
	}
NS_LINK(cgroup, NS_CGROUP, ns_of)
NS_LINK(ipc, NS_IPC, ns_of)
NS_LINK(mnt, NS_MNT, ns_of)
NS_LINK(net, NS_NET, ns_of)
NS_LINK(pid, NS_PID, ns_of)
NS_LINK(pid_next, NS_PID, ns_for_children)
NS_LINK(time, NS_TIME, ns_of)
NS_LINK(time_next, NS_TIME, ns_for_children)
NS_LINK(user, NS_USER, ns_of)
NS_LINK(uts, NS_UTS, ns_of)

#define ENTRY(n, word)                                                                             \
	{                                                                                          \
		.name = n, .mode = S_IFLNK | 0777, .link = link_##word, .follow = follow_##word    \
	}
const struct proc_entry proc_ns_entries[PROC_NS_COUNT] = {
	ENTRY("cgroup", cgroup),
	ENTRY("ipc", ipc),
	ENTRY("mnt", mnt),
	ENTRY("net", net),
	ENTRY("pid", pid),
	ENTRY("pid_for_children", pid_next),
	ENTRY("time", time),
	ENTRY("time_for_children", time_next),
	ENTRY("user", user),
	ENTRY("uts", uts),
};

void proc_show_uid_map(const struct proc_ctx *c, struct buf *out)
{
	id_map_show(c->t->cred->user, ID_UID, c->reader, out);
}

void proc_show_gid_map(const struct proc_ctx *c, struct buf *out)
{
	id_map_show(c->t->cred->user, ID_GID, c->reader, out);
}

void proc_show_projid_map(const struct proc_ctx *c, struct buf *out)
{
	id_map_show(c->t->cred->user, ID_PROJECT, c->reader, out);
}

int proc_write_uid_map(const struct proc_ctx *c, char *text)
{
	return id_map_write(c->t->cred->user, ID_UID, c->reader, c->opened, text);
}

int proc_write_gid_map(const struct proc_ctx *c, char *text)
{
	return id_map_write(c->t->cred->user, ID_GID, c->reader, c->opened, text);
}

int proc_write_projid_map(const struct proc_ctx *c, char *text)
{
	return id_map_write(c->t->cred->user, ID_PROJECT, c->reader, c->opened, text);
}

void proc_show_setgroups(const struct proc_ctx *c, struct buf *out)
{
	const struct user_ns *u = c->t->cred->user;

	buf_add_str(out, u && u->no_setgroups ? "deny\n" : "allow\n");
}

int proc_write_setgroups(const struct proc_ctx *c, char *text)
{
	struct user_ns *u = c->t->cred->user;

	if (!c->opened || !cred_capable_in(c->opened, u, CAP_SYS_ADMIN))
		return -EACCES;
	return setgroups_write(u, text);
}
