/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_LIMITS_H
#define WARD_FRONT_LIMITS_H

/* What the fronts accept and send; what the layers below limit is not repeated here. */
enum {
	FRONT_JSON_MAX = 1 << 20,        /* bytes of a JSON body */
	FRONT_RPC_MAX = 4 << 20,         /* bytes of an RPC message: stdin comes in one of them */
	FRONT_JSON_DEPTH = 32,           /* objects and arrays inside each other */
	FRONT_JSON_VALUES = 16384,       /* values of one document: each costs up to 130 bytes */
	FRONT_PAIRS_MAX = 256,           /* entries of one map: metadata, envs */
	FRONT_TEXT_MAX = 64 * 1024,      /* one value of such a map */
	FRONT_ARGS_MAX = 4096,           /* arguments of a command */
	FRONT_LIST_MAX = 100,            /* sandboxes on one page */
	FRONT_CHUNK = 32 * 1024,         /* output bytes in one message of a stream */
	FRONT_FILE_WINDOW = 512 * 1024,  /* bytes of a file on their way, where it goes as frames */
	FRONT_OUT_HIGH = 256 * 1024,     /* bytes that a client has not read: its source waits */
	FRONT_ENTRIES_MAX = 50000,       /* entries of one directory listing */
	FRONT_LISTING_MAX = 16 << 20,    /* bytes of one listing; below WIRE_REPLY_MAX */
	FRONT_WATCHERS_MAX = 16,         /* polled watchers of one sandbox */
	FRONT_WATCH_QUEUE_MAX = 4096,    /* events that one of them keeps */
	FRONT_WATCH_BYTES_MAX = 1 << 20, /* and their bytes */
	FRONT_WATCHED_MAX = 32 << 20,    /* bytes of such events of all sandboxes together */
	FRONT_METADATA_BYTES_MAX = 4096, /* X-Metadata-* of one file, keys and values */
	FRONT_METADATA_KEY_MAX = 246,    /* what a name of an extended attribute leaves */
	FRONT_KEEPALIVE_S = 90,          /* of silence on a stream, unless the client says */
	FRONT_KEEPALIVE_S_MAX = 290,     /* clients give up after 300 s */
	FRONT_KEY_AGAIN_MS = 1000,       /* how often a request that lasts shows its key */
	FRONT_CONTEXTS_MAX = 32,         /* of the code interpreter, per sandbox */
	FRONT_CELL_MAX = 4 << 20,        /* bytes of one piece of code */
	FRONT_LINE_MAX = 8 << 20,        /* one line that a driver says: a large picture */
	FRONT_LINES_MAX = 64 << 20,      /* what is kept of such lines, of all sandboxes together */
	FRONT_CELL_QUEUE_MAX = 64,       /* executions that wait for a context */
};

/* A file in an upload; disks have their own limits. */
#define FRONT_FILE_MAX (1ULL << 40)

#endif
