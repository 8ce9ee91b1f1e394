/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/ns/idmap.c - /proc/PID/uid_map, gid_map, projid_map and setgroups.
 *
 * Owns:  the rules of who may write what there.
 * Rules: a map is written once, whole. The text is a guest's: every number is checked.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/trap/answers.h"

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next number of a line; false: there is none, or it is too large. */
static bool take_number(const char **at, uint32_t *ret)
{
	const char *s = *at;
	uint64_t v = 0;

	while (is_space(*s) && *s != '\n')
		s++;
	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > UINT32_MAX)
			return false;
	}
	*at = s;
	*ret = (uint32_t)v;
	return *s == '\0' || is_space(*s);
}

static bool overlaps(uint32_t a, uint32_t a_count, uint32_t b, uint32_t b_count)
{
	return a < (uint64_t)b + b_count && b < (uint64_t)a + a_count;
}

static int add_extent(struct id_map *m, const struct id_extent *x)
{
	if (x->first == ID_NONE || x->lower == ID_NONE || !x->count ||
		(uint64_t)x->first + x->count > UINT32_MAX ||
		(uint64_t)x->lower + x->count > UINT32_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < m->count; i++) {
		const struct id_extent *o = &m->extents[i];

		if (overlaps(x->first, x->count, o->first, o->count) ||
			overlaps(x->lower, x->count, o->lower, o->count))
			return -EINVAL;
	}
	if (m->count == ID_EXTENTS_MAX)
		return -EINVAL;
	m->extents[m->count++] = *x;
	return 0;
}

static int parse(const char *text, struct id_map *m)
{
	int r = 0;

	while (*text && r == 0) {
		struct id_extent x;

		if (!take_number(&text, &x.first) || !take_number(&text, &x.lower) ||
			!take_number(&text, &x.count))
			return -EINVAL;
		while (is_space(*text) && *text != '\n')
			text++;
		if (*text == '\n')
			text++;
		else if (*text)
			return -EINVAL;
		r = add_extent(m, &x);
	}
	return r == 0 && !m->count ? -EINVAL : r;
}

static bool has_lower(const struct id_map *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (id >= m->extents[i].lower && id - m->extents[i].lower < m->extents[i].count)
			return true;
	return false;
}

/* Who lets root of outside in must be able to give files its rights there. */
static bool may_map_root(const struct user_ns *u, const struct cred *opened, const struct id_map *m)
{
	if (!has_lower(m, 0))
		return true;
	return opened->user == u ? u->had_setfcap
				 : cred_capable_in(opened, u->ns.owner, CAP_SETFCAP);
}

static bool may_map(const struct user_ns *u, enum id_kind kind, const struct task *writer,
	const struct cred *opened, const struct id_map *m)
{
	static const int caps[ID_KINDS] = { CAP_SETUID, CAP_SETGID, -1 };
	uint32_t id = id_taken(u->ns.owner, kind, m->extents[0].lower);

	if (kind == ID_UID && !may_map_root(u, opened, m))
		return false;
	/* Oneself, and nobody else. */
	if (m->count == 1 && m->extents[0].count == 1 && u->uid == opened->euid) {
		if (kind == ID_UID && id == opened->euid)
			return true;
		if (kind == ID_GID && u->no_setgroups && id == opened->egid)
			return true;
	}
	return caps[kind] < 0 || (cred_capable_in(writer->cred, u->ns.owner, caps[kind]) &&
					 cred_capable_in(opened, u->ns.owner, caps[kind]));
}

/* What was said in the parent's ids becomes what the kernel has; all of each range or nothing. */
static int lower_all(const struct user_ns *up, enum id_kind kind, struct id_map *m)
{
	for (uint32_t i = 0; i < m->count && up; i++) {
		struct id_extent *x = &m->extents[i];
		const struct id_map *over = &up->maps[kind];
		uint32_t n = 0;

		while (n < over->count &&
			!(x->lower >= over->extents[n].first &&
				x->lower - over->extents[n].first < over->extents[n].count))
			n++;
		if (n == over->count ||
			x->count > over->extents[n].count - (x->lower - over->extents[n].first))
			return -EPERM;
		x->lower = over->extents[n].lower + (x->lower - over->extents[n].first);
	}
	return 0;
}

int id_map_write(struct user_ns *u, enum id_kind kind, struct task *writer,
	const struct cred *opened, const char *text)
{
	struct id_map m = { 0 };
	int r;

	if (!u || !opened || (opened->user != u && opened->user != u->ns.owner))
		return -EPERM;
	if (u->maps[kind].count)
		return -EPERM;
	if (kind != ID_PROJECT && !cred_capable_in(opened, u, CAP_SYS_ADMIN))
		return -EPERM;
	m.extents = calloc(ID_EXTENTS_MAX, sizeof(*m.extents));
	if (!m.extents)
		return -ENOMEM;
	r = parse(text, &m);
	if (r == 0 && !may_map(u, kind, writer, opened, &m))
		r = -EPERM;
	if (r == 0)
		r = lower_all(u->ns.owner, kind, &m);
	if (r < 0) {
		free(m.extents);
		return r;
	}
	u->maps[kind] = m;
	answers_all(u->ns.k); /* who they are, for all in it */
	return 0;
}

void id_map_show(
	const struct user_ns *u, enum id_kind kind, const struct task *reader, struct buf *out)
{
	const struct user_ns *seen = reader ? reader->cred->user : NULL;

	if (!u) {
		buf_add_fmt(out, "%10u %10u %10u\n", 0u, 0u, ID_NONE);
		return;
	}
	if (seen == u)
		seen = u->ns.owner;
	for (uint32_t i = 0; i < u->maps[kind].count; i++) {
		const struct id_extent *x = &u->maps[kind].extents[i];

		buf_add_fmt(out, "%10u %10u %10u\n", x->first, id_shown(seen, kind, x->lower),
			x->count);
	}
}

int setgroups_write(struct user_ns *u, const char *text)
{
	size_t n = strlen(text);
	bool allow;

	if (n >= 8)
		return -EINVAL;
	if (str_after(text, "allow"))
		allow = true;
	else if (str_after(text, "deny"))
		allow = false;
	else
		return -EINVAL;
	for (text += allow ? 5 : 4; *text; text++)
		if (!is_space(*text))
			return -EINVAL;
	if (allow)
		return u && u->no_setgroups ? -EPERM : 0;
	if (!u || u->maps[ID_GID].count)
		return -EPERM;
	u->no_setgroups = true;
	return 0;
}
