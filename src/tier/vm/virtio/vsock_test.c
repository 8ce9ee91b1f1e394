/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/vsock_test.c - a guest made of three rings in plain memory, and real sockets.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/vm/virtio/vsock.h"

enum {
	MEM = 16 << 20,
	RINGS = 0x10000, /* three times: descriptors, available, used, 0x1000 each */
	BUFFERS = 0x100000,
	SIZE = 16,
	BUFFER = 8192,
	CID = 7,
	WRITE = 2,
	PORT = 1024,
};

struct head {
	uint64_t src_cid, dst_cid;
	uint32_t src_port, dst_port, len;
	uint16_t type, op;
	uint32_t flags, buf_alloc, fwd_cnt;
} __attribute__((packed));

struct bench {
	struct gmem mem;
	struct watches events;
	struct vsock vsock;
	unsigned raised;
	uint16_t avail[3], seen[3];
	int other; /* the host's end of the last dialled connection; -1 */
	int refuse;
};

static void raise_line(void *arg)
{
	((struct bench *)arg)->raised++;
}

static int dial(void *arg, uint32_t port)
{
	struct bench *b = arg;
	int pair[2];

	if (port != PORT || b->refuse)
		return -ECONNREFUSED;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	b->other = pair[1];
	return pair[0];
}

static void put(struct bench *b, uint64_t at, const void *data, size_t len)
{
	assert_true(gmem_write(&b->mem, GPA(at), data, len));
}

static uint16_t get16(struct bench *b, uint64_t at)
{
	uint16_t v;

	assert_true(gmem_read(&b->mem, GPA(at), &v, sizeof(v)));
	return v;
}

static uint64_t ring_at(unsigned q, unsigned which)
{
	return RINGS + 0x3000ull * q + 0x1000ull * which;
}

static void offer(struct bench *b, unsigned q, uint64_t at, uint32_t len, uint16_t flags)
{
	unsigned i = b->avail[q] % SIZE;
	uint16_t index = (uint16_t)i, next = ++b->avail[q];
	struct {
		uint64_t addr;
		uint32_t len;
		uint16_t flags, next;
	} d = { at, len, flags, 0 };

	put(b, ring_at(q, 0) + 16ull * i, &d, sizeof(d));
	put(b, ring_at(q, 1) + 4 + 2ull * i, &index, 2);
	put(b, ring_at(q, 1) + 2, &next, 2);
}

static void wr(struct vdev *d, unsigned off, uint32_t v)
{
	vdev_write(d, off, &v, sizeof(v));
}

static uint64_t buffer_at(unsigned i)
{
	return BUFFERS + (uint64_t)(i % SIZE) * BUFFER;
}

static struct bench *make(void)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct vdev *d = &b->vsock.dev;
	struct err e;

	assert_non_null(b);
	b->other = -1;
	assert_int_equal(gmem_create(&b->mem, MEM, GMEM_ANON, &e), 0);
	assert_int_equal(watches_init(&b->events, &e), 0);
	vsock_init(&b->vsock, CID, &b->events, dial, b, &b->mem, raise_line, b);
	wr(d, 0x70, 1);
	wr(d, 0x70, 3);
	wr(d, 0x24, 1);
	wr(d, 0x20, 1);
	wr(d, 0x70, 11);
	for (unsigned q = 0; q < 3; q++) {
		wr(d, 0x30, q);
		wr(d, 0x38, SIZE);
		wr(d, 0x80, (uint32_t)ring_at(q, 0));
		wr(d, 0x90, (uint32_t)ring_at(q, 1));
		wr(d, 0xa0, (uint32_t)ring_at(q, 2));
		wr(d, 0x44, 1);
	}
	for (unsigned i = 0; i < SIZE; i++)
		offer(b, 0, buffer_at(i), BUFFER, WRITE);
	offer(b, 2, 0x80000, 8, WRITE);
	wr(d, 0x70, 15);
	assert_int_equal(d->status, 15);
	return b;
}

static void done(struct bench *b)
{
	vsock_done(&b->vsock);
	watches_done(&b->events);
	gmem_done(&b->mem);
	if (b->other >= 0)
		close(b->other);
	free(b);
}

static void turn(struct bench *b)
{
	struct err e;

	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(watches_wait(&b->events, 0, &e), 0);
		watches_serve(&b->events);
	}
}

/* The next packet that the device sent; false: none. Its buffer is offered again. */
static bool take(struct bench *b, struct head *h, void *data, size_t cap)
{
	uint16_t used = get16(b, ring_at(0, 2) + 2);
	unsigned i = b->seen[0];
	uint64_t at = buffer_at(i);

	if (used == b->seen[0])
		return false;
	b->seen[0]++;
	assert_true(gmem_read(&b->mem, GPA(at), h, sizeof(*h)));
	assert_true(h->len <= cap);
	assert_true(gmem_read(&b->mem, GPA(at + sizeof(*h)), data, h->len));
	assert_int_equal(h->src_cid, 2);
	assert_int_equal(h->dst_cid, CID);
	offer(b, 0, at, BUFFER, WRITE);
	wr(&b->vsock.dev, 0x50, 0);
	return true;
}

static void give(struct bench *b, struct head h, const void *data, size_t len)
{
	uint64_t at = 0x400000;

	h.src_cid = 999; /* its word for it does not count */
	h.dst_cid = h.dst_cid ? h.dst_cid : 2;
	h.type = h.type ? h.type : 1;
	put(b, at, &h, sizeof(h));
	put(b, at + sizeof(h), data, len);
	offer(b, 1, at, (uint32_t)(sizeof(h) + len), 0);
	wr(&b->vsock.dev, 0x50, 1);
}

static const struct head from = { .src_port = 5000, .dst_port = PORT, .buf_alloc = 65536 };

static struct head packet(uint16_t op, uint32_t len)
{
	struct head h = from;

	h.op = op;
	h.len = len;
	return h;
}

static void open_stream(struct bench *b)
{
	struct head h;
	char data[1];

	give(b, packet(1, 0), "", 0);
	assert_true(take(b, &h, data, 0));
	assert_int_equal(h.op, 2);
	assert_int_equal(h.src_port, PORT);
	assert_int_equal(h.dst_port, 5000);
	assert_int_equal(h.buf_alloc, VSOCK_BUFFER);
	assert_true(b->other >= 0);
}

static void both_ways(void **state)
{
	struct bench *b = make();
	char text[16], big[3 * BUFFER], got[3 * BUFFER];
	size_t at = 0;
	struct head h;

	(void)state;
	open_stream(b);
	give(b, packet(5, 5), "hello", 5);
	assert_int_equal(recv(b->other, text, sizeof(text), MSG_DONTWAIT), 5);
	assert_memory_equal(text, "hello", 5);
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7);
	assert_int_equal(send(b->other, big, sizeof(big), 0), (ssize_t)sizeof(big));
	turn(b);
	while (take(b, &h, got + at, sizeof(got) - at)) {
		assert_int_equal(h.op, 5);
		at += h.len;
		turn(b);
	}
	assert_int_equal(at, sizeof(big));
	assert_memory_equal(got, big, sizeof(big));
	/* The host ends its side; the guest may go on, then ends too. */
	shutdown(b->other, SHUT_WR);
	turn(b);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 4);
	assert_int_equal(h.flags, 2);
	give(b, packet(5, 3), "bye", 3);
	assert_int_equal(recv(b->other, text, sizeof(text), MSG_DONTWAIT), 3);
	h = packet(4, 0);
	h.flags = 3;
	give(b, h, "", 0);
	assert_int_equal(recv(b->other, text, sizeof(text), MSG_DONTWAIT), 0);
	turn(b);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 3);
	done(b);
}

/* The guest is sent no more than it has room for. */
static void credit_of_the_guest(void **state)
{
	struct bench *b = make();
	char big[1000] = { 1 }, got[BUFFER];
	struct head h = packet(1, 0);

	(void)state;
	h.buf_alloc = 100;
	give(b, h, "", 0);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(send(b->other, big, sizeof(big), 0), (ssize_t)sizeof(big));
	turn(b);
	assert_true(take(b, &h, got, sizeof(got)));
	assert_int_equal(h.len, 100);
	turn(b);
	assert_false(take(b, &h, got, sizeof(got)));
	h = packet(6, 0);
	h.buf_alloc = 100;
	h.fwd_cnt = 60;
	give(b, h, "", 0);
	turn(b);
	assert_true(take(b, &h, got, sizeof(got)));
	assert_int_equal(h.len, 60);
	done(b);
}

/* A socket that does not read: the guest may send what it has credit for, and no more. */
static void credit_for_the_guest(void **state)
{
	struct bench *b = make();
	static char data[4096];
	unsigned sent = 0;
	struct head h;
	int small = 4096;

	(void)state;
	open_stream(b);
	setsockopt(b->vsock.conns[0].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	while (b->vsock.conns[0].state == VSOCK_OPEN && sent < 1000) {
		give(b, packet(5, sizeof(data)), data, sizeof(data));
		sent++;
	}
	assert_true(sent < 1000); /* it was cut off */
	assert_true(sent >= VSOCK_BUFFER / sizeof(data));
	turn(b);
	do
		assert_true(take(b, &h, data, sizeof(data)));
	while (h.op != 3);
	done(b);
}

/* Credit comes back as the host reads. */
static void credit_comes_back(void **state)
{
	struct bench *b = make();
	static char data[4096], got[65536];
	uint32_t allowed = VSOCK_BUFFER, sent = 0, received = 0;
	struct head h;

	(void)state;
	open_stream(b);
	while (sent < 4u << 20) {
		ssize_t n;

		if (allowed - sent >= sizeof(data)) {
			give(b, packet(5, sizeof(data)), data, sizeof(data));
			sent += sizeof(data);
		}
		n = recv(b->other, got, sizeof(got), MSG_DONTWAIT);
		received += n > 0 ? (uint32_t)n : 0;
		turn(b);
		while (take(b, &h, got, sizeof(got))) {
			assert_int_equal(h.op, 6);
			allowed = h.fwd_cnt + h.buf_alloc;
		}
	}
	while (received < sent) {
		ssize_t n = recv(b->other, got, sizeof(got), MSG_DONTWAIT);

		received += n > 0 ? (uint32_t)n : 0;
		turn(b);
	}
	assert_int_equal(b->vsock.conns[0].state, VSOCK_OPEN);
	done(b);
}

/* What makes no sense is answered with a reset, or dropped. */
static void nonsense(void **state)
{
	struct bench *b = make();
	struct head h;
	char got[BUFFER];

	(void)state;
	give(b, packet(5, 4), "data", 4); /* on no connection */
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 3);
	h = packet(1, 0);
	h.dst_port = 9; /* nobody there */
	give(b, h, "", 0);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 3);
	h = packet(1, 0);
	h.dst_cid = 77; /* not for us */
	give(b, h, "", 0);
	assert_false(take(b, &h, got, 0));
	h = packet(1, 0);
	h.type = 2; /* datagrams */
	give(b, h, "", 0);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 3);
	open_stream(b);
	give(b, packet(5, 5000), "short", 5); /* longer than its packet */
	turn(b);
	assert_int_equal(b->vsock.conns[0].state, VSOCK_OPEN);
	give(b, packet(1, 0), "", 0); /* the same again */
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 3);
	assert_int_equal(b->vsock.conns[0].state, VSOCK_FREE);
	open_stream(b);
	give(b, packet(99, 0), "", 0);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 3);
	give(b, packet(3, 0), "", 0); /* a reset is not answered */
	assert_false(take(b, &h, got, 0));
	done(b);
}

static void too_many(void **state)
{
	struct bench *b = make();
	unsigned open = 0, refused = 0;
	struct head h;
	char got[1];

	(void)state;
	for (uint32_t i = 0; i < VSOCK_CONNS_MAX + 10; i++) {
		struct head ask = packet(1, 0);

		ask.src_port = 10000 + i;
		if (b->other >= 0)
			close(b->other);
		b->other = -1;
		give(b, ask, "", 0);
		while (take(b, &h, got, 0)) {
			open += h.op == 2;
			refused += h.op == 3;
		}
	}
	assert_int_equal(open, VSOCK_CONNS_MAX);
	assert_int_equal(refused, 10);
	done(b);
}

/* The host's side: a listening socket, in a folder of its own. */
struct door {
	char dir[32];
	struct sockaddr_un at;
};

static void open_door(struct bench *b, struct door *d)
{
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct err e;

	*d = (struct door){ .dir = "/tmp/vsock-test-XXXXXX", .at.sun_family = AF_UNIX };
	assert_non_null(mkdtemp(d->dir));
	str_fmt(d->at.sun_path, sizeof(d->at.sun_path), "%s/u", d->dir);
	assert_int_equal(bind(listener, (struct sockaddr *)&d->at, sizeof(d->at)), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(vsock_listen(&b->vsock, listener, &e), 0);
}

static void close_door(struct door *d)
{
	unlink(d->at.sun_path);
	rmdir(d->dir);
}

/* A client that says so much at first. */
static int call(struct bench *b, struct door *d, const char *text, size_t len)
{
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(client, (struct sockaddr *)&d->at, sizeof(d->at)), 0);
	assert_int_equal(send(client, text, len, 0), (ssize_t)len);
	turn(b);
	return client;
}

static struct head answer_to(const struct head *h, uint16_t op)
{
	return (struct head){
		.src_port = h->dst_port, .dst_port = h->src_port, .op = op, .buf_alloc = 4096
	};
}

/* Nothing more comes, and that is the end. */
static bool is_closed(int client)
{
	char byte;
	ssize_t n = recv(client, &byte, 1, MSG_DONTWAIT);

	/* The second: what it said was not even read to the end. */
	return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* A client on the host's side: CONNECT, in pieces, and nothing behind the newline is lost. */
static void from_the_host(void **state)
{
	struct bench *b = make();
	struct door d;
	char got[64];
	struct head h;
	int client;
	ssize_t n;

	(void)state;
	open_door(b, &d);
	client = call(b, &d, "conn", 4);
	assert_int_equal(send(client, "ECT 80\nearly", 12, 0), 12);
	turn(b);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 1);
	assert_int_equal(h.dst_port, 80);
	assert_int_equal(h.src_port, 1u << 30);
	give(b, answer_to(&h, 2), "", 0);
	n = recv(client, got, sizeof(got) - 1, MSG_DONTWAIT);
	assert_true(n > 0);
	got[n] = '\0';
	assert_string_equal(got, "OK 1073741824\n");
	turn(b);
	assert_true(take(b, &h, got, sizeof(got)));
	assert_int_equal(h.op, 5);
	assert_memory_equal(got, "early", 5);
	close(client);
	close_door(&d);
	done(b);
}

/* Clients that say something else are sent away, and the guest hears nothing of them. */
static void hostile_hosts(void **state)
{
#define SAYS(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}
	static const struct {
		const char *text;
		size_t len;
	} cases[] = {
		SAYS("GET / HTTP/1.1\r\n"),
		SAYS("\n"),
		SAYS("CONNECT\n"),
		SAYS("CONNECT \n"),
		SAYS("CONNECT -1\n"),
		SAYS("CONNECT 80 \n"),
		SAYS("CONNECT 80\r\n"),
		SAYS("CONNECT 0x50\n"),
		SAYS("CONNECT 4294967295\n"), /* "any port" */
		SAYS("CONNECT 99999999999\n"),
		SAYS("CONNECT 80\0000\n"),
		SAYS("CONNECT 00000000000000000000000000000080\n"),
		SAYS("no newline, and more than a line can ever have"),
	};
	struct bench *b = make();
	struct door d;
	struct head h;
	char got[1];

	(void)state;
	open_door(b, &d);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int client = call(b, &d, cases[i].text, cases[i].len);

		if (!is_closed(client) || take(b, &h, got, 0))
			fail_msg("'%s' was taken", cases[i].text);
		close(client);
	}
	/* One that goes away before the guest has answered: the guest is told so. */
	close(call(b, &d, "CONNECT 80\n", 11));
	turn(b);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 1);
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 3);
	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++)
		assert_int_equal(b->vsock.conns[i].state, VSOCK_FREE);
	close_door(&d);
	done(b);
}

/* As if the time were over for all who are half open; the timer itself is real. */
static void wait_for_timer(struct bench *b)
{
	struct err e;

	for (unsigned i = 0; i < VSOCK_CONNS_MAX; i++)
		b->vsock.conns[i].since_ns = 0;
	while (b->vsock.timer_runs) {
		assert_int_equal(watches_wait(&b->events, -1, &e), 0);
		watches_serve(&b->events);
	}
}

/* Who greets and says nothing, and whom the guest never answers, do not stay for ever; and a guest
 * that answers wrongly loses the connection. */
static void half_open(void **state)
{
	static const uint16_t wrong[] = { 1, 3, 5, 99 };
	struct bench *b = make();
	int silent, waiting, open;
	struct door d;
	struct head h;
	char got[64];

	(void)state;
	open_door(b, &d);
	silent = call(b, &d, "CONNECT", 7);
	waiting = call(b, &d, "CONNECT 80\n", 11);
	assert_true(take(b, &h, got, 0));
	open = call(b, &d, "CONNECT 81\n", 11);
	assert_true(take(b, &h, got, 0));
	give(b, answer_to(&h, 2), "", 0);
	wait_for_timer(b);
	assert_true(is_closed(silent));
	assert_true(is_closed(waiting));
	assert_true(take(b, &h, got, 0));
	assert_int_equal(h.op, 3);
	assert_int_equal(h.dst_port, 80);
	assert_int_equal(recv(open, got, sizeof(got), MSG_DONTWAIT), 14); /* its "OK" */
	assert_false(is_closed(open));
	close(silent);
	close(waiting);
	close(open);
	turn(b);
	while (take(b, &h, got, 0))
		;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct head answer;

		waiting = call(b, &d, "CONNECT 80\n", 11);
		assert_true(take(b, &h, got, 0));
		answer = answer_to(&h, wrong[i]);
		give(b, answer, "", 0);
		turn(b);
		if (!is_closed(waiting))
			fail_msg("answer %u was taken", wrong[i]);
		close(waiting);
		while (take(b, &h, got, 0))
			;
	}
	close_door(&d);
	done(b);
}

/* Buffers that have room for the head of a packet alone, while data waits: nobody spins. */
static void no_room_for_data(void **state)
{
	struct bench *b = make();

	(void)state;
	open_stream(b);
	while (b->avail[0] - b->seen[0] > 0) { /* all good buffers are used up */
		give(b, packet(7, 0), "", 0);
		b->seen[0] = get16(b, ring_at(0, 2) + 2);
	}
	offer(b, 0, buffer_at(0), sizeof(struct head), WRITE);
	assert_int_equal(send(b->other, "data", 4, 0), 4);
	turn(b);
	assert_int_equal(b->vsock.dev.status & VDEV_NEEDS_RESET, VDEV_NEEDS_RESET);
	done(b);
}

static void note_later(struct vdev *d, unsigned q)
{
	(void)q;
	d->generation++; /* nothing else counts there now */
}

/* A guest that always has room and a host that always has words have their turn, no more. */
static void turns(void **state)
{
	struct bench *b = make();
	static char big[SIZE * BUFFER];

	(void)state;
	open_stream(b);
	b->vsock.dev.later = note_later;
	b->vsock.conns[0].peer_alloc = UINT32_MAX;
	assert_true(send(b->other, big, sizeof(big), MSG_DONTWAIT) > 0);
	turn(b);
	/* The whole ring at most, and then it asks for another turn. */
	assert_true((uint16_t)(get16(b, ring_at(0, 2) + 2) - b->seen[0]) <= SIZE);
	assert_true(b->vsock.dev.generation > 0 ||
		    (uint16_t)(get16(b, ring_at(0, 2) + 2) - b->seen[0]) < SIZE);
	done(b);
}

static void dropped(void **state)
{
	struct bench *b = make();
	uint32_t event = 99;

	(void)state;
	open_stream(b);
	vsock_drop_all(&b->vsock, true);
	assert_int_equal(get16(b, ring_at(2, 2) + 2), 1);
	assert_true(gmem_read(&b->mem, GPA(0x80000), &event, 4));
	assert_int_equal(event, 0);
	assert_int_equal(b->vsock.conns[0].state, VSOCK_FREE);
	close(b->other);
	b->other = -1;
	open_stream(b); /* and again */
	done(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways),
		cmocka_unit_test(credit_of_the_guest),
		cmocka_unit_test(credit_for_the_guest),
		cmocka_unit_test(credit_comes_back),
		cmocka_unit_test(nonsense),
		cmocka_unit_test(too_many),
		cmocka_unit_test(from_the_host),
		cmocka_unit_test(hostile_hosts),
		cmocka_unit_test(half_open),
		cmocka_unit_test(no_room_for_data),
		cmocka_unit_test(turns),
		cmocka_unit_test(dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
