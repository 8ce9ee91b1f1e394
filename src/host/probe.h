/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HOST_PROBE_H
#define WARD_HOST_PROBE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What this host can do, found out by doing it. Each probe runs in a child of its own with a time
 * limit, so that one that hangs or crashes costs its own row and nothing else; none leaves a mount,
 * a file, a device or a process behind.
 */
enum probe_state {
	PROBE_UNKNOWN, /* not tried, or the try did not come to an end; found says which */
	PROBE_YES,
	PROBE_PARTLY,
	PROBE_NO,
};

enum { PROBE_FACTS_MAX = 8 };

/* No pointers in it: a child fills it in shared memory. */
struct probe_result {
	enum probe_state state;
	char found[376]; /* one line for people: what was seen */
	char hint[200];  /* one line: how to get what is missing; empty when nothing is */
	unsigned fact_count;
	struct {
		char key[24], value[136];
	} facts[PROBE_FACTS_MAX]; /* the same for programs */
};

struct probe {
	const char *name; /* "userns"; stable: it is in `ward doctor --json` */
	const char *what; /* what ward uses it for */
	void (*run)(struct probe_result *r);
	const char *hint; /* how to get it, unless the probe itself knows better */
};

const struct probe *probe_list(unsigned *ret_count);
const char *probe_state_name(enum probe_state s); /* "yes", "partly", "no", "unknown" */

/* Runs one probe in a child. Fails only when the child cannot be started. */
int probe_run(const struct probe *p, struct probe_result *ret);

/* The same for a function that is not in the list. */
int probe_isolated(void (*run)(struct probe_result *r, const void *arg), const void *arg,
	uint32_t timeout_ms, struct probe_result *ret);

#endif
