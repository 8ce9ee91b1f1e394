/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/auth.c - what a registry asks for, and what we have to show.
 *
 * Owns:  nothing.
 * Rules: hostile input from the registry; credentials are never part of an error. What ends up in a
 *        header is visible ASCII, so that it cannot start a header of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <openssl/evp.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/auth.h"

static bool is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

/* A quoted string or a plain word; NULL when it is broken or does not fit. */
static const char *value(const char *p, char *out, size_t cap)
{
	bool quoted = *p == '"';
	size_t n = 0;

	for (p += quoted; *p && (quoted ? *p != '"' : *p != ',' && *p != ' '); p++) {
		if (quoted && *p == '\\' && p[1])
			p++;
		if (n + 1 >= cap)
			return NULL;
		out[n++] = *p;
	}
	out[n] = '\0';
	if (!quoted)
		return p;
	return *p == '"' ? p + 1 : NULL;
}

int challenge_parse(const char *text, struct challenge *ret, struct err *e)
{
	struct challenge c = { 0 };
	const char *p = strchr(text, ' ');

	while (p && *(p += strspn(p, " ,"))) {
		const char *key = p;
		char skipped[1024], *to = skipped;
		size_t len, cap = sizeof(skipped);

		while (is_token(*p))
			p++;
		len = (size_t)(p - key);
		if (!len || *p != '=')
			break; /* the next challenge, or nonsense */
		if (len == 5 && memcmp(key, "realm", 5) == 0)
			to = c.realm, cap = sizeof(c.realm);
		else if (len == 7 && memcmp(key, "service", 7) == 0)
			to = c.service, cap = sizeof(c.service);
		else if (len == 5 && memcmp(key, "scope", 5) == 0)
			to = c.scope, cap = sizeof(c.scope);
		p = value(p + 1, to, cap);
	}
	if (!p || !c.realm[0])
		return err_say(e, EBADMSG,
			"the registry asks for a token, but does not say well where to get it");
	*ret = c;
	return 0;
}

static bool is_visible(const char *s)
{
	for (; *s; s++)
		if (*s < '!' || *s > '~')
			return false;
	return true;
}

static int encode(const char *credential, char *ret, size_t cap, struct err *e)
{
	unsigned char out[4 * 1024];
	size_t len = strlen(credential);

	if (!strchr(credential, ':'))
		return err_say(e, EINVAL, "WARD_REGISTRY_AUTH is not USER:PASSWORD");
	if (len > sizeof(out) / 4 * 3 - 4)
		return err_say(e, E2BIG, "WARD_REGISTRY_AUTH is too long");
	EVP_EncodeBlock(out, (const unsigned char *)credential, (int)len);
	if (str_fmt(ret, cap, "Basic %s", (const char *)out) < 0)
		return err_say(e, E2BIG, "WARD_REGISTRY_AUTH is too long");
	return 1;
}

/* "HOST", or with https:// before and a slash or a version of the API after it. */
static bool key_is_host(const char *key, const char *host)
{
	const char *rest = str_after(key, "https://");
	size_t n = strlen(host);

	if (!rest)
		rest = key;
	if (strncmp(rest, host, n) != 0)
		return false;
	rest += n;
	return !*rest || str_eq(rest, "/") || str_eq(rest, "/v1/") || str_eq(rest, "/v2/");
}

static int config_path(char out[WARD_PATH_MAX])
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");

	if (dir && *dir)
		return str_fmt(out, WARD_PATH_MAX, "%s/config.json", dir);
	if (home && *home)
		return str_fmt(out, WARD_PATH_MAX, "%s/.docker/config.json", home);
	return -ENOENT;
}

static int from_json(const json_t *root, const char *host, char *ret, size_t cap)
{
	const json_t *auths = json_object_get(root, "auths");
	const char *key;
	json_t *one;

	/* The macro of jansson, spelled out: it casts const away. */
	for (void *it = json_object_iter((json_t *)auths); it;
		it = json_object_iter_next((json_t *)auths, it)) {
		const char *auth;

		key = json_object_iter_key(it);
		one = json_object_iter_value(it);
		auth = json_string_value(json_object_get(one, "auth"));
		if (!auth || !*auth || !key_is_host(key, host))
			continue;
		if (!is_visible(auth) || str_fmt(ret, cap, "Basic %s", auth) < 0)
			return -EBADMSG;
		return 1;
	}
	return 0;
}

static int from_file(const char *host, char *ret, size_t cap, struct err *e)
{
	char path[WARD_PATH_MAX];
	own_mem char *text = malloc(REGISTRY_CONFIG_MAX + 1);
	json_t *root;
	ssize_t n;
	int r;

	if (!text)
		return err_set(e, ENOMEM, "reading credentials");
	if (config_path(path) < 0)
		return 0;
	n = host_get(AT_FDCWD, path, text, REGISTRY_CONFIG_MAX + 1);
	if (n == -ENOENT || n == -ENOTDIR)
		return 0;
	if (n < 0)
		return err_set(e, (int)-n, "reading credentials from %s", path);
	root = json_loadb(text, (size_t)n, 0, NULL);
	r = root ? from_json(root, host, ret, cap) : -EBADMSG;
	json_decref(root);
	return r < 0 ? err_say(e, EBADMSG, "%s is not as `docker login` writes it", path) : r;
}

int credential_find(const char *host, const char *credential, char *ret, size_t cap, struct err *e)
{
	ret[0] = '\0';
	return credential && *credential ? encode(credential, ret, cap, e)
					 : from_file(host, ret, cap, e);
}

int token_parse(const struct buf *text, char *ret, size_t cap, struct err *e)
{
	json_t *j = json_loadb(text->data ? text->data : "", text->len, 0, NULL);
	const char *token = json_string_value(json_object_get(j, "token"));
	int r = 0;

	if (!token)
		token = json_string_value(json_object_get(j, "access_token"));
	if (!token || !*token || !is_visible(token) || str_fmt(ret, cap, "Bearer %s", token) < 0)
		r = err_say(e, EBADMSG, "the token server's answer holds no token");
	json_decref(j);
	return r;
}
