/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_wire.c - a whole connection: what a client may send to the server, HTTP/1.1 or HTTP/2.
 *
 * Input: the first byte is the size of the pieces in which the rest is sent (times 4), 0 for all at
 * once; the second one says how the client ends. The handler does what the path says.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	struct loop *loop;
	struct wire_server *server;
	int begun, ended;
};

static void on_ended(void *ctx, struct wire_req *q, enum wire_end how)
{
	struct world *w = ctx;

	(void)how;
	/* All of these are allowed, and do nothing. */
	wire_reply_text(q, 500, "late");
	wire_body_resume(q);
	wire_reply_abort(q);
	w->ended++;
}

static void on_body(void *ctx, struct wire_req *q, const void *data, size_t len)
{
	(void)ctx;
	if (wire_reply_write(q, data, len) == 1)
		wire_body_pause(q);
}

static void on_body_end(void *ctx, struct wire_req *q, int r)
{
	(void)ctx;
	if (r < 0 && !wire_reply_started(q))
		wire_reply_text(q, wire_status_of(r), "no");
	else
		wire_reply_end(q);
}

static void on_drained(void *ctx, struct wire_req *q)
{
	(void)ctx;
	wire_body_resume(q);
}

static const struct wire_events events = { on_body, on_body_end, on_drained, on_ended };

static void on_whole(void *ctx, struct wire_req *q, const char *data, size_t len, int r)
{
	(void)ctx;
	if (data[len])
		abort();
	if (r < 0)
		wire_reply_text(q, wire_status_of(r), "no");
	else
		wire_reply(q, 200, "text/plain", data, len);
}

static void on_request(void *ctx, struct wire_req *q)
{
	struct world *w = ctx;
	const char *path = wire_path(q), *name, *value;

	w->begun++;
	wire_on(q, &events, w);
	for (unsigned i = 0; wire_header_at(q, i, &name, &value); i++)
		if (!h1_is_value(value) || !h1_is_token(name))
			abort();
	switch (path[0] ? path[1] : 0) {
	case 'e': /* echo */
		wire_reply_start(q, 200, -1);
		wire_body_accept(q, 100000);
		break;
	case 'w':
		if (wire_body_whole(q, 1000, on_whole) < 0)
			wire_reply_text(q, 413, "no");
		break;
	case 'h': /* hang */
		break;
	case 'a':
		wire_reply_start(q, 200, 10);
		wire_reply_write(q, "abc", 3);
		wire_reply_abort(q);
		break;
	case 's':
		wire_reply_start(q, 200, 10);
		wire_reply_end(q);
		break;
	case 'u':
		if (wire_reply_upgrade(q, "x") < 0)
			wire_reply_text(q, 426, "no");
		break;
	case 'p': /* accepted, and never read */
		wire_body_accept(q, 1000);
		wire_body_pause(q);
		break;
	case 'f':
		wire_reply_start(q, 200, 5);
		wire_reply_file(q, open("/proc/self/status", O_RDONLY | O_CLOEXEC), 0, 5);
		wire_reply_end(q);
		break;
	default:
		wire_reply(q, 200, "text/plain", "hello\n", 6);
	}
}

static void turns(struct world *w, int client, int n)
{
	char sink[65536];

	for (int i = 0; i < n; i++) {
		loop_turn(w->loop, 0, NULL);
		while (recv(client, sink, sizeof(sink), MSG_DONTWAIT) > 0)
			;
	}
}

static void client_sends(
	struct world *w, int client, const uint8_t *data, size_t size, size_t piece)
{
	for (size_t at = 0; at < size;) {
		size_t n = size - at < piece ? size - at : piece;
		ssize_t sent = send(client, data + at, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		turns(w, client, 2);
		if (sent <= 0)
			return;
		at += (size_t)sent;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = { 0 };
	struct wire_config config = { .request = on_request, .ctx = &w };
	struct wire_peer peer = { .is_unix = true };
	struct wire_stats stats;
	int pair[2];

	if (size < 2 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return 0;
	if (loop_create(&w.loop, NULL) < 0 ||
		wire_server_create(w.loop, &config, &w.server, NULL) < 0 ||
		conn_create(w.server, pair[0], &peer, NULL) < 0)
		abort();
	client_sends(&w, pair[1], data + 2, size - 2, data[0] ? data[0] * 4u : size);
	if (data[1] & 1)
		shutdown(pair[1], SHUT_WR);
	turns(&w, pair[1], 3);
	if (data[1] & 2)
		wire_server_drain(w.server, 0, NULL, NULL);
	turns(&w, pair[1], 2);
	close(pair[1]);
	for (int i = 0; i < 3; i++)
		loop_turn(w.loop, 0, NULL);
	wire_server_stats(w.server, &stats);
	wire_server_destroy(w.server);
	if (w.begun > w.ended)
		abort(); /* every request has its end */
	loop_destroy(w.loop);
	return 0;
}
