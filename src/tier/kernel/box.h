/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_BOX_H
#define WARD_TIER_KERNEL_BOX_H

#include "base/limits.h"
#include "tier/cgroup.h"
#include "tier/tier_impl.h"

/*
 * The kernel tier from ward's side. The first process becomes the kernel process; everything that a
 * guest does happens below it, in its pid namespace. As root ("rooted") ward makes the views of
 * host directories outside and hands them over; as an ordinary user the first process makes them.
 */
enum { KBOX_BINDS_MAX = 16, KBOX_PIDS_OWN = 32 };

struct kernel_report;

struct kbox {
	struct box box; /* first */
	struct cgroup cg;
	bool paused; /* every process is frozen */
	bool rooted;
	unsigned bind_bits; /* bind_name(i) of the host is part of the root */
	/* Views: made by ward, owned by the first process after the hand-over. */
	int upper;
	int lowers[LAYERS_MAX], binds[KBOX_BINDS_MAX], mounts[MOUNTS_MAX];
	unsigned lower_count, bind_count, mount_count;
	struct kernel_report *report; /* shared with the kernel process */
};

static inline struct kbox *kbox_of(struct box *box)
{
	return (struct kbox *)box;
}

/* views of the plan's directories; @user_ns as in view_host(), or -2: as an ordinary user */
int kbox_views(struct kbox *b, int user_ns, struct err *e);
void kbox_close_views(struct kbox *b);

/* handover.c: as root, before the cgroups; that it came says that the ids are mapped */
int kbox_send(struct kbox *b, int channel, struct err *e);
int kbox_receive(struct kbox *b, int channel, struct err *e);

/* first.c: the tree of the plan, as vfs/ wants it; the views are @k's from then on */
struct kernel;
int kbox_tree(struct kbox *b, struct kernel *k, struct err *e);
/* becomes the kernel process; never returns */
void kbox_first(struct box *box, int channel) __attribute__((noreturn));

#endif
