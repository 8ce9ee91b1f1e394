/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_WATCH_H
#define WARD_FRONT_E2B_WATCH_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "front/jin.h"
#include "proto/client.h"

/* {"path", "recursive", "includeEntry", "allowNetworkMounts"}; the path is borrowed from @doc. */
int watch_read(const struct jin *doc, struct proto_request *ret, bool *ret_entry, struct err *e);

/*
 * One change as {"name", "type", "entry"?} under @key. False, and nothing is written, for changes
 * that clients have no word for. @root: what is watched, absolute, for the entry's path.
 */
bool watch_json(struct buf *b, const char *key, const char *root, const struct proto_event *ev,
	bool with_entry);

#endif
