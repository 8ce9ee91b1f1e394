/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of receivers over lo: who joins, who hears, who has left. */
#include "io.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>

#ifndef IP_MULTICAST_ALL
#define IP_MULTICAST_ALL 49
#endif

static struct ip_mreqn of(const char *group)
{
	struct ip_mreqn m = { .imr_ifindex = 1 };

	inet_pton(AF_INET, group, &m.imr_multiaddr);
	return m;
}

static int set(int fd, int name, const void *p, size_t len)
{
	return setsockopt(fd, IPPROTO_IP, name, p, (socklen_t)len);
}

static int flag(int fd, int name, int v)
{
	return set(fd, name, &v, sizeof(v));
}

static int bound(const char *addr, uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(*port) };
	socklen_t len = sizeof(a);
	int fd = need_fd("socket", socket(AF_INET, SOCK_DGRAM, 0)), one = 1;

	inet_pton(AF_INET, addr, &a.sin_addr);
	need("reuse", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	need("bind", bind(fd, (struct sockaddr *)&a, sizeof(a)));
	need("name", getsockname(fd, (struct sockaddr *)&a, &len));
	*port = ntohs(a.sin_port);
	return fd;
}

/* Linux delivers in the order of sending on one processor only. */
static void stay_here(void)
{
	cpu_set_t may, one;
	int cpu = 0;

	CPU_ZERO(&one);
	need("affinity", sched_getaffinity(0, sizeof(may), &may));
	while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &may))
		cpu++;
	CPU_SET(cpu, &one);
	need("one", sched_setaffinity(0, sizeof(one), &one));
}

static int sender(void)
{
	int fd = need_fd("socket", socket(AF_INET, SOCK_DGRAM, 0));
	struct ip_mreqn m = of("0.0.0.0");

	stay_here();
	m.imr_address.s_addr = htonl(INADDR_LOOPBACK);
	need("link", set(fd, IP_MULTICAST_IF, &m, sizeof(m)));
	return fd;
}

static void send_to(int fd, const char *group, uint16_t port, const char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, group, &a.sin_addr);
	say(text, sendto(fd, text, strlen(text), 0, (struct sockaddr *)&a, sizeof(a)) < 0 ? -1 : 0);
}

/* All that has come, up to the word that everybody gets. */
static void say_heard(const char *who, int fd, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int last = need_fd("socket", socket(AF_INET, SOCK_DGRAM, 0));
	char text[64];
	ssize_t n;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	need("end", sendto(last, "end", 3, 0, (struct sockaddr *)&a, sizeof(a)));
	printf("  %s:", who);
	while ((n = recv(fd, text, sizeof(text), 0)) > 0 && strncmp(text, "end", 3) != 0)
		printf(" %.*s", (int)n, text);
	printf("\n");
	close(last);
}

CASE(membership)
{
	int fd = need_fd("socket", socket(AF_INET, SOCK_DGRAM, 0));
	int tcp = need_fd("socket", socket(AF_INET, SOCK_STREAM, 0));
	struct ip_mreqn m = of("239.7.7.7");
	struct ip_mreq old = { .imr_multiaddr = m.imr_multiaddr };
	struct group_req g = { .gr_interface = 1 };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = m.imr_multiaddr };

	old.imr_interface.s_addr = htonl(INADDR_LOOPBACK);
	say("leave", set(fd, IP_DROP_MEMBERSHIP, &m, sizeof(m)));
	say("join", set(fd, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	say("again", set(fd, IP_ADD_MEMBERSHIP, &old, sizeof(old)));
	say("leave by address", set(fd, IP_DROP_MEMBERSHIP, &old, sizeof(old)));
	say("join by address", set(fd, IP_ADD_MEMBERSHIP, &old, sizeof(old)));
	say("short", set(fd, IP_ADD_MEMBERSHIP, &m, 7));
	m.imr_ifindex = 4711;
	say("no such link", set(fd, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	m = of("10.1.2.3");
	say("no group", set(fd, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	say("tcp", set(tcp, IP_ADD_MEMBERSHIP, &old, sizeof(old)));
	memcpy(&g.gr_group, &in, sizeof(in));
	say("new form", set(tcp, MCAST_JOIN_GROUP, &g, sizeof(g)));
	say("again", set(tcp, MCAST_JOIN_GROUP, &g, sizeof(g)));
	say("leave", set(tcp, MCAST_LEAVE_GROUP, &g, sizeof(g)));
	say("leave again", set(tcp, MCAST_LEAVE_GROUP, &g, sizeof(g)));
	for (int i = 0; i < 19; i++) {
		char text[32];

		snprintf(text, sizeof(text), "239.7.8.%d", i);
		m = of(text);
		need(text, set(fd, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	}
	m = of("239.7.9.1");
	say("too many", set(fd, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
}

CASE(hearing)
{
	uint16_t port = 0, other = 0;
	int a = bound("0.0.0.0", &port), b = bound("0.0.0.0", &other), s = sender();
	struct ip_mreqn m = of("239.7.7.1"), n = of("239.7.7.2");

	send_to(s, "239.7.7.1", port, "nobody");
	need("join", set(a, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	send_to(s, "239.7.7.1", port, "joined");
	send_to(s, "239.7.7.2", port, "elsewhere");
	need("join", set(b, IP_ADD_MEMBERSHIP, &n, sizeof(n)));
	send_to(s, "239.7.7.2", port, "another's");
	need("all", flag(a, IP_MULTICAST_ALL, 0));
	send_to(s, "239.7.7.2", port, "not-mine");
	need("loop", flag(s, IP_MULTICAST_LOOP, 0));
	send_to(s, "239.7.7.1", port, "over-lo");
	need("loop", flag(s, IP_MULTICAST_LOOP, 1));
	need("leave", set(a, IP_DROP_MEMBERSHIP, &m, sizeof(m)));
	send_to(s, "239.7.7.1", port, "left");
	say_heard("a", a, port);
	say_heard("b", b, other);
}

CASE(many_receivers)
{
	uint16_t port = 0;
	int a = bound("239.7.7.3", &port), b = bound("239.7.7.3", &port), c, s = sender();
	struct ip_mreqn m = of("239.7.7.3");
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char text[16];

	c = bound("127.0.0.1", &port);
	need("join", set(a, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	need("join", set(b, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	need("join", set(c, IP_ADD_MEMBERSHIP, &m, sizeof(m)));
	send_to(s, "239.7.7.3", port, "all");
	say_n("a", recvfrom(a, text, sizeof(text), 0, (struct sockaddr *)&from, &len));
	say_is("from lo", from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	say_n("b", recv(b, text, sizeof(text), 0));
	say_heard("bound elsewhere", c, port);
	need("name", getsockname(a, (struct sockaddr *)&from, &len));
	say_is("a's name", from.sin_addr.s_addr == m.imr_multiaddr.s_addr);
}

CASE(links)
{
	int fd = need_fd("socket", socket(AF_INET, SOCK_DGRAM, 0));
	int six = need_fd("socket", socket(AF_INET6, SOCK_DGRAM, 0)), v = 1;
	struct in_addr a = { htonl(INADDR_LOOPBACK) }, got;
	struct ipv6_mreq m6 = { .ipv6mr_interface = 1 };
	socklen_t len = sizeof(got);

	say("by address", set(fd, IP_MULTICAST_IF, &a, sizeof(a)));
	say("read", getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &got, &len));
	say_is("the same", got.s_addr == a.s_addr && len == 4);
	a.s_addr = htonl(0x0a090807);
	say("not mine", set(fd, IP_MULTICAST_IF, &a, sizeof(a)));
	say("6: by number", setsockopt(six, IPPROTO_IPV6, IPV6_MULTICAST_IF, &v, sizeof(v)));
	v = 4711;
	say("6: none", setsockopt(six, IPPROTO_IPV6, IPV6_MULTICAST_IF, &v, sizeof(v)));
	inet_pton(AF_INET6, "ff15::77", &m6.ipv6mr_multiaddr);
	say("6: join", setsockopt(six, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m6, sizeof(m6)));
	say("6: again", setsockopt(six, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m6, sizeof(m6)));
	say("6: leave", setsockopt(six, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &m6, sizeof(m6)));
	say("6: leave again", setsockopt(six, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &m6, sizeof(m6)));
	inet_pton(AF_INET6, "::1", &m6.ipv6mr_multiaddr);
	say("6: no group", setsockopt(six, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m6, sizeof(m6)));
}
