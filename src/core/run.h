/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_RUN_H
#define WARD_CORE_RUN_H

#include "base/err.h"
#include "base/limits.h"
#include "plan/plan.h"
#include "policy/policy.h"

/*
 * The verb `run`: decide, write down, do. A front fills the request with what it was told, checked;
 * strings are borrowed until core_run() is over.
 */
struct run_request {
	const char *state_dir;
	struct traits traits;
	enum wall asked; /* WALL_NONE: let policy choose */
	const char *accept_risk;
	const char *template_spec; /* NULL: "host" */

	struct plan_limits limits; /* what was asked for; 0: the default */
	struct plan_mount mounts[MOUNTS_MAX];
	unsigned mount_count;
	struct plan_source sources[SOURCES_MAX];
	unsigned source_count;
	const char *env[ENV_VARS_MAX]; /* "K=V" */
	unsigned env_count;
	enum upper_kind upper;
	enum net_mode net;
	const char *workdir, *user;
	const char *tap, *tap_addr; /* as in the plan */
	const char *cpu_template;   /* the same */
	const char *vsock;          /* the same */
	const char *const *argv;    /* NULL-terminated; empty: the template's own */
	bool tty, keep, quiet;
	int json_fd; /* -1: no report */

	/* For a supervisor: no command of its own, an id and a name that somebody else chose. */
	bool live;
	const struct snap *from;               /* see struct plan */
	const char *id, *hostname;             /* NULL: made here; the id */
	const char *asked_by, *caller, *trace; /* for the audit; NULL: nothing to say */

	char *args; /* ward's own command line and environment, for plan->args */
	size_t args_len;
};

/* Runs it to its end. Returns the exit status of `ward run`; with EXIT 125, @e says why. */
int core_run(const struct run_request *req, struct err *e);

#endif
