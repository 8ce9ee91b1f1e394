/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_NETWORK_H
#define WARD_HUB_NETWORK_H

#include "hub/hub.h"

/* INVALID, naming the rule that is none. */
int network_check(const struct hub_network *net, struct hub_fail *f);

#endif
