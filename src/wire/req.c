/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/req.c - a request: its head, its memory, its end.
 *
 * Owns:  struct wire_req.
 * Rules: a request is destroyed in req_end() and nowhere else once a handler has seen it.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/str.h"
#include "wire/impl.h"
#include "wire/query.h"

static const char *const methods[] = {
	[WIRE_GET] = "GET",
	[WIRE_HEAD] = "HEAD",
	[WIRE_POST] = "POST",
	[WIRE_PUT] = "PUT",
	[WIRE_DELETE] = "DELETE",
	[WIRE_PATCH] = "PATCH",
	[WIRE_OPTIONS] = "OPTIONS",
};

enum wire_method req_method_of(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(methods); i++)
		if (str_eq(methods[i], name))
			return (enum wire_method)i;
	return WIRE_OTHER;
}

struct wire_req *req_create(struct conn *c)
{
	static const struct wire_events none;
	struct wire_req *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->conn = c;
	q->on = &none;
	q->path_raw = q->path = "/";
	q->method_name = q->query = q->authority = q->host = "";
	q->began_ns = clock_ns();
	q->body_ms = c->server->config.body_ms;
	buf_init(&q->head, WIRE_REPLY_HEAD_MAX);
	buf_init(&q->text, WIRE_HEAD_MAX);
	q->out.sum = q->held.sum = &c->server->stats.queued;
	return q;
}

bool wire_hold(struct wire_req *q, size_t bytes)
{
	struct wire_server *s = q->conn->server;

	if (bytes > WIRE_HOLD_MAX ||
		(q->holding + bytes > WIRE_HOLD_EACH && s->stats.held + bytes > WIRE_HOLD_MAX))
		return false;
	q->holding += bytes;
	s->stats.held += bytes;
	if (s->stats.held > s->held_top)
		s->held_top = s->stats.held;
	return true;
}

void wire_release(struct wire_req *q)
{
	q->conn->server->stats.held -= q->holding;
	q->holding = 0;
}

/* The allocator keeps what was freed below something that lives on: a burst would be paid for
 * until the daemon ends. */
static void trim(struct wire_server *s)
{
	if (s->held_top < WIRE_HOLD_TRIM || s->stats.held > WIRE_HOLD_TRIM / 16)
		return;
	s->held_top = 0;
	malloc_trim(0);
}

void req_destroy(struct wire_req *q)
{
	struct wire_server *s = q ? q->conn->server : NULL;

	if (!q)
		return;
	wire_release(q);
	while (q->arena) {
		struct arena_block *b = q->arena;

		q->arena = b->next;
		free(b);
	}
	buf_done(&q->head);
	buf_done(&q->text);
	buf_done(&q->whole_data);
	out_done(&q->out);
	out_done(&q->held);
	free(q);
	trim(s);
}

static void untouch(struct wire_req *q)
{
	struct wire_req **at = &q->conn->dirty;

	if (!q->is_dirty)
		return;
	while (*at != q)
		at = &(*at)->dirty_next;
	*at = q->dirty_next;
}

void req_end(struct wire_req *q, enum wire_end how)
{
	if (q->dead)
		return;
	q->dead = true;
	q->conn->server->stats.live--;
	if (q->on->ended)
		q->on->ended(q->ctx, q, how);
	untouch(q);
	req_destroy(q);
}

void req_touch(struct wire_req *q)
{
	if (!q->is_dirty) {
		q->is_dirty = true;
		q->dirty_next = q->conn->dirty;
		q->conn->dirty = q;
	}
	conn_touch(q->conn);
}

void *req_alloc(struct wire_req *q, size_t size)
{
	struct arena_block *b;
	size_t total;

	if (ckd_add(&total, size, sizeof(*b)))
		return NULL;
	b = calloc(1, total);
	if (!b)
		return NULL;
	b->next = q->arena;
	q->arena = b;
	return b->data;
}

void *wire_req_alloc(struct wire_req *q, size_t size)
{
	if (size > WIRE_REQ_ARENA_MAX - q->arena_bytes)
		return NULL;
	q->arena_bytes += size;
	return req_alloc(q, size);
}

static int set_path(struct wire_req *q, const char *raw, struct h1_fault *fault)
{
	size_t len = strlen(raw);
	char *path = strchr(raw, '%') ? req_alloc(q, len + 1) : NULL;

	q->path_raw = q->path = raw;
	if (!strchr(raw, '%'))
		return 0;
	if (!path) {
		*fault = (struct h1_fault){ 503, "out of memory" };
		return -1;
	}
	if (percent_decode(raw, len, PERCENT_PLUS_KEEP, path, len + 1) < 0) {
		*fault = (struct h1_fault){ 400, "malformed escape in the path" };
		return -1;
	}
	q->path = path;
	return 0;
}

int req_set_target(struct wire_req *q, char *target, const char *host, struct h1_fault *fault)
{
	struct h1_target t;
	char *name;

	if (h1_split_target(target, q->method_name, &t, fault) < 0)
		return -1;
	/* RFC 9112 says to go by the target; a front before us may have gone by the header. */
	if (*t.authority && host && strcasecmp(t.authority, host) != 0) {
		*fault = (struct h1_fault){ 400, "Host differs from the target" };
		return -1;
	}
	q->authority = *t.authority ? t.authority : host ? host : "";
	name = req_alloc(q, strlen(q->authority) + 1);
	if (!name) {
		*fault = (struct h1_fault){ 503, "out of memory" };
		return -1;
	}
	h1_host_name(q->authority, name);
	q->host = name;
	q->query = t.query;
	return set_path(q, t.path, fault);
}

enum wire_method wire_method(const struct wire_req *q)
{
	return q->method;
}

const char *wire_method_name(const struct wire_req *q)
{
	return q->method_name;
}

enum wire_version wire_version(const struct wire_req *q)
{
	return q->version;
}

const char *wire_path_raw(const struct wire_req *q)
{
	return q->path_raw;
}

const char *wire_path(const struct wire_req *q)
{
	return q->path;
}

const char *wire_query(const struct wire_req *q)
{
	return q->query;
}

const char *wire_authority(const struct wire_req *q)
{
	return q->authority;
}

const char *wire_host(const struct wire_req *q)
{
	return q->host;
}

const char *wire_header(const struct wire_req *q, const char *name)
{
	for (unsigned i = 0; i < q->count; i++)
		if (strcasecmp(q->fields[i].name, name) == 0)
			return q->fields[i].value;
	return NULL;
}

bool wire_header_at(
	const struct wire_req *q, unsigned i, const char **ret_name, const char **ret_value)
{
	if (i >= q->count)
		return false;
	*ret_name = q->fields[i].name;
	*ret_value = q->fields[i].value;
	return true;
}

bool wire_header_has(const struct wire_req *q, const char *name, const char *token)
{
	for (unsigned i = 0; i < q->count; i++)
		if (strcasecmp(q->fields[i].name, name) == 0 &&
			h1_list_has(q->fields[i].value, token))
			return true;
	return false;
}

const struct wire_peer *wire_peer(const struct wire_req *q)
{
	return &q->conn->peer;
}

uint64_t wire_began_ns(const struct wire_req *q)
{
	return q->began_ns;
}

struct loop *wire_req_loop(const struct wire_req *q)
{
	return q->conn->server->loop;
}

const char *wire_upgrade_asked(const struct wire_req *q)
{
	return q->upgrade;
}

void wire_on(struct wire_req *q, const struct wire_events *events, void *ctx)
{
	q->on = events;
	q->ctx = ctx;
}
