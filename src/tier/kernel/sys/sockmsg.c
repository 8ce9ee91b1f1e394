/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys/sockmsg.c - sending and receiving: sendto, sendmsg, sendmmsg and the receiving three.
 *
 * Rules: a blocked call is entered again with the guest's arrays read again; what has been sent is
 *        in call.done (bytes of a stream) and call.u[0] (messages of sendmmsg). Descriptors go with
 *        the first bytes only.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "tier/kernel/sock/msg.h"

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

/* struct msghdr and mmsghdr of 64 bits. */
struct gmsghdr {
	uint64_t name;
	int32_t namelen, pad0;
	uint64_t iov, iovlen, control, controllen;
	uint32_t flags, pad1;
};
struct gmmsghdr {
	struct gmsghdr hdr;
	uint32_t len, pad;
};

enum { U_MESSAGES = 0, U_PEEKED = 1 };

/* Skips what an earlier entry has moved. */
static void uio_skip(struct uio *io, uint64_t n)
{
	while (n && io->left && !io->kernel_base) {
		uint64_t room = io->iov[io->at].len - io->skip, step = room < n ? room : n;

		io->skip += step;
		io->left -= step;
		n -= step;
		if (io->skip == io->iov[io->at].len) {
			io->at++;
			io->skip = 0;
		}
	}
}

static long wait_to_send(struct task *task, struct sock *s, struct file *f, struct msg_out *m)
{
	if (!task->call.deadline && s->sndtimeo)
		wait_set_timeout(task, s->sndtimeo);
	if (m->wait && wait_on(task, m->wait, 0) < 0)
		return -ENOMEM;
	return sock_wait_result(s, file_wait(task, f, POLLOUT), s->sndtimeo);
}

/* Sends @io; takes care of waiting. *scm is consumed or dropped by the caller. */
static long send_common(struct task *task, struct sock *s, struct file *f, struct uio *io,
	const struct saddr *to, struct scm *scm, unsigned flags)
{
	bool wait = !(f->flags & O_NONBLOCK) && !(flags & MSG_DONTWAIT);
	struct msg_out m = { .flags = flags, .to = to, .scm = scm };
	uint64_t *done = &task->call.done;
	long r;

	if (!scm->has_cred)
		scm->cred = gucred_of(task);
	if (s->type == SOCK_STREAM && *done)
		uio_skip(io, *done);
	for (;;) {
		m.wait = NULL;
		r = s->ops->send(s, task, io, &m);
		if (r > 0 && s->type == SOCK_STREAM)
			*done += (uint64_t)r;
		if (r <= 0 || s->type != SOCK_STREAM || io->left == 0)
			break;
	}
	if (r == -EAGAIN && wait)
		r = wait_to_send(task, s, f, &m);
	if (r == SYS_BLOCK || s->type != SOCK_STREAM)
		return r;
	return *done ? (long)*done : r;
}

SYSCALL6(sendto, int32_t, fd, gva_t, buf, uint64_t, len, uint32_t, flags, gva_t, addr, int32_t,
	addrlen)
{
	struct scm scm = { 0 };
	struct saddr to;
	struct file *f;
	struct uio io;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (!s)
		return r;
	if (!gva_null(addr)) {
		r = saddr_in(task, addr, addrlen, &to);
		if (r < 0)
			return r;
	}
	r = uio_guest(&io, task, buf, len);
	if (r < 0)
		return r;
	r = send_common(task, s, f, &io, gva_null(addr) ? NULL : &to, &scm, flags);
	uio_done(&io);
	return r;
}

/* One message; its header is a private copy. */
static long send_one(
	struct task *task, struct sock *s, struct file *f, const struct gmsghdr *h, unsigned flags)
{
	struct scm scm = { 0 };
	struct saddr to;
	struct uio io;
	long r;

	if (h->name && h->namelen) {
		int32_t n = h->namelen;

		if (n < 0)
			return -EINVAL;
		r = saddr_in(task, GVA(h->name),
			n > (int32_t)sizeof(to.raw) ? (int32_t)sizeof(to.raw) : n, &to);
		if (r < 0)
			return r;
	}
	r = uio_guest_iov(&io, task, GVA(h->iov), h->iovlen);
	if (r < 0)
		return h->iovlen > GUEST_IOV_MAX ? -EMSGSIZE : r;
	/* Descriptors were sent with the first part. */
	if (h->control && h->controllen && !(s->type == SOCK_STREAM && task->call.done))
		r = scm_parse(task, s, GVA(h->control), h->controllen, &scm);
	if (r == 0 && s->family != AF_UNIX)
		scm_drop(task->k, &scm);
	if (r == 0)
		r = send_common(task, s, f, &io, h->name && h->namelen ? &to : NULL, &scm, flags);
	scm_drop(task->k, &scm);
	uio_done(&io);
	return r;
}

SYSCALL3(sendmsg, int32_t, fd, gva_t, msg, uint32_t, flags)
{
	struct gmsghdr h;
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (!s)
		return r;
	if (guest_read(task, &h, msg, sizeof(h)) < 0)
		return -EFAULT;
	return send_one(task, s, f, &h, flags);
}

SYSCALL4(sendmmsg, int32_t, fd, gva_t, vec, uint32_t, count, uint32_t, flags)
{
	uint64_t *sent = &task->call.u[U_MESSAGES];
	struct gmmsghdr h;
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (!s)
		return r;
	if (count > SOCK_MMSG_MAX)
		count = SOCK_MMSG_MAX;
	r = 0;
	while (*sent < count) {
		gva_t at = gva_add(vec, *sent * sizeof(h));

		r = guest_read(task, &h, at, sizeof(h));
		if (r == 0)
			r = send_one(task, s, f, &h.hdr, flags);
		if (r == SYS_BLOCK)
			return r;
		if (r >= 0 && guest_write_u32(task, gva_add(at, offsetof(struct gmmsghdr, len)),
				      (uint32_t)r) < 0)
			r = -EFAULT;
		if (r < 0)
			break;
		task->call.done = 0;
		++*sent;
	}
	return *sent ? (long)*sent : r;
}

static long wait_to_recv(struct task *task, struct sock *s, struct file *f)
{
	if (!task->call.deadline && s->rcvtimeo)
		wait_set_timeout(task, s->rcvtimeo);
	return sock_wait_result(s, file_wait(task, f, POLLIN), s->rcvtimeo);
}

/* Receives into @io; takes care of waiting, and of MSG_WAITALL. */
static long recv_common(
	struct task *task, struct sock *s, struct file *f, struct uio *io, struct msg_in *m)
{
	bool wait = !(f->flags & O_NONBLOCK) && !(m->flags & MSG_DONTWAIT);
	bool all = (m->flags & MSG_WAITALL) && s->type == SOCK_STREAM && !(m->flags & MSG_PEEK);
	uint64_t *done = &task->call.done;
	long r;

	if (m->flags & MSG_ERRQUEUE)
		return -EAGAIN; /* there is never anything on it */
	if (all && *done)
		uio_skip(io, *done);
	r = s->ops->recv(s, task, io, m);
	if (!all) {
		if (r == -EAGAIN && wait)
			return wait_to_recv(task, s, f);
		return r;
	}
	if (r > 0) {
		*done += (uint64_t)r;
		/* Descriptors came: Linux stops there, too. */
		if (io->left == 0 || m->scm.count)
			return (long)*done;
		r = s->ops->recv(s, task, io, m);
		if (r > 0)
			*done += (uint64_t)r;
	}
	if (r == -EAGAIN && wait)
		r = wait_to_recv(task, s, f);
	if (r == SYS_BLOCK)
		return r;
	return *done ? (long)*done : r;
}

SYSCALL6(recvfrom, int32_t, fd, gva_t, buf, uint64_t, len, uint32_t, flags, gva_t, addr, gva_t,
	addrlen)
{
	struct msg_in m = { .flags = flags };
	struct file *f;
	struct uio io;
	long r, e;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (!s)
		return r;
	r = uio_guest(&io, task, buf, len);
	if (r < 0)
		return r;
	r = recv_common(task, s, f, &io, &m);
	uio_done(&io);
	scm_drop(task->k, &m.scm);
	if (r >= 0 && !gva_null(addr)) {
		e = saddr_out(task, addr, addrlen, &m.from);
		if (e < 0)
			return e;
	}
	return r;
}

/* The header's answers: name, control, flags. */
static long give_header(
	struct task *task, struct sock *s, gva_t at, struct gmsghdr *h, struct msg_in *m)
{
	uint64_t used = 0;
	size_t n;
	long r;

	if (h->name) {
		n = (uint32_t)h->namelen < m->from.len ? (uint32_t)h->namelen : m->from.len;
		if (n && guest_write(task, GVA(h->name), m->from.raw, n) < 0)
			return -EFAULT;
		if (guest_write_u32(
			    task, gva_add(at, offsetof(struct gmsghdr, namelen)), m->from.len) < 0)
			return -EFAULT;
	}
	r = scm_give(task, s, &m->scm, GVA(h->control), h->control ? h->controllen : 0,
		m->flags & MSG_CMSG_CLOEXEC, &used, &m->out_flags);
	if (r < 0)
		return r;
	if (guest_write_u64(task, gva_add(at, offsetof(struct gmsghdr, controllen)), used) < 0)
		return -EFAULT;
	return guest_write_u32(task, gva_add(at, offsetof(struct gmsghdr, flags)),
		m->out_flags | (m->flags & MSG_CMSG_CLOEXEC));
}

static long recv_one(struct task *task, struct sock *s, struct file *f, gva_t at, unsigned flags)
{
	struct msg_in m = { .flags = flags };
	struct gmsghdr h;
	struct uio io;
	long r, e;

	if (guest_read(task, &h, at, sizeof(h)) < 0)
		return -EFAULT;
	if (h.namelen < 0)
		return -EINVAL;
	r = uio_guest_iov(&io, task, GVA(h.iov), h.iovlen);
	if (r < 0)
		return h.iovlen > GUEST_IOV_MAX ? -EMSGSIZE : r;
	r = recv_common(task, s, f, &io, &m);
	uio_done(&io);
	if (r >= 0) {
		e = give_header(task, s, at, &h, &m);
		if (e < 0)
			r = e;
	}
	scm_drop(task->k, &m.scm);
	return r;
}

SYSCALL3(recvmsg, int32_t, fd, gva_t, msg, uint32_t, flags)
{
	struct file *f;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	return s ? recv_one(task, s, f, msg, flags) : r;
}

SYSCALL5(recvmmsg, int32_t, fd, gva_t, vec, uint32_t, count, uint32_t, flags, gva_t, timeout)
{
	uint64_t *got = &task->call.u[U_MESSAGES];
	struct file *f;
	int64_t ns;
	long r;
	struct sock *s = sock_from(task, fd, &f, &r);

	if (task->call.first && !gva_null(timeout)) {
		long e = guest_read_timespec(task, timeout, &ns);

		if (e < 0)
			return e;
		wait_set_timeout(task, ns);
	}
	if (!s)
		return r;
	if (count > SOCK_MMSG_MAX)
		count = SOCK_MMSG_MAX;
	r = 0;
	while (*got < count) {
		gva_t at = gva_add(vec, *got * sizeof(struct gmmsghdr));
		unsigned how = flags & ~(unsigned)MSG_WAITFORONE;

		if (*got && (flags & MSG_WAITFORONE))
			how |= MSG_DONTWAIT;
		r = recv_one(task, s, f, at, how);
		if (r == SYS_BLOCK)
			return r;
		if (r >= 0 && guest_write_u32(task, gva_add(at, offsetof(struct gmmsghdr, len)),
				      (uint32_t)r) < 0)
			r = -EFAULT;
		if (r < 0)
			break;
		task->call.done = 0;
		++*got;
		if (wait_timed_out(task))
			break;
	}
	return *got ? (long)*got : r;
}
