/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/rig.c - an agent to test against.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "agent/rig.h"

enum { PATIENCE_MS = 60000 }; /* a command has to be read from a busy disk first */

bool rig_as_init;

static void be_agent(int fd)
{
	if (rig_as_init && (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
				   mount("proc", "/proc", "proc", 0, NULL) < 0))
		_exit(99);
	_exit(agent_run(&(struct agent_config){
		.channel = fd, .not_init = !rig_as_init, .standby = rig_as_init }));
}

void rig_start(struct rig *r)
{
	unsigned long flags = rig_as_init ? CLONE_NEWPID | CLONE_NEWNS : 0;
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	fflush(NULL);
	r->pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
	assert_true(r->pid >= 0);
	if (r->pid == 0) {
		close(sv[0]);
		be_agent(sv[1]);
	}
	close(sv[1]);
	r->fd = sv[0];
	proto_conn_init(&r->c, r->fd);
}

int rig_wait(struct rig *r)
{
	int status = 0;

	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

int rig_end(struct rig *r)
{
	proto_conn_done(&r->c);
	close(r->fd);
	return rig_wait(r);
}

static int receive(struct rig *r, struct proto_event *ev, int ms)
{
	for (;;) {
		struct pollfd p = { .fd = r->fd, .events = POLLIN };
		struct err e = { 0 };
		int n;

		if (proto_conn_wants_write(&r->c)) {
			proto_conn_flush(&r->c, NULL);
			p.events |= proto_conn_wants_write(&r->c) ? POLLOUT : 0;
		}
		n = proto_conn_receive(&r->c, ev, &e);
		if (n != 0)
			return n;
		n = poll(&p, 1, ms);
		if (n == 0)
			return 0;
	}
}

void rig_next(struct rig *r, struct proto_event *ev)
{
	int n = receive(r, ev, PATIENCE_MS);

	if (n <= 0)
		fail_msg("no message from the agent: %d", n);
}

void rig_expect(struct rig *r, struct proto_event *ev, enum proto_type type, uint32_t stream)
{
	rig_next(r, ev);
	if (ev->type != type || ev->stream != stream)
		fail_msg("message %d on %u instead of %d on %u: %d %s", ev->type, ev->stream, type,
			stream, ev->failed.code, ev->failed.text);
}

bool rig_quiet(struct rig *r, int ms)
{
	struct proto_event ev;

	return receive(r, &ev, ms) == 0;
}

void rig_expect_closed(struct rig *r)
{
	struct proto_event ev;
	int n;

	while ((n = receive(r, &ev, PATIENCE_MS)) > 0)
		;
	assert_int_equal(n, -ENOTCONN);
}

static const char *const test_env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };

void rig_run(struct rig *r, uint32_t stream, uint16_t flags, const char *const *argv)
{
	struct proto_start s = { .stream = stream, .flags = flags, .argv = argv, .env = test_env };

	assert_int_equal(proto_send_start(&r->c, &s, NULL, 0, NULL), 0);
}

static void collect_data(struct rig *r, const struct proto_event *ev, struct said *said)
{
	char *to = ev->of_stderr ? said->err : said->out;
	size_t *len = ev->of_stderr ? &said->err_len : &said->out_len;
	int n;

	for (uint32_t i = 0; i < ev->data_len; i++, (*len)++)
		if (*len < sizeof(said->out) - 1)
			to[*len] = (char)ev->data[i];
	/* The agent of a LAST command may be gone while what it said is still here. */
	n = proto_send_credit(&r->c, ev->stream, ev->of_stderr, ev->data_len, NULL);
	assert_true(n == 0 || n == -EPIPE);
}

void rig_collect(struct rig *r, uint32_t stream, struct said *said)
{
	struct proto_event ev;

	*said = (struct said){ 0 };
	for (;;) {
		rig_next(r, &ev);
		if (ev.stream != stream)
			fail_msg("message %d on stream %u", ev.type, ev.stream);
		switch (ev.type) {
		case PROTO_OPENED:
			said->opened = true;
			said->pid = ev.pid;
			break;
		case PROTO_DATA:
			collect_data(r, &ev, said);
			break;
		case PROTO_END:
			*(ev.of_stderr ? &said->err_end : &said->out_end) = true;
			break;
		case PROTO_CREDIT:
			break;
		case PROTO_EXIT:
			said->exit = ev.exit;
			return;
		case PROTO_START_FAILED:
			said->failed = true;
			said->failure = ev.failed;
			return;
		default:
			fail_msg("message %d: %d %s", ev.type, ev.failed.code, ev.failed.text);
		}
	}
}

void rig_shell(struct rig *r, const char *script, struct said *said)
{
	rig_run(r, 77, START_NULL_STDIN, ARGV("sh", "-c", script));
	rig_collect(r, 77, said);
}

void rig_until(struct rig *r, uint32_t stream, const char *want)
{
	static char seen[8192];
	size_t len = 0;
	struct proto_event ev;

	while (len == 0 || !strstr(seen, want)) {
		rig_next(r, &ev);
		if (ev.type == PROTO_EXIT)
			fail_msg("ended before '%s': '%s'", want, seen);
		if (ev.type != PROTO_DATA)
			continue;
		assert_int_equal(ev.stream, stream);
		assert_true(len + ev.data_len < sizeof(seen));
		memcpy(seen + len, ev.data, ev.data_len);
		len += ev.data_len;
		seen[len] = '\0';
	}
	seen[0] = '\0';
}

void rig_type(struct rig *r, uint32_t stream, const char *text)
{
	assert_int_equal(proto_send_data(&r->c, stream, text, strlen(text), NULL), 0);
}

int rig_main(const char *name, const struct CMUnitTest *tests, size_t count)
{
	int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);

	if (geteuid() != 0) {
		printf("%s: as PID 1: not run, needs root\n", name);
		return failed;
	}
	rig_as_init = true;
	return failed + _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}
