/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/info.c - what FILE_FULL and FILE_HOME add: names, attributes, paths as a user means them.
 *
 * Owns:  a few names of users and groups, looked up once and forgotten when the files change.
 * Rules: all of it is the sandbox's own view of its own files. Attributes are those below
 *        META_PREFIX alone, up to META_BYTES_MAX; what does not fit is left out.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "agent/state.h"
#include "agent/user.h"
#include "base/str.h"

enum {
	XATTR_LIST = 16 * 1024,
	XATTR_VALUE = 4096,
	XATTR_NAME = 256,
	PREFIX = sizeof(META_PREFIX) - 1
};

/* --- Names ------------------------------------------------------------------------------------ */

static uint64_t stamp_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	return (uint64_t)st.st_ino * 31 + (uint64_t)st.st_mtim.tv_sec * 1000000007u +
	       (uint64_t)st.st_mtim.tv_nsec + (uint64_t)st.st_size;
}

/* Once a turn is enough: within one, the answers belong together. */
static void refresh(struct agent *a)
{
	uint64_t stamp;

	if (a->names_turn == a->turn || (a->names_turn && a->untouched))
		return;
	a->names_turn = a->turn;
	stamp = stamp_of("/etc/passwd") ^ stamp_of("/etc/group") << 1;
	if (stamp != a->names_stamp) {
		memset(a->names, 0, sizeof(a->names));
		a->last_user[0] = '\0';
	}
	a->names_stamp = stamp;
}

static const char *name_of(struct agent *a, uint32_t id, bool group)
{
	struct name *n = &a->names[(id * 2 + group) % NAMES_MAX];

	refresh(a);
	if (!n->known || n->id != id || n->group != group) {
		*n = (struct name){ .known = true, .id = id, .group = group };
		if (group)
			user_group_name(id, n->text);
		else
			user_name(id, n->text);
	}
	return n->text[0] ? n->text : NULL;
}

int user_known(struct agent *a, const char *text, struct identity *ret, struct err *e)
{
	int r;

	refresh(a);
	if (!a->last_who)
		a->last_who = room_take(sizeof(*a->last_who));
	if (!a->last_who)
		return user_resolve(text, ret, e);
	if (!*text || !str_eq(a->last_user, text)) {
		a->last_user[0] = '\0';
		r = user_resolve(text, a->last_who, e);
		if (r < 0)
			return r;
		str_copy(a->last_user, sizeof(a->last_user), text);
	}
	*ret = *a->last_who;
	return 0;
}

/* --- Attributes ------------------------------------------------------------------------------- */

static void put_meta(struct msg *m, const char *path)
{
	char list[XATTR_LIST], value[XATTR_VALUE], out[META_BYTES_MAX];
	ssize_t len = listxattr(path, list, sizeof(list));
	size_t used = 0;

	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(list + at) + 1) {
		const char *name = str_after(list + at, META_PREFIX);
		size_t name_len = name ? strlen(name) : 0;
		ssize_t n = name_len && !strchr(name, '=')
				    ? getxattr(path, list + at, value, sizeof(value))
				    : -1;

		if (n < 0 || memchr(value, '\0', (size_t)n) ||
			used + name_len + 1 + (size_t)n + 1 > sizeof(out))
			continue;
		memcpy(out + used, name, name_len);
		used += name_len;
		out[used++] = '=';
		memcpy(out + used, value, (size_t)n);
		used += (size_t)n;
		out[used++] = '\0';
	}
	if (used)
		msg_bytes(m, TAG_META, out, used);
}

static int clear_meta(int fd)
{
	char list[XATTR_LIST];
	ssize_t len = flistxattr(fd, list, sizeof(list));

	if (len < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(list + at) + 1)
		if (str_after(list + at, META_PREFIX) && fremovexattr(fd, list + at) < 0)
			return -errno;
	return 0;
}

int meta_set(int fd, const struct values *v, struct err *e)
{
	const char *meta = v->text[TAG_META];
	uint32_t len;
	int r;

	if (!values_has(v, TAG_META))
		return 0;
	len = v->len[TAG_META];
	if (len > META_BYTES_MAX || (len && meta[len - 1]))
		return err_say(e, EINVAL, "META is \"name=value\" strings of at most %d bytes",
			META_BYTES_MAX);
	r = clear_meta(fd);
	if (r < 0)
		return err_set(e, -r, "removing attributes");
	for (uint32_t at = 0; at < len; at += (uint32_t)strlen(meta + at) + 1) {
		const char *text = meta + at, *equals = strchr(text, '=');
		char name[XATTR_NAME];

		if (!equals || equals == text ||
			str_fmt(name, sizeof(name), META_PREFIX "%.*s", (int)(equals - text),
				text) < 0)
			return err_say(e, EINVAL, "an attribute is NAME=VALUE");
		if (fsetxattr(fd, name, equals + 1, strlen(equals + 1), 0) < 0)
			return err_set(e, errno, "attribute '%.60s'", name);
	}
	return 0;
}

/* --- Files ------------------------------------------------------------------------------------ */

void put_full(struct agent *a, struct msg *m, const char *path, const struct stat *lst)
{
	char link[PATH_MAX];
	struct stat target = *lst;
	const char *name;
	ssize_t n = -1;

	if (S_ISLNK(lst->st_mode)) {
		if (stat(path, &target) < 0)
			target = *lst;
		/* Where it leads in the end; or, when that is nowhere, what it says. */
		if (realpath(path, link))
			n = (ssize_t)strlen(link);
		else
			n = readlink(path, link, sizeof(link) - 1);
	}
	put_file(m, &target);
	if (n > 0) {
		link[n] = '\0';
		msg_text(m, TAG_LINK, link);
	}
	name = name_of(a, target.st_uid, false);
	if (name)
		msg_text(m, TAG_OWNER, name);
	name = name_of(a, target.st_gid, true);
	if (name)
		msg_text(m, TAG_GROUP, name);
	put_meta(m, path);
}

/* --- Paths ------------------------------------------------------------------------------------ */

/* Takes "//", "." and ".." out of an absolute path, as text. */
static void clean(char *path)
{
	char *to = path;

	for (const char *p = path; *p;) {
		size_t n = strcspn(p + 1, "/");

		if (n == 0 || (n == 1 && p[1] == '.')) {
			p += 1 + n;
		} else if (n == 2 && p[1] == '.' && p[2] == '.') {
			while (to > path && *--to != '/')
				;
			p += 3;
		} else {
			memmove(to, p, n + 1);
			to += n + 1;
			p += n + 1;
		}
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

int path_at_home(const char *text, const char *home, char out[WARD_PATH_MAX])
{
	if (text[0] == '/')
		return str_copy(out, WARD_PATH_MAX, text);
	if (text[0] == '~' && (text[1] == '/' || !text[1]))
		text++;
	else if (text[0] == '~')
		return -EINVAL;
	return str_fmt(out, WARD_PATH_MAX, "%s/%s", home, text);
}

int path_of_user(struct agent *a, const struct request *q, enum proto_tag tag,
	char room[WARD_PATH_MAX], const char **ret, struct err *e)
{
	const char *text = q->v->text[tag], *user = values_text(q->v, TAG_USER);
	struct identity who;
	int r;

	*ret = text;
	if (!(q->flags & FILE_HOME))
		return 0;
	if (!user)
		return err_say(e, EINVAL, "a path from home needs a USER");
	r = user_known(a, user, &who, e);
	if (r == -ENOENT)
		return err_say(e, ENOKEY, "user '%.40s' does not exist inside", user);
	if (r < 0)
		return r;
	r = path_at_home(text, who.home, room);
	if (r < 0)
		return err_say(e, -r,
			r == -EINVAL ? "'%.60s': only one's own ~ is known"
				     : "'%.60s...' is too long",
			text);
	clean(room);
	*ret = room;
	return 0;
}

void put_path(struct msg *m, const struct request *q, const char *path)
{
	if (q->flags & FILE_HOME)
		msg_text(m, TAG_PATH, path);
}
