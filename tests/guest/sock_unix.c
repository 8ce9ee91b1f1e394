/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets: names, streams, datagrams, packets, descriptors, credentials. */
#include "io.h"

#include <stddef.h>
#include <sys/un.h>
#include <sys/uio.h>

static socklen_t name(struct sockaddr_un *a, const char *path)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	if (path[0] == '@') {
		memcpy(a->sun_path + 1, path + 1, strlen(path + 1));
		return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	}
	memcpy(a->sun_path, path, strlen(path));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
}

static int bound(int type, const char *path)
{
	struct sockaddr_un a;
	int s = socket(AF_UNIX, type, 0);

	NEED(s);
	NEED(bind(s, (void *)&a, name(&a, path)));
	return s;
}

static int dial(int s, const char *path)
{
	struct sockaddr_un a;

	return connect(s, (void *)&a, name(&a, path));
}

CASE(create_errors)
{
	int s[2];

	R(socket(AF_UNIX, 99, 0));
	R(socket(AF_UNIX, SOCK_STREAM, 77));
	R(socket(999, SOCK_STREAM, 0));
	R(socket(AF_UNIX, SOCK_STREAM | 0x100000, 0));
	R(socketpair(AF_UNIX, SOCK_STREAM, 0, BADP));
	R(socketpair(AF_INET, SOCK_STREAM, 0, s));
	R(socketpair(999, SOCK_STREAM, 0, s));
	OK(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	R(socketpair(AF_UNIX, SOCK_RDM, 0, s));
	R(bind(999, BADP, 2));
	R(bind(0, BADP, 2));
	R(listen(0, 1));
	R(accept(0, NULL, NULL));
	R(connect(999, BADP, 1));
	R(getsockname(0, BADP, BADP));
	R(shutdown(0, 0));
	R(setsockopt(0, SOL_SOCKET, SO_REUSEADDR, BADP, 4));
	R(send(0, "x", 1, 0));
	R(recv(999, BADP, 1, 0));
}

CASE(path_names)
{
	struct sockaddr_un a, b;
	socklen_t len = sizeof(b);
	struct stat st;
	int s = bound(SOCK_STREAM, "sock"), t = socket(AF_UNIX, SOCK_STREAM, 0);

	R(stat("sock", &st));
	B(S_ISSOCK(st.st_mode));
	printf("%o\n", st.st_mode & 0777);
	R(getsockname(s, (void *)&b, &len));
	printf("%u %s\n", (unsigned)len, b.sun_path);
	R(bind(s, (void *)&a, name(&a, "other")));
	R(bind(t, (void *)&a, name(&a, "sock")));
	R(bind(t, (void *)&a, name(&a, "no/sock")));
	R(bind(t, (void *)&a, 1));
	R(bind(t, (void *)&a, 200));
	R(dial(t, "nothing"));
	R(dial(t, "sock"));
	put("file", "x");
	R(dial(t, "file"));
	R(listen(t, 1));
	R(listen(s, 1));
	R(dial(t, "sock"));
	len = 2;
	R(getpeername(t, (void *)&b, &len));
	printf("%u\n", (unsigned)len);
	int c = accept(s, (void *)&b, &len);
	B(c >= 0);
	printf("%u %d\n", (unsigned)len, b.sun_family);
	R(open("sock", O_RDWR));
	close(s);
	int u = socket(AF_UNIX, SOCK_STREAM, 0);
	R(dial(u, "sock"));
	R(unlink("sock"));
	R(dial(u, "sock"));
}

CASE(abstract_names)
{
	struct sockaddr_un a;
	socklen_t len;
	int s = bound(SOCK_STREAM, "@ward-test-1"), t = socket(AF_UNIX, SOCK_STREAM, 0);

	R(bind(t, (void *)&a, name(&a, "@ward-test-1")));
	R(dial(t, "@ward-test-1"));
	R(listen(s, 1));
	R(dial(t, "@ward-test-1"));
	R(dial(t, "@ward-test-1"));
	len = sizeof(a);
	R(getpeername(t, (void *)&a, &len));
	printf("%u\n", (unsigned)len);
	close(s);
	s = bound(SOCK_STREAM, "@ward-test-1");
	/* a name of the kernel's choice */
	int u = socket(AF_UNIX, SOCK_DGRAM, 0);
	a.sun_family = AF_UNIX;
	R(bind(u, (void *)&a, sizeof(sa_family_t)));
	len = sizeof(a);
	R(getsockname(u, (void *)&a, &len));
	printf("%u %d\n", (unsigned)len, a.sun_path[0]);
}

CASE(stream_pair)
{
	char b[64];
	int s[2], n = 0;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	R(send(s[0], "hello", 5, 0));
	R(write(s[0], " world", 6));
	R(ioctl(s[1], FIONREAD, &n));
	printf("%d\n", n);
	R(recv(s[1], b, 3, MSG_PEEK));
	R(recv(s[1], b, 64, 0));
	R(recv(s[1], b, 64, MSG_DONTWAIT));
	io_show_poll("idle", s[0]);
	R(shutdown(s[0], SHUT_WR));
	io_show_poll("other side of a half close", s[1]);
	R(recv(s[1], b, 64, 0));
	R(send(s[1], "still", 5, 0));
	R(recv(s[0], b, 64, 0));
	R(send(s[0], "x", 1, MSG_NOSIGNAL));
	close(s[1]);
	io_show_poll("closed", s[0]);
	R(recv(s[0], b, 64, 0));
	R(send(s[0], "x", 1, MSG_NOSIGNAL));
	R(shutdown(s[0], 7));
	io_on(SIGPIPE, 0);
	R(write(s[0], "x", 1));
	printf("signals %d\n", io_signals);
}

CASE(unread_resets)
{
	char b[8];
	int s[2];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	R(send(s[0], "lost", 4, 0));
	R(send(s[1], "kept", 4, 0));
	close(s[1]);
	io_show_poll("reset", s[0]);
	R(recv(s[0], b, 8, 0));
	R(recv(s[0], b, 8, 0));
	R(recv(s[0], b, 8, 0));
}

CASE(dgram)
{
	struct sockaddr_un a;
	socklen_t len = sizeof(a);
	char b[16];
	int r = bound(SOCK_DGRAM, "rx"), s = socket(AF_UNIX, SOCK_DGRAM, 0);

	R(send(s, "x", 1, 0));
	R(sendto(s, "one", 3, 0, (void *)&a, name(&a, "nobody")));
	R(sendto(s, "one", 3, 0, (void *)&a, name(&a, "rx")));
	R(dial(s, "rx"));
	R(send(s, "", 0, 0));
	R(send(s, "three", 5, 0));
	R(recvfrom(r, b, 16, 0, (void *)&a, &len));
	printf("%u\n", (unsigned)len);
	R(recv(r, b, 16, 0));
	R(recv(r, b, 2, MSG_TRUNC));
	R(recv(r, b, 16, MSG_DONTWAIT));
	int t = bound(SOCK_DGRAM, "tx");
	R(dial(t, "rx"));
	R(send(t, "named", 5, 0));
	len = sizeof(a);
	R(recvfrom(r, b, 16, 0, (void *)&a, &len));
	printf("%s\n", a.sun_path);
	R(listen(r, 1));
	R(accept(r, NULL, NULL));
	close(r);
	R(send(t, "gone", 4, 0));
	R(send(t, "gone", 4, 0));
	int st = socket(AF_UNIX, SOCK_STREAM, 0);
	R(dial(st, "tx"));
	static char big[300000];
	R(dial(s, "tx"));
	R(send(s, big, sizeof(big), 0));
}

CASE(dgram_queue_is_short)
{
	int r = bound(SOCK_DGRAM, "rx"), s = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0), n = 0;

	R(dial(s, "rx"));
	while (n < 1000 && send(s, "x", 1, 0) == 1)
		n++;
	B(n >= 10 && n < 1000);
	printf("%s\n", errno_name(errno));
	io_show_poll("full", s);
	char c;
	R(recv(r, &c, 1, 0));
	io_show_poll("room", s);
	fcntl(s, F_SETFL, 0);
	R(send(s, "y", 1, 0));
	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		io_nap(30);
		recv(r, &c, 1, 0);
		_exit(0);
	}
	R(send(s, "z", 1, 0)); /* waits */
	io_reap(p);
}

CASE(seqpacket)
{
	char b[16];
	int s[2];

	NEED(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s));
	R(send(s[0], "one", 3, 0));
	R(send(s[0], "two2", 4, 0));
	R(recv(s[1], b, 2, 0));
	R(recv(s[1], b, 16, 0));
	R(recv(s[1], b, 16, MSG_DONTWAIT));
	close(s[0]);
	R(recv(s[1], b, 16, 0));
	R(send(s[1], "x", 1, MSG_NOSIGNAL));
	int l = bound(SOCK_SEQPACKET, "seq"), c = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	R(send(c, "x", 1, 0));
	R(recv(c, b, 1, 0));
	R(listen(l, 1));
	R(dial(c, "seq"));
	int a = accept(l, NULL, NULL);
	R(send(a, "hello", 5, 0));
	struct msghdr m = { 0 };
	struct iovec v = { b, 2 };
	m.msg_iov = &v;
	m.msg_iovlen = 1;
	R(recvmsg(c, &m, 0));
	B(m.msg_flags == MSG_TRUNC);
}

CASE(unconnected)
{
	char b[4];
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un a;
	socklen_t len = sizeof(a);

	R(recv(s, b, 1, 0));
	R(send(s, "x", 1, MSG_NOSIGNAL));
	R(getpeername(s, (void *)&a, &len));
	R(getsockname(s, (void *)&a, &len));
	printf("%u\n", (unsigned)len);
	R(listen(s, 1));
	R(accept(s, NULL, NULL));
	R(shutdown(s, SHUT_RDWR));
	io_show_poll("shut", s);
	int t = socket(AF_UNIX, SOCK_STREAM, 0);
	io_show_poll("new", t);
	R(connect(t, (void *)&a, 1));
	R(connect(t, BADP, sizeof(a)));
	memset(&a, 0, sizeof(a));
	a.sun_family = AF_INET;
	R(connect(t, (void *)&a, sizeof(a)));
}

CASE(backlog)
{
	struct sockaddr_un a;
	int l = bound(SOCK_STREAM, "l"), c[5];

	R(listen(l, 1));
	for (int i = 0; i < 4; i++) {
		c[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		R(connect(c[i], (void *)&a, name(&a, "l")));
	}
	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		io_nap(30);
		_exit(accept(l, NULL, NULL) >= 0 ? 0 : 1);
	}
	c[4] = socket(AF_UNIX, SOCK_STREAM, 0);
	R(dial(c[4], "l"));
	R(io_reap(p));
	close(l);
	char b;
	R(recv(c[1], &b, 1, 0));
}

static long send_fd(int s, int fd, const char *text)
{
	char ctl[CMSG_SPACE(sizeof(int))];
	struct iovec v = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	memset(ctl, 0, sizeof(ctl));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(s, &m, 0);
}

static long recv_fd(int s, int *fd, int *flags, size_t room)
{
	static char ctl[256], buf[64];
	struct iovec v = { buf, sizeof(buf) };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = room
	};
	long r = recvmsg(s, &m, 0);

	*fd = -1;
	*flags = m.msg_flags;
	if (r >= 0 && m.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	printf("control %d\n", (int)m.msg_controllen);
	return r;
}

CASE(descriptors)
{
	int s[2], p[2], fd, fl;
	char b[8];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	NEED(pipe(p));
	R(send_fd(s[0], p[0], "one"));
	R(send_fd(s[0], p[1], "two"));
	close(p[0]);
	close(p[1]);
	R(recv_fd(s[1], &fd, &fl, 256));
	int r = fd;
	R(recv_fd(s[1], &fd, &fl, 256));
	R(write(fd, "through", 7));
	R(read(r, b, 8));
	R(fcntl(fd, F_GETFD));
	R(send_fd(s[0], 999, "bad"));
	/* no room for it: told, and closed */
	R(send_fd(s[0], r, "none"));
	R(recv_fd(s[1], &fd, &fl, 0));
	printf("flags %x fd %d\n", fl, fd);
	/* a plain read drops what came along */
	R(send_fd(s[0], r, "drop"));
	R(read(s[1], b, 8));
	/* the socket itself */
	R(send_fd(s[0], s[0], "self"));
	R(send_fd(s[0], s[1], "self"));
	close(s[0]);
	close(s[1]);
}

CASE(control_errors)
{
	int s[2];
	char c[64];
	struct iovec v = { (void *)(uintptr_t) "x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = c };
	struct cmsghdr *h = (void *)c;

	NEED(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
	memset(c, 0, sizeof(c));
	h->cmsg_len = 3;
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	m.msg_controllen = 24;
	R(sendmsg(s[0], &m, 0));
	h->cmsg_len = 100;
	R(sendmsg(s[0], &m, 0));
	h->cmsg_len = 16;
	h->cmsg_type = 99;
	R(sendmsg(s[0], &m, 0));
	m.msg_control = BADP;
	R(sendmsg(s[0], &m, 0));
	m.msg_control = NULL;
	m.msg_controllen = 0;
	m.msg_iovlen = 2000;
	R(sendmsg(s[0], &m, 0));
	R(sendmsg(s[0], BADP, 0));
	R(recvmsg(s[0], BADP, 0));
	m.msg_iovlen = 1;
	m.msg_iov = BADP;
	R(sendmsg(s[0], &m, 0));
	R(send(s[0], BADP, 4, 0));
}

CASE(credentials)
{
	struct ucred u;
	socklen_t len = sizeof(u);
	char ctl[128], b[8];
	struct iovec v = { b, 8 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl)
	};
	int s[2], one = 1;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	R(getsockopt(s[0], SOL_SOCKET, SO_PEERCRED, &u, &len));
	B(u.pid == getpid() && u.uid == getuid() && u.gid == getgid());
	R(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &one, 4));
	R(send(s[0], "hey", 3, 0));
	R(recvmsg(s[1], &m, 0));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	B(c && c->cmsg_type == SCM_CREDENTIALS);
	memcpy(&u, CMSG_DATA(c), sizeof(u));
	B(u.pid == getpid() && u.uid == getuid());
	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		send(s[0], "kid", 3, 0);
		_exit(0);
	}
	io_reap(p);
	send(s[0], "me", 2, 0);
	m.msg_controllen = sizeof(ctl);
	R(recvmsg(s[1], &m, 0)); /* two writers are not glued */
	memcpy(&u, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(u));
	B(u.pid == p);
	int t = socket(AF_UNIX, SOCK_STREAM, 0);
	len = sizeof(u);
	R(getsockopt(t, SOL_SOCKET, SO_PEERCRED, &u, &len));
	printf("%d %d\n", u.pid, (int)u.uid);
}

CASE(timeouts)
{
	struct timeval tv = { 0, 30000 };
	char b;
	int s[2];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	R(setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	long t0 = io_now_ms();
	R(recv(s[0], &b, 1, 0));
	B(io_now_ms() - t0 >= 29);
	R(read(s[0], &b, 1));
	tv.tv_usec = 1000000;
	R(setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	R(setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, 4));
	tv.tv_usec = 30000;
	R(setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	static char big[1 << 20];
	B(send(s[0], big, sizeof(big), 0) > 0);
	R(send(s[0], big, sizeof(big), 0));
}

CASE(waitall)
{
	char b[10];
	int s[2];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		for (int i = 0; i < 5; i++) {
			send(s[0], "ab", 2, 0);
			io_nap(5);
		}
		_exit(0);
	}
	R(recv(s[1], b, 10, MSG_WAITALL));
	io_reap(p);
	send(s[0], "abc", 3, 0);
	close(s[0]);
	R(recv(s[1], b, 10, MSG_WAITALL));
}

CASE(big_stream)
{
	static char b[65536];
	long sum = 0, n;
	int s[2];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		static char out[100000];
		close(s[1]);
		for (int i = 0; i < 100; i++)
			write(s[0], out, sizeof(out));
		_exit(0);
	}
	close(s[0]);
	while ((n = read(s[1], b, sizeof(b))) > 0)
		sum += n;
	printf("%ld\n", sum);
	R(io_reap(p));
}

CASE(mmsg)
{
	struct mmsghdr v[3];
	struct iovec io[3];
	char b[3][8];
	int s[2];

	NEED(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
	memset(v, 0, sizeof(v));
	for (int i = 0; i < 3; i++) {
		io[i] = (struct iovec){ (void *)(uintptr_t) "abc", (size_t)i + 1 };
		v[i].msg_hdr.msg_iov = &io[i];
		v[i].msg_hdr.msg_iovlen = 1;
	}
	R(sendmmsg(s[0], v, 3, 0));
	printf("%u %u %u\n", v[0].msg_len, v[1].msg_len, v[2].msg_len);
	for (int i = 0; i < 3; i++)
		io[i] = (struct iovec){ b[i], 8 };
	R(recvmmsg(s[1], v, 2, 0, NULL));
	printf("%u %u\n", v[0].msg_len, v[1].msg_len);
	R(recvmmsg(s[1], v, 3, MSG_WAITFORONE, NULL));
	R(recvmmsg(s[1], v, 3, MSG_DONTWAIT, NULL));
	R(sendmmsg(s[0], v, 0, 0));
	R(sendmmsg(999, v, 1, 0));
	struct timespec bad = { 0, -1 };
	R(recvmmsg(s[1], v, 1, 0, &bad));
}

CASE(interrupted)
{
	char b;
	int s[2];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	io_on(SIGUSR1, 0);
	pid_t p = io_kick(SIGUSR1, 30);
	R(recv(s[0], &b, 1, 0));
	io_reap(p);
	struct timeval tv = { 5, 0 };
	setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	io_on(SIGUSR1, SA_RESTART);
	p = io_kick(SIGUSR1, 30);
	R(recv(s[0], &b, 1, 0)); /* with a time-out: not restarted */
	io_reap(p);
}

/* Who has room for a byte has room for a message: the second of two that fill the buffer. */
static void fill_with(int type)
{
	static char half[1 << 20];
	int s[2], size;
	socklen_t len = sizeof(size);

	NEED(socketpair(AF_UNIX, type, 0, s));
	NEED(getsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &size, &len));
	NEED((size_t)size / 2 <= sizeof(half) ? 0 : -1);
	for (int i = 0; i < 3; i++) {
		ssize_t n = send(s[0], half, (size_t)size / 2, MSG_DONTWAIT);

		printf("%d: %s\n", i, n == size / 2 ? "whole" : io_errname(errno));
	}
	B(recv(s[1], half, sizeof(half), 0) == size / 2);
	R(send(s[0], half, 1, MSG_DONTWAIT));
}

CASE(messages_of_half_a_buffer)
{
	fill_with(SOCK_DGRAM);
	fill_with(SOCK_SEQPACKET);
}

/* Beyond what an ordinary program may ask for. */
CASE(forced_sizes)
{
	static const int names[] = { SO_RCVBUFFORCE, SO_SNDBUFFORCE };
	int p[2], v, got;
	socklen_t n = sizeof(got);

	NEED(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		v = 425985;
		R(setsockopt(p[0], SOL_SOCKET, names[i], &v, sizeof(v)));
		NEED(getsockopt(p[0], SOL_SOCKET, i ? SO_SNDBUF : SO_RCVBUF, &got, &n));
		B(got == 2 * v);
	}
}

/* A name that was never anybody else's. */
CASE(rights_before_the_name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "sock" };
	struct stat st;
	int fd;

	NEED(fd = socket(AF_UNIX, SOCK_STREAM, 0));
	R(fchmod(fd, 0600));
	R(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	NEED(stat("sock", &st));
	printf("%o\n", st.st_mode);
	R(fchmod(fd, 0644));
	NEED(stat("sock", &st));
	printf("%o\n", st.st_mode);
}

static struct sockaddr_un abstract(const char *name, socklen_t *len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "ward-%s-%d", name, (int)getpid());
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a.sun_path + 1));
	return a;
}

CASE(names_by_kind)
{
	socklen_t n;
	struct sockaddr_un a = abstract("kind", &n);
	int stream, dgram, other;

	NEED(stream = socket(AF_UNIX, SOCK_STREAM, 0));
	NEED(dgram = socket(AF_UNIX, SOCK_DGRAM, 0));
	NEED(other = socket(AF_UNIX, SOCK_DGRAM, 0));
	R(bind(stream, (struct sockaddr *)&a, n));
	R(connect(other, (struct sockaddr *)&a, n));
	R(bind(dgram, (struct sockaddr *)&a, n));
	R(connect(other, (struct sockaddr *)&a, n));
}

/* A stream tells who sent, if that one has a name. */
CASE(sender_of_a_stream)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "l" }, from;
	socklen_t n = sizeof(a);
	char b[4];
	int l, c, s;

	NEED(l = socket(AF_UNIX, SOCK_STREAM, 0));
	NEED(bind(l, (struct sockaddr *)&a, n));
	NEED(listen(l, 1));
	NEED(c = socket(AF_UNIX, SOCK_STREAM, 0));
	NEED(connect(c, (struct sockaddr *)&a, n));
	NEED(s = accept(l, NULL, NULL));
	NEED(write(s, "one", 3));
	NEED(write(c, "two", 3));
	n = sizeof(from);
	R(recvfrom(c, b, 4, 0, (struct sockaddr *)&from, &n));
	B(n > 2 && strcmp(from.sun_path, "l") == 0);
	n = sizeof(from);
	R(recvfrom(s, b, 4, 0, (struct sockaddr *)&from, &n));
	printf("%u\n", n);
}

CASE(end_of_datagrams)
{
	char b[4];
	int p[2];

	NEED(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
	R(shutdown(p[0], SHUT_RD));
	R(recv(p[0], b, 4, MSG_DONTWAIT));
	R(recv(p[0], b, 4, 0));
	NEED(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p));
	R(shutdown(p[0], SHUT_RD));
	R(recv(p[0], b, 4, MSG_DONTWAIT));
}
