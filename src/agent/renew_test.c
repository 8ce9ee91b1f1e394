/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/renew_test.c - an agent that holds, goes on, and wakes up as a copy; its cgroup is a few
 * plain files.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "agent/rig.h"
#include "proto/keeper.h"

static struct rig rig;
static struct said said;

/* What the agent's host has for it, by the time that it calls. */
static int keeper_end = -1, channel_end = -1;

static int dial(unsigned port)
{
	int fd = port == KEEPER_PORT ? keeper_end : port == 0 ? channel_end : -1;

	return fd;
}

static int file_of(const char *text)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	return fd;
}

static char first_byte(int fd)
{
	char c = 0;

	return pread(fd, &c, 1, 0) == 1 ? c : 0;
}

static void pair(int ret[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret), 0);
}

struct bench {
	int keeper;               /* our end of the first connection */
	int next_keeper, channel; /* and of those that a copy makes */
	int freeze, inside, outside;
};

static struct bench start(const char *events)
{
	int channel[2], keeper[2], next[2], other[2];
	struct bench b;

	pair(channel);
	pair(keeper);
	pair(next);
	pair(other);
	b = (struct bench){ .keeper = keeper[0],
		.next_keeper = next[0],
		.channel = other[0],
		.freeze = file_of(""),
		.inside = file_of(""),
		.outside = file_of("") };
	rig.pid = fork();
	assert_true(rig.pid >= 0);
	if (rig.pid == 0) {
		struct keeper k = { .link = keeper[1],
			.inside = b.inside,
			.outside = b.outside,
			.freeze = b.freeze,
			.events = file_of(events),
			.room = -1,
			.dial = dial };

		close(channel[0]);
		close(keeper[0]);
		close(next[0]);
		close(other[0]);
		keeper_end = next[1];
		channel_end = other[1];
		_exit(agent_run(&(struct agent_config){
			.channel = channel[1], .not_init = true, .keeper = &k }));
	}
	close(channel[1]);
	close(keeper[1]);
	close(next[1]);
	close(other[1]);
	rig.fd = channel[0];
	proto_conn_init(&rig.c, rig.fd);
	return b;
}

static void done(struct bench *b)
{
	assert_int_equal(rig_end(&rig), 0);
	close(b->keeper);
	close(b->next_keeper);
	close(b->channel);
	close(b->freeze);
	close(b->inside);
	close(b->outside);
}

static void tell(int fd, enum keeper_op op, uint32_t number)
{
	struct keeper_ask ask = { .op = op, .number = number };

	/* As root it goes into this host's pool. */
	assert_int_equal(getrandom(ask.seed, sizeof(ask.seed), 0), (ssize_t)sizeof(ask.seed));
	assert_int_equal(send(fd, &ask, sizeof(ask), MSG_NOSIGNAL), (ssize_t)sizeof(ask));
}

static enum keeper_op answer(int fd, uint32_t number)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct keeper_answer a;

	assert_int_equal(poll(&p, 1, 20000), 1);
	assert_int_equal(recv(fd, &a, sizeof(a), MSG_WAITALL), (ssize_t)sizeof(a));
	assert_int_equal(a.number, number);
	return (enum keeper_op)a.op;
}

static void holds_and_goes_on(void **state)
{
	struct bench b = start("populated 1\nfrozen 1\n");

	(void)state;
	rig_shell(&rig, "echo before", &said);
	tell(b.keeper, KEEPER_GO, 7); /* to a question that nobody asked */
	tell(b.keeper, KEEPER_HOLD, 8);
	assert_int_equal(answer(b.keeper, 8), KEEPER_HELD);
	assert_int_equal(first_byte(b.freeze), '1');
	assert_int_equal(first_byte(b.outside), '0');
	/* It does nothing now, until it may. */
	proto_send_hello(&rig.c, NULL);
	assert_true(rig_quiet(&rig, 50));
	tell(b.keeper, KEEPER_GO, 8);
	{
		struct proto_event ev;

		rig_expect(&rig, &ev, PROTO_HELLO, 0);
	}
	assert_int_equal(first_byte(b.freeze), '0');
	assert_int_equal(first_byte(b.inside), 0);
	rig_shell(&rig, "echo after", &said); /* which it starts in the cgroup again */
	assert_string_equal(said.out, "after\n");
	assert_int_equal(first_byte(b.inside), '0');
	done(&b);
}

static void adopt(uint32_t stream)
{
	const struct proto_request q = { .type = PROTO_ADOPT, .stream = stream };

	assert_int_equal(proto_send_request(&rig.c, &q, NULL), 0);
}

/* The connections break while it holds: it is a copy, with another host. */
static void wakes_as_a_copy(void **state)
{
	struct bench b = start("populated 1\nfrozen 1\n");
	struct proto_event ev;
	pid_t old;

	(void)state;
	rig_run(&rig, 5, 0, ARGV("sh", "-c", "echo up; cat; while :; do echo more || exit; done"));
	rig_expect(&rig, &ev, PROTO_OPENED, 5);
	old = (pid_t)ev.pid;
	rig_until(&rig, 5, "up\n");
	tell(b.keeper, KEEPER_HOLD, 1);
	assert_int_equal(answer(b.keeper, 1), KEEPER_HELD);
	assert_int_equal(shutdown(b.keeper, SHUT_RDWR), 0);
	assert_true(rig_quiet(&rig, 20));
	assert_int_equal(first_byte(b.freeze), '1'); /* nobody runs before it knows who it is */
	tell(b.next_keeper, KEEPER_RENEW, 0);
	proto_conn_done(&rig.c);
	close(rig.fd);
	rig.fd = dup(b.channel);
	proto_conn_init(&rig.c, rig.fd);
	/* A new client, whose numbers are its own; the old one's process is still there. */
	rig_run(&rig, 5, START_NULL_STDIN, ARGV("sh", "-c", "echo new"));
	rig_collect(&rig, 5, &said);
	assert_string_equal(said.out, "new\n");
	assert_int_equal(first_byte(b.freeze), '0');
	assert_int_equal(kill(old, 0), 0);
	/* Whoever wants it can have it: its pipes were not touched. */
	adopt(9);
	rig_expect(&rig, &ev, PROTO_OPENED, 9);
	assert_int_equal(ev.pid, old);
	assert_int_equal(ev.flags, OPENED_STDIN);
	assert_string_equal(ev.process.cmdline, "sh");
	rig_type(&rig, 9, "typed\n");
	rig_until(&rig, 9, "typed\n");
	adopt(10);
	rig_expect(&rig, &ev, PROTO_ERROR, 10);
	assert_int_equal(ev.failed.code, ESRCH);
	assert_int_equal(proto_send_signal(&rig.c, 9, SIGKILL, true, NULL), 0);
	rig_collect(&rig, 9, &said);
	assert_true(said.exit.signaled);
	/* And it can hold again, on its new connection. */
	tell(b.next_keeper, KEEPER_HOLD, 2);
	assert_int_equal(answer(b.next_keeper, 2), KEEPER_HELD);
	tell(b.next_keeper, KEEPER_GO, 2);
	rig_shell(&rig, "echo last", &said);
	assert_string_equal(said.out, "last\n");
	close(b.channel);
	b.channel = -1;
	done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holds_and_goes_on),
		cmocka_unit_test(wakes_as_a_copy),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
