/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_H1_H
#define WARD_WIRE_H1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/limits.h"

/*
 * HTTP/1.1 as RFC 9112 has it, read strictly: whatever two parsers could understand in two ways is
 * refused. Nothing here touches a socket.
 */
struct wire_field {
	const char *name, *value;
};

struct h1_head {
	/* A request: */
	const char *method, *target;
	/* A response: */
	unsigned status;
	const char *reason;

	unsigned minor; /* HTTP/1.0 or 1.1 */
	struct wire_field fields[WIRE_HEADERS_MAX];
	unsigned count;
	const char *host;    /* the Host header, or NULL */
	int64_t length;      /* Content-Length; -1 when there is none */
	bool chunked;        /* Transfer-Encoding: chunked */
	bool close;          /* the connection ends after this message */
	bool expects;        /* Expect: 100-continue */
	const char *upgrade; /* asked for and allowed; NULL: none */
};

/* Why a message is refused: the status to answer, and words for its body. */
struct h1_fault {
	unsigned status;
	const char *why;
};

/*
 * Looks for the end of a head in @len bytes of @data. *@seen keeps the place between calls and
 * begins at 0. The length of the head with its empty line, 0 when it is not complete, -1 with
 * @fault.
 */
int h1_head_end(const char *data, size_t len, size_t *seen, struct h1_fault *fault);
/*
 * Parses a whole head in place: @text is a private copy of @len bytes, into which NULs are written;
 * @h points into it. 0, or -1 with @fault.
 */
int h1_parse_request(struct h1_head *h, char *text, size_t len, struct h1_fault *fault);
int h1_parse_response(struct h1_head *h, char *text, size_t len, struct h1_fault *fault);

/*
 * The target of a request taken apart. @scheme and @authority are "" unless it is in absolute form.
 * All in place; the path is NUL-terminated there, so @target is no longer whole afterwards.
 */
struct h1_target {
	const char *authority, *path, *query;
};
int h1_split_target(
	char *target, const char *method, struct h1_target *ret, struct h1_fault *fault);

/* Is it a legal Host: name, IPv4 or [IPv6], perhaps with a port? "" is legal. */
bool h1_host_is_legal(const char *host);
/* Its name in lower case, without brackets and port; @out as large as @host. */
void h1_host_name(const char *host, char *out);

bool h1_is_token(const char *s);
/* No CR, LF, NUL or other control character but tab. */
bool h1_is_value(const char *s);
/* The next comma-separated word of *@list, without blanks around it; false at the end. */
bool h1_list_next(const char **list, const char **ret_word, size_t *ret_len);
bool h1_list_has(const char *list, const char *word);

/* A chunked body, taken apart. Zeroed is a good start. */
struct h1_chunks {
	unsigned state, digits, line, excess, trailer;
	uint64_t left;
};

enum h1_piece { H1_MORE, H1_DATA, H1_END };

/*
 * The next piece of *@data, which is moved on. H1_DATA: *@ret is a piece of the body; call again.
 * H1_MORE: all eaten. H1_END: the body is complete, and what is left belongs to something else.
 * -EPROTO.
 */
int h1_chunks_next(
	struct h1_chunks *c, const char **data, size_t *len, const char **ret, size_t *ret_len);

#endif
