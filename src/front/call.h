/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_CALL_H
#define WARD_FRONT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/limits.h"
#include "front/e2b/rpc_code.h"
#include "front/jin.h"
#include "hub/hub.h"
#include "loop/loop.h"
#include "sup/link.h"
#include "wire/query.h"
#include "wire/server.h"

/*
 * One request on its way through a front. It lives in the request's own memory, and whatever it
 * waits for is given up when the client goes away: the verb is forgotten, calls on a link are
 * dropped, timers stop.
 */
struct front;
struct call;
struct route;
struct sink;

enum { CALL_ARGS_MAX = 3, CALL_LINKS_MAX = 4, CALL_TIMER_KEY = 2, CALL_TIMERS };

/* What an error looks like to this client. */
enum call_style {
	STYLE_REST,  /* {"code": 404, "message": ...} */
	STYLE_PLANE, /* the same with "sandboxId" and "port" */
	STYLE_RPC,   /* {"code": "not_found", "message": ...} */
	STYLE_TEXT,  /* one line of text */
};

struct call {
	struct front *front;
	struct wire_req *q;
	const struct route *route;
	enum call_style style;
	struct hub_caller who;
	char id[ID_LEN + 1]; /* the sandbox that the request names; "": none */
	uint16_t port;       /* sandbox plane */
	const char *args[CALL_ARGS_MAX];
	struct query query;
	const char *body; /* whole, with a NUL behind; good until the handler returns */
	size_t body_len;
	const char *user; /* sandbox plane: as whom; NULL: the sandbox's own */

	/* RPC that streams its answer. */
	bool stream;
	uint64_t timeout_ms; /* Connect-Timeout-Ms; 0: none */
	uint64_t keepalive_ms;
	const char *keepalive; /* what a keepalive says; NULL: there is none */

	struct hub_call *verb; /* set to NULL by whoever is called back */
	struct link_call *links[CALL_LINKS_MAX];
	struct loop_timer timers[CALL_TIMERS]; /* [0] is the keepalive's */
	uint64_t owed;     /* bytes taken from a link, not yet credited: the client is slow */
	struct sink *sink; /* files on their way in */
	struct buf *held;  /* bytes that a handler keeps; it frees them */
	void *state;       /* the handler's own */
	/* Any may be NULL. @ended: the handler's own cleanup; the rest is done after it. */
	void (*on_body)(struct call *c, const void *data, size_t len);
	void (*on_body_end)(struct call *c, int r);
	void (*on_drained)(struct call *c);
	void (*on_ended)(struct call *c);
};

/* Sets the events of the request; from here on @c ends by itself. */
void front_begin(struct call *c);
/* The request has been handed to somebody else: gives up all but what the handler keeps. */
void call_leave(struct call *c);
void *call_alloc(struct call *c, size_t size); /* zeroed, until the end; NULL: answered with 500 */
char *call_copy(struct call *c, const char *text); /* the same */

/* --- Answers; each is the last thing that a handler does ------------------------------------- */

void call_json(struct call *c, unsigned status, const struct buf *b);
void call_empty(struct call *c, unsigned status);
/* In the style of the request. @status is also the code of STYLE_REST. */
void call_fail(struct call *c, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void call_fail_rpc(struct call *c, enum rpc_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void call_fail_err(struct call *c, const struct err *e);
void call_fail_hub(struct call *c, const struct hub_fail *f);
/* For the callback of a verb: it is over. True: it failed, and that is answered. */
bool call_verb_failed(struct call *c, const struct hub_fail *fail);
void call_fail_link(struct call *c, const struct link_failed *f);
void call_fail_memory(struct call *c);
/* All requests together make the daemon hold too much (wire_hold()). */
void call_fail_busy(struct call *c);
/* A body of which @max bytes were wanted; @r is what wire_body_whole() or its callback said. */
void call_fail_body(struct call *c, int r, size_t max);
/* If @r is negative: answers with @e, and is true. */
bool call_failed(struct call *c, int r, const struct err *e);

/* --- Asking below ----------------------------------------------------------------------------- */

/* Reads the body as a JSON object; false: answered. The caller owns the document. */
bool call_parse(struct call *c, struct jin **ret);
const char *call_query(const struct call *c, const char *key); /* NULL: not there */

/* Is the request's sandbox running now? Wakes nothing; false: answered. */
bool call_box_runs(struct call *c);
/* The link to the request's sandbox: calls @go at once or later; failures are answered. */
void call_with_link(struct call *c, void (*go)(struct call *c, struct link *l));
/* As whom files are made, and whose home paths start at: root, where the sandbox names nobody. */
static inline const char *call_owner(const struct call *c)
{
	return c->user ? c->user : "0";
}
/* Opens a request of the agent as links[@i]; false: answered. */
bool call_request(struct call *c, unsigned i, struct link *l, const struct proto_request *q,
	const struct link_handler *h);
/* For handlers' `failed`: forgets which of the links it was. */
void call_link_over(struct call *c, const struct link_call *l);

/* Writes to the client and gives the link its credit back, at once or when the client has read. */
void call_pass(struct call *c, struct link_call *l, const void *data, size_t len, uint64_t cost);
/* The same for what was written in another way; @r is what wire_reply_write() said. */
void call_credit(struct call *c, struct link_call *l, uint64_t cost, int r);

/* --- RPC -------------------------------------------------------------------------------------- */

/* One message of a stream; starts the answer if it has not begun. What wire_reply_write() says. */
int call_message(struct call *c, const struct buf *json);
/* The end of a stream without an error. */
void call_stream_end(struct call *c);
/* Sends @json whenever nothing else was sent for the interval that the client asked for. */
void call_keepalive(struct call *c, const char *json);

#endif
