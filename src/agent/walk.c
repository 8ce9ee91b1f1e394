/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/walk.c - LIST and REMOVE: trees of directories, a few entries a turn.
 *
 * Owns:  the open directories from the top to where the walk stands.
 * Rules: no recursion, fixed memory. Every step goes through an open directory and follows no link,
 *        so a tree that changes meanwhile cannot lead the walk out of itself.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent/dirents.h"
#include "agent/state.h"
#include "base/str.h"

enum { ENTRIES_PER_TURN = 128 };

struct level {
	int fd;
	int64_t pos;       /* where to go on after what is below */
	uint16_t path_len; /* of the path that leads here */
};

struct walk {
	unsigned depth, max_depth; /* levels[depth] is read now, through dir */
	struct level levels[AGENT_WALK_DEPTH_MAX];
	struct dirents dir;       /* its fd is that of the level */
	bool full, tell_top;      /* FILE_FULL, FILE_HOME */
	char path[WARD_PATH_MAX]; /* from the top to the level, no slash at the end */
	char top[WARD_PATH_MAX];  /* as the client named it */
};

static void walk_done(struct stream *s)
{
	struct walk *w = s->walk;

	for (unsigned i = 0; i <= w->depth; i++)
		close(w->levels[i].fd);
	room_free(w, sizeof(*w));
}

/* The path of @name in the level being read. */
static int entry_path(const struct walk *w, const char *name, char *out, size_t cap)
{
	return str_fmt(out, cap, "%s%s%s", w->path, *w->path ? "/" : "", name);
}

static int descend(struct walk *w, const char *name)
{
	struct level *at = &w->levels[w->depth];
	char path[WARD_PATH_MAX];
	int fd;

	if (w->depth + 1 == AGENT_WALK_DEPTH_MAX)
		return -ELOOP;
	if (entry_path(w, name, path, sizeof(path)) < 0)
		return -ENAMETOOLONG;
	fd = openat(at->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dirents_take(&w->dir);
	at->pos = w->dir.pos;
	w->depth++;
	w->levels[w->depth] = (struct level){ .fd = fd, .path_len = (uint16_t)strlen(path) };
	memcpy(w->path, path, strlen(path) + 1);
	dirents_init(&w->dir, fd);
	return 0;
}

/* Back to the directory above, at @pos of it. */
static int ascend(struct walk *w, int64_t pos)
{
	close(w->levels[w->depth].fd);
	w->depth--;
	w->path[w->levels[w->depth].path_len] = '\0';
	dirents_init(&w->dir, w->levels[w->depth].fd);
	return lseek(w->dir.fd, pos, SEEK_SET) < 0 ? -errno : 0;
}

/* 1: sent. 0: no credit for it. Negative: the entry is gone. */
static int send_entry(struct agent *a, struct stream *s, const char *name, mode_t *ret_mode)
{
	struct walk *w = s->walk;
	char path[WARD_PATH_MAX], link[WARD_PATH_MAX];
	ssize_t n = -1;
	struct stat st;
	struct msg m;

	if (fstatat(w->dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (entry_path(w, name, path, sizeof(path)) < 0)
		return -ENAMETOOLONG;
	if (S_ISLNK(st.st_mode) && !w->full)
		n = readlinkat(w->dir.fd, name, link, sizeof(link) - 1);
	if (w->full && str_fmt(link, sizeof(link), "%s/%s", w->top, path) < 0)
		return -ENAMETOOLONG;
	out_begin(a, &m, PROTO_ENTRY, 0, s->id);
	if (w->full)
		put_full(a, &m, link, &st);
	else
		put_file(&m, &st);
	msg_text(&m, TAG_NAME, path);
	if (n > 0) {
		link[n] = '\0';
		msg_text(&m, TAG_LINK, link);
	}
	if (flow_take(&s->out[0].flow, (uint32_t)(m.len - FRAME_HEAD)) < 0)
		return 0;
	out_end(a, &m);
	*ret_mode = st.st_mode;
	return 1;
}

/* A part of the tree that cannot be listed is said, and the rest goes on. */
static void list_trouble(struct agent *a, struct stream *s, const char *name, int code)
{
	struct err e = { 0 };

	if (code == ENOENT)
		return; /* removed meanwhile */
	err_set(&e, code, "listing '%.100s' in '%.100s'", name, s->walk->path);
	out_error(a, s->id, ERROR_SOFT, &e);
}

/* OK, with what the top turned out to be. */
static void list_end(struct agent *a, struct stream *s)
{
	char top[WARD_PATH_MAX];
	uint32_t id = s->id;
	struct msg m;

	if (!s->walk->tell_top) {
		stream_finish(a, s, NULL);
		return;
	}
	memcpy(top, s->walk->top, sizeof(top));
	stream_close(a, s);
	out_begin(a, &m, PROTO_OK, 0, id);
	msg_text(&m, TAG_PATH, top);
	out_end(a, &m);
}

/* One step; 1: go on, 0: wait, negative: the stream is closed. */
static int list_step(struct agent *a, struct stream *s)
{
	struct walk *w = s->walk;
	struct dirent_view d;
	struct err e = { 0 };
	mode_t mode = 0;
	int r = dirents_peek(&w->dir, &d);

	if (r < 0) {
		err_set(&e, -r, "reading directory '%.200s'", w->path);
		stream_finish(a, s, &e);
		return -1;
	}
	if (r == 0 && w->depth == 0) {
		list_end(a, s);
		return -1;
	}
	if (r == 0) {
		r = ascend(w, w->levels[w->depth - 1].pos);
		if (r == 0)
			return 1;
		err_set(&e, -r, "reading directory '%.200s'", w->path);
		stream_finish(a, s, &e);
		return -1;
	}
	r = send_entry(a, s, d.name, &mode);
	if (r == 0)
		return 0;
	if (r > 0 && S_ISDIR(mode) && w->depth + 1 < w->max_depth) {
		char name[NAME_MAX + 1];

		if (str_copy(name, sizeof(name), d.name) == 0 && (r = descend(w, name)) == 0)
			return 1;
	}
	if (r < 0)
		list_trouble(a, s, d.name, -r);
	dirents_take(&w->dir);
	return 1;
}

static bool walk_work(
	struct agent *a, struct stream *s, int (*step)(struct agent *, struct stream *))
{
	for (unsigned i = 0; i < ENTRIES_PER_TURN; i++) {
		int r = out_ready(a) ? step(a, s) : 0;

		if (r <= 0)
			return false;
	}
	return true;
}

static bool list_work(struct agent *a, struct stream *s)
{
	return walk_work(a, s, list_step);
}

static const struct stream_ops list_ops = {
	.kind = STREAM_FILE,
	.cancels = true,
	.work = list_work,
	.done = walk_done,
};

/* A stream with a walk that stands at the beginning of directory @fd; takes @fd. */
static int walk_open(struct agent *a, const struct request *q, const struct stream_ops *ops,
	const char *path, int fd, struct err *e)
{
	struct walk *w = room_take(sizeof(*w));
	struct stream *s = NULL;
	int r = w ? str_copy(w->top, sizeof(w->top), path) : -ENOMEM;

	if (r == 0)
		s = stream_open(
			a, q->id, ops, (uint32_t)values_num(q->v, TAG_WINDOW, FLOW_WINDOW), e);
	if (!s) {
		close(fd);
		room_free(w, sizeof(*w));
		return r < 0 ? err_set(e, -r, "'%.60s'", path) : -EAGAIN;
	}
	w->levels[0] = (struct level){ .fd = fd };
	w->max_depth = (unsigned)values_num(q->v, TAG_DEPTH, 1);
	w->full = q->flags & FILE_FULL;
	w->tell_top = q->flags & FILE_HOME;
	dirents_init(&w->dir, fd);
	s->walk = w;
	s->out[0].open = true;
	return 0;
}

int request_list(struct agent *a, const struct request *q, struct err *e)
{
	uint64_t depth = values_num(q->v, TAG_DEPTH, 1);
	char room[WARD_PATH_MAX];
	const char *path;
	int fd, r = path_of_user(a, q, TAG_PATH, room, &path, e);

	if (r < 0)
		return r;
	if (depth < 1 || depth > AGENT_WALK_DEPTH_MAX)
		return err_say(e, EINVAL, "a depth is 1 to %d", AGENT_WALK_DEPTH_MAX);
	if (values_num(q->v, TAG_WINDOW, FLOW_WINDOW) < ENTRY_WINDOW_MIN)
		return err_say(e, EINVAL, "a list needs a window of %d bytes", ENTRY_WINDOW_MIN);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "opening directory '%.200s'", path);
	return walk_open(a, q, &list_ops, path, fd, e);
}

/* The directory being read is empty now: remove it, and go on above. */
static int remove_level(struct walk *w)
{
	const char *name = strrchr(w->path, '/');
	char copy[NAME_MAX + 1];
	int r;

	if (w->depth == 0)
		return rmdir(w->top) < 0 ? -errno : 1;
	r = str_copy(copy, sizeof(copy), name ? name + 1 : w->path);
	/* From its beginning: everything before has been removed, and positions may have moved. */
	if (r == 0)
		r = ascend(w, 0);
	if (r == 0 && unlinkat(w->dir.fd, copy, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

static int remove_entry(struct walk *w, const struct dirent_view *d)
{
	char name[NAME_MAX + 1];

	if (d->type != DT_DIR) {
		if (unlinkat(w->dir.fd, d->name, 0) == 0 || errno == ENOENT) {
			dirents_take(&w->dir);
			return 0;
		}
		/* EISDIR and EPERM both may mean a directory, where the type was not known. */
		if (d->type != DT_UNKNOWN || (errno != EISDIR && errno != EPERM))
			return -errno;
	}
	if (str_copy(name, sizeof(name), d->name) < 0)
		return -ENAMETOOLONG;
	return descend(w, name);
}

static int remove_step(struct agent *a, struct stream *s)
{
	struct walk *w = s->walk;
	struct dirent_view d;
	struct err e = { 0 };
	int r = dirents_peek(&w->dir, &d);

	if (r > 0)
		r = remove_entry(w, &d);
	else if (r == 0)
		r = remove_level(w);
	if (r == 0)
		return 1;
	if (r < 0)
		err_set(&e, -r, "removing below '%.200s'", w->path);
	stream_finish(a, s, r < 0 ? &e : NULL);
	return -1;
}

static bool remove_work(struct agent *a, struct stream *s)
{
	return walk_work(a, s, remove_step);
}

static const struct stream_ops remove_ops = {
	.kind = STREAM_FILE,
	.cancels = true,
	.work = remove_work,
	.done = walk_done,
};

int request_remove(struct agent *a, const struct request *q, struct err *e)
{
	char room[WARD_PATH_MAX];
	const char *path;
	struct stat st;
	int fd, r = path_of_user(a, q, TAG_PATH, room, &path, e);

	if (r < 0)
		return r;
	if (lstat(path, &st) < 0)
		return err_set(e, errno, "'%.200s'", path);
	if (S_ISDIR(st.st_mode) && (q->flags & FILE_RECURSIVE)) {
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return err_set(e, errno, "opening directory '%.200s'", path);
		return walk_open(a, q, &remove_ops, path, fd, e);
	}
	if (unlinkat(AT_FDCWD, path, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		return err_set(e, errno, "removing '%.200s'", path);
	out_simple(a, PROTO_OK, 0, q->id);
	return 0;
}
