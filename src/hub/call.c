/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/call.c - verbs under way.
 *
 * Owns:  every struct hub_call, from the verb to its callback.
 * Rules: a call is in exactly one list: that of the sandbox it waits for, or hub->done. Callbacks
 *        are called from here only, and only from the loop: never inside a verb.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "hub/hub_impl.h"

void call_list_add(struct call_list *l, struct hub_call *c)
{
	c->list = l;
	c->next = NULL;
	c->prev = l->last;
	if (l->last)
		l->last->next = c;
	else
		l->first = c;
	l->last = c;
}

void call_list_remove(struct hub_call *c)
{
	struct call_list *l = c->list;

	if (!l)
		return;
	if (c->prev)
		c->prev->next = c->next;
	else
		l->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	else
		l->last = c->prev;
	c->list = NULL;
	c->prev = c->next = NULL;
}

/* A verb cannot say that there is no memory for its answer; nothing else could be said either. */
struct hub_call *call_new(struct hub *hub, enum call_kind kind, struct sandbox *sb, void *arg)
{
	struct hub_call *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	c->hub = hub;
	c->kind = kind;
	c->arg = arg;
	c->sb = sb;
	c->begun_ns = (int64_t)clock_ns();
	if (sb)
		sandbox_hold(sb);
	hub->calls++;
	return c;
}

void call_wait(struct hub_call *c, enum call_wait wait)
{
	c->wait = wait;
	call_list_remove(c);
	call_list_add(&c->sb->waiting, c);
}

static void free_call(struct hub_call *c)
{
	call_list_remove(c);
	link_drop(c->asked);
	if (c->job)
		loop_job_forget(c->job);
	snap_job_free(c->snap);
	c->hub->calls--;
	if (c->sb)
		sandbox_release(c->sb);
	free(c);
}

/* Between the answer and now it may have ended. */
static bool has_link(struct hub_call *c)
{
	if (c->sb->state == HUB_RUNNING && c->sb->link)
		return true;
	hub_fail(&c->fail, HUB_NOT_RUNNING, "sandbox '%s' is not running", c->sb->id);
	return false;
}

void call_begin(struct hub_call *c)
{
	void (*begin)(void *arg, const struct hub_box *box, struct link *link) = c->begin;
	struct hub_box box;

	if (!begin)
		return;
	c->begin = NULL;
	sandbox_view(c->sb, &box);
	begin(c->arg, &box, c->sb->link);
}

static void tell_link(struct hub_call *c)
{
	if (!c->failed && !has_link(c))
		c->failed = true;
	c->fn.link(c->arg, c->failed ? &c->fail : NULL, c->failed ? NULL : c->sb->link);
}

static void tell_metrics(struct hub_call *c)
{
	struct hub_sample list[HUB_SAMPLES_KEPT];
	const struct sandbox *sb = c->sb;
	struct hub_box box;
	unsigned n = 0;

	if (c->failed) {
		c->fn.metrics(c->arg, &c->fail, NULL, NULL, 0);
		return;
	}
	for (unsigned i = 0; i < sb->sample_count; i++) {
		const struct hub_sample *s =
			&sb->samples[(sb->sample_at + HUB_SAMPLES_KEPT - sb->sample_count + i) %
				     HUB_SAMPLES_KEPT];

		if ((c->from_us == 0 || s->at_us >= c->from_us) &&
			(c->to_us == 0 || s->at_us <= c->to_us))
			list[n++] = *s;
	}
	sandbox_view(sb, &box);
	c->fn.metrics(c->arg, NULL, &box, list, n);
}

/* A sandbox whose id nobody was told would only wait for its deadline. */
static void drop_unwanted(struct hub_call *c)
{
	static const char why[] = "whoever asked for it had gone";

	if (!c->is_create || c->failed || !c->sb || !lifecycle_allows(c->sb->state, HUB_STOPPING))
		return;
	sandbox_move(c->sb, HUB_STOPPING, NULL, "%s", why);
	live_stop(c->sb, why);
}

static void tell_one(struct hub_call *c)
{
	struct hub_box box;

	if (!c->fn.box) {
		drop_unwanted(c);
		return;
	}
	switch (c->kind) {
	case CALL_LINK:
		tell_link(c);
		return;
	case CALL_METRICS:
		tell_metrics(c);
		return;
	case CALL_AUDIT:
		c->fn.audit(c->arg, &c->fail, NULL, 0);
		return;
	case CALL_SNAP:
		snap_tell(c);
		return;
	case CALL_FORK:
		fork_tell(c);
		return;
	case CALL_BOX:
		if (c->failed) {
			c->fn.box(c->arg, &c->fail, NULL, false);
			return;
		}
		if (c->begin && !has_link(c)) {
			c->fn.box(c->arg, &c->fail, NULL, false);
			return;
		}
		call_begin(c);
		sandbox_view(c->sb, &box);
		c->fn.box(c->arg, NULL, &box, c->changed);
	}
}

static void tell_all(void *ctx)
{
	struct hub *hub = ctx;
	struct call_list now = hub->done;

	hub->done = (struct call_list){ 0 };
	for (struct hub_call *c = now.first; c; c = c->next)
		c->list = &now;
	while (now.first) {
		struct hub_call *c = now.first;

		call_list_remove(c);
		tell_one(c);
		free_call(c);
	}
}

void call_done(struct hub_call *c, const struct hub_fail *f, bool changed)
{
	call_list_remove(c);
	c->failed = f != NULL;
	if (f)
		c->fail = *f;
	c->changed = changed;
	call_list_add(&c->hub->done, c);
	loop_later_set(c->hub->loop, &c->hub->tell, tell_all, c->hub);
}

void hub_forget(struct hub_call *call)
{
	if (call)
		call->fn.box = NULL;
}

static void drop_list(struct call_list *l)
{
	while (l->first)
		free_call(l->first);
}

void calls_forget_all(struct hub *hub)
{
	struct sandbox *next;

	for (struct sandbox *sb = hub->first; sb; sb = next) {
		next = sb->next;
		sandbox_hold(sb);
		drop_list(&sb->waiting);
		sandbox_release(sb);
	}
	drop_list(&hub->done);
	drop_list(&hub->working);
}
