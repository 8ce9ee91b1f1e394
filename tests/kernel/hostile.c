/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/hostile.c - what a guest can try against the kernel tier itself. Each attempt runs
 * in a child; the program says how it ended and must still be there at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHIM 0x100000UL
#define SHIM_LEN 0x3000UL
#define SLOTS 0x7d0000000000UL
#define TABLE 0x50f0000UL
#define AGE 0x50ff000UL

static void nothing(int sig)
{
}

static long int80(long nr, long arg)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(nr), "b"(arg)
			 : "memory", "r8", "r9", "r10", "r11");
	return r;
}

static int old_door(void)
{
	return int80(20 /* getpid */, 0) == -ENOSYS && int80(1 /* exit */, 7) == -ENOSYS ? 0 : 1;
}

static int x32_numbers(void)
{
	return syscall(0x40000000 | SYS_getpid) == -1 && errno == ENOSYS ? 0 : 1;
}

/* Every syscall instruction of the shim, with arguments that it would never use. */
static long jump(uintptr_t at, long nr, long a, long b, long c)
{
	long r;

	/* The code after it returns somewhere of its own choosing; a fault ends the child. */
	__asm__ volatile(
		"call *%5"
		: "=a"(r)
		: "a"(nr), "D"(a), "S"(b), "d"(c), "r"(at)
		: "rcx", "r8", "r9", "r10", "r11", "rbx", "r12", "r13", "r14", "r15", "memory");
	return r;
}

static int into_the_shim(void)
{
	static const struct {
		long nr, a, b, c;
	} calls[] = {
		{ SYS_clone, 0x10000000 /* NEWUSER */, 0, 0 },
		{ SYS_prctl, 4 /* SET_DUMPABLE */, 0, 0 },
		{ SYS_socket, AF_INET, SOCK_STREAM, 0 },
		{ SYS_open, 0, 0, 0 },
		{ SYS_ptrace, 0, 0, 0 },
		{ SYS_exit_group, 3, 0, 0 },
		{ SYS_close_range, 0, ~0u, 0 },
		{ SYS_rt_sigreturn, 0, 0, 0 },
	};
	unsigned char *code = (unsigned char *)SHIM;
	int tried = 0;

	for (unsigned long i = 0; i < SHIM_LEN - 1; i++) {
		if (code[i] != 0x0f || code[i + 1] != 0x05)
			continue;
		for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
			pid_t p = fork();
			int st;

			if (!p) {
				alarm(1);
				jump(SHIM + i, calls[k].nr, calls[k].a, calls[k].b, calls[k].c);
				_exit(0);
			}
			if (p < 0 || waitpid(p, &st, 0) != p)
				return 2;
			tried++;
		}
	}
	return tried ? 0 : 1;
}

static int forged_calls(void)
{
	for (long nr = 0x1000; nr < 0x1010; nr++) {
		for (int i = 0; i < 20; i++) {
			pid_t p = fork();
			int st;

			if (!p) {
				alarm(1);
				syscall(nr, (long)i, SLOTS, -1L, i * 7919L);
				syscall(nr, getppid(), -i, 0, 0);
				_exit(0);
			}
			if (p < 0 || waitpid(p, &st, 0) != p)
				return 2;
		}
	}
	return 0;
}

static int without_shim(void)
{
	signal(SIGUSR1, nothing);
	munmap((void *)SHIM, 0x4000);
	raise(SIGUSR1);
	return 0;
}

static int over_the_shim(void)
{
	signal(SIGUSR1, nothing);
	if (mmap((void *)SHIM, 0x4000, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return 1;
	memset((void *)SHIM, 0x90, 0x4000);
	raise(SIGUSR1);
	return 0;
}

static int without_slots(void)
{
	signal(SIGUSR1, nothing);
	munmap((void *)SLOTS, 0x8000UL * 8192);
	raise(SIGUSR1);
	fork();
	return 0;
}

static int write_through_proc(void)
{
	int fd = open("/proc/self/mem", O_RDWR);
	char junk[64];

	memset(junk, 0xcc, sizeof(junk));
	if (fd >= 0 && pwrite(fd, junk, sizeof(junk), SHIM + 64) < 0)
		return 0;
	raise(SIGUSR1);
	return 0;
}

static int forged_frame(void)
{
	uint64_t garbage[128];

	memset(garbage, 0x5a, sizeof(garbage));
	__asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall\n" : : "r"(garbage) : "memory");
	return 0;
}

static int bad_stack(void)
{
	signal(SIGUSR1, nothing);
	pid_t me = getpid();

	__asm__ volatile("mov %0, %%edi\n mov $10, %%esi\n mov $62, %%eax\n mov $0x1000, %%rsp\n "
			 "syscall\n ud2\n"
			 :
			 : "r"((int)me)
			 : "memory");
	return 0;
}

static int racing_arguments(void)
{
	char *path = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t p = fork();

	if (!p)
		for (;;) {
			memcpy(path, "/etc/passwd", 12);
			memset(path, '/', 4096);
		}
	for (int i = 0; i < 3000; i++) {
		int fd = open(path, O_RDONLY);

		if (fd >= 0)
			close(fd);
	}
	kill(p, SIGKILL);
	return 0;
}

static int native_descriptors(void)
{
	/* A mapped file has a host copy at its number; nothing native may use it. */
	int fd = open("/proc/self/exe", O_RDONLY);
	char c;

	if (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 1;
	close(fd);
	return read(fd, &c, 1) == -1 && errno == EBADF ? 0 : 2;
}

/* Answers in place: is the site changed after it was used often? (Not an attack.) */
static int ask_often(void)
{
	char b[8];
	const unsigned char *site;
	long r = 0;

	for (int i = 0; i < 50; i++) {
		__asm__ volatile("lea 1f(%%rip), %1\n"
				 "1: mov $89, %%eax\n"
				 "syscall\n"
				 : "=&a"(r), "=&r"(site)
				 : "D"("/"), "S"(b), "d"(8L)
				 : "rcx", "r11", "memory");
	}
	return r == -EINVAL ? site[0] != 0xff : 2;
}

static int change_the_age(void)
{
	ask_often();
	return mprotect((void *)AGE, 4096, PROT_READ | PROT_WRITE) == 0;
}

/* Whatever lies there is the guest's own trouble. */
static int forged_answers(void)
{
	unsigned seed = 1;

	for (int round = 0; round < 20; round++) {
		pid_t p = fork();

		if (!p) {
			ask_often();
			for (unsigned long at = TABLE + 0x400; at < AGE; at++) {
				seed = seed * 1103515245 + 12345 + (unsigned)round;
				*(volatile unsigned char *)at = (unsigned char)(seed >> 16);
			}
			_exit(ask_often());
		}
		waitpid(p, NULL, 0);
	}
	return getpid() > 1 ? 0 : 1;
}

static int without_table(void)
{
	munmap((void *)TABLE, AGE + 4096 - TABLE);
	return ask_often() == 1 ? 0 : 1;
}

static const struct {
	const char *name;
	int (*run)(void);
} attempts[] = {
	{ "old door", old_door },
	{ "x32 numbers", x32_numbers },
	{ "into the shim", into_the_shim },
	{ "forged calls", forged_calls },
	{ "without shim", without_shim },
	{ "over the shim", over_the_shim },
	{ "without slots", without_slots },
	{ "write through proc", write_through_proc },
	{ "forged frame", forged_frame },
	{ "bad stack", bad_stack },
	{ "racing arguments", racing_arguments },
	{ "native descriptors", native_descriptors },
	{ "change the age", change_the_age },
	{ "forged answers", forged_answers },
	{ "without table", without_table },
	{ "not in place", ask_often },
};

/* All, or the one that is named. */
int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		pid_t p;
		int st = -1;

		if (argc > 1 && strcmp(argv[1], attempts[i].name))
			continue;
		fflush(stdout);
		p = fork();
		if (!p)
			_exit(attempts[i].run());
		waitpid(p, &st, 0);
		if (WIFEXITED(st))
			printf("%s: %d\n", attempts[i].name, WEXITSTATUS(st));
		else
			printf("%s: signal %d\n", attempts[i].name, WTERMSIG(st));
	}
	puts("still here");
	return 0;
}
