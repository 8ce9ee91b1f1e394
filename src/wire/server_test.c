/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/server_test.c - what the API promises to a handler, in one process with its client.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"
#include "loop/loop.h"
#include "wire/limits.h"
#include "wire/proxy.h"
#include "wire/server.h"

struct world {
	struct loop *loop;
	struct wire_server *server;
	char path[64];
	int client;
	void (*handle)(struct world *w, struct wire_req *q);
	struct wire_req *q; /* the last one, NULL after its end */
	bool inside;        /* a wire_ function is running: no callback may */
	int begun, ended, bodies, ends, drains, wholes;
	int body_r;
	enum wire_end how;
	size_t body_len;
	char answer[1 << 20];
	size_t answer_len;
};

#define CALL(w, call)                                                                              \
	do {                                                                                       \
		(w)->inside = true;                                                                \
		call;                                                                              \
		(w)->inside = false;                                                               \
	} while (0)

static void on_body(void *ctx, struct wire_req *q, const void *data, size_t len)
{
	struct world *w = ctx;

	(void)q;
	assert_false(w->inside);
	assert_non_null(data);
	w->bodies++;
	w->body_len += len;
}

static void on_body_end(void *ctx, struct wire_req *q, int r)
{
	struct world *w = ctx;

	(void)q;
	assert_false(w->inside);
	w->ends++;
	w->body_r = r;
}

static void on_drained(void *ctx, struct wire_req *q)
{
	struct world *w = ctx;

	(void)q;
	assert_false(w->inside);
	w->drains++;
}

static void on_ended(void *ctx, struct wire_req *q, enum wire_end how)
{
	struct world *w = ctx;

	assert_false(w->inside);
	w->ended++;
	w->how = how;
	if (w->q == q)
		w->q = NULL;
	/* Too late for all of these, and harmless. */
	assert_int_equal(wire_reply_start(q, 200, 0), -EPIPE);
	assert_int_equal(wire_reply_write(q, "x", 1), -EPIPE);
	wire_reply_end(q);
	wire_body_pause(q);
	wire_body_resume(q);
	wire_reply_abort(q);
}

static const struct wire_events events = { on_body, on_body_end, on_drained, on_ended };

static void on_request(void *ctx, struct wire_req *q)
{
	struct world *w = ctx;

	w->begun++;
	w->q = q;
	wire_on(q, &events, w);
	w->handle(w, q);
}

static void turns(struct world *w, int n)
{
	for (int i = 0; i < n; i++) {
		ssize_t got;

		assert_int_equal(loop_turn(w->loop, 5, NULL), 0);
		while (w->client >= 0 &&
			(got = recv(w->client, w->answer + w->answer_len,
				 sizeof(w->answer) - 1 - w->answer_len, MSG_DONTWAIT)) > 0)
			w->answer_len += (size_t)got;
		w->answer[w->answer_len] = '\0';
	}
}

static void say(struct world *w, const char *text)
{
	assert_int_equal(send(w->client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	turns(w, 4);
}

static void dial(struct world *w)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	assert_int_equal(str_copy(un.sun_path, sizeof(un.sun_path), w->path), 0);
	w->client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(w->client, (struct sockaddr *)&un, sizeof(un)), 0);
	w->answer_len = 0;
}

static struct world *make(void (*handle)(struct world *w, struct wire_req *q))
{
	struct world *w = calloc(1, sizeof(*w));
	struct wire_config config = { .request = on_request, .ctx = w };

	assert_non_null(w);
	w->handle = handle;
	assert_int_equal(
		str_fmt(w->path, sizeof(w->path), "/tmp/ward-wire-test-%d", (int)getpid()), 0);
	assert_int_equal(loop_create(&w->loop, NULL), 0);
	assert_int_equal(wire_server_create(w->loop, &config, &w->server, NULL), 0);
	assert_int_equal(wire_listen_unix(w->server, w->path, 0600, NULL), 0);
	dial(w);
	return w;
}

static void unmake(struct world *w)
{
	struct stat st;

	wire_server_destroy(w->server);
	assert_int_equal(w->begun, w->ended);
	assert_int_equal(lstat(w->path, &st), -1);
	if (w->client >= 0)
		close(w->client);
	loop_destroy(w->loop);
	free(w);
}

#define GET "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST3 "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"

/* ---- the rules ---- */

static void handle_all_at_once(struct world *w, struct wire_req *q)
{
	CALL(w, assert_int_equal(wire_body_accept(q, 100), 0));
	CALL(w, assert_int_equal(wire_body_accept(q, 100), -EALREADY));
	CALL(w, assert_int_equal(wire_reply_header(q, "X-A", "b"), 0));
	CALL(w, assert_int_equal(wire_reply_start(q, 200, -1), 0));
	CALL(w, assert_int_equal(wire_reply_start(q, 500, 0), -EALREADY));
	CALL(w, assert_int_equal(wire_reply_header(q, "X-B", "c"), -EALREADY));
	CALL(w, assert_int_equal(wire_reply_write(q, "hello", 5), 0));
	CALL(w, wire_reply_end(q));
	CALL(w, assert_int_equal(wire_reply_write(q, "more", 4), -EPIPE));
	assert_int_equal(w->ended, 0);
}

static void no_callback_inside_a_call(void **state)
{
	struct world *w = make(handle_all_at_once);

	(void)state;
	say(w, POST3 "abc");
	assert_int_equal(w->ended, 1);
	assert_int_equal(w->how, WIRE_DONE);
	assert_non_null(strstr(w->answer, "X-A: b\r\n"));
	assert_null(strstr(w->answer, "X-B"));
	assert_non_null(strstr(w->answer, "\r\n5\r\nhello\r\n0\r\n\r\n"));
	unmake(w);
}

static void handle_abort(struct world *w, struct wire_req *q)
{
	CALL(w, wire_reply_abort(q));
	CALL(w, wire_reply_abort(q));
	CALL(w, wire_reply_text(q, 200, "not any more"));
	assert_int_equal(w->ended, 0);
}

static void abort_ends_without_an_answer(void **state)
{
	struct world *w = make(handle_abort);

	(void)state;
	say(w, GET);
	assert_int_equal(w->ended, 1);
	assert_int_equal(w->how, WIRE_ABORTED);
	assert_int_equal(w->answer_len, 0);
	unmake(w);
}

static void handle_nothing(struct world *w, struct wire_req *q)
{
	(void)w;
	(void)q;
}

static void server_that_ends_ends_its_requests(void **state)
{
	struct world *w = make(handle_nothing);

	(void)state;
	say(w, GET);
	assert_int_equal(w->begun, 1);
	assert_int_equal(w->ended, 0);
	unmake(w); /* compares */
}

static void hang_up_is_told_once(void **state)
{
	struct world *w = make(handle_nothing);

	(void)state;
	say(w, GET);
	close(w->client);
	w->client = -1;
	turns(w, 4);
	assert_int_equal(w->ended, 1);
	assert_int_equal(w->how, WIRE_GONE);
	unmake(w);
}

/* ---- bodies ---- */

static void pause_holds_everything(void **state)
{
	struct world *w = make(handle_nothing);

	(void)state;
	say(w, POST3 "ab");
	assert_int_equal(w->bodies, 0); /* nobody has asked for it */
	CALL(w, wire_body_pause(w->q));
	CALL(w, wire_body_accept(w->q, 3));
	say(w, "c");
	assert_int_equal(w->bodies + w->ends, 0);
	CALL(w, wire_body_resume(w->q));
	assert_int_equal(w->bodies, 0);
	turns(w, 3);
	assert_int_equal(w->body_len, 3);
	assert_int_equal(w->ends, 1);
	assert_int_equal(w->body_r, 0);
	CALL(w, wire_reply_text(w->q, 200, "fine"));
	turns(w, 3);
	assert_non_null(strstr(w->answer, "fine\n"));
	unmake(w);
}

static void handle_pause_inside(struct world *w, struct wire_req *q)
{
	(void)w;
	wire_body_accept(q, UINT64_MAX);
	wire_body_pause(q);
}

/* A hang-up is noticed though the body is paused and unread. */
static void hang_up_while_paused(void **state)
{
	struct world *w = make(handle_pause_inside);

	(void)state;
	say(w, POST3 "ab");
	close(w->client);
	w->client = -1;
	turns(w, 4);
	assert_int_equal(w->bodies, 0);
	assert_int_equal(w->ended, 1);
	assert_int_equal(w->how, WIRE_GONE);
	unmake(w);
}

static void on_whole(void *ctx, struct wire_req *q, const char *data, size_t len, int r)
{
	struct world *w = ctx;

	assert_false(w->inside);
	assert_int_equal(data[len], 0);
	w->wholes++;
	w->body_r = r;
	wire_reply(q, r < 0 ? wire_status_of(r) : 200, "text/plain", data, len);
}

static size_t held_by(struct world *w)
{
	struct wire_stats n;

	wire_server_stats(w->server, &n);
	assert_int_equal(n.queued, 0);
	return n.held;
}

/* A body that is collected counts with what its handler holds. */
static void handle_hold(struct world *w, struct wire_req *q)
{
	assert_true(wire_hold(q, WIRE_HOLD_MAX - 10));
	assert_false(wire_hold(q, 11));
	assert_true(wire_hold(q, 10));
	assert_int_equal(held_by(w), WIRE_HOLD_MAX);
	wire_release(q);
	assert_int_equal(held_by(w), 0);
	assert_true(wire_hold(q, WIRE_HOLD_MAX - 2));
	CALL(w, wire_body_whole(q, 1000, on_whole));
}

static void what_is_held_is_counted(void **state)
{
	struct world *w = make(handle_hold);

	(void)state;
	say(w, POST3 "abc");
	assert_int_equal(w->body_r, -ENOBUFS);
	assert_non_null(strstr(w->answer, " 503 "));
	assert_int_equal(held_by(w), 0);
	unmake(w);
}

static void handle_whole(struct world *w, struct wire_req *q)
{
	int r = 0;

	CALL(w, r = wire_body_whole(q, 3, on_whole));
	if (r < 0)
		wire_reply_text(q, wire_status_of(r), "too long");
}

static void whole_bodies(void **state)
{
	static const struct {
		const char *request, *answer;
		int wholes, r;
	} cases[] = {
		{ POST3 "abc", "\r\n\r\nabc", 1, 0 },
		{ GET, "200 OK", 1, 0 },
		{ "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd", " 413 ", 0, 0 },
		{ "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		  "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n",
			" 413 ", 1, -EMSGSIZE },
		{ "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
			" 400 ", 1, -EPROTO },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world *w = make(handle_whole);

		say(w, cases[i].request);
		if (!strstr(w->answer, cases[i].answer) || w->wholes != cases[i].wholes ||
			w->body_r != cases[i].r)
			fail_msg("case %zu: %d %s", i, w->body_r, w->answer);
		assert_int_equal(w->ends, 0);
		unmake(w);
	}
}

/* ---- replies ---- */

static void full_and_drained(void **state)
{
	static char piece[65536];
	struct world *w = make(handle_nothing);
	int r = 0, writes = 0;

	(void)state;
	say(w, GET);
	CALL(w, wire_reply_start(w->q, 200, -1));
	while (r == 0 && writes < 1000) {
		CALL(w, r = wire_reply_write(w->q, piece, sizeof(piece)));
		writes++;
	}
	assert_int_equal(r, 1);
	assert_true(wire_reply_queued(w->q) >= WIRE_REPLY_HIGH);
	assert_true(writes <= 2 + WIRE_REPLY_HIGH / (int)sizeof(piece));
	assert_int_equal(w->drains, 0);
	for (int i = 0; i < 100 && !w->drains; i++) {
		turns(w, 1);
		w->answer_len = 0;
	}
	assert_int_equal(w->drains, 1);
	assert_true(wire_reply_queued(w->q) <= WIRE_REPLY_LOW);
	CALL(w, wire_reply_end(w->q));
	turns(w, 10);
	assert_int_equal(w->ended, 1);
	unmake(w);
}

static void wrong_lengths_are_cut(void **state)
{
	static const struct {
		const char *text;
		int64_t length;
		enum wire_end how;
	} cases[] = {
		{ "hello", 5, WIRE_DONE },
		{ "hello", 6, WIRE_ABORTED },
		{ "hello", 4, WIRE_ABORTED },
		{ "", 0, WIRE_DONE },
		{ "", -1, WIRE_DONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world *w = make(handle_nothing);

		say(w, GET);
		CALL(w, wire_reply_start(w->q, 200, cases[i].length));
		CALL(w, wire_reply_write(w->q, cases[i].text, strlen(cases[i].text)));
		CALL(w, wire_reply_end(w->q));
		turns(w, 4);
		assert_int_equal(w->ended, 1);
		assert_int_equal(w->how, cases[i].how);
		unmake(w);
	}
}

static void files_are_closed_whatever_happens(void **state)
{
	struct world *w = make(handle_nothing);
	int fds[3];

	(void)state;
	say(w, GET);
	for (int i = 0; i < 3; i++)
		fds[i] = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	/* Before a start, beyond the length, and queued when the end comes. */
	CALL(w, assert_int_equal(wire_reply_file(w->q, fds[0], 0, 5), -EPIPE));
	CALL(w, wire_reply_start(w->q, 200, 5));
	CALL(w, assert_int_equal(wire_reply_file(w->q, fds[1], 0, 5), 0));
	CALL(w, assert_int_equal(wire_reply_file(w->q, fds[2], 0, 1), -EPIPE));
	turns(w, 4);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fcntl(fds[i], F_GETFD), -1);
	unmake(w);
}

static void headers_have_limits(void **state)
{
	static const struct {
		const char *name, *value;
		int want;
	} cases[] = {
		{ "X-A", "b", 0 },
		{ "X-A", "", 0 },
		{ "X-A", "\xc3\xa9\t", 0 },
		{ "Date", "now", 0 },
		{ "", "b", -EINVAL },
		{ "X A", "b", -EINVAL },
		{ "X-A:", "b", -EINVAL },
		{ "X-A", "b\r\nX-B: c", -EINVAL },
		{ "X-A", "b\nc", -EINVAL },
		{ "X-A", "\x7f", -EINVAL },
		{ "content-length", "5", -EINVAL },
		{ "Transfer-Encoding", "chunked", -EINVAL },
		{ "Connection", "close", -EINVAL },
		{ "Upgrade", "x", -EINVAL },
	};
	static char huge[WIRE_REPLY_HEAD_MAX];
	struct world *w = make(handle_nothing);
	int r = 0, n = 0;

	(void)state;
	memset(huge, 'x', sizeof(huge) - 1);
	say(w, GET);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (wire_reply_header(w->q, cases[i].name, cases[i].value) != cases[i].want)
			fail_msg("%s: %s", cases[i].name, cases[i].value);
	assert_int_equal(wire_reply_header(w->q, "X-Huge", huge), -ENOBUFS);
	while (r == 0 && n < 1000) {
		r = wire_reply_header(w->q, "X-Many", "y");
		n++;
	}
	assert_int_equal(r, -ENOBUFS);
	CALL(w, wire_reply_text(w->q, 200, "still fine"));
	turns(w, 4);
	assert_non_null(strstr(w->answer, "still fine\n"));
	assert_null(strstr(w->answer, "xxxx"));
	unmake(w);
}

static void arena_has_a_limit(void **state)
{
	struct world *w = make(handle_nothing);
	size_t total = 0;
	char *p;

	(void)state;
	say(w, GET);
	while ((p = wire_req_alloc(w->q, 1000)) && total < 10 * WIRE_REQ_ARENA_MAX) {
		assert_int_equal(p[0] + p[999], 0);
		memset(p, 1, 1000);
		total += 1000;
	}
	assert_true(total <= WIRE_REQ_ARENA_MAX);
	assert_null(wire_req_alloc(w->q, SIZE_MAX));
	unmake(w);
}

/* ---- the end ---- */

static void on_gone(void *ctx)
{
	++*(int *)ctx;
}

static void drain_is_told_once(void **state)
{
	struct world *w = make(handle_nothing);
	int gone = 0;

	(void)state;
	say(w, GET);
	wire_server_drain(w->server, 10000, on_gone, &gone);
	turns(w, 3);
	assert_int_equal(gone, 0);
	CALL(w, wire_reply_text(w->q, 200, "last"));
	turns(w, 3);
	assert_non_null(strstr(w->answer, "Connection: close"));
	close(w->client);
	w->client = -1;
	turns(w, 3);
	assert_int_equal(gone, 1);
	unmake(w);
}

static void listeners_of_others(void **state)
{
	struct world *w = make(handle_nothing);
	struct err e = { 0 };
	uint16_t port = 0;
	int pair[2];

	(void)state;
	assert_int_equal(wire_listen_unix(w->server, w->path, 0600, &e), -EADDRINUSE);
	assert_int_equal(wire_listen_unix(w->server, "/nonexistent/x", 0600, &e), -ENOENT);
	assert_int_equal(wire_listen_tcp(w->server, "localhost", 0, NULL, &port, &e), -EINVAL);
	assert_int_equal(wire_listen_tcp(w->server, "127.0.0.1", 0, NULL, &port, &e), 0);
	assert_true(port > 0);
	assert_int_equal(
		wire_listen_tcp(w->server, "127.0.0.1", port, NULL, NULL, &e), -EADDRINUSE);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(wire_listen_fd(w->server, pair[0], NULL, &e), -EINVAL);
	assert_int_equal(fcntl(pair[0], F_GETFD), -1); /* taken */
	close(pair[1]);
	unmake(w);
}

/* ---- the proxy over a stream that takes little at a time ---- */

struct stream {
	struct world *w;
	struct wire_proxy *proxy;
	char got[4096];
	size_t len, room, took;
	int shuts, closes;
};

static ssize_t stream_write(void *io, const void *data, size_t len)
{
	struct stream *s = io;
	size_t n = len < s->room ? len : s->room;

	assert_false(s->w->inside);
	memcpy(s->got + s->len, data, n);
	s->len += n;
	s->got[s->len] = '\0';
	s->room -= n;
	return (ssize_t)n;
}

static void stream_took(void *io, size_t bytes)
{
	struct stream *s = io;

	assert_false(s->w->inside);
	s->took += bytes;
}

static void stream_shut(void *io)
{
	struct stream *s = io;

	s->shuts++;
}

static void stream_close(void *io)
{
	struct stream *s = io;

	assert_false(s->w->inside);
	s->closes++;
	s->w->ended++;
}

static const struct wire_stream_ops stream_ops = { stream_write, stream_took, stream_shut,
	stream_close, NULL };

static void proxy_with_little_room(void **state)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more";
	struct world *w = make(handle_nothing);
	struct stream s = { .w = w, .room = 1 };

	(void)state;
	say(w, POST3 "abc");
	CALL(w, assert_int_equal(wire_proxy_start(w->q, &stream_ops, &s, NULL, &s.proxy, NULL), 0));
	assert_int_equal(s.len, 0); /* not from inside */
	for (int i = 0; i < 200 && !strstr(s.got, "\r\n\r\nabc"); i++) {
		s.room = 1;
		CALL(w, wire_proxy_writable(s.proxy));
		turns(w, 1);
	}
	assert_non_null(strstr(s.got, "\r\n\r\nabc"));
	for (size_t i = 0; i < sizeof(answer) - 1; i++)
		CALL(w, wire_proxy_input(s.proxy, answer + i, 1));
	turns(w, 4);
	assert_int_equal(s.took, sizeof(answer) - 1);
	assert_int_equal(s.closes, 1);
	assert_non_null(strstr(w->answer, "\r\n\r\nok"));
	assert_null(strstr(w->answer, "and more"));
	unmake(w);
}

static void proxy_that_is_pushed_too_much(void **state)
{
	static char head[] = "HTTP/1.1 200 OK\r\n\r\n", flood[65536];
	struct world *w = make(handle_nothing);
	struct stream s = { .w = w, .room = 4000 };

	(void)state;
	say(w, GET);
	assert_int_equal(wire_proxy_start(w->q, &stream_ops, &s, NULL, &s.proxy, NULL), 0);
	wire_proxy_input(s.proxy, head, sizeof(head) - 1);
	/* The client is never given a turn, and credit is not waited for. */
	for (int i = 0; i < 20; i++)
		wire_proxy_input(s.proxy, flood, sizeof(flood));
	turns(w, 4);
	assert_int_equal(s.closes, 1);
	unmake(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_callback_inside_a_call),
		cmocka_unit_test(abort_ends_without_an_answer),
		cmocka_unit_test(server_that_ends_ends_its_requests),
		cmocka_unit_test(hang_up_is_told_once),
		cmocka_unit_test(pause_holds_everything),
		cmocka_unit_test(hang_up_while_paused),
		cmocka_unit_test(whole_bodies),
		cmocka_unit_test(what_is_held_is_counted),
		cmocka_unit_test(full_and_drained),
		cmocka_unit_test(wrong_lengths_are_cut),
		cmocka_unit_test(files_are_closed_whatever_happens),
		cmocka_unit_test(headers_have_limits),
		cmocka_unit_test(arena_has_a_limit),
		cmocka_unit_test(drain_is_told_once),
		cmocka_unit_test(listeners_of_others),
		cmocka_unit_test(proxy_with_little_room),
		cmocka_unit_test(proxy_that_is_pushed_too_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
