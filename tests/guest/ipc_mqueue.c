/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX message queues, by the raw calls. */
#include "io.h"

#include <mqueue.h>

#define NAME "ward-guest-mq"

CASE(basics)
{
	struct mq_attr a = { 0, 3, 16, 0, { 0 } };
	unsigned prio;
	char b[64];

	syscall(SYS_mq_unlink, NAME);
	R(syscall(SYS_mq_open, NAME, O_RDWR, 0, NULL));
	int q = (int)syscall(SYS_mq_open, NAME, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &a);
	B(q >= 0);
	R(syscall(SYS_mq_open, NAME, O_RDWR | O_CREAT | O_EXCL, 0600, &a));
	R(syscall(SYS_mq_timedreceive, q, b, 64, &prio, NULL));
	io_show_poll("empty", q);
	R(syscall(SYS_mq_timedsend, q, "low", 4, 1, NULL));
	R(syscall(SYS_mq_timedsend, q, "high", 5, 9, NULL));
	R(syscall(SYS_mq_timedsend, q, "low2", 5, 1, NULL));
	R(syscall(SYS_mq_timedsend, q, "full", 5, 1, NULL));
	io_show_poll("full", q);
	R(syscall(SYS_mq_getsetattr, q, NULL, &a));
	printf("%ld %ld %ld %ld\n", a.mq_flags & O_NONBLOCK ? 1L : 0L, a.mq_maxmsg, a.mq_msgsize,
		a.mq_curmsgs);
	for (int i = 0; i < 3; i++) {
		R(syscall(SYS_mq_timedreceive, q, b, 64, &prio, NULL));
		printf("%s %u\n", b, prio);
	}
	R(syscall(SYS_mq_timedreceive, q, b, 8, &prio, NULL));
	R(syscall(SYS_mq_timedsend, q, b, 17, 1, NULL));
	R(syscall(SYS_mq_timedsend, q, b, 1, 32768, NULL));
	R(syscall(SYS_mq_timedsend, 999, b, 1, 1, NULL));
	R(syscall(SYS_mq_timedsend, 0, b, 1, 1, NULL));
	R(syscall(SYS_mq_timedsend, q, BADP, 1, 1, NULL));
	R(syscall(SYS_mq_unlink, NAME));
	R(syscall(SYS_mq_unlink, NAME));
	R(syscall(SYS_mq_unlink, ""));
	R(syscall(SYS_mq_open, "a/b", O_RDWR | O_CREAT, 0600, NULL));
	a = (struct mq_attr){ 0, 0, 16, 0, { 0 } };
	R(syscall(SYS_mq_open, NAME, O_RDWR | O_CREAT, 0600, &a));
}

CASE(waits)
{
	struct mq_attr a = { 0, 1, 16, 0, { 0 } };
	struct timespec ts;
	char b[16];

	syscall(SYS_mq_unlink, NAME);
	int q = (int)syscall(SYS_mq_open, NAME, O_RDWR | O_CREAT, 0600, &a);
	syscall(SYS_mq_unlink, NAME);
	clock_gettime(CLOCK_REALTIME, &ts);
	R(syscall(SYS_mq_timedreceive, q, b, 16, NULL, &ts));
	ts.tv_nsec = -1;
	R(syscall(SYS_mq_timedreceive, q, b, 16, NULL, &ts));
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(30);
		syscall(SYS_mq_timedsend, q, "x", 1, 0, NULL);
		_exit(0);
	}
	R(syscall(SYS_mq_timedreceive, q, b, 16, NULL, NULL));
	io_reap(c);
	R(syscall(SYS_mq_timedsend, q, "x", 1, 0, NULL));
	fflush(stdout);
	c = fork();
	if (c == 0) {
		char d[16];
		io_nap(30);
		syscall(SYS_mq_timedreceive, q, d, 16, NULL, NULL);
		_exit(0);
	}
	R(syscall(SYS_mq_timedsend, q, "y", 1, 0, NULL));
	io_reap(c);
}

CASE(notify)
{
	struct mq_attr a = { 0, 4, 16, 0, { 0 } };
	struct sigevent ev;

	syscall(SYS_mq_unlink, NAME);
	int q = (int)syscall(SYS_mq_open, NAME, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &a);
	syscall(SYS_mq_unlink, NAME);
	io_on(SIGUSR1, 0);
	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = SIGEV_SIGNAL;
	ev.sigev_signo = SIGUSR1;
	R(syscall(SYS_mq_notify, q, &ev));
	R(syscall(SYS_mq_notify, q, &ev));
	R(syscall(SYS_mq_timedsend, q, "x", 1, 0, NULL));
	printf("signals %d\n", io_signals);
	R(syscall(SYS_mq_timedsend, q, "x", 1, 0, NULL));
	printf("signals %d\n", io_signals);
	R(syscall(SYS_mq_notify, q, NULL));
	R(syscall(SYS_mq_notify, 999, NULL));
}

/* SIGEV_THREAD as the kernel has it: 32 bytes to a netlink socket, the last one says why. */
CASE(notify_by_socket)
{
	struct mq_attr attr = { .mq_maxmsg = 2, .mq_msgsize = 8 };
	int q = (int)syscall(SYS_mq_open, "guest-notify", O_CREAT | O_RDWR, 0600, &attr);
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0), other = dup(1);
	char cookie[32] = "0123456789abcdef0123456789abcde", buf[64];
	struct {
		void *value;
		int signo, notify, pad[12];
	} ev = { cookie, s, 2 /* SIGEV_THREAD */, { 0 } };

	syscall(SYS_mq_unlink, "guest-notify");
	NEED(q);
	R(syscall(SYS_mq_notify, q, &ev));
	R(syscall(SYS_mq_notify, q, &ev));
	R(syscall(SYS_mq_timedsend, q, "x", 1, 0, NULL));
	R(recv(s, buf, sizeof(buf), 0));
	B(memcmp(buf, cookie, 31) == 0);
	R(buf[31]);
	R(syscall(SYS_mq_notify, q, &ev));
	R(syscall(SYS_mq_notify, q, NULL));
	R(recv(s, buf, sizeof(buf), 0));
	R(buf[31]);
	ev.signo = 999;
	R(syscall(SYS_mq_notify, q, &ev));
	ev.signo = other;
	R(syscall(SYS_mq_notify, q, &ev));
	ev.value = BADP;
	R(syscall(SYS_mq_notify, q, &ev));
}
