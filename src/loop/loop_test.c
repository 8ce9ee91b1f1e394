/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop/loop_test.c - order, removal inside callbacks, timers, signals, exits, workers.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/clock.h"
#include "loop/loop_impl.h"

static struct loop *make(void)
{
	struct loop *l = NULL;
	struct err e = { 0 };

	assert_int_equal(loop_create(&l, &e), 0);
	return l;
}

static void turn(struct loop *l, int ms)
{
	struct err e = { 0 };

	assert_int_equal(loop_turn(l, ms, &e), 0);
}

/* Turns until *@flag, or for long enough to call it never. */
static void until(struct loop *l, const int *flag, int want)
{
	for (int i = 0; i < 1000 && *flag < want; i++)
		turn(l, 10);
	assert_int_equal(*flag, want);
}

struct two {
	struct loop_fd a, b;
	int fds[2][2];
	int calls;
};

/* Whoever is called first removes the other, whose event is already on its way. */
static void remove_other(void *ctx, uint32_t events)
{
	struct two *t = ctx;

	assert_true(events & EPOLLIN);
	t->calls++;
	loop_fd_remove(&t->a);
	loop_fd_remove(&t->b);
}

static void removed_in_the_same_turn(void **state)
{
	struct loop *l = make();
	struct two t = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, t.fds[i]), 0);
		assert_int_equal(write(t.fds[i][1], "x", 1), 1);
	}
	assert_int_equal(loop_fd_add(l, &t.a, t.fds[0][0], EPOLLIN, remove_other, &t, NULL), 0);
	assert_int_equal(loop_fd_add(l, &t.b, t.fds[1][0], EPOLLIN, remove_other, &t, NULL), 0);
	turn(l, 0);
	turn(l, 0);
	assert_int_equal(t.calls, 1);
	loop_fd_remove(&t.a); /* again: nothing */
	assert_int_equal(loop_fd_mod(&t.a, EPOLLIN), -EBADF);
	for (int i = 0; i < 4; i++)
		close(t.fds[i / 2][i % 2]);
	loop_destroy(l);
}

static void count_fd(void *ctx, uint32_t events)
{
	(void)events;
	++*(int *)ctx;
}

static void count_one(void *ctx)
{
	++*(int *)ctx;
}

static void interest_can_change(void **state)
{
	struct loop *l = make();
	struct loop_fd w = { 0 };
	struct err e = { 0 };
	int fds[2], calls = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(loop_fd_add(l, &w, fds[0], 0, count_fd, &calls, NULL), 0);
	turn(l, 0);
	assert_int_equal(calls, 0);
	assert_int_equal(loop_fd_mod(&w, EPOLLIN), 0);
	turn(l, 0);
	assert_int_equal(calls, 1);
	assert_int_equal(loop_fd_mod(&w, 0), 0);
	turn(l, 0);
	assert_int_equal(calls, 1);
	loop_fd_remove(&w);
	assert_int_equal(loop_fd_add(l, &w, 9999, EPOLLIN, count_fd, &calls, &e), -EBADF);
	assert_null(w.loop);
	close(fds[0]);
	close(fds[1]);
	loop_destroy(l);
}

static void spinning_misses_nothing(void **state)
{
	struct loop *l = make();
	struct loop_timer timer = { 0 };
	struct loop_fd w = { 0 };
	int fds[2], calls = 0, fired = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(loop_fd_add(l, &w, fds[0], EPOLLIN, count_fd, &calls, NULL), 0);
	loop_spin(l, 10 * 1000 * 1000);
	assert_int_equal(write(fds[1], "x", 1), 1);
	turn(l, -1);
	assert_int_equal(calls, 1);
	loop_fd_remove(&w);
	/* Nothing comes: it sleeps in the end, and wakes for its timer. */
	loop_spin(l, 100);
	loop_timer_set(l, &timer, 5, count_one, &fired);
	while (!fired)
		turn(l, -1);
	assert_int_equal(l->spin_ns, 0);
	/* One that does not want to wait does not. */
	loop_spin(l, 10 * 1000 * 1000);
	turn(l, 0);
	loop_spin(l, 0);
	assert_int_equal(l->spin_ns, 0);
	close(fds[0]);
	close(fds[1]);
	loop_destroy(l);
}

enum { TIMERS = 3000 };

struct many {
	struct loop_timer t[TIMERS];
	uint64_t due_ms[TIMERS];
	uint64_t last_ms;
	int fired;
};

struct one_of {
	struct many *all;
	int i;
};

static void fire(void *ctx)
{
	struct one_of *me = ctx;
	struct many *m = me->all;

	/* Never early, and in the order of their moments. */
	assert_true(clock_ns() / 1000000 >= m->due_ms[me->i]);
	assert_true(m->t[me->i].at_ms >= m->last_ms);
	m->last_ms = m->t[me->i].at_ms;
	m->fired++;
}

static void many_timers_in_order(void **state)
{
	static struct many m;
	static struct one_of who[TIMERS];
	struct loop *l = make();
	unsigned seed = 7;
	int cancelled = 0;

	(void)state;
	for (int i = 0; i < TIMERS; i++) {
		unsigned ms = (unsigned)rand_r(&seed) % 60;

		who[i] = (struct one_of){ &m, i };
		m.due_ms[i] = clock_ns() / 1000000 + ms;
		assert_int_equal(loop_timer_set(l, &m.t[i], ms, fire, &who[i]), 0);
	}
	for (int i = 0; i < TIMERS; i += 3) { /* every third one is moved */
		m.due_ms[i] = clock_ns() / 1000000 + 30;
		assert_int_equal(loop_timer_set(l, &m.t[i], 30, fire, &who[i]), 0);
	}
	for (int i = 1; i < TIMERS; i += 7) {
		loop_timer_cancel(&m.t[i]);
		loop_timer_cancel(&m.t[i]);
		cancelled++;
	}
	until(l, &m.fired, TIMERS - cancelled);
	loop_destroy(l);
}

struct again {
	struct loop *l;
	struct loop_timer t;
	struct loop_later d;
	int calls;
};

static void timer_again(void *ctx)
{
	struct again *a = ctx;

	a->calls++;
	loop_timer_set(a->l, &a->t, 0, timer_again, a);
}

static void later_again(void *ctx)
{
	struct again *a = ctx;

	a->calls++;
	loop_later_set(a->l, &a->d, later_again, a);
}

/* What sets itself anew gets one call for each turn, and others are not starved. */
static void again_is_the_next_turn(void **state)
{
	struct loop *l = make();
	struct again a = { .l = l }, b = { .l = l };

	(void)state;
	loop_later_set(l, &a.d, later_again, &a);
	loop_later_set(l, &a.d, later_again, &a); /* armed already */
	for (int i = 1; i <= 5; i++) {
		turn(l, -1); /* does not wait: there is a deferred call */
		assert_int_equal(a.calls, i);
	}
	loop_later_cancel(&a.d);
	loop_timer_set(l, &b.t, 0, timer_again, &b);
	until(l, &b.calls, 3);
	loop_destroy(l); /* with a timer armed */
}

struct pair {
	struct loop_later a, b;
	int calls;
};

static void cancel_other(void *ctx)
{
	struct pair *p = ctx;

	p->calls++;
	loop_later_cancel(&p->a);
	loop_later_cancel(&p->b);
}

static void later_can_cancel_later(void **state)
{
	struct loop *l = make();
	struct pair p = { 0 };

	(void)state;
	loop_later_set(l, &p.a, cancel_other, &p);
	loop_later_set(l, &p.b, cancel_other, &p);
	turn(l, 0);
	turn(l, 0);
	assert_int_equal(p.calls, 1);
	loop_destroy(l);
}

static void stop_soon(void *ctx)
{
	loop_stop(ctx);
}

static void run_until_stopped(void **state)
{
	struct loop *l = make();
	struct loop_timer t = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		loop_timer_set(l, &t, 1, stop_soon, l);
		assert_int_equal(loop_run(l, NULL), 0);
	}
	loop_destroy(l);
}

static void on_signal(void *ctx, int sig)
{
	*(int *)ctx += sig;
}

static void signals_arrive_as_events(void **state)
{
	struct loop *l = make();
	int usr1 = 0, usr2 = 0;
	struct err e = { 0 };
	sigset_t now;

	(void)state;
	assert_int_equal(loop_signal_add(l, SIGUSR1, on_signal, &usr1, &e), 0);
	assert_int_equal(loop_signal_add(l, SIGUSR2, on_signal, &usr2, &e), 0);
	assert_int_equal(loop_signal_add(l, 0, on_signal, &usr2, &e), -EINVAL);
	assert_int_equal(loop_signal_add(l, 99, on_signal, &usr2, &e), -EINVAL);
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGUSR2);
	turn(l, 100);
	assert_int_equal(usr1, SIGUSR1);
	assert_int_equal(usr2, SIGUSR2);
	loop_destroy(l);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	assert_false(sigismember(&now, SIGUSR1));
}

struct seen {
	int calls;
	struct loop_exit how;
};

static void on_exit_of(void *ctx, pid_t pid, const struct loop_exit *how)
{
	struct seen *s = ctx;

	assert_true(pid > 0);
	s->calls++;
	s->how = *how;
}

static void exits_are_reaped(void **state)
{
	static const struct {
		int sig, status, code, want;
	} cases[] = {
		{ 0, 0, CLD_EXITED, 0 },
		{ 0, 77, CLD_EXITED, 77 },
		{ SIGKILL, 0, CLD_KILLED, SIGKILL },
	};
	struct loop *l = make();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct loop_child c = { 0 };
		struct seen s = { 0 };
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			if (cases[i].sig)
				raise(cases[i].sig);
			_exit(cases[i].status);
		}
		assert_int_equal(loop_child_add(l, &c, pid, on_exit_of, &s, NULL), 0);
		until(l, &s.calls, 1);
		assert_true(s.how.ours);
		assert_int_equal(s.how.code, cases[i].code);
		assert_int_equal(s.how.status, cases[i].want);
		assert_int_equal(waitpid(pid, NULL, 0), -1);
		loop_child_remove(&c);
	}
	loop_destroy(l);
}

/* A grandchild is not ours to reap, but its end is seen. */
static void exit_of_a_stranger(void **state)
{
	struct loop *l = make();
	struct loop_child c = { 0 };
	struct seen s = { 0 };
	int hold[2], tell[2];
	pid_t pid, child;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	assert_int_equal(pipe(tell), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		char c1;

		pid = fork();
		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], &c1, 1) == 0 ? 0 : 1);
		}
		if (write(tell[1], &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(tell[0], &pid, sizeof(pid)), sizeof(pid));
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(loop_child_add(l, &c, pid, on_exit_of, &s, NULL), 0);
	turn(l, 0);
	assert_int_equal(s.calls, 0);
	close(hold[1]);
	until(l, &s.calls, 1);
	assert_false(s.how.ours);
	close(hold[0]);
	close(tell[0]);
	close(tell[1]);
	loop_destroy(l);
}

struct task {
	pthread_t maker;
	int *over, *unwanted;
	int in, out;
	int gate; /* a pipe's end to wait on, or -1 */
};

static void task_work(void *arg)
{
	struct task *t = arg;
	char c;

	assert_false(pthread_equal(pthread_self(), t->maker));
	if (t->gate >= 0 && read(t->gate, &c, 1) != 0)
		abort();
	t->out = t->in * t->in;
}

static void task_done(void *arg, bool wanted)
{
	struct task *t = arg;

	assert_true(pthread_equal(pthread_self(), t->maker));
	++*t->over;
	if (!wanted)
		++*t->unwanted;
	else
		assert_int_equal(t->out, t->in * t->in);
}

static void workers_give_results_back(void **state)
{
	struct loop *l = make();
	int over = 0, unwanted = 0;

	(void)state;
	for (int i = 0; i < 500; i++) {
		struct task t = { pthread_self(), &over, &unwanted, i, -1, -1 };

		assert_int_equal(loop_work(l, &t, sizeof(t), task_work, task_done, NULL, NULL), 0);
	}
	until(l, &over, 500);
	assert_int_equal(unwanted, 0);
	loop_destroy(l);
}

/* All threads are busy: of the jobs behind them one is forgotten, and comes back undone. */
static void forgotten_and_unfinished_jobs(void **state)
{
	struct loop *l = make();
	struct loop_job *job;
	int over = 0, unwanted = 0, gate[2];

	(void)state;
	assert_int_equal(pipe(gate), 0);
	for (int i = 0; i < LOOP_WORKERS_MAX + 3; i++) {
		struct task t = { pthread_self(), &over, &unwanted, i, -1, gate[0] };

		assert_int_equal(loop_work(l, &t, sizeof(t), task_work, task_done, &job, NULL), 0);
	}
	loop_job_forget(job); /* the last one */
	assert_int_equal(over, 0);
	until(l, &over, 1);
	assert_int_equal(unwanted, 1);
	close(gate[1]); /* lets the others go on */
	loop_destroy(l);
	assert_int_equal(over, LOOP_WORKERS_MAX + 3);
	close(gate[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(removed_in_the_same_turn),
		cmocka_unit_test(interest_can_change),
		cmocka_unit_test(spinning_misses_nothing),
		cmocka_unit_test(many_timers_in_order),
		cmocka_unit_test(again_is_the_next_turn),
		cmocka_unit_test(later_can_cancel_later),
		cmocka_unit_test(run_until_stopped),
		cmocka_unit_test(signals_arrive_as_events),
		cmocka_unit_test(exits_are_reaped),
		cmocka_unit_test(exit_of_a_stranger),
		cmocka_unit_test(workers_give_results_back),
		cmocka_unit_test(forgotten_and_unfinished_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
