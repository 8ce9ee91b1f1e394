/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_STDIO_H
#define WARD_SUP_STDIO_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * How the command's stdin, stdout and stderr are joined to ward's own. An anonymous pipe is given
 * to the command as it is. Anything else (terminal, file, socket) stays outside, since with the
 * descriptor would go the thing behind it: the command gets a pipe, and ward copies.
 */
enum { RELAY_BYTES = 64 * 1024, STDIO_POLLS = 3 };

/* Somewhere to write that never makes ward wait. */
struct sink {
	int fd;      /* -1: none */
	bool ours;   /* opened anew, without blocking, so that others' flags stay as they are */
	bool socket; /* asked not to block with each write instead */
	size_t most; /* bytes that one write may have after POLLOUT */
};

void sink_open(struct sink *s, int fd);
void sink_close(struct sink *s);
/* Like write(), but -errno; -EAGAIN when it would wait. */
ssize_t sink_write(const struct sink *s, const void *data, size_t len);

struct relay {
	int from; /* -1: closed */
	bool from_is_ours;
	struct sink to;
	char *data; /* RELAY_BYTES, made when first needed */
	size_t at, len;
};

struct stdio {
	int give[3]; /* for the command; -1 after stdio_given() */
	bool give_is_ours[3];
	struct relay in, out[2];
	uint64_t out_bytes, out_max; /* max 0: no limit */
	bool over;                   /* more than out_max came */
	int lost;                    /* errno of output that could not be written; 0: none */
};

/* @reopen: other ids than ours must be able to open /dev/stdout. */
int stdio_open(struct stdio *s, uint64_t out_max, bool reopen, struct err *e);
/* The command has its descriptors: closes ward's copies. */
void stdio_given(struct stdio *s);
/* Adds what to wait for to @polls, at most STDIO_POLLS; returns how many. */
unsigned stdio_polls(struct stdio *s, struct pollfd *polls);
/* Copies what can be copied now, as far as @polls (from stdio_polls) say. */
void stdio_work(struct stdio *s, const struct pollfd *polls, unsigned count);
/* The command is gone: nothing goes in any more, and what comes out ends by itself. */
void stdio_end_input(struct stdio *s);
void stdio_close(struct stdio *s);

#endif
