/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_PATH_H
#define WARD_TIER_KERNEL_VFS_PATH_H

#include "tier/kernel/limits.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/vfs.h"

/*
 * A walk that stops before the last name, for those who want to make, remove or open it. One struct
 * on the caller's stack from step_begin() to step_done().
 */
enum last_kind { LAST_NAME, LAST_DOT, LAST_DOTDOT, LAST_ROOT };

struct step {
	struct task *task;
	unsigned flags, links;
	struct path root; /* where "/" and ".." end; borrowed */
	struct path at;   /* a reference: the directory that we are in */
	const char *rest; /* what is still to be walked */
	char *owned;      /* the text that rest points into, after a symbolic link */
	enum last_kind kind;
	bool slash; /* the last name has one behind it */
	size_t len;
	char name[GUEST_NAME_MAX + 1];
};

int step_begin(struct step *s, struct task *t, int dirfd, const char *path, unsigned flags);
/* Walks to the last name: kind, name and slash. */
int step_to_last(struct step *s);
/* The dentry of s->name below s->at (negative or not), mounts not crossed; a reference. */
int step_lookup(struct step *s, struct dentry **ret);
/* From the directory into @d (takes the reference), and into what is mounted there. */
int step_enter(struct step *s, struct dentry *d);
/* @d (borrowed) is a symbolic link in s->at: s->rest becomes where it leads (call step_to_last), or
 * a magic link puts s->at there: 1. */
int step_follow(struct step *s, struct dentry *d);
int step_up(struct step *s); /* ".." */
void step_done(struct step *s);

#endif
