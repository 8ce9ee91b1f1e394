/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/sink.c - files into a sandbox.
 *
 * Owns:  the file that is open, and what waits for it.
 * Rules: a write is answered for before the next one is begun. The queue holds what one read of a
 *        body brought at most, since its feeder stops while the sink is busy.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "front/call.h"
#include "front/e2b/sink.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "host/host.h"

enum { QUEUE_MAX = 16 << 20 };
enum op { OP_BEGIN, OP_DATA, OP_END };

struct op_head {
	uint32_t op, len;
};

struct sink {
	struct call *c;
	struct sink_events events;
	const struct buf *meta;
	struct buf queue; /* struct op_head and bytes, again and again */
	size_t at;        /* of the queue, done */
	size_t part;      /* of the op at @at, done */
	enum { SINK_IDLE, SINK_OPENING, SINK_OPEN, SINK_CLOSING, SINK_FAILED } state;
	bool plainly; /* this tier passes no descriptors */
	bool pumping;
	int fd;
	char *path;   /* as asked for */
	char *stored; /* absolute, as the agent told */
	struct loop_later ready;
};

static void pump(struct sink *s);

struct sink *sink_create(struct call *c, const struct sink_events *events, const struct buf *meta)
{
	struct sink *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	s->events = *events;
	s->meta = meta;
	s->fd = -1;
	buf_init(&s->queue, QUEUE_MAX);
	return s;
}

void sink_destroy(struct sink *s)
{
	if (!s)
		return;
	loop_later_cancel(&s->ready);
	if (s->fd >= 0)
		close(s->fd);
	free(s->path);
	free(s->stored);
	buf_done(&s->queue);
	free(s);
}

bool sink_is_busy(const struct sink *s)
{
	return s->queue.len > s->at || s->state == SINK_OPENING || s->state == SINK_CLOSING;
}

static void fail(struct sink *s, int code)
{
	struct err e = { 0 };

	s->state = SINK_FAILED;
	err_set(&e, code, "writing the file");
	call_fail_err(s->c, &e);
	s->events.failed(s->c);
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void on_opened(void *arg, struct link_call *l, const struct link_opened *o)
{
	struct sink *s = ((struct call *)arg)->sink;

	s->state = SINK_OPEN;
	s->fd = o->fd;
	free(s->stored);
	s->stored = strdup(o->has_file && o->file.path ? o->file.path : s->path);
	if (!s->stored)
		fail(s, ENOMEM);
	else
		pump(s);
}

static void closed(struct sink *s)
{
	s->state = SINK_IDLE;
	s->events.stored(s->c, s->stored);
	if (s->state != SINK_FAILED)
		pump(s);
}

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;
	struct sink *s = c->sink;

	call_link_over(c, l);
	if (!s->plainly)
		return; /* the descriptor is ours, the rest was only to get it */
	if (s->state == SINK_CLOSING)
		closed(s);
	else if (s->state != SINK_FAILED)
		fail(s, EIO);
}

static void on_room(void *arg, struct link_call *l)
{
	pump(((struct call *)arg)->sink);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f);

static void open_file(struct call *c, struct link *l)
{
	static const struct link_handler handler = {
		.opened = on_opened, .room = on_room, .done = on_done, .failed = on_failed
	};
	struct sink *s = c->sink;
	struct proto_request q = { .type = PROTO_WRITE,
		.flags = (uint16_t)(FILE_HOME | FILE_FULL | FILE_PARENTS |
				    (s->plainly ? 0 : FILE_PASS_FD)),
		.path = s->path,
		.user = call_owner(c),
		.window = s->plainly ? FRONT_FILE_WINDOW : 0,
		.meta = s->meta->data,
		.meta_len = (uint32_t)s->meta->len,
		.has_meta = true };

	if (!call_request(c, 0, l, &q, &handler)) {
		s->state = SINK_FAILED;
		s->events.failed(c);
	}
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct call *c = arg;
	struct sink *s = c->sink;
	struct link *link = link_of(l);

	call_link_over(c, l);
	if (s->state == SINK_OPENING && f->code == EOPNOTSUPP && !s->plainly) {
		s->plainly = true;
		open_file(c, link);
		return;
	}
	s->state = SINK_FAILED;
	call_fail_link(c, f);
	s->events.failed(c);
}

static void finish_file(struct sink *s)
{
	int r;

	if (s->plainly) {
		s->state = SINK_CLOSING;
		link_send_end(s->c->links[0]);
		return;
	}
	r = host_close(take_fd(&s->fd)); /* a quota may speak up as late as this */
	if (r < 0)
		fail(s, -r);
	else
		closed(s);
}

/* --- The queue -------------------------------------------------------------------------------- */

/* How many of the bytes were taken; fewer only when the link has no room. */
static size_t write_some(struct sink *s, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = s->plainly ? link_send(s->c->links[0], data + done, len - done)
				       : host_write(s->fd, data + done, len - done);

		if (n == -EINTR)
			continue;
		if (n < 0) {
			fail(s, (int)-n);
			break;
		}
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* True: the op is done. */
static bool step(struct sink *s, const struct op_head *h, const char *bytes)
{
	switch (h->op) {
	case OP_BEGIN:
		free(s->path);
		s->path = strndup(bytes, h->len);
		s->state = SINK_OPENING;
		if (s->path)
			call_with_link(s->c, open_file);
		else
			fail(s, ENOMEM);
		return true;
	case OP_DATA:
		s->part += write_some(s, bytes + s->part, h->len - s->part);
		return s->part == h->len;
	default:
		finish_file(s);
		return true;
	}
}

static void tell_ready(void *ctx)
{
	struct sink *s = ctx;

	if (!sink_is_busy(s) && s->state != SINK_FAILED)
		s->events.ready(s->c);
}

static void pump(struct sink *s)
{
	if (s->pumping)
		return; /* closed() comes back here from below */
	s->pumping = true;
	while (s->at < s->queue.len && (s->state == SINK_IDLE || s->state == SINK_OPEN)) {
		struct op_head h;

		memcpy(&h, s->queue.data + s->at, sizeof(h));
		if (!step(s, &h, s->queue.data + s->at + sizeof(h)))
			break;
		s->at += sizeof(h) + h.len;
		s->part = 0;
	}
	s->pumping = false;
	if (s->at == s->queue.len && s->at) {
		buf_cut(&s->queue, 0);
		s->at = 0;
	}
	if (!sink_is_busy(s))
		loop_later_set(s->c->front->loop, &s->ready, tell_ready, s);
}

static int add(struct sink *s, enum op op, const void *bytes, size_t len)
{
	struct op_head h = { op, (uint32_t)len };

	if (s->state == SINK_FAILED)
		return 0;
	buf_add(&s->queue, &h, sizeof(h));
	buf_add(&s->queue, bytes, len);
	if (s->queue.bad)
		return -ENOMEM;
	pump(s);
	return 0;
}

int sink_begin(struct sink *s, const char *path)
{
	return add(s, OP_BEGIN, path, strlen(path));
}

int sink_data(struct sink *s, const void *data, size_t len)
{
	/* The common case: nothing waits, the file is open. */
	if (s->state == SINK_OPEN && s->queue.len == 0) {
		size_t n = write_some(s, data, len);

		return s->state == SINK_FAILED || n == len
			       ? 0
			       : add(s, OP_DATA, (const char *)data + n, len - n);
	}
	return add(s, OP_DATA, data, len);
}

int sink_end(struct sink *s)
{
	return add(s, OP_END, "", 0);
}
