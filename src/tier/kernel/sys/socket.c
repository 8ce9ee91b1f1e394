/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys/socket.c - the socket calls but sending and receiving.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/sock/msg.h"

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/landlock.h"

enum { TYPE_MASK = 0xf };

struct sock *sock_from(struct task *task, int fd, struct file **ret_file, long *ret_err)
{
	struct file *f = fd_get(task, fd);
	struct sock *s = f ? sock_of(f) : NULL;

	*ret_file = f;
	*ret_err = f ? -ENOTSOCK : -EBADF;
	return s;
}

long saddr_in(struct task *task, gva_t at, int32_t len, struct saddr *ret)
{
	if (len < 0 || len > (int32_t)sizeof(ret->raw))
		return -EINVAL;
	memset(ret, 0, sizeof(*ret));
	if (len && guest_read(task, ret->raw, at, (size_t)len) < 0)
		return -EFAULT;
	ret->len = (uint16_t)len;
	return 0;
}

long saddr_out(struct task *task, gva_t at, gva_t lenp, const struct saddr *a)
{
	int32_t room;
	size_t n;

	if (guest_read(task, &room, lenp, sizeof(room)) < 0)
		return -EFAULT;
	if (room < 0)
		return -EINVAL;
	n = (size_t)room < a->len ? (size_t)room : a->len;
	if (n && guest_write(task, at, a->raw, n) < 0)
		return -EFAULT;
	return guest_write_u32(task, lenp, a->len); /* what it would have been */
}

static int check_type(int32_t *type, unsigned *flags)
{
	*flags = (unsigned)*type & ~(unsigned)TYPE_MASK;
	*type &= TYPE_MASK;
	return *flags & ~(unsigned)(SOCK_NONBLOCK | SOCK_CLOEXEC) ? -EINVAL : 0;
}

static long install(struct task *task, struct sock *s, unsigned flags)
{
	struct file *f = sock_file(s, flags);

	if (!f) {
		sock_unref(s);
		return -ENFILE;
	}
	f->inode->uid = task->cred->fsuid;
	f->inode->gid = task->cred->fsgid;
	return io_install(task, f, flags & SOCK_CLOEXEC);
}

SYSCALL3(socket, int32_t, family, int32_t, type, int32_t, protocol)
{
	unsigned flags;
	struct sock *s;
	int err;

	if (check_type(&type, &flags) < 0)
		return -EINVAL;
	if (family < 0 || family > 45)
		return -EAFNOSUPPORT;
	if (type > SOCK_PACKET || type == 0)
		return -EINVAL;
	s = sock_create(task->k, family, type, protocol, &err);
	if (!s)
		return err;
	s->cred = gucred_of(task);
	s->landlock = landlock_ref(task->cred->landlock);
	return install(task, s, flags);
}

static int make_pair(struct task *task, int family, int type, int protocol, struct sock *ret[2])
{
	struct gucred me = gucred_of(task);
	int err;

	ret[0] = sock_create(task->k, family, type, protocol, &err);
	if (!ret[0])
		return err;
	if (family != AF_UNIX) {
		sock_unref(ret[0]);
		return -EOPNOTSUPP;
	}
	ret[1] = sock_create(task->k, family, type, protocol, &err);
	if (!ret[1]) {
		sock_unref(ret[0]);
		return err;
	}
	sock_connect_pair(ret[0], ret[1]);
	sock_set_peercred(ret[0], &me);
	sock_set_peercred(ret[1], &me);
	return 0;
}

SYSCALL4(socketpair, int32_t, family, int32_t, type, int32_t, protocol, gva_t, out)
{
	struct sock *s[2];
	int32_t fds[2];
	unsigned flags;
	int r;

	if (check_type(&type, &flags) < 0)
		return -EINVAL;
	if (family < 0 || family > 45)
		return -EAFNOSUPPORT;
	r = make_pair(task, family, type, protocol, s);
	if (r < 0)
		return r;
	fds[0] = (int32_t)install(task, s[0], flags);
	if (fds[0] < 0) {
		sock_disconnect(s[1], false);
		sock_unref(s[1]);
		return fds[0];
	}
	fds[1] = (int32_t)install(task, s[1], flags);
	if (fds[1] < 0) {
		fd_close(task, fds[0]);
		return fds[1];
	}
	if (guest_write(task, out, fds, sizeof(fds)) < 0) {
		fd_close(task, fds[0]);
		fd_close(task, fds[1]);
		return -EFAULT;
	}
	return 0;
}

/* A port of TCP's is somebody's who has not given it up. */
static long may_use(struct task *task, const struct sock *s, const struct saddr *a, unsigned want)
{
	bool tcp = s->type == SOCK_STREAM && (s->family == AF_INET || s->family == AF_INET6);

	if (!tcp || (s->protocol && s->protocol != IPPROTO_TCP) || a->len < sizeof(a->in) ||
		(a->family == AF_UNSPEC && want == LANDLOCK_CONNECT))
		return 0;
	return landlock_port(task, want, ntohs(a->in.sin_port));
}

SYSCALL3(bind, int32_t, fd, gva_t, addr, int32_t, len)
{
	struct saddr a;
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (!s)
		return r;
	r = saddr_in(task, addr, len, &a);
	if (r == 0)
		r = may_use(task, s, &a, LANDLOCK_BIND);
	return r < 0 ? r : s->ops->bind(s, task, &a);
}

SYSCALL3(connect, int32_t, fd, gva_t, addr, int32_t, len)
{
	struct saddr a;
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (!s)
		return r;
	r = saddr_in(task, addr, len, &a);
	if (r == 0)
		r = may_use(task, s, &a, LANDLOCK_CONNECT);
	if (r == 0)
		r = s->ops->connect(s, task, &a, f->flags & O_NONBLOCK);
	if (r == SYS_BLOCK)
		file_hold(task, f);
	return r;
}

SYSCALL2(listen, int32_t, fd, int32_t, backlog)
{
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	return s ? s->ops->listen(s, task, backlog) : r;
}

static long accept_common(struct task *task, int fd, gva_t addr, gva_t lenp, unsigned flags)
{
	struct sock *s, *n;
	struct saddr a;
	struct file *f;
	long r;

	if (flags & ~(unsigned)(SOCK_CLOEXEC | SOCK_NONBLOCK))
		return -EINVAL;
	s = sock_from(task, fd, &f, &r);
	if (!s)
		return r;
	r = s->ops->accept(s, &n);
	if (r == -EAGAIN && !(f->flags & O_NONBLOCK)) {
		if (task->call.first && s->rcvtimeo)
			wait_set_timeout(task, s->rcvtimeo);
		return sock_wait_result(s, file_wait(task, f, POLLIN), s->rcvtimeo);
	}
	if (r < 0)
		return r;
	sock_ref(n); /* for its name, whatever becomes of the descriptor */
	r = install(task, n, flags);
	if (r >= 0 && !gva_null(addr)) {
		long e = n->ops->name(n, &a, true);

		if (e < 0) { /* already gone: the address is told all the same */
			memset(&a, 0, sizeof(a));
			if (n->family == AF_UNIX) {
				a.len = sizeof(sa_family_t);
				a.family = AF_UNIX;
			} else {
				inet_addr_out(n, &n->remote.in6.sin6_addr,
					ntohs(n->remote.in6.sin6_port), &a);
			}
		}
		e = saddr_out(task, addr, lenp, &a);
		if (e < 0) {
			fd_close(task, (int)r);
			r = e;
		}
	}
	sock_unref(n);
	return r;
}

SYSCALL3(accept, int32_t, fd, gva_t, addr, gva_t, len)
{
	return accept_common(task, fd, addr, len, 0);
}

SYSCALL4(accept4, int32_t, fd, gva_t, addr, gva_t, len, int32_t, flags)
{
	return accept_common(task, fd, addr, len, (unsigned)flags);
}

static long name_common(struct task *task, int fd, gva_t addr, gva_t len, bool peer)
{
	struct saddr a;
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (!s)
		return r;
	r = s->ops->name(s, &a, peer);
	return r < 0 ? r : saddr_out(task, addr, len, &a);
}

SYSCALL3(getsockname, int32_t, fd, gva_t, addr, gva_t, len)
{
	return name_common(task, fd, addr, len, false);
}

SYSCALL3(getpeername, int32_t, fd, gva_t, addr, gva_t, len)
{
	return name_common(task, fd, addr, len, true);
}

SYSCALL2(shutdown, int32_t, fd, int32_t, how)
{
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (!s)
		return r;
	if (how < SHUT_RD || how > SHUT_RDWR)
		return -EINVAL;
	return s->ops->shutdown(s, how);
}

SYSCALL5(setsockopt, int32_t, fd, int32_t, level, int32_t, name, gva_t, val, int32_t, len)
{
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (len < 0)
		return s ? -EINVAL : r;
	return s ? sock_setopt(s, task, level, name, val, len) : r;
}

SYSCALL5(getsockopt, int32_t, fd, int32_t, level, int32_t, name, gva_t, val, gva_t, len)
{
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	return s ? sock_getopt(s, task, level, name, val, len) : r;
}
