/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/link_calls.c - what the daemon asks of a supervisor, as frames.
 *
 * Owns:  nothing.
 * Rules: a call is opened first and closed again when its frame cannot be made, so that nothing is
 *        left of a request that failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/own.h"
#include "sup/link_impl.h"

enum {
	FIELD_HEAD = 6,
	SMALL = FRAME_HEAD + 2048,
	REQUEST = FRAME_HEAD + 4 * WARD_PATH_MAX + META_BYTES_MAX
};

static size_t strings_size(const char *const *list, size_t *count)
{
	size_t n = 0;

	for (; list && *list; list++) {
		n += FIELD_HEAD + strlen(*list) + 1;
		++*count;
	}
	return n;
}

static size_t text_size(const char *s)
{
	return s ? FIELD_HEAD + strlen(s) + 1 : 0;
}

static void put_text(struct msg *m, enum proto_tag tag, const char *s)
{
	if (s)
		msg_text(m, tag, s);
}

static void put_u32(struct msg *m, enum proto_tag tag, uint32_t v)
{
	if (v)
		msg_u32(m, tag, v);
}

static void put_u64(struct msg *m, enum proto_tag tag, uint64_t v)
{
	if (v)
		msg_u64(m, tag, v);
}

static void put_strings(struct msg *m, enum proto_tag tag, const char *const *list)
{
	for (; list && *list; list++)
		msg_text(m, tag, *list);
}

static void put_limits(struct msg *m, const struct plan_limits *l)
{
	put_u64(m, TAG_MEMORY, l->memory_bytes);
	put_u64(m, TAG_OUTPUT, l->output_bytes);
	put_u32(m, TAG_PIDS, l->pids);
	put_u32(m, TAG_CPU_MILLI, l->cpu_milli);
	put_u32(m, TAG_CPU_WEIGHT, l->cpu_weight);
}

static void put_who(struct msg *m, const struct link_who *who)
{
	if (who->tag)
		msg_text(m, TAG_LABEL, who->tag);
	else
		msg_u32(m, TAG_PID, who->pid);
}

static int check_who(const struct link_who *who, struct err *e)
{
	if (who->tag ? strlen(who->tag) > LABEL_MAX : !who->pid)
		return err_say(e, EINVAL,
			"a process is named by its pid or by a tag of at most %d "
			"bytes",
			LABEL_MAX);
	return 0;
}

static int check_start(const struct link_start *s, size_t size, size_t count, struct err *e)
{
	if (!s->argv || !s->argv[0])
		return err_say(e, EINVAL, "no command to start");
	if (s->flags & ~SUP_STARTS)
		return err_say(e, EINVAL, "flags %#x", s->flags);
	if (s->tag && (!*s->tag || strlen(s->tag) > LABEL_MAX))
		return err_say(e, EINVAL, "a tag has 1 to %d bytes", LABEL_MAX);
	if (size > START_BYTES_MAX || count > START_STRINGS_MAX)
		return err_say(e, E2BIG, "arguments and environment are more than %d bytes",
			START_BYTES_MAX);
	if ((s->cwd && strlen(s->cwd) >= WARD_PATH_MAX) ||
		(s->user && strlen(s->user) >= WARD_PATH_MAX))
		return err_set(e, ENAMETOOLONG, "working directory or user");
	return 0;
}

int link_start(struct link *l, const struct link_start *s, const struct link_handler *h, void *arg,
	struct link_call **ret, struct err *e)
{
	size_t count = 0, size = strings_size(s->argv, &count) + strings_size(s->env, &count);
	uint8_t small[FRAME_HEAD + 4096];
	own_mem uint8_t *large = NULL;
	struct link_call *c;
	struct msg m;
	/* A supervisor from before START_DRAIN still has its sandbox: it ends as it always did. */
	uint16_t flags = s->flags & (uint16_t)(~START_DRAIN | l->status.starts);
	int r = check_start(s, size, count, e);

	if (r < 0)
		return r;
	size += FRAME_HEAD + 256 + text_size(s->cwd) + text_size(s->user) + text_size(s->tag);
	if (size > sizeof(small)) {
		large = malloc(size);
		if (!large)
			return err_set(e, ENOMEM, "%zu bytes for arguments", size);
	}
	r = link_open(l, PROTO_START, flags, s->window, h, arg, &c, e);
	if (r < 0)
		return r;
	msg_begin(&m, large ? large : small, large ? size : sizeof(small), PROTO_START, flags,
		c->stream);
	put_strings(&m, TAG_ARG, s->argv);
	put_strings(&m, TAG_ENV, s->env);
	put_text(&m, TAG_CWD, s->cwd);
	put_text(&m, TAG_USER, s->user);
	put_text(&m, TAG_LABEL, s->tag);
	put_u32(&m, TAG_ROWS, s->rows);
	put_u32(&m, TAG_COLS, s->cols);
	put_u32(&m, TAG_WINDOW, s->window);
	put_u64(&m, TAG_TIMEOUT_MS, s->timeout_ms);
	return link_send_parts(l, c, &m, ret, e);
}

/* A call that is one small frame: opened here, its fields put by the caller. */
struct small_call {
	struct link_call *c;
	struct msg m;
	uint8_t buf[SMALL];
};

static int small_open(struct small_call *s, struct link *l, uint16_t type, uint16_t flags,
	uint32_t window, const struct link_handler *h, void *arg, struct err *e)
{
	int r = link_open(l, type, flags, window, h, arg, &s->c, e);

	if (r == 0)
		msg_begin(
			&s->m, s->buf, sizeof(s->buf), (enum proto_type)type, flags, s->c->stream);
	return r;
}

static int small_send(struct small_call *s, struct link_call **ret, struct err *e)
{
	return link_send_msg(s->c->l, s->c, &s->m, ret, e);
}

/* The same for one that names a process. */
static int who_open(struct small_call *s, struct link *l, uint16_t type, uint16_t flags,
	uint32_t window, const struct link_who *who, const struct link_handler *h, void *arg,
	struct err *e)
{
	int r = check_who(who, e);

	if (r == 0)
		r = small_open(s, l, type, flags, window, h, arg, e);
	if (r == 0)
		put_who(&s->m, who);
	return r;
}

int link_attach(struct link *l, const struct link_who *who, unsigned flags, uint32_t window,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e)
{
	struct small_call s;
	int r = who_open(&s, l, PROTO_ATTACH, flags & LINK_ALL, window, who, h, arg, e);

	if (r < 0)
		return r;
	put_u32(&s.m, TAG_WINDOW, window);
	return small_send(&s, ret, e);
}

int link_input(struct link *l, const struct link_who *who, unsigned flags,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e)
{
	struct small_call s;
	int r = who_open(&s, l, PROTO_INPUT, flags & LINK_CLOSE, 0, who, h, arg, e);

	return r < 0 ? r : small_send(&s, ret, e);
}

int link_signal(struct link *l, const struct link_who *who, int sig, bool group,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e)
{
	struct small_call s;
	int r;

	if (sig < 1 || sig > 64)
		return err_say(e, EINVAL, "signal %d", sig);
	r = who_open(&s, l, PROTO_TELL, group ? SIGNAL_GROUP : 0, 0, who, h, arg, e);
	if (r < 0)
		return r;
	msg_u32(&s.m, TAG_SIGNAL, (uint32_t)sig);
	return small_send(&s, ret, e);
}

int link_resize(struct link *l, const struct link_who *who, unsigned rows, unsigned cols,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e)
{
	struct small_call s;
	int r;

	if (rows > UINT16_MAX || cols > UINT16_MAX)
		return err_say(e, EINVAL, "a terminal has at most 65535 rows and columns");
	r = who_open(&s, l, PROTO_SHAPE, 0, 0, who, h, arg, e);
	if (r < 0)
		return r;
	msg_u32(&s.m, TAG_ROWS, rows);
	msg_u32(&s.m, TAG_COLS, cols);
	return small_send(&s, ret, e);
}

int link_processes(struct link *l, const struct link_handler *h, void *arg, struct link_call **ret,
	struct err *e)
{
	struct small_call s;
	int r = small_open(&s, l, PROTO_STARTED, 0, 0, h, arg, e);

	return r < 0 ? r : small_send(&s, ret, e);
}

static bool is_request(enum proto_type type)
{
	return type == PROTO_PROCS || (type >= PROTO_READ && type <= PROTO_WATCH) ||
	       type == PROTO_DIAL;
}

int link_request(struct link *l, const struct proto_request *q, const struct link_handler *h,
	void *arg, struct link_call **ret, struct err *e)
{
	uint32_t window = q->window ? q->window : FLOW_WINDOW;
	struct proto_request numbered = *q;
	uint8_t buf[REQUEST];
	struct link_call *c;
	struct msg m;
	int r;

	if (!is_request(q->type))
		return err_say(e, EINVAL, "message %d is not a request", q->type);
	/* The agent raises these, so that any entry fits. */
	if ((q->type == PROTO_LIST || q->type == PROTO_PROCS || q->type == PROTO_WATCH) &&
		window < ENTRY_WINDOW_MIN)
		window = ENTRY_WINDOW_MIN;
	r = link_open(l, (uint16_t)q->type, q->flags, window, h, arg, &c, e);
	if (r < 0)
		return r;
	numbered.stream = c->stream;
	msg_begin(&m, buf, sizeof(buf), q->type, q->flags, c->stream);
	r = proto_put_request(&m, &numbered, e);
	if (r < 0) {
		link_close_call(c);
		return r;
	}
	return link_send_msg(l, c, &m, ret, e);
}

int link_bind(struct link *l, const struct link_bind *b, const struct link_handler *h, void *arg,
	struct link_call **ret, struct err *e)
{
	size_t count = 0, size = FRAME_HEAD + 512 + strings_size(b->env, &count);
	own_mem uint8_t *buf = NULL;
	struct link_call *c;
	struct msg m;
	int r;

	size += text_size(b->user) + text_size(b->workdir) + text_size(b->hostname) +
		text_size(b->caller) + text_size(b->trace);
	if (size > START_BYTES_MAX || count > ENV_VARS_MAX)
		return err_say(e, E2BIG, "the environment is more than %d bytes", START_BYTES_MAX);
	buf = malloc(size);
	if (!buf)
		return err_set(e, ENOMEM, "%zu bytes", size);
	r = link_open(l, PROTO_BIND, 0, 0, h, arg, &c, e);
	if (r < 0)
		return r;
	msg_begin(&m, buf, size, PROTO_BIND, 0, c->stream);
	put_strings(&m, TAG_ENV, b->env);
	put_text(&m, TAG_USER, b->user);
	put_text(&m, TAG_CWD, b->workdir);
	put_text(&m, TAG_HOSTNAME, b->hostname);
	put_text(&m, TAG_CALLER, b->caller);
	put_text(&m, TAG_TRACE, b->trace);
	put_limits(&m, &b->limits);
	put_u64(&m, TAG_TIMEOUT_MS, b->deadline_ms);
	put_u32(&m, TAG_ACTION, b->deadline_action);
	return link_send_parts(l, c, &m, ret, e);
}

/* One that does not know it says so, to nobody. */
void link_soon(struct link *l)
{
	struct small_call s;

	if (small_open(&s, l, PROTO_SOON, 0, 0, NULL, NULL, NULL) < 0)
		return;
	msg_u32(&s.m, TAG_CPU, (uint32_t)sched_getcpu());
	small_send(&s, NULL, NULL);
}

int link_limits(struct link *l, const struct plan_limits *limits, const struct link_handler *h,
	void *arg, struct link_call **ret, struct err *e)
{
	struct small_call s;
	int r = small_open(&s, l, PROTO_LIMITS, 0, 0, h, arg, e);

	if (r < 0)
		return r;
	put_limits(&s.m, limits);
	return small_send(&s, ret, e);
}

static int send_deadline(struct link *l, uint16_t type, uint64_t ms, enum sup_action action,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e)
{
	struct small_call s;
	int r = small_open(&s, l, type, 0, 0, h, arg, e);

	if (r < 0)
		return r;
	put_u64(&s.m, TAG_TIMEOUT_MS, ms);
	put_u32(&s.m, TAG_ACTION, action);
	return small_send(&s, ret, e);
}

int link_deadline(struct link *l, uint64_t ms, enum sup_action action, const struct link_handler *h,
	void *arg, struct link_call **ret, struct err *e)
{
	return send_deadline(l, PROTO_DEADLINE, ms, action, h, arg, ret, e);
}

int link_resume(struct link *l, uint64_t deadline_ms, enum sup_action action,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e)
{
	return send_deadline(l, PROTO_RESUME, deadline_ms, action, h, arg, ret, e);
}

int link_pause(struct link *l, const struct link_handler *h, void *arg, struct link_call **ret,
	struct err *e)
{
	struct small_call s;
	int r = small_open(&s, l, PROTO_PAUSE, 0, 0, h, arg, e);

	return r < 0 ? r : small_send(&s, ret, e);
}

int link_snapshot(struct link *l, const struct snap *into, unsigned flags,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e)
{
	const int from[] = { into->state, into->memory, into->disk };
	int fds[ARRAY_LEN(from)], r = 0;
	struct small_call s;
	unsigned n = 0;

	while (n < ARRAY_LEN(from) && (fds[n] = fcntl(from[n], F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	if (n < ARRAY_LEN(from))
		r = err_set(e, errno, "the files of a snapshot");
	if (r == 0)
		r = small_open(&s, l, PROTO_SNAPSHOT, (uint16_t)flags, 0, h, arg, e);
	if (r < 0) {
		while (n)
			close(fds[--n]);
		return r;
	}
	return link_send_fds(l, s.c, &s.m, fds, n, ret, e);
}

int link_stop(struct link *l, const char *cause, uint32_t grace_ms, const struct link_handler *h,
	void *arg, struct link_call **ret, struct err *e)
{
	char line[LINK_TEXT];
	struct small_call s;
	int r = small_open(&s, l, PROTO_STOP, 0, 0, h, arg, e);

	if (r < 0)
		return r;
	ctl_line(line, sizeof(line), cause);
	if (line[0])
		msg_text(&s.m, TAG_TEXT, line);
	put_u32(&s.m, TAG_GRACE_MS, grace_ms);
	return small_send(&s, ret, e);
}

int link_usage(struct link *l, const struct link_handler *h, void *arg, struct link_call **ret,
	struct err *e)
{
	struct small_call s;
	int r = small_open(&s, l, PROTO_USAGE, 0, 0, h, arg, e);

	return r < 0 ? r : small_send(&s, ret, e);
}
