/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/ids.c - which host ids the sandbox's ids are.
 *
 * Owns:  nothing.
 * Rules: as root every sandbox has a private range, so that two sandboxes never share an owner. An
 *        ordinary user has its own id as root inside, and its subordinate range only when another
 *        user inside is asked for: newuidmap is a setuid program and costs more than the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/container/container.h"

/* Finds "name:start:count" or "uid:start:count" in /etc/subuid or /etc/subgid. */
static int find_sub(
	const char *file, const char *name, uid_t uid, uint32_t *ret_start, uint32_t *ret_count)
{
	own_file FILE *f = fopen(file, "re");
	char line[256], number[16];

	snprintf(number, sizeof(number), "%u", uid);
	while (f && fgets(line, sizeof(line), f)) {
		char *start = strchr(line, ':'), *count = start ? strchr(start + 1, ':') : NULL;
		uint64_t first, n;

		if (!count)
			continue;
		*start++ = '\0';
		*count++ = '\0';
		count[strcspn(count, "\n")] = '\0';
		if ((!name || !str_eq(line, name)) && !str_eq(line, number))
			continue;
		if (parse_u64(start, 1, UINT32_MAX - 1, &first) < 0 ||
			parse_u64(count, 1, UINT32_MAX - 1, &n) < 0)
			continue;
		*ret_start = (uint32_t)first;
		*ret_count = n > SANDBOX_IDS - 1 ? SANDBOX_IDS - 1 : (uint32_t)n;
		return 0;
	}
	return -ENOENT;
}

int ids_plan(struct container *c, struct err *e)
{
	const char *user = c->box.plan->user;
	uint32_t uids = 0, gids = 0;
	struct passwd *pw;

	c->map_count = c->rooted ? SANDBOX_IDS : 1;
	if (c->rooted || !user || str_eq(user, "0") || str_eq(user, "root") || str_eq(user, "0:0"))
		return 0;
	pw = getpwuid(getuid());
	if (find_sub("/etc/subuid", pw ? pw->pw_name : NULL, getuid(), &c->sub_uid, &uids) < 0 ||
		find_sub("/etc/subgid", pw ? pw->pw_name : NULL, getuid(), &c->sub_gid, &gids) < 0)
		return err_say(e, EPERM,
			"--user %s needs a range of ids for you in /etc/subuid and /etc/subgid; "
			"without one only --user 0 is possible",
			user);
	if (access("/usr/bin/newuidmap", X_OK) < 0)
		return err_say(
			e, ENOENT, "--user %s needs newuidmap: apt-get install uidmap", user);
	c->sub_count = uids < gids ? uids : gids;
	c->map_count = 1 + c->sub_count;
	return 0;
}

static int put_map(pid_t pid, const char *file, const char *text, struct err *e)
{
	char path[64];
	int r = str_fmt(path, sizeof(path), "/proc/%d/%s", (int)pid, file);

	if (r == 0)
		r = host_put(AT_FDCWD, path, text);
	if (r < 0)
		return err_set(e, -r, "writing '%s' to %s", text, path);
	return 0;
}

static int run_map_tool(
	const char *tool, pid_t pid, uint32_t own, uint32_t first, uint32_t count, struct err *e)
{
	char numbers[4][16], path[64];
	char *argv[] = { path, numbers[0], (char *)"0", numbers[1], (char *)"1", (char *)"1",
		numbers[2], numbers[3], NULL };
	char *no_env[] = { NULL };
	int status, r;
	pid_t child;

	snprintf(path, sizeof(path), "/usr/bin/%s", tool);
	snprintf(numbers[0], sizeof(numbers[0]), "%d", (int)pid);
	snprintf(numbers[1], sizeof(numbers[1]), "%u", own);
	snprintf(numbers[2], sizeof(numbers[2]), "%u", first);
	snprintf(numbers[3], sizeof(numbers[3]), "%u", count);
	r = posix_spawn(&child, path, NULL, NULL, argv, no_env);
	if (r != 0)
		return err_set(e, r, "starting %s", path);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "waiting for %s", path);
	if (status != 0)
		return err_say(e, EPERM,
			"%s refused to map %u ids from %u on; see /etc/subuid and /etc/subgid",
			path, count, first);
	return 0;
}

int ids_write(const struct container *c, pid_t pid, struct err *e)
{
	char text[64];
	int r;

	if (!c->rooted) {
		r = run_map_tool("newuidmap", pid, getuid(), c->sub_uid, c->sub_count, e);
		return r < 0 ? r
			     : run_map_tool(
				       "newgidmap", pid, getgid(), c->sub_gid, c->sub_count, e);
	}
	snprintf(text, sizeof(text), "0 %u %d", c->box.plan->id_base, SANDBOX_IDS);
	r = put_map(pid, "uid_map", text, e);
	return r < 0 ? r : put_map(pid, "gid_map", text, e);
}

int ids_write_own(uid_t uid, gid_t gid, struct err *e)
{
	char text[64];
	int r;

	r = host_put(AT_FDCWD, "/proc/self/setgroups", "deny");
	if (r < 0)
		return err_set(e, -r, "writing to /proc/self/setgroups");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	r = host_put(AT_FDCWD, "/proc/self/uid_map", text);
	if (r < 0)
		return err_set(e, -r, "writing '%s' to /proc/self/uid_map", text);
	snprintf(text, sizeof(text), "0 %u 1", gid);
	r = host_put(AT_FDCWD, "/proc/self/gid_map", text);
	if (r < 0)
		return err_set(e, -r, "writing '%s' to /proc/self/gid_map", text);
	return 0;
}
