/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/route.c - which handler a request is for.
 *
 * Owns:  the table, which is made of the two routes.def.
 * Rules: a path is cut at its slashes before anything in it is decoded, so an escaped slash stays
 *        part of a name.
 */
#include <string.h>

#include "base/ckd.h"
#include "front/e2b/handlers.h"
#include "front/rest/handlers.h"
#include "front/route.h"
#include "wire/query.h"

static const struct route routes[] = {
#define ROUTE(plane, method, pattern, handler, auth, body)                                         \
	{ PLANE_##plane, WIRE_##method, pattern, handler, AUTH_##auth, BODY_##body, true },
#include "front/e2b/routes.def"
#undef ROUTE
#define ROUTE(plane, method, pattern, handler, auth, body)                                         \
	{ PLANE_##plane, WIRE_##method, pattern, handler, AUTH_##auth, BODY_##body, false },
#include "front/rest/routes.def"
#undef ROUTE
};

bool route_match(const char *pattern, const char *path, char *room, size_t cap, const char **args,
	unsigned max)
{
	unsigned n = 0;

	while (*pattern) {
		bool rest = strncmp(pattern, "{*}", 3) == 0;

		if (rest || strncmp(pattern, "{}", 2) == 0) {
			size_t len = rest ? strlen(path) : strcspn(path, "/");
			int r = len && n < max
					? percent_decode(path, len, PERCENT_PLUS_KEEP, room, cap)
					: -1;

			if (r < 0)
				return false;
			args[n++] = room;
			room += r + 1;
			cap -= (size_t)r + 1;
			path += len;
			pattern += rest ? 3 : 2;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return *path == '\0';
}

enum route_found route_find(enum plane plane, enum wire_method method, const char *path, char *room,
	size_t cap, const char **args, unsigned max, const struct route **ret)
{
	enum route_found found = ROUTE_NO_PATH;

	if (method == WIRE_HEAD)
		method = WIRE_GET; /* wire drops the body */
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		const struct route *r = &routes[i];

		if (r->plane != plane || !route_match(r->pattern, path, room, cap, args, max))
			continue;
		if (r->method == method) {
			*ret = r;
			return ROUTE_OK;
		}
		found = ROUTE_NO_METHOD;
	}
	return found;
}
