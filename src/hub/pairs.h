/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_PAIRS_H
#define WARD_HUB_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

#include "db/db.h"
#include "hub/hub.h"

/*
 * Pairs of texts in one piece of memory, as they lie in the database too: key NUL value NUL ... A
 * second piece holds pointers into it.
 */
struct pairs {
	char *bytes;
	size_t len;
	struct hub_pair *list;
	unsigned count;
};

/* Copies. -E2BIG past @max_count or @max_bytes. */
int pairs_make(struct pairs *p, const struct hub_pair *list, unsigned count, unsigned max_count,
	size_t max_bytes);
/* -EBADMSG when it is not what pairs_make() wrote. An absent blob is no pairs. */
int pairs_read(struct pairs *p, struct db_blob blob);
void pairs_done(struct pairs *p);
struct db_blob pairs_blob(const struct pairs *p);
/* Are all of @want in @p, with the same values? */
bool pairs_have(const struct pairs *p, const struct hub_pair *want, unsigned count);
/* The value of a key, or NULL. */
const char *pairs_get(const struct pairs *p, const char *key);

/* Network settings as one blob, through the same encoding. */
struct network {
	struct pairs pairs;
	struct hub_network view; /* points into pairs and lists */
	const char **lists;
};
int network_make(struct network *n, const struct hub_network *from);
int network_read(struct network *n, struct db_blob blob);
void network_done(struct network *n);

#endif
