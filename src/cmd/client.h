/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_CLIENT_H
#define WARD_CMD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "front/jin.h"

/*
 * The daemon, for commands: HTTP over its unix socket. A command that needs it fails with one line
 * that says how to start one.
 */
struct client;

/* @tenant: for whom; NULL: "default". -ENOTCONN when no daemon listens. */
int client_open(const struct globals *g, const char *tenant, struct client **ret, struct err *e);
void client_close(struct client *c);

/*
 * One request below /ward/v1 with an answer that fits into memory. @body is JSON, or NULL. An
 * answer that is no success is -EREMOTEIO (-ENOENT for 404) with the daemon's own words. @ret may
 * be NULL.
 */
int client_call(struct client *c, const char *method, const char *path, const struct buf *body,
	struct jin **ret, struct err *e);

/* --- For commands that stream --- */

typedef void CURL;
struct curl_slist;

/* A request that the caller drives; its headers go with it. Freed with client_easy_free(). */
struct client_easy {
	CURL *curl;
	struct curl_slist *headers;
};
int client_easy(struct client *c, const char *method, const char *path, const char *type,
	struct client_easy *ret, struct err *e);
void client_easy_free(struct client_easy *h);
/* What a status and the body of an error mean. */
int client_error(long status, const char *body, size_t len, struct err *e);

/* The id in a path: letters and digits only, so that nothing of it needs an escape. */
int client_path(char *out, size_t cap, const char *id, const char *rest, struct err *e);
/* Adds a name to a path; its slashes stay. */
void client_escape(struct buf *path, const char *value);
/* Adds "key=value", escaped, behind @first ('?' or '&'). */
void client_query(struct buf *path, char first, const char *key, const char *value);

#endif
