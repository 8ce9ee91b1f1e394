/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/fanqueue.c - what a fanotify descriptor has to say: events, joined where they are alike, and
 * how they are read.
 *
 * Owns:  struct fan_event and the queue of a group.
 * Rules: an event says what it is about by a place (for a descriptor) or by numbers (for handles),
 *        never by both. A question is never joined to anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tier/kernel/io/fan.h"

#include "base/ckd.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/handle.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/vfs/ops.h"
#include "tier/kernel/vfs/pidfd.h"
#include "tier/kernel/walk.h"
#include "tier/kernel/walk/names.h"

enum {
	JOIN_TRIES = 128, /* events that are compared with a new one */
	VERSION = 3,
	INFO_FID = 1,
	INFO_DFID_NAME = 2,
	INFO_DFID = 3,
	INFO_PIDFD = 4,
	INFO_OLD_NAME = 10,
	INFO_NEW_NAME = 12,
	NO_FD = -1,
	NO_PIDFD = -1,
	BAD_PIDFD = -2,
};

struct metadata {
	uint32_t len;
	uint8_t version, reserved;
	uint16_t own_len;
	uint64_t mask;
	int32_t fd, pid;
};

struct info {
	uint8_t type, pad;
	uint16_t len;
};

struct fid_info {
	struct info info;
	uint32_t fsid[2];
	struct handle_head head;
	struct handle_body body;
} __attribute__((packed));

struct pidfd_info {
	struct info info;
	int32_t fd;
};

/* Names and numbers */

static const char *new_name(const struct fan_event *e)
{
	return e->names + e->name_len + 1;
}

static uint32_t mix(uint32_t h, uint64_t v)
{
	for (; v; v >>= 8)
		h = (h ^ (uint8_t)v) * 16777619u;
	return h;
}

static uint32_t hash_of(const struct fan_event *e)
{
	uint32_t h = mix(2166136261u, (uint32_t)e->pid);

	h = mix(h, e->dir);
	h = mix(h, e->object);
	h = mix(h, (uintptr_t)e->path.dentry);
	for (unsigned i = 0; i < e->name_len; i++)
		h = (h ^ (uint8_t)e->names[i]) * 16777619u;
	return h;
}

static bool alike(const struct fan_event *a, const struct fan_event *b)
{
	const uint32_t apart = FAN_W_ON_DIR | FAN_W_RENAME | FAN_W_OVERFLOW;

	return a->hash == b->hash && a->pid == b->pid && a->born == b->born &&
	       !((a->mask ^ b->mask) & apart) && a->path.dentry == b->path.dentry &&
	       a->path.mnt == b->path.mnt && a->has_dir == b->has_dir && a->has_new == b->has_new &&
	       a->has_object == b->has_object && a->dev == b->dev && a->dir == b->dir &&
	       a->new_dir == b->new_dir && a->object == b->object && a->name_len == b->name_len &&
	       a->new_len == b->new_len &&
	       memcmp(a->names, b->names, a->name_len + b->new_len + 2u) == 0;
}

/* The queue */

static struct fan_event *event_create(const char *name, const char *to)
{
	size_t a = name ? strlen(name) : 0, b = to ? strlen(to) : 0;
	struct fan_event *e = calloc(1, sizeof(*e) + a + b + 2);

	if (!e)
		return NULL;
	e->name_len = (uint16_t)a;
	e->new_len = (uint16_t)b;
	if (a)
		memcpy(e->names, name, a);
	if (b)
		memcpy(e->names + a + 1, to, b);
	return e;
}

static void event_free(struct fan_event *e)
{
	if (e->path.dentry)
		path_unref(e->path);
	free(e);
}

static void append(struct fan_group *g, struct fan_event *e)
{
	struct fan_event **bucket = &g->buckets[e->hash % FAN_BUCKETS];

	if (g->last)
		g->last->next = e;
	else
		g->first = e;
	g->last = e;
	g->count++;
	g->k->fan->event_count++;
	if (!e->ask && !(e->mask & FAN_W_OVERFLOW)) {
		e->same = *bucket;
		e->same_at = bucket;
		if (e->same)
			e->same->same_at = &e->same;
		*bucket = e;
	}
	wait_wake(&g->wait, POLLIN | POLLRDNORM);
}

/* Takes it out of the queue; it is the caller's. */
static void take_out(struct fan_group *g, struct fan_event *e)
{
	struct fan_event **at = &g->first, *before = NULL;

	for (; *at != e; at = &(*at)->next)
		before = *at;
	*at = e->next;
	if (g->last == e)
		g->last = before;
	if (e->same_at) {
		*e->same_at = e->same;
		if (e->same)
			e->same->same_at = e->same_at;
		e->same_at = NULL;
	}
	if (e->mask & FAN_W_OVERFLOW)
		g->overflowed = false;
	g->count--;
	g->k->fan->event_count--;
}

void fan_event_drop(struct fan_group *g, struct fan_event *e)
{
	take_out(g, e);
	event_free(e);
}

void fan_queue_flush(struct fan_group *g)
{
	while (g->first)
		fan_event_drop(g, g->first);
}

static bool join(struct fan_group *g, const struct fan_event *e)
{
	struct fan_event *old = g->buckets[e->hash % FAN_BUCKETS];

	for (unsigned i = 0; old && i < JOIN_TRIES; i++, old = old->same) {
		if (alike(old, e)) {
			old->mask |= e->mask;
			return true;
		}
	}
	return false;
}

static bool is_full(const struct fan_group *g)
{
	return g->k->fan->event_count >= FANOTIFY_EVENTS_MAX ||
	       (g->count >= FANOTIFY_QUEUE_MAX && !(g->flags & FAN_I_UNLIMITED_QUEUE));
}

static void overflow(struct fan_group *g)
{
	struct fan_event *e = g->overflowed ? NULL : event_create(NULL, NULL);

	if (!e)
		return;
	e->mask = FAN_W_OVERFLOW;
	g->overflowed = true;
	append(g, e);
}

/* Which handles and names @g is told. */
static struct fan_event *describe(
	struct fan_group *g, const struct notify *n, uint32_t mask, bool old, bool new_end)
{
	bool entry = mask & FAN_W_ENTRY, names = g->flags & FAN_I_NAME;
	struct inode *thing = entry && !(g->flags & FAN_I_TARGET_FID) ? n->dir : n->inode;
	struct inode *dir = !entry && S_ISDIR(n->inode->mode) ? n->inode : n->dir, *child = NULL;
	bool both = entry ? g->flags & FAN_I_TARGET_FID
			  : (g->flags & FAN_I_FID) && !(mask & FAN_W_ON_DIR);
	struct fan_event *e;

	if (!(g->flags & FAN_I_DIR_FID) || !dir ||
		(names ? !entry && (mask & FAN_W_ON_DIR) : !both || thing == dir)) {
		/* One handle says it. */
		e = event_create(NULL, NULL);
		if (e) {
			e->has_object = true;
			e->object = (g->flags & FAN_I_DIR_FID) && dir ? dir->ino : thing->ino;
		}
		return e;
	}
	if (both && thing != dir)
		child = thing;
	new_end = new_end && (mask & FAN_W_RENAME);
	old = old || !(mask & FAN_W_RENAME);
	e = event_create(names && old ? n->name : NULL, names && new_end ? n->to_name : NULL);
	if (!e)
		return NULL;
	e->has_dir = old;
	e->dir = old ? dir->ino : 0;
	e->has_new = new_end;
	e->new_dir = new_end ? n->to_dir->ino : 0;
	e->has_object = child;
	e->object = child ? child->ino : 0;
	return e;
}

struct fan_event *fan_queue(
	struct fan_group *g, const struct notify *n, uint32_t mask, bool old, bool new_end)
{
	const struct task *who = g->k->acting;
	bool asks = mask & FAN_W_PERM;
	struct fan_event *e;

	if (g->flags & FAN_I_FIDS) {
		e = describe(g, n, mask, old, new_end);
		if (e)
			e->dev = n->inode->sb ? n->inode->sb->dev : 0;
	} else {
		e = event_create(NULL, NULL);
		if (e)
			e->path = path_ref(n->path);
	}
	if (!e)
		return NULL;
	e->mask = mask;
	e->pid = !who ? 0 : g->flags & FAN_I_TID ? who->tid : who->proc->pid;
	e->born = who ? who->proc->start_ns : 0;
	e->hash = hash_of(e);
	if (!asks && join(g, e)) {
		event_free(e);
		return NULL;
	}
	if (is_full(g)) {
		event_free(e);
		overflow(g);
		return NULL;
	}
	append(g, e);
	return e;
}

/* Reading */

static size_t fid_size(size_t name_bytes)
{
	return (sizeof(struct fid_info) + name_bytes + 3) & ~(size_t)3;
}

/* "." stands for the directory itself, where names are told. */
static bool says_dot(const struct fan_group *g, const struct fan_event *e)
{
	return e->has_object && !e->has_dir && !e->has_new && (g->flags & FAN_I_NAME) &&
	       (e->mask & FAN_W_ON_DIR);
}

size_t fan_event_size(const struct fan_group *g, const struct fan_event *e)
{
	size_t n = sizeof(struct metadata);

	if (e->has_dir)
		n += fid_size(e->name_len ? e->name_len + 1u : 0);
	if (e->has_new)
		n += fid_size(e->new_len + 1u);
	if (e->has_object)
		n += fid_size(says_dot(g, e) ? 2 : 0);
	if (g->flags & FAN_I_PIDFD)
		n += sizeof(struct pidfd_info);
	return n;
}

struct record {
	char bytes[1024]; /* of one event; names have 255 at most */
	size_t len;
};

static void add(struct record *out, const void *p, size_t len)
{
	memcpy(out->bytes + out->len, p, len);
	out->len += len;
}

static void add_fid(struct record *out, unsigned type, uint64_t dev, uint64_t ino, const char *name,
	size_t name_len)
{
	size_t size = fid_size(name ? name_len + 1 : 0), start = out->len;
	struct fid_info f = { .info = { .type = (uint8_t)type, .len = (uint16_t)size },
		.fsid = { (uint32_t)dev, 0 },
		.head = { sizeof(f.body), HANDLE_TYPE },
		.body = { dev, ino } };

	add(out, &f, sizeof(f));
	if (name)
		add(out, name, name_len);
	memset(out->bytes + out->len, 0, start + size - out->len);
	out->len = start + size;
}

static unsigned object_type(const struct fan_group *g, const struct fan_event *e)
{
	if ((g->flags & FAN_I_FIDS) == FAN_I_FID || e->has_dir || e->has_new)
		return INFO_FID;
	if (says_dot(g, e))
		return INFO_DFID_NAME;
	return e->mask & (FAN_W_ENTRY | FAN_W_ON_DIR) ? INFO_DFID : INFO_FID;
}

static void add_fids(struct record *out, const struct fan_group *g, const struct fan_event *e)
{
	if (e->has_dir)
		add_fid(out,
			e->mask & FAN_W_RENAME ? INFO_OLD_NAME
			: e->name_len          ? INFO_DFID_NAME
					       : INFO_DFID,
			e->dev, e->dir, e->name_len ? e->names : NULL, e->name_len);
	if (e->has_new)
		add_fid(out, INFO_NEW_NAME, e->dev, e->new_dir, new_name(e), e->new_len);
	if (e->has_object)
		add_fid(out, object_type(g, e), e->dev, e->object, says_dot(g, e) ? "." : NULL, 1);
}

/* The descriptor of what it happened to, in @t's table; or a negative errno. */
static int open_it(struct fan_group *g, struct task *t, struct path p)
{
	struct file *f;
	int fd = fd_room(t);

	if (fd == 0)
		fd = vfs_open_quiet(t, p, g->event_flags & ~(unsigned)O_CLOEXEC, &f);
	if (fd < 0)
		return fd;
	fd = fd_install(t, f, g->event_flags & O_CLOEXEC, 0);
	if (fd < 0)
		file_unref(f);
	return fd;
}

static int open_who(struct fan_group *g, struct task *t, const struct fan_event *e, int32_t pid)
{
	struct proc *p = pid ? proc_find(g->k, pid) : NULL;
	bool errors = g->flags & FAN_I_FD_ERROR;
	int fd;

	if (!p || p->start_ns != e->born)
		return errors ? -ESRCH : NO_PIDFD;
	fd = pidfd_install(t, p, 0);
	return fd >= 0 || errors ? fd : BAD_PIDFD;
}

/* @e has left the queue. Bytes, or a negative errno: then it is lost. */
static ssize_t give(struct fan_group *g, struct fan_event *e, struct uio *io)
{
	struct task *t = io->task;
	bool errors = g->flags & FAN_I_FD_ERROR;
	bool own = !(g->flags & FAN_I_UNPRIVILEGED) || e->pid == t->proc->pid;
	struct metadata m = { .len = (uint32_t)fan_event_size(g, e),
		.version = VERSION,
		.own_len = sizeof(m),
		.mask = e->mask,
		.fd = errors ? -EBADF : NO_FD,
		.pid = own ? e->pid : 0 };
	struct pidfd_info who = { { INFO_PIDFD, 0, sizeof(who) }, NO_PIDFD };
	struct record out = { .len = 0 };

	if (e->path.dentry) {
		m.fd = open_it(g, t, e->path);
		if (m.fd < 0 && !errors)
			return m.fd;
	}
	if (g->flags & FAN_I_PIDFD)
		who.fd = open_who(g, t, e, m.pid);
	add(&out, &m, sizeof(m));
	add_fids(&out, g, e);
	if (g->flags & FAN_I_PIDFD)
		add(&out, &who, sizeof(who));
	if (uio_out(io, out.bytes, out.len) == (ssize_t)out.len) {
		if (e->ask && m.fd >= 0)
			fan_ask_read(e->ask, m.fd);
		return (ssize_t)out.len;
	}
	if (m.fd >= 0)
		fd_close(t, m.fd);
	if (who.fd >= 0)
		fd_close(t, who.fd);
	return -EFAULT;
}

ssize_t fan_read(struct fan_group *g, struct uio *io)
{
	ssize_t done = 0, n = 0;

	if (!g->first)
		return -EAGAIN;
	if (!io->task)
		return -EINVAL; /* descriptors need a table */
	while (g->first && fan_event_size(g, g->first) <= io->left) {
		struct fan_event *e = g->first;
		struct fan_ask *a = e->ask;

		take_out(g, e);
		n = give(g, e, io);
		if (a)
			a->event = NULL;
		if (a && a->fd < 0)
			fan_ask_answer(a, -EPERM); /* nobody could say which one is meant */
		event_free(e);
		if (n < 0)
			break;
		done += n;
	}
	if (done && n != -EFAULT)
		return done;
	return n < 0 ? n : -EINVAL;
}

/* Walking */

static void event_walk(struct fan_group *g, struct fan_event *e, struct walk *w)
{
	struct fan_event v = e ? *e : (struct fan_event){ 0 };
	char *name = e ? e->names : NULL;
	char *to = e ? e->names + e->name_len + 1 : NULL;
	struct fan_event *made = NULL;

	walk_u32(w, "mask", &v.mask);
	walk_i32(w, "pid", &v.pid);
	walk_past(w, "born", &v.born);
	walk_bool(w, "has_dir", &v.has_dir);
	walk_bool(w, "has_new", &v.has_new);
	walk_bool(w, "has_object", &v.has_object);
	walk_u64(w, "dev", &v.dev);
	walk_u64(w, "dir", &v.dir);
	walk_u64(w, "new_dir", &v.new_dir);
	walk_u64(w, "object", &v.object);
	walk_str(w, "name", &name);
	walk_str(w, "to", &to);
	path_walk(&v.path, w);
	if (w->mode == WALK_SAVE)
		return;
	if (!name || !to || strlen(name) > GUEST_NAME_MAX || strlen(to) > GUEST_NAME_MAX ||
		(v.mask & (FAN_W_PERM | ~(uint32_t)(FAN_W_ALL | FAN_W_ON_DIR | FAN_W_OVERFLOW))))
		walk_fail(w, -EBADMSG);
	if (!w->err)
		made = event_create(name, to);
	if (!made)
		walk_fail(w, -ENOMEM);
	free(name);
	free(to);
	if (!made) {
		if (v.path.dentry)
			path_unref(v.path);
		return;
	}
	v.name_len = made->name_len;
	v.new_len = made->new_len;
	memcpy(made, &v, offsetof(struct fan_event, names));
	g->overflowed |= v.mask & FAN_W_OVERFLOW;
	made->hash = hash_of(made);
	append(g, made);
}

/* Who asks asks again; what cannot be found again is not told of. */
static bool is_kept(const struct fan_group *g, const struct fan_event *e)
{
	return !e->ask && !(e->path.dentry && name_is_lost(g->k, e->path.dentry));
}

void fan_queue_walk(struct fan_group *g, struct walk *w)
{
	struct fan_event *e = g->first;
	uint32_t n = 0;

	for (struct fan_event *x = e; x; x = x->next)
		n += is_kept(g, x);
	walk_list(w, "events", &n, FANOTIFY_EVENTS_MAX);
	for (; n > 0 && !w->err; n--) {
		while (w->mode == WALK_SAVE && !is_kept(g, e))
			e = e->next;
		event_walk(g, e, w);
		e = w->mode == WALK_SAVE ? e->next : NULL;
	}
}
