/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/accounts.c - names and numbers of users inside a sandbox.
 *
 * Owns:  struct accounts.
 * Rules: the texts are hostile; a line that does not parse is no account.
 */
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "front/e2b/accounts.h"

enum { FIELDS_MAX = 7, LINE_MAX_BYTES = 2048 };

void accounts_done(struct accounts *a)
{
	free(a->passwd);
	free(a->group);
	*a = (struct accounts){ 0 };
}

/* Cuts the line at @*at into fields; the number of them, 0 at the end of the text. */
static size_t next_line(const char **at, char line[LINE_MAX_BYTES], char *fields[FIELDS_MAX])
{
	while (**at) {
		size_t len = strcspn(*at, "\n"), n = 0;
		const char *from = *at;

		*at += len + ((*at)[len] == '\n');
		if (!len || len >= LINE_MAX_BYTES)
			continue;
		memcpy(line, from, len);
		line[len] = '\0';
		for (char *p = line; p && n < FIELDS_MAX; n++) {
			fields[n] = p;
			p = strchr(p, ':');
			if (p)
				*p++ = '\0';
		}
		return n;
	}
	return 0;
}

static bool read_id(const char *text, uint32_t *ret)
{
	uint64_t n;

	if (parse_u64(text, 0, UINT32_MAX, &n) < 0)
		return false;
	*ret = (uint32_t)n;
	return true;
}

static bool by_name(const struct accounts *a, const char *name, struct account *ret)
{
	char line[LINE_MAX_BYTES], *f[FIELDS_MAX];
	const char *at = a->passwd ? a->passwd : "";
	size_t n;

	while ((n = next_line(&at, line, f)))
		if (n >= 6 && str_eq(f[0], name) && read_id(f[2], &ret->uid) &&
			read_id(f[3], &ret->gid) &&
			str_copy(ret->name, sizeof(ret->name), f[0]) == 0 && f[5][0] == '/' &&
			str_copy(ret->home, sizeof(ret->home), f[5]) == 0)
			return true;
	return false;
}

bool accounts_find(const struct accounts *a, const char *name, struct account *ret)
{
	char found[64];

	if (by_name(a, name, ret))
		return true;
	if (!read_id(name, &ret->uid))
		return false;
	accounts_user(a, ret->uid, found);
	if (!str_eq(found, name))
		return by_name(a, found, ret);
	ret->gid = ret->uid;
	str_copy(ret->home, sizeof(ret->home), "/");
	return str_copy(ret->name, sizeof(ret->name), name) == 0;
}

static const char *name_of(const char *text, uint32_t id, char out[64])
{
	char line[LINE_MAX_BYTES], *f[FIELDS_MAX];
	const char *at = text ? text : "";
	uint32_t found;
	size_t n;

	while ((n = next_line(&at, line, f)))
		if (n >= 3 && read_id(f[2], &found) && found == id && f[0][0] &&
			str_copy(out, 64, f[0]) == 0)
			return out;
	str_fmt(out, 64, "%u", id);
	return out;
}

const char *accounts_user(const struct accounts *a, uint32_t uid, char out[64])
{
	return name_of(a->passwd, uid, out);
}

const char *accounts_group(const struct accounts *a, uint32_t gid, char out[64])
{
	return name_of(a->group, gid, out);
}
