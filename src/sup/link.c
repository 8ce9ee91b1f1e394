/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/link.c - the daemon's end of a supervisor's connection: the table of calls, and turns.
 *
 * Owns:  the connection and every open call.
 * Rules: a stream's number is its place in the table, and is used again only after its final frame,
 *        also when the caller has dropped it long before. Credit waits for the next turn, so that
 *        many small pieces are acknowledged with one frame.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "sup/link_impl.h"
#include "sup/place.h"

enum { TABLE_FIRST = 16, TURNS = 8, SMALL = FRAME_HEAD + 64 };

static short wanted(const struct link *l)
{
	return (short)(POLLIN | (ctl_waiting(&l->ctl) || l->dirty ? POLLOUT : 0));
}

static void tell_want(struct link *l)
{
	short now = wanted(l);

	if (now == l->wanted || l->working || l->closed || l->held)
		return;
	l->wanted = now;
	if (l->hooks.want)
		l->hooks.want(l->hooks.arg, now);
}

int link_create(int fd, const struct link_hooks *hooks, struct link **ret, struct err *e)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return err_set(e, ENOMEM, "a link");
	}
	ctl_init(&l->ctl, fd);
	l->hooks = *hooks;
	l->wanted = POLLIN;
	*ret = l;
	return 0;
}

int link_connect(const char *state_dir, const char *id, const struct link_hooks *hooks,
	struct link **ret, struct err *e)
{
	own_fd int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un to;
	own_fd int dir = -1;
	int r;

	if (sock < 0)
		return err_set(e, errno, "socket for supervisor %s", id);
	r = place_address(state_dir, id, &to, &dir, e);
	if (r < 0)
		return r;
	if (connect(sock, (struct sockaddr *)&to, sizeof(to)) < 0)
		return err_set(e, errno, "connecting to supervisor %s", id);
	return link_create(take_fd(&sock), hooks, ret, e);
}

void link_destroy(struct link *l)
{
	if (!l)
		return;
	for (unsigned i = 1; i < l->size; i++)
		free(l->calls[i]);
	free(l->calls);
	ctl_done(&l->ctl);
	free(l);
}

int link_fd(const struct link *l)
{
	return l->ctl.fd;
}

short link_events(const struct link *l)
{
	return wanted(l);
}

const struct link_status *link_status(const struct link *l)
{
	return l->has_status ? &l->status : NULL;
}

unsigned link_call_count(const struct link *l)
{
	return l->used;
}

int link_unsent(const struct link *l)
{
	if (l->closed || l->ctl.dead)
		return -ENOTCONN;
	return ctl_waiting(&l->ctl) > 0;
}

/* --- Calls ------------------------------------------------------------------------------------ */

static int grow(struct link *l)
{
	unsigned size = l->size ? l->size * 2 : TABLE_FIRST;
	struct link_call **calls;

	if (size > SUP_CALLS_MAX + 1)
		size = SUP_CALLS_MAX + 1;
	if (size == l->size)
		return -EAGAIN;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): the table holds pointers */
	calls = realloc(l->calls, size * sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	for (unsigned i = l->size; i < size; i++)
		calls[i] = NULL;
	l->calls = calls;
	l->size = size;
	return 0;
}

static int free_number(struct link *l, uint32_t *ret)
{
	unsigned i = 1;
	int r;

	while (i < l->size && l->calls[i])
		i++;
	if (i >= l->size) {
		r = grow(l);
		if (r < 0)
			return r;
		i = i ? i : 1;
	}
	*ret = i;
	return 0;
}

int link_open(struct link *l, uint16_t type, uint16_t flags, uint32_t window,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e)
{
	struct link_call *c;
	uint32_t stream = 0;
	int r;

	if (l->closed || l->ctl.dead)
		return err_set(e, ENOTCONN, "the sandbox's supervisor");
	if (window > FLOW_CREDIT_MAX)
		return err_say(e, EINVAL, "a window is at most %d bytes", FLOW_CREDIT_MAX);
	if (ctl_waiting(&l->ctl) > LINK_QUEUE_MAX)
		return err_say(e, ENOBUFS, "the sandbox's supervisor does not read");
	r = free_number(l, &stream);
	if (r < 0)
		return err_say(e, -r, "at most %d calls to one sandbox at one time", SUP_CALLS_MAX);
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, ENOMEM, "a call");
	*c = (struct link_call){
		.l = l, .stream = stream, .type = type, .flags = flags, .h = h, .arg = arg
	};
	flow_init(&c->in, window ? window : FLOW_WINDOW);
	flow_init(&c->out,
		type == PROTO_INPUT || type == PROTO_WRITE || type == PROTO_DIAL ? FLOW_WINDOW : 0);
	l->calls[stream] = c;
	l->used++;
	*ret = c;
	return 0;
}

static void forget_dirty(struct link_call *c)
{
	struct link_call **p = &c->l->dirty;

	while (*p && *p != c)
		p = &(*p)->next_dirty;
	if (*p)
		*p = c->next_dirty;
	c->dirty = false;
}

void link_close_call(struct link_call *c)
{
	if (c->dirty)
		forget_dirty(c);
	c->l->calls[c->stream] = NULL;
	c->l->used--;
	free(c);
}

static int sent(struct link *l, struct link_call *c, int r, struct link_call **ret, struct err *e)
{
	if (r < 0) {
		link_close_call(c);
		return r == -EMSGSIZE ? err_say(e, E2BIG, "the request is too long")
				      : err_set(e, -r, "sending to the sandbox's supervisor");
	}
	if (ret)
		*ret = c;
	tell_want(l);
	return 0;
}

static void flush(struct link *l)
{
	if (!l->held)
		ctl_flush(&l->ctl); /* an end is seen, and told, by link_work() */
}

void link_hold(struct link *l)
{
	l->held = true;
}

void link_release(struct link *l)
{
	l->held = false;
	flush(l);
	tell_want(l);
}

int link_send_msg(
	struct link *l, struct link_call *c, struct msg *m, struct link_call **ret, struct err *e)
{
	return link_send_fds(l, c, m, NULL, 0, ret, e);
}

int link_send_fds(struct link *l, struct link_call *c, struct msg *m, const int *fds,
	unsigned count, struct link_call **ret, struct err *e)
{
	int r = ctl_put_msg_fds(&l->ctl, m, fds, count);

	if (r == 0)
		flush(l);
	return sent(l, c, r, ret, e);
}

int link_send_parts(struct link *l, struct link_call *c, const struct msg *m,
	struct link_call **ret, struct err *e)
{
	const uint8_t *fields = m->buf + FRAME_HEAD;
	size_t len = m->len - FRAME_HEAD, at = 0;
	int r;

	if (m->over)
		return sent(l, c, -EMSGSIZE, ret, e);
	do {
		size_t n = len - at < FRAME_PAYLOAD_MAX ? len - at : FRAME_PAYLOAD_MAX;
		uint16_t more = at + n < len ? START_MORE : 0;

		r = ctl_put(&l->ctl, m->type, m->flags | more, m->stream, fields + at, n, -1);
		at += n;
	} while (r == 0 && at < len);
	if (r == 0)
		flush(l);
	return sent(l, c, r, ret, e);
}

/* --- Of an open call -------------------------------------------------------------------------- */

void link_credit(struct link_call *c, uint64_t bytes)
{
	/* What was never received is not given back: the supervisor would hang up for it. */
	uint64_t most = (uint64_t)c->in.window - c->in.credit - c->in.owed;

	bytes = bytes < most ? bytes : most;
	if (c->dropped || !bytes)
		return;
	c->in.owed += (uint32_t)bytes;
	if (c->dirty)
		return;
	c->dirty = true;
	c->next_dirty = c->l->dirty;
	c->l->dirty = c;
	tell_want(c->l);
}

static bool acknowledges(const struct link_call *c)
{
	return c->type == PROTO_START || c->type == PROTO_ATTACH;
}

static void send_credit(struct link *l, struct link_call *c)
{
	/* A process's output counts as received only with this, so it is never put off. */
	uint32_t n = acknowledges(c) ? c->in.owed : flow_give(&c->in, 0);
	uint8_t buf[SMALL];
	struct msg m;

	if (!n)
		return;
	if (acknowledges(c)) {
		c->in.owed = 0;
		c->in.credit += n;
	}
	msg_begin(&m, buf, sizeof(buf), PROTO_CREDIT, 0, c->stream);
	msg_u64(&m, TAG_BYTES, n);
	ctl_put_msg(&l->ctl, &m);
}

static void send_credits(struct link *l)
{
	while (l->dirty) {
		struct link_call *c = l->dirty;

		l->dirty = c->next_dirty;
		c->dirty = false;
		send_credit(l, c);
	}
}

size_t link_room(const struct link_call *c)
{
	if (c->sent_end || c->l->closed || c->l->ctl.dead ||
		ctl_waiting(&c->l->ctl) > LINK_QUEUE_MAX)
		return 0;
	return c->out.credit;
}

ssize_t link_send(struct link_call *c, const void *data, size_t len)
{
	struct link *l = c->l;
	size_t room = link_room(c), done = 0;

	if (l->closed || l->ctl.dead)
		return -ENOTCONN;
	len = len < room ? len : room;
	while (done < len) {
		size_t n = len - done < FRAME_PAYLOAD_MAX ? len - done : FRAME_PAYLOAD_MAX;

		if (ctl_put(&l->ctl, PROTO_DATA, 0, c->stream, (const uint8_t *)data + done, n,
			    -1) < 0)
			break;
		flow_take(&c->out, (uint32_t)n);
		done += n;
	}
	ctl_flush(&l->ctl);
	tell_want(l);
	return (ssize_t)done;
}

int link_send_end(struct link_call *c)
{
	struct link *l = c->l;
	int r;

	if (c->sent_end)
		return 0;
	if (!c->out.window)
		return -EINVAL; /* nothing goes this way */
	c->sent_end = true;
	r = l->closed ? -ENOTCONN : ctl_put(&l->ctl, PROTO_END, 0, c->stream, NULL, 0, -1);
	if (r == 0)
		ctl_flush(&l->ctl);
	tell_want(l);
	return r;
}

void link_drop(struct link_call *c)
{
	if (!c || c->dropped)
		return;
	c->dropped = true;
	if (c->dirty)
		forget_dirty(c);
	if (c->l->closed || c->l->ctl.dead)
		return;
	ctl_put(&c->l->ctl, PROTO_CANCEL, 0, c->stream, NULL, 0, -1);
	ctl_flush(&c->l->ctl);
	tell_want(c->l);
}

void link_call_set(struct link_call *c, const struct link_handler *h, void *arg)
{
	c->h = h;
	c->arg = arg;
}

struct link *link_of(const struct link_call *c)
{
	return c->l;
}

/* --- Turns ------------------------------------------------------------------------------------ */

static int on_frame(void *arg, const struct frame *f)
{
	return link_read(arg, f);
}

static void fail_calls(struct link *l, const void *but)
{
	static const struct link_failed gone = { .code = ENOTCONN,
		.text = "the sandbox's supervisor is gone" };

	for (unsigned i = 1; i < l->size; i++) {
		struct link_call *c = l->calls[i];

		if (!c)
			continue;
		if (!c->dropped && c->h && c->h->failed && (!but || c->arg != but))
			c->h->failed(c->arg, c, &gone);
		link_close_call(c);
	}
}

void link_fail(struct link *l, const void *but)
{
	l->closed = true;
	fail_calls(l, but);
}

static void close_link(struct link *l, int r)
{
	struct err why = { 0 };

	l->closed = true;
	if (r == -EPROTO)
		err_say(&why, EPROTO, "the supervisor broke its protocol");
	else if (r == -ENOTCONN)
		err_say(&why, ENOTCONN, "the supervisor has closed the connection");
	else
		err_set(&why, -r, "the connection to the supervisor");
	fail_calls(l, NULL);
	if (l->hooks.closed)
		l->hooks.closed(l->hooks.arg, &why); /* may free @l */
}

void link_work(struct link *l, short revents)
{
	int r = 0;

	if (l->closed)
		return;
	l->working = true;
	if (revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL))
		r = ctl_receive(&l->ctl, TURNS, on_frame, l);
	send_credits(l);
	ctl_flush(&l->ctl);
	l->working = false;
	if (r < 0)
		close_link(l, r);
	else
		tell_want(l);
}
