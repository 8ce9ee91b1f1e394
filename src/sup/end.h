/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_END_H
#define WARD_SUP_END_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "plan/plan.h"
#include "tier/tier.h"

/* Why a sandbox ended: exactly one of these. The names are part of --json and of stored records. */
enum end_cause {
	END_EXITED,
	END_SIGNALED,
	END_OUT_OF_MEMORY,
	END_TIME_LIMIT,
	END_PROCESS_LIMIT,
	END_DISK_LIMIT,
	END_OUTPUT_LIMIT,
	END_DENIED,
	END_SETUP_FAILED,
	END_KILLED,
	END_PROTOCOL,
	END_MACHINE,
	END_CAUSES,
};

const char *end_cause_name(enum end_cause c);

struct denial {
	char what[40]; /* "mount", "socket family 40" */
	unsigned count;
};

/* What was seen of a run, from its start to its end. */
struct sighting {
	bool exited, signaled; /* the command's own end, as the agent told it */
	int code;              /* exit status, or signal */
	/* What limits inside a machine did, which only its agent sees. */
	uint64_t oom_kills, pids_refused;
	bool start_failed; /* the agent could not start the command */
	int start_status;  /* then: 127, 126 or 125 */
	char start_text[200];

	bool time_over, output_over, disk_over, oom_seen; /* then the sandbox was killed for it */
	bool agent_broke;     /* its protocol; then the sandbox was killed for it */
	bool operator_killed; /* a signal to ward could not be passed on, or insisted */
	int operator_signal;  /* the last signal that was passed on; 0: none */
	uint64_t output_bytes;
	int output_lost; /* errno: what the command wrote could not be written on */
	bool killed;     /* by ward: what its processes used is not known in full */
	struct denial denials[DENIALS_MAX];
	unsigned denial_count;
};

struct run_end {
	enum end_cause cause;
	char detail[300]; /* what was denied, which step failed, which signal */
	const char *step; /* setup-failed only */
	int status;       /* the exit status of `ward run` */
	bool has_code, has_signal;
	int code;
	unsigned limits_hit; /* bits of 1 << END_...: limits that were reached, whatever ended the
				run */
	struct usage usage;
};

/*
 * Says why it ended. @trail: what the first process did; @first_status: its wait status. Pure.
 */
void end_judge(const struct sighting *seen, const struct usage *usage, const struct trail *trail,
	int first_status, const struct plan_limits *limits, struct run_end *ret);

#endif
