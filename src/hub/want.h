/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_WANT_H
#define WARD_HUB_WANT_H

#include "hub/hub_impl.h"

/* A request to create, with everything that is not in it filled from ward.toml, and checked. */
struct want {
	const struct hub_caller *who;
	const struct hub_create *req;
	struct tenant *tenant; /* NULL: for a pool */
	const char *asked;
	char used[TEMPLATE_NAME_MAX + 1];
	struct config_sandbox says;
	enum wall tier;
	const char *tier_by;     /* "": policy chooses */
	const char *accept_risk; /* NULL: none */
	char risk[400];
	struct traits traits;
	struct plan_limits limits;
	enum net_mode net;
	int64_t timeout_ms;
	struct plan_mount mounts[MOUNTS_MAX];
	char (*mount_paths)[WARD_PATH_MAX]; /* mount_count of them; free() */
	const struct snap_from *from;       /* NULL: it starts from its template */
	struct snap_from opened;            /* where that may lie */
};

/* Checks what can be checked without a sandbox. On failure nothing needs want_done(). */
int want_make(struct hub *hub, const struct hub_caller *who, const struct hub_create *req,
	struct want *w, struct hub_fail *f);
void want_done(struct want *w);
/* Can a sandbox that was started for nobody in particular become this one? */
bool want_fits_pool(const struct hub *hub, const struct want *w);
/*
 * What cannot be changed about a sandbox once it is made, as one text: the wall, the network, and
 * the limits that ward.toml gave it. One that waits in a pool carries it as its metadata, so that a
 * claim gets what it would get cold, whatever was reloaded or restarted in between.
 */
enum { WANT_MOLD_MAX = 200 };
void want_mold(const struct want *w, char out[WANT_MOLD_MAX]);
/* What the request says about a sandbox, into @sb. */
int want_fill(const struct want *w, struct sandbox *sb, struct hub_fail *f);

#endif
