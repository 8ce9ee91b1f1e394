/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/file.c - READ, WRITE, STAT, MKDIR, RENAME.
 *
 * Owns:  the open file of a READ or WRITE stream.
 * Rules: paths mean what they mean to the sandbox's root; that is the whole of their safety. Only
 *        regular files are read and written: nothing that could make the agent wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/state.h"
#include "agent/user.h"
#include "base/own.h"
#include "base/str.h"

enum { MODE_FILE = 0644, MODE_DIR = 0755, MODE_MAX = 07777 };
enum { WRITE_WINDOW_MAX = 512 * 1024, WIDE_STREAMS_MAX = 4 };

static enum file_kind kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return FILE_DIRECTORY;
	case S_IFLNK:
		return FILE_SYMLINK;
	case S_IFIFO:
		return FILE_FIFO;
	case S_IFSOCK:
		return FILE_SOCKET;
	case S_IFCHR:
		return FILE_CHAR_DEVICE;
	case S_IFBLK:
		return FILE_BLOCK_DEVICE;
	default:
		return FILE_REGULAR;
	}
}

void put_file(struct msg *m, const struct stat *st)
{
	msg_u32(m, TAG_KIND, kind_of(st->st_mode));
	msg_u32(m, TAG_MODE, st->st_mode & MODE_MAX);
	msg_u64(m, TAG_SIZE, (uint64_t)st->st_size);
	msg_u32(m, TAG_UID, st->st_uid);
	msg_u32(m, TAG_GID, st->st_gid);
	msg_u64(m, TAG_MTIME_NS,
		(uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec);
}

static void file_done(struct stream *s)
{
	if (s->in_fd >= 0)
		close(s->in_fd);
	if (s->out[0].fd >= 0)
		close(s->out[0].fd);
}

/* The stream's final word. */
static void finish(struct agent *a, struct stream *s, int code, const char *what)
{
	struct err e = { 0 };

	if (code)
		err_set(&e, code, "%s", what);
	stream_finish(a, s, code ? &e : NULL);
}

static bool read_work(struct agent *a, struct stream *s)
{
	struct outlet *o = &s->out[0];
	uint32_t cap;
	uint8_t *to;
	ssize_t n;

	if (!o->flow.credit && s->left)
		return false;
	to = out_data_space(a, &cap);
	if (!to)
		return false;
	cap = cap < o->flow.credit ? cap : o->flow.credit;
	cap = cap < s->left ? cap : (uint32_t)s->left;
	n = cap ? read(o->fd, to, cap) : 0;
	if (n < 0 && errno == EINTR)
		return true;
	if (n <= 0) {
		finish(a, s, n < 0 ? errno : 0, "reading");
		return false;
	}
	s->left -= (uint64_t)n;
	flow_take(&o->flow, (uint32_t)n);
	out_data(a, s->id, 0, (uint32_t)n);
	return true;
}

static const struct stream_ops read_ops = {
	.kind = STREAM_FILE,
	.cancels = true,
	.work = read_work,
	.done = file_done,
};

/* Opens a regular file, and nothing else. */
static int open_regular(const char *path, int flags, mode_t mode, struct stat *st, struct err *e)
{
	own_fd int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);

	if (fd < 0)
		return err_set(e, errno, "opening '%.200s'", path);
	if (fstat(fd, st) < 0)
		return err_set(e, errno, "'%.200s'", path);
	if (S_ISDIR(st->st_mode))
		return err_set(e, EISDIR, "'%.200s'", path);
	if (!S_ISREG(st->st_mode))
		return err_say(e, EINVAL, "'%.200s' is not a regular file", path);
	return take_fd(&fd);
}

/* OPENED of a file: what it is, as far as was asked. */
static void opened(
	struct agent *a, const struct request *q, const char *path, const struct stat *st, int give)
{
	bool full = q->flags & FILE_FULL;
	struct msg m;

	out_begin(a, &m, PROTO_OPENED, give >= 0 ? OPENED_FD : 0, q->id);
	if (give >= 0)
		out_give(a, &m, give);
	if (full)
		put_full(a, &m, path, st);
	else if (q->type == PROTO_READ || (q->flags & (FILE_HOME | FILE_PASS_FD)))
		put_file(&m, st);
	put_path(&m, q, path);
	out_end(a, &m);
}

/* Passes @fd on and is done with it: the bytes are the client's business. */
static int pass(struct agent *a, const struct request *q, const char *path, const struct stat *st,
	int *fd, struct err *e)
{
	int r = out_can_give(a, e);

	if (r < 0)
		return r;
	opened(a, q, path, st, take_fd(fd));
	out_simple(a, PROTO_OK, 0, q->id);
	return 0;
}

/* A file whose bytes are made up while it is read (proc, sysfs) is read by who is inside. */
static bool is_stored(int fd)
{
	void *p = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);

	if (p == MAP_FAILED)
		return false;
	munmap(p, 1);
	return true;
}

int request_read(struct agent *a, const struct request *q, struct err *e)
{
	uint64_t offset = values_num(q->v, TAG_OFFSET, 0);
	char room[WARD_PATH_MAX];
	const char *path;
	own_fd int fd = -1;
	struct stream *s;
	struct stat st;
	int r = path_of_user(a, q, TAG_PATH, room, &path, e);

	if (r < 0)
		return r;
	fd = open_regular(path, O_RDONLY, 0, &st, e);
	if (fd < 0)
		return fd;
	if (offset > INT64_MAX || (offset && lseek(fd, (off_t)offset, SEEK_SET) < 0))
		return err_say(e, EINVAL, "offset %llu", (unsigned long long)offset);
	if (q->flags & FILE_PASS_FD)
		return is_stored(fd) ? pass(a, q, path, &st, &fd, e)
				     : err_say(e, EOPNOTSUPP, "'%.200s' is no stored file", path);
	s = stream_open(
		a, q->id, &read_ops, (uint32_t)values_num(q->v, TAG_WINDOW, FLOW_WINDOW), e);
	if (!s)
		return -EAGAIN;
	s->out[0].fd = take_fd(&fd);
	s->out[0].open = true;
	s->left = values_num(q->v, TAG_LENGTH, UINT64_MAX);
	opened(a, q, path, &st, -1);
	return 0;
}

static void write_data(struct agent *a, struct stream *s, const uint8_t *data, uint32_t len)
{
	for (uint32_t done = 0; done < len;) {
		ssize_t n = write(s->in_fd, data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			finish(a, s, errno, "writing");
			return;
		}
		done += (uint32_t)n;
	}
	s->bytes += len;
	s->in.owed += len;
	relay_credit(a, s);
}

static void write_end(struct agent *a, struct stream *s)
{
	uint32_t id = s->id;
	uint64_t bytes = s->bytes;
	int fd = s->in_fd;
	struct msg m;

	s->in_fd = -1;
	if (close(fd) < 0 && errno != EINTR) { /* a quota may speak up only now */
		finish(a, s, errno, "closing");
		return;
	}
	stream_close(a, s);
	out_begin(a, &m, PROTO_OK, 0, id);
	msg_u64(&m, TAG_BYTES, bytes);
	out_end(a, &m);
}

static bool write_work(struct agent *a, struct stream *s)
{
	relay_credit(a, s);
	return false;
}

static const struct stream_ops write_ops = {
	.kind = STREAM_FILE,
	.cancels = true,
	.work = write_work,
	.data = write_data,
	.end = write_end,
	.done = file_done,
};

/* Who shall own what is made; NULL in @ret_who: leave it. */
static int owner_of(struct agent *a, const struct request *q, struct identity *who,
	const struct identity **ret_who, struct err *e)
{
	const char *user = values_text(q->v, TAG_USER);

	*ret_who = user ? who : NULL;
	return user ? user_known(a, user, who, e) : 0;
}

static int mode_of(const struct request *q, mode_t absent, mode_t *ret_mode, struct err *e)
{
	uint64_t mode = values_num(q->v, TAG_MODE, absent);

	if (mode > MODE_MAX)
		return err_say(e, EINVAL, "mode %llo is more than 07777", (unsigned long long)mode);
	*ret_mode = (mode_t)mode;
	return 0;
}

/* One directory; 0 also when it is there already and @may_exist. */
static int make_dir(
	const char *path, mode_t mode, const struct identity *who, bool may_exist, struct err *e)
{
	struct stat st;

	if (mkdir(path, mode) < 0) {
		int code = errno;

		if (code == EEXIST && may_exist) {
			if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
				return 0;
			code = ENOTDIR;
		}
		return err_set(e, code, "making directory '%.200s'", path);
	}
	if (who && lchown(path, who->uid, who->gid) < 0)
		return err_set(e, errno, "owner of '%.200s'", path);
	return 0;
}

/* The directories above @path. */
static int make_parents(const char *path, const struct identity *who, struct err *e)
{
	char copy[WARD_PATH_MAX];

	if (str_copy(copy, sizeof(copy), path) < 0)
		return err_set(e, ENAMETOOLONG, "'%.60s...'", path);
	for (char *p = copy + 1; *copy && (p = strchr(p, '/')) != NULL; p++) {
		int r = 0;

		*p = '\0';
		if (p[-1] != '/')
			r = make_dir(copy, MODE_DIR, who, true, e);
		*p = '/';
		if (r < 0)
			return r;
	}
	return 0;
}

/* Owner, mode and attributes, before anybody can write through it. */
static int dress(const struct request *q, const char *path, int fd, const struct identity *owner,
	mode_t mode, struct err *e)
{
	if (owner && fchown(fd, owner->uid, owner->gid) < 0)
		return err_set(e, errno, "owner of '%.200s'", path);
	if (values_has(q->v, TAG_MODE) && fchmod(fd, mode) < 0)
		return err_set(e, errno, "mode of '%.200s'", path);
	return meta_set(fd, q->v, e);
}

static int open_to_write(
	struct agent *a, const struct request *q, const char *path, struct stat *st, struct err *e)
{
	int flags = O_WRONLY | O_CREAT, r;
	const struct identity *owner;
	struct identity who;
	mode_t mode = 0;
	own_fd int fd = -1;

	r = owner_of(a, q, &who, &owner, e);
	if (r == 0)
		r = mode_of(q, MODE_FILE, &mode, e);
	if (r == 0 && (q->flags & FILE_PARENTS))
		r = make_parents(path, owner, e);
	if (r < 0)
		return r;
	flags |= q->flags & FILE_APPEND ? O_APPEND : O_TRUNC;
	flags |= q->flags & FILE_NEW ? O_EXCL : 0;
	fd = open_regular(path, flags, mode, st, e);
	if (fd < 0)
		return fd;
	r = dress(q, path, fd, owner, mode, e);
	if (r == 0 && fstat(fd, st) < 0)
		r = err_set(e, errno, "'%.200s'", path);
	return r < 0 ? r : take_fd(&fd);
}

/* More credit than every stream has, for whoever asked: with so little on its way, a file comes at
 * the pace of the answers. Nothing of it is kept here: it is written as it comes. */
static void widen(struct agent *a, struct stream *s, uint64_t window)
{
	window = window < WRITE_WINDOW_MAX ? window : WRITE_WINDOW_MAX;
	if (window <= FLOW_WINDOW || stream_count(a, STREAM_FILE) > WIDE_STREAMS_MAX)
		return;
	s->in.window = (uint32_t)window;
	s->in.owed += (uint32_t)window - FLOW_WINDOW;
	relay_credit(a, s);
}

int request_write(struct agent *a, const struct request *q, struct err *e)
{
	char room[WARD_PATH_MAX];
	const char *path;
	own_fd int fd = -1;
	struct stream *s;
	struct stat st;
	int r = path_of_user(a, q, TAG_PATH, room, &path, e);

	if (r == 0 && (q->flags & FILE_PASS_FD))
		r = out_can_give(a, e);
	if (r < 0)
		return r;
	fd = open_to_write(a, q, path, &st, e);
	if (fd < 0)
		return fd;
	if (q->flags & FILE_PASS_FD)
		return pass(a, q, path, &st, &fd, e);
	s = stream_open(a, q->id, &write_ops, FLOW_WINDOW, e);
	if (!s)
		return -EAGAIN;
	s->in_fd = take_fd(&fd);
	s->bytes = 0;
	opened(a, q, path, &st, -1);
	widen(a, s, values_num(q->v, TAG_WINDOW, FLOW_WINDOW));
	return 0;
}

static int answer_stat(struct agent *a, const struct request *q, const char *path, struct err *e)
{
	bool full = q->flags & FILE_FULL, no_follow = full || (q->flags & FILE_NOFOLLOW);
	char link[WARD_PATH_MAX];
	ssize_t n = -1;
	struct stat st;
	struct msg m;

	if (fstatat(AT_FDCWD, path, &st, no_follow ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return err_set(e, errno, "'%.200s'", path);
	if (S_ISLNK(st.st_mode) && !full)
		n = readlink(path, link, sizeof(link) - 1);
	out_begin(a, &m, PROTO_OK, 0, q->id);
	if (full)
		put_full(a, &m, path, &st);
	else
		put_file(&m, &st);
	if (n > 0) {
		link[n] = '\0';
		msg_text(&m, TAG_LINK, link);
	}
	put_path(&m, q, path);
	out_end(a, &m);
	return 0;
}

int request_stat(struct agent *a, const struct request *q, struct err *e)
{
	char room[WARD_PATH_MAX];
	const char *path;
	int r = path_of_user(a, q, TAG_PATH, room, &path, e);

	return r < 0 ? r : answer_stat(a, q, path, e);
}

/* OK of a request that has made or moved @path. */
static int answer_made(struct agent *a, const struct request *q, const char *path, struct err *e)
{
	struct msg m;

	if (q->flags & FILE_FULL)
		return answer_stat(a, q, path, e);
	out_begin(a, &m, PROTO_OK, 0, q->id);
	put_path(&m, q, path);
	out_end(a, &m);
	return 0;
}

int request_mkdir(struct agent *a, const struct request *q, struct err *e)
{
	bool parents = q->flags & FILE_PARENTS;
	const struct identity *owner;
	char room[WARD_PATH_MAX];
	struct identity who;
	const char *path;
	struct stat st;
	mode_t mode = 0;
	int r = path_of_user(a, q, TAG_PATH, room, &path, e);

	if (r == 0)
		r = owner_of(a, q, &who, &owner, e);
	if (r == 0)
		r = mode_of(q, MODE_DIR, &mode, e);
	if (r == 0 && parents)
		r = make_parents(path, owner, e);
	if (r == 0)
		r = make_dir(path, mode, owner, parents && !(q->flags & FILE_NEW), e);
	/* Whoever asks for a new one wants to know what is there instead. */
	if (r == -EEXIST && (q->flags & FILE_NEW) && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(e, ENOTDIR, "'%.200s'", path);
	return r < 0 ? r : answer_made(a, q, path, e);
}

int request_rename(struct agent *a, const struct request *q, struct err *e)
{
	char from_room[WARD_PATH_MAX], to_room[WARD_PATH_MAX];
	const struct identity *owner;
	const char *from = q->v->text[TAG_PATH], *to = q->v->text[TAG_TO];
	struct identity who;
	struct stat st;
	int r = path_of_user(a, q, TAG_PATH, from_room, &from, e);

	if (r == 0)
		r = path_of_user(a, q, TAG_TO, to_room, &to, e);
	if (r == 0)
		r = owner_of(a, q, &who, &owner, e);
	/* Nothing is made for a source that is not there. */
	if (r == 0 && (q->flags & FILE_PARENTS) && lstat(from, &st) < 0)
		r = err_set(e, errno, "'%.200s'", from);
	if (r == 0 && (q->flags & FILE_PARENTS))
		r = make_parents(to, owner, e);
	if (r < 0)
		return r;
	if (rename(from, to) < 0)
		return err_set(e, errno, "renaming '%.100s' to '%.100s'", from, to);
	return answer_made(a, q, to, e);
}
