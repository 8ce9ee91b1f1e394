/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/server.c - the server: its connections as a whole, and its end.
 *
 * Owns:  struct wire_server.
 * Rules: at the limit of connections the one that has been idle longest makes room; when none is
 *        idle, new ones wait in the kernel's queue.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/own.h"
#include "wire/impl.h"
#include "wire/listen.h"

int wire_server_create(
	struct loop *l, const struct wire_config *config, struct wire_server **ret, struct err *e)
{
	own_mem struct wire_server *s = calloc(1, sizeof(*s));

	if (s)
		s->scratch = malloc(WIRE_READ_BYTES);
	if (!s || !s->scratch)
		return err_set(e, ENOMEM, "making an HTTP server");
	s->loop = l;
	s->config = *config;
	s->config.conns_max = config->conns_max ? config->conns_max : WIRE_CONNS_MAX;
	s->config.head_ms = config->head_ms ? config->head_ms : WIRE_HEAD_MS;
	s->config.idle_ms = config->idle_ms ? config->idle_ms : WIRE_IDLE_MS;
	s->config.body_ms = config->body_ms ? config->body_ms : WIRE_BODY_MS;
	s->config.write_ms = config->write_ms ? config->write_ms : WIRE_WRITE_MS;
	*ret = take_ptr(&s);
	return 0;
}

void wire_server_destroy(struct wire_server *s)
{
	if (!s)
		return;
	s->drained = NULL;
	listeners_close(s);
	while (s->conns)
		conn_destroy(s->conns, WIRE_ABORTED);
	loop_timer_cancel(&s->accept_retry);
	loop_timer_cancel(&s->grace);
	loop_later_cancel(&s->gone);
	free(s->scratch);
	free(s);
}

void wire_server_stats(const struct wire_server *s, struct wire_stats *ret)
{
	*ret = s->stats;
}

bool server_drop_idle(struct wire_server *s)
{
	if (!s->idle_old)
		return false;
	conn_destroy(s->idle_old, WIRE_DONE);
	return true;
}

bool server_is_full(const struct wire_server *s)
{
	return s->stats.conns >= s->config.conns_max;
}

static void tell_drained(void *ctx)
{
	struct wire_server *s = ctx;
	void (*drained)(void *ctx) = s->drained;

	s->drained = NULL;
	loop_timer_cancel(&s->grace);
	if (drained)
		drained(s->drained_ctx);
}

void server_conn_gone(struct wire_server *s)
{
	if (s->accept_off && !s->draining)
		listeners_resume(s);
	if (s->draining && !s->conns && s->drained)
		loop_later_set(s->loop, &s->gone, tell_drained, s);
}

static void grace_over(void *ctx)
{
	struct wire_server *s = ctx;

	for (struct conn *c = s->conns; c; c = c->next)
		conn_doom(c, WIRE_ABORTED);
}

void wire_server_drain(struct wire_server *s, uint64_t grace_ms, void (*done)(void *ctx), void *ctx)
{
	s->draining = true;
	s->drained = done;
	s->drained_ctx = ctx;
	listeners_close(s);
	for (struct conn *c = s->conns; c; c = c->next) {
		if (c->kind == CONN_H2)
			h2_goaway(c);
		else if (c->is_idle)
			conn_doom(c, WIRE_DONE);
		conn_touch(c);
	}
	if (!s->conns)
		loop_later_set(s->loop, &s->gone, tell_drained, s);
	else if (loop_timer_set(s->loop, &s->grace, grace_ms, grace_over, s) < 0)
		grace_over(s);
}
