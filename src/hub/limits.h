/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_LIMITS_H
#define WARD_HUB_LIMITS_H

enum {
	HUB_LIST_MAX = 100,             /* sandboxes in one page */
	HUB_METADATA_MAX = 64,          /* pairs of one sandbox */
	HUB_METADATA_BYTES_MAX = 16384, /* all of them together */
	HUB_ENV_MAX = 512,              /* variables of one sandbox */
	HUB_ENV_BYTES_MAX = 256 * 1024, /* all of them together */
	HUB_NETWORK_RULES_MAX = 256,    /* names and addresses, each way */
	HUB_NETWORK_BYTES_MAX = 32768,  /* of what a front keeps about the network */
	HUB_BOXES_MAX = 4096,           /* live sandboxes of one daemon */
	HUB_EVENTS_KEPT = 1024,         /* in the ring that subscribers read from */
	HUB_SUBSCRIBERS_MAX = 64,       /* event streams open at one time, */
	HUB_SUBSCRIBERS_EACH = 16,      /* and of one tenant: the rest is for others */
	HUB_CALLS_MAX = 16384,          /* verbs under way */
	HUB_SAMPLES_KEPT = 60,          /* of one sandbox's curve, in the daemon */
	HUB_AUDIT_LINES_MAX = 1000,     /* lines of one look at the audit log */
	HUB_REASON_MAX = 200,           /* bytes of a reason */
	HUB_POOLS_MAX = 64,             /* pools of one daemon */
	HUB_POOL_SIZE_MAX = 1024,       /* sandboxes of one pool */
	HUB_EMPTY_MAX = 64,             /* empty sandboxes of one tier */
	HUB_WARM_UP_MAX = 4096,         /* bytes of a warm-up command */
	HUB_WARM_UP_MS = 120 * 1000,    /* until a warm-up command must be over */
	HUB_SNAP_NAME_MAX = 128,        /* bytes of a snapshot's name */
	HUB_FORKS_MAX = 64,             /* of one sandbox at one time */
	HUB_START_MS = 60 * 1000,       /* until a new supervisor must have answered */
	HUB_ANSWER_MS = 30 * 1000,      /* until a supervisor must have answered anything else */
	HUB_FOUND_MS = 10 * 1000,       /* until one must have answered after a restart */
};

#endif
