/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc/net says about sockets: found by port or name, and by the number of a descriptor. In a
 * network of its own: Linux reads a list page by page, and may lose a line where others come and
 * go. */
#include "io.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

static unsigned long ino_of(int fd)
{
	struct stat st;

	need("fstat", fstat(fd, &st));
	return st.st_ino;
}

static unsigned port_of(int fd)
{
	struct sockaddr_in6 a;
	socklen_t len = sizeof(a);

	need("name", getsockname(fd, (struct sockaddr *)&a, &len));
	return ntohs(a.sin6_port);
}

/* The line of @fd's number: its addresses without ports, its state, its queues. */
static void say_line(const char *file, const char *what, int fd)
{
	unsigned long ino, want = ino_of(fd);
	char path[64], line[512], local[64], remote[64];
	unsigned lport, rport, st, tx, rx, uid;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/net/%s", file);
	f = fopen(path, "re");
	if (!f)
		need(path, -1);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*d: %63[0-9A-F]:%X %63[0-9A-F]:%X %X %X:%X %*s %*s %u %*d %lu",
			    local, &lport, remote, &rport, &st, &tx, &rx, &uid, &ino) < 9 ||
			ino != want)
			continue;
		found = true;
		printf("  %s: %s %s %02X rx %u uid %u, port %s%s\n", what, local, remote, st, rx,
			uid, lport == port_of(fd) ? "its own" : "another",
			rport ? ", connected" : "");
	}
	fclose(f);
	if (!found)
		printf("  %s: not there\n", what);
}

static int bound(int family, int type)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = need_fd("socket", socket(family, type, 0));

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	need("bind", family == AF_INET ? bind(fd, (struct sockaddr *)&in, sizeof(in))
				       : bind(fd, (struct sockaddr *)&in6, sizeof(in6)));
	return fd;
}

static int connected(int family, int type, int to)
{
	struct sockaddr_in6 a;
	socklen_t len = sizeof(a);
	int fd = need_fd("socket", socket(family, type, 0));

	need("name", getsockname(to, (struct sockaddr *)&a, &len));
	need("connect", connect(fd, (struct sockaddr *)&a, len));
	return fd;
}

/* The other end may hear of it later. */
static void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	need("poll", poll(&p, 1, -1));
}

static void tcp(const char *file, int family)
{
	int l, c, a;

	need_own_network();
	l = bound(family, SOCK_STREAM);
	say_line(file, "bound", l);
	need("listen", listen(l, 5));
	say_line(file, "listening", l);
	c = connected(family, SOCK_STREAM, l);
	wait_for(l, POLLIN);
	say_line(file, "one waits", l);
	a = need_fd("accept", accept(l, NULL, NULL));
	say_line(file, "none waits", l);
	say_line(file, "client", c);
	say_line(file, "server", a);
	need("write", write(c, "12345", 5));
	wait_for(a, POLLIN);
	say_line(file, "unread", a);
	need("shutdown", shutdown(c, SHUT_WR));
	wait_for(a, POLLRDHUP);
	say_line(file, "has been told", a);
	close(l);
}

CASE(tcp)
{
	tcp("tcp", AF_INET);
}

CASE(tcp6)
{
	tcp("tcp6", AF_INET6);
}

CASE(udp)
{
	int a, b;

	need_own_network();
	a = need_fd("socket", socket(AF_INET, SOCK_DGRAM, 0));
	say_line("udp", "new", a);
	close(a);
	a = bound(AF_INET, SOCK_DGRAM);
	say_line("udp", "bound", a);
	b = connected(AF_INET, SOCK_DGRAM, a);
	say_line("udp", "connected", b);
	close(b);
	a = bound(AF_INET6, SOCK_DGRAM);
	say_line("udp6", "bound", a);
}

/* Type, state, whether it listens, and its name. */
static void say_unix(const char *what, int fd)
{
	unsigned long ino, want = ino_of(fd);
	unsigned flags, type, st;
	bool found = false;
	char line[512];
	FILE *f = fopen("/proc/net/unix", "re");

	if (!f)
		need("unix", -1);
	while (fgets(line, sizeof(line), f)) {
		int end = 0;

		if (sscanf(line, "%*[^:]: %*X %*X %X %X %X %lu%n", &flags, &type, &st, &ino, &end) <
				4 ||
			ino != want)
			continue;
		found = true;
		line[strcspn(line, "\n")] = '\0';
		printf("  %s: %04X %02X%s%s\n", what, type, st, flags & 0x10000 ? " listens" : "",
			line + end);
	}
	fclose(f);
	if (!found)
		printf("  %s: not there\n", what);
}

CASE(unix_names)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "name" };
	struct sockaddr_un ab = { .sun_family = AF_UNIX };
	int s, d, c, pair[2];

	need_own_network();
	s = need_fd("socket", socket(AF_UNIX, SOCK_STREAM, 0));
	say_unix("new", s);
	need("bind", bind(s, (struct sockaddr *)&un, sizeof(un)));
	say_unix("bound", s);
	need("listen", listen(s, 1));
	say_unix("listening", s);
	c = need_fd("socket", socket(AF_UNIX, SOCK_STREAM, 0));
	need("connect", connect(c, (struct sockaddr *)&un, sizeof(un)));
	say_unix("client", c);
	say_unix("server", need_fd("accept", accept(s, NULL, NULL)));
	d = need_fd("socket", socket(AF_UNIX, SOCK_DGRAM, 0));
	memcpy(ab.sun_path, "\0guest-proc", 11);
	need("bind", bind(d, (struct sockaddr *)&ab, offsetof(struct sockaddr_un, sun_path) + 11));
	say_unix("abstract", d);
	need("pair", socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	say_unix("pair", pair[0]);
}
