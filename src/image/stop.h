/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_STOP_H
#define WARD_IMAGE_STOP_H

#include <stdbool.h>

#include "base/err.h"

/*
 * Ctrl-C in the middle of an import must leave nothing behind. The signals that ask for an end are
 * blocked while something is under way; long loops look whether one is waiting, fail, and undo.
 * Unblocking then lets the signal do its work.
 */
void stop_block(void);
void stop_unblock(void);
bool stop_asked(void);
int stop_check(struct err *e); /* 0, or -EINTR */

#endif
