/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/found.c - what a former daemon left: every sandbox is found, or cleanly gone.
 *
 * Owns:  the order of a restart:
 *          1. every row that is not ended becomes a sandbox, and its supervisor is called;
 *          2. one that answers says how it is, and that is what holds;
 *          3. one that is not there has left an end record, or is recorded as lost;
 *          4. a supervisor without a row is a half-made sandbox, and is told to stop;
 *          5. end records of sandboxes that nobody waits for are imported;
 *          6. what dead supervisors left in the host is swept.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "hub/hub_impl.h"

enum { STRAY_LOOKS = 40, STRAY_SOON_MS = 1500, STRAY_MS = 60 * 1000 };

static int load_row(void *arg, const struct db_box *row)
{
	struct hub *hub = arg;
	struct sandbox *sb = NULL;

	if (!id_is_valid(row->id) || sandbox_from_row(hub, row, &sb) < 0) {
		hub_log(hub, HUB_ERROR, "found.row", NULL, "", "msg=\"a row cannot be read\"");
		return 0;
	}
	sb->found = true;
	sb->other_boot = !str_eq(row->boot_id, hub->boot_id);
	if (sb->started_us > hub->last_start_us)
		hub->last_start_us = sb->started_us;
	hub->finding++;
	registry_add(sb);
	tenant_charge(sb);
	sandbox_release(sb);
	return 0;
}

static void call_all(struct hub *hub)
{
	struct sandbox *next;

	for (struct sandbox *sb = hub->first; sb; sb = next) {
		next = sb->next;
		hub_point(hub, "find");
		if (sb->other_boot)
			live_lost(sb, "the host was restarted");
		else if (live_call(sb) < 0)
			live_lost(sb, "its supervisor was gone when the daemon started");
	}
}

/* --- a supervisor without a row --- */

struct orphan {
	struct hub *hub;
	struct orphan *next;
	char id[ID_LEN + 1];
	struct link *link;
	struct loop_fd watch;
	struct loop_timer patience;
};

static void orphan_free(struct orphan *o)
{
	struct orphan **at = &o->hub->orphans;

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	loop_fd_remove(&o->watch);
	loop_timer_cancel(&o->patience);
	link_destroy(o->link);
	free(o);
}

static void each_record(void *arg, const char *id);

static void orphan_closed(void *arg, const struct err *why)
{
	struct orphan *o = arg;

	hub_log(o->hub, HUB_INFO, "found.stray", NULL, o->id, "msg=\"stopped: %s\"", why->msg);
	each_record(o->hub, o->id);
	hub_sweep(o->hub);
	orphan_free(o);
}

static void orphan_state(void *arg, const struct link_status *s)
{
}

static void orphan_ended(void *arg, const struct link_end *end)
{
}

static void orphan_want(void *arg, short events)
{
	struct orphan *o = arg;

	loop_fd_mod(
		&o->watch, (events & POLLIN ? EPOLLIN : 0u) | (events & POLLOUT ? EPOLLOUT : 0u));
}

static void orphan_work(void *ctx, uint32_t events)
{
	struct orphan *o = ctx;

	link_work(o->link, (short)((events & EPOLLOUT ? POLLOUT : 0) |
				   (events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? POLLIN : 0)));
}

static void orphan_late(void *ctx)
{
	struct orphan *o = ctx;

	hub_log(o->hub, HUB_ERROR, "found.stray", NULL, o->id, "msg=\"it does not stop\"");
	orphan_free(o);
}

static void stop_stray(struct hub *hub, const char *id)
{
	static const struct link_handler handler = { 0 };
	struct orphan *o = calloc(1, sizeof(*o));
	struct link_hooks hooks = { orphan_state, orphan_ended, orphan_closed, orphan_want, o };
	struct err e = { 0 };
	int r;

	if (!o)
		return;
	o->hub = hub;
	str_copy(o->id, sizeof(o->id), id);
	r = link_connect(hub->state_dir, id, &hooks, &o->link, &e);
	if (r < 0) {
		free(o);
		if (r == -ECONNREFUSED) /* any other: it is looked for again */
			sup_remove_socket(hub->state_dir, id, NULL);
		return;
	}
	o->next = hub->orphans;
	hub->orphans = o;
	if (loop_fd_add(hub->loop, &o->watch, link_fd(o->link), EPOLLIN, orphan_work, o, &e) < 0 ||
		link_stop(o->link, "nobody knows this sandbox", 0, &handler, o, NULL, &e) < 0) {
		hub_log(hub, HUB_ERROR, "found.stray", NULL, id, "msg=\"%s\"", e.msg);
		orphan_free(o);
		return;
	}
	orphan_want(o, link_events(o->link));
	loop_timer_set(hub->loop, &o->patience, HUB_ANSWER_MS, orphan_late, o);
}

static void each_socket(void *arg, const char *id)
{
	struct hub *hub = arg;
	struct sandbox *sb = registry_find(hub, id);

	for (const struct orphan *o = hub->orphans; o; o = o->next)
		if (str_eq(o->id, id))
			return;
	/* One that was given up because nobody answered may have come up since. */
	if (!sb || !lifecycle_is_live(sb->state))
		stop_stray(hub, id);
}

/*
 * A daemon that dies right after it started a supervisor leaves one that has no socket yet: the
 * next daemon finds nobody, and the supervisor comes up after. So strays are looked for again,
 * often in the first minute.
 */
static void look_again(void *ctx)
{
	struct hub *hub = ctx;
	struct err e = { 0 };

	if (sup_each_socket(hub->state_dir, each_socket, hub, &e) < 0 && e.code != ENOENT)
		hub_log(hub, HUB_WARN, "found.stray", NULL, "", "msg=\"%s\"", e.msg);
	loop_timer_set(hub->loop, &hub->stray_timer,
		hub->stray_looks++ < STRAY_LOOKS ? STRAY_SOON_MS : STRAY_MS, look_again, hub);
}

void found_done(struct hub *hub)
{
	loop_timer_cancel(&hub->stray_timer);
	while (hub->orphans)
		orphan_free(hub->orphans);
}

static int nothing(void *arg, const struct db_box *box)
{
	return 0;
}

static void each_record(void *arg, const char *id)
{
	struct hub *hub = arg;
	char path[WARD_PATH_MAX];

	if (registry_find(hub, id))
		return; /* its sandbox reads it */
	if (db_box_get(hub->db, id, nothing, NULL, NULL) == 0) {
		ended_import(hub, id);
		return;
	}
	if (sup_record_path(hub->state_dir, id, path) == 0)
		unlink(path);
}

/* --- those that answer --- */

static void become_ready(struct hub *hub)
{
	hub->ready = true;
	loop_timer_cancel(&hub->found_timer);
	event_put(hub, "daemon.ready", NULL, "");
	hub_log(hub, HUB_INFO, "daemon.ready", NULL, "", "found=%llu lost=%llu",
		(unsigned long long)hub->n.found, (unsigned long long)hub->n.lost);
	pool_load(hub);
}

void found_one_less(struct hub *hub)
{
	if (hub->finding && --hub->finding == 0 && !hub->ready && hub->found_all)
		become_ready(hub);
}

static void give_up(void *ctx)
{
	struct hub *hub = ctx;
	struct sandbox *next;

	for (struct sandbox *sb = hub->first; sb; sb = next) {
		next = sb->next;
		if (sb->found)
			live_give_up(sb);
	}
}

static void stop(struct sandbox *sb, const char *why)
{
	if (sb->state != HUB_STOPPING)
		sandbox_move(sb, HUB_STOPPING, NULL, "%s", why);
	live_stop(sb, why);
}

static void back_to_pool(struct sandbox *sb, const struct link_status *s)
{
	struct pool *p = pool_find(sb->hub, sb->template_used);

	if (!p || !p->listed || s->state != SUP_RUNNING) {
		stop(sb, "its pool is gone");
		return;
	}
	sb->pool = p;
	sb->pool_ready = true;
	p->ready++;
}

void found_answered(struct sandbox *sb, const struct link_status *s)
{
	sb->found = false;
	sb->hub->n.found++;
	hub_point(sb->hub, "found");
	switch (sb->state) {
	case HUB_CREATING:
		/* Whoever asked for it was told that it failed: the connection broke. */
		stop(sb, "the daemon was restarted before it was up");
		break;
	case HUB_STOPPING:
		stop(sb, "killed before the daemon was restarted");
		break;
	case HUB_READY:
		back_to_pool(sb, s);
		break;
	case HUB_RUNNING:
		if (sb->from_pool && sb->timeout_ms && s->state == SUP_RUNNING && !s->deadline_ms)
			stop(sb, "the daemon was restarted while it was being claimed");
		else
			live_follow(sb, s);
		break;
	case HUB_PAUSING:
		if (s->state == SUP_RUNNING)
			sandbox_move(sb, HUB_RUNNING, NULL,
				"the daemon was restarted before it was paused");
		live_follow(sb, s);
		break;
	case HUB_RESUMING:
		if (s->state == SUP_PAUSED)
			sandbox_move(sb, HUB_PAUSED, NULL,
				"the daemon was restarted before it was resumed");
		live_follow(sb, s);
		break;
	default:
		live_follow(sb, s);
	}
	found_one_less(sb->hub);
}

int found_begin(struct hub *hub, struct err *e)
{
	struct db_range live = { .states = lifecycle_live_states() };
	int r = db_box_each(hub->db, &live, load_row, hub, e);

	if (r < 0)
		return r;
	pool_load(hub);
	/* A former daemon's supervisor that does not listen yet is not wanted any more. */
	sup_remove_halves(hub->state_dir, NULL);
	snaps_found(hub);
	call_all(hub);
	r = sup_each_socket(hub->state_dir, each_socket, hub, e);
	if (r == 0 || r == -ENOENT)
		r = sup_each_record(hub->state_dir, each_record, hub, e);
	if (r < 0 && r != -ENOENT)
		return r;
	hub_sweep(hub);
	loop_timer_set(hub->loop, &hub->found_timer, HUB_FOUND_MS, give_up, hub);
	loop_timer_set(hub->loop, &hub->stray_timer, STRAY_SOON_MS, look_again, hub);
	hub->found_all = true;
	if (!hub->finding)
		become_ready(hub);
	return 0;
}
