/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_STATE_H
#define WARD_AGENT_STATE_H

#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"
#include "proto/flow.h"
#include "proto/frame.h"
#include "proto/msg.h"

/*
 * The agent's state: one zeroed mapping of fixed size. Parts that a small run never uses stay
 * untouched pages. Inside src/agent only.
 */
enum {
	OUT_BYTES = 256 * 1024,  /* frames that the channel did not take yet */
	OUT_RESERVE = 32 * 1024, /* kept free of data, for replies; more than any one of them */
	CHILD_STACK = 62 * 1024, /* between clone and exec; not whole pages, see struct agent */
	STANDBY_STACK = 12 * 1024,
	STDIO = 3,
	PASSED_MAX = 2, /* sets of descriptors whose START has not been read whole */
	GIVES_MAX = 16, /* descriptors on their way to the client */
	NAMES_MAX = 16, /* users and groups whose names are remembered */
	STRINGS_SMALL =
		FRAME_PAYLOAD_MAX / 7 + 8, /* args and env that fit into one frame, and more */
	POLLS_MAX = 2 + 3 * AGENT_STREAMS_MAX,
};

struct agent;
struct identity;
struct keeper;
struct spawn;
struct stream;

enum stream_kind {
	STREAM_FREE,
	STREAM_PROCESS,
	STREAM_FILE, /* read, write, list, remove, list of processes */
	STREAM_WATCH,
	STREAM_DIAL,
	STREAM_KINDS
};

/* What a kind of stream does. Any slot but done may be empty. */
struct stream_ops {
	enum stream_kind kind;
	bool cancels; /* CANCEL closes it; without this CANCEL is refused */
	/* Does what needs no waiting; true: there is more to do at once. */
	bool (*work)(struct agent *a, struct stream *s);
	/* Says with agent_poll() what to wait for; ready() is called when it comes. */
	void (*want)(struct agent *a, struct stream *s);
	void (*ready)(struct agent *a, struct stream *s, unsigned which, short events);
	/* DATA of the client, within its credit. */
	void (*data)(struct agent *a, struct stream *s, const uint8_t *data, uint32_t len);
	void (*end)(struct agent *a, struct stream *s);
	/* Lets go of everything. */
	void (*done)(struct stream *s);
};

/* One way out of a stream: stdout, stderr, a socket. */
struct outlet {
	int fd;
	bool open; /* END has not been sent */
	struct flow flow;
	uint32_t due; /* bytes that were in the pipe when the process ended */
};

/* Bytes of the client that the other side did not take yet: FLOW_WINDOW of them at most. */
struct pending {
	uint8_t *mem;
	uint32_t at, len;
};

struct process {
	pid_t pid;
	bool pty, fds, last, exited;
	bool drain; /* after exit: output is waited for without a limit */
	int status;
	struct rusage used;
	uint64_t deadline_ns; /* after exit: when to stop waiting for output */
};

struct stream {
	uint32_t id;
	const struct stream_ops *ops; /* NULL: the slot is free */
	int in_fd;                    /* stdin, a file to write, a socket; -1 */
	bool in_end;                  /* END has come */
	struct flow in;
	struct pending pending;
	struct outlet out[2];
	union {
		struct process proc;
		uint64_t left;  /* READ: bytes still to send */
		uint64_t bytes; /* WRITE: bytes written */
		struct walk *walk;
		struct watch *watch;
		struct listing *listing;
		bool connected; /* DIAL */
	};
};

struct passed {
	int fds[STDIO];
	unsigned count;
};

/* The name of a uid or gid; "" when it has none. */
struct name {
	bool known, group;
	uint32_t id;
	char text[64];
};

/* A START whose fields come in several frames. */
struct parts {
	uint8_t *mem;
	size_t len;
	uint32_t stream;
	uint16_t flags;
	struct passed passed;
	bool active;
};

/* Descriptors of the next command; -1: none. */
struct spare {
	int null, pipes[2][2];
};

/* The process that waits for the first command: standby.c. */
struct standby {
	uint8_t stack[STANDBY_STACK] __attribute__((aligned(16)));
	bool wanted; /* one may be made, still */
	pid_t pid;   /* 0: there is none */
	uint32_t word;
	int out[2]; /* our ends of its stdout and stderr */
	struct spawn *spawn;
	cpu_set_t cpus; /* that it may run on; none: not known */
	bool held;      /* to one of them */
	bool batch;     /* for as long as it waits */
};

struct agent {
	/* Its upper end lies beside what every run touches. */
	uint8_t child_stack[CHILD_STACK] __attribute__((aligned(16)));
	int channel;
	pid_t pid;
	bool not_init;
	/* NULL: not ours to say. */
	void (*limits)(void *arg, uint64_t *ret_oom_kills, uint64_t *ret_pids_refused);
	void *limits_arg;
	bool over;             /* leave the loop: flush, and end */
	bool dead;             /* the channel is gone: nothing left to flush */
	bool stalled;          /* frames wait in the reader until there is room to answer */
	bool starved;          /* somebody had more to send than there was room for */
	bool childless;        /* the last wait found no child at all */
	bool closing, killed;  /* SHUTDOWN */
	bool outside;          /* of the cgroup that a snapshot freezes: see keeper_enter() */
	struct keeper *keeper; /* NULL: this is no machine */
	bool stays;            /* the client asks for more than one command */
	struct spare spare;
	struct standby standby;
	int status;
	uint64_t closing_ns; /* SHUTDOWN: when to go from SIGTERM to SIGKILL, then to leave */
	uint64_t adopt_ns; /* until then processes without a client wait for one; 0: not any more */
	uint64_t wake_ns;  /* the next time to look even if nothing happens; 0: none */
	uint32_t got;      /* bytes of the last receive */
	unsigned bulk_turns; /* receives without a ppoll before them */
	unsigned turn, top;  /* streams in use are below @top */
	unsigned poll_count;
	unsigned passed_count;
	struct passed passed[PASSED_MAX];
	struct parts parts;
	uint32_t out_at, out_len;
	uint64_t out_count; /* bytes ever put into out[] */
	struct {
		uint64_t at; /* goes with this byte */
		int fd;
	} gives[GIVES_MAX];
	unsigned give_count;
	bool untouched; /* nobody has changed a file: there was no command, and no request to */
	unsigned names_turn;
	uint64_t names_stamp;
	struct name names[NAMES_MAX];
	char last_user[64]; /* as it was written; "": none */
	struct identity *last_who;

	struct stream streams[AGENT_STREAMS_MAX];
	struct frame_reader in;
	uint16_t poll_stream[POLLS_MAX];
	uint8_t poll_which[POLLS_MAX];
	struct pollfd polls[POLLS_MAX];
	char *strings[STRINGS_SMALL];
	uint8_t out[OUT_BYTES];
};

/* A request, checked: flags and fields are those that its row in dispatch.c allows. */
struct request {
	uint32_t id;
	uint16_t type, flags;
	const struct values *v;
	const struct frame *frame;
};

/* agent.c */
void agent_poll(struct agent *a, struct stream *s, unsigned which, int fd, short events);
void agent_wake_at(struct agent *a, uint64_t ns);
void agent_break(struct agent *a); /* the client broke the protocol: the end */

/* adopt.c */
void streams_leave(struct agent *a); /* their client is gone; processes stay, without a number */

/* renew.c */
/* The keeper has something to say. Comes back when everybody may run; perhaps in a copy. */
void keeper_serve(struct agent *a);
/* Before something is started: it must be frozen with the others the next time. */
void keeper_enter(struct agent *a);

/* dispatch.c */
void dispatch(struct agent *a, const struct frame *f);

/* stream.c */
struct stream *stream_find(struct agent *a, uint32_t id);
/* A new stream with no descriptors and full windows; NULL with @e: too many of that kind. */
struct stream *stream_open(
	struct agent *a, uint32_t id, const struct stream_ops *ops, uint32_t window, struct err *e);
unsigned stream_count(const struct agent *a, enum stream_kind kind);
void stream_close(struct agent *a, struct stream *s);
/* Closes it with its final frame: OK, or ERROR when there is @e. */
void stream_finish(struct agent *a, struct stream *s, const struct err *e);
/* Zeroed memory for one stream's use, and its end; NULL: there is none. */
void *room_take(size_t len);
void room_free(void *p, size_t len);

/* out.c */
bool out_ready(struct agent *a);      /* any one reply fits */
bool out_data_ready(struct agent *a); /* and some data too */
void out_begin(
	struct agent *a, struct msg *m, enum proto_type type, uint16_t flags, uint32_t stream);
void out_end(struct agent *a, struct msg *m);
/* Where to read data to, and how much; 0 when there is no room. */
uint8_t *out_data_space(struct agent *a, uint32_t *ret_cap);
void out_data(struct agent *a, uint32_t stream, uint16_t flags, uint32_t len);
void out_simple(struct agent *a, enum proto_type type, uint16_t flags, uint32_t stream);
void out_error(struct agent *a, uint32_t stream, uint16_t flags, const struct err *e);
/* Whether a descriptor can go along now: 0, -EAGAIN, or -EOPNOTSUPP on a channel that takes none.
 */
int out_can_give(struct agent *a, struct err *e);
/* OPENED is being written: @fd (taken) goes with it. */
void out_give(struct agent *a, const struct msg *m, int fd);
void out_flush(struct agent *a);      /* as much as the channel takes */
void out_flush_wait(struct agent *a); /* all of it, or until the client is gone */

/* spare.c */
void spare_init(struct spare *sp);
int spare_null(struct agent *a); /* a descriptor, or -errno */
int spare_pipe(struct agent *a, int ret[2]);
void spare_make(struct agent *a); /* unless they are there, or a command runs */

/* standby.c */
void standby_make(struct agent *a); /* if one is wanted, and everything for it is there */
bool standby_waits(const struct agent *a);
/* As spawn(), but for fds, which it has; it must have waited. Our ends are the caller's now. */
pid_t standby_spawn(struct agent *a, struct spawn *s);
void standby_ended(struct agent *a, pid_t pid); /* if it is that one */
void standby_drop(struct agent *a);             /* nobody needs it any more */

/* relay.c */
int pending_init(struct stream *s);
void pending_done(struct stream *s);
void relay_data(struct agent *a, struct stream *s, const uint8_t *data, uint32_t len);
void relay_in(struct agent *a, struct stream *s); /* writes what is pending */
void relay_in_drop(struct stream *s);             /* nobody reads it any more */
void relay_credit(struct agent *a, struct stream *s);
bool relay_can_send(struct agent *a, const struct outlet *o);
/* One read: DATA, or END at the end; 0 at the end, -EAGAIN: nothing now, otherwise bytes. */
ssize_t relay_out(struct agent *a, struct stream *s, unsigned which);
void relay_out_end(struct agent *a, struct stream *s, unsigned which);

/* The requests, by file. All return 0, or a negative errno with @e: dispatch answers with it. */
int request_hello(struct agent *a, const struct request *q, struct err *e);
int request_shutdown(struct agent *a, const struct request *q, struct err *e);
int request_start(struct agent *a, const struct request *q, struct err *e);
int request_adopt(struct agent *a, const struct request *q, struct err *e);
int request_procs(struct agent *a, const struct request *q, struct err *e);
int request_read(struct agent *a, const struct request *q, struct err *e);
int request_write(struct agent *a, const struct request *q, struct err *e);
int request_stat(struct agent *a, const struct request *q, struct err *e);
int request_list(struct agent *a, const struct request *q, struct err *e);
int request_mkdir(struct agent *a, const struct request *q, struct err *e);
int request_remove(struct agent *a, const struct request *q, struct err *e);
int request_rename(struct agent *a, const struct request *q, struct err *e);
int request_watch(struct agent *a, const struct request *q, struct err *e);
int request_dial(struct agent *a, const struct request *q, struct err *e);

/* process.c */
void process_signal(struct agent *a, struct stream *s, int sig, bool group);
void process_resize(struct agent *a, struct stream *s, unsigned rows, unsigned cols);
void process_exited(struct agent *a, pid_t pid, int status, const struct rusage *used);
bool stream_is_process(const struct stream *s);

/* reap.c */
void reap(struct agent *a);
void kill_all(struct agent *a, int sig);
void kill_rest(struct agent *a); /* not PID 1: kills and reaps every descendant */

/* file.c */
struct stat;
void put_file(struct msg *m, const struct stat *st);

/* info.c */
/* What FILE_FULL tells of @path; @lst is of the path itself. */
void put_full(struct agent *a, struct msg *m, const char *path, const struct stat *lst);
/* user_resolve(), remembering the last one while the files stay as they are. */
int user_known(struct agent *a, const char *text, struct identity *ret, struct err *e);
/* Does what META says, if it is there. */
int meta_set(int fd, const struct values *v, struct err *e);
/* @text as whoever lives in @home means it: "~", "" and relative ones are there. */
int path_at_home(const char *text, const char *home, char out[WARD_PATH_MAX]);
/* The path that @tag means: as it is, or with FILE_HOME as USER means it, in @room. */
int path_of_user(struct agent *a, const struct request *q, enum proto_tag tag,
	char room[WARD_PATH_MAX], const char **ret, struct err *e);
void put_path(struct msg *m, const struct request *q, const char *path); /* with FILE_HOME */

#endif
