/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/standby_test.c - the first command finds a process that waits, and is like any other.
 *
 * An agent that is not PID 1 has none waiting; the same must hold for it.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "agent/procfs.h"
#include "agent/rig.h"
#include "base/ckd.h"

static struct rig rig;
static struct said said, other;

/* The only child of the agent, as we see it; 0: none. */
static pid_t child_of_agent(void)
{
	struct procfs_stat st;
	struct procfs p;
	pid_t pid, found = 0;

	assert_int_equal(procfs_open(&p), 0);
	while ((pid = procfs_next(&p)) > 0)
		if (procfs_stat(&p, pid, &st) == 0 && st.ppid == rig.pid && st.state != 'Z')
			found = pid;
	procfs_close(&p);
	return found;
}

/* An agent of which more than a command was asked for: it reads on only when one waits. */
static void start_with_one(void)
{
	struct proto_event ev;

	rig_start(&rig);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(proto_send_hello(&rig.c, NULL), 0);
		rig_expect(&rig, &ev, PROTO_HELLO, 0);
	}
	assert_int_equal(child_of_agent() > 0, rig_as_init);
}

/* Whatever a command can see of itself is what it would be without. */
static void like_any_other(void **state)
{
	static const char script[] =
		"grep -vE 'ctxt|^Vm|^Rss|^Hugetlb|^SigQ' /proc/self/status; pwd; umask;"
		"env | sort; ulimit -a; readlink /proc/$$/exe; tr '\\0' ' ' < /proc/$$/cmdline;"
		"ls -l /proc/self/fd | sed 's/.* [0-9:]* //; s/[0-9]*\\]$//';"
		"set -- $(cat /proc/$$/stat); echo $4 $5 $6 $7 $8 ${18} ${19}; cat; kill -TERM $$";
	struct proto_start s = { .stream = 1,
		.flags = START_NULL_STDIN | START_HOME,
		.argv = ARGV("sh", "-c", script),
		.env = ARGV("PATH=/usr/bin:/bin", "A=b c"),
		.user = geteuid() ? NULL : "daemon" };

	(void)state;
	if (!s.user)
		s.flags = START_NULL_STDIN;
	rig_start(&rig);
	assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
	rig_collect(&rig, 1, &other);
	assert_int_equal(rig_end(&rig), 0);
	start_with_one();
	assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
	rig_collect(&rig, 1, &said);
	if (rig_as_init)
		assert_string_equal(said.out, other.out);
	assert_string_equal(said.err, other.err);
	if (rig_as_init)
		assert_int_equal(said.pid, other.pid);
	assert_true(said.exit.signaled && said.exit.code == SIGTERM);
	assert_true(said.out_end && said.err_end && said.out_len > 100);
	/* One only, and it was the first command. */
	assert_int_equal(child_of_agent(), 0);
	rig_shell(&rig, "echo two; echo x >&2", &said);
	assert_string_equal(said.out, "two\n");
	assert_string_equal(said.err, "x\n");
	assert_int_equal(rig_end(&rig), 0);
}

/* A first command that cannot be: the same answer as ever, and the next one runs. */
static void that_cannot_be(void **state)
{
	static const struct {
		const char *name, *argv0, *cwd, *user;
		enum start_step step;
		int code;
	} cases[] = {
		{ "no program", "/no/such/thing", NULL, NULL, START_STEP_EXEC, ENOENT },
		{ "not in PATH", "no-such-thing", NULL, NULL, START_STEP_EXEC, ENOENT },
		{ "a directory", "/usr", NULL, NULL, START_STEP_EXEC, EACCES },
		{ "no directory", "true", "/no/such/thing", NULL, START_STEP_CWD, ENOENT },
		{ "a file to be in", "true", "/etc/passwd", NULL, START_STEP_CWD, ENOTDIR },
		{ "nobody", "true", NULL, "no-such-user", START_STEP_USER, ENOENT },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proto_start s = { .stream = 1,
			.flags = START_NULL_STDIN,
			.argv = ARGV(cases[i].argv0),
			.env = ARGV("PATH=/usr/bin:/bin"),
			.cwd = cases[i].cwd,
			.user = cases[i].user };

		start_with_one();
		assert_int_equal(proto_send_start(&rig.c, &s, NULL, 0, NULL), 0);
		rig_collect(&rig, 1, &said);
		if (!said.failed || said.failure.step != cases[i].step ||
			said.failure.code != cases[i].code)
			fail_msg("%s: %d, step %d, %s", cases[i].name, said.failure.code,
				said.failure.step, said.failure.text);
		rig_shell(&rig, "echo on", &said);
		assert_string_equal(said.out, "on\n");
		assert_int_equal(child_of_agent(), 0);
		assert_int_equal(rig_end(&rig), 0);
	}
}

/* What it does not fit goes on without it, and it goes away. */
static void not_for_it(void **state)
{
	static const uint16_t flags[] = { 0, START_PTY };
	struct proto_event ev;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		start_with_one();
		rig_run(&rig, 1, flags[i], ARGV("sh", "-c", "echo ready; read x; echo got $x"));
		rig_expect(&rig, &ev, PROTO_OPENED, 1);
		rig_until(&rig, 1, "ready");
		rig_type(&rig, 1, "it\n");
		rig_until(&rig, 1, "got it");
		rig_collect(&rig, 1, &said);
		assert_int_equal(said.exit.code, 0);
		assert_int_equal(child_of_agent(), 0);
		assert_int_equal(rig_end(&rig), 0);
	}
}

/* Killed by somebody, before there is a command. */
static void killed_meanwhile(void **state)
{
	struct proto_event ev;
	pid_t pid;

	(void)state;
	start_with_one();
	pid = child_of_agent();
	if (pid)
		assert_int_equal(kill(pid, SIGKILL), 0);
	while (child_of_agent())
		usleep(1000);
	assert_int_equal(proto_send_hello(&rig.c, NULL), 0);
	rig_expect(&rig, &ev, PROTO_HELLO, 0);
	rig_shell(&rig, "echo on", &said);
	assert_string_equal(said.out, "on\n");
	assert_int_equal(rig_end(&rig), 0);
}

/* Nobody sees it in a list, and nobody waits for it at the end. */
static void nobody(void **state)
{
	unsigned seen = 0;
	struct proto_event ev;

	(void)state;
	start_with_one();
	assert_int_equal(proto_send_request(&rig.c,
				 &(struct proto_request){ .type = PROTO_PROCS, .stream = 9 }, NULL),
		0);
	for (rig_next(&rig, &ev); ev.type == PROTO_ENTRY; rig_next(&rig, &ev))
		seen++;
	assert_int_equal(ev.type, PROTO_OK);
	assert_int_equal(seen, 1);
	assert_int_equal(proto_send_shutdown(&rig.c, 3600 * 1000, NULL), 0);
	rig_expect_closed(&rig);
	assert_int_equal(rig_end(&rig), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(like_any_other),
		cmocka_unit_test(that_cannot_be),
		cmocka_unit_test(not_for_it),
		cmocka_unit_test(killed_meanwhile),
		cmocka_unit_test(nobody),
	};

	return rig_main("standby", tests, ARRAY_LEN(tests));
}
