/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/out.c - frames on their way to the client.
 *
 * Owns:  the buffer of frames that the channel did not take yet.
 * Rules: data leaves OUT_RESERVE bytes free; whoever sends anything else asks out_ready() first, so
 *        that a reply always fits and a client that does not read stops the agent's sources.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "agent/state.h"

enum { DATA_LEAST = 4096 }; /* no smaller frames for want of room */

static uint32_t out_room(const struct agent *a)
{
	return OUT_BYTES - (a->out_len - a->out_at);
}

/* Whoever is told "no" has more to do: the loop comes back as soon as there is room. */
static bool has_room(struct agent *a, uint32_t need)
{
	if (out_room(a) >= need)
		return true;
	a->starved = true;
	return false;
}

bool out_ready(struct agent *a)
{
	return has_room(a, OUT_RESERVE);
}

bool out_data_ready(struct agent *a)
{
	return has_room(a, OUT_RESERVE + FRAME_HEAD + DATA_LEAST);
}

static void out_compact(struct agent *a)
{
	if (!a->out_at)
		return;
	memmove(a->out, a->out + a->out_at, a->out_len - a->out_at);
	a->out_len -= a->out_at;
	a->out_at = 0;
}

void out_begin(
	struct agent *a, struct msg *m, enum proto_type type, uint16_t flags, uint32_t stream)
{
	if (OUT_BYTES - a->out_len < OUT_RESERVE)
		out_compact(a);
	msg_begin(m, a->out + a->out_len, OUT_BYTES - a->out_len, type, flags, stream);
}

void out_end(struct agent *a, struct msg *m)
{
	int n = msg_end(m);

	if (n < 0) {
		/* Cannot be while OUT_RESERVE is more than any reply; never go on without it. */
		agent_break(a);
		return;
	}
	a->out_len += (uint32_t)n;
	a->out_count += (uint32_t)n;
}

int out_can_give(struct agent *a, struct err *e)
{
	int domain = 0;
	socklen_t len = sizeof(domain);

	if (getsockopt(a->channel, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_UNIX)
		return err_say(e, EOPNOTSUPP, "this channel passes no descriptors");
	if (a->give_count == GIVES_MAX)
		out_flush(a);
	if (a->give_count == GIVES_MAX)
		return err_say(e, EAGAIN, "%d files are on their way already", GIVES_MAX);
	return 0;
}

void out_give(struct agent *a, const struct msg *m, int fd)
{
	(void)m;
	a->gives[a->give_count].at = a->out_count;
	a->gives[a->give_count++].fd = fd;
}

uint8_t *out_data_space(struct agent *a, uint32_t *ret_cap)
{
	uint32_t cap;

	*ret_cap = 0;
	if (!out_data_ready(a))
		return NULL;
	if (OUT_BYTES - a->out_len < FRAME_HEAD + FRAME_PAYLOAD_MAX + OUT_RESERVE)
		out_compact(a);
	cap = OUT_BYTES - a->out_len - OUT_RESERVE - FRAME_HEAD;
	*ret_cap = cap < FRAME_PAYLOAD_MAX ? cap : FRAME_PAYLOAD_MAX;
	return a->out + a->out_len + FRAME_HEAD;
}

void out_data(struct agent *a, uint32_t stream, uint16_t flags, uint32_t len)
{
	frame_put_head(a->out + a->out_len, len, PROTO_DATA, flags, stream);
	a->out_len += FRAME_HEAD + len;
	a->out_count += FRAME_HEAD + len;
}

void out_simple(struct agent *a, enum proto_type type, uint16_t flags, uint32_t stream)
{
	struct msg m;

	out_begin(a, &m, type, flags, stream);
	out_end(a, &m);
}

void out_error(struct agent *a, uint32_t stream, uint16_t flags, const struct err *e)
{
	struct msg m;

	out_begin(a, &m, PROTO_ERROR, flags, stream);
	msg_u32(&m, TAG_ERRNO, e->code ? (uint32_t)e->code : EIO);
	msg_text(&m, TAG_TEXT, e->msg);
	out_end(a, &m);
}

/* Apart, so that the way without descriptors stays one plain send. */
static __attribute__((noinline)) ssize_t send_giving(struct agent *a)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	uint64_t at = a->out_count - (a->out_len - a->out_at);
	struct iovec iov = { a->out + a->out_at, (size_t)(a->gives[0].at - at) };
	struct msghdr msg = { .msg_iov = &iov };
	ssize_t n;

	msg.msg_iovlen = 1;
	if (!iov.iov_len) {
		iov.iov_len =
			a->give_count > 1 ? (size_t)(a->gives[1].at - at) : a->out_len - a->out_at;
		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control.room);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &a->gives[0].fd, sizeof(int));
	}
	n = sendmsg(a->channel, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0 && msg.msg_controllen) {
		close(a->gives[0].fd);
		a->give_count--;
		memmove(a->gives, a->gives + 1, a->give_count * sizeof(a->gives[0]));
	}
	return n;
}

void out_flush(struct agent *a)
{
	while (a->out_at < a->out_len && !a->dead) {
		ssize_t n = a->give_count
				    ? send_giving(a)
				    : send(a->channel, a->out + a->out_at, a->out_len - a->out_at,
					      MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		/* ETOOMANYREFS: descriptors that nobody has received yet are counted. */
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS))
			return;
		if (n < 0)
			a->dead = a->over = true;
		else
			a->out_at += (uint32_t)n;
	}
	if (a->out_at == a->out_len)
		a->out_at = a->out_len = 0;
}

void out_flush_wait(struct agent *a)
{
	for (;;) {
		struct pollfd p = { .fd = a->channel, .events = POLLOUT };

		out_flush(a);
		if (a->dead || a->out_at == a->out_len)
			return;
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return;
	}
}
