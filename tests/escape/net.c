/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/escape/net.c - sockets: the world, the host's loopback, the host's unix sockets.
 *
 * Owns:  nothing.
 * Rules: nothing leaves the machine: what would, only asks for a route.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "escape.h"

static int try_connect(int family, int type, const void *addr, socklen_t len)
{
	int s = socket(family, type | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	return outcome(connect(s, addr, len));
}

static int loopback4(const struct facts *f, const struct attempt *a)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(f->tcp4) };

	(void)a;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return try_connect(AF_INET, SOCK_STREAM, &to, sizeof(to));
}

static int loopback6(const struct facts *f, const struct attempt *a)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(f->tcp6) };

	(void)a;
	to.sin6_addr = in6addr_loopback;
	return try_connect(AF_INET6, SOCK_STREAM, &to, sizeof(to));
}

/* Connecting a datagram socket asks for a route and sends nothing. */
static int route4(const struct facts *f, const struct attempt *a)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };

	(void)f;
	inet_pton(AF_INET, a->path, &to.sin_addr);
	return try_connect(AF_INET, SOCK_DGRAM, &to, sizeof(to));
}

static int route6(const struct facts *f, const struct attempt *a)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(9) };

	(void)f;
	inet_pton(AF_INET6, a->path, &to.sin6_addr);
	return try_connect(AF_INET6, SOCK_DGRAM, &to, sizeof(to));
}

static int abstract_socket(const struct facts *f, const struct attempt *a)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = strnlen(f->abstract, sizeof(to.sun_path) - 1);

	(void)a;
	memcpy(to.sun_path + 1, f->abstract, n);
	return try_connect(AF_UNIX, SOCK_STREAM, &to,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
}

static int socket_by_path(const struct facts *f, const struct attempt *a)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	(void)a;
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", f->socket);
	return try_connect(AF_UNIX, SOCK_STREAM, &to, sizeof(to));
}

enum { FAMILY_SHIFT = 16, TYPE_SHIFT = 8 };
#define KIND(family, type, proto) ((family) << FAMILY_SHIFT | (type) << TYPE_SHIFT | (proto))

static int open_socket(const struct facts *f, const struct attempt *a)
{
	int type = (int)(a->n >> TYPE_SHIFT & 0xff), proto = (int)(a->n & 0xff);

	(void)f;
	return outcome(socket((int)(a->n >> FAMILY_SHIFT), type | SOCK_CLOEXEC, proto));
}

#define NO_NET "ENETUNREACH ECONNREFUSED EADDRNOTAVAIL ENETDOWN EACCES EPERM EAFNOSUPPORT"
#define NO_SOCKET "EPERM EACCES ENOSYS EAFNOSUPPORT EPROTONOSUPPORT"
/* Natively a family may be missing from the kernel. */
#define MAYBE "ok EAFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT"
/* clang-format off */
#define SOCKET_(name_, family, type, proto, native) \
	{ "socket-" name_, open_socket, NULL, KIND(family, type, proto), native, NO_SOCKET, NO_SOCKET, false }
#define SOCKET(name_, family, type, proto) SOCKET_(name_, family, type, proto, MAYBE)
/* Not tried natively: asking would load a module into the host's kernel. */
#define RARE_SOCKET(name_, family, type, proto) SOCKET_(name_, family, type, proto, "-")

const struct attempt net_attempts[] = {
	{ "host-loopback-4", loopback4, NULL, 0, "ok", NO_NET, "-", false },
	{ "host-loopback-6", loopback6, NULL, 0, "ok", NO_NET, "-", false },
	{ "route-to-world-4", route4, "192.0.2.1", 0, "ok ENETUNREACH", NO_NET, "-", false },
	{ "route-to-lan-4", route4, "10.0.0.1", 0, "ok ENETUNREACH", NO_NET, "-", false },
	{ "route-to-metadata", route4, "169.254.169.254", 0, "ok ENETUNREACH", NO_NET, "-", false },
	{ "route-to-world-6", route6, "2001:db8::1", 0, "ok ENETUNREACH EADDRNOTAVAIL", NO_NET, "-", false },
	{ "host-abstract-socket", abstract_socket, NULL, 0, "ok", "ECONNREFUSED EPERM EACCES", "-", false },
	{ "host-unix-socket", socket_by_path, NULL, 0, "ok", "ENOENT EACCES EPERM", "-", false },
	SOCKET("raw-icmp", AF_INET, SOCK_RAW, 1),
	SOCKET("raw-6", AF_INET6, SOCK_RAW, 58),
	SOCKET("packet", AF_PACKET, SOCK_RAW, 0),
	SOCKET("packet-dgram", AF_PACKET, SOCK_DGRAM, 0),
	RARE_SOCKET("vsock", 40, SOCK_STREAM, 0),
	RARE_SOCKET("alg", 38, SOCK_SEQPACKET, 0),
	RARE_SOCKET("xdp", 44, SOCK_RAW, 0),
	RARE_SOCKET("bluetooth", 31, SOCK_RAW, 0),
	RARE_SOCKET("can", 29, SOCK_RAW, 1),
	RARE_SOCKET("key", 15, SOCK_RAW, 2),
	RARE_SOCKET("tipc", 30, SOCK_DGRAM, 0),
	RARE_SOCKET("rds", 21, SOCK_SEQPACKET, 0),
	RARE_SOCKET("qrtr", 42, SOCK_DGRAM, 0),
	RARE_SOCKET("smc", 43, SOCK_STREAM, 0),
	SOCKET("netlink-sock-diag", AF_NETLINK, SOCK_RAW, 4),
	SOCKET("netlink-xfrm", AF_NETLINK, SOCK_RAW, 6),
	SOCKET("netlink-audit", AF_NETLINK, SOCK_RAW, 9),
	SOCKET("netlink-connector", AF_NETLINK, SOCK_RAW, 11),
	SOCKET("netlink-netfilter", AF_NETLINK, SOCK_RAW, 12),
	SOCKET("netlink-uevent", AF_NETLINK, SOCK_RAW, 15),
	SOCKET("netlink-generic", AF_NETLINK, SOCK_RAW, 16),
	{ 0 },
};
/* clang-format on */
