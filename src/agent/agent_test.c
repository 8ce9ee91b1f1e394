/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/agent_test.c - processes: start, users, streams, signals, terminals.
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

static void hello(void **state)
{
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	proto_send_hello(&rig.c, NULL);
	rig_expect(&rig, &ev, PROTO_HELLO, 0);
	assert_int_equal(ev.version, PROTO_VERSION);
	assert_int_equal(rig_end(&rig), 0);
}

/* What the hot path is: descriptors along, the last one, nothing relayed. */
static void last_with_descriptors(void **state)
{
	const struct proto_start s = { .stream = 1,
		.flags = START_STDIO_FDS | START_LAST,
		.argv = ARGV("sh", "-c", "read x; echo got $x; echo oops >&2; exit 7"),
		.env = ARGV("PATH=/bin") };
	int in[2], out[2], err[2];
	struct proto_event ev;
	char buf[64] = "";

	(void)state;
	rig_start(&rig);
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
	assert_int_equal(
		proto_send_start(&rig.c, &s, (int[]){ in[0], out[1], err[1] }, 3, NULL), 0);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	assert_int_equal(write(in[1], "it\n", 3), 3);
	rig_expect(&rig, &ev, PROTO_EXIT, 1);
	assert_false(ev.exit.signaled);
	assert_int_equal(ev.exit.code, 7);
	assert_true(ev.exit.peak_kb > 0);
	assert_int_equal(rig_wait(&rig), 0); /* without the channel being closed */
	assert_int_equal(read(out[0], buf, sizeof(buf)), 7);
	assert_memory_equal(buf, "got it\n", 7);
	assert_int_equal(read(out[0], buf, sizeof(buf)), 0);
	assert_int_equal(read(err[0], buf, sizeof(buf)), 5);
	rig_expect_closed(&rig);
	close(rig.fd);
	close(in[1]);
	close(out[0]);
	close(err[0]);
}

/* Two in one go, each with its own three: they must not be mixed up. */
static void descriptors_stay_with_their_start(void **state)
{
	int out[2][2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct proto_event ev;
	char buf[64];

	(void)state;
	rig_start(&rig);
	for (uint32_t i = 0; i < 2; i++) {
		const struct proto_start s = { .stream = i + 1,
			.flags = START_STDIO_FDS,
			.argv = ARGV("/bin/sh", "-c",
				i ? "echo two; ls /proc/self/fd | wc -l" : "echo one"),
			.env = ARGV("PATH=/bin:/usr/bin") };

		assert_int_equal(pipe2(out[i], O_CLOEXEC), 0);
		assert_int_equal(
			proto_send_start(&rig.c, &s, (int[]){ null, out[i][1], null }, 3, NULL), 0);
		close(out[i][1]);
	}
	for (unsigned exits = 0; exits < 2;) {
		rig_next(&rig, &ev);
		exits += ev.type == PROTO_EXIT;
	}
	assert_int_equal(read(out[0][0], buf, sizeof(buf)), 4);
	assert_memory_equal(buf, "one\n", 4);
	/* 0, 1, 2 and the one that ls has open: nothing of the agent's. */
	assert_int_equal(read(out[1][0], buf, sizeof(buf)), 6);
	assert_memory_equal(buf, "two\n4\n", 6);
	close(out[0][0]);
	close(out[1][0]);
	close(null);
	assert_int_equal(rig_end(&rig), 0);
}

static void ends_of_processes(void **state)
{
	static const struct {
		const char *script;
		bool signaled;
		int code;
		const char *out, *err;
	} cases[] = {
		{ "true", false, 0, "", "" },
		{ "exit 3", false, 3, "", "" },
		{ "exit 255", false, 255, "", "" },
		{ "echo out; echo err >&2", false, 0, "out\n", "err\n" },
		{ "printf no-newline", false, 0, "no-newline", "" },
		{ "kill -9 $$", true, SIGKILL, "", "" },
		{ "kill -TERM $$", true, SIGTERM, "", "" },
		{ "exec >&- 2>&-; exit 4", false, 4, "", "" },
	};

	(void)state;
	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		rig_shell(&rig, cases[i].script, &said);
		assert_true(said.opened && said.pid > 0);
		assert_int_equal(said.exit.signaled, cases[i].signaled);
		assert_int_equal(said.exit.code, cases[i].code);
		assert_string_equal(said.out, cases[i].out);
		assert_string_equal(said.err, cases[i].err);
		assert_true(said.out_end && said.err_end);
	}
	assert_int_equal(rig_end(&rig), 0);
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void starts_that_fail(void **state)
{
	char dir[] = "/tmp/ward-agent-test-XXXXXX", path[64];
	const struct {
		const char *name, *argv0, *cwd, *user;
		enum start_step step;
		int code;
	} cases[] = {
		{ "not in PATH", "no-such-program", NULL, NULL, START_STEP_EXEC, ENOENT },
		{ "no such file", "/no/such/file", NULL, NULL, START_STEP_EXEC, ENOENT },
		{ "no name", "", NULL, NULL, START_STEP_EXEC, ENOENT },
		{ "not executable", "plain", NULL, NULL, START_STEP_EXEC, EACCES },
		{ "a directory", "/tmp", NULL, NULL, START_STEP_EXEC, EACCES },
		{ "through a file", "/dev/null/x", NULL, NULL, START_STEP_EXEC, ENOTDIR },
		{ "no interpreter", "orphan", NULL, NULL, START_STEP_EXEC, ENOENT },
		{ "no directory", "true", "/no/such", NULL, START_STEP_CWD, ENOENT },
		{ "a file as directory", "true", "/dev/null", NULL, START_STEP_CWD, ENOTDIR },
		{ "no user", "true", NULL, "no-such-user", START_STEP_USER, ENOENT },
		{ "no group", "true", NULL, "0:no-such-group", START_STEP_USER, ENOENT },
		{ "empty user", "true", NULL, "", START_STEP_USER, EINVAL },
		{ "user -1", "true", NULL, "4294967295", START_STEP_USER, ENOENT },
	};
	char env[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(str_fmt(env, sizeof(env), "PATH=/nowhere:%s:/usr/bin:/bin", dir), 0);
	assert_int_equal(str_fmt(path, sizeof(path), "%s/plain", dir), 0);
	put(path, "#!/bin/sh\n", 0644);
	assert_int_equal(str_fmt(path, sizeof(path), "%s/orphan", dir), 0);
	put(path, "#!/no/such/interpreter\n", 0755);
	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct proto_start s = { .stream = 5,
			.argv = ARGV(cases[i].argv0),
			.env = ARGV(env),
			.cwd = cases[i].cwd,
			.user = cases[i].user };

		assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
		rig_collect(&rig, 5, &said);
		if (!said.failed || said.failure.step != cases[i].step ||
			said.failure.code != cases[i].code)
			fail_msg("%s: step %d, errno %d: %s", cases[i].name, said.failure.step,
				said.failure.code, said.failure.text);
		assert_false(said.opened);
	}
	/* A script without a first line is the shell's, as with execvp. */
	assert_int_equal(str_fmt(path, sizeof(path), "%s/script", dir), 0);
	put(path, "echo $0 $1\n", 0755);
	rig_run(&rig, 5, 0, ARGV(path, "arg"));
	rig_collect(&rig, 5, &said);
	assert_int_equal(str_fmt(env, sizeof(env), "%s arg\n", path), 0);
	assert_string_equal(said.out, env);
	rig_shell(&rig, "exit 0", &said); /* and the agent is well */
	assert_int_equal(rig_end(&rig), 0);
	unlink(path);
	assert_int_equal(str_fmt(path, sizeof(path), "%s/plain", dir), 0);
	unlink(path);
	assert_int_equal(str_fmt(path, sizeof(path), "%s/orphan", dir), 0);
	unlink(path);
	assert_int_equal(rmdir(dir), 0);
}

static void surroundings(void **state)
{
	const struct proto_start s = { .stream = 5,
		.argv = ARGV("sh", "-c", "pwd; echo $A; echo $0 $1", "x", "y z"),
		.env = ARGV("A=b c", "PATH=/bin"),
		.cwd = "/usr" };
	void (*was)(int) = signal(SIGPIPE, SIG_IGN);

	(void)state;
	signal(SIGINT, SIG_IGN);
	rig_start(&rig);
	signal(SIGPIPE, was);
	signal(SIGINT, SIG_DFL);
	assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
	rig_collect(&rig, 5, &said);
	assert_string_equal(said.out, "/usr\nb c\nx y z\n");
	/* No signal is blocked or ignored, whatever the one who started ward had. */
	rig_run(&rig, 5, 0, ARGV("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"));
	rig_collect(&rig, 5, &said);
	assert_string_equal(said.out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
	/* Its own session and group, no descriptor but three. */
	rig_run(&rig, 5, 0, ARGV("ls", "/proc/self/fd"));
	rig_collect(&rig, 5, &said);
	assert_string_equal(said.out, "0\n1\n2\n3\n");
	rig_shell(&rig, "set -- $(cat /proc/self/stat); [ $5 = $$ ] && [ $6 = $$ ] && echo leader",
		&said);
	assert_string_equal(said.out, "leader\n");
	assert_int_equal(rig_end(&rig), 0);
}

static void users(void **state)
{
	static const struct {
		const char *user, *want;
	} cases[] = {
		{ "0", "0 0 0 /root root root\n" },
		{ "root", "0 0 0 /root root root\n" },
		{ "daemon", "1 1 1 /usr/sbin daemon daemon\n" },
		{ "daemon:bin", "1 2 2 /usr/sbin daemon daemon\n" },
		{ "12345", "12345 12345 12345 / \n" },
		{ "12345:54321", "12345 54321 54321 / \n" },
		{ "1:7", "1 7 7 /usr/sbin daemon daemon\n" },
	};

	(void)state;
	if (geteuid() != 0)
		skip(); /* nobody else can become somebody else */
	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct proto_start s = { .stream = 5,
			.user = cases[i].user,
			.env = ARGV("PATH=/usr/bin"),
			.argv = ARGV("sh", "-c",
				"echo $(id -u) $(id -g) $(id -G) $HOME \"$USER $LOGNAME\" | sed "
				"'s/  */ /g'") };

		assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
		rig_collect(&rig, 5, &said);
		assert_string_equal(said.out, cases[i].want);
	}
	/* What the caller has set stays. */
	assert_int_equal(
		proto_send_start(&rig.c,
			&(struct proto_start){ .stream = 5,
				.user = "daemon",
				.env = ARGV("HOME=/h", "USER=u", "LOGNAME=l"),
				.argv = ARGV("/bin/sh", "-c", "echo $HOME $USER $LOGNAME") },
			NULL, 0, NULL),
		0);
	rig_collect(&rig, 5, &said);
	assert_string_equal(said.out, "/h u l\n");
	/* No capability is left. */
	assert_int_equal(proto_send_start(&rig.c,
				 &(struct proto_start){ .stream = 5,
					 .user = "daemon",
					 .argv = ARGV("/bin/grep", "CapEff", "/proc/self/status") },
				 NULL, 0, NULL),
		0);
	rig_collect(&rig, 5, &said);
	assert_string_equal(said.out, "CapEff:\t0000000000000000\n");
	assert_int_equal(rig_end(&rig), 0);
}

/* 10 MB through a window of 8 KB, to a reader that dawdles; then nothing more than the window. */
static void much_output_and_little_window(void **state)
{
	const struct proto_start s = { .stream = 5,
		.argv = ARGV("head", "-c", "10485760", "/dev/zero"),
		.env = ARGV("PATH=/usr/bin"),
		.window = 8192 };
	struct flow flow;
	struct proto_event ev;
	uint64_t total = 0;

	(void)state;
	rig_start(&rig);
	assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OPENED, 5);
	flow_init(&flow, 8192);
	while (total < 8192) {
		rig_expect(&rig, &ev, PROTO_DATA, 5);
		assert_int_equal(flow_take(&flow, ev.data_len), 0);
		total += ev.data_len;
	}
	assert_true(rig_quiet(&rig, 100)); /* a client that gives no credit gets no more */
	proto_send_credit(&rig.c, 5, false, flow_give(&flow, 8192), NULL);
	for (unsigned n = 0;; n++) {
		rig_next(&rig, &ev);
		if (ev.type == PROTO_END)
			continue;
		if (ev.type == PROTO_EXIT)
			break;
		assert_int_equal(ev.type, PROTO_DATA);
		assert_int_equal(flow_take(&flow, ev.data_len), 0);
		total += ev.data_len;
		if (n % 512 == 0)
			usleep(2000);
		assert_int_equal(
			proto_send_credit(&rig.c, 5, false, flow_give(&flow, ev.data_len), NULL),
			0);
	}
	assert_int_equal(total, 10485760);
	assert_int_equal(ev.exit.code, 0);
	assert_int_equal(rig_end(&rig), 0);
}

/* Sends @total bytes as credit comes; output of the stream is returned in @said. */
static void feed(uint32_t stream, size_t total, struct said *to)
{
	static const uint8_t block[8192];
	struct proto_event ev;
	struct flow flow;
	size_t sent = 0;

	flow_init(&flow, FLOW_WINDOW);
	rig_expect(&rig, &ev, PROTO_OPENED, stream);
	while (sent < total) {
		uint32_t n =
			total - sent < sizeof(block) ? (uint32_t)(total - sent) : sizeof(block);

		if (n > flow.credit)
			n = flow.credit;
		if (!n) {
			rig_expect(&rig, &ev, PROTO_CREDIT, stream);
			assert_int_equal(flow_add(&flow, ev.bytes), 0);
			continue;
		}
		assert_int_equal(flow_take(&flow, n), 0);
		assert_int_equal(proto_send_data(&rig.c, stream, block, n, NULL), 0);
		sent += n;
	}
	assert_int_equal(proto_send_end(&rig.c, stream, NULL), 0);
	rig_collect(&rig, stream, to);
}

static void much_input(void **state)
{
	(void)state;
	rig_start(&rig);
	rig_run(&rig, 3, 0, ARGV("wc", "-c"));
	feed(3, 20 * 1000 * 1000, &said);
	assert_string_equal(said.out, "20000000\n");
	/* One that reads nothing and ends: the rest is taken and dropped. */
	rig_run(&rig, 3, 0, ARGV("sh", "-c", "exec <&-; sleep 0.05; exit 5"));
	feed(3, 100, &said);
	assert_int_equal(said.exit.code, 5);
	assert_int_equal(rig_end(&rig), 0);
}

static void stuck_reader_blocks_nobody(void **state)
{
	static const uint8_t block[FLOW_WINDOW];
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	rig_run(&rig, 3, 0, ARGV("sleep", "1000"));
	rig_expect(&rig, &ev, PROTO_OPENED, 3);
	/* The first window goes into the pipe, the second waits in the agent. */
	assert_int_equal(proto_send_data(&rig.c, 3, block, sizeof(block), NULL), 0);
	rig_expect(&rig, &ev, PROTO_CREDIT, 3);
	assert_int_equal(proto_send_data(&rig.c, 3, block, (size_t)ev.bytes, NULL), 0);
	rig_shell(&rig, "echo alive", &said);
	assert_string_equal(said.out, "alive\n");
	assert_int_equal(proto_send_signal(&rig.c, 3, SIGTERM, false, NULL), 0);
	rig_collect(&rig, 3, &said);
	assert_int_equal(said.exit.code, SIGTERM);
	/* More than was allowed: that is no client any more. */
	rig_run(&rig, 4, 0, ARGV("sleep", "1000"));
	assert_int_equal(proto_send_data(&rig.c, 4, block, sizeof(block), NULL), 0);
	assert_int_equal(proto_send_data(&rig.c, 4, block, sizeof(block), NULL), 0);
	assert_int_equal(proto_send_data(&rig.c, 4, block, sizeof(block), NULL), 0);
	rig_expect_closed(&rig);
	assert_int_equal(rig_end(&rig), 1);
}

static void terminal(void **state)
{
	const struct proto_start s = { .stream = 3,
		.flags = START_PTY,
		.argv = ARGV("/bin/sh"),
		.env = ARGV("PATH=/usr/bin:/bin", "PS1=$ "),
		.rows = 30,
		.cols = 99 };

	(void)state;
	rig_start(&rig);
	assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
	rig_until(&rig, 3, "$ ");
	rig_type(&rig, 3, "stty size\n");
	rig_until(&rig, 3, "30 99\r\n");
	assert_int_equal(proto_send_resize(&rig.c, 3, 50, 120, NULL), 0);
	rig_type(&rig, 3, "stty size\n");
	rig_until(&rig, 3, "50 120\r\n");
	rig_type(&rig, 3, "tty <&2 >/dev/null && echo $((6*7))\n");
	rig_until(&rig, 3, "42\r\n");
	assert_int_equal(proto_send_end(&rig.c, 3, NULL), 0); /* says nothing to a terminal */
	assert_int_equal(rig_end(&rig), 0);

	rig_start(&rig);
	assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
	rig_until(&rig, 3, "$ ");
	rig_type(&rig, 3, "\x04");
	rig_collect(&rig, 3, &said);
	assert_int_equal(said.exit.code, 0);
	assert_int_equal(rig_end(&rig), 0);
}

static void terminal_interrupts(void **state)
{
	(void)state;
	rig_start(&rig);
	rig_run(&rig, 3, START_PTY,
		ARGV("sh", "-c",
			"trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; "
			"done"));
	rig_until(&rig, 3, "ready\r\n");
	rig_type(&rig, 3, "\x03");
	rig_collect(&rig, 3, &said);
	assert_non_null(strstr(said.out, "^Ccaught\r\n"));
	assert_int_equal(said.exit.code, 3);
	/* And one that knows nothing of it dies of it. */
	rig_run(&rig, 3, START_PTY, ARGV("sh", "-c", "echo ready; exec sleep 1000"));
	rig_until(&rig, 3, "ready\r\n");
	rig_type(&rig, 3, "\x03");
	rig_collect(&rig, 3, &said);
	assert_true(said.exit.signaled);
	assert_int_equal(said.exit.code, SIGINT);
	assert_int_equal(rig_end(&rig), 0);
}

/* Not one byte that was written before the end is lost. */
static void terminal_is_drained(void **state)
{
	(void)state;
	rig_start(&rig);
	for (unsigned i = 0; i < 100; i++) {
		rig_run(&rig, 3, START_PTY,
			ARGV("sh", "-c", "printf 0123456789; printf abcdefghij >&2"));
		rig_collect(&rig, 3, &said);
		assert_string_equal(said.out, "0123456789abcdefghij");
		assert_true(said.out_end && !said.err_end);
	}
	rig_run(&rig, 3, START_PTY, ARGV("head", "-c", "300000", "/dev/zero"));
	rig_collect(&rig, 3, &said);
	assert_int_equal(said.out_len, 300000);
	rig_run(&rig, 3, 0, ARGV("true"));
	assert_int_equal(proto_send_resize(&rig.c, 3, 5, 5, NULL), 0);
	for (struct proto_event ev = { 0 }; ev.type != PROTO_EXIT;) {
		rig_next(&rig, &ev);
		if (ev.type == PROTO_ERROR) {
			assert_true(ev.failed.soft);
			assert_int_equal(ev.failed.code, ENOTTY);
		}
	}
	assert_int_equal(rig_end(&rig), 0);
}

static void signals(void **state)
{
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	rig_run(&rig, 3, 0,
		ARGV("sh", "-c",
			"exec 2>/dev/null; trap 'echo usr1' USR1; echo on; while :; do sleep 0.05; "
			"done"));
	rig_until(&rig, 3, "on\n");
	assert_int_equal(proto_send_signal(&rig.c, 3, SIGUSR1, true, NULL), 0);
	rig_until(&rig, 3, "usr1\n");
	assert_int_equal(proto_send_signal(&rig.c, 3, 65, true, NULL), 0);
	rig_expect(&rig, &ev, PROTO_ERROR, 3);
	assert_true(ev.failed.soft);
	assert_int_equal(proto_send_cancel(&rig.c, 3, NULL), 0);
	rig_expect(&rig, &ev, PROTO_ERROR, 3);
	assert_true(ev.failed.soft);
	assert_int_equal(proto_send_signal(&rig.c, 3, SIGKILL, true, NULL), 0);
	rig_collect(&rig, 3, &said);
	assert_true(said.exit.signaled);
	assert_int_equal(said.exit.code, SIGKILL);
	/* To a stream that has ended: dropped, since it may have crossed the end. */
	assert_int_equal(proto_send_signal(&rig.c, 3, SIGKILL, true, NULL), 0);
	rig_shell(&rig, "echo next", &said);
	assert_string_equal(said.out, "next\n");
	assert_int_equal(rig_end(&rig), 0);
}

static void long_start(void **state)
{
	static char big[100001];
	const char *const argv[] = { "sh", "-c", "echo $# ${#1} ${#9}", "x", big, big, big, big,
		big, big, big, big, big, NULL };

	(void)state;
	memset(big, 'q', sizeof(big) - 1);
	rig_start(&rig);
	rig_run(&rig, 1, START_NULL_STDIN, argv);
	rig_collect(&rig, 1, &said);
	assert_string_equal(said.out, "9 100000 100000\n");
	assert_int_equal(rig_end(&rig), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello),
		cmocka_unit_test(last_with_descriptors),
		cmocka_unit_test(descriptors_stay_with_their_start),
		cmocka_unit_test(ends_of_processes),
		cmocka_unit_test(starts_that_fail),
		cmocka_unit_test(surroundings),
		cmocka_unit_test(users),
		cmocka_unit_test(much_output_and_little_window),
		cmocka_unit_test(much_input),
		cmocka_unit_test(stuck_reader_blocks_nobody),
		cmocka_unit_test(terminal),
		cmocka_unit_test(terminal_interrupts),
		cmocka_unit_test(terminal_is_drained),
		cmocka_unit_test(signals),
		cmocka_unit_test(long_start),
	};

	return rig_main("agent", tests, ARRAY_LEN(tests));
}
