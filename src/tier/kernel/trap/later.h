/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_LATER_H
#define WARD_TIER_KERNEL_TRAP_LATER_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/shim/shim.h"

struct kernel;
struct mm;
struct task;

/*
 * Calls that are answered in the guest and made later. A process with one thread that is the only
 * one to have a file open can be told at once what becomes of a lock, a small write, a sync or a
 * close: nobody else is there to be in its way or to look. The shim puts the call into a log that
 * both share (shim.h), and whoever comes to the kernel process next, for whatever it asks, finds it
 * made: everything that lies in any log of the sandbox is made at the begin of each section, in
 * order, with the rights that its process has. So nobody can see that it was late.
 *
 * What may be answered is decided at the end of each section, descriptor by descriptor, from what
 * is so then (later_may()), and holds until the next one ends. There is nothing to be called back
 * by others: who opens a file does it in a section.
 *
 * A log is the guest's word, like any call. All under the kernel lock.
 */
struct later;
enum { LATER_MAX = 8 /* logs in a sandbox */ };

/* The begin of a section. @mm: whose call it is, or NULL; what it was told is told anew. */
void later_run(struct kernel *k, const struct mm *mm);
/* The end of a section. */
void later_open(struct kernel *k);
/* @t ends, or its memory is not to be shared any more: what lies there is made, and no more comes.
 */
void later_end(struct task *t);
void later_free(struct later *l); /* its memory goes */
void later_done(struct kernel *k);

/* LATER_* that would be the same whether made now or later, for descriptor @fd of @t. */
unsigned later_may(struct task *t, int fd);
/* A log for @t, whose call is over and gets the order to map it. NULL: not now. */
struct later *later_begin(struct task *t);
/* What was read of @fd is not so any more; -1: of any. */
void later_forget(struct later *l, int fd);
/* @t has read @len bytes of @fd at @at, and got @value. */
void later_keep_read(struct later *l, int fd, uint32_t len, int64_t at, int64_t value);

/* The pieces, for tests: a log in any memory; is it refused for good? */
struct later *later_attach(struct task *t, struct place_log *log);
bool later_is_spoiled(const struct later *l);

#endif
