/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/claim.c - how long a daemon waits for a warm sandbox, without a daemon around it.
 *
 * Usage: claim WARD STATE_DIR COUNT. For each of COUNT sandboxes: a cold start (from the spawn to
 * "running"), then a claim (BIND and START to the moment when the command has been exec'd), then
 * the whole of `true` on the same one. Prints percentiles in microseconds, one line each.
 */
#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/parse.h"
#include "host/host.h"
#include "sup/link.h"

enum { COUNT_MAX = 2000, IDLE_MS = 5 };

struct one {
	struct link *link;
	pid_t pid;
	int pidfd;
	bool running, opened, done, over;
	uint64_t at_opened;
	int code;
};

static void on_state(void *arg, const struct link_status *s)
{
	((struct one *)arg)->running = s->state == SUP_RUNNING;
}

static void on_ended(void *arg, const struct link_end *end)
{
	(void)arg;
	if (strcmp(end->cause, "killed-by-operator") != 0)
		fprintf(stderr, "%s: %s\n", end->cause, end->detail);
}

static void on_closed(void *arg, const struct err *why)
{
	struct one *o = arg;

	(void)why;
	o->over = true;
	link_destroy(o->link);
}

static void on_opened(void *arg, struct link_call *c, const struct link_opened *opened)
{
	struct one *o = arg;

	(void)c;
	(void)opened;
	o->opened = true;
	o->at_opened = clock_ns();
}

static void on_done(void *arg, struct link_call *c, const struct link_done *d)
{
	struct one *o = arg;

	(void)c;
	o->done = true;
	o->code = d->exit.code;
}

static void on_failed(void *arg, struct link_call *c, const struct link_failed *f)
{
	(void)arg;
	(void)c;
	fprintf(stderr, "failed: %s (%s)\n", f->text, strerror(f->code));
	exit(1);
}

static const struct link_handler handler = {
	.opened = on_opened, .done = on_done, .failed = on_failed
};
static const struct link_handler quiet = { .failed = on_failed };

static void turn(struct one *o, const bool *until)
{
	while (!*until && !o->over) {
		struct pollfd p = { .fd = link_fd(o->link), .events = link_events(o->link) };

		if (poll(&p, 1, 10000) <= 0) {
			fprintf(stderr, "nothing happens\n");
			exit(1);
		}
		link_work(o->link, p.revents);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void show(const char *name, uint64_t *ns, uint64_t count)
{
	qsort(ns, count, sizeof(*ns), by_value);
	printf("%-22s min %5llu  p50 %5llu  p90 %5llu  p99 %5llu us\n", name,
		(unsigned long long)ns[0] / 1000, (unsigned long long)ns[count / 2] / 1000,
		(unsigned long long)ns[count * 9 / 10] / 1000,
		(unsigned long long)ns[count * 99 / 100] / 1000);
}

static void start(struct one *o, const char *const *argv)
{
	static const char *const env[] = { "SECRET=1", NULL };
	struct link_start s = { .flags = START_NULL_STDIN, .argv = argv, .env = env };
	struct err e = { 0 };

	o->opened = o->done = false;
	if (link_start(o->link, &s, &handler, o, NULL, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
}

/* What the same command costs without anything around it: to exec'd, to its end. */
static void plain(uint64_t ret[2])
{
	static char *const argv[] = { (char *)"/bin/true", NULL };
	static char *const env[] = { NULL };
	uint64_t t;
	pid_t pid;

	nanosleep(&(struct timespec){ .tv_nsec = IDLE_MS * 1000000 }, NULL);
	t = clock_ns();
	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, env) != 0)
		exit(1);
	ret[0] = clock_ns() - t;
	waitpid(pid, NULL, 0);
	ret[1] = clock_ns() - t;
}

static void measure(struct one *o, const char *ward, const char *state, uint64_t ret[4])
{
	static const char *const argv[] = { "/bin/true", NULL };
	static const char *const env[] = { "TOKEN=abc", "NAME=value", NULL };
	struct sup_request q = {
		.asked = WALL_CONTAINER, .asked_by = "bench", .accept_risk = "bench"
	};
	struct sup_spawn how = { .ward = ward, .state_dir = state, .log_fd = -1 };
	struct link_hooks hooks = {
		.state = on_state, .ended = on_ended, .closed = on_closed, .arg = o
	};
	struct link_bind bind = { .env = env, .deadline_ms = 60000, .deadline_action = SUP_KILL };
	struct err e = { 0 };
	uint64_t t;

	id_make(q.id);
	t = clock_ns();
	if (sup_spawn(&q, &how, &hooks, &o->link, &o->pid, &o->pidfd, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
	turn(o, &o->running);
	ret[0] = clock_ns() - t;
	/* A warm one has been waiting. */
	nanosleep(&(struct timespec){ .tv_nsec = IDLE_MS * 1000000 }, NULL);
	t = clock_ns();
	link_hold(o->link); /* as a claim that knows its first command */
	if (link_bind(o->link, &bind, &quiet, o, NULL, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
	start(o, argv);
	link_release(o->link);
	turn(o, &o->done);
	ret[1] = o->at_opened - t;
	ret[2] = clock_ns() - t;
	link_stop(o->link, "done", 0, NULL, NULL, NULL, NULL);
	t = clock_ns();
	turn(o, &o->over);
	ret[3] = clock_ns() - t;
	waitpid(o->pid, NULL, 0);
	close(o->pidfd);
}

int main(int argc, char **argv)
{
	static uint64_t times[6][COUNT_MAX];
	uint64_t count = 0;

	if (argc != 4 || parse_u64(argv[3], 1, COUNT_MAX, &count) < 0) {
		fprintf(stderr, "usage: claim WARD STATE_DIR COUNT\n");
		return 1;
	}
	host_short_turns(); /* as a daemon does */
	for (unsigned i = 0; i < count; i++) {
		struct one o = { 0 };
		uint64_t t[6];

		measure(&o, argv[1], argv[2], t);
		plain(t + 4);
		for (unsigned k = 0; k < 6; k++)
			times[k][i] = t[k];
	}
	show("cold start to running", times[0], count);
	show("claim to exec'd", times[1], count);
	show("claim to exit of true", times[2], count);
	show("stop to gone", times[3], count);
	show("plain spawn to exec'd", times[4], count);
	show("plain spawn to exit", times[5], count);
	return 0;
}
