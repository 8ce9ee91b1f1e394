/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/hostfile.c - descriptors that ward handed in, as files of the guest.
 *
 * Owns:  struct host_end and the descriptor in it.
 * Rules: never waits under the lock. Where the host cannot be asked not to wait, the lock is given
 *        up for the transfer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <termios.h>

#include "base/str.h"
#include "host/host.h"
#include "proto/fds.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/trap/hostfile.h"
#include "tier/kernel/vfs/file.h"

enum {
	NO_WAIT = 8, /* RWF_NOWAIT */
	PIECE = 64 << 10,
	CHANNEL_PIECE = 2 * FRAME_PAYLOAD_MAX + 4096, /* frames with their heads, in one go */
	PASSED_MAX = 8,
};

struct host_end {
	struct watch watch;
	struct wait_queue wait;
	bool watched, asked, regular;
	char *room; /* the channel's: CHANNEL_PIECE bytes */
};

static void on_event(struct kernel *k, struct watch *w, unsigned events)
{
	struct host_end *h = (struct host_end *)w;

	wait_wake(&h->wait, 0);
}

static struct host_end *end_create(struct kernel *k, int fd)
{
	struct host_end *h = calloc(1, sizeof(*h));
	struct stat st;

	if (!h)
		return NULL;
	h->watch.fd = fd;
	h->watch.fn = on_event;
	h->watch.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	h->regular = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
	return h;
}

/* The loop hears of it from the first time on that somebody waits: many are only written to. What
 * epoll does not take, a file on disk for one, is always ready. */
static void end_wait(struct kernel *k, struct host_end *h, struct poll_reg *reg)
{
	if (reg && !h->asked)
		h->watched = watch_add(k, &h->watch) == 0;
	h->asked |= reg != NULL;
	poll_wait(reg, &h->wait);
}

static void end_destroy(struct kernel *k, struct host_end *h)
{
	if (h->watched)
		watch_remove(k, &h->watch);
	close(h->watch.fd);
	free(h->room);
	free(h);
}

static unsigned end_state(struct host_end *h)
{
	struct pollfd p = { .fd = h->watch.fd, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP };

	return poll(&p, 1, 0) > 0 ? (unsigned)p.revents : 0;
}

static struct host_end *end_of(struct file *f)
{
	return f->priv;
}

static ssize_t move(struct file *f, void *buf, size_t len, bool in)
{
	struct host_end *h = end_of(f);
	struct iovec iov = { buf, len };
	ssize_t n;

	if (h->regular) {
		n = in ? read(h->watch.fd, buf, len) : write(h->watch.fd, buf, len);
		return n < 0 ? -errno : n;
	}
	n = syscall(in ? SYS_preadv2 : SYS_pwritev2, h->watch.fd, &iov, 1, -1L, -1L, NO_WAIT);
	if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
		return n < 0 ? -errno : n;
	/* A terminal: it was ready a moment ago; others who read it are not in here. The lock stays
	 * with us: without it the task whose memory this is for could end meanwhile. */
	if (!(end_state(h) & (in ? POLLIN | POLLHUP | POLLERR : POLLOUT | POLLHUP | POLLERR)))
		return -EAGAIN;
	n = in ? read(h->watch.fd, buf, len) : write(h->watch.fd, buf, len);
	return n < 0 ? -errno : n;
}

static ssize_t hf_read(struct file *f, struct uio *io, int64_t *pos)
{
	size_t want = io->left < PIECE ? io->left : PIECE;
	char *buf = malloc(want ? want : 1);
	ssize_t n;

	if (!buf)
		return -ENOMEM;
	if (end_of(f)->regular && pos != &f->pos) {
		n = pread(end_of(f)->watch.fd, buf, want, *pos);
		n = n < 0 ? -errno : n;
	} else {
		n = move(f, buf, want, true);
	}
	if (n > 0)
		n = uio_out(io, buf, (size_t)n);
	free(buf);
	return n;
}

static ssize_t hf_write(struct file *f, struct uio *io, int64_t *pos)
{
	size_t want = io->left < PIECE ? io->left : PIECE;
	char *buf = malloc(want ? want : 1);
	ssize_t n, done;

	if (!buf)
		return -ENOMEM;
	n = uio_in(io, buf, want);
	if (n > 0) {
		done = move(f, buf, (size_t)n, false);
		if (done < n)
			uio_back(io, (size_t)(n - (done > 0 ? done : 0)));
		n = done;
	}
	free(buf);
	if (n == -EPIPE)
		signal_send_task(io->task, 13 /* SIGPIPE */, NULL);
	return n;
}

static unsigned hf_poll(struct file *f, struct poll_reg *reg)
{
	struct host_end *h = end_of(f);

	if (h->regular)
		return POLLIN | POLLOUT;
	end_wait(f->k, h, reg);
	return end_state(h);
}

static long hf_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	union {
		char termios[36];
		struct winsize size;
		int n;
	} u;
	size_t len;

	switch (cmd) {
	case TCGETS:
		len = 36;
		break;
	case TIOCGWINSZ:
		len = sizeof(u.size);
		break;
	case FIONREAD:
		len = sizeof(u.n);
		break;
	default:
		return -ENOTTY;
	}
	memset(&u, 0, sizeof(u));
	if (ioctl(end_of(f)->watch.fd, cmd, &u) < 0)
		return -errno;
	return guest_write(t, GVA(arg), &u, len);
}

static int hf_mmap(struct file *f, unsigned prot, unsigned flags, struct map_source *ret)
{
	if (!end_of(f)->regular || (f->flags & O_ACCMODE) != O_RDONLY)
		return -ENODEV;
	ret->fd = end_of(f)->watch.fd;
	ret->offset = 0;
	return 0;
}

static int64_t hf_lseek(struct file *f, int64_t off, int whence)
{
	int64_t r = lseek(end_of(f)->watch.fd, off, whence);

	return r < 0 ? -errno : r;
}

static void hf_release(struct file *f)
{
	end_destroy(f->k, f->priv);
}

static int hf_show(struct file *f, char *buf, size_t cap)
{
	return str_copy(buf, cap, "anon_inode:[host]");
}

/* Opened with O_TRUNC by way of /dev/stdout. */
static int hf_truncate(struct file *f, int64_t size)
{
	if (!end_of(f)->regular)
		return 0;
	return ftruncate(end_of(f)->watch.fd, size) < 0 ? -errno : 0;
}

static const struct file_ops hostfile_ops = {
	.name = "host",
	.read = hf_read,
	.write = hf_write,
	.lseek = hf_lseek,
	.poll = hf_poll,
	.ioctl = hf_ioctl,
	.mmap = hf_mmap,
	.truncate = hf_truncate,
	.release = hf_release,
	.show = hf_show,
};

/* The inode has a copy of the descriptor, so that /dev/stdout and /proc/self/fd/1 can be opened. */
static int inode_fd(struct inode *i)
{
	return (int)(intptr_t)i->priv - 1;
}

static int host_inode_open(struct inode *i, struct file *f, struct task *t)
{
	int have = fcntl(inode_fd(i), F_GETFL), fd;
	unsigned want = f->flags & O_ACCMODE;
	struct host_end *h;

	if (have < 0)
		return -ENXIO;
	if ((have & O_ACCMODE) != O_RDWR && (unsigned)(have & O_ACCMODE) != want)
		return -EACCES;
	fd = fcntl(inode_fd(i), F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -ENFILE;
	h = end_create(f->k, fd);
	if (!h) {
		close(fd);
		return -ENOMEM;
	}
	f->ops = &hostfile_ops;
	f->priv = h;
	return 0;
}

static void host_inode_release(struct inode *i)
{
	if (inode_fd(i) >= 0)
		close(inode_fd(i));
}

static const struct inode_ops host_inode_ops = {
	.open = host_inode_open,
	.release = host_inode_release,
};

struct file *hostfile_create(struct kernel *k, int fd, unsigned flags)
{
	struct host_end *h = end_create(k, fd);
	struct stat st = { .st_mode = S_IFIFO | 0600 };
	struct inode *i;
	struct file *f = NULL;

	if (!h) {
		close(fd);
		return NULL;
	}
	/* What kind it is may be known inside; whose it is and where is not. */
	if (fstat(fd, &st) == 0)
		st.st_mode = (st.st_mode & S_IFMT) | 0600;
	i = inode_anon(k, st.st_mode);
	if (i) {
		i->ops = &host_inode_ops;
		i->priv = (void *)(intptr_t)(fcntl(fd, F_DUPFD_CLOEXEC, 0) + 1);
		if (S_ISCHR(st.st_mode))
			i->rdev = isatty(fd) ? 0x8800 : st.st_rdev;
		if (h->regular)
			i->size = st.st_size;
		f = file_create(k, &hostfile_ops, flags, i, h);
	}
	if (!f) {
		inode_unref(i);
		end_destroy(k, h);
	}
	return f;
}

struct file *hostfile_passed(struct kernel *k, int fd)
{
	int mode = fcntl(fd, F_GETFL);

	return hostfile_create(k, fd, mode < 0 ? O_RDWR : (unsigned)(mode & O_ACCMODE));
}

/* The channel */

/*
 * What the host gets of files that the agent passes on: descriptors of their contents, as a mapping
 * would have them, and only of what was opened for reading. The position is not the guest's.
 */
static int lend(const struct scm *scm, int *fds)
{
	for (unsigned i = 0; i < scm->count; i++) {
		struct file *f = scm->files[i];
		struct map_source src = { -1, 0 };
		int r = -EOPNOTSUPP;

		if (S_ISREG(f->inode->mode) && !file_writable(f) && f->ops->mmap)
			r = f->ops->mmap(f, PROT_READ, MAP_PRIVATE, &src);
		if (r < 0 || src.fd < 0 || src.offset)
			return r < 0 ? r : -EOPNOTSUPP;
		fds[i] = src.fd;
	}
	return 0;
}

static ssize_t channel_put(struct host_end *h, void *buf, size_t len, const struct scm *scm)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(PASSED_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[PASSED_MAX], r;
	ssize_t n;

	if (scm && scm->count) {
		if (scm->count > PASSED_MAX)
			return -ETOOMANYREFS;
		r = lend(scm, fds);
		if (r < 0)
			return r;
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(scm->count * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(scm->count * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, scm->count * sizeof(int));
	}
	n = sendmsg(h->watch.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

static ssize_t channel_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m)
{
	struct host_end *h = s->host;
	size_t want = io->left < CHANNEL_PIECE ? io->left : CHANNEL_PIECE;
	ssize_t n = uio_in(io, h->room, want), done;

	if (n > 0) {
		done = channel_put(h, h->room, (size_t)n, m->scm);
		if (done < n)
			uio_back(io, (size_t)(n - (done > 0 ? done : 0)));
		/* They went with the first bytes. */
		if (done > 0 && m->scm)
			scm_drop(s->k, m->scm);
		n = done;
	}
	return n == -EPIPE ? sock_broken(t, m->flags) : n;
}

static void take_passed(struct kernel *k, const int *fds, unsigned count, struct scm *scm)
{
	scm->files = calloc(count ? count : 1, sizeof(*scm->files));
	for (unsigned i = 0; i < count; i++) {
		struct file *f;

		if (!scm->files) {
			close(fds[i]);
			continue;
		}
		f = hostfile_passed(k, fds[i]);
		if (f)
			scm->files[scm->count++] = f;
	}
}

static ssize_t channel_recv(struct sock *s, struct task *t, struct uio *io, struct msg_in *m)
{
	struct host_end *h = s->host;
	size_t want = io->left < CHANNEL_PIECE ? io->left : CHANNEL_PIECE;
	int fds[PASSED_MAX];
	unsigned count = 0;
	struct fd_queue q = { fds, &count, PASSED_MAX };
	ssize_t n = fds_receive(h->watch.fd, h->room, want, &q);

	if (n > 0)
		n = uio_out(io, h->room, (size_t)n);
	if (count)
		take_passed(s->k, fds, count, &m->scm);
	return n;
}

static unsigned channel_poll(struct sock *s, struct poll_reg *reg)
{
	struct host_end *h = s->host;

	end_wait(s->k, h, reg);
	return end_state(h);
}

static int channel_shutdown(struct sock *s, int how)
{
	struct host_end *h = s->host;

	return shutdown(h->watch.fd, how) < 0 ? -errno : 0;
}

static void channel_close(struct sock *s)
{
	end_destroy(s->k, s->host);
	s->host = NULL;
}

static int channel_name(struct sock *s, struct saddr *ret, bool peer)
{
	ret->len = sizeof(sa_family_t);
	ret->family = AF_UNIX;
	return 0;
}

static const struct sock_ops channel_ops = {
	.send = channel_send,
	.recv = channel_recv,
	.shutdown = channel_shutdown,
	.poll = channel_poll,
	.name = channel_name,
	.close = channel_close,
};

struct file *channel_create(struct kernel *k, int fd)
{
	int err = 0;
	struct sock *s = sock_create(k, AF_UNIX, SOCK_STREAM, 0, &err);
	struct host_end *h;
	struct file *f;

	if (!s)
		return NULL;
	h = end_create(k, fd);
	if (h)
		h->room = malloc(CHANNEL_PIECE);
	if (!h || !h->room) {
		if (h)
			end_destroy(k, h);
		sock_unref(s);
		return NULL;
	}
	s->host = h;
	s->ops = &channel_ops;
	s->conn = SOCK_CONNECTED;
	f = sock_file(s, O_RDWR);
	if (!f)
		sock_unref(s);
	return f;
}
