/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/dial.c - DIAL: a connection to a port or unix socket inside.
 *
 * Owns:  the socket, twice: one descriptor for each way.
 * Rules: loopback only; the agent never connects anywhere else. Each way ends on its own; the final
 *        OK comes when both have ended, an ERROR when the other side cut the connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/state.h"
#include "base/own.h"
#include "base/str.h"

enum { WAY_OUT = 0, WAY_IN = 2 };

static void dial_done(struct stream *s)
{
	relay_in_drop(s);
	pending_done(s);
	if (s->out[0].fd >= 0)
		close(s->out[0].fd);
}

static void dial_fail(struct agent *a, struct stream *s, int code, const char *what)
{
	struct err e = { 0 };

	err_set(&e, code, "%s", what);
	stream_finish(a, s, &e);
}

static bool dial_work(struct agent *a, struct stream *s)
{
	if (!out_ready(a) || !s->connected)
		return false;
	relay_credit(a, s);
	if (s->in_end && !s->pending.len && s->in_fd >= 0) {
		shutdown(s->in_fd, SHUT_WR);
		relay_in_drop(s);
	}
	if (s->in_end && s->in_fd < 0 && !s->out[0].open)
		stream_finish(a, s, NULL);
	return false;
}

static void dial_want(struct agent *a, struct stream *s)
{
	if (!s->connected) {
		if (out_ready(a))
			agent_poll(a, s, WAY_IN, s->in_fd, POLLOUT);
		return;
	}
	if (relay_can_send(a, &s->out[0]))
		agent_poll(a, s, WAY_OUT, s->out[0].fd, POLLIN);
	if (s->pending.len && s->in_fd >= 0)
		agent_poll(a, s, WAY_IN, s->in_fd, POLLOUT);
}

static void connected(struct agent *a, struct stream *s)
{
	int code = 0;
	socklen_t len = sizeof(code);

	if (getsockopt(s->in_fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	if (code) {
		dial_fail(a, s, code, "connecting");
		return;
	}
	s->connected = true;
	out_simple(a, PROTO_OPENED, 0, s->id);
	relay_in(a, s);
}

static void dial_ready(struct agent *a, struct stream *s, unsigned which, short events)
{
	ssize_t n;

	(void)events;
	if (!out_ready(a))
		return;
	if (!s->connected) {
		connected(a, s);
		return;
	}
	if (which == WAY_IN) {
		relay_in(a, s);
		return;
	}
	if (!s->out[0].open)
		return;
	n = relay_out(a, s, 0);
	if (n == 0)
		relay_out_end(a, s, 0);
	else if (n < 0 && n != -EAGAIN)
		dial_fail(a, s, (int)-n, "connection");
}

/* Bytes that come before the connection stands wait with the others. */
static void dial_data(struct agent *a, struct stream *s, const uint8_t *data, uint32_t len)
{
	if (s->connected) {
		relay_data(a, s, data, len);
		return;
	}
	memcpy(s->pending.mem + s->pending.len, data, len);
	s->pending.len += len;
}

static void dial_end(struct agent *a, struct stream *s)
{
	dial_work(a, s);
}

static const struct stream_ops dial_ops = {
	.kind = STREAM_DIAL,
	.cancels = true,
	.work = dial_work,
	.want = dial_want,
	.ready = dial_ready,
	.data = dial_data,
	.end = dial_end,
	.done = dial_done,
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un un;
};

static int address_of(const struct request *q, union address *to, socklen_t *ret_len, struct err *e)
{
	const char *path = values_text(q->v, TAG_PATH);
	uint64_t port = values_num(q->v, TAG_PORT, 0);

	memset(to, 0, sizeof(*to));
	if (values_has(q->v, TAG_PORT) == (path != NULL))
		return err_say(e, EINVAL, "DIAL takes a PORT or a PATH");
	if (path) {
		if (!*path || str_copy(to->un.sun_path, sizeof(to->un.sun_path), path) < 0)
			return err_say(e, EINVAL, "a socket's path has 1 to %zu bytes",
				sizeof(to->un.sun_path) - 1);
		to->un.sun_family = AF_UNIX;
		*ret_len = sizeof(to->un);
		return 0;
	}
	if (port < 1 || port > UINT16_MAX)
		return err_say(e, EINVAL, "a port is 1 to 65535");
	if (q->flags & DIAL_V6) {
		to->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
			.sin6_port = htons((uint16_t)port),
			.sin6_addr = IN6ADDR_LOOPBACK_INIT };
		*ret_len = sizeof(to->v6);
		return 0;
	}
	to->v4 = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	*ret_len = sizeof(to->v4);
	return 0;
}

int request_dial(struct agent *a, const struct request *q, struct err *e)
{
	own_fd int fd = -1, copy = -1;
	union address to;
	struct stream *s;
	socklen_t len = 0;
	int r;

	r = address_of(q, &to, &len, e);
	if (r < 0)
		return r;
	fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, errno, "socket");
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return err_set(e, errno, "socket");
	if (connect(fd, &to.any, len) < 0 && errno != EINPROGRESS)
		return err_set(e, errno, "connecting");
	s = stream_open(
		a, q->id, &dial_ops, (uint32_t)values_num(q->v, TAG_WINDOW, FLOW_WINDOW), e);
	if (!s)
		return -EAGAIN;
	s->in_fd = take_fd(&fd);
	s->out[0].fd = take_fd(&copy);
	s->out[0].open = true;
	if (pending_init(s) < 0) {
		stream_close(a, s);
		return err_set(e, ENOMEM, "buffer of a connection");
	}
	/* Already connected or not, POLLOUT says so. */
	return 0;
}
