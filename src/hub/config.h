/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_CONFIG_H
#define WARD_HUB_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "plan/plan.h"
#include "plan/wall.h"

/*
 * ward.toml, checked. Every key is a row of the table in config.c and a paragraph of
 * man/ward.toml.5. Texts belong to the struct.
 */
enum {
	CONFIG_LISTEN_MAX = 8,
	CONFIG_TEMPLATES_MAX = 128,
	CONFIG_ALIASES_MAX = 128,
	CONFIG_ROOTS_MAX = 32,
};

/* What a sandbox gets that asked for nothing; of a template: 0, NULL or -1 where it says nothing.
 */
struct config_sandbox {
	enum wall tier; /* WALL_NONE: policy decides */
	char *accept_risk;
	struct plan_limits limits;
	int net;            /* enum net_mode; -1: nothing said */
	int64_t timeout_ms; /* -1: nothing said */
	char *user, *workdir;
};

struct config_template {
	char *name; /* after [alias] */
	struct config_sandbox says;
};

struct config_alias {
	char *from, *to;
};

struct config_list {
	char *items[CONFIG_ROOTS_MAX];
	unsigned count;
};

struct config {
	/* [serve] */
	struct config_list listen; /* "127.0.0.1:7700" */
	char *domain;              /* NULL: from the first listener */
	char *tls_cert, *tls_key;
	char *log; /* "info" */
	int64_t grace_ms;
	bool tenants_many;

	/* [sandbox] */
	struct config_sandbox sandbox;
	char *template;
	int64_t timeout_max_ms;
	bool allow_no_timeout;

	/* [quota]: of a tenant about which nothing else was said; 0: no limit */
	int64_t quota_sandboxes, quota_memory, quota_cpu_milli, quota_creates_micro;
	int64_t quota_snapshots, quota_snapshot_disk;
	int64_t boxes_max; /* of the whole daemon */

	/* [mounts] */
	struct config_list roots, roots_rw;

	/* [keep] */
	int64_t keep_count, keep_age_ms;

	/* [pool] */
	int64_t pool_idle_ms;
	bool snapshot_prefetch; /* [snapshot] */
	int64_t pool_empty;     /* of each tier, at most; 0: none */

	struct config_template templates[CONFIG_TEMPLATES_MAX];
	unsigned template_count;
	struct config_alias aliases[CONFIG_ALIASES_MAX];
	unsigned alias_count;
};

/* The defaults, without any file. */
int config_defaults(struct config **ret, struct err *e);
/* Over the defaults. @text is a whole file. */
int config_read(const char *file, const char *text, size_t len, struct config **ret, struct err *e);
/* The same from disk. -ENOENT when it is not there. The file must not be writable by others. */
int config_load(const char *file, struct config **ret, struct err *e);
void config_destroy(struct config *c);

/* What a name in a request means: follows [alias]. */
const char *config_alias(const struct config *c, const char *name);
/* What ward.toml says about a template (after alias) over [sandbox]; @ret borrows its texts.
 * @ret_by: who named the tier, "" when nobody did. */
void config_for(const struct config *c, const char *template, struct config_sandbox *ret,
	const char **ret_by);

/* "10/s", "0.5/s", "30/m", "100/h": per 1,000,000 seconds. */
int parse_rate(const char *text, int64_t *ret_micro);

#endif
