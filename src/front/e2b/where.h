/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_WHERE_H
#define WARD_FRONT_E2B_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

enum { PORT_ENVD = 49983, PORT_INTERPRETER = 49999 };

/* Whom a request is for. */
enum where_kind {
	WHERE_CONTROL, /* the daemon itself */
	WHERE_SANDBOX, /* a port of a sandbox */
	WHERE_SIGNED,  /* an address of a file, whose sandbox its signature or token must tell */
	WHERE_BAD,     /* it says half of what it must, or something that is no id or port */
};

struct where {
	enum where_kind kind;
	char id[ID_LEN + 1]; /* WHERE_SANDBOX; may name none that exists */
	uint16_t port;
	const char *why; /* WHERE_BAD */
};

/*
 * @id, @port: the headers E2b-Sandbox-Id and -Port, NULL when absent; @host: the Host, or
 * :authority;
 * @path without its query; @has_secret: there is a `signature` in the query, or a token (clients
 * before 2.9 send no more than that with files).
 */
void where_find(struct where *ret, const char *id, const char *port, const char *host,
	const char *path, bool has_secret);

/*
 * Copies a sandbox id out of @text, without the "-CLIENT" that old clients append. "" when it is
 * one that ward never makes; false when it is no id at all.
 */
bool where_id(const char *text, size_t len, char out[ID_LEN + 1]);

#endif
