/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/standby.c - the process of the first command, made while nobody waits for it.
 *
 * Owns:  that process, our ends of its pipes, and the word that it waits on.
 * Rules: it stands between clone and exec: session, descriptors and signals are those of a command
 *        already; user, directory, arguments and environment come with the command. It shares our
 *        memory, errno too, so only one of us runs: we stand still while it does. There is one, for
 *        the first command: as soon as anything has been started inside, nobody is there ahead.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/spawn.h"
#include "agent/state.h"
#include "base/ckd.h"

/* The word. The kernel writes the first when the process has exec'd or ended: set_tid_address(). */
enum { STANDBY_GONE, STANDBY_BEGINS, STANDBY_WAITS, STANDBY_GOES };

enum { BEGIN_NS = 50 * 1000 * 1000, TOUCH_BYTES = 2048 };

static void word_wait(struct standby *h, uint32_t is, const struct timespec *time)
{
	syscall(SYS_futex, &h->word, FUTEX_WAIT, is, time, NULL, 0);
}

static void word_set(struct standby *h, uint32_t to)
{
	__atomic_store_n(&h->word, to, __ATOMIC_RELEASE);
	syscall(SYS_futex, &h->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint32_t word_of(const struct standby *h)
{
	return __atomic_load_n(&h->word, __ATOMIC_ACQUIRE);
}

/* As a number: one of the C libraries has a function that only says no. */
static bool set_policy(int policy)
{
	const struct sched_param none = { 0 };

	return syscall(SYS_sched_setscheduler, 0, policy, &none) == 0;
}

static int wait_for_command(void *arg)
{
	struct standby *h = arg;

	syscall(SYS_set_tid_address, &h->word);
	if (spawn_begin(h->spawn))
		return 127;
	/* A batch process does not push aside who wakes it. The agent, which wakes it and then
	 * waits for its exec, would else stand by until the command has had its first turn. */
	h->batch = syscall(SYS_sched_getscheduler, 0) == SCHED_OTHER && set_policy(SCHED_BATCH);
	word_set(h, STANDBY_WAITS);
	while (word_of(h) == STANDBY_WAITS)
		word_wait(h, STANDBY_WAITS, NULL);
	if (h->batch && !set_policy(SCHED_OTHER))
		return 127;
	if (h->held)
		sched_setaffinity(0, sizeof(h->cpus), &h->cpus);
	return spawn_finish(h->spawn);
}

/* True: it waits. One that was killed before it could say so is not waited for. */
static bool began(struct standby *h)
{
	const struct timespec patience = { .tv_nsec = BEGIN_NS };

	while (word_of(h) == STANDBY_BEGINS) {
		word_wait(h, STANDBY_BEGINS, &patience);
		if (word_of(h) == STANDBY_BEGINS && waitpid(h->pid, NULL, WNOHANG) == h->pid)
			h->word = STANDBY_GONE;
	}
	return word_of(h) == STANDBY_WAITS;
}

/* What it has now, we need not keep. */
static void leave_spare(struct standby *h, struct spare *sp)
{
	for (unsigned i = 0; i < ARRAY_LEN(sp->pipes); i++) {
		h->out[i] = sp->pipes[i][0];
		close(sp->pipes[i][1]);
	}
	close(sp->null);
	spare_init(sp);
}

static void touch(void *at)
{
	volatile uint8_t *byte = at;

	*byte = *byte;
}

/* What a START writes to first: the kernel finds the pages now, and not then. */
static void touch_pages(struct agent *a)
{
	touch(a->in.buf);
	touch(a->in.buf + TOUCH_BYTES);
	touch(a->streams);
	touch(a->streams + 1);
	touch(a->strings);
}

void standby_make(struct agent *a)
{
	struct standby *h = &a->standby;
	struct spare *sp = &a->spare;
	struct spawn s = { .fds = { sp->null, sp->pipes[0][1], sp->pipes[1][1] } };

	if (!h->wanted || s.fds[0] < 0 || s.fds[1] < 0 || s.fds[2] < 0)
		return;
	/* Once, whatever becomes of it: without it a START takes longer, and that is all. */
	h->wanted = false;
	if (sched_getaffinity(0, sizeof(h->cpus), &h->cpus) < 0)
		CPU_ZERO(&h->cpus);
	h->spawn = &s;
	h->word = STANDBY_BEGINS;
	h->pid = clone(wait_for_command, h->stack + sizeof(h->stack), CLONE_VM | SIGCHLD, h);
	if (h->pid > 0)
		a->childless = false;
	if (h->pid > 0 && began(h))
		leave_spare(h, sp);
	else
		h->pid = 0;
	touch_pages(a);
}

/*
 * It goes on where we are now, since we stop: on another CPU it would be woken from far, or wait
 * for whoever runs there. It takes all of its CPUs back before anything else.
 */
static bool hold_here(struct standby *h, pid_t pid)
{
	int cpu = sched_getcpu();
	cpu_set_t here;

	if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &h->cpus))
		return false;
	CPU_ZERO(&here);
	CPU_SET(cpu, &here);
	return sched_setaffinity(pid, sizeof(here), &here) == 0;
}

bool standby_waits(const struct agent *a)
{
	return a->standby.pid && word_of(&a->standby) == STANDBY_WAITS;
}

pid_t standby_spawn(struct agent *a, struct spawn *s)
{
	struct standby *h = &a->standby;
	uint32_t waits = STANDBY_WAITS;
	pid_t pid = h->pid;

	h->pid = 0;
	s->code = 0;
	s->step = START_STEP_SETUP;
	h->spawn = s;
	h->held = hold_here(h, pid);
	/* Killed from outside since we looked: its word must not be written over. */
	if (!__atomic_compare_exchange_n(
		    &h->word, &waits, STANDBY_GOES, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return -ESRCH;
	syscall(SYS_futex, &h->word, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (word_of(h) == STANDBY_GOES)
		word_wait(h, STANDBY_GOES, NULL);
	return spawn_outcome(s, pid);
}

void standby_ended(struct agent *a, pid_t pid)
{
	struct standby *h = &a->standby;

	if (!pid || pid != h->pid)
		return;
	h->pid = 0;
	close(h->out[0]);
	close(h->out[1]);
}

void standby_drop(struct agent *a)
{
	pid_t pid = a->standby.pid;

	a->standby.wanted = false;
	if (!pid)
		return;
	kill(pid, SIGKILL);
	/* Until it is reaped it counts against the limit of processes. */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	standby_ended(a, pid);
}
