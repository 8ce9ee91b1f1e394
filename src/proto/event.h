/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PROTO_EVENT_H
#define WARD_PROTO_EVENT_H

#include "proto/client.h"

/* One frame of an agent, checked. 0, or -EPROTO: no honest agent says that. */
int proto_event_read(struct proto_event *ev, const struct frame *f);

#endif
