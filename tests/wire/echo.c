/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/wire/echo.c - a server that shows every side of src/wire/, for tests.
 *
 * `wire-echo [--unix PATH] [--tcp HOST] [--tls CERT KEY] [--head-ms N] ...`: prints one line for
 * each listener ("tcp PORT"), serves until SIGTERM, then drains. SIGHUP reads the certificate
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "echo.h"
#include "wire/multipart.h"
#include "wire/zip.h"

uint64_t call_number(struct call *c, const char *key, uint64_t otherwise)
{
	const char *v = query_get(&c->query, key);

	return v ? strtoull(v, NULL, 10) : otherwise;
}

void call_ended(void *ctx, struct wire_req *q, enum wire_end how)
{
	struct call *c = ctx;

	(void)q;
	c->echo->ended[how]++;
	loop_timer_cancel(&c->timer);
	multipart_destroy(c->form);
	zip_destroy(c->zip);
	query_done(&c->query);
	free(c);
}

static const struct wire_events plain_events = { .ended = call_ended };

/* ---- bodies ---- */

static void echo_body(void *ctx, struct wire_req *q, const void *data, size_t len)
{
	(void)ctx;
	if (wire_reply_write(q, data, len) == 1)
		wire_body_pause(q);
}

static void echo_drained(void *ctx, struct wire_req *q)
{
	(void)ctx;
	wire_body_resume(q);
}

static void echo_end(void *ctx, struct wire_req *q, int r)
{
	(void)ctx;
	if (r < 0)
		wire_reply_abort(q);
	else
		wire_reply_end(q);
}

static const struct wire_events echo_events = { echo_body, echo_end, echo_drained, call_ended };

static void on_echo(struct call *c)
{
	wire_on(c->q, &echo_events, c);
	if (wire_body_accept(c->q, call_number(c, "max", UINT64_MAX)) < 0) {
		wire_reply_text(c->q, 413, "too long");
		return;
	}
	wire_reply_start(c->q, 200, wire_body_length(c->q));
}

static void sink_go_on(void *ctx)
{
	struct call *c = ctx;

	wire_body_resume(c->q);
}

static void sink_body(void *ctx, struct wire_req *q, const void *data, size_t len)
{
	struct call *c = ctx;
	const unsigned char *p = data;

	c->bytes += len;
	if (c->piece) /* ?sum=1 */
		for (size_t i = 0; i < len; i++)
			c->sum = c->sum * 31 + p[i];
	if (c->ms) { /* ?ms=N: a slow reader */
		wire_body_pause(q);
		loop_timer_set(c->echo->loop, &c->timer, c->ms, sink_go_on, c);
	}
}

static void sink_end(void *ctx, struct wire_req *q, int r)
{
	struct call *c = ctx;

	if (r < 0)
		wire_reply_text(q, wire_status_of(r), "%s", strerror(-r));
	else
		wire_reply_text(q, 200, "%llu %llu", (unsigned long long)c->bytes,
			(unsigned long long)c->sum);
}

static const struct wire_events sink_events = { sink_body, sink_end, NULL, call_ended };

static void on_sink(struct call *c)
{
	wire_on(c->q, &sink_events, c);
	c->piece = (unsigned)call_number(c, "sum", 0);
	c->ms = (unsigned)call_number(c, "ms", 0);
	if (wire_body_accept(c->q, call_number(c, "max", UINT64_MAX)) < 0)
		wire_reply_text(c->q, 413, "too long");
}

static void whole_done(void *ctx, struct wire_req *q, const char *data, size_t len, int r)
{
	(void)ctx;
	if (r < 0)
		wire_reply_text(q, wire_status_of(r), "%s", strerror(-r));
	else
		wire_reply(q, 200, "application/octet-stream", data, len);
}

static void on_whole(struct call *c)
{
	if (wire_body_whole(c->q, call_number(c, "max", 65536), whole_done) < 0)
		wire_reply_text(c->q, 413, "too long");
}

/* ---- replies ---- */

static void stream_more(struct call *c)
{
	static const char letters[65536 + 1] = { [0] = 'a', [65535] = 'z' };

	while (c->left) {
		size_t n = c->left < c->piece ? (size_t)c->left : c->piece;
		int r = wire_reply_write(c->q, letters, n);

		if (r < 0)
			return;
		c->left -= n;
		if (r == 1 && c->left)
			return;
	}
	wire_reply_end(c->q);
}

static void stream_drained(void *ctx, struct wire_req *q)
{
	(void)q;
	stream_more(ctx);
}

static const struct wire_events stream_events = { .drained = stream_drained, .ended = call_ended };

static void on_stream(struct call *c)
{
	wire_on(c->q, &stream_events, c);
	c->left = call_number(c, "bytes", 1 << 20);
	c->piece = (unsigned)call_number(c, "piece", 65536);
	if (!c->piece || c->piece > 65536)
		c->piece = 65536;
	wire_reply_start(c->q, 200, call_number(c, "length", 0) ? (int64_t)c->left : -1);
	stream_more(c);
}

static void tick(void *ctx)
{
	struct call *c = ctx;

	if (!c->left--) {
		wire_reply_end(c->q);
		return;
	}
	wire_reply_write(c->q, "tick\n", 5);
	loop_timer_set(c->echo->loop, &c->timer, c->ms, tick, c);
}

static void on_tick(struct call *c)
{
	c->left = call_number(c, "n", 5);
	c->ms = (unsigned)call_number(c, "ms", 20);
	wire_reply_start(c->q, 200, -1);
	tick(c);
}

static void slow_answer(void *ctx)
{
	struct call *c = ctx;

	wire_reply_text(c->q, 200, "late");
}

static void on_slow(struct call *c)
{
	loop_timer_set(c->echo->loop, &c->timer, call_number(c, "ms", 20), slow_answer, c);
}

static void on_hang(struct call *c)
{
	(void)c;
}

static void on_file(struct call *c)
{
	const char *path = query_get(&c->query, "path");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
	uint64_t from = call_number(c, "from", 0), len;

	if (fd < 0) {
		wire_reply_text(c->q, 404, "no such file");
		return;
	}
	len = call_number(c, "len", (uint64_t)size - from);
	wire_reply_start(c->q, 200, call_number(c, "chunked", 0) ? -1 : (int64_t)len);
	wire_reply_file(c->q, fd, from, len);
	wire_reply_end(c->q);
}

static void on_short(struct call *c)
{
	wire_reply_start(c->q, 200, 100);
	wire_reply_write(c->q, "not a hundred", 13);
	wire_reply_end(c->q);
}

static void on_abort(struct call *c)
{
	if (call_number(c, "started", 0)) {
		wire_reply_start(c->q, 200, -1);
		wire_reply_write(c->q, "begun", 5);
	}
	wire_reply_abort(c->q);
}

static void on_hello(struct call *c)
{
	wire_reply(c->q, 200, "text/plain", "hello\n", 6);
}

static void on_status(struct call *c)
{
	unsigned status = (unsigned)call_number(c, "code", 204);

	wire_reply(c->q, status, "text/plain", "body\n", status == 204 || status == 304 ? 0 : 5);
}

static void on_header(struct call *c)
{
	const char *name = query_get(&c->query, "name"), *value = query_get(&c->query, "value");
	int r = wire_reply_header(c->q, name ? name : "x-none", value ? value : "");

	wire_reply_text(c->q, 200, "%d", r);
}

static void on_info(struct call *c)
{
	const struct wire_peer *p = wire_peer(c->q);
	const char *name, *value;

	wire_reply_header(c->q, "Content-Type", "text/plain");
	wire_reply_start(c->q, 200, -1);
	snprintf(c->text, sizeof(c->text),
		"method=%s\nversion=%d\npath=%s\nraw=%s\nquery=%s\nauthority=%s\nhost=%s\nunix=%d\n"
		"loopback=%d\ntls=%d\nuid=%d\naddr=%s\nlength=%lld\nupgrade=%s\n",
		wire_method_name(c->q), (int)wire_version(c->q), wire_path(c->q),
		wire_path_raw(c->q), wire_query(c->q), wire_authority(c->q), wire_host(c->q),
		p->is_unix, p->is_loopback, p->is_tls, (int)p->uid, p->addr,
		(long long)wire_body_length(c->q),
		wire_upgrade_asked(c->q) ? wire_upgrade_asked(c->q) : "");
	wire_reply_write(c->q, c->text, strlen(c->text));
	for (unsigned i = 0; wire_header_at(c->q, i, &name, &value); i++) {
		snprintf(c->text, sizeof(c->text), "header %s: %s\n", name, value);
		wire_reply_write(c->q, c->text, strlen(c->text));
	}
	wire_reply_end(c->q);
}

static size_t resident_kb(void)
{
	unsigned long size = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void on_stats(struct call *c)
{
	struct echo *e = c->echo;
	struct wire_stats s;

	malloc_trim(0);
	wire_server_stats(e->server, &s);
	wire_reply_text(c->q, 200,
		"{\"conns\": %u, \"live\": %u, \"accepted\": %llu, \"requests\": %llu, "
		"\"refused\": %llu, \"timeouts\": %llu, \"done\": %llu, \"gone\": %llu, "
		"\"timeout\": %llu, \"aborted\": %llu, \"rss_kb\": %zu}",
		s.conns, s.live, (unsigned long long)s.accepted, (unsigned long long)s.requests,
		(unsigned long long)s.refused, (unsigned long long)s.timeouts,
		(unsigned long long)e->ended[WIRE_DONE], (unsigned long long)e->ended[WIRE_GONE],
		(unsigned long long)e->ended[WIRE_TIMEOUT],
		(unsigned long long)e->ended[WIRE_ABORTED], resident_kb());
}

/* A raw echo that also says goodbye. */
static void raw_end(void *ctx, struct wire_req *q, int r)
{
	(void)ctx;
	(void)r;
	wire_reply_write(q, "bye", 3);
	wire_reply_end(q);
}

static const struct wire_events raw_events = { echo_body, raw_end, echo_drained, call_ended };

static void on_upgrade(struct call *c)
{
	const char *asked = wire_upgrade_asked(c->q);

	if (!asked) {
		wire_reply_text(c->q, 400, "no upgrade asked for");
		return;
	}
	wire_on(c->q, &raw_events, c);
	wire_reply_header(c->q, "X-Raw", "yes");
	wire_reply_upgrade(c->q, asked);
}

/* Two writers of one reply are a mistake that must not hurt. */
static void on_twice(struct call *c)
{
	wire_reply_text(c->q, 200, "first");
	wire_reply_text(c->q, 500, "second");
	wire_reply_write(c->q, "third", 5);
	wire_reply_end(c->q);
}

static const struct {
	const char *path;
	void (*work)(struct call *c);
} routes[] = {
	{ "/hello", on_hello },
	{ "/echo", on_echo },
	{ "/sink", on_sink },
	{ "/whole", on_whole },
	{ "/stream", on_stream },
	{ "/tick", on_tick },
	{ "/slow", on_slow },
	{ "/hang", on_hang },
	{ "/file", on_file },
	{ "/short", on_short },
	{ "/abort", on_abort },
	{ "/status", on_status },
	{ "/header", on_header },
	{ "/info", on_info },
	{ "/stats", on_stats },
	{ "/upgrade", on_upgrade },
	{ "/twice", on_twice },
	{ "/form", on_form },
	{ "/gunzip", on_gunzip },
	{ "/gzip", on_gzip },
	{ "/proxy", on_proxy },
};

static void on_request(void *ctx, struct wire_req *q)
{
	struct call *c = calloc(1, sizeof(*c));
	const char *path = wire_path(q);

	if (!c || query_parse(&c->query, wire_query(q)) < 0) {
		free(c);
		wire_reply_text(q, 400, "bad query");
		return;
	}
	c->echo = ctx;
	c->q = q;
	wire_on(q, &plain_events, c);
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		size_t n = strlen(routes[i].path);

		if (strncmp(path, routes[i].path, n) == 0 && (!path[n] || path[n] == '/')) {
			routes[i].work(c);
			return;
		}
	}
	wire_reply_text(q, 404, "no such path");
}

/* ---- begin and end ---- */

static void on_note(void *ctx, const char *text)
{
	(void)ctx;
	if (getenv("WIRE_NOTES"))
		fprintf(stderr, "wire: %s\n", text);
}

static void on_drained(void *ctx)
{
	struct echo *e = ctx;

	loop_stop(e->loop);
}

static void on_signal(void *ctx, int sig)
{
	struct echo *e = ctx;
	struct err err = { 0 };

	if (sig == SIGTERM)
		wire_server_drain(e->server, 3000, on_drained, e);
	else if (e->tls && wire_tls_reload(e->tls, &err) < 0)
		fprintf(stderr, "wire-echo: %s\n", err.msg);
}

static void fail(const struct err *e)
{
	fprintf(stderr, "wire-echo: %s\n", e->msg);
	exit(125);
}

static unsigned *time_option(struct wire_config *f, const char *name)
{
	if (str_eq(name, "--head-ms"))
		return &f->head_ms;
	if (str_eq(name, "--idle-ms"))
		return &f->idle_ms;
	if (str_eq(name, "--body-ms"))
		return &f->body_ms;
	if (str_eq(name, "--write-ms"))
		return &f->write_ms;
	return str_eq(name, "--conns") ? &f->conns_max : NULL;
}

static void listen_all(struct echo *e, char **argv)
{
	struct err err = { 0 };
	uint16_t port;

	for (char **a = argv + 1; *a; a++) {
		if (str_eq(*a, "--unix")) {
			if (wire_listen_unix(e->server, *++a, 0600, &err) < 0)
				fail(&err);
			printf("unix %s\n", *a);
		} else if (str_eq(*a, "--tcp")) {
			if (wire_listen_tcp(e->server, *++a, 0, NULL, &port, &err) < 0)
				fail(&err);
			printf("tcp %u\n", port);
		} else if (str_eq(*a, "--tls")) {
			if (wire_tls_create(a[1], a[2], &e->tls, &err) < 0 ||
				wire_listen_tcp(e->server, "127.0.0.1", 0, e->tls, &port, &err) < 0)
				fail(&err);
			a += 2;
			printf("tls %u\n", port);
		} else {
			a++;
		}
	}
	printf("ready\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct echo e = { 0 };
	struct wire_config config = {
		.request = on_request, .ctx = &e, .note = on_note, .name = "wire-echo"
	};
	struct err err = { 0 };

	for (int i = 1; i + 1 < argc; i++) {
		unsigned *ms = time_option(&config, argv[i]);

		if (ms)
			*ms = (unsigned)strtoul(argv[i + 1], NULL, 10);
	}
	if (loop_create(&e.loop, &err) < 0 ||
		wire_server_create(e.loop, &config, &e.server, &err) < 0 ||
		loop_signal_add(e.loop, SIGTERM, on_signal, &e, &err) < 0 ||
		loop_signal_add(e.loop, SIGHUP, on_signal, &e, &err) < 0)
		fail(&err);
	signal(SIGPIPE, SIG_IGN);
	listen_all(&e, argv);
	if (loop_run(e.loop, &err) < 0)
		fail(&err);
	wire_server_destroy(e.server);
	wire_tls_destroy(e.tls);
	loop_destroy(e.loop);
	return 0;
}
