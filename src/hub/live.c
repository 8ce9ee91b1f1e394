/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/live.c - the supervisor's side of a sandbox.
 *
 * Owns:  the process that was started for it, the link to it, and what its messages mean for the
 *        state.
 * Rules: what a supervisor tells is a fact and is followed; what it is told was written down
 *        before. A link is destroyed in its `closed` or from the loop, never in another callback.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "hub/hub_impl.h"

enum { RECONNECTS_MAX = 3, BUSY_MS = 20 };

static enum sup_action action_of(const struct sandbox *sb)
{
	return sb->on_timeout == HUB_TIMEOUT_PAUSE ? SUP_PAUSE : SUP_KILL;
}

/* --- the loop and the link --- */

static void on_fd(void *ctx, uint32_t events)
{
	struct sandbox *sb = ctx;
	short revents = 0;

	if (events & EPOLLIN)
		revents |= POLLIN;
	if (events & EPOLLOUT)
		revents |= POLLOUT;
	if (events & (EPOLLHUP | EPOLLERR))
		revents |= POLLIN | POLLHUP;
	if (sb->awaited) {
		sb->awaited = false;
		loop_spin(sb->hub->loop, 0);
	}
	sandbox_hold(sb);
	link_work(sb->link, revents);
	sandbox_release(sb);
}

static void on_want(void *arg, short events)
{
	struct sandbox *sb = arg;

	loop_fd_mod(
		&sb->watch, (events & POLLIN ? EPOLLIN : 0u) | (events & POLLOUT ? EPOLLOUT : 0u));
}

void live_detach(struct sandbox *sb)
{
	struct link *l = sb->link;

	loop_fd_remove(&sb->watch);
	/* With the link its calls are gone: fronts are told, verbs find out by the state. */
	for (struct hub_call *c = sb->waiting.first; c; c = c->next) {
		link_drop(c->asked);
		c->asked = NULL;
	}
	sb->link = NULL;
	if (l) {
		link_fail(l, sb);
		link_destroy(l);
	}
	sb->op = NULL;
	sb->sampling = false;
	loop_timer_cancel(&sb->patience);
	loop_timer_cancel(&sb->late);
}

/* Is it the supervisor of this sandbox: `ward ... sup ID`? */
static bool is_supervisor(pid_t pid, const char *id)
{
	char path[64], text[WARD_PATH_MAX + 256];
	own_fd int fd = -1;
	ssize_t n;

	str_fmt(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
	for (const char *p = text; p < text + n; p += strlen(p) + 1)
		if (str_eq(p, id))
			return true;
	return false;
}

/* Looked at after the descriptor was taken, so a number that was given out again is not hit. */
static void kill_supervisor(struct sandbox *sb)
{
	own_fd int fd = -1;

	if (sb->sup_pid <= 1)
		return;
	fd = (int)syscall(SYS_pidfd_open, sb->sup_pid, 0);
	/* It cannot remove its socket any more. */
	if (fd >= 0 && is_supervisor(sb->sup_pid, sb->id) &&
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0)
		sup_remove_socket(sb->hub->state_dir, sb->id, NULL);
}

static void on_patience(void *ctx)
{
	struct sandbox *sb = ctx;

	hub_log(sb->hub, HUB_ERROR, "sup.silent", NULL, sb->id, "state=%s",
		hub_state_name(sb->state));
	hub_fail(&sb->trouble, HUB_INTERNAL, "the supervisor of sandbox '%s' did not answer",
		sb->id);
	kill_supervisor(sb);
	live_lost(sb, "its supervisor did not answer, and was killed");
}

void live_give_up(struct sandbox *sb)
{
	on_patience(sb);
}

void live_patience(struct sandbox *sb, unsigned ms)
{
	if (!ms)
		loop_timer_cancel(&sb->patience);
	else
		loop_timer_set(sb->hub->loop, &sb->patience, ms, on_patience, sb);
}

/* --- what it tells --- */

static void take_status(struct sandbox *sb, const struct link_status *s)
{
	struct plan_limits was = sb->limits;

	sb->sup_pid = s->sup_pid;
	sb->tier = s->tier;
	if (s->tier_waits && sb->state == HUB_CREATING && !sb->found)
		empty_learn(sb->hub, s->tier);
	if (!sb->tier_why || !str_eq(sb->tier_why, s->why))
		text_set(&sb->tier_why, s->why);
	if (!sb->warning || !str_eq(sb->warning, s->warning))
		text_set(&sb->warning, s->warning);
	if (s->state != SUP_STARTING) {
		sb->limits = s->limits;
		if (was.memory_bytes != s->limits.memory_bytes ||
			was.cpu_milli != s->limits.cpu_milli)
			tenant_charge(sb);
	}
}

static void now_running(struct sandbox *sb, const struct link_status *s)
{
	struct hub_fail f;

	loop_timer_cancel(&sb->patience);
	sb->op = NULL;
	sandbox_set_deadline(sb, s->deadline_ms);
	if (sb->state == HUB_PAUSED &&
		sandbox_move(sb, HUB_RESUMING, &f, "its supervisor said so") < 0)
		return;
	sb->also = db_also_running;
	if (sandbox_move(sb, HUB_RUNNING, &f, "%s",
		    sb->state == HUB_CREATING ? "its first process answers" : "it was resumed") ==
		0) {
		if (sb->begun_ns)
			create_answer(sb);
		return;
	}
	/* It cannot be written down that it runs: after a restart nobody would know it. */
	sb->trouble = f;
	if (sandbox_move(sb, HUB_STOPPING, NULL, "it could not be written down") == 0)
		live_stop(sb, "the daemon could not write it down");
}

static void now_paused(struct sandbox *sb, const struct link_status *s)
{
	loop_timer_cancel(&sb->patience);
	loop_timer_cancel(&sb->late);
	sb->op = NULL;
	sb->deadline_us = 0;
	sb->hub->n.paused++;
	/* Whoever asked for it is answered later, and somebody may have woken it by then. */
	for (struct hub_call *c = sb->waiting.first; c; c = c->next)
		c->changed |= c->wait == WAIT_PAUSED;
	sandbox_move(sb, HUB_PAUSED, NULL, "%s",
		sb->state == HUB_PAUSING ? sb->reason
		: s->reason[0]           ? s->reason
					 : "its supervisor said so");
}

/* A change of limits or deadline, in one that runs on. */
static void still_running(struct sandbox *sb, const struct link_status *s)
{
	int64_t was = sb->deadline_us;

	sandbox_set_deadline(sb, s->deadline_ms);
	/* The clock of the message and ours are not the same to the microsecond. */
	if (was && sb->deadline_us && llabs(was - sb->deadline_us) < 1000000)
		sb->deadline_us = was;
}

void live_follow(struct sandbox *sb, const struct link_status *s)
{
	if (s->state == SUP_RUNNING) {
		if (sb->state == HUB_CREATING && sb->pool)
			pool_began(sb);
		else if (sb->state == HUB_CREATING || sb->state == HUB_RESUMING ||
			 sb->state == HUB_PAUSED)
			now_running(sb, s);
		else if (sb->state == HUB_RUNNING)
			still_running(sb, s);
	}
	if (s->state == SUP_PAUSED && (sb->state == HUB_RUNNING || sb->state == HUB_PAUSING))
		now_paused(sb, s);
}

static void on_state(void *arg, const struct link_status *s)
{
	struct sandbox *sb = arg;

	if (!lifecycle_is_live(sb->state))
		return;
	hub_point(sb->hub, "told");
	sb->reconnects = 0;
	sb->busy_calls = 0;
	take_status(sb, s);
	if (sb->found)
		found_answered(sb, s);
	else
		live_follow(sb, s);
}

/* Which failure a front should show when a create came to nothing. */
static void explain_start(struct sandbox *sb, const struct link_end *end)
{
	static const struct {
		const char *step;
		enum hub_code code;
	} steps[] = { { "policy", HUB_FORBIDDEN }, { "template", HUB_NOT_FOUND } };
	enum hub_code code = HUB_INTERNAL;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (str_eq(steps[i].step, end->step))
			code = steps[i].code;
	hub_fail(&sb->trouble, code, "%s", end->detail[0] ? end->detail : end->cause);
}

static void on_ended(void *arg, const struct link_end *end)
{
	struct sandbox *sb = arg;

	if (!lifecycle_is_live(sb->state))
		return;
	hub_point(sb->hub, "ended");
	if (sb->state == HUB_CREATING && !sb->trouble.code)
		explain_start(sb, end);
	if (sb->found)
		found_one_less(sb->hub);
	sb->found = false;
	ended_finish(sb, end->cause, end->detail);
}

static void on_closed(void *arg, const struct err *why)
{
	struct sandbox *sb = arg;

	live_detach(sb);
	if (!lifecycle_is_live(sb->state))
		return;
	if (why->code == EPROTO) {
		hub_log(sb->hub, HUB_ERROR, "sup.broken", NULL, sb->id, "msg=\"%s\"", why->msg);
		if (sb->reconnects++ < RECONNECTS_MAX && live_call(sb) == 0)
			return;
	}
	/* One that only hung up would live on, known to nobody. */
	kill_supervisor(sb);
	live_lost(sb, "its supervisor died");
}

static struct link_hooks hooks_of(struct sandbox *sb)
{
	return (struct link_hooks){ .state = on_state,
		.ended = on_ended,
		.closed = on_closed,
		.want = on_want,
		.arg = sb };
}

static int watch(struct sandbox *sb, struct err *e)
{
	short want = link_events(sb->link);

	return loop_fd_add(sb->hub->loop, &sb->watch, link_fd(sb->link),
		(want & POLLIN ? EPOLLIN : 0u) | (want & POLLOUT ? EPOLLOUT : 0u), on_fd, sb, e);
}

/* --- starting --- */

struct reaper {
	struct hub *hub;
	struct reaper *prev, *next;
	struct loop_child child;
};

static void reaper_free(struct reaper *r)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		r->hub->reapers = r->next;
	if (r->next)
		r->next->prev = r->prev;
	loop_child_remove(&r->child);
	free(r);
}

static void on_exit_of(void *ctx, pid_t pid, const struct loop_exit *how)
{
	(void)pid;
	(void)how;
	reaper_free(ctx);
}

/* Supervisors that outlive us become somebody else's children. */
void live_forget_children(struct hub *hub)
{
	while (hub->reapers)
		reaper_free(hub->reapers);
}

void live_reap(struct hub *hub, pid_t pid, int pidfd)
{
	struct reaper *r = calloc(1, sizeof(*r));

	if (!r) {
		close(pidfd);
		return;
	}
	r->hub = hub;
	r->next = hub->reapers;
	if (r->next)
		r->next->prev = r;
	hub->reapers = r;
	if (loop_child_add_pidfd(hub->loop, &r->child, pidfd, pid, on_exit_of, r, NULL) < 0)
		reaper_free(r);
}

int live_spawn(
	struct sandbox *sb, const struct sup_request *q, struct empty *empty, struct hub_fail *f)
{
	struct hub *hub = sb->hub;
	struct sup_spawn how = {
		.ward = hub->ward, .state_dir = hub->state_dir, .log_fd = hub->log_fd
	};
	struct link_hooks hooks = hooks_of(sb);
	struct err e = { 0 };
	int pidfd = -1, r;

	hub_point(hub, "spawn");
	if (empty)
		r = empty_ask(empty, q, &hooks, &sb->link, &sb->sup_pid, &e);
	else
		r = sup_spawn(q, &how, &hooks, &sb->link, &sb->sup_pid, &pidfd, &e);
	hub_point(hub, "spawned");
	if (r < 0)
		return hub_fail_err(f, &e);
	if (!empty)
		live_reap(hub, sb->sup_pid, pidfd);
	r = watch(sb, &e);
	if (r < 0)
		return hub_fail_err(f, &e);
	live_patience(sb, HUB_START_MS);
	return 0;
}

static int live_connect(struct sandbox *sb, struct err *e)
{
	struct link_hooks hooks = hooks_of(sb);
	int r = link_connect(sb->hub->state_dir, sb->id, &hooks, &sb->link, e);
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (r < 0)
		return r;
	if (getsockopt(link_fd(sb->link), SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
		sb->sup_pid = peer.pid;
	return watch(sb, e);
}

static void call_again(void *ctx)
{
	struct sandbox *sb = ctx;

	if (live_call(sb) == 0)
		return;
	kill_supervisor(sb);
	live_lost(sb, "its supervisor was gone");
}

int live_call(struct sandbox *sb)
{
	struct err e = { 0 };
	int r = live_connect(sb, &e);

	/* Its queue of connections is full, so it is there. One that never answers is given up
	 * with all the others that were looked for, or after HUB_ANSWER_MS. */
	if (r == -EAGAIN && (sb->found || sb->busy_calls++ < HUB_ANSWER_MS / BUSY_MS)) {
		loop_timer_set(sb->hub->loop, &sb->patience, BUSY_MS, call_again, sb);
		return 0;
	}
	return r;
}

/* --- telling --- */

static void on_stop_failed(void *arg, struct link_call *c, const struct link_failed *f)
{
	struct sandbox *sb = arg;

	/* A link that ends is told by closed. */
	if (f->code != ENOTCONN)
		hub_log(sb->hub, HUB_ERROR, "sup.stop", NULL, sb->id, "errno=%d msg=\"%s\"",
			f->code, f->text);
}

static const struct link_handler stop_handler = { .failed = on_stop_failed };

void live_stop(struct sandbox *sb, const char *cause)
{
	struct err e = { 0 };

	hub_point(sb->hub, "stop");
	live_patience(sb, HUB_ANSWER_MS);
	if (!sb->link || link_stop(sb->link, cause, 0, &stop_handler, sb, NULL, &e) < 0) {
		kill_supervisor(sb);
		/* Not from here: a callback of the link may be running. */
		loop_timer_set(sb->hub->loop, &sb->patience, 1000, on_patience, sb);
	}
	hub_point(sb->hub, "stop-sent");
}

static void on_pause_done(void *arg, struct link_call *c, const struct link_done *d)
{
	struct sandbox *sb = arg;
	struct link_status none = { .reason = "" };

	sb->op = NULL;
	if (sb->state == HUB_PAUSING)
		now_paused(sb, &none);
}

static void on_pause_failed(void *arg, struct link_call *c, const struct link_failed *f)
{
	struct sandbox *sb = arg;
	struct link_status none = { .reason = "" };

	sb->op = NULL;
	loop_timer_cancel(&sb->patience);
	if (sb->state != HUB_PAUSING || f->code == ENOTCONN)
		return;
	if (f->code == EALREADY) {
		now_paused(sb, &none);
		return;
	}
	hub_fail(&sb->trouble, f->code == EOPNOTSUPP ? HUB_UNSUPPORTED : HUB_INTERNAL,
		"sandbox '%s' could not be paused: %s", sb->id,
		f->text[0] ? f->text : strerror(f->code));
	sandbox_move(sb, HUB_RUNNING, NULL, "it could not be paused: %s",
		f->text[0] ? f->text : strerror(f->code));
}

int live_pause(struct sandbox *sb, struct hub_fail *f)
{
	static const struct link_handler handler = { .done = on_pause_done,
		.failed = on_pause_failed };
	struct err e = { 0 };
	int r;

	hub_point(sb->hub, "pause");
	r = sb->link ? link_pause(sb->link, &handler, sb, &sb->op, &e)
		     : err_say(&e, ENOTCONN, "sandbox '%s' has no supervisor", sb->id);
	hub_point(sb->hub, "pause-sent");
	if (r < 0) {
		sandbox_move(sb, HUB_RUNNING, NULL, "it could not be paused: %s", e.msg);
		return hub_fail(f, HUB_INTERNAL, "%s", e.msg);
	}
	live_patience(sb, HUB_ANSWER_MS);
	return 0;
}

static void on_resume_done(void *arg, struct link_call *c, const struct link_done *d)
{
	struct sandbox *sb = arg;
	const struct link_status *s = sb->link ? link_status(sb->link) : NULL;

	sb->op = NULL;
	/* Nearly always the new state came first, with the deadline in it. */
	if (sb->state == HUB_RESUMING && s)
		now_running(sb, s);
}

static void on_resume_failed(void *arg, struct link_call *c, const struct link_failed *f)
{
	struct sandbox *sb = arg;

	if (f->code == EALREADY) {
		on_resume_done(arg, c, NULL);
		return;
	}
	sb->op = NULL;
	loop_timer_cancel(&sb->patience);
	if (sb->state != HUB_RESUMING || f->code == ENOTCONN)
		return;
	hub_fail(&sb->trouble, HUB_INTERNAL, "sandbox '%s' could not be resumed: %s", sb->id,
		f->text[0] ? f->text : strerror(f->code));
	sandbox_move(sb, HUB_PAUSED, NULL, "it could not be resumed: %s",
		f->text[0] ? f->text : strerror(f->code));
}

int live_resume(struct sandbox *sb, int64_t timeout_ms, struct hub_fail *f)
{
	static const struct link_handler handler = { .done = on_resume_done,
		.failed = on_resume_failed };
	struct err e = { 0 };
	int r;

	sb->timeout_ms = timeout_ms;
	sb->deadline_us = timeout_ms ? clock_now_us() + timeout_ms * 1000 : 0;
	sb->also = db_also_deadline;
	r = sandbox_move(sb, HUB_RESUMING, f, "it was asked for");
	if (r < 0)
		return r;
	hub_point(sb->hub, "resume");
	r = sb->link ? link_resume(sb->link, (uint64_t)timeout_ms, action_of(sb), &handler, sb,
			       &sb->op, &e)
		     : err_say(&e, ENOTCONN, "sandbox '%s' has no supervisor", sb->id);
	hub_point(sb->hub, "resume-sent");
	if (r < 0) {
		sandbox_move(sb, HUB_PAUSED, NULL, "it could not be resumed: %s", e.msg);
		return hub_fail(f, HUB_INTERNAL, "%s", e.msg);
	}
	live_patience(sb, HUB_ANSWER_MS);
	return 0;
}

void live_lost(struct sandbox *sb, const char *why)
{
	live_detach(sb);
	if (!lifecycle_is_live(sb->state))
		return;
	if (sb->found)
		found_one_less(sb->hub);
	sb->found = false;
	sb->hub->n.lost++;
	if (!sb->trouble.code)
		hub_fail(&sb->trouble, HUB_INTERNAL, "sandbox '%s' was lost: %s", sb->id, why);
	ended_finish(sb, "supervisor-lost", why);
	hub_sweep(sb->hub);
}
