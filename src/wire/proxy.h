/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_PROXY_H
#define WARD_WIRE_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Passes one request on to an HTTP/1.1 server at the end of a byte stream (a port inside a
 * sandbox), and its answer back; WebSockets and other upgrades become a two-way pipe. The far side
 * is not trusted: its answer is parsed as strictly as a request.
 *
 * The stream is abstract. The proxy calls the ops, from the loop, never from inside a wire_proxy_
 * function; whoever owns the stream calls wire_proxy_input() and its like. `close` is called
 * exactly once, when the request has ended: the last thing that happens, after it the proxy is
 * gone.
 */
struct wire_req;
struct wire_proxy;

struct wire_stream_ops {
	/* Takes up to @len bytes; how many, 0 for none now (wire_proxy_writable() will come), or a
	 * negative errno when there is no way on. Copies what it takes. */
	ssize_t (*write)(void *io, const void *data, size_t len);
	/* @bytes of what was put in with wire_proxy_input() have been dealt with: give credit, read
	 * on. */
	void (*took)(void *io, size_t bytes);
	/* No more writes; the other direction goes on. */
	void (*shut)(void *io);
	/* All over, for whatever reason. The proxy is gone when this returns. */
	void (*close)(void *io);
	/* Optional. Answers the client when the far side does not behave (502, 504) or its body is
	 * too long (413); absent: one line of text. The one op that a wire_proxy_ function may
	 * call, wire_proxy_start() included. */
	void (*refuse)(void *io, struct wire_req *q, unsigned status, const char *why);
};

struct wire_proxy_options {      /* all may be 0 */
	const char *host;        /* Host for the far side; NULL: as the client sent it */
	const char *const *drop; /* headers that must not get there (keys), NULL-terminated */
	const char *const *add;  /* name, value, name, value, NULL: X-Forwarded-For, ... */
	const char *target;      /* path and query, escaped; NULL: the client's own */
	uint64_t body_max;       /* of the request; 0: no limit */
	uint64_t head_ms;        /* until the answer's head; 0: WIRE_PROXY_HEAD_MS */
};

/*
 * Takes the request over (wire_on()); before it, nothing of the body may have been accepted. Copies
 * what it needs of @options. Answers 502 or 504 by itself when the far side does not behave. On
 * failure (-ENOMEM, -EINVAL for an illegal option) nothing has happened, and the request is still
 * the caller's.
 */
int wire_proxy_start(struct wire_req *q, const struct wire_stream_ops *ops, void *io,
	const struct wire_proxy_options *options, struct wire_proxy **ret, struct err *e);
/*
 * From the stream. All of the input is taken; each byte of it is told to `took` sooner or later, so
 * that whoever pushes can hold back: more than WIRE_PROXY_HELD_MAX not yet taken ends the proxy.
 */
void wire_proxy_input(struct wire_proxy *p, const void *data, size_t len);
void wire_proxy_writable(struct wire_proxy *p);
/* The far side has closed its direction. */
void wire_proxy_eof(struct wire_proxy *p);
/* The stream is broken; @why is one line for the client when no answer has begun. */
void wire_proxy_failed(struct wire_proxy *p, const char *why);

#endif
