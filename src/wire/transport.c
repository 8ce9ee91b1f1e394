/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/transport.c - bytes between a connection and its socket, plain or TLS.
 *
 * Owns:  nothing.
 * Rules: never waits. What the socket does not take stays in the queue, and @blocked says so. One
 *        call moves at most WIRE_TURN_BYTES, so that a fast peer does not starve the others.
 */
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/impl.h"

enum { IOV_PIECES = 16 };

/* A TLS call did not succeed: -EAGAIN when it waits for the socket, 0 at the end, or an error. */
static ssize_t tls_result(struct conn *c, int r, bool writing)
{
	int why = SSL_get_error(c->ssl, r);

	switch (why) {
	case SSL_ERROR_WANT_READ:
		c->tls_write_wants_read = writing;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		c->tls_read_wants_write = !writing;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		ERR_clear_error();
		return -ECONNRESET;
	}
}

ssize_t conn_read(struct conn *c, void *data, size_t len)
{
	ssize_t n;

	if (c->ssl) {
		int r;

		c->tls_read_wants_write = false;
		ERR_clear_error();
		r = SSL_read(c->ssl, data, (int)len);
		n = r > 0 ? r : tls_result(c, r, false);
	} else {
		n = recv(c->fd, data, len, MSG_DONTWAIT);
		if (n < 0)
			n = errno == EINTR ? -EAGAIN : -errno;
	}
	if (n > 0)
		c->server->stats.bytes_in += (uint64_t)n;
	return n;
}

bool conn_has_pending(const struct conn *c)
{
	/* Not SSL_has_pending(): half a record would count, and wake us for ever. */
	return c->ssl && SSL_pending(c->ssl) > 0;
}

static ssize_t tls_write(struct conn *c, const void *data, size_t len)
{
	int r;

	c->tls_write_wants_read = false;
	ERR_clear_error();
	r = SSL_write(c->ssl, data, len < INT_MAX ? (int)len : INT_MAX);
	if (r > 0)
		return r;
	r = (int)tls_result(c, r, true);
	return r == 0 ? -EPIPE : r;
}

/* From the memory at the front of the queue. */
static ssize_t send_memory(struct conn *c)
{
	struct iovec iov[IOV_PIECES];
	struct msghdr msg = { .msg_iov = iov };
	const struct out_piece *next = c->out.head;
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	ssize_t n;

	msg.msg_iovlen = (size_t)out_front(&c->out, iov, IOV_PIECES);
	if (c->ssl)
		return tls_write(c, iov[0].iov_base, iov[0].iov_len);
	for (size_t i = 0; i < msg.msg_iovlen; i++)
		next = next->next;
	if (next)
		flags |= MSG_MORE; /* a file, say, comes right behind it */
	n = sendmsg(c->fd, &msg, flags);
	return n < 0 ? -errno : n;
}

/* Through memory: for TLS, and for file systems that cannot do it otherwise. */
static ssize_t send_file_copied(struct conn *c, const struct out_piece *p)
{
	size_t want = p->len < WIRE_READ_BYTES ? (size_t)p->len : WIRE_READ_BYTES;
	ssize_t n = pread(p->fd, c->server->scratch, want, (off_t)p->offset);

	if (n <= 0)
		return n < 0 ? -errno : -ENODATA;
	if (c->ssl)
		return tls_write(c, c->server->scratch, (size_t)n);
	n = send(c->fd, c->server->scratch, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

static ssize_t send_file(struct conn *c)
{
	const struct out_piece *p = c->out.head;
	off_t at = (off_t)p->offset;
	ssize_t n;

	if (c->ssl)
		return send_file_copied(c, p);
	n = sendfile(
		c->fd, p->fd, &at, p->len < WIRE_TURN_BYTES ? (size_t)p->len : WIRE_TURN_BYTES);
	if (n < 0 && (errno == EINVAL || errno == ENOSYS))
		return send_file_copied(c, p);
	if (n == 0)
		return -ENODATA; /* shorter than it was */
	return n < 0 ? -errno : n;
}

int conn_flush(struct conn *c)
{
	size_t total = 0;

	while (!out_is_empty(&c->out) && !c->blocked && total < WIRE_TURN_BYTES) {
		ssize_t n = c->out.head->fd >= 0 ? send_file(c) : send_memory(c);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN) {
			c->blocked = true;
			return 0;
		}
		if (n < 0)
			return (int)n;
		out_gone(&c->out, (uint64_t)n);
		total += (size_t)n;
		c->server->stats.bytes_out += (uint64_t)n;
		c->out_ms = loop_now_ms(c->server->loop);
	}
	return 0;
}

int conn_handshake(struct conn *c)
{
	ssize_t n;
	int r;

	c->tls_read_wants_write = false;
	ERR_clear_error();
	r = SSL_accept(c->ssl);
	if (r == 1)
		return 1;
	n = tls_result(c, r, false);
	if (n == -EAGAIN)
		return 0;
	return n < 0 ? (int)n : -ECONNRESET;
}

void conn_shut(struct conn *c)
{
	if (c->shut)
		return;
	c->shut = true;
	if (c->ssl) {
		ERR_clear_error();
		SSL_shutdown(c->ssl);
	}
	shutdown(c->fd, SHUT_WR);
}
