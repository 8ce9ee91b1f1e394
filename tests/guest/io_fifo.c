/* SPDX-License-Identifier: Apache-2.0 */
/* Named pipes: who waits for whom at open, and what is left when an end goes. */
#include "io.h"

static void make(void)
{
	char d[] = "/tmp/fifoXXXXXX";

	if (!mkdtemp(d) || chdir(d) < 0)
		_exit(9);
	NEED(mkfifo("f", 0644));
}

static void unmake(void)
{
	char d[256];

	unlink("f");
	if (getcwd(d, sizeof(d)))
		rmdir(d);
}

CASE(nonblocking_open)
{
	make();
	R(mkfifo("f", 0600));
	R(open("f", O_WRONLY | O_NONBLOCK));
	int r = open("f", O_RDONLY | O_NONBLOCK);
	B(r >= 0);
	char c;
	R(read(r, &c, 1)); /* no writer: end of file, not EAGAIN */
	io_show_poll("r, never a writer", r);
	int w = open("f", O_WRONLY | O_NONBLOCK);
	B(w >= 0);
	R(read(r, &c, 1));
	R(write(w, "abc", 3));
	io_show_poll("r", r);
	close(w);
	io_show_poll("r, writer gone", r);
	R(read(r, &c, 1));
	w = open("f", O_WRONLY);
	B(w >= 0);
	R(read(r, &c, 1));
	close(r);
	signal(SIGPIPE, SIG_IGN);
	R(write(w, "x", 1));
	close(w);
	unmake();
}

CASE(both_ways)
{
	make();
	int f = open("f", O_RDWR);
	B(f >= 0);
	R(write(f, "abc", 3));
	char b[4];
	R(read(f, b, 4));
	io_show_poll("rw", f);
	struct stat st;
	R(fstat(f, &st));
	B(S_ISFIFO(st.st_mode));
	R(lseek(f, 0, SEEK_SET));
	close(f);
	/* What nobody read is gone with the last descriptor. */
	f = open("f", O_RDWR | O_NONBLOCK);
	R(write(f, "abc", 3));
	close(f);
	f = open("f", O_RDWR | O_NONBLOCK);
	R(read(f, b, 4));
	unmake();
}

CASE(open_waits)
{
	make();
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(50);
		int w = open("f", O_WRONLY);
		write(w, "late", 4);
		_exit(0);
	}
	int r = open("f", O_RDONLY);
	B(r >= 0);
	char b[8];
	R(read(r, b, 8));
	R(read(r, b, 8));
	io_reap(c);
	close(r);
	c = fork();
	if (c == 0) {
		io_nap(50);
		int rr = open("f", O_RDONLY);
		char x;
		_exit(read(rr, &x, 1) == 1 ? 0 : 1);
	}
	int w = open("f", O_WRONLY);
	B(w >= 0);
	R(write(w, "y", 1));
	R(io_reap(c));
	unmake();
}

CASE(open_interrupted)
{
	make();
	io_on(SIGUSR1, 0);
	pid_t c = io_kick(SIGUSR1, 50);
	R(open("f", O_RDONLY));
	io_reap(c);
	c = io_kick(SIGUSR1, 50);
	R(open("f", O_WRONLY));
	io_reap(c);
	unmake();
}
