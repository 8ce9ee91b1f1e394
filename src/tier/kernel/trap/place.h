/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_PLACE_H
#define WARD_TIER_KERNEL_TRAP_PLACE_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/shim/shim.h"

struct file;
struct kernel;
struct mm;
struct task;

enum { SITE_BYTES = 7 /* mov $nr, %eax; syscall */ };
enum { CWD_BYTES = 15 /* openat of the working directory, with a number more in between */ };
/* Around "xor %eax, %eax; syscall": as much as may be before it, and what may be behind. */
enum { SHORT_AT = 11, SHORT_BYTES = SHORT_AT + 4 + 9 + 10 };
enum { ANY_BYTES = 25 /* up to the end of a syscall that makes any call */ };

/*
 * Call sites that are answered in place, see shim.h; answers.h has the answers. All under the
 * kernel lock.
 *
 * place_seen(): the call in task->call came from @ip and is over: once what was asked there could
 * have been answered often enough the site is changed.
 */
void place_seen(struct task *t, uint64_t ip);
/* Call @nr of the task is about to be made: what its process did in place is done here too, unless
 * the call, whose first argument is @first, has nothing to do with descriptors. */
void place_call(struct task *t, int64_t nr, uint64_t first);
/* What the task's process did in place since its last call: positions, and what it closed. For who
 * looks at its descriptors from outside. */
void place_sync(struct task *t);
/* The same, and from now on it asks again. */
void place_take_back(struct task *t);
/* The task's process has closed @fd in place, and knows: nothing else gets old by it. */
void place_fd_closed(struct task *t, unsigned fd);
/* Descriptor @fd of the task is not what it was; -1: any. */
void place_fds_gone(struct task *t, int fd);
/* @sig of the task got another disposition, by rt_sigaction. */
void place_signal_set(struct task *t, int sig);
/* What the task has set in place is so here too; and nobody has set anything there any more. */
void place_signals_sync(struct task *t);
void place_signals_end(struct task *t);
/* From now on every call of this memory is made: there is a filter inside that must see it. */
void place_shut(struct task *t);
/* The memory gets a second thread that runs: no more answers but who it is. */
void place_many(struct task *t);
/* Every site is put back as it was, for good: the program wants these addresses. */
int place_undo(struct task *t);
/* Is there a log of calls that are made later (trap/later.h) in its memory? */
bool place_has_log(const struct task *t);
/* @page, a copy of the memory's page at @at, as the program made it. */
void place_clean(const struct mm *mm, uint64_t at, uint8_t page[4096]);
/* Does a mapping of [addr, addr+len) put something where the table is? */
bool place_is_hit(uint64_t addr, uint64_t len);

/*
 * exec: a new image's loader has its sites changed before it runs. @f is the loader, @text its
 * code, which goes to @base. What must be in the new memory then: @bytes at @page, @sites in the
 * table,
 * @view; none if count is 0.
 */
enum { PLACE_AHEAD_MAX = 12 };
struct place_ahead {
	unsigned count;
	uint32_t view;
	uint64_t page;
	struct place_site sites[PLACE_AHEAD_MAX];
	uint8_t bytes[4096];
};
void place_ahead(struct task *t, struct mm *mm, struct file *f, const Elf64_Phdr *text,
	uint64_t base, struct place_ahead *ret);

/* For the engine, around the fork of the zygote, which has the guests' side of it from here: the
 * table with its stubs, the ages, the answers. When it cannot be, k->age stays NULL. */
void place_begin(struct kernel *k, uint64_t stubs);
void place_forked(struct kernel *k);

/* The pieces, for tests. */
int place_kind(int64_t nr); /* PLACE_*; -1: never in place */
bool place_is_site(const uint8_t b[SITE_BYTES], uint32_t nr);
bool place_is_cwd(const uint8_t b[CWD_BYTES]);
void place_jump(unsigned site, uint8_t ret[5]);
/* Where the jump goes for a short site, from its xor on, and how much room is there. */
struct place_short {
	int pad;
	unsigned len;
};
bool place_short(const uint8_t b[SHORT_BYTES], struct place_short *ret);
/* Which ANY_* the code is whose syscall ends at @ip, with ANY_BYTES before it and one behind; -1:
 * none. */
int place_any(const uint8_t *ip);

struct place; /* of one memory */
void place_free(struct place *p);
struct place *place_copy(const struct place *p); /* NULL: none, or no memory */

#endif
