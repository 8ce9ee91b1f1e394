/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/where.c - whom a request on the shared port is for.
 *
 * Owns:  the order in which that is told: headers, Host, signature, else the control plane.
 * Rules: pure.
 */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "front/e2b/where.h"

enum { HOST_LABEL_MAX = 63 };

/* Decimal, 1 to 65535, without a sign or a leading zero. */
static bool read_port(const char *text, size_t len, uint16_t *ret)
{
	uint32_t n = 0;

	if (len < 1 || len > 5 || text[0] == '0')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (uint32_t)(text[i] - '0');
	}
	if (n > 65535)
		return false;
	*ret = (uint16_t)n;
	return true;
}

bool where_id(const char *text, size_t len, char out[ID_LEN + 1])
{
	const char *dash = memchr(text, '-', len);

	if (dash)
		len = (size_t)(dash - text);
	for (size_t i = 0; i < len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789", text[i]) || !text[i])
			return false;
	/* What could be an id elsewhere names no sandbox here, and is no mistake of the client. */
	out[0] = '\0';
	if (len == ID_LEN) {
		memcpy(out, text, len);
		out[len] = '\0';
	}
	return len > 0;
}

/* "PORT-ID.rest" or "PORT-ID-anything.rest": 1 yes, 0 no such name, -1 close to it but wrong. */
static int from_host(struct where *w, const char *host)
{
	size_t digits = strspn(host, "0123456789");
	size_t label = strcspn(host, ".:");

	char lower[HOST_LABEL_MAX];

	if (!digits || host[digits] != '-' || host[label] != '.')
		return 0;
	if (label > sizeof(lower) || !read_port(host, digits, &w->port))
		return -1;
	/* A name of a host is the same in capitals. */
	for (size_t i = 0; i < label; i++)
		lower[i] = (char)tolower((unsigned char)host[i]);
	return where_id(lower + digits + 1, label - digits - 1, w->id) ? 1 : -1;
}

static void bad(struct where *w, const char *why)
{
	w->kind = WHERE_BAD;
	w->why = why;
}

void where_find(struct where *ret, const char *id, const char *port, const char *host,
	const char *path, bool has_secret)
{
	int r;

	*ret = (struct where){ .kind = WHERE_SANDBOX };
	if (id || port) {
		if (!id || !port)
			bad(ret, "E2b-Sandbox-Id and E2b-Sandbox-Port go together");
		else if (!where_id(id, strlen(id), ret->id))
			bad(ret, "E2b-Sandbox-Id is no sandbox id");
		else if (!read_port(port, strlen(port), &ret->port))
			bad(ret, "E2b-Sandbox-Port is no port");
		return;
	}
	r = host ? from_host(ret, host) : 0;
	if (r < 0)
		bad(ret, "the host name holds no port and sandbox id");
	else if (r == 0)
		ret->kind = has_secret && (str_eq(path, "/files") || str_eq(path, "/health"))
				    ? WHERE_SIGNED
				    : WHERE_CONTROL;
}
