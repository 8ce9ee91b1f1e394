/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_REST_SHAPES_H
#define WARD_FRONT_REST_SHAPES_H

#include <stdbool.h>

#include "base/buf.h"
#include "hub/hub.h"

struct call;
struct jin;
struct wish;

/* Copies the id of the path into call->id; false: answered. */
bool rest_id(struct call *c);
/* That, and as whom: ?user=, else the sandbox's own. False: answered. */
bool rest_box(struct call *c);

/* What a request to create says, from @doc, which it borrows; NULL with @e. */
struct wish *wish_read(const struct jin *doc, struct err *e);
struct hub_create *wish_create(struct wish *w); /* for hub_create(); part of @w */
void wish_destroy(struct wish *w);

/* Objects of ward's own API; docs/API.md. @key is NULL inside a list and at the top. */
void rest_json_box(struct buf *b, const char *key, const struct hub_box *box);
void rest_json_sample(struct buf *b, const char *key, const struct hub_sample *s);
void rest_json_time(struct buf *b, const char *key, int64_t us); /* 0 is null */

#endif
