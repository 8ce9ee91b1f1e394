/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_LINK_H
#define WARD_SUP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "plan/plan.h"
#include "proto/client.h"
#include "sup/request.h"

/*
 * The daemon's end of the connection to one supervisor (docs/SUPERVISOR.md).
 *
 * Rules, for everything here:
 * - One thread: the loop's. Nothing waits; nothing here polls by itself. The owner polls link_fd()
 *   for link_events() and calls link_work() with what came; hooks->want says when those change.
 * - Callbacks come out of link_work() only, never out of the function that opened a call.
 * - What a callback is given is good until it returns, descriptors apart: those it takes.
 * - A callback may open calls, drop calls and send on any link. It must not destroy the link that
 *   called it, but in hooks->closed, which is the last one.
 * - The supervisor is believed no more than an agent: numbers are in range, texts are one printable
 *   line, and what breaks the protocol closes the link (-EPROTO in closed).
 */
struct link;
struct link_call;

/* --- The link itself -------------------------------------------------------------------------- */

enum sup_state {
	SUP_STARTING = 1, /* the wall is being built; calls wait in the supervisor until it is */
	SUP_RUNNING,
	SUP_PAUSED, /* calls into the sandbox fail with -EHOSTDOWN; RESUME, STOP, USAGE, LIMITS,
		       DEADLINE, the list of processes and attaching work */
	SUP_ENDED,  /* the end record is written; the link closes next */
};

enum {
	LINK_TEXT = 376,
	SUP_STARTS = START_PTY | START_NULL_STDIN | START_DRAIN, /* flags of START on this link */
};

struct link_status {
	enum sup_state state;
	char id[ID_LEN + 1];
	enum wall tier;          /* WALL_NONE while it is not decided */
	uint16_t starts;         /* which of SUP_STARTS it knows: it may be older than we are */
	bool tier_waits;         /* sandboxes of that tier can be made ahead: sup_spawn_ahead() */
	char why[LINK_TEXT];     /* policy's line for the tier; "": not yet */
	char warning[LINK_TEXT]; /* what the operator should know, e.g. limits; "" */
	char reason[LINK_TEXT];  /* for this state: "the daemon", "its time was over", ... */
	pid_t pid;               /* of the first process inside, as the host numbers it; 0 */
	pid_t sup_pid;           /* of the supervisor */
	uint64_t deadline_ms;    /* left until its time is over; 0: none, or paused */
	enum sup_action on_deadline;
	struct plan_limits limits; /* in force, defaults filled */
	unsigned processes;        /* that run now, of those started by START */
};

/* How it ended; the whole story is in the end record (sup_record_path()). */
struct link_end {
	char cause[24];         /* "killed-by-operator", ...: sup/end.h */
	char detail[LINK_TEXT]; /* one line, may be "" */
	char step[24];          /* setup-failed: the step; else "" */
	int status;
};

struct link_hooks {
	/* After connecting, and at every change of state, deadline or limits. */
	void (*state)(void *arg, const struct link_status *s);
	/* The sandbox is over and its end record is on disk. closed follows. */
	void (*ended)(void *arg, const struct link_end *end);
	/* The connection is over; every open call has had its failed(-ENOTCONN) before. @why: code
	 * ENOTCONN for a plain end. The owner destroys the link here or later. */
	void (*closed)(void *arg, const struct err *why);
	/* link_events() has changed. */
	void (*want)(void *arg, short events);
	void *arg;
};

/* Takes @fd, a connected unix stream socket, also when it fails. */
int link_create(int fd, const struct link_hooks *hooks, struct link **ret, struct err *e);
/* To a supervisor that runs already: <state>/run/<id>.sock. -ENOENT, -ECONNREFUSED: there is none.
 * -EAGAIN: it is busy, try again. The supervisor drops whoever was connected before. */
int link_connect(const char *state_dir, const char *id, const struct link_hooks *hooks,
	struct link **ret, struct err *e);
/* No more callbacks, not even for open calls; their processes go on. NULL is fine. */
void link_destroy(struct link *l);
/*
 * Before link_destroy(), for an owner whose link others have calls on: each gets its
 * failed(-ENOTCONN), but those whose @arg is @but, the owner's own. Not from inside a callback of
 * this link.
 */
void link_fail(struct link *l, const void *but);

int link_fd(const struct link *l);
short link_events(const struct link *l); /* POLLIN, POLLOUT */
void link_work(struct link *l, short revents);
/* The last state that came; NULL before the first. */
const struct link_status *link_status(const struct link *l);
unsigned link_call_count(const struct link *l);
/* 0: the kernel has taken all that was sent. 1: some of it waits. -ENOTCONN: nobody will get it. */
int link_unsent(const struct link *l);

/* --- Starting one ----------------------------------------------------------------------------- */

struct sup_spawn {
	const char *ward;      /* path of the lean executable */
	const char *state_dir; /* absolute */
	int log_fd;            /* its stderr: one line per error; -1: ours */
};

/*
 * Starts the supervisor for @q: `ward --state-dir DIR sup ID` in a session of its own, child of the
 * caller, with nothing of its descriptors but the request, the first connection and the log. The
 * link is connected at once and tells SUP_STARTING, then SUP_RUNNING or ended. @ret_pidfd is the
 * caller's to watch and reap.
 */
int sup_spawn(const struct sup_request *q, const struct sup_spawn *how,
	const struct link_hooks *hooks, struct link **ret, pid_t *ret_pid, int *ret_pidfd,
	struct err *e);

/*
 * The same without a request: `ward sup --ahead TIER ID` makes what no request changes, and waits.
 * Messages come out of @ret_sock: SUP_WAITS when it is ready; its end when it is over. It undoes
 * all and ends when the socket closes.
 */
int sup_spawn_ahead(const char *id, enum wall tier, const struct sup_spawn *how, int *ret_sock,
	pid_t *ret_pid, int *ret_pidfd, struct err *e);
/* Gives it the request, whose id must be its own; from here on as after sup_spawn(). */
int sup_ask(int sock, const struct sup_request *q, const struct link_hooks *hooks,
	struct link **ret, struct err *e);

/* <state>/run/<id>.end: JSON, docs/SUPERVISOR.md; written whole or not at all. The daemon imports
 * and deletes it. -ENAMETOOLONG. */
int sup_record_path(const char *state_dir, const char *id, char ret[WARD_PATH_MAX]);
/* A record that was imported is cut to a byte and becomes a spare of this name, in run/, for the
 * next one (store/spare.h); or is removed. */
#define SUP_SPARE_RECORD "spare-end"
/* Sockets that are there, also of supervisors that are gone: calls @each with every id. */
int sup_each_socket(
	const char *state_dir, void (*each)(void *arg, const char *id), void *arg, struct err *e);
/* The same for end records. */
int sup_each_record(
	const char *state_dir, void (*each)(void *arg, const char *id), void *arg, struct err *e);
/* Removes the socket of a supervisor that is gone. */
int sup_remove_socket(const char *state_dir, const char *id, struct err *e);
/* Removes what supervisors left that died before they listened; one that is about to fails. */
int sup_remove_halves(const char *state_dir, struct err *e);

/* --- Calls ------------------------------------------------------------------------------------ */

struct link_opened {
	uint32_t pid;  /* START, ATTACH: as the sandbox numbers it */
	bool pty;      /* START, ATTACH */
	uint64_t lost; /* ATTACH: bytes that nobody received and that are gone */
	bool has_file; /* READ, WRITE: what it is */
	struct proto_file file;
	int fd; /* FILE_PASS_FD: the callback takes it (open, regular, close-on-exec); else -1 */
};

struct link_process { /* one ENTRY of link_processes() */
	uint32_t pid;
	const char *tag;                      /* NULL: none */
	const char *const *argv, *const *env; /* as START gave them, NULL-terminated; may be cut */
	const char *cwd, *user;               /* as START gave them; NULL: the default */
	bool pty, exited;
	struct proto_exit exit; /* when @exited */
	uint64_t waiting_bytes; /* output that nobody has received yet */
	uint64_t lost_bytes;    /* output that nobody will */
	unsigned attached;      /* calls that receive its output now */
};

struct link_usage { /* now; UINT64_MAX: not known */
	uint64_t cpu_us, mem_used, mem_cache, mem_limit, disk_used, disk_total, pids, pids_limit,
		net_in, net_out, mem_peak;
};

/* EXIT, beside what an agent says: the supervisor killed it when its time (START) was over. */
enum { EXIT_TIMED_OUT = 1 };

struct link_done {
	bool has_exit; /* START, ATTACH */
	bool timed_out;
	struct proto_exit exit;
	bool has_file; /* STAT, MKDIR and RENAME with FILE_FULL */
	struct proto_file file;
	uint64_t bytes;          /* WRITE, INPUT */
	struct link_usage usage; /* USAGE */
};

struct link_failed {
	int code;             /* errno, positive. ENOTCONN: the link is gone; EHOSTDOWN: paused */
	enum start_step step; /* START: where it stopped; 0: elsewhere */
	char text[PROTO_TEXT];
};

/*
 * What a call is told; any may be NULL. At the end exactly one of done and failed is called, and
 * the call is gone when it returns.
 */
struct link_handler {
	void (*opened)(void *arg, struct link_call *c, const struct link_opened *o);
	/* Output of a process, bytes of a file or port. link_credit() when they are dealt with. */
	void (*data)(void *arg, struct link_call *c, const void *data, size_t len, bool of_stderr);
	void (*end)(void *arg, struct link_call *c, bool of_stderr); /* no more data this way */
	/* LIST: ev->has_file; PROCS: ev->has_process. Credit: ev->cost. */
	void (*entry)(void *arg, struct link_call *c, const struct proto_event *ev);
	/* WATCH: ev->change, ev->name, ev->file with FILE_FULL. Credit: ev->cost. */
	void (*event)(void *arg, struct link_call *c, const struct proto_event *ev);
	void (*process)(void *arg, struct link_call *c, const struct link_process *p);
	/* link_room() has grown from 0. */
	void (*room)(void *arg, struct link_call *c);
	void (*soft)(void *arg, struct link_call *c, const struct link_failed *f); /* goes on */
	void (*done)(void *arg, struct link_call *c, const struct link_done *d);
	void (*failed)(void *arg, struct link_call *c, const struct link_failed *f);
};

/*
 * Every function below opens a call and returns 0 with @ret (may be NULL) set, or a negative errno
 * with @e and no call: -ENOTCONN (closed), -ENOBUFS (LINK_QUEUE_MAX bytes wait to be sent), -E2BIG,
 * -EINVAL. Arguments are copied.
 */

/* A process belongs to the sandbox, not to the call: it goes on when the call is dropped. */
struct link_start {
	uint16_t flags;          /* START_PTY, START_NULL_STDIN, START_DRAIN */
	const char *const *argv; /* NULL-terminated, at least one */
	const char *const *env;  /* over the sandbox's own; NULL: none */
	const char *cwd;         /* NULL: the sandbox's workdir, else the user's home */
	const char *user;        /* NULL: the sandbox's */
	const char *tag;         /* a name to attach by; NULL: none. One line, LABEL_MAX bytes */
	uint16_t rows, cols;
	uint32_t window;     /* output to send unasked; 0: FLOW_WINDOW */
	uint64_t timeout_ms; /* then it is killed (SIGKILL, its group); 0: none */
};
/* opened, data..., end, done with exit. failed with @step when it did not start. */
int link_start(struct link *l, const struct link_start *s, const struct link_handler *h, void *arg,
	struct link_call **ret, struct err *e);

/* By number or by tag; one of the two. */
struct link_who {
	uint32_t pid;
	const char *tag; /* NULL: by pid. The newest process of that tag */
};

/*
 * Receives the output of a process: what nobody has received yet, or when another call receives it
 * now, from now on; with LINK_ALL, all that the replay buffer (SUP_RING_BYTES) still has. Answers
 * as link_start() does, also for a process that has ended and is still remembered
 * (SUP_EXIT_KEEP_MS at least). -ESRCH in failed: not known.
 *
 * "Received" is what link_credit() was called for: give credit when the bytes are out of your
 * hands. What was sent and not credited when a connection breaks is sent again to the next.
 */
enum { LINK_ALL = 1 };
int link_attach(struct link *l, const struct link_who *who, unsigned flags, uint32_t window,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e);

/*
 * Stdin of a process: link_send() as link_room() allows, then link_send_end(); done says that the
 * sandbox has taken all of it. With LINK_CLOSE, stdin is closed after. EPIPE in failed: it has no
 * stdin (any more). Any number of calls may follow each other.
 */
enum { LINK_CLOSE = 1 };
int link_input(struct link *l, const struct link_who *who, unsigned flags,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e);

/* done when it is on its way; ESRCH: no such process runs. @group: to the group that it leads. */
int link_signal(struct link *l, const struct link_who *who, int sig, bool group,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e);
/* ENOTTY: it has no terminal. */
int link_resize(struct link *l, const struct link_who *who, unsigned rows, unsigned cols,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e);
/* Every process of START that runs or is remembered: process..., done. */
int link_processes(struct link *l, const struct link_handler *h, void *arg, struct link_call **ret,
	struct err *e);

/*
 * READ, WRITE, STAT, LIST, MKDIR, REMOVE, RENAME, WATCH, DIAL and PROCS as the agent has them
 * (docs/PROTOCOL.md); q->stream is not used. READ and WRITE with FILE_PASS_FD: opened has the
 * descriptor, done follows at once, and the bytes are moved by whoever has it. EOPNOTSUPP: this
 * tier's channel passes none; ask again without the flag.
 */
int link_request(struct link *l, const struct proto_request *q, const struct link_handler *h,
	void *arg, struct link_call **ret, struct err *e);

/* Late binding: what a warm sandbox gets when somebody claims it. */
struct link_bind {
	const char *const *env;                /* over the request's own; NULL: none */
	const char *user, *workdir, *hostname; /* NULL: leave it */
	const char *caller, *trace;            /* for the audit; NULL: leave it */
	struct plan_limits limits;             /* 0 in a field: leave it */
	uint64_t deadline_ms;                  /* from now; 0: none */
	enum sup_action deadline_action;       /* 0: SUP_KILL */
};
/* Wakes the supervisor for a BIND and START that come within half a millisecond, if they come. */
void link_soon(struct link *l);
/* What is sent from here on goes out together, with link_release(). */
void link_hold(struct link *l);
void link_release(struct link *l);
/* A START sent right behind it, without waiting, runs bound: order is kept. */
int link_bind(struct link *l, const struct link_bind *b, const struct link_handler *h, void *arg,
	struct link_call **ret, struct err *e);
/* 0 in a field: leave it. EOPNOTSUPP: the tier cannot; EBUSY: more is in use than that. Disk cannot
 * change. */
int link_limits(struct link *l, const struct plan_limits *limits, const struct link_handler *h,
	void *arg, struct link_call **ret, struct err *e);
/* From now; 0: none. EHOSTDOWN while paused: give it with link_resume(). */
int link_deadline(struct link *l, uint64_t ms, enum sup_action action, const struct link_handler *h,
	void *arg, struct link_call **ret, struct err *e);
/* done when every process stands still and memory was given back. EALREADY; EOPNOTSUPP. The
 * deadline stands still too. */
int link_pause(struct link *l, const struct link_handler *h, void *arg, struct link_call **ret,
	struct err *e);
/* @deadline_ms from now; 0: what was left when it was paused. EALREADY: it is not paused. */
int link_resume(struct link *l, uint64_t deadline_ms, enum sup_action action,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e);
/*
 * Writes the sandbox down into three files, which are copied (a descriptor each) and still the
 * caller's; tier.h says what @flags (SNAP_*) mean. Running or paused. done when they are whole, and
 * it runs on (or stays paused). EOPNOTSUPP: the tier cannot; then, and after any failure, they are
 * worth nothing.
 */
int link_snapshot(struct link *l, const struct snap *into, unsigned flags,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e);
/* Ends the sandbox: SIGTERM to all, after @grace_ms (0: at once) SIGKILL. hooks->ended comes;
 * @cause is the detail of its end. done: understood. Works in every state. */
int link_stop(struct link *l, const char *cause, uint32_t grace_ms, const struct link_handler *h,
	void *arg, struct link_call **ret, struct err *e);
int link_usage(struct link *l, const struct link_handler *h, void *arg, struct link_call **ret,
	struct err *e);

/* --- Of an open call -------------------------------------------------------------------------- */

/* @bytes that came with data, entry or event are dealt with: as many may come again. Sent with the
 * next link_work(). A call that gives none stops its source, and nothing else. */
void link_credit(struct link_call *c, uint64_t bytes);
/* How much link_send() takes now: INPUT, WRITE, DIAL. */
size_t link_room(const struct link_call *c);
/* Sends up to link_room() bytes; how many were taken, or -ENOTCONN. */
ssize_t link_send(struct link_call *c, const void *data, size_t len);
int link_send_end(struct link_call *c);
/* Nobody wants it any more: no more callbacks; a process goes on, anything else is given up. NULL
 * is fine. */
void link_drop(struct link_call *c);
void link_call_set(struct link_call *c, const struct link_handler *h, void *arg);
struct link *link_of(const struct link_call *c);

#endif
