/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_sup.c - everything that a supervisor and its daemon read.
 *
 * The first byte says who is tried: 'r' the request in a memfd; 'l' the daemon's link, fed with
 * what a supervisor might say; 's' a supervisor, fed by turns with what a daemon and what an agent
 * might say. For 's' the rest is a list of pieces: a byte (its lowest bit: 0 the daemon, 1 the
 * agent), the length in two bytes, the bytes.
 */
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "proto/le.h"
#include "sup/serve_impl.h"
#include "tier/tier_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const void *p, size_t len)
{
	const volatile uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		(void)b[i];
}

static void touch_text(const char *s)
{
	if (s)
		touch(s, strlen(s) + 1);
}

/* --- The request ------------------------------------------------------------------------------ */

static void try_request(const uint8_t *data, size_t size)
{
	struct sup_order first, second;
	int fd;

	if (sup_request_read(data, size, &first, NULL) < 0)
		return;
	/* What was accepted can be said, and means the same. */
	if (sup_request_encode(&first.q, &fd, NULL) < 0 ||
		sup_request_decode(fd, &second, NULL) < 0)
		abort();
	close(fd);
	if (strcmp(first.q.id, second.q.id) != 0 || first.q.mount_count != second.q.mount_count ||
		first.q.deadline_ms != second.q.deadline_ms ||
		memcmp(&first.q.traits, &second.q.traits, sizeof(first.q.traits)) != 0)
		abort();
	for (unsigned i = 0; first.q.env[i] || second.q.env[i]; i++)
		if (!first.q.env[i] || !second.q.env[i] ||
			strcmp(first.q.env[i], second.q.env[i]) != 0)
			abort();
	sup_order_done(&first);
	sup_order_done(&second);
}

/* --- The link --------------------------------------------------------------------------------- */

struct watch {
	bool closed;
	unsigned finals;
};

static void on_state(void *arg, const struct link_status *s)
{
	(void)arg;
	touch_text(s->id);
	touch_text(s->why);
	touch_text(s->reason);
}

static void on_ended(void *arg, const struct link_end *end)
{
	(void)arg;
	touch_text(end->cause);
	touch_text(end->detail);
}

static void on_closed(void *arg, const struct err *why)
{
	(void)why;
	((struct watch *)arg)->closed = true;
}

static void on_opened(void *arg, struct link_call *c, const struct link_opened *o)
{
	(void)arg;
	(void)c;
	touch_text(o->file.path);
	touch(o->file.meta, o->file.meta_len);
	if (o->fd >= 0)
		close(o->fd);
}

static void on_data(void *arg, struct link_call *c, const void *data, size_t len, bool of_stderr)
{
	(void)arg;
	(void)of_stderr;
	touch(data, len);
	link_credit(c, len);
}

static void on_entry(void *arg, struct link_call *c, const struct proto_event *ev)
{
	(void)arg;
	touch_text(ev->name);
	touch_text(ev->file.name);
	touch_text(ev->file.owner);
	touch(ev->file.meta, ev->file.meta_len);
	touch(ev->process.cmdline, ev->process.cmdline_len);
	link_credit(c, ev->cost);
}

static void on_process(void *arg, struct link_call *c, const struct link_process *p)
{
	(void)arg;
	(void)c;
	for (unsigned i = 0; p->argv[i]; i++)
		touch_text(p->argv[i]);
	for (unsigned i = 0; p->env[i]; i++)
		touch_text(p->env[i]);
	touch_text(p->tag);
	touch_text(p->cwd);
}

static void on_room(void *arg, struct link_call *c)
{
	static const char some[100];

	(void)arg;
	link_send(c, some, sizeof(some));
}

static void on_done(void *arg, struct link_call *c, const struct link_done *d)
{
	(void)c;
	touch_text(d->file.link);
	((struct watch *)arg)->finals++;
}

static void on_failed(void *arg, struct link_call *c, const struct link_failed *f)
{
	(void)c;
	touch_text(f->text);
	((struct watch *)arg)->finals++;
}

static const struct link_handler handler = {
	.opened = on_opened,
	.data = on_data,
	.entry = on_entry,
	.event = on_entry,
	.process = on_process,
	.room = on_room,
	.done = on_done,
	.failed = on_failed,
};

static unsigned open_calls(struct link *l, struct watch *w)
{
	static const char *const argv[] = { "sh", NULL };
	static const struct {
		enum proto_type type;
		uint16_t flags;
	} requests[] = { { PROTO_READ, FILE_PASS_FD }, { PROTO_READ, 0 }, { PROTO_WRITE, 0 },
		{ PROTO_LIST, FILE_FULL }, { PROTO_WATCH, FILE_FULL }, { PROTO_STAT, FILE_FULL },
		{ PROTO_PROCS, 0 }, { PROTO_DIAL, 0 } };
	const struct link_start start = { .argv = argv };
	const struct link_who who = { .pid = 2 };

	link_start(l, &start, &handler, w, NULL, NULL);
	link_attach(l, &who, 0, 0, &handler, w, NULL, NULL);
	link_input(l, &who, 0, &handler, w, NULL, NULL);
	link_processes(l, &handler, w, NULL, NULL);
	link_usage(l, &handler, w, NULL, NULL);
	for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct proto_request q = { .type = requests[i].type,
			.flags = requests[i].flags,
			.path = "/x",
			.port = 1 };

		link_request(l, &q, &handler, w, NULL, NULL);
	}
	return link_call_count(l);
}

static void drain(int fd)
{
	char buf[65536];

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
}

static void try_link(const uint8_t *data, size_t size)
{
	struct watch w = { 0 };
	const struct link_hooks hooks = {
		.state = on_state, .ended = on_ended, .closed = on_closed, .arg = &w
	};
	struct link *l;
	int pair[2];
	unsigned calls;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
		link_create(pair[0], &hooks, &l, NULL) < 0)
		abort();
	calls = open_calls(l, &w);
	for (size_t at = 0; at < size && !w.closed;) {
		size_t n = size - at < 4096 ? size - at : 4096;

		if (send(pair[1], data + at, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n)
			break;
		at += n;
		link_work(l, POLLIN | POLLOUT);
		drain(pair[1]);
	}
	close(pair[1]);
	for (unsigned i = 0; i < 8 && !w.closed; i++)
		link_work(l, POLLIN);
	/* Every call has had exactly one final callback. */
	if (!w.closed || w.finals != calls)
		abort();
	link_destroy(l);
}

/* --- The supervisor --------------------------------------------------------------------------- */

static void no_kill(struct box *box)
{
	(void)box;
}

static int no_pause(struct box *box, void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	(void)box;
	(void)e;
	meanwhile(arg);
	return 0;
}

static int no_resume(struct box *box, struct err *e)
{
	(void)box;
	(void)e;
	return 0;
}

static const struct tier_ops fake = {
	.name = "fake", .what = "nothing", .kill = no_kill, .pause = no_pause, .resume = no_resume
};

static void feed(struct serve *s, int fd, bool agent, const uint8_t *data, size_t len)
{
	if (fd < 0 || send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len)
		return;
	if (agent && s->channel_open)
		do
			agent_receive(s);
		while (s->agent_more && !s->killed && !link_is_full(s));
	else if (!agent && s->link.fd >= 0)
		link_receive(s);
	ctl_flush(&s->link);
	proto_conn_flush(&s->conn, NULL);
}

static void try_serve(const uint8_t *data, size_t size)
{
	static const struct serve_hooks hooks;
	static const struct decision decision;
	struct plan plan = { .id = "abcdefghijkl", .wall = WALL_CONTAINER };
	struct box box = { 0 };
	struct sighting seen = { 0 };
	struct serve *s = calloc(1, sizeof(*s));
	int link[2], channel[2];

	box_init(&box, &fake, &plan);
	if (!s || socketpair(AF_UNIX, SOCK_STREAM, 0, link) < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM, 0, channel) < 0)
		abort();
	memcpy(s->id, plan.id, sizeof(s->id));
	s->run_dir = s->listener = s->signals = -1;
	s->box = &box;
	s->plan = &plan;
	s->decision = &decision;
	s->hooks = &hooks;
	s->fds = box_fds(&box);
	s->seen = &seen;
	s->state = SUP_RUNNING;
	s->ready = s->channel_open = true;
	flight_init(&s->flight);
	proto_conn_init(&s->conn, channel[0]);
	s->conn.takes_fds = true;
	ctl_init(&s->link, link[0]);
	for (size_t at = 0; at + 3 <= size && !s->killed;) {
		bool agent = data[at] & 1;
		size_t n = le_get16(data + at + 1);

		at += 3;
		n = n < size - at ? n : size - at;
		feed(s, agent ? channel[1] : link[1], agent, data + at, n);
		at += n;
		drain(link[1]);
		drain(channel[1]);
	}
	s->channel_open = false;
	link_hang_up(s);
	proc_clock(s, clock_ns() + 1000000000ull * 3600);
	proc_free_all(s);
	defaults_done(&s->defaults);
	proto_conn_done(&s->conn);
	close(link[1]);
	close(channel[0]);
	close(channel[1]);
	free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0]) {
	case 'r':
		try_request(data + 1, size - 1);
		break;
	case 'l':
		try_link(data + 1, size - 1);
		break;
	case 's':
		try_serve(data + 1, size - 1);
		break;
	default:
		break;
	}
	return 0;
}
