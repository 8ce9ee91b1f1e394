/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_CONTAINER_HANDOVER_H
#define WARD_TIER_CONTAINER_HANDOVER_H

#include "tier/container/container.h"

/*
 * What ward could only make once the first process existed (its user namespace is needed for the id
 * maps): one message on the channel, before any frame. Its arrival says that the maps are written.
 */
int handover_send(struct container *c, int channel, struct err *e);
int handover_receive(struct container *c, int channel, struct err *e);

#endif
