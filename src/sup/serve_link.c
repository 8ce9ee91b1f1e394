/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve_link.c - the daemon's side of a supervisor: one connection, its calls.
 *
 * Owns:  the connection, the table of calls, and the parts of a START or BIND that is not whole.
 * Rules: a new daemon replaces the old one. What a daemon says wrongly costs it the connection and
 *        the sandbox nothing. The end of a connection ends its calls and no process.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/ckd.h"
#include "sup/serve_impl.h"

enum { TURNS = 4, SMALL = FRAME_HEAD + 512, STATUS_BYTES = FRAME_HEAD + 4 * LINK_TEXT + 512 };

bool link_is_full(const struct serve *s)
{
	return ctl_waiting(&s->link) >= SUP_QUEUE_HIGH || s->link.give_count == CTL_FDS_MAX;
}

/* --- Answers ---------------------------------------------------------------------------------- */

void link_ok(struct serve *s, uint32_t stream)
{
	ctl_put(&s->link, PROTO_OK, 0, stream, NULL, 0, -1);
}

void link_error(struct serve *s, uint32_t stream, int code, const char *fmt, ...)
{
	char text[PROTO_TEXT];
	uint8_t buf[SMALL];
	struct msg m;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	msg_begin(&m, buf, sizeof(buf), PROTO_ERROR, 0, stream);
	msg_u32(&m, TAG_ERRNO, code ? (uint32_t)code : EIO);
	msg_text(&m, TAG_TEXT, text);
	ctl_put_msg(&s->link, &m);
}

void put_limits(struct msg *m, const struct plan_limits *l)
{
	msg_u64(m, TAG_MEMORY, l->memory_bytes);
	msg_u64(m, TAG_DISK, l->disk_bytes);
	msg_u64(m, TAG_OUTPUT, l->output_bytes);
	msg_u32(m, TAG_PIDS, l->pids);
	msg_u32(m, TAG_CPU_MILLI, l->cpu_milli);
	msg_u32(m, TAG_CPU_WEIGHT, l->cpu_weight);
}

static uint64_t ms_left(uint64_t then_ns)
{
	uint64_t now = clock_ns();

	/* Never 0, which would say that there is none. */
	return !then_ns ? 0 : then_ns > now ? (then_ns - now) / 1000000 + 1 : 1;
}

void link_status_send(struct serve *s)
{
	const char *warning = s->box ? box_warning(s->box) : "";
	uint8_t buf[STATUS_BYTES];
	struct msg m;

	if (s->link.fd < 0)
		return;
	msg_begin(&m, buf, sizeof(buf), PROTO_STATUS, 0, 0);
	msg_u32(&m, TAG_VERSION, PROTO_VERSION);
	msg_u32(&m, TAG_STARTS, SUP_STARTS);
	msg_u32(&m, TAG_STATE, s->state);
	msg_text(&m, TAG_BOX, s->id);
	msg_u32(&m, TAG_SUP_PID, (uint32_t)getpid());
	msg_text(&m, TAG_REASON, s->reason);
	if (s->plan) {
		msg_u32(&m, TAG_TIER, s->plan->wall);
		msg_u32(&m, TAG_WAITS, tier_waits(tier_by_wall(s->plan->wall)));
		msg_text(&m, TAG_WHY, s->decision->why);
		msg_text(&m, TAG_WARNING, warning);
		/* A daemon that comes at the very end finds no box any more. */
		msg_u32(&m, TAG_PID, s->box ? (uint32_t)box_pid(s->box) : 0);
		put_limits(&m, &s->limits);
	}
	msg_u64(&m, TAG_TIMEOUT_MS, ms_left(s->deadline_ns));
	msg_u32(&m, TAG_ACTION, s->deadline_action);
	msg_u32(&m, TAG_PROCESSES, s->running);
	ctl_put_msg(&s->link, &m);
}

/* --- Calls ------------------------------------------------------------------------------------ */

struct call *call_open(struct serve *s, const struct frame *f, enum call_kind kind)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c) {
		link_error(s, f->stream, ENOMEM, "the supervisor has no memory for another call");
		return NULL;
	}
	c->kind = kind;
	c->stream = f->stream;
	c->type = f->type;
	c->flags = f->flags;
	s->calls[f->stream] = c;
	return c;
}

void call_close(struct serve *s, struct call *c)
{
	if (c->kind == CALL_INPUT)
		free(c->pending);
	s->calls[c->stream] = NULL;
	free(c);
}

static void on_cancel(struct serve *s, struct call *c)
{
	if (c->kind == CALL_PASS) {
		pass_frame(s, c, &(struct frame){ .type = PROTO_CANCEL, .stream = c->stream });
		return;
	}
	link_ok(s, c->stream);
	proc_detach(s, c);
}

/* --- The connection --------------------------------------------------------------------------- */

static void parts_done(struct serve *s)
{
	free(s->parts.mem);
	s->parts = (struct parts){ 0 };
}

void link_hang_up(struct serve *s)
{
	if (s->link.fd < 0)
		return;
	ctl_done(&s->link);
	parts_done(s);
	still_drop(s);
	s->link_broken = s->held = false;
	s->stall_ns = 0;
	proc_link_lost(s);
	for (unsigned i = 1; i <= SUP_CALLS_MAX; i++) {
		struct call *c = s->calls[i];

		if (!c)
			continue;
		if (c->kind == CALL_PASS)
			pass_drop(s, c);
		else
			proc_detach(s, c);
	}
}

void link_take(struct serve *s, int fd)
{
	link_hang_up(s);
	ctl_init(&s->link, fd);
	link_status_send(s);
}

/* Only root and whoever runs this sandbox; the folder's mode says the same, this says it again. */
static bool peer_is_ours(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
	       (who.uid == 0 || who.uid == geteuid());
}

void link_accept(struct serve *s)
{
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (!peer_is_ours(fd)) {
		close(fd);
		return;
	}
	/* What the old one has said counts: receipts above all. */
	if (s->link.fd >= 0)
		link_receive(s);
	flight_note(&s->flight, "daemon", "a daemon has connected");
	link_take(s, fd);
}

/* --- Frames ----------------------------------------------------------------------------------- */

/* Of an open call. */
static int on_call(struct serve *s, struct call *c, const struct frame *f)
{
	struct ctl_fields v;

	if (f->type == PROTO_CANCEL) {
		on_cancel(s, c);
		return 0;
	}
	if (c->kind == CALL_PASS)
		return pass_frame(s, c, f);
	if (f->type == PROTO_CREDIT && c->kind == CALL_OUTPUT) {
		if (ctl_fields_read(&v, f->data, f->len) < 0 || !ctl_num(&v, TAG_BYTES, 0))
			return -EPROTO;
		return proc_ack(s, c, v.num[TAG_BYTES]);
	}
	if (f->type == PROTO_DATA && c->kind == CALL_INPUT)
		return input_data(s, c, f->data, f->len);
	if (f->type == PROTO_END && c->kind == CALL_INPUT) {
		input_end(s, c);
		return 0;
	}
	return -EPROTO;
}

static bool in_parts(uint16_t type)
{
	return type == PROTO_START || type == PROTO_BIND;
}

/* 1: @ret has all the bytes of it, in memory of the caller's frame or of s->parts. */
static int gather(struct serve *s, const struct frame *f, struct frame *ret)
{
	struct parts *p = &s->parts;
	uint8_t *mem;

	*ret = *f;
	ret->flags &= (uint16_t)~START_MORE;
	if (!p->mem && !(f->flags & START_MORE))
		return 1;
	if (p->mem && (p->stream != f->stream || p->type != f->type || p->flags != ret->flags))
		return -EPROTO;
	if (f->len > START_BYTES_MAX - p->len)
		return -EPROTO;
	mem = realloc(p->mem, p->len + f->len + 1);
	if (!mem)
		return -ENOMEM;
	memcpy(mem + p->len, f->data, f->len);
	*p = (struct parts){ mem, p->len + f->len, f->stream, f->type, ret->flags };
	ret->data = p->mem;
	ret->len = (uint32_t)p->len;
	return f->flags & START_MORE ? 0 : 1;
}

static int on_request(struct serve *s, const struct frame *f)
{
	struct frame whole = *f;
	struct ctl_fields v;
	int r = in_parts(f->type) ? gather(s, f, &whole) : 1;

	if (r <= 0)
		return r;
	if (ctl_fields_read(&v, whole.data, whole.len) < 0)
		r = -EPROTO;
	else if (f->type >= PROTO_STATUS)
		r = ctl_request(s, &whole, &v);
	else if (s->state == SUP_PAUSED)
		r = (link_error(s, f->stream, EHOSTDOWN, "the sandbox is paused"), 0);
	else if (f->type == PROTO_START)
		r = proc_start(s, &whole, whole.data, whole.len);
	else
		r = pass_request(s, &whole, &v);
	if (in_parts(f->type))
		parts_done(s);
	return r;
}

int link_handle(struct serve *s, const struct frame *f)
{
	struct call *c;

	if (!f->stream || f->stream > SUP_CALLS_MAX)
		return -EPROTO;
	if (s->parts.mem && (f->stream != s->parts.stream || f->type != s->parts.type))
		return -EPROTO;
	c = s->calls[f->stream];
	if (c)
		return on_call(s, c, f);
	switch (f->type) {
	case PROTO_DATA:
	case PROTO_END:
	case PROTO_CREDIT:
	case PROTO_CANCEL:
		return 0; /* crossed the final frame */
	default:
		return on_request(s, f);
	}
}

int link_frame(void *arg, const struct frame *f)
{
	struct serve *s = arg;

	return still_waits(s, f) ? still_keep(s, f) : link_handle(s, f);
}

void link_receive(struct serve *s)
{
	int r = ctl_receive(&s->link, TURNS, link_frame, s);

	still_work(s);
	if (r == 0)
		return;
	if (r != -ENOTCONN) {
		fprintf(stderr, "ward sup: %s: the daemon broke the protocol: hanging up\n", s->id);
		flight_note(&s->flight, "daemon", "broke the protocol");
	}
	link_hang_up(s);
}
