/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_LIMITS_H
#define WARD_BASE_LIMITS_H

/* Everything has a limit with a name. */
enum {
	ID_LEN = 12,                    /* characters of a sandbox id */
	WARD_PATH_MAX = 4096,           /* a host path, with its NUL */
	MOUNTS_MAX = 32,                /* --mount options of one run */
	SOURCES_MAX = 16,               /* workspace sources of one run */
	LAYERS_MAX = 128,               /* layers of one template */
	ENV_VARS_MAX = 1024,            /* --env options and template variables together */
	ARGS_BYTES_MAX = 1 << 20,       /* argv + env of one command */
	FRAME_PAYLOAD_MAX = 64 * 1024,  /* one frame of the agent protocol */
	SANDBOX_IDS = 65536,            /* host ids that one sandbox owns when ward runs as root */
	SLOTS_MAX = 16384,              /* sandboxes alive at one time in one state directory */
	AUDIT_LINE_MAX = 256 * 1024,    /* one line of the audit log */
	REPORT_BYTES_MAX = 256 * 1024,  /* what a command prints with --json */
	PROBE_TIMEOUT_MS = 5000,        /* one question of `ward doctor` to the host */
	DENIALS_MAX = 64,               /* different denied things remembered per run */
};

#endif
