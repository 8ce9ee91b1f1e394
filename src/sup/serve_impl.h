/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_SERVE_IMPL_H
#define WARD_SUP_SERVE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "proto/client.h"
#include "sup/ctl.h"
#include "sup/flight.h"
#include "sup/link.h"
#include "sup/ring.h"
#include "sup/serve.h"

/* Inside sup/serve*.c only. */
struct proc;

/* One stream of the daemon. */
enum call_kind {
	CALL_PASS,   /* a request that the agent answers */
	CALL_OUTPUT, /* receives what a process writes */
	CALL_INPUT,  /* writes to a process's stdin */
};

struct call {
	enum call_kind kind;
	uint32_t stream;
	uint16_t type, flags; /* of the request */
	struct call *next;    /* of the same process */
	struct proc *proc;
	union {
		struct { /* CALL_PASS */
			uint32_t agent_stream;
			struct flow down; /* what the agent may send */
			struct flow up;   /* what the daemon may send */
			bool pass_opened;
		};
		struct {                /* CALL_OUTPUT */
			uint64_t at;    /* sent up to here */
			uint64_t acked; /* and received up to here */
			uint32_t credit;
			bool opened;
		};
		struct { /* CALL_INPUT */
			struct flow in;
			uint8_t *pending; /* FLOW_WINDOW bytes, while they are needed */
			uint32_t pending_at, pending_len;
			uint64_t taken;
			bool ended;
		};
	};
};

/* A process of START, from the request until its end is not remembered any more. */
struct proc {
	struct proc *next;
	uint32_t agent_stream; /* 0: it has ended */
	uint32_t pid;          /* 0: not told yet */
	bool pty, stdin_open, exited, told;
	bool timed_out; /* its time was over, and it was killed for that */
	bool inherited; /* a copy has it from its original */
	struct proto_exit exit;
	uint64_t exit_ns, kill_ns;
	uint64_t told_ns;   /* when its end was told last */
	uint64_t receipt;   /* received, for certain, when it was told */
	struct flow out[2]; /* stdout, stderr, from the agent */
	struct flow in;     /* stdin, to the agent */
	struct ring ring;
	uint64_t delivered; /* received by somebody, up to here */
	uint64_t lost;      /* overwritten before anybody received it */
	struct call *outputs, *inputs;
	char *label;     /* NULL: none */
	uint8_t *config; /* ARG, ENV, CWD and USER fields as START gave them */
	uint32_t config_len;
};

enum agent_stream_kind { AGENT_FREE, AGENT_PROC, AGENT_CALL, AGENT_ORPHAN };

struct agent_stream {
	enum agent_stream_kind kind;
	union {
		struct proc *proc;
		struct call *call;
	};
};

/* A START or BIND that comes in parts. */
struct parts {
	uint8_t *mem;
	size_t len;
	uint32_t stream;
	uint16_t type, flags;
};

/* What processes get unless their START says otherwise; one block of memory that BIND replaces. */
struct defaults {
	char *user, *workdir;
	char **env; /* NULL-terminated; strings in the same block */
	void *room;
};

/* A SNAPSHOT that is to be carried out: serve_still.c. */
struct later;
struct still {
	bool asked;
	uint16_t flags;
	uint32_t stream;
	struct snap files;          /* ours */
	struct later *first, *last; /* frames that wait for its end */
	size_t bytes;
};

struct serve {
	/* What is so. */
	bool link_broken;         /* an answer is missing: only a new connection is honest */
	bool channel_open, ready; /* the agent's */
	bool agent_more;          /* frames of the agent may be waiting in the reader */
	bool bound_now;           /* BIND came in this turn */
	bool held;      /* START right behind it: the answers to both go together, and soon */
	bool was_asked; /* a daemon was there when it was started */
	bool killed, over;
	bool disk_full; /* noted */
	enum sup_state state;
	enum sup_action deadline_action;
	enum end_cause stop_cause;
	int run_dir, listener, signals;
	unsigned running, exited; /* processes; those that are remembered */

	/* The daemon. */
	struct ctl link;   /* fd -1: nobody is connected */
	uint64_t stall_ns; /* since when a full queue has not moved; 0: it does */
	size_t stall_waiting;
	struct call *calls[SUP_CALLS_MAX + 1];
	struct parts parts;
	struct still still;

	/* The sandbox. */
	struct box *box;
	const struct plan *plan;
	const struct decision *decision;
	const struct serve_hooks *hooks;
	const struct box_fds *fds;
	struct plan_limits limits; /* in force */
	struct sighting *seen;
	struct agent_stream streams[AGENT_STREAMS_MAX + 1];
	struct proc *procs; /* newest first */
	uint64_t started;
	struct defaults defaults;
	uint64_t oom_events, pids_refused; /* noted so far */

	/* Its time; 0: none. */
	uint64_t deadline_ns;      /* and 0 while paused */
	uint64_t deadline_left_ms; /* while paused */
	uint64_t paused_ns;        /* since when */
	uint64_t deadline_total_ms;
	uint64_t sample_ns, keep_ns, kill_ns;
	uint64_t bound_ns; /* BIND came; when the audit is told */
	uint64_t soon_ns;  /* SOON came; until then it looks for the BIND and does not sleep */

	char id[ID_LEN + 1];
	char created[CLOCK_TEXT];
	char reason[LINK_TEXT];    /* of the state */
	char stop_text[LINK_TEXT]; /* "": not stopped by us */
	char bound_caller[LINK_TEXT], bound_trace[LINK_TEXT];
	struct proto_conn conn; /* large, and mostly untouched */
	struct flight flight;
};

/* serve.c */
/* Ends the sandbox: everything inside dies now. The first reason counts. */
void serve_kill(struct serve *s, enum end_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void serve_set_deadline(struct serve *s, uint64_t ms, enum sup_action action);
/* 0, or a negative errno with @e; the state is told to the daemon. */
int serve_pause(struct serve *s, const char *reason, struct err *e);
/* @ms 0: with what was left of its time. */
int serve_resume(struct serve *s, uint64_t ms, enum sup_action action, struct err *e);

/* Into three files that are the caller's; @flags are SNAP_*. */
int serve_snapshot(struct serve *s, const struct snap *into, unsigned flags, struct err *e);

/* serve_link.c: the daemon's side */
void link_accept(struct serve *s);
void link_take(struct serve *s, int fd); /* a new daemon: the old one is hung up on */
void link_hang_up(struct serve *s);
void link_receive(struct serve *s);
/* A frame of the daemon: now, or kept until the sandbox does not stand still any more. */
int link_frame(void *arg, const struct frame *f); /* @arg is the struct serve */
int link_handle(struct serve *s, const struct frame *f);
bool link_is_full(const struct serve *s); /* so much waits for it that nothing more is read */
void link_status_send(struct serve *s);
void link_ok(struct serve *s, uint32_t stream);
void link_error(struct serve *s, uint32_t stream, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
struct call *call_open(struct serve *s, const struct frame *f, enum call_kind kind);
void call_close(struct serve *s, struct call *c);

/* serve_ctl.c: requests that the supervisor answers itself; 0 or -EPROTO */
int ctl_request(struct serve *s, const struct frame *f, const struct ctl_fields *v);
int defaults_set(struct defaults *d, const char *const *env, const char *user, const char *workdir);
void defaults_done(struct defaults *d);
void put_limits(struct msg *m, const struct plan_limits *l);

/* serve_still.c */
bool still_waits(const struct serve *s, const struct frame *f); /* not now: keep it */
int still_keep(struct serve *s, const struct frame *f);         /* until later */
/* SNAPSHOT into @files (taken): carried out and answered by still_work(). */
void still_ask(struct serve *s, const struct frame *f, const struct snap *files);
void still_work(struct serve *s); /* never out of a frame */
void still_meanwhile(struct serve *s);
void still_drop(struct serve *s); /* whoever sent what waits is gone */

/* serve_start.c */
int proc_start(struct serve *s, const struct frame *f, const uint8_t *data, size_t len);

/* serve_adopt.c */
void proc_adopt(struct serve *s); /* the next process that a copy has from its original */
void proc_adopted(struct serve *s, struct proc *p, const struct proto_event *ev);

/* serve_proc.c */
void proc_add(struct serve *s, struct proc *p); /* a new one, zeroed, into the list */
void proc_free(struct serve *s, struct proc *p);
/* @c receives its output from byte @from on. */
void proc_add_output(struct proc *p, struct call *c, uint64_t from, uint32_t window);
int proc_attach(struct serve *s, const struct frame *f, const struct ctl_fields *v);
int proc_input(struct serve *s, const struct frame *f, const struct ctl_fields *v);
struct proc *serve_find(struct serve *s, const struct ctl_fields *v);
void proc_list(struct serve *s, uint32_t stream);
void proc_event(struct serve *s, struct proc *p, const struct proto_event *ev);
void proc_pump(struct serve *s, struct proc *p); /* output to whoever may take it */
void proc_pump_all(struct serve *s);
int proc_ack(struct serve *s, struct call *c, uint64_t bytes);
void proc_detach(struct serve *s, struct call *c);
int input_data(struct serve *s, struct call *c, const uint8_t *data, uint32_t len);
void input_end(struct serve *s, struct call *c);
void input_pump(struct serve *s, struct proc *p);
void proc_clock(struct serve *s, uint64_t now);
void proc_resumed(struct serve *s, uint64_t ns); /* so long nobody's time has passed */
void proc_link_lost(struct serve *s); /* what the daemon was just told may have died with it */
void proc_free_all(struct serve *s);

/* serve_agent.c: the agent's side */
void agent_receive(struct serve *s);
/* A number for a new stream; 0: all are in use. */
uint32_t agent_number(struct serve *s);
int pass_request(struct serve *s, const struct frame *f, const struct ctl_fields *v);
int pass_frame(struct serve *s, struct call *c, const struct frame *f);
void pass_drop(struct serve *s, struct call *c); /* the daemon has lost interest */

#endif
