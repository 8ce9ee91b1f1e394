/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-terminals: what is typed ahead, what is flushed, and who is left when a leader goes. */
#include "io.h"

#include <sys/ioctl.h>
#include <termios.h>

static int m, s;

static void open_pair(tcflag_t without)
{
	char name[64];
	int n, unlock = 0;
	struct termios t;

	NEED(m = open("/dev/ptmx", O_RDWR | O_NOCTTY));
	NEED(ioctl(m, TIOCSPTLCK, &unlock));
	NEED(ioctl(m, TIOCGPTN, &n));
	snprintf(name, sizeof(name), "/dev/pts/%d", n);
	NEED(s = open(name, O_RDWR | O_NOCTTY));
	NEED(tcgetattr(s, &t));
	t.c_lflag &= ~without;
	NEED(tcsetattr(s, TCSANOW, &t));
}

/* A write that must not wait. */
static void type(char c, size_t n)
{
	char b[8192];

	memset(b, c, sizeof(b));
	NEED(fcntl(m, F_SETFL, O_RDWR | O_NONBLOCK));
	R(write(m, b, n));
	R(write(m, "\n", 1));
}

/* Lines that have no room yet wait before the line discipline, and are cut there. */
CASE(typed_ahead)
{
	char b[8192];

	open_pair(ECHO);
	for (int i = 0; i < 2; i++)
		type((char)('a' + i), 4100);
	for (int i = 0; i < 2; i++) {
		R(read(s, b, sizeof(b)));
		printf("%c%c %d\n", b[0], b[4094], b[4095]);
	}
	type('d', 3);
	R(read(s, b, sizeof(b)));
}

static long read_all(size_t n)
{
	char b[4096];
	size_t done = 0;
	ssize_t r;

	while (done < n && (r = read(s, b, sizeof(b))) > 0)
		done += (size_t)r;
	return (long)done;
}

CASE(typed_ahead_raw)
{
	open_pair(ECHO | ICANON);
	type('r', 8000);
	R(read_all(8001));
}

/* Half a character is not erased: nobody could say what of it is on the screen. */
CASE(half_a_character)
{
	struct termios t;
	char b[16];
	ssize_t n;

	open_pair(ECHO);
	NEED(tcgetattr(s, &t));
	t.c_iflag |= IUTF8;
	NEED(tcsetattr(s, TCSANOW, &t));
	R(write(m, "\x80\x7f\n", 3));
	n = read(s, b, sizeof(b));
	say_bytes("the rest of one", b, n > 0 ? (size_t)n : 0);
	R(write(m, "\x80\x80\x15\n", 4));
	n = read(s, b, sizeof(b));
	say_bytes("a line of them", b, n > 0 ? (size_t)n : 0);
	R(write(m, "a\xc3\xa4\x7f\n", 5));
	n = read(s, b, sizeof(b));
	say_bytes("a whole one", b, n > 0 ? (size_t)n : 0);
}

/* A process of a session whose leader is gone has its terminal still. */
CASE(leader_gone)
{
	char b[16];
	int st, go[2];
	pid_t leader;

	open_pair(ECHO);
	NEED(pipe(go));
	fflush(stdout);
	NEED(leader = fork());
	if (leader == 0) {
		signal(SIGHUP, SIG_IGN);
		setsid();
		if (ioctl(s, TIOCSCTTY, 0) < 0)
			_exit(1);
		if (fork() == 0) {
			read(go[0], b, 1); /* until the leader is gone */
			write(s, "here", 4);
			_exit(0);
		}
		_exit(7);
	}
	NEED(waitpid(leader, &st, 0));
	printf("leader: %d\n", WIFEXITED(st) ? WEXITSTATUS(st) : -1);
	R(write(go[1], "x", 1));
	R(read(m, b, 4));
	R(ioctl(s, TIOCGSID, b));
	R(write(m, "in\n", 3));
	R(read(s, b, sizeof(b)));
	/* And it can be another session's. */
	fflush(stdout);
	NEED(leader = fork());
	if (leader == 0) {
		setsid();
		_exit(ioctl(s, TIOCSCTTY, 0) < 0 ? errno : 0);
	}
	NEED(waitpid(leader, &st, 0));
	printf("the next: %d\n", WIFEXITED(st) ? WEXITSTATUS(st) : -1);
}

CASE(not_the_masters)
{
	int st;
	pid_t p;

	open_pair(0);
	fflush(stdout);
	NEED(p = fork());
	if (p == 0) {
		signal(SIGHUP, SIG_IGN);
		setsid();
		R(ioctl(s, TIOCSCTTY, 0));
		R(ioctl(m, TIOCNOTTY));
		R(ioctl(s, TIOCNOTTY));
		R(ioctl(s, TIOCNOTTY));
		fflush(stdout);
		_exit(0);
	}
	NEED(waitpid(p, &st, 0));
}

/* What the master flushes is no news for it. */
CASE(flushed_by_the_master)
{
	int one = 1;

	open_pair(ECHO | ICANON);
	NEED(ioctl(m, TIOCPKT, &one));
	R(ioctl(m, TCFLSH, TCIFLUSH));
	R(io_poll(m, POLLIN | POLLPRI));
	R(ioctl(m, TCFLSH, TCOFLUSH));
	R(io_poll(m, POLLIN | POLLPRI));
	R(ioctl(m, TCFLSH, 9));
	R(ioctl(s, TCFLSH, TCIOFLUSH));
	R(io_poll(m, POLLIN | POLLPRI));
}
