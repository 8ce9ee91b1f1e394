/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/fanotify.c - who wants to hear of what: groups (a descriptor each) and their marks.
 *
 * Owns:  kernel.fan, struct fan_group, struct fan_mark; the marks of inodes, mounts, file systems.
 * Rules: a mark holds its inode; a mount or a file system tells when it goes. A list of marks is in
 *        the order of groups, so that one round over all lists meets each group once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "tier/kernel/io/fan.h"

#include "base/buf.h"
#include "base/ckd.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/walk.h"

/* The list that @m is in. */
static struct fan_mark **list_of(const struct fan_mark *m)
{
	if (m->inode)
		return &m->inode->marks;
	return m->mnt ? &m->mnt->marks : &m->sb->marks;
}

static void mark_free(struct fan_mark *m)
{
	struct inode *i = m->inode;
	struct fan_mark **at = list_of(m);

	while (*at != m)
		at = &(*at)->beside;
	*at = m->beside;
	*m->place = m->next;
	if (m->next)
		m->next->place = m->place;
	m->group->mark_count--;
	m->group->k->fan->mark_count--;
	free(m);
	inode_unref(i);
}

void fan_inode_gone(struct inode *i)
{
	inode_ref(i);
	while (i->marks)
		mark_free(i->marks);
	inode_unref(i);
}

void fan_mount_gone(struct mount *m)
{
	while (m->marks)
		mark_free(m->marks);
}

void fan_super_gone(struct super *sb)
{
	while (sb->marks)
		mark_free(sb->marks);
}

/* Rounds */

void fan_round_begin(struct fan_round *r, const struct notify *n)
{
	bool entry = n->mask & FAN_W_ENTRY;

	*r = (struct fan_round){ .group = NULL };
	r->at[FAN_AT_INODE] = entry ? n->dir->marks : n->inode->marks;
	if (!entry && n->dir)
		r->at[FAN_AT_PARENT] = n->dir->marks;
	if (n->mask & FAN_W_RENAME)
		r->at[FAN_AT_NEW_DIR] = n->to_dir->marks;
	if (n->path.mnt)
		r->at[FAN_AT_MOUNT] = n->path.mnt->marks;
	if (n->inode->sb)
		r->at[FAN_AT_SUPER] = n->inode->sb->marks;
}

bool fan_round_next(struct fan_round *r)
{
	r->group = NULL;
	for (unsigned i = 0; i < FAN_PLACES; i++)
		if (r->at[i] && (!r->group || r->at[i]->group->order < r->group->order))
			r->group = r->at[i]->group;
	for (unsigned i = 0; i < FAN_PLACES; i++) {
		r->matched[i] = false;
		r->marks[i] = r->at[i] && r->at[i]->group == r->group ? r->at[i] : NULL;
		if (r->marks[i])
			r->at[i] = r->at[i]->beside;
	}
	return r->group;
}

/* Is @mask about what happens to a directory, or to something in one? */
static bool applies(uint32_t mask, bool is_dir, unsigned place)
{
	return (!is_dir || (mask & FAN_W_ON_DIR)) &&
	       (place != FAN_AT_PARENT || (mask & FAN_W_ON_CHILD));
}

/* The old way to ignore: directories too, and what is in them when the mark is about that. */
static uint32_t ignored(const struct fan_mark *m)
{
	if (!m->ignore || (m->flags & FAN_M_IGNORE))
		return m->ignore;
	return m->ignore | FAN_W_ON_DIR | (m->mask & FAN_W_ON_CHILD);
}

uint32_t fan_round_mask(struct fan_round *r, uint32_t mask)
{
	bool is_dir = mask & FAN_W_ON_DIR, fids = r->group->flags & FAN_I_FIDS;
	uint32_t wanted = 0, unwanted = 0;

	for (unsigned i = 0; i < FAN_PLACES; i++) {
		struct fan_mark *m = r->marks[i];

		if (!m)
			continue;
		if ((mask & FAN_W_MODIFY) && i != FAN_AT_PARENT && !(m->flags & FAN_M_SURVIVES))
			m->ignore = 0;
		if (applies(ignored(m), is_dir, i))
			unwanted |= ignored(m) & FAN_W_ALL;
		if (!applies(m->mask, is_dir, i))
			continue;
		wanted |= m->mask;
		r->matched[i] = true;
	}
	mask &= wanted & ~unwanted;
	if (!(mask & FAN_W_ALL))
		return 0;
	return fids ? mask & ~(uint32_t)FAN_W_ON_CHILD : mask & FAN_W_ALL;
}

/* Has the group words for it? */
static bool can_say(const struct fan_group *g, const struct notify *n)
{
	/* Without handles a descriptor is all that there is to say: of what has one. */
	if (!(g->flags & FAN_I_FIDS))
		return n->path.dentry && (S_ISREG(n->inode->mode) || S_ISDIR(n->inode->mode));
	/* With those of directories alone there must be one. */
	return (g->flags & FAN_I_FID) || n->dir || (n->mask & FAN_W_ON_DIR);
}

void fan_tell(struct kernel *k, const struct notify *n)
{
	struct fan_round r;

	fan_round_begin(&r, n);
	while (fan_round_next(&r)) {
		uint32_t mask = fan_round_mask(&r, n->mask);
		bool whole = r.matched[FAN_AT_SUPER];

		if (mask && can_say(r.group, n))
			fan_queue(r.group, n, mask, whole || r.matched[FAN_AT_INODE],
				whole || r.matched[FAN_AT_NEW_DIR]);
	}
}

/* Marks */

static struct fan_mark *find(struct fan_group *g, struct fan_mark *list)
{
	while (list && list->group != g)
		list = list->beside;
	return list;
}

static struct fan_mark **object_of(struct path at, unsigned type)
{
	switch (type) {
	case FAN_M_MOUNT:
		return &at.mnt->marks;
	case FAN_M_SUPER:
		return &at.dentry->sb->marks;
	default:
		return &at.dentry->inode->marks;
	}
}

/* On @at's inode, mount or file system (@type); NULL: no memory, or too many. */
static struct fan_mark *mark_create(struct fan_group *g, struct path at, unsigned type)
{
	struct fan_state *st = g->k->fan;
	struct fan_mark **list = object_of(at, type);
	struct fan_mark *m = st->mark_count < FANOTIFY_MARKS_MAX ? calloc(1, sizeof(*m)) : NULL;

	if (!m)
		return NULL;
	m->group = g;
	m->type = type;
	if (type == FAN_M_MOUNT)
		m->mnt = at.mnt;
	else if (type == FAN_M_SUPER)
		m->sb = at.dentry->sb;
	else
		m->inode = inode_ref(at.dentry->inode);
	m->next = g->marks;
	m->place = &g->marks;
	if (m->next)
		m->next->place = &m->next;
	g->marks = m;
	while (*list && (*list)->group->order < g->order)
		list = &(*list)->beside;
	m->beside = *list;
	*list = m;
	g->mark_count++;
	st->mark_count++;
	return m;
}

/* What an older mark has been told and cannot be taken back. */
static bool conflicts(const struct fan_mark *m, unsigned flags)
{
	if ((flags & FAN_M_EVICTABLE) && !(m->flags & FAN_M_EVICTABLE))
		return true;
	if ((flags & FAN_M_IGNORED) && (m->flags & FAN_M_IGNORE))
		return true;
	return (flags & FAN_M_IGNORE) && !(flags & FAN_M_SURVIVES) && (m->flags & FAN_M_SURVIVES);
}

static int mark_add(struct fan_group *g, struct path at, unsigned flags, uint32_t mask)
{
	unsigned type = flags & FAN_M_TYPE;
	struct fan_mark *m = find(g, *object_of(at, type));

	/* Who writes to it would clear it at once. */
	if (!type && (flags & FAN_M_IGNORES) && !(flags & FAN_M_SURVIVES) &&
		at.dentry->inode->write_opens)
		return 0;
	if (m && conflicts(m, flags))
		return -EEXIST;
	if (!m) {
		m = mark_create(g, at, type);
		if (!m)
			return -ENOSPC;
		m->flags = flags & FAN_M_EVICTABLE;
	}
	if (!(flags & FAN_M_EVICTABLE))
		m->flags &= ~(unsigned)FAN_M_EVICTABLE;
	if (!(flags & FAN_M_IGNORES)) {
		m->mask |= mask;
		return 0;
	}
	m->ignore |= mask;
	m->flags |= flags & (FAN_M_IGNORE | FAN_M_SURVIVES);
	return 0;
}

static int mark_remove(
	struct fan_group *g, struct path at, unsigned flags, uint32_t mask, uint32_t meaningless)
{
	struct fan_mark *m = find(g, *object_of(at, flags & FAN_M_TYPE));

	if (!m)
		return -ENOENT;
	if (flags & FAN_M_IGNORES)
		m->ignore &= ~mask;
	else
		m->mask &= ~mask;
	if (!((m->mask | m->ignore) & ~meaningless))
		mark_free(m);
	return 0;
}

int fanotify_mark_at(struct file *f, unsigned flags, uint32_t mask, struct path at)
{
	struct fan_group *g = f->priv;
	uint32_t meaningless = 0;

	if ((flags & FAN_M_IGNORES) == FAN_M_IGNORED) {
		mask &= ~(uint32_t)FAN_W_FLAGS;
		meaningless = FAN_W_FLAGS;
	}
	/* Only a directory has children; but who wants to know where something is asks for it. */
	if ((flags & FAN_M_TYPE) || !S_ISDIR(at.dentry->inode->mode)) {
		mask &= ~(uint32_t)FAN_W_ON_CHILD;
		meaningless |= FAN_W_ON_CHILD;
	}
	return flags & FAN_M_ADD ? mark_add(g, at, flags, mask)
				 : mark_remove(g, at, flags, mask, meaningless);
}

void fanotify_flush(struct file *f, unsigned type)
{
	struct fan_group *g = f->priv;
	struct fan_mark *next;

	for (struct fan_mark *m = g->marks; m; m = next) {
		next = m->next;
		if (m->type == type)
			mark_free(m);
	}
}

unsigned fanotify_flags(const struct file *f)
{
	return ((const struct fan_group *)f->priv)->flags;
}

void fanotify_each(const struct file *f, void (*inode)(void *arg, struct inode *i),
	void (*name)(void *arg, struct dentry *d), void *arg)
{
	const struct fan_group *g = f->ops == &fanotify_ops ? f->priv : NULL;

	for (struct fan_mark *m = g ? g->marks : NULL; m; m = m->next)
		if (m->inode)
			inode(arg, m->inode);
	for (struct fan_event *e = g ? g->first : NULL; e; e = e->next)
		if (e->path.dentry)
			name(arg, e->path.dentry);
}

/* Lines of fdinfo */

void fanotify_show_marks(const struct file *f, struct buf *out)
{
	const struct fan_group *g = f->priv;

	if (f->ops != &fanotify_ops)
		return;
	buf_add_fmt(
		out, "fanotify flags:%x event-flags:%x\n", g->flags & FAN_I_KNOWN, g->event_flags);
	for (const struct fan_mark *m = g->marks; m; m = m->next) {
		if (m->inode)
			buf_add_fmt(out, "fanotify ino:%llx sdev:%llx ",
				(unsigned long long)m->inode->ino,
				(unsigned long long)(m->inode->sb ? m->inode->sb->dev : 0));
		else if (m->mnt)
			buf_add_fmt(out, "fanotify mnt_id:%x ", m->mnt->id);
		else
			buf_add_fmt(out, "fanotify sdev:%llx ", (unsigned long long)m->sb->dev);
		buf_add_fmt(out, "mflags:%x mask:%x ignored_mask:%x\n",
			m->flags & (FAN_M_SURVIVES | FAN_M_EVICTABLE | FAN_M_IGNORE), m->mask,
			m->ignore);
	}
}

/* The descriptor */

static ssize_t fanotify_read(struct file *f, struct uio *io, int64_t *pos)
{
	return fan_read(f->priv, io);
}

/* The answer to a question: which, and what. */
static ssize_t fanotify_write(struct file *f, struct uio *io, int64_t *pos)
{
	enum { ALLOW = 1, DENY = 2, AUDIT = 0x10, ERRNO_SHIFT = 24 };
	struct {
		int32_t fd;
		uint32_t response;
	} a;
	struct fan_group *g = f->priv;
	uint32_t err;
	int r;

	if (!(g->flags & FAN_I_CLASS) || io->left < sizeof(a))
		return -EINVAL;
	if (uio_in(io, &a, sizeof(a)) < (ssize_t)sizeof(a))
		return -EFAULT;
	err = a.response >> ERRNO_SHIFT;
	a.response &= (1U << ERRNO_SHIFT) - 1;
	if ((a.response & AUDIT) && !(g->flags & FAN_I_AUDIT))
		return -EINVAL;
	a.response &= ~(uint32_t)AUDIT;
	if ((a.response != ALLOW && a.response != DENY) || a.fd < 0)
		return -EINVAL;
	if (err && (a.response != DENY || !(g->flags & FAN_I_PRE_CONTENT) ||
			   (err != EPERM && err != EIO && err != EBUSY && err != ETXTBSY &&
				   err != EAGAIN && err != ENOSPC && err != EDQUOT)))
		return -EINVAL;
	r = fan_answer_fd(g, a.fd, a.response == ALLOW ? 0 : err ? -(int)err : -EPERM);
	return r < 0 ? r : (ssize_t)sizeof(a);
}

static unsigned fanotify_poll(struct file *f, struct poll_reg *reg)
{
	struct fan_group *g = f->priv;

	poll_wait(reg, &g->wait);
	return g->first ? POLLIN | POLLRDNORM : 0;
}

static long fanotify_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	struct fan_group *g = f->priv;
	uint64_t bytes = 0;

	if (cmd != FIONREAD)
		return -ENOTTY;
	for (struct fan_event *e = g->first; e; e = e->next)
		bytes += fan_event_size(g, e);
	return guest_write_u32(t, GVA(arg), (uint32_t)bytes);
}

static void group_free(struct fan_group *g)
{
	struct fan_state *st = g->k->fan;
	struct fan_group **at = &st->groups;

	while (g->marks)
		mark_free(g->marks);
	fan_asks_end(g);
	fan_queue_flush(g);
	wait_flush(&g->wait);
	wait_flush(&g->asked);
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	if (--st->group_count == 0) {
		g->k->fan = NULL;
		free(st);
	}
	free(g);
}

static void fanotify_release(struct file *f)
{
	group_free(f->priv);
}

/* NULL: too many, or no memory. */
static struct fan_group *group_create(struct kernel *k, unsigned flags, unsigned event_flags)
{
	struct fan_state *st = k->fan ? k->fan : calloc(1, sizeof(*st));
	struct fan_group *g =
		st && st->group_count < FANOTIFY_GROUPS_MAX ? calloc(1, sizeof(*g)) : NULL;
	struct fan_group **at;
	unsigned class = flags & FAN_I_PRE_CONTENT ? 0 : flags & FAN_I_CONTENT ? 1 : 2;

	if (!g) {
		if (!k->fan)
			free(st);
		return NULL;
	}
	if (!k->fan)
		answers_take_back(k);
	k->fan = st;
	*g = (struct fan_group){ .k = k,
		.flags = flags,
		.event_flags = event_flags,
		.order = (uint64_t) class << 60 | ++st->last_age };
	for (at = &st->groups; *at && (*at)->order < g->order; at = &(*at)->next)
		;
	g->next = *at;
	*at = g;
	st->group_count++;
	return g;
}

struct file *fanotify_create(struct kernel *k, unsigned flags, unsigned event_flags, int *ret_err)
{
	struct fan_group *g = group_create(k, flags, event_flags);
	struct file *f;

	*ret_err = -EMFILE;
	if (!g)
		return NULL;
	*ret_err = -ENFILE;
	f = io_file(k, &fanotify_ops, O_RDWR | (flags & FAN_I_NONBLOCK ? O_NONBLOCK : 0), 0600, g);
	if (!f)
		group_free(g);
	return f;
}

/* Walking */

static bool known_mark(const struct fan_mark *m)
{
	return !(m->mask & ~(uint32_t)(FAN_W_ALL | FAN_W_FLAGS)) &&
	       !(m->ignore & ~(uint32_t)(FAN_W_ALL | FAN_W_FLAGS)) &&
	       !(m->flags & ~(unsigned)(FAN_M_IGNORE | FAN_M_SURVIVES | FAN_M_EVICTABLE));
}

static void mark_walk(struct fan_group *g, struct fan_mark *x, struct walk *w)
{
	struct fan_mark m = x ? *x : (struct fan_mark){ 0 };
	struct dentry fake = { 0 };
	struct path at = { NULL, &fake };

	walk_u32(w, "type", &m.type);
	walk_u32(w, "flags", &m.flags);
	walk_u32(w, "mask", &m.mask);
	walk_u32(w, "ignore", &m.ignore);
	if (m.type == FAN_M_MOUNT)
		walk_need(w, "mount", WALK_MOUNT, (void **)&m.mnt);
	else if (m.type == FAN_M_SUPER)
		walk_need(w, "super", WALK_SUPER, (void **)&m.sb);
	else if (m.type == 0)
		walk_need(w, "inode", WALK_INODE, (void **)&m.inode);
	else
		walk_fail(w, -EBADMSG);
	if (w->mode == WALK_SAVE || w->err)
		return;
	at.mnt = m.mnt;
	fake.sb = m.sb;
	fake.inode = m.inode;
	x = !known_mark(&m) || find(g, *object_of(at, m.type)) ? NULL : mark_create(g, at, m.type);
	if (!x) {
		walk_fail(w, -EBADMSG);
		return;
	}
	x->flags = m.flags;
	x->mask = m.mask;
	x->ignore = m.ignore;
}

static void fanotify_walk(struct file *f, struct walk *w)
{
	struct fan_group *g = f->priv;
	unsigned flags = g ? g->flags : 0, event_flags = g ? g->event_flags : 0;
	struct fan_mark *x;
	uint32_t n;

	walk_u32(w, "flags", &flags);
	walk_u32(w, "event_flags", &event_flags);
	if (flags & ~(unsigned)(FAN_I_KNOWN | FAN_I_UNPRIVILEGED))
		walk_fail(w, -EBADMSG);
	if (!g && !w->err) {
		g = f->priv = group_create(f->k, flags, event_flags);
		if (!g)
			walk_fail(w, -ENOMEM);
	}
	if (w->err)
		return;
	n = g->mark_count;
	walk_list(w, "marks", &n, FANOTIFY_MARKS_MAX);
	/* The last first: each new one comes in front. */
	for (x = g->marks; x && x->next; x = x->next)
		;
	for (; n > 0 && !w->err; n--) {
		mark_walk(g, x, w);
		if (w->mode == WALK_SAVE)
			x = x->place == &g->marks
				    ? NULL
				    : (struct fan_mark *)((char *)x->place -
							  offsetof(struct fan_mark, next));
	}
	fan_queue_walk(g, w);
}

const struct file_ops fanotify_ops = {
	.name = "fanotify",
	.flags = FILE_STREAM | FILE_NO_PARTIAL | FILE_NO_SPLICE,
	.read = fanotify_read,
	.write = fanotify_write,
	.poll = fanotify_poll,
	.ioctl = fanotify_ioctl,
	.lseek = io_no_seek,
	.release = fanotify_release,
	.walk = fanotify_walk,
};
