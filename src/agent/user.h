/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_USER_H
#define WARD_AGENT_USER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

enum { USER_NAME = 64, USER_HOME = 256 };

/* Who a command runs as. */
struct identity {
	uid_t uid;
	gid_t gid;
	gid_t groups[AGENT_GROUPS_MAX];
	unsigned group_count;
	char name[USER_NAME]; /* "" when the uid has none */
	char home[USER_HOME]; /* "/" when it has none */
};

/*
 * "0", "1000", "1000:100", "name", "name:group", looked up in /etc/passwd and /etc/group as they
 * are now. A uid without an entry has the group of the same number. A group given by hand is the
 * only one; else the supplementary groups are those that list the name. -ENOENT: no such user or
 * group.
 */
int user_resolve(const char *text, struct identity *ret, struct err *e);

/* The name of a number, or "". */
void user_name(uint32_t uid, char out[USER_NAME]);
void user_group_name(uint32_t gid, char out[USER_NAME]);

/* The same over other files, for tests. */
int user_resolve_in(const char *passwd, const char *group, const char *text, struct identity *ret,
	struct err *e);

#endif
