/* SPDX-License-Identifier: Apache-2.0 */
/* What goes beside the bytes of IP: control messages, held-back datagrams, the urgent byte. */
#include "io.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <linux/sockios.h>

static struct sockaddr_in home(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static int port_of(int s)
{
	struct sockaddr_in6 a;
	socklen_t n = sizeof(a);

	NEED(getsockname(s, (struct sockaddr *)&a, &n));
	return ntohs(a.sin6_port);
}

/* Two datagram sockets: [1] is connected to [0]. */
static void datagrams(int family, int s[2])
{
	struct sockaddr_in a = home(0);
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	bool six = family == AF_INET6;
	struct sockaddr *p = six ? (struct sockaddr *)&a6 : (struct sockaddr *)&a;
	socklen_t len = six ? sizeof(a6) : sizeof(a);

	NEED(s[0] = socket(family, SOCK_DGRAM, 0));
	NEED(s[1] = socket(family, SOCK_DGRAM, 0));
	NEED(bind(s[0], p, len));
	a.sin_port = a6.sin6_port = htons((uint16_t)port_of(s[0]));
	NEED(connect(s[1], p, len));
}

/* Two ends of a TCP connection. */
static void connection(int s[2])
{
	struct sockaddr_in a = home(0);
	int l;

	NEED(l = socket(AF_INET, SOCK_STREAM, 0));
	NEED(bind(l, (struct sockaddr *)&a, sizeof(a)));
	NEED(listen(l, 1));
	a = home(port_of(l));
	NEED(s[0] = socket(AF_INET, SOCK_STREAM, 0));
	NEED(connect(s[0], (struct sockaddr *)&a, sizeof(a)));
	NEED(s[1] = accept(l, NULL, NULL));
	close(l);
}

static void set(int s, int level, int name, int v)
{
	NEED(setsockopt(s, level, name, &v, sizeof(v)));
}

union room {
	struct cmsghdr head;
	char bytes[256];
};

static void show(const struct cmsghdr *c)
{
	struct in_pktinfo four;
	int v = 0;

	printf(" level %d type %d len %d", c->cmsg_level, c->cmsg_type, (int)c->cmsg_len);
	if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO &&
		c->cmsg_len == CMSG_LEN(sizeof(four))) {
		memcpy(&four, CMSG_DATA(c), sizeof(four));
		printf(" to %s on %d", inet_ntoa(four.ipi_addr), four.ipi_ifindex);
	} else if (c->cmsg_len == CMSG_LEN(1)) {
		printf(" value %d", CMSG_DATA(c)[0]);
	} else if (c->cmsg_len == CMSG_LEN(sizeof(v))) {
		memcpy(&v, CMSG_DATA(c), sizeof(v));
		printf(" value %d", v);
	}
	printf("\n");
}

static void receive(int s, size_t room)
{
	char b[16];
	union room u;
	struct iovec v = { b, sizeof(b) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u };

	memset(&u, 0, sizeof(u));
	m.msg_controllen = room;
	long n = recvmsg(s, &m, MSG_DONTWAIT);
	printf("received %ld, control %d, flags %x\n", n < 0 ? -(long)errno : n,
		(int)m.msg_controllen, (unsigned)m.msg_flags);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); n >= 0 && c; c = CMSG_NXTHDR(&m, c))
		show(c);
}

/* Sends one byte with one control message. */
static long tell(int s, int level, int type, const void *data, size_t len)
{
	union room u;
	char x = 'x';
	struct iovec v = { &x, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u };

	memset(&u, 0, sizeof(u));
	m.msg_controllen = CMSG_SPACE(len);
	u.head.cmsg_len = CMSG_LEN(len);
	u.head.cmsg_level = level;
	u.head.cmsg_type = type;
	memcpy(CMSG_DATA(&u.head), data, len);
	return sendmsg(s, &m, 0);
}

CASE(control_four)
{
	int s[2], ttl = 7, tos = 16, bad = 300;

	datagrams(AF_INET, s);
	set(s[0], IPPROTO_IP, IP_PKTINFO, 1);
	set(s[0], IPPROTO_IP, IP_RECVTTL, 1);
	set(s[0], IPPROTO_IP, IP_RECVTOS, 1);
	R(send(s[1], "x", 1, 0));
	receive(s[0], 256);
	R(tell(s[1], IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl)));
	receive(s[0], 256);
	R(tell(s[1], IPPROTO_IP, IP_TOS, &tos, sizeof(tos)));
	receive(s[0], 256);
	R(tell(s[1], IPPROTO_IP, IP_TTL, &bad, sizeof(bad)));
	R(tell(s[1], IPPROTO_IP, IP_TTL, &ttl, 2));
	set(s[1], IPPROTO_IP, IP_TTL, 9);
	R(send(s[1], "x", 1, 0));
	receive(s[0], 256);
	R(send(s[1], "x", 1, 0));
	receive(s[0], 40); /* the second one is cut */
	R(send(s[1], "x", 1, 0));
	receive(s[0], 0);
}

CASE(control_six)
{
	int s[2], hops = 7, class = 0x20, bad = 256;

	datagrams(AF_INET6, s);
	set(s[0], IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	set(s[0], IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	set(s[0], IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	R(send(s[1], "x", 1, 0));
	receive(s[0], 256);
	R(tell(s[1], IPPROTO_IPV6, IPV6_HOPLIMIT, &hops, sizeof(hops)));
	receive(s[0], 256);
	R(tell(s[1], IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof(class)));
	receive(s[0], 256);
	R(tell(s[1], IPPROTO_IPV6, IPV6_HOPLIMIT, &bad, sizeof(bad)));
}

CASE(control_time)
{
	int s[2], v = 0;
	socklen_t n = sizeof(v);

	datagrams(AF_INET, s);
	set(s[0], SOL_SOCKET, SO_TIMESTAMP, 1);
	R(send(s[1], "x", 1, 0));
	receive(s[0], 256);
	set(s[0], SOL_SOCKET, SO_TIMESTAMPNS, 1);
	R(getsockopt(s[0], SOL_SOCKET, SO_TIMESTAMP, &v, &n));
	B(v);
	R(send(s[1], "x", 1, 0));
	receive(s[0], 256);
}

CASE(held_back)
{
	static char big[65000];
	int s[2];

	datagrams(AF_INET, s);
	R(send(s[1], "ab", 2, MSG_MORE));
	receive(s[0], 0);
	R(send(s[1], "cd", 2, MSG_MORE));
	R(send(s[1], "e", 1, 0));
	receive(s[0], 0);
	set(s[1], IPPROTO_UDP, UDP_CORK, 1);
	R(send(s[1], "fgh", 3, 0));
	R(send(s[1], "i", 1, 0));
	receive(s[0], 0);
	set(s[1], IPPROTO_UDP, UDP_CORK, 0);
	receive(s[0], 0);
	R(send(s[1], big, sizeof(big), MSG_MORE));
	R(send(s[1], big, sizeof(big), 0));
	R(send(s[1], "j", 1, 0));
	receive(s[0], 0);
}

static void take(int s, int flags)
{
	char b[16] = "";
	long n = recv(s, b, sizeof(b) - 1, flags | MSG_DONTWAIT);

	printf("recv %x: %s\n", (unsigned)flags, n < 0 ? io_errname(errno) : b);
}

static void at_mark(int s)
{
	int mark = -1, n = -1;

	NEED(ioctl(s, SIOCATMARK, &mark));
	NEED(ioctl(s, FIONREAD, &n));
	printf("at mark %d, readable %d\n", mark, n);
}

CASE(urgent)
{
	int s[2];

	connection(s);
	io_on(SIGURG, 0);
	NEED(fcntl(s[1], F_SETOWN, getpid()));
	take(s[1], MSG_OOB);
	R(send(s[0], "ab", 2, 0));
	R(send(s[0], "cX", 2, MSG_OOB));
	R(send(s[0], "de", 2, 0));
	while (!io_signals)
		io_nap(1);
	io_show_poll("s[1]", s[1]);
	at_mark(s[1]);
	take(s[1], MSG_PEEK);
	take(s[1], 0); /* up to the mark */
	at_mark(s[1]);
	take(s[1], MSG_OOB | MSG_PEEK);
	take(s[1], MSG_OOB);
	take(s[1], MSG_OOB);
	take(s[1], 0);
	at_mark(s[1]);
	R(send(s[0], "Y", 1, MSG_OOB));
	io_show_poll("s[1]", s[1]);
	take(s[1], 0); /* not in the stream, and lost by this */
	take(s[1], MSG_OOB);
	set(s[1], SOL_SOCKET, SO_OOBINLINE, 1);
	R(send(s[0], "fZ", 2, MSG_OOB));
	take(s[1], MSG_OOB);
	take(s[1], 0);
	take(s[1], 0);
}

CASE(peer_of_what_is_over)
{
	struct linger now = { 1, 0 };
	struct sockaddr_in a;
	socklen_t n = sizeof(a);
	int s[2];

	connection(s);
	R(shutdown(s[0], SHUT_WR));
	R(getpeername(s[0], (struct sockaddr *)&a, &n));
	R(getpeername(s[1], (struct sockaddr *)&a, &n));
	R(shutdown(s[1], SHUT_WR));
	R(getpeername(s[1], (struct sockaddr *)&a, &n));
	connection(s);
	R(send(s[0], "left", 5, 0));
	NEED(setsockopt(s[0], SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	R(close(s[0]));
	R(getpeername(s[1], (struct sockaddr *)&a, &n));
	take(s[1], 0);
	take(s[1], 0);
}

/* Connected to no port is connected to nobody; what is too big for an empty queue comes. */
CASE(ends_of_udp)
{
	struct sockaddr_in a = home(0);
	socklen_t n = sizeof(a);
	static char big[8192];
	int s[2], one;

	NEED(one = socket(AF_INET, SOCK_DGRAM, 0));
	R(connect(one, (struct sockaddr *)&a, sizeof(a)));
	R(getpeername(one, (struct sockaddr *)&a, &n));
	datagrams(AF_INET, s);
	set(s[0], SOL_SOCKET, SO_RCVBUF, 1);
	R(send(s[1], big, sizeof(big), 0));
	R(recv(s[0], big, sizeof(big), 0));
	R(shutdown(s[1], SHUT_RD));
	R(recv(s[1], big, sizeof(big), MSG_DONTWAIT));
	R(recv(s[1], big, sizeof(big), 0));
}
