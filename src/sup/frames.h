/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_FRAMES_H
#define WARD_SUP_FRAMES_H

#include <poll.h>
#include <stdbool.h>

#include "proto/client.h"
#include "sup/stdio.h"

/*
 * The command's stdin, stdout and stderr as frames, for a channel over which no descriptor can
 * pass: takes the place of the command at its end of struct stdio.
 */
enum { FRAMES_POLLS = 3 };

struct frames {
	struct proto_conn *conn; /* NULL: not in use */
	uint32_t stream;
	int in; /* borrowed from the stdio; -1: ended */
	struct flow in_flow, out_flow[2];
	struct relay out[2]; /* what could not be written yet */
	bool closed[2];      /* nobody reads it any more, and the agent knows */
	bool broken;         /* the agent sent more than it was allowed to */
};

/* @io stays the owner of its descriptors, and must not be told that they were given away yet. */
int frames_open(struct frames *f, struct proto_conn *conn, uint32_t stream, struct stdio *io,
	struct err *e);
void frames_close(struct frames *f); /* a zeroed one is fine */

/* Like stdio_polls() and stdio_work(). */
unsigned frames_polls(struct frames *f, struct pollfd *polls);
void frames_work(struct frames *f, const struct pollfd *polls, unsigned count);
/* DATA and CREDIT of the agent. */
void frames_data(struct frames *f, const struct proto_event *ev);
void frames_credit(struct frames *f, const struct proto_event *ev);
/* Everything that came is written. */
bool frames_idle(const struct frames *f);

#endif
