/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PROTO_CLIENT_H
#define WARD_PROTO_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proto/flow.h"
#include "proto/frame.h"
#include "proto/proto.h"

enum { PROTO_FDS_MAX = 16 }; /* descriptors that came and were not taken yet */

/*
 * The host's end of an agent's channel. Nothing here waits: what cannot be sent at once is queued
 * (up to PROTO_QUEUE_MAX bytes), what has not arrived is "nothing now". The agent is not trusted:
 * everything it says is checked, numbers are in range, texts are printable.
 *
 * Every send returns 0 (sent or queued) or a negative errno: -ENOBUFS when the queue is full,
 * -EPIPE when the agent is gone: what it said before can still be received then, an EXIT perhaps,
 * so go on receiving until that says -ENOTCONN.
 */
struct proto_conn {
	int fd;       /* borrowed */
	bool deaf;    /* sending has failed; what it said before can still be received */
	bool broken;  /* it broke the protocol */
	uint8_t *out; /* what could not be sent yet; NULL for most of a life */
	size_t out_at, out_len, out_cap;
	/* Descriptors of OPENED with OPENED_FD, when the owner has set takes_fds; else the kernel
	 * drops what an agent sends along. */
	bool takes_fds;
	unsigned fd_count;
	int fds[PROTO_FDS_MAX];
	struct frame_reader in; /* large; untouched until something arrives */
};

/* Borrows @fd, a stream socket; its O_NONBLOCK does not matter. */
void proto_conn_init(struct proto_conn *c, int fd);
void proto_conn_done(struct proto_conn *c);
/* Poll for POLLOUT too, and call proto_conn_flush() then. */
static inline bool proto_conn_wants_write(const struct proto_conn *c)
{
	return c->out_len > c->out_at;
}
int proto_conn_flush(struct proto_conn *c, struct err *e);

struct proto_start {
	uint32_t stream;         /* not 0, and not in use */
	uint16_t flags;          /* START_*, without START_MORE */
	const char *const *argv; /* NULL-terminated, at least one */
	const char *const *env;  /* "K=V", NULL-terminated; NULL: none */
	const char *cwd;         /* NULL: the agent's own, "/" */
	const char *user;        /* "0", "1000:100", "name", "name:group"; NULL: the agent's own */
	uint16_t rows, cols;     /* START_PTY; 0: the terminal's default */
	uint32_t window; /* bytes of stdout, and of stderr, to send unasked; 0: FLOW_WINDOW */
};

/*
 * START. @fds: three descriptors with START_STDIO_FDS, borrowed and free to close after; else none.
 * With descriptors nothing may be queued before it: send it first. -E2BIG: args and env together
 * are more than ARGS_BYTES_MAX.
 */
int proto_send_start(struct proto_conn *c, const struct proto_start *s, const int *fds,
	unsigned fd_count, struct err *e);
int proto_send_signal(struct proto_conn *c, uint32_t stream, int sig, bool group, struct err *e);
int proto_send_resize(
	struct proto_conn *c, uint32_t stream, unsigned rows, unsigned cols, struct err *e);
/* Stdin, bytes of a file, bytes to a port. At most what flow_take() on that stream's flow allows.
 */
int proto_send_data(
	struct proto_conn *c, uint32_t stream, const void *data, size_t len, struct err *e);
int proto_send_end(struct proto_conn *c, uint32_t stream, struct err *e); /* closes stdin, ... */
/* Nobody reads the process's stdout (or stderr) any more; the next write there breaks. */
int proto_send_close(struct proto_conn *c, uint32_t stream, bool of_stderr, struct err *e);
/* @bytes from flow_give(), nothing is sent for 0; @of_stderr: those of a process's stderr. */
int proto_send_credit(
	struct proto_conn *c, uint32_t stream, bool of_stderr, uint32_t bytes, struct err *e);
int proto_send_cancel(struct proto_conn *c, uint32_t stream, struct err *e);
int proto_send_hello(struct proto_conn *c, struct err *e);
int proto_send_shutdown(struct proto_conn *c, uint32_t grace_ms, struct err *e);

/* The requests about files, processes and ports; a field that is 0 or NULL is not sent. */
struct proto_request {
	enum proto_type type; /* PROCS, ADOPT, READ, WRITE, STAT, LIST, MKDIR, REMOVE, RENAME,
				 WATCH, DIAL */
	uint32_t stream;
	uint16_t flags; /* FILE_*, DIAL_* */
	/* @user: the owner of what is made; with FILE_HOME also whose home paths start from. */
	const char *path, *to, *user;
	uint64_t offset, length;
	uint32_t mode, depth, port, window;
	bool has_mode; /* send @mode though it is 0 */
	/* WRITE: replaces all attributes below META_PREFIX: "name=value", each ending in NUL. With
	 * has_meta and no bytes: removes them. */
	const char *meta;
	uint32_t meta_len;
	bool has_meta;
};

int proto_send_request(struct proto_conn *c, const struct proto_request *q, struct err *e);
/* Only its fields, into @m; for those who send them on another way. */
struct msg;
int proto_put_request(struct msg *m, const struct proto_request *q, struct err *e);
/* A frame of a client that was checked by somebody else, as it is. */
int proto_send_raw(struct proto_conn *c, uint16_t type, uint16_t flags, uint32_t stream,
	const void *data, size_t len, struct err *e);

enum { PROTO_TEXT = 200 };

struct proto_exit {
	bool signaled;
	int code; /* exit status 0..255, or the signal 1..64 */
	uint64_t user_us, system_us, peak_kb;
	uint64_t oom_kills, pids_refused; /* so far, of all; an agent that cannot know says 0 */
};

struct proto_failed {          /* ERROR and START_FAILED */
	int code;              /* an errno value, 1..4095 */
	bool soft;             /* ERROR: the stream goes on */
	enum start_step step;  /* START_FAILED */
	char text[PROTO_TEXT]; /* printable, one line; may be empty */
};

struct proto_file { /* OK of STAT, OPENED of READ and WRITE, ENTRY of LIST, EVENT of WATCH */
	enum file_kind kind;     /* with FILE_FULL a symlink's target's, unless there is none */
	uint32_t mode, uid, gid; /* mode: permission bits */
	uint64_t size, mtime_ns;
	const char *name; /* relative to the listed directory: no "..", not absolute; NULL: none */
	const char *link; /* a symlink's target, with FILE_FULL resolved; NULL: it is no symlink */
	const char *path; /* FILE_HOME: the absolute path that was meant; NULL: not asked */
	const char *owner, *group; /* FILE_FULL: names; NULL: the number has none */
	const char *meta; /* FILE_FULL: "name=value", each ending in NUL, without META_PREFIX */
	uint32_t meta_len;
};

struct proto_process { /* ENTRY of PROCS */
	uint32_t pid, ppid, uid;
	uint32_t stream; /* 0: not started by a START of this channel */
	char state;      /* as ps shows it */
	const char *name;
	const char *cmdline; /* arguments, each ending in NUL; not otherwise checked */
	uint32_t cmdline_len;
};

/* One message of the agent. Pointers are good until the next proto_conn_receive(). */
struct proto_event {
	enum proto_type
		type; /* HELLO OK ERROR OPENED DATA END CREDIT ENTRY START_FAILED EXIT EVENT */
	uint32_t stream;
	uint16_t flags;     /* of the head, checked */
	const uint8_t *raw; /* the payload as it came, checked */
	uint32_t raw_len;
	bool of_stderr;      /* DATA, END */
	bool has_file;       /* OK, OPENED, ENTRY: @file is filled */
	bool has_process;    /* ENTRY: @process is filled */
	uint32_t version;    /* HELLO */
	uint32_t pid;        /* OPENED of START and ADOPT; of the latter also process.cmdline */
	bool has_fd;         /* OPENED: the next of proto_conn_take_fd() belongs to it */
	uint64_t bytes;      /* CREDIT; OK of WRITE: how much is in the file */
	uint32_t cost;       /* DATA, ENTRY, EVENT: what it takes of the stream's credit */
	const uint8_t *data; /* DATA */
	uint32_t data_len;
	struct proto_exit exit;
	struct proto_failed failed;
	struct proto_file file;
	struct proto_process process;
	enum file_change change; /* EVENT */
	const char *name;        /* EVENT: relative to the watched directory; "" is itself */
};

/*
 * The next message. 1: @ret is filled. 0: nothing now. -ENOTCONN: the agent has closed the channel.
 * -EPROTO: it broke the protocol, and nothing of it can be believed any more.
 */
int proto_conn_receive(struct proto_conn *c, struct proto_event *ret, struct err *e);
/* After an event with has_fd: its descriptor, the caller's; -1 when none came. */
int proto_conn_take_fd(struct proto_conn *c);

/* The exit status that a shell would give for a start that failed: 127 not found, 126 not
 * executable, 125 for anything else. */
int proto_failed_status(const struct proto_failed *f);

#endif
