/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/start.c - START: from fields to a running process.
 *
 * Owns:  the frames of a START that comes in parts.
 * Rules: strings are used where they lie in the frame. Whatever was made for a start that fails is
 *        unmade here; descriptors that came with it are closed in every case.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/process.h"
#include "agent/spawn.h"
#include "agent/user.h"
#include "base/str.h"

enum {
	START_FLAGS = START_PTY | START_STDIO_FDS | START_LAST | START_MORE | START_NULL_STDIN |
		      START_HOME | START_DRAIN | START_MAKE_CWD,
	EXTRA_STRINGS = 8, /* the free slot, two NULLs, HOME, USER, LOGNAME */
};

/* The fields of one START. */
struct start {
	uint32_t id;
	uint16_t flags;
	char **argv, **env;
	size_t env_count;
	const char *cwd, *user, *path;
	uint32_t rows, cols, window;
	bool has_home, has_user, has_logname, or_root;
	char home[USER_HOME + 8], name[USER_NAME + 8], logname[USER_NAME + 8];
};

static int read_single(struct start *st, const struct field *f, struct err *e)
{
	switch (f->tag) {
	case TAG_CWD:
		st->cwd = f->text;
		return 0;
	case TAG_USER:
		st->user = f->text;
		return 0;
	case TAG_ROWS:
	case TAG_COLS:
		if (f->num > UINT16_MAX)
			return err_say(e, EINVAL, "a terminal has at most 65535 rows and columns");
		*(f->tag == TAG_ROWS ? &st->rows : &st->cols) = (uint32_t)f->num;
		return 0;
	case TAG_WINDOW:
		if (f->num < 1 || f->num > FLOW_CREDIT_MAX)
			return err_say(e, EINVAL, "a window is 1 to %d bytes", FLOW_CREDIT_MAX);
		st->window = (uint32_t)f->num;
		return 0;
	default:
		return err_say(e, EOPNOTSUPP, "START does not take field %u", f->tag);
	}
}

/* One walk over the fields: those that come once into @st, counts of the others. */
static int read_fields(struct start *st, const uint8_t *data, size_t len, size_t *ret_args,
	size_t *ret_env, struct err *e)
{
	uint64_t seen = 0;
	struct fields fs;
	struct field f;
	int r, bad = 0;

	*ret_args = *ret_env = 0;
	fields_init(&fs, data, len);
	while ((r = fields_next(&fs, &f)) != 0) {
		uint64_t bit = f.tag < TAG_MAX ? (uint64_t)1 << f.tag : 0;

		if (r == -EPROTO)
			return r;
		if (f.tag == TAG_ARG) {
			++*ret_args;
		} else if (f.tag == TAG_ENV) {
			++*ret_env;
		} else if (bad == 0) {
			bad = seen & bit ? err_say(e, EOPNOTSUPP, "field %u comes twice", f.tag)
					 : read_single(st, &f, e);
			seen |= bit;
		}
	}
	return bad;
}

static void note_env(struct start *st, const char *var)
{
	const char *path = str_after(var, "PATH=");

	if (path && !st->path)
		st->path = path;
	st->has_home |= str_after(var, "HOME=") != NULL;
	st->has_user |= str_after(var, "USER=") != NULL;
	st->has_logname |= str_after(var, "LOGNAME=") != NULL;
}

/* The second walk: strings into the list, arguments first. */
static void read_strings(
	struct start *st, const uint8_t *data, size_t len, char **list, size_t args)
{
	struct fields fs;
	struct field f;
	size_t arg = 0;

	st->argv = list + 1;
	st->env = st->argv + args + 1;
	fields_init(&fs, data, len);
	while (fields_next(&fs, &f) != 0) {
		if (f.tag == TAG_ARG) {
			st->argv[arg++] = (char *)f.text;
		} else if (f.tag == TAG_ENV) {
			st->env[st->env_count++] = (char *)f.text;
			note_env(st, f.text);
		}
	}
	st->argv[args] = NULL;
	st->env[st->env_count] = NULL;
}

static void add_user_env(struct start *st, const struct identity *who)
{
	const char *name = *who->name ? who->name : NULL;

	if (!st->has_home && str_fmt(st->home, sizeof(st->home), "HOME=%s", who->home) == 0)
		st->env[st->env_count++] = st->home;
	if (name && !st->has_user && str_fmt(st->name, sizeof(st->name), "USER=%s", name) == 0)
		st->env[st->env_count++] = st->name;
	if (name && !st->has_logname &&
		str_fmt(st->logname, sizeof(st->logname), "LOGNAME=%s", name) == 0)
		st->env[st->env_count++] = st->logname;
	st->env[st->env_count] = NULL;
}

static void close_all(const int *fds, unsigned count)
{
	/* Three that came together have neighbouring numbers: one call. */
	if (count == STDIO && fds[0] >= 0 && fds[1] == fds[0] + 1 && fds[2] == fds[0] + 2 &&
		syscall(SYS_close_range, fds[0], fds[2], 0) == 0)
		return;
	for (unsigned i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void set_out(struct stream *s, unsigned i, int fd)
{
	s->out[i].fd = fd;
	s->out[i].open = true;
}

/* Our ends of three pipes into @s, the command's into @theirs. */
static int open_pipes(struct agent *a, struct stream *s, uint16_t flags, int theirs[STDIO])
{
	int p[2], r;

	if (flags & START_NULL_STDIN) {
		theirs[0] = spare_null(a);
		if (theirs[0] < 0)
			return theirs[0];
	} else {
		if (pipe2(p, O_CLOEXEC) < 0)
			return -errno;
		theirs[0] = p[0];
		s->in_fd = p[1];
		/* Ours alone: the command's end is another open file, and stays as programs expect.
		 */
		if (fcntl(s->in_fd, F_SETFL, O_NONBLOCK) < 0)
			return -errno;
	}
	for (unsigned i = 0; i < 2; i++) {
		r = spare_pipe(a, p);
		if (r < 0)
			return r;
		set_out(s, i, p[0]);
		theirs[1 + i] = p[1];
	}
	/* Without a stdin nothing is ever pending. */
	return flags & START_NULL_STDIN ? 0 : pending_init(s);
}

static int open_pty(
	struct stream *s, const struct start *st, const struct identity *who, int theirs[STDIO])
{
	struct pty p;
	int r = pty_open(&p, st->rows, st->cols);

	if (r < 0)
		return r;
	s->proc.pty = true;
	s->in_fd = p.master_in;
	set_out(s, 0, p.master);
	theirs[0] = p.slave;
	/* So that the user can open its own terminal by name. */
	if (who && who->uid != geteuid() && fchown(p.slave, who->uid, (gid_t)-1) < 0)
		return -errno;
	return pending_init(s);
}

static void start_failed(
	struct agent *a, const struct start *st, enum start_step step, int code, const char *text)
{
	struct msg m;

	out_begin(a, &m, PROTO_START_FAILED, 0, st->id);
	msg_u32(&m, TAG_ERRNO, (uint32_t)code);
	msg_u32(&m, TAG_STEP, step);
	msg_text(&m, TAG_TEXT, text);
	out_end(a, &m);
	a->over |= (st->flags & START_LAST) != 0;
}

static void fail_with(struct agent *a, const struct start *st, enum start_step step, int code)
{
	static const char *const what[] = {
		[START_STEP_SETUP] = "setting up",
		[START_STEP_CWD] = "working directory",
		[START_STEP_USER] = "user",
		[START_STEP_EXEC] = "starting",
	};
	const char *thing = step == START_STEP_CWD && st->cwd     ? st->cwd
			    : step == START_STEP_USER && st->user ? st->user
								  : st->argv[0];
	struct err e;

	err_set(&e, code, "%s '%.120s'", what[step], thing);
	start_failed(a, st, step, code, e.msg);
}

/* The descriptors of a command that is not there ahead, and the command. */
static pid_t open_and_spawn(struct agent *a, const struct start *st, struct stream *s,
	struct spawn *sp, const struct passed *passed)
{
	int r = 0;

	standby_drop(a);
	if (s->proc.fds)
		memcpy(sp->fds, passed->fds, sizeof(sp->fds));
	else if (sp->tty)
		r = open_pty(s, st, sp->who, sp->fds);
	else
		r = open_pipes(a, s, st->flags, sp->fds);
	sp->step = START_STEP_SETUP;
	keeper_enter(a);
	if (r == 0)
		r = spawn(sp, a->child_stack, sizeof(a->child_stack));
	close_all(sp->fds, STDIO);
	return r;
}

static pid_t spawn_standby(struct agent *a, struct stream *s, struct spawn *sp)
{
	for (unsigned i = 0; i < 2; i++)
		set_out(s, i, a->standby.out[i]);
	return standby_spawn(a, sp);
}

/* What it has: no stdin, two pipes. */
static bool is_for_standby(const struct agent *a, const struct start *st)
{
	return (st->flags & START_NULL_STDIN) && standby_waits(a);
}

/* Everything is known: descriptors, process, OPENED. @passed is closed in the end. */
static void run(struct agent *a, struct start *st, const struct identity *who, struct stream *s,
	const struct passed *passed)
{
	struct spawn sp = { .argv = st->argv,
		.env = st->env,
		.cwd = st->cwd,
		.or_root = st->or_root,
		.who = who,
		.path = st->path ? st->path : SPAWN_PATH,
		.tty = st->flags & START_PTY,
		.fds = { -1, -1, -1 } };
	pid_t pid;

	s->proc.last = st->flags & START_LAST;
	s->proc.fds = st->flags & START_STDIO_FDS;
	s->proc.drain = st->flags & START_DRAIN;
	pid = is_for_standby(a, st) ? spawn_standby(a, s, &sp)
				    : open_and_spawn(a, st, s, &sp, passed);
	a->untouched = false;
	if (pid < 0) {
		stream_close(a, s);
		fail_with(a, st, sp.step, -pid);
		return;
	}
	s->proc.pid = pid;
	a->childless = false;
	/* The caller that only waits for the end is not woken for the beginning. */
	if (!(s->proc.last && s->proc.fds)) {
		struct msg m;

		out_begin(a, &m, PROTO_OPENED, 0, s->id);
		msg_u32(&m, TAG_PID, (uint32_t)pid);
		out_end(a, &m);
	}
}

/* From a directory that is told from home. Apart, for its page of stack. */
static __attribute__((noinline)) void run_at_home(struct agent *a, struct start *st,
	const struct identity *who, struct stream *s, const struct passed *passed)
{
	char room[WARD_PATH_MAX];
	int r = path_at_home(st->cwd, who->home, room);

	if (r < 0) {
		close_all(passed->fds, passed->count);
		stream_close(a, s);
		fail_with(a, st, START_STEP_CWD, -r);
		return;
	}
	st->cwd = room;
	run(a, st, who, s, passed);
}

/* What cannot be made is not there when the process enters it, and that is said then. */
static __attribute__((noinline)) void make_way(const char *path)
{
	char copy[WARD_PATH_MAX];

	if (access(path, F_OK) == 0 || str_copy(copy, sizeof(copy), path) < 0)
		return;
	for (char *p = copy + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		mkdir(copy, 0755);
		*p = '/';
	}
	mkdir(copy, 0755);
}

/* Opens the stream and runs; takes @passed. Negative: dispatch answers with @e. */
static int begin(struct agent *a, struct start *st, const struct passed *passed, struct err *e)
{
	bool fds = st->flags & START_STDIO_FDS;
	struct identity who;
	struct stream *s;

	if (st->user && user_known(a, st->user, &who, e) < 0) {
		close_all(passed->fds, passed->count);
		start_failed(a, st, START_STEP_USER, e->code, e->msg);
		return 0;
	}
	if (st->user)
		add_user_env(st, &who);
	st->or_root = st->user && (st->flags & START_HOME) && !st->cwd;
	if (st->or_root)
		st->cwd = who.home[0] == '/' ? who.home : "/";
	if ((st->flags & START_MAKE_CWD) && !st->or_root && st->cwd && st->cwd[0] == '/')
		make_way(st->cwd);
	s = stream_open(a, st->id, fds ? &process_fds_ops : &process_ops,
		st->window ? st->window : FLOW_WINDOW, e);
	if (!s) {
		close_all(passed->fds, passed->count);
		start_failed(a, st, START_STEP_SETUP, e->code, e->msg);
		return 0;
	}
	if ((st->flags & START_HOME) && st->cwd[0] != '/')
		run_at_home(a, st, &who, s, passed);
	else
		run(a, st, st->user ? &who : NULL, s, passed);
	return 0;
}

static int check_start(
	const struct start *st, size_t args, size_t env, const struct passed *passed, struct err *e)
{
	if (!args)
		return err_say(e, EINVAL, "START without an ARG");
	if (args + env > START_STRINGS_MAX)
		return err_say(e, E2BIG, "more than %d strings", START_STRINGS_MAX);
	if ((st->flags & START_STDIO_FDS) && (st->flags & (START_PTY | START_NULL_STDIN)))
		return err_say(e, EINVAL, "START with descriptors has no terminal and no pipes");
	if ((st->flags & START_PTY) && (st->flags & START_NULL_STDIN))
		return err_say(e, EINVAL, "a terminal is also stdin");
	if ((st->flags & START_HOME) && !st->user)
		return err_say(e, EINVAL, "START in a home needs a USER");
	if ((st->flags & START_DRAIN) && (st->flags & (START_PTY | START_STDIO_FDS | START_LAST)))
		return err_say(
			e, EINVAL, "only pipes of a command that is not the last are drained");
	if (passed->count != ((st->flags & START_STDIO_FDS) ? STDIO : 0))
		return err_say(e, EINVAL, "%u descriptors came with START", passed->count);
	return 0;
}

/* A START that is all there, in @data. Takes @passed. */
static int start_whole(struct agent *a, const struct request *q, const uint8_t *data, size_t len,
	const struct passed *passed, struct err *e)
{
	struct start st = { .id = q->id, .flags = q->flags & (uint16_t)~START_MORE };
	char **list = a->strings;
	size_t args, env, room;
	int r;

	r = read_fields(&st, data, len, &args, &env, e);
	if (r == -EPROTO)
		agent_break(a);
	if (r == 0)
		r = check_start(&st, args, env, passed, e);
	if (r < 0) {
		close_all(passed->fds, passed->count);
		return r;
	}
	room = (args + env + EXTRA_STRINGS) * sizeof(char *);
	if (args + env + EXTRA_STRINGS > STRINGS_SMALL)
		list = room_take(room);
	if (!list) {
		close_all(passed->fds, passed->count);
		return err_set(e, ENOMEM, "%zu strings", args + env);
	}
	read_strings(&st, data, len, list, args);
	r = begin(a, &st, passed, e);
	if (list != a->strings)
		room_free(list, room);
	return r;
}

/* The descriptors that came with the frame that is being read. */
static struct passed take_passed(struct agent *a)
{
	struct passed p = { .fds = { -1, -1, -1 } };

	if (a->passed_count) {
		p = a->passed[0];
		a->passed[0] = a->passed[1];
		a->passed_count--;
	}
	return p;
}

static void parts_done(struct agent *a)
{
	room_free(a->parts.mem, START_BYTES_MAX);
	a->parts = (struct parts){ 0 };
}

static int start_part(struct agent *a, const struct request *q, struct err *e)
{
	struct parts *p = &a->parts;
	struct passed passed;
	int r;

	if (!p->active) {
		p->mem = room_take(START_BYTES_MAX);
		if (!p->mem) {
			/* The rest of it cannot be told from garbage once the first part is
			 * dropped. */
			agent_break(a);
			return -ENOMEM;
		}
		p->active = true;
		p->stream = q->id;
		p->flags = q->flags;
		p->passed = q->flags & START_STDIO_FDS ? take_passed(a) : (struct passed){ 0 };
	}
	if (((q->flags ^ p->flags) & ~START_MORE) || q->frame->len > START_BYTES_MAX - p->len) {
		agent_break(a);
		return -EPROTO;
	}
	memcpy(p->mem + p->len, q->frame->data, q->frame->len);
	p->len += q->frame->len;
	if (q->flags & START_MORE)
		return 0;
	passed = p->passed;
	r = start_whole(a, q, p->mem, p->len, &passed, e);
	parts_done(a);
	return r;
}

void start_taken(struct agent *a, uint32_t id, pid_t pid)
{
	struct stream *s = stream_open(a, id, &process_fds_ops, FLOW_WINDOW, NULL);

	s->proc.pid = pid;
	s->proc.last = s->proc.fds = true;
	a->untouched = false;
	reap(a); /* nobody has told us if it has ended since */
}

int request_start(struct agent *a, const struct request *q, struct err *e)
{
	struct passed passed = { 0 };

	if ((q->flags & ~START_FLAGS) && (q->flags & START_MORE)) {
		agent_break(a); /* the parts that follow could not be told from new requests */
		return -EPROTO;
	}
	if (q->flags & ~START_FLAGS)
		return err_say(e, EOPNOTSUPP, "START does not take flags %#x", q->flags);
	if (a->parts.active || (q->flags & START_MORE))
		return start_part(a, q, e);
	if (q->flags & START_STDIO_FDS)
		passed = take_passed(a);
	return start_whole(a, q, q->frame->data, q->frame->len, &passed, e);
}
