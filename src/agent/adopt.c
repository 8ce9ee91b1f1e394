/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/adopt.c - processes whose client is gone: a copy's, started over the channel of the
 * original.
 *
 * Owns:  their streams, which have no number, until a new client takes them over with ADOPT.
 * Rules: for ADOPT_WAIT_MS nothing that they write is lost, as far as their pipes hold it; then
 *        what nobody wants is read and dropped, so that they do not stand still for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "agent/process.h"
#include "agent/procfs.h"
#include "agent/state.h"
#include "base/clock.h"

enum { ADOPT_WAIT_MS = 2000 };

static bool read_and_drop(struct outlet *o)
{
	char room[4096];
	ssize_t n = read(o->fd, room, sizeof(room));

	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void orphan_want(struct agent *a, struct stream *s)
{
	for (unsigned i = 0; !a->adopt_ns && i < 2; i++)
		if (s->out[i].fd >= 0)
			agent_poll(a, s, i, s->out[i].fd, POLLIN);
}

static bool orphan_work(struct agent *a, struct stream *s)
{
	(void)s;
	if (a->adopt_ns && clock_ns() >= a->adopt_ns)
		a->adopt_ns = 0;
	if (a->adopt_ns)
		agent_wake_at(a, a->adopt_ns);
	return false;
}

static void orphan_ready(struct agent *a, struct stream *s, unsigned which, short events)
{
	(void)a;
	(void)events;
	if (which < 2 && s->out[which].fd >= 0 && !read_and_drop(&s->out[which])) {
		close(s->out[which].fd);
		s->out[which].fd = -1;
	}
}

static void orphan_done(struct stream *s)
{
	relay_in_drop(s);
	pending_done(s);
	for (unsigned i = 0; i < 2; i++)
		if (s->out[i].fd >= 0)
			close(s->out[i].fd);
}

/* Its stream has no number, so nobody finds it; process_exited() closes it. */
static const struct stream_ops orphan_ops = {
	.kind = STREAM_PROCESS,
	.work = orphan_work,
	.want = orphan_want,
	.ready = orphan_ready,
	.done = orphan_done,
};

void streams_leave(struct agent *a)
{
	for (unsigned i = 0; i < a->top; i++) {
		struct stream *s = &a->streams[i];

		if (!s->ops)
			continue;
		if (!stream_is_process(s) || s->proc.exited) {
			s->ops->done(s);
			s->ops = NULL;
			continue;
		}
		s->ops = &orphan_ops;
		s->id = 0;
		s->proc.last = false;
		for (unsigned k = 0; k < 2; k++)
			s->out[k].open = false;
	}
	while (a->top && !a->streams[a->top - 1].ops)
		a->top--;
	a->adopt_ns = clock_ns() + ADOPT_WAIT_MS * 1000000ull;
}

/* As if it had just been started: the windows are new, and whole. */
static void take_over(struct stream *s, uint32_t id, uint32_t window)
{
	s->ops = s->proc.fds ? &process_fds_ops : &process_ops;
	s->id = id;
	s->in_end = false;
	/* What the old client wrote and it did not take has no place in the new one's window. */
	s->pending.at = s->pending.len = 0;
	flow_init(&s->in, FLOW_WINDOW);
	for (unsigned i = 0; i < 2; i++) {
		flow_init(&s->out[i].flow, window);
		s->out[i].open = s->out[i].fd >= 0;
		s->out[i].due = 0;
	}
}

static void say_opened(struct agent *a, const struct stream *s)
{
	unsigned flags = (s->proc.pty ? OPENED_PTY : 0) | (s->in_fd >= 0 ? OPENED_STDIN : 0);
	char cmdline[AGENT_CMDLINE_MAX];
	struct procfs fs;
	ssize_t n = 0;
	struct msg m;

	if (procfs_open(&fs) == 0) {
		n = procfs_cmdline(&fs, s->proc.pid, cmdline, sizeof(cmdline));
		procfs_close(&fs);
	}
	out_begin(a, &m, PROTO_OPENED, (uint16_t)flags, s->id);
	msg_u32(&m, TAG_PID, (uint32_t)s->proc.pid);
	if (n > 0)
		msg_bytes(&m, TAG_CMDLINE, cmdline, (size_t)n);
	out_end(a, &m);
}

int request_adopt(struct agent *a, const struct request *q, struct err *e)
{
	uint64_t window = values_num(q->v, TAG_WINDOW, FLOW_WINDOW);

	if (!window || window > FLOW_CREDIT_MAX)
		return err_say(e, EINVAL, "a window is 1 to %d bytes", FLOW_CREDIT_MAX);
	for (unsigned i = 0; i < a->top; i++) {
		struct stream *s = &a->streams[i];

		if (s->ops != &orphan_ops)
			continue;
		take_over(s, q->id, (uint32_t)window);
		say_opened(a, s);
		return 0;
	}
	a->adopt_ns = 0;
	return err_say(e, ESRCH, "no process is left over from another channel");
}
