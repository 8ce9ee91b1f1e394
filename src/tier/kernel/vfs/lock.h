/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_LOCK_H
#define WARD_TIER_KERNEL_VFS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * flock, and record locks of fcntl: those of a process (which belong to its descriptor table) and
 * those of an open file. They hang on inode->locks.
 */
struct file;
struct files;
struct inode;
struct kernel;
struct task;

enum lock_kind { LOCK_FLOCK, LOCK_POSIX, LOCK_OFD };

struct lock_range {
	enum lock_kind kind;
	bool write;
	const void *owner;  /* struct files (POSIX) or struct file */
	int64_t start, end; /* the last byte too; INT64_MAX: to the end */
	int32_t pid;        /* for F_GETLK; -1 for OFD */
};

/* The lock of others in the way of @want that begins first, or NULL. */
const struct lock_range *lock_conflict(const struct inode *i, const struct lock_range *want);
/* Sets it over what the owner had there; the caller has looked for conflicts. -ENOLCK. */
int lock_set(struct kernel *k, struct inode *i, const struct lock_range *want);
/* Takes the owner's locks in the range away, and wakes those who wait. */
int lock_clear(struct kernel *k, struct inode *i, const struct lock_range *range);
/* Waits for a conflict to go: wait_block()'s answers, -EDEADLK for a circle of processes. */
long lock_wait(struct task *t, struct inode *i, const struct lock_range *want);

/* A descriptor of @f is closed by @t: all POSIX locks that its table has on the inode go. */
void locks_close(struct kernel *k, struct file *f, const struct files *owner);
/* The last reference of @f goes: flock and OFD locks. */
void locks_release(struct file *f);
void locks_free(struct inode *i);

bool locks_any(const struct inode *i);
/* All locks of a numbered inode; files and tables are numbered, too. */
struct walk;
void locks_walk(struct kernel *k, struct inode *i, struct walk *w);

#endif
