/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/bench.c - how long commands take, from vfork to wait, interleaved.
 *
 * Owns:  the clock around one run.
 * Rules: every command is treated alike: the same tiny parent, the same environment, no terminal,
 *        output to /dev/null. Each round runs all of them once, in a new order, so that whatever
 *        else the machine does falls on all of them. bench.py decides what runs and reads the
 * result.
 *
 *   ward-bench compare OUT ROUNDS WARMUP GAP_MS SEED < commands    one line each: argv,
 * tab-separated ward-bench series  OUT COUNT < command                         one after another
 *   ward-bench burst   OUT COUNT < command                         all at once
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"

enum {
	COMMANDS_MAX = 32,
	ARGS_MAX = 64,
	LINE_MAX_BYTES = 8192,
	RUNS_MAX = 100000,
	OUT_MAX = 64 << 20
};

struct command {
	char line[LINE_MAX_BYTES];
	char *argv[ARGS_MAX + 1];
	uint64_t *ns;
	size_t runs, failed;
	int last_status; /* of the last run that failed */
};

struct bench {
	struct command commands[COMMANDS_MAX];
	size_t count;
	uint64_t random;
};

static void die(const char *what)
{
	dprintf(STDERR_FILENO, "ward-bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t number(const char *text, uint64_t max)
{
	uint64_t n;

	if (parse_u64(text, 0, max, &n) < 0) {
		dprintf(STDERR_FILENO, "ward-bench: '%s' is not a number up to %llu\n", text,
			(unsigned long long)max);
		exit(1);
	}
	return n;
}

/* xorshift: the same seed gives the same order. */
static uint64_t next_random(struct bench *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return b->random;
}

static void read_commands(struct bench *b, size_t runs)
{
	while (b->count < COMMANDS_MAX) {
		struct command *c = &b->commands[b->count];
		size_t n = 0;
		char *at;

		if (!fgets(c->line, sizeof(c->line), stdin))
			break;
		c->line[strcspn(c->line, "\n")] = '\0';
		for (at = c->line; at && n < ARGS_MAX; n++) {
			c->argv[n] = at;
			at = strchr(at, '\t');
			if (at)
				*at++ = '\0';
		}
		c->ns = calloc(runs, sizeof(*c->ns));
		if (!c->ns)
			die("memory for the results");
		b->count++;
	}
	if (!b->count) {
		dprintf(STDERR_FILENO, "ward-bench: no commands on standard input\n");
		exit(1);
	}
}

/* From here on the commands and we see the same nothing; messages go to @err alone. */
static void enter_silence(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
		dup2(null, STDERR_FILENO) < 0)
		die("/dev/null");
}

static pid_t start(const struct command *c)
{
	static char *const env[] = {
		(char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		(char *)"HOME=/root", (char *)"LANG=C", NULL
	};
	pid_t pid = vfork();

	if (pid == 0) {
		execve(c->argv[0], c->argv, env);
		_exit(127);
	}
	return pid;
}

/* Waits for @pid; did it succeed? */
static bool finish(struct command *c, pid_t pid)
{
	int status = -1;

	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		WEXITSTATUS(status) == 0)
		return true;
	c->failed++;
	c->last_status = status;
	return false;
}

static void run_once(struct command *c, bool counts)
{
	uint64_t began = clock_ns();

	if (finish(c, start(c)) && counts)
		c->ns[c->runs++] = clock_ns() - began;
}

static void pause_ms(uint64_t ms)
{
	const struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	if (ms)
		nanosleep(&t, NULL);
}

static void shuffle(struct bench *b, size_t order[COMMANDS_MAX])
{
	for (size_t i = 0; i < b->count; i++)
		order[i] = i;
	for (size_t i = b->count; i > 1; i--) {
		size_t j = next_random(b) % i, was = order[i - 1];

		order[i - 1] = order[j];
		order[j] = was;
	}
}

static void compare(struct bench *b, size_t rounds, size_t warmup, uint64_t gap_ms)
{
	size_t order[COMMANDS_MAX];

	for (size_t round = 0; round < warmup + rounds; round++) {
		shuffle(b, order);
		for (size_t i = 0; i < b->count; i++) {
			pause_ms(gap_ms);
			run_once(&b->commands[order[i]], round >= warmup);
		}
	}
}

static uint64_t burst(struct command *c, size_t count)
{
	own_mem pid_t *pids = calloc(count, sizeof(*pids));
	uint64_t began = clock_ns();

	if (!pids)
		die("memory for the processes");
	for (size_t i = 0; i < count; i++)
		pids[i] = start(c);
	for (size_t i = 0; i < count; i++)
		if (finish(c, pids[i]))
			c->ns[c->runs++] = clock_ns() - began;
	return clock_ns() - began;
}

static void write_result(const struct bench *b, uint64_t total_ns, int out)
{
	own_buf struct buf text;

	buf_init(&text, OUT_MAX);
	json_open(&text, NULL);
	json_u64(&text, "total_ns", total_ns);
	json_array(&text, "commands");
	for (size_t i = 0; i < b->count; i++) {
		const struct command *c = &b->commands[i];

		json_open(&text, NULL);
		json_u64(&text, "failed", c->failed);
		json_i64(&text, "last_status", c->last_status);
		json_array(&text, "ns");
		for (size_t k = 0; k < c->runs; k++)
			json_u64(&text, NULL, c->ns[k]);
		json_array_end(&text);
		json_close(&text);
	}
	json_array_end(&text);
	json_close(&text);
	if (text.bad || write(out, text.data, text.len) != (ssize_t)text.len)
		exit(1);
}

int main(int argc, char **argv)
{
	static struct bench b;
	const char *mode = argc > 1 ? argv[1] : "";
	bool compares = str_eq(mode, "compare");
	size_t runs;
	uint64_t began;
	int out;

	if (compares ? argc != 7
		     : argc != 4 || (!str_eq(mode, "series") && !str_eq(mode, "burst"))) {
		fputs("ward-bench: compare OUT ROUNDS WARMUP GAP_MS SEED | series OUT N | burst "
		      "OUT N\n",
			stderr);
		return 2;
	}
	runs = number(argv[3], RUNS_MAX);
	read_commands(&b, runs);
	b.random = compares ? number(argv[6], UINT64_MAX) | 1 : 1;
	out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (out < 0)
		die(argv[2]);
	enter_silence();
	began = clock_ns();
	if (str_eq(mode, "burst"))
		burst(&b.commands[0], runs);
	else if (compares)
		compare(&b, runs, number(argv[4], RUNS_MAX), number(argv[5], 60000));
	else
		for (size_t i = 0; i < runs; i++)
			run_once(&b.commands[0], true);
	write_result(&b, clock_ns() - began, out);
	return 0;
}
