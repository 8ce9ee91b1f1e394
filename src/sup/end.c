/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/end.c - why a sandbox ended.
 *
 * Owns:  the order in which causes are considered.
 * Rules: pure. What ward did on purpose comes first, then what the kernel did, then what a limit
 *        probably did to a command that failed, and only then the command's own end.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "base/str.h"
#include "sup/end.h"

static const char *const names[END_CAUSES] = {
	[END_EXITED] = "exited",
	[END_SIGNALED] = "signaled",
	[END_OUT_OF_MEMORY] = "out-of-memory",
	[END_TIME_LIMIT] = "time-limit",
	[END_PROCESS_LIMIT] = "process-limit",
	[END_DISK_LIMIT] = "disk-limit",
	[END_OUTPUT_LIMIT] = "output-limit",
	[END_DENIED] = "denied",
	[END_SETUP_FAILED] = "setup-failed",
	[END_KILLED] = "killed-by-operator",
	[END_PROTOCOL] = "protocol-error",
	[END_MACHINE] = "machine-ended",
};

enum { STATUS_TIME_LIMIT = 124, STATUS_WARD = 125, STATUS_SIGNAL = 128 };

const char *end_cause_name(enum end_cause c)
{
	return names[c];
}

static void set(struct run_end *ret, enum end_cause cause, int status, const char *detail)
{
	ret->cause = cause;
	ret->status = status;
	if (detail && str_copy(ret->detail, sizeof(ret->detail), detail) < 0)
		snprintf(ret->detail, sizeof(ret->detail), "%.*s", (int)sizeof(ret->detail) - 1,
			detail);
}

static void denials_text(const struct sighting *seen, char *out, size_t cap)
{
	size_t n = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < seen->denial_count && n + 48 < cap; i++)
		n += (size_t)snprintf(
			out + n, cap - n, "%s%s", i ? ", " : "", seen->denials[i].what);
}

/* The command's own status, as a shell would give it. */
static int own_status(const struct sighting *seen)
{
	return seen->signaled ? STATUS_SIGNAL + seen->code : seen->code;
}

static bool setup_failed(
	const struct sighting *seen, const struct trail *trail, struct run_end *ret)
{
	if (trail->failed && !trail_ran(trail)) {
		ret->step = step_name((enum step)(trail->failed - 1));
		set(ret, END_SETUP_FAILED, STATUS_WARD, trail->msg);
		return true;
	}
	if (seen->start_failed && seen->start_status == STATUS_WARD) {
		ret->step = step_name(STEP_EXEC);
		set(ret, END_SETUP_FAILED, STATUS_WARD, seen->start_text);
		return true;
	}
	return false;
}

/* The first process ended and nobody had said how the command did. */
static void silent_end(const struct trail *trail, int first_status, struct run_end *ret)
{
	char text[120];

	if (trail->failed) {
		set(ret, END_MACHINE, STATUS_SIGNAL + SIGKILL, trail->msg);
		return;
	}
	if (WIFSIGNALED(first_status) && trail_current(trail) == STEP_KERNEL &&
		WTERMSIG(first_status) != SIGKILL) {
		snprintf(text, sizeof(text),
			"the sandbox's kernel process crashed (signal %d); everything in it was "
			"ended",
			WTERMSIG(first_status));
		set(ret, END_SIGNALED, STATUS_SIGNAL + WTERMSIG(first_status), text);
		return;
	}
	if (WIFSIGNALED(first_status) &&
		(trail_current(trail) == STEP_EXEC || trail_current(trail) == STEP_KERNEL ||
			trail_current(trail) == STEP_RUN)) {
		snprintf(text, sizeof(text),
			"the sandbox's first process was killed by signal %d from outside",
			WTERMSIG(first_status));
		set(ret, END_KILLED, STATUS_SIGNAL + WTERMSIG(first_status), text);
		return;
	}
	ret->step = step_name(trail_current(trail));
	if (WIFSIGNALED(first_status))
		snprintf(text, sizeof(text),
			"the first process was killed by signal %d during this step",
			WTERMSIG(first_status));
	else
		snprintf(text, sizeof(text),
			"the first process ended with status %d during this step",
			WEXITSTATUS(first_status));
	set(ret, END_SETUP_FAILED, STATUS_WARD, text);
}

static void own_end(const struct sighting *seen, struct run_end *ret)
{
	char text[300];

	if (seen->signaled && seen->operator_signal == seen->code) {
		snprintf(text, sizeof(text), "signal %d, passed on from ward", seen->code);
		set(ret, END_KILLED, own_status(seen), text);
	} else if (own_status(seen) && seen->denial_count) {
		denials_text(seen, text, sizeof(text));
		set(ret, END_DENIED, own_status(seen), text);
	} else if (seen->signaled) {
		snprintf(text, sizeof(text), "signal %d", seen->code);
		set(ret, END_SIGNALED, own_status(seen), text);
	} else {
		set(ret, END_EXITED, own_status(seen), NULL);
	}
}

static unsigned limits_hit(const struct sighting *seen, const struct usage *usage)
{
	return (usage->oom_kills || seen->oom_kills || seen->oom_seen ? 1u << END_OUT_OF_MEMORY
								      : 0) |
	       (usage->pids_refused || seen->pids_refused ? 1u << END_PROCESS_LIMIT : 0) |
	       (usage->disk_full || seen->disk_over ? 1u << END_DISK_LIMIT : 0) |
	       (seen->time_over ? 1u << END_TIME_LIMIT : 0) |
	       (seen->output_over ? 1u << END_OUTPUT_LIMIT : 0);
}

void end_judge(const struct sighting *seen, const struct usage *usage, const struct trail *trail,
	int first_status, const struct plan_limits *limits, struct run_end *ret)
{
	bool ended = seen->exited || seen->signaled;
	bool failed = ended && own_status(seen) != 0;
	uint64_t oom_kills = usage->oom_kills + seen->oom_kills;
	uint64_t pids_refused = usage->pids_refused + seen->pids_refused;
	char text[120];

	*ret = (struct run_end){ .usage = *usage, .limits_hit = limits_hit(seen, usage) };
	ret->usage.oom_kills = oom_kills;
	ret->usage.pids_refused = pids_refused;
	ret->has_code = seen->exited;
	ret->has_signal = seen->signaled;
	ret->code = seen->code;
	if (setup_failed(seen, trail, ret))
		return;
	if (seen->time_over) {
		snprintf(text, sizeof(text), "after %llu ms",
			(unsigned long long)limits->timeout_ms);
		set(ret, END_TIME_LIMIT, STATUS_TIME_LIMIT, text);
	} else if (seen->output_over) {
		snprintf(text, sizeof(text), "after %llu bytes",
			(unsigned long long)limits->output_bytes);
		set(ret, END_OUTPUT_LIMIT, STATUS_SIGNAL + SIGKILL, text);
	} else if (seen->disk_over) {
		snprintf(text, sizeof(text), "of %llu bytes",
			(unsigned long long)limits->disk_bytes);
		set(ret, END_DISK_LIMIT, STATUS_SIGNAL + SIGKILL, text);
	} else if (seen->oom_seen || (oom_kills && (failed || !ended))) {
		snprintf(text, sizeof(text), "of %llu bytes",
			(unsigned long long)limits->memory_bytes);
		set(ret, END_OUT_OF_MEMORY, STATUS_SIGNAL + SIGKILL, text);
		/* Told of it, ward kills the rest at once, and may be quicker than the counter. */
		if (!ret->usage.oom_kills)
			ret->usage.oom_kills = 1;
	} else if (seen->agent_broke) {
		set(ret, END_PROTOCOL, STATUS_SIGNAL + SIGKILL,
			"the agent inside broke its protocol");
	} else if (seen->operator_killed) {
		snprintf(text, sizeof(text), "signal %d", seen->operator_signal);
		set(ret, END_KILLED, STATUS_SIGNAL + seen->operator_signal, text);
	} else if (seen->start_failed) {
		set(ret, END_EXITED, seen->start_status, seen->start_text);
		ret->has_code = true;
		ret->code = seen->start_status;
	} else if (!ended) {
		silent_end(trail, first_status, ret);
	} else if (failed && pids_refused) {
		snprintf(text, sizeof(text), "of %u, %llu refused", limits->pids,
			(unsigned long long)pids_refused);
		set(ret, END_PROCESS_LIMIT, own_status(seen), text);
	} else if (failed && usage->disk_full) {
		snprintf(text, sizeof(text), "of %llu bytes",
			(unsigned long long)limits->disk_bytes);
		set(ret, END_DISK_LIMIT, own_status(seen), text);
	} else {
		own_end(seen, ret);
	}
}
