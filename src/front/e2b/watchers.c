/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/watchers.c - filesystem.Filesystem: watchers for clients that poll.
 *
 * Owns:  the list of watchers, of all sandboxes; each has a call on its sandbox's link and a
 * bounded queue of changes. Rules: a watcher goes when it is removed, or its sandbox or the link to
 * it does. When the queue is full the oldest changes go: a client that polls rarely learns the
 * newest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/handlers.h"
#include "front/e2b/watch.h"
#include "front/e2b/watchers.h"
#include "front/front_impl.h"
#include "front/limits.h"

enum { CHANGE_BYTES_MAX = 64 * 1024 };

struct watcher {
	struct watcher *next;
	struct front *front;
	char id[ID_LEN + 1], box[ID_LEN + 1];
	struct link_call *link;
	struct call *waiting; /* CreateWatcher, until it is armed */
	bool with_entry;
	char *root;
	char *events[FRONT_WATCH_QUEUE_MAX]; /* JSON, a ring */
	unsigned first, count;
	size_t bytes;
};

/* A CreateWatcher on its way; @w is the request's until the watch is armed. */
struct order {
	struct jin *doc;
	struct proto_request q;
	struct watcher *w;
};

static void drop_oldest(struct watcher *w)
{
	size_t len = strlen(w->events[w->first]);

	w->bytes -= len;
	w->front->watched -= len;
	free(w->events[w->first]);
	w->first = (w->first + 1) % FRONT_WATCH_QUEUE_MAX;
	w->count--;
}

static void watcher_destroy(struct watcher *w)
{
	for (struct watcher **at = &w->front->watchers; *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			break;
		}
	link_drop(w->link);
	while (w->count)
		drop_oldest(w);
	free(w->root);
	free(w);
}

void watchers_done(struct front *f)
{
	while (f->watchers)
		watcher_destroy(f->watchers);
}

static struct watcher *find(const struct call *c, const char *id)
{
	struct watcher *w = c->front->watchers;

	while (w && (w->waiting || !str_eq(w->id, id) || !str_eq(w->box, c->id)))
		w = w->next;
	return w;
}

static unsigned count_of(const struct call *c)
{
	unsigned n = 0;

	for (const struct watcher *w = c->front->watchers; w; w = w->next)
		n += str_eq(w->box, c->id);
	return n;
}

/* --- From the sandbox ------------------------------------------------------------------------- */

static void on_event(void *arg, struct link_call *l, const struct proto_event *ev)
{
	struct watcher *w = arg;
	struct buf b;

	link_credit(l, ev->cost);
	buf_init(&b, CHANGE_BYTES_MAX);
	if (!watch_json(&b, NULL, w->root, ev, w->with_entry) || b.bad) {
		buf_done(&b);
		return;
	}
	w->bytes += b.len;
	w->front->watched += b.len;
	while (w->count && (w->count == FRONT_WATCH_QUEUE_MAX || w->bytes > FRONT_WATCH_BYTES_MAX ||
				   w->front->watched > FRONT_WATCHED_MAX))
		drop_oldest(w);
	w->events[(w->first + w->count++) % FRONT_WATCH_QUEUE_MAX] = b.data; /* ours now */
}

static void on_opened(void *arg, struct link_call *l, const struct link_opened *o)
{
	struct watcher *w = arg;
	struct call *c = w->waiting;
	own_buf struct buf b = { 0 };

	if (!c)
		return;
	w->waiting = NULL;
	((struct order *)c->state)->w = NULL; /* it is no longer the request's */
	buf_init(&b, 256);
	json_open(&b, NULL);
	json_str(&b, "watcherId", w->id);
	json_close(&b);
	call_json(c, 200, &b);
}

static void on_gone(struct watcher *w)
{
	w->link = NULL;
	watcher_destroy(w);
}

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	on_gone(arg);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct watcher *w = arg;
	struct call *c = w->waiting;

	if (c) {
		((struct order *)c->state)->w = NULL;
		call_fail_link(c, f);
	}
	on_gone(w);
}

/* --- CreateWatcher ---------------------------------------------------------------------------- */

/* The client left before the watch was armed. */
static void create_ended(struct call *c)
{
	struct order *o = c->state;

	jin_destroy(o->doc);
	if (o->w)
		watcher_destroy(o->w);
}

static void stat_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	call_link_over(arg, l);
	call_fail_link(arg, f);
}

static void on_root(void *arg, struct link_call *l, const struct link_done *d)
{
	static const struct link_handler handler = {
		.opened = on_opened, .event = on_event, .done = on_done, .failed = on_failed
	};
	struct call *c = arg;
	struct order *o = c->state;
	struct watcher *w = o->w;
	struct link *link = link_of(l);
	struct err e = { 0 };

	call_link_over(c, l);
	if (!d->has_file || !d->file.path || d->file.kind != FILE_DIRECTORY) {
		call_fail_rpc(c, RPC_INVALID_ARGUMENT, "the path is not a directory");
		return;
	}
	w->root = strdup(d->file.path);
	if (!w->root)
		call_fail_memory(c);
	else
		call_failed(c, link_request(link, &o->q, &handler, w, &w->link, &e), &e);
}

static void go_create(struct call *c, struct link *l)
{
	static const struct link_handler handler = { .done = on_root, .failed = stat_failed };
	struct order *o = c->state;
	struct proto_request q = { .type = PROTO_STAT,
		.flags = FILE_HOME | FILE_FULL,
		.path = o->q.path,
		.user = call_owner(c) };

	call_request(c, 0, l, &q, &handler);
}

static struct watcher *watcher_make(struct call *c)
{
	struct watcher *w = calloc(1, sizeof(*w));

	if (!w || id_make(w->id) < 0) {
		free(w);
		call_fail_memory(c);
		return NULL;
	}
	w->front = c->front;
	w->waiting = c;
	memcpy(w->box, c->id, sizeof(w->box));
	w->next = c->front->watchers;
	c->front->watchers = w;
	return w;
}

void watcher_create(struct call *c)
{
	struct order *o = call_alloc(c, sizeof(*o));
	struct err e = { 0 };

	if (!o)
		return;
	c->state = o;
	c->on_ended = create_ended;
	o->q.path = "";
	o->q.user = call_owner(c);
	if (count_of(c) >= FRONT_WATCHERS_MAX) {
		call_fail_rpc(c, RPC_RESOURCE_EXHAUSTED, "the sandbox has %d watchers already",
			FRONT_WATCHERS_MAX);
		return;
	}
	o->w = watcher_make(c);
	if (o->w && call_parse(c, &o->doc) &&
		!call_failed(c, watch_read(o->doc, &o->q, &o->w->with_entry, &e), &e))
		call_with_link(c, go_create);
}

/* --- The other two ---------------------------------------------------------------------------- */

static struct watcher *asked_for(struct call *c)
{
	own_jin struct jin *doc = NULL;
	const char *id = NULL;
	struct err e = { 0 };
	struct watcher *w;

	if (!call_parse(c, &doc) || call_failed(c, jin_need_str(doc, "watcherId", &id, &e), &e))
		return NULL;
	w = find(c, id);
	if (!w)
		call_fail_rpc(c, RPC_NOT_FOUND, "there is no such watcher");
	return w;
}

void watcher_events(struct call *c)
{
	struct watcher *w = asked_for(c);
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX);
	if (!w)
		return;
	buf_add_str(&b, "{\"events\":[");
	for (unsigned i = 0; i < w->count; i++) {
		char *event = w->events[(w->first + i) % FRONT_WATCH_QUEUE_MAX];

		if (i)
			buf_add(&b, ",", 1);
		buf_add_str(&b, event);
		free(event);
	}
	w->first = w->count = 0;
	w->front->watched -= w->bytes;
	w->bytes = 0;
	buf_add_str(&b, "]}");
	call_json(c, 200, &b);
}

void watcher_remove(struct call *c)
{
	struct watcher *w = asked_for(c);
	own_buf struct buf b = { 0 };

	buf_init(&b, 16);
	if (!w)
		return;
	watcher_destroy(w);
	buf_add_str(&b, "{}");
	call_json(c, 200, &b);
}
