/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/ctl.c - frames and descriptors between a daemon and a supervisor.
 *
 * Owns:  the bytes on the way, both directions, and the descriptors that travel with them.
 * Rules: never waits. A descriptor goes with the first byte of its frame, so the two cannot be
 *        parted. What is received lies on the stack while it is handled; only a frame that is not
 *        whole yet is kept, so that an idle connection costs nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/own.h"
#include "proto/fds.h"
#include "proto/le.h"
#include "sup/ctl.h"

enum {
	FRAME_MAX = FRAME_HEAD + FRAME_PAYLOAD_MAX,
	OUT_STEP = 16 * 1024,
	OUT_KEEP = 64 * 1024, /* a buffer larger than this is given back when it is empty */
};

void ctl_init(struct ctl *c, int fd)
{
	*c = (struct ctl){ .fd = fd };
}

void ctl_done(struct ctl *c)
{
	for (unsigned i = 0; i < c->give_count; i++)
		close(c->give[i].fd);
	for (unsigned i = 0; i < c->got_count; i++)
		close(c->got[i]);
	if (c->fd >= 0)
		close(c->fd);
	free(c->in);
	free(c->out);
	*c = (struct ctl){ .fd = -1, .dead = true };
}

static int room_for(struct ctl *c, size_t len)
{
	size_t have = ctl_waiting(c), cap;
	uint8_t *p;

	if (c->out_at) {
		memmove(c->out, c->out + c->out_at, have);
		c->out_len = have;
		c->out_at = 0;
	}
	if (c->out_cap - have >= len)
		return 0;
	cap = c->out_cap * 2 > have + len ? c->out_cap * 2 : have + len;
	cap = (cap + OUT_STEP - 1) / OUT_STEP * OUT_STEP;
	p = realloc(c->out, cap);
	if (!p)
		return -ENOMEM;
	c->out = p;
	c->out_cap = cap;
	return 0;
}

static int put(struct ctl *c, const struct frame *f, const int *fds, unsigned count)
{
	const void *data = f->data;
	size_t len = f->len;
	int r;

	if (c->dead)
		return -ENOTCONN;
	if (count > CTL_FDS_MAX - c->give_count)
		return -EMFILE;
	r = c->out_cap - c->out_len < FRAME_HEAD + len ? room_for(c, FRAME_HEAD + len) : 0;
	if (r < 0)
		return r;
	for (unsigned i = 0; i < count; i++) {
		c->give[c->give_count].at = c->queued;
		c->give[c->give_count++].fd = fds[i];
	}
	frame_put_head(c->out + c->out_len, (uint32_t)len, f->type, f->flags, f->stream);
	if (len)
		memcpy(c->out + c->out_len + FRAME_HEAD, data, len);
	c->out_len += FRAME_HEAD + len;
	c->queued += FRAME_HEAD + len;
	return 0;
}

static int put_taking(struct ctl *c, const struct frame *f, const int *fds, unsigned count)
{
	int r = put(c, f, fds, count);

	for (unsigned i = 0; r < 0 && i < count; i++)
		close(fds[i]);
	return r;
}

int ctl_put(struct ctl *c, uint16_t type, uint16_t flags, uint32_t stream, const void *data,
	size_t len, int fd)
{
	struct frame f = {
		.type = type, .flags = flags, .stream = stream, .data = data, .len = (uint32_t)len
	};

	return put_taking(c, &f, &fd, fd >= 0);
}

int ctl_put_msg_fds(struct ctl *c, struct msg *m, const int *fds, unsigned count)
{
	int n = msg_end(m);
	struct frame f = { .type = m->type, .flags = m->flags, .stream = m->stream };

	if (n < 0) {
		for (unsigned i = 0; i < count; i++)
			close(fds[i]);
		return n;
	}
	f.data = m->buf + FRAME_HEAD;
	f.len = (uint32_t)n - FRAME_HEAD;
	return put_taking(c, &f, fds, count);
}

int ctl_put_msg(struct ctl *c, struct msg *m)
{
	return ctl_put_msg_fds(c, m, NULL, 0);
}

/* How many descriptors go with the byte at @at: those of one frame. */
static unsigned give_now(const struct ctl *c, uint64_t at)
{
	unsigned n = 0;

	while (n < c->give_count && n < CTL_FDS_TOGETHER && c->give[n].at == at)
		n++;
	return n;
}

/* One sendmsg, up to the next byte that descriptors go with. */
static ssize_t send_some(struct ctl *c)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(CTL_FDS_TOGETHER * sizeof(int))];
	} control;
	uint64_t at = c->queued - ctl_waiting(c);
	struct iovec iov = { c->out + c->out_at, ctl_waiting(c) };
	struct msghdr msg = { .msg_iov = &iov };
	unsigned now = give_now(c, at);
	ssize_t n;

	msg.msg_iovlen = 1;
	if (now) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(now * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(now * sizeof(int));
		for (unsigned i = 0; i < now; i++)
			memcpy(CMSG_DATA(&control.head) + i * sizeof(int), &c->give[i].fd,
				sizeof(int));
	}
	if (c->give_count > now)
		iov.iov_len = (size_t)(c->give[now].at - at);
	do
		n = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n > 0 && now) {
		for (unsigned i = 0; i < now; i++)
			close(c->give[i].fd);
		c->give_count -= now;
		memmove(c->give, c->give + now, c->give_count * sizeof(c->give[0]));
	}
	return n < 0 ? -errno : n;
}

int ctl_flush(struct ctl *c)
{
	if (c->dead)
		return -ENOTCONN;
	while (ctl_waiting(c)) {
		ssize_t n = send_some(c);

		/* ETOOMANYREFS: too many descriptors are on their way in the kernel. */
		if (n == -EAGAIN || n == -EWOULDBLOCK || n == -ETOOMANYREFS || n == -ENOBUFS)
			return 0;
		if (n < 0) {
			c->dead = true;
			return -ENOTCONN;
		}
		c->out_at += (size_t)n;
	}
	c->out_at = c->out_len = 0;
	if (c->out_cap > OUT_KEEP) {
		free(c->out);
		c->out = NULL;
		c->out_cap = 0;
	}
	return 0;
}

static struct fd_queue got_queue(struct ctl *c)
{
	return (struct fd_queue){ c->got, &c->got_count, CTL_FDS_MAX };
}

static ssize_t receive_some(struct ctl *c, uint8_t *to, size_t cap)
{
	struct fd_queue q = got_queue(c);
	ssize_t n = fds_receive(c->fd, to, cap, &q);

	if (n == -EAGAIN)
		return 0;
	return n == 0 || n == -ECONNRESET ? -ENOTCONN : n;
}

/* Handles every whole frame of @buf; the bytes that are left over, or what @each returned. */
static int handle(const uint8_t *buf, size_t len, size_t *ret_used,
	int (*each)(void *arg, const struct frame *f), void *arg)
{
	size_t at = 0;

	*ret_used = 0;
	while (len - at >= FRAME_HEAD) {
		uint32_t size = le_get32(buf + at);
		struct frame f;
		int r;

		if (size > FRAME_PAYLOAD_MAX)
			return -EPROTO;
		if (len - at - FRAME_HEAD < size)
			break;
		f = (struct frame){
			.type = le_get16(buf + at + 4),
			.flags = le_get16(buf + at + 6),
			.stream = le_get32(buf + at + 8),
			.data = buf + at + FRAME_HEAD,
			.len = size,
		};
		at += FRAME_HEAD + size;
		r = each(arg, &f);
		*ret_used = at;
		if (r)
			return r;
	}
	*ret_used = at;
	return 0;
}

static int keep_rest(struct ctl *c, const uint8_t *rest, size_t len)
{
	if (!len) {
		free(c->in);
		c->in = NULL;
		c->in_cap = c->in_len = 0;
		return 0;
	}
	if (len > c->in_cap) {
		uint8_t *p = realloc(c->in, len);

		if (!p)
			return -ENOMEM;
		c->in = p;
		c->in_cap = len;
	}
	memcpy(c->in, rest, len);
	c->in_len = len;
	return 0;
}

int ctl_receive(
	struct ctl *c, unsigned turns, int (*each)(void *arg, const struct frame *f), void *arg)
{
	uint8_t buf[FRAME_MAX];

	for (unsigned i = 0; i < turns; i++) {
		size_t have = c->in_len, used, cap = sizeof(buf) - have;
		ssize_t n;
		int r;

		if (c->fd < 0)
			return -ENOTCONN;
		if (have)
			memcpy(buf, c->in, have);
		n = receive_some(c, buf + have, cap);
		if (n <= 0)
			return (int)n;
		have += (size_t)n;
		r = handle(buf, have, &used, each, arg);
		if (r)
			return r;
		r = keep_rest(c, buf + used, have - used);
		if (r < 0)
			return r;
		if ((size_t)n < cap)
			return 0;
	}
	return 0;
}

int ctl_take_fd(struct ctl *c)
{
	struct fd_queue q = got_queue(c);

	return fds_next(&q);
}

static bool may_repeat(unsigned tag)
{
	return tag == TAG_ARG || tag == TAG_ENV || tag == TAG_MOUNT;
}

int ctl_fields_read(struct ctl_fields *v, const void *data, size_t len)
{
	struct fields fs;
	struct field f;
	int r;

	v->has[0] = v->has[1] = 0;
	fields_init(&fs, data, len);
	while ((r = fields_next(&fs, &f)) != 0) {
		if (r < 0)
			return -EPROTO;
		if (ctl_has(v, f.tag)) {
			if (may_repeat(f.tag))
				continue;
			return -EPROTO;
		}
		v->has[f.tag >> 6] |= (uint64_t)1 << (f.tag & 63);
		v->num[f.tag] = f.num;
		v->text[f.tag] = f.text ? f.text : (const char *)f.data;
		v->len[f.tag] = f.len;
	}
	return 0;
}

void ctl_line(char *out, size_t cap, const char *text)
{
	size_t n = 0;

	for (; text && *text && n < cap - 1; text++)
		out[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
	out[n] = '\0';
}
