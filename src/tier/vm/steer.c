/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/steer.c - ward's hand on a running machine: pause, resume, snapshot, and who a copy is.
 *
 * Owns:  the order of things. First the agent makes everything inside stand still, then the monitor
 *        halts the CPUs, then what it sends is written down; back in the other order.
 * Rules: neither the agent nor the monitor is trusted: every length and place is checked. No wait
 * is longer than a few seconds without news, and every wait ends when the monitor does. A file that
 * cannot be written does not stop the reading, or the two would be out of step; out of step is for
 * good (v->lost).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "proto/keeper.h"
#include "tier/vm/control.h"
#include "tier/vm/vm.h"

enum {
	NEWS_MS = 15000,
	HOLD_MS = 10000,
	BALLOON_MS = 5000, /* without any page */
	BALLOON_MAX_MS = 60000,
	TURN_MS = 20,
	BALLOON_SLACK = 1 << 20, /* a guest that is so near has done what it can */
};

/* What the caller does while it waits. */
struct meanwhile {
	void (*fn)(void *arg);
	void *arg;
};

/* Where the parts of an answer go. */
struct sink {
	int memory;     /* CONTROL_PAGES; -1: none are expected */
	uint8_t *state; /* CONTROL_STATE; ours */
	size_t state_len;
	bool wants_state;
	struct touched *touched; /* CONTROL_RUNS; borrowed; NULL: none are expected */
	uint64_t said;           /* DONE's @at */
	int failed;              /* the first error of writing; 0: none */
};

static uint64_t memory_of(const struct vmbox *v)
{
	return v->state ? v->from.memory_bytes
			: v->box.plan->limits.memory_bytes / GMEM_PAGE * GMEM_PAGE;
}

/* Until @fd is readable. -ESRCH: the monitor is over; -ETIMEDOUT. */
static int wait_readable(
	struct vmbox *v, int fd, unsigned most_ms, const struct meanwhile *m, struct err *e)
{
	uint64_t until = clock_ns() + most_ms * 1000000ull;

	for (;;) {
		struct pollfd polls[2] = { { .fd = fd, .events = POLLIN },
			{ .fd = v->box.fds.pidfd, .events = POLLIN } };
		int n = poll(polls, 2, TURN_MS);

		if (n < 0 && errno != EINTR)
			return err_set(e, errno, "waiting for the machine");
		if (n > 0 && polls[0].revents)
			return 0;
		if (n > 0 && polls[1].revents)
			return err_say(e, ESRCH, "the machine is over");
		if (clock_ns() > until)
			return err_say(e, ETIMEDOUT, "the machine does not answer");
		if (m && m->fn)
			m->fn(m->arg);
	}
}

/* --- The agent -------------------------------------------------------------------------------- */

static int tell_agent(struct vmbox *v, const struct keeper_ask *ask, struct err *e)
{
	ssize_t n;

	do
		n = send(v->keeper, ask, sizeof(*ask), MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(e, errno, "speaking to the machine's agent");
	return n == (ssize_t)sizeof(*ask) ? 0
					  : err_say(e, EIO, "the machine's agent does not listen");
}

static void release(struct vmbox *v)
{
	struct err ignored;

	tell_agent(v, &(struct keeper_ask){ .op = KEEPER_GO, .number = v->holds }, &ignored);
	v->held = false;
}

/* Everything inside stands still, by its agent's word. On failure all of it runs. */
static int hold(struct vmbox *v, const struct meanwhile *m, struct err *e)
{
	struct keeper_answer said;
	size_t at = 0;
	int r = tell_agent(v, &(struct keeper_ask){ .op = KEEPER_HOLD, .number = ++v->holds }, e);

	while (r == 0) {
		ssize_t n;

		r = wait_readable(v, v->keeper, HOLD_MS, m, e);
		if (r < 0)
			break;
		n = recv(v->keeper, (uint8_t *)&said + at, sizeof(said) - at, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0) {
			r = err_say(e, EBUSY, "the machine's agent has gone");
			break;
		}
		at += (size_t)n;
		if (at < sizeof(said))
			continue;
		at = 0;
		if (said.number != v->holds)
			continue; /* the answer to a question that was given up */
		if (said.op == KEEPER_BUSY)
			r = err_say(e, EBUSY, "something inside does not come to rest; try again");
		else if (said.op != KEEPER_HELD)
			r = err_say(e, EOPNOTSUPP,
				"what runs inside cannot be made to stand still (the guest's "
				"kernel needs cgroup v2)");
		v->held = r == 0;
		return r;
	}
	if (r == -ETIMEDOUT)
		r = err_say(e, EBUSY, "the machine's agent does not answer");
	if (r != -ESRCH)
		release(v);
	return r;
}

static int fill_hex(char *to, unsigned digits, struct err *e)
{
	uint8_t random[KEEPER_ID_HEX / 2];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_set(e, errno, "randomness for a copy");
	for (unsigned i = 0; i < digits / 2; i++)
		snprintf(to + (size_t)2 * i, 3, "%02x", random[i]);
	return 0;
}

int steer_renew(struct vmbox *v, struct err *e)
{
	struct keeper_ask ask = { .op = KEEPER_RENEW };
	const char *name = v->box.plan->hostname;
	struct timespec now;
	int r = fill_hex(ask.machine_id, KEEPER_ID_HEX, e);

	if (r == 0)
		r = fill_hex(ask.boot_id, KEEPER_ID_HEX, e);
	if (r < 0)
		return r;
	ask.boot_id[12] = '4'; /* as random ones are marked */
	ask.boot_id[16] = 'a';
	if (getrandom(ask.seed, sizeof(ask.seed), 0) != (ssize_t)sizeof(ask.seed))
		return err_set(e, errno, "randomness for a copy");
	clock_gettime(CLOCK_REALTIME, &now);
	ask.now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (name && str_copy(ask.hostname, KEEPER_NAME_MAX + 1, name) < 0)
		return err_say(e, EINVAL, "the host's name is too long: '%.80s'", name);
	r = tell_agent(v, &ask, e);
	memset(&ask, 0, sizeof(ask));
	return r;
}

/* --- The monitor ------------------------------------------------------------------------------ */

static int lose(struct vmbox *v, struct err *e)
{
	v->lost = true;
	return err_say(e, EPROTO, "what the monitor says makes no sense");
}

static void write_pages(struct sink *s, const uint8_t *data, size_t len, uint64_t at)
{
	while (len && !s->failed) {
		ssize_t n = host_pwrite(s->memory, data, len, (off_t)at);

		if (n <= 0) {
			s->failed = n < 0 ? (int)n : -EIO;
			return;
		}
		data += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
}

static int take_part(struct vmbox *v, struct sink *s, const struct control_msg *head,
	const uint8_t *data, size_t len, struct err *e)
{
	uint64_t all = memory_of(v);

	if (head->len != len || !len)
		return lose(v, e);
	if (head->op == CONTROL_PAGES) {
		if (!s || s->memory < 0 || head->at % GMEM_PAGE || len % GMEM_PAGE ||
			head->at > all || len > all - head->at)
			return lose(v, e);
		write_pages(s, data, len, head->at);
		return 0;
	}
	if (head->op == CONTROL_RUNS) {
		if (!s || !s->touched || head->at || len % sizeof(s->touched->runs[0]) ||
			len > sizeof(s->touched->runs))
			return lose(v, e);
		memcpy(s->touched->runs, data, len);
		s->touched->count = (uint32_t)(len / sizeof(s->touched->runs[0]));
		return 0;
	}
	if (head->op != CONTROL_STATE || !s || !s->wants_state || head->at != s->state_len ||
		len > CONTROL_STATE_MAX - s->state_len)
		return lose(v, e);
	if (!s->state)
		s->state = malloc(CONTROL_STATE_MAX);
	if (!s->state)
		s->failed = -ENOMEM;
	else
		memcpy(s->state + s->state_len, data, len);
	s->state_len += len;
	return 0;
}

/* One request and all of its answer. */
static int ask_monitor(struct vmbox *v, const struct control_msg *q, int fd, struct sink *s,
	const struct meanwhile *m, struct err *e)
{
	struct {
		struct control_msg head;
		uint8_t data[CONTROL_PART_MAX];
	} * msg;
	ssize_t n;
	int r;

	if (v->lost || v->control < 0)
		return err_say(e, EIO, "the monitor cannot be spoken to any more");
	msg = malloc(sizeof(*msg));
	if (!msg)
		return err_set(e, ENOMEM, "room for the monitor's answer");
	n = host_send_fds(v->control, q, sizeof(*q), &fd, fd >= 0 ? 1 : 0);
	r = n < 0 ? err_set(e, (int)-n, "speaking to the monitor") : 0;
	while (r == 0) {
		r = wait_readable(v, v->control, NEWS_MS, m, e);
		if (r < 0)
			break;
		n = recv(v->control, msg, sizeof(*msg), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n == 0) {
			r = err_say(e, ESRCH, "the machine is over");
		} else if (n < (ssize_t)sizeof(msg->head)) {
			r = lose(v, e);
		} else if (msg->head.op == CONTROL_DONE) {
			msg->head.text[sizeof(msg->head.text) - 1] = '\0';
			if (s)
				s->said = msg->head.at;
			if (msg->head.code)
				r = err_say(e,
					msg->head.code > 0 && msg->head.code < 4096 ? msg->head.code
										    : EIO,
					"%s", msg->head.text);
			break;
		} else {
			r = take_part(
				v, s, &msg->head, msg->data, (size_t)n - sizeof(msg->head), e);
			if (m && m->fn)
				m->fn(m->arg);
		}
	}
	if (r == -ETIMEDOUT)
		v->lost = true;
	free(msg);
	return r;
}

static int tell_monitor(struct vmbox *v, enum control_op op, struct err *e)
{
	return ask_monitor(v, &(struct control_msg){ .op = op }, -1, NULL, NULL, e);
}

int steer_note_touched(struct vmbox *v, struct err *e)
{
	own_mem struct touched *t = calloc(1, sizeof(*t));
	struct sink s = { .memory = -1, .touched = t };
	int r = t ? 0 : err_set(e, ENOMEM, "which pages a copy needs first");

	if (r == 0)
		r = ask_monitor(v, &(struct control_msg){ .op = CONTROL_TOUCHED }, -1, &s, NULL, e);
	if (r == 0 && !touched_is_sound(t, v->from.memory_bytes))
		r = err_say(e, EPROTO, "what the machine touched makes no sense, or is too much");
	return r < 0 ? r : touched_write(v->box.plan->from->state, &v->from, t, e);
}

/* --- Memory ----------------------------------------------------------------------------------- */

static int ask_balloon(struct vmbox *v, uint64_t bytes, uint64_t *ret_given, struct err *e)
{
	struct sink s = { .memory = -1 };
	struct control_msg q = { .op = CONTROL_BALLOON, .at = bytes };
	int r = ask_monitor(v, &q, -1, &s, NULL, e);

	*ret_given = s.said;
	return r;
}

/* As long as the guest gives more, and no longer than one can wait here. */
static int wait_balloon(struct vmbox *v, uint64_t want, struct err *e)
{
	uint64_t begun = clock_ns(), moved = begun, most = 0, given = 0;
	int r = ask_balloon(v, want, &given, e);

	while (r == 0 && given + BALLOON_SLACK < want) {
		uint64_t now = clock_ns();

		if (given > most)
			moved = now;
		most = given > most ? given : most;
		if (now - moved > BALLOON_MS * 1000000ull ||
			now - begun > BALLOON_MAX_MS * 1000000ull)
			return err_say(e, EBUSY,
				"the guest gives up %llu MiB and not the %llu asked for",
				(unsigned long long)given >> 20, (unsigned long long)want >> 20);
		poll(NULL, 0, TURN_MS);
		r = ask_balloon(v, want, &given, e);
	}
	return r;
}

int steer_memory(struct vmbox *v, uint64_t limit, struct err *e)
{
	uint64_t all = memory_of(v), want = limit < all ? all - limit : 0, unused;
	int r;

	if (v->paused)
		return err_say(e, EBUSY, "a paused machine gives nothing up: resume it first");
	/* What the guest says is for the waiting; the wall is the cgroup. */
	r = wait_balloon(v, want, e);
	if (r == 0)
		v->ballooned = want;
	else if (r == -EBUSY)
		ask_balloon(v, v->ballooned, &unused, NULL);
	return r;
}

/* --- Pause ------------------------------------------------------------------------------------ */

/* A file that has no name, so that whatever happens nothing is left of it. */
static int nameless_file(struct vmbox *v, struct err *e)
{
	int fd = host_open(v->box.plan->state_dir, O_TMPFILE | O_RDWR | O_EXCL, 0600), r;

	if (fd < 0)
		return err_set(e, -fd, "a file for memory in %s", v->box.plan->state_dir);
	r = host_ftruncate(fd, (off_t)memory_of(v));
	if (r < 0) {
		close(fd);
		return err_set(e, -r, "sizing a file for memory");
	}
	return fd;
}

/* The machine is halted: its memory goes to a file, and comes back page by page. */
static int evict(struct vmbox *v, const struct meanwhile *m, struct err *e)
{
	own_fd int file = nameless_file(v, e), again = -1;
	struct sink s = { .memory = file };
	char path[64];
	int r;

	if (file < 0)
		return file;
	r = ask_monitor(v, &(struct control_msg){ .op = CONTROL_EVICT }, -1, &s, m, e);
	if (r < 0)
		return r;
	/* It may read the file, and no more than that. */
	if (str_fmt(path, sizeof(path), "/proc/self/fd/%d", file) == 0)
		again = host_open(path, O_RDONLY, 0);
	if (again < 0 && !s.failed)
		s.failed = again < 0 ? again : -EIO;
	r = ask_monitor(
		v, &(struct control_msg){ .op = CONTROL_MAP }, s.failed ? -1 : again, NULL, m, e);
	if (r == 0 && s.failed)
		r = err_set(e, -s.failed, "writing a machine's memory to a file");
	return r;
}

static int halt(struct vmbox *v, struct err *e)
{
	int r = tell_monitor(v, CONTROL_HALT, e);

	v->paused = r == 0;
	return r;
}

static int go(struct vmbox *v, struct err *e)
{
	int r = tell_monitor(v, CONTROL_GO, e);

	if (r < 0)
		return r;
	v->paused = false;
	if (v->held)
		release(v);
	return 0;
}

int steer_pause(struct vmbox *v, void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	struct meanwhile m = { meanwhile, arg };
	struct err ignored = { 0 };
	int r;

	if (v->paused)
		return 0;
	/* So that it can be written down as it stands. One that has no agent can still pause. */
	if (hold(v, &m, &ignored) == -ESRCH)
		return err_say(e, ESRCH, "the machine is over");
	r = halt(v, e);
	if (r < 0) {
		if (v->held)
			release(v);
		return r;
	}
	/* As far as it goes. */
	if (evict(v, &m, &ignored) < 0)
		cgroup_reclaim(&v->cg);
	return 0;
}

int steer_resume(struct vmbox *v, struct err *e)
{
	return v->paused ? go(v, e) : 0;
}

/* --- Snapshot --------------------------------------------------------------------------------- */

static int save(struct vmbox *v, const struct snap *into, unsigned flags, const struct meanwhile *m,
	struct err *e)
{
	bool diff = (flags & SNAP_DIFF) && v->based;
	struct control_msg q = { .op = CONTROL_SAVE };
	struct sink s = { .memory = into->memory, .wants_state = true };
	struct snap_head head;
	uint32_t cpus = 0;
	int r = 0;

	/* What a file held that is written anew must not show through. */
	if (!diff)
		r = host_ftruncate(into->memory, 0);
	if (r == 0)
		r = host_ftruncate(into->memory, (off_t)memory_of(v));
	if (r < 0)
		return err_set(e, -r, "sizing the snapshot's memory");
	q.flags = diff ? CONTROL_DIFF : flags & SNAP_DIFF ? CONTROL_BASE : 0;
	r = ask_monitor(v, &q, -1, &s, m, e);
	if (r == 0 && s.failed)
		r = err_set(e, -s.failed, "writing the snapshot");
	/* The body begins with memory and CPUs, 8 bytes each: see kvm_walk(). */
	if (r == 0 && s.state_len < 16)
		r = lose(v, e);
	if (r == 0)
		memcpy(&cpus, s.state + 8, sizeof(cpus));
	if (r == 0) {
		snapfile_head(&head, memory_of(v), cpus, v->image, s.state, s.state_len);
		r = snapfile_write(into->state, &head, s.state, e);
	}
	if (r == 0)
		r = tell_monitor(v, CONTROL_SAVED, e);
	if (r == 0)
		v->based |= (flags & SNAP_DIFF) != 0;
	free(s.state);
	return r;
}

int steer_snapshot(struct vmbox *v, const struct snap *into, unsigned flags,
	void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	struct meanwhile m = { meanwhile, arg };
	bool was_paused = v->paused;
	struct err ignored;
	int r = 0;

	/* A copy would need disks, and an address, that are this sandbox's own. */
	if (v->box.plan->mount_count || v->box.plan->tap)
		return err_say(e, EOPNOTSUPP,
			"a machine with --mount or --tap cannot be written down; start it without");
	if (was_paused && !v->held)
		return err_say(e, EBUSY,
			"the machine was paused while its agent did not answer: resume it first");
	if (!was_paused)
		r = hold(v, &m, e);
	if (r == 0 && !was_paused) {
		r = halt(v, e);
		if (r < 0 && r != -ESRCH)
			release(v);
	}
	if (r < 0)
		return r;
	r = save(v, into, flags, &m, e);
	if (!was_paused && r < 0)
		go(v, &ignored);
	else if (!was_paused && !(flags & SNAP_STAY))
		r = go(v, e);
	return r;
}
