/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sock/show.c - the sockets of one network, as /proc/net lists them.
 *
 * Owns:  the lines. Linux' columns, of which what says something about its insides is 0.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/str.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/ns.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/inode.h"

enum { ESTABLISHED = 1, SYN_SENT = 2, FIN_WAIT2 = 5, CLOSE = 7, CLOSE_WAIT = 8, LISTEN = 10 };
enum { TCP_LINE = 149, UDP_LINE = 127 }; /* lines are of one length */

unsigned sock_tcp_state(const struct sock *s)
{
	if (s->listening)
		return LISTEN;
	if (s->conn == SOCK_CONNECTING)
		return SYN_SENT;
	if (s->conn != SOCK_CONNECTED || s->shut == SHUT_BOTH_BITS)
		return CLOSE;
	if (s->shut & SHUT_RCV_BIT)
		return CLOSE_WAIT;
	return s->shut & SHUT_SEND_BIT ? FIN_WAIT2 : ESTABLISHED;
}

static unsigned long long ino_of(const struct sock *s)
{
	return s->file ? (unsigned long long)s->file->inode->ino : 0;
}

/* What has come and was not read; TCP counts the end of the stream. */
static unsigned waiting(const struct sock *s, unsigned state)
{
	if (s->listening)
		return s->accept_count;
	return (unsigned)s->rx_bytes + (s->type == SOCK_STREAM && state == CLOSE_WAIT);
}

/* Each four bytes as a number of this machine, and the port. */
static void show_addr(const struct sock *s, const struct saddr *a, struct buf *out)
{
	uint32_t words[4];

	memcpy(words, &a->in6.sin6_addr, sizeof(words));
	for (unsigned i = s->family == AF_INET ? 3 : 0; i < 4; i++)
		buf_add_fmt(out, "%08X", words[i]);
	buf_add_fmt(out, ":%04X", ntohs(a->in6.sin6_port));
}

static void show_inet(const struct task *reader, const struct sock *s, unsigned n, unsigned state,
	struct buf *out)
{
	const struct saddr none = { 0 };
	bool tcp = s->type == SOCK_STREAM;
	size_t start = out->len;

	buf_add_fmt(out, tcp ? "%4u: " : "%5u: ", n);
	show_addr(s, &s->local, out);
	buf_add_str(out, " ");
	show_addr(s, s->conn == SOCK_UNCONNECTED ? &none : &s->remote, out);
	buf_add_fmt(out, " %02X %08X:%08X 00:00000000 00000000 %5u        0 %llu 1 %016X", state,
		tcp ? (s->peer ? (unsigned)s->peer->rx_bytes : 0) : s->wmem, waiting(s, state),
		uid_out(reader, s->bind_uid), ino_of(s), 0);
	buf_add_str(out, tcp ? " 100 0 0 10 0" : " 0");
	while (!out->bad && out->len - start < (tcp ? TCP_LINE : UDP_LINE))
		buf_add_str(out, " ");
	buf_add_str(out, "\n");
}

static bool seen_by(const struct task *reader, const struct sock *s)
{
	return s->net == ns_of(reader, NS_NET);
}

void socks_show_inet(const struct task *reader, int family, int type, struct buf *out)
{
	const struct sock_state *st = reader->k->sock;
	unsigned n = 0;

	for (const struct sock *s = st ? st->all : NULL; s; s = s->all_next) {
		unsigned state = type == SOCK_STREAM         ? sock_tcp_state(s)
				 : s->conn == SOCK_CONNECTED ? ESTABLISHED
							     : CLOSE;

		if (s->family != family || s->type != type || !seen_by(reader, s))
			continue;
		if (s->protocol == IPPROTO_UDPLITE ||
			(type == SOCK_STREAM ? state == CLOSE : !s->local.in6.sin6_port))
			continue; /* it has no place where others could find it */
		show_inet(reader, s, n++, state, out);
	}
}

/* Bytes that would break the line are shown as "?"; an abstract name's begin is "@". */
static void show_name(const struct saddr *a, struct buf *out)
{
	size_t head = offsetof(struct sockaddr_un, sun_path);
	bool abstract = a->len > head && !a->un.sun_path[0];

	if (a->len <= head)
		return;
	buf_add_str(out, " ");
	for (size_t i = 0; i < a->len - head; i++) {
		char c = a->un.sun_path[i];

		if (!c && !abstract)
			break;
		buf_add(out, !c ? "@" : c == '\n' ? "?" : &c, 1);
	}
}

void socks_show_unix(const struct task *reader, struct buf *out)
{
	enum { ACCEPTS = 0x10000, UNCONNECTED = 1, CONNECTING = 2, CONNECTED = 3 };
	const struct sock_state *st = reader->k->sock;

	for (const struct sock *s = st ? st->all : NULL; s; s = s->all_next) {
		if (s->family != AF_UNIX || !seen_by(reader, s))
			continue;
		buf_add_fmt(out, "%016X: %08X %08X %08X %04X %02X %5llu", 0, s->refs, 0,
			s->listening ? ACCEPTS : 0, (unsigned)s->type,
			s->conn == SOCK_CONNECTED ? CONNECTED
			: s->file                 ? UNCONNECTED
						  : CONNECTING,
			ino_of(s));
		show_name(&s->local, out);
		buf_add_str(out, "\n");
	}
}

static unsigned count(const struct task *reader, int family, int type)
{
	const struct sock_state *st = reader->k->sock;
	unsigned n = 0;

	for (const struct sock *s = st ? st->all : NULL; s; s = s->all_next)
		n += seen_by(reader, s) && s->file && (!family || s->family == family) &&
		     (!type || s->type == type);
	return n;
}

void socks_show_counts(const struct task *reader, struct buf *out)
{
	buf_add_fmt(out,
		"sockets: used %u\nTCP: inuse %u orphan 0 tw 0 alloc %u mem 0\nUDP: inuse %u mem "
		"0\nUDPLITE: inuse 0\nRAW: inuse 0\nFRAG: inuse 0 memory 0\n",
		count(reader, 0, 0), count(reader, AF_INET, SOCK_STREAM),
		count(reader, AF_INET, SOCK_STREAM), count(reader, AF_INET, SOCK_DGRAM));
}
