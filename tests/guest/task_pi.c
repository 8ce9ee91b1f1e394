/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that know their owner: PTHREAD_PRIO_INHERIT, and the futex operations below it. */
#include "io.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>

static pthread_mutex_t *pi_mutex(bool shared, bool robust)
{
	pthread_mutex_t *m =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;

	NEED(m == MAP_FAILED ? -1 : 0);
	pthread_mutexattr_init(&a);
	NEED(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT) ? -1 : 0);
	if (shared)
		NEED(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) ? -1 : 0);
	if (robust)
		NEED(pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) ? -1 : 0);
	NEED(pthread_mutex_init(m, &a) ? -1 : 0);
	return m;
}

static pthread_mutex_t *lock;
static volatile int *sum;

static void *adds(void *arg)
{
	for (int i = 0; i < 300; i++) {
		pthread_mutex_lock(lock);
		*sum = *sum + 1;
		if (i % 50 == 0)
			sched_yield();
		pthread_mutex_unlock(lock);
	}
	return arg;
}

CASE(many_threads)
{
	pthread_t t[6];
	int count = 0;

	lock = pi_mutex(false, false);
	sum = &count;
	for (int i = 0; i < 6; i++)
		NEED(pthread_create(&t[i], NULL, adds, NULL) ? -1 : 0);
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	printf("%d\n", count);
}

CASE(many_processes)
{
	lock = pi_mutex(true, false);
	sum = (volatile int *)((char *)lock + 2048);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			adds(NULL);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	printf("%d\n", *sum);
}

/* The same page at another address. */
CASE(two_addresses)
{
	pthread_mutex_t *m = pi_mutex(true, false);
	int fd = need_fd("open", open("page", O_CREAT | O_RDWR, 0600));
	char *a, *b;

	NEED(ftruncate(fd, 8192));
	a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
	memcpy(a, m, sizeof(*m));
	lock = (pthread_mutex_t *)a;
	sum = (volatile int *)(a + 2048);
	if (fork() == 0) {
		b = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		lock = (pthread_mutex_t *)(b + 4096);
		sum = (volatile int *)(b + 4096 + 2048);
		munmap(a, 4096);
		adds(NULL);
		_exit(0);
	}
	adds(NULL);
	wait(NULL);
	printf("%d\n", *sum);
}

static void *dies_with_it(void *arg)
{
	pthread_mutex_lock(lock);
	return arg;
}

static void told_of_death(void)
{
	int r = pthread_mutex_lock(lock);

	printf("%s\n", r ? errno_name(r) : "no error");
	printf("%d\n", r == EOWNERDEAD ? pthread_mutex_consistent(lock) : -1);
	printf("%d\n", pthread_mutex_unlock(lock));
	printf("%d\n", pthread_mutex_lock(lock));
	printf("%d\n", pthread_mutex_unlock(lock));
}

CASE(robust_thread)
{
	pthread_t t;

	lock = pi_mutex(false, true);
	NEED(pthread_create(&t, NULL, dies_with_it, NULL) ? -1 : 0);
	pthread_join(t, NULL);
	told_of_death();
}

CASE(robust_process)
{
	int fds[2];
	char c;

	lock = pi_mutex(true, true);
	NEED(pipe(fds));
	if (fork() == 0) {
		pthread_mutex_lock(lock);
		write(fds[1], "x", 1);
		sched_yield();
		kill(getpid(), SIGKILL);
	}
	read(fds[0], &c, 1);
	told_of_death();
	wait(NULL);
}

CASE(timed)
{
	struct timespec past = { 1, 0 };

	lock = pi_mutex(false, false);
	printf("in time: %d\n", pthread_mutex_timedlock(lock, &past));
	printf("try again: %s\n", errno_name(pthread_mutex_trylock(lock)));
	printf("unlock: %d\n", pthread_mutex_unlock(lock));
}

/* Below the library. */

static long futex(
	uint32_t *at, int op, uint32_t val, const void *until, uint32_t *to, uint32_t val3)
{
	return syscall(SYS_futex, at, op, val, until, to, val3);
}

static uint32_t *words;

CASE(wrong)
{
	uint32_t me = (uint32_t)syscall(SYS_gettid), w[4] = { 0, me, 0, 0 };
	struct timespec bad = { 0, 1000000000 };

	say("unlock free", futex(&w[0], FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
	say("lock own", futex(&w[1], FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	say("try own", futex(&w[1], FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	say("odd", futex((uint32_t *)((char *)w + 1), FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	say("nowhere", futex(BAD_PTR, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	say("bad time", futex(&w[2], FUTEX_LOCK_PI, 0, &bad, NULL, 0));
	w[2] = 0x3ffffff0;
	say("of nobody", futex(&w[2], FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	say("of nobody, try", futex(&w[2], FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	say("wake two", futex(&w[0], FUTEX_CMP_REQUEUE_PI, 2, (void *)1, &w[2], 0));
	say("onto itself", futex(&w[0], FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &w[0], 0));
	say("other value", futex(&w[0], FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &w[3], 7));
	say_n("nobody waits", futex(&w[0], FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &w[3], 0));
	say("wait for other value", futex(&w[0], FUTEX_WAIT_REQUEUE_PI, 7, NULL, &w[3], 0));
}

CASE(own_hands)
{
	uint32_t me = (uint32_t)syscall(SYS_gettid), w = 0;

	say("lock", futex(&w, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0));
	say_is("mine", (w & FUTEX_TID_MASK) == me);
	say("unlock", futex(&w, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0));
	say_is("free", w == 0);
	w = FUTEX_OWNER_DIED;
	say("lock what was lost", futex(&w, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	say_is("and know it", (w & ~FUTEX_WAITERS) == (me | FUTEX_OWNER_DIED));
	say("unlock", futex(&w, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
	say_is("free", w == 0);
	say("try", futex(&w, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	say_is("mine", (w & FUTEX_TID_MASK) == me);
}

static void *waits_for_word(void *arg)
{
	long r = futex(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);

	words[1] = r == 0 && (words[0] & FUTEX_TID_MASK) == (uint32_t)syscall(SYS_gettid);
	words[2] = !!(words[0] & FUTEX_OWNER_DIED);
	return arg;
}

static void wait_for_mark(void)
{
	while (!(__atomic_load_n(words, __ATOMIC_SEQ_CST) & FUTEX_WAITERS))
		sched_yield();
}

/* A waiter gets the lock of one that ends, list or no list. */
static void *ends_with_it(void *arg)
{
	futex(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
	__atomic_store_n(&words[3], 1, __ATOMIC_SEQ_CST);
	wait_for_mark();
	return arg;
}

CASE(owner_ends)
{
	pthread_t a, b;

	words = calloc(4, sizeof(*words));
	NEED(pthread_create(&a, NULL, ends_with_it, NULL) ? -1 : 0);
	while (!__atomic_load_n(&words[3], __ATOMIC_SEQ_CST))
		sched_yield();
	NEED(pthread_create(&b, NULL, waits_for_word, NULL) ? -1 : 0);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	printf("%u %u\n", words[1], words[2]);
}

CASE(handed_over)
{
	pthread_t b;

	words = calloc(4, sizeof(*words));
	say("lock", futex(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	NEED(pthread_create(&b, NULL, waits_for_word, NULL) ? -1 : 0);
	wait_for_mark();
	say("unlock", futex(words, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
	pthread_join(b, NULL);
	printf("%u %u\n", words[1], words[2]);
}

/* As a library does it: a word that is its number alone is let go without a call. */
static void *passes_on(void *arg)
{
	uint32_t me = (uint32_t)syscall(SYS_gettid);

	__atomic_add_fetch(&words[1], 1, __ATOMIC_SEQ_CST);
	futex(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
	words[2]++;
	if (!__atomic_compare_exchange_n(
		    words, &(uint32_t){ me }, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		futex(words, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
	/* The end of a thread wakes others, too. */
	while (__atomic_load_n(&words[2], __ATOMIC_SEQ_CST) % 5)
		sched_yield();
	return arg;
}

CASE(passed_on)
{
	pthread_t t[5];

	words = calloc(4, sizeof(*words));
	for (int round = 0; round < 20; round++) {
		words[1] = 0;
		futex(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
		for (int i = 0; i < 5; i++)
			NEED(pthread_create(&t[i], NULL, passes_on, NULL) ? -1 : 0);
		while (__atomic_load_n(&words[1], __ATOMIC_SEQ_CST) != 5)
			sched_yield();
		wait_for_mark();
		usleep(1000); /* not needed, but then they all wait */
		futex(words, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
		for (int i = 0; i < 5; i++)
			pthread_join(t[i], NULL);
	}
	printf("%u %u\n", words[2], words[0]);
}

static void on_signal(int sig)
{
	__atomic_add_fetch(&words[3], 1, __ATOMIC_SEQ_CST);
}

/* A handler does not end the wait, with SA_RESTART or without. */
CASE(handler)
{
	struct sigaction sa = { .sa_handler = on_signal };
	pthread_t b;

	words = calloc(4, sizeof(*words));
	sigaction(SIGUSR1, &sa, NULL);
	futex(words, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
	NEED(pthread_create(&b, NULL, waits_for_word, NULL) ? -1 : 0);
	wait_for_mark();
	pthread_kill(b, SIGUSR1);
	while (!__atomic_load_n(&words[3], __ATOMIC_SEQ_CST))
		sched_yield();
	say("unlock", futex(words, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
	pthread_join(b, NULL);
	printf("%u %u %u\n", words[1], words[2], words[3]);
}

CASE(too_late)
{
	struct timespec until = { 1, 0 };

	words = calloc(4, sizeof(*words));
	words[0] = 1; /* a process that is always there */
	say("past", futex(words, FUTEX_LOCK_PI, 0, &until, NULL, 0));
	say("monotonic", futex(words, 13 /* FUTEX_LOCK_PI2 */, 0, &until, NULL, 0));
	say("held", futex(words, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	say_is("still", words[0] == (1 | FUTEX_WAITERS));
}

/* words[0]: a condition; words[1]: the lock; words[2]: who has come back with it */
static void *waits_for_news(void *arg)
{
	long r;

	__atomic_add_fetch(&words[3], 1, __ATOMIC_SEQ_CST);
	do
		r = futex(words, FUTEX_WAIT_REQUEUE_PI, 0, NULL, &words[1], 0);
	while (r < 0 && errno == EINTR);
	if (r == 0 && (words[1] & FUTEX_TID_MASK) == (uint32_t)syscall(SYS_gettid))
		words[2]++;
	futex(&words[1], FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
	return arg;
}

CASE(requeued)
{
	pthread_t t[3];
	long n = 0;

	words = calloc(4, sizeof(*words));
	futex(&words[1], FUTEX_LOCK_PI, 0, NULL, NULL, 0);
	for (int i = 0; i < 3; i++)
		NEED(pthread_create(&t[i], NULL, waits_for_news, NULL) ? -1 : 0);
	while (n < 3) {
		long r = futex(words, FUTEX_CMP_REQUEUE_PI, 1, (void *)8, &words[1], 0);

		NEED(r);
		n += r;
		sched_yield();
	}
	say_is("marked", words[1] & FUTEX_WAITERS);
	say("unlock", futex(&words[1], FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("%ld %u %u\n", n, words[2], words[1]);
}
