/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/relay.c - bytes between the channel and a descriptor, both ways, as credit allows.
 *
 * Owns:  the pending bytes of a stream.
 * Rules: nothing is read that cannot be sent on; nothing is accepted beyond the credit given, so
 *        what is pending always fits. Bytes are dealt with, and their credit given back, when the
 *        other side has taken them or will never read again. A descriptor that goes both ways is
 *        there twice, so that each way has its own end.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/state.h"

int pending_init(struct stream *s)
{
	/* Address space only: a page is touched when somebody is slow. */
	s->pending.mem = room_take(FLOW_WINDOW);
	return s->pending.mem ? 0 : -ENOMEM;
}

void pending_done(struct stream *s)
{
	room_free(s->pending.mem, FLOW_WINDOW);
	s->pending = (struct pending){ 0 };
}

void relay_in_drop(struct stream *s)
{
	s->in.owed += s->pending.len;
	s->pending.at = s->pending.len = 0;
	if (s->in_fd >= 0)
		close(s->in_fd);
	s->in_fd = -1;
}

/* Bytes taken by the other side; all of them when it is gone. */
static uint32_t write_some(struct stream *s, const uint8_t *data, uint32_t len)
{
	uint32_t done = 0;

	while (done < len && s->in_fd >= 0) {
		ssize_t n = write(s->in_fd, data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			relay_in_drop(s);
			break;
		}
		done += (uint32_t)n;
	}
	return s->in_fd < 0 ? len : done;
}

void relay_data(struct agent *a, struct stream *s, const uint8_t *data, uint32_t len)
{
	uint32_t done = s->pending.len ? 0 : write_some(s, data, len);
	struct pending *p = &s->pending;

	s->in.owed += done;
	if (done < len) {
		if (p->at) {
			memmove(p->mem, p->mem + p->at, p->len);
			p->at = 0;
		}
		memcpy(p->mem + p->len, data + done, len - done);
		p->len += len - done;
	}
	relay_credit(a, s);
}

void relay_in(struct agent *a, struct stream *s)
{
	struct pending *p = &s->pending;
	uint32_t done;

	if (!p->len)
		return;
	done = write_some(s, p->mem + p->at, p->len);
	if (s->in_fd >= 0) { /* else it was dropped, and counted there */
		s->in.owed += done;
		p->at += done;
		p->len -= done;
		if (!p->len)
			p->at = 0;
	}
	relay_credit(a, s);
}

void relay_credit(struct agent *a, struct stream *s)
{
	struct msg m;
	uint32_t now;

	if (!out_ready(a))
		return;
	now = flow_give(&s->in, 0);
	if (!now)
		return;
	out_begin(a, &m, PROTO_CREDIT, 0, s->id);
	msg_u64(&m, TAG_BYTES, now);
	out_end(a, &m);
}

bool relay_can_send(struct agent *a, const struct outlet *o)
{
	return o->open && o->fd >= 0 && o->flow.credit && out_data_ready(a);
}

void relay_out_end(struct agent *a, struct stream *s, unsigned which)
{
	struct outlet *o = &s->out[which];

	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
	o->open = false;
	out_simple(a, PROTO_END, which ? DATA_ERR : 0, s->id);
}

ssize_t relay_out(struct agent *a, struct stream *s, unsigned which)
{
	struct outlet *o = &s->out[which];
	uint32_t cap;
	uint8_t *to = out_data_space(a, &cap);
	ssize_t n;

	if (cap > o->flow.credit)
		cap = o->flow.credit;
	if (!cap)
		return -EAGAIN;
	do
		n = read(o->fd, to, cap);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n > 0) {
		flow_take(&o->flow, (uint32_t)n);
		out_data(a, s->id, which ? DATA_ERR : 0, (uint32_t)n);
		o->due -= o->due < (uint32_t)n ? o->due : (uint32_t)n;
	}
	return n;
}
