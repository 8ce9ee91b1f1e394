/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/want.c - a request to create, checked and completed.
 *
 * Owns:  what is accepted in a request; who may name a tier.
 * Rules: everything is checked here, once, before anything is written down.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "hub/key.h"
#include "hub/mounts.h"
#include "hub/network.h"
#include "hub/want.h"

int timeout_check(
	struct hub *hub, int64_t asked, int64_t default_ms, int64_t *ret_ms, struct hub_fail *f)
{
	const struct config *c = hub->config;

	if (asked == HUB_TIMEOUT_DEFAULT)
		asked = default_ms;
	if (asked == HUB_TIMEOUT_NONE && !c->allow_no_timeout)
		return hub_fail(f, HUB_INVALID,
			"a sandbox without a timeout is not allowed here; give one of up to %lld "
			"seconds",
			(long long)c->timeout_max_ms / 1000);
	if (asked < 0 || asked > c->timeout_max_ms)
		return hub_fail(f, HUB_INVALID, "the timeout must be between 0 and %lld seconds",
			(long long)c->timeout_max_ms / 1000);
	*ret_ms = asked;
	return 0;
}

static int check_env(const struct hub_create *req, struct hub_fail *f)
{
	char shown[64];

	for (unsigned i = 0; i < req->env_count; i++) {
		const char *key = req->env[i].key;

		if (!*key || strchr(key, '='))
			return hub_fail(f, HUB_INVALID,
				"'%s' is not a name for an environment variable",
				str_show(shown, sizeof(shown), key));
	}
	return 0;
}

/* Policy looks at generated code, whoever asks; only the operator can say that it is not. */
static void choose_traits(struct hub *hub, struct want *w)
{
	w->traits = w->req->traits;
	if (w->traits.code == CODE_UNSET || (w->who && !w->who->is_operator))
		w->traits.code = CODE_GENERATED;
	if (hub->tenants_many || hub->config->tenants_many)
		w->traits.tenants = TENANTS_MANY;
}

static int choose_tier(struct hub *hub, struct want *w, struct hub_fail *f)
{
	const struct hub_create *req = w->req;
	bool is_operator = w->who && w->who->is_operator;

	choose_traits(hub, w);
	if (req->accept_risk && !is_operator)
		return hub_fail(f, HUB_FORBIDDEN, "only the operator can accept a risk");
	w->tier = w->says.tier;
	w->accept_risk = w->says.accept_risk;
	if (hub->tier != WALL_NONE) {
		w->tier = hub->tier;
		w->tier_by = hub->tier_by;
		w->accept_risk = NULL;
	}
	if (req->tier != WALL_NONE && req->tier != w->tier) {
		w->tier = req->tier;
		w->accept_risk = is_operator ? req->accept_risk : NULL;
		w->tier_by = is_operator ? "the operator, in the request" : "the request";
		return 0; /* policy may refuse it: no risk is accepted unless the operator says so
			   */
	}
	if (w->tier != WALL_NONE && !w->accept_risk) {
		str_fmt(w->risk, sizeof(w->risk), "the operator's choice: %s", w->tier_by);
		w->accept_risk = w->risk;
	}
	return 0;
}

static void choose_limits(struct want *w)
{
	const struct plan_limits *asked = &w->req->limits;
	struct plan_limits *l = &w->limits;

	*l = w->says.limits;
	if (asked->memory_bytes)
		l->memory_bytes = asked->memory_bytes;
	if (asked->disk_bytes)
		l->disk_bytes = asked->disk_bytes;
	if (asked->cpu_milli)
		l->cpu_milli = asked->cpu_milli;
	if (asked->pids)
		l->pids = asked->pids;
	l->cpu_weight = asked->cpu_weight;
	l->memory_asked = l->memory_bytes != 0;
	l->disk_asked = l->disk_bytes != 0;
	l->cpus_asked = l->cpu_milli != 0;
	l->pids_asked = l->pids != 0;
}

static int choose_net(struct want *w, struct hub_fail *f)
{
	const struct hub_network *n = &w->req->network;

	w->net = (enum net_mode)w->says.net;
	if (w->net == NET_HOST && n->deny_internet)
		w->net = NET_LOOPBACK;
	if (w->net == NET_HOST &&
		((n->allow_out && n->allow_out[0]) || (n->deny_out && n->deny_out[0])))
		return hub_fail(f, HUB_UNSUPPORTED,
			"this template has the host's network: rules about addresses cannot be "
			"enforced on it");
	return 0;
}

static int check_mounts(struct hub *hub, struct want *w, struct hub_fail *f)
{
	const struct hub_create *req = w->req;

	if (req->mount_count > MOUNTS_MAX)
		return hub_fail(f, HUB_INVALID, "more than %d mounts", MOUNTS_MAX);
	if (!req->mount_count)
		return 0;
	w->mount_paths = calloc(req->mount_count, sizeof(*w->mount_paths));
	if (!w->mount_paths)
		return hub_fail(f, HUB_INTERNAL, "out of memory");
	for (unsigned i = 0; i < req->mount_count; i++) {
		int r = mount_check(
			hub->config, hub->state_dir, &req->mounts[i], w->mount_paths[i], f);

		if (r < 0)
			return r;
		w->mounts[i] = (struct plan_mount){ w->mount_paths[i], req->mounts[i].dst,
			req->mounts[i].mode };
	}
	return 0;
}

/* A template, or a snapshot: a tenant's name for one hides no template of the operator's. */
static int find_template(struct hub *hub, struct want *w, struct hub_fail *f)
{
	int r;

	w->from = w->req->from;
	if (w->from)
		return str_copy(w->used, sizeof(w->used), w->from->used);
	r = hub_template_find(hub, w->who, w->asked, w->used, f);
	if (r == 0 || !w->who || f->code != HUB_NOT_FOUND)
		return r;
	r = snap_open(hub, w->who, w->asked, &w->opened, f);
	if (r < 0)
		return r;
	w->from = &w->opened;
	return str_copy(w->used, sizeof(w->used), w->from->used);
}

/* What it goes on from cannot become larger or smaller, or get another wall. */
static int follow_snapshot(struct want *w, struct hub_fail *f)
{
	const struct plan_limits *asked = &w->req->limits, *is = &w->from->limits;

	if ((asked->memory_bytes && asked->memory_bytes != is->memory_bytes) ||
		(asked->disk_bytes && asked->disk_bytes != is->disk_bytes) ||
		(asked->cpu_milli && asked->cpu_milli != is->cpu_milli))
		return hub_fail(f, HUB_INVALID,
			"a snapshot has the memory, disk and CPUs that it was taken with");
	if (w->req->tier != WALL_NONE && w->req->tier != w->from->tier)
		return hub_fail(f, HUB_INVALID, "this snapshot was taken in the %s tier",
			wall_name(w->from->tier));
	if (w->req->mount_count)
		return hub_fail(f, HUB_UNSUPPORTED, "what goes on from a snapshot gets no mounts");
	if (w->tier != w->from->tier) {
		w->tier = w->from->tier;
		w->tier_by = "the snapshot";
		w->accept_risk = NULL;
	}
	w->limits = *is;
	/* These are the operator's, of today. */
	memcpy(w->limits.io_rate, w->says.limits.io_rate, sizeof(w->limits.io_rate));
	w->limits.boot_ms = w->says.limits.boot_ms;
	w->limits.memory_asked = is->memory_bytes != 0;
	w->limits.disk_asked = is->disk_bytes != 0;
	w->limits.cpus_asked = is->cpu_milli != 0;
	w->limits.pids_asked = is->pids != 0;
	return 0;
}

static int check_all(struct hub *hub, struct want *w, struct hub_fail *f)
{
	int r = find_template(hub, w, f);

	if (r < 0)
		return r;
	config_for(hub->config, w->used, &w->says, &w->tier_by);
	r = check_env(w->req, f);
	if (r == 0)
		r = network_check(&w->req->network, f);
	if (r == 0)
		r = timeout_check(hub, w->req->timeout_ms, w->says.timeout_ms, &w->timeout_ms, f);
	if (r == 0)
		r = choose_tier(hub, w, f);
	if (r == 0)
		r = choose_net(w, f);
	if (r == 0)
		r = check_mounts(hub, w, f);
	choose_limits(w);
	if (r == 0 && w->from)
		r = follow_snapshot(w, f);
	return r;
}

int want_make(struct hub *hub, const struct hub_caller *who, const struct hub_create *req,
	struct want *w, struct hub_fail *f)
{
	int r;

	*w = (struct want){ .who = who, .req = req };
	w->asked = req->template && req->template[0] ? req->template : hub->config->template;
	r = check_all(hub, w, f);
	if (r < 0)
		want_done(w);
	return r;
}

void want_done(struct want *w)
{
	free(w->mount_paths);
	w->mount_paths = NULL;
	if (w->from == &w->opened)
		snap_from_done(&w->opened);
	w->from = NULL;
}

bool want_fits_pool(const struct hub *hub, const struct want *w)
{
	const struct hub_create *req = w->req;

	(void)hub;
	/* A mount, the size of the disk and the kind of network are made with the sandbox. */
	return !req->no_pool && !w->from && req->tier == WALL_NONE && !req->accept_risk &&
	       req->mount_count == 0 && req->limits.disk_bytes == 0 &&
	       w->net == (enum net_mode)w->says.net && !traits_any_set(&req->traits);
}

void want_mold(const struct want *w, char out[WANT_MOLD_MAX])
{
	const struct plan_limits *l = &w->says.limits;

	str_fmt(out, WANT_MOLD_MAX, "%d %d %d %llu %llu %lu %lu", (int)w->tier, (int)w->net,
		(int)w->traits.tenants, (unsigned long long)l->memory_bytes,
		(unsigned long long)l->disk_bytes, (unsigned long)l->cpu_milli,
		(unsigned long)l->pids);
}

static int fill_tokens(const struct want *w, struct sandbox *sb)
{
	int r = 0;

	if (w->req->secure)
		r = token_make(sb->envd_token, TOKEN_HEX);
	if (r == 0 && w->req->network.private_ports)
		r = token_make(sb->traffic_token, TOKEN_HEX);
	return r;
}

static int fill_pairs(const struct want *w, struct sandbox *sb, struct hub_fail *f)
{
	const struct hub_create *req = w->req;
	bool own_env = req->env_count || !w->from;
	int r;

	pairs_done(&sb->metadata);
	pairs_done(&sb->env);
	network_done(&sb->network);
	r = pairs_make(&sb->metadata, req->metadata, req->metadata_count, HUB_METADATA_MAX,
		HUB_METADATA_BYTES_MAX);
	if (r == -E2BIG)
		return hub_fail(f, HUB_INVALID, "metadata is more than %d pairs or %d bytes",
			HUB_METADATA_MAX, HUB_METADATA_BYTES_MAX);
	if (r == 0)
		r = pairs_make(&sb->env, own_env ? req->env : w->from->env.list,
			own_env ? req->env_count : w->from->env.count, HUB_ENV_MAX,
			HUB_ENV_BYTES_MAX);
	if (r == -E2BIG)
		return hub_fail(f, HUB_INVALID,
			"the environment is more than %d variables or %d bytes", HUB_ENV_MAX,
			HUB_ENV_BYTES_MAX);
	if (r == 0)
		r = network_make(&sb->network, &req->network);
	if (r == -E2BIG)
		return hub_fail(f, HUB_INVALID, "the network settings are too long");
	return r < 0 ? hub_fail(f, HUB_INTERNAL, "out of memory") : 0;
}

int want_fill(const struct want *w, struct sandbox *sb, struct hub_fail *f)
{
	const struct hub_create *req = w->req;
	const struct snap_from *from = w->from;
	const char *user = req->user ? req->user : from && from->user ? from->user : w->says.user;
	const char *workdir = req->workdir            ? req->workdir
			      : from && from->workdir ? from->workdir
						      : w->says.workdir;
	int r = fill_pairs(w, sb, f);

	if (r < 0)
		return r;
	if (text_set(&sb->template_asked, w->asked) < 0 ||
		text_set(&sb->template_used, w->used) < 0 ||
		text_set(&sb->tier_by, w->tier_by) < 0 || text_set(&sb->user, user) < 0 ||
		text_set(&sb->workdir, workdir) < 0 || fill_tokens(w, sb) < 0)
		return hub_fail(f, HUB_INTERNAL, "out of memory");
	sb->timeout_ms = w->timeout_ms;
	sb->on_timeout = req->on_timeout;
	sb->auto_resume = req->auto_resume;
	str_copy(sb->trace, sizeof(sb->trace), w->who ? w->who->trace : "");
	return 0;
}
