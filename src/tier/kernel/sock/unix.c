/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/unix.c - unix sockets: names, connections, datagrams.
 *
 * Owns:  the abstract names (sock_state.names) and inode->sock of bound paths.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/kernel/sock/sock.h"

#include "base/str.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/vfs.h"

enum { UN_HEAD = offsetof(struct sockaddr_un, sun_path), UN_MAX = sizeof(struct sockaddr_un) };

static uint32_t name_hash(const struct saddr *a)
{
	uint32_t h = 2166136261u;

	for (unsigned i = UN_HEAD; i < a->len; i++)
		h = (h ^ a->raw[i]) * 16777619u;
	return h % NAME_BUCKETS;
}

static bool is_abstract(const struct saddr *a)
{
	return a->len > UN_HEAD && a->un.sun_path[0] == '\0';
}

/* Each kind of socket has its own names. */
static struct sock *abstract_find(const struct sock *asker, const struct saddr *a)
{
	struct sock *s = asker->k->sock->names[name_hash(a)];

	while (s && (s->net != asker->net || s->type != asker->type || s->local.len != a->len ||
			    memcmp(s->local.raw, a->raw, a->len) != 0))
		s = s->hash_next;
	return s;
}

static void abstract_add(struct sock *s)
{
	struct sock **slot = &s->k->sock->names[name_hash(&s->local)];

	s->hash_next = *slot;
	*slot = s;
	s->hashed = true;
}

void abstract_rehash(struct sock *s)
{
	if (is_abstract(&s->local) && !abstract_find(s, &s->local))
		abstract_add(s);
}

static void unix_unname(struct sock *s)
{
	struct sock **p;

	if (s->inode && s->inode->sock == s)
		s->inode->sock = NULL;
	if (!s->hashed)
		return;
	p = &s->k->sock->names[name_hash(&s->local)];
	while (*p && *p != s)
		p = &(*p)->hash_next;
	if (*p)
		*p = s->hash_next;
	s->hashed = false;
}

/* A path of a sockaddr as a string: it may fill sun_path without a NUL. */
static int path_of(const struct saddr *a, char *buf, size_t cap)
{
	size_t n = strnlen(a->un.sun_path, (size_t)a->len - UN_HEAD);

	if (n + 1 > cap)
		return -EINVAL;
	memcpy(buf, a->un.sun_path, n);
	buf[n] = '\0';
	return 0;
}

static int bind_path(struct sock *s, struct task *t, const struct saddr *a)
{
	char path[sizeof(struct sockaddr_un) + 1];
	struct path at;
	/* Of the socket itself: fchmod(2) before bind(2) is how a name is made that is nobody
	 * else's. */
	uint32_t rights = s->file ? s->file->inode->mode & 0777 : 0777;
	int r = t->fs ? path_of(a, path, sizeof(path)) : -ENOENT;

	if (r < 0)
		return r;
	r = vfs_mknod(t, AT_FDCWD, path, S_IFSOCK | (rights & ~t->fs->umask), 0, &at);
	if (r < 0)
		return r == -EEXIST ? -EADDRINUSE : r;
	s->inode = inode_ref(at.dentry->inode);
	s->inode->sock = s;
	path_unref(at);
	s->local.len = (uint16_t)(UN_HEAD + strlen(path) + 1);
	s->local.family = AF_UNIX;
	memcpy(s->local.un.sun_path, path, strlen(path) + 1);
	return 0;
}

static int autobind(struct sock *s)
{
	struct sock_state *st = s->k->sock;

	for (unsigned i = 0; i <= 0xfffff; i++) {
		struct saddr a = { .len = UN_HEAD + 6 };
		char hex[8];

		st->next_auto = (st->next_auto + 1) & 0xfffff;
		a.family = AF_UNIX;
		str_fmt(hex, sizeof(hex), "%05x", st->next_auto);
		memcpy(a.un.sun_path + 1, hex, 5);
		if (abstract_find(s, &a))
			continue;
		s->local = a;
		abstract_add(s);
		return 0;
	}
	return -ENOSPC;
}

static bool named(const struct sock *s)
{
	return s->local.len > 0;
}

static int unix_bind(struct sock *s, struct task *t, const struct saddr *a)
{
	if (a->len < sizeof(sa_family_t) || a->len > UN_MAX || a->family != AF_UNIX)
		return -EINVAL;
	if (a->len == sizeof(sa_family_t))
		return named(s) ? -EINVAL : autobind(s);
	if (!is_abstract(a)) {
		if (named(s))
			return -EINVAL;
		return bind_path(s, t, a);
	}
	if (named(s))
		return -EINVAL;
	if (abstract_find(s, a))
		return -EADDRINUSE;
	s->local = *a;
	abstract_add(s);
	return 0;
}

/* The socket behind a name; no reference. */
static int unix_find(struct sock *s, struct task *t, const struct saddr *a, struct sock **ret)
{
	char path[sizeof(struct sockaddr_un) + 1];
	struct path at;
	int r;

	if (a->len < UN_HEAD + 1 || a->len > UN_MAX || a->family != AF_UNIX)
		return -EINVAL;
	if (is_abstract(a)) {
		*ret = abstract_find(s, a);
		if (!*ret)
			return -ECONNREFUSED;
		return landlock_scoped(t->cred->landlock, (*ret)->landlock, LANDLOCK_ABSTRACT)
			       ? -EPERM
			       : 0;
	}
	r = t->fs ? path_of(a, path, sizeof(path)) : -ENOENT;
	if (r == 0)
		r = vfs_walk(t, AT_FDCWD, path, LOOKUP_FOLLOW, &at);
	if (r < 0)
		return r;
	r = inode_permission(t, at.dentry->inode, W_OK);
	if (r == 0 && !S_ISSOCK(at.dentry->inode->mode))
		r = -ECONNREFUSED;
	*ret = at.dentry->inode->sock;
	path_unref(at);
	return r < 0 ? r : *ret ? 0 : -ECONNREFUSED;
}

static struct sock *make_embryo(struct sock *l, struct sock *client, struct task *t)
{
	int err;
	struct sock *e = sock_create(l->k, l->family, l->type, l->protocol, &err);
	struct gucred who = gucred_of(t);

	if (!e)
		return NULL;
	e->local = l->local; /* the name, not the binding */
	e->passcred = l->passcred;
	e->remote = client->local;
	client->remote = l->local;
	e->cred = l->cred;
	sock_set_peercred(e, &who);
	sock_set_peercred(client, &l->cred);
	sock_connect_pair(e, client);
	return e;
}

static long unix_connect(struct sock *s, struct task *t, const struct saddr *a, bool no_wait)
{
	struct sock *l, *e;
	long r = unix_find(s, t, a, &l);

	if (r < 0)
		return r;
	if (l->type != s->type)
		return -EPROTOTYPE;
	if (!l->listening || (l->shut & SHUT_RCV_BIT))
		return -ECONNREFUSED;
	if (s->conn == SOCK_CONNECTED)
		return -EISCONN;
	if (s->listening)
		return -EINVAL;
	if (l->accept_count > l->backlog) {
		if (no_wait)
			return -EAGAIN;
		if (t->call.first && s->sndtimeo)
			wait_set_timeout(t, s->sndtimeo);
		r = wait_on(t, &l->space, 0);
		return sock_wait_result(s, r < 0 ? r : wait_block(t), s->sndtimeo);
	}
	if (s->passcred && !named(s))
		autobind(s);
	e = make_embryo(l, s, t);
	if (!e)
		return -ENOMEM;
	queue_embryo(l, e);
	return 0;
}

static int unix_listen(struct sock *s, struct task *t, int backlog)
{
	if (!named(s))
		return -EINVAL;
	if (s->conn != SOCK_UNCONNECTED)
		return -EINVAL;
	if (backlog < 0 || backlog > SOCK_BACKLOG_MAX)
		backlog = SOCK_BACKLOG_MAX;
	if ((uint32_t)backlog > s->backlog)
		wait_wake(&s->space, 0);
	s->backlog = (uint32_t)backlog;
	s->listening = true;
	s->cred = gucred_of(t);
	return 0;
}

static int unix_name(struct sock *s, struct saddr *ret, bool peer)
{
	if (peer && s->conn != SOCK_CONNECTED)
		return -ENOTCONN;
	if (peer && s->type == SOCK_DGRAM && s->peer)
		*ret = s->peer->local;
	else
		*ret = peer ? s->remote : s->local;
	if (ret->len == 0) {
		ret->len = sizeof(sa_family_t);
		ret->family = AF_UNIX;
	}
	return 0;
}

static void unix_close(struct sock *s)
{
	unix_unname(s);
	if (s->listening)
		listener_close(s);
	if (s->type == SOCK_DGRAM) {
		struct sock *p = s->peer;

		s->peer = NULL;
		s->shut = SHUT_BOTH_BITS;
		/* Those connected to us find out when they send. */
		wait_wake(&s->wait, 0);
		wait_wake(&s->space, 0);
		sock_unref(p);
		return;
	}
	sock_disconnect(s, s->rx != NULL);
}

int unix_pair(struct kernel *k, struct sock *a, struct sock *b)
{
	sock_connect_pair(a, b);
	return 0;
}

/* Datagrams */

static long dgram_connect(struct sock *s, struct task *t, const struct saddr *a, bool no_wait)
{
	struct sock *to = NULL, *old = s->peer;
	int r;

	if (a->len < sizeof(sa_family_t))
		return -EINVAL;
	if (a->family != AF_UNSPEC) {
		r = unix_find(s, t, a, &to);
		if (r < 0)
			return r;
		if (to->type != s->type)
			return -EPROTOTYPE;
		if (to->peer && to->peer != s)
			return -EPERM; /* it listens to another */
		if (s->passcred && !named(s))
			autobind(s);
	}
	s->peer = to ? sock_ref(to) : NULL;
	s->conn = to ? SOCK_CONNECTED : SOCK_UNCONNECTED;
	if (to)
		s->remote = to->local;
	sock_unref(old);
	wait_wake(&s->wait, 0);
	return 0;
}

/* One message into @to's queue. */
static ssize_t put_message(struct sock *s, struct sock *to, struct uio *io, struct msg_out *m)
{
	size_t len = io->left;
	struct skb *b = skb_create(len);
	ssize_t r;
	int e;

	if (!b)
		return -ENOBUFS;
	if (len) {
		r = uio_in(io, b->data, len);
		if (r < (ssize_t)len) {
			free(b);
			return -EFAULT;
		}
	}
	if (m->scm->count) {
		e = scm_send(s->k, m->scm);
		if (e < 0) {
			free(b);
			return e;
		}
	}
	b->len = (uint32_t)len;
	b->scm = *m->scm;
	m->scm->files = NULL;
	m->scm->count = 0;
	if (named(s))
		b->src = s->local;
	b->owner = sock_ref(s);
	s->wmem += b->cap + SOCK_OVERHEAD;
	sock_queue(to, b);
	wait_wake(&to->wait, POLLIN | POLLRDNORM);
	return (ssize_t)len;
}

static int dgram_target(struct sock *s, struct task *t, struct msg_out *m, struct sock **ret)
{
	int r;

	if (m->to) {
		r = unix_find(s, t, m->to, ret);
		if (r < 0)
			return r;
	} else {
		*ret = s->peer;
		if (!*ret)
			return s->conn == SOCK_CONNECTED ? -ECONNREFUSED : -ENOTCONN;
	}
	if ((*ret)->closed) { /* the one we were connected to is gone */
		if (!m->to) {
			sock_unref(s->peer);
			s->peer = NULL;
			s->conn = SOCK_UNCONNECTED;
		}
		return -ECONNREFUSED;
	}
	if ((*ret)->type != s->type)
		return -EPROTOTYPE;
	if ((*ret)->peer && (*ret)->peer != s)
		return -EPERM;
	return 0;
}

static ssize_t dgram_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m)
{
	struct sock *to;
	int r;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (s->shut & SHUT_SEND_BIT)
		return sock_broken(t, m->flags);
	if (s->passcred && !named(s))
		autobind(s);
	if (io->left > (uint64_t)s->sndbuf - 32)
		return -EMSGSIZE;
	r = sock_take_error(s);
	if (r == 0)
		r = dgram_target(s, t, m, &to);
	if (r < 0)
		return r;
	if (to->shut & SHUT_RCV_BIT)
		return sock_broken(t, m->flags);
	if (s->wmem >= s->sndbuf) /* one that fits in part goes whole */
		return -EAGAIN;
	if (to->rx_count > SOCK_DGRAM_QUEUE && to->peer != s) {
		m->wait = &to->space;
		return -EAGAIN;
	}
	return put_message(s, to, io, m);
}

static unsigned dgram_poll(struct sock *s, struct poll_reg *reg)
{
	unsigned r = s->err ? POLLERR : 0;

	poll_wait(reg, &s->wait);
	if (s->rx || (s->shut & SHUT_RCV_BIT))
		r |= POLLIN | POLLRDNORM;
	if (s->shut & SHUT_RCV_BIT)
		r |= POLLRDHUP;
	if (s->shut == SHUT_BOTH_BITS)
		r |= POLLHUP;
	if (s->wmem * 4 > s->sndbuf)
		return r;
	if (s->peer && s->peer->peer != s) {
		poll_wait(reg, &s->peer->space);
		if (s->peer->rx_count > SOCK_DGRAM_QUEUE)
			return r;
	}
	return r | POLLOUT | POLLWRNORM | POLLWRBAND;
}

static int dgram_shutdown(struct sock *s, int how)
{
	s->shut |= how == SHUT_RD ? SHUT_RCV_BIT : how == SHUT_WR ? SHUT_SEND_BIT : SHUT_BOTH_BITS;
	wait_wake(&s->wait, 0);
	wait_wake(&s->space, 0);
	return 0;
}

static int dgram_listen(struct sock *s, struct task *t, int backlog)
{
	return -EOPNOTSUPP;
}

static int dgram_accept(struct sock *s, struct sock **ret)
{
	return -EOPNOTSUPP;
}

/* Connected messages */

static ssize_t seq_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m)
{
	struct sock *to = s->peer;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (s->conn != SOCK_CONNECTED)
		return -ENOTCONN;
	if ((s->shut & SHUT_SEND_BIT) || !to || (to->shut & SHUT_RCV_BIT))
		return sock_broken(t, m->flags);
	if (io->left > (uint64_t)s->sndbuf - 32)
		return -EMSGSIZE;
	if (s->wmem >= s->sndbuf) /* one that fits in part goes whole */
		return -EAGAIN;
	return put_message(s, to, io, m);
}

static ssize_t seq_recv(struct sock *s, struct task *t, struct uio *io, struct msg_in *m)
{
	if (s->conn != SOCK_CONNECTED || s->listening)
		return -ENOTCONN;
	return dgram_recv(s, t, io, m);
}

static unsigned seq_poll(struct sock *s, struct poll_reg *reg)
{
	unsigned r = stream_poll(s, reg);

	if (!s->listening && !(s->shut & SHUT_SEND_BIT) && s->wmem * 4 > s->sndbuf)
		r &= ~(unsigned)(POLLOUT | POLLWRNORM | POLLWRBAND);
	return r;
}

const struct sock_ops unix_stream_ops = {
	.bind = unix_bind,
	.connect = unix_connect,
	.listen = unix_listen,
	.accept = queue_accept,
	.send = stream_send,
	.recv = stream_recv,
	.shutdown = stream_shutdown,
	.poll = stream_poll,
	.name = unix_name,
	.close = unix_close,
};

const struct sock_ops unix_dgram_ops = {
	.bind = unix_bind,
	.connect = dgram_connect,
	.listen = dgram_listen,
	.accept = dgram_accept,
	.send = dgram_send,
	.recv = dgram_recv,
	.shutdown = dgram_shutdown,
	.poll = dgram_poll,
	.name = unix_name,
	.close = unix_close,
};

const struct sock_ops unix_seqpacket_ops = {
	.bind = unix_bind,
	.connect = unix_connect,
	.listen = unix_listen,
	.accept = queue_accept,
	.send = seq_send,
	.recv = seq_recv,
	.shutdown = stream_shutdown,
	.poll = seq_poll,
	.name = unix_name,
	.close = unix_close,
};
