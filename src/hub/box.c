/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/box.c - one sandbox in memory.
 *
 * Owns:  struct sandbox: how it is made from a row, shown to fronts, moved from state to state, and
 *        freed; which waiting calls a state answers.
 * Rules: a state changes in sandbox_step() only, and is written down before it does.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "hub/hub_impl.h"

enum { LATE_MS = 5000 }; /* after its deadline: the supervisor should have acted by then */

int text_set(char **at, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	free(*at);
	*at = copy;
	return 0;
}

struct sandbox *sandbox_new(struct hub *hub, const char *id)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	sb->hub = hub;
	sb->holds = 1;
	str_copy(sb->id, sizeof(sb->id), id);
	return sb;
}

void sandbox_hold(struct sandbox *sb)
{
	sb->holds++;
}

static void free_texts(struct sandbox *sb)
{
	free(sb->template_asked);
	free(sb->template_used);
	free(sb->tier_why);
	free(sb->warning);
	free(sb->tier_by);
	free(sb->user);
	free(sb->workdir);
	pairs_done(&sb->metadata);
	pairs_done(&sb->env);
	network_done(&sb->network);
}

void sandbox_release(struct sandbox *sb)
{
	if (--sb->holds)
		return;
	live_detach(sb);
	tenant_release(sb);
	loop_timer_cancel(&sb->patience);
	loop_timer_cancel(&sb->late);
	loop_later_cancel(&sb->wake);
	free_texts(sb);
	free(sb->samples);
	explicit_bzero(sb->envd_token, sizeof(sb->envd_token));
	explicit_bzero(sb->traffic_token, sizeof(sb->traffic_token));
	free(sb);
}

static void read_limits(const struct db_box *row, struct plan_limits *l)
{
	l->memory_bytes = (uint64_t)row->memory_bytes;
	l->disk_bytes = (uint64_t)row->disk_bytes;
	l->cpu_milli = (uint32_t)row->cpu_milli;
	l->pids = (uint32_t)row->pids;
}

static int read_texts(struct sandbox *sb, const struct db_box *row)
{
	if (text_set(&sb->template_asked, row->template_asked) < 0 ||
		text_set(&sb->template_used, row->template_used) < 0 ||
		text_set(&sb->tier_why, row->tier_why) < 0 ||
		text_set(&sb->warning, row->warning) < 0 ||
		text_set(&sb->tier_by, row->tier_by) < 0 ||
		text_set(&sb->user, row->run_user) < 0 || text_set(&sb->workdir, row->workdir) < 0)
		return -ENOMEM;
	if (row->envd_token)
		str_copy(sb->envd_token, sizeof(sb->envd_token), row->envd_token);
	if (row->traffic_token)
		str_copy(sb->traffic_token, sizeof(sb->traffic_token), row->traffic_token);
	if (row->trace)
		str_copy(sb->trace, sizeof(sb->trace), row->trace);
	snprintf(sb->reason, sizeof(sb->reason), "%s", row->reason);
	return 0;
}

int sandbox_from_row(struct hub *hub, const struct db_box *row, struct sandbox **ret)
{
	struct sandbox *sb;
	int r;

	if (!lifecycle_is_state((int)row->state) || row->tier < 0 || row->tier >= WALL_COUNT ||
		strlen(row->id) > ID_LEN)
		return -EBADMSG;
	sb = sandbox_new(hub, row->id);
	if (!sb)
		return -ENOMEM;
	sb->state = (enum hub_state)row->state;
	sb->state_us = row->state_us;
	sb->tier = (enum wall)row->tier;
	sb->from_pool = row->from_pool;
	sb->created_us = row->created_us;
	sb->started_us = row->started_us;
	sb->deadline_us = row->deadline_us;
	sb->timeout_ms = row->timeout_ms;
	sb->on_timeout = row->on_timeout ? HUB_TIMEOUT_PAUSE : HUB_TIMEOUT_KILL;
	sb->auto_resume = row->auto_resume;
	read_limits(row, &sb->limits);
	r = read_texts(sb, row);
	if (r == 0)
		r = pairs_read(&sb->metadata, row->metadata);
	if (r == 0)
		r = pairs_read(&sb->env, row->env);
	if (r == 0)
		r = network_read(&sb->network, row->network);
	if (r == 0 && row->tenant[0]) {
		sb->tenant = tenant_get(hub, row->tenant);
		r = sb->tenant ? 0 : -ENOMEM;
	}
	if (r < 0) {
		sandbox_release(sb);
		return r;
	}
	*ret = sb;
	return 0;
}

void sandbox_row(const struct sandbox *sb, struct db_box *ret)
{
	int64_t now = clock_now_us();

	*ret = (struct db_box){
		.id = sb->id,
		.tenant = sb->tenant ? sb->tenant->name : "",
		.template_asked = sb->template_asked,
		.template_used = sb->template_used,
		.state = sb->state,
		.reason = sb->reason,
		.state_us = sb->state_us,
		.tier = sb->tier,
		.tier_why = sb->tier_why ? sb->tier_why : "",
		.warning = sb->warning ? sb->warning : "",
		.tier_by = sb->tier_by ? sb->tier_by : "",
		.from_pool = sb->from_pool,
		.created_us = sb->created_us,
		.started_us = sb->started_us,
		.deadline_us = sb->deadline_us,
		.deadline_boot_us = sb->deadline_us ? boot_us() + (sb->deadline_us - now) : 0,
		.boot_id = sb->hub->boot_id,
		.timeout_ms = sb->timeout_ms,
		.on_timeout = sb->on_timeout,
		.auto_resume = sb->auto_resume,
		.memory_bytes = (int64_t)sb->limits.memory_bytes,
		.disk_bytes = (int64_t)sb->limits.disk_bytes,
		.cpu_milli = sb->limits.cpu_milli,
		.pids = sb->limits.pids,
		.metadata = pairs_blob(&sb->metadata),
		.env = pairs_blob(&sb->env),
		.run_user = sb->user,
		.workdir = sb->workdir,
		.network = pairs_blob(&sb->network.pairs),
		.envd_token = sb->envd_token[0] ? sb->envd_token : NULL,
		.traffic_token = sb->traffic_token[0] ? sb->traffic_token : NULL,
		.trace = sb->trace[0] ? sb->trace : NULL,
	};
}

static uint64_t cpu_count(const struct sandbox *sb)
{
	return sb->limits.cpu_milli ? (sb->limits.cpu_milli + 999) / 1000 : sb->hub->cpus;
}

void sandbox_view(const struct sandbox *sb, struct hub_box *ret)
{
	bool paused = sb->state == HUB_PAUSED || sb->state == HUB_RESUMING;

	*ret = (struct hub_box){
		.id = sb->id,
		.tenant = sb->tenant ? sb->tenant->name : "",
		.template_asked = sb->template_asked,
		.template_used = sb->template_used,
		.state = sb->state,
		.reason = sb->reason,
		.tier = sb->tier,
		.tier_why = sb->tier_why ? sb->tier_why : "",
		.warning = sb->warning ? sb->warning : "",
		.from_pool = sb->from_pool,
		.created_us = sb->created_us,
		.started_us = sb->started_us,
		.state_us = sb->state_us,
		.end_us = paused ? sb->state_us : sb->deadline_us,
		.on_timeout = sb->on_timeout,
		.auto_resume = sb->auto_resume,
		.limits = sb->limits,
		.cpu_count = cpu_count(sb),
		.metadata = sb->metadata.list,
		.metadata_count = sb->metadata.count,
		.env = sb->env.list,
		.env_count = sb->env.count,
		.user = sb->user,
		.workdir = sb->workdir,
		.network = sb->network.view,
		.envd_token = sb->envd_token[0] ? sb->envd_token : NULL,
		.traffic_token = sb->traffic_token[0] ? sb->traffic_token : NULL,
	};
}

static void on_late(void *ctx)
{
	struct sandbox *sb = ctx;
	struct hub_fail f;

	/* Paused at its deadline, or already on its way out: as it should be. */
	if (sb->state != HUB_RUNNING || !sb->deadline_us ||
		clock_now_us() < sb->deadline_us + LATE_MS * 1000 / 2)
		return;
	hub_log(sb->hub, HUB_WARN, "box.late", NULL, sb->id,
		"msg=\"its supervisor did not act at its deadline\"");
	if (sb->on_timeout == HUB_TIMEOUT_PAUSE) {
		if (sandbox_move(sb, HUB_PAUSING, &f, "its time was over") == 0)
			live_pause(sb, &f);
		return;
	}
	if (sandbox_move(sb, HUB_STOPPING, &f, "its time was over") == 0)
		live_stop(sb, "its time was over");
}

void sandbox_set_deadline(struct sandbox *sb, uint64_t left_ms)
{
	sb->deadline_us = left_ms ? clock_now_us() + (int64_t)left_ms * 1000 : 0;
	if (left_ms)
		loop_timer_set(sb->hub->loop, &sb->late, left_ms + LATE_MS, on_late, sb);
	else
		loop_timer_cancel(&sb->late);
}

/* --- moving --- */

/* It has happened, or must: a full disk does not keep a sandbox alive. */
static bool must_happen(const struct sandbox *sb, enum hub_state to)
{
	return to == HUB_STOPPING || to == HUB_STOPPED || to == HUB_FAILED ||
	       (to == HUB_PAUSED && sb->state == HUB_RUNNING) ||
	       (to == HUB_RUNNING && (sb->state == HUB_PAUSING || sb->state == HUB_RESUMING)) ||
	       (to == HUB_PAUSED && sb->state == HUB_PAUSING);
}

static int write_step(
	struct sandbox *sb, enum hub_state to, const char *reason, int64_t now, struct hub_fail *f)
{
	struct db_step step = {
		.id = sb->id,
		.at_us = now,
		.from = sb->state,
		.to = to,
		.reason = reason,
		.trace = sb->trace[0] ? sb->trace : NULL,
	};
	struct db *db = sb->hub->db;
	struct err e = { 0 };
	struct db_box row;
	int r;

	hub_point(sb->hub, "journal");
	if (sb->also)
		sandbox_row(sb, &row);
	r = db_begin(db, &e);
	if (r == 0 && sb->end)
		r = db_end_insert(db, sb->end, &e);
	if (r == 0)
		r = db_box_step_with(db, &step, &row, sb->also, &e);
	if (r == 0)
		r = db_commit(db, &e);
	else
		db_rollback(db);
	sb->also = NULL;
	if (r == 0)
		sb->end = NULL;
	hub_point(sb->hub, "journaled");
	if (r == 0)
		return 0;
	sb->hub->n.db_errors++;
	hub_log(sb->hub, HUB_ERROR, "box.journal", NULL, sb->id, "to=%s msg=\"%s\"",
		hub_state_name(to), e.msg);
	return must_happen(sb, to) ? 0 : hub_fail_err(f, &e);
}

static const char *event_kind(enum hub_state s)
{
	static const char *const kinds[HUB_STATES] = {
		[HUB_CREATING] = "sandbox.creating",
		[HUB_READY] = "pool.ready",
		[HUB_RUNNING] = "sandbox.running",
		[HUB_PAUSING] = "sandbox.pausing",
		[HUB_PAUSED] = "sandbox.paused",
		[HUB_RESUMING] = "sandbox.resuming",
		[HUB_STOPPING] = "sandbox.stopping",
		[HUB_STOPPED] = "sandbox.stopped",
		[HUB_FAILED] = "sandbox.failed",
	};

	return kinds[s];
}

int sandbox_step(struct sandbox *sb, enum hub_state to, struct hub_fail *f, const char *text)
{
	char reason[HUB_REASON_MAX + 1];
	int64_t now = clock_now_us();
	int r;

	assert(lifecycle_allows(sb->state, to));
	record_text(reason, sizeof(reason), text);
	r = write_step(sb, to, reason, now, f);
	if (r < 0)
		return r;
	sb->state = to;
	sb->state_us = now;
	str_copy(sb->reason, sizeof(sb->reason), reason);
	return 0;
}

void sandbox_stepped(struct sandbox *sb, enum hub_state from)
{
	hub_log(sb->hub, HUB_INFO, "box.state", NULL, sb->id,
		"from=%s to=%s tenant=%s%s%s msg=\"%s\"", hub_state_name(from),
		hub_state_name(sb->state), sb->tenant ? sb->tenant->name : "-",
		sb->trace[0] ? " trace=" : "", sb->trace, sb->reason);
	event_put(sb->hub, event_kind(sb->state), sb, sb->reason);
	sandbox_wake(sb);
}

int sandbox_move(struct sandbox *sb, enum hub_state to, struct hub_fail *f, const char *fmt, ...)
{
	enum hub_state from = sb->state;
	char text[HUB_REASON_MAX * 2];
	va_list ap;
	int r;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r = sandbox_step(sb, to, f, text);
	if (r == 0)
		sandbox_stepped(sb, from);
	return r;
}

/* --- what waits for it --- */

static void answer_ended(struct hub_call *c)
{
	struct sandbox *sb = c->sb;
	struct hub_fail f;

	link_drop(c->asked);
	c->asked = NULL;
	if (c->wait == WAIT_GONE) {
		call_done(c, NULL, true);
		return;
	}
	if (sb->trouble.code) {
		call_done(c, &sb->trouble, false);
		return;
	}
	hub_fail(&f, HUB_NOT_FOUND, "sandbox '%s' has ended: %s", sb->id, sb->reason);
	call_done(c, &f, false);
}

/* True: answered. */
static bool answer_paused(struct hub_call *c)
{
	struct sandbox *sb = c->sb;
	struct hub_fail f;

	if (c->wait == WAIT_PAUSED) {
		call_done(c, NULL, true);
		return true;
	}
	if (c->wait == WAIT_LINK && !sb->trouble.code) {
		/* Went to sleep while this call was on its way. */
		if (!sb->auto_resume)
			hub_fail(&f, HUB_NOT_RUNNING, "sandbox '%s' is paused: resume it first",
				sb->id);
		else if (live_resume(sb, sb->timeout_ms, &f) == 0)
			return false;
		call_done(c, &f, false);
		return true;
	}
	if (c->wait == WAIT_CONNECT && !sb->trouble.code) {
		if (live_resume(sb, c->timeout_ms, &f) == 0) {
			sb->hub->n.resumed++;
			c->changed = true;
			return false;
		}
		call_done(c, &f, false);
		return true;
	}
	if (c->wait == WAIT_GONE)
		return false;
	if (!sb->trouble.code)
		hub_fail(&sb->trouble, HUB_CONFLICT, "sandbox '%s' was paused again", sb->id);
	call_done(c, &sb->trouble, false);
	return true;
}

static bool answer_running(struct hub_call *c)
{
	struct sandbox *sb = c->sb;

	if (c->wait == WAIT_RUNNING || c->wait == WAIT_LINK || c->wait == WAIT_CONNECT) {
		call_done(c, NULL, c->changed);
		return true;
	}
	if (c->wait == WAIT_PAUSED) {
		if (!sb->trouble.code)
			hub_fail(&sb->trouble, HUB_INTERNAL, "sandbox '%s' was not paused", sb->id);
		call_done(c, &sb->trouble, false);
		return true;
	}
	return false;
}

static void look_at_calls(void *ctx)
{
	struct sandbox *sb = ctx;
	struct hub_call *next;

	sandbox_hold(sb);
	for (struct hub_call *c = sb->waiting.first; c; c = next) {
		next = c->next;
		if (!lifecycle_is_live(sb->state))
			answer_ended(c);
		else if (c->wait == WAIT_ANSWER)
			continue;
		else if (c->wait == WAIT_PAUSED && c->changed)
			call_done(c, NULL, true);
		else if (sb->state == HUB_PAUSED)
			answer_paused(c);
		else if (sb->state == HUB_RUNNING)
			answer_running(c);
	}
	if (!lifecycle_is_moving(sb->state))
		sb->trouble = (struct hub_fail){ 0 };
	/* Here no callback of its link is running: the link can go, and the sandbox with it. */
	if (!lifecycle_is_live(sb->state)) {
		live_detach(sb);
		registry_remove(sb);
		hub_check_stopped(sb->hub);
	}
	sandbox_release(sb);
}

void sandbox_wake(struct sandbox *sb)
{
	loop_later_set(sb->hub->loop, &sb->wake, look_at_calls, sb);
}
