/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/sockwalk.c - all sockets of a sandbox, saved and built again.
 *
 * Owns:  nothing.
 * Rules: a socket without a file lives by references of others. What is loaded gets references only
 *        where the end of a file or of a listener takes them back: a ring that nobody could undo is
 *        -EBADMSG. Files go in messages of unix sockets only, which sock/gc.c looks through.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/ns/net.h"
#include "tier/kernel/sock/sock.h"

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/walk.h"

enum { NOT_HASHED, BY_NAME, BY_PORT, ESTABLISHED };

static void drop_sock(void *p)
{
	sock_unref(p);
}

static void saddr_walk(struct walk *w, const char *name, struct saddr *a)
{
	uint32_t len = a->len;

	walk_count(w, name, &len, sizeof(a->raw));
	a->len = (uint16_t)len;
	walk_bytes(w, name, a->raw, sizeof(a->raw));
}

static void fields_walk(struct sock *s, struct walk *w)
{
	struct landlock *domain = s->landlock;
	bool channel = s->host || s->channel;

	walk_bool(w, "channel", &channel);
	ns_ref_walk(w, "net", NS_NET, &s->net);
	walk_ref(w, "landlock", WALK_LANDLOCK, (void **)&domain);
	walk_count(w, "conn", &s->conn, SOCK_CONNECTED);
	walk_bool(w, "closed", &s->closed);
	walk_bool(w, "fin_seen", &s->fin_seen);
	walk_bool(w, "conn_new", &s->conn_new);
	walk_bool(w, "conn_failed", &s->conn_failed);
	walk_bool(w, "auto_port", &s->auto_port);
	walk_count(w, "shut", &s->shut, SHUT_BOTH_BITS);
	walk_i32(w, "err", &s->err);
	walk_u32(w, "sndbuf", &s->sndbuf);
	walk_u32(w, "rcvbuf", &s->rcvbuf);
	walk_count(w, "backlog", &s->backlog, SOCK_BACKLOG_MAX);
	saddr_walk(w, "local", &s->local);
	saddr_walk(w, "remote", &s->remote);
	walk_bytes(w, "cred", &s->cred, sizeof(s->cred));
	walk_bytes(w, "peercred", &s->peercred, sizeof(s->peercred));
	walk_bool(w, "has_peercred", &s->has_peercred);
	walk_bool(w, "passcred", &s->passcred);
	walk_bool(w, "reuseaddr", &s->reuseaddr);
	walk_bool(w, "reuseport", &s->reuseport);
	walk_bool(w, "broadcast", &s->broadcast);
	walk_bool(w, "v6only", &s->v6only);
	walk_bool(w, "linger_on", &s->linger_on);
	walk_bool(w, "timestamp", &s->timestamp);
	walk_i32(w, "linger_s", &s->linger_s);
	walk_i64(w, "rcvtimeo", &s->rcvtimeo);
	walk_i64(w, "sndtimeo", &s->sndtimeo);
	walk_u32(w, "bind_uid", &s->bind_uid);
	walk_count(w, "opt_count", &s->opt_count, SOCK_OPTS_MAX);
	walk_bytes(w, "opts", s->opts, sizeof(s->opts));
	groups_walk(s, w);
	if (w->mode == WALK_SAVE)
		return;
	s->channel = channel;
	s->landlock = landlock_ref(domain);
	if (s->err < 0 || s->rcvtimeo < 0 || s->sndtimeo < 0)
		walk_fail(w, -EBADMSG);
}

static struct sock *make(struct kernel *k, int32_t kind[3], struct walk *w)
{
	int err = 0;
	struct sock *s = sock_create(k, kind[0], kind[1], kind[2], &err);

	if (!s) {
		walk_fail(w, err == -ENOBUFS ? -ENOMEM : -EBADMSG);
		return NULL;
	}
	walk_keep(w, s, drop_sock);
	if (!w->err)
		walk_number(w, WALK_SOCK, s);
	return w->err ? NULL : s;
}

void socks_walk(struct kernel *k, struct walk *w)
{
	struct sock_state *st = sock_state(k);
	struct sock *s = st ? st->all : NULL;
	uint32_t n = st ? st->count : 0;

	if (!st) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_u32(w, "next_port", &st->next_port);
	walk_u32(w, "next_auto", &st->next_auto);
	walk_list(w, "socks", &n, SOCKETS_MAX);
	while (s && s->all_next) /* the oldest first: that is how they are made */
		s = s->all_next;
	for (; n > 0 && !w->err; n--) {
		int32_t kind[3] = { s ? s->family : 0, s ? s->type : 0, s ? s->protocol : 0 };

		walk_bytes(w, "kind", kind, sizeof(kind));
		if (w->mode == WALK_SAVE) {
			walk_number(w, WALK_SOCK, s);
			fields_walk(s, w);
			s = s->all_prev;
		} else if (!w->err) {
			struct sock *made = make(k, kind, w);

			if (made)
				fields_walk(made, w);
		}
	}
}

static bool may_listen(const struct sock *s)
{
	return s->ops == &unix_stream_ops || s->ops == &unix_seqpacket_ops || s->ops == &tcp_ops;
}

/* Loading: is it such that its end undoes what hangs on it? */
static bool is_held(const struct sock *s)
{
	return s->file || s->listener;
}

/* Those that were not accepted yet: they have no file, and wait in one queue. */
static void acceptq_walk(struct sock *s, struct walk *w)
{
	struct sock *e = s->acceptq;
	uint32_t n = s->accept_count;

	walk_bool(w, "listening", &s->listening);
	if (!s->listening || w->err)
		return;
	if (w->mode == WALK_LOAD && (!may_listen(s) || !s->file)) {
		s->listening = false;
		walk_fail(w, -EBADMSG);
		return;
	}
	walk_list(w, "acceptq", &n, SOCK_BACKLOG_MAX + 1);
	for (; n > 0 && !w->err; n--) {
		struct sock *next = e ? e->accept_next : NULL;

		walk_need(w, "embryo", WALK_SOCK, (void **)&e);
		if (w->mode == WALK_LOAD && !w->err) {
			if (e->file || e->listener || e->ops != s->ops)
				walk_fail(w, -EBADMSG);
			else
				queue_embryo(s, sock_ref(e));
		}
		e = next;
	}
}

static void pending_walk(struct sock *s, struct walk *w)
{
	struct sock **last = &s->pending, *e;
	uint32_t n = 0;

	if (s->ops != &tcp_ops || !s->listening)
		return;
	for (e = s->pending; e; e = e->pend_next)
		n++;
	walk_list(w, "pending", &n, SOCKETS_MAX);
	for (; n > 0 && !w->err; n--) {
		e = *last;
		walk_need(w, "client", WALK_SOCK, (void **)&e);
		if (w->err)
			return;
		if (w->mode == WALK_LOAD) {
			if (!e->file || e->listener || e->ops != &tcp_ops ||
				e->conn != SOCK_CONNECTING) {
				walk_fail(w, -EBADMSG);
				return;
			}
			*last = sock_ref(e);
			e->listener = s;
		}
		last = &(*last)->pend_next;
	}
}

static void peer_walk(struct sock *s, struct walk *w)
{
	struct sock *p = s->peer;

	walk_ref(w, "peer", WALK_SOCK, (void **)&p);
	if (w->mode == WALK_SAVE || !p || w->err)
		return;
	if (!is_held(s) || p->family != s->family || p->type != s->type ||
		(s->family != AF_UNIX && s->ops != &tcp_ops) || s->channel)
		walk_fail(w, -EBADMSG);
	else
		s->peer = sock_ref(p);
}

static uint32_t hashed_where(const struct sock *s)
{
	if (!s->hashed)
		return NOT_HASHED;
	if (s->family == AF_UNIX)
		return BY_NAME;
	return s->type == SOCK_STREAM && inet_is_established(s) ? ESTABLISHED : BY_PORT;
}

static void name_walk(struct sock *s, struct walk *w)
{
	uint32_t where = hashed_where(s);
	struct inode *i = s->inode;
	bool bound = i && i->sock == s;

	walk_count(w, "hashed", &where, ESTABLISHED);
	walk_ref(w, "inode", WALK_INODE, (void **)&i);
	walk_bool(w, "bound", &bound);
	if (w->mode == WALK_SAVE || w->err)
		return;
	if (i)
		s->inode = inode_ref(i);
	if (where == BY_NAME) {
		if (s->family == AF_UNIX && s->file)
			abstract_rehash(s);
	} else if (where != NOT_HASHED && (s->family == AF_INET || s->family == AF_INET6)) {
		inet_rehash(s, where == ESTABLISHED && s->ops == &tcp_ops);
	}
	if (bound && i && s->family == AF_UNIX && s->file && !i->sock)
		i->sock = s;
	if ((where != NOT_HASHED && !s->hashed) || bound != (i && i->sock == s))
		walk_fail(w, -EBADMSG);
}

static void skb_walk(struct skb *b, struct walk *w)
{
	walk_bytes(w, "data", b->data + b->off, b->len);
	saddr_walk(w, "src", &b->src);
	walk_bytes(w, "cred", &b->scm.cred, sizeof(b->scm.cred));
	walk_bool(w, "has_cred", &b->scm.has_cred);
	walk_bytes(w, "ip", &b->scm.ip, sizeof(b->scm.ip));
	walk_ref(w, "owner", WALK_SOCK, (void **)&b->owner);
}

static void skb_load(struct sock *s, struct walk *w, uint32_t len, uint32_t files)
{
	struct skb *b = skb_create(len);
	struct scm *scm = b ? &b->scm : NULL;

	if (b && files)
		scm->files = calloc(files, sizeof(scm->files[0]));
	if (!b || (files && !scm->files)) {
		free(b);
		walk_fail(w, -ENOMEM);
		return;
	}
	b->len = len;
	skb_walk(b, w);
	for (uint32_t i = 0; i < files && !w->err; i++)
		walk_need(w, "file", WALK_FILE, (void **)&scm->files[i]);
	if (!w->err && b->owner && b->owner->ops != &unix_dgram_ops)
		walk_fail(w, -EBADMSG);
	if (!w->err) {
		scm->count = files;
		walk_fail(w, scm_send(s->k, scm));
	}
	if (w->err) {
		free(scm->files);
		free(b);
		return;
	}
	for (uint32_t i = 0; i < files; i++)
		file_ref(scm->files[i]);
	if (b->owner) {
		sock_ref(b->owner);
		b->owner->wmem += b->cap + SOCK_OVERHEAD;
	}
	sock_queue(s, b);
}

static void rx_walk(struct sock *s, struct walk *w)
{
	uint32_t n = s->rx_count;
	struct skb *b = s->rx;

	walk_list(w, "rx", &n, SOCK_BUF_MAX);
	if (w->mode == WALK_LOAD && n && (!is_held(s) || s->channel)) {
		walk_fail(w, -EBADMSG);
		return;
	}
	for (; n > 0 && !w->err; n--) {
		uint32_t len = b ? b->len : 0, files = b ? b->scm.count : 0;

		walk_list(w, "len", &len, SOCK_BUF_FORCED * 2);
		walk_list(w, "files", &files, s->family == AF_UNIX ? SCM_FDS_MAX : 0);
		if (w->mode == WALK_LOAD) {
			if (!w->err)
				skb_load(s, w, len, files);
			continue;
		}
		skb_walk(b, w);
		for (uint32_t i = 0; i < files; i++)
			walk_need(w, "file", WALK_FILE, (void **)&b->scm.files[i]);
		b = b->next;
	}
}

/* Where the urgent byte stands: in what has not been read. */
static void urgent_walk(struct sock *s, struct walk *w)
{
	walk_u64(w, "rx_seq", &s->rx_seq);
	walk_u64(w, "urg_seq", &s->urg_seq);
	walk_count(w, "urg", &s->urg, URG_TAKEN);
	walk_u8(w, "urg_byte", &s->urg_byte);
	if (s->urg && (s->ops != &tcp_ops || s->urg_seq - s->rx_seq >= s->rx_bytes)) {
		s->urg = URG_NONE;
		walk_fail(w, -EBADMSG);
	}
}

/* What is held back: a datagram, or the next bytes of a stream, whose time begins anew. */
static void cork_walk(struct sock *s, struct walk *w)
{
	uint32_t len = s->cork ? s->cork->len : 0;
	bool any = s->cork != NULL;

	walk_bool(w, "corked", &any);
	if (!any || w->err)
		return;
	walk_list(w, "cork", &len, UINT16_MAX);
	if (w->mode == WALK_LOAD && !w->err) {
		if ((s->ops != &udp_ops && s->ops != &tcp_ops) || !s->file)
			walk_fail(w, -EBADMSG);
		else if (s->ops == &tcp_ops && tcp_hold_on(s) < 0)
			walk_fail(w, -ENOMEM);
		else
			s->cork = skb_create(len);
	}
	if (!s->cork)
		walk_fail(w, -ENOMEM);
	if (w->err)
		return;
	s->cork->len = len;
	skb_walk(s->cork, w);
	if (s->cork->owner) {
		s->cork->owner = NULL;
		walk_fail(w, -EBADMSG);
	}
}

void socks_link_walk(struct kernel *k, struct walk *w)
{
	uint32_t count = walk_count_of(w, WALK_SOCK);

	for (uint32_t i = 1; i <= count && !w->err; i++)
		acceptq_walk(walk_get(w, WALK_SOCK, i), w);
	for (uint32_t i = 1; i <= count && !w->err; i++) {
		struct sock *s = walk_get(w, WALK_SOCK, i);

		pending_walk(s, w);
		name_walk(s, w);
	}
	for (uint32_t i = 1; i <= count && !w->err; i++) {
		struct sock *s = walk_get(w, WALK_SOCK, i);

		peer_walk(s, w);
		rx_walk(s, w);
		urgent_walk(s, w);
		cork_walk(s, w);
	}
}
