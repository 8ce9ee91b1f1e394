/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/fs.c - filesystem.Filesystem: Stat, MakeDir, Move, Remove.
 *
 * Owns:  the translation of these calls to the agent's.
 * Rules: paths go to the agent as they came; it resolves them inside the sandbox, for the user that
 *        the client named.
 */
#include <errno.h>

#include "base/buf.h"
#include "base/json.h"
#include "front/call.h"
#include "front/e2b/entry.h"
#include "front/e2b/handlers.h"
#include "front/limits.h"

enum { ENTRY_BYTES_MAX = 1 << 20 };

/* The strings of a request until its link is there. */
struct order {
	struct jin *doc;
	struct proto_request q;
};

static void order_ended(struct call *c)
{
	struct order *o = c->state;

	jin_destroy(o->doc);
}

static struct order *order_begin(struct call *c, enum proto_type type, unsigned flags)
{
	struct order *o = call_alloc(c, sizeof(*o));

	if (!o)
		return NULL;
	c->state = o;
	c->on_ended = order_ended;
	o->q = (struct proto_request){ .type = type,
		.flags = (uint16_t)(flags | FILE_HOME),
		.path = "",
		.user = call_owner(c) };
	return call_parse(c, &o->doc) ? o : NULL;
}

static struct order *order_path(struct call *c, enum proto_type type, unsigned flags)
{
	struct order *o = order_begin(c, type, flags);
	struct err e = { 0 };

	/* An empty path is left out of JSON, and means the home. */
	if (!o || call_failed(c, jin_str(o->doc, "path", &o->q.path, &e), &e))
		return NULL;
	return o;
}

static void send_entry(struct call *c, const struct link_done *d)
{
	own_buf struct buf b = { 0 };

	if (!d->has_file || !d->file.path) {
		call_fail_rpc(c, RPC_INTERNAL, "the sandbox did not say what it is");
		return;
	}
	buf_init(&b, ENTRY_BYTES_MAX);
	json_open(&b, NULL);
	entry_json(&b, "entry", d->file.path, &d->file);
	json_close(&b);
	call_json(c, 200, &b);
}

static void on_entry(void *arg, struct link_call *l, const struct link_done *d)
{
	call_link_over(arg, l);
	send_entry(arg, d);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	call_link_over(arg, l);
	call_fail_link(arg, f);
}

static const struct link_handler entry_handler = { .done = on_entry, .failed = on_failed };

static void go_entry(struct call *c, struct link *l)
{
	struct order *o = c->state;

	call_request(c, 0, l, &o->q, &entry_handler);
}

void fs_stat(struct call *c)
{
	if (order_path(c, PROTO_STAT, FILE_FULL))
		call_with_link(c, go_entry);
}

void fs_move(struct call *c)
{
	struct order *o = order_begin(c, PROTO_RENAME, FILE_FULL | FILE_PARENTS);
	struct err e = { 0 };
	int r;

	if (!o)
		return;
	r = jin_need_str(o->doc, "source", &o->q.path, &e);
	if (r >= 0)
		r = jin_need_str(o->doc, "destination", &o->q.to, &e);
	if (!call_failed(c, r, &e))
		call_with_link(c, go_entry);
}

/* --- MakeDir ---------------------------------------------------------------------------------- */

/* It was there already: as a directory that is one answer, as anything else another. */
static void on_what_is_there(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;

	call_link_over(c, l);
	if (d->has_file && d->file.kind == FILE_DIRECTORY)
		call_fail_rpc(c, RPC_ALREADY_EXISTS, "the directory exists already");
	else
		call_fail_rpc(c, RPC_INVALID_ARGUMENT, "the path exists and is not a directory");
}

static void on_make_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	static const struct link_handler look = { .done = on_what_is_there, .failed = on_failed };
	struct call *c = arg;
	struct order *o = c->state;
	struct link *link = link_of(l);

	call_link_over(c, l);
	if (f->code != EEXIST) {
		call_fail_link(c, f);
		return;
	}
	o->q.type = PROTO_STAT;
	o->q.flags = FILE_HOME | FILE_FULL;
	o->q.has_mode = false;
	call_request(c, 0, link, &o->q, &look);
}

static void go_make(struct call *c, struct link *l)
{
	static const struct link_handler make = { .done = on_entry, .failed = on_make_failed };
	struct order *o = c->state;

	call_request(c, 0, l, &o->q, &make);
}

void fs_make_dir(struct call *c)
{
	if (order_path(c, PROTO_MKDIR, FILE_PARENTS | FILE_NEW | FILE_FULL))
		call_with_link(c, go_make);
}

/* --- Remove ----------------------------------------------------------------------------------- */

static void send_nothing(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, 16);
	buf_add_str(&b, "{}");
	call_json(c, 200, &b);
}

static void on_removed(void *arg, struct link_call *l, const struct link_done *d)
{
	call_link_over(arg, l);
	send_nothing(arg);
}

static void on_not_removed(void *arg, struct link_call *l, const struct link_failed *f)
{
	call_link_over(arg, l);
	if (f->code == ENOENT)
		send_nothing(arg); /* it is gone, which is what was asked for */
	else
		call_fail_link(arg, f);
}

static void go_remove(struct call *c, struct link *l)
{
	static const struct link_handler remove = { .done = on_removed, .failed = on_not_removed };
	struct order *o = c->state;

	call_request(c, 0, l, &o->q, &remove);
}

void fs_remove(struct call *c)
{
	if (order_path(c, PROTO_REMOVE, FILE_RECURSIVE))
		call_with_link(c, go_remove);
}
