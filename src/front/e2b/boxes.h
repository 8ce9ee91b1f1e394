/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_BOXES_H
#define WARD_FRONT_E2B_BOXES_H

#include "base/buf.h"
#include "hub/hub.h"

/* What clients are told about envd: all of its features up to this version are here. */
#define E2B_ENVD_VERSION "0.6.4"

/* A sandbox in the three shapes of the API. @domain: of the daemon. */
void box_json_sandbox(struct buf *b, const struct hub_box *box, const char *domain);
void box_json_listed(struct buf *b, const struct hub_box *box);
void box_json_detail(struct buf *b, const struct hub_box *box, const char *domain);

/* One point of a sandbox's curve. */
void box_json_metric(struct buf *b, const struct hub_box *box, const struct hub_sample *s);

#endif
