/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_NS_NS_H
#define WARD_TIER_KERNEL_NS_NS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Namespaces: pure state of ours, the host knows nothing of them. The first one of each kind is
 * nowhere: NULL stands for it, in a task, in a cred and in whatever belongs to one. So a sandbox
 * that makes none pays nothing. All under the kernel lock.
 */
struct cred;
struct file;
struct inode;
struct kernel;
struct path;
struct task;
struct user_ns;
struct walk;

enum ns_kind { NS_CGROUP, NS_IPC, NS_MNT, NS_NET, NS_PID, NS_TIME, NS_USER, NS_UTS, NS_KINDS };

/* What all kinds begin with. */
struct ns {
	unsigned refs;
	enum ns_kind kind;
	uint32_t number; /* as /proc/PID/ns shows it; never used again */
	struct kernel *k;
	struct user_ns *owner; /* reference; of a user namespace its parent */
	struct ns *next;       /* all of the kernel, oldest first */
};

/* The host name of one: sys/misc.c and /proc/sys/kernel show and set it. */
struct uts_ns {
	struct ns ns;
	char hostname[65], domainname[65];
};
char *uts_hostname(const struct task *t); /* 65 bytes; "" for a first one that has no name */
char *uts_domainname(const struct task *t);
/* May @t change either? */
bool uts_may_change(const struct task *t);

/* What a task has besides its cred's; never changed once it is somebody's. */
struct ns_set {
	unsigned refs;
	struct ns *of[NS_KINDS]; /* references; [NS_USER] is not used, [NS_PID] is its children's */
};

struct ns *ns_ref(struct ns *n); /* NULL stays NULL */
void ns_unref(struct ns *n);
/* A new one of @size bytes, zeroed but for the head, with one reference. NULL: *@ret_err says why.
 */
void *ns_create(
	struct kernel *k, enum ns_kind kind, size_t size, struct user_ns *owner, int *ret_err);
/* The same for one that there was already: /proc/sys/user has no say. */
void *ns_make(
	struct kernel *k, enum ns_kind kind, size_t size, struct user_ns *owner, int *ret_err);
struct ns *ns_find(struct kernel *k, enum ns_kind kind, uint32_t number); /* borrowed, or NULL */
uint32_t ns_number(enum ns_kind kind, const struct ns *n);
const char *ns_name(enum ns_kind kind); /* "uts" */
uint64_t ns_flag(enum ns_kind kind);    /* CLONE_NEWUTS */
#define NS_FLAGS 0x7e020080ULL          /* all of these */
enum { NS_TIME_FLAG = 0x80 };

/* The one that @t is in. */
struct ns *ns_of(const struct task *t, enum ns_kind kind);
/* The one that its children will be in: of those in its set. */
struct ns *ns_for_children(const struct task *t, enum ns_kind kind);
struct ns_set *ns_set_ref(struct ns_set *s);
void ns_set_unref(struct ns_set *s);
void ns_set_walk(struct ns_set **s, struct walk *w);

/* The namespaces of @n, which @t makes with clone's @flags; it has @t's cred already. */
int ns_inherit(struct task *n, struct task *t, uint64_t flags);
/* unshare(2) for itself, and setns(2): all of @flags that are namespaces, or none. */
int ns_unshare(struct task *t, uint64_t flags);
int ns_enter(struct task *t, enum ns_kind kind, struct ns *to);
/* All of those of @of that @flags name. */
int ns_enter_all(struct task *t, const struct task *of, uint64_t flags);

/* nsfs.c: namespaces as files. */
extern const struct file_ops ns_file_ops;
int nsfs_init(struct kernel *k);
void nsfs_done(struct kernel *k);
/* The place of a namespace, with references: what /proc/PID/ns/uts leads to. */
int nsfs_path(struct kernel *k, enum ns_kind kind, struct ns *n, struct path *ret);
/* Is it the file of a mount namespace, and made no later than @t's? Mounted there it would hold
 * itself.
 */
bool nsfs_is_loop(const struct task *t, const struct inode *i);
bool nsfs_is_mnt(const struct inode *i);
/* Of an open file: false: it is none. */
bool nsfs_file(const struct file *f, enum ns_kind *ret_kind, struct ns **ret);

/* nswalk.c: all of them, oldest first: owners before what they own. */
void namespaces_walk(struct kernel *k, struct walk *w);
/* A reference to one of @kind that has its number; loading takes a reference. */
void ns_ref_walk(struct walk *w, const char *name, enum ns_kind kind, struct ns **n);

#endif
