/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/sock_test.c - sockets through their system calls, with a fake guest.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

static struct fake *g;
static struct task *me;
static gva_t mem, addr, scratch;

static int begin(void **state)
{
	g = fake_create();
	me = g->task;
	mem = fake_alloc(g, 1 << 20);
	addr = fake_alloc(g, 256);
	scratch = fake_alloc(g, 4096);
	return 0;
}

static int end(void **state)
{
	fake_destroy(g);
	return 0;
}

static long call6(struct task *t, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
	uint64_t e, uint64_t f)
{
	return fake_call(t, nr, a, b, c, d, e, f);
}

static int sock_new(int family, int type)
{
	return (int)fake_call(me, SYS_socket, (uint64_t)family, (uint64_t)type, 0);
}

static long send_text(struct task *t, int fd, const char *s, unsigned flags)
{
	memcpy(fake_ptr(g, mem), s, strlen(s));
	return call6(t, SYS_sendto, (uint64_t)fd, mem.v, strlen(s), flags, 0, 0);
}

static long recv_n(struct task *t, int fd, size_t n, unsigned flags)
{
	return call6(t, SYS_recvfrom, (uint64_t)fd, mem.v, n, flags, 0, 0);
}

static socklen_t put_in(uint32_t ip, uint16_t port)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)
	};

	memcpy(fake_ptr(g, addr), &in, sizeof(in));
	return sizeof(in);
}

static uint16_t port_of_fd(int fd)
{
	struct sockaddr_in in;
	uint32_t len = 128;
	gva_t lp = fake_put(g, &len, 4);

	assert_int_equal(fake_call(me, SYS_getsockname, (uint64_t)fd, addr.v, lp.v), 0);
	memcpy(&in, fake_ptr(g, addr), sizeof(in));
	return ntohs(in.sin_port);
}

static void pair(int type, int fds[2])
{
	assert_int_equal(fake_call(me, SYS_socketpair, AF_UNIX, (uint64_t)type, 0, scratch.v), 0);
	memcpy(fds, fake_ptr(g, scratch), 8);
}

static int listener(uint16_t *port, int backlog)
{
	int l = sock_new(AF_INET, SOCK_STREAM);

	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)l, addr.v, put_in(INADDR_LOOPBACK, 0)), 0);
	assert_int_equal(fake_call(me, SYS_listen, (uint64_t)l, (uint64_t)backlog), 0);
	*port = port_of_fd(l);
	return l;
}

/* A port of its own, and the same bytes. */
static void udp_lite(void **state)
{
	int a = (int)fake_call(me, SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE),
	    b = (int)fake_call(me, SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE),
	    u = sock_new(AF_INET, SOCK_DGRAM);
	uint16_t port;

	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)a, addr.v, put_in(INADDR_LOOPBACK, 0)), 0);
	port = port_of_fd(a);
	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)b, addr.v, put_in(INADDR_LOOPBACK, port)),
		-EADDRINUSE);
	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)u, addr.v, put_in(INADDR_LOOPBACK, port)), 0);
	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)b, addr.v, put_in(INADDR_LOOPBACK, port)), 0);
	assert_int_equal(send_text(me, b, "lite", 0), 4);
	assert_int_equal(recv_n(me, u, 16, MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(recv_n(me, a, 16, MSG_DONTWAIT), 4);
	fd_close(me, a);
	fd_close(me, b);
	fd_close(me, u);
}

static void streams_keep_order(void **state)
{
	int s[2];

	pair(SOCK_STREAM, s);
	assert_int_equal(send_text(me, s[0], "hello ", 0), 6);
	assert_int_equal(send_text(me, s[0], "world", 0), 5);
	assert_int_equal(recv_n(me, s[1], 3, MSG_PEEK), 3);
	assert_int_equal(recv_n(me, s[1], 100, 0), 11);
	assert_memory_equal(fake_ptr(g, mem), "hello world", 11);
	assert_int_equal(recv_n(me, s[1], 1, MSG_DONTWAIT), -EAGAIN);
	fd_close(me, s[0]);
	assert_int_equal(recv_n(me, s[1], 1, 0), 0);
	assert_int_equal(send_text(me, s[1], "x", MSG_NOSIGNAL), -EPIPE);
}

static void packets_keep_borders(void **state)
{
	static const int types[] = { SOCK_DGRAM, SOCK_SEQPACKET };

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		int s[2];

		pair(types[i], s);
		assert_int_equal(send_text(me, s[0], "one", 0), 3);
		assert_int_equal(send_text(me, s[0], "three", 0), 5);
		assert_int_equal(recv_n(me, s[1], 2, MSG_TRUNC), 3);
		assert_int_equal(recv_n(me, s[1], 100, 0), 5);
		assert_int_equal(recv_n(me, s[1], 100, MSG_DONTWAIT), -EAGAIN);
	}
}

static void a_full_stream_blocks_and_goes_on(void **state)
{
	struct task *w = fake_thread(me);
	uint64_t total = 0;
	int s[2];
	long r;

	pair(SOCK_STREAM, s);
	assert_int_equal(call6(w, SYS_sendto, (uint64_t)s[0], mem.v, 1 << 20, 0, 0, 0), SYS_BLOCK);
	while (!fake_over(w, &r)) {
		long n = recv_n(me, s[1], 50000, MSG_DONTWAIT);

		assert_true(n > 0);
		total += (uint64_t)n;
	}
	assert_int_equal(r, 1 << 20);
	while ((r = recv_n(me, s[1], 50000, MSG_DONTWAIT)) > 0)
		total += (uint64_t)r;
	assert_int_equal(total, 1 << 20);
}

static void tcp_connects(void **state)
{
	uint16_t port;
	int l = listener(&port, 8), c = sock_new(AF_INET, SOCK_STREAM), a;
	struct task *other = fake_thread(me);
	long r;

	assert_int_equal(fake_call(other, SYS_accept, (uint64_t)l, 0, 0), SYS_BLOCK);
	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)c, addr.v, put_in(INADDR_LOOPBACK, port)), 0);
	assert_true(fake_over(other, &r));
	a = (int)r;
	assert_true(a >= 0);
	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)c, addr.v, put_in(INADDR_LOOPBACK, port)),
		-EISCONN);
	assert_int_equal(send_text(me, c, "ping", 0), 4);
	assert_int_equal(recv_n(me, a, 10, 0), 4);
	assert_int_equal(fake_call(me, SYS_shutdown, (uint64_t)c, SHUT_WR), 0);
	assert_int_equal(recv_n(me, a, 10, 0), 0);
	assert_int_equal(send_text(me, a, "late", 0), 4);
	assert_int_equal(recv_n(me, c, 10, 0), 4);
	fd_close(me, c);
	assert_int_equal(send_text(me, a, "x", MSG_NOSIGNAL), 1); /* the reset comes back */
	assert_int_equal(send_text(me, a, "x", MSG_NOSIGNAL), -EPIPE);
}

static void tcp_refuses_and_resets(void **state)
{
	uint16_t port;
	int l = listener(&port, 1), c = sock_new(AF_INET, SOCK_STREAM), n, a;

	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)c, addr.v, put_in(INADDR_LOOPBACK, port + 1)),
		-ECONNREFUSED);
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)c, addr.v, put_in(0x08080808, port)),
		-ENETUNREACH);
	n = sock_new(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)n, addr.v, put_in(INADDR_LOOPBACK, port + 1)),
		-EINPROGRESS);
	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)n, addr.v, put_in(INADDR_LOOPBACK, port + 1)),
		-ECONNREFUSED);
	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)n, addr.v, put_in(INADDR_LOOPBACK, port)),
		-EINPROGRESS);
	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)n, addr.v, put_in(INADDR_LOOPBACK, port)), 0);
	assert_int_equal(
		fake_call(me, SYS_connect, (uint64_t)n, addr.v, put_in(INADDR_LOOPBACK, port)),
		-EISCONN);
	a = (int)fake_call(me, SYS_accept, (uint64_t)l, 0, 0);
	assert_int_equal(send_text(me, n, "unread", 0), 6);
	fd_close(me, a); /* with bytes unread: a reset */
	assert_int_equal(recv_n(me, n, 1, 0), -ECONNRESET);
	assert_int_equal(recv_n(me, n, 1, 0), 0);
}

static void a_full_backlog_waits(void **state)
{
	struct task *t = fake_thread(me);
	uint16_t port;
	int l = listener(&port, 0), c[3];
	long r;

	for (int i = 0; i < 3; i++)
		c[i] = sock_new(AF_INET, SOCK_STREAM);
	put_in(INADDR_LOOPBACK, port);
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)c[0], addr.v, 16), 0);
	assert_int_equal(fake_call(t, SYS_connect, (uint64_t)c[1], addr.v, 16), SYS_BLOCK);
	assert_true(fake_call(me, SYS_accept, (uint64_t)l, 0, 0) >= 0);
	assert_true(fake_over(t, &r));
	assert_int_equal(r, 0);
	assert_int_equal(fake_call(t, SYS_connect, (uint64_t)c[2], addr.v, 16), SYS_BLOCK);
	fd_close(me, l);
	kernel_run_ready(&g->k);
	assert_true(fake_over(t, &r));
	assert_int_equal(r, -ECONNREFUSED);
	assert_int_equal(recv_n(me, c[1], 1, 0), -ECONNRESET);
}

static void ports_conflict(void **state)
{
	uint16_t port;
	int l = listener(&port, 1), b = sock_new(AF_INET, SOCK_STREAM), six;
	uint32_t one = 1;
	gva_t on = fake_put(g, &one, 4);

	(void)l;
	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)b, addr.v, put_in(INADDR_LOOPBACK, port)),
		-EADDRINUSE);
	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)b, addr.v, put_in(0, port)), -EADDRINUSE);
	assert_int_equal(
		fake_call(me, SYS_setsockopt, (uint64_t)b, SOL_SOCKET, SO_REUSEADDR, on.v, 4), 0);
	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)b, addr.v, put_in(INADDR_LOOPBACK, port)),
		-EADDRINUSE); /* the other one listens */
	assert_int_equal(fake_call(me, SYS_bind, (uint64_t)b, addr.v, put_in(0x7f000002, port)), 0);
	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)b, addr.v, put_in(0x7f000002, port)), -EINVAL);
	b = sock_new(AF_INET, SOCK_STREAM);
	assert_int_equal(fake_call(me, SYS_bind, (uint64_t)b, addr.v, put_in(0x0a000001, 0)),
		-EADDRNOTAVAIL);
	/* [::] takes the port for IPv4, too, unless it is told not to. */
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	six = sock_new(AF_INET6, SOCK_STREAM);
	memcpy(fake_ptr(g, addr), &any, sizeof(any));
	assert_int_equal(fake_call(me, SYS_bind, (uint64_t)six, addr.v, sizeof(any)), -EADDRINUSE);
	assert_int_equal(
		fake_call(me, SYS_setsockopt, (uint64_t)six, IPPROTO_IPV6, IPV6_V6ONLY, on.v, 4),
		0);
	assert_int_equal(fake_call(me, SYS_bind, (uint64_t)six, addr.v, sizeof(any)), 0);
}

static void udp_carries_and_refuses(void **state)
{
	int a = sock_new(AF_INET, SOCK_DGRAM), b = sock_new(AF_INET, SOCK_DGRAM);
	uint16_t port;

	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)a, addr.v, put_in(INADDR_LOOPBACK, 0)), 0);
	port = port_of_fd(a);
	assert_int_equal(send_text(me, b, "x", 0), -EDESTADDRREQ);
	put_in(INADDR_LOOPBACK, port);
	memcpy(fake_ptr(g, mem), "ping", 4);
	assert_int_equal(call6(me, SYS_sendto, (uint64_t)b, mem.v, 4, 0, addr.v, 16), 4);
	assert_int_equal(recv_n(me, a, 100, 0), 4);
	assert_int_equal(
		call6(me, SYS_sendto, (uint64_t)b, mem.v, 65508, 0, addr.v, 16), -EMSGSIZE);
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)b, addr.v, 16), 0);
	fd_close(me, a);
	assert_int_equal(send_text(me, b, "x", 0), 1);
	assert_int_equal(send_text(me, b, "x", 0), -ECONNREFUSED);
}

/* MSG_MORE keeps bytes back until there is no more, it is taken back, or time has passed. */
static void tcp_holds_back(void **state)
{
	int l = sock_new(AF_INET, SOCK_STREAM), c = sock_new(AF_INET, SOCK_STREAM), s;
	gva_t on = fake_alloc(g, 4);

	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)l, addr.v, put_in(INADDR_LOOPBACK, 0)), 0);
	assert_int_equal(fake_call(me, SYS_listen, (uint64_t)l, 1), 0);
	put_in(INADDR_LOOPBACK, port_of_fd(l));
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)c, addr.v, 16), 0);
	s = (int)fake_call(me, SYS_accept, (uint64_t)l, 0, 0);
	assert_int_equal(send_text(me, c, "abc", MSG_MORE), 3);
	assert_int_equal(recv_n(me, s, 100, MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(send_text(me, c, "d", 0), 1);
	assert_int_equal(recv_n(me, s, 100, MSG_DONTWAIT), 4);
	assert_memory_equal(fake_ptr(g, mem), "abcd", 4);
	*(int *)fake_ptr(g, on) = 1;
	assert_int_equal(
		fake_call(me, SYS_setsockopt, (uint64_t)c, IPPROTO_TCP, TCP_CORK, on.v, 4), 0);
	assert_int_equal(send_text(me, c, "ef", 0), 2);
	assert_int_equal(recv_n(me, s, 100, MSG_DONTWAIT), -EAGAIN);
	*(int *)fake_ptr(g, on) = 0;
	assert_int_equal(
		fake_call(me, SYS_setsockopt, (uint64_t)c, IPPROTO_TCP, TCP_CORK, on.v, 4), 0);
	assert_int_equal(recv_n(me, s, 100, MSG_DONTWAIT), 2);
	assert_int_equal(send_text(me, c, "late", MSG_MORE), 4);
	fake_sleep(g, 1000);
	assert_int_equal(recv_n(me, s, 100, MSG_DONTWAIT), 4);
	assert_int_equal(send_text(me, c, "end", MSG_MORE), 3);
	assert_int_equal(fake_call(me, SYS_shutdown, (uint64_t)c, SHUT_WR), 0);
	assert_int_equal(recv_n(me, s, 100, 0), 3);
	assert_int_equal(recv_n(me, s, 100, 0), 0);
	assert_int_equal(send_text(me, s, "never", MSG_MORE), 5); /* goes with its socket */
	fd_close(me, c);
}

/* A socket of the newer family that talks to the older one may become one of those. */
static void a_socket_changes_its_family(void **state)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	int l = sock_new(AF_INET6, SOCK_STREAM), c = sock_new(AF_INET, SOCK_STREAM), s;
	gva_t family = fake_alloc(g, 4);

	memcpy(fake_ptr(g, addr), &any, sizeof(any));
	assert_int_equal(fake_call(me, SYS_bind, (uint64_t)l, addr.v, sizeof(any)), 0);
	assert_int_equal(fake_call(me, SYS_listen, (uint64_t)l, 1), 0);
	*(int *)fake_ptr(g, family) = AF_INET;
	assert_int_equal(fake_call(me, SYS_setsockopt, (uint64_t)l, IPPROTO_IPV6, IPV6_ADDRFORM,
				 family.v, 4),
		-ENOTCONN);
	put_in(INADDR_LOOPBACK, port_of_fd(l));
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)c, addr.v, 16), 0);
	s = (int)fake_call(me, SYS_accept, (uint64_t)l, 0, 0);
	assert_int_equal(fake_call(me, SYS_setsockopt, (uint64_t)s, IPPROTO_IPV6, IPV6_ADDRFORM,
				 family.v, 4),
		0);
	/* Its port was the listener's: taken apart, it has none. */
	any.sin6_family = AF_UNSPEC;
	memcpy(fake_ptr(g, addr), &any, sizeof(any));
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)s, addr.v, 16), 0);
	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)s, addr.v, put_in(INADDR_LOOPBACK, 0)), 0);
}

struct cmsg_fd {
	uint64_t len;
	int32_t level, type, fd[4];
};

static long send_fds(int over, const int *fds, unsigned n)
{
	struct cmsg_fd c = { .len = 16 + n * 4, .level = SOL_SOCKET, .type = SCM_RIGHTS };
	struct iovec iov = { (void *)(uintptr_t)mem.v, 1 };
	struct msghdr h = { .msg_iovlen = 1, .msg_controllen = (16 + n * 4 + 7) & ~7u };

	memcpy(c.fd, fds, n * sizeof(int));
	h.msg_control = (void *)(uintptr_t)fake_put(g, &c, sizeof(c)).v;
	h.msg_iov = (void *)(uintptr_t)fake_put(g, &iov, sizeof(iov)).v;
	return fake_call(me, SYS_sendmsg, (uint64_t)over, fake_put(g, &h, sizeof(h)).v, 0);
}

static long recv_fd(int over, int *fd)
{
	struct cmsg_fd c;
	gva_t cp = fake_alloc(g, sizeof(c));
	struct iovec iov = { (void *)(uintptr_t)mem.v, 1 };
	struct msghdr h = {
		.msg_iovlen = 1, .msg_controllen = 24, .msg_control = (void *)(uintptr_t)cp.v
	};
	long r;

	h.msg_iov = (void *)(uintptr_t)fake_put(g, &iov, sizeof(iov)).v;
	r = fake_call(me, SYS_recvmsg, (uint64_t)over, fake_put(g, &h, sizeof(h)).v, 0);
	memcpy(&c, fake_ptr(g, cp), sizeof(c));
	*fd = c.fd[0];
	return r;
}

static void descriptors_travel(void **state)
{
	int s[2], p[2], got = -1;

	pair(SOCK_STREAM, s);
	pair(SOCK_STREAM, p);
	assert_int_equal(send_fds(s[0], &p[0], 1), 1);
	fd_close(me, p[0]);
	assert_int_equal(recv_fd(s[1], &got), 1);
	assert_true(got >= 0);
	assert_int_equal(send_text(me, got, "through", 0), 7);
	assert_int_equal(recv_n(me, p[1], 100, 0), 7);
	assert_int_equal(send_fds(s[0], (int[]){ 999 }, 1), -EBADF);
	assert_int_equal(g->k.sock->inflight, 0);
}

static void rings_of_sockets_are_collected(void **state)
{
	unsigned files = g->k.file_count, socks = g->k.sock ? g->k.sock->count : 0;
	int a[2], b[2];

	/* through itself */
	pair(SOCK_STREAM, a);
	assert_int_equal(send_fds(a[0], a, 2), 1);
	fd_close(me, a[0]);
	fd_close(me, a[1]);
	/* two through each other */
	pair(SOCK_STREAM, a);
	pair(SOCK_DGRAM, b);
	assert_int_equal(send_fds(a[0], b, 2), 1);
	assert_int_equal(send_fds(b[0], a, 2), 1);
	fd_close(me, a[0]);
	fd_close(me, a[1]);
	fd_close(me, b[0]);
	fd_close(me, b[1]);
	assert_int_equal(g->k.file_count, files);
	assert_int_equal(g->k.sock->count, socks);
	assert_int_equal(g->k.sock->inflight, 0);
	/* One that is still held from outside is not. */
	pair(SOCK_STREAM, a);
	pair(SOCK_STREAM, b);
	assert_int_equal(send_fds(a[0], &b[0], 1), 1);
	fd_close(me, b[0]);
	fd_close(me, b[1]);
	assert_int_equal(g->k.sock->inflight, 1);
	fd_close(me, a[0]);
	fd_close(me, a[1]);
	assert_int_equal(g->k.file_count, files);
}

static void a_long_chain_needs_no_stack(void **state)
{
	unsigned files = g->k.file_count;
	int prev[2], next[2];

	g->used = (g->used + 4095) & ~4095ULL;
	pair(SOCK_STREAM, prev);
	for (int i = 0; i < 5000; i++) {
		uint64_t mark = g->used;

		pair(SOCK_STREAM, next);
		assert_int_equal(send_fds(next[0], prev, 2), 1);
		fd_close(me, prev[0]);
		fd_close(me, prev[1]);
		memcpy(prev, next, sizeof(prev));
		g->used = mark;
	}
	fd_close(me, prev[0]);
	fd_close(me, prev[1]);
	assert_int_equal(g->k.file_count, files);
}

static void abstract_names(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "\0name" };
	int l = sock_new(AF_UNIX, SOCK_STREAM), c = sock_new(AF_UNIX, SOCK_STREAM);
	uint64_t len = offsetof(struct sockaddr_un, sun_path) + 5;

	memcpy(fake_ptr(g, addr), &un, sizeof(un));
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)c, addr.v, len), -ECONNREFUSED);
	assert_int_equal(fake_call(me, SYS_bind, (uint64_t)l, addr.v, len), 0);
	assert_int_equal(fake_call(me, SYS_bind, (uint64_t)c, addr.v, len), -EADDRINUSE);
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)c, addr.v, len), -ECONNREFUSED);
	assert_int_equal(fake_call(me, SYS_listen, (uint64_t)l, 1), 0);
	assert_int_equal(fake_call(me, SYS_connect, (uint64_t)c, addr.v, len), 0);
	fd_close(me, l);
	l = sock_new(AF_UNIX, SOCK_STREAM);
	assert_int_equal(fake_call(me, SYS_bind, (uint64_t)l, addr.v, len), 0);
	assert_int_equal(
		fake_call(me, SYS_bind, (uint64_t)c, addr.v, 2), 0); /* a name of our own */
}

static void netlink_knows_lo(void **state)
{
	struct {
		struct nlmsghdr h;
		struct rtgenmsg m;
	} q = { { sizeof(q), RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, 7, 0 }, { AF_UNSPEC } };
	struct nlmsghdr h;
	int s = sock_new(AF_NETLINK, SOCK_RAW);
	long n;

	memcpy(fake_ptr(g, mem), &q, sizeof(q));
	assert_int_equal(call6(me, SYS_sendto, (uint64_t)s, mem.v, sizeof(q), 0, 0, 0), sizeof(q));
	n = recv_n(me, s, 8192, 0);
	assert_true(n > 0);
	memcpy(&h, fake_ptr(g, mem), sizeof(h));
	assert_int_equal(h.nlmsg_type, RTM_NEWADDR);
	assert_int_equal(h.nlmsg_seq, 7);
	q.h.nlmsg_type = RTM_NEWADDR;
	memcpy(fake_ptr(g, mem), &q, sizeof(q));
	call6(me, SYS_sendto, (uint64_t)s, mem.v, sizeof(q), 0, 0, 0);
	n = recv_n(me, s, 8192, 0);
	memcpy(&h, fake_ptr(g, mem), sizeof(h));
	assert_int_equal(h.nlmsg_type, NLMSG_ERROR);
	/* lo is up: who says that it is to be is told yes. */
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} up = { { sizeof(up), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 8, 0 },
		{ .ifi_index = 1, .ifi_flags = 1, .ifi_change = 1 } };
	for (int flags = 1; flags >= 0; flags--) {
		int32_t e;

		up.i.ifi_flags = (unsigned)flags;
		memcpy(fake_ptr(g, mem), &up, sizeof(up));
		call6(me, SYS_sendto, (uint64_t)s, mem.v, sizeof(up), 0, 0, 0);
		assert_true(recv_n(me, s, 8192, 0) >= 20);
		memcpy(&e, (char *)fake_ptr(g, mem) + sizeof(h), sizeof(e));
		assert_int_equal(e, flags ? 0 : -EPERM);
	}
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(udp_lite),
		T(streams_keep_order),
		T(packets_keep_borders),
		T(a_full_stream_blocks_and_goes_on),
		T(tcp_connects),
		T(tcp_refuses_and_resets),
		T(a_full_backlog_waits),
		T(ports_conflict),
		T(udp_carries_and_refuses),
		T(tcp_holds_back),
		T(a_socket_changes_its_family),
		T(descriptors_travel),
		T(rings_of_sockets_are_collected),
		T(a_long_chain_needs_no_stack),
		T(abstract_names),
		T(netlink_knows_lo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
