/* SPDX-License-Identifier: Apache-2.0 */
/* splice, tee, vmsplice, sendfile: bytes between descriptors. */
#include "io.h"

#include <sys/sendfile.h>
#include <sys/uio.h>

static int p[2], q[2];

static int file_with(const char *text)
{
	put("f", text);
	return need_fd("f", open("f", O_RDWR));
}

CASE(splice_errors)
{
	off_t off = 0;
	int f = file_with("hello");

	NEED(pipe2(p, O_NONBLOCK));
	NEED(pipe2(q, O_NONBLOCK));
	R(splice(f, NULL, f, NULL, 5, 0));
	R(splice(p[0], &off, f, NULL, 5, 0));
	R(splice(f, NULL, p[1], &off, 5, 0));
	R(splice(999, NULL, p[1], NULL, 5, 0));
	R(splice(f, NULL, 999, NULL, 5, 0));
	R(splice(f, NULL, p[0], NULL, 5, 0));
	R(splice(p[1], NULL, q[1], NULL, 5, 0));
	R(splice(p[0], NULL, p[1], NULL, 5, 0));
	R(splice(f, NULL, p[1], NULL, 5, 0x100));
	R(splice(f, NULL, p[1], NULL, 0, 0));
	R(splice(p[0], NULL, q[1], NULL, 5, 0));
	R(splice(f, BADP, p[1], NULL, 5, 0));
}

CASE(splice_moves)
{
	char b[16];
	off_t off = 1;
	int f = file_with("hello");

	NEED(pipe2(p, O_NONBLOCK));
	NEED(pipe2(q, O_NONBLOCK));
	R(splice(f, &off, p[1], NULL, 3, 0));
	R(off);
	R(lseek(f, 0, SEEK_CUR));
	R(splice(p[0], NULL, q[1], NULL, 2, 0));
	R(read(p[0], b, 16));
	R(read(q[0], b, 16));
	say_bytes("moved", b, 2);
	R(splice(f, NULL, p[1], NULL, 100, 0));
	R(splice(f, NULL, p[1], NULL, 100, 0));
	R(lseek(f, 0, SEEK_CUR));
	int g = need_fd("g", open("g", O_RDWR | O_CREAT, 0600));
	R(splice(p[0], NULL, g, NULL, 100, 0));
	cat("g");
	close(p[1]);
	R(splice(p[0], NULL, g, NULL, 100, 0));
}

CASE(tee_copies)
{
	char b[16];

	NEED(pipe2(p, O_NONBLOCK));
	NEED(pipe2(q, O_NONBLOCK));
	R(tee(p[0], q[1], 10, 0));
	write(p[1], "twice", 5);
	R(tee(p[0], q[1], 3, 0));
	R(read(p[0], b, 16));
	R(read(q[0], b, 16));
	R(tee(p[0], p[1], 1, 0));
	R(tee(0x7f, q[1], 1, 0));
	int f = file_with("x");
	R(tee(f, q[1], 1, 0));
	R(tee(p[0], q[1], 0, 0));
}

CASE(vmsplice_both_ways)
{
	char b[8], out[8];
	struct iovec v = { out, 5 };

	NEED(pipe2(p, O_NONBLOCK));
	memcpy(out, "guest", 5); /* stays as it is: the host may keep the page itself */
	R(vmsplice(p[1], &v, 1, 0));
	v.iov_base = b;
	R(vmsplice(p[0], &v, 1, 0));
	say_bytes("back", b, 5);
	R(vmsplice(p[0], &v, 1, SPLICE_F_NONBLOCK));
	int f = file_with("x");
	R(vmsplice(f, &v, 1, 0));
	R(vmsplice(p[1], &v, 2000, 0));
	R(vmsplice(p[1], &v, 0, 0));
}

CASE(sendfile_to_a_socket)
{
	char b[16];
	off_t off = 2;
	int f = file_with("0123456789"), s[2];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	R(sendfile(s[0], f, &off, 4));
	R(off);
	R(recv(s[1], b, 16, 0));
	say_bytes("got", b, 4);
	R(sendfile(s[0], f, NULL, 100));
	R(recv(s[1], b, 16, 0));
	R(sendfile(s[0], f, NULL, 100));
	R(sendfile(s[0], s[1], NULL, 1));
	R(sendfile(f, 999, NULL, 1));
	off = -1;
	R(sendfile(s[0], f, &off, 1));
	close(s[1]);
	lseek(f, 0, SEEK_SET);
	signal(SIGPIPE, SIG_IGN);
	R(sendfile(s[0], f, NULL, 1));
}

CASE(sendfile_of_much)
{
	static char b[65536];
	int f = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)), s[2];
	long sum = 0, n;

	for (int i = 0; i < 40; i++)
		write(f, b, sizeof(b));
	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		off_t off = 0;
		close(s[1]);
		while (off < 40 * 65536 && sendfile(s[0], f, &off, 40 * 65536 - (size_t)off) > 0)
			;
		_exit(off == 40 * 65536 ? 0 : 1);
	}
	close(s[0]);
	while ((n = read(s[1], b, sizeof(b))) > 0)
		sum += n;
	printf("%ld\n", sum);
	R(io_reap(c));
}
