/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_REQUEST_H
#define WARD_SUP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "plan/plan.h"
#include "plan/wall.h"
#include "policy/traits.h"

/*
 * One sandbox, as the daemon asks a supervisor for it. It travels in a sealed memfd, in the fields
 * of proto/ (docs/SUPERVISOR.md), and becomes a plan only in the supervisor: policy decides there,
 * on the copy that was checked there.
 *
 * Strings are borrowed. NULL and 0 mean "not said" in every field.
 */
/* What a supervisor finds open beside its stdio; from FROM on three, if the request says so. */
enum { SUP_FD_REQUEST = 3, SUP_FD_LINK = 4, SUP_FD_FROM = 5 };

/*
 * One that is started before there is a request has a socket of messages at SUP_FD_REQUEST instead.
 * It says SUP_WAITS when it is ready; SUP_ASKS comes with the descriptors that a supervisor is
 * otherwise started with: request, link and, to go on from, three more.
 */
enum { SUP_WAITS = 'W', SUP_ASKS = 'A' };

enum sup_action { SUP_KILL = 1, SUP_PAUSE }; /* what happens when the time is over */

struct sup_request {
	char id[ID_LEN + 1]; /* from id_make(); also the public id */

	struct traits traits;
	enum wall asked;         /* WALL_NONE: let policy choose */
	const char *asked_by;    /* who chose @asked, for the audit: "ward serve --tier" */
	const char *accept_risk; /* the operator's reason */
	const char *caller;      /* for the audit: who the sandbox is for; one line */
	const char *trace;       /* for the audit and the log: a trace id */

	const char *template_spec; /* NULL: "host"; must be here already: nothing is imported */
	struct plan_limits limits; /* timeout_ms is not used: see deadline_ms */
	struct plan_mount mounts[MOUNTS_MAX];
	unsigned mount_count;
	enum net_mode net;
	enum upper_kind upper;

	/* Defaults of every process that is started in it; BIND can change them later. */
	const char *const *env; /* "K=V", NULL-terminated; over the template's own */
	const char *user;       /* who commands run as; NULL: the template's, or root */
	const char *workdir;    /* where; NULL: the template's, or the user's home */
	const char *hostname;   /* NULL: the id */

	/* Goes on from there instead of starting; borrowed. On the way to the supervisor they are
	 * SUP_FD_FROM and the next two. */
	const struct snap *from;

	uint64_t deadline_ms; /* from when it runs; 0: none. Ends or pauses it, daemon or not */
	enum sup_action deadline_action;
};

/*
 * Writes it into a new sealed memfd (close-on-exec, position 0). -EINVAL or -E2BIG with a line that
 * names the field for what a supervisor would not accept; the checks are those of
 * sup_request_read().
 */
int sup_request_encode(const struct sup_request *q, int *ret_memfd, struct err *e);

/* A request with the memory that its strings lie in. */
struct sup_order {
	struct sup_request q;
	void *room; /* all strings; freed by sup_order_done() */
	const char *env[ENV_VARS_MAX + 1];
	struct snap from; /* q.from points here */
};

/* Takes a private copy of what @fd holds and checks it. -EPROTO: not a request at all. */
int sup_request_decode(int fd, struct sup_order *ret, struct err *e);
/* The same over bytes in memory, which are copied. */
int sup_request_read(const void *data, size_t len, struct sup_order *ret, struct err *e);
void sup_order_done(struct sup_order *o);
/* Within what a sandbox can have; 0 is not said. */
int sup_limits_check(const struct plan_limits *l, struct err *e);

#endif
