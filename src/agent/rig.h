/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_RIG_H
#define WARD_AGENT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <cmocka.h>

#include "proto/client.h"

/*
 * For tests: an agent in a process of its own, and the client's end of its channel. Every test runs
 * against an agent that is not PID 1, and again, as root, against one that is.
 */
struct rig {
	pid_t pid;
	int fd;
	struct proto_conn c;
};

/* What a process said until its EXIT; output past the room is counted and dropped. */
struct said {
	char out[4096], err[4096];
	size_t out_len, err_len;
	bool out_end, err_end, failed, opened;
	uint32_t pid;
	struct proto_exit exit;
	struct proto_failed failure;
};

extern bool rig_as_init;

void rig_start(struct rig *r);
/* Closes the channel, waits for the agent; its exit status. */
int rig_end(struct rig *r);
int rig_wait(struct rig *r); /* only waits */

/* The next message; fails the test after ten seconds without one. */
void rig_next(struct rig *r, struct proto_event *ev);
/* The same, and it must be of this type on this stream. */
void rig_expect(struct rig *r, struct proto_event *ev, enum proto_type type, uint32_t stream);
/* True when nothing comes for @ms. */
bool rig_quiet(struct rig *r, int ms);
/* -ENOTCONN or -EPROTO: the agent must have closed the channel. */
void rig_expect_closed(struct rig *r);

#define ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })

void rig_run(struct rig *r, uint32_t stream, uint16_t flags, const char *const *argv);
/* Reads until @stream ends, giving credit back. */
void rig_collect(struct rig *r, uint32_t stream, struct said *said);
/* Both, for `sh -c`. */
void rig_shell(struct rig *r, const char *script, struct said *said);

/* Reads what @stream says until @want has come; what comes with it is dropped. */
void rig_until(struct rig *r, uint32_t stream, const char *want);
void rig_type(struct rig *r, uint32_t stream, const char *text);

/* Runs the tests in both ways. */
int rig_main(const char *name, const struct CMUnitTest *tests, size_t count);

#endif
