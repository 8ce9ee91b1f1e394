/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_ROUTE_H
#define WARD_FRONT_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/server.h"

struct call;

/* Who is asked. */
enum plane {
	PLANE_CONTROL, /* the daemon */
	PLANE_ENVD,    /* files and processes of one sandbox */
	PLANE_INTERP,  /* its code interpreter */
	PLANE_PORT,    /* any other port of it */
};

/* What a request must show. */
enum route_auth {
	AUTH_NONE,
	AUTH_KEY,     /* a key, or the unix socket */
	AUTH_METRICS, /* a key, the unix socket, or loopback */
	AUTH_TOKEN,   /* the sandbox's own token */
	AUTH_SIGNED,  /* that, or a signature */
	AUTH_TRAFFIC, /* the traffic token, where the sandbox has one */
};

/* How the body comes. */
enum route_body {
	BODY_NONE,
	BODY_JSON,   /* whole, FRONT_JSON_MAX */
	BODY_RPC,    /* whole, one message */
	BODY_STREAM, /* one message in an envelope; the answer is a stream */
	BODY_OWN,    /* the handler's business */
};

struct route {
	enum plane plane;
	enum wire_method method;
	const char *
		pattern; /* "/sandboxes/{}": each {} is one segment; "{*}" at the end is the rest */
	void (*handler)(struct call *c);
	enum route_auth auth;
	enum route_body body;
	bool cors;
};

/*
 * Does @path (as it came, still escaped) match? The captured segments are decoded into @room, @args
 * has @max of them.
 */
bool route_match(const char *pattern, const char *path, char *room, size_t cap, const char **args,
	unsigned max);

enum route_found { ROUTE_OK, ROUTE_NO_PATH, ROUTE_NO_METHOD };

/* Finds the row; with a path that exists under another method only, ROUTE_NO_METHOD. */
enum route_found route_find(enum plane plane, enum wire_method method, const char *path, char *room,
	size_t cap, const char **args, unsigned max, const struct route **ret);

#endif
