/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc/mqueue.c - POSIX message queues: names of their own, messages by priority.
 *
 * Owns:  struct mqueue. One lives while it has a name or an open file.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tier/kernel/ipc/ipc.h"

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/ns/ns.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk.h"

/* What libc's helper thread reads from its socket: its own bytes, the last of them our word. */
enum { NOTIFY_COOKIE = 32, NOTIFY_WOKEN = 1, NOTIFY_REMOVED = 2 };

struct mq_msg {
	struct mq_msg *next;
	uint32_t prio, len;
	uint8_t data[];
};

struct mqueue {
	struct mqueue *next;
	struct kernel *k;
	char *name; /* NULL: unlinked */
	unsigned files;
	uint32_t mode, uid, gid;
	struct ns *ns;     /* borrowed: its names end with it; NULL: the first */
	int64_t max, size; /* messages, bytes of one */
	uint64_t count, bytes;
	struct mq_msg *first; /* highest priority first, oldest of it first */
	struct wait_queue wait;
	struct proc *notify;
	int32_t notify_how, notify_sig;
	uint64_t notify_value;
	struct file *notify_file; /* SIGEV_THREAD: the netlink socket that is told; reference */
	uint8_t notify_cookie[NOTIFY_COOKIE];
	struct gucred_min {
		int32_t pid;
		uint32_t uid;
	} notify_by;
};

struct gmq_attr {
	int64_t flags, maxmsg, msgsize, curmsgs, reserved[4];
};

static uint64_t promised(int64_t max, int64_t size)
{
	return (uint64_t)max * ((uint64_t)size + sizeof(struct mq_msg));
}

static void forget_notify(struct mqueue *q, uint8_t why)
{
	if (q->notify_file) {
		q->notify_cookie[NOTIFY_COOKIE - 1] = why;
		netlink_tell(q->notify_file, q->notify_cookie, NOTIFY_COOKIE);
		file_unref(q->notify_file);
	}
	q->notify_file = NULL;
	q->notify = NULL;
}

static void mq_free(struct mqueue *q)
{
	struct ipc_state *s = q->k->ipc;
	struct mqueue **p = &s->queues;

	while (*p != q)
		p = &(*p)->next;
	*p = q->next;
	s->queue_count--;
	s->queue_bytes -= promised(q->max, q->size);
	while (q->first) {
		struct mq_msg *m = q->first;

		q->first = m->next;
		free(m);
	}
	wait_flush(&q->wait);
	file_unref(q->notify_file);
	free(q->name);
	free(q);
}

void mq_done(struct kernel *k)
{
	while (k->ipc->queues)
		mq_free(k->ipc->queues);
}

static void mq_drop(struct mqueue *q)
{
	if (!q->name && q->files == 0)
		mq_free(q);
}

void mq_ns_gone(struct kernel *k, const struct ns *n)
{
	struct mqueue *next;

	for (struct mqueue *q = k->ipc->queues; q; q = next) {
		next = q->next;
		if (q->ns != n)
			continue;
		q->ns = NULL;
		free(q->name);
		q->name = NULL;
		mq_drop(q);
	}
}

static int name_in(struct task *task, gva_t at, char *name, size_t cap)
{
	ssize_t n = guest_copy_string(task, at, name, cap);

	if (n < 0)
		return (int)n;
	if (n == 0)
		return -ENOENT;
	if (strchr(name, '/') || str_eq(name, ".") || str_eq(name, ".."))
		return -EACCES;
	return 0;
}

static struct mqueue *mq_find(struct task *t, const char *name)
{
	struct mqueue *q = ipc_state(t->k) ? t->k->ipc->queues : NULL;
	const struct ns *n = ns_of(t, NS_IPC);

	while (q && (!q->name || q->ns != n || !str_eq(q->name, name)))
		q = q->next;
	return q;
}

static int check_attr(struct task *task, const struct gmq_attr *a)
{
	if (a->maxmsg <= 0 || a->msgsize <= 0)
		return -EINVAL;
	if (task_capable(task, CAP_SYS_RESOURCE)) {
		if (a->maxmsg > MQ_HARD_MESSAGES || a->msgsize > MQ_HARD_BYTES)
			return -EINVAL;
	} else if (a->maxmsg > MQ_MESSAGES_MAX || a->msgsize > MQ_BYTES_MAX) {
		return -EINVAL;
	}
	return 0;
}

static struct mqueue *mq_create(struct task *task, const char *name, uint32_t mode,
	const struct gmq_attr *attr, int *ret_err)
{
	struct ipc_state *s = ipc_state(task->k);
	struct gmq_attr a = { .maxmsg = MQ_MESSAGES_MAX, .msgsize = MQ_BYTES_MAX };
	struct mqueue *q;

	if (attr)
		a = *attr;
	*ret_err = check_attr(task, &a);
	if (*ret_err < 0)
		return NULL;
	*ret_err = -ENOSPC;
	if (!s || s->queue_count >= MQ_QUEUES_MAX)
		return NULL;
	*ret_err = -EMFILE;
	if (s->queue_bytes + promised(a.maxmsg, a.msgsize) > MQ_TOTAL_BYTES)
		return NULL;
	*ret_err = -ENOMEM;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->name = strdup(name);
	if (!q->name) {
		free(q);
		return NULL;
	}
	q->k = task->k;
	q->ns = ns_of(task, NS_IPC);
	q->mode = mode & ~(task->fs ? task->fs->umask : 0) & 0777;
	q->uid = task->cred->fsuid;
	q->gid = task->cred->fsgid;
	q->max = a.maxmsg;
	q->size = a.msgsize;
	q->next = s->queues;
	s->queues = q;
	s->queue_count++;
	s->queue_bytes += promised(q->max, q->size);
	*ret_err = 0;
	return q;
}

static int may_open(struct task *task, const struct mqueue *q, unsigned flags)
{
	unsigned mode = q->mode, acc = flags & O_ACCMODE;
	unsigned want = acc == O_RDONLY ? 4 : acc == O_WRONLY ? 2 : 6;

	if (task->cred->fsuid == q->uid)
		mode >>= 6;
	else if (task_in_group(task, q->gid))
		mode >>= 3;
	return (want & ~mode) && !task_capable(task, CAP_DAC_OVERRIDE) ? -EACCES : 0;
}

SYSCALL4(mq_open, gva_t, uname, uint32_t, flags, uint32_t, mode, gva_t, uattr)
{
	char name[GUEST_NAME_MAX + 1];
	struct gmq_attr attr;
	struct mqueue *q;
	struct file *f;
	int r = 0;
	long fd;

	if ((flags & O_CREAT) && !gva_null(uattr) &&
		guest_read(task, &attr, uattr, sizeof(attr)) < 0)
		return -EFAULT;
	if ((flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	r = name_in(task, uname, name, sizeof(name));
	if (r < 0)
		return r;
	q = mq_find(task, name);
	if (q && (flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (!q && !(flags & O_CREAT))
		return -ENOENT;
	if (q)
		r = may_open(task, q, flags);
	else
		q = mq_create(task, name, mode, gva_null(uattr) ? NULL : &attr, &r);
	if (!q || r < 0)
		return r;
	f = io_file(task->k, &mq_ops, (flags & (O_ACCMODE | O_NONBLOCK)), S_IFREG | q->mode, q);
	if (!f) {
		mq_drop(q);
		return -ENFILE;
	}
	q->files++;
	fd = io_install(task, f, flags & O_CLOEXEC);
	return fd;
}

SYSCALL1(mq_unlink, gva_t, uname)
{
	char name[GUEST_NAME_MAX + 1];
	struct mqueue *q;
	int r = name_in(task, uname, name, sizeof(name));

	if (r < 0)
		return r;
	q = mq_find(task, name);
	if (!q)
		return -ENOENT;
	if (task->cred->fsuid != q->uid && !task_capable(task, CAP_FOWNER))
		return -EACCES;
	free(q->name);
	q->name = NULL;
	mq_drop(q);
	return 0;
}

static struct mqueue *mq_of(struct task *task, int fd, struct file **ret)
{
	struct file *f = fd_get(task, fd);

	*ret = f;
	return f && f->ops == &mq_ops ? f->priv : NULL;
}

/* A deadline on CLOCK_REALTIME; first entry. */
static int deadline_in(struct task *task, gva_t at)
{
	int64_t ns;
	int r;

	if (!task->call.first || gva_null(at))
		return 0;
	r = guest_read_timespec(task, at, &ns);
	if (r < 0)
		return r;
	if (ckd_sub(&ns, ns, kernel_realtime(task->k) - kernel_now(task->k)))
		return 0;
	task->call.deadline = ns > 0 ? ns : 1;
	return 0;
}

static long mq_block(struct task *task, struct mqueue *q, struct file *f, bool reader)
{
	long r;

	if (f->flags & O_NONBLOCK)
		return -EAGAIN;
	r = wait_on(task, &q->wait, reader ? POLLIN : POLLOUT);
	if (r == 0)
		r = wait_block(task);
	if (r == SYS_BLOCK)
		file_hold(task, f);
	task->call.u[0] = reader; /* has_reader() looks */
	return r;
}

/* Somebody waits in receive: then the message is theirs, and nobody is notified. */
static bool has_reader(const struct mqueue *q)
{
	for (struct wait_entry *e = q->wait.first; e; e = e->next) {
		if (e->task && e->task->call.nr == SYS_mq_timedreceive && e->task->call.u[0])
			return true;
	}
	return false;
}

static void mq_notify_now(struct mqueue *q)
{
	struct proc *p = q->notify;
	union gsiginfo si;

	forget_notify(q, NOTIFY_WOKEN);
	if (q->notify_how != SIGEV_SIGNAL)
		return;
	memset(&si, 0, sizeof(si));
	si.signo = q->notify_sig;
	si.code = SI_MESGQ;
	si.kill.pid = q->notify_by.pid;
	si.kill.uid = q->notify_by.uid;
	si.kill.value = q->notify_value;
	signal_send_proc(p, q->notify_sig, &si);
}

static void insert(struct mqueue *q, struct mq_msg *m)
{
	struct mq_msg **p = &q->first;

	while (*p && (*p)->prio >= m->prio)
		p = &(*p)->next;
	m->next = *p;
	*p = m;
	q->count++;
	q->bytes += m->len;
}

SYSCALL5(mq_timedsend, int32_t, fd, gva_t, data, uint64_t, len, uint32_t, prio, gva_t, timeout)
{
	struct mq_msg *m;
	struct mqueue *q;
	struct file *f;
	int r;

	if (prio >= MQ_PRIO_MAX_)
		return -EINVAL;
	r = deadline_in(task, timeout);
	if (r < 0)
		return r;
	q = mq_of(task, fd, &f);
	if (!q || !file_writable(f))
		return -EBADF;
	if (len > (uint64_t)q->size)
		return -EMSGSIZE;
	m = malloc(sizeof(*m) + len);
	if (!m)
		return -ENOMEM;
	if (len && guest_read(task, m->data, data, len) < 0) {
		free(m);
		return -EFAULT;
	}
	if (q->count >= (uint64_t)q->max) {
		free(m);
		return mq_block(task, q, f, false);
	}
	m->prio = prio;
	m->len = (uint32_t)len;
	insert(q, m);
	if (q->count == 1 && q->notify && !has_reader(q)) {
		q->notify_by.pid = task->proc->pid;
		q->notify_by.uid = task->cred->uid;
		mq_notify_now(q);
	}
	wait_wake(&q->wait, POLLIN | POLLRDNORM);
	return 0;
}

SYSCALL5(mq_timedreceive, int32_t, fd, gva_t, data, uint64_t, len, gva_t, uprio, gva_t, timeout)
{
	struct mq_msg *m;
	struct mqueue *q;
	struct file *f;
	long n;
	int r = deadline_in(task, timeout);

	if (r < 0)
		return r;
	q = mq_of(task, fd, &f);
	if (!q || !file_readable(f))
		return -EBADF;
	if (len < (uint64_t)q->size)
		return -EMSGSIZE;
	m = q->first;
	if (!m)
		return mq_block(task, q, f, true);
	q->first = m->next;
	q->count--;
	q->bytes -= m->len;
	n = m->len;
	if ((!gva_null(uprio) && guest_write_u32(task, uprio, m->prio) < 0) ||
		(m->len && guest_write(task, data, m->data, m->len) < 0))
		n = -EFAULT;
	free(m);
	wait_wake(&q->wait, POLLOUT | POLLWRNORM);
	return n;
}

SYSCALL3(mq_getsetattr, int32_t, fd, gva_t, in, gva_t, out)
{
	struct gmq_attr set, old;
	struct mqueue *q;
	struct file *f;

	if (!gva_null(in)) {
		if (guest_read(task, &set, in, sizeof(set)) < 0)
			return -EFAULT;
		if (set.flags & ~(int64_t)O_NONBLOCK)
			return -EINVAL;
	}
	q = mq_of(task, fd, &f);
	if (!q)
		return -EBADF;
	memset(&old, 0, sizeof(old));
	old.flags = f->flags & O_NONBLOCK;
	old.maxmsg = q->max;
	old.msgsize = q->size;
	old.curmsgs = (int64_t)q->count;
	if (!gva_null(in))
		f->flags = (f->flags & ~(unsigned)O_NONBLOCK) | (unsigned)(set.flags & O_NONBLOCK);
	return gva_null(out) ? 0 : guest_write(task, out, &old, sizeof(old));
}

struct gsigevent {
	uint64_t value;
	int32_t signo, notify;
	int32_t pad[12];
};

SYSCALL2(mq_notify, int32_t, fd, gva_t, event)
{
	uint8_t cookie[NOTIFY_COOKIE];
	struct file *f, *sock = NULL;
	struct gsigevent ev;
	struct mqueue *q;
	int r;

	if (!gva_null(event)) {
		if (guest_read(task, &ev, event, sizeof(ev)) < 0)
			return -EFAULT;
		if (ev.notify != SIGEV_NONE && ev.notify != SIGEV_SIGNAL &&
			ev.notify != SIGEV_THREAD)
			return -EINVAL;
		if (ev.notify == SIGEV_SIGNAL && (ev.signo < 0 || ev.signo > GSIG_MAX))
			return -EINVAL;
		if (ev.notify == SIGEV_THREAD &&
			guest_read(task, cookie, GVA(ev.value), sizeof(cookie)) < 0)
			return -EFAULT;
	}
	q = mq_of(task, fd, &f);
	if (!q)
		return -EBADF;
	if (gva_null(event)) {
		if (q->notify == task->proc)
			forget_notify(q, NOTIFY_REMOVED);
		return 0;
	}
	if (ev.notify == SIGEV_THREAD) {
		sock = fd_get(task, ev.signo);
		r = sock ? netlink_is(sock) : -EBADF;
		if (r < 0)
			return r;
	}
	if (q->notify)
		return -EBUSY;
	if (sock) {
		q->notify_file = file_ref(sock);
		memcpy(q->notify_cookie, cookie, sizeof(cookie));
	}
	q->notify = task->proc;
	q->notify_how = ev.notify;
	q->notify_sig = ev.signo;
	q->notify_value = ev.value;
	return 0;
}

/* Closing any descriptor of the queue takes the process's registration away, as does its end. */
static void mq_flush(struct file *f, struct task *t)
{
	struct mqueue *q = f->priv;

	if (q->notify == t->proc)
		forget_notify(q, NOTIFY_REMOVED);
}

static ssize_t mq_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct mqueue *q = f->priv;
	char text[128];
	size_t n;

	if (str_fmt(text, sizeof(text), "QSIZE:%-10llu NOTIFY:%-5d SIGNO:%-5d NOTIFY_PID:%-6d\n",
		    (unsigned long long)q->bytes, q->notify ? q->notify_how : 0,
		    q->notify ? q->notify_sig : 0, q->notify ? q->notify->pid : 0) < 0)
		return -EIO;
	n = strlen(text);
	if ((uint64_t)f->pos >= n)
		return 0;
	n -= (size_t)f->pos;
	ssize_t r = uio_out(io, text + f->pos, n < io->left ? n : io->left);
	if (r > 0)
		f->pos += r;
	return r;
}

static unsigned mq_poll(struct file *f, struct poll_reg *reg)
{
	struct mqueue *q = f->priv;

	poll_wait(reg, &q->wait);
	return (q->count ? POLLIN | POLLRDNORM : 0) |
	       (q->count < (uint64_t)q->max ? POLLOUT | POLLWRNORM : 0);
}

static void mq_release(struct file *f)
{
	struct mqueue *q = f->priv;

	q->files--;
	mq_drop(q);
}

static void mq_file_walk(struct file *f, struct walk *w)
{
	struct mqueue *q = f->priv;

	walk_need(w, "queue", WALK_IPC, (void **)&q);
	if (w->mode == WALK_SAVE || w->err)
		return;
	f->priv = q;
	q->files++;
}

const struct file_ops mq_ops = {
	.name = "mqueue",
	.flags = FILE_STREAM,
	.read = mq_read,
	.poll = mq_poll,
	.flush = mq_flush,
	.release = mq_release,
	.walk = mq_file_walk,
};

static void message_walk(struct mq_msg *m, struct walk *w)
{
	walk_u32(w, "prio", &m->prio);
	walk_bytes(w, "data", m->data, m->len);
}

static void messages_load(struct mqueue *q, uint32_t n, struct walk *w)
{
	for (; n > 0 && !w->err; n--) {
		struct mq_msg *m;
		uint32_t len = 0;

		walk_list(w, "len", &len, (uint32_t)q->size);
		m = w->err ? NULL : malloc(sizeof(*m) + len);
		if (!m) {
			walk_fail(w, -ENOMEM);
			return;
		}
		m->len = len;
		message_walk(m, w);
		insert(q, m);
	}
}

static void queue_walk(struct mqueue *q, struct walk *w)
{
	struct ipc_state *s = q->k->ipc;
	uint32_t n = (uint32_t)q->count;
	int64_t max = q->max, size = q->size;

	walk_str(w, "name", &q->name);
	walk_u32(w, "mode", &q->mode);
	ns_ref_walk(w, "ns", NS_IPC, &q->ns);
	if (w->mode == WALK_LOAD)
		ns_unref(q->ns);
	walk_u32(w, "uid", &q->uid);
	walk_u32(w, "gid", &q->gid);
	walk_i64(w, "max", &max);
	walk_i64(w, "size", &size);
	if (max < 1 || max > MQ_HARD_MESSAGES || size < 1 || size > MQ_HARD_BYTES)
		walk_fail(w, -EBADMSG);
	if (w->err)
		return;
	q->max = max;
	q->size = size;
	if (w->mode == WALK_LOAD)
		s->queue_bytes += promised(max, size);
	walk_list(w, "messages", &n, (uint32_t)max);
	for (struct mq_msg *m = q->first; m && w->mode == WALK_SAVE; m = m->next) {
		walk_u32(w, "len", &m->len);
		message_walk(m, w);
	}
	if (w->mode == WALK_LOAD)
		messages_load(q, n, w);
}

static struct mqueue *queue_make(struct kernel *k, struct walk *w)
{
	struct mqueue *q = calloc(1, sizeof(*q));

	if (!q) {
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	q->k = k;
	q->next = k->ipc->queues;
	k->ipc->queues = q;
	k->ipc->queue_count++;
	return q;
}

void mq_walk(struct kernel *k, struct walk *w)
{
	struct ipc_state *s = k->ipc;
	struct mqueue *q, *last = NULL;
	uint32_t n = s->queue_count;

	walk_list(w, "queues", &n, MQ_QUEUES_MAX);
	for (; n > 0 && !w->err; n--) {
		if (w->mode == WALK_LOAD) {
			q = queue_make(k, w);
		} else { /* the oldest first: each new one comes in front */
			for (q = s->queues; q->next != last; q = q->next)
				;
			last = q;
		}
		if (!q)
			return;
		walk_number(w, WALK_IPC, q);
		queue_walk(q, w);
	}
}

/* Closing a descriptor takes the process's registration away: so it must have one. */
static bool has_open(const struct proc *p, const struct mqueue *q)
{
	for (const struct task *t = p->tasks; t; t = t->next)
		for (unsigned i = 0; t->files && i < t->files->cap; i++)
			if (t->files->slots[i].file && t->files->slots[i].file->priv == q &&
				t->files->slots[i].file->ops == &mq_ops)
				return true;
	return false;
}

static void notify_walk(struct mqueue *q, struct walk *w)
{
	struct proc *p = q->notify;
	struct file *f = q->notify_file;

	walk_ref(w, "notify", WALK_PROC, (void **)&p);
	walk_ref(w, "notify_file", WALK_FILE, (void **)&f);
	walk_i32(w, "notify_how", &q->notify_how);
	walk_i32(w, "notify_sig", &q->notify_sig);
	walk_u64(w, "notify_value", &q->notify_value);
	walk_bytes(w, "notify_cookie", q->notify_cookie, sizeof(q->notify_cookie));
	walk_bytes(w, "notify_by", &q->notify_by, sizeof(q->notify_by));
	if (w->mode == WALK_SAVE || w->err)
		return;
	if ((p && !has_open(p, q)) || (f && (!p || netlink_is(f) < 0)) ||
		(q->notify_how == SIGEV_SIGNAL &&
			(q->notify_sig < 0 || q->notify_sig > GSIG_MAX))) {
		walk_fail(w, -EBADMSG);
		return;
	}
	q->notify = p;
	q->notify_file = f ? file_ref(f) : NULL;
}

void mq_link_walk(struct kernel *k, struct walk *w)
{
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_IPC) && !w->err; i++)
		notify_walk(walk_get(w, WALK_IPC, i), w);
}

void mq_each_file(struct kernel *k, void (*fn)(void *arg, struct file *f), void *arg)
{
	struct mqueue *last = NULL, *q;

	for (; k->ipc && last != k->ipc->queues; last = q) { /* the oldest first */
		for (q = k->ipc->queues; q->next != last; q = q->next)
			;
		if (q->notify_file)
			fn(arg, q->notify_file);
	}
}
