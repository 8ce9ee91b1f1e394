/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_PROXY_IMPL_H
#define WARD_WIRE_PROXY_IMPL_H

#include "base/buf.h"
#include "wire/h1.h"
#include "wire/proxy.h"
#include "wire/server.h"

/* Between proxy.c and proxy_head.c. */

/* Is it a header that describes one connection and not the message? */
bool proxy_is_hop(const char *name);
/* The head of the request for the far side. -ENOMEM (too long counts as that) or -EINVAL. */
int proxy_write_head(
	struct buf *b, const struct wire_req *q, const struct wire_proxy_options *options);
/* Adds the far side's headers to the reply. */
void proxy_copy_headers(struct wire_req *q, const struct h1_head *h);

#endif
