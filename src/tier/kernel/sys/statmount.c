/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/statmount.c - mounts by number: statmount and listmount.
 *
 * Owns:  the layouts of both.
 * Rules: a mount outside the caller's root is for who may mount. A result is filled whole and
 *        copied out once.
 */
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/propagate.h"
#include "tier/kernel/vfs/vfs.h"

#define LIST_ROOT UINT64_MAX
enum { REQ_SIZE_0 = 24, REQ_SIZE_MAX = 4096, LIST_REVERSE = 1, LIST_MAX = 1000000 };
enum {
	SM_SB_BASIC = 1,
	SM_MNT_BASIC = 2,
	SM_PROPAGATE_FROM = 4,
	SM_MNT_ROOT = 8,
	SM_MNT_POINT = 0x10,
	SM_FS_TYPE = 0x20,
	SM_NS_ID = 0x40,
	SM_SB_SOURCE = 0x200,
	SM_SUPPORTED = 0x1000,
	SM_TEXTS = SM_MNT_ROOT | SM_MNT_POINT | SM_FS_TYPE | SM_SB_SOURCE,
	SM_KNOWN =
		SM_SB_BASIC | SM_MNT_BASIC | SM_PROPAGATE_FROM | SM_TEXTS | SM_NS_ID | SM_SUPPORTED,
};

struct request {
	uint32_t size, ns_fd;
	uint64_t id, param, ns_id;
};

struct guest_statmount {
	uint32_t size, opts;
	uint64_t mask;
	uint32_t dev_major, dev_minor;
	uint64_t magic;
	uint32_t sb_flags, fs_type;
	uint64_t id, parent_id;
	uint32_t id_old, parent_id_old;
	uint64_t attr, propagation, peer_group, master, propagate_from;
	uint32_t root, point;
	uint64_t ns_id;
	uint32_t fs_subtype, source;
	uint32_t opt_num, opt_array, opt_sec_num, opt_sec_array;
	uint64_t supported;
	uint32_t uidmap_num, uidmap, gidmap_num, gidmap;
	uint64_t spare[43];
};
_Static_assert(sizeof(struct guest_statmount) == 512, "as Linux has it");

static long read_request(struct task *t, gva_t ureq, struct request *ret)
{
	uint32_t size;
	long r;

	if (guest_read_u32(t, ureq, &size) < 0)
		return -EFAULT;
	if (size > REQ_SIZE_MAX)
		return -E2BIG;
	if (size < REQ_SIZE_0)
		return -EINVAL;
	*ret = (struct request){ 0 };
	r = guest_read_struct(t, ret, sizeof(*ret), ureq, size);
	if (r < 0)
		return r;
	if (ret->ns_fd && ret->ns_id)
		return -EINVAL;
	return ret->id <= MOUNT_ID_UNIQUE ? -EINVAL : 0;
}

static uint64_t own_ns(const struct task *t)
{
	return mnt_id(ns_of(t, NS_MNT));
}

/* Is it this one's namespace that is asked about? Others cannot be. */
static long check_ns(struct task *t, const struct request *q)
{
	if (q->ns_fd)
		return fd_get(t, (int)q->ns_fd) ? -EINVAL : -EBADF;
	return q->ns_id && q->ns_id != own_ns(t) ? -ENOENT : 0;
}

/* One that is in the tree. */
static struct mount *find_mount(struct task *t, uint64_t id)
{
	const struct mount *top;
	struct mount *m = t->k->vfs->mounts;

	while (m && mount_unique(m) != id)
		m = m->next;
	for (top = m; top && top->parent; top = top->parent)
		;
	return m && top == mnt_root(t) ? m : NULL;
}

static long find_seen(struct task *t, uint64_t id, struct mount **ret)
{
	struct mount *m = find_mount(t, id);

	if (!m)
		return -ENOENT;
	if (!mount_is_under(m, t->fs->root) && !mnt_may(t))
		return -EPERM;
	*ret = m;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* All below @top but @but itself, in the order of their numbers. */
static unsigned collect(struct task *t, struct path top, uint64_t but, uint64_t *ids)
{
	unsigned n = 0;

	for (struct mount *m = t->k->vfs->mounts; m && n < GUEST_MOUNTS_MAX; m = m->next)
		if (mount_unique(m) != but && mount_is_under(m, top))
			ids[n++] = mount_unique(m);
	qsort(ids, n, sizeof(ids[0]), by_number);
	return n;
}

static void turn_round(uint64_t *ids, unsigned n)
{
	for (unsigned i = 0; i < n / 2; i++) {
		uint64_t keep = ids[i];

		ids[i] = ids[n - 1 - i];
		ids[n - 1 - i] = keep;
	}
}

SYSCALL4(listmount, gva_t, ureq, gva_t, uids, uint64_t, room, unsigned, flags)
{
	uint64_t ids[GUEST_MOUNTS_MAX];
	unsigned n, from = 0;
	struct path top = task->fs->root;
	struct request q;
	struct mount *m;
	long r;

	if (flags & ~(unsigned)LIST_REVERSE)
		return -EINVAL;
	if (room > LIST_MAX)
		return -EOVERFLOW;
	r = read_request(task, ureq, &q);
	if (r < 0)
		return r;
	if (q.param && q.param <= MOUNT_ID_UNIQUE)
		return -EINVAL;
	r = check_ns(task, &q);
	if (r < 0)
		return r;
	if (q.id != LIST_ROOT) {
		r = find_seen(task, q.id, &m);
		if (r < 0)
			return r;
		top = (struct path){ m, m->root };
	}
	n = collect(task, top, q.id, ids);
	if (flags & LIST_REVERSE)
		turn_round(ids, n);
	while (q.param && from < n &&
		(flags & LIST_REVERSE ? ids[from] >= q.param : ids[from] <= q.param))
		from++;
	n -= from;
	if (n > room)
		n = (unsigned)room;
	if (n && guest_write(task, uids, ids + from, n * sizeof(ids[0])) < 0)
		return -EFAULT;
	return n;
}

static void put_sb(const struct mount *m, struct guest_statmount *s)
{
	s->dev_major = major(m->sb->dev);
	s->dev_minor = minor(m->sb->dev);
	s->magic = m->sb->ops->magic;
	s->sb_flags = m->sb->flags & SB_READ_ONLY ? MS_RDONLY : 0;
	s->mask |= SM_SB_BASIC;
}

/* MOUNT_* as MOUNT_ATTR_*. */
static uint64_t attr_words(unsigned flags)
{
	return (flags & 15) | (flags & MOUNT_NO_ATIME ? 0x10 : 0) |
	       (flags & MOUNT_STRICT_ATIME ? 0x20 : 0) | (flags & MOUNT_NO_DIRATIME ? 0x80 : 0) |
	       (flags & MOUNT_NO_FOLLOW ? 0x200000 : 0);
}

static void put_mount(const struct mount *m, struct guest_statmount *s)
{
	const struct mount *up = m->parent ? m->parent : m;

	s->id = mount_unique(m);
	s->parent_id = mount_unique(up);
	s->id_old = m->id;
	s->parent_id_old = up->id;
	s->attr = attr_words(m->flags);
	s->propagation = (m->group ? MS_SHARED : 0) | (m->master ? MS_SLAVE : 0) |
			 (m->unbindable ? MS_UNBINDABLE : 0);
	if (!s->propagation)
		s->propagation = MS_PRIVATE;
	s->peer_group = m->group;
	s->master = m->master;
	s->mask |= SM_MNT_BASIC;
}

static ssize_t text_of(struct task *t, const struct mount *m, unsigned what, char *out, size_t cap)
{
	struct path at = { (struct mount *)(uintptr_t)m, m->root };

	switch (what) {
	case SM_MNT_ROOT:
		return mount_root_show(m, out, cap);
	case SM_MNT_POINT:
		if (!mount_is_under(m, t->fs->root))
			return 0;
		return path_show(at, t->fs->root, out, cap);
	case SM_FS_TYPE:
		return str_fmt(out, cap, "%s", m->sb->ops->name) < 0 ? -EOVERFLOW : 1;
	default:
		return str_fmt(out, cap, "%s", m->source) < 0 ? -EOVERFLOW : 1;
	}
}

/* The texts behind the struct; an offset that nobody asked for leads to an empty one. */
static long put_texts(struct task *t, const struct mount *m, uint64_t mask, uint64_t room,
	struct guest_statmount *s, struct buf *out)
{
	const struct {
		unsigned what;
		uint32_t *at;
	} texts[] = { { SM_FS_TYPE, &s->fs_type }, { SM_MNT_ROOT, &s->root },
		{ SM_MNT_POINT, &s->point }, { SM_SB_SOURCE, &s->source } };
	char text[GUEST_PATH_MAX];

	for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
		ssize_t n;

		if (!(mask & texts[i].what))
			continue;
		n = text_of(t, m, texts[i].what, text, sizeof(text));
		if (n < 0)
			return -EOVERFLOW;
		if (n == 0)
			text[0] = '\0';
		if (out->len == 0)
			buf_add(out, "", 1);
		if (sizeof(*s) + out->len + strlen(text) >= room)
			return -EOVERFLOW;
		*texts[i].at = (uint32_t)out->len;
		buf_add(out, text, strlen(text) + 1);
		s->mask |= texts[i].what;
	}
	return out->bad ? -ENOMEM : 0;
}

static long put_all(struct task *t, const struct mount *m, uint64_t mask, gva_t ubuf, uint64_t room,
	struct buf *texts)
{
	struct guest_statmount s = { 0 };
	uint64_t size = room < sizeof(s) ? room : sizeof(s);
	long r = put_texts(t, m, mask, room, &s, texts);

	if (r < 0)
		return r;
	if (mask & SM_SB_BASIC)
		put_sb(m, &s);
	if (mask & SM_MNT_BASIC)
		put_mount(m, &s);
	if (mask & SM_PROPAGATE_FROM) {
		s.propagate_from = mount_hears_from(m, t->fs->root);
		s.mask |= SM_PROPAGATE_FROM;
	}
	if (mask & SM_NS_ID) {
		s.ns_id = own_ns(t);
		s.mask |= SM_NS_ID;
	}
	if (mask & SM_SUPPORTED) {
		s.supported = SM_KNOWN;
		s.mask |= SM_SUPPORTED;
	}
	s.size = (uint32_t)(size + texts->len);
	if (texts->len && guest_write(t, gva_add(ubuf, sizeof(s)), texts->data, texts->len) < 0)
		return -EFAULT;
	return guest_write(t, ubuf, &s, size);
}

SYSCALL4(statmount, gva_t, ureq, gva_t, ubuf, uint64_t, room, unsigned, flags)
{
	own_buf struct buf texts;
	struct request q;
	struct mount *m;
	long r;

	buf_init(&texts, 4 * GUEST_PATH_MAX);
	if (flags)
		return -EINVAL;
	r = read_request(task, ureq, &q);
	if (r == 0)
		r = check_ns(task, &q);
	if (r == 0 && (q.param & SM_TEXTS) && room <= sizeof(struct guest_statmount))
		r = -EOVERFLOW;
	if (r == 0)
		r = find_seen(task, q.id, &m);
	if (r == 0)
		r = put_all(task, m, q.param, ubuf, room, &texts);
	return r;
}
