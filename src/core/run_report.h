/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_RUN_REPORT_H
#define WARD_CORE_RUN_REPORT_H

#include "plan/plan.h"
#include "policy/policy.h"
#include "sup/end.h"

/* What is written about a run: two audit lines, and the object of --json. */
struct run_request;
int report_start(int state_fd, const struct plan *plan, const struct decision *decision,
	const struct run_request *req, struct err *e);
/* Policy said no: @why is the line that the caller saw. */
int report_refusal(int state_fd, const struct plan *plan, const struct decision *decision,
	const struct run_request *req, const struct err *why, struct err *e);
/* A warm sandbox is somebody's from now on. */
int report_bound(int state_fd, const struct plan *plan, const char *caller, const char *trace,
	struct err *e);
int report_end(int state_fd, const struct plan *plan, const struct sighting *seen,
	const struct run_end *end, struct err *e);

struct report_input {
	const struct plan *plan;
	const struct decision *decision;
	const struct sighting *seen;
	const struct run_end *end;
	const struct trail *trail, *child;
	uint64_t start_ns;
	bool kept;
};

int report_json(const struct report_input *in, int fd, struct err *e);

#endif
