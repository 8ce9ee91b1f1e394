/* SPDX-License-Identifier: Apache-2.0 */
/* TCP and UDP over the loopback. */
#include "io.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

static struct sockaddr_in in4(const char *ip, int port)
{
	struct sockaddr_in a;

	memset(&a, 0, sizeof(a));
	a.sin_family = AF_INET;
	a.sin_port = htons((uint16_t)port);
	inet_pton(AF_INET, ip, &a.sin_addr);
	return a;
}

static int port_of(int s)
{
	struct sockaddr_in6 a;
	socklen_t len = sizeof(a);

	getsockname(s, (void *)&a, &len);
	return ntohs(a.sin6_port);
}

static int dial(int s, const char *ip, int port)
{
	struct sockaddr_in a = in4(ip, port);

	return connect(s, (void *)&a, sizeof(a));
}

static int listener(int backlog, int *port)
{
	struct sockaddr_in a = in4("127.0.0.1", 0);
	int s = socket(AF_INET, SOCK_STREAM, 0);

	NEED(s);
	NEED(bind(s, (void *)&a, sizeof(a)));
	NEED(listen(s, backlog));
	*port = port_of(s);
	return s;
}

static int unused_port(void)
{
	struct sockaddr_in a = in4("127.0.0.1", 0);
	int s = socket(AF_INET, SOCK_STREAM, 0), p;

	NEED(bind(s, (void *)&a, sizeof(a)));
	p = port_of(s);
	close(s);
	return p;
}

CASE(create)
{
	OK(socket(AF_INET, SOCK_STREAM, IPPROTO_TCP));
	OK(socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP));
	OK(socket(AF_INET6, SOCK_STREAM, 0));
	R(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	R(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
	R(socket(AF_INET, SOCK_RAW, 0));
	R(socket(AF_INET, SOCK_SEQPACKET, 0));
}

CASE(connects)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	char b[16];
	int port, l = listener(8, &port), c = socket(AF_INET, SOCK_STREAM, 0);

	io_show_poll("listening", l);
	io_show_poll("new", c);
	R(dial(c, "127.0.0.1", port));
	io_show_poll("listening", l);
	R(dial(c, "127.0.0.1", port));
	int s = accept(l, (void *)&a, &len);
	B(s >= 0);
	printf("%s %d\n", inet_ntoa(a.sin_addr), ntohs(a.sin_port) == port_of(c));
	len = sizeof(a);
	R(getpeername(c, (void *)&a, &len));
	B(ntohs(a.sin_port) == port && len == sizeof(a));
	R(send(c, "ping", 4, 0));
	R(recv(s, b, 16, 0));
	R(send(s, "pong!", 5, 0));
	R(recv(c, b, 2, 0));
	R(recv(c, b, 16, 0));
	R(shutdown(c, SHUT_WR));
	R(recv(s, b, 16, 0));
	io_show_poll("half closed", s);
	R(send(s, "late", 4, 0));
	R(recv(c, b, 16, 0));
	close(s);
	R(recv(c, b, 16, 0));
	io_show_poll("closed", c);
	R(listen(c, 1));
	R(accept(c, NULL, NULL));
}

CASE(refused)
{
	int p = unused_port(), c = socket(AF_INET, SOCK_STREAM, 0), e;
	socklen_t len = sizeof(e);

	R(dial(c, "127.0.0.1", p));
	int n = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	R(dial(n, "127.0.0.1", p));
	struct pollfd f = { n, POLLOUT, 0 };
	R(poll(&f, 1, 2000));
	io_show_poll("refused", n);
	R(getsockopt(n, SOL_SOCKET, SO_ERROR, &e, &len));
	printf("%s\n", errno_name(e));
	R(getsockopt(n, SOL_SOCKET, SO_ERROR, &e, &len));
	printf("%d\n", e);
	R(getpeername(n, (void *)&f, &len));
}

CASE(nonblocking_connect)
{
	int port, l = listener(8, &port), n = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), e;
	socklen_t len = sizeof(e);

	R(syscall(SYS_accept4, l, NULL, NULL,
		SOCK_NONBLOCK |
			0x10)); /* musl's accept4 tries again without a flag that is refused */
	R(dial(n, "127.0.0.1", port));
	struct pollfd f = { n, POLLOUT, 0 };
	R(poll(&f, 1, 2000));
	R(getsockopt(n, SOL_SOCKET, SO_ERROR, &e, &len));
	printf("%d\n", e);
	R(dial(n, "127.0.0.1", port));
	R(dial(n, "127.0.0.1", port));
	int s = accept4(l, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	B(s >= 0 && (fcntl(s, F_GETFL) & O_NONBLOCK) && fcntl(s, F_GETFD) == 1);
	fcntl(l, F_SETFL, O_NONBLOCK);
	R(accept(l, NULL, NULL));
}

CASE(addresses)
{
	struct sockaddr_in a;
	int s = socket(AF_INET, SOCK_STREAM, 0);

	a = in4("10.99.99.99", 0);
	R(bind(s, (void *)&a, sizeof(a)));
	a = in4("127.1.2.3", 0);
	R(bind(s, (void *)&a, sizeof(a)));
	R(bind(s, (void *)&a, sizeof(a)));
	R(bind(s, (void *)&a, 4));
	s = socket(AF_INET, SOCK_STREAM, 0);
	R(bind(s, (void *)&a, 4));
	R(connect(s, (void *)&a, 1));
	R(connect(s, BADP, sizeof(a)));
	a.sin_family = AF_INET6;
	R(bind(s, (void *)&a, sizeof(a)));
	R(connect(s, (void *)&a, sizeof(a)));
	int port, l = listener(1, &port);
	R(dial(s, "0.0.0.0", port)); /* here */
	(void)l;
	struct sockaddr_in b;
	socklen_t len = sizeof(b);
	R(getpeername(s, (void *)&b, &len));
	printf("%s\n", inet_ntoa(b.sin_addr));
	len = sizeof(b);
	R(getsockname(s, (void *)&b, &len));
	printf("%s\n", inet_ntoa(b.sin_addr));
}

CASE(reuse)
{
	int port, l = listener(1, &port), one = 1;
	struct sockaddr_in a = in4("127.0.0.1", port), any = in4("0.0.0.0", port);
	int s = socket(AF_INET, SOCK_STREAM, 0);

	R(bind(s, (void *)&a, sizeof(a)));
	R(bind(s, (void *)&any, sizeof(any)));
	R(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, 4));
	R(bind(s, (void *)&a, sizeof(a)));
	a = in4("127.0.0.2", port);
	R(bind(s, (void *)&a, sizeof(a)));
	close(l);
	/* two that share a port on purpose */
	int p[2];
	struct sockaddr_in q = in4("127.0.0.1", 0);
	for (int i = 0; i < 2; i++) {
		p[i] = socket(AF_INET, SOCK_STREAM, 0);
		R(setsockopt(p[i], SOL_SOCKET, SO_REUSEPORT, &one, 4));
		R(bind(p[i], (void *)&q, sizeof(q)));
		R(listen(p[i], 4));
		q = in4("127.0.0.1", port_of(p[0]));
	}
	int c = socket(AF_INET, SOCK_STREAM, 0);
	R(dial(c, "127.0.0.1", port_of(p[0])));
	B((io_poll(p[0], POLLIN) != 0) != (io_poll(p[1], POLLIN) != 0));
}

CASE(restart_a_server)
{
	int port, l = listener(1, &port), one = 1, c = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a = in4("127.0.0.1", port);

	R(dial(c, "127.0.0.1", port));
	int s = accept(l, NULL, NULL);
	close(l);
	l = socket(AF_INET, SOCK_STREAM, 0);
	R(bind(l, (void *)&a, sizeof(a))); /* a connection lives there */
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, 4);
	OK(bind(l, (void *)&a, sizeof(a)) == 0 || errno == EADDRINUSE);
	close(s);
	close(c);
}

CASE(resets)
{
	struct linger lg = { 1, 0 };
	char b[8];
	int port, l = listener(4, &port), c = socket(AF_INET, SOCK_STREAM, 0);

	dial(c, "127.0.0.1", port);
	int s = accept(l, NULL, NULL);
	R(setsockopt(s, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(s);
	R(recv(c, b, 8, 0));
	R(recv(c, b, 8, 0));
	R(send(c, "x", 1, MSG_NOSIGNAL));
	c = socket(AF_INET, SOCK_STREAM, 0);
	dial(c, "127.0.0.1", port);
	s = accept(l, NULL, NULL);
	R(send(c, "unread", 6, 0));
	io_nap(5);
	close(s);
	R(recv(c, b, 8, 0));
	c = socket(AF_INET, SOCK_STREAM, 0);
	dial(c, "127.0.0.1", port);
	s = accept(l, NULL, NULL);
	close(s);
	R(recv(c, b, 8, 0));
	R(send(c, "x", 1, MSG_NOSIGNAL));
	io_nap(5);
	R(send(c, "x", 1, MSG_NOSIGNAL));
}

CASE(unconnected)
{
	char b;
	int s = socket(AF_INET, SOCK_STREAM, 0);

	R(send(s, "x", 1, MSG_NOSIGNAL));
	R(recv(s, &b, 1, 0));
	R(shutdown(s, SHUT_RDWR));
	R(getpeername(s, BADP, BADP));
	R(accept(s, NULL, NULL));
	R(recv(s, &b, 1, MSG_OOB));
	R(listen(s, 5)); /* binds by itself */
	B(port_of(s) > 0);
	R(recv(s, &b, 1, 0));
}

CASE(options)
{
	int port, l = listener(1, &port), v, c = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len;

#define GET(level, name)                                                                           \
	do {                                                                                       \
		v = -7;                                                                            \
		len = sizeof(v);                                                                   \
		R(getsockopt(c, level, name, &v, &len));                                           \
		printf(" = %d (%u)\n", v, (unsigned)len);                                          \
	} while (0)
	GET(SOL_SOCKET, SO_TYPE);
	GET(SOL_SOCKET, SO_DOMAIN);
	GET(SOL_SOCKET, SO_PROTOCOL);
	GET(SOL_SOCKET, SO_ACCEPTCONN);
	GET(SOL_SOCKET, SO_KEEPALIVE);
	GET(SOL_SOCKET, SO_REUSEADDR);
	GET(IPPROTO_TCP, TCP_NODELAY);
	GET(IPPROTO_TCP, TCP_KEEPCNT);
	GET(IPPROTO_TCP, TCP_KEEPIDLE);
	GET(IPPROTO_TCP, TCP_KEEPINTVL);
	GET(IPPROTO_IP, IP_TTL);
	GET(IPPROTO_IP, IP_TOS);
	v = 1;
	R(setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &v, 4));
	GET(IPPROTO_TCP, TCP_NODELAY);
	v = 33;
	R(setsockopt(c, IPPROTO_TCP, TCP_KEEPIDLE, &v, 4));
	GET(IPPROTO_TCP, TCP_KEEPIDLE);
	v = 0;
	R(setsockopt(c, IPPROTO_TCP, TCP_KEEPIDLE, &v, 4));
	R(setsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &v, 2));
	R(setsockopt(c, SOL_SOCKET, SO_KEEPALIVE, BADP, 4));
	R(setsockopt(c, SOL_SOCKET, 9999, &v, 4));
	R(setsockopt(c, 9999, 1, &v, 4));
	R(setsockopt(c, SOL_SOCKET, SO_TYPE, &v, 4));
	v = 8192;
	R(setsockopt(c, SOL_SOCKET, SO_RCVBUF, &v, 4));
	GET(SOL_SOCKET, SO_RCVBUF);
	R(setsockopt(c, SOL_SOCKET, SO_SNDBUF, &v, 4));
	GET(SOL_SOCKET, SO_SNDBUF);
	struct tcp_info ti;
	len = sizeof(ti);
	memset(&ti, 0, sizeof(ti));
	R(getsockopt(l, IPPROTO_TCP, TCP_INFO, &ti, &len));
	printf("state %d\n", ti.tcpi_state);
	dial(c, "127.0.0.1", port);
	len = sizeof(ti);
	R(getsockopt(c, IPPROTO_TCP, TCP_INFO, &ti, &len));
	printf("state %d\n", ti.tcpi_state);
	len = 1;
	R(getsockopt(c, SOL_SOCKET, SO_TYPE, &v, &len));
	printf("%u\n", (unsigned)len);
	R(getsockopt(c, SOL_SOCKET, SO_TYPE, &v, BADP));
	R(getsockopt(c, SOL_SOCKET, 9999, &v, &len));
}

CASE(udp)
{
	struct sockaddr_in a = in4("127.0.0.1", 0), from;
	socklen_t len = sizeof(from);
	char b[16];
	int r = socket(AF_INET, SOCK_DGRAM, 0), s = socket(AF_INET, SOCK_DGRAM, 0);

	io_show_poll("new", s);
	R(bind(r, (void *)&a, sizeof(a)));
	a = in4("127.0.0.1", port_of(r));
	R(send(s, "x", 1, 0));
	R(sendto(s, "one", 3, 0, (void *)&a, sizeof(a)));
	R(sendto(s, "", 0, 0, (void *)&a, sizeof(a)));
	R(recvfrom(r, b, 16, 0, (void *)&from, &len));
	B(ntohs(from.sin_port) == port_of(s) && len == sizeof(from));
	R(recv(r, b, 16, 0));
	R(recv(r, b, 16, MSG_DONTWAIT));
	R(connect(s, (void *)&a, sizeof(a)));
	R(send(s, "longer one", 10, 0));
	R(recv(r, b, 4, MSG_TRUNC));
	close(r);
	R(send(s, "x", 1, 0));
	io_nap(5);
	io_show_poll("refused", s);
	R(send(s, "x", 1, 0));
	a.sin_family = AF_UNSPEC;
	R(connect(s, (void *)&a, sizeof(a)));
	R(send(s, "x", 1, 0));
	a.sin_family = AF_INET;
	a.sin_port = 0;
	R(sendto(s, "x", 1, 0, (void *)&a, sizeof(a)));
	static char big[70000];
	a.sin_port = htons(9);
	R(sendto(s, big, sizeof(big), 0, (void *)&a, sizeof(a)));
	a = in4("255.255.255.255", 9);
	R(sendto(s, "x", 1, 0, (void *)&a, sizeof(a)));
	R(listen(s, 1));
	R(shutdown(s, SHUT_RD));
}

CASE(udp_connected_filters)
{
	struct sockaddr_in a = in4("127.0.0.1", 0);
	char b[8];
	int r = socket(AF_INET, SOCK_DGRAM, 0), s = socket(AF_INET, SOCK_DGRAM, 0),
	    t = socket(AF_INET, SOCK_DGRAM, 0);

	bind(r, (void *)&a, sizeof(a));
	bind(s, (void *)&a, sizeof(a));
	a = in4("127.0.0.1", port_of(s));
	R(connect(r, (void *)&a, sizeof(a)));
	a = in4("127.0.0.1", port_of(r));
	R(sendto(t, "no", 2, 0, (void *)&a, sizeof(a)));
	R(sendto(s, "yes", 3, 0, (void *)&a, sizeof(a)));
	R(recv(r, b, 8, 0));
	R(recv(r, b, 8, MSG_DONTWAIT));
}

CASE(six)
{
	struct sockaddr_in6 a;
	socklen_t len = sizeof(a);
	char text[64], b[8];
	int l = socket(AF_INET6, SOCK_STREAM, 0), v = 9;

	memset(&a, 0, sizeof(a));
	a.sin6_family = AF_INET6;
	len = sizeof(v);
	R(getsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &v, &len));
	printf("%d\n", v);
	R(bind(l, (void *)&a, sizeof(a)));
	R(listen(l, 4));
	int port = port_of(l), c = socket(AF_INET, SOCK_STREAM, 0);
	R(dial(c, "127.0.0.1", port)); /* one socket for both */
	len = sizeof(a);
	int s = accept(l, (void *)&a, &len);
	printf("%s %u\n", inet_ntop(AF_INET6, &a.sin6_addr, text, sizeof(text)), (unsigned)len);
	R(send(s, "v4", 2, 0));
	R(recv(c, b, 8, 0));
	int c6 = socket(AF_INET6, SOCK_STREAM, 0);
	memset(&a, 0, sizeof(a));
	a.sin6_family = AF_INET6;
	a.sin6_port = htons((uint16_t)port);
	a.sin6_addr.s6_addr[15] = 1;
	R(connect(c6, (void *)&a, sizeof(a)));
	len = sizeof(a);
	s = accept(l, (void *)&a, &len);
	printf("%s\n", inet_ntop(AF_INET6, &a.sin6_addr, text, sizeof(text)));
	int only = socket(AF_INET6, SOCK_STREAM, 0);
	v = 1;
	R(setsockopt(only, IPPROTO_IPV6, IPV6_V6ONLY, &v, 4));
	memset(&a, 0, sizeof(a));
	a.sin6_family = AF_INET6;
	R(bind(only, (void *)&a, sizeof(a)));
	R(setsockopt(only, IPPROTO_IPV6, IPV6_V6ONLY, &v, 4));
	R(listen(only, 1));
	c = socket(AF_INET, SOCK_STREAM, 0);
	R(dial(c, "127.0.0.1", port_of(only)));
}

CASE(epoll_server)
{
	int port, l = listener(128, &port);

	fflush(stdout);
	for (int k = 0; k < 4; k++) {
		if (fork() == 0) {
			int bad = 0;
			for (int i = 0; i < 25; i++) {
				char b[8];
				int c = socket(AF_INET, SOCK_STREAM, 0);
				if (dial(c, "127.0.0.1", port) < 0 || write(c, "ping", 4) != 4 ||
					read(c, b, 8) != 4)
					bad++;
				close(c);
			}
			_exit(bad);
		}
	}
	for (int i = 0; i < 100; i++) {
		char b[8];
		int s = accept(l, NULL, NULL);
		ssize_t n = read(s, b, 8);
		if (n != 4 || write(s, b, 4) != 4)
			printf("bad %zd\n", n);
		close(s);
	}
	int st, bad = 0;
	while (wait(&st) > 0)
		bad += !WIFEXITED(st) || WEXITSTATUS(st);
	printf("bad %d\n", bad);
}

CASE(big_stream)
{
	static char b[65536];
	int port, l = listener(4, &port);
	long sum = 0, n;

	fflush(stdout);
	pid_t p = fork();
	if (p == 0) {
		static char out[100000];
		int c = socket(AF_INET, SOCK_STREAM, 0);
		dial(c, "127.0.0.1", port);
		for (int i = 0; i < 100; i++)
			write(c, out, sizeof(out));
		_exit(0);
	}
	int s = accept(l, NULL, NULL);
	while ((n = read(s, b, sizeof(b))) > 0)
		sum += n;
	printf("%ld\n", sum);
	io_reap(p);
}

/* More than there is room for, to somebody who has gone: a part is taken, and then no more. */
CASE(big_write_to_nobody)
{
	size_t len = (size_t)64 << 20;
	char *buf = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int port, l = listener(4, &port), a = socket(AF_INET, SOCK_STREAM, 0);
	ssize_t n;

	NEED(dial(a, "127.0.0.1", port));
	NEED(fcntl(a, F_SETFL, O_NONBLOCK));
	close(accept(l, NULL, NULL));
	n = send(a, buf, len, MSG_NOSIGNAL);
	B(n > 0 && (size_t)n < len);
	R(send(a, buf, len, MSG_NOSIGNAL));
	close(a);
}

CASE(interfaces)
{
	struct ifreq r;
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	memset(&r, 0, sizeof(r));
	memcpy(r.ifr_name, "lo", 3);
	R(ioctl(s, SIOCGIFFLAGS, &r));
	B(r.ifr_flags & IFF_LOOPBACK);
	R(ioctl(s, SIOCGIFADDR, &r));
	printf("%s\n", inet_ntoa(((struct sockaddr_in *)&r.ifr_addr)->sin_addr));
	R(ioctl(s, SIOCGIFNETMASK, &r));
	printf("%s\n", inet_ntoa(((struct sockaddr_in *)&r.ifr_addr)->sin_addr));
	R(ioctl(s, SIOCGIFMTU, &r));
	printf("%d\n", r.ifr_mtu);
	R(if_nametoindex("lo"));
	R(if_nametoindex("nothing"));
	memcpy(r.ifr_name, "nothing", 8);
	R(ioctl(s, SIOCGIFFLAGS, &r));
	R(ioctl(s, 0x1234, &r));
}
