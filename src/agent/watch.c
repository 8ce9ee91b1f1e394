/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/watch.c - WATCH: changes below a directory.
 *
 * Owns:  one inotify descriptor per stream, and which directory each of its watches stands for.
 * Rules: a directory is watched before it is read, so what appears meanwhile is reported once or
 *        twice and never not at all. Events wait in the kernel until there is credit; when it drops
 *        some, the client is told (CHANGE_LOST) and the tree is read again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "agent/dirents.h"
#include "agent/state.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"

enum {
	STEPS_PER_TURN = 128,
	EVENT_ROOM = WARD_PATH_MAX + 64, /* credit that any one event needs at most */
	FULL_ROOM = EVENT_ROOM + WARD_PATH_MAX + META_BYTES_MAX + 512, /* the same with FILE_FULL */
	EVENTS = IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_ATTRIB |
		 IN_DELETE_SELF | IN_MOVE_SELF,
};

enum todo { TODO_NOTHING, TODO_READ, TODO_READ_AND_TELL };

struct watched {
	bool live;
	uint8_t todo;
	uint16_t parent; /* 0 is the top, and its own parent */
	int wd;
	char name[NAME_MAX + 1];
};

struct watch {
	bool recursive, armed, full, tell_top;
	unsigned top; /* slots in use are below */
	int reading;  /* the slot whose directory is being read; -1 */
	struct dirents dir;
	uint32_t at, len; /* events read and not sent */
	char events[4096] __attribute__((aligned(8)));
	char path[WARD_PATH_MAX];
	struct watched dirs[AGENT_WATCH_DIRS_MAX];
};

static void watch_done(struct stream *s)
{
	if (s->out[0].fd >= 0)
		close(s->out[0].fd);
	if (s->watch->reading >= 0)
		dirents_done(&s->watch->dir);
	room_free(s->watch, sizeof(*s->watch));
}

/* The path of @name in directory @slot, relative to the top; @name may be "". */
static int path_of(const struct watch *w, unsigned slot, const char *name, char *out, size_t cap)
{
	char *at = out + cap - 1;
	const char *part = name;

	*at = '\0';
	for (;;) {
		size_t n = strlen(part);

		if (n + 1 > (size_t)(at - out))
			return -ENAMETOOLONG;
		if (n && *at)
			*--at = '/';
		at -= n;
		memcpy(at, part, n);
		if (!slot)
			break;
		part = w->dirs[slot].name;
		slot = w->dirs[slot].parent;
	}
	memmove(out, at, strlen(at) + 1);
	return 0;
}

static int full_path(const struct watch *w, unsigned slot, const char *name, char *out, size_t cap)
{
	char below[WARD_PATH_MAX];
	int r = path_of(w, slot, name, below, sizeof(below));

	return r < 0 ? r : str_fmt(out, cap, "%s%s%s", w->path, *below ? "/" : "", below);
}

static void fail(struct agent *a, struct stream *s, int code, const char *what)
{
	struct err e = { 0 };

	err_set(&e, code, "%s", what);
	stream_finish(a, s, &e);
}

static bool has_credit(struct agent *a, const struct stream *s)
{
	return s->out[0].flow.credit >= (uint32_t)(s->watch->full ? FULL_ROOM : EVENT_ROOM) &&
	       out_ready(a);
}

/* What it is now; nothing when it is gone already. */
static void put_event_file(
	struct agent *a, struct stream *s, struct msg *m, unsigned slot, const char *name)
{
	char path[WARD_PATH_MAX];
	struct stat st;

	if (full_path(s->watch, slot, name, path, sizeof(path)) == 0 && lstat(path, &st) == 0)
		put_full(a, m, path, &st);
}

static void send_event(
	struct agent *a, struct stream *s, enum file_change change, unsigned slot, const char *name)
{
	char path[WARD_PATH_MAX];
	struct msg m;

	/* Too deep to name: the client must look for itself. */
	if (path_of(s->watch, slot, name, path, sizeof(path)) < 0) {
		change = CHANGE_LOST;
		path[0] = '\0';
	}
	out_begin(a, &m, PROTO_EVENT, 0, s->id);
	msg_u32(&m, TAG_CHANGE, change);
	msg_text(&m, TAG_NAME, path);
	if (s->watch->full && *name &&
		(change == CHANGE_CREATED || change == CHANGE_WRITTEN ||
			change == CHANGE_ATTRIBUTES))
		put_event_file(a, s, &m, slot, name);
	flow_take(&s->out[0].flow, (uint32_t)(m.len - FRAME_HEAD));
	out_end(a, &m);
}

static struct watched *find_wd(struct watch *w, int wd)
{
	for (unsigned i = 0; i < w->top; i++)
		if (w->dirs[i].live && w->dirs[i].wd == wd)
			return &w->dirs[i];
	return NULL;
}

/* Watches @name in @parent. 0 also when it is gone or watched already. */
static int add_dir(struct stream *s, unsigned parent, const char *name, enum todo todo)
{
	struct watch *w = s->watch;
	char path[WARD_PATH_MAX];
	unsigned i = 1;
	int wd;

	while (i < w->top && w->dirs[i].live)
		i++;
	if (i == AGENT_WATCH_DIRS_MAX)
		return -ENOSPC;
	if (full_path(w, parent, name, path, sizeof(path)) < 0)
		return -ENAMETOOLONG;
	wd = inotify_add_watch(s->out[0].fd, path, EVENTS | IN_ONLYDIR | IN_DONT_FOLLOW);
	if (wd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	if (find_wd(w, wd))
		return 0;
	w->dirs[i] = (struct watched){
		.live = true, .todo = todo, .parent = (uint16_t)parent, .wd = wd
	};
	str_copy(w->dirs[i].name, sizeof(w->dirs[i].name), name);
	if (i >= w->top)
		w->top = i + 1;
	return 0;
}

static bool is_below(const struct watch *w, unsigned slot, unsigned above)
{
	for (unsigned hops = 0; slot && slot != above && hops < w->top; hops++)
		slot = w->dirs[slot].parent;
	return slot == above;
}

static void drop(struct stream *s, unsigned slot)
{
	struct watch *w = s->watch;

	inotify_rm_watch(s->out[0].fd, w->dirs[slot].wd);
	w->dirs[slot].live = false;
	if (w->reading == (int)slot) {
		dirents_done(&w->dir);
		w->reading = -1;
	}
}

/* A directory has moved away, and all below with it. */
static void drop_tree(struct stream *s, unsigned parent, const char *name)
{
	struct watch *w = s->watch;
	unsigned above = 1;
	bool below[AGENT_WATCH_DIRS_MAX] = { false };

	while (above < w->top && !(w->dirs[above].live && w->dirs[above].parent == parent &&
					 str_eq(w->dirs[above].name, name)))
		above++;
	if (above == w->top)
		return;
	/* All are found before any is dropped: the way up leads through them. */
	for (unsigned i = 1; i < w->top; i++)
		below[i] = w->dirs[i].live && is_below(w, i, above);
	for (unsigned i = 1; i < w->top; i++)
		if (below[i])
			drop(s, i);
}

/* One entry of the directory that is being read. 1: go on. 0: wait. Negative errno. */
static int read_step(struct agent *a, struct stream *s)
{
	struct watch *w = s->watch;
	unsigned slot = (unsigned)w->reading;
	bool tell = w->dirs[slot].todo == TODO_READ_AND_TELL;
	char name[NAME_MAX + 1];
	struct dirent_view d;
	struct stat st;
	bool is_dir;
	int r;

	if (tell && !has_credit(a, s))
		return 0;
	r = dirents_peek(&w->dir, &d);
	if (r <= 0) {
		/* An end, or a directory that was removed under us. */
		dirents_done(&w->dir);
		w->dirs[slot].todo = TODO_NOTHING;
		w->reading = -1;
		return r == -ENOENT ? 1 : r < 0 ? r : 1;
	}
	r = str_copy(name, sizeof(name), d.name);
	is_dir = d.type == DT_DIR ||
		 (d.type == DT_UNKNOWN && fstatat(w->dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			 S_ISDIR(st.st_mode));
	dirents_take(&w->dir);
	if (r == 0 && tell)
		send_event(a, s, CHANGE_CREATED, slot, name);
	if (r == 0 && is_dir)
		r = add_dir(s, slot, name, tell ? TODO_READ_AND_TELL : TODO_READ);
	return r < 0 ? r : 1;
}

/* Begins with the next directory that is to be read. 1, 0 when there is none, negative errno. */
static int read_next(struct stream *s)
{
	struct watch *w = s->watch;
	char path[WARD_PATH_MAX];
	unsigned i = 0;
	int fd;

	while (i < w->top && !(w->dirs[i].live && w->dirs[i].todo != TODO_NOTHING))
		i++;
	if (i == w->top)
		return 0;
	if (full_path(w, i, "", path, sizeof(path)) < 0)
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (i ? O_NOFOLLOW : 0));
	if (fd < 0) {
		w->dirs[i].todo = TODO_NOTHING;
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 1 : -errno;
	}
	dirents_init(&w->dir, fd);
	w->reading = (int)i;
	return 1;
}

static void directory_event(
	struct agent *a, struct stream *s, const struct inotify_event *ev, unsigned slot)
{
	int r = 0;

	if (ev->mask & IN_MOVED_FROM)
		drop_tree(s, slot, ev->name);
	else if (ev->mask & (IN_CREATE | IN_MOVED_TO))
		r = add_dir(s, slot, ev->name, TODO_READ_AND_TELL);
	if (r < 0)
		fail(a, s, -r, "watching a new directory");
}

/* Some events were lost, and with them what the tree looks like: begin anew. */
static void lost_events(struct agent *a, struct stream *s)
{
	struct watch *w = s->watch;

	send_event(a, s, CHANGE_LOST, 0, "");
	if (!w->recursive)
		return;
	for (unsigned i = 1; i < w->top; i++)
		if (w->dirs[i].live)
			drop(s, i);
	w->top = 1;
	w->dirs[0].todo = TODO_READ;
}

static void one_event(struct agent *a, struct stream *s, const struct inotify_event *ev)
{
	static const struct {
		uint32_t mask;
		enum file_change change;
	} changes[] = {
		{ IN_CREATE | IN_MOVED_TO, CHANGE_CREATED },
		{ IN_MODIFY, CHANGE_WRITTEN },
		{ IN_DELETE, CHANGE_REMOVED },
		{ IN_MOVED_FROM, CHANGE_MOVED_AWAY },
		{ IN_ATTRIB, CHANGE_ATTRIBUTES },
	};
	struct watch *w = s->watch;
	struct watched *d = find_wd(w, ev->wd);
	unsigned slot = d ? (unsigned)(d - w->dirs) : 0;

	if (ev->mask & IN_Q_OVERFLOW) {
		lost_events(a, s);
		return;
	}
	if (!d)
		return; /* of a directory that is not ours any more */
	if (ev->mask & IN_IGNORED)
		d->live = false;
	/* Below the top, the directory above tells the same with the name. */
	if (slot == 0 && (ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF)))
		send_event(a, s, CHANGE_REMOVED, 0, "");
	for (size_t i = 0; i < ARRAY_LEN(changes); i++)
		if ((ev->mask & changes[i].mask) && (ev->len || slot == 0))
			send_event(a, s, changes[i].change, slot, ev->len ? ev->name : "");
	if ((ev->mask & IN_ISDIR) && ev->len && w->recursive)
		directory_event(a, s, ev, slot);
}

/* One event. 1: go on. 0: wait. Negative: the stream is closed. */
static int event_step(struct agent *a, struct stream *s)
{
	const struct stream_ops *ops = s->ops;
	struct watch *w = s->watch;
	const struct inotify_event *ev;

	if (!has_credit(a, s))
		return 0;
	if (w->at == w->len) {
		ssize_t n = read(s->out[0].fd, w->events, sizeof(w->events));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0) {
			fail(a, s, n < 0 ? errno : EIO, "reading events");
			return -1;
		}
		w->at = 0;
		w->len = (uint32_t)n;
	}
	ev = (const struct inotify_event *)(w->events + w->at);
	w->at += (uint32_t)(sizeof(*ev) + ev->len);
	one_event(a, s, ev);
	return s->ops == ops ? 1 : -1;
}

static void send_opened(struct agent *a, struct stream *s)
{
	struct msg m;

	out_begin(a, &m, PROTO_OPENED, 0, s->id);
	if (s->watch->tell_top)
		msg_text(&m, TAG_PATH, s->watch->path);
	out_end(a, &m);
}

/* One step of whatever there is to do; as event_step(). */
static int watch_step(struct agent *a, struct stream *s)
{
	struct watch *w = s->watch;
	int r;

	r = w->reading >= 0 ? read_step(a, s) : w->recursive ? read_next(s) : 0;
	if (r < 0) {
		fail(a, s, -r, "reading a watched directory");
		return -1;
	}
	if (r > 0 || w->reading >= 0)
		return r;
	if (!w->armed && !out_ready(a))
		return 0;
	if (!w->armed) {
		w->armed = true;
		send_opened(a, s);
	}
	return event_step(a, s);
}

static bool watch_work(struct agent *a, struct stream *s)
{
	for (unsigned i = 0; i < STEPS_PER_TURN; i++)
		if (watch_step(a, s) <= 0)
			return false;
	return true;
}

static void watch_want(struct agent *a, struct stream *s)
{
	if (s->watch->armed && s->watch->reading < 0 && has_credit(a, s))
		agent_poll(a, s, 0, s->out[0].fd, POLLIN);
}

static void watch_ready(struct agent *a, struct stream *s, unsigned which, short events)
{
	/* The turn that follows does the work. */
	(void)a;
	(void)s;
	(void)which;
	(void)events;
}

static const struct stream_ops watch_ops = {
	.kind = STREAM_WATCH,
	.cancels = true,
	.work = watch_work,
	.want = watch_want,
	.ready = watch_ready,
	.done = watch_done,
};

int request_watch(struct agent *a, const struct request *q, struct err *e)
{
	uint64_t window = values_num(q->v, TAG_WINDOW, FLOW_WINDOW);
	char room[WARD_PATH_MAX];
	const char *path;
	own_fd int fd = -1;
	struct stream *s;
	struct watch *w;
	int wd, r = path_of_user(a, q, TAG_PATH, room, &path, e);

	if (r < 0)
		return r;
	if (window < ENTRY_WINDOW_MIN)
		return err_say(e, EINVAL, "a watch needs a window of %d bytes", ENTRY_WINDOW_MIN);
	fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return err_set(e, errno, "watching");
	wd = inotify_add_watch(fd, path, EVENTS | IN_ONLYDIR);
	if (wd < 0)
		return err_set(e, errno, "watching '%.200s'", path);
	w = room_take(sizeof(*w));
	if (!w)
		return err_set(e, ENOMEM, "watching '%.200s'", path);
	s = str_copy(w->path, sizeof(w->path), path) < 0
		    ? NULL
		    : stream_open(a, q->id, &watch_ops, (uint32_t)window, e);
	if (!s) {
		room_free(w, sizeof(*w));
		return e->code ? -e->code : err_set(e, ENAMETOOLONG, "'%.60s...'", path);
	}
	w->recursive = q->flags & FILE_RECURSIVE;
	w->full = q->flags & FILE_FULL;
	w->tell_top = q->flags & FILE_HOME;
	w->reading = -1;
	w->top = 1;
	w->dirs[0] = (struct watched){
		.live = true, .todo = w->recursive ? TODO_READ : TODO_NOTHING, .wd = wd
	};
	s->watch = w;
	s->out[0].fd = take_fd(&fd);
	return 0;
}
