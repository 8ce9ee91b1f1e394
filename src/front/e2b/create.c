/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/create.c - POST /sandboxes, and PUT .../network, which shares its words.
 *
 * Owns:  the reading of NewSandbox and of network settings.
 * Rules: a field that asks for a wall which is not there is refused by name, never ignored; fields
 *        that nobody knows are.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/own.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/boxes.h"
#include "front/e2b/control.h"
#include "front/e2b/handlers.h"
#include "front/e2b/dict.h"
#include "front/e2b/self.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/route.h"
#include "template/account.h"

enum { TIMEOUT_V1_S = 15, TIMEOUT_V2_S = 300, TIMEOUT_MAX_S = 366 * 24 * 3600 };

struct names {
	const char *items[HUB_NETWORK_RULES_MAX + 1];
};

static int read_names(const struct jin *o, const char *key, struct names *out,
	const char *const **ret, struct err *e)
{
	const struct jin *list = NULL;
	int r = jin_list(o, key, &list, e);
	size_t n = jin_len(list);

	if (r <= 0)
		return r;
	if (n > HUB_NETWORK_RULES_MAX)
		return err_say(e, EINVAL, "field '%s' has more than %d entries", key,
			HUB_NETWORK_RULES_MAX);
	for (size_t i = 0; i < n; i++)
		if (jin_str_at(list, key, i, &out->items[i], e) < 0)
			return -EINVAL;
	out->items[n] = NULL;
	*ret = out->items;
	return 1;
}

/* Servers inside are spoken to without TLS. */
static int refuse_https(const struct jin *net, struct err *e)
{
	const struct jin *list = NULL;
	int r = jin_list(net, "httpsPorts", &list, e);

	if (r > 0 && jin_len(list))
		return err_say(e, EOPNOTSUPP,
			"'httpsPorts' is not supported: ward speaks plain HTTP to servers in a "
			"sandbox");
	return r < 0 ? r : 0;
}

static bool says_something(const struct jin *o)
{
	own_mem char *text = o ? jin_dump(o) : NULL;

	return text && !str_eq(text, "{}");
}

/* Nothing here can rewrite requests, or send them through a proxy: saying yes would be a lie. */
static int refuse_rules(const struct jin *net, struct err *e)
{
	static const char *const fields[] = { "rules", "egressProxy" };

	for (size_t i = 0; i < 2; i++) {
		const struct jin *o = NULL;
		int r = jin_obj(net, fields[i], &o, e);

		if (r < 0)
			return r;
		if (says_something(o))
			return err_say(e, EOPNOTSUPP,
				"'%s' is not supported: ward has no gateway "
				"that could do it",
				fields[i]);
	}
	return 0;
}

/* The fields that create and update share; @lists keeps what @ret points to. */
static int read_network(
	const struct jin *net, struct names lists[2], struct hub_network *ret, struct err *e)
{
	bool open = true;
	int r = refuse_rules(net, e);

	if (r == 0)
		r = refuse_https(net, e);
	if (r == 0)
		r = read_names(net, "allowOut", &lists[0], &ret->allow_out, e);
	if (r >= 0)
		r = read_names(net, "denyOut", &lists[1], &ret->deny_out, e);
	if (r >= 0)
		r = jin_bool(net, "allowPublicTraffic", &open, e);
	if (r >= 0)
		r = jin_str(net, "maskRequestHost", &ret->mask_host, e);
	ret->private_ports = !open;
	return r < 0 ? r : 0;
}

/* What was read, with the memory it lies in. */
struct wish {
	struct jin *doc;
	struct dict metadata, env;
	struct hub_pair metadata_pairs[FRONT_PAIRS_MAX], env_pairs[FRONT_PAIRS_MAX];
	struct names lists[2];
	struct hub_create q;
};

static void wish_destroy(struct wish *w)
{
	if (!w)
		return;
	dict_done(&w->metadata);
	dict_done(&w->env);
	jin_destroy(w->doc);
	free(w);
}

static int read_pairs(const struct jin *o, const char *key, struct dict *p, struct hub_pair *out,
	unsigned *ret_count, struct err *e)
{
	int r = jin_each_str(o, key, FRONT_PAIRS_MAX, dict_add_each, p, e);

	for (size_t i = 0; r > 0 && i < p->count; i++)
		out[i] = (struct hub_pair){ p->names[i], p->values[i] };
	*ret_count = (unsigned)p->count;
	return r < 0 ? r : 0;
}

static int read_timeout(const struct jin *o, int64_t fallback_s, int64_t *ret_ms, struct err *e)
{
	int64_t s = fallback_s;
	int r = jin_i64(o, "timeout", 1, TIMEOUT_MAX_S, &s, e);

	*ret_ms = s * 1000;
	return r < 0 ? r : 0;
}

static int refuse_unsupported(const struct jin *o, struct err *e)
{
	const struct jin *list = NULL, *iam = NULL, *tokens = NULL;
	int r = jin_list(o, "volumeMounts", &list, e);

	if (r >= 0 && jin_len(list))
		return err_say(e, EOPNOTSUPP, "'volumeMounts' is not supported");
	if (r >= 0)
		r = jin_obj(o, "iam", &iam, e);
	if (r >= 0)
		r = jin_obj(iam, "tokens", &tokens, e);
	if (r >= 0 && says_something(tokens))
		return err_say(e, EOPNOTSUPP, "'iam' is not supported");
	return r < 0 ? r : 0;
}

/* Only a template of the operator's own can have the program that clients start next. */
static int refuse_mcp(const struct jin *o, const char *means, struct err *e)
{
	const struct jin *mcp = NULL;
	int r = jin_obj(o, "mcp", &mcp, e);

	if (r > 0 && str_eq(means, "host"))
		return err_say(e, EOPNOTSUPP,
			"'mcp' needs a template that has the program mcp-gateway: make one, and "
			"name "
			"it in [alias] of ward.toml");
	return r < 0 ? r : 0;
}

static int read_lifecycle(const struct jin *o, struct hub_create *q, struct err *e)
{
	const struct jin *resume = NULL;
	bool pause = false;
	int r = jin_bool(o, "autoPause", &pause, e);

	if (r >= 0)
		r = jin_obj(o, "autoResume", &resume, e);
	if (r >= 0)
		r = jin_bool(resume, "enabled", &q->auto_resume, e);
	q->on_timeout = pause ? HUB_TIMEOUT_PAUSE : HUB_TIMEOUT_KILL;
	return r < 0 ? r : 0;
}

static int read_wish(struct wish *w, bool v2, struct err *e)
{
	const struct jin *net = NULL;
	struct hub_create *q = &w->q;
	bool internet = true;
	int r = jin_str(w->doc, "templateID", &q->template, e);

	if (r >= 0)
		r = read_timeout(w->doc, v2 ? TIMEOUT_V2_S : TIMEOUT_V1_S, &q->timeout_ms, e);
	if (r == 0)
		r = read_lifecycle(w->doc, q, e);
	if (r == 0)
		r = read_pairs(
			w->doc, "metadata", &w->metadata, w->metadata_pairs, &q->metadata_count, e);
	if (r == 0)
		r = read_pairs(w->doc, "envVars", &w->env, w->env_pairs, &q->env_count, e);
	if (r == 0)
		r = refuse_unsupported(w->doc, e);
	if (r == 0)
		r = jin_bool(w->doc, "allow_internet_access", &internet, e);
	if (r >= 0)
		r = jin_obj(w->doc, "network", &net, e);
	if (r >= 0)
		r = read_network(net, w->lists, &q->network, e);
	q->secure = v2;
	if (r == 0 && !v2)
		r = jin_bool(w->doc, "secure", &q->secure, e);
	q->network.deny_internet = !internet;
	q->metadata = w->metadata_pairs;
	q->env = w->env_pairs;
	return r < 0 ? r : 0;
}

/* The host's own programs come with an account that clients expect; a template brings its own. */
static int look_at_template(struct call *c, struct wish *w, struct err *e)
{
	struct hub_create *q = &w->q;
	const char *asked = q->template && *q->template ? q->template : NULL;
	char means[TEMPLATE_NAME_MAX + 1] = "";

	if (hub_template_find(c->front->hub, &c->who, asked, means, NULL) == 0 &&
		str_eq(means, "host"))
		q->user = ACCOUNT_NAME;
	return refuse_mcp(w->doc, means, e);
}

/* What is kept and given back, but opens nothing, is said. */
static void put_notice(struct call *c, const struct hub_box *box)
{
	if (box->network.allow_out)
		wire_reply_header(c->q, "Ward-Notice",
			"this host has no gateway yet: nothing gets out, and allowOut opens "
			"nothing");
}

static void on_created(
	void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct call *c = arg;
	own_buf struct buf b = { 0 };

	if (call_verb_failed(c, fail))
		return;
	self_write(c->front, &c->who, box);
	put_notice(c, box);
	buf_init(&b, FRONT_JSON_MAX);
	box_json_sandbox(&b, box, hub_domain(c->front->hub));
	call_json(c, 201, &b);
}

void e2b_create(struct call *c)
{
	struct wish *w = calloc(1, sizeof(*w));
	struct err e = { 0 };
	bool v2 = str_after(wire_path(c->q), "/v2/") != NULL;

	if (!w) {
		call_fail_memory(c);
		return;
	}
	if (call_parse(c, &w->doc) && !call_failed(c, read_wish(w, v2, &e), &e) &&
		!call_failed(c, look_at_template(c, w, &e), &e))
		c->verb = hub_create(c->front->hub, &c->who, &w->q, on_created, c);
	wish_destroy(w);
}

static void on_network(
	void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct call *c = arg;

	if (call_verb_failed(c, fail))
		return;
	put_notice(c, box);
	call_empty(c, 204);
}

void e2b_network(struct call *c)
{
	own_jin struct jin *doc = NULL;
	own_mem struct names *lists = calloc(2, sizeof(*lists));
	struct hub_network net = { 0 };
	const char *id = control_id(c);
	bool internet = true;
	struct err e = { 0 };
	int r;

	if (!id)
		return;
	if (!lists) {
		call_fail_memory(c);
		return;
	}
	if (!call_parse(c, &doc))
		return;
	r = read_network(doc, lists, &net, &e);
	if (r == 0)
		r = jin_bool(doc, "allow_internet_access", &internet, &e);
	net.deny_internet = !internet;
	if (!call_failed(c, r, &e))
		c->verb = hub_set_network(c->front->hub, &c->who, id, &net, on_network, c);
}
