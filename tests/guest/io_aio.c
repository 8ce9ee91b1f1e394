/* SPDX-License-Identifier: Apache-2.0 */
/* io_setup and its family: contexts, operations, events. */
#include "io.h"

#include <linux/aio_abi.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

static aio_context_t ctx;
static struct iocb cb[8],
	*list[8] = { &cb[0], &cb[1], &cb[2], &cb[3], &cb[4], &cb[5], &cb[6], &cb[7] };
static struct io_event ev[8];

static long setup(unsigned n)
{
	return syscall(SYS_io_setup, n, &ctx);
}

static long submit(long n)
{
	return syscall(SYS_io_submit, ctx, n, list);
}

static long events(long least, long most, struct timespec *ts)
{
	return syscall(SYS_io_getevents, ctx, least, most, ev, ts);
}

static void ask(int i, int op, int fd, const void *buf, size_t len, long off)
{
	cb[i] = (struct iocb){ .aio_lio_opcode = (uint16_t)op,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uint64_t)buf,
		.aio_nbytes = len,
		.aio_offset = off,
		.aio_data = (uint64_t)(100 + i) };
}

static void one(const char *what)
{
	if (say_n(what, submit(1)) == 1 && say_n("events", events(1, 8, NULL)) == 1)
		printf("    %lld %lld %d\n", (long long)ev[0].data, (long long)ev[0].res,
			ev[0].obj == (uint64_t)list[0]);
}

CASE(contexts)
{
	aio_context_t none = 0, other = 0;

	R(syscall(SYS_io_setup, 0, &none));
	R(syscall(SYS_io_setup, -1, &none));
	R(syscall(SYS_io_setup, 1, BADP));
	R(setup(8));
	R(setup(8));
	R(syscall(SYS_io_setup, 8, &other));
	say_is("two", ctx && other && ctx != other);
	R(syscall(SYS_io_destroy, other));
	R(syscall(SYS_io_destroy, other));
	R(syscall(SYS_io_destroy, 0));
	R(syscall(SYS_io_submit, other, 1, list));
	R(syscall(SYS_io_getevents, other, 0, 1, ev, NULL));
	R(syscall(SYS_io_cancel, ctx, NULL, ev));
	R(syscall(SYS_io_cancel, ctx, &cb[0], ev));
	fflush(stdout);
	int pid = fork();
	if (pid == 0)
		_exit(syscall(SYS_io_destroy, ctx) == 0);
	R(io_reap(pid));
	R(syscall(SYS_io_destroy, ctx));
}

CASE(reads_and_writes)
{
	char buf[16] = "", a[4] = "", b[4] = "";
	struct iovec v[2] = { { a, 3 }, { b, 3 } };
	int p[2], fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	NEED(setup(8));
	ask(0, IOCB_CMD_PWRITE, fd, "hello world", 11, 5);
	one("pwrite");
	ask(0, IOCB_CMD_PREAD, fd, buf, 16, 5);
	one("pread");
	say_bytes("got", buf, 11);
	ask(0, IOCB_CMD_PREADV, fd, v, 2, 5);
	one("preadv");
	say_bytes("a", a, 3);
	say_bytes("b", b, 3);
	ask(0, IOCB_CMD_PWRITEV, fd, v, 2, 0);
	one("pwritev");
	ask(0, IOCB_CMD_FSYNC, fd, NULL, 0, 0);
	one("fsync");
	ask(0, IOCB_CMD_FDSYNC, fd, NULL, 0, 0);
	one("fdsync");
	ask(0, IOCB_CMD_PREAD, fd, buf, 16, 100);
	one("behind the end");
	need("pipe", pipe(p));
	ask(0, IOCB_CMD_PREAD, p[0], buf, 16, 0);
	cb[0].aio_rw_flags = 8; /* RWF_NOWAIT */
	one("nothing there");
	need("write", write(p[1], "in a pipe", 9));
	one("something");
	ask(0, IOCB_CMD_PREAD, fd, buf, 4, 0);
	cb[0].aio_rw_flags = 1 << 30;
	one("a flag that nobody knows");
	R(lseek(fd, 0, SEEK_CUR));
	cat("f");
}

CASE(submit_errors)
{
	char buf[16];
	int fd = need_fd("f", open("f", O_WRONLY | O_CREAT, 0600));

	NEED(setup(8));
	R(submit(-1));
	R(submit(0));
	R(syscall(SYS_io_submit, ctx, 1, BADP));
	list[0] = BADP;
	R(submit(1));
	list[0] = &cb[0];
	ask(0, IOCB_CMD_PREAD, 99, buf, 4, 0);
	one("no file");
	ask(0, IOCB_CMD_PREAD, fd, buf, 4, 0);
	one("not for reading");
	ask(0, 77, fd, buf, 4, 0);
	one("no operation");
	ask(0, IOCB_CMD_PWRITE, fd, buf, 4, -1);
	one("before the start");
	ask(0, IOCB_CMD_PWRITE, fd, buf, (size_t)-4, 0);
	one("too many");
	ask(0, IOCB_CMD_PWRITE, fd, BADP, 4, 0);
	one("no memory");
	ask(0, IOCB_CMD_FSYNC, fd, buf, 0, 0);
	one("fsync with a buffer");
	ask(0, IOCB_CMD_PWRITE, fd, buf, 4, 0);
	cb[0].aio_reserved2 = 1;
	one("reserved");
	ask(0, IOCB_CMD_PWRITE, fd, buf, 4, 0);
	ask(1, IOCB_CMD_PWRITE, 99, buf, 4, 0);
	R(submit(2));
	R(events(0, 8, NULL));
}

CASE(many_and_their_order)
{
	struct timespec soon = { 0, 20000000 }, none = { 0, 0 };
	char text[8] = "abcdefg";
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	NEED(setup(8));
	for (int i = 0; i < 8; i++)
		ask(i, IOCB_CMD_PWRITE, fd, &text[i], 1, i);
	R(submit(7));
	R(events(3, 3, NULL));
	R(events(3, 8, NULL));
	R(events(0, 8, NULL));
	R(events(1, 8, &none));
	R(events(1, 8, &soon));
	R(events(-1, 8, NULL));
	R(events(9, 8, NULL));
	R(submit(1));
	R(syscall(SYS_io_getevents, ctx, 1, 1, BADP, NULL));
	R(events(1, 1, NULL));
	cat("f");
}

CASE(an_eventfd_is_told)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)), e = need_fd("e", eventfd(0, 0));
	uint64_t n = 0;

	NEED(setup(8));
	for (int i = 0; i < 3; i++) {
		ask(i, IOCB_CMD_PWRITE, fd, "x", 1, i);
		cb[i].aio_flags = IOCB_FLAG_RESFD;
		cb[i].aio_resfd = (uint32_t)e;
	}
	R(submit(3));
	R(read(e, &n, 8));
	printf("%d\n", (int)n);
	cb[0].aio_resfd = (uint32_t)fd;
	R(submit(1));
	cb[0].aio_resfd = 99;
	R(submit(1));
}

static void *writes(void *fd)
{
	static struct iocb w;
	struct iocb *l = &w;

	w = (struct iocb){ .aio_lio_opcode = IOCB_CMD_PWRITE,
		.aio_fildes = (uint32_t)(long)fd,
		.aio_buf = (uint64_t) "y",
		.aio_nbytes = 1 };
	syscall(SYS_io_submit, ctx, 1, &l);
	return NULL;
}

CASE(one_waits_for_another)
{
	long fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));
	pthread_t t;

	NEED(setup(8));
	NEED(pthread_create(&t, NULL, writes, (void *)fd) ? -1 : 0);
	R(events(1, 1, NULL));
	pthread_join(t, NULL);
	cat("f");
}

static void nothing(int sig)
{
}

CASE(a_signal_ends_the_wait)
{
	struct sigaction a = { .sa_handler = nothing };
	struct itimerspec soon = { .it_value = { 0, 5000000 } };
	sigset_t set, empty;
	struct {
		const sigset_t *set;
		size_t size;
	} mask = { &empty, 8 };
	timer_t timer;

	sigemptyset(&empty);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaction(SIGALRM, &a, NULL);
	NEED(setup(8));
	NEED(timer_create(CLOCK_MONOTONIC, NULL, &timer));
	NEED(timer_settime(timer, 0, &soon, NULL));
	R(events(1, 1, NULL));
	sigprocmask(SIG_BLOCK, &set, NULL);
	NEED(timer_settime(timer, 0, &soon, NULL));
	R(syscall(SYS_io_pgetevents, ctx, 1, 1, ev, NULL, &mask));
	mask.size = 4;
	R(syscall(SYS_io_pgetevents, ctx, 1, 1, ev, NULL, &mask));
}
