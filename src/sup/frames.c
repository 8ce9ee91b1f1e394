/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/frames.c - stdin, stdout and stderr of the command, as frames of the agent's channel.
 *
 * Owns:  one window of output that nobody has taken yet, for each of the two.
 * Rules: nothing waits. Credit goes back to the agent only for what was really written, so a slow
 *        reader slows the command, and no more than a window is ever kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sup/frames.h"

enum { CHUNK = 16 * 1024 };

int frames_open(
	struct frames *f, struct proto_conn *conn, uint32_t stream, struct stdio *io, struct err *e)
{
	*f = (struct frames){ .conn = conn, .stream = stream, .in = io->give[0] };
	flow_init(&f->in_flow, FLOW_WINDOW);
	for (int i = 0; i < 2; i++) {
		flow_init(&f->out_flow[i], FLOW_WINDOW);
		f->out[i] = (struct relay){ .from = -1 };
		sink_open(&f->out[i].to, io->give[1 + i]);
		f->out[i].data = malloc(FLOW_WINDOW);
		if (!f->out[i].data)
			return err_set(e, ENOMEM, "making room for the command's output");
	}
	return 0;
}

void frames_close(struct frames *f)
{
	for (int i = 0; f->conn && i < 2; i++) {
		sink_close(&f->out[i].to);
		free(f->out[i].data);
	}
	*f = (struct frames){ .in = -1 };
}

static void write_out(struct frames *f, int i)
{
	struct relay *r = &f->out[i];

	while (r->len) {
		ssize_t n = sink_write(&r->to, r->data + r->at, r->len);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n < 0) { /* nobody reads any more: the command is to find that out too */
			n = (ssize_t)r->len;
			if (!f->closed[i])
				proto_send_close(f->conn, f->stream, i == 1, NULL);
			f->closed[i] = true;
		}
		r->at += (size_t)n;
		r->len -= (size_t)n;
		proto_send_credit(
			f->conn, f->stream, i == 1, flow_give(&f->out_flow[i], (uint32_t)n), NULL);
	}
}

void frames_data(struct frames *f, const struct proto_event *ev)
{
	int i = ev->of_stderr;
	struct relay *r = &f->out[i];

	if (flow_take(&f->out_flow[i], ev->data_len) < 0 || r->len + ev->data_len > FLOW_WINDOW) {
		f->broken = true;
		return;
	}
	memmove(r->data, r->data + r->at, r->len);
	r->at = 0;
	memcpy(r->data + r->len, ev->data, ev->data_len);
	r->len += ev->data_len;
	write_out(f, i);
}

void frames_credit(struct frames *f, const struct proto_event *ev)
{
	if (flow_add(&f->in_flow, ev->bytes) < 0)
		f->broken = true;
}

static void read_in(struct frames *f)
{
	char data[CHUNK];
	size_t most = f->in_flow.credit < sizeof(data) ? f->in_flow.credit : sizeof(data);
	ssize_t n = read(f->in, data, most);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		f->in = -1;
		proto_send_end(f->conn, f->stream, NULL);
		return;
	}
	if (flow_take(&f->in_flow, (uint32_t)n) < 0 ||
		proto_send_data(f->conn, f->stream, data, (size_t)n, NULL) < 0)
		f->in = -1;
}

unsigned frames_polls(struct frames *f, struct pollfd *polls)
{
	unsigned n = 0;

	if (!f->conn)
		return 0;
	if (f->in >= 0 && f->in_flow.credit && !proto_conn_wants_write(f->conn))
		polls[n++] = (struct pollfd){ .fd = f->in, .events = POLLIN };
	for (int i = 0; i < 2; i++)
		if (f->out[i].len)
			polls[n++] = (struct pollfd){ .fd = f->out[i].to.fd, .events = POLLOUT };
	return n;
}

void frames_work(struct frames *f, const struct pollfd *polls, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (!polls[i].revents)
			continue;
		if (polls[i].events == POLLIN)
			read_in(f);
		else
			write_out(f, polls[i].fd == f->out[0].to.fd ? 0 : 1);
	}
}

bool frames_idle(const struct frames *f)
{
	return !f->conn || (!f->out[0].len && !f->out[1].len);
}
