/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/life_test.c - how things end, what runs out, and clients that break the rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "agent/rig.h"
#include "base/ckd.h"
#include "base/str.h"
#include "proto/msg.h"

static struct rig rig;
static struct said said;

static void last_that_fails_ends_the_agent(void **state)
{
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	rig_run(&rig, 1, START_LAST, ARGV("no-such-program"));
	rig_expect(&rig, &ev, PROTO_START_FAILED, 1);
	assert_int_equal(proto_failed_status(&ev.failed), 127);
	rig_expect_closed(&rig);
	assert_int_equal(rig_end(&rig), 0);
}

static void wait_gone(pid_t pid)
{
	if (rig_as_init)
		return; /* a number of another namespace; that went with its PID 1 */
	for (unsigned i = 0; i < 1000 && kill(pid, 0) == 0; i++)
		usleep(1000);
	assert_int_equal(kill(pid, 0), -1);
}

static void grandchild_with_the_pipe(void **state)
{
	pid_t sleeper;

	(void)state;
	rig_start(&rig);
	rig_shell(&rig, "sleep 1000 & echo $!", &said);
	assert_int_equal(said.exit.code, 0);
	assert_true(said.out_end && said.err_end);
	sleeper = (pid_t)strtol(said.out, NULL, 10);
	assert_true(sleeper > 0);
	/* It lives on, until the channel closes. */
	rig_shell(&rig, "ps -o comm= -p $PPID >/dev/null; pgrep -x sleep >/dev/null && echo lives",
		&said);
	assert_string_equal(said.out, "lives\n");
	assert_int_equal(rig_end(&rig), 0);
	wait_gone(sleeper);
}

/* With DRAIN the grandchild's words belong to the command, until there are none, or somebody kills.
 */
static void grandchild_is_waited_for(void **state)
{
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	rig_run(&rig, 1, START_DRAIN | START_NULL_STDIN,
		ARGV("sh", "-c", "(sleep 0.5; echo late) & echo soon; exit 3"));
	rig_collect(&rig, 1, &said);
	assert_string_equal(said.out, "soon\nlate\n");
	assert_int_equal(said.exit.code, 3);
	rig_run(&rig, 2, START_DRAIN | START_NULL_STDIN,
		ARGV("sh", "-c", "sleep 1000 & echo soon"));
	rig_expect(&rig, &ev, PROTO_OPENED, 2);
	do
		rig_next(&rig, &ev);
	while (ev.type != PROTO_DATA);
	assert_true(rig_quiet(&rig, AGENT_EXIT_GRACE_MS * 3));
	assert_int_equal(proto_send_signal(&rig.c, 2, SIGKILL, false, NULL), 0);
	rig_collect(&rig, 2, &said);
	assert_int_equal(said.exit.code, 0);
	assert_false(said.exit.signaled);
	rig_run(&rig, 3, START_DRAIN | START_PTY, ARGV("true"));
	rig_expect(&rig, &ev, PROTO_ERROR, 3);
	assert_int_equal(rig_end(&rig), 0);
}

/* The grace is for what the grandchild may still write, never for what the command has written. */
static void slow_client_loses_nothing(void **state)
{
	const struct proto_start s = { .stream = 5,
		.window = 1000,
		.env = ARGV("PATH=/usr/bin:/bin"),
		.argv = ARGV("sh", "-c", "head -c 50000 /dev/zero; sleep 1000 &") };
	struct proto_event ev;
	size_t total = 0;

	(void)state;
	rig_start(&rig);
	assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OPENED, 5);
	usleep(AGENT_EXIT_GRACE_MS * 3000);
	for (;;) {
		rig_next(&rig, &ev);
		if (ev.type == PROTO_EXIT)
			break;
		if (ev.type != PROTO_DATA)
			continue;
		total += ev.data_len;
		assert_int_equal(proto_send_credit(&rig.c, 5, false, ev.data_len, NULL), 0);
	}
	assert_int_equal(total, 50000);
	assert_int_equal(rig_end(&rig), 0);
}

static void closed_channel_kills_all(void **state)
{
	struct proto_event ev;
	pid_t sleeper, leader;
	char line[64], *end;

	(void)state;
	rig_start(&rig);
	/* Another session, deaf to everything but SIGKILL, and a parent that waits. */
	rig_run(&rig, 1, 0,
		ARGV("sh", "-c",
			"setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & echo $! $$; wait' & wait"));
	rig_expect(&rig, &ev, PROTO_OPENED, 1);
	rig_expect(&rig, &ev, PROTO_DATA, 1);
	assert_true(ev.data_len < sizeof(line));
	memcpy(line, ev.data, ev.data_len);
	line[ev.data_len] = '\0';
	sleeper = (pid_t)strtol(line, &end, 10);
	leader = (pid_t)strtol(end, NULL, 10);
	assert_true(sleeper > 0 && leader > 0);
	assert_int_equal(rig_end(&rig), 0);
	wait_gone(sleeper);
	wait_gone(leader);
}

/* The agent of a LAST command is gone with it, and so is whatever the command left behind. */
static void last_with_pipes(void **state)
{
	pid_t left;

	(void)state;
	rig_start(&rig);
	rig_run(&rig, 1, START_LAST,
		ARGV("sh", "-c", "sleep 1000 & echo $!; head -c 200000 /dev/zero; exit 9"));
	rig_collect(&rig, 1, &said);
	assert_int_equal(said.exit.code, 9);
	left = (pid_t)strtol(said.out, NULL, 10);
	assert_true(said.out_len > 200000);
	rig_expect_closed(&rig);
	assert_int_equal(rig_wait(&rig), 0);
	wait_gone(left);
	close(rig.fd);
}

static void many_at_once(void **state)
{
	enum { MANY = 200 };
	static char outs[MANY][32];
	static size_t lens[MANY];
	unsigned exits = 0;

	(void)state;
	memset(outs, 0, sizeof(outs));
	memset(lens, 0, sizeof(lens));
	rig_start(&rig);
	for (uint32_t i = 0; i < MANY; i++) {
		char script[64];

		assert_int_equal(str_fmt(script, sizeof(script), "read x; echo %u $x", i), 0);
		rig_run(&rig, i + 1, 0, ARGV("sh", "-c", script));
	}
	for (uint32_t i = 0; i < MANY; i++)
		rig_type(&rig, i + 1, "go\n");
	while (exits < MANY) {
		struct proto_event ev;

		rig_next(&rig, &ev);
		assert_true(ev.stream >= 1 && ev.stream <= MANY);
		if (ev.type == PROTO_START_FAILED || ev.type == PROTO_ERROR)
			fail_msg("%s", ev.failed.text);
		if (ev.type == PROTO_DATA) {
			assert_true(lens[ev.stream - 1] + ev.data_len < sizeof(outs[0]));
			memcpy(outs[ev.stream - 1] + lens[ev.stream - 1], ev.data, ev.data_len);
			lens[ev.stream - 1] += ev.data_len;
		}
		exits += ev.type == PROTO_EXIT;
	}
	for (uint32_t i = 0; i < MANY; i++) {
		char want[32];

		assert_int_equal(str_fmt(want, sizeof(want), "%u go\n", i), 0);
		assert_string_equal(outs[i], want);
	}
	assert_int_equal(rig_end(&rig), 0);
}

static void one_too_many(void **state)
{
	struct proto_event ev;
	unsigned opened = 0;

	(void)state;
	rig_start(&rig);
	for (uint32_t i = 0; i <= AGENT_PROCS_MAX; i++)
		rig_run(&rig, i + 1, START_NULL_STDIN, ARGV("sleep", "1000"));
	for (uint32_t i = 0; i <= AGENT_PROCS_MAX; i++) {
		rig_next(&rig, &ev);
		opened += ev.type == PROTO_OPENED;
	}
	assert_int_equal(opened, AGENT_PROCS_MAX);
	assert_int_equal(ev.type, PROTO_START_FAILED);
	assert_int_equal(ev.failed.code, EAGAIN);
	assert_int_equal(ev.failed.step, START_STEP_SETUP);
	/* The one whose number rig_shell() uses. */
	assert_int_equal(proto_send_signal(&rig.c, 77, SIGKILL, false, NULL), 0);
	rig_collect(&rig, 77, &said);
	rig_shell(&rig, "echo room", &said);
	assert_string_equal(said.out, "room\n");
	assert_int_equal(rig_end(&rig), 0);
}

/* Counts the zombies that PROCS shows. */
static unsigned zombies(void)
{
	struct proto_event ev;
	unsigned n = 0;

	assert_int_equal(proto_send_request(&rig.c,
				 &(struct proto_request){ .type = PROTO_PROCS, .stream = 9 }, NULL),
		0);
	for (;;) {
		rig_next(&rig, &ev);
		if (ev.type == PROTO_OK)
			return n;
		assert_int_equal(ev.type, PROTO_ENTRY);
		assert_true(ev.has_process);
		n += ev.process.state == 'Z';
	}
}

static void orphans_are_reaped(void **state)
{
	unsigned tries = 0;

	(void)state;
	rig_start(&rig);
	for (unsigned i = 0; i < 20; i++) {
		rig_shell(&rig, "(sleep 0.02 &) ; (true &)", &said);
		assert_int_equal(said.exit.code, 0);
	}
	while (zombies() && tries++ < 100)
		usleep(10000);
	assert_true(tries < 100);
	assert_int_equal(rig_end(&rig), 0);
}

/* One PROCS; true when the sleeper is there with its command line. */
static bool sleeper_listed(void)
{
	struct proto_event ev;
	bool agent = false, sleeper = false;

	assert_int_equal(proto_send_request(&rig.c,
				 &(struct proto_request){ .type = PROTO_PROCS, .stream = 9 }, NULL),
		0);
	for (;;) {
		rig_next(&rig, &ev);
		if (ev.type == PROTO_OK)
			break;
		assert_true(ev.has_process);
		agent |= ev.process.stream == 0;
		if (ev.process.stream != 3 || !str_eq(ev.process.name, "sleep") ||
			!ev.process.cmdline_len)
			continue; /* in the middle of exec */
		sleeper = true;
		assert_int_equal(ev.process.cmdline_len, 11);
		assert_memory_equal(ev.process.cmdline, "sleep\0001000", 11);
		assert_int_equal(ev.process.uid, geteuid());
	}
	assert_true(agent);
	return sleeper;
}

static void list_of_processes(void **state)
{
	struct proto_event ev;
	unsigned tries = 0;

	(void)state;
	rig_start(&rig);
	rig_run(&rig, 3, 0, ARGV("sleep", "1000"));
	rig_expect(&rig, &ev, PROTO_OPENED, 3);
	while (!sleeper_listed() && tries++ < 100)
		usleep(1000);
	assert_true(tries < 100);
	assert_int_equal(rig_end(&rig), 0);
}

static void shutdown_asks_then_kills(void **state)
{
	unsigned exits = 0, polite = 0;

	(void)state;
	rig_start(&rig);
	rig_run(&rig, 1, 0,
		ARGV("sh", "-c", "trap 'exit 12' TERM; echo on; while :; do sleep 0.05; done"));
	rig_until(&rig, 1, "on\n");
	rig_run(&rig, 2, 0,
		ARGV("sh", "-c", "trap '' TERM; echo on; while :; do sleep 0.05; done"));
	rig_until(&rig, 2, "on\n");
	assert_int_equal(proto_send_shutdown(&rig.c, 300, NULL), 0);
	while (exits < 2) {
		struct proto_event ev;

		rig_next(&rig, &ev);
		if (ev.type != PROTO_EXIT)
			continue;
		exits++;
		polite += ev.stream == 1 && ev.exit.code == 12;
		if (ev.stream == 2)
			assert_int_equal(ev.exit.code, SIGKILL);
	}
	assert_int_equal(polite, 1);
	rig_expect_closed(&rig);
	assert_int_equal(rig_wait(&rig), 0);
	close(rig.fd);
	/* With nothing to end, and no patience. */
	rig_start(&rig);
	assert_int_equal(proto_send_shutdown(&rig.c, 0, NULL), 0);
	rig_expect_closed(&rig);
	assert_int_equal(rig_end(&rig), 0);
}

/* Requests that make no sense get an ERROR, and the agent goes on. */
static void refused_requests(void **state)
{
	static const struct {
		const char *name;
		uint16_t type, flags;
		uint32_t stream;
		const char *data;
		size_t len;
		int code;
	} cases[] = {
		{ "no such message", 999, 0, 4, "", 0, ENOSYS },
		{ "no such message, no stream", 999, 0, 0, "", 0, ENOSYS },
		{ "an agent's message", PROTO_EXIT, 0, 4, "", 0, ENOSYS },
		{ "unknown tag", PROTO_STAT, 0, 4, "\x20\0\2\0\0\0/\0\xff\0\0\0\0\0", 14,
			EOPNOTSUPP },
		{ "tag that does not belong", PROTO_STAT, 0, 4, "\x21\0\2\0\0\0/\0", 8,
			EOPNOTSUPP },
		{ "field missing", PROTO_STAT, 0, 4, "", 0, EINVAL },
		{ "unknown flag", PROTO_STAT, 0x8000, 4, "\x20\0\2\0\0\0/\0", 8, EOPNOTSUPP },
		{ "start of nothing", PROTO_START, 0, 4, "", 0, EINVAL },
		{ "start with unknown tag", PROTO_START, 0, 4, "\xff\0\0\0\0\0", 6, EOPNOTSUPP },
		{ "start with unknown flag", PROTO_START, 0x4000, 4, "\x0a\0\2\0\0\0x\0", 8,
			EOPNOTSUPP },
		{ "start without descriptors", PROTO_START, START_STDIO_FDS, 4, "\x0a\0\2\0\0\0x\0",
			8, EINVAL },
		{ "terminal and no stdin", PROTO_START, START_PTY | START_NULL_STDIN, 4,
			"\x0a\0\2\0\0\0x\0", 8, EINVAL },
		{ "window 0", PROTO_START, 0, 4, "\x0a\0\2\0\0\0x\0\4\0\4\0\0\0\0\0\0\0", 18,
			EINVAL },
		{ "version 0", PROTO_HELLO, 0, 0, "\1\0\4\0\0\0\0\0\0\0", 10, EINVAL },
	};

	(void)state;
	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t frame[64];
		struct proto_event ev;

		frame_put_head(frame, (uint32_t)cases[i].len, cases[i].type, cases[i].flags,
			cases[i].stream);
		memcpy(frame + FRAME_HEAD, cases[i].data, cases[i].len);
		assert_int_equal(
			write(rig.fd, frame, FRAME_HEAD + cases[i].len), FRAME_HEAD + cases[i].len);
		rig_expect(&rig, &ev, PROTO_ERROR, cases[i].stream);
		if (ev.failed.code != cases[i].code)
			fail_msg("%s: errno %d: %s", cases[i].name, ev.failed.code, ev.failed.text);
		assert_false(ev.failed.soft);
	}
	rig_shell(&rig, "echo well", &said);
	assert_string_equal(said.out, "well\n");
	assert_int_equal(rig_end(&rig), 0);
}

/* What no correct client sends ends the channel, and all processes with it. */
static void broken_clients(void **state)
{
	static const struct {
		const char *name;
		uint32_t claim; /* the length that the head claims */
		uint16_t type, flags;
		uint32_t stream;
		const char *data;
		size_t len;
	} cases[] = {
		{ "frame too long", FRAME_PAYLOAD_MAX + 1, PROTO_START, 0, 4, "", 0 },
		{ "frame much too long", UINT32_MAX, PROTO_START, 0, 4, "", 0 },
		{ "half a field", 3, PROTO_STAT, 0, 4, "\x20\0\2", 3 },
		{ "text without NUL", 8, PROTO_STAT, 0, 4, "\x20\0\2\0\0\0//", 8 },
		{ "half a START", 3, PROTO_START, 0, 4, "\x0a\0\2", 3 },
		{ "stream 0", 8, PROTO_STAT, 0, 0, "\x20\0\2\0\0\0/\0", 8 },
		{ "START on stream 0", 8, PROTO_START, 0, 0, "\x0a\0\2\0\0\0x\0", 8 },
		{ "stream in use", 8, PROTO_STAT, 0, 3, "\x20\0\2\0\0\0/\0", 8 },
		{ "START in use", 8, PROTO_START, 0, 3, "\x0a\0\2\0\0\0x\0", 8 },
		{ "HELLO on a stream", 10, PROTO_HELLO, 0, 4, "\1\0\4\0\0\0\1\0\0\0", 10 },
		{ "data of nothing", 0, PROTO_DATA, 0, 3, "", 0 },
		{ "data of stderr", 1, PROTO_DATA, DATA_ERR, 3, "x", 1 },
		{ "data on stream 0", 1, PROTO_DATA, 0, 0, "x", 1 },
		{ "too much credit", 14, PROTO_CREDIT, 0, 3, "\5\0\x8\0\0\0\0\0\0\0\1\0\0\0", 14 },
		{ "parts with strange flags", 0, PROTO_START, 0x4000 | START_MORE, 4, "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t frame[64];
		struct proto_event ev;

		rig_start(&rig);
		rig_run(&rig, 3, 0, ARGV("sleep", "1000"));
		rig_expect(&rig, &ev, PROTO_OPENED, 3);
		frame_put_head(
			frame, cases[i].claim, cases[i].type, cases[i].flags, cases[i].stream);
		memcpy(frame + FRAME_HEAD, cases[i].data, cases[i].len);
		assert_int_equal(
			write(rig.fd, frame, FRAME_HEAD + cases[i].len), FRAME_HEAD + cases[i].len);
		if (rig_wait(&rig) != 1)
			fail_msg("%s was accepted", cases[i].name);
		wait_gone((pid_t)ev.pid);
		proto_conn_done(&rig.c);
		close(rig.fd);
	}
}

/* A START in parts: nothing may come between, and it has an end. */
static void broken_parts(void **state)
{
	static uint8_t part[FRAME_HEAD + FRAME_PAYLOAD_MAX];

	(void)state;
	rig_start(&rig);
	frame_put_head(part, 2, PROTO_START, START_MORE, 4);
	assert_int_equal(write(rig.fd, part, FRAME_HEAD + 2), FRAME_HEAD + 2);
	assert_int_equal(proto_send_hello(&rig.c, NULL), 0);
	assert_int_equal(rig_wait(&rig), 1);
	close(rig.fd);

	rig_start(&rig);
	frame_put_head(part, FRAME_PAYLOAD_MAX, PROTO_START, START_MORE, 4);
	for (unsigned i = 0; i <= START_BYTES_MAX / FRAME_PAYLOAD_MAX; i++)
		if (send(rig.fd, part, sizeof(part), MSG_NOSIGNAL) != sizeof(part))
			break; /* it has hung up already */
	assert_int_equal(rig_wait(&rig), 1);
	close(rig.fd);
}

static void limit(int what, rlim_t n)
{
	struct rlimit l = { 0 };

	assert_int_equal(prlimit(rig.pid, (__typeof__(RLIMIT_AS))what, NULL, &l), 0);
	l.rlim_cur = n == RLIM_INFINITY ? l.rlim_max : n;
	assert_int_equal(prlimit(rig.pid, (__typeof__(RLIMIT_AS))what, &l, NULL), 0);
}

/* How many the agent has open, as its child sees it; not before the agent is done with the start.
 */
static void count_descriptors(struct said *ret)
{
	struct proto_event ev;

	rig_run(&rig, 1, 0, ARGV("sh", "-c", "read x; ls /proc/$PPID/fd | wc -l"));
	rig_expect(&rig, &ev, PROTO_OPENED, 1);
	rig_type(&rig, 1, "go\n");
	rig_collect(&rig, 1, ret);
	assert_int_equal(ret->exit.code, 0);
}

/* No descriptors, no memory: the request fails, nothing else does. */
static void want(void **state)
{
	static struct said before;
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	/* Whoever asks for more than a command gets the next one's descriptors made ahead. */
	assert_int_equal(proto_send_hello(&rig.c, NULL), 0);
	rig_expect(&rig, &ev, PROTO_HELLO, 0);
	rig_shell(&rig, "true", &before); /* the first one takes more with it */
	count_descriptors(&before);
	for (rlim_t n = 4; n < 9; n++) {
		limit(RLIMIT_NOFILE, n);
		rig_run(&rig, 1, 0, ARGV("true"));
		rig_expect(&rig, &ev, PROTO_START_FAILED, 1);
		assert_int_equal(ev.failed.code, EMFILE);
		assert_int_equal(ev.failed.step, START_STEP_SETUP);
	}
	limit(RLIMIT_NOFILE, RLIM_INFINITY);
	limit(RLIMIT_AS, 1);
	rig_run(&rig, 1, 0, ARGV("true"));
	rig_expect(&rig, &ev, PROTO_START_FAILED, 1);
	assert_int_equal(ev.failed.code, ENOMEM);
	assert_int_equal(
		proto_send_request(&rig.c,
			&(struct proto_request){ .type = PROTO_LIST, .stream = 1, .path = "/" },
			NULL),
		0);
	rig_expect(&rig, &ev, PROTO_ERROR, 1);
	assert_int_equal(ev.failed.code, ENOMEM);
	limit(RLIMIT_AS, RLIM_INFINITY);
	/* Nothing of the failed ones is left open. */
	count_descriptors(&said);
	assert_string_equal(said.out, before.out);
	assert_int_equal(rig_end(&rig), 0);
}

/* PID 1 ends everything that it sees; no other process may act as if it were that. */
static void not_pid_1(void **state)
{
	int sv[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(agent_run(&(struct agent_config){ .channel = sv[1] }));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 1 << 8);
	close(sv[0]);
	close(sv[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(last_that_fails_ends_the_agent),
		cmocka_unit_test(grandchild_with_the_pipe),
		cmocka_unit_test(grandchild_is_waited_for),
		cmocka_unit_test(slow_client_loses_nothing),
		cmocka_unit_test(closed_channel_kills_all),
		cmocka_unit_test(last_with_pipes),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(one_too_many),
		cmocka_unit_test(orphans_are_reaped),
		cmocka_unit_test(list_of_processes),
		cmocka_unit_test(shutdown_asks_then_kills),
		cmocka_unit_test(refused_requests),
		cmocka_unit_test(broken_clients),
		cmocka_unit_test(broken_parts),
		cmocka_unit_test(want),
		cmocka_unit_test(not_pid_1),
	};

	return rig_main("life", tests, ARRAY_LEN(tests));
}
