/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes: sizes, atomicity, packets, ends, errors, poll. */
#include "io.h"

#include <limits.h>
#include <pthread.h>
#include <sys/uio.h>

CASE(errors)
{
	int p[2];

	R(pipe2(p, 0x12345));
	R(syscall(SYS_pipe2, BADP, 0));
	R(syscall(SYS_pipe, BADP));
	NEED(pipe(p));
	char c = 0;
	R(read(p[1], &c, 1));
	R(write(p[0], &c, 1));
	R(lseek(p[0], 0, SEEK_CUR));
	R(pread(p[0], &c, 1, 0));
	R(pwrite(p[1], &c, 1, 0));
	R(write(p[1], BADP, 1));
	R(write(p[1], &c, 1));
	R(read(p[0], BADP, 1));
	R(ftruncate(p[1], 0));
	R(fsync(p[1]));
	R(fallocate(p[1], 0, 0, 1));
	R(write(p[1], BADP, 0));
	R(read(p[0], &c, 0));
}

CASE(stat_and_flags)
{
	struct stat st;
	int p[2];

	NEED(pipe2(p, O_NONBLOCK | O_CLOEXEC));
	R(fstat(p[0], &st));
	B(S_ISFIFO(st.st_mode));
	printf("mode %o size %ld nlink %ld\n", st.st_mode & 07777, (long)st.st_size,
		(long)st.st_nlink);
	R(fcntl(p[0], F_GETFD));
	B(fcntl(p[0], F_GETFL) == O_NONBLOCK);
	B(fcntl(p[1], F_GETFL) == (O_NONBLOCK | O_WRONLY));
	char c;
	R(read(p[0], &c, 1));
	R(fcntl(p[0], F_SETFL, 0));
	B(fcntl(p[0], F_GETFL) == 0);
}

CASE(capacity)
{
	static char buf[1 << 20];
	int p[2];

	NEED(pipe2(p, O_NONBLOCK));
	R(fcntl(p[0], F_GETPIPE_SZ));
	R(write(p[1], buf, sizeof(buf)));
	R(write(p[1], buf, 1));
	R(fcntl(p[0], F_SETPIPE_SZ, 4096));
	R(fcntl(p[0], F_SETPIPE_SZ, 131072));
	R(write(p[1], buf, sizeof(buf)));
	int n = -1;
	R(ioctl(p[0], FIONREAD, &n));
	printf("queued %d\n", n);
	R(read(p[0], buf, sizeof(buf)));
	R(fcntl(p[0], F_SETPIPE_SZ, 1));
	R(fcntl(p[0], F_SETPIPE_SZ, 5000));
	R(fcntl(p[0], F_SETPIPE_SZ, 0));
	R(fcntl(p[0], F_SETPIPE_SZ, -1));
	R(fcntl(p[0], F_SETPIPE_SZ, 1 << 20));
	R(fcntl(0x7fff, F_GETPIPE_SZ));
}

CASE(atomic_writes)
{
	static char buf[65536];
	int p[2];

	NEED(pipe2(p, O_NONBLOCK));
	NEED(fcntl(p[1], F_SETPIPE_SZ, 8192));
	R(write(p[1], buf, 4097));
	R(write(p[1], buf, 4096)); /* does not fit as a whole */
	R(write(p[1], buf, 5000)); /* longer than PIPE_BUF: part of it */
	R(read(p[0], buf, 4096));
	R(write(p[1], buf, 4096));
	io_show_poll("w", p[1]);
}

CASE(closed_ends)
{
	int p[2];
	char c = 'x';

	signal(SIGPIPE, SIG_IGN);
	NEED(pipe(p));
	R(write(p[1], "abc", 3));
	close(p[1]);
	io_show_poll("r with data", p[0]);
	char b[8];
	R(read(p[0], b, 8));
	R(read(p[0], b, 8));
	io_show_poll("r", p[0]);
	close(p[0]);
	NEED(pipe(p));
	close(p[0]);
	io_show_poll("w", p[1]);
	R(write(p[1], &c, 1));
	R(write(p[1], &c, 0));
	io_on(SIGPIPE, 0);
	R(write(p[1], &c, 1));
	printf("signals %d\n", io_signals);
}

CASE(sigpipe_kills)
{
	int p[2];

	NEED(pipe(p));
	close(p[0]);
	write(p[1], "x", 1);
}

CASE(poll_states)
{
	static char buf[65536];
	int p[2];

	NEED(pipe2(p, O_NONBLOCK));
	io_show_poll("empty r", p[0]);
	io_show_poll("empty w", p[1]);
	R(write(p[1], "x", 1));
	io_show_poll("one r", p[0]);
	io_show_poll("one w", p[1]);
	R(write(p[1], buf, 65536));
	io_show_poll("full r", p[0]);
	io_show_poll("full w", p[1]);
	R(read(p[0], buf, 100));
	io_show_poll("a little w", p[1]);
	R(read(p[0], buf, 4096));
	io_show_poll("a page w", p[1]);
}

CASE(packets)
{
	char b[100];
	int p[2];

	NEED(pipe2(p, O_DIRECT | O_NONBLOCK));
	R(write(p[1], "hello", 5));
	R(write(p[1], "world!", 6));
	R(read(p[0], b, 3)); /* the rest of the packet is lost */
	R(read(p[0], b, 100));
	R(read(p[0], b, 100));
	static char big[10000];
	R(write(p[1], big, 10000)); /* three packets */
	static char in[10000];
	R(read(p[0], in, 10000));
	R(read(p[0], in, 10000));
	R(read(p[0], in, 10000));
}

CASE(vectors)
{
	char a[3], b[5];
	struct iovec in[2] = { { a, 3 }, { b, 5 } };
	struct iovec out[3] = { { (char *)"ab", 2 }, { (char *)"", 0 }, { (char *)"cdefg", 5 } };
	int p[2];

	NEED(pipe2(p, O_NONBLOCK));
	R(writev(p[1], out, 3));
	R(readv(p[0], in, 2));
	printf("%.3s %.4s\n", a, b);
	R(writev(p[1], out, -1));
	R(writev(p[1], out, 1025));
	R(writev(p[1], out, 0));
	R(writev(p[1], BADP, 2));
	out[1].iov_base = BADP;
	out[1].iov_len = 1;
	R(writev(p[1], out, 3)); /* what came before the bad one */
	R(read(p[0], b, 5));
	out[0].iov_len = (size_t)-1;
	R(writev(p[1], out, 1));
}

CASE(blocking_read)
{
	char b[4];
	int p[2];

	NEED(pipe(p));
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(30);
		write(p[1], "hey", 3);
		_exit(0);
	}
	R(read(p[0], b, 4));
	R(io_reap(c));
}

CASE(blocking_write)
{
	static char buf[300000];
	int p[2];

	NEED(pipe(p));
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		long sum = 0, n;
		close(p[1]);
		while ((n = read(p[0], buf, 7001)) > 0)
			sum += n;
		_exit(sum == 300000 ? 0 : 1);
	}
	close(p[0]);
	R(write(p[1], buf, 300000));
	close(p[1]);
	R(io_reap(c));
}

CASE(interrupted)
{
	char b[4];
	int p[2];

	NEED(pipe(p));
	io_on(SIGUSR1, 0);
	pid_t c = io_kick(SIGUSR1, 50);
	R(read(p[0], b, 4));
	io_reap(c);
	io_on(SIGUSR1, SA_RESTART);
	fflush(stdout);
	pid_t me = getpid();
	c = fork();
	if (c == 0) {
		io_nap(50);
		kill(me, SIGUSR1);
		io_nap(50);
		write(p[1], "ok", 2);
		_exit(0);
	}
	R(read(p[0], b, 4));
	io_reap(c);
	printf("signals %d\n", io_signals);
	/* A write that moved something says how much. */
	static char big[100000];
	io_on(SIGUSR1, 0);
	c = io_kick(SIGUSR1, 50);
	R(write(p[1], big, 100000));
	io_reap(c);
	c = io_kick(SIGUSR1, 50);
	R(write(p[1], big, 1));
	io_reap(c);
}

CASE(last_writer_wakes)
{
	char b;
	int p[2];

	NEED(pipe(p));
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(30);
		_exit(0);
	}
	close(p[1]);
	R(read(p[0], &b, 1));
	io_reap(c);
}

CASE(many_writers)
{
	/* PIPE_BUF bytes at a time never mix. */
	int p[2];
	static char b[PIPE_BUF];

	NEED(pipe(p));
	fflush(stdout);
	for (int i = 0; i < 4; i++) {
		if (fork() == 0) {
			memset(b, 'a' + i, sizeof(b));
			for (int k = 0; k < 50; k++)
				write(p[1], b, sizeof(b));
			_exit(0);
		}
	}
	close(p[1]);
	int mixed = 0, total = 0;
	for (;;) {
		size_t have = 0;
		while (have < sizeof(b)) {
			ssize_t n = read(p[0], b + have, sizeof(b) - have);
			if (n <= 0)
				break;
			have += (size_t)n;
		}
		if (have < sizeof(b))
			break;
		total++;
		for (size_t i = 1; i < sizeof(b); i++)
			mixed |= b[i] != b[0];
	}
	while (wait(NULL) > 0)
		;
	printf("blocks %d mixed %d\n", total, mixed);
}

CASE(async_signal)
{
	siginfo_t info = { 0 };
	struct timespec soon = { 20, 0 };
	sigset_t set;
	int p[2];

	NEED(pipe(p));
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGIO);
	NEED(sigprocmask(SIG_BLOCK, &set, NULL));
	R(fcntl(p[0], F_GETOWN));
	R(fcntl(p[0], F_SETOWN, getpid()));
	R(fcntl(p[0], F_SETFL, O_ASYNC));
	R(write(p[1], "x", 1));
	R(sigtimedwait(&set, &info, &soon) == SIGIO);
	R(fcntl(p[0], F_SETSIG, SIGUSR1));
	R(write(p[1], "x", 1));
	R(sigtimedwait(&set, &info, &soon) == SIGUSR1);
	R(info.si_code == POLL_IN && info.si_fd == p[0]);
	R(fcntl(p[0], F_SETFL, 0));
	R(write(p[1], "x", 1));
	soon.tv_sec = 0;
	R(sigtimedwait(&set, &info, &soon));
}

CASE(reopen_by_proc)
{
	char path[64];
	char b[4];
	int p[2];

	NEED(pipe(p));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p[0]);
	int w = open(path, O_WRONLY);
	B(w >= 0);
	R(write(w, "via", 3));
	R(read(p[0], b, 4));
	char link[64] = "";
	B(readlink(path, link, sizeof(link) - 1) > 0);
	B(strncmp(link, "pipe:[", 6) == 0);
}

CASE(reopen_without_partner)
{
	char path[64], b[4];
	int p[2];

	NEED(pipe(p));
	write(p[1], "abc", 3);
	close(p[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p[0]);
	int r = open(path, O_RDONLY); /* never waits for a writer */
	B(r >= 0);
	R(read(r, b, 4));
	R(read(r, b, 4));
	io_show_poll("r", r);
}

static void *writes_much(void *arg)
{
	static char much[2 * 65536];
	static long n;

	n = write(*(int *)arg, much, sizeof(much));
	return &n;
}

CASE(closed_under_a_writer)
{
	static char b[4096];
	pthread_t writer;
	void *wrote;
	long n, all = 0;
	int p[2], held = 0;

	NEED(pipe(p));
	NEED(-pthread_create(&writer, NULL, writes_much, &p[1]));
	while (held < 65536) { /* then it waits for room */
		NEED(ioctl(p[0], FIONREAD, &held));
		io_nap(1);
	}
	R(close(p[1])); /* who waits there has the pipe still */
	while ((n = read(p[0], b, sizeof(b))) > 0)
		all += n;
	NEED(-pthread_join(writer, &wrote));
	printf("wrote %ld, read %ld and %ld\n", *(long *)wrote, all, n);
}
