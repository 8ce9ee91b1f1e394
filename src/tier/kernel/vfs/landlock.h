/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_LANDLOCK_H
#define WARD_TIER_KERNEL_VFS_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/vfs/inode.h"

/*
 * Landlock inside the sandbox: rights that a task has given up. A domain is a stack of layers, each
 * with the rules of one ruleset; what a layer handles is refused unless one of its rules for the
 * file, or for a directory above it, allows it. Layers never change once they are in force.
 */
struct file_ops;
struct kernel;
struct task;

enum {
	LANDLOCK_EXECUTE = 1 << 0,
	LANDLOCK_WRITE = 1 << 1,
	LANDLOCK_READ = 1 << 2,
	LANDLOCK_LIST = 1 << 3,
	LANDLOCK_REMOVE_DIR = 1 << 4,
	LANDLOCK_REMOVE_FILE = 1 << 5,
	LANDLOCK_MAKE_CHAR = 1 << 6,
	LANDLOCK_MAKE_DIR = 1 << 7,
	LANDLOCK_MAKE_REG = 1 << 8,
	LANDLOCK_MAKE_SOCK = 1 << 9,
	LANDLOCK_MAKE_FIFO = 1 << 10,
	LANDLOCK_MAKE_BLOCK = 1 << 11,
	LANDLOCK_MAKE_SYM = 1 << 12,
	LANDLOCK_REFER = 1 << 13, /* to or from another directory: never without a rule */
	LANDLOCK_TRUNCATE = 1 << 14,
	LANDLOCK_IOCTL_DEV = 1 << 15,
	LANDLOCK_ALL = (1 << 16) - 1,
	/* What a file, and not only a directory, can be given. */
	LANDLOCK_OF_FILES = LANDLOCK_EXECUTE | LANDLOCK_WRITE | LANDLOCK_READ | LANDLOCK_TRUNCATE |
			    LANDLOCK_IOCTL_DEV,
};
enum { LANDLOCK_BIND = 1, LANDLOCK_CONNECT = 2, LANDLOCK_NET_ALL = 3 };
enum { LANDLOCK_ABSTRACT = 1, LANDLOCK_SIGNAL = 2, LANDLOCK_SCOPES = 3 };
enum { LANDLOCK_ABI = 6, LANDLOCK_LAYERS = 16, LANDLOCK_RULES_MAX = 4096 };

struct landlock_rule {
	struct inode *inode; /* reference; NULL: it is about @port */
	/* Reference: what it was called, where names are not remembered; else NULL. For walks. */
	struct dentry *name;
	uint32_t port, allowed;
};

/* What a ruleset handles, and how many rules it has. */
struct landlock_rights {
	uint32_t fs, net, scoped, count;
};

/* The newest layer of a domain. */
struct landlock {
	unsigned refs, depth;
	struct kernel *k;
	struct landlock *below; /* reference; NULL: the oldest */
	uint32_t fs, net, scoped, count;
	struct landlock_rule rules[]; /* in order, to be searched */
};

/* Takes the rule's references; gives them back. */
void landlock_rule_hold(const struct landlock_rule *r);
void landlock_rule_drop(const struct landlock_rule *r);
/* For qsort: of two rules about the same thing neither comes first. The same in another kernel that
 * has the same file systems. */
int landlock_rule_order(const void *a, const void *b);
/* The rules of a ruleset's descriptor (borrowed), and how many; 0 for any other file. */
uint32_t ruleset_rules(const struct file *f, const struct landlock_rule **ret);
extern const struct file_ops ruleset_ops; /* sys/landlock.c */

/* A layer on top of @below (NULL: none; a reference is taken) with copies of the rules; its one
 * reference. -E2BIG: too many layers, or rules in the sandbox. */
int landlock_add(struct kernel *k, struct landlock *below, const struct landlock_rights *what,
	const struct landlock_rule *rules, struct landlock **ret);
struct landlock *landlock_ref(struct landlock *d); /* NULL stays NULL */
void landlock_unref(struct landlock *d);

/* A place in no tree that a guest could name: pipes, memory files. */
bool landlock_is_nowhere(const struct kernel *k, struct path p);
/* May @t do all of @want (LANDLOCK_*) at @p? 0 or -EACCES. */
int landlock_path(struct task *t, struct path p, unsigned want);
/* The right to make something of this type. */
unsigned landlock_make(uint32_t mode);
/* May @t open it so? *ret_refused: LANDLOCK_TRUNCATE and _IOCTL_DEV, when they are. */
int landlock_open(
	struct task *t, struct path p, unsigned flags, bool run, bool cut, unsigned *ret_refused);
/* An ioctl of an open device that was opened without the right to it. */
int landlock_ioctl(const struct file *f, unsigned cmd);

/* @old in @from gets a name, or its only one, in @to, where @over may be. */
struct landlock_move {
	struct path from, to;
	struct dentry *old, *over;
	bool removes, swaps;
};
int landlock_refer(struct task *t, const struct landlock_move *m); /* 0, -EACCES, -EXDEV */
int landlock_mount(const struct task *t); /* the tree stays as it is: 0 or -EPERM */
int landlock_port(const struct task *t, unsigned want, uint16_t port); /* 0 or -EACCES */
/* Is everything that is refused to @d refused to @other, too? For ptrace and /proc. */
bool landlock_covers(const struct landlock *d, const struct landlock *other);
/* Does a layer of @from keep it (@scope) from reaching @to? */
bool landlock_scoped(const struct landlock *from, const struct landlock *to, unsigned scope);

#endif
