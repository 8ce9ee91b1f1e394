/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_HTTP_H
#define WARD_IMAGE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

/* GET by libcurl: https, or http where that is allowed; redirects are followed by hand. */
struct http;

struct http_request {
	const char *url;
	const char *accept;        /* NULL: none */
	const char *authorization; /* NULL: none; goes to the host of @url only, not to others */
	uint64_t max;              /* bytes of the body; one more is an error */
	/* Gets the body of a 200; another status has none. A negative errno ends it all. */
	int (*sink)(void *data, const void *bytes, size_t len, struct err *e);
	void *data;
};

struct http_answer {
	long status;
	char bearer[4096]; /* the WWW-Authenticate of each kind; empty: none */
	char basic[1024];
};

/*
 * Where plain http may lead. PLAIN_HERE is for a registry on this host; one elsewhere must not send
 * us to services that only this host can reach.
 */
enum http_plain { PLAIN_NOWHERE, PLAIN_HERE, PLAIN_ANYWHERE };

int http_create(enum http_plain plain, struct http **ret, struct err *e);
void http_destroy(struct http *h);
/* Any status is a success here, as long as there is one. */
int http_get(struct http *h, const struct http_request *q, struct http_answer *ret, struct err *e);

/* https anywhere, http where @plain says; no user in it. */
int http_url_check(const char *url, enum http_plain plain, struct err *e);
bool http_same_origin(const char *a, const char *b);

#endif
