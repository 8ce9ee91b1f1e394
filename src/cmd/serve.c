/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/serve.c - `ward serve`: the daemon.
 *
 * Owns:  the order in which its parts are made and taken down: loop, hub, front, server.
 * Rules: SIGTERM lets requests finish and leaves sandboxes running; a second one does not wait.
 *        SIGHUP reads ward.toml again; what cannot be read leaves everything as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/serve.h"
#include "db/db.h"
#include "front/front.h"
#include "host/host.h"
#include "hub/hub.h"
#include "loop/loop.h"
#include "wire/server.h"

enum { FILES_WANTED = 65536, SD_FIRST_FD = 3, SD_FDS_MAX = 8 };

struct daemon {
	const struct globals *g;
	struct serve_options o;
	struct loop *loop;
	struct hub *hub;
	struct front *front;
	struct wire_server *server;
	struct wire_tls *tls;
	struct loop_timer ready;
	bool stopping, hub_stopped, drained;
};

/* Each sandbox costs a descriptor or two. Supervisors begin with what we were given. */
static void raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= FILES_WANTED)
		return;
	l.rlim_cur = l.rlim_max < FILES_WANTED ? l.rlim_max : FILES_WANTED;
	setrlimit(RLIMIT_NOFILE, &l);
}

/* --- stopping --- */

static void check_over(struct daemon *d)
{
	if (d->hub_stopped && d->drained)
		loop_stop(d->loop);
}

static void on_hub_stopped(void *arg)
{
	struct daemon *d = arg;

	d->hub_stopped = true;
	check_over(d);
}

static void on_drained(void *ctx)
{
	struct daemon *d = ctx;

	d->drained = true;
	check_over(d);
}

static void on_term(void *ctx, int sig)
{
	struct daemon *d = ctx;

	if (d->stopping) {
		loop_stop(d->loop);
		return;
	}
	d->stopping = true;
	serve_notify("STOPPING=1");
	hub_log(d->hub, HUB_INFO, "daemon.stop", NULL, "", "signal=%d sandboxes=%s", sig,
		d->o.stop_sandboxes ? "stop" : "keep");
	hub_stop(d->hub, d->o.stop_sandboxes, on_hub_stopped, d);
	wire_server_drain(d->server, (uint64_t)hub_config(d->hub)->grace_ms, on_drained, d);
}

static void tell_tls(struct daemon *d)
{
	const char *trouble = d->tls ? wire_tls_trouble(d->tls) : NULL;

	if (trouble)
		hub_log(d->hub, HUB_WARN, "daemon.tls", NULL, "", "msg=\"the certificate %s\"",
			trouble);
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? str_eq(a, b) : a == b;
}

/* What a reload cannot change is said, and not forgotten in silence. */
static void tell_later(struct daemon *d, const struct config *c)
{
	const struct config *old = hub_config(d->hub);
	bool same = old->listen.count == c->listen.count;

	for (unsigned i = 0; same && i < c->listen.count; i++)
		same = str_eq(old->listen.items[i], c->listen.items[i]);
	if (!same)
		hub_log(d->hub, HUB_WARN, "daemon.reload", NULL, "",
			"msg=\"listen changes with the next start\"");
	if (!is_same(old->tls_cert, c->tls_cert) || !is_same(old->tls_key, c->tls_key))
		hub_log(d->hub, HUB_WARN, "daemon.reload", NULL, "",
			"msg=\"tls_cert and tls_key change with the next start\"");
}

static void on_hup(void *ctx, int sig)
{
	struct daemon *d = ctx;
	struct config *c = NULL;
	struct err e = { 0 };

	(void)sig;
	serve_notify("RELOADING=1");
	if (serve_config(&d->o, &c, &e) < 0) {
		hub_log(d->hub, HUB_ERROR, "daemon.reload", NULL, "", "msg=\"%s\"", e.msg);
	} else {
		tell_later(d, c);
		hub_reload(d->hub, c);
		if (d->tls && wire_tls_reload(d->tls, &e) < 0)
			hub_log(d->hub, HUB_ERROR, "daemon.reload", NULL, "", "msg=\"%s\"", e.msg);
		else
			tell_tls(d);
	}
	serve_notify("READY=1");
}

/* --- starting --- */

static bool is_loopback(const char *host)
{
	return str_after(host, "127.") || str_eq(host, "::1");
}

static int listen_tcp(struct daemon *d, const char *text, bool first, struct err *e)
{
	char host[64], domain[96];
	uint16_t port;
	int r = serve_address(text, host, &port, e);

	if (r == 0)
		r = wire_listen_tcp(d->server, host, port, d->tls, &port, e);
	if (r < 0)
		return err_wrap(e, r, "listening on '%s'", text);
	hub_log(d->hub, HUB_INFO, "daemon.listen", NULL, "", "addr=%s port=%u tls=%d", host, port,
		d->tls != NULL);
	if (!is_loopback(host) && !d->tls)
		hub_log(d->hub, HUB_WARN, "daemon.listen", NULL, "",
			"addr=%s msg=\"keys travel in the clear to this address: no TLS\"", host);
	str_fmt(domain, sizeof(domain), "localhost:%u", port);
	if (first)
		hub_set_domain(d->hub, domain);
	return 0;
}

/* Sockets that systemd made. */
static int listen_given(struct daemon *d, unsigned *ret_count, struct err *e)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	uint64_t who, count;

	*ret_count = 0;
	if (!pid || !fds || parse_u64(pid, 1, INT32_MAX, &who) < 0 || (pid_t)who != getpid() ||
		parse_u64(fds, 1, SD_FDS_MAX, &count) < 0)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		int fd = SD_FIRST_FD + (int)i, r;

		fcntl(fd, F_SETFD, FD_CLOEXEC);
		r = wire_listen_fd(d->server, fd, d->tls, e);
		if (r < 0)
			return err_wrap(e, r, "using socket %d of systemd", fd);
	}
	*ret_count = (unsigned)count;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	return 0;
}

static int listen_all(struct daemon *d, struct err *e)
{
	const struct config *c = hub_config(d->hub);
	char path[WARD_PATH_MAX];
	unsigned given;
	int r = str_fmt(path, sizeof(path), "%s/ward.sock", d->g->state_dir);

	if (r < 0)
		return err_set(e, -r, "state directory '%s'", d->g->state_dir);
	r = wire_listen_unix(d->server, path, 0600, e);
	if (r < 0)
		return err_wrap(e, r, "listening on '%s'", path);
	r = listen_given(d, &given, e);
	for (unsigned i = 0; r == 0 && !given && i < c->listen.count; i++)
		r = listen_tcp(d, c->listen.items[i], i == 0, e);
	return r;
}

static void on_request(void *ctx, struct wire_req *q)
{
	struct daemon *d = ctx;

	front_request(d->front, q);
}

static void on_note(void *ctx, const char *text)
{
	struct daemon *d = ctx;

	hub_log(d->hub, HUB_DEBUG, "wire.note", NULL, "", "msg=\"%s\"", text);
}

static int make_parts(struct daemon *d, struct config *c, struct err *e)
{
	char ward[WARD_PATH_MAX];
	struct hub_options o = { .config = c,
		.state_dir = d->g->state_dir,
		.ward = ward,
		.tier = d->o.tier,
		.tier_by = d->o.tier != WALL_NONE ? "ward serve --tier" : NULL };
	struct wire_config w = { .request = on_request, .ctx = d, .note = on_note, .name = "ward" };
	int r = cmd_find_ward(ward, e);

	host_short_turns(); /* not having it is no reason to fail */
	if (r == 0 && c->tls_cert)
		r = wire_tls_create(c->tls_cert, c->tls_key, &d->tls, e);
	if (r == 0)
		r = loop_create(&d->loop, e);
	if (r < 0) {
		config_destroy(c);
		return r;
	}
	o.loop = d->loop;
	r = hub_open(&o, &d->hub, e);
	if (r == 0)
		r = front_create(d->hub, &d->front, e);
	if (r == 0)
		r = wire_server_create(d->loop, &w, &d->server, e);
	if (r == 0)
		front_watch_server(d->front, d->server);
	return r;
}

static int watch_signals(struct daemon *d, struct err *e)
{
	int r = loop_signal_add(d->loop, SIGTERM, on_term, d, e);

	if (r == 0)
		r = loop_signal_add(d->loop, SIGINT, on_term, d, e);
	if (r == 0)
		r = loop_signal_add(d->loop, SIGHUP, on_hup, d, e);
	return r;
}

/* systemd starts what needs us once the sandboxes of the daemon before are found. */
static void on_ready(void *ctx)
{
	struct daemon *d = ctx;

	if (hub_is_ready(d->hub))
		serve_notify("READY=1");
	else if (!d->stopping)
		loop_timer_set(d->loop, &d->ready, 20, on_ready, d);
}

static int serve(struct daemon *d, struct err *e)
{
	struct config *c = NULL;
	int r = serve_config(&d->o, &c, e);

	if (r == 0)
		r = make_parts(d, c, e);
	if (r == 0)
		r = watch_signals(d, e);
	if (r == 0)
		r = listen_all(d, e);
	if (r == 0) {
		hub_log(d->hub, HUB_INFO, "daemon.start", NULL, "", "version=%s state=%s tier=%s",
			WARD_VERSION, d->g->state_dir,
			d->o.tier == WALL_NONE ? "policy" : wall_name(d->o.tier));
		tell_tls(d);
		on_ready(d);
		r = loop_run(d->loop, e);
	}
	loop_timer_cancel(&d->ready);
	wire_server_destroy(d->server);
	front_destroy(d->front);
	hub_close(d->hub);
	loop_destroy(d->loop);
	wire_tls_destroy(d->tls);
	return r;
}

/* Everything that can be known without starting. */
static int check(const struct daemon *d, struct err *e)
{
	char ward[WARD_PATH_MAX];
	struct wire_tls *tls = NULL;
	struct config *c = NULL;
	struct db *db = NULL;
	int r = serve_config(&d->o, &c, e);

	if (r < 0)
		return r;
	r = cmd_find_ward(ward, e);
	if (r == 0 && c->tls_cert)
		r = wire_tls_create(c->tls_cert, c->tls_key, &tls, e);
	if (tls && wire_tls_trouble(tls))
		r = err_say(
			e, EINVAL, "the certificate '%s' %s", c->tls_cert, wire_tls_trouble(tls));
	wire_tls_destroy(tls);
	for (unsigned i = 0; r == 0 && i < c->roots.count + c->roots_rw.count; i++) {
		const char *root = i < c->roots.count ? c->roots.items[i]
						      : c->roots_rw.items[i - c->roots.count];

		if (access(root, F_OK) < 0)
			r = err_set(e, errno, "[mounts] lists '%s'", root);
	}
	if (r == 0) {
		r = db_open(d->g->state_dir, DB_LOOK, &db, e);
		db_close(db);
		r = r == -ENOENT ? 0 : r;
	}
	config_destroy(c);
	if (r == 0)
		printf("ok\n");
	return r;
}

int cmd_serve(int argc, char **argv, const struct globals *g)
{
	struct daemon d = { .g = g };
	struct err e = { 0 };
	int r;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("serve"), stdout);
			return 0;
		}
	}
	r = serve_options_read(argc, argv, &d.o, &e);
	if (r == 0 && d.o.check)
		return check(&d, &e) < 0 ? cmd_fail("serve", &e) : 0;
	if (r == 0) {
		signal(SIGPIPE, SIG_IGN);
		raise_files();
		r = serve(&d, &e);
	}
	return r < 0 ? cmd_fail("serve", &e) : 0;
}
