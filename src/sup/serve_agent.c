/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve_agent.c - the agent's side of a supervisor, and requests that only pass through.
 *
 * Owns:  the numbers of the agent's streams.
 * Rules: the agent is hostile (docs/PROTOCOL.md): what breaks the protocol ends the sandbox. A
 *        stream that nobody waits for any more keeps its number until the agent has closed it. What
 *        the agent may send to the daemon is counted here, so that it cannot fill the daemon's
 *        queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/own.h"
#include "sup/serve_impl.h"

enum { FRAMES_PER_TURN = 256 };

uint32_t agent_number(struct serve *s)
{
	for (uint32_t i = 1; i <= AGENT_STREAMS_MAX; i++)
		if (s->streams[i].kind == AGENT_FREE)
			return i;
	return 0;
}

static void broke(struct serve *s, const char *how)
{
	serve_kill(s, END_PROTOCOL, "the agent inside broke its protocol (%s)", how);
}

/* --- Requests --------------------------------------------------------------------------------- */

static bool is_request(uint16_t type)
{
	return type == PROTO_PROCS || (type >= PROTO_READ && type <= PROTO_WATCH) ||
	       type == PROTO_DIAL;
}

static uint32_t window_of(const struct frame *f, const struct ctl_fields *v)
{
	uint64_t window = ctl_num(v, TAG_WINDOW, FLOW_WINDOW);

	if ((f->type == PROTO_LIST || f->type == PROTO_PROCS || f->type == PROTO_WATCH) &&
		window < ENTRY_WINDOW_MIN)
		window = ENTRY_WINDOW_MIN;
	return window > FLOW_CREDIT_MAX ? FLOW_CREDIT_MAX : (uint32_t)window;
}

int pass_request(struct serve *s, const struct frame *f, const struct ctl_fields *v)
{
	uint32_t number = agent_number(s);
	struct err e = { 0 };
	struct call *c;

	if (!is_request(f->type)) {
		link_error(s, f->stream, ENOSYS, "no request has number %u", f->type);
		return 0;
	}
	if (f->type == PROTO_WRITE && (f->flags & FILE_PASS_FD) && !box_gives_files(s->box)) {
		link_error(s, f->stream, EOPNOTSUPP, "this tier passes no files to write");
		return 0;
	}
	if (!number || !s->channel_open) {
		link_error(s, f->stream, number ? ENOTCONN : EAGAIN,
			number ? "the sandbox is ending" : "too many streams are open inside");
		return 0;
	}
	if (proto_send_raw(&s->conn, f->type, f->flags, number, f->data, f->len, &e) < 0) {
		link_error(s, f->stream, e.code, "%s", e.msg);
		return 0;
	}
	c = call_open(s, f, CALL_PASS);
	s->streams[number] = (struct agent_stream){ .kind = c ? AGENT_CALL : AGENT_ORPHAN };
	if (!c) {
		proto_send_cancel(&s->conn, number, NULL);
		return 0;
	}
	s->streams[number].call = c;
	c->agent_stream = number;
	flow_init(&c->down, window_of(f, v));
	flow_init(&c->up, f->type == PROTO_WRITE || f->type == PROTO_DIAL ? FLOW_WINDOW : 0);
	return 0;
}

/* A frame of the daemon for a call that the agent has. */
int pass_frame(struct serve *s, struct call *c, const struct frame *f)
{
	struct ctl_fields v;

	switch (f->type) {
	case PROTO_DATA:
		if (f->flags || !f->len || flow_take(&c->up, f->len) < 0)
			return -EPROTO;
		break;
	case PROTO_CREDIT:
		if (f->flags || ctl_fields_read(&v, f->data, f->len) < 0 ||
			flow_add(&c->down, ctl_num(&v, TAG_BYTES, 0)) < 0)
			return -EPROTO;
		break;
	case PROTO_END:
	case PROTO_CANCEL:
		if (f->flags || f->len)
			return -EPROTO;
		break;
	default:
		return -EPROTO;
	}
	if (f->type == PROTO_DATA && s->state == SUP_PAUSED &&
		s->conn.out_len - s->conn.out_at > SUP_QUEUE_HIGH) {
		/* It stands still, and that is not its fault. */
		link_error(s, c->stream, EHOSTDOWN, "the sandbox is paused");
		pass_drop(s, c);
		return 0;
	}
	if (s->channel_open && proto_send_raw(&s->conn, f->type, f->flags, c->agent_stream, f->data,
				       f->len, NULL) == -ENOBUFS)
		broke(s, "it does not read");
	return 0;
}

void pass_drop(struct serve *s, struct call *c)
{
	s->streams[c->agent_stream].kind = AGENT_ORPHAN;
	if (s->channel_open)
		proto_send_cancel(&s->conn, c->agent_stream, NULL);
	call_close(s, c);
}

/* --- Answers ---------------------------------------------------------------------------------- */

static bool is_final(const struct proto_event *ev)
{
	return ev->type == PROTO_OK || ev->type == PROTO_EXIT || ev->type == PROTO_START_FAILED ||
	       (ev->type == PROTO_ERROR && !ev->failed.soft);
}

/* The file of an OPENED; -1 with the sandbox killed when it is not what was asked for. */
static int take_file(struct serve *s, const struct call *c)
{
	own_fd int fd = proto_conn_take_fd(&s->conn);
	struct stat st;

	if (!(c->flags & FILE_PASS_FD) || fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		(fcntl(fd, F_GETFL) & O_PATH)) {
		broke(s, "a descriptor that is no file");
		return -1;
	}
	return take_fd(&fd);
}

/* True: @ev can go on to the daemon. */
static bool may_pass(struct serve *s, struct call *c, const struct proto_event *ev, int *ret_fd)
{
	if (flow_take(&c->down, ev->cost) < 0) {
		broke(s, "more than it was allowed");
		return false;
	}
	if (ev->type == PROTO_CREDIT && flow_add(&c->up, ev->bytes) < 0) {
		broke(s, "too much credit");
		return false;
	}
	if (ev->type == PROTO_EXIT || ev->type == PROTO_START_FAILED || ev->type == PROTO_HELLO ||
		(ev->type == PROTO_OPENED && (c->pass_opened || (ev->flags & ~OPENED_FD)))) {
		broke(s, "an answer to something else");
		return false;
	}
	if (ev->type == PROTO_OPENED) {
		c->pass_opened = true;
		if (ev->has_fd)
			*ret_fd = take_file(s, c);
		return !ev->has_fd || *ret_fd >= 0;
	}
	return true;
}

static void pass_event(struct serve *s, struct call *c, const struct proto_event *ev)
{
	uint32_t number = c->agent_stream;
	int fd = -1, r;

	if (!may_pass(s, c, ev, &fd))
		return;
	r = ctl_put(&s->link, (uint16_t)ev->type, ev->flags, c->stream, ev->raw, ev->raw_len, fd);
	if (r < 0)
		s->link_broken = true; /* an answer is missing: only a new connection is honest */
	if (is_final(ev)) {
		call_close(s, c);
		s->streams[number].kind = AGENT_FREE;
	}
}

static void take_event(struct serve *s, const struct proto_event *ev)
{
	struct agent_stream *a;

	if (!ev->stream)
		return; /* HELLO, and errors that concern nobody */
	a = ev->stream <= AGENT_STREAMS_MAX ? &s->streams[ev->stream] : NULL;
	if (!a || a->kind == AGENT_FREE) {
		broke(s, "a stream that is not open");
		return;
	}
	if (a->kind == AGENT_PROC) {
		if (ev->has_fd)
			broke(s, "a descriptor that is no file");
		else
			proc_event(s, a->proc, ev);
	} else if (a->kind == AGENT_CALL) {
		pass_event(s, a->call, ev);
	} else {
		if (ev->has_fd) {
			own_fd int unwanted = proto_conn_take_fd(&s->conn);

			(void)unwanted;
		}
		if (is_final(ev))
			a->kind = AGENT_FREE;
	}
}

/* The agent looks the user up now, while nobody waits, and remembers. The answer goes nowhere. */
static void prime(struct serve *s)
{
	const char *user = s->defaults.user ? s->defaults.user : "0";
	struct proto_request q = {
		.type = PROTO_STAT, .flags = FILE_HOME, .path = "", .user = user
	};

	q.stream = agent_number(s);
	if (s->plan->wall == WALL_WORKSPACE || !q.stream ||
		proto_send_request(&s->conn, &q, NULL) < 0)
		return;
	s->streams[q.stream].kind = AGENT_ORPHAN;
}

/*
 * The daemon that asked for it has died meanwhile. Nobody was told of it: the next daemon, if there
 * is one, would only stop it, and without one it would wait for ever.
 */
static bool is_unwanted(const struct serve *s)
{
	struct pollfd p = { .fd = s->link.fd, .events = 0 };

	if (s->link.fd < 0)
		return s->was_asked;
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

static void become_ready(struct serve *s)
{
	if (is_unwanted(s)) {
		serve_kill(s, END_KILLED, "the daemon that asked for it was gone");
		return;
	}
	s->ready = true;
	s->state = SUP_RUNNING;
	/* Its time begins when it can be used. */
	if (s->deadline_total_ms && !s->deadline_ns)
		serve_set_deadline(s, s->deadline_total_ms, s->deadline_action);
	flight_note(&s->flight, "running", "the sandbox is ready");
	link_status_send(s);
	prime(s);
	if (s->plan->from)
		proc_adopt(s);
}

void agent_receive(struct serve *s)
{
	struct proto_event ev;
	struct err e = { 0 };
	int r = 0;

	if (!s->ready) {
		r = box_ready(s->box, &e);
		if (r == -EAGAIN)
			return;
		if (r < 0) {
			s->channel_open = false;
			return;
		}
		become_ready(s);
		if (s->killed)
			return;
	}
	s->held = false;
	s->agent_more = true;
	for (unsigned n = 0; n < FRAMES_PER_TURN && !s->killed; n++) {
		if (link_is_full(s))
			return; /* the daemon reads first */
		r = proto_conn_receive(&s->conn, &ev, &e);
		s->agent_more = r == 1;
		if (r != 1)
			break;
		take_event(s, &ev);
	}
	if (r >= 0 || s->killed)
		return;
	s->channel_open = false;
	if (r != -ENOTCONN)
		broke(s, "a malformed frame");
}
