/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/create.c - the verb create: a warm sandbox when there is one, else a new supervisor.
 *
 * Owns:  the order: check, count, write down, start.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/str.h"
#include "hub/want.h"

enum { EXECD_US = 400 }; /* a claim's command has been exec'd by then, or is not in a hurry */

/* Strictly growing, so that a place in a list is one sandbox. */
static int64_t next_start(struct hub *hub)
{
	int64_t now = clock_now_us();

	hub->last_start_us = now > hub->last_start_us ? now : hub->last_start_us + 1;
	return hub->last_start_us;
}

static int check_room(struct hub *hub, struct hub_fail *f)
{
	if (hub->stopping)
		return hub_fail(f, HUB_BUSY, "the daemon is stopping");
	if (!hub->ready)
		return hub_fail(f, HUB_BUSY, "the daemon is still looking for its sandboxes");
	if (hub->calls >= HUB_CALLS_MAX)
		return hub_fail(f, HUB_BUSY, "the daemon has %u requests under way", hub->calls);
	if (hub->count >= hub->config->boxes_max)
		return hub_fail(f, HUB_BUSY, "this host has its %lld sandboxes already",
			(long long)hub->config->boxes_max);
	return 0;
}

static int check_quota(struct hub *hub, struct want *w, struct hub_fail *f)
{
	struct quota_use more;
	int r;

	w->tenant = tenant_get(hub, w->who->tenant);
	if (!w->tenant)
		return hub_fail(f, HUB_INTERNAL, "out of memory");
	tenant_limits(hub, w->tenant);
	tenant_want(hub, &w->limits, &more);
	r = quota_check(w->tenant->name, &w->tenant->max, &w->tenant->use, &more, f);
	/* Last, so that a request that is refused anyway costs nothing. */
	if (r == 0)
		r = quota_take(w->tenant->name, &w->tenant->bucket, w->tenant->max.creates_micro,
			loop_now_ms(hub->loop), f);
	return r;
}

static void audit_create(struct sandbox *sb, const struct want *w)
{
	struct buf b;

	buf_init(&b, 16384);
	json_str(&b, "template", w->asked);
	json_bool(&b, "warm", sb->from_pool);
	if (w->from)
		json_bool(&b, "from_snapshot", true);
	json_str(&b, "tier_asked", w->tier == WALL_NONE ? NULL : wall_name(w->tier));
	json_str(&b, "tier_by", w->tier_by[0] ? w->tier_by : "policy");
	json_i64(&b, "timeout_ms", w->timeout_ms);
	json_array(&b, "mounts");
	for (unsigned i = 0; i < w->req->mount_count; i++)
		json_str(&b, NULL, w->mounts[i].src);
	json_array_end(&b);
	record_audit(sb->hub, w->who, "sandbox.create", sb, &b);
	buf_done(&b);
}

/* --- cold --- */

static int write_new(struct sandbox *sb, struct hub_fail *f)
{
	struct hub *hub = sb->hub;
	struct db_step step = {
		.id = sb->id,
		.at_us = sb->state_us,
		.from = HUB_CREATING,
		.to = HUB_CREATING,
		.reason = sb->reason,
		.trace = sb->trace[0] ? sb->trace : NULL,
	};
	struct err e = { 0 };
	struct db_box row;
	int r;

	sandbox_row(sb, &row);
	hub_point(hub, "journal");
	r = db_begin(hub->db, &e);
	if (r == 0)
		r = db_box_insert(hub->db, &row, &e);
	if (r == 0)
		r = db_box_step(hub->db, &step, &e);
	if (r == 0)
		r = db_commit(hub->db, &e);
	else
		db_rollback(hub->db);
	hub_point(hub, "journaled");
	if (r == 0)
		return 0;
	hub->n.db_errors++;
	return hub_fail_err(f, &e);
}

/* "K=V" for the supervisor, in one piece of memory. */
static char *join_env(const struct pairs *p, const char *list[HUB_ENV_MAX + 1])
{
	char *text = malloc(p->len + 1), *at = text;

	for (unsigned i = 0; text && i < p->count; i++) {
		list[i] = at;
		at = stpcpy(at, p->list[i].key);
		*at++ = '=';
		at = stpcpy(at, p->list[i].value) + 1;
	}
	list[p->count] = NULL;
	return text;
}

/* Takes @empty. */
static int spawn(struct sandbox *sb, const struct want *w, struct empty *empty, struct hub_fail *f)
{
	struct sup_request *q = calloc(1, sizeof(*q));
	const char *env[HUB_ENV_MAX + 1];
	char *text = join_env(&sb->env, env);
	int r;

	if (!q || !text) {
		free(text);
		free(q);
		empty_drop(empty);
		return hub_fail(f, HUB_INTERNAL, "out of memory");
	}
	str_copy(q->id, sizeof(q->id), sb->id);
	q->traits = w->traits;
	q->asked = w->tier;
	q->asked_by = w->tier != WALL_NONE ? w->tier_by : NULL;
	q->accept_risk = w->accept_risk;
	q->caller = sb->tenant ? sb->tenant->name : "pool";
	q->trace = sb->trace[0] ? sb->trace : NULL;
	q->template_spec = w->used;
	q->limits = w->limits;
	memcpy(q->mounts, w->mounts, w->req->mount_count * sizeof(q->mounts[0]));
	q->mount_count = w->req->mount_count;
	q->net = w->net;
	q->env = env;
	q->user = sb->user;
	q->workdir = sb->workdir;
	q->from = w->from ? &w->from->files : NULL;
	q->deadline_ms = (uint64_t)sb->timeout_ms;
	q->deadline_action = sb->on_timeout == HUB_TIMEOUT_PAUSE ? SUP_PAUSE : SUP_KILL;
	r = live_spawn(sb, q, empty, f);
	free(text);
	free(q);
	return r;
}

static struct sandbox *make_sandbox(
	struct hub *hub, const struct want *w, const struct empty *empty, struct hub_fail *f)
{
	char id[ID_LEN + 1];
	int r = empty ? str_copy(id, sizeof(id), empty_id(empty)) : id_make(id);
	struct sandbox *sb = r == 0 ? sandbox_new(hub, id) : NULL;

	if (!sb) {
		hub_fail(f, HUB_INTERNAL, "out of memory");
		return NULL;
	}
	if (want_fill(w, sb, f) < 0) {
		sandbox_release(sb);
		return NULL;
	}
	sb->tenant = w->tenant;
	sb->limits = w->limits;
	sb->created_us = sb->started_us = next_start(hub);
	sb->state = HUB_CREATING;
	sb->state_us = sb->created_us;
	str_copy(sb->reason, sizeof(sb->reason), w->tenant ? "it was asked for" : "for the pool");
	return sb;
}

/* On success the registry holds it and a supervisor is on its way. */
static int create_cold(struct hub *hub, const struct want *w, struct pool *pool,
	struct sandbox **ret, struct hub_fail *f)
{
	/* A pool is in no hurry. */
	struct empty *empty = pool ? NULL : empty_take(hub, w->tier);
	struct sandbox *sb = make_sandbox(hub, w, empty, f);
	int r;

	if (!sb) {
		empty_drop(empty);
		return -ENOMEM;
	}
	sb->pool = pool;
	r = write_new(sb, f);
	if (r < 0) {
		empty_drop(empty);
		sandbox_release(sb);
		return r;
	}
	registry_add(sb);
	tenant_charge(sb);
	event_put(hub, "sandbox.creating", sb, sb->reason);
	r = spawn(sb, w, empty, f);
	/* Beside the supervisor's start, and before anybody is told of the sandbox. */
	if (w->who)
		audit_create(sb, w);
	if (r < 0) {
		sb->trouble = *f;
		ended_finish(sb, "setup-failed", f->msg);
	}
	*ret = sb;
	sandbox_release(sb);
	return r;
}

int create_cold_pool(struct pool *pool, struct hub_fail *f)
{
	struct hub *hub = pool->hub;
	struct hub_create req = { .template = pool->name, .timeout_ms = HUB_TIMEOUT_DEFAULT };
	char mold[WANT_MOLD_MAX];
	struct hub_pair made = { POOL_MOLD, mold };
	struct sandbox *sb;
	struct want w;
	int r = check_room(hub, f);

	if (r == 0)
		r = want_make(hub, NULL, &req, &w, f);
	if (r < 0)
		return r;
	w.timeout_ms = 0; /* it waits as long as it must */
	want_mold(&w, mold);
	req.metadata = &made;
	req.metadata_count = 1;
	r = create_cold(hub, &w, pool, &sb, f);
	want_done(&w);
	return r;
}

/* --- warm --- */

static void answer_claim(struct hub_call *call)
{
	struct sandbox *sb = call->sb;

	call_done(call, NULL, false); /* in front of the refill that create_answer() asks for */
	create_answer(sb);
}

static void on_bound(void *arg, struct link_call *c, const struct link_done *d)
{
	struct hub_call *call = arg;

	call->asked = NULL;
	answer_claim(call);
}

static void stop_unbound(struct sandbox *sb, const char *why)
{
	if (sb->state == HUB_RUNNING &&
		sandbox_move(sb, HUB_STOPPING, NULL, "it could not be bound: %s", why) == 0)
		live_stop(sb, "it could not be bound to a request");
}

static const char *text_of(const struct link_failed *fl)
{
	return fl->text[0] ? fl->text : strerror(fl->code);
}

static void on_not_bound(void *arg, struct link_call *c, const struct link_failed *fl)
{
	struct hub_call *call = arg;
	struct sandbox *sb = call->sb;
	struct hub_fail f;

	call->asked = NULL;
	if (sb->begun_ns && sb->hub->creating)
		sb->hub->creating--;
	sb->begun_ns = 0;
	sb->hub->n.create_failed++;
	hub_fail(&f, fl->code == EBUSY ? HUB_INVALID : HUB_BUSY,
		"a warm sandbox did not take the request: %s", text_of(fl));
	call_done(call, &f, false);
	stop_unbound(sb, f.msg);
}

/* The claim was answered already. That the supervisor is gone is told by its link. */
static void on_late_no(void *arg, struct link_call *c, const struct link_failed *fl)
{
	if (fl->code != ENOTCONN)
		stop_unbound(arg, text_of(fl));
}

/* The kernel may refuse limits; nothing else in a BIND can be. */
static bool can_be_refused(const struct plan_limits *l)
{
	return l->memory_bytes || l->pids || l->cpu_milli || l->cpu_weight;
}

/*
 * Out before anybody is told: from then on the supervisor has it, whatever becomes of us, and a
 * command that is sent next arrives behind it. So nobody waits for the supervisor to say yes,
 * unless it may say no, or did not take all of it.
 */
static int send_bind(
	struct hub_call *call, const struct want *w, bool *ret_waits, struct hub_fail *f)
{
	static const struct link_handler handler = { .done = on_bound, .failed = on_not_bound };
	static const struct link_handler late = { .failed = on_late_no };
	struct sandbox *sb = call->sb;
	struct link_call *asked;
	const char *env[HUB_ENV_MAX + 1];
	char *text = join_env(&sb->env, env);
	struct link_bind b = {
		.env = env,
		.user = sb->user,
		.workdir = sb->workdir,
		.caller = sb->tenant->name,
		.trace = sb->trace[0] ? sb->trace : NULL,
		.limits = w->req->limits,
		.deadline_ms = (uint64_t)sb->timeout_ms,
		.deadline_action = sb->on_timeout == HUB_TIMEOUT_PAUSE ? SUP_PAUSE : SUP_KILL,
	};
	struct err e = { 0 };
	bool begins;
	int r = text ? 0 : err_set(&e, ENOMEM, "binding");

	hub_point(sb->hub, "bind");
	link_hold(sb->link);
	if (r == 0)
		r = link_bind(sb->link, &b, &late, sb, &asked, &e);
	begins = r == 0 && call->begin && !can_be_refused(&b.limits);
	if (begins)
		call_begin(call);
	link_release(sb->link);
	/* What was begun is not begun again elsewhere: its end is told by its link. */
	if (r == 0)
		r = link_unsent(sb->link);
	if (begins && r < 0)
		r = 0;
	hub_point(sb->hub, "bind-sent");
	free(text);
	if (r < 0)
		return e.code ? hub_fail_err(f, &e)
			      : hub_fail(f, HUB_INTERNAL, "its supervisor is gone");
	*ret_waits = r > 0 || can_be_refused(&b.limits);
	if (*ret_waits) {
		call->asked = asked;
		link_call_set(asked, &handler, call);
	}
	return 0;
}

/* The row is the tenant's before the supervisor is told: a crash in between leaves a sandbox that
 * is somebody's, and ends with its time. */
static int claim(struct hub *hub, const struct want *w, struct sandbox *sb, struct hub_call *call,
	struct hub_fail *f)
{
	bool waits = false, hurries = call->begin && hurry_may(hub);
	int r;

	if (hurries)
		link_soon(sb->link); /* it wakes up while we write */
	r = want_fill(w, sb, f);
	if (r < 0)
		return r;
	sb->tenant = w->tenant;
	sb->from_pool = true;
	sb->begun_ns = (uint64_t)call->begun_ns;
	sb->started_us = next_start(hub);
	sandbox_set_deadline(sb, (uint64_t)w->timeout_ms);
	sb->also = db_also_claim;
	r = sandbox_step(sb, HUB_RUNNING, f, "taken from the pool");
	pool_claimed(sb);
	registry_to_end(sb);
	tenant_charge(sb);
	if (r == 0) {
		hub->creating++;
		hurries = hurries && hurry_may(hub);
		r = send_bind(call, w, &waits, f);
		sb->awaited = r == 0 && hurries && !call->begin;
		if (sb->awaited)
			loop_spin(hub->loop, EXECD_US);
		sandbox_stepped(sb, HUB_READY);
		audit_create(sb, w); /* while the supervisor wakes up, before anybody is told */
	}
	if (r < 0)
		return r;
	if (waits)
		call_wait(call, WAIT_ANSWER);
	else
		answer_claim(call);
	return 0;
}

static bool try_warm(struct hub *hub, const struct want *w, struct hub_call *call)
{
	struct sandbox *sb = NULL;
	struct hub_fail f = { 0 };
	char mold[WANT_MOLD_MAX];

	if (want_fits_pool(hub, w)) {
		want_mold(w, mold);
		sb = pool_find_ready(hub, w->used, mold);
	}
	if (!sb) {
		pool_missed(hub, w->used);
		return false;
	}
	sandbox_hold(sb);
	call->sb = sb;
	if (claim(hub, w, sb, call, &f) == 0)
		return true;
	/* A warm one that fails is no use to anybody; the request gets a cold one. */
	hub_log(hub, HUB_WARN, "pool.claim", w->who, sb->id, "msg=\"%s\"", f.msg);
	if (lifecycle_allows(sb->state, HUB_STOPPING) &&
		sandbox_move(sb, HUB_STOPPING, NULL, "it could not be claimed: %s", f.msg) == 0)
		live_stop(sb, "it could not be claimed");
	call->sb = NULL;
	sandbox_release(sb);
	return false;
}

static int start(struct hub *hub, const struct want *w, struct hub_call *call, struct hub_fail *f)
{
	struct sandbox *sb;
	int r;

	if (try_warm(hub, w, call))
		return 0;
	r = create_cold(hub, w, NULL, &sb, f);
	if (r < 0)
		return r;
	sb->begun_ns = (uint64_t)call->begun_ns;
	hub->creating++;
	sandbox_hold(sb);
	call->sb = sb;
	call_wait(call, WAIT_RUNNING);
	return 0;
}

struct hub_call *hub_create(struct hub *hub, const struct hub_caller *who,
	const struct hub_create *req, hub_box_fn *fn, void *arg)
{
	struct hub_call *call = call_new(hub, CALL_BOX, NULL, arg);
	struct hub_fail f = { 0 };
	struct want w;
	int r;

	call->fn.box = fn;
	call->is_create = true;
	call->begin = req->begin;
	r = check_room(hub, &f);
	if (r == 0)
		r = want_make(hub, who, req, &w, &f);
	if (r == 0) {
		r = check_quota(hub, &w, &f);
		if (r == 0)
			r = start(hub, &w, call, &f);
		want_done(&w);
	}
	if (r < 0) {
		hub->n.refused++;
		hub_log(hub, HUB_INFO, "box.refused", who, "", "code=%s msg=\"%s\"",
			hub_code_name(f.code), f.msg);
		call_done(call, &f, false);
	}
	return call;
}

void create_answer(struct sandbox *sb)
{
	static const uint32_t edges_us[CREATE_BUCKETS] = { 100, 250, 500, 1000, 2500, 5000, 10000,
		25000, 50000, 100000, 250000, 1000000 };
	struct hub *hub = sb->hub;
	uint64_t us = (clock_ns() - sb->begun_ns) / 1000;
	unsigned i = 0;

	if (!sb->begun_ns)
		return;
	sb->begun_ns = 0;
	if (hub->creating)
		hub->creating--;
	while (i < CREATE_BUCKETS && us > edges_us[i])
		i++;
	hub->n.create_hist[i]++;
	hub->n.create_us_sum += us;
	hub->n.create_count++;
	hub->n.created++;
	if (sb->from_pool)
		hub->n.warm++;
	else
		hub->n.cold++;
	hub_log(hub, HUB_INFO, "box.created", NULL, sb->id, "tenant=%s tier=%s warm=%d us=%" PRIu64,
		sb->tenant ? sb->tenant->name : "-", wall_name(sb->tier), sb->from_pool, us);
	hub->created_ms = loop_now_ms(hub->loop);
	pool_tend(hub);
	empty_tend(hub);
}
