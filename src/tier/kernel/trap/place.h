/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_PLACE_H
#define WARD_TIER_KERNEL_TRAP_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/shim/shim.h"

struct kernel;
struct mm;
struct task;

enum { SITE_BYTES = 7 /* mov $nr, %eax; syscall */ };

/*
 * Call sites that are answered in place, see shim.h. All under the kernel lock.
 *
 * place_seen(): the call in task->call came from @ip and is over: once the same was asked for often
 * enough the site is changed, and from then on its answers are left with the guest.
 */
void place_seen(struct task *t, uint64_t ip);
/* Whatever may change an answer: names, identity. */
void place_change(struct kernel *k);
/* Does call @nr leave every answer as it is? */
bool place_is_kept(int64_t nr, const uint64_t args[6]);
/* From now on every call of this memory is made: there is a filter inside that must see it. */
void place_shut(struct task *t);
/* The memory gets a second thread that runs: no more answers by path. */
void place_many(struct task *t);
/* Every site is put back as it was, for good: the program wants these addresses. Also what must
 * come before a copy of the memory is taken elsewhere. */
int place_undo(struct task *t);
/* Does a mapping of [addr, addr+len) put something where the table is? */
bool place_is_hit(uint64_t addr, uint64_t len);

/* For the engine, around the fork of the zygote, which has the guests' side of it from here: the
 * table with its stubs, and the age. When it cannot be, k->age stays NULL. */
void place_begin(struct kernel *k, uint64_t stubs);
void place_forked(struct kernel *k);

/* The pieces, for tests. */
int place_kind(int64_t nr); /* PLACE_*; -1: never in place */
bool place_is_site(const uint8_t b[SITE_BYTES], uint32_t nr);
void place_jump(unsigned site, uint8_t ret[5]);
/* false: too long, empty. */
bool place_answer_make(struct place_answer *a, uint32_t nr, uint32_t arg, const char *path,
	uint64_t age, int64_t value);

struct place; /* of one memory */
void place_free(struct place *p);
struct place *place_copy(const struct place *p); /* NULL: none, or no memory */

#endif
