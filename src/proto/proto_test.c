/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/proto_test.c - framing, fields, and what the host believes of an agent.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "proto/client.h"
#include "proto/event.h"
#include "proto/le.h"
#include "proto/msg.h"

/* Three frames, one of them empty, fed in pieces of every size. */
static void split_at_every_byte(void **state)
{
	static struct frame_reader r;
	uint8_t wire[200];
	size_t total = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		uint32_t len = i * 30;

		frame_put_head(wire + total, len, (uint16_t)(100 + i), (uint16_t)i, 7000 + i);
		memset(wire + total + FRAME_HEAD, 'a' + (int)i, len);
		total += FRAME_HEAD + len;
	}
	for (size_t piece = 1; piece <= total; piece++) {
		unsigned seen = 0;

		frame_reader_init(&r);
		for (size_t at = 0; at < total; at += piece) {
			size_t n = total - at < piece ? total - at : piece, cap;
			struct frame f;
			uint8_t *to = frame_space(&r, &cap);

			assert_true(cap >= n);
			memcpy(to, wire + at, n);
			frame_fed(&r, n);
			while (frame_next(&r, &f) > 0) {
				assert_int_equal(f.type, 100 + seen);
				assert_int_equal(f.flags, seen);
				assert_int_equal(f.stream, 7000 + seen);
				assert_int_equal(f.len, seen * 30);
				for (uint32_t k = 0; k < f.len; k++)
					assert_int_equal(f.data[k], 'a' + seen);
				seen++;
			}
		}
		assert_int_equal(seen, 3);
	}
}

static void largest_frame_and_one_more(void **state)
{
	static struct frame_reader r;
	struct frame f;
	uint8_t *to;
	size_t cap;

	(void)state;
	frame_reader_init(&r);
	to = frame_space(&r, &cap);
	assert_int_equal(cap, FRAME_HEAD + FRAME_PAYLOAD_MAX);
	frame_put_head(to, FRAME_PAYLOAD_MAX, 1, 2, 3);
	frame_fed(&r, cap - 1);
	assert_int_equal(frame_next(&r, &f), 0);
	frame_space(&r, &cap);
	assert_int_equal(cap, 1);
	frame_fed(&r, 1);
	assert_int_equal(frame_next(&r, &f), 1);
	assert_int_equal(f.len, FRAME_PAYLOAD_MAX);

	frame_reader_init(&r);
	to = frame_space(&r, &cap);
	frame_put_head(to, FRAME_PAYLOAD_MAX + 1, 1, 2, 3);
	frame_fed(&r, FRAME_HEAD);
	assert_int_equal(frame_next(&r, &f), -EPROTO);
	frame_put_head(to, UINT32_MAX, 1, 2, 3);
	assert_int_equal(frame_next(&r, &f), -EPROTO);
}

static void writer_records_overflow(void **state)
{
	uint8_t buf[FRAME_HEAD + 20];
	struct msg m;

	(void)state;
	msg_begin(&m, buf, sizeof(buf), PROTO_OK, 0, 1);
	msg_u32(&m, TAG_ERRNO, 5);
	assert_int_equal(msg_end(&m), FRAME_HEAD + 10);
	msg_u32(&m, TAG_ERRNO, 5);
	assert_int_equal(msg_end(&m), sizeof(buf));
	msg_u32(&m, TAG_ERRNO, 5);
	assert_int_equal(msg_end(&m), -EMSGSIZE);

	/* One that does not fit is not put, and a later one that would is not either. */
	msg_begin(&m, buf, sizeof(buf), PROTO_OK, 0, 1);
	msg_text(&m, TAG_TEXT, "longer than the twenty bytes that there are");
	msg_u32(&m, TAG_ERRNO, 5);
	assert_int_equal(m.len, FRAME_HEAD);
	assert_int_equal(msg_end(&m), -EMSGSIZE);
	msg_begin(&m, buf, FRAME_HEAD - 1, PROTO_OK, 0, 1);
	msg_u32(&m, TAG_ERRNO, 5);
	assert_int_equal(msg_end(&m), -EMSGSIZE);
}

#define BYTES_OF(s) (s), sizeof(s) - 1

static void hostile_fields(void **state)
{
	static const struct {
		const char *name, *data;
		size_t len;
		int want;
	} cases[] = {
		{ "none", BYTES_OF(""), -EINVAL },
		{ "a number", BYTES_OF("\2\0\4\0\0\0\5\0\0\0"), 0 },
		{ "half a head", BYTES_OF("\2\0\4\0\0"), -EPROTO },
		{ "value cut off", BYTES_OF("\2\0\4\0\0\0\5\0\0"), -EPROTO },
		{ "length runs past the end", BYTES_OF("\2\0\xff\xff\xff\xff\5\0\0\0"), -EPROTO },
		{ "number too short", BYTES_OF("\2\0\3\0\0\0\5\0\0"), -EPROTO },
		{ "number too long", BYTES_OF("\2\0\5\0\0\0\5\0\0\0\0"), -EPROTO },
		{ "64 bits of 32", BYTES_OF("\5\0\4\0\0\0\5\0\0\0"), -EPROTO },
		{ "twice", BYTES_OF("\2\0\4\0\0\0\5\0\0\0\2\0\4\0\0\0\5\0\0\0"), -EOPNOTSUPP },
		{ "text", BYTES_OF("\2\0\4\0\0\0\5\0\0\0\3\0\3\0\0\0hi\0"), 0 },
		{ "text without NUL", BYTES_OF("\2\0\4\0\0\0\5\0\0\0\3\0\2\0\0\0hi"), -EPROTO },
		{ "text with two", BYTES_OF("\2\0\4\0\0\0\5\0\0\0\3\0\4\0\0\0h\0i\0"), -EPROTO },
		{ "text of nothing", BYTES_OF("\2\0\4\0\0\0\5\0\0\0\3\0\0\0\0\0"), -EPROTO },
		{ "unknown tag", BYTES_OF("\2\0\4\0\0\0\5\0\0\0\x3f\0\1\0\0\0x"), -EOPNOTSUPP },
		{ "unknown large tag", BYTES_OF("\2\0\4\0\0\0\5\0\0\0\xff\xff\0\0\0\0"),
			-EOPNOTSUPP },
		{ "known, not here", BYTES_OF("\2\0\4\0\0\0\5\0\0\0\4\0\4\0\0\0\0\0\0\0"),
			-EOPNOTSUPP },
		{ "unknown, then broken", BYTES_OF("\xff\xff\0\0\0\0\2\0\4"), -EPROTO },
		{ "needed one missing", BYTES_OF("\3\0\3\0\0\0hi\0"), -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		/* Its own block, so that a read past the end is seen by the sanitizer. */
		uint8_t *copy = malloc(cases[i].len ? cases[i].len : 1);
		struct values v;
		uint16_t tag = 0;
		int r;

		assert_non_null(copy);
		memcpy(copy, cases[i].data, cases[i].len);
		r = values_read(&v, copy, cases[i].len, TAG_BIT(ERRNO),
			TAG_BIT(TEXT) | TAG_BIT(BYTES), &tag);
		if (r != cases[i].want)
			fail_msg("%s: %d, not %d", cases[i].name, r, cases[i].want);
		if (r == 0)
			assert_int_equal(values_num(&v, TAG_ERRNO, 0), 5);
		free(copy);
	}
}

static void fill(struct msg *m, uint8_t *buf, size_t cap, enum proto_type type, uint16_t flags,
	const char *const *texts, const uint32_t *numbers)
{
	msg_begin(m, buf, cap, type, flags, 9);
	for (; texts && texts[0]; texts += 2)
		msg_text(m, (enum proto_tag)strtol(texts[0], NULL, 10), texts[1]);
	for (; numbers && numbers[0]; numbers += 2)
		if (numbers[0] == TAG_BYTES || numbers[0] == TAG_SIZE || numbers[0] == TAG_MTIME_NS)
			msg_u64(m, (enum proto_tag)numbers[0], numbers[1]);
		else
			msg_u32(m, (enum proto_tag)numbers[0], numbers[1]);
	assert_true(msg_end(m) > 0);
}

#define FILE_NUMBERS(kind)                                                                         \
	TAG_KIND, kind, TAG_MODE, 0644, TAG_SIZE, 3, TAG_UID, 0, TAG_GID, 0, TAG_MTIME_NS, 1
#define NUMBERS(...) ((const uint32_t[]){ __VA_ARGS__, 0 })
#define NAME(text) ((const char *const[]){ "43", text, NULL })

/* What no honest agent says. */
static void hostile_agent(void **state)
{
	const struct {
		const char *name;
		enum proto_type type;
		uint16_t flags;
		const char *const *texts;
		const uint32_t *numbers;
		int want;
	} cases[] = {
		{ "exit 3", PROTO_EXIT, 0, NULL, NUMBERS(TAG_CODE, 3), 0 },
		{ "exit 256", PROTO_EXIT, 0, NULL, NUMBERS(TAG_CODE, 256), -EPROTO },
		{ "killed", PROTO_EXIT, 0, NULL, NUMBERS(TAG_SIGNAL, 9), 0 },
		{ "with a count of 32 bits", PROTO_EXIT, 0, NULL,
			NUMBERS(TAG_SIGNAL, 9, TAG_OOM_KILLS, 1), -EPROTO },
		{ "signal 0", PROTO_EXIT, 0, NULL, NUMBERS(TAG_SIGNAL, 0), -EPROTO },
		{ "signal 65", PROTO_EXIT, 0, NULL, NUMBERS(TAG_SIGNAL, 65), -EPROTO },
		{ "both", PROTO_EXIT, 0, NULL, NUMBERS(TAG_SIGNAL, 9, TAG_CODE, 1), -EPROTO },
		{ "neither", PROTO_EXIT, 0, NULL, NULL, -EPROTO },
		{ "exit with a flag", PROTO_EXIT, 1, NULL, NUMBERS(TAG_CODE, 3), -EPROTO },
		{ "error", PROTO_ERROR, 0, NULL, NUMBERS(TAG_ERRNO, ENOENT), 0 },
		{ "soft error", PROTO_ERROR, ERROR_SOFT, NULL, NUMBERS(TAG_ERRNO, ENOENT), 0 },
		{ "errno 0", PROTO_ERROR, 0, NULL, NUMBERS(TAG_ERRNO, 0), -EPROTO },
		{ "errno 4096", PROTO_ERROR, 0, NULL, NUMBERS(TAG_ERRNO, 4096), -EPROTO },
		{ "step 0", PROTO_START_FAILED, 0, NULL, NUMBERS(TAG_ERRNO, 2, TAG_STEP, 0),
			-EPROTO },
		{ "step 4", PROTO_START_FAILED, 0, NULL, NUMBERS(TAG_ERRNO, 2, TAG_STEP, 4), 0 },
		{ "step 5", PROTO_START_FAILED, 0, NULL, NUMBERS(TAG_ERRNO, 2, TAG_STEP, 5),
			-EPROTO },
		{ "no step", PROTO_START_FAILED, 0, NULL, NUMBERS(TAG_ERRNO, 2), -EPROTO },
		{ "credit", PROTO_CREDIT, 0, NULL, NUMBERS(TAG_BYTES, 10), 0 },
		{ "credit 0", PROTO_CREDIT, 0, NULL, NUMBERS(TAG_BYTES, 0), -EPROTO },
		{ "huge credit", PROTO_CREDIT, 0, NULL, NUMBERS(TAG_BYTES, UINT32_MAX), -EPROTO },
		{ "entry", PROTO_ENTRY, 0, NAME("a/b"), NUMBERS(FILE_NUMBERS(1)), 0 },
		{ "entry up", PROTO_ENTRY, 0, NAME("a/../../b"), NUMBERS(FILE_NUMBERS(1)),
			-EPROTO },
		{ "entry ..", PROTO_ENTRY, 0, NAME(".."), NUMBERS(FILE_NUMBERS(1)), -EPROTO },
		{ "entry ..x", PROTO_ENTRY, 0, NAME("..x/...//.."), NUMBERS(FILE_NUMBERS(1)),
			-EPROTO },
		{ "entry ...", PROTO_ENTRY, 0, NAME("..x/..."), NUMBERS(FILE_NUMBERS(1)), 0 },
		{ "absolute entry", PROTO_ENTRY, 0, NAME("/etc"), NUMBERS(FILE_NUMBERS(1)),
			-EPROTO },
		{ "entry without name", PROTO_ENTRY, 0, NAME(""), NUMBERS(FILE_NUMBERS(1)),
			-EPROTO },
		{ "kind 0", PROTO_ENTRY, 0, NAME("a"), NUMBERS(FILE_NUMBERS(0)), -EPROTO },
		{ "kind 8", PROTO_ENTRY, 0, NAME("a"), NUMBERS(FILE_NUMBERS(8)), -EPROTO },
		{ "half a file", PROTO_OK, 0, NULL, NUMBERS(TAG_KIND, 1), -EPROTO },
		{ "event", PROTO_EVENT, 0, NAME("x"), NUMBERS(TAG_CHANGE, CHANGE_CREATED), 0 },
		{ "event on itself", PROTO_EVENT, 0, NAME(""), NUMBERS(TAG_CHANGE, CHANGE_LOST),
			0 },
		{ "event 9", PROTO_EVENT, 0, NAME("x"), NUMBERS(TAG_CHANGE, 9), -EPROTO },
		{ "event up", PROTO_EVENT, 0, NAME("../x"), NUMBERS(TAG_CHANGE, 1), -EPROTO },
		{ "a client's message", PROTO_START, 0, NULL, NULL, -EPROTO },
		{ "no message", (enum proto_type)999, 0, NULL, NULL, -EPROTO },
		{ "data without bytes", PROTO_DATA, 0, NULL, NULL, -EPROTO },
		{ "end", PROTO_END, DATA_ERR, NULL, NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t buf[512];
		struct proto_event ev;
		struct frame f = {
			.type = (uint16_t)cases[i].type, .flags = cases[i].flags, .stream = 9
		};
		struct msg m;
		int r;

		fill(&m, buf, sizeof(buf), cases[i].type, cases[i].flags, cases[i].texts,
			cases[i].numbers);
		f.data = buf + FRAME_HEAD;
		f.len = (uint32_t)m.len - FRAME_HEAD;
		r = proto_event_read(&ev, &f);
		if (r != cases[i].want)
			fail_msg("%s: %d, not %d", cases[i].name, r, cases[i].want);
		f.stream = 0;
		if (f.type != PROTO_ERROR && proto_event_read(&ev, &f) != -EPROTO)
			fail_msg("%s: accepted on stream 0", cases[i].name);
	}
}

static void texts_of_an_agent_are_printable(void **state)
{
	uint8_t buf[512];
	struct proto_event ev;
	struct frame f = { .type = PROTO_ERROR, .stream = 1, .data = buf + FRAME_HEAD };
	struct msg m;
	char text[300];

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "\x1b[31m\n\xc3", 7);
	text[sizeof(text) - 1] = '\0';
	msg_begin(&m, buf, sizeof(buf), PROTO_ERROR, 0, 1);
	msg_u32(&m, TAG_ERRNO, EIO);
	msg_text(&m, TAG_TEXT, text);
	f.len = (uint32_t)msg_end(&m) - FRAME_HEAD;
	assert_int_equal(proto_event_read(&ev, &f), 0);
	assert_int_equal(strlen(ev.failed.text), PROTO_TEXT - 1);
	assert_memory_equal(ev.failed.text, "?[31m??xxx", 10);
}

static void flow_counts(void **state)
{
	struct flow f;

	(void)state;
	flow_init(&f, 100);
	assert_int_equal(flow_take(&f, 60), 0);
	assert_int_equal(flow_take(&f, 41), -EPROTO);
	assert_int_equal(flow_give(&f, 49), 0); /* less than half: later */
	assert_int_equal(flow_give(&f, 11), 60);
	assert_int_equal(f.credit, 100);
	assert_int_equal(flow_add(&f, FLOW_CREDIT_MAX), -EPROTO);
	assert_int_equal(flow_add(&f, UINT64_MAX), -EPROTO);
	assert_int_equal(flow_add(&f, FLOW_CREDIT_MAX - 100), 0);
	/* A window of one byte is given back byte by byte. */
	flow_init(&f, 1);
	assert_int_equal(flow_take(&f, 1), 0);
	assert_int_equal(flow_give(&f, 0), 0);
	assert_int_equal(flow_give(&f, 1), 1);
}

/* Reads frames from @fd as an agent would. */
static int agent_side(int fd, struct frame_reader *r, struct frame *f)
{
	for (;;) {
		int n = frame_next(r, f);
		size_t cap;
		void *to;
		ssize_t got;

		if (n != 0)
			return n;
		to = frame_space(r, &cap);
		got = recv(fd, to, cap, MSG_DONTWAIT);
		if (got <= 0)
			return 0;
		frame_fed(r, (size_t)got);
	}
}

static void start_carries_all(void **state)
{
	static struct proto_conn c;
	static struct frame_reader r;
	const char *const argv[] = { "echo", "", "a b", NULL }, *const env[] = { "A=1", NULL };
	const struct proto_start s = { .stream = 5,
		.flags = START_PTY,
		.argv = argv,
		.env = env,
		.cwd = "/tmp",
		.user = "me",
		.rows = 24,
		.cols = 80,
		.window = 99 };
	static const char *const want[] = { "echo", "", "a b", "A=1", "/tmp", "me" };
	struct frame f;
	struct fields fs;
	struct field field;
	int sv[2];
	size_t i = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	proto_conn_init(&c, sv[0]);
	assert_int_equal(proto_send_start(&c, &s, NULL, 0, NULL), 0);
	frame_reader_init(&r);
	assert_int_equal(agent_side(sv[1], &r, &f), 1);
	assert_int_equal(f.type, PROTO_START);
	assert_int_equal(f.flags, START_PTY);
	assert_int_equal(f.stream, 5);
	fields_init(&fs, f.data, f.len);
	while (fields_next(&fs, &field) > 0)
		if (field.text)
			assert_string_equal(field.text, want[i++]);
	assert_int_equal(i, ARRAY_LEN(want));
	assert_false(proto_conn_wants_write(&c));
	/* Nothing to run, and descriptors where none belong. */
	assert_int_equal(
		proto_send_start(&c, &(struct proto_start){ .argv = env + 1 }, NULL, 0, NULL),
		-EINVAL);
	assert_int_equal(proto_send_start(&c, &s, sv, 2, NULL), -EINVAL);
	proto_conn_done(&c);
	close(sv[0]);
	close(sv[1]);
}

/* A START of 900 KB is cut into frames and does not wait for a channel that takes 200 KB. */
static void long_start_is_queued(void **state)
{
	static struct proto_conn c;
	static struct frame_reader r;
	static char big[300001];
	const char *const argv[] = { "x", big, big, big, NULL };
	const char *const too_much[] = { "x", big, big, big, big, NULL };
	struct frame f;
	size_t total = 0;
	bool last = false;
	int sv[2];

	(void)state;
	memset(big, 'q', sizeof(big) - 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	proto_conn_init(&c, sv[0]);
	assert_int_equal(
		proto_send_start(
			&c, &(struct proto_start){ .stream = 1, .argv = too_much }, NULL, 0, NULL),
		-E2BIG);
	assert_int_equal(proto_send_start(&c, &(struct proto_start){ .stream = 1, .argv = argv },
				 NULL, 0, NULL),
		0);
	assert_true(proto_conn_wants_write(&c));
	frame_reader_init(&r);
	while (!last) {
		assert_int_equal(proto_conn_flush(&c, NULL), 0);
		while (agent_side(sv[1], &r, &f) > 0) {
			assert_false(last);
			assert_int_equal(f.type, PROTO_START);
			last = !(f.flags & START_MORE);
			total += f.len;
		}
	}
	assert_int_equal(total, 3 * (6 + sizeof(big)) + 6 + 2);
	assert_false(proto_conn_wants_write(&c));
	proto_conn_done(&c);
	close(sv[0]);
	close(sv[1]);
}

static void queue_has_an_end(void **state)
{
	static struct proto_conn c;
	static uint8_t data[FRAME_PAYLOAD_MAX];
	int sv[2], r = 0;
	unsigned sent = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	proto_conn_init(&c, sv[0]);
	while ((r = proto_send_data(&c, 1, data, sizeof(data), NULL)) == 0)
		sent++;
	assert_int_equal(r, -ENOBUFS);
	assert_true(sent >= PROTO_QUEUE_MAX / FRAME_PAYLOAD_MAX - 2);
	close(sv[1]);
	assert_int_equal(proto_conn_flush(&c, NULL), -EPIPE);
	assert_int_equal(proto_send_end(&c, 1, NULL), -EPIPE);
	proto_conn_done(&c);
	close(sv[0]);
}

static void receive_from_a_hostile_agent(void **state)
{
	static struct proto_conn c;
	struct proto_event ev;
	struct err e = { 0 };
	uint8_t buf[FRAME_HEAD + 10];
	struct msg m;
	int sv[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	proto_conn_init(&c, sv[0]);
	assert_int_equal(proto_conn_receive(&c, &ev, &e), 0);
	msg_begin(&m, buf, sizeof(buf), PROTO_EXIT, 0, 1);
	msg_u32(&m, TAG_CODE, 3);
	assert_int_equal(msg_end(&m), sizeof(buf));
	for (size_t i = 0; i < sizeof(buf); i++) {
		assert_int_equal(proto_conn_receive(&c, &ev, &e), 0);
		assert_int_equal(write(sv[1], buf + i, 1), 1);
	}
	assert_int_equal(proto_conn_receive(&c, &ev, &e), 1);
	assert_int_equal(ev.exit.code, 3);
	frame_put_head(buf, UINT32_MAX, PROTO_EXIT, 0, 1);
	assert_int_equal(write(sv[1], buf, FRAME_HEAD), FRAME_HEAD);
	assert_int_equal(proto_conn_receive(&c, &ev, &e), -EPROTO);
	/* And it stays broken, whatever comes after. */
	assert_int_equal(write(sv[1], buf, FRAME_HEAD), FRAME_HEAD);
	assert_int_equal(proto_conn_receive(&c, &ev, &e), -EPROTO);
	assert_int_equal(proto_send_end(&c, 1, NULL), -EPIPE);

	proto_conn_init(&c, sv[0]);
	assert_int_equal(proto_conn_receive(&c, &ev, &e), -EPROTO);
	proto_conn_init(&c, sv[0]);
	close(sv[1]);
	assert_int_equal(proto_conn_receive(&c, &ev, &e), -ENOTCONN);
	close(sv[0]);
}

static void statuses_of_failed_starts(void **state)
{
	static const struct {
		enum start_step step;
		int code, want;
	} cases[] = {
		{ START_STEP_EXEC, ENOENT, 127 },
		{ START_STEP_EXEC, EACCES, 126 },
		{ START_STEP_EXEC, ENOEXEC, 126 },
		{ START_STEP_CWD, ENOENT, 125 },
		{ START_STEP_USER, ENOENT, 125 },
		{ START_STEP_SETUP, EAGAIN, 125 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proto_failed f = { .code = cases[i].code, .step = cases[i].step };

		assert_int_equal(proto_failed_status(&f), cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split_at_every_byte),
		cmocka_unit_test(largest_frame_and_one_more),
		cmocka_unit_test(writer_records_overflow),
		cmocka_unit_test(hostile_fields),
		cmocka_unit_test(hostile_agent),
		cmocka_unit_test(texts_of_an_agent_are_printable),
		cmocka_unit_test(flow_counts),
		cmocka_unit_test(start_carries_all),
		cmocka_unit_test(long_start_is_queued),
		cmocka_unit_test(queue_has_an_end),
		cmocka_unit_test(receive_from_a_hostile_agent),
		cmocka_unit_test(statuses_of_failed_starts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
