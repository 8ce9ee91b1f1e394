/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/sock.c - sockets as files: birth, death, read, write, poll.
 *
 * Owns:  struct sock from create to the last reference; kernel.sock.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sock/sock.h"

#include "base/str.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/walk.h"

struct sock_state *sock_state(struct kernel *k)
{
	if (!k->sock) {
		k->sock = calloc(1, sizeof(*k->sock));
		if (k->sock)
			k->sock->next_port = (uint32_t)(kernel_now(k) >> 10) % 28232;
	}
	return k->sock;
}

void sock_done(struct kernel *k)
{
	if (!k->sock)
		return;
	/* What is left hangs in rings of messages that nobody can reach. */
	unix_gc(k);
	ktimer_clear(k, &k->sock->gc_timer);
	skb_cache_done(k->sock);
	free(k->sock->dying);
	free(k->sock);
	k->sock = NULL;
}

static int ops_for(int family, int type, int *protocol, const struct sock_ops **ret)
{
	static const struct {
		int family, type, protocol;
		const struct sock_ops *ops;
	} kinds[] = {
		{ AF_UNIX, SOCK_STREAM, 0, &unix_stream_ops },
		{ AF_UNIX, SOCK_DGRAM, 0, &unix_dgram_ops },
		{ AF_UNIX, SOCK_RAW, 0, &unix_dgram_ops },
		{ AF_UNIX, SOCK_SEQPACKET, 0, &unix_seqpacket_ops },
		{ AF_INET, SOCK_STREAM, IPPROTO_TCP, &tcp_ops },
		{ AF_INET6, SOCK_STREAM, IPPROTO_TCP, &tcp_ops },
		{ AF_INET, SOCK_DGRAM, IPPROTO_UDP, &udp_ops },
		{ AF_INET6, SOCK_DGRAM, IPPROTO_UDP, &udp_ops },
		{ AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE, &udp_ops },
		{ AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE, &udp_ops },
		{ AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, &netlink_ops },
		{ AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE, &netlink_ops },
	};
	bool family_known = false, type_known = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].family != family)
			continue;
		family_known = true;
		if (kinds[i].type != type)
			continue;
		type_known = true;
		if (*protocol == 0 || *protocol == kinds[i].protocol ||
			(family == AF_UNIX && *protocol == PF_UNIX)) {
			*protocol = kinds[i].protocol;
			*ret = kinds[i].ops;
			return 0;
		}
	}
	if (!family_known)
		return -EAFNOSUPPORT;
	if (family != AF_UNIX && family != AF_NETLINK && type == SOCK_RAW)
		return *protocol ? -EPERM : -EPROTONOSUPPORT;
	return type_known ? -EPROTONOSUPPORT : -ESOCKTNOSUPPORT;
}

struct sock *sock_create(struct kernel *k, int family, int type, int protocol, int *ret_err)
{
	struct sock_state *st = sock_state(k);
	const struct sock_ops *ops;
	struct sock *s;

	*ret_err = -ENOBUFS;
	if (!st || st->count >= SOCKETS_MAX)
		return NULL;
	*ret_err = ops_for(family, type, &protocol, &ops);
	if (*ret_err < 0)
		return NULL;
	*ret_err = -ENOBUFS;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->refs = 1;
	s->k = k;
	s->ops = ops;
	s->net = ns_ref(k->acting ? ns_of(k->acting, NS_NET) : NULL);
	s->family = family;
	s->type = type == SOCK_RAW && family == AF_UNIX ? SOCK_DGRAM : type;
	s->protocol = protocol;
	s->sndbuf = s->rcvbuf = SOCK_BUF_DEFAULT;
	s->local.in6.sin6_family = s->remote.in6.sin6_family = AF_INET6; /* the inside form */
	st->count++;
	s->all_next = st->all;
	if (st->all)
		st->all->all_prev = s;
	st->all = s;
	return s;
}

struct sock *sock_ref(struct sock *s)
{
	s->refs++;
	return s;
}

void sock_unref(struct sock *s)
{
	struct sock_state *st;

	if (!s || --s->refs)
		return;
	st = s->k->sock;
	s->refs = 1; /* purging may look at it */
	sock_purge(s);
	ktimer_clear(s->k, &s->held_timer);
	if (s->cork)
		skb_free(s->k, s->cork);
	if (s->hashed)
		inet_unhash(s);
	wait_flush(&s->wait);
	wait_flush(&s->space);
	if (s->all_prev)
		s->all_prev->all_next = s->all_next;
	else
		st->all = s->all_next;
	if (s->all_next)
		s->all_next->all_prev = s->all_prev;
	st->count--;
	inode_unref(s->inode);
	free(s->groups);
	landlock_unref(s->landlock);
	ns_unref(s->net);
	free(s);
}

struct sock *sock_of(const struct file *f)
{
	return f->ops == &socket_ops ? f->priv : NULL;
}

struct file *sock_file(struct sock *s, unsigned flags)
{
	struct file *f = io_file(
		s->k, &socket_ops, O_RDWR | (flags & (O_NONBLOCK | O_CLOEXEC)), S_IFSOCK | 0777, s);

	if (f) {
		f->flags &= ~(unsigned)O_CLOEXEC;
		s->file = f;
	}
	return f;
}

int sock_take_error(struct sock *s)
{
	int e = s->err;

	s->err = 0;
	return -e;
}

struct gucred gucred_of(const struct task *t)
{
	return (struct gucred){ t->proc->pid, t->cred->euid, t->cred->egid };
}

struct gucred gucred_out(const struct task *t, const struct gucred *c)
{
	return (struct gucred){ pid_out(t, c->pid), uid_out(t, c->uid), gid_out(t, c->gid) };
}

void sock_set_peercred(struct sock *s, const struct gucred *c)
{
	s->peercred = *c;
	s->has_peercred = true;
}

int sock_broken(struct task *t, unsigned flags)
{
	if (t && !(flags & MSG_NOSIGNAL))
		signal_send_task(t, SIGPIPE, NULL);
	return -EPIPE;
}

long sock_wait_result(struct sock *s, long r, int64_t timeo)
{
	if (r == -ETIMEDOUT)
		return -EAGAIN;
	/* A call with a time-out cannot be restarted: it would begin to wait anew. */
	return r == -ERESTARTSYS && timeo ? -EINTR : r;
}

/* Files */

static void read_timeout(struct task *t, int64_t timeo)
{
	if (timeo && t && t->call.active && !t->call.deadline)
		wait_set_timeout(t, timeo);
}

static ssize_t socket_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct sock *s = f->priv;
	struct msg_in m = { 0 };
	ssize_t r;

	if (io->left == 0 && s->type == SOCK_STREAM)
		return 0;
	r = s->ops->recv(s, io->task, io, &m);
	if (m.scm.count)
		scm_drop(s->k, &m.scm);
	if (r == -EAGAIN && !(f->flags & O_NONBLOCK))
		read_timeout(io->task, s->rcvtimeo);
	return r;
}

static ssize_t socket_write(struct file *f, struct uio *io, int64_t *pos)
{
	struct sock *s = f->priv;
	struct scm scm = { 0 };
	struct msg_out m = { .scm = &scm };
	ssize_t r;

	if (io->task)
		scm.cred = gucred_of(io->task);
	r = s->ops->send(s, io->task, io, &m);
	if (r == -EAGAIN && !(f->flags & O_NONBLOCK)) {
		read_timeout(io->task, s->sndtimeo);
		if (m.wait && io->task)
			wait_on(io->task, m.wait, 0);
	}
	return r;
}

static unsigned socket_poll(struct file *f, struct poll_reg *reg)
{
	struct sock *s = f->priv;

	return s->ops->poll(s, reg);
}

static uint32_t readable_bytes(const struct sock *s)
{
	if (s->type == SOCK_STREAM) {
		bool mark =
			s->urg && s->urg_seq >= s->rx_seq && !sock_opt(s, SOL_SOCKET, SO_OOBINLINE);

		return (uint32_t)(mark ? s->urg_seq - s->rx_seq : s->rx_bytes);
	}
	return s->rx ? s->rx->len : 0;
}

static long socket_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	struct sock *s = f->priv;

	switch (cmd) {
	case FIONREAD: /* SIOCINQ */
		if (s->listening)
			return -EINVAL;
		return guest_write_u32(t, GVA(arg), readable_bytes(s));
	case TIOCOUTQ: /* SIOCOUTQ */
		if (s->listening)
			return -EINVAL;
		return guest_write_u32(t, GVA(arg),
			s->type == SOCK_STREAM ? (s->peer ? (uint32_t)s->peer->rx_bytes : 0)
					       : s->wmem);
	case SIOCATMARK:
		if (s->type != SOCK_STREAM || s->family == AF_UNIX)
			return -ENOTTY;
		return guest_write_u32(t, GVA(arg), s->urg && s->urg_seq == s->rx_seq);
	case FIOSETOWN:
	case SIOCSPGRP: {
		int32_t pid;

		if (guest_read_u32(t, GVA(arg), (uint32_t *)&pid) < 0)
			return -EFAULT;
		if (pid == INT32_MIN)
			return -EINVAL;
		f->owner_type = pid < 0 ? 2 : 1; /* a group, or a process */
		f->owner_pid = pid < 0 ? pgrp_in(t, -pid) : pid ? pid_in(t, pid) : 0;
		f->owner_uid = t->cred->uid;
		f->owner_euid = t->cred->euid;
		return 0;
	}
	case FIOGETOWN:
	case SIOCGPGRP:
		return guest_write_u32(t, GVA(arg),
			(uint32_t)(f->owner_type == 2 ? -pid_out(t, f->owner_pid)
						      : pid_out(t, f->owner_pid)));
	default:
		return sock_ioctl_if(s, t, cmd, arg);
	}
}

/* The last descriptor of a socket that is also on the way: from now on only messages hold it. */
static void socket_flush(struct file *f, struct task *t)
{
	struct sock *s = f->priv;

	if (s->inflight == 0 || f->refs - 1 != s->inflight)
		return;
	s->gc_closing = 1;
	unix_gc_soon(s->k);
	s->gc_closing = 0;
}

static void socket_release(struct file *f)
{
	struct sock *s = f->priv;
	bool collect = s->family == AF_UNIX && s->k->sock->inflight_socks > 0;
	struct kernel *k = s->k;

	s->file = NULL;
	s->closed = true;
	if (s->ops->close)
		s->ops->close(s);
	sock_purge(s);
	sock_unref(s);
	if (collect)
		unix_gc_soon(k);
}

static int socket_show(struct file *f, char *buf, size_t cap)
{
	return str_fmt(buf, cap, "socket:[%llu]", (unsigned long long)f->inode->ino);
}

static void socket_walk(struct file *f, struct walk *w)
{
	struct sock *s = f->priv;

	walk_need(w, "sock", WALK_SOCK, (void **)&s);
	if (w->mode == WALK_SAVE || w->err)
		return;
	if (s->file) { /* it has one only */
		walk_fail(w, -EBADMSG);
		return;
	}
	f->priv = sock_ref(s);
	s->file = f;
}

const struct file_ops socket_ops = {
	.name = "socket",
	.flags = FILE_STREAM,
	.read = socket_read,
	.write = socket_write,
	.poll = socket_poll,
	.ioctl = socket_ioctl,
	.flush = socket_flush,
	.release = socket_release,
	.show = socket_show,
	.walk = socket_walk,
};
