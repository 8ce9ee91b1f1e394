/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_MULTIPART_H
#define WARD_WIRE_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Reads multipart/form-data (RFC 7578) as it arrives, in bounded memory.
 */
struct multipart;

struct multipart_part {
	const char *name;     /* %22, %0D and %0A are decoded; "" when there is none */
	const char *filename; /* likewise, whole, with its folders; NULL when there is none */
	const char *type;     /* Content-Type, or NULL */
};

/* Any may return a negative errno, which ends the reading and comes out of multipart_feed(). */
struct multipart_events {
	int (*begin)(void *ctx, const struct multipart_part *part);
	int (*data)(void *ctx, const void *data, size_t len);
	int (*end)(void *ctx);
};

/* @content_type is the header's value. -EINVAL: not multipart/form-data with a legal boundary. */
int multipart_create(const char *content_type, const struct multipart_events *events, void *ctx,
	struct multipart **ret);
void multipart_destroy(struct multipart *m);
/* 0; -EPROTO: malformed; -E2BIG: a limit (head of a part, number of parts); or a callback's. */
int multipart_feed(struct multipart *m, const void *data, size_t len);
/* At the end of the body: 0, or -EPROTO when the last boundary has not been seen. */
int multipart_finish(struct multipart *m);

#endif
