/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_SERVE_H
#define WARD_SUP_SERVE_H

#include "base/err.h"
#include "plan/plan.h"
#include "plan/trail.h"
#include "policy/policy.h"
#include "sup/end.h"
#include "sup/request.h"
#include "tier/tier.h"

/*
 * The long-lived supervisor of one sandbox: serves one daemon at a time (docs/SUPERVISOR.md), holds
 * the sandbox's processes, their output and its deadline while there is none, and leaves an end
 * record. It outlives the box it serves by one message.
 */
struct serve;

/* What a process gets unless its START says otherwise. Strings are borrowed. */
struct serve_defaults {
	const char *const *env; /* "K=V", NULL-terminated */
	const char *user, *workdir;
};

/* Listens at <state>/run/<id>.sock and tells the daemon behind @link (taken; -1: none) that the
 * sandbox is starting. */
int serve_open(const char *state_dir, const struct sup_request *q, int link, struct serve **ret,
	struct err *e);

struct serve_hooks {
	/* Before the agent can be told anything: what must be on record first. */
	int (*commit)(void *arg, struct err *e);
	void (*idle)(void *arg); /* the box is on its way */
	/* BIND came: somebody has this sandbox now. */
	void (*bound)(void *arg, const char *caller, const char *trace);
	void *arg;
};

/*
 * Starts @box and serves until it is over, for whatever reason; @ret says why. Fails only when
 * nothing was started. box_stop() is still the caller's.
 */
int serve_run(struct serve *s, struct box *box, const struct plan *plan,
	const struct decision *decision, const struct serve_defaults *defaults,
	const struct serve_hooks *hooks, struct trail *trail, struct sighting *ret_seen,
	struct run_end *ret, struct err *e);

/* All of it is gone: writes the end record, tells the daemon, removes the socket, frees @s. */
void serve_close(struct serve *s, const struct run_end *end, const struct sighting *seen);

#endif
