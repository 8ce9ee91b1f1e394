/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/end_test.c - what was seen of a run, and the one cause that follows.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "sup/end.h"

#define KILLED_BY(sig) (sig)
#define ENDED_WITH(code) ((code) << 8)

static const struct plan_limits limits = {
	.memory_bytes = 64 << 20,
	.disk_bytes = 8 << 20,
	.output_bytes = 1024,
	.timeout_ms = 300,
	.pids = 20,
};

static const struct {
	const char *name;
	struct sighting seen;
	struct usage usage;
	enum step last;
	bool step_failed;
	int first_status;
	enum end_cause want;
	int want_status;
	const char *want_detail; /* NULL: any */
} cases[] = {
	{ .name = "exit 0", .seen = { .exited = true }, .want = END_EXITED },
	{ .name = "more on disk than allowed, and killed for it",
		.seen = { .disk_over = true, .killed = true },
		.last = STEP_EXEC,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_DISK_LIMIT,
		.want_status = 137,
		.want_detail = "of 8388608 bytes" },
	{ .name = "exit 7",
		.seen = { .exited = true, .code = 7 },
		.want = END_EXITED,
		.want_status = 7 },
	{ .name = "a signal of its own",
		.seen = { .signaled = true, .code = SIGKILL },
		.want = END_SIGNALED,
		.want_status = 137 },
	{ .name = "killed for memory is not an ordinary SIGKILL",
		.seen = { .signaled = true, .code = SIGKILL },
		.usage = { .oom_kills = 1 },
		.want = END_OUT_OF_MEMORY,
		.want_status = 137 },
	{ .name = "killed for memory inside a machine: only its agent saw it",
		.seen = { .signaled = true, .code = SIGKILL, .oom_kills = 2 },
		.want = END_OUT_OF_MEMORY,
		.want_status = 137 },
	{ .name = "a process refused inside a machine",
		.seen = { .exited = true, .code = 2, .pids_refused = 3 },
		.want = END_PROCESS_LIMIT,
		.want_status = 2,
		.want_detail = "of 20, 3 refused" },
	{ .name = "a child was killed for memory and the command took it well",
		.seen = { .exited = true },
		.usage = { .oom_kills = 1 },
		.want = END_EXITED },
	{ .name = "memory ran out and the first process with it",
		.usage = { .oom_kills = 2 },
		.last = STEP_EXEC,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_OUT_OF_MEMORY,
		.want_status = 137 },
	{ .name = "out of memory was told, the group was killed",
		.seen = { .oom_seen = true, .killed = true },
		.last = STEP_EXEC,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_OUT_OF_MEMORY,
		.want_status = 137 },
	{ .name = "time",
		.seen = { .time_over = true, .killed = true },
		.last = STEP_EXEC,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_TIME_LIMIT,
		.want_status = 124,
		.want_detail = "after 300 ms" },
	{ .name = "time before memory: ward ended it",
		.seen = { .time_over = true },
		.usage = { .oom_kills = 1 },
		.want = END_TIME_LIMIT,
		.want_status = 124 },
	{ .name = "output",
		.seen = { .output_over = true, .killed = true },
		.want = END_OUTPUT_LIMIT,
		.want_status = 137 },
	{ .name = "processes",
		.seen = { .exited = true, .code = 2 },
		.usage = { .pids_refused = 3 },
		.want = END_PROCESS_LIMIT,
		.want_status = 2,
		.want_detail = "of 20, 3 refused" },
	{ .name = "processes refused and all is well",
		.seen = { .exited = true },
		.usage = { .pids_refused = 3 },
		.want = END_EXITED },
	{ .name = "disk",
		.seen = { .exited = true, .code = 1 },
		.usage = { .disk_full = true },
		.want = END_DISK_LIMIT,
		.want_status = 1 },
	{ .name = "denied",
		.seen = { .exited = true,
			.code = 32,
			.denial_count = 2,
			.denials = { { "mount", 1 }, { "bpf", 4 } } },
		.want = END_DENIED,
		.want_status = 32,
		.want_detail = "mount, bpf" },
	{ .name = "denied and all is well",
		.seen = { .exited = true, .denial_count = 1, .denials = { { "mount", 1 } } },
		.want = END_EXITED },
	{ .name = "passed on",
		.seen = { .signaled = true, .code = SIGTERM, .operator_signal = SIGTERM },
		.want = END_KILLED,
		.want_status = 143 },
	{ .name = "passed on, and answered with an exit",
		.seen = { .exited = true, .code = 3, .operator_signal = SIGTERM },
		.want = END_EXITED,
		.want_status = 3 },
	{ .name = "insisted",
		.seen = { .operator_killed = true, .operator_signal = SIGINT, .killed = true },
		.last = STEP_EXEC,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_KILLED,
		.want_status = 130 },
	{ .name = "an agent that was taken over",
		.seen = { .agent_broke = true, .killed = true, .operator_signal = SIGTERM },
		.last = STEP_EXEC,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_PROTOCOL,
		.want_status = 137,
		.want_detail = "the agent inside broke its protocol" },
	{ .name = "not found",
		.seen = { .start_failed = true, .start_status = 127, .start_text = "starting 'x'" },
		.want = END_EXITED,
		.want_status = 127,
		.want_detail = "starting 'x'" },
	{ .name = "no such directory to work in",
		.seen = { .start_failed = true, .start_status = 125, .start_text = "cwd" },
		.want = END_SETUP_FAILED,
		.want_status = 125 },
	{ .name = "a step failed inside",
		.last = STEP_SECCOMP,
		.step_failed = true,
		.first_status = ENDED_WITH(125),
		.want = END_SETUP_FAILED,
		.want_status = 125 },
	{ .name = "a machine that ended by itself",
		.last = STEP_RUN,
		.step_failed = true,
		.first_status = ENDED_WITH(125),
		.want = END_MACHINE,
		.want_status = 137,
		.want_detail = "no" },
	{ .name = "a machine that ended when its command had",
		.seen = { .exited = true, .code = 3 },
		.last = STEP_RUN,
		.step_failed = true,
		.first_status = ENDED_WITH(125),
		.want = END_EXITED,
		.want_status = 3 },
	{ .name = "a machine that ended when its time was over",
		.seen = { .time_over = true, .killed = true },
		.last = STEP_RUN,
		.step_failed = true,
		.first_status = ENDED_WITH(125),
		.want = END_TIME_LIMIT,
		.want_status = 124 },
	{ .name = "a monitor killed from outside while it ran",
		.last = STEP_RUN,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_KILLED,
		.want_status = 137 },
	{ .name = "killed from outside while it ran",
		.last = STEP_EXEC,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_KILLED,
		.want_status = 137 },
	{ .name = "killed from outside during a step",
		.last = STEP_PIVOT,
		.first_status = KILLED_BY(SIGKILL),
		.want = END_SETUP_FAILED,
		.want_status = 125 },
};

static void one_cause_follows(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct trail trail = { 0 };
		struct err e = { .code = EPERM, .msg = "no" };
		struct run_end end;

		trail_begin(&trail, cases[i].last);
		if (cases[i].step_failed)
			trail_fail(&trail, &e);
		end_judge(&cases[i].seen, &cases[i].usage, &trail, cases[i].first_status, &limits,
			&end);
		if (end.cause != cases[i].want || end.status != cases[i].want_status)
			fail_msg("%s: %s with %d, not %s with %d", cases[i].name,
				end_cause_name(end.cause), end.status,
				end_cause_name(cases[i].want), cases[i].want_status);
		if (cases[i].want_detail)
			assert_string_equal(end.detail, cases[i].want_detail);
		assert_true((end.cause == END_SETUP_FAILED) == (end.step != NULL));
		if (end.cause == END_OUT_OF_MEMORY)
			assert_true(end.usage.oom_kills > 0);
	}
}

static void every_cause_has_a_name(void **state)
{
	(void)state;
	for (int i = 0; i < END_CAUSES; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(end_cause_name((enum end_cause)i),
				end_cause_name((enum end_cause)k));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_cause_follows),
		cmocka_unit_test(every_cause_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
