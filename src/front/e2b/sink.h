/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_SINK_H
#define WARD_FRONT_E2B_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "sup/link.h"

/*
 * One file after the other into a sandbox. What is put in is done in order: a file is opened
 * inside, gets its bytes, is closed, then comes the next. Bytes for a file that is not open yet are
 * kept; whoever feeds it looks at sink_is_busy() and waits for `ready` before it puts more.
 *
 * The agent opens the file and passes the descriptor; where it cannot, the bytes go through the
 * link.
 */
struct call;
struct sink;

struct sink_events {
	/* sink_is_busy() has become false. */
	void (*ready)(struct call *c);
	/* The file @path (absolute) is complete. */
	void (*stored)(struct call *c, const char *path);
	/* It has failed, and been answered. */
	void (*failed)(struct call *c);
};

/* Borrows @meta: attributes of every file, as struct proto_request has them. */
struct sink *sink_create(struct call *c, const struct sink_events *events, const struct buf *meta);
void sink_destroy(struct sink *s);

/* 0, or -ENOMEM. */
int sink_begin(struct sink *s, const char *path);
int sink_data(struct sink *s, const void *data, size_t len);
int sink_end(struct sink *s);
bool sink_is_busy(const struct sink *s);

#endif
