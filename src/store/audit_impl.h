/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_AUDIT_IMPL_H
#define WARD_STORE_AUDIT_IMPL_H

#include <sys/types.h>

#include "base/limits.h"
#include "store/audit.h"

/* What the files of audit/ share: the head, lines, and the order of the log's files. */
enum {
	AUDIT_HEAD_BYTES = 430, /* every field has its width: audit_head_format() checks */
	AUDIT_NAME = 64,
	/* Bytes of a line before its members. */
	AUDIT_FRONT_MAX = 64 + CLOCK_TEXT + SHA256_HEX + AUDIT_EVENT_MAX,
};

/* A place in the chain: the line that ends there. */
struct audit_tip {
	uint64_t seq;  /* 0: before the first line */
	uint64_t size; /* bytes of audit/log up to and with that line */
	char hash[SHA256_HEX + 1];
};

/* What was found wrong with the log's end and put right; becomes an "audit.repaired" line. */
struct audit_repair {
	uint64_t torn_bytes;
	char torn_hash[SHA256_HEX + 1];
	uint64_t removed;  /* lines that the head knew of and the log no longer has */
	uint64_t added;    /* lines that the log has and the head did not know of */
	uint64_t headless; /* 1: there was no head to compare with */
};

/*
 * audit/head: what the log should end with. @next is set while a line is being written, so that a
 * ward that died there is told from a hand that added or removed a line.
 */
struct audit_head {
	uint64_t first; /* seq of the first line of audit/log */
	struct audit_tip tip;
	uint64_t next_size; /* 0: no line is being written */
	char next_hash[SHA256_HEX + 1];
	struct audit_repair owed; /* a repair that has no line in the log yet */
};

void audit_head_init(struct audit_head *h);
void audit_head_format(const struct audit_head *h, char out[AUDIT_HEAD_BYTES + 1]);
bool audit_head_parse(const char *text, size_t len, struct audit_head *ret);
void audit_repair_init(struct audit_repair *r);
bool audit_repair_is_none(const struct audit_repair *r);

/* The members of an "audit.repaired" line that verify must understand. */
bool audit_repaired_parse(
	const char *members, size_t len, uint64_t *ret_removed, bool *ret_headless);

/* audit/log-<first>, where a log that grew too long is set aside. */
void audit_rotated_name(char out[AUDIT_NAME], uint64_t first);
/* The set-aside log with the lowest first line above @after; 1, 0 when there is none. */
int audit_rotated_next(int state_fd, uint64_t after, uint64_t *ret_first);

/* Lines of a file, one after the other. The room is on the heap: not for the run path. */
struct audit_reader {
	int fd;           /* borrowed */
	uint64_t at, end; /* the next byte to read from the file; where to stop */
	char *room;
	size_t have, used;
	/* The current line: */
	const char *text;
	size_t len;     /* without the newline */
	uint64_t start; /* its offset in the file */
	bool whole;     /* it ends in a newline and is no longer than a line may be */
};

int audit_reader_init(struct audit_reader *r, int fd, uint64_t from, uint64_t to);
void audit_reader_done(struct audit_reader *r);
int audit_reader_next(struct audit_reader *r); /* 1, 0 at the end, negative errno */

/* Takes the lock that all appenders take, on the open head; waits a bounded time. */
int audit_lock(int head_fd, struct err *e);
/* Brings @h up to date with a log that does not end as it says; see audit_repair.c. */
int audit_recover(int state_fd, int log_fd, bool head_ok, struct audit_head *h, struct err *e);

/* audit_append() with another size at which to rotate, for tests. */
int audit_append_rotating(int state_fd, const char *event, const struct buf *members,
	uint64_t rotate_bytes, struct err *e);

#endif
