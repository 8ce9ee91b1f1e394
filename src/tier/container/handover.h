/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_CONTAINER_HANDOVER_H
#define WARD_TIER_CONTAINER_HANDOVER_H

#include "tier/container/container.h"

/*
 * What ward could only make once the first process existed (its user namespace is needed for the id
 * maps): two messages on the channel, before any frame. This one has the mounts, and its arrival
 * says that the maps are written; the second has the cgroups, which are made meanwhile
 * (cgroup_send()).
 */
int handover_send(struct container *c, int channel, struct err *e);
int handover_receive(struct container *c, int channel, struct err *e);

#endif
