/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/pipe.c - pipes and named pipes.
 *
 * Owns:  struct pipe: a ring of page-sized slots, as Linux has it. The slots show: a write of up to
 *        PIPE_BUF takes one slot as a whole, a full pipe becomes writable when a slot is free, and
 *        a packet is a slot that is never joined with the next.
 * Rules: the memory of slot n is ring + n * PIPE_PAGE, so runs of full slots are one copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "tier/kernel/io/pipe.h"

#include "base/str.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/task/signal.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

struct pipe_slot {
	uint16_t off, len;
	bool packet;
};

struct pipe {
	struct kernel *k;
	unsigned files;      /* open files that point here */
	uint32_t slots;      /* a power of two */
	uint32_t head, tail; /* counters; head - tail slots are in use */
	uint32_t readers, writers;
	uint32_t r_counter, w_counter; /* openings so far: what fifo_open_wait() waits to change */
	struct pipe_slot *slot;
	unsigned char *ring;    /* slots * PIPE_PAGE; NULL until the first write */
	struct wait_queue wait; /* both directions; waiters say what they want */
};

bool file_is_pipe(const struct file *f)
{
	return f->ops == &pipe_ops;
}

static struct pipe *pipe_of(const struct file *f)
{
	return f->priv;
}

static struct pipe *pipe_new(struct kernel *k)
{
	struct io_state *io = io_state(k);
	struct pipe *p;

	if (!io || io->pipe_pages >= PIPE_PAGES_HARD)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->k = k;
	p->slots = io->pipe_pages >= PIPE_PAGES_SOFT ? PIPE_SLOTS_LOW : PIPE_SLOTS;
	p->slot = calloc(p->slots, sizeof(p->slot[0]));
	if (!p->slot) {
		free(p);
		return NULL;
	}
	io->pipe_pages += p->slots;
	return p;
}

static void pipe_free(struct pipe *p)
{
	io_state(p->k)->pipe_pages -= p->slots;
	wait_flush(&p->wait);
	free(p->slot);
	free(p->ring);
	free(p);
}

static bool pipe_empty(const struct pipe *p)
{
	return p->head == p->tail;
}

static bool pipe_full(const struct pipe *p)
{
	return p->head - p->tail >= p->slots;
}

static struct pipe_slot *slot_at(const struct pipe *p, uint32_t n)
{
	return &p->slot[n & (p->slots - 1)];
}

static unsigned char *page_at(const struct pipe *p, uint32_t n)
{
	return p->ring + (size_t)(n & (p->slots - 1)) * PIPE_PAGE;
}

/* How many slots from the tail on form one run of memory, and its bytes. */
static size_t run_length(const struct pipe *p, size_t want, uint32_t *ret_slots)
{
	uint32_t n = p->tail;
	size_t bytes = 0;

	for (;;) {
		struct pipe_slot *s = slot_at(p, n);

		bytes += s->len;
		n++;
		if (bytes >= want || n == p->head || s->packet || s->off + s->len != PIPE_PAGE ||
			slot_at(p, n)->off != 0 || slot_at(p, n)->packet ||
			page_at(p, n) == p->ring)
			break;
	}
	*ret_slots = n - p->tail;
	return bytes < want ? bytes : want;
}

static void pipe_consume(struct pipe *p, size_t n)
{
	while (n > 0) {
		struct pipe_slot *s = slot_at(p, p->tail);
		size_t take = n < s->len ? n : s->len;

		s->off += take;
		s->len -= take;
		n -= take;
		if (s->len == 0)
			p->tail++;
	}
}

static ssize_t pipe_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct pipe *p = pipe_of(f);
	bool was_full = pipe_full(p), packet = false;
	ssize_t done = 0;

	if (io->left == 0)
		return 0;
	if (pipe_empty(p))
		return p->writers == 0 ? 0 : -EAGAIN;
	while (io->left > 0 && !pipe_empty(p) && !packet) {
		uint32_t slots;
		size_t n = run_length(p, io->left, &slots);
		struct pipe_slot *s = slot_at(p, p->tail);
		ssize_t r = uio_out(io, page_at(p, p->tail) + s->off, n);

		if (r < 0)
			return done ? done : r;
		packet = s->packet;
		if (packet) {
			s->len = 0; /* what was not asked for is lost */
			p->tail++;
		} else {
			pipe_consume(p, (size_t)r);
		}
		done += r;
		if ((size_t)r < n)
			break;
	}
	if (was_full && !pipe_full(p))
		wait_wake(&p->wait, POLLOUT | POLLWRNORM);
	return done;
}

static int pipe_broken(struct uio *io)
{
	if (io->task)
		signal_send_task(io->task, SIGPIPE, NULL);
	return -EPIPE;
}

/* The odd bytes of a write join the last slot when they fit there as a whole. */
static ssize_t pipe_merge(struct pipe *p, struct uio *io)
{
	size_t odd = io->left & (PIPE_PAGE - 1);
	struct pipe_slot *s;
	ssize_t r;

	if (odd == 0 || pipe_empty(p))
		return 0;
	s = slot_at(p, p->head - 1);
	if (s->packet || s->off + s->len + odd > PIPE_PAGE)
		return 0;
	r = uio_in(io, page_at(p, p->head - 1) + s->off + s->len, odd);
	if (r < 0)
		return r;
	if ((size_t)r < odd) {
		uio_back(io, (size_t)r);
		return -EFAULT;
	}
	s->len += odd;
	return r;
}

/* New slots for what is left: one run of memory. */
static ssize_t pipe_append(struct pipe *p, struct uio *io, bool packet)
{
	uint32_t at = p->head & (p->slots - 1), room = p->slots - (p->head - p->tail);
	size_t want = io->left, max;
	ssize_t r, left;

	if (room > p->slots - at)
		room = p->slots - at;
	if (packet && room > 1)
		room = 1;
	max = (size_t)room * PIPE_PAGE;
	if (want > max)
		want = max;
	r = uio_in(io, page_at(p, p->head), want);
	if (r < 0)
		return r;
	if ((size_t)r <
		want) { /* a page goes in whole, as far as it was asked for, or not at all */
		size_t keep = (size_t)r - (size_t)r % PIPE_PAGE;

		uio_back(io, (size_t)r - keep);
		if (keep == 0)
			return -EFAULT;
		r = (ssize_t)keep;
	}
	for (left = r; left > 0; left -= PIPE_PAGE) {
		*slot_at(p, p->head) = (struct pipe_slot){ .off = 0,
			.len = left < PIPE_PAGE ? (uint16_t)left : PIPE_PAGE,
			.packet = packet };
		p->head++;
	}
	return r;
}

static ssize_t pipe_write(struct file *f, struct uio *io, int64_t *pos)
{
	struct pipe *p = pipe_of(f);
	bool packet = f->flags & O_DIRECT;
	ssize_t done = 0, r;

	if (io->left == 0)
		return 0;
	if (p->readers == 0)
		return pipe_broken(io);
	if (!p->ring) {
		p->ring = malloc((size_t)p->slots * PIPE_PAGE);
		if (!p->ring)
			return -ENOMEM;
	}
	r = packet ? 0 : pipe_merge(p, io);
	while (r >= 0 && io->left > 0 && !pipe_full(p)) {
		done += r;
		r = pipe_append(p, io, packet);
	}
	if (r > 0)
		done += r;
	if (done > 0)
		wait_wake(&p->wait, POLLIN | POLLRDNORM);
	if (done == 0)
		return r < 0 ? r : -EAGAIN;
	return done;
}

static unsigned pipe_poll(struct file *f, struct poll_reg *reg)
{
	struct pipe *p = pipe_of(f);
	unsigned r = 0;

	poll_wait(reg, &p->wait);
	if (file_readable(f)) {
		if (!pipe_empty(p))
			r |= POLLIN | POLLRDNORM;
		/* A reader that opened a FIFO before any writer has not been hung up on yet. */
		if (p->writers == 0 && f->version != p->w_counter)
			r |= POLLHUP;
	}
	if (file_writable(f)) {
		if (!pipe_full(p))
			r |= POLLOUT | POLLWRNORM;
		if (p->readers == 0)
			r |= POLLERR;
	}
	return r;
}

uint64_t pipe_queued(const struct file *f)
{
	const struct pipe *p = pipe_of(f);
	uint64_t n = 0;

	for (uint32_t i = p->tail; i != p->head; i++)
		n += slot_at(p, i)->len;
	return n;
}

uint64_t pipe_room(const struct file *f)
{
	const struct pipe *p = pipe_of(f);

	return (uint64_t)(p->slots - (p->head - p->tail)) * PIPE_PAGE;
}

ssize_t pipe_peek(const struct file *f, void *buf, size_t len)
{
	const struct pipe *p = pipe_of(f);
	size_t done = 0;

	for (uint32_t i = p->tail; i != p->head && done < len; i++) {
		const struct pipe_slot *s = slot_at(p, i);
		size_t n = len - done < s->len ? len - done : s->len;

		memcpy((char *)buf + done, page_at(p, i) + s->off, n);
		done += n;
	}
	return (ssize_t)done;
}

void pipe_skip(struct file *f, size_t len)
{
	struct pipe *p = pipe_of(f);
	bool was_full = pipe_full(p);

	pipe_consume(p, len);
	if (was_full && !pipe_full(p))
		wait_wake(&p->wait, POLLOUT | POLLWRNORM);
}

bool pipe_ended(const struct file *f)
{
	return pipe_of(f)->writers == 0;
}

bool pipe_broken_now(const struct file *f)
{
	return pipe_of(f)->readers == 0;
}

static long pipe_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	if (cmd == FIONREAD)
		return guest_write_u32(t, GVA(arg), (uint32_t)pipe_queued(f));
	return -ENOTTY;
}

static void pipe_release(struct file *f)
{
	struct pipe *p = pipe_of(f);

	if (file_readable(f))
		p->readers--;
	if (file_writable(f))
		p->writers--;
	if (--p->files == 0) {
		f->inode->fifo = NULL;
		pipe_free(p);
		return;
	}
	if (p->readers == 0 || p->writers == 0)
		wait_wake(&p->wait, 0);
}

static int pipe_show(struct file *f, char *buf, size_t cap)
{
	return str_fmt(buf, cap, "pipe:[%llu]", (unsigned long long)f->inode->ino);
}

long pipe_size(struct file *f)
{
	return file_is_pipe(f) ? (long)pipe_of(f)->slots * PIPE_PAGE : -EBADF;
}

/* Takes the queued slots over to rings of another size. */
static int pipe_resize(struct pipe *p, uint32_t slots)
{
	struct pipe_slot *slot = calloc(slots, sizeof(*slot));
	unsigned char *ring = p->ring ? malloc((size_t)slots * PIPE_PAGE) : NULL;
	uint32_t n = 0;

	if (!slot || (p->ring && !ring)) {
		free(slot);
		free(ring);
		return -ENOMEM;
	}
	for (uint32_t i = p->tail; i != p->head; i++, n++) {
		slot[n] = *slot_at(p, i);
		memcpy(ring + (size_t)n * PIPE_PAGE, page_at(p, i), PIPE_PAGE);
	}
	free(p->slot);
	free(p->ring);
	p->slot = slot;
	p->ring = ring;
	p->slots = slots;
	p->tail = 0;
	p->head = n;
	return 0;
}

long pipe_set_size(struct file *f, struct task *t, uint64_t bytes)
{
	struct io_state *io = io_state(f->k);
	struct pipe *p = pipe_of(f);
	uint32_t slots = 1;
	bool was_full;
	int r;

	if (!file_is_pipe(f))
		return -EBADF;
	if ((uint32_t)bytes > 1u << 31)
		return -EINVAL;
	bytes = (uint32_t)bytes;
	if (bytes > PIPE_BYTES_MAX)
		return -EPERM;
	if (bytes == 0)
		bytes = PIPE_PAGE;
	while ((uint64_t)slots * PIPE_PAGE < bytes)
		slots *= 2;
	if (slots < p->head - p->tail)
		return -EBUSY;
	if (slots > p->slots && io->pipe_pages - p->slots + slots > PIPE_PAGES_SOFT)
		return -EPERM;
	was_full = pipe_full(p);
	io->pipe_pages -= p->slots;
	r = slots == p->slots ? 0 : pipe_resize(p, slots);
	io->pipe_pages += p->slots;
	if (r < 0)
		return r;
	if (was_full && !pipe_full(p))
		wait_wake(&p->wait, POLLOUT | POLLWRNORM);
	return (long)slots * PIPE_PAGE;
}

static void slots_walk(struct pipe *p, struct walk *w)
{
	for (uint32_t i = p->tail; i != p->head && !w->err; i++) {
		struct pipe_slot *s = slot_at(p, i);
		uint32_t off = s->off, len = s->len;

		walk_u32(w, "off", &off);
		walk_u32(w, "len", &len);
		walk_bool(w, "packet", &s->packet);
		if (off > PIPE_PAGE || len > PIPE_PAGE - off || len == 0) {
			walk_fail(w, -EBADMSG);
			return;
		}
		s->off = (uint16_t)off;
		s->len = (uint16_t)len;
		walk_bytes(w, "bytes", page_at(p, i) + off, len);
	}
}

/* Loading: the pipe has no slot in use. */
static void pipe_fields_walk(struct pipe *p, struct walk *w)
{
	uint32_t slots = p->slots, used = p->head - p->tail;

	walk_count(w, "slots", &slots, PIPE_BYTES_MAX / PIPE_PAGE);
	walk_count(w, "used", &used, slots);
	walk_u32(w, "r_counter", &p->r_counter);
	walk_u32(w, "w_counter", &p->w_counter);
	if (w->mode == WALK_LOAD) {
		if (slots == 0 || (slots & (slots - 1)))
			walk_fail(w, -EBADMSG);
		if (w->err)
			return;
		io_state(p->k)->pipe_pages += slots - p->slots;
		if (pipe_resize(p, slots) < 0) {
			io_state(p->k)->pipe_pages += p->slots - slots;
			walk_fail(w, -ENOMEM);
			return;
		}
		p->ring = used ? calloc(slots, PIPE_PAGE) : NULL;
		if (used && !p->ring) {
			walk_fail(w, -ENOMEM);
			return;
		}
		p->tail = 0;
		p->head = used;
	}
	slots_walk(p, w);
	if (w->mode == WALK_LOAD && w->err)
		p->head = p->tail;
}

/* The first file of a pipe that is walked brings it along. Who reads and writes is counted. */
static void pipe_walk(struct file *f, struct walk *w)
{
	struct pipe *p = w->mode == WALK_SAVE ? pipe_of(f) : f->inode->fifo;
	bool known = p && walk_knows(w, WALK_PIPE, p);

	walk_bool(w, "known", &known);
	if (w->err)
		return;
	if (w->mode == WALK_LOAD) {
		if (known != (p != NULL)) {
			walk_fail(w, -EBADMSG);
			return;
		}
		if (!p)
			p = pipe_new(f->k);
		if (!p) {
			walk_fail(w, -ENOMEM);
			return;
		}
		f->inode->fifo = f->priv = p;
		p->files++;
		p->readers += file_readable(f);
		p->writers += file_writable(f);
	}
	if (known)
		return;
	walk_number(w, WALK_PIPE, p);
	pipe_fields_walk(p, w);
}

const struct file_ops pipe_ops = {
	.name = "pipe",
	.flags = FILE_STREAM,
	.read = pipe_read,
	.write = pipe_write,
	.poll = pipe_poll,
	.ioctl = pipe_ioctl,
	.release = pipe_release,
	.show = pipe_show,
	.walk = pipe_walk,
};

int pipe_create(struct kernel *k, unsigned flags, struct file **ret_read, struct file **ret_write)
{
	struct inode *i = inode_anon(k, S_IFIFO | 0600);
	struct pipe *p = i ? pipe_new(k) : NULL;
	struct file *r, *w;

	if (!p) {
		inode_unref(i);
		return -ENFILE;
	}
	i->fifo = p;
	r = file_create(k, &pipe_ops, O_RDONLY | (flags & O_NONBLOCK), inode_ref(i), NULL);
	w = file_create(
		k, &pipe_ops, O_WRONLY | (flags & (O_NONBLOCK | O_DIRECT)), inode_ref(i), NULL);
	inode_unref(i);
	if (r)
		r->priv = p, p->files++, p->readers++;
	if (w)
		w->priv = p, p->files++, p->writers++;
	if (!r || !w) {
		if (!r && !w)
			pipe_free(p);
		file_unref(r);
		file_unref(w);
		return -ENFILE;
	}
	p->r_counter = p->w_counter = 1;
	*ret_read = r;
	*ret_write = w;
	return 0;
}

int fifo_open(struct inode *i, struct file *f, struct task *t)
{
	struct pipe *p = i->fifo;

	if (!file_readable(f) && !file_writable(f))
		return -EINVAL; /* for ioctls only: a pipe has none that would need it */
	if (i->sb && (f->flags & O_ACCMODE) == O_WRONLY && (f->flags & O_NONBLOCK) &&
		(!p || p->readers == 0))
		return -ENXIO;
	if (!p) {
		p = pipe_new(f->k);
		if (!p)
			return -ENOMEM;
		i->fifo = p;
	}
	f->ops = &pipe_ops;
	f->priv = p;
	p->files++;
	if (file_readable(f)) {
		p->readers++;
		p->r_counter++;
		/* pipe_poll(): no hang-up before there was a writer. */
		f->version = i->sb && p->writers == 0 ? p->w_counter : UINT64_MAX;
	}
	if (file_writable(f)) {
		p->writers++;
		p->w_counter++;
	}
	wait_wake(&p->wait, 0);
	return 0;
}

long fifo_open_wait(struct task *t, struct file *f)
{
	struct pipe *p = pipe_of(f);
	bool reads = (f->flags & O_ACCMODE) == O_RDONLY;
	int r;

	/* A pipe without a name, opened through /proc/PID/fd, had both ends from the start. */
	if ((f->flags & O_ACCMODE) == O_RDWR || (f->flags & O_NONBLOCK) || !f->inode->sb)
		return 0;
	/* A partner may have come and gone between two entries: count openings, not partners. */
	if (t->call.u[15] == 0)
		t->call.u[15] = 1 + (uint64_t)(reads ? p->w_counter : p->r_counter);
	if ((reads ? p->writers : p->readers) > 0 ||
		t->call.u[15] != 1 + (uint64_t)(reads ? p->w_counter : p->r_counter))
		return 0;
	r = wait_on(t, &p->wait, 0);
	return r < 0 ? r : wait_block(t);
}
