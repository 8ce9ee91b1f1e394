/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve_test.c - a supervisor between an agent and a daemon that the test plays.
 *
 * What an honest pair does is tried over the socket (tests/e2e/test_sup.py); here the agent was
 * taken over, the daemon goes away at a bad moment, and queues are full.
 */
#include <errno.h>
#include <fcntl.h>
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
#include "sup/serve_impl.h"
#include "tier/tier_impl.h"

/* The supervisor under test, and the two ends that are ours. */
struct stage {
	struct serve *s;
	struct plan plan;
	struct box box;
	struct sighting seen;
	struct ctl daemon, agent;
	int channel;
	unsigned finals, data;
	int last_errno;
	struct frame to_agent, to_daemon; /* the last ones; their data is gone */
};

static const struct serve_hooks hooks;
static const struct decision decision;

static void no_kill(struct box *box)
{
	(void)box;
}

static const struct tier_ops fake = { .name = "fake", .what = "nothing", .kill = no_kill };

static void connect_daemon(struct stage *t)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ctl_init(&t->daemon, pair[1]);
	link_take(t->s, pair[0]);
}

static int begin(void **state)
{
	struct stage *t = calloc(1, sizeof(*t));
	int pair[2];

	assert_non_null(t);
	t->s = calloc(1, sizeof(*t->s));
	assert_non_null(t->s);
	str_copy(t->plan.id, sizeof(t->plan.id), "abcdefghijkl");
	str_copy(t->s->id, sizeof(t->s->id), t->plan.id);
	t->plan.wall = WALL_CONTAINER;
	box_init(&t->box, &fake, &t->plan);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	t->channel = pair[0];
	ctl_init(&t->agent, pair[1]);
	t->s->run_dir = t->s->listener = t->s->signals = -1;
	t->s->link = (struct ctl){ .fd = -1, .dead = true };
	t->s->box = &t->box;
	t->s->plan = &t->plan;
	t->s->decision = &decision;
	t->s->hooks = &hooks;
	t->s->fds = box_fds(&t->box);
	t->s->seen = &t->seen;
	t->s->state = SUP_RUNNING;
	t->s->ready = t->s->channel_open = true;
	flight_init(&t->s->flight);
	proto_conn_init(&t->s->conn, t->channel);
	t->s->conn.takes_fds = true;
	connect_daemon(t);
	*state = t;
	return 0;
}

static int finish(void **state)
{
	struct stage *t = *state;

	t->s->channel_open = false;
	link_hang_up(t->s);
	proc_free_all(t->s);
	defaults_done(&t->s->defaults);
	proto_conn_done(&t->s->conn);
	close(t->channel);
	ctl_done(&t->daemon);
	ctl_done(&t->agent);
	free(t->s);
	free(t);
	return 0;
}

static int hear_daemon(void *arg, const struct frame *f)
{
	struct stage *t = arg;
	struct ctl_fields v;

	t->to_daemon = *f;
	t->data += f->type == PROTO_DATA ? f->len : 0;
	if (f->type == PROTO_OK || f->type == PROTO_EXIT || f->type == PROTO_START_FAILED ||
		f->type == PROTO_ERROR)
		t->finals++;
	if (f->type == PROTO_ERROR) {
		assert_int_equal(ctl_fields_read(&v, f->data, f->len), 0);
		t->last_errno = (int)ctl_num(&v, TAG_ERRNO, 0);
	}
	if (f->type == PROTO_OPENED && (f->flags & OPENED_FD))
		close(ctl_take_fd(&t->daemon));
	return 0;
}

static int hear_agent(void *arg, const struct frame *f)
{
	((struct stage *)arg)->to_agent = *f;
	return 0;
}

/* Everything that is on its way arrives. */
static void settle(struct stage *t)
{
	for (unsigned i = 0; i < 4; i++) {
		ctl_flush(&t->daemon);
		ctl_flush(&t->agent);
		if (t->s->link.fd >= 0)
			link_receive(t->s);
		if (t->s->channel_open && !t->s->killed)
			agent_receive(t->s);
		ctl_flush(&t->s->link);
		proto_conn_flush(&t->s->conn, NULL);
		ctl_receive(&t->daemon, 8, hear_daemon, t);
		ctl_receive(&t->agent, 8, hear_agent, t);
	}
}

static void from_daemon(struct stage *t, uint16_t type, uint16_t flags, uint32_t stream,
	const void *data, size_t len)
{
	assert_int_equal(ctl_put(&t->daemon, type, flags, stream, data, len, -1), 0);
	settle(t);
}

static void from_agent(struct stage *t, uint16_t type, uint16_t flags, uint32_t stream,
	const void *data, size_t len)
{
	assert_int_equal(ctl_put(&t->agent, type, flags, stream, data, len, -1), 0);
	settle(t);
}

static size_t number(uint8_t buf[64], enum proto_tag tag, uint64_t v, bool wide)
{
	struct msg m;

	msg_begin(&m, buf, 64, PROTO_OK, 0, 0);
	if (wide)
		msg_u64(&m, tag, v);
	else
		msg_u32(&m, tag, (uint32_t)v);
	memmove(buf, buf + FRAME_HEAD, m.len - FRAME_HEAD);
	return m.len - FRAME_HEAD;
}

static void agent_number_of(
	struct stage *t, uint16_t type, uint32_t stream, enum proto_tag tag, uint32_t v)
{
	uint8_t buf[64];
	size_t n = number(buf, tag, v, false);

	from_agent(t, type, 0, stream, buf, n);
}

/* A process with pid 5 on the daemon's stream 1 and the agent's stream 1. */
static void start_process(struct stage *t)
{
	uint8_t buf[128];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), PROTO_START, 0, 1);
	msg_text(&m, TAG_ARG, "sh");
	ctl_put_msg(&t->daemon, &m);
	settle(t);
	assert_int_equal(t->to_agent.type, PROTO_START);
	agent_number_of(t, PROTO_OPENED, 1, TAG_PID, 5);
	assert_int_equal(t->to_daemon.type, PROTO_OPENED);
}

static void ask(struct stage *t, enum proto_type type, uint16_t flags, uint32_t stream)
{
	uint8_t buf[128];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), type, flags, stream);
	msg_text(&m, TAG_PATH, "/x");
	ctl_put_msg(&t->daemon, &m);
	settle(t);
}

/* --- An agent that was taken over ------------------------------------------------------------- */

typedef void lie_fn(struct stage *t);

static void too_much_output(struct stage *t)
{
	static const uint8_t data[FRAME_PAYLOAD_MAX];

	start_process(t);
	/* The daemon gives no credit: when the ring is full, the agent has none either. */
	for (unsigned i = 0; i < 8 && !t->s->killed; i++)
		from_agent(t, PROTO_DATA, 0, 1, data, sizeof(data));
}

static void not_open(struct stage *t)
{
	from_agent(t, PROTO_OK, 0, 9, NULL, 0);
}

static void out_of_range(struct stage *t)
{
	from_agent(t, PROTO_OK, 0, 100000, NULL, 0);
}

static void opened_twice(struct stage *t)
{
	start_process(t);
	agent_number_of(t, PROTO_OPENED, 1, TAG_PID, 6);
}

static void exit_before_opened(struct stage *t)
{
	uint8_t buf[128];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), PROTO_START, 0, 1);
	msg_text(&m, TAG_ARG, "sh");
	ctl_put_msg(&t->daemon, &m);
	settle(t);
	agent_number_of(t, PROTO_EXIT, 1, TAG_CODE, 0);
}

static void a_pipe(struct stage *t)
{
	int p[2];

	ask(t, PROTO_READ, FILE_PASS_FD, 1);
	assert_int_equal(pipe(p), 0);
	close(p[1]);
	ctl_put(&t->agent, PROTO_OPENED, OPENED_FD, 1, NULL, 0, p[0]);
	settle(t);
}

static void a_file_unasked(struct stage *t)
{
	ask(t, PROTO_READ, 0, 1);
	ctl_put(&t->agent, PROTO_OPENED, OPENED_FD, 1, NULL, 0, memfd_create("x", 0));
	settle(t);
}

static void no_file(struct stage *t)
{
	ask(t, PROTO_READ, FILE_PASS_FD, 1);
	from_agent(t, PROTO_OPENED, OPENED_FD, 1, NULL, 0);
}

static void a_file_for_a_process(struct stage *t)
{
	start_process(t);
	ctl_put(&t->agent, PROTO_OPENED, OPENED_FD, 1, NULL, 0, memfd_create("x", 0));
	settle(t);
}

static void many_files(struct stage *t)
{
	for (unsigned i = 0; i <= PROTO_FDS_MAX; i++)
		ctl_put(&t->agent, PROTO_HELLO, 0, 0, "\1\0\4\0\0\0\1\0\0\0", 10,
			memfd_create("x", 0));
	settle(t);
}

static void an_exit_of_a_file(struct stage *t)
{
	ask(t, PROTO_READ, 0, 1);
	agent_number_of(t, PROTO_EXIT, 1, TAG_CODE, 0);
}

static void too_much_credit(struct stage *t)
{
	uint8_t buf[64];
	size_t n = number(buf, TAG_BYTES, FLOW_CREDIT_MAX, true);

	start_process(t);
	from_agent(t, PROTO_CREDIT, 0, 1, buf, n);
}

static void more_than_a_file_may(struct stage *t)
{
	static const uint8_t data[FRAME_PAYLOAD_MAX];

	ask(t, PROTO_READ, 0, 1);
	from_agent(t, PROTO_DATA, 0, 1, data, sizeof(data));
	from_agent(t, PROTO_DATA, 0, 1, data, 1);
}

static void nonsense(struct stage *t)
{
	from_agent(t, 777, 0, 1, NULL, 0);
}

static void test_lies_of_an_agent(void **state)
{
	static lie_fn *const lies[] = { too_much_output, not_open, out_of_range, opened_twice,
		exit_before_opened, a_pipe, a_file_unasked, no_file, a_file_for_a_process,
		many_files, an_exit_of_a_file, too_much_credit, more_than_a_file_may, nonsense };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		void *place = NULL;
		struct stage *t;

		begin(&place);
		t = place;
		lies[i](t);
		if (!t->s->killed)
			fail_msg("lie %zu was believed", i);
		assert_int_equal(t->s->stop_cause, END_PROTOCOL);
		assert_non_null(strstr(t->s->stop_text, "protocol"));
		finish(&place);
	}
}

/* --- A daemon that goes away ------------------------------------------------------------------ */

static void test_calls_of_a_lost_daemon(void **state)
{
	struct stage *t = *state;

	start_process(t);
	ask(t, PROTO_READ, 0, 2);
	assert_int_equal(t->to_agent.type, PROTO_READ);
	ctl_done(&t->daemon);
	settle(t);
	assert_int_equal(t->s->link.fd, -1);
	/* The read is given up, the process is not. */
	assert_int_equal(t->to_agent.type, PROTO_CANCEL);
	assert_int_equal(t->s->running, 1);
	/* What still comes for it goes nowhere, and its number is free after its end. */
	from_agent(t, PROTO_DATA, 0, t->to_agent.stream, "late", 4);
	from_agent(t, PROTO_OK, 0, t->to_agent.stream, NULL, 0);
	assert_false(t->s->killed);
	assert_int_equal(t->s->streams[2].kind, AGENT_FREE);
}

static void test_output_waits_for_the_next_daemon(void **state)
{
	struct stage *t = *state;
	uint8_t buf[64];
	size_t n = number(buf, TAG_PID, 5, false);

	start_process(t);
	from_agent(t, PROTO_DATA, 0, 1, "first", 5);
	assert_int_equal(t->data, 5);
	ctl_done(&t->daemon);
	settle(t);
	from_agent(t, PROTO_DATA, 0, 1, "second", 6);
	agent_number_of(t, PROTO_EXIT, 1, TAG_CODE, 0);
	t->data = 0;
	connect_daemon(t);
	/* Nothing was credited: all of it comes again. */
	from_daemon(t, PROTO_ATTACH, 0, 3, buf, n);
	assert_int_equal(t->data, 11);
	assert_int_equal(t->to_daemon.type, PROTO_EXIT);
}

/* Told of the end a moment before it died: whoever waited for it has not heard. */
static void test_a_daemon_that_dies_with_the_end_in_its_hands(void **state)
{
	struct stage *t = *state;
	uint8_t buf[64];
	size_t n = number(buf, TAG_PID, 5, false);

	start_process(t);
	from_agent(t, PROTO_DATA, 0, 1, "result", 6);
	agent_number_of(t, PROTO_EXIT, 1, TAG_CODE, 0);
	assert_int_equal(t->to_daemon.type, PROTO_EXIT);
	ctl_done(&t->daemon);
	settle(t);
	t->data = 0;
	connect_daemon(t);
	from_daemon(t, PROTO_ATTACH, 0, 3, buf, n);
	assert_int_equal(t->data, 6);
	assert_int_equal(t->to_daemon.type, PROTO_EXIT);
	/* Once more, to one that lives: then it is received. */
	t->data = 0;
	from_daemon(t, PROTO_ATTACH, 0, 4, buf, n);
	assert_int_equal(t->data, 0);
}

/* The box is down and the record written; a new daemon has connected in that moment. */
static void test_a_daemon_that_comes_at_the_very_end(void **state)
{
	struct stage *t = *state;

	link_hang_up(t->s);
	ctl_done(&t->daemon);
	t->s->box = NULL;
	t->to_daemon.type = 0;
	connect_daemon(t);
	settle(t);
	assert_int_equal(t->to_daemon.type, PROTO_STATUS);
}

static void test_a_daemon_that_does_not_read(void **state)
{
	struct stage *t = *state;
	static const uint8_t data[32 * 1024];
	unsigned i;

	ask(t, PROTO_DIAL, 0, 1);
	t->s->calls[1]->down.credit = FLOW_CREDIT_MAX;
	/* Without settle(): nobody takes anything out at the other end. */
	for (i = 0; i < 200; i++) {
		ctl_put(&t->agent, PROTO_DATA, 0, 1, data, sizeof(data), -1);
		ctl_flush(&t->agent);
		agent_receive(t->s);
		ctl_flush(&t->s->link);
	}
	assert_true(ctl_waiting(&t->s->link) < SUP_QUEUE_HIGH + 2 * sizeof(data));
	assert_true(ctl_waiting(&t->agent) > 0);
	assert_false(t->s->killed);
	/* And goes on when it reads. */
	for (i = 0; i < 200; i++)
		settle(t);
	assert_int_equal(t->data, 200 * sizeof(data));
}

static void test_a_request_in_the_middle_of_another(void **state)
{
	struct stage *t = *state;

	from_daemon(t, PROTO_START, START_MORE, 1, "", 0);
	from_daemon(t, PROTO_USAGE, 0, 1, NULL, 0);
	settle(t);
	/* Half a START and then something else: that is no daemon of ours. */
	assert_int_equal(t->s->link.fd, -1);
	assert_false(t->s->killed);
}

/* A paused agent reads nothing, and that does not end it. */
static void test_data_for_a_paused_sandbox(void **state)
{
	static const uint8_t data[FLOW_WINDOW];
	struct stage *t = *state;

	for (uint32_t i = 1; i <= 60; i++)
		ask(t, PROTO_DIAL, 0, i);
	t->s->state = SUP_PAUSED;
	for (uint32_t i = 1; i <= 60; i++) {
		ctl_put(&t->daemon, PROTO_DATA, 0, i, data, sizeof(data), -1);
		while (ctl_waiting(&t->daemon)) {
			ctl_flush(&t->daemon);
			link_receive(t->s);
		}
	}
	ctl_flush(&t->s->link);
	ctl_receive(&t->daemon, 8, hear_daemon, t);
	assert_false(t->s->killed);
	assert_true(t->s->link.fd >= 0);
	assert_int_equal(t->last_errno, EHOSTDOWN);
	assert_true(t->s->conn.out_len - t->s->conn.out_at < 2 * SUP_QUEUE_HIGH);
}

static void test_forgetting_exits(void **state)
{
	struct stage *t = *state;

	start_process(t);
	agent_number_of(t, PROTO_EXIT, 1, TAG_CODE, 0);
	assert_int_equal(t->s->exited, 1);
	proc_clock(t->s, clock_ns() + (SUP_EXIT_KEEP_MS - 1000) * 1000000ull);
	assert_int_equal(t->s->exited, 1);
	proc_clock(t->s, clock_ns() + (SUP_EXIT_KEEP_MS + 1000) * 1000000ull);
	assert_int_equal(t->s->exited, 0);
	/* One that nobody was told of is kept longer, but not for ever. */
	start_process(t);
	ctl_done(&t->daemon);
	settle(t);
	agent_number_of(t, PROTO_EXIT, 1, TAG_CODE, 0);
	proc_clock(t->s, clock_ns() + (SUP_EXIT_KEEP_MS + 1000) * 1000000ull);
	assert_int_equal(t->s->exited, 1);
	proc_clock(t->s, clock_ns() + (SUP_EXIT_DROP_MS + 1000) * 1000000ull);
	assert_int_equal(t->s->exited, 0);
}

/* The supervisor knows the tier; an agent that does not would pass what cannot be passed. */
static void test_files_that_stay_inside(void **state)
{
	struct stage *t = *state;

	t->box.files_stay = true;
	ask(t, PROTO_WRITE, FILE_PASS_FD, 1);
	assert_int_equal(t->last_errno, EOPNOTSUPP);
	assert_int_equal(t->to_agent.type, 0);
	ask(t, PROTO_READ, FILE_PASS_FD, 2);
	assert_int_equal(t->to_agent.type, PROTO_READ);
	assert_false(t->s->killed);
}

/* A tier that can: each file gets a letter, and the state the flags. */
static int fake_snapshot(struct box *box, const struct snap *into, unsigned flags,
	void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	char text[2] = { 's', (char)('0' + flags) };

	(void)box;
	meanwhile(arg);
	if (write(into->state, text, 2) != 2 || write(into->memory, "m", 1) != 1 ||
		write(into->disk, "d", 1) != 1)
		return err_set(e, errno, "a file of a snapshot");
	return 0;
}

static const struct tier_ops able = {
	.name = "able", .what = "snapshots", .kill = no_kill, .snapshot = fake_snapshot
};

static void ask_snapshot(struct stage *t, uint16_t flags, const int *fds, unsigned count)
{
	int copies[3];
	uint8_t buf[64];
	struct msg m;

	for (unsigned i = 0; i < count; i++)
		copies[i] = dup(fds[i]);
	msg_begin(&m, buf, sizeof(buf), PROTO_SNAPSHOT, flags, 1);
	t->last_errno = 0;
	t->to_daemon.type = 0;
	assert_int_equal(ctl_put_msg_fds(&t->daemon, &m, copies, count), 0);
	settle(t);
}

static void test_a_snapshot(void **state)
{
	struct stage *t = *state;
	const int fds[] = { memfd_create("s", 0), memfd_create("m", 0), memfd_create("d", 0) };
	char got[3] = { 0 };

	/* A tier that cannot says so, and nothing has changed. */
	ask_snapshot(t, 0, fds, 3);
	assert_int_equal(t->last_errno, EOPNOTSUPP);
	t->box.ops = &able;
	ask_snapshot(t, 0, fds, 3);
	assert_int_equal(t->to_daemon.type, PROTO_OK);
	assert_int_equal(t->s->state, SUP_RUNNING);
	assert_int_equal(pread(fds[0], got, 2, 0), 2);
	assert_string_equal(got, "s0");
	assert_int_equal(pread(fds[1], got, 3, 0), 1);
	assert_int_equal(got[0], 'm');
	assert_int_equal(pread(fds[2], got, 3, 0), 1);
	assert_int_equal(got[0], 'd');
	/* It stays as it is, and so does its time. */
	t->s->deadline_ns = clock_ns() + 60 * 1000000000ull;
	ask_snapshot(t, SNAP_STAY, fds, 3);
	assert_int_equal(t->to_daemon.type, PROTO_OK);
	assert_int_equal(t->s->state, SUP_PAUSED);
	assert_true(t->s->deadline_left_ms > 50000 && !t->s->deadline_ns);
	ask_snapshot(t, 0, fds, 3);
	assert_int_equal(t->to_daemon.type, PROTO_OK);
	assert_int_equal(t->s->state, SUP_PAUSED);
	/* Not yet running; and a daemon that sends too few files is hung up on. */
	t->s->state = SUP_STARTING;
	ask_snapshot(t, 0, fds, 3);
	assert_int_equal(t->last_errno, EAGAIN);
	t->s->state = SUP_RUNNING;
	ask_snapshot(t, 0, fds, 2);
	assert_int_equal(t->s->link.fd, -1);
	assert_false(t->s->killed);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

/* A copy asks for what its original had started, one by one; it is then like any other process. */
static void test_processes_of_the_original(void **state)
{
	static const char cmdline[] = "python3\0\033server.py";
	struct stage *t = *state;
	uint8_t buf[128];
	struct msg m;
	size_t n;

	proc_adopt(t->s);
	settle(t);
	assert_int_equal(t->to_agent.type, PROTO_ADOPT);
	msg_begin(&m, buf, sizeof(buf), PROTO_OPENED, 0, 1);
	msg_u32(&m, TAG_PID, 42);
	msg_bytes(&m, TAG_CMDLINE, cmdline, sizeof(cmdline));
	from_agent(t, PROTO_OPENED, OPENED_STDIN, 1, buf + FRAME_HEAD, m.len - FRAME_HEAD);
	assert_int_equal(t->to_agent.type, PROTO_ADOPT);
	assert_int_equal(t->to_agent.stream, 2);
	agent_number_of(t, PROTO_ERROR, 2, TAG_ERRNO, ESRCH);
	assert_false(t->s->killed);
	assert_int_equal(t->s->running, 1);
	assert_int_equal(t->s->procs->pid, 42);
	assert_true(t->s->procs->stdin_open && !t->s->procs->pty);
	assert_non_null(memmem(t->s->procs->config, t->s->procs->config_len, "?server.py", 11));
	ask(t, PROTO_STARTED, 0, 3);
	assert_int_equal(t->to_daemon.type, PROTO_OK);
	n = number(buf, TAG_PID, 42, false);
	from_daemon(t, PROTO_ATTACH, 0, 4, buf, n);
	assert_int_equal(t->to_daemon.type, PROTO_OPENED);
	from_agent(t, PROTO_DATA, 0, 1, "hi", 2);
	assert_int_equal(t->data, 2);
	agent_number_of(t, PROTO_EXIT, 1, TAG_CODE, 0);
	assert_int_equal(t->to_daemon.type, PROTO_EXIT);
}

/* A tier that takes its time; what the daemon says meanwhile. */
static struct stage *slow;
static bool stops;

static void say(uint16_t type, uint32_t stream)
{
	uint8_t buf[64];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), type, 0, stream);
	if (type == PROTO_START)
		msg_text(&m, TAG_ARG, "sh");
	assert_int_equal(ctl_put_msg(&slow->daemon, &m), 0);
}

static int slow_snapshot(struct box *box, const struct snap *into, unsigned flags,
	void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	(void)box;
	(void)into;
	(void)flags;
	slow->finals = 0;
	say(PROTO_START, 2);
	say(PROTO_STARTED, 3);
	say(PROTO_USAGE, 4);
	say(PROTO_CANCEL, 2);
	if (stops)
		say(PROTO_STOP, 5);
	ctl_flush(&slow->daemon);
	meanwhile(arg);
	ctl_receive(&slow->daemon, 8, hear_daemon, slow);
	ctl_receive(&slow->agent, 8, hear_agent, slow);
	/* Answered: the list, the usage, and a stop; for the agent nothing. */
	assert_int_equal(slow->finals, stops ? 3 : 2);
	assert_int_equal(slow->to_agent.type, 0);
	assert_int_equal(slow->s->killed, stops);
	return stops ? err_say(e, ESRCH, "it is over") : 0;
}

static const struct tier_ops slowly = {
	.name = "slowly", .what = "snapshots", .kill = no_kill, .snapshot = slow_snapshot
};

static void test_meanwhile(void **state)
{
	struct stage *t = *state;
	const int fds[] = { memfd_create("s", 0), memfd_create("m", 0), memfd_create("d", 0) };

	slow = t;
	t->box.ops = &slowly;
	stops = false;
	ask_snapshot(t, 0, fds, 3);
	/* The snapshot itself, and the START that was taken back while it waited. */
	assert_int_equal(t->finals, 4);
	assert_int_equal(t->to_agent.type, PROTO_START);
	assert_null(t->s->calls[2]);
	assert_int_equal(t->s->running, 1); /* a process belongs to the sandbox */
	assert_false(t->s->still.asked || t->s->still.first || t->s->still.bytes);
	/* Killed in the middle: the rest of what was said is nobody's. */
	t->to_agent.type = 0;
	stops = true;
	ask_snapshot(t, 0, fds, 3);
	assert_int_equal(t->last_errno, ESRCH);
	assert_int_equal(t->to_agent.type, 0);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lies_of_an_agent),
		TEST(test_calls_of_a_lost_daemon),
		TEST(test_output_waits_for_the_next_daemon),
		TEST(test_a_daemon_that_dies_with_the_end_in_its_hands),
		TEST(test_a_daemon_that_comes_at_the_very_end),
		TEST(test_a_daemon_that_does_not_read),
		TEST(test_a_request_in_the_middle_of_another),
		TEST(test_data_for_a_paused_sandbox),
		TEST(test_forgetting_exits),
		TEST(test_files_that_stay_inside),
		TEST(test_a_snapshot),
		TEST(test_meanwhile),
		TEST(test_processes_of_the_original),
	};

	return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}
