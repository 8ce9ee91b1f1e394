/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_INTERP_IMPL_H
#define WARD_FRONT_E2B_INTERP_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "front/call.h"
#include "front/e2b/dict.h"
#include "front/e2b/interp.h"
#include "front/e2b/interp_text.h"

/* Processes of drivers are named by a tag, so that the next daemon finds them:
 * "ward-interpreter:CONTEXT:LANGUAGE:TOKEN". They are not in lists of commands. */
#define INTERP_TAG "ward-interpreter:"

enum { INTERP_LANGUAGE = 16, INTERP_CWD = 512 };

/* One execution, from its request to its end; the client may leave before. */
struct cell {
	struct cell *next;
	struct call *call;  /* NULL: nobody listens any more */
	struct cell **back; /* where its request points to it; set to NULL when it goes */
	char *input;        /* what the driver reads: one line */
	size_t input_len, input_at;
	uint64_t owed; /* credit that waits for the client to read */
	bool ended_out, ended_err;
	bool told; /* what went wrong */
};

struct context {
	struct context *next;
	struct interp *interp;
	char id[ID_LEN + 1];
	char language[INTERP_LANGUAGE];
	char cwd[INTERP_CWD]; /* "": the user's home */
	char token[INTERP_TOKEN + 1];
	bool is_default;
	struct link_call *process; /* NULL: not started, or dead */
	struct link_call *feeding; /* the cell's line, on its way in */
	uint32_t pid;              /* 0: not yet */
	bool restarting;           /* the end of the process is wanted */
	struct interp_reader out, err;
	size_t kept;        /* memory of the two, as far as it is counted in front->lines */
	struct cell *cells; /* the first one runs, if pid is known */
	unsigned waiting;   /* how many there are */
	bool running;       /* the first one has been sent */
	uint64_t count;
	struct loop_timer beat, give_up;
};

struct interp {
	struct interp *next;
	struct front *front;
	char box[ID_LEN + 1];
	char *user; /* NULL: the sandbox's own */
	struct context *contexts;
	bool searched; /* those that an earlier daemon started have been found */
};

/* --- interp.c --- */

/* A context's link is gone, and the context with it. */
void interp_lost(struct context *x);

/* --- interp_context.c --- */

/* The driver of a language, and its usual name ("js" is "javascript"); NULL: there is none. */
const char *interp_language(const char *name);
struct context *context_create(struct interp *in, const char *language, const char *cwd);
/* @kill: its driver too. */
void context_destroy(struct context *x, bool kill);
/* Takes @input. 0 with *@back set until the cell goes; -EAGAIN (too many wait), -ENOMEM. */
int context_add(struct context *x, struct call *c, char *input, size_t len, struct cell **back);
/* Runs the next cell, with the process started when there is none. */
void context_go(struct context *x, struct link *l);
void context_restart(struct context *x);
/* Its client left. */
void cell_leave(struct context *x, struct cell *cell);
/* A driver that an earlier daemon has started. */
void context_adopt(struct interp *in, struct link *l, const struct link_process *p);

#endif
