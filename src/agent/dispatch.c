/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/dispatch.c - a frame of the client becomes a call.
 *
 * Owns:  the table of requests: which flags and fields each may have.
 * Rules: a frame that no correct client sends ends the channel; a request that cannot be done gets
 *        an ERROR. Frames for a stream that is not open crossed its end and are dropped.
 */
#include <errno.h>
#include <signal.h>

#include "agent/state.h"
#include "base/ckd.h"
#include "base/clock.h"

typedef int request_fn(struct agent *a, const struct request *q, struct err *e);

/* clang-format off */
static const struct row {
	uint16_t type, flags;
	bool channel; /* on stream 0 */
	uint64_t needed, allowed;
	request_fn *fn;
} rows[] = {
	{ PROTO_HELLO, 0, true, TAG_BIT(VERSION), 0, request_hello },
	{ PROTO_SHUTDOWN, 0, true, 0, TAG_BIT(GRACE_MS), request_shutdown },
	{ PROTO_PROCS, 0, false, 0, TAG_BIT(WINDOW), request_procs },
	{ PROTO_ADOPT, 0, false, 0, TAG_BIT(WINDOW), request_adopt },
	{ PROTO_READ, FILE_HOME | FILE_FULL | FILE_PASS_FD, false, TAG_BIT(PATH), TAG_BIT(OFFSET) |
		TAG_BIT(LENGTH) | TAG_BIT(WINDOW) | TAG_BIT(USER), request_read },
	{ PROTO_WRITE, FILE_PARENTS | FILE_APPEND | FILE_NEW | FILE_HOME | FILE_FULL | FILE_PASS_FD, false,
		TAG_BIT(PATH), TAG_BIT(MODE) | TAG_BIT(USER) | TAG_BIT(META) | TAG_BIT(WINDOW), request_write },
	{ PROTO_STAT, FILE_NOFOLLOW | FILE_HOME | FILE_FULL, false, TAG_BIT(PATH), TAG_BIT(USER),
		request_stat },
	{ PROTO_LIST, FILE_HOME | FILE_FULL, false, TAG_BIT(PATH), TAG_BIT(DEPTH) | TAG_BIT(WINDOW) |
		TAG_BIT(USER), request_list },
	{ PROTO_MKDIR, FILE_PARENTS | FILE_NEW | FILE_HOME | FILE_FULL, false, TAG_BIT(PATH),
		TAG_BIT(MODE) | TAG_BIT(USER), request_mkdir },
	{ PROTO_REMOVE, FILE_RECURSIVE | FILE_HOME, false, TAG_BIT(PATH), TAG_BIT(USER), request_remove },
	{ PROTO_RENAME, FILE_PARENTS | FILE_HOME | FILE_FULL, false, TAG_BIT(PATH) | TAG_BIT(TO),
		TAG_BIT(USER), request_rename },
	{ PROTO_WATCH, FILE_RECURSIVE | FILE_HOME | FILE_FULL, false, TAG_BIT(PATH), TAG_BIT(WINDOW) |
		TAG_BIT(USER), request_watch },
	{ PROTO_DIAL, DIAL_V6, false, 0, TAG_BIT(PORT) | TAG_BIT(PATH) | TAG_BIT(WINDOW), request_dial },
};
/* clang-format on */

int request_hello(struct agent *a, const struct request *q, struct err *e)
{
	struct msg m;

	if (!q->v->num[TAG_VERSION])
		return err_say(e, EINVAL, "version 0");
	out_begin(a, &m, PROTO_HELLO, 0, 0);
	msg_u32(&m, TAG_VERSION, PROTO_VERSION);
	out_end(a, &m);
	return 0;
}

int request_shutdown(struct agent *a, const struct request *q, struct err *e)
{
	uint64_t grace_ms = values_num(q->v, TAG_GRACE_MS, 0);

	(void)e;
	standby_drop(a); /* it heeds no SIGTERM */
	if (grace_ms)
		kill_all(a, SIGTERM);
	a->closing = true;
	a->closing_ns = clock_ns() + grace_ms * 1000000u;
	return 0;
}

static bool changes_files(uint16_t type)
{
	return type == PROTO_WRITE || type == PROTO_MKDIR || type == PROTO_REMOVE ||
	       type == PROTO_RENAME;
}

/* Reads the fields and calls; every failure ends in @e. */
static int call(struct agent *a, const struct row *row, const struct frame *f, struct err *e)
{
	struct request q = { .id = f->stream, .type = f->type, .flags = f->flags, .frame = f };
	struct values v;
	uint16_t tag = 0;
	int r;

	r = values_read(&v, f->data, f->len, row->needed, row->allowed, &tag);
	if (r == -EPROTO) {
		agent_break(a);
		return 0;
	}
	if (r == -EOPNOTSUPP)
		return err_say(
			e, EOPNOTSUPP, "message %u does not take field %u here", f->type, tag);
	if (r < 0)
		return err_say(e, EINVAL, "message %u lacks a field", f->type);
	if (f->flags & ~row->flags)
		return err_say(
			e, EOPNOTSUPP, "message %u does not take flags %#x", f->type, f->flags);
	if (values_num(&v, TAG_WINDOW, 1) - 1 >= FLOW_CREDIT_MAX)
		return err_say(e, EINVAL, "a window is 1 to %d bytes", FLOW_CREDIT_MAX);
	q.v = &v;
	a->untouched &= !changes_files(f->type);
	return row->fn(a, &q, e);
}

/* A request that opens a stream of its own, or is the channel's. */
static void dispatch_request(struct agent *a, const struct row *row, const struct frame *f)
{
	struct err e = { 0 };

	if (row->channel ? f->stream != 0 : (f->stream == 0 || stream_find(a, f->stream))) {
		agent_break(a);
		return;
	}
	if (call(a, row, f, &e) < 0 && !a->over)
		out_error(a, f->stream, 0, &e);
}

static void soft_error(struct agent *a, const struct stream *s, int code, const char *what)
{
	struct err e = { 0 };

	err_say(&e, code, "%s", what);
	out_error(a, s->id, ERROR_SOFT, &e);
}

static void on_data(struct agent *a, struct stream *s, const struct frame *f)
{
	if (f->flags || !f->len || !s->ops->data || s->in_end || flow_take(&s->in, f->len) < 0) {
		agent_break(a);
		return;
	}
	s->ops->data(a, s, f->data, f->len);
}

/* Nobody reads what it writes any more: it finds out as it would with any pipe. */
static void on_close(struct agent *a, struct stream *s, uint16_t flags)
{
	if (!stream_is_process(s))
		soft_error(a, s, EINVAL, "only a process has output to close");
	for (unsigned i = 0; i < 2; i++)
		if ((flags & (i ? DATA_ERR : END_OUT)) && stream_is_process(s) && s->out[i].open)
			relay_out_end(a, s, i);
}

static void on_end(struct agent *a, struct stream *s, uint16_t flags)
{
	if (flags) {
		on_close(a, s, flags);
		return;
	}
	if (!s->ops->end || s->in_end) {
		soft_error(a, s, EINVAL, "there is no end to send here");
		return;
	}
	s->in_end = true;
	s->ops->end(a, s);
}

static void on_credit(struct agent *a, struct stream *s, const struct values *v, uint16_t flags)
{
	if (flow_add(&s->out[flags & DATA_ERR ? 1 : 0].flow, v->num[TAG_BYTES]) < 0)
		agent_break(a);
}

static void on_cancel(struct agent *a, struct stream *s)
{
	if (s->ops->cancels)
		stream_finish(a, s, NULL);
	else
		soft_error(a, s, EINVAL, "a process is ended with SIGNAL");
}

static void on_signal(struct agent *a, struct stream *s, const struct values *v, uint16_t flags)
{
	uint64_t sig = v->num[TAG_SIGNAL];

	if (!stream_is_process(s) || sig < 1 || sig > 64)
		soft_error(a, s, EINVAL, "SIGNAL takes a process and a number from 1 to 64");
	else
		process_signal(a, s, (int)sig, flags & SIGNAL_GROUP);
}

static void on_resize(struct agent *a, struct stream *s, const struct values *v)
{
	if (!stream_is_process(s) || v->num[TAG_ROWS] > UINT16_MAX || v->num[TAG_COLS] > UINT16_MAX)
		soft_error(a, s, EINVAL, "RESIZE takes a process and sizes up to 65535");
	else
		process_resize(a, s, (unsigned)v->num[TAG_ROWS], (unsigned)v->num[TAG_COLS]);
}

/* clang-format off */
static const struct {
	uint16_t type, flags;
	uint64_t needed;
} controls[] = {
	{ PROTO_END, DATA_ERR | END_OUT, 0 },
	{ PROTO_CREDIT, DATA_ERR, TAG_BIT(BYTES) },
	{ PROTO_CANCEL, 0, 0 },
	{ PROTO_SIGNAL, SIGNAL_GROUP, TAG_BIT(SIGNAL) },
	{ PROTO_RESIZE, 0, TAG_BIT(ROWS) | TAG_BIT(COLS) },
};
/* clang-format on */

static void control(
	struct agent *a, struct stream *s, const struct frame *f, const struct values *v)
{
	switch (f->type) {
	case PROTO_END:
		on_end(a, s, f->flags);
		break;
	case PROTO_CREDIT:
		on_credit(a, s, v, f->flags);
		break;
	case PROTO_CANCEL:
		on_cancel(a, s);
		break;
	case PROTO_SIGNAL:
		on_signal(a, s, v, f->flags);
		break;
	default:
		on_resize(a, s, v);
	}
}

/* True when @f is a message about an open stream; it has been dealt with then. */
static bool dispatch_control(struct agent *a, const struct frame *f)
{
	struct stream *s = f->stream ? stream_find(a, f->stream) : NULL;
	struct values v;
	uint16_t tag;
	size_t i = 0;
	int r;

	while (i < ARRAY_LEN(controls) && controls[i].type != f->type)
		i++;
	if (i == ARRAY_LEN(controls))
		return false;
	r = values_read(&v, f->data, f->len, controls[i].needed, 0, &tag);
	if (!f->stream || r == -EPROTO)
		agent_break(a);
	else if (s && (r < 0 || (f->flags & ~controls[i].flags)))
		soft_error(
			a, s, r < 0 ? -r : EOPNOTSUPP, "a field or flag that does not belong here");
	else if (s)
		control(a, s, f, &v);
	return true;
}

static void dispatch_start(struct agent *a, const struct frame *f)
{
	struct request q = { .id = f->stream, .type = f->type, .flags = f->flags, .frame = f };
	struct err e = { 0 };

	if (!f->stream || stream_find(a, f->stream)) {
		agent_break(a);
		return;
	}
	if (request_start(a, &q, &e) < 0 && !a->over) {
		out_error(a, f->stream, 0, &e);
		a->over = f->flags & START_LAST;
	}
}

void dispatch(struct agent *a, const struct frame *f)
{
	struct stream *s;
	struct err e = { 0 };

	/* A START in parts is not interrupted by anything. */
	if (a->parts.active && (f->type != PROTO_START || f->stream != a->parts.stream)) {
		agent_break(a);
		return;
	}
	if (f->type == PROTO_DATA) {
		s = f->stream ? stream_find(a, f->stream) : NULL;
		if (!f->stream)
			agent_break(a);
		else if (s)
			on_data(a, s, f);
		return;
	}
	if (f->type == PROTO_START) {
		dispatch_start(a, f);
		return;
	}
	if (dispatch_control(a, f))
		return;
	a->stays = true;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].type == f->type) {
			dispatch_request(a, &rows[i], f);
			return;
		}
	}
	err_say(&e, ENOSYS, "no message has number %u", f->type);
	out_error(a, f->stream, f->stream && stream_find(a, f->stream) ? ERROR_SOFT : 0, &e);
}
