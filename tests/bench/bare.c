/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/bare.c - what a seccomp notification costs here when nobody does anything with it.
 *
 * Owns:  a child whose getppid(2) it answers.
 * Rules: the floor under every call that the kernel tier's own process answers: receive and send,
 *        on the same CPU where the host can arrange that. kernel.py prints it beside that tier's
 *        cheapest call.
 *
 *   ward-bare BUDGET_MS   nanoseconds for one call, sample by sample, tab-separated
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { BATCH = 500, SAMPLES_MAX = 2000, BUDGET_MAX_MS = 10000, SYNC_WAKE_UP = 1 };
#define SET_FLAGS SECCOMP_IOW(4, __u64)

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "ward-bare: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int listen_to_getppid(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(f[0]), f };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

static void measure(uint64_t budget_ns)
{
	uint64_t end = now_ns() + budget_ns;

	for (int i = 0; i < SAMPLES_MAX && now_ns() < end; i++) {
		uint64_t began = now_ns();

		for (int n = 0; n < BATCH; n++)
			syscall(SYS_getppid);
		printf("%s%.1f", i ? "\t" : "", (double)(now_ns() - began) / BATCH);
	}
	printf("\n");
	fflush(stdout);
}

/* Until the last one that could call is gone. */
static void answer(int listener)
{
	ioctl(listener, SET_FLAGS, SYNC_WAKE_UP); /* older hosts: slower */
	for (;;) {
		struct seccomp_notif n = { 0 };
		struct seccomp_notif_resp r = { 0 };

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0) {
			if (errno == ENOENT)
				return;
			continue;
		}
		r.id = n.id;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
	}
}

int main(int argc, char **argv)
{
	long budget_ms = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	int go[2], listener, status = 0;
	pid_t pid;

	if (budget_ms < 1 || budget_ms > BUDGET_MAX_MS) {
		fprintf(stderr, "usage: ward-bare BUDGET_MS\n");
		return 1;
	}
	if (pipe(go) < 0)
		die("pipe");
	/* Whoever forks has the filter too, so the one that answers is the older of the two: it
	 * gets the listener through the table of descriptors that they share for a moment. */
	pid = (pid_t)syscall(SYS_clone, 0x400 /* CLONE_FILES */ | 17 /* SIGCHLD */, 0, 0, 0, 0);
	if (pid < 0)
		die("clone");
	if (pid == 0) {
		listener = listen_to_getppid();
		if (write(go[1], &listener, sizeof(listener)) != sizeof(listener) || listener < 0)
			_exit(1);
		measure((uint64_t)budget_ms * 1000000u);
		_exit(0);
	}
	if (read(go[0], &listener, sizeof(listener)) != sizeof(listener) || listener < 0) {
		errno = EPERM;
		die("a filter with a listener");
	}
	answer(listener);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		die("the child");
	return 0;
}
