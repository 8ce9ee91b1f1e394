/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/tier.c - the list of tiers, and the calls that go through a tier's table.
 *
 * Owns:  the list.
 * Rules: no knowledge of any one wall.
 */
#include <errno.h>
#include <stddef.h>

#include "base/ckd.h"
#include "tier/tier_impl.h"

static const struct tier_ops *const tiers[] = {
#define TIER(id) &tier_##id,
#include "tier/tiers.def"
#undef TIER
};

const struct tier_ops *const *tier_list(unsigned *ret_count)
{
	*ret_count = ARRAY_LEN(tiers);
	return tiers;
}

const struct tier_ops *tier_by_wall(enum wall w)
{
	for (size_t i = 0; i < ARRAY_LEN(tiers); i++)
		if (tiers[i]->wall == w)
			return tiers[i];
	return NULL;
}

const char *tier_name(const struct tier_ops *t)
{
	return t->name;
}

const char *tier_what(const struct tier_ops *t)
{
	return t->what;
}

enum wall tier_wall(const struct tier_ops *t)
{
	return t->wall;
}

int tier_probe(const struct tier_ops *t, struct err *e)
{
	return t->probe(e);
}

int box_start(const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e)
{
	const struct tier_ops *t = tier_by_wall(plan->wall);

	if (!t)
		return err_say(e, ENOSYS, "this build has no %s tier", wall_name(plan->wall));
	return t->start(plan, trail, ret_box, e);
}

const struct box_fds *box_fds(const struct box *box)
{
	return &box->fds;
}

const char *box_workdir(const struct box *box)
{
	return box->workdir;
}

const char *const *box_env(const struct box *box)
{
	return box->env;
}

void box_trail(const struct box *box, struct trail *ret_trail)
{
	if (box->shared)
		trail_copy(ret_trail, box->shared);
	else
		*ret_trail = (struct trail){ 0 };
}

void box_kill(struct box *box)
{
	box->ops->kill(box);
}

int box_reap(struct box *box, int *ret_status, struct usage *ret_usage)
{
	*ret_usage = (struct usage){ UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, 0, false };
	if (!box->pid)
		return -ECHILD;
	box->ops->reap(box, ret_usage);
	*ret_status = box->status;
	return 0;
}

void box_stop(struct box *box)
{
	if (box)
		box->ops->stop(box);
}
