/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/fuzz.c - random calls with random and hostile arguments, from several processes,
 * while a thread changes the memory that they point at: fuzz PROCESSES SECONDS.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 2000, NR_MAX = 470, SHIM_FIRST = 0x1000 };

static uint64_t seed;
static char *page;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static long arg(void)
{
	switch (rnd() % 12) {
	case 0:
		return 0;
	case 1:
		return (long)(rnd() % 8);
	case 2:
		return (long)page + (long)(rnd() % 4096);
	case 3:
		return -1;
	case 4:
		return (long)rnd();
	case 5:
		return 4096;
	case 6:
		return -100;
	case 7:
		return (long)page + 4096 - 8;
	case 8:
		return (long)(1UL << (rnd() % 64));
	case 9:
		return (long)(rnd() % 65536);
	case 10:
		return (long)(0x100000 + rnd() % 0x4000);
	default:
		return (long)page;
	}
}

static void *race(void *unused)
{
	for (;;)
		((volatile uint64_t *)page)[rnd() % 512] = rnd() % 3 ? rnd() % 256 : rnd();
	return NULL;
}

static int left_out(long nr)
{
	switch (nr) {
	case SYS_exit:
	case SYS_exit_group:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_alarm:
	case SYS_setitimer:
	case SYS_rt_sigprocmask:
	case SYS_rt_sigaction:
	case SYS_setsid:
	case SYS_vfork:
		return 1;
	default:
		return 0;
	}
}

static void one(long nr)
{
	if (nr == SYS_kill || nr == SYS_tkill || nr == SYS_tgkill) {
		if (rnd() % 10 == 0)
			syscall(nr, getpid(), getpid(), rnd() % 65);
		return;
	}
	if (nr == SYS_fork || nr == SYS_clone || nr == SYS_clone3) {
		if (rnd() % 20 == 0 && syscall(nr, arg() & ~0x100L, 0, arg(), arg(), arg()) == 0)
			_exit(0);
		return;
	}
	syscall(nr, arg(), arg(), arg(), arg(), arg(), arg());
}

static void child(unsigned round)
{
	pthread_t t;

	seed = (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid() * 7919 + round + 1;
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || setgid(1000) < 0 || setuid(1000) < 0)
		_exit(1);
	mprotect(page + 4096, 4096, PROT_NONE);
	for (int i = 0; i < 512; i++)
		((uint64_t *)page)[i] = rnd() % 4 ? rnd() % 300 : rnd();
	for (int sig = 1; sig < 65; sig++)
		if (sig != SIGKILL && sig != SIGSTOP && sig != SIGALRM)
			signal(sig, rnd() % 2 ? SIG_IGN : SIG_DFL);
	if (rnd() % 3 == 0)
		pthread_create(&t, NULL, race, NULL);
	memcpy(page + 256, rnd() % 2 ? "/tmp/ff\0" : "/proc/1\0", 8);
	alarm(3);
	for (int i = 0; i < CALLS; i++) {
		long nr = rnd() % 20 == 0 ? SHIM_FIRST + (long)(rnd() % 9) : (long)(rnd() % NR_MAX);

		if (!left_out(nr))
			one(nr);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	int width = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 4;
	time_t end = time(NULL) + (argc > 2 ? strtol(argv[2], NULL, 10) : 5);
	unsigned rounds = 0;
	int alive = 0, st;

	while (time(NULL) < end) {
		while (alive < width) {
			pid_t p = fork();

			if (p < 0)
				break;
			if (!p)
				child(rounds);
			alive++;
			rounds++;
		}
		if (waitpid(-1, &st, 0) > 0)
			alive--;
		else
			alive = 0;
	}
	kill(-1, SIGKILL);
	printf("still here after %s rounds\n", rounds > 3 ? "some" : "no");
	return 0;
}
