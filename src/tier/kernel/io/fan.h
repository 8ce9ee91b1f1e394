/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_FAN_H
#define WARD_TIER_KERNEL_IO_FAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/task/wait.h"
#include "tier/kernel/vfs/inode.h"

/* What the files of fanotify share: io/fanotify.c, fanqueue.c, fanask.c. */
struct uio;
struct walk;

enum { FAN_BUCKETS = 64 };

/* Lists of marks on one object have one of a group at most, in the order of groups. */
struct fan_mark {
	struct fan_group *group;
	unsigned type;         /* FAN_M_MOUNT, FAN_M_SUPER or 0 */
	unsigned flags;        /* FAN_M_IGNORE, SURVIVES, EVICTABLE */
	uint32_t mask, ignore; /* FAN_W_* */
	struct inode *inode;   /* reference */
	struct mount *mnt;     /* borrowed: it says when it goes; so does */
	struct super *sb;
	struct fan_mark *next;   /* of the group */
	struct fan_mark **place; /* in the group */
	struct fan_mark *beside; /* of the object */
};

struct fan_event {
	struct fan_event *next;
	struct fan_event *same, **same_at; /* in its bucket; NULL: in none */
	uint32_t mask, hash;
	int32_t pid;
	int64_t born;     /* of that process */
	struct path path; /* references; dentry NULL: none */
	bool has_dir, has_new, has_object;
	uint64_t dev, dir, new_dir, object; /* numbers of a file system and inodes in it */
	struct fan_ask *ask;
	uint16_t name_len, new_len; /* without NUL */
	char names[];               /* both, each with NUL */
};

struct fan_group {
	struct kernel *k;
	unsigned flags, event_flags;
	uint64_t order; /* who is told, and asked, first: by class, then by age */
	struct fan_group *next;
	struct fan_mark *marks;
	unsigned mark_count;
	struct fan_event *first, *last, *buckets[FAN_BUCKETS];
	uint32_t count;
	bool overflowed;
	struct fan_ask *asks;    /* all that wait for it */
	struct wait_queue wait;  /* readers */
	struct wait_queue asked; /* tasks that wait for an answer */
};

/* Somebody who waits. Hangs on its call and, until it is answered, on the group. */
struct fan_ask {
	struct fan_ask *next;       /* of the call */
	struct fan_ask *group_next; /* of the group */
	struct fan_group *group;    /* NULL: answered, or the group is gone */
	struct fan_event *event;    /* not yet read; the queue's */
	struct inode *inode;        /* reference */
	uint32_t mask;
	uint64_t order; /* of the group */
	int fd;         /* read: the descriptor by which it is answered */
	int answer;     /* 0 or a negative errno, once it is there */
};

struct fan_state {
	struct fan_group *groups; /* in their order */
	unsigned group_count, mark_count, event_count;
	uint64_t last_age;
};

/* fanqueue.c */
/* Queues what @g is to hear of @n, or joins it to what waits. @mask: what of it. @old, @new: which
 * ends of a rename. NULL: nothing was queued. */
struct fan_event *fan_queue(
	struct fan_group *g, const struct notify *n, uint32_t mask, bool old, bool new_end);
void fan_queue_flush(struct fan_group *g);
void fan_queue_walk(struct fan_group *g, struct walk *w);
/* Takes @e, the first or any, out of the queue and frees it. */
void fan_event_drop(struct fan_group *g, struct fan_event *e);
size_t fan_event_size(const struct fan_group *g, const struct fan_event *e);
ssize_t fan_read(struct fan_group *g, struct uio *io);

/* fanask.c */
void fan_ask_read(struct fan_ask *a, int fd); /* the event has been read */
void fan_ask_answer(struct fan_ask *a, int answer);
int fan_answer_fd(struct fan_group *g, int fd, int answer); /* -ENOENT */
void fan_asks_end(struct fan_group *g);

/* fanotify.c: the part of @mask that @g is to hear, from its marks among @marks. */
enum { FAN_AT_INODE, FAN_AT_PARENT, FAN_AT_NEW_DIR, FAN_AT_MOUNT, FAN_AT_SUPER, FAN_PLACES };
struct fan_round {
	struct fan_mark *at[FAN_PLACES];    /* where each list is */
	struct fan_mark *marks[FAN_PLACES]; /* of this group */
	struct fan_group *group;
	bool matched[FAN_PLACES];
};
void fan_round_begin(struct fan_round *r, const struct notify *n);
bool fan_round_next(struct fan_round *r);
uint32_t fan_round_mask(struct fan_round *r, uint32_t mask);

#endif
