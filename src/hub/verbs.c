/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/verbs.c - what can be done with a sandbox that is there.
 *
 * Owns:  which verb is possible in which state, and what it answers otherwise.
 * Rules: find, check, write down, tell the supervisor, wait.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "hub/hub_impl.h"
#include "hub/network.h"

/* Finds the sandbox and makes the call; with NULL in @ret_sb the call has failed already. */
static struct hub_call *begin(struct hub *hub, const struct hub_caller *who, const char *id,
	enum call_kind kind, hub_box_fn *fn, void *arg, struct sandbox **ret_sb)
{
	struct hub_fail f;
	struct sandbox *sb = registry_see(hub, who, id, &f);
	struct hub_call *call = call_new(hub, kind, sb, arg);

	call->fn.box = fn;
	*ret_sb = sb;
	if (!sb)
		call_done(call, &f, false);
	else if (who->trace[0])
		str_copy(sb->trace, sizeof(sb->trace), who->trace);
	return call;
}

static struct hub_call *refuse(struct hub_call *call, enum hub_code code, const char *what)
{
	struct hub_fail f;

	hub_fail(&f, code, "sandbox '%s' %s", call->sb->id, what);
	call_done(call, &f, false);
	return call;
}

static const char *who_name(const struct hub_caller *who)
{
	return who->is_operator ? "the operator" : who->tenant;
}

struct hub_call *hub_kill(
	struct hub *hub, const struct hub_caller *who, const char *id, hub_box_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_BOX, fn, arg, &sb);
	char cause[HUB_REASON_MAX];

	if (!sb)
		return call;
	if (sb->state == HUB_STOPPING)
		return refuse(call, HUB_NOT_FOUND, "is being killed already");
	hub->n.killed++;
	str_fmt(cause, sizeof(cause), "killed by %s", who_name(who));
	call_wait(call, WAIT_GONE);
	/* The step must happen even when it cannot be written: see must_happen() in box.c. */
	sandbox_move(sb, HUB_STOPPING, NULL, "%s", cause);
	record_audit(hub, who, "sandbox.kill", sb, NULL);
	live_stop(sb, cause);
	return call;
}

struct hub_call *hub_pause(
	struct hub *hub, const struct hub_caller *who, const char *id, hub_box_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_BOX, fn, arg, &sb);
	struct hub_fail f;

	if (!sb)
		return call;
	if (sb->state == HUB_PAUSED)
		return refuse(call, HUB_CONFLICT, "is paused already");
	if (sb->state == HUB_STOPPING || sb->state == HUB_READY)
		return refuse(call, HUB_NOT_FOUND, "is not running");
	if (sb->state != HUB_RUNNING)
		return refuse(call, HUB_CONFLICT, "is being started, paused or resumed");
	if (sandbox_move(sb, HUB_PAUSING, &f, "asked for by %s", who_name(who)) < 0 ||
		live_pause(sb, &f) < 0) {
		call_done(call, &f, false);
		return call;
	}
	record_audit(hub, who, "sandbox.pause", sb, NULL);
	call_wait(call, WAIT_PAUSED);
	return call;
}

/* Resumes a paused one, or joins those that wait for it. */
static void resume(struct hub_call *call, const struct hub_caller *who, int64_t timeout_ms)
{
	struct sandbox *sb = call->sb;
	struct hub_fail f;

	if (sb->state == HUB_PAUSED) {
		if (live_resume(sb, timeout_ms, &f) < 0) {
			call_done(call, &f, false);
			return;
		}
		sb->hub->n.resumed++;
		record_audit(sb->hub, who, "sandbox.resume", sb, NULL);
	}
	call->changed = true;
	call_wait(call, WAIT_RUNNING);
}

struct hub_call *hub_resume(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t timeout_ms, hub_box_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_BOX, fn, arg, &sb);
	struct hub_fail f;
	int64_t ms;

	if (!sb)
		return call;
	if (sb->state == HUB_STOPPING)
		return refuse(call, HUB_NOT_FOUND, "is being killed");
	if (sb->state != HUB_PAUSED && sb->state != HUB_RESUMING)
		return refuse(call, HUB_CONFLICT, "is not paused");
	if (timeout_check(hub, timeout_ms, sb->timeout_ms, &ms, &f) < 0) {
		call_done(call, &f, false);
		return call;
	}
	resume(call, who, ms);
	return call;
}

/* --- the deadline of a running one --- */

static void on_agreed(void *arg, struct link_call *c, const struct link_done *d)
{
	struct hub_call *call = arg;

	call->asked = NULL;
	if (call->agreed)
		call->agreed(call, d);
	call_done(call, NULL, call->changed);
}

static void on_refused(void *arg, struct link_call *c, const struct link_failed *fl)
{
	struct hub_call *call = arg;
	enum hub_code code = fl->code == EOPNOTSUPP  ? HUB_UNSUPPORTED
			     : fl->code == EHOSTDOWN ? HUB_NOT_RUNNING
			     : fl->code == ENOTCONN  ? HUB_NOT_FOUND
			     : fl->code == EBUSY || fl->code == EINVAL || fl->code == ERANGE
				     ? HUB_INVALID
				     : HUB_INTERNAL;
	struct hub_fail f;

	call->asked = NULL;
	/* It went to sleep while a client was connecting; that news came before this answer. */
	if (fl->code == EHOSTDOWN && call->timeout_ms) {
		call->wait = WAIT_CONNECT;
		sandbox_wake(call->sb);
		return;
	}
	hub_fail(&f, code, "sandbox '%s': %s", call->sb->id,
		fl->text[0] ? fl->text : strerror(fl->code));
	call_done(call, &f, false);
}

static const struct link_handler answer_handler = { .done = on_agreed, .failed = on_refused };

static struct hub_call *set_deadline(struct hub_call *call, int64_t ms)
{
	struct sandbox *sb = call->sb;
	enum sup_action action = sb->on_timeout == HUB_TIMEOUT_PAUSE ? SUP_PAUSE : SUP_KILL;
	int64_t was_us = sb->deadline_us, was_ms = sb->timeout_ms, now = clock_now_us();
	struct err e = { 0 };
	struct hub_fail f;
	struct db_box row;

	sb->timeout_ms = ms;
	sandbox_set_deadline(sb, (uint64_t)ms);
	sandbox_row(sb, &row);
	if (db_box_deadline(sb->hub->db, &row, &e) < 0 ||
		link_deadline(sb->link, (uint64_t)ms, action, &answer_handler, call, &call->asked,
			&e) < 0) {
		sb->timeout_ms = was_ms;
		sandbox_set_deadline(sb, was_us > now ? (uint64_t)(was_us - now) / 1000 : 0);
		sb->deadline_us = was_us;
		hub_fail_err(&f, &e);
		call_done(call, &f, false);
		return call;
	}
	event_put(sb->hub, "sandbox.timeout", sb, "");
	call_wait(call, WAIT_ANSWER);
	return call;
}

/* Its time is over now: what should happen then happens. */
static struct hub_call *expire(struct hub_call *call)
{
	struct sandbox *sb = call->sb;
	struct hub_fail f;

	if (sb->on_timeout == HUB_TIMEOUT_PAUSE) {
		if (sandbox_move(sb, HUB_PAUSING, &f, "its time was over") < 0 ||
			live_pause(sb, &f) < 0)
			call_done(call, &f, false);
		else
			call_wait(call, WAIT_PAUSED);
		return call;
	}
	call_wait(call, WAIT_GONE);
	sandbox_move(sb, HUB_STOPPING, NULL, "its time was over");
	live_stop(sb, "its time was over");
	return call;
}

static bool is_up(const struct sandbox *sb)
{
	return sb->state == HUB_RUNNING && sb->link;
}

struct hub_call *hub_set_timeout(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t timeout_ms, hub_box_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_BOX, fn, arg, &sb);
	struct hub_fail f;
	int64_t ms;

	if (!sb)
		return call;
	if (!is_up(sb))
		return refuse(call, HUB_NOT_RUNNING, "is not running");
	if (timeout_ms <= 0)
		return expire(call);
	if (timeout_check(hub, timeout_ms, sb->timeout_ms, &ms, &f) < 0) {
		call_done(call, &f, false);
		return call;
	}
	return set_deadline(call, ms);
}

/* Later than now + ms already: nothing to do. */
static bool ends_later(const struct sandbox *sb, int64_t ms)
{
	return sb->deadline_us == 0 || sb->deadline_us >= clock_now_us() + ms * 1000;
}

static struct hub_call *extend(struct hub_call *call, int64_t timeout_ms)
{
	struct sandbox *sb = call->sb;
	struct hub_fail f;
	int64_t ms;

	if (timeout_check(sb->hub, timeout_ms, sb->timeout_ms, &ms, &f) < 0) {
		call_done(call, &f, false);
		return call;
	}
	if (ms && ends_later(sb, ms)) {
		call_done(call, NULL, false);
		return call;
	}
	return set_deadline(call, ms);
}

struct hub_call *hub_extend(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t timeout_ms, hub_box_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_BOX, fn, arg, &sb);

	if (!sb)
		return call;
	return is_up(sb) ? extend(call, timeout_ms)
			 : refuse(call, HUB_NOT_RUNNING, "is not running");
}

struct hub_call *hub_connect(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t timeout_ms, hub_box_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_BOX, fn, arg, &sb);
	struct hub_fail f;
	int64_t ms;

	if (!sb)
		return call;
	if (timeout_check(hub, timeout_ms, sb->timeout_ms, &ms, &f) < 0) {
		call_done(call, &f, false);
		return call;
	}
	call->timeout_ms = ms;
	if (is_up(sb))
		return extend(call, timeout_ms);
	if (sb->state == HUB_PAUSED || sb->state == HUB_RESUMING) {
		resume(call, who, ms);
		return call;
	}
	if (sb->state == HUB_PAUSING) {
		/* It has to fall asleep before it can be woken. */
		record_audit(hub, who, "sandbox.resume", sb, NULL);
		call_wait(call, WAIT_CONNECT);
		return call;
	}
	if (sb->state == HUB_CREATING && sb->tenant) {
		call_wait(call, WAIT_RUNNING);
		return call;
	}
	return refuse(call, HUB_NOT_FOUND, "is not running");
}

/* --- limits and network --- */

static void limits_agreed(struct hub_call *call, const struct link_done *d)
{
	struct sandbox *sb = call->sb;
	struct plan_limits *l = &call->limits;
	struct err e = { 0 };
	struct db_box row;

	(void)d;
	if (l->memory_bytes)
		sb->limits.memory_bytes = l->memory_bytes;
	if (l->cpu_milli)
		sb->limits.cpu_milli = l->cpu_milli;
	if (l->cpu_weight)
		sb->limits.cpu_weight = l->cpu_weight;
	if (l->pids)
		sb->limits.pids = l->pids;
	tenant_charge(sb);
	sandbox_row(sb, &row);
	if (db_box_limits(sb->hub->db, &row, &e) < 0) {
		sb->hub->n.db_errors++;
		hub_log(sb->hub, HUB_ERROR, "box.limits", NULL, sb->id, "msg=\"%s\"", e.msg);
	}
	event_put(sb->hub, "sandbox.limits", sb, "");
}

static int check_more(struct sandbox *sb, const struct plan_limits *l, struct hub_fail *f)
{
	struct plan_limits after = sb->limits;
	struct quota_use want, more;

	if (!sb->tenant)
		return 0;
	if (l->memory_bytes)
		after.memory_bytes = l->memory_bytes;
	if (l->cpu_milli)
		after.cpu_milli = l->cpu_milli;
	tenant_limits(sb->hub, sb->tenant);
	tenant_want(sb->hub, &after, &want);
	more = (struct quota_use){ .memory_bytes = want.memory_bytes - sb->counted.memory_bytes,
		.cpu_milli = want.cpu_milli - sb->counted.cpu_milli };
	return quota_check(sb->tenant->name, &sb->tenant->max, &sb->tenant->use, &more, f);
}

struct hub_call *hub_set_limits(struct hub *hub, const struct hub_caller *who, const char *id,
	const struct plan_limits *limits, hub_box_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_BOX, fn, arg, &sb);
	struct err e = { 0 };
	struct hub_fail f;
	struct buf b;

	if (!sb)
		return call;
	if (!sb->link || (sb->state != HUB_RUNNING && sb->state != HUB_PAUSED))
		return refuse(call, HUB_NOT_RUNNING, "is not running");
	if (limits->disk_bytes && limits->disk_bytes != sb->limits.disk_bytes)
		return refuse(call, HUB_UNSUPPORTED, "has a disk whose size cannot change");
	if (check_more(sb, limits, &f) < 0) {
		call_done(call, &f, false);
		return call;
	}
	call->limits = *limits;
	call->agreed = limits_agreed;
	if (link_limits(sb->link, limits, &answer_handler, call, &call->asked, &e) < 0) {
		hub_fail_err(&f, &e);
		call_done(call, &f, false);
		return call;
	}
	buf_init(&b, 1024);
	json_u64(&b, "memory_bytes", limits->memory_bytes);
	json_u64(&b, "cpu_milli", limits->cpu_milli);
	json_u64(&b, "pids", limits->pids);
	record_audit(hub, who, "sandbox.limits", sb, &b);
	buf_done(&b);
	call_wait(call, WAIT_ANSWER);
	return call;
}

/* Without a gateway there is nothing to tell anybody: the wall lets nothing out as it is. */
struct hub_call *hub_set_network(struct hub *hub, const struct hub_caller *who, const char *id,
	const struct hub_network *net, hub_box_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_BOX, fn, arg, &sb);
	struct hub_network all = *net;
	struct config_sandbox says;
	struct network made;
	struct err e = { 0 };
	struct hub_fail f = { 0 };
	struct db_box row;
	const char *by;
	int r;

	if (!sb)
		return call;
	if (sb->state == HUB_STOPPING || sb->state == HUB_CREATING)
		return refuse(call, HUB_NOT_FOUND, "is not running");
	if (network_check(net, &f) < 0) {
		call_done(call, &f, false);
		return call;
	}
	config_for(hub->config, sb->template_used, &says, &by);
	if (says.net == NET_HOST && !sb->network.view.deny_internet &&
		(net->deny_internet || net->allow_out || net->deny_out))
		return refuse(call, HUB_UNSUPPORTED,
			"shares the host's network: what goes out cannot be changed while it runs");
	/* What comes in is not what this changes. */
	all.private_ports = sb->network.view.private_ports;
	all.mask_host = sb->network.view.mask_host;
	r = network_make(&made, &all);
	if (r < 0)
		return refuse(call, HUB_INVALID, "was given network settings that are too long");
	network_done(&sb->network);
	sb->network = made;
	sandbox_row(sb, &row);
	r = db_box_network(hub->db, &row, &e);
	if (r < 0)
		hub_fail_err(&f, &e);
	else
		event_put(hub, "sandbox.network", sb, "");
	record_audit(hub, who, "sandbox.network", sb, NULL);
	call_done(call, r < 0 ? &f : NULL, false);
	return call;
}

/* --- the link --- */

struct link *hub_link_now(struct hub *hub, const struct hub_caller *who, const char *id)
{
	struct sandbox *sb = registry_see(hub, who, id, NULL);

	return sb && is_up(sb) ? sb->link : NULL;
}

struct hub_call *hub_link(
	struct hub *hub, const struct hub_caller *who, const char *id, hub_link_fn *fn, void *arg)
{
	struct sandbox *sb;
	struct hub_call *call = begin(hub, who, id, CALL_LINK, NULL, arg, &sb);
	struct hub_fail f;

	call->fn.link = fn;
	if (!sb)
		return call;
	switch (sb->state) {
	case HUB_RUNNING:
		call_done(call, NULL, false);
		return call;
	case HUB_PAUSED:
		if (!sb->auto_resume)
			return refuse(call, HUB_NOT_RUNNING, "is paused: resume it first");
		if (live_resume(sb, sb->timeout_ms, &f) < 0) {
			call_done(call, &f, false);
			return call;
		}
		hub->n.resumed++;
		record_audit(hub, who, "sandbox.resume", sb, NULL);
		break;
	case HUB_CREATING:
	case HUB_PAUSING:
	case HUB_RESUMING:
		break;
	default:
		return refuse(call, HUB_NOT_FOUND, "is not running");
	}
	call_wait(call, WAIT_LINK);
	return call;
}
