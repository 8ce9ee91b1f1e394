/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_PLACE_IMPL_H
#define WARD_TIER_KERNEL_TRAP_PLACE_IMPL_H

#include "tier/kernel/trap/place.h"

/* What place.c and place_fd.c keep of one memory. */
struct place {
	unsigned count;
	unsigned ahead; /* the first of them, which are the loader's */
	struct {
		uint64_t ip, at;
		uint16_t nr;
		uint8_t again, state, len;
		uint8_t was[SHORT_BYTES]; /* @len bytes from @at on, before they were changed */
	} sites[PLACE_SITES];
	uint32_t view;                /* as it stands in the guest's memory */
	uint64_t signals_age;         /* when its dispositions were left there; 0: never */
	uint64_t signals_known;       /* which of them still hold, one bit each */
	uint64_t signals_told;        /* which of them were set by a call since then */
	int32_t signals_of;           /* who may have set some there; 0: nobody */
	uint32_t asks;                /* by PLACE_*: some site that is changed asks by descriptor */
	bool pos_left;                /* the position of some file is there */
	uint64_t fds_left;            /* which files are, one bit each */
	uint64_t fds_lent;            /* which of them the guest may have read or closed */
	uint32_t knows[PLACE_FDS];    /* FD_*, of those that are left */
	uint32_t text_used;           /* of the bytes at PLACE_TEXT_AT */
	uint16_t fds_age;             /* where their age is; behind it that of positions */
	uint64_t stat_age[PLACE_FDS]; /* AGE_FILES when stat was asked for last */
	uint64_t read_age[PLACE_FDS]; /* and when it was read; 0: never */
	uint8_t any;                  /* by ANY_*: there is such a site */
	struct later *later;          /* calls that are made later; NULL: no log */
	unsigned later_wanted;        /* calls that could have been */
	struct {
		int64_t at;
		uint32_t fd, len;
	} reads[LATER_READS]; /* asked for last */
	unsigned next_read;
};

enum { SITE_COUNTED, SITE_CHANGED, SITE_NEVER };
enum { SITE_ANY = 0xffff /* as the number: the site makes any call */ };

/* Site @i becomes a jump, in a process that waits behind it. */
bool place_change(struct task *t, unsigned i, uint64_t ip, uint32_t nr);
/* The site, once it is changed; -1: not yet, or never. @again: it was asked for in vain. */
int place_changed_site(struct task *t, uint64_t ip, bool again, unsigned hot);
/* The call in task->call opened a descriptor; asked for one, from @ip. */
void place_opened(struct task *t);
void place_fd_seen(struct task *t, uint64_t ip, int kind);
/* The call in task->call has read: the next time the guest may do that itself. */
void place_read_seen(struct task *t, uint64_t ip, int kind);
/* Nobody else runs in the memory: also a child of vfork, with dispositions of its own. */
bool place_is_alone(const struct task *t);
void place_signal_seen(struct task *t, uint64_t ip);
/* The same for calls that could have been made later: place_later.c. */
void place_later_seen(struct task *t, uint64_t ip, int kind);
/* Has the task's process its memory and its descriptors for itself? */
bool place_owns_files(const struct task *t);

#endif
