/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve.c - the long-lived supervisor: its loop, its clock, its end.
 *
 * Owns:  struct serve, the socket in <state>/run, and the order of a turn.
 * Rules: one thread, one poll; nothing waits for the sandbox or for the daemon, apart from pausing,
 *        which waits until every process stands still, and snapshots (serve_still.c). Each turn
 * reads first and sends last, so that many answers are one send. The deadline is kept here, daemon
 * or not.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "sup/notify.h"
#include "sup/place.h"
#include "sup/serve_impl.h"

enum {
	BACKLOG = 4,
	GUEST_OOM_SCORE = 500, /* as the kernel tier gives its guests */
	LAST_WORDS_MS = 2000,  /* for a daemon to take the last message */
	SMALL = FRAME_HEAD + 1024,
	STATUS_WARD = 125,
	SPIN_GAP_NS = 50 * 1000, /* between two looks: somebody else had a turn */
	CLAIM_STACK = FRAME_PAYLOAD_MAX + 16 * 1024, /* what is read, and what reads it */
	PAGE = 4096,
};

static const uint64_t ns_per_ms = 1000000;

/* --- The place -------------------------------------------------------------------------------- */

static int catch_signals(struct serve *s, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP); /* taken and dropped: a terminal that goes away is not ours */
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? err_set(e, errno, "signalfd") : 0;
}

int serve_open(const char *state_dir, const struct sup_request *q, int link, struct serve **ret,
	struct err *e)
{
	struct serve *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		if (link >= 0)
			close(link);
		return err_set(e, ENOMEM, "starting the supervisor");
	}
	str_copy(s->id, sizeof(s->id), q->id);
	s->run_dir = s->listener = s->signals = -1;
	s->link = (struct ctl){ .fd = -1, .dead = true };
	s->state = SUP_STARTING;
	s->deadline_total_ms = q->deadline_ms;
	s->deadline_action = q->deadline_action;
	clock_text(s->created);
	flight_init(&s->flight);
	if (link >= 0)
		ctl_init(&s->link, link);
	s->was_asked = link >= 0;
	host_short_turns(); /* not having it is no reason to fail */
	r = catch_signals(s, e);
	if (r == 0)
		r = place_open(state_dir, true, &s->run_dir, e);
	if (r == 0)
		r = place_listen(s->run_dir, s->id, BACKLOG, &s->listener, e);
	if (r < 0) {
		serve_close(s, NULL, NULL);
		return r;
	}
	link_status_send(s);
	ctl_flush(&s->link);
	if (s->was_asked && s->link.dead) {
		serve_close(s, NULL, NULL);
		return err_say(e, ENOTCONN, "the daemon that asked for it is gone");
	}
	*ret = s;
	return 0;
}

/* --- State ------------------------------------------------------------------------------------ */

void serve_kill(struct serve *s, enum end_cause cause, const char *fmt, ...)
{
	va_list ap;

	if (!s->stop_text[0]) {
		s->stop_cause = cause;
		va_start(ap, fmt);
		vsnprintf(s->stop_text, sizeof(s->stop_text), fmt, ap);
		va_end(ap);
	}
	if (s->killed)
		return;
	s->killed = s->seen->killed = true;
	box_kill(s->box);
}

void serve_set_deadline(struct serve *s, uint64_t ms, enum sup_action action)
{
	s->deadline_action = action;
	s->deadline_total_ms = ms;
	s->deadline_ns = ms ? clock_ns() + ms * ns_per_ms : 0;
}

static void set_state(struct serve *s, enum sup_state state, const char *reason)
{
	s->state = state;
	str_copy(s->reason, sizeof(s->reason), reason);
	flight_note(&s->flight, state == SUP_PAUSED ? "pause" : "resume", "%s", reason);
	link_status_send(s);
}

static void read_denial(struct serve *s, short revents)
{
	unsigned before = s->seen->denial_count;

	if ((revents & POLLHUP) || !notify_answer(s->fds->notify, s->seen))
		box_close_notify(s->box);
	if (s->seen->denial_count > before)
		flight_note(&s->flight, "denied", "%s", s->seen->denials[before].what);
}

/* While its processes come to rest: one that waits for an answer never would. */
static void answer_denials(void *arg)
{
	struct serve *s = arg;
	struct pollfd p = { .fd = s->fds->notify, .events = POLLIN };

	while (p.fd >= 0 && poll(&p, 1, 0) > 0) {
		read_denial(s, p.revents);
		p.fd = s->fds->notify;
	}
}

static void answer_meanwhile(void *arg)
{
	answer_denials(arg);
	still_meanwhile(arg);
}

/* Its time stands still from now on. */
static void paused(struct serve *s, uint64_t now, const char *reason)
{
	s->deadline_left_ms = !s->deadline_ns        ? 0
			      : s->deadline_ns > now ? (s->deadline_ns - now) / ns_per_ms + 1
						     : 1;
	s->deadline_ns = 0;
	s->paused_ns = now;
	set_state(s, SUP_PAUSED, reason);
}

int serve_pause(struct serve *s, const char *reason, struct err *e)
{
	uint64_t now = clock_ns();
	int r;

	if (s->state != SUP_RUNNING)
		return err_say(e, s->state == SUP_PAUSED ? EALREADY : EAGAIN,
			s->state == SUP_PAUSED ? "it is paused" : "it is not running yet");
	r = box_pause(s->box, answer_denials, s, e);
	if (r < 0)
		return r;
	paused(s, now, reason);
	return 0;
}

int serve_snapshot(struct serve *s, const struct snap *into, unsigned flags, struct err *e)
{
	uint64_t now = clock_ns();
	int r;

	if (s->state != SUP_RUNNING && s->state != SUP_PAUSED)
		return err_say(e, EAGAIN, "it is not running yet");
	r = box_snapshot(s->box, into, flags, answer_meanwhile, s, e);
	if (r < 0)
		return r;
	flight_note(&s->flight, "snapshot", "in %llu ms",
		(unsigned long long)((clock_ns() - now) / ns_per_ms));
	if ((flags & SNAP_STAY) && s->state == SUP_RUNNING)
		paused(s, now, "a snapshot");
	return 0;
}

int serve_resume(struct serve *s, uint64_t ms, enum sup_action action, struct err *e)
{
	int r;

	if (s->state != SUP_PAUSED)
		return err_say(e, EALREADY, "it is not paused");
	r = box_resume(s->box, e);
	if (r < 0)
		return r;
	if (ms)
		serve_set_deadline(s, ms, action);
	else if (s->deadline_left_ms)
		s->deadline_ns = clock_ns() + s->deadline_left_ms * ns_per_ms;
	proc_resumed(s, clock_ns() - s->paused_ns);
	set_state(s, SUP_RUNNING, "the daemon");
	return 0;
}

/* --- The clock -------------------------------------------------------------------------------- */

/* Limits that make themselves known by a number alone. */
static void note_limits(struct serve *s, const struct usage_now *u)
{
	if (s->fds->oom < 0 && u->oom_kills > s->oom_events) {
		s->oom_events = u->oom_kills;
		flight_note(&s->flight, "limit", "out of memory: %llu processes were killed so far",
			(unsigned long long)u->oom_kills);
	}
	if (!s->disk_full && u->disk_total != UINT64_MAX &&
		u->disk_used >= u->disk_total - u->disk_total / 64) {
		s->disk_full = true;
		flight_note(&s->flight, "limit", "disk: %llu bytes are full",
			(unsigned long long)u->disk_total);
	}
}

static void sample(struct serve *s)
{
	struct usage_now u;

	box_usage_now(s->box, &u);
	flight_sample(&s->flight, &u);
	note_limits(s, &u);
	if (u.pids_refused > s->pids_refused) {
		s->pids_refused = u.pids_refused;
		flight_note(&s->flight, "limit", "processes: %llu refused so far",
			(unsigned long long)u.pids_refused);
	}
}

static void time_over(struct serve *s)
{
	struct err e = { 0 };

	s->deadline_ns = 0;
	if (s->deadline_action == SUP_PAUSE) {
		if (serve_pause(s, "its time was over", &e) == 0)
			return;
		flight_note(&s->flight, "pause-failed", "%s", e.msg);
	}
	s->seen->time_over = true;
	serve_kill(s, END_TIME_LIMIT, "after %llu ms", (unsigned long long)s->deadline_total_ms);
}

static bool is_due(uint64_t at, uint64_t now)
{
	return at && now >= at;
}

/* A daemon that takes nothing for SUP_STALL_MS is as good as gone. */
static void watch_queue(struct serve *s, uint64_t now)
{
	size_t waiting = ctl_waiting(&s->link);

	if (!waiting || waiting != s->stall_waiting || !s->stall_ns) {
		s->stall_waiting = waiting;
		s->stall_ns = waiting ? now : 0;
	} else if (now - s->stall_ns > SUP_STALL_MS * ns_per_ms) {
		flight_note(&s->flight, "daemon", "does not read: hung up on");
		link_hang_up(s);
	}
}

static void check_clock(struct serve *s)
{
	uint64_t now = clock_ns();

	if (is_due(s->deadline_ns, now))
		time_over(s);
	if (is_due(s->kill_ns, now)) {
		s->kill_ns = 0;
		serve_kill(s, END_KILLED, "stopped");
	}
	if (is_due(s->keep_ns, now))
		proc_clock(s, now);
	if (s->state == SUP_RUNNING && is_due(s->sample_ns, now)) {
		sample(s);
		s->sample_ns = now + s->flight.interval_ms * ns_per_ms;
	}
	watch_queue(s, now);
}

static int time_left_ms(const struct serve *s)
{
	const uint64_t times[] = { s->deadline_ns, s->kill_ns, s->keep_ns, s->bound_ns,
		s->state == SUP_RUNNING ? s->sample_ns : 0,
		s->stall_ns ? s->stall_ns + (SUP_STALL_MS + 1) * ns_per_ms : 0 };
	uint64_t next = 0, now;

	if (s->agent_more && !link_is_full(s))
		return 0;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (times[i] && (!next || times[i] < next))
			next = times[i];
	if (!next)
		return -1;
	now = clock_ns();
	if (next <= now)
		return 0;
	if (next - now > 3600ull * 1000 * ns_per_ms)
		return 3600 * 1000;
	return (int)((next - now + ns_per_ms - 1) / ns_per_ms);
}

/* --- The loop --------------------------------------------------------------------------------- */

enum { AT_END, AT_SIGNALS, AT_LISTEN, AT_LINK, AT_CHANNEL, AT_NOTIFY, AT_OOM, AT_COUNT };

static void fill_polls(struct serve *s, struct pollfd p[AT_COUNT])
{
	bool full = link_is_full(s);
	bool deaf = ctl_waiting(&s->link) >= LINK_QUEUE_MAX;

	p[AT_END] = (struct pollfd){ .fd = s->fds->pidfd, .events = POLLIN };
	p[AT_SIGNALS] = (struct pollfd){ .fd = s->signals, .events = POLLIN };
	p[AT_LISTEN] = (struct pollfd){ .fd = s->listener, .events = POLLIN };
	p[AT_LINK] = (struct pollfd){ .fd = s->link.fd, .events = deaf ? 0 : POLLIN };
	if (ctl_waiting(&s->link) && !s->held)
		p[AT_LINK].events |= POLLOUT;
	p[AT_CHANNEL] = (struct pollfd){ .fd = s->channel_open ? s->fds->channel : -1,
		.events = full ? 0 : POLLIN };
	if (proto_conn_wants_write(&s->conn))
		p[AT_CHANNEL].events |= POLLOUT;
	p[AT_NOTIFY] = (struct pollfd){ .fd = s->fds->notify, .events = POLLIN };
	p[AT_OOM] = (struct pollfd){ .fd = s->fds->oom, .events = POLLIN };
}

static void read_signals(struct serve *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo != SIGHUP)
			serve_kill(s, END_KILLED, "signal %u to its supervisor", info.ssi_signo);
}

/* The kernel has killed one process; the sandbox goes on, and the record says so. */
static void read_oom(struct serve *s)
{
	uint64_t count;

	if (read(s->fds->oom, &count, sizeof(count)) != (ssize_t)sizeof(count))
		return;
	s->oom_events += count;
	flight_note(&s->flight, "limit", "out of memory: a process was killed");
}

static void handle(struct serve *s, const struct pollfd p[AT_COUNT])
{
	if (p[AT_SIGNALS].revents)
		read_signals(s);
	if (p[AT_LINK].revents & (POLLIN | POLLHUP | POLLERR))
		link_receive(s);
	if (p[AT_LISTEN].revents)
		link_accept(s);
	if (p[AT_CHANNEL].revents & POLLOUT)
		proto_conn_flush(&s->conn, NULL);
	if (s->channel_open && (s->agent_more || (p[AT_CHANNEL].revents & ~POLLOUT)))
		agent_receive(s);
	if (p[AT_NOTIFY].revents)
		read_denial(s, p[AT_NOTIFY].revents);
	if (p[AT_OOM].revents)
		read_oom(s);
	if ((p[AT_LINK].revents & POLLOUT) && !s->held)
		ctl_flush(&s->link);
	if (s->link.fd >= 0 && ctl_waiting(&s->link) < SUP_QUEUE_HIGH / 4)
		proc_pump_all(s);
}

/* The claim's own command, which comes right behind the BIND or soon, does not wait for the disk.
 */
static void tell_bound(struct serve *s, bool over)
{
	if (!s->bound_ns || (!over && clock_ns() < s->bound_ns))
		return;
	s->bound_ns = 0;
	s->held = false;
	if (s->hooks->bound)
		s->hooks->bound(s->hooks->arg, s->bound_caller[0] ? s->bound_caller : NULL,
			s->bound_trace[0] ? s->bound_trace : NULL);
}

/* The stack that the claim will need, below the room for its frames: its pages are found now. */
static __attribute__((noinline)) void touch_stack(void)
{
	uint8_t room[CLAIM_STACK];
	volatile uint8_t *p = room;

	for (size_t at = 0; at < CLAIM_STACK - FRAME_PAYLOAD_MAX; at += PAGE)
		p[at] = 0;
}

/*
 * A claim is on its way. Whoever sleeps until it comes is woken later than whoever looks for it,
 * which costs nobody anything: it ends when somebody else was given this CPU.
 */
static void await_claim(struct serve *s)
{
	struct pollfd p = { .fd = s->link.fd, .events = POLLIN };
	uint64_t now, last;

	touch_stack();
	now = clock_ns();
	do
		last = now;
	while (p.fd >= 0 && poll(&p, 1, 0) == 0 && (now = clock_ns()) < s->soon_ns &&
		now - last < SPIN_GAP_NS);
	s->soon_ns = 0;
}

static void serve_turns(struct serve *s)
{
	struct pollfd p[AT_COUNT];

	for (;;) {
		bool over;
		int n;

		if (s->soon_ns)
			await_claim(s);
		fill_polls(s, p);
		n = poll(p, AT_COUNT, time_left_ms(s));
		if (n < 0 && errno != EINTR)
			serve_kill(s, END_KILLED, "poll: %s", strerror(errno));
		check_clock(s);
		if (n > 0 || s->agent_more)
			handle(s, p);
		/* An agent that has closed its channel is over, whatever its process does. */
		if (!s->channel_open && !s->killed) {
			s->killed = true;
			box_kill(s->box);
		}
		if (s->link_broken)
			link_hang_up(s);
		over = s->killed || (n > 0 && p[AT_END].revents);
		if ((!s->held && !s->soon_ns) || over)
			ctl_flush(&s->link);
		s->bound_now = false;
		tell_bound(s, over);
		if (over)
			return;
	}
}

/* --- Begin and end ---------------------------------------------------------------------------- */

/*
 * A daemon is protected from the kernel's killer (ward.service says so), its supervisors with it;
 * what runs inside is not. The first process has started nothing yet, so all the others follow.
 * A user's own process may refuse: then it has what everybody has.
 */
static void go_first(struct serve *s)
{
	char path[64], text[16];

	if (box_pid(s->box) > 0 &&
		str_fmt(path, sizeof(path), "/proc/%d/oom_score_adj", (int)box_pid(s->box)) == 0 &&
		str_fmt(text, sizeof(text), "%d", GUEST_OOM_SCORE) == 0)
		host_put(AT_FDCWD, path, text);
}

static int begin(
	struct serve *s, const struct serve_defaults *d, struct trail *trail, struct err *e)
{
	int r = defaults_set(&s->defaults, d->env, d->user, d->workdir);

	if (r < 0)
		return err_set(e, -r, "the defaults of processes");
	r = box_start(s->box, trail, e);
	if (r < 0)
		return r;
	go_first(s);
	proto_conn_init(&s->conn, s->fds->channel);
	s->conn.takes_fds = true;
	s->channel_open = true;
	trail_begin(trail, STEP_AUDIT);
	r = s->hooks->commit ? s->hooks->commit(s->hooks->arg, e) : 0;
	if (r < 0) {
		box_kill(s->box);
		return r;
	}
	trail_begin(trail, STEP_RUN);
	s->sample_ns = clock_ns() + s->flight.interval_ms * ns_per_ms;
	return 0;
}

/* Why it is over: what we did on purpose first, then what its first process says. */
static void judge(struct serve *s, const struct usage *usage, int status, struct run_end *ret)
{
	struct trail child;

	box_trail(s->box, &child);
	end_judge(s->seen, usage, &child, status, &s->limits, ret);
	if (child.failed && !trail_ran(&child))
		return;
	if (!s->stop_text[0]) {
		/* It was ready, and ended by itself: not while it was being set up. */
		if (ret->cause == END_SETUP_FAILED && s->ready) {
			ret->cause = END_KILLED;
			ret->step = NULL;
			str_copy(ret->detail, sizeof(ret->detail),
				"the sandbox's first process ended by itself");
		}
		return;
	}
	ret->cause = s->stop_cause;
	ret->status = s->stop_cause == END_TIME_LIMIT ? 124 : 128 + SIGKILL;
	str_copy(ret->detail, sizeof(ret->detail), "");
	snprintf(ret->detail, sizeof(ret->detail), "%.*s", (int)sizeof(ret->detail) - 1,
		s->stop_text);
}

static void finish(struct serve *s, struct trail *trail, struct run_end *ret)
{
	struct usage usage;
	int status = 0;

	trail_begin(trail, STEP_END);
	box_measure(s->box, &usage);
	/* What its commands said last still goes to whoever listens. */
	if (s->channel_open && !s->seen->killed)
		agent_receive(s);
	proc_pump_all(s);
	ctl_flush(&s->link);
	box_kill(s->box);
	box_reap(s->box, &status, &usage);
	judge(s, &usage, status, ret);
	flight_note(&s->flight, "end", "%s %s", end_cause_name(ret->cause), ret->detail);
	s->over = true;
	s->state = SUP_ENDED;
	proto_conn_done(&s->conn);
}

int serve_run(struct serve *s, struct box *box, const struct plan *plan,
	const struct decision *decision, const struct serve_defaults *defaults,
	const struct serve_hooks *hooks, struct trail *trail, struct sighting *ret_seen,
	struct run_end *ret, struct err *e)
{
	int r;

	*ret_seen = (struct sighting){ 0 };
	s->box = box;
	s->plan = plan;
	s->decision = decision;
	s->hooks = hooks;
	s->fds = box_fds(box);
	s->limits = plan->limits;
	s->seen = ret_seen;
	r = begin(s, defaults, trail, e);
	if (r == 0) {
		flight_note(&s->flight, "created", "%s", wall_name(plan->wall));
		if (hooks->idle)
			hooks->idle(hooks->arg);
		serve_turns(s);
		finish(s, trail, ret);
	}
	s->box = NULL;
	s->fds = NULL;
	return r;
}

static void send_ended(struct serve *s, const struct run_end *end)
{
	uint8_t buf[SMALL];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), PROTO_ENDED, 0, 0);
	msg_text(&m, TAG_CAUSE, end_cause_name(end->cause));
	msg_text(&m, TAG_TEXT, end->detail);
	if (end->step)
		msg_text(&m, TAG_AT_STEP, end->step);
	msg_u32(&m, TAG_CODE, (uint32_t)end->status);
	ctl_put_msg(&s->link, &m);
}

/* Whoever is connected, or has just tried to be, gets the last message. */
static void last_words(struct serve *s, const struct run_end *end)
{
	uint64_t until = clock_ns() + LAST_WORDS_MS * ns_per_ms;
	struct pollfd p = { .events = POLLOUT };

	if (s->link.fd < 0 && s->listener >= 0)
		link_accept(s);
	if (s->link.fd < 0)
		return;
	send_ended(s, end);
	while (ctl_flush(&s->link) == 0 && ctl_waiting(&s->link) && clock_ns() < until) {
		p.fd = s->link.fd;
		if (poll(&p, 1, LAST_WORDS_MS) < 0 && errno != EINTR)
			return;
	}
}

static void write_record(struct serve *s, const struct run_end *end, const struct sighting *seen)
{
	struct flight_end x = {
		.id = s->id,
		.tier = s->plan ? wall_name(s->plan->wall) : NULL,
		.why = s->plan ? s->decision->why : NULL,
		.created = s->created,
		.seen = seen,
		.end = end,
		.processes = s->started,
	};
	struct err e = { 0 };

	if (flight_write(&s->flight, &x, s->run_dir, &e) < 0)
		fprintf(stderr, "ward sup: %s: %s\n", s->id, e.msg);
}

void serve_close(struct serve *s, const struct run_end *end, const struct sighting *seen)
{
	char name[ID_LEN + 8];

	if (end) {
		write_record(s, end, seen);
		last_words(s, end);
	}
	/* After the record: a daemon that finds no socket looks for that. Before it hangs up: who
	 * does so without a word is killed. */
	if (s->listener >= 0 && str_fmt(name, sizeof(name), "%s.sock", s->id) == 0)
		host_unlinkat(s->run_dir, name, 0);
	s->channel_open = false;
	link_hang_up(s);
	proc_free_all(s);
	defaults_done(&s->defaults);
	if (s->listener >= 0)
		close(s->listener);
	if (s->signals >= 0)
		close(s->signals);
	if (s->run_dir >= 0)
		close(s->run_dir);
	free(s);
}
