/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/conn.c - one connection, from accept to close.
 *
 * Owns:  struct conn, its socket, and when it is looked at.
 * Rules: all work is done in conn_work(). A connection is freed at its end and nowhere else, so
 * that callbacks which ask for its end are safe. Buffers exist only while something is in them: an
 *        idle connection is this struct and its socket.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/impl.h"

static uint64_t now_of(const struct conn *c)
{
	return loop_now_ms(c->server->loop);
}

void conn_note(struct conn *c, const char *text)
{
	const struct wire_config *f = &c->server->config;

	if (f->note)
		f->note(f->ctx, text);
}

void conn_doom(struct conn *c, enum wire_end how)
{
	if (c->doomed)
		return;
	c->doomed = true;
	c->how = how;
	conn_touch(c);
}

void conn_idle(struct conn *c, bool on)
{
	struct wire_server *s = c->server;

	if (on == c->is_idle)
		return;
	c->is_idle = on;
	if (on) {
		c->idle_prev = s->idle_new;
		c->idle_next = NULL;
		*(s->idle_new ? &s->idle_new->idle_next : &s->idle_old) = c;
		s->idle_new = c;
		return;
	}
	*(c->idle_prev ? &c->idle_prev->idle_next : &s->idle_old) = c->idle_next;
	*(c->idle_next ? &c->idle_next->idle_prev : &s->idle_new) = c->idle_prev;
}

void conn_destroy(struct conn *c, enum wire_end how)
{
	struct wire_server *s = c->server;
	struct wire_req *q = c->req;

	c->doomed = c->working = true; /* callbacks can ask for nothing more */
	c->req = NULL;
	if (q)
		req_end(q, how);
	if (c->h2)
		h2_destroy(c, how);
	conn_idle(c, false);
	loop_fd_remove(&c->watch);
	loop_timer_cancel(&c->timer);
	loop_later_cancel(&c->later);
	tls_free(c->ssl);
	close(c->fd);
	out_done(&c->out);
	free(c->held);
	*(c->prev ? &c->prev->next : &s->conns) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	free(c);
	s->stats.conns--;
	server_conn_gone(s);
}

int conn_put(struct conn *c, const void *data, size_t len)
{
	if (out_is_empty(&c->out))
		c->out_ms = now_of(c);
	return out_put(&c->out, data, len);
}

void conn_linger(struct conn *c)
{
	c->kind = CONN_LINGER;
	c->since_ms = now_of(c);
	c->dropped = 0;
}

/* ---- input ---- */

int conn_hold(struct conn *c, const char *data, size_t len)
{
	if (c->held_at) {
		memmove(c->held, c->held + c->held_at, c->held_len);
		c->held_at = 0;
	}
	if (c->held_len + len > c->held_cap) {
		/* Twice as much, for those who send byte by byte. */
		size_t need = c->held_len + len,
		       cap = c->held_cap * 2 < need ? need : c->held_cap * 2;
		char *bigger = realloc(c->held, cap);

		if (!bigger)
			return -ENOMEM;
		c->held = bigger;
		c->held_cap = cap;
	}
	memcpy(c->held + c->held_len, data, len);
	c->held_len += len;
	return 0;
}

static void held_used(struct conn *c, size_t len)
{
	c->held_at += len;
	c->held_len -= len;
	if (c->held_len)
		return;
	free(c->held);
	c->held = NULL;
	c->held_at = c->held_cap = 0;
}

/* HTTP/2 by prior knowledge begins with words that are no HTTP/1.1 request. */
static size_t sniff(struct conn *c, const char *data, size_t len)
{
	size_t n = len < sizeof(h2_preface) ? len : sizeof(h2_preface);

	if (memcmp(data, h2_preface, n) != 0) {
		c->kind = CONN_H1;
		return h1_input(c, data, len);
	}
	if (n < sizeof(h2_preface))
		return 0;
	if (h2_create(c) < 0 || h2_input(c, data, len) < 0)
		conn_doom(c, WIRE_GONE);
	return len;
}

static size_t lingering(struct conn *c, size_t len)
{
	/* Many clients read nothing before all of their body is out: a reset would lose the reply.
	 */
	c->dropped += len;
	if (c->dropped > WIRE_LINGER_BYTES)
		conn_doom(c, WIRE_DONE);
	return len;
}

/* How much of it was used. */
static size_t use_input(struct conn *c, const char *data, size_t len)
{
	switch (c->kind) {
	case CONN_NEW:
		return sniff(c, data, len);
	case CONN_H1:
	case CONN_RAW:
		return h1_input(c, data, len);
	case CONN_H2:
		if (h2_input(c, data, len) < 0)
			conn_doom(c, WIRE_GONE);
		return len;
	case CONN_LINGER:
		return lingering(c, len);
	case CONN_TLS:
		break;
	}
	return len;
}

static bool use_held(struct conn *c)
{
	size_t used;

	if (!c->held_len || c->doomed)
		return false;
	used = use_input(c, c->held + c->held_at, c->held_len);
	held_used(c, used);
	return used > 0;
}

static void take_input(struct conn *c, const char *data, size_t len)
{
	size_t used = 0;

	if (!c->held_len)
		used = use_input(c, data, len);
	if (used < len && !c->doomed && conn_hold(c, data + used, len - used) < 0)
		conn_doom(c, WIRE_ABORTED);
	if (used == 0)
		use_held(c);
}

static bool wants_input(const struct conn *c)
{
	if (c->eof || c->doomed)
		return false;
	switch (c->kind) {
	case CONN_H2:
		return c->out.bytes < WIRE_REPLY_HIGH;
	case CONN_H1:
	case CONN_RAW:
		return h1_wants_input(c);
	default:
		return true;
	}
}

/* The peer will send no more. */
static void peer_ended(struct conn *c)
{
	c->eof = true;
	switch (c->kind) {
	case CONN_RAW:
		return; /* told when what was read before has been delivered */
	case CONN_H1:
		/* Whoever hangs up before the answer is complete does not want it. */
		if (c->req && c->req->reply == REPLY_ENDED)
			return;
		conn_doom(c, WIRE_GONE);
		return;
	default:
		conn_doom(c, WIRE_GONE);
	}
}

static void receive(struct conn *c)
{
	size_t total = 0;

	while (wants_input(c) && total < WIRE_TURN_BYTES) {
		ssize_t n = conn_read(c, c->server->scratch, WIRE_READ_BYTES);

		if (n == -EAGAIN)
			return;
		if (n < 0) {
			conn_doom(c, WIRE_GONE);
			return;
		}
		if (n == 0) {
			peer_ended(c);
			return;
		}
		total += (size_t)n;
		c->in_ms = now_of(c);
		if (c->is_idle && c->kind != CONN_H2) { /* there, a stream ends the idling */
			conn_idle(c, false);
			c->since_ms = c->in_ms;
		}
		take_input(c, c->server->scratch, (size_t)n);
		if (n < WIRE_READ_BYTES && !c->ssl)
			return; /* that was all; if not, the loop says so */
	}
}

/* ---- the look at everything ---- */

static void serve_dirty(struct conn *c)
{
	while (c->dirty && !c->doomed) {
		struct wire_req *q = c->dirty;

		c->dirty = q->dirty_next;
		q->is_dirty = false;
		if (q->version == WIRE_HTTP2)
			h2_serve(q);
	}
}

static bool settle(struct conn *c)
{
	switch (c->kind) {
	case CONN_H1:
	case CONN_RAW:
		return h1_settle(c);
	case CONN_H2:
		if (out_is_empty(&c->out) && h2_is_over(c))
			conn_doom(c, WIRE_GONE);
		return false;
	case CONN_LINGER:
		if (!out_is_empty(&c->out))
			return false;
		if (c->eof)
			conn_doom(c, WIRE_DONE);
		else
			conn_shut(c);
		return false;
	default:
		return false;
	}
}

/* True: there is more to send, and the socket would take it. */
static bool send_out(struct conn *c)
{
	int r = 0;

	if (c->doomed)
		return false;
	if (c->kind == CONN_H2)
		r = h2_output(c);
	if (r < 0 || conn_flush(c) < 0)
		conn_doom(c, WIRE_GONE);
	return r > 0 && out_is_empty(&c->out);
}

/* Sends, finishes, goes on with what was held; as long as something moves, up to a fair share. */
void conn_progress(struct conn *c)
{
	for (unsigned i = 0; i < WIRE_PIPELINE_PER_TURN && !c->doomed; i++) {
		bool moved;

		serve_dirty(c);
		moved = send_out(c);
		moved |= settle(c);
		moved |= use_held(c);
		if (!moved && !c->dirty)
			return;
	}
	if (!c->doomed)
		conn_touch(c);
}

static void watch(struct conn *c)
{
	uint32_t events = 0;

	if (wants_input(c) || c->tls_write_wants_read)
		events |= EPOLLIN;
	if (!c->eof && c->kind != CONN_RAW && c->kind != CONN_TLS)
		events |= EPOLLRDHUP;
	if ((!out_is_empty(&c->out) && !c->tls_write_wants_read) || c->tls_read_wants_write)
		events |= EPOLLOUT;
	loop_fd_mod(&c->watch, events);
	/* The TLS layer may hold bytes that the socket will not speak of again. */
	if ((events & EPOLLIN) && conn_has_pending(c))
		conn_touch(c);
}

void conn_work_end(struct conn *c)
{
	c->working = false;
	if (c->doomed) {
		conn_destroy(c, c->how);
		return;
	}
	watch(c);
	conn_arm(c);
}

static void handshake(struct conn *c)
{
	int r = conn_handshake(c);

	if (r < 0) {
		conn_note(c, "TLS handshake failed");
		conn_doom(c, WIRE_GONE);
	}
	if (r <= 0)
		return;
	c->kind = CONN_NEW;
	c->since_ms = now_of(c);
	if (tls_is_h2(c->ssl) && h2_create(c) < 0)
		conn_doom(c, WIRE_ABORTED);
}

static void conn_work(void *ctx, uint32_t events)
{
	struct conn *c = ctx;

	c->working = true;
	if (events & (EPOLLOUT | EPOLLIN))
		c->blocked = false;
	if (c->kind == CONN_TLS)
		handshake(c);
	if (c->kind != CONN_TLS) {
		if ((events & EPOLLIN) && wants_input(c))
			receive(c);
		else if (events & (EPOLLERR | EPOLLHUP))
			conn_doom(c, WIRE_GONE);
		else if ((events & EPOLLRDHUP) && !c->eof)
			peer_ended(c);
		conn_progress(c);
	}
	conn_work_end(c);
}

static void later_work(void *ctx)
{
	struct conn *c = ctx;

	c->working = true;
	if (c->kind != CONN_TLS) {
		if (conn_has_pending(c))
			receive(c);
		conn_progress(c);
	}
	conn_work_end(c);
}

void conn_touch(struct conn *c)
{
	loop_later_set(c->server->loop, &c->later, later_work, c);
}

/* ---- begin ---- */

int conn_create(struct wire_server *s, int fd, const struct wire_peer *peer, struct ssl_st *ssl)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c ||
		loop_fd_add(s->loop, &c->watch, fd, EPOLLIN | EPOLLRDHUP, conn_work, c, NULL) < 0) {
		free(c);
		return -ENOMEM;
	}
	c->server = s;
	c->fd = fd;
	c->ssl = ssl;
	c->peer = *peer;
	c->out.sum = &s->stats.queued;
	c->kind = ssl ? CONN_TLS : CONN_NEW;
	c->since_ms = c->in_ms = c->out_ms = now_of(c);
	c->next = s->conns;
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	s->stats.conns++;
	conn_idle(c, true); /* until it has said something */
	conn_arm(c);
	return 0;
}
