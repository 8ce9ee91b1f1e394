/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_LIMITS_H
#define WARD_BASE_LIMITS_H

/* Everything has a limit with a name. */
enum {
	ID_LEN = 12,                   /* characters of a sandbox id */
	WARD_PATH_MAX = 4096,          /* a host path, with its NUL */
	VSOCK_PATH_MAX = 107,          /* of --vsock: what a unix socket's name can have */
	MOUNTS_MAX = 32,               /* --mount options of one run */
	SOURCES_MAX = 16,              /* workspace sources of one run */
	LAYERS_MAX = 128,              /* layers of one template */
	LAYER_NAME_MAX = 7 + 64,       /* "sha256-" and the digest */
	ENV_VARS_MAX = 1024,           /* --env options and template variables together */
	ARGS_BYTES_MAX = 1 << 20,      /* argv + env of one command */
	FRAME_PAYLOAD_MAX = 64 * 1024, /* one frame of the agent protocol */
	SANDBOX_IDS = 65536,           /* host ids that one sandbox owns when ward runs as root */
	SLOTS_MAX = 16384,             /* sandboxes alive at one time in one state directory */
	AUDIT_LINE_MAX = 256 * 1024,   /* one line of the audit log */
	RECORD_BYTES_MAX = 64 * 1024,  /* the text of one slot or kept box */
	RECORD_COMMAND_MAX = 1024,     /* of that, the command; the rest of it is cut */
	UNDO_MAX = 64,                 /* things that one sandbox makes outside itself */
	TREE_DEPTH_MAX = 24,           /* directories open at once while a tree is deleted */
	TREE_SIZE_DEPTH_MAX = 256,     /* folders inside folders that a tree's size is counted in */
	CGROUP_DEPTH_MAX = 16,         /* nested cgroups below one sandbox's own */
	UNDO_WAIT_MS = 5000,           /* until the processes of a killed cgroup must be gone */
	AUDIT_LOCK_WAIT_MS = 5000,     /* for another ward that is appending */
	AUDIT_ROTATE_BYTES = 64 << 20, /* a longer log is set aside, and the chain goes on */
	PROBE_TIMEOUT_MS = 5000,       /* one question of `ward doctor` to the host */
	REPORT_BYTES_MAX = 256 * 1024, /* what a command prints with --json */
	DENIALS_MAX = 64,              /* different denied things remembered per run */
	UNKNOWN_CALLS_MAX = 64,        /* different unknown calls remembered per run */

	/* The agent and its protocol: docs/PROTOCOL.md */
	FLOW_WINDOW = 64 * 1024,      /* credit of a new stream, each way, unless told otherwise */
	FLOW_CREDIT_MAX = 1 << 30,    /* credit of one direction at one time */
	START_BYTES_MAX = 2 << 20,    /* one START over all its frames: args, env and their heads */
	START_STRINGS_MAX = 65536,    /* args and env of one START */
	PROTO_QUEUE_MAX = 8 << 20,    /* bytes a client keeps that the channel did not take yet */
	ENTRY_WINDOW_MIN = 32 * 1024, /* least window for streams of entries and events */
	AGENT_STREAMS_MAX = 512,      /* streams of one agent at one time */
	AGENT_PROCS_MAX = 256,        /* of these: processes started with START */
	AGENT_FILES_MAX = 64,         /* reads, writes, lists and removals */
	AGENT_WATCHES_MAX = 16,       /* watches */
	AGENT_DIALS_MAX = 128,        /* connections to ports inside */
	AGENT_WATCH_DIRS_MAX = 1024,  /* directories below one watch */
	AGENT_WALK_DEPTH_MAX = 128, /* directories into each other that a list or removal follows */
	AGENT_GROUPS_MAX = 64,      /* supplementary groups of one user */
	AGENT_PASSWD_BYTES_MAX = 1 << 20, /* of /etc/passwd and /etc/group inside */
	AGENT_EXIT_GRACE_MS = 100,        /* for output that a grandchild holds open */
	AGENT_KILL_MS = 5000,             /* from SIGKILL until the agent stops waiting */
	AGENT_CMDLINE_MAX = 4096,         /* bytes of a command line in a list of processes */

	/* The supervisor and its link: docs/SUPERVISOR.md */
	SUP_RING_BYTES = 256 * 1024,   /* replay buffer of one process, stdout and stderr */
	SUP_PROC_WINDOW = 64 * 1024,   /* of each, that may be on the way from the agent */
	SUP_PROCS_MAX = 256,           /* processes of START that run at one time */
	SUP_EXITS_MAX = 64,            /* ended ones that are remembered */
	SUP_EXIT_KEEP_MS = 30 * 1000,  /* how long at least, unless there are too many */
	SUP_EXIT_DROP_MS = 600 * 1000, /* how long at most, received or not */
	SUP_TOLD_MS = 2 * 1000, /* after which a daemon that was told of an exit has told it on */
	SUP_CALLS_MAX = 1024,   /* open calls of one link */
	SUP_CONFIG_MAX = 16 * 1024, /* args and env of a process that a list shows */
	SUP_QUEUE_HIGH = 1 << 20,   /* bytes for a daemon that does not read: then wait */
	SUP_STALL_MS = 30 * 1000,   /* for a daemon that reads nothing: then hang up */
	SUP_REQUEST_MAX = 4 << 20,  /* the request for one sandbox, in its memfd */
	SUP_EVENTS_MAX = 64,        /* last events in the end record */
	SUP_TAIL_BYTES = 8 * 1024,  /* last output in the end record */
	SUP_SAMPLES_MAX = 128,      /* points of the resource curve */
	LABEL_MAX = 256,            /* bytes of a process's tag */
	LINK_QUEUE_MAX = 4 << 20,   /* bytes for a supervisor that does not read */
	META_BYTES_MAX = 8 * 1024,  /* extended attributes of one file */

	/* Images and templates */
	TEMPLATE_NAME_MAX = 230,           /* bytes of a template's name or image reference */
	TEMPLATE_RECORD_MAX = 4 << 20,     /* one template record on disk */
	TEMPLATE_ARGS_MAX = 1024,          /* words of a template's start command */
	IMAGE_MANIFEST_MAX = 4 << 20,      /* bytes of an image manifest or index */
	IMAGE_CONFIG_MAX = 8 << 20,        /* bytes of an image configuration */
	IMAGE_INDEX_DEPTH_MAX = 4,         /* indexes inside indexes */
	IMAGE_INDEX_ENTRIES_MAX = 4096,    /* entries of one index */
	IMAGE_ENTRIES_MAX = 2000000,       /* files, folders and links of one image, all layers */
	IMAGE_FOLDER_BYTES_MAX = 64 << 20, /* the paths of one layer's folders, together */
	IMAGE_HEADER_MAX = 1 << 20,        /* bytes of headers before one entry of a layer */
	IMAGE_NAME_MAX = 4095,             /* bytes of the path of one entry */
	IMAGE_MEMBERS_MAX = 4096,          /* files in an image archive */
	REGISTRY_REDIRECTS_MAX = 5,        /* redirects followed for one request */
	REGISTRY_TOKEN_MAX = 64 * 1024,    /* bytes of a token, or of the answer that holds it */
	REGISTRY_CONFIG_MAX = 1 << 20,     /* bytes of the file with registry credentials */
	IMAGE_TREE_DEPTH_MAX = 256,        /* folders inside folders, of a layer */
};

/* Bytes of one image, unpacked; --max-size says otherwise. */
#define IMAGE_BYTES_MAX (32ULL << 30)
#define IMAGE_BYTES_CEILING (1ULL << 50) /* more than this cannot be asked for */

#endif
