/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: made, joined, locked, cancelled; what they share. */
#include "io.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int shared;

static void *adds(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&lock);
		shared++;
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

CASE(many_add)
{
	pthread_t t[16];
	void *ret;
	int sum = 0;

	for (long i = 0; i < 16; i++)
		NEED(pthread_create(&t[i], NULL, adds, (void *)i) ? -1 : 0);
	for (int i = 0; i < 16; i++) {
		pthread_join(t[i], &ret);
		sum += (int)(long)ret;
	}
	printf("%d %d\n", shared, sum);
}

static int turn;
static void *ping(void *arg)
{
	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(&lock);
		while (turn != (int)(long)arg)
			pthread_cond_wait(&cond, &lock);
		turn = !turn;
		shared++;
		pthread_cond_broadcast(&cond);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

CASE(conditions)
{
	pthread_t a, b;

	pthread_create(&a, NULL, ping, (void *)0L);
	pthread_create(&b, NULL, ping, (void *)1L);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	printf("%d\n", shared);
}

CASE(timed_wait)
{
	struct timespec ts;
	int r;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += 20000000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&lock);
	r = pthread_cond_timedwait(&cond, &lock, &ts);
	pthread_mutex_unlock(&lock);
	printf("%d\n", r == ETIMEDOUT);
}

static void *ids(void *arg)
{
	return (void *)(long)((getpid() == *(pid_t *)arg) | ((pid_t)syscall(SYS_gettid) != getpid())
								    << 1);
}

CASE(numbers)
{
	pid_t me = getpid();
	pthread_t t;
	void *ret;

	pthread_create(&t, NULL, ids, &me);
	pthread_join(t, &ret);
	printf("%ld\n", (long)ret);
}

static void *sleeps(void *arg)
{
	for (;;)
		sleep(10);
	return NULL;
}

CASE(cancel)
{
	pthread_t t;
	void *ret;

	pthread_create(&t, NULL, sleeps, NULL);
	usleep(20000);
	pthread_cancel(t);
	pthread_join(t, &ret);
	printf("%d\n", ret == PTHREAD_CANCELED);
}

CASE(exit_group_ends_all)
{
	int st;
	pid_t p = fork();

	if (!p) {
		pthread_t t;

		for (int i = 0; i < 5; i++)
			pthread_create(&t, NULL, sleeps, NULL);
		exit(3);
	}
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
}

static void *late(void *arg)
{
	usleep(20000);
	exit(7);
}

CASE(leader_may_leave_first)
{
	int st;
	pid_t p = fork();

	if (!p) {
		pthread_t t;

		pthread_create(&t, NULL, late, NULL);
		pthread_exit(NULL);
	}
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
}

static __thread int mine = 5;
static void *tls(void *arg)
{
	mine += (int)(long)arg;
	usleep(1000);
	return (void *)(long)mine;
}

CASE(own_storage)
{
	pthread_t t[4];
	void *ret;

	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, tls, (void *)i);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &ret);
		printf("%ld ", (long)ret);
	}
	printf("%d\n", mine);
}

CASE(a_mutex_between_processes)
{
	pthread_mutexattr_t attr;
	struct {
		pthread_mutex_t m;
		int n;
	} *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int st;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->m, &attr);
	for (int i = 0; i < 4; i++) {
		if (fork())
			continue;
		for (int k = 0; k < 1000; k++) {
			pthread_mutex_lock(&s->m);
			s->n++;
			pthread_mutex_unlock(&s->m);
		}
		_exit(0);
	}
	while (wait(&st) > 0)
		;
	printf("%d\n", s->n);
}

CASE(semaphores)
{
	sem_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int st;

	sem_init(s, 1, 0);
	if (!fork()) {
		usleep(10000);
		sem_post(s);
		_exit(0);
	}
	R(sem_wait(s));
	wait(&st);
	R(sem_trywait(s));
}

CASE(a_hundred)
{
	pthread_t t[100];
	int n = 0;

	shared = 0;
	for (long i = 0; i < 100; i++)
		n += pthread_create(&t[i], NULL, adds, NULL) == 0;
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("%d %d\n", n, shared);
}

static void *forks(void *arg)
{
	int pid = fork();

	if (pid == 0) {
		pthread_t t[4];

		shared = 0;
		for (long i = 0; i < 4; i++)
			NEED(pthread_create(&t[i], NULL, adds, NULL) ? -1 : 0);
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		_exit(shared == 8000 ? 7 : 8);
	}
	R(io_reap(pid));
	return arg;
}

/* The child of a thread that is not the first has threads of its own. */
CASE(a_thread_forks)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		NEED(pthread_create(&t[i], NULL, forks, NULL) ? -1 : 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

static pid_t made;
static int ready[2];

static void *make_child(void *arg)
{
	char c;

	made = fork();
	if (made == 0) {
		prctl(PR_SET_PDEATHSIG, arg ? SIGKILL : 0);
		write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	read(ready[0], &c, 1);
	return NULL;
}

/* Who asked to hear of its parent's end hears of the end of the thread that made it. */
CASE(end_of_a_parent)
{
	pthread_t t;
	int st = 0;

	NEED(pipe(ready));
	NEED(pthread_create(&t, NULL, make_child, ready) ? -1 : 0);
	pthread_join(t, NULL);
	R(waitpid(made, &st, 0) == made);
	printf("killed by %d\n", WIFSIGNALED(st) ? WTERMSIG(st) : 0);
	NEED(pthread_create(&t, NULL, make_child, NULL) ? -1 : 0);
	pthread_join(t, NULL);
	R(waitpid(made, &st, WNOHANG));
	NEED(kill(made, SIGTERM));
	R(waitpid(made, &st, 0) == made);
	printf("killed by %d\n", WIFSIGNALED(st) ? WTERMSIG(st) : 0);
}

static void *wait_for(void *arg)
{
	int st;
	pid_t p = *(pid_t *)arg;

	R(waitpid(p, &st, (int)__WNOTHREAD));
	R(waitpid(p, &st, (int)__WNOTHREAD | WNOHANG));
	R(waitpid(p, &st, 0) == p);
	return NULL;
}

CASE(children_of_a_thread)
{
	pthread_t t;
	pid_t p;

	NEED(p = fork());
	if (p == 0)
		_exit(0);
	NEED(pthread_create(&t, NULL, wait_for, &p) ? -1 : 0);
	pthread_join(t, NULL);
	NEED(p = fork());
	if (p == 0)
		_exit(0);
	R(waitpid(p, NULL, (int)__WNOTHREAD) == p);
}
