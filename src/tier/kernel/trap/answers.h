/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_ANSWERS_H
#define WARD_TIER_KERNEL_TRAP_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tier/kernel/shim/shim.h"

struct cred;
struct dentry;
struct kernel;
struct loader;
struct path;
struct task;

/*
 * What was asked by path, in a table that all guests of the sandbox read and only we write, and the
 * ages that say how long it holds. All under the kernel lock, and nothing at all while k->age is
 * NULL.
 */

/* Maps ages and table where guests will have them; false: it cannot be. */
bool answers_begin(struct kernel *k);

/* What call @nr may change: one of these. Names and attributes are told by who changes them. */
enum answers_effect { EFFECT_NONE, EFFECT_WHO, EFFECT_CRED, EFFECT_ALL };
enum answers_effect answers_effect(int64_t nr);
/* The call was made. @before: the cred that its task had, where the effect is EFFECT_CRED. */
void answers_called(struct task *t, enum answers_effect effect, const struct cred *before);
void answers_who(struct kernel *k);                /* who somebody is */
void answers_all(struct kernel *k);                /* anything */
void answers_files(struct kernel *k);              /* what stat says of a file */
void answers_proc(struct kernel *k, unsigned age); /* one of AGE_PROC */
void answers_signals(struct kernel *k);            /* what signals do, not by rt_sigaction */
void answers_names(struct dentry *dir);            /* a name in @dir */
/* @t's call walks through @dir: an answer holds as long as the names in it. */
void answers_walked(struct task *t, const struct dentry *dir);

/* Whose answers @t may have: who it is and where its root lies; 0: nobody's. */
uint32_t answers_view(struct task *t);
/* Can nothing of what lies at @p change? */
bool answers_fixed(struct task *t, struct path p);
/* @data is what the call in task->call writes to its result. */
void answers_keep(struct task *t, const void *data, size_t len);
const uint8_t *answers_kept(const struct task *t);
/* PLACE_TEXT bytes for whoever needs them under the lock; NULL: no memory. */
uint8_t *answers_text(struct kernel *k);
/* Where place_text.c keeps what it knows of the loader. */
struct loader **answers_loader(struct kernel *k);
/* Nothing is lent any more to anybody: somebody wants to hear of each read and close. */
void answers_take_back(struct kernel *k);

/* false: too long, empty, not from the root. */
bool answer_make(
	struct place_answer *a, uint32_t nr, uint32_t arg, const char *path, int64_t value);
/* Leaves @a for the view; true: it was there already. */
bool answers_put(struct task *t, struct place_answer *a, uint32_t view);

#endif
