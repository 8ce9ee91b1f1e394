/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/process.c - the life of a started process, from OPENED to EXIT.
 *
 * Owns:  the ends of its pipes or terminal that are ours.
 * Rules: EXIT is the last frame of its stream and comes after all that the process wrote. Output
 *        that a grandchild keeps open is waited for AGENT_EXIT_GRACE_MS, and what was in the pipe
 *        when the process ended is always sent; a drained one's output is waited for until its
 *        end, or until somebody kills what is left. A pid is signalled only while it is not
 *        reaped; the group it led may outlive it.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "agent/process.h"
#include "agent/state.h"
#include "base/clock.h"

static void process_done(struct stream *s)
{
	relay_in_drop(s);
	pending_done(s);
	for (unsigned i = 0; i < 2; i++)
		if (s->out[i].fd >= 0)
			close(s->out[i].fd);
}

static void send_exit(struct agent *a, struct stream *s)
{
	const struct process *p = &s->proc;
	struct msg m;

	out_begin(a, &m, PROTO_EXIT, 0, s->id);
	msg_exit(&m, p->status, &p->used);
	if (a->limits) {
		uint64_t oom_kills = 0, pids_refused = 0;

		a->limits(a->limits_arg, &oom_kills, &pids_refused);
		msg_u64(&m, TAG_OOM_KILLS, oom_kills);
		msg_u64(&m, TAG_PIDS_REFUSED, pids_refused);
	}
	out_end(a, &m);
	if (p->last)
		a->over = true;
	stream_close(a, s);
}

/* After exit: is this outlet finished? A deadline that has not come yet is set as the next wake. */
static bool drained(struct agent *a, struct stream *s, unsigned which, uint64_t now)
{
	struct outlet *o = &s->out[which];

	if (!o->open)
		return true;
	if (s->proc.drain)
		return false;
	if (now < s->proc.deadline_ns) {
		agent_wake_at(a, s->proc.deadline_ns);
		return false;
	}
	if (o->due)
		return false;
	relay_out_end(a, s, which);
	return true;
}

static bool process_work(struct agent *a, struct stream *s)
{
	uint64_t now;
	bool all;

	if (!out_ready(a))
		return false;
	relay_credit(a, s);
	if (s->in_end && !s->pending.len && !s->proc.pty)
		relay_in_drop(s);
	if (!s->proc.exited)
		return false;
	now = s->out[0].open || s->out[1].open ? clock_ns() : 0;
	all = drained(a, s, 0, now);
	if (drained(a, s, 1, now) && all)
		send_exit(a, s);
	return false;
}

static void process_want(struct agent *a, struct stream *s)
{
	for (unsigned i = 0; i < 2; i++)
		if (relay_can_send(a, &s->out[i]))
			agent_poll(a, s, i, s->out[i].fd, POLLIN);
	if (s->pending.len && s->in_fd >= 0)
		agent_poll(a, s, 2, s->in_fd, POLLOUT);
}

static void process_ready(struct agent *a, struct stream *s, unsigned which, short events)
{
	ssize_t n;

	(void)events;
	if (which == 2) {
		relay_in(a, s);
		return;
	}
	if (!s->out[which].open || s->out[which].fd < 0)
		return;
	n = relay_out(a, s, which);
	/* EIO is how a terminal says that nobody has its other end open any more. */
	if (n == 0 || (n < 0 && n != -EAGAIN))
		relay_out_end(a, s, which);
}

static void process_end(struct agent *a, struct stream *s)
{
	process_work(a, s);
}

const struct stream_ops process_ops = {
	.kind = STREAM_PROCESS,
	.work = process_work,
	.want = process_want,
	.ready = process_ready,
	.data = relay_data,
	.end = process_end,
	.done = process_done,
};

/* Without a relayed stdin there is nothing to send DATA to: that is the client's mistake. */
const struct stream_ops process_fds_ops = {
	.kind = STREAM_PROCESS,
	.work = process_work,
	.want = process_want,
	.ready = process_ready,
	.done = process_done,
};

bool stream_is_process(const struct stream *s)
{
	return s->ops && s->ops->kind == STREAM_PROCESS;
}

void process_signal(struct agent *a, struct stream *s, int sig, bool group)
{
	struct err e = { 0 };

	if (s->proc.exited) {
		/* Only what it left behind is there. Who kills that wants the end, too. */
		if (s->proc.drain && sig == SIGKILL) {
			kill(-s->proc.pid, sig);
			s->proc.drain = false;
			s->proc.deadline_ns = clock_ns() + AGENT_EXIT_GRACE_MS * 1000000ULL;
			process_work(a, s);
		}
		return;
	}
	/* The one that does not exist any more has just ended: EXIT is on its way. */
	if (kill(group ? -s->proc.pid : s->proc.pid, sig) == 0 || errno == ESRCH)
		return;
	err_set(&e, errno, "signal %d to process %d", sig, (int)s->proc.pid);
	out_error(a, s->id, ERROR_SOFT, &e);
}

void process_resize(struct agent *a, struct stream *s, unsigned rows, unsigned cols)
{
	struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols };
	struct err e = { 0 };

	if (s->proc.exited)
		return;
	if (s->proc.pty && s->out[0].fd < 0)
		return; /* its last user has let go of it: EXIT is on its way */
	if (s->proc.pty && ioctl(s->out[0].fd, TIOCSWINSZ, &size) == 0)
		return;
	err_set(&e, s->proc.pty ? errno : ENOTTY, "resizing process %d", (int)s->proc.pid);
	out_error(a, s->id, ERROR_SOFT, &e);
}

void process_exited(struct agent *a, pid_t pid, int status, const struct rusage *used)
{
	struct stream *s = NULL;
	struct process *p;

	for (unsigned i = 0; i < a->top && !s; i++)
		if (stream_is_process(&a->streams[i]) && a->streams[i].proc.pid == pid &&
			!a->streams[i].proc.exited)
			s = &a->streams[i];
	if (!s)
		return; /* an orphan */
	p = &s->proc;
	p->exited = true;
	p->status = status;
	p->used = *used;
	if (!s->id) { /* its client stayed with another machine: renew.c */
		stream_close(a, s);
		return;
	}
	relay_in_drop(s);
	/* The last command's leftovers go now, so that its output has an end. */
	if (p->last && !p->fds)
		kill_all(a, SIGKILL);
	for (unsigned i = 0; i < 2; i++) {
		int n = 0;

		if (s->out[i].fd >= 0 && ioctl(s->out[i].fd, FIONREAD, &n) == 0 && n > 0)
			s->out[i].due = (uint32_t)n;
	}
	if (s->out[0].open || s->out[1].open)
		p->deadline_ns = clock_ns() + AGENT_EXIT_GRACE_MS * 1000000ULL;
	else if (out_ready(a))
		send_exit(a, s);
}
