/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_NOTIFY_H
#define WARD_SUP_NOTIFY_H

#include <stdbool.h>

#include "sup/end.h"

/*
 * Answers one denied call on the seccomp listener @fd with EPERM and notes it. False: the listener
 * is to be closed, because everyone behind it is gone or it was used too often: a closed listener
 * makes the kernel refuse by itself, and costs nobody anything.
 */
bool notify_answer(int fd, struct sighting *seen);

#endif
