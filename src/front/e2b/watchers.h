/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_WATCHERS_H
#define WARD_FRONT_E2B_WATCHERS_H

struct front;

/* Drops every polled watcher. */
void watchers_done(struct front *f);

#endif
