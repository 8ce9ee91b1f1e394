/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/link_test.c - the daemon's end against a supervisor that the test plays, honest and not.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "sup/ctl.h"
#include "sup/link.h"

/* The link, the supervisor's end of it, and what the link said. */
struct pair {
	struct link *l;
	struct ctl other;
	unsigned states, closed, opened, data, ended_ways, done, failed, entries, rooms, wants;
	int why, fail_code, fd;
	size_t bytes;
	bool drop_on_data;
	struct link_done last;
	uint32_t pid;
	struct frame seen; /* the last frame at the other end */
	uint8_t payload[70000];
};

static void on_state(void *arg, const struct link_status *s)
{
	(void)s;
	((struct pair *)arg)->states++;
}

static void on_closed(void *arg, const struct err *why)
{
	struct pair *p = arg;

	p->closed++;
	p->why = why->code;
}

static void on_want(void *arg, short events)
{
	(void)events;
	((struct pair *)arg)->wants++;
}

static void on_opened(void *arg, struct link_call *c, const struct link_opened *o)
{
	struct pair *p = arg;

	(void)c;
	p->opened++;
	p->pid = o->pid;
	p->fd = o->fd;
}

static void on_data(void *arg, struct link_call *c, const void *data, size_t len, bool of_stderr)
{
	struct pair *p = arg;

	(void)data;
	(void)of_stderr;
	p->data++;
	p->bytes += len;
	if (p->drop_on_data)
		link_drop(c);
	else
		link_credit(c, len);
}

static void on_end(void *arg, struct link_call *c, bool of_stderr)
{
	(void)c;
	(void)of_stderr;
	((struct pair *)arg)->ended_ways++;
}

static void on_entry(void *arg, struct link_call *c, const struct proto_event *ev)
{
	(void)c;
	(void)ev;
	((struct pair *)arg)->entries++;
}

static void on_room(void *arg, struct link_call *c)
{
	(void)c;
	((struct pair *)arg)->rooms++;
}

static void on_done(void *arg, struct link_call *c, const struct link_done *d)
{
	struct pair *p = arg;

	(void)c;
	p->done++;
	p->last = *d;
}

static void on_failed(void *arg, struct link_call *c, const struct link_failed *f)
{
	struct pair *p = arg;

	(void)c;
	p->failed++;
	p->fail_code = f->code;
}

static const struct link_handler handler = {
	.opened = on_opened,
	.data = on_data,
	.end = on_end,
	.entry = on_entry,
	.event = on_entry,
	.room = on_room,
	.done = on_done,
	.failed = on_failed,
};

static int begin(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));
	const struct link_hooks hooks = {
		.state = on_state, .closed = on_closed, .want = on_want, .arg = p
	};
	int fds[2];

	if (!p || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -1;
	p->fd = -1;
	ctl_init(&p->other, fds[1]);
	*state = p;
	return link_create(fds[0], &hooks, &p->l, NULL);
}

static int finish(void **state)
{
	struct pair *p = *state;

	link_destroy(p->l);
	ctl_done(&p->other);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
	return 0;
}

/* One turn of the link's owner. */
static void turn(struct pair *p)
{
	struct pollfd w = { .fd = link_fd(p->l), .events = link_events(p->l) };

	ctl_flush(&p->other);
	while (!p->closed && poll(&w, 1, 0) > 0 && (w.revents & ~POLLOUT || w.events & POLLOUT)) {
		link_work(p->l, w.revents);
		w.events = link_events(p->l);
		if (p->closed || !(w.revents & POLLIN))
			break;
	}
}

static int keep(void *arg, const struct frame *f)
{
	struct pair *p = arg;

	p->seen = *f;
	memcpy(p->payload, f->data, f->len);
	return 0;
}

static void hear(struct pair *p)
{
	p->seen = (struct frame){ 0 };
	assert_int_equal(ctl_receive(&p->other, 8, keep, p), 0);
}

static void say(struct pair *p, uint16_t type, uint16_t flags, uint32_t stream, const void *data,
	size_t len)
{
	assert_int_equal(ctl_put(&p->other, type, flags, stream, data, len, -1), 0);
}

static void say_u32(struct pair *p, uint16_t type, uint32_t stream, enum proto_tag tag, uint32_t v)
{
	uint8_t buf[64];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), (enum proto_type)type, 0, stream);
	msg_u32(&m, tag, v);
	assert_int_equal(ctl_put_msg(&p->other, &m), 0);
}

static struct link_call *open_process(struct pair *p)
{
	static const char *const argv[] = { "sh", NULL };
	struct link_start s = { .argv = argv, .window = 1000 };
	struct link_call *c;

	assert_int_equal(link_start(p->l, &s, &handler, p, &c, NULL), 0);
	return c;
}

static void test_a_process(void **state)
{
	struct pair *p = *state;
	struct link_call *c = open_process(p);
	uint32_t stream;

	assert_ptr_equal(link_of(c), p->l);
	hear(p);
	assert_int_equal(p->seen.type, PROTO_START);
	stream = p->seen.stream;
	say_u32(p, PROTO_OPENED, stream, TAG_PID, 42);
	say(p, PROTO_DATA, 0, stream, "hello", 5);
	say(p, PROTO_DATA, DATA_ERR, stream, "x", 1);
	turn(p);
	assert_int_equal(p->opened, 1);
	assert_int_equal(p->pid, 42);
	assert_int_equal(p->bytes, 6);
	hear(p);
	/* Both pieces with one frame. */
	assert_int_equal(p->seen.type, PROTO_CREDIT);
	assert_int_equal(p->payload[6], 6);
	say(p, PROTO_END, 0, stream, NULL, 0);
	say_u32(p, PROTO_EXIT, stream, TAG_CODE, 7);
	turn(p);
	assert_int_equal(p->ended_ways, 1);
	assert_int_equal(p->done, 1);
	assert_true(p->last.has_exit);
	assert_int_equal(p->last.exit.code, 7);
	assert_int_equal(link_call_count(p->l), 0);
}

/* It says which flags it knows; one from before they were told gets none of the later ones. */
static void test_an_older_supervisor(void **state)
{
	static const char *const argv[] = { "sh", NULL };
	const struct link_start start = {
		.argv = argv, .window = 1000, .flags = START_NULL_STDIN | START_DRAIN
	};
	struct pair *p = *state;

	for (int knows = 0; knows < 2; knows++) {
		uint8_t buf[128];
		struct link_call *c;
		struct msg m;

		msg_begin(&m, buf, sizeof(buf), PROTO_STATUS, 0, 0);
		msg_u32(&m, TAG_STATE, SUP_RUNNING);
		msg_text(&m, TAG_BOX, "abcdefghijkl");
		if (knows)
			msg_u32(&m, TAG_STARTS, SUP_STARTS);
		assert_int_equal(ctl_put_msg(&p->other, &m), 0);
		turn(p);
		assert_int_equal(link_start(p->l, &start, &handler, p, &c, NULL), 0);
		hear(p);
		assert_int_equal(p->seen.type, PROTO_START);
		assert_int_equal(
			p->seen.flags, knows ? START_NULL_STDIN | START_DRAIN : START_NULL_STDIN);
	}
}

/* What is held goes out in one piece; one that does not know SOON says so, to nobody. */
static void test_a_claim_in_one_piece(void **state)
{
	static const char *const argv[] = { "sh", NULL };
	const struct link_start start = { .argv = argv };
	const struct link_bind bind = { .deadline_ms = 1000 };
	struct pair *p = *state;

	link_soon(p->l);
	hear(p);
	assert_int_equal(p->seen.type, PROTO_SOON);
	say_u32(p, PROTO_ERROR, p->seen.stream, TAG_ERRNO, ENOSYS);
	turn(p);
	assert_int_equal(link_call_count(p->l), 0);
	link_hold(p->l);
	assert_int_equal(link_bind(p->l, &bind, &handler, p, NULL, NULL), 0);
	assert_int_equal(link_start(p->l, &start, &handler, p, NULL, NULL), 0);
	hear(p);
	assert_int_equal(p->seen.type, 0);
	assert_int_equal(link_unsent(p->l), 1);
	link_release(p->l);
	assert_int_equal(link_unsent(p->l), 0);
	hear(p);
	assert_int_equal(p->seen.type, PROTO_START);
	assert_int_equal(p->failed, 0);
}

static void test_a_number_is_free_after_the_final_frame_only(void **state)
{
	struct pair *p = *state;
	struct link_call *c = open_process(p);
	uint32_t first;

	hear(p);
	first = p->seen.stream;
	link_drop(c);
	open_process(p);
	hear(p);
	assert_int_not_equal(p->seen.stream, first);
	say(p, PROTO_DATA, 0, first, "late", 4);
	say(p, PROTO_OK, 0, first, NULL, 0);
	turn(p);
	assert_int_equal(p->data, 0);
	assert_int_equal(p->done, 0);
	assert_int_equal(link_call_count(p->l), 1);
	open_process(p);
	hear(p);
	assert_int_equal(p->seen.stream, first);
}

static void test_dropping_in_a_callback(void **state)
{
	struct pair *p = *state;

	open_process(p);
	p->drop_on_data = true;
	say(p, PROTO_DATA, 0, 1, "a", 1);
	say(p, PROTO_DATA, 0, 1, "b", 1);
	say_u32(p, PROTO_EXIT, 1, TAG_CODE, 0);
	turn(p);
	assert_int_equal(p->data, 1);
	assert_int_equal(p->done + p->failed + p->closed, 0);
	assert_int_equal(link_call_count(p->l), 0);
}

static void test_the_end_fails_what_is_open(void **state)
{
	struct pair *p = *state;

	open_process(p);
	open_process(p);
	ctl_done(&p->other);
	turn(p);
	assert_int_equal(p->failed, 2);
	assert_int_equal(p->fail_code, ENOTCONN);
	assert_int_equal(p->closed, 1);
	assert_int_equal(p->why, ENOTCONN);
	assert_int_equal(link_usage(p->l, &handler, p, NULL, NULL), -ENOTCONN);
}

static void test_last_words_after_a_failed_send(void **state)
{
	struct pair *p = *state;

	open_process(p);
	say_u32(p, PROTO_EXIT, 1, TAG_CODE, 3);
	ctl_flush(&p->other);
	shutdown(p->other.fd, SHUT_RDWR);
	/* Sending fails now, what was said before is still heard. */
	open_process(p);
	turn(p);
	assert_int_equal(p->done, 1);
	assert_int_equal(p->closed, 1);
}

static void test_input_within_its_credit(void **state)
{
	static uint8_t data[FLOW_WINDOW * 2];
	const struct link_who who = { .pid = 3 };
	struct pair *p = *state;
	struct link_call *c;
	uint8_t buf[64];
	struct msg m;

	assert_int_equal(link_input(p->l, &who, LINK_CLOSE, &handler, p, &c, NULL), 0);
	assert_int_equal(link_room(c), FLOW_WINDOW);
	assert_int_equal(link_send(c, data, sizeof(data)), FLOW_WINDOW);
	assert_int_equal(link_send(c, data, 1), 0);
	msg_begin(&m, buf, sizeof(buf), PROTO_CREDIT, 0, 1);
	msg_u64(&m, TAG_BYTES, 100);
	ctl_put_msg(&p->other, &m);
	turn(p);
	assert_int_equal(p->rooms, 1);
	assert_int_equal(link_room(c), 100);
	assert_int_equal(link_send_end(c), 0);
	assert_int_equal(link_room(c), 0);
}

/* What the supervisor would hang up for does not leave the daemon. */
static void test_mistakes_of_the_caller(void **state)
{
	struct pair *p = *state;
	struct link_call *c = open_process(p);

	hear(p);
	link_credit(c, 500);
	turn(p);
	hear(p);
	assert_int_equal(p->seen.type, 0);
	assert_int_equal(link_send(c, "x", 1), 0);
	assert_int_equal(link_send_end(c), -EINVAL);
	say(p, PROTO_DATA, 0, 1, "abc", 3);
	turn(p);
	link_credit(c, 1000);
	turn(p);
	hear(p);
	assert_int_equal(p->seen.type, PROTO_CREDIT);
	assert_int_equal(p->payload[6], 3);
}

static int some_file(void)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void ask_for_file(struct pair *p)
{
	const struct proto_request q = { .type = PROTO_READ, .path = "/x", .flags = FILE_PASS_FD };

	assert_int_equal(link_request(p->l, &q, &handler, p, NULL, NULL), 0);
}

static void test_a_file(void **state)
{
	struct pair *p = *state;

	ask_for_file(p);
	assert_int_equal(ctl_put(&p->other, PROTO_OPENED, OPENED_FD, 1, NULL, 0, some_file()), 0);
	say(p, PROTO_OK, 0, 1, NULL, 0);
	turn(p);
	assert_true(p->fd >= 0);
	assert_true(fcntl(p->fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(p->done, 1);
}

static void test_a_dropped_file_is_closed(void **state)
{
	struct pair *p = *state;
	const struct proto_request q = { .type = PROTO_READ, .path = "/x", .flags = FILE_PASS_FD };
	struct link_call *c;
	int lowest = some_file(), now;

	close(lowest);
	assert_int_equal(link_request(p->l, &q, &handler, p, &c, NULL), 0);
	link_drop(c);
	assert_int_equal(ctl_put(&p->other, PROTO_OPENED, OPENED_FD, 1, NULL, 0, some_file()), 0);
	say(p, PROTO_OK, 0, 1, NULL, 0);
	turn(p);
	now = some_file();
	assert_int_equal(now, lowest);
	close(now);
	assert_int_equal(p->opened, 0);
}

/* What a supervisor that was taken over might say; each ends the link and nothing else. */
typedef void lie_fn(struct pair *p);

static void other_stream(struct pair *p)
{
	say(p, PROTO_OK, 0, 9, NULL, 0);
}
static void stream_zero(struct pair *p)
{
	say(p, PROTO_OK, 0, 0, NULL, 0);
}
static void no_fields(struct pair *p)
{
	say(p, PROTO_STATUS, 0, 0, "abc", 3);
}
static void no_state(struct pair *p)
{
	say(p, PROTO_STATUS, 0, 0, NULL, 0);
}
static void ok_for_process(struct pair *p)
{
	say(p, PROTO_OK, 0, 1, NULL, 0);
}
static void no_pid(struct pair *p)
{
	say(p, PROTO_OPENED, 0, 1, NULL, 0);
}
static void an_entry(struct pair *p)
{
	say_u32(p, PROTO_ENTRY, 1, TAG_PID, 3);
}
static void unknown(struct pair *p)
{
	say(p, 999, 0, 1, NULL, 0);
}
static void a_request(struct pair *p)
{
	say(p, PROTO_START, 0, 1, NULL, 0);
}
static void bad_exit(struct pair *p)
{
	say_u32(p, PROTO_EXIT, 1, TAG_CODE, 256);
}
static void bad_end(struct pair *p)
{
	say_u32(p, PROTO_ENDED, 0, TAG_CODE, 3);
}
static void credit_for_output(struct pair *p)
{
	uint8_t buf[64];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), PROTO_CREDIT, 0, 1);
	msg_u64(&m, TAG_BYTES, 5);
	ctl_put_msg(&p->other, &m);
}

static void too_much(struct pair *p)
{
	static const uint8_t data[1001];

	say(p, PROTO_DATA, 0, 1, data, sizeof(data));
}

static void long_frame(struct pair *p)
{
	uint8_t head[FRAME_HEAD];

	frame_put_head(head, FRAME_PAYLOAD_MAX + 1, PROTO_DATA, 0, 1);
	assert_int_equal(send(p->other.fd, head, sizeof(head), 0), FRAME_HEAD);
}

static void test_lies(void **state)
{
	static lie_fn *const lies[] = { other_stream, stream_zero, no_fields, no_state,
		ok_for_process, no_pid, an_entry, unknown, a_request, bad_exit, bad_end,
		credit_for_output, too_much, long_frame };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		void *place = NULL;
		struct pair *p;

		assert_int_equal(begin(&place), 0);
		p = place;
		open_process(p);
		lies[i](p);
		turn(p);
		assert_int_equal(p->closed, 1);
		assert_int_equal(p->why, EPROTO);
		assert_int_equal(p->failed, 1);
		finish(&place);
	}
}

static void pass_pipe(struct pair *p)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	close(fds[1]);
	ctl_put(&p->other, PROTO_OPENED, OPENED_FD, 1, NULL, 0, fds[0]);
}

static void pass_path(struct pair *p)
{
	ctl_put(&p->other, PROTO_OPENED, OPENED_FD, 1, NULL, 0, open("/etc/passwd", O_PATH));
}

static void pass_nothing(struct pair *p)
{
	say(p, PROTO_OPENED, OPENED_FD, 1, NULL, 0);
}
static void no_file(struct pair *p)
{
	say(p, PROTO_OK, 0, 1, NULL, 0);
}

static void pass_less(struct pair *p)
{
	say(p, PROTO_OPENED, 0, 1, NULL, 0);
}

static void test_lies_about_files(void **state)
{
	static lie_fn *const lies[] = { pass_pipe, pass_path, pass_nothing, pass_less, no_file };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		void *place = NULL;
		struct pair *p;

		assert_int_equal(begin(&place), 0);
		p = place;
		ask_for_file(p);
		lies[i](p);
		turn(p);
		assert_int_equal(p->closed, 1);
		assert_int_equal(p->opened, 0);
		finish(&place);
	}
}

static void test_too_many_calls(void **state)
{
	struct pair *p = *state;
	struct err e = { 0 };

	for (unsigned i = 0; i < SUP_CALLS_MAX; i++) {
		assert_int_equal(link_usage(p->l, &handler, p, NULL, &e), 0);
		hear(p);
	}
	assert_int_equal(link_usage(p->l, &handler, p, NULL, &e), -EAGAIN);
	assert_int_equal(link_call_count(p->l), SUP_CALLS_MAX);
}

static void test_a_supervisor_that_does_not_read(void **state)
{
	struct pair *p = *state;
	static char large[200000];
	const char *const argv[] = { "x", large, NULL };
	struct link_start s = { .argv = argv };
	struct err e = { 0 };
	unsigned n = 0;

	memset(large, 'y', sizeof(large) - 1);
	while (link_start(p->l, &s, &handler, p, NULL, &e) == 0)
		assert_true(++n < 100);
	assert_int_equal(e.code, ENOBUFS);
}

/* Frames that come byte by byte are the same frames. */
static void test_in_pieces(void **state)
{
	struct pair *p = *state;
	uint8_t whole[256];
	size_t len = 0;

	open_process(p);
	say_u32(p, PROTO_OPENED, 1, TAG_PID, 42);
	say(p, PROTO_DATA, 0, 1, "hello", 5);
	say_u32(p, PROTO_EXIT, 1, TAG_CODE, 1);
	len = ctl_waiting(&p->other);
	memcpy(whole, p->other.out + p->other.out_at, len);
	for (size_t i = 0; i < len; i++) {
		assert_int_equal(p->done, 0);
		assert_int_equal(send(p->other.fd, whole + i, 1, 0), 1);
		link_work(p->l, POLLIN);
	}
	p->other.out_at = p->other.out_len = 0;
	assert_int_equal(p->done, 1);
	assert_int_equal(p->bytes, 5);
}

struct files {
	struct pair *p;
	int got[3];
	uint16_t flags;
};

static int take_files(void *arg, const struct frame *f)
{
	struct files *x = arg;

	x->flags = f->flags;
	for (unsigned i = 0; i < 3; i++)
		x->got[i] = f->type == PROTO_SNAPSHOT ? ctl_take_fd(&x->p->other) : -1;
	return 0;
}

static void test_a_snapshot(void **state)
{
	struct pair *p = *state;
	struct snap into = { memfd_create("s", 0), memfd_create("m", 0), memfd_create("d", 0) };
	struct files x = { .p = p };
	struct err e = { 0 };

	assert_int_equal(link_snapshot(p->l, &into, 2 /* SNAP_STAY */, &handler, p, NULL, &e), 0);
	assert_int_equal(ctl_receive(&p->other, 4, take_files, &x), 0);
	assert_int_equal(x.flags, 2);
	/* In their order, and each its own. */
	for (unsigned i = 0; i < 3; i++) {
		assert_true(x.got[i] >= 0);
		assert_int_equal(write(x.got[i], &"smd"[i], 1), 1);
		close(x.got[i]);
	}
	for (unsigned i = 0; i < 3; i++) {
		const int fds[] = { into.state, into.memory, into.disk };
		char c = 0;

		assert_int_equal(pread(fds[i], &c, 1, 0), 1);
		assert_int_equal(c, "smd"[i]);
		close(fds[i]);
	}
	say(p, PROTO_OK, 0, 1, NULL, 0);
	turn(p);
	assert_int_equal(p->done, 1);
	assert_int_equal(
		link_snapshot(p->l, &(struct snap){ -1, -1, -1 }, 0, &handler, p, NULL, &e),
		-EBADF);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)
	const struct CMUnitTest tests[] = {
		TEST(test_a_process),
		TEST(test_an_older_supervisor),
		TEST(test_a_claim_in_one_piece),
		TEST(test_a_number_is_free_after_the_final_frame_only),
		TEST(test_dropping_in_a_callback),
		TEST(test_the_end_fails_what_is_open),
		TEST(test_last_words_after_a_failed_send),
		TEST(test_input_within_its_credit),
		TEST(test_mistakes_of_the_caller),
		TEST(test_a_file),
		TEST(test_a_dropped_file_is_closed),
		TEST(test_in_pieces),
		TEST(test_a_snapshot),
		TEST(test_too_many_calls),
		TEST(test_a_supervisor_that_does_not_read),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_lies_about_files),
	};

	return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
