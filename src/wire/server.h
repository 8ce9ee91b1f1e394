/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_SERVER_H
#define WARD_WIRE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * An HTTP server on a loop: HTTP/1.1 and HTTP/2, over unix sockets, TCP and TLS.
 *
 * One struct wire_req is one request and its reply. It is handed to the server's `request` callback
 * when the head is complete and checked, and lives until its `ended` callback returns: called
 *exactly once, when the reply is out or cannot get out any more. After that the pointer is dead.
 *
 * Two rules make handlers easy to write:
 * - No callback is ever called from inside a wire_ function that you call; they come from the loop.
 * - Every wire_ function may be called until `ended`, also when the peer is already gone; what then
 *   makes no sense does nothing.
 *
 * A handler that answers at once:
 *
 *	static void on_request(void *ctx, struct wire_req *q)
 *	{
 *		wire_reply(q, 200, "text/plain", "hello\n", 6);
 *	}
 */
struct loop;
struct wire_server;
struct wire_req;
struct wire_tls;

struct wire_config {
	void (*request)(void *ctx, struct wire_req *q); /* required */
	void *ctx;
	/* One line about a connection that ended badly, for a debug log; may be NULL. */
	void (*note)(void *ctx, const char *text);
	const char *name;   /* the Server header; NULL: none */
	unsigned conns_max; /* 0: WIRE_CONNS_MAX; and the same for the times */
	unsigned head_ms, idle_ms, body_ms, write_ms;
};

/* Copies @config (its texts stay borrowed). */
int wire_server_create(
	struct loop *l, const struct wire_config *config, struct wire_server **ret, struct err *e);
/* Cuts every connection; every live request gets its `ended` before this returns. Not from inside a
 * callback of this server; wire_server_drain() may be. NULL is fine. */
void wire_server_destroy(struct wire_server *s);

/*
 * Listeners. A unix socket that is in the way is replaced when nobody listens on it any more, else
 * -EADDRINUSE; it is removed with the server. @host is a numeric address; port 0 picks one, told
 * through @ret_port (may be NULL). @tls is borrowed and may be NULL: plain.
 */
int wire_listen_unix(struct wire_server *s, const char *path, mode_t mode, struct err *e);
int wire_listen_tcp(struct wire_server *s, const char *host, uint16_t port, struct wire_tls *tls,
	uint16_t *ret_port, struct err *e);
/* Takes @fd, a listening socket (from systemd, say), also when this fails. */
int wire_listen_fd(struct wire_server *s, int fd, struct wire_tls *tls, struct err *e);

/*
 * Graceful end: stops listening, tells peers (GOAWAY, Connection: close), closes idle connections,
 * lets requests finish. @done when no connection is left, or after @grace_ms with the rest cut.
 */
void wire_server_drain(
	struct wire_server *s, uint64_t grace_ms, void (*done)(void *ctx), void *ctx);

struct wire_stats {
	uint64_t accepted, requests,
		refused; /* refused: answered by wire itself, with 4xx or 5xx */
	uint64_t bytes_in, bytes_out, timeouts;
	unsigned conns, live; /* now: connections, requests */
	size_t queued, held;  /* now: bytes of replies, and what wire_hold() counts */
};

void wire_server_stats(const struct wire_server *s, struct wire_stats *ret);

/*
 * TLS 1.2 and up, ALPN h2 and http/1.1. @cert is a PEM file with the chain, @key its key.
 * Reload reads both again: new connections get the new one; on failure the old one stays.
 */
int wire_tls_create(const char *cert, const char *key, struct wire_tls **ret, struct err *e);
int wire_tls_reload(struct wire_tls *t, struct err *e);
/* What clients will not like about the certificate: "has expired"; NULL: nothing. */
const char *wire_tls_trouble(const struct wire_tls *t);
void wire_tls_destroy(struct wire_tls *t);

/* ---- the request ---- */

enum wire_method { /* WIRE_OTHER: any other token, see wire_method_name(). CONNECT never arrives. */
	WIRE_GET,
	WIRE_HEAD,
	WIRE_POST,
	WIRE_PUT,
	WIRE_DELETE,
	WIRE_PATCH,
	WIRE_OPTIONS,
	WIRE_OTHER
};

enum wire_version { WIRE_HTTP10, WIRE_HTTP11, WIRE_HTTP2 };

struct wire_peer {
	bool is_unix, is_loopback, is_tls; /* is_loopback: TCP from 127.0.0.0/8 or ::1 */
	uid_t uid;                         /* unix: who connected */
	gid_t gid;
	pid_t pid;
	char addr[48]; /* TCP: "127.0.0.1", "::1"; unix: "" */
	uint16_t port;
};

/* Texts are good until `ended`. None is NULL unless that is said. */
enum wire_method wire_method(const struct wire_req *q);
const char *wire_method_name(const struct wire_req *q);
enum wire_version wire_version(const struct wire_req *q);
/* As it came ("/a%20b", always with a / in front, or "*" of OPTIONS), and percent-decoded (no NUL
 * inside; not normalized: ".." is still there). */
const char *wire_path_raw(const struct wire_req *q);
const char *wire_path(const struct wire_req *q);
/* After the ?, as it came; "" when there is none. See wire/query.h. */
const char *wire_query(const struct wire_req *q);
/* Host or :authority as it came, "" when an HTTP/1.0 request has none; and its name alone, in lower
 * case, without the port and the brackets of an IPv6 address. */
const char *wire_authority(const struct wire_req *q);
const char *wire_host(const struct wire_req *q);
/* The first header of that name (any case), or NULL. The value has no blanks around it. */
const char *wire_header(const struct wire_req *q, const char *name);
/* All of them, in order; names of HTTP/2 are in lower case. False past the end. */
bool wire_header_at(
	const struct wire_req *q, unsigned i, const char **ret_name, const char **ret_value);
/* Is @token one of the comma-separated words of that header, in any of its lines? */
bool wire_header_has(const struct wire_req *q, const char *name, const char *token);
const struct wire_peer *wire_peer(const struct wire_req *q);
/* When its head was complete, CLOCK_MONOTONIC. */
uint64_t wire_began_ns(const struct wire_req *q);
/* Zeroed memory that lives as long as the request; NULL past WIRE_REQ_ARENA_MAX. */
void *wire_req_alloc(struct wire_req *q, size_t size);
struct loop *wire_req_loop(const struct wire_req *q);

/* ---- events ---- */

enum wire_end {
	WIRE_DONE,    /* the whole reply is with the kernel */
	WIRE_GONE,    /* the peer closed, reset the stream, or broke the protocol */
	WIRE_TIMEOUT, /* the peer did not take the reply in time */
	WIRE_ABORTED, /* wire_reply_abort(), a file that got shorter, or the server's end */
};

struct wire_events { /* any may be NULL */
	/* Bytes of the request's body, or of an upgraded connection. */
	void (*body)(void *ctx, struct wire_req *q, const void *data, size_t len);
	/*
	 * The body is over, once. @r: 0, whole; -EMSGSIZE, longer than was accepted; -EPROTO,
	 * malformed; -ETIMEDOUT, it stalled; -ENOBUFS, see wire_hold(). After these an answer is
	 * still owed (wire_status_of()). A peer that goes away is told by `ended` alone.
	 */
	void (*body_end)(void *ctx, struct wire_req *q, int r);
	/* After a write said "full": the queue has room again. */
	void (*drained)(void *ctx, struct wire_req *q);
	/* Over. Free what is yours; @q is dead when this returns. */
	void (*ended)(void *ctx, struct wire_req *q, enum wire_end how);
};

/* Borrows @events (a static const table, usually). May be called again, to hand the request over.
 */
void wire_on(struct wire_req *q, const struct wire_events *events, void *ctx);

/* ---- the request's body ---- */

/* Nothing of the body is delivered, and no 100-continue sent, before one of these two is called. */

/* Declared length; 0 when there is no body; -1 when it is chunked (or HTTP/2 without a length). */
int64_t wire_body_length(const struct wire_req *q);
/*
 * Lets the body come, at most @max bytes of it. -EMSGSIZE at once when more than that is declared:
 * nothing is read, answer 413. With a body of nothing, body_end() comes all the same.
 */
int wire_body_accept(struct wire_req *q, uint64_t max);
/*
 * The same for bodies that are small: kept here, and given to @whole in one piece (also as a
 * string: a NUL follows), with @r as for body_end(). `body` and `body_end` are not called then.
 */
int wire_body_whole(struct wire_req *q, size_t max,
	void (*whole)(void *ctx, struct wire_req *q, const char *data, size_t len, int r));
/*
 * Memory that this request makes its handler hold, for as long as it lasts: counted over all
 * requests of the server. False: they hold too much already; answer 429 or 503. A body that is
 * collected (wire_body_whole) is counted by itself. Small ones always find room.
 */
bool wire_hold(struct wire_req *q, size_t bytes);
/* All that was counted for this request has been freed. */
void wire_release(struct wire_req *q);
/* How long the peer may send nothing of a body that is waited for, in place of the server's
 * body_ms; 0: for ever. For bodies that are conversations. */
void wire_body_patience(struct wire_req *q, uint32_t ms);
/* Back-pressure. No `body` or `body_end` between pause and resume. */
void wire_body_pause(struct wire_req *q);
void wire_body_resume(struct wire_req *q);

/* ---- the reply ---- */

/*
 * Adds a header to the reply, before it starts. Copies. -EINVAL: not a legal name or value (CR, LF,
 * NUL), or one that is wire's own business (Connection, Transfer-Encoding, Content-Length, ...);
 * -ENOBUFS: too many. The header is then not there, and the caller may go on.
 */
int wire_reply_header(struct wire_req *q, const char *name, const char *value);
/*
 * Status and headers. @length of the body, or -1 when it is not known: chunked, or until close for
 * HTTP/1.0. Of HEAD, 204 and 304 the body is dropped, whatever is written. -EALREADY when a reply
 * has begun.
 */
int wire_reply_start(struct wire_req *q, unsigned status, int64_t length);
/*
 * A piece of the body; copies what the socket does not take at once. Goes out by the end of this
 * turn of the loop. 0; 1 when the queue is full: taken all the same, but write no more until
 * `drained`; -EPIPE when nobody can get it any more (`ended` comes).
 */
int wire_reply_write(struct wire_req *q, const void *data, size_t len);
/*
 * @len bytes of a file from @offset on, behind what was written before. Takes @fd, also when this
 * fails. A file that turns out shorter cuts the connection (the length was promised).
 */
int wire_reply_file(struct wire_req *q, int fd, uint64_t offset, uint64_t len);
/* The body is complete. A start with a length, of which not all was written, is cut (WIRE_ABORTED).
 */
void wire_reply_end(struct wire_req *q);
/* Bytes that were written and are still here. */
size_t wire_reply_queued(const struct wire_req *q);
/* Start, body and end in one. @type may be NULL when @len is 0. */
void wire_reply(
	struct wire_req *q, unsigned status, const char *type, const void *data, size_t len);
/* An error text, "what failed\n" as text/plain. */
void wire_reply_text(struct wire_req *q, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Gives up: cuts the connection, or resets the stream; before a start, without any answer. */
void wire_reply_abort(struct wire_req *q);
/* Has wire_reply_start() been called? */
bool wire_reply_started(const struct wire_req *q);
/* What was started with, for a log; 0 before. */
unsigned wire_reply_status(const struct wire_req *q);
/* The status for what wire_body_accept() or body_end() said: 413, 400, 408. */
unsigned wire_status_of(int r);
const char *wire_status_text(unsigned status);

/*
 * Upgrade (HTTP/1.1 only): the protocol that the client asks for ("websocket"), or NULL. Answering
 * with wire_reply_upgrade() sends 101 and the headers added before; from then on the connection is
 * bytes: `body` has those of the peer (pause and resume hold), body_end(0) is its end of file,
 * wire_reply_write() sends, wire_reply_end() closes our direction. `ended` when both are over.
 */
const char *wire_upgrade_asked(const struct wire_req *q);
int wire_reply_upgrade(struct wire_req *q, const char *protocol);

#endif
