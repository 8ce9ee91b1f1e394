/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/agent.c - the loop of the sandbox's first process.
 *
 * Owns:  the channel, the order of a turn, and the end.
 * Rules: one thread, nothing but ppoll ever waits. All signals stay blocked but SIGCHLD, and that
 *        one is let in by ppoll alone. What to poll for follows from the state, anew each turn. The
 *        way of a run with one command that has the caller's descriptors is counted in system
 *        calls: docs/design/agent.md lists them.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "agent/process.h"
#include "agent/state.h"
#include "base/clock.h"

enum {
	REAP_TURNS = 16,
	BULK_BYTES = 32 * 1024, /* read at once: more of it is most likely there already */
	BULK_TURNS = 8,         /* so often in a row without a look at anybody else */
};

void agent_poll(struct agent *a, struct stream *s, unsigned which, int fd, short events)
{
	unsigned n = a->poll_count++;

	a->polls[n] = (struct pollfd){ .fd = fd, .events = events };
	a->poll_stream[n] = (uint16_t)(s - a->streams);
	a->poll_which[n] = (uint8_t)which;
}

void agent_wake_at(struct agent *a, uint64_t ns)
{
	if (!a->wake_ns || ns < a->wake_ns)
		a->wake_ns = ns;
}

void agent_break(struct agent *a)
{
	a->over = a->dead = true;
	a->status = 1;
}

/* Descriptors belong to the START that they came with: keep them in order until it is read. */
static void keep_passed(struct agent *a, struct cmsghdr *c)
{
	unsigned count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	struct passed *p = a->passed_count < PASSED_MAX ? &a->passed[a->passed_count] : NULL;

	if (p)
		p->count = 0;
	for (unsigned i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
		if (p && p->count < STDIO)
			p->fds[p->count++] = fd;
		else
			close(fd);
	}
	if (!p || count > STDIO)
		agent_break(a);
	else
		a->passed_count++;
}

static void receive(struct agent *a)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE((STDIO + 1) * sizeof(int))];
	} control;
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_control = &control };
	ssize_t n;

	msg.msg_iovlen = 1;
	msg.msg_controllen = sizeof(control);
	a->got = 0;
	iov.iov_base = frame_space(&a->in, &iov.iov_len);
	do
		n = recvmsg(a->channel, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0) {
		a->dead = a->over = true; /* the client is gone, and everything goes with it */
		return;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			keep_passed(a, c);
	frame_fed(&a->in, (size_t)n);
	a->got = (uint32_t)n;
}

static void read_frames(struct agent *a)
{
	struct frame f;
	int r;

	a->stalled = false;
	while (!a->over) {
		if (!out_ready(a)) {
			a->stalled = true;
			return;
		}
		r = frame_next(&a->in, &f);
		if (r < 0)
			agent_break(a);
		if (r <= 0)
			return;
		dispatch(a, &f);
	}
}

/* True: something can go on at once. */
static bool work_streams(struct agent *a)
{
	unsigned top = a->top;
	bool more = false;

	for (unsigned i = 0; i < top && !a->over; i++) {
		/* Begin elsewhere each turn, so that no stream takes all the room. */
		struct stream *s = &a->streams[(i + a->turn) % top];

		if (s->ops && s->ops->work)
			more |= s->ops->work(a, s);
	}
	return more;
}

/* SHUTDOWN: SIGTERM was sent; go on to SIGKILL, and leave when nobody is left. */
static void go_on_closing(struct agent *a)
{
	uint64_t now;

	reap(a);
	if (a->childless && !stream_count(a, STREAM_PROCESS)) {
		a->over = true;
		return;
	}
	now = clock_ns();
	if (now >= a->closing_ns && a->killed) {
		a->over = true;
		return;
	}
	if (now >= a->closing_ns) {
		kill_all(a, SIGKILL);
		a->killed = true;
		a->closing_ns = now + AGENT_KILL_MS * 1000000ULL;
	}
	agent_wake_at(a, a->closing_ns);
}

static void set_polls(struct agent *a)
{
	short events = a->stalled ? 0 : POLLIN;

	if (a->out_at < a->out_len)
		events |= POLLOUT;
	a->polls[0] = (struct pollfd){ .fd = a->channel, .events = events };
	a->poll_count = 1;
	for (unsigned i = 0; i < a->top; i++)
		if (a->streams[i].ops && a->streams[i].ops->want)
			a->streams[i].ops->want(a, &a->streams[i]);
}

static void dispatch_polls(struct agent *a)
{
	unsigned count = a->poll_count;

	if (a->polls[0].revents & (POLLIN | POLLHUP | POLLERR) && !a->stalled)
		receive(a);
	for (unsigned i = 1; i < count && !a->over; i++) {
		unsigned k = 1 + (i + a->turn) % (count - 1);
		struct stream *s = &a->streams[a->poll_stream[k]];

		if (a->polls[k].revents && s->ops)
			s->ops->ready(a, s, a->poll_which[k], a->polls[k].revents);
	}
}

/* True: there was more, and nobody had to ask for it. A file that comes in costs a call less. */
static bool receive_on(struct agent *a)
{
	if (a->stalled || a->got < BULK_BYTES || a->bulk_turns++ == BULK_TURNS) {
		a->bulk_turns = 0;
		return false;
	}
	receive(a);
	return a->got || a->over;
}

static void wait_for_more(struct agent *a, const sigset_t *mask, bool busy)
{
	struct timespec t = { 0 }, *timeout = busy ? &t : NULL;
	bool kept;
	int n;

	if (receive_on(a))
		return;
	if (!busy && a->wake_ns) {
		uint64_t now = clock_ns(), left = a->wake_ns > now ? a->wake_ns - now : 0;

		t = (struct timespec){ (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
		timeout = &t;
	}
	if (a->stays && !busy) {
		spare_make(a);
		standby_make(a);
	}
	set_polls(a);
	a->polls[a->poll_count] =
		(struct pollfd){ .fd = a->keeper ? a->keeper->link : -1, .events = POLLIN };
	n = ppoll(a->polls, a->poll_count + (a->keeper != NULL), timeout, mask);
	/* Ready descriptors win over a signal, so under constant traffic look for the dead as well.
	 */
	if ((n < 0 && errno == EINTR) || a->turn % REAP_TURNS == 0)
		reap(a);
	kept = n > 0 && a->keeper && a->polls[a->poll_count].revents;
	if (n > 0)
		dispatch_polls(a);
	if (kept && !a->over)
		keeper_serve(a);
}

static void serve(struct agent *a, const sigset_t *mask)
{
	receive(a);
	while (!a->over) {
		bool busy;

		a->turn++;
		a->wake_ns = 0;
		a->starved = false;
		read_frames(a);
		if (a->over)
			break;
		busy = work_streams(a);
		if (a->closing)
			go_on_closing(a);
		out_flush(a);
		/* Room that the flush has made is used at once: nobody else will wake us for it. */
		busy |= a->starved && out_ready(a);
		if (!a->over)
			wait_for_more(a, mask, busy);
	}
}

/* SIGCHLD only has to end ppoll. */
static void on_child(int sig)
{
	(void)sig;
}

/*
 * Every signal blocked but for SIGCHLD inside ppoll, and none ignored: what is ignored stays so
 * over exec, and whoever started ward may have ignored some. By number, since the C libraries leave
 * their own signals out.
 */
static void own_signals(bool fresh, sigset_t *ret_mask)
{
	static const uint64_t
		to_default[4]; /* the kernel's struct sigaction: handler, flags, ... */
	struct sigaction act = { .sa_handler = on_child };
	uint64_t all = ~(uint64_t)0;

	/* all that the kernel has: make ignores 32 and 33 */
	for (int sig = 1; sig <= 64 && !fresh; sig++)
		if (sig != SIGKILL && sig != SIGSTOP && sig != SIGCHLD)
			syscall(SYS_rt_sigaction, sig, to_default, NULL, sizeof(all));
	sigaction(SIGCHLD, &act, NULL);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
	memset(ret_mask, 0xff, sizeof(*ret_mask));
	sigdelset(ret_mask, SIGCHLD);
}

int agent_run(const struct agent_config *config)
{
	struct agent *a = room_take(sizeof(*a));
	sigset_t mask;

	if (!a)
		return 1;
	a->channel = config->channel;
	a->not_init = config->not_init;
	a->keeper = config->keeper;
	a->standby.wanted = a->untouched = config->standby;
	spare_init(&a->spare);
	a->limits = config->limits;
	a->limits_arg = config->arg;
	a->pid = getpid();
	/* PID 1 kills all that it can see: whoever is not must never come to that. */
	if (!a->not_init && a->pid != 1)
		return 1;
	frame_reader_init(&a->in); /* a write first: one page fault instead of two */
	own_signals(config->fresh, &mask);
	if (a->not_init && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return 1;
	if (config->command)
		start_taken(a, config->stream, config->command);
	serve(a, &mask);
	if (!a->dead)
		out_flush_wait(a);
	if (a->not_init)
		kill_rest(a);
	/* The mapping, the streams and their descriptors go with the process. */
	return a->status;
}
