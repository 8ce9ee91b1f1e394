/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_CARRY_H
#define WARD_TIER_KERNEL_TRAP_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tier/kernel/shim/shim.h"

struct mm;
struct task;

/*
 * What a call reads and writes, beside it (shim.h). To read or write the memory of another process
 * costs half of what a call does; here it is a copy. All of it holds from carry_begin() to
 * carry_end(), which is one call, without a wait in between: while it is so mm->carried is set, and
 * host.c asks here first.
 *
 * Under the kernel lock.
 */
struct carried {
	struct mm *mm; /* whose call it is; NULL: none is carried */
	struct place_carry *page;
	uint64_t in_at, room_at, lent;
	uint32_t in_len, room_len;
	struct {
		int64_t pos;
		uint64_t closed;
	} files[CARRY_LENT];
	unsigned outs;
	uint32_t used; /* of the page's data */
	struct {
		uint64_t at;
		uint32_t len, from;
	} out[CARRY_OUTS];
	uint8_t in[CARRY_IN];
};

/* The memory behind @fd, which has the right size for good; NULL: no memory. Keeps no @fd. */
struct place_carry *carry_map(int fd);
void carry_unmap(struct place_carry *page);
/* @mm ends, or has no such page any more. */
void carry_drop(struct mm *mm);

/* A call of @t, made by the shim, is about to be made here. Where it comes from; 0: it is not
 * carried. */
uint64_t carry_begin(struct carried *c, struct task *t);
/* The same for one that has waited: it may write to the @len bytes at @room. */
void carry_again(struct carried *c, struct task *t, uint64_t room, uint32_t len);
/* Nothing is on its way any more: what was left for the guest lies in its memory. */
void carry_flush(struct carried *c);
/* The guest finds there what was left for it, and copies it before its next step. */
void carry_end(struct carried *c);

/* For who copies: how much of these bytes is here, whole or (@part) from their begin on; 0: ask the
 * guest's memory. */
size_t carry_read(struct carried *c, void *dst, uint64_t src, size_t len, bool part);
/* All of it, or none: then it has to go to the guest's memory. */
bool carry_write(struct carried *c, const struct iovec *to, const struct iovec *from, unsigned n);
/* What the guest did with file @fd, which is lent; false: it does not say. */
bool carry_lent(const struct carried *c, unsigned fd, int64_t *ret_pos, bool *ret_closed);

#endif
