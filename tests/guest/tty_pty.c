/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-terminals: lines, raw mode, echo, signals, sessions, hang-up. */
#include "io.h"

#include <sys/ioctl.h>
#include <termios.h>

static int m, s;

static void open_pair(void)
{
	char name[64];
	int n, unlock = 0;

	m = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	NEED(m);
	NEED(ioctl(m, TIOCSPTLCK, &unlock));
	NEED(ioctl(m, TIOCGPTN, &n));
	snprintf(name, sizeof(name), "/dev/pts/%d", n);
	s = open(name, O_RDWR | O_NOCTTY);
	NEED(s);
}

static void show(const char *what, int fd)
{
	char b[256];
	struct pollfd p = { fd, POLLIN, 0 };
	ssize_t n = poll(&p, 1, 50) > 0 ? read(fd, b, sizeof(b)) : -2;

	if (n == -2)
		printf("%s: nothing\n", what);
	else if (n < 0)
		printf("%s: %s\n", what, errno_name(errno));
	else
		say_bytes(what, b, (size_t)n);
}

CASE(names)
{
	char buf[64] = "";
	struct stat st;
	int n = -1, lock = -1;

	m = posix_openpt(O_RDWR | O_NOCTTY);
	B(m >= 0);
	R(isatty(m));
	R(ioctl(m, TIOCGPTN, &n));
	B(n >= 0);
	B(ptsname(m) != NULL);
	snprintf(buf, sizeof(buf), "/dev/pts/%d", n);
	B(strcmp(ptsname(m), buf) == 0);
	R(open(buf, O_RDWR | O_NOCTTY)); /* locked */
	R(grantpt(m));
	R(unlockpt(m));
	R(stat(buf, &st));
	B(S_ISCHR(st.st_mode));
	s = open(buf, O_RDWR | O_NOCTTY);
	B(s >= 0);
	R(isatty(s));
	char tn[64] = "";
	R(ttyname_r(s, tn, sizeof(tn)));
	B(strcmp(tn, buf) == 0);
	R(ioctl(s, TIOCGPTN, &n));
	R(ioctl(m, TIOCSPTLCK, BADP));
	(void)lock;
	close(s);
	close(m);
	R(stat(buf, &st));
}

CASE(termios_defaults)
{
	struct termios t;

	open_pair();
	R(tcgetattr(s, &t));
	printf("%x %x %x %x\n", t.c_iflag, t.c_oflag, t.c_cflag, t.c_lflag);
	printf("%d %d %d %d %d %d\n", t.c_cc[VINTR], t.c_cc[VQUIT], t.c_cc[VERASE], t.c_cc[VKILL],
		t.c_cc[VEOF], t.c_cc[VMIN]);
	B(cfgetospeed(&t) == B38400);
	R(ioctl(s, TCGETS, BADP));
	R(ioctl(s, TCSETS, BADP));
	R(ioctl(s, 0x54ff, 0));
	int p[2];
	NEED(pipe(p));
	R(ioctl(p[0], TCGETS, &t));
	R(isatty(p[0]));
	struct winsize w = { 1, 2, 3, 4 };
	R(ioctl(s, TIOCGWINSZ, &w));
	printf("%d %d\n", w.ws_row, w.ws_col);
	w = (struct winsize){ 24, 80, 0, 0 };
	R(ioctl(m, TIOCSWINSZ, &w));
	memset(&w, 0, sizeof(w));
	R(ioctl(s, TIOCGWINSZ, &w));
	printf("%d %d\n", w.ws_row, w.ws_col);
}

CASE(lines)
{
	open_pair();
	R(write(m, "hello\n", 6));
	show("slave", s);
	show("echo", m);
	R(write(m, "par", 3));
	show("slave", s);
	R(write(m, "tX\177\n", 4));
	show("slave", s);
	show("echo", m);
	R(write(m, "one\ntwo\n", 8));
	show("slave", s);
	show("slave", s);
	R(write(m, "gone\025kept\r", 10));
	show("slave", s);
	R(write(m, "eof\004", 4));
	show("slave", s);
	R(write(m, "\004", 1));
	show("slave", s);
	io_nap(20); /* the host moves bytes to the other side a little later */
	show("echoes", m);
	R(write(s, "out\n", 4));
	show("master", m);
	int n = -1;
	R(write(m, "abc\n", 4));
	io_nap(20);
	R(ioctl(s, FIONREAD, &n));
	printf("%d\n", n);
	R(tcflush(s, TCIFLUSH));
	R(ioctl(s, FIONREAD, &n));
	printf("%d\n", n);
	io_show_poll("slave", s);
	io_show_poll("master", m);
}

CASE(echo_forms)
{
	struct termios t;

	open_pair();
	R(write(m, "a\002b\n", 4));
	show("control", m);
	show("slave", s);
	tcgetattr(s, &t);
	t.c_lflag &= ~(tcflag_t)ECHOCTL;
	R(tcsetattr(s, TCSANOW, &t));
	R(write(m, "\002\n", 2));
	show("control", m);
	t.c_lflag &= ~(tcflag_t)ECHO;
	R(tcsetattr(s, TCSANOW, &t));
	R(write(m, "quiet\n", 6));
	show("none", m);
	t.c_lflag |= ECHO | ECHOCTL;
	t.c_oflag &= ~(tcflag_t)OPOST;
	R(tcsetattr(s, TCSAFLUSH, &t));
	R(write(m, "raw out\n", 8));
	show("no post", m);
	show("slave", s);
	R(write(m, "word two\027x\n", 11));
	show("word erase", m);
	show("slave", s);
	R(write(m, "\026\003\n", 3));
	show("literal", m);
	show("slave", s);
	R(write(m, "ab\022c\n", 5));
	show("reprint", m);
}

CASE(raw)
{
	struct termios t;
	char b[16];

	open_pair();
	tcgetattr(s, &t);
	cfmakeraw(&t);
	R(tcsetattr(s, TCSANOW, &t));
	R(write(m, "x\003\r", 3));
	show("slave", s);
	show("no echo", m);
	R(write(s, "a\nb", 3));
	show("master", m);
	t.c_cc[VMIN] = 0;
	t.c_cc[VTIME] = 0;
	tcsetattr(s, TCSANOW, &t);
	R(read(s, b, 16));
	t.c_cc[VTIME] = 1;
	tcsetattr(s, TCSANOW, &t);
	long t0 = io_now_ms();
	R(read(s, b, 16));
	B(io_now_ms() - t0 >= 90);
	R(write(m, "q", 1));
	R(read(s, b, 16));
	t.c_cc[VMIN] = 3;
	t.c_cc[VTIME] = 0;
	tcsetattr(s, TCSANOW, &t);
	R(write(m, "12", 2));
	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		io_nap(30);
		write(m, "34", 2);
		_exit(0);
	}
	R(read(s, b, 16));
	io_reap(p);
	fcntl(s, F_SETFL, O_NONBLOCK);
	R(read(s, b, 16));
	R(write(m, "5", 1));
	R(read(s, b, 16));
}

CASE(flow)
{
	open_pair();
	R(write(m, "\023", 1));
	io_nap(20);
	fcntl(s, F_SETFL, O_NONBLOCK);
	R(write(s, "x", 1));
	io_show_poll("stopped", s);
	R(write(m, "\021", 1));
	io_nap(20);
	R(write(s, "y", 1));
	show("master", m);
	R(tcflow(s, TCOOFF));
	R(write(s, "z", 1));
	R(tcflow(s, TCOON));
	R(write(s, "z", 1));
	show("master", m);
	R(ioctl(s, TCXONC, 99));
	R(ioctl(s, TCFLSH, 99));
}

/* A session of its own on the terminal; reports through a pipe. */
static void in_session(void (*fn)(void))
{
	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		setsid();
		if (ioctl(s, TIOCSCTTY, 0) < 0)
			printf("TIOCSCTTY: %s\n", errno_name(errno));
		fn();
		fflush(stdout);
		_exit(0);
	}
	int st;
	waitpid(p, &st, 0);
	if (WIFSIGNALED(st))
		printf("session killed by %d\n", WTERMSIG(st));
}

static void session_calls(void)
{
	pid_t p;

	R(tcgetpgrp(s) == getpgrp());
	R(tcgetsid(s) == getpid());
	B(open("/dev/tty", O_RDWR) >= 0);
	R(tcsetpgrp(s, 99999));
	R(ioctl(s, TIOCSPGRP, BADP));
	R(ioctl(s, TIOCSCTTY, 0));
	p = fork();
	if (p == 0) {
		setpgid(0, 0);
		pause();
		_exit(0);
	}
	setpgid(p, p);
	R(tcsetpgrp(s, p));
	B(tcgetpgrp(s) == p);
	signal(SIGTTOU, SIG_IGN);
	R(tcsetpgrp(s, getpgrp()));
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
	signal(SIGHUP, SIG_IGN);
	R(ioctl(s, TIOCNOTTY));
	R(open("/dev/tty", O_RDWR));
	R(tcgetpgrp(s));
}

CASE(sessions)
{
	open_pair();
	R(tcgetpgrp(s));
	R(tcgetsid(s));
	in_session(session_calls);
}

static void keyboard(void)
{
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	write(m, "lost\003", 5);
	sigwait(&set, &sig);
	printf("%d\n", sig);
	show("echo", m); /* each by itself: the next signal may flush what is still on its way */
	write(m, "\034", 1);
	sigwait(&set, &sig);
	printf("%d\n", sig);
	show("echo", m);
	write(m, "\032", 1);
	sigwait(&set, &sig);
	printf("%d\n", sig);
	struct winsize w = { 10, 20, 0, 0 };
	ioctl(m, TIOCSWINSZ, &w);
	sigwait(&set, &sig);
	printf("%d\n", sig);
	int n = -1;
	ioctl(s, FIONREAD, &n);
	printf("left %d\n", n);
	show("echo", m);
}

CASE(signals)
{
	open_pair();
	in_session(keyboard);
}

static void background(void)
{
	int st;
	pid_t p = fork();

	if (p == 0) {
		char b;
		setpgid(0, 0);
		signal(SIGTTIN, SIG_DFL);
		read(s, &b, 1);
		_exit(0);
	}
	setpgid(p, p);
	R(waitpid(p, &st, WUNTRACED) == p);
	printf("stopped %d by %d\n", WIFSTOPPED(st), WIFSTOPPED(st) ? WSTOPSIG(st) : 0);
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
	p = fork();
	if (p == 0) {
		char b;
		setpgid(0, 0);
		signal(SIGTTIN, SIG_IGN);
		errno = 0;
		read(s, &b, 1);
		_exit(errno);
	}
	waitpid(p, &st, 0);
	printf("ignoring: %s\n", errno_name(WEXITSTATUS(st)));
	p = fork();
	if (p == 0) {
		struct termios t;
		setpgid(0, 0);
		tcgetattr(s, &t);
		tcsetattr(s, TCSANOW, &t);
		_exit(0);
	}
	R(waitpid(p, &st, WUNTRACED) == p);
	printf("stopped %d by %d\n", WIFSTOPPED(st), WIFSTOPPED(st) ? WSTOPSIG(st) : 0);
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
}

CASE(job_control)
{
	open_pair();
	in_session(background);
}

static void wait_hup(void)
{
	close(m);
	pause();
}

CASE(hangup)
{
	char b[4];
	open_pair();
	int keep = m;
	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		setsid();
		ioctl(s, TIOCSCTTY, 0);
		close(m);
		wait_hup();
		_exit(0);
	}
	io_nap(50);
	close(keep);
	int st;
	waitpid(p, &st, 0);
	printf("killed by %d\n", WIFSIGNALED(st) ? WTERMSIG(st) : 0);
	R(read(s, b, 4));
	R(write(s, "x", 1));
	io_show_poll("slave", s);
	R(ioctl(s, TIOCGWINSZ, b));
}

CASE(slave_closed)
{
	char b[8];

	open_pair();
	R(write(s, "bye", 3));
	close(s);
	R(read(m, b, 8));
	R(read(m, b, 8));
	io_show_poll("master", m);
}

CASE(packet_mode)
{
	int one = 1;
	char b[16];

	open_pair();
	R(ioctl(m, TIOCPKT, &one));
	R(write(s, "data", 4));
	R(read(m, b, 16));
	printf("%d\n", b[0]);
	R(tcflush(s, TCIFLUSH));
	R(read(m, b, 16));
	printf("%d\n", b[0] & 1);
}

/* Their names are nobody's to make or take. */
CASE(names_stay)
{
	char name[64];
	int at;

	NEED(at = posix_openpt(O_RDWR | O_NOCTTY));
	NEED(ptsname_r(at, name, sizeof(name)) ? -1 : 0);
	R(unlink(name));
	R(mkdir("/dev/pts/dir", 0700));
	R(symlink("x", "/dev/pts/link"));
	R(access(name, F_OK));
	close(at);
	R(access(name, F_OK));
}
