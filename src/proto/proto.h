/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PROTO_PROTO_H
#define WARD_PROTO_PROTO_H

/*
 * The numbers of the agent protocol. docs/PROTOCOL.md says what they mean; the two tables are
 * messages.def and tags.def. Messages from 256 and tags from 64 on are the supervisor's:
 * docs/SUPERVISOR.md.
 */
enum { PROTO_VERSION = 1 };

enum proto_type {
#define MESSAGE(id, number, who, what) PROTO_##id = number,
#include "proto/messages.def"
#undef MESSAGE
};

enum proto_tag {
#define TAG(id, number, kind) TAG_##id = number,
#include "proto/tags.def"
#undef TAG
	TAG_MAX = 64, /* those of the agent are below it, the supervisor's own are not */
	TAG_END = 128,
};

/* Extended attributes that META shows and sets: META_PREFIX and a name of its own. */
#define META_PREFIX "user.e2b."

/* The head's flags; each has a meaning for its own messages only, all others must be 0. */
enum {
	ERROR_SOFT = 1, /* ERROR: the stream goes on */

	DATA_ERR = 1, /* DATA, END, CREDIT: of the process's stderr */
	END_OUT = 2,  /* END to the agent: nobody reads the process's stdout any more */

	START_PTY = 1, /* a terminal for stdin, stdout and stderr */
	START_STDIO_FDS =
		2,      /* three descriptors came with the frame: they are stdin, stdout, stderr */
	START_LAST = 4, /* when this process ends, so does the agent */
	START_MORE = 8, /* the fields go on in the next START frame of this stream */
	START_NULL_STDIN = 16, /* pipes: stdin is /dev/null */
	START_HOME = 32,       /* CWD as USER means it; without: home, or "/" when there is none */
	START_DRAIN = 64,      /* pipes: EXIT waits until nobody has stdout or stderr open */
	START_MAKE_CWD = 128,  /* CWD, where it is missing, is made */

	OPENED_FD = 1,    /* OPENED: a descriptor came with the frame */
	OPENED_PTY = 2,   /* OPENED of ADOPT, ATTACH: it has a terminal */
	OPENED_STDIN = 4, /* OPENED of ADOPT: its stdin is open */

	SIGNAL_GROUP = 1, /* to the process group that the process leads */

	FILE_PARENTS = 1,    /* WRITE, MKDIR, RENAME: make the missing directories above */
	FILE_APPEND = 2,     /* WRITE: at the end, keep what is there */
	FILE_NEW = 4,        /* WRITE, MKDIR: fail when it exists */
	FILE_NOFOLLOW = 8,   /* STAT: the link itself */
	FILE_RECURSIVE = 16, /* REMOVE, WATCH: and all below */
	FILE_FULL = 32,      /* names of the owners, META; a symlink tells what it leads to */
	FILE_HOME = 64,      /* paths as USER means them: "", "~", relative ones are at home */
	FILE_PASS_FD = 128,  /* READ, WRITE: OPENED brings the open file, and OK follows */

	DIAL_V6 = 1, /* [::1] instead of 127.0.0.1 */
};

/* TAG_STEP of START_FAILED: where a start stopped. */
enum start_step { START_STEP_SETUP = 1, START_STEP_CWD, START_STEP_USER, START_STEP_EXEC };

/* TAG_KIND: what a path is. */
enum file_kind {
	FILE_REGULAR = 1,
	FILE_DIRECTORY,
	FILE_SYMLINK,
	FILE_FIFO,
	FILE_SOCKET,
	FILE_CHAR_DEVICE,
	FILE_BLOCK_DEVICE,
};

/* TAG_CHANGE of EVENT. */
enum file_change {
	CHANGE_CREATED = 1, /* made, or moved in */
	CHANGE_WRITTEN,
	CHANGE_REMOVED,
	CHANGE_MOVED_AWAY,
	CHANGE_ATTRIBUTES,
	CHANGE_LOST, /* the kernel dropped some: look again */
};

#endif
