/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_AUDIT_H
#define WARD_STORE_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/sha256.h"

/*
 * The audit log: JSON lines, each with the hash of the line before; docs/AUDIT.md is its format.
 *
 * Appends {"seq":N,"ts":"...","prev":"...","event":"<event>",<members>}. @members is what the
 * json_*() calls with keys put into an empty buffer; NULL or empty for none. Safe from any number
 * of processes at once; waits up to AUDIT_LOCK_WAIT_MS for them. Does not wait for the disk.
 */
int audit_append(int state_fd, const char *event, const struct buf *members, struct err *e);

/* Waits until everything appended is on the disk. Meant to run beside the sandbox. */
int audit_sync(int state_fd);

/* One line, taken apart as far as the chain needs. Strings are copies. */
enum { AUDIT_EVENT_MAX = 64 };
struct audit_line {
	uint64_t seq;
	char ts[CLOCK_TEXT];
	char prev[SHA256_HEX + 1];
	char event[AUDIT_EVENT_MAX];
	size_t members_at; /* offset of the first byte after the event: ',' or '}' */
};

/* @text without its newline; false when audit_append() cannot have written it. */
bool audit_line_parse(const char *text, size_t len, struct audit_line *ret);

enum audit_state {
	AUDIT_OK,
	AUDIT_TORN,   /* whole but for a last line that was not written to its end */
	AUDIT_BROKEN, /* edited, cut, reordered, or something was put in */
};

struct audit_report {
	enum audit_state state;
	uint64_t lines;      /* that are good */
	uint64_t repairs;    /* "audit.repaired" lines among them */
	uint64_t torn_bytes; /* AUDIT_TORN only */
	char file[64];       /* AUDIT_BROKEN and AUDIT_TORN: the file in audit/, */
	uint64_t line;       /* its line, from 1; 0: the file as a whole */
	char why[240];
};

/* Walks the whole chain. 0 whatever it finds (@ret says); negative only when it cannot be read. */
int audit_verify(int state_fd, struct audit_report *ret, struct err *e);

/*
 * Calls @each for every line in order, oldest first, good or not: @line is NULL for one that is not
 * ours. Stops when it returns non-zero, and returns that.
 */
int audit_each(int state_fd,
	int (*each)(void *arg, const char *text, size_t len, const struct audit_line *line),
	void *arg, struct err *e);

#endif
