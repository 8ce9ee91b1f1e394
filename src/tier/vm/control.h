/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_CONTROL_H
#define WARD_TIER_VM_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "tier/vm/machine.h"
#include "tier/vm/touched.h"

/*
 * Between ward and its monitor, on a socket of messages (SOCK_SEQPACKET): a request, then any
 * number of parts, then CONTROL_DONE. The monitor opens nothing and writes no file: what it has to
 * say of the machine goes through this socket, and ward checks it and writes it down. One
 * descriptor comes the other way: with CONTROL_MAP, a file that ward has filled.
 */
enum control_op {
	/* Requests. */
	CONTROL_HALT = 1, /* every CPU stands still */
	CONTROL_GO,       /* they run on */
	CONTROL_SAVE,     /* halted: all of it; CONTROL_STATE and CONTROL_PAGES follow */
	CONTROL_SAVED,    /* what was sent is safe: the next difference is from there */
	CONTROL_EVICT,    /* halted: pages that are its own, DONE; then CONTROL_MAP must come */
	CONTROL_MAP,      /* with a descriptor: those pages are in this file. Without: leave them */
	CONTROL_BALLOON, /* the guest should do without @at bytes; DONE's @at: those it has given up
			  */
	CONTROL_TOUCHED, /* what a copy had touched when its agent was ready; CONTROL_RUNS follows
			  */
	/* Parts, and the end. */
	CONTROL_STATE,
	CONTROL_PAGES, /* whole pages for byte @at of the memory file */
	CONTROL_RUNS,  /* struct touched_run, one after the other */
	CONTROL_DONE,  /* @code 0 or an errno, then @text says why */
};

enum {
	CONTROL_DIFF = 1, /* CONTROL_SAVE: only what changed since CONTROL_SAVED */
	CONTROL_BASE = 2, /* ...from now on somebody wants to know what changes */
	CONTROL_PART_MAX = 64 * 1024,
	CONTROL_STATE_MAX = 4 << 20,
};

struct control_msg {
	uint32_t op, flags;
	uint64_t at;
	uint32_t len; /* bytes behind this */
	int32_t code;
	char text[200];
};

/* The monitor's side. */
struct control {
	struct machine *machine; /* borrowed */
	int fd;                  /* ours; -1: none */
	int pagemap;             /* /proc/self/pagemap, opened before the jail; ours; -1: none */
	int file;                /* what a copy's memory lies over, to be read; ours; -1: none */
	bool copied;             /* it was made over a file */
	uint64_t *patched;       /* a bit per page that lies over another file since a pause */
	struct touched *touched; /* ours; NULL: not noted */
	struct balloon *balloon; /* borrowed; NULL: it has none */
	uint64_t given;          /* what the next answer says of it */
	struct watch watch;
	bool halted;
};

/* What must be opened while there are still names: before the jail. */
void control_open(struct control *c);
/* Takes @fd and @memory, the file that it was made over, for reading; -1: none. Serves in the
 * device thread of @m from now on. */
int control_init(struct control *c, struct machine *m, int fd, int memory, struct err *e);
/* Which pages have been touched by now, to be asked for later. In the device thread. */
void control_note_touched(struct control *c);
void control_done(struct control *c);

#endif
