/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/proc_query.c - PROCMAP_QUERY: one mapping of /proc/PID/maps, by address.
 *
 * Owns:  the layout of the question.
 * Rules: answered from the text that the file shows, so that both say the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/limits.h"
#include "tier/kernel/mm/copy.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/task/task.h"

enum {
	Q_READABLE = 1,
	Q_WRITABLE = 2,
	Q_EXECUTABLE = 4,
	Q_SHARED = 8,
	Q_NEXT = 16,
	Q_FILE = 32,
	Q_RIGHTS = 15,
	Q_KNOWN = 63,
	SIZE_MIN = 24,
	SIZE_MAX_ = 4096,
	PAGE = 4096,
};

struct query {
	uint64_t size, flags, addr;
	uint64_t from, to, rights, page, offset, ino;
	uint32_t major, minor, name_size, build_size;
	uint64_t name_at, build_at;
};
_Static_assert(sizeof(struct query) == 104, "as Linux has it");

struct line {
	uint64_t from, to, offset, ino;
	unsigned major, minor, rights;
	const char *name;
};

static bool parse(const char *s, struct line *l)
{
	char perms[5];
	int at = 0;

	if (sscanf(s, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &l->from,
		    &l->to, perms, &l->offset, &l->major, &l->minor, &l->ino, &at) < 7)
		return false;
	l->name = s + at;
	l->rights = (perms[0] == 'r' ? Q_READABLE : 0) | (perms[1] == 'w' ? Q_WRITABLE : 0) |
		    (perms[2] == 'x' ? Q_EXECUTABLE : 0) | (perms[3] == 's' ? Q_SHARED : 0);
	return true;
}

static bool fits(const struct line *l, uint64_t flags)
{
	return !(flags & Q_RIGHTS & ~(uint64_t)l->rights) && (!(flags & Q_FILE) || l->ino);
}

/* @text is cut into lines. */
static bool find(char *text, uint64_t addr, uint64_t flags, struct line *ret)
{
	char *save = NULL;

	for (char *s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
		if (!parse(s, ret) || ret->to <= addr)
			continue;
		if (!(flags & Q_NEXT))
			return ret->from <= addr && fits(ret, flags);
		if (fits(ret, flags))
			return true;
	}
	return false;
}

static long read_query(struct task *t, gva_t uq, struct query *q)
{
	uint64_t size;
	long r;

	if (guest_read_u64(t, uq, &size) < 0)
		return -EFAULT;
	if (size > SIZE_MAX_)
		return -E2BIG;
	if (size < SIZE_MIN)
		return -EINVAL;
	*q = (struct query){ 0 };
	r = guest_read_struct(t, q, sizeof(*q), uq, size);
	if (r < 0)
		return r;
	if (q->flags & ~(uint64_t)Q_KNOWN)
		return -EINVAL;
	return !q->name_size != !q->name_at || !q->build_size != !q->build_at ? -EINVAL : 0;
}

long proc_maps_query(struct task *about, struct task *t, uint64_t arg)
{
	own_buf struct buf text;
	struct query q;
	struct line l;
	size_t name;
	long r;

	buf_init(&text, PROC_TEXT_MAX);
	r = read_query(t, GVA(arg), &q);
	if (r < 0)
		return r;
	if (!about || !about->mm)
		return -ESRCH;
	proc_host_maps(about, &text);
	if (text.bad)
		return -ENOMEM;
	if (!text.len || !find(text.data, q.addr, q.flags, &l))
		return -ENOENT;
	name = l.name[0] ? strlen(l.name) + 1 : 0;
	if (q.name_size && name > q.name_size)
		return -ENAMETOOLONG;
	if (q.name_size && name && guest_write(t, GVA(q.name_at), l.name, name) < 0)
		return -EFAULT;
	q.name_size = q.name_size ? (uint32_t)name : 0;
	q.build_size = 0;
	q.from = l.from;
	q.to = l.to;
	q.rights = l.rights;
	q.page = PAGE;
	q.offset = l.offset;
	q.ino = l.ino;
	q.major = l.major;
	q.minor = l.minor;
	return guest_write(t, GVA(arg), &q, q.size < sizeof(q) ? q.size : sizeof(q));
}
