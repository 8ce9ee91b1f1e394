/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop/process.c - signals and exits of processes, as events.
 *
 * Owns:  the signalfd, and the pidfds of watched processes.
 * Rules: a signal that is handled here is blocked for as long as the loop lives.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "host/host.h"
#include "loop/loop_impl.h"

static void signals_work(void *ctx, uint32_t events)
{
	struct loop *l = ctx;
	struct signalfd_siginfo si;

	(void)events;
	while (read(l->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		struct loop_signal *s;

		if (si.ssi_signo >= SIGNALS_MAX)
			continue;
		s = &l->signals[si.ssi_signo];
		if (s->work)
			s->work(s->ctx, (int)si.ssi_signo);
	}
}

static int signals_open(struct loop *l, struct err *e)
{
	int r;

	if (pthread_sigmask(SIG_BLOCK, NULL, &l->mask_before) != 0)
		return err_set(e, EINVAL, "reading the signal mask");
	sigemptyset(&l->mask);
	l->signal_fd = signalfd(-1, &l->mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->signal_fd < 0)
		return err_set(e, errno, "making a descriptor for signals");
	r = loop_fd_add(l, &l->signal_watch, l->signal_fd, EPOLLIN, signals_work, l, e);
	if (r < 0) {
		close(l->signal_fd);
		l->signal_fd = -1;
	}
	return r;
}

int loop_signal_add(
	struct loop *l, int sig, void (*work)(void *ctx, int sig), void *ctx, struct err *e)
{
	sigset_t with;
	int r;

	if (sig < 1 || sig >= SIGNALS_MAX)
		return err_say(e, EINVAL, "%d is not a signal", sig);
	r = l->signal_fd < 0 ? signals_open(l, e) : 0;
	if (r < 0)
		return r;
	with = l->mask;
	sigaddset(&with, sig);
	if (pthread_sigmask(SIG_BLOCK, &with, NULL) != 0 ||
		signalfd(l->signal_fd, &with, SFD_CLOEXEC | SFD_NONBLOCK) < 0)
		return err_set(e, EINVAL, "listening for signal %d", sig);
	l->mask = with;
	l->signals[sig] = (struct loop_signal){ work, ctx };
	return 0;
}

void loop_signals_done(struct loop *l)
{
	if (l->signal_fd < 0)
		return;
	loop_fd_remove(&l->signal_watch);
	close(l->signal_fd);
	pthread_sigmask(SIG_SETMASK, &l->mask_before, NULL);
}

static void child_work(void *ctx, uint32_t events)
{
	struct loop_child *c = ctx;
	struct loop_exit how = { 0 };
	siginfo_t si = { 0 };

	(void)events;
	if (waitid(P_PIDFD, (id_t)c->fd.fd, &si, WEXITED | WNOHANG) == 0) {
		if (!si.si_pid)
			return; /* woken for nothing */
		how = (struct loop_exit){ true, si.si_code, si.si_status };
	}
	loop_child_remove(c);
	c->work(c->ctx, c->pid, &how);
}

int loop_child_add_pidfd(struct loop *l, struct loop_child *c, int pidfd, pid_t pid,
	void (*work)(void *ctx, pid_t pid, const struct loop_exit *how), void *ctx, struct err *e)
{
	int r = loop_fd_add(l, &c->fd, pidfd, EPOLLIN, child_work, c, e);

	if (r < 0) {
		close(pidfd);
		return err_wrap(e, r, "process %d", (int)pid);
	}
	c->pid = pid;
	c->work = work;
	c->ctx = ctx;
	return 0;
}

int loop_child_add(struct loop *l, struct loop_child *c, pid_t pid,
	void (*work)(void *ctx, pid_t pid, const struct loop_exit *how), void *ctx, struct err *e)
{
	int pidfd = host_pidfd_open(pid);

	if (pidfd < 0)
		return err_set(e, -pidfd, "watching process %d", (int)pid);
	return loop_child_add_pidfd(l, c, pidfd, pid, work, ctx, e);
}

void loop_child_remove(struct loop_child *c)
{
	int pidfd = c->fd.fd;

	if (!c->fd.loop)
		return;
	loop_fd_remove(&c->fd);
	close(pidfd);
}
