/* SPDX-License-Identifier: Apache-2.0 */
/* What a C library builds from threads and signals: cancellation, robust and shared locks,
 * barriers, deadlines, all threads changing their user at once. */
#include "io.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/socket.h>

static _Atomic int ready, cleaned;
static int fds[2];
static sem_t sem;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void cleans(void *arg)
{
	cleaned++;
}

/* Each in a wait that is a cancellation point. */
static void *waits(void *arg)
{
	struct timespec long_time = { 1000, 0 };
	char c;

	pthread_cleanup_push(cleans, NULL);
	ready = 1;
	switch ((long)arg) {
	case 0:
		read(fds[0], &c, 1);
		break;
	case 1:
		nanosleep(&long_time, NULL);
		break;
	case 2:
		sem_wait(&sem);
		break;
	case 3:
		pthread_mutex_lock(&lock);
		while (1)
			pthread_cond_wait(&cond, &lock);
		break;
	case 4:
		pause();
		break;
	case 5:
		recv(fds[0], &c, 1, 0);
		break;
	case 6:
		waitpid(-1, NULL, 0);
		break;
	case 7:
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
		while (1)
			;
		break;
	case 8:
		sigwaitinfo(&(sigset_t){ 0 }, NULL);
		break;
	}
	pthread_cleanup_pop(0);
	return arg;
}

static void quiet_child(void)
{
	pause();
}

CASE(cancelled)
{
	pid_t p;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	NEED(sem_init(&sem, 0, 0));
	p = fork();
	if (!p)
		quiet_child();
	for (long i = 0; i < 9; i++) {
		pthread_t t;
		void *ret;

		ready = 0;
		NEED(pthread_create(&t, NULL, waits, (void *)i) ? -1 : 0);
		while (!ready)
			sched_yield();
		pthread_cancel(t);
		pthread_join(t, &ret);
		printf("%ld: %s\n", i, ret == PTHREAD_CANCELED ? "cancelled" : "returned");
		if (i == 3) /* its handler's lock */
			pthread_mutex_unlock(&lock);
	}
	printf("cleaned %d\n", cleaned);
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
}

static void *not_now(void *arg)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	ready = 1;
	while (ready != 2)
		sched_yield();
	usleep(1); /* would be one */
	pthread_setcancelstate(was, NULL);
	pthread_testcancel();
	return arg;
}

CASE(cancelled_later)
{
	pthread_t t;
	void *ret;

	NEED(pthread_create(&t, NULL, not_now, NULL) ? -1 : 0);
	while (!ready)
		sched_yield();
	pthread_cancel(t);
	ready = 2;
	pthread_join(t, &ret);
	printf("%s\n", ret == PTHREAD_CANCELED ? "cancelled" : "returned");
}

static pthread_mutex_t *shared_mutex(int type)
{
	pthread_mutex_t *m =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;

	NEED(m == MAP_FAILED ? -1 : 0);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_settype(&a, type);
	NEED(pthread_mutex_init(m, &a) ? -1 : 0);
	return m;
}

/* One process after the other dies with it; all that wait hear of it in turn. */
CASE(robust_in_turn)
{
	pthread_mutex_t *m = shared_mutex(PTHREAD_MUTEX_ERRORCHECK);
	volatile int *told = (volatile int *)((char *)m + 2048);
	int st, died = 0;

	for (int i = 0; i < 6; i++)
		if (fork() == 0) {
			int r = pthread_mutex_lock(m);

			if (r == EOWNERDEAD) {
				*told = *told + 1;
				pthread_mutex_consistent(m);
			}
			kill(getpid(), SIGKILL);
		}
	while (wait(&st) > 0)
		died += WIFSIGNALED(st);
	printf("died %d, told %d\n", died, *told);
	printf("%s\n", errno_name(pthread_mutex_lock(m)));
	printf("unlock without repair: %d\n", pthread_mutex_unlock(m));
	printf("%s\n", errno_name(pthread_mutex_lock(m)));
}

static void *owns_and_ends(void *arg)
{
	pthread_mutex_lock(arg);
	pthread_exit(NULL);
}

CASE(robust_with_deadline)
{
	pthread_mutex_t *m = shared_mutex(PTHREAD_MUTEX_RECURSIVE);
	struct timespec past = { 1, 0 };
	pthread_t t;

	NEED(pthread_create(&t, NULL, owns_and_ends, m) ? -1 : 0);
	pthread_join(t, NULL);
	printf("%s\n", errno_name(pthread_mutex_timedlock(m, &past)));
	printf("%d\n", pthread_mutex_consistent(m));
	printf("again %d\n", pthread_mutex_trylock(m));
	printf("%d\n", pthread_mutex_unlock(m));
	printf("%d\n", pthread_mutex_unlock(m));
}

static pthread_barrier_t *barrier;
static volatile int *last_ones;

CASE(barrier_of_processes)
{
	pthread_barrierattr_t a;
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	barrier = (pthread_barrier_t *)page;
	last_ones = (volatile int *)(page + 2048);
	pthread_barrierattr_init(&a);
	pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	NEED(pthread_barrier_init(barrier, &a, 4) ? -1 : 0);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			for (int n = 0; n < 20; n++)
				if (pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
					__atomic_add_fetch(last_ones, 1, __ATOMIC_SEQ_CST);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	printf("%d\n", *last_ones);
}

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static int both[2];
static _Atomic int torn;

static void *reads_and_writes(void *arg)
{
	for (int i = 0; i < 200; i++) {
		if ((i + (int)(long)arg) % 4 == 0) {
			pthread_rwlock_wrlock(&rw);
			both[0]++;
			sched_yield();
			both[1]++;
		} else {
			pthread_rwlock_rdlock(&rw);
			torn += both[0] != both[1];
		}
		pthread_rwlock_unlock(&rw);
	}
	return NULL;
}

CASE(readers_and_writers)
{
	struct timespec past = { 1, 0 };
	pthread_t t[5];

	for (long i = 0; i < 5; i++)
		NEED(pthread_create(&t[i], NULL, reads_and_writes, (void *)i) ? -1 : 0);
	for (int i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
	printf("%d %d, torn %d\n", both[0], both[1], torn);
	pthread_rwlock_wrlock(&rw);
	printf("%s\n", errno_name(pthread_rwlock_tryrdlock(&rw)));
	printf("unlock %d\n", pthread_rwlock_unlock(&rw));
	pthread_rwlock_rdlock(&rw);
	printf("%s\n", errno_name(pthread_rwlock_timedwrlock(&rw, &past)));
}

CASE(deadlines)
{
	struct timespec past = { 1, 0 }, bad = { 0, -1 };

	NEED(sem_init(&sem, 0, 0));
	R(sem_timedwait(&sem, &past));
	R(sem_timedwait(&sem, &bad));
	R(sem_trywait(&sem));
	sem_post(&sem);
	R(sem_timedwait(&sem, &past));
	pthread_mutex_lock(&lock);
	printf("%s\n", errno_name(pthread_cond_timedwait(&cond, &lock, &past)));
	printf("still mine: %s\n", errno_name(pthread_mutex_trylock(&lock)));
	pthread_mutex_unlock(&lock);
}

/* All threads become another user at once, as the library does it: with a signal to each. */
static _Atomic int users[4];

static void *becomes(void *arg)
{
	int n = (int)(long)arg;

	ready++;
	while (getuid() == 0)
		sched_yield();
	users[n] = (int)getuid() * 100000 + (int)geteuid();
	return NULL;
}

static void all_at_once(void)
{
	pthread_t t[4];

	ready = 0;
	for (long i = 0; i < 4; i++)
		NEED(pthread_create(&t[i], NULL, becomes, (void *)i) ? -1 : 0);
	while (ready != 4)
		sched_yield();
	R(setgid(1234));
	R(setuid(4321));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	printf("%d %d %d %d\n", users[0], users[1], users[2], users[3]);
	R(setuid(0));
}

CASE(another_user)
{
	in_child(all_at_once);
}

static _Atomic int hits[3];

static void on_signal(int sig, siginfo_t *si, void *uc)
{
	hits[0]++;
	hits[1] += si->si_value.sival_int;
	hits[2] += si->si_code == SI_QUEUE;
}

static void *gets_signals(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	ready = 1;
	while (ready != 2)
		sched_yield();
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	return NULL;
}

/* Queued, with a value each, for the one thread that does not block them. */
CASE(signals_with_values)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	sigset_t set;
	pthread_t t;

	sigaction(SIGRTMIN + 1, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	NEED(pthread_create(&t, NULL, gets_signals, NULL) ? -1 : 0);
	while (!ready)
		sched_yield();
	for (int i = 1; i <= 5; i++)
		NEED(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = i }));
	ready = 2;
	pthread_join(t, NULL);
	printf("%d %d %d\n", hits[0], hits[1], hits[2]);
}

static int order[6], ordered;

static void prepare(void)
{
	order[ordered++] = 1;
}
static void in_parent(void)
{
	order[ordered++] = 2;
}
static void in_the_child(void)
{
	order[ordered++] = 3;
}

/* A child of one thread of many has that one, and working locks. */
CASE(fork_of_a_thread)
{
	pthread_t t;
	int st;
	pid_t p;

	pthread_atfork(prepare, in_parent, in_the_child);
	NEED(pthread_create(&t, NULL, not_now, NULL) ? -1 : 0);
	while (!ready)
		sched_yield();
	fflush(stdout);
	p = fork();
	if (!p) {
		pthread_t own;
		void *ret = NULL;
		char *m = malloc(1 << 20);

		free(m);
		ready = 2;
		NEED(pthread_create(&own, NULL, not_now, &ready) ? -1 : 0);
		while (ready != 1)
			sched_yield();
		ready = 2;
		pthread_join(own, &ret);
		printf("child %d %d, %d\n", order[0], order[1], ret == &ready);
		fflush(stdout);
		_exit(5);
	}
	waitpid(p, &st, 0);
	ready = 2;
	pthread_join(t, NULL);
	printf("parent %d %d, child %d\n", order[0], order[1], WEXITSTATUS(st));
}
