/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/auth.c - who may.
 *
 * Owns:  the checks of keys, tokens and signatures.
 * Rules: secrets are compared in constant time and never said back. A sandbox that does not exist
 *        and one that is not yours look the same: the hub answers that, not this file.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/str.h"
#include "front/auth.h"
#include "front/call.h"
#include "front/e2b/sign.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/route.h"
#include "wire/text.h"

enum { USER_NAME_MAX = 64, BASIC_MAX = 512 };

static const char *key_of(struct wire_req *q)
{
	const char *key = wire_header(q, "X-API-KEY");
	const char *bearer = key ? NULL : wire_header(q, "Authorization");

	if (key || !bearer)
		return key;
	return strncasecmp(bearer, "Bearer ", 7) == 0 ? bearer + 7 : NULL;
}

static void watch_key(struct call *c);

/*
 * A key that was revoked since ends the streams that it opened. What has not begun to answer ends
 * by itself, unless its body is what lasts.
 */
static void on_key_again(void *ctx)
{
	struct call *c = ctx;
	struct hub_caller who = c->who;
	bool lasts = wire_reply_started(c->q) || c->route->body == BODY_OWN;

	if (lasts && hub_authenticate(c->front->hub, key_of(c->q), &who, NULL) < 0)
		wire_reply_abort(c->q);
	else
		watch_key(c);
}

/* Without memory for that, the stream lives on: the key opens nothing else. */
static void watch_key(struct call *c)
{
	loop_timer_set(
		c->front->loop, &c->timers[CALL_TIMER_KEY], FRONT_KEY_AGAIN_MS, on_key_again, c);
}

static bool is_own_socket(struct wire_req *q)
{
	const struct wire_peer *peer = wire_peer(q);

	return peer->is_unix && (peer->uid == 0 || peer->uid == geteuid());
}

static bool check_key(struct call *c)
{
	const char *key = key_of(c->q);
	struct hub_fail f = { 0 };
	int r;

	if (!key && is_own_socket(c->q))
		r = hub_operator(wire_header(c->q, "X-Ward-Tenant"), &c->who, &f);
	else if (key)
		r = hub_authenticate(c->front->hub, key, &c->who, &f);
	else
		r = hub_fail(&f, HUB_UNAUTHENTICATED,
			"a key is missing: send it as X-API-KEY; `ward key create` makes one");
	if (r < 0)
		call_fail_hub(c, &f);
	else if (key)
		watch_key(c);
	return r == 0;
}

/* An address, or the name that is never looked up elsewhere. */
static bool is_local_name(const char *host)
{
	return !*host || strcasecmp(host, "localhost") == 0 || *host == '[' || strchr(host, ':') ||
	       host[strspn(host, "0123456789.")] == '\0';
}

/*
 * Does this very host ask? Its address is not enough: a proxy here speaks for others, and so does a
 * browser that was told that some name on the net means 127.0.0.1.
 */
static bool is_loopback(struct wire_req *q)
{
	return is_own_socket(q) ||
	       (wire_peer(q)->is_loopback && is_local_name(wire_host(q)) &&
		       !wire_header(q, "X-Forwarded-For") && !wire_header(q, "Forwarded"));
}

/* Names only: what a client writes here becomes a field of the agent's protocol, and "0:0" means
 * something there. */
static bool is_user_name(const char *s)
{
	size_t n = strlen(s);

	if (n < 1 || n > USER_NAME_MAX || *s == '-')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("._-", *s))
			return false;
	return true;
}

/* "Basic dXNlcjo=": the name before the colon. */
static const char *basic_user(struct call *c)
{
	const char *value = wire_header(c->q, "Authorization");
	const char *text = value && strncasecmp(value, "Basic ", 6) == 0 ? value + 6 : NULL;
	char *out;
	ssize_t n;

	if (!text || strlen(text) > BASIC_MAX)
		return NULL;
	out = wire_req_alloc(c->q, BASE64_BYTES(strlen(text)) + 1);
	n = out ? base64_decode(text, strlen(text), out) : -1;
	if (n < 0 || memchr(out, '\0', (size_t)n))
		return out ? "" : NULL; /* nobody's name */
	out[n] = '\0';
	out[strcspn(out, ":")] = '\0';
	return out;
}

/* As whom: said by the client, else the sandbox's own. */
static bool find_user(struct call *c, const struct hub_box *box)
{
	bool rpc = c->route->body == BODY_RPC || c->route->body == BODY_STREAM;
	const char *asked = rpc ? basic_user(c) : call_query(c, "username");

	if (!asked || (!*asked && !rpc))
		asked = box->user;
	else if (!is_user_name(asked)) {
		c->style = rpc ? STYLE_RPC : c->style;
		call_fail(c, 401, "there is no such user in the sandbox");
		return false;
	}
	if (asked) {
		char *copy = call_alloc(c, strlen(asked) + 1);

		if (!copy)
			return false;
		memcpy(copy, asked, strlen(asked) + 1);
		c->user = copy;
	}
	return true;
}

static void signed_text(const struct call *c, struct sign *s)
{
	const char *path = call_query(c, "path"), *user = call_query(c, "username");

	*s = (struct sign){ .path = path ? path : "",
		.op = wire_method(c->q) == WIRE_POST ? "write" : "read",
		.user = user ? user : "",
		.expires = call_query(c, "signature_expiration") };
}

static bool is_expired(const struct sign *s)
{
	uint64_t at;

	return s->expires &&
	       (parse_u64(s->expires, 0, UINT64_MAX, &at) < 0 || at < (uint64_t)time(NULL));
}

static bool check_signature(struct call *c, const char *token)
{
	const char *given = call_query(c, "signature");
	struct sign s;

	if (!given) {
		call_fail(c, 401, "an X-Access-Token or a signature is missing");
		return false;
	}
	signed_text(c, &s);
	if (!sign_matches(&s, token, given))
		call_fail(c, 401, "the signature does not hold");
	else if (is_expired(&s))
		call_fail(c, 401, "the signature has expired");
	else
		return true;
	return false;
}

static bool check_token(struct call *c, const struct hub_box *box)
{
	const char *given = wire_header(c->q, "X-Access-Token");

	if (!box->envd_token)
		return true; /* made without one, on request */
	if (given) {
		if (secret_eq(given, box->envd_token))
			return true;
	} else if (c->route->auth == AUTH_SIGNED) {
		return check_signature(c, box->envd_token);
	}
	if (c->route->body == BODY_RPC || c->route->body == BODY_STREAM)
		c->style = STYLE_RPC;
	call_fail(c, 401,
		given ? "the X-Access-Token does not belong to this sandbox"
		      : "an X-Access-Token is missing");
	return false;
}

static bool check_traffic(struct call *c, const struct hub_box *box)
{
	const char *given = wire_header(c->q, "E2b-Traffic-Access-Token");

	if (!box->traffic_token || (given && secret_eq(given, box->traffic_token)))
		return true;
	call_fail(c, 403,
		given ? "the traffic access token does not belong to this sandbox"
		      : "this sandbox takes traffic with its access token only");
	return false;
}

/* The sandbox plane: what is asked for is the sandbox's own secret, and no tenant. */
static bool check_plane(struct call *c)
{
	struct hub_fail f = { 0 };
	struct hub_box box;

	c->who.is_plane = true;
	if (hub_find(c->front->hub, &c->who, c->id, &box, &f) < 0) {
		call_fail_hub(c, &f);
		return false;
	}
	if (box.state == HUB_STOPPED || box.state == HUB_FAILED || box.state == HUB_READY) {
		hub_fail(&f, HUB_NOT_FOUND, "the sandbox was not found");
		call_fail_hub(c, &f);
		return false;
	}
	switch (c->route->auth) {
	case AUTH_TOKEN:
	case AUTH_SIGNED:
		return check_token(c, &box) && find_user(c, &box);
	case AUTH_TRAFFIC:
		return check_traffic(c, &box) && find_user(c, &box);
	default:
		return true;
	}
}

bool auth_check(struct call *c)
{
	bool ok = true;

	if (c->route->plane != PLANE_CONTROL)
		ok = check_plane(c);
	else if (c->route->auth == AUTH_KEY)
		ok = check_key(c);
	else if (c->route->auth == AUTH_METRICS)
		ok = (!key_of(c->q) && is_loopback(c->q)) || check_key(c);
	if (!ok)
		c->front->failures++;
	else
		hub_caller_trace(&c->who, wire_header(c->q, "traceparent"));
	return ok;
}

struct search {
	struct call *c;
	struct sign s;
	const char *given, *token;
};

static bool try_token(void *arg, const struct hub_box *box)
{
	struct search *t = arg;

	if (!box->envd_token || !(t->token ? secret_eq(t->token, box->envd_token)
					   : sign_matches(&t->s, box->envd_token, t->given)))
		return false;
	return str_copy(t->c->id, sizeof(t->c->id), box->id) == 0;
}

bool auth_find_signed(struct call *c)
{
	struct search t = { .c = c,
		.given = call_query(c, "signature"),
		.token = wire_header(c->q, "X-Access-Token") };

	signed_text(c, &t.s);
	c->port = 49983;
	if (hub_each_live(c->front->hub, try_token, &t))
		return true;
	call_fail(c, str_eq(wire_path(c->q), "/health") ? 502 : 401,
		"no sandbox knows this token or signature");
	return false;
}
