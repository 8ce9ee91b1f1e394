/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve_proc.c - the processes of a sandbox: started, listed, attached to, remembered.
 *
 * Owns:  every struct proc, its replay buffer, and the calls that are attached to it.
 * Rules: a process belongs to the sandbox. While somebody receives its output, what has not been
 *        acknowledged is never overwritten: the process waits. While nobody does, it never waits,
 *        and the oldest bytes go. An end is remembered SUP_EXIT_KEEP_MS at least.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/str.h"
#include "sup/serve_impl.h"

enum {
	OUTPUT_HIGH = 256 * 1024, /* bytes in the queue beyond which output waits in its ring */
	PROC_PTY = 1,
	PROC_EXITED = 2,
	ENTRY_BYTES = FRAME_HEAD + SUP_CONFIG_MAX + LABEL_MAX + 512,
	SMALL = FRAME_HEAD + 512,
};

/* --- Memory ----------------------------------------------------------------------------------- */

void proc_add(struct serve *s, struct proc *p)
{
	flow_init(&p->out[0], SUP_PROC_WINDOW);
	flow_init(&p->out[1], SUP_PROC_WINDOW);
	flow_init(&p->in, FLOW_WINDOW);
	p->next = s->procs;
	s->procs = p;
	s->running++;
}

void proc_free(struct serve *s, struct proc *p)
{
	struct proc **at = &s->procs;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->exited)
		s->exited--;
	else
		s->running--;
	ring_done(&p->ring);
	free(p->label);
	free(p->config);
	free(p);
}

void proc_free_all(struct serve *s)
{
	while (s->procs)
		proc_free(s, s->procs);
}

static void unlink_call(struct call **list, struct call *c)
{
	while (*list && *list != c)
		list = &(*list)->next;
	if (*list)
		*list = c->next;
}

struct proc *serve_find(struct serve *s, const struct ctl_fields *v)
{
	const char *label = ctl_text(v, TAG_LABEL);
	uint64_t pid = ctl_num(v, TAG_PID, 0);

	for (struct proc *p = s->procs; p; p = p->next)
		if (label ? p->label && str_eq(p->label, label) : pid && p->pid == pid)
			return p;
	return NULL;
}

/* --- Output ----------------------------------------------------------------------------------- */

static uint64_t least_acked(const struct proc *p)
{
	uint64_t least = p->ring.head;

	for (const struct call *c = p->outputs; c; c = c->next)
		least = c->acked < least ? c->acked : least;
	return least;
}

/* The agent may send as much as fits without overwriting what somebody still waits for. */
static void give_credit(struct serve *s, struct proc *p)
{
	uint64_t used = p->ring.head - least_acked(p);

	for (unsigned i = 0; i < 2 && !p->exited; i++) {
		struct flow *f = &p->out[i];
		uint64_t coming = (uint64_t)p->out[0].credit + p->out[1].credit + f->owed;

		if (f->owed < f->window / 2 || used + coming > SUP_RING_BYTES)
			continue;
		if (proto_send_credit(&s->conn, p->agent_stream, i == 1, f->owed, NULL) < 0)
			continue;
		f->credit += f->owed;
		f->owed = 0;
	}
}

static void send_opened(struct serve *s, struct call *c)
{
	struct proc *p = c->proc;
	uint8_t buf[SMALL];
	struct msg m;

	c->opened = true;
	msg_begin(&m, buf, sizeof(buf), PROTO_OPENED, p->pty ? OPENED_PTY : 0, c->stream);
	msg_u32(&m, TAG_PID, p->pid);
	msg_u64(&m, TAG_LOST, p->lost);
	ctl_put_msg(&s->link, &m);
}

static void put_exit(struct msg *m, const struct proto_exit *x)
{
	msg_u32(m, x->signaled ? TAG_SIGNAL : TAG_CODE, (uint32_t)x->code);
	msg_u64(m, TAG_USER_US, x->user_us);
	msg_u64(m, TAG_SYSTEM_US, x->system_us);
	msg_u64(m, TAG_PEAK_KB, x->peak_kb);
}

static void send_exit(struct serve *s, struct call *c)
{
	struct proc *p = c->proc;
	/* It may have been quicker than its time. */
	bool timed_out = p->timed_out && p->exit.signaled && p->exit.code == SIGKILL;
	uint8_t buf[SMALL];
	struct msg m;

	ctl_put(&s->link, PROTO_END, 0, c->stream, NULL, 0, -1);
	if (!p->pty)
		ctl_put(&s->link, PROTO_END, DATA_ERR, c->stream, NULL, 0, -1);
	msg_begin(&m, buf, sizeof(buf), PROTO_EXIT, timed_out ? EXIT_TIMED_OUT : 0, c->stream);
	put_exit(&m, &p->exit);
	if (ctl_put_msg(&s->link, &m) < 0)
		return;
	p->told = true;
	p->told_ns = clock_ns();
	p->receipt = p->delivered;
	/* Whoever has the exit has had all that came before it; nobody can say so any more. */
	if (c->at > p->delivered)
		p->delivered = c->at;
	unlink_call(&p->outputs, c);
	call_close(s, c);
}

/* Sends what @c may have; true when it was closed with its process's end. */
static void pump_call(struct serve *s, struct call *c)
{
	struct proc *p = c->proc;

	if (!c->opened)
		return;
	while (c->credit && ctl_waiting(&s->link) < OUTPUT_HIGH) {
		const uint8_t *data;
		bool of_stderr;
		size_t n = ring_peek(&p->ring, c->at, &data, &of_stderr);

		n = n < c->credit ? n : c->credit;
		n = n < FRAME_PAYLOAD_MAX ? n : FRAME_PAYLOAD_MAX;
		if (!n || ctl_put(&s->link, PROTO_DATA, of_stderr ? DATA_ERR : 0, c->stream, data,
				  n, -1) < 0)
			break;
		c->at += n;
		c->credit -= (uint32_t)n;
	}
	if (p->exited && c->at == p->ring.head)
		send_exit(s, c);
}

void proc_pump(struct serve *s, struct proc *p)
{
	for (struct call *c = p->outputs, *next; c; c = next) {
		next = c->next;
		pump_call(s, c);
	}
}

void proc_pump_all(struct serve *s)
{
	for (struct proc *p = s->procs; p; p = p->next)
		if (p->outputs)
			proc_pump(s, p);
}

int proc_ack(struct serve *s, struct call *c, uint64_t bytes)
{
	struct proc *p = c->proc;

	if (bytes > c->at - c->acked || bytes > FLOW_CREDIT_MAX - c->credit)
		return -EPROTO;
	c->acked += bytes;
	c->credit += (uint32_t)bytes;
	if (c->acked > p->delivered)
		p->delivered = c->acked;
	give_credit(s, p);
	pump_call(s, c);
	return 0;
}

void proc_detach(struct serve *s, struct call *c)
{
	struct proc *p = c->proc;

	unlink_call(c->kind == CALL_OUTPUT ? &p->outputs : &p->inputs, c);
	if (c->kind == CALL_OUTPUT)
		give_credit(s, p);
	else
		input_pump(s, p);
	call_close(s, c);
}

/* Nobody has received these, and nobody will. */
static void count_lost(struct proc *p)
{
	if (p->ring.tail > p->delivered) {
		p->lost += p->ring.tail - p->delivered;
		p->delivered = p->ring.tail;
	}
}

static void on_data(struct serve *s, struct proc *p, const struct proto_event *ev)
{
	struct flow *f = &p->out[ev->of_stderr];

	if (flow_take(f, ev->data_len) < 0 || (p->pty && ev->of_stderr)) {
		serve_kill(
			s, END_PROTOCOL, "the agent inside broke its protocol (too much output)");
		return;
	}
	f->owed += ev->data_len;
	s->seen->output_bytes += ev->data_len;
	flight_output(&s->flight, ev->data, ev->data_len);
	if (ring_put(&p->ring, ev->data, ev->data_len, ev->of_stderr) < 0)
		p->lost += ev->data_len;
	count_lost(p);
	proc_pump(s, p);
	give_credit(s, p);
	if (s->limits.output_bytes && s->seen->output_bytes > s->limits.output_bytes) {
		s->seen->output_over = true;
		serve_kill(s, END_OUTPUT_LIMIT, "after %llu bytes",
			(unsigned long long)s->limits.output_bytes);
	}
}

/* --- Its life --------------------------------------------------------------------------------- */

static void fail_outputs(struct serve *s, struct proc *p, const struct proto_event *ev)
{
	while (p->outputs) {
		struct call *c = p->outputs;

		ctl_put(&s->link, (uint16_t)ev->type, ev->flags, c->stream, ev->raw, ev->raw_len,
			-1);
		p->outputs = c->next;
		call_close(s, c);
	}
}

static void input_ok(struct serve *s, const struct call *c)
{
	uint8_t buf[SMALL];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), PROTO_OK, 0, c->stream);
	msg_u64(&m, TAG_BYTES, c->taken);
	ctl_put_msg(&s->link, &m);
}

static void fail_inputs(struct serve *s, struct proc *p)
{
	while (p->inputs) {
		struct call *c = p->inputs;

		/* What it has read before its end was not in vain. */
		if (c->taken && !c->pending_len)
			input_ok(s, c);
		else
			link_error(s, c->stream, EPIPE, "process %u has ended", p->pid);
		p->inputs = c->next;
		call_close(s, c);
	}
}

/* START_FAILED, or ERROR: there is no process, and nothing to remember. */
static void on_failed(struct serve *s, struct proc *p, const struct proto_event *ev)
{
	if (!p->inherited) /* else: there was none (any more) */
		flight_note(&s->flight, "start-failed", "%s", ev->failed.text);
	fail_outputs(s, p, ev);
	fail_inputs(s, p);
	s->streams[p->agent_stream].kind = AGENT_FREE;
	proc_free(s, p);
}

void proc_link_lost(struct serve *s)
{
	uint64_t now = clock_ns();

	for (struct proc *p = s->procs; p; p = p->next) {
		if (!p->told || now - p->told_ns > SUP_TOLD_MS * 1000000ull)
			continue;
		p->told = false;
		if (p->receipt < p->delivered)
			p->delivered = p->receipt > p->ring.tail ? p->receipt : p->ring.tail;
	}
}

static void forget_oldest(struct serve *s)
{
	struct proc *oldest = NULL;

	for (struct proc *p = s->procs; p; p = p->next)
		if (p->exited && !p->outputs &&
			(!oldest || (p->told && !oldest->told) ||
				(p->told == oldest->told && p->exit_ns < oldest->exit_ns)))
			oldest = p;
	if (oldest)
		proc_free(s, oldest);
}

static void on_exit_of(struct serve *s, struct proc *p, const struct proto_event *ev)
{
	p->exited = true;
	p->stdin_open = false;
	p->exit = ev->exit;
	p->exit_ns = clock_ns();
	s->running--;
	s->exited++;
	s->streams[p->agent_stream].kind = AGENT_FREE;
	p->agent_stream = 0;
	flight_note(&s->flight, "exit", "pid %u %s %d", p->pid,
		ev->exit.signaled ? "signal" : "status", ev->exit.code);
	fail_inputs(s, p);
	proc_pump(s, p);
	if (s->exited > SUP_EXITS_MAX)
		forget_oldest(s);
}

static void on_opened(struct serve *s, struct proc *p, const struct proto_event *ev)
{
	if (p->pid || !ev->pid) {
		serve_kill(
			s, END_PROTOCOL, "the agent inside broke its protocol (a process twice)");
		return;
	}
	p->pid = ev->pid;
	if (p->inherited)
		proc_adopted(s, p, ev);
	for (struct call *c = p->outputs; c; c = c->next)
		send_opened(s, c);
}

void proc_event(struct serve *s, struct proc *p, const struct proto_event *ev)
{
	switch (ev->type) {
	case PROTO_OPENED:
		on_opened(s, p, ev);
		break;
	case PROTO_DATA:
		on_data(s, p, ev);
		break;
	case PROTO_CREDIT:
		if (flow_add(&p->in, ev->bytes) < 0)
			serve_kill(s, END_PROTOCOL, "the agent inside broke its protocol (credit)");
		else
			input_pump(s, p);
		break;
	case PROTO_EXIT:
		if (p->pid)
			on_exit_of(s, p, ev);
		else
			serve_kill(s, END_PROTOCOL, "the agent inside broke its protocol (exit)");
		break;
	case PROTO_START_FAILED:
		on_failed(s, p, ev);
		break;
	case PROTO_ERROR:
		if (!ev->failed.soft)
			on_failed(s, p, ev);
		break;
	case PROTO_END:
		break;
	default:
		serve_kill(s, END_PROTOCOL, "the agent inside broke its protocol (message %d)",
			(int)ev->type);
	}
}

static bool may_forget(const struct proc *p, uint64_t now)
{
	uint64_t age_ms = (now - p->exit_ns) / 1000000;

	if (!p->exited || p->outputs)
		return false;
	return age_ms >= SUP_EXIT_DROP_MS ||
	       (age_ms >= SUP_EXIT_KEEP_MS && p->told && p->delivered == p->ring.head);
}

void proc_clock(struct serve *s, uint64_t now)
{
	uint64_t next = 0;

	for (struct proc *p = s->procs, *after; p; p = after) {
		after = p->next;
		if (p->kill_ns && now >= p->kill_ns && !p->exited && s->state != SUP_PAUSED) {
			p->kill_ns = 0;
			p->timed_out = true;
			flight_note(&s->flight, "timeout", "pid %u is killed", p->pid);
			proto_send_signal(&s->conn, p->agent_stream, SIGKILL, true, NULL);
		}
		if (may_forget(p, now)) {
			proc_free(s, p);
			continue;
		}
		if (p->kill_ns && !p->exited && s->state != SUP_PAUSED &&
			(!next || p->kill_ns < next))
			next = p->kill_ns;
		if (p->exited) {
			uint64_t age = p->told ? SUP_EXIT_KEEP_MS : SUP_EXIT_DROP_MS;
			uint64_t at = p->exit_ns + age * 1000000ull;

			/* Told, and its output not all received: look again after a while. */
			if (at <= now)
				at = now + SUP_EXIT_KEEP_MS * 1000000ull;
			if (!next || at < next)
				next = at;
		}
	}
	s->keep_ns = next;
}

void proc_resumed(struct serve *s, uint64_t ns)
{
	for (struct proc *p = s->procs; p; p = p->next)
		if (p->kill_ns)
			p->kill_ns += ns;
	s->keep_ns = s->procs ? clock_ns() : 0; /* looked at in the next turn */
}

/* --- ATTACH and the list ---------------------------------------------------------------------- */

void proc_add_output(struct proc *p, struct call *c, uint64_t from, uint32_t window)
{
	c->proc = p;
	c->at = c->acked = from;
	c->credit = window;
	c->next = p->outputs;
	p->outputs = c;
}

int proc_attach(struct serve *s, const struct frame *f, const struct ctl_fields *v)
{
	uint64_t window = ctl_num(v, TAG_WINDOW, FLOW_WINDOW), from;
	struct proc *p = serve_find(s, v);
	struct call *c;

	if (!window || window > FLOW_CREDIT_MAX || (f->flags & ~LINK_ALL)) {
		link_error(s, f->stream, EINVAL, "a window is 1 to %d bytes", FLOW_CREDIT_MAX);
		return 0;
	}
	if (!p) {
		link_error(s, f->stream, ESRCH, "no such process is running or remembered");
		return 0;
	}
	if (f->flags & LINK_ALL)
		from = p->ring.tail;
	else
		from = p->outputs ? p->ring.head : p->delivered;
	c = call_open(s, f, CALL_OUTPUT);
	if (!c)
		return 0;
	proc_add_output(p, c, from, (uint32_t)window);
	if (p->pid)
		send_opened(s, c);
	pump_call(s, c);
	return 0;
}

static void list_one(struct serve *s, uint32_t stream, const struct proc *p)
{
	uint8_t buf[ENTRY_BYTES];
	unsigned attached = 0;
	struct msg m;

	for (const struct call *c = p->outputs; c; c = c->next)
		attached++;
	msg_begin(&m, buf, sizeof(buf), PROTO_ENTRY, 0, stream);
	msg_u32(&m, TAG_PID, p->pid);
	msg_u32(&m, TAG_FLAGS, (p->pty ? PROC_PTY : 0) | (p->exited ? PROC_EXITED : 0));
	if (p->label)
		msg_text(&m, TAG_LABEL, p->label);
	if (p->exited)
		put_exit(&m, &p->exit);
	msg_u64(&m, TAG_WAITING, p->ring.head - p->delivered);
	msg_u64(&m, TAG_LOST, p->lost);
	msg_u32(&m, TAG_ATTACHED, attached);
	if (p->config)
		memcpy(m.buf + m.len, p->config, p->config_len); /* ENTRY_BYTES has room for it */
	m.len += p->config_len;
	ctl_put_msg(&s->link, &m);
}

void proc_list(struct serve *s, uint32_t stream)
{
	for (const struct proc *p = s->procs; p; p = p->next)
		if (p->pid)
			list_one(s, stream, p);
	link_ok(s, stream);
}

/* --- INPUT ------------------------------------------------------------------------------------ */

int proc_input(struct serve *s, const struct frame *f, const struct ctl_fields *v)
{
	struct proc *p = serve_find(s, v);
	struct call *c, **last;

	if (!p || p->exited || !p->stdin_open || s->state == SUP_PAUSED) {
		link_error(s, f->stream,
			!p                       ? ESRCH
			: s->state == SUP_PAUSED ? EHOSTDOWN
						 : EPIPE,
			!p                       ? "no such process is running"
			: s->state == SUP_PAUSED ? "the sandbox is paused"
						 : "it has no stdin (any more)");
		return 0;
	}
	if (f->flags & ~LINK_CLOSE)
		return -EPROTO;
	c = call_open(s, f, CALL_INPUT);
	if (!c)
		return 0;
	c->proc = p;
	flow_init(&c->in, FLOW_WINDOW);
	for (last = &p->inputs; *last; last = &(*last)->next)
		;
	*last = c;
	return 0;
}

/* Sends on what the process may take; how much, or -errno. */
static ssize_t give_input(struct serve *s, struct proc *p, const uint8_t *data, uint32_t len)
{
	uint32_t n = len < p->in.credit ? len : p->in.credit;
	int r;

	if (!n)
		return 0;
	r = proto_send_data(&s->conn, p->agent_stream, data, n, NULL);
	if (r < 0)
		return r;
	flow_take(&p->in, n);
	return n;
}

static void taken(struct serve *s, struct call *c, uint32_t n)
{
	uint32_t credit = flow_give(&c->in, n);
	uint8_t buf[SMALL];
	struct msg m;

	c->taken += n;
	if (!credit)
		return;
	msg_begin(&m, buf, sizeof(buf), PROTO_CREDIT, 0, c->stream);
	msg_u64(&m, TAG_BYTES, credit);
	ctl_put_msg(&s->link, &m);
}

static void finish_input(struct serve *s, struct proc *p, struct call *c)
{
	if (c->flags & LINK_CLOSE) {
		proto_send_end(&s->conn, p->agent_stream, NULL);
		p->stdin_open = false;
	}
	input_ok(s, c);
	p->inputs = c->next;
	call_close(s, c);
}

/* Only the first of the queue writes: what two callers send is never mixed. */
void input_pump(struct serve *s, struct proc *p)
{
	while (p->inputs && !p->exited) {
		struct call *c = p->inputs;
		ssize_t n = 0;

		if (c->pending_len && p->stdin_open)
			n = give_input(s, p, c->pending + c->pending_at, c->pending_len);
		if (!p->stdin_open) {
			link_error(s, c->stream, EPIPE, "stdin was closed");
			p->inputs = c->next;
			call_close(s, c);
			continue;
		}
		if (n > 0) {
			c->pending_at += (uint32_t)n;
			c->pending_len -= (uint32_t)n;
			taken(s, c, (uint32_t)n);
		}
		if (n < 0 || c->pending_len || !c->ended)
			return;
		finish_input(s, p, c);
	}
}

static int append(struct call *c, const uint8_t *data, uint32_t len)
{
	if (!c->pending) {
		c->pending = malloc(FLOW_WINDOW);
		if (!c->pending)
			return -ENOMEM;
	}
	/* What is pending and what comes are within the window together. */
	memmove(c->pending, c->pending + c->pending_at, c->pending_len);
	c->pending_at = 0;
	memcpy(c->pending + c->pending_len, data, len);
	c->pending_len += len;
	return 0;
}

int input_data(struct serve *s, struct call *c, const uint8_t *data, uint32_t len)
{
	struct proc *p = c->proc;
	ssize_t n = 0;

	if (!len || c->ended || flow_take(&c->in, len) < 0)
		return -EPROTO;
	if (p->inputs == c && !c->pending_len)
		n = give_input(s, p, data, len);
	n = n < 0 ? 0 : n;
	if (n)
		taken(s, c, (uint32_t)n);
	return (uint32_t)n < len ? append(c, data + n, len - (uint32_t)n) : 0;
}

void input_end(struct serve *s, struct call *c)
{
	c->ended = true;
	input_pump(s, c->proc);
}
