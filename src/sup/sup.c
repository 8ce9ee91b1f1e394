/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/sup.c - the process around one sandbox: starts it, waits, keeps its limits, sees its end.
 *
 * Owns:  the loop, and everything in struct sup.
 * Rules: one thread, one poll; nothing in it waits for the sandbox or for a reader of its output.
 *        What the agent says is checked by proto/; what the first process says, by plan/trail.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "proto/client.h"
#include "sup/frames.h"
#include "sup/notify.h"
#include "sup/stdio.h"
#include "sup/sup.h"
#include "sup/tty.h"

enum { STREAM = 1, INSIST = 3, TTY_CHUNK = 4096 };

struct sup {
	struct box *box;
	const struct plan *plan;
	const struct box_fds *fds;
	struct sighting *seen;
	struct proto_conn conn;
	struct stdio io;
	struct frames frames; /* where the channel passes no descriptors */
	struct tty tty;
	struct flow in, out; /* with a terminal, bytes go through frames */
	struct relay shown;  /* and those of its output that could not be written yet are here */
	bool ready, channel_open, killed, in_open;
	int signals; /* signalfd */
	unsigned insisted;
	uint64_t deadline_ns;
	uint64_t late_ns;  /* when to call hooks->late; 0: done */
	uint64_t watch_ns; /* when to look at the disk again; 0: never */
	const struct sup_hooks *hooks;
	bool command_over, judged;
	unsigned stdio_polls; /* of the last fill_polls() */
	struct usage usage;
	struct run_end *end;
};

static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH };

static int catch_signals(struct sup *s, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(&set, passed_on[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE,
		SIG_IGN); /* a reader that goes away is an error of write(), not ward's end */
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signals < 0)
		return err_set(e, errno, "signalfd");
	return 0;
}

static bool is_set(const char *const *env, const char *assignment)
{
	size_t n = strcspn(assignment, "=") + 1;

	for (; env && *env; env++)
		if (strncmp(*env, assignment, n) == 0)
			return true;
	return false;
}

/* What the plan says, and what the tier adds to it without overruling it. */
static const char **join_env(const char *const *plan, const char *const *tier)
{
	const char **env;
	size_t n = 0, t = 0;

	while (plan && plan[n])
		n++;
	while (tier && tier[t])
		t++;
	env = calloc(n + t + 1, sizeof(*env));
	if (!env)
		return NULL;
	if (n)
		memcpy(env, plan, n * sizeof(*env));
	for (size_t i = 0; i < t; i++)
		if (!is_set(plan, tier[i]))
			env[n++] = tier[i];
	return env;
}

static int send_start(struct sup *s, struct err *e)
{
	own_mem const char **env = join_env(s->plan->env, box_env(s->box));
	struct proto_start start = {
		.stream = STREAM,
		.flags = START_LAST | (s->plan->workdir_made ? START_MAKE_CWD : 0),
		.argv = s->plan->argv,
		.env = env,
		.cwd = box_workdir(s->box) ? box_workdir(s->box) : s->plan->workdir,
		.user = s->plan->user,
	};
	int r;

	if (!env)
		return err_set(e, ENOMEM, "preparing the command's environment");
	if (!s->plan->tty && !box_passes_fds(s->box)) {
		r = frames_open(&s->frames, &s->conn, STREAM, &s->io, e);
		return r < 0 ? r : proto_send_start(&s->conn, &start, NULL, 0, e);
	}
	if (!s->plan->tty) {
		start.flags |= START_STDIO_FDS;
		r = proto_send_start(&s->conn, &start, s->io.give, 3, e);
		stdio_given(&s->io);
		return r;
	}
	start.flags |= START_PTY;
	tty_size(0, &start.rows, &start.cols);
	flow_init(&s->in, FLOW_WINDOW);
	flow_init(&s->out, FLOW_WINDOW);
	s->in_open = true;
	return proto_send_start(&s->conn, &start, NULL, 0, e);
}

static void kill_box(struct sup *s)
{
	if (s->killed)
		return;
	s->killed = s->seen->killed = true;
	box_kill(s->box);
}

static void pass_signal(struct sup *s, int sig)
{
	/* From a terminal these go to everything in the foreground; from kill(1), to one process.
	 */
	bool group = sig == SIGINT || sig == SIGQUIT;

	if (sig == SIGWINCH) {
		unsigned short rows, cols;

		tty_size(0, &rows, &cols);
		if (s->plan->tty && rows)
			proto_send_resize(&s->conn, STREAM, rows, cols, NULL);
		return;
	}
	s->seen->operator_signal = sig;
	s->insisted += sig == SIGINT || sig == SIGTERM;
	if (s->insisted >= INSIST || !s->channel_open) {
		s->seen->operator_killed = true;
		kill_box(s);
		return;
	}
	if (proto_send_signal(&s->conn, STREAM, sig, group, NULL) < 0) {
		s->seen->operator_killed = true;
		kill_box(s);
	}
}

static void read_signals(struct sup *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		pass_signal(s, (int)info.ssi_signo);
}

/* Writes what the terminal takes now, and gives the agent credit for that much. */
static void tty_flush(struct sup *s)
{
	while (s->shown.len) {
		ssize_t n = sink_write(&s->shown.to, s->shown.data + s->shown.at, s->shown.len);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n < 0) { /* nobody looks any more: as when a terminal hangs up */
			s->shown.len = 0;
			pass_signal(s, SIGHUP);
			return;
		}
		s->shown.at += (size_t)n;
		s->shown.len -= (size_t)n;
		proto_send_credit(&s->conn, STREAM, false, flow_give(&s->out, (uint32_t)n), NULL);
	}
}

static void tty_output(struct sup *s, const struct proto_event *ev)
{
	uint64_t max = s->plan->limits.output_bytes;
	size_t len = ev->data_len;

	/* More than was allowed, or than there can be room for: not to be trusted any more. */
	if (flow_take(&s->out, ev->data_len) < 0 || s->shown.len + len > RELAY_BYTES) {
		kill_box(s);
		return;
	}
	if (max && s->seen->output_bytes + len > max) {
		len = (size_t)(max - s->seen->output_bytes);
		s->seen->output_over = true;
	}
	s->seen->output_bytes += len;
	memmove(s->shown.data, s->shown.data + s->shown.at, s->shown.len);
	s->shown.at = 0;
	memcpy(s->shown.data + s->shown.len, ev->data, len);
	s->shown.len += len;
	tty_flush(s);
	if (s->seen->output_over)
		kill_box(s);
}

/* Says why it ended and tells it on; @first_status counts only when nobody else knows. */
static void judge(struct sup *s, int first_status)
{
	struct trail child;

	s->judged = true;
	box_trail(s->box, &child);
	end_judge(s->seen, &s->usage, &child, first_status, &s->plan->limits, s->end);
	if (s->hooks->ended)
		s->hooks->ended(s->hooks->arg, s->end);
}

static void take_event(struct sup *s, const struct proto_event *ev)
{
	switch (ev->type) {
	case PROTO_EXIT:
		s->seen->exited = !ev->exit.signaled;
		s->seen->signaled = ev->exit.signaled;
		s->seen->code = ev->exit.code;
		s->seen->oom_kills = ev->exit.oom_kills;
		s->seen->pids_refused = ev->exit.pids_refused;
		s->command_over = true;
		break;
	case PROTO_START_FAILED:
		s->seen->start_failed = true;
		s->seen->start_status = proto_failed_status(&ev->failed);
		if (ev->failed.text[0])
			str_fmt(s->seen->start_text, sizeof(s->seen->start_text), "%s",
				ev->failed.text);
		else
			snprintf(s->seen->start_text, sizeof(s->seen->start_text), "%s: %s",
				s->plan->argv[0], strerror(ev->failed.code));
		break;
	case PROTO_DATA:
		if (s->frames.conn)
			frames_data(&s->frames, ev);
		else
			tty_output(s, ev);
		break;
	case PROTO_CREDIT:
		if (s->frames.conn)
			frames_credit(&s->frames, ev);
		else if (flow_add(&s->in, ev->bytes) < 0)
			kill_box(s);
		break;
	default:
		break; /* OPENED, END: nothing to do for a single command */
	}
}

static void read_channel(struct sup *s)
{
	struct proto_event ev;
	struct err e = { 0 };
	int r;

	if (!s->ready) {
		r = box_ready(s->box, &e);
		if (r == -EAGAIN)
			return;
		if (r < 0) {
			s->channel_open = false;
			return;
		}
		s->ready = true;
	}
	while ((r = proto_conn_receive(&s->conn, &ev, &e)) == 1)
		take_event(s, &ev);
	if (r == 0)
		return;
	s->channel_open = false;
	if (r != -ENOTCONN) {
		s->seen->agent_broke = true;
		kill_box(s);
	}
}

static void tty_input(struct sup *s)
{
	char data[TTY_CHUNK];
	ssize_t n = read(0, data, s->in.credit < sizeof(data) ? s->in.credit : sizeof(data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		s->in_open = false;
		proto_send_end(&s->conn, STREAM, NULL);
		return;
	}
	if (flow_take(&s->in, (uint32_t)n) < 0 ||
		proto_send_data(&s->conn, STREAM, data, (size_t)n, NULL) < 0)
		s->in_open = false;
}

static void read_oom(struct sup *s)
{
	uint64_t count;

	if (read(s->fds->oom, &count, sizeof(count)) != (ssize_t)sizeof(count))
		return;
	/* One process was killed or is about to be; the rest goes with it. */
	s->seen->oom_seen = true;
	kill_box(s);
}

static int ms_until(uint64_t then_ns)
{
	uint64_t now = clock_ns(), left = then_ns > now ? then_ns - now : 0;

	if (left > 1000000000ull * 86400)
		return 86400 * 1000;
	return (int)((left + 999999) / 1000000);
}

/* For poll(): until whatever comes first. */
static int time_left_ms(const struct sup *s)
{
	uint64_t next = s->deadline_ns;

	if (s->late_ns && (!next || s->late_ns < next))
		next = s->late_ns;
	if (s->watch_ns && (!next || s->watch_ns < next))
		next = s->watch_ns;
	return next ? ms_until(next) : -1;
}

static void watch(struct sup *s)
{
	bool over;
	unsigned ms = box_watch(s->box, &over);

	s->watch_ns = ms && !over ? clock_ns() + ms * 1000000ull : 0;
	if (over) {
		s->seen->disk_over = true;
		kill_box(s);
	}
}

static void check_clock(struct sup *s)
{
	if (s->watch_ns && ms_until(s->watch_ns) == 0)
		watch(s);
	if (s->late_ns && ms_until(s->late_ns) == 0) {
		s->late_ns = 0;
		s->hooks->late(s->hooks->arg);
		host_drop_text(); /* most of it was for the start */
	}
	if (s->deadline_ns && ms_until(s->deadline_ns) == 0) {
		s->deadline_ns = 0;
		s->seen->time_over = true;
		kill_box(s);
	}
}

enum {
	AT_END,
	AT_SIGNALS,
	AT_CHANNEL,
	AT_NOTIFY,
	AT_OOM,
	AT_TTY,
	AT_SHOWN,
	AT_STDIO,
	AT_COUNT = AT_STDIO + STDIO_POLLS + FRAMES_POLLS
};

static unsigned fill_polls(struct sup *s, struct pollfd *p)
{
	bool tty_in = s->plan->tty && s->in_open && s->in.credit && s->ready;

	p[AT_END] = (struct pollfd){ .fd = s->fds->pidfd, .events = POLLIN };
	p[AT_SIGNALS] = (struct pollfd){ .fd = s->signals, .events = POLLIN };
	p[AT_CHANNEL] =
		(struct pollfd){ .fd = s->channel_open ? s->fds->channel : -1, .events = POLLIN };
	if (proto_conn_wants_write(&s->conn))
		p[AT_CHANNEL].events |= POLLOUT;
	p[AT_NOTIFY] = (struct pollfd){ .fd = s->fds->notify, .events = POLLIN };
	p[AT_OOM] = (struct pollfd){ .fd = s->seen->oom_seen ? -1 : s->fds->oom, .events = POLLIN };
	p[AT_TTY] = (struct pollfd){ .fd = tty_in ? 0 : -1, .events = POLLIN };
	p[AT_SHOWN] =
		(struct pollfd){ .fd = s->shown.len ? s->shown.to.fd : -1, .events = POLLOUT };
	s->stdio_polls = stdio_polls(&s->io, p + AT_STDIO);
	return AT_STDIO + s->stdio_polls + frames_polls(&s->frames, p + AT_STDIO + s->stdio_polls);
}

/* Copies what can be copied, as the last fill_polls() and poll() found it. */
static void copy_stdio(struct sup *s, const struct pollfd *p, unsigned count)
{
	unsigned n = s->stdio_polls;

	stdio_work(&s->io, p + AT_STDIO, n);
	frames_work(&s->frames, p + AT_STDIO + n, count - AT_STDIO - n);
	if (s->frames.broken) {
		s->seen->agent_broke = true;
		kill_box(s);
	}
}

static void handle(struct sup *s, const struct pollfd *p, unsigned count)
{
	if (p[AT_SIGNALS].revents)
		read_signals(s);
	if (p[AT_CHANNEL].revents & POLLOUT)
		proto_conn_flush(&s->conn, NULL);
	if (p[AT_CHANNEL].revents & ~POLLOUT)
		read_channel(s);
	if (p[AT_NOTIFY].revents &&
		((p[AT_NOTIFY].revents & POLLHUP) || !notify_answer(s->fds->notify, s->seen)))
		box_close_notify(s->box);
	if (p[AT_OOM].revents)
		read_oom(s);
	if (p[AT_TTY].revents)
		tty_input(s);
	if (p[AT_SHOWN].revents)
		tty_flush(s);
	copy_stdio(s, p, count);
	if (s->io.over) {
		s->seen->output_over = true;
		kill_box(s);
	}
}

static void wait_for_end(struct sup *s)
{
	struct pollfd p[AT_COUNT];

	for (;;) {
		unsigned count = fill_polls(s, p);
		int n = poll(p, count, time_left_ms(s));

		if (n < 0 && errno != EINTR)
			kill_box(s);
		check_clock(s);
		if (n <= 0)
			continue;
		handle(s, p, count);
		if (p[AT_END].revents)
			return;
		/* Output that is still in the pipes may yet be over its limit. */
		if (s->command_over && !s->judged && !s->plan->limits.output_bytes) {
			box_measure(s->box, &s->usage);
			judge(s, 0);
		}
	}
}

/*
 * The command is gone; what it wrote is not all delivered yet. A reader has all the time it wants,
 * unless the sandbox was ended on purpose, the clock runs out, or the operator loses patience.
 */
static void deliver(struct sup *s)
{
	struct pollfd p[AT_COUNT];

	stdio_end_input(&s->io);
	s->frames.in = -1;
	for (;;) {
		unsigned count;
		int n;

		/* The command's end of its pipes is ours then: as it would, we close it. */
		if (s->frames.conn && frames_idle(&s->frames)) {
			frames_close(&s->frames);
			stdio_given(&s->io);
		}
		count = fill_polls(s, p);

		p[AT_END].fd = p[AT_CHANNEL].fd = p[AT_NOTIFY].fd = p[AT_OOM].fd = p[AT_TTY].fd =
			-1;
		if (count == AT_STDIO && !s->shown.len)
			return;
		n = poll(p, count, s->killed ? 0 : s->deadline_ns ? ms_until(s->deadline_ns) : -1);
		if (n == 0 || (n < 0 && errno != EINTR))
			return;
		if (n > 0 && p[AT_SIGNALS].revents)
			return;
		if (n < 0)
			continue;
		if (p[AT_SHOWN].revents)
			tty_flush(s);
		copy_stdio(s, p, count);
	}
}

static void finish(struct sup *s, struct trail *trail, struct run_end *ret)
{
	int status = 0;

	trail_begin(trail, STEP_END);
	if (s->channel_open)
		read_channel(s);
	deliver(s);
	s->seen->output_bytes += s->io.out_bytes;
	s->seen->output_over |= s->io.over;
	s->seen->output_lost = s->io.lost;
	if (!s->judged)
		box_measure(s->box, &s->usage);
	box_reap(s->box, &status, &s->usage);
	if (!s->judged)
		judge(s, status);
	/* Killed all at once, they are not added up by the kernel. */
	if (s->killed)
		s->usage.written_bytes = UINT64_MAX;
	s->usage.oom_kills = ret->usage.oom_kills;
	s->usage.pids_refused = ret->usage.pids_refused;
	ret->usage = s->usage;
}

static void sup_done(struct sup *s)
{
	tty_restore(&s->tty);
	frames_close(&s->frames);
	proto_conn_done(&s->conn);
	stdio_close(&s->io);
	sink_close(&s->shown.to);
	free(s->shown.data);
	if (s->signals >= 0)
		close(s->signals);
	/* The signals stay blocked: one that comes now has nothing left to end but the report. */
	free(s);
}

static int begin(struct sup *s, struct trail *trail, struct err *e)
{
	const struct plan *plan = s->plan;
	int r = catch_signals(s, e);

	if (r == 0 && plan->tty) {
		sink_open(&s->shown.to, 1);
		s->shown.data = malloc(RELAY_BYTES);
		r = s->shown.data ? 0 : err_set(e, ENOMEM, "making room for the terminal's output");
	}
	if (r == 0)
		r = box_start(s->box, trail, e);
	if (r < 0)
		return r;
	proto_conn_init(&s->conn, s->fds->channel);
	s->channel_open = true;
	if (s->hooks->commit) {
		trail_begin(trail, STEP_AUDIT);
		r = s->hooks->commit(s->hooks->arg, e);
		if (r < 0) {
			kill_box(s);
			return r;
		}
	}
	trail_begin(trail, STEP_EXEC);
	if (plan->limits.timeout_ms)
		s->deadline_ns = clock_ns() + plan->limits.timeout_ms * 1000000;
	if (!plan->tty)
		r = stdio_open(&s->io, plan->limits.output_bytes, geteuid() == 0, e);
	/* A first process that failed already shows as its end, not as a broken pipe here. */
	if (r == 0)
		r = send_start(s, e);
	if (r < 0 && r != -EPIPE) {
		kill_box(s);
		return r;
	}
	if (plan->tty)
		tty_raw(&s->tty, 0);
	return 0;
}

int sup_run(struct box *box, const struct plan *plan, const struct sup_hooks *hooks,
	struct trail *trail, struct sighting *ret_seen, struct run_end *ret, struct err *e)
{
	struct sup *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(e, ENOMEM, "starting the supervisor");
	*ret_seen = (struct sighting){ 0 };
	s->box = box;
	s->plan = plan;
	s->fds = box_fds(box);
	s->seen = ret_seen;
	s->hooks = hooks;
	s->end = ret;
	s->signals = -1;
	s->io = (struct stdio){ .give = { -1, -1, -1 } };
	s->io.in = s->io.out[0] = s->io.out[1] = s->shown =
		(struct relay){ .from = -1, .to = { .fd = -1 } };
	r = begin(s, trail, e);
	if (r == 0) {
		trail_begin(trail, STEP_RUN);
		if (hooks->idle)
			hooks->idle(hooks->arg);
		watch(s);
		if (hooks->late)
			s->late_ns = clock_ns() + SUP_LATE_MS * 1000000ull;
		wait_for_end(s);
		finish(s, trail, ret);
	}
	sup_done(s);
	return r;
}
