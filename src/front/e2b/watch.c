/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/watch.c - filesystem.Filesystem: WatchDir.
 *
 * Owns:  the shape of a change, and the stream of them.
 * Rules: the first message says that the watch is armed; a slow client holds the agent back by
 *        credit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/entry.h"
#include "front/e2b/handlers.h"
#include "front/e2b/watch.h"
#include "front/front_impl.h"
#include "front/limits.h"

enum { CHANGE_BYTES_MAX = 1 << 20, DEADLINE = 1 };

int watch_read(const struct jin *doc, struct proto_request *ret, bool *ret_entry, struct err *e)
{
	bool recursive = false, network = false;
	int r = jin_str(doc, "path", &ret->path, e);

	if (r >= 0)
		r = jin_bool(doc, "recursive", &recursive, e);
	if (r >= 0)
		r = jin_bool(doc, "includeEntry", ret_entry, e);
	if (r >= 0)
		r = jin_bool(doc, "allowNetworkMounts", &network, e); /* there are none inside */
	ret->type = PROTO_WATCH;
	ret->flags = FILE_HOME | FILE_FULL;
	if (recursive)
		ret->flags |= FILE_RECURSIVE;
	return r < 0 ? r : 0;
}

static const struct {
	const char *name;
	bool has_entry;
} changes[] = {
	[CHANGE_CREATED] = { "EVENT_TYPE_CREATE", true },
	[CHANGE_WRITTEN] = { "EVENT_TYPE_WRITE", true },
	[CHANGE_REMOVED] = { "EVENT_TYPE_REMOVE", false },
	[CHANGE_MOVED_AWAY] = { "EVENT_TYPE_RENAME", false },
	[CHANGE_ATTRIBUTES] = { "EVENT_TYPE_CHMOD", true },
};

bool watch_json(struct buf *b, const char *key, const char *root, const struct proto_event *ev,
	bool with_entry)
{
	own_buf struct buf path = { 0 };

	buf_init(&path, 2 * WARD_PATH_MAX);
	if ((size_t)ev->change >= ARRAY_LEN(changes) || !changes[ev->change].name || !ev->name ||
		!*ev->name)
		return false;
	json_open(b, key);
	json_str(b, "name", ev->name);
	json_str(b, "type", changes[ev->change].name);
	if (with_entry && ev->has_file && changes[ev->change].has_entry) {
		buf_add_fmt(&path, "%s/%s", str_eq(root, "/") ? "" : root, ev->name);
		if (!path.bad)
			entry_json(b, "entry", path.data, &ev->file);
	}
	json_close(b);
	return true;
}

struct stream {
	struct jin *doc;
	struct proto_request q;
	bool with_entry;
	char *root;
};

static void stream_ended(struct call *c)
{
	struct stream *s = c->state;

	jin_destroy(s->doc);
	free(s->root);
}

static void on_opened(void *arg, struct link_call *l, const struct link_opened *o)
{
	struct call *c = arg;
	struct stream *s = c->state;
	own_buf struct buf b = { 0 };

	jin_destroy(s->doc); /* all of it is said, and a stream may last for days */
	s->doc = NULL;
	wire_release(c->q);
	buf_init(&b, 64);
	buf_add_str(&b, "{\"start\":{}}");
	call_message(c, &b);
	call_keepalive(c, "{\"keepalive\":{}}");
}

static void on_event(void *arg, struct link_call *l, const struct proto_event *ev)
{
	struct call *c = arg;
	struct stream *s = c->state;
	own_buf struct buf b = { 0 };
	int r = 0;

	buf_init(&b, CHANGE_BYTES_MAX);
	json_open(&b, NULL);
	if (watch_json(&b, "filesystem", s->root, ev, s->with_entry)) {
		json_close(&b);
		r = call_message(c, &b);
	}
	call_credit(c, l, ev->cost, r);
}

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	call_link_over(arg, l);
	call_stream_end(arg);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	call_link_over(arg, l);
	call_fail_link(arg, f);
}

static void on_deadline(void *ctx)
{
	struct call *c = ctx;

	link_drop(c->links[0]);
	c->links[0] = NULL;
	call_fail_rpc(c, RPC_DEADLINE_EXCEEDED, "the time of %llu ms is over",
		(unsigned long long)c->timeout_ms);
}

/* What it is comes first: a file cannot be watched, and entries need the absolute path. */
static void on_root(void *arg, struct link_call *l, const struct link_done *d)
{
	static const struct link_handler handler = {
		.opened = on_opened, .event = on_event, .done = on_done, .failed = on_failed
	};
	struct call *c = arg;
	struct stream *s = c->state;
	struct link *link = link_of(l);

	call_link_over(c, l);
	if (!d->has_file || !d->file.path || d->file.kind != FILE_DIRECTORY) {
		call_fail_rpc(c, RPC_INVALID_ARGUMENT, "the path is not a directory");
		return;
	}
	s->root = strdup(d->file.path);
	if (!s->root)
		call_fail_memory(c);
	else if (call_request(c, 0, link, &s->q, &handler) && c->timeout_ms)
		loop_timer_set(c->front->loop, &c->timers[DEADLINE], c->timeout_ms, on_deadline, c);
}

static void go_watch(struct call *c, struct link *l)
{
	static const struct link_handler handler = { .done = on_root, .failed = on_failed };
	struct stream *s = c->state;
	struct proto_request q = { .type = PROTO_STAT,
		.flags = FILE_HOME | FILE_FULL,
		.path = s->q.path,
		.user = call_owner(c) };

	call_request(c, 0, l, &q, &handler);
}

void fs_watch(struct call *c)
{
	struct stream *s = call_alloc(c, sizeof(*s));
	struct err e = { 0 };

	if (!s)
		return;
	c->state = s;
	c->on_ended = stream_ended;
	s->q.path = "";
	s->q.user = call_owner(c);
	if (call_parse(c, &s->doc) &&
		!call_failed(c, watch_read(s->doc, &s->q, &s->with_entry, &e), &e))
		call_with_link(c, go_watch);
}
