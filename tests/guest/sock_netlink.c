/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about the network: netlink, names, interfaces. Only what every host answers alike. */
#include "io.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

CASE(route_dump)
{
	struct {
		struct nlmsghdr h;
		struct rtgenmsg g;
	} q;
	static char b[65536] __attribute__((aligned(8)));
	struct sockaddr_nl a;
	socklen_t len = sizeof(a);
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), links = 0, done = 0,
	    lo = 0;

	B(s >= 0);
	memset(&a, 0, sizeof(a));
	a.nl_family = AF_NETLINK;
	R(bind(s, (void *)&a, sizeof(a)));
	R(getsockname(s, (void *)&a, &len));
	B(a.nl_family == AF_NETLINK && a.nl_pid != 0 && len == sizeof(a));
	memset(&q, 0, sizeof(q));
	q.h.nlmsg_len = sizeof(q);
	q.h.nlmsg_type = RTM_GETLINK;
	q.h.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	q.h.nlmsg_seq = 11;
	B(send(s, &q, sizeof(q), 0) == sizeof(q));
	while (!done) {
		ssize_t n = recv(s, b, sizeof(b), 0);
		if (n <= 0)
			break;
		for (struct nlmsghdr *h = (void *)b; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_seq != 11 || h->nlmsg_pid != a.nl_pid)
				printf("not ours\n");
			done |= h->nlmsg_type == NLMSG_DONE;
			if (h->nlmsg_type != RTM_NEWLINK)
				continue;
			struct ifinfomsg *i = NLMSG_DATA(h);
			links++;
			lo |= i->ifi_index == 1 && (i->ifi_flags & IFF_LOOPBACK);
		}
	}
	B(done && links >= 1 && lo);
	R(recv(s, b, sizeof(b), MSG_DONTWAIT));
	R(bind(s, (void *)&a, 4));
	R(listen(s, 1));
	R(socket(AF_NETLINK, SOCK_STREAM, 0));
}

CASE(getifaddrs_has_lo)
{
	struct ifaddrs *all, *i;
	int v4 = 0;

	R(getifaddrs(&all));
	for (i = all; i; i = i->ifa_next) {
		if (strcmp(i->ifa_name, "lo") == 0 && i->ifa_addr &&
			i->ifa_addr->sa_family == AF_INET)
			v4 = ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr ==
			     htonl(INADDR_LOOPBACK);
	}
	B(v4);
	struct if_nameindex *n = if_nameindex();
	B(n && n[0].if_index == 1 && strcmp(n[0].if_name, "lo") == 0);
}

CASE(numeric_names)
{
	struct addrinfo hint = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM },
			*r = NULL;

	R(getaddrinfo("127.0.0.1", "80", &hint, &r));
	B(r && r->ai_family == AF_INET);
	R(getaddrinfo("::1", "80", &hint, &r));
	B(r && r->ai_family == AF_INET6);
	R(getaddrinfo("no such", "80", &hint, &r) != 0);
}
