/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/vsock.c - streams between guest and host.
 *
 * Owns:  every connection's socket, and at most VSOCK_BUFFER bytes of the guest for each.
 * Rules: the guest's word for its own cid counts for nothing. A packet is checked on a copy of its
 *        head; what names no connection is answered with a reset; a guest that sends more than it
 *        was given credit for loses that connection. Nothing waits: what a socket does not take is
 *        kept, what the guest has no room for stays in the socket.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "tier/vm/virtio/vsock.h"
#include "tier/vm/vwalk.h"

/* clang-format off */
enum { QUEUE_RX, QUEUE_TX, QUEUE_EVENT, QUEUES };
enum {
	TYPE_STREAM = 1,
	OP_REQUEST = 1, OP_RESPONSE = 2, OP_RST = 3, OP_SHUTDOWN = 4, OP_RW = 5,
	OP_CREDIT = 6, OP_CREDIT_REQUEST = 7,
	SHUT_RECEIVE = 1, SHUT_SEND = 2,
	EVENT_RESET = 0,
};
/* clang-format on */

enum { PACKET_MAX = 64 * 1024 };
#define FIRST_HOST_PORT (1u << 30)

struct head {
	uint64_t src_cid, dst_cid;
	uint32_t src_port, dst_port, len;
	uint16_t type, op;
	uint32_t flags, buf_alloc, fwd_cnt;
} __attribute__((packed));
_Static_assert(sizeof(struct head) == 44, "virtio 5.10.6");

static void pump(struct vsock *s);

/* --- The table of connections ----------------------------------------------------------------- */

static struct vsock_conn *find(struct vsock *s, uint32_t host_port, uint32_t guest_port)
{
	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++) {
		struct vsock_conn *c = &s->conns[i];

		if ((c->state == VSOCK_OPEN || c->state == VSOCK_ASKED) &&
			c->host_port == host_port && c->guest_port == guest_port)
			return c;
	}
	return NULL;
}

static void close_conn(struct vsock *s, struct vsock_conn *c)
{
	watches_remove(s->events, &c->watch);
	close(c->fd);
	free(c->buffer);
	*c = (struct vsock_conn){ .owner = s, .fd = -1, .watch.fd = -1 };
}

/* The guest is told that there is no such connection (any more). More than it reads is dropped. */
static void reset(struct vsock *s, uint32_t host_port, uint32_t guest_port)
{
	unsigned i = (s->reset_at + s->reset_count) % VSOCK_RESETS_MAX;

	if (s->reset_count == VSOCK_RESETS_MAX)
		return;
	s->resets[i] = (struct vsock_reset){ host_port, guest_port };
	s->reset_count++;
}

static void abort_conn(struct vsock *s, struct vsock_conn *c)
{
	if (c->state == VSOCK_OPEN || c->state == VSOCK_ASKED)
		reset(s, c->host_port, c->guest_port);
	close_conn(s, c);
}

/* --- Between a connection and its socket ------------------------------------------------------ */

static uint32_t room_of_guest(const struct vsock_conn *c)
{
	uint32_t used = c->sent - c->peer_taken;

	return used < c->peer_alloc ? c->peer_alloc - used : 0;
}

/* What the socket is watched for follows from what could be done with it. */
static void update_watch(struct vsock *s, struct vsock_conn *c)
{
	bool read = c->state == VSOCK_GREETING ||
		    (c->state == VSOCK_OPEN && !c->host_ended && !c->wants_read);
	uint32_t mask = (read ? EPOLLIN : 0) | (c->len ? EPOLLOUT : 0);

	if (c->state == VSOCK_ASKED)
		mask = EPOLLRDHUP;
	watches_change(s->events, &c->watch, mask);
}

/* Both sides have ended, and all is delivered. */
static bool is_over(const struct vsock_conn *c)
{
	return c->host_ended && c->guest_ended && c->len == 0 && c->told_shutdown;
}

/* The host took @n more bytes of the guest's. */
static void took(struct vsock_conn *c, uint32_t n)
{
	c->taken += n;
	if (c->taken - c->told_taken >= VSOCK_BUFFER / 2)
		c->tell_credit = true;
}

/* Writes what waits; false: the socket is dead. */
static bool flush(struct vsock_conn *c)
{
	while (c->len) {
		ssize_t n = send(c->fd, c->buffer + c->at, c->len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		c->at += (uint32_t)n;
		c->len -= (uint32_t)n;
		took(c, (uint32_t)n);
	}
	free(c->buffer);
	c->buffer = NULL;
	c->at = 0;
	if (c->guest_ended)
		shutdown(c->fd, SHUT_WR);
	return true;
}

/* Keeps @len bytes from byte @at of the chain's readable part. False: no memory. */
static bool keep(struct vsock_conn *c, const struct vchain *chain, uint64_t at, uint32_t len)
{
	if (!c->buffer)
		c->buffer = malloc(VSOCK_BUFFER);
	if (!c->buffer)
		return false;
	memmove(c->buffer, c->buffer + c->at, c->len);
	c->at = 0;
	vchain_read(chain, at, c->buffer + c->len, len);
	c->len += len;
	return true;
}

/* Data of the guest: as much as the socket takes at once, the rest is kept. */
static bool deliver(struct vsock_conn *c, const struct vchain *chain, uint32_t len)
{
	struct iovec iov[VIRTQ_SIZE_MAX];
	struct msghdr msg = { .msg_iov = iov };
	ssize_t n = 0;

	if (c->guest_ended || len > VSOCK_BUFFER - c->len)
		return false; /* it had no credit for that */
	if (c->len == 0) {
		msg.msg_iovlen = vchain_slice(chain, false, sizeof(struct head), len, iov);
		n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		n = n < 0 ? 0 : n;
		took(c, (uint32_t)n);
	}
	return (uint32_t)n == len ||
	       keep(c, chain, sizeof(struct head) + (uint64_t)n, len - (uint32_t)n);
}

static int send_text(int fd, const char *text)
{
	ssize_t n = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);

	return n == (ssize_t)strlen(text) ? 0 : -EPIPE;
}

/* --- A client of the host side says where to ---------------------------------------------------
 */

/* Those of which nobody has answered yet: who greets for too long, and whom the guest lets wait. */
static bool is_half_open(const struct vsock_conn *c)
{
	return c->state == VSOCK_GREETING || c->state == VSOCK_ASKED;
}

/* Some time from now, when it must be looked who is half open still. */
static void look_later(struct vsock *s)
{
	struct itimerspec once = { .it_value = { .tv_sec = 1 } };

	if (s->timer_runs) /* nobody puts it off by calling again */
		return;
	s->timer_runs = true;
	if (timerfd_settime(s->timer, 0, &once, NULL) < 0)
		abort(); /* it is ours, and open */
}

static void on_timer(void *arg, uint32_t events)
{
	struct vsock *s = arg;
	uint64_t count, now = clock_ns();
	bool more = false;

	(void)events;
	if (read(s->timer, &count, sizeof(count)) < 0)
		return;
	s->timer_runs = false;
	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++) {
		struct vsock_conn *c = &s->conns[i];

		if (is_half_open(c) && now - c->since_ns >= VSOCK_HALF_OPEN_MS * 1000000ull)
			abort_conn(s, c);
		more |= is_half_open(c);
	}
	if (more)
		look_later(s);
	pump(s);
}

/* "CONNECT <port>"; false: it is something else. */
static bool parse_connect(const char *line, uint32_t *ret_port)
{
	static const char word[] = "CONNECT ";
	uint64_t port;

	if (strncasecmp(line, word, sizeof(word) - 1) != 0 ||
		parse_u64(line + sizeof(word) - 1, 0, UINT32_MAX - 1, &port) < 0)
		return false;
	*ret_port = (uint32_t)port;
	return true;
}

static void ask_guest(struct vsock *s, struct vsock_conn *c, uint32_t port)
{
	c->state = VSOCK_ASKED;
	c->guest_port = port;
	do {
		c->host_port = s->next_host_port++;
		if (s->next_host_port < FIRST_HOST_PORT)
			s->next_host_port = FIRST_HOST_PORT;
		c->state = VSOCK_FREE; /* so that it does not find itself */
	} while (find(s, c->host_port, port));
	c->state = VSOCK_ASKED;
	c->tell_request = true;
	c->since_ns = clock_ns(); /* and now it is the guest who is waited for */
	update_watch(s, c);
}

/* One byte at a time, so that nothing behind the newline is read. */
static void greet(struct vsock *s, struct vsock_conn *c)
{
	uint32_t port;

	for (;;) {
		char byte;
		ssize_t n = recv(c->fd, &byte, 1, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0 || byte == '\0' || c->line_len == VSOCK_LINE_MAX - 1) {
			close_conn(s, c);
			return;
		}
		if (byte == '\n')
			break;
		c->line[c->line_len++] = byte;
	}
	c->line[c->line_len] = '\0';
	if (!parse_connect(c->line, &port))
		close_conn(s, c);
	else
		ask_guest(s, c, port);
}

static void on_socket(void *arg, uint32_t events)
{
	struct vsock_conn *c = arg;
	struct vsock *s = c->owner;

	if (c->state == VSOCK_GREETING) {
		greet(s, c);
	} else if ((events & EPOLLOUT) && !flush(c)) {
		abort_conn(s, c);
	} else if (c->state == VSOCK_ASKED || is_over(c)) {
		abort_conn(
			s, c); /* the client went away before the guest answered; or all is said */
	} else {
		c->wants_read |= !c->host_ended && (events & (EPOLLIN | EPOLLHUP | EPOLLERR));
		update_watch(s, c);
	}
	pump(s);
}

static struct vsock_conn *add_conn(struct vsock *s, int fd, enum vsock_state state, struct err *e)
{
	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++) {
		struct vsock_conn *c = &s->conns[i];

		if (c->state != VSOCK_FREE)
			continue;
		*c = (struct vsock_conn){ .owner = s, .state = state, .fd = fd };
		c->watch = (struct watch){ .fd = -1, .fn = on_socket, .arg = c };
		if (watches_add(s->events, &c->watch, fd, state == VSOCK_GREETING ? EPOLLIN : 0,
			    e) == 0)
			return c;
		*c = (struct vsock_conn){ .owner = s, .fd = -1, .watch.fd = -1 };
		break;
	}
	close(fd);
	return NULL;
}

static void on_client(void *arg, uint32_t events)
{
	struct vsock *s = arg;
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct vsock_conn *c;
	struct err e;

	(void)events;
	c = fd < 0 ? NULL : add_conn(s, fd, VSOCK_GREETING, &e);
	if (!c)
		return;
	c->since_ns = clock_ns();
	look_later(s);
}

/* --- From the guest --------------------------------------------------------------------------- */

static void learn_credit(struct vsock_conn *c, const struct head *h)
{
	c->peer_alloc = h->buf_alloc;
	c->peer_taken = h->fwd_cnt;
}

static void on_request(struct vsock *s, const struct head *h)
{
	struct vsock_conn *c = find(s, h->dst_port, h->src_port);
	struct err e;
	int fd;

	if (c) { /* twice the same: it is confused, and loses both */
		abort_conn(s, c);
		return;
	}
	fd = s->dial(s->dial_arg, h->dst_port);
	c = fd < 0 ? NULL : add_conn(s, fd, VSOCK_OPEN, &e);
	if (!c) {
		reset(s, h->dst_port, h->src_port);
		return;
	}
	c->host_port = h->dst_port;
	c->guest_port = h->src_port;
	c->tell_response = true;
	learn_credit(c, h);
	update_watch(s, c);
}

static bool on_response(struct vsock *s, struct vsock_conn *c)
{
	char text[32];

	if (c->state != VSOCK_ASKED)
		return false;
	c->state = VSOCK_OPEN;
	if (str_fmt(text, sizeof(text), "OK %u\n", c->host_port) < 0 || send_text(c->fd, text) < 0)
		return false;
	update_watch(s, c);
	return true;
}

static void on_shutdown(struct vsock *s, struct vsock_conn *c, uint32_t flags)
{
	if (flags & SHUT_SEND) {
		c->guest_ended = true;
		if (c->len == 0)
			shutdown(c->fd, SHUT_WR);
	}
	if (flags & SHUT_RECEIVE) {
		c->host_ended = true; /* nothing more goes to it */
		c->told_shutdown = true;
		update_watch(s, c);
	}
}

/* False: the connection cannot go on. */
static bool on_packet(struct vsock *s, struct vsock_conn *c, const struct head *h)
{
	learn_credit(c, h);
	switch (h->op) {
	case OP_RESPONSE:
		return on_response(s, c);
	case OP_RW:
		if (c->state != VSOCK_OPEN || !deliver(c, &s->chain, h->len))
			return false;
		update_watch(s, c);
		return true;
	case OP_SHUTDOWN:
		on_shutdown(s, c, h->flags);
		return true;
	case OP_CREDIT:
		return true;
	case OP_CREDIT_REQUEST:
		c->tell_credit = true;
		return true;
	default:
		return false;
	}
}

static void receive(struct vsock *s)
{
	struct vsock_conn *c;
	struct head h;

	if (vchain_read(&s->chain, 0, &h, sizeof(h)) != sizeof(h) || h.dst_cid != VSOCK_HOST_CID ||
		h.len > s->chain.in_bytes - sizeof(h))
		return;
	if (h.type != TYPE_STREAM) {
		reset(s, h.dst_port, h.src_port);
		return;
	}
	if (h.op == OP_REQUEST) {
		on_request(s, &h);
		return;
	}
	c = find(s, h.dst_port, h.src_port);
	if (h.op == OP_RST) {
		if (c)
			close_conn(s, c);
	} else if (!c) {
		reset(s, h.dst_port, h.src_port);
	} else if (!on_packet(s, c, &h) || is_over(c)) {
		abort_conn(s, c);
	}
}

static void work_tx(struct vsock *s)
{
	struct virtq *q = &s->dev.queues[QUEUE_TX];
	unsigned count = 0;
	bool over = false;
	int r = 0;

	do {
		while (!over && (r = virtq_pop(q, &s->chain)) > 0) {
			receive(s);
			virtq_push(q, s->chain.head, 0);
			over = vdev_had_turn(&s->dev, QUEUE_TX, ++count);
		}
	} while (r == 0 && !over && virtq_rearm(q));
	vdev_tell(&s->dev, q);
	if (r < 0)
		vdev_stop(&s->dev, q->broken);
}

/* --- To the guest ----------------------------------------------------------------------------- */

static struct head head_for(const struct vsock *s, struct vsock_conn *c, uint16_t op)
{
	c->told_taken = c->taken;
	c->tell_credit = false;
	return (struct head){ .src_cid = VSOCK_HOST_CID,
		.dst_cid = s->cid,
		.src_port = c->host_port,
		.dst_port = c->guest_port,
		.type = TYPE_STREAM,
		.op = op,
		.buf_alloc = VSOCK_BUFFER,
		.fwd_cnt = c->taken };
}

/* Data from the socket, straight into the guest's buffer. 0: there was none. */
static uint32_t read_socket(struct vsock *s, struct vsock_conn *c)
{
	uint64_t most = s->chain.out_bytes - sizeof(struct head);
	uint32_t room = room_of_guest(c);
	struct iovec iov[VIRTQ_SIZE_MAX];
	struct msghdr msg = { .msg_iov = iov };
	ssize_t n;

	most = most < room ? most : room;
	most = most < PACKET_MAX ? most : PACKET_MAX;
	if (most == 0)
		return 0;
	msg.msg_iovlen = vchain_slice(&s->chain, true, sizeof(struct head), most, iov);
	n = recvmsg(c->fd, &msg, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		c->wants_read = false;
		update_watch(s, c);
		return 0;
	}
	if (n <= 0) {
		c->host_ended = true;
		c->wants_read = false;
		c->tell_shutdown = true;
		update_watch(s, c);
		return 0;
	}
	c->sent += (uint32_t)n;
	return (uint32_t)n;
}

/* What @c has to say now, into the chain; false: nothing. */
static bool speak(struct vsock *s, struct vsock_conn *c, struct head *ret)
{
	uint32_t n = 0;

	if (c->tell_request || c->tell_response) {
		*ret = head_for(s, c, c->tell_request ? OP_REQUEST : OP_RESPONSE);
		c->tell_request = c->tell_response = false;
		return true;
	}
	if (c->state != VSOCK_OPEN)
		return false;
	if (c->wants_read)
		n = read_socket(s, c);
	if (n) {
		*ret = head_for(s, c, OP_RW);
		ret->len = n;
	} else if (c->tell_shutdown) {
		*ret = head_for(s, c, OP_SHUTDOWN);
		ret->flags = SHUT_SEND;
		c->tell_shutdown = false;
		c->told_shutdown = true;
	} else if (c->tell_credit) {
		*ret = head_for(s, c, OP_CREDIT);
	} else {
		return false;
	}
	return true;
}

static bool has_words(const struct vsock_conn *c)
{
	if (c->state == VSOCK_ASKED)
		return c->tell_request;
	return c->state == VSOCK_OPEN && (c->tell_response || c->tell_shutdown || c->tell_credit ||
						 (c->wants_read && room_of_guest(c)));
}

/* The next packet for the guest, in turns; false: there is none. */
static bool next_packet(struct vsock *s, struct head *ret)
{
	if (s->reset_count) {
		const struct vsock_reset *r = &s->resets[s->reset_at];

		*ret = (struct head){ .src_cid = VSOCK_HOST_CID,
			.dst_cid = s->cid,
			.src_port = r->host_port,
			.dst_port = r->guest_port,
			.type = TYPE_STREAM,
			.op = OP_RST };
		s->reset_at = (s->reset_at + 1) % VSOCK_RESETS_MAX;
		s->reset_count--;
		return true;
	}
	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++) {
		struct vsock_conn *c = &s->conns[(s->next_turn + i) % VSOCK_CONNS_MAX];

		if (has_words(c) && speak(s, c, ret)) {
			s->next_turn = (unsigned)(c - s->conns) + 1;
			if (is_over(c))
				abort_conn(s, c);
			return true;
		}
	}
	return false;
}

static bool is_quiet(const struct vsock *s)
{
	if (s->reset_count)
		return false;
	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++)
		if (has_words(&s->conns[i]))
			return false;
	return true;
}

/* Fills the guest's buffers as long as there is something to say and room to say it. */
static void pump(struct vsock *s)
{
	struct virtq *q = &s->dev.queues[QUEUE_RX];
	unsigned count = 0;
	bool over = false;
	int r = 0;

	if (!vdev_is_active(&s->dev))
		return;
	do {
		while (!over && !is_quiet(s) && (r = virtq_pop(q, &s->chain)) > 0) {
			struct head h;

			/* Without room for one byte, what waits for room would wait for ever. */
			if (s->chain.in || s->chain.out_bytes <= sizeof(h)) {
				r = virtq_break(q, "a buffer without room for a packet");
				break;
			}
			if (!next_packet(s, &h)) {
				virtq_unpop(q);
				break; /* nobody had anything: the sockets were empty */
			}
			vchain_write(&s->chain, 0, &h, sizeof(h));
			virtq_push(q, s->chain.head, (uint32_t)sizeof(h) + h.len);
			over = vdev_had_turn(&s->dev, QUEUE_RX, ++count);
		}
	} while (r == 0 && !over && !is_quiet(s) && virtq_rearm(q));
	vdev_tell(&s->dev, q);
	if (r < 0)
		vdev_stop(&s->dev, q->broken);
}

static void vsock_kick(struct vdev *d, unsigned q)
{
	struct vsock *s = (struct vsock *)d;

	if (!vdev_is_active(d))
		return;
	if (q == QUEUE_TX)
		work_tx(s);
	pump(s);
}

/* --- Life ------------------------------------------------------------------------------------- */

static void vsock_begin(struct vdev *d)
{
	vsock_drop_all((struct vsock *)d, false);
}

static void vsock_config(struct vdev *d, unsigned off, void *to, unsigned len)
{
	memcpy(to, (const uint8_t *)&((struct vsock *)d)->cid + off, len);
}

static void tell_reset(struct vsock *s)
{
	struct virtq *q = &s->dev.queues[QUEUE_EVENT];
	uint32_t event = EVENT_RESET;

	if (!vdev_is_active(&s->dev) || virtq_pop(q, &s->chain) <= 0)
		return;
	virtq_push(q, s->chain.head, (uint32_t)vchain_write(&s->chain, 0, &event, sizeof(event)));
	vdev_tell(&s->dev, q);
}

void vsock_drop_all(struct vsock *s, bool tell)
{
	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++)
		if (s->conns[i].state != VSOCK_FREE)
			close_conn(s, &s->conns[i]);
	s->reset_at = s->reset_count = 0;
	if (tell)
		tell_reset(s);
}

/* No connection survives: the sockets are the old machine's. vsock_drop_all() tells the guest. */
static void vsock_walk(struct vdev *d, struct vwalk *w)
{
	struct vsock *s = (struct vsock *)d;

	vwalk_same(w, "vsock.cid", s->cid);
	vwalk_u32(w, "vsock.next_host_port", &s->next_host_port);
	if (s->next_host_port < FIRST_HOST_PORT)
		vwalk_wrong(w, "vsock.next_host_port", "is too low");
}

static const struct vdev_ops vsock_ops = {
	.name = "vsock",
	.id = VDEV_VSOCK,
	.queues = QUEUES,
	.queue_size = 128,
	.activate = vsock_begin,
	.reset = vsock_begin,
	.kick = vsock_kick,
	.config_read = vsock_config,
	.config_bytes = sizeof(uint64_t),
	.walk = vsock_walk,
};

void vsock_init(struct vsock *s, uint64_t cid, struct watches *events,
	int (*dial)(void *arg, uint32_t port), void *arg, struct gmem *mem,
	void (*raise)(void *arg), void *raise_arg)
{
	memset(s, 0, sizeof(*s));
	s->cid = cid;
	s->events = events;
	s->dial = dial;
	s->dial_arg = arg;
	s->listener = s->timer = -1;
	s->timer_watch = (struct watch){ .fd = -1, .fn = on_timer, .arg = s };
	s->listener_watch = (struct watch){ .fd = -1, .fn = on_client, .arg = s };
	s->next_host_port = FIRST_HOST_PORT;
	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++)
		s->conns[i] = (struct vsock_conn){ .owner = s, .fd = -1, .watch.fd = -1 };
	vdev_init(&s->dev, &vsock_ops, VDEV_F_EVENT_IDX, mem, raise, raise_arg);
}

int vsock_listen(struct vsock *s, int fd, struct err *e)
{
	int r;

	s->listener = fd;
	s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	r = s->timer < 0 ? err_set(e, errno, "a timer for a guest's streams")
			 : watches_add(s->events, &s->timer_watch, s->timer, EPOLLIN, e);
	return r < 0 ? r : watches_add(s->events, &s->listener_watch, fd, EPOLLIN, e);
}

void vsock_done(struct vsock *s)
{
	vsock_drop_all(s, false);
	watches_remove(s->events, &s->listener_watch);
	watches_remove(s->events, &s->timer_watch);
	if (s->listener >= 0)
		close(s->listener);
	if (s->timer >= 0)
		close(s->timer);
	s->listener = s->timer = -1;
}
