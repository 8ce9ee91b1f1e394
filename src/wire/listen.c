/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/listen.c - sockets that wait for connections.
 *
 * Owns:  the listeners, and the names of unix sockets that they made.
 * Rules: a listener accepts a bounded number in one turn. When descriptors run out, all of them
 * rest for a moment instead of spinning.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "wire/impl.h"
#include "wire/listen.h"

enum { BACKLOG = 4096 };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un un;
	struct sockaddr_storage room;
};

static bool is_loopback6(const struct in6_addr *a)
{
	if (IN6_IS_ADDR_V4MAPPED(a))
		return a->s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(a);
}

static void peer_fill(struct wire_peer *p, int fd, const union address *a)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	int on = 1;

	*p = (struct wire_peer){ .uid = (uid_t)-1, .gid = (gid_t)-1 };
	if (a->any.sa_family == AF_UNIX) {
		p->is_unix = true;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0) {
			p->uid = who.uid;
			p->gid = who.gid;
			p->pid = who.pid;
		}
		return;
	}
	/* Replies are written whole; waiting for more only adds delay. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (a->any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &a->v4.sin_addr, p->addr, sizeof(p->addr));
		p->port = ntohs(a->v4.sin_port);
		p->is_loopback = ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	} else if (a->any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a->v6.sin6_addr, p->addr, sizeof(p->addr));
		p->port = ntohs(a->v6.sin6_port);
		p->is_loopback = is_loopback6(&a->v6.sin6_addr);
	}
}

void listeners_resume(struct wire_server *s)
{
	s->accept_off = false;
	loop_timer_cancel(&s->accept_retry);
	for (struct listener *l = s->listeners; l; l = l->next)
		loop_fd_mod(&l->watch, EPOLLIN);
}

static void retry_work(void *ctx)
{
	listeners_resume(ctx);
}

static void listeners_rest(struct wire_server *s)
{
	s->accept_off = true;
	for (struct listener *l = s->listeners; l; l = l->next)
		loop_fd_mod(&l->watch, 0);
	/* Without a timer, the next connection that ends wakes them. */
	loop_timer_set(s->loop, &s->accept_retry, WIRE_ACCEPT_RETRY_MS, retry_work, s);
}

static void welcome(struct listener *l, int fd, const union address *a)
{
	struct wire_peer peer;
	struct ssl_st *ssl = NULL;

	peer_fill(&peer, fd, a);
	if (l->tls) {
		ssl = tls_accept(l->tls, fd);
		peer.is_tls = true;
	}
	if ((l->tls && !ssl) || conn_create(l->server, fd, &peer, ssl) < 0) {
		tls_free(ssl);
		close(fd);
		return;
	}
	l->server->stats.accepted++;
}

static void accept_work(void *ctx, uint32_t events)
{
	struct listener *l = ctx;
	struct wire_server *s = l->server;

	(void)events;
	for (int i = 0; i < WIRE_ACCEPTS_PER_TURN; i++) {
		union address a = { 0 };
		socklen_t len = sizeof(a);
		int fd;

		if (server_is_full(s) && !s->idle_old) {
			listeners_rest(s);
			return;
		}
		fd = accept4(l->fd, &a.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			/* Only now: nobody makes room for one who has not come. */
			if (server_is_full(s))
				server_drop_idle(s);
			welcome(l, fd, &a);
			continue;
		}
		if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO)
			continue;
		if (errno == EAGAIN)
			return;
		/* No descriptor, or no memory: one that is idle makes room. */
		if (!server_drop_idle(s)) {
			listeners_rest(s);
			return;
		}
	}
}

static void listener_free(struct listener *l)
{
	struct stat st;

	loop_fd_remove(&l->watch);
	close(l->fd);
	/* Only if it is still ours: another server may have taken the name. */
	if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->path);
	free(l->path);
	free(l);
}

void listeners_close(struct wire_server *s)
{
	loop_timer_cancel(&s->accept_retry);
	while (s->listeners) {
		struct listener *l = s->listeners;

		s->listeners = l->next;
		listener_free(l);
	}
}

static int listener_add(struct wire_server *s, int fd, struct wire_tls *tls, struct err *e)
{
	struct listener *l = calloc(1, sizeof(*l));
	int r;

	if (!l) {
		close(fd);
		return err_set(e, ENOMEM, "listening");
	}
	l->server = s;
	l->fd = fd;
	l->tls = tls;
	r = loop_fd_add(s->loop, &l->watch, fd, EPOLLIN, accept_work, l, e);
	if (r < 0) {
		listener_free(l);
		return r;
	}
	l->next = s->listeners;
	s->listeners = l;
	return 0;
}

int wire_listen_fd(struct wire_server *s, int fd, struct wire_tls *tls, struct err *e)
{
	int on = 0;
	socklen_t len = sizeof(on);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) < 0 || !on) {
		close(fd);
		return err_say(e, EINVAL, "descriptor %d is not a listening socket", fd);
	}
	return listener_add(s, fd, tls, e);
}

/* Does anyone listen there? If not, its name is a leftover and goes. */
static int clear_path(const struct sockaddr_un *un, struct err *e)
{
	own_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct stat st;

	if (fd < 0)
		return err_set(e, errno, "socket");
	if (lstat(un->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "looking at '%s'", un->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return err_say(e, EEXIST, "'%s' is there and is not a socket", un->sun_path);
	if (connect(fd, (const struct sockaddr *)un, sizeof(*un)) == 0 || errno == EAGAIN)
		return err_say(e, EADDRINUSE, "somebody listens on '%s' already", un->sun_path);
	if (unlink(un->sun_path) < 0 && errno != ENOENT)
		return err_set(e, errno, "removing the old socket '%s'", un->sun_path);
	return 0;
}

static int bind_unix(int fd, const struct sockaddr_un *un, mode_t mode, struct err *e)
{
	mode_t before = umask(0777 & ~mode);
	int r = bind(fd, (const struct sockaddr *)un, sizeof(*un));

	umask(before);
	if (r < 0)
		return err_set(e, errno, "binding '%s'", un->sun_path);
	if (listen(fd, BACKLOG) < 0) {
		r = err_set(e, errno, "listening on '%s'", un->sun_path);
		unlink(un->sun_path);
		return r;
	}
	return 0;
}

int wire_listen_unix(struct wire_server *s, const char *path, mode_t mode, struct err *e)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	own_fd int fd = -1;
	own_mem char *copy = strdup(path);
	struct stat st;
	int r = str_copy(un.sun_path, sizeof(un.sun_path), path);

	if (r < 0)
		return err_say(e, ENAMETOOLONG, "'%s' is too long for a socket, at most %zu bytes",
			path, sizeof(un.sun_path) - 1);
	if (!copy)
		return err_set(e, ENOMEM, "listening on '%s'", path);
	r = clear_path(&un, e);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, errno, "socket for '%s'", path);
	r = bind_unix(fd, &un, mode, e);
	if (r < 0)
		return r;
	r = listener_add(s, take_fd(&fd), NULL, e);
	if (r < 0 || lstat(path, &st) < 0) {
		unlink(path);
		return r;
	}
	s->listeners->path = take_ptr(&copy);
	s->listeners->dev = st.st_dev;
	s->listeners->ino = st.st_ino;
	return 0;
}

static socklen_t parse_host(const char *host, uint16_t port, union address *ret)
{
	if (inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(port);
		return sizeof(ret->v4);
	}
	if (inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1) {
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons(port);
		return sizeof(ret->v6);
	}
	return 0;
}

static uint16_t port_of(int fd)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);

	if (getsockname(fd, &a.any, &len) < 0)
		return 0;
	return ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
}

int wire_listen_tcp(struct wire_server *s, const char *host, uint16_t port, struct wire_tls *tls,
	uint16_t *ret_port, struct err *e)
{
	union address a = { 0 };
	socklen_t len = parse_host(host, port, &a);
	own_fd int fd = -1;
	uint16_t got;
	int on = 1, r;

	if (!len)
		return err_say(e, EINVAL, "'%s' is not a numeric address", host);
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, errno, "socket for %s", host);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, &a.any, len) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, errno, "listening on %s port %u", host, port);
	got = port_of(fd);
	r = listener_add(s, take_fd(&fd), tls, e);
	if (r == 0 && ret_port)
		*ret_port = got;
	return r;
}
