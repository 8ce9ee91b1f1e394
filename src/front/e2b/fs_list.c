/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/fs_list.c - filesystem.Filesystem: ListDir.
 *
 * Owns:  one listing while it is collected.
 * Rules: the agent tells entries in the directory's own order; clients get them sorted, a directory
 *        before what is in it. A listing is bounded in entries and in bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/entry.h"
#include "front/e2b/handlers.h"
#include "front/limits.h"

struct item {
	char *name; /* relative to what is listed */
	char *json;
};

/* What the allocator takes for an item beside its texts. */
enum { ITEM_BYTES = 64 };

struct listing {
	struct jin *doc;
	const char *path;
	uint32_t depth;
	char *root; /* absolute; from Stat */
	struct item *items;
	size_t count, cap, bytes;
	bool too_many, busy;
};

static void item_done(struct item *it)
{
	free(it->name);
	free(it->json);
	*it = (struct item){ 0 };
}

static void listing_ended(struct call *c)
{
	struct listing *s = c->state;

	for (size_t i = 0; i < s->count; i++)
		item_done(&s->items[i]);
	free(s->items);
	free(s->root);
	jin_destroy(s->doc);
}

/* By parts: a directory, then all in it, then its next neighbour. '/' sorts before everything. */
static int compare(const void *a, const void *b)
{
	const unsigned char *x = (const unsigned char *)((const struct item *)a)->name;
	const unsigned char *y = (const unsigned char *)((const struct item *)b)->name;

	while (*x && *x == *y) {
		x++;
		y++;
	}
	return (*x == '/' ? 1 : *x ? *x + 1 : 0) - (*y == '/' ? 1 : *y ? *y + 1 : 0);
}

static void send_listing(struct call *c)
{
	struct listing *s = c->state;
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX * 2);
	if (s->count)
		qsort(s->items, s->count, sizeof(*s->items), compare);
	buf_add_str(&b, "{\"entries\":[");
	for (size_t i = 0; i < s->count; i++) {
		if (i)
			buf_add(&b, ",", 1);
		buf_add_str(&b, s->items[i].json);
		item_done(&s->items[i]);
	}
	buf_add_str(&b, "]}");
	wire_release(c->q); /* now the answer counts */
	call_json(c, 200, &b);
}

static bool grow(struct listing *s)
{
	size_t cap = s->cap ? s->cap * 2 : 64;
	struct item *items;

	if (s->count < s->cap)
		return true;
	items = realloc(s->items, cap * sizeof(*items));
	if (!items)
		return false;
	s->items = items;
	s->cap = cap;
	return true;
}

static bool keep(struct listing *s, const struct proto_file *f)
{
	struct buf path, json;
	bool ok;

	buf_init(&path, 2 * WARD_PATH_MAX);
	buf_init(&json, 1 << 20);
	buf_add_fmt(&path, "%s/%s", str_eq(s->root, "/") ? "" : s->root, f->name);
	if (!path.bad)
		entry_json(&json, NULL, path.data, f);
	ok = !path.bad && !json.bad && s->count < FRONT_ENTRIES_MAX &&
	     s->bytes + json.len <= FRONT_LISTING_MAX && grow(s);
	if (ok) {
		struct item *it = &s->items[s->count];

		it->name = strdup(f->name);
		it->json = strdup(json.data);
		ok = it->name && it->json;
		s->bytes += json.len;
		s->count++;
	}
	buf_done(&path);
	buf_done(&json);
	return ok;
}

static void on_entry(void *arg, struct link_call *l, const struct proto_event *ev)
{
	struct call *c = arg;
	struct listing *s = c->state;

	link_credit(l, ev->cost);
	if (s->too_many || s->busy)
		return;
	if (!ev->has_file || !ev->file.name || !keep(s, &ev->file))
		s->too_many = true;
	else
		s->busy =
			!wire_hold(c->q, strlen(s->items[s->count - 1].name) +
						 strlen(s->items[s->count - 1].json) + ITEM_BYTES);
}

static void on_listed(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;
	struct listing *s = c->state;

	call_link_over(c, l);
	if (s->busy)
		call_fail_busy(c);
	else if (s->too_many)
		call_fail_rpc(c, RPC_RESOURCE_EXHAUSTED,
			"the directory has more than %d entries: list less of it",
			FRONT_ENTRIES_MAX);
	else
		send_listing(c);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	call_link_over(arg, l);
	call_fail_link(arg, f);
}

/* What it is comes first: the absolute path for the entries, and whether it is a directory. */
static void on_root(void *arg, struct link_call *l, const struct link_done *d)
{
	static const struct link_handler handler = {
		.entry = on_entry, .done = on_listed, .failed = on_failed
	};
	struct call *c = arg;
	struct listing *s = c->state;
	struct proto_request q = { .type = PROTO_LIST,
		.flags = FILE_HOME | FILE_FULL,
		.path = s->path,
		.user = call_owner(c),
		.depth = s->depth,
		.window = FRONT_OUT_HIGH };
	struct link *link = link_of(l);

	call_link_over(c, l);
	if (!d->has_file || !d->file.path) {
		call_fail_rpc(c, RPC_INTERNAL, "the sandbox did not say what it is");
		return;
	}
	if (d->file.kind != FILE_DIRECTORY) {
		call_fail_rpc(c, RPC_INVALID_ARGUMENT, "the path is not a directory");
		return;
	}
	s->root = strdup(d->file.path);
	if (s->root)
		call_request(c, 0, link, &q, &handler);
	else
		call_fail_memory(c);
}

static void go_list(struct call *c, struct link *l)
{
	static const struct link_handler handler = { .done = on_root, .failed = on_failed };
	struct listing *s = c->state;
	struct proto_request q = { .type = PROTO_STAT,
		.flags = FILE_HOME | FILE_FULL,
		.path = s->path,
		.user = call_owner(c) };

	call_request(c, 0, l, &q, &handler);
}

void fs_list(struct call *c)
{
	struct listing *s = call_alloc(c, sizeof(*s));
	int64_t depth = 1;
	struct err e = { 0 };
	int r;

	if (!s)
		return;
	c->state = s;
	c->on_ended = listing_ended;
	s->path = "";
	if (!call_parse(c, &s->doc))
		return;
	r = jin_str(s->doc, "path", &s->path, &e);
	if (r >= 0)
		r = jin_i64(s->doc, "depth", 0, UINT32_MAX, &depth, &e);
	if (call_failed(c, r, &e))
		return;
	s->depth = depth < 1                      ? 1
		   : depth > AGENT_WALK_DEPTH_MAX ? AGENT_WALK_DEPTH_MAX
						  : (uint32_t)depth;
	call_with_link(c, go_list);
}
