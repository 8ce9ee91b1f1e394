/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/wire/dial.c - the test server's proxy: /proxy/PORT/... to a port of this machine.
 *
 * The stream is a socket that behaves like an agent's: it reads no more than a window ahead of what
 * was dealt with.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "echo.h"
#include "wire/proxy.h"

enum { WINDOW = 64 * 1024 };

struct far {
	struct loop *loop;
	struct loop_fd watch;
	struct wire_proxy *proxy;
	size_t open; /* pushed and not taken */
	bool wants_write, eof;
};

static void far_watch(struct far *f)
{
	loop_fd_mod(&f->watch, (f->open < WINDOW && !f->eof ? (uint32_t)EPOLLIN : 0) |
				       (f->wants_write ? (uint32_t)EPOLLOUT : 0));
}

static ssize_t far_write(void *io, const void *data, size_t len)
{
	struct far *f = io;
	ssize_t n = send(f->watch.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n >= 0)
		return n;
	if (errno != EAGAIN && errno != EINPROGRESS && errno != ENOTCONN)
		return -errno;
	f->wants_write = true;
	far_watch(f);
	return 0;
}

static void far_took(void *io, size_t bytes)
{
	struct far *f = io;

	f->open -= bytes;
	far_watch(f);
}

static void far_shut(void *io)
{
	struct far *f = io;

	shutdown(f->watch.fd, SHUT_WR);
}

static void far_close(void *io)
{
	struct far *f = io;
	int fd = f->watch.fd;

	loop_fd_remove(&f->watch);
	close(fd);
	free(f);
}

static const struct wire_stream_ops far_ops = {
	.write = far_write, .took = far_took, .shut = far_shut, .close = far_close
};

static void far_read(struct far *f)
{
	char data[16 * 1024];
	ssize_t n = recv(f->watch.fd, data, sizeof(data), MSG_DONTWAIT);

	if (n > 0) {
		f->open += (size_t)n;
		wire_proxy_input(f->proxy, data, (size_t)n);
	} else if (n == 0) {
		f->eof = true;
		wire_proxy_eof(f->proxy);
	} else if (errno != EAGAIN) {
		f->eof = true;
		wire_proxy_failed(f->proxy, "the far side is gone");
	}
}

static void far_work(void *ctx, uint32_t events)
{
	struct far *f = ctx;

	if (events & EPOLLOUT) {
		f->wants_write = false;
		wire_proxy_writable(f->proxy);
	}
	if (events & EPOLLIN)
		far_read(f);
	else if ((events & (EPOLLERR | EPOLLHUP)) && !f->eof)
		far_read(f);
	if (f->eof && (events & EPOLLHUP))
		loop_fd_remove(&f->watch); /* nothing to hear any more; the fd stays for close */
	else
		far_watch(f);
}

static int dial(struct far *f, unsigned port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS) {
		close(fd);
		return -ECONNREFUSED;
	}
	if (loop_fd_add(f->loop, &f->watch, fd, EPOLLIN, far_work, f, NULL) < 0) {
		close(fd);
		return -ENOMEM;
	}
	return 0;
}

void on_proxy(struct call *c)
{
	static const char *const drop[] = { "X-Secret", NULL };
	static const char *const add[] = { "X-Forwarded-Proto", "http", NULL };
	const char *host = query_get(&c->query, "host");
	struct wire_proxy_options options = { .host = host,
		.drop = drop,
		.add = add,
		.head_ms = call_number(c, "head_ms", 0),
		.body_max = call_number(c, "body_max", 0) };
	struct echo *echo = c->echo;
	struct wire_req *q = c->q;
	struct far *f = calloc(1, sizeof(*f));
	char *rest;
	unsigned long port = strtoul(wire_path_raw(q) + strlen("/proxy/"), &rest, 10);

	if (!f) {
		wire_reply_text(q, 503, "no memory");
		return;
	}
	f->loop = echo->loop;
	if (dial(f, (unsigned)port) < 0) {
		free(f);
		wire_reply_text(q, 502, "cannot dial");
		return;
	}
	snprintf(c->text, sizeof(c->text), "%s?%s", *rest ? rest : "/", wire_query(q));
	options.target = c->text;
	if (wire_proxy_start(q, &far_ops, f, &options, &f->proxy, NULL) < 0) {
		far_close(f);
		wire_reply_text(q, 500, "cannot pass it on");
		return;
	}
	/* The request is the proxy's now, and so the call ends here. */
	query_done(&c->query);
	free(c);
}
