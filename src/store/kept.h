/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_KEPT_H
#define WARD_STORE_KEPT_H

#include "base/err.h"
#include "store/record.h"
#include "store/undo.h"

/*
 * A sandbox that ended and was kept: boxes/<id>/record, beside whatever its tier left in that
 * directory. The record is complete or absent, never half.
 */
struct kept_record {
	const char *id, *tier;
	const char *created, *ended; /* clock_text(); ended NULL: now */
	const char *cause;           /* of the closed list: "exited", "time-limit"... */
	const char *detail;          /* may be NULL */
	int status;                  /* exit status of the run */
	const char *const *argv;     /* may be NULL */
	const char *template_name;   /* may be NULL */
	const struct undo *undo;     /* what `ward rm` must take down besides boxes/<id> */
	unsigned undo_count;
	const struct record *more; /* further lines, copied as they are; may be NULL */
};

/* Writes boxes/<id>/record; makes boxes/<id> when it is missing. */
int kept_write(int state_fd, const struct kept_record *rec, struct err *e);
/* Reads it: record_get(ret, "cause", ...). -ENOENT when there is no such box. */
int kept_read(int state_fd, const char *id, struct record *ret, struct err *e);
/* Calls @each for every kept box until it returns non-zero; returns that. */
int kept_list(int state_fd, int (*each)(void *arg, const char *id, const struct record *rec),
	void *arg, struct err *e);
/* Undoes what its record says, then deletes boxes/<id>. -ENOENT when there is no such box. */
int kept_remove(int state_fd, const char *id, const struct sweep_hooks *hooks, struct err *e);

#endif
