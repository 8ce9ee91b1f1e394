/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_IMPL_H
#define WARD_WIRE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "loop/loop.h"
#include "wire/h1.h"
#include "wire/limits.h"
#include "wire/out.h"
#include "wire/server.h"

/*
 * What the files of wire/ share. A server has connections; a connection speaks HTTP/1.1, with at
 * most one request at a time, or HTTP/2, with many. A request hangs off its connection until
 * `ended`.
 *
 * All work on a connection happens in conn_work(): called by the loop for the socket, for the
 * timer, or for the deferred call that the wire_ functions arm. User callbacks run inside it, and
 * what they ask for is noted and done when they have returned. So nothing is freed under anyone's
 * feet.
 */
struct ssl_st;
struct ssl_ctx_st;
struct nghttp2_session;

struct listener {
	struct listener *next;
	struct wire_server *server;
	struct wire_tls *tls;
	struct loop_fd watch;
	int fd;
	char *path; /* a unix socket to remove, with the inode that must still be it */
	uint64_t dev, ino;
};

struct wire_server {
	struct loop *loop;
	struct wire_config config;
	struct listener *listeners;
	struct conn *conns;               /* all of them */
	struct conn *idle_old, *idle_new; /* those between two requests, longest idle first */
	struct loop_timer accept_retry, grace;
	struct loop_later gone; /* tells the end of a drain */
	void (*drained)(void *ctx);
	void *drained_ctx;
	bool draining, accept_off;
	struct wire_stats stats;
	size_t heads;    /* bytes of the heads of all HTTP/2 streams */
	size_t held_top; /* the most that requests held since memory was given back */
	int64_t date_s;  /* the second that @date is for */
	char date[40];
	char *scratch; /* WIRE_READ_BYTES, for whoever is reading */
};

enum conn_kind { CONN_TLS, CONN_NEW, CONN_H1, CONN_H2, CONN_RAW, CONN_LINGER };

struct conn {
	struct wire_server *server;
	struct conn *prev, *next;
	struct conn *idle_prev, *idle_next;
	struct loop_fd watch;
	struct loop_timer timer;
	struct loop_later later;
	enum conn_kind kind;
	int fd;
	struct ssl_st *ssl; /* NULL: plain */
	bool working;       /* inside conn_work() */
	bool is_idle;       /* in the server's list */
	bool doomed;        /* to be closed at the end of this work, with @how for its requests */
	bool eof;           /* the peer's direction is over */
	bool close_after;   /* no more requests */
	bool blocked;       /* the socket takes no more for now */
	bool tls_read_wants_write, tls_write_wants_read;
	bool shut; /* our direction is over */
	enum wire_end how;
	uint64_t in_ms, out_ms, since_ms; /* last byte in, last byte out, begin of this state */
	char *held;                       /* read, and not used up yet */
	size_t held_at, held_len, held_cap, head_seen;
	struct out out;
	unsigned requests, blanks;
	struct wire_req *dirty; /* whose owner called a wire_ function since the last look */

	/* HTTP/1.1: the request in progress, and the framing of its body, which may outlive it */
	struct wire_req *req;
	struct h1_chunks chunks;
	uint64_t body_left;
	bool body_chunked, body_open; /* open: more of it is to come */
	size_t dropped;               /* bytes of an unread body */

	/* HTTP/2 */
	struct h2 *h2;
	struct wire_peer peer;
};

struct arena_block {
	struct arena_block *next;
	_Alignas(max_align_t) char data[];
};

enum body_state {
	BODY_WAITING, /* nobody has asked for it */
	BODY_FLOWING,
	BODY_OVER, /* its end was told, or is nobody's business any more */
};

enum reply_state { REPLY_NONE, REPLY_OPEN, REPLY_ENDED };

struct wire_req {
	struct conn *conn;
	struct wire_req *dirty_next;

	const char *method_name, *path_raw, *path, *query, *authority, *host, *upgrade;
	struct wire_field *fields;
	uint64_t began_ns;
	struct arena_block *arena;
	size_t arena_bytes, holding;
	enum wire_method method;
	enum wire_version version;
	unsigned count; /* of @fields */

	bool is_dirty, expects;
	bool dead;                   /* `ended` is running, or has run */
	bool paused, body_whole_in;  /* whole_in: all of it has arrived */
	bool chunked, bodiless, raw; /* of the reply */
	bool full;                   /* a writer was told to wait */
	/* HTTP/2 */
	bool deferred, submitted, end_sent;
	bool begun; /* the head is complete; what follows are trailers */
	bool abort; /* asked for: reset the stream */

	const struct wire_events *on;
	void *ctx;

	/* The request's body */
	int64_t length; /* -1: not known */
	uint64_t body_max, body_got, in_ms;
	void (*whole)(void *ctx, struct wire_req *q, const char *data, size_t len, int r);
	struct buf whole_data;
	enum body_state body;
	uint32_t body_ms; /* how long it may stall; 0: for ever */
	int body_fault;   /* -EPROTO, -EMSGSIZE, -ETIMEDOUT, -ENOBUFS, to be told */

	/* The reply */
	enum reply_state reply;
	unsigned status, head_count;
	struct buf head;                    /* name NUL value NUL ... */
	int64_t reply_declared, reply_left; /* length of its body, and the rest; -1: not known */
	size_t drain_at;                    /* after @full: queued bytes from which it goes on */

	/* HTTP/2 */
	struct wire_req *prev, *next; /* of the connection's streams */
	struct buf text;              /* the head as it arrives, name NUL value NUL ... */
	struct out out;               /* body of the reply */
	struct out held;              /* body of the request that was not delivered yet */
	uint64_t out_ms;
	int32_t stream;
	unsigned text_count, head_bytes;
	unsigned refuse;   /* a status, for a head that breaks a limit */
	enum wire_end end; /* when it closes with an error */
};

/* ---- req.c ---- */
struct wire_req *req_create(struct conn *c);
void req_destroy(struct wire_req *q);
enum wire_method req_method_of(const char *name);
/* Fills path, query, authority, host. @target and @host are in the request's own memory. */
int req_set_target(struct wire_req *q, char *target, const char *host, struct h1_fault *fault);
void *req_alloc(struct wire_req *q, size_t size);
/* Something was asked for: look at this request at the end of this turn. */
void req_touch(struct wire_req *q);
/* Calls `ended`, once, and destroys. */
void req_end(struct wire_req *q, enum wire_end how);

/* ---- body.c ---- */
bool body_is_wanted(const struct wire_req *q);
/* Delivers bytes to the handler; the length was checked. False: it is beyond the limit. */
bool body_deliver(struct wire_req *q, const char *data, size_t len);
void body_tell_end(struct wire_req *q, int r);

/* ---- reply.c ---- */
/* After a piece was sent: may a writer that was told to wait go on? Tells it. */
void reply_drained(struct wire_req *q);
/* Was a header of that name added? */
bool reply_has(const struct wire_req *q, const char *name);
const char *reply_date(struct wire_server *s);

/* ---- conn.c ---- */
int conn_create(struct wire_server *s, int fd, const struct wire_peer *peer, struct ssl_st *ssl);
void conn_destroy(struct conn *c, enum wire_end how);
/* At the end of this turn. */
void conn_touch(struct conn *c);
void conn_doom(struct conn *c, enum wire_end how);
void conn_note(struct conn *c, const char *text);
void conn_idle(struct conn *c, bool on);
/* Our last word is queued: close when the peer has read it. */
void conn_linger(struct conn *c);
/* Bytes that were read and could not be used yet. 0 or -ENOMEM */
int conn_hold(struct conn *c, const char *data, size_t len);
int conn_put(struct conn *c, const void *data, size_t len);

/* Looks at everything: sends, finishes, goes on with what was held. */
void conn_progress(struct conn *c);
/* The end of any work: frees the connection when it is doomed. */
void conn_work_end(struct conn *c);

/* ---- conn_time.c ---- */
/* Arms the timer for the next moment at which something must have happened. */
void conn_arm(struct conn *c);

/* ---- server.c ---- */
/* One connection less: room for another, or the end of a drain. */
void server_conn_gone(struct wire_server *s);

/* ---- transport.c ---- */
/* >0: bytes; 0: end of file; -EAGAIN; or another negative errno. */
ssize_t conn_read(struct conn *c, void *data, size_t len);
/* Sends from the front of the queue; 0, or a negative errno. Sets @blocked. */
int conn_flush(struct conn *c);
int conn_handshake(struct conn *c); /* 1: done, 0: later, negative: failed */
void conn_shut(struct conn *c);
/* Read, but not taken out of the TLS layer yet. */
bool conn_has_pending(const struct conn *c);

/* ---- tls.c ---- */
struct ssl_st *tls_accept(struct wire_tls *t, int fd);
void tls_free(struct ssl_st *ssl);
bool tls_is_h2(struct ssl_st *ssl);

/* ---- h1_conn.c ---- */
/* Uses what it can of the input, and says how much. */
size_t h1_input(struct conn *c, const char *data, size_t len);
bool h1_wants_input(const struct conn *c);
/* Wire's own answer to a request that no handler has seen, and the end of the connection. */
void h1_refuse(struct conn *c, unsigned status, const char *why);
/* After a flush: is the reply out? True when the connection has moved on. */
bool h1_settle(struct conn *c);
void h1_reply_start(struct wire_req *q, int64_t length);
int h1_reply_write(struct wire_req *q, const void *data, size_t len);
int h1_reply_file(struct wire_req *q, int fd, uint64_t offset, uint64_t len);
void h1_reply_end(struct wire_req *q);
void h1_continue(struct wire_req *q);
int h1_upgrade(struct wire_req *q, const char *protocol);

/* ---- h2_conn.c, h2_req.c ---- */
enum { H2_UNREAD_MAX = 32 };

struct h2 {
	struct nghttp2_session *ng;
	struct wire_req *streams;
	unsigned count;
	size_t held, owed; /* body bytes not delivered; and of these, not given back as window */
	size_t heads;      /* bytes of the heads of live streams */
	size_t queued;     /* bytes of replies that are not in frames yet */
	unsigned frames;   /* allowance for frames without data, thousandths */
	uint64_t frames_ms, check_ms;
	/* Streams that are answered while the peer still sends: reset after a while, oldest first
	 */
	struct {
		int32_t stream;
		uint64_t at_ms;
	} unread[H2_UNREAD_MAX];
	unsigned unread_count;
};

extern const char h2_preface[24];
int h2_create(struct conn *c);
void h2_destroy(struct conn *c, enum wire_end how);
/* 0, or a negative errno when the connection is over. Takes all of it. */
int h2_input(struct conn *c, const char *data, size_t len);
/* Fills the connection's queue; 1 when there is more than was put there. */
int h2_output(struct conn *c);
bool h2_is_over(const struct conn *c); /* nothing to read or write any more */
void h2_goaway(struct conn *c);
/* The streams' own times; the next moment to look at them, or 0. */
void h2_check(struct conn *c);
uint64_t h2_check_at(const struct conn *c);

/* The head is complete: checks it, and calls the handler. */
void h2_begin(struct wire_req *q, bool has_body);
/* What a request's owner asked for since the last look. */
void h2_serve(struct wire_req *q);
int h2_data(struct wire_req *q, const char *data, size_t len);
void h2_body_begin(struct wire_req *q); /* accepted: open the window */
void h2_stream_gone(struct wire_req *q, enum wire_end how);

#endif
