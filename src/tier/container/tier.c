/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "tier/tier_impl.h"

static int container_probe(struct err *e)
{
	return err_say(e, ENOSYS, "being written");
}

const struct tier_ops tier_container = {
	.name = "container",
	.what = "namespaces, cgroups, seccomp and an overlay root",
	.wall = WALL_CONTAINER,
	.probe = container_probe,
};
