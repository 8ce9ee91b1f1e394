/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/user.c - names of users and groups become numbers.
 *
 * Owns:  nothing.
 * Rules: the two files belong to the sandbox and are hostile: read in pieces, up to a limit, never
 *        waited for; a line that is too long or has no numbers is as if it were not there. No NSS.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent/user.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"

enum { LINE = 4096, FIELDS_MAX = 7 };

struct lines {
	int fd;
	size_t at, len, total;
	bool skip; /* inside a line that did not fit */
	char buf[LINE];
};

/* 1: a line, its fields split at the colons. 0: the end. Negative errno. */
static int lines_fill(struct lines *l)
{
	ssize_t n;

	if (l->at) {
		memmove(l->buf, l->buf + l->at, l->len - l->at);
		l->len -= l->at;
		l->at = 0;
	} else if (l->len == sizeof(l->buf)) {
		l->len = 0;
		l->skip = true;
	}
	n = read(l->fd, l->buf + l->len, sizeof(l->buf) - l->len);
	if (n < 0)
		return -errno;
	l->len += (size_t)n;
	l->total += (size_t)n;
	if (l->total > AGENT_PASSWD_BYTES_MAX)
		return -EFBIG;
	return n > 0;
}

static int lines_next(struct lines *l, char *fields[FIELDS_MAX], unsigned *ret_count)
{
	for (;;) {
		char *start = l->buf + l->at, *end = memchr(start, '\n', l->len - l->at);
		bool skipped = l->skip;
		int r;

		if (!end) {
			r = lines_fill(l);
			if (r <= 0)
				return r; /* a last line without its newline is not a line */
			continue;
		}
		l->at += (size_t)(end - start) + 1;
		l->skip = false;
		*end = '\0';
		if (skipped || strlen(start) != (size_t)(end - start))
			continue;
		*ret_count = 0;
		for (char *p = start; p && *ret_count < FIELDS_MAX;) {
			fields[(*ret_count)++] = p;
			p = strchr(p, ':');
			if (p)
				*p++ = '\0';
		}
		return 1;
	}
}

static int lines_open(struct lines *l, const char *path)
{
	struct stat st;

	l->at = l->len = l->total = 0;
	l->skip = false;
	/* O_NONBLOCK: a fifo in its place must not stop us. */
	l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (l->fd < 0)
		return -errno;
	if (fstat(l->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(l->fd);
		return -EINVAL;
	}
	return 0;
}

static bool number(const char *text, uint32_t *ret)
{
	uint64_t v;

	if (parse_u64(text, 0, UINT32_MAX - 1, &v) < 0)
		return false;
	*ret = (uint32_t)v;
	return true;
}

/* Finds the line of @user, a name or a number; fills uid, gid, name and home. 1 when it is there.
 */
static int find_user(const char *path, const char *user, struct identity *who)
{
	uint32_t want = 0, uid, gid;
	bool by_number = number(user, &want);
	char *f[FIELDS_MAX];
	struct lines l;
	unsigned count;
	int r = lines_open(&l, path);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while ((r = lines_next(&l, f, &count)) > 0) {
		if (count < 6 || !number(f[2], &uid) || !number(f[3], &gid))
			continue;
		if (by_number ? uid != want : !str_eq(f[0], user))
			continue;
		who->uid = uid;
		who->gid = gid;
		if (str_copy(who->name, sizeof(who->name), f[0]) < 0)
			continue;
		if (!*f[5] || str_copy(who->home, sizeof(who->home), f[5]) < 0)
			str_copy(who->home, sizeof(who->home), "/");
		break;
	}
	close(l.fd);
	return r;
}

static int find_group(const char *path, const char *group, gid_t *ret)
{
	char *f[FIELDS_MAX];
	struct lines l;
	unsigned count;
	uint32_t gid;
	int r = lines_open(&l, path);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while ((r = lines_next(&l, f, &count)) > 0) {
		if (count < 3 || !str_eq(f[0], group) || !number(f[2], &gid))
			continue;
		*ret = gid;
		break;
	}
	close(l.fd);
	return r;
}

static bool is_member(char *members, const char *name)
{
	size_t n = strlen(name);

	for (char *p = members; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, name, n) == 0 && (p[n] == ',' || !p[n]))
			return true;
	}
	return false;
}

static int find_groups_of(const char *path, struct identity *who)
{
	char *f[FIELDS_MAX];
	struct lines l;
	unsigned count;
	uint32_t gid;
	int r = lines_open(&l, path);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while ((r = lines_next(&l, f, &count)) > 0) {
		if (count < 4 || !number(f[2], &gid) || gid == who->gid ||
			!is_member(f[3], who->name))
			continue;
		if (who->group_count == AGENT_GROUPS_MAX) {
			r = -E2BIG;
			break;
		}
		who->groups[who->group_count++] = gid;
	}
	close(l.fd);
	return r;
}

/* Splits "user:group"; @ret_group is NULL when there is none. */
static int split(const char *text, char *copy, size_t cap, char **ret_group)
{
	if (str_copy(copy, cap, text) < 0)
		return -ENAMETOOLONG;
	*ret_group = strchr(copy, ':');
	if (*ret_group)
		*(*ret_group)++ = '\0';
	return !*copy || (*ret_group && !**ret_group) ? -EINVAL : 0;
}

int user_resolve_in(const char *passwd, const char *group, const char *text, struct identity *ret,
	struct err *e)
{
	struct identity who = { .home = "/" };
	char copy[2 * USER_NAME], *named_group;
	uint32_t n;
	int r = split(text, copy, sizeof(copy), &named_group);

	if (r < 0)
		return err_say(e, -r, "user '%.40s' is not NAME, UID, NAME:GROUP or UID:GID", text);
	r = find_user(passwd, copy, &who);
	if (r < 0)
		return err_set(e, -r, "reading %s", passwd);
	if (r == 0 && !number(copy, &n))
		return err_say(e, ENOENT, "user '%.40s' is not in %s", copy, passwd);
	if (r == 0)
		who.uid = who.gid = n;
	r = 0;
	if (named_group && number(named_group, &who.gid))
		named_group = NULL;
	else if (named_group)
		r = find_group(group, named_group, &who.gid);
	else if (*who.name)
		r = find_groups_of(group, &who);
	if (r < 0)
		return err_set(e, -r, "reading %s", group);
	if (r == 0 && named_group)
		return err_say(e, ENOENT, "group '%.40s' is not in %s", named_group, group);
	*ret = who;
	return 0;
}

int user_resolve(const char *text, struct identity *ret, struct err *e)
{
	return user_resolve_in("/etc/passwd", "/etc/group", text, ret, e);
}

void user_name(uint32_t uid, char out[USER_NAME])
{
	struct identity who;
	char text[16];

	out[0] = '\0';
	if (str_fmt(text, sizeof(text), "%u", uid) == 0 && find_user("/etc/passwd", text, &who) > 0)
		str_copy(out, USER_NAME, who.name);
}

void user_group_name(uint32_t gid, char out[USER_NAME])
{
	char *f[FIELDS_MAX];
	struct lines l;
	unsigned count;
	uint32_t n;

	out[0] = '\0';
	if (lines_open(&l, "/etc/group") < 0)
		return;
	while (lines_next(&l, f, &count) > 0) {
		if (count < 3 || !number(f[2], &n) || n != gid)
			continue;
		str_copy(out, USER_NAME, f[0]);
		break;
	}
	close(l.fd);
}
