/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/pool.c - sandboxes that are ready before anyone asks.
 *
 * Owns:  the pools, how many each should hold, and when the next one is started.
 * Rules: a refill is one start at a time. It waits while a create is under way, and when the pool
 * is at least half full also for the first command of whoever was answered, so that it never delays
 * a claim. The target moves between min and max: up by one for each miss, down by one for each idle
 * time without a claim.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "hub/hub_impl.h"
#include "hub/want.h"

enum {
	TEND_MS = 1000,
	PAUSE_MS = 8,      /* after a create: whoever asked for it sends its first command */
	PATIENT_MS = 2000, /* creates without a pause hold a refill back no longer than this */
	BACKOFF_MAX_MS = 60 * 1000,
};

struct pool *pool_find(struct hub *hub, const char *template)
{
	for (unsigned i = 0; i < hub->pool_count; i++)
		if (hub->pools[i].template && str_eq(hub->pools[i].template, template))
			return &hub->pools[i];
	return NULL;
}

static struct pool *pool_add(struct hub *hub, const char *name, const char *template)
{
	struct pool *p = NULL;

	for (unsigned i = 0; !p && i < hub->pool_count; i++)
		if (!hub->pools[i].template)
			p = &hub->pools[i];
	if (!p && hub->pool_count < HUB_POOLS_MAX)
		p = &hub->pools[hub->pool_count++];
	if (!p)
		return NULL;
	*p = (struct pool){ .hub = hub };
	if (text_set(&p->name, name) < 0 || text_set(&p->template, template) < 0)
		return NULL;
	p->used_ms = loop_now_ms(hub->loop);
	return p;
}

static int load_one(void *arg, const struct db_pool *row)
{
	struct hub *hub = arg;
	char means[TEMPLATE_NAME_MAX + 1];
	struct pool *p;
	bool fresh;

	/* One that is not there now may come. */
	if (hub_template_find(hub, NULL, row->template, means, NULL) < 0 &&
		str_copy(means, sizeof(means), config_alias(hub->config, row->template)) < 0)
		return 0;
	p = pool_find(hub, means);
	fresh = !p;
	if (!p)
		p = pool_add(hub, row->template, means);
	if (!p) {
		hub_log(hub, HUB_ERROR, "pool.load", NULL, "",
			"template=%s msg=\"there are too many pools\"", row->template);
		return 0;
	}
	if (p->listed) {
		hub_log(hub, HUB_WARN, "pool.load", NULL, "",
			"template=%s msg=\"'%s' means the same template\"", row->template, p->name);
		return 0;
	}
	text_set(&p->name, row->template);
	p->listed = true;
	p->min = (unsigned)(row->min < 0 ? 0 : row->min);
	p->max = (unsigned)(row->max > HUB_POOL_SIZE_MAX ? HUB_POOL_SIZE_MAX : row->max);
	if (p->target < p->min || fresh)
		p->target = p->min;
	if (p->target > p->max)
		p->target = p->max;
	if (!p->warm_up || !str_eq(p->warm_up, row->warm_up)) {
		text_set(&p->warm_up, row->warm_up);
		p->failures = 0;
		p->retry_ms = 0;
	}
	if (fresh) {
		p->hits = (uint64_t)row->hits;
		p->misses = (uint64_t)row->misses;
		p->made = (uint64_t)row->made;
		p->shrunk = (uint64_t)row->shrunk;
	}
	return 0;
}

/* Written with the next chores: a claim does not wait for a number. */
static void count(struct pool *p, struct db_pool add)
{
	p->hits += (uint64_t)add.hits;
	p->misses += (uint64_t)add.misses;
	p->made += (uint64_t)add.made;
	p->shrunk += (uint64_t)add.shrunk;
	p->unsaved.hits += add.hits;
	p->unsaved.misses += add.misses;
	p->unsaved.made += add.made;
	p->unsaved.shrunk += add.shrunk;
	p->is_unsaved = true;
}

static void let_go(struct sandbox *sb, const char *why)
{
	struct pool *p = sb->pool;

	sb->pool = NULL;
	p->ready--;
	count(p, (struct db_pool){ .shrunk = 1 });
	sandbox_move(sb, HUB_STOPPING, NULL, "%s", why);
	live_stop(sb, why);
}

static bool is_of(const struct sandbox *sb, const struct pool *p, const char *mold)
{
	const char *made = pairs_get(&sb->metadata, POOL_MOLD);

	return sb->pool == p && sb->state == HUB_READY && made && str_eq(made, mold);
}

/* Those that would be made otherwise now go: ward.toml, --tier or the number of tenants changed. */
static void renew(struct pool *p)
{
	struct hub_create req = { .template = p->name, .timeout_ms = HUB_TIMEOUT_DEFAULT };
	struct sandbox *sb, *next;
	char mold[WANT_MOLD_MAX];
	struct hub_fail f;
	struct want w;

	if (!p->listed || !p->ready || want_make(p->hub, NULL, &req, &w, &f) < 0)
		return; /* a template that is not there is told by the next refill */
	want_mold(&w, mold);
	want_done(&w);
	for (sb = p->hub->first; sb; sb = next) {
		next = sb->next;
		if (sb->pool == p && sb->state == HUB_READY && !is_of(sb, p, mold))
			let_go(sb, "what it was made like is not what is wanted now");
	}
}

void pool_load(struct hub *hub)
{
	struct err e = { 0 };

	for (unsigned i = 0; i < hub->pool_count; i++)
		hub->pools[i].listed = false;
	if (db_pool_each(hub->db, load_one, hub, &e) < 0)
		hub_log(hub, HUB_ERROR, "pool.load", NULL, "", "msg=\"%s\"", e.msg);
	for (unsigned i = 0; i < hub->pool_count; i++)
		renew(&hub->pools[i]);
	pool_tend(hub);
}

void pool_save(struct hub *hub)
{
	struct err e = { 0 };

	for (unsigned i = 0; i < hub->pool_count; i++) {
		struct pool *p = &hub->pools[i];

		if (!p->template || !p->is_unsaved)
			continue;
		p->unsaved.template = p->name;
		if (db_pool_count(hub->db, &p->unsaved, &e) < 0)
			hub_log(hub, HUB_WARN, "pool.count", NULL, "", "msg=\"%s\"", e.msg);
		p->unsaved = (struct db_pool){ 0 };
		p->is_unsaved = false;
	}
}

struct sandbox *pool_find_ready(struct hub *hub, const char *template, const char *mold)
{
	struct pool *p = pool_find(hub, template);

	/* The oldest: the others are then still young when it is their turn. */
	for (struct sandbox *sb = hub->first; p && p->ready && sb; sb = sb->next)
		if (sb->link && is_of(sb, p, mold))
			return sb;
	return NULL;
}

void pool_claimed(struct sandbox *sb)
{
	struct pool *p = sb->pool;

	sb->pool = NULL;
	p->ready--;
	p->used_ms = loop_now_ms(sb->hub->loop);
	count(p, (struct db_pool){ .hits = 1 });
}

void pool_missed(struct hub *hub, const char *template)
{
	struct pool *p = pool_find(hub, template);

	if (!p || !p->listed)
		return;
	p->used_ms = loop_now_ms(hub->loop);
	if (p->target < p->max)
		p->target++;
	count(p, (struct db_pool){ .misses = 1 });
}

/* --- warming up --- */

static void trouble(struct pool *p, const char *text)
{
	struct err e = { 0 };
	unsigned shift = p->failures < 7 ? p->failures : 7;
	unsigned wait = 1000u << shift;

	p->failures++;
	p->retry_ms = loop_now_ms(p->hub->loop) + (wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS);
	record_text(p->trouble, sizeof(p->trouble), text);
	hub_log(p->hub, HUB_WARN, "pool.trouble", NULL, "", "template=%s msg=\"%s\"", p->template,
		p->trouble);
	if (p->listed && db_pool_trouble(p->hub->db, p->name, p->trouble, &e) < 0)
		hub_log(p->hub, HUB_WARN, "pool.trouble", NULL, "", "msg=\"%s\"", e.msg);
}

static void now_ready(struct sandbox *sb)
{
	struct pool *p = sb->pool;
	struct hub_fail f;

	live_patience(sb, 0);
	sb->also = db_also_running;
	if (sandbox_move(sb, HUB_READY, &f, "it waits in the pool") < 0) {
		hub_fail(&sb->trouble, HUB_INTERNAL, "%s", f.msg);
		sandbox_move(sb, HUB_STOPPING, NULL, "it could not be written down");
		live_stop(sb, "the daemon could not write it down");
		return;
	}
	p->starting--;
	p->ready++;
	sb->pool_ready = true;
	p->failures = 0;
	if (p->trouble[0]) {
		p->trouble[0] = '\0';
		db_pool_trouble(sb->hub->db, p->name, "", NULL);
	}
	count(p, (struct db_pool){ .made = 1 });
	renew(p); /* ward.toml may have changed while this one was made */
	pool_tend(sb->hub);
}

static void not_warm(struct sandbox *sb, const char *text)
{
	hub_fail(&sb->trouble, HUB_INTERNAL, "the warm-up command failed: %s", text);
	sandbox_move(sb, HUB_STOPPING, NULL, "%s", sb->trouble.msg);
	live_stop(sb, sb->trouble.msg);
}

static void on_output(void *arg, struct link_call *c, const void *data, size_t len, bool of_stderr)
{
	link_credit(c, len); /* its end is in the flight recorder */
}

static void on_warm(void *arg, struct link_call *c, const struct link_done *d)
{
	struct sandbox *sb = arg;
	char text[64];

	if (sb->state != HUB_CREATING)
		return;
	if (!d->has_exit || (!d->exit.signaled && d->exit.code == 0)) {
		now_ready(sb);
		return;
	}
	str_fmt(text, sizeof(text), "%s %d", d->exit.signaled ? "signal" : "exit status",
		d->exit.code);
	not_warm(sb, text);
}

static void on_not_warm(void *arg, struct link_call *c, const struct link_failed *f)
{
	struct sandbox *sb = arg;

	if (sb->state == HUB_CREATING && f->code != ENOTCONN)
		not_warm(sb, f->text[0] ? f->text : strerror(f->code));
}

void pool_began(struct sandbox *sb)
{
	static const struct link_handler handler = {
		.data = on_output, .done = on_warm, .failed = on_not_warm
	};
	const char *argv[] = { "/bin/sh", "-c", sb->pool->warm_up, NULL };
	struct link_start start = {
		.flags = START_NULL_STDIN, .argv = argv, .timeout_ms = HUB_WARM_UP_MS
	};
	struct err e = { 0 };

	if (sb->warming)
		return; /* another message about the same state */
	sb->warming = true;
	if (!sb->pool->warm_up || !sb->pool->warm_up[0]) {
		now_ready(sb);
		return;
	}
	live_patience(sb, HUB_WARM_UP_MS + HUB_ANSWER_MS);
	if (link_start(sb->link, &start, &handler, sb, NULL, &e) < 0)
		not_warm(sb, e.msg);
}

void pool_lost(struct sandbox *sb)
{
	struct pool *p = sb->pool;

	sb->pool = NULL;
	if (sb->pool_ready) {
		p->ready--;
	} else {
		p->starting--;
		trouble(p, sb->trouble.code ? sb->trouble.msg : sb->reason);
	}
}

/* --- refill and shrink --- */

static void shrink(struct pool *p)
{
	struct sandbox *sb, *prev;
	unsigned keep = p->listed ? p->target : 0;

	for (sb = p->hub->last; sb && p->ready > keep; sb = prev) {
		prev = sb->prev;
		if (sb->pool == p && sb->state == HUB_READY)
			let_go(sb, p->listed ? "the pool is larger than it need be"
					     : "its pool was removed");
	}
	if (!p->listed && !p->ready && !p->starting) {
		p->is_unsaved = false;
		free(p->name);
		free(p->template);
		free(p->warm_up);
		p->name = p->template = p->warm_up = NULL;
	}
}

static void cool(struct pool *p, uint64_t now)
{
	uint64_t idle = (uint64_t)p->hub->config->pool_idle_ms;

	if (p->target > p->min && now - p->used_ms > idle) {
		p->target--;
		p->used_ms = now;
	}
}

static void on_timer(void *ctx);

/* Somebody waits for the daemon who is more in a hurry than @p is. */
static bool should_wait(const struct pool *p, uint64_t now)
{
	const struct hub *hub = p->hub;

	if (now - hub->refilled_ms >= PATIENT_MS)
		return false;
	return hub->creating || (p->ready * 2 >= p->target && now - hub->created_ms < PAUSE_MS);
}

/* True: one was started, and the others wait for it. */
static bool refill(struct pool *p, uint64_t now)
{
	struct hub *hub = p->hub;
	struct hub_fail f = { 0 };
	unsigned with;

	if (!p->listed || p->ready + p->starting >= p->target || now < p->retry_ms)
		return false;
	if (should_wait(p, now)) {
		loop_timer_set(hub->loop, &hub->pools_timer, PAUSE_MS, on_timer, hub);
		return false;
	}
	hub->refilled_ms = now;
	with = ++p->starting;
	if (create_cold_pool(p, &f) == 0)
		return true;
	/* When it got as far as a sandbox, pool_lost() has said so already. */
	if (p->starting == with) {
		p->starting--;
		trouble(p, f.msg);
	}
	return false;
}

static void tend(void *ctx)
{
	struct hub *hub = ctx;
	uint64_t now = loop_now_ms(hub->loop);
	unsigned starting = 0;
	bool any = false;

	loop_timer_set(hub->loop, &hub->pools_timer, TEND_MS, on_timer, hub);
	if (!hub->ready || hub->stopping)
		return;
	for (unsigned i = 0; i < hub->pool_count; i++)
		starting += hub->pools[i].template ? hub->pools[i].starting : 0;
	for (unsigned i = 0; i < hub->pool_count; i++) {
		struct pool *p = &hub->pools[i];

		if (!p->template)
			continue;
		cool(p, now);
		shrink(p);
		if (!starting && !any && p->template)
			any = refill(p, now);
	}
}

static void on_timer(void *ctx)
{
	tend(ctx);
}

void pool_tend(struct hub *hub)
{
	if (hub->pool_count)
		loop_later_set(hub->loop, &hub->pools_later, tend, hub);
}

void pool_done(struct hub *hub)
{
	for (unsigned i = 0; i < hub->pool_count; i++) {
		free(hub->pools[i].name);
		free(hub->pools[i].template);
		free(hub->pools[i].warm_up);
	}
	hub->pool_count = 0;
}

/* --- verbs --- */

int hub_pool_set(struct hub *hub, const struct hub_caller *who, const char *template, unsigned min,
	unsigned max, const char *warm_up, struct hub_fail *f)
{
	char means[TEMPLATE_NAME_MAX + 1];
	struct db_pool row = { .template = template, .min = min, .max = max, .warm_up = warm_up };
	struct err e = { 0 };
	int r;

	if (!who->is_operator)
		return hub_fail(f, HUB_FORBIDDEN, "only the operator sets pools");
	if (max > HUB_POOL_SIZE_MAX || min > max)
		return hub_fail(
			f, HUB_INVALID, "a pool has 0 <= min <= max <= %d", HUB_POOL_SIZE_MAX);
	if (warm_up && strlen(warm_up) > HUB_WARM_UP_MAX)
		return hub_fail(
			f, HUB_INVALID, "a warm-up command has at most %d bytes", HUB_WARM_UP_MAX);
	r = hub_template_find(hub, who, template, means, f);
	if (r < 0)
		return r;
	r = max ? db_pool_put(hub->db, &row, &e) : db_pool_delete(hub->db, template, &e);
	if (r < 0)
		return hub_fail_err(f, &e);
	record_audit(hub, who, "pool.set", NULL, NULL);
	pool_load(hub);
	return 0;
}

void hub_pool_list(struct hub *hub, void (*each)(void *arg, const struct hub_pool *pool), void *arg)
{
	for (unsigned i = 0; i < hub->pool_count; i++) {
		const struct pool *p = &hub->pools[i];
		struct hub_pool view = {
			.template = p->name,
			.min = p->min,
			.max = p->max,
			.warm_up = p->warm_up ? p->warm_up : "",
			.ready = p->ready,
			.starting = p->starting,
			.hits = p->hits,
			.misses = p->misses,
			.made = p->made,
			.shrunk = p->shrunk,
			.trouble = p->trouble,
		};

		if (!p->template || !p->listed)
			continue;
		for (const struct sandbox *sb = hub->first; sb; sb = sb->next) {
			if (sb->pool != p || sb->state != HUB_READY)
				continue;
			if (!view.oldest_us || sb->state_us < view.oldest_us)
				view.oldest_us = sb->state_us;
			if (sb->state_us > view.newest_us)
				view.newest_us = sb->state_us;
		}
		each(arg, &view);
	}
}
